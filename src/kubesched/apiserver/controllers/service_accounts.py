"""What every namespace has: the service account `default` and the certificate authority's certificate."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.controllers.base import Controller
from kubesched.apiserver.resources import Resource, core
from kubesched.apiserver.store import Change, Json

_NAMESPACES, _ACCOUNTS, _CONFIG_MAPS = core("namespaces"), core("serviceaccounts"), core("configmaps")
ROOT_CA = "kube-root-ca.crt"


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
            self.create(resource, {"metadata": {"name": name, "namespace": namespace}, **content})


class RootCertificates(ServiceAccounts):
    name = "root-ca-certificate-publisher-controller"
    watched = (_NAMESPACES, _CONFIG_MAPS)

    def settle(self, key: str) -> None:
        self._provide(key, _CONFIG_MAPS, ROOT_CA, {"data": {"ca.crt": self.api.ca_pem}})
