"""Victims, candidates and the choice among them, in whole clusters; nothing is done about them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from kubesched.framework.plugin import Plugin
from kubesched.framework.status import Code, Status
from kubesched.preemption import Finding, Preemption, Rules
from kubesched.state.pod_info import PodInfo
from tests.build import Builder, NodeBuilder, PodBuilder, make_node, make_pdb, make_pod
from tests.harness import Harness

WEB = {"app": "web"}


def node(name: str, cpu: int = 4) -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory="32Gi", pods=110).label("kubernetes.io/hostname", name)


def placed(name: str, on: str, cpu: Any, priority: int = 0) -> PodBuilder:
    return make_pod(name).cpu(cpu).priority(priority).node(on).started("2026-01-01T00:00:00Z")


def preemptor(cpu: Any, priority: int = 10) -> PodBuilder:
    return make_pod("h").cpu(cpu).priority(priority)


class Asked:
    """One pod that fits nowhere, and what preemption finds for it."""

    def __init__(
        self, pod: PodBuilder, objects: Iterable[Builder[Any]], *plugins: type[Plugin], **settings: Any
    ) -> None:
        self.harness = Harness(*plugins, settings=settings or None)
        self.harness.apply(*(each.obj() for each in objects))
        self.harness.scheduler.inbox.apply_all()
        self.runtime = self.harness.runtimes["default-scheduler"]
        self.info = PodInfo(pod.obj())
        self.state, evaluation = self.runtime.begin(self.info)
        fits = self.runtime.find_fits(self.state, evaluation)
        assert not len(fits.rows), "the pod fits without preemption"
        self.diagnosis = fits.diagnosis

    def found(self) -> Finding:
        finding: Finding = self.harness.plugin("DefaultPreemption").find(self.state, self.diagnosis)
        self.harness.check()
        return finding


def victims(finding: Finding) -> dict[str, list[str]]:
    return {each.node_name: [info.pod.name for info in each.victims] for each in finding.candidates}


def best(finding: Finding) -> str:
    return finding.choice.best.node_name if finding.choice is not None else ""


BR_63 = [node("n1"), placed("a", "n1", 2, 5), placed("b", "n1", 1, 3), placed("c", "n1", 1, 1)]


@pytest.mark.parametrize(
    ("pod", "objects", "expected"),
    [
        pytest.param(preemptor(1), BR_63, {"n1": ["c"]}, id="BR-63-only-as-many-as-needed"),
        pytest.param(preemptor(2), BR_63, {"n1": ["b", "c"]}, id="BR-63-spares-the-most-important"),
        pytest.param(preemptor(4), BR_63, {"n1": ["a", "b", "c"]}, id="all-if-need-be"),
        pytest.param(preemptor(1, 2), BR_63, {"n1": ["c"]}, id="only-lower-priorities"),
        pytest.param(preemptor(3, 4), BR_63, {}, id="not-enough-lower-ones"),
        pytest.param(preemptor(1, 1), BR_63, {}, id="BR-65-equal-priority-is-not-lower"),
        pytest.param(preemptor(5), BR_63, {}, id="bigger-than-the-node"),
        pytest.param(
            preemptor(2),
            [
                node("n1"),
                placed("protected", "n1", 2, 1).labels(WEB),
                placed("other", "n1", 2, 5),
                make_pdb("b").selector(WEB),
            ],
            {"n1": ["other"]},
            id="protected-pods-are-put-back-before-more-important-ones",
        ),
        pytest.param(
            preemptor(3),
            [
                node("n1"),
                *(placed(name, "n1", 1, priority).labels(WEB) for name, priority in [("a", 4), ("b", 3), ("c", 2)]),
                placed("d", "n1", 1, 1),
                make_pdb("b").selector(WEB).allowed(2),
            ],
            {"n1": ["a", "b", "d"]},
            id="the-budget-is-used-up-from-the-most-important-down",
        ),
        pytest.param(
            preemptor(1).host_port(80),
            [node("n1"), placed("web", "n1", 1).host_port(80), placed("other", "n1", 1)],
            {"n1": ["web"]},
            id="a-port",
        ),
        pytest.param(
            preemptor(1).label("app", "db").pod_anti_affinity("kubernetes.io/hostname", WEB),
            [node("n1"), placed("web", "n1", 1).labels(WEB), placed("other", "n1", 1)],
            {"n1": ["web"]},
            id="anti-affinity",
        ),
        pytest.param(
            preemptor(1),
            [node("n1"), placed("a", "n1", 4, 1), node("n2"), placed("b", "n2", 4, 20), node("n3").taint("x")],
            {"n1": ["a"]},
            id="only-nodes-where-it-helps",
        ),
        pytest.param(
            preemptor(2),
            [node("n1"), placed("a", "n1", 4).deleting()],
            {"n1": ["a"]},
            id="terminating-pods-are-victims-too",
        ),
    ],
)
def test_victims(pod: PodBuilder, objects: list[Builder[Any]], expected: dict[str, list[str]]) -> None:
    assert victims(Asked(pod, objects).found()) == expected


@pytest.mark.parametrize(
    ("cpu", "node_name", "violations"),
    [
        pytest.param(2, "n2", 1, id="BR-59-one-violation-each-so-the-lower-top-priority"),
        pytest.param(1, "n1", 0, id="BR-60-a-violation-saved-by-putting-back-does-not-count"),
    ],
)
def test_budgets_and_the_choice(cpu: int, node_name: str, violations: int) -> None:
    objects: list[Builder[Any]] = [
        *(node("n1", 2), placed("high", "n1", 1, 1000), placed("low", "n1", 1, 0).labels(WEB)),
        *(node("n2", 2), placed("mid", "n2", 2, 100).labels(WEB)),
        make_pdb("b").selector(WEB),
    ]
    finding = Asked(preemptor(cpu, 10_000), objects).found()
    assert best(finding) == node_name
    assert finding.choice is not None and finding.choice.best.violation_count == violations


def test_nominated_pods_need_their_room_during_the_dry_run() -> None:
    """Without the nominated pod one victim would do."""
    objects: list[Builder[Any]] = [
        node("n1"),
        placed("a", "n1", 2, 2),
        placed("b", "n1", 2, 1),
        make_pod("n").cpu(2).priority(10).nominated("n1"),
    ]
    assert victims(Asked(preemptor(2), objects).found()) == {"n1": ["a", "b"]}
    assert victims(Asked(preemptor(2, 11), objects).found()) == {"n1": ["b"]}


def test_why_not_is_told_for_each_node() -> None:
    objects: list[Builder[Any]] = [
        *(node("equal"), placed("a", "equal", 4, 10)),
        *(node("port"), placed("b", "port", 1, 10).host_port(80), placed("c", "port", 1, 0)),
        *(node("small", 1), placed("d", "small", 1, 0)),
    ]
    asked = Asked(preemptor(2).host_port(80), objects)
    finding = asked.found()
    assert finding.rejected is not None
    assert {name: (status.code, status.reasons) for name, status in finding.rejected.by_node().items()} == {
        "equal": (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ("No preemption victims found for incoming pod",)),
        "port": (Code.UNSCHEDULABLE, ("node(s) didn't have free ports for the requested pod ports",)),
    }
    assert finding.nomination == "" and finding.status is not None
    assert finding.status.message == (
        "0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling, "
        "1 node(s) didn't have free ports for the requested pod ports."
    )


def test_br_101_a_dry_run_leaves_no_trace() -> None:
    objects: list[Builder[Any]] = [make_pdb("b").selector(WEB)]
    for number in range(100):
        name = f"n{number}"
        objects += [node(name), placed(f"a{number}", name, 2).labels(WEB), placed(f"b{number}", name, 2).host_port(80)]
    asked = Asked(preemptor(3).host_port(80), objects)
    table = asked.harness.state.nodes
    before = (table.journal.position, table.taken.of("cpu").copy().tolist(), dict(asked.harness.state.placements))
    assert len(asked.found().candidates) == 100
    assert before == (table.journal.position, table.taken.of("cpu").tolist(), asked.harness.state.placements)


# -- how many candidates


def sampled(count: int, *, percentage: int, at_least: int) -> list[str]:
    """The candidates among `count` equal nodes, in the order in which they were found."""
    objects: list[Builder[Any]] = [
        each for number in range(count) for each in (node(f"n{number}"), placed(f"p{number}", f"n{number}", 4))
    ]
    asked = Asked(preemptor(1), objects)
    handle = asked.runtime.handle
    preemption = Preemption(handle, "Test", candidates_percentage=percentage, candidates_min=at_least)
    return [each.node_name for each in preemption.find(asked.state, asked.diagnosis).candidates]


@pytest.mark.parametrize(
    ("percentage", "at_least", "expected"),
    [
        pytest.param(10, 2, 2, id="minimum"),
        pytest.param(50, 2, 10, id="percentage"),
        pytest.param(10, 100, 20, id="no-more-than-there-are"),
        pytest.param(100, 0, 20, id="all"),
        pytest.param(4, 0, 1, id="a-share-of-less-than-one-is-one"),
    ],
)
def test_how_many_candidates_are_looked_for(percentage: int, at_least: int, expected: int) -> None:
    found = sampled(20, percentage=percentage, at_least=at_least)
    assert len(found) == expected
    first = int(found[0][1:])
    assert found == [f"n{(first + step) % 20}" for step in range(expected)], "in row order from a random one on"


def test_the_search_starts_anywhere() -> None:
    objects: list[Builder[Any]] = [
        each for number in range(20) for each in (node(f"n{number}"), placed(f"p{number}", f"n{number}", 4))
    ]
    asked = Asked(preemptor(1), objects)
    preemption = Preemption(asked.runtime.handle, "Test", candidates_percentage=5, candidates_min=1)
    firsts = {preemption.find(asked.state, asked.diagnosis).candidates[0].node_name for _ in range(60)}
    assert len(firsts) > 10


def test_the_search_goes_on_until_one_candidate_breaks_no_budget() -> None:
    objects: list[Builder[Any]] = [make_pdb("b").selector(WEB)]
    for number in range(20):
        pod = placed(f"p{number}", f"n{number}", 4)
        objects += [node(f"n{number}"), pod if number == 13 else pod.labels(WEB)]
    asked = Asked(preemptor(1), objects)
    preemption = Preemption(asked.runtime.handle, "Test", candidates_percentage=0, candidates_min=2)
    for _ in range(30):
        finding = preemption.find(asked.state, asked.diagnosis)
        assert best(finding) == "n13"
        assert len(finding.candidates) <= 3, "each sort is kept up to the number asked for"


# -- what plugins may set, and plugins that fail


def test_a_plugin_may_spare_pods() -> None:
    objects: list[Builder[Any]] = [node("n1"), placed("spared", "n1", 2), placed("other", "n1", 2, 5)]
    asked = Asked(preemptor(2), objects)
    rules = Rules(may_be_victim=lambda victim, preemptor, node: victim.pod.name != "spared")
    finding = Preemption(asked.runtime.handle, "Test", rules=rules).find(asked.state, asked.diagnosis)
    assert victims(finding) == {"n1": ["other"]}


def test_a_plugin_may_spare_everybody() -> None:
    asked = Asked(preemptor(2), [node("n1"), placed("a", "n1", 4)])
    rules = Rules(may_be_victim=lambda victim, preemptor, node: False)
    finding = Preemption(asked.runtime.handle, "Test", rules=rules).find(asked.state, asked.diagnosis)
    assert finding.status is not None
    assert finding.status.message == "0/1 nodes are available: 1 No preemption victims found for incoming pod."


def test_a_plugin_may_order_pods_and_candidates_otherwise() -> None:
    objects: list[Builder[Any]] = [
        *(node("n1"), placed("a", "n1", 2, 1), placed("b", "n1", 2, 2)),
        *(node("n2"), placed("c", "n2", 2, 7), placed("d", "n2", 2, 8)),
    ]
    asked = Asked(preemptor(2), objects)
    by_name = Rules(importance=lambda info: info.pod.name, criteria=())
    finding = Preemption(asked.runtime.handle, "Test", rules=by_name).find(asked.state, asked.diagnosis)
    assert victims(finding) == {"n1": ["b"], "n2": ["d"]}
    assert finding.choice is not None and len(finding.choice.equals) == 2


class Fails(Plugin):
    """Fails on nodes labelled `fails` once they have less than two pods."""

    name = "Fails"

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        if "fails" in node.labels and len(node.pods) < 2:
            return Status.error("out of order")
        return None


def test_a_plugin_that_fails_on_one_node_does_not_spoil_the_others() -> None:
    objects: list[Builder[Any]] = [
        *(node("n1").label("fails"), placed("a", "n1", 2), placed("b", "n1", 2)),
        *(node("n2"), placed("c", "n2", 2), placed("d", "n2", 2)),
    ]
    finding = Asked(preemptor(2), objects, Fails).found()
    assert victims(finding) == {"n2": ["d"]}
    assert finding.rejected is not None
    assert finding.rejected.by_node()["n1"].message == 'running "Fails" filter plugin: out of order'


def test_if_all_fail_the_attempt_fails() -> None:
    objects: list[Builder[Any]] = [node("n1").label("fails"), placed("a", "n1", 2), placed("b", "n1", 2)]
    finding = Asked(preemptor(2), objects, Fails).found()
    assert finding.status is not None
    assert (finding.status.code, finding.status.message) == (
        Code.ERROR,
        'running "Fails" filter plugin: out of order',
    )
    assert finding.nomination is None, "the nomination stays as it was"


class Grumpy(Plugin):
    """Rejects every node now, none when asked again."""

    name = "Grumpy"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.is_fine = False

    def filter(self, state: Any, pod: Any, node: Any) -> Status | None:
        return None if self.is_fine else Status.unschedulable("not now")


def test_a_node_that_needs_no_victims_is_an_error_of_that_node() -> None:
    asked = Asked(preemptor(2), [node("n1"), placed("a", "n1", 1)], Grumpy)
    asked.harness.plugin("Grumpy").is_fine = True
    finding = asked.found()
    assert finding.status is not None
    assert finding.status.message == 'expected at least one victim pod on node "n1"'
