"""Calling plugins: the boundary where exceptions become statuses, and answers of the wrong sort too.

`PluginFailure` carries an ERROR status out of the middle of a step. It is raised here for what a plugin answered or
raised, and caught by the cycle, which fails the pod's attempt with it.

Whatever a plugin does, behind this boundary there are only the types that the contract names. What a method raises
stays with the pod at hand, `sys.exit()` and a cancellation that nobody asked for included: a plugin has no say in
whether the scheduler runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

import numpy as np

from kubesched.api.errors import KubeschedError
from kubesched.framework.plugin import Plugin, PreFilterResult, Verdicts
from kubesched.framework.results import PostFilterPreview, PostFilterResult
from kubesched.framework.status import Status

log = logging.getLogger("kubesched.framework")

T = TypeVar("T")

#: What a plugin may raise where nothing can be cancelled: what the scheduler's own code must not let through.
PLUGIN_ERRORS = (Exception, SystemExit, asyncio.CancelledError)


class PluginFailure(KubeschedError):
    """A plugin failed; `status` is the ERROR status of the whole step."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def call(plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T | Status:
    """What the method answers; an exception becomes an ERROR status of the plugin, logged with its traceback."""
    try:
        answer = method(*args)
    except PLUGIN_ERRORS as error:
        return raised(plugin, point, error)
    if answer is None or type(answer) is Status:
        return _none_for_success(answer)  # type: ignore[arg-type,return-value]
    return _checked(plugin, point, answer)


async def call_async(
    plugin: Plugin, point: str, method: Callable[..., Awaitable[T | None] | T | None], *args: Any
) -> T | Status | None:
    """As `call`, for points that may be coroutines or plain functions."""
    try:
        answer = method(*args)
        if isinstance(answer, Awaitable):
            answer = await answer
    except asyncio.CancelledError as error:
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        return raised(plugin, point, error)
    except (Exception, SystemExit) as fault:
        return raised(plugin, point, fault)
    if answer is None or type(answer) is Status:
        return _none_for_success(answer)
    return _checked(plugin, point, answer)


def failure(plugin: Plugin, context: str, status: Status) -> PluginFailure:
    """The failure of a step: `context` is the original's text before the colon, e.g. `running PreFilter plugin "X"`."""
    return PluginFailure(Status.error(f"{context}: {status.message}").of(plugin.name))


def raised(plugin: Plugin, point: str, error: BaseException) -> Status:
    """The ERROR status for what a plugin raised."""
    if isinstance(error, KubeschedError):
        return Status.error(error).of(plugin.name)
    log.error("plugin raised plugin=%s point=%s error=%s", plugin.name, point, error, exc_info=error)
    return Status.error(f"{type(error).__name__}: {error}").of(plugin.name)


def _none_for_success(status: Status | None) -> Status | None:
    """Success said aloud is success all the same; behind this boundary it is None."""
    return None if status is None or status.is_success else status


def _checked(plugin: Plugin, point: str, answer: T) -> T | Status:
    wanted, is_wanted = _ANSWERS.get(point, _NOTHING_ELSE)
    if isinstance(answer, Status) or is_wanted(plugin, answer):
        return answer
    if isinstance(answer, Coroutine):
        answer.close()
    return wrong_answer(plugin, point, f"answered with {type(answer).__name__}, want {wanted}")


def wrong_answer(plugin: Plugin, point: str, problem: str) -> Status:
    log.error("plugin broke its contract plugin=%s point=%s problem=%s", plugin.name, point, problem)
    return Status.error(problem).of(plugin.name)


def checked_verdicts(plugin: Plugin, said: Verdicts | Status | None, node_count: int) -> Verdicts | Status | None:
    """The same, unless the verdicts are no verdicts on so many nodes."""
    if isinstance(said, Verdicts):
        why, domains = said.of_domain, said.domains
        if why is None or domains is None:
            why = _column_of(said)
            if not _are_integers(why, node_count):
                return wrong_answer(plugin, "Filter", f"answered with verdicts that are not {node_count} integers")
        elif not _are_integers(domains, node_count) or not _are_integers(why, len(why)):
            return wrong_answer(plugin, "Filter", f"answered with domains that are not {node_count} integers")
        elif node_count and not -1 <= domains.min() <= domains.max() < len(why):
            return wrong_answer(plugin, "Filter", "answered with domains that have no verdict")
        statuses = _statuses_of(said)
        if not _are_statuses(statuses):
            return wrong_answer(
                plugin, "Filter", "answered with verdicts whose statuses are not None and then Statuses"
            )
        said.statuses = list(statuses)
        # Seen as unsigned, a negative one is huge: one pass finds both.
        if len(why) and why.view(f"u{why.itemsize}").max() >= len(said.statuses):
            return wrong_answer(plugin, "Filter", "answered with verdicts that have no status")
    return said


def _column_of(verdicts: Any) -> Any:
    """Whatever a plugin has put there."""
    return verdicts._why


def _statuses_of(verdicts: Any) -> Any:
    return verdicts.statuses


def _are_integers(column: object, count: int) -> bool:
    return isinstance(column, np.ndarray) and column.shape == (count,) and column.dtype.kind in "iu"


def _are_statuses(statuses: object) -> bool:
    if not isinstance(statuses, (list, tuple)) or not statuses or statuses[0] is not None:
        return False
    return all(isinstance(status, Status) for status in statuses[1:])


def _is_filter_answer(plugin: Plugin, answer: object) -> bool:
    return isinstance(answer, Verdicts) and hasattr(plugin, "filter_rows")


def _is_post_filter_answer(_: Plugin, answer: object) -> bool:
    match answer:
        case (None | PostFilterResult(nominated_node=None | str()), None | Status()):
            return True
    return False


def _is_permit_answer(_: Plugin, answer: object) -> bool:
    match answer:
        case (Status(is_wait=True), int() | float() | np.integer() as timeout_s):
            return bool(timeout_s == timeout_s)  # not NaN
        case (None | Status(is_wait=False), _):
            return True
    return False


_Check = Callable[[Plugin, object], bool]

_NOTHING_ELSE: tuple[str, _Check] = ("None or a Status", lambda *_: False)
_ANYTHING: tuple[str, _Check] = ("anything", lambda *_: True)
#: What a method may answer besides None and a Status, by point. Who asks for scores and signs checks them itself, and
#: nobody looks at what the last ones say.
_ANSWERS: dict[str, tuple[str, _Check]] = {
    "PreFilter": ("None, a PreFilterResult or a Status", lambda _, answer: isinstance(answer, PreFilterResult)),
    "Filter": ("None or a Status, or Verdicts from filter_rows", _is_filter_answer),
    "PostFilter": ("None, a Status or (PostFilterResult, Status)", _is_post_filter_answer),
    "PostFilterPreview": ("a PostFilterPreview or a Status", lambda _, answer: isinstance(answer, PostFilterPreview)),
    "Permit": ("None, a Status or (Status, seconds)", _is_permit_answer),
    "Score": _ANYTHING,
    "NormalizeScore": _ANYTHING,
    "Sign": _ANYTHING,
    "Judge": _ANYTHING,
    "Rate": _ANYTHING,
    "details": _ANYTHING,
    "planned_volumes": _ANYTHING,
    "EventsToRegister": _ANYTHING,
    "Unreserve": _ANYTHING,
    "Close": _ANYTHING,
    "PostBind": _ANYTHING,
}
