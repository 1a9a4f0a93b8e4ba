"""Preemption over HTTP: the pod takes the place that the criteria name, spares the budget, and asks for as little as
the original does (condition, deletion, event, nomination)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from kubesched.apiserver import Server
from kubesched.apiserver.resources import core
from tests.build import make_node, make_pdb, make_pod, make_priority_class
from tests.end_to_end.cluster import PATIENCE_S, placed
from tests.end_to_end.test_faults import live

CLASSES = {"low": 1, "middle": 5, "high": 100}


class Writes:
    """Keeps what was asked about pods, in order of arrival, bindings and events apart."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.events: list[Any] = []
        self.bound: dict[str, str] = {}
        self.changed = asyncio.Event()

    async def __call__(self, request, proceed):
        answer = await proceed()
        if request.method == "POST" and request.path.endswith("/events"):
            self.events.append(json.loads(request.body))
        elif request.path.endswith("/binding"):
            document = json.loads(request.body)
            self.bound[document["metadata"]["name"]] = document["target"]["name"]
        elif request.method in ("PATCH", "DELETE") and "/pods/" in request.path:
            name = request.path.split("/pods/")[1].split("/")[0]
            self.calls.append((request.method, name, json.loads(request.body)))
        self.changed.set()
        return answer

    def about(self, name: str) -> list[tuple[str, Any]]:
        return [(method, body) for method, pod, body in self.calls if pod == name]

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def on(node: str, name: str, cpu: int, priority_class: str):
    return make_pod(name).cpu(cpu).priority_class(priority_class).node(node).phase("Running")


async def test_the_pod_gets_the_room_that_the_criteria_name():
    writes = Writes()
    async with Server() as server:
        server.intercept(writes)
        server.load([make_priority_class(name, value).dict() for name, value in CLASSES.items()])
        server.load([make_node(name).capacity(cpu=2, memory="8Gi", pods=10).dict() for name in ("n1", "n2")])
        server.load([make_pdb("web").selector({"app": "web"}).dict()])
        server.load(
            [
                on("n1", "guarded", 2, "low").label("app", "web").dict(),
                on("n2", "middle", 1, "middle").dict(),
                on("n2", "low", 1, "low").dict(),
            ]
        )
        async with live(server) as scheduler:
            await placed(scheduler, 3)
            server.load([make_pod("wanted").cpu(1).priority_class("high").dict()])
            await writes.until(lambda: "wanted" in writes.bound)
            await placed(scheduler, 3, names={"guarded", "middle", "wanted"})
            await writes.until(lambda: {"Preempted", "Scheduled"} <= {event["reason"] for event in writes.events})

    assert writes.bound == {"wanted": "n2"}
    (patch, condition), (delete, options) = writes.about("low")
    assert (patch, delete) == ("PATCH", "DELETE")
    assert {key: condition["status"]["conditions"][0][key] for key in ("type", "status", "reason", "message")} == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    }
    assert set(options) <= {"kind", "apiVersion", "preconditions"}
    assert writes.about("guarded") == writes.about("middle") == []
    nominations = [body["status"].get("nominatedNodeName") for _, body in writes.about("wanted")]
    assert "n2" in nominations
    (event,) = (event for event in writes.events if event["reason"] == "Preempted")
    assert (event["action"], event["type"], event["regarding"]["name"]) == ("Preempting", "Normal", "low")
    assert event["note"].startswith("Preempted by pod ") and event["note"].endswith(" on node n2")
    live_pods = {stored.document()["metadata"]["name"] for stored in server.store.of(core("pods")).scan()}
    assert live_pods == {"guarded", "middle", "wanted"}
