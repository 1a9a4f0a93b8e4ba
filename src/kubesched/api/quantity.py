from __future__ import annotations

from typing import TypeAlias

Quantity: TypeAlias = str | int | float
"""A quantity as it stands in the document; `value` and `milli_value` read it."""

ResourceList: TypeAlias = dict[str, Quantity]
