"""Stand-ins that the client's seams are made for: a transport in memory, a clock that never makes anyone wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from kubesched.apiserver import Answer as ServerAnswer
from kubesched.apiserver import Request as ServerRequest
from kubesched.apiserver import Server
from kubesched.client.transport import Request, Response, Stream
from kubesched.clock import ManualClock


class QuickClock(ManualClock):
    """Whoever sleeps wakes up at once, later by as much as asked; `slept` tells how much that was."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)


@dataclass
class Sent:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"null")


Answer = Callable[[Sent], Response | BaseException] | Response | BaseException


@dataclass
class MemoryTransport:
    """Answers each request with the next of `answers` (then with the last again); an exception is raised."""

    answers: list[Answer]
    sent: list[Sent] = field(default_factory=list)
    certificates: list[Any] = field(default_factory=list)
    closed: int = 0

    async def send(self, request: Request) -> Response:
        sent = Sent(request.method, request.target, dict(request.headers), request.body)
        self.sent.append(sent)
        self.certificates.append(request.certificate)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await asyncio.sleep(0)
        result = answer(sent) if callable(answer) else answer
        if isinstance(result, BaseException):
            raise result
        return result

    async def open(self, request: Request) -> Stream:
        raise AssertionError("no stream expected")

    async def close(self) -> None:
        self.closed += 1


@dataclass
class InProcess:
    """The embedded API server without sockets between, so that manual time is all the time there is."""

    server: Server
    sent: list[Sent] = field(default_factory=list)
    before: Callable[[Sent], Awaitable[Response | None]] | None = None  # answers instead of the server, or lets it

    async def send(self, request: Request) -> Response:
        sent = Sent(request.method, request.target, dict(request.headers), request.body)
        self.sent.append(sent)
        if self.before is not None and (instead := await self.before(sent)) is not None:
            return instead
        parts = urlsplit(request.target)
        headers = {name.lower(): value for name, value in sent.headers.items()}
        asked = ServerRequest(request.method, parts.path, dict(parse_qsl(parts.query)), headers, request.body or b"")
        answer = await self.server.api.handle(asked)
        assert isinstance(answer, ServerAnswer)
        return Response(answer.status, answer.headers, answer.body)

    async def open(self, request: Request) -> Stream:
        raise AssertionError("no stream expected")

    async def close(self) -> None:
        pass


def reply(code: int = 200, body: Any = None, headers: Mapping[str, str] | None = None) -> Response:
    return Response(code, headers or {}, body if isinstance(body, bytes) else json.dumps(body).encode())


async def until(condition: Callable[[], bool]) -> None:
    """Lets the loop turn, network included, until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what is waited for tells nobody
            await asyncio.sleep(0)
