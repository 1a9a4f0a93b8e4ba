"""ControllerRevisions: the versions of a StatefulSet's or DaemonSet's template, for `kubectl rollout` to go back to."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.controllers.base import Controller, apps
from kubesched.apiserver.store import Json, Stored
from kubesched.workloads import owner_reference, template_hash

_REVISIONS = apps("controllerrevisions")
HASH_LABEL = "controller-revision-hash"


def revision_name(workload: Json) -> str:
    return f"{workload['metadata']['name']}-{template_hash(workload['spec']['template'])}"


def keep_revision(controller: Controller, workload: Json) -> Json:
    """The revision of the present template, made or made the newest; versions beyond the history limit go."""
    name, uid = revision_name(workload), workload["metadata"]["uid"]
    held = controller.owners.owned(_REVISIONS, uid)
    documents = {stored.name: stored.document() for stored in held}
    newest = max((document.get("revision", 0) for document in documents.values()), default=0)
    current = documents.get(name)
    if current is None:
        hashed = name.removeprefix(workload["metadata"]["name"] + "-")
        labels = {**(workload["spec"]["template"].get("metadata") or {}).get("labels", {}), HASH_LABEL: hashed}
        current = controller.create(
            _REVISIONS,
            {
                "metadata": {
                    "name": name,
                    "namespace": workload["metadata"]["namespace"],
                    "labels": labels,
                    "ownerReferences": [owner_reference(workload)],
                },
                "data": {"spec": {"template": {**workload["spec"]["template"], "$patch": "replace"}}},
                "revision": newest + 1,
            },
        )
    elif current.get("revision", 0) < newest:
        stored = next(stored for stored in held if stored.name == name)
        current["revision"] = newest + 1
        controller.update(_REVISIONS, stored, current)
    return current


def forget_revisions(controller: Controller, workload: Json, used: set[str]) -> None:
    """Drops the oldest unused revisions beyond the history limit."""
    held = controller.owners.owned(_REVISIONS, workload["metadata"]["uid"])
    unused = [stored for stored in held if stored.name not in used]
    unused.sort(key=lambda stored: stored.document().get("revision", 0))
    limit = workload["spec"].get("revisionHistoryLimit", 10)
    for stored in unused[: max(len(unused) - limit, 0)]:
        controller.delete(_REVISIONS, stored)


def template_of(revision: Stored) -> Any:
    """The pod template that a revision holds."""
    template = revision.document()["data"]["spec"]["template"]
    return {name: part for name, part in template.items() if name != "$patch"}
