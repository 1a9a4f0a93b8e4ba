"""`PodCounts`: per node, how many pods a selector matches and how many have some affinity term, kept up to date.

Pods that no selector can tell apart form a class: same namespace, labels and terms, and either terminating or not. A
tally (see `tallies`) is fed by the classes that it counts. So placing a pod costs a look for its class and one addition
per tally of that class, and a tally that is asked for the first time is summed up over classes, not over pods.

Tallies that were not asked for in a while are dropped. Classes and terms cover all placed pods, also those of nodes
without Node object, which appear in no tally.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec
import numpy as np

from kubesched.state.affinity_terms import NO_TERMS, AffinityTerm, NamespaceScope, PodMatch, affinity_terms, has_terms
from kubesched.state.tallies import ClassKey, PodClass, Tally

if TYPE_CHECKING:
    from kubesched.api.selectors import LabelMatcher
    from kubesched.state.node_info import NodeInfo
    from kubesched.state.node_table import Ints
    from kubesched.state.objects import ObjectIndex
    from kubesched.state.pod_info import PodInfo

#: Bounds on the memory: array cells over all tallies, and tallies in any case.
_CELLS_MAX = 16_000_000
_TALLIES_MIN = 64

#: Remembered answers of `terms_about`.
_REMEMBERED_MAX = 4096

_NO_LABELS: Mapping[str, str] = {}
#: A value as bytes. Equal bytes mean equal values; maps that differ in order only may give other bytes.
encoded: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode


class TermKind(Enum):
    """What a placed pod's term means for a new pod that it matches."""

    #: Required anti-affinity: the new pod must not come to the same domain.
    REPELS = "repels"
    #: Required affinity: the new pod is welcome there (`hardPodAffinityWeight`).
    NEEDS = "needs"
    #: Preferred affinity, or anti-affinity with a negative weight.
    PREFERS = "prefers"


class PlacedTerm:
    """A term that placed pods have, with the classes of those pods. Equal terms of different pods are one.

    `weight` is the sum over equal terms of one pod, negative for preferred anti-affinity.
    """

    __slots__ = ("classes", "kind", "term")

    def __init__(self, kind: TermKind, term: AffinityTerm) -> None:
        self.kind = kind
        self.term = term
        self.classes: dict[ClassKey, PodClass] = {}

    def holders(self) -> Iterator[tuple[NodeInfo, PodInfo]]:
        """The pods that have the term, with their nodes."""
        for pods in self.classes.values():
            for info in pods.nodes:
                for pod in info.pods.values():
                    if class_key(pod) == pods.key:
                        yield info, pod


class PodCounts:
    def __init__(self, capacity: int, objects: ObjectIndex | None) -> None:
        self._capacity = capacity
        self._objects = objects
        self._namespaces_version = self._version_of_namespaces()
        self._classes: dict[ClassKey, PodClass] = {}
        self._classes_in: dict[str, dict[ClassKey, PodClass]] = {}
        self._tallies: OrderedDict[PodMatch | PlacedTerm, Tally] = OrderedDict()
        self._matches: _ByLabel[PodMatch] = _ByLabel()
        self._terms: dict[tuple[TermKind, AffinityTerm], PlacedTerm] = {}
        self._terms_by_label: _ByLabel[PlacedTerm] = _ByLabel()
        self._terms_version = 0
        self._remembered: dict[tuple[str, bytes], tuple[PlacedTerm, ...]] = {}

    # -- reading

    def tally(self, match: PodMatch) -> Tally:
        """The pods that `match` matches, per row. Good until the next change of the table, then ask again."""
        self._follow_namespaces()
        tally = self._tallies.get(match)
        if tally is not None:
            self._tallies.move_to_end(match)
            return tally
        tally = self._open(match)
        self._matches.add(match.terms[0][1], match)
        for pods in self._classes_within(match.terms[0][0]):
            if self._counts(match, pods.namespace, pods.labels, terminating=pods.terminating):
                tally.include(pods)
        return tally

    def tally_of(self, term: PlacedTerm) -> Tally:
        """The pods that have the term, per row. Good until the next change of the table, then ask again."""
        tally = self._tallies.get(term)
        if tally is not None:
            self._tallies.move_to_end(term)
            return tally
        tally = self._open(term)
        for pods in term.classes.values():
            tally.include(pods)
        return tally

    def terms_about(self, namespace: str, labels: Mapping[str, str]) -> tuple[PlacedTerm, ...]:
        """The terms of placed pods that match a pod of this namespace with these labels."""
        self._follow_namespaces()
        if not self._terms:
            return ()
        key = (namespace, encoded(labels))
        known = self._remembered.get(key)
        if known is None:
            if len(self._remembered) >= _REMEMBERED_MAX:
                self._remembered.clear()
            known = self._remembered[key] = tuple(
                placed
                for placed in self._terms_by_label.candidates(labels)
                if placed.term.matches(namespace, labels, self.namespace_labels)
            )
        return known

    @property
    def terms_version(self) -> int:
        """Grows with whatever may change the answers of `terms_about`."""
        self._follow_namespaces()
        return self._terms_version

    def matches(self, match: PodMatch, pod: PodInfo) -> bool:
        """Whether `match` counts the pod."""
        metadata = pod.pod.metadata
        terminating = metadata.deletion_timestamp is not None
        return self._counts(match, metadata.namespace, metadata.labels, terminating=terminating)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Empty for a namespace that we know no object of."""
        found = self._objects.get("Namespace", name) if self._objects is not None else None
        return found.metadata.labels if found is not None else _NO_LABELS

    # -- changes, told by the node table

    def place(self, pod: PodInfo, info: NodeInfo) -> None:
        key = class_key(pod)
        pods = self._classes.get(key)
        if pods is None:
            pods = self._open_class(key, pod)
        pod.class_key = pods.key
        pods.nodes[info] = pods.nodes.get(info, 0) + 1
        row = info.row
        if row >= 0:
            for tally in pods.tallies:
                tally.change(row, 1)

    def displace(self, pod: PodInfo, info: NodeInfo) -> None:
        pods = self._classes[class_key(pod)]
        left = pods.nodes[info] - 1
        if left:
            pods.nodes[info] = left
        else:
            del pods.nodes[info]
        row = info.row
        if row >= 0:
            for tally in pods.tallies:
                tally.change(row, -1)
        if not pods.nodes:
            self._close_class(pods)

    def swap(self, old: PodInfo, new: PodInfo, info: NodeInfo) -> None:
        if class_key(old) == class_key(new):
            new.class_key = old.class_key
        else:
            self.displace(old, info)
            self.place(new, info)

    def open_row(self, info: NodeInfo) -> None:
        """The node has got a row; its pods may be known for longer."""
        row = info.row
        for tally in self._tallies.values():
            tally.forget_sums()
            tally.counts[row] = 0
        for pod in info.pods.values():
            for tally in self._classes[class_key(pod)].tallies:
                tally.counts[row] += 1

    def close_row(self) -> None:
        """A node is gone; another may have moved into its row."""
        for tally in self._tallies.values():
            tally.forget_sums()

    def columns(self) -> Iterator[Ints]:
        """All counts, to move rows in."""
        return (tally.counts for tally in self._tallies.values())

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for tally in self._tallies.values():
            larger = np.zeros(capacity, dtype=np.int64)
            larger[: len(tally.counts)] = tally.counts
            tally.counts = larger

    # -- the self-check

    def findings(self, infos: Collection[NodeInfo]) -> list[str]:
        """Where the tallies differ from a count of the pods of `infos`, all nodes of the table."""
        self._follow_namespaces()
        names = {info.row: info.name for info in infos if info.row >= 0}
        samples: dict[ClassKey, PodInfo] = {}
        pods_by_row: dict[ClassKey, Counter[int]] = {}
        holders: dict[tuple[TermKind, AffinityTerm], list[ClassKey]] = {}
        for info in infos:
            for pod in info.pods.values():
                key = _made_class_key(pod)
                if key not in samples:
                    samples[key], pods_by_row[key] = pod, Counter()
                    for term in _terms_of(pod):
                        holders.setdefault(term, []).append(key)
                pods_by_row[key][info.row] += 1
        findings = []
        for counted, tally in self._tallies.items():
            if isinstance(counted, PlacedTerm):
                classes = holders.get((counted.kind, counted.term), [])
            else:
                classes = [key for key, pod in samples.items() if self.matches(counted, pod)]
            recount = np.zeros(len(tally.counts), dtype=np.int64)
            for key in classes:
                for row, pods in pods_by_row[key].items():
                    if row >= 0:
                        recount[row] += pods
            for row in np.flatnonzero(tally.counts != recount).tolist():
                if row in names:
                    have, want = tally.counts[row], recount[row]
                    findings.append(f"node {names[row]}: tally of {counted} is {have}, recount {want}")
            findings += [f"tally of {counted} has other sums per domain" for _ in tally.wrong_sums(len(names))]
        known = sum(count for pods in self._classes.values() for count in pods.nodes.values())
        present = sum(len(info.pods) for info in infos)
        if known != present:
            findings.append(f"classes hold {known} pods, nodes {present}")
        if self._terms.keys() != holders.keys():
            findings.append(f"{len(self._terms)} terms of placed pods are indexed, recount {len(holders)}")
        return findings

    # -- classes

    def _open_class(self, key: ClassKey, pod: PodInfo) -> PodClass:
        pods = self._classes[key] = PodClass(key, pod)
        self._classes_in.setdefault(pods.namespace, {})[key] = pods
        for match in self._matches.candidates(pods.labels):
            if self._counts(match, pods.namespace, pods.labels, terminating=pods.terminating):
                self._tallies[match].include(pods)
        terms = []
        for kind, term in _terms_of(pod):
            placed = self._terms.get((kind, term))
            if placed is None:
                placed = self._terms[kind, term] = PlacedTerm(kind, term)
                self._terms_by_label.add(term.selector, placed)
                self._forget_terms_about()
            placed.classes[key] = pods
            terms.append(placed)
            tally = self._tallies.get(placed)
            if tally is not None:
                tally.include(pods)
        pods.terms = tuple(terms)
        return pods

    def _close_class(self, pods: PodClass) -> None:
        del self._classes[pods.key]
        siblings = self._classes_in[pods.namespace]
        del siblings[pods.key]
        if not siblings:
            del self._classes_in[pods.namespace]
        for tally in pods.tallies:
            del tally.classes[pods]
        for placed in pods.terms:
            del placed.classes[pods.key]
            if not placed.classes:
                del self._terms[placed.kind, placed.term]
                self._terms_by_label.remove(placed.term.selector, placed)
                if placed in self._tallies:
                    self._tallies.pop(placed).close()
                self._forget_terms_about()

    def _classes_within(self, scope: NamespaceScope) -> Iterable[PodClass]:
        if scope.selector.is_nothing:
            return (pods for name in scope.names for pods in self._classes_in.get(name, {}).values())
        return self._classes.values()

    def _counts(self, match: PodMatch, namespace: str, labels: Mapping[str, str], *, terminating: bool) -> bool:
        if terminating and not match.terminating:
            return False
        for scope, selector in match.terms:
            if not scope.contains(namespace, self.namespace_labels) or not selector.matches(labels):
                return False
        return True

    # -- tallies

    def _open(self, key: PodMatch | PlacedTerm) -> Tally:
        count_max = max(_TALLIES_MIN, _CELLS_MAX // self._capacity)
        while len(self._tallies) >= count_max:
            self._drop(next(iter(self._tallies)))
        tally = self._tallies[key] = Tally(self._capacity)
        return tally

    def _drop(self, key: PodMatch | PlacedTerm) -> None:
        self._tallies.pop(key).close()
        if isinstance(key, PodMatch):
            self._matches.remove(key.terms[0][1], key)

    # -- namespaces

    def _follow_namespaces(self) -> None:
        """After a change of namespaces, forget what was derived from their labels."""
        version = self._version_of_namespaces()
        if version == self._namespaces_version:
            return
        self._namespaces_version = version
        self._forget_terms_about()
        for key in list(self._tallies):
            if isinstance(key, PodMatch) and any(scope.reads_labels for scope, _ in key.terms):
                self._drop(key)

    def _forget_terms_about(self) -> None:
        self._terms_version += 1
        self._remembered.clear()

    def _version_of_namespaces(self) -> int:
        return self._objects.version("Namespace") if self._objects is not None else 0


def class_key(pod: PodInfo) -> ClassKey:
    """Pods with equal keys are of one class. The order of labels counts, which may make two classes out of one."""
    key = pod.class_key
    if key is None:
        key = pod.class_key = _made_class_key(pod)
    return key


def _made_class_key(pod: PodInfo) -> ClassKey:
    metadata, spec = pod.pod.metadata, pod.pod.spec
    terms = b""
    if has_terms(pod.pod):
        assert spec.affinity is not None
        terms = encoded((spec.affinity.pod_affinity, spec.affinity.pod_anti_affinity))
    return metadata.namespace, encoded(metadata.labels), metadata.deletion_timestamp is not None, terms


def _terms_of(pod: PodInfo) -> list[tuple[TermKind, AffinityTerm]]:
    """The terms that matter to other pods, equal ones once with their weights added."""
    terms = affinity_terms(pod.pod)
    if terms is NO_TERMS:
        return []
    weights: dict[tuple[TermKind, AffinityTerm], int] = {}
    for kind, sign, listed in (
        (TermKind.REPELS, 1, terms.required_anti),
        (TermKind.NEEDS, 1, terms.required),
        (TermKind.PREFERS, 1, terms.preferred),
        (TermKind.PREFERS, -1, terms.preferred_anti),
    ):
        for term in listed:
            # Attraction and repulsion stay apart: even where they cancel out, the pod has a say.
            key = (kind, AffinityTerm(term.topology_key, term.scope, term.selector, sign))
            weights[key] = weights.get(key, 0) + term.weight
    return [
        (kind, AffinityTerm(term.topology_key, term.scope, term.selector, term.weight * weight))
        for (kind, term), weight in weights.items()
    ]


I = TypeVar("I")  # noqa: E741


class _ByLabel(Generic[I]):
    """Items by a label that their selector demands, so that a set of labels finds the few that may match it."""

    __slots__ = ("_anywhere", "_by_label")

    def __init__(self) -> None:
        self._by_label: dict[tuple[str, str], dict[I, None]] = {}
        self._anywhere: dict[I, None] = {}

    def add(self, selector: LabelMatcher, item: I) -> None:
        pair = _demanded(selector)
        bucket = self._anywhere if pair is None else self._by_label.setdefault(pair, {})
        bucket[item] = None

    def remove(self, selector: LabelMatcher, item: I) -> None:
        pair = _demanded(selector)
        bucket = self._anywhere if pair is None else self._by_label[pair]
        del bucket[item]
        if pair is not None and not bucket:
            del self._by_label[pair]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[I]:
        yield from self._anywhere
        for pair in labels.items():
            bucket = self._by_label.get(pair)
            if bucket:
                yield from bucket


def _demanded(selector: LabelMatcher) -> tuple[str, str] | None:
    """Some label that whatever the selector matches must have."""
    for requirement in selector.requirements or ():
        if requirement.operator in ("=", "==", "in") and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None
