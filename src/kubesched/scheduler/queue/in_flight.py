"""Events that arrive while pods are being scheduled.

A pod that comes back rejected must not miss what happened meanwhile: the verdict may be about a cluster that no longer
exists. Events are kept as long as a pod is in flight that was popped before them; with none in flight nothing is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubesched.framework.events import ClusterEvent
from kubesched.metrics import Metrics
from kubesched.scheduler.queue.queued_pod import QueuedPod

#: How the original's metric counts the pods in flight among the events.
_POD_POPPED = "PodPopped"


class Happening(NamedTuple):
    """An event with what it is about, and which pods it is of no concern to."""

    event: ClusterEvent
    old: Any = None
    new: Any = None
    #: Only pods of this priority or a lower one; None for all.
    priority_max: int | None = None
    #: The UID of a pod that is left alone: its own leaving is no news to it.
    but: str = ""
    #: The UID of the only pod that it is about; "" for all.
    only: str = ""

    def concerns(self, pod: QueuedPod) -> bool:
        if self.only and pod.uid != self.only:
            return False
        return pod.uid != self.but and (self.priority_max is None or pod.pod_info.priority <= self.priority_max)


class InFlight:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._has_started = False
        self._events: list[Happening] = []
        self._base = 0
        #: Position in the event log at which each pod was popped, oldest first.
        self._popped_at: dict[str, int] = {}
        metrics.before_export(self._count)

    def start(self, uid: str) -> None:
        assert uid not in self._popped_at, f"pod {uid} is in flight already"
        self._popped_at[uid] = self._base + len(self._events)
        self._has_started = True

    def note(self, happening: Happening) -> None:
        if self._popped_at:
            self._events.append(happening)
            self._metrics.inflight_events(happening.event.label).inc()

    def since_popped(self, uid: str) -> list[Happening]:
        position = self._popped_at.get(uid)
        return [] if position is None else self._events[position - self._base :]

    def done(self, uid: str) -> None:
        """The pod is no longer in flight; may be called twice."""
        if self._popped_at.pop(uid, None) is None or not self._events:
            return
        oldest = next(iter(self._popped_at.values()), self._base + len(self._events))
        if oldest > self._base:
            for happening in self._events[: oldest - self._base]:
                self._metrics.inflight_events(happening.event.label).dec()
            del self._events[: oldest - self._base]
            self._base = oldest

    def _count(self) -> None:
        if self._has_started:
            self._metrics.inflight_events(_POD_POPPED).set(len(self._popped_at))

    @property
    def event_count(self) -> int:
        return len(self._events)

    def __contains__(self, uid: object) -> bool:
        return uid in self._popped_at

    def __iter__(self) -> Iterator[str]:
        """UIDs, the first popped first."""
        return iter(list(self._popped_at))

    def __len__(self) -> int:
        return len(self._popped_at)
