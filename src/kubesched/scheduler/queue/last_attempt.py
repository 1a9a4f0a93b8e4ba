"""`LastAttempt`: what is remembered of a pod's last attempt, for `kubesched explain` on a running scheduler.

Counts of nodes by reason, never the nodes themselves: it stays small however large the cluster is. There is one a
pending pod, in its `QueuedPod`; the next failure replaces it, and it goes when the pod is bound or deleted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from kubesched.framework.status import Code
from kubesched.scheduler.outcome import Failure

#: Groups of nodes that are remembered, the largest. Plugins and extenders may give each node a text of its own.
GROUPS_MAX = 16


@dataclass(frozen=True, slots=True)
class Rejected:
    """So many nodes were rejected by this plugin for these reasons."""

    plugin: str
    code: Code
    reasons: tuple[str, ...]
    node_count: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class LastAttempt:
    #: The message of the pod's condition.
    message: str
    is_error: bool
    #: Of an error: the plugin that raised or answered it.
    plugin: str = ""
    #: Of a rejection: the largest groups first, and the number of nodes in groups beyond.
    rejected: tuple[Rejected, ...] = ()
    rejected_beyond: int = 0
    #: What PostFilter said where it did not help.
    preemption: str = ""
    #: The node on which it makes room, or "".
    nominated_node: str = ""

    @classmethod
    def of(cls, failure: Failure) -> LastAttempt:
        status, fit_error = failure.status, failure.fit_error
        if fit_error is None and status.is_rejected and status.plugin:  # after Permit: about the one node
            return cls(failure.message, False, rejected=(Rejected(status.plugin, status.code, status.reasons, 1),))
        if fit_error is None:
            return cls(failure.message, not status.is_rejected, status.plugin)
        counts: Counter[tuple[str, Code, tuple[str, ...]]] = Counter()
        for said, count in fit_error.diagnosis.node_statuses.counts(fit_error.node_count):
            counts[said.plugin, said.code, said.reasons] += count
        groups = counts.most_common()
        return cls(
            failure.message,
            is_error=False,
            rejected=tuple(Rejected(*group, count) for group, count in groups[:GROUPS_MAX]),
            rejected_beyond=sum(count for _, count in groups[GROUPS_MAX:]),
            preemption=fit_error.diagnosis.post_filter_message,
            nominated_node=failure.nomination or "",
        )

    @property
    def message_before_preemption(self) -> str:
        """Without what PostFilter added to it."""
        return self.message.removesuffix(f" {self.preemption}") if self.preemption else self.message
