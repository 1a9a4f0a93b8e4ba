from __future__ import annotations

import asyncio
import time

import pytest

from kubesched.clock import Chance, Clock, ManualClock, RealClock


class TestManualClock:
    def test_stands_still_until_moved(self):
        clock = ManualClock(start=1000.0)
        assert (clock.now(), clock.monotonic()) == (1000.0, 0.0)
        clock.advance(2.5)
        assert (clock.now(), clock.monotonic()) == (1002.5, 2.5)

    def test_timers_fire_in_order_each_at_its_own_moment(self):
        clock = ManualClock()
        seen: list[tuple[str, float]] = []
        for name, delay_s in [("late", 3.0), ("early", 1.0), ("twin", 1.0), ("beyond", 9.0)]:
            clock.call_later(delay_s, lambda n: seen.append((n, clock.monotonic())), name)
        clock.advance(5)
        assert seen == [("early", 1.0), ("twin", 1.0), ("late", 3.0)]
        assert clock.monotonic() == 5.0
        assert clock.next_due() == 9.0

    def test_a_timer_set_by_a_timer_fires_in_the_same_advance(self):
        clock = ManualClock()
        seen: list[float] = []

        def tick() -> None:
            seen.append(clock.monotonic())
            if len(seen) < 3:
                clock.call_later(1, tick)

        clock.call_later(1, tick)
        clock.advance(10)
        assert seen == [1.0, 2.0, 3.0]

    def test_a_cancelled_timer_does_not_fire(self):
        clock = ManualClock()
        seen: list[str] = []
        clock.call_later(1, seen.append, "cancelled").cancel()
        kept = clock.call_later(2, seen.append, "kept")
        assert clock.next_due() == 2.0
        clock.advance(3)
        kept.cancel()
        assert seen == ["kept"]
        assert clock.next_due() is None

    def test_an_error_of_a_callback_reaches_the_caller_and_the_rest_still_waits(self):
        clock = ManualClock()
        seen: list[str] = []

        def fail() -> None:
            raise LookupError("boom")

        clock.call_later(1, fail)
        clock.call_later(2, seen.append, "next")
        with pytest.raises(LookupError, match="boom"):
            clock.advance(5)
        assert clock.monotonic() == 1.0
        clock.advance(5)
        assert seen == ["next"]

    def test_time_cannot_go_back(self):
        with pytest.raises(ValueError, match="back"):
            ManualClock().advance(-1)

    def test_a_delay_below_zero_is_due_at_once(self):
        clock = ManualClock()
        seen: list[float] = []
        clock.call_later(-5, lambda: seen.append(clock.monotonic()))
        clock.advance(0)
        assert seen == [0.0]

    async def test_sleepers_wake_when_time_has_passed(self):
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(2))
        await clock.run(1.5)
        assert not task.done()
        await clock.run(0.5)
        assert task.done()

    async def test_repeated_sleeps_play_out_in_one_run(self):
        clock = ManualClock()
        seen: list[float] = []

        async def loop() -> None:
            while True:
                await clock.sleep(1)
                seen.append(clock.monotonic())

        task = asyncio.create_task(loop())
        await clock.run(3.5)
        task.cancel()
        assert seen == [1.0, 2.0, 3.0]

    async def test_a_cancelled_sleeper_leaves_no_timer(self):
        clock = ManualClock()
        task = asyncio.create_task(clock.sleep(2))
        await clock.run(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert clock.next_due() is None

    async def test_sleeping_for_nothing_lets_others_run(self):
        clock = ManualClock()
        seen: list[str] = []
        asyncio.get_running_loop().call_soon(seen.append, "other")
        await clock.sleep(0)
        assert seen == ["other"]


class TestRealClock:
    def test_reads_the_machine(self):
        clock: Clock = RealClock()
        assert abs(clock.now() - time.time()) < 60
        assert clock.monotonic() <= clock.monotonic()

    async def test_timers_and_sleeps_run_on_the_loop(self):
        clock = RealClock()
        fired = asyncio.Event()
        clock.call_later(0, fired.set)
        clock.call_later(0, pytest.fail, "was cancelled").cancel()
        await clock.sleep(0)
        await asyncio.wait_for(fired.wait(), 60)


class TestChance:
    def test_the_seed_decides(self):
        def draws(chance: Chance) -> list[object]:
            return [chance.choice("abcdef"), chance.randrange(1000), chance.uniform(1, 2), chance.random()]

        assert draws(Chance(7)) == draws(Chance(7))
        assert draws(Chance(7)) != draws(Chance(8))

    def test_without_a_seed_one_is_drawn_and_told(self):
        first = Chance()
        assert Chance(first.seed).random() == first.random()

    def test_ranges(self):
        chance = Chance(1)
        assert all(0 <= chance.randrange(3) < 3 for _ in range(100))
        assert all(2.0 <= chance.uniform(2, 3) <= 3.0 for _ in range(100))
