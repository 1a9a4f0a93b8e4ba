"""The search for candidates: the nodes on which the pod would fit without some less important pods.

Only nodes whose rejection was Unschedulable are worth a try; UnschedulableAndUnresolvable says that no pod's leaving
would help. They are tried from a random one on, in row order, until there are as many candidates as wanted, at least
one of them without a broken budget. What is known of a node from earlier searches is not tried again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kubesched.framework.cycle_state import CycleState
from kubesched.framework.results import NodeStatuses
from kubesched.framework.runtime.fresh_verdicts import FreshVerdicts
from kubesched.framework.status import Status
from kubesched.preemption.budgets import Budgets
from kubesched.preemption.candidate import Candidate
from kubesched.preemption.dry_run import dry_run
from kubesched.preemption.kept_outcomes import Outcome, Outcomes
from kubesched.preemption.lowest_priority import LowestPriorities
from kubesched.preemption.rules import Rules
from kubesched.state.node_table import NodeTable
from kubesched.state.pod_info import PodInfo

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")

#: A dry run of fewer nodes is hardly cheaper.
_CHUNK_MIN = 16


@dataclass(frozen=True, slots=True)
class Sought:
    """How many candidates are wanted, and which of the promising nodes is tried first."""

    count: int
    offset: int = 0


class Search:
    """`candidates` in the order in which they are preferred if all else is equal; `rejected` holds the nodes tried."""

    def __init__(
        self,
        verdicts: FreshVerdicts,
        rules: Rules,
        state: CycleState,
        table: NodeTable,
        budgets: Budgets,
        lowest: LowestPriorities,
        kept: Outcomes,
    ) -> None:
        self._verdicts = verdicts
        self._rules = rules
        self._state = state
        self._table = table
        self._budgets = budgets
        self._lowest = lowest
        self._kept = kept
        self._sparing: list[Candidate] = []
        self._breaking: list[Candidate] = []
        self._codes = np.zeros(table.row_count, dtype=np.int32)
        self._statuses: list[Status | None] = [None, NO_VICTIMS]
        self._status_ids: dict[Status, int] = {NO_VICTIMS: 1}

    def run(self, promising: NDArray[np.intp], sought: Sought) -> None:
        rows = np.roll(promising, -sought.offset)
        have_victims = self._lowest.below(self._state.pod_info.priority)[rows]
        self._codes[rows[~have_victims]] = 1
        rows = rows[have_victims]
        size, tried = sought.count, 0
        while tried < len(rows) and not self._try(rows[tried : tried + size], sought.count):
            tried += size
            size = self._next_chunk(tried, sought.count)

    def _next_chunk(self, tried: int, wanted: int) -> int:
        """As many nodes as should bring the missing candidates, going by those tried so far; at most twice those."""
        found = len(self._sparing) + len(self._breaking)
        missing = max(wanted - found, 1)
        if found == 0 or (not self._sparing and missing == 1):
            return 2 * tried
        return min(max(missing * tried // found * 9 // 8, _CHUNK_MIN), 2 * tried)

    @property
    def candidates(self) -> list[Candidate]:
        return self._sparing + self._breaking

    @property
    def rejected(self) -> NodeStatuses:
        return NodeStatuses(self._table, self._codes, self._statuses)

    def errors(self) -> list[str]:
        return [status.message for status in self._statuses if status is not None and status.is_error]

    def _try(self, rows: NDArray[np.intp], wanted: int) -> bool:
        """Whether there are enough candidates now."""
        numbers = rows.tolist()
        for row, outcome in zip(numbers, self._outcomes(numbers), strict=True):
            if isinstance(outcome, Status):
                self._codes[row] = self._status_id(outcome)
                continue
            found = self._breaking if outcome.violation_count else self._sparing
            if len(found) < wanted:
                found.append(outcome)
            if self._sparing and len(self._sparing) + len(self._breaking) >= wanted:
                return True
        return False

    def _outcomes(self, rows: list[int]) -> list[Outcome]:
        known = self._kept.known(rows)
        unknown = [row for row, outcome in zip(rows, known, strict=True) if outcome is None]
        if not unknown:
            return [outcome for outcome in known if outcome is not None]
        found = self._find_out(unknown)
        return [outcome or found[row] for row, outcome in zip(rows, known, strict=True)]

    def _find_out(self, rows: list[int]) -> dict[int, Outcome]:
        """By row what a dry run comes to; kept for later searches."""
        infos, preemptor = self._table.infos, self._state.pod_info
        outcomes: dict[int, Outcome] = {}
        potential: dict[int, list[PodInfo]] = {}
        for row in rows:
            if pods := self._rules.victims_on(infos[row], preemptor):
                potential[row] = pods
            else:
                outcomes[row] = NO_VICTIMS
        if potential:
            tried = np.fromiter(potential, dtype=np.intp)
            pods_of_each = list(potential.values())
            said = dry_run(self._verdicts, self._state, self._table, tried, pods_of_each, self._budgets)
            for row, outcome in zip(potential, said, strict=True):
                outcomes[row] = outcome
                self._kept.keep(row, outcome)
        return outcomes

    def _status_id(self, status: Status) -> int:
        found = self._status_ids.get(status)
        if found is None:
            found = self._status_ids[status] = len(self._statuses)
            self._statuses.append(status)
        return found
