"""NodeResourcesFit."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import codec, kinds
from kubesched.config.plugin_args import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.framework.cycle_state import CycleState, CycleStateError
from kubesched.framework.events import ActionType, ClusterEvent
from kubesched.plugins import node_resources_fit
from kubesched.plugins.node_resources import is_scalar
from kubesched.state.pod_info import PodInfo
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.rig import QUEUE, SKIP, Rig, hints, registered

GPU, FPGA, PAGES = "example.com/gpu", "vendor.io/fpga", "hugepages-2Mi"


def asking(**amounts: Any) -> PodBuilder:
    return make_pod("new").requests(**amounts)


def placed(name: Any = "old", node: Any = "node", **amounts: Any) -> PodBuilder:
    return make_pod(name).requests(**amounts).node(node)


@pytest.mark.parametrize(
    ("node", "pods", "pod", "expected"),
    [
        pytest.param(make_node(), [], asking(cpu=4, memory="8Gi"), None, id="fills-the-node"),
        pytest.param(
            make_node(), [], asking(cpu="4001m"), "UnschedulableAndUnresolvable: Insufficient cpu", id="never-fits"
        ),
        pytest.param(
            make_node(), [placed(cpu=3)], asking(cpu="1001m"), "Unschedulable: Insufficient cpu", id="not-beside-others"
        ),
        pytest.param(
            make_node(),
            [placed(cpu=3, memory="7Gi")],
            asking(cpu=2, memory="2Gi"),
            "Unschedulable: Insufficient cpu, Insufficient memory",
            id="two-reasons",
        ),
        pytest.param(
            make_node(),
            [placed(cpu=3)],
            asking(cpu=2, memory="9Gi"),
            "UnschedulableAndUnresolvable: Insufficient cpu, Insufficient memory",
            id="one-unresolvable-is-enough",
        ),
        pytest.param(
            make_node().capacity(cpu=4, memory="8Gi", pods=1),
            [placed()],
            make_pod(),
            "Unschedulable: Too many pods",
            id="pod-count",
        ),
        pytest.param(
            make_node().capacity(cpu=4, memory="8Gi", pods=1),
            [placed(cpu=1)],
            asking(cpu=4),
            "Unschedulable: Insufficient cpu, Too many pods",
            id="pod-count-and-cpu",
        ),
        pytest.param(make_node(), [placed(cpu=9, memory="20Gi")], make_pod(), None, id="asks-nothing-of-a-full-node"),
        pytest.param(make_node(), [placed(cpu=9)], asking(cpu=0, memory="1Gi"), None, id="asks-zero-of-what-is-full"),
        pytest.param(
            make_node(),
            [],
            asking(**{GPU: 1}),
            f"UnschedulableAndUnresolvable: Insufficient {GPU}",
            id="resource-the-node-lacks",
        ),
        pytest.param(make_node(), [], asking(**{GPU: 0}), None, id="zero-of-a-resource-the-node-lacks"),
        pytest.param(
            make_node().capacity(cpu=4, memory="8Gi", **{GPU: "2", PAGES: "4Mi"}),
            [placed(**{GPU: 2, PAGES: "2Mi"})],
            asking(**{GPU: 1, PAGES: "4Mi"}),
            f"Unschedulable: Insufficient {GPU}, Insufficient {PAGES}",
            id="scalar-resources",
        ),
        pytest.param(
            make_node().capacity(cpu=4, memory="8Gi", **{"ephemeral-storage": "10Gi"}),
            [placed(**{"ephemeral-storage": "9Gi"})],
            asking(**{"ephemeral-storage": "2Gi"}),
            "Unschedulable: Insufficient ephemeral-storage",
            id="ephemeral-storage",
        ),
        pytest.param(
            make_node(),
            [placed(cpu=3)],
            make_pod().cpu("500m").overhead(cpu="501m"),
            "Unschedulable: Insufficient cpu",
            id="overhead-counts",
        ),
        pytest.param(
            make_node(),
            [],
            make_pod().cpu("500m").pod_requests(cpu=5),
            "UnschedulableAndUnresolvable: Insufficient cpu",
            id="pod-level-requests-count",
        ),
        pytest.param(
            make_node(),
            [make_pod("old").cpu(1).pod_requests(cpu=3).node("node")],
            asking(cpu=2),
            "Unschedulable: Insufficient cpu",
            id="pod-level-requests-of-placed-pods",
        ),
    ],
)
def test_filter(node: NodeBuilder, pods: list[PodBuilder], pod: PodBuilder, expected: str | None) -> None:
    others = {GPU: "9", PAGES: "1Gi", "ephemeral-storage": "1Ti"}
    rig = Rig([node, make_node("huge").capacity(cpu=99, memory="1Ti", **others)], pods)
    assert rig.filter(rig.plugin("NodeResourcesFit"), pod) == {"node": expected, "huge": None}
    lacks = node_resources_fit.insufficient(PodInfo(pod.obj()), rig.info("node"))
    assert sorted(lack.reason for lack in lacks) == ([] if expected is None else expected.split(": ")[1].split(", "))


def test_filter_tells_all_combinations_apart() -> None:
    """Each node lacks another subset of three resources and of room for a pod."""
    nodes, pods, expected = [], [], {}
    for bits in range(16):
        cpu, memory, gpu, full = (bool(bits >> k & 1) for k in range(4))
        name = f"n{bits}"
        nodes.append(make_node(name).capacity(cpu=2, memory="2Gi", pods=1 if full else 9, **{GPU: 2}))
        pods.append(
            placed(f"p{bits}", name, cpu=2 if cpu else 1, memory="2Gi" if memory else "1Gi", **{GPU: 2 if gpu else 1})
        )
        reasons = ["Insufficient cpu"] * cpu + [f"Insufficient {GPU}"] * gpu + ["Insufficient memory"] * memory
        reasons += ["Too many pods"] * full
        expected[name] = f"Unschedulable: {', '.join(reasons)}" if reasons else None
    rig = Rig(nodes, pods)
    assert rig.filter(rig.plugin("NodeResourcesFit"), asking(cpu=1, memory="1Gi", **{GPU: 1})) == expected


def test_filter_with_more_resources_than_codes_can_be_counted_for() -> None:
    names = [f"example.com/r{number}" for number in range(40)]
    rig = Rig(
        [
            make_node("none"),
            make_node("all").capacity(cpu=4, memory="8Gi", **dict.fromkeys(names, 1)),
            make_node("most").capacity(cpu=4, memory="8Gi", **dict.fromkeys(names[:-1], 1)),
        ]
    )
    answers = rig.filter(rig.plugin("NodeResourcesFit"), asking(**dict.fromkeys(names, 1)))
    assert answers["all"] is None
    assert answers["most"] == f"UnschedulableAndUnresolvable: Insufficient {names[-1]}"
    assert (
        answers["none"]
        == f"UnschedulableAndUnresolvable: {', '.join(sorted(f'Insufficient {name}' for name in names))}"
    )


@pytest.mark.parametrize(
    ("capacity", "used", "asked", "expected"),
    [
        pytest.param("8Ei", "0", "8Ei", None, id="the-most-that-binary-suffixes-say"),
        pytest.param("20E", "15E", "5E", None, id="beyond-64-bits-exactly"),
        pytest.param("20E", "15E", 5 * 10**18 + 1, "Unschedulable", id="beyond-64-bits-one-too-many"),
        pytest.param("20E", "0", "21E", "UnschedulableAndUnresolvable", id="beyond-64-bits-unresolvable"),
        pytest.param("8Gi", "0", "100E", "UnschedulableAndUnresolvable", id="absurd-request"),
        pytest.param("8Gi", "100E", "1", "Unschedulable", id="absurdly-over-committed"),
    ],
)
def test_filter_never_wraps(capacity: str, used: str, asked: Any, expected: str | None) -> None:
    rig = Rig(
        [make_node().capacity(cpu=4, memory=capacity), make_node("small").capacity(cpu=4, memory="1")],
        [placed(memory=used)],
    )
    answers = rig.filter(rig.plugin("NodeResourcesFit"), asking(memory=asked))
    assert answers["node"] == (expected and f"{expected}: Insufficient memory")


def test_filter_without_pre_filter_names_the_key() -> None:
    rig = Rig([make_node()])
    pod = asking(cpu=1).obj()
    with pytest.raises(CycleStateError, match='reading "PreFilterNodeResourcesFit" from cycleState: not found'):
        rig.plugin("NodeResourcesFit").filter_rows(CycleState(PodInfo(pod)), pod, rig.state.nodes.all_nodes())


def test_details_give_the_numbers() -> None:
    rig = Rig([make_node().capacity(cpu=4, memory="8Gi", pods=1)], [placed(cpu="3500m")])
    state, pod = rig._cycle(asking(cpu=2, memory="1Gi"))
    assert rig.plugin("NodeResourcesFit").details(state, pod, rig.info("node")) == {
        "pods": {"asked": 1, "used": 1, "capacity": 1},
        "cpu": {"asked": 2000, "used": 3500, "capacity": 4000},
    }


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        pytest.param("example.com/gpu", True, id="extended"),
        pytest.param("hugepages-1Gi", True, id="huge-pages"),
        pytest.param("attachable-volumes-csi", True, id="attachable-volumes"),
        pytest.param("kubernetes.io/batch-cpu", True, id="prefixed-native"),
        pytest.param("pods", False, id="pods"),
        pytest.param("storage", False, id="storage"),
        pytest.param("cpu", False, id="cpu"),
    ],
)
def test_scalar_resources(name: str, scalar: bool) -> None:
    assert is_scalar(name) is scalar


# -- args


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        pytest.param(
            NodeResourcesFitArgs(), f"Insufficient {GPU}, Insufficient {FPGA}, Insufficient {PAGES}", id="none"
        ),
        pytest.param(
            NodeResourcesFitArgs(ignored_resources=(GPU,)), f"Insufficient {FPGA}, Insufficient {PAGES}", id="by-name"
        ),
        pytest.param(
            NodeResourcesFitArgs(ignored_resource_groups=("vendor.io",)),
            f"Insufficient {GPU}, Insufficient {PAGES}",
            id="by-group",
        ),
        pytest.param(
            NodeResourcesFitArgs(ignored_resources=(GPU, FPGA, PAGES)), f"Insufficient {PAGES}", id="only-extended-ones"
        ),
    ],
)
def test_ignored_resources(args: NodeResourcesFitArgs, expected: str) -> None:
    rig = Rig([make_node()])
    pod = asking(**{GPU: 1, FPGA: 1, PAGES: "2Mi"})
    said = rig.filter(rig.plugin("NodeResourcesFit", args), pod)["node"]
    assert said == f"UnschedulableAndUnresolvable: {', '.join(sorted(expected.split(', ')))}"


def strategy(type: str, shape: Any = None, **weights: Any) -> NodeResourcesFitArgs:
    resources = tuple(ResourceSpec(name, weight) for name, weight in (weights or {"cpu": 1, "memory": 1}).items())
    ratio = None
    if shape is not None:
        ratio = RequestedToCapacityRatioParam(tuple(UtilizationShapePoint(*point) for point in shape))
    return NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type, resources, ratio))


LEAST, MOST, RATIO = "LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"
BOTH = {"cpu": 1, "memory": 1}
BIN_PACKING = [(0, 0), (100, 10)]


@pytest.mark.parametrize(
    ("args", "node", "pods", "pod", "raw"),
    [
        # 4 cpu, 8 GiB; by hand: (capacity - requested) * 100 // capacity each.
        pytest.param(strategy(LEAST), make_node(), [], asking(cpu=1, memory="4Gi"), (75 + 50) // 2, id="least"),
        pytest.param(
            strategy(LEAST),
            make_node(),
            [placed(cpu=1, memory="1Gi")],
            asking(cpu=1, memory="1Gi"),
            (50 + 75) // 2,
            id="least-beside-others",
        ),
        pytest.param(
            strategy(LEAST),
            make_node(),
            [placed(cpu=5)],
            asking(cpu=1, memory="4Gi"),
            (0 + 47) // 2,
            id="least-over-full-scores-0",
        ),
        pytest.param(
            strategy(LEAST, cpu=3, memory=1),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi"),
            (3 * 75 + 50) // 4,
            id="least-weights",
        ),
        pytest.param(strategy(LEAST), make_node(), [], make_pod(), (97 + 97) // 2, id="least-100m-and-200mi-assumed"),
        pytest.param(
            strategy(LEAST), make_node(), [], asking(cpu=0, memory="4Gi"), (100 + 50) // 2, id="least-a-zero-is-named"
        ),
        pytest.param(
            strategy(LEAST),
            make_node(),
            [placed(), placed("b"), placed("c")],
            make_pod(),
            (90 + 90) // 2,
            id="least-assumed-of-placed-pods",
        ),
        pytest.param(
            strategy(LEAST),
            make_node(),
            [],
            make_pod().pod_requests(cpu=4, memory="8Gi"),
            97,
            id="least-pod-level-requests-do-not-count",
        ),
        pytest.param(
            strategy(LEAST),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi").overhead(cpu=1),
            (50 + 50) // 2,
            id="least-overhead-counts",
        ),
        pytest.param(strategy(MOST), make_node(), [], asking(cpu=1, memory="4Gi"), (25 + 50) // 2, id="most"),
        pytest.param(
            strategy(MOST),
            make_node(),
            [placed(cpu=5)],
            asking(cpu=1, memory="4Gi"),
            (100 + 52) // 2,
            id="most-over-full-scores-100",
        ),
        pytest.param(
            strategy(MOST, cpu=1, **{GPU: 5}), make_node(), [], asking(cpu=1), 25, id="most-unasked-gpu-left-out"
        ),
        pytest.param(
            strategy(MOST, cpu=1, **{GPU: 5}),
            make_node().capacity(cpu=4, memory="8Gi", **{GPU: 8}),
            [placed(**{GPU: 3})],
            asking(cpu=1, **{GPU: 1}),
            (27 + 5 * 50) // 6,
            id="most-asked-gpu",
        ),
        pytest.param(
            strategy(MOST, cpu=1, **{GPU: 5}),
            make_node(),
            [],
            asking(cpu=1, **{GPU: 1}),
            25,
            id="most-gpu-the-node-lacks",
        ),
        pytest.param(
            strategy(MOST, **{"ephemeral-storage": 1}),
            make_node().capacity(cpu=1, **{"ephemeral-storage": "10Gi"}),
            [placed(**{"ephemeral-storage": "2Gi"})],
            make_pod(),
            20,
            id="most-ephemeral-storage-needs-no-request",
        ),
        pytest.param(strategy(MOST, **{GPU: 1}), make_node(), [], asking(cpu=1), 0, id="nothing-to-count-is-0"),
        pytest.param(
            strategy(MOST, pods=1, cpu=1),
            make_node(),
            [placed(cpu=1)],
            asking(cpu=1),
            50,
            id="pods-are-no-resource-to-count",
        ),
        pytest.param(
            strategy(MOST),
            make_node().capacity(memory="8Gi"),
            [],
            asking(cpu=1, memory="4Gi"),
            50,
            id="resource-the-node-lacks-has-no-weight",
        ),
        pytest.param(
            strategy(RATIO, BIN_PACKING),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi"),
            38,
            id="ratio-37.5-is-rounded-up",
        ),
        pytest.param(
            strategy(RATIO, [(0, 10), (100, 0)]),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi"),
            63,
            id="ratio-falling-62.5",
        ),
        pytest.param(
            strategy(RATIO, [(0, 0), (30, 10), (100, 10)]),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi"),
            (83 + 100 + 1) // 2,
            id="ratio-broken-line",
        ),
        pytest.param(
            strategy(RATIO, [(40, 1), (60, 9)]),
            make_node(),
            [],
            asking(cpu=1, memory="4Gi"),
            (10 + 50) // 2,
            id="ratio-flat-outside-the-points",
        ),
        pytest.param(
            strategy(RATIO, [(0, 0), (50, 0), (100, 10)]),
            make_node(),
            [],
            asking(cpu=3, memory="1Gi"),
            50,
            id="ratio-a-score-of-0-has-no-weight",
        ),
        pytest.param(
            strategy(RATIO, [(0, 10), (7, 9), (100, 0)]),
            make_node(),
            [],
            asking(cpu=0, memory="0.4Gi"),
            (100 + 93) // 2 + 1,
            id="ratio-falling-cut-towards-zero",
        ),
        pytest.param(
            strategy(RATIO, BIN_PACKING),
            make_node(),
            [placed(cpu=9, memory="9Gi")],
            asking(cpu=1, memory="1Gi"),
            100,
            id="ratio-over-full-scores-as-full",
        ),
        pytest.param(strategy(RATIO, [(0, 0), (100, 0)]), make_node(), [], asking(cpu=1), 0, id="ratio-nothing-scores"),
    ],
)
def test_score(
    args: NodeResourcesFitArgs, node: NodeBuilder, pods: list[PodBuilder], pod: PodBuilder, raw: int
) -> None:
    rig = Rig([node, make_node("other").capacity(cpu=64, memory="1Ti", **{GPU: 1})], pods)
    assert rig.raw(rig.plugin("NodeResourcesFit", args), pod)["node"] == raw


@pytest.mark.parametrize(
    ("args", "raw"),
    [
        pytest.param(strategy(LEAST, **{FPGA: 1}), 25, id="least"),
        pytest.param(strategy(MOST, **{FPGA: 1}), 75, id="most"),
        pytest.param(strategy(RATIO, BIN_PACKING, **{FPGA: 1}), 75, id="ratio"),
    ],
)
@pytest.mark.parametrize("unit", [1, 10**15, 10**18, 10**20], ids=["small", "1e15", "1e18", "1e20"])
def test_score_never_wraps(args: NodeResourcesFitArgs, raw: int, unit: int) -> None:
    node = make_node().capacity(cpu=4, memory="8Gi", **{FPGA: str(4 * unit)})
    rig = Rig([node, make_node("small").capacity(cpu=4, **{FPGA: 4})], [placed(**{FPGA: str(2 * unit)})])
    assert rig.raw(rig.plugin("NodeResourcesFit", args), asking(**{FPGA: str(unit)}))["node"] == raw


# -- hints


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        pytest.param(placed(cpu=1), QUEUE, id="placed-pod"),
        pytest.param(placed(), QUEUE, id="placed-pod-without-requests-frees-its-place"),
        pytest.param(make_pod("old").cpu(1), SKIP, id="pod-that-was-nowhere"),
        pytest.param(make_pod("old").nominated("node"), QUEUE, id="nominated-pod"),
    ],
)
def test_hints_for_pods_that_go(gone: PodBuilder, hint: object) -> None:
    assert hints(Rig().plugin("NodeResourcesFit"), "Pod", asking(cpu=1), gone, None) == {hint}


def resized(spec_cpu: str, **now: Any) -> PodBuilder:
    return placed(cpu=spec_cpu, memory="1Gi").container_status("c1", actual=now, allocated=now)


@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        pytest.param(asking(cpu=1), resized("1", cpu=2), resized("1", cpu=1), QUEUE, id="gave-back-what-is-asked-for"),
        pytest.param(asking(memory=1), resized("1", cpu=2), resized("1", cpu=1), SKIP, id="gave-back-something-else"),
        pytest.param(asking(cpu=0), resized("1", cpu=2), resized("1", cpu=1), SKIP, id="nothing-of-it-is-asked-for"),
        pytest.param(asking(cpu=1), resized("2", cpu=2), resized("1", cpu=2), SKIP, id="spec-alone-frees-nothing"),
        pytest.param(asking(cpu=1), make_pod("old").cpu(2), make_pod("old").cpu(1), SKIP, id="pod-that-is-nowhere"),
        pytest.param(asking(cpu=3), asking(cpu=5), asking(cpu=3), QUEUE, id="the-pod-itself"),
    ],
)
def test_hints_for_pods_that_shrink(pod: PodBuilder, old: PodBuilder, new: PodBuilder, hint: object) -> None:
    assert hints(Rig().plugin("NodeResourcesFit"), "Pod", pod, old, new) == {hint}


SMALL = make_node().capacity(cpu=1, memory="1Gi")


@pytest.mark.parametrize(
    ("args", "old", "new", "hint"),
    [
        pytest.param(None, None, make_node(), QUEUE, id="large-node-added"),
        pytest.param(None, None, SMALL, SKIP, id="small-node-added"),
        pytest.param(None, None, make_node().capacity(cpu=9, memory="9Gi", pods=None), SKIP, id="no-room-for-pods"),
        pytest.param(None, SMALL, make_node(), QUEUE, id="node-grew"),
        pytest.param(None, make_node(), make_node().capacity(cpu=4, memory="9Gi"), SKIP, id="grew-elsewhere"),
        pytest.param(None, make_node(), make_node().capacity(cpu=3, memory="8Gi"), SKIP, id="shrank"),
        pytest.param(None, make_node(), make_node().capacity(cpu=4, memory="8Gi", pods=200), QUEUE, id="more-pods"),
        pytest.param(None, SMALL, SMALL.copy().capacity(cpu="1500m"), SKIP, id="grew-not-enough"),
    ],
)
def test_hints_for_nodes(args: Any, old: NodeBuilder | None, new: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeResourcesFit", args)
    assert registered(plugin) == {
        ("Pod", "PodDelete|UpdatePodScaleDown"),
        ("Node", "NodeAdd|UpdateNodeAllocatable"),
        ("Node", "NodeUpdateNodeTaint"),
    }
    assert plugin.after_node_change(asking(cpu=2).obj(), old and old.obj(), new.obj()) is hint


def test_hints_for_nodes_know_what_is_ignored() -> None:
    plugin = Rig().plugin("NodeResourcesFit", NodeResourcesFitArgs(ignored_resources=(GPU,)))
    assert plugin.after_node_change(asking(cpu=1, **{GPU: 1}).obj(), None, make_node().obj()) is QUEUE


@pytest.mark.parametrize(
    ("node", "hint"),
    [pytest.param(make_node(), QUEUE, id="would-fit-if-empty"), pytest.param(SMALL, SKIP, id="too-small")],
)
def test_hints_for_taints(node: NodeBuilder, hint: object) -> None:
    plugin = Rig().plugin("NodeResourcesFit")
    assert plugin.after_taint_change(asking(cpu=2).obj(), node.copy().taint("a").obj(), node.obj()) is hint


# -- devices in place of extended resources (feature gate DRAExtendedResource)

DEVICES = {"DRAExtendedResource": True}


class DeviceClassBuilder:
    def __init__(self, name: str, resource: str | None = None) -> None:
        self.document = {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}

    def obj(self) -> Any:
        return codec.from_dict(kinds.DEVICE_CLASS, self.document)


@pytest.mark.parametrize(
    ("features", "resource", "expected"),
    [
        pytest.param(DEVICES, GPU, [None, f"Unschedulable: Insufficient {GPU}"], id="explicit-name"),
        pytest.param(DEVICES, "deviceclass.resource.kubernetes.io/fast", [None, None], id="implicit-name"),
        pytest.param(DEVICES, FPGA, [f"UnschedulableAndUnresolvable: Insufficient {FPGA}"] * 2, id="no-class"),
        pytest.param(
            {},
            GPU,
            [f"UnschedulableAndUnresolvable: Insufficient {GPU}", f"Unschedulable: Insufficient {GPU}"],
            id="gate-off",
        ),
    ],
)
def test_devices_stand_in_where_the_node_has_none(
    features: dict[str, bool], resource: str, expected: list[str | None]
) -> None:
    nodes = [make_node("n1"), make_node("n2").capacity(cpu=4, memory="8Gi", **{GPU: 1})]
    rig = Rig(nodes, [placed(node="n2", **{GPU: 1})], [DeviceClassBuilder("fast", GPU)], features=features)  # type: ignore[list-item]
    assert list(rig.filter(rig.plugin("NodeResourcesFit"), asking(**{resource: 1})).values()) == expected


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        pytest.param(None, DeviceClassBuilder("fast", GPU), QUEUE, id="class-for-the-resource-added"),
        pytest.param(None, DeviceClassBuilder("fast", FPGA), SKIP, id="class-for-another-added"),
        pytest.param(None, DeviceClassBuilder("fast"), SKIP, id="class-without-a-name-added"),
        pytest.param(DeviceClassBuilder("fast"), DeviceClassBuilder("fast", GPU), QUEUE, id="class-gets-the-name"),
        pytest.param(DeviceClassBuilder("fast", GPU), DeviceClassBuilder("fast", GPU), SKIP, id="nothing-new"),
    ],
)
def test_device_class_hints(old: DeviceClassBuilder | None, new: DeviceClassBuilder, hint: object) -> None:
    plugin = Rig(features=DEVICES).plugin("NodeResourcesFit")
    event = ClusterEvent("DeviceClass", ActionType.ADD | ActionType.UPDATE)
    assert event in [each.event for each in plugin.events_to_register()]
    assert hints(plugin, "DeviceClass", asking(**{GPU: 1}), old and old.obj(), new.obj()) == {hint}


def test_any_growth_helps_a_pod_whose_device_the_node_does_not_report() -> None:
    rig = Rig(objects=[DeviceClassBuilder("fast", GPU)], features=DEVICES)  # type: ignore[list-item]
    plugin, node = rig.plugin("NodeResourcesFit"), make_node().obj()
    assert plugin.after_node_change(asking(**{GPU: 1}).obj(), node, node) is QUEUE


def test_devices_stand_in_on_many_nodes() -> None:
    rig = Rig([make_node(f"n{k}") for k in range(12)], [], [DeviceClassBuilder("fast", GPU)], features=DEVICES)  # type: ignore[list-item]
    assert set(rig.filter(rig.plugin("NodeResourcesFit"), asking(**{GPU: 1})).values()) == {None}
