"""Running coroutines to their end from plain calls, also from inside a running event loop.

A notebook calls `cluster.run()` while its own loop is running, and asyncio allows one running loop a thread. The loop
around is set aside for the duration of the call: nothing of it runs meanwhile, as with any call that takes a while.

Binding cycles hardly ever wait for anything offline. `start_at_once` runs them up to where they do, so that most are
over without a turn of the loop. `run_at_once` does so without a task, for those that do not ask which one they run in.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import weakref
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PrivateLoop:
    """An event loop of one's own, made at first use and closed with its owner."""

    def __init__(self) -> None:
        self._loop: Loop | None = None

    def start_at_once(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that has run up to where it first waits for something. Only from within a task of `run`."""
        loop = self._loop
        assert loop is not None
        if sys.version_info >= (3, 12):
            return asyncio.Task(work, loop=loop, name=name, eager_start=True)
        loop.catches_step = True
        task = asyncio.Task(work, loop=loop, name=name)
        assert loop.first_step is not None, "a task asks its loop for its first step when it is made"
        (step, context), loop.first_step = loop.first_step, None
        outer = asyncio.current_task(loop)
        assert outer is not None
        asyncio.tasks._leave_task(loop, outer)
        try:
            (context or contextvars.copy_context()).run(step)
        finally:
            asyncio.tasks._enter_task(loop, outer)
        return task

    def run_at_once(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T] | None:
        """Runs the work up to where it first waits for something; the task that goes on from there, or None when there
        is no more to do. Until then the work must not ask for its task: it is in that of the caller."""
        try:
            waits_for = work.send(None)
        except StopIteration:
            return None
        return asyncio.Task(_go_on(work, waits_for), loop=self._loop, name=name)

    @property
    def has_turn_to_take(self) -> bool:
        """Somebody is ready to run."""
        return self._loop is not None and bool(self._loop._ready)  # type: ignore[attr-defined]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = Loop()
            weakref.finalize(self, _close, self._loop)
        outer = asyncio._get_running_loop()
        if outer is None:
            return self._loop.run_until_complete(work)
        task = asyncio.current_task(outer)
        if task is not None:
            asyncio.tasks._leave_task(outer, task)
        asyncio._set_running_loop(None)
        try:
            return self._loop.run_until_complete(work)
        finally:
            asyncio._set_running_loop(outer)
            if task is not None:
                asyncio.tasks._enter_task(outer, task)


class Loop(asyncio.SelectorEventLoop):
    """The usual loop, from which the first step of a task can be had instead of being put in line. (Python 3.12 and
    later start tasks at once by themselves.)"""

    def __init__(self) -> None:
        super().__init__()
        self.catches_step = False
        self.first_step: tuple[Callable[..., object], contextvars.Context | None] | None = None

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle | None:
        if self.catches_step:
            self.catches_step = False
            self.first_step = callback, context
            return None
        return super().call_soon(callback, *args, context=context)


async def _go_on(work: Coroutine[Any, Any, T], waits_for: object) -> T:
    return await _Rest(work, waits_for)


class _Rest(Generic[T]):
    """What is left of a coroutine that was run, by hand, to where it waits for something."""

    def __init__(self, work: Coroutine[Any, Any, T], waits_for: object) -> None:
        self._work = work
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        waits_for = self._waits_for
        while True:
            try:
                answer = yield waits_for
            except BaseException as error:
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, answer)
            try:
                waits_for = step()
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed():
        return
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()
