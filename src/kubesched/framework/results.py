"""What a scheduling attempt ends with when it does not end with a node: `Diagnosis` and `FitError`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.framework.status import Code, Status

if TYPE_CHECKING:
    from kubesched.state.node_table import NodeTable

NO_NODES_MESSAGE = "no nodes available to schedule pods"


class NodeStatuses:
    """Why nodes were rejected.

    Most come as one code per row of the node table (0: none) into a list of statuses; single ones can be set by name on
    top. Nodes with neither share the `absent` status: those that PreFilter ruled out together.
    """

    __slots__ = ("_by_name", "_codes", "_statuses", "_table", "absent")

    def __init__(
        self,
        table: NodeTable | None = None,
        codes: NDArray[np.int32] | None = None,
        statuses: Sequence[Status | None] = (None,),
    ) -> None:
        self._table = table
        self._codes = codes
        self._statuses = statuses
        self._by_name: dict[str, Status] = {}
        self.absent: Status | None = None

    def set(self, node_name: str, status: Status) -> None:
        self._by_name[node_name] = status

    def get(self, node_name: str) -> Status | None:
        status = self._by_name.get(node_name)
        if status is None and self._table is not None and self._codes is not None:
            row = self._table.row_of(node_name)
            status = self._statuses[self._codes[row]] if 0 <= row < len(self._codes) else None
        return status if status is not None else self.absent

    def counts(self, node_count: int) -> list[tuple[Status, int]]:
        """Each distinct status with the number of nodes that have it; `node_count` nodes are shared out in all."""
        counted: list[tuple[Status, int]] = []
        explicit = 0
        if self._codes is not None:
            codes = self._codes
            if self._by_name and self._table is not None:
                codes = codes.copy()
                codes[[row for name in self._by_name if (row := self._table.row_of(name)) >= 0]] = 0
            for code, count in enumerate(np.bincount(codes, minlength=1).tolist()):
                status = self._statuses[code]
                if count and status is not None:
                    counted.append((status, count))
                    explicit += count
        for status in self._by_name.values():
            counted.append((status, 1))
            explicit += 1
        if self.absent is not None and node_count > explicit:
            counted.append((self.absent, node_count - explicit))
        return counted

    def rows_with(self, code: Code, table: NodeTable) -> NDArray[np.intp]:
        """The rows of `table` whose nodes have a status of this code, ascending."""
        share = self.absent is not None and self.absent.code is code
        chosen = np.full(table.row_count, share, dtype=np.bool_)
        if self._codes is not None:
            wanted = np.array([s.code is code if s is not None else share for s in self._statuses], dtype=np.bool_)
            chosen = wanted[self._codes]
        for name, status in self._by_name.items():
            row = table.row_of(name)
            if row >= 0:
                chosen[row] = status.code is code
        return np.flatnonzero(chosen)

    def by_node(self) -> dict[str, Status]:
        """The status of each node that has one of its own."""
        found: dict[str, Status] = {}
        if self._table is not None and self._codes is not None:
            for row in np.flatnonzero(self._codes).tolist():
                status = self._statuses[self._codes[row]]
                if status is not None:
                    found[self._table.name_of(row)] = status
        return found | self._by_name


@dataclass(slots=True)
class Diagnosis:
    """Why no node fits: what PostFilter plugins, the queue and the message are made from."""

    node_statuses: NodeStatuses = field(default_factory=NodeStatuses)
    #: Plugins that rejected some node (or the pod itself); their events wake the pod.
    unschedulable_plugins: set[str] = field(default_factory=set)
    #: Plugins that answered Pending: a pod woken through one of them skips its backoff.
    pending_plugins: set[str] = field(default_factory=set)
    pre_filter_message: str = ""
    post_filter_message: str = ""

    @classmethod
    def of_pre_filter(cls, status: Status) -> Diagnosis:
        """PreFilter rejected the pod on all nodes at once."""
        diagnosis = cls(pre_filter_message=status.message)
        diagnosis.node_statuses.absent = status
        diagnosis.note(status)
        return diagnosis

    def note(self, status: Status) -> None:
        """Remember the plugin behind a rejection."""
        if not status.plugin:
            return
        plugins = self.pending_plugins if status.code is Code.PENDING else self.unschedulable_plugins
        plugins.add(status.plugin)


@dataclass(frozen=True, slots=True)
class PostFilterResult:
    """What to do with the pod's nomination: `nominated_node` of None keeps it, "" clears it."""

    nominated_node: str | None = None


@dataclass(frozen=True, slots=True)
class PreemptionCandidate:
    """A node on which the pod would fit without its `victims` (namespace/name, the most important first)."""

    node_name: str
    victims: tuple[str, ...]
    #: How many of them a disruption budget protects.
    violation_count: int = 0


@dataclass(frozen=True, slots=True)
class PostFilterPreview:
    """What a PostFilter plugin would do, for explanations: nothing of it has been done."""

    #: What `post_filter` would answer; Success when it would nominate a node.
    status: Status
    #: The nodes of which one would be nominated; several when they tie on all criteria.
    nominated_nodes: tuple[str, ...] = ()
    #: What settled the choice among the candidates, for people.
    because: str = ""
    candidates: tuple[PreemptionCandidate, ...] = ()
    #: Why preemption does not help on the other nodes that were tried.
    rejected: Mapping[str, Status] = field(default_factory=dict)


class FitError(KubeschedError):
    """No node fits the pod. `str()` is the message of the PodScheduled condition."""

    def __init__(self, pod: Pod, node_count: int, diagnosis: Diagnosis) -> None:
        super().__init__(pod, node_count)
        self.pod = pod
        self.node_count = node_count
        self.diagnosis = diagnosis

    def __str__(self) -> str:
        return fit_message(self.node_count, self.diagnosis)


def fit_message(node_count: int, diagnosis: Diagnosis) -> str:
    """`0/5 nodes are available: 2 Insufficient cpu, 3 node(s) were unschedulable. <what PostFilter says>`.

    Reasons are counted per node and sorted as text, count first (so "10 x" comes before "2 y"), as v1.36 does.
    """
    head = f"0/{node_count} nodes are available:"
    if diagnosis.pre_filter_message:
        body = f" {diagnosis.pre_filter_message}."
    else:
        histogram: Counter[str] = Counter()
        for status, count in diagnosis.node_statuses.counts(node_count):
            for reason in status.reasons:
                histogram[reason] += count
        texts = sorted(f"{count} {reason}" for reason, count in histogram.items())
        body = f" {', '.join(texts)}." if texts else ""
    tail = f" {diagnosis.post_filter_message}" if diagnosis.post_filter_message else ""
    return head + body + tail
