"""`Runtime`: one profile's plugins, ready to run.

Filtering and scoring have files of their own; here are the points around them, each a loop with its merge rule:

    PreEnqueue    the first plugin that holds the pod back
    PostFilter    in order until Success, Error or UnschedulableAndUnresolvable; reasons are joined
    Reserve       forward up to the first failure; Unreserve goes in reverse over all Reserve plugins
    Permit        all plugins; one Wait makes the pod wait, any rejection ends it
    PreBind       what PreBindPreFlight did not skip, in order; plugins that allow it run together
    Bind          extenders first, then the first plugin that does not Skip
    PostBind      all, for information
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import Plugin
from kubesched.framework.results import Diagnosis, PostFilterPreview, PostFilterResult
from kubesched.framework.runtime.calling import call
from kubesched.framework.runtime.evaluation import Evaluation
from kubesched.framework.runtime.filtering import Filtering, Fits
from kubesched.framework.runtime.keeping import KeptEvaluations
from kubesched.framework.runtime.metering import SUCCESS, Meter, call_in, call_in_async, status_text
from kubesched.framework.runtime.scoring import Scoring
from kubesched.framework.status import Code, Status
from kubesched.framework.waiting import PERMIT_WAIT_S_MAX, WaitingPod
from kubesched.state.node_table import Ints
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.framework")

T = TypeVar("T")

#: One cycle in so many also records the time of each plugin, as the original does (10 %).
_PLUGIN_METRICS_SHARE = 0.10


@dataclass(slots=True)
class PluginSet:
    """The plugins of a profile by extension point, in order; scores with their weights."""

    pre_enqueue: list[Plugin] = field(default_factory=list)
    queue_sort: list[Plugin] = field(default_factory=list)
    pre_filter: list[Plugin] = field(default_factory=list)
    filter: list[Plugin] = field(default_factory=list)
    post_filter: list[Plugin] = field(default_factory=list)
    pre_score: list[Plugin] = field(default_factory=list)
    score: list[tuple[Plugin, int]] = field(default_factory=list)
    reserve: list[Plugin] = field(default_factory=list)
    permit: list[Plugin] = field(default_factory=list)
    pre_bind: list[Plugin] = field(default_factory=list)
    bind: list[Plugin] = field(default_factory=list)
    post_bind: list[Plugin] = field(default_factory=list)

    def all(self) -> list[Plugin]:
        """Every plugin once, in order of first use."""
        seen: dict[str, Plugin] = {}
        for point in fields(self):
            for entry in getattr(self, point.name):
                plugin = entry[0] if isinstance(entry, tuple) else entry
                seen.setdefault(plugin.name, plugin)
        return list(seen.values())


class Runtime:
    def __init__(self, handle: Handle, plugins: PluginSet, *, percentage_of_nodes: int = 0, keep: bool = True) -> None:
        self.profile_name = handle.profile_name
        self.handle = handle
        self.plugins = plugins
        state = handle.state
        self.meter = meter = Meter(self.profile_name, handle.metrics, handle.clock)
        for point, asked in (
            ("PreFilter", plugins.pre_filter),
            ("Filter", plugins.filter),
            ("PreScore", plugins.pre_score),
            ("Score", [plugin for plugin, _ in plugins.score]),
        ):
            meter.expect(point, asked)
        self.kept = KeptEvaluations(
            self.profile_name,
            plugins.pre_filter,
            plugins.filter,
            plugins.score,
            plugins.pre_score,
            state,
            meter,
            enabled=keep,
        )
        self.filtering = Filtering(plugins.pre_filter, plugins.filter, self.kept, state, percentage_of_nodes, meter)
        self.fresh = self.filtering.fresh
        self.scoring = Scoring(plugins.pre_score, plugins.score, state, meter)
        self._metrics = handle.metrics
        self._clock = handle.clock

    def close(self) -> None:
        """The plugins are not used any more; attempts under way may still end with them."""
        for plugin in self.plugins.all():
            close_plugin(plugin)

    # -- queueing

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """The first rejection; a plugin's failure counts as one, so that the pod is gated rather than lost."""
        return self._timed("PreEnqueue", self._pre_enqueue, pod)

    def _pre_enqueue(self, pod: Pod) -> Status | None:
        ask = self.meter.timed if self.meter.samples_pre_enqueue() else call
        for plugin in self.plugins.pre_enqueue:
            status: Status | None = ask(plugin, "PreEnqueue", plugin.pre_enqueue, pod)
            if status is not None:
                return status.of(plugin.name)
        return None

    # -- the scheduling cycle

    def begin(self, pod_info: PodInfo) -> tuple[CycleState, Evaluation]:
        """A new attempt. The evaluation is what is kept for pods like this one; raises PluginFailure."""
        evaluation = self.kept.evaluation(pod_info)
        is_sampled = self.handle.chance.random() < _PLUGIN_METRICS_SHARE
        return evaluation.begin(pod_info, self.meter if is_sampled else None), evaluation

    def find_fits(self, state: CycleState, evaluation: Evaluation) -> Fits:
        """PreFilter and Filter; raises PluginFailure."""
        fits = self._or_drop(evaluation, self.filtering.find_fits, state, evaluation)
        if fits.otherwise is not None:
            fits.otherwise = partial(self._or_drop, evaluation, fits.otherwise)
        return fits

    async def post_filter(self, state: CycleState, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        """The result and what the plugins said; the status is Success, Unschedulable(AndUnresolvable) or Error."""
        started_s = self.meter.now()
        answers: _PostFilterAnswers[PostFilterResult] = _PostFilterAnswers()
        for plugin in self.plugins.post_filter:
            pod = state.pod_info.pod
            answer: Any = await call_in_async(state, plugin, "PostFilter", plugin.post_filter, pod, diagnosis)
            said, status = (None, answer) if isinstance(answer, Status) else answer or (None, None)
            if answers.end_with(plugin, said, status, counts=said is not None and said.nominated_node is not None):
                break
        self.meter.point("PostFilter", answers.status.code.text, started_s)
        return answers.result, answers.status

    def post_filter_preview(self, state: CycleState, diagnosis: Diagnosis) -> PostFilterPreview:
        """What `post_filter` would come to. Plugins that cannot tell without doing it are passed over."""
        answers: _PostFilterAnswers[PostFilterPreview] = _PostFilterAnswers()
        for plugin in self.plugins.post_filter:
            if not hasattr(plugin, "post_filter_preview"):
                continue
            pod = state.pod_info.pod
            said: Any = call(plugin, "PostFilterPreview", plugin.post_filter_preview, state, pod, diagnosis)
            if said is None:
                continue
            if isinstance(said, Status):
                said = PostFilterPreview(said)
            if answers.end_with(plugin, said, said.status, counts=bool(said.candidates or said.rejected)):
                break
        return replace(answers.result or PostFilterPreview(answers.status), status=answers.status)

    def totals(self, state: CycleState, fits: Fits) -> Ints:
        """PreScore, Score, normalise, weigh; raises PluginFailure."""
        return self._or_drop(fits.evaluation, self.scoring.totals, state, fits)

    def best(self, state: CycleState, fits: Fits) -> Sequence[int] | NDArray[np.intp]:
        """The rows with the highest total, in no order; raises PluginFailure."""
        return self._or_drop(fits.evaluation, self.scoring.best, state, fits)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return self._timed("Reserve", self._reserve, state, pod, node_name)

    def _reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        for plugin in self.plugins.reserve:
            status = call_in(state, plugin, "Reserve", plugin.reserve, pod, node_name)
            if status is not None and status.code is not Code.SUCCESS:
                return _rejected_or_error(plugin, f'running Reserve plugin "{plugin.name}"', status)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """All Reserve plugins in reverse, whether or not their Reserve ran. Never fails."""
        started_s = self.meter.now()
        for plugin in reversed(self.plugins.reserve):
            if hasattr(plugin, "unreserve"):
                call_in(state, plugin, "Unreserve", plugin.unreserve, pod, node_name)
        self.meter.point("Unreserve", SUCCESS, started_s)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """None, a rejection, an error, or Wait: the pod then sits in `handle.waiting_pods`."""
        return self._timed("Permit", self._permit, state, pod, node_name)

    def _permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        waits_s: dict[str, float] = {}
        for plugin in self.plugins.permit:
            answer: Any = call_in(state, plugin, "Permit", plugin.permit, pod, node_name)
            status, timeout_s = answer if isinstance(answer, tuple) else (answer, PERMIT_WAIT_S_MAX)
            if status is None or status.code is Code.SUCCESS:
                continue
            if not status.is_wait:
                return _rejected_or_error(plugin, f'running Permit plugin "{plugin.name}"', status)
            waits_s[plugin.name] = float(min(timeout_s, PERMIT_WAIT_S_MAX))
        if not waits_s:
            return None
        self.handle.waiting_pods.add(WaitingPod(pod, node_name, waits_s, self._clock))
        key = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return Status.wait(f'one or more plugins asked to wait and no plugin rejected pod "{key}"')

    # -- the binding cycle

    async def wait_on_permit(self, pod: Pod) -> Status | None:
        """The outcome of a pod that Permit holds; None at once when it does not."""
        uid = pod.metadata.uid
        waiting = self.handle.waiting_pods.get(uid)
        if waiting is None:
            return None
        started_s = self._clock.monotonic()
        try:
            status = await waiting.outcome()
        finally:
            self.handle.waiting_pods.remove(uid)
        result = Code.SUCCESS.text if status is None else status.code.text
        self._metrics.permit_wait(result, self._clock.monotonic() - started_s)
        if status is None or status.is_rejected:
            return status
        return status.wrapped("waiting on permit for pod")

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Which PreBind plugins have work: the others are dropped from `pre_bind`. Skip when none has."""
        return self._timed("PreBindPreFlight", self._pre_bind_pre_flight, state, pod, node_name)

    def _pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        any_work = False
        for plugin in self.plugins.pre_bind:
            method = getattr(plugin, "pre_bind_pre_flight", None)
            status = None if method is None else call_in(state, plugin, "PreBindPreFlight", method, pod, node_name)
            if status is None or status.code is Code.SUCCESS:
                any_work = True
            elif status.is_skip:
                state.skip_pre_bind.add(plugin.name)
            elif status.is_error:
                return status.of(plugin.name).wrapped(f'running PreBindPreFlight "{plugin.name}"')
            else:
                return Status.error(
                    f'PreBindPreFlight {plugin.name} returned "{status.code.text}", which is unsupported. '
                    "It is supposed to return Success, Skip, or Error status"
                ).of(plugin.name)
        return None if any_work else Status.skip()

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Neighbours that say `allow_parallel` run together; the first failure in order counts."""
        return await self._timed_async("PreBind", self._pre_bind(state, pod, node_name))

    async def _pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        group: list[Plugin] = []
        for plugin in self.plugins.pre_bind:
            if plugin.name in state.skip_pre_bind:
                continue
            if not getattr(plugin, "allow_parallel", False):
                status = await self._pre_bind_together(group, state, pod, node_name)
                if status is None:
                    status = await self._pre_bind_together([plugin], state, pod, node_name)
                if status is not None:
                    return status
                group = []
            else:
                group.append(plugin)
        return await self._pre_bind_together(group, state, pod, node_name)

    async def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Extenders, then plugins. A Skip from all of them is returned as such: nothing was bound."""
        return await self._timed_async("Bind", self._bind(state, pod, node_name))

    async def _bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        for extender in self.handle.extenders:
            if not extender.is_binder() or not extender.is_interested(pod):
                continue
            try:
                await extender.bind(pod, node_name)
            except KubeschedError as error:
                if extender.ignorable:
                    log.warning(
                        "extender failed to bind, going on without it extender=%s pod=%s/%s error=%s",
                        extender.name,
                        pod.metadata.namespace,
                        pod.metadata.name,
                        error,
                    )
                    continue
                return Status.error(error)
            return None
        for plugin in self.plugins.bind:
            status = await call_in_async(state, plugin, "Bind", plugin.bind, pod, node_name)
            if status is None or status.code is Code.SUCCESS:
                return None
            if not status.is_skip:
                return _rejected_or_error(plugin, f'running Bind plugin "{plugin.name}"', status)
        return Status.skip()

    async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        started_s = self.meter.now()
        for plugin in self.plugins.post_bind:
            await call_in_async(state, plugin, "PostBind", plugin.post_bind, pod, node_name)
        self.meter.point("PostBind", SUCCESS, started_s)

    # -- helpers

    def _or_drop(self, evaluation: Evaluation | None, ask: Callable[..., T], *args: Any) -> T:
        """Where a plugin fails halfway through, nothing is kept of what it was asked for."""
        try:
            return ask(*args)
        except Exception:
            if evaluation is not None:
                self.kept.drop(evaluation)
            raise

    def _timed(self, point: str, run: Callable[..., Status | None], *args: Any) -> Status | None:
        started_s = self.meter.now()
        status = run(*args)
        self.meter.point(point, status_text(status), started_s)
        return status

    async def _timed_async(self, point: str, running: Coroutine[Any, Any, Status | None]) -> Status | None:
        started_s = self.meter.now()
        status = await running
        self.meter.point(point, status_text(status), started_s)
        return status

    async def _pre_bind_together(
        self, plugins: Sequence[Plugin], state: CycleState, pod: Pod, node_name: str
    ) -> Status | None:
        async def one(plugin: Plugin) -> Status | None:
            return await call_in_async(state, plugin, "PreBind", plugin.pre_bind, pod, node_name)

        if not plugins:
            return None
        answers = [await one(plugins[0])] if len(plugins) == 1 else await asyncio.gather(*map(one, plugins))
        for plugin, status in zip(plugins, answers, strict=True):
            if status is not None and status.code is not Code.SUCCESS:
                return _rejected_or_error(plugin, f'running PreBind plugin "{plugin.name}"', status)
        return None


R = TypeVar("R")


class _PostFilterAnswers(Generic[R]):
    """How the answers of several PostFilter plugins come together."""

    def __init__(self) -> None:
        self.result: R | None = None
        self.status = Status(Code.UNSCHEDULABLE)

    def end_with(self, plugin: Plugin, said: R | None, status: Status | None, *, counts: bool) -> bool:
        """Take one plugin's answer; True when it is the last word. `counts`: `said` is worth keeping beside others."""
        if status is None or status.is_success:
            self.result, self.status = said, status or Status(Code.SUCCESS)
            return True
        if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            self.result, self.status = said, status.of(plugin.name)
            return True
        if not status.is_rejected:
            self.result, self.status = None, status.of(plugin.name)
            return True
        if counts:
            self.result = said
        reasons = self.status.reasons + status.reasons
        self.status = Status(Code.UNSCHEDULABLE, *reasons, plugin=self.status.plugin or plugin.name)
        return False


def close_plugin(plugin: Plugin) -> None:
    if hasattr(plugin, "close"):
        call(plugin, "Close", plugin.close)


def _rejected_or_error(plugin: Plugin, context: str, status: Status) -> Status:
    """A rejection as it is, anything else as an ERROR with the original's context before it."""
    status = status.of(plugin.name)
    if status.is_rejected:
        return status
    return Status(Code.ERROR, f"{context}: {status.message}", plugin=plugin.name, cause=status.cause)
