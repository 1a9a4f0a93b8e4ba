"""The scheduler's port over real TLS, with an embedded API server that knows who may ask."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from kubesched import config
from kubesched.apiserver import Account, Server
from kubesched.app.flags import Flags
from kubesched.app.secure_serving import SecureServing, health_checks
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import ManualClock, RealClock
from tests.harness import Harness

MASTERS = Account("admin", ("system:masters", "system:authenticated"), uid="admin")
LOW = Account("lowpriv", ("system:authenticated",), uid="low")
OWN = Account("kube-scheduler", ("system:masters", "system:authenticated"))
TOKENS = {"token-admin": MASTERS, "token-low": LOW, "token-own": OWN}


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: str


@dataclass
class Port:
    serving: SecureServing
    api: Server
    folder: Path
    harness: Harness
    clock: ManualClock
    reviews: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    is_synced: bool = True
    is_stopping: bool = False
    election: str = ""

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.serving.port}"

    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.folder / "certs" / "kube-scheduler.crt")
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    async def ask(self, path, method="GET", *, token="", headers=None, context=None):
        given = dict(headers or {})
        if token:
            given["Authorization"] = f"Bearer {token}"
        async with (
            aiohttp.ClientSession(skip_auto_headers=("Accept",)) as session,
            session.request(
                method, URL(f"{self.url}{path}", encoded=True), headers=given, ssl=context or self.trust()
            ) as answer,
        ):
            return Reply(answer.status, {k.lower(): v for k, v in answer.headers.items()}, await answer.text())

    def reviews_of(self, kind):
        return [spec for name, spec in self.reviews if name == kind]


@asynccontextmanager
async def port(folder: Path, *, settings=None, with_election=False, harness=None, **flags) -> AsyncIterator[Port]:
    """`clock` drives what is remembered and looked at again; requests themselves take real time."""
    async with Server(accounts=TOKENS, node_simulator=False) as api:
        connection = ClientConfig(ClusterConfig(api.url), UserConfig(token="token-own"))
        client: ApiClient = connect(connection, RealClock())
        harness = harness or Harness()
        clock = harness.clock
        loaded = config.load(settings) if settings else harness.config
        values = {"bind_address": "127.0.0.1", "secure_port": 0, "cert_dir": str(folder / "certs"), **flags}
        made: list[Port] = []
        checks = health_checks(
            synced=lambda: made[0].is_synced,
            stopping=lambda: made[0].is_stopping,
            election=(lambda: made[0].election) if with_election else None,
        )
        serving = SecureServing(
            Flags(**values),
            harness.scheduler,
            harness.metrics,
            clock,
            configuration=lambda: loaded,
            checks=checks,
            authentication=client,
            authorization=client,
            cluster=client,
        )
        served = Port(serving, api, folder, harness, clock)
        made.append(served)
        api.intercept(_noting(served))
        await serving.start()
        try:
            yield served
        finally:
            await serving.stop()
            await client.close()


def _noting(served):
    import json

    async def note(request, proceed):
        if request.path.endswith("reviews"):
            document = json.loads(request.body)
            served.reviews.append((document["kind"], document))
        return await proceed()

    return note
