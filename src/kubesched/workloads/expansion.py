"""All workloads of a set of manifests at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kubesched.workloads.daemon_sets import missing_daemon_pods
from kubesched.workloads.jobs import missing_job_pods
from kubesched.workloads.replicas import missing_replicas, replica_set_of
from kubesched.workloads.stateful_sets import claims_of, missing_stateful_pods
from kubesched.workloads.templates import Doc, has_template, owned_by


class Made(NamedTuple):
    """A document that a controller would create, and the given workload that it comes from."""

    manifest: Doc
    owner: Mapping[str, Any]


def expand(manifests: Iterable[Doc]) -> list[Made]:
    """What the controllers would add to these documents: ReplicaSets, claims, and pods up to the wanted numbers.

    Pods that are there already count, so the dump of a running cluster gains nothing.
    """
    by_kind: dict[str, list[Doc]] = {}
    for manifest in manifests:
        by_kind.setdefault(manifest["kind"], []).append(manifest)
    pods, claims, nodes = (by_kind.get(kind, []) for kind in ("Pod", "PersistentVolumeClaim", "Node"))
    made: list[Made] = []
    for deployment in by_kind.get("Deployment", ()):
        if owned_by(deployment, by_kind.get("ReplicaSet", ())) or not has_template(deployment):
            continue
        replica_set = replica_set_of(deployment)
        made.append(Made(replica_set, deployment))
        made += (Made(pod, deployment) for pod in missing_replicas(replica_set, pods))
    for kind in ("ReplicaSet", "ReplicationController"):
        for workload in by_kind.get(kind, ()):
            made += (Made(pod, workload) for pod in missing_replicas(workload, pods))
    for workload in by_kind.get("StatefulSet", ()):
        made += (Made(claim, workload) for claim in claims_of(workload, claims))
        made += (Made(pod, workload) for pod in missing_stateful_pods(workload, pods))
    for job in by_kind.get("Job", ()):
        made += (Made(pod, job) for pod in missing_job_pods(job, pods))
    for workload in by_kind.get("DaemonSet", ()):
        made += (Made(pod, workload) for pod in missing_daemon_pods(workload, pods, nodes))
    return made
