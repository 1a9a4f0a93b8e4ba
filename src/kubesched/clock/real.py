"""The `Clock` protocol, and the clock of the machine.

`now()` is the wall clock, for timestamps that others read. `monotonic()` is for measuring and for deadlines: it never
jumps. Both count in seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Protocol


class Timer(Protocol):
    """What `call_later` hands back."""

    def cancel(self) -> None:
        """Makes sure the callback is not called; harmless once it has been."""


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the Unix epoch."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Suspends the calling task; zero or less lets others run once."""

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        """Calls `callback(*args)` once, on the event loop's thread, `seconds` from now."""


class RealClock:
    __slots__ = ()

    # Asked several times a decision: the functions themselves, without a call of ours around them.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback, *args)
