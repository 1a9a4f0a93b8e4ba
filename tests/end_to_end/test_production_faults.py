"""What happens to bytes, connections and answers between a scheduler and its API server.

In each case, with a counter that shows that it was hit: every pod ends bound exactly once, the cache equals the server,
nothing is kept that has been dealt with, and the log has a line that says what was wrong.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from dataclasses import replace
from typing import cast

import pytest

from kubesched import config
from kubesched.apiserver import Answer, Server, Stream
from kubesched.apiserver.resources import core
from kubesched.apiserver.watch import Watch
from kubesched.app import dumps
from kubesched.app.live import LiveOptions
from kubesched.app.run import connection_to
from kubesched.client.reflector import ReflectorSettings
from kubesched.client.rest import connect
from kubesched.plugins.registry import IN_TREE
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import scheduling, until
from tests.end_to_end.process import FAST
from tests.end_to_end.proxy import Cut, Fault, Hang, Proxy

NODES, PODS = 6, 36
#: For faults that nothing but time brings to light. Elsewhere a slow machine must not look like a fault.
IMPATIENT = {"call_timeout_s": 0.8, "watching": ReflectorSettings(silence_s=0.6, initial_silence_s=0.6)}
SETTINGS = {**FAST, "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


def is_watch(target, plural="pods"):
    return target.startswith(f"/api/v1/{plural}?") and "watch=" in target


def is_bind(target):
    return target.endswith("/binding")


def half(piece):
    return piece[: len(piece) // 2]


# -- below HTTP


class FirstEventsCut(Fault):
    """The list of pods, as a watch or not, breaks off in the middle."""

    says = "payload is not completed"

    def on_answer(self, target, piece, seen):
        if target.startswith("/api/v1/pods?") and self.hits < 1 and b"early-" in piece:
            self.hit()
            return Cut(half(piece))
        return None


class WatchLineCut(Fault):
    """Every second piece of the watch of pods breaks off in the middle of a line, until enough. (BR-123)"""

    says = "watch cut, resuming"  # everyday business, and so for debug logs

    def on_answer(self, target, piece, seen):
        if is_watch(target) and seen > 1 and seen % 2 == 0 and self.hits < 8:
            self.hit()
            return Cut(half(piece))
        return None


class AnswerNeverComes(Fault):
    """Every sixth bind is carried out, and its answer never comes, nor an end of the connection."""

    says = "took effect though its answer was lost"
    needs = IMPATIENT

    def __init__(self):
        super().__init__()
        self.binds = 0

    def on_answer(self, target, piece, seen):
        if is_bind(target):
            self.binds += 1
            if self.binds % 6 == 0 and self.hits < 5:
                self.hit()
                return Hang()
        return None


class RequestCut(Fault):
    """Every sixth bind breaks off in the middle of the request."""

    says = ""  # a bind is sent once more on another connection, which is no news

    def __init__(self):
        super().__init__()
        self.binds = 0

    def on_request(self, target, piece):
        if is_bind(target) and b"POST" in piece:
            self.binds += 1
            if self.binds % 6 == 0 and self.hits < 6:
                self.hit()
                return Cut(half(piece))
        return None


class AnswerCut(RequestCut):
    """Every sixth answer to a bind breaks off in the middle."""

    def on_request(self, target, piece):
        return None

    def on_answer(self, target, piece, seen):
        if is_bind(target):
            self.binds += 1
            if self.binds % 6 == 0 and self.hits < 6:
                self.hit()
                return Cut(half(piece))
        return None


class WatchGoesSilent(Fault):
    """The watches of pods and nodes are half open: nothing comes any more, and nobody says so. (BR-123)"""

    says = "nothing was received for 0.6 s"
    needs = IMPATIENT

    def on_answer(self, target, piece, seen):
        if (is_watch(target) or is_watch(target, "nodes")) and seen > 1 and self.hits < 2:
            self.hit()
            return Hang()
        return None


class ConnectionsRefused(Fault):
    """Connections are reset as soon as they are made, some of the first and some of the later ones."""

    says = "synced=false"  # how the connection ended depends on when that was

    def on_connect(self, number):
        if number % 5 == 0 and self.hits < 6:
            self.hit()
            return False
        return True


# -- answers


class Unhappy:
    """An interceptor; `on` says what happens to a request, None lets it through."""

    says = ""

    def __init__(self):
        self.hits = 0
        self.counts: Counter[str] = Counter()

    async def __call__(self, request, proceed):
        kind = (
            "bind" if request.path.endswith("/binding") else "watch" if request.query.get("watch") else request.method
        )
        self.counts[kind] += 1
        answer = self.on(kind, request)
        if answer is not None:
            self.hits += 1
            return answer
        return self.after(kind, request, await proceed())

    def on(self, kind, request):
        return None

    def after(self, kind, request, reply):
        return reply


def refusal(code, reason, headers=None):
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return Answer(code, json.dumps({**status, "message": f"injected {code}"}).encode(), headers=headers or {})


def answering(code, reason, *, of, says, headers=None):
    """Every fourth watch, first or resumed, or every fourth bind is answered so, until enough."""

    class Answering(Unhappy):
        def on(self, kind, request):
            is_hit = kind == of and self.counts[kind] % 4 == 1 and self.hits < 8
            return refusal(code, reason, headers) if is_hit else None

    Answering.says = says
    return Answering


class Doubled:
    """A watch whose lines all come twice."""

    def __init__(self, watch, faults):
        self._watch = watch
        self._faults = faults

    async def gathered(self):
        lines = await self._watch.gathered()
        doubled = []
        for line in lines.splitlines(keepends=True):
            doubled.append(line)
            if b'"type":"MODIFIED"' in line or b'"type":"ADDED"' in line:
                self._faults.hits += 1
                doubled.append(line.replace(b'"type":"ADDED"', b'"type":"MODIFIED"'))
        return b"".join(doubled)

    def __getattr__(self, name):
        return getattr(self._watch, name)

    def __setattr__(self, name, value):
        if name in ("_watch", "_faults"):
            object.__setattr__(self, name, value)
        else:
            setattr(self._watch, name, value)


class DeliveredTwice(Unhappy):
    """Every event comes twice, as after a reconnection that began too early."""

    def after(self, kind, request, reply):
        return Stream(cast(Watch, Doubled(reply.watch, self)), reply.on_end) if isinstance(reply, Stream) else reply


class NodesComeLate(Unhappy):
    """Pods on nodes are seen before the nodes: streams of different kinds keep no common order."""

    def __init__(self):
        super().__init__()
        self.pods_seen = asyncio.Event()

    async def __call__(self, request, proceed):
        if request.path == "/api/v1/nodes" and request.query.get("watch"):
            self.hits += 1
            await self.pods_seen.wait()
        elif request.path == "/api/v1/pods" and request.query.get("watch"):
            asyncio.get_running_loop().call_later(0.1, self.pods_seen.set)
        return await super().__call__(request, proceed)


class ExpiredInTheStream(Unhappy):
    """Watches end with an ERROR event: 410 Expired."""

    says = "too old resource version"

    def after(self, kind, request, reply):
        if isinstance(reply, Stream) and self.hits < 6:
            self.hits += 1
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410,
                      "message": "too old resource version: 1 (2)", "metadata": {}}  # fmt: skip
            reply.watch.push(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
        return reply


BELOW = {
    "first events cut": FirstEventsCut,
    "watch line cut": WatchLineCut,
    "answer of a bind never comes": AnswerNeverComes,
    "request of a bind cut": RequestCut,
    "answer of a bind cut": AnswerCut,
    "half-open watches": WatchGoesSilent,
    "connections refused": ConnectionsRefused,
}

ANSWERS = {
    "401 then fine": answering(401, "Unauthorized", of="bind", says="injected 401"),
    "401 for watches": answering(401, "Unauthorized", of="watch", says="injected 401"),
    "410 for watches": answering(410, "Expired", of="watch", says="injected 410"),
    "429 for watches": answering(429, "TooManyRequests", of="watch", says="asks to wait", headers={"Retry-After": "1"}),
    "500 for watches": answering(500, "InternalError", of="watch", says="injected 500"),
    "503 for watches": answering(503, "ServiceUnavailable", of="watch", says="injected 503"),
    "504 for watches": answering(504, "Timeout", of="watch", says="injected 504"),
    "delivered twice": DeliveredTwice,
    "nodes after pods": NodesComeLate,
    "410 in the stream": ExpiredInTheStream,
}


@pytest.mark.parametrize("kind", BELOW.values(), ids=BELOW)
async def test_below_http(kind, caplog):
    fault = kind()
    async with Server(node_simulator=False) as server, Proxy(server.port, fault) as proxy:
        await all_is_bound(server, through(proxy, server), fault, caplog, getattr(kind, "needs", {}))


@pytest.mark.parametrize("kind", ANSWERS.values(), ids=ANSWERS)
async def test_answers(kind, caplog):
    fault = kind()
    async with Server(node_simulator=False) as server:
        server.intercept(fault)
        await all_is_bound(server, connection_to(server), fault, caplog, meanwhile=server.cut_watches)


async def test_slow_bodies(caplog):
    """All answers come in pieces of a few bytes."""

    class Slow(Fault):
        says = ""

        def on_answer(self, target, piece, seen):
            self.hit()
            return piece

    fault = Slow()
    async with Server(node_simulator=False) as server, Dripping(server.port, fault) as proxy:
        await all_is_bound(server, through(proxy, server), fault, caplog)


class Dripping(Proxy):
    """Hands on a few bytes at a time, giving way in between."""

    async def _take(self, reader, writer):
        whole = writer.write

        class Drip:
            def __getattr__(self, name):
                return getattr(writer, name)

            def write(self, data):
                self.rest = data

            async def drain(self):
                for start in range(0, len(self.rest), 61):
                    whole(self.rest[start : start + 61])
                    await asyncio.sleep(0)

        await super()._take(reader, cast(asyncio.StreamWriter, Drip()))


# -- what all have in common


def through(proxy, server):
    connection = connection_to(server)
    return replace(connection, cluster=replace(connection.cluster, server=f"http://127.0.0.1:{proxy.port}"))


async def all_is_bound(server, connection, fault, caplog, needs=None, meanwhile=lambda: None):
    """`needs` of the scheduler's options; `meanwhile` is done when half of the pods that come late are there."""
    caplog.set_level(logging.DEBUG, logger="kubesched")
    binds: Counter[str] = Counter()

    async def count(request, proceed):
        reply = await proceed()
        if request.path.endswith("/binding") and reply.status == 201:
            binds[request.path] += 1
        return reply

    server.interceptors.insert(0, count)  # the last to be asked: it sees what is stored
    server.load([make_node(f"n{i}").capacity(cpu=8, memory="16Gi", pods=8).dict() for i in range(NODES)])
    server.load([make_pod(f"early-{i}").cpu("500m").dict() for i in range(PODS // 2)])
    server.load([make_pod("there").cpu("500m").node("n0").dict()])
    options = LiveOptions(config.load(SETTINGS), IN_TREE, seed=1, **(needs or {}))
    async with scheduling(server, options, connection=connection) as scheduler:
        for i in range(PODS // 2):
            server.load([make_pod(f"late-{i}").cpu("500m").dict()])
            if i == PODS // 4:
                meanwhile()
            await asyncio.sleep(0)
        await until(scheduler, lambda: is_at_rest(scheduler, PODS + 1))
        check(server, scheduler, binds)
        direct = connect(connection_to(server), scheduler.clock)
        try:
            assert await dumps.compare(direct, scheduler.scheduler, scheduler.clock) == []
        finally:
            await direct.close()
    assert fault.hits, "the fault was never hit"
    assert not fault.says or any(fault.says in line for line in messages(caplog)), messages(caplog)[-20:]


def is_at_rest(scheduler, count):
    core_ = scheduler.scheduler
    placements = scheduler.state.placements.values()
    return (
        len(placements) == count
        and not any(placement.assumed for placement in placements)
        and not core_.binding_count
        and not core_.inbox
        and not core_.handlers.pending
    )


def check(server, scheduler, binds):
    assert set(binds.values()) == {1} and binds.total() == PODS, "a pod was bound twice, or never"
    placed: Counter[str] = Counter(each.document()["spec"]["nodeName"] for each in server.store.of(core("pods")).scan())
    assert placed.total() == PODS + 1 and max(placed.values()) <= 8
    core_ = scheduler.scheduler
    assert (len(core_.queue.in_flight), core_.queue.in_flight.event_count, len(core_.queue.active)) == (0, 0, 0)
    assert core_.metrics.value("scheduler_goroutines", "binding") == 0


def messages(caplog):
    return [record.getMessage() for record in caplog.records]
