"""Spreading and inter-pod affinity as plainly as they can be put, and random clusters to try them on.

The definitions follow the rules node by node and pod by pod, on manifests; they share nothing with the plugins. A
`World` is what they look at: nodes, placed pods and the labels of namespaces.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

Doc = dict[str, Any]

HOST, ZONE, RACK = "kubernetes.io/hostname", "topology.kubernetes.io/zone", "rack"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass
class World:
    nodes: dict[str, Doc] = field(default_factory=dict)
    pods: dict[str, Doc] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def pods_on(self, node: Doc) -> list[Doc]:
        return [pod for pod in self.pods.values() if pod["spec"]["nodeName"] == node["metadata"]["name"]]

    def placed(self) -> list[tuple[Doc, Doc]]:
        """Pods on nodes that exist, each with its node."""
        return [(pod, node) for node in self.nodes.values() for pod in self.pods_on(node)]


def labels_of(thing: Doc) -> dict[str, str]:
    labels: dict[str, str] = thing["metadata"].get("labels", {})
    return labels


def selects(selector: Doc | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    return all(_holds(expression, labels) for expression in selector.get("matchExpressions", []))


def _holds(expression: Doc, labels: dict[str, str]) -> bool:
    value = labels.get(expression["key"])
    return {
        "In": value in expression.get("values", []),
        "NotIn": value not in expression.get("values", []),
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[expression["operator"]]


# -- PodTopologySpread


def spread_verdicts(world: World, pod: Doc) -> dict[str, str] | None:
    """Per node "", "skew" or "label"; None if the pod has no hard constraint."""
    constraints = _constraints(pod, "DoNotSchedule")
    if not constraints:
        return None
    domains = []
    for constraint in constraints:
        counts: dict[str, int] = {}
        for node in world.nodes.values():
            if _has_all(node, constraints) and _takes_part(constraint, pod, node):
                value = labels_of(node)[constraint["topologyKey"]]
                counts[value] = counts.get(value, 0) + _matching(world, node, constraint, pod)
        domains.append(counts)
    return {name: _spread_verdict(node, pod, constraints, domains) for name, node in world.nodes.items()}


def _spread_verdict(node: Doc, pod: Doc, constraints: list[Doc], domains: list[dict[str, int]]) -> str:
    for constraint, counts in zip(constraints, domains, strict=True):
        value = labels_of(node).get(constraint["topologyKey"])
        if value is None:
            return "label"
        lowest = min(counts.values(), default=0) if len(counts) >= constraint.get("minDomains", 1) else 0
        itself = int(selects(_selector(constraint, pod), labels_of(pod)))
        if counts.get(value, 0) + itself - lowest > constraint["maxSkew"]:
            return "skew"
    return ""


def spread_scores(world: World, pod: Doc, feasible: list[str]) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised per feasible node; None if the pod has no soft constraint."""
    constraints = _constraints(pod, "ScheduleAnyway")
    if not constraints or not world.nodes:
        return None
    scored = [name for name in feasible if _has_all(world.nodes[name], constraints)]
    totals = dict.fromkeys(scored, 0.0)
    for constraint in constraints:
        key = constraint["topologyKey"]
        values = {labels_of(world.nodes[name])[key] for name in scored}
        weight = math.log((len(scored) if key == HOST else len(values)) + 2)
        for name in scored:
            if key == HOST:
                count = _matching(world, world.nodes[name], constraint, pod)
            else:
                count = sum(
                    _matching(world, node, constraint, pod)
                    for node in world.nodes.values()
                    if _has_all(node, constraints)
                    and _takes_part(constraint, pod, node)
                    and labels_of(node)[key] == labels_of(world.nodes[name])[key]
                )
            totals[name] += count * weight + (constraint["maxSkew"] - 1)
    raw = {name: math.floor(totals[name] + 0.5) if name in totals else 0 for name in feasible}
    low, high = min((raw[name] for name in scored), default=0), max((raw[name] for name in scored), default=0)
    normalized = {
        name: 0 if name not in totals else 100 if high == 0 else 100 * (high + low - raw[name]) // high
        for name in feasible
    }
    return raw, normalized


def _constraints(pod: Doc, when: str) -> list[Doc]:
    return [each for each in pod["spec"].get("topologySpreadConstraints", []) if each["whenUnsatisfiable"] == when]


def _has_all(node: Doc, constraints: list[Doc]) -> bool:
    return all(each["topologyKey"] in labels_of(node) for each in constraints)


def _takes_part(constraint: Doc, pod: Doc, node: Doc) -> bool:
    wanted = pod["spec"].get("nodeSelector", {})
    if constraint.get("nodeAffinityPolicy", "Honor") == "Honor" and not wanted.items() <= labels_of(node).items():
        return False
    tolerated = {each["key"] for each in pod["spec"].get("tolerations", [])}
    taints = {each["key"] for each in node["spec"].get("taints", []) if each["effect"] != "PreferNoSchedule"}
    return constraint.get("nodeTaintsPolicy", "Ignore") == "Ignore" or taints <= tolerated


def _matching(world: World, node: Doc, constraint: Doc, pod: Doc) -> int:
    selector = _selector(constraint, pod)
    if not selector or not (selector.get("matchLabels") or selector.get("matchExpressions")):
        return 0
    return sum(
        other["metadata"]["namespace"] == pod["metadata"]["namespace"]
        and "deletionTimestamp" not in other["metadata"]
        and selects(selector, labels_of(other))
        for other in world.pods_on(node)
    )


def _selector(constraint: Doc, pod: Doc) -> Doc | None:
    """With `matchLabelKeys` in it."""
    selector: Doc | None = constraint.get("labelSelector")
    if selector is None:
        return None
    own = {key: labels_of(pod)[key] for key in constraint.get("matchLabelKeys", []) if key in labels_of(pod)}
    expressions = [*selector.get("matchExpressions", [])]
    expressions += [{"key": key, "operator": "In", "values": [value]} for key, value in own.items()]
    return {"matchLabels": selector.get("matchLabels", {}), "matchExpressions": expressions}


# -- InterPodAffinity


def affinity_verdicts(world: World, pod: Doc) -> dict[str, str] | None:
    """Per node "", "existing", "anti" or "affinity"; None if nothing can reject the pod anywhere."""
    wanted, unwanted = _terms(pod, "podAffinity"), _terms(pod, "podAntiAffinity")
    verdicts = {name: _affinity_verdict(world, pod, node, wanted, unwanted) for name, node in world.nodes.items()}
    repelled = any(
        _matches(world, term, other, pod) and term["topologyKey"] in labels_of(node)
        for other, node in world.placed()
        for term in _terms(other, "podAntiAffinity")
    )
    return verdicts if wanted or unwanted or repelled else None


def _affinity_verdict(world: World, pod: Doc, node: Doc, wanted: list[Doc], unwanted: list[Doc]) -> str:
    if wanted:
        partners = [
            (other, where)
            for other, where in world.placed()
            if all(_matches(world, term, pod, other) for term in wanted)
        ]
        if any(term["topologyKey"] not in labels_of(node) for term in wanted):
            return "affinity"
        exist = any(term["topologyKey"] in labels_of(where) for _, where in partners for term in wanted)
        first = not exist and all(_matches(world, term, pod, pod) for term in wanted)
        near = all(any(_same_domain(term, where, node) for _, where in partners) for term in wanted)
        if not near and not first:
            return "affinity"
    for other, where in world.placed():
        if any(_matches(world, term, pod, other) and _same_domain(term, where, node) for term in unwanted):
            return "anti"
    for other, where in world.placed():
        for term in _terms(other, "podAntiAffinity"):
            if _matches(world, term, other, pod) and _same_domain(term, where, node):
                return "existing"
    return ""


def affinity_scores(
    world: World, pod: Doc, feasible: list[str], *, hard_weight: int, ignore_existing: bool
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Raw and normalised per feasible node; None if no term has a say anywhere."""
    own = [(term, pod, 1) for term in _preferred(pod, "podAffinity")]
    own += [(term, pod, -1) for term in _preferred(pod, "podAntiAffinity")]
    if ignore_existing and not own:
        return None
    pulls: list[tuple[str, str, int]] = []
    for other, where in world.placed():
        said = [(term["podAffinityTerm"], term["weight"] * sign, pod, other) for term, _, sign in own]
        for sort, sign in (("podAffinity", 1), ("podAntiAffinity", -1)):
            said += [(each["podAffinityTerm"], each["weight"] * sign, other, pod) for each in _preferred(other, sort)]
        if hard_weight:
            said += [(term, hard_weight, other, pod) for term in _terms(other, "podAffinity")]
        for term, weight, owner, target in said:
            key = term["topologyKey"]
            if _matches(world, term, owner, target) and key in labels_of(where):
                pulls.append((key, labels_of(where)[key], weight))
    if not pulls:
        return None
    raw = {
        name: sum(weight for key, value, weight in pulls if labels_of(world.nodes[name]).get(key) == value)
        for name in feasible
    }
    low, high = min(raw.values()), max(raw.values())
    normalized = {name: int(100.0 * ((score - low) / (high - low))) if high > low else 0 for name, score in raw.items()}
    return raw, normalized


def _terms(pod: Doc, sort: str) -> list[Doc]:
    terms: list[Doc] = pod["spec"].get("affinity", {}).get(sort, {}).get(REQUIRED, [])
    return terms


def _preferred(pod: Doc, sort: str) -> list[Doc]:
    terms: list[Doc] = pod["spec"].get("affinity", {}).get(sort, {}).get(PREFERRED, [])
    return terms


def _matches(world: World, term: Doc, owner: Doc, other: Doc) -> bool:
    namespace = other["metadata"]["namespace"]
    names, selector = term.get("namespaces", []), term.get("namespaceSelector")
    if not names and selector is None:
        names = [owner["metadata"]["namespace"]]
    if namespace not in names and not selects(selector, world.namespaces.get(namespace, {})):
        return False
    return selects(term.get("labelSelector"), labels_of(other))


def _same_domain(term: Doc, a: Doc, b: Doc) -> bool:
    key = term["topologyKey"]
    return key in labels_of(a) and labels_of(a)[key] == labels_of(b).get(key)


# -- random clusters

_NODES = [f"n{number}" for number in range(7)]
_NAMESPACES = ["default", "other", "third"]


class Dice:
    """Everything random comes from here; the same seed gives the same cluster and the same history."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def node(self) -> Doc:
        name = self.random.choice(_NODES)
        labels = {HOST: name} if self.chance(0.9) else {}
        if self.chance(0.8):
            labels[ZONE] = self.random.choice(["a", "b", "c", ""])
        if self.chance(0.5):
            labels[RACK] = self.random.choice(["1", "2"])
        if self.chance(0.5):
            labels["pool"] = self.random.choice(["x", "y"])
        taints = [{"key": "odd", "effect": self.random.choice(["NoSchedule", "PreferNoSchedule"])}]
        return {
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints} if self.chance(0.3) else {},
            "status": {},
        }

    def pod(self, name: str) -> Doc:
        spec: Doc = {"containers": [{"name": "main"}]}
        if self.chance(0.6):
            spec["topologySpreadConstraints"] = [self._constraint() for _ in range(self.random.randint(1, 3))]
        affinity = {
            sort: {
                REQUIRED: [self._term() for _ in range(self.random.choice([0, 0, 1, 2]))],
                PREFERRED: [
                    {"weight": self.random.randint(1, 100), "podAffinityTerm": self._term()}
                    for _ in range(self.random.choice([0, 0, 1, 2]))
                ],
            }
            for sort in ("podAffinity", "podAntiAffinity")
            if self.chance(0.5)
        }
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.2):
            spec["nodeSelector"] = {"pool": self.random.choice(["x", "y"])}
        if self.chance(0.3):
            spec["tolerations"] = [{"key": "odd", "operator": "Exists"}]
        metadata: Doc = {
            "name": name,
            "uid": f"uid-{name}",
            "namespace": self.random.choice(_NAMESPACES[:2]),
            "labels": self._labels(),
        }
        if self.chance(0.1):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"metadata": metadata, "spec": spec, "status": {}}

    def node_name(self) -> str:
        return self.random.choice([*_NODES, "unknown"])

    def namespace(self) -> tuple[str, dict[str, str]]:
        return self.random.choice(_NAMESPACES), {"team": self.random.choice("st")} if self.chance(0.7) else {}

    def _labels(self) -> dict[str, str]:
        labels = {"app": self.random.choice("uvw")} if self.chance(0.9) else {}
        if self.chance(0.5):
            labels["tier"] = self.random.choice("12")
        return labels

    def _constraint(self) -> Doc:
        constraint: Doc = {
            "maxSkew": self.random.randint(1, 3),
            "topologyKey": self.random.choice([HOST, ZONE, ZONE, RACK]),
            "whenUnsatisfiable": self.random.choice(["DoNotSchedule", "ScheduleAnyway"]),
        }
        for key, values in (
            ("minDomains", [1, 2, 4]),
            ("nodeAffinityPolicy", ["Honor", "Ignore"]),
            ("nodeTaintsPolicy", ["Honor", "Ignore"]),
            ("matchLabelKeys", [["tier"], ["tier", "absent"]]),
        ):
            if self.chance(0.3):
                constraint[key] = self.random.choice(values)
        selector = self._selector()
        return constraint if selector is None else constraint | {"labelSelector": selector}

    def _term(self) -> Doc:
        term: Doc = {"topologyKey": self.random.choice([HOST, ZONE, ZONE, RACK])}
        selector = self._selector()
        if selector is not None:
            term["labelSelector"] = selector
        if self.chance(0.3):
            term["namespaces"] = self.random.sample(_NAMESPACES, self.random.randint(1, 2))
        if self.chance(0.3):
            term["namespaceSelector"] = self.random.choice(
                [
                    {},
                    {"matchLabels": {"team": "s"}},
                    {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["s"]}]},
                    {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                ]
            )
        return term

    def _selector(self) -> Doc | None:
        return self.random.choice(
            [
                None,
                {},
                {"matchLabels": {"app": self.random.choice("uvw")}},
                {"matchLabels": {"app": "u", "tier": "1"}},
                {"matchLabels": {"app": self.random.choice("uvw")}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": ["u", "v"]}]},
                {"matchExpressions": [{"key": "tier", "operator": "DoesNotExist"}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["w"]}]},
            ]
        )
