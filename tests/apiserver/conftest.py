"""A running server, a plain JSON client for it, and documents to send."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from kubesched.apiserver import Server
from kubesched.clock import Chance

Json = dict[str, Any]
#: Only ever waited for when something hangs.
PATIENCE_S = 60.0


def pod(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> Json:
    metadata: Json = {"name": name}
    if labels:
        metadata["labels"] = labels
    return {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "app:1"}], **spec}}


def node(name: str, **labels: str) -> Json:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }


class Client:
    """Requests against a server; answers are parsed JSON."""

    pods = "/api/v1/namespaces/default/pods"

    def __init__(self, server: Server, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.server.url + path, json=body, headers=named) as response:
            text = await response.text()
            return response.status, json.loads(text) if text.startswith(("{", "[")) else text

    async def ok(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        status, answer = await self.send(method, path, body, **headers)
        assert status < 300, answer
        return answer

    async def merge(self, path: str, patch: Json) -> Any:
        return await self.ok("PATCH", path, patch, content_type="application/merge-patch+json")

    async def bind(self, name: str, target: str) -> tuple[int, Any]:
        body = {"metadata": {"name": name}, "target": {"kind": "Node", "name": target}}
        return await self.send("POST", f"{self.pods}/{name}/binding", body)

    def watch(self, path: str) -> Events:
        return Events(self, path)


class Events:
    """An open watch, to be read event by event."""

    def __init__(self, client: Client, path: str) -> None:
        self._client = client
        self._path = path
        self.response: aiohttp.ClientResponse

    async def __aenter__(self) -> Events:
        self.response = await self._client.session.get(self._client.server.url + self._path)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.response.close()

    async def next(self) -> Json:
        line = await asyncio.wait_for(self.response.content.readline(), PATIENCE_S)
        assert line, "the stream has ended"
        event: Json = json.loads(line)
        return event

    async def names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]

    async def ended(self) -> bool:
        return await asyncio.wait_for(self.response.content.read(), PATIENCE_S) == b""


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with Server(node_simulator=False, chance=Chance(1)) as running:
        yield running


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with aiohttp.ClientSession() as session:
        yield Client(server, session)
