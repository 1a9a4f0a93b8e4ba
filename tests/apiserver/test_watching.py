"""Watches over HTTP: beyond what the recordings show, slow clients, cuts and continuing."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.apiserver import Server
from kubesched.apiserver.resources import core
from kubesched.apiserver.selection import Selection
from kubesched.apiserver.watch import Watch
from tests.apiserver.conftest import Client, node, pod


async def test_binding_moves_a_pod_between_selectors(client: Client) -> None:
    await client.ok("POST", client.pods, pod("a"))
    unbound = client.watch(client.pods + "?watch=1&fieldSelector=spec.nodeName=")
    on_node = client.watch(client.pods + "?watch=1&fieldSelector=spec.nodeName=n1")
    async with unbound, on_node:
        assert await unbound.names(1) == [("ADDED", "a")]
        await client.bind("a", "n1")
        left, entered = await unbound.next(), await on_node.next()
    assert (left["type"], entered["type"]) == ("DELETED", "ADDED")
    assert "nodeName" not in left["object"]["spec"]
    versions = {event["object"]["metadata"]["resourceVersion"] for event in (left, entered)}
    assert len(versions) == 1


async def test_a_cut_watch_goes_on_where_it_was(client: Client, server: Server) -> None:
    await client.ok("POST", client.pods, pod("a"))
    async with client.watch(client.pods + "?watch=1") as events:
        last = (await events.next())["object"]["metadata"]["resourceVersion"]
        server.cut_watches()
        assert await events.ended()
    await client.ok("POST", client.pods, pod("b"))
    async with client.watch(f"{client.pods}?watch=1&resourceVersion={last}") as events:
        assert await events.names(1) == [("ADDED", "b")]


async def test_after_a_compaction_old_versions_are_gone(client: Client, server: Server) -> None:
    await client.ok("POST", client.pods, pod("a"))
    old = server.store.revision
    await client.ok("POST", client.pods, pod("b"))
    server.compact()
    async with client.watch(f"{client.pods}?watch=1&resourceVersion={old}") as events:
        event = await events.next()
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await events.ended()
    assert server.api.watches == set()


async def test_pages_show_one_moment(client: Client) -> None:
    for name in ("a", "b", "c", "d"):
        await client.ok("POST", client.pods, pod(name))
    first = await client.ok("GET", client.pods + "?limit=2")
    await client.ok("DELETE", f"{client.pods}/c")
    await client.ok("POST", client.pods, pod("bb"))
    token = first["metadata"]["continue"]
    second = await client.ok("GET", f"{client.pods}?limit=2&continue={token}")
    assert [p["metadata"]["name"] for p in first["items"] + second["items"]] == ["a", "b", "c", "d"]
    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]


async def test_a_slow_watch_is_dropped_and_holds_nobody_up(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    pods = server.store.of(core("pods"))
    slow = Watch(pods, Selection(), "v1", lambda stored: stored.body, backlog=2_000)
    quick = Watch(pods, Selection(), "v1", lambda stored: stored.body)
    slow.open(0)
    quick.open(0)
    server.load({"kind": "Pod", "apiVersion": "v1", **pod(f"p{n}")} for n in range(5))
    assert slow.closed and slow not in pods.watchers
    assert await slow.gathered() == b""
    assert (await quick.gathered()).count(b"\n") == 5
    assert "too slow kind=Pod" in caplog.text


async def test_streams_of_one_form_share_their_lines(server: Server) -> None:
    pods = server.store.of(core("pods"))
    rendered = []

    def render(stored):
        rendered.append(stored.name)
        return stored.body

    watches = [Watch(pods, Selection(), "v1", render) for _ in range(20)]
    for watch in watches:
        watch.open(0)
    server.load([{"kind": "Pod", "apiVersion": "v1", **pod("a")}])
    lines = {await watch.gathered() for watch in watches}
    assert len(lines) == 1 and rendered == ["a"]


async def test_bookmarks_name_no_version_of_the_future(client: Client, server: Server) -> None:
    path = "/api/v1/nodes?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    await client.ok("POST", "/api/v1/nodes", node("n1"))
    async with client.watch(path) as events:
        assert await events.names(1) == [("ADDED", "n1")]
        mark = await events.next()
    assert mark["object"]["metadata"] == {
        "resourceVersion": str(server.store.revision),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }


async def test_many_watches_see_the_same_order(client: Client) -> None:
    watches = [client.watch(client.pods + "?watch=1") for _ in range(5)]
    for watch in watches:
        await watch.__aenter__()
    for number in range(30):
        await client.ok("POST", client.pods, pod(f"p{number}"))
    orders = await asyncio.gather(*(watch.names(30) for watch in watches))
    assert all(order == [("ADDED", f"p{n}") for n in range(30)] for order in orders)
    for watch in watches:
        await watch.__aexit__()
