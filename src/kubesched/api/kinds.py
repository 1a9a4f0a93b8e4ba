"""The table of kinds: which group and version, whether namespaced, under which path, decoded into which struct."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from kubesched.api import apps, coordination, core, events, policy, resource, scheduling, storage
from kubesched.api.custom import CustomObject
from kubesched.api.meta import Object


@dataclass(frozen=True, slots=True)
class Kind:
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    struct: type[Object]

    @property
    def api_version(self) -> str:
        """`v1` for the core group, `apps/v1` and the like for the others."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The resource as API messages name it: `pods`, `leases.coordination.k8s.io`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def event_resource(self) -> str:
        """What plugins call it when they listen to it: the kind, of custom resources "foos.v1.example.com"."""
        if self.struct is CustomObject:
            return f"{self.plural}.{self.version}.{self.group}"
        return self.kind

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of one object, or of a collection without `name` (of all namespaces without `namespace`)."""
        parts = ["apis", self.group, self.version] if self.group else ["api", self.version]
        if self.namespaced:
            if namespace:
                parts += ["namespaces", namespace]
            elif name is not None:
                raise ValueError(f"{self.kind} {name}: an object of this kind has no path without its namespace")
        parts.append(self.plural)
        if name is not None:
            parts.append(name)
            if subresource is not None:
                parts.append(subresource)
        return "/" + "/".join(quote(part, safe="") for part in parts)


POD = Kind("", "v1", "Pod", "pods", True, core.Pod)
NODE = Kind("", "v1", "Node", "nodes", False, core.Node)
NAMESPACE = Kind("", "v1", "Namespace", "namespaces", False, core.Namespace)
SERVICE = Kind("", "v1", "Service", "services", True, core.Service)
REPLICATION_CONTROLLER = Kind(
    "", "v1", "ReplicationController", "replicationcontrollers", True, core.ReplicationController
)
PERSISTENT_VOLUME = Kind("", "v1", "PersistentVolume", "persistentvolumes", False, core.PersistentVolume)
PERSISTENT_VOLUME_CLAIM = Kind(
    "", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True, core.PersistentVolumeClaim
)
BINDING = Kind("", "v1", "Binding", "bindings", True, core.Binding)

REPLICA_SET = Kind("apps", "v1", "ReplicaSet", "replicasets", True, apps.ReplicaSet)
STATEFUL_SET = Kind("apps", "v1", "StatefulSet", "statefulsets", True, apps.StatefulSet)
DEPLOYMENT = Kind("apps", "v1", "Deployment", "deployments", True, apps.Deployment)
DAEMON_SET = Kind("apps", "v1", "DaemonSet", "daemonsets", True, apps.DaemonSet)
JOB = Kind("batch", "v1", "Job", "jobs", True, apps.Job)

STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass", "storageclasses", False, storage.StorageClass)
CSI_NODE = Kind("storage.k8s.io", "v1", "CSINode", "csinodes", False, storage.CSINode)
CSI_DRIVER = Kind("storage.k8s.io", "v1", "CSIDriver", "csidrivers", False, storage.CSIDriver)
CSI_STORAGE_CAPACITY = Kind(
    "storage.k8s.io", "v1", "CSIStorageCapacity", "csistoragecapacities", True, storage.CSIStorageCapacity
)
VOLUME_ATTACHMENT = Kind(
    "storage.k8s.io", "v1", "VolumeAttachment", "volumeattachments", False, storage.VolumeAttachment
)

PRIORITY_CLASS = Kind("scheduling.k8s.io", "v1", "PriorityClass", "priorityclasses", False, scheduling.PriorityClass)
POD_DISRUPTION_BUDGET = Kind(
    "policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True, policy.PodDisruptionBudget
)
LEASE = Kind("coordination.k8s.io", "v1", "Lease", "leases", True, coordination.Lease)
EVENT = Kind("events.k8s.io", "v1", "Event", "events", True, events.Event)

RESOURCE_CLAIM = Kind("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims", True, resource.ResourceClaim)
RESOURCE_SLICE = Kind("resource.k8s.io", "v1", "ResourceSlice", "resourceslices", False, resource.ResourceSlice)
DEVICE_CLASS = Kind("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", False, resource.DeviceClass)

KINDS: tuple[Kind, ...] = (
    POD,
    NODE,
    NAMESPACE,
    SERVICE,
    REPLICATION_CONTROLLER,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    BINDING,
    REPLICA_SET,
    STATEFUL_SET,
    DEPLOYMENT,
    DAEMON_SET,
    JOB,
    STORAGE_CLASS,
    CSI_NODE,
    CSI_DRIVER,
    CSI_STORAGE_CAPACITY,
    VOLUME_ATTACHMENT,
    PRIORITY_CLASS,
    POD_DISRUPTION_BUDGET,
    LEASE,
    EVENT,
    RESOURCE_CLAIM,
    RESOURCE_SLICE,
    DEVICE_CLASS,
)

_BY_NAME = {kind.kind: kind for kind in KINDS}
_BY_TYPE = {(kind.api_version, kind.kind): kind for kind in KINDS}
_BY_STRUCT = {kind.struct: kind for kind in KINDS}


def by_name(name: str) -> Kind:
    """The kind called `name`, such as `Pod`. KeyError for one that scheduling has no use for."""
    return _BY_NAME[name]


def named(name: str) -> Kind | None:
    """The kind called `name`, if scheduling has a use for it."""
    return _BY_NAME.get(name)


def custom(resource: str, kind: str, *, namespaced: bool) -> Kind:
    """The kind of a custom resource, given as `is_custom` has it."""
    plural, version, group = resource.split(".", 2)
    return Kind(group, version, kind, plural, namespaced, CustomObject)


def is_custom(resource: str) -> bool:
    """Whether it has the form "foos.v1.example.com": plural, version and group."""
    return resource.count(".") >= 2


def find(api_version: str, kind: str) -> Kind | None:
    """The kind of a document's `apiVersion` and `kind`; None for one that scheduling has no use for."""
    return _BY_TYPE.get((api_version, kind))


def of(obj: Object) -> Kind:
    """The kind of a typed object, which does not carry its own name."""
    return _BY_STRUCT[type(obj)]
