"""From a changed object to the cluster events that plugins know."""

from __future__ import annotations

from functools import cache

from kubesched.api.core import Node, Pod
from kubesched.api.pod_requests import is_resize_infeasible, node_share
from kubesched.framework.events import NODE, ActionType, ClusterEvent
from kubesched.state import aspects

_NODE_ACTIONS = (
    (aspects.TAINTS, ActionType.UPDATE_NODE_TAINT),
    (aspects.ALLOCATABLE, ActionType.UPDATE_NODE_ALLOCATABLE),
    (aspects.LABELS, ActionType.UPDATE_NODE_LABEL),
    (aspects.CONDITIONS, ActionType.UPDATE_NODE_CONDITION),
    (aspects.OTHER, ActionType.UPDATE_NODE_ANNOTATION),
    (aspects.DECLARED_FEATURES, ActionType.UPDATE_NODE_DECLARED_FEATURE),
)


def node_update_events(changed: int, node: Node) -> list[ClusterEvent]:
    """`changed`: what `ClusterState.set_node` said. A node that may be used again counts as one that lost a taint; one
    that is cordoned helps nobody."""
    if changed & aspects.UNSCHEDULABLE and not node.spec.unschedulable:
        changed |= aspects.TAINTS
    return [ClusterEvent(NODE, action) for aspect, action in _NODE_ACTIONS if changed & aspect]


def pod_update_events(resource: str, old: Pod, new: Pod) -> list[ClusterEvent]:
    """In which respects a pod changed; a plain UPDATE_OTHER when in none that plugins tell apart.

    `resource` says whose pod it is: ASSIGNED_POD, UNSCHEDULED_POD or TARGET_POD.
    """
    actions: list[ActionType] = []
    if old.metadata.labels != new.metadata.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _scaled_down(old, new):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return [_event(resource, action) for action in actions or [ActionType.UPDATE_OTHER]]


@cache
def _event(resource: str, action: ActionType) -> ClusterEvent:
    return ClusterEvent(resource, action)


def _scaled_down(old: Pod, new: Pod) -> bool:
    """What the pod holds of its node went down: some request fell, or a resize turned out to be infeasible."""
    if old.spec == new.spec and old.status.container_statuses == new.status.container_statuses:
        return is_resize_infeasible(new) and not is_resize_infeasible(old)
    before, after = node_share(old).requests, node_share(new).requests
    return before is not after and any(after.get(name, 0) < amount for name, amount in before.items())
