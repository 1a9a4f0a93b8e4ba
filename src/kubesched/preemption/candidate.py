"""`Candidate`: a node on which the pod would fit without some of its pods."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.state.pod_info import PodInfo

#: Priorities are int32. Moved up by this, none is negative, so that more victims never make a smaller sum.
_PRIORITY_SHIFT = 1 << 31


class Candidate:
    """`victims` come from the most to the least important; `violation_count` of them break a disruption budget.

    What candidates are compared by is worked out once: one that is kept takes part in the choice again and again.
    """

    __slots__ = (
        "node_name",
        "priority_sum",
        "top_priority",
        "top_start",
        "victim_count",
        "victims",
        "violation_count",
    )

    def __init__(self, node_name: str, victims: Sequence[PodInfo], violation_count: int = 0) -> None:
        """There must be some victim."""
        self.node_name = node_name
        self.victims = tuple(victims)
        self.violation_count = violation_count
        self.victim_count = len(self.victims)
        self.top_priority = self.victims[0].priority
        #: Of all victims, each moved up so that none is negative.
        self.priority_sum = sum([info.priority for info in self.victims]) + self.victim_count * _PRIORITY_SHIFT
        #: The earliest start among the victims of the highest priority, as a text that orders by time.
        self.top_start: str = min([info.seniority for info in self.victims])[1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Candidate) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"<Candidate {self.node_name}: {self.victim_count} victims, {self.violation_count} violations>"

    def _key(self) -> tuple[str, tuple[PodInfo, ...], int]:
        return self.node_name, self.victims, self.violation_count
