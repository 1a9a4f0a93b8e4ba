"""A clock that stands still until it is moved.

`advance(s)` moves it and calls whatever falls due on the way, each at its own moment and in order of due time (first
come, first served among equals). Callbacks run inside `advance`, so their exceptions reach the caller. Sleeping tasks
are made ready inside `advance` but run when the event loop next turns; `run(s)` turns it after every timer, so that
tasks which sleep again and again play out as they would in real time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from kubesched.build import mypyc_attr


@mypyc_attr(allow_interpreted_subclasses=True)
class ManualClock:
    """Starts at `start` (seconds since the epoch; the default is 2026-01-01T00:00:00Z) with `monotonic()` at zero."""

    __slots__ = ("_elapsed_s", "_order", "_start", "_timers")

    def __init__(self, start: float = 1_767_225_600.0) -> None:
        self._start = start
        self._elapsed_s = 0.0
        self._timers: list[_ManualTimer] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._elapsed_s

    def monotonic(self) -> float:
        return self._elapsed_s

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, _wake, woken)
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> _ManualTimer:
        timer = _ManualTimer(self._elapsed_s + max(seconds, 0.0), next(self._order), callback, args)
        heapq.heappush(self._timers, timer)
        return timer

    def next_due(self) -> float | None:
        """The `monotonic()` time at which the next timer or sleep falls due; None when nothing waits."""
        while self._timers and self._timers[0].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0].due_s if self._timers else None

    def advance(self, seconds: float) -> None:
        """Moves on by `seconds`, calling what falls due, timers set meanwhile included."""
        target_s = self._target(seconds)
        while self._fire_next(target_s):
            pass
        self._elapsed_s = target_s

    async def run(self, seconds: float, *, turns: int = 20) -> None:
        """Like `advance`, but lets the event loop turn (`turns` times) before the first timer and after each one."""
        target_s = self._target(seconds)
        await _turn(turns)
        while self._fire_next(target_s):
            await _turn(turns)
        self._elapsed_s = target_s
        await _turn(turns)

    def _target(self, seconds: float) -> float:
        if seconds < 0:
            raise ValueError(f"time cannot go back: advance by {seconds} s")
        return self._elapsed_s + seconds

    def _fire_next(self, target_s: float) -> bool:
        due_s = self.next_due()
        if due_s is None or due_s > target_s:
            return False
        timer = heapq.heappop(self._timers)
        # A timer set for the past (by a callback of a later moment) must not turn the clock back.
        self._elapsed_s = max(self._elapsed_s, due_s)
        callback, timer.callback = timer.callback, None
        assert callback is not None
        callback(*timer.args)
        return True


class _ManualTimer:
    """Orders by due time, then by the order of creation. A cancelled or fired timer has no callback left."""

    __slots__ = ("args", "callback", "due_s", "order")

    def __init__(self, due_s: float, order: int, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due_s = due_s
        self.order = order
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def cancel(self) -> None:
        self.callback = None
        self.args = ()

    def __lt__(self, other: _ManualTimer) -> bool:
        return (self.due_s, self.order) < (other.due_s, other.order)


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


async def _turn(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)
