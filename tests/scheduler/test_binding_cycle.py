"""Each path of a pod from its chosen node to the end of its binding."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from kubesched.api.errors import ApiError, TransportError
from kubesched.framework import Plugin, Status
from kubesched.framework.status import Code
from tests.build import make_node, make_pod
from tests.harness import Harness

LOG: list[str] = []


@pytest.fixture(autouse=True)
def empty_log():
    LOG.clear()


class Tracing(Plugin):
    """Notes the points it is called at; answers come from `answers`, by method name."""

    answers: dict[str, object] = {}

    def note(self, point):
        LOG.append(f"{self.name}.{point}")
        answer = self.answers.get(point)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, state, pod, node_name):
        return self.note("reserve")

    def unreserve(self, state, pod, node_name):
        self.note("unreserve")


def traced(name, **answers):
    """A Tracing plugin that serves Reserve and the points that it has answers for."""
    points = {
        "permit": lambda self, state, pod, node_name: self.note("permit"),
        "pre_bind_pre_flight": lambda self, state, pod, node_name: self.note("pre_bind_pre_flight"),
        "pre_bind": lambda self, state, pod, node_name: self.note("pre_bind"),
        "bind": lambda self, state, pod, node_name: self.note("bind"),
        "post_bind": lambda self, state, pod, node_name: self.note("post_bind"),
    }
    methods = {point: points[point] for point in answers if point in points}
    return type(name, (Tracing,), {"name": name, "answers": answers, **methods})


def first(*names):
    """Settings that run these plugins before the in-tree ones at Bind."""
    profile = {
        "schedulerName": "default-scheduler",
        "plugins": {
            "multiPoint": {"enabled": [{"name": name} for name in names]},
            "bind": {
                "enabled": [{"name": name} for name in names] + [{"name": "DefaultBinder"}],
                "disabled": [{"name": "*"}],
            },
        },
    }
    return {"profiles": [profile]}


async def one_pod(*plugins, settings=None, pod=None):
    harness = Harness(*plugins, settings=settings)
    pod = (pod or make_pod("p").cpu("1")).obj()
    harness.apply(make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).obj(), pod)
    await harness.settle()
    return harness, pod


async def test_a_pod_is_bound_and_told_so():
    harness, pod = await one_pod()
    assert harness.port.binds() == [("p", "n1")]
    assert harness.port.event_reasons("p") == ["Scheduled"]
    assert harness.port.events[0].note == "Successfully assigned default/p to n1"
    assert harness.node_of(pod) == "n1" and not harness.state.is_assumed(pod.metadata.uid)
    assert harness.metrics.value("scheduler_schedule_attempts_total", "scheduled", "default-scheduler") == 1


async def test_points_run_in_order():
    both = [traced(name, permit=None, pre_bind=None, post_bind=None) for name in ("A", "B")]
    await one_pod(*both)
    assert [f"{name}.{point}" for point in ("reserve", "permit", "pre_bind", "post_bind") for name in ("A", "B")] == LOG


RESERVE_OR_PERMIT_FAILS = {
    "reserve rejects": (
        {"reserve": Status.unschedulable("no room")},
        "0/1 nodes are available: 1 no room.",
        "Unschedulable",
    ),
    "reserve fails": ({"reserve": Status.error("boom")}, 'running Reserve plugin "B": boom', "SchedulerError"),
    "reserve raises": ({"reserve": ValueError("bad")}, 'running Reserve plugin "B": ValueError: bad', "SchedulerError"),
    "permit rejects": (
        {"permit": Status.unschedulable("not yet")},
        "0/1 nodes are available: 1 not yet.",
        "Unschedulable",
    ),
    "permit fails": ({"permit": Status.error("boom")}, 'running Permit plugin "B": boom', "SchedulerError"),
}


@pytest.mark.parametrize(
    ("answers", "message", "reason"), RESERVE_OR_PERMIT_FAILS.values(), ids=RESERVE_OR_PERMIT_FAILS
)
async def test_a_failure_before_the_binding_cycle_gives_everything_back(answers, message, reason):
    harness, pod = await one_pod(traced("A"), traced("B", **answers), traced("C"))
    assert [entry for entry in LOG if entry.endswith("unreserve")] == ["C.unreserve", "B.unreserve", "A.unreserve"]
    assert harness.node_of(pod) == ""
    assert harness.port.binds() == []
    assert ("status", "p", ("PodScheduled", "False", reason), None) in harness.port.calls
    assert harness.port.events[-1].note == message
    assert harness.waits_in(pod) == ("unschedulable" if reason == "Unschedulable" else "backoff")


async def test_reserve_stops_at_the_first_failure():
    await one_pod(traced("A", reserve=Status.unschedulable("no")), traced("B"))
    assert LOG == ["A.reserve", "B.unreserve", "A.unreserve"]


# -- Permit


async def held(*waits):
    """A pod held by plugins W0, W1, ... for so many seconds each."""
    plugins = [traced(f"W{i}", permit=(Status.wait(), wait)) for i, wait in enumerate(waits)]
    harness, pod = await one_pod(*plugins)
    waiting = harness.runtimes["default-scheduler"].handle.waiting_pods.get(pod.metadata.uid)
    assert waiting is not None and harness.port.binds() == []
    return harness, pod, waiting


async def test_a_held_pod_is_nominated_and_bound_once_all_that_said_wait_allow_it():
    harness, _, waiting = await held(60, 60)
    assert harness.port.calls == [("status", "p", None, "n1")]
    waiting.allow("W0")
    await harness.settle()
    assert harness.port.binds() == []
    waiting.allow("W1")
    await harness.settle()
    assert harness.port.binds() == [("p", "n1")]


async def test_the_first_timer_rejects():
    harness, pod, _ = await held(5, 60)
    await harness.pass_time(5)
    assert "rejected due to timeout after waiting 5s at plugin W0" in harness.port.events[-1].note
    assert harness.waits_in(pod) == "unschedulable"
    assert harness.queue.parked.get(pod.metadata.uid).unschedulable_plugins == {"W0"}
    assert LOG.count("W0.unreserve") == 1


async def test_a_wait_is_at_most_fifteen_minutes():
    harness, _, _ = await held(86400)
    harness.clock.advance(15 * 60)
    await harness.settle()
    assert "rejected due to timeout after waiting 15m0s at plugin W0" in harness.port.events[-1].note


async def test_any_rejection_ends_the_wait():
    harness, pod, waiting = await held(60, 60)
    waiting.reject("W1", "group is incomplete")
    await harness.settle()
    assert harness.port.events[-1].note == "0/1 nodes are available: 1 group is incomplete."
    assert harness.node_of(pod) == ""


async def test_deleting_a_held_pod_ends_its_wait_at_once():
    harness, pod, _ = await held(600)
    harness.delete(pod)
    await harness.settle()
    assert harness.node_of(pod) == "" and harness.waits_in(pod) == ""
    assert LOG.count("W0.unreserve") == 1


async def test_a_permit_rejection_makes_room_for_others_but_is_no_news_to_the_pod_itself():
    harness, pod, waiting = await held(60)
    other = make_pod("other").cpu("4").obj()
    harness.apply(other)
    await harness.settle()
    assert harness.waits_in(other) == "unschedulable"
    waiting.reject("W0", "no")
    await harness.settle()
    assert harness.waits_in(other) != "unschedulable"
    assert harness.waits_in(pod) == "unschedulable"


# -- PreBind


async def test_pre_bind_is_dropped_where_pre_flight_skips():
    skips = traced("S", pre_bind_pre_flight=Status.skip(), pre_bind=Status.error("must not run"))
    harness, _ = await one_pod(skips)
    assert harness.port.calls == [("bind", "p", "n1")]


async def test_work_in_pre_bind_is_announced_by_a_nomination():
    harness, _ = await one_pod(traced("A", pre_bind=None))
    assert harness.port.calls == [("status", "p", None, "n1"), ("bind", "p", "n1")]


async def test_neighbours_that_allow_it_run_pre_bind_together():
    started = asyncio.Event()

    class First(Plugin):
        name = "First"
        allow_parallel = True

        async def pre_bind(self, state, pod, node_name):
            await started.wait()

    class Second(Plugin):
        name = "Second"
        allow_parallel = True

        async def pre_bind(self, state, pod, node_name):
            started.set()

    harness, _ = await one_pod(First, Second)
    assert harness.port.binds() == [("p", "n1")]


LATE_FAILURES = {
    "pre-bind fails": (
        traced("A", pre_bind=Status.error("no disk")),
        'running PreBind plugin "A": no disk',
        "SchedulerError",
    ),
    "pre-bind rejects": (traced("A", pre_bind=Status.unschedulable("lost it")), "lost it", "Unschedulable"),
    "pre-bind raises": (
        traced("A", pre_bind=OSError("gone")),
        'running PreBind plugin "A": OSError: gone',
        "SchedulerError",
    ),
    "bind rejects": (traced("A", bind=Status.unschedulable("not there")), "not there", "Unschedulable"),
    "pre-flight fails": (
        traced("A", pre_bind_pre_flight=Status.error("hm"), pre_bind=None),
        'running PreBindPreFlight "A": hm',
        "SchedulerError",
    ),
    "pre-flight may not reject": (
        traced("A", pre_bind_pre_flight=Status.unschedulable("hm"), pre_bind=None),
        'PreBindPreFlight A returned "Unschedulable", which is unsupported. '
        "It is supposed to return Success, Skip, or Error status",
        "SchedulerError",
    ),
}


@pytest.mark.parametrize(("plugin", "message", "reason"), LATE_FAILURES.values(), ids=LATE_FAILURES)
async def test_what_fails_after_permit_backs_off_and_names_no_plugin(plugin, message, reason):
    harness, pod = await one_pod(plugin, settings=first("A") if hasattr(plugin, "bind") else None)
    assert harness.port.binds() == []
    assert harness.port.events[-1].note == message
    assert harness.waits_in(pod) == "backoff"
    assert harness.queue.backoff.get(pod.metadata.uid).rejected_by == set()
    assert LOG[-1] == "A.unreserve"
    assert ("status", "p", ("PodScheduled", "False", reason), None) in harness.port.calls


async def test_a_binding_that_fails_makes_room_for_others():
    harness = Harness()
    pod, other = make_pod("p").priority(5).cpu("3").obj(), make_pod("other").cpu("3").obj()
    answer = asyncio.Event()

    async def fail_later():
        await answer.wait()
        raise ApiError(500, "InternalError", "etcd is away")

    harness.port.bind_answers.append(fail_later)
    harness.port.read_answers.append(pod)
    harness.apply(make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).obj(), pod, other)
    await harness.settle()
    assert harness.waits_in(other) == "unschedulable"
    answer.set()
    await harness.settle()
    assert harness.node_of(other) == "n1"
    assert harness.waits_in(pod) == "backoff"


# -- Bind


async def test_a_conflict_is_reported_in_the_servers_words():
    harness = Harness()
    harness.port.bind_answers.append(ApiError(409, "Conflict", "pod p is already assigned to node"))
    pod = make_pod("p").obj()
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), pod)
    await harness.settle()
    assert harness.port.events[-1].note == 'running Bind plugin "DefaultBinder": pod p is already assigned to node'
    assert harness.waits_in(pod) == "backoff"
    await harness.pass_time(2)
    assert harness.port.binds() == [("p", "n1"), ("p", "n1")]


async def test_skipping_binders_pass_on_to_the_next():
    harness, _ = await one_pod(traced("A", bind=Status.skip()), traced("B", bind=None), settings=first("A", "B"))
    assert [entry for entry in LOG if ".bind" in entry] == ["A.bind", "B.bind"]
    assert harness.port.binds() == []
    assert harness.port.event_reasons("p") == ["Scheduled"]


async def test_nobody_binding_is_a_failure_and_never_a_silent_success():
    settings = first("A")
    settings["profiles"][0]["plugins"]["bind"]["enabled"].pop()
    harness, pod = await one_pod(traced("A", bind=Status.skip()), settings=settings)
    assert harness.port.event_reasons("p") == ["FailedScheduling"]
    assert harness.waits_in(pod) == "backoff"
    assert harness.node_of(pod) == ""


LOST_ANSWERS = {
    "timed out": TransportError("no answer within 30 s"),
    "server error": ApiError(504, "Timeout", "request did not complete"),
}


@pytest.mark.parametrize("error", LOST_ANSWERS.values(), ids=LOST_ANSWERS)
async def test_a_bind_whose_answer_was_lost_counts_when_the_live_pod_says_so(error):
    harness = Harness(echo=False)
    pod = make_pod("p").obj()
    harness.port.bind_answers.append(error)
    harness.port.read_answers.extend([TransportError("still away"), make_pod("p").node("n1").obj()])
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), pod)
    await harness.settle()
    assert harness.state.is_assumed(pod.metadata.uid), "nothing is given back while it is unknown"
    await harness.pass_time(1)
    assert harness.port.event_reasons("p") == ["Scheduled"]
    assert harness.node_of(pod) == "n1"


async def test_a_bind_that_never_arrived_is_tried_again():
    harness = Harness()
    pod = make_pod("p").obj()
    harness.port.bind_answers.append(TransportError("reset"))
    harness.port.read_answers.append(pod)
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), pod)
    await harness.settle()
    assert harness.waits_in(pod) == "backoff" and harness.node_of(pod) == ""
    await harness.pass_time(2)
    assert harness.port.binds() == [("p", "n1"), ("p", "n1")]
    assert harness.node_of(pod) == "n1"


# -- activation


async def test_pods_to_activate_are_activated_when_the_cycle_succeeds_and_again_after_the_binding():
    class Brings(Plugin):
        """Every pod of the group wakes the others: once reserved, and once more after PostBind."""

        name = "Brings"

        def reserve(self, state, pod, node_name):
            state.pods_to_activate["default/sleeper"] = sleeper

        def filter(self, state, pod, node):
            return Status.unschedulable("not now") if pod.metadata.name == "sleeper" and not allowed else None

        def events_to_register(self):
            return []

    allowed: list[bool] = []
    sleeper = make_pod("sleeper").obj()
    harness = Harness(Brings)
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), sleeper)
    await harness.settle()
    assert harness.waits_in(sleeper) == "unschedulable"
    allowed.append(True)
    harness.apply(make_pod("p").obj())
    await harness.settle()
    assert harness.node_of(sleeper) == "n1"


# -- preemption of a pod under way, and stopping


async def test_a_held_pod_is_preempted_without_an_api_call_and_tried_again_soon():
    harness, pod, _ = await held(600)
    assert harness.scheduler.preempt_binding(pod.metadata.uid, "preempted")
    await harness.settle()
    assert harness.port.binds() == [] and harness.node_of(pod) == ""
    assert LOG.count("W0.unreserve") == 1
    assert harness.port.events[-1].note == "waiting on permit for pod: preempted"
    assert ("status", "p", ("PodScheduled", "False", "SchedulerError"), None) in harness.port.calls
    assert harness.waits_in(pod) == "backoff"


async def test_a_pod_in_pre_bind_can_be_cancelled_and_one_in_bind_cannot():
    never = asyncio.Event()

    class Slow(Plugin):
        name = "Slow"

        async def pre_bind(self, state, pod, node_name):
            if pod.metadata.name == "in-pre-bind":
                await never.wait()

    harness = Harness(Slow)
    harness.port.bind_answers.append(never.wait)  # type: ignore[arg-type]
    early, late = make_pod("in-pre-bind").obj(), make_pod("in-bind").obj()
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), early, late)
    await harness.settle()
    assert harness.scheduler.preempt_binding(early.metadata.uid, "preempted")
    assert not harness.scheduler.preempt_binding(late.metadata.uid, "preempted")
    await harness.settle()
    assert harness.node_of(early) == "" and harness.node_of(late) == "n1"
    never.set()
    await harness.settle()


async def test_a_plugin_that_swallows_the_cancellation_does_not_bind_a_preempted_pod():
    class Stubborn(Plugin):
        name = "Stubborn"

        async def pre_bind(self, state, pod, node_name):
            with suppress(asyncio.CancelledError):  # and says that all is well
                await asyncio.Event().wait()

    harness, pod = Harness(Stubborn), make_pod("p").obj()
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), pod)
    await harness.settle()
    assert harness.scheduler.preempt_binding(pod.metadata.uid, "preempted")
    await harness.settle()
    assert harness.port.binds() == [] and harness.node_of(pod) == ""
    assert harness.waits_in(pod) == "backoff"


@pytest.mark.parametrize("holds", [False, True])
async def test_a_pod_is_preempted_before_its_binding_has_taken_a_step(holds):
    class Hold(Plugin):
        name = "Hold"

        def permit(self, state, pod, node_name):
            return (Status.wait(), 600.0) if holds else None

    harness, pod = Harness(Hold), make_pod("p").obj()
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), pod)
    assert await harness.scheduler.step()
    assert harness.scheduler.preempt_binding(pod.metadata.uid, "preempted")
    await harness.settle()
    assert harness.port.binds() == [] and harness.node_of(pod) == ""
    assert harness.waits_in(pod) == "backoff"
    assert not list(harness.runtimes["default-scheduler"].handle.waiting_pods)


async def test_stopping_rolls_back_what_is_not_bound_yet():
    harness, pod, _ = await held(600)
    await harness.stop()
    assert harness.port.binds() == []
    assert harness.node_of(pod) == "" and LOG.count("W0.unreserve") == 1


def test_codes_are_spelled_as_the_original_does():
    assert [code.text for code in Code] == [
        "Success", "Error", "Unschedulable", "UnschedulableAndUnresolvable", "Wait", "Skip", "Pending",
    ]  # fmt: skip
