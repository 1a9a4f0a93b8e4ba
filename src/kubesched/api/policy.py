"""policy/v1: how many pods of a set may be missing at a time."""

from __future__ import annotations

from kubesched.api.meta import Condition, Int32, Int64, Object, Struct
from kubesched.api.selectors import LabelSelector


class PodDisruptionBudgetSpec(Struct):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct):
    """`disrupted_pods` maps pod names to the time of the eviction that is under way."""

    disruptions_allowed: Int32 = 0
    current_healthy: Int32 = 0
    desired_healthy: Int32 = 0
    expected_pods: Int32 = 0
    disrupted_pods: dict[str, str | None] = {}
    observed_generation: Int64 = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
