from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched.api import codec, kinds
from kubesched.api.core import Pod
from kubesched.api.errors import DecodeError
from kubesched.api.kinds import Kind
from kubesched.api.meta import PartialObject, Status
from tests.build import make_node, make_pod

POD = make_pod("web").label("app", "web").cpu("500m")


def as_json(document: Any) -> bytes:
    return json.dumps(document).encode()


def test_json_and_dict_give_the_same_object():
    assert codec.decode(kinds.POD, POD.json()) == codec.from_dict(kinds.POD, POD.dict()) == POD.obj()


def test_text_is_as_good_as_bytes():
    assert codec.decode(kinds.POD, POD.json().decode()) == POD.obj()


def test_unknown_fields_are_dropped_and_known_ones_read():
    document = POD.dict()
    document["spec"]["futureField"] = {"a": [1, 2]}
    document["metadata"]["managedFields"] = [{"manager": "x"}]
    assert codec.decode(kinds.POD, as_json(document)) == POD.obj()


@pytest.mark.parametrize(
    ("place", "field"),
    [
        pytest.param(("metadata",), "labels", id="map"),
        pytest.param(("spec",), "containers", id="list"),
        pytest.param(("spec",), "schedulerName", id="string"),
        pytest.param(("spec",), "hostNetwork", id="boolean"),
        pytest.param(("status",), "observedGeneration", id="number"),
        pytest.param((), "status", id="struct"),
    ],
)
@pytest.mark.parametrize("way", ["json", "dict"])
def test_null_means_absent(place: tuple[str, ...], field: str, way: str):
    with_null, without = POD.dict(), POD.dict()
    for document, change in (
        (with_null, lambda part: part.update({field: None})),
        (without, lambda part: part.pop(field, 0)),
    ):
        part = document
        for step in place:
            part = part[step]
        change(part)
    expected = codec.from_dict(kinds.POD, without)
    if way == "json":
        assert codec.decode(kinds.POD, as_json(with_null)) == expected
    else:
        assert codec.from_dict(kinds.POD, with_null) == expected


@pytest.mark.parametrize(
    ("document", "message"),
    [
        pytest.param(
            POD.dict() | {"spec": {"priority": "high"}},
            "cannot decode Pod default/web: spec.priority: Expected `int | null`, got `str`",
            id="wrong type",
        ),
        pytest.param(
            POD.dict() | {"spec": {"containers": [{"name": "a"}, {"name": 5}]}},
            "cannot decode Pod default/web: spec.containers[1].name: Expected `str`, got `int`",
            id="place in a list",
        ),
        pytest.param(
            POD.dict() | {"spec": {"containers": [{"resources": {"requests": {"cpu": True}}}]}},
            "cannot decode Pod default/web: spec.containers[0].resources.requests[...]: "
            "Expected `int | float | str`, got `bool`",
            id="quantity that is none",
        ),
        pytest.param([], "cannot decode Pod: Expected `object`, got `array`", id="no object"),
        pytest.param(
            {"metadata": {"name": "n", "labels": None}, "spec": 5},
            "cannot decode Pod n: spec: Expected `object`, got `int`",
            id="a null elsewhere does not hide the error",
        ),
        pytest.param({"metadata": "x"}, "cannot decode Pod: metadata: Expected `object`, got `str`", id="no metadata"),
    ],
)
def test_errors_name_kind_object_and_field(document: Any, message: str):
    with pytest.raises(DecodeError) as from_json:
        codec.decode(kinds.POD, as_json(document))
    with pytest.raises(DecodeError) as from_dict:
        codec.from_dict(kinds.POD, document)
    assert str(from_json.value) == str(from_dict.value) == message


def test_the_parts_of_an_error():
    with pytest.raises(DecodeError) as failure:
        codec.decode(kinds.POD, as_json(POD.dict() | {"spec": {"priority": "high"}}))
    error = failure.value
    assert (error.kind, error.namespace, error.name, error.path) == ("Pod", "default", "web", "spec.priority")
    assert error.problem == "Expected `int | null`, got `str`"


@pytest.mark.parametrize("data", [b"", b"{", b'{"metadata":}', b"\xff"])
def test_broken_json_is_a_decode_error(data: bytes):
    with pytest.raises(DecodeError, match="cannot decode Pod"):
        codec.decode(kinds.POD, data)
    with pytest.raises(DecodeError, match="cannot decode PodList"):
        codec.decode_list(kinds.POD, data)
    with pytest.raises(DecodeError, match="cannot decode Pod"):
        codec.decode_watch_event(kinds.POD, data)


class TestLists:
    def test_a_page(self):
        meta = {"resourceVersion": "7", "continue": "token", "remainingItemCount": 3}
        page = codec.decode_list(kinds.POD, as_json({"kind": "PodList", "metadata": meta, "items": [POD.dict()]}))
        assert page == codec.Page((POD.obj(),), "7", "token", 3)

    @pytest.mark.parametrize(
        "listing", [{"metadata": {"resourceVersion": "7"}, "items": None}, {"metadata": {"resourceVersion": "7"}}]
    )
    def test_an_empty_list_may_have_no_items_at_all(self, listing: dict[str, Any]):
        assert codec.decode_list(kinds.POD, as_json(listing)) == codec.Page((), "7", "", None)

    def test_one_bad_item_does_not_spoil_the_rest(self):
        bad = make_pod("bad").dict()
        bad["spec"]["priority"] = "high"
        items = [POD.dict(), bad, make_pod("other").dict()]
        page = codec.decode_list(kinds.POD, as_json({"metadata": {"resourceVersion": "7"}, "items": items}))
        assert [pod.name for pod in page.items] == ["web", "other"]
        assert [(error.name, error.path) for error in page.errors] == [("bad", "spec.priority")]
        assert page.resource_version == "7"

    def test_what_is_no_list(self):
        with pytest.raises(DecodeError, match="cannot decode PodList"):
            codec.decode_list(kinds.POD, b'{"items": 5}')


class TestWatchEvents:
    @pytest.mark.parametrize("type", ["ADDED", "MODIFIED", "DELETED"])
    def test_changes(self, type: str):
        event = codec.decode_watch_event(kinds.POD, as_json({"type": type, "object": POD.dict()}))
        assert event == codec.WatchEvent(type, POD.obj())

    def test_the_order_of_keys_does_not_matter(self):
        event = codec.decode_watch_event(kinds.POD, as_json({"object": POD.dict(), "type": "ADDED"}))
        assert event == codec.WatchEvent("ADDED", POD.obj())

    def test_nulls_in_the_object(self):
        document = POD.dict()
        document["spec"]["tolerations"] = None
        event = codec.decode_watch_event(kinds.POD, as_json({"type": "ADDED", "object": document}))
        assert event.object == POD.obj()

    @pytest.mark.parametrize("spec", [{"containers": None}, {}], ids=["as pods have it", "as nodes have it"])
    def test_bookmarks_are_just_metadata(self, spec: dict[str, Any]):
        metadata = {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": "true"}}
        document = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec}
        event = codec.decode_watch_event(kinds.POD, as_json({"type": "BOOKMARK", "object": document}))
        assert event.type == "BOOKMARK"
        assert isinstance(event.object, PartialObject)
        assert event.object.metadata.resource_version == "9"
        assert event.object.metadata.annotations == {"k8s.io/initial-events-end": "true"}

    def test_errors_are_a_status(self):
        status = {"kind": "Status", "status": "Failure", "message": "too old resource version: 1 (5)", "code": 410}
        for kind in (kinds.POD, kinds.PRIORITY_CLASS):
            event = codec.decode_watch_event(kind, as_json({"type": "ERROR", "object": status}))
            assert isinstance(event.object, Status)
            assert (event.object.code, event.object.message) == (410, "too old resource version: 1 (5)")

    def test_a_bad_object_names_itself(self):
        bad = POD.dict()
        bad["spec"]["priority"] = "high"
        with pytest.raises(DecodeError, match=r"cannot decode Pod default/web: spec\.priority"):
            codec.decode_watch_event(kinds.POD, as_json({"type": "ADDED", "object": bad}))


ODD_SPELLINGS = [
    pytest.param(kinds.POD, {"spec": {"hostPID": True}}, ("spec", "host_pid"), True, id="hostPID"),
    pytest.param(kinds.POD, {"spec": {"hostIPC": True}}, ("spec", "host_ipc"), True, id="hostIPC"),
    pytest.param(kinds.POD, {"status": {"hostIP": "x"}}, ("status", "host_ip"), "x", id="hostIP"),
    pytest.param(kinds.POD, {"status": {"podIP": "x"}}, ("status", "pod_ip"), "x", id="podIP"),
    pytest.param(kinds.NODE, {"spec": {"podCIDR": "x"}}, ("spec", "pod_cidr"), "x", id="podCIDR"),
    pytest.param(kinds.NODE, {"spec": {"podCIDRs": ["x"]}}, ("spec", "pod_cidrs"), ("x",), id="podCIDRs"),
    pytest.param(kinds.NODE, {"spec": {"providerID": "x"}}, ("spec", "provider_id"), "x", id="providerID"),
    pytest.param(kinds.SERVICE, {"spec": {"clusterIP": "x"}}, ("spec", "cluster_ip"), "x", id="clusterIP"),
    pytest.param(
        kinds.PERSISTENT_VOLUME,
        {"spec": {"csi": {"volumeHandle": "x"}}},
        ("spec", "csi", "volume_handle"),
        "x",
        id="csi",
    ),
    pytest.param(
        kinds.PERSISTENT_VOLUME,
        {"spec": {"awsElasticBlockStore": {"volumeID": "x"}}},
        ("spec", "aws_elastic_block_store", "volume_id"),
        "x",
        id="volumeID",
    ),
    pytest.param(
        kinds.PERSISTENT_VOLUME,
        {"spec": {"azureDisk": {"diskURI": "x"}}},
        ("spec", "azure_disk", "disk_uri"),
        "x",
        id="diskURI",
    ),
]


@pytest.mark.parametrize(("kind", "document", "path", "value"), ODD_SPELLINGS)
def test_fields_with_capitals_of_their_own(kind: Kind, document: dict[str, Any], path: tuple[str, ...], value: object):
    found: Any = codec.from_dict(kind, document)
    for step in path:
        found = getattr(found, step)
    assert found == value


def test_structs_cannot_be_changed():
    pod = POD.obj()
    with pytest.raises(AttributeError):
        pod.metadata = make_pod("other").obj().metadata  # type: ignore[misc]


def test_what_objects_know_of_themselves():
    pod: Pod = make_pod("web").namespace("shop").uid("u1").phase("Failed").deleting().obj()
    assert (pod.key, pod.name, pod.namespace, pod.uid) == ("shop/web", "web", "shop", "u1")
    assert pod.is_terminal
    assert pod.is_terminating
    assert make_node("n1").obj().key == "n1"
    fresh = POD.obj()
    assert not fresh.is_terminal
    assert not fresh.is_terminating


def test_conditions_and_controllers_are_found():
    pod = make_pod().condition("PodScheduled", "False", reason="Unschedulable").owner("ReplicaSet", "web-1").obj()
    condition = pod.condition("PodScheduled")
    assert condition is not None
    assert condition.reason == "Unschedulable"
    assert pod.condition("Ready") is None
    assert pod.metadata.controller is not None
    assert pod.metadata.controller.name == "web-1"
    assert make_pod().owner("Job", "j", controller=False).obj().metadata.controller is None
