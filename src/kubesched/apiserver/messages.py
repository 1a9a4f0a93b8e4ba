"""What goes in and out of the handlers: a `Request`, and an `Answer` or a `Stream`. No HTTP library below this line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.status import Refusal, bad_request
from kubesched.apiserver.store import encode
from kubesched.apiserver.watch import Watch

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


@dataclass(slots=True)
class Request:
    """One request, its body read whole. Header names are lower case; repeated query parameters keep the first."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    # Filled in by routing, and by whoever reads the body.
    resource: Resource | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    verb: str = ""
    impersonates: bool = False
    filled_in: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def target(self) -> Resource:
        assert self.resource is not None
        return self.resource

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").split(";", 1)[0].strip().lower()

    @property
    def dry_run(self) -> bool:
        return self.query.get("dryRun") == "All"

    @property
    def field_manager(self) -> str:
        """Who writes: the fieldManager parameter, else the user agent up to its first slash."""
        named = self.query.get("fieldManager")
        return named or self.headers.get("user-agent", "unknown").split("/", 1)[0] or "unknown"

    def number(self, name: str) -> int | None:
        """An integer parameter; None when absent or empty."""
        text = self.query.get(name, "")
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None

    def flag(self, name: str) -> bool:
        """A boolean parameter: present and not `false` or `0`."""
        text = self.query.get(name)
        return text is not None and text not in ("false", "0", "False", "FALSE", "F", "f")


@dataclass(slots=True)
class Answer:
    """A complete answer; `body` ends as it goes on the wire."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Stream:
    """A watch that has been opened. It ends when the watch is closed; `on_end` frees what belongs to it."""

    watch: Watch
    on_end: Callable[[], None]
    content_type: str = JSON


Reply = Answer | Stream
Proceed = Callable[[], Awaitable[Reply]]
Interceptor = Callable[[Request, Proceed], Awaitable[Reply]]
"""A test's way between client and handlers: look at the request, call `proceed` or not, return what the client gets."""


class DropConnection(Exception):
    """Raised by an interceptor: the connection is cut without an answer, whatever has been stored."""


def answer_json(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return Answer(status, encode(document), headers=dict(headers or {}))


def answer_refusal(refusal: Refusal) -> Answer:
    return Answer(refusal.code, refusal.body(), headers=dict(refusal.headers))


def answer_text(text: str, status: int = 200) -> Answer:
    return Answer(status, text.encode(), TEXT)


_BROWSERS = ("curl", "Wget", "Mozilla/5.0")


def finish_json(request: Request, body: bytes) -> bytes:
    """JSON as the client wants it: compact and a newline, or indented for people."""
    pretty = request.query.get("pretty")
    if pretty is None:
        wanted = request.headers.get("user-agent", "").startswith(_BROWSERS)
    else:
        wanted = pretty not in ("false", "0")
    if wanted:
        return msgspec.json.format(body, indent=2)
    return body + b"\n"
