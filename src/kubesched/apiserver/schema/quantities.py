"""Quantities in the canonical text that the API server writes back: `1000m` is `1`, `0.5` is `500m`."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil
from typing import Any

_TEXT = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][-+]?\d+|[numkMGTPE]|[KMGTPE]i|)")
_PLAIN = re.compile(r"0|[1-9]\d{0,2}|[1-9]\d{0,2}[mkMG]")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIX_OF_POWER = {power: suffix for suffix, power in _DECIMAL.items()}
_MESSAGE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class InvalidQuantity(ValueError):
    pass


def canonical(value: Any) -> str:
    """The canonical text of a quantity given as text or number. Raises InvalidQuantity."""
    if type(value) is str:
        return value if _PLAIN.fullmatch(value) else _canonical(value)
    if type(value) in (int, float):
        return _canonical(str(value))
    raise InvalidQuantity(_MESSAGE)


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidQuantity(_MESSAGE)
    sign, digits, suffix = found.groups()
    number = Fraction(digits) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        number *= 1024 ** _BINARY[suffix]
        if abs(number) >= 1024 and number.denominator == 1:
            return _binary(int(number))
        return _decimal(number)
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return _exponent(number * Fraction(10) ** int(suffix[1:]))
    return _decimal(number * Fraction(10) ** _DECIMAL[suffix])


def _binary(number: int) -> str:
    power = 0
    while number and number % 1024 == 0 and power < 6:
        number //= 1024
        power += 1
    return str(number) + next((s for s, p in _BINARY.items() if p == power), "")


def _decimal(number: Fraction) -> str:
    mantissa, power = _scaled(number)
    return f"{mantissa}{_SUFFIX_OF_POWER[power]}" if mantissa else "0"


def _exponent(number: Fraction) -> str:
    mantissa, power = _scaled(number)
    return (f"{mantissa}e{power}" if power else str(mantissa)) if mantissa else "0"


def _scaled(number: Fraction) -> tuple[int, int]:
    """mantissa × 10^power with the largest power of three that keeps it whole; rounded up to nanos."""
    power = -9
    scaled = number * 10**9
    mantissa = ceil(abs(scaled)) * (-1 if scaled < 0 else 1)
    while mantissa and mantissa % 1000 == 0 and power < 18:
        mantissa //= 1000
        power += 3
    return mantissa, power


@lru_cache(maxsize=4096)
def amount(text: str) -> Fraction:
    """The exact number of a quantity. Raises InvalidQuantity."""
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidQuantity(_MESSAGE)
    sign, digits, suffix = found.groups()
    number = Fraction(digits) * (-1 if sign == "-" else 1)
    if suffix in _BINARY:
        return number * Fraction(1024) ** _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * Fraction(10) ** _DECIMAL[suffix]
    return number * Fraction(10) ** int(suffix[1:])
