"""Pods from workloads: what the controllers of a cluster would create, and no more.

Plain documents in, plain documents out; nothing is read or written here. The offline engine expands all workloads of
its manifests at once (`expand`); a controller that lives beside an API server asks about one workload at a time
(`replica_set_of`, `missing_...`) and creates what it is told. Names follow from the workload and a running number, so
that the same manifests give the same pods.
"""

from kubesched.workloads.daemon_sets import daemon_node_of, missing_daemon_pods
from kubesched.workloads.expansion import Made, expand
from kubesched.workloads.jobs import missing_job_pods
from kubesched.workloads.replicas import missing_replicas, replica_set_of
from kubesched.workloads.stateful_sets import claims_of, missing_stateful_pods
from kubesched.workloads.templates import is_active, owner_reference, pod_from, template_hash

__all__ = [
    "Made",
    "claims_of",
    "daemon_node_of",
    "expand",
    "is_active",
    "missing_daemon_pods",
    "missing_job_pods",
    "missing_replicas",
    "missing_stateful_pods",
    "owner_reference",
    "pod_from",
    "replica_set_of",
    "template_hash",
]
