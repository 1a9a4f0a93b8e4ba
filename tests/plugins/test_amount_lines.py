"""Lines by resource and amount: up to date when asked for, and no more of them than there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched import build
from kubesched.plugins.amount_lines import AmountLine, AmountLines
from tests.build import make_node, make_pod
from tests.plugins.rig import Rig


class Told(AmountLine):
    """Says what it was told to take in."""

    made: list[tuple[str, int]] = []

    def __init__(self, table: Any, resource: str, amount: int) -> None:
        super().__init__(table, resource, amount)
        self.told: list[Any] = []
        self.numbers = np.zeros(table.capacity, dtype=np.uint8)
        Told.made.append((resource, amount))

    @property
    def size_bytes(self) -> int:
        return self.numbers.nbytes

    def take_all(self) -> None:
        self.told.append("all")

    def take_rows(self, rows: Any) -> None:
        self.told.append(list(rows))


lines_of_its_own = pytest.mark.skipif(build.kind() == "compiled", reason="lines of its own")


@pytest.fixture
def rig() -> Rig:
    Told.made.clear()
    return Rig([make_node(f"n{number}").capacity(cpu="4") for number in range(40)])


def place(rig: Rig, name: str, node: str) -> None:
    rig.state.set_pod(make_pod(name).uid(name).cpu("1m").node(node).obj())


@lines_of_its_own
def test_rows_that_changed_are_taken_in_when_the_line_is_needed(rig: Rig) -> None:
    lines, table = AmountLines(1 << 10), rig.state.nodes

    def told(amount: int = 100) -> list[Any]:
        line = lines.line(table, "cpu", amount, Told)
        answer = list(line.told)
        line.told.clear()
        return answer

    assert told() == ["all"]
    assert told() == []
    place(rig, "a", "n3")
    place(rig, "b", "n1")
    assert told() == [[3, 1]]
    assert told(200) == ["all"]
    rig.state.remove_node("n0")  # the last row moves
    assert told() == [[0, 39]]
    for number in range(6):
        place(rig, f"many-{number}", "n2")
    assert told() == ["all"]  # more than an eighth of the rows
    assert Told.made == [("cpu", 100), ("cpu", 200)]
    for number in range(table.capacity):
        rig.state.set_node(make_node(f"m{number}").capacity(cpu="4").obj())
    assert told() == ["all"]
    assert Told.made[2:] == [("cpu", 100)]  # as long as the table, now


@lines_of_its_own
def test_those_used_last_stay(rig: Rig) -> None:
    lines, table = AmountLines(3), rig.state.nodes
    for amount in (1, 2, 3, 1, 4, 1, 3, 2):
        lines.line(table, "cpu", amount, Told)
    assert [amount for _, amount in Told.made] == [1, 2, 3, 4, 2]
    one = AmountLines(0)
    assert one.line(table, "cpu", 1, Told) is one.line(table, "cpu", 1, Told)
    assert one.line(table, "memory", 1, Told) is not one.line(table, "cpu", 1, Told)


def test_a_node_that_offered_nothing_and_is_gone_harms_no_line() -> None:
    rig = Rig([make_node(f"n{number}").capacity(cpu="4", memory="8Gi") for number in range(40)])
    plugin, pod = rig.plugin("NodeResourcesFit"), make_pod("p").cpu("1").memory("1Gi")
    before = rig.raw(plugin, pod)
    rig.state.set_node(make_node("empty").capacity(cpu="0", memory="8Gi").obj())
    rig.state.remove_node("empty")
    assert rig.raw(plugin, pod) == before
