"""`Evaluation`: what the keepable plugins of a profile say of every node for one scheduling signature.

It holds, per Filter plugin and row, the verdict, and per Score plugin and row the normalised score, with their sums.
The first `refresh` asks the plugins about all rows; later ones only about rows that the journal names, and only the
plugins that read what changed there. Plugins that read the whole table are asked about all rows, PreFilter or PreScore
first, and then only rows whose answer is another than before count as changed. The outcome is exactly that of asking
about everything again: a property test holds the two against each other, and `kept` results differ from fresh ones in
nothing but time.

    verdicts[k][row]    0 where filter k lets the row pass, else an index into `statuses`; None while it is skipped or
                        lets every row pass
    fits[row]           True where every filter does
    normalized[k][row]  0..100 of score k; meaningless where the row does not fit, 0 while the plugin is skipped
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
from kubesched.framework.runtime.calling import (
    checked_verdicts,
    failure,
    raised,
)
from kubesched.framework.runtime.metering import Meter, call_in
from kubesched.framework.runtime.score_calls import check_range, normalize_failure, raw_scores, run_pre_score
from kubesched.framework.status import LASTING_SKIP, Status
from kubesched.state.cluster_state import ClusterState
from kubesched.state.journal import Journal
from kubesched.state.node_table import Bools, Ints, NodeSet, RowIndex
from kubesched.state.pod_info import PodInfo

#: Above this share of changed rows, asking about all of them is cheaper than picking.
_PICK_SHARE_MAX = 0.25
_NO_SCORES: Ints = np.empty(0, dtype=np.int64)
#: Up to so many journal entries a Python set is faster than NumPy.
_PYTHON_MERGE_MAX = 24


class Score:
    """One Score plugin's part of an evaluation."""

    __slots__ = (
        "counts",
        "normalized",
        "normalizes",
        "plugin",
        "raw",
        "reads",
        "runs_pre_score",
        "scale",
        "skips_for_good",
        "weight",
    )

    def __init__(self, plugin: Plugin, weight: int, *, runs_pre_score: bool) -> None:
        self.plugin = plugin
        self.weight = weight
        self.runs_pre_score = runs_pre_score
        self.normalizes = hasattr(plugin, "normalize_rows")
        reads = _reads(plugin.score_reads)
        #: The aspects of nodes that its answers depend on, in whatever way.
        self.reads = reads.row | reads.table
        self.scale: Hashable = None
        #: Its scores are in the sums; not so while PreScore says Skip.
        self.counts = False
        #: PreScore said Skip, and will as long as the pod's signature stands.
        self.skips_for_good = False
        self.raw: Ints = _NO_SCORES
        #: The same array as `raw` for plugins that do not normalise.
        self.normalized: Ints = _NO_SCORES

    def allocate(self, capacity: int) -> None:
        self.raw = np.zeros(capacity, dtype=np.int64)
        self.normalized = np.zeros(capacity, dtype=np.int64) if self.normalizes else self.raw

    def forget(self) -> None:
        """Back to not counting, with no arrays."""
        self.counts = False
        self.scale = None
        self.raw = self.normalized = _NO_SCORES


class Evaluation:
    def __init__(
        self,
        pod_info: PodInfo,
        gates: Sequence[Plugin],
        filters: Sequence[Plugin],
        scores: Sequence[Score],
        state: ClusterState,
        meter: Meter,
    ) -> None:
        self._cluster = state
        self._meter = meter
        #: What PreFilter and PreScore of these plugins left behind; every attempt starts with a copy.
        self.state = CycleState(pod_info)
        #: Answers of PreFilter by plugin name.
        self.pre_filter: dict[str, PreFilterResult | Status | None] = {}
        self.filters: list[Plugin] = list(filters)
        #: The plugins whose PreFilter answers are kept.
        self.pre_filter_names = {plugin.name for plugin in (*gates, *filters)}
        self.scores: list[Score] = list(scores)
        #: Some plugin answered with an ERROR about single nodes.
        self.has_errors = False

        self.statuses: list[Status | None] = [None]
        self._status_ids: dict[Status | None, int] = {None: 0}
        self.verdicts: list[NDArray[np.int32] | None] = []
        self.fits: Bools = np.empty(0, dtype=np.bool_)
        self.total: Ints = np.empty(0, dtype=np.int64)
        self._sums: Ints = np.empty(0, dtype=np.int64)
        #: Per filter whether its row of `verdicts` holds answers; not so while PreFilter says Skip.
        self._answered: list[bool] = []
        self._capacity = -1
        self._position = -1
        self._score_position = -1
        self._changes: _Changes | None = None
        #: Changes since `_position` as of a position of the journal: (as of, since, changes).
        self._pending: tuple[int, int, _Changes | None] | None = None
        #: What `refresh` did to `fits` since scores were last brought up to date: whether any changed, and where it
        #: looked besides the rows of the journal (None: everywhere).
        self._fits_changed = True
        self._refolded: list[NDArray[np.intp]] | None = None
        self._scored_row_count = -1
        kinds = {kind for plugin in (*gates, *filters) for kind in _reads(plugin.filter_reads).objects}
        kinds |= {kind for score in self.scores for kind in _reads(score.plugin.score_reads).objects}
        self._objects = tuple(kinds)
        self._objects_version = state.objects.version(*self._objects)
        self._objects_seen = state.objects.change_count
        self._table_filters = [plugin for plugin in (*gates, *filters) if _reads(plugin.filter_reads).table]
        #: Set by `KeptEvaluations`: the signature, and the versions that it was made at.
        self.signature: Hashable = ()
        self.signed_at: tuple[Hashable, ...] = ()
        #: What all PreFilter plugins together said, kept by `Filtering` while no answer changes.
        self.outcome: Any = None
        #: Grows whenever a plugin may have written to `state`.
        self._state_version = 0

    # -- staying true

    @property
    def outdated(self) -> bool:
        """An object changed that PreFilter or PreScore may have read: nothing here can be kept."""
        objects = self._cluster.objects
        if self._objects_seen == objects.change_count:
            return False
        if self._objects_version != objects.version(*self._objects):
            return True
        self._objects_seen = objects.change_count
        return False

    @property
    def size_bytes(self) -> int:
        """What the arrays take."""
        scores = sum(score.raw.nbytes * (2 if score.normalizes else 1) for score in self.scores)
        verdicts = sum(verdict.nbytes for verdict in self.verdicts if verdict is not None)
        return verdicts + self.fits.nbytes + self.total.nbytes + self._sums.nbytes + scores

    def begin(self, pod_info: PodInfo, plugin_meter: Meter | None = None) -> CycleState:
        """The cycle state of a new attempt for a pod of this signature."""
        self.state.plugin_meter = plugin_meter
        state = self.state.clone(pod_info)
        state.absorbed_version = self._state_version
        return state

    def share_with(self, state: CycleState) -> None:
        """Bring the state of an attempt up to date with what plugins wrote here since it began."""
        if state.absorbed_version != self._state_version:
            state.absorb(self.state)
            state.absorbed_version = self._state_version

    def wants_pre_filter(self, plugin: Plugin) -> bool:
        """Whether PreFilter must be asked: for the first time, or because nodes changed in what it reads of all."""
        if plugin.name not in self.pre_filter:
            return True
        table = _reads(plugin.filter_reads).table
        if not table or self._cluster.nodes.journal.position == self._position:
            return False
        if self.pre_filter[plugin.name] is LASTING_SKIP:
            return False
        changes = self._changes_since_refresh()
        return changes is None or bool(table & changes.aspects)

    def without(self, filters: Sequence[Plugin]) -> list[Plugin]:
        """Those of a profile's filters that are not part of this evaluation."""
        if len(filters) == len(self.filters):
            return []
        return [plugin for plugin in filters if plugin not in self.filters]

    def pre_filter_stands(self) -> bool:
        """Whether no PreFilter plugin that was asked need be asked again."""
        return not any(map(self.wants_pre_filter, self._table_filters))

    def set_pre_filter(self, name: str, answer: PreFilterResult | Status | None) -> None:
        self.pre_filter[name] = answer
        self._state_version += 1
        if isinstance(answer, Status) and answer.is_skip:
            self.state.skip_filter.add(name)
        else:
            self.state.skip_filter.discard(name)

    def refresh(self) -> None:
        """Bring verdicts and `fits` up to date with the table; PreFilter has been asked where it must."""
        table = self._cluster.nodes
        position = table.journal.position
        if position == self._position:
            return
        capacity = len(table.pod_count)
        changes = self._changes_since_refresh() if capacity == self._capacity else None
        if changes is None:
            self._start_filters(capacity)
        else:
            self._follow_filters(changes)
        self._changes = changes
        self._position = position

    def refresh_scores(self) -> None:
        """Bring `total` up to date; after `refresh`, with at least one row that fits."""
        table = self._cluster.nodes
        if self._score_position == self._position:
            return
        changes = self._changes
        if changes is None or changes.since != self._score_position:
            changes = (
                _merge(table.journal, self._score_position, table.row_count) if self._score_position >= 0 else None
            )
        rescale = self._fits_changed or self._scored_row_count != table.row_count
        touched: list[RowIndex] = [slice(0, table.row_count)]
        if changes is None:
            self.total = np.zeros(self._capacity, dtype=np.int64)
            self._sums = np.zeros(self._capacity, dtype=np.int64)
            for score in self.scores:
                score.forget()
        elif self._refolded is not None:
            touched = [changes.rows, *self._refolded]
        fits_touched = _together(touched, table.row_count)
        fitting = _Fitting(table.all_nodes(), self.fits[: table.row_count])
        aspects = -1 if changes is None else changes.aspects
        for score in self.scores:
            if changes is not None and (score.skips_for_good or not (rescale or score.reads & aspects)):
                continue
            changed = self._follow_score(score, changes, fitting, rescale=rescale)
            if changed is not None:
                touched.append(changed)
            if rescale and score.counts:
                self._check(score, fits_touched)
        rows = _together(touched, table.row_count)
        self.total[rows] = np.where(self.fits[rows], self._sums[rows], -1)
        self._fits_changed, self._refolded = False, []
        self._scored_row_count = table.row_count
        self._score_position = self._position

    def _changes_since_refresh(self) -> _Changes | None:
        """The same object until the table changes again."""
        table = self._cluster.nodes
        position = table.journal.position
        if self._pending is None or self._pending[0] != position or self._pending[1] != self._position:
            changes = _merge(table.journal, self._position, table.row_count)
            self._pending = (position, self._position, changes)
        return self._pending[2]

    # -- filters

    def _start_filters(self, capacity: int) -> None:
        table = self._cluster.nodes
        self._capacity = capacity
        self.verdicts = [None] * len(self.filters)
        self.fits = np.zeros(capacity, dtype=np.bool_)
        self._answered = [plugin.name not in self.state.skip_filter for plugin in self.filters]
        for k, plugin in enumerate(self.filters):
            if self._answered[k]:
                self._answer(k, slice(0, table.row_count), self._ask(plugin, table.all_nodes()))
        self._fold(slice(0, table.row_count))
        self._fits_changed, self._refolded = True, None
        self._score_position = -1

    def _follow_filters(self, changes: _Changes) -> None:
        table = self._cluster.nodes
        picked = NodeSet(table, changes.rows)
        others: list[NDArray[np.intp]] = []
        for k, plugin in enumerate(self.filters):
            reads = _reads(plugin.filter_reads)
            skipped = plugin.name in self.state.skip_filter
            if skipped != (not self._answered[k]) or (not skipped and reads.table & changes.aspects):
                others.append(self._answer_everywhere(k, 0 if skipped else self._ask(plugin, table.all_nodes())))
                self._answered[k] = not skipped
            elif not skipped and reads.row & changes.aspects and len(picked):
                self._answer(k, changes.rows, self._ask(plugin, picked))
        self._fits_changed |= self._fold(changes.rows)
        for rows in others:
            if len(rows) > table.row_count * _PICK_SHARE_MAX:
                self._fits_changed |= self._fold(slice(0, table.row_count))
                self._refolded = None
            elif len(rows):
                self._fits_changed |= self._fold(rows)
                if self._refolded is not None:
                    self._refolded.append(rows)

    def _answer_everywhere(self, k: int, codes: NDArray[np.int32] | int) -> NDArray[np.intp]:
        """Take new verdicts for all rows; returns the rows where they are other than before."""
        whole = slice(0, self._cluster.nodes.row_count)
        verdict = self.verdicts[k]
        known = verdict[whole] if verdict is not None else np.zeros(whole.stop, dtype=np.int32)
        changed = np.flatnonzero(known != codes)
        if len(changed):
            self._answer(k, whole, codes)
        return changed

    def _answer(self, k: int, index: RowIndex, codes: NDArray[np.int32] | int) -> None:
        verdict = self.verdicts[k]
        if verdict is None:
            if isinstance(codes, int) or not codes.any():
                return
            verdict = self.verdicts[k] = np.zeros(self._capacity, dtype=np.int32)
        verdict[index] = codes

    def _ask(self, plugin: Plugin, nodes: NodeSet) -> NDArray[np.int32] | int:
        answer = call_in(self.state, plugin, "Filter", plugin.filter_rows, self.state.pod_info.pod, nodes)
        self._meter.evaluated("Filter", plugin.name, len(nodes))
        return self.encode(plugin, checked_verdicts(plugin, answer, len(nodes)))

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

    def _fold(self, index: RowIndex) -> bool:
        """Says whether that changed anything."""
        before = self.fits[index]
        after = np.ones(len(before), dtype=np.bool_)
        for verdict in self.verdicts:
            if verdict is not None:
                after &= verdict[index] == 0
        changed = bool((before != after).any())
        if changed:
            self.fits[index] = after
        return changed

    def rejected_by(self, names: Collection[str], row_count: int) -> Bools:
        """The rows that some filter of these names rejects."""
        rejected = np.zeros(row_count, dtype=np.bool_)
        for plugin, verdict in zip(self.filters, self.verdicts, strict=True):
            if verdict is not None and plugin.name in names:
                rejected |= verdict[:row_count] != 0
        return rejected

    def first_rejections(self, row_count: int) -> NDArray[np.int32]:
        """Per row the status id of the first plugin, in profile order, that rejects it; 0 where it fits."""
        codes = np.zeros(row_count, dtype=np.int32)
        for verdict in reversed(self.verdicts):
            if verdict is not None:
                said = verdict[:row_count]
                np.copyto(codes, said, where=said != 0)
        return codes

    # -- scores

    def _follow_score(
        self, score: Score, changes: _Changes | None, fitting: _Fitting, *, rescale: bool
    ) -> RowIndex | None:
        """Bring one plugin's scores and their share of the sums up to date; returns the rows where they changed."""
        table, name = self._cluster.nodes, score.plugin.name
        reads = _reads(score.plugin.score_reads)
        whole = slice(0, table.row_count)
        asked: RowIndex | None = None
        if changes is None or reads.table & changes.aspects or (reads.feasible and rescale):
            asked = whole
            if score.runs_pre_score:
                self.state.skip_score.discard(name)
                self._state_version += 1
                status = run_pre_score(score.plugin, self.state, fitting.nodes, self._meter)
                score.skips_for_good = status is LASTING_SKIP
        elif reads.row & changes.aspects and len(changes.rows):
            asked = changes.rows
        if name in self.state.skip_score:
            if not score.counts:
                return None
            self._put(score, whole, np.zeros(table.row_count, dtype=np.int64))
            score.forget()
            return whole
        if not score.counts:
            score.allocate(self._capacity)
            score.counts, asked = True, whole
        if asked is not None:
            raw = raw_scores(score.plugin, self.state, NodeSet(table, asked), self._meter)
            if not score.normalizes:
                self._put(score, asked, raw)
                self._check(score, asked)
                return asked
            if isinstance(asked, slice) and score.scale is not None:
                asked = _differing(score.raw[asked], raw, self._scored_row_count)
                score.raw[whole] = raw
            else:
                score.raw[asked] = raw
        if not score.normalizes or (asked is None and not rescale):
            return None
        plugin: Any = score.plugin
        pod = self.state.pod_info.pod
        try:
            scale = plugin.score_scale(self.state, pod, fitting.of(score.raw))
            if scale != score.scale:
                score.scale, asked = scale, whole
            if asked is not None:
                self._put(score, asked, plugin.normalize_rows(self.state, pod, score.raw[asked], scale))
        except Exception as error:
            raise normalize_failure(plugin, raised(plugin, "NormalizeScore", error)) from error
        self._check(score, asked)
        return asked

    def _put(self, score: Score, index: RowIndex, normalized: Ints) -> RowIndex:
        """Take new normalised scores, and the difference to the old ones into the sums."""
        self._sums[index] += (normalized - score.normalized[index]) * score.weight
        score.normalized[index] = normalized
        return index

    def _check(self, score: Score, index: RowIndex | None) -> None:
        """Scores of rows that fit must be in range; what other rows have does not matter."""
        scores = score.normalized[index]
        # Seen as unsigned, a negative score is a huge one: one pass finds both.
        if scores.size and scores.view(np.uint64).max() > MAX_NODE_SCORE:
            check_range(score.plugin, scores[self.fits[index]])


def _reads(reads: Reads | None) -> Reads:
    assert reads is not None, "only plugins that declare what they read are kept"
    return reads


class _Fitting:
    """The rows that fit, for those who ask."""

    __slots__ = ("_fits", "_nodes", "_whole")

    def __init__(self, whole: NodeSet, fits: Bools) -> None:
        self._whole = whole
        self._fits: Bools | None = None if fits.all() else fits
        self._nodes: NodeSet | None = whole if self._fits is None else None

    @property
    def nodes(self) -> NodeSet:
        if self._nodes is None:
            assert self._fits is not None
            self._nodes = NodeSet(self._whole.table, np.flatnonzero(self._fits))
        return self._nodes

    def of(self, column: Ints) -> Ints:
        column = column[self._whole.index]
        return column if self._fits is None else column[self._fits]


def _differing(before: Ints, after: Ints, known_count: int) -> RowIndex | None:
    """Where two columns differ; all rows if that is about everywhere, None for nowhere. Rows from `known_count` on are
    new: what the arrays hold of them is nothing, or of another node under another scale."""
    differ = before != after
    differ[known_count:] = True
    rows = np.flatnonzero(differ)
    if len(rows) > len(after) * _PICK_SHARE_MAX:
        return slice(0, len(after))
    return rows if len(rows) else None


def _together(parts: list[RowIndex], row_count: int) -> RowIndex:
    """All rows of the parts, some perhaps twice; rows that are gone by now left out."""
    picked = []
    for part in parts:
        if isinstance(part, slice):
            return slice(0, row_count)
        if len(part):
            picked.append(part)
    if len(picked) == 1:
        rows = picked[0]
    else:
        rows = np.concatenate(picked) if picked else np.empty(0, dtype=np.intp)
    return rows[rows < row_count]


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
