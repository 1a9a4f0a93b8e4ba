"""The arithmetic of spreading: pods per domain, the skew that each node would have, the score of each node.

A domain is a value of a topology label, known by its code in the label's column. Arrays over domains have one entry
more than there are codes; nodes without the label have code -1 and so look up the last entry.

    Layout      which nodes take part in which domain: good as long as no node changes its labels or taints
    HardCounts  what Filter looks up: pods per domain, and what was hypothetically added and removed since
    SoftCounts  what Score looks up: the score of each domain, or of each node where a node is its own domain
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.api import taints
from kubesched.api.core import Pod, Taint
from kubesched.plugins import node_affinity
from kubesched.plugins.pod_topology_spread_constraints import HOSTNAME, Constraint
from kubesched.state.affinity_terms import PodMatch
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import Bools, Ints, NodeSet, NodeTable
from kubesched.state.pod_info import PodInfo
from kubesched.state.tallies import Domains

#: Raw score of a node that takes no part in the scoring because it lacks a topology label.
IGNORED: Final = -1

FITS, SKEWED, UNLABELLED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Places:
    """One constraint's nodes by domain, and the pods that count for it (None: none do)."""

    match: PodMatch | None
    #: Where the pods of each node count: nowhere if the constraint leaves the node out.
    counted: Domains
    #: Where each node is, left out or not. Nodes without the label are nowhere, or where the label is empty.
    located: Domains
    #: The domains in which some node counts; None for all.
    present: NDArray[np.intp] | None
    domain_count: int
    #: In how many different domains (or nowhere) the nodes are.
    located_count: int
    #: Some node lacks the label.
    has_unlabelled: bool

    def pods(self, table: NodeTable) -> Ints:
        """The counted pods per domain; 0 for the last entry."""
        if self.match is None:
            return np.zeros(self.counted.size + 1, dtype=np.int64)
        return table.pod_counts.tally(self.match).per_domain(self.counted)

    def lowest(self, pods: Ints) -> int:
        """The fewest pods in a domain in which some node counts; there must be one."""
        return int(pods[:-1].min() if self.present is None else pods.take(self.present).min())


class Layout:
    """The bins of several constraints together: a node takes part only if it has all their topology labels."""

    __slots__ = ("_label_keys", "_version", "all_have_all", "constraints", "has_all", "places", "pod")

    def __init__(
        self,
        table: NodeTable,
        pod: Pod,
        constraints: tuple[Constraint, ...],
        *,
        needs_all_labels: bool,
        comparison_operators: bool,
    ) -> None:
        self.pod = pod
        self.constraints = constraints
        nodes = table.all_nodes()
        columns = [table.label_column(constraint.topology_key) for constraint in constraints]
        codes = [column.codes[nodes.index] for column in columns]
        #: True where the node has every topology label, if that is asked for.
        self.has_all: Bools = np.ones(len(nodes), dtype=np.bool_)
        if needs_all_labels:
            for each in codes:
                self.has_all &= each >= 0
        self.all_have_all = bool(self.has_all.all())
        included: dict[tuple[bool, bool], Bools] = {}
        self.places: list[Places] = []
        for constraint, column, each in zip(constraints, columns, codes, strict=True):
            policies = (constraint.honors_affinity, constraint.honors_taints)
            if policies not in included:
                included[policies] = self.has_all & _included(pod, nodes, *policies, comparison_operators)
            located, counted = table.domains(constraint.topology_key), None
            size = located.size
            unlabelled = each < 0
            empty = column.values.find("")
            if empty >= 0 and unlabelled.any():
                located = Domains(np.where(unlabelled, empty, each).astype(np.intp), size)
            counted = located
            if not included[policies].all():
                counted = Domains(np.where(included[policies], located.of_row, size), size)
            occupied = np.bincount(counted.of_row, minlength=size + 1)[:-1] > 0
            self.places.append(
                Places(
                    match=constraint.counted(pod.metadata.namespace),
                    counted=counted,
                    located=located,
                    present=None if size and occupied.all() else np.flatnonzero(occupied),
                    domain_count=int(np.count_nonzero(occupied)),
                    located_count=int(np.count_nonzero(np.bincount(located.of_row))),
                    has_unlabelled=bool(unlabelled.any()),
                )
            )
        self._label_keys = tuple({constraint.topology_key for constraint in constraints} | _label_keys(pod))
        self._version = self._version_now(table)

    def is_good(self, table: NodeTable, pod: Pod, constraints: tuple[Constraint, ...]) -> bool:
        same = self.pod is pod and (self.constraints is constraints or self.constraints == constraints)
        return same and self._version == self._version_now(table)

    def _version_now(self, table: NodeTable) -> tuple[int, ...]:
        """Changes with whatever the bins were made of: the set of nodes, their taints, the labels looked at."""
        labels = [table.label_column(key).version for key in self._label_keys]
        return table.membership_version, table.taints_version, *labels


class HardCounts:
    """Pods per domain for each hard constraint of a pod, as of PreFilter and with what was tried since."""

    __slots__ = ("_base", "_deltas", "_verdicts", "layout", "self_counts")

    def __init__(self, layout: Layout, base: list[Ints], self_counts: list[int]) -> None:
        self.layout = layout
        self._base = base
        self._deltas: dict[tuple[int, int], int] = {}
        self._verdicts: dict[int, NDArray[np.int32]] = {}
        #: Per constraint whether the pod would count itself, 0 or 1.
        self.self_counts = self_counts

    @classmethod
    def of(cls, pod: Pod, table: NodeTable, layout: Layout) -> HardCounts:
        self_counts = [int(constraint.selector.matches(pod.metadata.labels)) for constraint in layout.constraints]
        return cls(layout, [places.pods(table) for places in layout.places], self_counts)

    def clone(self) -> HardCounts:
        twin = HardCounts(self.layout, self._base, self.self_counts)
        twin._deltas.update(self._deltas)
        twin._verdicts.update(self._verdicts)
        return twin

    def change(self, constraint: int, domain: int, by: int) -> None:
        key = (constraint, domain)
        self._deltas[key] = self._deltas.get(key, 0) + by
        self._verdicts.pop(constraint, None)

    def pods(self, index: int) -> Ints:
        """Pods per domain of a constraint."""
        counts = self._base[index]
        deltas = [(domain, by) for (constraint, domain), by in self._deltas.items() if constraint == index and by]
        if deltas:
            counts = counts.copy()
            for domain, by in deltas:
                counts[domain] += by
        return counts

    def lowest(self, index: int) -> int:
        """The global minimum: 0 while there are fewer domains than the constraint asks for."""
        places = self.layout.places[index]
        if places.domain_count < max(self.layout.constraints[index].min_domains, 1):
            return 0
        return places.lowest(self.pods(index))

    def verdicts(self, index: int) -> NDArray[np.int32]:
        """FITS or SKEWED by domain, UNLABELLED last."""
        known = self._verdicts.get(index)
        if known is None:
            limit = self.layout.constraints[index].max_skew + self.lowest(index) - self.self_counts[index]
            known = self._verdicts[index] = (self.pods(index) > limit).astype(np.int32)
            known[-1] = UNLABELLED
        return known


class SoftCounts:
    """The scores of domains and nodes for the soft constraints of a pod."""

    __slots__ = ("_tables", "_weights", "layout")

    def __init__(self, table: NodeTable, layout: Layout, feasible: NodeSet) -> None:
        self.layout = layout
        scored = None if layout.all_have_all else layout.has_all[feasible.index]
        everywhere = scored is None and len(feasible) == len(layout.has_all)
        self._weights: list[float] = []
        self._tables: list[NDArray[np.float64] | None] = []
        for constraint, places in zip(layout.constraints, layout.places, strict=True):
            if constraint.topology_key == HOSTNAME:
                weight = topology_weight(len(feasible) if scored is None else int(np.count_nonzero(scored)))
                self._tables.append(None)
            else:
                if everywhere:
                    count = places.located_count
                else:
                    domains = places.located.of_row[feasible.index]
                    occupied = np.bincount(domains if scored is None else domains[scored])
                    count = int(np.count_nonzero(occupied))
                weight = topology_weight(count)
                pods = places.pods(table)
                scores = pods.astype(np.float64) * weight + float(constraint.max_skew - 1)
                scores[-1] = 0.0
                self._tables.append(scores)
            self._weights.append(weight)

    def raw(self, nodes: NodeSet) -> Ints:
        """The score of each node: more pods, more score. IGNORED where the node takes no part."""
        raw = self._of_domains(nodes)
        if not self.layout.all_have_all:
            raw[self._lacks_label(nodes)] = IGNORED
        return raw

    def _of_domains(self, nodes: NodeSet) -> Ints:
        if len(self._tables) == 1 and (table := self._tables[0]) is not None:
            return rounded(table).take(nodes.table.domains_at(self.layout.constraints[0].topology_key, nodes.index))
        total: NDArray[np.float64] | None = None
        for index, constraint in enumerate(self.layout.constraints):
            scores = self._tables[index]
            if scores is None:
                each = self._by_host(nodes, index)
                if self.layout.places[index].has_unlabelled:
                    each[nodes.table.label_column(constraint.topology_key).codes[nodes.index] < 0] = 0.0
            else:
                each = scores.take(nodes.table.domains_at(constraint.topology_key, nodes.index))
            total = each if total is None else total + each
        assert total is not None, "without constraints there is nothing to score"
        return rounded(total)

    def _by_host(self, nodes: NodeSet, index: int) -> NDArray[np.float64]:
        """Where a node is its own domain, its own pods decide, whichever nodes take part."""
        match = self.layout.places[index].match
        offset = float(self.layout.constraints[index].max_skew - 1)
        if match is None:
            return np.full(len(nodes), offset)
        scores = nodes.table.pods_matching(match)[nodes.index].astype(np.float64) * self._weights[index]
        return scores + offset if offset else scores

    def _lacks_label(self, nodes: NodeSet) -> Bools:
        missing = np.zeros(len(nodes), dtype=np.bool_)
        for constraint in self.layout.constraints:
            missing |= nodes.table.label_column(constraint.topology_key).codes[nodes.index] < 0
        return missing


def rounded(scores: NDArray[np.float64]) -> Ints:
    """To the nearest whole number, halves up. Scores are not negative."""
    whole = np.floor(scores)
    whole += scores - whole >= 0.5
    return whole.astype(np.int64)


@lru_cache(maxsize=1024)
def topology_weight(domain_count: int) -> float:
    """How much a pod in one of so many domains weighs: ln(count + 2)."""
    return _log(float(domain_count + 2))


def takes_part(constraint: Constraint, pod: Pod, node: NodeInfo, *, comparison_operators: bool) -> bool:
    """Whether the constraint's inclusion policies let the pods of the node count."""
    if constraint.honors_affinity and not node_affinity.fits(pod, node):
        return False
    return not constraint.honors_taints or _tolerates(pod, node.taints, comparison_operators)


def domains_of(layout: Layout, table: NodeTable, node: NodeInfo) -> list[int] | None:
    """Per constraint the domain of a node; None if it lacks one of the topology labels."""
    domains = []
    for constraint in layout.constraints:
        value = node.labels.get(constraint.topology_key)
        if value is None:
            return None
        domains.append(table.label_column(constraint.topology_key).values.find(value))
    return domains


def try_pod(
    counts: HardCounts,
    table: NodeTable,
    pod: Pod,
    other: PodInfo,
    node: NodeInfo,
    by: int,
    *,
    comparison_operators: bool,
) -> None:
    """Count `other` on the node once more (`by` 1) or once less (-1).

    As the original has it, this knows neither terminating pods nor that an empty selector counts none.
    """
    if other.pod.metadata.namespace != pod.metadata.namespace or node.node is None:
        return
    domains = domains_of(counts.layout, table, node)
    if domains is None:
        return
    labels = other.pod.metadata.labels
    for index, (constraint, domain) in enumerate(zip(counts.layout.constraints, domains, strict=True)):
        if constraint.selector.matches(labels) and takes_part(
            constraint, pod, node, comparison_operators=comparison_operators
        ):
            counts.change(index, domain, by)


def _included(
    pod: Pod, nodes: NodeSet, honors_affinity: bool, honors_taints: bool, comparison_operators: bool
) -> Bools | np.bool_:
    """Which nodes the inclusion policies let take part."""
    included: Bools | np.bool_ = np.True_
    if honors_affinity and (pod.spec.node_selector or pod.spec.affinity is not None):
        included = node_affinity.fits_rows(pod, nodes)
    if honors_taints:
        tolerated = np.array(
            [
                _tolerates(
                    pod,
                    tuple(Taint(key=key, value=value, effect=effect) for key, value, effect in keys),
                    comparison_operators,
                )
                for keys in nodes.table.taint_sets.values
            ],
            dtype=np.bool_,
        )
        included = included & tolerated.take(nodes.table.taint_set[nodes.index])
    return included


def _label_keys(pod: Pod) -> set[str]:
    """The labels of nodes that the pod's node selector and required node affinity look at."""
    keys = set(pod.spec.node_selector)
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    for term in selector.node_selector_terms if selector is not None else ():
        keys |= {requirement.key for requirement in term.match_expressions}
    return keys


def _tolerates(pod: Pod, of_node: tuple[Taint, ...], comparison_operators: bool) -> bool:
    return taints.find_untolerated(of_node, pod.spec.tolerations, comparison_operators=comparison_operators) is None


# The original computes logarithms with FreeBSD's algorithm, whose last bit is not that of every C library.
_LN2_HIGH = 6.93147180369123816490e-01
_LN2_LOW = 1.90821492927058770002e-10
_ODD = (6.666666666666735130e-01, 2.857142874366239149e-01, 1.818357216161805012e-01, 1.479819860511658591e-01)
_EVEN = (3.999999999940941908e-01, 2.222219843214978396e-01, 1.531383769920937332e-01)


def _log(x: float) -> float:
    """The natural logarithm of a number of at least 1."""
    fraction, exponent = math.frexp(x)
    if fraction < math.sqrt(2) / 2:
        fraction *= 2
        exponent -= 1
    f = fraction - 1
    k = float(exponent)
    s = f / (2 + f)
    s2 = s * s
    s4 = s2 * s2
    odd = s2 * (_ODD[0] + s4 * (_ODD[1] + s4 * (_ODD[2] + s4 * _ODD[3])))
    even = s4 * (_EVEN[0] + s4 * (_EVEN[1] + s4 * _EVEN[2]))
    half_square = 0.5 * f * f
    return k * _LN2_HIGH - ((half_square - (s * (half_square + (odd + even)) + k * _LN2_LOW)) - f)
