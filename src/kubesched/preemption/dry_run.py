"""The dry run: on which of these nodes would the pod fit, and which pods must really go for it?

For each node: take off all potential victims; if the pod fits then, put them back one by one, those that break a budget
first, then the others, in both groups from the most important down. Whoever does not fit beside the pod is a victim.

All nodes go in step, on one hypothetical table: the vector plugins are asked about all of them at once, after the
removal and after each k-th pod was put back, and then only those plugins that look at what pods take. Where PreFilter's
data follows the pods on nodes (AddPod, RemovePod), each node has a copy of it, and is asked about on its own. A few
nodes are tried one after the other where the plugins have rules for one node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Verdicts
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.changes import FEW_ROWS
from kubesched.framework.runtime.filter_calls import NodeJudges
from kubesched.framework.runtime.fresh_verdicts import FreshVerdicts, with_guests
from kubesched.framework.status import Status
from kubesched.preemption.budgets import Budgets
from kubesched.preemption.candidate import Candidate
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeTable
from kubesched.state.pod_info import PodInfo

Positions = NDArray[np.intp]


def dry_run(
    verdicts: FreshVerdicts,
    state: CycleState,
    table: NodeTable,
    rows: Positions,
    potential: Sequence[Sequence[PodInfo]],
    budgets: Budgets,
) -> list[Candidate | Status]:
    """Per row the candidate, or why the node is none. `potential`: per row the pods that may go, most important first.

    Each row must have some. A plugin that fails makes an ERROR status of the nodes that it failed on.
    """
    if not verdicts.tracks_pods(state):
        try:
            judges = verdicts.judges(state) if len(rows) <= FEW_ROWS else None
            if judges is not None:
                promises = verdicts.promises(state)
                return [
                    _dry_run_of_one(judges, table.infos[row], pods, promises.get(row), budgets)
                    for row, pods in zip(rows.tolist(), potential, strict=True)
                ]
            return _DryRun(verdicts, state, table, rows, potential).outcomes(budgets)
        except PluginFailure:
            pass  # which nodes it was about shows when they are asked about one by one
    apart = [state.clone() for _ in range(len(rows))]
    return _DryRun(verdicts, state, table, rows, potential, apart).outcomes(budgets)


def _dry_run_of_one(
    judges: NodeJudges, node: NodeInfo, pods: Sequence[PodInfo], guests: Sequence[PodInfo] | None, budgets: Budgets
) -> Candidate | Status:
    """On one node, which must take the pod with and without its `guests`; those that it fails beside come first."""
    twins = [with_guests(node, guests), node.clone()] if guests else [node.clone()]
    for twin in twins:
        for pod in pods:
            twin.remove_pod(pod.uid)
        status = judges.status_of(twin)
        if status is not None:
            return status
    breaks = budgets.violations([info.pod for info in pods]) if budgets else [False] * len(pods)
    victims: set[int] = set()
    for position in sorted(range(len(pods)), key=lambda position: not breaks[position]):
        pod = pods[position]
        for twin in twins:
            twin.add_pod(pod)
        if any(judges.status_of(twin, aspects.POD_CHANGE) is not None for twin in twins):
            victims.add(position)
            for twin in twins:
                twin.remove_pod(pod.uid)
    gone = [info for position, info in enumerate(pods) if position in victims]
    return _candidate(node.name, gone, sum(breaks[position] for position in victims))


def _candidate(node_name: str, victims: Sequence[PodInfo], violation_count: int) -> Candidate | Status:
    if not victims:
        return Status.error(f'expected at least one victim pod on node "{node_name}"')
    return Candidate(node_name, victims, violation_count)


class _DryRun:
    """Nodes are known by their position in `rows`, pods by their position in the batch of all potential victims."""

    def __init__(
        self,
        verdicts: FreshVerdicts,
        state: CycleState,
        table: NodeTable,
        rows: Positions,
        potential: Sequence[Sequence[PodInfo]],
        apart: list[CycleState] | None = None,
    ) -> None:
        self._verdicts = verdicts
        self._state = state
        self._apart = apart
        self._twin = table.hypothetical(rows)
        self._promises = verdicts.promises(state, self._twin)
        self._counts = np.array([len(pods) for pods in potential], dtype=np.intp)
        self._starts = np.cumsum(self._counts) - self._counts
        self._pods = list(chain.from_iterable(potential))
        self._batch = self._twin.batch(self._pods, np.repeat(np.arange(len(rows)), self._counts))
        #: Why a node is out of the race.
        self._out: dict[int, Status] = {}

    def outcomes(self, budgets: Budgets) -> list[Candidate | Status]:
        self._take_off(np.arange(len(self._pods)), one_each=False)
        fitting = self._fitting()
        order, breaks_budget = self._put_back_order(fitting, budgets)
        is_victim = np.zeros(len(self._pods), dtype=np.bool_)
        for k in range(int(self._counts[fitting].max(initial=0))):
            nodes = fitting[self._counts[fitting] > k]
            pods = order[self._starts[nodes] + k]
            self._put_back(pods)
            misfits = self._ask(nodes, aspects.POD_CHANGE).why != 0
            is_victim[pods[misfits]] = True
            self._take_off(pods[misfits])
        return self._outcomes(np.flatnonzero(is_victim), breaks_budget)

    def _fitting(self) -> Positions:
        """The nodes that the pod fits on now; the others are out."""
        nodes = np.arange(len(self._counts))
        said = self._ask(nodes, aspects.ALL)
        for node in np.flatnonzero(said.why).tolist():
            status = said.statuses[said.why[node]]
            assert status is not None
            self._out.setdefault(node, status)
        return np.flatnonzero(said.why == 0)

    def _put_back_order(self, fitting: Positions, budgets: Budgets) -> tuple[Positions, NDArray[np.bool_]]:
        """The pods of each node in the order in which they are put back, and who of them breaks a budget."""
        order = np.arange(len(self._pods))
        breaks = np.zeros(len(self._pods), dtype=np.bool_)
        if budgets:
            for start, count in zip(self._starts[fitting].tolist(), self._counts[fitting].tolist(), strict=True):
                span = slice(start, start + count)
                breaks[span] = budgets.violations([info.pod for info in self._pods[span]])
                order[span] = start + np.argsort(~breaks[span], kind="stable")
        return order, breaks

    def _outcomes(self, victims: Positions, breaks_budget: NDArray[np.bool_]) -> list[Candidate | Status]:
        pods = self._pods
        by_node: list[list[PodInfo]] = [[] for _ in range(len(self._counts))]
        for pod, node in zip(victims.tolist(), self._batch.rows[victims].tolist(), strict=True):
            by_node[node].append(pods[pod])
        violations = np.bincount(self._batch.rows[victims[breaks_budget[victims]]], minlength=len(by_node)).tolist()
        return [
            self._out.get(node) or _candidate(self._twin.name_of(node), gone, violations[node])
            for node, gone in enumerate(by_node)
        ]

    # -- trying

    def _ask(self, nodes: Positions, reading: int) -> Verdicts:
        """Verdicts for these nodes of the plugins that read any of these aspects."""
        if self._apart is None:
            return self._evaluate(self._state, nodes, reading)
        why = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status | None] = [None]
        for index, node in enumerate(nodes.tolist()):
            try:
                said = self._evaluate(self._apart[node], nodes[index : index + 1], reading)
                status = said.statuses[said.why[0]]
            except PluginFailure as failure:
                status = self._out.setdefault(node, failure.status)
            if status is not None:
                why[index] = len(statuses)
                statuses.append(status)
        return Verdicts(why, statuses)

    def _evaluate(self, state: CycleState, nodes: Positions, reading: int) -> Verdicts:
        twin = self._twin
        asked = twin.all_nodes() if len(nodes) == twin.row_count else twin.nodes_at(nodes)
        return self._verdicts.evaluate_with_nominated(state, asked, reading=reading, promises=self._promises)

    def _take_off(self, pods: Positions, *, one_each: bool = True) -> None:
        self._twin.displace_all(self._batch, pods, one_each=one_each)
        self._tell(self._verdicts.remove_pod, pods)

    def _put_back(self, pods: Positions) -> None:
        self._twin.place_all(self._batch, pods, one_each=True)
        self._tell(self._verdicts.add_pod, pods)

    def _tell(self, tell: Callable[[CycleState, PodInfo, NodeInfo], None], pods: Positions) -> None:
        """Bring the nodes' copies of PreFilter's data up to date."""
        if self._apart is None:
            return
        for pod in pods.tolist():
            node = int(self._batch.rows[pod])
            try:
                tell(self._apart[node], self._pods[pod], self._twin.infos[node])
            except PluginFailure as failure:
                self._out.setdefault(node, failure.status)
