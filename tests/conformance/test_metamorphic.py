"""The recorded cases, told otherwise: what must make no difference, and what must change the answer in a known way.

Each relation rewrites a case and says what the answer to the rewritten one must be, so that the record serves as an
oracle for clusters that nobody recorded. Every relation sees every sixth case.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubesched import Cluster
from kubesched.api import quantity
from tests.conformance import packed
from tests.conformance.compare import differences
from tests.conformance.packed import Case

#: A rewritten case, its `expect` included; None where the relation says nothing about the case.
Relation = Callable[[Case, random.Random], Case | None]

_SHARE = 6
_EXTRA = "zz-extra"


def others_names(case: Case, chance: random.Random) -> Case:
    """Nodes and namespaces have other names, wherever these are spoken of."""
    nodes = {node["metadata"]["name"] for node in _of_kind(case, "Node")}
    namespaces = {obj["metadata"]["namespace"] for obj in _all(case) if "namespace" in obj["metadata"]}
    namespaces |= {obj["metadata"]["name"] for obj in _of_kind(case, "Namespace")}
    names = "|".join(sorted(map(re.escape, nodes | namespaces), key=len, reverse=True))
    spoken_of = re.compile(rf"(?<![\w./-])(?:{names})(?![\w.-])")
    renamed: Case = _rewritten(case, lambda text: spoken_of.sub(lambda name: f"x-{name[0]}", text))
    narrowed = renamed["expect"].get("preFilter", {})
    if narrowed.get("nodeNames"):
        narrowed["nodeNames"] = sorted(narrowed["nodeNames"])
    return renamed


def another_order(case: Case, chance: random.Random) -> Case:
    chance.shuffle(case["objects"])
    return case


def other_spellings(case: Case, chance: random.Random) -> Case:
    """The same quantities, written otherwise."""

    def spelled(value: Any, _: str) -> Any:
        nanos = quantity.nano_value(value)
        spellings: list[Any] = [value, f"{nanos}n", f"{nanos}e-9"]
        spellings += [f"+{nanos // 10**3}u"] if nanos % 10**3 == 0 else []
        spellings += [nanos // 10**9] if nanos % 10**9 == 0 else []
        return chance.choice(spellings)

    return _with_amounts(case, spelled)


def eight_times_as_much(case: Case, chance: random.Random) -> Case | None:
    """Of all but cpu and memory, of which scoring assumes a fixed amount where a container names none."""
    amounts = [amount for amount, name in _amounts(case) if name not in ("cpu", "memory", "pods")]
    if not amounts or any(quantity.nano_value(amount) % 10**9 for amount in amounts):
        return None
    return _with_amounts(
        case,
        lambda value, name: value if name in ("cpu", "memory", "pods") else str(8 * quantity.value(value)),
    )


def defaults_filled_in(case: Case, chance: random.Random) -> Case:
    """As an API server would."""
    for pod in _pods(case):
        spec = pod["spec"]
        for key, value in (("restartPolicy", "Always"), ("terminationGracePeriodSeconds", 30), ("securityContext", {})):
            spec.setdefault(key, value)
        spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
        for container in [*spec.get("containers", ()), *spec.get("initContainers", ())]:
            container.setdefault("resources", {})
            for port in container.get("ports", ()):
                port.setdefault("protocol", "TCP")
        for toleration in spec.get("tolerations", ()):
            toleration.setdefault("operator", "Equal")
        for constraint in spec.get("topologySpreadConstraints", ()):
            constraint.setdefault("nodeAffinityPolicy", "Honor")
            constraint.setdefault("nodeTaintsPolicy", "Ignore")
    for kind in ("PersistentVolume", "PersistentVolumeClaim"):
        for obj in _of_kind(case, kind):
            obj["spec"].setdefault("volumeMode", "Filesystem")
    for storage_class in _of_kind(case, "StorageClass"):
        storage_class.setdefault("volumeBindingMode", "Immediate")
    return case


def nothing_said_as_null(case: Case, chance: random.Random) -> Case:
    for pod in _pods(case):
        for key in ("affinity", "tolerations", "nodeSelector", "volumes", "initContainers", "overhead", "resources"):
            pod["spec"][key] = pod["spec"].get(key) or None
        for key in ("labels", "annotations", "ownerReferences", "deletionTimestamp"):
            pod["metadata"][key] = pod["metadata"].get(key) or None
    return case


def other_priorities(case: Case, chance: random.Random) -> Case:
    """Only how they compare matters."""
    for pod in _pods(case):
        pod["spec"]["priority"] = pod["spec"].get("priority", 0) - 1_000_000
    return case


def pods_that_count_nowhere(case: Case, chance: random.Random) -> Case:
    """Waiting for another scheduler, nominated by it, over, or on a node that is not there."""
    pod = case["pod"]["metadata"]
    for number, node in enumerate(_of_kind(case, "Node")[:4]):
        name = node["metadata"]["name"]
        for what, where, status in (
            ("waits", "", {"phase": "Pending"}),
            ("nominated", "", {"phase": "Pending", "nominatedNodeName": name}),
            ("over", name, {"phase": chance.choice(["Succeeded", "Failed"])}),
            ("lost", "no-such-node", {"phase": "Running"}),
        ):
            case["objects"].append(
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "name": f"{what}-{number}",
                        "namespace": pod.get("namespace", "default"),
                        "uid": f"{_EXTRA}-{what}-{number}",
                        "labels": dict(pod.get("labels") or {}),
                    },
                    "spec": {
                        "schedulerName": "of-somebody-else",
                        "priority": 2_000_000,
                        "nodeName": where,
                        "containers": [
                            {
                                "name": "c",
                                "image": "i",
                                "resources": {"requests": {"cpu": "1000", "memory": "1Ti"}},
                                "ports": [{"containerPort": 80, "hostPort": 80}],
                            }
                        ],
                    },
                    "status": status,
                }
            )
    return another_order(case, chance)


SAME: dict[str, Relation] = {
    relation.__name__.replace("_", "-"): relation
    for relation in (
        others_names,
        another_order,
        other_spellings,
        eight_times_as_much,
        defaults_filled_in,
        nothing_said_as_null,
        other_priorities,
        pods_that_count_nowhere,
    )
}


@pytest.mark.parametrize("relation", SAME.values(), ids=SAME)
def test_told_otherwise_the_answer_is_the_same(relation: Relation) -> None:
    wrong = {}
    judged = 0
    for number, case in enumerate(_share_of(list(SAME.values()).index(relation))):
        told = relation(copy.deepcopy(case), random.Random(number))
        if told is not None:
            judged += 1
            if found := list(differences(_answer(told), told["expect"])):
                wrong[case["name"]] = found
    assert not wrong
    assert judged > 5


@pytest.mark.parametrize("count", [1, 12], ids=["one", "a-dozen"])
def test_nodes_that_take_no_pod_change_nothing_about_the_others(count: int) -> None:
    """But for the number of nodes in messages, and the share of nodes that have an image."""
    wrong = {}
    for number, case in enumerate(_share_of(count)):
        told = copy.deepcopy(case)
        told["objects"] += [_full_node(k) for k in range(count)]
        another_order(told, random.Random(number))
        if found := list(differences(_but_for_extra_nodes(_answer(told)), _but_for_extra_nodes(case["expect"]))):
            wrong[case["name"]] = found
    assert not wrong


#: Plugins that look at nothing but the node itself.
_OWN_NODE_ONLY = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
)


def test_a_node_by_itself_is_judged_as_among_others() -> None:
    wrong = {}
    for case in _share_of(3):
        by_plugin = case["expect"].get("filterByPlugin")
        if by_plugin is None or "error" in case["expect"]:
            continue
        for name in sorted(case["expect"]["filter"])[:2]:
            alone = copy.deepcopy(case)
            alone["objects"] = [
                obj for obj in alone["objects"] if obj["kind"] != "Node" or obj["metadata"]["name"] == name
            ]
            got = _answer(alone)["filterByPlugin"]
            for plugin in _OWN_NODE_ONLY:
                if plugin in by_plugin and got[plugin][name] != by_plugin[plugin][name]:
                    wrong[case["name"], name, plugin] = (got[plugin][name], by_plugin[plugin][name])
    assert not wrong


# -- cases


def _share_of(turn: int) -> list[Case]:
    every = [case for family in packed.families() for case in packed.cases(family)]
    return every[turn % _SHARE :: _SHARE]


def _answer(case: Case) -> Case:
    answer: Case = Cluster(case["objects"], config=case.get("config")).explain(case["pod"]).to_dict()
    return answer


def _all(case: Case) -> list[Any]:
    return [*case["objects"], case["pod"]]


def _of_kind(case: Case, kind: str) -> list[Any]:
    return [obj for obj in case["objects"] if obj["kind"] == kind]


def _pods(case: Case) -> list[Any]:
    return [*_of_kind(case, "Pod"), case["pod"]]


def _full_node(number: int) -> Case:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{_EXTRA}-{number}"},
        "spec": {"unschedulable": True, "taints": [{"key": _EXTRA, "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "0"}},
    }


def _but_for_extra_nodes(shape: Any) -> Any:
    if not isinstance(shape, dict):
        return shape
    left = {
        key: _but_for_extra_nodes(value)
        for key, value in shape.items()
        if not key.startswith(_EXTRA)
        and key not in ("message", "messageWithPreemption", "ImageLocality", "total", "best")
    }
    if "preemption" in left:
        left["preemption"]["status"].pop("reasons", None)  # they count nodes
    return left


# -- rewriting


def _rewritten(doc: Any, rewrite: Callable[[str], str]) -> Any:
    """With each text in it, keys included, put through `rewrite`."""
    if isinstance(doc, dict):
        return {rewrite(key): _rewritten(value, rewrite) for key, value in doc.items()}
    if isinstance(doc, list):
        return [_rewritten(value, rewrite) for value in doc]
    return rewrite(doc) if isinstance(doc, str) else doc


_AMOUNT_LISTS = ("requests", "limits", "allocatable", "capacity", "overhead", "allocatedResources")


def _lists_of_amounts(doc: Any) -> Iterator[dict[str, Any]]:
    if isinstance(doc, dict):
        for key, value in doc.items():
            if key in _AMOUNT_LISTS and isinstance(value, dict):
                yield value
            else:
                yield from _lists_of_amounts(value)
    elif isinstance(doc, list):
        for value in doc:
            yield from _lists_of_amounts(value)


def _amounts(case: Case) -> Iterator[tuple[Any, str]]:
    for obj in (*_pods(case), *_of_kind(case, "Node")):
        for amounts in _lists_of_amounts(obj):
            yield from ((amount, name) for name, amount in amounts.items())


def _with_amounts(case: Case, other: Callable[[Any, str], Any]) -> Case:
    for obj in (*_pods(case), *_of_kind(case, "Node")):
        for amounts in _lists_of_amounts(obj):
            for name, amount in amounts.items():
                amounts[name] = other(amount, name)
    return case
