"""HTTP/1.1 for whole answers, on bare asyncio: what binds and events are sent with.

A general HTTP client spends more CPU on one small request than the scheduler does on deciding where the pod goes: a
bind, all layers of ours included, takes 170 µs with aiohttp and 55 µs with this. So calls take this way; streams and
proxies, where such a cost does not count, stay with aiohttp.

What comes back is read by `http1_answers.py`. A `Pool` keeps connections to one address and hands them out, first come
first served. Nothing is sent twice, but for a GET whose kept connection turns out to have been closed meanwhile.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from itertools import chain
from typing import cast

from kubesched.build import mypyc_attr
from kubesched.client.http1_answers import Answer, ProtocolError, ResponseParser, plain_answer


@mypyc_attr(native_class=False)
class DisconnectedError(ConnectionError):
    """The connection ended before the answer was complete. `untouched`: before its first byte."""

    def __init__(self, untouched: bool) -> None:
        self.untouched = untouched
        super().__init__("the server closed the connection " + ("without an answer" if untouched else "in mid-answer"))


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
