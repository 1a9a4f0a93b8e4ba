"""Validation of pod specs (v1.36), for pods and for the templates of workloads: what scheduling and kubectl users meet.

Each check names the field that is wrong by its path and says so in the original's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.apiserver import metadata
from kubesched.apiserver.schema.quantities import amount
from kubesched.apiserver.status import Cause, duplicate, forbidden_field, invalid_value, required, unsupported
from kubesched.apiserver.store import Json

_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NODE_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def check_pod_spec(spec: Json, path: str) -> list[Cause]:
    causes = _check_volumes(spec.get("volumes") or (), f"{path}.volumes")
    volumes = {volume.get("name") for volume in spec.get("volumes") or () if len(volume) <= 2}
    containers = spec.get("containers") or ()
    if not containers:
        causes.append(required(f"{path}.containers"))
    names: set[str] = set()
    host_network = bool(spec.get("hostNetwork"))
    for group in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(group) or ()):
            where = f"{path}.{group}[{index}]"
            causes += _check_container(container, where, host_network, volumes)
            name = container.get("name", "")
            if name and name in names:
                causes.append(duplicate(f"{where}.name", name))
            names.add(name)
    causes += _one_of(spec, "restartPolicy", _RESTART_POLICIES, path)
    causes += _one_of(spec, "dnsPolicy", _DNS_POLICIES, path)
    causes += metadata.check_labels(spec.get("nodeSelector") or {}, f"{path}.nodeSelector")
    if spec.get("nodeName") and not metadata.is_subdomain(spec["nodeName"]):
        causes.append(invalid_value(f"{path}.nodeName", spec["nodeName"], metadata.SUBDOMAIN_TEXT))
    causes += check_tolerations(spec.get("tolerations") or (), f"{path}.tolerations")
    causes += _check_affinity(spec.get("affinity") or {}, f"{path}.affinity")
    causes += _check_spread(spec.get("topologySpreadConstraints") or (), f"{path}.topologySpreadConstraints")
    causes += _check_gates(spec.get("schedulingGates") or (), f"{path}.schedulingGates")
    if spec.get("activeDeadlineSeconds") is not None and spec["activeDeadlineSeconds"] < 1:
        causes.append(
            invalid_value(
                f"{path}.activeDeadlineSeconds",
                spec["activeDeadlineSeconds"],
                "must be between 1 and 2147483647, inclusive",
            )
        )
    return causes


def _one_of(holder: Json, name: str, allowed: tuple[str, ...], path: str) -> list[Cause]:
    value = holder.get(name)
    return [] if value in allowed else [unsupported(f"{path}.{name}", value or "", allowed)]


def _check_volumes(volumes: Sequence[Json], path: str) -> list[Cause]:
    causes, names = [], set()
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name", "")
        if not name:
            causes.append(required(f"{where}.name"))
        elif not metadata.is_label(name):
            causes.append(invalid_value(f"{where}.name", name, metadata.LABEL_TEXT))
        elif name in names:
            causes.append(duplicate(f"{where}.name", name))
        names.add(name)
        sources = sorted((key for key in volume if key != "name"), key=lambda source: source != "emptyDir")
        causes += [
            forbidden_field(f"{where}.{source}", "may not specify more than 1 volume type") for source in sources[1:]
        ]
    return causes


def _check_container(container: Json, path: str, host_network: bool, volumes: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{path}.name"))
    elif not metadata.is_label(name):
        causes.append(invalid_value(f"{path}.name", name, metadata.LABEL_TEXT))
    if not container.get("image"):
        causes.append(required(f"{path}.image"))
    causes += _check_ports(container.get("ports") or (), f"{path}.ports", host_network)
    for index, variable in enumerate(container.get("env") or ()):
        if not variable.get("name"):
            causes.append(required(f"{path}.env[{index}].name"))
    mounts: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        where = f"{path}.volumeMounts[{index}]"
        if not mount.get("name"):
            causes.append(required(f"{where}.name"))
        elif mount["name"] not in volumes:
            causes.append(Cause("FieldValueNotFound", f'Not found: "{mount["name"]}"', f"{where}.name"))
        if not mount.get("mountPath"):
            causes.append(required(f"{where}.mountPath"))
        elif mount["mountPath"] in mounts:
            causes.append(invalid_value(f"{where}.mountPath", mount["mountPath"], "must be unique"))
        mounts.add(mount.get("mountPath", ""))
    if container.get("imagePullPolicy") not in _PULL_POLICIES:
        causes.append(unsupported(f"{path}.imagePullPolicy", container.get("imagePullPolicy", ""), _PULL_POLICIES))
    causes += check_resources(container.get("resources") or {}, f"{path}.resources")
    return causes


def _check_ports(ports: Sequence[Json], path: str, host_network: bool) -> list[Cause]:
    causes = []
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        number, host_port = port.get("containerPort", 0), port.get("hostPort", 0)
        if not number:
            causes.append(required(f"{where}.containerPort"))
        elif not 0 < number < 65536:
            causes.append(invalid_value(f"{where}.containerPort", number, "must be between 1 and 65535, inclusive"))
        if host_port and not 0 < host_port < 65536:
            causes.append(invalid_value(f"{where}.hostPort", host_port, "must be between 1 and 65535, inclusive"))
        elif host_network and host_port != number:
            causes.append(
                invalid_value(f"{where}.hostPort", host_port, "must match `containerPort` when `hostNetwork` is true")
            )
        if port.get("protocol") not in _PROTOCOLS:
            causes.append(unsupported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS))
    return causes


def check_resources(resources: Json, path: str) -> list[Cause]:
    """Limits and requests are not negative, and no request exceeds its limit."""
    causes = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for group, values in (("limits", limits), ("requests", requests)):
        for name, value in values.items():
            causes += not_negative(value, f"{path}.{group}[{name}]")
    for name, value in requests.items():
        if name not in limits:
            continue
        if amount(value) > amount(limits[name]):
            causes.append(
                invalid_value(
                    f"{path}.requests", value, f"must be less than or equal to {name} limit of {limits[name]}"
                )
            )
        elif "/" in name and amount(value) != amount(limits[name]):
            causes.append(invalid_value(f"{path}.requests", value, f"must be equal to {name} limit of {limits[name]}"))
    return causes


def not_negative(value: str, path: str) -> list[Cause]:
    if amount(value) < 0:
        return [invalid_value(path, value, "must be greater than or equal to 0")]
    return []


def check_tolerations(tolerations: Sequence[Json], path: str) -> list[Cause]:
    causes = []
    for index, toleration in enumerate(tolerations):
        where, operator = f"{path}[{index}]", toleration.get("operator", "")
        if toleration.get("key"):
            causes += metadata.check_labels({toleration["key"]: ""}, f"{where}.key")
        elif operator not in ("Exists",):
            causes.append(
                invalid_value(
                    f"{where}.operator",
                    operator,
                    'operator must be Exists when `key` is empty, which means "match all values and all keys"',
                )
            )
        if toleration.get("tolerationSeconds") is not None and toleration.get("effect") != "NoExecute":
            causes.append(
                invalid_value(
                    f"{where}.effect",
                    toleration.get("effect", ""),
                    "effect must be 'NoExecute' when `tolerationSeconds` is set",
                )
            )
        if operator == "Exists" and toleration.get("value"):
            causes.append(
                invalid_value(
                    f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
                )
            )
        elif operator not in ("", "Equal", "Exists", "Lt", "Gt"):
            causes.append(unsupported(f"{where}.operator", operator, ("Equal", "Exists")))
        if toleration.get("effect") and toleration["effect"] not in TAINT_EFFECTS:
            causes.append(unsupported(f"{where}.effect", toleration["effect"], TAINT_EFFECTS))
    return causes


def _check_affinity(affinity: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    node = affinity.get("nodeAffinity") or {}
    required_terms = node.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required_terms is not None:
        where = f"{path}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        terms = required_terms.get("nodeSelectorTerms") or ()
        if not terms:
            causes.append(required(where, "must have at least one node selector term"))
        for index, term in enumerate(terms):
            causes += check_node_selector_term(term, f"{where}[{index}]")
    for index, preferred in enumerate(node.get("preferredDuringSchedulingIgnoredDuringExecution") or ()):
        where = f"{path}.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
        causes += _check_weight(preferred, where)
        causes += check_node_selector_term(preferred.get("preference") or {}, f"{where}.preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = (affinity.get(kind) or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for index, term in enumerate(terms):
            where = f"{path}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
            causes += _check_pod_term(term, where)
        terms = (affinity.get(kind) or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        for index, weighted in enumerate(terms):
            where = f"{path}.{kind}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            causes += _check_weight(weighted, where)
            causes += _check_pod_term(weighted.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")
    return causes


def _check_weight(holder: Json, path: str) -> list[Cause]:
    weight = holder.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid_value(f"{path}.weight", weight, "must be in the range 1-100")]


def _check_pod_term(term: Json, path: str) -> list[Cause]:
    if not term.get("topologyKey"):
        return [required(f"{path}.topologyKey", "can not be empty")]
    return []


def check_node_selector_term(term: Json, path: str) -> list[Cause]:
    causes: list[Cause] = []
    for index, expression in enumerate(term.get("matchExpressions") or ()):
        where, operator = f"{path}.matchExpressions[{index}]", expression.get("operator", "")
        values = expression.get("values") or ()
        if operator in ("In", "NotIn") and not values:
            causes.append(required(f"{where}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        elif operator in ("Exists", "DoesNotExist") and values:
            causes.append(
                forbidden_field(f"{where}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
            )
        elif operator in ("Gt", "Lt") and len(values) != 1:
            causes.append(required(f"{where}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'"))
        elif operator not in _NODE_OPERATORS:
            causes.append(invalid_value(f"{where}.operator", operator, "not a valid selector operator"))
        causes += metadata.check_labels({expression.get("key", ""): ""}, f"{where}.key")
    return causes


def _check_spread(constraints: Sequence[Json], path: str) -> list[Cause]:
    causes, seen = [], set()
    for index, constraint in enumerate(constraints):
        where = f"{path}[{index}]"
        if constraint.get("maxSkew", 0) <= 0:
            causes.append(invalid_value(f"{where}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
        if not constraint.get("topologyKey"):
            causes.append(required(f"{where}.topologyKey", "can not be empty"))
        when = constraint.get("whenUnsatisfiable", "")
        if when not in ("DoNotSchedule", "ScheduleAnyway"):
            causes.append(unsupported(f"{where}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway")))
        pair = (constraint.get("topologyKey", ""), when)
        if pair in seen:
            causes.append(duplicate(f"{where}.{{topologyKey, whenUnsatisfiable}}", "{" + ", ".join(pair) + "}"))
        seen.add(pair)
    return causes


def _check_gates(gates: Sequence[Json], path: str) -> list[Cause]:
    causes: list[Cause] = []
    names: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        check: Callable[[Json, str], list[Cause]] = metadata.check_labels
        causes += check({name: ""}, f"{path}[{index}]")
        if name in names:
            causes.append(duplicate(f"{path}[{index}]", name))
        names.add(name)
    return causes


def pod_spec_warnings(spec: Json, path: str) -> list[str]:
    """What is valid and yet hardly meant."""
    return [
        f"{path}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector results in matching no pod"
        for index, constraint in enumerate(spec.get("topologySpreadConstraints") or ())
        if constraint.get("labelSelector") is None
    ]
