"""What exists in a cluster from its first second: the system namespaces and priority classes, the API's service, and
what the API tells other servers about whom they may believe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver.resources import by_kind
from kubesched.apiserver.roles import AUTHENTICATION
from kubesched.apiserver.store import Json
from kubesched.apiserver.writing import create_object

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

NAMESPACES = ("kube-system", "kube-public", "default", "kube-node-lease")
_PRIORITY_CLASSES = (
    ("system-node-critical", 2_000_001_000, "Used for system critical pods that must not be moved from their node."),
    ("system-cluster-critical", 2_000_000_000, "Used for system critical pods that may be moved to another node."),
)


def bootstrap(api: Api) -> None:
    for name in NAMESPACES:
        _create(api, {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}, "status": {}})
    for name, value, description in _PRIORITY_CLASSES:
        _create(
            api,
            {
                "kind": "PriorityClass",
                "apiVersion": "scheduling.k8s.io/v1",
                "metadata": {"name": name},
                "value": value,
                "description": description,
            },
        )
    _create(
        api,
        {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}],
            },
        },
    )
    # Without keys: there is no authority for client certificates here, and no proxy in front.
    metadata = {"name": AUTHENTICATION, "namespace": "kube-system"}
    _create(api, {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata})
    api.store.compact()


def _create(api: Api, document: Json) -> None:
    resource = by_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    create_object(api, resource, document, manager="kube-apiserver" if api.profile.track_fields else "")
