"""Manifests that make no sense: each is taken for what an API server would take it for, or refused in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched import Cluster
from kubesched.api.errors import KubeschedError
from kubesched.framework import Plugin, Status
from kubesched.manifests import ManifestError
from tests.build import make_node, make_pod

NODE = make_node("n1").label("zone", "a").capacity(cpu="4", memory="8Gi", pods="110").dict()
OTHER = make_node("n2").capacity(cpu="4", memory="8Gi", pods="110").dict()


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def asking(cpu: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "resources": {"requests": {"cpu": cpu}}}])


def spread(**fields: Any) -> dict[str, Any]:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}
    return pod(topologySpreadConstraints=[constraint])


def required(kind: str, **term: Any) -> dict[str, Any]:
    return pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone", **term}]}})


def wanting(operator: str, values: Any, key: str = "zone") -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]
    node_affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(affinity={"nodeAffinity": node_affinity})


BAD_OPERATOR = {"matchExpressions": [{"key": "a", "operator": "Bogus", "values": ["x"]}]}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {"volumeName": "gone", "resources": {"requests": {"storage": "1Gi"}}},
}
USING = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])

#: What `explain` says about the pod p, in part; "" for one that fits.
TAKEN: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a cpu of 1e400": ([NODE, asking("1e400")], "1 Insufficient cpu"),
    "a cpu of a million digits": ([NODE, asking("1e1000000")], "1 Insufficient cpu"),
    "a cpu that rounds up to the least there is": ([NODE, asking("1e-400")], ""),
    "no cpu": ([NODE, asking(None)], ""),
    "nulls in lists": ([NODE, pod(containers=[None], volumes=[None], tolerations=[None], schedulingGates=[None])], ""),
    "nulls everywhere": ([NODE, pod(affinity=None, nodeSelector={"a": None}, priority=None, overhead=None)], ""),
    "no spec": ([NODE, {**pod(), "spec": None}], ""),
    "a node without status": ([{**NODE, "status": None}, pod()], "1 Insufficient cpu, 1 Too many pods"),
    "a node with 500 taints, tolerated by 10,000": (
        [
            {**NODE, "spec": {"taints": [{"key": f"k{n}", "effect": "NoSchedule"} for n in range(500)]}},
            pod(tolerations=[{"key": f"k{n}", "operator": "Exists"} for n in range(10_000)]),
        ],
        "",
    ),
    "taints of no kind": ([{**NODE, "spec": {"taints": [{"key": "k", "effect": "Bogus"}, {}]}}, pod()], ""),
    "500 containers": ([NODE, pod(containers=[{"name": f"c{number}"} for number in range(500)])], ""),
    "a name with a snowman": ([NODE, {**pod(), "metadata": {"name": "p", "labels": {"☃\n": "\u202e\n"}}}], ""),
    "an object of 5 MB": ([NODE, {**pod(), "metadata": {"name": "p", "annotations": {"x": "y" * 5_000_000}}}], ""),
    "an operator that is none": ([NODE, wanting("Bogus", ["a"])], "didn't match Pod's node affinity"),
    "a number of 400 digits": ([NODE, wanting("Gt", ["9" * 400])], "didn't match Pod's node affinity"),
    "values that are null": ([NODE, wanting("In", None)], "didn't match Pod's node affinity"),
    "affinity with a bad operator": ([NODE, required("podAffinity", labelSelector=BAD_OPERATOR)], "parsing pod"),
    "anti-affinity with a bad operator": (
        [NODE, required("podAntiAffinity", labelSelector=BAD_OPERATOR)],
        "parsing pod",
    ),
    "a label value with a newline": (
        [NODE, required("podAffinity", labelSelector={"matchLabels": {"a": "b\nc"}})],
        "a valid label must",
    ),
    "a topology that no node has": ([NODE, required("podAffinity", topologyKey="none")], "pod affinity rules"),
    "spreading by a selector that is none": (
        [NODE, OTHER, spread(labelSelector=BAD_OPERATOR)],
        "is not a valid label selector operator",
    ),
    "a skew of 0": ([NODE, OTHER, spread(maxSkew=0)], ""),
    "the highest skew": ([NODE, OTHER, spread(maxSkew=2**31 - 1)], ""),
    "a claim that is not there": ([NODE, USING], 'persistentvolumeclaim "c" not found'),
    "a claim of a volume that is not there": ([NODE, CLAIM, USING], "unbound immediate"),
    "a budget with a bad selector": (
        [
            {**NODE, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "1"}}},
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": "b"},
                "spec": {"selector": BAD_OPERATOR, "minAvailable": "x%"},
            },
            pod("victim", nodeName="n1"),
            pod(priority=5),
        ],
        "Too many pods",
    ),
    "a pod on a node that is not there": ([NODE, pod("other", nodeName="ghost"), pod()], ""),
    "owners in a circle": (
        [
            NODE,
            {**pod(), "metadata": {"name": "p", "ownerReferences": [{"kind": "Pod", "name": "p", "controller": True}]}},
        ],
        "",
    ),
    "times that are none": (
        [NODE, {**pod("v", nodeName="n1"), "status": {"startTime": "yesterday"}}, pod()],
        "",
    ),
}


@pytest.mark.parametrize(("objects", "text"), TAKEN.values(), ids=TAKEN)
def test_what_is_taken(objects: list[dict[str, Any]], text: str) -> None:
    cluster = Cluster(objects)
    said = cluster.explain("p")
    json.dumps(said.to_dict(details=True))
    if text:
        assert text in said.message
    else:
        assert said.fits, said.message
    run = cluster.run()
    assert run.placements.get("default/p", "") in ({"n1", "n2"} if not text or "budget" in str(objects) else {"", "n1"})


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{after}: &{after} [{', '.join(f'*{before}' for _ in range(10))}]\n"
    for before, after in zip("abcdefgh", "bcdefghi", strict=True)
)
REFUSED: dict[str, tuple[Any, str]] = {
    "a negative cpu": ([asking("-1")], "requests[cpu]: must be greater than or equal to 0"),
    "a negative node": ([{**NODE, "status": {"allocatable": {"cpu": "-4"}}}], "must be greater than or equal to 0"),
    "NaN": ([asking(float("nan"))], "requests[cpu]: quantities must match"),
    "a quantity in other digits": ([asking("１")], "requests[cpu]: quantities must match"),
    "twice": ([pod(), pod()], "is already defined in"),
    "no name": ([{**pod(), "metadata": {"name": ""}}], "metadata.name: is missing"),
    "a name with half a character": ([{**pod(), "metadata": {"name": "a\ud800"}}], "metadata.name: is no text"),
    "a weight that does not fit": ([pod(priority=2**70)], "spec.priority: Expected `int` <= 2147483647"),
    "a class that is not there": ([pod(priorityClassName="none")], "no PriorityClass with name none was found"),
    "another kind of kind": ([{**pod(), "kind": 5}], "kind: must be a string"),
    "a list of nothing": ([{"apiVersion": "v1", "kind": "List", "items": [None]}], "this is nothing"),
    "broken YAML": ("kind: [\n", "broken YAML"),
    "aliases in a circle": ("kind: Pod\napiVersion: v1\nmetadata: &m {name: p, labels: *m}\n", "contains itself"),
    "aliases that explode": (BOMB + "kind: Pod\napiVersion: v1\nmetadata: {name: p}\n", "is too large"),
    "nested without end": ("a: " + "[" * 5_000 + "\n", "nesting depth"),
}


@pytest.mark.parametrize(("source", "text"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused(source: Any, text: str) -> None:
    with pytest.raises(ManifestError) as refused:
        Cluster(source)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_mapping_that_contains_itself() -> None:
    circle = pod()
    circle["spec"]["self"] = circle
    with pytest.raises(ManifestError, match="contains itself"):
        Cluster([circle])


def test_more_pods_than_anybody_waits_for() -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}
    spec = {"replicas": 2**31 - 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"}, "spec": spec}
    with pytest.raises(
        KubeschedError, match="ReplicaSet default/web and those before it want 2147483647 pods, more than 1000000"
    ):
        Cluster([NODE, workload])


def test_a_plugin_that_is_available_runs_where_the_configuration_says_so() -> None:
    class Never(Plugin):
        name = "Never"

        def filter(self, state: Any, pod: Any, node: Any) -> Status:
            return Status.unschedulable("never")

    enabled = {"plugins": {"filter": {"enabled": [{"name": "Never"}]}}}
    api = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    objects = [NODE, make_pod("p").dict()]
    assert Cluster(objects, available=[Never]).explain("p").fits
    assert "1 never" in Cluster(objects, {**api, "profiles": [enabled]}, available=[Never]).explain("p").message


def test_what_a_prompt_shows_fits_on_it() -> None:
    cluster = Cluster([NODE, pod("a"), asking("99")])
    assert repr(cluster) == "<Cluster of 1 nodes, 0 pods placed, 2 pending>"
    assert repr(cluster.explain("a")) == "<Explanation default/a: would go to n1>"
    assert repr(cluster.explain("p")) == "<Explanation default/p: 0/1 nodes are available: 1 Insufficient cpu.>"
    run = cluster.run()
    assert repr(run).startswith("<Run 1 placed, 1 pending, ")
    assert "default/a: n1" in str(run).splitlines()
