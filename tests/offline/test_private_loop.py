"""Work that runs at once, up to where it waits."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.offline.private_loop import PrivateLoop

WAYS = ["start_at_once", "run_at_once"]


@pytest.mark.parametrize("way", WAYS)
def test_what_never_waits_is_over_at_once(way):
    loop, done = PrivateLoop(), []

    async def work() -> None:
        done.append(True)

    async def main() -> None:
        task = getattr(loop, way)("work", work())
        assert done and (task is None or task.done())

    loop.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_what_waits_goes_on_in_a_task_of_its_own(way):
    loop, steps = PrivateLoop(), list[object]()

    async def work(woken: asyncio.Event) -> str:
        steps.append("begun")
        await woken.wait()
        steps.append(asyncio.current_task())
        await asyncio.sleep(0)
        await asyncio.gather(asyncio.sleep(0), asyncio.sleep(0))
        return "answer"

    async def main() -> None:
        woken = asyncio.Event()
        task = getattr(loop, way)("work", work(woken))
        assert steps == ["begun"] and not task.done()
        woken.set()
        assert await task == "answer"
        assert steps == ["begun", task] and task.get_name() == "work" and task is not asyncio.current_task()

    loop.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_what_waits_can_be_cancelled_and_may_go_on_all_the_same(way):
    loop, steps = PrivateLoop(), []

    async def work(never: asyncio.Event) -> str:
        try:
            await never.wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
        return "tidied up"

    async def main() -> None:
        task = getattr(loop, way)("work", work(asyncio.Event()))
        await asyncio.sleep(0)
        task.cancel()
        assert await task == "tidied up" and steps == ["cancelled"]

    loop.run(main())


@pytest.mark.parametrize("way", WAYS)
def test_what_fails_after_it_has_waited_fails_its_task(way):
    loop = PrivateLoop()

    async def work() -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    async def main() -> None:
        task = getattr(loop, way)("work", work())
        with pytest.raises(ZeroDivisionError):
            await task

    loop.run(main())


def test_a_task_that_starts_at_once_is_the_current_one_from_its_first_step():
    loop, seen = PrivateLoop(), []

    async def work() -> None:
        seen.append(asyncio.current_task())

    async def main() -> None:
        outer = asyncio.current_task()
        task = loop.start_at_once("work", work())
        assert seen == [task] and asyncio.current_task() is outer

    loop.run(main())
