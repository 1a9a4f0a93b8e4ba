"""What a profile's runtime counts and times.

Extension points are timed in every cycle; single plugins in the cycles that are sampled (their `CycleState` carries the
meter then). Evaluations are counted where a plugin is really asked: a kept verdict or score costs nothing and counts
nothing. The series are looked up once and kept, so that an observation is a look-up and an addition.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kubesched.clock import Clock
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.calling import PluginFailure, call, call_async
from kubesched.framework.status import Code, Status
from kubesched.metrics import Counter, Histogram, Metrics

if TYPE_CHECKING:
    from kubesched.framework.cycle_state import CycleState

T = TypeVar("T")

SUCCESS: Final = Code.SUCCESS.text
ERROR: Final = Code.ERROR.text
#: PreEnqueue runs outside of cycles; one call in so many also records the time of each plugin.
_PRE_ENQUEUE_SAMPLE: Final = 10


class Meter:
    def __init__(self, profile_name: str, metrics: Metrics, clock: Clock) -> None:
        self._profile_name = profile_name
        self._metrics = metrics
        self._clock = clock
        self._points: dict[tuple[str, str], Histogram] = {}
        self._evaluations: dict[tuple[str, str], Counter] = {}
        self._pre_enqueue_count = 0
        #: Time spent in PreScore since it was last taken out: it runs in between scores.
        self.pre_score_s = 0.0
        self.now: Callable[[], float] = clock.monotonic

    # -- extension points

    def point(self, point: str, status: str, started_s: float) -> float:
        """The point ended now with this status; returns the time, for the next one to start from."""
        now_s = self.now()
        series = self._points.get((point, status))
        if series is None:
            self.took(point, status, now_s - started_s)
        else:
            series.observe(now_s - started_s)
        return now_s

    def took(self, point: str, status: str, seconds: float) -> None:
        series = self._points.get((point, status))
        if series is None:
            series = self._metrics.extension_point_series(point, status, self._profile_name)
            self._points[point, status] = series
        series.observe(seconds)

    def failed(self, point: str, started_s: float, error: Exception) -> None:
        status = error.status.code.text if isinstance(error, PluginFailure) else ERROR
        self.point(point, status, started_s)

    # -- evaluations

    def expect(self, point: str, plugins: Iterable[Plugin]) -> None:
        """These plugins are shown with 0 before they are first asked."""
        for plugin in plugins:
            self._evaluations[point, plugin.name] = self._metrics.plugin_evaluations(
                plugin.name, point, self._profile_name
            )

    def evaluated(self, point: str, plugin: str, count: int = 1) -> None:
        self._evaluations[point, plugin].value += count

    # -- kept results

    def batch_hint_used(self) -> None:
        self._metrics.batch_attempt(self._profile_name, "hint_used")

    def batch_no_hint(self) -> None:
        self._metrics.batch_attempt(self._profile_name, "no_hint")

    def batch_flushed(self, reason: str) -> None:
        self._metrics.batch_cache_flushed(self._profile_name, reason)

    # -- single plugins, in sampled cycles

    def samples_pre_enqueue(self) -> bool:
        self._pre_enqueue_count += 1
        return self._pre_enqueue_count % _PRE_ENQUEUE_SAMPLE == 1

    def timed(self, plugin: Plugin, point: str, method: Callable[..., Any], *args: Any) -> Any:
        started_s = self.now()
        answer = call(plugin, point, method, *args)
        self._metrics.plugin_duration(plugin.name, point, _code(answer), self.now() - started_s)
        return answer

    def plugin_took(self, plugin: str, point: str, seconds: float) -> None:
        """For who asks a plugin without `timed`; it succeeded."""
        self._metrics.plugin_duration(plugin, point, SUCCESS, seconds)

    async def timed_async(self, plugin: Plugin, point: str, method: Callable[..., Any], *args: Any) -> Any:
        started_s = self.now()
        answer = await call_async(plugin, point, method, *args)
        self._metrics.plugin_duration(plugin.name, point, _code(answer), self.now() - started_s)
        return answer


def call_in(state: CycleState, plugin: Plugin, point: str, method: Callable[..., T], *args: Any) -> T | Status:
    """Calls a plugin with the cycle's state; timed in cycles that are sampled."""
    meter = state.plugin_meter
    if meter is None:
        return call(plugin, point, method, state, *args)
    return meter.timed(plugin, point, method, state, *args)  # type: ignore[no-any-return]


async def call_in_async(
    state: CycleState, plugin: Plugin, point: str, method: Callable[..., Awaitable[T | None] | T | None], *args: Any
) -> T | Status | None:
    meter = state.plugin_meter
    if meter is None:
        return await call_async(plugin, point, method, state, *args)
    return await meter.timed_async(plugin, point, method, state, *args)  # type: ignore[no-any-return]


def status_text(status: Status | None) -> str:
    return SUCCESS if status is None else status.code.text


def _code(answer: Any) -> str:
    """The status of a plugin's answer, which may be a result with one, or a result alone."""
    if isinstance(answer, tuple):
        answer = next((part for part in answer if isinstance(part, Status)), None)
    return answer.code.text if isinstance(answer, Status) else SUCCESS
