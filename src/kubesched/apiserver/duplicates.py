"""Fields that a JSON body names twice: the last one counts, and the client is told."""

from __future__ import annotations

import json
from typing import Any


def duplicate_fields(body: bytes, content_type: str) -> list[str]:
    """The paths of fields that occur more than once, in the notation of the API server."""
    if content_type not in ("application/json", ""):
        return []
    try:
        tree = json.loads(body, object_pairs_hook=_Pairs)
    except ValueError:
        return []
    found: list[str] = []
    _walk(tree, "", found)
    return sorted(set(found))


class _Pairs(list[tuple[str, Any]]):
    """The members of one JSON object in their order."""


def _walk(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, member in value:
            where = f"{path}.{name}" if path else name
            if name in seen:
                found.append(where)
            seen.add(name)
            _walk(member, where, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", found)
