"""What is tried on a hypothetical table: exact, and without a trace in the table it was made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.state import consistency
from kubesched.state.cluster_state import ClusterState
from kubesched.state.hypothetical_table import HypotheticalTable
from kubesched.state.node_table import AMOUNT_MAX, NONZERO_CPU, POD_COUNT
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod

NODES = ["n0", "n1", "n2"]
HUGE = 1 << 63


def cluster(*shapes: tuple[int, int]) -> ClusterState:
    """Pods p0, p1, ... of (node number, cpu)."""
    state = ClusterState()
    for name in NODES:
        state.set_node(make_node(name).capacity(cpu=64, memory="64Gi", pods=110).zone(name).obj())
    for number, (node, cpu) in enumerate(shapes):
        state.set_pod(make_pod(f"p{number}").cpu(cpu).host_port(8000 + number).node(NODES[node]).obj())
    return state


def info(name: str, cpu: int, **requests: Any) -> PodInfo:
    return PodInfo(make_pod(name).requests(cpu=cpu, **requests).host_port(9000).obj())


def rows(*numbers: int) -> Any:
    return np.array(numbers, dtype=np.intp)


def columns(table: HypotheticalTable) -> dict[str, list[int]]:
    return {
        "cpu": table.taken.of("cpu").tolist(),
        "count": table.taken.of(POD_COUNT).tolist(),
        "nonzero": table.taken.of(NONZERO_CPU).tolist(),
    }


def recounted(table: HypotheticalTable) -> dict[str, list[int]]:
    return {
        "cpu": [min(node.requested.get("cpu", 0), AMOUNT_MAX) for node in table.infos],
        "count": [len(node.pods) for node in table.infos],
        "nonzero": [min(node.nonzero_cpu_milli, AMOUNT_MAX) for node in table.infos],
    }


steps = st.lists(
    st.tuples(
        st.sampled_from(["off", "on", "look", "guest", "one off"]), st.integers(0, 7), st.sets(st.integers(0, 7))
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(
    shapes=st.lists(st.tuples(st.integers(0, 2), st.sampled_from([0, 1, 2, HUGE])), max_size=8),
    picked=st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True),
    history=steps,
)
def test_columns_agree_with_a_recount_whatever_was_tried(
    shapes: list[tuple[int, int]], picked: list[int], history: list[Any]
) -> None:
    state = cluster(*shapes)
    table = state.nodes.hypothetical(picked)
    pods = [pod for row in picked for pod in state.nodes.infos[row].pods.values()]
    at = [position for position, row in enumerate(picked) for _ in state.nodes.infos[row].pods]
    batch = table.batch(pods, rows(*at))
    gone: set[int] = set()
    for verb, number, chosen in history:
        there = {each for each in chosen if each < len(pods)}
        if verb == "off":
            table.displace_all(batch, rows(*sorted(there - gone)))
            gone |= there
        elif verb == "on":
            table.place_all(batch, rows(*sorted(there & gone)))
            gone -= there
        elif verb == "look":
            table.infos[number % len(picked)]
        elif verb == "guest":
            name, guest = table.name_of(number % len(picked)), info(f"g{number}", HUGE if number == 7 else 3)
            if guest.uid not in table.infos[number % len(picked)].pods:
                table.place(guest, name)
        elif number < len(pods) and number not in gone:
            table.displace(pods[number].uid, table.name_of(at[number]))
            gone.add(number)
    assert columns(table) == recounted(table)
    assert consistency.check(state) == []
    for port in (8000, 8003, 9000):
        users = [node.name for node in table.port_users("TCP", port)]
        assert users == [node.name for node in table.infos if any(used.port == port for used in node.port_counts)]


def test_one_each_is_the_same() -> None:
    state = cluster((0, 1), (1, 2), (2, 4))
    tables = [state.nodes.hypothetical([0, 1, 2]) for _ in range(2)]
    for table, one_each in zip(tables, (False, True), strict=True):
        batch = table.batch([next(iter(node.pods.values())) for node in state.nodes.infos], rows(0, 1, 2))
        table.displace_all(batch, rows(0, 2), one_each=one_each)
        table.place_all(batch, rows(2), one_each=one_each)
    assert columns(tables[0]) == columns(tables[1]) == recounted(tables[0])


def test_a_resource_that_nobody_asked_for_before() -> None:
    table = cluster((0, 1)).nodes.hypothetical([1, 0])
    batch = table.batch([info("a", 1, **{"example.com/gpu": 2})], rows(1))
    table.place_all(batch, rows(0))
    assert table.taken.of("example.com/gpu").tolist() == [0, 2]
    assert table.taken.of("cpu").tolist() == [0, 2000]
    assert columns(table) == recounted(table)


def test_rows_keep_their_order_and_names() -> None:
    state = cluster()
    table = state.nodes.hypothetical([2, 0])
    assert [table.row_of(name) for name in NODES] == [1, -1, 0]
    assert [node.name for node in table.infos] == ["n2", "n0"]
    assert [node.row for node in table.infos] == [0, 1]
    assert [node.name for node in table.nodes_at([1]).infos()] == ["n0"]
    column = table.label_column("topology.kubernetes.io/zone")
    assert [column.values.values[code] for code in column.codes] == ["n2", "n0"]
    nested = table.hypothetical([1])
    assert (nested.name_of(0), nested.original_rows.tolist()) == ("n0", [0])


def test_a_table_of_a_table_starts_from_what_was_tried() -> None:
    state = cluster((0, 1), (0, 2))
    table = state.nodes.hypothetical([0])
    table.displace(make_pod("p0").obj().uid, "n0")
    nested = table.hypothetical([0])
    nested.place(info("g", 5), "n0")
    assert (table.taken.of("cpu").tolist(), nested.taken.of("cpu").tolist()) == ([2000], [7000])
    assert columns(nested) == recounted(nested)


def test_a_clone_is_made_only_when_somebody_looks() -> None:
    state = cluster((0, 1))
    table = state.nodes.hypothetical([0, 1, 2])
    batch = table.batch(list(state.nodes.infos[0].pods.values()), rows(0))
    table.displace_all(batch, rows(0))
    assert table._made == {}
    assert list(table.infos[0].pods) == []
    assert set(table._made) == {0}


@pytest.mark.parametrize("row", [3, -1])
def test_rows_that_are_not_there(row: int) -> None:
    table = cluster().nodes.hypothetical([0, 1, 2])
    with pytest.raises(IndexError):
        table.infos[row]
