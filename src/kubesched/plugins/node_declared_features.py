"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet wants a node that declares it.

Kubelets list in `status.declaredFeatures` what not every version or configuration of them can do. Which pod needs which
feature follows from its spec. (kube-scheduler v1.36; features that matter only to updates of pods are left out.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kubesched.api.core import Node, Pod
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import (
    NODE,
    TARGET_POD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
)
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet

REASON = "node(s) didn't match Pod's required features"

STATE_KEY = "PreFilterNodeDeclaredFeatures"


@dataclass(frozen=True, slots=True)
class RequiredFeatures:
    names: frozenset[str]


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeDeclaredFeatures(Plugin):
    name = "NodeDeclaredFeatures"
    filter_reads = Reads(row=aspects.DECLARED_FEATURES | aspects.MEMBERSHIP)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._enabled = handle.features.get("NodeDeclaredFeatures", False)

    def sign(self, pod: Pod) -> Hashable:
        return required(pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        names = required(pod) if self._enabled else _NONE
        if not names:
            return Status.skip(lasting=True)
        state.write(STATE_KEY, RequiredFeatures(names))
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        names = state.read(STATE_KEY, RequiredFeatures).names
        lacking = np.array([not _declares(node.node, names) for node in nodes], dtype=np.bool_)
        return Verdicts.where(lacking, _LACKING) if lacking.any() else None

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        declared = node.node.status.declared_features if node.node is not None else ()
        return {"missing": sorted(required(pod).difference(declared))}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        if not self._enabled:
            return []
        # Taints change nothing here, but a new node is often tainted until it is ready.
        node_change = ActionType.ADD | ActionType.UPDATE_NODE_DECLARED_FEATURE | ActionType.UPDATE_NODE_TAINT
        return [
            ClusterEventWithHint(ClusterEvent(NODE, node_change), after_node_change),
            ClusterEventWithHint(ClusterEvent(TARGET_POD, ActionType.UPDATE), after_pod_update),
        ]


def after_node_change(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    return QueueingHint.QUEUE if _declares(new, required(pod)) else QueueingHint.SKIP


def after_pod_update(pod: Pod, old: Pod, new: Pod) -> QueueingHint:
    changed = new.metadata.uid == pod.metadata.uid and required(old) != required(new)
    return QueueingHint.QUEUE if changed else QueueingHint.SKIP


def fits(pod: Pod, node: NodeInfo) -> bool:
    return _declares(node.node, required(pod))


def required(pod: Pod) -> frozenset[str]:
    """The features that a node must declare for the pod to run there."""
    names = [name for name, needs in _FEATURES.items() if needs(pod)]
    return frozenset(names) if names else _NONE


def _declares(node: Node | None, names: frozenset[str]) -> bool:
    return node is not None and names.issubset(node.status.declared_features)


def _restarts_all_containers(pod: Pod) -> bool:
    spec = pod.spec
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            for rule in container.restart_policy_rules:
                if rule.action == "RestartAllContainers":
                    return True
    return False


def _maps_users_on_host_network(pod: Pod) -> bool:
    return pod.spec.host_network and pod.spec.host_users is False


_FEATURES: Final[dict[str, Callable[[Pod], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _maps_users_on_host_network,
}
_NONE: Final[frozenset[str]] = frozenset()
_LACKING = Status.unresolvable(REASON).of(NodeDeclaredFeatures.name)
