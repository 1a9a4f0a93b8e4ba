"""While hundreds of bind calls are under way no further pod is decided about, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubesched.api.core import Pod
from kubesched.framework import Plugin, Status
from tests.build import make_node, make_pod
from tests.harness import Harness


class Crowd:
    """Pods whose bind calls are answered when `gate` opens, under a scheduler that runs."""

    def __init__(self, *plugins: type[Plugin]) -> None:
        self.harness = Harness(*plugins)
        self.gate = asyncio.Event()
        self.harness.port.bind_answers.extend([self.gate.wait] * 5000)  # type: ignore[list-item]
        self.harness.apply(make_node("n").capacity(cpu=5000, memory="5000Gi", pods=5000).obj())

    def come(self, prefix: str, count: int, priority: int = 0) -> None:
        pods = [make_pod(f"{prefix}-{k}").uid(f"{prefix}-{k}").cpu("1m").priority(priority) for k in range(count)]
        self.harness.apply(*[pod.obj() for pod in pods])

    async def sent(self) -> list[str]:
        """The pods whose bind calls were sent, once nothing moves any more."""
        before = -1
        while before != len(self.harness.port.calls):
            before = len(self.harness.port.calls)
            for _ in range(20):
                await asyncio.sleep(0)
        return [name for name, _ in self.harness.port.binds()]


@asynccontextmanager
async def running(*plugins: type[Plugin]) -> AsyncIterator[Crowd]:
    crowd = Crowd(*plugins)
    task = asyncio.create_task(crowd.harness.scheduler.run())
    try:
        yield crowd
    finally:
        crowd.gate.set()
        await crowd.harness.stop()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(("under_way", "waits"), [(511, False), (512, True), (800, True)])
async def test_cycles_wait_while_too_many_binds_are_under_way(under_way: int, waits: bool) -> None:
    async with running() as crowd:
        crowd.come("early", under_way)
        assert len(await crowd.sent()) == under_way
        crowd.come("late", 3)
        assert len(await crowd.sent()) == under_way + (0 if waits else 3)
        crowd.gate.set()
        assert len(await crowd.sent()) == under_way + 3


async def test_who_matters_more_goes_first_when_they_go_on() -> None:
    async with running() as crowd:
        crowd.come("early", 600)
        await crowd.sent()
        crowd.come("late", 2)
        crowd.come("urgent", 1, priority=1000)
        await crowd.sent()
        crowd.gate.set()
        assert (await crowd.sent())[600:] == ["urgent-0", "late-0", "late-1"]


async def test_binds_that_hang_hold_nobody_up_for_ever() -> None:
    async with running() as crowd:
        crowd.come("early", 600)
        await crowd.sent()
        crowd.come("late", 1)
        assert len(await crowd.sent()) == 600
        crowd.harness.clock.advance(0.9)
        assert len(await crowd.sent()) == 600
        crowd.harness.clock.advance(0.2)
        assert len(await crowd.sent()) == 601


async def test_the_state_is_kept_up_to_date_meanwhile() -> None:
    async with running() as crowd:
        crowd.come("early", 600)
        await crowd.sent()
        crowd.harness.apply(make_node("another").capacity(cpu=1, memory="1Gi", pods=1).obj())
        await crowd.sent()
        assert crowd.harness.state.nodes.row_of("another") >= 0


class Holding(Plugin):
    """Holds back the pods that come early."""

    name = "Holding"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return (Status.wait(), 60.0) if pod.metadata.name.startswith("early") else None


async def test_pods_that_wait_for_something_else_count_for_nothing() -> None:
    async with running(Holding) as crowd:
        crowd.come("early", 600)
        assert await crowd.sent() == []
        crowd.come("late", 3)
        assert await crowd.sent() == ["late-0", "late-1", "late-2"]


class Refusing(Plugin):
    """Its PreBind fails for the pods that come first."""

    name = "Refusing"

    def pre_bind(self, state: Any, pod: Pod, node_name: str) -> Any:
        return Status.error("no") if pod.metadata.name.startswith("refused") else None


async def test_bindings_that_end_before_their_bind_call_free_no_place() -> None:
    async with running(Refusing) as crowd:
        crowd.come("refused", 300)
        crowd.come("early", 512)
        assert len(await crowd.sent()) == 512
        crowd.come("late", 3)
        assert len(await crowd.sent()) == 512


async def test_cycles_go_on_when_half_of_them_ended() -> None:
    async with running() as crowd:
        answers, first, rest = crowd.harness.port.bind_answers, asyncio.Event(), asyncio.Event()
        answers.clear()
        answers.extend([first.wait] * 255 + [rest.wait] * 267)  # type: ignore[arg-type]
        crowd.come("early", 512)
        await crowd.sent()
        crowd.come("late", 1)
        first.set()
        assert len(await crowd.sent()) == 512  # 257 are under way still
        rest.set()
        assert len(await crowd.sent()) == 513


async def test_binds_that_hang_are_told_of_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as crowd:
        crowd.come("early", 600)
        await crowd.sent()
        for number in range(70):
            crowd.come(f"late-{number}", 1)
            crowd.harness.clock.advance(1.0)
            await crowd.sent()
        told = [record.getMessage() for record in caplog.records if "bind calls do not end" in record.getMessage()]
        assert len(told) == 2
        assert told[0] == "bind calls do not end, deciding slowly meanwhile under_way=600"
