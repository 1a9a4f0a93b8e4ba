"""Quantities as the API server writes them back, with the answer it gives to one that is none."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from kubesched.api import quantity
from kubesched.api.errors import QuantityError

_PLAIN = re.compile(r"0|[1-9]\d{0,2}|[1-9]\d{0,2}[mkMG]")
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


def resource_amount(value: Any) -> str:
    """As `canonical`, rounded up to thousandths: what a list of resources holds is never finer."""
    text = canonical(value)
    return _canonical(f"{quantity.milli_value(text)}m") if text[-1] in "nu" else text


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    try:
        return quantity.canonical(text)
    except QuantityError:
        raise InvalidQuantity(_MESSAGE) from None


@lru_cache(maxsize=4096)
def amount(text: str) -> int:
    """The exact size of a quantity, in billionths. Raises InvalidQuantity."""
    try:
        return quantity.nano_value(text)
    except QuantityError:
        raise InvalidQuantity(_MESSAGE) from None
