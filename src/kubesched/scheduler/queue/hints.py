"""Which plugins want to hear of which events, and what they say about a pod.

One table a profile, made from `events_to_register` of its plugins. A plugin that registers nothing particular hears of
everything, as the original's default has it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum
from typing import Any

from kubesched.framework.events import ALL_EVENTS, ClusterEvent, ClusterEventWithHint, HintFunction, QueueingHint
from kubesched.framework.plugin import Plugin
from kubesched.metrics import Metrics
from kubesched.scheduler.queue.queued_pod import QueuedPod

log = logging.getLogger("kubesched.queue")


class Wake(Enum):
    """What an event means for a parked pod."""

    NO = "no"
    AFTER_BACKOFF = "after backoff"
    NOW = "now"


class HintTable:
    def __init__(self, plugins: Iterable[Plugin], metrics: Metrics) -> None:
        self._metrics = metrics
        self._registered: dict[str, list[ClusterEventWithHint]] = {}
        for plugin in plugins:
            events = plugin.events_to_register()
            self._registered[plugin.name] = [ClusterEventWithHint(ALL_EVENTS)] if events is None else events
        self._listeners: dict[ClusterEvent, dict[str, list[HintFunction | None]]] = {}

    def listeners(self, happened: ClusterEvent) -> dict[str, list[HintFunction | None]]:
        """The plugins that want to hear of the event, with their hint functions for it."""
        found = self._listeners.get(happened)
        if found is None:
            found = self._listeners[happened] = {
                name: hints
                for name, events in self._registered.items()
                if (hints := [entry.hint for entry in events if entry.event.covers(happened)])
            }
        return found

    def resources(self) -> set[str]:
        """Kinds of objects that some plugin listens to."""
        return {entry.event.resource for events in self._registered.values() for entry in events}

    def ask(self, pod: QueuedPod, happened: ClusterEvent, old: Any, new: Any) -> Wake:
        """A hint that raises counts as Queue: better tried in vain than forgotten."""
        rejected_by = {pod.gated_by} if pod.gated_by else pod.rejected_by
        if not rejected_by:
            return Wake.AFTER_BACKOFF
        wake = Wake.NO
        for plugin, hints in self.listeners(happened).items():
            if plugin not in rejected_by or (wake is Wake.AFTER_BACKOFF and plugin not in pod.pending_plugins):
                continue
            if any(self._hint(plugin, hint, pod, happened, old, new) for hint in hints):
                if plugin in pod.pending_plugins:
                    return Wake.NOW
                wake = Wake.AFTER_BACKOFF
                if not pod.pending_plugins:
                    return wake
        return wake

    def _hint(
        self, plugin: str, hint: HintFunction | None, pod: QueuedPod, happened: ClusterEvent, old: Any, new: Any
    ) -> bool:
        if hint is None:
            return True
        try:
            return hint(pod.pod, old, new) is QueueingHint.QUEUE
        except Exception as error:
            log.error(
                "queueing hint raised, trying the pod again plugin=%s event=%s pod=%s error=%s",
                plugin,
                happened.label,
                pod.key,
                error,
                exc_info=error,
            )
            return True
