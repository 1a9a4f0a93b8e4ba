"""The builders promise that both views agree and that nothing leaks between copies."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import codec
from tests import build

KINDS: list[Any] = [
    build.make_pod("x"),
    build.make_node("x"),
    build.make_namespace("x"),
    build.make_pvc("x"),
    build.make_pv("x"),
    build.make_storage_class("x"),
    build.make_csi_node("x"),
    build.make_pdb("x"),
    build.make_service("x"),
    build.make_replica_set("x"),
    build.make_stateful_set("x"),
    build.make_deployment("x"),
    build.make_daemon_set("x"),
    build.make_job("x"),
    build.make_replication_controller("x"),
    build.make_priority_class("x", 1),
    build.make_lease("x"),
    build.make_resource_claim("x"),
]


@pytest.mark.parametrize("builder", KINDS, ids=lambda builder: type(builder).__name__)
def test_both_views_agree(builder: Any):
    assert builder.obj() == codec.decode(builder._kind, builder.json())
    assert builder.dict()["kind"] == builder._kind.kind
    assert builder.obj().uid == builder.dict()["metadata"]["uid"]


def test_copies_are_independent():
    first = build.make_pod("a").label("x", "1").cpu("1")
    second = first.copy().label("x", "2").cpu("2")
    assert first.obj().metadata.labels == {"x": "1"}
    assert second.obj().metadata.labels == {"x": "2"}
    assert first.obj().spec.containers[0].resources.requests == {"cpu": "1"}


def test_manifests_are_independent_of_the_builder():
    builder = build.make_pod("a").label("x", "1")
    builder.dict()["metadata"]["labels"]["x"] = "changed"
    assert builder.obj().metadata.labels == {"x": "1"}


def test_container_calls_go_to_the_container_named_last():
    pod = build.make_pod().cpu("1").container("b").cpu("2").sidecar("s").cpu("3").obj()
    assert [container.resources.requests for container in pod.spec.containers] == [{"cpu": "1"}, {"cpu": "2"}]
    assert [container.resources.requests for container in pod.spec.init_containers] == [{"cpu": "3"}]
    assert pod.spec.init_containers[0].is_sidecar
