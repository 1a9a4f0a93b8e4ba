"""The server as others use it: loading, interception, TLS, tokens, kubeconfig, the node simulator, the command."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from pathlib import Path

import aiohttp
import pytest
import yaml

from kubesched.apiserver import (
    Account,
    Answer,
    DropConnection,
    ServeOptions,
    Server,
    kubeconfig,
    serve,
    write_kubeconfig,
)
from kubesched.apiserver.resources import core
from kubesched.clock import ManualClock
from kubesched.tls import client_context, self_signed
from tests.apiserver.conftest import PATIENCE_S, Client, node, pod


def _phase(server: Server, name: str) -> str:
    stored = server.store.of(core("pods")).get("default", name)
    return "gone" if stored is None else stored.fields[core("pods").field_labels.index("status.phase")]


async def test_loaded_objects_keep_what_they_say(client: Client, server: Server) -> None:
    document = {"kind": "Pod", "apiVersion": "v1", **pod("a", nodeName="n1"), "status": {"phase": "Running"}}
    document["metadata"] |= {"namespace": "team", "uid": "u-1"}
    count = server.load([{"kind": "List", "apiVersion": "v1", "items": [document, node("n1")]}])
    assert count == 2
    found = await client.ok("GET", "/api/v1/namespaces/team/pods/a")
    assert (found["metadata"]["uid"], found["status"]["phase"]) == ("u-1", "Running")
    assert found["spec"]["schedulerName"] == "default-scheduler"


async def test_loaded_pods_need_no_priority_class(client: Client, server: Server) -> None:
    told, resolved = pod("told", priority=7), pod("resolved", priorityClassName="system-node-critical")
    server.load([{"kind": "Pod", "apiVersion": "v1", **document} for document in (told, resolved)])
    priorities = {p["metadata"]["name"]: p["spec"]["priority"] for p in (await client.ok("GET", client.pods))["items"]}
    assert priorities == {"told": 7, "resolved": 2_000_001_000}
    status, answer = await client.send("POST", client.pods, pod("other", priority=7))
    assert status == 403 and "must not be provided in pod spec" in answer["message"]


async def test_interceptors_can_answer_withhold_and_look(client: Client, server: Server) -> None:
    seen = []

    async def interceptor(request, proceed):
        seen.append((request.method, request.path))
        if request.path.endswith("/refused"):
            return Answer(500, b'{"kind":"Status","code":500}')
        reply = await proceed()
        if request.path.endswith("/binding"):
            raise DropConnection
        return reply

    server.intercept(interceptor)
    assert (await client.send("GET", client.pods + "/refused"))[0] == 500
    await client.ok("POST", client.pods, pod("a"))
    with pytest.raises(aiohttp.ClientError):
        await client.bind("a", "n1")
    assert (await client.ok("GET", client.pods + "/a"))["spec"]["nodeName"] == "n1"
    assert len(seen) == 4


async def test_who_hangs_up_in_the_middle_of_a_request_makes_no_noise(
    client: Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    _reader, writer = await asyncio.open_connection(server.host, server.port)
    head = f"POST {client.pods} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
    writer.write(head.encode() + b'{"kind":')
    await writer.drain()
    await client.ok("GET", client.pods)  # meanwhile the request has come this far
    writer.transport.abort()
    await client.ok("POST", client.pods, pod("a"))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_token_lets_in_and_tls_is_trusted_by_its_authority(tmp_path: Path) -> None:
    certificate = self_signed(["127.0.0.1", "localhost"])
    async with Server(certificate=certificate, token="secret") as server, aiohttp.ClientSession() as session:
        ssl = client_context(certificate.ca_pem)

        async def status(path: str, token: str = "") -> int:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with session.get(server.url + path, ssl=ssl, headers=headers) as response:
                return response.status

        assert server.url.startswith("https://")
        assert await status("/api/v1/pods", "secret") == 200
        assert await status("/api/v1/pods", "wrong") == 401
        assert await status("/api/v1/pods") == 403
        assert await status("/readyz") == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get(server.url + "/version")
        write_kubeconfig(server, tmp_path / "config")
        assert yaml.safe_load((tmp_path / "config").read_text()) == kubeconfig(server)
        assert (tmp_path / "config").stat().st_mode & 0o777 == 0o600


async def test_kubectl_gets_credentials_over_https_even_where_nobody_asks_for_them() -> None:
    """Without any it asks for a user name."""
    certificate = self_signed(["127.0.0.1", "localhost"])
    async with Server(certificate=certificate) as server, aiohttp.ClientSession() as session:
        token = kubeconfig(server)["users"][0]["user"]["token"]
        ssl = client_context(certificate.ca_pem)
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get(server.url + "/api/v1/pods", ssl=ssl, headers=headers) as response:
            assert response.status == 200
        server.token = "secret"
        assert kubeconfig(server)["users"][0]["user"] == {"token": "secret"}
    assert kubeconfig(Server())["users"][0]["user"] == {}
    some = Server(certificate=certificate, accounts={"theirs": Account("someone", ())})
    assert kubeconfig(some)["users"][0]["user"] == {}, "what is no account's would be refused"


async def test_the_node_simulator_plays_the_kubelet() -> None:
    clock = ManualClock(start=1_000_000.0)
    async with Server(clock=clock) as server, aiohttp.ClientSession() as session:
        client = Client(server, session)
        server.load([node("n1")])
        await client.ok("POST", client.pods, pod("a"))
        await client.ok("POST", client.pods, pod("b"))
        await client.bind("a", "n1")
        await client.bind("b", "missing")
        assert _phase(server, "a") == "Pending"
        clock.advance(0.0)
        assert (_phase(server, "a"), _phase(server, "b")) == ("Running", "Pending")
        status = (await client.ok("GET", client.pods + "/a"))["status"]
        assert status["podIP"] and status["hostIP"] and status["startTime"]
        assert {c["type"]: c["status"] for c in status["conditions"]}["Ready"] == "True"
        deleted = await client.ok("DELETE", client.pods + "/a")
        assert deleted["metadata"]["deletionGracePeriodSeconds"] == 30
        clock.advance(0.0)
        assert _phase(server, "a") == "gone"


async def test_a_deleted_namespace_takes_its_objects_along() -> None:
    clock = ManualClock(start=1_000_000.0)
    async with Server(clock=clock) as server, aiohttp.ClientSession() as session:
        client = Client(server, session)
        server.load([node("n1")])
        await client.ok("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
        await client.ok("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "cm"}})
        await client.ok("POST", "/api/v1/namespaces/team/pods", pod("a", nodeName="n1"))
        await client.ok("DELETE", "/api/v1/namespaces/team")
        refused, answer = await client.send("POST", "/api/v1/namespaces/team/pods", pod("b"))
        assert refused == 403 and "being terminated" in answer["message"]
        for _ in range(4):
            clock.advance(0.0)
        assert (await client.send("GET", "/api/v1/namespaces/team"))[0] == 404
        assert (await client.ok("GET", "/api/v1/namespaces/team/pods"))["items"] == []


async def test_without_the_simulator_bound_pods_stay_pending(client: Client, server: Server) -> None:
    server.load([node("n1")])
    await client.ok("POST", client.pods, pod("a"))
    await client.bind("a", "n1")
    await client.ok("DELETE", client.pods + "/a")
    assert _phase(server, "a") == "Pending"


async def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    manifests = tmp_path / "cluster"
    manifests.mkdir()
    (manifests / "nodes.yaml").write_text(yaml.safe_dump_all([node("n1"), node("n2")]))
    started: asyncio.Future[Server] = asyncio.get_running_loop().create_future()
    options = ServeOptions(port=0, load=(manifests,), kubeconfig_out=tmp_path / "config", tls=True, token="t")
    task = asyncio.create_task(serve(options, started.set_result))
    server = await asyncio.wait_for(started, PATIENCE_S)
    assert len(server.store.of(core("nodes")).items) == 2
    written = yaml.safe_load((tmp_path / "config").read_text())
    assert written["clusters"][0]["cluster"]["server"] == server.url
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(task, PATIENCE_S)


async def test_a_fault_in_a_handler_is_a_500_and_a_log_line(
    client: Client, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async def interceptor(request, proceed):
        request.path = None
        return await proceed()

    server.intercept(interceptor)
    status, answer = await client.send("GET", client.pods)
    assert status == 500 and answer["kind"] == "Status"
    assert "request failed method=GET" in caplog.text
