"""Which nominated pods a pod must leave room for, kept from attempt to attempt and looked up from scratch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.state.cluster_state import ClusterState
from kubesched.state.nominator import Nominator
from kubesched.state.pod_info import PodInfo
from kubesched.state.promises import Promised, Promises
from tests.build import make_node, make_pod

NODES = ("n0", "n1", "n2")
PODS = ("a", "b", "c", "d")


def info(name: str, priority: int = 0) -> PodInfo:
    return PodInfo(make_pod(name).priority(priority).obj())


def defined(state: ClusterState, pod: PodInfo) -> Promised:
    """As plainly as possible."""
    found: Promised = {}
    for name, nominated in state.nominator.by_node():
        others = [
            other
            for uid, other in nominated.items()
            if other.priority >= pod.priority and uid != pod.uid and state.node_of(uid) != name
        ]
        row = state.nodes.row_of(name)
        if others and row >= 0:
            found[row] = others
    return found


names, node_names, priorities = st.sampled_from(PODS), st.sampled_from([*NODES, "n9"]), st.sampled_from([0, 5, 10])
steps = st.one_of(
    st.tuples(st.just("nominate"), names, node_names, priorities),
    st.tuples(st.just("refresh"), names, priorities),
    st.tuples(st.just("clear"), names),
    st.tuples(st.just("place"), names, node_names),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("node"), node_names),
    st.tuples(st.just("node goes"), node_names),
)


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(steps, max_size=3), names, priorities), max_size=20))
def test_what_is_kept_is_what_is_so(script: list[tuple[list[Any], str, int]]) -> None:
    state = ClusterState()
    for name in NODES:
        state.set_node(make_node(name).obj())
    promises = Promises(state.nominator, state.nodes, state.placements)
    for happens, name, priority in script:
        for step in happens:
            _happens(state, *step)
        asking = info(name, priority)
        heeded = promises.heeded_by(asking)
        assert heeded.by_row == defined(state, asking)
        by_all = defined(state, info("x", priority))
        assert {row for row in by_all if heeded.by_row.get(row) != by_all[row]} <= heeded.apart
        assert heeded.apart <= set(range(state.nodes.row_count))


def _happens(state: ClusterState, what: str, name: str, *rest: Any) -> None:
    uid = make_pod(name).obj().uid
    match what:
        case "nominate":
            state.nominator.nominate(info(name, rest[1]), rest[0])
        case "refresh":
            state.nominator.refresh(info(name, rest[0]))
        case "clear":
            state.nominator.clear(uid)
        case "place":
            state.set_pod(make_pod(name).node(rest[0]).obj())
        case "remove":
            state.remove_pod(uid)
        case "node":
            state.set_node(make_node(name).obj())
        case "node goes":
            state.remove_node(name)


def test_lists_of_nodes_where_nothing_changed_stay_the_same() -> None:
    """Whoever keeps what follows from them goes by that."""
    state = ClusterState()
    for name in NODES:
        state.set_node(make_node(name).obj())
    promises = Promises(state.nominator, state.nodes, state.placements)
    state.nominator.nominate(info("a"), "n0")
    state.nominator.nominate(info("b"), "n1")
    before = dict(promises.heeded_by(info("x")).by_row)
    state.nominator.refresh(info("b"))
    after = promises.heeded_by(info("x")).by_row
    assert after[0] is before[0]
    assert after[1] is not before[1]


@pytest.mark.parametrize("count", [pytest.param(10, id="a-few"), pytest.param(10_000, id="more-than-are-remembered")])
def test_changes(count: int) -> None:
    nominator = Nominator()
    nominator.nominate(info("a"), "n0")
    position = nominator.position
    assert list(nominator.changed_since(position) or ()) == []
    pod = info("b")
    for number in range(count):
        nominator.nominate(pod, f"n{number % 3}")
    changed = nominator.changed_since(position)
    assert changed is None if count > 4096 else set(changed or ()) == {"n0", "n1", "n2"}
    assert set(nominator.changed_since(nominator.position - 1) or ()) == {f"n{(count - 1) % 3}"}
