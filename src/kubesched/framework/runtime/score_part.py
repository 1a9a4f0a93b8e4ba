"""`Score`: what one Score plugin says of every row for one scheduling signature, a part of `KeptScores`.

Its arrays may be those of an evaluation that is alike: whoever changes them first takes a copy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kubesched.build import i64
from kubesched.framework.plugin import Plugin, ScoreColumn
from kubesched.framework.runtime.kept_verdicts import reads_of
from kubesched.framework.runtime.score_calls import Rate
from kubesched.state import aspects
from kubesched.state.cells import Cells, cells_of
from kubesched.state.node_table import Ints

if TYPE_CHECKING:
    from kubesched.build import vec

NO_SCORES: Ints = np.empty(0, dtype=np.int64)


class ScoreRule:
    """What is known of a plugin's part before any pod comes."""

    __slots__ = (
        "can_rate",
        "name",
        "normalizes",
        "plugin",
        "reads",
        "reads_feasible",
        "row_reads",
        "runs_pre_score",
        "table_reads",
        "weight",
    )

    def __init__(self, plugin: Plugin, weight: int, *, runs_pre_score: bool) -> None:
        self.plugin = plugin
        self.name: str = plugin.name
        self.weight = weight
        self.runs_pre_score = runs_pre_score
        self.normalizes = hasattr(plugin, "normalize_rows")
        self.can_rate = hasattr(plugin, "rate")
        reads = reads_of(plugin.score_reads)
        self.row_reads = reads.row | aspects.MEMBERSHIP
        self.table_reads = reads.table
        self.reads_feasible = reads.feasible
        #: The aspects of nodes that its answers depend on, in whatever way.
        self.reads = self.row_reads | self.table_reads


class Score:
    """One plugin's part."""

    __slots__ = (
        "_memory",
        "can_rate",
        "counts",
        "has_misfits",
        "is_adopted",
        "is_uniform",
        "name",
        "normalized",
        "normalizes",
        "plugin",
        "rate",
        "raw",
        "reads",
        "reads_feasible",
        "row_reads",
        "runs_pre_score",
        "scale",
        "scaled_count",
        "shares",
        "skips_for_good",
        "table_reads",
        "weight",
    )

    def __init__(self, rule: ScoreRule) -> None:
        self.plugin, self.name, self.weight = rule.plugin, rule.name, rule.weight
        self.runs_pre_score, self.normalizes, self.can_rate = rule.runs_pre_score, rule.normalizes, rule.can_rate
        self.reads, self.row_reads, self.table_reads = rule.reads, rule.row_reads, rule.table_reads
        self.reads_feasible = rule.reads_feasible
        self.scale: Any = None
        #: How many rows there were when the scale was made, if all of them fitted; else -1.
        self.scaled_count = -1
        #: Its scores are in the sums; not so while PreScore says Skip.
        self.counts = False
        #: PreScore said Skip, and will as long as the pod's signature stands.
        self.skips_for_good = False
        #: Some rows are out of range, which does not matter until they fit.
        self.has_misfits = False
        #: All rows have the same raw score, so that it does not matter which of them fit.
        self.is_uniform = False
        #: Its scores are another evaluation's: PreScore has yet to run for this one.
        self.is_adopted = False
        self.raw: Ints = NO_SCORES
        #: The same array as `raw` for plugins that do not normalise; bytes while those that do answer with bytes.
        self.normalized: ScoreColumn = NO_SCORES
        #: The arrays are another evaluation's as well: whoever changes them first takes a copy.
        self.shares = False
        #: The memory of `raw`, from when it is first needed.
        self._memory: Cells | None = None
        #: The rule for one node, made when it is first needed after PreScore.
        self.rate: Rate | None = None

    def allocate(self, capacity: int) -> None:
        """For a plugin that normalises."""
        self.raw, self._memory = np.zeros(capacity, dtype=np.int64), None
        self.normalized = np.zeros(capacity, dtype=np.uint8)
        self.shares = False

    def begin(self, scores: ScoreColumn, capacity: int) -> None:
        """With the scores of all rows, for a plugin that does not normalise."""
        self.raw = self.normalized = np.empty(capacity, dtype=np.int64)
        self.raw[: len(scores)] = scores
        self.raw[len(scores) :] = 0
        self.shares, self._memory = False, None

    def adopt(self, other: Score) -> None:
        self.raw, self.normalized, self._memory = other.raw, other.normalized, None
        self.scale, self.scaled_count = other.scale, other.scaled_count
        self.shares = other.shares = True
        self.has_misfits, self.is_uniform = other.has_misfits, other.is_uniform
        self.counts, self.is_adopted = True, self.runs_pre_score

    def own(self) -> None:
        """Before the arrays are changed."""
        if self.shares:
            self.raw, self._memory = self.raw.copy(), None
            self.normalized = self.normalized.copy() if self.normalizes else self.raw
            self.shares = False

    def widen(self) -> None:
        """Before it holds normalised scores that are no bytes."""
        self.normalized = self.normalized.astype(np.int64)

    def memory(self) -> vec[i64]:
        """`raw`, for loops that change it."""
        memory = self._memory
        if memory is None or self.shares:
            memory = self._memory = cells_of(self.raw)
            self.raw = memory.array
            if not self.normalizes:
                self.normalized = self.raw
            elif self.shares:
                self.normalized = self.normalized.copy()
            self.shares = False
        return memory.cells

    def forget(self) -> None:
        """Back to not counting, with no arrays."""
        self.counts = self.has_misfits = self.is_uniform = self.shares = False
        self.scale, self.scaled_count = None, -1
        self.raw = self.normalized = NO_SCORES
        self._memory = None

    @property
    def size_bytes(self) -> int:
        """Arrays that are shared belong to nobody: there are few of them, however many share."""
        if self.shares:
            return 0
        return self.raw.nbytes + (self.normalized.nbytes if self.normalizes else 0)
