"""What the queue tells people about the pods in it, and how the command shows it."""

from __future__ import annotations

import io
import json

import pytest

from kubesched.api.errors import ApiError
from kubesched.cli.main import main
from tests.build import make_node, make_pod
from tests.scheduler.test_queue import rejecting, started


async def busy():
    harness = await started(rejecting("Deaf"))
    harness.port.bind_answers.append(ApiError(409, "Conflict", "try again"))
    harness.apply(make_pod("failed").obj())
    await harness.settle()
    harness.apply(
        make_pod("parked").cpu("8").priority(7).obj(),
        make_pod("gated").gate("g").obj(),
        make_pod("placed").node("n1").obj(),
    )
    await harness.settle()
    harness.apply(make_pod("second").obj(), make_pod("first").priority(9).obj())
    harness.scheduler.inbox.apply_all()
    return harness


async def test_a_parked_pod_says_what_would_wake_it_and_when_it_is_tried_at_the_latest():
    harness = await busy()
    report = harness.scheduler.pod_report("default", "parked")
    assert report["queue"] == "unschedulable" and report["attempts"] == 1 and report["priority"] == 7
    assert report["rejectedBy"] == ["NodeResourcesFit"]
    assert report["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")
    (waits,) = report["wakes"]
    assert waits["plugin"] == "NodeResourcesFit" and any(label.startswith("NodeAdd") for label in waits["events"])
    assert report["nextTry"]["latest"] == "2026-01-01T00:05:00Z"


async def test_pods_in_other_places():
    harness = await busy()

    def told(name):
        return harness.scheduler.pod_report("default", name)

    assert (told("first")["position"], told("second")["position"]) == (0, 1)
    assert told("first")["nextTry"] == {"when": "next"}
    assert told("failed")["queue"] == "backoff" and told("failed")["nextTry"]["at"] == "2026-01-01T00:00:02Z"
    assert told("failed")["message"] == 'running Bind plugin "DefaultBinder": try again'
    assert told("gated")["gatedBy"] == "SchedulingGates" and told("gated")["wakes"]
    assert told("placed") == {"queue": "placed", "pod": "default/placed", "uid": told("placed")["uid"], "node": "n1"}
    assert told("unknown") is None
    popped = harness.queue.pop()
    assert told(popped.pod.metadata.name)["queue"] == "in flight"


async def test_a_pod_rejected_by_somebody_without_events_waits_for_anything():
    harness = await started()
    harness.apply(make_pod("p").obj())
    harness.scheduler.inbox.apply_all()
    queued = harness.queue.pop()
    queued.unschedulable_plugins = {"Extender"}
    harness.queue.add_rejected(queued)
    (waits,) = harness.scheduler.pod_report("default", "p")["wakes"]
    fit = harness.queue.table("default-scheduler").registered["NodeResourcesFit"]
    assert waits["plugin"] == "*" and {entry.event.label for entry in fit} < set(waits["events"])


async def test_the_whole_queue_in_order():
    harness = await busy()
    report = harness.scheduler.queue_report()
    names = {queue: [pod["pod"] for pod in report[queue]] for queue in ("active", "backoff", "unschedulable", "gated")}
    assert names == {
        "active": ["default/first", "default/second"],
        "backoff": ["default/failed"],
        "unschedulable": ["default/parked"],
        "gated": ["default/gated"],
    }
    assert report["inFlight"] == [] and report["binding"] == 0
    json.dumps(report)


async def test_the_command_shows_a_dump(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("COLUMNS", "200")
    harness = await busy()
    dump = tmp_path / "queue.json"
    dump.write_text(json.dumps(harness.scheduler.queue_report()))
    assert main(["queue", "-f", str(dump)]) == 0
    shown = capsys.readouterr().out
    assert "2 active, 1 in backoff, 1 unschedulable, 1 gated, 0 in flight, 0 being bound." in shown
    assert "events for NodeResourcesFit" in shown and "its backoff, until 2026-01-01T00:00:02Z" in shown
    monkeypatch.setattr("sys.stdin", io.StringIO(dump.read_text()))
    assert main(["queue", "--pod", "parked", "-o", "json"]) == 0
    only = json.loads(capsys.readouterr().out)
    assert [pod["pod"] for pod in only["unschedulable"]] == ["default/parked"] and only["active"] == []


@pytest.mark.parametrize("text", ["no json", "[1]", '{"active": 3}'], ids=["text", "list", "odd"])
def test_what_is_no_dump_is_refused_in_one_line(capsys, tmp_path, text):
    path = tmp_path / "dump"
    path.write_text(text)
    assert main(["queue", "-f", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


async def test_node_is_named_while_a_pod_is_being_bound():
    harness = await started()

    async def slow():
        await harness.clock.sleep(5)

    harness.port.bind_answers.append(slow)
    harness.apply(make_node("n1").capacity(cpu=4, pods=10).obj(), make_pod("p").obj())
    await harness.settle()
    assert harness.scheduler.pod_report("default", "p") | {"uid": ""} == {
        "queue": "binding",
        "pod": "default/p",
        "uid": "",
        "node": "n1",
        "attempts": 1,
        "stage": "Bind",
    }
    await harness.pass_time(6)
