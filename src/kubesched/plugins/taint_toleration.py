"""TaintToleration: taints keep pods off a node (NoSchedule, NoExecute) or make it less welcome (PreferNoSchedule).

Nodes share few distinct taint lists, which the node table codes; each list of tolerations is judged against each taint
list once, and then rows are looked up. A toleration never attracts a pod, and `tolerationSeconds` does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from kubesched.api import taints
from kubesched.api.core import Node, Pod, Taint, Toleration
from kubesched.build import mypyc_attr
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import ANY_DIFFERENCE, Plugin, Reads, ScoreColumn, Verdicts
from kubesched.framework.status import Status
from kubesched.plugins import score_scaling
from kubesched.state import aspects
from kubesched.state.interning import Interner
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Bools, Ints, NodeSet, TaintKey

REASON = "node(s) had untolerated taint(s)"

#: Lists of tolerations that are remembered with their judgements.
_REMEMBERED_MAX = 1024


@mypyc_attr(allow_interpreted_subclasses=True)
class TaintToleration(Plugin):
    name = "TaintToleration"
    filter_reads = Reads(row=aspects.TAINTS)
    score_reads = Reads(row=aspects.TAINTS)
    signs_template = True
    sign_ignores = ANY_DIFFERENCE

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._comparison_operators = handle.features.get("TaintTolerationComparisonOperators", False)
        self._taint_sets: Interner[tuple[TaintKey, ...]] | None = None
        self._judged: dict[tuple[Toleration, ...], _Judgement] = {}

    def sign(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        judgement = self._judge(pod.spec.tolerations, nodes.table.taint_sets)
        if not judgement.refuses_any:
            return None
        rejected = judgement.refuses.take(nodes.table.taint_set[nodes.index])
        return Verdicts.where(rejected, _UNTOLERATED) if rejected.any() else None

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        def status_of(node: NodeInfo) -> Status | None:
            taints = node.taints
            return _UNTOLERATED if taints and self._untolerated(taints, pod) is not None else None

        return status_of

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        """The number of PreferNoSchedule taints that the pod does not tolerate: a cost."""
        judgement = self._judge(pod.spec.tolerations, nodes.table.taint_sets)
        return judgement.unwelcome_counts.take(nodes.table.taint_set[nodes.index])

    def score_scale(self, state: CycleState, pod: Pod, raw: Ints) -> int:
        return score_scaling.highest(raw)

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Ints, scale: int) -> ScoreColumn:
        return score_scaling.scaled_reversed(raw, scale)

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        taint = self._untolerated(node.taints, pod)
        if taint is None:
            return {}
        return {"taint": {"key": taint.key, "value": taint.value, "effect": taint.effect}}

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(
                ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_TAINT), self.after_node_change
            ),
            ClusterEventWithHint(ClusterEvent(POD, ActionType.UPDATE_POD_TOLERATION), after_toleration_change),
        ]

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        was_tolerated = old is not None and self._untolerated(old.spec.taints, pod) is None
        is_tolerated = self._untolerated(new.spec.taints, pod) is None
        return QueueingHint.QUEUE if is_tolerated and not was_tolerated else QueueingHint.SKIP

    def _untolerated(self, of_node: tuple[Taint, ...], pod: Pod) -> Taint | None:
        return taints.find_untolerated(of_node, pod.spec.tolerations, comparison_operators=self._comparison_operators)

    def _judge(self, tolerations: tuple[Toleration, ...], taint_sets: Interner[tuple[TaintKey, ...]]) -> _Judgement:
        """The judgement on every taint list known by now. Codes never change, so it only ever grows."""
        if taint_sets is not self._taint_sets:
            self._taint_sets = taint_sets
            self._judged.clear()
        judgement = self._judged.get(tolerations)
        if judgement is None:
            if len(self._judged) >= _REMEMBERED_MAX:
                self._judged.clear()
            judgement = self._judged[tolerations] = _Judgement()
        known = len(judgement.refuses)
        if known < len(taint_sets):
            judgement.extend(taint_sets.values[known:], tolerations, self._comparison_operators)
        return judgement


def after_toleration_change(pod: Pod, old: Pod | None, new: Pod) -> QueueingHint:
    return QueueingHint.QUEUE if new.metadata.uid == pod.metadata.uid else QueueingHint.SKIP


def fits(pod: Pod, node: NodeInfo, *, comparison_operators: bool = False) -> bool:
    """`comparison_operators` is the feature gate TaintTolerationComparisonOperators, off by default."""
    untolerated = taints.find_untolerated(node.taints, pod.spec.tolerations, comparison_operators=comparison_operators)
    return untolerated is None


def unwelcome_count(pod: Pod, node: NodeInfo, *, comparison_operators: bool = False) -> int:
    """The raw score: PreferNoSchedule taints of the node that the pod does not tolerate."""
    return sum(
        taint.effect == taints.PREFER_NO_SCHEDULE
        and not taints.tolerated(pod.spec.tolerations, taint, comparison_operators=comparison_operators)
        for taint in node.taints
    )


class _Judgement:
    """What one list of tolerations makes of each taint list, by the taint list's code."""

    __slots__ = ("refuses", "refuses_any", "unwelcome_counts")

    def __init__(self) -> None:
        self.refuses: Bools = np.empty(0, dtype=np.bool_)
        self.unwelcome_counts: Ints = np.empty(0, dtype=np.int64)
        self.refuses_any = False

    def extend(
        self, taint_sets: list[tuple[TaintKey, ...]], tolerations: tuple[Toleration, ...], comparison_operators: bool
    ) -> None:
        refuses, counts = [], []
        for keys in taint_sets:
            left = [
                effect
                for key, value, effect in keys
                if not taints.tolerated(
                    tolerations, Taint(key=key, value=value, effect=effect), comparison_operators=comparison_operators
                )
            ]
            refuses.append(any(effect in taints.HARD_EFFECTS for effect in left))
            counts.append(left.count(taints.PREFER_NO_SCHEDULE))
        self.refuses = np.append(self.refuses, refuses).astype(np.bool_)
        self.unwelcome_counts = np.append(self.unwelcome_counts, counts).astype(np.int64)
        self.refuses_any = bool(self.refuses.any())


_UNTOLERATED = Status.unresolvable(REASON).of(TaintToleration.name)
