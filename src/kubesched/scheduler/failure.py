"""What happens after "no": the pod goes back to the queue, its condition and an event say why.

The newest version of the pod decides: one that is gone, or that somebody else has placed meanwhile, is not queued
again. Its condition is written only when it changes; writing never holds up scheduling.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kubesched.api.core import Pod
from kubesched.api.meta import Condition
from kubesched.clock import Clock
from kubesched.framework.runtime.runtime import Runtime
from kubesched.logs import took
from kubesched.metrics import Metrics
from kubesched.scheduler.outcome import KEEP, Failure
from kubesched.scheduler.queue import QueuedPod, SchedulingQueue
from kubesched.scheduler.queue.last_attempt import LastAttempt
from kubesched.scheduler.status_writer import StatusWriter
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.scheduler")


class FailureHandler:
    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        pending: Mapping[str, Pod],
        status_writer: StatusWriter,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._cluster = state
        self._queue = queue
        self._pending = pending
        self._status_writer = status_writer
        self._clock = clock
        self._metrics = metrics

    def handle(self, queued: QueuedPod, runtime: Runtime, failure: Failure, started_s: float) -> None:
        took_s = self._clock.monotonic() - started_s
        self._metrics.schedule_attempt(failure.result, runtime.profile_name, took_s)
        queued.last_message = failure.message
        queued.last_attempt = LastAttempt.of(failure)
        if failure.fit_error is not None:
            diagnosis = failure.fit_error.diagnosis
            queued.unschedulable_plugins = set(diagnosis.unschedulable_plugins)
            queued.pending_plugins = set(diagnosis.pending_plugins)
        self._log(queued, failure, took_s)

        newest = self._pending.get(queued.uid)
        if newest is None:
            log.info("pod is gone or placed by somebody else, not trying it again pod=%s", queued.key)
            self._queue.done(queued.uid)
            return
        if newest is not queued.pod:
            queued.pod_info = PodInfo(newest)
        self._nominate(queued.pod_info, failure.nomination)
        self._queue.add_rejected(queued)
        runtime.handle.record_event(
            newest, type="Warning", reason="FailedScheduling", action="Scheduling", note=failure.message
        )
        self._write_status(newest, failure)

    def _nominate(self, pod_info: PodInfo, nomination: str | None) -> None:
        nominator = self._cluster.nominator
        if nomination:
            nominator.nominate(pod_info, nomination)
        elif nomination is not KEEP:
            nominator.clear(pod_info.uid)
        else:
            nominator.refresh(pod_info)

    def _write_status(self, pod: Pod, failure: Failure) -> None:
        condition = Condition(
            type="PodScheduled",
            status="False",
            reason=failure.reason,
            message=failure.message,
            observed_generation=pod.metadata.generation or 0,
        )
        changed = _differs(pod.condition("PodScheduled"), condition)
        nomination = failure.nomination
        if nomination == pod.status.nominated_node_name:
            nomination = KEEP
        if changed or nomination is not KEEP:
            self._status_writer.submit(pod, condition=condition if changed else None, nominated_node_name=nomination)

    def _log(self, queued: QueuedPod, failure: Failure, took_s: float) -> None:
        if failure.status.is_rejected:
            log.info(
                "pod does not fit pod=%s evaluated=%d feasible=%d attempt=%d nominated=%s reason=%s took=%s",
                queued.key,
                failure.fit_error.node_count if failure.fit_error is not None else 0,
                0,
                queued.attempts,
                failure.nomination or "-",
                failure.message,
                took(took_s),
            )
        else:
            log.error(
                "scheduling failed, will retry pod=%s attempt=%d plugin=%s error=%s took=%s",
                queued.key,
                queued.attempts,
                failure.status.plugin or "-",
                failure.message,
                took(took_s),
            )


def _differs(old: Condition | None, new: Condition) -> bool:
    """Times apart."""
    return old is None or (old.status, old.reason, old.message, old.observed_generation) != (
        new.status,
        new.reason,
        new.message,
        new.observed_generation,
    )
