"""The metrics of a scheduler: all families, and one method for each thing that happens.

Source of names, labels and buckets: `pkg/scheduler/metrics` and `component-base/metrics` of Kubernetes v1.36 and a
recorded `/metrics` text. The texts after `# HELP` are ours, the stability level in front of them is the original's.
Label values are the original's too: results `scheduled|unschedulable|error`, extension points `PreFilter`, `Filter`,
..., status codes `Success`, `Unschedulable`, ..., queues `active|backoff|unschedulable|gated`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from kubesched.metrics.limits import Limits
from kubesched.metrics.series import Counter, Family, Gauge, Histogram, counters, exponential, gauges, histograms

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

QUEUES: Final = ("active", "backoff", "unschedulable", "gated")

_ATTEMPT_S = exponential(0.001, 2, 15)
_POINT_S = exponential(0.0001, 2, 12)
_PLUGIN_S = exponential(0.00001, 1.5, 20)
_BATCH_S = exponential(0.00001, 2, 12)
_REST_S = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_REST_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_REVIEW_S = (0.25, 0.5, 0.7, 1, 1.5, 3, 5, 10)
_ATTEMPTS_SHOWN = 15


class Metrics:
    """One scheduler's numbers. Made once, passed to whoever counts something, rendered by `/metrics`."""

    def __init__(self) -> None:
        #: Every family, in the order of its declaration.
        self.families: list[Family[Any]] = []
        self._all_histograms: list[Family[Histogram]] = []
        self._registry: CollectorRegistry | None = None
        self._updates: list[Callable[[], None]] = []
        #: What is left out of the text.
        self.limits = Limits()
        self._declare_scheduling()
        self._declare_queue_and_cache()
        self._declare_framework()
        self._declare_gated()
        self._declare_process()
        # Of what is counted for each pod the series are found with one look.
        self._attempt_series: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._sli_series: dict[int, Histogram] = {}
        self._rest_series: dict[tuple[str, str, str], tuple[Counter, Histogram, Histogram, Histogram]] = {}
        # Series that the original shows before anything happened.
        for queue in QUEUES:
            self._pending_pods.labels(queue)
        self._goroutines.labels("binding")
        for plain in (
            self._scheduling_algorithm,
            self._preemption_victims,
            self._preemption_attempts,
            self._pod_attempts,
            self._after_flush,
        ):
            plain.labels()
        self._algorithm_series: Histogram = self._scheduling_algorithm.labels()
        self._attempts_series: Histogram = self._pod_attempts.labels()

    # ---- scheduling attempts

    def schedule_attempt(self, result: str, profile: str, seconds: float) -> None:
        """One attempt ended: `seconds` cover the algorithm and, where it came to that, the binding."""
        known = self._attempt_series.get((result, profile))
        if known is None:
            known = self._attempts.labels(result, profile), self._attempt_duration.labels(result, profile)
            self._attempt_series[result, profile] = known
        count, durations = known
        count.value += 1
        durations.observe(seconds)

    def scheduling_algorithm(self, seconds: float) -> None:
        self._algorithm_series.observe(seconds)

    def pod_scheduled(self, attempts: int, seconds: float) -> None:
        """A pod was bound after `attempts` tries and `seconds` in the queue (time behind a gate excluded)."""
        durations = self._sli_series.get(attempts)
        if durations is None:
            shown = str(attempts) if attempts < _ATTEMPTS_SHOWN else f"{_ATTEMPTS_SHOWN}+"
            durations = self._sli_series[attempts] = self._pod_sli_duration.labels(shown)
        durations.observe(seconds)
        self._attempts_series.observe(attempts)

    def pod_scheduled_after_flush(self) -> None:
        """A pod fitted only after the periodic flush woke it: a queueing hint may have missed its event."""
        self._after_flush.labels().value += 1

    def preemption_attempt(self) -> None:
        self._preemption_attempts.labels().value += 1

    def preemption_victims(self, count: int) -> None:
        self._preemption_victims.labels().observe(count)

    def preemption_goroutine(self, result: str, seconds: float) -> None:
        """Victims of one preemption were asked to go, beside the scheduling cycle; `result` is success or error."""
        self._preemption_tasks.labels(result).value += 1
        self._preemption_task_duration.labels(result).observe(seconds)

    # ---- framework

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        self._extension_point.labels(point, status, profile).observe(seconds)

    def extension_point_series(self, point: str, status: str, profile: str) -> Histogram:
        """The same for hot code, which keeps the series."""
        return self._extension_point.labels(point, status, profile)

    def plugin_duration(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin's part of an extension point; recorded for a sample of the cycles."""
        self._plugin_duration.labels(plugin, point, status).observe(seconds)

    def plugin_evaluations(self, plugin: str, point: str, profile: str) -> Counter:
        """Counts the evaluations of a plugin: one a pod in PreFilter and PreScore, one a node in Filter and Score."""
        return self._plugin_evaluations.labels(plugin, point, profile)

    def permit_wait(self, result: str, seconds: float) -> None:
        self._permit_wait.labels(result).observe(seconds)

    def goroutines(self, operation: str) -> Gauge:
        """Tasks running now by what they do; `binding` follows the binding cycles."""
        return self._goroutines.labels(operation)

    def unschedulable_pods(self, plugin: str, profile: str) -> Gauge:
        return self._unschedulable_pods.labels(plugin, profile)

    # ---- queue and cache

    def pending_pods(self, queue: str) -> Gauge:
        return self._pending_pods.labels(queue)

    def queue_incoming_pods(self, queue: str, event: str, count: int = 1) -> None:
        self._queue_incoming.labels(queue, event).value += count

    def inflight_events(self, event: str) -> Gauge:
        return self._inflight_events.labels(event)

    def queueing_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """A queueing hint answered; `hint` is Queue, QueueSkip or Error."""
        self._queueing_hint.labels(plugin, event, hint).observe(seconds)

    def event_handling_series(self, event: str) -> Histogram:
        """Seconds that one event of the cluster took."""
        return self._event_handling.labels(event)

    def cache_size(self, *, nodes: int, pods: int, assumed_pods: int) -> None:
        self._cache_size.labels("nodes").set(float(nodes))
        self._cache_size.labels("pods").set(float(pods))
        self._cache_size.labels("assumed_pods").set(float(assumed_pods))

    # ---- kept results (the original: opportunistic batching)

    def batch_attempt(self, profile: str, result: str) -> None:
        """A kept result was asked for; `result` is hint_used, hint_not_used or no_hint."""
        self._batch_attempts.labels(profile, result).value += 1

    def batch_cache_flushed(self, profile: str, reason: str) -> None:
        self._batch_flushed.labels(profile, reason).value += 1

    def get_node_hint(self, hinted: str, profile: str, seconds: float) -> None:
        self._get_node_hint.labels(hinted, profile).observe(seconds)

    def store_schedule_results(self, profile: str, seconds: float) -> None:
        self._store_results.labels(profile).observe(seconds)

    # ---- behind feature gates: shown once something was counted

    def async_api_call(self, call_type: str, result: str, seconds: float) -> None:
        self._async_calls.labels(call_type, result).value += 1
        self._async_call_duration.labels(call_type, result).observe(seconds)

    def pending_async_api_calls(self, call_type: str) -> Gauge:
        return self._async_calls_pending.labels(call_type)

    def resource_claim_created(self, status: str) -> None:
        self._claims_created.labels(status).value += 1

    def binding_conditions_allocation(self, profile: str, driver: str, status: str) -> None:
        self._binding_conditions.labels(profile, driver, status).value += 1

    def binding_conditions_wait(self, profile: str, driver: str, status: str, seconds: float) -> None:
        self._binding_conditions_wait.labels(profile, driver, status).observe(seconds)

    def pod_group_attempt(self, result: str, profile: str, seconds: float) -> None:
        self._group_attempts.labels(result, profile).value += 1
        self._group_duration.labels(result, profile).observe(seconds)

    def pod_group_algorithm(self, seconds: float) -> None:
        self._group_algorithm.labels().observe(seconds)

    # ---- volumes

    def volume_binder_cache_request(self, operation: str) -> None:
        self._volume_cache_requests.labels(operation).value += 1

    def volume_scheduling_stage_error(self, operation: str) -> None:
        self._volume_stage_errors.labels(operation).value += 1

    # ---- process: client, lease, reviews, build

    def rest_request(self, code: str, method: str, host: str, seconds: float, sent: int = 0, received: int = 0) -> None:
        """One request to the API server ended; `code` is the HTTP status or `<error>`, sizes are in bytes."""
        known = self._rest_series.get((code, host, method))
        if known is None:
            known = self._rest_series[code, host, method] = (
                self._rest_requests.labels(code, host, method),
                self._rest_duration.labels(method, host),
                self._rest_sent.labels(method, host),
                self._rest_received.labels(method, host),
            )
        count, durations, sizes_sent, sizes_received = known
        count.value += 1
        durations.observe(seconds)
        sizes_sent.observe(sent)
        sizes_received.observe(received)

    def rest_stream(self, code: str, method: str, host: str) -> None:
        """A watch was opened, or refused; it is not timed."""
        self._rest_requests.labels(code, host, method).value += 1

    def rest_rate_limited(self, method: str, host: str, seconds: float) -> None:
        """How long a request waited for its turn under qps and burst."""
        self._rest_limiter.labels(method, host).observe(seconds)

    def leader(self, lease: str, leading: bool) -> None:
        self._leader.labels(lease).value = 1.0 if leading else 0.0

    def delegated_authentication(self, code: str, seconds: float) -> None:
        self._authn_requests.labels(code).value += 1
        self._authn_duration.labels(code).observe(seconds)

    def delegated_authorization(self, code: str, seconds: float) -> None:
        self._authz_requests.labels(code).value += 1
        self._authz_duration.labels(code).observe(seconds)

    def build_info(self, labels: Mapping[str, str]) -> None:
        """Names the build; `labels` may hold any of the original's ten, the others are empty."""
        self._build_info.labels(*(labels.get(name, "") for name in self._build_info.label_names)).value = 1.0

    def feature_enabled(self, name: str, stage: str, enabled: bool) -> None:
        self._feature_enabled.labels(name, stage).value = 1.0 if enabled else 0.0

    # ---- reading

    def before_export(self, update: Callable[[], None]) -> None:
        """`update` is called whenever the text is made: for gauges that are cheaper to count then than to keep."""
        self._updates.append(update)

    def count_up(self) -> None:
        """Histograms keep each observation until somebody reads or this is called: now and then, by who makes many."""
        for family in self._all_histograms:
            for series in family.all():
                series.count_up()

    def _update(self) -> None:
        for update in self._updates:
            update()

    def value(self, name: str, *label_values: str) -> float:
        """A counter's or gauge's value, or a histogram's number of observations; 0 for a series that is not there."""
        self._update()
        for family in self.families:
            if family.name == name:
                series = dict(family.items()).get(label_values)
                return 0 if series is None else series.count if isinstance(series, Histogram) else series.value
        raise KeyError(f"no metric is named {name}")

    @property
    def registry(self) -> CollectorRegistry:
        """Where these metrics, the process's own and a plugin's own meet. Made on first use: the import is not free."""
        if self._registry is None:
            from prometheus_client import CollectorRegistry, ProcessCollector

            self._registry = CollectorRegistry(auto_describe=False)
            self._registry.register(_Exported(self))
            ProcessCollector(registry=self._registry)
        return self._registry

    def render(self) -> bytes:
        """The text of `/metrics` (Prometheus text format 0.0.4). Call it on the loop that writes the numbers."""
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    def reset(self) -> None:
        """Set everything that counts what happened back to zero (`DELETE /metrics`); what is, stays."""
        for family in self.families:
            if family.kind != "gauge":
                family.reset()

    # ---- declarations

    def _counters(self, name: str, help: str, *label_names: str) -> Family[Counter]:
        family = counters(name, help, *label_names)
        self.families.append(family)
        return family

    def _gauges(self, name: str, help: str, *label_names: str) -> Family[Gauge]:
        family = gauges(name, help, *label_names)
        self.families.append(family)
        return family

    def _histograms(self, name: str, help: str, bounds: tuple[float, ...], *label_names: str) -> Family[Histogram]:
        family = histograms(name, help, bounds, *label_names)
        self.families.append(family)
        self._all_histograms.append(family)
        return family

    def _declare_scheduling(self) -> None:
        self._attempts = self._counters(
            "scheduler_schedule_attempts_total",
            "[STABLE] Attempts to schedule a pod by result: unschedulable if no node fits, error if something broke.",
            "result",
            "profile",
        )
        self._attempt_duration = self._histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "[STABLE] Duration of an attempt in seconds, scheduling algorithm and binding together.",
            _ATTEMPT_S,
            "result",
            "profile",
        )
        self._scheduling_algorithm = self._histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            "[ALPHA] Duration of the scheduling algorithm in seconds.",
            _ATTEMPT_S,
        )
        self._preemption_victims = self._histograms(
            "scheduler_preemption_victims", "[STABLE] Victims of one preemption.", exponential(1, 2, 7)
        )
        self._preemption_attempts = self._counters(
            "scheduler_preemption_attempts_total", "[STABLE] Times that preemption was tried."
        )
        self._preemption_tasks = self._counters(
            "scheduler_preemption_goroutines_execution_total",
            "[ALPHA] Preemptions whose victims were removed beside the scheduling cycle.",
            "result",
        )
        self._preemption_task_duration = self._histograms(
            "scheduler_preemption_goroutines_duration_seconds",
            "[ALPHA] Duration in seconds of removing the victims of one preemption.",
            exponential(0.01, 2, 20),
            "result",
        )
        self._pod_sli_duration = self._histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "[BETA] Seconds from a pod's entry into the queue to its binding, by number of attempts.",
            exponential(0.01, 2, 20),
            "attempts",
        )
        self._pod_attempts = self._histograms(
            "scheduler_pod_scheduling_attempts", "[STABLE] Attempts that a scheduled pod needed.", exponential(1, 2, 5)
        )
        self._after_flush = self._counters(
            "scheduler_pod_scheduled_after_flush_total",
            "[ALPHA] Pods scheduled only after the periodic flush woke them. Growth points at a queueing hint that"
            " misses an event.",
        )

    def _declare_queue_and_cache(self) -> None:
        self._pending_pods = self._gauges(
            "scheduler_pending_pods",
            "[STABLE] Pods waiting, by queue: active to be tried next, backoff until their pause ends, unschedulable"
            " until an event may help, gated by a plugin before their first attempt.",
            "queue",
        )
        self._queue_incoming = self._counters(
            "scheduler_queue_incoming_pods_total",
            "[STABLE] Pods put into a queue, by queue and the event that did it.",
            "queue",
            "event",
        )
        self._inflight_events = self._gauges(
            "scheduler_inflight_events", "[ALPHA] Cluster events kept for pods that are being scheduled now.", "event"
        )
        self._queueing_hint = self._histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            "[ALPHA] Duration in seconds of one queueing hint of a plugin.",
            _PLUGIN_S,
            "plugin",
            "event",
            "hint",
        )
        self._event_handling = self._histograms(
            "scheduler_event_handling_duration_seconds",
            "[ALPHA] Duration in seconds of applying one event of the cluster.",
            _POINT_S,
            "event",
        )
        self._cache_size = self._gauges(
            "scheduler_cache_size", "[ALPHA] Nodes, pods and assumed pods in the scheduler's cache.", "type"
        )
        self._unschedulable_pods = self._gauges(
            "scheduler_unschedulable_pods",
            "[BETA] Unschedulable pods by the plugin that rejected them; a pod counts once for each such plugin.",
            "plugin",
            "profile",
        )

    def _declare_framework(self) -> None:
        self._extension_point = self._histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "[STABLE] Duration in seconds of all plugins of one extension point.",
            _POINT_S,
            "extension_point",
            "status",
            "profile",
        )
        self._plugin_duration = self._histograms(
            "scheduler_plugin_execution_duration_seconds",
            "[ALPHA] Duration in seconds of one plugin at one extension point, from a sample of the cycles.",
            _PLUGIN_S,
            "plugin",
            "extension_point",
            "status",
        )
        self._plugin_evaluations = self._counters(
            "scheduler_plugin_evaluation_total",
            "[BETA] Evaluations of a plugin in PreFilter, Filter, PreScore and Score.",
            "plugin",
            "extension_point",
            "profile",
        )
        self._permit_wait = self._histograms(
            "scheduler_permit_wait_duration_seconds",
            "[BETA] Seconds that a pod waited for its permit.",
            _ATTEMPT_S,
            "result",
        )
        self._goroutines = self._gauges(
            "scheduler_goroutines", "[BETA] Concurrent tasks by what they do, such as binding.", "operation"
        )
        self._batch_attempts = self._counters(
            "scheduler_batch_attempts_total",
            "[ALPHA] Attempts to schedule a pod with the kept result of a pod like it, by result.",
            "profile",
            "result",
        )
        self._batch_flushed = self._counters(
            "scheduler_batch_cache_flushed_total",
            "[ALPHA] Times that kept results were dropped, by reason.",
            "profile",
            "reason",
        )
        self._get_node_hint = self._histograms(
            "scheduler_get_node_hint_duration_seconds",
            "[ALPHA] Duration in seconds of looking up a kept result.",
            _BATCH_S,
            "hinted",
            "profile",
        )
        self._store_results = self._histograms(
            "scheduler_store_schedule_results_duration_seconds",
            "[ALPHA] Duration in seconds of keeping a result.",
            _BATCH_S,
            "profile",
        )

    def _declare_gated(self) -> None:
        self._async_calls = self._counters(
            "scheduler_async_api_call_execution_total",
            "[ALPHA] API calls made beside the scheduling cycle.",
            "call_type",
            "result",
        )
        self._async_call_duration = self._histograms(
            "scheduler_async_api_call_execution_duration_seconds",
            "[ALPHA] Duration in seconds of an API call made beside the scheduling cycle.",
            _ATTEMPT_S,
            "call_type",
            "result",
        )
        self._async_calls_pending = self._gauges(
            "scheduler_pending_async_api_calls", "[ALPHA] API calls that wait to be made.", "call_type"
        )
        self._claims_created = self._counters(
            "scheduler_resourceclaim_creates_total", "[ALPHA] ResourceClaims that the scheduler created.", "status"
        )
        self._binding_conditions = self._counters(
            "scheduler_dra_bindingconditions_allocations_total",
            "[ALPHA] Allocations of devices that have binding conditions, by driver and outcome.",
            "profile",
            "driver",
            "status",
        )
        self._binding_conditions_wait = self._histograms(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "[ALPHA] Seconds that PreBind waited for binding conditions of devices.",
            exponential(0.1, 2, 14),
            "profile",
            "driver",
            "status",
        )
        self._group_attempts = self._counters(
            "scheduler_podgroup_schedule_attempts_total",
            "[ALPHA] Attempts to schedule a pod group by result.",
            "result",
            "profile",
        )
        self._group_duration = self._histograms(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "[ALPHA] Duration of an attempt to schedule a pod group in seconds.",
            _ATTEMPT_S,
            "result",
            "profile",
        )
        self._group_algorithm = self._histograms(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "[ALPHA] Duration of the scheduling algorithm for a pod group in seconds.",
            _ATTEMPT_S,
        )
        self._volume_cache_requests = self._counters(
            "scheduler_volume_binder_cache_requests_total", "[ALPHA] Requests to the cache of bindings.", "operation"
        )
        self._volume_stage_errors = self._counters(
            "scheduler_volume_scheduling_stage_error_total", "[ALPHA] Failed stages of binding volumes.", "operation"
        )

    def _declare_process(self) -> None:
        self._rest_requests = self._counters(
            "rest_client_requests_total",
            "[ALPHA] Requests to the API server by status code, method and host.",
            "code",
            "host",
            "method",
        )
        self._rest_duration = self._histograms(
            "rest_client_request_duration_seconds", "[ALPHA] Duration of requests in seconds.", _REST_S, "verb", "host"
        )
        self._rest_sent = self._histograms(
            "rest_client_request_size_bytes", "[ALPHA] Size of request bodies.", _REST_BYTES, "verb", "host"
        )
        self._rest_received = self._histograms(
            "rest_client_response_size_bytes", "[ALPHA] Size of response bodies.", _REST_BYTES, "verb", "host"
        )
        self._rest_limiter = self._histograms(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] Seconds that requests waited for the client's own limit.",
            _REST_S,
            "verb",
            "host",
        )
        self._leader = self._gauges(
            "leader_election_master_status", "[ALPHA] 1 while this process holds the named lease, else 0.", "name"
        )
        self._authn_requests = self._counters(
            "apiserver_delegated_authn_request_total", "[ALPHA] Token reviews by status code.", "code"
        )
        self._authn_duration = self._histograms(
            "apiserver_delegated_authn_request_duration_seconds",
            "[ALPHA] Duration of token reviews in seconds by status code.",
            _REVIEW_S,
            "code",
        )
        self._authz_requests = self._counters(
            "apiserver_delegated_authz_request_total", "[ALPHA] Access reviews by status code.", "code"
        )
        self._authz_duration = self._histograms(
            "apiserver_delegated_authz_request_duration_seconds",
            "[ALPHA] Duration of access reviews in seconds by status code.",
            _REVIEW_S,
            "code",
        )
        self._build_info = self._gauges(
            "kubernetes_build_info",
            "[BETA] Always 1; the labels name the build.",
            "build_date",
            "compiler",
            "git_commit",
            "git_tree_state",
            "git_version",
            "go_version",
            "major",
            "minor",
            "platform",
        )
        self._feature_enabled = self._gauges(
            "kubernetes_feature_enabled", "[BETA] 1 for each feature gate that is on, else 0.", "name", "stage"
        )


class _Exported:
    """What `prometheus_client` asks for the families; it has no series of its own."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        self._metrics._update()
        for family in sorted(self._metrics.families, key=lambda family: family.name):
            if self._metrics.limits.leaves_out(family.name):
                continue
            metric = self._metrics.limits.apply(family.name, family.collect())
            if metric.samples:
                yield metric
