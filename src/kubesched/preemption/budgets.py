"""Which victims break a disruption budget (PodDisruptionBudget, policy/v1).

A budget protects the pods of its namespace that its selector matches. Taking one of them uses it up by one, unless the
pod is among those whose disruption is under way already. A pod under several budgets uses all of them. Budgets are used
up in the order in which pods are looked at, on each node anew. An absent, empty or invalid selector protects nobody,
nor does any selector protect a pod without labels (as kube-scheduler v1.36 has it).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from kubesched.api.core import Pod
from kubesched.api.errors import SelectorError
from kubesched.api.policy import PodDisruptionBudget
from kubesched.api.selectors import LabelMatcher, compile_label_selector


@dataclass(frozen=True, slots=True, eq=False)
class _Budget:
    matcher: LabelMatcher
    allowed: int
    under_way: Mapping[str, object]


class Budgets:
    def __init__(self, budgets: Iterable[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, list[_Budget]] = {}
        for budget in budgets:
            try:
                matcher = compile_label_selector(budget.spec.selector)
            except SelectorError:
                continue
            if matcher.is_everything or matcher.is_nothing:
                continue
            status = budget.status
            self._by_namespace.setdefault(budget.metadata.namespace, []).append(
                _Budget(matcher, status.disruptions_allowed, status.disrupted_pods)
            )

    def __bool__(self) -> bool:
        """Whether there is any budget that protects somebody."""
        return bool(self._by_namespace)

    def violations(self, pods: Sequence[Pod]) -> list[bool]:
        """For the pods of one node, taken in this order: does taking it break a budget?"""
        used: dict[_Budget, int] = {}
        return [self._takes(pod, used) for pod in pods]

    def _takes(self, pod: Pod, used: dict[_Budget, int]) -> bool:
        metadata = pod.metadata
        if not metadata.labels:
            return False
        breaks = False
        for budget in self._by_namespace.get(metadata.namespace, ()):
            if metadata.name in budget.under_way or not budget.matcher.matches(metadata.labels):
                continue
            used[budget] = used.get(budget, 0) + 1
            breaks |= used[budget] > budget.allowed
        return breaks
