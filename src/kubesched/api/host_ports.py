"""Ports that a pod takes on its node.

Two pods are in each other's way if they want the same port and protocol on the same address, 0.0.0.0 being all of
them. Sidecars count, plain init containers do not, for they are gone when the pod runs. (NodePorts, v1.36.)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kubesched.api.core import Container, Pod

ANY_ADDRESS = "0.0.0.0"


class HostPort(NamedTuple):
    """Prints as `TCP 10.0.0.1:8080`."""

    ip: str
    protocol: str
    port: int

    def __str__(self) -> str:
        return f"{self.protocol} {self.ip}:{self.port}"


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """In the order of the containers, with what is left out filled in: all addresses, TCP."""
    spec = pod.spec
    found = _ports(spec.containers)
    if spec.init_containers:
        found += _ports(container for container in spec.init_containers if container.is_sidecar)
    return tuple(found)


def conflict(one: HostPort, other: HostPort) -> bool:
    return (
        one.port == other.port
        and one.protocol == other.protocol
        and (one.ip == other.ip or ANY_ADDRESS in (one.ip, other.ip))
    )


def _ports(containers: Iterable[Container]) -> list[HostPort]:
    return [
        HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
        for container in containers
        for port in container.ports
        if port.host_port > 0
    ]
