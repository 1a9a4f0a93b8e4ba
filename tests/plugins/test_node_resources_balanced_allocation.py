"""NodeResourcesBalancedAllocation."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.config.plugin_args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from kubesched.framework.cycle_state import CycleState, CycleStateError
from kubesched.framework.status import Status
from kubesched.plugins import node_resources_balanced_allocation
from kubesched.state.pod_info import PodInfo
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.rig import Rig, registered

GPU, STORAGE = "example.com/gpu", "ephemeral-storage"


def balancing(*names: str) -> NodeResourcesBalancedAllocationArgs:
    return NodeResourcesBalancedAllocationArgs(tuple(ResourceSpec(name, 1) for name in names))


def asking(**amounts: Any) -> PodBuilder:
    return make_pod("new").requests(**amounts)


def placed(**amounts: Any) -> PodBuilder:
    return make_pod("old").requests(**amounts).node("node")


def improvement(after: int, before: int) -> int:
    """The original's last line, on evenness scores worked out by hand."""
    return 50 + (50 + after - before) // 2


THREE = balancing("cpu", "memory", GPU)
GPU_NODE = make_node().capacity(cpu=4, memory="8Gi", **{GPU: 4})


@pytest.mark.parametrize(
    ("args", "node", "pods", "pod", "raw"),
    [
        pytest.param(None, make_node(), [], asking(cpu=1, memory="2Gi"), improvement(100, 100), id="even-stays-even"),
        pytest.param(None, make_node(), [], asking(cpu=2, memory="2Gi"), improvement(87, 100), id="less-even"),
        pytest.param(None, make_node(), [placed(cpu=2)], asking(memory="4Gi"), improvement(100, 75), id="more-even"),
        pytest.param(None, make_node(), [], asking(cpu=4), improvement(50, 100), id="one-full-the-other-empty"),
        pytest.param(
            None, make_node(), [placed(cpu=9)], asking(memory="8Gi"), improvement(100, 50), id="capped-at-full"
        ),
        pytest.param(None, make_node(), [placed()], asking(cpu=1, memory="2Gi"), 75, id="nothing-is-assumed-of-others"),
        pytest.param(
            None,
            make_node(),
            [],
            make_pod().cpu(4).pod_requests(cpu=1, memory="2Gi"),
            75,
            id="pod-level-requests-count",
        ),
        pytest.param(None, make_node().capacity(cpu=4), [], asking(cpu=3), 75, id="one-resource-is-always-even"),
        pytest.param(None, make_node().capacity(cpu=0), [], asking(cpu=3), 75, id="no-resource-is-even"),
        # shares .5, .25, .75: mean .5, deviation sqrt(.125/3) = .204
        pytest.param(
            THREE, GPU_NODE, [], asking(cpu=2, memory="2Gi", **{GPU: 3}), improvement(79, 100), id="three-resources"
        ),
        pytest.param(
            THREE, GPU_NODE, [placed(**{GPU: 4})], asking(cpu=2, memory="4Gi"), improvement(100, 100), id="unasked-gpu"
        ),
        pytest.param(
            THREE,
            make_node(),
            [],
            asking(cpu=2, memory="2Gi", **{GPU: 3}),
            improvement(87, 100),
            id="gpu-the-node-lacks",
        ),
        pytest.param(
            balancing("cpu", STORAGE),
            make_node().capacity(cpu=4, **{STORAGE: "8Gi"}),
            [placed(**{STORAGE: "4Gi"})],
            asking(cpu=2),
            improvement(100, 75),
            id="unasked-ephemeral-storage-counts",
        ),
        pytest.param(balancing("pods", "cpu"), make_node(), [placed()], asking(cpu=2), 75, id="pods-are-no-resource"),
    ],
)
def test_score(args: Any, node: NodeBuilder, pods: list[PodBuilder], pod: PodBuilder, raw: int) -> None:
    others = [make_node("bare").capacity(), make_node("full").capacity(cpu=1, memory="1Gi", **{GPU: 1, STORAGE: 1})]
    rig = Rig([node, *others], pods)
    plugin = rig.plugin("NodeResourcesBalancedAllocation", args)
    assert rig.raw(plugin, pod)["node"] == raw
    names = [spec.name for spec in plugin.args.resources]
    asked = node_resources_balanced_allocation.balanced_request(PodInfo(pod.obj()), names)
    assert node_resources_balanced_allocation.score(asked, rig.info("node")) == raw


@pytest.mark.parametrize(
    ("args", "pod"),
    [
        pytest.param(None, make_pod(), id="best-effort"),
        pytest.param(None, asking(cpu=0, **{GPU: 1}), id="asks-only-for-what-is-not-balanced"),
        pytest.param(balancing(), asking(cpu=1), id="nothing-is-balanced"),
    ],
)
def test_pods_without_requests_are_not_scored(args: Any, pod: PodBuilder) -> None:
    rig = Rig([make_node()])
    assert rig.pre_score(rig.plugin("NodeResourcesBalancedAllocation", args), pod) == Status.skip()


@pytest.mark.parametrize("unit", [1, 10**15, 2 * 10**18, 10**20, 10**400], ids=["1", "1e15", "2e18", "1e20", "1e400"])
def test_score_never_wraps(unit: int) -> None:
    node = make_node().capacity(cpu=4, memory="8Gi", **{GPU: str(4 * unit)})
    rig = Rig([node, make_node("small").capacity(cpu=1, **{GPU: 1})], [placed(cpu=1, **{GPU: str(unit)})])
    plugin = rig.plugin("NodeResourcesBalancedAllocation", balancing("cpu", GPU))
    assert rig.raw(plugin, asking(cpu=1, **{GPU: str(3 * unit)}))["node"] == improvement(75, 100)


def test_score_without_pre_score_names_the_key() -> None:
    rig = Rig([make_node()])
    pod = asking(cpu=1).obj()
    with pytest.raises(CycleStateError, match='"PreScoreNodeResourcesBalancedAllocation"'):
        rig.plugin("NodeResourcesBalancedAllocation").score_rows(
            CycleState(PodInfo(pod)), pod, rig.state.nodes.all_nodes()
        )


def test_no_change_turns_around_what_is_only_scored() -> None:
    assert registered(Rig().plugin("NodeResourcesBalancedAllocation")) == set()
