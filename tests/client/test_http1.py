"""The small HTTP client: what it makes of bytes, and how it shares connections."""

from __future__ import annotations

import asyncio
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.client.http1 import DisconnectedError, Pool, request_head
from kubesched.client.http1_answers import ProtocolError, ResponseParser, plain_answer
from tests.client.doubles import until
from tests.client.wire import WireServer, answering, cutting, park
from tests.ports import refusing_port

SIZED = b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nhel\r\n2;ext=1\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED


@pytest.mark.parametrize(
    ("message", "status", "body", "keeps"),
    [
        pytest.param(SIZED, 201, b"hello", True, id="with a length"),
        pytest.param(CHUNKED, 200, b"hello", True, id="chunked, with an extension and a trailer"),
        pytest.param(EMPTY, 200, b"", True, id="empty"),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="no content"),
        pytest.param(INTERIM, 201, b"hello", True, id="after an interim answer"),
        pytest.param(SIZED.replace(b"1.1 ", b"1.0 "), 201, b"hello", False, id="HTTP/1.0"),
        pytest.param(
            SIZED.replace(b"Content-Type", b"Connection: Close\r\nX"), 201, b"hello", False, id="to be closed"
        ),
    ],
)
def test_answers_however_they_are_cut(message, status, body, keeps):
    for size in (len(message), 1, 2, 3, 7):
        parser = ResponseParser()
        pieces = [message[start : start + size] for start in range(0, len(message), size)]
        done = [parser.feed(piece) for piece in pieces]
        assert done == [False] * (len(pieces) - 1) + [True]
        assert (parser.status, parser.body, parser.keeps_alive, parser.left_over) == (status, body, keeps, 0)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 400))
def test_any_chunks_in_any_pieces(chunks, size):
    body = b"".join(f"{len(chunk):X}\r\n".encode() + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n"
    message = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    parser = ResponseParser()
    done = [parser.feed(message[start : start + size]) for start in range(0, len(message), size)]
    assert done[-1]
    assert not any(done[:-1])
    assert parser.body == b"".join(chunks)


PIECES = (
    b"HTTP/1.1 201 Created", b"HTTP/1.1 200", b"HTTP/1.0 200 OK", b"HTTP/1.1 204 No Content", b"HTTP/1.1 404 Not Found",
    b"\r\n", b"\r\n", b"\r\n\r\n", b"\r", b"\n", b"Content-Length: 2", b"content-length:2", b"Content-Length: 02 ",
    b"Content-Length : 2", b"Content-Length: -2", b"Transfer-Encoding: chunked", b"Connection: close", b"Audit-Id: 7",
    b":", b" folded", b"ab", b"a\rb",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=7), st.sampled_from([b"", b"\r\nContent-Length: 2\r\n\r\nok"]))
def test_what_looks_plain_is_what_the_parser_makes_of_it(pieces, rest):
    message = b"".join([PIECES[0], *pieces, rest])
    answer = plain_answer(message)
    if answer is not None:
        parser = ResponseParser()
        assert parser.feed(message)
        assert (answer.status, answer.body, dict(answer.headers)) == (parser.status, parser.body, dict(parser.headers))
        assert parser.keeps_alive
        assert parser.left_over == 0


def test_the_answers_of_servers_look_plain():
    answer = plain_answer(SIZED)
    assert answer is not None
    assert (answer.status, answer.body, answer.headers["Content-Type"]) == (201, b"hello", "application/json")
    assert plain_answer(SIZED.replace(b"json", b"js\ron")) is None


def test_any_number_of_chunks_may_come_at_once():
    parser = ResponseParser()
    body = b"a" * 20_000
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert parser.feed(head + b"1\r\na\r\n" * len(body) + b"0\r\n\r\n")
    assert parser.body == body


@pytest.mark.parametrize("message", [SIZED, CHUNKED, EMPTY, INTERIM])
def test_a_body_goes_with_its_parser(message):
    """Lists are megabytes long, and the collector of garbage comes rarely."""
    gc.collect()
    gc.disable()
    try:
        for _ in range(20):
            parser = ResponseParser()
            parser.feed(message)
        del parser
        assert [each for each in gc.get_objects() if type(each) is ResponseParser] == []
    finally:
        gc.enable()


def test_headers_have_no_case_and_are_joined():
    parser = ResponseParser()
    assert parser.feed(
        b"HTTP/1.1 429 Slow\r\nretry-AFTER:  7 \r\nWarning: a\r\nwarning: b\r\nContent-Length: 0\r\n\r\n"
    )
    assert parser.headers["Retry-After"] == "7"
    assert parser.headers.get("WARNING") == "a, b"
    assert "Content-length" in parser.headers
    assert parser.headers.get("Other", "") == ""


def test_without_a_length_the_end_is_the_end():
    parser = ResponseParser()
    assert not parser.feed(b"HTTP/1.1 200 OK\r\n\r\nall th")
    assert not parser.feed(b"ere is")
    assert parser.end()
    assert parser.body == b"all there is"
    assert not parser.keeps_alive


@pytest.mark.parametrize("message", [SIZED, CHUNKED], ids=["sized", "chunked"])
def test_an_answer_that_ends_early_is_not_complete(message):
    for cut in range(len(message)):
        parser = ResponseParser()
        assert not parser.feed(message[:cut])
        assert not parser.end()
        assert parser.has_begun == (cut > 0)


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.6\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 abc\r\n\r\n", id="no status"),
        pytest.param(b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n", id="no header"),
        pytest.param(b"HTTP/1.1 200 OK\r\nName : x\r\n\r\n", id="space before the colon"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", id="negative length"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", id="two lengths"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", id="no chunk size"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n", id="negative chunk"),
        pytest.param(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n", id="chunk too long"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000, id="headers without end"),
    ],
)
def test_what_is_no_http_is_refused(message):
    with pytest.raises(ProtocolError):
        ResponseParser().feed(message)


def test_requests():
    head = request_head("POST", "/a?b=c", "lab:6443", [("Accept", "x"), ("G", "1"), ("G", "2")], b"12345")
    assert head == b"POST /a?b=c HTTP/1.1\r\nHost: lab:6443\r\nAccept: x\r\nG: 1\r\nG: 2\r\nContent-Length: 5\r\n\r\n"
    assert b"Content-Length" not in request_head("GET", "/", "h", [], None)
    assert b"Content-Length: 0" in request_head("POST", "/", "h", [], b"")
    for bad in ("a\r\nX: y", "a\ny", "a\ry"):
        with pytest.raises(ValueError, match="line break"):
            request_head("GET", "/", "h", [("As", bad)], None)
        with pytest.raises(ValueError, match="line break"):
            request_head("GET", f"/{bad}", "h", [], None)


async def get(pool, path="/"):
    return await pool.exchange("GET", request_head("GET", path, "h", [], None), None)


async def post(pool):
    return await pool.exchange("POST", request_head("POST", "/", "h", [], b"x"), b"x")


def pool_of(server, limit=2, idle_s=60.0):
    return Pool("127.0.0.1", server.port, limit=limit, idle_s=idle_s)


class TestPool:
    async def test_no_more_connections_than_the_limit_and_first_come_first_served(self):
        release = asyncio.Event()
        order: list[str] = []

        async def held(seen, reply):
            order.append(seen.path)
            await release.wait()
            await reply.answer(200, b"")

        async with WireServer(*[held] * 10) as server:
            pool = pool_of(server)
            asking = [asyncio.create_task(get(pool, f"/{n}")) for n in range(10)]
            await until(lambda: len(order) == 2)
            release.set()
            await asyncio.gather(*asking)
            assert server.connections == 2
            assert sorted(order[:2]) == ["/0", "/1"]
            assert {*order[2:4]} == {"/2", "/3"}
            assert len(order) == 10
            pool.close()

    async def test_a_cancelled_request_hangs_up_and_lets_the_next_one_in(self):
        async with WireServer(park, answering(200, b"ok"), answering(200, b"ok")) as server:
            pool = pool_of(server, limit=1)
            stuck = asyncio.create_task(get(pool))
            await server.next_request()
            waiting = [asyncio.create_task(get(pool)) for _ in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.sleep(0)
            stuck.cancel()
            answers = await asyncio.gather(*waiting[1:])
            assert [answer.body for answer in answers] == [b"ok", b"ok"]
            assert server.connections == 2
            pool.close()

    async def test_a_connection_given_to_one_who_has_just_been_cancelled_goes_to_the_next(self):
        async with WireServer(*[answering(200, b"ok")] * 2) as server:
            pool = pool_of(server, limit=1)

            async def first() -> None:
                await get(pool)
                second.cancel()  # in the same step in which it was given the connection

            leading = asyncio.create_task(first())
            await asyncio.sleep(0)
            second = asyncio.create_task(get(pool))
            third = asyncio.create_task(get(pool))
            async with asyncio.timeout(60):
                assert (await third).body == b"ok"
            await leading
            assert second.cancelled()
            assert server.connections == 1
            pool.close()

    async def test_a_pool_that_is_retired_closes_the_connection_of_one_who_has_just_been_cancelled(self):
        async with WireServer(answering(200, b"ok")) as server:
            pool = pool_of(server, limit=1)

            async def first() -> None:
                await get(pool)
                (changing_hands,) = pool._busy
                pool.retire()
                second.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await second
                assert not changing_hands.is_usable

            leading = asyncio.create_task(first())
            await asyncio.sleep(0)
            second = asyncio.create_task(get(pool))
            await leading

    async def test_each_exchange_on_kept_connections_has_a_time_of_its_own(self):
        async with WireServer(*[answering(200, b"ok")] * 3, park, park, park) as server:
            pool = pool_of(server, limit=3)

            async def ask(timeout_s):
                return await pool.exchange("POST", request_head("POST", "/", "h", [], b"x"), b"x", timeout_s)

            await asyncio.gather(*(get(pool) for _ in range(3)))
            patient = asyncio.create_task(ask(60.0))
            impatient = [asyncio.create_task(ask(timeout_s)) for timeout_s in (0.05, 0.1)]
            for late in impatient:
                with pytest.raises(TimeoutError):
                    await late
            assert not patient.done()
            patient.cancel()
            pool.close()

    async def test_who_comes_while_a_connection_changes_hands_opens_none(self):
        async with WireServer(*[answering(200, b"ok")] * 8) as server:
            pool = pool_of(server, limit=1)

            async def ask_twice():
                await get(pool)
                await get(pool)  # in the very step in which the connection goes to the next in line

            await asyncio.gather(*(ask_twice() for _ in range(4)))
            assert server.connections == 1
            pool.close()

    async def test_to_wait_for_a_connection_is_part_of_the_time(self):
        async with WireServer(park, answering(200, b"ok")) as server:
            pool = pool_of(server, limit=1)
            stuck = asyncio.create_task(get(pool))
            await server.next_request()
            late = [
                asyncio.create_task(pool.exchange("GET", request_head("GET", "/", "h", [], None), None, timeout_s))
                for timeout_s in (0.1, 0.05)
            ]
            for waiting in late:
                with pytest.raises(TimeoutError):
                    await waiting
            patient = asyncio.create_task(get(pool))
            await asyncio.sleep(0)
            stuck.cancel()
            assert (await patient).body == b"ok"
            pool.close()

    async def test_a_kept_connection_that_was_closed_meanwhile(self):
        async def answer_and_close(seen, reply):
            await reply.answer(200, b"one")
            await reply.cut()

        async with WireServer(answer_and_close, answering(200, b"two")) as server:
            pool = pool_of(server)
            assert (await get(pool)).body == b"one"
            assert (await get(pool)).body == b"two"
            pool.close()

    async def test_only_a_get_on_a_kept_connection_is_sent_again(self):
        async with WireServer(
            answering(200, b"one"), cutting, answering(200, b"two"), answering(200, b"x"), cutting
        ) as server:
            pool = pool_of(server)
            await get(pool)
            assert (await get(pool)).body == b"two"
            await post(pool)
            with pytest.raises(DisconnectedError, match="without an answer"):
                await post(pool)
            server.then(cutting)
            with pytest.raises(DisconnectedError):
                await get(pool)  # a fresh connection: nothing says that it was stale
            assert len(server.seen) == 6
            pool.close()

    async def test_in_mid_answer_nothing_is_sent_again(self):
        async def half(seen, reply):
            await reply.raw(SIZED[:-2])
            await reply.cut()

        async with WireServer(answering(200, b""), half) as server:
            pool = pool_of(server)
            await get(pool)
            with pytest.raises(DisconnectedError, match="in mid-answer"):
                await get(pool)
            pool.close()

    async def test_an_idle_connection_is_not_trusted_for_ever(self):
        async with WireServer(*[answering(200, b"")] * 3) as server:
            pool = pool_of(server, idle_s=0.0)
            await get(pool)
            await get(pool)
            assert server.connections == 2
            pool.close()

    async def test_connections_are_not_kept_when_the_server_says_so_or_says_too_much(self):
        async def talkative(seen, reply):
            await reply.raw(SIZED + b"and more")

        async with WireServer(answering(200, b"", Connection="close"), talkative, answering(200, b"")) as server:
            pool = pool_of(server)
            for _ in range(3):
                await get(pool)
            assert server.connections == 3
            pool.close()

    async def test_a_body_that_ends_with_the_connection(self):
        async def endless(seen, reply):
            await reply.raw(b"HTTP/1.1 200 OK\r\n\r\nall there is")
            reply._writer.close()
            reply.connection_ends = True

        async with WireServer(endless) as server:
            pool = pool_of(server)
            assert (await get(pool)).body == b"all there is"
            pool.close()

    async def test_nonsense_is_told_and_the_connection_dropped(self):
        async def nonsense(seen, reply):
            await reply.raw(b"220 smtp.example\r\n\r\n")

        async with WireServer(nonsense, answering(200, b"ok")) as server:
            pool = pool_of(server, limit=1)
            with pytest.raises(ProtocolError, match=r"not an HTTP/1\.1 answer"):
                await get(pool)
            assert (await get(pool)).body == b"ok"
            pool.close()

    async def test_closing_ends_everything_under_way_and_everyone_in_line(self):
        async with WireServer(park) as server:
            pool = pool_of(server, limit=1)
            asking = [asyncio.create_task(get(pool)) for _ in range(3)]
            await server.next_request()
            pool.close()
            results = await asyncio.gather(*asking, return_exceptions=True)
            assert [type(result) for result in results] == [DisconnectedError] * 3

    async def test_a_retired_pool_finishes_and_keeps_nothing(self):
        go = asyncio.Event()

        async def later(seen, reply):
            await go.wait()
            await reply.answer(200, b"done")

        async with WireServer(later, answering(200, b"next")) as server:
            pool = pool_of(server, limit=1)
            asking = [asyncio.create_task(get(pool)) for _ in range(2)]
            await server.next_request()
            pool.retire()
            go.set()
            assert [answer.body for answer in await asyncio.gather(*asking)] == [b"done", b"next"]
            assert server.connections == 2
            assert not pool._idle
            pool.close()

    async def test_refused(self):
        with refusing_port() as port:
            pool = Pool("127.0.0.1", port, limit=2, idle_s=60.0)
            with pytest.raises(ConnectionRefusedError):
                await get(pool)
            pool.close()
