"""`FreshVerdicts`: what a profile's Filter plugins say of nodes now, with nothing kept of it.

Of nodes of the table or of a hypothetical one; as they are, or as if the pods that are nominated to them were there.
Who tries pods on nodes tells it to the data of PreFilter first (`add_pod`, `remove_pod`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.runtime.calling import call, failure
from kubesched.framework.runtime.changes import FEW_ROWS
from kubesched.framework.runtime.filter_calls import NodeJudges, depends_on, vector_verdicts
from kubesched.framework.runtime.metering import Meter, call_in
from kubesched.framework.status import Code, Status
from kubesched.state import aspects
from kubesched.state.cluster_state import ClusterState
from kubesched.state.hypothetical_table import HypotheticalTable
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet, NodeTable
from kubesched.state.pod_info import PodInfo
from kubesched.state.promises import Heeded, Promised, Promises

_PROMISES_KEY = "nominated pods to leave room for"
_JUDGES_KEY = "rules for one node"
_NO_POSITIONS: NDArray[np.intp] = np.empty(0, dtype=np.intp)


class FreshVerdicts:
    def __init__(
        self, pre_filters: Sequence[Plugin], filters: Sequence[Plugin], state: ClusterState, meter: Meter
    ) -> None:
        self._filters = list(filters)
        self._tracks_pods = [p for p in pre_filters if hasattr(p, "add_pod") or hasattr(p, "remove_pod")]
        self._cluster = state
        self._promises = Promises(state.nominator, state.nodes, state.placements)
        self._meter = meter

    def evaluate(self, state: CycleState, nodes: NodeSet, *, reading: int = aspects.ALL) -> Verdicts:
        """Fresh answers of all Filter plugins for a set of nodes, of this table or a hypothetical one.

        With `reading`, plugins whose answers depend on none of these aspects of nodes are not asked again.
        """
        why = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status | None] = [None]
        for plugin in self._in_asking_order(state):
            if reading != aspects.ALL and not depends_on(plugin, reading):
                continue
            if hasattr(plugin, "filter_rows"):
                said = vector_verdicts(plugin, state, nodes, self._meter)
                if said is None:
                    continue
                news = (why == 0) & (said.why != 0)
                _raise_errors(plugin, said, said.why[news])
                why[news] = said.why[news] + (len(statuses) - 1)
                statuses += [status.of(plugin.name) if status is not None else None for status in said.statuses[1:]]
            else:
                infos = nodes.infos()
                for position in np.flatnonzero(why == 0).tolist():
                    status = self.ask_scalar(plugin, state, infos[position])
                    if status is not None:
                        why[position] = len(statuses)
                        statuses.append(status)
        return Verdicts(why, statuses)

    def evaluate_with_nominated(
        self, state: CycleState, nodes: NodeSet, *, reading: int = aspects.ALL, promises: Promised | None = None
    ) -> Verdicts:
        """As `evaluate`; where pods of equal or higher priority are nominated, nodes must fit with and without them.

        Who asks often about rows of one table may pass that table's `promises`.
        """
        if promises is None:
            promises = self.promises(state, nodes.table)
        rows = nodes.rows()
        positions = np.flatnonzero([row in promises for row in rows.tolist()]) if promises else _NO_POSITIONS
        if not len(positions):
            return self.evaluate(state, nodes, reading=reading)
        crowded = self.crowd_all(state, nodes.table, rows[positions], promises, reading)
        why = np.zeros(len(nodes), dtype=np.int32)
        why[positions] = crowded.why
        left = np.flatnonzero(why == 0)
        plain = self.evaluate(state, nodes.table.nodes_at(rows[left]), reading=reading)
        why[left] = np.where(plain.why != 0, plain.why + (len(crowded.statuses) - 1), 0)
        return Verdicts(why, crowded.statuses + plain.statuses[1:])

    def fits_now(self, state: CycleState, row: int) -> bool:
        judges = self.judges(state)
        if judges is None:
            return not self.evaluate_with_nominated(state, self._cluster.nodes.nodes_at([row])).why[0]
        node = self._cluster.nodes.infos[row]
        guests = self.promises(state).get(row)
        if guests and judges.status_of(with_guests(node, guests)) is not None:
            return False
        return judges.status_of(node) is None

    def judges(self, state: CycleState) -> NodeJudges | None:
        """For few nodes, the quicker way to what `evaluate` says of them. None where some plugin does not have it,
        where PreFilter's data follows pods, and in cycles that time each plugin."""
        if state.plugin_meter is not None or self.tracks_pods(state):
            return None
        judges: NodeJudges | None = state.get(_JUDGES_KEY)
        if judges is None:
            active = [plugin for plugin in self._filters if plugin.name not in state.skip_filter]
            if not all(hasattr(plugin, "filter_rows") and hasattr(plugin, "judge") for plugin in active):
                return None
            judges = NodeJudges(active, state, self._meter)
            state.write(_JUDGES_KEY, judges)
        return judges

    # -- with nominated pods

    def promises(self, state: CycleState, table: NodeTable | None = None) -> Promised:
        """Per row of the table (a hypothetical one or the real one) the nominated pods that this pod must leave room
        for."""
        promises = self.heeded(state).by_row
        if promises and isinstance(table, HypotheticalTable):
            rows = enumerate(table.original_rows.tolist())
            return {position: promises[row] for position, row in rows if row in promises}
        return promises

    def heeded(self, state: CycleState) -> Heeded:
        """Looked for once an attempt."""
        heeded: Heeded | None = state.get(_PROMISES_KEY)
        if heeded is None:
            heeded = self._promises.heeded_by(state.pod_info)
            state.write(_PROMISES_KEY, heeded)
        return heeded

    def rows_with_nominated(self, state: CycleState) -> NDArray[np.intp]:
        """The rows of nodes with nominated pods that this pod must leave room for."""
        return np.array(sorted(self.promises(state)), dtype=np.intp)

    def evaluate_crowded(self, state: CycleState, rows: NDArray[np.intp]) -> Verdicts:
        """Verdicts for these rows as if their nominated pods were there already."""
        promises = self.promises(state)
        return self.crowd_all(state, self._cluster.nodes, rows, promises, aspects.ALL)

    def crowd_all(
        self, state: CycleState, table: NodeTable, rows: NDArray[np.intp], promises: Promised, reading: int
    ) -> Verdicts:
        if not self.tracks_pods(state):
            return self.crowd(state, table, rows, promises, reading)
        why = np.zeros(len(rows), dtype=np.int32)
        statuses: list[Status | None] = [None]
        for position in range(len(rows)):
            said = self.crowd(state.clone(), table, rows[position : position + 1], promises, reading)
            if said.why[0]:
                why[position] = len(statuses)
                statuses.append(said.statuses[said.why[0]])
        return Verdicts(why, statuses)

    def crowd(
        self, state: CycleState, table: NodeTable, rows: NDArray[np.intp], promises: Promised, reading: int
    ) -> Verdicts:
        """One state for all rows: when PreFilter's data follows pods, it must be a copy and for a single row."""
        judges = self.judges(state) if len(rows) <= FEW_ROWS else None
        if judges is not None:
            return self._crowd_each(judges, table, rows.tolist(), promises, reading)
        hypothetical = table.hypothetical(rows)
        guests = [(other, position) for position, row in enumerate(rows.tolist()) for other in promises.get(row, ())]
        batch = hypothetical.batch([other for other, _ in guests], np.array([at for _, at in guests], dtype=np.intp))
        hypothetical.place_all(batch, np.arange(len(guests)))
        if self.tracks_pods(state):
            for other, position in guests:
                self.add_pod(state, other, hypothetical.infos[position])
        return self.evaluate(state, hypothetical.all_nodes(), reading=reading)

    def _crowd_each(
        self, judges: NodeJudges, table: NodeTable, rows: list[int], promises: Promised, reading: int
    ) -> Verdicts:
        statuses: list[Status | None] = [None]
        why = [0] * len(rows)
        for position, row in enumerate(rows):
            status = judges.status_of(with_guests(table.infos[row], promises.get(row, ())), reading)
            if status is not None:
                why[position] = len(statuses)
                statuses.append(status)
        return Verdicts(np.array(why, dtype=np.int32), statuses)

    # -- what PreFilter knows of pods

    def add_pod(self, state: CycleState, other: PodInfo, node: NodeInfo) -> None:
        """Tell PreFilter's data that `other` is (hypothetically) on the node as well; raises PluginFailure."""
        self._tell(state, "add_pod", "AddPod", other, node)

    def remove_pod(self, state: CycleState, other: PodInfo, node: NodeInfo) -> None:
        self._tell(state, "remove_pod", "RemovePod", other, node)

    def tracks_pods(self, state: CycleState) -> bool:
        """Whether some plugin's PreFilter data depends on which pods are on the nodes."""
        return any(plugin.name not in state.skip_filter for plugin in self._tracks_pods)

    def _tell(self, state: CycleState, method: str, point: str, other: PodInfo, node: NodeInfo) -> None:
        for plugin in self._tracks_pods:
            if plugin.name in state.skip_filter or not hasattr(plugin, method):
                continue
            status = call(plugin, point, getattr(plugin, method), state, state.pod_info.pod, other, node)
            if status is not None:
                raise failure(plugin, f'running {point} on PreFilter plugin "{plugin.name}"', status)

    # -- asking

    def ask_vector(self, plugin: Plugin, state: CycleState, nodes: NodeSet) -> Verdicts | None:
        said = vector_verdicts(plugin, state, nodes, self._meter)
        if said is not None:
            _raise_errors(plugin, said, said.why)
        return said

    def ask_scalar(self, plugin: Plugin, state: CycleState, node: NodeInfo) -> Status | None:
        self._meter.evaluated("Filter", plugin.name)
        status = call_in(state, plugin, "Filter", plugin.filter, state.pod_info.pod, node)
        if status is None or status.code is Code.SUCCESS:
            return None
        if not status.is_rejected:
            raise failure(plugin, f'running "{plugin.name}" filter plugin', status)
        return status.of(plugin.name)

    def _in_asking_order(self, state: CycleState) -> list[Plugin]:
        active = [plugin for plugin in self._filters if plugin.name not in state.skip_filter]
        return sorted(active, key=lambda plugin: not hasattr(plugin, "filter_rows"))


def _raise_errors(plugin: Plugin, said: Verdicts, why: NDArray[np.int32]) -> None:
    """If some node of those that count is answered with an error."""
    for code, status in enumerate(said.statuses):
        if status is not None and status.is_error and (why == code).any():
            raise failure(plugin, f'running "{plugin.name}" filter plugin', status)


def with_guests(node: NodeInfo, guests: Iterable[PodInfo]) -> NodeInfo:
    """A twin of the node with these pods on it as well."""
    twin = node.clone()
    for guest in guests:
        twin.add_pod(guest)
    return twin
