"""Where a document came from, and the error that says so."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from kubesched.api.errors import KubeschedError


class Source(NamedTuple):
    """`document` and `item` (in a List) count from 1; 0 stands for the file as a whole, or for no List."""

    name: str
    document: int = 0
    item: int = 0

    def __str__(self) -> str:
        document = f", document {self.document}" if self.document else ""
        item = f", item {self.item}" if self.item else ""
        return f"{self.name}{document}{item}"


class ManifestError(KubeschedError):
    """`deploy.yaml, document 2: Pod default/web: spec.priority: Expected `int`, got `str` (value: "high")`."""

    def __init__(self, source: Source, problem: str, *, obj: str = "", field: str = "", value: Any = None) -> None:
        self.source = source
        self.problem = problem
        self.obj = obj
        self.field = field
        self.value = value
        text = ": ".join(part for part in (str(source), obj, field, problem) if part)
        super().__init__(text if value is None else f"{text} (value: {_shown(value)})")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:197]}..."
