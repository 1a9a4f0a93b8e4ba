"""`Ranked`: things in order of preference, each within reach of nodes with certain labels. Which is best for a node?

Volumes of a class and capacities of a driver come by the thousand, most of them bound to one value of one label (a host
name, a zone). Those are looked up by that value, so that asking costs what the answers cost, not what the things cost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Final, Generic, TypeAlias, TypeVar

import numpy as np

from kubesched.api import selectors
from kubesched.api.selectors import LabelMatcher, NodeSelector, NodeTermMatcher, Requirement
from kubesched.plugins import node_terms
from kubesched.state.node_table import Bools, Ints, NodeSet

T = TypeVar("T")

#: Requirements on the labels of a node: all those of one term must hold. No terms: no node at all.
Terms: TypeAlias = tuple[tuple[Requirement, ...], ...]

EVERYWHERE: Final[Terms] = ((),)


class Ranked(Generic[T]):
    """`things` are (thing, where), the best first. An answer is a rank; `len()` stands for none."""

    __slots__ = ("_by_label", "_elsewhere", "_everywhere", "things")

    def __init__(self, things: Iterable[tuple[T, Terms]]) -> None:
        self.things: list[T] = []
        self._everywhere: list[int] = []
        #: Ranks by value of one label key, ascending.
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._elsewhere: list[tuple[int, Terms]] = []
        for rank, (thing, where) in enumerate(things):
            self.things.append(thing)
            if where == EVERYWHERE:
                self._everywhere.append(rank)
            elif len(where) == 1 and len(where[0]) == 1 and where[0][0].operator in ("in", "=", "=="):
                (requirement,) = where[0]
                ranks = self._by_label.setdefault(requirement.key, {})
                for value in requirement.values:
                    ranks.setdefault(value, []).append(rank)
            elif where:
                self._elsewhere.append((rank, where))

    def __len__(self) -> int:
        return len(self.things)

    def best(self, labels: Mapping[str, str], taken: Collection[int] = ()) -> int:
        """The lowest rank within reach of a node with these labels that is not `taken`."""
        best = _first(self._everywhere, taken, len(self.things))
        for key, ranks in self._by_label.items():
            value = labels.get(key)
            if value is not None:
                best = min(best, _first(ranks.get(value, ()), taken, best))
        for rank, where in self._elsewhere:
            if rank >= best:
                break
            if rank not in taken and matches(where, labels):
                return rank
        return best

    def best_rows(self, nodes: NodeSet) -> Ints:
        """`best` for each node of the set, none being taken."""
        none = len(self.things)
        best = np.full(len(nodes), self._everywhere[0] if self._everywhere else none, dtype=np.int64)
        for key, ranks in self._by_label.items():
            column = nodes.table.label_column(key)
            # Code -1, of nodes without the label, looks up the last entry.
            by_code = np.full(len(column.values) + 1, none, dtype=np.int64)
            for value, there in ranks.items():
                code = column.values.find(value)
                if code >= 0:
                    by_code[code] = there[0]
            np.minimum(best, by_code.take(column.codes[nodes.index]), out=best)
        for rank, where in self._elsewhere:
            np.minimum(best, np.where(matching(where, nodes), rank, none), out=best)
        return best


@lru_cache(65536)
def terms_of_node_selector(selector: NodeSelector) -> Terms:
    """A volume's affinity is held against labels alone: the name of the node counts as empty (v1.36)."""
    terms = selectors.compile_node_selector(selector).terms
    return tuple(term.labels for term in terms if not term.errors and _holds_without_name(term))


def terms_of_labels(matcher: LabelMatcher) -> Terms:
    return () if matcher.requirements is None else (matcher.requirements,)


def matches(where: Terms, labels: Mapping[str, str]) -> bool:
    return any(all(requirement.matches(labels) for requirement in term) for term in where)


def matching(where: Terms, nodes: NodeSet) -> Bools:
    """`matches` for each node of the set."""
    if len(where) == 1:
        return node_terms.all_hold(where[0], nodes)
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for term in where:
        matched |= node_terms.all_hold(term, nodes)
    return matched


def _holds_without_name(term: NodeTermMatcher) -> bool:
    return all((field.value == "") == field.equal for field in term.fields)


def _first(ranks: Iterable[int], taken: Collection[int], none: int) -> int:
    return next((rank for rank in ranks if rank not in taken), none)
