"""DefaultPreemption in a whole scheduler: from the attempt that fails to the pod on its node."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.framework.extender import Victims
from kubesched.framework.plugin import Plugin
from kubesched.framework.results import PostFilterPreview
from kubesched.framework.status import Status
from kubesched.scheduler.explain import explain
from kubesched.state.node_info import NodeInfo
from kubesched.state.pod_info import PodInfo
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod, make_pv, make_pvc
from tests.harness import Harness
from tests.plugins.rig import SKIP, Rig, hints, registered


def node(name: str = "n1", cpu: int = 2) -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory="32Gi", pods=110).label("kubernetes.io/hostname", name)


def low(name: str, on: str = "n1", cpu: Any = 2) -> PodBuilder:
    return make_pod(name).cpu(cpu).priority(0).node(on).started("2026-01-01T00:00:00Z")


def high(name: str = "h", cpu: Any = 2, priority: int = 10) -> PodBuilder:
    return make_pod(name).cpu(cpu).priority(priority)


class Preempting(Harness):
    """Victims stay, terminating, until `finish`, as with a kubelet that takes its time."""

    def __init__(self, *plugins: type[Plugin], **options: Any) -> None:
        super().__init__(*plugins, **options)
        self.port.delete_pod = self._delete  # type: ignore[method-assign]
        self.port.patch_pod_status = self._patch  # type: ignore[method-assign]

    async def _delete(self, pod: Pod) -> None:
        self.port.calls.append(("delete", pod.name))
        newest = self._newest(pod)
        if newest is not None:
            metadata = msgspec.structs.replace(newest.metadata, deletion_timestamp="2026-01-01T01:00:00Z")
            self._show(msgspec.structs.replace(newest, metadata=metadata))

    async def _patch(self, pod: Pod, *, condition: Any = None, nominated_node_name: str | None = None) -> None:
        self.port.calls.append(("patch", pod.name, condition.reason if condition else "", nominated_node_name))
        newest = self._newest(pod)
        if newest is None:
            raise ApiError(404, "NotFound", f'pods "{pod.name}" not found')
        status = newest.status
        if condition is not None:
            rest = tuple(each for each in status.conditions if each.type != condition.type)
            status = msgspec.structs.replace(status, conditions=(*rest, condition))
        if nominated_node_name is not None:
            status = msgspec.structs.replace(status, nominated_node_name=nominated_node_name)
        self._show(msgspec.structs.replace(newest, status=status))

    def _newest(self, pod: Pod) -> Pod | None:
        placement = self.state.placements.get(pod.uid)
        return placement.pod.pod if placement is not None else self.scheduler.handlers.pending.get(pod.uid)

    def _show(self, pod: Pod) -> None:
        version = str(int(pod.metadata.resource_version or 0) + 1)
        self.apply(
            msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, resource_version=version))
        )

    async def settle(self) -> None:
        for _ in range(3):
            await super().settle()

    async def finish(self, *names: str) -> None:
        for placement in list(self.state.placements.values()):
            if placement.pod.pod.name in names:
                self.delete(placement.pod.pod)
        await self.settle()

    def deleted(self) -> list[str]:
        return [call[1] for call in self.port.calls if call[0] == "delete"]

    def message(self, name: str = "h") -> str:
        """The last FailedScheduling event of the pod."""
        return next(
            event.note
            for event in reversed(self.port.events)
            if (event.regarding.name, event.reason) == (name, "FailedScheduling")
        )

    def nominated(self, pod: Pod) -> str:
        return self.state.nominator.node_of(pod.uid)


async def started(*objects: Any, plugins: tuple[type[Plugin], ...] = (), **options: Any) -> Preempting:
    harness = Preempting(*plugins, **options)
    harness.apply(*(each.obj() for each in objects))
    await harness.settle()
    return harness


# -- the whole way


async def test_from_rejection_to_the_nominated_node() -> None:
    harness = await started(node(), low("a", cpu=1), low("b", cpu=1))
    pod = high().obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.message() == "0/1 nodes are available: 1 Insufficient cpu."
    assert harness.nominated(pod) == "n1"
    assert ("patch", "h", "Unschedulable", "n1") in harness.port.calls
    assert [call for call in harness.port.calls if call[1] in ("a", "b")] == [
        ("patch", "a", "PreemptionByScheduler", None),
        ("delete", "a"),
        ("patch", "b", "PreemptionByScheduler", None),
        ("delete", "b"),
    ]
    assert harness.waits_in(pod) == "unschedulable"
    assert harness.port.binds() == []

    await harness.finish("a")
    await harness.pass_time(2)
    assert harness.deleted() == ["a", "b"], "it waits for the other victim, and takes no further ones"
    await harness.finish("b")
    await harness.pass_time(4)
    assert harness.port.binds() == [("h", "n1")]
    assert harness.state.nominator.node_of(pod.uid) == ""


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(
            high().preemption_policy("Never"),
            "preemption: not eligible due to preemptionPolicy=Never.",
            id="BR-65-policy-never",
        ),
        pytest.param(
            high(priority=0),
            "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
            "1 Preemption is not helpful for scheduling.",
            id="BR-65-equal-priority",
        ),
        pytest.param(
            high(cpu=8),
            "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            id="too-big",
        ),
    ],
)
async def test_why_nobody_is_preempted(pod: PodBuilder, message: str) -> None:
    harness = await started(node(), low("a"), node("n2").taint("x"), pod)
    assert harness.message().endswith(message)
    assert (harness.deleted(), harness.nominated(pod.obj())) == ([], "")


async def test_a_pod_whose_victims_are_still_leaving_takes_no_others() -> None:
    harness = await started(node(), low("a"), node("n2"), low("b", "n2"))
    pod = high().obj()
    harness.apply(pod)
    await harness.settle()
    (victim,) = harness.deleted()
    harness.scheduler.activate([pod])
    await harness.settle()
    assert harness.deleted() == [victim]
    assert harness.message().endswith("preemption: not eligible due to a terminating pod on the nominated node.")
    assert harness.nominated(pod) != "", "the nomination stands"


async def test_a_nominated_node_that_became_useless_is_given_up() -> None:
    harness = await started(node(), low("a"), high())
    pod = harness.scheduler.handlers.pending[high().obj().uid]
    assert harness.nominated(pod) == "n1"
    harness.apply(node().unschedulable().obj(), node("n2").obj(), low("b", "n2").obj())
    await harness.pass_time(3)
    assert harness.deleted() == ["a", "b"]
    assert harness.nominated(pod) == "n2"


async def test_br_66_the_nomination_goes_with_its_node() -> None:
    harness = await started(node("n2"), low("a", "n2"), node("n3").taint("x"), high())
    pod = harness.scheduler.handlers.pending[high().obj().uid]
    assert (harness.nominated(pod), pod.status.nominated_node_name) == ("n2", "n2")
    harness.delete(node("n2").obj())
    harness.scheduler.activate([pod])
    await harness.settle()
    assert harness.nominated(pod) == ""
    assert harness.scheduler.handlers.pending[pod.uid].status.nominated_node_name == ""


async def test_br_66_the_nomination_goes_when_nothing_helps_any_more() -> None:
    harness = await started(node(), low("a", cpu=1), low("b", cpu=1), high())
    pod = harness.scheduler.handlers.pending[high().obj().uid]
    assert harness.nominated(pod) == "n1"
    await harness.finish("a", "b")
    harness = await started(node(), low("a").priority(20), high().nominated("n1"))
    pod = harness.scheduler.handlers.pending[pod.uid]
    assert (harness.nominated(pod), pod.status.nominated_node_name) == ("", "")


async def test_br_68_no_room_is_kept_for_a_preemptor_that_is_gone() -> None:
    pod = high().obj()
    harness = await started(node(), low("a"), plugins=(DeletesThePreemptor,))
    harness.plugin("DeletesThePreemptor").harness = harness
    harness.apply(pod)
    await harness.settle()
    assert harness.deleted() == ["a"]
    await harness.finish("a")
    other = make_pod("later").cpu(2).priority(5).obj()
    harness.apply(other)
    await harness.settle()
    assert harness.node_of(other) == "n1"
    assert len(harness.state.nominator) == 0


class DeletesThePreemptor(Plugin):
    """The deletion arrives while the attempt is under way."""

    name = "DeletesThePreemptor"
    harness: Any = None

    def pre_filter(self, state: Any, pod: Pod, nodes: Any) -> None:
        if pod.name == "h":
            self.harness.delete(pod)


@pytest.mark.parametrize(
    ("priority", "fits"), [pytest.param(5, False, id="lower"), pytest.param(20, True, id="higher")]
)
async def test_br_69_room_is_kept_from_lower_priorities_only(priority: int, fits: bool) -> None:
    nominated = high("n", cpu=2).nominated("n1").gate("wait").obj()
    harness = await started(node())
    harness.state.nominator.nominate(PodInfo(nominated), "n1")
    pod = high("p", cpu=1, priority=priority).obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod) == ("n1" if fits else "")


async def test_br_69_a_node_must_do_without_the_nominated_pod_as_well() -> None:
    nominated = high("n", cpu=1, priority=20).labels({"app": "db"}).nominated("n1").gate("wait").obj()
    harness = await started(node())
    harness.state.nominator.nominate(PodInfo(nominated), "n1")
    pod = high("p", cpu=1).pod_affinity("kubernetes.io/hostname", {"app": "db"}).obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod) == "", "the partner is only promised the node, it may end elsewhere"
    assert harness.message("p").startswith("0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")


@pytest.mark.parametrize("stage", ["Permit", "PreBind"])
async def test_br_71_a_victim_that_is_being_bound_goes_back_to_the_queue(stage: str) -> None:
    plugin: type[Plugin] = HoldsInPermit if stage == "Permit" else HoldsInPreBind
    victim = make_pod("a").cpu(2).priority(0).obj()
    harness = await started(node(), plugins=(plugin,))
    harness.apply(victim)
    await harness.settle()
    assert harness.node_of(victim) == "n1"
    pod = high().obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.deleted() == []
    assert not [call for call in harness.port.calls if call[:3] == ("patch", "a", "PreemptionByScheduler")]
    assert "Preempted" in harness.port.event_reasons("a")
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"
    assert harness.waits_in(victim) != ""


class HoldsInPermit(Plugin):
    name = "HoldsInPermit"

    def permit(self, state: Any, pod: Pod, node_name: str) -> Any:
        return (Status.wait(), 600.0) if pod.name == "a" else None


class HoldsInPreBind(Plugin):
    name = "HoldsInPreBind"

    async def pre_bind(self, state: Any, pod: Pod, node_name: str) -> None:
        if pod.name == "a":
            await asyncio.Event().wait()


async def test_br_72_a_pod_held_back_while_it_preempts_is_tried_when_that_is_over() -> None:
    """Its victim's end is seen, and would wake it, while the calls are still under way; nothing happens later."""
    harness = await started(node(), low("a", cpu=1), low("b", cpu=1))
    last = asyncio.Event()
    deleting = harness.port.delete_pod

    async def delete_slowly(pod: Pod) -> None:
        if pod.name == "b":
            await last.wait()
        await deleting(pod)

    harness.port.delete_pod = delete_slowly  # type: ignore[method-assign]
    pod = high().obj()
    harness.apply(pod)
    await harness.settle()
    await harness.finish("a")
    await harness.pass_time(3)
    assert harness.waits_in(pod) == "gated"
    assert harness.queue.find(pod.uid).last_message == "waiting for the preemption for this pod to be finished"
    last.set()
    await harness.finish("b")
    await harness.pass_time(3)
    assert harness.port.binds() == [("h", "n1")]


async def test_pods_held_back_while_they_preempt_are_asked_about_together() -> None:
    count = 5
    harness = await started(*(node(f"n{number}") for number in range(count)))
    for number in range(count):
        harness.apply(low(f"{number}", f"n{number}").obj())
    await harness.settle()
    called = asyncio.Event()
    deleting = harness.port.delete_pod

    async def delete_slowly(pod: Pod) -> None:
        await called.wait()
        await deleting(pod)

    harness.port.delete_pod = delete_slowly  # type: ignore[method-assign]
    harness.apply(*(high(f"h{number}").obj() for number in range(count)))
    await harness.settle()
    harness.delete(low("0", "n0").obj())
    await harness.settle()
    await harness.pass_time(3)
    assert harness.queue.parked.gated_count > 1
    assert harness.queue.parked.group_count == 1
    called.set()
    for number in range(count):
        await harness.finish(f"{number}")
    await harness.pass_time(3)
    assert {pod for pod, _ in harness.port.binds()} == {f"h{number}" for number in range(count)}


class Lock(Plugin):
    """A gate that opens without telling anybody."""

    name = "Lock"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.is_open = False

    def pre_enqueue(self, pod: Pod) -> Status | None:
        return None if self.is_open else Status.unresolvable("locked")

    def events_to_register(self) -> list[Any]:
        return []


async def test_br_72_the_periodic_flush_asks_gates_again() -> None:
    harness = await started(node(), high(), plugins=(Lock,))
    pod = high().obj()
    harness.plugin("Lock").is_open = True
    await harness.pass_time(60)
    assert harness.waits_in(pod) == "gated"
    harness.clock.advance(600)
    await harness.pass_time(1)
    assert harness.node_of(pod) == "n1"


async def test_br_74_a_daemon_pod_gets_its_room_by_its_nomination() -> None:
    daemon = high("daemon", cpu=1).node_affinity_name("n1")
    harness = await started(node(), low("a", cpu=1), low("b", cpu=1), daemon)
    (victim,) = harness.deleted()
    harness.apply(make_pod("filler").cpu(1).priority(5).obj())
    await harness.finish(victim)
    await harness.pass_time(3)
    assert harness.port.binds() == [("daemon", "n1")]


async def test_lower_nominations_give_way() -> None:
    harness = await started(node(), low("a"), high("middle", priority=5))
    middle = harness.scheduler.handlers.pending[high("middle").obj().uid]
    assert harness.nominated(middle) == "n1"
    harness.apply(high().obj())
    await harness.settle()
    assert harness.deleted() == ["a"], "the victim is on its way already"
    await harness.finish("a")
    await harness.pass_time(3)
    assert harness.port.binds() == [("h", "n1")]


async def test_lower_nominations_are_cleared_when_there_are_victims_to_ask() -> None:
    harness = await started(node(), low("a", cpu=1), low("b", cpu=1).priority(4), high("middle", cpu=1, priority=3))
    middle = harness.scheduler.handlers.pending[high("middle").obj().uid]
    assert (harness.nominated(middle), harness.deleted()) == ("n1", ["a"])
    harness.apply(high().obj())
    await harness.settle()
    assert harness.deleted() == ["a", "b"]
    assert ("patch", "middle", "", "") in harness.port.calls
    assert harness.nominated(middle) == ""


async def test_each_attempt_is_counted() -> None:
    harness = await started(node(), low("a"), high())
    assert "scheduler_preemption_attempts_total 1.0" in harness.metrics.render().decode()


# -- volumes


async def test_br_109_a_claim_for_one_pod_only_can_be_taken_over() -> None:
    claim = make_pvc("c").access_modes("ReadWriteOncePod").bound_to("v")
    first = low("p1", cpu=1).pvc("c")
    same = make_pod("p2").cpu(1).priority(0).pvc("c").obj()
    volume = make_pv("v").access_modes("ReadWriteOncePod").capacity("1Gi").claimed_by("c")
    harness = await started(node(cpu=4), claim, volume, first)
    harness.apply(same)
    await harness.settle()
    assert (harness.node_of(same), harness.deleted()) == ("", [])
    above = high("p3", cpu=1).pvc("c").obj()
    harness.apply(above)
    await harness.settle()
    assert (harness.nominated(above), harness.deleted()) == ("n1", ["p1"])
    await harness.finish("p1")
    await harness.pass_time(4)
    assert harness.node_of(above) == "n1"
    assert harness.node_of(same) == ""


# -- extenders


class Judge:
    """An extender that has its say about preemption."""

    name, ignorable, weight = "judge", False, 1

    def __init__(self, answer: Any, *, ignorable: bool = False, interested: bool = True, supports: bool = True) -> None:
        self._answer = answer
        self.ignorable = ignorable
        self._interested, self._supports = interested, supports
        self.asked: list[dict[str, list[str]]] = []

    def is_interested(self, pod: Pod) -> bool:
        return self._interested

    def is_filter(self) -> bool:
        return False

    is_prioritizer = is_binder = is_filter

    def supports_preemption(self) -> bool:
        return self._supports

    async def process_preemption(
        self, pod: Pod, victims: dict[str, Victims], nodes: list[NodeInfo]
    ) -> dict[str, Victims]:
        assert [each.name for each in nodes] == list(victims)
        self.asked.append({name: [each.name for each in left.pods] for name, left in victims.items()})
        if isinstance(self._answer, Exception):
            raise self._answer
        answer: dict[str, Victims] = self._answer(victims)
        return answer


def keep(*names: str) -> Any:
    return lambda victims: {name: victims[name] for name in names if name in victims}


def emptied(name: str) -> Any:
    return lambda victims: victims | {name: Victims(())}


def more_violations(name: str) -> Any:
    return lambda victims: victims | {name: Victims(victims[name].pods, 3)}


@pytest.mark.parametrize(
    ("judges", "victim", "message"),
    [
        pytest.param([Judge(keep("n2"))], "b", None, id="leaves-one"),
        pytest.param([Judge(keep("n1", "n2")), Judge(keep("n2"))], "b", None, id="one-after-the-other"),
        pytest.param([Judge(keep("n2"), interested=False)], "a", None, id="not-interested"),
        pytest.param([Judge(keep("n2"), supports=False)], "a", None, id="does-not-support-it"),
        pytest.param([Judge(keep())], None, "preemption: no candidate node for preemption", id="leaves-none"),
        pytest.param([Judge(more_violations("n1"))], "b", None, id="counts-other-violations"),
        pytest.param([Judge(emptied("n1"), ignorable=True)], "b", None, id="ignorable-names-no-victims"),
        pytest.param(
            [Judge(emptied("n1"))],
            None,
            'preemption: expected at least one victim pod on node "n1"',
            id="names-no-victims",
        ),
    ],
)
async def test_extenders(judges: list[Judge], victim: str | None, message: str | None) -> None:
    harness = await started(node(), low("a"), node("n2"), low("b", "n2").priority(1))
    harness.runtimes["default-scheduler"].handle.extenders = tuple(judges)  # type: ignore[arg-type]
    harness.apply(high().obj())
    await harness.settle()
    assert harness.deleted() == ([victim] if victim else [])
    if message is not None:
        assert harness.message().endswith(message)


@pytest.mark.parametrize(("ignorable", "victims"), [(True, ["a"]), (False, [])])
async def test_an_extender_that_fails(ignorable: bool, victims: list[str]) -> None:
    harness = await started(node(), low("a"))
    judge = Judge(TransportError("connection refused"), ignorable=ignorable)
    harness.runtimes["default-scheduler"].handle.extenders = (judge,)  # type: ignore[assignment]
    harness.apply(high().obj())
    await harness.settle()
    assert harness.deleted() == victims
    assert judge.asked[0] == {"n1": ["a"]}
    if not ignorable:
        assert harness.message().endswith("preemption: connection refused")


# -- explanations


def previewed(harness: Preempting, pod: PodBuilder) -> PostFilterPreview:
    preview = explain(harness.runtimes["default-scheduler"], harness.state, PodInfo(pod.obj())).preemption
    assert preview is not None
    return preview


async def test_explaining_does_nothing_and_says_all() -> None:
    harness = await started(node(), low("a"), node("n2"), low("b", "n2"), node("n3"), low("c", "n3").priority(10))
    preview = previewed(harness, high())
    assert harness.port.calls == []
    assert preview.nominated_nodes == ("n1", "n2")
    assert preview.because == "equal on all criteria, the first one tried"
    assert [(each.node_name, each.victims) for each in preview.candidates] == [
        ("n1", ("default/a",)),
        ("n2", ("default/b",)),
    ]
    assert {name: status.message for name, status in preview.rejected.items()} == {
        "n3": "No preemption victims found for incoming pod"
    }


async def test_explaining_takes_no_chances() -> None:
    """What comes after an explanation is what would have come without it."""
    outcomes = []
    for explains in (False, True):
        harness = await started(*(each for i in range(30) for each in (node(f"n{i}"), low(f"p{i}", f"n{i}"))))
        if explains:
            previewed(harness, high())
        harness.apply(high().obj())
        await harness.settle()
        outcomes.append(harness.deleted())
    assert outcomes[0] == outcomes[1]


# -- queueing


@pytest.mark.parametrize(
    ("is_async", "events"),
    [pytest.param(True, {("AssignedPod", "AssignedPodDelete")}, id="async"), pytest.param(False, set(), id="sync")],
)
def test_events(is_async: bool, events: set[tuple[str, str]]) -> None:
    assert registered(Rig(features={"SchedulerAsyncPreemption": is_async}).plugin("DefaultPreemption")) == events


def test_the_end_of_a_pod_is_for_other_plugins_to_judge() -> None:
    plugin = Rig(features={"SchedulerAsyncPreemption": True}).plugin("DefaultPreemption")
    assert hints(plugin, "AssignedPod", high(), low("a"), None) == {SKIP}
