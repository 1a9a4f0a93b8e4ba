"""Scores of all nodes, of which lines are kept, are those of each node asked alone, whatever happened before."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.config.plugin_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.row_rules import RowRate
from kubesched.state.pod_info import PodInfo
from tests.build import make_node, make_pod
from tests.plugins.rig import Rig

NODES = [f"n{number}" for number in range(5)]
PODS = [f"p{number}" for number in range(6)]

cpus = st.sampled_from(["0", "100m", "1", "3", "20", "5000000000"])
memories = st.sampled_from(["0", "1Gi", "3Gi", "7Gi", "80Gi", "9E"])
gpus = st.sampled_from([0, 1])
events = st.one_of(
    st.tuples(st.just("node"), st.sampled_from(NODES), cpus, memories, gpus),
    st.tuples(st.just("node"), st.sampled_from(NODES), st.just("4"), st.just("16Gi"), gpus),
    st.tuples(st.just("node gone"), st.sampled_from(NODES)),
    st.tuples(st.just("pod"), st.sampled_from(PODS), st.sampled_from(NODES), cpus, memories, gpus),
    st.tuples(st.just("pod gone"), st.sampled_from(PODS)),
    st.tuples(st.just("many nodes"), st.integers(1, 30)),
    st.tuples(st.just("many pods"), st.integers(1, 30)),
)
asked = st.tuples(st.sampled_from(["100m", "1", "3", "9E"]), st.sampled_from(["200Mi", "5Gi", "9E"]), gpus)


RATIO = RequestedToCapacityRatioParam(tuple(UtilizationShapePoint(*point) for point in ((0, 0), (50, 8), (100, 10))))
RESOURCES = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))
STRATEGIES = {
    "balanced": None,
    "least": ScoringStrategy("LeastAllocated", RESOURCES),
    "most": ScoringStrategy("MostAllocated", (*RESOURCES, ResourceSpec("example.com/gpu", 5))),
    "ratio": ScoringStrategy("RequestedToCapacityRatio", (ResourceSpec("cpu", 3), ResourceSpec("memory", 2)), RATIO),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=60, deadline=None)
@given(history=st.lists(st.tuples(events, asked), max_size=20))
def test_scores_are_those_of_single_nodes(strategy: str, history: list[Any]) -> None:
    rig = Rig([make_node("n0").capacity(cpu="4", memory="16Gi"), make_node("n9").capacity(cpu="8", memory="16Gi")])
    chosen = STRATEGIES[strategy]
    if chosen is None:
        plugin = rig.plugin("NodeResourcesBalancedAllocation")
    else:
        plugin = rig.plugin("NodeResourcesFit", NodeResourcesFitArgs(scoring_strategy=chosen))
    for event, (cpu, memory, gpu) in history:
        happen(rig, event)
        pod = make_pod("new").requests(cpu=cpu, memory=memory, **{"example.com/gpu": gpu}).obj()
        state, nodes = CycleState(PodInfo(pod)), rig.state.nodes.all_nodes()
        if plugin.pre_score(state, pod, nodes) is not None:
            continue
        rate = plugin.rate(state, pod)
        scores = [rate(node) for node in nodes.infos()]
        assert plugin.score_rows(state, pod, nodes).tolist() == scores
        if isinstance(rate, RowRate):
            assert rig.rated(rate) == scores


def happen(rig: Rig, event: Any) -> None:
    state = rig.state
    match event:
        case "node", name, cpu, memory, gpu:
            state.set_node(make_node(name).capacity(cpu=cpu, memory=memory, **{"example.com/gpu": gpu}).obj())
        case "node gone", name:
            if name in state.nodes.by_name and state.nodes.by_name[name].node is not None:
                state.remove_node(name)
        case "pod", name, node_name, cpu, memory, gpu:
            pod = make_pod(name).uid(name).requests(cpu=cpu, memory=memory, **{"example.com/gpu": gpu}).node(node_name)
            state.set_pod(pod.obj())
        case "pod gone", name:
            state.remove_pod(name)
        case "many nodes", count:
            for number in range(count):
                state.set_node(make_node(f"m{number}").capacity(cpu="8", memory=f"{number + 1}Gi").obj())
        case "many pods", count:
            for number in range(count):
                pod = make_pod(f"q{number}").uid(f"q{number}").cpu("10m").memory(f"{number}Mi").node("n9")
                state.set_pod(pod.obj())
