from __future__ import annotations

import pytest

from kubesched.api import kinds
from tests.build import make_lease, make_pod


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "subresource", "path"),
    [
        (kinds.POD, None, None, None, "/api/v1/pods"),
        (kinds.POD, "shop", None, None, "/api/v1/namespaces/shop/pods"),
        (kinds.POD, "shop", "web", None, "/api/v1/namespaces/shop/pods/web"),
        (kinds.POD, "shop", "web", "binding", "/api/v1/namespaces/shop/pods/web/binding"),
        (kinds.NODE, None, None, None, "/api/v1/nodes"),
        (kinds.NODE, None, "n1", "status", "/api/v1/nodes/n1/status"),
        (kinds.NAMESPACE, None, "shop", None, "/api/v1/namespaces/shop"),
        (kinds.LEASE, "kube-system", "x", None, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/x"),
        (kinds.STORAGE_CLASS, None, "fast", None, "/apis/storage.k8s.io/v1/storageclasses/fast"),
        (kinds.POD, "shop", "a/b c", None, "/api/v1/namespaces/shop/pods/a%2Fb%20c"),
    ],
)
def test_paths(kind: kinds.Kind, namespace: str | None, name: str | None, subresource: str | None, path: str):
    assert kind.path(namespace, name, subresource) == path


def test_an_object_with_a_namespace_has_no_path_without_it():
    with pytest.raises(ValueError, match="Pod web"):
        kinds.POD.path(name="web")


def test_kinds_are_found_by_what_documents_say():
    for kind in kinds.KINDS:
        assert kinds.find(kind.api_version, kind.kind) is kind
        assert kinds.by_name(kind.kind) is kind
    assert kinds.find("policy/v1beta1", "PodDisruptionBudget") is None
    with pytest.raises(KeyError):
        kinds.by_name("ConfigMap")


def test_kinds_of_objects():
    assert kinds.of(make_pod().obj()) is kinds.POD
    assert kinds.of(make_lease("x").obj()) is kinds.LEASE


def test_names_in_messages():
    assert kinds.POD.qualified == "pods"
    assert kinds.LEASE.qualified == "leases.coordination.k8s.io"
    assert (kinds.POD.api_version, kinds.DEPLOYMENT.api_version) == ("v1", "apps/v1")
