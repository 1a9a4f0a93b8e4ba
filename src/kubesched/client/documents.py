"""`Documents`: pods and nodes as the API server sent them, whole, for those who must pass them on.

The scheduler's own objects hold only what it reads; an extender may want anything. So where an extender is configured
that is sent documents, the watches keep them (`Reflector(keep_documents=True)`), and they are brought up to date
together with the state, between cycles: what an extender gets is what the decision was made on.

Kept are pods that wait for a node; nodes, and pods that have one, only if some extender gets them. `managedFields` are
left out, as the original leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.api.changes import Change, Delete, Replace, Upsert
from kubesched.api.core import Pod
from kubesched.api.errors import KubeschedError

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Documents:
    def __init__(self) -> None:
        self._wants_pods = False
        self._wants_placed_pods = False
        self._wants_nodes = False
        #: By name.
        self._nodes: dict[str, bytes] = {}
        #: By UID, with the node that the document names.
        self._pods: dict[str, tuple[bytes, str]] = {}

    def want(self, *, pods: bool = False, placed_pods: bool = False, nodes: bool = False) -> set[str]:
        """Keep these as well from now on. Answers the kinds of which all objects must be received (again) for it."""
        kinds = set()
        if (pods and not self._wants_pods) or (placed_pods and not self._wants_placed_pods):
            kinds.add("Pod")
        if nodes and not self._wants_nodes:
            kinds.add("Node")
        self._wants_pods |= pods
        self._wants_placed_pods |= placed_pods
        self._wants_nodes |= nodes
        return kinds

    def wants(self, kind: str) -> bool:
        """Whether changes of the kind should carry documents."""
        return (kind == "Pod" and self._wants_pods) or (kind == "Node" and self._wants_nodes)

    def node(self, name: str) -> bytes:
        """The JSON of a node of the state. KubeschedError if it was not kept."""
        document = self._nodes.get(name)
        if document is None:
            raise KubeschedError(f"the whole document of node {name} is not known")
        return document

    def pod(self, pod: Pod) -> bytes:
        """The JSON of a pod of the state; an assumed pod's names the node that was chosen for it."""
        kept = self._pods.get(pod.metadata.uid)
        if kept is None:
            raise KubeschedError(f"the whole document of pod {pod.key} is not known")
        document, node_name = kept
        if node_name == pod.spec.node_name:
            return document
        whole = _decode(document)
        whole.setdefault("spec", {})["nodeName"] = pod.spec.node_name
        return _encode(whole)

    def take(self, changes: Iterable[Change]) -> None:
        """To be called where the changes are applied to the state, and in their order."""
        for change in changes:
            match change:
                case Upsert(kind, obj, document) if document:
                    self._put(kind.kind, obj, document)
                case Delete(kind, obj):
                    self._drop(kind.kind, obj)
                case Replace(kind, objects, documents=documents) if documents or not objects:
                    self._clear(kind.kind)
                    for obj, document in zip(objects, documents, strict=True):
                        self._put(kind.kind, obj, document)

    def _put(self, kind: str, obj: Any, document: bytes) -> None:
        if kind == "Node":
            self._nodes[obj.metadata.name] = _trimmed(document)
        elif kind == "Pod":
            if self._wants_placed_pods or not obj.spec.node_name:
                self._pods[obj.metadata.uid] = (_trimmed(document), obj.spec.node_name)
            else:
                self._pods.pop(obj.metadata.uid, None)

    def _drop(self, kind: str, obj: Any) -> None:
        if kind == "Node":
            self._nodes.pop(obj.metadata.name, None)
        elif kind == "Pod":
            self._pods.pop(obj.metadata.uid, None)

    def _clear(self, kind: str) -> None:
        if kind == "Node":
            self._nodes.clear()
        elif kind == "Pod":
            self._pods.clear()


def _trimmed(document: bytes) -> bytes:
    if b'"managedFields"' not in document:
        return document
    whole = _decode(document)
    whole.get("metadata", {}).pop("managedFields", None)
    return _encode(whole)
