"""Nodes with nominated pods are judged anew where something changed, and come out as if all were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from kubesched.api.core import Pod
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.plugin import Plugin, Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.state import aspects
from kubesched.state.hypothetical_table import HypotheticalTable
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_node, make_pod
from tests.harness import ForColumns, Harness

NODES = ("n0", "n1", "n2", "n3")


class Watching(Plugin):
    """Lets every node pass; notes the nodes that it is asked about with their nominated pods."""

    name = "Watching"
    filter_reads: ClassVar[Reads | None] = Reads(row=aspects.PODS)
    asked: ClassVar[set[str]] = set()

    def sign(self, pod: Pod) -> str:
        return ""

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        if isinstance(nodes.table, HypotheticalTable):
            self.asked.update(nodes.table.name_of(row) for row in nodes.rows().tolist())
        return None


class LookingAround(Watching):
    name = "LookingAround"
    filter_reads = Reads(table=aspects.PODS)


class NotSaying(Watching):
    name = "NotSaying"
    filter_reads = None


class World:
    def __init__(self, *plugins: type[Plugin]) -> None:
        self.harness = Harness(*plugins)
        self.state = self.harness.state
        self.runtime = self.harness.runtimes["default-scheduler"]
        for name in NODES:
            self.state.set_node(make_node(name).capacity(cpu=4, memory="8Gi", pods=5).obj())

    def ask(self, pod: Pod) -> dict[str, Status | None]:
        """Per node why it does not take the pod."""
        Watching.asked.clear()
        state, evaluation = self.runtime.begin(PodInfo(pod))
        fits = self.runtime.find_fits(state, evaluation)
        fits.complete()
        fitting = {self.state.nodes.name_of(row) for row in fits.rows.tolist()}
        statuses = fits.diagnosis.node_statuses
        return {info.name: None if info.name in fitting else statuses.get(info.name) for info in self.state.nodes.infos}

    def nominate(self, pod: PodBuilder, node_name: str) -> None:
        self.state.nominator.nominate(PodInfo(pod.obj()), node_name)


def wanting(name: str, cpu: Any = 2) -> PodBuilder:
    return make_pod(name).cpu(cpu)


Change = Callable[[World], object]


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        pytest.param(lambda w: None, set(), id="nothing"),
        pytest.param(lambda w: w.state.set_pod(wanting("p", 1).node("n1").obj()), {"n1"}, id="a-pod-comes"),
        pytest.param(lambda w: w.state.set_pod(wanting("p", 1).node("n3").obj()), set(), id="a-pod-comes-elsewhere"),
        pytest.param(lambda w: w.nominate(wanting("q", 1), "n1"), {"n1"}, id="another-is-nominated"),
        pytest.param(lambda w: w.nominate(wanting("q", 1), "n3"), {"n3"}, id="another-is-nominated-elsewhere"),
        pytest.param(
            lambda w: w.nominate(wanting("q", 1).priority(-1), "n1"), {"n1"}, id="one-that-is-not-heeded-is-nominated"
        ),
        pytest.param(lambda w: w.state.nominator.clear(wanting("q1").obj().uid), set(), id="a-nomination-ends"),
        pytest.param(lambda w: w.nominate(wanting("q1"), "n2"), {"n2"}, id="a-nomination-moves"),
    ],
)
def test_what_changed_is_judged_again(change: Change, asked: set[str]) -> None:
    world = World(Watching)
    for name in NODES[:3]:
        world.nominate(wanting(f"q{name[1:]}", 3), name)
    world.ask(wanting("h1").obj())
    assert Watching.asked == set(NODES[:3])
    change(world)
    said = world.ask(wanting("h2").obj())
    assert Watching.asked == asked
    assert said == _asked_anew(world, wanting("h2").obj())


@pytest.mark.parametrize("plugin", [LookingAround, NotSaying])
def test_who_looks_further_is_asked_about_all(plugin: type[Plugin]) -> None:
    world = World(plugin)
    world.nominate(wanting("q"), "n0")
    for _ in range(2):
        world.ask(wanting("h").obj())
        assert Watching.asked == {"n0"}


def test_pods_of_another_priority_leave_room_for_others() -> None:
    world = World()
    world.nominate(wanting("q", 3).priority(5), "n0")
    for priority, fits in ((0, False), (10, True), (5, False), (0, False)):
        said = world.ask(wanting("h").priority(priority).obj())
        assert (said["n0"] is None) is fits


class Failing(Plugin):
    """An error about every node with two pods on it."""

    name = "Failing"
    filter_reads = Reads(row=aspects.PODS)

    def sign(self, pod: Pod) -> str:
        return ""

    def filter_rows(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        return Verdicts(np.array([len(node.pods) == 2 for node in nodes.infos()], dtype=np.int32), [None, _BOOM])

    def judge(self, state: CycleState, pod: Pod) -> Callable[[NodeInfo], Status | None]:
        return lambda node: _BOOM if len(node.pods) == 2 else None


_BOOM = Status.error("boom")


@pytest.mark.parametrize("plugins", [pytest.param((), id="node-by-node"), pytest.param((ForColumns,), id="columns")])
def test_errors_about_nodes_that_are_rejected_before_do_not_count(plugins: tuple[type[Plugin], ...]) -> None:
    world = World(Failing, *plugins)
    for name in NODES[:3]:
        world.state.set_pod(wanting(f"p{name}", 2).node(name).obj())
        world.nominate(wanting(f"q{name}", 2), name)  # no cpu is left beside them
    said = world.ask(wanting("h", 1).obj())
    assert {name: status and status.message for name, status in said.items()} == {
        "n0": "Insufficient cpu", "n1": "Insufficient cpu", "n2": "Insufficient cpu", "n3": None
    }  # fmt: skip


shapes = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from([1, 2]),
        "priority": st.sampled_from([0, 5]),
        "port": st.sampled_from([None, None, 80]),
        "apart": st.sampled_from([False] * 9 + [True]),
    }
)
names, node_names = st.sampled_from(["a", "b", "c", "d"]), st.sampled_from(["n0", "n3", "n9"])
steps = st.one_of(
    st.tuples(st.just("nominate"), names, node_names, shapes),
    st.tuples(st.just("nomination ends"), names),
    st.tuples(st.just("pod"), names, node_names, shapes),
    st.tuples(st.just("pod goes"), names),
    st.tuples(st.just("node"), node_names, st.sampled_from([1, 4, 8])),
    st.tuples(st.just("node goes"), node_names),
)
scripts = st.tuples(
    st.tuples(shapes, shapes), st.lists(st.tuples(st.lists(steps, max_size=2), st.integers(0, 1)), max_size=16)
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(script=scripts)
@example(
    script=(
        ({"cpu": 2, "priority": 0, "port": None, "apart": False},) * 2,
        [([], 0), ([("node", "n0", 1)], 1), ([("nomination ends", "a")], 0)],
    )
)
def test_kept_and_fresh_verdicts_are_the_same(script: tuple[Any, list[tuple[list[Any], int]]]) -> None:
    """And those of nodes asked about one by one, and by columns."""
    worlds = World(), World(ForColumns)
    for world in worlds:
        for name in ("a", "b"):
            world.nominate(wanting(name, 3), NODES["ab".index(name)])
    kinds, attempts = script
    for number, (happens, kind) in enumerate(attempts):
        pod = _shaped("a" if number % 5 == 4 else f"h{number}", kinds[kind]).obj()
        said = []
        for world in worlds:
            for step in happens:
                _happens(world, *step)
            said += [world.ask(pod), _asked_anew(world, pod)]
        assert all(each == said[0] for each in said)


def _asked_anew(world: World, pod: Pod) -> dict[str, Status | None]:
    world.runtime.kept.enabled = False
    try:
        return world.ask(pod)
    finally:
        world.runtime.kept.enabled = True


def _happens(world: World, what: str, name: str, *rest: Any) -> None:
    state, uid = world.state, make_pod(name).obj().uid
    match what:
        case "nominate":
            world.nominate(_shaped(name, rest[1]), rest[0])
        case "nomination ends":
            state.nominator.clear(uid)
        case "pod":
            state.set_pod(_shaped(name, rest[1]).node(rest[0]).obj())
        case "pod goes":
            state.remove_pod(uid)
        case "node":
            state.set_node(make_node(name).capacity(cpu=rest[0], memory="8Gi", pods=5).obj())
        case "node goes":
            state.remove_node(name)


def _shaped(name: str, shape: dict[str, Any]) -> PodBuilder:
    pod = wanting(name, shape["cpu"]).priority(shape["priority"])
    if shape["port"] is not None:
        pod.host_port(shape["port"])
    if shape["apart"]:
        pod.pod_anti_affinity("kubernetes.io/hostname", {"app": "x"})
    return pod
