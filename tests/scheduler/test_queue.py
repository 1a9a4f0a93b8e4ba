"""The queue's rules one by one: where a pod goes, when it leaves, and what is counted."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from kubesched.api.errors import ApiError, TransportError
from kubesched.clock import ManualClock
from kubesched.framework import Plugin, Status, events
from kubesched.framework.events import NODE, ActionType, ClusterEvent, ClusterEventWithHint, QueueingHint
from kubesched.framework.status import Code
from kubesched.scheduler.queue.backoff import BackoffQueue
from kubesched.scheduler.queue.queued_pod import QueuedPod
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod
from tests.harness import Harness
from tests.scheduler.test_event_handlers import newer


def node(name="n1", cpu=4):
    return make_node(name).capacity(cpu=cpu, memory="16Gi", pods=110).obj()


async def started(*plugins, nodes=(), **options):
    harness = Harness(*plugins, **options)
    harness.apply(*(nodes or (node(),)))
    await harness.settle()
    return harness


def value(harness, name, *labels):
    harness.metrics._update()
    family = getattr(harness.metrics, name)
    return family.labels(*labels).value


def incoming(harness):
    """Pods that entered queues, as {"queue event": count}."""
    return {f"{queue} {event}": series.value for (queue, event), series in harness.metrics._queue_incoming.items()}


# -- backoff


BACKOFFS = [
    ("never tried", 1, 10, 0, 0, 0),
    ("first rejection", 1, 10, 1, 0, 1),
    ("second", 1, 10, 2, 0, 2),
    ("third", 1, 10, 3, 0, 4),
    ("fourth", 1, 10, 4, 0, 8),
    ("fifth: the limit", 1, 10, 5, 0, 10),
    ("hundredth: no overflow", 1, 10, 100, 0, 10),
    ("thousandth", 1, 10, 1000, 0, 10),
    ("an error counts on its own", 1, 10, 5, 1, 1),
    ("errors in a row", 1, 10, 1, 3, 4),
    ("other settings", 3, 10, 1, 0, 3),
    ("other settings, second", 3, 10, 2, 0, 6),
    ("other settings, limit", 3, 10, 3, 0, 10),
    ("initial above the limit", 20, 10, 1, 0, 10),
    ("switched off", 1, 0, 4, 0, 0),
    ("switched off for errors too", 1, 0, 0, 4, 0),
]


@pytest.mark.parametrize(
    ("initial_s", "max_s", "rejections", "errors", "expected_s"),
    [case[1:] for case in BACKOFFS],
    ids=[case[0] for case in BACKOFFS],
)
def test_backoff_doubles_up_to_its_limit(initial_s, max_s, rejections, errors, expected_s):
    pod = QueuedPod(PodInfo(make_pod("p").obj()), 0.0)
    pod.unschedulable_count, pod.error_count = rejections, errors
    assert BackoffQueue(initial_s, max_s, lambda queued: 0).duration_s(pod) == expected_s


@pytest.mark.parametrize("offset", [0.0, 0.1, 0.5, 0.999], ids=str)
def test_backoff_ends_with_the_window_in_which_it_is_over(offset):
    clock = ManualClock(start=1000.0 + offset)
    backoff = BackoffQueue(1, 10, lambda queued: 0)
    pod = QueuedPod(PodInfo(make_pod("p").obj()), clock.now())
    pod.unschedulable_count = 1
    backoff.start(pod)
    assert pod.backoff_until == math.floor(clock.now() + 1) + 1 == 1002.0
    assert not backoff.is_over(pod, 1001.999) and backoff.is_over(pod, 1002.0)


def test_pods_of_one_window_leave_in_queue_order():
    def rejected(name, priority, at):
        pod = QueuedPod(PodInfo(make_pod(name).priority(priority).obj()), at)
        pod.unschedulable_count, pod.unschedulable_plugins = 1, {"P"}
        backoff.start(pod)
        backoff.push(pod)

    backoff = BackoffQueue(1, 10, lambda queued: (-queued.pod_info.priority, queued.timestamp))
    rejected("low-early", 1, 1000.1)
    rejected("high-late", 9, 1000.9)
    rejected("high-next-window", 9, 1001.0)
    rejected("low-late", 1, 1000.5)
    assert [pod.pod.metadata.name for pod in backoff.pop_over(1002.0)] == ["high-late", "low-early", "low-late"]
    assert [pod.pod.metadata.name for pod in backoff.pop_over(1003.0)] == ["high-next-window"]


async def test_a_rejected_pod_is_popped_early_when_nothing_else_is_to_do():
    harness = await started()
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(node("n2", cpu=8))
    harness.scheduler.inbox.apply_all()
    assert harness.waits_in(pod) == "backoff"
    await harness.settle()
    assert harness.node_of(pod) == "n2"
    assert incoming(harness)["active PopFromBackoffQ"] == 1


async def test_a_pod_that_met_an_error_waits_its_time():
    harness = await started()
    harness.port.bind_answers.append(ApiError(409, "Conflict", "no"))
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "backoff"
    until = harness.queue.find(pod.metadata.uid).backoff_until
    harness.clock.advance(until - harness.clock.now() - 0.01)
    harness.queue.flush()
    await harness.settle()
    assert harness.waits_in(pod) == "backoff"
    harness.clock.advance(0.01)
    harness.queue.flush()
    await harness.settle()
    assert harness.node_of(pod) == "n1"


async def test_no_node_at_all_is_retried_by_time_and_says_so():
    harness = Harness()
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "backoff"
    assert harness.queue.find(pod.metadata.uid).last_message == "no nodes available to schedule pods"
    harness.apply(node())
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n1"


async def test_a_rejection_ends_a_row_of_errors():
    class Fickle(Plugin):
        """Errors twice, then rejects."""

        name = "Fickle"
        answers = (RuntimeError("broken"), RuntimeError("broken"), None)
        calls = 0

        def pre_filter(self, state, pod, nodes):
            answer = self.answers[min(Fickle.calls, 2)]
            Fickle.calls += 1
            if answer is not None:
                raise answer
            return Status.unschedulable("no")

    harness = await started(Fickle)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.pass_time(7)
    queued = harness.queue.find(pod.metadata.uid)
    assert (queued.attempts, queued.unschedulable_count, queued.error_count) == (3, 1, 0)
    assert harness.waits_in(pod) == "unschedulable"


# -- who wakes whom


def rejecting(name, status_code=Code.UNSCHEDULABLE, listens=()):
    """A plugin that rejects pods labelled with its name, and listens to these events (all Queue)."""

    class Rejecting(Plugin):
        def filter(self, state, pod, node):
            if pod.metadata.labels.get("by") == name and not node.labels.get("ok"):
                return Status(status_code, "no")
            return None

        def events_to_register(self):
            return [ClusterEventWithHint(event) for event in listens]

    Rejecting.name = name
    return Rejecting


LABELS = ClusterEvent(NODE, ActionType.UPDATE_NODE_LABEL)


async def relabelled(harness, **labels):
    obj = make_node("n1").capacity(cpu=4, memory="16Gi", pods=110)
    for name, label in labels.items():
        obj = obj.label(name, label)
    harness.apply(obj.obj())
    harness.scheduler.inbox.apply_all()


async def test_a_pod_woken_by_whom_it_was_pending_on_skips_backoff():
    harness = await started(rejecting("Waits", Code.PENDING, [LABELS]))
    pod = make_pod("p").label("by", "Waits").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.queue.find(pod.metadata.uid).pending_plugins == {"Waits"}
    await relabelled(harness, ok="yes")
    assert harness.waits_in(pod) == "active"


async def test_a_pod_woken_by_another_of_its_rejectors_backs_off():
    harness = await started(rejecting("Says", Code.UNSCHEDULABLE, [LABELS]), rejecting("Waits", Code.PENDING))
    pod = make_pod("p").label("by", "Says").obj()
    harness.apply(pod)
    await harness.settle()
    await relabelled(harness, x="y")
    assert harness.waits_in(pod) == "backoff"


async def test_only_those_who_rejected_the_pod_are_asked():
    harness = await started(rejecting("Deaf"), rejecting("Listens", listens=[LABELS]))
    pod = make_pod("p").label("by", "Deaf").obj()
    harness.apply(pod)
    await harness.settle()
    await relabelled(harness, x="y")
    assert harness.waits_in(pod) == "unschedulable"


async def test_a_hint_that_raises_counts_as_queue(caplog):
    class Broken(Plugin):
        name = "Broken"

        def filter(self, state, pod, node):
            return Status.unschedulable("no")

        def events_to_register(self):
            def hint(pod, old, new):
                raise RuntimeError("bad hint")

            return [ClusterEventWithHint(LABELS, hint)]

    harness = await started(Broken)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    await relabelled(harness, x="y")
    assert harness.waits_in(pod) == "backoff"
    assert "plugin=Broken" in caplog.text and "event=NodeUpdateNodeLabel" in caplog.text
    assert harness.metrics._queueing_hint.labels("Broken", "NodeUpdateNodeLabel", "Error").count == 1


async def test_a_rejector_without_events_such_as_an_extender_wakes_on_any_event_that_matters_to_somebody():
    harness = await started()
    pod = make_pod("p").obj()
    harness.apply(pod)
    harness.scheduler.inbox.apply_all()
    queued = harness.queue.pop()
    queued.unschedulable_plugins = {"Extender"}
    harness.queue.add_rejected(queued)
    harness.queue.move(ClusterEvent("Service", ActionType.DELETE))
    assert harness.waits_in(pod) == "unschedulable", "nobody listens to that"
    harness.queue.move(events.ASSIGNED_POD_DELETE, make_pod("gone").node("n1").obj())
    assert harness.waits_in(pod) == "backoff"


async def test_pods_of_another_profile_are_woken_by_its_plugins_only():
    settings = {
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {"schedulerName": "no-fit", "plugins": {"multiPoint": {"disabled": [{"name": "NodeAffinity"}]}}},
        ]
    }
    harness = await started(settings=settings)
    ours, theirs = make_pod("ours").cpu("8").obj(), make_pod("theirs").cpu("8").scheduler("no-fit").obj()
    harness.apply(ours, theirs)
    await harness.settle()
    assert harness.waits_in(ours) == harness.waits_in(theirs) == "unschedulable"
    harness.apply(node("n2", cpu=8))
    await harness.pass_time(2)
    assert {harness.node_of(ours), harness.node_of(theirs)} == {"n2", ""}


NOMINATIONS = [("higher", 20, False), ("equal", 10, True), ("lower", 5, True)]


@pytest.mark.parametrize(("priority", "woken"), [c[1:] for c in NOMINATIONS], ids=[c[0] for c in NOMINATIONS])
@pytest.mark.parametrize("how", ["cleared", "deleted"])
async def test_the_end_of_a_nomination_concerns_pods_of_no_higher_priority(how, priority, woken):
    harness = await started()
    nominated = make_pod("nominated").cpu("8").priority(10).nominated("n1").obj()
    waiting = make_pod("waiting").cpu("8").priority(priority).obj()
    harness.apply(nominated, waiting)
    await harness.settle()
    attempts = harness.queue.find(waiting.metadata.uid).attempts
    if how == "deleted":
        harness.delete(nominated)
    else:
        harness.apply(newer(make_pod("nominated").cpu("8").priority(10).obj()))
    await harness.pass_time(3)
    assert (harness.queue.find(waiting.metadata.uid).attempts > attempts) is woken


async def test_cordoning_wakes_nobody_and_uncordoning_does():
    harness = await started()
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod, node("n2", cpu=8))
    cordoned = make_node("n2").capacity(cpu=8, memory="16Gi", pods=110)
    harness.apply(cordoned.copy().unschedulable().obj())
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    before = incoming(harness)
    harness.apply(make_node("n1").capacity(cpu=4, memory="16Gi", pods=110).unschedulable().obj())
    await harness.settle()
    assert incoming(harness) == before
    harness.apply(cordoned.obj())
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n2"


# -- gates


class Gate(Plugin):
    """Holds pods back until opened; listens to labels of nodes."""

    name = "Gate"
    is_open = False
    asked = 0

    def pre_enqueue(self, pod):
        Gate.asked += 1
        return None if Gate.is_open else Status.unresolvable("closed")

    def events_to_register(self):
        return [ClusterEventWithHint(LABELS, lambda pod, old, new: QueueingHint.QUEUE)]


@pytest.fixture
def gate():
    Gate.is_open, Gate.asked = False, 0
    return Gate


async def test_a_gate_is_asked_again_on_the_events_of_its_plugin_only(gate):
    harness = await started(gate)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "gated" and gate.asked == 1
    assert incoming(harness) == {"unschedulable UnschedulablePodAdd": 1}, "as the original counts gated pods"
    harness.apply(node("n2"))
    await harness.settle()
    assert gate.asked == 1
    await relabelled(harness, x="y")
    assert harness.waits_in(pod) == "gated" and gate.asked == 2
    assert incoming(harness) == {"unschedulable UnschedulablePodAdd": 1}, "it never left"
    gate.is_open = True
    await relabelled(harness, x="z")
    assert harness.waits_in(pod) == "active"
    assert incoming(harness)["active NodeUpdateNodeLabel"] == 1


async def test_a_gate_that_closes_holds_a_pod_on_its_way_to_backoff(gate):
    gate.is_open = True
    harness = await started(gate)
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    gate.is_open = False
    harness.apply(node("n2", cpu=8))
    await harness.settle()
    assert harness.waits_in(pod) == "gated"


async def test_a_pod_leaves_backoff_without_asking_its_gates_again(gate):
    gate.is_open = True
    harness = await started(gate)
    harness.port.bind_answers.append(ApiError(409, "Conflict", "no"))
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.waits_in(pod) == "backoff"
    gate.is_open, asked = False, gate.asked
    await harness.pass_time(3)
    assert harness.node_of(pod) == "n1" and gate.asked == asked


async def test_a_gated_pods_wait_is_no_wait_for_scheduling(gate):
    harness = await started(gate)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.pass_time(60)
    gate.is_open = True
    await relabelled(harness, x="y")
    assert harness.queue.find(pod.metadata.uid).first_attempt == harness.clock.now()


# -- the flush


async def test_pods_parked_for_five_minutes_are_tried_again_and_counted_when_that_helped():
    class Silent(Plugin):
        """Rejects until told otherwise, and registers no event that would tell."""

        name = "Silent"
        rejects = True

        def filter(self, state, pod, node):
            return Status.unschedulable("no") if Silent.rejects else None

        def events_to_register(self):
            return []

    harness = await started(Silent)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    await harness.pass_time(299)
    assert harness.queue.find(pod.metadata.uid).attempts == 1
    await harness.pass_time(35)
    assert harness.queue.find(pod.metadata.uid).attempts == 2, "tried again, in vain"
    assert harness.metrics._after_flush.labels().value == 0
    assert not harness.queue.find(pod.metadata.uid).was_flushed
    Silent.rejects = False
    await harness.pass_time(335)
    assert harness.node_of(pod) == "n1"
    assert harness.metrics._after_flush.labels().value == 1


async def test_gated_pods_are_flushed_too_and_no_oftener(gate):
    harness = await started(gate)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    await harness.pass_time(700)
    assert gate.asked == 3 and harness.waits_in(pod) == "gated"
    assert not harness.queue.find(pod.metadata.uid).was_flushed
    gate.is_open = True
    await harness.pass_time(320)
    assert harness.node_of(pod) == "n1"


# -- activate, close, odd ends


async def test_activate_ends_backoff_and_parking():
    harness = await started()
    parked, failed = make_pod("parked").cpu("8").obj(), make_pod("failed").obj()
    harness.port.bind_answers.append(ApiError(409, "Conflict", "no"))
    harness.apply(failed)
    await harness.settle()
    harness.apply(parked)
    await harness.settle()
    assert (harness.waits_in(parked), harness.waits_in(failed)) == ("unschedulable", "backoff")
    harness.scheduler.activate([parked, failed, make_pod("unknown").obj()])
    harness.scheduler.inbox.apply_all()
    assert harness.waits_in(parked) == harness.waits_in(failed) == "active"
    assert incoming(harness)["active ForceActivate"] == 2


async def test_activate_of_a_pod_in_flight_is_not_lost():
    harness = await started()
    pod, other = make_pod("p").obj(), make_pod("other").obj()
    harness.apply(pod, other)
    harness.scheduler.inbox.apply_all()
    first, second = harness.queue.pop(), harness.queue.pop()
    harness.queue.activate([first.pod])
    for queued in (first, second):
        queued.unschedulable_plugins = {"NodeResourcesFit"}
        harness.queue.add_rejected(queued)
    assert harness.waits_in(first.pod) == "backoff", "the original's place for it: popped from there when idle"
    assert harness.waits_in(second.pod) == "unschedulable"


async def test_a_closed_queue_gives_nothing_more():
    harness = await started()
    harness.apply(make_pod("p").obj())
    harness.scheduler.inbox.apply_all()
    harness.queue.close()
    assert harness.queue.pop() is None and not await harness.scheduler.step()


async def test_a_pod_that_begins_to_terminate_while_assumed_is_let_go():
    class Holding(Plugin):
        name = "Holding"

        def permit(self, state, pod, node_name):
            return Status.wait(), 60.0

    harness = await started(Holding)
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.state.is_assumed(pod.metadata.uid)
    harness.apply(newer(make_pod("p").deleting().obj()))
    await harness.pass_time(3)
    assert not harness.state.is_assumed(pod.metadata.uid) and harness.port.binds() == []
    assert harness.port.events[-1].note == "skip schedule deleting pod: default/p"


async def test_a_reload_keeps_every_pod_and_tries_the_parked_ones_again():
    harness = await started(nodes=(node(cpu=1),))
    parked, gated = make_pod("parked").cpu("8").obj(), make_pod("gated").gate("g").obj()
    harness.apply(parked, gated)
    await harness.settle()
    waiting = make_pod("waiting").obj()
    harness.apply(waiting)
    harness.scheduler.inbox.apply_all()
    harness.queue.adopt(harness.runtimes)
    assert harness.waits_in(waiting) == "active"
    assert harness.waits_in(parked) == "backoff" and harness.waits_in(gated) == "gated"


# -- what is counted


async def test_gauges_follow_the_pods():
    harness = await started(rejecting("Says", listens=[LABELS]))
    small, labelled = make_pod("small").cpu("8").obj(), make_pod("labelled").label("by", "Says").cpu("8").obj()
    gated = make_pod("gated").gate("g").obj()
    harness.apply(small, labelled, gated)
    await harness.settle()

    def rejected_by(plugin):
        return value(harness, "_unschedulable_pods", plugin, "default-scheduler")

    def pending(queue):
        return value(harness, "_pending_pods", queue)

    assert (pending("active"), pending("backoff"), pending("unschedulable"), pending("gated")) == (0, 0, 2, 1)
    assert rejected_by("NodeResourcesFit") == 2 and rejected_by("SchedulingGates") == 1
    await relabelled(harness, ok="yes")
    await harness.settle()
    harness.apply(make_node("n2").capacity(cpu=16, memory="16Gi", pods=110).label("ok", "yes").obj())
    await harness.pass_time(4)
    assert harness.node_of(small) == harness.node_of(labelled) == "n2"
    assert rejected_by("NodeResourcesFit") == rejected_by("Says") == 0
    assert rejected_by("SchedulingGates") == 1
    harness.delete(gated)
    await harness.settle()
    assert rejected_by("SchedulingGates") == pending("gated") == 0


async def test_events_in_flight_are_counted_until_the_last_pod_that_needs_them_is_back():
    harness = await started()
    harness.apply(make_pod("a").obj(), make_pod("b").obj())
    harness.scheduler.inbox.apply_all()
    first, second = harness.queue.pop(), harness.queue.pop()
    harness.queue.move(events.NODE_ADD, None, node("n2"))
    harness.queue.move(ClusterEvent("Service", ActionType.ADD), None, object())

    def in_flight(event):
        return value(harness, "_inflight_events", event)

    assert (in_flight("PodPopped"), in_flight("NodeAdd")) == (2, 1)
    assert ("ServiceAdd",) not in dict(harness.metrics._inflight_events.items()), "of no interest to anybody"
    harness.queue.done(first.uid)
    assert (in_flight("PodPopped"), in_flight("NodeAdd")) == (1, 1)
    harness.queue.done(second.uid)
    harness.queue.done(second.uid)
    assert (in_flight("PodPopped"), in_flight("NodeAdd")) == (0, 0)


EVENT_LABELS = [
    (events.ASSIGNED_POD_DELETE, "AssignedPodDelete"),
    (events.NODE_ADD, "NodeAdd"),
    (ClusterEvent(NODE, ActionType.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
    (ClusterEvent(events.TARGET_POD, ActionType.UPDATE_POD_LABEL), "UnschedulablePodUpdatePodLabel"),
    (ClusterEvent(events.TARGET_POD, ActionType.UPDATE_OTHER), "UnschedulablePodUpdate"),
    (ClusterEvent("PersistentVolumeClaim", ActionType.UPDATE_OTHER), "PersistentVolumeClaimUpdate"),
    (ClusterEvent("StorageClass", ActionType.ADD), "storage.k8s.io/StorageClassAdd"),
    (ClusterEvent("DeviceClass", ActionType.UPDATE_OTHER), "resource.k8s.io/DeviceClassUpdate"),
    (events.FORCE_ACTIVATE, "ForceActivate"),
    (events.UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
]


@pytest.mark.parametrize(("event", "label"), EVENT_LABELS, ids=[label for _, label in EVENT_LABELS])
def test_events_have_the_originals_labels(event, label):
    assert event.label == label


# -- writing statuses


async def test_statuses_of_one_pod_are_merged_while_calls_are_under_way():
    release = asyncio.Event()

    class SlowPort:
        sent: list[tuple[str, object, object]] = []

        async def patch_pod_status(self, pod, *, condition=None, nominated_node_name=None):
            self.sent.append((pod.metadata.name, condition, nominated_node_name))
            await release.wait()

    from kubesched.scheduler.status_writer import StatusWriter

    tasks = set()
    port: Any = SlowPort()
    writer = StatusWriter(port, lambda name, work: tasks.add(asyncio.ensure_future(work)))
    pods = [make_pod(f"p{i}").obj() for i in range(20)]
    for round_no in range(50):
        for pod in pods:
            condition: Any = f"condition {round_no}"
            writer.submit(pod, condition=condition, nominated_node_name="n1" if round_no == 7 else None)
        await asyncio.sleep(0)
    assert len(SlowPort.sent) == 4, "a few calls at a time, whatever is queued"
    release.set()
    await asyncio.gather(*tasks)
    await writer.flushed()
    assert len(SlowPort.sent) <= 4 + 20
    last = {name: (condition, nominated) for name, condition, nominated in SlowPort.sent}
    assert last == {pod.metadata.name: ("condition 49", "n1") for pod in pods}


async def test_no_news_that_a_pod_does_not_fit_follows_its_binding():
    harness = await started()
    order = []
    release = asyncio.Event()

    async def slow_patch(pod, *, condition=None, nominated_node_name=None):
        order.append("status sent")
        await release.wait()
        order.append("status answered")

    harness.port.patch_pod_status = slow_patch
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    harness.apply(node("n2", cpu=8))
    await harness.settle()
    assert order == ["status sent"] and harness.port.binds() == [], "the binding waits for the answer"
    release.set()
    await harness.settle()
    assert order == ["status sent", "status answered"] and harness.port.binds() == [("p", "n2")]


async def test_a_status_that_cannot_be_written_stops_nothing(caplog):
    harness = await started()

    async def failing(pod, *, condition=None, nominated_node_name=None):
        raise TransportError("no route to host")

    harness.port.patch_pod_status = failing
    pod = make_pod("p").cpu("8").obj()
    harness.apply(pod)
    await harness.settle()
    assert "could not write the status pod=default/p" in caplog.text
    harness.apply(node("n2", cpu=8))
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n2"
