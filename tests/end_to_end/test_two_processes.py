"""An API server and `kubesched run` as two processes over HTTP: all is bound, also across a kill in the middle."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from kubesched.apiserver import Answer, DropConnection, Server
from kubesched.apiserver.resources import core
from tests.build import make_node, make_pod
from tests.end_to_end.process import running_scheduler

NODES, PODS = 200, 2_000
PODS_PER_NODE = 12


class BindWatch:
    """An interceptor that counts binds and can withhold their answers."""

    def __init__(self) -> None:
        self.stored: Counter[str] = Counter()
        self.withheld = 0
        self.withheld_stored = 0
        self.withhold_after: int | None = None
        self.changed = asyncio.Event()
        self.client_gone = asyncio.Event()

    async def __call__(self, request, proceed):
        if not request.path.endswith("/binding"):
            return await proceed()
        if self.withhold_after is not None and self.stored.total() >= self.withhold_after:
            self.withheld += 1
            if self.withheld % 2:
                self.withheld_stored += 1
                self._count(request, await proceed())
            self.changed.set()
            await self.client_gone.wait()
            raise DropConnection
        answer = await proceed()
        self._count(request, answer)
        return answer

    def _count(self, request, answer):
        assert isinstance(answer, Answer)
        if answer.status == 201:
            self.stored[request.path] += 1
        self.changed.set()

    async def until(self, condition):
        while not condition():
            self.changed.clear()
            await self.changed.wait()


def cluster():
    nodes = [make_node(f"n{i}").capacity(cpu=4, memory="16Gi", pods=PODS_PER_NODE).dict() for i in range(NODES)]
    pods = [make_pod(f"p{i}").requests(cpu="300m", memory="1Gi").dict() for i in range(PODS)]
    return nodes + pods


def check_all_bound_within_capacity(server, binds):
    placed: Counter[str] = Counter()
    for stored in server.store.of(core("pods")).scan():
        document = stored.document()
        node = document["spec"].get("nodeName")
        assert node, f"{document['metadata']['name']} is not bound"
        placed[node] += 1
    assert placed.total() == PODS
    assert max(placed.values()) <= PODS_PER_NODE
    assert set(binds.stored.values()) == {1}, "a pod was bound twice"
    assert binds.stored.total() == PODS


@pytest.mark.timeout(180)
async def test_every_pod_is_bound_within_capacity(tmp_path: Path):
    binds = BindWatch()
    async with Server(node_simulator=False) as server:
        server.intercept(binds)
        server.load(cluster())
        async with running_scheduler(server, tmp_path) as scheduler:
            await binds.until(lambda: binds.stored.total() == PODS)
            assert await scheduler.terminate() == 0
        check_all_bound_within_capacity(server, binds)


@pytest.mark.timeout(180)
async def test_a_kill_with_binds_in_flight_loses_and_doubles_nothing(tmp_path: Path):
    binds = BindWatch()
    binds.withhold_after = 500
    async with Server(node_simulator=False) as server:
        server.intercept(binds)
        server.load(cluster())
        async with running_scheduler(server, tmp_path) as scheduler:
            await binds.until(lambda: binds.withheld >= 50)
            await scheduler.kill()
        binds.client_gone.set()
        assert binds.withheld_stored >= 10, "some binds must have been stored without an answer"
        assert binds.stored.total() < PODS
        binds.withhold_after = None
        async with running_scheduler(server, tmp_path) as scheduler:
            await binds.until(lambda: binds.stored.total() == PODS)
            assert await scheduler.terminate() == 0
        check_all_bound_within_capacity(server, binds)
