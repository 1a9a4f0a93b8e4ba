"""`KeptVerdicts`: what the kept Filter plugins say of every row for one scheduling signature, and which rows fit.

    verdicts[k]       by row: 0 where filter k lets it pass, else an index into `statuses`; None while it is skipped or
                      lets every row pass
    fits[row]         True where every filter does

`start` asks about all rows, `follow` about those that changed; `adopt` takes over what a like evaluation knows already.
Arrays have the table's capacity; entries from `row_count` on mean nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.build import i64, u8
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Reads, Verdicts
from kubesched.framework.row_rules import RowJudge
from kubesched.framework.runtime.changes import FEW_ROWS, PICK_SHARE_MAX, Changes
from kubesched.framework.runtime.filter_calls import Judge, doubts, judge_of, judged, vector_verdicts
from kubesched.framework.runtime.metering import Meter
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.cells import Bytes, Codes, bytes_of, codes_of
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import Bools, NodeSet, RowIndex

if TYPE_CHECKING:
    from kubesched.build import vec

#: So many different statuses may be kept: some, and more for each node.
STATUSES_MIN = 1024
STATUSES_PER_ROW = 4


class _Plan(NamedTuple):
    """Who must be asked again after changes of some aspects: positions of filters."""

    of_rows: tuple[int, ...]
    of_all: tuple[int, ...]


class FilterRule:
    """What is known of a plugin before any pod comes."""

    __slots__ = ("can_judge", "name", "plugin", "row_reads", "table_reads")

    def __init__(self, plugin: Plugin) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.can_judge = hasattr(plugin, "judge")
        reads = reads_of(plugin.filter_reads)
        self.row_reads = reads.row | aspects.MEMBERSHIP
        self.table_reads = reads.table


class KeptVerdicts:
    def __init__(self, filters: Sequence[FilterRule], state: CycleState, cluster: ClusterState, meter: Meter) -> None:
        self.filters = filters
        self.statuses: list[Status | None] = [None]
        self.verdicts: list[Codes | None] = [None] * len(self.filters)
        self.fits: Bools = np.empty(0, dtype=np.bool_)
        #: The memory of `fits`, from when it is first needed.
        self._flags: Bytes | None = None
        #: How many rows fit.
        self.fit_count = 0
        #: Some plugin answered with an ERROR about single nodes.
        self.has_errors = False
        #: What happened to `fits` since `settle`: whether any changed, and where was looked besides the rows of the
        #: journal (None: everywhere).
        self.fits_changed = True
        self.refolded: list[NDArray[np.intp]] | None = None
        self.capacity = -1
        self._state = state
        self._cluster = cluster
        self._meter = meter
        self._status_ids: dict[Status | None, int] = {None: 0}
        self._status_count_at_start = 1
        #: Per filter whether its row of `verdicts` holds answers; not so while PreFilter says Skip.
        self._answered: list[bool] = []
        #: Taken over from another evaluation, and not followed since.
        self._is_adopted = False
        #: Filters of which nothing was taken over then.
        self._unasked: set[int] = set()
        self._plans: dict[int, _Plan] = {}
        #: By plugin name, made when they are first needed after PreFilter.
        self._judges: dict[str, Judge] = {}

    def start(self, capacity: int) -> None:
        """Ask every filter about every row."""
        table = self._cluster.nodes
        self.capacity = capacity
        self.statuses, self._status_ids, self.has_errors = [None], {None: 0}, False
        self.verdicts = [None] * len(self.filters)
        self.fits, self._flags, self.fit_count = np.zeros(capacity, dtype=np.bool_), None, 0
        self._is_adopted = False
        self._unasked.clear()
        self._answered = [rule.name not in self._state.skip_filter for rule in self.filters]
        for k in range(len(self.filters)):
            if self._answered[k]:
                self._answer(k, slice(0, table.row_count), self._ask(k, table.all_nodes()))
        self._status_count_at_start = len(self.statuses)
        self._fold(slice(0, table.row_count))
        self.fits_changed, self.refolded = True, None
        self._plans.clear()

    def adopt(self, other: KeptVerdicts, alike: Collection[str]) -> None:
        """Start from what `other` knows; plugins that are not named `alike` are asked about all rows yet."""
        self._is_adopted = True
        self.capacity = other.capacity
        self.statuses, self._status_ids = list(other.statuses), dict(other._status_ids)
        self._status_count_at_start = other._status_count_at_start
        places = {rule.name: k for k, rule in enumerate(other.filters)}
        self._answered = [False] * len(self.filters)
        for k, rule in enumerate(self.filters):
            theirs = places.get(rule.name, -1) if rule.name in alike else -1
            if theirs < 0:
                self._unasked.add(k)
                continue
            verdict = other.verdicts[theirs]
            if verdict is not None:
                self.verdicts[k] = codes_of(verdict.array)
            self._answered[k] = other._answered[theirs]

    @property
    def is_behind(self) -> bool:
        """`follow` has work to do even if no row has changed."""
        return self._is_adopted

    def follow(self, changes: Changes) -> None:
        plan = self._plans.get(changes.aspects)
        if plan is None:
            plan = self._plans[changes.aspects] = self._plan(changes.aspects)
        self._follow_rows(plan.of_rows, changes)
        if plan.of_all:
            self._follow_all(plan.of_all)
        if self._is_adopted:
            self._is_adopted = False
            self._unasked.clear()
            self._fold_anew()
            self.fits_changed, self.refolded = True, None
            self._plans.clear()
        if changes.aspects & aspects.MEMBERSHIP:
            self._count()

    @property
    def is_overgrown(self) -> bool:
        """Plugins word their rejections ever anew: it is time to `start` again and forget what nobody says any more."""
        more = len(self.statuses) - 2 * self._status_count_at_start
        return more > STATUSES_MIN + STATUSES_PER_ROW * self._cluster.nodes.row_count

    def pre_filter_asked(self, name: str, *, turned: bool) -> None:
        """The plugin's PreFilter may have left other data. `turned`: it skips now and did not, or the reverse."""
        self._judges.pop(name, None)
        if turned:
            self._plans.clear()

    def settle(self) -> None:
        """Scores have followed what happened to `fits`."""
        self.fits_changed, self.refolded = False, []

    @property
    def size_bytes(self) -> int:
        return self.fits.nbytes + sum(verdict.array.nbytes for verdict in self.verdicts if verdict is not None)

    def flags(self) -> vec[u8]:
        """`fits`, for loops."""
        flags = self._flags
        if flags is None:
            flags = self._flags = bytes_of(self.fits)
            self.fits = flags.flags
        return flags.cells

    # -- in the plugins' words

    def encode(self, plugin: Plugin, answer: Verdicts | None) -> NDArray[np.int32] | int:
        """A plugin's verdicts in the codes of these `statuses`."""
        if answer is None:
            return 0
        ids = [self.status_id(status.of(plugin.name) if status is not None else None) for status in answer.statuses]
        if answer.of_domain is not None and answer.domains is not None:
            return _translated(answer.of_domain, ids).take(answer.domains)
        return _translated(answer.why, ids)

    def status_id(self, status: Status | None) -> int:
        found = self._status_ids.get(status)
        if found is None:
            found = self._status_ids[status] = len(self.statuses)
            self.statuses.append(status)
            self.has_errors |= status is not None and status.is_error
        return found

    def rejected_by(self, names: Collection[str], row_count: int) -> Bools:
        """The rows that some filter of these names rejects."""
        rejected = np.zeros(row_count, dtype=np.bool_)
        for rule, verdict in zip(self.filters, self.verdicts, strict=True):
            if verdict is not None and rule.name in names:
                rejected |= verdict.array[:row_count] != 0
        return rejected

    def first_rejections(self, row_count: int) -> NDArray[np.int32]:
        """Per row the status id of the first plugin, in profile order, that rejects it; 0 where it fits."""
        codes = np.zeros(row_count, dtype=np.int32)
        for verdict in reversed(self.verdicts):
            if verdict is not None:
                said = verdict.array[:row_count]
                np.copyto(codes, said, where=said != 0)
        return codes

    # -- following

    def _plan(self, changed: int) -> _Plan:
        of_rows, of_all, skip_filter = [], [], self._state.skip_filter
        for k, rule in enumerate(self.filters):
            skipped = rule.name in skip_filter
            if k in self._unasked or skipped == self._answered[k] or (not skipped and rule.table_reads & changed):
                of_all.append(k)
            elif not skipped and rule.row_reads & changed:
                of_rows.append(k)
        return _Plan(tuple(of_rows), tuple(of_all))

    def _follow_rows(self, asked: tuple[int, ...], changes: Changes) -> None:
        if not len(changes.rows):
            return
        for k in asked:
            judge = self._judge_of(k)
            if changes.has_line and isinstance(judge, RowJudge):
                self._judge_line(k, judge, changes.line_of(self.filters[k].row_reads))
            elif judge is not None and changes.few is not None:
                self._judge_each(k, judge, changes.few)
            else:
                self._answer(k, changes.rows, self._ask(k, NodeSet(self._cluster.nodes, changes.rows)))
        if self._is_adopted:
            return
        if changes.has_line:
            self._fold_line(changes.line)
        else:
            self.fits_changed |= self._fold(changes.rows)

    def _judge_of(self, k: int) -> Judge | None:
        rule = self.filters[k]
        if not rule.can_judge:
            return None
        judge = self._judges.get(rule.name)
        if judge is None:
            judge = self._judges[rule.name] = judge_of(rule.plugin, self._state)
        return judge

    def _judge_line(self, k: int, judge: RowJudge, line: vec[i64]) -> None:
        rule = self.filters[k]
        sampled = self._state.plugin_meter
        started_s = sampled.now() if sampled is not None else 0.0
        doubtful = doubts(rule.plugin, judge, line)
        self._meter.evaluated("Filter", rule.name, len(line) - len(doubtful))
        column = self.verdicts[k]
        if column is not None:
            codes = column.cells
            for row in line:
                codes[row] = 0
        if sampled is not None:
            sampled.plugin_took(rule.name, "Filter", sampled.now() - started_s)
        if len(doubtful) > FEW_ROWS:
            rows = np.array(doubtful, dtype=np.intp)
            self._answer(k, rows, self._ask(k, NodeSet(self._cluster.nodes, rows)))
        elif doubtful:
            self._judge_each(k, judge, doubtful)

    def _judge_each(self, k: int, judge: Judge, rows: list[int]) -> None:
        rule, infos = self.filters[k], self._cluster.nodes.infos
        self._meter.evaluated("Filter", rule.name, len(rows))
        sampled = self._state.plugin_meter
        started_s = sampled.now() if sampled is not None else 0.0
        column = self.verdicts[k]
        for row in rows:
            status = judged(rule.plugin, judge, infos[row])
            if status is not None:
                if column is None:
                    column = self.verdicts[k] = Codes(self.capacity)
                column.cells[row] = self.status_id(status)
            elif column is not None:
                column.cells[row] = 0
        if sampled is not None:
            sampled.plugin_took(rule.name, "Filter", sampled.now() - started_s)

    def _fold_line(self, line: vec[i64]) -> None:
        """As `_fold`."""
        rejecting = [verdict for verdict in self.verdicts if verdict is not None]
        if not rejecting and self.fit_count == self._cluster.nodes.row_count:
            return
        fits = self.flags()
        count: i64 = 0
        for row in line:
            after: u8 = 1
            for verdict in rejecting:
                if verdict.cells[row]:
                    after = 0
                    break
            if fits[row] != after:
                fits[row] = after
                count += 1 if after else -1
                self.fits_changed = True
        self.fit_count += count

    def _follow_all(self, asked: tuple[int, ...]) -> None:
        """Ask about all rows; only those whose answer is another than before count as changed."""
        table = self._cluster.nodes
        for k in asked:
            skipped = self.filters[k].name in self._state.skip_filter
            rows = self._answer_everywhere(k, 0 if skipped else self._ask(k, table.all_nodes()))
            if skipped:
                # Nobody will ask about nodes to come, and their rows may have been somebody's before.
                self.verdicts[k] = None
            if self._answered[k] == skipped:
                self._answered[k] = not skipped
                self._plans.clear()
            if self._is_adopted:
                continue
            if len(rows) > table.row_count * PICK_SHARE_MAX:
                self.fits_changed |= self._fold(slice(0, table.row_count))
                self.refolded = None
            elif len(rows):
                self.fits_changed |= self._fold(rows)
                if self.refolded is not None:
                    self.refolded.append(rows)

    def _answer_everywhere(self, k: int, codes: NDArray[np.int32] | int) -> NDArray[np.intp]:
        """Take new verdicts for all rows; returns the rows where they are other than before."""
        whole = slice(0, self._cluster.nodes.row_count)
        verdict = self.verdicts[k]
        if verdict is None and isinstance(codes, int):
            return _NO_ROWS
        known = verdict.array[whole] if verdict is not None else np.zeros(whole.stop, dtype=np.int32)
        changed: NDArray[np.intp] = (known != codes).nonzero()[0]
        if len(changed):
            self._answer(k, whole, codes)
        return changed

    def _answer(self, k: int, index: RowIndex, codes: NDArray[np.int32] | int) -> None:
        verdict = self.verdicts[k]
        if verdict is None:
            if isinstance(codes, int) or not codes.any():
                return
            verdict = self.verdicts[k] = Codes(self.capacity)
        verdict.array[index] = codes

    def _ask(self, k: int, nodes: NodeSet) -> NDArray[np.int32] | int:
        plugin = self.filters[k].plugin
        return self.encode(plugin, vector_verdicts(plugin, self._state, nodes, self._meter))

    def _fold(self, index: RowIndex) -> bool:
        """Says whether that changed anything."""
        before = self.fits[index]
        after: Bools | None = None
        for verdict in self.verdicts:
            if verdict is not None:
                passes = np.logical_not(verdict.array[index])
                after = passes if after is None else np.logical_and(after, passes, out=after)
        if after is None:
            after = np.ones(len(before), dtype=np.bool_)
        changed = bool(np.count_nonzero(before != after))
        if changed:
            self.fits[index] = after
            self._count()
        return changed

    def _fold_anew(self) -> None:
        row_count = self._cluster.nodes.row_count
        fits: Bools = np.zeros(self.capacity, dtype=np.bool_)
        fits[:row_count] = True
        self.fits, self._flags, self.fit_count = fits, None, row_count
        rejecting = [verdict for verdict in self.verdicts if verdict is not None]
        if rejecting:
            for verdict in rejecting:
                fits &= verdict.array == 0
            self._count()

    def _count(self) -> None:
        self.fit_count = int(np.count_nonzero(self.fits[: self._cluster.nodes.row_count]))


def _translated(places: NDArray[np.integer[Any]], ids: list[int]) -> NDArray[np.int32]:
    """`ids` at these places, all in range, the first of them 0 (see `checked_verdicts`). Ids mostly follow one another
    from the second on; then adding is faster than looking up."""
    if len(places) > FEW_ROWS and len(ids) > 1 and ids[1:] == list(range(ids[1], ids[1] + len(ids) - 1)):
        translated: NDArray[np.int32] = (places > 0) * np.int32(ids[1] - 1)
        translated += places.astype(np.int32, copy=False)
        return translated
    return np.array(ids, dtype=np.int32).take(places)


_NO_ROWS: NDArray[np.intp] = np.empty(0, dtype=np.intp)


def reads_of(reads: Reads | None) -> Reads:
    assert reads is not None, "only plugins that declare what they read are kept"
    return reads
