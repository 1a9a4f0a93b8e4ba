"""`HypotheticalTable`: clones of some rows of a node table, to try pods on and off without a trace in the original.

Preemption takes the pods of many nodes off, asks the vector plugins about all of these nodes at once, and puts pods
back; nominated pods are tried the same way. Columns are copied at once. NodeInfos are cloned only where somebody looks
at them, so what happens to many pods together (`PodBatch`) costs a few additions of arrays.

A hypothetical table lives within one scheduling cycle, while the table that it was made of stays as it is. It shares
the dictionaries (taint sets, label values, images) of that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from kubesched.state.affinity_terms import PodMatch
from kubesched.state.amounts import Ints
from kubesched.state.journal import Journal
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NONZERO_CPU, NONZERO_MEMORY, POD_COUNT, LabelColumn, NodeTable
from kubesched.state.pod_info import PodInfo

Rows: TypeAlias = NDArray[np.intp]

#: Up to these sizes sums of arrays are exact: a thousand such pods on a node do not reach `AMOUNT_MAX`.
_POD_AMOUNT_MAX = 1 << 50
_NODE_AMOUNT_MAX = 1 << 61


class PodBatch:
    """Pods of several rows, to be put on and taken off together. A pod is known by its position here.

    `amounts[:, i]` is what `pods[i]` takes, by the lines of the table that made the batch; `rows[i]` is its row there.
    """

    __slots__ = ("amounts", "pods", "rows")

    def __init__(self, pods: Sequence[PodInfo], rows: Rows, amounts: Ints) -> None:
        self.pods = pods
        self.rows = rows
        self.amounts = amounts


class HypotheticalTable(NodeTable):
    def __init__(self, parent: NodeTable, rows: Rows) -> None:
        self._parent, self._parent_rows = parent, rows
        self.row_count = self.capacity = len(rows)
        self.infos = _Clones(self)
        self.journal = Journal()
        self.membership_version = self.taints_version = 0
        self.taint_sets, self.images, self.images_version = parent.taint_sets, parent.images, 0
        self._labels: dict[str, LabelColumn] = {}
        self._domains = {}
        self._image_rows = {}
        self._allocatable_spans = {}

        self.allocatable = parent.allocatable.picked(rows)
        self.taken = parent.taken.picked(rows)
        self.unschedulable = parent.unschedulable[rows]
        self.taint_set = parent.taint_set[rows]

        self._made: dict[int, NodeInfo] = {}
        self._row_by_name: dict[str, int] | None = None
        #: What batches did so far: which pods went on (+1) or off (-1). Rows that are cloned later catch up with it.
        self._history: list[tuple[PodBatch, Rows, int]] = []
        self._with_more_pods: set[int] = set()
        #: Some sum may be cut: everything is counted by the NodeInfos then.
        self._is_huge = False

    # -- reading

    def row_of(self, name: str) -> int:
        if self._row_by_name is None:
            rows = self._parent_rows.tolist()
            self._row_by_name = {self._parent.name_of(row): position for position, row in enumerate(rows)}
        return self._row_by_name.get(name, -1)

    def name_of(self, row: SupportsIndex) -> str:
        return self._parent.name_of(int(self._parent_rows[row]))

    @property
    def original_rows(self) -> Rows:
        """Per row of this table, the row of the real one that it stands for."""
        if isinstance(self._parent, HypotheticalTable):
            return self._parent.original_rows[self._parent_rows]
        return self._parent_rows

    def info_at(self, row: int) -> NodeInfo:
        info = self._made.get(row)
        if info is None:
            info = self._made[row] = self._parent.infos[int(self._parent_rows[row])].clone()
            info.row = row
            for batch, which, sign in self._history:
                _catch_up(info, batch, which[batch.rows[which] == row], sign)
        return info

    def pods_matching(self, match: PodMatch) -> Ints:
        counts = self._root().pod_counts
        return np.array(
            [sum(counts.matches(match, pod) for pod in info.pods.values()) for info in self.infos], dtype=np.int64
        )

    def port_users(self, protocol: str, port: int) -> list[NodeInfo]:
        rows = {row for info in self._parent.port_users(protocol, port) if (row := self.row_of(info.name)) >= 0}
        infos = [self.info_at(row) for row in sorted(rows | self._with_more_pods)]
        return [
            info for info in infos if any(used.protocol == protocol and used.port == port for used in info.port_counts)
        ]

    def _make_label_column(self, key: str, version: int = 0) -> LabelColumn:
        source = self._parent.label_column(key)
        return LabelColumn(source.values, source.codes[self._parent_rows], version)

    def _root(self) -> NodeTable:
        table: NodeTable = self
        while isinstance(table, HypotheticalTable):
            table = table._parent
        return table

    # -- one pod

    def place(self, pod: PodInfo, node_name: str) -> None:
        info = self.info_at(self._row_for(node_name))
        info.add_pod(pod)
        self._is_huge |= max(pod.placed_requests.values(), default=0) > _POD_AMOUNT_MAX
        self._with_more_pods.add(info.row)
        self._pods_changed(info, pod)

    def displace(self, uid: str, node_name: str) -> PodInfo:
        info = self.info_at(self._row_for(node_name))
        pod = info.remove_pod(uid)
        self._pods_changed(info, pod)
        return pod

    def _row_for(self, node_name: str) -> int:
        row = self.row_of(node_name)
        assert row >= 0, f"node {node_name} is not in this hypothetical table"
        return row

    # -- many pods

    def batch(self, pods: Sequence[PodInfo], rows: Rows) -> PodBatch:
        """The pods as a batch; `rows` says for each of them on which row of this table it is, or comes."""
        takes = [pod.placed_requests for pod in pods]
        resources = set().union(*takes)
        # Batches made before are of no use once there is a line more.
        assert not self._history or resources <= self.taken.lines.keys(), "batches come before what is done with them"
        for resource in sorted(resources):
            self.taken.line(resource)
        amounts = np.zeros((len(self.taken.matrix), len(pods)), dtype=np.int64)
        lines = self.taken.lines
        is_huge = self._is_huge
        for resource in resources:
            is_huge |= _fill(amounts[lines[resource]], [each.get(resource, 0) for each in takes])
        is_huge |= _fill(amounts[lines[NONZERO_CPU]], [pod.nonzero_cpu_milli for pod in pods])
        is_huge |= _fill(amounts[lines[NONZERO_MEMORY]], [pod.nonzero_memory_bytes for pod in pods])
        amounts[lines[POD_COUNT]] = 1
        self._is_huge = is_huge or bool(self.taken.matrix.max(initial=0) > _NODE_AMOUNT_MAX)
        return PodBatch(pods, rows, amounts)

    def place_all(self, batch: PodBatch, which: Rows, *, one_each: bool = False) -> None:
        """Put the pods at these positions of the batch on their nodes. `one_each`: no two of them on one node."""
        self._with_more_pods.update(batch.rows[which].tolist())
        self._shift(batch, which, 1, one_each)

    def displace_all(self, batch: PodBatch, which: Rows, *, one_each: bool = False) -> None:
        self._shift(batch, which, -1, one_each)

    def _shift(self, batch: PodBatch, which: Rows, sign: int, one_each: bool) -> None:
        if self._is_huge:
            self._shift_exactly(batch, which, sign)
            return
        rows, amounts = batch.rows[which], batch.amounts[:, which]
        taken = self.taken.matrix[: len(amounts)]  # lines that came later are none of the batch's
        if sign < 0:
            np.negative(amounts, out=amounts)
        if one_each:
            taken[:, rows] += amounts
        else:
            for line in range(1, len(taken)):
                np.add.at(taken[line], rows, amounts[line])
        if self._made:
            for row in self._made.keys() & set(rows.tolist()):
                _catch_up(self._made[row], batch, which[rows == row], sign)
        self._history.append((batch, which, sign))

    def _shift_exactly(self, batch: PodBatch, which: Rows, sign: int) -> None:
        for position in which.tolist():
            pod, info = batch.pods[position], self.info_at(int(batch.rows[position]))
            if sign > 0:
                info.add_pod(pod)
            else:
                info.remove_pod(pod.uid)
            self._pods_changed(info, pod)


class _Clones(Sequence[NodeInfo]):
    """The NodeInfos of a hypothetical table, each cloned when it is first asked for."""

    __slots__ = ("_table",)

    def __init__(self, table: HypotheticalTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return self._table.row_count

    @overload
    def __getitem__(self, row: int) -> NodeInfo: ...
    @overload
    def __getitem__(self, row: slice) -> list[NodeInfo]: ...
    def __getitem__(self, row: int | slice) -> NodeInfo | list[NodeInfo]:
        if isinstance(row, slice):
            return [self._table.info_at(each) for each in range(*row.indices(len(self)))]
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self._table.info_at(row)


def _fill(column: Ints, amounts: list[int]) -> bool:
    """Whether some amount is too large to be summed up here."""
    if max(amounts, default=0) > _POD_AMOUNT_MAX:
        return True
    column[:] = amounts
    return False


def _catch_up(info: NodeInfo, batch: PodBatch, positions: Rows, sign: int) -> None:
    for position in positions.tolist():
        if sign > 0:
            info.add_pod(batch.pods[position])
        else:
            info.remove_pod(batch.pods[position].uid)
