"""Asking Filter plugins about nodes: all at once through columns, or a few one by one through `judge`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import index
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kubesched.api.core import Pod
from kubesched.build import i64
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.row_rules import RowJudge
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, PluginFailure, call, checked_verdicts, failure, raised
from kubesched.framework.runtime.changes import FEW_ROWS
from kubesched.framework.runtime.metering import Meter, call_in
from kubesched.framework.status import Status
from kubesched.state.aspects import ALL
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet

if TYPE_CHECKING:
    from kubesched.build import vec

#: A Filter plugin's rule for one pod, as a function of the node. It should answer with None or a Status.
Judge: TypeAlias = Callable[[NodeInfo], Any]


def vector_verdicts(plugin: Plugin, state: CycleState, nodes: NodeSet, meter: Meter) -> Verdicts | None:
    """What a vector plugin says of each node of the set; None where all fit. Raises PluginFailure."""
    meter.evaluated("Filter", plugin.name, len(nodes))
    few = len(nodes) <= FEW_ROWS and hasattr(plugin, "judge")
    ask = partial(_judge_each, plugin) if few else plugin.filter_rows
    said: Any = call_in(state, plugin, "Filter", ask, state.pod_info.pod, nodes)
    said = checked_verdicts(plugin, said, len(nodes))
    if isinstance(said, Status):
        raise _failure(plugin, said)
    return said  # type: ignore[no-any-return]


class NodeJudges:
    """The rules of all Filter plugins at work for one pod, for the few nodes that other pods are tried on and off."""

    __slots__ = ("_asked", "_meter")

    def __init__(self, plugins: Sequence[Plugin], state: CycleState, meter: Meter) -> None:
        """All of them must have `judge`; raises PluginFailure."""
        self._asked = [(plugin, _aspects_read(plugin), judge_of(plugin, state)) for plugin in plugins]
        self._meter = meter

    def status_of(self, node: NodeInfo, reading: int = ALL) -> Status | None:
        """The first rejection by a plugin that reads any of these aspects of nodes; raises PluginFailure."""
        meter = self._meter
        for plugin, reads, judge in self._asked:
            if not reads & reading:
                continue
            meter.evaluated("Filter", plugin.name)
            status = judged(plugin, judge, node)
            if status is not None:
                if status.is_error:
                    raise _failure(plugin, status)
                return status
        return None


def depends_on(plugin: Plugin, reading: int) -> bool:
    """Whether a plugin's verdicts depend on any of these aspects of nodes, as far as it says."""
    return bool(_aspects_read(plugin) & reading)


def _aspects_read(plugin: Plugin) -> int:
    reads = plugin.filter_reads
    return ALL if reads is None else reads.row | reads.table


def judge_of(plugin: Plugin, state: CycleState) -> Judge:
    """Raises PluginFailure."""
    judge: Any = call(plugin, "Judge", plugin.judge, state, state.pod_info.pod)
    if isinstance(judge, Status):
        raise _failure(plugin, judge)
    return judge  # type: ignore[no-any-return]


def judged(plugin: Plugin, judge: Judge, node: NodeInfo) -> Status | None:
    """A rejection, or an ERROR about this one node; raises PluginFailure."""
    try:
        status = judge(node)
        return None if status is None else _said(plugin, status)
    except PLUGIN_ERRORS as error:
        raise _failure(plugin, raised(plugin, "Filter", error)) from error


def doubts(plugin: Plugin, judge: RowJudge, rows: vec[i64]) -> list[int]:
    """The rows that are to be judged one by one; raises PluginFailure."""
    try:
        doubtful = [index(row) for row in judge.doubtful(rows[:])]
        if len(doubtful) > FEW_ROWS:
            was_asked = set(rows).issuperset(doubtful)
        else:  # mostly one or two: to look for them is cheaper than a set
            was_asked = all(row in rows for row in doubtful)
        if not was_asked:
            raise ValueError("doubts rows that it was not asked about")
        return doubtful
    except PLUGIN_ERRORS as error:
        raise _failure(plugin, raised(plugin, "Filter", error)) from error


def _judge_each(plugin: Plugin, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
    judge = plugin.judge(state, pod)
    statuses: list[Status | None] = [None]
    why = []
    for node in nodes.infos():
        status = judge(node)
        if status is not None:
            status = _said(plugin, status)
        why.append(0 if status is None else len(statuses))
        if status is not None:
            statuses.append(status)
    return Verdicts(np.array(why, dtype=np.int32), statuses) if len(statuses) > 1 else None


def _said(plugin: Plugin, status: Status) -> Status | None:
    if not isinstance(status, Status):
        raise TypeError(f"answered with {type(status).__name__}, want None or a Status")
    return None if status.is_success else status.of(plugin.name)


def _failure(plugin: Plugin, status: Status) -> PluginFailure:
    return failure(plugin, f'running "{plugin.name}" filter plugin', status)
