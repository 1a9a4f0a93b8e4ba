"""InterPodAffinity: pods that want to be near others, or far from them, by zone, host or any other topology.

Three rules reject a node: a placed pod in its domain has required anti-affinity to the new pod; the new pod has
required anti-affinity to a pod in its domain; or its domain lacks the pods that the new pod's required affinity asks
for. One placed pod must match all affinity terms; the first pod of a group, which matches its own terms, may go
anywhere. Scores add up the weights of preferred terms, the new pod's and those of the pods placed.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Namespace, Node, Pod
from kubesched.build import mypyc_attr
from kubesched.config.plugin_args import InterPodAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, POD, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import MAX_NODE_SCORE, REQUESTS, Plugin, Reads, ScoreColumn, Verdicts, sorted_items
from kubesched.framework.status import Status
from kubesched.plugins.filter_probe import FilterProbe
from kubesched.plugins.inter_pod_affinity_counts import (
    PARTNERLESS,
    REPELLED,
    UNWANTED,
    NewPod,
    PreferredCounts,
    RequiredCounts,
    matches_all,
)
from kubesched.plugins.score_scaling import points_of
from kubesched.state import aspects
from kubesched.state.affinity_terms import NO_TERMS, AffinityTerm, AffinityTerms, affinity_terms, has_terms
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet, NodeTable
from kubesched.state.pod_counts import PlacedTerm, TermKind, encoded
from kubesched.state.pod_info import PodInfo

REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"

STATE_KEY = "PreFilterInterPodAffinity"
SCORE_STATE_KEY = "PreScoreInterPodAffinity"

_READS = Reads(table=aspects.PODS | aspects.LABELS | aspects.MEMBERSHIP, objects=("Namespace",))

#: Compiled terms that are remembered.
_REMEMBERED_MAX = 4096


@mypyc_attr(allow_interpreted_subclasses=True)
class InterPodAffinity(Plugin):
    name = "InterPodAffinity"
    args_type = InterPodAffinityArgs
    filter_reads = _READS
    score_reads = _READS
    signs_template = True
    sign_ignores = frozenset({REQUESTS})

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compiled: dict[tuple[str, bytes], AffinityTerms] = {}
        self._passes = FilterProbe(self)

    # -- Filter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        terms = self._terms_of(pod)
        if terms.errors:
            return Status.unresolvable(f"parsing pod: {terms.error}")
        about = self._terms_about(pod)
        if terms is NO_TERMS and not about:
            return Status.skip(lasting=True)
        counts = RequiredCounts.of(NewPod(pod, terms, self._meets_own_terms(pod, terms)), self._table, about)
        if not terms.required and not terms.required_anti and not counts.repels:
            return Status.skip()
        state.write(STATE_KEY, counts)
        return None

    def add_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(STATE_KEY, RequiredCounts).try_pod(self._table, other, self._terms_of(other.pod), node, 1)
        return None

    def remove_pod(self, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> Status | None:
        state.read(STATE_KEY, RequiredCounts).try_pod(self._table, other, self._terms_of(other.pod), node, -1)
        return None

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        return _verdicts(state.read(STATE_KEY, RequiredCounts), nodes)

    # -- Score

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        terms = self._terms_of(pod)
        if terms.errors:
            return Status.error(f"failed to parse pod: {terms.error}")
        has_preferences = bool(terms.preferred or terms.preferred_anti)
        if self.args.ignore_preferred_terms_of_existing_pods and not has_preferences:
            return Status.skip(lasting=True)
        about = self._terms_about(pod)
        if not has_preferences and not about:
            return Status.skip(lasting=True)
        counts = PreferredCounts(self._table, terms, about, hard_affinity_weight=self.args.hard_pod_affinity_weight)
        if not counts.weights:
            return Status.skip()
        state.write(SCORE_STATE_KEY, counts)
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        return state.read(SCORE_STATE_KEY, PreferredCounts).raw(nodes)

    def score_scale(self, state: CycleState, pod: Pod, raw: Ints) -> tuple[int, int]:
        return (int(raw.min()), int(raw.max())) if len(raw) else (0, 0)

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Ints, scale: tuple[int, int]) -> ScoreColumn:
        """The lowest becomes 0, the highest 100, with the original's doubles in between."""
        low, high = scale
        if high == low:
            return np.zeros(len(raw), dtype=np.uint8)
        span = float(high - low)
        return points_of(raw, low, high, lambda scores: (scores - low) / span * float(MAX_NODE_SCORE))

    # -- explanations

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """What is wrong with the node, and with which pod: it repels the new one, or must not have it near."""
        counts = state.get(STATE_KEY)
        if counts is None:
            return {}
        said = _verdicts(counts, self._table.nodes_at([node.row]))
        verdict = 0 if said is None else int(said.why[0])
        if verdict == PARTNERLESS:
            return {"wants": [_shown(term, node) for term in counts.new.terms.required]}
        if verdict == UNWANTED:
            for term in counts.new.terms.required_anti:
                for other in self._neighbours(node, term.topology_key):
                    metadata = other.pod.metadata
                    if term.matches(metadata.namespace, metadata.labels, self._table.pod_counts.namespace_labels):
                        return {"unwanted": _shown(term, node) | {"pod": other.key}}
        if verdict == REPELLED:
            for placed in self._terms_about(pod):
                key = placed.term.topology_key
                if placed.kind is not TermKind.REPELS or key not in node.labels:
                    continue
                for where, other in placed.holders():
                    if where.labels.get(key) == node.labels[key]:
                        return {"repelledBy": _shown(placed.term, node) | {"pod": other.key}}
        return {}

    def _neighbours(self, node: NodeInfo, topology_key: str) -> list[PodInfo]:
        """The pods in the node's domain."""
        value = node.labels.get(topology_key)
        if value is None:
            return []
        column = self._table.label_column(topology_key)
        rows = np.flatnonzero(column.codes[: self._table.row_count] == column.values.find(value))
        return [other for info in self._table.nodes_at(rows) for other in info.pods.values()]

    # -- queueing hints

    def events_to_register(self) -> list[ClusterEventWithHint]:
        action = ActionType
        return [
            ClusterEventWithHint(
                ClusterEvent(POD, action.ADD | action.UPDATE_POD_LABEL | action.DELETE), self.after_pod_change
            ),
            ClusterEventWithHint(
                ClusterEvent(NODE, action.ADD | action.UPDATE_NODE_LABEL | action.UPDATE_NODE_TAINT),
                self.after_node_change,
            ),
            ClusterEventWithHint(
                ClusterEvent("Namespace", action.ADD | action.UPDATE_OTHER | action.DELETE),
                self.after_namespace_change,
            ),
        ]

    def hint_sign(self, pod: Pod) -> Hashable:
        """Besides its terms all its labels: those of pods that come and go are matched with them."""
        affinity = pod.spec.affinity
        own = None if affinity is None else encoded((affinity.pod_affinity, affinity.pod_anti_affinity))
        return pod.metadata.namespace, sorted_items(pod.metadata.labels), own

    def after_pod_change(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """A wanted pod came; an unwanted, a repelling one or a group's last pod went; or the pod itself changed."""
        if new is not None and new.metadata.uid == pod.metadata.uid:
            return self._hint(pod, if_=True)
        terms = self._terms_of(pod)
        if self._looks_wanted(terms, new) and not self._looks_wanted(terms, old):
            return QueueingHint.QUEUE
        was_wanted, is_wanted = self._is_wanted(terms, old), self._is_wanted(terms, new)
        matters = (
            was_wanted != is_wanted
            or any(self._matches(term, old) and not self._matches(term, new) for term in terms.required_anti)
            or (self._is_repelled(pod, old) and not self._is_repelled(pod, new))
        )
        return self._hint(pod, if_=matters)

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """A node came or has other taints: does it do? A node moved: that may make room elsewhere, too."""
        if old is None or old.metadata.labels == new.metadata.labels:
            return QueueingHint.QUEUE if self._passes.at(pod, new) else QueueingHint.SKIP
        keys = {term.topology_key for term in (*self._terms_of(pod).required, *self._terms_of(pod).required_anti)}
        keys |= {each.term.topology_key for each in self._terms_about(pod) if each.kind is TermKind.REPELS}
        moved = any(old.metadata.labels.get(key) != new.metadata.labels.get(key) for key in keys)
        return self._hint(pod, if_=moved)

    def after_namespace_change(self, pod: Pod, old: Namespace | None, new: Namespace | None) -> QueueingHint:
        """The labels of a namespace changed that some term may select by them."""
        labels = [each.metadata.labels if each is not None else {} for each in (old, new)]
        if labels[0] == labels[1]:
            return QueueingHint.SKIP
        terms = self._terms_of(pod)
        selects = any(term.scope.reads_labels for term in (*terms.required, *terms.required_anti))
        is_own = any(each is not None and each.metadata.name == pod.metadata.namespace for each in (old, new))
        return self._hint(pod, if_=selects or is_own)

    def _hint(self, pod: Pod, *, if_: bool) -> QueueingHint:
        """Queue if the change matters and some node passes now."""
        return QueueingHint.QUEUE if if_ and self._passes.somewhere(pod) else QueueingHint.SKIP

    def _is_wanted(self, terms: AffinityTerms, other: Pod | None) -> bool:
        return bool(terms.required) and all(self._matches(term, other) for term in terms.required)

    def _looks_wanted(self, terms: AffinityTerms, other: Pod | None) -> bool:
        """As the original has it where the terms select namespaces by what labels they lack: it takes all of them.

        Where we would turn the pod away again, it is tried once in vain.
        """
        if other is None or not other.spec.node_name or not any(_selects_by_lack(term) for term in terms.required):
            return False
        metadata = other.metadata
        return all(
            term.selector.matches(metadata.labels)
            and (metadata.namespace in term.scope.names or term.scope.selector.matches({}))
            for term in terms.required
        )

    def _is_repelled(self, pod: Pod, by: Pod | None) -> bool:
        return by is not None and any(self._matches(term, pod) for term in self._terms_of(by).required_anti)

    def _matches(self, term: AffinityTerm, other: Pod | None) -> bool:
        if other is None:
            return False
        metadata = other.metadata
        return term.matches(metadata.namespace, metadata.labels, self._table.pod_counts.namespace_labels)

    # -- the terms of a pod

    def sign(self, pod: Pod) -> Hashable:
        """The pod's terms, whether it meets them itself, and the terms of placed pods that match it."""
        terms = self._terms_of(pod)
        about = self._terms_about(pod)
        if terms is NO_TERMS:
            return about
        affinity = pod.spec.affinity
        assert affinity is not None
        own = encoded((affinity.pod_affinity, affinity.pod_anti_affinity))
        return pod.metadata.namespace, own, self._meets_own_terms(pod, terms), about

    def sign_version(self) -> Hashable:
        return self._table.pod_counts.terms_version

    def _terms_of(self, pod: Pod) -> AffinityTerms:
        if not has_terms(pod):
            return NO_TERMS
        affinity = pod.spec.affinity
        assert affinity is not None
        key = (pod.metadata.namespace, encoded((affinity.pod_affinity, affinity.pod_anti_affinity)))
        known = self._compiled.get(key)
        if known is None:
            if len(self._compiled) >= _REMEMBERED_MAX:
                self._compiled.clear()
            known = self._compiled[key] = affinity_terms(pod)
        return known

    def _terms_about(self, pod: Pod) -> tuple[PlacedTerm, ...]:
        return self._table.pod_counts.terms_about(pod.metadata.namespace, pod.metadata.labels)

    def _meets_own_terms(self, pod: Pod, terms: AffinityTerms) -> bool:
        metadata = pod.metadata
        return bool(terms.required) and matches_all(
            terms.required, metadata.namespace, metadata.labels, self._table.pod_counts
        )

    @property
    def _table(self) -> NodeTable:
        return self.handle.state.nodes


def _verdicts(counts: RequiredCounts, nodes: NodeSet) -> Verdicts | None:
    """Of several topology keys the weightiest verdict counts."""
    columns = [(said, nodes.table.domains_at(key, nodes.index)) for key, said in counts.verdicts().items()]
    if len(columns) == 1:
        return Verdicts.by_domain(*columns[0], _STATUSES)
    why: NDArray[np.uint8] | None = None
    for said, domains in columns:
        each = said.take(domains)
        why = each if why is None else np.maximum(why, each)
    return None if why is None or not why.any() else Verdicts(why, _STATUSES)


def _selects_by_lack(term: AffinityTerm) -> bool:
    return term.scope.reads_labels and term.scope.selector.matches({})


def _shown(term: AffinityTerm, node: NodeInfo) -> dict[str, object]:
    facts: dict[str, object] = {"topologyKey": term.topology_key, "selector": str(term.selector)}
    if term.topology_key in node.labels:
        facts["domain"] = node.labels[term.topology_key]
    else:
        facts["missingLabel"] = term.topology_key
    return facts


_STATUSES: list[Status | None] = [
    None,
    Status.unschedulable(REASON_EXISTING).of(InterPodAffinity.name),
    Status.unschedulable(REASON_ANTI_AFFINITY).of(InterPodAffinity.name),
    Status.unresolvable(REASON_AFFINITY).of(InterPodAffinity.name),
]
