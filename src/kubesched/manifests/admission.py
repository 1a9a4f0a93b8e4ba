"""What an API server makes of an object when it is created, as far as scheduling can tell.

On top of the defaults of its kind a pod gets its priority and its label keys merged, a claim without storage class the
default one, and every object a uid. Tolerations for lost nodes are not added: offline, no node is ever lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kubesched.manifests.defaults import apply_defaults
from kubesched.manifests.label_keys import merge_label_keys
from kubesched.manifests.priority import PriorityClasses, UnknownPriorityClass
from kubesched.manifests.reading import Document
from kubesched.manifests.sources import ManifestError

Doc = dict[str, Any]

_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
_DEFAULT_CLASS_BETA = "storageclass.beta.kubernetes.io/is-default-class"
_CLAIM_CLASS_BETA = "volume.beta.kubernetes.io/storage-class"
_UIDS = uuid.UUID("5f0c1d5e-8a52-4d0e-9a3f-0d8f6c1b7e42")


@dataclass(frozen=True, slots=True)
class Admission:
    """Knows the classes of a cluster. Make one from all its documents, then admit each of them, and those that come
    later."""

    priority_classes: PriorityClasses
    default_storage_class: str | None

    @classmethod
    def of(cls, documents: Iterable[Document]) -> Admission:
        manifests = [document.manifest for document in documents]
        return cls(PriorityClasses.of(manifests), _default_storage_class(manifests))

    def admit(self, document: Document) -> Document:
        """The document must have been checked. ManifestError if it names a priority class that is not there."""
        manifest = _with_uid(apply_defaults(document.manifest))
        if document.kind == "Pod":
            try:
                manifest = merge_label_keys(self.priority_classes.resolve(manifest))
            except UnknownPriorityClass as error:
                name = manifest["spec"]["priorityClassName"]
                raise ManifestError(
                    document.source, str(error), obj=str(document), field="spec.priorityClassName", value=name
                ) from error
        elif document.kind == "PersistentVolumeClaim" and self.default_storage_class is not None:
            manifest = _with_storage_class(manifest, self.default_storage_class)
        return replace(document, manifest=manifest)


def _with_uid(manifest: Doc) -> Doc:
    """Objects of the same kind, namespace and name get the same uid in every run."""
    metadata = manifest["metadata"]
    if metadata.get("uid"):
        return manifest
    name = f"{manifest['apiVersion']}/{manifest['kind']}/{metadata.get('namespace') or ''}/{metadata.get('name')}"
    return {**manifest, "metadata": {**metadata, "uid": str(uuid.uuid5(_UIDS, name))}}


def _with_storage_class(claim: Doc, name: str) -> Doc:
    """A class of "" is a choice too: no class at all. A claim that is bound has no use for one any more."""
    if claim["spec"].get("storageClassName") is not None or claim["spec"].get("volumeName"):
        return claim
    if (claim["metadata"].get("annotations") or {}).get(_CLAIM_CLASS_BETA) is not None:
        return claim
    return {**claim, "spec": {**claim["spec"], "storageClassName": name}}


def _default_storage_class(manifests: Iterable[Mapping[str, Any]]) -> str | None:
    """Of several defaults the newest counts, then the first by name."""
    defaults = [
        (metadata.get("creationTimestamp") or "", metadata["name"])
        for each in manifests
        if each.get("kind") == "StorageClass"
        for metadata in [each["metadata"]]
        for annotations in [metadata.get("annotations") or {}]
        if "true" in (annotations.get(_DEFAULT_CLASS), annotations.get(_DEFAULT_CLASS_BETA))
    ]
    if not defaults:
        return None
    newest = max(created for created, _ in defaults)
    return str(min(name for created, name in defaults if created == newest))
