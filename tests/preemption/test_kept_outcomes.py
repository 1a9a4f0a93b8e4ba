"""What earlier searches found out is used again, exactly as long as it would come out the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesched.api.core import Pod
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Reads, Verdicts
from kubesched.framework.results import Diagnosis
from kubesched.framework.status import Status
from kubesched.preemption import Candidate, Finding, Preemption, Rules
from kubesched.preemption.search import NO_VICTIMS
from kubesched.state import aspects
from kubesched.state.hypothetical_table import HypotheticalTable
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo
from tests.build import NodeBuilder, PodBuilder, make_node, make_pdb, make_pod, make_replica_set, make_service
from tests.harness import ForColumns, Harness

NODES = ("n0", "n1", "n2", "n3")


class Watching(Plugin):
    """Lets every node pass; notes the nodes that dry runs ask about."""

    name = "Watching"
    filter_reads: ClassVar[Reads | None] = Reads(row=aspects.PODS, objects=("Service",))
    asked: ClassVar[set[str]] = set()

    def sign(self, pod: Pod) -> str:
        return pod.metadata.labels.get("template", "")

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        if isinstance(nodes.table, HypotheticalTable):
            self.asked.update(nodes.table.name_of(row) for row in nodes.rows().tolist())
        return None


class NotSaying(Watching):
    """The same, without saying what it reads."""

    name = "NotSaying"
    filter_reads = None


class LookingAround(Watching):
    name = "LookingAround"
    filter_reads = Reads(table=aspects.PODS)


class NotSigning(Watching):
    name = "NotSigning"

    def sign(self, pod: Pod) -> None:  # type: ignore[override]
        return None


class OneByOne(Plugin):
    name = "OneByOne"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        Watching.asked.add(node.name)
        return None


class World:
    """Nodes of 4 CPUs, each full of pods; `find` is one search, with what it asked about in `asked`."""

    def __init__(self, *plugins: type[Plugin], keep: bool = True, rules: Rules | None = None) -> None:
        self.harness = Harness(*plugins, keep=keep)
        self.state = self.harness.state
        self.runtime = self.harness.runtimes["default-scheduler"]
        for name in NODES:
            self.state.set_node(node(name).obj())
            self.state.set_pod(low(f"{name}-a", name).obj())
            self.state.set_pod(low(f"{name}-b", name).obj())
            self.state.set_pod(low(f"{name}-c", name).cpu(0).obj())
        self.preemption = self.new_preemption(rules)
        self.asked: set[str] = set()

    def new_preemption(self, rules: Rules | None = None) -> Preemption:
        return Preemption(self.runtime.handle, "DefaultPreemption", rules=rules)

    def attempt(self, pod: Pod) -> tuple[CycleState, Diagnosis] | None:
        """None when the pod fits."""
        state, evaluation = self.runtime.begin(PodInfo(pod))
        fits = self.runtime.find_fits(state, evaluation)
        return None if fits.count else (state, fits.diagnosis)

    def find(self, pod: Pod) -> Finding:
        attempt = self.attempt(pod)
        assert attempt is not None, "the pod fits"
        Watching.asked.clear()
        finding = self.preemption.find(*attempt, everywhere=True)
        self.asked = set(Watching.asked)
        return finding


def node(name: str) -> NodeBuilder:
    return make_node(name).capacity(cpu=4, memory="32Gi", pods=110)


def low(name: str, on: str) -> PodBuilder:
    return make_pod(name).cpu(2).node(on).started("2026-01-01T00:00:00Z").label("app", "low")


def high(name: str = "h") -> PodBuilder:
    return make_pod(name).cpu(2).priority(10)


def victims(finding: Finding) -> dict[str, list[str]]:
    return {each.node_name: [info.pod.name for info in each.victims] for each in finding.candidates}


def test_the_next_pod_of_a_template_costs_no_dry_run() -> None:
    world = World(Watching)
    first = world.find(high("h1").obj())
    assert world.asked == set(NODES)
    second = world.find(high("h2").obj())
    assert world.asked == set()
    assert second.candidates == first.candidates
    assert second.choice == first.choice


Change = Callable[[World], object]
CHANGES = [
    pytest.param(lambda w: w.state.set_pod(low("new", "n1").cpu(0).obj()), {"n1"}, id="a-pod-comes"),
    pytest.param(lambda w: w.state.remove_pod(low("n1-c", "n1").obj().uid), {"n1"}, id="a-pod-goes"),
    pytest.param(
        lambda w: w.state.set_pod(low("n1-b", "n1").started("2026-01-02T00:00:00Z").obj()), {"n1"}, id="a-pod-started"
    ),
    pytest.param(lambda w: w.state.set_node(node("n1").label("x", "y").obj()), {"n1"}, id="a-node-changes"),
    pytest.param(
        lambda w: w.state.set_node(node("n9").capacity(cpu=1).obj()), set(), id="a-node-that-is-too-small-comes"
    ),
    pytest.param(lambda w: w.state.remove_node("n0"), {"n3"}, id="a-row-stands-for-another-node"),
    pytest.param(
        lambda w: w.state.nominator.nominate(PodInfo(high("q").priority(20).cpu("2500m").obj()), "n1"),
        {"n1"},
        id="a-pod-is-nominated",
    ),
    pytest.param(
        lambda w: w.state.nominator.nominate(PodInfo(high("q").priority(5).obj()), "n1"),
        set(),
        id="one-that-is-not-heeded-is-nominated",
    ),
    pytest.param(
        lambda w: w.state.objects.put("PodDisruptionBudget", make_pdb("b").selector({"app": "low"}).obj()),
        set(NODES),
        id="a-budget-comes",
    ),
    pytest.param(
        lambda w: w.state.objects.put("Service", make_service("s").obj()), set(NODES), id="an-object-that-is-read"
    ),
    pytest.param(
        lambda w: w.state.objects.put("ReplicaSet", make_replica_set("r").obj()), set(), id="an-object-that-is-not-read"
    ),
]


@pytest.mark.parametrize(("change", "asked"), CHANGES)
def test_what_changed_is_tried_again(change: Change, asked: set[str]) -> None:
    world = World(Watching)
    world.find(high("h1").obj())
    change(world)
    finding = world.find(high("h2").obj())
    assert world.asked & set(NODES) == asked
    attempt = world.attempt(high("h2").obj())
    assert attempt is not None
    assert finding.candidates == world.new_preemption().find(*attempt, everywhere=True).candidates


def test_victims_that_would_not_make_room_are_not_looked_at() -> None:
    world = World(Watching)
    stays = low("n1-stays", "n1").cpu(3).priority(10)
    world.state.set_pod(stays.obj())
    assert "n1" not in victims(world.find(high("h1").obj()))
    world.state.remove_pod(low("n1-a", "n1").obj().uid)
    world.state.set_pod(low("n1-b", "n1").started("2026-01-02T00:00:00Z").obj())
    assert "n1" not in victims(world.find(high("h2").obj()))
    assert world.asked == set()
    world.state.set_pod(stays.cpu(1).obj())
    assert "n1" in victims(world.find(high("h3").obj()))
    assert world.asked == {"n1"}


def test_who_has_nobody_left_to_preempt_says_so() -> None:
    world = World(Watching)
    world.state.set_pod(low("n1-stays", "n1").cpu(3).priority(10).obj())
    world.find(high("h1").obj())
    for letter in "abc":
        world.state.remove_pod(low(f"n1-{letter}", "n1").obj().uid)
    rejected = world.find(high("h2").obj()).rejected
    assert rejected is not None
    assert rejected.by_node()["n1"] == NO_VICTIMS


def test_a_newer_version_of_a_victim_is_the_one_to_evict() -> None:
    world = World(Watching)
    world.find(high("h1").obj())
    newer = low("n1-b", "n1").condition("Ready").obj()
    world.state.set_pod(newer)
    candidate = next(each for each in world.find(high("h2").obj()).candidates if each.node_name == "n1")
    assert candidate.victims[0].pod is newer


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(high("h2").cpu(3), id="that-asks-for-more"),
        pytest.param(high("h2").priority(11), id="of-another-priority"),
        pytest.param(high("h2").label("template", "other"), id="that-a-plugin-tells-apart"),
    ],
)
def test_another_kind_of_pod_is_tried_everywhere(other: PodBuilder) -> None:
    world = World(Watching)
    world.find(high("h1").obj())
    world.find(other.obj())
    assert world.asked == set(NODES)
    world.find(high("h3").obj())
    assert world.asked == set(), "and does not displace what is known of the first"


def test_the_kind_of_pod_seen_longest_ago_is_forgotten() -> None:
    world = World(Watching)
    for number in range(9):
        world.find(high(f"h{number}").priority(10 + number).obj())
    world.find(high("again-8").priority(18).obj())
    assert world.asked == set()
    world.find(high("again-0").priority(10).obj())
    assert world.asked == set(NODES)


@pytest.mark.parametrize(
    ("plugin", "options"),
    [
        pytest.param(NotSaying, {}, id="a-plugin-that-does-not-say-what-it-reads"),
        pytest.param(LookingAround, {}, id="a-plugin-that-reads-all-nodes"),
        pytest.param(NotSigning, {}, id="a-plugin-that-does-not-sign-the-pod"),
        pytest.param(OneByOne, {}, id="a-plugin-for-one-node-at-a-time"),
        pytest.param(
            Watching, {"rules": Rules(may_be_victim=lambda _victim, _pod, _node: True)}, id="victims-chosen-by-a-plugin"
        ),
        pytest.param(Watching, {"rules": Rules(importance=lambda info: info.uid)}, id="an-order-of-a-plugin"),
        pytest.param(Watching, {"keep": False}, id="nothing-is-to-be-kept"),
    ],
)
def test_nothing_is_kept_with(plugin: type[Plugin], options: dict[str, Any]) -> None:
    world = World(plugin, **options)
    for number in range(2):
        world.find(high(f"h{number}").obj())
        assert world.asked == set(NODES)


class Moody(Watching):
    """Fails on a node until it is told not to."""

    name = "Moody"
    fails_on: ClassVar[str] = ""

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        super().filter_rows(state, pod, nodes)
        if isinstance(nodes.table, HypotheticalTable) and any(info.name == self.fails_on for info in nodes.infos()):
            raise RuntimeError("not today")
        return None


def test_an_error_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(Moody)
    monkeypatch.setattr(Moody, "fails_on", "n1")
    assert "n1" not in victims(world.find(high("h1").obj()))
    monkeypatch.setattr(Moody, "fails_on", "")
    assert "n1" in victims(world.find(high("h2").obj()))
    assert world.asked == {"n1"}


# -- kept and fresh searches are the same

POD_NAMES = [f"p{number}" for number in range(10)]
shapes = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([0, 1, 2, 3]),
        "priority": st.sampled_from([0, 0, 1, 5, 20]),
        "app": st.sampled_from(["low", "web"]),
        "port": st.sampled_from([None, None, 80]),
        "start": st.sampled_from([None, 1, 2]),
        "going": st.booleans(),
        "apart": st.sampled_from([False, False, False, True]),
    }
)
node_names = st.sampled_from(NODES)
steps = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(POD_NAMES), node_names, shapes),
    st.tuples(st.just("pod goes"), st.sampled_from(POD_NAMES)),
    st.tuples(
        st.just("node"), node_names, st.sampled_from([2, 4, 6]), st.sampled_from(["", "taint", "cordon", "label"])
    ),
    st.tuples(st.just("node goes"), node_names),
    st.tuples(st.just("nominate"), st.sampled_from(["q0", "q1"]), node_names, shapes, st.sampled_from([0, 10, 20])),
    st.tuples(st.just("nomination ends"), st.sampled_from(["q0", "q1"])),
    st.tuples(st.just("budget"), st.sampled_from(["low", "web"]), st.integers(0, 2)),
)
preemptors = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([2, 3]),
        "priority": st.sampled_from([10, 10, 3]),
        "port": st.sampled_from([None, None, 80]),
        "tolerates": st.booleans(),
        "spreads": st.sampled_from([False, False, False, True]),
        "own": st.sampled_from([None, None, None, "n0"]),
    }
)
#: Two kinds of pods that take turns, with what happens before each of their attempts.
scripts = st.tuples(
    st.tuples(preemptors, preemptors),
    st.lists(st.tuples(st.lists(steps, max_size=2), st.integers(0, 1)), min_size=2, max_size=16),
)


@pytest.mark.parametrize("plugins", [pytest.param((), id="node-by-node"), pytest.param((ForColumns,), id="in-step")])
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts)
def test_kept_and_fresh_searches_are_the_same(
    plugins: tuple[type[Plugin], ...], script: tuple[Any, list[tuple[list[Any], int]]]
) -> None:
    world = World(*plugins)
    wanted, attempts = script
    for number, (happens, kind) in enumerate(attempts):
        for step in happens:
            _happens(world, *step)
        attempt = world.attempt(_preemptor(f"h{number % 3}", wanted[kind]))
        if attempt is None:
            continue
        kept = world.preemption.find(*attempt, everywhere=True)
        fresh = world.new_preemption().find(*attempt, everywhere=True)
        assert _told(kept) == _told(fresh)
    world.harness.check()


def _told(finding: Finding) -> tuple[Any, ...]:
    rejected = finding.rejected.by_node() if finding.rejected is not None else {}
    candidates: tuple[Candidate, ...] = finding.candidates  # with victims that are the same objects
    return finding.status, candidates, rejected, finding.choice, finding.nomination


def _happens(world: World, what: str, name: str, *rest: Any) -> None:
    state = world.state
    match what:
        case "pod":
            state.set_pod(_shaped(name, rest[1]).node(rest[0]).obj())
        case "pod goes":
            state.remove_pod(make_pod(name).obj().uid)
        case "node":
            cpu, special = rest
            built = make_node(name).capacity(cpu=cpu, memory="32Gi", pods=4).unschedulable(special == "cordon")
            if special == "taint":
                built.taint("x")
            if special == "label":
                built.label("x", "y")
            state.set_node(built.obj())
        case "node goes":
            state.remove_node(name)
        case "nominate":
            state.nominator.nominate(PodInfo(_shaped(name, rest[1]).priority(rest[2]).obj()), rest[0])
        case "nomination ends":
            state.nominator.clear(make_pod(name).obj().uid)
        case "budget":
            state.objects.put("PodDisruptionBudget", make_pdb(name).selector({"app": name}).allowed(rest[0]).obj())


def _shaped(name: str, shape: dict[str, Any]) -> PodBuilder:
    pod = make_pod(name).priority(shape["priority"]).label("app", shape["app"])
    if shape["cpu"]:
        pod.cpu(shape["cpu"])
    if shape["port"] is not None:
        pod.host_port(shape["port"])
    if shape["start"] is not None:
        pod.started(f"2026-01-01T00:00:0{shape['start']}Z")
    if shape["going"]:
        pod.deleting()
    if shape["apart"]:
        pod.pod_anti_affinity("kubernetes.io/hostname", {"app": "high"})
    return pod


def _preemptor(name: str, want: dict[str, Any]) -> Pod:
    pod = make_pod(name).cpu(want["cpu"]).priority(want["priority"]).label("app", "high")
    if want["port"] is not None:
        pod.host_port(want["port"])
    if want["tolerates"]:
        pod.toleration("x")
    if want["spreads"]:
        pod.spread("topology.kubernetes.io/zone", {"app": "high"})
    if want["own"] is not None:
        pod.nominated(want["own"])
    return pod.obj()
