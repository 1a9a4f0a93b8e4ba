"""The core group (v1): pods, nodes, namespaces, services, volumes and claims, bindings.

Fields are those that kube-scheduler v1.36 reads, plus what controllers, `kubectl get` style tables and explanations
need. A field's zero stands for its absence wherever scheduling makes no difference between the two; where it does, the
field is None when absent.
"""

from __future__ import annotations

from msgspec import field

from kubesched.api.meta import Condition, Int32, Int64, Object, ObjectMeta, ObjectReference, Struct
from kubesched.api.quantity import Quantity, ResourceList
from kubesched.api.selectors import LabelSelector, NodeSelector, NodeSelectorTerm

# --- resources


class ContainerResourceClaim(Struct):
    name: str = ""
    request: str = ""


class ResourceRequirements(Struct):
    """None and empty differ in statuses (`resources` reported or not), so these are Optional where they are used so."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


# --- containers


class ContainerPort(Struct):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(name="hostIP", default="")
    protocol: str = ""
    name: str = ""


class ContainerRestartRuleOnExitCodes(Struct):
    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Struct):
    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ContainerResizePolicy(Struct):
    resource_name: str = ""
    restart_policy: str = ""


class Container(Struct):
    """Also an init container (a restartable one, a sidecar, has `restart_policy` Always) and an ephemeral one."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()

    @property
    def is_sidecar(self) -> bool:
        """Among the init containers: it keeps running beside the main ones."""
        return self.restart_policy == "Always"


class ContainerStateRunning(Struct):
    started_at: str | None = None


class ContainerStateTerminated(Struct):
    exit_code: Int32 = 0
    reason: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class ContainerStateWaiting(Struct):
    reason: str = ""
    message: str = ""


class ContainerState(Struct):
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ContainerStatus(Struct):
    name: str = ""
    image: str = ""
    image_id: str = field(name="imageID", default="")
    ready: bool = False
    started: bool | None = None
    restart_count: Int32 = 0
    state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


# --- affinity, spreading, tolerations


class PreferredSchedulingTerm(Struct):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct):
    """An absent `label_selector` matches no pod. An absent `namespace_selector` adds no namespace, an empty one all."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Struct):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class Taint(Struct):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Toleration(Struct):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


# --- volumes of pods


class GCEPersistentDiskVolumeSource(Struct):
    pd_name: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Struct):
    volume_id: str = field(name="volumeID", default="")
    partition: Int32 = 0
    read_only: bool = False


class AzureDiskVolumeSource(Struct):
    disk_name: str = ""
    disk_uri: str = field(name="diskURI", default="")
    read_only: bool = False


class AzureFileVolumeSource(Struct):
    secret_name: str = ""
    share_name: str = ""
    read_only: bool = False


class CinderVolumeSource(Struct):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Struct):
    volume_path: str = ""


class PortworxVolumeSource(Struct):
    volume_id: str = field(name="volumeID", default="")
    read_only: bool = False


class ISCSIVolumeSource(Struct):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    portals: tuple[str, ...] = ()
    read_only: bool = False


class RBDVolumeSource(Struct):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    user: str = ""
    read_only: bool = False


class CSIVolumeSource(Struct):
    driver: str = ""
    read_only: bool = False
    volume_attributes: dict[str, str] = {}


class PersistentVolumeClaimVolumeSource(Struct):
    claim_name: str = ""
    read_only: bool = False


class ImageVolumeSource(Struct):
    reference: str = ""
    pull_policy: str = ""


class ConfigMapVolumeSource(Struct):
    name: str = ""
    optional: bool = False


class SecretVolumeSource(Struct):
    secret_name: str = ""
    optional: bool = False


class HostPathVolumeSource(Struct):
    path: str = ""
    type: str = ""


class EmptyDirVolumeSource(Struct):
    medium: str = ""
    size_limit: Quantity | None = None


class NFSVolumeSource(Struct):
    server: str = ""
    path: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Struct):
    requests: ResourceList = {}
    limits: ResourceList = {}


class TypedObjectReference(Struct):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None


class PersistentVolumeClaimSpec(Struct):
    """An absent `storage_class_name` asks for the default class, an empty one for none."""

    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    data_source: TypedObjectReference | None = None
    data_source_ref: TypedObjectReference | None = None


class PersistentVolumeClaimTemplate(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Struct):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Struct):
    """A volume of a pod: a name and one source. Sources that scheduling never looks at are not declared."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    image: ImageVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    nfs: NFSVolumeSource | None = None


# --- pods


class PodSchedulingGate(Struct):
    name: str = ""


class PodReadinessGate(Struct):
    condition_type: str = ""


class PodResourceClaim(Struct):
    """Exactly one of the two names is set."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct):
    pod_group_name: str | None = None


class PodOS(Struct):
    name: str = ""


class PodSpec(Struct):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    resource_claims: tuple[PodResourceClaim, ...] = ()
    runtime_class_name: str | None = None
    restart_policy: str = ""
    termination_grace_period_seconds: Int64 | None = None
    active_deadline_seconds: Int64 | None = None
    host_network: bool = False
    host_users: bool | None = None
    host_pid: bool = field(name="hostPID", default=False)
    host_ipc: bool = field(name="hostIPC", default=False)
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    os: PodOS | None = None
    service_account_name: str = ""


class PodResourceClaimStatus(Struct):
    """Which ResourceClaim stands for the pod's entry `name`; None if none needs to be made."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Struct):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Struct):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class NodeAllocatableResourceClaimStatus(Struct):
    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodIP(Struct):
    ip: str = ""


class PodStatus(Struct):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    observed_generation: Int64 = 0
    start_time: str | None = None
    qos_class: str = ""
    host_ip: str = field(name="hostIP", default="")
    pod_ip: str = field(name="podIP", default="")
    pod_ips: tuple[PodIP, ...] = field(name="podIPs", default=())
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resize: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(Object):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_terminal(self) -> bool:
        """It has ended for good and holds nothing on its node any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        """Somebody has asked for its deletion. It still holds what it holds."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, type: str) -> Condition | None:
        for condition in self.status.conditions:
            if condition.type == type:
                return condition
        return None


class PodTemplateSpec(Struct):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()


class Binding(Object):
    target: ObjectReference = ObjectReference()


# --- nodes


class NodeSpec(Struct):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_cidr: str = field(name="podCIDR", default="")
    pod_cidrs: tuple[str, ...] = field(name="podCIDRs", default=())
    provider_id: str = field(name="providerID", default="")


class ContainerImage(Struct):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeAddress(Struct):
    type: str = ""
    address: str = ""


class NodeSystemInfo(Struct):
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    operating_system: str = ""
    architecture: str = ""


class AttachedVolume(Struct):
    name: str = ""
    device_path: str = ""


class NodeStatus(Struct):
    capacity: ResourceList = {}
    allocatable: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()
    addresses: tuple[NodeAddress, ...] = ()
    node_info: NodeSystemInfo = NodeSystemInfo()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()


class Node(Object):
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    def condition(self, type: str) -> Condition | None:
        for condition in self.status.conditions:
            if condition.type == type:
                return condition
        return None


# --- namespaces


class NamespaceStatus(Struct):
    phase: str = ""


class Namespace(Object):
    status: NamespaceStatus = NamespaceStatus()


# --- persistent volumes and claims


class PersistentVolumeClaimStatus(Struct):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    current_volume_attributes_class_name: str | None = None


class PersistentVolumeClaim(Object):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Struct):
    required: NodeSelector | None = None


class CSIPersistentVolumeSource(Struct):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False


class LocalVolumeSource(Struct):
    path: str = ""


class PersistentVolumeSpec(Struct):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    persistent_volume_reclaim_policy: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIPersistentVolumeSource | None = None
    local: LocalVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    nfs: NFSVolumeSource | None = None


class PersistentVolumeStatus(Struct):
    phase: str = ""
    reason: str = ""
    message: str = ""


class PersistentVolume(Object):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


# --- services and replication controllers


class ServicePort(Struct):
    name: str = ""
    port: Int32 = 0
    protocol: str = ""
    target_port: int | str | None = None
    node_port: Int32 = 0


class ServiceSpec(Struct):
    selector: dict[str, str] = {}
    type: str = ""
    cluster_ip: str = field(name="clusterIP", default="")
    ports: tuple[ServicePort, ...] = ()


class Service(Object):
    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: Int32 | None = None
    selector: dict[str, str] = {}
    template: PodTemplateSpec | None = None


class ReplicationControllerStatus(Struct):
    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    observed_generation: Int64 = 0


class ReplicationController(Object):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicationControllerStatus = ReplicationControllerStatus()
