"""`Candidate`: a node on which the pod would fit without some of its pods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kubesched.state.pod_info import PodInfo

#: Priorities are int32. Moved up by this, none is negative, so that more victims never make a smaller sum.
_PRIORITY_SHIFT = 1 << 31


@dataclass(frozen=True)
class Candidate:
    """`victims` come from the most to the least important; `violation_count` of them break a disruption budget.

    What candidates are compared by is worked out once: one that is kept takes part in the choice again and again.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violation_count: int = 0

    @cached_property
    def victim_count(self) -> int:
        return len(self.victims)

    @cached_property
    def top_priority(self) -> int:
        return self.victims[0].priority

    @cached_property
    def priority_sum(self) -> int:
        """Of all victims, each moved up so that none is negative."""
        return sum([info.priority for info in self.victims]) + len(self.victims) * _PRIORITY_SHIFT

    @cached_property
    def top_start(self) -> str:
        """The earliest start among the victims of the highest priority, as a text that orders by time."""
        return min([info.seniority for info in self.victims])[1]
