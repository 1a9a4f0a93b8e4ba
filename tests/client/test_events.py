from __future__ import annotations

import asyncio
import logging

import pytest

from kubesched.api import codec, kinds
from kubesched.api.errors import TransportError
from kubesched.client.auth import FixedCredentials, Grant
from kubesched.client.events import EventSink, cut_note
from kubesched.client.rest import ApiClient
from kubesched.clock import ManualClock
from kubesched.framework.ports import EventRecord
from tests.client.doubles import MemoryTransport, reply
from tests.client.wire import status


def pod(name="s1", version="1306", uid="cc517ca9"):
    return codec.from_dict(
        kinds.POD, {"metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}}
    )


def scheduled(regarding, node="n2"):
    return EventRecord(
        regarding, "Normal", "Scheduled", "Binding",
        f"Successfully assigned default/{regarding.metadata.name} to {node}", "default-scheduler",
    )  # fmt: skip


def failed(regarding, note="0/2 nodes are available: 2 Insufficient cpu."):
    return EventRecord(regarding, "Warning", "FailedScheduling", "Scheduling", note, "default-scheduler")


class Bench:
    """A sink on a transport in memory. `settle` lets it do all that it can without time passing."""

    def __init__(self, *answers, **options) -> None:
        self.clock = ManualClock(start=1_796_000_000.295876)
        self.transport = MemoryTransport(list(answers) or [reply(201)])
        client = ApiClient(self.transport, FixedCredentials(Grant()), self.clock)
        self.sink = EventSink(client, self.clock, host="host-1", **options)

    async def __aenter__(self):
        self.sink.start()
        return self

    async def __aexit__(self, *_):
        await self.sink.stop(flush_s=0)

    async def settle(self):
        await self.clock.run(0, turns=50)

    @property
    def sent(self):
        return self.transport.sent


async def test_an_event_as_recorded():
    async with Bench() as bench:
        bench.sink.record(scheduled(pod()))
        assert bench.sent == [], "record only queues"
        await bench.settle()
        sent = bench.sent[0]
        assert (sent.method, sent.target) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
        body = sent.json
        name = body["metadata"].pop("name")
        assert name.startswith("s1.")
        assert int(name[3:], 16) == pytest.approx(1_796_000_000.295876e9, abs=1000)
        # b03-schedule, but for times, uid and host.
        assert body == {
            "kind": "Event",
            "apiVersion": "events.k8s.io/v1",
            "metadata": {"namespace": "default"},
            "eventTime": "2026-11-30T00:53:20.295876Z",
            "reportingController": "default-scheduler",
            "reportingInstance": "default-scheduler-host-1",
            "action": "Binding",
            "reason": "Scheduled",
            "regarding": {
                "kind": "Pod", "namespace": "default", "name": "s1", "uid": "cc517ca9", "apiVersion": "v1",
                "resourceVersion": "1306",
            },
            "note": "Successfully assigned default/s1 to n2",
            "type": "Normal",
            "deprecatedSource": {},
            "deprecatedFirstTimestamp": None,
            "deprecatedLastTimestamp": None,
        }  # fmt: skip


async def test_names_differ_within_one_moment_and_related_objects_are_told():
    async with Bench() as bench:
        record = EventRecord(
            pod(version="1"), "Normal", "Preempted", "Preempting", "x", "default-scheduler", pod("high")
        )
        bench.sink.record(record)
        bench.sink.record(scheduled(pod(version="2")))
        await bench.settle()
        first, second = (sent.json for sent in bench.sent)
        assert first["metadata"]["name"] != second["metadata"]["name"]
        assert first["related"]["name"] == "high"
        assert "related" not in second


class TestSeries:
    async def test_the_second_time_patches_the_first_event(self):
        async with Bench() as bench:
            bench.sink.record(failed(pod()))
            await bench.settle()
            bench.clock.advance(8)
            bench.sink.record(failed(pod(), "0/3 nodes are available: 3 Insufficient cpu."))
            await bench.settle()
            created, patched = bench.sent
            name = created.json["metadata"]["name"]
            assert (patched.method, patched.target) == (
                "PATCH", f"/apis/events.k8s.io/v1/namespaces/default/events/{name}",
            )  # fmt: skip
            assert patched.headers["Content-Type"] == "application/strategic-merge-patch+json"
            assert patched.json == {"series": {"count": 2, "lastObservedTime": "2026-11-30T00:53:28.295876Z"}}

    @pytest.mark.parametrize(
        "other",
        [
            pytest.param(failed(pod(version="1307")), id="another version of the pod"),
            pytest.param(scheduled(pod()), id="another reason"),
            pytest.param(failed(pod("s2")), id="another pod"),
        ],
    )
    async def test_anything_else_is_an_event_of_its_own(self, other):
        async with Bench() as bench:
            bench.sink.record(failed(pod()))
            bench.sink.record(other)
            await bench.settle()
            assert [sent.method for sent in bench.sent] == ["POST", "POST"]

    async def test_further_repetitions_are_told_when_the_series_ends(self):
        async with Bench() as bench:
            for _ in range(10):
                bench.sink.record(failed(pod()))
                await bench.settle()
                bench.clock.advance(1)
            assert [sent.method for sent in bench.sent] == ["POST", "PATCH"]
            await bench.clock.run(7 * 60, turns=50)
            assert bench.sent[-1].json["series"]["count"] == 10
            assert len(bench.sent) == 3
            bench.sink.record(failed(pod()))
            await bench.settle()
            assert bench.sent[-1].method == "POST", "a new story"

    async def test_a_long_series_is_refreshed_every_half_hour(self):
        async with Bench() as bench:
            for _ in range(62):
                bench.sink.record(failed(pod()))
                await bench.clock.run(60, turns=50)
            assert [sent.method for sent in bench.sent] == ["POST", "PATCH", "PATCH", "PATCH"]
            counts = [sent.json["series"]["count"] for sent in bench.sent[1:]]
            assert counts[0] == 2
            assert 28 <= counts[1] <= 32
            assert 58 <= counts[2] <= 62

    async def test_an_event_that_has_expired_is_written_anew(self):
        missing = reply(404, status(404, "NotFound", "events not found"))
        async with Bench(reply(201), missing, reply(201)) as bench:
            bench.sink.record(failed(pod()))
            await bench.settle()
            bench.sink.record(failed(pod()))
            await bench.settle()
            assert [sent.method for sent in bench.sent] == ["POST", "PATCH", "POST"]
            assert bench.sent[2].json["series"]["count"] == 2
            assert bench.sent[2].json["metadata"]["name"] == bench.sent[0].json["metadata"]["name"]

    async def test_what_is_remembered_is_bounded(self):
        async with Bench() as bench:
            for n in range(5000):
                bench.sink.record(failed(pod(f"p{n}")))
            assert len(bench.sink._series) == 4096
            bench.sink.record(failed(pod("p4999")))
            await bench.settle()


class TestFailures:
    @pytest.mark.parametrize("code", [400, 403, 404, 422, 500])
    async def test_refused_is_not_repeated(self, code, caplog):
        async with Bench(reply(code, status(code, "No", "not like this"))) as bench:
            bench.sink.record(scheduled(pod()))
            await bench.settle()
            await bench.clock.run(15, turns=50)
            assert len(bench.sent) == 1
            assert bench.sink.failed == 1
            assert "event not recorded" in caplog.text
            assert "not like this" in caplog.text

    async def test_not_reached_is_tried_again_and_does_not_hold_up_the_others(self):
        async with Bench(TransportError("away"), reply(201), senders=1) as bench:
            bench.sink.record(scheduled(pod("a")))
            bench.sink.record(scheduled(pod("b")))
            await bench.settle()
            assert [sent.json["regarding"]["name"] for sent in bench.sent] == ["a", "b"]
            await bench.clock.run(10, turns=50)
            assert [sent.json["regarding"]["name"] for sent in bench.sent] == ["a", "b", "a"]
            assert bench.sink.failed == 0

    async def test_after_a_dozen_tries_it_is_given_up(self):
        async with Bench(TransportError("away")) as bench:
            bench.sink.record(scheduled(pod()))
            await bench.clock.run(600, turns=50)
            assert len(bench.sent) == 12
            assert bench.sink.failed == 1

    async def test_an_earlier_try_whose_answer_was_lost_counts(self):
        exists = reply(409, status(409, "AlreadyExists", "exists"))
        async with Bench(TransportError("cut"), exists) as bench:
            bench.sink.record(scheduled(pod()))
            await bench.clock.run(11, turns=50)
            assert (len(bench.sent), bench.sink.failed) == (2, 0)

    async def test_a_full_queue_drops_the_oldest_and_says_so_once(self, caplog):
        caplog.set_level(logging.WARNING)
        async with Bench(queue_size=10) as bench:
            for n in range(25):
                bench.sink.record(scheduled(pod(f"p{n}")))
            assert bench.sink.dropped == 15
            await bench.settle()
            await bench.settle()
            names = [sent.json["regarding"]["name"] for sent in bench.sent]
            assert sorted(names) == sorted(f"p{n}" for n in range(15, 25))
            assert [record.getMessage().split(" ")[0] for record in caplog.records] == ["events", "the"]
            assert "dropped_total=15" in caplog.text


class Gated(MemoryTransport):
    """Answers nothing before `gate` is opened; counts how many calls are under way, now and at most."""

    def __init__(self):
        super().__init__([reply(201)])
        self.gate = asyncio.Event()
        self.under_way = 0
        self.most = 0

    async def send(self, request):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await self.gate.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        return await super().send(request)


@pytest.mark.parametrize(
    ("events", "to_come", "senders"),
    [
        pytest.param(9, 0, 4, id="a few"),
        pytest.param(30, 0, 4 + 3, id="beyond it, one more for each ten"),
        pytest.param(3000, 0, 64, id="but not without end"),
        pytest.param(1500, 900, 4, id="the last pods of a backlog: binds go first"),
        pytest.param(1500, 2000, 64, id="too many are to come: events keep pace"),
    ],
)
async def test_senders_get_help_when_events_fall_behind(events, to_come, senders):
    async with Bench(to_come=lambda: to_come) as bench:
        bench.sink._client._transport = slow = Gated()
        await bench.settle()
        for n in range(events):
            bench.sink.record(scheduled(pod(f"p{n}")))
        await bench.settle()
        assert slow.under_way == senders
        slow.gate.set()
        assert await bench.sink.flush(10)
        assert len(slow.sent) == events
        await bench.settle()
        assert not bench.sink._helpers


async def test_help_comes_when_the_last_bind_is_on_its_way():
    to_come = 5
    async with Bench(to_come=lambda: to_come) as bench:
        bench.sink._client._transport = slow = Gated()
        for n in range(2000):
            bench.sink.record(scheduled(pod(f"p{n}")))
        await bench.settle()
        assert slow.under_way == 4
        to_come = 0
        slow.gate.set()
        assert await bench.sink.flush(10)
        assert slow.most > 30
        assert len(slow.sent) == 2000


class TestStopping:
    async def test_what_is_queued_is_sent_first(self):
        before = asyncio.all_tasks()
        bench = Bench()
        bench.sink.start()
        for n in range(20):
            bench.sink.record(scheduled(pod(f"p{n}")))
        await bench.sink.stop()
        assert len(bench.sent) == 20
        assert asyncio.all_tasks() == before, "no task is left behind"

    async def test_but_not_for_longer_than_the_bound(self, caplog):
        class Stuck(MemoryTransport):
            async def send(self, request):
                await asyncio.Event().wait()
                raise AssertionError

        bench = Bench()
        bench.sink._client._transport = Stuck([])
        bench.sink.start()
        for n in range(20):
            bench.sink.record(scheduled(pod(f"p{n}")))
        stopping = asyncio.create_task(bench.sink.stop(flush_s=2))
        await bench.clock.run(1.9)
        assert not stopping.done()
        await bench.clock.run(0.2)
        await stopping
        assert "stopped before all events were sent left=20" in caplog.text


@pytest.mark.parametrize(
    ("note", "expected"),
    [
        pytest.param("x" * 1024, "x" * 1024, id="fits"),
        pytest.param("x" * 1025, "x" * 1020 + " ...", id="too long"),
        pytest.param("ü" * 600, "ü" * 510 + " ...", id="counted in bytes, no character torn"),
    ],
)
def test_notes_are_cut_to_what_the_api_takes(note, expected):
    assert cut_note(note) == expected
    assert len(cut_note(note).encode()) <= 1024
