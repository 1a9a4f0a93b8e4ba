"""The binding cycle: one task per assumed pod, from Permit's verdict to PostBind.

    PreBindPreFlight ─► wait on Permit ─► PreBind ─► bind (extenders, then plugins) ─► PostBind ─► activate

It runs beside the scheduling cycles and never touches the state: it reports its end to the inbox. A bind call whose
answer is lost leaves open whether the pod is bound, so the live pod is looked at before anything is given back.

The task can be cancelled until the bind call is sent: when the scheduler stops, or when the pod is preempted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, KubeschedError, TransportError
from kubesched.clock import Clock
from kubesched.framework.ports import ClusterPort
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.status import Status
from kubesched.scheduler.bugs import as_bug
from kubesched.scheduler.outcome import Decision
from kubesched.scheduler.queue import QueuedPod

log = logging.getLogger("kubesched.scheduler")

#: Pauses between looks at the live pod while it is unknown whether a bind call took effect.
_LOOK_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)


class BindingReport(Protocol):
    """Who hears how a binding cycle goes; implemented by the scheduler, which passes what matters through the inbox."""

    def permitted(self, binding: Binding) -> None: ...

    def sending(self, binding: Binding) -> None:
        """The bind call is under way from now on."""
        ...

    def bound(self, binding: Binding) -> None: ...

    def failed(self, binding: Binding, status: Status) -> None: ...

    def drop_status_write(self, uid: str) -> asyncio.Future[None] | None:
        """No more news that the pod does not fit; what to wait for until none is under way."""
        ...


class Stage(Enum):
    PERMIT = "Permit"
    PRE_BIND = "PreBind"
    BIND = "Bind"


_PERMIT, _PRE_BIND, _BIND = Stage.PERMIT, Stage.PRE_BIND, Stage.BIND


class Binding:
    """One binding cycle under way."""

    def __init__(
        self,
        queued: QueuedPod,
        runtime: Runtime,
        decision: Decision,
        port: ClusterPort,
        clock: Clock,
        to: BindingReport,
    ) -> None:
        self.queued = queued
        self.pod: Pod = queued.pod
        self.runtime = runtime
        self.decision = decision
        self.stage = _PERMIT
        self._port = port
        self._clock = clock
        self._report = to
        #: What it runs in, as far as it can be cancelled there.
        self._task: asyncio.Task[object] | None = None
        self._has_begun = False
        #: What the cycle ends with when it is cut short.
        self._cut_short: Status | None = None

    @property
    def node_name(self) -> str:
        return self.decision.node_name

    def cancel(self, message: str) -> bool:
        """End the cycle before the bind call, as an Unschedulable failure that says `message`; False when too late."""
        return self._cut(Status.unschedulable(message), self.runtime.handle.waiting_pods.reject)

    def preempt(self, message: str) -> bool:
        """As `cancel`, but as an error: no plugin turned the pod away, so it is tried again soon."""
        return self._cut(Status.error(message), self.runtime.handle.waiting_pods.preempt)

    def runs_in(self, task: asyncio.Task[Any]) -> None:
        """The task in which `run` does, or goes on."""
        self._task = task
        if self._cut_short is not None and self._has_begun:
            task.cancel()

    async def run(self) -> None:
        """To its end, which is reported in any case."""
        self._has_begun = True
        try:
            status = await self._bind_pod()
        except asyncio.CancelledError:
            if self._cut_short is None:
                raise
            status = self._cut_short
        except Exception as error:
            status = as_bug(error, self.queued.key)
        if status is None:
            self._report.bound(self)
            await self.runtime.post_bind(self.decision.state, self.pod, self.node_name)
        else:
            self._report.failed(self, status)

    def _cut(self, status: Status, end_wait: Callable[[str, str], bool]) -> bool:
        if self.stage is _BIND:
            return False
        if self._cut_short is None:
            self._cut_short = status
            if not end_wait(self.queued.uid, status.message) and self._task is not None and self._has_begun:
                self._task.cancel()
        return True

    async def _bind_pod(self) -> Status | None:
        runtime, state, pod, node_name = self.runtime, self.decision.state, self.pod, self.node_name
        status = runtime.pre_bind_pre_flight(state, pod, node_name)
        if status is not None and not status.is_skip:
            return status
        has_pre_bind_work = status is None
        if has_pre_bind_work or runtime.handle.waiting_pods.get(self.queued.uid) is not None:
            if self._cut_short is None:
                await self._nominate(pod, node_name)
            status = await runtime.wait_on_permit(pod)
            if status is not None:
                return status
        if (cut_short := self._was_cut_short()) is not None:  # before there was anything to cancel
            return cut_short
        self.stage = _PRE_BIND
        self._report.permitted(self)
        if has_pre_bind_work:
            status = await runtime.pre_bind(state, pod, node_name)
            if status is not None:
                return status
        if (writing := self._report.drop_status_write(self.queued.uid)) is not None:
            await asyncio.shield(writing)
        if (cut_short := self._was_cut_short()) is not None:  # and a plugin has swallowed the cancellation
            return cut_short
        self.stage = _BIND
        self._report.sending(self)
        status = await runtime.bind(state, pod, node_name)
        if status is not None and _leaves_open(status.cause):
            return await self._settle_unknown(status)
        return status

    def _was_cut_short(self) -> Status | None:
        return self._cut_short

    async def _nominate(self, pod: Pod, node_name: str) -> None:
        """Tell others (the cluster autoscaler, the next leader) where the pod is going while it waits."""
        if pod.status.nominated_node_name == node_name:
            return
        try:
            await self._port.patch_pod_status(pod, nominated_node_name=node_name)
        except KubeschedError as error:
            log.warning(
                "could not note the nominated node, going on pod=%s node=%s error=%s", self.queued.key, node_name, error
            )

    async def _settle_unknown(self, status: Status) -> Status | None:
        """The bind call got no answer: what does the live pod say? Asks until it knows."""
        looks = 0
        while True:
            try:
                live = await self._port.read_pod(self.pod)
            except KubeschedError as error:
                pause_s = _LOOK_PAUSES_S[min(looks, len(_LOOK_PAUSES_S) - 1)]
                looks += 1
                log.warning(
                    "unknown whether the pod is bound, will look again pod=%s node=%s in_s=%s error=%s",
                    self.queued.key,
                    self.node_name,
                    pause_s,
                    error,
                )
                await self._clock.sleep(pause_s)
                continue
            if live is not None and live.spec.node_name == self.node_name:
                log.info(
                    "bind call took effect though its answer was lost pod=%s node=%s", self.queued.key, self.node_name
                )
                return None
            return status


def _leaves_open(cause: BaseException | None) -> bool:
    """Whether a failed bind call may have taken effect nevertheless."""
    return isinstance(cause, TransportError) or (isinstance(cause, ApiError) and cause.code >= 500)
