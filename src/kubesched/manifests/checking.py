"""Whether documents are what they say: every known kind decodes, quantities parse, nothing is there twice.

Kinds that scheduling has no use for pass unseen. A known kind in a version that v1.36 does not serve is an error, for
otherwise a budget or a class written long ago would be left out without a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.api import codec, kinds
from kubesched.api.errors import DecodeError, QuantityError
from kubesched.api.kinds import Kind
from kubesched.api.meta import Object
from kubesched.api.quantity import nano_value
from kubesched.manifests.reading import Document, Input, read
from kubesched.manifests.sources import ManifestError, Source


def load(source: Input) -> list[Document]:
    """Reads and checks. ManifestError."""
    found = read(source)
    check(found)
    return found


def check(documents: Iterable[Document]) -> None:
    """ManifestError for the first document with anything wrong."""
    seen: dict[tuple[str, str, str, str], Source] = {}
    for document in documents:
        group = document.api_version.rpartition("/")[0]
        key = (group, document.kind, document.namespace, document.name)
        if (before := seen.get(key)) is not None:
            raise ManifestError(document.source, f"is already defined in {before}", obj=str(document))
        seen[key] = document.source
        decode(document)


def decode(document: Document) -> Object | None:
    """The typed object; None for kinds that scheduling has no use for. ManifestError."""
    kind = _kind(document)
    if kind is None:
        return None
    try:
        obj: Object = codec.from_dict(kind, document.manifest)
    except DecodeError as error:
        path, value = _found_at(document.manifest, error.path)
        raise _error(document, error.problem + _hint(error.problem), path, value) from error
    for path, quantity in _quantities(document.manifest, ""):
        try:
            amount = nano_value(quantity)
        except QuantityError as error:
            raise _error(document, str(error), path, quantity) from error
        if amount < 0:
            raise _error(document, "must be greater than or equal to 0", path, quantity)
    return obj


def _kind(document: Document) -> Kind | None:
    kind = kinds.find(document.api_version, document.kind)
    if kind is not None:
        return kind
    group = document.api_version.rpartition("/")[0]
    for other in kinds.KINDS:
        if (other.group, other.kind) == (group, document.kind):
            problem = f"this version of {document.kind} is not known, write it as {other.api_version}"
            raise _error(document, problem, "apiVersion", document.api_version)
    return None


_RESOURCE_LISTS = ("requests", "limits", "capacity", "allocatable", "overhead", "allocatedResources")
_SINGLE_QUANTITIES = ("capacity", "maximumVolumeSize", "sizeLimit")


def _quantities(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every quantity of a document that has decoded, with its path."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            part_path = f"{path}.{key}" if path else key
            if key in _RESOURCE_LISTS and isinstance(part, Mapping):
                for name, amount in part.items():
                    if isinstance(amount, str | int | float):
                        yield f"{part_path}[{name}]", amount
            if isinstance(part, dict | list):
                if key != "metadata":
                    yield from _quantities(part, part_path)
            elif key in _SINGLE_QUANTITIES and part is not None:
                yield part_path, part
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _quantities(part, f"{path}[{index}]")


_STEP = re.compile(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def _found_at(document: Any, path: str) -> tuple[str, Any]:
    """A path such as `spec.containers[0].image` and the plain value found there, None for anything else.

    `[...]` stands for one of the keys of a map of strings; it is told here which one it is.
    """
    try:
        for name, index in _STEP.findall(path):
            if name:
                document = document[name]
            elif index == "...":
                key, document = next((key, value) for key, value in document.items() if not isinstance(value, str))
                path = path.replace("[...]", f"[{key}]", 1)
            else:
                document = document[int(index)]
    except (KeyError, IndexError, TypeError, AttributeError, StopIteration):
        return path, None
    return path, None if isinstance(document, dict | list) else document


def _hint(problem: str) -> str:
    """The usual reason for a number or boolean in place of a string."""
    if problem in ("Expected `str`, got `int`", "Expected `str`, got `bool`", "Expected `str`, got `float`"):
        return "; quote the value to make it a string"
    return ""


def _error(document: Document, problem: str, field: str, value: Any) -> ManifestError:
    return ManifestError(document.source, problem, obj=str(document), field=field, value=value)
