"""DynamicResources: pods with resource claims wait, since nothing here allocates devices yet.

A pod with claims is held back before it enters the queue: bound without its devices it could never run. An extended
resource that a device class stands for is the same thing by another name; such a pod goes only where the node itself
offers the resource. To all other pods the plugin has nothing to say, in the words of kube-scheduler v1.36.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from kubesched.api.core import Node, Pod, PodResourceClaim
from kubesched.api.pod_requests import pending_requests
from kubesched.api.resource import ResourceClaim
from kubesched.build import mypyc_attr
from kubesched.config.plugin_args import DynamicResourcesArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import AFFINITY, METADATA, Plugin, Reads, Verdicts
from kubesched.framework.results import Diagnosis, PostFilterPreview
from kubesched.framework.status import Status
from kubesched.plugins.node_resources_fit import provided_by_devices
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet
from kubesched.state.objects import ObjectIndex
from kubesched.state.pod_info import PodInfo

REASON_NO_DEVICES = "cannot allocate all claims"
REASON_NOTHING_TO_DEALLOCATE = "no new claims to deallocate"
REASON_HELD_BACK = "allocating resource claims is not supported yet"

STATE_KEY = "DynamicResources"

log = logging.getLogger("kubesched.plugins")


@dataclass(frozen=True, slots=True)
class Delegated:
    """Extended resources of the pod that devices would have to provide where the node does not."""

    resources: tuple[str, ...]


@mypyc_attr(allow_interpreted_subclasses=True)
class DynamicResources(Plugin):
    name = "DynamicResources"
    args_type = DynamicResourcesArgs
    filter_reads = Reads(row=aspects.ALLOCATABLE, objects=("ResourceClaim", "DeviceClass"))
    score_reads = Reads()
    signs_template = True
    sign_ignores = frozenset({METADATA, AFFINITY})

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._extended = handle.features.get("DRAExtendedResource", False)

    def sign(self, pod: Pod) -> Hashable | None:
        """Without claims only by the names of what it asks for, for which devices may stand in."""
        if pod.spec.resource_claims:
            return None
        return _asked_names(pending_requests(pod)) if self._extended else ()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        problem = why_held_back(pod, self.handle.state.objects)
        if not problem:
            return None
        log.info(
            "pod with resource claims is held back pod=%s/%s reason=%s",
            pod.metadata.namespace,
            pod.metadata.name,
            problem,
        )
        return Status.unresolvable(problem)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        if not self._extended and not pod.spec.resource_claims:
            return Status.skip(lasting=True)
        delegated = self._delegated(state.pod_info)
        state.write(STATE_KEY, delegated)
        if why_held_back(pod, self.handle.state.objects):
            return Status.unresolvable(REASON_HELD_BACK)
        return None if delegated.resources else Status.skip()

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        lacking = np.zeros(len(nodes), dtype=np.bool_)
        for resource in state.read(STATE_KEY, Delegated).resources:
            lacking |= nodes.table.allocatable.of(resource)[nodes.index] <= 0
        return Verdicts.where(lacking, _NO_DEVICES) if lacking.any() else None

    def post_filter(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> Status:
        """Fails, as the original does, when PreFilter rejected the pod before this plugin had its turn."""
        if self.name in state.pre_filter_not_reached:
            return Status.error("not found")
        return Status.unschedulable(REASON_NOTHING_TO_DEALLOCATE)

    def post_filter_preview(self, state: CycleState, pod: Pod, diagnosis: Diagnosis) -> PostFilterPreview:
        return PostFilterPreview(self.post_filter(state, pod, diagnosis))

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        return np.zeros(len(nodes), dtype=np.int64)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.skip()

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The resources that only devices could provide on this node."""
        delegated = self._delegated(state.pod_info).resources
        return {"resources": [name for name in delegated if node.allocatable.get(name, 0) <= 0]}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Pods with claims wait for no event. The others wait for a node that offers what they ask for."""
        node_grows = ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)
        # Taints change nothing here, but a new node is often tainted until it is ready.
        return [
            ClusterEventWithHint(node_grows, self.after_node_change),
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT), self.after_node_change),
        ]

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        node = self.handle.state.nodes.by_name.get(new.metadata.name)
        if node is None or why_held_back(pod, self.handle.state.objects):
            return QueueingHint.SKIP
        offers = all(node.allocatable.get(name, 0) > 0 for name in self._delegated(PodInfo(pod)).resources)
        return QueueingHint.QUEUE if offers else QueueingHint.SKIP

    def _delegated(self, pod_info: PodInfo) -> Delegated:
        if not self._extended:
            return _NOTHING
        provided = provided_by_devices(self.handle.state.objects)
        names = tuple([name for name in _asked_names(pod_info.requests) if name in provided])
        return Delegated(names) if names else _NOTHING


def _asked_names(requests: Mapping[str, int]) -> tuple[str, ...]:
    return tuple([name for name, amount in requests.items() if amount > 0])


def why_held_back(pod: Pod, objects: ObjectIndex) -> str:
    """What a pod with resource claims waits for; "" for a pod that needs no allocation."""
    for entry in pod.spec.resource_claims:
        name, is_known = _claim_name(pod, entry)
        if not is_known:
            return f'resource claim "{entry.name}" of the pod was not created yet'
        if name is None:
            continue
        claim: ResourceClaim | None = objects.get("ResourceClaim", name, pod.metadata.namespace)
        if claim is None:
            return f'could not find ResourceClaim "{pod.metadata.namespace}/{name}"'
        if claim.metadata.deletion_timestamp is not None:
            return f'resourceclaim "{name}" is being deleted'
        return REASON_HELD_BACK
    return ""


def _claim_name(pod: Pod, entry: PodResourceClaim) -> tuple[str | None, bool]:
    """The claim that stands for the entry (None: none is needed), and whether that is known yet."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name, True
    for status in pod.status.resource_claim_statuses:
        if status.name == entry.name:
            return status.resource_claim_name, True
    return None, False


_NOTHING = Delegated(())
_NO_DEVICES = Status.unresolvable(REASON_NO_DEVICES).of(DynamicResources.name)
