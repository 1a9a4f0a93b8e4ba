"""Running coroutines to their end from plain calls, also from inside a running event loop.

A notebook calls `cluster.run()` while its own loop is running, and asyncio allows one running loop a thread. The loop
around is set aside for the duration of the call: nothing of it runs meanwhile, as with any call that takes a while.

Binding cycles hardly ever wait for anything offline. `start_at_once` runs them up to where they do, so that most are
over without a turn of the loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class PrivateLoop:
    """An event loop of one's own, made at first use and closed with its owner."""

    def __init__(self) -> None:
        self._loop: Loop | None = None

    def start_at_once(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """See `Loop.start_at_once`; only from within `run`."""
        assert self._loop is not None
        return self._loop.start_at_once(name, work)

    @property
    def has_turn_to_take(self) -> bool:
        return self._loop is not None and self._loop.has_turn_to_take

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
    """The usual loop, which can also start a task at once (as Python 3.12 and later can by themselves)."""

    def __init__(self) -> None:
        super().__init__()
        self._first_step: tuple[Callable[..., object], contextvars.Context | None] | None = None
        self._catches_step = False

    @property
    def has_turn_to_take(self) -> bool:
        """Somebody is ready to run."""
        return bool(self._ready)  # type: ignore[attr-defined]

    def start_at_once(self, name: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """A task that has run up to where it first waits for something. Called from within a task."""
        if sys.version_info >= (3, 12):
            return asyncio.Task(work, loop=self, name=name, eager_start=True)
        self._catches_step = True
        task = asyncio.Task(work, loop=self, name=name)
        assert self._first_step is not None, "a task asks its loop for its first step when it is made"
        (step, context), self._first_step = self._first_step, None
        outer = asyncio.current_task(self)
        assert outer is not None
        asyncio.tasks._leave_task(self, outer)
        try:
            (context or contextvars.copy_context()).run(step)
        finally:
            asyncio.tasks._enter_task(self, outer)
        return task

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle | None:
        if self._catches_step:
            self._catches_step = False
            self._first_step = callback, context
            return None
        return super().call_soon(callback, *args, context=context)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed():
        return
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()
