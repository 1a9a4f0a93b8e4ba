"""VolumeBinding from Reserve on: assumed, written, waited for, taken back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubesched.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.errors import ApiError, KubeschedError
from kubesched.config.plugin_args import VolumeBindingArgs
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins.volume_binding.binding import bound_to, selected_for
from kubesched.state.pod_info import PodInfo
from tests.build import (
    HOSTNAME,
    ClaimBuilder,
    VolumeBuilder,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.plugins.rig import Rig

VOLUME, CLAIM = "PersistentVolume", "PersistentVolumeClaim"
SELECTED, BY_CONTROLLER = "volume.kubernetes.io/selected-node", "pv.kubernetes.io/bound-by-controller"

LOCAL = make_storage_class("local").wait_for_first_consumer()
FAST = make_storage_class("fast").provisioner("csi.example.com").wait_for_first_consumer()
TIMEOUT_S = 600


def local(name: str, node: str = "n1") -> VolumeBuilder:
    volume = make_pv(name).storage_class("local").capacity("10Gi").node_affinity_in(HOSTNAME, [node])
    return volume.resource_version("100")


def claim(name: str = "data", storage_class: str = "local") -> ClaimBuilder:
    return make_pvc(name).storage_class(storage_class).resource_version("50")


class Port:
    """A server that stores what it is sent and hands out versions; the watch is played by the test."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.stored: dict[str, Any] = {}
        self.refuses: dict[str, KubeschedError] = {}
        self._version = 200

    async def update_volume(self, volume: PersistentVolume, *, claim: PersistentVolumeClaim) -> PersistentVolume:
        assert volume.spec.claim_ref is not None
        stored: PersistentVolume = self._store(f"volume {volume.metadata.name} to {claim.metadata.name}", volume)
        return stored

    async def update_claim(self, claim: PersistentVolumeClaim, *, selected_node: str) -> PersistentVolumeClaim:
        assert claim.metadata.annotations[SELECTED] == selected_node
        stored: PersistentVolumeClaim = self._store(f"claim {claim.metadata.name} to {selected_node}", claim)
        return stored

    def _store(self, call: str, obj: Any) -> Any:
        self.calls.append(call)
        name = obj.metadata.name
        if name in self.refuses:
            raise self.refuses[name]
        self._version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self._version))
        self.stored[name] = msgspec.structs.replace(obj, metadata=metadata)
        return self.stored[name]


class Attempt:
    """One pod on its way to n1, past Filter."""

    def __init__(self, rig: Rig, pod: Pod, node_name: str = "n1", plugin: Any = None) -> None:
        self.rig, self.pod, self.node_name = rig, pod, node_name
        self.plugin = plugin or rig.plugin("VolumeBinding", VolumeBindingArgs(bind_timeout_seconds=TIMEOUT_S))
        self.state = CycleState(PodInfo(pod))
        self.rejection = self.plugin.pre_filter(self.state, pod, rig.state.nodes.all_nodes())

    def fits(self) -> list[str]:
        verdicts = self.plugin.filter_rows(self.state, self.pod, self.rig.state.nodes.all_nodes())
        names = [node.name for node in self.rig.state.nodes.infos]
        return names if verdicts is None else [n for n, why in zip(names, verdicts.why, strict=True) if not why]

    def reserve(self) -> Status | None:
        status: Status | None = self.plugin.reserve(self.state, self.pod, self.node_name)
        return status

    def pre_flight(self) -> Status | None:
        status: Status | None = self.plugin.pre_bind_pre_flight(self.state, self.pod, self.node_name)
        return status

    def bind(self) -> asyncio.Task[Status | None]:
        return asyncio.ensure_future(self.plugin.pre_bind(self.state, self.pod, self.node_name))

    def unreserve(self) -> None:
        self.plugin.unreserve(self.state, self.pod, self.node_name)


@pytest.fixture
def port() -> Port:
    return Port()


def rig_of(port: Port, *objects: Any) -> Rig:
    return Rig([make_node("n1"), make_node("n2")], (), [LOCAL, FAST, *objects], port=port)


async def turn() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def show(rig: Rig, obj: Any, change: Callable[[Any], Any] = lambda obj: obj) -> None:
    """The watch shows the object, changed."""
    rig.state.objects.put(type(obj).__name__, change(obj))


def completed(claim: PersistentVolumeClaim, volume: str) -> PersistentVolumeClaim:
    """What the volume controller makes of the claim in the end."""
    annotations = {**claim.metadata.annotations, "pv.kubernetes.io/bind-completed": "yes"}
    return msgspec.structs.replace(
        claim,
        metadata=msgspec.structs.replace(claim.metadata, annotations=annotations, resource_version="900"),
        spec=msgspec.structs.replace(claim.spec, volume_name=volume),
    )


# -- assuming


def test_a_volume_goes_to_one_pod_though_nobody_has_heard_of_it_yet(port: Port) -> None:
    rig = rig_of(port, local("pv"), claim("one"), claim("two"))
    first = Attempt(rig, make_pod("p1").pvc("one").obj())
    assert first.fits() == ["n1"]
    assert first.reserve() is None
    assert first.pre_flight() is None
    second = Attempt(rig, make_pod("p2").pvc("two").obj())
    assert second.fits() == []
    # A late event with the version that the decision was made on changes nothing, one from before neither.
    for version in ("100", "99"):
        show(rig, local("pv").resource_version(version).obj())
        assert Attempt(rig, second.pod).fits() == []
    # Another profile sees it as well.
    assert Attempt(rig, second.pod, plugin=rig.plugin("VolumeBinding")).fits() == []
    first.unreserve()
    assert Attempt(rig, second.pod).fits() == ["n1"]


def test_what_the_watch_shows_later_counts(port: Port) -> None:
    rig = rig_of(port, local("pv"), claim("one"), claim("two"))
    first, second = Attempt(rig, make_pod("p1").pvc("one").obj()), make_pod("p2").pvc("two").obj()
    first.reserve()
    show(rig, local("pv").resource_version("101").obj())
    assert Attempt(rig, second).fits() == ["n1"]
    show(rig, local("pv").claimed_by("one").resource_version("102").obj())
    first.unreserve()
    assert Attempt(rig, second).fits() == []


def test_a_claim_stays_with_the_node_it_was_selected_for(port: Port) -> None:
    rig = rig_of(port, claim("shared", "fast"))
    first = Attempt(rig, make_pod("p1").pvc("shared").obj())
    assert first.fits() == ["n1", "n2"]
    first.reserve()
    assert Attempt(rig, make_pod("p2").pvc("shared").obj()).fits() == ["n1"]
    first.unreserve()
    assert Attempt(rig, make_pod("p2").pvc("shared").obj()).fits() == ["n1", "n2"]


def test_nothing_to_do_for_pods_whose_claims_are_bound(port: Port) -> None:
    rig = rig_of(port, local("pv").claimed_by("data"), claim().bound_to("pv"))
    for pod in (make_pod().pvc("data").obj(), make_pod().obj()):
        attempt = Attempt(rig, pod)
        assert attempt.reserve() is None
        assert attempt.pre_flight() == Status.skip()
        attempt.unreserve()
    assert port.calls == []


def test_the_volume_as_it_is_to_be() -> None:
    free, asked = local("pv").obj(), claim().obj()
    taken = bound_to(free, asked)
    assert taken.spec.claim_ref is not None
    reference = taken.spec.claim_ref
    assert (reference.kind, reference.api_version, reference.namespace, reference.name) == (
        CLAIM,
        "v1",
        "default",
        "data",
    )
    assert (reference.uid, reference.resource_version) == (asked.metadata.uid, "50")
    assert taken.metadata.annotations == {BY_CONTROLLER: "yes"}
    assert bound_to(taken, asked) is taken
    assert free.spec.claim_ref is None
    set_aside = bound_to(local("pv").claimed_by("data", uid="").obj(), asked)
    assert set_aside.spec.claim_ref is not None
    assert set_aside.spec.claim_ref.uid == asked.metadata.uid
    assert set_aside.metadata.annotations == {}


def test_the_claim_as_it_is_to_be() -> None:
    selected = selected_for(claim().annotation("a", "b").obj(), "n1")
    assert selected.metadata.annotations == {"a": "b", SELECTED: "n1"}
    assert selected_for(selected, "n1") is selected


# -- binding


async def test_binding_writes_then_waits_for_the_controller(port: Port) -> None:
    rig = rig_of(port, local("pv"), claim())
    attempt = Attempt(rig, make_pod().pvc("data").obj())
    attempt.reserve()
    binding = attempt.bind()
    await turn()
    assert port.calls == ["volume pv to data"]
    show(rig, port.stored["pv"])
    await turn()
    assert not binding.done()
    # The moment the claim is bound, no second has to pass.
    show(rig, claim().obj(), lambda obj: completed(obj, "pv"))
    assert await asyncio.wait_for(binding, 60) is None
    assert rig.handle.clock.monotonic() == 0
    assert Attempt(rig, attempt.pod).fits() == ["n1"]


async def test_a_bound_claim_counts_only_once_the_volume_is_seen_as_written(port: Port) -> None:
    rig = rig_of(port, local("pv"), claim())
    attempt = Attempt(rig, make_pod().pvc("data").obj())
    attempt.reserve()
    binding = attempt.bind()
    await turn()
    show(rig, claim().obj(), lambda obj: completed(obj, "pv"))
    await turn()
    assert not binding.done()
    show(rig, port.stored["pv"])
    assert await asyncio.wait_for(binding, 60) is None


async def test_provisioning_is_asked_for_and_waited_for(port: Port) -> None:
    rig = rig_of(port, claim("data", "fast"))
    attempt = Attempt(rig, make_pod().pvc("data").obj())
    attempt.reserve()
    binding = attempt.bind()
    await turn()
    assert port.calls == ["claim data to n1"]
    show(rig, port.stored["data"])
    show(rig, port.stored["data"], lambda obj: completed(obj, "made"))
    await turn()
    assert not binding.done(), "the new volume is not seen yet"
    show(rig, make_pv("made").storage_class("fast").node_affinity_in(HOSTNAME, ["n1"]).claimed_by("data").obj())
    assert await asyncio.wait_for(binding, 60) is None


async def test_nothing_happens_for_too_long(port: Port, caplog: pytest.LogCaptureFixture) -> None:
    rig = rig_of(port, local("pv"), claim())
    attempt = Attempt(rig, make_pod("p").pvc("data").obj())
    attempt.reserve()
    caplog.set_level(logging.INFO, "kubesched.plugins")
    binding = attempt.bind()
    clock: Any = rig.handle.clock
    await clock.run(TIMEOUT_S - 1)
    assert "waiting for volumes to be bound pod=default/p node=n1 bind=data:pv provision=-" in caplog.text
    assert not binding.done()
    await clock.run(1)
    with pytest.raises(KubeschedError, match=r"^binding volumes: context deadline exceeded$"):
        await asyncio.wait_for(binding, 60)
    assert "volumes were not bound in time pod=default/p node=n1 waited_s=600 claims=data" in caplog.text
    attempt.unreserve()
    assert [volume.metadata.name for volume in rig.state.volumes.free_volumes("local")] == ["pv"]


REFUSED = ApiError(409, "Conflict", 'Operation cannot be fulfilled on persistentvolumes "pv-2": modified', {})


async def test_a_refused_write_ends_the_attempt(port: Port) -> None:
    rig = rig_of(port, local("pv-1"), local("pv-2"), claim("a"), claim("b"), claim("c", "fast"))
    attempt = Attempt(rig, make_pod().pvc("a").pvc("b").pvc("c").obj())
    attempt.reserve()
    port.refuses["pv-2"] = REFUSED
    with pytest.raises(ApiError, match="Operation cannot be fulfilled"):
        await asyncio.wait_for(attempt.bind(), 60)
    assert port.calls == ["volume pv-1 to a", "volume pv-2 to b"]
    attempt.unreserve()
    assert {volume.metadata.name for volume in rig.state.volumes.free_volumes("local")} == {"pv-1", "pv-2"}


def without_annotations(obj: Any) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations={}))


def selected_elsewhere(obj: Any) -> Any:
    annotations = {"x": "y"}
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, annotations=annotations))


def without_reference(obj: Any) -> Any:
    return msgspec.structs.replace(obj, spec=msgspec.structs.replace(obj.spec, claim_ref=None))


def elsewhere(obj: Any) -> Any:
    return msgspec.structs.replace(
        obj, spec=msgspec.structs.replace(obj.spec, node_affinity=local("x", "n2").obj().spec.node_affinity)
    )


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            lambda rig, port: rig.state.remove_node("n1"),
            'failed to get node "n1": node "n1" not found',
            id="node-gone",
        ),
        pytest.param(
            lambda rig, port: rig.state.objects.remove(VOLUME, ("", "pv")),
            'failed to check binding: could not find v1.PersistentVolume "pv": not found',
            id="volume-gone",
        ),
        pytest.param(
            lambda rig, port: rig.state.objects.remove(CLAIM, ("default", "data")),
            'failed to check binding: could not find v1.PersistentVolumeClaim "default/data": not found',
            id="claim-gone",
        ),
        pytest.param(
            lambda rig, port: show(rig, port.stored["pv"], without_reference),
            'ClaimRef got reset for pv "pv"',
            id="reference-reset",
        ),
        pytest.param(
            lambda rig, port: show(rig, port.stored["pv"], elsewhere),
            'pv "pv" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
            id="volume-out-of-reach",
        ),
        pytest.param(
            lambda rig, port: show(rig, port.stored["made"], selected_elsewhere),
            'provisioning failed for PVC "made"',
            id="provisioner-gave-up",
        ),
        pytest.param(
            lambda rig, port: show(rig, port.stored["made"], without_annotations),
            'selectedNode annotation reset for PVC "made"',
            id="annotations-gone",
        ),
        pytest.param(
            lambda rig, port: rig.state.objects.remove(CLAIM, ("default", "made")),
            'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "default/made": not found',
            id="claim-to-provision-gone",
        ),
    ],
)
async def test_what_ends_the_waiting(port: Port, change: Callable[[Rig, Port], None], text: str) -> None:
    rig = rig_of(port, local("pv"), claim(), claim("made", "fast"))
    attempt = Attempt(rig, make_pod().pvc("data").pvc("made").obj())
    attempt.reserve()
    binding = attempt.bind()
    await turn()
    show(rig, claim().obj(), lambda obj: completed(obj, "pv"))
    show(rig, port.stored["pv"])
    show(rig, port.stored["made"])
    await turn()
    assert not binding.done()
    change(rig, port)
    clock: Any = rig.handle.clock
    await clock.run(1)  # nodes are looked at every second, the others when they change
    with pytest.raises(KubeschedError) as failed:
        await asyncio.wait_for(binding, 60)
    assert str(failed.value) == f"binding volumes: {text}"


async def test_whoever_stops_waiting_leaves_no_trace(port: Port) -> None:
    rig = rig_of(port, local("pv"), claim())
    attempt = Attempt(rig, make_pod().pvc("data").obj())
    attempt.reserve()
    listeners = {kind: list(those) for kind, those in rig.state.objects._listeners.items()}
    binding = attempt.bind()
    await turn()
    binding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await binding
    assert rig.state.objects._listeners == listeners
    assert rig.handle.clock.next_due() is None  # type: ignore[attr-defined]


async def test_after_the_provisioner_gave_up_another_node_is_tried(port: Port) -> None:
    """The selected node goes while its volume is made; the provisioner takes the selection back."""
    rig = rig_of(port, claim("data", "fast"))
    attempt = Attempt(rig, make_pod().pvc("data").obj())
    attempt.reserve()
    binding = attempt.bind()
    await turn()
    show(rig, port.stored["data"])
    rig.state.remove_node("n1")
    show(rig, port.stored["data"], lambda obj: claim("data", "fast").resource_version("901").obj())
    with pytest.raises(KubeschedError, match="binding volumes"):
        await asyncio.wait_for(binding, 60)
    attempt.unreserve()
    assert Attempt(rig, attempt.pod).fits() == ["n2"]
