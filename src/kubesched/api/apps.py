"""The groups apps and batch: what pods are stamped from, and what spreading looks at to find a pod's siblings."""

from __future__ import annotations

from kubesched.api.core import PersistentVolumeClaimTemplate, PodTemplateSpec
from kubesched.api.meta import Int32, Int64, Object, Struct
from kubesched.api.selectors import LabelSelector


class WorkloadStatus(Struct):
    """The counters that apps kinds share."""

    replicas: Int32 = 0
    ready_replicas: Int32 = 0
    available_replicas: Int32 = 0
    updated_replicas: Int32 = 0
    observed_generation: Int64 = 0


class ReplicaSetSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class DeploymentStrategy(Struct):
    type: str = ""


class DeploymentSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    paused: bool = False


class Deployment(Object):
    spec: DeploymentSpec = DeploymentSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetOrdinals(Struct):
    start: Int32 = 0


class StatefulSetSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    service_name: str = ""
    pod_management_policy: str = ""
    volume_claim_templates: tuple[PersistentVolumeClaimTemplate, ...] = ()
    ordinals: StatefulSetOrdinals = StatefulSetOrdinals()


class StatefulSet(Object):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class DaemonSetSpec(Struct):
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class DaemonSetStatus(Struct):
    desired_number_scheduled: Int32 = 0
    current_number_scheduled: Int32 = 0
    number_ready: Int32 = 0
    observed_generation: Int64 = 0


class DaemonSet(Object):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct):
    """Absent `parallelism` means 1; absent `completions` means that any one success ends the job."""

    parallelism: Int32 | None = None
    completions: Int32 | None = None
    completion_mode: str | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Struct):
    active: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
