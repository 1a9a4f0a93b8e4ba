"""HTTP/1.1 for whole answers, on bare asyncio: what binds and events are sent with.

A general HTTP client spends more CPU on one small request than the scheduler does on deciding where the pod goes: a
bind, all layers of ours included, takes 170 µs with aiohttp and 55 µs with this. So calls take this way; streams and
proxies, where such a cost does not count, stay with aiohttp.

`ResponseParser` knows the bytes and nothing else; `plain_answer` knows those of nearly every answer there is. A `Pool`
keeps connections to one address and hands them out, first come first served. Nothing is sent twice, but for a GET whose
kept connection turns out to have been closed meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, cast

HEAD_MAX_BYTES: Final = 64 << 10
_SEPARATOR: Final = b"\r\n\r\n"


class ProtocolError(Exception):
    """The peer does not speak HTTP/1.1 as we know it."""


class DisconnectedError(ConnectionError):
    """The connection ended before the answer was complete. `untouched`: before its first byte."""

    def __init__(self, untouched: bool) -> None:
        self.untouched = untouched
        super().__init__("the server closed the connection " + ("without an answer" if untouched else "in mid-answer"))


class Headers(dict[str, str]):
    """Names are compared without case. Repeated ones are joined by commas."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and super().__contains__(name.lower())

    def get(self, name: str, default: str = "") -> str:  # type: ignore[override]
        return super().get(name.lower(), default)


class Answer:
    """A whole response."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body


#: Head of a success of HTTP/1.1 whose lines are all in order, but for a return in mid-line. (`.` is twice as fast as a
#: set without it.)
_SUCCESS: Final = re.compile(rb"HTTP/1\.1 (2\d\d)(?: .*)?\r\n(?:[!#-'*+\-.0-9A-Z^-z|~]+:.*\r\n)*\r\n")
_LENGTH: Final = re.compile(rb"(?i:\r\nContent-Length:) *(\d{1,15}) *\r\n")
_FRAMING: Final = re.compile(rb"(?i:\r\n(?:Content-Length|Transfer-Encoding|Connection):)")


def plain_answer(data: bytes) -> Answer | None:
    """The answer that `data` is, if it is a success with one length that came in one piece and leaves the connection
    open. None for all others: they are a `ResponseParser`'s."""
    head = _SUCCESS.match(data)
    if head is None:
        return None
    end = head.end()
    length = _LENGTH.search(data, 0, end)
    if data.count(b"\r", 0, end) != data.count(b"\n", 0, end):
        return None
    if length is None or end + int(length[1]) != len(data) or len(_FRAMING.findall(data, 0, end)) > 1:
        return None
    if head[1] == b"204":
        return None
    return Answer(int(head[1]), _UnreadHeaders(data[: end - 4]), data[end:])


class _UnreadHeaders(Mapping[str, str]):
    """Headers that are taken apart when somebody asks for one."""

    __slots__ = ("_head", "_read")

    def __init__(self, head: bytes) -> None:
        self._head = head
        self._read: Headers | None = None

    def _headers(self) -> Headers:
        if self._read is None:
            self._read = _parsed(self._head.decode("latin-1").split("\r\n")[1:])
        return self._read

    def __getitem__(self, name: str) -> str:
        return self._headers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._headers())

    def __len__(self) -> int:
        return len(self._headers())


class ResponseParser:
    """One response: feed it bytes until it says True. What is left over then breaks the connection's rules."""

    __slots__ = ("_buffer", "_left", "_parts", "_step", "body", "headers", "keeps_alive", "status")

    def __init__(self) -> None:
        self.status = 0
        self.headers = Headers()
        self.body = b""
        self.keeps_alive = True
        self._buffer = bytearray()
        self._parts: list[bytes] = []
        self._left = 0  # bytes still to come of the body, or of the present chunk
        self._step = self._head

    @property
    def has_begun(self) -> bool:
        return self.status != 0 or bool(self._buffer)

    def feed(self, data: bytes) -> bool:
        """True when the response is complete. Raises `ProtocolError`."""
        self._buffer += data
        return self._step()

    def end(self) -> bool:
        """The peer has closed its side: completes a response whose length only this tells."""
        if self._step == self._until_end:
            self.body = bytes(self._buffer)
            return True
        return False

    def _head(self) -> bool:
        end = self._buffer.find(_SEPARATOR)
        if end < 0:
            if len(self._buffer) > HEAD_MAX_BYTES:
                raise ProtocolError(f"no end of the headers within {HEAD_MAX_BYTES} bytes")
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        if not first.startswith("HTTP/1.") or not first[9:12].isdigit():
            raise ProtocolError(f"not an HTTP/1.1 answer: {first[:40]!r}")
        headers = self.headers = _parsed(lines)
        status = int(first[9:12])
        if 100 <= status < 200:
            return self._head()  # an interim answer: the real one follows
        self.status = status
        connection = headers.get("connection").lower()
        self.keeps_alive = connection == "keep-alive" if first.startswith("HTTP/1.0") else connection != "close"
        return self._begin_body()

    def _begin_body(self) -> bool:
        length = self.headers.get("content-length")
        if self.status in (204, 304):
            return True
        if self.headers.get("transfer-encoding").lower() == "chunked":
            self._step = self._chunk_size
        elif length:
            if not length.isascii() or not length.isdigit():
                raise ProtocolError(f"Content-Length {length[:40]!r}")
            self._left = int(length)
            self._step = self._sized
        else:
            self.keeps_alive = False
            self._step = self._until_end
        return self._step()

    def _sized(self) -> bool:
        self._take(self._left)
        if self._left:
            return False
        self.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        return True

    def _until_end(self) -> bool:
        return False

    def _chunk_size(self) -> bool:
        line = self._line()
        if line is None:
            return False
        size = line.partition(b";")[0].strip()
        try:
            self._left = int(size, 16)
        except ValueError:
            raise ProtocolError(f"chunk size {bytes(size[:40])!r}") from None
        if self._left < 0:
            raise ProtocolError(f"chunk size {bytes(size[:40])!r}")
        self._step = self._chunk if self._left else self._trailers
        return self._step()

    def _chunk(self) -> bool:
        self._take(self._left)
        if self._left or len(self._buffer) < 2:
            return False
        if not self._buffer.startswith(b"\r\n"):
            raise ProtocolError("a chunk that does not end where it said")
        del self._buffer[:2]
        self._step = self._chunk_size
        return self._chunk_size()

    def _trailers(self) -> bool:
        while (line := self._line()) is not None:
            if not line:
                self.body = b"".join(self._parts)
                return True
        return False

    def _line(self) -> bytes | None:
        end = self._buffer.find(b"\r\n")
        if end < 0:
            if len(self._buffer) > HEAD_MAX_BYTES:
                raise ProtocolError("a line without end")
            return None
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    def _take(self, most: int) -> None:
        if most and self._buffer:
            part = bytes(self._buffer[:most])
            del self._buffer[:most]
            self._parts.append(part)
            self._left -= len(part)

    @property
    def left_over(self) -> int:
        return len(self._buffer)


def _parsed(lines: Iterable[str]) -> Headers:
    headers = Headers()
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or name != name.strip():
            raise ProtocolError(f"not a header: {line[:40]!r}")
        name, value = name.lower(), value.strip()
        known = headers.get(name)
        dict.__setitem__(headers, name, f"{known}, {value}" if known else value)
    return headers


class Pool:
    """At most `limit` connections to one address. Idle ones are closed when they would be taken after `idle_s`."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        limit: int,
        idle_s: float,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._limit = limit
        self._idle_s = idle_s
        self._tls = tls
        self._server_hostname = (server_hostname or host) if tls is not None else None
        self._loop = asyncio.get_running_loop()  # asking for it costs a system call
        self._idle: list[_Connection] = []
        self._busy: set[_Connection] = set()
        self._opening = 0
        #: Who is to get the next connection, and by when.
        self._waiting: deque[tuple[asyncio.Future[_Connection | None], float]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at_s = math.inf
        self._is_closed = False
        self._is_retired = False

    async def exchange(self, method: str, head: bytes, body: bytes | None, timeout_s: float = 30.0) -> Answer:
        """One request and its answer, or a TimeoutError. `head` is everything before the body.

        Raises OSError (`ConnectionRefusedError` and the like) when no connection can be made, `DisconnectedError` when
        it ends early, `ProtocolError`. A cancelled exchange hangs up.
        """
        message = head if body is None else head + body
        deadline_s = self._deadline_s(timeout_s)
        connection = self._take_idle() or await self._wait_for_idle(deadline_s)
        if connection is not None:
            try:
                return await self._ask(connection, message, deadline_s)
            except DisconnectedError as error:
                if not error.untouched or method != "GET":
                    raise
        async with asyncio.timeout_at(deadline_s):
            return await self._ask(await self._open(), message)

    def close(self) -> None:
        """Hangs up everywhere. Exchanges under way end with `DisconnectedError`."""
        self._is_closed = True
        self.retire()
        for connection in self._busy:
            connection.hang_up()
        while self._wake(None):
            pass
        if self._timer is not None:
            self._timer.cancel()

    def retire(self) -> None:
        """Keeps no connection from now on: those in use are closed when they are done."""
        self._is_retired = True
        for connection in self._idle:
            connection.hang_up()
        self._idle.clear()

    async def _ask(self, connection: _Connection, message: bytes, deadline_s: float = math.inf) -> Answer:
        connection.deadline_s = deadline_s
        self._busy.add(connection)
        try:
            answer = await connection.ask(message)
        except BaseException:
            connection.hang_up()
            raise
        finally:
            self._busy.discard(connection)
            self._give_back(connection)
        return answer

    def _deadline_s(self, timeout_s: float) -> float:
        """One timer serves all exchanges, for hardly any of them takes too long: a timer each, or `asyncio.timeout`,
        would be a tenth of the call."""
        deadline_s = self._loop.time() + timeout_s
        if deadline_s < self._looks_at_s:
            self._look_at(deadline_s)
        return deadline_s

    def _look_at(self, when_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._looks_at_s = when_s
        self._timer = self._loop.call_at(when_s, self._look) if when_s < math.inf else None

    def _look(self) -> None:
        """End what has taken too long."""
        now_s = self._loop.time()
        for connection in [each for each in self._busy if each.deadline_s <= now_s]:
            connection.time_out()
        for turn, deadline_s in self._waiting:
            if deadline_s <= now_s and not turn.done():
                turn.set_exception(TimeoutError())
        deadlines = chain((each.deadline_s for each in self._busy), (deadline_s for _, deadline_s in self._waiting))
        self._look_at(min((each for each in deadlines if each > now_s), default=math.inf))

    def _take_idle(self) -> _Connection | None:
        if self._is_closed:
            raise DisconnectedError(untouched=True)
        if self._idle:
            now_s = self._loop.time()
            while self._idle:
                connection = self._idle.pop()  # the one used last: the others may grow old
                if connection.is_usable and now_s - connection.idle_since_s < self._idle_s:
                    return connection
                connection.hang_up()
        return None

    async def _wait_for_idle(self, deadline_s: float) -> _Connection | None:
        """A connection that somebody gives back; None as soon as another may be opened."""
        while len(self._busy) + self._opening >= self._limit:
            turn: asyncio.Future[_Connection | None] = self._loop.create_future()
            self._waiting.append((turn, deadline_s))
            try:
                given = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._pass_on(turn.result())
                raise
            if given is not None and given.is_usable:
                return given
            self._busy.discard(given)
            if (connection := self._take_idle()) is not None:
                return connection
        return None

    async def _open(self) -> _Connection:
        self._opening += 1
        try:
            _, connection = await self._loop.create_connection(
                lambda: _Connection(self._loop),
                self._host,
                self._port,
                ssl=self._tls,
                server_hostname=self._server_hostname,
            )
        except BaseException:
            self._wake(None)
            raise
        finally:
            self._opening -= 1
        return connection

    def _give_back(self, connection: _Connection) -> None:
        if not connection.is_usable or self._is_retired:
            connection.hang_up()
            self._wake(None)
            return
        connection.idle_since_s = self._loop.time()
        connection.deadline_s = math.inf
        if not self._wake(connection):
            self._idle.append(connection)

    def _pass_on(self, given: _Connection | None) -> None:
        """What somebody was given who does not want it any more: a connection, or the news."""
        if given is None:
            self._wake(None)
            return
        self._busy.discard(given)
        self._give_back(given)

    def _wake(self, connection: _Connection | None) -> bool:
        """Gives the first in line a connection, or the news (None) that it may look again."""
        while self._waiting:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                if connection is not None:
                    self._busy.add(connection)  # already now: others must not open one in its stead
                turn.set_result(connection)
                return True
        return False


class _Connection(asyncio.Protocol):
    """One connection, one exchange at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.was_used = False
        self.idle_since_s = 0.0
        #: When the exchange under way has taken too long, by the loop's clock.
        self.deadline_s = math.inf
        self.is_usable = False
        self._transport: asyncio.Transport | None = None
        self._parser: ResponseParser | None = None  # of an answer that is not plain
        self._answer: asyncio.Future[Answer] | None = None

    def ask(self, message: bytes) -> asyncio.Future[Answer]:
        if not self.is_usable or self._transport is None:
            raise DisconnectedError(untouched=True)
        self._answer = answer = self._loop.create_future()
        self._transport.write(message)
        self.was_used = True
        return answer

    def time_out(self) -> None:
        self._fail(TimeoutError())

    def hang_up(self) -> None:
        self.is_usable = False
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not derived from it
        self.is_usable = True
        notice_death(transport.get_extra_info("socket"))

    def data_received(self, data: bytes) -> None:
        if self._answer is None:
            self.hang_up()  # nobody asked
            return
        if self._parser is None:
            if (answer := plain_answer(data)) is not None:
                self._finish(answer)
                return
            self._parser = ResponseParser()
        parser = self._parser
        try:
            is_complete = parser.feed(data)
        except ProtocolError as error:
            self._fail(error)
            return
        if is_complete:
            if not parser.keeps_alive or parser.left_over:
                self.hang_up()
            self._finish(Answer(parser.status, parser.headers, parser.body))

    def connection_lost(self, error: Exception | None) -> None:
        self.is_usable = False
        if self._answer is None:
            return
        parser = self._parser
        if parser is not None and error is None and parser.end():
            self._finish(Answer(parser.status, parser.headers, parser.body))
            return
        lost = DisconnectedError(untouched=parser is None)
        lost.__cause__ = error
        self._fail(lost)

    def _finish(self, answer: Answer) -> None:
        asked, self._answer, self._parser = self._answer, None, None
        if asked is not None and not asked.done():
            asked.set_result(answer)

    def _fail(self, error: Exception) -> None:
        self.hang_up()
        asked, self._answer, self._parser = self._answer, None, None
        if asked is not None and not asked.done():
            asked.set_exception(error)


def request_head(method: str, target: str, host: str, headers: Iterable[tuple[str, str]], body: bytes | None) -> bytes:
    """Request line and headers. ValueError for a line break within them: it would begin another header."""
    return request_line(method, target) + header_lines(host, headers) + length_line(body)


def request_line(method: str, target: str) -> bytes:
    return f"{_single_line(method)} {_single_line(target)} HTTP/1.1\r\n".encode()


def header_lines(host: str, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"Host: {_single_line(host)}\r\n"]
    lines += [f"{_single_line(name)}: {_single_line(value)}\r\n" for name, value in headers]
    return "".join(lines).encode()


def length_line(body: bytes | None) -> bytes:
    """With the end of the head."""
    return b"\r\n" if body is None else b"Content-Length: %d\r\n\r\n" % len(body)


def _single_line(text: str) -> str:
    if "\n" in text or "\r" in text:
        raise ValueError("a request header must not contain a line break")
    return text


def notice_death(connected: socket.socket | None) -> None:
    """TCP keep-alive: a peer that vanished without a word is noticed within about a minute."""
    if connected is None:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
