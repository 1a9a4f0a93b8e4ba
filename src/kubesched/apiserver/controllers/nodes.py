"""Nodes: leases as kubelets renew them, and taints by condition as the node lifecycle controller keeps them.

The lease controller plays the kubelets' heartbeat. The lifecycle controller registers nodes, turns conditions and
`spec.unschedulable` into taints, and marks a node whose lease is no longer renewed as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from kubesched.apiserver.controllers.base import NODES, Controller
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.resources import BY_PATH
from kubesched.apiserver.store import DELETED, Change, Json, Stored

_LEASES = BY_PATH["coordination.k8s.io", "v1", "leases"]
_LEASE_NAMESPACE = "kube-node-lease"
_LEASE_S = 40
_RENEW_EVERY_S = 10.0
_GRACE_S = 50.0

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_KEPT = frozenset({NOT_READY, UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()})
_BETA_LABELS = {"kubernetes.io/os": "beta.kubernetes.io/os", "kubernetes.io/arch": "beta.kubernetes.io/arch"}
_TTL = "node.alpha.kubernetes.io/ttl"


class NodeLeases(Controller):
    name = "node-lease"
    component = "kubelet"
    watched = (NODES,)

    def keys_of(self, change: Change) -> Iterator[str]:
        if change.previous is None:
            yield change.stored.key

    def settle(self, key: str) -> None:
        node = self.find(NODES, key)
        if node is None:
            return
        now = datetime.fromtimestamp(self.api.clock.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = self.find(_LEASES, f"{_LEASE_NAMESPACE}/{key}")
        spec = {"holderIdentity": key, "leaseDurationSeconds": _LEASE_S, "renewTime": now}
        if lease is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": key, "uid": node.uid}
            metadata = {"name": key, "namespace": _LEASE_NAMESPACE, "ownerReferences": [owner]}
            self.create(_LEASES, {"metadata": metadata, "spec": spec})
        else:
            self.update(_LEASES, lease, {**lease.document(), "spec": spec})
        self.enqueue_later(key, _RENEW_EVERY_S)


class NodeLifecycle(Controller):
    name = "node-lifecycle-controller"
    component = "node-controller"
    watched = (NODES,)

    def start(self) -> None:
        self._began_s = self.api.clock.now()
        self._registered: set[str] = set()
        super().start()

    def keys_of(self, change: Change) -> Iterable[str]:
        if change.type == DELETED:
            self._registered.discard(change.stored.uid)
        return (change.stored.key,)

    def settle(self, key: str) -> None:
        stored = self.find(NODES, key)
        if stored is None:
            return
        stored = self._judge(stored)
        node = stored.document()
        if stored.uid not in self._registered:
            self._registered.add(stored.uid)
            text = f"Node {key} event: Registered Node {key} in Controller"
            self.event(node, "Normal", "RegisteredNode", text)
        self._label(node)
        taints = self._taints(node)
        if taints:
            node["spec"]["taints"] = taints
        else:
            node["spec"].pop("taints", None)
        self.update(NODES, stored, node)

    def _judge(self, stored: Stored) -> Stored:
        """A node whose lease has run out is unknown; one without a lease is taken at its word."""
        lease = self.find(_LEASES, f"{_LEASE_NAMESPACE}/{stored.name}")
        renewed = lease.document()["spec"].get("renewTime") if lease is not None else None
        if renewed is None:
            return stored
        left_s = max(epoch(renewed), self._began_s) + _GRACE_S - self.api.clock.now()
        if left_s > 0:
            self.enqueue_later(stored.key, left_s)
            return stored
        node = stored.document()
        conditions = (node.get("status") or {}).get("conditions") or ()
        if not any(c["type"] == "Ready" and c["status"] != "Unknown" for c in conditions):
            return stored
        for condition in conditions:
            if condition["status"] != "Unknown":
                condition["status"], condition["lastTransitionTime"] = "Unknown", self.api.now()
                condition["reason"] = "NodeStatusUnknown"
                condition["message"] = "Kubelet stopped posting node status."
        self.event(node, "Normal", "NodeNotReady", f"Node {stored.name} status is now: NodeNotReady")
        return self.update_status(NODES, stored, node) or stored

    def _label(self, node: Json) -> None:
        labels = node["metadata"].get("labels") or {}
        for label, beta in _BETA_LABELS.items():
            if label in labels:
                labels[beta] = labels[label]
        node["metadata"]["annotations"] = {_TTL: "0", **(node["metadata"].get("annotations") or {})}

    def _taints(self, node: Json) -> list[Json]:
        """The taints as they should be: others stay, those of conditions come and go with them."""
        conditions = {c["type"]: c["status"] for c in (node.get("status") or {}).get("conditions") or ()}
        ready = conditions.get("Ready")
        wanted: list[tuple[str, str]] = []
        if ready in ("False", "Unknown"):
            key = NOT_READY if ready == "False" else UNREACHABLE
            wanted += [(key, "NoSchedule"), (key, "NoExecute")]
        wanted += [(key, "NoSchedule") for type_, key in _PRESSURES.items() if conditions.get(type_) == "True"]
        if node["spec"].get("unschedulable"):
            wanted.append((_UNSCHEDULABLE, "NoSchedule"))
        taints = node["spec"].get("taints") or []
        kept = [t for t in taints if t["key"] not in _KEPT or (t["key"], t["effect"]) in wanted]
        there = {(t["key"], t["effect"]) for t in kept}
        now = self.api.now()
        return kept + [
            {"key": key, "effect": effect, "timeAdded": now} for key, effect in wanted if (key, effect) not in there
        ]
