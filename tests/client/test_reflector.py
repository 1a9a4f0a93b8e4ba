"""The reflector against servers that misbehave; what it does with a real one is in test_embedded.py."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from kubesched.api import kinds
from kubesched.api.changes import Delete, Replace, Upsert
from kubesched.api.errors import ApiError, DecodeError, TransportError
from kubesched.client.auth import FixedCredentials, Grant
from kubesched.client.kubeconfig import ClusterConfig
from kubesched.client.reflector import (
    UNFINISHED_PODS,
    HistoryLostError,
    Phase,
    Recovery,
    Reflector,
    ReflectorSettings,
    SilenceError,
    after_failure,
)
from kubesched.client.rest import ApiClient
from kubesched.client.transport import ConnectError, HttpTransport
from kubesched.clock import Chance, ManualClock
from tests.client.doubles import QuickClock, until
from tests.client.wire import WireServer, answering, park, status
from tests.ports import refusing_port


class Sink:
    """Receives the batches of a reflector."""

    def __init__(self) -> None:
        self.batches: asyncio.Queue[list[Any]] = asyncio.Queue()

    def __call__(self, changes) -> None:
        self.batches.put_nowait(list(changes))

    async def next(self) -> list[Any]:
        async with asyncio.timeout(60):
            return await self.batches.get()

    async def brief(self) -> list[str]:
        """The next batch in short: `=a,b@7` for a Replace, `+a@8`, `-a@9`."""
        return [brief(change) for change in await self.next()]


def brief(change: Any) -> str:
    if isinstance(change, Replace):
        kept = "".join(f"?{name}" for _, name in change.unreadable)
        return f"={','.join(obj.metadata.name for obj in change.objects)}{kept}@{change.resource_version}"
    sign = "+" if isinstance(change, Upsert) else "-"
    assert isinstance(change, Upsert | Delete)
    return f"{sign}{change.obj.metadata.name}@{change.obj.metadata.resource_version}"


@asynccontextmanager
async def reflecting(*script, clock=None, **options):
    """A running reflector of pods against a scripted server."""
    sink = Sink()
    clock = clock or QuickClock()
    async with WireServer(*script) as server:
        client = ApiClient(HttpTransport(ClusterConfig(server.url)), FixedCredentials(Grant()), clock, timeout_s=10.0)
        options.setdefault("field_selector", UNFINISHED_PODS)
        reflector = Reflector(client, kinds.POD, sink, clock=clock, chance=Chance(3), **options)
        running = asyncio.create_task(reflector.run())
        try:
            yield server, reflector, sink, clock
            if running.done():
                running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.close()


def pod(name, version):
    return {
        "kind": "Pod", "apiVersion": "v1", "spec": {},
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": str(version)},
    }  # fmt: skip


def added(name, version):
    return {"type": "ADDED", "object": pod(name, version)}


def modified(name, version):
    return {"type": "MODIFIED", "object": pod(name, version)}


def deleted(name, version):
    return {"type": "DELETED", "object": pod(name, version)}


def bookmark(version, *, end=False):
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": metadata, "spec": {"containers": None}}}


def error_event(code, reason, message):
    return {"type": "ERROR", "object": status(code, reason, message)}


def streaming(*batches, then="park"):
    """A watch that sends the batches (a list: its events in one chunk; bytes: as they are), then does `then`."""

    async def step(seen, reply):
        await reply.begin()
        for batch in batches:
            if isinstance(batch, bytes):
                await reply.chunk(batch)
            else:
                await reply.events(*batch)
        if then == "end":
            await reply.end()
        elif then == "cut":
            await asyncio.sleep(0)
            await reply.cut()
        else:
            await park(seen, reply)

    return step


def pod_list(*pods, version="5", token=""):
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": version, "continue": token},
            "items": list(pods)}  # fmt: skip


INITIAL = [added("a", 1), added("b", 2), bookmark(5, end=True)]


async def test_a_watch_list_gives_the_whole_set_at_once_then_batches():
    async with reflecting(streaming(INITIAL, [added("c", 6), modified("a", 7), deleted("b", 8)], [added("d", 9)])) as (
        server, reflector, sink, _,
    ):  # fmt: skip
        assert not reflector.has_synced
        assert await sink.brief() == ["=a,b@5"]
        assert reflector.has_synced
        await reflector.wait_synced()
        got = await sink.brief()
        if len(got) == 3:  # the two chunks may have arrived together
            got += await sink.brief()
        assert got == ["+c@6", "+a@7", "-b@8", "+d@9"]
        assert reflector.resource_version == "9"
        seen = await server.next_request()
        # b02-startup-json: exactly these parameters.
        assert (seen.method, seen.path) == ("GET", "/api/v1/pods")
        timeout_s = int(seen.query["timeoutSeconds"])
        assert 300 <= timeout_s <= 600
        assert seen.query == {
            "allowWatchBookmarks": "true",
            "fieldSelector": "status.phase!=Succeeded,status.phase!=Failed",
            "resourceVersionMatch": "NotOlderThan",
            "sendInitialEvents": "true",
            "timeout": f"{timeout_s // 60}m{timeout_s % 60}s",
            "timeoutSeconds": str(timeout_s),
            "watch": "true",
        }
        assert seen.headers["accept"] == "application/json"
        assert "accept-encoding" not in seen.headers


async def test_events_of_one_chunk_are_one_call():
    burst = [added(f"p{n}", 10 + n) for n in range(500)]
    async with reflecting(streaming(INITIAL, burst)) as (_, _, sink, _):
        await sink.next()
        names: list[str] = []
        calls = 0
        while len(names) < 500:
            names += await sink.brief()
            calls += 1
        assert names == [f"+p{n}@{10 + n}" for n in range(500)]
        assert calls <= 3


async def test_changes_during_the_initial_events_are_part_of_the_set():
    events = [added("a", 1), added("b", 2), modified("a", 6), deleted("b", 7), bookmark(7, end=True), added("c", 8)]
    async with reflecting(streaming(events)) as (_, _, sink, _):
        assert await sink.brief() == ["=a@7"]
        assert await sink.brief() == ["+c@8"]


@pytest.mark.parametrize("how", ["end", "cut"])
async def test_a_watch_that_ends_is_reopened_from_the_last_version(how):
    async with reflecting(streaming(INITIAL, [added("c", 6)], [bookmark(8)], then=how), streaming([added("d", 9)])) as (
        server,
        _,
        sink,
        clock,
    ):
        assert [await sink.brief() for _ in range(3)] == [["=a,b@5"], ["+c@6"], ["+d@9"]]
        await server.next_request()
        second = await server.next_request()
        assert second.query["resourceVersion"] == "8", "a bookmark moves the version"
        assert "sendInitialEvents" not in second.query
        assert "resourceVersionMatch" not in second.query
        assert clock.slept == [], "at once"


async def test_half_a_line_at_the_end_is_dropped_and_asked_for_again():
    half = json.dumps(added("c", 6)).encode()[:-7]
    async with reflecting(streaming(INITIAL, half, then="end"), streaming([added("c", 6)])) as (server, _, sink, _):
        assert await sink.brief() == ["=a,b@5"]
        assert await sink.brief() == ["+c@6"]
        await server.next_request()
        assert (await server.next_request()).query["resourceVersion"] == "5"


async def test_one_line_over_many_chunks_and_two_lines_in_one():
    big = added("big", 6)
    big["object"]["metadata"]["annotations"] = {"blob": "x" * (3 << 20)}
    line = json.dumps(big).encode() + b"\n"
    pieces = [line[start : start + 100_000] for start in range(0, len(line), 100_000)]
    two = json.dumps(added("c", 7)).encode() + b"\n" + json.dumps(added("d", 8)).encode() + b"\n"
    async with reflecting(streaming(INITIAL, *pieces, two)) as (_, _, sink, _):
        await sink.next()
        got: list[str] = []
        while len(got) < 3:
            got += await sink.brief()
        assert got == ["+big@6", "+c@7", "+d@8"]


@pytest.mark.parametrize("as_event", [True, False], ids=["ERROR event", "HTTP 410"])
async def test_a_version_that_is_too_old_brings_a_new_replace(as_event):
    refuse = (
        streaming([error_event(410, "Expired", "too old resource version: 5 (99)")], then="end")
        if as_event
        else answering(410, status(410, "Expired", "too old resource version: 5 (99)"))
    )
    async with reflecting(
        streaming(INITIAL, then="end"), refuse, streaming([added("b", 2), bookmark(100, end=True)])
    ) as (server, reflector, sink, _):
        assert await sink.brief() == ["=a,b@5"]
        assert await sink.brief() == ["=b@100"], "the receiver sees that a is gone"
        third = [await server.next_request() for _ in range(3)][-1]
        assert third.query["sendInitialEvents"] == "true"
        assert third.query["resourceVersion"] == "5", "as recorded in b14"
        assert reflector.has_synced


async def test_what_came_before_the_error_in_the_same_chunk_is_delivered():
    async with reflecting(
        streaming(INITIAL, [added("c", 6), error_event(410, "Expired", "too old")], then="end"),
        streaming([added("c", 6), bookmark(7, end=True)]),
    ) as (_, _, sink, _):
        assert [await sink.brief() for _ in range(3)] == [["=a,b@5"], ["+c@6"], ["=c@7"]]


async def test_a_server_that_was_set_back_is_noticed_and_listed_anew(caplog):
    async with reflecting(
        streaming(INITIAL, [added("c", 900)], then="end"),
        streaming([bookmark(40)]),
        streaming([added("a", 1), bookmark(41, end=True)]),
    ) as (server, _, sink, _):
        assert [await sink.brief() for _ in range(3)] == [["=a,b@5"], ["+c@900"], ["=a@41"]]
        third = [await server.next_request() for _ in range(3)][-1]
        assert "resourceVersion" not in third.query, "the lost version is not asked for"
    assert "we have seen 900: it was set back" in caplog.text


async def test_a_version_from_the_future_is_forgotten():
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    refuse = answering(504, status(504, "Timeout", "Too large resource version: 5, current: 3", causes=[cause]))
    async with reflecting(
        streaming(INITIAL, then="end"),
        streaming([error_event(410, "Expired", "too old")], then="end"),
        refuse,
        streaming([added("a", 1), bookmark(4, end=True)]),
    ) as (server, _, sink, _):
        assert [await sink.brief() for _ in range(2)] == [["=a,b@5"], ["=a@4"]]
        queries = [(await server.next_request()).query for _ in range(4)]
        assert queries[2]["resourceVersion"] == "5"
        assert "resourceVersion" not in queries[3]


async def test_falls_back_to_pages_when_watch_lists_are_refused():
    refused = answering(422, status(422, "Invalid", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden"))
    async with reflecting(
        refused,
        answering(200, pod_list(pod("a", 1), version="5", token="T1")),
        answering(200, pod_list(pod("b", 2), version="5", token="T2")),
        answering(200, pod_list(pod("c", 3), version="5")),
        streaming([added("d", 6)], then="end"),
        streaming([error_event(410, "Expired", "too old")], then="end"),
        answering(200, pod_list(pod("d", 6), version="9")),
        settings=ReflectorSettings(page_size=1),
    ) as (server, _, sink, _):
        assert [await sink.brief() for _ in range(3)] == [["=a,b,c@5"], ["+d@6"], ["=d@9"]]
        queries = [(await server.next_request()).query for _ in range(7)]
        selector = {"fieldSelector": UNFINISHED_PODS}
        assert queries[1] == {**selector, "limit": "1", "resourceVersion": "0"}
        assert queries[2] == {**selector, "limit": "1", "continue": "T1"}
        assert queries[3] == {**selector, "limit": "1", "continue": "T2"}
        assert queries[4]["resourceVersion"] == "5"
        assert queries[4]["watch"] == "true"
        assert queries[6] == {**selector, "resourceVersion": "6"}, "no watch-list again, as it was refused"


async def test_a_page_whose_snapshot_is_gone_makes_it_list_in_one_piece():
    async with reflecting(
        answering(400, status(400, "BadRequest", "unknown parameter")),
        answering(200, pod_list(pod("a", 1), version="5", token="T1")),
        answering(410, status(410, "Expired", "The provided continue parameter is too old")),
        answering(200, pod_list(pod("a", 1), pod("b", 7), version="8")),
    ) as (server, _, sink, clock):
        assert await sink.brief() == ["=a,b@8"]
        queries = [(await server.next_request()).query for _ in range(4)]
        assert queries[3] == {"fieldSelector": UNFINISHED_PODS, "resourceVersion": "0"}
        assert clock.slept == []


async def test_a_server_that_ignores_send_initial_events():
    """Before v1.27: all objects come, but the end is never told."""
    clock = ManualClock()
    async with reflecting(
        streaming([added("a", 1)]), answering(200, pod_list(pod("a", 1))), streaming([added("b", 6)]), clock=clock
    ) as (server, _, sink, _):
        await server.next_request()
        await until(lambda: clock.next_due() == 30.0)
        clock.advance(31)
        assert await sink.brief() == ["=a@5"]
        assert await sink.brief() == ["+b@6"]


async def test_silence_reopens_the_watch():
    clock = ManualClock()
    async with reflecting(streaming(INITIAL), streaming([added("c", 6)]), clock=clock) as (server, reflector, sink, _):
        assert await sink.brief() == ["=a,b@5"]
        await server.next_request()
        clock.advance(149)
        assert reflector.phase is Phase.WATCH
        clock.advance(60)
        assert await sink.brief() == ["+c@6"]
        assert (await server.next_request()).query["resourceVersion"] == "5"


def has_version(reflector, version):
    return reflector.resource_version == version


async def test_any_byte_is_a_sign_of_life():
    clock = ManualClock()
    beats: asyncio.Queue[bytes] = asyncio.Queue()

    async def beating(seen, reply):
        await reply.begin()
        await reply.events(*INITIAL)
        while True:
            await reply.chunk(await beats.get())

    async with reflecting(beating, clock=clock) as (server, reflector, sink, _):
        await sink.next()
        for version in range(6, 12):
            clock.advance(140)
            beats.put_nowait(json.dumps(bookmark(version)).encode() + b"\n")
            await until(partial(has_version, reflector, str(version)))
        assert len(server.seen) == 1


async def test_an_unreadable_object_is_skipped_by_name_and_the_others_go_on(caplog):
    bad = modified("bad", 7)
    bad["object"]["spec"]["priority"] = "high"
    bad_initially = added("worse", 3)
    bad_initially["object"]["spec"]["priority"] = "high"
    async with reflecting(
        streaming(
            [added("a", 1), bad_initially, bookmark(5, end=True)], [added("c", 6), bad, added("d", 8)], then="end"
        ),
        streaming([bad], then="end"),
        park,
    ) as (server, _, sink, _):
        assert await sink.brief() == ["=a?worse@5"]
        assert await sink.brief() == ["+c@6", "+d@8"]
        queries = [(await server.next_request()).query for _ in range(3)]
        assert queries[2]["resourceVersion"] == "7", "also an unreadable object moves the version"
    assert "ns/bad" in caplog.text
    assert "ns/worse" in caplog.text
    assert "spec.priority" in caplog.text


async def test_an_unreadable_object_of_a_list_is_named_too():
    bad = pod("bad", 2)
    bad["spec"]["priority"] = "high"
    async with reflecting(
        answering(403, status(403, "Forbidden", "no watch")), answering(200, pod_list(pod("a", 1), bad))
    ) as (_, _, sink, _):
        batch = await sink.next()
        assert [brief(change) for change in batch] == ["=a?bad@5"]
        assert batch[0].unreadable == (("ns", "bad"),)


async def test_forbidden_says_which_right_is_missing_and_goes_on_trying(caplog):
    forbidden = 'pods is forbidden: User "system:kube-scheduler" cannot list resource "pods" in API group ""'
    refuse = answering(403, status(403, "Forbidden", forbidden))
    async with reflecting(refuse, refuse, refuse, refuse, refuse, refuse, streaming(INITIAL)) as (
        _,
        reflector,
        sink,
        clock,
    ):
        with caplog.at_level(logging.INFO):
            assert await sink.brief() == ["=a,b@5"]
        assert reflector.has_synced
        assert len(clock.slept) == 3, "one pause for each watch-list and list"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert any("must grant the verbs list and watch on resource 'pods'" in text for text in warnings)
    assert len(warnings) <= 3 * 2
    assert "in touch again" in caplog.text


async def test_waits_longer_and_longer_while_the_server_is_away(caplog):
    clock = QuickClock()
    sink = Sink()
    with refusing_port() as port:
        client = ApiClient(HttpTransport(ClusterConfig(f"http://127.0.0.1:{port}")), FixedCredentials(Grant()), clock)
        reflector = Reflector(client, kinds.POD, sink, clock=clock, chance=Chance(1))
        running = asyncio.create_task(reflector.run())
        await until(lambda: len(clock.slept) >= 6)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    await client.close()
    for pause, base in zip(clock.slept, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6], strict=False):
        assert base <= pause < 2 * base
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1, "said once"


async def test_a_watch_that_ends_at_once_again_and_again_is_not_hammered():
    async with reflecting(streaming(INITIAL, then="end"), *[streaming(then="end")] * 4, park) as (
        server,
        _,
        sink,
        clock,
    ):
        await sink.next()
        for _ in range(6):
            await server.next_request()
        assert len(clock.slept) == 4


async def test_cut_before_the_initial_events_are_through_delivers_nothing():
    async with reflecting(
        streaming([added("a", 1)], then="cut"),
        answering(500, status(500, "InternalError", "etcd is away")),
        streaming([added("a", 1)], then="end"),
        answering(200, pod_list(pod("a", 1))),
    ) as (_, _, sink, _):
        assert await sink.brief() == ["=a@5"]


async def test_too_many_requests_waits_as_told():
    async with reflecting(
        answering(429, status(429, "TooManyRequests", "slow down"), Retry_After="7"), streaming(INITIAL)
    ) as (_, _, sink, clock):
        await sink.next()
        assert clock.slept == [7.0]


async def test_garbage_instead_of_a_watch_ends_in_a_list():
    async with reflecting(
        streaming(INITIAL, b"<html>gateway</html>\n"),
        answering(502, b"bad gateway"),
        answering(200, pod_list(pod("z", 9), version="9")),
    ) as (_, _, sink, _):
        assert [await sink.brief() for _ in range(2)] == [["=a,b@5"], ["=z@9"]]


async def test_an_answer_that_is_no_list_is_not_taken_for_an_empty_cluster():
    async with reflecting(
        answering(403, status(403, "Forbidden", "no watch")),
        answering(200, {"message": "welcome to the gateway"}),
        streaming(INITIAL),
    ) as (_, _, sink, clock):
        assert await sink.brief() == ["=a,b@5"]
        assert len(clock.slept) == 1


async def test_cancelling_hangs_up_and_leaves_no_task_behind():
    before = asyncio.all_tasks()
    async with reflecting(streaming(INITIAL)) as (_, _, sink, _):
        await sink.next()
    await until(lambda: asyncio.all_tasks() == before)


GONE = ApiError(410, "Expired", "too old resource version")
TOO_NEW = ApiError(504, "Timeout", "Too large resource version: 9, current: 5",
                   {"causes": [{"reason": "ResourceVersionTooLarge", "message": "..."}]})  # fmt: skip


def answered(code):
    return ApiError(code, "Some", "thing")


@pytest.mark.parametrize(
    ("phase", "error", "has_version", "expected"),
    [
        (Phase.WATCH, GONE, True, Recovery(Phase.WATCH_LIST, pause=False)),
        (Phase.WATCH, SilenceError("x"), True, Recovery(Phase.WATCH, pause=False)),
        (Phase.WATCH, ConnectError("x"), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, TransportError("x"), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, answered(429), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, answered(500), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, answered(401), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, answered(403), True, Recovery(Phase.WATCH, pause=True)),
        (Phase.WATCH, answered(400), True, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.WATCH, DecodeError("Pod", "", "", "", "x"), True, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.WATCH, HistoryLostError("x"), True, Recovery(Phase.WATCH_LIST, pause=False, forget_version=True)),
        (Phase.WATCH_LIST, GONE, True, Recovery(Phase.WATCH_LIST, pause=False, forget_version=True)),
        (Phase.WATCH_LIST, TOO_NEW, True, Recovery(Phase.WATCH_LIST, pause=False, forget_version=True)),
        (Phase.WATCH_LIST, GONE, False, Recovery(Phase.LIST, pause=False)),
        (Phase.WATCH_LIST, answered(504), True, Recovery(Phase.LIST, pause=False)),
        (Phase.WATCH_LIST, answered(403), False, Recovery(Phase.LIST, pause=False)),
        (Phase.WATCH_LIST, answered(404), False, Recovery(Phase.LIST, pause=False)),
        (Phase.WATCH_LIST, answered(422), False, Recovery(Phase.LIST, pause=False, give_up_watch_list=True)),
        (Phase.WATCH_LIST, answered(401), False, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.WATCH_LIST, answered(429), False, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.WATCH_LIST, answered(500), False, Recovery(Phase.LIST, pause=True)),
        (Phase.WATCH_LIST, ConnectError("x"), False, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.WATCH_LIST, TransportError("x"), False, Recovery(Phase.LIST, pause=True)),
        (Phase.WATCH_LIST, SilenceError("x"), False, Recovery(Phase.LIST, pause=False, give_up_watch_list=True)),
        (Phase.LIST, GONE, True, Recovery(Phase.LIST, pause=False, forget_version=True)),
        (Phase.LIST, TOO_NEW, True, Recovery(Phase.LIST, pause=False, forget_version=True)),
        (Phase.LIST, GONE, False, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.LIST, answered(403), False, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.LIST, ConnectError("x"), True, Recovery(Phase.WATCH_LIST, pause=True)),
        (Phase.LIST, DecodeError("PodList", "", "", "", "x"), True, Recovery(Phase.WATCH_LIST, pause=True)),
    ],
    ids=lambda value: value.name if isinstance(value, Phase) else None,
)
def test_what_follows_which_failure(phase, error, has_version, expected):
    assert after_failure(phase, error, has_version=has_version) == expected
