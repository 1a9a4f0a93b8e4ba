"""A TCP proxy between a client and the embedded API server, for what happens below HTTP.

A `Fault` sees every piece of bytes with the request that it belongs to (the last one that was begun on the connection)
and says what becomes of it: `None` lets it pass, bytes go in its place, `Cut` ends the connection after some bytes, and
`Hang` swallows everything from here on while the connection stays open, as a host that is gone without a word.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field

_REQUEST_LINE = re.compile(rb"^(?:GET|POST|PUT|PATCH|DELETE) (\S+) HTTP/1\.1\r\n", re.M)
#: How long whoever got half a message may take to notice; only guards against a test that would hang.
_LINGER_S = 30.0


@dataclass(frozen=True)
class Cut:
    passing: bytes = b""


class Hang:
    pass


class Fault:
    """`hits` counts how often it did something; subclasses call `hit`."""

    def __init__(self) -> None:
        self.hits = 0

    def hit(self) -> None:
        self.hits += 1

    def on_connect(self, number: int) -> bool:
        """Whether the connection is taken."""
        return True

    def on_request(self, target: str, piece: bytes) -> bytes | Cut | Hang | None:
        return None

    def on_answer(self, target: str, piece: bytes, seen: int) -> bytes | Cut | Hang | None:
        """`seen`: pieces of answers on this connection since the request was begun."""
        return None


Judge = Callable[[bytes], "bytes | Cut | Hang | None"]


@dataclass
class Proxy:
    upstream_port: int
    fault: Fault
    port: int = 0
    connections: int = 0
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.sleep(0)  # connections are closed one turn after they were told to be

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Not itself a coroutine: one that is cancelled before its first step would leave the connection open."""
        self.connections += 1
        if not self.fault.on_connect(self.connections):
            writer.transport.abort()
            return
        task = asyncio.create_task(self._take(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: writer.transport.abort())

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            await _Connection(self.fault).run(reader, writer, self.upstream_port)


class _Connection:
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._target = ""
        self._seen = 0
        self._hangs = False
        self._is_cut = False

    async def run(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter, port: int) -> None:
        server, to_server = await asyncio.open_connection("127.0.0.1", port)
        ways = [
            asyncio.create_task(self._pump(client, to_server, self._request)),
            asyncio.create_task(self._pump(server, to_client, self._answer)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if self._hangs:
                await asyncio.wait(ways)  # the client gives up, at some time
            elif self._is_cut:
                await asyncio.wait(
                    ways, timeout=_LINGER_S
                )  # what was passed must arrive before the connection is reset
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            to_server.transport.abort()

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, judge: Judge) -> None:
        while piece := await source.read(1 << 16):
            if self._hangs or self._is_cut:
                continue
            verdict = judge(piece)
            if isinstance(verdict, Hang):
                self._hangs = True
                continue
            passing = piece if verdict is None else verdict.passing if isinstance(verdict, Cut) else verdict
            if passing:
                sink.write(passing)
                await sink.drain()
            if isinstance(verdict, Cut):
                self._is_cut = True
                sink.write_eof()
                return  # the other way ends when who was written to has hung up

    def _request(self, piece: bytes) -> bytes | Cut | Hang | None:
        begun = _REQUEST_LINE.findall(piece)
        if begun:
            self._target, self._seen = begun[-1].decode(), 0
        return self._fault.on_request(self._target, piece)

    def _answer(self, piece: bytes) -> bytes | Cut | Hang | None:
        self._seen += 1
        return self._fault.on_answer(self._target, piece, self._seen)
