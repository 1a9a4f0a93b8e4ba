"""Asking Score plugins: PreScore, raw scores, normalised ones, and whether these are in range."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from kubesched.api.core import Pod
from kubesched.build import i64
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin, ScoreColumn
from kubesched.framework.row_rules import RowRate
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, PluginFailure, call, failure, raised, wrong_answer
from kubesched.framework.runtime.changes import FEW_ROWS
from kubesched.framework.runtime.metering import Meter, call_in
from kubesched.framework.status import Status
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet

if TYPE_CHECKING:
    from kubesched.build import vec

#: A Score plugin's rule for one pod, as a function of the node. It should answer with an int.
Rate: TypeAlias = Callable[[NodeInfo], Any]


def run_pre_score(plugin: Plugin, state: CycleState, nodes: NodeSet, meter: Meter) -> Status | None:
    """Run one plugin's PreScore: None or a Skip; raises PluginFailure. What it said before counts no more."""
    state.skip_score.discard(plugin.name)
    started_s = meter.now()
    status = call_in(state, plugin, "PreScore", plugin.pre_score, state.pod_info.pod, nodes)
    meter.pre_score_s += meter.now() - started_s
    if status is None:
        meter.evaluated("PreScore", plugin.name)
    elif status.is_skip:
        state.skip_score.add(plugin.name)
    else:
        raise failure(plugin, f'running PreScore plugin "{plugin.name}"', status)
    return status


def raw_scores(plugin: Any, state: CycleState, nodes: NodeSet, meter: Meter) -> Ints:
    """The plugin's scores for the nodes of the set, vector or scalar; raises PluginFailure."""
    return np.asarray(raw_column(plugin, state, nodes, meter), dtype=np.int64)


def raw_column(plugin: Any, state: CycleState, nodes: NodeSet, meter: Meter) -> ScoreColumn:
    """The same; bytes stay bytes."""
    meter.evaluated("Score", plugin.name, len(nodes))
    pod = state.pod_info.pod
    if hasattr(plugin, "score_rows"):
        few = len(nodes) <= FEW_ROWS and hasattr(plugin, "rate")
        scores = call_in(state, plugin, "Score", partial(_rate_each, plugin) if few else plugin.score_rows, pod, nodes)
        if isinstance(scores, Status):
            raise _score_failure(plugin, scores)
        try:
            return _column(scores, len(nodes))
        except _MISFITS as error:
            raise _score_failure(plugin, wrong_answer(plugin, "Score", f"scores are no column: {error}")) from None
    scores = np.zeros(len(nodes), dtype=np.int64)
    for position, node in enumerate(nodes.infos()):
        score = call_in(state, plugin, "Score", plugin.score, pod, node)
        if isinstance(score, Status):
            raise _score_failure(plugin, score)
        try:
            scores[position] = score
        except _MISFITS:
            raise _score_failure(plugin, Status.error(f"score of node {node.name} is {score!r}, want an int")) from None
    return scores


def rate_of(plugin: Plugin, state: CycleState) -> Rate:
    """Raises PluginFailure."""
    rate: Any = call(plugin, "Rate", plugin.rate, state, state.pod_info.pod)
    if isinstance(rate, Status):
        raise _score_failure(plugin, rate)
    return rate  # type: ignore[no-any-return]


def rated(plugin: Plugin, rate: Rate, node: NodeInfo) -> int:
    """The raw score of one node, as it would be in a column; raises PluginFailure."""
    try:
        points = rate(node)
    except PLUGIN_ERRORS as error:
        raise _score_failure(plugin, raised(plugin, "Score", error)) from error
    if type(points) is int:
        return points
    try:
        return int(_column([points], 1)[0])
    except _MISFITS as misfit:
        raise _score_failure(plugin, wrong_answer(plugin, "Score", f"the score is no number: {misfit}")) from None


def rate_line(plugin: Plugin, rate: RowRate, rows: vec[i64], points: vec[i64]) -> None:
    """Put the raw scores of these rows at their places in `points`; raises PluginFailure."""
    try:
        rate.rate_rows(rows[:], points)
    except PLUGIN_ERRORS as error:
        raise _score_failure(plugin, raised(plugin, "Score", error)) from error


def _rate_each(plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
    rate = plugin.rate(state, pod)
    return np.array([rate(node) for node in nodes.infos()], dtype=np.int64)


def normalized_scores(plugin: Any, state: CycleState, nodes: NodeSet, raw: Ints) -> Ints:
    """Scores in 0..100, from scratch; raises PluginFailure."""
    pod = state.pod_info.pod
    scores: ScoreColumn = raw
    if hasattr(plugin, "normalize_rows"):
        scores = normalized_rows(plugin, state, raw, scale_of(plugin, state, raw))
    elif hasattr(plugin, "normalize_score"):
        scores = _normalized(plugin, len(raw), plugin.normalize_score, state, pod, nodes, raw.copy())
    check_range(plugin, scores)
    return np.asarray(scores, dtype=np.int64)


def scale_of(plugin: Any, state: CycleState, raw: Ints) -> Any:
    """What brings scores into 0..100 where the nodes that fit have these raw ones; raises PluginFailure."""
    lent = raw.copy()  # it may keep it, to compare with what comes later
    lent.flags.writeable = False
    scale: Any = call(plugin, "NormalizeScore", plugin.score_scale, state, state.pod_info.pod, lent)
    if isinstance(scale, Status):
        raise normalize_failure(plugin, scale)
    return scale


def is_same_scale(one: Any, other: Any) -> bool:
    """False also where nobody can tell: a plugin's scale may be anything."""
    try:
        return bool(one == other)
    except PLUGIN_ERRORS:
        return False


def normalized_rows(plugin: Any, state: CycleState, raw: Ints, scale: Any) -> ScoreColumn:
    """Scores by this scale, whether or not they are in range, in bytes only if they are; raises PluginFailure."""
    scores = _normalized(plugin, len(raw), plugin.normalize_rows, state, state.pod_info.pod, raw.copy(), scale)
    if scores.dtype == _BYTE and len(scores) and scores[scores.argmax()] > MAX_NODE_SCORE:
        return scores.astype(np.int64)
    return scores


def _normalized(plugin: Any, node_count: int, method: Callable[..., Any], *args: Any) -> ScoreColumn:
    answer: Any = call(plugin, "NormalizeScore", method, *args)
    if isinstance(answer, Status):
        raise normalize_failure(plugin, answer)
    try:
        return _column(answer, node_count)
    except _MISFITS as error:
        status = wrong_answer(plugin, "NormalizeScore", f"scores are no column: {error}")
        raise normalize_failure(plugin, status) from None


def check_range(plugin: Plugin, scores: ScoreColumn) -> None:
    if len(scores) and (scores.min() < 0 or scores.max() > MAX_NODE_SCORE):
        worst = int(scores.min() if scores.min() < 0 else scores.max())
        raise PluginFailure(
            Status.error(
                f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score '
                f"{worst}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
            ).of(plugin.name)
        )


_BYTE: Final = np.dtype(np.uint8)
_MISFITS = (TypeError, ValueError, OverflowError)


def _score_failure(plugin: Plugin, status: Status) -> PluginFailure:
    return PluginFailure(
        Status.error(f'running Score plugins: plugin "{plugin.name}" failed with: {status.message}').of(plugin.name)
    )


def _column(scores: Any, node_count: int) -> ScoreColumn:
    """One of _MISFITS if that is what it is."""
    if type(scores) is np.ndarray and scores.dtype == _BYTE and scores.shape == (node_count,):
        return scores
    column: Ints = np.asarray(scores, dtype=np.int64)
    if column.shape != (node_count,):
        raise ValueError(f"want {node_count} of them, shape is {column.shape}")
    return column


def normalize_failure(plugin: Plugin, status: Status) -> PluginFailure:
    text = f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {status.message}'
    return PluginFailure(Status.error(text).of(plugin.name))
