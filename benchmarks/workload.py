"""Workloads as data: `workloads/*.yaml`, in the spirit of the original's scheduler_perf.

A file is a list of operations that are carried out one after the other, with parameters that its variants set:

    variants: {5000Nodes: {nodes: 5000, pods: 2000}, ...}
    ops:
    - createNodes: {count: $nodes, template: {...}}
    - startScheduler: {}             # it watches, but does not lead yet
    - createPods: {count: $pods, measure: true, template: {...}}
    - lead: {}                       # now it may schedule
    - barrier: {}                    # until all measured pods have a node

Texts in templates may hold sums of the object's number `i` in braces: `cpu: "{100 + 10 * (i % 89)}m"`. A text that is
one such sum alone becomes a number.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

FOLDER: Final = Path(__file__).parent / "workloads"

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Operation:
    name: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Workload:
    """`name` is `<file>/<variant>`."""

    name: str
    description: str
    operations: tuple[Operation, ...]
    parameters: dict[str, int] = field(default_factory=dict)


def names() -> list[str]:
    return [f"{path.stem}/{variant}" for path in sorted(FOLDER.glob("*.yaml")) for variant in _read(path)["variants"]]


def load(name: str, overrides: dict[str, int] | None = None) -> Workload:
    """By `<file>/<variant>`, or `<file>` for its first variant. ValueError for one that is not there."""
    stem, _, variant = name.partition("/")
    path = FOLDER / f"{stem}.yaml"
    if not path.exists():
        raise ValueError(f"no workload {stem!r}; there are: {', '.join(names())}")
    document = _read(path)
    variants = document["variants"]
    variant = variant or next(iter(variants))
    if variant not in variants:
        raise ValueError(f"workload {stem} has no variant {variant!r}, but {', '.join(variants)}")
    parameters = {**variants[variant], **(overrides or {})}
    operations = []
    for entry in document["ops"]:
        ((operation, options),) = entry.items()
        operations.append(Operation(operation, _with_parameters(options or {}, parameters)))
    return Workload(f"{stem}/{variant}", document["description"], tuple(operations), parameters)


def stamp(template: Document, number: int) -> Document:
    """The template as the object with this number."""
    made: Document = _stamped(template, number)
    return made


@cache
def _read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    return document


def _with_parameters(value: Any, parameters: dict[str, int]) -> Any:
    if isinstance(value, dict):
        return {key: _with_parameters(each, parameters) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_parameters(each, parameters) for each in value]
    if isinstance(value, str) and value.startswith("$"):
        return parameters[value[1:]]
    return value


_SUM: Final = re.compile(r"\{([^{}]+)\}")


def _stamped(value: Any, number: int) -> Any:
    if isinstance(value, dict):
        return {key: _stamped(each, number) for key, each in value.items()}
    if isinstance(value, list):
        return [_stamped(each, number) for each in value]
    if not isinstance(value, str) or "{" not in value:
        return value
    alone = _SUM.fullmatch(value)
    if alone is not None:
        return _sum(alone[1])(number)
    return _SUM.sub(lambda found: str(_sum(found[1])(number)), value)


_OPERATORS: Final[dict[type[ast.operator], Callable[[int, int], int]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@cache
def _sum(text: str) -> Callable[[int], int]:
    body = ast.parse(text.strip(), mode="eval").body

    def value_of(node: ast.expr, number: int) -> int:
        match node:
            case ast.Name(id="i"):
                return number
            case ast.Constant(value=int(constant)):
                return constant
            case ast.BinOp(left, kind, right) if type(kind) in _OPERATORS:
                return _OPERATORS[type(kind)](value_of(left, number), value_of(right, number))
        raise ValueError(f"cannot compute {text!r}")

    return lambda number: value_of(body, number)


def documents(options: dict[str, Any], first: int) -> Iterator[Document]:
    """The objects that one create operation makes, numbered from `first`."""
    for number in range(first, first + int(options["count"])):
        yield stamp(options["template"], number)
