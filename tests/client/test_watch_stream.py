from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import kinds
from kubesched.api.changes import Delete, Upsert
from kubesched.api.errors import ApiError, DecodeError
from kubesched.client.watch_stream import Bookmark, LineSplitter, Unreadable, WatchDecoder


@pytest.mark.parametrize(
    ("chunks", "lines", "pending"),
    [
        pytest.param([b"a\n"], [b"a"], 0, id="one line"),
        pytest.param([b"a\nb\nc\n"], [b"a", b"b", b"c"], 0, id="several in one chunk"),
        pytest.param([b"a", b"b", b"c\nd", b"\n"], [b"abc", b"d"], 0, id="one line in many chunks"),
        pytest.param([b"a\nhalf"], [b"a"], 4, id="a half line at the end is never given out"),
        pytest.param([b"a", b"\n", b"\n\r\n"], [b"a"], 0, id="empty lines"),
        pytest.param([b"a\n", b"", b"b\n"], [b"a", b"b"], 0, id="empty chunk"),
    ],
)
def test_lines(chunks, lines, pending):
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert splitter.pending_bytes == pending


@given(
    st.lists(st.binary(min_size=1, max_size=30).filter(lambda line: b"\n" not in line and line != b"\r")),
    st.lists(st.integers(0, 200)),
)
def test_lines_do_not_depend_on_how_the_bytes_are_cut(lines, cuts):
    whole = b"".join(line + b"\n" for line in lines)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut <= len(whole))})
    splitter = LineSplitter()
    got = [line for start, end in pairwise(places) for line in splitter.feed(whole[start:end])]
    assert got == lines
    assert splitter.pending_bytes == 0


def test_a_line_of_5_mib_in_small_chunks():
    line = json.dumps({"type": "ADDED", "object": pod("big", annotations={"blob": "x" * (5 << 20)})}).encode() + b"\n"
    splitter = LineSplitter()
    got = [each for start in range(0, len(line), 65536) for each in splitter.feed(line[start : start + 65536])]
    frame = WatchDecoder(kinds.POD).frame(got[0])
    assert isinstance(frame, Upsert)
    assert len(frame.obj.metadata.annotations["blob"]) == 5 << 20


def pod(name, version="7", **metadata):
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "ns", "resourceVersion": version, **metadata},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "newField": {"deep": [1]}}], "unheardOf": 1},
    }


def frame(event, kind=kinds.POD):
    return WatchDecoder(kind).frame(event if isinstance(event, bytes) else json.dumps(event).encode())


@pytest.mark.parametrize(
    ("event_type", "expected"), [("ADDED", Upsert), ("MODIFIED", Upsert), ("DELETED", Delete)], ids=str
)
def test_object_events(event_type, expected):
    got = frame({"type": event_type, "object": pod("a")})
    assert type(got) is expected
    assert got.kind is kinds.POD
    assert (got.obj.metadata.name, got.obj.spec.node_name) == ("a", "n1")


def test_the_type_may_come_after_the_object():
    got = frame(b'{"object":' + json.dumps(pod("a")).encode() + b',"type":"DELETED"}')
    assert isinstance(got, Delete)


def test_null_means_absent():
    document = pod("a", labels=None, annotations=None, ownerReferences=None)
    document["spec"]["tolerations"] = None
    got = frame({"type": "ADDED", "object": document})
    assert isinstance(got, Upsert)
    assert got.obj.metadata.labels == {}
    assert got.obj.spec.tolerations == ()


@pytest.mark.parametrize(
    ("annotations", "ends"),
    [
        pytest.param(
            {"annotations": {"k8s.io/initial-events-end": "true"}}, True, id="the one that ends the initial events"
        ),
        pytest.param({}, False, id="plain"),
        pytest.param({"annotations": None}, False, id="null annotations"),
        pytest.param({"annotations": {"other": "true"}}, False, id="another annotation"),
    ],
)
def test_bookmarks_with_the_broken_objects_that_servers_send(annotations, ends):
    # As recorded: `containers: null`, which no pod may have.
    document = {"kind": "Pod", "metadata": {"resourceVersion": "42", **annotations}, "spec": {"containers": None}}
    assert frame({"type": "BOOKMARK", "object": document}) == Bookmark("42", ends)


def test_an_error_event_is_the_error_it_holds():
    text = (
        b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"too old resource version: 1 (3)","reason":"Expired","code":410}}'
    )
    got = frame(text)
    assert isinstance(got, ApiError)
    assert (got.code, got.reason, str(got)) == (410, "Expired", "too old resource version: 1 (3)")


def test_an_unreadable_object_is_named_and_moves_the_version():
    document = pod("broken", version="99")
    document["spec"]["priority"] = "high"
    got = frame({"type": "MODIFIED", "object": document})
    assert isinstance(got, Unreadable)
    assert got.resource_version == "99"
    assert (got.error.namespace, got.error.name, got.error.path) == ("ns", "broken", "spec.priority")


def test_an_unreadable_object_can_still_be_deleted():
    document = pod("broken", version="99", uid="u1")
    document["spec"]["priority"] = "high"
    got = frame({"type": "DELETED", "object": document})
    assert isinstance(got, Delete)
    metadata = got.obj.metadata
    assert (metadata.namespace, metadata.name, metadata.uid, metadata.resource_version) == ("ns", "broken", "u1", "99")


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"upstream connect error", id="no JSON"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b'{"kind":"PodList","items":[]}', id="a list instead of a watch"),
        pytest.param(b'{"type":"RENAMED","object":{"metadata":{"name":"a"}}}', id="a type that does not exist"),
        pytest.param(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}', id="cut"),
        pytest.param(b'{"type":"ADDED","object":5}', id="an object without metadata"),
    ],
)
def test_what_is_no_watch_event_is_an_error(line):
    with pytest.raises(DecodeError):
        frame(line)
