"""What every namespace has: the service account `default` and the certificate authority's certificate."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import Controller
from kubesched.apiserver.resources import Resource, core
from kubesched.apiserver.store import Change, Json

_NAMESPACES, _ACCOUNTS, _CONFIG_MAPS = core("namespaces"), core("serviceaccounts"), core("configmaps")
ROOT_CA = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)


class ServiceAccounts(Controller):
    name = "serviceaccount-controller"
    watched = (_NAMESPACES, _ACCOUNTS)

    def keys_of(self, change: Change) -> Iterator[str]:
        yield change.stored.namespace or change.stored.name

    def settle(self, key: str) -> None:
        self._provide(key, _ACCOUNTS, "default", {})

    def _provide(self, namespace: str, resource: Resource, name: str, content: Json) -> None:
        found = self.find(_NAMESPACES, namespace)
        if found is None or found.fields[0] != "Active":
            return
        if self.api.store.of(resource).get(namespace, name) is None:
            metadata = {"name": name, "namespace": namespace, **content.pop("metadata", {})}
            self.create(resource, {"metadata": metadata, **content})


class RootCertificates(ServiceAccounts):
    name = "root-ca-certificate-publisher-controller"
    watched = (_NAMESPACES, _CONFIG_MAPS)

    def settle(self, key: str) -> None:
        metadata = {"annotations": {"kubernetes.io/description": _DESCRIPTION}}
        self._provide(key, _CONFIG_MAPS, ROOT_CA, {"metadata": metadata, "data": {"ca.crt": self.api.ca_pem}})
