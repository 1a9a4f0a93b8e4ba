"""Calling plugins: the boundary where exceptions become statuses.

`PluginFailure` carries an ERROR status out of the middle of a step. It is raised here for what a plugin answered or
raised, and caught by the cycle, which fails the pod's attempt with it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from kubesched.api.errors import KubeschedError
from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Status

log = logging.getLogger("kubesched.framework")

T = TypeVar("T")


class PluginFailure(KubeschedError):
    """A plugin failed; `status` is the ERROR status of the whole step."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def call(plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T | Status:
    """What the method answers; an exception becomes an ERROR status of the plugin, logged with its traceback."""
    try:
        return method(*args)
    except Exception as error:
        return _raised(plugin, point, error)


async def call_async(
    plugin: Plugin, point: str, method: Callable[..., Awaitable[T | None] | T | None], *args: Any
) -> T | Status | None:
    """As `call`, for points that may be coroutines or plain functions."""
    try:
        answer = method(*args)
        if isinstance(answer, Awaitable):
            return await answer
        return answer
    except Exception as error:
        return _raised(plugin, point, error)


def failure(plugin: Plugin, context: str, status: Status) -> PluginFailure:
    """The failure of a step: `context` is the original's text before the colon, e.g. `running PreFilter plugin "X"`."""
    return PluginFailure(Status.error(f"{context}: {status.message}").of(plugin.name))


def _raised(plugin: Plugin, point: str, error: Exception) -> Status:
    if isinstance(error, KubeschedError):
        return Status.error(error).of(plugin.name)
    log.error("plugin raised plugin=%s point=%s error=%s", plugin.name, point, error, exc_info=error)
    return Status.error(f"{type(error).__name__}: {error}").of(plugin.name)
