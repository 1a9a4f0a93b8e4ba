"""Dictionaries that code values as small ints, so that columns can hold them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

V = TypeVar("V", bound=Hashable)


class Interner(Generic[V]):
    """Codes are given in order of first sight, from 0, and never change or end."""

    __slots__ = ("_codes", "values")

    def __init__(self) -> None:
        self._codes: dict[V, int] = {}
        #: values[code] is the value.
        self.values: list[V] = []

    def code(self, value: V) -> int:
        """The code of `value`, made when it is new."""
        code = self._codes.get(value)
        if code is None:
            code = self._codes[value] = len(self.values)
            self.values.append(value)
        return code

    def find(self, value: V) -> int:
        """The code of `value`, or -1 when it was never seen."""
        return self._codes.get(value, -1)

    def __len__(self) -> int:
        return len(self.values)
