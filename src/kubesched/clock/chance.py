"""Chance with a seed: the only source of randomness of the core.

Two `Chance`s of one seed give the same answers to the same questions, whatever the machine. Not for secrets.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Without a seed one is drawn from the system; `seed` tells it, so that the run can be repeated."""

    __slots__ = ("_random", "seed")

    def __init__(self, seed: int | None = None) -> None:
        self.seed = random.SystemRandom().randrange(2**32) if seed is None else seed
        self._random = random.Random(self.seed)

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`, which must not be empty."""
        return self._random.choice(items)

    def randrange(self, stop: int) -> int:
        """0 <= n < stop, which must be positive."""
        if stop <= 0:
            raise ValueError(f"no number is at least 0 and below {stop}")
        # As random.Random has it, without what that allows besides.
        draw, bits = self._random.getrandbits, stop.bit_length()
        drawn = draw(bits)
        while drawn >= stop:
            drawn = draw(bits)
        return drawn

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def random(self) -> float:
        """0.0 <= x < 1.0."""
        return self._random.random()
