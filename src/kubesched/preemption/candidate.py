"""`Candidate`: a node on which the pod would fit without some of its pods."""

from __future__ import annotations

from dataclasses import dataclass

from kubesched.state.pod_info import PodInfo


@dataclass(frozen=True, slots=True)
class Candidate:
    """`victims` come from the most to the least important; `violation_count` of them break a disruption budget."""

    node_name: str
    victims: tuple[PodInfo, ...]
    violation_count: int = 0
