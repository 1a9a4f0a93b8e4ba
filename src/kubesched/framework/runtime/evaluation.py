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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, PreFilterResult, Reads, Verdicts
from kubesched.framework.runtime.calling import PluginFailure, call, failure
from kubesched.framework.status import Status
from kubesched.state.cluster_state import ClusterState
from kubesched.state.journal import Journal
from kubesched.state.node_table import Bools, Ints, NodeSet, RowIndex
from kubesched.state.pod_info import PodInfo

#: Above this share of changed rows, asking about all of them is cheaper than picking.
_PICK_SHARE_MAX = 0.25
#: Up to so many journal entries a Python set is faster than NumPy.
_PYTHON_MERGE_MAX = 24


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
        self._changes: _Changes | None = None
        #: What `refresh` did to `fits` since scores were last brought up to date.
        self._fits_changed = self._all_fits_changed = True
        self._scored_row_count = -1
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
            changes = _merge(table.journal, self._position, table.row_count)
        if changes is None:
            self._capacity = capacity
            self.verdicts = np.zeros((len(active), capacity), dtype=np.int32)
            self.fits = np.zeros(capacity, dtype=np.bool_)
            for k, plugin in enumerate(active):
                self._ask(k, plugin, table.all_nodes())
            self._fold(slice(0, table.row_count))
            self._fits_changed = self._all_fits_changed = True
            self._score_position = -1
        else:
            everywhere = False
            picked = NodeSet(table, changes.rows)
            before = self.fits[changes.rows]
            for k, plugin in enumerate(active):
                reads = _reads(plugin.filter_reads)
                if reads.table & changes.aspects:
                    self._ask(k, plugin, table.all_nodes())
                    everywhere = True
                elif reads.row & changes.aspects and len(picked):
                    self._ask(k, plugin, picked)
            self._fold(slice(0, table.row_count) if everywhere else changes.rows)
            self._all_fits_changed |= everywhere
            self._fits_changed |= everywhere or bool((before != self.fits[changes.rows]).any())
        self._changes = changes
        self._position = position

    def refresh_scores(self) -> None:
        """Bring `total` up to date; after `refresh`, with at least one row that fits."""
        table = self._cluster.nodes
        if not self.scored:
            self._pre_score()
        if self._score_position == self._position:
            return
        active = [score for score in self.scores if score.plugin.name not in self.state.skip_score]
        changes = self._changes
        if changes is None or changes.since != self._score_position:
            changes = (
                _merge(table.journal, self._score_position, table.row_count) if self._score_position >= 0 else None
            )
        whole: RowIndex = slice(0, table.row_count)
        rows = whole if changes is None or self._all_fits_changed else changes.rows
        rescale = self._fits_changed or self._scored_row_count != table.row_count
        if changes is None:
            self.total = np.zeros(self._capacity, dtype=np.int64)
        for score in active:
            reads = _reads(score.plugin.score_reads)
            asked: RowIndex | None = None
            if changes is None:
                score.allocate(self._capacity)
                asked = whole
            elif reads.table & changes.aspects:
                asked = rows = whole
            elif reads.row & changes.aspects and len(changes.rows):
                asked = changes.rows
            if asked is not None:
                score.raw[asked] = raw_scores(score.plugin, self.state, NodeSet(table, asked))
            if score.normalizes:
                if (asked is not None or rescale) and self._normalize(score, asked):
                    rows = whole
            elif asked is not None or rescale:
                self._check(score, rows if rescale else asked)
        total: Any = 0
        for score in active:
            total = total + score.normalized[rows] * score.weight
        self.total[rows] = np.where(self.fits[rows], total, -1)
        self._fits_changed = self._all_fits_changed = False
        self._scored_row_count = table.row_count
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

    def _normalize(self, score: Score, asked: RowIndex | None) -> bool:
        """Bring `normalized` up to date after raw scores or `fits` changed; says whether it changed for all rows."""
        plugin: Any = score.plugin
        pod = self.state.pod_info.pod
        whole = slice(0, self._cluster.nodes.row_count)
        scale = plugin.score_scale(self.state, pod, score.raw[whole][self.fits[whole]])
        everywhere = scale != score.scale or isinstance(asked, slice)
        index = whole if everywhere else asked
        score.scale = scale
        if index is not None:
            score.normalized[index] = plugin.normalize_rows(self.state, pod, score.raw[index], scale)
            self._check(score, index)
        return everywhere

    def _check(self, score: Score, index: RowIndex | None) -> None:
        """Scores of rows that fit must be in range; what other rows have does not matter."""
        scores = score.normalized[index]
        if scores.size and (scores.min() < 0 or scores.max() > MAX_NODE_SCORE):
            check_range(score.plugin, scores[self.fits[index]])


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


class _Changes(NamedTuple):
    """What the journal says since a position: distinct rows, and all aspects together."""

    since: int
    rows: NDArray[np.intp]
    aspects: int


def _merge(journal: Journal, position: int, row_count: int) -> _Changes | None:
    """None when a fresh start is cheaper, or the only way."""
    noted = journal.since(position)
    if noted is None:
        return None
    rows, aspects = noted
    if len(rows) > _PYTHON_MERGE_MAX:
        distinct = np.unique(np.array(rows, dtype=np.intp))
        distinct = distinct[: np.searchsorted(distinct, row_count)]
    else:
        distinct = np.array(sorted({row for row in rows if row < row_count}), dtype=np.intp)
    if len(distinct) > max(8, row_count * _PICK_SHARE_MAX):
        return None
    together = 0
    for aspect in set(aspects):
        together |= aspect
    return _Changes(position, distinct, together)
