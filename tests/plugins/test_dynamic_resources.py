"""DynamicResources: pods with resource claims wait, all others pass."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from kubesched.api import kinds
from kubesched.framework.cycle_state import CycleState
from kubesched.framework.results import Diagnosis
from kubesched.framework.status import Code, Status
from kubesched.state.pod_info import PodInfo
from tests.build import Builder, PodBuilder, make_node, make_pod, make_resource_claim
from tests.plugins.rig import QUEUE, SKIP, Rig, hints

HELD = "allocating resource claims is not supported yet"
NO_DEVICES = "UnschedulableAndUnresolvable: cannot allocate all claims"
GPU = "example.com/gpu"


def generated(claim: str | None) -> PodBuilder:
    pod = make_pod().resource_claim("gpu", template="gpus")
    pod._list("status", "resourceClaimStatuses").append(
        {"name": "gpu"} | ({"resourceClaimName": claim} if claim else {})
    )
    return pod


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(make_pod(), None, id="no-claims"),
        pytest.param(make_pod().resource_claim("gpu", claim="gpus"), HELD, id="claim"),
        pytest.param(
            make_pod().resource_claim("gpu", claim="gone"), 'could not find ResourceClaim "default/gone"', id="missing"
        ),
        pytest.param(
            make_pod().resource_claim("gpu", claim="going"), 'resourceclaim "going" is being deleted', id="going"
        ),
        pytest.param(
            make_pod().resource_claim("gpu", template="gpus"),
            'resource claim "gpu" of the pod was not created yet',
            id="not-generated",
        ),
        pytest.param(generated("gpus"), HELD, id="generated"),
        pytest.param(generated(None), None, id="none-is-needed"),
    ],
)
def test_pods_with_claims_are_held_back(pod: PodBuilder, reason: str | None, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kubesched.plugins")
    rig = Rig([make_node()], (), [make_resource_claim("gpus"), make_resource_claim("going").deleting()])
    plugin = rig.plugin("DynamicResources")
    status = plugin.pre_enqueue(pod.obj())
    assert status == (None if reason is None else Status.unresolvable(reason))
    assert (f"pod with resource claims is held back pod=default/pod reason={reason}" in caplog.text) is bool(reason)
    # Who comes past the queue all the same does not come past PreFilter.
    expected = Status.skip() if reason is None else Status.unresolvable(HELD)
    assert rig.pre_filter(plugin, pod) == expected


def device_class(resource: str | None) -> Builder[Any]:
    return Builder(kinds.DEVICE_CLASS, "gpus", spec={"extendedResourceName": resource} if resource else {})


@pytest.mark.parametrize(
    ("wanted", "on", "expected"),
    [
        pytest.param({GPU: 1}, True, [None, NO_DEVICES], id="by-name"),
        pytest.param({"deviceclass.resource.kubernetes.io/gpus": 1}, True, [NO_DEVICES, NO_DEVICES], id="by-class"),
        pytest.param({GPU: 0}, True, [None, None], id="none"),
        pytest.param({"example.com/other": 1}, True, [None, None], id="another-resource"),
        pytest.param({GPU: 1}, False, [None, None], id="gate-off"),
    ],
)
def test_devices_are_not_allocated_by_the_back_door(wanted: dict[str, int], on: bool, expected: list[Any]) -> None:
    nodes = [make_node("n1").capacity(cpu=4, **{GPU: 2}), make_node("n2").capacity(cpu=4)]
    rig = Rig(nodes, (), [device_class(GPU)], features={"DRAExtendedResource": on})
    pod = make_pod().requests(**wanted).limits(**wanted)
    assert list(rig.filter(rig.plugin("DynamicResources"), pod).values()) == expected


def test_details_name_the_resource() -> None:
    rig = Rig([make_node("n1")], (), [device_class(GPU)], features={"DRAExtendedResource": True})
    pod = make_pod().requests(**{GPU: 1}).obj()
    details = rig.plugin("DynamicResources").details(CycleState(PodInfo(pod)), pod, rig.info("n1"))
    assert details == {"resources": [GPU]}


def test_post_filter_fails_when_pre_filter_never_came_to_this_plugin() -> None:
    rig = Rig([make_node()])
    plugin, pod = rig.plugin("DynamicResources"), make_pod().obj()
    state = CycleState(PodInfo(pod))
    state.pre_filter_not_reached = frozenset({"DynamicResources"})
    assert plugin.post_filter(state, pod, Diagnosis()) == Status.error("not found")
    assert plugin.post_filter_preview(state, pod, Diagnosis()).status.code is Code.ERROR
    state.pre_filter_not_reached = frozenset()
    said = Status.unschedulable("no new claims to deallocate")
    assert plugin.post_filter(state, pod, Diagnosis()) == said
    assert plugin.post_filter_preview(state, pod, Diagnosis()).status == said


def test_the_other_points_have_nothing_to_do() -> None:
    rig = Rig([make_node("n1"), make_node("n2")])
    plugin, pod = rig.plugin("DynamicResources"), make_pod().obj()
    state = CycleState(PodInfo(pod))
    assert plugin.score_rows(state, pod, rig.state.nodes.all_nodes()).tolist() == [0, 0]
    assert plugin.reserve(state, pod, "n1") is None
    assert plugin.pre_bind_pre_flight(state, pod, "n1") == Status.skip()
    assert plugin.pre_bind(state, pod, "n1") is None


def test_hints() -> None:
    nodes = [make_node("n1").capacity(cpu=4, **{GPU: 2}), make_node("n2")]
    rig = Rig(nodes, (), [device_class(GPU)], features={"DRAExtendedResource": True})
    plugin, pod = rig.plugin("DynamicResources"), make_pod().requests(**{GPU: 1})
    assert hints(plugin, "Node", pod, None, make_node("n1")) == {QUEUE}
    assert hints(plugin, "Node", pod, None, make_node("n2")) == {SKIP}
    assert hints(plugin, "Node", pod, None, make_node("gone")) == {SKIP}
    assert hints(plugin, "Node", make_pod().resource_claim("gpu", claim="gpus"), None, make_node("n1")) == {SKIP}
