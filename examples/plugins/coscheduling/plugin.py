"""Coscheduling: the pods of a group are bound all together or not at all.

Pods belong to a group by the label `pod-group`; the annotation `pod-group-min` says how many of them are needed. Each
pod that has found a node waits there in Permit until enough of its group have one, then all are let go. When the time
is up, or when a member finds no room, the whole group gives its seats back.

Two groups that each hold half of what the other needs would do that for ever, so groups that had to give up take turns:
they stand in a line, and only the first one may take seats. When it gives up again, or nothing comes of its turn, it
goes to the end; so one that can never fit does not stop the others.
"""

from collections import deque

import msgspec

from kubesched.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    Plugin,
    PostFilterResult,
    QueueingHint,
    Status,
)

#: Pauses before a turn, doubled each time that the group gives up: a scheduler that has nothing else to do would try
#: groups that cannot fit as fast as it can.
_PAUSE_S, _PAUSE_S_MAX = 0.5, 30.0


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel"):
    group_label: str = "pod-group"
    min_annotation: str = "pod-group-min"
    permit_timeout_seconds: float = 60.0


class Coscheduling(Plugin):
    name = "Coscheduling"
    args_type = CoschedulingArgs

    def __init__(self, args, handle):
        super().__init__(args, handle)
        self._groups = {}
        #: Groups that had to give up, in the order of their turns.
        self._line = deque()
        #: The first of them, once its pause is over.
        self._on_turn = None
        self._timer = None

    def close(self):
        self._set_timer(None)

    # -- the queue: members of a group stand together, behind more important pods

    def less(self, a, b):
        return self.sort_key(a) < self.sort_key(b)

    def sort_key(self, queued):
        pod, group = queued.pod, self._group_of(queued.pod)
        since, name = (queued.timestamp, "") if group is None else (group.since, group.name)
        return -(pod.spec.priority or 0), since, name, queued.timestamp, queued.key

    # -- the cycle

    def pre_filter(self, state, pod, nodes):
        group = self._group_of(pod)
        if group is None:
            return Status.skip()
        if not self._may_try(group):
            # Unresolvable: nobody should be preempted for a pod that may not run yet.
            return Status.unresolvable(f"pod group {group.name} waits for its turn")
        return None

    def post_filter(self, state, pod, diagnosis):
        """A member finds no room: the seats that the others hold are of no use to anybody."""
        group = self._group_of(pod)
        if group is not None and self._may_try(group) and self._missing(group, pod) > 0:
            self._give_up(group, f"pod group {group.name} has no room for {pod.metadata.name}")
        return PostFilterResult(), Status.unschedulable()

    def reserve(self, state, pod, node_name):
        group = self._group_of(pod)
        if group is not None:
            group.seated.add(pod.metadata.uid)

    def permit(self, state, pod, node_name):
        group = self._group_of(pod)
        if group is None:
            return None
        missing = self._missing(group, pod)
        if missing > 0:
            # Its other members are tried next, whatever they wait for.
            state.pods_to_activate.update({each.key: each for each in group.standing()})
            return Status.wait(f"pod group {group.name} needs {missing} more"), self.args.permit_timeout_seconds
        for waiting in self._waiting(group):
            waiting.allow(self.name)
        group.failures = 0
        if group in self._line:
            self._line.remove(group)
            self._next_turn()
        return None

    def unreserve(self, state, pod, node_name):
        group = self._group_of(pod)
        if group is None:
            return
        group.seated.discard(pod.metadata.uid)
        if self._missing(group, pod) > 0:
            self._give_up(group, f"pod group {group.name} gives its seats back")

    def post_bind(self, state, pod, node_name):
        group = self._group_of(pod)
        if group is not None:
            group.members.pop(pod.metadata.uid, None)

    def events_to_register(self):
        return [
            ClusterEventWithHint(ClusterEvent("AssignedPod", ActionType.DELETE)),
            ClusterEventWithHint(ClusterEvent("Node", ActionType.ADD | ActionType.UPDATE_NODE_ALLOCATABLE)),
            ClusterEventWithHint(ClusterEvent("UnschedulablePod", ActionType.ADD), self._is_sibling),
        ]

    def _is_sibling(self, pod, old, new):
        is_sibling = new is not None and self._key(new) == self._key(pod)
        return QueueingHint.QUEUE if is_sibling else QueueingHint.SKIP

    # -- groups

    def _key(self, pod):
        name = pod.metadata.labels.get(self.args.group_label)
        return f"{pod.metadata.namespace}/{name}" if name else ""

    def _group_of(self, pod):
        key = self._key(pod)
        if not key:
            return None
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = Group(key, self.handle.clock.now())
            for uid, placement in self.handle.state.placements.items():
                if self._key(placement.pod.pod) == key:
                    group.seated.add(uid)
        group.members[pod.metadata.uid] = pod
        return group

    def _missing(self, group, pod):
        """How many more members must have a seat before any of them may go."""
        text = pod.metadata.annotations.get(self.args.min_annotation, "")
        wanted = int(text) if text.isdigit() else 1
        return wanted - sum(1 for uid in group.seated if self.handle.state.node_of(uid))

    def _waiting(self, group):
        return [waiting for waiting in self.handle.waiting_pods if self._key(waiting.pod) == group.name]

    # -- turns

    def _may_try(self, group):
        return group not in self._line or self._on_turn is group

    def _give_up(self, group, why):
        for waiting in self._waiting(group):
            waiting.reject(self.name, why)
        if not self._may_try(group):
            return  # one of those that were just rejected
        group.failures += 1
        is_new = group not in self._line
        if not is_new:
            self._line.remove(group)
        self._line.append(group)
        if self._on_turn is None or self._on_turn is group:
            # Seats that are given back for the first time may be just what the first of the line waits for.
            self._next_turn(_PAUSE_S if is_new else self._pause_s())

    def _next_turn(self, pause_s=_PAUSE_S):
        self._on_turn = None
        self._set_timer(None)
        if self._line:
            self._set_timer(self.handle.clock.call_later(pause_s, self._begin_turn, self._line[0]))

    def _pause_s(self):
        return min(_PAUSE_S * 2 ** min(self._line[0].failures - 1, 10), _PAUSE_S_MAX)

    def _begin_turn(self, group):
        self._on_turn = group
        self.handle.control.activate(group.standing())
        self._set_timer(self.handle.clock.call_later(self.args.permit_timeout_seconds, self._end_turn, group))

    def _end_turn(self, group):
        """Nothing has come of it: its pods may be gone, or some are still missing."""
        self._line.remove(group)
        if self._line:
            self._line.append(group)
        self._next_turn()

    def _set_timer(self, timer):
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer


class Group:
    def __init__(self, name, since):
        self.name = name
        #: When its first member was seen.
        self.since = since
        #: Every member seen that is not bound, by UID.
        self.members = {}
        #: UIDs of those that have a seat, or had one: who is still there, the state knows.
        self.seated = set()
        #: How often it gave up since it was last let go.
        self.failures = 0

    def standing(self):
        return [pod for uid, pod in self.members.items() if uid not in self.seated]
