"""What `--disabled-metrics` and `--allow-metric-labels` make of the text."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from kubesched.metrics import LimitError, Limits, Metrics, parse_allowed


def samples(metrics):
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.render().decode())
        for sample in family.samples
    }


def test_a_disabled_metric_is_not_shown_and_goes_on_counting():
    metrics = Metrics()
    metrics.preemption_attempt()
    metrics.limits = Limits(["scheduler_preemption_attempts_total"])
    assert ("scheduler_preemption_attempts_total",) not in samples(metrics)
    assert ("scheduler_pending_pods", ("queue", "active")) in samples(metrics)
    metrics.limits = Limits()
    assert samples(metrics)["scheduler_preemption_attempts_total",] == 1


def test_values_that_are_not_allowed_are_added_up_as_unexpected():
    metrics = Metrics()
    for profile, count in (("a", 1), ("b", 2), ("c", 4)):
        for _ in range(count):
            metrics.schedule_attempt("scheduled", profile, 0.002)
    metrics.limits = Limits(allowed=parse_allowed(["scheduler_schedule_attempts_total,profile='a,z'"]))
    shown = samples(metrics)
    name, result = "scheduler_schedule_attempts_total", ("result", "scheduled")
    assert shown[name, ("profile", "a"), result] == 1
    assert shown[name, ("profile", "unexpected"), result] == 6
    assert (name, ("profile", "b"), result) not in shown
    other = "scheduler_scheduling_attempt_duration_seconds_count"
    assert shown[other, ("profile", "b"), result] == 2, "the other metric is as it was"


def test_buckets_stay_cumulative():
    metrics = Metrics()
    metrics.schedule_attempt("scheduled", "a", 0.0005)
    metrics.schedule_attempt("scheduled", "b", 5.0)
    metrics.limits = Limits(allowed=parse_allowed(["scheduler_scheduling_attempt_duration_seconds,profile='none'"]))
    name = "scheduler_scheduling_attempt_duration_seconds_bucket"
    buckets = [value for key, value in samples(metrics).items() if key[0] == name]
    assert buckets == sorted(buckets) and buckets[0] == 1 and buckets[-1] == 2


@pytest.mark.parametrize("item", ["", "metric='a'", "metric,label", "metric,label=''", ",label='a'"])
def test_lists_that_cannot_be_meant_are_refused(item):
    with pytest.raises(LimitError, match="want METRIC,LABEL"):
        parse_allowed([item])
