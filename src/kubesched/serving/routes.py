"""Which path is answered by whom."""

from __future__ import annotations

from kubesched.serving.answers import Answer, Asked, Handler, not_found


class Routes:
    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._prefixes: list[tuple[str, Handler]] = []

    def add(self, path: str, handler: Handler, *, and_below: bool = False) -> None:
        """`and_below`: the handler answers for everything under the path, too."""
        self._exact[path] = handler
        if and_below:
            self._prefixes.append((path.rstrip("/") + "/", handler))

    async def answer(self, asked: Asked) -> Answer:
        handler = self._exact.get(asked.path)
        if handler is None:
            handler = next((found for prefix, found in self._prefixes if asked.path.startswith(prefix)), None)
        return not_found() if handler is None else await handler(asked)
