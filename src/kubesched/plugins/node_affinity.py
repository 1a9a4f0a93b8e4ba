"""NodeAffinity: `nodeSelector` and node affinity of the pod, and the affinity that the operator adds to every pod.

Each requirement is one look at a label column: values are coded, so a requirement becomes a set of accepted codes.
A required term that cannot be parsed matches no node and nobody hears of it, as in the original; a preferred one fails
the attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from kubesched.api import core, selectors
from kubesched.api.core import Node, Pod
from kubesched.api.errors import SelectorError
from kubesched.api.selectors import (
    EVERYTHING,
    LabelMatcher,
    NodeMatcher,
    NodeTermMatcher,
    PreferredTerms,
    syntax,
)
from kubesched.build import mypyc_attr
from kubesched.config.plugin_args import NodeAffinityArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import (
    METADATA,
    REQUESTS,
    Plugin,
    PreFilterResult,
    Reads,
    ScoreColumn,
    Verdicts,
    sorted_items,
)
from kubesched.framework.status import Status
from kubesched.plugins import node_terms, score_scaling
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Bools, Ints, NodeSet

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"

STATE_KEY = "PreFilterNodeAffinity"
SCORE_STATE_KEY = "PreScoreNodeAffinity"

_NO_PREFERENCE = PreferredTerms((), ())


@dataclass(frozen=True, slots=True)
class Required:
    """What a pod requires of a node: all labels of its nodeSelector, and one of the terms (None: no terms)."""

    labels: LabelMatcher
    terms: NodeMatcher | None

    def matches(self, node_name: str, labels: Mapping[str, str]) -> bool:
        return self.labels.matches(labels) and (self.terms is None or self.terms.matches(node_name, labels))


@mypyc_attr(allow_interpreted_subclasses=True)
class NodeAffinity(Plugin):
    name = "NodeAffinity"
    args_type = NodeAffinityArgs
    filter_reads = Reads(row=aspects.LABELS | aspects.MEMBERSHIP)
    score_reads = Reads(row=aspects.LABELS | aspects.MEMBERSHIP)
    signs_template = True
    sign_ignores = frozenset({METADATA, REQUESTS})

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._enforced = _enforced(args)
        self._added_preferences = _added_preferences(args)

    def sign(self, pod: Pod) -> Hashable:
        return sorted_items(pod.spec.node_selector), _node_affinity(pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterResult | Status | None:
        affinity = _node_affinity(pod)
        selector = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
        if selector is None and self._enforced is None and not pod.spec.node_selector:
            return Status.skip(lasting=True)
        state.write(STATE_KEY, required(pod))
        if selector is None:
            return None
        names = _only_names(selector)
        if names is None:
            return None
        return PreFilterResult(names) if names else Status.unresolvable(REASON_CONFLICT)

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        wants = state.read(STATE_KEY, Required)
        matched = _matching_required(wants, nodes)
        if self._enforced is None:
            return None if matched.all() else Verdicts.where(~matched, _MISMATCH)
        enforced = node_terms.matching_any(self._enforced, nodes)
        why = np.where(enforced, np.where(matched, 0, 2), 1).astype(np.int32)
        return Verdicts(why, [None, _ENFORCED_MISMATCH, _MISMATCH])

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        wants, enforced = state.read(STATE_KEY, Required), self._enforced

        def status_of(node: NodeInfo) -> Status | None:
            if enforced is not None and not enforced.matches(node.name, node.labels):
                return _ENFORCED_MISMATCH
            return None if wants.matches(node.name, node.labels) else _MISMATCH

        return status_of

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status | None:
        preferences = preferred(pod)
        if preferences is None and self._added_preferences is None:
            return Status.skip(lasting=True)
        if preferences is not None and preferences.errors:
            return Status.error(syntax.joined(list(preferences.errors)))
        state.write(SCORE_STATE_KEY, preferences or _NO_PREFERENCE)
        return None

    def score_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Ints:
        """The sum of the weights of the terms that match."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        added = self._added_preferences or _NO_PREFERENCE
        for weight, term in (*added.terms, *state.read(SCORE_STATE_KEY, PreferredTerms).terms):
            scores += node_terms.matching(term, nodes) * np.int64(weight)
        return scores

    def score_scale(self, state: CycleState, pod: Pod, raw: Ints) -> int:
        return score_scaling.highest(raw)

    def normalize_rows(self, state: CycleState, pod: Pod, raw: Ints, scale: int) -> ScoreColumn:
        return score_scaling.scaled(raw, scale)

    def details(self, state: CycleState, pod: Pod, node: NodeInfo) -> dict[str, object]:
        """What differs from nodeSelector, and the terms of which none matches."""
        wants = required(pod)
        facts: dict[str, object] = {}
        differing = {
            key: {"asked": value, "has": node.labels.get(key)}
            for key, value in pod.spec.node_selector.items()
            if node.labels.get(key) != value
        }
        if differing:
            facts["nodeSelector"] = differing
        if wants.terms is not None and not wants.terms.matches(node.name, node.labels):
            facts["terms"] = [_text(term) for term in wants.terms.terms]
        return facts

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [
            ClusterEventWithHint(
                ClusterEvent(NODE, ActionType.ADD | ActionType.UPDATE_NODE_LABEL), self.after_node_change
            ),
            # Taints change nothing here, but a new node is often tainted until it is ready.
            ClusterEventWithHint(ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT), self.after_taint_change),
        ]

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        matched_before = old is not None and self._accepts(pod, old)
        return QueueingHint.QUEUE if not matched_before and self._accepts(pod, new) else QueueingHint.SKIP

    def after_taint_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        return QueueingHint.QUEUE if self._accepts(pod, new) else QueueingHint.SKIP

    def _accepts(self, pod: Pod, node: Node) -> bool:
        name, labels = node.metadata.name, node.metadata.labels
        if self._enforced is not None and not self._enforced.matches(name, labels):
            return False
        return required(pod).matches(name, labels)


def fits(pod: Pod, node: NodeInfo) -> bool:
    """By the pod's own nodeSelector and required node affinity."""
    return required(pod).matches(node.name, node.labels)


def fits_rows(pod: Pod, nodes: NodeSet) -> Bools:
    """As `fits`, for every node of the set."""
    return _matching_required(required(pod), nodes)


def score(pod: Pod, node: NodeInfo) -> int:
    """The raw score by the pod's own preferred node affinity. SelectorError if a term cannot be parsed."""
    preferences = preferred(pod)
    if preferences is None:
        return 0
    if preferences.errors:
        raise SelectorError(syntax.joined(list(preferences.errors)))
    return preferences.score(node.name, node.labels)


def required(pod: Pod) -> Required:
    labels = selectors.match_labels(pod.spec.node_selector) if pod.spec.node_selector else EVERYTHING
    affinity = _node_affinity(pod)
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    return Required(labels, None if selector is None else selectors.compile_node_selector(selector))


def preferred(pod: Pod) -> PreferredTerms | None:
    affinity = _node_affinity(pod)
    if affinity is None or not affinity.preferred_during_scheduling_ignored_during_execution:
        return None
    return _compiled(affinity.preferred_during_scheduling_ignored_during_execution)


def _node_affinity(pod: Pod) -> core.NodeAffinity | None:
    affinity = pod.spec.affinity
    return affinity.node_affinity if affinity is not None else None


def _compiled(terms: tuple[core.PreferredSchedulingTerm, ...]) -> PreferredTerms:
    return selectors.compile_preferred_terms((term.weight, term.preference) for term in terms)


def _enforced(args: NodeAffinityArgs) -> NodeMatcher | None:
    selector = args.added_affinity and args.added_affinity.required_during_scheduling_ignored_during_execution
    if not selector:
        return None
    matcher = selectors.compile_node_selector(selector)
    _refuse("requiredDuringSchedulingIgnoredDuringExecution", matcher.errors)
    return matcher


def _added_preferences(args: NodeAffinityArgs) -> PreferredTerms | None:
    terms = args.added_affinity and args.added_affinity.preferred_during_scheduling_ignored_during_execution
    if not terms:
        return None
    preferences = _compiled(terms)
    _refuse("preferredDuringSchedulingIgnoredDuringExecution", preferences.errors)
    return preferences


def _refuse(field: str, errors: tuple[str, ...]) -> None:
    if errors:
        raise SelectorError(f"parsing addedAffinity.{field}: {syntax.joined(list(errors))}")


def _only_names(selector: selectors.NodeSelector) -> frozenset[str] | None:
    """The names that the terms allow when every term asks for names; None when one does not (or there is no term)."""
    allowed: set[str] = set()
    for term in selector.node_selector_terms:
        asked = [set(r.values) for r in term.match_fields if r.key == node_terms.NAME_FIELD and r.operator == "In"]
        if not asked:
            return None
        allowed |= set.intersection(*asked)
    return frozenset(allowed) if selector.node_selector_terms else None


def _text(term: NodeTermMatcher) -> str:
    if term.errors:
        return syntax.joined(list(term.errors))
    fields = [f"{each.field}{'=' if each.equal else '!='}{each.value}" for each in term.fields]
    return ", ".join([*map(str, term.labels), *fields])


def _matching_required(wants: Required, nodes: NodeSet) -> Bools:
    matched = node_terms.all_hold(wants.labels.requirements or (), nodes)
    return matched if wants.terms is None else matched & node_terms.matching_any(wants.terms, nodes)


_MISMATCH = Status.unresolvable(REASON_POD).of(NodeAffinity.name)
_ENFORCED_MISMATCH = Status.unresolvable(REASON_ENFORCED).of(NodeAffinity.name)
