"""`SchedulingQueue`: where every pending pod is, always in exactly one place.

                 add                        pop
    (new pod) ─────────► ACTIVE ─────────────────────────► IN FLIGHT ──bound──► (gone)
        │ PreEnqueue says    ▲ ▲                               │
        │ no                 │ └──backoff over── BACKOFF ◄─────┤ error, or an event came meanwhile
        ▼                    │                      ▲          │
      GATED ──PreEnqueue─────┤                      │          │ rejected
              says yes       │                      │          ▼
                             └──event, Activate─────┴── UNSCHEDULABLE

Active pods are ordered by the profile's QueueSort; backoff has a queue for rejected pods and one for those that met an
error. When no pod is active the next rejected one is popped before its backoff is over. Gated and unschedulable pods
wait for an event that a plugin which rejected them asked for; PreEnqueue is asked whenever a pod goes to active or
backoff from elsewhere. A pod that was parked for more than `flush_after_s` is tried again anyway, in case an event was
missed.

All methods are synchronous and are called between scheduling cycles; `on_ready` is called when there may be one to pop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cmp_to_key
from typing import Any

from kubesched.api.core import Pod
from kubesched.clock import Clock
from kubesched.framework import events
from kubesched.framework.events import ClusterEvent
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, raised
from kubesched.framework.runtime.runtime import Runtime
from kubesched.metrics import Metrics
from kubesched.scheduler.queue.backoff import BackoffQueue
from kubesched.scheduler.queue.hints import HintAsker, HintTable, Wake
from kubesched.scheduler.queue.in_flight import Happening, InFlight
from kubesched.scheduler.queue.keyed_heap import LAST, KeyedHeap
from kubesched.scheduler.queue.parked import Group, ParkedPods
from kubesched.scheduler.queue.queued_pod import QueuedPod
from kubesched.state.pod_info import PodInfo

FLUSH_AFTER_S = 5 * 60.0
#: How often parked pods are looked through for those that waited longer than that.
FLUSH_EVERY_S = 30.0

# What makes pods enter a queue, besides cluster events: labels of the metric.
_POD_ADDED = events.UNSCHEDULED_POD_ADD.label
_POD_UPDATED = ClusterEvent(events.UNSCHEDULED_POD, events.ActionType.UPDATE_OTHER).label
_ATTEMPT_FAILED = "ScheduleAttemptFailure"
_BACKOFF_OVER = "BackoffComplete"
_POPPED_FROM_BACKOFF = "PopFromBackoffQ"


class SchedulingQueue:
    def __init__(
        self,
        runtimes: Mapping[str, Runtime],
        clock: Clock,
        metrics: Metrics,
        *,
        initial_backoff_s: float = 1.0,
        max_backoff_s: float = 10.0,
        flush_after_s: float = FLUSH_AFTER_S,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._metrics = metrics
        self._initial_backoff_s = initial_backoff_s
        self._max_backoff_s = max_backoff_s
        self._flush_after_s = flush_after_s
        #: The `Clock.now()` at which parked pods are looked through next for those that waited for too long.
        self.next_flush = clock.now() + FLUSH_EVERY_S
        self._on_ready = on_ready
        metrics.before_export(self._count_pending)
        self._closed = False
        self.parked = ParkedPods()
        self.in_flight = InFlight(metrics)
        self._use(runtimes)

    # -- pods in and out

    def add(self, pod: PodInfo) -> None:
        """A new pending pod."""
        self._enqueue(QueuedPod(pod, self._clock.now()), _POD_ADDED)

    def pop(self) -> QueuedPod | None:
        """The next pod to schedule, in flight from now on; None when there is none, or the queue is closed."""
        if self._closed:
            return None
        pod = self.active.pop()
        if pod is None:
            pod = self.backoff.rejected.pop()
            if pod is None:
                return None
            self._metrics.queue_incoming_pods("active", _POPPED_FROM_BACKOFF)
        return self._take_off(pod)

    def take(self, uid: str) -> QueuedPod | None:
        """Pop this pod, whatever its turn and wherever it waits."""
        pod = self.active.remove(uid) or self.backoff.remove(uid) or self.parked.remove(uid)
        return self._take_off(pod) if pod is not None else None

    def done(self, uid: str) -> None:
        """The pod will not come back through `add_rejected`: bound, gone, or waiting for its binding only."""
        self.in_flight.done(uid)

    def add_rejected(self, pod: QueuedPod) -> None:
        """A pod comes back from an attempt that failed; `unschedulable_plugins` and `pending_plugins` say why.

        Without a rejecting plugin the attempt met an error. Nothing that happened since the pod was popped is missed.
        """
        assert self.find(pod.uid) is None, f"{pod.key} is queued already"
        if pod.rejected_by:
            pod.unschedulable_count += 1
            pod.error_count = 0
        else:
            pod.error_count += 1
        pod.timestamp = pod.flushed_at = self._clock.now()
        pod.was_flushed = False
        self.backoff.start(pod)
        wake = self._wake_for_missed(pod)
        self.in_flight.done(pod.uid)
        self._settle(pod, wake, _ATTEMPT_FAILED)

    def find(self, uid: str) -> QueuedPod | None:
        """The pod wherever it waits; None when it is in flight or unknown."""
        return self.active.get(uid) or self.backoff.get(uid) or self.parked.get(uid)

    def update(self, old: Pod, info: PodInfo, happened: Iterable[ClusterEvent]) -> None:
        """A pending pod changed; `happened` says in which respects (TargetPod events)."""
        uid, new = info.uid, info.pod
        if uid in self.in_flight:
            for event in happened:
                self._note(Happening(event, old, new, only=uid))
        elif uid in self.parked:
            self._update_parked(old, info, list(happened))
        elif (pod := self.active.get(uid) or self.backoff.get(uid)) is not None:
            pod.pod_info = info
            queue = self.active if uid in self.active else self.backoff
            queue.push(pod)
        else:
            self._enqueue(QueuedPod(info, self._clock.now()), _POD_UPDATED)

    def delete(self, uid: str) -> None:
        """The pod is gone. One in flight is left to its cycle, which finds out by itself."""
        pod = self.active.remove(uid) or self.backoff.remove(uid) or self.parked.remove(uid)
        if pod is not None:
            self._blame(pod, frozenset())

    def close(self) -> None:
        """Nothing is popped any more."""
        self._closed = True

    # -- what wakes pods

    def is_of_interest(self, event: ClusterEvent) -> bool:
        """Whether any plugin of any profile listens to the event."""
        known = self._interest.get(event)
        if known is None:
            is_wildcard = event.resource == events.WILDCARD
            known = is_wildcard or any(hints.table.listeners(event) for hints in self._hints.values())
            self._interest[event] = known
        return known

    def move(
        self, event: ClusterEvent, old: Any = None, new: Any = None, *, but: str = "", priority_max: int | None = None
    ) -> bool:
        """Something happened that may make parked pods schedulable: those of `priority_max` or less, all but one.

        False when no plugin of any profile listens to the event."""
        if not self.is_of_interest(event):
            return False
        if not self.in_flight and not self.parked:
            return True
        happening = Happening(event, old, new, priority_max, but)
        if self.in_flight:
            self.in_flight.note(happening)
        for profile, hints in self._hints.items():
            for group in self.parked.groups(profile, hints.table.listeners(event)):
                self._move_group(group, hints, happening)
        return True

    def activate(self, pods: Iterable[Pod]) -> None:
        """Plugins want these pods tried now, whatever their backoff; those in flight will be when they come back."""
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.in_flight:
                self._note(Happening(events.FORCE_ACTIVATE, None, pod, only=uid))
            elif queued := self.parked.remove(uid):
                self._enqueue(queued, events.FORCE_ACTIVATE.label)
            elif queued := self.backoff.remove(uid):
                self._enter_active(queued, events.FORCE_ACTIVATE.label)

    def flush(self) -> None:
        """Move on whatever time alone moves: ended backoffs, and pods parked for too long. Cheap when nothing is."""
        now, backoff = self._clock.now(), self.backoff
        if backoff.rejected or backoff.failed:
            for pod in backoff.pop_over(now):
                self._enter_active(pod, _BACKOFF_OVER)
        if now >= self.next_flush:
            self.next_flush = now + FLUSH_EVERY_S
            self._flush_parked(now)

    def next_due(self) -> float:
        """The `Clock.now()` at which `flush` has something to do next."""
        expiry = self.backoff.next_expiry()
        return self.next_flush if expiry is None else min(expiry, self.next_flush)

    def flush_due(self, pod: QueuedPod) -> float:
        """The `Clock.now()` by which a parked pod is tried whatever happens."""
        return max(pod.flushed_at + self._flush_after_s, self.next_flush)

    # -- plugins

    def table(self, profile: str) -> HintTable:
        """Who in the profile listens to what."""
        return self._hints[profile].table

    def resources(self) -> set[str]:
        """Kinds of objects that some plugin of some profile listens to."""
        return set().union(*(hints.table.resources() for hints in self._hints.values()))

    def adopt(
        self,
        runtimes: Mapping[str, Runtime],
        *,
        initial_backoff_s: float | None = None,
        max_backoff_s: float | None = None,
    ) -> None:
        """Go on with other plugins (a reload). Every pod stays; parked ones are tried again, by the new rules.

        All pods belong to a profile that is still there: the others were taken out before."""
        active, backoff = self.active, self.backoff
        self._initial_backoff_s = self._initial_backoff_s if initial_backoff_s is None else initial_backoff_s
        self._max_backoff_s = self._max_backoff_s if max_backoff_s is None else max_backoff_s
        self._use(runtimes)
        for pod in active:
            self.active.push(pod)
        for pod in backoff:
            self.backoff.push(pod)
        for pod in self.parked:
            self.parked.remove(pod.uid)
            self._settle(pod, Wake.AFTER_BACKOFF, events.ALL_EVENTS.label)

    # -- helpers

    def _use(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = dict(runtimes)
        self._interest: dict[ClusterEvent, bool] = {}
        self._hints = {
            name: HintAsker(HintTable(runtime.plugins.all()), self._clock, self._metrics)
            for name, runtime in self._runtimes.items()
        }
        sort_key = _sort_key(next(iter(self._runtimes.values())))
        self.active = KeyedHeap(sort_key)
        self.backoff = BackoffQueue(self._initial_backoff_s, self._max_backoff_s, sort_key)

    def _take_off(self, pod: QueuedPod) -> QueuedPod:
        pod.attempts += 1
        if pod.first_attempt is None:
            pod.first_attempt = self._clock.now()
        pod.gated_by = ""
        if pod.attempts > 1:
            pod.unschedulable_plugins = set()
            pod.pending_plugins = set()
        if pod.blamed:
            self._blame(pod, frozenset())
        self.in_flight.start(pod.uid)
        return pod

    def _note(self, happening: Happening) -> None:
        if self.in_flight and self.is_of_interest(happening.event):
            self.in_flight.note(happening)

    def _move_group(self, group: Group, hints: HintAsker, happening: Happening) -> None:
        pod = next(filter(happening.concerns, group.pods.values()), None)
        if pod is None:
            return
        wake = hints.ask(pod, happening)
        if wake is Wake.NO:
            return
        for pod in list(filter(happening.concerns, group.pods.values())):
            self.parked.remove(pod.uid)
            self._settle(pod, wake, happening.event.label)

    def _update_parked(self, old: Pod, info: PodInfo, happened: list[ClusterEvent]) -> None:
        uid, new = info.uid, info.pod
        pod = self.parked.remove(uid)
        assert pod is not None
        pod.pod_info = info
        hints = self._hints[new.spec.scheduler_name]
        if pod.gated_by:
            # Asking PreEnqueue costs no more than a hint, and depends on nobody having registered the right events.
            heard = [event for event in happened if pod.gated_by in hints.table.listeners(event)]
            self._settle(pod, Wake.AFTER_BACKOFF, (heard or happened)[0].label)
            return
        for event in happened:
            wake = hints.ask(pod, Happening(event, old, new, only=uid))
            if wake is not Wake.NO:
                self._settle(pod, wake, event.label)
                return
        self._park(pod)

    def _wake_for_missed(self, pod: QueuedPod) -> Wake:
        if not pod.rejected_by:
            return Wake.AFTER_BACKOFF
        hints = self._hints[pod.pod.spec.scheduler_name]
        wake = Wake.NO
        for happening in self.in_flight.since_popped(pod.uid):
            if not happening.concerns(pod):
                continue
            is_wildcard = happening.event.resource == events.WILDCARD
            said = Wake.AFTER_BACKOFF if is_wildcard else hints.ask(pod, happening)
            if said is Wake.NOW or (said is Wake.AFTER_BACKOFF and not pod.pending_plugins):
                return said
            if said is Wake.AFTER_BACKOFF:
                wake = said
        return wake

    def _flush_parked(self, now: float) -> None:
        for pod in self.parked:
            if now - pod.flushed_at > self._flush_after_s:
                self.parked.remove(pod.uid)
                pod.flushed_at = now
                pod.was_flushed = True
                self._settle(pod, Wake.AFTER_BACKOFF, events.UNSCHEDULABLE_TIMEOUT.label)

    def _settle(self, pod: QueuedPod, wake: Wake, why: str) -> None:
        """Put a pod that is nowhere where it belongs."""
        if wake is Wake.NO:
            self._park(pod)
            self._metrics.queue_incoming_pods("unschedulable", why)
        elif wake is Wake.AFTER_BACKOFF and not self.backoff.is_over(pod, self._clock.now()):
            if self._passes_pre_enqueue(pod, why):
                self._enter_backoff(pod, why)
        else:
            self._enqueue(pod, why)

    def _enqueue(self, pod: QueuedPod, why: str) -> None:
        """Into the active queue, unless a PreEnqueue plugin holds the pod back."""
        if self._passes_pre_enqueue(pod, why):
            self._enter_active(pod, why)

    def _passes_pre_enqueue(self, pod: QueuedPod, why: str) -> bool:
        """False when a plugin holds the pod back; it is parked then."""
        status = self._runtimes[pod.pod.spec.scheduler_name].pre_enqueue(pod.pod)
        was_gated = bool(pod.gated_by)
        if status is None:
            pod.gated_by = ""
            return True
        pod.gated_by = status.plugin
        pod.last_message = status.message
        pod.was_flushed = False
        self._park(pod)
        if not was_gated:
            self._metrics.queue_incoming_pods("unschedulable", why)
        return False

    def _park(self, pod: QueuedPod) -> None:
        table = self._hints[pod.pod.spec.scheduler_name].table
        self.parked.push(pod, table.common_ground(pod), table.waits_for(pod))
        self._blame(pod, frozenset(pod.rejected_by | {pod.gated_by} if pod.gated_by else pod.rejected_by))

    def _enter_backoff(self, pod: QueuedPod, why: str) -> None:
        self.backoff.push(pod)
        self._blame(pod, frozenset(pod.rejected_by))
        self._metrics.queue_incoming_pods("backoff", why)
        self._on_ready()

    def _enter_active(self, pod: QueuedPod, why: str) -> None:
        if pod.first_attempt is None:
            pod.first_attempt = self._clock.now()
        self.active.push(pod)
        if pod.attempts or pod.blamed:
            self._blame(pod, frozenset(pod.rejected_by))
        self._metrics.queue_incoming_pods("active", why)
        self._on_ready()

    def _blame(self, pod: QueuedPod, plugins: frozenset[str]) -> None:
        """Keep the metric of unschedulable pods: each counts with every plugin that rejected it last."""
        if plugins == pod.blamed:
            return
        profile = pod.pod.spec.scheduler_name
        for plugin in pod.blamed - plugins:
            self._metrics.unschedulable_pods(plugin, profile).dec()
        for plugin in plugins - pod.blamed:
            self._metrics.unschedulable_pods(plugin, profile).inc()
        pod.blamed = plugins

    def _count_pending(self) -> None:
        pending = self._metrics.pending_pods
        pending("active").set(len(self.active))
        pending("backoff").set(len(self.backoff))
        pending("unschedulable").set(self.parked.unschedulable_count)
        pending("gated").set(self.parked.gated_count)


def _sort_key(runtime: Runtime) -> Callable[[QueuedPod], Any]:
    """The order of the profiles' common QueueSort plugin as a key. Where the plugin fails the pod comes last, or in the
    order of arrival: out of turn is better than lost."""
    plugin = runtime.plugins.queue_sort[0]
    has_failed = False

    def failed(error: BaseException) -> None:
        nonlocal has_failed
        if not has_failed:
            has_failed = True
            raised(plugin, "Less", error)

    def key(pod: QueuedPod) -> Any:
        try:
            return plugin.sort_key(pod)
        except PLUGIN_ERRORS as error:
            failed(error)
            return LAST

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        try:
            return -1 if plugin.less(a, b) else 1 if plugin.less(b, a) else 0
        except PLUGIN_ERRORS as error:
            failed(error)
            return 0

    return key if hasattr(plugin, "sort_key") else cmp_to_key(compare)
