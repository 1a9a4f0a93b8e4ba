"""Which plugins want to hear of which events, and what they say about a pod.

One table a profile, made from `events_to_register` of its plugins. A plugin that registers nothing particular hears of
everything, as the original's default has it.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from typing import Any

from kubesched.api.core import Pod
from kubesched.clock import Clock
from kubesched.framework.events import ALL_EVENTS, ClusterEvent, ClusterEventWithHint, HintFunction, QueueingHint
from kubesched.framework.plugin import Plugin
from kubesched.framework.runtime.build import PluginSetupError
from kubesched.framework.runtime.calling import PLUGIN_ERRORS, call
from kubesched.framework.status import Status
from kubesched.metrics import Metrics
from kubesched.scheduler.queue.in_flight import Happening
from kubesched.scheduler.queue.queued_pod import QueuedPod

log = logging.getLogger("kubesched.queue")

#: Rejections by somebody who registers no events, such as an extender: woken by whatever some plugin listens to.
ANYTHING = "*"


class Wake(Enum):
    """What an event means for a parked pod."""

    NO = "no"
    AFTER_BACKOFF = "after backoff"
    NOW = "now"


class HintTable:
    def __init__(self, plugins: Iterable[Plugin]) -> None:
        self._plugins = {plugin.name: plugin for plugin in plugins}
        self.registered: dict[str, list[ClusterEventWithHint]] = {}
        for name, plugin in self._plugins.items():
            self.registered[name] = _registered(plugin)
        self._listeners: dict[ClusterEvent, Mapping[str, list[HintFunction | None]]] = {}

    def listeners(self, happened: ClusterEvent) -> Mapping[str, list[HintFunction | None]]:
        """The plugins that want to hear of the event, with their hint functions for it; ANYTHING if there are any."""
        found = self._listeners.get(happened)
        if found is None:
            by_plugin = {
                name: hints
                for name, events in self.registered.items()
                if (hints := [entry.hint for entry in events if entry.event.covers(happened)])
            }
            found = self._listeners[happened] = {**by_plugin, ANYTHING: [None]} if by_plugin else by_plugin
        return found

    def resources(self) -> set[str]:
        """Kinds of objects that some plugin listens to."""
        return {entry.event.resource for events in self.registered.values() for entry in events}

    def waits_for(self, pod: QueuedPod) -> set[str]:
        """The plugins whose events may wake the pod."""
        if pod.gated_by:
            return {pod.gated_by}
        return {name if name in self.registered else ANYTHING for name in pod.rejected_by}

    def common_ground(self, pod: QueuedPod) -> Hashable | None:
        """Pods of which this is equal get equal answers from every hint that may be asked about them.

        None when a plugin cannot promise that: the pod is then asked about on its own.
        """
        parts: list[Hashable] = [frozenset(pod.pending_plugins), pod.gated_by]
        for name in sorted(self.waits_for(pod)):
            part = self._hint_sign(name, pod.pod)
            if part is None:
                return None
            parts.append((name, part))
        return tuple(parts)

    def _hint_sign(self, name: str, pod: Pod) -> Hashable | None:
        if name == ANYTHING or all(entry.hint is None for entry in self.registered[name]):
            return ()  # nobody looks at the pod
        plugin = self._plugins[name]
        try:
            sign = plugin.hint_sign(pod)
            hash(sign)
            return sign
        except PLUGIN_ERRORS as error:
            log.error("plugin failed to sign a pod plugin=%s pod=%s error=%s", name, pod.key, error, exc_info=error)
            return None


def _registered(plugin: Plugin) -> list[ClusterEventWithHint]:
    """PluginSetupError where the plugin does not say."""
    answer: Any = call(plugin, "EventsToRegister", plugin.events_to_register)
    match answer:
        case None:
            return [ClusterEventWithHint(ALL_EVENTS)]
        case Status():
            problem = answer.message
        case list() | tuple() if all(isinstance(each, ClusterEventWithHint) for each in answer):
            return list(answer)
        case _:
            problem = f"answered with {answer!r:.100}, want a list of ClusterEventWithHint"
    raise PluginSetupError(f'plugin "{plugin.name}": events_to_register: {problem}')


class HintAsker:
    """Asks hints about pods; observes how long each takes."""

    def __init__(self, table: HintTable, clock: Clock, metrics: Metrics) -> None:
        self.table = table
        self._clock = clock
        self._metrics = metrics

    def ask(self, pod: QueuedPod, happening: Happening) -> Wake:
        """What the event means for the pod, whether or not the happening concerns it."""
        rejected_by = self.table.waits_for(pod)
        if not rejected_by:
            return Wake.AFTER_BACKOFF
        wake = Wake.NO
        for plugin, hints in self.table.listeners(happening.event).items():
            if plugin not in rejected_by or (wake is Wake.AFTER_BACKOFF and plugin not in pod.pending_plugins):
                continue
            if any(self._says_queue(plugin, hint, pod, happening) for hint in hints):
                if plugin in pod.pending_plugins:
                    return Wake.NOW
                wake = Wake.AFTER_BACKOFF
                if not pod.pending_plugins:
                    return wake
        return wake

    def _says_queue(self, plugin: str, hint: HintFunction | None, pod: QueuedPod, happening: Happening) -> bool:
        """A hint that raises counts as Queue: better tried in vain than forgotten."""
        if hint is None:
            return True
        event, old, new = happening.event, happening.old, happening.new
        started_s = self._clock.monotonic()
        try:
            says_queue = hint(pod.pod, old, new) is QueueingHint.QUEUE
            result = "Queue" if says_queue else "QueueSkip"
        except PLUGIN_ERRORS as error:
            log.error(
                "queueing hint raised, trying the pod again plugin=%s event=%s pod=%s error=%s",
                plugin,
                event.label,
                pod.key,
                error,
                exc_info=error,
            )
            says_queue, result = True, "Error"
        self._metrics.queueing_hint(plugin, event.label, result, self._clock.monotonic() - started_s)
        return says_queue
