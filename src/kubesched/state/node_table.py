"""`NodeTable`: the nodes of the cluster as rows of NumPy columns.

Rows are dense: 0 .. row_count-1 are the nodes that exist; removing one moves the last row into its place. Each change
is noted in the journal with its aspects, which is how kept results learn what to forget. Only `ClusterState` and the
owner of a hypothetical table call the methods that change anything.

Amounts are int64, cut at `AMOUNT_MAX` so that the sum of two never wraps; the exact figures are in the NodeInfos.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, SupportsIndex, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Node
from kubesched.state import aspects
from kubesched.state.affinity_terms import PodMatch
from kubesched.state.amounts import Amounts
from kubesched.state.amounts import Ints as Ints
from kubesched.state.amounts import RowIndex as RowIndex
from kubesched.state.interning import Interner
from kubesched.state.journal import Journal
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_order import zone_of
from kubesched.state.objects import ObjectIndex
from kubesched.state.pod_counts import PodCounts
from kubesched.state.pod_info import PodInfo
from kubesched.state.tallies import Domains

if TYPE_CHECKING:
    from kubesched.state.hypothetical_table import HypotheticalTable

Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
TaintKey: TypeAlias = tuple[str, str, str]

#: 4.6 exa-units. Anything above is "more than any node has"; requests saturate one higher than allocatable, so that an
#: absurd request never fits a node that claims an absurd size.
AMOUNT_MAX = (1 << 62) - 1
_ALLOCATABLE_MAX = AMOUNT_MAX - 1
_ROWS_MIN = 64
#: So many values of a label may be known: some, and more for each node.
_VALUES_MIN = 1024
_VALUES_PER_ROW = 2

#: Lines of what pods take that are no resources: how many pods there are, and what scoring assumes of them at least.
POD_COUNT: Final = "(pods)"
NONZERO_CPU: Final = "(cpu)"
NONZERO_MEMORY: Final = "(memory)"
#: What kernels ask for together lies side by side.
_ALLOCATABLE: Final = ("pods", "cpu", "memory")
_TAKEN: Final = (POD_COUNT, "cpu", "memory", NONZERO_CPU, NONZERO_MEMORY)


class NodeSet:
    """Some rows of a table: what a vector plugin is asked about. `len()` is the number of rows."""

    __slots__ = ("_index", "_length", "_mask", "table")

    def __init__(self, table: NodeTable, index: RowIndex) -> None:
        self.table = table
        self._index = index
        #: What the rows are yet to be found by.
        self._mask: Bools | None = None
        self._length = index.stop - index.start if isinstance(index, slice) else len(index)

    @classmethod
    def where(cls, table: NodeTable, mask: Bools, count: int) -> NodeSet:
        """The rows where a mask over all of them holds, `count` of them; they are looked for when somebody asks."""
        nodes = cls(table, slice(0, count))
        nodes._mask = mask.copy()
        return nodes

    def __len__(self) -> int:
        return self._length

    @property
    def index(self) -> RowIndex:
        """What columns of the table are read at: a slice, or rows, intp[len]."""
        if self._mask is not None:
            self._index, self._mask = np.flatnonzero(self._mask), None
            assert len(self._index) == self._length
        return self._index

    @property
    def size_bytes(self) -> int:
        """What it holds. Rows that nobody asked for are not looked for."""
        held = self._index if self._mask is None else self._mask
        return held.nbytes if isinstance(held, np.ndarray) else 0

    def rows(self) -> NDArray[np.intp]:
        if isinstance(self.index, slice):
            return np.arange(self.index.start, self.index.stop)
        return self.index

    def infos(self) -> list[NodeInfo]:
        infos = self.table.infos
        if isinstance(self.index, slice):
            return list(infos[self.index])
        return [infos[row] for row in self.index.tolist()]

    def __iter__(self) -> Iterator[NodeInfo]:
        return iter(self.infos())

    def at(self, positions: NDArray[np.intp]) -> NodeSet:
        """Those at these positions of the set."""
        if isinstance(self.index, slice):
            return NodeSet(self.table, positions + self.index.start if self.index.start else positions)
        return NodeSet(self.table, self.index[positions])

    def positions_of(self, rows: NDArray[np.intp] | list[int]) -> Bools:
        """A mask over this set: True where the row is among `rows` (rows of the table)."""
        mask = np.zeros(self.table.row_count, dtype=np.bool_)
        mask[rows] = True
        return mask[self.index]


class LabelColumn:
    """The values of one label key, coded; -1 where the node lacks the label. `version` grows when a code changes.

    Once most values are nobody's any more, another column with other codes takes its place: whoever keeps codes looks
    at the version.
    """

    __slots__ = ("codes", "values", "version")

    def __init__(self, values: Interner[str], codes: Codes, version: int = 0) -> None:
        self.values = values
        self.codes = codes
        self.version = version

    def holds(self, accepts: Callable[[str], bool], *, absent: bool) -> Bools:
        """A table to look codes up in: `holds(...)[codes]` says for each node whether its value is accepted.

        The last entry, which code -1 picks, is the answer for nodes without the label.
        """
        answers = [accepts(value) for value in self.values.values]
        answers.append(absent)
        return np.array(answers, dtype=np.bool_)


class Image:
    """An image as nodes report it. Its size is what the first of them said (as kube-scheduler's cache keeps it)."""

    __slots__ = ("node_names", "size_bytes")

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.node_names: set[str] = set()


class NodeTable:
    """Columns are arrays with room to spare: always index them with a NodeSet's `index`, never whole."""

    def __init__(self, objects: ObjectIndex | None = None) -> None:
        """`objects` holds the namespaces whose labels some selectors read."""
        self.row_count = 0
        self._infos: list[NodeInfo] = []
        #: By row.
        self.infos: Sequence[NodeInfo] = self._infos
        #: Every node by name, also those that only pods speak of (row -1).
        self.by_name: dict[str, NodeInfo] = {}
        self.journal = Journal()
        #: Grows when nodes come, go or change their zone: what depends on the set of nodes keys its memory on it.
        self.membership_version = 0
        #: Grows when a node's taints change.
        self.taints_version = 0

        self.taint_sets: Interner[tuple[TaintKey, ...]] = Interner()
        self.images: dict[str, Image] = {}
        self.images_version = 0

        #: How many rows the columns have room for.
        self.capacity = _ROWS_MIN
        #: What nodes offer, by resource; "pods" is one.
        self.allocatable = Amounts(_ROWS_MIN, _ALLOCATABLE)
        #: What their pods take: the resources, and the lines that are named above.
        self.taken = Amounts(_ROWS_MIN, _TAKEN)
        self._allocatable_spans: dict[tuple[str, ...], tuple[int, int]] = {}
        self._labels: dict[str, LabelColumn] = {}
        self._domains: dict[str, tuple[tuple[int, int, int], Domains]] = {}
        self._image_rows: dict[str, tuple[int, int, NDArray[np.intp]]] = {}
        self._port_users: dict[tuple[str, int], dict[str, NodeInfo]] = {}
        #: Counts of pods by selector. A hypothetical table has none: PreFilter's data follows what is tried there.
        self.pod_counts: PodCounts = PodCounts(_ROWS_MIN, objects)

        self.unschedulable: Bools = np.zeros(_ROWS_MIN, dtype=np.bool_)
        #: Codes of `taint_sets`.
        self.taint_set: Codes = np.zeros(_ROWS_MIN, dtype=np.int32)

    # -- reading

    def all_nodes(self) -> NodeSet:
        return NodeSet(self, slice(0, self.row_count))

    def nodes_at(self, rows: NDArray[np.intp] | list[int]) -> NodeSet:
        return NodeSet(self, np.asarray(rows, dtype=np.intp))

    def row_of(self, name: str) -> int:
        """The row of a node, or -1 when there is no such Node."""
        info = self.by_name.get(name)
        return info.row if info is not None else -1

    def name_of(self, row: SupportsIndex) -> str:
        return self._infos[row].name

    def allocatable_span(self, resources: tuple[str, ...]) -> tuple[int, int]:
        """The least and the most that a node has of any of them; kernels leave out steps that only odd nodes need."""
        span = self._allocatable_spans.get(resources)
        if span is None:
            block = self.allocatable.block(resources, slice(0, self.row_count))
            span = (int(block.min()), int(block.max())) if block.size else (0, 0)
            self._allocatable_spans[resources] = span
        return span

    def label_column(self, key: str) -> LabelColumn:
        """The column of a label key; made at first use and kept up to date from then on."""
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = self._make_label_column(key)
        return column

    def domains(self, topology_key: str) -> Domains:
        """The nodes by the values of a label: the codes of its column are the domains. The same object until some node
        changes the label."""
        column = self.label_column(topology_key)
        stamp = (self.membership_version, column.version, len(column.values))
        known = self._domains.get(topology_key)
        if known is None or known[0] != stamp:
            of_row = column.codes[: self.row_count].astype(np.intp)
            of_row[of_row < 0] = len(column.values)
            known = self._domains[topology_key] = stamp, Domains(of_row, len(column.values))
        return known[1]

    def domains_at(self, topology_key: str, index: RowIndex) -> NDArray[np.intp]:
        """The domain of each of these rows, to look up what is known by domain; the last entry, where there is none."""
        return self.domains(topology_key).of_row[index]

    def image_rows(self, name: str) -> NDArray[np.intp]:
        """The rows of the nodes that have the image."""
        image = self.images.get(name)
        if image is None:
            return np.empty(0, dtype=np.intp)
        known = self._image_rows.get(name)
        if known is not None and known[0] == self.images_version and known[1] == self.membership_version:
            return known[2]
        rows = np.array(sorted(row for n in image.node_names if (row := self.row_of(n)) >= 0), dtype=np.intp)
        self._image_rows[name] = (self.images_version, self.membership_version, rows)
        return rows

    def pods_matching(self, match: PodMatch) -> Ints:
        """Per row the number of pods that `match` counts. Good until the next change of the table."""
        return self.pod_counts.tally(match).counts

    def port_users(self, protocol: str, port: int) -> list[NodeInfo]:
        """The nodes where some pod uses the port, on whichever address."""
        return list(self._port_users.get((protocol, port), {}).values())

    # -- nodes

    def set_node(self, node: Node) -> tuple[Node | None, int]:
        """Add the node or take its new version. Returns the version before and the aspects that changed.

        QuantityError leaves everything as it was.
        """
        name = node.metadata.name
        info = self.by_name.get(name) or NodeInfo(name)
        old = info.node
        info.set_node(node)
        self.by_name[name] = info
        if info.row < 0:
            changed = aspects.ALL
            self._open_row(info)
        else:
            assert old is not None
            changed = node_changes(old, node)
        if changed:
            self._write_row(info, changed, old)
            self.journal.note(info.row, changed)
        return old, changed

    def remove_node(self, name: str) -> Node | None:
        """The node is gone; pods that are still on it stay counted under its name."""
        info = self.by_name.get(name)
        if info is None or info.row < 0:
            return None
        old, row = info.node, info.row
        assert old is not None
        self._drop_images(info)
        last = self.row_count - 1
        if row != last:
            moved = self._infos[last]
            self._move_row(last, row)
            self._infos[row] = moved
            moved.row = row
            self.journal.note(row, aspects.ALL)
        self._infos.pop()
        self.row_count = last
        info.row, info.node, info.allocatable = -1, None, {}
        if not info.pods:
            del self.by_name[name]
        self.membership_version += 1
        self._allocatable_spans.clear()
        self.pod_counts.close_row()
        self.journal.note(last, aspects.ALL)
        return old

    # -- pods

    def place(self, pod: PodInfo, node_name: str) -> None:
        info = self.by_name.get(node_name)
        if info is None:
            info = self.by_name[node_name] = NodeInfo(node_name)
        info.add_pod(pod)
        for port in pod.host_ports:
            self._port_users.setdefault((port.protocol, port.port), {})[node_name] = info
        self.pod_counts.place(pod, info)
        self._pods_changed(info, pod)

    def displace(self, uid: str, node_name: str) -> PodInfo:
        info = self.by_name[node_name]
        pod = info.remove_pod(uid)
        # A pod may want one port on several addresses; there is one entry for all of them.
        for on_any_address in {(port.protocol, port.port) for port in pod.host_ports}:
            if not any((used.protocol, used.port) == on_any_address for used in info.port_counts):
                users = self._port_users[on_any_address]
                del users[node_name]
                if not users:
                    del self._port_users[on_any_address]
        self.pod_counts.displace(pod, info)
        self._pods_changed(info, pod)
        if info.row < 0 and not info.pods:
            del self.by_name[node_name]
        return pod

    def swap(self, pod: PodInfo, node_name: str, changed: int) -> None:
        """Take a newer version of a pod that takes the same from its node; `changed` is PODS or nothing."""
        info = self.by_name[node_name]
        self.pod_counts.swap(info.swap_pod(pod), pod, info)
        if changed and info.row >= 0:
            self.journal.note(info.row, changed)

    def _pods_changed(self, info: NodeInfo, pod: PodInfo) -> None:
        row = info.row
        if row < 0:
            return
        requested, taken = info.requested, self.taken
        for resource in pod.placed_requests:
            amount = requested[resource]
            taken.put(resource, row, amount if amount < AMOUNT_MAX else AMOUNT_MAX)
        self._put_totals(info)
        changed = aspects.REQUESTED | aspects.PODS
        self.journal.note(row, changed | aspects.PORTS if pod.host_ports else changed)

    # -- hypothetical tables

    def hypothetical(self, rows: NDArray[np.intp] | list[int]) -> HypotheticalTable:
        """A table of clones of these rows, in this order, to place and displace pods on without a trace here."""
        from kubesched.state.hypothetical_table import HypotheticalTable

        return HypotheticalTable(self, np.asarray(rows, dtype=np.intp))

    # -- rows

    def _open_row(self, info: NodeInfo) -> None:
        if self.row_count == self.capacity:
            self._grow(self.capacity * 2)
        info.row = self.row_count
        self.row_count += 1
        self._infos.append(info)
        self.membership_version += 1
        row = info.row
        self.taken.matrix[:, row] = 0
        for resource, amount in info.requested.items():
            self.taken.put(resource, row, min(amount, AMOUNT_MAX))
        self._put_totals(info)
        self.pod_counts.open_row(info)

    def _put_totals(self, info: NodeInfo) -> None:
        taken, row = self.taken, info.row
        taken.put(POD_COUNT, row, len(info.pods))
        taken.put(NONZERO_CPU, row, min(info.nonzero_cpu_milli, AMOUNT_MAX))
        taken.put(NONZERO_MEMORY, row, min(info.nonzero_memory_bytes, AMOUNT_MAX))

    def _write_row(self, info: NodeInfo, changed: int, old: Node | None) -> None:
        """Bring the columns fed by the Node object up to date; those fed by pods are `_pods_changed`'s."""
        row, node = info.row, info.node
        assert node is not None
        if changed & aspects.ALLOCATABLE:
            self._allocatable_spans.clear()
            self.allocatable.matrix[:, row] = 0
            for resource, amount in info.allocatable.items():
                self.allocatable.put(resource, row, max(min(amount, _ALLOCATABLE_MAX), 0))
        if changed & aspects.UNSCHEDULABLE:
            self.unschedulable[row] = node.spec.unschedulable
        if changed & aspects.TAINTS:
            self.taint_set[row] = self.taint_sets.code(taint_keys(node))
            self.taints_version += 1
        if changed & aspects.LABELS:
            for key, label in self._labels.items():
                code = _label_code(label.values, node, key)
                if label.codes[row] != code:
                    label.codes[row] = code
                    label.version += 1
                    if len(label.values) > max(_VALUES_MIN, _VALUES_PER_ROW * self.row_count):
                        self._labels[key] = self._make_label_column(key, label.version + 1)
            if old is not None and zone_of(old) != zone_of(node):
                self.membership_version += 1
        if changed & aspects.IMAGES:
            self._set_images(info, old)

    def _move_row(self, source: int, target: int) -> None:
        for amounts in (self.allocatable, self.taken):
            amounts.matrix[:, target] = amounts.matrix[:, source]
        for column in self._columns():
            column[target] = column[source]

    def _columns(self) -> Iterator[NDArray[np.generic]]:
        yield from (label.codes for label in self._labels.values())
        yield from self.pod_counts.columns()
        yield self.unschedulable
        yield self.taint_set

    def _grow(self, capacity: int) -> None:
        def grown(column: NDArray[np.generic]) -> NDArray[np.generic]:
            larger = np.zeros(capacity, dtype=column.dtype)
            larger[: len(column)] = column
            return larger

        self.allocatable.grow(capacity)
        self.taken.grow(capacity)
        for label in self._labels.values():
            label.codes = grown(label.codes)  # type: ignore[assignment]
        self.unschedulable = grown(self.unschedulable)  # type: ignore[assignment]
        self.taint_set = grown(self.taint_set)  # type: ignore[assignment]
        self.pod_counts.grow(capacity)
        self.capacity = capacity

    def _make_label_column(self, key: str, version: int = 0) -> LabelColumn:
        values: Interner[str] = Interner()
        codes = np.full(self.capacity, -1, dtype=np.int32)
        for row, info in enumerate(self.infos):
            assert info.node is not None
            codes[row] = _label_code(values, info.node, key)
        return LabelColumn(values, codes, version)

    # -- images

    def _set_images(self, info: NodeInfo, old: Node | None) -> None:
        node = info.node
        assert node is not None
        for name in _image_sizes(old) if old is not None else ():
            # Those that stay, too: an image that no other node has is as large as this one says now.
            self._drop_image(name, info.name)
        for name, size_bytes in _image_sizes(node).items():
            image = self.images.get(name)
            if image is None:
                image = self.images[name] = Image(size_bytes)
            image.node_names.add(info.name)
        self.images_version += 1

    def _drop_images(self, info: NodeInfo) -> None:
        assert info.node is not None
        for name in _image_sizes(info.node):
            self._drop_image(name, info.name)
        self.images_version += 1

    def _drop_image(self, name: str, node_name: str) -> None:
        image = self.images[name]
        image.node_names.discard(node_name)
        if not image.node_names:
            del self.images[name]


def node_changes(old: Node, new: Node) -> int:
    """The aspects in which two versions of a Node differ (never MEMBERSHIP)."""
    changed = 0
    if old.metadata.labels != new.metadata.labels:
        changed |= aspects.LABELS
    if old.status.allocatable != new.status.allocatable:
        changed |= aspects.ALLOCATABLE
    if old.spec.unschedulable != new.spec.unschedulable:
        changed |= aspects.UNSCHEDULABLE
    if taint_keys(old) != taint_keys(new):
        changed |= aspects.TAINTS
    if old.status.images != new.status.images:
        changed |= aspects.IMAGES
    if old.status.declared_features != new.status.declared_features:
        changed |= aspects.DECLARED_FEATURES
    if [(c.type, c.status) for c in old.status.conditions] != [(c.type, c.status) for c in new.status.conditions]:
        changed |= aspects.CONDITIONS
    if old.metadata.annotations != new.metadata.annotations:
        changed |= aspects.OTHER
    return changed


def taint_keys(node: Node) -> tuple[TaintKey, ...]:
    return tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints)


def _label_code(values: Interner[str], node: Node, key: str) -> int:
    value = node.metadata.labels.get(key)
    return -1 if value is None else values.code(value)


def _image_sizes(node: Node) -> dict[str, int]:
    """By name; of several images with one name the first counts."""
    sizes: dict[str, int] = {}
    for image in node.status.images:
        for name in image.names:
            sizes.setdefault(name, image.size_bytes)
    return sizes
