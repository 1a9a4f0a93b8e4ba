"""PreFilter and Filter: which nodes fit a pod, and why the others do not.

`find_fits` is the whole step for one attempt:

    PreFilter ─► the nominated node alone, taken if it fits
              ─► kept verdicts over all rows, or fresh ones over the few rows that PreFilter left
              ─► vector filters that are not kept, over the survivors
              ─► nodes with nominated pods once more, as if those were there
              ─► scalar filters, node after node, until enough have passed

Per rejected node the first plugin in this order is recorded. An ERROR from any plugin ends the attempt (PluginFailure).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kubesched.api.errors import KubeschedError
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, PreFilterResult, Verdicts
from kubesched.framework.results import Diagnosis, NodeStatuses
from kubesched.framework.runtime.calling import PluginFailure, failure
from kubesched.framework.runtime.evaluation import Evaluation
from kubesched.framework.runtime.fresh_verdicts import FreshVerdicts
from kubesched.framework.runtime.keeping import KeptEvaluations
from kubesched.framework.runtime.kept_crowd import looks_at_one_node
from kubesched.framework.runtime.kept_verdicts import KeptVerdicts
from kubesched.framework.runtime.metering import SUCCESS, Meter, call_in, status_text
from kubesched.framework.runtime.sieve import Sieve
from kubesched.framework.status import Code, Status
from kubesched.state import aspects
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

#: Below this many nodes all are looked at, whatever the percentage.
_SAMPLE_MIN = 100

#: Sets of plugins that are remembered.
_REMEMBERED_MAX = 256


@dataclass(slots=True)
class PreFilterOutcome:
    """`status` is a rejection or None; `node_names` of None leaves all nodes in."""

    status: Status | None = None
    node_names: frozenset[str] | None = None
    #: Plugins that narrowed the nodes, in profile order.
    narrowed_by: list[str] = field(default_factory=list)
    #: Plugins that were not asked, because one before them settled the matter.
    not_reached: frozenset[str] = frozenset()

    @property
    def is_plain(self) -> bool:
        """All nodes are in, and every plugin had its say."""
        return self.status is None and self.node_names is None and not self.not_reached

    @property
    def elsewhere(self) -> Status | None:
        """What nodes outside `node_names` are rejected with; no single plugin says it."""
        if self.node_names is None:
            return None
        return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.narrowed_by))}]")


class Fits:
    """The rows that fit, ascending, and why the rest do not.

    `evaluation` is set when the rows are exactly those that it says, so that its totals stand; they are then only
    listed for who asks. `complete` fills the diagnosis with the status of each rejected node; that is done already when
    no row fits. `otherwise` is set when the nominated node alone was looked at: what fits besides, should that one be
    refused after all.
    """

    __slots__ = ("_rows", "complete", "count", "diagnosis", "evaluated_count", "evaluation", "otherwise")

    def __init__(
        self,
        rows: NDArray[np.intp] | None,
        diagnosis: Diagnosis,
        evaluation: Evaluation | None = None,
        evaluated_count: int = 0,
        complete: Callable[[], None] = lambda: None,
        otherwise: Callable[[], Fits] | None = None,
    ) -> None:
        self._rows = rows
        self.diagnosis = diagnosis
        self.evaluation = evaluation
        self.evaluated_count = evaluated_count
        self.complete = complete
        self.otherwise = otherwise
        #: How many rows fit.
        self.count = len(rows) if rows is not None else evaluation.verdicts.fit_count if evaluation is not None else 0

    @property
    def rows(self) -> NDArray[np.intp]:
        if self._rows is None:
            assert self.evaluation is not None
            self._rows = np.flatnonzero(self.evaluation.verdicts.fits[: self.evaluated_count])
        return self._rows


class Filtering:
    def __init__(
        self,
        pre_filters: Sequence[Plugin],
        filters: Sequence[Plugin],
        kept: KeptEvaluations,
        state: ClusterState,
        percentage_of_nodes: int,
        meter: Meter,
    ) -> None:
        self._pre_filters = list(pre_filters)
        self._filters = list(filters)
        self.fresh = FreshVerdicts(pre_filters, filters, state, meter)
        self._kept = kept
        self._cluster = state
        self._percentage = percentage_of_nodes
        self._meter = meter
        self._next_start = 0
        self._scalar_filters = [plugin for plugin in filters if not hasattr(plugin, "filter_rows")]
        self._pre_filter_names = {plugin.name for plugin in pre_filters}
        #: By who skips for good: the others, in profile order, with their places in it.
        self._not_skipped: dict[frozenset[str], list[tuple[int, Plugin]]] = {}

    # -- PreFilter

    def pre_filter(self, state: CycleState, evaluation: Evaluation) -> PreFilterOutcome:
        """All PreFilter plugins in order; answers of kept ones come from `evaluation` after its first time."""
        known: PreFilterOutcome | None = evaluation.outcome
        if known is not None:
            again = evaluation.pre_filters_to_ask()
            if not again or (known.is_plain and self._say_the_same(again, state, evaluation)):
                state.pre_filter_not_reached = known.not_reached
                return known
        outcome = self._pre_filter(state, evaluation)
        evaluation.share_with(state)
        state.pre_filter_not_reached = outcome.not_reached
        evaluation.outcome = outcome if self._pre_filter_names <= evaluation.pre_filter_names else None
        return outcome

    def _say_the_same(self, plugins: list[Plugin], state: CycleState, evaluation: Evaluation) -> bool:
        """Ask again plugins that have let all nodes in; False once one does not."""
        for plugin in plugins:
            before, answer = evaluation.pre_filter[plugin.name], self._ask_pre_filter(plugin, evaluation.state)
            if answer is not before:
                return False
            evaluation.set_pre_filter(plugin.name, answer)
        evaluation.share_with(state)
        return True

    def _pre_filter(self, state: CycleState, evaluation: Evaluation) -> PreFilterOutcome:
        outcome = PreFilterOutcome()
        kept_names = evaluation.pre_filter_names
        for position, plugin in self._but(evaluation.lasting_skips):
            name = plugin.name
            if name in kept_names:
                if evaluation.wants_pre_filter(plugin):
                    evaluation.set_pre_filter(name, self._ask_pre_filter(plugin, evaluation.state))
                    state.skip_filter.discard(name)
                answer = evaluation.pre_filter[name]
            else:
                evaluation.share_with(state)
                answer = self._ask_pre_filter(plugin, state)
            if isinstance(answer, Status):
                if answer.is_skip:
                    state.skip_filter.add(name)
                elif answer.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(answer.of(name), not_reached=self._after(position))
                elif answer.code is Code.UNSCHEDULABLE:
                    outcome.status = answer.of(name)
                else:
                    raise failure(plugin, f'running PreFilter plugin "{name}"', answer)
            elif answer is not None and answer.node_names is not None:
                outcome.narrowed_by.append(name)
                names = answer.node_names
                outcome.node_names = names if outcome.node_names is None else outcome.node_names & names
                if not outcome.node_names:
                    status = _nothing_left(outcome.narrowed_by)
                    return PreFilterOutcome(status, frozenset(), outcome.narrowed_by, self._after(position))
        return outcome

    def _but(self, names: frozenset[str]) -> list[tuple[int, Plugin]]:
        plugins = self._not_skipped.get(names)
        if plugins is None:
            if len(self._not_skipped) >= _REMEMBERED_MAX:
                self._not_skipped.clear()
            plugins = [(place, plugin) for place, plugin in enumerate(self._pre_filters) if plugin.name not in names]
            self._not_skipped[names] = plugins
        return plugins

    def _after(self, position: int) -> frozenset[str]:
        return frozenset(plugin.name for plugin in self._pre_filters[position + 1 :])

    def _ask_pre_filter(self, plugin: Plugin, state: CycleState) -> PreFilterResult | Status | None:
        nodes = self._cluster.nodes.all_nodes()
        answer = call_in(state, plugin, "PreFilter", plugin.pre_filter, state.pod_info.pod, nodes)
        if not (isinstance(answer, Status) and answer.is_skip):
            self._meter.evaluated("PreFilter", plugin.name)
        return answer

    # -- Filter

    def find_fits(self, state: CycleState, evaluation: Evaluation) -> Fits:
        meter = self._meter
        started_s = meter.now()
        try:
            outcome = self.pre_filter(state, evaluation)
        except KubeschedError as error:
            meter.failed("PreFilter", started_s, error)
            raise
        started_s = meter.point("PreFilter", status_text(outcome.status), started_s)
        if outcome.status is not None:
            diagnosis = Diagnosis.of_pre_filter(outcome.status)
            diagnosis.unschedulable_plugins.update(outcome.narrowed_by)
            return Fits(np.empty(0, dtype=np.intp), diagnosis)
        try:
            fits = self._filter(state, evaluation, outcome)
        except KubeschedError as error:
            meter.failed("Filter", started_s, error)
            raise
        meter.point("Filter", SUCCESS, started_s)
        return fits

    def _filter(self, state: CycleState, evaluation: Evaluation, outcome: PreFilterOutcome) -> Fits:
        table = self._cluster.nodes
        diagnosis = Diagnosis(unschedulable_plugins=set(outcome.narrowed_by))

        nominated_row = self.nominated_row(state.pod_info)
        if nominated_row >= 0 and outcome.node_names is not None:
            nominated_row = nominated_row if table.infos[nominated_row].name in outcome.node_names else -1
        if nominated_row >= 0 and self.fresh.fits_now(state, nominated_row):
            return Fits(
                np.array([nominated_row], dtype=np.intp),
                diagnosis,
                evaluated_count=1,
                otherwise=lambda: self._filter_all(state, evaluation, outcome, diagnosis),
            )
        return self._filter_all(state, evaluation, outcome, diagnosis)

    def _filter_all(
        self, state: CycleState, evaluation: Evaluation, outcome: PreFilterOutcome, diagnosis: Diagnosis
    ) -> Fits:
        table = self._cluster.nodes
        verdicts = evaluation.verdicts
        sieve = Sieve(verdicts, table.row_count)
        not_kept = evaluation.without(self._filters)
        if outcome.node_names is None:
            evaluation.refresh()
            self._kept.keep(evaluation)
            sieve.pass_kept()
            self._pass_vector(state, sieve, not_kept)
            candidates = None
        else:
            names = outcome.node_names
            candidates = np.array(sorted(row for n in names if (row := table.row_of(n)) >= 0), dtype=np.intp)
            sieve.pass_rows(candidates)
            self._pass_vector(state, sieve, self._filters)
            diagnosis.node_statuses.absent = outcome.elsewhere
        self._pass_nominated(state, evaluation, sieve, candidates)
        self._pass_scalar(state, sieve)
        if verdicts.has_errors:
            _raise_first_error(sieve.codes(), verdicts)

        def complete() -> None:
            if candidates is None:
                self._put_in_profile_order(state, sieve, not_kept)
            absent = diagnosis.node_statuses.absent
            diagnosis.node_statuses = NodeStatuses(table, sieve.codes(), verdicts.statuses)
            diagnosis.node_statuses.absent = absent
            for status, _ in diagnosis.node_statuses.counts(table.row_count):
                diagnosis.note(status)

        if sieve.narrowed:
            fits = Fits(sieve.rows, diagnosis, None, table.row_count, complete)
        else:
            fits = Fits(None, diagnosis, evaluation, table.row_count, complete)
        if not fits.count:
            complete()
        return fits

    # -- steps of find_fits

    def _pass_vector(self, state: CycleState, sieve: Sieve, plugins: Sequence[Plugin]) -> None:
        for plugin in plugins:
            if plugin.name in state.skip_filter or not hasattr(plugin, "filter_rows") or not len(sieve.rows):
                continue
            said = self.fresh.ask_vector(plugin, state, self._cluster.nodes.nodes_at(sieve.rows))
            if said is not None:
                sieve.reject(said, plugin)

    def _put_in_profile_order(self, state: CycleState, sieve: Sieve, not_kept: Sequence[Plugin]) -> None:
        """Kept verdicts came first. For the record the first plugin in profile order counts, so those that are not kept
        are asked about the nodes that only plugins behind them have rejected."""
        for plugin in not_kept:
            if plugin.name in state.skip_filter or not hasattr(plugin, "filter_rows"):
                continue
            ahead = self._filters[: self._filters.index(plugin)]
            rows = sieve.rejected_behind({other.name for other in ahead})
            said = self.fresh.ask_vector(plugin, state, self._cluster.nodes.nodes_at(rows)) if len(rows) else None
            if said is not None:
                sieve.override(rows, Verdicts(said.why, [s.of(plugin.name) if s else None for s in said.statuses]))

    def _pass_nominated(
        self, state: CycleState, evaluation: Evaluation, sieve: Sieve, candidates: NDArray[np.intp] | None
    ) -> None:
        if not len(self._cluster.nominator):
            return
        heeded, table = self.fresh.heeded(state), self._cluster.nodes
        promises = heeded.by_row
        if candidates is None and promises and self._looks_at_single_nodes(state, evaluation):
            rows, said = evaluation.crowd_of(state).follow(
                heeded,
                self._cluster.nominator,
                table,
                lambda rows: self.fresh.crowd(state, table, rows, promises, aspects.ALL),
            )
            sieve.override(rows, said)
            return
        rows = np.array(sorted(promises), dtype=np.intp)
        if candidates is not None:
            rows = np.intersect1d(rows, candidates)
        if len(rows):
            sieve.override(rows, self.fresh.crowd_all(state, table, rows, promises, aspects.ALL))

    def _looks_at_single_nodes(self, state: CycleState, evaluation: Evaluation) -> bool:
        """Whether every Filter plugin at work is kept, and what it says of a node depends on that node alone."""
        if self.fresh.tracks_pods(state) or evaluation.without(self._filters):
            return False
        return all(looks_at_one_node(plugin) for plugin in self._filters if plugin.name not in state.skip_filter)

    def _pass_scalar(self, state: CycleState, sieve: Sieve) -> None:
        """Scalar filters in rotating order until enough nodes passed; vector filters alone are only cut on request."""
        plugins = [plugin for plugin in self._scalar_filters if plugin.name not in state.skip_filter]
        table = self._cluster.nodes
        wanted = nodes_to_find(table.row_count, self._percentage) if plugins or self._percentage else table.row_count
        if not plugins and (wanted >= table.row_count or len(sieve.rows) <= wanted):
            return
        order = self._cluster.nodes_in_turn()
        survives = np.zeros(table.row_count, dtype=np.bool_)
        survives[sieve.rows] = True
        passed: list[int] = []
        tried = 0
        for step in range(len(order)):
            info = order[(self._next_start + step) % len(order)]
            tried += 1
            if not survives[info.row]:
                continue
            status = next((said for plugin in plugins if (said := self.fresh.ask_scalar(plugin, state, info))), None)
            if status is not None:
                sieve.reject_row(info.row, status)
                continue
            passed.append(info.row)
            if len(passed) >= wanted:
                break
        self._next_start = (self._next_start + tried) % max(1, len(order))
        sieve.narrow(np.array(sorted(passed), dtype=np.intp))

    def nominated_row(self, pod_info: PodInfo) -> int:
        """The row of the node that the pod itself is nominated to, or -1."""
        name = self._cluster.nominator.node_of(pod_info.uid) or pod_info.pod.status.nominated_node_name
        return self._cluster.nodes.row_of(name) if name else -1


def nodes_to_find(node_count: int, percentage: int) -> int:
    """How many feasible nodes are enough: all below 100 nodes, else `percentage` of them but at least 100.

    A percentage of 0 adapts to the size: 50 % less one per 125 nodes, at least 5 % (kube-scheduler v1.36).
    """
    if node_count < _SAMPLE_MIN or percentage >= 100:
        return node_count
    if percentage == 0:
        percentage = max(50 - node_count // 125, 5)
    return max(node_count * percentage // 100, _SAMPLE_MIN)


def as_step_failure(status: Status) -> Status:
    """A plugin's ERROR about one node as the failure of the whole Filter step."""
    return Status.error(f'running "{status.plugin}" filter plugin: {status.message}').of(status.plugin)


def _raise_first_error(codes: NDArray[np.int32], verdicts: KeptVerdicts) -> None:
    """A node about which a plugin answers with an error, not a rejection, ends the attempt."""
    for code in np.unique(codes).tolist():
        status = verdicts.statuses[code]
        if status is not None and status.is_error:
            raise PluginFailure(as_step_failure(status))


def _nothing_left(narrowed_by: list[str]) -> Status:
    if len(narrowed_by) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {narrowed_by[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed_by))}] simultaneously")
