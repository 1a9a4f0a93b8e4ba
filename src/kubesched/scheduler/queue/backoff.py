"""Backoff: how long a pod that failed waits before it may be tried again.

Doubling from `initial_s` to `max_s` (0 switches backoff off), counted in rejections or, after an error, in errors in a
row. A pod leaves at the end of the window of one second in which its backoff ends, and pods of one window leave in
QueueSort order, so that a burst of failures does not upset priorities. Rejected pods and pods that met an error wait
apart: when nothing else is to do, rejected ones may be taken early, failed ones never (whatever broke needs the time).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from kubesched.scheduler.queue.keyed_heap import KeyedHeap
from kubesched.scheduler.queue.queued_pod import QueuedPod

WINDOW_S = 1.0
#: More make no difference to any backoff that a person would configure, and would run out of the range of a float.
_DOUBLINGS_MAX = 60


class BackoffQueue:
    def __init__(self, initial_s: float, max_s: float, sort_key: Callable[[QueuedPod], Any]) -> None:
        self._initial_s = initial_s
        self._max_s = max_s
        self.rejected = KeyedHeap(lambda pod: (pod.backoff_until, sort_key(pod)))
        self.failed = KeyedHeap(lambda pod: (pod.backoff_until, sort_key(pod)))

    def duration_s(self, pod: QueuedPod) -> float:
        count = pod.error_count or pod.unschedulable_count
        if count == 0 or self._max_s == 0:
            return 0.0
        doublings = min(count - 1, _DOUBLINGS_MAX)
        return min(self._initial_s * 2.0**doublings, self._max_s)

    def start(self, pod: QueuedPod) -> None:
        """Fix when the pod's backoff ends, counted from its `timestamp`."""
        duration_s = self.duration_s(pod)
        windows = math.floor((pod.timestamp + duration_s) / WINDOW_S)
        pod.backoff_until = (windows + 1) * WINDOW_S if duration_s else 0.0

    def is_over(self, pod: QueuedPod, now: float) -> bool:
        return pod.backoff_until <= now

    def push(self, pod: QueuedPod) -> None:
        (self.rejected if pod.rejected_by else self.failed).push(pod)

    def pop_over(self, now: float) -> Iterator[QueuedPod]:
        """The pods whose backoff is over, taken out, in order of windows."""
        for heap in (self.rejected, self.failed):
            while (pod := heap.peek()) is not None and self.is_over(pod, now):
                heap.pop()
                yield pod

    def remove(self, uid: str) -> QueuedPod | None:
        return self.rejected.remove(uid) or self.failed.remove(uid)

    def get(self, uid: str) -> QueuedPod | None:
        return self.rejected.get(uid) or self.failed.get(uid)

    def next_expiry(self) -> float | None:
        """When the next pod's backoff ends; None when none waits."""
        ends = [pod.backoff_until for heap in (self.rejected, self.failed) if (pod := heap.peek()) is not None]
        return min(ends, default=None)

    def in_order(self) -> list[QueuedPod]:
        """Those whose backoff ends first come first."""
        return sorted(self.rejected.in_order() + self.failed.in_order(), key=lambda pod: pod.backoff_until)

    def __iter__(self) -> Iterator[QueuedPod]:
        yield from self.rejected
        yield from self.failed

    def __len__(self) -> int:
        return len(self.rejected) + len(self.failed)
