"""Objects that can be decoded and make no sense all the same: they are left out, and stop nobody."""

from __future__ import annotations

import logging

import pytest

from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.harness import Harness


def node(cpu: str) -> NodeBuilder:
    return make_node("n1").capacity(cpu=cpu, memory="1Gi", pods=10)


async def told(harness: Harness, *objects: NodeBuilder | PodBuilder) -> None:
    """Each settled by itself; the harness checks the state each time."""
    for each in objects:
        harness.apply(each.obj())
        await harness.settle()


async def test_a_new_node_is_left_out_until_it_makes_sense(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness()
    with caplog.at_level(logging.ERROR):
        await told(harness, node("lots"), make_pod("p").cpu("1"))
    assert "kind=Node object=n1" in caplog.text
    assert harness.state.nodes.row_count == 0
    await told(harness, node("2"))
    await harness.pass_time(2)
    assert harness.port.binds() == [("p", "n1")]


async def test_a_node_stays_as_it_was() -> None:
    harness = Harness()
    await told(harness, node("2"), node("lots").unschedulable(), make_pod("p").cpu("2"))
    assert harness.port.binds() == [("p", "n1")]
    harness.delete(node("2").obj())
    await harness.settle()
    assert harness.state.nodes.row_count == 0


async def test_a_pod_that_came_before_its_node_still_counts() -> None:
    harness = Harness()
    await told(harness, make_pod("placed").cpu("1").node("n1"), node("lots"), node("2"), make_pod("p").cpu("2"))
    assert harness.port.binds() == []


async def test_pods_are_left_out_or_stay_as_they_were() -> None:
    harness = Harness()
    await told(harness, node("2"), make_pod("a").cpu("many").node("n1"), make_pod("b").cpu("1").node("n1"))
    await told(harness, make_pod("b").cpu("many").node("n1"), make_pod("c").cpu("many"), make_pod("p").cpu("1"))
    assert harness.port.binds() == [("p", "n1")]
    assert harness.state.nodes.by_name["n1"].requested["cpu"] == 2000
