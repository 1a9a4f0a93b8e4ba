"""What the pods of a benchmark ask for besides cpu and memory, by the name of the workload."""

from __future__ import annotations

from typing import Any

_ZONE, _HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def spec_of(family: str, app: str) -> dict[str, Any]:
    """Fields of a pod's spec for pods labelled `app`."""
    selector = {"matchLabels": {"app": app}}
    near = {"labelSelector": selector, "topologyKey": _ZONE}
    same_host = {"labelSelector": selector, "topologyKey": _HOST}
    match family:
        case "plain":
            return {}
        case "node affinity":
            pools = [{"key": "pool", "operator": "In", "values": ["pool-1", "pool-2", "pool-3"]}]
            terms = {"nodeSelectorTerms": [{"matchExpressions": pools}]}
            return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}
        case "hard spread by zone":
            return {"topologySpreadConstraints": [_spread(selector, "DoNotSchedule")]}
        case "soft spread by zone":
            return {"topologySpreadConstraints": [_spread(selector, "ScheduleAnyway")]}
        case "anti-affinity by host":
            return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [same_host]}}}
        case "affinity by zone":
            return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}}
        case "preferred affinity by host":
            preferred = [{"weight": 1, "podAffinityTerm": same_host}]
            return {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    raise ValueError(f"unknown family {family!r}")


FAMILIES = (
    "plain",
    "node affinity",
    "hard spread by zone",
    "soft spread by zone",
    "anti-affinity by host",
    "affinity by zone",
    "preferred affinity by host",
)


def _spread(selector: dict[str, Any], when_unsatisfiable: str) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": _ZONE,
        "whenUnsatisfiable": when_unsatisfiable,
        "labelSelector": selector,
    }
