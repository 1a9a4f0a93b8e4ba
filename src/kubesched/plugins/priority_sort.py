"""PrioritySort: pods of higher priority first, among equals the one that entered the queue earlier."""

from __future__ import annotations

from typing import Protocol

from kubesched.build import mypyc_attr
from kubesched.framework.events import ClusterEventWithHint
from kubesched.framework.plugin import Plugin
from kubesched.state.pod_info import PodInfo


class Queued(Protocol):
    """A pod in the queue; `timestamp` is when it entered, in seconds."""

    @property
    def pod_info(self) -> PodInfo: ...

    @property
    def timestamp(self) -> float: ...


@mypyc_attr(allow_interpreted_subclasses=True)
class PrioritySort(Plugin):
    name = "PrioritySort"

    def less(self, a: Queued, b: Queued) -> bool:
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued: Queued) -> tuple[int, float]:
        """Orders as `less` does; a queue that has it needs no comparisons."""
        return -queued.pod_info.priority, queued.timestamp

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return []
