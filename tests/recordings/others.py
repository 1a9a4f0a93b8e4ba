"""What others wrote in a recording: controllers, the scheduler, kubelets, and the recorder where it played them.

The scenarios of kubectl and of default admission were recorded one after the other on one live cluster. The replay
sends the clients' requests; what everybody else wrote meanwhile is told by the answers: an object in a version that no
answer to a write tells was written by somebody else, and is put in place here before the answer, or the moment of the
event, that first shows it. Nothing is put in place that the server has come to by itself: a document that is equal
already only has its version noted.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from kubesched.apiserver import Answer, Request, Server
from kubesched.apiserver.resources import BY_PATH, Resource, by_kind
from kubesched.apiserver.store import Stored
from tests.recordings.compare import Comparison, Correspondence
from tests.recordings.scenario import Exchange, Scenario

Json = dict[str, Any]
_WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_INITIAL_MS = 60
_ADMIN = {"authorization": "Bearer <token:admin>"}
_BY_CONTROLLERS = ("deployment.kubernetes.io/", "node.alpha.kubernetes.io/", "beta.kubernetes.io/")


@dataclass
class Sight:
    """An object as an answer or an event shows it. `cells` come with a row of a table, which has metadata only."""

    document: Json
    cells: list[Any] | None = None

    @property
    def version(self) -> int:
        return int(self.document["metadata"].get("resourceVersion") or 0)

    @property
    def uid(self) -> str:
        return str(self.document["metadata"].get("uid", ""))


@dataclass
class Others:
    """The cluster beside the client. `whole` holds every document that was shown as such, by uid and version."""

    server: Server
    known: Correspondence
    whole: dict[str, dict[int, Json]] = field(default_factory=dict)
    by_client: set[int] = field(default_factory=set)
    _writes: list[tuple[str, Sight]] = field(default_factory=list)
    _pending: list[tuple[float, int]] = field(default_factory=list)
    _noted: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, scenarios: Iterable[Scenario], server: Server, known: Correspondence) -> Others:
        found = cls(server, known)
        first: dict[tuple[str, int], tuple[tuple[int, int], str, Sight]] = {}
        exchanges = [
            (number, exchange)
            for number, scenario in enumerate(scenarios)
            for exchange in scenario.exchanges
            if not _is_dry(exchange)
        ]
        for number, exchange in exchanges:
            for at_ms, type_, sight in [*((exchange.t_ms, "", s) for s in _shown(exchange)), *_events(exchange)]:
                found._see(first, (number, at_ms), type_, sight)
        for number, exchange in exchanges:
            found._read_write(first, (number, exchange.t_ms), exchange)
        writes = [(type_, sight) for _, type_, sight in first.values() if sight.version not in found.by_client]
        found._writes = sorted(writes, key=lambda entry: entry[1].version)
        return found

    def _see(
        self,
        first: dict[tuple[str, int], tuple[tuple[int, int], str, Sight]],
        moment: tuple[int, int],
        type_: str,
        sight: Sight,
    ) -> None:
        entry = sight.uid, sight.version
        if sight.cells is None:
            self.whole.setdefault(sight.uid, {}).setdefault(sight.version, sight.document)
        if entry not in first:
            first[entry] = moment, type_, sight
        else:
            moment = min(moment, first[entry][0])
            gone = "DELETED" in (type_, first[entry][1])
            first[entry] = moment, "DELETED" if gone else type_, sight if sight.cells is None else first[entry][2]

    def _read_write(
        self,
        first: dict[tuple[str, int], tuple[tuple[int, int], str, Sight]],
        moment: tuple[int, int],
        exchange: Exchange,
    ) -> None:
        """Notes the version that a client's write has made; one that was seen before was not made by it."""
        if exchange.method not in _WRITES or exchange.status >= 300 or not isinstance(exchange.answer, dict):
            return
        meta = exchange.answer.get("metadata") or {}
        made = int(meta.get("resourceVersion") or 0)
        seen = first.get((meta.get("uid", ""), made))
        if not made or (seen is not None and seen[0] < moment):
            return
        self.by_client.add(made)
        if exchange.method == "DELETE" and meta.get("deletionGracePeriodSeconds") == 0:
            self.by_client.add(made - 1)  # a deletion at once is two writes, of which the answer tells one

    # Before an exchange is sent, and while time passes.

    def before(self, exchange: Exchange, now_s: float) -> None:
        self.until(now_s)
        if exchange.method in _WRITES:
            self._before_write(exchange)
            return
        if not exchange.is_watch:
            self._catch_up(exchange.newest_version)
            self._take_away(exchange, list(_shown(exchange)))
            return
        resumed = exchange.query.get("resourceVersion", "0") != "0"
        initial = [] if resumed else _initial(exchange)
        self._catch_up(max([s.version for s in initial], default=0))
        if initial and not resumed:
            self._take_away(exchange, initial)
        for at_ms, _, sight in _events(exchange):
            heappush(self._pending, (now_s + max(at_ms - exchange.t_ms, 0) / 1000, sight.version))

    def until(self, now_s: float) -> None:
        """What events show up to this moment has happened."""
        while self._pending and self._pending[0][0] <= now_s:
            self._catch_up(heappop(self._pending)[1])

    def last_at(self, now_s: float) -> float:
        """When the last event comes that is known of."""
        return max([now_s, *(entry[0] for entry in self._pending)])

    def next_at(self) -> float | None:
        return self._pending[0][0] if self._pending else None

    def _catch_up(self, version: int) -> None:
        """What others wrote up to a version that an answer or an event tells has happened before it."""
        while self._writes and self._writes[0][1].version <= version:
            self._happen(*self._writes.pop(0))

    def _before_write(self, exchange: Exchange) -> None:
        """The status, node and annotations that the answer to a write shows were there before it."""
        target = _target(exchange)
        if exchange.status == 404 and target is not None:
            self._remove(*target)
        sights = [s for s in _shown(exchange) if s.cells is None]
        self._catch_up(exchange.newest_version - (exchange.status < 300))
        if exchange.method == "POST" or len(sights) != 1 or exchange.path.endswith(("/status", "/scale")):
            return
        told = self._translated(sights[0].document)
        stored = self._find(told)
        if stored is None or told["kind"] == "Namespace":
            return
        document = stored.document()
        before = copy.deepcopy(document)
        if "status" in told and "status" in document:
            document["status"] = told["status"]
        for name in ("nodeName", "taints") if exchange.method == "DELETE" else ("nodeName",):
            if name in told.get("spec", {}):
                document["spec"][name] = told["spec"][name]
        self._take_annotations(document, told)
        if document != before and not self._equal(sights[0].document, before, ("status",)):
            self.server.store.update(_resource(told), stored, document)

    @staticmethod
    def _take_annotations(document: Json, told: Json) -> None:
        for part in ("annotations", "labels"):
            named = told["metadata"].get(part) or {}
            theirs = {name: value for name, value in named.items() if name.startswith(_BY_CONTROLLERS)}
            if theirs:
                document["metadata"][part] = {**(document["metadata"].get(part) or {}), **theirs}

    def _happen(self, type_: str, sight: Sight) -> None:
        if type_ == "DELETED":
            document = self._translated(self._completed(sight))
            stored = self._find(document)
            if stored is not None and stored.uid == document["metadata"]["uid"]:
                self.server.store.delete(_resource(document), stored, document)
                self._note(sight)
        else:
            self.show(sight)

    # One object.

    def show(self, sight: Sight) -> None:
        """Sees to it that the server has the object in this version."""
        if self._noted.get(sight.uid, -1) >= sight.version:
            return
        recorded = self._completed(sight)
        document = self._translated(recorded)
        resource = by_kind(document["apiVersion"], document["kind"])
        if resource is None or resource.storage not in self.server.store.collections:
            return
        if resource.group == "events.k8s.io":
            return
        stored = self._find(document)
        if stored is not None and self._same_object(recorded, stored):
            document["metadata"]["uid"] = stored.uid
            if "managedFields" in (old := stored.document())["metadata"]:
                document["metadata"]["managedFields"] = old["metadata"]["managedFields"]
            if self._equal(recorded, old) and stored.revision not in self.known.revisions.values():
                self._note(sight, stored.revision)
                return
            self.server.store.update(resource, stored, document)
        else:
            if stored is not None:
                self.server.store.delete(resource, stored)
            self.server.store.create(resource, document)
            self.known.uids.setdefault(sight.uid, document["metadata"]["uid"])
        self._note(sight)

    def _note(self, sight: Sight, revision: int | None = None) -> None:
        self._noted[sight.uid] = sight.version
        self.known.revision(sight.version, self.server.store.revision if revision is None else revision)

    def _same_object(self, recorded: Json, stored: Stored) -> bool:
        uid = recorded["metadata"]["uid"]
        if uid in self.known.uids:
            return self.known.uids[uid] == stored.uid
        if stored.uid in self.known.uids.values():
            return False
        self.known.uids[uid] = stored.uid  # one that every cluster has from its first second
        return True

    def _equal(self, recorded: Json, actual: Json, only: tuple[str, ...] = ()) -> bool:
        trial = Correspondence(dict(self.known.uids), dict(self.known.revisions), dict(self.known.names))
        comparison = Comparison(trial)
        if only:
            recorded, actual = ({name: d.get(name) for name in only} for d in (recorded, actual))
        else:
            actual = copy.deepcopy(actual)
            actual["metadata"]["resourceVersion"] = "0"
            recorded = {**recorded, "metadata": {**recorded["metadata"], "resourceVersion": "0"}}
        return comparison.equal(recorded, actual)

    def _translated(self, recorded: Json) -> Json:
        document: Json = copy.deepcopy(self.known.translate(recorded))
        document["metadata"].pop("managedFields", None)
        return document

    def _find(self, document: Json) -> Stored | None:
        meta = document["metadata"]
        resource = by_kind(document["apiVersion"], document["kind"])
        if resource is None or resource.storage not in self.server.store.collections:
            return None
        return self.server.store.of(resource).get(meta.get("namespace", ""), meta["name"])

    def _remove(self, resource: Resource, namespace: str, name: str) -> None:
        stored = self.server.store.of(resource).get(namespace, name)
        if stored is not None:
            self.server.store.delete(resource, stored)

    def _take_away(self, exchange: Exchange, sights: list[Sight]) -> None:
        """What the client would be shown here and was not shown there is gone."""
        target = _target(exchange)
        if target is not None:
            if exchange.status == 404:
                self._remove(*target)
            return
        answer = exchange.answer
        if exchange.status != 200 or "_protobuf_bytes" in json.dumps(answer) or "_cut_items" in json.dumps(answer):
            return
        if not (exchange.is_watch or (isinstance(answer, dict) and ("items" in answer or "rows" in answer))):
            return
        if "continue" in exchange.query or (isinstance(answer, dict) and answer.get("metadata", {}).get("continue")):
            return
        query = {n: str(v) for n, v in exchange.query.items() if n in ("labelSelector", "fieldSelector")}
        reply = _now(self.server.api.handle(Request("GET", self.known.translate_path(exchange.path), query, _ADMIN)))
        if not isinstance(reply, Answer) or reply.status != 200:
            return
        listed = json.loads(reply.body)
        if "items" not in listed:
            return
        shown = {self._key(self.known.translate(s.document)) for s in sights}
        kind = listed["kind"].removesuffix("List")
        resource = by_kind(listed["apiVersion"], kind)
        assert resource is not None
        for item in listed["items"]:
            if self._key(item) not in shown:
                self.known.forget(exchange.newest_version)  # told before; the store moves on now
                self._remove(resource, item["metadata"].get("namespace", ""), item["metadata"]["name"])

    @staticmethod
    def _key(document: Json) -> tuple[str, str]:
        return document["metadata"].get("namespace", ""), document["metadata"]["name"]

    # Rows of tables show metadata and cells only.

    def _completed(self, sight: Sight) -> Json:
        if sight.cells is None:
            return sight.document
        versions = self.whole.get(sight.uid, {})
        if sight.version in versions:
            return versions[sight.version]
        meta = sight.document["metadata"]
        earlier = [v for v in versions if v < sight.version]
        later = [v for v in versions if v > sight.version]
        if later:
            base: Json = copy.deepcopy(versions[min(later)])
        elif earlier:
            base = copy.deepcopy(versions[max(earlier)])
        else:
            current = self._find(sight.document)
            base = current.document() if current is not None else {}
        document = {**base, "kind": sight.document["kind"], "apiVersion": sight.document["apiVersion"]}
        document["metadata"] = copy.deepcopy(meta)
        return _as_told(document, sight.cells)


def _as_told(document: Json, cells: list[Any]) -> Json:
    """A document that a row of a table stands for, as far as its cells tell."""
    fill = _AS_TOLD.get(document["kind"])
    if fill is not None:
        document.setdefault("spec", {})
        fill(document, cells)
    return document


def _node_as_told(node: Json, cells: list[Any]) -> None:
    if "SchedulingDisabled" in cells[1]:
        node["spec"]["unschedulable"] = True
    else:
        node["spec"].pop("unschedulable", None)


def _lease_as_told(lease: Json, cells: list[Any]) -> None:
    lease["spec"]["holderIdentity"] = cells[1]


def _replica_set_as_told(replica_set: Json, cells: list[Any]) -> None:
    _, wanted, current, ready, _, containers, images, selector = cells
    labels = dict(part.split("=") for part in selector.split(","))
    named = zip(containers.split(","), images.split(","), strict=True)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": n, "image": i} for n, i in named]}}
    replica_set["spec"] = {"replicas": wanted, "selector": {"matchLabels": labels}, "template": template}
    replica_set["status"] = {"replicas": current, "readyReplicas": ready}


def _budget_as_told(budget: Json, cells: list[Any]) -> None:
    _, least, most, allowed, _ = cells
    budget["spec"] = {"minAvailable": int(least)} if least != "N/A" else {"maxUnavailable": int(most)}
    budget["status"] = {"disruptionsAllowed": allowed}


def _event_as_told(event: Json, cells: list[Any]) -> None:
    _, type_, reason, about, _, source, message, _, times, _ = cells
    kind, _, name = about.partition("/")
    component, _, host = source.partition(", ")
    del event["spec"]
    event |= {"type": type_, "reason": reason, "message": message, "count": times}
    event["involvedObject"] = {"kind": kind.capitalize(), "name": name}
    event["source"] = {"component": component, **({"host": host} if host else {})}
    event["firstTimestamp"] = event["lastTimestamp"] = event["metadata"]["creationTimestamp"]


def _endpoints_as_told(endpoints: Json, cells: list[Any]) -> None:
    del endpoints["spec"]
    subsets = []
    for address in cells[1].split(","):
        ip, _, port = address.partition(":")
        subsets.append({"addresses": [{"ip": ip}], "ports": [{"port": int(port)}]})
    endpoints["subsets"] = subsets


def _pod_as_told(pod: Json, cells: list[Any]) -> None:
    ready, phase, ip, node = str(cells[1]), str(cells[2]), cells[5], cells[6]
    pod["spec"].setdefault("containers", [{"name": "c", "image": "registry.example/app:1"}])
    status = pod.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})
    if node != "<none>":
        pod["spec"]["nodeName"] = node
    else:
        pod["spec"].pop("nodeName", None)
    if ip == "<none>" and phase in ("Pending", "Terminating") and ready.startswith("0/"):
        pod["status"] = {name: status[name] for name in ("qosClass", "conditions") if name in status}
        pod["status"]["phase"] = "Pending"
    elif ip != "<none>":
        status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
        status["phase"] = "Running" if phase == "Terminating" else phase
        names = [c["name"] for c in pod["spec"]["containers"]]
        running = [{"name": n, "ready": True, "restartCount": 0, "state": {"running": {}}} for n in names]
        status.setdefault("containerStatuses", running)


_AS_TOLD = {
    "Endpoints": _endpoints_as_told,
    "Node": _node_as_told,
    "Lease": _lease_as_told,
    "ReplicaSet": _replica_set_as_told,
    "PodDisruptionBudget": _budget_as_told,
    "Event": _event_as_told,
    "Pod": _pod_as_told,
}


def _is_dry(exchange: Exchange) -> bool:
    body = exchange.body if isinstance(exchange.body, dict) else {}
    return exchange.query.get("dryRun") == "All" or body.get("dryRun") == ["All"]


def _shown(exchange: Exchange) -> Iterator[Sight]:
    """The objects in an answer."""
    answer = exchange.answer
    if isinstance(answer, dict):
        yield from _objects_in(answer, exchange.path)


def _objects_in(answer: Json, path: str) -> Iterator[Sight]:
    kind, version = answer.get("kind", ""), answer.get("apiVersion", "")
    if kind == "Table":
        for row in answer.get("rows") or ():
            if isinstance(row, dict) and "object" in row:
                yield from _row(row, path)
    elif kind.endswith("List") and isinstance(answer.get("items"), list):
        item = {"kind": kind.removesuffix("List"), "apiVersion": version}
        for entry in answer["items"]:
            if isinstance(entry, dict) and isinstance(entry.get("metadata"), dict) and "uid" in entry["metadata"]:
                yield Sight({**item, **entry})
    elif isinstance(answer.get("metadata"), dict) and answer["metadata"].get("uid") and by_kind(version, kind):
        yield Sight(answer)


def _initial(exchange: Exchange) -> list[Sight]:
    """What a watch shows of the state it begins with."""
    types = [event.get("type") for event in exchange.stream or ()]
    end = types.index("BOOKMARK") if "sendInitialEvents" in exchange.query and "BOOKMARK" in types else None
    first = [(at, type_, sight) for at, type_, sight in _events(exchange) if type_ == "ADDED"]
    if end is not None:
        return [sight for _, _, sight in first[:end]]
    return [sight for at_ms, _, sight in first if at_ms <= exchange.t_ms + _INITIAL_MS]


def _row(row: Json, path: str) -> Iterator[Sight]:
    meta = row["object"].get("metadata") or {}
    resource = _resource_of(path)
    if resource is not None and meta.get("uid"):
        yield Sight(
            {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": meta}, list(row.get("cells") or ())
        )


def _events(exchange: Exchange) -> Iterator[tuple[int, str, Sight]]:
    """Arrival, type and object of the events of a watch."""
    for at_ms, event in zip(exchange.stream_t_ms, exchange.stream or (), strict=False):
        if isinstance(event, dict) and event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
            for sight in _objects_in(event["object"], exchange.path):
                yield at_ms, event["type"], sight


def _resource_of(path: str) -> Resource | None:
    parts = path.strip("/").split("/")
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        rest = rest[2:]
    return BY_PATH.get((group, version, rest[0])) if rest else None


def _target(exchange: Exchange) -> tuple[Resource, str, str] | None:
    """The object that the path names."""
    parts = exchange.path.strip("/").split("/")
    if parts[0] not in ("api", "apis") or len(parts) < 4:
        return None
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = _resource_of(exchange.path)
    return (resource, namespace, rest[1]) if resource is not None and len(rest) > 1 else None


def _resource(document: Json) -> Resource:
    resource = by_kind(document["apiVersion"], document["kind"])
    assert resource is not None
    return resource


def _now(coroutine: Any) -> Any:
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    coroutine.close()
    return None
