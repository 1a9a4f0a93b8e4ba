"""A heap that items can leave from the middle, by their pod's UID."""

from __future__ import annotations

import heapq
import logging
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from kubesched.framework.runtime.calling import PLUGIN_ERRORS
from kubesched.scheduler.queue.queued_pod import QueuedPod

log = logging.getLogger("kubesched.queue")


class _Last:
    """A key that comes after any other."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return other is not self


LAST = _Last()


class KeyedHeap:
    """Ordered by `key(pod)`, then by order of arrival. A pod that left stays in the array until it would be next.

    Pods mostly arrive in order. Those that do wait in a line of their own, in which nothing is ever compared again; the
    heap is for the others. Keys are a plugin's: where they cannot be compared, all that are here become `LAST`.
    """

    __slots__ = ("_arrivals", "_entries", "_heap", "_key", "_line")

    def __init__(self, key: Callable[[QueuedPod], Any]) -> None:
        self._key = key
        self._line: deque[list[Any]] = deque()
        self._heap: list[list[Any]] = []
        self._entries: dict[str, list[Any]] = {}
        self._arrivals = 0

    def push(self, pod: QueuedPod) -> None:
        """Add the pod, or put it where it belongs now."""
        self.remove(pod.uid)
        self._arrivals += 1
        entry = [self._key(pod), self._arrivals, pod]
        self._entries[pod.uid] = entry
        try:
            if not self._line or _comes_before(self._line[-1], entry):
                self._line.append(entry)
            else:
                heapq.heappush(self._heap, entry)
        except PLUGIN_ERRORS as error:
            self._recover(error)

    def pop(self) -> QueuedPod | None:
        line = self._line
        if line and not self._heap and (first := line[0][2]) is not None:
            line.popleft()
            del self._entries[first.uid]
            return first  # type: ignore[no-any-return]
        entry = self._first()
        if entry is None:
            return None
        pod: QueuedPod = entry[2]
        try:
            if self._line and self._line[0] is entry:
                self._line.popleft()
            else:
                heapq.heappop(self._heap)
            del self._entries[pod.uid]
        except PLUGIN_ERRORS as error:
            self._recover(error)
            self.remove(pod.uid)
        return pod

    def peek(self) -> QueuedPod | None:
        entry = self._first()
        return entry[2] if entry is not None else None

    def remove(self, uid: str) -> QueuedPod | None:
        entry = self._entries.pop(uid, None)
        if entry is None:
            return None
        pod: QueuedPod = entry[2]
        entry[2] = None
        held = len(self._heap) + len(self._line)
        if held > 64 and held > 2 * len(self._entries):
            self._line = deque(kept for kept in self._line if kept[2] is not None)
            self._heap = [kept for kept in self._heap if kept[2] is not None]
            try:
                heapq.heapify(self._heap)
            except PLUGIN_ERRORS as error:
                self._recover(error)
        return pod

    def get(self, uid: str) -> QueuedPod | None:
        entry = self._entries.get(uid)
        return entry[2] if entry is not None else None

    def _first(self) -> list[Any] | None:
        try:
            return self._look_for_first()
        except PLUGIN_ERRORS as error:
            self._recover(error)
            return self._look_for_first()

    def _look_for_first(self) -> list[Any] | None:
        line, heap = self._line, self._heap
        while line and line[0][2] is None:
            line.popleft()
        while heap and heap[0][2] is None:
            heapq.heappop(heap)
        if not heap:
            return line[0] if line else None
        return heap[0] if not line or _comes_before(heap[0], line[0]) else line[0]

    def _recover(self, error: BaseException) -> None:
        """Some keys cannot be compared: a pod out of turn is better than one that is lost."""
        log.error("pods cannot be put in order, going on in that of arrival pods=%d error=%s", len(self), error)
        for entry in self._entries.values():
            entry[0] = LAST
        self._line = deque(sorted(self._entries.values(), key=lambda entry: entry[1]))
        self._heap = []

    def __contains__(self, uid: object) -> bool:
        return uid in self._entries

    def in_order(self) -> list[QueuedPod]:
        """The first to be popped first; sorts them all."""
        try:
            entries = sorted(self._entries.values(), key=lambda entry: entry[:2])
        except PLUGIN_ERRORS as error:
            self._recover(error)
            entries = list(self._line)
        return [entry[2] for entry in entries]

    def __iter__(self) -> Iterator[QueuedPod]:
        """In no particular order."""
        return iter([entry[2] for entry in self._entries.values()])

    def __len__(self) -> int:
        return len(self._entries)


def _comes_before(one: Any, other: Any) -> bool:
    """What a plugin's keys answer when they are compared need not be a bool: NumPy has its own."""
    return bool(one < other)
