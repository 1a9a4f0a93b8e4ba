"""`Tally`: how many pods of certain classes each node has, and each domain of a topology, kept up to date.

Pods that no selector can tell apart form a class. A tally counts those of some classes by row of the node table; what
it was asked to add up by domain it keeps added up, and so the weighted sums of several tallies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from kubesched.state.node_info import NodeInfo
    from kubesched.state.node_table import Ints
    from kubesched.state.pod_counts import PlacedTerm
    from kubesched.state.pod_info import PodInfo

#: (namespace, labels, terminating, terms); labels and terms encoded.
ClassKey: TypeAlias = tuple[str, bytes, bool, bytes]

#: Topologies over which a tally keeps its sums.
_TOPOLOGIES_MAX = 8
#: Weighted sums of which the counts of one tally by one topology are a part.
_WEIGHTED_SUMS_MAX = 4


class PodClass:
    """Pods that no selector can tell apart."""

    __slots__ = ("key", "labels", "namespace", "nodes", "tallies", "terminating", "terms")

    def __init__(self, key: ClassKey, pod: PodInfo) -> None:
        self.key = key
        self.namespace = pod.pod.metadata.namespace
        self.labels = pod.pod.metadata.labels
        self.terminating = key[2]
        #: How many of them are on each node.
        self.nodes: dict[NodeInfo, int] = {}
        #: The terms that each of them has.
        self.terms: tuple[PlacedTerm, ...] = ()
        #: The tallies that count them.
        self.tallies: list[Tally] = []


class Domains:
    """The rows of the node table by some topology: `of_row[row]` is the domain in which the pods of the node count.

    Domains are numbered from 0; number `size` stands for none. Never changed: other domains are another object.
    """

    __slots__ = ("of_row", "size")

    def __init__(self, of_row: NDArray[np.intp], size: int) -> None:
        self.of_row = of_row
        self.size = size


class DomainCounts:
    """The pods of a tally in each domain of a topology, followed; not to be changed by those who look.

    `per_domain`: int64[size + 1], pods, with 0 as last entry; `total`: pods on nodes that are in a domain.
    """

    __slots__ = ("_weighted_sums", "domains", "per_domain", "total")

    def __init__(self, domains: Domains, counts: Ints) -> None:
        self.domains = domains
        self.per_domain: Ints = _per_domain(domains, counts)
        self.total = int(self.per_domain.sum())
        #: Those that these are a part of, with their weight there.
        self._weighted_sums: dict[WeightedCounts, tuple[Ints, int]] = {}

    def change(self, row: int, by: int) -> None:
        domains = self.domains
        domain = int(domains.of_row[row])
        if domain == domains.size:
            return
        self.per_domain[domain] += by
        self.total += by
        for summed, weight in self._weighted_sums.values():
            summed[domain] += by * weight

    def close(self) -> None:
        """Others would follow sums that these are a part of for ever, and hold these through them."""
        for counts in list(self._weighted_sums):
            _end(counts)

    def is_wrong(self, counts: Ints) -> bool:
        recount = _per_domain(self.domains, counts)
        if self.total != recount.sum() or not np.array_equal(self.per_domain, recount):
            return True
        return any(
            not np.array_equal(summed, sum(each.per_domain * weight for each, weight in weighted))
            for weighted, (summed, _) in self._weighted_sums.items()
        )


#: Pods by the same domains, of several tallies, and their weights.
WeightedCounts: TypeAlias = tuple[tuple[DomainCounts, int], ...]


def weighted_sum(counts: WeightedCounts) -> Ints:
    """Weights that add up in each domain, and 0 as last entry: int64[size + 1], followed from now on.

    To be looked at before the next change of the table, and not to be changed. There is one tally at least.
    """
    known = counts[0][0]._weighted_sums.get(counts)
    if known is not None:
        return known[0]
    summed = np.zeros(len(counts[0][0].per_domain), dtype=np.int64)
    weights: dict[DomainCounts, int] = {}
    for each, weight in counts:
        summed += each.per_domain * weight
        weights[each] = weights.get(each, 0) + weight
    for each, weight in weights.items():
        if len(each._weighted_sums) >= _WEIGHTED_SUMS_MAX:
            _end(next(iter(each._weighted_sums)))
        each._weighted_sums[counts] = summed, weight
    return summed


def _end(counts: WeightedCounts) -> None:
    """Nobody follows this sum any longer."""
    for each, _ in counts:
        each._weighted_sums.pop(counts, None)


class Tally:
    """`counts[row]`: pods of certain classes on each node. Entries from the table's `row_count` on mean nothing."""

    __slots__ = ("_by_domain", "classes", "counts")

    def __init__(self, capacity: int) -> None:
        self.counts: Ints = np.zeros(capacity, dtype=np.int64)
        self.classes: dict[PodClass, None] = {}
        #: Followed from the first time they are asked for; for the topologies asked for last.
        self._by_domain: dict[Domains, DomainCounts] = {}

    def per_domain(self, domains: Domains) -> Ints:
        """The pods in each domain, and 0 as last entry. The array is the caller's."""
        return self.counts_by(domains).per_domain.copy()

    def counts_by(self, domains: Domains) -> DomainCounts:
        """The same, to be looked at before the next change of the table."""
        known = self._by_domain.get(domains)
        if known is None:
            if len(self._by_domain) >= _TOPOLOGIES_MAX:
                self._by_domain.pop(next(iter(self._by_domain))).close()
            known = self._by_domain[domains] = DomainCounts(domains, self.counts)
        return known

    def change(self, row: int, by: int) -> None:
        self.counts[row] += by
        for each in self._by_domain.values():
            each.change(row, by)

    def forget_sums(self) -> None:
        for each in self._by_domain.values():
            each.close()
        self._by_domain.clear()

    def wrong_sums(self, row_count: int) -> Iterator[Domains]:
        """Domains of other rows than there are, or for which the sums are not those of a recount."""
        for domains, known in self._by_domain.items():
            if len(domains.of_row) != row_count or known.is_wrong(self.counts):
                yield domains

    def include(self, pods: PodClass) -> None:
        self.classes[pods] = None
        pods.tallies.append(self)
        for info, count in pods.nodes.items():
            if info.row >= 0:
                self.change(info.row, count)

    def close(self) -> None:
        for pods in self.classes:
            pods.tallies.remove(self)
        self.classes = {}
        self.forget_sums()


def _per_domain(domains: Domains, counts: Ints) -> Ints:
    sums: Ints = np.bincount(domains.of_row, counts[: len(domains.of_row)], domains.size + 1).astype(np.int64)
    sums[-1] = 0
    return sums
