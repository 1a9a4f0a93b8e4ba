"""The columns of `kubectl get` by kind, and how their cells are read from an object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kubesched.apiserver.durations import human
from kubesched.apiserver.label_selectors import selector_text
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.pod_columns import pod_conditions, pod_ready, pod_restarts, pod_status
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules.storage import DEFAULT_CLASS
from kubesched.apiserver.store import Json

Cell = Callable[[Json, float], Any]
NONE, UNKNOWN, UNSET = "<none>", "<unknown>", "<unset>"


@dataclass(frozen=True, slots=True)
class Column:
    """`priority` 1 is shown with `-o wide` only."""

    name: str
    cell: Cell
    type: str = "string"
    priority: int = 0

    def definition(self) -> Json:
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": f"{self.name} of the object.",
            "priority": self.priority,
        }


def _get(path: str, default: Any = "") -> Cell:
    parts = path.split(".")

    def read(document: Json, now: float) -> Any:
        value: Any = document
        for part in parts:
            value = value.get(part) if isinstance(value, dict) else None
        return default if value in (None, "") else value

    return read


def _wide(name: str, cell: Cell) -> Column:
    return Column(name, cell, priority=1)


def since(text: str | None, now: float) -> str:
    return human(now - epoch(text)) if text else UNKNOWN


def _age(document: Json, now: float) -> str:
    return since(document["metadata"].get("creationTimestamp"), now)


def _class_name(storage_class: Json, now_s: float) -> str:
    """kubectl shows which class a claim gets that names none."""
    annotations = storage_class["metadata"].get("annotations") or {}
    name: str = storage_class["metadata"]["name"]
    return f"{name} (default)" if "true" in map(annotations.get, DEFAULT_CLASS) else name


_NAME = Column("Name", _get("metadata.name"))
_AGE = Column("Age", _age)


def _containers(path: str, field: str) -> Cell:
    holder = _get(path, {})

    def read(document: Json, now: float) -> str:
        return ",".join(str(c.get(field, "")) for c in holder(document, now).get("containers") or ())

    return read


def _selector(document: Json, now: float) -> str:
    selector = document["spec"].get("selector")
    if not selector:
        return NONE
    plain = "matchLabels" not in selector and "matchExpressions" not in selector
    return selector_text({"matchLabels": selector} if plain else selector) or NONE


_TEMPLATE = (
    _wide("Containers", _containers("spec.template.spec", "name")),
    _wide("Images", _containers("spec.template.spec", "image")),
)
_SELECTED = (*_TEMPLATE, _wide("Selector", _selector))


def _ready_of(wanted: str, ready: str) -> Cell:
    want, have = _get(wanted, 0), _get(ready, 0)
    return lambda document, now: f"{have(document, now)}/{want(document, now)}"


def _node_status(node: Json, now: float) -> str:
    ready = next((c for c in node["status"].get("conditions") or () if c["type"] == "Ready"), None)
    states = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if node["spec"].get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(node: Json, now: float) -> str:
    labels = node["metadata"].get("labels") or {}
    roles = {
        key.removeprefix("node-role.kubernetes.io/") for key in labels if key.startswith("node-role.kubernetes.io/")
    }
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(roles - {""})) or NONE


def _node_kernel(node: Json, now: float) -> str:
    info = node["status"].get("nodeInfo") or {}
    kernel, architecture = info.get("kernelVersion") or UNKNOWN, info.get("architecture")
    return f"{kernel} ({architecture})" if architecture else kernel


def _address(kind: str) -> Cell:
    return lambda node, now: next(
        (a["address"] for a in node["status"].get("addresses") or () if a["type"] == kind), NONE
    )


def _service_ports(service: Json, now: float) -> str:
    return (
        ",".join(
            f"{p['port']}:{p['nodePort']}/{p['protocol']}" if p.get("nodePort") else f"{p['port']}/{p['protocol']}"
            for p in service["spec"].get("ports") or ()
        )
        or NONE
    )


def _service_address(service: Json, now: float) -> str:
    spec = service["spec"]
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", NONE))
    ingress = (service.get("status") or {}).get("loadBalancer", {}).get("ingress") or ()
    found = [*(i.get("ip") or i.get("hostname", "") for i in ingress), *(spec.get("externalIPs") or ())]
    return ",".join(found) or ("<pending>" if spec.get("type") == "LoadBalancer" else NONE)


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(path: str) -> Cell:
    modes = _get(path, ())
    return lambda document, now: ",".join(_MODES.get(mode, mode) for mode in modes(document, now))


def _claim_status(claim: Json, now: float) -> str:
    return "Terminating" if "deletionTimestamp" in claim["metadata"] else str(_get("status.phase")(claim, now))


def _health(field: str) -> Cell:
    """A cell about a component, from its condition Healthy."""

    def read(component: Json, now: float) -> str:
        condition: Json = next((c for c in component["conditions"] if c["type"] == "Healthy"), {})
        if field != "status":
            return str(condition.get(field, ""))
        return "Healthy" if condition.get("status") == "True" else "Unhealthy" if condition else "Unknown"

    return read


def _claim_of(volume: Json, now: float) -> str:
    ref = volume["spec"].get("claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


def _event_object(event: Json, now: float) -> str:
    ref = event.get("involvedObject") or event.get("regarding") or {}
    return f"{ref['kind'].lower()}/{ref.get('name', '')}" if ref.get("kind") else str(ref.get("name", ""))


def _event_source(event: Json, now: float) -> str:
    source = event.get("source") or event.get("deprecatedSource") or {}
    parts = [source.get("component") or event.get("reportingComponent") or event.get("reportingController") or ""]
    parts.append(source.get("host") or event.get("reportingInstance") or "")
    return ", ".join(part for part in parts if part)


def _event_first(event: Json, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("deprecatedFirstTimestamp") or event.get("eventTime"), now)


def _event_last(event: Json, now: float) -> str:
    series = event.get("series") or {}
    text = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("deprecatedLastTimestamp")
    return since(text or event.get("eventTime"), now)


def _event_count(event: Json, now: float) -> int:
    series = event.get("series") or {}
    return int(series.get("count") or event.get("count") or event.get("deprecatedCount") or 1)


def _event_message(event: Json, now: float) -> str:
    return str(event.get("message") or event.get("note") or "").strip()


def _budget_share(name: str) -> Cell:
    return lambda budget, now: str(budget["spec"].get(name, "N/A"))


def _job_status(job: Json, now: float) -> str:
    conditions = {c["type"]: c["status"] for c in (job.get("status") or {}).get("conditions") or ()}
    for kind, shown in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")):
        if conditions.get(kind) == "True":
            return shown
    return "Terminating" if "deletionTimestamp" in job["metadata"] else "Running"


def _job_completions(job: Json, now: float) -> str:
    done = (job.get("status") or {}).get("succeeded", 0)
    return f"{done}/{job['spec'].get('completions', 1)}"


def _job_duration(job: Json, now: float) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    end = epoch(status["completionTime"]) if status.get("completionTime") else now
    return human(end - epoch(status["startTime"]))


def _schedule_age(job: Json, now: float) -> str:
    last = (job.get("status") or {}).get("lastScheduleTime")
    return since(last, now) if last else NONE


def _length(path: str) -> Cell:
    items = _get(path, ())
    return lambda document, now: len(items(document, now))


def _endpoints(document: Json, now: float) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in document.get("subsets") or ()
        for port in subset.get("ports") or ()
        for address in subset.get("addresses") or ()
    ]
    return ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "") or NONE


def _hpa_reference(document: Json, now: float) -> str:
    ref = document["spec"].get("scaleTargetRef", {})
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _number(name: str, path: str) -> Column:
    return Column(name, _get(path, 0), "integer")


def _node_selector(document: Json, now: float) -> str:
    wanted = document["spec"]["template"]["spec"].get("nodeSelector") or {}
    return selector_text({"matchLabels": wanted}) or NONE


_COLUMNS: dict[tuple[str, str], tuple[Column, ...]] = {
    ("", "pods"): (
        _NAME,
        Column("Ready", lambda pod, now: pod_ready(pod)),
        Column("Status", lambda pod, now: pod_status(pod)),
        Column("Restarts", lambda pod, now: pod_restarts(pod, now)),
        _AGE,
        _wide("IP", _get("status.podIP", NONE)),
        _wide("Node", _get("spec.nodeName", NONE)),
        _wide("Nominated Node", _get("status.nominatedNodeName", NONE)),
        _wide("Readiness Gates", lambda pod, now: _gates(pod)),
    ),
    ("", "nodes"): (
        _NAME,
        Column("Status", _node_status),
        Column("Roles", _node_roles),
        _AGE,
        Column("Version", _get("status.nodeInfo.kubeletVersion")),
        _wide("Internal-IP", _address("InternalIP")),
        _wide("External-IP", _address("ExternalIP")),
        _wide("OS-Image", _get("status.nodeInfo.osImage", UNKNOWN)),
        _wide("Kernel-Version", _node_kernel),
        _wide("Container-Runtime", _get("status.nodeInfo.containerRuntimeVersion", UNKNOWN)),
    ),
    ("", "namespaces"): (_NAME, Column("Status", _get("status.phase")), _AGE),
    ("", "services"): (
        _NAME,
        Column("Type", _get("spec.type")),
        Column("Cluster-IP", _get("spec.clusterIP", NONE)),
        Column("External-IP", _service_address),
        Column("Port(s)", _service_ports),
        _AGE,
        _wide("Selector", _selector),
    ),
    ("", "endpoints"): (_NAME, Column("Endpoints", _endpoints), _AGE),
    ("", "configmaps"): (_NAME, Column("Data", _length("data"), "string"), _AGE),
    ("", "secrets"): (_NAME, Column("Type", _get("type")), Column("Data", _length("data"), "string"), _AGE),
    ("", "serviceaccounts"): (_NAME, Column("Secrets", _length("secrets"), "string"), _AGE),
    ("", "persistentvolumeclaims"): (
        _NAME,
        Column("Status", _claim_status),
        Column("Volume", _get("spec.volumeName")),
        Column("Capacity", _get("status.capacity.storage")),
        Column("Access Modes", _modes("status.accessModes")),
        Column("StorageClass", _get("spec.storageClassName")),
        Column("VolumeAttributesClass", _get("spec.volumeAttributesClassName", UNSET)),
        _AGE,
        _wide("VolumeMode", _get("spec.volumeMode", UNSET)),
    ),
    ("", "persistentvolumes"): (
        _NAME,
        Column("Capacity", _get("spec.capacity.storage")),
        Column("Access Modes", _modes("spec.accessModes")),
        Column("Reclaim Policy", _get("spec.persistentVolumeReclaimPolicy")),
        Column("Status", _claim_status),
        Column("Claim", _claim_of),
        Column("StorageClass", _get("spec.storageClassName")),
        Column("VolumeAttributesClass", _get("spec.volumeAttributesClassName", UNSET)),
        Column("Reason", _get("status.reason")),
        _AGE,
        _wide("VolumeMode", _get("spec.volumeMode", UNSET)),
    ),
    ("", "replicationcontrollers"): (
        _NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _AGE,
        *_SELECTED,
    ),
    ("", "componentstatuses"): (
        _NAME,
        Column("Status", _health("status")),
        Column("Message", _health("message")),
        Column("Error", _health("error")),
    ),
    ("apps", "deployments"): (
        _NAME,
        Column("Ready", _ready_of("spec.replicas", "status.readyReplicas")),
        Column("Up-to-date", _get("status.updatedReplicas", 0)),
        Column("Available", _get("status.availableReplicas", 0)),
        _AGE,
        *_SELECTED,
    ),
    ("apps", "replicasets"): (
        _NAME,
        _number("Desired", "spec.replicas"),
        _number("Current", "status.replicas"),
        _number("Ready", "status.readyReplicas"),
        _AGE,
        *_SELECTED,
    ),
    ("apps", "statefulsets"): (
        _NAME,
        Column("Ready", _ready_of("spec.replicas", "status.readyReplicas")),
        _AGE,
        *_TEMPLATE,
    ),
    ("apps", "daemonsets"): (
        _NAME,
        _number("Desired", "status.desiredNumberScheduled"),
        _number("Current", "status.currentNumberScheduled"),
        _number("Ready", "status.numberReady"),
        _number("Up-to-date", "status.updatedNumberScheduled"),
        _number("Available", "status.numberAvailable"),
        Column("Node Selector", _node_selector),
        _AGE,
        *_SELECTED,
    ),
    ("batch", "jobs"): (
        _NAME,
        Column("Status", _job_status),
        Column("Completions", _job_completions),
        Column("Duration", _job_duration),
        _AGE,
        *_SELECTED,
    ),
    ("batch", "cronjobs"): (
        _NAME,
        Column("Schedule", _get("spec.schedule")),
        Column("Timezone", _get("spec.timeZone", NONE)),
        Column("Suspend", _get("spec.suspend", False), "boolean"),
        Column("Active", _length("status.active"), "integer"),
        Column("Last Schedule", _schedule_age),
        _AGE,
        _wide("Containers", _containers("spec.jobTemplate.spec.template.spec", "name")),
        _wide("Images", _containers("spec.jobTemplate.spec.template.spec", "image")),
        _wide("Selector", lambda document, now: NONE),
    ),
    ("autoscaling", "horizontalpodautoscalers"): (
        _NAME,
        Column("Reference", _hpa_reference),
        Column("Targets", lambda document, now: UNKNOWN),
        Column("MinPods", _get("spec.minReplicas", UNSET)),
        Column("MaxPods", _get("spec.maxReplicas", 0)),
        Column("Replicas", _get("status.currentReplicas", 0)),
        _AGE,
    ),
    ("policy", "poddisruptionbudgets"): (
        _NAME,
        Column("Min Available", _budget_share("minAvailable")),
        Column("Max Unavailable", _budget_share("maxUnavailable")),
        _number("Allowed Disruptions", "status.disruptionsAllowed"),
        _AGE,
    ),
    ("scheduling.k8s.io", "priorityclasses"): (
        _NAME,
        _number("Value", "value"),
        Column("Global-Default", _get("globalDefault", False), "boolean"),
        _AGE,
        Column("PreemptionPolicy", _get("preemptionPolicy")),
    ),
    ("coordination.k8s.io", "leases"): (_NAME, Column("Holder", _get("spec.holderIdentity")), _AGE),
    ("storage.k8s.io", "storageclasses"): (
        Column("Name", _class_name),
        Column("Provisioner", _get("provisioner")),
        Column("ReclaimPolicy", _get("reclaimPolicy", "Delete")),
        Column("VolumeBindingMode", _get("volumeBindingMode", "Immediate")),
        Column("AllowVolumeExpansion", _get("allowVolumeExpansion", False)),
        _AGE,
    ),
    ("storage.k8s.io", "csinodes"): (_NAME, Column("Drivers", _length("spec.drivers"), "integer"), _AGE),
}
_EVENT_COLUMNS = (
    Column("Last Seen", _event_last),
    Column("Type", _get("type")),
    Column("Reason", _get("reason")),
    Column("Object", _event_object),
    _wide("Subobject", _get("involvedObject.fieldPath")),
    _wide("Source", _event_source),
    Column("Message", _event_message),
    _wide("First Seen", _event_first),
    Column("Count", _event_count, priority=1),
    _wide("Name", _get("metadata.name")),
)
_COLUMNS["", "events"] = _COLUMNS["events.k8s.io", "events"] = _EVENT_COLUMNS
_PLAIN = (_NAME, Column("Created At", lambda document, now: document["metadata"].get("creationTimestamp")))
_PLAIN_AGE = (_NAME, _AGE)


def columns_of(resource: Resource) -> tuple[Column, ...]:
    return _COLUMNS.get((resource.group, resource.plural), _PLAIN_AGE)


def row_conditions(resource: Resource, document: Json) -> list[Json]:
    return pod_conditions(document) if (resource.group, resource.plural) == ("", "pods") else []


def _gates(pod: Json) -> str:
    gates = pod["spec"].get("readinessGates") or ()
    if not gates:
        return NONE
    true = {c["type"] for c in pod["status"].get("conditions") or () if c["status"] == "True"}
    return f"{sum(g['conditionType'] in true for g in gates)}/{len(gates)}"
