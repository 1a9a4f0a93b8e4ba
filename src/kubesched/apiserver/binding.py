"""pods/binding: the one write that makes a scheduling decision true.

The pod gets its node, the condition PodScheduled True, the labels and annotations of the Binding and the topology
labels of the node, and loses its nomination; a pod that is bound, gated or being deleted is refused with a conflict.
It is the hottest write of a scheduler's life: no defaulting and no validation of the rest of the pod happens here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kubesched.apiserver import bodies, metadata
from kubesched.apiserver.messages import Answer, Reply, Request
from kubesched.apiserver.resources import Resource, core
from kubesched.apiserver.status import bad_request, conflict, internal, storage_precondition, success
from kubesched.apiserver.store import Json, Stored, encode

if TYPE_CHECKING:
    from kubesched.apiserver.api import Api

_TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_PODS = core("pods")
_BOUND = encode(success(201))


async def bind(api: Api, request: Request) -> Reply:
    """POST pods/<name>/binding, or POST bindings with the pod's name in the body."""
    binding = bodies.object_of(request, "Binding", "v1")
    meta, target = binding["metadata"], binding.get("target") or {}
    name = request.name or meta.get("name", "")
    if meta.get("namespace", request.namespace) != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if meta.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in ("", "Node"):
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise internal("target.name: Required value")
    stored = api.require(_PODS, request.namespace, name)
    _check_preconditions(meta, stored)
    pod = stored.document()
    _check_bindable(pod, name)
    if not request.dry_run:
        assign(api, pod, target["name"], meta)
        api.store.update(_PODS, stored, pod)
    return Answer(201, _BOUND)


def assign(api: Api, pod: Json, node: str, meta: Json) -> None:
    """Writes the decision into the pod's document."""
    pod["spec"]["nodeName"] = node
    labels = dict(meta.get("labels") or {})
    found = api.get("nodes", "", node)
    if found is not None:
        labels.update({key: found.labels[key] for key in _TOPOLOGY_LABELS if key in found.labels})
    pod_meta = pod["metadata"]
    if labels or meta.get("annotations"):
        pod_meta["labels"] = {**(pod_meta.get("labels") or {}), **labels}
        pod_meta["annotations"] = {**(pod_meta.get("annotations") or {}), **(meta.get("annotations") or {})}
        pod["metadata"] = metadata.ordered(pod_meta)
    status = pod["status"]
    status.pop("nominatedNodeName", None)
    scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": api.now()}
    conditions = status.setdefault("conditions", [])
    for index, condition in enumerate(conditions):
        if condition["type"] == "PodScheduled":
            conditions[index] = scheduled
            return
    conditions.append(scheduled)


def _check_preconditions(meta: Json, stored: Stored) -> None:
    for what, field, found in (
        ("UID", "uid", stored.uid),
        ("ResourceVersion", "resourceVersion", str(stored.revision)),
    ):
        asked = meta.get(field)
        if asked and asked != found:
            raise storage_precondition(_PODS, stored.namespace, stored.name, what, asked, found)


def _check_bindable(pod: Json, name: str) -> None:
    if "deletionTimestamp" in pod["metadata"]:
        raise _refused(_PODS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if pod["spec"].get("nodeName"):
        raise _refused(_PODS, name, f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"')
    if pod["spec"].get("schedulingGates"):
        raise _refused(_PODS, name, f"pod {name} has non-empty .spec.schedulingGates")


def _refused(resource: Resource, name: str, text: str) -> Exception:
    return conflict(resource, name, text, "binding")
