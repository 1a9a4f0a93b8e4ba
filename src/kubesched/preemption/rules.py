"""The rules of preemption that a plugin may set: who may be a victim, who matters more, which node is preferred.

The defaults are those of DefaultPreemption (kube-scheduler v1.36). That a victim has a lower priority than the pod that
takes its place is not up to plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.api.core import Pod
from kubesched.api.meta import format_micro_time, parse_time
from kubesched.preemption.candidate import Candidate
from kubesched.state.node_info import NodeInfo

#: Orders after every time: a pod that has not started yet counts as started last.
NOT_STARTED = "~"

#: Priorities are int32. Moved up by this, none is negative, so that more victims never make a smaller sum.
_PRIORITY_SHIFT = 1 << 31


def priority(pod: Pod) -> int:
    return pod.spec.priority or 0


def importance(pod: Pod) -> tuple[int, str]:
    """Sorts the most important pod first: by priority, then by who has been running for longer."""
    return -(pod.spec.priority or 0), started(pod)


def started(pod: Pod) -> str:
    """When the pod started, as a text that orders by time."""
    text = pod.status.start_time
    if text is None:
        return NOT_STARTED
    if len(text) == 20 and text[19] == "Z":
        return text[:19]
    try:
        return format_micro_time(parse_time(text))[:-1].rstrip("0").rstrip(".")
    except ValueError:
        return NOT_STARTED


@dataclass(frozen=True, slots=True)
class Criterion:
    """A measure of candidates of which the smallest wins, or with `highest` the largest."""

    name: str
    value: Callable[[Candidate], Any]
    highest: bool = False


def _top_priority(candidate: Candidate) -> int:
    return priority(candidate.victims[0])


def _priority_sum(candidate: Candidate) -> int:
    return sum([pod.spec.priority or 0 for pod in candidate.victims]) + len(candidate.victims) * _PRIORITY_SHIFT


def _top_start(candidate: Candidate) -> str:
    """The earliest start among the victims of the highest priority."""
    top = _top_priority(candidate)
    return min([started(pod) for pod in candidate.victims if (pod.spec.priority or 0) == top])


#: One after the other, as long as candidates tie.
CRITERIA: tuple[Criterion, ...] = (
    Criterion("fewest budget violations", lambda candidate: candidate.violation_count),
    Criterion("lowest highest priority among victims", _top_priority),
    Criterion("lowest sum of priorities", _priority_sum),
    Criterion("fewest victims", lambda candidate: len(candidate.victims)),
    Criterion("latest start of the most important victims", _top_start, highest=True),
)


@dataclass(frozen=True, slots=True)
class Rules:
    #: (victim, preemptor, node) -> may it be preempted? On top of its lower priority; None for no further rule.
    may_be_victim: Callable[[Pod, Pod, NodeInfo], bool] | None = None
    #: A key that sorts the most important pod first.
    importance: Callable[[Pod], Any] = importance
    criteria: Sequence[Criterion] = CRITERIA

    def allows(self, victim: Pod, preemptor: Pod, node: NodeInfo) -> bool:
        if priority(victim) >= priority(preemptor):
            return False
        return self.may_be_victim is None or self.may_be_victim(victim, preemptor, node)
