"""Rules that are asked about many rows in one call: what they answer is looked at like any other answer of a plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.api.core import Pod
from kubesched.framework import Status
from kubesched.framework.plugin import Reads, Verdicts
from kubesched.framework.row_rules import RowJudge, RowRate
from kubesched.state import aspects
from kubesched.state.node_info import NodeInfo
from kubesched.state.node_table import NodeSet
from tests.framework.test_kept_user_plugins import Fractions, Signing, World, weighing


def fail(*_: Any) -> Any:
    raise RuntimeError("no idea")


class Judging(Signing):
    """Takes nodes with fewer than three pods; its rule doubts what `answer` says."""

    name = "Judging"
    filter_reads = Reads(row=aspects.REQUESTED)
    answer: Any = staticmethod(list)

    def filter_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return Verdicts.where(np.array([len(node.pods) > 2 for node in nodes]), Status.unschedulable("full"))

    def judge(self, state: Any, pod: Pod) -> RowJudge:
        plugin = self

        class Rule(RowJudge):
            def __call__(self, node: NodeInfo) -> Status | None:
                return Status.unschedulable("full") if len(node.pods) > 2 else None

            def doubtful(self, rows: Any) -> Any:
                return plugin.answer(rows)

        return Rule()


RIGHT: dict[str, Callable[[Any], Any]] = {
    "all": list,
    "all, twice": lambda rows: list(rows) * 2,
    "all, many times": lambda rows: list(rows) * 99,
}
WRONG: dict[str, Callable[[Any], Any]] = {
    "None": lambda rows: None,
    "a number": lambda rows: 5,
    "texts": lambda rows: ["a"],
    "fractions": lambda rows: [1.5],
    "many fractions": lambda rows: [1.5] * 50,
    "nothings": lambda rows: [None],
    "lists": lambda rows: [[1]],
    "below": lambda rows: [-1],
    "beyond": lambda rows: [10_000] * 50,
    "beyond the nodes": lambda rows: [40],
    "huge": lambda rows: [2**80],
    "others as well": lambda rows: [*rows, 0, 19],
    "a status": lambda rows: Status.unschedulable("full"),
    "an error": fail,
}


@pytest.mark.parametrize("answer", RIGHT.values(), ids=RIGHT)
def test_doubtful_rows_are_judged_one_by_one(answer: Callable[[Any], Any]) -> None:
    world = World(Judging, node_count=20)
    world.harness.plugin("Judging").answer = answer
    world.hold()
    pods = [world.place("n1") for _ in range(3)]
    found = world.hold()
    assert isinstance(found, dict) and "n1" not in found
    world.state.forget(pods[0])
    found = world.hold()
    assert isinstance(found, dict) and "n1" in found


@pytest.mark.parametrize("changed", [3, 20, 45], ids=lambda count: f"{count}-rows")
def test_many_rows_change_between_two_pods(changed: int) -> None:
    class Both(Judging, Fractions):
        name = "Both"

        def points(self, node: NodeInfo) -> int:
            return 10 * len(node.pods)

    world = World(Both, node_count=200)
    world.hold()
    for _ in range(4):  # with the last every one of them is full
        for number in range(changed):
            world.place(f"n{number}", cpu="100m")
        found = world.hold()
    assert isinstance(found, dict) and len(found) == 200 - changed


@pytest.mark.parametrize("answer", WRONG.values(), ids=WRONG)
def test_doubts_that_are_no_rows_fail_the_attempt(answer: Callable[[Any], Any]) -> None:
    world = World(Judging, node_count=20)
    world.hold()
    world.harness.plugin("Judging").answer = answer
    world.place("n1")
    found = world.totals(world.kept)
    assert isinstance(found, str)
    assert found.startswith('running "Judging" filter plugin: ')
    world.harness.plugin("Judging").answer = list
    world.place("n2")
    world.hold()


class Rating(Signing):
    """Scores nodes by their pods; its rule puts down what `put` does."""

    name = "Rating"
    score_reads = Reads(row=aspects.REQUESTED)

    def score_rows(self, state: Any, pod: Pod, nodes: NodeSet) -> Any:
        return np.array([len(node.pods) for node in nodes])

    def put(self, rows: Any, points: Any) -> None:
        infos = self.handle.state.nodes.infos
        for place, row in enumerate(rows):
            points[place] = len(infos[row].pods)

    def rate(self, state: Any, pod: Pod) -> RowRate:
        plugin = self

        class Rule(RowRate):
            def __call__(self, node: NodeInfo) -> int:
                return len(node.pods)

            def rate_rows(self, rows: Any, points: Any) -> None:
                plugin.put(rows, points)

        return Rule()


class Scaled(Rating):
    def score_scale(self, state: Any, pod: Pod, raw: Any) -> int:
        return max(int(raw.max()), 1)

    def normalize_rows(self, state: Any, pod: Pod, raw: Any, scale: int) -> Any:
        return raw * 100 // scale


def put(point: Any, place: int = 0) -> Callable[[Any, Any], None]:
    def rule(rows: Any, points: Any) -> None:
        points[place] = point

    return rule


PUT: dict[str, Callable[[Any, Any], Any]] = {
    "a text": put("a"),
    "nothing": put(None),
    "a fraction": put(1.5),
    "too much": put(2**80),
    "out of place": put(1, 10**6),
    "an error": fail,
}


@pytest.mark.parametrize("rating", [Rating, Scaled], ids=["as it is", "scaled"])
def test_rows_are_rated_together(rating: type[Rating]) -> None:
    world = World(rating, node_count=20)
    world.hold()
    for name in ("n1", "n2", "n1", "n19"):
        world.place(name)
        world.hold()
    for name in ("n3", "n4", "n5"):
        world.place(name)
    world.hold()


@pytest.mark.parametrize("rule", PUT.values(), ids=PUT)
def test_ratings_that_are_none_fail_the_attempt(rule: Callable[[Any, Any], Any]) -> None:
    world = World(Rating, node_count=20)
    world.hold()
    plugin = world.harness.plugin("Rating")
    plugin.put = rule
    world.place("n1")
    found = world.totals(world.kept)
    assert isinstance(found, str)
    assert found.startswith('running Score plugins: plugin "Rating" failed with: ')
    del plugin.put
    world.place("n2")
    world.hold()


@pytest.mark.parametrize("points", [150, -1, 2**63 - 1, -(2**63)], ids=str)
def test_ratings_out_of_range_are_noticed(points: int) -> None:
    world = World(Rating, node_count=20)
    world.hold()
    world.harness.plugin("Rating").put = put(points)
    world.place("n1")
    # The rule does not say what the columns do: those count, and are in range.
    world.hold()


def test_rows_are_counted_once() -> None:
    world = World(node_count=20)

    def evaluations() -> list[float]:
        world.totals(world.kept)
        counted = world.harness.metrics.plugin_evaluations
        return [counted("NodeResourcesFit", point, "default-scheduler").value for point in ("Filter", "Score")]

    before = evaluations()
    for name in ("n1", "n2", "n1"):
        world.place(name)
    assert [after - was for after, was in zip(evaluations(), before, strict=True)] == [2, 2]
    assert [after - was for after, was in zip(evaluations(), before, strict=True)] == [2, 2]


def test_the_rows_that_a_rule_is_asked_about_are_not_its_to_change() -> None:
    def spoil(rows: Any, points: Any) -> None:
        for place, row in enumerate(rows):
            points[place] = len(world.state.nodes.infos[row].pods)
        try:
            rows[0] = 10**6
        except TypeError:  # they may be read only
            return

    world = World(Rating, node_count=20)
    world.hold()
    world.harness.plugin("Rating").put = spoil
    for name in ("n1", "n2"):
        world.place(name)
        world.hold()


@pytest.mark.parametrize("points", [2**62, 2**63 - 1, -(2**62), -(2**63)], ids=str)
def test_sums_beyond_64_bits_do_no_harm(points: int) -> None:
    class Excessive(Fractions):
        def points(self, node: NodeInfo) -> int:
            return points if node.name == "n1" and 1 <= len(node.pods) < 3 else 5

    world = World(Excessive, node_count=20, settings=weighing(Excessive, 3))
    world.hold()
    filling = world.place("n1", cpu="8")
    for name, cpu in (("n2", "1"), ("n1", "0"), ("n2", "1"), ("n1", "0"), ("n3", "1")):
        world.place(name, cpu=cpu)
        found = world.hold()
        assert isinstance(found, dict) and "n1" not in found
    world.state.forget(filling)
    world.hold()
