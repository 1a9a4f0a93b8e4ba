"""Loading the type table: `Struct`s with their `Field`s, resolved on first use."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_PACKAGES = {"": "core"}


@dataclass(frozen=True, slots=True)
class Field:
    """One field. `element` is the type of list elements and map values, in the notation of the table."""

    name: str
    type: str
    number: int = 0
    required: bool = False
    pointer: bool = False
    always: bool = False
    omit_zero: bool = False
    merge_key: str = ""
    merge: bool = False
    retain_keys: bool = False
    list_type: str = ""
    list_keys: tuple[str, ...] = ()
    go_type: str = ""

    written_when_zero: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        """Go writes a field even when nothing was sent: without omitempty, or a struct (or time) held by value."""
        by_value = self.type[0] == "#" or self.type in ("time", "microtime")
        written = self.always or (by_value and not self.pointer and not self.omit_zero)
        object.__setattr__(self, "written_when_zero", written)

    @property
    def is_list(self) -> bool:
        return self.type.startswith("[]")

    @property
    def is_map(self) -> bool:
        return self.type.startswith("map:")

    @property
    def element(self) -> str:
        return self.type[2:] if self.is_list else self.type[4:] if self.is_map else self.type

    @property
    def struct(self) -> Struct | None:
        """The struct that this field holds, directly, in a list or in a map."""
        element = self.element
        return struct(element[1:]) if element.startswith("#") else None


@dataclass(frozen=True, slots=True)
class Struct:
    """One type; `name` is its OpenAPI name. Fields of embedded structs are among its own; `embedded` has
    the types of those that are messages of their own in protobuf, by their number. `positions` and `zeros` (the fields
    that are always written) are derived, for `review`.
    """

    name: str
    fields: dict[str, Field] = field(default_factory=dict)
    embedded: dict[int, str] = field(default_factory=dict)
    positions: dict[str, tuple[int, Field]] = field(default_factory=dict, init=False, repr=False)
    zeros: tuple[tuple[int, Field], ...] = field(default=(), init=False, repr=False)

    def __post_init__(self) -> None:
        numbered = list(enumerate(self.fields.values()))
        object.__setattr__(self, "positions", {f.name: (index, f) for index, f in numbered})
        object.__setattr__(self, "zeros", tuple((index, f) for index, f in numbered if f.written_when_zero))

    @property
    def short_name(self) -> str:
        return self.name.rsplit(".", 1)[-1]


@cache
def _table() -> dict[str, Any]:
    packed = files(__package__).joinpath("types.json.gz").read_bytes()
    table: dict[str, Any] = msgspec.json.decode(gzip.decompress(packed))
    return table


@cache
def struct(name: str) -> Struct | None:
    """A type by its OpenAPI name, None when the table does not hold it."""
    rows = _table()["types"].get(name)
    if rows is None:
        return None
    fields: dict[str, Field] = {}
    inner: dict[int, str] = {}
    for row in rows:
        if row[0] == "":
            embedded = struct(row[1].lstrip("#"))
            assert embedded is not None, row
            fields.update(embedded.fields)
            if len(row) > 2:
                inner[row[2]] = embedded.name
            continue
        json_name, type_, number, flags, key, strategy, list_type, list_keys, go_type = row + _FILL[len(row) :]
        fields[json_name] = Field(
            json_name,
            type_,
            number,
            "r" in flags,
            "p" in flags,
            "z" in flags,
            "o" in flags,
            key,
            "merge" in strategy.split(","),
            "retainKeys" in strategy,
            list_type,
            tuple(list_keys),
            go_type,
        )
    return Struct(name, fields, inner)


_FILL: list[Any] = ["", "", 0, "", "", "", "", [], ""]


def struct_of(group: str, version: str, kind: str) -> Struct | None:
    """The type of a kind."""
    return struct(f"io.k8s.api.{_PACKAGES.get(group, group.split('.', 1)[0])}.{version}.{kind}")


def names() -> list[str]:
    """Every type of the table, by its OpenAPI name."""
    return list(_table()["types"])


@cache
def is_atomic(name: str) -> bool:
    """Whether a struct is owned and replaced as one piece by server-side apply."""
    return name in _table()["atomic"]
