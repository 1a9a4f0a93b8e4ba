"""`Leaders` say the same as a look at all rows, whatever happens to single rows."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.clock import Chance
from kubesched.framework.runtime.leaders import Leaders


@pytest.mark.parametrize("row_count", [1, 3, 63, 65, 1500], ids=lambda count: f"{count}-rows")
@pytest.mark.parametrize(("lowest", "highest"), [(0, 0), (0, 3), (0, 400), (-1, 1), (-1, 10_000)], ids=str)
def test_they_are_the_rows_with_the_highest_total(row_count: int, lowest: int, highest: int) -> None:
    chance = Chance(row_count * 31 + highest)

    def any_total() -> int:
        return lowest + chance.randrange(highest - lowest + 1)

    total = np.array([any_total() for _ in range(row_count)], dtype=np.int64)
    total[0] = highest
    leaders = Leaders(total, capacity=row_count + 10)
    for step in range(3 * row_count + 50):
        best = leaders.best(total)
        assert sorted(int(row) for row in best) == np.flatnonzero(total == total.max()).tolist(), step
        # Mostly the best row loses, as when it takes a pod; sometimes any row changes, or several do.
        for _ in range(1 + chance.randrange(3)):
            row = int(best[chance.randrange(len(best))]) if chance.random() < 0.7 else chance.randrange(row_count)
            now = max(int(total[row]) - 1, lowest) if chance.random() < 0.7 else any_total()
            total[row] = now
            leaders.note(row, now)
        total[0] = max(int(total[0]), 0)  # some row fits
        leaders.note(0, int(total[0]))
