"""Services: type, ports and addresses out of the service range.

An address or node port that a service asks for is given to it when it is free and in the range; the others are handed
out in order, where the original draws them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kubesched.apiserver.metadata import LABEL_TEXT, SUBDOMAIN_TEXT, check_labels, is_label, is_subdomain
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.base import Rules
from kubesched.apiserver.status import Cause, duplicate, forbidden_field, invalid, invalid_value, required, unsupported
from kubesched.apiserver.store import Json, decode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_NODE_PORTS = (30000, 32767)
_AFFINITY_S = 10_800
_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_AFFINITIES = ("ClientIP", "None")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_PORT_TEXT = "must be between 1 and 65535, inclusive"
_IP_TEXT = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"


def _default(service: Json) -> None:
    spec = service["spec"]
    spec.setdefault("type", "ClusterIP")
    if spec.setdefault("sessionAffinity", "None") == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {})
        config.setdefault("clientIP", {}).setdefault("timeoutSeconds", _AFFINITY_S)
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
    causes = _take_address(spec, {other.get("clusterIP") for other in specs})
    spec.setdefault("clusterIPs", [spec["clusterIP"]])
    spec.setdefault("ipFamilies", ["IPv6" if ":" in spec["clusterIP"] else "IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        taken = {(port.get("nodePort"), port.get("protocol")) for other in specs for port in other.get("ports") or ()}
        causes = causes or _take_node_ports(spec, taken)
    if causes:
        raise invalid(resource.kind, resource.group, service["metadata"]["name"], causes)


def _take_address(spec: Json, taken: set[str | None]) -> list[Cause]:
    asked = spec.get("clusterIP")
    if not asked:
        spec["clusterIP"] = next(ip for n in range(2, 65534) if (ip := f"10.0.{n >> 8}.{n & 255}") not in taken)
    elif asked != "None" and asked in taken:
        text = f"failed to allocate IP {asked}: provided IP is already allocated"
        return [invalid_value("spec.clusterIPs", [asked], text)]
    return []


def _take_node_ports(spec: Json, taken: set[tuple[int | None, str | None]]) -> list[Cause]:
    first, last = _NODE_PORTS
    causes = []
    used = {number for number, _ in taken}
    for index, port in enumerate(spec.get("ports") or ()):
        asked = port.get("nodePort")
        if not asked:
            asked = next(n for n in range(first, last + 1) if n not in used)
        elif not first <= asked <= last:
            text = f"provided port is not in the valid range. The range of valid ports is {first}-{last}"
            causes.append(invalid_value(f"spec.ports[{index}].nodePort", asked, text))
        elif (asked, port["protocol"]) in taken:
            causes.append(invalid_value(f"spec.ports[{index}].nodePort", asked, "provided port is already allocated"))
        port["nodePort"] = asked
        taken.add((asked, port["protocol"]))
        used.add(asked)
    return causes


def _keep(old: Json, new: Json) -> None:
    before, after = old["spec"], new["spec"]
    if after.get("type") == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
        if name in before:
            after.setdefault(name, before[name])
    if after.get("clusterIP") != before.get("clusterIP") and after.get("clusterIPs") == before.get("clusterIPs"):
        after["clusterIPs"] = [after["clusterIP"]]  # who changes the one means both


def _validate_update(old: Json, new: Json) -> list[Cause]:
    before, after = old["spec"], new["spec"]
    kept = "ExternalName" in (before["type"], after["type"]) or not before.get("clusterIP")
    if kept or before["clusterIP"] == after.get("clusterIP"):
        return []
    return [invalid_value("spec.clusterIPs[0]", after.get("clusterIPs") or [], "may not change once set")]


def _validate(service: Json) -> list[Cause]:
    spec = service["spec"]
    causes = _check_addresses(spec)
    if causes:
        return causes  # looked at before all else
    if not spec.get("ports") and spec.get("clusterIP") != "None" and spec["type"] != "ExternalName":
        causes.append(required("spec.ports"))
    causes += _check_type(spec)
    causes += _check_ports(spec.get("ports") or ())
    causes += check_labels(spec.get("selector") or {}, "spec.selector")
    if spec["sessionAffinity"] not in _AFFINITIES:
        causes.append(unsupported("spec.sessionAffinity", spec["sessionAffinity"], _AFFINITIES))
    elif spec["sessionAffinity"] == "None" and spec.get("sessionAffinityConfig"):
        text = "must not be set when session affinity is None"
        causes.append(forbidden_field("spec.sessionAffinityConfig", text))
    if spec["type"] not in _TYPES:
        causes.append(unsupported("spec.type", spec["type"], _TYPES))
    return causes + _check_numbers(spec)


def _check_addresses(spec: Json) -> list[Cause]:
    asked = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if asked == ["None"] or spec["type"] == "ExternalName":
        return []
    return [
        invalid_value(f"spec.clusterIPs[{index}]", address, _IP_TEXT)
        for index, address in enumerate(asked)
        if not _is_address(address)
    ]


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_type(spec: Json) -> list[Cause]:
    """What the type of a service has to say about its other fields."""
    kind = spec["type"]
    if kind in ("LoadBalancer", "NodePort") and spec.get("clusterIP") == "None":
        return [invalid_value("spec.clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services")]
    if kind != "ExternalName":
        return []
    causes = []
    if spec.get("clusterIP"):
        causes.append(forbidden_field("spec.clusterIPs", "may not be set for ExternalName services"))
    name = spec.get("externalName", "").removesuffix(".")
    if not name:
        causes.append(required("spec.externalName"))
    elif not is_subdomain(name):
        causes.append(invalid_value("spec.externalName", name, SUBDOMAIN_TEXT))
    return causes


def _check_ports(ports: Sequence[Json]) -> list[Cause]:
    causes = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"spec.ports[{index}]", port.get("name", "")
        if not name and len(ports) > 1:
            causes.append(required(f"{path}.name"))
        elif name and not is_label(name):
            causes.append(invalid_value(f"{path}.name", name, LABEL_TEXT))
        if name and name in names:
            causes.append(duplicate(f"{path}.name", name))
        names.add(name)
        if not 0 < port.get("port", 0) < 65536:
            causes.append(invalid_value(f"{path}.port", port.get("port", 0), _PORT_TEXT))
        if port["protocol"] not in _PROTOCOLS:
            causes.append(unsupported(f"{path}.protocol", port["protocol"], _PROTOCOLS))
        target = port["targetPort"]
        if isinstance(target, int) and not 0 < target < 65536:
            causes.append(invalid_value(f"{path}.targetPort", target, _PORT_TEXT))
    return causes


def _check_numbers(spec: Json) -> list[Cause]:
    """Node ports where there are none, and numbers that come twice."""
    causes = []
    node_ports: set[tuple[int, str]] = set()
    numbers: set[tuple[int, str]] = set()
    for index, port in enumerate(spec.get("ports") or ()):
        path, protocol = f"spec.ports[{index}]", port["protocol"]
        node_port, number = port.get("nodePort", 0), port.get("port", 0)
        if node_port and spec["type"] == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            causes.append(forbidden_field(f"{path}.nodePort", text))
        if node_port and (node_port, protocol) in node_ports:
            causes.append(duplicate(f"{path}.nodePort", node_port))
        if (number, protocol) in numbers:
            key = {
                "Name": "",
                "Protocol": protocol,
                "AppProtocol": None,
                "Port": number,
                "TargetPort": 0,
                "NodePort": 0,
            }
            causes.append(duplicate(path, key))
        node_ports.add((node_port, protocol))
        numbers.add((number, protocol))
    return causes


SERVICE = Rules(
    default=_default,
    on_create=_create,
    on_commit=_commit,
    on_update=_keep,
    validate=_validate,
    validate_update=_validate_update,
    label_name=True,
)
