"""PodTopologySpread: pods that belong together are spread over the domains of a topology (zones, hosts, ...).

A hard constraint (DoNotSchedule) rejects nodes on which the skew would be too large: the pods in the node's domain,
with this one, over those in the emptiest domain. A soft one (ScheduleAnyway) prefers domains with fewer pods. Counts of
pods per node come from the node table, which keeps them up to date; here they are summed per domain.
"""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from kubesched.api.core import Node, Pod, TopologySpreadConstraint
from kubesched.api.errors import SelectorError
from kubesched.api.meta import Object
from kubesched.build import mypyc_attr
from kubesched.config.plugin_args import PodTopologySpreadArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    QueueingHint,
)
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import MAX_NODE_SCORE, REQUESTS, Plugin, Reads, ScoreColumn, Verdicts, sorted_items
from kubesched.framework.status import Status
from kubesched.plugins import pod_topology_spread_constraints as spread
from kubesched.plugins.filter_probe import FilterProbe
from kubesched.plugins.pod_topology_spread_constraints import HARD, SOFT, Constraint
from kubesched.plugins.pod_topology_spread_counts import IGNORED, SKEWED, HardCounts, Layout, SoftCounts, try_pod
from kubesched.plugins.score_scaling import points_of
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet, NodeTable, taint_keys
from kubesched.state.pod_counts import encoded
from kubesched.state.pod_info import PodInfo

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON_SKEW} (missing required label)"

STATE_KEY = "PreFilterPodTopologySpread"
SCORE_STATE_KEY = "PreScorePodTopologySpread"

_READS = aspects.PODS | aspects.LABELS | aspects.TAINTS | aspects.MEMBERSHIP

#: Pods whose default constraints are remembered.
_REMEMBERED_MAX = 4096

#: `details` lists at most so many domains, the emptiest first.
_DOMAINS_SHOWN = 20


class _Defaults(NamedTuple):
    """The default constraints of a pod. No others ever have the same code."""

    hard: tuple[Constraint, ...]
    soft: tuple[Constraint, ...]
    code: int


_NO_DEFAULTS = _Defaults((), (), -1)


@mypyc_attr(allow_interpreted_subclasses=True)
class PodTopologySpread(Plugin):
    name = "PodTopologySpread"
    args_type = PodTopologySpreadArgs
    watches = spread.SIBLING_KINDS  # whose selectors the default constraints use
    filter_reads = Reads(table=_READS)
    score_reads = Reads(table=_READS, feasible=True)
    signs_template = True
    sign_ignores = frozenset({REQUESTS})

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._is_system = args.defaulting_type == "System"
        self._defaults = spread.SYSTEM_DEFAULTS if self._is_system else args.default_constraints
        self._comparison_operators = handle.features.get("TaintTolerationComparisonOperators", False)
        self._siblings = spread.Siblings(handle.state.objects)
        self._codes: dict[Hashable, int] = {}
        self._next_code = itertools.count()
        self._remembered: dict[Hashable, _Defaults] = {}
        self._remembered_version = -1
        self._passes = FilterProbe(self)

    # -- Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        before = state.get(STATE_KEY)
        try:
            constraints = self._constraints_again(before, pod, HARD)
        except SelectorError as error:
            return Status.error(f"get constraints from pod: {error}")
        if not constraints:
            return Status.skip(lasting=True)
        layout = self._layout(before, pod, constraints, needs_all_labels=True)
        state.write(STATE_KEY, HardCounts.of(pod, self._table, layout))
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        self._try(state, pod, other, node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        self._try(state, pod, other, node, -1)
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        """The first constraint that a node does not meet decides on the reason."""
        counts = state.read(STATE_KEY, HardCounts)
        if len(counts.layout.constraints) == 1:
            said = counts.verdicts(0)
            if not said[:-1].any() and not counts.layout.places[0].has_unlabelled:
                return None
            domains = nodes.table.domains_at(counts.layout.constraints[0].topology_key, nodes.index)
            return Verdicts.by_domain(said, domains, _STATUSES)
        why: Any = None
        for index, constraint in enumerate(counts.layout.constraints):
            said = counts.verdicts(index).take(nodes.table.domains_at(constraint.topology_key, nodes.index))
            why = said if why is None else np.where(why != 0, why, said)
        return Verdicts(why, _STATUSES) if why.any() else None

    # -- Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        if not self._table.row_count:
            return Status.skip()
        before = state.get(SCORE_STATE_KEY)
        try:
            constraints = self._constraints_again(before, pod, SOFT)
        except SelectorError as error:
            return Status.error(f"calculating preScoreState: {error}")
        if not constraints:
            return Status.skip(lasting=True)
        # With the system's defaults, nodes without a zone are still spread over by host.
        needs_all_labels = bool(pod.spec.topology_spread_constraints) or not self._is_system
        layout = self._layout(before, pod, constraints, needs_all_labels=needs_all_labels)
        counts = SoftCounts(self._table, layout, nodes)
        state.write(SCORE_STATE_KEY, counts)
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        return state.read(SCORE_STATE_KEY, SoftCounts).raw(nodes)

    def score_scale(self, state: CycleState, pod: Pod, raw: Ints) -> tuple[int, int]:
        """Lowest and highest score of the nodes that take part."""
        low = int(raw.min(initial=0))
        if low == IGNORED:
            raw = raw[raw != IGNORED]
        return (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Ints, scale: tuple[int, int]) -> ScoreColumn:
        """The emptiest domains score highest; nodes that take no part score 0."""
        low, high = scale
        if high == 0:
            scores = np.full(len(raw), MAX_NODE_SCORE, dtype=np.uint8)
        else:
            scores = points_of(raw, low, high, lambda each: (high + low - each) * MAX_NODE_SCORE // high)
        if not state.read(SCORE_STATE_KEY, SoftCounts).layout.all_have_all:
            scores[raw == IGNORED] = 0
        return scores

    def shown_scores(self, raw: Ints) -> Ints:
        """The original's Score says 0 for a node that takes no part."""
        return np.maximum(raw, 0)

    # -- explanations

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """The constraints that the node does not meet, with the pods in each domain, the emptiest first."""
        counts = state.get(STATE_KEY)
        if counts is None:
            return {}
        unmet = []
        for index, constraint in enumerate(counts.layout.constraints):
            facts: dict[str, object] = {"topologyKey": constraint.topology_key, "maxSkew": constraint.max_skew}
            value = node.labels.get(constraint.topology_key)
            values = self._table.label_column(constraint.topology_key).values
            if value is None:
                unmet.append(facts | {"missingLabel": constraint.topology_key})
            elif counts.verdicts(index)[values.find(value)] == SKEWED:
                pods = counts.pods(index)
                present = np.unique(counts.layout.places[index].counted.of_row).tolist()
                present = [code for code in present if code < len(pods) - 1]
                shown = sorted(present, key=lambda code: (pods[code], values.values[code]))[:_DOMAINS_SHOWN]
                unmet.append(
                    facts
                    | {
                        "domain": value,
                        "pods": int(pods[values.find(value)]),
                        "lowest": counts.lowest(index),
                        "self": counts.self_counts[index],
                        "domainCount": len(present),
                        "domains": {values.values[code]: int(pods[code]) for code in shown},
                    }
                )
        return {"constraints": unmet} if unmet else {}

    # -- queueing hints

    def events_to_register(self) -> list[ClusterEventWithHint]:
        action = ActionType
        registered = [
            ClusterEventWithHint(
                ClusterEvent(POD, action.ADD | action.UPDATE_POD_LABEL | action.UPDATE_POD_TOLERATION | action.DELETE),
                self.after_pod_change,
            ),
            # A pod counts no more from the moment it begins to terminate, of which nothing but this tells.
            ClusterEventWithHint(ClusterEvent(ASSIGNED_POD, action.UPDATE_OTHER), self.after_pod_update),
            ClusterEventWithHint(
                ClusterEvent(NODE, action.ADD | action.DELETE | action.UPDATE_NODE_LABEL | action.UPDATE_NODE_TAINT),
                self.after_node_change,
            ),
        ]
        if self._has_defaults(HARD):
            registered += [
                ClusterEventWithHint(
                    ClusterEvent(kind, action.ADD | action.UPDATE_OTHER | action.DELETE), self.after_sibling_change
                )
                for kind in spread.SIBLING_KINDS
            ]
        return registered

    def hint_sign(self, pod: Pod) -> Hashable:
        """All that may decide on constraints: which default ones the pod has may change while it waits."""
        metadata, spec = pod.metadata, pod.spec
        return (
            metadata.namespace,
            sorted_items(metadata.labels),
            encoded((metadata.controller, spec.topology_spread_constraints, spec.affinity)),
            sorted_items(spec.node_selector),
            spec.tolerations,
        )

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A pod that counts came, went, or began or ceased to count; or the waiting pod itself changed."""
        if any(each is not None and not _is_involved(each, pod) for each in (old, new)):
            return QueueingHint.SKIP
        constraints = self.constraints(pod, HARD)
        if old is not None and new is not None:
            if new.metadata.uid == pod.metadata.uid:
                return self._hint(pod, if_=self._own_change_matters(old, new, constraints))
            return self._hint(
                pod,
                if_=any(
                    each.selector.matches(old.metadata.labels) != each.selector.matches(new.metadata.labels)
                    for each in constraints
                ),
            )
        other = new if new is not None else old
        assert other is not None
        return self._hint(pod, if_=any(each.selector.matches(other.metadata.labels) for each in constraints))

    def after_pod_update(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """It makes room in the domains of its node, and nowhere else."""
        if new.metadata.deletion_timestamp is None or old.metadata.deletion_timestamp is not None:
            return QueueingHint.SKIP
        row = self._table.row_of(new.spec.node_name)
        if row < 0 or not _is_involved(new, pod):
            return QueueingHint.SKIP
        passing = self._passes.passing(pod)
        for constraint in self.constraints(pod, HARD):
            if constraint.selector.matches(new.metadata.labels):
                codes = self._table.label_column(constraint.topology_key).codes[: len(passing)]
                if passing[codes == codes[row]].any():
                    return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """A node with all topology labels came, went, moved, or has other taints."""
        keys = [constraint.topology_key for constraint in self.constraints(pod, HARD)]
        old_labels = old.metadata.labels if old is not None else {}
        new_labels = new.metadata.labels if new is not None else {}
        counted = old is not None and all(key in old_labels for key in keys)
        counts = new is not None and all(key in new_labels for key in keys)
        matters = counted != counts
        if old is not None and new is not None and counts:
            moved = any(old_labels.get(key) != new_labels[key] for key in keys)
            matters = matters or moved or taint_keys(old) != taint_keys(new)
        return self._hint(pod, if_=matters)

    def after_sibling_change(self, pod: Pod, old: Object | None, new: Object | None) -> QueueingHint:
        """What default constraints count may have changed."""
        if pod.spec.topology_spread_constraints:
            return QueueingHint.SKIP
        near = any(each is not None and each.metadata.namespace == pod.metadata.namespace for each in (old, new))
        return self._hint(pod, if_=near)

    def _own_change_matters(self, old: Pod, new: Pod, constraints: tuple[Constraint, ...]) -> bool:
        if old.spec.tolerations != new.spec.tolerations and any(each.honors_taints for each in constraints):
            return True
        if old.metadata.labels == new.metadata.labels:
            return False
        return self.constraints(old, HARD) != constraints or any(
            each.selector.matches(old.metadata.labels) != each.selector.matches(new.metadata.labels)
            for each in constraints
        )

    def _hint(self, pod: Pod, *, if_: bool) -> QueueingHint:
        """Queue if the change matters and some node meets the constraints now."""
        return QueueingHint.QUEUE if if_ and self._passes.somewhere(pod) else QueueingHint.SKIP

    # -- the constraints of a pod

    def sign(self, pod: Pod) -> Hashable:
        """The constraints, and what of the pod they look at: labels only as far as selectors read them."""
        spec = pod.spec
        chosen: Hashable
        if spec.topology_spread_constraints:
            labels = pod.metadata.labels
            keys = sorted(set().union(*map(_keys_read, spec.topology_spread_constraints)))
            chosen = encoded(spec.topology_spread_constraints), tuple((key, labels.get(key)) for key in keys)
        else:
            defaults = self._default_constraints(pod)
            if not defaults.hard and not defaults.soft:
                return ()
            matched = tuple(each.selector.matches(pod.metadata.labels) for each in defaults.hard)
            chosen = defaults.code, matched
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        return (
            pod.metadata.namespace,
            chosen,
            sorted_items(spec.node_selector),
            None if affinity is None else encoded(affinity),
            spec.tolerations,
        )

    def constraints(self, pod: Pod, action: str) -> tuple[Constraint, ...]:
        """Its own, else the profile's defaults. SelectorError."""
        if pod.spec.topology_spread_constraints:
            return spread.own(pod, action)
        defaults = self._default_constraints(pod)
        return defaults.hard if action == HARD else defaults.soft

    def sign_version(self) -> Hashable:
        return self.handle.state.objects.version(*spread.SIBLING_KINDS) if self._defaults else 0

    def _default_constraints(self, pod: Pod) -> _Defaults:
        """By what the pod's services and controller select now."""
        if not self._defaults:
            return _NO_DEFAULTS
        version = self.handle.state.objects.version("Service")
        if version != self._remembered_version or len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
            self._remembered_version = version
        owner = self._siblings.owner(pod)
        key = (
            pod.metadata.namespace,
            encoded(pod.metadata.labels),
            None if owner is None else encoded(owner.spec.selector),
        )
        known = self._remembered.get(key)
        if known is None:
            siblings = self._siblings.selector(pod)
            hard, soft = (spread.default(self._defaults, pod, action, siblings) for action in (HARD, SOFT))
            if len(self._codes) >= _REMEMBERED_MAX:
                self._codes.clear()
            code = self._codes.get((hard, soft))
            if code is None:
                code = self._codes[hard, soft] = next(self._next_code)
            known = self._remembered[key] = _Defaults(hard, soft, code)
        return known

    def _has_defaults(self, action: str) -> bool:
        return any(each.when_unsatisfiable == action for each in self._defaults)

    def _constraints_again(
        self, before: HardCounts | SoftCounts | None, pod: Pod, action: str
    ) -> tuple[Constraint, ...]:
        """As `constraints`; own ones of the same pod are not compiled again."""
        if before is not None and before.layout.pod is pod and pod.spec.topology_spread_constraints:
            return before.layout.constraints
        return self.constraints(pod, action)

    def _layout(
        self,
        before: HardCounts | SoftCounts | None,
        pod: Pod,
        constraints: tuple[Constraint, ...],
        *,
        needs_all_labels: bool,
    ) -> Layout:
        """That of `before`, from the same cycle state, as long as it is good."""
        if before is not None and before.layout.is_good(self._table, pod, constraints):
            return before.layout
        return Layout(
            self._table,
            pod,
            constraints,
            needs_all_labels=needs_all_labels,
            comparison_operators=self._comparison_operators,
        )

    @property
    def _table(self) -> NodeTable:
        return self.handle.state.nodes

    def _try(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo, by: int) -> None:
        counts = state.read(STATE_KEY, HardCounts)
        try_pod(counts, self._table, pod, other, node, by, comparison_operators=self._comparison_operators)


def _is_involved(other: Pod, pod: Pod) -> bool:
    """Whether `other` is the pod itself or may count for it."""
    if other.metadata.uid == pod.metadata.uid:
        return True
    return bool(other.spec.node_name) and other.metadata.namespace == pod.metadata.namespace


def _keys_read(constraint: TopologySpreadConstraint) -> set[str]:
    """The labels of pods that the constraint looks at."""
    keys = set(constraint.match_label_keys)
    if constraint.label_selector is not None:
        keys |= constraint.label_selector.match_labels.keys()
        keys |= {expression.key for expression in constraint.label_selector.match_expressions}
    return keys


_STATUSES: list[Status | None] = [
    None,
    Status.unschedulable(REASON_SKEW).of(PodTopologySpread.name),
    Status.unresolvable(REASON_LABEL).of(PodTopologySpread.name),
]
