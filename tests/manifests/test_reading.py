from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.manifests import Document, ManifestError, Source, read
from tests.build import make_namespace, make_node, make_pod

POD_TEXT = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"


def names(documents: list[Document]) -> list[str]:
    return [str(document) for document in documents]


def test_texts_dicts_and_collections_of_them():
    pod, node = make_pod("a").dict(), make_node("n1").dict()
    assert names(read(POD_TEXT)) == ["Pod default/web"]
    assert names(read(json.dumps(pod))) == ["Pod default/a"]
    assert names(read(pod)) == ["Pod default/a"]
    assert names(read([pod, POD_TEXT, [node]])) == ["Pod default/a", "Pod default/web", "Node n1"]
    assert read([]) == []


def test_dicts_are_taken_as_they_are():
    pod = make_pod("a").dict()
    assert read(pod)[0].manifest == pod


def test_folders_are_read_to_the_bottom_in_the_order_of_their_paths(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.yml").write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
    (tmp_path / "c.json").write_text(json.dumps(make_pod("c").dict()))
    (tmp_path / "a.yaml").write_text(POD_TEXT + "---\n" + POD_TEXT.replace("web", "other"))
    (tmp_path / "README.md").write_text("not: a manifest")
    found = read(tmp_path)
    assert names(found) == ["Pod default/web", "Pod default/other", "Node n1", "Pod default/c"]
    assert found[1].source == Source(str(tmp_path / "a.yaml"), 2)
    assert names(read(str(tmp_path / "c.json"))) == ["Pod default/c"]


@pytest.mark.parametrize(
    ("manifest", "found"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "List", "items": [make_pod("a").dict(), make_node("n1").dict()]},
            ["Pod default/a", "Node n1"],
            id="List",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [{"metadata": {"name": "a"}, "spec": {}}]},
            ["Pod default/a"],
            id="list of a kind, items without kind",
        ),
        pytest.param(
            {
                "apiVersion": "v1",
                "kind": "List",
                "items": [{"apiVersion": "v1", "kind": "List", "items": [make_pod("a").dict()]}],
            },
            ["Pod default/a"],
            id="List in a List",
        ),
        pytest.param({"apiVersion": "v1", "kind": "List", "items": None}, [], id="empty List"),
        pytest.param(
            {"apiVersion": "example.com/v1", "kind": "ShoppingList", "metadata": {"name": "x"}},
            ["ShoppingList x"],
            id="a kind that is only called so",
        ),
    ],
)
def test_lists_are_taken_apart(manifest: dict[str, Any], found: list[str]):
    assert names(read(manifest)) == found


def test_items_know_their_place():
    pods = {"apiVersion": "v1", "kind": "List", "items": [make_pod("a").dict(), make_pod("b").dict()]}
    assert [str(document.source) for document in read("---\n" + json.dumps(pods) + "\n")] == [
        "text, document 1, item 1",
        "text, document 1, item 2",
    ]


@pytest.mark.parametrize(
    ("builder", "namespace"),
    [
        (make_pod("a").namespace("shop"), "shop"),
        (make_pod("a").namespace(""), "default"),
        (make_node("n1").namespace("shop"), ""),
        (make_namespace("shop"), ""),
    ],
)
def test_namespaces(builder: Any, namespace: str):
    assert read(builder.dict())[0].namespace == namespace


@pytest.mark.parametrize(
    ("source", "message"),
    [
        pytest.param("- a\n- b\n", "text, document 1: not an object: a mapping is expected, this is a list", id="list"),
        pytest.param(
            "just words\n", "text, document 1: not an object: a mapping is expected, this is a string", id="text"
        ),
        pytest.param("apiVersion: v1\n", "text, document 1: kind: is missing", id="no kind"),
        pytest.param("kind: Pod\n\n", "text, document 1: apiVersion: is missing", id="no version"),
        pytest.param(
            "apiVersion: 1\nkind: Pod\n",
            "text, document 1: apiVersion: must be a string, not a number; quote it to make it one (value: 1)",
            id="version that is no text",
        ),
        pytest.param("apiVersion: v1\nkind: Pod\n", "text, document 1: Pod: metadata: is missing", id="no metadata"),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: web\n",
            "text, document 1: Pod: metadata: must be a mapping, not a string",
            id="metadata that is none",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {}\n",
            "text, document 1: Pod: metadata.name: is missing",
            id="no name",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n",
            "text, document 1: Node: metadata.name: must be a string, not a boolean; quote it to make it one",
            id="name that YAML takes for something else",
        ),
        pytest.param(
            {"apiVersion": "v1", "kind": "List", "items": "x"},
            "manifest: List: items: must be a list, not a string",
            id="items that are none",
        ),
        pytest.param(
            [make_pod("a").dict(), {"apiVersion": "v1", "kind": "List", "items": [5]}],
            "manifests, item 1: not an object: a mapping is expected, this is a number",
            id="item that is no object",
        ),
        pytest.param("no/such/file.yaml", "no/such/file.yaml: no such file or folder", id="no file"),
    ],
)
def test_what_is_no_object_is_named(source: Any, message: str):
    with pytest.raises(ManifestError) as failure:
        read(source)
    assert str(failure.value) == message


def test_files_that_are_no_text(tmp_path: Path):
    file = tmp_path / "x.yaml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match=r"x\.yaml: cannot be read: 'utf-8' codec"):
        read(file)
