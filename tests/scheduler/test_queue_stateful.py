"""Queue, cache and handlers through random interleavings: nothing is lost, bound twice, or bound after its deletion.

A small cluster lives: pods and nodes come, change and go, watches lag, break and are listed again, cycles run, binds
succeed, are refused, or lose their answer, time passes, the scheduler starts anew. After each step every pending pod is
in exactly one place. Whenever it has been quiet for long enough (no rule of ours for a backoff and a bit) a pod that
fits some node is on it. Planted faults must be found: a property that finds nothing proves nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kubesched.api import kinds
from kubesched.api.changes import Delete, Replace, Upsert
from kubesched.api.core import Node, Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.framework import Plugin, Status
from kubesched.framework.events import NODE_ADD, ClusterEventWithHint
from kubesched.scheduler.event_handlers import EventHandlers
from kubesched.scheduler.queue import SchedulingQueue
from kubesched.scheduler.queue.in_flight import InFlight
from kubesched.state import consistency
from tests.build import make_node, make_pod
from tests.harness import Harness

POD_NAMES = [f"p{number}" for number in range(4)]
NODE_NAMES = [f"n{number}" for number in range(3)]
#: Longer than any backoff with its window.
QUIET_S = 13.0


class Held(Plugin):
    """Holds some pods in PreEnqueue until `activate` is called for them, and some in Permit until node n2 is there."""

    name = "Held"
    closed: set[str] = set()

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return Status.unresolvable("held") if pod.metadata.uid in Held.closed else None

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        if "wait" not in pod.metadata.labels or self.handle.state.nodes.row_of("n2") >= 0:
            return None
        return Status.wait(), 3.0

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(NODE_ADD)]


class World:
    """The API server's truth, and what the scheduler was not told yet."""

    def __init__(self) -> None:
        self.pods: dict[str, Pod] = {}
        self.nodes: dict[str, Node] = {}
        self.untold: deque[Any] = deque()
        self.version = 10
        self.bound: dict[str, str] = {}
        self.uids = 0

    def put(self, obj: Any) -> None:
        self.version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        obj = msgspec.structs.replace(obj, metadata=metadata)
        (self.pods if isinstance(obj, Pod) else self.nodes)[obj.metadata.name] = obj
        self.untold.append(Upsert(kinds.of(obj), obj))

    def remove(self, obj: Any) -> None:
        del (self.pods if isinstance(obj, Pod) else self.nodes)[obj.metadata.name]
        self.untold.append(Delete(kinds.of(obj), obj))

    def lists(self) -> list[Replace]:
        """Both kinds, whole: what a watch brings that was broken."""
        self.untold.clear()
        return [
            Replace(kinds.NODE, tuple(self.nodes.values()), str(self.version)),
            Replace(kinds.POD, tuple(self.pods.values()), str(self.version)),
        ]


class Interleavings(RuleBasedStateMachine):
    #: Planted around the scheduler's making and every step.
    sabotage: Callable[[Harness], None] = staticmethod(lambda harness: None)

    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.closed: set[str] = set()
        self.world = World()
        self.harness = self._scheduler()
        for name in NODE_NAMES[:2]:
            self.world.put(self._node(name, 4))
        self.tell_all()

    def teardown(self) -> None:
        if hasattr(self, "loop"):
            self._kill()
            self.loop.close()

    def _kill(self) -> None:
        """The scheduler's end without any goodbye: calls under way are lost."""

        async def cancelled() -> None:
            tasks = list(self.harness.scheduler._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._run(cancelled())

    def _scheduler(self) -> Harness:
        async def make() -> Harness:
            return Harness(Held, echo=False)

        Held.closed = self.closed
        harness = self.loop.run_until_complete(make())
        harness.port.bind = self._bind  # type: ignore[method-assign]
        harness.port.read_pod = self._read  # type: ignore[method-assign]
        self.bind_plans: deque[str] = deque()
        type(self).sabotage(harness)
        return harness

    # -- the API server

    async def _bind(self, pod: Pod, node_name: str) -> None:
        plan = self.bind_plans.popleft() if self.bind_plans else "ok"
        if plan.startswith("slow"):
            await self.harness.clock.sleep(2.0)
        live = self.world.pods.get(pod.metadata.name)
        assert pod.metadata.uid in self._alive_when_sent(pod), "bind call for a pod that was known to be deleted"
        if plan.endswith("refused"):
            raise ApiError(500, "InternalError", "try again")
        if plan == "lost":
            raise TransportError("connection reset")
        if live is None or live.metadata.uid != pod.metadata.uid or live.is_terminating:
            raise ApiError(409, "Conflict", "gone or replaced")
        if live.spec.node_name:
            raise ApiError(409, "Conflict", f"already assigned to {live.spec.node_name}")
        assert pod.metadata.uid not in self.world.bound, "bound twice"
        self.world.bound[pod.metadata.uid] = node_name
        self.world.put(msgspec.structs.replace(live, spec=msgspec.structs.replace(live.spec, node_name=node_name)))
        if plan == "lost answer":
            raise TransportError("connection reset")

    def _alive_when_sent(self, pod: Pod) -> set[str]:
        """UIDs of the pods that the scheduler cannot know to be gone."""
        told_gone = {change.obj.metadata.uid for change in self.world.untold if isinstance(change, Delete)}
        return told_gone | {each.metadata.uid for each in self.world.pods.values()}

    async def _read(self, pod: Pod) -> Pod | None:
        live = self.world.pods.get(pod.metadata.name)
        return live if live is not None and live.metadata.uid == pod.metadata.uid else None

    # -- what happens in the cluster

    @rule(
        name=st.sampled_from(POD_NAMES),
        cpu=st.sampled_from([2, 3, 4, 6]),
        kind=st.sampled_from(["", "wait", "anti", "held", "held"]),
    )
    def a_pod_is_created(self, name: str, cpu: int, kind: str) -> None:
        if name in self.world.pods:
            return
        self.world.uids += 1
        made = make_pod(name).uid(f"u{self.world.uids}").cpu(str(cpu))
        if kind == "wait":
            made = made.label("wait", "yes")
        if kind == "anti":
            made = made.label("app", "a").pod_anti_affinity("kubernetes.io/hostname", {"app": "a"})
        if kind == "pinned":
            made = made.label("pinned", "n0").node_affinity_name("n0")
        if kind == "held":
            self.closed.add(f"u{self.world.uids}")
        self.world.put(made.obj())

    @rule(plan=st.sampled_from(["refused", "slow", "slow refused", "lost"]), first_goes=st.booleans())
    def a_rival_comes_while_a_pod_is_bound(self, plan: str, first_goes: bool) -> None:
        """As it may come about by the rules below, only oftener: two pods for the room of one on the same node."""
        free = [name for name in POD_NAMES if name not in self.world.pods][:2]
        self.a_node_comes_or_changes("n0", 4, tainted=False)
        self.bind_plans.append(plan)
        for name in free:
            self.a_pod_is_created(name, 3, "pinned")
            self.tell_all()
            self.a_pod_is_tried()
        self.time_passes(2.5)
        if first_goes and free:
            self.a_pod_is_deleted(free[0])
            self.quiet_comes_back()

    @rule(name=st.sampled_from(POD_NAMES), cpu=st.sampled_from([2, 8]))
    def a_node_comes_while_a_pod_waits_in_permit(self, name: str, cpu: int) -> None:
        """So may this."""
        self.a_pod_is_created(name, 2, "wait")
        self.tell_all()
        self.a_pod_is_tried()
        self.a_node_comes_or_changes("n2", cpu, tainted=False)
        self.tell_all()
        self.time_passes(3.5)

    @rule(name=st.sampled_from(POD_NAMES), opens=st.booleans())
    def a_held_pod_comes(self, name: str, opens: bool) -> None:
        """So may this."""
        self.a_pod_is_created(name, 2, "held")
        self.tell_all()
        self.a_pod_is_tried()
        if opens and self.closed:
            self.a_gate_opens()

    @rule(name=st.sampled_from(POD_NAMES))
    def a_pod_goes_while_the_watch_is_broken(self, name: str) -> None:
        """And this."""
        self.tell_all()
        self.a_pod_is_tried()
        self.a_pod_is_deleted(name)
        self.the_watch_breaks_and_is_listed_again()

    @rule(name=st.sampled_from(POD_NAMES))
    def a_pod_is_deleted(self, name: str) -> None:
        if name in self.world.pods:
            self.world.remove(self.world.pods[name])

    @rule(name=st.sampled_from(POD_NAMES), cpu=st.integers(1, 4))
    def a_pod_is_resized(self, name: str, cpu: int) -> None:
        pod = self.world.pods.get(name)
        if pod is not None and not pod.spec.node_name:
            spec = make_pod(name).cpu(str(cpu)).obj().spec
            self.world.put(
                msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, containers=spec.containers))
            )

    @rule(name=st.sampled_from(NODE_NAMES), cpu=st.integers(2, 8), tainted=st.booleans())
    def a_node_comes_or_changes(self, name: str, cpu: int, tainted: bool) -> None:
        self.world.put(self._node(name, cpu, tainted=tainted))

    @rule(name=st.sampled_from(NODE_NAMES))
    def a_node_goes(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.remove(self.world.nodes[name])

    @rule(name=st.sampled_from(POD_NAMES), node=st.sampled_from(NODE_NAMES))
    def somebody_else_binds(self, name: str, node: str) -> None:
        pod = self.world.pods.get(name)
        if pod is not None and not pod.spec.node_name:
            self.world.bound[pod.metadata.uid] = node
            self.world.put(msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node)))

    # -- what the scheduler gets to see

    @rule()
    def one_change_is_told(self) -> None:
        if self.world.untold:
            self.harness.scheduler.deliver([self.world.untold.popleft()])

    @rule()
    def tell_all(self) -> None:
        self.harness.scheduler.deliver(list(self.world.untold))
        self.world.untold.clear()

    @rule()
    def the_watch_breaks_and_is_listed_again(self) -> None:
        self.harness.scheduler.deliver(self.world.lists())

    @rule()
    def the_scheduler_starts_anew(self) -> None:
        self._kill()
        self.harness = self._scheduler()
        self.harness.scheduler.deliver(self.world.lists())

    # -- what the scheduler does

    @rule()
    def a_pod_is_tried(self) -> None:
        """One cycle. What is told while it runs is in the inbox until it has ended; bindings take longer."""
        self._run(self.harness.scheduler.step())

    @rule()
    def bindings_go_on(self) -> None:
        async def turns() -> None:
            for _ in range(4):
                await asyncio.sleep(0)

        self._run(turns())

    @rule(plan=st.sampled_from(["refused", "lost", "lost answer", "slow", "slow refused"]))
    def the_next_bind_goes_wrong(self, plan: str) -> None:
        self.bind_plans.append(plan)

    @rule(seconds=st.sampled_from([0.3, 1.0, 2.5]))
    def time_passes(self, seconds: float) -> None:
        self._run(self._pass(seconds))

    @precondition(lambda self: self.closed)
    @rule()
    def a_gate_opens(self) -> None:
        uid = min(self.closed)
        self.closed.discard(uid)
        pods = [pod for pod in self.world.pods.values() if pod.metadata.uid == uid]
        self.harness.scheduler.activate(pods)

    # -- what must hold

    @rule()
    def quiet_comes_back(self) -> None:
        """After everything was told, and backoffs are over, whoever fits a node is on one."""
        self.tell_all()

        async def until_quiet() -> None:
            await self._pass(QUIET_S)
            while self.world.untold:
                self.harness.scheduler.deliver(list(self.world.untold))
                self.world.untold.clear()
                await self._pass(QUIET_S)

        self.bind_plans.clear()
        self._run(until_quiet())
        waiting = [pod for pod in self.world.pods.values() if not pod.spec.node_name]
        for pod in waiting:
            if pod.metadata.uid in self.closed or ("wait" in pod.metadata.labels and "n2" not in self.world.nodes):
                continue
            assert not self._fits_somewhere(pod), f"{pod.metadata.name} fits but sleeps"
        for pod in self.world.pods.values():
            if pod.spec.node_name:
                assert self.harness.node_of(pod) == pod.spec.node_name
        pending = self.harness.scheduler.handlers.pending
        assert pending.keys() == {pod.metadata.uid for pod in waiting}, "pending is not what the cluster shows"
        assert {info.name for info in self.harness.state.nodes.infos} == self.world.nodes.keys()
        assert len(self.harness.state.placements) == len(self.world.pods) - len(waiting) + sum(
            self.harness.state.is_assumed(pod.metadata.uid) for pod in waiting
        ), "a pod is counted that is no more"
        if not self.harness.scheduler.binding_count:
            assert len(self.harness.queue.in_flight) == 0 and self.harness.queue.in_flight.event_count == 0

    @invariant()
    def every_pending_pod_is_in_exactly_one_place(self) -> None:
        if not hasattr(self, "harness") or self.harness.scheduler.inbox:
            return
        assert consistency.check(self.harness.state) == []
        for pod in self.harness.scheduler.handlers.pending.values():
            place = self.harness.waits_in(pod)
            is_assumed = self.harness.state.is_assumed(pod.metadata.uid)
            if is_assumed:
                assert place in ("", "in flight"), f"assumed pod {pod.metadata.name} is also {place}"
            else:
                binding = pod.metadata.uid in self.harness.scheduler._bindings
                assert place or binding, f"{pod.metadata.name} is nowhere"

    # -- by hand

    def _fits_somewhere(self, pod: Pod) -> bool:
        asked = _cpu_milli(pod)
        placed = [each for each in self.world.pods.values() if each.spec.node_name]
        for node in self.world.nodes.values():
            if pod.metadata.labels.get("pinned", node.metadata.name) != node.metadata.name:
                continue
            here = [each for each in placed if each.spec.node_name == node.metadata.name]
            assumed = [
                each
                for each in self.world.pods.values()
                if not each.spec.node_name and self.harness.node_of(each) == node.metadata.name
            ]
            used = sum(_cpu_milli(each) for each in here + assumed)
            repels = any(
                bool(each.metadata.labels.get("app")) and bool(pod.metadata.labels.get("app"))
                for each in here + assumed
            )
            capacity = 1000 * int(str(node.status.allocatable["cpu"]))
            if not node.spec.taints and not repels and used + asked <= capacity:
                return True
        return False

    def _node(self, name: str, cpu: int, *, tainted: bool = False) -> Node:
        made = make_node(name).capacity(cpu=cpu, memory="64Gi", pods=110).label("kubernetes.io/hostname", name)
        return made.taint("not-ready").obj() if tainted else made.obj()

    async def _pass(self, seconds: float) -> None:
        """Let time pass from one moment at which something is due to the next, as `Scheduler.run` would."""
        harness = self.harness
        end_s = harness.clock.monotonic() + seconds
        while True:
            harness.queue.flush()
            await self._settle()
            left_s = end_s - harness.clock.monotonic()
            if left_s <= 0:
                return
            timer_due = harness.clock.next_due()
            waits = [left_s, harness.queue.next_due() - harness.clock.now()]
            if timer_due is not None:
                waits.append(timer_due - harness.clock.monotonic())
            harness.clock.advance(max(min(waits), 0.0))

    async def _settle(self) -> None:
        idle_turns = 0
        while idle_turns < 5:
            idle_turns = 0 if await self.harness.scheduler.step() else idle_turns + 1
            await asyncio.sleep(0)

    def _run(self, work: Any) -> None:
        self.loop.run_until_complete(work)


def _cpu_milli(pod: Pod) -> int:
    return 1000 * int(str(pod.spec.containers[0].resources.requests["cpu"]))


QUICK = settings(
    max_examples=150,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=False,
)


TestInterleavings = pytest.mark.timeout(600)(Interleavings.TestCase)
TestInterleavings.settings = QUICK


# -- planted faults


def no_replay(harness: Harness) -> None:
    """Events that arrive while a pod is in flight are dropped."""

    class Forgetful(InFlight):
        def note(self, happening: Any) -> None:
            pass

    harness.queue.in_flight = Forgetful(harness.metrics)


def forget_without_move(harness: Harness) -> None:
    """The room that a failed binding gives back wakes nobody."""
    scheduler = harness.scheduler
    original = scheduler._apply_failed

    def silent(binding: Any, status: Status) -> None:
        move, scheduler.queue.move = scheduler.queue.move, lambda *_, **__: False  # type: ignore[method-assign]
        try:
            original(binding, status)
        finally:
            scheduler.queue.move = move  # type: ignore[method-assign]

    scheduler._apply_failed = silent  # type: ignore[method-assign]


def lost_relist_delete(harness: Harness) -> None:
    """What a new list lacks is not noticed."""

    class Careless(EventHandlers):
        def _known(self, kind: str) -> Any:
            return []

    harness.scheduler.handlers.__class__ = Careless


def done_not_called(harness: Harness) -> None:
    """A pod that was bound stays in flight."""

    class Sloppy(SchedulingQueue):
        def done(self, uid: str) -> None:
            pass

    harness.queue.__class__ = Sloppy


def activate_dropped(harness: Harness) -> None:
    """Plugins ask for pods to be tried, and nobody listens."""

    class Deaf(SchedulingQueue):
        def activate(self, pods: Any) -> None:
            pass

    harness.queue.__class__ = Deaf


FAULTS = [no_replay, forget_without_move, lost_relist_delete, done_not_called, activate_dropped]


@contextmanager
def planted(fault: Callable[[Harness], None]) -> Any:
    original = Interleavings.sabotage
    Interleavings.sabotage = staticmethod(fault)
    try:
        yield
    finally:
        Interleavings.sabotage = original


@pytest.mark.pure_only("faults are planted in classes; that the property finds them is no matter of the build")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_planted_fault_is_found(fault: Callable[[Harness], None]) -> None:
    searching = settings(
        QUICK, max_examples=1500, stateful_step_count=40, phases=[Phase.generate], derandomize=True, database=None
    )
    with planted(fault), pytest.raises(AssertionError):
        run_state_machine_as_test(Interleavings, settings=searching)
