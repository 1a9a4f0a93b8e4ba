"""`Extender`: a scheduler extender as the cycles see it. The HTTP one lives in `client`.

An extender is asked after the plugins of the same step. Calls are the one place where a scheduling cycle may wait;
nothing is applied to the cluster state meanwhile. A call that fails raises; an `ignorable` one is then passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from kubesched.api.core import Pod
from kubesched.state.node_info import NodeInfo


@dataclass(slots=True)
class ExtenderFilterResult:
    """Names that passed, and why the others did not. `unresolvable`: preemption cannot help there."""

    node_names: list[str]
    failed: dict[str, str] = field(default_factory=dict)
    unresolvable: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods that would have to go from a node, the most important first, and how many of them a budget protects."""

    pods: tuple[Pod, ...]
    violation_count: int = 0


class Extender(Protocol):
    name: str
    ignorable: bool
    #: Multiplies the extender's priorities, whose range is 0..10.
    weight: int

    def is_interested(self, pod: Pod) -> bool: ...
    def is_filter(self) -> bool: ...
    def is_prioritizer(self) -> bool: ...
    def is_binder(self) -> bool: ...
    def supports_preemption(self) -> bool: ...

    async def filter(self, pod: Pod, nodes: list[NodeInfo]) -> ExtenderFilterResult: ...

    async def prioritize(self, pod: Pod, nodes: list[NodeInfo]) -> dict[str, int]: ...

    async def bind(self, pod: Pod, node_name: str) -> None: ...

    async def process_preemption(
        self, pod: Pod, victims: dict[str, Victims], nodes: list[NodeInfo]
    ) -> dict[str, Victims]:
        """Candidate nodes with their victims in, the acceptable subset out, with other victims if it likes."""
        ...
