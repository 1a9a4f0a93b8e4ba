"""The groups apps and batch: what pods are stamped from, and what spreading looks at to find a pod's siblings."""

from __future__ import annotations

from kubesched.api.core import PersistentVolumeClaimTemplate, PodTemplateSpec
from kubesched.api.meta import Object, Struct
from kubesched.api.selectors import LabelSelector


class WorkloadStatus(Struct):
    """The counters that apps kinds share."""

    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0


class ReplicaSetSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class ReplicaSet(Object):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: WorkloadStatus = WorkloadStatus()


class DeploymentStrategy(Struct):
    type: str = ""


class DeploymentSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()
    strategy: DeploymentStrategy = DeploymentStrategy()
    paused: bool = False


class Deployment(Object):
    spec: DeploymentSpec = DeploymentSpec()
    status: WorkloadStatus = WorkloadStatus()


class StatefulSetOrdinals(Struct):
    start: int = 0


class StatefulSetSpec(Struct):
    """Absent `replicas` means 1."""

    replicas: int | None = None
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
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    number_ready: int = 0
    observed_generation: int = 0


class DaemonSet(Object):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct):
    """Absent `parallelism` means 1; absent `completions` means that any one success ends the job."""

    parallelism: int | None = None
    completions: int | None = None
    completion_mode: str | None = None
    suspend: bool = False
    selector: LabelSelector | None = None
    template: PodTemplateSpec = PodTemplateSpec()


class JobStatus(Struct):
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class Job(Object):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
