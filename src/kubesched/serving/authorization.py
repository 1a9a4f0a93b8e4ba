"""May they? Paths that anybody may ask for, members of system:masters; for all else the API server decides.

Its answers are remembered, each kind for its own time (kube-scheduler v1.36: 10 s for both). When it cannot be asked,
the request fails; it is never let through.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from kubesched.clock import Clock
from kubesched.serving.identity import MASTERS, Access, Reviews, User

_REMEMBERED_MAX: Final = 4096
_NO_OPINION: Final = Access(False)


class Authorizer:
    """`always_allow` are paths; one that ends in `*` is a prefix."""

    def __init__(
        self,
        reviews: Reviews | None,
        clock: Clock,
        *,
        always_allow: tuple[str, ...] = ("/healthz", "/readyz", "/livez"),
        remember_yes_s: float = 10.0,
        remember_no_s: float = 10.0,
    ) -> None:
        paths = ["/" + path.removeprefix("/") for path in always_allow]
        self._open_paths = frozenset(path for path in paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._reviews = reviews
        self._clock = clock
        self._remember_s = {True: remember_yes_s, False: remember_no_s}
        self._known: OrderedDict[Hashable, tuple[float, Access]] = OrderedDict()

    async def access(self, user: User, verb: str, path: str) -> Access:
        """Raises `ReviewError`."""
        if path in self._open_paths or (self._open_prefixes and path.startswith(self._open_prefixes)):
            return Access(True)
        if MASTERS in user.groups:
            return Access(True)
        if self._reviews is None:
            return _NO_OPINION
        key = (user, tuple(sorted(user.extra.items())), verb, path)
        known = self._known.get(key)
        if known is not None:
            if known[0] > self._clock.monotonic():
                return known[1]
            del self._known[key]
        access = await self._reviews.access(user, verb, path)
        self._known[key] = (self._clock.monotonic() + self._remember_s[access.allowed], access)
        while len(self._known) > _REMEMBERED_MAX:
            self._known.popitem(last=False)
        return access
