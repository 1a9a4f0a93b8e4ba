"""Counters, gauges and histograms that cost a few hundred nanoseconds.

`prometheus_client`'s own take a lock and several calls for each observation, which would be a visible part of a
decision of half a millisecond. A scheduler has one writer, the event loop, so plain additions are enough; a reader that
runs on that loop sees consistent values. Two threads that write the same series at once may lose one of the writes.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Sample = tuple[str, dict[str, str], float]
"""Suffix of the metric's name, labels beyond the family's own, value."""


class Counter:
    """Only goes up."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0.0

    def inc(self, by: float = 1.0) -> None:
        self.value += by

    def samples(self) -> Iterator[Sample]:
        yield "", {}, self.value

    def reset(self) -> None:
        self.value = 0.0


class Gauge:
    """Goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0.0

    def set(self, value: float) -> None:
        self.value = value

    def inc(self, by: float = 1) -> None:
        self.value += by

    def dec(self, by: float = 1.0) -> None:
        self.value -= by

    def samples(self) -> Iterator[Sample]:
        yield "", {}, self.value

    def reset(self) -> None:
        self.value = 0.0


class Histogram:
    """Counts by upper bound, each observation in the first bucket whose bound is not below it.

    `observe(value)` only takes a note: notes become counts when somebody reads, or at the next `count_up`, which has to
    be called now and then.
    """

    __slots__ = ("_counts", "_notes", "_sum", "bounds", "observe")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum: float = 0.0
        self._notes: list[float] = []
        # A pod is observed some thirty times: a method around this would cost ten times as much.
        self.observe: Callable[[float], None] = self._notes.append

    def count_up(self) -> None:
        notes = self._notes
        if not notes:
            return
        bounds, counts = self.bounds, self._counts
        self._sum = sum(notes, self._sum)
        if len(notes) <= len(bounds):
            for value in notes:
                counts[bisect_left(bounds, value)] += 1
        else:  # of many it is cheaper to look for the bounds among them
            notes.sort()
            below = 0
            for bucket, bound in enumerate(bounds):
                up_to = bisect_right(notes, bound)
                counts[bucket] += up_to - below
                below = up_to
            counts[-1] += len(notes) - below
        notes.clear()

    @property
    def counts(self) -> list[int]:
        """By bucket; the last is for what exceeds all bounds."""
        self.count_up()
        return self._counts

    @property
    def sum(self) -> float:
        self.count_up()
        return self._sum

    @property
    def count(self) -> int:
        return sum(self.counts)

    def samples(self) -> Iterator[Sample]:
        running = 0
        for bound, count in zip((*self.bounds, math.inf), self.counts, strict=True):
            running += count
            yield "_bucket", {"le": spell(bound)}, running
        yield "_count", {}, running
        yield "_sum", {}, self.sum

    def reset(self) -> None:
        self._notes.clear()
        self._counts = [0] * (len(self.bounds) + 1)
        self._sum = 0.0


Series = TypeVar("Series", Counter, Gauge, Histogram)


class Family(Generic[Series]):
    """All series of one metric name, one for each combination of label values.

    `labels(*values)` makes a series on first use and is cheap afterwards; hot code keeps what it returns. A family
    without series is not exported, as in the original.
    """

    __slots__ = ("_make", "_series", "help", "kind", "label_names", "name")

    def __init__(
        self, kind: str, name: str, help: str, label_names: tuple[str, ...], make: Callable[[], Series]
    ) -> None:
        self.kind = kind
        self.name = name
        self.help = help
        self.label_names = label_names
        self._make: Callable[[], Series] = make
        self._series: dict[tuple[str, ...], Series] = {}

    def labels(self, *values: str) -> Series:
        series = self._series.get(values)
        return self._add(values) if series is None else series

    def items(self) -> Iterator[tuple[tuple[str, ...], Series]]:
        yield from self._series.items()

    def all(self) -> Iterator[Series]:
        yield from self._series.values()

    def reset(self) -> None:
        """Start from zero. Series stay the objects they are: whoever keeps one goes on writing to what is exported."""
        for series in self._series.values():
            series.reset()

    def collect(self) -> Metric:
        """What `prometheus_client` renders: samples with bounds spelled as the original spells them."""
        from prometheus_client.core import Metric

        metric = Metric(self.name.removesuffix("_total") if self.kind == "counter" else self.name, self.help, self.kind)
        for values, series in sorted(self._series.items(), key=lambda item: item[0]):
            labels = dict(zip(self.label_names, values, strict=True))
            for suffix, more, value in series.samples():
                metric.add_sample(self.name + suffix, labels | more, value)
        return metric

    def _add(self, values: tuple[str, ...]) -> Series:
        if len(values) != len(self.label_names):
            raise ValueError(f"{self.name} has labels {self.label_names}, got {values}")
        series = self._make()
        self._series[values] = series
        return series


def counters(name: str, help: str, *label_names: str) -> Family[Counter]:
    return Family("counter", name, help, label_names, Counter)


def gauges(name: str, help: str, *label_names: str) -> Family[Gauge]:
    return Family("gauge", name, help, label_names, Gauge)


def histograms(name: str, help: str, bounds: tuple[float, ...], *label_names: str) -> Family[Histogram]:
    return Family("histogram", name, help, label_names, lambda: Histogram(bounds))


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """`count` bounds, each the one before times `factor`, rounded as repeated float multiplication rounds."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


@lru_cache(maxsize=512)
def spell(bound: float) -> str:
    """A bucket's bound as Go prints it, because queries name buckets by this text: `1`, `0.0001`, `1e-05`, `1e+06`."""
    if math.isinf(bound):
        return "+Inf"
    exact = Decimal(repr(float(bound))).normalize()
    power = exact.adjusted()
    if -4 <= power < 6 or not bound:
        return repr(float(bound)).removesuffix(".0")
    first, *rest = exact.as_tuple().digits
    fraction = "." + "".join(map(str, rest)) if rest else ""
    return f"{first}{fraction}e{power:+03d}"
