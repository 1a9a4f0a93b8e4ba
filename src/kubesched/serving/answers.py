"""A request as handlers see it, and answers as the original writes them. No HTTP library below this line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"
METRICS: Final = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"

_NOSNIFF: Final = {"X-Content-Type-Options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Asked:
    """Header names are lower case; repeated parameters of the query are all there."""

    method: str
    path: str
    query: Mapping[str, list[str]] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def parameter(self, name: str, default: str = "") -> str:
        values = self.query.get(name)
        return values[0] if values else default


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    content_type: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Asked], Awaitable[Answer]]


def text(body: str, status: int = 200, *, content_type: str = TEXT) -> Answer:
    return Answer(status, body.encode(), content_type, _NOSNIFF)


def plain(body: str | bytes, *, content_type: str = TEXT) -> Answer:
    """Without the header against sniffing, which the original sends with some pages only."""
    return Answer(200, body.encode() if isinstance(body, str) else body, content_type)


def json(document: Any) -> Answer:
    return Answer(200, msgspec.json.format(msgspec.json.encode(document)), JSON, _NOSNIFF)


def not_found() -> Answer:
    return text("404 page not found\n", 404)


def failure(code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> Answer:
    """A `Status` that says no."""
    document: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
    }
    if details is not None:
        document["details"] = details
    document["code"] = code
    return Answer(code, msgspec.json.encode(document), JSON)


def unauthorized() -> Answer:
    return failure(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, path: str, reason: str = "") -> Answer:
    message = f'forbidden: User "{user}" cannot {verb} path "{path}"'
    refused = failure(403, "Forbidden", f"{message}: {reason}" if reason else message, {})
    return Answer(refused.status, refused.body, refused.content_type, _NOSNIFF)
