"""What was in place in a scenario though its recording does not show how it came there.

Most of it follows from the recording itself: an object that is read, changed or deleted successfully without having
been created must have existed. `_EXTRA` names what does not follow: how those objects were, and what happened beside.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubesched.apiserver import Request, Server
from tests.recordings.compare import Correspondence
from tests.recordings.scenario import Exchange, Scenario

Json = dict[str, Any]
_ITEM = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(?:/namespaces/([^/]+))?/([a-z]+)/([^/]+)(?:/([a-z]+))?$")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_BOOT = datetime.fromisoformat("2026-11-29T11:06:19Z").timestamp()
LIVE_BOOT = datetime.fromisoformat("2026-11-29T11:13:19Z").timestamp()
_BOOTSTRAPPED = frozenset({"default", "kube-system", "kube-public", "kube-node-lease", "kubernetes"})


@dataclass
class Setup:
    """`boot` is when the server came up, `start` when the scenario began; `objects` are there when an exchange first
    shows or names them; `acts` happen before an exchange, `later` so many seconds after the start; `bodies` were sent
    where the recording shows only what they parse to; `version` is the recorded version at the start, where it matters.
    """

    start: float
    boot: float
    objects: list[Json] = field(default_factory=list)
    acts: dict[int, list[Callable[[Server], None]]] = field(default_factory=dict)
    version: int = 0
    bodies: dict[int, bytes] = field(default_factory=dict)
    later: list[tuple[float, Callable[[Server], None]]] = field(default_factory=list)
    due: dict[int, list[Json]] = field(default_factory=dict)
    shown_at: dict[str, int] = field(default_factory=dict)

    def before(self, index: int, server: Server, known: Correspondence) -> None:
        for document in self.due.get(index, ()):
            self._load(server, document, known)
        for act in self.acts.get(index, ()):
            act(server)
        if index == 0 and self.version:
            known.revision(self.version, server.store.revision)

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
    start = _start(scenario)
    plain = scenario.profile == "plain" and start > _BOOT
    setup = Setup(start, _BOOT if plain else start)
    setup.objects = _inferred(scenario, setup.shown_at)
    extra = _EXTRA.get(scenario.name)
    if extra is not None:
        extra(setup)
    setup.objects.sort(key=_version)
    for document in setup.objects:
        setup.due.setdefault(_due(setup, scenario, document), []).append(document)
    return setup


def live_setup(scenario: Scenario, not_before: float) -> Setup:
    """For a scenario of the live cluster, where `others.py` sees to what is in place."""
    setup = Setup(max(_start(scenario), not_before), LIVE_BOOT)
    extra = _EXTRA.get(scenario.name)
    if extra is not None:
        extra(setup)
    return setup


def _due(setup: Setup, scenario: Scenario, document: Json) -> int:
    """The exchange before which the object was made: after the last one that tells an older version, and before the
    first that names it."""
    version = _version(document)
    metadata = document["metadata"]
    if metadata.get("uid") in setup.shown_at:
        return _first_named(scenario, metadata, setup.shown_at[metadata["uid"]])
    older = -1
    for exchange in scenario.exchanges:
        path = _ITEM.match(exchange.path)
        if path and path.group(4) == metadata["name"] and (path.group(2) or "") == metadata.get("namespace", ""):
            return exchange.index
        if version and exchange.newest_version >= version:
            return older + 1
        if 0 < exchange.newest_version < version:
            older = exchange.index
    return 0


def pod(name: str, namespace: str = "default", **spec: Any) -> Json:
    metadata = {"name": name, "namespace": namespace}
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
            return max(datetime.fromisoformat(text).timestamp() for text in found) + 0.5
    return 1_800_000_000.0


def _inferred(scenario: Scenario, shown_at: dict[str, int]) -> list[Json]:
    """Objects that must have existed, as they first were. Those shown first by their deletion are in `shown_at`."""
    created: set[str] = set()
    earliest: dict[str, Json] = {}
    named: dict[tuple[str, str, str], Json] = {}
    for exchange in scenario.exchanges:
        makes = exchange.method == "POST" or (exchange.method in ("PUT", "PATCH") and exchange.status == 201)
        for document in _shown(exchange):
            uid = document["metadata"].get("uid", "")
            if makes:
                created.add(uid)
            if uid not in earliest and exchange.method == "DELETE" and exchange.status == 200:
                document = _undeleted(document)
                shown_at[uid] = exchange.index
            if uid not in earliest or _version(document) < _version(earliest[uid]):
                earliest[uid] = document
        path = _ITEM.match(exchange.path)
        if path and exchange.status not in (404, 405) and path.group(3) == "pods" and "%" not in exchange.path:
            key = ("Pod", path.group(2) or "", path.group(4))
            named.setdefault(key, pod(path.group(4), path.group(2) or ""))
    spaces = _namespaces(scenario, [d for d in earliest.values() if d["kind"] == "Namespace"])
    shown = [d for uid, d in earliest.items() if uid not in created and not _made_by_server(d)]
    told = {_key(d) for d in earliest.values()}
    return spaces + [_as_created(d) for d in shown] + [d for key, d in named.items() if key not in told]


def _first_named(scenario: Scenario, metadata: Json, index: int) -> int:
    """The first of the exchanges up to `index` that find the object, which an earlier one of its name precedes."""
    for exchange in reversed(scenario.exchanges[:index]):
        path = _ITEM.match(exchange.path)
        if path is None or path.group(4) != metadata["name"]:
            continue
        other = exchange.status < 300 and any(d["metadata"].get("uid") != metadata["uid"] for d in _shown(exchange))
        if exchange.status == 404 or other:
            break
        index = exchange.index
    return index


def _undeleted(document: Json) -> Json:
    document = copy.deepcopy(document)
    metadata = document["metadata"]
    if metadata.pop("deletionTimestamp", None):
        del metadata["resourceVersion"]
        metadata.pop("deletionGracePeriodSeconds", None)
        metadata["generation"] = 1
    return document


def _namespaces(scenario: Scenario, shown: list[Json]) -> list[Json]:
    """Namespaces in which objects were made though nobody made them."""
    told = {d["metadata"]["name"] for d in shown} | _BOOTSTRAPPED
    used = [
        found.group(1)
        for exchange in scenario.exchanges
        if exchange.method == "POST" and exchange.status == 201
        if (found := re.search("/namespaces/([^/]+)/", exchange.path)) and found.group(1) not in told
    ]
    return [{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": name}} for name in dict.fromkeys(used)]


def _version(document: Json) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)


def _made_by_server(document: Json) -> bool:
    return document["metadata"]["name"] in _BOOTSTRAPPED or document["kind"] == "ComponentStatus"


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
        and d.get("kind")
        not in (None, "Status", "Table", "Scale", "PartialObjectMetadata", "PartialObjectMetadataList")
        and "apidiscovery" not in str(d.get("apiVersion"))
    ]


def _as_created(document: Json) -> Json:
    found: Json = json.loads(json.dumps(document).replace("<host>", "host"))
    if '"_cut"' in json.dumps(found["metadata"]):
        del found["metadata"]["managedFields"]
    return found


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
    zone = {"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"}
    _replace(setup, *pods.values(), node("n1"), node("n2"), node("n-topo", zone))


def _request(server: Server, method: str, path: str, body: Json | None = None) -> None:
    """One request of the recorder's that is not in the recording."""
    encoded = b"" if body is None else json.dumps(body).encode()
    headers = {"user-agent": "rec-client", "authorization": "Bearer <token:admin>"}
    if method == "PATCH":
        headers["content-type"] = "application/merge-patch+json"
    request = Request(method, path, headers=headers, body=encoded)
    coroutine = server.handle(request)
    try:
        coroutine.send(None)  # writes never suspend
    except StopIteration as finished:
        assert finished.value.status < 400, finished.value.body
        return
    raise AssertionError("a write suspended")


@_extra("c04-list")
def _list(setup: Setup) -> None:
    pods = "/api/v1/namespaces/default/pods"
    created = {"creationTimestamp": "2026-11-29T11:06:21Z"}
    high = {"name": "high", "resourceVersion": "217", **created}
    setup.objects.append(
        {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": high, "value": 1000}
    )
    for document in setup.objects:
        if document["kind"] == "Namespace":
            document["metadata"] |= {**created, "resourceVersion": "226"}
    identity = "apiserver-wlv32tlttr4jl3gtroqexyxapa"
    lease = {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {
            "name": identity,
            "namespace": "kube-system",
            "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver", "kubernetes.io/hostname": "host"},
            "annotations": {"kubernetes.io/peer-advertise-address": "192.0.2.10:26443"},
            "creationTimestamp": "2026-11-29T11:06:19Z",
        },
        "spec": {"holderIdentity": f"{identity}_299679df-5214-4477-9467-605344dc1b08"},
    }
    many = [d for d in setup.objects if d["metadata"]["name"].startswith("big")]
    label = many[0]["metadata"]["labels"]
    setup.objects = [d for d in setup.objects if d not in many and d["metadata"]["name"] != "l9"]

    def between_pages(server: Server) -> None:
        _request(server, "POST", pods, pod("l9"))
        _request(server, "DELETE", f"{pods}/l3")

    def many_pods(server: Server) -> None:
        for number in range(150):
            document = pod(f"big{number:03}")
            document["metadata"]["labels"] = label
            _request(server, "POST", pods, document)

    def fewer_pods(server: Server) -> None:
        for number in range(150):
            _request(server, "DELETE", f"{pods}/big{number:03}")

    def renew_lease(server: Server) -> None:
        server.load([lease])

    setup.acts = {
        21: [renew_lease],
        27: [between_pages],
        88: [many_pods],
        89: [fewer_pods],
    }


@_extra("c08-delete")
def _delete(setup: Setup) -> None:
    setup.objects.append(node("n1"))
    setup.objects[-1]["metadata"]["uid"] = "98de65ff-b8db-4443-a78e-260be07366e8"


def _running(document: Json, *, ready: bool = True) -> Json:
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    return {**document, "status": {"phase": "Running", "qosClass": "BestEffort", "conditions": [condition]}}


@_extra("c11-eviction")
def _eviction(setup: Setup) -> None:
    budget = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/pdb/status"

    def health(allowed: int, healthy: int) -> Callable[[Server], None]:
        status = {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 1, "expectedPods": 2}
        patch = {"status": {"observedGeneration": 1, "disruptedPods": None, **status}}
        return lambda server: _request(server, "PATCH", budget, patch)

    def second_budget(server: Server) -> None:
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "e"}}}
        path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
        _request(server, "POST", path, {"metadata": {"name": "pdb2"}, "spec": spec})

    def another_e3(server: Server) -> None:
        document = _running(pod("e3", nodeName="n1"))
        document["metadata"]["uid"] = "a11e790e-52e6-4255-badf-d61f391ef9d2"
        server.load([document])

    covered = []
    for name in ("e5", "e6", "e7", "e8", "e9", "e10"):
        document = pod(name, nodeName="n1")
        document["metadata"]["labels"] = {"app": "e"}
        covered.append(document)
    e4 = next(d for d in setup.objects if d["metadata"]["name"] == "e4")
    first = _undeleted(e4)
    first["status"]["conditions"] = [c for c in first["status"]["conditions"] if c["type"] != "DisruptionTarget"]
    e5, e6, e7, e8, e9, e10 = covered
    e9["status"] = {"phase": "Succeeded", "qosClass": "BestEffort"}
    _replace(
        setup,
        pod("e3"),
        first,
        _running(e5),
        _running(e6, ready=False),
        _running(e7, ready=False),
        e8,
        e9,
        _running(e10),
    )
    setup.acts = {11: [another_e3], 16: [health(1, 2)], 21: [health(0, 0)], 26: [second_budget]}


@_extra("c03-create-defaults")
def _create(setup: Setup) -> None:
    def twice_named(name: str, other: str) -> bytes:
        containers = '[{"name":"c","image":"i"}]'
        metadata = f'{{"name":"{name}","name":"{other}"}}'
        return f'{{"apiVersion":"v1","kind":"Pod","metadata":{metadata},"spec":{{"containers":{containers}}}}}'.encode()

    setup.bodies = {86: twice_named("p-dup1", "p-dup2"), 87: twice_named("p-dup3", "p-dup4")}


@_extra("c15-expired")
def _expired(setup: Setup) -> None:
    setup.acts = {5: [lambda server: _request(server, "DELETE", "/api/v1/namespaces/default/pods/x3")]}


@_extra("c15b-expired-after-restart")
def _expired_after_restart(setup: Setup) -> None:
    y3 = pod("y3")
    y3["metadata"]["resourceVersion"] = "1997"
    later = [d for d in setup.objects if _version(d) > 1999]
    setup.objects = [d for d in setup.objects if d not in later] + [y3]

    def restart(server: Server) -> None:
        for document in later:
            server.load([copy.deepcopy(document)])
        _request(server, "DELETE", "/api/v1/namespaces/default/pods/y3")
        server.compact()

    setup.acts = {1: [restart]}


_PRIORITY_LEVELS = (
    "exempt",
    "global-default",
    "leader-election",
    "node-high",
    "system",
    "workload-high",
    "workload-low",
)
_API_SERVICE: Json = {  # written again by a controller of the recorded server
    "kind": "Service",
    "apiVersion": "v1",
    "metadata": {
        "name": "kubernetes",
        "namespace": "default",
        "labels": {"component": "apiserver", "provider": "kubernetes"},
        "creationTimestamp": "2026-11-29T11:06:20Z",
        "resourceVersion": "208",
    },
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 443}]},
}


def _priority_level(name: str, version: int) -> Json:
    return {
        "kind": "PriorityLevelConfiguration",
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "metadata": {"name": name, "resourceVersion": str(version), "creationTimestamp": "2026-11-29T11:06:19Z"},
        "spec": {"type": "Limited"},
    }


@_extra("c16-misc")
def _misc(setup: Setup) -> None:
    pods = "/api/v1/namespaces/default/pods"
    late = ("m10", "nt", "nu")
    m1, m2 = pod("m1"), pod("m2", nodeName="n1")
    m1["metadata"] |= {"uid": "efb0219b-31ee-4aa1-939a-864c0c7fa27a", "resourceVersion": "2312"}
    m2["metadata"] |= {"uid": "b0a58c1c-1efe-4ac5-b813-7c18ddb1afa3", "resourceVersion": "2313"}
    m1["metadata"]["creationTimestamp"] = m2["metadata"]["creationTimestamp"] = "2026-11-29T11:29:01Z"
    n1 = node("n1")
    n1["metadata"] |= {"uid": "b7f46b9e-d405-4a63-a918-906fb5e2c60c", "resourceVersion": "2311"}
    _replace(setup, m1, m2, n1)
    setup.objects = [d for d in setup.objects if d["metadata"]["name"] not in late]
    setup.objects += [_priority_level(name, 60 + n) for n, name in enumerate(_PRIORITY_LEVELS)] + [_API_SERVICE]

    def status_of_m2(server: Server) -> None:
        container = {
            "name": "c",
            "ready": True,
            "restartCount": 3,
            "state": {"running": {"startedAt": "2024-01-01T00:00:00Z"}},
            "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2024-01-01T00:00:00Z"}},
        }
        status = {"phase": "Running", "podIP": "10.1.0.1", "containerStatuses": [container]}
        _request(server, "PATCH", f"{pods}/m2/status", {"status": status})

    def others(server: Server) -> None:
        _request(server, "DELETE", f"{pods}/m9")
        _request(server, "PATCH", f"{pods}/m3/status", {"status": {"phase": "Failed", "reason": "Evicted"}})
        _request(server, "POST", pods, pod("m10", schedulingGates=[{"name": "example.com/wait"}]))
        unknown, cordoned = node("nt"), node("nu")
        unknown["status"].pop("conditions")
        cordoned["spec"] = {"unschedulable": True}
        _request(server, "POST", "/api/v1/nodes", unknown)
        _request(server, "POST", "/api/v1/nodes", cordoned)

    setup.acts = {49: [status_of_m2, others]}


@_extra("c05b-watch-bookmark-interval")
def _bookmarks(setup: Setup) -> None:
    setup.objects, setup.version = [], 1171
    create_pod = pod("bm0")
    setup.later = [
        (1.0, lambda server: _request(server, "POST", "/api/v1/namespaces/default/pods", create_pod)),
        (2.0, lambda server: _request(server, "POST", "/api/v1/nodes", node("bm-node"))),
    ]


@_extra("c09-update-status")
def _update_status(setup: Setup) -> None:
    setup.start += 0.2  # the second changed before exchange 54


@_extra("b03-schedule")
def _schedule(setup: Setup) -> None:
    setup.objects += [node("n1", {"topology.kubernetes.io/zone": "z1"})]
    setup.objects += [node(name, {"topology.kubernetes.io/zone": "z2"}) for name in ("n2", "n3")]


@_extra("a03-apply")
def _apply(setup: Setup) -> None:
    """What kubectl created in protobuf, of which the recording tells only the size, and shows never whole."""
    namespace = {"metadata": {"name": "cns"}}
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "100"}}}
    quotas = "/api/v1/namespaces/default/resourcequotas"
    counted = {"status": {"hard": {"pods": "100"}, "used": {"pods": "8"}}}
    setup.acts = {
        76: [lambda server: _request(server, "POST", "/api/v1/namespaces", namespace)],
        81: [
            lambda server: _request(server, "POST", quotas, quota),
            lambda server: _request(server, "PATCH", f"{quotas}/q/status", counted),
        ],
    }


@_extra("a07-drain")
def _drain(setup: Setup) -> None:
    """The deployment's pod on the node that is drained, which the recording shows in protobuf only, and its budget."""
    held = _running(pod("dep-5d56fbb89-9vmks", nodeName="node1"))
    held["metadata"]["labels"] = {"app": "dep", "pod-template-hash": "5d56fbb89"}
    selector = {"matchLabels": {"app": "dep"}}
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/deppdb"

    def select(server: Server) -> None:
        server.load([held])
        status = {"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2, "observedGeneration": 2}
        _request(server, "PATCH", path, {"spec": {"selector": selector}})
        _request(server, "PATCH", f"{path}/status", {"status": status})

    def allow(server: Server) -> None:
        _request(server, "PATCH", f"{path}/status", {"status": {"desiredHealthy": 1, "disruptionsAllowed": 1}})

    setup.acts = {1: [select], 29: [allow]}


@_extra("c06-wire")
def _wire(setup: Setup) -> None:
    pods = "/api/v1/namespaces/default/pods"
    setup.objects, setup.version = [], 1195
    labelled = {"metadata": {"labels": {"q": "1"}}}

    def two_events(server: Server) -> None:
        _request(server, "POST", pods, pod("wire1"))
        _request(server, "DELETE", f"{pods}/wire1")

    setup.acts = {0: [lambda server: _request(server, "PATCH", "/api/v1/namespaces/kube-public", labelled)]}
    setup.acts[1] = [two_events]
