"""`QueuedPod`: a pending pod with the history of its attempts."""

from __future__ import annotations

from kubesched.api.core import Pod
from kubesched.scheduler.queue.last_attempt import LastAttempt
from kubesched.state.pod_info import PodInfo


class QueuedPod:
    """Times are `Clock.now()`, in seconds. QueueSort plugins see this class."""

    __slots__ = (
        "attempts",
        "backoff_until",
        "blamed",
        "error_count",
        "first_attempt",
        "flushed_at",
        "gated_by",
        "key",
        "last_attempt",
        "last_message",
        "pending_plugins",
        "pod_info",
        "timestamp",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod_info: PodInfo, now: float) -> None:
        self.pod_info = pod_info
        self.uid: str = pod_info.uid
        #: namespace/name
        self.key = pod_info.key
        #: When the pod came, or came back from an attempt: orders pods of equal priority, and backoff counts from it.
        self.timestamp = now
        self.attempts = 0
        #: When it could first be popped, that is when no PreEnqueue plugin held it back any more; None before.
        self.first_attempt: float | None = None
        #: Rejections so far, and errors in a row since the last of them: the exponents of the backoff.
        self.unschedulable_count = 0
        self.error_count = 0
        self.backoff_until = 0.0
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        #: The PreEnqueue plugin that holds the pod back, or "".
        self.gated_by = ""
        #: Whether the coming attempt is owed to the flush of pods that waited for too long, and when that was last.
        self.was_flushed = False
        self.flushed_at = now
        #: The plugins under which the pod counts in the metric of unschedulable pods.
        self.blamed: frozenset[str] = frozenset()
        #: Why the last attempt failed, or what holds the pod back, for people.
        self.last_message = ""
        #: The last attempt in more detail; None before the first has failed.
        self.last_attempt: LastAttempt | None = None

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod

    @property
    def rejected_by(self) -> set[str]:
        return self.unschedulable_plugins | self.pending_plugins

    def __repr__(self) -> str:
        return f"<QueuedPod {self.key} attempts={self.attempts}>"
