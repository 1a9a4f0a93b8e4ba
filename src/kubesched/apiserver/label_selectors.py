"""LabelSelector objects as tests on labels; an absent selector matches nothing, an empty one everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def selector_test(selector: Any) -> Callable[[Mapping[str, str]], bool]:
    if selector is None:
        return lambda labels: False
    wanted = selector.get("matchLabels") or {}
    expressions = selector.get("matchExpressions") or ()

    def test(labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in wanted.items()) and all(
            _holds(expression, labels) for expression in expressions
        )

    return test


def as_label_selector(selector: Any) -> Any:
    """A selector of plain labels, as ReplicationControllers have, in the shape of the others."""
    if selector and "matchLabels" not in selector and "matchExpressions" not in selector:
        return {"matchLabels": selector}
    return selector


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    match expression["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def selector_text(selector: Any) -> str:
    """The selector as a query string, as the status of a Scale shows it."""
    parts = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for expression in selector.get("matchExpressions") or ():
        key, values = expression["key"], ",".join(sorted(expression.get("values") or ()))
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[expression["operator"]]
        )
    return ",".join(parts)
