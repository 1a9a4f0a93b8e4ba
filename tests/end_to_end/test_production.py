"""Two schedulers over one API server, and the life of one: who leads, who takes over, how it starts and how it ends."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
import yaml

from kubesched import config
from kubesched.apiserver import Account, Answer, Server, write_kubeconfig
from kubesched.apiserver.resources import RESOURCES, core
from kubesched.app import dumps
from kubesched.app.flags import Flags
from kubesched.app.live import LiveOptions, LiveScheduler
from kubesched.app.run import RunOptions, connection_to, run
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, PemSource, UserConfig
from kubesched.clock import RealClock
from kubesched.plugins.registry import IN_TREE
from kubesched.tls import self_signed, server_context
from tests.build import make_node, make_pod
from tests.end_to_end.cluster import PATIENCE_S, placed, scheduling, until
from tests.end_to_end.process import FAST, start_scheduler
from tests.ports import free_port

MASTERS = ("system:masters", "system:authenticated")


def elected(lease_s, renew_s, retry="300ms"):
    """Settings of a scheduler that loses its lease after `renew_s` without a renewal, to be taken after `lease_s`."""
    times = {"leaseDuration": f"{lease_s}s", "renewDeadline": f"{renew_s}s", "retryPeriod": retry}
    return {**FAST, "leaderElection": {"leaderElect": True, "resourceName": "kube-scheduler", **times}}


#: A machine that is busy takes no such lease away.
LASTING = elected(90, 60)
#: Where a test waits until it has run out; still longer than a process may be kept from running.
BRIEF = elected(8, 6)


class Binds:
    """Who has bound what, by the token of the request."""

    def __init__(self):
        self.stored: Counter[str] = Counter()
        self.by: list[str] = []
        self.changed = asyncio.Event()

    async def __call__(self, request, proceed):
        if not request.path.endswith("/binding"):
            return await proceed()
        reply = await proceed()
        assert isinstance(reply, Answer)
        if reply.status == 201:
            self.stored[request.path] += 1
            self.by.append(request.headers["authorization"].removeprefix("Bearer "))
            self.changed.set()
        return reply

    async def reach(self, count):
        async with asyncio.timeout(PATIENCE_S):
            while len(self.by) < count:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def candidate(server, folder, name, settings):
    """A process with an identity of its own, known to be standing by or leading with its caches warm."""
    folder = folder / name
    folder.mkdir()
    kubeconfig = {
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "x", "cluster": {"server": server.url}}],
        "users": [{"name": "x", "user": {"token": name}}],
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
    }  # fmt: skip
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    connection = {**settings["clientConnection"], "kubeconfig": str(folder / "kubeconfig")}
    (folder / "config.yaml").write_text(yaml.safe_dump({**settings, "clientConnection": connection}))
    process = await start_scheduler(["--config", str(folder / "config.yaml"), "--secure-port=0"])
    try:
        await process.wait_for("caches synced")
        yield process
    finally:
        if process.is_running:
            process.send_signal(signal.SIGCONT)
            await process.kill()


def pods(prefix, count):
    return [make_pod(f"{prefix}-{i}").cpu("100m").dict() for i in range(count)]


@pytest.mark.timeout(400)
async def test_a_standby_takes_over_from_a_leader_that_ends_dies_or_freezes(tmp_path: Path):
    binds = Binds()
    accounts = {name: Account(f"scheduler-{name}", MASTERS) for name in "abcd"}
    async with Server(accounts=accounts, node_simulator=False) as server, AsyncExitStack() as running:
        server.intercept(binds)
        server.load([make_node(f"n{i}").capacity(cpu=32, memory="64Gi", pods=200).dict() for i in range(4)])

        async def start(name, settings):
            return await running.enter_async_context(candidate(server, tmp_path, name, settings))

        a = await start("a", LASTING)
        await a.wait_for("became leader")
        b = await start("b", BRIEF)
        server.load(pods("first", 20))
        await binds.reach(20)
        assert set(binds.by) == {"a"}

        # Asked to end: the lease is released, and the next one in within its retry period.
        a.send_signal(signal.SIGTERM)
        await b.wait_for("became leader")
        assert await a.ended() == 0
        assert any("released the lease" in line for line in a.lines)
        server.load(pods("second", 20))
        await binds.reach(40)
        assert set(binds.by[20:]) == {"b"}

        # Killed in the middle of its work.
        c = await start("c", BRIEF)
        server.load(pods("third", 60))
        await binds.reach(55)
        await b.kill()
        await c.wait_for("became leader")
        await binds.reach(100)

        # Frozen in the middle of its work, and thawed when another one leads.
        d = await start("d", LASTING)
        server.load(pods("fourth", 60))
        await binds.reach(115)
        c.send_signal(signal.SIGSTOP)
        await d.wait_for("became leader")
        await binds.reach(160)
        server.load(pods("fifth", 20))
        thawed_after = len(binds.by)
        c.send_signal(signal.SIGCONT)
        assert await c.ended() == 1
        await binds.reach(180)
        assert set(binds.by[thawed_after:]) == {"d"}
        assert any("lost the lease" in line for line in c.lines)
        assert await d.terminate() == 0

        assert set(binds.stored.values()) == {1}, "a pod was bound twice"
        unbound = [
            each.name for each in server.store.of(core("pods")).scan() if not each.document()["spec"]["nodeName"]
        ]
        assert unbound == []
        lease = stored(server, "leases")[0]["spec"]
        assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("", 3)
        told = [event["message"] for event in stored(server, "events") if event.get("reason") == "LeaderElection"]
        assert sum(message.endswith(" became leader") for message in told) == 4


async def test_a_taken_port_ends_it_before_anything_is_asked(tmp_path):
    asked = []
    async with Server(node_simulator=False) as server:

        async def note(request, proceed):
            asked.append(request.path)
            return await proceed()

        server.intercept(note)
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            write_kubeconfig(server, tmp_path / "kubeconfig")
            arguments = [f"--kubeconfig={tmp_path / 'kubeconfig'}", "--bind-address=127.0.0.1", f"--secure-port={port}"]
            process = await start_scheduler(arguments)
            assert await process.ended() == 1
        said = f"kubesched: --bind-address, --secure-port: cannot listen on 127.0.0.1:{port}: Address already in use"
        assert process.lines[-1] == said
        assert asked == []


async def test_health_answers_before_the_caches_are_there(tmp_path):
    let_through = asyncio.Event()
    async with Server(node_simulator=False) as server:

        async def withhold(request, proceed):
            if request.path == "/api/v1/nodes":
                await let_through.wait()
            return await proceed()

        server.intercept(withhold)
        server.load([make_node("n1").capacity(cpu=4, pods=10).dict()])
        async with in_process(server, tmp_path, serve=True) as scheduler:
            await scheduler.said("serving address=")
            assert await scheduler.ask("/healthz") == (200, "ok")
            assert await scheduler.ask("/livez") == (200, "ok")
            status, text = await scheduler.ask("/readyz")
            assert status == 500 and "[-]sched-handler-sync failed: reason withheld" in text.splitlines()
            let_through.set()
            await scheduler.started.wait()
            assert await scheduler.ask("/readyz") == (200, "ok")
        assert scheduler.code == 0


async def test_a_stop_lets_binds_in_flight_end_and_tells_of_them(tmp_path):
    arrived, answer = asyncio.Semaphore(0), asyncio.Event()
    async with Server(node_simulator=False) as server:

        async def hold(request, proceed):
            reply = await proceed()
            if request.path.endswith("/binding"):
                arrived.release()
                await answer.wait()
            return reply

        server.intercept(hold)
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).dict(), *pods("p", 5)])
        async with in_process(server, tmp_path) as scheduler:
            for _ in range(5):
                await arrived.acquire()
            os.kill(os.getpid(), signal.SIGTERM)
            await scheduler.said("stopping")
            server.load(pods("late", 3))
            answer.set()
        assert scheduler.code == 0
        bound = {doc["metadata"]["name"] for doc in stored(server, "pods") if doc["spec"].get("nodeName")}
        assert bound == {f"p-{i}" for i in range(5)}, "nothing new is begun"
        told = {doc["involvedObject"]["name"] for doc in stored(server, "events") if doc["reason"] == "Scheduled"}
        assert told == bound


async def test_a_leader_that_cannot_renew_ends_without_another_bind(tmp_path):
    """As recorded in b12: 500 for each renewal, the deadline passes, an event says so, and the exit code is 1."""
    refusing = False
    async with Server(node_simulator=False) as server:

        async def refuse(request, proceed):
            if refusing and request.method == "PUT" and "/leases/" in request.path:
                return Answer(500, b'{"kind":"Status","status":"Failure","reason":"InternalError","code":500}')
            return await proceed()

        server.intercept(refuse)
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=20).dict(), *pods("early", 3)])
        async with in_process(server, tmp_path, settings=BRIEF) as scheduler:
            await scheduler.said("pod scheduled", times=3)
            refusing = True
            await scheduler.said("lost the lease")
            server.load(pods("late", 3))
            await scheduler.said("stopping")
        assert scheduler.code == 1
        bound = {doc["metadata"]["name"] for doc in stored(server, "pods") if doc["spec"].get("nodeName")}
        assert bound == {"early-0", "early-1", "early-2"}
        told = [
            event["message"].split(" ", 1)[1]
            for event in stored(server, "events")
            if event["reason"] == "LeaderElection"
        ]
        assert told == ["became leader", "stopped leading"]


async def test_asked_by_a_signal_it_compares_its_cache_with_the_server(tmp_path):
    async with Server(node_simulator=False) as server:
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).dict(), *pods("p", 3)])
        async with in_process(server, tmp_path) as scheduler:
            await scheduler.started.wait()
            os.kill(os.getpid(), signal.SIGUSR2)
            await scheduler.said("cache equals the API server")
            dumped = "\n".join(scheduler.lines)
            assert "dump of the queue active=" in dumped and "dump of a node node=n1" in dumped


async def test_differences_are_named():
    async with Server(node_simulator=False) as server:
        server.load([make_node(f"n{i}").capacity(cpu=4, memory="8Gi", pods=10).dict() for i in range(2)])
        server.load(pods("p", 2))
        async with live(server) as scheduler:
            await placed(scheduler, 2)
            assert await dumps.compare(scheduler.client, scheduler.scheduler, Hurried()) == []
            there = next(iter(scheduler.state.placements.values()))
            lost, where = there.pod.key, there.node_name
            scheduler.state.remove_pod(there.pod.uid)
            assert await dumps.compare(scheduler.client, scheduler.scheduler, Hurried()) == [
                f"pod {lost} is on {where}, the cache has it on no node"
            ]


async def test_caches_may_be_delayed_until_leading():
    asked, twice = [], asyncio.Event()
    async with Server(node_simulator=False) as server:
        server.load([held_lease("somebody", seconds=3600)])

        async def note(request, proceed):
            asked.append(request.path)
            if asked.count(LEASE_PATH) >= 2:
                twice.set()
            return await proceed()

        server.intercept(note)
        settings = config.load({**LASTING, "delayCacheUntilActive": True})
        scheduler = LiveScheduler(connection_to(server), LiveOptions(settings, IN_TREE, seed=1))
        starting = asyncio.create_task(scheduler.start())
        await asyncio.wait_for(twice.wait(), PATIENCE_S)
        assert set(asked) == {LEASE_PATH}
        lease = server.store.of(resource("coordination.k8s.io", "leases")).get("kube-system", "kube-scheduler")
        assert lease is not None
        document = lease.document()
        document["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
        server.store.update(resource("coordination.k8s.io", "leases"), lease, document)
        await starting
        assert "/api/v1/pods" in asked
        await scheduler.stop()


async def test_a_standby_has_warm_caches_and_schedules_nothing():
    async with Server(node_simulator=False) as server:
        server.load([held_lease("somebody", seconds=3600), make_node("n1").capacity(cpu=4, pods=10).dict()])
        async with live(server, LASTING) as scheduler:
            server.load([make_node("n2").capacity(cpu=4, pods=10).dict(), *pods("p", 3)])
            await until(
                scheduler,
                lambda: len(scheduler.scheduler.queue.active) == 3 and scheduler.state.nodes.row_count == 2,
            )
            assert len(scheduler.scheduler.inbox) == 0
            assert not any(doc["spec"].get("nodeName") for doc in stored(server, "pods"))
            assert scheduler.metrics.value("leader_election_master_status", "kube-scheduler") == 0


async def test_requests_are_counted_as_the_server_sees_them():
    seen: Counter[tuple[str, str]] = Counter()
    async with Server(node_simulator=False) as server:

        async def count(request, proceed):
            reply = await proceed()
            status = reply.status if isinstance(reply, Answer) else 200
            seen[str(status), request.method] += 1
            return reply

        server.intercept(count)
        server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=10).dict(), *pods("p", 5)])
        server.load([make_pod("elsewhere").node_selector({"no": "where"}).dict()])
        # No renewal but the first, so that none is cut off by the end.
        async with live(server, elected(900, 600, retry="300s")) as scheduler:
            await placed(scheduler, 5)
            await scheduler.scheduler.status_writer.flushed()
            await until(scheduler, lambda: seen["200", "PUT"] == 1 and seen["200", "PATCH"] == 1)
        host = f"127.0.0.1:{server.port}"
        for (code, method), count_ in seen.items():
            assert scheduler.metrics.value("rest_client_requests_total", code, host, method) == count_, (code, method)
        assert seen["201", "POST"] >= 5 and seen["200", "PUT"] == 2, "renewed once, and released"


async def test_a_token_and_a_certificate_may_be_rotated_meanwhile(tmp_path):
    """BR-124: the old token answers 401. And the server comes back with a certificate of another authority."""
    token, ca = tmp_path / "token", tmp_path / "ca.pem"
    token.write_text("first")
    certificate = self_signed(["127.0.0.1"])
    ca.write_bytes(certificate.ca_pem)
    server = Server(port=free_port(), certificate=certificate, token="first", node_simulator=False)
    await server.start()
    server.load([make_node("n1").capacity(cpu=4, memory="8Gi", pods=20).dict(), *pods("first", 3)])
    cluster = ClusterConfig(server.url, ca=PemSource(path=str(ca)))
    connection = ClientConfig(cluster, UserConfig(token_file=str(token)))
    clock = Skipping()
    async with live(server, connection=connection, clock=clock) as scheduler:
        await placed(scheduler, 3)
        server.token = "second"
        token.write_text("second")
        server.load(pods("second", 3))
        await placed(scheduler, 6)
        await server.stop()
        renewed = self_signed(["127.0.0.1"])
        ca.write_bytes(renewed.ca_pem)
        clock.skipped_s = 61.0  # files of certificates are looked at once a minute
        server._tls = server_context(renewed)
        server.load(pods("third", 3))
        await server.start()
        await placed(scheduler, 9)
    await server.stop()
    assert all(doc["spec"].get("nodeName") for doc in stored(server, "pods"))


# -- what the tests are made of

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"


class Hurried(RealClock):
    """Does not wait between two looks."""

    async def sleep(self, seconds):
        await asyncio.sleep(0)


class Skipping(RealClock):
    """The real one, but for time that has passed in between."""

    def __init__(self):
        self.skipped_s = 0.0

    def monotonic(self):
        return time.monotonic() + self.skipped_s


class InProcess(logging.Handler):
    """`kubesched run` in this process: what it says, when it has started, how it has ended."""

    def __init__(self, port, folder):
        super().__init__()
        self.port = port
        self.folder = folder
        self.lines: list[str] = []
        self.started = asyncio.Event()
        self.code: int | None = None
        self._more = asyncio.Event()

    def emit(self, record):
        self.lines.append(record.getMessage())
        self._more.set()

    async def said(self, text, times=1):
        async with asyncio.timeout(PATIENCE_S):
            while sum(text in line for line in self.lines) < times:
                self._more.clear()
                await self._more.wait()

    async def ask(self, path):
        context = ssl.create_default_context(cafile=self.folder / "certs" / "kube-scheduler.crt")
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self.port}{path}", ssl=context) as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def in_process(server, folder, *, serve=False, settings=FAST):
    """Stopped by SIGTERM at the end, if it has not been before."""
    write_kubeconfig(server, folder / "kubeconfig")
    port = free_port() if serve else 0
    flags = Flags(bind_address="127.0.0.1", secure_port=port, cert_dir=str(folder / "certs"))
    scheduler = InProcess(port, folder)
    logging.getLogger("kubesched").addHandler(scheduler)
    before = logging.getLogger("kubesched").level
    logging.getLogger("kubesched").setLevel(logging.INFO)
    options = RunOptions(
        live=LiveOptions(config.load(settings), IN_TREE, seed=1, flush_events_s=PATIENCE_S),
        flags=flags,
        kubeconfig=str(folder / "kubeconfig"),
        on_started=lambda _live, _server: scheduler.started.set(),
    )
    running = asyncio.create_task(run(options))
    try:
        await scheduler.said("starting kubesched")
        yield scheduler
        if not any(line == "stopping" for line in scheduler.lines):
            os.kill(os.getpid(), signal.SIGTERM)
        scheduler.code = await asyncio.wait_for(running, PATIENCE_S)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        logging.getLogger("kubesched").removeHandler(scheduler)
        logging.getLogger("kubesched").setLevel(before)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR2):
            asyncio.get_running_loop().remove_signal_handler(number)


def live(server, settings=FAST, connection=None, clock=None):
    options = LiveOptions(config.load(settings), IN_TREE, seed=1, flush_events_s=PATIENCE_S)
    return scheduling(server, options, connection=connection, clock=clock)


def resource(group, plural):
    return next(each for each in RESOURCES if (each.group, each.plural) == (group, plural))


def stored(server, plural):
    groups = {"pods": "", "events": "", "leases": "coordination.k8s.io"}
    return [each.document() for each in server.store.of(resource(groups[plural], plural)).scan()]


def held_lease(holder, *, seconds):
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": seconds, "leaseTransitions": 0,
            "acquireTime": "2026-01-01T00:00:00.000000Z", "renewTime": "2026-01-01T00:00:00.000000Z",
        },
    }  # fmt: skip
