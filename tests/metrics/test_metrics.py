"""The exported text against the recorded one of kube-scheduler v1.36, and what each method counts."""

import gzip
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from kubesched.metrics import Metrics
from kubesched.metrics.series import Histogram, exponential, spell

DATA = Path(__file__).resolve().parents[1] / "data" / "metrics" / "recorded.txt.gz"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "recordings" / "scheduler-metrics.txt"
RECORDED = gzip.decompress(DATA.read_bytes()).decode()

# Recorded families that kubesched does not export: they describe the Go runtime or parts that it does not have.
NOT_OURS = ("go_", "workqueue_", "rest_client_transport_", "rest_client_exec_plugin_", "process_network_")
NOT_OURS_EXACT = {
    "apiserver_client_certificate_expiration_seconds",
    "authenticated_user_requests",
    "authentication_attempts",
    "authentication_duration_seconds",
    "authorization_attempts",
    "authorization_duration_seconds",
    "cardinality_enforcement_unexpected_categorizations",
    "disabled_metrics",
    "hidden_metrics",
    "registered_metrics",
    "process_virtual_memory_max_bytes",
    "version_info",
}
API_SERVER_LIBRARY = ("aggregator_", "apiserver_", "authentication_token_cache_")


def families(text):
    """name -> (type, label names, bucket bounds in order as spelled)."""
    found = {}
    for family in text_string_to_metric_families(text):
        labels, bounds = set(), []
        for sample in family.samples:
            labels |= set(sample.labels) - {"le"}
            if "le" in sample.labels and sample.labels["le"] not in bounds:
                bounds.append(sample.labels["le"])
        found[family.name] = (family.type, frozenset(labels), tuple(bounds))
    return found


def exercised():
    """Metrics in which every series family has been used once."""
    metrics = Metrics()
    metrics.schedule_attempt("scheduled", "default-scheduler", 0.002)
    metrics.scheduling_algorithm(0.001)
    metrics.pod_scheduled(1, 0.02)
    metrics.pod_scheduled_after_flush()
    metrics.preemption_attempt()
    metrics.preemption_victims(3)
    metrics.preemption_goroutine("success", 0.1)
    metrics.extension_point("Filter", "Success", "default-scheduler", 0.0001)
    metrics.plugin_duration("NodeName", "Filter", "Success", 0.00001)
    metrics.plugin_evaluations("NodeName", "Filter", "default-scheduler").inc(5)
    metrics.permit_wait("Success", 1.5)
    metrics.goroutines("binding").set(2)
    metrics.unschedulable_pods("NodeAffinity", "default-scheduler").inc()
    metrics.pending_pods("active").set(4)
    metrics.queue_incoming_pods("active", "UnschedulablePodAdd")
    metrics.inflight_events("PodPopped").set(1)
    metrics.queueing_hint("VolumeBinding", "PersistentVolumeAdd", "Queue", 0.00002)
    metrics.event_handling_series("NodeAdd").observe(0.0003)
    metrics.cache_size(nodes=3, pods=5, assumed_pods=1)
    metrics.batch_attempt("default-scheduler", "no_hint")
    metrics.batch_cache_flushed("default-scheduler", "empty_list")
    metrics.get_node_hint("no_hint", "default-scheduler", 0.00001)
    metrics.store_schedule_results("default-scheduler", 0.00001)
    metrics.async_api_call("pod_binding", "success", 0.01)
    metrics.pending_async_api_calls("pod_binding").set(1)
    metrics.resource_claim_created("success")
    metrics.binding_conditions_allocation("default-scheduler", "gpu.example.com", "success")
    metrics.binding_conditions_wait("default-scheduler", "gpu.example.com", "success", 2.0)
    metrics.pod_group_attempt("scheduled", "default-scheduler", 0.01)
    metrics.pod_group_algorithm(0.01)
    metrics.volume_binder_cache_request("assume")
    metrics.volume_scheduling_stage_error("bind")
    metrics.rest_request("200", "GET", "10.0.0.1:6443", 0.01, sent=0, received=5000)
    metrics.rest_rate_limited("GET", "10.0.0.1:6443", 0.0001)
    metrics.leader("kube-scheduler", True)
    metrics.delegated_authentication("201", 0.01)
    metrics.delegated_authorization("201", 0.01)
    metrics.build_info({"git_version": "v0.1.0"})
    metrics.feature_enabled("NodeDeclaredFeatures", "BETA", True)
    return metrics


THEIRS = families(RECORDED)
OURS = families(exercised().render().decode())


def is_ours(name):
    if name.startswith("apiserver_delegated_"):
        return True
    return not name.startswith((*NOT_OURS, *API_SERVER_LIBRARY)) and name not in NOT_OURS_EXACT


@pytest.mark.parametrize("name", sorted(name for name in THEIRS if is_ours(name)))
def test_recorded_family_is_exported_with_the_same_type_labels_and_buckets(name):
    assert OURS[name] == THEIRS[name]


@pytest.mark.parametrize("name", sorted(name for name in THEIRS if name.startswith("scheduler_")))
def test_no_scheduler_family_is_left_out(name):
    assert name in OURS


def test_stability_levels_are_the_recorded_ones():
    def levels(text):
        lines = [line.split(" ", 4) for line in text.splitlines() if line.startswith("# HELP") and "[" in line]
        return {name: level for _, _, name, level, *_ in lines}

    theirs = levels(RECORDED)
    ours = levels(exercised().render().decode())
    assert {name: level for name, level in ours.items() if name in theirs} == {
        name: theirs[name] for name in ours if name in theirs
    }


def test_text_parses_and_has_no_created_series_and_no_empty_families():
    text = Metrics().render().decode()
    parsed = list(text_string_to_metric_families(text))
    assert parsed
    assert "_created" not in text
    assert all(family.samples for family in parsed)
    assert "podgroup" not in text


def test_the_packed_copy_is_the_recording():
    if not SHARED.exists():
        pytest.skip("the recordings are not beside the repository")
    assert SHARED.read_text() == RECORDED


def test_series_that_exist_before_anything_happened():
    metrics = Metrics()
    text = metrics.render().decode()
    for queue in ("active", "backoff", "unschedulable", "gated"):
        assert f'scheduler_pending_pods{{queue="{queue}"}} 0.0' in text
    assert "scheduler_preemption_attempts_total 0.0" in text
    assert "scheduler_pod_scheduling_attempts_count 0.0" in text


COUNTED = [
    (
        "attempt",
        lambda m: m.schedule_attempt("error", "p", 0.3),
        "scheduler_schedule_attempts_total",
        ("error", "p"),
        1,
    ),
    (
        "attempt duration",
        lambda m: m.schedule_attempt("error", "p", 0.3),
        "scheduler_scheduling_attempt_duration_seconds",
        ("error", "p"),
        1,
    ),
    ("victims", lambda m: m.preemption_victims(2), "scheduler_preemption_victims", (), 1),
    (
        "attempts label",
        lambda m: m.pod_scheduled(14, 1),
        "scheduler_pod_scheduling_sli_duration_seconds",
        ("14",),
        1,
    ),
    (
        "attempts label is capped",
        lambda m: [m.pod_scheduled(n, 1) for n in (15, 16, 200)],
        "scheduler_pod_scheduling_sli_duration_seconds",
        ("15+",),
        3,
    ),
    (
        "queue moves",
        lambda m: m.queue_incoming_pods("backoff", "NodeAdd", 7),
        "scheduler_queue_incoming_pods_total",
        ("backoff", "NodeAdd"),
        7,
    ),
    ("gauge", lambda m: m.goroutines("binding").inc(), "scheduler_goroutines", ("binding",), 1),
    ("cache", lambda m: m.cache_size(nodes=4, pods=9, assumed_pods=2), "scheduler_cache_size", ("pods",), 9),
    (
        "lost lease",
        lambda m: m.leader("kube-scheduler", False),
        "leader_election_master_status",
        ("kube-scheduler",),
        0,
    ),
]


@pytest.mark.parametrize(("act", "name", "labels", "value"), [c[1:] for c in COUNTED], ids=[c[0] for c in COUNTED])
def test_counted(act, name, labels, value):
    metrics = Metrics()
    act(metrics)
    assert metrics.value(name, *labels) == value


def test_value_of_an_unknown_name_is_an_error_and_of_an_unused_series_zero():
    metrics = Metrics()
    assert metrics.value("scheduler_goroutines", "binding") == 0
    with pytest.raises(KeyError, match="no metric is named"):
        metrics.value("scheduler_gorotines")


def test_wrong_number_of_labels_is_an_error():
    metrics = Metrics()
    family = next(f for f in metrics.families if f.name == "scheduler_pending_pods")
    with pytest.raises(ValueError, match="has labels"):
        family.labels("active", "more")


@pytest.mark.parametrize(
    ("value", "bucket"), [(0, 0), (0.999, 0), (1, 0), (1.001, 1), (2, 1), (64, 6), (64.1, 7), (1e9, 7), (-1, 0)]
)
def test_an_observation_counts_in_the_first_bucket_that_holds_it(value, bucket):
    histogram = Histogram(exponential(1, 2, 7))
    histogram.observe(value)
    assert [i for i, n in enumerate(histogram.counts) if n] == [bucket]
    assert (histogram.count, histogram.sum) == (1, value)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 4.0, 4.5, 64.0, 65.0]), max_size=40))
def test_many_observations_count_as_each_by_itself(values):
    together, singly = Histogram(exponential(1, 2, 7)), Histogram(exponential(1, 2, 7))
    for value in values:
        together.observe(value)
        singly.observe(value)
        singly.count_up()
    assert (together.counts, together.sum) == (singly.counts, singly.sum)


def test_observations_are_counted_up_whenever_it_is_asked_for_and_no_more_than_once():
    metrics = Metrics()
    series = metrics.extension_point_series("Filter", "Success", "default-scheduler")
    name = ("scheduler_framework_extension_point_duration_seconds", "Filter", "Success", "default-scheduler")
    series.observe(0.25)
    metrics.count_up()
    series.observe(0.5)
    assert metrics.value(*name) == 2
    metrics.count_up()
    assert (metrics.value(*name), series.sum) == (2, 0.75)
    series.observe(1.0)
    metrics.reset()
    assert (metrics.value(*name), series.sum) == (0, 0)
    series.observe(2.0)
    assert (metrics.value(*name), series.sum) == (1, 2.0)


def test_buckets_are_cumulative_in_the_text():
    metrics = Metrics()
    for victims in (1, 2, 2, 3, 100):
        metrics.preemption_victims(victims)
    found = {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        if family.name == "scheduler_preemption_victims"
        for sample in family.samples
        if sample.name.endswith("_bucket")
    }
    assert found == {"1": 1, "2": 3, "4": 4, "8": 4, "16": 4, "32": 4, "64": 4, "+Inf": 5}


@pytest.mark.parametrize(
    ("bound", "text"),
    [
        (1.0, "1"),
        (0.0001, "0.0001"),
        (1e-05, "1e-05"),
        (1.5000000000000002e-05, "1.5000000000000002e-05"),
        (262144, "262144"),
        (1048576, "1.048576e+06"),
        (1e6, "1e+06"),
        (5242.88, "5242.88"),
        (float("inf"), "+Inf"),
        (0.0, "0"),
    ],
)
def test_bounds_are_spelled_as_go_spells_them(bound, text):
    assert spell(bound) == text


def test_a_kept_series_survives_a_reset_and_gauges_keep_their_value():
    metrics = Metrics()
    kept = metrics.plugin_evaluations("NodeName", "Filter", "p")
    kept.inc(3)
    metrics.pending_pods("active").set(6)
    metrics.preemption_victims(2)
    metrics.reset()
    assert metrics.value("scheduler_plugin_evaluation_total", "NodeName", "Filter", "p") == 0
    assert metrics.value("scheduler_preemption_victims") == 0
    assert metrics.value("scheduler_pending_pods", "active") == 6
    kept.inc()
    assert metrics.value("scheduler_plugin_evaluation_total", "NodeName", "Filter", "p") == 1


def test_a_plugin_can_register_its_own_metric():
    from prometheus_client import Counter

    metrics = Metrics()
    Counter("my_plugin_calls", "Calls.", registry=metrics.registry).inc()
    assert "my_plugin_calls_total 1.0" in metrics.render().decode()


def test_two_schedulers_in_one_process_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.preemption_attempt()
    assert (one.value("scheduler_preemption_attempts_total"), other.value("scheduler_preemption_attempts_total")) == (
        1,
        0,
    )


def test_importing_and_counting_does_not_import_prometheus_client():
    code = (
        "import sys; from kubesched.metrics import Metrics; m = Metrics(); m.schedule_attempt('error', 'p', 1);"
        "print('prometheus_client' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_an_observation_is_cheap():
    """Far below the several microseconds of prometheus_client's own; the bound is loose for slow machines."""
    metrics = Metrics()
    rounds = 5000
    best = min(_seconds_of(metrics, rounds) for _ in range(5))
    assert best / rounds < 5e-6


def _seconds_of(metrics, rounds):
    start = time.perf_counter()
    for _ in range(rounds):
        metrics.extension_point("Filter", "Success", "default-scheduler", 0.0003)
    return time.perf_counter() - start
