"""`--disabled-metrics` and `--allow-metric-labels`: what is left out of the text, and which label values stay.

A value that is not on its label's list becomes `unexpected`; series that are equal then are added up, so that totals
stay true. (kube-scheduler v1.36, component-base)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from prometheus_client.core import Metric

UNEXPECTED: Final = "unexpected"

Allowed = Mapping[tuple[str, str], frozenset[str]]
"""By metric and label: the values that stay."""


class LimitError(ValueError):
    """A list of allowed values that cannot be meant."""


def parse_allowed(items: Iterable[str]) -> Allowed:
    """From `METRIC,LABEL='v1,v2'`. Raises LimitError."""
    allowed: dict[tuple[str, str], frozenset[str]] = {}
    for item in items:
        key, equals, values = item.partition("=")
        metric, comma, label = key.partition(",")
        values = values.strip().strip("'\"")
        if not (metric.strip() and comma and label.strip() and equals and values):
            raise LimitError(f"--allow-metric-labels {item}: want METRIC,LABEL='VALUE,VALUE'")
        allowed[metric.strip(), label.strip()] = frozenset(value.strip() for value in values.split(","))
    return allowed


class Limits:
    def __init__(self, disabled: Iterable[str] = (), allowed: Allowed | None = None) -> None:
        self._disabled = frozenset(disabled)
        self._labels: dict[str, dict[str, frozenset[str]]] = {}
        for (metric, label), values in (allowed or {}).items():
            self._labels.setdefault(metric, {})[label] = values

    def leaves_out(self, name: str) -> bool:
        return name in self._disabled

    def apply(self, name: str, metric: Metric) -> Metric:
        """The metric with its label values limited; the same object where there is nothing to limit."""
        rules = self._labels.get(name)
        if not rules:
            return metric
        totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        for sample in metric.samples:
            labels = {
                label: value if label not in rules or value in rules[label] else UNEXPECTED
                for label, value in sample.labels.items()
            }
            key = sample.name, tuple(labels.items())
            totals[key] = totals.get(key, 0) + sample.value
        metric.samples = []
        for (sample_name, pairs), value in totals.items():
            metric.add_sample(sample_name, dict(pairs), value)
        return metric
