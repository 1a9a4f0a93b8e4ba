"""Pods held by Permit.

    permit says Wait ──► WAITING ──allow by every plugin that said Wait──► allowed (success)
                            ├──reject by anyone───────────────────────────► rejected (Unschedulable, by that plugin)
                            ├──the first timer runs out───────────────────► rejected (Unschedulable, by that plugin)
                            └──a more important pod takes its place───────► preempted (Error, so it is tried again soon)

The binding task awaits the outcome; the first one counts and later ones are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from kubesched.api.core import Pod
from kubesched.clock import Clock
from kubesched.framework.status import Status

#: The longest that a Permit plugin may hold a pod.
PERMIT_WAIT_S_MAX = 15 * 60.0


class WaitingPod:
    """A pod on hold. `pod` and `node_name` say who waits for what."""

    def __init__(self, pod: Pod, node_name: str, waits_s: dict[str, float], clock: Clock) -> None:
        self.pod = pod
        self.node_name = node_name
        self._outcome: Status | None = None
        self._settled = asyncio.Event()
        self._ends = {plugin: clock.now() + wait_s for plugin, wait_s in waits_s.items()}
        self._timers = {
            plugin: clock.call_later(wait_s, self._expire, plugin, wait_s) for plugin, wait_s in waits_s.items()
        }

    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed the pod yet."""
        return list(self._timers)

    def ends(self) -> dict[str, float]:
        """The plugins that have not allowed the pod yet, and the `Clock.now()` at which each gives it up."""
        return {plugin: self._ends[plugin] for plugin in self._timers}

    def allow(self, plugin: str) -> None:
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._settle(None)

    def reject(self, plugin: str, message: str) -> None:
        self._settle(Status.unschedulable(message).of(plugin))

    def preempt(self, message: str) -> None:
        """The place goes to a more important pod. No plugin turned this one away, so it is tried again soon."""
        self._settle(Status.error(message))

    async def outcome(self) -> Status | None:
        """None once allowed, else the rejection, or an ERROR for one that was preempted."""
        await self._settled.wait()
        return self._outcome

    def _expire(self, plugin: str, wait_s: float) -> None:
        self.reject(plugin, f"rejected due to timeout after waiting {_go_duration(wait_s)} at plugin {plugin}")

    def _settle(self, outcome: Status | None) -> None:
        if self._settled.is_set():
            return
        self._outcome = outcome
        self._settled.set()
        for timer in self._timers.values():
            timer.cancel()


class WaitingPods:
    """The pods on hold, by UID; one such map for all profiles."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def add(self, waiting: WaitingPod) -> None:
        self._pods[waiting.pod.metadata.uid] = waiting

    def remove(self, uid: str) -> None:
        self._pods.pop(uid, None)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def reject(self, uid: str, message: str = "removed", *, plugin: str = "") -> bool:
        """Reject the pod if it waits; says whether it did."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.reject(plugin, message)
        return True

    def preempt(self, uid: str, message: str) -> bool:
        """Preempt the pod if it waits; says whether it did."""
        waiting = self._pods.get(uid)
        if waiting is None:
            return False
        waiting.preempt(message)
        return True

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)


def _go_duration(seconds: float) -> str:
    """Seconds as Go prints a duration: "1.5s", "5m0s", "100ms"."""
    if seconds < 1:
        return f"{seconds * 1000:g}ms"
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    head = f"{hours:.0f}h{minutes:.0f}m" if hours else f"{minutes:.0f}m" if minutes else ""
    return f"{head}{rest:g}s"
