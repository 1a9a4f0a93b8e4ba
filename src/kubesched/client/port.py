"""The port of the core onto a real API server: binds, status patches, deletions, volume writes, events.

Bodies are those that kube-scheduler v1.36 was recorded sending. Nothing is written back from a struct: patches hold
only what changes, and where the API wants a whole object (volumes) the server's own document is fetched and our fields
are set in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, Protocol

import msgspec

from kubesched.api import codec, kinds
from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import ApiError, DecodeError, TransportError
from kubesched.api.meta import Condition, Object, ObjectMeta, format_time
from kubesched.client.rest import STRATEGIC_MERGE_PATCH, ApiClient, Guard, encode
from kubesched.client.transport import NotSentError
from kubesched.client.wire import Binding, NodeName, Precondition, Said
from kubesched.clock import Clock
from kubesched.framework.ports import EventRecord

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"

# A condition's fields as the API spells them, in the order of the recorded patches.
_CONDITION_FIELDS: Final = (
    ("lastProbeTime", "last_probe_time"),
    ("lastTransitionTime", "last_transition_time"),
    ("message", "message"),
    ("observedGeneration", "observed_generation"),
    ("reason", "reason"),
    ("status", "status"),
)


class _Recorder(Protocol):
    def record(self, event: EventRecord) -> None: ...


class ApiPort:
    """A `kubesched.framework.ports.ClusterPort`.

    `guard` is called directly before each write is sent; what it raises ends the write unsent. A scheduler with leader
    election checks its lease there.
    """

    def __init__(self, client: ApiClient, events: _Recorder, clock: Clock, *, guard: Guard | None = None) -> None:
        self._client = client
        self._events = events
        self._clock = clock
        self._guard = guard

    async def bind(self, pod: Pod, node_name: str) -> None:
        """A connection that breaks leaves open whether the pod was bound. Asking again settles it: either the pod is
        bound now, or the server says where it already is, and that is a success if it is our node.

        A success that does not come from an API server (a proxy with a page of its own) leaves it open, too.
        """
        metadata = pod.metadata
        target = _pod_path(metadata, "/binding")
        body = binding_body(metadata.namespace, metadata.name, metadata.uid, node_name)
        try:
            answer = await self._write("POST", target, body)
        except NotSentError:
            raise
        except TransportError as lost:
            if isinstance(lost.__cause__, TimeoutError | asyncio.TimeoutError):
                raise  # a server that is this slow is not asked twice
            try:
                answer = await self._write("POST", target, body)
            except ApiError as error:
                if error.code != 409 or f'is already assigned to node "{node_name}"' not in error.message:
                    raise
                return
        if not _is_success(answer):
            raise TransportError(f"an answer that is not an API server's: {answer[:100].decode('utf-8', 'replace')!r}")

    async def read_pod(self, pod: Pod) -> Pod | None:
        metadata = pod.metadata
        try:
            body = await self._client.get(kinds.POD.path(metadata.namespace, metadata.name))
        except ApiError as error:
            if error.code == 404:
                return None
            raise
        live: Pod = codec.decode(kinds.POD, body)
        return live if live.metadata.uid == metadata.uid else None

    async def patch_pod_status(
        self, pod: Pod, *, condition: Condition | None = None, nominated_node_name: str | None = None
    ) -> None:
        patch = status_patch(pod, condition, nominated_node_name, self._clock.now())
        if patch is None:
            return
        metadata = pod.metadata
        target = _pod_path(metadata, "/status")
        await self._write("PATCH", target, encode(patch), STRATEGIC_MERGE_PATCH)

    async def delete_pod(self, pod: Pod) -> None:
        """A pod of the same name but another UID is another pod: ours is gone, which is what was wanted."""
        metadata = pod.metadata
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if metadata.uid:
            options["preconditions"] = {"uid": metadata.uid}
        try:
            await self._write("DELETE", _pod_path(metadata), encode(options))
        except ApiError as error:
            if error.code != 404 and not (error.code == 409 and metadata.uid):
                raise

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        document = await self._current(kinds.PERSISTENT_VOLUME, volume)
        spec = document.setdefault("spec", {})
        if not _names_claim(spec.get("claimRef") or {}, claim):
            _annotate(document, BOUND_BY_CONTROLLER, "yes")
        spec["claimRef"] = {
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
            "apiVersion": "v1",
            "resourceVersion": claim.metadata.resource_version,
        }
        return await self._put(kinds.PERSISTENT_VOLUME, volume, document)  # type: ignore[no-any-return]

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        document = await self._current(kinds.PERSISTENT_VOLUME_CLAIM, claim)
        _annotate(document, SELECTED_NODE, selected_node)
        return await self._put(kinds.PERSISTENT_VOLUME_CLAIM, claim, document)  # type: ignore[no-any-return]

    def record_event(self, event: EventRecord) -> None:
        self._events.record(event)

    def _write(self, method: str, target: str, body: bytes, content_type: str = "application/json") -> Awaitable[bytes]:
        return self._client.request(method, target, body, content_type=content_type, guard=self._guard)

    async def _current(self, kind: kinds.Kind, known: Object) -> dict[str, Any]:
        """The server's document, provided that it is still at the version that the decision was made on."""
        metadata = known.metadata
        answer = await self._client.get(kind.path(metadata.namespace or None, metadata.name))
        document = _mapping(answer)
        if not isinstance(document.get("metadata"), dict):
            raise DecodeError(kind.kind, metadata.namespace, metadata.name, "metadata", "an answer without it")
        if document["metadata"].get("resourceVersion") != metadata.resource_version:
            raise ApiError(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {kind.qualified} "{metadata.name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
                {"name": metadata.name, "group": kind.group, "kind": kind.plural},
            )
        return document

    async def _put(self, kind: kinds.Kind, known: Object, document: dict[str, Any]) -> Any:
        metadata = known.metadata
        target = kind.path(metadata.namespace or None, metadata.name)
        return codec.decode(kind, await self._write("PUT", target, encode(document)))


def _mapping(answer: bytes) -> dict[str, Any]:
    """A JSON object as it is, anything else as an empty one."""
    try:
        document = msgspec.json.decode(answer)
    except codec.MALFORMED:
        return {}
    return document if isinstance(document, dict) else {}


def _is_success(answer: bytes) -> bool:
    """Whether a server says that it has bound: with a Status of success or, some of them, the Binding."""
    try:
        said = _SAID.decode(answer)
    except codec.MALFORMED:
        return False
    return said.status == "Success" or said.kind == "Binding"


_SAID: Final = msgspec.json.Decoder(Said)


def binding_body(namespace: str, name: str, uid: str, node_name: str) -> bytes:
    return encode(Binding(metadata=Precondition(name, namespace, uid), target=NodeName(name=node_name)))


def status_patch(
    pod: Pod, condition: Condition | None, nominated_node_name: str | None, now: float
) -> dict[str, Any] | None:
    """The strategic merge patch from `pod.status` to the one with `condition` and nomination; None if they are there.

    A new condition is sent whole. Of one that is there only the fields that differ are sent, with the order of all
    types, as client-go computes it. A transition time that the caller left out is now, or that of the old condition
    when its status stays the same.
    """
    status: dict[str, Any] = {}
    if condition is not None:
        known = pod.status.conditions
        old = next((each for each in known if each.type == condition.type), None)
        fields = _whole(condition, now) if old is None else _difference(old, condition, now)
        if fields:
            if known:
                types = [each.type for each in known] + ([] if old is not None else [condition.type])
                status["$setElementOrder/conditions"] = [{"type": each} for each in types]
            status["conditions"] = [{**fields, "type": condition.type}]
    if nominated_node_name is not None and nominated_node_name != pod.status.nominated_node_name:
        status["nominatedNodeName"] = nominated_node_name or None
    return {"status": status} if status else None


def _whole(condition: Condition, now: float) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for wire_name, name in _CONDITION_FIELDS:
        value = getattr(condition, name)
        if name == "last_transition_time":
            value = value or format_time(now)
        if value or name == "last_probe_time":
            fields[wire_name] = value or None
    return fields


def _difference(old: Condition, new: Condition, now: float) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for wire_name, name in _CONDITION_FIELDS:
        before, after = getattr(old, name), getattr(new, name)
        if name == "last_transition_time" and not after:
            after = before if old.status == new.status else format_time(now)
        if name == "observed_generation" and not after:
            after = before  # the caller knows no generation: what is there stays
        if before != after:
            fields[wire_name] = after or None
    return fields


def _pod_path(metadata: ObjectMeta, subresource: str = "") -> str:
    # Names of pods and namespaces hold nothing that would have to be quoted; `Kind.path` costs as much as the JSON.
    return f"/api/v1/namespaces/{metadata.namespace}/pods/{metadata.name}{subresource}"


def _names_claim(reference: dict[str, Any], claim: PersistentVolumeClaim) -> bool:
    """Whether somebody has bound the volume to the claim, or set it aside for it: it stays theirs then."""
    metadata = claim.metadata
    same_name = (reference.get("namespace"), reference.get("name")) == (metadata.namespace, metadata.name)
    return same_name and reference.get("uid", "") in ("", metadata.uid)


def _annotate(document: dict[str, Any], name: str, value: str) -> None:
    metadata = document["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), name: value}
