"""A cluster with controllers and kubelets on a manual clock, driven without HTTP; waiting pods are bound at once."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from kubesched.apiserver import CONTROLLERS, Answer, Profile, Request, Server
from kubesched.apiserver.store import Change
from kubesched.clock import Chance, ManualClock

Json = dict[str, Any]
STRATEGIC = "application/strategic-merge-patch+json"


class Lively:
    """`run` lets everybody do what there is to do; `binds` False leaves pods unbound."""

    def __init__(
        self,
        *,
        controllers: Collection[str] = tuple(CONTROLLERS),
        nodes: int = 3,
        binds: bool = True,
        profile: Profile | None = None,
    ) -> None:
        self.clock = ManualClock()
        self.server = Server(clock=self.clock, chance=Chance(0), controllers=controllers, profile=profile)
        self.binds = binds
        self._next = 0
        self.server.load([make_node(f"n{number}", f"z{number}") for number in range(1, nodes + 1)])
        for player in self.server.players:
            player.start()

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> tuple[int, Any]:
        path, _, query = path.partition("?")
        parameters = dict(part.split("=", 1) for part in query.split("&")) if query else {}
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, parameters, {"content-type": content_type}, data)
        reply = _now(self.server.handle(request))
        assert isinstance(reply, Answer)
        return reply.status, json.loads(reply.body)

    def ok(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Any:
        status, answer = self.ask(method, path, body, content_type)
        assert status < 300, answer
        return answer

    def get(self, path: str) -> Any:
        return self.ok("GET", path)

    def items(self, path: str) -> list[Json]:
        found: list[Json] = self.ok("GET", path)["items"]
        return found

    def patch(self, path: str, body: Json) -> Any:
        return self.ok("PATCH", path, body, STRATEGIC)

    def run(self, seconds: float = 0.0) -> None:
        """Advances the clock, then lets controllers, kubelets and the binder work until nothing changes any more."""
        self.clock.advance(seconds)
        for _ in range(200):
            before = self.server.store.revision
            self.clock.advance(0.0)
            if self.binds:
                self._bind_waiting()
            self.clock.advance(0.0)
            if self.server.store.revision == before:
                return
        raise AssertionError("the cluster does not come to rest")

    def _bind_waiting(self) -> None:
        nodes = [n for n in self.items("/api/v1/nodes") if not n["spec"].get("unschedulable")]
        for pod in self.items("/api/v1/pods?fieldSelector=spec.nodeName="):
            if not nodes:
                return
            target = _pinned(pod) or nodes[self._next % len(nodes)]["metadata"]["name"]
            self._next += 1
            meta = pod["metadata"]
            body = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": target}}
            self.ok("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding", body)


class Binder:
    """The least of schedulers, for a server that runs: puts waiting pods on the schedulable nodes in turn."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._next = 0
        server.store.collections["", "pods"].add_watcher(self)

    def offer(self, change: Change) -> None:
        if change.type == "ADDED" and not change.stored.fields[0]:
            self._server.clock.call_later(0.0, self._bind, change.stored.namespace, change.stored.name)

    def _bind(self, namespace: str, name: str) -> None:
        nodes = [s.name for s in self._server.store.collections["", "nodes"].items.values() if s.fields[0] == "false"]
        self._next += 1
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": nodes[self._next % len(nodes)]}}
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/binding"
        headers = {"content-type": "application/json", "authorization": f"Bearer {self._server.token}"}
        request = Request("POST", path, {}, headers, json.dumps(body).encode())
        _now(self._server.api.handle(request))


def make_node(name: str, zone: str) -> Json:
    amounts = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def workload(kind: str, name: str, **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "app:1"}]}}
    return {
        "kind": kind,
        "apiVersion": "apps/v1",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def _pinned(pod: Json) -> str:
    """The node a daemon pod is for."""
    found = json.dumps(pod["spec"].get("affinity") or {})
    return found.split('"values": ["')[1].split('"')[0] if '"metadata.name"' in found else ""


def _now(coroutine: Any) -> Any:
    """The result of a coroutine that does not wait."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("the request waits")


__all__ = ["Binder", "Lively", "make_node", "workload"]
