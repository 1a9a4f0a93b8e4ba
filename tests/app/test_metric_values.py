"""A run that exercises the scheduler, and its numbers against numbers that were counted from outside.

Counted independently: binds and victims by the port that carries them out, attempts and rejections by a plugin of the
test, the queue by what its parts hold.
"""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubesched.api.errors import ApiError
from kubesched.framework import Plugin, Status
from tests.build import make_node, make_pod
from tests.harness import Harness

RECORDED = gzip.decompress(
    (Path(__file__).resolve().parents[1] / "data" / "metrics" / "recorded.txt.gz").read_bytes()
).decode()
#: Names of the original that the recording has no series of.
ALSO = {"scheduler_permit_wait_duration_seconds": "BETA"}
POINTS = {"PreEnqueue", "PreFilter", "Filter", "PostFilter", "PreScore", "Score", "Reserve", "Unreserve", "Permit",
          "PreBindPreFlight", "PreBind", "Bind", "PostBind", "Sign"}  # fmt: skip

attempts: Counter[str] = Counter()


class Counting(Plugin):
    """Counts attempts at the first point of each; holds, and rejects, who asks for it by a label."""

    name = "Counting"

    def pre_filter(self, state, pod, nodes):
        attempts[pod.metadata.name] += 1

    def permit(self, state, pod, node_name):
        if pod.metadata.labels.get("permit") == "wait":
            return Status.wait(), 5.0
        if pod.metadata.labels.get("permit") == "no":
            return Status.unschedulable("not permitted")
        return None

    def reserve(self, state, pod, node_name):
        return None

    async def pre_bind(self, state, pod, node_name):
        return None

    async def post_bind(self, state, pod, node_name):
        return None


@pytest.fixture
async def run():
    """Every kind of outcome once; the harness afterwards."""
    attempts.clear()
    harness = Harness(Counting)
    harness.apply(*(make_node(f"n{i}").capacity(cpu=4, memory="16Gi", pods=20).obj() for i in range(3)))
    harness.apply(*(make_pod(f"plain-{i}").cpu("500m").obj() for i in range(6)))
    await harness.settle()
    harness.apply(make_pod("gated").gate("wait").obj())
    harness.apply(make_pod("elsewhere").node_selector({"no": "where"}).obj())
    harness.apply(make_pod("held").label("permit", "wait").obj(), make_pod("refused").label("permit", "no").obj())
    await harness.settle()
    harness.port.bind_answers.append(ApiError(409, "Conflict", "no luck", {}))
    harness.apply(make_pod("unlucky").obj())
    await harness.settle()
    await harness.pass_time(8)
    harness.apply(*(make_pod(f"low-{i}").cpu(3).priority(1).obj() for i in range(3)))
    await harness.settle()
    harness.apply(make_pod("vip").cpu("3500m").priority(1000).obj())
    await harness.settle()
    yield harness
    await harness.stop()


def parsed(harness):
    families = {}
    for family in text_string_to_metric_families(harness.metrics.render().decode()):
        name = family.name + ("_total" if family.type == "counter" else "")
        families[name] = family
    return families


def recorded_levels():
    found = dict(re.findall(r"^# HELP (scheduler_\S+) \[(STABLE|BETA)\]", RECORDED, re.M))
    return {**found, **ALSO}


def labels_of(family):
    return {frozenset(sample.labels) - {"le"} for sample in family.samples}


async def test_every_stable_and_beta_name_is_there_with_its_type_and_labels(run):
    ours = parsed(run)
    theirs = {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(RECORDED)
    }
    levels = recorded_levels()
    assert len(levels) == 13
    assert levels.keys() - ours.keys() == set()
    for name in levels.keys() & theirs.keys():
        assert ours[name].type == theirs[name].type, name
        assert labels_of(ours[name]) == labels_of(theirs[name]), name
    assert labels_of(ours["scheduler_permit_wait_duration_seconds"]) == {frozenset({"result"})}


async def test_binds_and_attempts_are_counted(run):
    value = run.metrics.value
    bound = [name for name, _ in run.port.binds()]
    failed_binds = 1
    scheduled = len(bound) - failed_binds
    assert value("scheduler_schedule_attempts_total", "scheduled", "default-scheduler") == scheduled
    assert value("scheduler_schedule_attempts_total", "error", "default-scheduler") == failed_binds
    total = sum(value("scheduler_schedule_attempts_total", result, "default-scheduler")
                for result in ("scheduled", "unschedulable", "error"))  # fmt: skip
    assert total + run.scheduler.binding_count == attempts.total()
    for name in ("scheduler_scheduling_attempt_duration_seconds", "scheduler_schedule_attempts_total"):
        for result in ("scheduled", "unschedulable", "error"):
            assert value(name, result, "default-scheduler") == value(
                "scheduler_schedule_attempts_total", result, "default-scheduler"
            )
    assert value("scheduler_scheduling_algorithm_duration_seconds") == attempts.total()
    assert value("scheduler_pod_scheduling_attempts") == scheduled
    assert Counter(bound)["unlucky"] == 2, "refused once, then bound"
    by_attempts = Counter(attempts[name] for name in set(bound))
    for count, pods in by_attempts.items():
        assert value("scheduler_pod_scheduling_sli_duration_seconds", str(count)) == pods


async def test_preemption_is_counted(run):
    victims = [call[1] for call in run.port.calls if call[0] == "delete"]
    assert len(victims) >= 1
    samples = parsed(run)["scheduler_preemption_victims"].samples
    assert next(s.value for s in samples if s.name.endswith("_sum")) == len(victims)
    assert run.metrics.value("scheduler_preemption_victims") == 1
    assert run.metrics.value("scheduler_preemption_attempts_total") >= 1


async def test_queue_moves_are_counted(run):
    """Every attempt was popped, and every pod popped had come into the active queue."""
    queue = run.queue
    samples = parsed(run)["scheduler_queue_incoming_pods_total"].samples
    incoming: Counter[str] = Counter()
    for sample in samples:
        incoming[sample.labels["queue"]] += sample.value
    assert incoming["active"] == attempts.total() + len(queue.active)
    value = run.metrics.value
    parked = list(queue.parked)
    assert value("scheduler_pending_pods", "active") == len(queue.active)
    assert value("scheduler_pending_pods", "backoff") == len(queue.backoff)
    assert value("scheduler_pending_pods", "gated") == sum(bool(pod.gated_by) for pod in parked) == 1
    assert value("scheduler_pending_pods", "unschedulable") == sum(not pod.gated_by for pod in parked)
    blamed: Counter[str] = Counter()
    for pod in (*parked, *queue.backoff):
        blamed.update(pod.rejected_by | ({pod.gated_by} if pod.gated_by else set()))
    for plugin, count in blamed.items():
        assert value("scheduler_unschedulable_pods", plugin, "default-scheduler") == count, plugin


async def test_extension_points_are_timed_as_often_as_they_ran(run):
    family = parsed(run)["scheduler_framework_extension_point_duration_seconds"]
    counts: Counter[tuple[str, str]] = Counter()
    for sample in family.samples:
        if sample.name.endswith("_count"):
            counts[sample.labels["extension_point"], sample.labels["status"]] += sample.value
    assert {point for point, _ in counts} == POINTS
    at = lambda point: sum(count for (each, _), count in counts.items() if each == point)  # noqa: E731
    binds = run.port.binds()
    assert at("PreFilter") == at("Filter") == attempts.total()
    assert counts["Bind", "Success"] == len(binds) - 1
    assert counts["Bind", "Error"] == 1
    assert at("PostBind") == len(binds) - 1
    assert counts["Permit", "Wait"] >= 1 and counts["Permit", "Unschedulable"] >= 1
    assert at("Reserve") == at("Permit")
    assert at("PreScore") == at("Score") > 0
    assert at("PreEnqueue") >= len(attempts)


async def test_permits_bindings_and_events_are_counted(run):
    value = run.metrics.value
    assert (
        value("scheduler_permit_wait_duration_seconds", "Unschedulable")
        == attempts["held"] - run.scheduler.binding_count
    )
    assert value("scheduler_goroutines", "binding") == run.scheduler.binding_count
    assert value("scheduler_event_handling_duration_seconds", "NodeAdd") == 3
    assert value("scheduler_inflight_events", "PodPopped") == len(run.queue.in_flight)


async def test_evaluations_are_counted_where_a_plugin_was_asked(run):
    value = run.metrics.value
    assert value("scheduler_plugin_evaluation_total", "Counting", "PreFilter", "default-scheduler") == attempts.total()
    assert value("scheduler_plugin_evaluation_total", "NodeName", "Filter", "default-scheduler") > 0
    shown = {
        (sample.labels["plugin"], sample.labels["extension_point"])
        for sample in parsed(run)["scheduler_plugin_evaluation_total"].samples
    }
    assert ("NodePorts", "Filter") in shown  # with 0: it skipped every pod


async def test_one_cycle_in_ten_times_every_plugin(run):
    observed = parsed(run)["scheduler_plugin_execution_duration_seconds"].samples
    points = {sample.labels["extension_point"] for sample in observed}
    assert points & {"PreFilter", "Filter"}
    names = {sample.labels["plugin"] for sample in observed if sample.labels["extension_point"] == "PreEnqueue"}
    assert "SchedulingGates" in names
