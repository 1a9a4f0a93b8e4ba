"""The spread constraints that hold for a pod: its own, or else the profile's defaults for the pod's siblings.

Default constraints come without selector. What they count is derived from the services that select the pod and from
the controller that owns it; a pod that nothing selects has no default constraints.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from kubesched.api.core import Pod, ReplicationController, TopologySpreadConstraint
from kubesched.api.errors import SelectorError
from kubesched.api.selectors import EVERYTHING, LabelMatcher, compile_label_selector, match_labels
from kubesched.state.affinity_terms import NamespaceScope, PodMatch
from kubesched.state.objects import ObjectIndex

HARD = "DoNotSchedule"
SOFT = "ScheduleAnyway"

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"

#: What `defaultingType: System` stands for.
SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)

#: The kinds that default constraints look at.
SIBLING_KINDS = ("Service", "ReplicationController", "ReplicaSet", "StatefulSet")

_HONOR = "Honor"


@dataclass(frozen=True, slots=True)
class Constraint:
    """`selector` has the `matchLabelKeys` in it. The two `honors` say which nodes take part."""

    topology_key: str
    max_skew: int
    selector: LabelMatcher
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False

    def counted(self, namespace: str) -> PodMatch | None:
        """The pods that count; None for none. An empty selector counts none, although it matches the pod itself."""
        if not self.selector.requirements:
            return None
        return PodMatch(((NamespaceScope(frozenset((namespace,))), self.selector),), terminating=False)


def own(pod: Pod, action: str) -> tuple[Constraint, ...]:
    """The pod's own constraints with this `whenUnsatisfiable`. SelectorError."""
    return compiled(pod.spec.topology_spread_constraints, pod, action)


def default(
    defaults: Iterable[TopologySpreadConstraint], pod: Pod, action: str, siblings: LabelMatcher
) -> tuple[Constraint, ...]:
    """The defaults with this `whenUnsatisfiable` for a pod whose siblings are those that the selector matches."""
    if siblings.is_everything:
        return ()
    return tuple(replace(constraint, selector=siblings) for constraint in compiled(defaults, pod, action))


def compiled(given: Iterable[TopologySpreadConstraint], pod: Pod, action: str) -> tuple[Constraint, ...]:
    """SelectorError."""
    try:
        return tuple(_compiled(each, pod) for each in given if each.when_unsatisfiable == action)
    except SelectorError as error:
        sort = "hard" if action == HARD else "soft"
        raise SelectorError(f"obtaining pod's {sort} topology spread constraints: {error}") from error


class Siblings:
    """Who is stamped from the same workload as a pod: what its services and its controller select, all together."""

    def __init__(self, objects: ObjectIndex) -> None:
        self._objects = objects
        self._services: dict[str, list[dict[str, str]]] = {}
        self._services_version = -1

    def selector(self, pod: Pod) -> LabelMatcher:
        """Everything, if nothing selects the pod.

        An owner that is not (or no longer) there, or whose selector is not a legal one, is left out.
        """
        labels = pod.metadata.labels
        wanted: dict[str, str] = {}
        for selector in self._of_services(pod.metadata.namespace):
            if selector.items() <= labels.items():
                wanted.update(selector)
        owner = self.owner(pod)
        if owner is None:
            return match_labels(wanted)
        if isinstance(owner, ReplicationController):
            return match_labels(wanted | owner.spec.selector)
        try:
            of_owner = compile_label_selector(owner.spec.selector)
        except SelectorError:
            of_owner = EVERYTHING
        return match_labels(wanted) if of_owner.is_nothing else match_labels(wanted) & of_owner

    def owner(self, pod: Pod) -> Any:
        """The controller of the pod, if it is of a kind that counts and known; else None."""
        owner = pod.metadata.controller
        kind = _OWNERS.get((owner.api_version, owner.kind)) if owner is not None else None
        if owner is None or kind is None:
            return None
        return self._objects.get(kind, owner.name, pod.metadata.namespace)

    def _of_services(self, namespace: str) -> list[dict[str, str]]:
        """The selectors of the namespace's services. One without selector selects nothing."""
        version = self._objects.version("Service")
        if version != self._services_version:
            self._services_version = version
            self._services.clear()
            for service in self._objects.list("Service"):
                if service.spec.selector:
                    self._services.setdefault(service.metadata.namespace, []).append(service.spec.selector)
        return self._services.get(namespace, [])


_OWNERS = {
    ("v1", "ReplicationController"): "ReplicationController",
    ("apps/v1", "ReplicaSet"): "ReplicaSet",
    ("apps/v1", "StatefulSet"): "StatefulSet",
}


def _compiled(given: TopologySpreadConstraint, pod: Pod) -> Constraint:
    selector = compile_label_selector(given.label_selector)
    labels = pod.metadata.labels
    own_values = {key: labels[key] for key in given.match_label_keys if key in labels}
    if own_values:
        selector = selector & match_labels(own_values)
    return Constraint(
        topology_key=given.topology_key,
        max_skew=given.max_skew,
        selector=selector,
        min_domains=1 if given.min_domains is None else given.min_domains,
        honors_affinity=given.node_affinity_policy in (None, _HONOR),
        honors_taints=given.node_taints_policy == _HONOR,
    )
