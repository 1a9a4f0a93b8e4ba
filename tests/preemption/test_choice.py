"""Which pod matters more, and which candidate is chosen."""

from __future__ import annotations

import pytest

from kubesched.preemption.candidate import Candidate
from kubesched.preemption.choice import ONLY_ONE, TIE, choose
from kubesched.preemption.rules import CRITERIA
from kubesched.state.pod_info import PodInfo
from tests.build import PodBuilder, make_pod

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-01T09:00:00Z"


@pytest.mark.parametrize(
    ("more", "less"),
    [
        pytest.param(make_pod("a").priority(2).started(LATE), make_pod("b").priority(1).started(EARLY), id="priority"),
        pytest.param(make_pod("a").priority(-1), make_pod("b").priority(-2), id="negative-priorities"),
        pytest.param(make_pod("a"), make_pod("b").priority(-1), id="absent-priority-is-0"),
        pytest.param(make_pod("a").started(EARLY), make_pod("b").started(LATE), id="started-earlier"),
        pytest.param(make_pod("a").started(LATE), make_pod("b"), id="not-started-counts-as-last"),
        pytest.param(
            make_pod("a").started("2026-01-01T10:30:00+02:00"), make_pod("b").started(LATE), id="other-time-zone"
        ),
        pytest.param(
            make_pod("a").started(LATE), make_pod("b").started("2026-01-01T09:00:00.25Z"), id="parts-of-a-second"
        ),
        pytest.param(make_pod("a").started(LATE), make_pod("b").started("yesterday"), id="no-time-counts-as-none"),
    ],
)
def test_importance(more: PodBuilder, less: PodBuilder) -> None:
    assert PodInfo(more.obj()).seniority < PodInfo(less.obj()).seniority


def test_times_written_differently_are_equal() -> None:
    ways = [LATE, "2026-01-01T09:00:00.000Z", "2026-01-01T10:00:00+01:00"]
    assert len({PodInfo(make_pod().started(way).obj()).seniority for way in ways}) == 1


def candidate(name: str, *victims: PodBuilder, violations: int = 0) -> Candidate:
    infos = [PodInfo(victim.obj()) for victim in victims]
    return Candidate(name, tuple(sorted(infos, key=lambda info: info.seniority)), violations)


def victim(priority: int, started: str = EARLY) -> PodBuilder:
    return make_pod().priority(priority).started(started)


FEWEST_VIOLATIONS, LOWEST_TOP, LOWEST_SUM, FEWEST_VICTIMS, LATEST_START = (criterion.name for criterion in CRITERIA)


@pytest.mark.parametrize(
    ("candidates", "best", "because"),
    [
        pytest.param([candidate("n1", victim(5))], "n1", ONLY_ONE, id="only-one"),
        pytest.param(
            [candidate("n1", victim(0), violations=1), candidate("n2", victim(9), victim(9))],
            "n2",
            FEWEST_VIOLATIONS,
            id="violations-above-all",
        ),
        pytest.param(
            [candidate("n1", victim(7)), candidate("n2", victim(5), victim(5), victim(5))],
            "n2",
            LOWEST_TOP,
            id="lowest-of-the-highest-priorities",
        ),
        pytest.param(
            [candidate("n1", victim(5), victim(4)), candidate("n2", victim(5), victim(3))],
            "n2",
            LOWEST_SUM,
            id="lowest-sum",
        ),
        pytest.param(
            [candidate("n1", victim(-5), victim(-5)), candidate("n2", victim(-5))],
            "n2",
            LOWEST_SUM,
            id="more-victims-of-negative-priority-are-no-smaller-sum",
        ),
        pytest.param(
            [candidate("n1", victim(5), victim(-(2**31))), candidate("n2", victim(5))],
            "n2",
            FEWEST_VICTIMS,
            id="fewest-victims-where-the-lowest-priority-adds-nothing",
        ),
        pytest.param(
            [candidate("n1", victim(5, EARLY)), candidate("n2", victim(5, LATE))],
            "n2",
            LATEST_START,
            id="latest-start",
        ),
        pytest.param(
            [
                candidate("n1", victim(5, LATE), victim(1, EARLY)),
                candidate("n2", victim(5, EARLY), victim(1, LATE)),
            ],
            "n1",
            LATEST_START,
            id="only-the-start-of-the-most-important-counts",
        ),
        pytest.param(
            [
                candidate("n1", victim(5, EARLY), victim(5, LATE)),
                candidate("n2", victim(5, "2026-01-01T01:00:00Z"), victim(5, "2026-01-01T02:00:00Z")),
            ],
            "n2",
            LATEST_START,
            id="of-several-most-important-the-earliest-counts",
        ),
        pytest.param(
            [candidate("n1", victim(5)), candidate("n2", make_pod().priority(5))],
            "n2",
            LATEST_START,
            id="not-started-is-latest",
        ),
        pytest.param([candidate("n2", victim(5)), candidate("n1", victim(5))], "n2", TIE, id="tie-takes-the-first"),
        pytest.param(
            [candidate("n1", victim(2**31 - 1)), candidate("n2", victim(-(2**31)))],
            "n2",
            LOWEST_TOP,
            id="extreme-priorities",
        ),
    ],
)
def test_choice(candidates: list[Candidate], best: str, because: str) -> None:
    choice = choose(candidates, CRITERIA)
    assert (choice.best.node_name, choice.because) == (best, because)


def test_ties_are_told() -> None:
    tied = [candidate("n1", victim(5)), candidate("n2", victim(5)), candidate("n3", victim(6))]
    assert [each.node_name for each in choose(tied, CRITERIA).equals] == ["n1", "n2"]
