"""A pod from a pod template, and who owns it."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Doc = dict[str, Any]

#: The letters of generated names: no vowels, and nothing that looks like another (as in Kubernetes).
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
#: What a generated name may have before its suffix.
_PREFIX_MAX = 57


def pod_from(owner: Mapping[str, Any], name: str, labels: Mapping[str, str] | None = None) -> Doc:
    """The pod that `owner` makes of its template, named `name`, with `labels` on top of the template's."""
    template = owner["spec"].get("template") or {}
    metadata = template.get("metadata") or {}
    pod: Doc = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace_of(owner),
            "labels": {**(metadata.get("labels") or {}), **(labels or {})},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": copy.deepcopy(template.get("spec") or {}),
    }
    return pod


def owner_reference(owner: Mapping[str, Any]) -> Doc:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata.get("uid") or "",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned_by(owner: Mapping[str, Any], objects: Iterable[Doc]) -> list[Doc]:
    """Those of `objects` that `owner` controls."""
    return [obj for obj in objects if _controls(owner, obj)]


def _controls(owner: Mapping[str, Any], obj: Mapping[str, Any]) -> bool:
    if namespace_of(obj) != namespace_of(owner):
        return False
    uid = owner["metadata"].get("uid")
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller") and (reference.get("kind"), reference.get("name")) == (
            owner["kind"],
            owner["metadata"]["name"],
        ):
            return not uid or not reference.get("uid") or reference["uid"] == uid
    return False


def is_active(pod: Mapping[str, Any]) -> bool:
    """Neither ended nor about to be deleted."""
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and not pod["metadata"].get("deletionTimestamp")


def namespace_of(obj: Mapping[str, Any]) -> str:
    return obj["metadata"].get("namespace") or "default"


def has_template(workload: Mapping[str, Any]) -> bool:
    template = workload["spec"].get("template") or {}
    return bool((template.get("spec") or {}).get("containers"))


def replicas_wanted(workload: Mapping[str, Any]) -> int:
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def generated_name(prefix: str, which: object, taken: Collection[str] = ()) -> str:
    """`prefix` with a suffix of five letters that follows from the prefix and `which` (a number, a node's name)."""
    prefix = f"{prefix[:_PREFIX_MAX]}-"
    attempt = 0
    while True:
        name = prefix + letters(f"{prefix}{which}/{attempt}", 5)
        if name not in taken:
            return name
        attempt += 1


def template_hash(template: Mapping[str, Any]) -> str:
    """A name for this version of a template; equal templates have equal names."""
    return letters(json.dumps(template, sort_keys=True), 9)


def letters(text: str, count: int) -> str:
    digest = int.from_bytes(hashlib.sha256(text.encode()).digest(), "big")
    chosen = []
    for _ in range(count):
        digest, index = divmod(digest, len(_LETTERS))
        chosen.append(_LETTERS[index])
    return "".join(chosen)
