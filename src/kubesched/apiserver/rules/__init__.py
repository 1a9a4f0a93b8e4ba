"""What is particular to a kind: its defaults, what the server sets on creation, what is valid, what may change.

`rules_for(resource)` is all that the write path knows of kinds. A kind without an entry of its own gets the plain
`Rules`: whatever has a valid name and the right types is stored.
"""

from __future__ import annotations

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.rules import cluster, coordination, nodes, pods, services, storage, workloads
from kubesched.apiserver.rules.base import Rules

__all__ = ["Rules", "rules_for"]

_PLAIN = Rules()
_ANY_NAME = Rules(any_name=True)
_RULES: dict[tuple[str, str], Rules] = {
    ("", "pods"): pods.RULES,
    ("", "nodes"): nodes.RULES,
    ("", "namespaces"): cluster.NAMESPACE,
    ("", "configmaps"): cluster.CONFIG_MAP,
    ("", "secrets"): cluster.SECRET,
    ("", "serviceaccounts"): Rules(),
    ("", "services"): services.SERVICE,
    ("", "events"): coordination.CORE_EVENT,
    ("events.k8s.io", "events"): coordination.EVENT,
    ("", "persistentvolumes"): storage.PERSISTENT_VOLUME,
    ("", "persistentvolumeclaims"): storage.PERSISTENT_VOLUME_CLAIM,
    ("", "replicationcontrollers"): workloads.REPLICATION_CONTROLLER,
    ("apps", "deployments"): workloads.DEPLOYMENT,
    ("apps", "replicasets"): workloads.REPLICA_SET,
    ("apps", "statefulsets"): workloads.STATEFUL_SET,
    ("apps", "daemonsets"): workloads.DAEMON_SET,
    ("batch", "jobs"): workloads.JOB,
    ("batch", "cronjobs"): workloads.CRON_JOB,
    ("policy", "poddisruptionbudgets"): cluster.POD_DISRUPTION_BUDGET,
    ("scheduling.k8s.io", "priorityclasses"): cluster.PRIORITY_CLASS,
    ("coordination.k8s.io", "leases"): coordination.LEASE,
    ("storage.k8s.io", "storageclasses"): storage.STORAGE_CLASS,
    ("storage.k8s.io", "csinodes"): storage.CSI_NODE,
    ("storage.k8s.io", "csidrivers"): storage.CSI_DRIVER,
    ("rbac.authorization.k8s.io", "roles"): _ANY_NAME,
    ("rbac.authorization.k8s.io", "rolebindings"): _ANY_NAME,
    ("rbac.authorization.k8s.io", "clusterroles"): _ANY_NAME,
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _ANY_NAME,
}


def rules_for(resource: Resource) -> Rules:
    return _RULES.get((resource.group, resource.plural), _PLAIN)
