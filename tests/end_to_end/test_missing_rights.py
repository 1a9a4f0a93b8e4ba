"""BR-89: a scheduler without the right to list something that its plugins read. It says which right is missing and is
not ready meanwhile; it neither hangs in silence nor schedules without what it cannot see."""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from pathlib import Path

import aiohttp
import pytest

from kubesched.apiserver import Answer, Server
from kubesched.app.flags import Flags
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.run import connection_to
from kubesched.app.secure_serving import SecureServing, health_checks
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import LiveCluster, loaded


class Rights:
    """Refuses what RBAC would refuse to an account that may not list and watch a resource."""

    def __init__(self, resource: str, group: str) -> None:
        self._resource, self._group = resource, group
        self.missing = True
        self.refused = 0

    async def __call__(self, request, proceed):
        if not self.missing or request.method != "GET" or not request.path.endswith(f"/{self._resource}"):
            return await proceed()
        self.refused += 1
        verb = "watch" if request.query.get("watch") else "list"
        status = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "Forbidden",
            "message": f'{self._resource} is forbidden: User "kubesched" cannot {verb} resource "{self._resource}" in '
            f'API group "{self._group}" at the cluster scope',
            "code": 403,
        }
        return Answer(403, json.dumps(status).encode())


MISSING = [("csistoragecapacities", "storage.k8s.io"), ("nodes", ""), ("poddisruptionbudgets", "policy")]


@pytest.mark.parametrize(("resource", "group"), MISSING, ids=[resource for resource, _ in MISSING])
async def test_a_missing_right_is_named_and_readiness_waits_for_it(resource, group, tmp_path, caplog):
    rights = Rights(resource, group)
    what = loaded({})
    async with Server(node_simulator=False) as server:
        server.intercept(rights)
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).dict(), make_pod("web").dict()])
        options = LiveOptions(config=what.config, registry=what.registry, seed=1)
        live = LiveScheduler(connection_to(server), options)
        serving = serve(live, tmp_path)
        await serving.start()
        cluster = LiveCluster(server, live)

        async def start_and_run():
            await live.start()
            await live.run()

        with caplog.at_level(logging.WARNING):
            running = asyncio.create_task(start_and_run())
            try:
                await cluster.until(lambda: rights.refused >= 4)
                assert "sched-handler-sync failed" in (await readyz(serving, tmp_path, 500))
                assert not cluster.pod("web")["spec"].get("nodeName") and not live.is_synced
                named = f"must grant the verbs list and watch on resource {resource!r} of API group {group!r}"
                lines = [record.getMessage() for record in caplog.records if named in record.getMessage()]
                assert lines and f'User "kubesched" cannot list resource "{resource}"' in "".join(lines)
                rights.missing = False
                assert await cluster.bound("web") == ["n1"]
                assert "sched-handler-sync ok" in (await readyz(serving, tmp_path, 200))
            finally:
                await live.stop()
                await serving.stop()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)


def serve(live: LiveScheduler, folder: Path) -> SecureServing:
    return SecureServing(
        Flags(bind_address="127.0.0.1", secure_port=0, cert_dir=str(folder)),
        live.scheduler,
        live.metrics,
        live.clock,
        configuration=lambda: live.config,
        checks=health_checks(synced=lambda: live.is_synced, stopping=lambda: live.is_stopping),
        authentication=live.client.lane("authentication", None),
        authorization=live.client.lane("authorization", None),
        cluster=live.client.lane("debugging", None),
    )


async def readyz(serving: SecureServing, folder: Path, code: int) -> str:
    """What it says, with this status code."""
    context = ssl.create_default_context(cafile=folder / "kube-scheduler.crt")
    async with asyncio.timeout(60), aiohttp.ClientSession() as session:
        answer = await session.get(f"https://127.0.0.1:{serving.port}/readyz?verbose", ssl=context)
        assert answer.status == code
        return await answer.text()
