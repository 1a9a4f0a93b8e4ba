"""Reports from the field about the queue, its events and the cache: what went wrong elsewhere, with the right outcome.

Ids are the report's, time is the manual clock's. "differs": right where kube-scheduler v1.36.2 itself is wrong.
"""

from __future__ import annotations

import asyncio

import pytest

from kubesched.api import codec, kinds
from kubesched.api.changes import Replace
from kubesched.api.errors import ApiError, TransportError
from kubesched.framework import Plugin, Status
from kubesched.framework.results import Diagnosis, fit_message
from kubesched.state import consistency
from kubesched.state.node_order import zones_in_turn
from tests.build import make_namespace, make_node, make_pod, make_pvc, make_storage_class
from tests.harness import Harness
from tests.scheduler.test_event_handlers import newer

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
NOT_READY = "node.kubernetes.io/not-ready"


def node(name="n1", cpu=4, **labels):
    made = make_node(name).capacity(cpu=cpu, memory="16Gi", pods=110).label(HOST, name)
    for key, label in labels.items():
        made = made.label(key, label)
    return made


async def started(*nodes, plugins=(), **options):
    harness = Harness(*plugins, **options)
    harness.apply(*(each.obj() for each in nodes or (node(),)))
    await harness.settle()
    return harness


def typed(kind, document):
    return codec.from_dict(kind, document)


def attempts(harness, pod):
    return harness.queue.find(pod.metadata.uid).attempts


# -- QUEUE

WAITING_FOR_A_NODE = {
    "cpu": (make_pod("p").cpu("8"), node("new", cpu=16)),
    "affinity": (make_pod("p").node_selector({"pool": "gpu"}), node("new", pool="gpu")),
    "ports": (make_pod("p").host_port(80), node("new")),
    "name": (make_pod("p").node_affinity_name("new"), node("new")),
    "anti-affinity": (make_pod("p").label("app", "a").pod_anti_affinity(HOST, {"app": "a"}), node("new")),
}


@pytest.mark.parametrize(
    ("pod", "new"), WAITING_FOR_A_NODE.values(), ids=[f"BR-75-{what}" for what in WAITING_FOR_A_NODE]
)
async def test_a_node_that_becomes_ready_after_it_came_is_used_at_once(pod, new):
    harness = await started()
    taken = make_pod("taken").label("app", "a").host_port(80).node("n1").obj()
    waiting = pod.obj()
    harness.apply(taken, waiting)
    await harness.settle()
    harness.apply(new.copy().taint(NOT_READY, effect="NoSchedule").obj())
    await harness.pass_time(20)
    assert harness.waits_in(waiting) == "unschedulable"
    harness.apply(new.obj())
    await harness.pass_time(3)
    assert harness.node_of(waiting) == "new"


async def test_br_77_a_toleration_of_its_own_lets_a_pod_onto_a_cordoned_node():
    harness = await started(node().unschedulable())
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(newer(make_pod("p").toleration("node.kubernetes.io/unschedulable").obj()))
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"


async def test_br_77_the_last_gate_goes():
    harness = await started()
    pod = make_pod("p").gate("g").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(newer(make_pod("p").obj()))
    await harness.settle()
    assert harness.node_of(pod) == "n1", "without any backoff"


async def test_br_77_a_label_of_its_own_ends_an_anti_affinity():
    harness = await started()
    repelling = make_pod("there").pod_anti_affinity(HOST, {"app": "a"}).node("n1").obj()
    pod = make_pod("p").label("app", "a").obj()
    harness.apply(repelling, pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(newer(make_pod("p").label("app", "b").obj()))
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"


async def test_br_77_a_request_lowered_by_resize():
    harness = await started()
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(newer(make_pod("p").cpu("2").obj()))
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"


async def test_br_77_a_mere_status_update_is_no_reason():
    harness = await started()
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(newer(make_pod("p").cpu("8").condition("PodScheduled", "False").obj()))
    await harness.pass_time(20)
    assert attempts(harness, pod) == 1


async def test_br_78_an_error_after_a_rejection_is_retried_soon():
    harness = await started()
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.port.bind_answers.append(ApiError(409, "Conflict", "the object has been modified"))
    harness.apply(node("n2", cpu=16).obj())
    await harness.settle()
    assert harness.waits_in(pod) == "backoff", "not parked for the events of the plugin of long ago"
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n2"


async def test_br_80_an_event_while_the_pod_is_in_flight():
    class DuringFilter(Plugin):
        """A node that fits is added while the pod is being tried."""

        name = "DuringFilter"

        def post_filter(self, state, pod, diagnosis):
            harness.apply(node("late", cpu=16).obj())
            return None, Status.unschedulable("nothing")

    harness = await started(plugins=[DuringFilter])
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.pass_time(3)
    assert harness.node_of(pod) == "late"


async def test_br_80_skipped_pods_are_done_too():
    harness = await started()
    harness.apply(make_pod("deleting").deleting().obj(), make_pod("p").obj(), make_pod("never").cpu("99").obj())
    await harness.settle()
    assert len(harness.queue.in_flight) == 0 and harness.queue.in_flight.event_count == 0


@pytest.mark.parametrize("outcome", ["fails", "chooses"])
async def test_br_81_a_pod_bound_by_somebody_else_while_in_flight(outcome):
    class Meanwhile(Plugin):
        """Somebody else binds the pod to n2 during our attempt, which ends for or against n1."""

        name = "Meanwhile"

        def filter(self, state, pod, node):
            harness.see_bound(pod, "n2")
            return None if outcome == "chooses" and node.name == "n1" else Status.unschedulable("no")

    harness = await started(node("n1"), node("n2"), plugins=[Meanwhile], echo=False)
    harness.port.bind_answers.append(ApiError(409, "Conflict", "pod p is already assigned to node n2"))
    pod = make_pod("p").cpu("1").obj()
    harness.apply(pod)
    await harness.pass_time(15)
    assert harness.waits_in(pod) == "" and harness.node_of(pod) == "n2"
    assert harness.state.nodes.by_name["n2"].requested["cpu"] == 1000
    assert harness.state.nodes.by_name["n1"].requested.get("cpu", 0) == 0
    assert len(harness.port.binds()) == (outcome == "chooses"), "and never again"


async def test_br_83_backoff_of_a_pod_that_keeps_failing():
    harness = await started()
    harness.port.bind_answers.extend(ApiError(500, "InternalError", "broken") for _ in range(7))
    pod = make_pod("p").obj()
    harness.port.read_answers.extend([pod] * 7)
    harness.apply(pod)
    lengths = []
    for _ in range(7):
        await harness.settle()
        queued = harness.queue.find(pod.metadata.uid)
        lengths.append(queued.backoff_until - queued.timestamp)
        harness.clock.advance(queued.backoff_until - harness.clock.now())
        harness.queue.flush()
    await harness.settle()
    assert lengths == [wait + 1 for wait in (1, 2, 4, 8, 10, 10, 10)], "to the end of the window"
    assert harness.node_of(pod) == "n1"


async def test_br_84_pods_that_never_fit_do_not_starve_others():
    harness = await started()
    hopeless = [make_pod(f"h{i}").cpu("99").priority(1000).obj() for i in range(100)]
    harness.apply(*hopeless)
    await harness.settle()
    low = make_pod("low").cpu("1").obj()
    harness.apply(low)
    for tick in range(20):
        harness.delete(make_pod(f"gone{tick}").node("n1").obj())
        harness.apply(make_pod(f"gone{tick + 1}").node("n1").obj())
        harness.clock.advance(0.1)
        harness.queue.flush()
        for _ in range(20):  # far fewer attempts than there are hopeless pods
            await harness.scheduler.step()
        await asyncio.sleep(0)
        if harness.node_of(low):
            break
    assert harness.node_of(low) == "n1"


@pytest.mark.parametrize("first_fails", [True, False], ids=["fails", "succeeds"])
async def test_br_86_created_again_under_the_same_name(first_fails):
    harness = await started()
    first, second = make_pod("p").uid("first").cpu("1").obj(), make_pod("p").uid("second").cpu("2").obj()

    async def recreated():
        harness.delete(first)
        harness.apply(second)
        if first_fails:
            raise ApiError(409, "Conflict", "the UID in the precondition (first) does not match (second)")

    harness.port.bind_answers.append(recreated)
    harness.port.on_bind = lambda pod, name: harness.see_bound(pod, name) if pod.metadata.uid == "second" else None
    harness.apply(first)
    await harness.pass_time(3)
    assert harness.node_of(first) == "" and harness.node_of(second) == "n1"
    assert harness.state.nodes.by_name["n1"].requested["cpu"] == 2000
    assert all(event.reason != "FailedScheduling" for event in harness.port.events)


async def test_br_87_an_update_between_failure_and_requeue():
    class Updated(Plugin):
        """The pod is labelled while it is being tried the first time."""

        name = "Updated"

        def post_filter(self, state, pod, diagnosis):
            harness.apply(newer(make_pod("p").label("app", "b").obj()))
            return None, Status.unschedulable("nothing")

    harness = await started(plugins=[Updated], echo=False)
    harness.apply(make_pod("there").pod_anti_affinity(HOST, {"app": "a"}).node("n1").obj())
    pod = make_pod("p").label("app", "a").obj()
    harness.apply(pod)
    await harness.pass_time(3)
    assert harness.state.is_assumed(pod.metadata.uid), "tried again with the new labels"
    harness.apply(newer(newer(newer(make_pod("p").label("app", "b").annotation("x", "y").obj()))))
    await harness.pass_time(3)
    assert harness.waits_in(pod) == "" and harness.port.binds() == [("p", "n1")]


async def test_br_89_a_storage_capacity_that_grows():
    harness = await started(node().label(ZONE, "a"))
    late = make_storage_class("late").provisioner("csi.example.com").wait_for_first_consumer().obj()
    driver = typed(kinds.CSI_DRIVER, {"metadata": {"name": "csi.example.com"}, "spec": {"storageCapacity": True}})
    claim = make_pvc("c").storage_class("late").request("10Gi").obj()
    pod = make_pod("p").pvc("c").obj()

    def capacity(size):
        document = {
            "metadata": {"name": "cap", "namespace": "default"},
            "storageClassName": "late",
            "nodeTopology": {"matchLabels": {ZONE: "a"}},
            "capacity": size,
        }
        return typed(kinds.CSI_STORAGE_CAPACITY, document)

    harness.apply(late, driver, claim, capacity("1Gi"), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(capacity("100Gi"))
    await harness.pass_time(3)
    assert ("claim", "c", "n1") in harness.port.calls, "retried on the event, and the claim given to the provisioner"


async def test_br_90_the_shortest_permit_timeout_rejects():
    def waiting(plugin_name, seconds):
        return type(
            plugin_name,
            (Plugin,),
            {"name": plugin_name, "permit": lambda self, state, pod, node_name: (Status.wait(), seconds)},
        )

    harness = await started(plugins=[waiting("Short", 5.0), waiting("Long", 60.0)])
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    harness.runtimes["default-scheduler"].handle.waiting_pods.get(pod.metadata.uid).allow("Long")
    await harness.pass_time(4.5)
    assert harness.state.is_assumed(pod.metadata.uid)
    await harness.pass_time(1)
    assert not harness.state.is_assumed(pod.metadata.uid)
    assert harness.queue.find(pod.metadata.uid).unschedulable_plugins == {"Short"}


async def test_br_90_a_pod_deleted_while_it_waits_is_let_go_at_once():
    unreserved = []

    class Holding(Plugin):
        name = "Holding"

        def permit(self, state, pod, node_name):
            return Status.wait(), 60.0

        def reserve(self, state, pod, node_name):
            return None

        def unreserve(self, state, pod, node_name):
            unreserved.append(pod.metadata.name)

    harness = await started(plugins=[Holding])
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    harness.delete(pod)
    await harness.settle()
    assert harness.scheduler.binding_count == 0 and unreserved == ["p"]
    assert harness.waits_in(pod) == "" and len(harness.queue.in_flight) == 0


# -- events that 1.36.2 misses


async def test_br_53_a_namespaces_label_lets_an_affinity_match_differs():
    harness = await started()
    peer = make_pod("peer").namespace("other").label("app", "db").node("n1").obj()
    pod = make_pod("p").pod_affinity(HOST, {"app": "db"}, namespace_selector={"matchLabels": {"team": "t"}}).obj()
    harness.apply(make_namespace("other").obj(), make_namespace("default").obj(), peer, pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(make_namespace("other").label("team", "t").obj())
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"


async def test_br_147_the_last_of_a_self_affine_group_goes_differs():
    cordoned = node("n1").unschedulable()
    harness = await started(cordoned, node("n2"))
    old = make_pod("old").label("app", "one").node("n1").deleting()
    replacement = make_pod("new").label("app", "one").pod_affinity(HOST, {"app": "one"}).obj()
    harness.apply(old.obj(), replacement)
    await harness.settle()
    assert harness.waits_in(replacement) == "unschedulable"
    harness.delete(old.obj())
    await harness.pass_time(3)
    assert harness.node_of(replacement) == "n2"


# -- CACHE


async def test_br_92_what_was_deleted_while_the_watch_was_broken():
    harness = await started(node("n1"), node("n2"))
    running, waiting = make_pod("running").node("n1").cpu("4").obj(), make_pod("waiting").cpu("3").obj()
    vanished = make_pod("vanished").cpu("99").obj()
    filler = make_pod("filler").node("n2").cpu("4").obj()
    harness.apply(running, filler, waiting, vanished)
    await harness.settle()
    assert harness.waits_in(waiting) == "unschedulable"
    harness.scheduler.deliver([Replace(kinds.NODE, (node("n1").obj(),), "8")])
    harness.scheduler.deliver([Replace(kinds.POD, (filler, waiting), "9")])
    await harness.pass_time(3)
    assert harness.waits_in(vanished) == "" and harness.node_of(waiting) == "n1"
    assert [info.name for info in harness.state.nodes.infos] == ["n1"]


async def test_br_93_an_assumed_pod_does_not_expire():
    harness = await started(echo=False)
    pod, other = make_pod("p").cpu("4").obj(), make_pod("other").cpu("4").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(other)
    await harness.pass_time(120)
    assert harness.node_of(pod) == "n1" and harness.waits_in(other) == "unschedulable"
    harness.see_bound(pod, "n1")
    await harness.settle()
    assert not harness.state.is_assumed(pod.metadata.uid)
    assert harness.state.nodes.by_name["n1"].requested["cpu"] == 4000


async def test_br_93_an_assumed_pod_that_was_deleted_goes_with_the_event():
    harness = await started(echo=False)
    pod = make_pod("p").cpu("4").obj()
    harness.apply(pod)
    await harness.pass_time(1)
    harness.delete(pod)
    await harness.settle()
    assert harness.state.nodes.by_name["n1"].requested["cpu"] == 0


async def test_br_95_a_node_that_comes_back_keeps_its_pods():
    harness = await started(node(cpu=2))
    harness.apply(make_pod("old").node("n1").cpu("2").obj())
    await harness.settle()
    harness.delete(node(cpu=2).obj())
    await harness.settle()
    pod = make_pod("p").cpu("1").obj()
    harness.apply(node(cpu=2).obj(), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"


async def test_br_96_uneven_zones_neither_lose_nor_repeat_nodes():
    harness = Harness()
    for name in ("a1", "a2", "a3", "b1"):
        harness.apply(node(name).label(ZONE, name[0]).obj())
    await harness.settle()

    def order():
        return [info.name for info in harness.state.nodes_in_turn()]

    assert order() == ["a1", "b1", "a2", "a3"]
    harness.delete(node("a2").obj())
    await harness.settle()
    assert sorted(order()) == ["a1", "a3", "b1"] and order() == [
        i.name for i in zones_in_turn(harness.state.nodes.infos)
    ]
    harness.apply(node("b2").label(ZONE, "b").obj())
    await harness.settle()
    assert sorted(order()) == ["a1", "a3", "b1", "b2"]
    assert {name[0] for name in order()[:2]} == {"a", "b"}


async def test_br_98_a_pod_before_its_node():
    harness = await started()
    harness.apply(make_pod("early").node("n7").cpu("1").obj())
    await harness.settle()
    assert [info.name for info in harness.state.nodes.infos] == ["n1"], "no candidate before it is there"
    pod = make_pod("p").cpu("1").node_affinity_name("n7").obj()
    harness.apply(node("n7", cpu=1).obj(), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"


async def test_br_99_affinity_and_claims_are_as_after_a_rebuild():
    harness = await started(node("n1"), node("n2"))
    repelling = make_pod("r").label("app", "a").pod_anti_affinity(HOST, {"app": "a"}).pvc("c").node("n1")
    pod = make_pod("p").label("app", "a").node_affinity_name("n1").obj()
    harness.apply(repelling.obj(), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.delete(repelling.obj())
    harness.apply(make_pod("r2").label("app", "b").node("n1").obj())
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"
    harness.apply(newer(make_pod("r2").label("app", "a").node("n1").obj()))
    await harness.settle()
    assert consistency.check(harness.state) == []


async def test_br_101_a_preemption_dry_run_leaves_no_trace():
    harness = await started(*(node(f"n{i}") for i in range(20)))
    harness.apply(*(make_pod(f"v{i}").priority(1).cpu("4").node(f"n{i}").phase("Running").obj() for i in range(20)))
    await harness.settle()
    before = {info.name: dict(info.requested) for info in harness.state.nodes.infos}
    harness.apply(make_pod("hopeless").priority(10).cpu("5").obj())
    await harness.settle()
    assert {info.name: dict(info.requested) for info in harness.state.nodes.infos} == before
    assert consistency.check(harness.state) == []


async def test_br_148_no_verdict_outlives_what_it_was_about():
    harness = await started()
    last_victim, a = make_pod("victim").node("n1").cpu("4").obj(), make_pod("a").cpu("4").obj()
    harness.apply(last_victim, a)
    await harness.settle()
    assert harness.waits_in(a) == "unschedulable"
    harness.delete(last_victim)
    await harness.pass_time(3)
    assert harness.node_of(a) == "n1"
    b = make_pod("b").label("app", "x").pod_anti_affinity(HOST, {"app": "x"}).obj()
    c = make_pod("c").label("app", "x").pod_anti_affinity(HOST, {"app": "x"}).obj()
    harness.apply(node("n2").obj(), b)
    await harness.settle()
    harness.apply(c)
    await harness.settle()
    assert {harness.node_of(b), harness.node_of(c)} == {"n1", "n2"}


async def test_br_56_two_anti_affine_replicas_during_a_slow_binding():
    harness = await started(node("n1"), node("n2"))

    async def stored_but_no_answer():
        await harness.clock.sleep(30)
        raise TransportError("timed out")

    first, second = (
        make_pod(name).label("app", "r").pod_anti_affinity(HOST, {"app": "r"}).obj() for name in ("r1", "r2")
    )
    harness.port.bind_answers.append(stored_but_no_answer)
    harness.apply(first)
    await harness.settle()
    chosen = harness.node_of(first)
    from msgspec.structs import replace

    harness.port.read_answers.append(replace(first, spec=replace(first.spec, node_name=chosen)))
    harness.apply(second)
    await harness.pass_time(31)
    assert {harness.node_of(first), harness.node_of(second)} == {"n1", "n2"}
    assert [pod for pod, _ in harness.port.binds()] == ["r1", "r2"]


# -- EVENT


async def test_br_129_the_form_of_the_message():
    tainted = [node(f"t{i}").taint("dedicated", effect="NoSchedule") for i in range(2)]
    small = [make_node(f"s{i}").capacity(cpu="1", memory="1Gi", pods=10).label("pool", "x") for i in range(2)]
    other = node("o")
    harness = await started(*[each.label("pool", "x") for each in tainted], *small, other)
    pod = make_pod("p").cpu("2").memory("2Gi").node_selector({"pool": "x"}).obj()
    harness.apply(pod)
    await harness.settle()
    message = harness.queue.find(pod.metadata.uid).last_message
    assert message == (
        "0/5 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, 2 Insufficient cpu, "
        "2 Insufficient memory, 2 node(s) had untolerated taint(s). no new claims to deallocate, "
        "preemption: 0/5 nodes are available: 5 Preemption is not helpful for scheduling."
    )


def test_br_129_reasons_are_sorted_as_text_count_first():
    diagnosis = Diagnosis()
    for number in range(12):
        reason = "b reason" if number < 10 else "a reason"
        diagnosis.node_statuses.set(f"n{number}", Status.unschedulable(reason))
    assert fit_message(12, diagnosis) == "0/12 nodes are available: 10 b reason, 2 a reason."


async def test_br_130_no_nodes_at_all():
    harness = Harness()
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.port.events[-1].note == "no nodes available to schedule pods"
    harness.apply(node().obj())
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1"


async def test_br_127_pods_of_another_scheduler_count_and_are_left_alone():
    harness = await started()
    harness.apply(make_pod("theirs").scheduler("other").cpu("3").node("n1").obj())
    waiting, ours = make_pod("waiting").scheduler("other").obj(), make_pod("ours").cpu("2").obj()
    harness.apply(waiting, ours)
    await harness.settle()
    assert harness.waits_in(ours) == "unschedulable" and harness.waits_in(waiting) == ""
    assert not any(call[1] == "waiting" for call in harness.port.calls)
