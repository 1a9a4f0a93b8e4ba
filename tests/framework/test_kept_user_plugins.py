"""What is kept of plugins that users write: whatever they read, answer and raise, it says what asking again would."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.api.core import Pod
from kubesched.app.plugin_loading import merged
from kubesched.clock import Chance
from kubesched.framework import Plugin, Status
from kubesched.framework.plugin import Reads, Verdicts
from kubesched.framework.runtime.calling import PluginFailure
from kubesched.framework.runtime.kept_crowd import KeptCrowd
from kubesched.framework.runtime.runtime import Runtime
from kubesched.plugins.registry import IN_TREE
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod
from tests.harness import Harness


class World:
    """Nodes n0, n1, ... under two runtimes, of which one keeps what it finds out. `fills` are pods as large as a
    node."""

    def __init__(self, *plugins: type[Plugin], node_count: int, settings: dict[str, Any] | None = None) -> None:
        self.harness = Harness(*plugins, settings=settings, echo=False)
        self.state = self.harness.state
        self.kept, self.fresh = self.harness.runtimes["default-scheduler"], runtime_of(self.harness, *plugins)
        self._count = 0
        for number in range(node_count):
            self.set_node(f"n{number}")

    def set_node(self, name: str, **labels: str) -> None:
        node = make_node(name).capacity(cpu=8, memory="16Gi", pods=50)
        for key, value in labels.items():
            node.label(key, value)
        self.state.set_node(node.obj())

    def pod(self, cpu: str = "1", **labels: str) -> Pod:
        self._count += 1
        pod = make_pod(f"p{self._count}").uid(f"p{self._count}").cpu(cpu)
        for key, value in labels.items():
            pod.label(key, value)
        made: Pod = pod.obj()
        return made

    def place(self, node_name: str, cpu: str = "1") -> str:
        pod = PodInfo(self.pod(cpu))
        self.state.assume(pod, node_name)
        return pod.uid

    def totals(self, runtime: Runtime) -> dict[str, int] | str:
        """Of the nodes that fit; or the failure."""
        try:
            state, evaluation = runtime.begin(PodInfo(self.pod()))
            fits = runtime.find_fits(state, evaluation)
            totals = runtime.totals(state, fits).tolist() if fits.count else []
            if totals:
                highest = [row for row, total in zip(fits.rows, totals, strict=True) if total == max(totals)]
                assert sorted(map(int, runtime.best(state, fits))) == highest
            return {self.state.nodes.infos[row].name: total for row, total in zip(fits.rows, totals, strict=True)}
        except PluginFailure as failure:
            return failure.status.message

    def hold(self) -> dict[str, int] | str:
        found = self.totals(self.kept)
        assert found == self.totals(self.fresh)
        return found


def runtime_of(harness: Harness, *plugins: type[Plugin], keep: bool = False) -> Runtime:
    registry = merged(IN_TREE, {plugin.name: plugin for plugin in plugins})
    return harness.make_runtimes(registry, Chance(0), keep=keep)["default-scheduler"]


def weighing(plugin: type[Plugin], weight: int) -> dict[str, Any]:
    return {"profiles": [{"plugins": {"score": {"enabled": [{"name": plugin.name, "weight": weight}]}}}]}


class Signing(Plugin):
    def sign(self, pod: Pod) -> Any:
        return ""


class Named(Signing):
    """Looks at nothing but the names of nodes, and says so."""

    name = "Named"
    filter_reads = score_reads = Reads()

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Verdicts:
        rejected = np.array([node.name.endswith("1") for node in nodes])
        return Verdicts.where(rejected, Status.unschedulable("not here"))

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([int(node.name[1:]) for node in nodes])


def test_another_node_in_a_row_is_another_node_to_everybody() -> None:
    world = World(Named, node_count=4)
    world.hold()
    world.state.remove_node("n0")
    world.hold()
    world.set_node("n11")
    world.set_node("n12")
    found = world.hold()
    assert isinstance(found, dict)
    assert set(found) == {"n2", "n3", "n12"}


class Counting(Signing):
    """Scores by the names of all nodes that fit."""

    name = "Counting"
    score_reads = Reads(row=aspects.REQUESTED, feasible=True)

    def pre_score(self, state: Any, pod: Pod, nodes: NodeSet) -> None:
        state.write("sum", sum(int(node.name[1:]) for node in nodes))

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.full(len(nodes), state.read("sum", int))

    def rate(self, state: Any, pod: Pod) -> Callable[[NodeInfo], int]:
        total: int = state.read("sum", int)
        return lambda node: total


def test_other_nodes_fit_when_a_row_stands_for_another_that_fits_as_well() -> None:
    world = World(Counting, node_count=4)
    world.hold()
    world.state.remove_node("n3")
    world.set_node("n30")
    world.hold()


class Turning(Signing):
    """Skips as long as there are no pods."""

    name = "Turning"
    score_reads = Reads(table=aspects.PODS)

    def pre_score(self, state: Any, pod: Pod, nodes: NodeSet) -> Status | None:
        return None if any(node.pods for node in nodes.table.infos) else Status.skip()

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([40 if node.pods else 0 for node in nodes])


def test_a_skip_of_an_earlier_attempt_is_no_skip_of_this_one() -> None:
    """A nominated pod leaves fewer nodes than the kept verdicts say, so that all scores are asked for anew."""
    world = World(Turning, node_count=3)
    before = world.hold()
    world.place("n1")
    guest = make_pod("guest").uid("guest").cpu("8").priority(10).obj()
    world.state.nominator.nominate(PodInfo(guest), "n2")
    after = world.hold()
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert set(after) == {"n0", "n1"}
    assert after["n1"] > before["n1"]


class OnAndOff(Signing):
    """Has something to say as long as some node is labelled: at PreFilter as at PreScore."""

    name = "OnAndOff"
    filter_reads = score_reads = Reads(table=aspects.LABELS)

    def pre_filter(self, state: Any, pod: Pod, nodes: NodeSet) -> Status | None:
        return None if any("on" in node.labels for node in nodes) else Status.skip()

    def pre_score(self, state: Any, pod: Pod, nodes: NodeSet) -> Status | None:
        return self.pre_filter(state, pod, nodes)

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Verdicts:
        return Verdicts.where(np.array([node.name == "n18" for node in nodes]), Status.unschedulable("not here"))

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.full(len(nodes), 30)


@pytest.mark.parametrize("gone", [("n19",), ("n19", "n18")])
def test_what_was_said_of_nodes_that_are_gone_is_not_said_of_those_that_come(gone: tuple[str, ...]) -> None:
    """A plugin that skips is not asked about the new nodes, whose rows are those of the old ones."""
    world = World(OnAndOff, node_count=20)
    world.set_node("n1", on="")
    assert len(world.hold()) == 19
    for name in gone:
        world.state.remove_node(name)
    world.hold()
    world.set_node("n1")
    world.hold()
    for number in range(len(gone)):
        world.set_node(f"n{30 + number}")
    assert len(world.hold()) == 20


class Fractions(Signing):
    name = "Fractions"
    score_reads = Reads(row=aspects.REQUESTED)

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([self.points(node) for node in nodes])

    def rate(self, state: Any, pod: Pod) -> Callable[[NodeInfo], Any]:
        return self.points

    def points(self, node: NodeInfo) -> Any:
        return 10 / 3 if node.pods else 0


def test_what_is_behind_the_point_does_not_add_up() -> None:
    world = World(Fractions, node_count=3, settings=weighing(Fractions, 5))
    for _ in range(5):
        world.hold()
        world.place("n1")


ODD_POINTS = {
    "a text": "many",
    "nothing": None,
    "a status": Status.error("broken"),
    "a list": [1],
    "too much": 2**80,
    "NaN": float("nan"),
}


@pytest.mark.parametrize("points", ODD_POINTS.values(), ids=ODD_POINTS)
def test_a_rate_that_is_no_number_fails_the_attempt(points: Any) -> None:
    class Odd(Fractions):
        def points(self, node: NodeInfo) -> Any:
            return points if node.pods else 1

    world = World(Odd, node_count=20)
    world.hold()
    world.hold()
    world.place("n1")
    found = world.totals(world.kept)
    assert isinstance(found, str)
    assert found.startswith('running Score plugins: plugin "Fractions" failed with: ')


@pytest.mark.parametrize("points", [150, -1, 2**62, 2**63 - 1, -(2**63)], ids=str)
def test_a_score_out_of_range_matters_when_its_node_fits(points: int) -> None:
    class Excessive(Fractions):
        def points(self, node: NodeInfo) -> int:
            return points if node.name == "n1" else 5

    world = World(Excessive, node_count=20)
    filling = world.place("n1", cpu="8")
    assert isinstance(world.hold(), dict)
    for name in ("n2", "n3", "n2"):
        world.place(name)
        found = world.hold()
        assert isinstance(found, dict) and "n1" not in found
    world.state.forget(filling)
    found = world.hold()
    assert isinstance(found, str)
    assert f"invalid score {points}" in found


class InBytes(Signing):
    name = "InBytes"
    score_reads = Reads(row=aspects.REQUESTED)
    highest = 100

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([self.highest - 10 * len(node.pods) for node in nodes], dtype=np.uint8)


class TooHighInBytes(InBytes):
    name = "TooHighInBytes"
    highest = 130


def test_scores_in_bytes_are_weighed_as_any() -> None:
    world = World(InBytes, node_count=40, settings=weighing(InBytes, 50))
    for number in range(40):
        assert isinstance(world.hold(), dict)
        world.place(f"n{number}")
        if number % 10 == 0:
            world.place("n0")


def test_scores_in_bytes_must_be_in_range() -> None:
    world = World(TooHighInBytes, node_count=3)
    assert "returns an invalid score 130" in str(world.hold())
    for number in range(3):
        for _ in range(3):
            world.place(f"n{number}")
    assert isinstance(world.hold(), dict)


class InFewWords(Signing):
    """Rejects each node in words of its own, by numbers that a byte holds."""

    name = "InFewWords"
    filter_reads = Reads(row=aspects.REQUESTED)

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Verdicts | None:
        statuses = [Status.unschedulable(f"{self.name}: {node.name}") for node in nodes]
        rejects = np.array([self.rejects(node) for node in nodes])
        return Verdicts(np.arange(1, len(nodes) + 1, dtype=np.uint8) * rejects, [None, *statuses])

    def rejects(self, node: NodeInfo) -> bool:
        return int(node.name[1:]) % 2 == 0


class InOtherWords(InFewWords):
    name = "InOtherWords"

    def rejects(self, node: NodeInfo) -> bool:
        return int(node.name[1:]) % 4 == 1


def test_verdicts_may_be_numbers_of_any_kind() -> None:
    world = World(InFewWords, InOtherWords, node_count=200)
    for name in ("n0", "n1", "n0"):
        said: list[dict[str, Any]] = []
        for runtime in (world.kept, world.fresh):
            state, evaluation = runtime.begin(PodInfo(world.pod()))
            assert runtime.find_fits(state, evaluation).count == 50
            kept = evaluation.verdicts
            codes = kept.first_rejections(200).tolist()
            said.append({f"n{row}": kept.statuses[code] for row, code in enumerate(codes) if code})
        nodes = world.state.nodes.all_nodes()
        verdicts = world.fresh.fresh.evaluate(state, nodes)
        by_name = {node.name: verdicts.statuses[why] for node, why in zip(nodes, verdicts.why, strict=True) if why}
        assert said[0] == said[1] == by_name
        assert {name: status.message for name, status in said[0].items()} == {
            f"n{number}": f"{'InOtherWords' if number % 2 else 'InFewWords'}: n{number}"
            for number in range(200)
            if number % 4 != 3
        }
        world.place(name)


class Prepared(Signing):
    """PreFilter says what all scores start from."""

    name = "Prepared"
    filter_reads = Reads(table=aspects.LABELS)
    score_reads = Reads(row=aspects.REQUESTED, table=aspects.LABELS)

    def pre_filter(self, state: Any, pod: Pod, nodes: NodeSet) -> None:
        state.write("base", sum("more" in node.labels for node in nodes) * 10)

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> None:
        return None

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([state.read("base", int) + len(node.pods) for node in nodes])

    def rate(self, state: Any, pod: Pod) -> Callable[[NodeInfo], int]:
        base: int = state.read("base", int)
        return lambda node: base + len(node.pods)


def test_a_rate_is_asked_for_again_after_pre_filter() -> None:
    world = World(Prepared, node_count=20)
    world.hold()
    world.place("n1")
    world.hold()
    world.set_node("n5", more="")
    world.hold()
    world.place("n2")
    world.hold()


NORMALIZED: dict[str, Callable[[int], Any]] = {
    "a list": lambda count: [50] * count,
    "fractions": lambda count: np.full(count, 50.7),
    "one number": lambda count: 50,
    "too few": lambda count: np.full(1, 50),
    "nothing": lambda count: None,
    "a status": lambda count: Status.error("broken"),
    "too much": lambda count: [2**80] * count,
    "bytes": lambda count: np.full(count, 50, dtype=np.uint8),
    "bytes out of range": lambda count: np.full(count, 101, dtype=np.uint8),
    "too few bytes": lambda count: np.full(1, 50, dtype=np.uint8),
}


@pytest.mark.parametrize("answer", NORMALIZED.values(), ids=NORMALIZED)
def test_normalized_scores_are_taken_alike_kept_and_from_scratch(answer: Callable[[int], Any]) -> None:
    class Odd(Fractions):
        def score_scale(self, state: Any, pod: Pod, raw: Any) -> Any:
            return raw  # as good a scale as any

        def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: Any) -> Any:
            return answer(len(raw))

    world = World(Odd, node_count=5)
    kept = world.totals(world.kept)
    try:
        state, _ = world.fresh.begin(PodInfo(world.pod()))
        parts = world.fresh.scoring.by_plugin(state, np.arange(5))
        scratch: Any = np.sum([part.normalized * part.weight for part in parts], axis=0).tolist()
    except PluginFailure as failure:
        scratch = failure.status.message
    assert (list(kept.values()) if isinstance(kept, dict) else kept) == scratch


class NowAndThenInBytes(Fractions):
    """The pods of each node, scaled. The answer is in bytes under odd scales."""

    name = "NowAndThenInBytes"

    def points(self, node: NodeInfo) -> Any:
        return len(node.pods)

    def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
        return int(raw.max()) or 1

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
        points = raw * 100 // scale
        return points.astype(np.uint8) if scale % 2 else points


@pytest.mark.parametrize("first", ["bytes", "numbers"])
@pytest.mark.parametrize("weight", [1, 3, 1000], ids=str)
def test_normalized_scores_may_be_bytes_now_and_numbers_then(weight: int, first: str) -> None:
    world = World(NowAndThenInBytes, node_count=40, settings=weighing(NowAndThenInBytes, weight))
    placed = [world.place("n7") for _ in range(8)]  # it fits no more, and so is out of range
    if first == "numbers":
        for _ in range(2):
            world.place("n0")
    for name in ("n1", "n2", "n1", "n3", "n1", "n4", "n5", "n1", "n2", "n1"):
        found = world.hold()
        assert isinstance(found, dict) and "n7" not in found
        world.place(name)
    for uid in placed:
        world.state.forget(uid)
        assert isinstance(world.hold(), dict)


class Scattered(Signing):
    """Scores every fifth node by its pods, and the others alike. PreScore counts the nodes that fit."""

    name = "Scattered"
    score_reads = Reads(row=aspects.REQUESTED, feasible=True)

    def pre_score(self, state: Any, pod: Pod, nodes: NodeSet) -> None:
        assert len(nodes) == len(list(nodes)) == len(nodes.rows())

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([0 if int(node.name[1:]) % 5 else len(node.pods) for node in nodes])

    def score_scale(self, state: Any, pod: Pod, raw: Any) -> None:
        return None

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: None) -> Any:
        return 100 - raw * 10


def test_of_many_rows_that_changed_some_score_as_before() -> None:
    world = World(Scattered, node_count=200)
    world.place("n3", cpu="8")
    for start in (40, 90, 140):
        world.hold()
        for number in range(start, start + 40):
            world.place(f"n{number}")
    world.hold()
    for name in ("n11", "n12"):  # another node in their rows, and rows that are new
        world.state.remove_node(name)
        world.hold()
        world.set_node(name)
        world.hold()


class InPlace(Fractions):
    """Brings scores into range where they are."""

    name = "InPlace"

    def points(self, node: NodeInfo) -> Any:
        return len(node.pods) * 7

    def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
        return int(raw.max()) or 1

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
        raw *= 100
        raw //= scale
        return raw


def test_to_normalize_in_place_is_nobodys_harm() -> None:
    world = World(InPlace, node_count=6)
    for node in ("n1", "n2", "n2", "n3", "n2", "n2"):
        world.hold()
        world.place(node)


def test_the_scores_that_a_scale_is_made_of_are_not_to_be_changed() -> None:
    class Odd(InPlace):
        def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
            raw[0] = 7
            return 7

    found = World(Odd, node_count=6).hold()
    assert isinstance(found, str)
    assert "read-only" in found


class Ranks:
    """A scale that keeps the scores that it was made of."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranks) and np.array_equal(self.raw, other.raw)

    __hash__ = None  # type: ignore[assignment]


def test_a_scale_may_keep_the_scores_that_it_was_made_of() -> None:
    class ByRank(Fractions):
        def points(self, node: NodeInfo) -> Any:
            return len(node.pods)

        def score_scale(self, state: Any, pod: Pod, raw: Any) -> Any:
            return Ranks(raw)

        def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: Any) -> Any:
            return raw * 100 // max(int(scale.raw.max()), 1)

    world = World(ByRank, node_count=3)
    for name in ("n1", "n0", "n0", "n0"):
        world.hold()
        world.place(name)
    world.hold()


@pytest.mark.parametrize("first", ["n0", "n7"])
def test_scores_that_were_all_the_same_are_so_no_more_when_one_changes(first: str) -> None:
    """Where all are the same it does not matter whose scores the scale is made of."""

    class Sized(Fractions):
        score_reads = Reads(row=aspects.LABELS)

        def points(self, node: NodeInfo) -> Any:
            return 30 if "big" in node.labels else 5

        def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
            return int(raw.max())

        def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
            return raw * 100 // scale

    world = World(Sized, node_count=40)
    world.hold()
    world.place("n20", cpu="8")  # so that not all fit
    world.hold()
    for name, labels in ((first, {"big": ""}), ("n39", {"big": ""}), (first, {}), ("n39", {})):
        world.set_node(name, **labels)
        world.hold()


@pytest.mark.parametrize("method", ["score_scale", "normalize_rows"])
def test_to_normalize_is_no_way_to_end_the_scheduler(method: str) -> None:
    class Odd(Fractions):
        def score_scale(self, state: Any, pod: Pod, raw: Any) -> Any:
            self.leave("score_scale")

        def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: Any) -> Any:
            self.leave("normalize_rows")
            return raw

        def leave(self, here: str) -> None:
            if here == method:
                raise SystemExit(3)

    found = World(Odd, node_count=5).hold()
    assert found == 'running Normalize on Score plugins: plugin "Fractions" failed with: SystemExit: 3'


class Wordy(Plugin):
    """Never says the same twice."""

    name = "Wordy"

    def filter(self, state: Any, pod: Pod, node: NodeInfo) -> Status:
        self.said = getattr(self, "said", 0) + 1
        return Status.unschedulable(f"load is {self.said}")


class WordyRows(Signing):
    name = "WordyRows"
    filter_reads = Reads(row=aspects.REQUESTED)

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Verdicts:
        self.said = getattr(self, "said", 0) + len(nodes)
        texts = [Status.unschedulable(f"load is {self.said - number}") for number in range(len(nodes))]
        return Verdicts(np.arange(1, len(nodes) + 1, dtype=np.int32), [None, *texts])


@pytest.mark.parametrize("plugin", [Wordy, WordyRows])
def test_what_nobody_says_any_more_is_forgotten(plugin: type[Plugin], monkeypatch: pytest.MonkeyPatch) -> None:
    said_of_crowds: list[int] = []
    follow = KeptCrowd.follow

    def noted(crowd: KeptCrowd, *args: Any) -> Any:
        rows, said = follow(crowd, *args)
        said_of_crowds.append(len(said.statuses))
        return rows, said

    monkeypatch.setattr(KeptCrowd, "follow", noted)
    world = World(plugin, node_count=20)
    for node in range(20):
        guest = make_pod("guest").uid(f"guest{node}").cpu("1").priority(10).obj()
        world.state.nominator.nominate(PodInfo(guest), f"n{node}")
    for _ in range(200):
        state, evaluation = world.kept.begin(PodInfo(world.pod()))
        fits = world.kept.find_fits(state, evaluation)
        assert len(set(fits.diagnosis.node_statuses.by_node().values())) == 20
        for node in range(10):
            world.state.forget(world.place(f"n{node}"))
    assert len(evaluation.verdicts.statuses) < 1400
    assert max(said_of_crowds, default=0) < 1400


class Failing(Signing):
    """Raises when it is told to."""

    name = "Failing"
    filter_reads = Reads(row=aspects.REQUESTED)
    fails = False

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> None:
        if self.fails:
            raise RuntimeError("boom")


def test_what_fails_beside_the_nominated_node_spoils_nothing() -> None:
    """All others are asked about only when an extender refuses that one; here the table has grown meanwhile."""
    world = World(Failing, node_count=64)
    world.hold()
    world.set_node("n64")
    pod = PodInfo(world.pod())
    world.state.nominator.nominate(pod, "n3")
    state, evaluation = world.kept.begin(pod)
    fits = world.kept.find_fits(state, evaluation)
    assert fits.otherwise is not None
    failing = world.harness.plugin("Failing")
    failing.fails = True
    with pytest.raises(PluginFailure):
        fits.otherwise()
    failing.fails = False
    world.state.nominator.clear(pod.uid)
    found = world.hold()
    assert isinstance(found, dict)
    assert len(found) == 65


def test_pods_are_signed_anew_under_another_profile_of_the_name() -> None:
    """As after a reload: the pod has waited, and nothing that signs depend on has changed."""
    world = World(Named, node_count=3)
    pod = PodInfo(world.pod())
    for plugins in ((Named,), (Named, Failing), ()):
        harness = Harness(*plugins, echo=False)
        harness.state = world.state
        runtime = runtime_of(harness, *plugins, keep=True)
        state, evaluation = runtime.begin(pod)
        assert runtime.find_fits(state, evaluation).count == (2 if plugins else 3)


async def test_a_version_of_signs_that_is_not_to_be_had_fails_the_attempt() -> None:
    class Odd(Named):
        name = "Odd"

        def sign_version(self) -> Any:
            raise SystemExit(3)

    harness = Harness(Odd)
    harness.apply(make_node("n0").capacity(cpu=8, memory="16Gi", pods=50).obj(), make_pod("p").cpu("1").obj())
    await harness.settle()
    assert [event.note for event in harness.port.events] == ['signing the pod for plugin "Odd": SystemExit: 3']
