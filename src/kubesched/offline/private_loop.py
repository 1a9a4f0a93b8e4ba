"""Running coroutines to their end from plain calls, also from inside a running event loop.

A notebook calls `cluster.run()` while its own loop is running, and asyncio allows one running loop a thread. The loop
around is set aside for the duration of the call: nothing of it runs meanwhile, as with any call that takes a while.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class PrivateLoop:
    """An event loop of one's own, made at first use and closed with its owner."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
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


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed():
        return
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.close()
