"""Durations as Go writes and reads them: `15s`, `1m30s`, `1.5h`, `100ms`.

Nanoseconds inside, so that what is printed is what was read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

SECOND_NS = 1_000_000_000
_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": SECOND_NS,
    "m": 60 * SECOND_NS,
    "h": 3600 * SECOND_NS,
}
_PART = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]*)")
_MAX_NS = 2**63 - 1


class DurationError(ValueError):
    """The message is Go's."""


@dataclass(frozen=True, order=True, slots=True)
class Duration:
    nanoseconds: int = 0

    @classmethod
    def of(cls, seconds: float) -> Duration:
        return cls(round(seconds * SECOND_NS))

    @property
    def seconds(self) -> float:
        return self.nanoseconds / SECOND_NS

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        return format_duration(self.nanoseconds)


def parse_duration(text: str) -> Duration:
    """Raises DurationError for a text that Go's `time.ParseDuration` refuses."""
    rest = text.removeprefix("-") if text.startswith("-") else text.removeprefix("+")
    if rest == "0":
        return Duration(0)
    if not rest:
        raise DurationError(f'time: invalid duration "{text}"')
    total = 0
    while rest:
        part = _PART.match(rest)
        assert part is not None  # every group may be empty
        whole, fraction, unit = part.groups()
        if not (whole or fraction):
            raise DurationError(f'time: invalid duration "{text}"')
        if not unit:
            raise DurationError(f'time: missing unit in duration "{text}"')
        if unit not in _UNITS_NS:
            raise DurationError(f'time: unknown unit "{unit}" in duration "{text}"')
        if len(whole) > 20:
            raise DurationError(f'time: invalid duration "{text}"')
        total += int(whole or "0") * _UNITS_NS[unit]
        if fraction:
            digits = fraction[:20]
            total += int(Fraction(int(digits), 10 ** len(digits)) * _UNITS_NS[unit])
        rest = rest[part.end() :]
    if total > _MAX_NS:
        raise DurationError(f'time: invalid duration "{text}"')
    return Duration(-total if text.startswith("-") else total)


def format_duration(nanoseconds: int) -> str:
    """As Go's `Duration.String`: `1m30s`, `10m0s`, `1.5s`, `100ms`, `0s`."""
    sign, amount = ("-", -nanoseconds) if nanoseconds < 0 else ("", nanoseconds)
    if amount == 0:
        return "0s"
    for unit, size in (("ns", 1), ("µs", 1_000), ("ms", 1_000_000)):
        if amount < size * 1000:
            return sign + _decimal(amount, size) + unit
    minutes, below_minute = divmod(amount, 60 * SECOND_NS)
    hours, minutes = divmod(minutes, 60)
    text = _decimal(below_minute, SECOND_NS) + "s"
    if hours or minutes:
        text = f"{minutes}m{text}"
    return f"{sign}{hours}h{text}" if hours else sign + text


def _decimal(amount: int, size: int) -> str:
    whole, rest = divmod(amount, size)
    if not rest:
        return str(whole)
    return f"{whole}.{str(rest).rjust(len(str(size)) - 1, '0').rstrip('0')}"
