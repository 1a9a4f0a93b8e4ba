"""What a pod asks of its node: the effective request, as kubelet and scheduler of v1.36 compute it.

Main containers and sidecars run together, so they add up. Init containers run one after another before them, each
beside the sidecars started so far, so only their maximum counts, for each resource by itself, and it counts for as long
as the pod lives. Pod-level requests take the place of the sum for cpu, memory and huge pages. Overhead comes on top. A
placed pod that is being resized counts with the largest of what its spec wants, what is allocated and what it really
has; if the resize is infeasible, what the spec wants is left out. (component-helpers resource.PodRequests, v1.36.)

Sums are exact and rounded once at the end: cpu in thousandths, all else in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from kubesched.api.core import Container, ContainerStatus, Pod, ResourceRequirements
from kubesched.api.quantity import Quantity, ResourceList, nano_value, whole, whole_milli

CPU = "cpu"
MEMORY = "memory"
HUGE_PAGES_PREFIX = "hugepages-"

DEFAULT_CPU_MILLI = 100
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024
"""What scoring assumes of a container that names no cpu or memory, so that such pods spread out too."""

NON_MISSING_REQUESTS: ResourceList = {CPU: f"{DEFAULT_CPU_MILLI}m", MEMORY: DEFAULT_MEMORY_BYTES}

_CACHED_SHARES = 16384

_NOTHING: Mapping[str, int] = MappingProxyType({})
_NO_STATUSES: Mapping[str, ContainerStatus] = MappingProxyType({})


class NodeShare(NamedTuple):
    """What a pod takes of the node it is on.

    `requests` by resource name, cpu in thousandths; the nonzero values are what scoring counts, with something assumed
    where nothing is asked for. Pods that ask for the same share one dict, which nobody changes.
    """

    requests: dict[str, int]
    nonzero_cpu_milli: int
    nonzero_memory_bytes: int


def node_share(pod: Pod, *, pod_level_resources: bool = True, in_place_pod_level_resources: bool = True) -> NodeShare:
    """How a pod counts on its node. The flags are the feature gates PodLevelResources and
    InPlacePodLevelResourcesVerticalScaling, on by default in v1.36. QuantityError."""
    if _has_containers_only(pod):
        return _of_containers(_container_requests(pod)).share
    requests = pod_requests(
        pod,
        use_status_resources=True,
        skip_pod_level_resources=not pod_level_resources,
        in_place_pod_level_resources=in_place_pod_level_resources,
    )
    if pod_level_resources and has_pod_level_requests(pod):
        # Whoever sets requests for the pod as a whole has thought of its containers; only a resource that the whole
        # pod leaves out is made up.
        missing = {name: amount for name, amount in NON_MISSING_REQUESTS.items() if name not in requests}
    else:
        missing = NON_MISSING_REQUESTS
    nonzero = requests
    if missing and not _names_all(pod, missing):
        nonzero = pod_requests(
            pod,
            use_status_resources=True,
            skip_pod_level_resources=not pod_level_resources,
            in_place_pod_level_resources=in_place_pod_level_resources,
            non_missing_container_requests=missing,
        )
    return NodeShare(requests, nonzero.get(CPU, 0), nonzero.get(MEMORY, 0))


def pending_requests(pod: Pod) -> dict[str, int]:
    """What a pod asks of a node that it is not on yet: `pod_requests(pod)`, in a dict that nobody changes."""
    if _has_containers_only(pod):
        return _of_containers(_container_requests(pod)).share.requests
    return pod_requests(pod)


def assumed_requests(pod: Pod) -> dict[str, int]:
    """What scoring takes a pending pod to ask for by its containers, with something assumed where they ask for nothing;
    pod-level requests do not count. In a dict that nobody changes."""
    if _has_containers_only(pod):
        return _of_containers(_container_requests(pod)).assumed
    return pod_requests(pod, skip_pod_level_resources=True, non_missing_container_requests=NON_MISSING_REQUESTS)


def pod_requests(
    pod: Pod,
    *,
    use_status_resources: bool = False,
    skip_pod_level_resources: bool = False,
    skip_container_level_resources: bool = False,
    in_place_pod_level_resources: bool = True,
    exclude_overhead: bool = False,
    use_claim_statuses: bool = False,
    non_missing_container_requests: ResourceList | None = None,
) -> dict[str, int]:
    """The request by resource name, cpu in thousandths, all else in units. QuantityError.

    `use_status_resources` looks at what is allocated and actually there, for pods that are on a node;
    `in_place_pod_level_resources` does so for pod-level requests too. `non_missing_container_requests` are assumed of
    each container that does not name the resource at all (a request of zero names it). `use_claim_statuses` adds what
    devices claimed from the node's allocatable take.
    """
    infeasible = use_status_resources and is_resize_infeasible(pod)
    totals: dict[str, int] = {}
    if not skip_container_level_resources:
        assumed = _nanos(non_missing_container_requests) if non_missing_container_requests else _NOTHING
        totals = _container_totals(pod, use_status_resources, infeasible, assumed)
        if use_claim_statuses:
            for claim in pod.status.node_allocatable_resource_claim_statuses:
                _add(totals, _nanos(claim.resources))
    if not skip_pod_level_resources and has_pod_level_requests(pod):
        in_place = use_status_resources and in_place_pod_level_resources
        _put_pod_level(totals, pod, in_place, infeasible)
    if pod.spec.overhead and not exclude_overhead:
        _add(totals, _nanos(pod.spec.overhead))
    return _rounded(totals)


def has_pod_level_requests(pod: Pod) -> bool:
    """The pod as a whole requests cpu, memory or huge pages."""
    resources = pod.spec.resources
    return resources is not None and any(map(is_pod_level_resource, resources.requests))


def is_pod_level_resource(name: str) -> bool:
    return name in (CPU, MEMORY) or name.startswith(HUGE_PAGES_PREFIX)


def is_resize_infeasible(pod: Pod) -> bool:
    """The node can never give the pod what its spec asks for now."""
    condition = pod.condition("PodResizePending")
    return condition is not None and condition.reason == "Infeasible"


def _has_containers_only(pod: Pod) -> bool:
    """Nothing but the requests of its main containers plays a part."""
    spec, status = pod.spec, pod.status
    return not (
        spec.init_containers
        or spec.overhead
        or status.container_statuses
        or status.init_container_statuses
        or spec.resources is not None
    )


_ContainerRequests = tuple[tuple[tuple[str, Quantity], ...], ...]


def _container_requests(pod: Pod) -> _ContainerRequests:
    """Container by container, as one value that all pods of a template have in common."""
    return tuple([tuple(container.resources.requests.items()) for container in pod.spec.containers])


class _Containers(NamedTuple):
    """Of a pod with nothing but main containers: its share, and what it is assumed to ask for."""

    share: NodeShare
    assumed: dict[str, int]


@lru_cache(_CACHED_SHARES)
def _of_containers(containers: _ContainerRequests) -> _Containers:
    totals: dict[str, int] = {}
    missing: dict[str, int] = {}
    for requests in containers:
        for name, quantity in requests:
            totals[name] = totals.get(name, 0) + nano_value(quantity)
        for name, quantity in NON_MISSING_REQUESTS.items():
            if all(name != each for each, _ in requests):
                missing[name] = missing.get(name, 0) + nano_value(quantity)
    rounded = assumed = _rounded(totals)
    if missing:
        _add(totals, missing)
        assumed = _rounded(totals)
    return _Containers(NodeShare(rounded, assumed.get(CPU, 0), assumed.get(MEMORY, 0)), assumed)


def _container_totals(pod: Pod, use_status: bool, infeasible: bool, assumed: Mapping[str, int]) -> dict[str, int]:
    spec = pod.spec
    statuses = _statuses(pod) if use_status else _NO_STATUSES
    totals: dict[str, int] = {}
    for container in spec.containers:
        if statuses or assumed:
            _add(totals, _container(container, statuses.get(container.name), infeasible, assumed))
        else:  # the same for nearly every pod there is, without a dict in between
            for name, quantity in container.resources.requests.items():
                totals[name] = totals.get(name, 0) + nano_value(quantity)
    if not spec.init_containers:
        return totals

    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        if container.is_sidecar:
            request = _container(container, statuses.get(container.name), infeasible, assumed)
            _add(totals, request)
            _add(sidecars, request)
            _raise_to(peak, sidecars)
        else:
            # A plain init container cannot be resized, its status says nothing.
            request = dict(_container(container, None, infeasible, assumed))
            _add(request, sidecars)
            _raise_to(peak, request)
    _raise_to(totals, peak)
    return totals


def _statuses(pod: Pod) -> Mapping[str, ContainerStatus]:
    """Those that report resources; the others take no part."""
    status = pod.status
    if not status.container_statuses and not status.init_container_statuses:
        return _NO_STATUSES
    return {
        each.name: each
        for each in (*status.container_statuses, *status.init_container_statuses)
        if each.resources is not None
    }


def _container(
    container: Container, status: ContainerStatus | None, infeasible: bool, assumed: Mapping[str, int]
) -> Mapping[str, int]:
    requests = container.resources.requests
    if status is None or status.resources is None:
        nanos = _nanos(requests)
    else:
        nanos = _effective(requests, status.resources, status.allocated_resources, infeasible)
    for name, amount in assumed.items():
        nanos.setdefault(name, amount)
    return nanos


def _effective(
    wanted: ResourceList, actual: ResourceRequirements, allocated: ResourceList, infeasible: bool
) -> dict[str, int]:
    largest = {} if infeasible else _nanos(wanted)
    _raise_to(largest, _nanos(actual.requests))
    _raise_to(largest, _nanos(allocated))
    return largest


def _put_pod_level(totals: dict[str, int], pod: Pod, in_place: bool, infeasible: bool) -> None:
    assert pod.spec.resources is not None
    wanted = pod.spec.resources.requests
    if in_place and pod.status.resources is not None:
        effective = _effective(wanted, pod.status.resources, pod.status.allocated_resources, infeasible)
    else:
        effective = _nanos(wanted)
    for name in wanted:
        if is_pod_level_resource(name):
            totals[name] = effective.get(name, 0)


def _names_all(pod: Pod, resources: ResourceList) -> bool:
    """Every container names all of `resources` in its spec, so that nothing is left to be assumed."""
    spec = pod.spec
    for container in (*spec.containers, *spec.init_containers) if spec.init_containers else spec.containers:
        requests = container.resources.requests
        for name in resources:
            if name not in requests:
                return False
    return not is_resize_infeasible(pod)


def _rounded(totals: Mapping[str, int]) -> dict[str, int]:
    return {name: whole_milli(nanos) if name == CPU else whole(nanos) for name, nanos in totals.items()}


def _nanos(resources: ResourceList) -> dict[str, int]:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _add(totals: dict[str, int], more: Mapping[str, int]) -> None:
    for name, nanos in more.items():
        totals[name] = totals.get(name, 0) + nanos


def _raise_to(totals: dict[str, int], other: Mapping[str, int]) -> None:
    for name, nanos in other.items():
        if name not in totals or nanos > totals[name]:
            totals[name] = nanos
