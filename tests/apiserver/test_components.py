"""Component statuses: the server looks at the health ports of others, over real connections."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kubesched.apiserver import Server
from kubesched.apiserver.probing import probe
from kubesched.apiserver.status import Refusal
from kubesched.tls import self_signed, server_context
from tests.apiserver.conftest import PATIENCE_S, Client

PATH = "/api/v1/componentstatuses"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on and nobody else gets."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@asynccontextmanager
async def component(handler: Handler, *, tls: bool = True, port: int = 0) -> AsyncIterator[int]:
    """Something that serves on a port of its own, with a certificate that nobody has reason to trust."""
    runner = web.ServerRunner(web.Server(handler))
    await runner.setup()
    context = server_context(self_signed(["elsewhere.example"])) if tls else None
    site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=context)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


@asynccontextmanager
async def peer(talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]) -> AsyncIterator[int]:
    """A port behind which bytes are exchanged by hand."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def url(port: int) -> str:
    return f"https://127.0.0.1:{port}/healthz"


async def healthy(request: web.BaseRequest) -> web.StreamResponse:
    assert (request.path, request.headers["User-Agent"], request.headers["Accept"]) == (
        "/healthz", "kube-probe/1.36", "*/*",
    )  # fmt: skip
    return web.Response(text="ok")


@asynccontextmanager
async def asking(scheduler: int, controller_manager: int) -> AsyncIterator[Client]:
    targets = {"scheduler": url(scheduler), "controller-manager": url(controller_manager)}
    async with Server(components=targets) as server, aiohttp.ClientSession() as session:
        yield Client(server, session)


def conditions(answer: Any) -> dict[str, tuple[str, str]]:
    return {
        item["metadata"]["name"]: (item["conditions"][0]["status"], item["conditions"][0]["message"])
        for item in answer["items"]
    }


def refused(port: int) -> str:
    return f'Get "{url(port)}": dial tcp 127.0.0.1:{port}: connect: connection refused'


async def test_a_component_that_comes_up_becomes_healthy() -> None:
    with closed_port() as other:
        async with component(healthy) as port, asking(port, other) as client:
            found = conditions(await client.ok("GET", PATH))
            assert found == {
                "scheduler": ("True", "ok"),
                "controller-manager": ("False", refused(other)),
                "etcd-0": ("True", "ok"),
            }
            assert list(found) == ["scheduler", "controller-manager", "etcd-0"]
        async with asking(other, other) as client:
            assert conditions(await client.ok("GET", PATH))["scheduler"] == ("False", refused(other))


async def test_one_by_name() -> None:
    with closed_port() as port:
        async with asking(port, port) as client:
            assert await client.ok("GET", f"{PATH}/scheduler") == {
                "kind": "ComponentStatus",
                "apiVersion": "v1",
                "metadata": {"name": "scheduler"},
                "conditions": [{"type": "Healthy", "status": "False", "message": refused(port)}],
            }
            status, answer = await client.send("GET", f"{PATH}/kubelet")
            assert (status, answer["message"]) == (500, "Component not found: kubelet")


async def test_tables_and_metadata() -> None:
    with closed_port() as port:
        async with asking(port, port) as client:
            found = await client.ok("GET", PATH, accept=TABLE)
            assert [c["name"] for c in found["columnDefinitions"]] == ["Name", "Status", "Message", "Error"]
            assert [row["cells"] for row in found["rows"]] == [
                ["scheduler", "Unhealthy", refused(port), ""],
                ["controller-manager", "Unhealthy", refused(port), ""],
                ["etcd-0", "Healthy", "ok", ""],
            ]
            found = await client.ok("GET", f"{PATH}/etcd-0", accept=TABLE)
            assert [row["cells"] for row in found["rows"]] == [["etcd-0", "Healthy", "ok", ""]]
            of_metadata = "application/json;as={};v=v1;g=meta.k8s.io"
            found = await client.ok("GET", PATH, accept=of_metadata.format("PartialObjectMetadataList"))
            assert (found["kind"], found["items"][2]["metadata"]) == ("PartialObjectMetadataList", {"name": "etcd-0"})
            found = await client.ok("GET", f"{PATH}/etcd-0", accept=of_metadata.format("PartialObjectMetadata"))
            assert (found["kind"], found["metadata"]) == ("PartialObjectMetadata", {"name": "etcd-0"})


SELECTORS = [
    ("labelSelector=a=b", []),
    ("labelSelector=!a", ["scheduler", "controller-manager", "etcd-0"]),
    ("fieldSelector=metadata.name=etcd-0", ["etcd-0"]),
    ("fieldSelector=metadata.name!=etcd-0", ["scheduler", "controller-manager"]),
]


@pytest.mark.parametrize(("query", "names"), SELECTORS, ids=[query for query, _ in SELECTORS])
async def test_selectors(query: str, names: list[str]) -> None:
    with closed_port() as port:
        async with asking(port, port) as client:
            assert list(conditions(await client.ok("GET", f"{PATH}?{query}"))) == names


async def test_what_cannot_be_done(client: Client) -> None:
    status, answer = await client.send("GET", f"{PATH}?watch=true")
    assert status == 405
    assert answer["message"] == 'watch is not supported on resources of kind "componentstatuses"'
    status, answer = await client.send("POST", PATH, {"metadata": {"name": "x"}})
    assert (status, answer["reason"]) == (405, "MethodNotAllowed")
    status, answer = await client.send("GET", f"{PATH}?fieldSelector=status=x")
    assert (status, answer["message"]) == (400, "field label not supported: status")


def test_they_are_not_loaded() -> None:
    with pytest.raises(Refusal, match="ComponentStatus cannot be loaded: it is asked for or sent, never stored"):
        Server().load([{"kind": "ComponentStatus", "apiVersion": "v1", "metadata": {"name": "x"}}])


async def test_a_component_that_hangs_holds_up_nobody_else() -> None:
    asked, let_go = asyncio.Event(), asyncio.Event()

    async def hangs(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        await let_go.wait()
        return web.Response(text="late")

    async with component(hangs) as port, asking(port, port) as client:
        waiting = asyncio.create_task(client.ok("GET", PATH))
        await asyncio.wait_for(asked.wait(), PATIENCE_S)
        assert (await client.ok("GET", "/api/v1/namespaces/default"))["metadata"]["name"] == "default"
        assert not waiting.done()
        let_go.set()
        assert conditions(await waiting)["controller-manager"] == ("True", "late")


async def test_an_unhealthy_component_is_told_by_its_status_code() -> None:
    async def ill(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=500, text="[-]leaderElection failed")

    async with component(ill) as port:
        found = await probe(url(port))()
    assert found.condition() == {
        "type": "Healthy",
        "status": "False",
        "message": "HTTP probe failed with statuscode: 500",
    }


async def test_of_a_long_answer_the_beginning_is_told() -> None:
    async def talkative(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="x" * 50_000)

    async with component(talkative) as port:
        assert (await probe(url(port))()).message == "x" * 10_240


async def test_a_body_that_breaks_off_leaves_health_unknown() -> None:
    async def breaks_off(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"ok")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with component(breaks_off) as port:
        found = await probe(url(port))()
    assert found.condition() == {"type": "Healthy", "status": "Unknown", "error": "unexpected EOF"}


async def _leaves(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    pass


async def _speaks_otherwise(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
    await writer.drain()
    await reader.read()


async def _says_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


FAULTS = {
    "closes": (_leaves, "EOF"),
    "no TLS": (_speaks_otherwise, "tls: first record does not look like a TLS handshake"),
    "silent": (_says_nothing, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_faults_of_the_network(name: str) -> None:
    talk, fault = FAULTS[name]
    async with peer(talk) as port:
        found = await probe(url(port), timeout_s=0.2 if name == "silent" else 60.0)()
        assert (found.healthy, found.message) == (False, f'Get "{url(port)}": {fault}')


async def test_a_name_that_is_not_known() -> None:
    found = await probe("https://nobody.invalid:10259/healthz")()
    assert found.message.startswith('Get "https://nobody.invalid:10259/healthz": dial tcp: lookup nobody.invalid: ')
