"""The journal: what changed since a position, within bounds."""

from __future__ import annotations

import pytest

from kubesched.state import aspects
from kubesched.state.journal import Journal


def noted(journal: Journal, position: int) -> list[tuple[int, int]] | None:
    since = journal.since(position)
    return None if since is None else list(zip(since[0].tolist(), since[1].tolist(), strict=True))


def filled(count: int) -> Journal:
    journal = Journal()
    for number in range(count):
        journal.note(number, 1 << number % 3)
    return journal


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
def test_what_came_after_a_position(count: int) -> None:
    journal = filled(count)
    every = [(number, 1 << number % 3) for number in range(count)]
    assert journal.position == count
    assert [noted(journal, position) for position in range(count + 1)] == [every[n:] for n in range(count + 1)]


def test_rows_that_changed_in_some_aspect() -> None:
    journal = filled(9)
    assert journal.rows_since(0, 1) == {0, 3, 6}
    assert journal.rows_since(4, 1 | 4) == {5, 6, 8}
    assert journal.rows_since(9, 7) == set()


@pytest.mark.parametrize(
    ("position", "wanted", "rows"),
    [
        pytest.param(0, aspects.REQUESTED, [500, 3], id="each once, in the order of their first change"),
        pytest.param(0, aspects.LABELS, [3, 7], id="in another aspect"),
        pytest.param(2, aspects.REQUESTED, [3, 500], id="later changes only"),
        pytest.param(0, aspects.REQUESTED | aspects.LABELS, [500, 3, 7], id="in either"),
        pytest.param(0, aspects.TAINTS, [], id="in none"),
        pytest.param(5, aspects.REQUESTED, [], id="nothing came after"),
    ],
)
def test_the_rows_that_somebody_must_look_at(position: int, wanted: int, rows: list[int]) -> None:
    journal = Journal()
    for row, changed in [
        (500, aspects.REQUESTED),
        (3, aspects.LABELS),
        (3, aspects.REQUESTED | aspects.PODS),
        (7, aspects.LABELS),
        (500, aspects.REQUESTED),
    ]:
        journal.note(row, changed)
    line = journal.line_of(position, wanted)
    journal.line_of(0, aspects.PODS)
    assert list(line) == rows, "also when another was asked for meanwhile"
    assert list(journal.line_of(position, wanted)) == rows


def test_the_older_half_is_forgotten_once_it_outgrows_the_table() -> None:
    journal = filled(5000)
    journal.trim(row_count=2000)
    assert noted(journal, 0) is not None
    journal.trim(row_count=10)
    assert journal.position == 5000
    assert (noted(journal, 2499), journal.rows_since(2499, 7)) == (None, None)
    assert noted(journal, 4998) == [(4998, 1), (4999, 2)]
    journal.note(7, 4)
    assert noted(journal, 4999) == [(4999, 2), (7, 4)]


def test_what_was_handed_out_stays() -> None:
    journal = filled(64)
    rows, _ = journal.since(0) or pytest.fail("all of it is known")
    for number in range(6000):
        journal.note(number, 1)
        journal.trim(row_count=1)
    assert rows.tolist() == list(range(64))
