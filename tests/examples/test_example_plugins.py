"""The example plugins in detail, on a manual clock or against a live endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from kubesched.app.plugin_loading import load_named
from kubesched.config import ConfigError
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import running
from tests.harness import Harness

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "plugins"


def plugin(folder: str, name: str) -> Any:
    return load_named([f"{EXAMPLES / folder / 'plugin.py'}:{name}"])[name]


def with_args(name: str, args: dict[str, Any], **plugins: Any) -> dict[str, Any]:
    return {"profiles": [{"pluginConfig": [{"name": name, "args": args}], "plugins": plugins}]}


# -- the smallest ones


def test_a_highest_score_of_zero():
    made = plugin("my_custom_plugins", "MyCustomPluginB")(None, None)
    assert made.normalize_score(None, None, None, np.array([0, 0])).tolist() == [0, 0]
    assert made.normalize_score(None, None, None, np.array([0, 4, 8])).tolist() == [0, 50, 100]


# -- GpuPacking

GPU = "example.com/gpu"


async def test_gpu_packing_prefers_the_wish_then_the_fullest():
    enabled = {"enabled": [{"name": "GpuPacking"}]}
    settings = with_args("GpuPacking", {}, filter=enabled, score={"disabled": [{"name": "*"}], **enabled})
    harness = Harness(plugin("gpu_packing", "GpuPacking"), settings=settings)
    for name, model, used in (("a1", "a", 1), ("a2", "a", 6), ("b1", "b", 7)):
        harness.apply(make_node(name).capacity(cpu=8, pods=10, **{GPU: 8}).label("gpu-model", model).obj())
        harness.apply(make_pod(f"on-{name}").requests(**{GPU: used}).node(name).obj())
    wants = {
        "a2": make_pod("p1").requests(**{GPU: 1}).annotation("gpu-model", "a"),
        "b1": make_pod("p2").requests(**{GPU: 1}).annotation("gpu-model", "b, a"),
        "a1": make_pod("p3").requests(**{GPU: 7}).annotation("gpu-model", "a"),
    }
    harness.apply(*(pod.obj() for pod in wants.values()))
    await harness.settle()
    assert [harness.node_of(pod.obj()) for pod in wants.values()] == list(wants)
    await harness.stop()


async def test_gpu_packing_wakes_for_nodes_of_a_wished_model_only():
    harness = Harness(plugin("gpu_packing", "GpuPacking"))
    pod = make_pod("p").requests(**{GPU: 1}).annotation("gpu-model", "z9").obj()
    harness.apply(pod, make_node("n1").capacity(cpu=8, pods=10, **{GPU: 8}).label("gpu-model", "a").obj())
    await harness.settle()
    harness.apply(make_node("n2").capacity(cpu=8, pods=10).label("gpu-model", "b").obj())
    await harness.settle()
    assert harness.waits_in(pod) == "unschedulable"
    harness.apply(make_node("n3").capacity(cpu=8, pods=10, **{GPU: 8}).label("gpu-model", "z9").obj())
    await harness.settle()
    await harness.pass_time(2)
    assert harness.node_of(pod) == "n3"
    await harness.stop()


# -- LoadAware


@asynccontextmanager
async def metrics(load: dict[str, float]) -> AsyncIterator[tuple[str, list[int]]]:
    """An endpoint with these figures, which may be changed; and how often it was asked."""
    asked = [0]

    async def answer(_: web.Request) -> web.Response:
        asked[0] += 1
        lines = [f'node_load{{instance="x",node="{name}"}} {value} 1700000000' for name, value in load.items()]
        return web.Response(text="\n".join(["# TYPE node_load gauge", *lines]))

    app = web.Application()
    app.router.add_get("/metrics", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/metrics", asked
    finally:
        await runner.cleanup()


async def test_placement_follows_the_load():
    load = {"n1": 0.9, "n2": 0.1}
    nodes = [make_node(name).capacity(cpu=8, memory="8Gi", pods=10) for name in load]
    async with metrics(load) as (url, asked):
        args = {"endpoint": url, "intervalSeconds": 0.02}
        only = {"disabled": [{"name": "*"}], "enabled": [{"name": "LoadAware"}]}
        settings = with_args("LoadAware", args, score=only)
        async with running(settings, *nodes, plugins=(plugin("load_aware", "LoadAware"),)) as cluster:

            async def read_again() -> None:
                before = asked[0]
                await cluster.until(lambda: asked[0] >= before + 2)

            await read_again()
            cluster.load(make_pod("p1"))
            assert await cluster.bound("p1") == ["n2"]
            load.update(n1=0.2, n2=0.8)
            await read_again()
            cluster.load(make_pod("p2"))
            assert await cluster.bound("p2") == ["n1"]
        count = asked[0]
        await asyncio.sleep(0.05)
        assert asked[0] <= count + 1, "the plugin goes on reading after the scheduler has stopped"


async def test_figures_of_long_ago_do_not_count():
    args = {"endpoint": "http://127.0.0.1:9/", "intervalSeconds": 1e9}
    harness = Harness(plugin("load_aware", "LoadAware"), settings=with_args("LoadAware", args))
    made = harness.plugin("LoadAware")
    made._load, made._read_at_s = {"n1": 0.25, "n2": 7.0}, harness.clock.monotonic()

    def scores() -> list[int]:
        return [made.score(None, None, make_node(name).obj().metadata) for name in ("n1", "n2", "n3")]

    assert scores() == [75, 0, 50]
    harness.clock.advance(31)
    assert scores() == [0, 0, 0]
    made.close()
    await harness.stop()


# -- PriceAware


@pytest.mark.parametrize(
    ("annotation", "zones", "node"),
    [
        ("", "abc", "b"),
        ("", "ac", "c"),
        ("", "ax", "a"),
        ("false", "ab", "a"),
    ],
    ids=["the cheapest", "the cheapest that fits", "no price is the dearest", "opted out"],
)
async def test_price_aware(annotation, zones, node):
    settings = with_args("PriceAware", {"prices": {"a": 3, "b": 1, "c": 2, "d": 9}}, score={
        "disabled": [{"name": "*"}], "enabled": [{"name": "PriceAware"}, {"name": "NodeAffinity"}]})  # fmt: skip
    harness = Harness(plugin("price_aware", "PriceAware"), settings=settings)
    harness.apply(*(make_node(zone).capacity(cpu=4, pods=10).zone(zone).obj() for zone in zones))
    pod = make_pod("p").preferred_node_affinity(1, ("kubernetes.io/hostname", "In", ["a"]))
    if annotation:
        pod.annotation("price-aware", annotation)
    harness.apply(pod.obj())
    if not annotation:  # the wish for node a, which counts as much, is out of the way
        harness.delete(pod.obj())
        pod = make_pod("q")
        harness.apply(pod.obj())
    await harness.settle()
    assert harness.node_of(pod.obj()) == node
    await harness.stop()


def test_prices_are_checked():
    settings = with_args("PriceAware", {"prices": {"a": -1}})
    with pytest.raises(ConfigError, match="prices: must be between 0 and 1e9 in a"):
        Harness(plugin("price_aware", "PriceAware"), settings=settings)


# -- MaintenanceWindow

HOUR = 3600.0


async def test_maintenance_window_and_its_end():
    from datetime import UTC, datetime

    harness = Harness(plugin("maintenance_window", "MaintenanceWindow"))
    now = harness.clock.now()

    def at(hours: float) -> str:
        return datetime.fromtimestamp(now + hours * HOUR, UTC).isoformat()

    window = f"{at(2)}/{at(4)}"
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).annotation("maintenance-window", window).obj())
    short = make_pod("short").annotation("expected-duration", "1h").obj()
    long = make_pod("long").annotation("expected-duration", "3h").obj()
    daemon = make_pod("daemon").annotation("maintenance-tolerated", "true").obj()
    harness.apply(short, long, daemon)
    await harness.settle()
    assert (harness.node_of(short), harness.node_of(long), harness.node_of(daemon)) == ("n1", "", "n1")
    harness.clock.advance(4 * HOUR - 1)
    await harness.settle()
    assert harness.node_of(long) == ""
    harness.clock.advance(2)
    await harness.settle()
    await harness.settle()
    assert harness.node_of(long) == "n1"
    await harness.stop()


@pytest.mark.parametrize("window", ["", "soon", "2026-01-01/never", "a/b/c"])
async def test_a_window_that_nobody_can_read_keeps_no_pod_away(window):
    harness = Harness(plugin("maintenance_window", "MaintenanceWindow"))
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).annotation("maintenance-window", window).obj())
    pod = make_pod("p").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod) == "n1"
    await harness.stop()


# -- Coscheduling

SORTED = {"queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Coscheduling"}]},
          "multiPoint": {"enabled": [{"name": "Coscheduling"}]}}  # fmt: skip


def gang(timeout_s: float = 10, seats: int = 4) -> Harness:
    harness = Harness(
        plugin("coscheduling", "Coscheduling"),
        settings=with_args("Coscheduling", {"permitTimeoutSeconds": timeout_s}, **SORTED),
    )
    harness.apply(*(make_node(f"n{number}").capacity(cpu=1, pods=1).obj() for number in range(seats)))
    return harness


def members(name: str, count: int, minimum: int | None = None) -> list[Any]:
    return [
        make_pod(f"{name}-{number}").label("pod-group", name).annotation("pod-group-min", str(minimum or count)).obj()
        for number in range(count)
    ]


def seated(harness: Harness, pods: list[Any]) -> int:
    return sum(1 for pod in pods if harness.node_of(pod))


def bound(harness: Harness, pods: list[Any]) -> int:
    names = {name for name, _ in harness.port.binds()}
    return sum(1 for pod in pods if pod.metadata.name in names)


async def test_nobody_is_bound_before_all_are_there():
    harness = gang()
    pods = members("ring", 3)
    for pod in pods[:2]:
        harness.apply(pod)
        await harness.settle()
    assert (seated(harness, pods), bound(harness, pods)) == (2, 0)
    harness.apply(pods[2])
    await harness.settle()
    assert bound(harness, pods) == 3
    await harness.stop()


async def test_after_the_time_all_seats_are_given_back():
    """BR-132: two of three fit, the third never comes; then another group of two has the room."""
    harness = gang(timeout_s=10, seats=2)
    ring, pair = members("ring", 2, minimum=3), members("pair", 2)
    harness.apply(*ring)
    await harness.settle()
    assert seated(harness, ring) == 2
    harness.apply(*pair)
    await harness.settle()
    assert bound(harness, pair) == 0
    await harness.pass_time(15)
    assert (seated(harness, ring), bound(harness, pair)) == (0, 2)
    await harness.stop()


async def test_two_groups_that_each_hold_half_of_what_the_other_needs():
    harness = gang(timeout_s=10, seats=4)
    ring, mesh = members("ring", 4), members("mesh", 4)
    for pair in zip(ring[:2], mesh[:2], strict=True):  # two seats each
        harness.apply(*pair)
        await harness.settle()
    assert (seated(harness, ring), seated(harness, mesh)) == (2, 2)
    for pair in zip(ring[2:], mesh[2:], strict=True):
        harness.apply(*pair)
        await harness.settle()
    await harness.pass_time(30)
    first, second = sorted((ring, mesh), key=lambda pods: -bound(harness, pods))
    assert (bound(harness, first), bound(harness, second), seated(harness, second)) == (4, 0, 0)
    harness.delete(*first)
    await harness.pass_time(30)
    assert bound(harness, second) == 4
    await harness.stop()


async def test_a_group_that_never_fits_does_not_stop_the_others():
    harness = gang(timeout_s=5, seats=3)
    huge, pair = members("huge", 5), members("pair", 3)
    for pods in zip(huge[:3], pair, strict=True):
        harness.apply(*pods)
        await harness.settle()
    harness.apply(*huge[3:])
    await harness.pass_time(40)
    assert (bound(harness, pair), seated(harness, huge)) == (3, 0)
    await harness.stop()


async def test_a_group_of_which_nobody_is_left_does_not_stop_the_others():
    """BR-133."""
    harness = gang(timeout_s=5, seats=2)
    gone, pair = members("gone", 2, minimum=3), members("pair", 2, minimum=2)
    harness.apply(*gone)
    await harness.settle()
    harness.apply(*pair)
    await harness.settle()
    harness.delete(*gone)
    await harness.pass_time(20)
    assert bound(harness, pair) == 2
    await harness.stop()


async def test_pods_without_a_group_are_not_concerned():
    harness = gang()
    pod = make_pod("single").obj()
    harness.apply(pod)
    await harness.settle()
    assert harness.node_of(pod)
    await harness.stop()
