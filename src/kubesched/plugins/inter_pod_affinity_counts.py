"""The arithmetic of inter-pod affinity: pods per domain of each topology that some term speaks of.

A domain is a value of a topology label, known by its code in the label's column. Arrays over domains have one entry
more than there are codes; nodes without the label have code -1 and so look up the last entry, which stays 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.state.affinity_terms import AffinityTerm, AffinityTerms
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Ints, NodeSet, NodeTable
from kubesched.state.pod_counts import PlacedTerm, PodCounts, TermKind
from kubesched.state.pod_info import PodInfo
from kubesched.state.tallies import DomainCounts, Tally, weighted_sum

#: What may be wrong with a node; of several, the highest is told.
FITS, REPELLED, UNWANTED, PARTNERLESS = 0, 1, 2, 3

#: Pods, or weights, per domain of each topology key.
PodsByKey: TypeAlias = dict[str, Ints]


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod that looks for a node, with its terms. `meets_own_terms`: it matches all its required affinity terms."""

    pod: Pod
    terms: AffinityTerms
    meets_own_terms: bool


class RequiredCounts:
    """What Filter looks up, as of PreFilter and with what was tried since.

    `repelling`: terms of placed pods, by key, that the pod must not come near; `wanted`: placed pods that match all its
    affinity terms; `unwanted`: placed pods that match some of its anti-affinity terms, once for each.
    """

    __slots__ = ("new", "repelling", "unwanted", "wanted")

    def __init__(self, new: NewPod, repelling: PodsByKey, wanted: PodsByKey, unwanted: PodsByKey) -> None:
        self.new = new
        self.repelling = repelling
        self.wanted = wanted
        self.unwanted = unwanted

    @classmethod
    def of(cls, new: NewPod, table: NodeTable, about: Iterable[PlacedTerm]) -> RequiredCounts:
        """`about`: the terms of placed pods that are about the pod."""
        counts = table.pod_counts
        repelling: PodsByKey = {}
        for placed in about:
            if placed.kind is TermKind.REPELS:
                add(repelling, placed.term.topology_key, table, counts.tally_of(placed))
        wanted: PodsByKey = {}
        if new.terms.wanted is not None:
            tally = counts.tally(new.terms.wanted)
            for key in keys_of(new.terms.required):
                add(wanted, key, table, tally)
        unwanted: PodsByKey = {}
        for term in new.terms.required_anti:
            add(unwanted, term.topology_key, table, counts.tally(term.match))
        return cls(new, repelling, wanted, unwanted)

    @property
    def repels(self) -> bool:
        return any(_any_above_0(pods) for pods in self.repelling.values())

    @property
    def partners_exist(self) -> bool:
        """Whether any placed pod matches all affinity terms, on a node with one of their topology labels."""
        return any(_any_above_0(pods) for pods in self.wanted.values())

    def clone(self) -> RequiredCounts:
        return RequiredCounts(self.new, dict(self.repelling), dict(self.wanted), dict(self.unwanted))

    def try_pod(self, table: NodeTable, other: PodInfo, others_terms: AffinityTerms, node: NodeInfo, by: int) -> None:
        """Count `other` on the node once more (`by` 1) or once less (-1)."""
        counts = table.pod_counts
        mine, theirs = self.new.pod.metadata, other.pod.metadata
        # Equal terms of one pod count once, as in the tallies of placed pods.
        for term in dict.fromkeys(others_terms.required_anti):
            if term.matches(mine.namespace, mine.labels, counts.namespace_labels):
                _change(self.repelling, term.topology_key, table, node, by)
        terms = self.new.terms
        if terms.required and matches_all(terms.required, theirs.namespace, theirs.labels, counts):
            for key in keys_of(terms.required):
                _change(self.wanted, key, table, node, by)
        for term in terms.required_anti:
            if term.matches(theirs.namespace, theirs.labels, counts.namespace_labels):
                _change(self.unwanted, term.topology_key, table, node, by)

    def verdicts(self) -> dict[str, NDArray[np.uint8]]:
        """For each topology key the verdict on each domain: FITS, or the weightiest of what is wrong with it. Keys
        without a domain that is wrong are left out."""
        verdicts: dict[str, NDArray[np.uint8]] = {}
        for domains, verdict in ((self.repelling, REPELLED), (self.unwanted, UNWANTED)):
            for key, pods in domains.items():
                said = (pods > 0) * np.uint8(verdict)
                verdicts[key] = np.maximum(verdicts[key], said) if key in verdicts else said
        terms = self.new.terms.required
        # The first pod of a group may go wherever the topology labels are.
        alone = bool(terms) and self.new.meets_own_terms and not self.partners_exist
        for key in keys_of(terms):
            said = (
                np.zeros(len(self.wanted[key]), np.uint8) if alone else (self.wanted[key] <= 0) * np.uint8(PARTNERLESS)
            )
            said[-1] = PARTNERLESS
            verdicts[key] = np.maximum(verdicts[key], said) if key in verdicts else said
        return {key: said for key, said in verdicts.items() if _any_above_0(said)}


class PreferredCounts:
    """What Score looks up: the weights that add up in each domain; good until the next change of the table. Empty if no
    pod has a say."""

    __slots__ = ("weights",)

    def __init__(
        self,
        table: NodeTable,
        terms: AffinityTerms,
        about: Iterable[PlacedTerm],
        *,
        hard_affinity_weight: int,
    ) -> None:
        counts = table.pod_counts
        weighted: list[tuple[str, Tally, int]] = []
        for listed, sign in ((terms.preferred, 1), (terms.preferred_anti, -1)):
            weighted += [(term.topology_key, counts.tally(term.match), sign * term.weight) for term in listed]
        for placed in about:
            if placed.kind is TermKind.PREFERS:
                weighted.append((placed.term.topology_key, counts.tally_of(placed), placed.term.weight))
            elif placed.kind is TermKind.NEEDS and hard_affinity_weight:
                weight = placed.term.weight * hard_affinity_weight
                weighted.append((placed.term.topology_key, counts.tally_of(placed), weight))
        present: dict[str, list[tuple[DomainCounts, int]]] = {}
        for key, tally, weight in weighted:
            counted = tally.counts_by(table.domains(key))
            if counted.total:
                present.setdefault(key, []).append((counted, weight))
        self.weights: PodsByKey = {key: weighted_sum(tuple(each)) for key, each in present.items()}

    def raw(self, nodes: NodeSet) -> Ints:
        raw: Ints | None = None
        for key, weights in self.weights.items():
            each = weights.take(nodes.table.domains_at(key, nodes.index))
            raw = each if raw is None else raw + each
        return np.zeros(len(nodes), dtype=np.int64) if raw is None else raw


def matches_all(terms: Sequence[AffinityTerm], namespace: str, labels: Mapping[str, str], counts: PodCounts) -> bool:
    return all(term.matches(namespace, labels, counts.namespace_labels) for term in terms)


def keys_of(terms: Sequence[AffinityTerm]) -> list[str]:
    """The topology keys, each once."""
    return list(dict.fromkeys(term.topology_key for term in terms))


def add(domains: PodsByKey, key: str, table: NodeTable, tally: Tally) -> None:
    """Add the pods of a tally to what is known per domain of the key."""
    pods = tally.per_domain(table.domains(key))
    domains[key] = domains[key] + pods if key in domains else pods


def _any_above_0(numbers: NDArray[np.integer[Any]]) -> bool:
    """Faster than `any()`, which first makes bools of them. One entry at least."""
    return bool(numbers[numbers.argmax()] > 0)


def _change(domains: PodsByKey, key: str, table: NodeTable, node: NodeInfo, by: int) -> None:
    value = node.labels.get(key)
    if value is None:
        return
    column = table.label_column(key)
    pods = domains.get(key)
    pods = np.zeros(len(column.values) + 1, dtype=np.int64) if pods is None else pods.copy()
    pods[column.values.find(value)] += by
    domains[key] = pods
