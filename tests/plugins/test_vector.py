"""The kernels against the plainest definitions of the rules, over random clusters.

The definitions here are written from the rules, one node at a time, on the manifests; they share nothing with the
plugins but the parsing of quantities. The rig asks each plugin in every way (all rows, one row, some, hypothetical
ones).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kubesched.api import codec, kinds
from kubesched.api.quantity import milli_value, value
from kubesched.config.plugin_args import (
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from tests.plugins.rig import Rig

Doc = dict[str, Any]

searching = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# -- clusters

GPU = "example.com/gpu"
AMOUNTS = {
    "cpu": st.sampled_from(["0", "1m", "100m", "250m", "1", "1500m", "2", "4", "7"]),
    "memory": st.sampled_from(["0", "1", "200Mi", "1Gi", "1.5Gi", "2G", "3Gi", "8Gi", "9000000000000000000", "50E"]),
    "ephemeral-storage": st.sampled_from(["0", "1Gi", "10Gi"]),
    GPU: st.sampled_from(["0", "1", "3", "4", "100000000000000000", "3000000000000000000"]),
    "hugepages-2Mi": st.sampled_from(["0", "2Mi", "64Mi"]),
}
KEYS = ["zone", "disk", "cores"]
VALUES = ["a", "b", "5", "12", "", "07"]
TAINT_KEYS = ["a", "b", "node.kubernetes.io/unschedulable"]
EFFECTS = ["NoSchedule", "NoExecute", "PreferNoSchedule"]
IMAGES = ["app", "app:latest", "app:1", "reg:5000/db"]
NAMES = [f"n{number}" for number in range(5)]


def maybe(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Doc]:
    return st.one_of(st.just({}), values.map(lambda drawn: {name: drawn}))


def amounts(extra: dict[str, st.SearchStrategy[Any]] | None = None) -> st.SearchStrategy[Doc]:
    return st.fixed_dictionaries({}, optional=AMOUNTS | (extra or {}))


labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
taints = st.lists(
    st.fixed_dictionaries(
        {"key": st.sampled_from(TAINT_KEYS), "value": st.sampled_from(["", "x"]), "effect": st.sampled_from(EFFECTS)}
    ),
    max_size=3,
)
images = st.lists(
    st.fixed_dictionaries(
        {
            "names": st.lists(st.sampled_from(IMAGES), min_size=1, max_size=2, unique=True),
            # One size a name, as everywhere but on broken nodes; the first node seen decides otherwise.
            "sizeBytes": st.just(700 * 1024 * 1024),
        }
    ),
    max_size=2,
)


@st.composite
def node_documents(draw: st.DrawFn) -> list[Doc]:
    return [
        {
            "metadata": {"name": name, "uid": name, "labels": draw(labels)},
            "spec": {"taints": draw(taints), "unschedulable": draw(st.booleans())},
            "status": {
                "allocatable": draw(amounts({"pods": st.sampled_from(["0", "1", "2", "110"])})),
                "images": draw(images),
            },
        }
        for name in NAMES[: draw(st.integers(1, 5))]
    ]


ports = st.lists(
    st.fixed_dictionaries(
        {"hostPort": st.sampled_from([0, 80, 81])},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP"]),
            "hostIP": st.sampled_from(["0.0.0.0", "10.0.0.1", "10.0.0.2"]),
        },
    ),
    max_size=2,
)
containers = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.just("c"),
            "image": st.sampled_from(IMAGES),
            "ports": ports,
            "resources": amounts().map(lambda drawn: {"requests": drawn}),
        }
    ),
    min_size=1,
    max_size=2,
)
init_containers = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.just("i"),
            "image": st.sampled_from(IMAGES),
            "ports": ports,
            "resources": amounts().map(lambda a: {"requests": a}),
        },
        optional={"restartPolicy": st.just("Always")},
    ),
    max_size=2,
)
tolerations = st.lists(
    st.fixed_dictionaries(
        {"operator": st.sampled_from(["", "Equal", "Exists"])},
        optional={
            "key": st.sampled_from(TAINT_KEYS),
            "value": st.sampled_from(["", "x"]),
            "effect": st.sampled_from(EFFECTS),
        },
    ),
    max_size=3,
)


@st.composite
def requirements(draw: st.DrawFn) -> Doc:
    operator = draw(st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]))
    values: list[str] = []
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from([*VALUES, "zz"]), min_size=1, max_size=3))
    elif operator in ("Gt", "Lt"):
        values = [draw(st.sampled_from(["5", "7", "0", "x"]))]
    return {"key": draw(st.sampled_from([*KEYS, "never"])), "operator": operator, "values": values}


fields = st.fixed_dictionaries(
    {
        "key": st.just("metadata.name"),
        "operator": st.sampled_from(["In", "NotIn"]),
        "values": st.sampled_from([*NAMES, "ghost"]).map(lambda name: [name]),
    }
)
terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(requirements(), max_size=2), "matchFields": st.lists(fields, max_size=2)}
)
node_affinities = st.fixed_dictionaries(
    {},
    optional={
        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
            {"nodeSelectorTerms": st.lists(terms, max_size=3)}
        ),
        "preferredDuringSchedulingIgnoredDuringExecution": st.lists(
            st.fixed_dictionaries({"weight": st.integers(0, 100), "preference": terms}), max_size=3
        ),
    },
)


@st.composite
def pod_documents(draw: st.DrawFn, /, name: str, **spec: Any) -> Doc:
    optional = st.fixed_dictionaries(
        {},
        optional={
            "initContainers": init_containers,
            "overhead": amounts(),
            "nodeSelector": labels,
            "affinity": node_affinities.map(lambda affinity: {"nodeAffinity": affinity}),
        },
    )
    drawn: Doc = draw(optional) | {"containers": draw(containers), "tolerations": draw(tolerations)} | spec
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": drawn}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Doc], list[Doc], Doc]:
    """Nodes, placed pods, a new pod."""
    nodes = draw(node_documents())
    where = st.sampled_from([node["metadata"]["name"] for node in nodes])
    placed = [draw(pod_documents(f"p{number}", nodeName=draw(where))) for number in range(draw(st.integers(0, 5)))]
    return nodes, placed, draw(pod_documents("new"))


Cluster = tuple[list[Doc], list[Doc], Doc]


def rig_of(cluster: Cluster) -> Rig:
    nodes, placed, _ = cluster
    return Rig(
        [codec.from_dict(kinds.NODE, node) for node in nodes], [codec.from_dict(kinds.POD, pod) for pod in placed]
    )


def check_filter(
    cluster: Cluster, plugin: str, rule: Callable[[Doc, list[Doc], Doc], set[str]], args: Any = None
) -> None:
    """`rule` gives the reasons for which a node with these pods does not take the pod; empty if it does."""
    nodes, placed, pod = cluster
    rig = rig_of(cluster)
    said = rig.filter(rig.plugin(plugin, args), codec.from_dict(kinds.POD, pod))
    for node in nodes:
        name = node["metadata"]["name"]
        expected = rule(node, [p for p in placed if p["spec"]["nodeName"] == name], pod)
        answer = said[name]
        assert (set() if answer is None else set(answer.split(": ", 1)[1].split(", "))) == expected


def check_score(cluster: Cluster, plugin: str, rule: Callable[[Doc, list[Doc], Doc], int], args: Any = None) -> None:
    nodes, placed, pod = cluster
    rig = rig_of(cluster)
    scores = rig.raw(rig.plugin(plugin, args), codec.from_dict(kinds.POD, pod))
    for node in nodes:
        name = node["metadata"]["name"]
        assert scores[name] == rule(node, [p for p in placed if p["spec"]["nodeName"] == name], pod)


# -- the rules


def tolerated(pod: Doc, taint: Doc) -> bool:
    return any(
        each.get("effect", "") in ("", taint["effect"])
        and each.get("key", "") in ("", taint["key"])
        and (each["operator"] == "Exists" or each.get("value", "") == taint["value"])
        for each in pod["spec"]["tolerations"]
    )


def cordoned(node: Doc, _: list[Doc], pod: Doc) -> set[str]:
    taint = {"key": "node.kubernetes.io/unschedulable", "value": "", "effect": "NoSchedule"}
    return {"node(s) were unschedulable"} if node["spec"]["unschedulable"] and not tolerated(pod, taint) else set()


def tainted(node: Doc, _: list[Doc], pod: Doc) -> set[str]:
    hard = [taint for taint in node["spec"]["taints"] if taint["effect"] != "PreferNoSchedule"]
    return set() if all(tolerated(pod, taint) for taint in hard) else {"node(s) had untolerated taint(s)"}


def unwelcome(node: Doc, _: list[Doc], pod: Doc) -> int:
    soft = [taint for taint in node["spec"]["taints"] if taint["effect"] == "PreferNoSchedule"]
    return sum(not tolerated(pod, taint) for taint in soft)


def is_int(text: str) -> bool:
    return text.isdigit()


def holds(requirement: Doc, labels: Doc) -> bool:
    value, wanted = labels.get(requirement["key"]), requirement["values"]
    match requirement["operator"]:
        case "In":
            return value in wanted
        case "NotIn":
            return value not in wanted
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt":
            return value is not None and is_int(value) and int(value) > int(wanted[0])
        case _:
            return value is not None and is_int(value) and int(value) < int(wanted[0])


def is_broken(term: Doc) -> bool:
    return any(r["operator"] in ("Gt", "Lt") and not is_int(r["values"][0]) for r in term.get("matchExpressions", []))


def term_matches(term: Doc, node: Doc) -> bool:
    expressions, of_fields = term.get("matchExpressions", []), term.get("matchFields", [])
    if (not expressions and not of_fields) or is_broken(term):
        return False
    name = node["metadata"]["name"]
    return all(holds(r, node["metadata"]["labels"]) for r in expressions) and all(
        (r["values"][0] == name) == (r["operator"] == "In") for r in of_fields
    )


def affinity_of(pod: Doc) -> Doc:
    affinity: Doc = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return affinity


def unattracted(node: Doc, _: list[Doc], pod: Doc) -> set[str]:
    selector = pod["spec"].get("nodeSelector", {})
    matches = all(node["metadata"]["labels"].get(key) == wanted for key, wanted in selector.items())
    required = affinity_of(pod).get("requiredDuringSchedulingIgnoredDuringExecution")
    if required is not None:
        matches = matches and any(term_matches(term, node) for term in required["nodeSelectorTerms"])
    return set() if matches else {"node(s) didn't match Pod's node affinity/selector"}


def preference(node: Doc, _: list[Doc], pod: Doc) -> int:
    preferred = affinity_of(pod)["preferredDuringSchedulingIgnoredDuringExecution"]
    return sum(each["weight"] for each in preferred if term_matches(each["preference"], node))


def host_ports(pod: Doc) -> list[tuple[str, str, int]]:
    running = [*pod["spec"]["containers"], *(c for c in pod["spec"].get("initContainers", []) if "restartPolicy" in c)]
    return [
        (port.get("hostIP", "0.0.0.0"), port.get("protocol", "TCP"), port["hostPort"])
        for container in running
        for port in container["ports"]
        if port["hostPort"]
    ]


def ports_taken(_: Doc, placed: list[Doc], pod: Doc) -> set[str]:
    for ip, *rest in host_ports(pod):
        for other_ip, *other_rest in (port for other in placed for port in host_ports(other)):
            if rest == other_rest and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                return {"node(s) didn't have free ports for the requested pod ports"}
    return set()


def amount(resource: str, documents: Doc, assumed: int = 0) -> int:
    if resource not in documents:
        return assumed
    return milli_value(documents[resource]) if resource == "cpu" else value(documents[resource])


ASSUMED = {"cpu": 100, "memory": 200 * 1024 * 1024}


def request(resource: str, pod: Doc, *, assume: bool = False) -> int:
    """Amounts drawn are whole, so that summing them rounded is exact."""
    assumed = ASSUMED.get(resource, 0) if assume else 0
    running = sum(amount(resource, c["resources"]["requests"], assumed) for c in pod["spec"]["containers"])
    sidecars = peak = 0
    for container in pod["spec"].get("initContainers", []):
        own = amount(resource, container["resources"]["requests"], assumed)
        if "restartPolicy" in container:
            sidecars += own
            peak = max(peak, sidecars)
        else:
            peak = max(peak, sidecars + own)
    return max(running + sidecars, peak) + amount(resource, pod["spec"].get("overhead", {}))


def capacity(resource: str, node: Doc) -> int:
    return amount(resource, node["status"]["allocatable"])


def lacking(node: Doc, placed: list[Doc], pod: Doc) -> set[str]:
    lacks = {"Too many pods"} if len(placed) + 1 > capacity("pods", node) else set()
    for resource in AMOUNTS:
        asked, used = request(resource, pod), sum(request(resource, other) for other in placed)
        if asked > 0 and asked > capacity(resource, node) - used:
            lacks.add(f"Insufficient {resource}")
    return lacks


def takes_part(resource: str, node: Doc, asked: int) -> bool:
    return capacity(resource, node) > 0 and (resource in ("cpu", "memory", "ephemeral-storage") or asked > 0)


def shares(resources: Iterable[ResourceSpec], node: Doc, placed: list[Doc], pod: Doc) -> list[tuple[int, int, int]]:
    """(weight, what would be in use, capacity) of every resource that takes part."""
    found = []
    for spec in resources:
        asked = request(spec.name, pod, assume=True)
        if takes_part(spec.name, node, asked):
            used = asked + sum(request(spec.name, other, assume=True) for other in placed)
            found.append((spec.weight, min(used, capacity(spec.name, node)), capacity(spec.name, node)))
    return found


def on_line(shape: list[tuple[int, int]], x: int) -> int:
    if x <= shape[0][0]:
        return shape[0][1]
    for (x0, y0), (x1, y1) in pairwise(shape):
        if x <= x1:
            return y0 + math.trunc(Fraction((y1 - y0) * (x - x0), x1 - x0))
    return shape[-1][1]


def fit_score(args: NodeResourcesFitArgs) -> Callable[[Doc, list[Doc], Doc], int]:
    strategy = args.scoring_strategy

    def score(node: Doc, placed: list[Doc], pod: Doc) -> int:
        parts = shares(strategy.resources, node, placed, pod)
        if strategy.type == "LeastAllocated":
            points = [(weight, (whole - used) * 100 // whole) for weight, used, whole in parts]
        else:
            points = [(weight, used * 100 // whole) for weight, used, whole in parts]
        if strategy.requested_to_capacity_ratio is not None:
            shape = [(p.utilization, p.score * 10) for p in strategy.requested_to_capacity_ratio.shape]
            points = [(weight, scored) for weight, percent in points if (scored := on_line(shape, percent)) > 0]
        if not points:
            return 0
        mean = Fraction(sum(w * p for w, p in points), sum(w for w, _ in points))
        return math.floor(mean + Fraction(1, 2)) if strategy.type == "RequestedToCapacityRatio" else math.floor(mean)

    return score


def balance_score(resources: tuple[ResourceSpec, ...]) -> Callable[[Doc, list[Doc], Doc], int]:
    def evenness(fractions: list[float]) -> int:
        if len(fractions) < 2:
            return 100
        if len(fractions) == 2:
            deviation = abs((fractions[0] - fractions[1]) / 2)
        else:
            total = 0.0
            for each in fractions:
                total = total + each
            mean, squares = total / len(fractions), 0.0
            for each in fractions:
                squares = squares + (each - mean) * (each - mean)
            deviation = math.sqrt(squares / len(fractions))
        return int((1 - deviation) * 100)

    def score(node: Doc, placed: list[Doc], pod: Doc) -> int:
        before, after = [], []
        for spec in resources:
            asked, whole = request(spec.name, pod), capacity(spec.name, node)
            if takes_part(spec.name, node, asked):
                used = sum(request(spec.name, other) for other in placed)
                before.append(min(used / whole, 1.0))
                after.append(min((used + asked) / whole, 1.0))
        return 50 + (50 + evenness(after) - evenness(before)) // 2

    return score


# -- the tests


@searching
@given(clusters())
def test_node_unschedulable(cluster: Cluster) -> None:
    check_filter(cluster, "NodeUnschedulable", cordoned)


@searching
@given(clusters())
def test_taint_toleration(cluster: Cluster) -> None:
    check_filter(cluster, "TaintToleration", tainted)
    check_score(cluster, "TaintToleration", unwelcome)


@searching
@given(clusters())
def test_node_affinity(cluster: Cluster) -> None:
    _, _, pod = cluster
    required = affinity_of(pod).get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    narrowed = [[r["values"][0] for r in term.get("matchFields", []) if r["operator"] == "In"] for term in required]
    if not (required and all(len(set(names)) > 1 for names in narrowed)):  # else PreFilter rejects: names conflict
        check_filter(cluster, "NodeAffinity", unattracted)
    preferred = affinity_of(pod).get("preferredDuringSchedulingIgnoredDuringExecution")
    if preferred and not any(each["weight"] and is_broken(each["preference"]) for each in preferred):
        check_score(cluster, "NodeAffinity", preference)


@searching
@given(clusters())
def test_node_ports(cluster: Cluster) -> None:
    check_filter(cluster, "NodePorts", ports_taken)


@searching
@given(clusters())
def test_node_resources_fit(cluster: Cluster) -> None:
    check_filter(cluster, "NodeResourcesFit", lacking)


@st.composite
def fit_args(draw: st.DrawFn) -> NodeResourcesFitArgs:
    names = draw(st.lists(st.sampled_from(list(AMOUNTS)), min_size=1, max_size=4, unique=True))
    resources = tuple(ResourceSpec(name, draw(st.integers(1, 100))) for name in names)
    type = draw(st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]))
    ratio = None
    if type == "RequestedToCapacityRatio":
        utilizations = sorted(draw(st.lists(st.integers(0, 100), min_size=1, max_size=4, unique=True)))
        shape = tuple(UtilizationShapePoint(x, draw(st.integers(0, 10))) for x in utilizations)
        ratio = RequestedToCapacityRatioParam(shape)
    return NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type, resources, ratio))


@searching
@given(clusters(), fit_args())
def test_node_resources_fit_strategies(cluster: Cluster, args: NodeResourcesFitArgs) -> None:
    check_score(cluster, "NodeResourcesFit", fit_score(args), args)


@searching
@given(clusters(), st.lists(st.sampled_from(list(AMOUNTS)), min_size=1, max_size=5, unique=True))
def test_node_resources_balanced_allocation(cluster: Cluster, names: list[str]) -> None:
    resources = tuple(ResourceSpec(name, 1) for name in names)
    if any(request(name, cluster[2]) for name in names):
        args = NodeResourcesBalancedAllocationArgs(resources)
        check_score(cluster, "NodeResourcesBalancedAllocation", balance_score(resources), args)


@searching
@given(clusters())
def test_image_locality(cluster: Cluster) -> None:
    nodes = cluster[0]

    def has(node: Doc, name: str) -> bool:
        return any(name in image["names"] for image in node["status"]["images"])

    def score(node: Doc, _: list[Doc], pod: Doc) -> int:
        mib, total = 1024 * 1024, 0
        running = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", [])]
        for container in running:
            name = container["image"] if ":" in container["image"].split("/")[-1] else f"{container['image']}:latest"
            if has(node, name):
                spread = sum(has(other, name) for other in nodes) / len(nodes)
                total += int(float(700 * mib) * spread)
        top = 1000 * mib * len(running)
        return 100 * (min(max(total, 23 * mib), top) - 23 * mib) // (top - 23 * mib)

    check_score(cluster, "ImageLocality", score)
