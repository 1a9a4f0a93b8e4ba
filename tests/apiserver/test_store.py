"""The versioned store: order, versions, history, snapshots, the index by node."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.apiserver.resources import core
from kubesched.apiserver.store import ADDED, DELETED, MODIFIED, Change, Gone, Store

PODS, NODES = core("pods"), core("nodes")


def _pod(name: str, namespace: str = "default", node: str = "", **labels: str) -> dict[str, Any]:
    spec = {"nodeName": node} if node else {}
    metadata = {"name": name, "namespace": namespace, "uid": name, "labels": labels}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {}}


def _node(name: str) -> dict[str, Any]:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}}


def test_one_counter_for_all_kinds() -> None:
    store = Store()
    assert [store.create(PODS, _pod("a")).revision, store.create(NODES, _node("n")).revision] == [1, 2]
    assert store.create(PODS, _pod("b")).document()["metadata"]["resourceVersion"] == "3"
    assert store.revision == 3


def test_keys_are_in_byte_order_of_namespace_and_name() -> None:
    store = Store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "a"), ("a", "b")):
        store.create(PODS, _pod(name, namespace))
    assert [s.key for s in store.of(PODS).scan()] == ["a-b/a", "a/b", "a/z", "b/x"]
    assert [s.key for s in store.of(PODS).scan("a")] == ["a/b", "a/z"]
    assert [s.key for s in store.of(PODS).scan("a", "a/c")] == ["a/z"]


def test_what_was_at_a_version_is_seen_through_later_changes() -> None:
    store = Store()
    first, second = store.create(PODS, _pod("a")), store.create(PODS, _pod("b"))
    at = store.revision
    store.update(PODS, first, _pod("a", x="1"))
    store.delete(PODS, second)
    store.create(PODS, _pod("c"))
    then = list(store.of(PODS).scan("default", at=at))
    assert [(s.name, s.revision) for s in then] == [("a", 1), ("b", 2)]
    assert [s.name for s in store.of(PODS).scan("default")] == ["a", "c"]


@pytest.mark.parametrize("start", ["", "a/", "a/p3", "b/"])
@pytest.mark.parametrize("namespace", ["", "a", "none"])
@pytest.mark.parametrize("limit", [0, 1, 3, 100])
@pytest.mark.parametrize("back", [None, 0, 4])
def test_a_page_is_the_head_of_the_scan(start: str, namespace: str, limit: int, back: int | None) -> None:
    store = Store()
    for number in range(6):
        store.create(PODS, _pod(f"p{number}", "ab"[number % 2]))
    collection = store.of(PODS)
    store.delete(PODS, collection.items["a/p2"])
    at = None if back is None else store.revision - back
    whole = list(collection.scan(namespace, start, at))
    page, left = collection.page(namespace, start, limit, at)
    assert page == (whole[:limit] if limit else whole)
    assert left == len(whole) - len(page)


def test_history_is_bounded_and_says_so() -> None:
    store = Store(history_limit=10)
    for number in range(25):
        store.create(PODS, _pod(f"p{number}"))
    collection = store.of(PODS)
    assert len(collection.changes_after(store.revision - 10)) == 10
    with pytest.raises(Gone) as gone:
        collection.changes_after(1)
    assert gone.value.oldest == collection.compacted > 1


def test_compaction_forgets_all_kinds() -> None:
    store = Store()
    store.create(PODS, _pod("a"))
    store.create(NODES, _node("n"))
    store.compact()
    for resource in (PODS, NODES):
        assert store.of(resource).changes_after(store.revision) == []
        with pytest.raises(Gone):
            store.of(resource).changes_after(store.revision - 1)


def test_watchers_are_told_in_order_with_the_version_before() -> None:
    store, seen = Store(), []

    class Watcher:
        def offer(self, change: Change) -> None:
            before = change.previous.revision if change.previous else None
            seen.append((change.type, change.revision, before))

    store.of(PODS).add_watcher(Watcher())
    created = store.create(PODS, _pod("a"))
    changed = store.update(PODS, created, _pod("a", x="1"))
    store.delete(PODS, changed)
    assert seen == [(ADDED, 1, None), (MODIFIED, 2, 1), (DELETED, 3, 2)]


def test_pods_are_indexed_by_their_node() -> None:
    store = Store()
    one = store.create(PODS, _pod("a"))
    two = store.create(PODS, _pod("b", node="n1"))
    bound = store.update(PODS, one, _pod("a", node="n1"))
    collection = store.of(PODS)
    assert [s.name for s in collection.on_node("n1")] == ["a", "b"]
    store.delete(PODS, bound)
    store.delete(PODS, two)
    assert collection.on_node("n1") == []


def test_documents_are_never_shared() -> None:
    store = Store()
    stored = store.create(PODS, _pod("a"))
    stored.document()["metadata"]["name"] = "changed"
    assert stored.document()["metadata"]["name"] == "a"
