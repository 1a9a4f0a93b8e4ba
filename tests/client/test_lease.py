"""Leader election by manual time, against the embedded API server without sockets; at the end, on real threads."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kubesched.apiserver import Server
from kubesched.client.auth import FixedCredentials, Grant
from kubesched.client.kubeconfig import ClientConfig, ClusterConfig, UserConfig
from kubesched.client.lease import LeaderElection, LeaseElector, LeaseSettings, NotLeadingError
from kubesched.client.rest import ApiClient, connect
from kubesched.clock import Chance, ManualClock, RealClock
from tests.client.doubles import InProcess, reply
from tests.client.wire import status

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


class Candidate:
    def __init__(self, name: str, server: Server, clock: ManualClock, seed: int = 0) -> None:
        self.transport = InProcess(server)
        client = ApiClient(self.transport, FixedCredentials(Grant()), clock)
        self.elector = LeaseElector(client, name, clock, Chance(seed), LeaseSettings())
        self.leads = asyncio.Event()
        self.task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        await self.elector.acquire()
        self.leads.set()
        await self.elector.hold()

    @property
    def may_write(self) -> bool:
        try:
            self.elector.check()
        except NotLeadingError:
            return False
        return True

    async def die(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    @property
    def sent(self) -> list[str]:
        return [f"{sent.method} {sent.target.partition('?')[0].rsplit('/', 1)[-1]}" for sent in self.transport.sent]


@asynccontextmanager
async def election():
    clock = ManualClock(start=1_796_000_000.0)
    server = Server(clock=clock, chance=Chance(1), node_simulator=False)
    made: list[Candidate] = []

    def join(name: str) -> Candidate:
        made.append(Candidate(name, server, clock, len(made)))
        return made[-1]

    try:
        yield clock, join
    finally:
        for candidate in made:
            await candidate.die()


async def spec_of(candidate: Candidate) -> dict[str, Any]:
    body = await candidate.elector._client.get(f"{LEASE}/kube-scheduler")
    return dict(json.loads(body)["spec"])


async def test_the_first_one_takes_a_new_lease_as_recorded():
    async with election() as (clock, join):
        a = join("host_a")
        with pytest.raises(NotLeadingError, match="lease kube-system/kube-scheduler is not held by host_a"):
            a.elector.check()
        await clock.run(0)
        assert a.may_write
        # b09: GET 404, POST, an Event, and at once a first renewal.
        assert a.sent == ["GET kube-scheduler", "POST leases", "POST events", "PUT kube-scheduler"]
        assert all(sent.target.endswith("?timeout=5s") for sent in a.transport.sent if "leases" in sent.target)
        created, event, renewed = (sent.json for sent in a.transport.sent[1:])
        assert created == {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": "host_a",
                "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-30T00:53:20.000000Z",
                "renewTime": "2026-11-30T00:53:20.000000Z",
                "leaseTransitions": 0,
            },
        }
        assert renewed["metadata"]["resourceVersion"]
        name = event["metadata"].pop("name")
        assert name.startswith("kube-scheduler.")
        assert event.pop("involvedObject").keys() == {
            "kind", "namespace", "name", "uid", "apiVersion", "resourceVersion",
        }  # fmt: skip
        assert event == {
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"namespace": "kube-system"},
            "reason": "LeaderElection",
            "message": "host_a became leader",
            "source": {"component": "default-scheduler"},
            "firstTimestamp": "2026-11-30T00:53:20Z",
            "lastTimestamp": "2026-11-30T00:53:20Z",
            "count": 1,
            "type": "Normal",
            "eventTime": None,
            "reportingComponent": "default-scheduler",
            "reportingInstance": "",
        }
        a.transport.sent.clear()
        await clock.run(10)
        assert a.sent == ["PUT kube-scheduler"] * 5, "every two seconds, without looking first"
        assert (await spec_of(a))["renewTime"] == "2026-11-30T00:53:30.000000Z"


async def test_the_second_one_stands_by_and_takes_over_within_a_retry_period_of_a_release():
    async with election() as (clock, join):
        a = join("a")
        await clock.run(3)
        b = join("b")
        await clock.run(300)
        assert a.may_write
        assert not b.may_write
        assert b.elector.holder == "a"
        assert set(b.sent) == {"GET kube-scheduler"}
        assert 300 / 4.4 <= len(b.sent) <= 300 / 2 + 1, "jittered, one to 2.2 periods apart"
        await a.die()
        await a.elector.release()
        assert not a.may_write
        released = await spec_of(a)
        assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)
        await clock.run(4.5)
        assert b.may_write
        taken = await spec_of(b)
        assert (taken["holderIdentity"], taken["leaseDurationSeconds"], taken["leaseTransitions"]) == ("b", 15, 1)


async def test_after_a_crash_it_is_taken_when_nothing_changed_for_its_duration():
    async with election() as (clock, join):
        a = join("a")
        b = join("b")
        await clock.run(60)
        await a.die()
        died_at_s = clock.monotonic()
        while not b.may_write:
            await clock.run(0.5)
            assert clock.monotonic() < died_at_s + 25, "nobody takes over"
            assert not (a.may_write and b.may_write)
        assert 13 <= clock.monotonic() - died_at_s <= 15 + 4.5
        assert not a.may_write


async def test_clocks_of_the_machines_need_not_agree():
    """What counts is when the lease was seen to change, not the times written in it."""
    async with election() as (clock, join):
        a = join("a")
        await clock.run(1)
        lease = json.loads(await a.elector._client.get(f"{LEASE}/kube-scheduler"))
        lease["spec"] |= {"holderIdentity": "other", "renewTime": "2001-01-01T00:00:00.000000Z"}
        await a.die()
        await a.elector._client.request("PUT", f"{LEASE}/kube-scheduler", json.dumps(lease).encode())
        b = join("b")
        await clock.run(14)
        assert not b.may_write
        await clock.run(5.5)
        assert b.may_write


async def test_a_refused_renewal_is_looked_into_and_repeated():
    async with election() as (clock, join):
        a = join("a")
        await clock.run(1)
        a.transport.sent.clear()
        refusals = [reply(409, status(409, "Conflict", "the object has been modified"))]

        async def once(sent):
            return refusals.pop() if sent.method == "PUT" and refusals else None

        a.transport.before = once
        await clock.run(2)
        assert a.sent == ["PUT kube-scheduler", "GET kube-scheduler", "PUT kube-scheduler"]
        assert a.may_write


async def test_renewals_failing_for_the_deadline_lose_the_lease(caplog):
    async with election() as (clock, join):
        a = join("a")
        await clock.run(1)
        last_renewal_s = 0.0

        async def refuse(sent):
            return reply(500, status(500, "InternalError", "no")) if sent.method == "PUT" else None

        a.transport.before = refuse
        while not a.task.done():
            assert a.may_write == (clock.monotonic() < last_renewal_s + 10)
            await clock.run(0.5)
        assert 10 <= clock.monotonic() <= 11.5
        assert not a.may_write
        assert "lost the lease" in caplog.text
        # As recorded (b12): an attempt to release, then the event.
        assert a.sent[-3:] == ["GET kube-scheduler", "PUT kube-scheduler", "POST events"]
        assert a.transport.sent[-2].json["spec"]["holderIdentity"] == ""
        assert a.transport.sent[-1].json["message"] == "a stopped leading"


async def test_one_call_that_hangs_costs_nothing():
    """BR-120."""
    async with election() as (clock, join):
        a = join("a")
        await clock.run(1)
        hanging = [True]

        async def hang(sent):
            if sent.method == "PUT" and hanging:
                hanging.pop()
                await asyncio.Event().wait()

        a.transport.before = hang
        for _ in range(40):
            await clock.run(0.5)
            assert a.may_write
        assert not a.task.done()


async def test_the_api_may_be_away_at_the_start():
    async with election() as (clock, join):
        a = join("a")

        async def away(sent):
            return reply(503, b"starting")

        a.transport.before = away
        await clock.run(120)
        assert not a.may_write
        assert not a.task.done()
        a.transport.before = None
        await clock.run(5)
        assert a.may_write


async def test_a_process_that_was_frozen_writes_nothing_when_it_thaws():
    async with election() as (clock, join):
        a = join("a")
        await clock.run(1)
        assert a.may_write
        clock._elapsed_s += 10.0  # time went on and not one instruction of ours ran
        assert not a.may_write
        await clock.run(0)
        assert not a.may_write
        await clock.run(2)
        assert a.task.done(), "and gives up"


async def test_a_lost_answer_to_taking_the_lease_is_found_out():
    async with election() as (clock, join):
        a = join("a")
        lost = [True]

        async def lose(sent):
            if sent.method == "POST" and "leases" in sent.target and lost:
                lost.pop()
                a.transport.before = None
                await a.transport.send(sent)
                return reply(504, b"")
            return None

        a.transport.before = lose
        await clock.run(5)
        assert a.may_write, "it finds itself as the holder"
        assert (await spec_of(a))["leaseTransitions"] == 0


async def test_standing_by_and_stopping_touches_nothing():
    async with election() as (clock, join):
        join("a")
        await clock.run(1)
        b = join("b")
        await clock.run(1)
        await b.die()
        b.transport.sent.clear()
        await b.elector.release()
        assert b.sent == []


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ({"lease_duration_s": 10.0}, "leaseDuration must be greater than renewDeadline"),
        ({"retry_period_s": 9.0}, r"renewDeadline must be greater than retryPeriod\*1.2"),
        ({"retry_period_s": 0.0}, "retryPeriod must be greater than zero"),
    ],
)
def test_times_that_make_no_sense_are_refused(times, message):
    with pytest.raises(ValueError, match=message):
        LeaseSettings(**times)


class ServerThread:
    """The embedded server on a thread of its own, so that a busy test cannot hold it up."""

    url: str

    def __init__(self) -> None:
        self.renewals = 0
        self._up = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self) -> ServerThread:
        self._thread.start()
        assert self._up.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._down.set)
        self._thread.join(PATIENCE_S)

    async def _serve(self) -> None:
        self._loop, self._down = asyncio.get_running_loop(), asyncio.Event()
        async with Server(node_simulator=False) as server:
            server.intercept(self._count)
            self.url = server.url
            self._up.set()
            await self._down.wait()

    async def _count(self, request, proceed):
        reply = await proceed()
        self.renewals += request.method == "PUT" and "/leases/" in request.path
        return reply


#: Only guards against a test that would hang.
PATIENCE_S = 60.0
#: Nobody loses a lease like this because a machine is busy.
LASTING = LeaseSettings(lease_duration_s=90.0, renew_deadline_s=60.0, retry_period_s=0.1)
BRIEF = LeaseSettings(lease_duration_s=3.0, renew_deadline_s=2.0, retry_period_s=0.2)


def elect(url: str, identity: str, settings: LeaseSettings) -> LeaderElection:
    def make() -> tuple[LeaseElector, ApiClient]:
        clock = RealClock()
        client = connect(ClientConfig(ClusterConfig(url), UserConfig()), clock, qps=0)
        return LeaseElector(client, identity, clock, Chance(1), settings), client

    return LeaderElection(make)


async def test_on_a_thread_a_busy_scheduler_does_not_lose_the_lease():
    with ServerThread() as server:
        first = elect(server.url, "first", LASTING)
        with pytest.raises(NotLeadingError):
            first.check()
        first.start()
        async with asyncio.timeout(PATIENCE_S):
            await first.acquired.wait()
        second = elect(server.url, "second", LASTING)
        second.start()
        before, give_up_s = server.renewals, time.monotonic() + PATIENCE_S
        while server.renewals < before + 10:  # pure Python on the main thread, and no turn for its event loop
            sum(range(1000))
            assert time.monotonic() < give_up_s, "no renewal while the scheduler is busy"
        first.check()
        assert not second.acquired.is_set()
        await first.stop()
        with pytest.raises(NotLeadingError):
            first.check()
        async with asyncio.timeout(PATIENCE_S):
            await second.acquired.wait()
        second.check()
        await second.stop()
        assert not second.lost.is_set()


async def test_on_a_thread_a_server_that_dies_costs_the_lease():
    with ServerThread() as server:
        election = elect(server.url, "only", BRIEF)
        election.start()
        async with asyncio.timeout(PATIENCE_S):
            await election.acquired.wait()
    async with asyncio.timeout(PATIENCE_S):
        await election.lost.wait()
    with pytest.raises(NotLeadingError):
        election.check()
    await election.stop()


async def test_a_thread_that_fails_says_so():
    def make() -> tuple[LeaseElector, ApiClient]:
        raise RuntimeError("no such lease")

    election = LeaderElection(make)
    election.start()
    async with asyncio.timeout(PATIENCE_S):
        await election.lost.wait()
    with pytest.raises(RuntimeError, match="no such lease"):
        await election.stop()
