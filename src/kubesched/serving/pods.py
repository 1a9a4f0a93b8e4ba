"""`/debug/pods/NAMESPACE/NAME`: one pod as the scheduler sees it, for `kubesched explain`.

A pod that does not exist is told apart from a path that is not served: its `Status` names the pod in `details`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, Final

from kubesched.serving.answers import Answer, Asked, failure, not_found

ROOT: Final = "/debug/pods"

#: Names as the API server accepts them: what comes in here may be asked of it with the scheduler's own rights.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class Pods:
    """`show` answers for a namespace and a name that may exist."""

    def __init__(self, show: Callable[[str, str], Awaitable[Answer]]) -> None:
        self._show = show

    async def answer(self, asked: Asked) -> Answer:
        match asked.path.removeprefix(ROOT).split("/"):
            case ["", namespace, name] if asked.method in ("GET", "HEAD"):
                if _NAME.fullmatch(namespace) and _NAME.fullmatch(name):
                    return await self._show(namespace, name)
                return no_such_pod(namespace, name)
        return not_found()


def no_such_pod(namespace: str, name: str) -> Answer:
    message = f"there is no pod {namespace}/{name}: neither this scheduler nor the API server knows it"
    return failure(404, "NotFound", message, _details(name))


def not_known(namespace: str, name: str, problem: str) -> Answer:
    message = f"this scheduler does not know pod {namespace}/{name}, and could not ask the API server: {problem}"
    return failure(503, "ServiceUnavailable", message, _details(name))


def _details(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "pods"}
