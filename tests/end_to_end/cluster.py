"""A scheduler and an embedded API server in the test's own process, connected over HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

from kubesched import config
from kubesched.apiserver import Server
from kubesched.apiserver.messages import Request
from kubesched.apiserver.resources import core
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.options import Loaded
from kubesched.app.plugin_loading import merged
from kubesched.app.run import connection_to
from kubesched.client.kubeconfig import ClientConfig
from kubesched.clock import Clock
from kubesched.framework import Plugin
from kubesched.plugins.registry import IN_TREE
from kubesched.scheduler.profiles import plugin_info
from kubesched.state import consistency

#: Only guards against a test that would hang.
PATIENCE_S = 60.0
FAST = {"clientConnection": {"qps": 5000, "burst": 5000}, "leaderElection": {"leaderElect": False}}


def loaded(settings: dict[str, Any], *plugins: type[Plugin]) -> Loaded:
    """As `app.options.load`, from data."""
    extra = {plugin.name: plugin for plugin in plugins}
    source = {"apiVersion": config.API_VERSION, "kind": config.KIND, **FAST, **settings}
    infos = [plugin_info(plugin) for plugin in plugins]
    return Loaded(config.load(source, plugins=infos, enable=extra), merged(IN_TREE, extra))


class LiveCluster:
    def __init__(self, server: Server, live: LiveScheduler) -> None:
        self.server = server
        self.live = live

    def load(self, *builders: Any) -> None:
        self.server.load([builder.dict() for builder in builders])

    def pod(self, name: str) -> dict[str, Any]:
        """The pod as the API server has it; empty if there is none."""
        for stored in self.server.store.of(core("pods")).scan():
            document: dict[str, Any] = stored.document()
            if document["metadata"]["name"] == name:
                return document
        return {}

    async def until(self, true: Callable[[], bool]) -> None:
        await until(self.live, true)

    async def bound(self, *names: str) -> list[str]:
        """The nodes of these pods, once all are bound and the scheduler has seen it."""

        def node_of(name: str) -> str:
            placements = self.live.state.placements.values()
            return next(
                (p.pod.pod.spec.node_name for p in placements if p.pod.pod.metadata.name == name and not p.assumed), ""
            )

        await self.until(lambda: all(map(node_of, names)))
        return [node_of(name) for name in names]

    async def condition(self, name: str, text: str = "") -> str:
        """Reason and message of a pod that was tried in vain, once it contains `text`."""

        def shown() -> str:
            for condition in self.pod(name).get("status", {}).get("conditions", ()):
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return f"{condition['reason']}: {condition['message']}"
            return ""

        await self.until(lambda: bool(shown()) and text in shown())
        return shown()

    async def bind(self, name: str, node: str) -> None:
        """What an extender does that binds."""
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": node}}
        path = f"/api/v1/namespaces/default/pods/{name}/binding"
        headers = {"content-type": "application/json"}
        reply: Any = await self.server.handle(Request("POST", path, headers=headers, body=json.dumps(body).encode()))
        assert reply.status == 201, reply.body


async def until(live: LiveScheduler, true: Callable[[], bool]) -> None:
    """Until the condition holds. What it is about (state, queue, bindings) tells nobody when it changes."""
    async with asyncio.timeout(PATIENCE_S):
        while not true():
            await live.clock.sleep(0.005)


async def placed(live: LiveScheduler, count: int, names: Collection[str] = ()) -> None:
    """Until so many pods (of these names, if any) are bound, the scheduler has seen it, and nothing is under way."""

    def true() -> bool:
        confirmed = [placement for placement in live.state.placements.values() if not placement.assumed]
        there = {placement.pod.pod.metadata.name for placement in confirmed}
        return len(confirmed) == count and there >= set(names) and not live.scheduler.binding_count

    await until(live, true)


@asynccontextmanager
async def running(
    settings: dict[str, Any],
    *builders: Any,
    plugins: tuple[type[Plugin], ...] = (),
    seed: int = 1,
    kubelets: bool = False,
) -> AsyncIterator[LiveCluster]:
    """A cluster of these objects, scheduled with these settings of the configuration. `kubelets` end deleted pods."""
    async with Server(node_simulator=kubelets) as server:
        server.load([builder.dict() for builder in builders])
        what = loaded(settings, *plugins)
        options = LiveOptions(config=what.config, registry=what.registry, seed=seed)
        async with scheduling(server, options) as live:
            yield LiveCluster(server, live)
            assert consistency.check(live.state) == []


@asynccontextmanager
async def scheduling(
    server: Server, options: LiveOptions, *, connection: ClientConfig | None = None, clock: Clock | None = None
) -> AsyncIterator[LiveScheduler]:
    """A scheduler in this process that runs against the server, stopped in order at the end."""
    live = LiveScheduler(connection or connection_to(server), options, clock=clock)
    await live.start()
    run = asyncio.create_task(live.run())
    try:
        yield live
    finally:
        await live.stop()
        run.cancel()
        outcome = await asyncio.gather(run, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError | None) for each in outcome), outcome
