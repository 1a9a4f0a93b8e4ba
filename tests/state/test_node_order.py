"""The order in which nodes are tried one by one."""

from __future__ import annotations

from tests.build import NodeBuilder, make_node
from tests.plugins.rig import Rig


def order(rig: Rig) -> list[str]:
    return [info.name for info in rig.state.nodes_in_turn()]


def node(name: str, zone: str) -> NodeBuilder:
    return make_node(name).zone(zone)


def test_zones_take_turns() -> None:
    assert order(Rig([node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b")])) == ["a1", "b1", "a2", "a3"]


def test_a_node_that_moves_to_another_zone_takes_its_turn_there() -> None:
    rig = Rig([node("a1", "a"), node("a2", "a"), node("b1", "b")])
    assert order(rig) == ["a1", "b1", "a2"]
    rig.state.set_node(node("a2", "c").obj())
    assert order(rig) == ["a1", "a2", "b1"]


def test_the_order_is_made_once_for_all_other_changes() -> None:
    rig = Rig([node("a1", "a"), node("b1", "b")])
    before = rig.state.nodes_in_turn()
    rig.state.set_node(node("a1", "a").label("pool", "x").taint("t").obj())
    assert rig.state.nodes_in_turn() is before
