"""What our scheduler asks of the API server, against what the real one asked in the same situations.

The recorder's own requests are played against the embedded server while a whole `LiveScheduler` runs on it. Per pod the
requests must be the same: verb, path, content type and every field of the body, names and times that each run makes
anew apart. Order and timing are free, as they were in the recordings.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kubesched import config
from kubesched.apiserver import Answer, Server
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.run import connection_to
from kubesched.client.auth import credentials_of
from kubesched.client.rest import ApiClient
from kubesched.client.transport import HttpTransport
from kubesched.clock import Chance, RealClock
from kubesched.plugins.registry import IN_TREE
from tests.recordings.scenario import Exchange, scenarios

Json = dict[str, Any]
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_PATIENCE_S = 60.0
#: How long no further request comes before a scenario counts as over.
_QUIET_S = 0.4
_RUNNING = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in ("Initialized", "ContainersReady", "Ready")],
    }
}


def node(name: str, cpu: str = "4", memory: str = "8Gi", *, zone: str = "", spec: Json | None = None) -> Json:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    labels = {"kubernetes.io/hostname": name, **({"topology.kubernetes.io/zone": zone} if zone else {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec or {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def placed(name: str, on: str, cpu: str) -> Json:
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"nodeName": on, "containers": [container]},
    }


def priority_class(name: str, value: int, policy: str = "PreemptLowerPriority") -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


CLASSES = [priority_class("low", 1), priority_class("high", 1000), priority_class("high-never", 1000, "Never")]
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "prot", "namespace": "default"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "prot"}}},
}


def runs(*pods: str) -> Callable[[Play], Any]:
    """The kubelet starts these pods."""

    async def act(play: Play) -> None:
        for pod in pods:
            await play.patch(f"/api/v1/namespaces/default/pods/{pod}/status", _RUNNING)

    return act


def ends(*pods: str) -> Callable[[Play], Any]:
    """The kubelet is done with these pods, or the recorder took them away beside its recording."""

    async def act(play: Play) -> None:
        for pod in pods:
            await play.delete(f"/api/v1/namespaces/default/pods/{pod}")

    return act


def loads(*documents: Json) -> Callable[[Play], Any]:
    async def act(play: Play) -> None:
        play.server.load(documents)

    return act


@dataclass
class Situation:
    """`objects` are there at the start; `acts` happen before the exchange of that index, unseen by the recording;
    pods in `anywhere` may go to another node than they did: several are as good."""

    objects: list[Json]
    acts: dict[int, Callable[[Play], Any]] = field(default_factory=dict)
    anywhere: frozenset[str] = frozenset()


SITUATIONS = {
    "b03-schedule": Situation(
        [node("n1", zone="a"), node("n2", zone="b")], anywhere=frozenset({"s1", "s2", "s3", "s4", "s6"})
    ),
    "b04-unschedulable": Situation(
        [
            node("n1", zone="a"),
            node("n2", zone="b"),
            placed("s3", "n1", "100m"),
            placed("s1", "n2", "100m"),
            placed("s4", "n2", "100m"),
        ],
        {
            8: loads(
                node("n3", spec={"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}),
                node("n4", spec={"unschedulable": True}),
                node("n5", cpu="2", memory="4Gi"),
            )
        },
        frozenset({"hp1", "hp2", "hp3"}),
    ),
    "b05-preemption": Situation([node("p1", "2"), *CLASSES], {3: runs("low1"), 20: ends("low1")}),
    "b05b-preemption-more": Situation(
        [node("p1", "2"), node("p2", "2"), *CLASSES, BUDGET],
        {
            6: runs("low-a", "low-b"),
            15: ends("low-a"),
            17: ends("low-b"),
            23: ends("high-2"),
            29: runs("v1", "v2"),
            35: ends("v2"),
            53: ends("v1"),
        },
    ),
    "b07-gates": Situation([node("g1")]),
    "b08-binding-errors": Situation([node("g1")]),
}


class Play:
    def __init__(self, server: Server, client: ApiClient) -> None:
        self.server = server
        self.client = client
        self.sent: list[tuple[str, str]] = []
        self._arrived = asyncio.Event()
        #: Recorded refusals still to be given, by path and object.
        self._refusals: dict[tuple[str, str], deque[Exchange]] = {}
        self._anywhere: frozenset[str] = frozenset()

    async def run(self, name: str) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
        """The requests of both schedulers, per object."""
        situation, exchanges = SITUATIONS[name], scenarios()[name].exchanges
        self._anywhere = situation.anywhere
        expected: list[tuple[str, str]] = []
        for exchange in exchanges:
            if exchange.status >= 400 and _is_schedulers(exchange):
                about = self._noted(exchange.method, exchange.path, "", exchange.body)[0]
                self._refusals.setdefault((exchange.path, about), deque()).append(exchange)
        for exchange in exchanges:
            act = situation.acts.get(exchange.index)
            if act is not None:
                await self._until(len(expected))
                await act(self)
            if _is_schedulers(exchange):
                content_type = exchange.headers.get("content-type", "")
                expected.append(self._noted(exchange.method, exchange.path, content_type, exchange.body))
            elif exchange.method != "GET":
                await self._until(len(expected))
                await self._repeat(exchange)
        await self._until(len(expected))
        while await self._another():
            pass
        return _by_object(expected), _by_object(self.sent)

    async def patch(self, path: str, document: Json) -> None:
        await self.client.request(
            "PATCH", path, json.dumps(document).encode(), content_type="application/strategic-merge-patch+json"
        )

    async def delete(self, path: str) -> None:
        await self.client.request("DELETE", path, b'{"gracePeriodSeconds": 0}')

    async def intercept(self, request: Any, proceed: Any) -> Any:
        if request.method != "GET" and request.headers.get("user-agent") != "recorder":
            body = json.loads(request.body) if request.body else None
            noted = self._noted(request.method, request.path, request.content_type, body)
            self.sent.append(noted)
            self._arrived.set()
            refusals = self._refusals.get((request.path, noted[0]))
            if refusals:
                refusal = refusals.popleft()
                return Answer(refusal.status, json.dumps(refusal.answer).encode())
        return await proceed()

    async def _repeat(self, exchange: Exchange) -> None:
        body = None if exchange.body is None else json.dumps(exchange.body).encode()
        content_type = exchange.headers.get("content-type") or "application/json"
        await self.client.request(exchange.method, exchange.path, body, content_type=content_type)

    async def _until(self, count: int) -> None:
        """Until ours has sent as many requests as the recorded one had by then."""
        try:
            async with asyncio.timeout(_PATIENCE_S):
                while len(self.sent) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            pass  # the comparison tells what is missing

    async def _another(self) -> bool:
        self._arrived.clear()
        try:
            async with asyncio.timeout(_QUIET_S):
                await self._arrived.wait()
        except TimeoutError:
            return False
        return True

    def _noted(self, method: str, path: str, content_type: str, body: Any) -> tuple[str, str]:
        """The object that a request is about, and the request as text without what each run makes anew."""
        if method == "DELETE" and body.get("preconditions", {}).keys() == {"uid"}:
            body = {name: each for name, each in body.items() if name != "preconditions"}  # ours is the safer one
        about = body["regarding"]["name"] if path.endswith("/events") else path.split("/")[6]
        if about in self._anywhere:
            body = json.loads(re.sub(r'"name": "[ngp]\d"|to [ngp]\d"', lambda m: m[0][:-3] + '*"', json.dumps(body)))
        return about, f"{method} {path} {content_type.split(';')[0]} {json.dumps(_masked(body), sort_keys=True)}"


def _is_schedulers(exchange: Exchange) -> bool:
    return "kube-scheduler" in exchange.headers.get("user-agent", "")


def _masked(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        if value.get("kind") == "Event":
            value = {
                **value,
                "metadata": {**value["metadata"], "name": re.sub(r"\.[0-9a-f]+$", ".*", value["metadata"]["name"])},
            }
        return {name: _masked(each, name) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each) for each in value]
    if key in ("uid", "resourceVersion", "eventTime", "lastTransitionTime", "lastObservedTime") and value:
        return "*"
    if key == "reportingInstance":
        return re.sub(r"-[^-]*$", "-*", value) if "<host>" in value else "default-scheduler-*"
    return _UUID.sub("*", value) if isinstance(value, str) else value


def _by_object(requests: list[tuple[str, str]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for about, request in requests:
        found.setdefault(about, Counter())[request] += 1
    return found


@pytest.mark.parametrize("name", SITUATIONS)
async def test_our_requests_are_the_real_schedulers(name: str) -> None:
    situation = SITUATIONS[name]
    async with Server(node_simulator=False, chance=Chance(3)) as server:
        server.load(situation.objects)
        reach = connection_to(server)
        client = ApiClient(
            HttpTransport(reach.cluster, None),
            credentials_of(reach, RealClock(), connect=HttpTransport),
            RealClock(),
            user_agent="recorder",
        )
        play = Play(server, client)
        server.interceptors.append(play.intercept)
        options = LiveOptions(config.load(None), IN_TREE, seed=3, leader_elect=False)
        live = LiveScheduler(connection_to(server), options)
        await live.start()
        running = asyncio.create_task(live.run())
        try:
            expected, sent = await play.run(name)
        finally:
            await live.stop()
            await running
            await client.close()
    assert sent.keys() == expected.keys()
    for about, requests in expected.items():
        assert sorted(sent[about].elements()) == sorted(requests.elements()), about
