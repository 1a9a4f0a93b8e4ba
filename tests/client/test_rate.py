from __future__ import annotations

import asyncio

import pytest

from kubesched.client.rate import Backoff, TokenBucket
from kubesched.clock import Chance, ManualClock
from tests.client.doubles import QuickClock


async def test_a_burst_passes_at_once_and_the_rest_comes_at_the_rate():
    clock = QuickClock()
    bucket = TokenBucket(10, 3, clock)
    for _ in range(6):
        await bucket.take()
    assert clock.slept == pytest.approx([0.1, 0.1, 0.1])
    clock.advance(100)
    for _ in range(4):
        await bucket.take()
    assert len(clock.slept) == 4, "an idle bucket holds no more than the burst"


async def test_no_limit_at_zero_or_below():
    clock = QuickClock()
    for qps in (0, -1):
        bucket = TokenBucket(qps, 1, clock)
        for _ in range(1000):
            await bucket.take()
    assert clock.slept == []


async def test_waiters_are_served_in_order_and_a_cancelled_one_gives_its_place_back():
    clock = ManualClock()
    bucket = TokenBucket(1, 1, clock)
    await bucket.take()
    served: list[str] = []

    async def ask(name: str) -> None:
        await bucket.take()
        served.append(name)

    tasks = {name: asyncio.create_task(ask(name)) for name in "abc"}
    await clock.run(0)
    tasks["b"].cancel()
    await clock.run(1.0)
    assert served == ["a"]
    await clock.run(2.0)
    assert served == ["a", "c"]
    late = asyncio.create_task(ask("d"))
    await clock.run(0)
    assert served == ["a", "c", "d"]
    await late
    assert tasks["b"].cancelled()


def test_backoff_doubles_to_its_cap_with_jitter_and_starts_over_after_quiet():
    clock = ManualClock()
    backoff = Backoff(clock, Chance(1))
    pauses = [backoff.next_pause_s() for _ in range(8)]
    for pause, base in zip(pauses, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30], strict=True):
        assert base <= pause < 2 * base
    assert len({pause / base for pause, base in zip(pauses, [0.8, 1.6, 3.2, 6.4], strict=False)}) == 4, "jitter varies"
    clock.advance(119)
    assert backoff.next_pause_s() >= 30
    clock.advance(121)
    assert backoff.next_pause_s() < 1.6
