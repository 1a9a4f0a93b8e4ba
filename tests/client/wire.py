"""A server that answers byte for byte what a test tells it: half lines, silence, cut connections, odd codes.

Each request takes the next step of the script; when the script is over, requests stay unanswered. For everything that a
real API server does, tests use the embedded one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

REASONS = {200: "OK", 201: "Created", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 410: "Gone"}


@dataclass(frozen=True)
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    peer_certificate: Any = None

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Reply:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self.connection_ends = False

    async def answer(self, code: int, body: Any = None, **headers: str) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = [f"HTTP/1.1 {code} {REASONS.get(code, 'X')}", f"Content-Length: {len(content)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n" + content)

    async def begin(self) -> None:
        await self.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")

    async def chunk(self, content: bytes) -> None:
        await self.raw(f"{len(content):x}\r\n".encode() + content + b"\r\n")

    async def events(self, *events: Any) -> None:
        """All in one chunk, one a line."""
        await self.chunk(b"".join(json.dumps(event).encode() + b"\n" for event in events))

    async def end(self) -> None:
        await self.raw(b"0\r\n\r\n")

    async def cut(self) -> None:
        self.connection_ends = True
        self._writer.transport.abort()

    async def raw(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()


Step = Callable[[Seen, Reply], Awaitable[None]]


class WireServer:
    def __init__(self, *script: Step, tls: ssl.SSLContext | None = None) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self._script = list(script)
        self._tls = tls
        self._arrivals: asyncio.Queue[Seen] = asyncio.Queue()
        self._handlers: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def then(self, *steps: Step) -> None:
        self._script += steps

    async def next_request(self) -> Seen:
        """The next request that has not been asked for by this method yet."""
        async with asyncio.timeout(60):
            return await self._arrivals.get()

    async def __aenter__(self) -> WireServer:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for handler in self._handlers:
            handler.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)
        await asyncio.sleep(0)  # connections are closed one turn after they were told to be

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not itself a coroutine: one that is cancelled before its first step would leave the connection open."""
        self.connections += 1
        handler = asyncio.create_task(self._serve(reader, writer))
        self._handlers.add(handler)
        handler.add_done_callback(lambda _: writer.transport.abort())

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await self._answer_all(reader, writer)

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            request_line, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            method, target, _ = request_line.split(" ")
            parts = urlsplit(target)
            certificate = writer.get_extra_info("peercert") if self._tls else None
            seen = Seen(method, parts.path, dict(parse_qsl(parts.query)), headers, body, certificate)
            self.seen.append(seen)
            self._arrivals.put_nowait(seen)
            step = self._script.pop(0) if self._script else park
            reply = Reply(writer)
            await step(seen, reply)
            if reply.connection_ends:
                return


async def park(seen: Seen, reply: Reply) -> None:
    """Keeps the client waiting."""
    await asyncio.Event().wait()


def answering(code: int, body: Any = None, **headers: str) -> Step:
    async def step(seen: Seen, reply: Reply) -> None:
        await reply.answer(code, body, **headers)

    return step


async def cutting(seen: Seen, reply: Reply) -> None:
    await reply.cut()


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "details": details, "code": code,
    }  # fmt: skip
