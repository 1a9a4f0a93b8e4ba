"""The inter-pod (anti-)affinity terms of a pod, compiled: which pods they speak of, and by which topology.

A term speaks of the pods in its scope of namespaces that its selector matches. The scope is a list of names and a
selector over namespaces' labels; a pod's own namespace if the term gives neither. A namespace without object counts as
one without labels. `matchLabelKeys` are not looked at: the API server has merged them into the selector.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from kubesched.api.core import Pod, PodAffinityTerm, WeightedPodAffinityTerm
from kubesched.api.errors import SelectorError
from kubesched.api.selectors import EVERYTHING, NOTHING, LabelMatcher, compile_label_selector, syntax

#: The labels of a namespace by its name.
NamespaceLabels: TypeAlias = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class NamespaceScope:
    """The namespaces with one of `names`, and those whose labels `selector` matches."""

    names: frozenset[str]
    selector: LabelMatcher = NOTHING

    def contains(self, namespace: str, labels_of: NamespaceLabels) -> bool:
        if namespace in self.names:
            return True
        selector = self.selector
        return selector.requirements is not None and selector.matches(labels_of(namespace))

    @property
    def reads_labels(self) -> bool:
        """Whether a change of a namespace's labels can change the answer."""
        return bool(self.selector.requirements)


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Which pods to count: those that all `terms` match. Terminating ones only if `terminating`."""

    terms: tuple[tuple[NamespaceScope, LabelMatcher], ...]
    terminating: bool = True
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Counts are looked up by it in every cycle.
        object.__setattr__(self, "_hash", hash((self.terms, self.terminating)))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """`weight` is that of a preferred term, 1 of a required one. `match` are the pods that the term speaks of."""

    topology_key: str
    scope: NamespaceScope
    selector: LabelMatcher
    weight: int = 1
    match: PodMatch = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "match", PodMatch(((self.scope, self.selector),)))

    def matches(self, namespace: str, labels: Mapping[str, str], labels_of: NamespaceLabels) -> bool:
        return self.scope.contains(namespace, labels_of) and self.selector.matches(labels)


@dataclass(frozen=True, slots=True)
class AffinityTerms:
    """All terms of a pod. A list with a selector that cannot be compiled is empty, and `errors` says why."""

    required: tuple[AffinityTerm, ...] = ()
    required_anti: tuple[AffinityTerm, ...] = ()
    preferred: tuple[AffinityTerm, ...] = ()
    preferred_anti: tuple[AffinityTerm, ...] = ()
    errors: tuple[str, ...] = ()
    #: The pods that match all required terms; None if there are none.
    wanted: PodMatch | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        required = tuple((term.scope, term.selector) for term in self.required)
        object.__setattr__(self, "wanted", PodMatch(required) if required else None)

    @property
    def error(self) -> str:
        return syntax.joined(list(self.errors)) if self.errors else ""


NO_TERMS = AffinityTerms()


def affinity_terms(pod: Pod) -> AffinityTerms:
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    errors: list[str] = []
    namespace = pod.metadata.namespace

    def compiled(
        what: str, terms: tuple[PodAffinityTerm, ...] | tuple[WeightedPodAffinityTerm, ...]
    ) -> tuple[AffinityTerm, ...]:
        try:
            return tuple(_compiled(term, namespace) for term in terms)
        except SelectorError as error:
            errors.append(f"{what}: {error}")
            return ()

    to, away = affinity.pod_affinity, affinity.pod_anti_affinity
    required = compiled("requiredAffinityTerms", to.required_during_scheduling_ignored_during_execution if to else ())
    required_anti = compiled(
        "requiredAntiAffinityTerms", away.required_during_scheduling_ignored_during_execution if away else ()
    )
    preferred = compiled(
        "preferredAffinityTerms", to.preferred_during_scheduling_ignored_during_execution if to else ()
    )
    preferred_anti = compiled(
        "preferredAntiAffinityTerms", away.preferred_during_scheduling_ignored_during_execution if away else ()
    )
    return AffinityTerms(required, required_anti, preferred, preferred_anti, tuple(errors))


def has_terms(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None)


def _compiled(given: PodAffinityTerm | WeightedPodAffinityTerm, namespace: str) -> AffinityTerm:
    term, weight = given, 1
    if isinstance(given, WeightedPodAffinityTerm):
        term, weight = given.pod_affinity_term, given.weight
    assert isinstance(term, PodAffinityTerm)
    selector = compile_label_selector(term.label_selector)
    over_namespaces = compile_label_selector(term.namespace_selector)
    names = frozenset(term.namespaces)
    if not names and term.namespace_selector is None:
        names = frozenset((namespace,))
    if over_namespaces.is_everything:
        # All namespaces, so the names add nothing: equal scopes become equal values.
        names, over_namespaces = frozenset(), EVERYTHING
    return AffinityTerm(term.topology_key, NamespaceScope(names, over_namespaces), selector, weight)
