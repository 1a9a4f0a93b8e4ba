"""`SchedulingQueue`: where every pending pod is, always in exactly one place.

                 add                        pop
    (new pod) ─────────► ACTIVE ─────────────────────────► IN FLIGHT ──bound──► (gone)
        │ PreEnqueue says    ▲ ▲                               │
        │ no                 │ └──backoff over── BACKOFF ◄─────┤ error, or an event came meanwhile
        ▼                    │                      ▲          │
      GATED ──its update─────┘                      │          │ rejected
                             │                      │          ▼
                             └──event, Activate─────┴── UNSCHEDULABLE

Active pods are ordered by the profile's QueueSort; backoff has a queue for rejected pods and one for those that met an
error; gated and unschedulable pods wait for an event that a plugin which rejected them asked for. A pod that sat
unschedulable for `flush_after_s` is tried again anyway, in case an event was missed.

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
from kubesched.framework.runtime.runtime import Runtime
from kubesched.metrics import Metrics
from kubesched.scheduler.queue.backoff import BackoffQueue
from kubesched.scheduler.queue.hints import HintTable, Wake
from kubesched.scheduler.queue.in_flight import InFlight
from kubesched.scheduler.queue.keyed_heap import KeyedHeap
from kubesched.scheduler.queue.parked import ParkedPods
from kubesched.scheduler.queue.queued_pod import QueuedPod
from kubesched.state.pod_info import PodInfo

FLUSH_AFTER_S = 5 * 60.0
#: How often PreEnqueue is asked again about pods that it has held back for longer than that.
_LOOK_AT_GATES_EVERY_S = 30.0


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
        self._runtimes = dict(runtimes)
        self._clock = clock
        self._metrics = metrics
        self._flush_after_s = flush_after_s
        self._on_ready = on_ready
        self._next_look_at_gates = 0.0
        self._hints = {name: HintTable(r.plugins.all(), metrics) for name, r in self._runtimes.items()}
        sort_key = _sort_key(next(iter(self._runtimes.values())))
        self.active = KeyedHeap(sort_key)
        self.backoff = BackoffQueue(initial_backoff_s, max_backoff_s, sort_key)
        self.parked = ParkedPods()
        self.in_flight = InFlight()

    # -- pods in and out

    def add(self, pod: Pod) -> None:
        """A new pending pod."""
        self._enqueue(QueuedPod(PodInfo(pod), self._clock.now()), "UnschedulablePodAdd")

    def pop(self) -> QueuedPod | None:
        """The next pod to schedule, in flight from now on; None when there is none."""
        pod = self.active.pop() or self.backoff.rejected.pop()
        if pod is None:
            return None
        pod.attempts += 1
        if pod.first_attempt is None:
            pod.first_attempt = self._clock.now()
        pod.unschedulable_plugins = set()
        pod.pending_plugins = set()
        self.in_flight.start(pod.uid)
        self._count_pending()
        return pod

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
        pod.timestamp = self._clock.now()
        self.backoff.start(pod)
        wake = self._wake_for_missed(pod)
        self.in_flight.done(pod.uid)
        self._settle(pod, wake, "ScheduleAttemptFailure")

    def find(self, uid: str) -> QueuedPod | None:
        """The pod wherever it waits; None when it is in flight or unknown."""
        return self.active.get(uid) or self.backoff.get(uid) or self.parked.get(uid)

    def update(self, old: Pod | None, new: Pod, happened: Iterable[ClusterEvent]) -> None:
        """A pending pod changed; `happened` says in which respects (TargetPod events)."""
        uid = new.metadata.uid
        if uid in self.in_flight:
            for event in happened:
                self.in_flight.note(event, old, new)
            return
        pod = self.find(uid)
        if pod is None:
            self.add(new)
            return
        if uid in self.parked:
            self._update_parked(pod, old, new, happened)
            return
        queue = self.active if uid in self.active else self.backoff
        queue.remove(uid)
        pod.pod_info = PodInfo(new)
        queue.push(pod)

    def delete(self, uid: str) -> None:
        """The pod is gone. One in flight is left to its cycle, which finds out by itself."""
        if not self.active.remove(uid) and not self.backoff.remove(uid):
            self.parked.remove(uid)
        self._count_pending()

    # -- what wakes pods

    def move(self, event: ClusterEvent, old: Any = None, new: Any = None, *, but: str = "") -> None:
        """Something happened that may make parked pods schedulable; the pod with UID `but` is left alone."""
        self.in_flight.note(event, old, new)
        if not self.parked:
            return
        for name, hints in self._hints.items():
            for pod in self.parked.rejected_by(hints.listeners(event)):
                if pod.pod.spec.scheduler_name != name or pod.uid == but:
                    continue
                wake = hints.ask(pod, event, old, new)
                if wake is not Wake.NO:
                    self.parked.remove(pod.uid)
                    self._settle(pod, Wake.NOW if pod.gated_by else wake, event.label)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Plugins want these pods tried now, whatever their backoff; those in flight will be when they come back."""
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.in_flight:
                self.in_flight.note(events.FORCE_ACTIVATE, None, pod)
            elif queued := self.parked.remove(uid) or self.backoff.remove(uid):
                self._enqueue(queued, events.FORCE_ACTIVATE.label)

    def flush(self) -> None:
        """Move on whatever time alone moves: ended backoffs, and pods parked for too long."""
        now = self._clock.now()
        for pod in self.backoff.pop_over(now):
            self._enqueue(pod, "BackoffComplete")
        asks_gates = now >= self._next_look_at_gates
        if asks_gates:
            self._next_look_at_gates = now + _LOOK_AT_GATES_EVERY_S
        for pod in self.parked:
            if now - pod.timestamp <= self._flush_after_s:
                continue
            if not pod.gated_by:
                self.parked.remove(pod.uid)
                pod.was_flushed = True
                self._settle(pod, Wake.AFTER_BACKOFF, events.UNSCHEDULABLE_TIMEOUT.label)
            elif asks_gates:
                self.parked.remove(pod.uid)
                self._enqueue(pod, events.UNSCHEDULABLE_TIMEOUT.label)

    def next_backoff_expiry(self) -> float | None:
        """The `Clock.now()` at which `flush` has something to do for backoff."""
        return self.backoff.next_expiry()

    def resources(self) -> set[str]:
        """Kinds of objects that some plugin of some profile listens to."""
        return set().union(*(hints.resources() for hints in self._hints.values()))

    def adopt(self, runtimes: Mapping[str, Runtime]) -> None:
        """Go on with other plugins (a reload): every pod stays, in the new order."""
        self._runtimes = dict(runtimes)
        self._hints = {name: HintTable(r.plugins.all(), self._metrics) for name, r in self._runtimes.items()}
        sort_key = _sort_key(next(iter(self._runtimes.values())))
        pods = list(self.active)
        self.active = KeyedHeap(sort_key)
        for pod in pods:
            self.active.push(pod)

    # -- helpers

    def _update_parked(self, pod: QueuedPod, old: Pod | None, new: Pod, happened: Iterable[ClusterEvent]) -> None:
        uid = new.metadata.uid
        self.parked.remove(uid)
        pod.pod_info = PodInfo(new)
        if pod.gated_by:
            self._enqueue(pod, "UnschedulablePodUpdate")
            return
        hints = self._hints[new.spec.scheduler_name]
        for event in happened:
            wake = hints.ask(pod, event, old, new)
            if wake is not Wake.NO:
                self._settle(pod, wake, event.label)
                return
        self.parked.push(pod)

    def _wake_for_missed(self, pod: QueuedPod) -> Wake:
        if not pod.rejected_by:
            return Wake.AFTER_BACKOFF
        hints = self._hints[pod.pod.spec.scheduler_name]
        wake = Wake.NO
        for seen in self.in_flight.since_popped(pod.uid):
            if seen.event == events.FORCE_ACTIVATE:
                if seen.new.metadata.uid == pod.uid:
                    return Wake.NOW
                continue
            if seen.event.resource == events.TARGET_POD and seen.new.metadata.uid != pod.uid:
                continue
            said = hints.ask(pod, seen.event, seen.old, seen.new)
            if said is Wake.NOW:
                return said
            if said is Wake.AFTER_BACKOFF:
                wake = said
        return wake

    def _settle(self, pod: QueuedPod, wake: Wake, why: str) -> None:
        if wake is Wake.NO:
            self.parked.push(pod)
            self._metrics.queue_incoming_pods("unschedulable", why)
            self._count_pending()
        elif wake is Wake.AFTER_BACKOFF and not self.backoff.is_over(pod, self._clock.now()):
            self.backoff.push(pod)
            self._metrics.queue_incoming_pods("backoff", why)
            self._count_pending()
            self._on_ready()
        else:
            self._enqueue(pod, why)

    def _enqueue(self, pod: QueuedPod, why: str) -> None:
        """Into the active queue, unless a PreEnqueue plugin holds the pod back."""
        status = self._runtimes[pod.pod.spec.scheduler_name].pre_enqueue(pod.pod)
        if status is not None:
            pod.gated_by = status.plugin
            pod.last_message = status.message
            self.parked.push(pod)
            self._metrics.queue_incoming_pods("gated", why)
        else:
            pod.gated_by = ""
            self.active.push(pod)
            self._metrics.queue_incoming_pods("active", why)
            self._on_ready()
        self._count_pending()

    def _count_pending(self) -> None:
        pending = self._metrics.pending_pods
        pending("active").set(len(self.active))
        pending("backoff").set(len(self.backoff))
        pending("unschedulable").set(self.parked.unschedulable_count)
        pending("gated").set(self.parked.gated_count)


def _sort_key(runtime: Runtime) -> Callable[[QueuedPod], Any]:
    """The order of the profiles' common QueueSort plugin as a key."""
    plugin = runtime.plugins.queue_sort[0]
    if hasattr(plugin, "sort_key"):
        key: Callable[[QueuedPod], Any] = plugin.sort_key
        return key

    def compare(a: QueuedPod, b: QueuedPod) -> int:
        return -1 if plugin.less(a, b) else 1 if plugin.less(b, a) else 0

    return cmp_to_key(compare)
