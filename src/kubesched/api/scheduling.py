"""scheduling.k8s.io/v1: priority classes."""

from __future__ import annotations

from kubesched.api.meta import Object


class PriorityClass(Object):
    """An absent `preemption_policy` means PreemptLowerPriority."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str | None = None
    description: str = ""
