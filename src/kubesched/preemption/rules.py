"""The rules of preemption that a plugin may set: who may be a victim, who matters more, which node is preferred.

The defaults are those of DefaultPreemption (kube-scheduler v1.36). That a victim has a lower priority than the pod that
takes its place is not up to plugins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from kubesched.preemption.candidate import Candidate
from kubesched.state.node_info import NodeInfo
from kubesched.state.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Criterion:
    """A measure of candidates of which the smallest wins, or with `highest` the largest."""

    name: str
    value: Callable[[Candidate], Any]
    highest: bool = False


#: One after the other, as long as candidates tie.
CRITERIA: tuple[Criterion, ...] = (
    Criterion("fewest budget violations", attrgetter("violation_count")),
    Criterion("lowest highest priority among victims", attrgetter("top_priority")),
    Criterion("lowest sum of priorities", attrgetter("priority_sum")),
    Criterion("fewest victims", attrgetter("victim_count")),
    Criterion("latest start of the most important victims", attrgetter("top_start"), highest=True),
)

SENIORITY = attrgetter("seniority")


@dataclass(frozen=True, slots=True)
class Rules:
    #: (victim, preemptor, node) -> may it be preempted? On top of its lower priority; None for no further rule.
    may_be_victim: Callable[[PodInfo, PodInfo, NodeInfo], object] | None = None
    #: A key that sorts the most important pod first.
    importance: Callable[[PodInfo], Any] = SENIORITY
    criteria: Sequence[Criterion] = CRITERIA

    @property
    def look_at_pods_alone(self) -> bool:
        """Whether the victims on a node are the same as long as its pods are; what plugins say may read anything."""
        return self.may_be_victim is None and self.importance is SENIORITY

    def victims_on(self, node: NodeInfo, preemptor: PodInfo) -> list[PodInfo]:
        """The pods of the node that may be preempted, the most important first."""
        limit, may_be_victim = preemptor.priority, self.may_be_victim
        pods = [info for info in node.pods.values() if (info.pod.spec.priority or 0) < limit]
        if may_be_victim is not None:
            pods = [info for info in pods if may_be_victim(info, preemptor, node)]
        if len(pods) > 1:
            pods.sort(key=self.importance)
        return pods
