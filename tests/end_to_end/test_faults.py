"""What the network and the API server do to a scheduler: in each case every pod ends bound exactly once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest

from kubesched import config
from kubesched.apiserver import Answer, DropConnection, Server
from kubesched.apiserver.resources import core
from kubesched.app.live import LiveOptions
from kubesched.clock import RealClock
from kubesched.plugins.registry import IN_TREE
from kubesched.state import consistency
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import PATIENCE_S, placed, scheduling, until
from tests.end_to_end.process import FAST
from tests.ports import free_port

PODS = 60


class Faults:
    """An interceptor that does something to some requests, and counts binds that were stored."""

    server: Server

    def __init__(self) -> None:
        self.bound: Counter[str] = Counter()
        self.hits = 0
        self.seen = 0
        self.changed = asyncio.Event()

    async def __call__(self, request, proceed):
        if request.path.endswith("/binding"):
            self.seen += 1
            reply = await self.on_bind(request, proceed)
        else:
            reply = await self.on_other(request, proceed)
        return reply

    async def on_bind(self, request, proceed):
        return await self.store(request, proceed)

    async def on_other(self, request, proceed):
        return await proceed()

    async def store(self, request, proceed):
        reply = await proceed()
        assert isinstance(reply, Answer)
        if reply.status == 201:
            self.bound[request.path] += 1
            self.changed.set()
        return reply

    def hit(self) -> None:
        self.hits += 1

    async def all_bound(self, count: int) -> None:
        while self.bound.total() < count:
            self.changed.clear()
            await self.changed.wait()


class AnswerLost(Faults):
    """Every fifth bind is stored, and the connection cut before its answer."""

    async def on_bind(self, request, proceed):
        reply = await self.store(request, proceed)
        if self.seen % 5 == 0:
            self.hit()
            raise DropConnection
        return reply


class RequestLost(Faults):
    """Every fifth bind never arrives."""

    async def on_bind(self, request, proceed):
        if self.seen % 5 == 0:
            self.hit()
            raise DropConnection
        return await self.store(request, proceed)


def failing(code: int, reason: str, *, stored: bool = False, retry_after: str = ""):
    """Every fifth bind answers so, whether it was stored or not."""

    class Failing(Faults):
        async def on_bind(self, request, proceed):
            if self.seen % 5:
                return await self.store(request, proceed)
            self.hit()
            if stored:
                await self.store(request, proceed)
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
            body = json.dumps({**status, "message": "injected"})
            return Answer(code, body.encode(), headers={"Retry-After": retry_after} if retry_after else {})

    return Failing


class WatchesCut(Faults):
    """All watches are cut again and again while pods are bound."""

    async def on_bind(self, request, proceed):
        reply = await self.store(request, proceed)
        if self.seen % 10 == 0:
            self.hit()
            self.server.cut_watches()
        return reply


class HistoryLost(WatchesCut):
    """The same, and everything that a watch could resume from is forgotten: 410 and a new list."""

    async def on_bind(self, request, proceed):
        reply = await self.store(request, proceed)
        if self.seen % 10 == 0:
            self.hit()
            self.server.compact()
            self.server.cut_watches()
        return reply


class NoWatchList(Faults):
    """A server that does not know `sendInitialEvents` and fails one list in three."""

    async def on_other(self, request, proceed):
        if "sendInitialEvents" in str(request.query):
            self.hit()
            return Answer(422, b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}')
        return await proceed()


class EventsRefused(Faults):
    """Events and status patches get nothing but 500: binds go on."""

    async def on_other(self, request, proceed):
        if request.method in ("POST", "PATCH") and "binding" not in request.path:
            self.hit()
            return Answer(
                500, b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}'
            )
        return await proceed()


CASES = {
    "answers lost": AnswerLost,
    "requests lost": RequestLost,
    "500": failing(500, "InternalError"),
    "500 though stored": failing(500, "InternalError", stored=True),
    "504 though stored": failing(504, "Timeout", stored=True),
    "503": failing(503, "ServiceUnavailable"),
    "429": failing(429, "TooManyRequests", retry_after="1"),
    "409": failing(409, "Conflict"),
    "watches cut": WatchesCut,
    "history lost": HistoryLost,
    "no watch-list": NoWatchList,
    "events refused": EventsRefused,
}


def live(server, clock=None):
    settings = config.load({**FAST, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1})
    return scheduling(server, LiveOptions(settings, IN_TREE, seed=1), clock=clock)


@pytest.mark.parametrize("kind", CASES.values(), ids=CASES)
async def test_every_pod_is_bound_exactly_once(kind):
    faults = kind()
    async with Server(node_simulator=False) as server:
        faults.server = server
        server.intercept(faults)
        server.load([make_node(f"n{i}").capacity(cpu=8, memory="16Gi", pods=12).dict() for i in range(8)])
        server.load([make_pod(f"early-{i}").cpu("500m").dict() for i in range(PODS // 2)])
        async with live(server) as scheduler:
            server.load([make_pod(f"late-{i}").cpu("500m").dict() for i in range(PODS // 2)])
            await asyncio.wait_for(faults.all_bound(PODS), PATIENCE_S)
            await placed(scheduler, PODS)
            await until(scheduler, lambda: faults.hits > 0)  # events are sent when there is nothing better to do
            check(server, scheduler, faults)


async def test_a_server_that_is_away_for_a_while_is_waited_for():
    server = Server(port=free_port(), node_simulator=False)
    await server.start()
    server.load([make_node("n1").capacity(cpu=8, pods=20).dict(), make_pod("before").dict()])
    async with live(server) as scheduler:
        await placed(scheduler, 1)
        await server.stop()
        server.load([make_pod("meanwhile").dict()])
        assert scheduler.state.nodes.row_count == 1
        await server.start()
        await placed(scheduler, 2, names={"before", "meanwhile"})
        assert consistency.check(scheduler.state) == []
    await server.stop()


async def test_a_start_without_a_server_waits_for_it():
    server = Server(port=free_port(), node_simulator=False)
    server.load([make_node("n1").capacity(cpu=8, pods=20).dict(), make_pod("p").dict()])
    clock = Pauses()

    async def start_when_it_was_missed():
        await clock.paused.wait()
        await server.start()

    starting = asyncio.create_task(start_when_it_was_missed())
    async with live(server, clock) as scheduler:
        await placed(scheduler, 1)
    await starting
    await server.stop()


class Pauses(RealClock):
    """Tells of the first pause that somebody makes."""

    def __init__(self):
        self.paused = asyncio.Event()

    async def sleep(self, seconds):
        self.paused.set()
        await super().sleep(seconds)


def check(server, scheduler, faults):
    assert set(faults.bound.values()) == {1}, "a pod was bound twice"
    placed: Counter[str] = Counter()
    for stored in server.store.of(core("pods")).scan():
        document = stored.document()
        node = document["spec"].get("nodeName")
        assert node == scheduler.state.node_of(document["metadata"]["uid"])
        placed[node] += 1
    assert placed.total() == PODS and max(placed.values()) <= 12
    assert consistency.check(scheduler.state) == []
    assert len(scheduler.scheduler.queue.in_flight) == 0
    assert scheduler.scheduler.handlers.pending == {}
