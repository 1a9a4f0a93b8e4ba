"""Cluster events and queueing hints: which change can make a rejected pod schedulable.

A plugin registers, for each kind of change that may turn its "no" into a "yes", a `ClusterEvent` with an optional hint
function. When such a change happens, the pods that this plugin rejected are asked about it: the hint sees the object
before and after and answers QUEUE (try again) or SKIP. No hint function means QUEUE. Names are kube-scheduler v1.36's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from functools import lru_cache
from typing import Any, Final, TypeAlias

from kubesched.api import kinds
from kubesched.api.core import Pod


class ActionType(IntFlag):
    """What happened to an object. Updates of nodes and pods are told apart by what changed."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    UPDATE_OTHER = 1 << 13
    #: Any update, of whatever kind of object.
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_OTHER
    )
    ALL = ADD | DELETE | UPDATE


#: Resource names besides the kinds' own names ("Node", "PersistentVolumeClaim", "Namespace", ...). "Pod" in a plugin's
#: registration covers all three of these.
POD: Final = "Pod"
ASSIGNED_POD: Final = "AssignedPod"
UNSCHEDULED_POD: Final = "UnschedulablePod"
#: The pod that waits itself.
TARGET_POD: Final = "TargetPod"
NODE: Final = "Node"
WILDCARD: Final = "*"


class QueueingHint(Enum):
    SKIP = "Skip"
    QUEUE = "Queue"


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """`label` is what `queue_incoming_pods_total{event=...}` shows, e.g. "AssignedPodDelete"."""

    resource: str
    action: ActionType
    custom_label: str = ""
    _hash: int = field(init=False, repr=False, compare=False)  # that of an enum is slow, and events are looked up often

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash((self.resource, int(self.action), self.custom_label)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def label(self) -> str:
        return self.custom_label or _label(self)

    def covers(self, happened: ClusterEvent) -> bool:
        """Whether a registration for this event wants to hear of `happened`."""
        if not self.action & happened.action:
            return False
        if WILDCARD in (self.resource, happened.resource):
            return True
        if self.resource == POD:
            return happened.resource in _POD_RESOURCES
        return self.resource == happened.resource


_POD_RESOURCES = frozenset({POD, ASSIGNED_POD, UNSCHEDULED_POD, TARGET_POD})


#: (pending pod, object before or None, object after or None) -> QUEUE or SKIP. May raise: the pod is then queued.
HintFunction: TypeAlias = Callable[[Pod, Any, Any], QueueingHint]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    event: ClusterEvent
    hint: HintFunction | None = None


@lru_cache(maxsize=1024)
def _label(event: ClusterEvent) -> str:
    """As the original's metrics spell it: "AssignedPodDelete", "storage.k8s.io/CSINodeAdd"."""
    resource = event.resource
    if resource == TARGET_POD:
        resource = UNSCHEDULED_POD
    kind = kinds.named(resource)
    group = kind.group if kind is not None else ""
    action = _action_text(event.action)
    return f"{group}/{resource}{action}" if group else f"{resource}{action}"


def _action_text(action: ActionType) -> str:
    """ "Add", "UpdateNodeTaint", or several joined by "|" in order of declaration."""
    if action == ActionType.ALL:
        return "All"
    if action == ActionType.UPDATE:
        return "Update"
    names = [flag.name or "" for flag in ActionType if flag & action and flag.name not in ("UPDATE", "ALL")]
    return "|".join("".join(word.capitalize() for word in name.split("_")) for name in names).replace(
        "UpdateOther", "Update"
    )


ALL_EVENTS: Final = ClusterEvent(WILDCARD, ActionType.ALL)
FORCE_ACTIVATE: Final = ClusterEvent(WILDCARD, ActionType.ALL, "ForceActivate")
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(WILDCARD, ActionType.ALL, "UnschedulableTimeout")
NODE_ADD: Final = ClusterEvent(NODE, ActionType.ADD)
ASSIGNED_POD_ADD: Final = ClusterEvent(ASSIGNED_POD, ActionType.ADD)
ASSIGNED_POD_DELETE: Final = ClusterEvent(ASSIGNED_POD, ActionType.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(UNSCHEDULED_POD, ActionType.ADD)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(UNSCHEDULED_POD, ActionType.DELETE)
