"""`Promises`: the nominated pods that a pod must leave room for, by row of the node table.

A pod heeds nominated pods of its own priority and above; those that are counted on that node already, and itself, it
does not. What all pods of one priority heed is kept and follows the nominator, so an attempt costs the nominations that
changed, not those that there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from kubesched.state.node_table import NodeTable
from kubesched.state.nominator import Nominator
from kubesched.state.pod_info import PodInfo

#: Lists are replaced, never changed: whoever finds the same one has found the same pods.
Promised: TypeAlias = dict[int, list[PodInfo]]

_PRIORITIES_MAX = 16
_NONE_APART: frozenset[int] = frozenset()


class Heeded(NamedTuple):
    """What one pod heeds. Good until the next change of nominations, nodes or placements; not to be changed."""

    by_row: Promised
    #: Rows where that is not what all pods of its priority heed.
    apart: frozenset[int]


class _Placed(Protocol):
    @property
    def node_name(self) -> str: ...


class Promises:
    def __init__(self, nominator: Nominator, table: NodeTable, placements: Mapping[str, _Placed]) -> None:
        self._nominator = nominator
        self._table = table
        #: By pod UID.
        self._placements = placements
        self._kept: OrderedDict[int, _OfPriority] = OrderedDict()

    def heeded_by(self, pod: PodInfo) -> Heeded:
        kept = self._kept.get(pod.priority)
        if kept is None:
            kept = self._kept[pod.priority] = _OfPriority(pod.priority)
            if len(self._kept) > _PRIORITIES_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(pod.priority)
        kept.follow(self._nominator, self._table)
        exceptions = self._exceptions(pod.uid)
        return self._without(kept.by_row, exceptions) if exceptions else Heeded(kept.by_row, _NONE_APART)

    def _exceptions(self, own: str) -> dict[str, set[str]]:
        """Nodes with the UIDs of pods that are nominated there and not heeded."""
        found: dict[str, set[str]] = {}
        for uid in self._nominator.uids & self._placements.keys():
            name = self._nominator.node_of(uid)
            if self._placements[uid].node_name == name:
                found.setdefault(name, set()).add(uid)
        if name := self._nominator.node_of(own):
            found.setdefault(name, set()).add(own)
        return found

    def _without(self, by_row: Promised, exceptions: Mapping[str, set[str]]) -> Heeded:
        left = dict(by_row)
        apart = {row: uids for name, uids in exceptions.items() if (row := self._table.row_of(name)) >= 0}
        for row, uids in apart.items():
            others = [pod for pod in left.pop(row, ()) if pod.uid not in uids]
            if others:
                left[row] = others
        return Heeded(left, frozenset(apart))


class _OfPriority:
    __slots__ = ("_membership_version", "_position", "_priority", "by_row")

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self._position = -1
        self._membership_version = -1
        self.by_row: Promised = {}

    def follow(self, nominator: Nominator, table: NodeTable) -> None:
        changed: Iterable[str] | None = None
        if self._membership_version == table.membership_version:
            changed = nominator.changed_since(self._position)
        if changed is None:
            self.by_row = {}
            changed = nominator.node_names()
        for name in changed:
            self._look_at(name, nominator, table)
        self._position = nominator.position
        self._membership_version = table.membership_version

    def _look_at(self, name: str, nominator: Nominator, table: NodeTable) -> None:
        row = table.row_of(name)
        if row < 0:
            return
        heeded = [pod for pod in nominator.pods_on(name) if pod.priority >= self._priority]
        if heeded:
            self.by_row[row] = heeded
        else:
            self.by_row.pop(row, None)
