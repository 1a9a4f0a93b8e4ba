"""Reports from the field about volumes (VOL), played through a whole scheduler: what went wrong elsewhere, made right.

The API server and the volume controller are the test: it sees what is written and shows what comes of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import ApiError
from tests.build import (
    HOSTNAME,
    ZONE,
    ClaimBuilder,
    VolumeBuilder,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.harness import Harness, RecordingPort

LOCAL = make_storage_class("local").wait_for_first_consumer().obj()
FAST = make_storage_class("fast").provisioner("csi.example.com").wait_for_first_consumer().obj()
SELECTED = "volume.kubernetes.io/selected-node"


def local(name: str, node: str) -> VolumeBuilder:
    volume = make_pv(name).storage_class("local").capacity("10Gi").node_affinity_in(HOSTNAME, [node])
    return volume.resource_version("100")


def claim(name: str, storage_class: str = "local") -> ClaimBuilder:
    return make_pvc(name).storage_class(storage_class).resource_version("50")


class StoringPort(RecordingPort):
    """Gives what is written a new version, as a server would."""

    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, Any] = {}
        #: Raised, one a write.
        self.refusals: list[ApiError] = []
        self._version = 1000

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        stored: PersistentVolume = self._store(await super().update_volume(volume, claim=claim))
        return stored

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        stored: PersistentVolumeClaim = self._store(await super().update_claim(claim, selected_node=selected_node))
        return stored

    def _store(self, obj: Any) -> Any:
        if self.refusals:
            raise self.refusals.pop()
        self._version += 1
        self.stored[obj.metadata.name] = with_version(obj, self._version)
        return self.stored[obj.metadata.name]


def with_version(obj: Any, version: int, **annotations: str) -> Any:
    metadata = msgspec.structs.replace(
        obj.metadata, resource_version=str(version), annotations={**obj.metadata.annotations, **annotations}
    )
    return msgspec.structs.replace(obj, metadata=metadata)


def completed(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    bound = with_version(claim, 2000, **{"pv.kubernetes.io/bind-completed": "yes"})
    done: PersistentVolumeClaim = msgspec.structs.replace(
        bound, spec=msgspec.structs.replace(bound.spec, volume_name=volume)
    )
    return done


class Cluster(Harness):
    def __init__(self) -> None:
        self.server = StoringPort()
        super().__init__(port=self.server)

    def finish(self, claim: PersistentVolumeClaim, volume: str) -> None:
        """The volume controller binds the claim; both are seen as they are in the end."""
        if volume in self.server.stored:
            self.apply(self.server.stored[volume])
        self.apply(completed(self.server.stored.get(claim.metadata.name, claim), volume))


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    harness = Cluster()
    harness.apply(*(make_node(f"n{i}").zone(f"z{i}").capacity(cpu=4).obj() for i in (1, 2)), LOCAL, FAST)
    await harness.settle()
    yield harness
    await harness.stop()


def last_note(cluster: Cluster, pod: Pod) -> str:
    return [event.note for event in cluster.port.events if event.regarding.metadata.uid == pod.metadata.uid][-1]


async def test_a_claim_is_bound_then_the_pod(cluster: Cluster) -> None:
    asked, pod = claim("data").obj(), make_pod("p").cpu("1").pvc("data").obj()
    cluster.apply(local("pv", "n2").obj(), asked, pod)
    await cluster.settle()
    assert cluster.port.calls == [("status", "p", None, "n2"), ("volume", "pv", "data")]
    await cluster.pass_time(2)
    assert cluster.port.binds() == []
    cluster.finish(asked, "pv")
    await cluster.settle()
    assert cluster.port.binds() == [("p", "n2")]


async def test_br_103_selected_node_is_gone(cluster: Cluster) -> None:
    asked, pod = claim("data", "fast").obj(), make_pod("p").pvc("data").node_selector({ZONE: "z1"}).obj()
    cluster.apply(asked, pod)
    await cluster.settle()
    assert cluster.port.calls[-1] == ("claim", "data", "n1")
    cluster.apply(cluster.server.stored["data"])
    cluster.delete(make_node("n1").obj())
    cluster.apply(make_node("n3").zone("z1").capacity(cpu=4).obj())
    cluster.apply(claim("data", "fast").resource_version("901").obj())  # the provisioner takes the selection back
    await cluster.settle()
    assert cluster.port.binds() == []
    await cluster.pass_time(3)
    assert cluster.port.calls[-1] == ("claim", "data", "n3")
    cluster.apply(make_pv("made").storage_class("fast").claimed_by("data").obj())
    cluster.finish(asked, "made")
    await cluster.settle()
    assert cluster.port.binds() == [("p", "n3")]


async def test_br_104_preemption_only_where_the_volume_is(cluster: Cluster) -> None:
    asked = claim("data").bound_to("pv").obj()
    cluster.apply(local("pv", "n1").claimed_by("data").obj(), asked)
    victims = [make_pod(f"low-{i}").cpu("2").node("n1").priority(-1).obj() for i in range(2)]
    cluster.apply(*victims)
    pod = make_pod("p").cpu("2").priority(100).pvc("data").obj()
    cluster.apply(pod)
    await cluster.settle()
    assert "1 Insufficient cpu, 1 node(s) didn't match PersistentVolume's node affinity." in last_note(cluster, pod)
    assert [call[1] for call in cluster.port.calls if call[0] == "delete"] in (["low-0"], ["low-1"])
    assert cluster.state.nominator.node_of(pod.metadata.uid) == "n1"


async def test_br_106_two_claims_one_volume(cluster: Cluster) -> None:
    claims = [claim("one").obj(), claim("two").obj()]
    first, second = make_pod("p1").pvc("one").obj(), make_pod("p2").pvc("two").obj()
    cluster.apply(local("pv", "n1").obj(), *claims, first, second)
    await cluster.settle()
    assert [call for call in cluster.port.calls if call[0] == "volume"] == [("volume", "pv", "one")]
    cluster.apply(local("pv", "n1").resource_version("99").obj())
    await cluster.pass_time(12)
    assert [call for call in cluster.port.calls if call[0] == "volume"] == [("volume", "pv", "one")]
    cluster.finish(claims[0], "pv")
    await cluster.settle()
    assert cluster.port.binds() == [("p1", "n1")]
    assert cluster.waits_in(second) == "unschedulable"


async def test_br_107_recreated_while_its_volume_is_bound(cluster: Cluster) -> None:
    asked, old = claim("data").obj(), make_pod("p").uid("old").pvc("data").obj()
    new = make_pod("p").uid("new").pvc("data").obj()
    cluster.apply(local("pv", "n1").obj(), local("other", "n2").obj(), asked, old)
    await cluster.settle()
    volume = cluster.port.calls[-1][1]
    cluster.delete(old)
    cluster.apply(new)
    cluster.finish(asked, volume)
    await cluster.pass_time(12)
    where = {"pv": "n1", "other": "n2"}[volume]
    assert cluster.port.binds() == [("p", where)]
    assert cluster.node_of(new) == where
    assert cluster.node_of(old) == ""


async def test_br_109_read_write_once_pod(cluster: Cluster) -> None:
    asked = claim("data").access_modes("ReadWriteOncePod").bound_to("pv").obj()
    user = make_pod("p1").pvc("data").node("n1").priority(5).obj()
    cluster.apply(local("pv", "n1").access_modes("ReadWriteOncePod").claimed_by("data").obj(), asked, user)
    equal, higher = make_pod("p2").pvc("data").priority(5).obj(), make_pod("p3").pvc("data").priority(100).obj()
    cluster.apply(equal)
    await cluster.settle()
    assert cluster.waits_in(equal) == "unschedulable"
    assert "ReadWriteOncePod access mode already in-use by another pod" in last_note(cluster, equal)
    cluster.apply(higher)
    await cluster.settle()
    assert ("delete", "p1") in cluster.port.calls
    assert cluster.state.nominator.node_of(higher.metadata.uid) == "n1"
    cluster.delete(user)
    await cluster.pass_time(12)
    assert cluster.port.binds() == [("p3", "n1")]
    assert cluster.node_of(equal) == ""
    cluster.delete(higher)
    await cluster.pass_time(12)
    assert cluster.port.binds() == [("p3", "n1"), ("p2", "n1")]


async def test_br_110_the_claim_comes_late_and_its_class_later(cluster: Cluster) -> None:
    pod = make_pod("p").pvc("data").obj()
    cluster.apply(pod)
    await cluster.pass_time(10)
    assert 'persistentvolumeclaim "data" not found. not found' in last_note(cluster, pod)
    asked = claim("data", "late").obj()
    cluster.apply(asked)
    await cluster.pass_time(10)
    assert "pod has unbound immediate PersistentVolumeClaims. not found" in last_note(cluster, pod)
    cluster.apply(make_storage_class("late").provisioner("csi.example.com").wait_for_first_consumer().obj())
    await cluster.pass_time(10)
    assert cluster.port.calls[-1][:2] == ("claim", "data")
    cluster.apply(make_pv("made").storage_class("late").claimed_by("data").obj())
    cluster.finish(asked, "made")
    await cluster.settle()
    assert len(cluster.port.binds()) == 1


async def test_br_112_zone_labels_of_volumes(cluster: Cluster) -> None:
    volume = make_pv("pv").label(ZONE, "z1__z9").claimed_by("data").obj()
    pods = [make_pod(f"p{i}").pvc("data").cpu("3").obj() for i in range(3)]
    cluster.apply(volume, make_pvc("data").bound_to("pv").obj(), *pods)
    await cluster.settle()
    assert [node for _, node in cluster.port.binds()] == ["n1"]
    left = next(pod for pod in pods if cluster.waits_in(pod))
    assert "1 Insufficient cpu, 1 node(s) had no available volume zone." in last_note(cluster, left)


async def test_br_149_old_claim_of_the_same_name(cluster: Cluster) -> None:
    old = claim("data").bound_to("pv-old").deleting().obj()
    cluster.apply(local("pv-old", "n1").claimed_by("data").obj(), local("pv-new", "n2").obj(), old)
    pod = make_pod("p-0").pvc("data").obj()
    cluster.apply(pod)
    await cluster.pass_time(5)
    assert 'persistentvolumeclaim "data" is being deleted. not found' in last_note(cluster, pod)
    assert cluster.port.binds() == []
    cluster.delete(old)
    asked = claim("data").uid("new").resource_version("300").obj()
    cluster.apply(asked)
    await cluster.pass_time(12)
    assert cluster.port.calls[-1] == ("volume", "pv-new", "data")
    cluster.finish(asked, "pv-new")
    await cluster.settle()
    assert cluster.port.binds() == [("p-0", "n2")]


async def test_a_refused_write_gives_everything_back_and_is_tried_again(cluster: Cluster) -> None:
    refused = ApiError(409, "Conflict", 'Operation cannot be fulfilled on persistentvolumes "pv": modified', {})
    cluster.server.refusals.append(refused)
    asked, pod = claim("data").obj(), make_pod("p").pvc("data").obj()
    cluster.apply(local("pv", "n1").obj(), asked, pod)
    await cluster.settle()
    assert last_note(cluster, pod) == f'running PreBind plugin "VolumeBinding": {refused.message}'
    assert [volume.metadata.name for volume in cluster.state.volumes.free_volumes("local")] == ["pv"]
    await cluster.pass_time(3)
    cluster.finish(asked, "pv")
    await cluster.settle()
    assert cluster.port.binds() == [("p", "n1")]


async def test_a_pod_with_resource_claims_is_held_back_without_a_word_to_the_server(cluster: Cluster) -> None:
    pod = make_pod("p").resource_claim("gpu", claim="gpus").obj()
    cluster.apply(pod)
    await cluster.pass_time(600)
    assert cluster.waits_in(pod) == "gated"
    assert cluster.port.calls == []
    assert cluster.port.events == []
