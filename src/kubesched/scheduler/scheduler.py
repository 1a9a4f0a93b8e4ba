"""`Scheduler`: owns the parts and runs them; next pod ─► scheduling cycle ─► binding task.

    watch changes ─► Inbox ─► EventHandlers ─► ClusterState, SchedulingQueue
                                                      │ pop
                         FailureHandler ◄── no ── SchedulingCycle ── yes ─► Binding (a task) ─► Inbox

Single writer, no locks: all of this runs on one event loop. `run` alternates between applying the inbox and one cycle,
and gives way to I/O at least every `_SLICE_S`. While hundreds of bind calls are under way it waits for some of them to
end: what is decided later knows more, and a pod of high priority waits behind those hundreds only. Who drives time by
hand (the offline engine, tests) calls `step` instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from kubesched.api.changes import Change
from kubesched.api.core import Pod
from kubesched.api.meta import format_time
from kubesched.clock import Chance, Clock
from kubesched.framework import events
from kubesched.framework.ports import ClusterPort
from kubesched.framework.runtime.runtime import Runtime
from kubesched.framework.status import Code, Status
from kubesched.logs import took
from kubesched.metrics import Metrics
from kubesched.scheduler.binding_cycle import Binding, Stage
from kubesched.scheduler.event_handlers import EventHandlers
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.outcome import Decision, Failure
from kubesched.scheduler.queue import QueuedPod, SchedulingQueue, report
from kubesched.scheduler.scheduling_cycle import SchedulingCycle, rejected_at_node
from kubesched.scheduler.status_writer import StatusWriter
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo

log = logging.getLogger("kubesched.scheduler")

#: Makes a task of a name and a coroutine; None when it has run to its end already.
TaskStarter = Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[Any] | None]

#: The longest that cycles run before I/O gets its turn.
_SLICE_S = 0.005
#: Cycles wait once so many bind calls are under way, until no more than so many are, and not longer than this before
#: each slice of cycles.
_SENDING_MAX = 512
_SENDING_FEW = 256
_PATIENCE_S = 1.0
_WARNING_PAUSE_S = 60.0
#: After how many turns what was written down on the way is tidied up.
_TURNS_UNTIDIED = 500
#: The longest that nothing turns at all.
_REST_S = 30.0
#: How long a stop waits for binds whose calls are on their way.
_STOP_S = 5.0


class Scheduler:
    """Implements `SchedulerControl` for plugins, and hears from bindings and event handlers."""

    def __init__(
        self,
        state: ClusterState,
        port: ClusterPort,
        clock: Clock,
        chance: Chance,
        metrics: Metrics,
        *,
        start_binding: TaskStarter | None = None,
        tells_of_bindings: bool = True,
    ) -> None:
        """`start_binding` makes a task of a binding cycle; the default is the loop's own way. `tells_of_bindings`:
        record an event for each pod that was bound."""
        self.state = state
        self.clock = clock
        self.metrics = metrics
        self.port = port
        self.inbox = Inbox(self._wake)
        self._chance = chance
        self._cycle = SchedulingCycle(state, clock, chance, metrics)
        self._bindings: dict[str, Binding] = {}
        self._running_count = 0
        self._sending_count = 0
        self._warned_of_binds_s = -_WARNING_PAUSE_S
        metrics.before_export(self._count_running)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._start_binding = start_binding or _start_soon
        self._tells_of_bindings = tells_of_bindings
        self._awake = asyncio.Event()
        self._stopping = False
        self._turns = 0
        #: Who runs a scheduling cycle that is not over: one that waits for an extender.
        self._attempting: asyncio.Task[Any] | None = None
        self._runner: asyncio.Task[Any] | None = None
        self._attempted: QueuedPod | None = None
        #: True once the first cycle could run.
        self.has_started = False
        self.status_writer = StatusWriter(port, self._spawn)

    def start_with(
        self,
        runtimes: Mapping[str, Runtime],
        *,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        flush_after_s: float = 300.0,
    ) -> None:
        """The profiles, by scheduler name; their handles have this scheduler as `control`. Called once."""
        self.runtimes = dict(runtimes)
        self.queue = SchedulingQueue(
            runtimes,
            self.clock,
            self.metrics,
            initial_backoff_s=initial_backoff_s,
            max_backoff_s=max_backoff_s,
            flush_after_s=flush_after_s,
            on_ready=self._wake,
        )
        self.handlers = EventHandlers(self.state, self.queue, self.runtimes, self, self.clock, self.metrics)
        self._failures = FailureHandler(
            self.state, self.queue, self.handlers.pending, self.status_writer, self.clock, self.metrics
        )

    def adopt(self, runtimes: Mapping[str, Runtime], *, initial_backoff_s: float, max_backoff_s: float) -> None:
        """Go on with other profiles (a reload); to be called between cycles. No pod of a profile that stays is lost.

        Binding cycles under way end with the plugins that they began with. Pods of profiles that are gone are left to
        others; those of new profiles are to be delivered again by who watches.
        """
        self.handlers.disown(self.runtimes.keys() - runtimes.keys())
        self.runtimes.clear()  # the event handlers look at this very mapping
        self.runtimes.update(runtimes)
        self.queue.adopt(self.runtimes, initial_backoff_s=initial_backoff_s, max_backoff_s=max_backoff_s)
        self._wake()

    # -- what comes in

    def deliver(self, changes: Iterable[Change]) -> None:
        """Changes of watched objects, to be applied before the next cycle."""
        for change in changes:
            self.inbox.post(self.handlers.apply, change)

    # -- running

    async def run(self) -> None:
        """Schedule until `stop` is called or the task is cancelled."""
        self.has_started = True
        self._runner = asyncio.current_task()
        try:
            await self._run()
        except asyncio.CancelledError:
            if not self._stopping or self._attempting is None:
                raise
            self._attempting.uncancel()  # it was `stop` that cut the attempt short
        finally:
            self._runner = None

    async def stand_by(self) -> None:
        """Keep state and queue up to date without scheduling, until cancelled: somebody else leads."""
        while not self._stopping:
            self.inbox.apply_all()
            self.tidy()
            self._awake.clear()
            if not self.inbox:
                await self._sleep(_REST_S)

    async def _run(self) -> None:
        while not self._stopping:
            if self._sending_count >= _SENDING_MAX:
                await self._let_binds_end()
            self.queue.flush()
            slice_end_s = self.clock.monotonic() + _SLICE_S
            while await self.step():
                if self._stopping or self.clock.monotonic() >= slice_end_s:
                    break
            else:
                await self._sleep_until_ready()
                continue
            await asyncio.sleep(0)

    async def _let_binds_end(self) -> None:
        """Some of them, or none in time: what they wait for may be another cycle."""
        until_s = self.clock.monotonic() + _PATIENCE_S
        while self._sending_count > _SENDING_FEW and not self._stopping:
            self.inbox.apply_all()
            left_s = until_s - self.clock.monotonic()
            if left_s <= 0:
                self._warn_of_binds()
                break
            self._awake.clear()
            if not self.inbox and self._sending_count > _SENDING_FEW:
                await self._sleep(left_s)

    def _warn_of_binds(self) -> None:
        """Once a minute at most."""
        now_s = self.clock.monotonic()
        if now_s >= self._warned_of_binds_s + _WARNING_PAUSE_S:
            self._warned_of_binds_s = now_s
            log.warning("bind calls do not end, deciding slowly meanwhile under_way=%d", self._sending_count)

    async def step(self) -> bool:
        """Apply the inbox, then try one pod; False when no pod is ready."""
        self.inbox.apply_all()
        queued = self.queue.pop()
        if queued is not None:
            self._attempting = self._runner or asyncio.current_task()
            await self.schedule_one(queued)
            self._attempting = None
        self.tidy()
        return queued is not None

    async def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt for a popped pod, its binding running on by itself."""
        uid, runtime = queued.uid, self.runtimes[queued.pod.spec.scheduler_name]
        if self._skips(queued.pod, runtime):
            self.queue.done(uid)
            return
        self._attempted = queued
        outcome = await self._cycle.run(queued.pod_info, runtime)
        self._attempted = None
        if isinstance(outcome, Failure):
            self._failures.handle(queued, runtime, outcome, self._cycle.started_s)
            return
        if outcome.state.pods_to_activate:
            self._activate(outcome)
        binding = Binding(queued, runtime, outcome, self.port, self.clock, self)
        if runtime.handle.waiting_pods.get(uid) is None:
            self.queue.done(uid)  # nothing that happens from here on can make the pod unschedulable
        self._bindings[uid] = binding
        self._running_count += 1
        task = self._start_binding(f"binding of {queued.key}", binding.run())
        if task is not None:
            binding.runs_in(task)
            self._watch(task)

    async def stop(self) -> None:
        """No new cycle, and none that waits for an extender; binding cycles end before their bind call or finish it,
        within a bound of time."""
        self._stopping = True
        self.queue.close()
        self._wake()
        if self._attempting is not None:
            self._attempting.cancel()
        for binding in list(self._bindings.values()):
            binding.cancel("scheduler is stopping")
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_STOP_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        self.inbox.apply_all()

    def tidy(self) -> None:
        """To be called after each turn: what was written down on the way must not grow for ever."""
        self._turns += 1
        if self._turns >= _TURNS_UNTIDIED:
            self._turns = 0
            self.state.nodes.journal.trim(self.state.nodes.row_count)
            self.metrics.count_up()

    def _skips(self, pod: Pod, runtime: Runtime) -> bool:
        """A pod that is being deleted, or that is assumed already because an update queued it again."""
        if pod.is_terminating:
            note = f"skip schedule deleting pod: {pod.metadata.namespace}/{pod.metadata.name}"
            runtime.handle.record_event(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)
            log.info("not scheduling a pod that is being deleted pod=%s/%s", pod.metadata.namespace, pod.metadata.name)
            return True
        return self.state.is_assumed(pod.metadata.uid)

    def _activate(self, decision: Decision) -> None:
        self.queue.activate(decision.state.pods_to_activate.values())
        decision.state.pods_to_activate.clear()

    async def _sleep_until_ready(self) -> None:
        """Until something is posted, a backoff ends, or the periodic flush is due."""
        self._awake.clear()
        if self.inbox or self.queue.active or self._stopping:
            return
        await self._sleep(max(self.queue.next_due() - self.clock.now(), 0.0))

    async def _sleep(self, most_s: float) -> None:
        timer = self.clock.call_later(most_s, self._wake)
        try:
            await self._awake.wait()
        finally:
            timer.cancel()

    def _wake(self) -> None:
        self._awake.set()

    # -- how bindings go (BindingReport); each report but `sending`, which only counts, is applied between cycles

    def permitted(self, binding: Binding) -> None:
        if binding.queued.uid in self.queue.in_flight:
            self.inbox.post(self.queue.done, binding.queued.uid)

    def sending(self, binding: Binding) -> None:
        self._sending_count += 1

    def bound(self, binding: Binding) -> None:
        self.inbox.post(self._apply_bound, binding)

    def failed(self, binding: Binding, status: Status) -> None:
        self.inbox.post(self._apply_failed, binding, status)

    def drop_status_write(self, uid: str) -> asyncio.Future[None] | None:
        return self.status_writer.drop(uid)

    def _apply_bound(self, binding: Binding) -> None:
        self._end_binding(binding)
        queued, decision, runtime = binding.queued, binding.decision, binding.runtime
        took_s = self.clock.monotonic() - decision.started_s
        self.metrics.schedule_attempt("scheduled", runtime.profile_name, took_s)
        since_s = self.clock.now() - (queued.first_attempt or queued.timestamp)
        self.metrics.pod_scheduled(queued.attempts, since_s)
        if queued.was_flushed:
            self.metrics.pod_scheduled_after_flush()
        if log.isEnabledFor(logging.INFO):
            log.info(
                "pod scheduled pod=%s node=%s evaluated=%d feasible=%d attempt=%d took=%s",
                queued.key,
                decision.node_name,
                decision.evaluated_count,
                decision.feasible_count,
                queued.attempts,
                took(took_s),
            )
        if self._tells_of_bindings:
            runtime.handle.record_event(
                queued.pod,
                type="Normal",
                reason="Scheduled",
                action="Binding",
                note=f"Successfully assigned {queued.key} to {decision.node_name}",
            )
        if decision.state.pods_to_activate:
            self._activate(decision)

    def _apply_failed(self, binding: Binding, status: Status) -> None:
        """Give back what was taken, put the pod back, and let others have the room."""
        self._end_binding(binding)
        queued, runtime, decision = binding.queued, binding.runtime, binding.decision
        runtime.unreserve(decision.state, binding.pod, binding.node_name)
        gave_back = self.state.forget(queued.uid)
        if gave_back is not None and not status.is_rejected:
            self.queue.move(events.ASSIGNED_POD_DELETE, gave_back.placed_pod, None)
        self._failures.handle(queued, runtime, _failure_of(binding, status), decision.started_s)
        if gave_back is not None and status.is_rejected:
            # Only now, and not for the pod itself: its own leaving is no news to it.
            self.queue.move(events.ASSIGNED_POD_DELETE, gave_back.placed_pod, None, but=queued.uid)

    def _end_binding(self, binding: Binding) -> None:
        if self._bindings.get(binding.queued.uid) is binding:
            del self._bindings[binding.queued.uid]
        self._running_count -= 1
        if binding.stage is Stage.BIND:
            self._sending_count -= 1

    def _count_running(self) -> None:
        self.metrics.goroutines("binding").set(self._running_count)

    # -- PodFate

    def pod_gone(self, uid: str) -> None:
        """A pod that waits in Permit or PreBind and is gone need not wait any longer."""
        binding = self._bindings.get(uid)
        if binding is not None:
            binding.cancel("removed")

    # -- SchedulerControl

    def activate(self, pods: Iterable[Pod]) -> None:
        self.inbox.post(self.queue.activate, list(pods))

    def nominate(self, pod: Pod, node_name: str) -> None:
        self.inbox.post(self._apply_nomination, pod, node_name)

    def _apply_nomination(self, pod: Pod, node_name: str) -> None:
        if node_name and pod.metadata.uid in self.handlers.pending:
            self.state.nominator.nominate(PodInfo(pod), node_name)
        else:
            self.state.nominator.clear(pod.metadata.uid)

    def preempt_binding(self, uid: str, message: str) -> bool:
        binding = self._bindings.get(uid)
        return binding is not None and binding.preempt(message)

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._spawn(name, work)

    # -- tasks

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._watch(_start_soon(name, work))

    def _watch(self, task: asyncio.Task[Any]) -> None:
        if task.done():
            _tell_bug(task)
        else:
            self._tasks.add(task)
            task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        _tell_bug(task)

    # -- for people

    def queue_report(self) -> dict[str, Any]:
        """See `scheduler.queue.report`; with the number of bindings under way."""
        return report.queue_report(self.queue, self.clock.now()) | {"binding": len(self._bindings)}

    def pod_report(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Where a pod is and what it waits for; None for one that is unknown or another scheduler's to place."""
        uid, now = self.handlers.uid_of(namespace, name), self.clock.now()
        found = self._where(uid, now)
        if found is None:
            return None
        nominated = self.state.nominator.node_of(uid)
        return {"time": format_time(now)} | found | ({"nominatedNode": nominated} if nominated else {})

    def _where(self, uid: str, now: float) -> dict[str, Any] | None:
        if (queued := self.queue.find(uid)) is not None:
            return report.pod_report(self.queue, queued, now)
        if (binding := self._bindings.get(uid)) is not None:
            took_s = self.clock.monotonic() - binding.decision.started_s
            return report.binding_report(binding, now - took_s)
        if (placement := self.state.placements.get(uid)) is not None:
            return report.placed_report(placement.pod.pod, placement.node_name)
        if self._attempted is not None and self._attempted.uid == uid:
            return report.in_flight_report(self._attempted)
        return None

    @property
    def binding_count(self) -> int:
        return len(self._bindings)

    @property
    def has_tasks(self) -> bool:
        """Something runs beside the cycles: a binding, the writing of a status, what a plugin has spawned."""
        return bool(self._tasks)


def _start_soon(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(work, name=name)


def _tell_bug(task: asyncio.Task[Any]) -> None:
    """If the task that is done ended with one."""
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a task ended with a bug task=%s error=%s", task.get_name(), error, exc_info=error)


def _failure_of(binding: Binding, status: Status) -> Failure:
    """Up to Permit a rejection is about the node and names the plugin, whose events wake the pod. Later it is called
    one as well, but the pod is tried again soon: it did fit."""
    if not status.is_rejected:
        return Failure(Status(Code.ERROR, *status.reasons, plugin=status.plugin, cause=status.cause))
    if binding.stage is Stage.PERMIT:
        return rejected_at_node(binding.pod, binding.node_name, status)
    return Failure(status)
