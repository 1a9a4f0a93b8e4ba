"""The client against the embedded API server, over real HTTP: what is mirrored is what is there, whatever happens."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubesched.api import codec, kinds
from kubesched.api.changes import Change, Delete, Replace, Upsert
from kubesched.api.core import Pod
from kubesched.api.errors import ApiError, TransportError
from kubesched.api.kinds import Kind
from kubesched.api.meta import Condition
from kubesched.apiserver import Answer, DropConnection, Server
from kubesched.client.events import EventSink
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.client.port import ApiPort
from kubesched.client.reflector import UNFINISHED_PODS, Phase, Reflector
from kubesched.client.rest import STRATEGIC_MERGE_PATCH, ApiClient, connect
from kubesched.clock import Chance, RealClock
from kubesched.framework.ports import EventRecord
from tests.client.doubles import QuickClock, until
from tests.ports import free_port

PODS = "/api/v1/namespaces/default/pods"


class Mirror:
    """A receiver as the core is one. It holds that changes make sense: what is deleted was there."""

    def __init__(self) -> None:
        self.objects: dict[str, Any] = {}
        self.replaces = 0

    def __call__(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if isinstance(change, Replace):
                self.replaces += 1
                self.objects = {obj.key: obj for obj in change.objects}
            elif isinstance(change, Upsert):
                self.objects[change.obj.key] = change.obj
            else:
                assert isinstance(change, Delete)
                del self.objects[change.obj.key]

    @property
    def versions(self) -> dict[str, str]:
        return {key: obj.metadata.resource_version for key, obj in self.objects.items()}


class Bench:
    def __init__(self, server: Server) -> None:
        self.server = server
        self.clock = QuickClock()
        self.client = self.connect()
        self._running: list[asyncio.Task[None]] = []

    def connect(self, user: UserConfig | None = None) -> ApiClient:
        return connect(ClientConfig(ClusterConfig(self.server.url), user or UserConfig()), RealClock(), qps=0)

    def mirror(
        self, kind: Kind = kinds.POD, *, field_selector: str = "", client: ApiClient | None = None
    ) -> tuple[Reflector, Mirror]:
        mirror = Mirror()
        reflector = Reflector(
            client or self.client, kind, mirror, clock=self.clock, chance=Chance(7), field_selector=field_selector
        )
        self._running.append(asyncio.create_task(reflector.run()))
        return reflector, mirror

    async def stop(self) -> None:
        failed = [task for task in self._running if task.done()]
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        for task in failed:
            task.result()
        await self.client.close()

    async def create(self, name: str, **spec: Any) -> Pod:
        document = {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec},
        }
        return codec.decode(kinds.POD, await self.client.request("POST", PODS, encode(document)))  # type: ignore[no-any-return]

    async def patch(self, name: str, document: dict[str, Any], subresource: str = "") -> None:
        await self.client.request(
            "PATCH", f"{PODS}/{name}{subresource}", encode(document), content_type=STRATEGIC_MERGE_PATCH
        )

    async def delete(self, name: str) -> None:
        await self.client.request("DELETE", f"{PODS}/{name}", encode({"gracePeriodSeconds": 0}))

    async def versions(self, kind: Kind = kinds.POD, selector: str = "") -> dict[str, str]:
        page = codec.decode_list(
            kind, await self.client.get(kind.path() + (f"?fieldSelector={selector}" if selector else ""))
        )
        return {obj.key: obj.metadata.resource_version for obj in page.items}


def encode(document: Any) -> bytes:
    return json.dumps(document).encode()


@asynccontextmanager
async def bench(**options):
    async with Server(node_simulator=False, chance=Chance(1), **options) as server:
        made = Bench(server)
        try:
            yield made
        finally:
            await made.stop()


async def test_everything_a_scheduler_watches_is_mirrored():
    async with bench() as b:
        await b.create("a")
        mirrors = [(kind, *b.mirror(kind)) for kind in kinds.KINDS if kind is not kinds.BINDING]
        for kind, reflector, mirror in mirrors:
            async with asyncio.timeout(60):
                await reflector.wait_synced()
            assert mirror.versions == await b.versions(kind), kind.plural
        namespaces = next(mirror for kind, _, mirror in mirrors if kind is kinds.NAMESPACE)
        assert "default" in namespaces.objects


async def test_what_leaves_the_selector_is_deleted_and_may_come_back():
    async with bench() as b:
        reflector, mirror = b.mirror(field_selector=UNFINISHED_PODS)
        await reflector.wait_synced()
        await b.create("a")
        await b.create("b")
        await until(lambda: len(mirror.objects) == 2)
        await b.patch("a", {"status": {"phase": "Succeeded"}}, "/status")
        await until(lambda: list(mirror.objects) == ["default/b"])
        await b.patch("a", {"status": {"phase": "Running"}}, "/status")
        await until(lambda: len(mirror.objects) == 2)
        assert mirror.replaces == 1


async def test_deletions_missed_while_history_was_lost_are_seen():
    async with bench() as b:
        reflector, mirror = b.mirror()
        await reflector.wait_synced()
        for name in "abc":
            await b.create(name)
        await until(lambda: len(mirror.objects) == 3)

        refusing = True

        async def refuse(request, proceed):
            if refusing and "watch" in request.query:
                return Answer(500, b"not now", "text/plain")
            return await proceed()

        b.server.interceptors.append(refuse)
        b.server.cut_watches()
        await until(lambda: bool(reflector._trouble))
        await b.delete("a")
        await b.create("d")
        b.server.compact()
        refusing = False
        await until(lambda: sorted(mirror.objects) == ["default/b", "default/c", "default/d"])
        assert mirror.replaces == 2
        assert mirror.versions == await b.versions()


async def test_lists_in_pages_when_watch_lists_are_refused():
    async with bench() as b:
        b.server.load({"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{n:04}"}} for n in range(1234))
        lists: list[dict[str, str]] = []

        async def old_server(request, proceed):
            if "sendInitialEvents" in request.query:
                return Answer(422, encode({"kind": "Status", "reason": "Invalid", "message": "no", "code": 422}))
            if request.path == "/api/v1/nodes" and "watch" not in request.query:
                lists.append(dict(request.query))
            return await proceed()

        b.server.interceptors.append(old_server)
        reflector, mirror = b.mirror(kinds.NODE)
        reflector._wants_latest = True  # at version 0 a server gives all at once, from its cache
        await reflector.wait_synced()
        assert len(mirror.objects) == 1234
        assert [query.get("limit") for query in lists] == ["500"] * 3
        b.server.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}}])
        await until(lambda: "late" in mirror.objects)
        assert mirror.replaces == 1


async def test_an_object_of_several_mib_is_one_event_like_any_other():
    async with bench() as b:
        reflector, mirror = b.mirror(kinds.NODE)
        await reflector.wait_synced()
        images = [{"names": ["x" * (5 << 20)], "sizeBytes": 1}]
        b.server.load([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "big"}, "status": {"images": images}}])
        await until(lambda: "big" in mirror.objects)
        assert len(mirror.objects["big"].status.images[0].names[0]) == 5 << 20
        assert (reflector.phase, mirror.replaces) == (Phase.WATCH, 1)


def test_the_same_on_uvloop():
    uvloop = pytest.importorskip("uvloop")

    async def scenario() -> None:
        async with bench() as b:
            reflector, mirror = b.mirror()
            await reflector.wait_synced()
            pods = await asyncio.gather(*(b.create(f"p{n}") for n in range(50)))
            port = ApiPort(b.client, EventSink(b.client, b.clock, host="h"), b.clock)
            await asyncio.gather(*(port.bind(pod, "n1") for pod in pods[1:]))
            await until(lambda: sum(obj.spec.node_name == "n1" for obj in mirror.objects.values()) == 49)
            b.server.cut_watches()
            await port.delete_pod(pods[0])
            await until(lambda: pods[0].key not in mirror.objects)

    uvloop.run(scenario())


async def test_a_restarted_server_is_found_again():
    async with bench(port=free_port()) as b:
        reflector, mirror = b.mirror()
        await reflector.wait_synced()
        await b.create("a")
        await until(lambda: "default/a" in mirror.objects)
        await b.server.stop()
        await until(lambda: len(b.clock.slept) >= 3)
        await b.server.start()
        await b.create("b")
        await until(lambda: "default/b" in mirror.objects)
        assert mirror.versions == await b.versions()


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_the_mirror_ends_up_like_the_server(seed):
    """Random writes, cut watches, refused and dropped requests, and times of darkness that history does not outlast."""
    chance = Chance(seed)
    async with bench() as b:
        faults = 0
        is_dark = False

        async def unreliable(request, proceed):
            nonlocal faults
            if request.path == "/api/v1/pods" and (is_dark or chance.random() < 0.3):
                faults += 1
                roll = chance.randrange(4)
                if roll == 0:
                    raise DropConnection
                code = (429, 500, 403)[roll - 1]
                return Answer(code, encode({"kind": "Status", "code": code, "reason": "Fault", "message": "fault"}))
            return await proceed()

        b.server.interceptors.append(unreliable)
        _, mirror = b.mirror(field_selector=UNFINISHED_PODS)
        alive: set[str] = set()
        for step in range(300):
            roll = chance.random()
            if step % 60 == 40:
                is_dark = True
                b.server.cut_watches()
            elif step % 60 == 50:
                b.server.compact()
                is_dark = False
            elif roll < 0.5 or not alive:
                name = f"p{step}"
                await b.create(name)
                alive.add(name)
            elif roll < 0.7:
                name = chance.choice(sorted(alive))
                await b.patch(name, {"metadata": {"labels": {"step": str(step)}}})
            elif roll < 0.8:
                name = chance.choice(sorted(alive))
                phase = chance.choice(["Succeeded", "Running", "Failed"])
                await b.patch(name, {"status": {"phase": phase}}, "/status")
            elif roll < 0.95:
                name = chance.choice(sorted(alive))
                alive.remove(name)
                await b.delete(name)
            else:
                b.server.cut_watches()
        b.server.interceptors.clear()
        expected = await b.versions(selector="status.phase!=Succeeded,status.phase!=Failed")
        await until(lambda: mirror.versions == expected)
        assert faults > 10
        assert mirror.replaces > 1


class TestPort:
    def port(self, b: Bench, **options: Any) -> ApiPort:
        self.events = EventSink(b.client.lane("events", None), RealClock(), host="h")
        return ApiPort(b.client, self.events, RealClock(), **options)

    async def test_binds_in_parallel_some_with_a_lost_answer(self):
        async with bench() as b:
            reflector, mirror = b.mirror()
            await reflector.wait_synced()
            pods = [await b.create(f"p{n}") for n in range(200)]
            dropped: set[str] = set()

            async def lossy(request, proceed):
                answer = await proceed()
                if request.path.endswith("/binding") and len(dropped) < 20 and request.path not in dropped:
                    dropped.add(request.path)
                    raise DropConnection  # stored, but nobody hears of it
                return answer

            b.server.interceptors.append(lossy)
            port = self.port(b)
            await asyncio.gather(*(port.bind(pod, f"n{n % 7}") for n, pod in enumerate(pods)))
            assert len(dropped) == 20
            await until(lambda: all(obj.spec.node_name for obj in mirror.objects.values()))
            for n, pod in enumerate(pods):
                assert mirror.objects[pod.key].spec.node_name == f"n{n % 7}"

    async def test_a_pod_that_is_bound_elsewhere_is_refused_also_after_a_lost_answer(self):
        async with bench() as b:
            pod = await b.create("a")
            port = self.port(b)
            await port.bind(pod, "n1")
            with pytest.raises(ApiError, match='already assigned to node "n1"') as caught:
                await port.bind(pod, "n2")
            assert caught.value.code == 409
            drops = [True]

            async def lossy(request, proceed):
                if request.path.endswith("/binding") and drops:
                    drops.pop()
                    raise DropConnection
                return await proceed()

            b.server.interceptors.append(lossy)
            with pytest.raises(ApiError, match='already assigned to node "n1"'):
                await port.bind(pod, "n2")

    async def test_the_uid_keeps_us_from_binding_a_namesake(self):
        async with bench() as b:
            old = await b.create("a")
            await b.delete("a")
            await b.create("a")
            with pytest.raises(ApiError, match="UID in precondition"):
                await self.port(b).bind(old, "n1")

    async def test_status_patches_are_merged_into_what_is_there(self):
        async with bench() as b:
            pod = await b.create("a")
            port = self.port(b)
            condition = Condition(
                type="PodScheduled", status="False", reason="Unschedulable", message="first", observed_generation=1
            )
            await port.patch_pod_status(pod, condition=condition, nominated_node_name="n1")
            seen = codec.decode(kinds.POD, await b.client.get(f"{PODS}/a"))
            assert seen.status.nominated_node_name == "n1"
            (got,) = seen.status.conditions
            assert (got.reason, got.message, got.observed_generation) == ("Unschedulable", "first", 1)
            first_time = got.last_transition_time
            again = Condition(type="PodScheduled", status="False", reason="Unschedulable", message="second")
            await port.patch_pod_status(seen, condition=again, nominated_node_name="")
            seen = codec.decode(kinds.POD, await b.client.get(f"{PODS}/a"))
            (got,) = seen.status.conditions
            assert (got.message, got.last_transition_time, got.observed_generation) == ("second", first_time, 1)
            assert seen.status.nominated_node_name == ""

    async def test_deleting(self):
        async with bench() as b:
            old = await b.create("a")
            port = self.port(b)
            await port.delete_pod(old)
            assert await b.versions() == {}
            await port.delete_pod(old)
            new = await b.create("a")
            await port.delete_pod(old)
            assert list(await b.versions()) == [new.key], "the namesake lives"

    async def test_volumes(self):
        async with bench() as b:
            b.server.load(
                [
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolume",
                        "metadata": {"name": "pv", "labels": {"kept": "yes"}},
                        "spec": {
                            "capacity": {"storage": "1Gi"},
                            "accessModes": ["ReadWriteOnce"],
                            "local": {"path": "/x"},
                            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                                {"matchExpressions": [{"key": "a", "operator": "Exists"}]}
                            ]}},
                        },
                    },
                    {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "metadata": {"name": "pvc", "namespace": "default"},
                        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    },
                ]
            )  # fmt: skip
            claim_target = "/api/v1/namespaces/default/persistentvolumeclaims/pvc"
            volume = codec.decode(kinds.PERSISTENT_VOLUME, await b.client.get("/api/v1/persistentvolumes/pv"))
            claim = codec.decode(kinds.PERSISTENT_VOLUME_CLAIM, await b.client.get(claim_target))
            port = self.port(b)
            bound = await port.update_volume(volume, claim=claim)
            assert bound.spec.claim_ref is not None
            assert (bound.spec.claim_ref.name, bound.spec.claim_ref.uid) == ("pvc", claim.metadata.uid)
            assert bound.metadata.labels == {"kept": "yes"}
            with pytest.raises(ApiError, match="the object has been modified"):
                await port.update_volume(volume, claim=claim)
            told = await port.update_claim(claim, selected_node="n1")
            assert told.metadata.annotations["volume.kubernetes.io/selected-node"] == "n1"

    async def test_events_end_up_in_the_api_and_repeat_as_a_series(self):
        async with bench() as b:
            pod = await b.create("a")
            port = self.port(b)
            self.events.start()
            event = EventRecord(pod, "Warning", "FailedScheduling", "Scheduling", "x" * 2000, "default-scheduler")
            port.record_event(event)
            assert await self.events.flush(60)
            port.record_event(event)
            await self.events.stop(60)
            assert self.events.failed == 0
            document = json.loads(await b.client.get("/apis/events.k8s.io/v1/namespaces/default/events"))
            (item,) = document["items"]
            assert item["series"]["count"] == 2
            assert item["regarding"]["uid"] == pod.metadata.uid
            assert len(item["note"]) == 1024
            manager = {entry["manager"] for entry in item["metadata"].get("managedFields", [])}
            assert manager <= {"kubesched"}


async def test_a_rotated_token_is_picked_up_and_the_watch_lives_on(tmp_path):
    """BR-124."""
    path = tmp_path / "token"
    path.write_text("one")
    async with bench(token="one") as b:
        await b.client.close()
        b.client = client = b.connect(UserConfig(token_file=str(path)))
        reflector, mirror = b.mirror(client=client)
        await reflector.wait_synced()
        b.server.token = "two"
        path.write_text("two")
        await b.create("a")
        await until(lambda: "default/a" in mirror.objects)
        assert mirror.replaces == 1
        b.server.token = "three"
        with pytest.raises(ApiError, match="Unauthorized") as caught:
            await b.create("b")
        assert caught.value.code == 401


async def test_closing_the_client_ends_its_calls():
    async with bench() as b:
        held, released = asyncio.Event(), asyncio.Event()

        async def hold(request, proceed):
            held.set()
            await released.wait()
            return await proceed()

        b.server.interceptors.append(hold)
        asking = asyncio.create_task(b.client.get("/version"))
        await held.wait()
        await b.client.close()
        with pytest.raises(TransportError):
            await asking
        released.set()
