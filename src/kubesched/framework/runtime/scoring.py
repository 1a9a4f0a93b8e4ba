"""PreScore, Score, normalise, weigh: how good each node is that fits, and which are best.

When every Score plugin is kept and the rows are the evaluation's own, the sums are at hand already. Otherwise scores
are put together for the rows in question: kept raw scores are picked, other plugins asked, and all normalised over
exactly these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.api.errors import KubeschedError
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.evaluation import Evaluation
from kubesched.framework.runtime.filtering import Fits
from kubesched.framework.runtime.metering import SUCCESS, Meter
from kubesched.framework.runtime.score_calls import normalized_scores, raw_scores, run_pre_score
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_table import Ints

T = TypeVar("T")


@dataclass(slots=True)
class PluginScores:
    """One plugin's scores, one entry per row asked about."""

    plugin: str
    raw: Ints
    normalized: Ints
    weight: int


class Scoring:
    def __init__(
        self,
        pre_scorers: Sequence[Plugin],
        scorers: Sequence[tuple[Plugin, int]],
        state: ClusterState,
        meter: Meter,
    ) -> None:
        self._pre_scorers = list(pre_scorers)
        self._scorers = list(scorers)
        names = {plugin.name for plugin, _ in scorers}
        self._pre_score_only = [plugin for plugin in pre_scorers if plugin.name not in names]
        self._cluster = state
        self._meter = meter

    def totals(self, state: CycleState, fits: Fits) -> Ints:
        """The weighted sums for `fits.rows`, in that order. Every plugin's PreScore runs for them."""
        return self._metered(self._totals, state, fits)

    def best(self, state: CycleState, fits: Fits) -> Sequence[int] | NDArray[np.intp]:
        """The rows that share the highest sum, in no order; good until the next change."""
        return self._metered(self._best, state, fits)

    def _best(self, state: CycleState, fits: Fits) -> Sequence[int] | NDArray[np.intp]:
        evaluation = fits.evaluation
        if evaluation is None or not self._keeps_all(evaluation):
            return best_rows(fits.rows, self._totals(state, fits))
        evaluation.refresh_scores()
        evaluation.share_with(state)
        return evaluation.scores.best()

    def _metered(self, score: Callable[[CycleState, Fits], T], state: CycleState, fits: Fits) -> T:
        meter = self._meter
        meter.pre_score_s = 0.0
        started_s = meter.now()
        try:
            answer = score(state, fits)
        except KubeschedError as error:
            meter.failed("Score", started_s, error)
            raise
        # PreScore runs in between scores, where something changed; its share is told apart.
        meter.took("PreScore", SUCCESS, meter.pre_score_s)
        meter.took("Score", SUCCESS, meter.now() - started_s - meter.pre_score_s)
        return answer

    def _totals(self, state: CycleState, fits: Fits) -> Ints:
        evaluation = fits.evaluation
        if evaluation is None:
            total = np.zeros(len(fits.rows), dtype=np.int64)
            for part in self.by_plugin(state, fits.rows):
                total += part.normalized * part.weight
            return total
        evaluation.refresh_scores()
        evaluation.share_with(state)
        total = evaluation.scores.total[fits.rows]
        if self._keeps_all(evaluation):
            return total
        kept = {score.plugin.name for score in evaluation.scores.scores}
        for part in self._ask(state, fits.rows, kept):
            total += part.normalized * part.weight
        return total

    def _keeps_all(self, evaluation: Evaluation) -> bool:
        return len(evaluation.scores.scores) == len(self._scorers) and not self._pre_score_only

    def by_plugin(self, state: CycleState, rows: NDArray[np.intp]) -> list[PluginScores]:
        """What each plugin that did not skip says about these rows, from scratch."""
        return self._ask(state, rows, frozenset())

    def _ask(self, state: CycleState, rows: NDArray[np.intp], but: Collection[str]) -> list[PluginScores]:
        nodes = self._cluster.nodes.nodes_at(rows)
        for plugin in self._pre_scorers:
            if plugin.name not in but:
                run_pre_score(plugin, state, nodes, self._meter)
        parts = []
        for plugin, weight in self._scorers:
            if plugin.name in but or plugin.name in state.skip_score:
                continue
            raw = raw_scores(plugin, state, nodes, self._meter)
            normalized = normalized_scores(plugin, state, nodes, raw)
            shown = plugin.shown_scores(raw) if hasattr(plugin, "shown_scores") else raw
            parts.append(PluginScores(plugin.name, shown, normalized, weight))
        return parts


def best_rows(rows: NDArray[np.intp], totals: Ints) -> NDArray[np.intp]:
    """The rows that share the highest total."""
    best: NDArray[np.intp] = rows[totals == totals.max()]
    return best
