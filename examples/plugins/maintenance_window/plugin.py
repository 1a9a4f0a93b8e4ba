"""Maintenance windows: no pod is placed where it would be running when the node is taken away.

A node announces its window in the annotation `maintenance-window`, `BEGIN/END` as RFC 3339 times. A pod that says how
long it runs (`activeDeadlineSeconds`, or the annotation `expected-duration`: `90s`, `10m`, `2h`) may go there as long
as it is over before the window begins; one that does not say counts as endless.
"""

from datetime import datetime

import msgspec

from kubesched.framework import ActionType, ClusterEvent, ClusterEventWithHint, Plugin, Status

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class MaintenanceWindowArgs(msgspec.Struct, frozen=True, rename="camel"):
    window_annotation: str = "maintenance-window"
    duration_annotation: str = "expected-duration"
    tolerated_annotation: str = "maintenance-tolerated"
    #: Pods must be over so long before the window begins.
    margin_seconds: int = 60


class MaintenanceWindow(Plugin):
    name = "MaintenanceWindow"
    args_type = MaintenanceWindowArgs

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self._timers = {}

    def filter(self, state, pod, node):
        window = self._window(node)
        if window is None or pod.metadata.annotations.get(self.args.tolerated_annotation) == "true":
            return None
        now, (begin, end) = self.handle.clock.now(), window
        if now >= end or now + self._duration_s(pod) + self.args.margin_seconds <= begin:
            return None
        self._wake_when_over(pod, end - now)
        return Status.unresolvable("node(s) were in or too close to their maintenance window")

    def events_to_register(self):
        changed = ActionType.ADD | ActionType.UPDATE_NODE_ANNOTATION
        return [ClusterEventWithHint(ClusterEvent("Node", changed))]

    def details(self, state, pod, node):
        return {"window": node.annotations.get(self.args.window_annotation)}

    def close(self):
        for timer in self._timers.values():
            timer.cancel()

    def _wake_when_over(self, pod, wait_s):
        """The end of a window is no event of the cluster: one timer a pod, for the window that ends first."""
        uid, due = pod.metadata.uid, self.handle.clock.now() + wait_s
        known = self._timers.get(uid)
        if known is not None:
            if known.due <= due:
                return
            known.cancel()
        self._timers[uid] = _Timer(due, self.handle.clock.call_later(wait_s, self._wake, pod))

    def _wake(self, pod):
        del self._timers[pod.metadata.uid]
        self.handle.control.activate([pod])

    def _window(self, node):
        text = node.annotations.get(self.args.window_annotation, "")
        begin, slash, end = text.partition("/")
        if not slash:
            return None
        try:
            return datetime.fromisoformat(begin).timestamp(), datetime.fromisoformat(end).timestamp()
        except ValueError:
            return None  # a window that nobody can read keeps no pod away

    def _duration_s(self, pod):
        text = pod.metadata.annotations.get(self.args.duration_annotation, "")
        if text and text[-1] in _UNITS_S and text[:-1].isdigit():
            return int(text[:-1]) * _UNITS_S[text[-1]]
        deadline = pod.spec.active_deadline_seconds
        return float("inf") if deadline is None else deadline


class _Timer:
    def __init__(self, due, handle):
        self.due = due
        self.cancel = handle.cancel
