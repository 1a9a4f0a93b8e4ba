"""Python's cyclic garbage collector, set up for a process that keeps much and leaves few cycles behind.

API objects are never looked at by it (`gc=False`), but what is kept about them is, and looking through all of that
again and again would be a visible part of each decision. So it comes by more rarely, and what is there once all caches
are filled counts as here to stay.
"""

from __future__ import annotations

import gc
from typing import Final

#: New objects until the young are looked through, and how often that is until the older ones are. (700, 10, 10.)
_THRESHOLDS: Final = (50_000, 20, 50)


def collect_rarely() -> None:
    """For the rest of the process."""
    gc.set_threshold(*_THRESHOLDS)


def keep_all() -> None:
    """What is there now is not looked at again."""
    gc.collect()
    gc.freeze()
