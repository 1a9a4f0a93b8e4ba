"""`Evaluation`: what the keepable plugins of a profile say of every node for one scheduling signature.

It holds, per Filter plugin and row, the verdict, and per Score plugin and row the normalised score, with their sums.
The first `refresh` asks the plugins about all rows; later ones only about rows that the journal names, and only the
plugins that read what changed there. The outcome is exactly that of asking about everything again: a property test
holds the two against each other, and `kept` results differ from fresh ones in nothing but time.

    verdicts[k, row]    0 where filter k lets the row pass, else an index into `statuses`
    fits[row]           True where every filter does
    normalized[k][row]  0..100 of score k; meaningless where the row does not fit
    total[row]          weighted sum, -1 where the row does not fit

Arrays have the table's capacity; entries from `row_count` on mean nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, PreFilterResult, Reads, Verdicts
from kubesched.framework.runtime.calling import PluginFailure, call, failure
from kubesched.framework.status import Status
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import Bools, Ints, NodeSet, RowIndex
from kubesched.state.pod_info import PodInfo

#: Above this share of changed rows, asking about all of them is cheaper than picking.
_PICK_SHARE_MAX = 0.25


class Score:
    """One Score plugin's part of an evaluation."""

    __slots__ = ("normalized", "normalizes", "plugin", "raw", "runs_pre_score", "scale", "weight")

    def __init__(self, plugin: Plugin, weight: int, *, runs_pre_score: bool) -> None:
        self.plugin = plugin
        self.weight = weight
        self.runs_pre_score = runs_pre_score
        self.normalizes = hasattr(plugin, "normalize_rows")
        self.scale: Hashable = None
        self.raw: Ints = np.empty(0, dtype=np.int64)
        #: The same array as `raw` for plugins that do not normalise.
        self.normalized: Ints = self.raw

    def allocate(self, capacity: int) -> None:
        self.raw = np.zeros(capacity, dtype=np.int64)
        self.normalized = np.zeros(capacity, dtype=np.int64) if self.normalizes else self.raw


class Evaluation:
    def __init__(
        self, pod_info: PodInfo, filters: Sequence[Plugin], scores: Sequence[Score], state: ClusterState
    ) -> None:
        self._cluster = state
        #: What PreFilter and PreScore of these plugins left behind; every attempt starts with a copy.
        self.state = CycleState(pod_info)
        #: Answers of PreFilter by plugin name.
        self.pre_filter: dict[str, PreFilterResult | Status | None] = {}
        self.filters: list[Plugin] = list(filters)
        self.scores: list[Score] = list(scores)
        self.scored = False
        #: Some plugin answered with an ERROR about single nodes.
        self.has_errors = False

        self.statuses: list[Status | None] = [None]
        self._status_ids: dict[Status | None, int] = {None: 0}
        self.verdicts: NDArray[np.int32] = np.empty((0, 0), dtype=np.int32)
        self.fits: Bools = np.empty(0, dtype=np.bool_)
        self.total: Ints = np.empty(0, dtype=np.int64)
        self._capacity = -1
        self._position = -1
        self._score_position = -1
        self._all_fits_changed = False
        kinds = {kind for plugin in self.filters for kind in _reads(plugin.filter_reads).objects}
        kinds |= {kind for score in self.scores for kind in _reads(score.plugin.score_reads).objects}
        self._objects = tuple(kinds)
        self._objects_version = state.objects.version(*self._objects)

    # -- staying true

    @property
    def outdated(self) -> bool:
        """An object changed that PreFilter or PreScore may have read: nothing here can be kept."""
        return bool(self._objects) and self._objects_version != self._cluster.objects.version(*self._objects)

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        scores = sum(score.raw.nbytes * (2 if score.normalizes else 1) for score in self.scores)
        return self.verdicts.nbytes + self.fits.nbytes + self.total.nbytes + scores

    def begin(self, pod_info: PodInfo) -> CycleState:
        """The cycle state of a new attempt for a pod of this signature."""
        return self.state.clone(pod_info)

    def refresh(self) -> None:
        """Bring verdicts and `fits` up to date with the table."""
        table = self._cluster.nodes
        position = table.journal.position
        if position == self._position:
            return
        active = self._active_filters()
        capacity = len(table.pod_count)
        changes = None
        if capacity == self._capacity and len(active) == len(self.verdicts):
            changes = _merge(table.journal.since(self._position), table.row_count)
        if changes is None:
            self._capacity = capacity
            self.verdicts = np.zeros((len(active), capacity), dtype=np.int32)
            self.fits = np.zeros(capacity, dtype=np.bool_)
            for k, plugin in enumerate(active):
                self._ask(k, plugin, table.all_nodes())
            self._fold(slice(0, table.row_count))
            self._score_position = -1
        else:
            rows, changed = changes
            everywhere = False
            picked = NodeSet(table, rows)
            for k, plugin in enumerate(active):
                reads = _reads(plugin.filter_reads)
                if reads.table & changed:
                    self._ask(k, plugin, table.all_nodes())
                    everywhere = True
                elif reads.row & changed and len(rows):
                    self._ask(k, plugin, picked)
            self._fold(slice(0, table.row_count) if everywhere else rows)
            self._all_fits_changed |= everywhere
        self._position = position

    def refresh_scores(self) -> None:
        """Bring `total` up to date; after `refresh`, with at least one row that fits."""
        table = self._cluster.nodes
        if not self.scored:
            self._pre_score()
        if self._score_position == self._position:
            return
        active = [score for score in self.scores if score.plugin.name not in self.state.skip_score]
        changes = None
        if self._score_position >= 0:
            changes = _merge(table.journal.since(self._score_position), table.row_count)
        whole: RowIndex = slice(0, table.row_count)
        if changes is None:
            self.total = np.zeros(self._capacity, dtype=np.int64)
            for score in active:
                score.allocate(self._capacity)
                self._ask_score(score, table.all_nodes())
            touched, every_raw_changed = whole, True
        else:
            rows, changed = changes
            touched, every_raw_changed = whole if self._all_fits_changed else rows, False
            for score in active:
                reads = _reads(score.plugin.score_reads)
                if reads.table & changed:
                    self._ask_score(score, table.all_nodes())
                    touched, every_raw_changed = whole, True
                elif reads.row & changed and len(rows):
                    self._ask_score(score, NodeSet(table, rows))
        self._all_fits_changed = False
        self._normalize(active, touched, every_raw_changed)
        self._score_position = self._position

    # -- filters

    def _active_filters(self) -> list[Plugin]:
        return [plugin for plugin in self.filters if plugin.name not in self.state.skip_filter]

    def _ask(self, k: int, plugin: Plugin, nodes: NodeSet) -> None:
        answer = call(plugin, "Filter", plugin.filter_rows, self.state, self.state.pod_info.pod, nodes)
        self.verdicts[k, nodes.index] = self.encode(plugin, answer)

    def encode(self, plugin: Plugin, answer: Verdicts | Status | None) -> NDArray[np.int32] | int:
        """A plugin's verdicts in the codes of this evaluation's `statuses`."""
        if answer is None:
            return 0
        if isinstance(answer, Status):
            raise failure(plugin, f'running "{plugin.name}" filter plugin', answer)
        ids = [self.status_id(status.of(plugin.name) if status is not None else None) for status in answer.statuses]
        return np.array(ids, dtype=np.int32)[answer.why]

    def status_id(self, status: Status | None) -> int:
        found = self._status_ids.get(status)
        if found is None:
            found = self._status_ids[status] = len(self.statuses)
            self.statuses.append(status)
            self.has_errors |= status is not None and status.is_error
        return found

    def _fold(self, index: RowIndex) -> None:
        self.fits[index] = ~self.verdicts[:, index].any(axis=0)

    def rejected_by(self, names: Collection[str], row_count: int) -> Bools:
        """The rows that some filter of these names rejects."""
        rejected = np.zeros(row_count, dtype=np.bool_)
        for plugin, verdict in zip(self._active_filters(), self.verdicts, strict=True):
            if plugin.name in names:
                rejected |= verdict[:row_count] != 0
        return rejected

    def first_rejections(self, row_count: int) -> NDArray[np.int32]:
        """Per row the status id of the first plugin, in profile order, that rejects it; 0 where it fits."""
        codes = np.zeros(row_count, dtype=np.int32)
        for verdict in self.verdicts[::-1]:
            said = verdict[:row_count]
            np.copyto(codes, said, where=said != 0)
        return codes

    # -- scores

    def _pre_score(self) -> None:
        fitting = self._cluster.nodes.nodes_at(np.flatnonzero(self.fits[: self._cluster.nodes.row_count]))
        for score in self.scores:
            if score.runs_pre_score:
                run_pre_score(score.plugin, self.state, fitting)
        self.scored = True

    def _ask_score(self, score: Score, nodes: NodeSet) -> None:
        score.raw[nodes.index] = raw_scores(score.plugin, self.state, nodes)

    def _normalize(self, active: list[Score], touched: RowIndex, every_raw_changed: bool) -> None:
        row_count = self._cluster.nodes.row_count
        whole = slice(0, row_count)
        pod = self.state.pod_info.pod
        fits = self.fits[:row_count]
        for score in active:
            index = touched
            if score.normalizes:
                plugin: Any = score.plugin
                scale = plugin.score_scale(self.state, pod, score.raw[whole][fits])
                if scale != score.scale or every_raw_changed:
                    score.scale = scale
                    index = touched = whole
                score.normalized[index] = plugin.normalize_rows(self.state, pod, score.raw[index], scale)
            check_range(score.plugin, score.normalized[index][self.fits[index]])
        total: Any = 0
        for score in active:
            total = total + score.normalized[touched] * score.weight
        self.total[touched] = np.where(self.fits[touched], total, -1)


def run_pre_score(plugin: Plugin, state: CycleState, nodes: NodeSet) -> None:
    """Run one plugin's PreScore; raises PluginFailure."""
    status = call(plugin, "PreScore", plugin.pre_score, state, state.pod_info.pod, nodes)
    if status is None:
        return
    if status.is_skip:
        state.skip_score.add(plugin.name)
    else:
        raise failure(plugin, f'running PreScore plugin "{plugin.name}"', status)


def raw_scores(plugin: Any, state: CycleState, nodes: NodeSet) -> Ints:
    """The plugin's scores for the nodes of the set, vector or scalar; raises PluginFailure."""
    pod = state.pod_info.pod
    if hasattr(plugin, "score_rows"):
        scores = call(plugin, "Score", plugin.score_rows, state, pod, nodes)
        if isinstance(scores, Status):
            raise _score_failure(plugin, scores)
        return np.asarray(scores, dtype=np.int64)
    scores = np.zeros(len(nodes), dtype=np.int64)
    for position, node in enumerate(nodes.infos()):
        score = call(plugin, "Score", plugin.score, state, pod, node)
        if isinstance(score, Status):
            raise _score_failure(plugin, score)
        try:
            scores[position] = score
        except (TypeError, ValueError, OverflowError):
            raise _score_failure(plugin, Status.error(f"score of node {node.name} is {score!r}, want an int")) from None
    return scores


def normalized_scores(plugin: Any, state: CycleState, nodes: NodeSet, raw: Ints) -> Ints:
    """Scores in 0..100, from scratch; raises PluginFailure."""
    pod = state.pod_info.pod
    if hasattr(plugin, "normalize_rows"):
        scores: Ints = plugin.normalize_rows(state, pod, raw, plugin.score_scale(state, pod, raw))
    elif hasattr(plugin, "normalize_score"):
        answer = call(plugin, "NormalizeScore", plugin.normalize_score, state, pod, nodes, raw.copy())
        if isinstance(answer, Status):
            raise PluginFailure(
                Status.error(
                    f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {answer.message}'
                ).of(plugin.name)
            )
        scores = np.asarray(answer, dtype=np.int64)
    else:
        scores = raw
    check_range(plugin, scores)
    return scores


def check_range(plugin: Plugin, scores: Ints) -> None:
    if len(scores) and (scores.min() < 0 or scores.max() > MAX_NODE_SCORE):
        worst = int(scores.min() if scores.min() < 0 else scores.max())
        raise PluginFailure(
            Status.error(
                f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score '
                f"{worst}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            ).of(plugin.name)
        )


def _score_failure(plugin: Plugin, status: Status) -> PluginFailure:
    return PluginFailure(
        Status.error(f'running Score plugins: plugin "{plugin.name}" failed with: {status.message}').of(plugin.name)
    )


def _reads(reads: Reads | None) -> Reads:
    assert reads is not None, "only plugins that declare what they read are kept"
    return reads


def _merge(changes: list[tuple[int, int]] | None, row_count: int) -> tuple[NDArray[np.intp], int] | None:
    """Journal entries as (distinct rows, all aspects together); None when a fresh start is cheaper."""
    if changes is None:
        return None
    together = 0
    for _, aspects in changes:
        together |= aspects
    rows = sorted({row for row, _ in changes if row < row_count})
    if len(rows) > max(8, row_count * _PICK_SHARE_MAX):
        return None
    return np.array(rows, dtype=np.intp), together
