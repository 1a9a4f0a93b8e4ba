"""Why a pod goes where it goes, or goes nowhere: one attempt taken apart.

    PreEnqueue ─► PreFilter ─► every Filter on every node ─► PreScore, Score on every node that fits
                                                         └─► what PostFilter would do when none does

The plugins are the profile's own and are asked as a scheduling cycle asks them, with three differences: nothing ends
early (each plugin is asked about each node, all nodes that fit are scored), nothing that is kept is used or changed,
and PostFilter plugins are asked what they would do instead of doing it. The cluster state stays as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kubesched.api.core import Pod
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.results import NO_NODES_MESSAGE, Diagnosis, fit_message
from kubesched.framework.runtime.calling import PluginFailure, call, checked_verdicts
from kubesched.framework.runtime.evaluation import EMPTY, Evaluation
from kubesched.framework.runtime.filtering import as_step_failure
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.runtime.scoring import best_rows
from kubesched.framework.status import Status
from kubesched.scheduler.bugs import as_bug
from kubesched.scheduler.explanation import Explanation, PluginScore, PreFilterAnswer
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo

Answers = dict[str, Status | None]


def explain(runtime: Runtime, cluster: ClusterState, pod_info: PodInfo) -> Explanation:
    """What an attempt to schedule the pod now would come to. A pod that names its node already is only filtered and
    scored; nobody would preempt for it."""
    return _Attempt(runtime, cluster, pod_info).explained()


class _Attempt:
    def __init__(self, runtime: Runtime, cluster: ClusterState, pod_info: PodInfo) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._table = cluster.nodes
        self._nodes = cluster.nodes.all_nodes()
        self._state = CycleState(pod_info)
        self._pod: Pod = pod_info.pod
        self._is_placed = bool(pod_info.pod.spec.node_name)
        self._found = Explanation(pod_info.key, cluster.nodes.row_count)
        self._narrowed_by: list[str] = []
        self._narrowed_status: Status | None = None

    def explained(self) -> Explanation:
        found = self._found
        found.pre_enqueue = self._runtime.pre_enqueue(self._pod)
        if found.pre_enqueue is not None:
            found.message = found.pre_enqueue.message
        elif not self._table.row_count:
            found.message = NO_NODES_MESSAGE
        else:
            try:
                self._schedule()
            except PluginFailure as failure:
                found.error = found.message = failure.status.message
            except Exception as error:
                found.error = found.message = as_bug(error, found.pod).message
        return found

    def _schedule(self) -> None:
        found = self._found
        outcome = self._pre_filter()
        if outcome.status is not None:
            self._reject(Diagnosis.of_pre_filter(outcome.status))
            return
        by_plugin = self._by_plugin()
        found.filter_by_plugin = by_plugin
        found.filter = self._first_rejections(by_plugin, outcome.node_names)
        self._collect_details(by_plugin)
        broken = next((status for status in found.filter.values() if status is not None and status.is_error), None)
        if broken is not None:
            raise PluginFailure(broken)
        rows = np.array([row for row, status in enumerate(found.filter.values()) if status is None], dtype=np.intp)
        if len(rows):
            self._score(rows)
        else:
            self._reject(self._diagnosis(found.filter))

    # -- filters

    def _pre_filter(self) -> PreFilterAnswer:
        """On failure, too, it is said which plugins skipped before."""
        answer = self._found.pre_filter = PreFilterAnswer()
        nothing_kept = Evaluation(self._state.pod_info, EMPTY, self._cluster, self._runtime.meter)
        try:
            outcome = self._runtime.filtering.pre_filter(self._state, nothing_kept)
        finally:
            asked = self._runtime.plugins.pre_filter
            answer.skipped = tuple(plugin.name for plugin in asked if plugin.name in self._state.skip_filter)
        answer.status, answer.node_names = outcome.status, outcome.node_names
        self._narrowed_by = outcome.narrowed_by
        self._narrowed_status = outcome.elsewhere
        return answer

    def _by_plugin(self) -> dict[str, Answers]:
        return {
            plugin.name: dict(zip(self._names(self._nodes), self._ask(plugin), strict=True))
            for plugin in self._runtime.plugins.filter
            if plugin.name not in self._state.skip_filter
        }

    def _ask(self, plugin: Plugin) -> Iterable[Status | None]:
        """The plugin's answer for every node; a plugin that fails as a whole fails on each of them."""
        if not hasattr(plugin, "filter_rows"):
            for node in self._nodes:
                said = call(plugin, "Filter", plugin.filter, self._state, self._pod, node)
                yield said.of(plugin.name) if said is not None and not said.is_success else None
            return
        answer: Verdicts | Status | None = checked_verdicts(
            plugin,
            call(plugin, "Filter", plugin.filter_rows, self._state, self._pod, self._nodes),
            len(self._nodes),
        )
        if isinstance(answer, Verdicts):
            statuses = [status.of(plugin.name) if status is not None else None for status in answer.statuses]
            yield from (statuses[why] for why in answer.why.tolist())
        else:
            for _ in range(len(self._nodes)):
                yield answer.of(plugin.name) if answer is not None else None

    def _first_rejections(self, by_plugin: dict[str, Answers], node_names: frozenset[str] | None) -> Answers:
        """Per node the first rejection in profile order. Where pods of equal or higher priority are nominated, the
        node must fit with them there, and without them."""
        first: Answers = {}
        crowded = self._crowded(node_names)
        for name in self._names(self._nodes):
            if node_names is not None and name not in node_names:
                first[name] = self._narrowed_status
                continue
            said = (answers[name] for answers in by_plugin.values())
            status = crowded.get(name) or next((status for status in said if status is not None), None)
            first[name] = as_step_failure(status) if status is not None and status.is_error else status
        return first

    def _crowded(self, node_names: frozenset[str] | None) -> Answers:
        """The rejections on nodes with nominated pods, as if these were there."""
        rows = self._runtime.fresh.rows_with_nominated(self._state)
        rejections: Answers = {}
        for row in rows.tolist():
            name = self._table.infos[row].name
            if node_names is not None and name not in node_names:
                continue
            try:
                said = self._runtime.fresh.evaluate_crowded(self._state, np.array([row], dtype=np.intp))
                rejections[name] = said.statuses[said.why[0]]
            except PluginFailure as failure:
                rejections[name] = failure.status
        return rejections

    def _collect_details(self, by_plugin: dict[str, Answers]) -> None:
        plugins = {plugin.name: plugin for plugin in self._runtime.plugins.filter if hasattr(plugin, "details")}
        for node in self._nodes:
            for name, plugin in plugins.items():
                status = by_plugin.get(name, {}).get(node.name)
                if status is not None and status.is_rejected:
                    self._add_details(plugin, node)

    def _add_details(self, plugin: Plugin, node: NodeInfo) -> None:
        facts: Any = call(plugin, "details", plugin.details, self._state, self._pod, node)
        if isinstance(facts, Mapping) and facts:
            self._found.details.setdefault(node.name, {})[plugin.name] = facts

    # -- no node fits

    def _diagnosis(self, rejections: Answers) -> Diagnosis:
        diagnosis = Diagnosis(unschedulable_plugins=set(self._narrowed_by))
        diagnosis.node_statuses.absent = self._narrowed_status
        for name, status in rejections.items():
            if status is not None and status is not self._narrowed_status:
                diagnosis.node_statuses.set(name, status)
                diagnosis.note(status)
        return diagnosis

    def _reject(self, diagnosis: Diagnosis) -> None:
        found = self._found
        found.message = fit_message(found.node_count, diagnosis)
        if self._is_placed or not self._runtime.plugins.post_filter:
            return
        found.preemption = self._runtime.post_filter_preview(self._state, diagnosis)
        diagnosis.post_filter_message = found.preemption.status.message
        found.message_with_preemption = fit_message(found.node_count, diagnosis)

    # -- scores

    def _score(self, rows: np.ndarray[Any, np.dtype[np.intp]]) -> None:
        found = self._found
        parts = self._runtime.scoring.by_plugin(self._state, rows)
        nodes = self._table.nodes_at(rows)
        found.volumes = self._volumes(nodes)
        asked = self._runtime.plugins.pre_score
        found.pre_score_skipped = tuple(plugin.name for plugin in asked if plugin.name in self._state.skip_score)
        found.scores = {
            name: {part.plugin: PluginScore(int(part.raw[i]), int(part.normalized[i]), part.weight) for part in parts}
            for i, name in enumerate(self._names(nodes))
        }
        nominated_row = self._runtime.filtering.nominated_row(self._state.pod_info)
        if nominated_row in rows:
            best = np.array([nominated_row])
        else:
            best = best_rows(rows, np.array([found.total(name) for name in found.scores], dtype=np.int64))
        found.best = tuple(sorted(self._names(self._table.nodes_at(best))))

    def _volumes(self, nodes: NodeSet) -> dict[str, Any] | None:
        """From whichever plugin would bind volumes; None when there is nothing to bind."""
        for plugin in self._runtime.plugins.filter:
            if hasattr(plugin, "planned_volumes") and plugin.name not in self._state.skip_filter:
                planned: dict[str, Any] = {
                    node.name: call(plugin, "planned_volumes", plugin.planned_volumes, self._state, self._pod, node)
                    for node in nodes
                }
                if all(isinstance(plan, Mapping) for plan in planned.values()):
                    return planned
        return None

    @staticmethod
    def _names(nodes: NodeSet) -> list[str]:
        return [node.name for node in nodes.infos()]
