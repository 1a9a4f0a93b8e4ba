"""`Driver`: runs the scheduler by hand, in virtual time.

    apply what is there ─► pop ─► one attempt ─► let its binding finish ─► ... nothing to pop?
                                                    ─► move the clock to whatever falls due next ─► ...

The end is reached when time alone can change nothing more: every pod that waits was tried against the cluster as it is
now, and no timer of a plugin is running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable

from kubesched.api.core import Pod
from kubesched.clock import ManualClock
from kubesched.offline.outcomes import Outcome, Result, Run
from kubesched.offline.world import World
from kubesched.scheduler.queue import QueuedPod
from kubesched.scheduler.queue.scheduling_queue import FLUSH_AFTER_S
from kubesched.scheduler.scheduler import Scheduler

#: A pod whose attempts keep ending in errors is given up after so many in a row.
_ERRORS_MAX = 5
#: Turns of the event loop without any progress after which tasks count as waiting for time or for good.
_IDLE_TURNS = 5


class Driver:
    def __init__(self, scheduler: Scheduler, world: World, clock: ManualClock) -> None:
        self._scheduler = scheduler
        self._world = world
        self._clock = clock
        self._attempts: dict[str, int] = {}
        self._victims: dict[str, list[str]] = {}
        self._under_way = ""
        #: What the cluster looked like when each pod was last tried in vain.
        self._tried_at: dict[str, Hashable] = {}
        self._settled: dict[str, Outcome] = {}
        self._placed_or_removed = 0
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
            queue.delete(uid)
            queued.attempts += 1
            queued.first_attempt = queued.first_attempt or self._clock.now()
            queue.in_flight.start(uid)
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
            self._settled.setdefault(uid, self._outcome(pod))
        return Run(list(self._settled.values()), self._clock.monotonic() - started_s)

    # -- steps

    def _begin(self) -> None:
        self._settled = {}
        self._victims = {}

    async def _run_ready(self) -> None:
        """Attempts, one after the other, while there are pods to pop."""
        queue = self._scheduler.queue
        while True:
            self._scheduler.inbox.apply_all()
            queue.flush()
            queued = queue.pop()
            if queued is None:
                return
            await self._attempt(queued)

    async def _attempt(self, queued: QueuedPod) -> None:
        self._under_way = queued.key
        self._attempts[queued.uid] = queued.attempts
        await self._scheduler.schedule_one(queued)
        self._tried_at[queued.uid] = self._cluster_as_it_is()
        await self._let_tasks_run()
        nodes = self._scheduler.state.nodes
        nodes.journal.trim(nodes.row_count)

    async def _let_tasks_run(self) -> None:
        """Until bindings and writes have come to their end, or wait for time to pass."""
        idle = 0
        while idle < _IDLE_TURNS:
            await asyncio.sleep(0)
            if self._scheduler.inbox:
                self._scheduler.inbox.apply_all()
                idle = 0
            else:
                idle += 1

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
        now = self._cluster_as_it_is()
        late = [pod for pod in queue.parked if not pod.gated_by and self._tried_at.get(pod.uid) != now]
        if not late:
            return False
        before = self._placed_or_removed
        self._clock.advance(max(pod.timestamp for pod in late) + FLUSH_AFTER_S + 1.0 - self._clock.now())
        queue.flush()
        await self._run_ready()
        return self._placed_or_removed != before

    def _wait_for(self, queued: QueuedPod) -> None:
        if queued.attempts and queued.backoff_until > self._clock.now():
            self._clock.advance(queued.backoff_until - self._clock.now())

    def _is_given_up(self, queued: QueuedPod) -> bool:
        return queued.error_count >= _ERRORS_MAX

    def _cluster_as_it_is(self) -> Hashable:
        state = self._scheduler.state
        return state.nodes.journal.position, state.objects.total_version

    # -- what came of it

    def _on_bound(self, pod: Pod, node_name: str) -> None:
        self._placed_or_removed += 1
        uid = pod.metadata.uid
        self._settled[uid] = Outcome(
            pod.key,
            Result.SCHEDULED,
            node_name,
            attempts=self._attempts.get(uid, 1),
            victims=tuple(self._victims.pop(pod.key, ())),
        )

    def _on_deleted(self, pod: Pod) -> None:
        self._placed_or_removed += 1
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
        if queued is None:
            return Outcome(pod.key, Result.ERROR, message="the pod is not queued any more", attempts=0)
        if queued.gated_by:
            result = Result.GATED
        else:
            result = Result.UNSCHEDULABLE if queued.rejected_by else Result.ERROR
        victims = tuple(self._victims.pop(pod.key, ()))
        return Outcome(pod.key, result, message=queued.last_message, attempts=queued.attempts, victims=victims)
