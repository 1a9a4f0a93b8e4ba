"""Python's cyclic garbage collector while a cluster is loaded or run: much is made then, little of it garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLDS: Final = (100_000, 20, 50)


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Whoever calls us finds the collector as it was."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
