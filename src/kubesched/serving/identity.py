"""Who asks, and whom we ask about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

AUTHENTICATED: Final = "system:authenticated"
UNAUTHENTICATED: Final = "system:unauthenticated"
MASTERS: Final = "system:masters"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


ANONYMOUS: Final = User("system:anonymous", (UNAUTHENTICATED,))


class Access(NamedTuple):
    allowed: bool
    reason: str = ""


class ReviewError(Exception):
    """The one who knows could not be asked; the text says why."""


class Reviews(Protocol):
    """What an API server says about callers."""

    async def token(self, token: str) -> User | None:
        """The user of a bearer token; None when it is not valid. Raises `ReviewError`."""
        ...

    async def access(self, user: User, verb: str, path: str) -> Access:
        """Whether the user may do this to a path that is no resource. Raises `ReviewError`."""
        ...
