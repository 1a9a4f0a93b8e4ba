"""Tables: what `kubectl get` shows, made by the server. Rows come from `columns.py`; here is their frame."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.columns import Column, columns_of, row_conditions
from kubesched.apiserver.metadata import epoch
from kubesched.apiserver.resources import Resource
from kubesched.apiserver.store import Json


class Table:
    """The table form of objects of one kind. `include` is the parameter includeObject: Metadata, Object or None."""

    def __init__(self, resource: Resource, now: float, include: str | None, api_version: str) -> None:
        self._resource = resource
        self._columns: tuple[Column, ...] = columns_of(resource)
        self._now = now
        self._include = include or "Metadata"
        self._api_version = api_version

    def document(
        self, objects: list[Json], metadata: Json, *, columns: bool = True, now: float | None = None
    ) -> dict[str, Any]:
        if now is not None:
            self._now = now
        return {
            "kind": "Table",
            "apiVersion": self._api_version,
            "metadata": metadata,
            "columnDefinitions": [c.definition() for c in self._columns] if columns else None,
            "rows": [self._row(document) for document in objects],
        }

    def _row(self, document: Json) -> Json:
        row: Json = {"cells": [column.cell(document, self._now) for column in self._columns]}
        conditions = row_conditions(self._resource, document)
        if conditions:
            row["conditions"] = conditions
        if self._include == "Object":
            row["object"] = document
        elif self._include == "Metadata":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": self._api_version,
                "metadata": document["metadata"],
            }
        else:
            row["object"] = None
        return row


__all__ = ["Table", "epoch"]
