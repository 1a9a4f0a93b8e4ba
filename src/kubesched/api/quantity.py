"""Kubernetes quantities: `100m`, `1.5Gi`, `1e3`, and plain JSON numbers.

Everything is exact integer arithmetic of any size, so nothing wraps: `100E` of memory is more than any node has, where
the original (v1.36) turns it into a negative number. Two limits are the original's own: what is finer than one
billionth is rounded up to it, and values with a binary suffix stop at 2^63-1. Conversions round away from zero, so that
who asks for something gets something.

Parsing is cached, since a cluster spells its few thousand distinct quantities millions of times.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TypeAlias

from kubesched.api.errors import QuantityError

Quantity: TypeAlias = str | int | float
"""A quantity as it stands in the document; a JSON number is as good as a string."""

ResourceList: TypeAlias = dict[str, Quantity]
"""Quantities by resource name."""

NANOS = 10**9
"""Parts of one unit that `nano_value` counts in."""

_CACHED_QUANTITIES = 65536


@lru_cache(_CACHED_QUANTITIES)
def value(quantity: Quantity) -> int:
    """Whole units (bytes, cores, devices), rounded up. QuantityError."""
    return whole(nano_value(quantity))


@lru_cache(_CACHED_QUANTITIES)
def milli_value(quantity: Quantity) -> int:
    """Thousandths of a unit (cpu is counted in them), rounded up. QuantityError."""
    return whole_milli(nano_value(quantity))


@lru_cache(_CACHED_QUANTITIES)
def nano_value(quantity: Quantity) -> int:
    """The exact value in billionths of a unit: what sums are made of before they are rounded once. QuantityError."""
    nanos, _ = _parse(quantity)
    return nanos


def whole(nanos: int) -> int:
    """Billionths to units, rounded away from zero."""
    return -(-nanos // NANOS) if nanos >= 0 else nanos // NANOS


def whole_milli(nanos: int) -> int:
    """Billionths to thousandths, rounded away from zero."""
    return -(-nanos // 1_000_000) if nanos >= 0 else nanos // 1_000_000


def canonical(quantity: Quantity) -> str:
    """The spelling in which an API server stores and shows the quantity: `0.1` is `100m`, `1024Mi` is `1Gi`."""
    nanos, spelling = _parse(quantity)
    if nanos == 0:
        return "0"
    if spelling == _BINARY and abs(nanos) >= 1024 * NANOS and nanos % NANOS == 0:
        return _canonical_binary(nanos // NANOS)
    return _canonical_decimal(nanos, exponent_form=spelling == _EXPONENT)


_FORM = re.compile(r"([+-]?)([0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)")
_DIGITS = re.compile(r"([0-9]*)(?:\.([0-9]*))?")
_EXPONENT_SUFFIX = re.compile(r"[eE]([-+]?[0-9]+)")

_DECIMAL, _BINARY, _EXPONENT = "decimal", "binary", "exponent"

_DECIMAL_SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_MAX_BINARY = (2**63 - 1) * NANOS

# Beyond these no quantity means anything to a cluster, and arithmetic on it would only cost time. An exponent out of
# range is brought to the limit: still more than any node has, or still rounded up to one billionth.
_MAX_DIGITS = 1000
_MAX_EXPONENT = 1000

_WRONG_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # the API's own words
)
_WRONG_NUMBER = "unable to parse numeric part of quantity"
_WRONG_SUFFIX = "unable to parse quantity's suffix"


def _parse(quantity: Quantity) -> tuple[int, str]:
    """Billionths, and the kind of spelling."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    form = _FORM.fullmatch(text)
    if form is None:
        raise QuantityError(_WRONG_FORM)
    sign, number, suffix = form.groups()

    digits = _DIGITS.fullmatch(number)
    # A lone dot has no digits. The original takes it for zero; the field says that nobody means that.
    if digits is None or number == ".":
        raise QuantityError(_WRONG_FORM)
    integer, fraction = digits[1], digits[2] or ""
    if len(integer) + len(fraction) > _MAX_DIGITS:
        raise QuantityError(_WRONG_NUMBER)
    mantissa = int(integer + fraction)

    if (power := _BINARY_SUFFIXES.get(suffix)) is not None:
        spelling = _BINARY
        nanos = min(_scaled(mantissa << power, 9 - len(fraction)), _MAX_BINARY)
    elif (exponent := _DECIMAL_SUFFIXES.get(suffix)) is not None:
        spelling = _DECIMAL
        nanos = _scaled(mantissa, exponent + 9 - len(fraction))
    elif exponent_form := _EXPONENT_SUFFIX.fullmatch(suffix):
        spelling = _EXPONENT
        nanos = _scaled(mantissa, _exponent(exponent_form[1]) + 9 - len(fraction))
    else:
        raise QuantityError(_WRONG_SUFFIX)
    return (-nanos if sign == "-" else nanos), spelling


def _exponent(text: str) -> int:
    exponent = int(text) if len(text) <= _MAX_DIGITS else 2**63
    if not -(2**63) <= exponent < 2**63:
        raise QuantityError(_WRONG_SUFFIX)
    return max(-2 * _MAX_EXPONENT, min(_MAX_EXPONENT, exponent))


def _scaled(mantissa: int, exponent: int) -> int:
    """mantissa * 10^exponent, rounded up."""
    power: int = 10 ** abs(exponent)
    return mantissa * power if exponent >= 0 else -(-mantissa // power)


def _canonical_binary(units: int) -> str:
    for suffix, power in reversed(_BINARY_SUFFIXES.items()):
        if units % (1 << power) == 0:
            return f"{units >> power}{suffix}"
    return str(units)


def _canonical_decimal(nanos: int, *, exponent_form: bool) -> str:
    exponent = -9
    while nanos % 1000 == 0 and (exponent_form or exponent < 18):
        nanos //= 1000
        exponent += 3
    if exponent_form:
        return f"{nanos}e{exponent}" if exponent else str(nanos)
    suffix = next(suffix for suffix, power in _DECIMAL_SUFFIXES.items() if power == exponent)
    return f"{nanos}{suffix}"
