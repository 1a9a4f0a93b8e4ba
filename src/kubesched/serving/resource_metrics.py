"""`/metrics/resources`: what each pod asks for and may use at most, with node, scheduler and priority.

Made when asked for, from the pods that the scheduler knows: those on nodes, and those it is to place. Names, labels and
units are kube-scheduler v1.36's.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kubesched.api import pod_requests
from kubesched.api.core import Container, Pod, ResourceRequirements
from kubesched.metrics.series import Gauge, gauges

_LABELS = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
_BYTES = ("memory", "storage", "ephemeral-storage")


def render(pods: Iterable[tuple[Pod, str]]) -> bytes:
    """The text for these pods and the names of their nodes."""
    from prometheus_client import CollectorRegistry, generate_latest

    requests = gauges("kube_pod_resource_request", "[STABLE] What a pod asks for, by resource.", *_LABELS)
    limits = gauges("kube_pod_resource_limit", "[STABLE] What a pod may use at most, by resource.", *_LABELS)
    for pod, node_name in pods:
        if pod.is_terminal:
            continue
        spec = pod.spec
        priority = "" if spec.priority is None else str(spec.priority)
        for family, amounts in ((requests, pod_requests.pod_requests(pod)), (limits, pod_limits(pod))):
            for resource, amount in amounts.items():
                if not amount:
                    continue
                value, unit = _in_units(resource, amount)
                gauge: Gauge = family.labels(
                    pod.metadata.namespace, pod.metadata.name, node_name, spec.scheduler_name, priority, resource, unit
                )
                gauge.set(value)
    registry = CollectorRegistry(auto_describe=False)
    for family in (requests, limits):
        if any(True for _ in family.items()):
            registry.register(_Once(family))
    return generate_latest(registry)


def pod_limits(pod: Pod) -> dict[str, int]:
    """The limits as requests are summed up; overhead counts where there is a limit. Cpu in thousandths."""
    spec = pod.spec
    twin = replace(
        pod,
        spec=replace(
            spec,
            containers=tuple(map(_asking_its_limits, spec.containers)),
            init_containers=tuple(map(_asking_its_limits, spec.init_containers)),
            resources=_limits_as_requests(spec.resources) if spec.resources is not None else None,
            overhead={},
        ),
    )
    limits = pod_requests.pod_requests(twin)
    if spec.overhead:
        overhead = pod_requests.pod_requests(replace(pod, spec=replace(spec, containers=(), init_containers=())))
        limits = {name: amount + overhead.get(name, 0) for name, amount in limits.items()}
    return limits


def _asking_its_limits(container: Container) -> Container:
    return replace(container, resources=_limits_as_requests(container.resources))


def _limits_as_requests(resources: ResourceRequirements) -> ResourceRequirements:
    return replace(resources, requests=resources.limits)


def _in_units(resource: str, amount: int) -> tuple[float, str]:
    if resource == pod_requests.CPU:
        return amount / 1000, "cores"
    if resource in _BYTES or resource.startswith(pod_requests.HUGE_PAGES_PREFIX):
        return amount, "bytes"
    return amount, "integer"


class _Once:
    def __init__(self, family) -> None:  # type: ignore[no-untyped-def]
        self._family = family

    def collect(self):  # type: ignore[no-untyped-def]
        yield self._family.collect()
