"""What holds for every in-tree plugin."""

from __future__ import annotations

import inspect

import pytest

from kubesched.config.plugin_args import ARGS
from kubesched.framework.plugin import Plugin, Reads
from kubesched.plugins import registry
from tests.build import make_pod
from tests.plugins.rig import Rig

ALL = [pytest.param(name, id=name) for name in registry.IN_TREE]


@pytest.mark.parametrize("name", ALL)
def test_registered_under_its_own_name_with_its_own_args(name: str) -> None:
    plugin = registry.IN_TREE[name]
    assert plugin.name == name
    assert plugin.args_type is ARGS.get(name)


@pytest.mark.parametrize("name", ALL)
def test_is_vectorised(name: str) -> None:
    plugin = registry.IN_TREE[name]
    assert not hasattr(plugin, "filter")
    assert not hasattr(plugin, "score")
    assert hasattr(plugin, "score_scale") == hasattr(plugin, "normalize_rows")


@pytest.mark.parametrize("name", ALL)
def test_hints_take_the_pod_and_the_object_before_and_after(name: str) -> None:
    hints = [event.hint for event in Rig().plugin(name).events_to_register() or ()]
    assert all(hint is None or len(inspect.signature(hint).parameters) == 3 for hint in hints)


PODS = {
    "plain": make_pod(),
    "requests": make_pod().requests(cpu=1, memory="1Gi"),
    "init-requests": make_pod().init_container(requests={"cpu": 1}),
    "sidecar-requests": make_pod().sidecar(requests={"cpu": 1}),
    "overhead": make_pod().overhead(cpu=1),
    "pod-level": make_pod().pod_requests(cpu=1),
    "selector": make_pod().node_selector({"a": "b"}),
    "required": make_pod().node_affinity_in("a", ["b"]),
    "preferred": make_pod().preferred_node_affinity(1, ("a", "Exists", [])),
    "toleration": make_pod().toleration("a", operator="Exists"),
    "port": make_pod().host_port(80),
    "image": make_pod().image("b:2"),
    "image-volume": make_pod().image_volume("b:2"),
    "node-name": make_pod().node("n1"),
}

READ_BY = {
    "NodeName": {"node-name"},
    "NodeUnschedulable": {"toleration"},
    "TaintToleration": {"toleration"},
    "NodeAffinity": {"selector", "required", "preferred"},
    "NodePorts": {"port"},
    "NodeResourcesFit": {"requests", "init-requests", "sidecar-requests", "overhead", "pod-level"},
    "NodeResourcesBalancedAllocation": {"requests", "init-requests", "sidecar-requests", "overhead", "pod-level"},
    "ImageLocality": {"image", "image-volume", "init-requests", "sidecar-requests"},
}


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in READ_BY])
def test_says_what_its_answers_depend_on(name: str) -> None:
    plugin = registry.IN_TREE[name]
    assert isinstance(plugin.filter_reads, Reads) == hasattr(plugin, "filter_rows")
    assert isinstance(plugin.score_reads, Reads) == hasattr(plugin, "score_rows")


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in READ_BY])
def test_signs_what_it_reads_and_nothing_else(name: str) -> None:
    plugin: Plugin = Rig().plugin(name)
    signs = {label: plugin.sign(pod.obj()) for label, pod in PODS.items()}
    plain = plugin.sign(make_pod("another").label("app", "x").priority(7).obj())
    assert {label for label, sign in signs.items() if sign != plain} == READ_BY[name]
    assert len(set(signs.values())) > 1
