"""What the queue tells people about the pods in it, and how the command shows it."""

from __future__ import annotations

import gc
import io
import json
import weakref

import pytest
from rich.console import Console

from kubesched.api.errors import ApiError
from kubesched.cli.main import main
from kubesched.cli.queue import show
from kubesched.framework import Plugin, Status
from kubesched.scheduler.queue.last_attempt import GROUPS_MAX
from tests.build import make_node, make_pod
from tests.harness import Harness
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
    assert told("failed")["queue"] == "error backoff" and told("failed")["nextTry"]["at"] == "2026-01-01T00:00:02Z"
    assert told("failed")["message"] == 'running Bind plugin "DefaultBinder": try again'
    assert told("gated")["gatedBy"] == "SchedulingGates" and told("gated")["wakes"]
    assert told("placed") == {
        "time": "2026-01-01T00:00:00Z",
        "queue": "bound",
        "pod": "default/placed",
        "uid": told("placed")["uid"],
        "profile": "default-scheduler",
        "node": "n1",
    }
    assert told("unknown") is None


async def test_a_pod_rejected_by_somebody_without_events_waits_for_anything():
    harness = await started()
    harness.apply(make_pod("p").obj())
    harness.scheduler.inbox.apply_all()
    queued = harness.queue.pop()
    queued.unschedulable_plugins = {"Extender"}
    harness.queue.add_rejected(queued)
    (waits,) = harness.scheduler.pod_report("default", "p")["wakes"]
    assert waits["plugin"] == "*"
    assert {"NodeAdd|UpdateNodeTaint", "NamespaceAdd|Delete|Update"} < set(waits["events"])


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
    assert main(["queue", "-", "--pod", "parked", "-o", "json"]) == 0
    only = json.loads(capsys.readouterr().out)
    assert [pod["pod"] for pod in only["unschedulable"]] == ["default/parked"] and only["active"] == []


def test_names_stay_whole_on_a_narrow_terminal():
    why = "0/6 nodes are available: 4 Insufficient cpu, 2 node(s) were unschedulable."
    pod = {"pod": "shop/web-5c9c8f7b6d-x2x7k", "priority": 7, "attempts": 3, "since": "2026-01-01T00:00:00Z"}
    dump = {"unschedulable": [pod | {"message": why, "rejectedBy": ["NodeResourcesFit", "NodeUnschedulable"]}]}

    def shown(width: int) -> list[str]:
        output = io.StringIO()
        show(dump, Console(file=output, width=width))
        return output.getvalue().splitlines()

    assert shown(80)[:3] == [
        "unschedulable  shop/web-5c9c8f7b6d-x2x7k: priority 7, attempts 3, since 2026-01-01T00:00:00Z",
        "               waits for events for NodeResourcesFit, NodeUnschedulable",
        f"               {why}",
    ]
    wide = "\n".join(shown(170))
    assert "│ unschedulable │ shop/web-5c9c8f7b6d-x2x7k │        7 │        3 │" in wide
    assert "events for NodeResourcesFit, NodeUnschedulable │ 0/6 nodes" in wide


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
        "time": "2026-01-01T00:00:00Z",
        "queue": "binding",
        "pod": "default/p",
        "uid": "",
        "profile": "default-scheduler",
        "node": "n1",
        "attempts": 1,
        "since": "2026-01-01T00:00:00Z",
        "stage": "Bind",
    }
    await harness.pass_time(6)


OTHER_DISK = "node(s) didn't match Pod's node affinity/selector"
LAST_ATTEMPTS = {
    "counts by plugin and reason": (
        [make_pod("p").cpu("8").node_selector({"disk": "ssd"})],
        {
            "message": f"0/3 nodes are available: 1 Insufficient cpu, 2 {OTHER_DISK}.",
            "rejected": [
                {
                    "plugin": "NodeAffinity",
                    "code": "UnschedulableAndUnresolvable",
                    "reasons": [OTHER_DISK],
                    "nodes": 2,
                },
                {
                    "plugin": "NodeResourcesFit",
                    "code": "UnschedulableAndUnresolvable",
                    "reasons": ["Insufficient cpu"],
                    "nodes": 1,
                },
            ],
            "preemption": {"message": "0/3 nodes are available: 3 Preemption is not helpful for scheduling."},
        },
    ),
    "a rejection of the pod itself": (
        [make_pod("p").pvc("missing")],
        {
            "message": '0/3 nodes are available: persistentvolumeclaim "missing" not found.',
            "rejected": [
                {
                    "plugin": "VolumeRestrictions",
                    "code": "UnschedulableAndUnresolvable",
                    "reasons": ['persistentvolumeclaim "missing" not found'],
                    "nodes": 3,
                }
            ],
        },
    ),
    "a node where preemption makes room": (
        [make_pod("low").cpu("3").node("n1"), make_pod("p").cpu("3").node_selector({"disk": "ssd"}).priority(10)],
        {
            "message": f"0/3 nodes are available: 1 Insufficient cpu, 2 {OTHER_DISK}.",
            "preemption": {"nominatedNode": "n1"},
        },
    ),
}


@pytest.mark.parametrize(("pods", "expected"), LAST_ATTEMPTS.values(), ids=LAST_ATTEMPTS)
async def test_the_last_attempt_by_reason_with_what_preemption_said(pods, expected):
    nodes = [make_node("n1").label("disk", "ssd"), make_node("n2"), make_node("n3")]
    harness = await started(nodes=[each.capacity(cpu=4, memory="8Gi", pods=10).obj() for each in nodes])
    harness.apply(*(pod.obj() for pod in pods))
    await harness.settle()
    report = harness.scheduler.pod_report("default", "p")
    last = report["lastAttempt"]
    assert last["at"] == "2026-01-01T00:00:00Z"
    if said := last["preemption"].get("message"):  # each PostFilter plugin says something
        last["preemption"]["message"] = said.rpartition("preemption: ")[2]
    assert {name: last[name] for name in expected} == expected
    assert report.get("nominatedNode", "") == expected.get("preemption", {}).get("nominatedNode", "")
    assert last.get("messageWithPreemption", last["message"]) == report["message"]


async def test_an_error_names_its_plugin():
    harness = await busy()
    assert harness.scheduler.pod_report("default", "failed")["lastAttempt"] == {
        "error": 'running Bind plugin "DefaultBinder": try again',
        "plugin": "DefaultBinder",
        "at": "2026-01-01T00:00:00Z",
    }


async def test_a_pod_that_was_woken_is_not_tried_before_its_backoff_is_over():
    harness = await busy()
    assert harness.scheduler.pod_report("default", "parked")["nextTry"]["notBefore"] == "2026-01-01T00:00:02Z"
    harness.apply(make_node("n2").capacity(cpu=4, memory="8Gi", pods=10).obj(), make_node("n3").capacity(cpu=16).obj())
    harness.scheduler.inbox.apply_all()
    told = harness.scheduler.pod_report("default", "parked")
    assert told["queue"] == "backoff" and "wakes" not in told
    assert told["nextTry"] == {"when": "its backoff is over", "at": "2026-01-01T00:00:02Z", "orBefore": "idle"}
    assert told["lastAttempt"]["rejected"][0]["plugin"] == "NodeResourcesFit"


class Holds(Plugin):
    """Holds every pod until somebody allows it."""

    name = "Holds"

    def permit(self, state, pod, node_name):
        return Status.wait(), 30.0


async def test_a_pod_that_waits_in_permit_names_who_holds_it_and_until_when():
    harness = await started(Holds)
    harness.apply(make_pod("p").cpu("1").obj())
    await harness.settle()
    told = harness.scheduler.pod_report("default", "p")
    assert (told["queue"], told["node"], told["stage"]) == ("waiting on permit", "n1", "Permit")
    assert told["waitsFor"] == [{"plugin": "Holds", "until": "2026-01-01T00:00:30Z"}]
    await harness.pass_time(31)
    told = harness.scheduler.pod_report("default", "p")
    assert told["lastAttempt"]["rejected"] == [
        {
            "plugin": "Holds",
            "code": "Unschedulable",
            "reasons": ["rejected due to timeout after waiting 30s at plugin Holds"],
            "nodes": 1,
        }
    ]


class Talkative(Plugin):
    """Has something else to say about every node."""

    name = "Talkative"

    def filter(self, state, pod, node):
        return Status.unschedulable(f"{node.name} is not to my taste") if pod.metadata.name != "liked" else None


async def test_of_the_last_attempt_no_more_than_the_largest_groups_are_kept():
    nodes = [make_node(f"n{number}").capacity(cpu=4, pods=10).obj() for number in range(50)]
    harness = await started(Talkative, nodes=nodes)
    harness.apply(make_pod("p").obj())
    await harness.settle()
    last = harness.scheduler.pod_report("default", "p")["lastAttempt"]
    assert len(last["rejected"]) == GROUPS_MAX and last["rejectedBeyond"] == 50 - GROUPS_MAX


ENDS = {
    "bound": lambda harness: harness.apply(make_node("big").capacity(cpu=64, memory="8Gi", pods=10).obj()),
    "deleted": lambda harness: harness.delete(harness.scheduler.handlers.pending[UID]),
    "bound by another": lambda harness: harness.apply(make_pod("p").uid(UID).cpu("16").node("n1").obj()),
    "another's": lambda harness: harness.apply(make_pod("p").uid(UID).cpu("16").scheduler("other").obj()),
}
UID = "7d6b2f4e-0000-4000-8000-000000000001"


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
async def test_one_last_attempt_a_pending_pod_is_kept_and_goes_with_it(end):
    harness = await started()
    harness.apply(make_pod("p").uid(UID).cpu("16").obj())
    await harness.settle()
    first = weakref.ref(harness.queue.find(UID).last_attempt)
    harness.apply(make_node("n2").capacity(cpu=16, memory="8Gi", pods=10).taint("not", "ours").obj())
    await harness.pass_time(5)
    second = weakref.ref(harness.queue.find(UID).last_attempt)
    gc.collect()
    assert first() is None and second() is not None
    end(harness)
    await harness.pass_time(30)
    gc.collect()
    assert second() is None


class Refuses(Plugin):
    """Says no when all is prepared."""

    name = "Refuses"

    async def pre_bind(self, state, pod, node_name):
        return Status.unschedulable("the disk is gone")


async def test_a_rejection_while_binding_is_about_the_one_node():
    harness = await started(Refuses, nodes=[make_node(name).capacity(cpu=4, pods=10).obj() for name in ("n1", "n2")])
    harness.apply(make_pod("p").obj())
    await harness.settle()
    last = harness.scheduler.pod_report("default", "p")["lastAttempt"]
    assert [(each["plugin"], each["nodes"]) for each in last["rejected"]] == [("Refuses", 1)]
    assert "the disk is gone" in last["message"]


async def test_without_nodes_nobody_rejected_the_pod():
    harness = Harness()
    harness.apply(make_pod("p").obj())
    await harness.settle()
    report = harness.scheduler.pod_report("default", "p")
    assert report is not None
    assert report["lastAttempt"] == {
        "message": "no nodes available to schedule pods",
        "rejected": [],
        "at": "2026-01-01T00:00:00Z",
    }
