"""Events that arrive while pods are being scheduled.

A pod that comes back rejected must not miss what happened meanwhile: the verdict may be about a cluster that no longer
exists. Events are kept as long as a pod is in flight that was popped before them; with none in flight nothing is kept.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubesched.framework.events import ClusterEvent


class SeenEvent(NamedTuple):
    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    def __init__(self) -> None:
        self._events: list[SeenEvent] = []
        self._base = 0
        #: Position in the event log at which each pod was popped, oldest first.
        self._popped_at: dict[str, int] = {}

    def start(self, uid: str) -> None:
        self._popped_at[uid] = self._base + len(self._events)

    def note(self, event: ClusterEvent, old: Any, new: Any) -> None:
        if self._popped_at:
            self._events.append(SeenEvent(event, old, new))

    def since_popped(self, uid: str) -> list[SeenEvent]:
        position = self._popped_at.get(uid)
        return [] if position is None else self._events[position - self._base :]

    def done(self, uid: str) -> None:
        """The pod is no longer in flight; may be called twice."""
        if self._popped_at.pop(uid, None) is None:
            return
        oldest = next(iter(self._popped_at.values()), self._base + len(self._events))
        if oldest > self._base:
            del self._events[: oldest - self._base]
            self._base = oldest

    @property
    def event_count(self) -> int:
        return len(self._events)

    def __contains__(self, uid: object) -> bool:
        return uid in self._popped_at

    def __len__(self) -> int:
        return len(self._popped_at)
