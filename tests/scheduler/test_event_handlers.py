"""What watches tell, in any order, and what the state and the queue make of it."""

from __future__ import annotations

import msgspec
import pytest

from kubesched.api import kinds
from kubesched.api.changes import Replace
from tests.build import make_node, make_pod
from tests.harness import Harness


def node(name="n1", cpu=4):
    return make_node(name).capacity(cpu=cpu, memory="16Gi", pods=10).obj()


async def with_nodes(*nodes, **options):
    harness = Harness(**options)
    harness.apply(*(nodes or (node(),)))
    await harness.settle()
    return harness


def newer(pod, **changes):
    """A later version of the pod."""
    version = str(int(pod.metadata.resource_version or "1") + 1)
    metadata = msgspec.structs.replace(pod.metadata, resource_version=version)
    return msgspec.structs.replace(pod, metadata=metadata, **changes)


# -- the cache


async def test_a_pod_seen_before_its_node_is_counted_when_the_node_comes():
    harness = Harness()
    harness.apply(make_pod("early").node("n7").cpu("3").obj())
    await harness.settle()
    pod = make_pod("p").cpu("2").obj()
    harness.apply(node("n7"), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    assert harness.state.nodes.by_name["n7"].requested["cpu"] == 3000


async def test_a_node_that_comes_back_still_has_its_pods():
    harness = await with_nodes(node(cpu=2))
    harness.apply(make_pod("old").node("n1").cpu("2").obj())
    await harness.settle()
    harness.delete(node(cpu=2))
    await harness.settle()
    pod = make_pod("p").cpu("1").obj()
    harness.apply(node(cpu=2), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"


async def test_nodes_are_removed_and_added_in_any_order():
    names = [f"n{i}" for i in range(6)]
    harness = await with_nodes(*(node(name) for name in names))
    for index, name in enumerate(names):
        harness.apply(make_pod(f"on-{name}").node(name).cpu(f"{index + 1}00m").obj())
    await harness.settle()
    for gone in ("n0", "n5", "n2"):
        harness.delete(node(gone))
        await harness.settle()
    table = harness.state.nodes
    assert sorted(info.name for info in table.infos) == ["n1", "n3", "n4"]
    requested = {info.name: int(table.taken.of("cpu")[info.row]) for info in table.infos}
    assert requested == {"n1": 200, "n3": 400, "n4": 500}
    harness.apply(node("n5"))
    await harness.settle()
    assert int(table.taken.of("cpu")[table.row_of("n5")]) == 600


async def test_a_relist_without_an_object_is_its_deletion():
    harness = await with_nodes(node("n1"), node("n2"))
    stays, goes = make_pod("stays").node("n1").cpu("4").obj(), make_pod("goes").node("n2").cpu("4").obj()
    waiting, vanished = make_pod("waiting").cpu("3").obj(), make_pod("vanished").cpu("5").obj()
    harness.apply(stays, goes, waiting, vanished)
    await harness.settle()
    assert harness.waits_in(waiting) == harness.waits_in(vanished) == "unschedulable"
    harness.scheduler.deliver([Replace(kinds.POD, (stays, waiting), "9")])
    await harness.settle()
    assert harness.waits_in(vanished) == ""
    await harness.pass_time(2)
    assert harness.node_of(waiting) == "n2", "woken as by a real deletion"
    harness.scheduler.deliver([Replace(kinds.NODE, (node("n1"),), "10")])
    await harness.settle()
    assert [info.name for info in harness.state.nodes.infos] == ["n1"]


async def test_what_a_relist_could_not_read_stays_as_it_is():
    harness = await with_nodes()
    pod = make_pod("p").node("n1").cpu("1").obj()
    harness.apply(pod)
    await harness.settle()
    harness.scheduler.deliver([Replace(kinds.POD, (), "9", unreadable=(("default", "p"),))])
    await harness.settle()
    assert harness.node_of(pod) == "n1"


async def test_an_assumed_pod_never_expires_and_is_confirmed_by_the_watch():
    harness = await with_nodes(echo=False)
    pod = make_pod("p").cpu("3").obj()
    harness.apply(pod)
    await harness.settle()
    harness.clock.advance(3600)
    await harness.settle()
    assert harness.state.is_assumed(pod.metadata.uid)
    harness.see_bound(pod, "n1")
    await harness.settle()
    assert harness.node_of(pod) == "n1" and not harness.state.is_assumed(pod.metadata.uid)


async def test_an_assumed_pod_that_is_deleted_gives_its_room_back():
    harness = await with_nodes(echo=False)
    pod, other = make_pod("p").cpu("3").obj(), make_pod("other").cpu("3").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(other)
    await harness.settle()
    assert harness.waits_in(other) == "unschedulable"
    harness.delete(pod)
    await harness.pass_time(2)
    assert harness.node_of(pod) == "" and harness.node_of(other) == "n1"


async def test_a_pod_placed_by_somebody_else_moves():
    harness = await with_nodes(node("n1"), node("n2", cpu=1), echo=False)
    pod = make_pod("p").cpu("1").obj()
    harness.apply(pod)
    await harness.settle()
    ours = harness.node_of(pod)
    theirs = "n2" if ours == "n1" else "n1"
    harness.see_bound(pod, theirs)
    await harness.settle()
    assert harness.node_of(pod) == theirs
    assert harness.state.nodes.by_name[ours].requested["cpu"] == 0


async def test_a_terminated_pod_counts_no_longer_and_a_terminating_one_does():
    harness = await with_nodes(node(cpu=2))
    running = make_pod("running").node("n1").cpu("2").phase("Running")
    harness.apply(running.obj())
    pod = make_pod("p").cpu("1").obj()
    harness.apply(pod, running.copy().deleting().obj())
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(running.copy().phase("Succeeded").obj())
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n1"


async def test_foreign_pods_are_counted_but_never_scheduled():
    harness = await with_nodes()
    placed = make_pod("placed").scheduler("other").node("n1").cpu("3").obj()
    waiting = make_pod("waiting").scheduler("other").obj()
    ours = make_pod("ours").cpu("2").obj()
    harness.apply(placed, waiting, ours)
    await harness.settle()
    assert harness.waits_in(ours) == "unschedulable"
    assert harness.waits_in(waiting) == "" and harness.port.binds() == []


# -- odd objects


async def test_one_odd_object_stops_nobody(caplog):
    harness = await with_nodes()
    bad_pod, bad_node = make_pod("bad").cpu("lots").obj(), make_node("odd").capacity(cpu="many").obj()
    good = make_pod("good").cpu("1").obj()
    harness.apply(bad_pod, bad_node, good)
    await harness.settle()
    assert harness.node_of(good) == "n1"
    assert "object=default/bad" in caplog.text and "object=odd" in caplog.text


async def test_an_odd_version_of_a_known_node_leaves_the_last_good_one():
    harness = await with_nodes()
    harness.apply(make_node("n1").capacity(cpu="many").obj())
    await harness.settle()
    pod = make_pod("p").cpu("1").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod) == "n1"


async def test_an_odd_version_of_a_placed_pod_leaves_it_counted():
    harness = await with_nodes()
    pod = make_pod("p").node("n1").cpu("1").obj()
    harness.apply(pod)
    harness.apply(make_pod("p").node("n1").cpu("lots").obj())
    await harness.settle()
    assert harness.state.nodes.by_name["n1"].requested["cpu"] == 1000


# -- pods at every stage


async def test_a_pod_recreated_under_its_name_is_another_pod():
    harness = await with_nodes(node(cpu=1))
    first = make_pod("p").uid("first").cpu("2").obj()
    second = make_pod("p").uid("second").cpu("1").obj()
    harness.apply(first)
    await harness.settle()
    harness.apply(second)
    await harness.settle()
    assert harness.waits_in(first) == "" and harness.node_of(second) == "n1"


async def test_a_failure_of_a_pod_that_was_recreated_meanwhile_does_not_touch_the_new_one():
    from kubesched.api.errors import ApiError

    harness = await with_nodes()
    first, second = make_pod("p").uid("first").obj(), make_pod("p").uid("second").cpu("100").obj()

    async def recreated():
        harness.apply(second)
        raise ApiError(409, "Conflict", "Precondition failed: UID in precondition: first, UID in object meta: second")

    harness.port.bind_answers.append(recreated)
    harness.apply(first)
    await harness.settle()
    assert harness.waits_in(first) == "" and harness.node_of(first) == ""
    assert harness.waits_in(second) == "unschedulable"
    assert [event.regarding.metadata.uid for event in harness.port.events] == ["second"]


async def test_a_pod_handed_to_another_scheduler_is_dropped():
    harness = await with_nodes()
    pod = make_pod("p").cpu("100").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(make_pod("p").cpu("100").scheduler("other").obj())
    await harness.settle()
    assert harness.waits_in(pod) == "" and harness.scheduler.handlers.pending == {}


async def test_an_update_of_an_assumed_pod_does_not_queue_it_again():
    harness = await with_nodes(echo=False)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(newer(pod))
    await harness.settle()
    assert harness.waits_in(pod) == "" and harness.port.binds() == [("p", "n1")]


async def test_a_pod_being_deleted_is_not_scheduled():
    harness = await with_nodes()
    pod = make_pod("p").deleting().obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.port.binds() == [] and harness.waits_in(pod) == ""
    assert harness.port.events[-1].note == "skip schedule deleting pod: default/p"


async def test_the_next_attempt_uses_the_newest_spec():
    harness = await with_nodes()
    pod = make_pod("p").cpu("100").toleration("a").obj()
    harness.apply(pod)
    await harness.settle()
    smaller = make_pod("p").uid(pod.metadata.uid).cpu("1").obj()
    harness.apply(newer(smaller))
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n1"


async def test_a_gated_pod_is_scheduled_once_its_last_gate_is_gone():
    harness = await with_nodes()
    gated = make_pod("p").gate("example.com/a").gate("example.com/b").obj()
    harness.apply(gated)
    await harness.settle()
    assert harness.waits_in(gated) == "gated" and harness.port.calls == [] and harness.port.events == []
    one_left = make_pod("p").gate("example.com/b").obj()
    harness.apply(newer(one_left))
    await harness.settle()
    assert harness.waits_in(gated) == "gated"
    harness.apply(newer(newer(make_pod("p").obj())))
    await harness.settle()
    assert harness.node_of(gated) == "n1"


STAGES = {
    "unschedulable": make_pod("p").cpu("100"),
    "gated": make_pod("p").gate("g"),
}


@pytest.mark.parametrize(("stage", "pod"), STAGES.items(), ids=STAGES)
async def test_a_deleted_pod_leaves_the_queue(stage, pod):
    harness = await with_nodes()
    obj = pod.obj()
    harness.apply(obj)
    await harness.settle()
    assert harness.waits_in(obj) == stage
    harness.delete(obj)
    await harness.settle()
    assert harness.waits_in(obj) == ""


# -- waking


async def test_a_taint_that_goes_wakes_whoever_waits_for_room():
    harness = await with_nodes(node("full", cpu=1))
    pod = make_pod("p").cpu("2").obj()
    harness.apply(pod, make_node("new").capacity(cpu=4, pods=10).taint("node.kubernetes.io/not-ready").obj())
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(make_node("new").capacity(cpu=4, pods=10).obj())
    await harness.pass_time(2)
    assert harness.node_of(pod) == "new"


async def test_an_event_while_the_pod_is_in_flight_is_not_missed():
    from kubesched.framework import Plugin, Status

    class AddsANode(Plugin):
        """While the pod is being tried, a node that fits appears."""

        name = "AddsANode"

        def post_filter(self, state, pod, diagnosis):
            harness.apply(node("late", cpu=8))
            return None, Status.unschedulable("nothing to do")

    harness = await with_nodes_and(AddsANode)
    pod = make_pod("p").cpu("6").obj()
    harness.apply(pod)
    await harness.pass_time(2)
    assert harness.node_of(pod) == "late"


async def with_nodes_and(plugin):
    harness = Harness(plugin)
    harness.apply(node())
    await harness.settle()
    return harness


async def test_nothing_is_in_flight_at_rest():
    harness = await with_nodes()
    harness.apply(*(make_pod(f"p{i}").cpu("1").obj() for i in range(8)), make_pod("deleting").deleting().obj())
    await harness.settle()
    assert len(harness.queue.in_flight) == 0 and harness.queue.in_flight.event_count == 0


async def test_a_pod_that_was_scaled_down_while_it_was_being_bound_makes_room():
    harness = await with_nodes(echo=False)
    pod, other = make_pod("p").cpu("4").obj(), make_pod("other").cpu("3").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(other)
    await harness.settle()
    assert harness.waits_in(other) == "unschedulable"
    harness.apply(newer(make_pod("p").cpu("1").node("n1").obj()))
    await harness.pass_time(3)
    assert harness.node_of(other) == "n1"
