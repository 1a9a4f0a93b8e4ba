"""`Driver`: runs the scheduler by hand, in virtual time.

    apply what is there ─► pop ─► one attempt ─► let its binding finish ─► ... nothing to pop?
                                                    ─► move the clock to whatever falls due next ─► ...

The end is reached when time alone can change nothing more: every pod that waits was tried against the cluster as it is
now, and no timer of a plugin is running. Live, some pods would be tried again forever (a plugin fails, a partner never
comes); here such a pod is left alone after a few tries during which nothing was placed, removed or written.
"""

from __future__ import annotations

import asyncio

from kubesched.api import kinds
from kubesched.api.core import Pod
from kubesched.clock import ManualClock
from kubesched.offline.outcomes import Outcome, Result, Run
from kubesched.offline.private_loop import PrivateLoop
from kubesched.offline.world import World
from kubesched.scheduler.queue import QueuedPod
from kubesched.scheduler.queue.scheduling_queue import FLUSH_AFTER_S
from kubesched.scheduler.scheduler import Scheduler

#: Tries of one pod against an unchanged cluster.
_TRIES_MAX = 5
#: Turns of the event loop without any progress after which tasks count as waiting for time or for good.
_IDLE_TURNS = 5

_SCHEDULED = Result.SCHEDULED  # found faster than a member of an Enum


class Driver:
    def __init__(self, scheduler: Scheduler, world: World, clock: ManualClock, loop: PrivateLoop) -> None:
        self._scheduler = scheduler
        self._world = world
        self._clock = clock
        self._loop = loop
        self._victims: dict[str, list[str]] = {}
        self._under_way = ""
        #: By UID the revision of the cluster that a pod was last tried against, how often it was tried against that,
        #: and its attempts in all.
        self._tried: dict[str, tuple[int, int, int]] = {}
        self._settled: dict[str, Outcome] = {}
        world.on_bound = self._on_bound
        world.on_deleted = self._on_deleted

    async def schedule(self, pod: Pod) -> Outcome:
        """Try one pod until it has a node or nothing more can be done for it."""
        self._begin()
        queue = self._scheduler.queue
        self._world.put(pod)
        self._scheduler.inbox.apply_all()
        uid = pod.metadata.uid
        while True:
            queued = queue.find(uid)
            if queued is None or queued.gated_by or self._is_given_up(queued):
                break
            if uid in queue.parked and queued.attempts:
                break
            self._wait_for(queued)
            queue.take(uid)
            await self._attempt(queued)
            while self._scheduler.binding_count and self._advance_to_next_timer():
                await self._let_tasks_run()
        return self._outcome(pod)

    async def run(self) -> Run:
        self._begin()
        started_s = self._clock.monotonic()
        waiting = dict(self._scheduler.handlers.pending)
        while True:
            await self._run_ready()
            if self._wait_for_binding_or_error():
                await self._let_tasks_run()
                continue
            if not await self._flush_helped():
                break
        for uid, pod in waiting.items():
            if uid not in self._settled:
                self._settled[uid] = self._outcome(pod)
        return Run(list(self._settled.values()), self._clock.monotonic() - started_s)

    # -- steps

    def _begin(self) -> None:
        self._settled = {}
        self._victims = {}

    async def _run_ready(self) -> None:
        """Attempts, one after the other, while there are pods to pop."""
        queue, inbox = self._scheduler.queue, self._scheduler.inbox
        while True:
            inbox.apply_all()
            queue.flush()
            queued = queue.pop()
            if queued is None:
                return
            if queued.uid in self._tried and self._is_given_up(queued):
                self._leave_alone(queued)
            else:
                await self._attempt(queued)

    async def _attempt(self, queued: QueuedPod) -> None:
        scheduler, revision = self._scheduler, self._world.revision
        self._under_way = queued.key
        before = self._tried.get(queued.uid)
        number = before[1] + 1 if before is not None and before[0] == revision else 1
        self._tried[queued.uid] = revision, number, queued.attempts
        await scheduler.schedule_one(queued)
        scheduler.inbox.apply_all()
        if scheduler.has_tasks or self._loop.has_turn_to_take:
            await self._let_tasks_run()
        scheduler.tidy()

    async def _let_tasks_run(self) -> None:
        """Until bindings and writes have come to their end, or wait for time to pass."""
        scheduler, loop = self._scheduler, self._loop
        idle = 0
        while idle < _IDLE_TURNS:
            if scheduler.inbox:
                scheduler.inbox.apply_all()
                idle = 0
            elif not scheduler.has_tasks and not loop.has_turn_to_take:
                return
            else:
                idle += 1
                await asyncio.sleep(0)

    def _wait_for_binding_or_error(self) -> bool:
        """Move time on if somebody waits for nothing else; False when nobody does."""
        queue = self._scheduler.queue
        if self._scheduler.inbox or queue.active:
            return True
        ends = [pod.backoff_until for pod in queue.backoff if not self._is_given_up(pod)]
        if ends:
            self._clock.advance(max(min(ends) - self._clock.now(), 0.0))
            return True
        return bool(self._scheduler.binding_count) and self._advance_to_next_timer()

    def _advance_to_next_timer(self) -> bool:
        due_s = self._clock.next_due()
        if due_s is None:
            return False
        self._clock.advance(due_s - self._clock.monotonic())
        return True

    async def _flush_helped(self) -> bool:
        """Pods that were last tried on another cluster than this one get another try after a while, as they do live,
        in case no event told that they might fit by now. True when that placed or removed any pod."""
        queue = self._scheduler.queue
        before = self._world.revision
        late = [pod for pod in queue.parked if not pod.gated_by and not self._was_tried(pod)]
        if not late:
            return False
        flush_at = max(max(pod.timestamp for pod in late) + FLUSH_AFTER_S + 1.0, queue.next_flush)
        self._clock.advance(flush_at - self._clock.now())
        queue.flush()
        await self._run_ready()
        return self._world.revision != before

    def _wait_for(self, queued: QueuedPod) -> None:
        if queued.attempts and queued.backoff_until > self._clock.now():
            self._clock.advance(queued.backoff_until - self._clock.now())

    def _was_tried(self, queued: QueuedPod) -> bool:
        """Against the cluster as it is now."""
        tried = self._tried.get(queued.uid)
        return tried is not None and tried[0] == self._world.revision

    def _is_given_up(self, queued: QueuedPod) -> bool:
        return self._was_tried(queued) and self._tried[queued.uid][1] >= _TRIES_MAX

    def _leave_alone(self, queued: QueuedPod) -> None:
        """Back, as after an error: should the cluster change yet, it gets its turn when its backoff is over."""
        queued.attempts -= 1
        self._scheduler.queue.add_rejected(queued)

    # -- what came of it

    def _on_bound(self, pod: Pod, node_name: str) -> None:
        uid, key = pod.metadata.uid, pod.key
        tried = self._tried.get(uid)
        attempts = tried[2] if tried is not None else 1
        victims = tuple(self._victims.pop(key, ())) if self._victims else ()
        self._settled[uid] = Outcome(key, _SCHEDULED, node_name, "", attempts, victims)

    def _on_deleted(self, pod: Pod) -> None:
        self._victims.setdefault(self._under_way, []).append(pod.key)
        placed = self._settled.pop(pod.metadata.uid, None)
        if placed is not None:
            message = f"removed from node {placed.node} for {self._under_way}"
            self._settled[pod.metadata.uid] = Outcome(
                pod.key, Result.PREEMPTED, message=message, attempts=placed.attempts
            )

    def _outcome(self, pod: Pod) -> Outcome:
        uid = pod.metadata.uid
        settled = self._settled.get(uid)
        if settled is not None:
            return settled
        queued = self._scheduler.queue.find(uid)
        if queued is None and pod.is_terminating:
            return Outcome(pod.key, Result.UNSCHEDULABLE, message="the pod is being deleted", attempts=0)
        if queued is None:
            return Outcome(pod.key, Result.ERROR, message="a plugin does not let its binding come to an end")
        result = Result.GATED if queued.gated_by else self._failure(queued.pod)
        victims = tuple(self._victims.pop(pod.key, ()))
        return Outcome(pod.key, result, message=queued.last_message, attempts=queued.attempts, victims=victims)

    def _failure(self, pod: Pod) -> Result:
        live = self._world.get(kinds.POD, pod.name, pod.namespace)
        condition = live.condition("PodScheduled") if live is not None else None
        is_error = condition is not None and condition.reason == "SchedulerError"
        return Result.ERROR if is_error else Result.UNSCHEDULABLE
