"""Requests, their failures and their retries: first with a transport in memory, then over real sockets."""

from __future__ import annotations

import asyncio
import logging

import pytest

from kubesched.api.errors import ApiError, TransportError
from kubesched.client.auth import FixedCredentials, Grant, TokenFile
from kubesched.client.kubeconfig import ClusterConfig
from kubesched.client.rate import TokenBucket
from kubesched.client.rest import ApiClient, error_of
from kubesched.client.transport import ConnectError, HttpTransport, Request
from tests.client.doubles import MemoryTransport, QuickClock, reply
from tests.client.wire import WireServer, answering, cutting, park, status
from tests.ports import refusing_port


def make(*answers, credentials=None, **options):
    transport, clock = MemoryTransport(list(answers)), QuickClock()
    client = ApiClient(transport, credentials or FixedCredentials(Grant("Bearer t")), clock, **options)
    return client, transport, clock


async def test_a_call():
    client, transport, _ = make(reply(201, {"kind": "Status"}), extra_headers=(("Impersonate-User", "boss"),))
    assert await client.request("POST", "/api/v1/x?a=b", b"{}") == b'{"kind": "Status"}'
    sent = transport.sent[0]
    assert (sent.method, sent.target, sent.body) == ("POST", "/api/v1/x?a=b", b"{}")
    agent = sent.headers.pop("User-Agent")
    assert agent.startswith("kubesched/")
    assert "(linux/" in agent
    assert sent.headers == {
        "Accept": "application/json", "Content-Type": "application/json", "Authorization": "Bearer t",
        "Impersonate-User": "boss",
    }  # fmt: skip
    await client.get("/x")
    assert "Content-Type" not in transport.sent[1].headers


async def test_a_lane_shares_the_connection_but_not_the_limit():
    client, transport, clock = make(reply(), limiter=None)
    lane = client.lane("events", TokenBucket(1, 1, clock))
    await lane.get("/a")
    await lane.get("/b")
    await client.get("/c")
    assert clock.slept == [1.0]
    assert [sent.headers["User-Agent"].endswith("/events") for sent in transport.sent] == [True, True, False]


class TestRetries:
    async def test_waits_as_told_and_tries_again(self, caplog):
        busy = reply(429, status(429, "TooManyRequests", "later"), {"Retry-After": "3"})
        down = reply(503, b"", {"Retry-After": "1"})
        client, transport, clock = make(busy, down, reply(200, b"ok"))
        with caplog.at_level(logging.INFO):
            assert await client.request("POST", "/x", b"{}") == b"ok"
        assert clock.slept == [3.0, 1.0]
        assert [sent.body for sent in transport.sent] == [b"{}"] * 3
        assert "asks to wait method=POST path=/x code=429 retry_after_s=3" in caplog.text

    async def test_not_for_ever(self):
        client, transport, clock = make(reply(429, status(429, "TooManyRequests", "later"), {"Retry-After": "1"}))
        with pytest.raises(ApiError, match="later") as caught:
            await client.get("/x")
        assert caught.value.retry_after_s == 1
        assert len(transport.sent) == 11
        assert len(clock.slept) == 10

    @pytest.mark.parametrize(
        ("code", "headers"),
        [(429, {}), (503, {}), (500, {"Retry-After": "Wed, 21 Oct"}), (409, {"Retry-After": "1"}), (301, {})],
        ids=str,
    )
    async def test_nothing_else_is_retried(self, code, headers):
        client, transport, clock = make(reply(code, b"no", headers))
        with pytest.raises(ApiError) as caught:
            await client.get("/x")
        assert caught.value.code == code
        assert len(transport.sent) == 1
        assert clock.slept == []

    async def test_no_answer_is_not_retried(self):
        client, transport, _ = make(TransportError("gone"))
        with pytest.raises(TransportError, match="gone"):
            await client.request("POST", "/x", b"{}")
        assert len(transport.sent) == 1

    async def test_a_rotated_token_is_read_again_at_once(self, tmp_path):
        """BR-124: the file was replaced, the old token answers 401."""
        path = tmp_path / "token"
        path.write_text("old")

        def answer(sent):
            path.write_text("new")
            return reply(200, b"ok") if sent.headers["Authorization"] == "Bearer new" else reply(401)

        client, transport, clock = make(answer, credentials=TokenFile(path, QuickClock()))
        assert await client.get("/x") == b"ok"
        assert [sent.headers["Authorization"] for sent in transport.sent] == ["Bearer old", "Bearer new"]
        assert clock.slept == []

    async def test_a_second_401_is_final(self, tmp_path):
        (tmp_path / "token").write_text("bad")
        client, transport, _ = make(
            reply(401, status(401, "Unauthorized", "Unauthorized")),
            credentials=TokenFile(tmp_path / "token", QuickClock()),
        )
        with pytest.raises(ApiError, match="Unauthorized"):
            await client.get("/x")
        assert len(transport.sent) == 2

    async def test_the_guard_has_the_last_word_before_each_sending(self):
        client, transport, clock = make(reply(429, b"", {"Retry-After": "5"}))
        started = clock.monotonic()

        def guard():
            if clock.monotonic() - started > 7:
                raise RuntimeError("no longer the leader")

        with pytest.raises(RuntimeError, match="no longer the leader"):
            await client.request("POST", "/x", b"{}", guard=guard)
        assert len(transport.sent) == 2


@pytest.mark.parametrize(
    ("code", "headers", "body", "expected"),
    [
        pytest.param(
            404,
            {},
            b'{"kind":"Status","message":"pods \\"x\\" not found","reason":"NotFound","code":404}',
            (404, "NotFound", 'pods "x" not found', {}),
            id="a Status",
        ),
        pytest.param(
            429,
            {},
            b'{"kind":"Status","message":"m","reason":"TooManyRequests","details":{"retryAfterSeconds":9},"code":429}',
            (429, "TooManyRequests", "m", {"retryAfterSeconds": 9}),
            id="details",
        ),
        pytest.param(502, {}, b"<html>bad gateway", (502, "Unknown", "<html>bad gateway", {}), id="a gateway's page"),
        pytest.param(404, {}, b"404 page not found", (404, "NotFound", "404 page not found", {}), id="plain text"),
        pytest.param(
            503,
            {"Retry-After": "4"},
            b"",
            (503, "ServiceUnavailable", "the API server answered 503", {"retryAfterSeconds": 4}),
            id="nothing",
        ),
        pytest.param(500, {}, b"\xff\xfe", (500, "InternalError", "��", {}), id="bytes"),
        pytest.param(
            400,
            {},
            b'{"kind":"Status","message":null,"details":null}',
            (400, "BadRequest", "the API server answered 400", {}),
            id="nulls",
        ),
    ],
)
def test_errors(code, headers, body, expected):
    error = error_of(code, headers, body)
    assert (error.code, error.reason, error.message, error.details) == expected


class TestOverSockets:
    async def test_connections_are_kept(self):
        async with WireServer(*[answering(200, {"n": 1})] * 3) as server:
            transport = HttpTransport(ClusterConfig(f"{server.url}/prefix"))
            for _ in range(3):
                response = await transport.send(Request("GET", "/x?a=%3D", {"Accept": "application/json"}))
                assert (response.status, response.body) == (200, b'{"n": 1}')
            await transport.close()
            assert server.connections == 1
            assert (server.seen[0].path, server.seen[0].query) == ("/prefix/x", {"a": "="})
            assert set(server.seen[0].headers) == {"host", "accept"}

    async def test_no_server(self):
        with refusing_port() as port:
            transport = HttpTransport(ClusterConfig(f"http://127.0.0.1:{port}"))
            with pytest.raises(ConnectError, match=r"POST /x: .*onnect") as caught:
                await transport.send(Request("POST", "/x", {}, b"{}"))
        assert caught.value.__cause__ is not None
        await transport.close()

    @pytest.mark.parametrize("stream", [False, True], ids=["call", "stream"])
    async def test_no_answer_in_time(self, stream):
        async with WireServer(park) as server:
            transport = HttpTransport(ClusterConfig(server.url))
            request = Request("GET", "/x", {}, timeout_s=0.05)
            with pytest.raises(TransportError, match=r"GET /x: no answer within 0.05 s"):
                await (transport.open(request) if stream else transport.send(request))
            await transport.close()

    async def test_cut_before_the_answer(self):
        async with WireServer(cutting, cutting) as server:
            transport = HttpTransport(ClusterConfig(server.url))
            with pytest.raises(TransportError, match="POST /x: ") as caught:
                await transport.send(Request("POST", "/x", {}, b"{}"))
            assert not isinstance(caught.value, ConnectError), "it may have been carried out"
            assert len(server.seen) == 1, "a write is not sent twice behind our back"
            await transport.close()

    async def test_cut_in_the_middle_of_the_answer(self):
        async def half(seen, reply_):
            await reply_.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this")
            await reply_.cut()

        async with WireServer(half) as server:
            transport = HttpTransport(ClusterConfig(server.url))
            with pytest.raises(TransportError, match="GET /x: "):
                await transport.send(Request("GET", "/x", {}))
            await transport.close()

    async def test_closing_a_stream_wakes_its_reader(self):
        async def begun(seen, reply_):
            await reply_.begin()
            await park(seen, reply_)

        async with WireServer(begun) as server:
            transport = HttpTransport(ClusterConfig(server.url))
            stream = await transport.open(Request("GET", "/x", {}))
            reading = asyncio.ensure_future(stream.read())
            await asyncio.sleep(0)
            stream.close()
            stream.close()
            with pytest.raises(TransportError):
                await reading
            await transport.close()

    async def test_streams_and_calls_do_not_share_a_pool(self):
        async def begun(seen, reply_):
            await reply_.begin()
            await park(seen, reply_)

        async with WireServer(begun, begun, begun, answering(200, b"ok")) as server:
            transport = HttpTransport(ClusterConfig(server.url), pool_size=1)
            for _ in range(3):
                await transport.open(Request("GET", "/watch", {}))
            assert (await transport.send(Request("GET", "/x", {}))).body == b"ok"
            await transport.close()

    async def test_lanes_do_not_share_a_pool(self):
        async with WireServer(park, answering(200, b"ok"), park) as server:
            client = ApiClient(
                HttpTransport(ClusterConfig(server.url), pool_size=1), FixedCredentials(Grant()), QuickClock()
            )
            stuck = [asyncio.create_task(client.get("/bind")) for _ in range(3)]
            await server.next_request()
            assert await client.lane("events", None).get("/event") == b"ok"
            for task in stuck:
                task.cancel()
            await asyncio.gather(*stuck, return_exceptions=True)
            await client.close()

    async def test_a_refused_watch_is_an_api_error(self):
        async with WireServer(answering(403, status(403, "Forbidden", "not you"))) as server:
            client = ApiClient(HttpTransport(ClusterConfig(server.url)), FixedCredentials(Grant()), QuickClock())
            with pytest.raises(ApiError, match="not you"):
                await client.watch("/api/v1/pods?watch=true")
            await client.close()

    async def test_a_watch_is_tried_again_with_a_fresh_token(self, tmp_path):
        path = tmp_path / "token"
        path.write_text("old")

        async def refuse(seen, reply_):
            path.write_text("new")
            await reply_.answer(401, status(401, "Unauthorized", "Unauthorized"))

        async def accept(seen, reply_):
            await reply_.begin()
            await reply_.end()

        async with WireServer(refuse, accept) as server:
            client = ApiClient(HttpTransport(ClusterConfig(server.url)), TokenFile(path, QuickClock()), QuickClock())
            stream = await client.watch("/x")
            assert await stream.read() == b""
            stream.close()
            assert [seen.headers["authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
            await client.close()

    async def test_a_proxy_gets_the_whole_url(self):
        async with WireServer(answering(200, b"through")) as proxy:
            transport = HttpTransport(ClusterConfig("http://lab.example:8080", proxy_url=proxy.url))
            assert (await transport.send(Request("GET", "/x", {}))).body == b"through"
            assert proxy.seen[0].path == "/x"
            assert proxy.seen[0].headers["host"] == "lab.example:8080"
            await transport.close()
