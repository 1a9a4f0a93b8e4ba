"""scheduling.k8s.io/v1: priority classes."""

from __future__ import annotations

from kubesched.api.meta import Int32, Object


class PriorityClass(Object):
    """An absent `preemption_policy` means PreemptLowerPriority."""

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
