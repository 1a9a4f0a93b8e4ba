"""`KeptScores`: what the kept Score plugins say of every row for one scheduling signature, and the weighted sums.

    normalized[row]  per plugin 0..100; meaningless where the row does not fit, 0 while the plugin is skipped
    total[row]       weighted sum; far below 0 where the row does not fit

A plugin's scores are asked for where what it reads has changed. The scale that brings raw scores into 0..100 depends on
which rows fit: where that changed it is computed again, and all rows are normalised again if it is another.
Arrays have the table's capacity; entries from `row_count` on mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from kubesched.build import i64, u8
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import MAX_NODE_SCORE, ScoreColumn
from kubesched.framework.row_rules import RowRate
from kubesched.framework.runtime.changes import FEW_ROWS, PICK_SHARE_MAX, Changes, rows_together
from kubesched.framework.runtime.fitting import Fitting
from kubesched.framework.runtime.kept_verdicts import KeptVerdicts
from kubesched.framework.runtime.leaders import Leaders
from kubesched.framework.runtime.metering import Meter
from kubesched.framework.runtime.score_calls import (
    Rate,
    check_range,
    is_same_scale,
    normalized_rows,
    rate_line,
    rate_of,
    rated,
    raw_column,
    run_pre_score,
    scale_of,
)
from kubesched.framework.runtime.score_part import NO_SCORES, Score
from kubesched.framework.status import LASTING_SKIP
from kubesched.state import aspects
from kubesched.state.cells import Bytes, Cells, Room, cells_of
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import Ints, NodeSet, RowIndex

if TYPE_CHECKING:
    from kubesched.build import vec


class KeptScores:
    def __init__(
        self,
        scores: Callable[[], list[Score]],
        verdicts: KeptVerdicts,
        state: CycleState,
        cluster: ClusterState,
        meter: Meter,
        room: Room,
    ) -> None:
        self._make_scores = scores
        self._scores: list[Score] | None = None
        self.total: Ints = NO_SCORES
        self._verdicts = verdicts
        self._state = state
        self._cluster = cluster
        self._meter = meter
        self._room = room
        #: The totals are another's as well, as the arrays of a score may be.
        self._shares_total = False
        #: Their memory, from when it is first needed.
        self._memory: Cells | None = None
        #: The rows that are put down by `_FAR`; None while none is.
        self._misses: Bytes | None = None
        #: Some score of theirs is so large that they would seem to fit all the same.
        self._misleads = False
        #: What scores that are shared with others add up to, and whose they are; None once one is another.
        self._common: Ints | None = None
        self._common_to: Collection[str] = ()
        self._row_count = -1
        #: Made once the totals of single rows change one after the other; None while all may have changed.
        self._leaders: Leaders | None = None
        self._changes_are_few = False
        #: The rows that fit, as of the last full `follow`; made anew when others may fit.
        self._fitting: Fitting | None = None

    @property
    def scores(self) -> list[Score]:
        """Made when they are first needed: where one node fits, nobody scores."""
        if self._scores is None:
            self._scores = self._make_scores()
        return self._scores

    def adopt(self, other: KeptScores, alike: Collection[str]) -> None:
        """Start from what `other` knows of the plugins that are named `alike`."""
        theirs = {score.name: score for score in other.scores}
        self.total = self._common = other._sum_of(alike)
        self._common_to, self._shares_total = alike, True
        self._memory = self._misses = None
        self._row_count = other._row_count
        for score in self.scores:
            known = theirs.get(score.name) if score.name in alike else None
            if known is not None and known.skips_for_good:
                score.skips_for_good = True
                self._state.skip_score.add(score.name)
            elif known is not None and known.counts:
                score.adopt(known)

    def _sum_of(self, alike: Collection[str]) -> Ints:
        """Of scores that are shared with another from now on; to be read only."""
        common = self._common
        if common is None or alike is not self._common_to:
            common = np.zeros(len(self.total), dtype=np.int64)
            for score in self.scores:
                if score.counts and score.name in alike:
                    common += np.multiply(score.normalized, score.weight, dtype=np.int64)
            self._common, self._common_to = common, alike
        return common

    def pre_filter_asked(self, name: str) -> None:
        """The plugin's PreFilter may have left other data, which its rule for one node was made of."""
        for score in self._scores or ():
            if score.name == name:
                score.rate = None

    def best(self) -> Sequence[int] | NDArray[np.intp]:
        """The rows that share the highest total, in no order; good until the next change."""
        total = self.total[: self._row_count]
        if self._misleads and self._misses is not None:
            # What plugins say of rows that do not fit may be anything.
            total = np.where(self._verdicts.fits[: self._row_count], total, -1)
            return _highest(total)
        if self._leaders is None:
            if not self._changes_are_few:
                return _highest(total)
            self._leaders = Leaders(total, len(self.total))
        return self._leaders.best(total)

    def follow(self, changes: Changes | None) -> bool:
        """Bring `total` up to date, with at least one row that fits; None starts anew. Says whether PreScore ran."""
        table, verdicts = self._cluster.nodes, self._verdicts
        # A row that stands for another node now may fit as the one before did: it is other nodes that fit all the same.
        rescale = verdicts.fits_changed or changes is None or bool(changes.aspects & aspects.MEMBERSHIP)
        self._changes_are_few = False
        if changes is not None and not rescale and self._follow_few(changes):
            self._changes_are_few = len(changes.rows) <= FEW_ROWS
            return False
        pre_scored = False
        touched: list[RowIndex] = [slice(0, table.row_count)]
        if changes is None:
            self.total = np.zeros(verdicts.capacity, dtype=np.int64)
            self._memory = self._misses = self._common = None
            self._shares_total = self._misleads = False
            for score in self.scores:
                score.forget()
        elif verdicts.refolded is not None:
            touched = [changes.rows, *(rows[rows < table.row_count] for rows in verdicts.refolded)]
        fits_touched = list(touched)
        fitting = self._fitting
        if fitting is None or rescale:
            fitting = self._fitting = Fitting(table.all_nodes(), verdicts)
        for score in self.scores:
            if changes is not None and not self._is_concerned(score, changes.aspects, rescale=rescale):
                continue
            asked = self._rows_to_ask(score, changes, rescale=rescale)
            if score.runs_pre_score and (isinstance(asked, slice) or score.is_adopted):
                self._pre_score(score, fitting)
                pre_scored = True
            if changes is None or asked is not changes.rows or not self._rates(score, changes, rescale=rescale):
                changed = self._follow_score(score, asked, fitting, rescale=rescale)
                if changed is not None and changed is not touched[0]:
                    touched.append(changed)
            if rescale and score.has_misfits:
                rows = rows_together(fits_touched, table.row_count)
                self._check(score, rows, score.normalized[rows])
        by_line = changes is not None and changes.has_line and not self._misleads
        if changes is not None and by_line and len(touched) == 1 and touched[0] is changes.rows:
            self._settle_line(changes.line)
        else:
            self._settle_rows(rows_together(touched, table.row_count))
        verdicts.settle()
        self._row_count = table.row_count
        return pre_scored

    @property
    def size_bytes(self) -> int:
        leaders = self._leaders.size_bytes if self._leaders is not None else 0
        misses = self._misses.array.nbytes if self._misses is not None else 0
        fitting = self._fitting.size_bytes if self._fitting is not None else 0
        return self.total.nbytes + misses + leaders + fitting + sum([score.size_bytes for score in self.scores])

    def _is_concerned(self, score: Score, changed: int, *, rescale: bool) -> bool:
        if score.skips_for_good:
            return False
        if score.reads & changed or score.is_adopted:
            return True
        return rescale and (score.normalizes or score.reads_feasible or score.has_misfits or not score.counts)

    def _follow_few(self, changes: Changes) -> bool:
        """One row after the other, where that is all there is to do; False leaves it to others, with nothing spoilt."""
        verdicts = self._verdicts
        if not changes.has_line or verdicts.refolded or verdicts.refolded is None or self._misleads:
            return False
        concerned = []
        for score in self.scores:
            if score.reads & changes.aspects and not self._stays_skipped(score, changes.aspects):
                if score.table_reads & changes.aspects or not (score.counts and score.can_rate):
                    return False
                concerned.append(score)
        for score in concerned:
            if not self._rate(score, changes):
                return False
        self._settle_line(changes.line)
        return True

    def _settle_line(self, line: vec[i64]) -> None:
        """Totals of rows whose scores changed, or whether they fit."""
        verdicts, row_count = self._verdicts, self._cluster.nodes.row_count
        if self._misses is not None or verdicts.fit_count != row_count:
            total, misses, fits = self._total_cells(), self._misses_cells(), verdicts.flags()
            far: i64 = _FAR
            for row in line:
                if fits[row] == misses[row]:
                    total[row] += far if fits[row] else -far
                    misses[row] = 0 if fits[row] else 1
        if len(line) > FEW_ROWS or self._row_count != row_count:
            self._leaders = None
        leaders = self._leaders
        if leaders is not None:
            total = self._total_cells()
            for row in line:
                leaders.note(row, total[row])

    def _settle_rows(self, rows: RowIndex) -> None:
        self._leaders = None
        if self._misses is None and self._verdicts.fit_count == self._cluster.nodes.row_count:
            return
        self._own_total()
        self._misses_cells()
        assert self._misses is not None
        misses = self._misses.flags
        after, before = ~self._verdicts.fits[rows], misses[rows]
        if (after != before).any():
            self.total[rows] += (before.astype(np.int64) - after) * _FAR
            misses[rows] = after

    def _total_cells(self) -> vec[i64]:
        """The totals, for loops that change them."""
        memory = self._memory
        if memory is None:
            memory = self._memory = cells_of(self.total)
            self.total, self._shares_total = memory.array, False
        return memory.cells

    def _misses_cells(self) -> vec[u8]:
        if self._misses is None:
            self._misses = Bytes(len(self.total))
        return self._misses.cells

    def _stays_skipped(self, score: Score, changed: int) -> bool:
        if score.skips_for_good:
            return True
        return not score.table_reads & changed and not score.counts and score.name in self._state.skip_score

    def _rate(self, score: Score, changes: Changes) -> bool:
        """Take the new scores of few rows, by the plugin's rule for one pod; False when more must be done than that."""
        rate = score.rate
        if rate is None:
            rate = score.rate = rate_of(score.plugin, self._state)
        if not isinstance(rate, RowRate):
            return changes.few is not None and self._rate_each(score, rate, changes.few)
        line = changes.line_of(score.row_reads)
        self._meter.evaluated("Score", score.name, len(line))
        sampled = self._state.plugin_meter
        started_s = sampled.now() if sampled is not None else 0.0
        points = self._room.of(len(line)).cells
        rate_line(score.plugin, rate, line, points)
        if sampled is not None:
            sampled.plugin_took(score.name, "Score", sampled.now() - started_s)
        self._before_change(score)
        raw, total = score.memory(), self._total_cells()
        weight: i64 = score.weight
        bound: i64 = -1 if score.normalizes else MAX_NODE_SCORE
        for place in range(len(line)):
            row, after = line[place], points[place]
            before = raw[row]
            if after != before:
                # Of numbers out of range the differences may be beyond 64 bits.
                if not (0 <= after <= bound and 0 <= before <= bound):
                    return False
                total[row] += (after - before) * weight
                raw[row] = after
        return True

    def _rate_each(self, score: Score, rate: Rate, rows: list[int]) -> bool:
        self._meter.evaluated("Score", score.name, len(rows))
        sampled = self._state.plugin_meter
        started_s = sampled.now() if sampled is not None else 0.0
        infos, raw = self._cluster.nodes.infos, score.raw
        for row in rows:
            points = rated(score.plugin, rate, infos[row])
            before = int(raw[row])
            if points == before:
                continue
            if score.normalizes or not (0 <= points <= MAX_NODE_SCORE and 0 <= before <= MAX_NODE_SCORE):
                return False
            self._before_change(score)
            score.memory()[row] = points
            raw = score.raw
            self._total_cells()[row] += (points - before) * score.weight
        if sampled is not None:
            sampled.plugin_took(score.name, "Score", sampled.now() - started_s)
        return True

    def _rates(self, score: Score, changes: Changes, *, rescale: bool) -> bool:
        """As `_rate`, if the plugin has such a rule and its scale cannot be another now."""
        if not changes.has_line or self._misleads or not score.can_rate or (score.normalizes and rescale):
            return False
        return self._rate(score, changes)

    def _rows_to_ask(self, score: Score, changes: Changes | None, *, rescale: bool) -> RowIndex | None:
        whole = slice(0, self._cluster.nodes.row_count)
        if changes is None or score.table_reads & changes.aspects or (score.reads_feasible and rescale):
            return whole
        if not score.counts:
            return None if score.name in self._state.skip_score else whole
        return changes.rows if score.row_reads & changes.aspects and len(changes.rows) else None

    def _pre_score(self, score: Score, fitting: Fitting) -> None:
        status = run_pre_score(score.plugin, self._state, fitting.nodes, self._meter)
        score.skips_for_good = status is LASTING_SKIP
        score.is_adopted, score.rate = False, None

    def _follow_score(
        self, score: Score, asked: RowIndex | None, fitting: Fitting, *, rescale: bool
    ) -> RowIndex | None:
        """Bring one plugin's scores and their share of the sums up to date; returns the rows where they changed."""
        table = self._cluster.nodes
        whole = slice(0, table.row_count)
        if score.name in self._state.skip_score:
            if not score.counts:
                return None
            # Also of rows that are nobody's now: they may be somebody's before the plugin is asked again.
            self._put(score, slice(0, self._verdicts.capacity), np.zeros(self._verdicts.capacity, dtype=np.uint8))
            score.forget()
            return whole
        is_first = not score.counts
        score.counts = True
        if is_first and score.name in self._common_to:
            self._common = None
        raw = None if asked is None else raw_column(score.plugin, self._state, NodeSet(table, asked), self._meter)
        if score.normalizes:
            if is_first:
                score.allocate(self._verdicts.capacity)
            return self._follow_scaled(score, asked, raw, fitting, rescale=rescale)
        if asked is None or raw is None:
            return None
        if is_first:
            score.begin(raw, self._verdicts.capacity)
            points = score.raw if score.weight == 1 else score.raw * score.weight
            if self._shares_total:
                self.total, self._shares_total = self.total + points, False
            else:
                self.total[whole] += points[whole]
        else:
            self._put(score, asked, raw)
        self._check(score, asked, raw)
        return asked

    def _follow_scaled(
        self, score: Score, asked: RowIndex | None, raw: ScoreColumn | None, fitting: Fitting, *, rescale: bool
    ) -> RowIndex | None:
        """As `_follow_score`, for a plugin that normalises: `raw` is its new scores for the rows asked about.

        Returns the rows whose normalised scores may have changed, None for none.
        """
        whole = slice(0, self._cluster.nodes.row_count)
        if raw is None and (not rescale or (fitting.is_whole and score.scaled_count == whole.stop)):
            return None
        asks_all = isinstance(asked, slice)
        if raw is None:
            column = score.raw[whole]
        elif asks_all:
            column = raw.astype(np.int64, copy=False)
            score.is_uniform = bool((raw == raw[0]).all())
        else:
            self._own(score)
            column = score.raw[whole]
            score.is_uniform &= bool((raw == column[0]).all())  # as it was: the first row may be among those asked
            score.raw[asked] = raw
        scale = scale_of(score.plugin, self._state, fitting.of(column, is_uniform=score.is_uniform))
        score.scaled_count = whole.stop if fitting.is_whole else -1
        if not is_same_scale(scale, score.scale):
            asked = whole
        elif asks_all and score.scale is not None:
            asked = _differing(score.raw[whole], column, self._row_count)
        score.scale = scale
        if asks_all:
            self._own(score)
            score.raw[whole] = column
        if asked is not None:
            normalized = normalized_rows(score.plugin, self._state, column[asked], scale)
            self._put(score, asked, normalized)
            self._check(score, asked, normalized)
        return asked

    def _put(self, score: Score, index: RowIndex, points: ScoreColumn) -> None:
        """Take new points of these rows, and their difference to the old ones into the totals.

        A slice starts at row 0.
        """
        known = score.normalized[index]
        differ = _differing(known, points)
        if differ is None:
            return
        self._own(score)
        self._own_total()
        if not isinstance(differ, slice):
            index = differ if isinstance(index, slice) else index[differ]
            known, points = known[differ], points[differ]
        change = np.subtract(points, known, out=self._room.of(len(known)).array[: len(known)], dtype=np.int64)
        if score.weight != 1:
            change *= score.weight
        self.total[index] += change
        if points.dtype.itemsize > score.normalized.dtype.itemsize:
            score.widen()
        score.normalized[index] = points

    def _own(self, score: Score) -> None:
        """Before its scores are changed."""
        self._before_change(score)
        score.own()

    def _before_change(self, score: Score) -> None:
        if score.shares:
            self._common = None

    def _own_total(self) -> None:
        if self._shares_total:
            self.total, self._shares_total = self.total.copy(), False

    def _check(self, score: Score, index: RowIndex, scores: ScoreColumn) -> None:
        """The new scores of rows that fit must be in range; what other rows have does not matter."""
        if not len(scores):
            return
        # Seen as unsigned, a negative score is a huge one: one pass finds both.
        unsigned = scores.view(np.uint64) if scores.dtype.itemsize == _WIDE else scores
        if unsigned[unsigned.argmax()] <= MAX_NODE_SCORE:
            return
        score.has_misfits = True
        self._misleads |= bool(scores.min() < -_HUGE or scores.max() > _HUGE)
        fits = self._verdicts.fits[index]
        if ((unsigned > MAX_NODE_SCORE) & fits).any():
            check_range(score.plugin, scores[fits])


#: Bytes of a number.
_WIDE: Final = 8
#: By so much the totals of rows that do not fit are lower: weights are 32 bits, and scores in range 7.
_FAR: Final = 1 << 60
#: Scores out of range that are no larger do not make up for that, whatever their weights.
_HUGE: Final = 1 << 24


def _highest(total: Ints) -> NDArray[np.intp]:
    """Where the highest is."""
    rows: NDArray[np.intp] = (total == total[total.argmax()]).nonzero()[0]
    return rows


def _differing(before: ScoreColumn, after: ScoreColumn, known_count: int | None = None) -> RowIndex | None:
    """Where two columns differ; all rows if that is about everywhere, None for nowhere. Rows from `known_count` on are
    new: what the arrays hold of them is nothing, or of another node under another scale."""
    differ = before != after
    if known_count is not None:
        differ[known_count:] = True
    count = np.count_nonzero(differ)
    if count > len(after) * PICK_SHARE_MAX:
        return slice(0, len(after))
    return np.flatnonzero(differ) if count else None
