"""Which tolerations tolerate which taints (v1.36).

Tolerations only permit, they never attract. `tolerationSeconds` says how long a pod may stay, not whether it may come.
The operators Lt and Gt compare integers; they count only where the feature gate TaintTolerationComparisonOperators is
on, which it is not by default.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from kubesched.api.core import Taint, Toleration
from kubesched.api.selectors.syntax import parse_int64

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"

HARD_EFFECTS = frozenset({NO_SCHEDULE, NO_EXECUTE})
"""Effects that keep a new pod off a node."""

UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""What `spec.unschedulable` of a node amounts to: a pod that tolerates this taint may go to a cordoned node."""


def tolerates(toleration: Toleration, taint: Taint, *, comparison_operators: bool = False) -> bool:
    """An empty effect or key of the toleration stands for any; an empty operator for Equal."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "" | "Equal":
            return toleration.value == taint.value
        case "Exists":
            return True
        case "Lt" | "Gt" if comparison_operators:
            bound, number = _canonical_int(toleration.value), _canonical_int(taint.value)
            if bound is None or number is None:
                return False
            return number < bound if toleration.operator == "Lt" else number > bound
        case _:
            return False


def tolerated(tolerations: Iterable[Toleration], taint: Taint, *, comparison_operators: bool = False) -> bool:
    """Some toleration tolerates the taint."""
    return any(tolerates(each, taint, comparison_operators=comparison_operators) for each in tolerations)


def find_untolerated(
    taints: Iterable[Taint],
    tolerations: Iterable[Toleration],
    *,
    effects: Container[str] = HARD_EFFECTS,
    comparison_operators: bool = False,
) -> Taint | None:
    """The first taint with one of `effects` that nothing tolerates; None if there is none."""
    tolerations = tuple(tolerations)
    for taint in taints:
        if taint.effect in effects and not tolerated(tolerations, taint, comparison_operators=comparison_operators):
            return taint
    return None


_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


def _canonical_int(text: str) -> int | None:
    """An integer as people write it: no plus sign, no leading zeros, 64 bits."""
    return parse_int64(text) if _CANONICAL.fullmatch(text) else None
