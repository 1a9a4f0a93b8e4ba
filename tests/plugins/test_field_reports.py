"""Reports from the field about the in-tree plugins: what went wrong elsewhere, with the right outcome.

Ids are the report's. Outcomes marked "differs" are right where kube-scheduler v1.36.2 itself is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import quantity
from kubesched.api.errors import QuantityError
from kubesched.config.plugin_args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from kubesched.framework.plugin import PreFilterResult
from kubesched.framework.status import Code, Status
from tests.build import NodeBuilder, PodBuilder, make_node, make_pod
from tests.harness import Harness
from tests.plugins.rig import QUEUE, Rig, hints

GPU = "example.com/gpu"
ZONE = "topology.kubernetes.io/zone"
MIB = 1024 * 1024


def node(name: Any = "n1", *, cpu: Any = 4, memory: Any = "8Gi", **amounts: Any) -> NodeBuilder:
    return make_node(name).capacity(cpu=cpu, memory=memory, **amounts)


def asking(**amounts: Any) -> PodBuilder:
    return make_pod("incoming").requests(**amounts)


def running(name: Any = "running", on: Any = "n1", **amounts: Any) -> PodBuilder:
    return make_pod(name).requests(**amounts).node(on).phase("Running")


def reasons(rig: Rig, pod: PodBuilder, plugin: str = "NodeResourcesFit") -> dict[str, str | None]:
    """Per node what the plugin says, without the code."""
    return {name: said and said.split(": ")[1] for name, said in rig.filter(rig.plugin(plugin), pod).items()}


# -- RES: resources and quantities


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(asking(memory="50E"), "Insufficient memory", id="BR-01-50E"),
        pytest.param(asking(memory="9223372036854775807"), "Insufficient memory", id="BR-01-largest-int64"),
        pytest.param(asking(memory="100E"), "Insufficient memory", id="BR-01-100E-differs"),
        pytest.param(asking(memory="8Ei"), "Insufficient memory", id="BR-01-8Ei"),
        pytest.param(asking(cpu="9223372036854775807"), "Insufficient cpu", id="BR-02-largest-int64-differs"),
        pytest.param(asking(cpu="10E"), "Insufficient cpu", id="BR-02-10E-differs"),
    ],
)
def test_huge_requests_fit_nowhere(pod: PodBuilder, reason: str) -> None:
    empty, busy = node("n1"), node("n2")
    rig = Rig([empty, busy], [running(on="n2", cpu=1, memory="1Gi")])
    assert reasons(rig, pod) == {"n1": reason, "n2": reason}


@pytest.mark.parametrize(
    "amount", ["50E", "100E", "8Ei", "9223372036854775807"], ids=["BR-01-50E", "BR-01-100E", "BR-01-8Ei", "BR-01-int64"]
)
def test_huge_requests_that_are_placed_leave_nothing(amount: str) -> None:
    """A static pod may ask for the absurd: sums over it do not turn negative either."""
    rig = Rig([node()], [running(memory=amount), running("second", memory=amount)])
    assert reasons(rig, asking(memory="1")) == {"n1": "Insufficient memory"}
    assert rig.raw(rig.plugin("NodeResourcesFit"), asking(cpu=0, memory=0)) == {"n1": 47}


@pytest.mark.parametrize(
    ("spelling", "bytes_wanted"),
    [
        pytest.param("1.2Gi", 1288490189, id="BR-04-1.2Gi"),
        pytest.param("1288490188800m", 1288490189, id="BR-04-1.2Gi-in-thousandths"),
        pytest.param("0.001Mi", 1049, id="BR-04-0.001Mi"),
        pytest.param("100m", 1, id="BR-04-100m-of-memory"),
        pytest.param("1M", 1000000, id="BR-04-1M"),
        pytest.param("1Mi", 1048576, id="BR-04-1Mi"),
        pytest.param("1k", 1000, id="BR-04-1k"),
        pytest.param("1Ki", 1024, id="BR-04-1Ki"),
        pytest.param("1e3", 1000, id="BR-04-1e3"),
        pytest.param("1E3", 1000, id="BR-04-1E3"),
        pytest.param("1E", 10**18, id="BR-04-1E"),
        pytest.param("8Ei", 2**63 - 1, id="BR-04-8Ei-is-capped"),
        pytest.param("100E", 10**20, id="BR-04-100E-is-exact"),
        pytest.param("+5", 5, id="BR-04-plus-sign"),
    ],
)
def test_odd_spellings_of_memory(spelling: str, bytes_wanted: int) -> None:
    """The amount that fits is exactly that; with one byte less the pod does not fit."""
    large, small = node("n1", memory=str(bytes_wanted)), node("n2", memory=str(bytes_wanted - 1))
    assert quantity.value(spelling) == bytes_wanted
    assert reasons(Rig([large, small]), asking(memory=spelling)) == {"n1": None, "n2": "Insufficient memory"}


@pytest.mark.parametrize(
    ("spelling", "milli"),
    [
        pytest.param("0.0001", 1, id="BR-04-cpu-0.0001"),
        pytest.param("0.1", 100, id="BR-04-cpu-0.1"),
        pytest.param("100m", 100, id="BR-04-cpu-100m"),
        pytest.param("1.0005", 1001, id="BR-04-cpu-1.0005"),
        pytest.param("1n", 1, id="BR-04-cpu-1n"),
        pytest.param("1u", 1, id="BR-04-cpu-1u"),
    ],
)
def test_odd_spellings_of_cpu(spelling: str, milli: int) -> None:
    rig = Rig([node("n1", cpu=f"{milli}m"), node("n2", cpu=f"{milli - 1}m")])
    assert reasons(rig, asking(cpu=spelling)) == {"n1": None, "n2": "Insufficient cpu"}


@pytest.mark.parametrize(
    "spelling", ["1K", " 5", "5 ", "", ".", "1..2"], ids=lambda text: f"BR-04-{text.replace(' ', '_') or 'empty'}"
)
def test_what_is_no_quantity(spelling: str) -> None:
    with pytest.raises(QuantityError):
        quantity.value(spelling)


def test_br04_a_minus_sign_is_accepted() -> None:
    assert quantity.value("-5") == -5


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "expected"),
    [
        pytest.param(
            [node(cpu=1, memory="1Gi")],
            [running(cpu=2, memory="2Gi")],
            make_pod("incoming"),
            {"n1": None},
            id="BR-05-best-effort-on-an-over-committed-node",
        ),
        pytest.param([node()], [], asking(**{GPU: 0}), {"n1": None}, id="BR-07-zero-of-what-the-node-lacks"),
        pytest.param([node()], [], asking(**{GPU: 1}), {"n1": f"Insufficient {GPU}"}, id="BR-07-one-of-it"),
        pytest.param(
            [node(**{GPU: 4}).allocatable(**{GPU: 0})],
            [],
            asking(**{GPU: 1}),
            {"n1": f"Insufficient {GPU}"},
            id="BR-07-capacity-is-not-allocatable",
        ),
        pytest.param([node(pods=None)], [], make_pod(), {"n1": "Too many pods"}, id="BR-08-node-without-pods"),
        pytest.param(
            [make_node("n1").no_status()], [], make_pod(), {"n1": "Too many pods"}, id="BR-08-node-without-status"
        ),
        pytest.param(
            [node(pods=2)],
            [running("a").phase("Running").deleting(), running("b")],
            make_pod("incoming"),
            {"n1": "Too many pods"},
            id="BR-14-terminating-pods-still-count",
        ),
    ],
)
def test_what_fits(
    nodes: list[NodeBuilder], pods: list[PodBuilder], pod: PodBuilder, expected: dict[str, str | None]
) -> None:
    assert reasons(Rig(nodes, pods), pod) == expected


async def test_br14_pods_that_are_over_take_no_place() -> None:
    harness = Harness()
    over = [running(phase, cpu=4).phase(phase) for phase in ("Succeeded", "Failed")]
    incoming = asking(cpu=4).obj()
    harness.apply(node(pods=2).obj(), *(pod.obj() for pod in over), incoming)
    await harness.settle()
    assert harness.node_of(incoming) == "n1"


def with_inits(name: str = "incoming") -> PodBuilder:
    return (
        make_pod(name)
        .container("c", requests={"cpu": 1})
        .container("d", requests={"cpu": 1})
        .init_container("a", requests={"cpu": 3})
        .init_container("b", requests={"cpu": 2})
    )


def with_sidecars(*order: str) -> PodBuilder:
    pod = make_pod("incoming").container("main", requests={"cpu": "250m"})
    for which in order:
        match which:
            case "S1":
                pod.sidecar("s1", requests={"cpu": "100m"})
            case "I":
                pod.init_container("i", requests={"cpu": "500m"})
            case "S2":
                pod.sidecar("s2", requests={"cpu": "200m"})
    return pod


@pytest.mark.parametrize(
    ("pod", "resource", "fits_exactly", "one_less"),
    [
        pytest.param(with_inits(), "cpu", "3000m", "2999m", id="BR-10-maximum-not-sum"),
        pytest.param(
            make_pod()
            .container(requests={"cpu": 2, "memory": "4Gi"})
            .init_container(requests={"cpu": 3, "memory": "1Gi"}),
            "cpu",
            "3000m",
            "2999m",
            id="BR-10-per-resource-cpu",
        ),
        pytest.param(
            make_pod()
            .container(requests={"cpu": 2, "memory": "4Gi"})
            .init_container(requests={"cpu": 3, "memory": "1Gi"}),
            "memory",
            4 * 2**30,
            4 * 2**30 - 1,
            id="BR-10-per-resource-memory",
        ),
        pytest.param(with_sidecars("S1", "I", "S2"), "cpu", "600m", "599m", id="BR-11-sidecars-under-later-inits"),
        pytest.param(with_sidecars("I", "S1", "S2"), "cpu", "550m", "549m", id="BR-11-order-matters"),
    ],
)
def test_init_containers(pod: PodBuilder, resource: str, fits_exactly: Any, one_less: Any) -> None:
    rig = Rig([node("n1", **{resource: fits_exactly}), node("n2", **{resource: one_less})])
    assert reasons(rig, pod) == {"n1": None, "n2": f"Insufficient {resource}"}


def test_br10_init_containers_count_as_long_as_the_pod_lives() -> None:
    rig = Rig([node(cpu=3)], [with_inits("running").node("n1").phase("Running")])
    assert reasons(rig, asking(cpu=1)) == {"n1": "Insufficient cpu"}


def resizing(spec_cpu: Any, allocated: Any, actual: Any, *, reason: str = "") -> PodBuilder:
    pod = make_pod("running").container("c", requests={"cpu": spec_cpu}).node("n1").phase("Running")
    pod.container_status("c", actual={"cpu": actual}, allocated={"cpu": allocated})
    return pod.condition("PodResizePending", reason=reason) if reason else pod


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        pytest.param(resizing(1, 3, 3), "Insufficient cpu", id="BR-13-shrinking"),
        pytest.param(resizing(1, 1, 3), "Insufficient cpu", id="BR-13-not-shrunk-yet"),
        pytest.param(resizing(1, 1, 1), None, id="BR-13-shrunk"),
        pytest.param(resizing(3, 1, 1, reason="Deferred"), "Insufficient cpu", id="BR-13-growing-deferred"),
        pytest.param(resizing(3, 1, 1, reason="Infeasible"), None, id="BR-13-growing-infeasible"),
    ],
)
def test_resize(placed: PodBuilder, expected: str | None) -> None:
    assert reasons(Rig([node()], [placed]), asking(cpu=2)) == {"n1": expected}


def test_br13_resize_wakes_who_waits() -> None:
    assert hints(Rig().plugin("NodeResourcesFit"), "Pod", asking(cpu=2), resizing(1, 3, 3), resizing(1, 1, 1)) == {
        QUEUE
    }


# -- SCORE, IMG: scoring

BALANCED = "NodeResourcesBalancedAllocation"


@pytest.mark.parametrize(
    ("nodes", "pods", "pod", "score"),
    [
        pytest.param([node(memory="4Gi")], [], asking(cpu=2, memory="1Gi"), 68, id="BR-16-the-example"),
        pytest.param(
            [node(memory="4Gi")],
            [running(cpu=8, memory="8Gi")],
            asking(cpu=2, memory="1Gi"),
            75,
            id="BR-16-usage-beyond-allocatable-is-full",
        ),
        pytest.param(
            [node(cpu=0, memory="4Gi")], [], asking(cpu=2, memory="1Gi"), 75, id="BR-16-allocatable-0-left-out"
        ),
    ],
)
def test_balance(nodes: list[NodeBuilder], pods: list[PodBuilder], pod: PodBuilder, score: int) -> None:
    rig = Rig(nodes, pods)
    assert rig.raw(rig.plugin(BALANCED), pod) == {"n1": score}


def test_br16_balance_skips_best_effort_pods() -> None:
    rig = Rig([node()])
    assert rig.pre_score(rig.plugin(BALANCED), make_pod()) == Status.skip()


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(asking(cpu=1), {"n1": 25, "n2": 25}, id="BR-17-cpu-alone-decides"),
        pytest.param(asking(cpu=1, **{GPU: 1}), {"n1": (25 + 5 * 62) // 6, "n2": 25}, id="BR-17-asked-for-it-counts"),
    ],
)
def test_resources_that_the_pod_does_not_ask_for(pod: PodBuilder, expected: dict[str, int]) -> None:
    strategy = ScoringStrategy("MostAllocated", (ResourceSpec("cpu", 1), ResourceSpec(GPU, 5)))
    rig = Rig([node("n1", **{GPU: 8}), node("n2")], [running(cpu=0, **{GPU: 4})])
    plugin = rig.plugin("NodeResourcesFit", NodeResourcesFitArgs(scoring_strategy=strategy))
    assert rig.raw(plugin, pod) == expected


@pytest.mark.parametrize(
    ("image", "size_mib", "on", "pod", "expected"),
    [
        pytest.param("x:1", 500, ["n1"], make_pod().image("x:1"), [10, 0, 0, 0], id="BR-19-one-of-four"),
        pytest.param("x:1", 500, ["n1", "n2", "n3", "n4"], make_pod().image("x:1"), [48] * 4, id="BR-19-on-all-four"),
        pytest.param("x:1", 20, ["n1", "n2"], make_pod().image("x:1"), [0] * 4, id="BR-19-20-mib-as-good-as-absent"),
        pytest.param(
            "x:1", 500, ["n1"], make_pod().image("x:1").container(image="y:1"), [5, 0, 0, 0], id="BR-19-two-containers"
        ),
        pytest.param(
            "x:1",
            500,
            ["n1"],
            make_pod().image("x:1").init_container(image="y:1"),
            [5, 0, 0, 0],
            id="BR-19-init-container",
        ),
        pytest.param("v:1", 500, ["n1"], make_pod().image_volume("v:1"), [10, 0, 0, 0], id="BR-19-image-volume"),
        pytest.param("nginx:latest", 500, ["n1"], make_pod().image("nginx"), [10, 0, 0, 0], id="BR-19-untagged"),
    ],
)
def test_image_locality(image: str, size_mib: int, on: list[str], pod: PodBuilder, expected: list[int]) -> None:
    nodes = [make_node(name) for name in ("n1", "n2", "n3", "n4")]
    for each, name in zip(nodes, ("n1", "n2", "n3", "n4"), strict=True):
        if name in on:
            each.image(image, size_mib * MIB)
    rig = Rig(nodes)
    assert list(rig.raw(rig.plugin("ImageLocality"), pod).values()) == expected


SOFT = "PreferNoSchedule"


@pytest.mark.parametrize(
    ("taint_counts", "pod", "raw", "normalized"),
    [
        pytest.param([2, 1, 0], make_pod(), [2, 1, 0], [0, 50, 100], id="BR-20-reversed"),
        pytest.param([0, 0, 0], make_pod(), [0, 0, 0], [100, 100, 100], id="BR-20-all-0-is-all-100"),
        pytest.param([2, 2, 2], make_pod(), [2, 2, 2], [0, 0, 0], id="BR-20-all-2-is-all-0"),
        pytest.param(
            [2, 1, 0],
            make_pod().toleration(operator="Exists", effect="NoSchedule"),
            [2, 1, 0],
            [0, 50, 100],
            id="BR-20-hard-tolerations-do-not-help",
        ),
    ],
)
def test_soft_taints(taint_counts: list[int], pod: PodBuilder, raw: list[int], normalized: list[int]) -> None:
    nodes = []
    for number, count in enumerate(taint_counts, 1):
        nodes.append(make_node(f"n{number}"))
        for taint in range(count):
            nodes[-1].taint(f"t{taint}", effect=SOFT)
    rig = Rig(nodes)
    plugin = rig.plugin("TaintToleration")
    assert list(rig.raw(plugin, pod).values()) == raw
    assert list(rig.normalized(plugin, pod).values()) == normalized


# -- PORT: host ports

PORT_TAKEN = "node(s) didn't have free ports for the requested pod ports"


def on_port(number: int, ip: str | None = None, protocol: str | None = "TCP") -> PodBuilder:
    return make_pod("incoming").host_port(number, protocol=protocol, ip=ip)


@pytest.mark.parametrize(
    ("existing", "incoming", "fits"),
    [
        pytest.param(on_port(8080, "10.0.0.1"), on_port(8080, "10.0.0.2"), True, id="BR-22-a-other-address"),
        pytest.param(on_port(8080, "10.0.0.1"), on_port(8080, "10.0.0.1", "UDP"), True, id="BR-22-b-other-protocol"),
        pytest.param(on_port(8080, "10.0.0.1"), on_port(8080, "0.0.0.0"), False, id="BR-22-c-all-addresses"),
        pytest.param(on_port(8080, "10.0.0.1"), on_port(8080, None, None), False, id="BR-22-d-nothing-given"),
        pytest.param(on_port(8080, "10.0.0.1"), on_port(0, "10.0.0.1"), True, id="BR-22-e-port-0"),
        pytest.param(on_port(8080, "10.0.0.1"), on_port(8080, "10.0.0.1"), False, id="BR-22-f-the-same"),
        pytest.param(on_port(8080, "0.0.0.0"), on_port(8080, "10.0.0.2"), False, id="BR-22-reverse"),
        pytest.param(
            make_pod("e").sidecar(image="a:1").host_port(9000), on_port(9000), False, id="BR-23-port-of-a-sidecar"
        ),
        pytest.param(
            make_pod("e").init_container(image="a:1").host_port(9000),
            on_port(9000),
            True,
            id="BR-23-of-an-init-container",
        ),
    ],
)
def test_host_ports(existing: PodBuilder, incoming: PodBuilder, fits: bool) -> None:
    rig = Rig([node("n1"), node("n2")], [existing.copy().uid("existing").node("n1")])
    assert reasons(rig, incoming, "NodePorts") == {"n1": None if fits else PORT_TAKEN, "n2": None}


# -- NODE: node affinity, taints, names

MISMATCH = "node(s) didn't match Pod's node affinity/selector"


def terms(*documents: dict[str, Any]) -> PodBuilder:
    pod = make_pod("incoming")
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(documents)}}
    pod._in("spec")["affinity"] = {"nodeAffinity": affinity}
    return pod


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


IN_A = {"matchExpressions": [expression("zone", "In", "a")]}


@pytest.mark.parametrize(
    ("pod", "fitting"),
    [
        pytest.param(terms(), [], id="BR-25-no-terms"),
        pytest.param(terms({}), [], id="BR-25-an-empty-term"),
        pytest.param(terms({}, IN_A), ["n1"], id="BR-25-an-empty-term-and-another"),
        pytest.param(terms({"matchExpressions": [], "matchFields": []}), [], id="BR-25-empty-lists"),
        pytest.param(
            terms({"matchExpressions": [expression("cpu", "Gt", "1.5")]}, IN_A),
            ["n1"],
            id="BR-26-parse-errors-are-swallowed",
        ),
        pytest.param(
            terms({"matchExpressions": [expression("zone", "NotIn", "a")]}),
            ["n2", "n3"],
            id="BR-28-not-in-without-the-label",
        ),
        pytest.param(
            terms({"matchExpressions": [expression("zone", "DoesNotExist")]}), ["n3"], id="BR-28-does-not-exist"
        ),
    ],
)
def test_node_affinity(pod: PodBuilder, fitting: list[str]) -> None:
    rig = Rig([make_node("n1").label("zone", "a"), make_node("n2").label("zone", "b"), make_node("n3")])
    expected = {name: None if name in fitting else MISMATCH for name in ("n1", "n2", "n3")}
    assert reasons(rig, pod, "NodeAffinity") == expected


@pytest.mark.parametrize("weight", [pytest.param(1, id="BR-25-empty-term"), pytest.param(0, id="BR-25-weight-0")])
def test_preferences_that_count_nothing(weight: int) -> None:
    rig = Rig([make_node("n1"), make_node("n2")])
    pod = make_pod().preferred_node_affinity(weight, *([("zone", "Exists", ())] if weight == 0 else []))
    assert rig.raw(rig.plugin("NodeAffinity"), pod) == {"n1": 0, "n2": 0}


def test_br26_a_parse_error_in_a_preferred_term_is_an_error() -> None:
    rig = Rig([make_node("n1").label("zone", "a")])
    pod = (
        make_pod().preferred_node_affinity(1, ("zone", "In", ["a"])).preferred_node_affinity(1, ("cpu", "Gt", ["1.5"]))
    )
    status = rig.pre_score(rig.plugin("NodeAffinity"), pod)
    assert status is not None
    assert status.code is Code.ERROR


def test_br29_a_name_that_no_node_has_harms_nobody() -> None:
    rig = Rig([make_node("n1"), make_node("n2"), make_node("n3")])
    plugin, ghost = rig.plugin("NodeAffinity"), make_pod().node_affinity_name("ghost")
    narrowed = rig.pre_filter(plugin, ghost)
    assert isinstance(narrowed, PreFilterResult)
    assert narrowed.node_names == frozenset({"ghost"})
    nowhere = rig.state.nodes.nodes_at([])
    state, pod = rig._cycle(ghost)
    plugin.pre_filter(state, pod, rig.state.nodes.all_nodes())
    for name in ("NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity"):
        answer = (plugin if name == "NodeAffinity" else rig.plugin(name)).filter_rows(state, pod, nowhere)
        assert answer is None or len(answer.why) == 0
    assert reasons(rig, ghost, "NodeAffinity") == dict.fromkeys(("n1", "n2", "n3"), MISMATCH)
    assert reasons(rig, make_pod().node_selector({"kubernetes.io/hostname": "n2"}), "NodeAffinity")["n2"] is None


async def test_br29_a_pod_that_names_no_node_there_is_stops_nobody_else() -> None:
    harness = Harness()
    ghost, normal = make_pod("ghost").node_affinity_name("ghost").obj(), make_pod("normal").obj()
    harness.apply(*(node(name, pods=10).obj() for name in ("n1", "n2", "n3")), ghost, normal)
    await harness.settle()
    assert harness.waits_in(ghost) == "unschedulable"
    assert harness.node_of(normal)
    note = next(event.note for event in harness.port.events if event.regarding.metadata.name == "ghost")
    assert note.startswith("0/3 nodes are available: 3 node(s) didn't satisfy plugin(s) [NodeAffinity].")


UNTOLERATED = "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("pod", "fits"),
    [
        pytest.param(make_pod().toleration(operator="Exists"), True, id="BR-31-exists-without-key"),
        pytest.param(make_pod().toleration(operator="Exists", effect="NoExecute"), False, id="BR-31-other-effect"),
        pytest.param(make_pod().toleration("k", operator="Exists"), True, id="BR-31-key-exists"),
        pytest.param(make_pod().toleration("k", "v"), True, id="BR-31-no-operator-is-equal"),
        pytest.param(make_pod().toleration("k", "", operator="Equal"), False, id="BR-31-equal-to-empty"),
        pytest.param(
            make_pod().toleration("k", "v", operator="Equal", effect=""), True, id="BR-31-empty-effect-is-any"
        ),
        pytest.param(make_pod().toleration(None, "v", operator="Equal"), True, id="BR-31-equal-without-key"),
    ],
)
def test_tolerations(pod: PodBuilder, fits: bool) -> None:
    rig = Rig([make_node("n1").taint("k", "v")])
    assert reasons(rig, pod, "TaintToleration") == {"n1": None if fits else UNTOLERATED}


def test_br31_a_toleration_never_attracts() -> None:
    rig = Rig([make_node("n1").taint("k", "v", SOFT), make_node("n2")])
    plugin = rig.plugin("TaintToleration")
    assert rig.normalized(plugin, make_pod().toleration("k", "v")) == {"n1": 100, "n2": 100}


@pytest.mark.parametrize("seconds", [pytest.param(30, id="BR-32-30s"), pytest.param(0, id="BR-32-0s")])
def test_toleration_seconds_do_not_matter_for_placing(seconds: int) -> None:
    rig = Rig([make_node("n1").taint("foo", effect="NoExecute")])
    pod = make_pod().toleration("foo", operator="Exists", effect="NoExecute", seconds=seconds)
    assert reasons(rig, pod, "TaintToleration") == {"n1": None}
