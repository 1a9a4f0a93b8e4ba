"""What scheduling offline came to, for one pod and for many."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import msgspec


class Result(Enum):
    SCHEDULED = "Scheduled"
    #: No node fits; the message says why.
    UNSCHEDULABLE = "Unschedulable"
    #: A PreEnqueue plugin holds the pod back.
    GATED = "Gated"
    #: Attempts end in an error.
    ERROR = "Error"
    #: Placed for a while, then removed for a pod of higher priority.
    PREEMPTED = "Preempted"


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """True when the pod has a node."""

    #: namespace/name
    pod: str
    result: Result
    node: str = ""
    #: Why not; "" when scheduled.
    message: str = ""
    attempts: int = 1
    #: Pods (namespace/name) that were removed to make room.
    victims: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.result is Result.SCHEDULED

    def __str__(self) -> str:
        return f"{self.pod}: {self.node if self else self.message}"


@dataclass(slots=True, repr=False)
class Run:
    """What `Cluster.run` did: an outcome for each pod that was pending, in the order in which they settled."""

    outcomes: list[Outcome] = field(default_factory=list)
    #: Virtual seconds that passed.
    duration_s: float = 0.0

    @property
    def placements(self) -> dict[str, str]:
        """Node by pod (namespace/name)."""
        return {outcome.pod: outcome.node for outcome in self.outcomes if outcome}

    @property
    def pending(self) -> dict[str, str]:
        """Why, by pod, of those that have no node."""
        return {outcome.pod: outcome.message for outcome in self.outcomes if not outcome}

    @property
    def victims(self) -> tuple[str, ...]:
        """Pods that were removed for others."""
        return tuple(victim for outcome in self.outcomes for victim in outcome.victims)

    def __repr__(self) -> str:
        return f"<Run {len(self.placements)} placed, {len(self.pending)} pending, {self.duration_s:g} s>"

    def __str__(self) -> str:
        return "\n".join(map(str, self.outcomes))

    def __iter__(self) -> Iterator[Outcome]:
        return iter(self.outcomes)

    def __len__(self) -> int:
        return len(self.outcomes)
