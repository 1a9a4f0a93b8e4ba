"""The execution of a preemption: which calls, in which order, and what happens when they fail."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.api.meta import Condition
from kubesched.clock import Chance, ManualClock
from kubesched.framework.handle import Handle
from kubesched.framework.ports import EventRecord
from kubesched.framework.status import Status
from kubesched.framework.waiting import WaitingPod
from kubesched.metrics import Metrics
from kubesched.preemption.candidate import Candidate
from kubesched.preemption.execution import Execution
from kubesched.state.cluster_state import ClusterState
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_node, make_pod

PREEMPTOR = make_pod("h").priority(10).uid("uid-h").obj()


class Port:
    """`calls` in order, as they begin; `fates` are raised, or awaited before the call ends, by (verb, pod)."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.conditions: list[Condition] = []
        self.events: list[EventRecord] = []
        self.fates: dict[tuple[str, str], Exception | asyncio.Event] = {}

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None = None, nominated_node_name: str | None = None
    ) -> None:
        if condition is not None:
            self.conditions.append(condition)
            await self._call("condition", pod)
        else:
            assert (pod.status.nominated_node_name, nominated_node_name) == ("n1", "")
            await self._call("clear", pod)

    async def delete_pod(self, pod: Pod) -> None:
        await self._call("delete", pod)

    def record_event(self, event: EventRecord) -> None:
        self.calls.append(("event", event.regarding.name))
        self.events.append(event)

    async def _call(self, verb: str, pod: Pod) -> None:
        self.calls.append((verb, pod.name))
        fate = self.fates.get((verb, pod.name))
        if isinstance(fate, Exception):
            raise fate
        if fate is not None:
            await fate.wait()


class Control:
    def __init__(self, under_way: tuple[str, ...]) -> None:
        self.activated: list[str] = []
        self.nominations: list[tuple[str, str]] = []
        self.cancelled: list[tuple[str, str]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self._under_way = under_way

    def activate(self, pods: Any) -> None:
        self.activated += [pod.name for pod in pods]

    def nominate(self, pod: Pod, node_name: str) -> None:
        self.nominations.append((pod.name, node_name))

    def preempt_binding(self, uid: str, message: str) -> bool:
        if uid not in self._under_way:
            return False
        self.cancelled.append((uid, message))
        return True

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))


class Bench:
    """Node n1 with `victims` on it, and `nominated` pods promised to it."""

    def __init__(
        self,
        *victims: PodBuilder,
        nominated: tuple[PodBuilder, ...] = (),
        binding: tuple[str, ...] = (),
        beside: bool = True,
    ) -> None:
        self.state = ClusterState()
        self.state.set_node(make_node("n1").capacity(cpu=4).obj())
        self.victims = tuple(victim.node("n1").obj() for victim in victims)
        for victim in self.victims:
            self.state.set_pod(victim)
        for pod in nominated:
            self.state.nominator.nominate(PodInfo(pod.obj()), "n1")
        self.port = Port()
        self.clock = ManualClock()
        self.metrics = Metrics()
        under_way = tuple(each.uid for each in self.victims if each.name in binding)
        self.control = Control(under_way)
        self.handle = Handle(
            profile_name="default-scheduler",
            clock=self.clock,
            chance=Chance(0),
            metrics=self.metrics,
            features={"SchedulerAsyncPreemption": beside},
            state=self.state,
            port=self.port,  # type: ignore[arg-type]
            control=self.control,
        )
        self.execution = Execution(self.handle, "DefaultPreemption")

    async def begin(self, *victims: Pod) -> Status | None:
        """A preemption of these, or of all."""
        return await self.execution.begin(Candidate("n1", tuple(map(PodInfo, victims or self.victims))), PREEMPTOR)

    def show(self, shown: str) -> None:
        """The watch shows the first victim's end."""
        if shown == "gone":
            self.state.remove_pod(self.victims[0].uid)
        else:
            self.state.set_pod(low("a").node("n1").deleting().obj())

    async def end(self) -> None:
        await asyncio.gather(*self.control.tasks)

    async def turns(self) -> None:
        """Let everything go on that can."""
        for _ in range(10):
            await asyncio.sleep(0)

    async def run(self) -> list[tuple[str, str]]:
        assert await self.begin() is None
        await self.end()
        return self.port.calls

    def sample(self, name: str, **labels: str) -> float:
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in self.metrics.render().decode().splitlines()
            if line.split("{")[0].split(" ")[0] == name and all(f'{k}="{v}"' in line for k, v in labels.items())
        )


def low(name: str) -> PodBuilder:
    return make_pod(name).priority(0).scheduler("default-scheduler")


async def test_one_victim() -> None:
    bench = Bench(low("a"))
    assert await bench.run() == [("condition", "a"), ("delete", "a"), ("event", "a")]
    (condition,) = bench.port.conditions
    assert (condition.type, condition.status, condition.reason, condition.message) == (
        "DisruptionTarget",
        "True",
        "PreemptionByScheduler",
        "default-scheduler: preempting to accommodate a higher priority pod",
    )
    (event,) = bench.port.events
    assert (event.type, event.reason, event.action, event.note, event.reporting_controller) == (
        "Normal",
        "Preempted",
        "Preempting",
        "Preempted by pod uid-h on node n1",
        "default-scheduler",
    )
    assert bench.control.activated == [], "the pod is tried again when its victim is gone, not before"


async def test_all_but_the_last_go_together_and_the_last_one_after_them() -> None:
    bench = Bench(low("a"), low("b"), low("c"))
    gate = bench.port.fates["condition", "a"] = asyncio.Event()
    await bench.begin()
    await bench.turns()
    assert bench.port.calls == [("condition", "a"), ("condition", "b"), ("delete", "b"), ("event", "b")]
    gate.set()
    await bench.end()
    assert bench.port.calls[4:] == [
        ("delete", "a"),
        ("event", "a"),
        ("condition", "c"),
        ("delete", "c"),
        ("event", "c"),
    ]


async def test_at_most_sixteen_at_a_time() -> None:
    bench = Bench(*(low(f"v{number}") for number in range(40)))
    gate = asyncio.Event()
    for number in range(40):
        bench.port.fates["condition", f"v{number}"] = gate
    await bench.begin()
    await bench.turns()
    assert len(bench.port.calls) == 16
    gate.set()
    await bench.end()
    assert sum(verb == "delete" for verb, _ in bench.port.calls) == 40


async def test_terminating_victims_are_left_alone() -> None:
    bench = Bench(low("a").deleting(), low("b"))
    assert await bench.run() == [("condition", "b"), ("delete", "b"), ("event", "b")]
    assert bench.sample("scheduler_preemption_victims_sum") == 2


async def test_nothing_is_done_if_all_victims_are_terminating() -> None:
    bench = Bench(low("a").deleting())
    await bench.begin()
    assert (bench.control.tasks, bench.port.calls) == ([], [])
    assert not bench.execution.holds(PREEMPTOR.uid)


@pytest.mark.parametrize(
    ("waits", "message"),
    [
        pytest.param(True, "preempted", id="BR-71-in-permit"),
        pytest.param(False, "preempted by DefaultPreemption", id="in-pre-bind"),
    ],
)
async def test_a_victim_that_is_being_bound_is_turned_back_without_a_call(waits: bool, message: str) -> None:
    bench = Bench(low("a"), binding=("a",))
    if waits:
        bench.handle.waiting_pods.add(WaitingPod(bench.victims[0], "n1", {"P": 60.0}, bench.clock))
    assert await bench.run() == [("event", "a")]
    assert bench.control.cancelled == [(bench.victims[0].uid, message)]
    assert bench.port.events[0].note == "Preempted by pod uid-h on node n1 (in kube-scheduler memory)."


async def test_a_victim_that_is_gone_already_is_no_failure() -> None:
    bench = Bench(low("a"))
    bench.port.fates["condition", "a"] = ApiError(404, "NotFound", 'pods "a" not found')
    assert await bench.run() == [("condition", "a")]
    assert bench.control.activated == []
    assert bench.sample("scheduler_preemption_goroutines_execution_total", result="success") == 1


@pytest.mark.parametrize("verb", ["condition", "delete"])
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ApiError(500, "InternalError", "etcdserver: request timed out"), id="refused"),
        pytest.param(TransportError("connection reset"), id="no-answer"),
    ],
)
@pytest.mark.parametrize(
    ("failing", "untouched"),
    [pytest.param("a", ["b", "c"], id="early"), pytest.param("c", [], id="last")],
)
async def test_a_failure_spares_the_rest_and_brings_the_pod_back(
    verb: str, error: Exception, failing: str, untouched: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(low("a"), low("b"), low("c"))
    bench.port.fates[verb, failing] = error
    with caplog.at_level(logging.ERROR):
        await bench.run()
    assert [name for name in ("a", "b", "c") if name not in {pod for _, pod in bench.port.calls}] == untouched
    assert bench.control.activated == ["h"]
    assert not bench.execution.holds(PREEMPTOR.uid)
    assert bench.sample("scheduler_preemption_goroutines_execution_total", result="error") == 1
    assert f"could not preempt pod=default/{failing} node=n1 for=default/h error={error}" in caplog.text


# -- the pod that waits


async def test_the_pod_is_held_back_until_the_last_victim_is_asked_to_go() -> None:
    bench = Bench(low("a"), low("b"))
    first = bench.port.fates["condition", "a"] = asyncio.Event()
    last = bench.port.fates["delete", "b"] = asyncio.Event()
    await bench.begin()
    assert bench.execution.holds(PREEMPTOR.uid), "before anything is sent"
    await bench.turns()
    assert bench.execution.holds(PREEMPTOR.uid), "while the first one is asked"
    first.set()
    await bench.turns()
    assert bench.execution.holds(PREEMPTOR.uid), "while the last one is asked"
    last.set()
    await bench.end()
    assert not bench.execution.holds(PREEMPTOR.uid)


@pytest.mark.parametrize("shown", ["gone", "terminating"])
async def test_br_72_who_was_held_back_is_tried_once_the_watch_has_shown_the_end(shown: str) -> None:
    bench = Bench(low("a"))
    last = bench.port.fates["delete", "a"] = asyncio.Event()
    await bench.begin()
    await bench.turns()
    assert bench.execution.holds(PREEMPTOR.uid)
    bench.show(shown)
    last.set()
    await bench.end()
    assert bench.control.activated == ["h"], "nobody else may ever wake it"


@pytest.mark.parametrize("shown", ["gone", "terminating"])
async def test_who_was_held_back_is_not_tried_in_vain_before_the_end_shows(shown: str) -> None:
    bench = Bench(low("a"))
    await bench.begin()
    assert bench.execution.holds(PREEMPTOR.uid)
    await bench.end()
    assert bench.control.activated == []
    bench.show(shown)
    assert bench.control.activated == ["h"]


async def test_who_is_woken_before_the_end_shows_is_not_tried_twice() -> None:
    bench = Bench(low("a"))
    await bench.begin()
    assert bench.execution.holds(PREEMPTOR.uid)
    await bench.end()
    assert not bench.execution.holds(PREEMPTOR.uid), "asked by PreEnqueue, since something has woken it"
    bench.show("gone")
    assert bench.control.activated == []


@pytest.mark.parametrize("shown", ["gone", "terminating"])
async def test_br_72_the_last_victims_end_may_be_seen_before_the_call_returns(shown: str) -> None:
    bench = Bench(low("a"))
    last = bench.port.fates["delete", "a"] = asyncio.Event()
    await bench.begin()
    await bench.turns()
    bench.show(shown)
    assert not bench.execution.holds(PREEMPTOR.uid)
    last.set()
    await bench.end()
    assert bench.control.activated == []


async def test_the_end_of_one_preemption_does_not_end_another_of_the_same_pod() -> None:
    bench = Bench(low("a"), low("b"))
    a, b = bench.victims
    first = bench.port.fates["delete", "a"] = asyncio.Event()
    second = bench.port.fates["delete", "b"] = asyncio.Event()
    await bench.begin(a)
    await bench.turns()
    bench.state.remove_pod(a.uid)  # seen before the answer: the pod is tried, and its room was taken meanwhile
    assert not bench.execution.holds(PREEMPTOR.uid)
    await bench.begin(b)
    await bench.turns()
    first.set()
    await bench.turns()
    assert bench.execution.holds(PREEMPTOR.uid), "while the second one's victim is asked to go"
    second.set()
    await bench.end()
    assert not bench.execution.holds(PREEMPTOR.uid)
    assert [name for verb, name in bench.port.calls if verb == "delete"] == ["a", "b"]


async def test_a_victim_that_went_meanwhile_is_not_asked_again() -> None:
    bench = Bench(low("a"), low("b"))
    gate = bench.port.fates["condition", "a"] = asyncio.Event()
    await bench.begin()
    await bench.turns()
    bench.state.set_pod(low("b").node("n1").deleting().obj())
    gate.set()
    await bench.end()
    assert [name for verb, name in bench.port.calls if verb in ("delete", "event")] == ["a", "a"]
    assert bench.control.activated == []


@pytest.mark.parametrize("fails", [False, True])
async def test_a_victim_of_two_preemptions_is_asked_once(fails: bool) -> None:
    bench = Bench(low("a"))
    gate = bench.port.fates["condition", "a"] = asyncio.Event()
    if fails:
        bench.port.fates["delete", "a"] = ApiError(500, "InternalError", "etcdserver: request timed out")
    await bench.begin()
    await bench.turns()
    other = make_pod("h2").priority(20).obj()
    await bench.execution.begin(Candidate("n1", tuple(map(PodInfo, bench.victims))), other)
    await bench.turns()
    assert bench.execution.holds(other.uid)
    gate.set()
    await bench.end()
    assert bench.port.calls.count(("condition", "a")) == bench.port.calls.count(("delete", "a")) == 1
    assert bench.port.calls.count(("event", "a")) == (not fails)
    if not fails:
        bench.show("gone")
    assert sorted(bench.control.activated) == (["h", "h2"] if fails else ["h2"]), "failed, or held back"


async def test_a_victim_that_was_turned_back_is_leaving_until_its_binding_has_ended() -> None:
    bench = Bench(low("a"), binding=("a",))
    (victim,) = bench.victims
    await bench.run()
    assert bench.execution.is_leaving(victim)
    await bench.begin()
    await bench.end()
    assert len(bench.control.cancelled) == 1, "it is not turned back twice"
    bench.state.remove_pod(victim.uid)
    assert not bench.execution.is_leaving(victim)


async def test_other_pods_are_not_held_back() -> None:
    bench = Bench(low("a"))
    await bench.begin()
    assert not bench.execution.holds("uid-of-another")
    await bench.end()


async def test_stopping_in_the_middle_holds_nobody_back() -> None:
    bench = Bench(low("a"))
    bench.port.fates["condition", "a"] = asyncio.Event()
    await bench.begin()
    await bench.turns()
    (task,) = bench.control.tasks
    task.cancel()
    await asyncio.wait([task])
    assert not bench.execution.holds(PREEMPTOR.uid)


async def test_a_deleted_victim_counts_as_leaving_before_the_watch_shows_it() -> None:
    bench = Bench(low("a"))
    (victim,) = bench.victims
    assert not bench.execution.is_leaving(victim)
    await bench.run()
    assert bench.execution.is_leaving(victim)
    calls = len(bench.port.calls)
    await bench.begin()
    await bench.end()
    assert len(bench.port.calls) == calls, "nobody is asked twice"


@pytest.mark.parametrize(
    ("pod", "leaving"),
    [
        pytest.param(low("a"), False, id="running"),
        pytest.param(low("a").deleting(), False, id="deleted-by-somebody-else"),
        pytest.param(low("a").condition("DisruptionTarget", reason="PreemptionByScheduler"), False, id="only-marked"),
        pytest.param(
            low("a").deleting().condition("DisruptionTarget", reason="EvictionByEvictionAPI"), False, id="evicted"
        ),
        pytest.param(
            low("a").deleting().condition("DisruptionTarget", "False", reason="PreemptionByScheduler"),
            False,
            id="condition-is-false",
        ),
        pytest.param(
            low("a").deleting().condition("DisruptionTarget", reason="PreemptionByScheduler"), True, id="preempted"
        ),
    ],
)
def test_who_is_leaving_because_of_preemption(pod: PodBuilder, leaving: bool) -> None:
    assert Bench().execution.is_leaving(pod.obj()) is leaving


# -- nominations of others


async def test_lower_nominations_on_the_node_are_cleared() -> None:
    bench = Bench(
        low("a"),
        nominated=(
            make_pod("lower").priority(5).nominated("n1"),
            make_pod("not-shown-yet").priority(1),
            make_pod("equal").priority(10).nominated("n1"),
            make_pod("higher").priority(11).nominated("n1"),
        ),
    )
    calls = await bench.run()
    assert [pod for verb, pod in calls if verb == "clear"] == ["lower", "not-shown-yet"]
    assert bench.control.nominations == [("lower", ""), ("not-shown-yet", "")]


@pytest.mark.parametrize(
    ("error", "activated"),
    [
        pytest.param(ApiError(404, "NotFound", 'pods "lower" not found'), [], id="gone"),
        pytest.param(ApiError(500, "InternalError", "boom"), ["h"], id="refused"),
        pytest.param(TransportError("connection reset"), ["h"], id="no-answer"),
    ],
)
async def test_a_nomination_that_cannot_be_cleared_stops_no_preemption(error: Exception, activated: list[str]) -> None:
    bench = Bench(low("a"), nominated=(make_pod("lower").priority(5).nominated("n1"),))
    bench.port.fates["clear", "lower"] = error
    assert ("delete", "a") in await bench.run()
    assert bench.control.activated == activated


# -- within the cycle


async def test_within_the_cycle_everything_is_done_when_begin_returns() -> None:
    bench = Bench(
        low("a"), low("b").deleting(), beside=False, nominated=(make_pod("lower").priority(5).nominated("n1"),)
    )
    assert await bench.begin() is None
    assert bench.control.tasks == []
    assert bench.port.calls == [("condition", "a"), ("delete", "a"), ("event", "a"), ("clear", "lower")]
    assert not bench.execution.holds(PREEMPTOR.uid)


async def test_within_the_cycle_a_failure_ends_the_attempt() -> None:
    bench = Bench(low("a"), beside=False)
    bench.port.fates["delete", "a"] = ApiError(500, "InternalError", "boom")
    status = await bench.begin()
    assert status is not None and status.is_error and status.message == "boom"
