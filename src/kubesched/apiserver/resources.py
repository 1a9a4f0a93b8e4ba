"""The table of resources that the server knows: every kind of the built-in API groups of Kubernetes v1.36.

A row says how a kind is addressed (group, version, plural, scope), what kubectl calls it and which subresources it has.
Discovery documents, routing and storage are all derived from this table; nothing else in the package lists kinds.

Two resources may show the same stored objects (`events` of the core group and of `events.k8s.io`): `store_as` names
the group under which they are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")
_PROXY_VERBS = ("create", "delete", "get", "patch", "update")


@dataclass(frozen=True, slots=True)
class Subresource:
    name: str
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Resource:
    """One addressable resource. `kind` is the type of its objects, `plural` its name in paths."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[Subresource, ...] = ()
    store_as: str | None = None
    has_generation: bool = False
    graceful: bool = False
    field_labels: tuple[str, ...] = ()
    deprecated: str = ""
    api_version: str = field(default="", init=False)
    qualified: str = field(default="", init=False)
    prefix: bytes = field(default=b"", init=False, repr=False)

    def __post_init__(self) -> None:
        set_ = object.__setattr__
        set_(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)
        set_(self, "qualified", f"{self.plural}.{self.group}" if self.group else self.plural)
        set_(self, "prefix", f'{{"kind":"{self.kind}","apiVersion":"{self.api_version}",'.encode())

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def storage(self) -> tuple[str, str]:
        """Where objects are kept: (group, plural), shared by the views of one kind."""
        return (self.group if self.store_as is None else self.store_as, self.plural)

    @property
    def is_stored(self) -> bool:
        """Whether it has objects that are kept: the others are answered when asked (component statuses, reviews)."""
        return "watch" in self.verbs

    def subresource(self, name: str) -> Subresource | None:
        return next((s for s in self.subresources if s.name == name), None)

    @property
    def has_status(self) -> bool:
        return self.subresource("status") is not None


def _status(kind: str) -> Subresource:
    return Subresource("status", kind, _STATUS_VERBS)


_SCALE = Subresource("scale", "Scale", _STATUS_VERBS, "autoscaling", "v1")

_POD_FIELDS = (
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "spec.hostNetwork",
    "status.phase",
    "status.podIP",
    "status.podIPs",
    "status.nominatedNodeName",
)
_EVENT_FIELDS = (
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
)


def _core() -> list[Resource]:
    def row(kind: str, plural: str, namespaced: bool = True, **more: object) -> Resource:
        return Resource("", "v1", kind, plural, namespaced, **more)  # type: ignore[arg-type]

    return [
        row("Binding", "bindings", verbs=("create",)),
        row(
            "ComponentStatus",
            "componentstatuses",
            False,
            short_names=("cs",),
            verbs=("get", "list"),
            deprecated="v1 ComponentStatus is deprecated in v1.19+",
        ),
        row("ConfigMap", "configmaps", short_names=("cm",)),
        row(
            "Endpoints",
            "endpoints",
            short_names=("ep",),
            deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
        ),
        row("Event", "events", short_names=("ev",), field_labels=_EVENT_FIELDS),
        row("LimitRange", "limitranges", short_names=("limits",)),
        row(
            "Namespace",
            "namespaces",
            False,
            short_names=("ns",),
            verbs=tuple(v for v in ALL_VERBS if v != "deletecollection"),
            subresources=(Subresource("finalize", "Namespace", ("update",)), _status("Namespace")),
            field_labels=("status.phase", "name"),
        ),
        row(
            "Node",
            "nodes",
            False,
            short_names=("no",),
            subresources=(Subresource("proxy", "NodeProxyOptions", _PROXY_VERBS), _status("Node")),
            field_labels=("spec.unschedulable",),
        ),
        row(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            short_names=("pvc",),
            subresources=(_status("PersistentVolumeClaim"),),
            field_labels=("name",),
        ),
        row(
            "PersistentVolume",
            "persistentvolumes",
            False,
            short_names=("pv",),
            subresources=(_status("PersistentVolume"),),
            field_labels=("name",),
        ),
        row(
            "Pod",
            "pods",
            short_names=("po",),
            categories=("all",),
            graceful=True,
            has_generation=True,
            field_labels=_POD_FIELDS,
            subresources=(
                Subresource("attach", "PodAttachOptions", ("create", "get")),
                Subresource("binding", "Binding", ("create",)),
                Subresource("ephemeralcontainers", "Pod", _STATUS_VERBS),
                Subresource("eviction", "Eviction", ("create",), "policy", "v1"),
                Subresource("exec", "PodExecOptions", ("create", "get")),
                Subresource("log", "Pod", ("get",)),
                Subresource("portforward", "PodPortForwardOptions", ("create", "get")),
                Subresource("proxy", "PodProxyOptions", _PROXY_VERBS),
                Subresource("resize", "Pod", _STATUS_VERBS),
                _status("Pod"),
            ),
        ),
        row("PodTemplate", "podtemplates", has_generation=True),
        row(
            "ReplicationController",
            "replicationcontrollers",
            short_names=("rc",),
            categories=("all",),
            subresources=(_SCALE, _status("ReplicationController")),
            has_generation=True,
            field_labels=("status.replicas",),
        ),
        row("ResourceQuota", "resourcequotas", short_names=("quota",), subresources=(_status("ResourceQuota"),)),
        row("Secret", "secrets", field_labels=("type",)),
        row(
            "ServiceAccount",
            "serviceaccounts",
            short_names=("sa",),
            subresources=(Subresource("token", "TokenRequest", ("create",), "authentication.k8s.io", "v1"),),
        ),
        row(
            "Service",
            "services",
            short_names=("svc",),
            categories=("all",),
            subresources=(Subresource("proxy", "ServiceProxyOptions", _PROXY_VERBS), _status("Service")),
            field_labels=("spec.clusterIP", "spec.type"),
        ),
    ]


def _groups() -> list[Resource]:
    rows: list[Resource] = []

    def row(group: str, kind: str, plural: str, namespaced: bool, *, version: str = "v1", **more: object) -> None:
        if more.pop("status", False):
            extra = (*more.pop("subresources", ()), _status(kind))  # type: ignore[misc]
            more["subresources"] = tuple(sorted(extra, key=lambda s: s.name))
        rows.append(Resource(group, version, kind, plural, namespaced, **more))  # type: ignore[arg-type]

    everything = ("all",)
    extensions = ("api-extensions",)
    row("apiregistration.k8s.io", "APIService", "apiservices", False, categories=extensions, status=True)
    row("apps", "ControllerRevision", "controllerrevisions", True)
    for kind, short, scale in (
        ("DaemonSet", "ds", False),
        ("Deployment", "deploy", True),
        ("ReplicaSet", "rs", True),
        ("StatefulSet", "sts", True),
    ):
        row(
            "apps",
            kind,
            kind.lower() + "s",
            True,
            short_names=(short,),
            categories=everything,
            status=True,
            subresources=(_SCALE,) if scale else (),
            has_generation=True,
        )
    row("events.k8s.io", "Event", "events", True, short_names=("ev",), store_as="", field_labels=_EVENT_FIELDS)
    once = ("create",)
    row("authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", False, verbs=once)
    row("authentication.k8s.io", "TokenReview", "tokenreviews", False, verbs=once)
    row("authorization.k8s.io", "LocalSubjectAccessReview", "localsubjectaccessreviews", True, verbs=once)
    row("authorization.k8s.io", "SelfSubjectAccessReview", "selfsubjectaccessreviews", False, verbs=once)
    row("authorization.k8s.io", "SelfSubjectRulesReview", "selfsubjectrulesreviews", False, verbs=once)
    row("authorization.k8s.io", "SubjectAccessReview", "subjectaccessreviews", False, verbs=once)
    for version in ("v2", "v1"):
        row(
            "autoscaling",
            "HorizontalPodAutoscaler",
            "horizontalpodautoscalers",
            True,
            version=version,
            short_names=("hpa",),
            categories=everything,
            status=True,
        )
    row(
        "batch",
        "CronJob",
        "cronjobs",
        True,
        short_names=("cj",),
        categories=everything,
        status=True,
        has_generation=True,
    )
    row(
        "batch",
        "Job",
        "jobs",
        True,
        categories=everything,
        status=True,
        has_generation=True,
        field_labels=("status.successful",),
    )
    row(
        "certificates.k8s.io",
        "CertificateSigningRequest",
        "certificatesigningrequests",
        False,
        short_names=("csr",),
        status=True,
        subresources=(Subresource("approval", "CertificateSigningRequest", _STATUS_VERBS),),
        field_labels=("spec.signerName",),
    )
    row("networking.k8s.io", "IngressClass", "ingressclasses", False, has_generation=True)
    row("networking.k8s.io", "Ingress", "ingresses", True, short_names=("ing",), status=True, has_generation=True)
    row("networking.k8s.io", "IPAddress", "ipaddresses", False, short_names=("ip",))
    row("networking.k8s.io", "NetworkPolicy", "networkpolicies", True, short_names=("netpol",), has_generation=True)
    row("networking.k8s.io", "ServiceCIDR", "servicecidrs", False, status=True)
    row(
        "policy",
        "PodDisruptionBudget",
        "poddisruptionbudgets",
        True,
        short_names=("pdb",),
        status=True,
        has_generation=True,
    )
    rbac = "rbac.authorization.k8s.io"
    row(rbac, "ClusterRoleBinding", "clusterrolebindings", False)
    row(rbac, "ClusterRole", "clusterroles", False)
    row(rbac, "RoleBinding", "rolebindings", True)
    row(rbac, "Role", "roles", True)
    storage = "storage.k8s.io"
    row(storage, "CSIDriver", "csidrivers", False)
    row(storage, "CSINode", "csinodes", False)
    row(storage, "CSIStorageCapacity", "csistoragecapacities", True)
    row(storage, "StorageClass", "storageclasses", False, short_names=("sc",))
    row(storage, "VolumeAttachment", "volumeattachments", False, status=True)
    row(storage, "VolumeAttributesClass", "volumeattributesclasses", False, short_names=("vac",))
    admission = "admissionregistration.k8s.io"
    for kind, plural, status in (
        ("MutatingAdmissionPolicy", "mutatingadmissionpolicies", False),
        ("MutatingAdmissionPolicyBinding", "mutatingadmissionpolicybindings", False),
        ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", False),
        ("ValidatingAdmissionPolicy", "validatingadmissionpolicies", True),
        ("ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", False),
        ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", False),
    ):
        row(admission, kind, plural, False, categories=extensions, status=status, has_generation=True)
    row(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        False,
        short_names=("crd", "crds"),
        categories=extensions,
        status=True,
        has_generation=True,
    )
    row("scheduling.k8s.io", "PriorityClass", "priorityclasses", False, short_names=("pc",), has_generation=True)
    row("coordination.k8s.io", "Lease", "leases", True)
    row("node.k8s.io", "RuntimeClass", "runtimeclasses", False)
    row("discovery.k8s.io", "EndpointSlice", "endpointslices", True, has_generation=True)
    resource = "resource.k8s.io"
    row(resource, "DeviceClass", "deviceclasses", False, has_generation=True)
    row(resource, "ResourceClaim", "resourceclaims", True, status=True)
    row(resource, "ResourceClaimTemplate", "resourceclaimtemplates", True)
    row(
        resource,
        "ResourceSlice",
        "resourceslices",
        False,
        has_generation=True,
        field_labels=("spec.nodeName", "spec.driver"),
    )
    flow = "flowcontrol.apiserver.k8s.io"
    row(flow, "FlowSchema", "flowschemas", False, status=True, has_generation=True)
    row(flow, "PriorityLevelConfiguration", "prioritylevelconfigurations", False, status=True, has_generation=True)
    return rows


RESOURCES: tuple[Resource, ...] = (*_core(), *_groups())
"""In the order of the aggregated discovery document of a v1.36 server."""

BY_PATH: dict[tuple[str, str, str], Resource] = {(r.group, r.version, r.plural): r for r in RESOURCES}
GROUP_VERSIONS: tuple[tuple[str, str], ...] = tuple(dict.fromkeys((r.group, r.version) for r in RESOURCES))
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(r.group for r in RESOURCES if r.group))

_BY_KIND: dict[tuple[str, str], Resource] = {}
for _resource in RESOURCES:
    _BY_KIND.setdefault((_resource.api_version, _resource.kind), _resource)


def by_kind(api_version: str, kind: str) -> Resource | None:
    """The resource of a document, from its apiVersion and kind."""
    return _BY_KIND.get((api_version, kind))


def core(plural: str) -> Resource:
    return BY_PATH["", "v1", plural]
