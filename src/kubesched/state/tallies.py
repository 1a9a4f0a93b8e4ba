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
#: Weighted sums that are kept up to date with one tally's sums.
_MIXES_MAX = 4


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


class Sums:
    """The pods of a tally in each domain, followed. Not to be changed by those who look."""

    __slots__ = ("_mixes", "domains", "per_domain", "total")

    def __init__(self, domains: Domains, counts: Ints) -> None:
        self.domains = domains
        #: One entry per domain, and 0 as last.
        self.per_domain: Ints = _summed(domains, counts)
        #: All of these.
        self.total = int(self.per_domain.sum())
        #: The weighted sums that it has a part in, with its weight there.
        self._mixes: dict[Parts, tuple[Ints, int]] = {}

    def change(self, row: int, by: int) -> None:
        domains = self.domains
        if row >= len(domains.of_row):
            return
        domain = int(domains.of_row[row])
        if domain == domains.size:
            return
        self.per_domain[domain] += by
        self.total += by
        for mixed, weight in self._mixes.values():
            mixed[domain] += by * weight

    def mixed(self, parts: Parts) -> Ints:
        """See `mixed_sums`; it has a part there."""
        known = self._mixes.get(parts)
        if known is not None:
            return known[0]
        mixed = np.zeros(len(self.per_domain), dtype=np.int64)
        for sums, weight in parts:
            mixed += sums.per_domain * weight
        for sums in dict.fromkeys(sums for sums, _ in parts):
            if len(sums._mixes) >= _MIXES_MAX:
                sums.close()
            sums._mixes[parts] = mixed, sum(weight for each, weight in parts if each is sums)
        return mixed

    def close(self) -> None:
        """Its part in weighted sums is over: nobody follows these any longer."""
        for parts in list(self._mixes):
            for sums, _ in parts:
                sums._mixes.pop(parts, None)

    def is_wrong(self, counts: Ints) -> bool:
        recount = _summed(self.domains, counts)
        if self.total != recount.sum() or not np.array_equal(self.per_domain, recount):
            return True
        return any(
            not np.array_equal(mixed, sum(sums.per_domain * weight for sums, weight in parts))
            for parts, (mixed, _) in self._mixes.items()
        )


#: Sums of several tallies over the same domains, each with its weight.
Parts: TypeAlias = tuple[tuple[Sums, int], ...]


def mixed_sums(parts: Parts) -> Ints:
    """Weighted sums per domain, and 0 as last entry; to be looked at before the next change of the table, and not to be
    changed. Parts over the same domains, one at least."""
    return parts[0][0].mixed(parts)


class Tally:
    """`counts[row]`: pods of certain classes on each node. Entries from the table's `row_count` on mean nothing."""

    __slots__ = ("_sums", "classes", "counts")

    def __init__(self, capacity: int) -> None:
        self.counts: Ints = np.zeros(capacity, dtype=np.int64)
        self.classes: dict[PodClass, None] = {}
        #: Followed from the first time they are asked for; for the topologies asked for last.
        self._sums: dict[Domains, Sums] = {}

    def per_domain(self, domains: Domains) -> Ints:
        """The pods in each domain, and 0 as last entry. The array is the caller's."""
        return self.sums(domains).per_domain.copy()

    def sums(self, domains: Domains) -> Sums:
        """The same, to be looked at before the next change of the table."""
        sums = self._sums.get(domains)
        if sums is None:
            if len(self._sums) >= _TOPOLOGIES_MAX:
                self._sums.pop(next(iter(self._sums))).close()
            sums = self._sums[domains] = Sums(domains, self.counts)
        return sums

    def change(self, row: int, by: int) -> None:
        self.counts[row] += by
        for sums in self._sums.values():
            sums.change(row, by)

    def forget_sums(self) -> None:
        for sums in self._sums.values():
            sums.close()
        self._sums.clear()

    def wrong_sums(self, row_count: int) -> Iterator[Domains]:
        """Domains over as many rows as there are, for which the sums are not those of a recount."""
        for domains, sums in self._sums.items():
            if len(domains.of_row) == row_count and sums.is_wrong(self.counts):
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


def _summed(domains: Domains, counts: Ints) -> Ints:
    sums: Ints = np.bincount(domains.of_row, counts[: len(domains.of_row)], domains.size + 1).astype(np.int64)
    sums[-1] = 0
    return sums
