"""`KeptOutcomes`: what dry runs came to, node by node, for the next pod of the same kind.

Pods stamped from one template preempt one after the other, and between two of them few nodes change. What a dry run
comes to on a node is settled by

    the pod        its scheduling signature, its priority, and which Filter plugins PreFilter skipped
    the node       its Node, the pods on it, the nominated pods that it must leave room for
    other objects  the disruption budgets, and the kinds that the Filter plugins say they read

Objects of these types never change, they are replaced: whoever finds the same ones in place may take the outcome as it
is. A node that does not fit without any of its victims does not either when some of them are gone by themselves: of its
pods only those count that stay. Nothing is kept for a pod of which some Filter plugin looks beyond the node at hand, or
does not say what it reads. A property test holds what is kept against dry runs made anew.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from typing import TypeAlias

from kubesched.api.core import Node
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.kept_crowd import looks_at_one_node
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.status import Status
from kubesched.preemption.budgets import Budgets
from kubesched.preemption.candidate import Candidate
from kubesched.preemption.rules import Rules
from kubesched.state.cluster_state import ClusterState
from kubesched.state.node_info import NodeInfo
from kubesched.state.pod_info import PodInfo
from kubesched.state.promises import Promised

#: What became of a node: a candidate, or why it is none.
Outcome: TypeAlias = Candidate | Status

#: Kinds of pods that are remembered at a time. Each takes some hundred bytes a node that was tried.
_KINDS_OF_PODS_MAX = 8
_NOBODY: list[PodInfo] = []


class KeptOutcomes:
    def __init__(self, cluster: ClusterState, rules: Rules) -> None:
        self._cluster = cluster
        self._keeps = rules.look_at_pods_alone
        self._kept: OrderedDict[Hashable, _OfOneKind] = OrderedDict()

    def of_attempt(self, state: CycleState, runtime: Runtime, budgets: Budgets) -> Outcomes:
        """What is known for the pod of this attempt, and where to keep what it finds out."""
        key = _kind_of_pod(state, runtime) if self._keeps else None
        promises = runtime.fresh.promises(state)
        priority = state.pod_info.priority
        if key is None:
            return Outcomes(None, self._cluster, promises, priority)
        version = self._cluster.objects.version(*_objects_read(state, runtime))
        kept = self._kept.get(key)
        if kept is None or kept.budgets is not budgets or kept.objects_version != version:
            kept = self._kept[key] = _OfOneKind(budgets, version)
        self._kept.move_to_end(key)
        if len(self._kept) > _KINDS_OF_PODS_MAX:
            self._kept.popitem(last=False)
        return Outcomes(kept.by_row, self._cluster, promises, priority)


class Outcomes:
    """The outcomes that hold for one attempt."""

    __slots__ = ("_by_row", "_infos", "_priority", "_promises")

    def __init__(
        self,
        by_row: dict[int, _Kept] | None,
        cluster: ClusterState,
        promises: Promised,
        priority: int,
    ) -> None:
        """Without `by_row` nothing is known, and nothing kept."""
        self._by_row = by_row
        self._infos: Sequence[NodeInfo] = cluster.nodes.infos
        self._promises = promises
        self._priority = priority

    def known(self, rows: Sequence[int]) -> list[Outcome | None]:
        """Per row what a dry run would come to; None where one must be made."""
        by_row, infos, promises = self._by_row, self._infos, self._promises
        if not by_row:
            return [None] * len(rows)
        found: list[Outcome | None] = []
        for row in rows:
            kept = by_row.get(row)
            if kept is not None and kept.promised == promises.get(row, _NOBODY) and self._stands(kept, infos[row]):
                found.append(kept.outcome)
            else:
                found.append(None)
        return found

    def keep(self, row: int, outcome: Outcome) -> None:
        """What a dry run came to. An error says nothing about the next time."""
        if self._by_row is None:
            return
        if isinstance(outcome, Status) and outcome.is_error:
            self._by_row.pop(row, None)
            return
        info = self._infos[row]
        pods = [*info.pods.values()]
        staying = self._staying(pods) if isinstance(outcome, Status) else None
        self._by_row[row] = _Kept(info, pods, staying, self._promises.get(row, _NOBODY), outcome)

    def _stands(self, kept: _Kept, info: NodeInfo) -> bool:
        if kept.info is info and kept.generation == info.generation:
            return True
        pods = [*info.pods.values()]
        if kept.node is not info.node or not (kept.pods == pods or self._is_hopeless(kept, pods)):
            return False
        kept.info, kept.generation = info, info.generation
        return True

    def _is_hopeless(self, kept: _Kept, pods: list[PodInfo]) -> bool:
        """Whether the pod did not fit beside those who stay, and there still are others, who do not matter."""
        if kept.staying is None or len(pods) == len(kept.staying):
            return False
        return kept.staying == self._staying(pods)

    def _staying(self, pods: list[PodInfo]) -> list[PodInfo]:
        limit = self._priority
        return [info for info in pods if (info.pod.spec.priority or 0) >= limit]


class _Kept:
    """An outcome, and what it was found with. It stands for that generation of the node, and for others like it."""

    __slots__ = ("generation", "info", "node", "outcome", "pods", "promised", "staying")

    def __init__(
        self,
        info: NodeInfo,
        pods: list[PodInfo],
        staying: list[PodInfo] | None,
        promised: list[PodInfo],
        outcome: Outcome,
    ) -> None:
        self.info = info
        self.generation = info.generation
        self.node: Node | None = info.node
        self.pods = pods
        #: Those who may not be preempted, where the pod does not fit beside them.
        self.staying = staying
        self.promised = promised
        self.outcome = outcome


class _OfOneKind:
    """The outcomes for one kind of pod, while budgets and other objects are as they were."""

    __slots__ = ("budgets", "by_row", "objects_version")

    def __init__(self, budgets: Budgets, objects_version: int) -> None:
        self.budgets = budgets
        self.objects_version = objects_version
        self.by_row: dict[int, _Kept] = {}


def _kind_of_pod(state: CycleState, runtime: Runtime) -> Hashable | None:
    """Pods of which this is equal come to the same on a node that is the same; None where that is not so."""
    if not runtime.kept.enabled or runtime.fresh.tracks_pods(state):
        return None
    if not all(map(looks_at_one_node, _filters_at_work(state, runtime))):
        return None
    pod = state.pod_info
    signed = (pod.signatures or {}).get(runtime.profile_name)
    if signed is None or not signed[1].is_whole:
        return None
    return signed[1], pod.priority, frozenset(state.skip_filter)


def _filters_at_work(state: CycleState, runtime: Runtime) -> list[Plugin]:
    return [plugin for plugin in runtime.plugins.filter if plugin.name not in state.skip_filter]


def _objects_read(state: CycleState, runtime: Runtime) -> set[str]:
    """The kinds of objects that Filter plugins say they read."""
    filters = _filters_at_work(state, runtime)
    return {kind for plugin in filters if plugin.filter_reads for kind in plugin.filter_reads.objects}
