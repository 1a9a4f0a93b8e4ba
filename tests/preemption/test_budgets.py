"""Which pods break a disruption budget."""

from __future__ import annotations

import pytest

from kubesched.preemption.budgets import Budgets
from tests.build import BudgetBuilder, PodBuilder, make_pdb, make_pod

WEB = {"app": "web"}


def web(name: str) -> PodBuilder:
    return make_pod(name).labels(WEB)


@pytest.mark.parametrize(
    ("budgets", "pods", "breaks"),
    [
        pytest.param([], [web("a")], [False], id="no-budget"),
        pytest.param([make_pdb("b").selector(WEB).allowed(1)], [web("a")], [False], id="within-the-budget"),
        pytest.param([make_pdb("b").selector(WEB)], [web("a")], [True], id="no-status-allows-none"),
        pytest.param(
            [make_pdb("b").selector(WEB).allowed(1)],
            [web("a"), web("b"), web("c")],
            [False, True, True],
            id="BR-62-second-victim-breaks-a-budget-of-one",
        ),
        pytest.param(
            [make_pdb("b").selector(WEB).disrupted("a")],
            [web("a"), web("b")],
            [False, True],
            id="BR-62-pod-under-way-uses-no-budget",
        ),
        pytest.param(
            [make_pdb("b").selector(WEB).allowed(1).disrupted("a")],
            [web("a"), web("b")],
            [False, False],
            id="BR-62-pod-under-way-leaves-the-budget-to-the-next",
        ),
        pytest.param([make_pdb("b")], [web("a")], [False], id="BR-62-no-selector-protects-nobody"),
        pytest.param([make_pdb("b").selector({})], [web("a")], [False], id="BR-62-empty-selector-protects-nobody"),
        pytest.param(
            [make_pdb("b").selector({}, ("app", "DoesNotExist", []))],
            [make_pod("a"), make_pod("b").label("x")],
            [False, True],
            id="BR-62-pod-without-labels-is-never-protected",
        ),
        pytest.param(
            [make_pdb("loose").selector(WEB).allowed(5), make_pdb("tight").selector({"tier": "1"}).allowed(1)],
            [web("a").label("tier", "1"), web("b").label("tier", "1")],
            [False, True],
            id="BR-62-pod-under-two-budgets-uses-both",
        ),
        pytest.param(
            [make_pdb("none").selector({"tier": "1"}), make_pdb("one").selector(WEB).allowed(1)],
            [web("a").label("tier", "1"), web("b")],
            [True, True],
            id="BR-62-a-broken-budget-does-not-spare-the-other",
        ),
        pytest.param([make_pdb("b").namespace("other").selector(WEB)], [web("a")], [False], id="BR-62-other-namespace"),
        pytest.param(
            [make_pdb("b").selector({}, ("app", "Near", ["web"]))], [web("a")], [False], id="BR-62-invalid-selector"
        ),
        pytest.param([make_pdb("b").selector({"app": "db"})], [web("a")], [False], id="selector-of-others"),
    ],
)
def test_breaking_a_budget(budgets: list[BudgetBuilder], pods: list[PodBuilder], breaks: list[bool]) -> None:
    assert Budgets(budget.obj() for budget in budgets).violations([pod.obj() for pod in pods]) == breaks


def test_each_node_starts_with_the_whole_budget() -> None:
    budgets = Budgets([make_pdb("b").selector(WEB).allowed(1).obj()])
    assert budgets.violations([web("a").obj()]) == [False]
    assert budgets.violations([web("b").obj()]) == [False]


@pytest.mark.parametrize(
    ("budget", "protects"),
    [
        pytest.param(make_pdb("b").selector(WEB), True, id="some-pods"),
        pytest.param(make_pdb("b").selector({}), False, id="nobody"),
    ],
)
def test_whether_anybody_is_protected(budget: BudgetBuilder, protects: bool) -> None:
    assert bool(Budgets([budget.obj()])) is protects
