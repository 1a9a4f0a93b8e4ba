"""The scheduling framework: the contract for plugins, and the runtime that runs a profile's plugins.

What a plugin author needs is here: `from kubesched.framework import Plugin, Status`.
"""

from kubesched.framework.cycle_state import CycleState, CycleStateError
from kubesched.framework.events import ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, PreFilterResult, Reads, Verdicts
from kubesched.framework.ports import ClusterPort, EventRecord
from kubesched.framework.results import Diagnosis, FitError, NodeStatuses, PostFilterResult
from kubesched.framework.status import Code, Status

__all__ = [
    "MAX_NODE_SCORE",
    "ActionType",
    "ClusterEvent",
    "ClusterEventWithHint",
    "ClusterPort",
    "Code",
    "CycleState",
    "CycleStateError",
    "Diagnosis",
    "EventRecord",
    "FitError",
    "Handle",
    "NodeStatuses",
    "Plugin",
    "PostFilterResult",
    "PreFilterResult",
    "QueueingHint",
    "Reads",
    "Status",
    "Verdicts",
]
