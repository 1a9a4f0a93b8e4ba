"""A pod's priority, from the class it names.

The rules of the API server's Priority admission (v1.36), with one difference: a pod that brings its priority along has
been through that once, as all pods of a cluster dump have, and keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""Classes that every cluster has."""


class UnknownPriorityClass(LookupError):
    def __init__(self, name: str) -> None:
        super().__init__(f"no PriorityClass with name {name} was found")


@dataclass(slots=True)
class PriorityClasses:
    """The classes of a cluster, by name, as manifests."""

    classes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, manifests: Iterable[Mapping[str, Any]]) -> PriorityClasses:
        """From any mix of manifests."""
        return cls({each["metadata"]["name"]: each for each in manifests if each.get("kind") == "PriorityClass"})

    def resolve(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod with `priority` and `preemptionPolicy` set, and the class it got if it named none.
        UnknownPriorityClass."""
        spec = dict(pod.get("spec") or {})
        if spec.get("priority") is None:
            name = spec.get("priorityClassName") or self._default_name()
            value, policy = self._class(name) if name else (0, PREEMPT_LOWER_PRIORITY)
            spec["priority"] = value
            if name:
                spec["priorityClassName"] = name
            if not spec.get("preemptionPolicy"):
                spec["preemptionPolicy"] = policy
        elif not spec.get("preemptionPolicy"):
            spec["preemptionPolicy"] = PREEMPT_LOWER_PRIORITY
        return {**pod, "spec": spec}

    def _class(self, name: str) -> tuple[int, str]:
        found = self.classes.get(name)
        if found is not None:
            return int(found.get("value") or 0), str(found.get("preemptionPolicy") or PREEMPT_LOWER_PRIORITY)
        if name in SYSTEM_CLASSES:
            return SYSTEM_CLASSES[name], PREEMPT_LOWER_PRIORITY
        raise UnknownPriorityClass(name)

    def _default_name(self) -> str:
        """Of several global defaults, which a server does not let come about, the lowest counts."""
        defaults = [each for each in self.classes.values() if each.get("globalDefault")]
        if not defaults:
            return ""
        lowest = min(defaults, key=lambda each: (each.get("value") or 0, each["metadata"]["name"]))
        return str(lowest["metadata"]["name"])
