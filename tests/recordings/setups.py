"""What was in place in a scenario though its recording does not show how it came there.

Most of it follows from the recording itself: an object that is read, changed or deleted successfully without having
been created must have existed. `_EXTRA` names what does not follow: how those objects were, and what happened beside.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubesched.apiserver import Server
from tests.recordings.compare import Correspondence
from tests.recordings.scenario import Exchange, Scenario

Json = dict[str, Any]
_ITEM = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)/([^/]+)(?:/([a-z]+))?$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_BOOTSTRAPPED = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", "kubernetes"})


@dataclass
class Setup:
    """`start` is the moment at which the scenario begins; `objects` exist then; `acts` happen before an exchange."""

    start: float
    objects: list[Json] = field(default_factory=list)
    acts: dict[int, list[Callable[[Server], None]]] = field(default_factory=dict)

    def before(self, index: int, server: Server, known: Correspondence) -> None:
        if index == 0:
            for document in self.objects:
                self._load(server, document, known)
        for act in self.acts.get(index, ()):
            act(server)

    def _load(self, server: Server, document: Json, known: Correspondence) -> None:
        document = copy.deepcopy(document)
        metadata = document["metadata"]
        recorded = metadata.pop("resourceVersion", None)
        uid = metadata.get("uid")
        server.load([document])
        if recorded is not None:
            known.revision(int(recorded), server.store.revision)
        if uid is not None:
            known.uids[uid] = uid


def setup_of(scenario: Scenario) -> Setup:
    setup = Setup(_start(scenario), _inferred(scenario))
    extra = _EXTRA.get(scenario.name)
    if extra is not None:
        extra(setup)
    setup.objects.sort(key=lambda d: int(d["metadata"].get("resourceVersion") or 0))
    return setup


def pod(name: str, **spec: Any) -> Json:
    metadata = {"name": name, "namespace": "default"}
    containers = [{"name": "c", "image": "registry.example/app:1"}]
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": {"containers": containers, **spec}}


def node(name: str, labels: dict[str, str] | None = None) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "spec": {},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


def _start(scenario: Scenario) -> float:
    """When the scenario began: the creation time in the answer to the first create tells it."""
    for exchange in scenario.exchanges:
        if exchange.method == "POST" and isinstance(exchange.answer, dict):
            created = (exchange.answer.get("metadata") or {}).get("creationTimestamp")
            if created:
                return datetime.fromisoformat(created).timestamp() - exchange.t_ms / 1000 + 0.5
    for exchange in scenario.exchanges:
        found = _TIME.findall(str(exchange.answer) + str(exchange.stream))
        if found:
            return max(datetime.fromisoformat(text).timestamp() for text in found)
    return 1_800_000_000.0


def _inferred(scenario: Scenario) -> list[Json]:
    """Objects that must have existed at the start."""
    known: set[tuple[str, str, str]] = set()
    found: dict[tuple[str, str, str], Json] = {}
    for exchange in scenario.exchanges:
        for document in _shown(exchange):
            key = _key(document)
            if key in known:
                continue
            known.add(key)
            created = exchange.method == "POST" or (exchange.method in ("PUT", "PATCH") and exchange.status == 201)
            if not created and not _made_by_server(document):
                found[key] = document
        path = _ITEM.match(exchange.path)
        if path and exchange.status != 404 and path.group(3) == "pods":
            key = ("Pod", path.group(2) or "", path.group(4))
            if key not in known:
                known.add(key)
                found[key] = pod(path.group(4))
                found[key]["metadata"]["namespace"] = path.group(2)
    return [_as_created(document) for document in found.values()]


def _made_by_server(document: Json) -> bool:
    return document["metadata"]["name"] in _BOOTSTRAPPED or document["kind"] == "Lease"


def _key(document: Json) -> tuple[str, str, str]:
    return document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]


def _shown(exchange: Exchange) -> list[Json]:
    """The whole objects that an exchange shows."""
    shown: list[Any] = []
    answer = exchange.answer
    if isinstance(answer, dict) and answer.get("kind", "").endswith("List") and isinstance(answer.get("items"), list):
        item = {"kind": answer["kind"].removesuffix("List"), "apiVersion": answer.get("apiVersion")}
        shown += [{**item, **i} for i in answer["items"] if isinstance(i, dict) and "metadata" in i]
    elif isinstance(answer, dict):
        shown.append(answer)
    for event in exchange.stream or ():
        if isinstance(event, dict) and event.get("type") != "BOOKMARK":
            shown.append(event.get("object", event))
    return [
        d
        for d in shown
        if isinstance(d, dict)
        and isinstance(d.get("metadata"), dict)
        and d["metadata"].get("name")
        and d.get("kind") not in (None, "Status", "Table", "Scale", "PartialObjectMetadata", "PartialObjectMetadataList")
        and "apidiscovery" not in str(d.get("apiVersion"))
    ]


def _as_created(document: Json) -> Json:
    document = copy.deepcopy(document)
    document["metadata"].pop("managedFields", None)
    return document


_EXTRA: dict[str, Callable[[Setup], None]] = {}


def _extra(name: str) -> Callable[[Callable[[Setup], None]], Callable[[Setup], None]]:
    def register(function: Callable[[Setup], None]) -> Callable[[Setup], None]:
        _EXTRA[name] = function
        return function

    return register


def _replace(setup: Setup, *documents: Json) -> None:
    """These objects in the place of what was inferred for them."""
    keys = {_key(d) for d in documents}
    setup.objects = [d for d in setup.objects if _key(d) not in keys]
    setup.objects += documents


@_extra("c07-binding")
def _binding(setup: Setup) -> None:
    uids = {"b2": "d8830e15-83f1-4b45-b600-e8ae49849a5c", "b3": "bd217478-57a9-4b84-8d0f-741bd0dffa3e"}
    names = [f"b{n}" for n in (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 15, 16)]
    pods = {name: pod(name) for name in names}
    pods["b4"]["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]
    pods["b9"]["status"] = {"phase": "Failed", "qosClass": "BestEffort"}
    for number in (2, 3, 4, 5, 6, 7, 8, 11):
        pods[f"b{number}"]["metadata"]["resourceVersion"] = str(301 + number)
    for name, uid in uids.items():
        pods[name]["metadata"]["uid"] = uid
    terminating = next(d for d in setup.objects if d["metadata"]["name"] == "b10")
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"):
        terminating["metadata"].pop(name)
    terminating["metadata"]["generation"] = 1
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    _replace(setup, *pods.values(), node("n1"), node("n2"), node("n-topo", zone))
