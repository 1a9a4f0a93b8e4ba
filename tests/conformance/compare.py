"""One explanation, and the decision itself, against one recorded decision."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Doc = dict[str, Any]


def differences(got: Any, want: Any, path: str = "") -> Iterator[str]:
    """Every place where two documents differ, as deep down as they have the same shape."""
    if isinstance(got, dict) and isinstance(want, dict):
        for key in sorted(got.keys() | want.keys()):
            where = f"{path}.{key}" if path else key
            if key not in got:
                yield f"{where}: absent, want {want[key]!r}"
            elif key not in want:
                yield f"{where}: got {got[key]!r}, want it absent"
            else:
                yield from differences(got[key], want[key], where)
    elif got != want:
        yield f"{path}: got {got!r}, want {want!r}"


def wrong_decision(outcome: Any, want: Doc) -> Iterator[str]:
    """What scheduling the pod came to, in so far as the record does not let it come to that."""
    preemption = want.get("preemption", {})
    if "preEnqueue" in want:
        if outcome.result.value != "Gated":
            yield f"decision: got {outcome.result.value} ({outcome}), want Gated"
    elif "best" in want:
        if outcome.node not in want["best"]:
            yield f"decision: got {outcome}, want one of {want['best']}"
    elif "candidates" in preemption:
        yield from _wrong_preemption(outcome, preemption)
    else:
        message = want.get("messageWithPreemption", want["message"])
        if outcome.node or outcome.message != message:
            yield f"decision: got {outcome}, want {message}"


def _wrong_preemption(outcome: Any, preemption: Doc) -> Iterator[str]:
    allowed = preemption.get("nominatedNodeAnyOf") or [preemption["nominatedNode"]]
    if outcome.node not in allowed:
        yield f"decision: got {outcome}, want one of {allowed} after preemption"
        return
    victims = sorted(preemption["candidates"][outcome.node]["victims"])
    if sorted(outcome.victims) != victims:
        yield f"decision: got victims {sorted(outcome.victims)}, want {victims}"
