"""Which of the candidates: criteria one after the other, the first one in order if some tie on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kubesched.preemption.candidate import Candidate
from kubesched.preemption.rules import Criterion

ONLY_ONE = "the only candidate"
TIE = "equal on all criteria, the first one tried"


@dataclass(frozen=True, slots=True)
class Choice:
    best: Candidate
    #: The candidates that no criterion tells apart, `best` among them.
    equals: tuple[Candidate, ...]
    #: What settled it: the name of the criterion after which one candidate was left.
    because: str


def choose(candidates: Sequence[Candidate], criteria: Sequence[Criterion]) -> Choice:
    """`candidates` must not be empty."""
    left = list(candidates)
    because = ONLY_ONE
    for criterion in criteria:
        if len(left) == 1:
            break
        values = [criterion.value(candidate) for candidate in left]
        best = max(values) if criterion.highest else min(values)
        if values.count(best) < len(left):
            left = [candidate for candidate, value in zip(left, values, strict=True) if value == best]
        because = criterion.name
    return Choice(left[0], tuple(left), because if len(left) == 1 else TIE)
