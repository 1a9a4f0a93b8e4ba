"""Services: type, ports and addresses out of the service range."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.status import Cause, required
from kubesched.apiserver.store import Json, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_NODE_PORTS = (30000, 32767)


def _default(service: Json) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port", 0))
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)


def _create(api: Api, resource: Resource, service: Json) -> None:
    service["status"] = {"loadBalancer": {}}


def _commit(api: Api, resource: Resource, service: Json) -> None:
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    specs = [decode(stored.body)["spec"] for stored in api.store.of(resource).items.values()]
    if not spec.get("clusterIP"):
        taken = {other.get("clusterIP") for other in specs}
        spec["clusterIP"] = next(ip for n in range(2, 65534) if (ip := f"10.0.{n >> 8}.{n & 255}") not in taken)
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        ports = {port.get("nodePort") for other in specs for port in other.get("ports") or ()}
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                free = next(n for n in range(_NODE_PORTS[0], _NODE_PORTS[1] + 1) if n not in ports)
                port["nodePort"] = free
                ports.add(free)


def _keep(old: Json, new: Json) -> None:
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if name in old["spec"] and new["spec"].get("type") != "ExternalName":
            new["spec"].setdefault(name, old["spec"][name])


def _validate(service: Json) -> list[Cause]:
    spec = service["spec"]
    causes = []
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(required("spec.ports"))
    return causes


SERVICE = Rules(
    default=_default, on_create=_create, on_commit=_commit, on_update=_keep, validate=_validate, label_name=True
)
