"""The execution of a preemption: asking the victims to go.

A victim whose own binding is not sent yet (it waits in Permit, or is in PreBind) is turned back by us, without a call.
Any other gets the condition DisruptionTarget, for those who look at why it went, and is then deleted. All but the last
go at the same time, and the last one after them: the pod that waits is gated until that one is under way, so that it
is not tried (and picks other victims) while only some of the room is being made. After that the watch shows the last
one's end; if the pod was held back from anything, it is tried then.

With the feature SchedulerAsyncPreemption this runs beside the scheduling cycles, otherwise within the cycle.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, KubeschedError
from kubesched.api.meta import Condition
from kubesched.framework.handle import Handle
from kubesched.framework.status import Status
from kubesched.preemption.candidate import Candidate

log = logging.getLogger("kubesched.preemption")

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"

#: Victims of one preemption that are asked to go at a time (the original's parallelism).
_IN_FLIGHT_MAX = 16


class _Run:
    """One preemption under way."""

    __slots__ = ("last", "was_held")

    def __init__(self) -> None:
        #: The last victim, once it is being asked to go.
        self.last: Pod | None = None
        #: The pod was held back meanwhile.
        self.was_held = False


class Execution:
    def __init__(self, handle: Handle, plugin_name: str) -> None:
        self._handle = handle
        self._plugin_name = plugin_name
        self._beside = handle.features.get("SchedulerAsyncPreemption", False)
        #: By UID of the pods that preempt now.
        self._under_way: dict[str, _Run] = {}
        #: Of these all victims are asked to go, and they are tried when the last one's end shows, or once woken before.
        self._late: set[str] = set()
        #: By UID of victims that are being asked to go: why that failed, or None.
        self._asked: dict[str, asyncio.Future[KubeschedError | None]] = {}
        #: UIDs of pods whose deletion was accepted, or whose binding was turned back, until they are gone.
        self._leaving: set[str] = set()

    async def begin(self, candidate: Candidate, preemptor: Pod) -> Status | None:
        """Ask the victims to go; with asynchronous preemption only begin to. An error ends the attempt."""
        metrics = self._handle.metrics
        victims = [info.pod for info in candidate.victims if not self._is_going(info.pod)]
        if not self._beside:
            metrics.preemption_victims(len(candidate.victims))
            error = await self._evict_all(victims, preemptor, candidate.node_name)
            if error is not None:
                return Status.error(error)
            await self._clear_lower_nominations(candidate.node_name, preemptor)
            return None
        if victims:
            metrics.preemption_victims(len(candidate.victims))
            # One that is about to end may still be there, where the end of its last victim was seen early.
            run = self._under_way[preemptor.metadata.uid] = _Run()
            self._handle.control.spawn(
                f"preemption for {preemptor.key}", self._run(run, victims, preemptor, candidate.node_name)
            )
        return None

    def holds(self, uid: str) -> bool:
        """Whether the pod must not be tried yet. Remembered: who is held back is woken in the end."""
        run = self._under_way.get(uid)
        if run is None:
            self._late.discard(uid)
            return False
        last = run.last
        if last is not None and (last.metadata.uid in self._leaving or self._handle.state.is_going(last.metadata.uid)):
            return False
        run.was_held = True
        return True

    def is_leaving(self, pod: Pod) -> bool:
        """Whether the pod was preempted and is on its way out."""
        if pod.metadata.uid in self._leaving:
            return True
        if not pod.is_terminating:
            return False
        condition = pod.condition(DISRUPTION_TARGET)
        return condition is not None and (condition.status, condition.reason) == ("True", PREEMPTION_BY_SCHEDULER)

    def _is_going(self, pod: Pod) -> bool:
        """For whatever reason."""
        uid = pod.metadata.uid
        if uid in self._leaving:
            return True
        placement = self._handle.state.placements.get(uid)
        return (placement.pod.pod if placement is not None else pod).is_terminating

    # -- beside the cycles

    async def _run(self, run: _Run, victims: list[Pod], preemptor: Pod, node_name: str) -> None:
        handle, uid = self._handle, preemptor.metadata.uid
        started_s = handle.clock.monotonic()
        went_well = False
        try:
            went_well = await self._make_room(run, victims, preemptor, node_name)
        finally:
            if self._under_way.get(uid) is run:
                del self._under_way[uid]
            result = "success" if went_well else "error"
            handle.metrics.preemption_goroutine(result, handle.clock.monotonic() - started_s)
            if run.was_held or not went_well:
                # Nothing else may ever wake it: the events that it was held back from are over.
                last = victims[-1].metadata.uid
                if not went_well or handle.state.is_going(last):
                    handle.control.activate([preemptor])
                else:
                    self._late.add(uid)
                    handle.state.when_going(last, lambda: self._wake(preemptor))

    def _wake(self, preemptor: Pod) -> None:
        if preemptor.metadata.uid in self._late:
            self._late.discard(preemptor.metadata.uid)
            self._handle.control.activate([preemptor])

    async def _make_room(self, run: _Run, victims: list[Pod], preemptor: Pod, node_name: str) -> bool:
        *others, last = victims
        cleared, error = await asyncio.gather(
            self._clear_lower_nominations(node_name, preemptor), self._evict_all(others, preemptor, node_name)
        )
        if error is not None:
            return False
        run.last = last
        return await self._evict(last, preemptor, node_name) is None and cleared

    # -- victims

    async def _evict_all(self, victims: Sequence[Pod], preemptor: Pod, node_name: str) -> KubeschedError | None:
        """All at the same time, within bounds; after a failure no further ones. Returns the first failure."""
        slots = asyncio.Semaphore(_IN_FLIGHT_MAX)
        failures: list[KubeschedError] = []

        async def one(victim: Pod) -> None:
            async with slots:
                if not failures and (error := await self._evict(victim, preemptor, node_name)) is not None:
                    failures.append(error)

        await asyncio.gather(*map(one, victims))
        return failures[0] if failures else None

    async def _evict(self, victim: Pod, preemptor: Pod, node_name: str) -> KubeschedError | None:
        """A victim that somebody else asks to go already is not asked twice: the answer is the same."""
        if self._is_going(victim):
            return None  # since it was chosen, for whatever reason
        uid = victim.metadata.uid
        asked = self._asked.get(uid)
        if asked is not None:
            return await asyncio.shield(asked)
        asked = self._asked[uid] = asyncio.get_running_loop().create_future()
        try:
            error = await self._ask_to_go(victim, preemptor, node_name)
            asked.set_result(error)
            return error
        finally:
            asked.cancel()  # no longer of interest if it has a result
            del self._asked[uid]

    async def _ask_to_go(self, victim: Pod, preemptor: Pod, node_name: str) -> KubeschedError | None:
        note = f"Preempted by pod {preemptor.metadata.uid} on node {node_name}"
        if self._turn_back(victim):
            note += " (in kube-scheduler memory)."
            log.info(
                "turned back a pod that was being bound pod=%s node=%s for=%s", victim.key, node_name, preemptor.key
            )
        else:
            try:
                was_there = await self._delete(victim, preemptor)
            except KubeschedError as error:
                log.error(
                    "could not preempt pod=%s node=%s for=%s error=%s", victim.key, node_name, preemptor.key, error
                )
                return error
            if not was_there:
                log.info("victim is gone already pod=%s node=%s for=%s", victim.key, node_name, preemptor.key)
                return None
            log.info("pod preempted pod=%s node=%s for=%s", victim.key, node_name, preemptor.key)
        self._handle.record_event(victim, type="Normal", reason="Preempted", action="Preempting", note=note)
        return None

    def _turn_back(self, victim: Pod) -> bool:
        uid = victim.metadata.uid
        waits = self._handle.waiting_pods.get(uid) is not None
        message = "preempted" if waits else f"preempted by {self._plugin_name}"
        if not self._handle.control.preempt_binding(uid, message):
            return False
        self._expect_end(uid)
        return True

    async def _delete(self, victim: Pod, preemptor: Pod) -> bool:
        """False when the pod is gone already."""
        condition = Condition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTION_BY_SCHEDULER,
            message=f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
            observed_generation=victim.metadata.generation or 0,
        )
        try:
            await self._handle.port.patch_pod_status(victim, condition=condition)
        except ApiError as error:
            if error.code == 404:
                return False
            raise
        await self._handle.port.delete_pod(victim)
        self._expect_end(victim.metadata.uid)
        return True

    def _expect_end(self, uid: str) -> None:
        self._leaving.add(uid)
        self._forget_if_gone(uid)

    def _forget_if_gone(self, uid: str) -> None:
        if self._handle.state.node_of(uid):
            self._handle.state.when_going(uid, lambda: self._forget_if_gone(uid))
        else:
            self._leaving.discard(uid)

    # -- other pods' nominations

    async def _clear_lower_nominations(self, node_name: str, preemptor: Pod) -> bool:
        """Pods of lower priority that were promised this node will not fit there any more, and may look elsewhere."""
        nominated = self._handle.state.nominator.pods_on(node_name)
        limit = preemptor.spec.priority or 0
        cleared = [self._clear(info.pod, node_name) for info in nominated if info.priority < limit]
        return all(await asyncio.gather(*cleared))

    async def _clear(self, pod: Pod, node_name: str) -> bool:
        self._handle.control.nominate(pod, "")
        # The newest version that we know may not show the nomination yet.
        shown = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, nominated_node_name=node_name))
        try:
            await self._handle.port.patch_pod_status(shown, nominated_node_name="")
        except ApiError as error:
            if error.code == 404:
                return True
            log.error("could not clear a nomination pod=%s node=%s error=%s", pod.key, node_name, error)
            return False
        except KubeschedError as error:
            log.error("could not clear a nomination pod=%s node=%s error=%s", pod.key, node_name, error)
            return False
        return True
