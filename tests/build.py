"""Builders for the objects that tests are about.

Every builder starts from a small legal object and is refined by chained calls:

    make_pod("web-1").label("app", "web").cpu("500m").node("n1").obj()
    make_node("n1").capacity(cpu=4, memory="8Gi", pods=110).zone("a").taint("gpu").obj()

`.dict()` is the manifest, `.obj()` the typed object decoded from that very manifest, so both always agree. Chaining
changes the builder itself; `.copy()` makes an independent one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from typing import Any, Generic, Self, TypeVar, cast

from kubesched.api import apps, codec, coordination, core, kinds, policy, resource, scheduling, storage
from kubesched.api.kinds import Kind
from kubesched.api.meta import Object, format_time
from kubesched.api.quantity import Quantity

Doc = dict[str, Any]
Expression = tuple[str, str, Iterable[str]]
"""A requirement of a selector: key, operator, values."""

T = TypeVar("T", bound=Object)

CREATED = "2026-01-01T00:00:00Z"
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"


class Builder(Generic[T]):
    """What all kinds have in common. The uid follows from namespace and name unless it is set."""

    def __init__(self, kind: Kind, name: str, **rest: Any) -> None:
        self._kind = kind
        self._metadata: Doc = {"name": name, "creationTimestamp": CREATED}
        if kind.namespaced:
            self._metadata["namespace"] = "default"
        self._doc: Doc = rest

    def namespace(self, namespace: str) -> Self:
        self._metadata["namespace"] = namespace
        return self

    def uid(self, uid: str) -> Self:
        self._metadata["uid"] = uid
        return self

    def label(self, key: str, value: str = "") -> Self:
        self._metadata.setdefault("labels", {})[key] = value
        return self

    def labels(self, labels: Mapping[str, str]) -> Self:
        self._metadata.setdefault("labels", {}).update(labels)
        return self

    def annotation(self, key: str, value: str) -> Self:
        self._metadata.setdefault("annotations", {})[key] = value
        return self

    def owner(
        self, kind: str, name: str, *, uid: str = "", controller: bool = True, api_version: str = "apps/v1"
    ) -> Self:
        self._metadata.setdefault("ownerReferences", []).append(
            {
                "apiVersion": api_version,
                "kind": kind,
                "name": name,
                "uid": uid or _uid(self._metadata.get("namespace", ""), name),
                "controller": controller,
            }
        )
        return self

    def created(self, at: float | str) -> Self:
        self._metadata["creationTimestamp"] = at if isinstance(at, str) else format_time(at)
        return self

    def deleting(self, at: float | str = "2026-01-01T01:00:00Z") -> Self:
        self._metadata["deletionTimestamp"] = at if isinstance(at, str) else format_time(at)
        return self

    def finalizer(self, name: str) -> Self:
        self._metadata.setdefault("finalizers", []).append(name)
        return self

    def resource_version(self, version: str) -> Self:
        self._metadata["resourceVersion"] = version
        return self

    def copy(self) -> Self:
        return copy.deepcopy(self)

    def dict(self) -> Doc:
        metadata = copy.deepcopy(self._metadata)
        metadata.setdefault("uid", _uid(metadata.get("namespace", ""), metadata["name"]))
        head = {"apiVersion": self._kind.api_version, "kind": self._kind.kind, "metadata": metadata}
        return head | copy.deepcopy(self._doc)

    def json(self) -> bytes:
        return json.dumps(self.dict()).encode()

    def obj(self) -> T:
        return cast(T, codec.from_dict(self._kind, self.dict()))

    def _in(self, *path: str) -> Doc:
        """The map at `path`, made if it is not there."""
        doc = self._doc
        for part in path:
            doc = doc.setdefault(part, {})
        return doc

    def _list(self, *path: str) -> list[Any]:
        *parents, last = path
        return cast("list[Any]", self._in(*parents).setdefault(last, []))


class PodBuilder(Builder[core.Pod]):
    """Container calls (`requests`, `host_port`, `image`, ...) go to the container named last, the first one being
    there by itself."""

    def __init__(self, name: str) -> None:
        spec: Doc = {"schedulerName": "default-scheduler", "priority": 0, "containers": []}
        super().__init__(kinds.POD, name, spec=spec, status={"phase": "Pending"})
        self._current: Doc | None = None

    def dict(self) -> Doc:
        if not self._doc["spec"]["containers"]:
            self.container()
        return super().dict()

    # --- containers

    def container(
        self,
        name: str = "",
        *,
        image: str = "registry.example/app:1",
        requests: Mapping[str, Quantity] | None = None,
        limits: Mapping[str, Quantity] | None = None,
    ) -> Self:
        return self._container(
            "containers", name or f"c{len(self._list('spec', 'containers')) + 1}", image, requests, limits
        )

    def init_container(
        self,
        name: str = "",
        *,
        image: str = "registry.example/init:1",
        requests: Mapping[str, Quantity] | None = None,
        limits: Mapping[str, Quantity] | None = None,
        restart_policy: str | None = None,
    ) -> Self:
        name = name or f"i{len(self._list('spec', 'initContainers')) + 1}"
        self._container("initContainers", name, image, requests, limits)
        if restart_policy is not None:
            self._container_doc()["restartPolicy"] = restart_policy
        return self

    def sidecar(self, name: str = "", **options: Any) -> Self:
        """A restartable init container; `options` as for `init_container`."""
        return self.init_container(name, restart_policy="Always", **options)

    def requests(self, **amounts: Quantity) -> Self:
        """cpu="1", memory="1Gi", **{"example.com/gpu": 1}"""
        _put(self._container_doc(), ("resources", "requests"), amounts)
        return self

    def limits(self, **amounts: Quantity) -> Self:
        _put(self._container_doc(), ("resources", "limits"), amounts)
        return self

    def cpu(self, amount: Quantity) -> Self:
        return self.requests(cpu=amount)

    def memory(self, amount: Quantity) -> Self:
        return self.requests(memory=amount)

    def image(self, image: str) -> Self:
        self._container_doc()["image"] = image
        return self

    def host_port(self, port: int, *, protocol: str | None = "TCP", ip: str | None = None) -> Self:
        """`protocol=None` and `ip=None` leave the field out."""
        entry: Doc = {"containerPort": port or 80, "hostPort": port}
        if protocol is not None:
            entry["protocol"] = protocol
        if ip is not None:
            entry["hostIP"] = ip
        self._container_doc().setdefault("ports", []).append(entry)
        return self

    # --- where it may go

    def node(self, name: str) -> Self:
        return self._spec(nodeName=name)

    def scheduler(self, name: str) -> Self:
        return self._spec(schedulerName=name)

    def node_selector(self, labels: Mapping[str, str]) -> Self:
        self._in("spec", "nodeSelector").update(labels)
        return self

    def node_affinity_term(self, *expressions: Expression, fields: Iterable[Expression] = ()) -> Self:
        """One more term of required node affinity; a node must match one of them."""
        term: Doc = {}
        if expressions:
            term["matchExpressions"] = [_expression(each) for each in expressions]
        if field_terms := [_expression(each) for each in fields]:
            term["matchFields"] = field_terms
        required = ("spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        self._list(*required, "nodeSelectorTerms").append(term)
        return self

    def node_affinity_in(self, key: str, values: Iterable[str]) -> Self:
        return self.node_affinity_term((key, "In", values))

    def node_affinity_not_in(self, key: str, values: Iterable[str]) -> Self:
        return self.node_affinity_term((key, "NotIn", values))

    def node_affinity_name(self, *names: str) -> Self:
        """By `matchFields`, one term a name."""
        for name in names:
            self.node_affinity_term(fields=[("metadata.name", "In", [name])])
        return self

    def preferred_node_affinity(self, weight: int, *expressions: Expression) -> Self:
        preferred = ("spec", "affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        preference = {"matchExpressions": [_expression(each) for each in expressions]} if expressions else {}
        self._list(*preferred).append({"weight": weight, "preference": preference})
        return self

    def pod_affinity(self, topology_key: str, labels: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Required, or preferred with `weight=`. Other options: `selector=` (a whole label selector instead of
        `labels`), `namespaces=`, `namespace_selector=`, `match_label_keys=`, `mismatch_label_keys=`."""
        return self._pod_affinity("podAffinity", topology_key, labels, **options)

    def pod_anti_affinity(self, topology_key: str, labels: Mapping[str, str] | None = None, **options: Any) -> Self:
        """Options as for `pod_affinity`."""
        return self._pod_affinity("podAntiAffinity", topology_key, labels, **options)

    def spread(
        self,
        topology_key: str,
        labels: Mapping[str, str] | None = None,
        *,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        selector: Doc | None = None,
        min_domains: int | None = None,
        node_affinity_policy: str | None = None,
        node_taints_policy: str | None = None,
        match_label_keys: Iterable[str] = (),
    ) -> Self:
        constraint = {
            "maxSkew": max_skew,
            "topologyKey": topology_key,
            "whenUnsatisfiable": when,
            "labelSelector": _selector(labels, selector),
            "minDomains": min_domains,
            "nodeAffinityPolicy": node_affinity_policy,
            "nodeTaintsPolicy": node_taints_policy,
            "matchLabelKeys": list(match_label_keys) or None,
        }
        self._list("spec", "topologySpreadConstraints").append(_given(constraint))
        return self

    def toleration(
        self,
        key: str | None = None,
        value: str | None = None,
        *,
        operator: str | None = None,
        effect: str | None = None,
        seconds: int | None = None,
    ) -> Self:
        entry = {"key": key, "operator": operator, "value": value, "effect": effect, "tolerationSeconds": seconds}
        self._list("spec", "tolerations").append(_given(entry))
        return self

    def gate(self, name: str) -> Self:
        self._list("spec", "schedulingGates").append({"name": name})
        return self

    # --- how much it matters

    def priority(self, priority: int) -> Self:
        return self._spec(priority=priority)

    def priority_class(self, name: str) -> Self:
        """The number is left to whoever admits the pod; `priority` called afterwards sets it all the same."""
        self._in("spec").pop("priority", None)
        return self._spec(priorityClassName=name)

    def preemption_policy(self, policy: str) -> Self:
        return self._spec(preemptionPolicy=policy)

    # --- resources of the pod as a whole

    def overhead(self, **amounts: Quantity) -> Self:
        self._in("spec", "overhead").update(amounts)
        return self

    def pod_requests(self, **amounts: Quantity) -> Self:
        self._in("spec", "resources", "requests").update(amounts)
        return self

    def resource_claim(self, name: str, *, claim: str | None = None, template: str | None = None) -> Self:
        entry = {"name": name, "resourceClaimName": claim, "resourceClaimTemplateName": template}
        self._list("spec", "resourceClaims").append(_given(entry))
        return self

    def host_network(self) -> Self:
        return self._spec(hostNetwork=True)

    # --- volumes

    def pvc(self, claim: str) -> Self:
        return self.volume(persistentVolumeClaim={"claimName": claim})

    def image_volume(self, reference: str) -> Self:
        return self.volume(image={"reference": reference})

    def ephemeral_volume(self, name: str, *, storage_class: str | None = None, request: Quantity = "1Gi") -> Self:
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "resources": {"requests": {"storage": request}},
        }
        return self.volume(name, ephemeral={"volumeClaimTemplate": {"spec": _given(claim)}})

    def volume(self, name: str = "", **source: Any) -> Self:
        """`source` is the volume's source as in the manifest, such as gcePersistentDisk={"pdName": "d"}."""
        volumes = self._list("spec", "volumes")
        volumes.append({"name": name or f"v{len(volumes) + 1}"} | source)
        return self

    # --- status

    def phase(self, phase: str) -> Self:
        self._in("status")["phase"] = phase
        return self

    def nominated(self, node: str) -> Self:
        self._in("status")["nominatedNodeName"] = node
        return self

    def started(self, at: float | str) -> Self:
        self._in("status")["startTime"] = at if isinstance(at, str) else format_time(at)
        return self

    def condition(self, type: str, status: str = "True", *, reason: str = "", message: str = "") -> Self:
        entry = {"type": type, "status": status, "reason": reason or None, "message": message or None}
        self._list("status", "conditions").append(_given(entry))
        return self

    def container_status(
        self,
        name: str,
        *,
        actual: Mapping[str, Quantity] | None = None,
        allocated: Mapping[str, Quantity] | None = None,
        init: bool = False,
    ) -> Self:
        """`actual` are the requests that the container has now; None means that none are reported."""
        entry: Doc = {"name": name, "ready": True}
        if actual is not None:
            entry["resources"] = {"requests": dict(actual)}
        if allocated is not None:
            entry["allocatedResources"] = dict(allocated)
        self._list("status", "initContainerStatuses" if init else "containerStatuses").append(entry)
        return self

    def pod_status_resources(
        self, *, actual: Mapping[str, Quantity] | None = None, allocated: Mapping[str, Quantity] | None = None
    ) -> Self:
        if actual is not None:
            self._in("status", "resources")["requests"] = dict(actual)
        if allocated is not None:
            self._in("status")["allocatedResources"] = dict(allocated)
        return self

    def _spec(self, **fields: Any) -> Self:
        self._in("spec").update(fields)
        return self

    def _container_doc(self) -> Doc:
        if self._current is None:
            self.container()
        assert self._current is not None
        return self._current

    def _container(
        self,
        sort: str,
        name: str,
        image: str,
        requests: Mapping[str, Quantity] | None,
        limits: Mapping[str, Quantity] | None,
    ) -> Self:
        doc: Doc = {"name": name, "image": image}
        if requests is not None:
            _put(doc, ("resources", "requests"), requests)
        if limits is not None:
            _put(doc, ("resources", "limits"), limits)
        self._list("spec", sort).append(doc)
        self._current = doc
        return self

    def _pod_affinity(
        self,
        sort: str,
        topology_key: str,
        labels: Mapping[str, str] | None,
        *,
        weight: int | None = None,
        selector: Doc | None = None,
        namespaces: Iterable[str] = (),
        namespace_selector: Doc | None = None,
        match_label_keys: Iterable[str] = (),
        mismatch_label_keys: Iterable[str] = (),
    ) -> Self:
        term = _given(
            {
                "topologyKey": topology_key,
                "labelSelector": _selector(labels, selector),
                "namespaces": list(namespaces) or None,
                "namespaceSelector": namespace_selector,
                "matchLabelKeys": list(match_label_keys) or None,
                "mismatchLabelKeys": list(mismatch_label_keys) or None,
            }
        )
        rules = ("spec", "affinity", sort)
        if weight is None:
            self._list(*rules, "requiredDuringSchedulingIgnoredDuringExecution").append(term)
        else:
            entry = {"weight": weight, "podAffinityTerm": term}
            self._list(*rules, "preferredDuringSchedulingIgnoredDuringExecution").append(entry)
        return self


class NodeBuilder(Builder[core.Node]):
    """Has its hostname label, and room for 110 pods on 4 cpu and 8 GiB until told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(kinds.NODE, name, spec={}, status={})
        self.label(HOSTNAME, name).capacity(cpu=4, memory="8Gi")

    def capacity(self, *, pods: Quantity | None = 110, **amounts: Quantity) -> Self:
        """Capacity and allocatable alike, in place of what was there; `pods=None` leaves the pod count out."""
        if pods is not None:
            amounts["pods"] = pods
        self._in("status").update(capacity=dict(amounts), allocatable=dict(amounts))
        return self

    def allocatable(self, **amounts: Quantity) -> Self:
        """Some of the allocatable amounts; capacity stays as it is."""
        self._in("status", "allocatable").update(amounts)
        return self

    def no_status(self) -> Self:
        self._doc.pop("status", None)
        return self

    def zone(self, zone: str) -> Self:
        return self.label(ZONE, zone)

    def region(self, region: str) -> Self:
        return self.label(REGION, region)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        entry = {"key": key, "value": value or None, "effect": effect}
        self._list("spec", "taints").append(_given(entry))
        return self

    def unschedulable(self, unschedulable: bool = True) -> Self:
        self._in("spec")["unschedulable"] = unschedulable
        return self

    def image(self, name: str, size_bytes: int, *other_names: str) -> Self:
        self._list("status", "images").append({"names": [name, *other_names], "sizeBytes": size_bytes})
        return self

    def condition(self, type: str, status: str = "True", *, reason: str = "") -> Self:
        self._list("status", "conditions").append(_given({"type": type, "status": status, "reason": reason or None}))
        return self

    def feature(self, *names: str) -> Self:
        self._list("status", "declaredFeatures").extend(names)
        return self


class NamespaceBuilder(Builder[core.Namespace]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.NAMESPACE, name, status={"phase": "Active"})


class ClaimBuilder(Builder[core.PersistentVolumeClaim]):
    """Asks for 1Gi, ReadWriteOnce, of no class; Pending until it is bound."""

    def __init__(self, name: str) -> None:
        spec: Doc = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        super().__init__(kinds.PERSISTENT_VOLUME_CLAIM, name, spec=spec, status={"phase": "Pending"})

    def storage_class(self, name: str) -> Self:
        self._in("spec")["storageClassName"] = name
        return self

    def request(self, amount: Quantity) -> Self:
        self._in("spec", "resources", "requests")["storage"] = amount
        return self

    def access_modes(self, *modes: str) -> Self:
        self._in("spec")["accessModes"] = list(modes)
        return self

    def volume_mode(self, mode: str) -> Self:
        self._in("spec")["volumeMode"] = mode
        return self

    def volume_selector(self, labels: Mapping[str, str]) -> Self:
        self._in("spec")["selector"] = {"matchLabels": dict(labels)}
        return self

    def bound_to(self, volume: str) -> Self:
        self._in("spec")["volumeName"] = volume
        self._in("status")["phase"] = "Bound"
        return self.annotation("pv.kubernetes.io/bind-completed", "yes")


class VolumeBuilder(Builder[core.PersistentVolume]):
    """A volume of 1Gi, ReadWriteOnce, of no class, Available until it is claimed."""

    def __init__(self, name: str) -> None:
        spec: Doc = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        super().__init__(kinds.PERSISTENT_VOLUME, name, spec=spec, status={"phase": "Available"})

    def storage_class(self, name: str) -> Self:
        self._in("spec")["storageClassName"] = name
        return self

    def capacity(self, amount: Quantity) -> Self:
        self._in("spec", "capacity")["storage"] = amount
        return self

    def access_modes(self, *modes: str) -> Self:
        self._in("spec")["accessModes"] = list(modes)
        return self

    def volume_mode(self, mode: str) -> Self:
        self._in("spec")["volumeMode"] = mode
        return self

    def csi(self, driver: str, handle: str = "") -> Self:
        self._in("spec")["csi"] = {"driver": driver, "volumeHandle": handle or self._metadata["name"]}
        return self

    def local(self, path: str = "/mnt/disk") -> Self:
        self._in("spec")["local"] = {"path": path}
        return self

    def source(self, **source: Any) -> Self:
        """The volume's source as in the manifest, such as gcePersistentDisk={"pdName": "d"}."""
        self._in("spec").update(source)
        return self

    def node_affinity_in(self, key: str, values: Iterable[str]) -> Self:
        term = {"matchExpressions": [_expression((key, "In", values))]}
        self._list("spec", "nodeAffinity", "required", "nodeSelectorTerms").append(term)
        return self

    def claimed_by(self, claim: str, *, namespace: str = "default", uid: str | None = None) -> Self:
        """`uid=""` is a volume reserved for a claim that it is not bound to yet."""
        claim_ref = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": namespace, "name": claim}
        claim_ref["uid"] = _uid(namespace, claim) if uid is None else uid
        self._in("spec")["claimRef"] = claim_ref
        if claim_ref["uid"]:
            self._in("status")["phase"] = "Bound"
        return self


class StorageClassBuilder(Builder[storage.StorageClass]):
    """Binds at once, without provisioner, until told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__(
            kinds.STORAGE_CLASS, name, provisioner="kubernetes.io/no-provisioner", volumeBindingMode="Immediate"
        )

    def provisioner(self, name: str) -> Self:
        self._doc["provisioner"] = name
        return self

    def wait_for_first_consumer(self) -> Self:
        self._doc["volumeBindingMode"] = "WaitForFirstConsumer"
        return self

    def topology(self, key: str, values: Iterable[str]) -> Self:
        requirement = {"key": key, "values": list(values)}
        self._list("allowedTopologies").append({"matchLabelExpressions": [requirement]})
        return self

    def default(self) -> Self:
        return self.annotation("storageclass.kubernetes.io/is-default-class", "true")


class CSINodeBuilder(Builder[storage.CSINode]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.CSI_NODE, name, spec={"drivers": []})

    def driver(self, name: str, *, count: int | None = None, topology_keys: Iterable[str] = ()) -> Self:
        entry: Doc = {"name": name, "nodeID": self._metadata["name"], "topologyKeys": list(topology_keys)}
        if count is not None:
            entry["allocatable"] = {"count": count}
        self._list("spec", "drivers").append(entry)
        return self


class BudgetBuilder(Builder[policy.PodDisruptionBudget]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.POD_DISRUPTION_BUDGET, name, spec={}, status={"disruptionsAllowed": 0})

    def selector(self, labels: Mapping[str, str] | None = None, *expressions: Expression) -> Self:
        self._in("spec")["selector"] = _label_selector(labels or {}, expressions)
        return self

    def min_available(self, amount: int | str) -> Self:
        self._in("spec")["minAvailable"] = amount
        return self

    def max_unavailable(self, amount: int | str) -> Self:
        self._in("spec")["maxUnavailable"] = amount
        return self

    def allowed(self, disruptions: int) -> Self:
        self._in("status")["disruptionsAllowed"] = disruptions
        return self

    def disrupted(self, pod: str, at: str = CREATED) -> Self:
        self._in("status", "disruptedPods")[pod] = at
        return self


class ServiceBuilder(Builder[core.Service]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.SERVICE, name, spec={"ports": [{"port": 80, "protocol": "TCP"}]})

    def selector(self, labels: Mapping[str, str]) -> Self:
        self._in("spec")["selector"] = dict(labels)
        return self


class WorkloadBuilder(Builder[T]):
    """Deployments, sets and the like: one replica of a small pod, selected by app=<name>."""

    def __init__(self, kind: Kind, name: str, *, plain_selector: bool = False) -> None:
        self._plain_selector = plain_selector
        super().__init__(kind, name, spec={})
        self.selector({"app": name}).template(make_pod("template").label("app", name))

    def replicas(self, count: int) -> Self:
        self._in("spec")["replicas"] = count
        return self

    def selector(self, labels: Mapping[str, str], *expressions: Expression) -> Self:
        self._in("spec")["selector"] = dict(labels) if self._plain_selector else _label_selector(labels, expressions)
        return self

    def template(self, pod: PodBuilder) -> Self:
        """Labels, annotations and spec of `pod`."""
        doc = pod.dict()
        metadata = {key: doc["metadata"][key] for key in ("labels", "annotations") if key in doc["metadata"]}
        self._in("spec")["template"] = {"metadata": metadata, "spec": doc["spec"]}
        return self

    def spec(self, **fields: Any) -> Self:
        """Other fields of the spec as in the manifest, such as completions=3."""
        self._in("spec").update(fields)
        return self


class PriorityClassBuilder(Builder[scheduling.PriorityClass]):
    def __init__(self, name: str, value: int) -> None:
        super().__init__(kinds.PRIORITY_CLASS, name, value=value)

    def global_default(self) -> Self:
        self._doc["globalDefault"] = True
        return self

    def preemption_policy(self, policy: str) -> Self:
        self._doc["preemptionPolicy"] = policy
        return self


class LeaseBuilder(Builder[coordination.Lease]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.LEASE, name, spec={})

    def spec(self, **fields: Any) -> Self:
        self._in("spec").update(fields)
        return self


class ResourceClaimBuilder(Builder[resource.ResourceClaim]):
    def __init__(self, name: str) -> None:
        super().__init__(kinds.RESOURCE_CLAIM, name, spec={"devices": {"requests": []}})

    def request(self, name: str, device_class: str) -> Self:
        self._list("spec", "devices", "requests").append({"name": name, "exactly": {"deviceClassName": device_class}})
        return self


def make_pod(name: str = "pod") -> PodBuilder:
    return PodBuilder(name)


def make_node(name: str = "node") -> NodeBuilder:
    return NodeBuilder(name)


def make_namespace(name: str) -> NamespaceBuilder:
    return NamespaceBuilder(name)


def make_pvc(name: str) -> ClaimBuilder:
    return ClaimBuilder(name)


def make_pv(name: str) -> VolumeBuilder:
    return VolumeBuilder(name)


def make_storage_class(name: str) -> StorageClassBuilder:
    return StorageClassBuilder(name)


def make_csi_node(name: str) -> CSINodeBuilder:
    return CSINodeBuilder(name)


def make_pdb(name: str) -> BudgetBuilder:
    return BudgetBuilder(name)


def make_service(name: str) -> ServiceBuilder:
    return ServiceBuilder(name)


def make_replica_set(name: str) -> WorkloadBuilder[apps.ReplicaSet]:
    return WorkloadBuilder(kinds.REPLICA_SET, name)


def make_stateful_set(name: str) -> WorkloadBuilder[apps.StatefulSet]:
    return WorkloadBuilder(kinds.STATEFUL_SET, name)


def make_deployment(name: str) -> WorkloadBuilder[apps.Deployment]:
    return WorkloadBuilder(kinds.DEPLOYMENT, name)


def make_daemon_set(name: str) -> WorkloadBuilder[apps.DaemonSet]:
    return WorkloadBuilder(kinds.DAEMON_SET, name)


def make_job(name: str) -> WorkloadBuilder[apps.Job]:
    return WorkloadBuilder(kinds.JOB, name)


def make_replication_controller(name: str) -> WorkloadBuilder[core.ReplicationController]:
    return WorkloadBuilder(kinds.REPLICATION_CONTROLLER, name, plain_selector=True)


def make_priority_class(name: str, value: int) -> PriorityClassBuilder:
    return PriorityClassBuilder(name, value)


def make_lease(name: str) -> LeaseBuilder:
    return LeaseBuilder(name)


def make_resource_claim(name: str) -> ResourceClaimBuilder:
    return ResourceClaimBuilder(name)


def _uid(namespace: str, name: str) -> str:
    return f"uid-{namespace}-{name}" if namespace else f"uid-{name}"


def _given(fields: Doc) -> Doc:
    """Without what is None."""
    return {key: value for key, value in fields.items() if value is not None}


def _put(doc: Doc, path: tuple[str, ...], amounts: Mapping[str, Quantity]) -> None:
    for part in path:
        doc = doc.setdefault(part, {})
    doc.update(amounts)


def _expression(expression: Expression) -> Doc:
    key, operator, values = expression
    entry: Doc = {"key": key, "operator": operator}
    if listed := list(values):
        entry["values"] = listed
    return entry


def _label_selector(labels: Mapping[str, str], expressions: Iterable[Expression]) -> Doc:
    selector: Doc = {}
    if labels:
        selector["matchLabels"] = dict(labels)
    if listed := [_expression(each) for each in expressions]:
        selector["matchExpressions"] = listed
    return selector


def _selector(labels: Mapping[str, str] | None, selector: Doc | None) -> Doc | None:
    assert labels is None or selector is None, "either labels or a whole selector"
    return {"matchLabels": dict(labels)} if labels is not None else selector
