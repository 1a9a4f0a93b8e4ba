"""From text to plain documents, reading YAML as Kubernetes' own tools read it.

Those follow YAML 1.1 with some differences from PyYAML, which this module makes up for: `y` and `n` are booleans
like `yes` and `on`; `1e3` and `0o17` are numbers; timestamps and `12:30` are strings; whole floats become integers, as
they would in JSON; keys are always strings. A key that stands twice is an error. JSON is read by a JSON decoder.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec
import yaml

from kubesched.manifests.sources import ManifestError, Source


def documents(text: str, name: str) -> Iterator[tuple[int, Any]]:
    """The documents of a text that are not empty, with their numbers. ManifestError, once those before are out."""
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("{"):
        try:
            yield from enumerate(_json(start), 1)
            return
        except ValueError as error:
            # A YAML mapping can start the same way.
            if name.endswith(".json"):
                raise ManifestError(Source(name), f"broken JSON: {error}") from error
    yield from _yaml(text.removeprefix("\ufeff"), name)


def _json(text: str) -> list[Any]:
    """One or more JSON documents one after another. ValueError."""
    try:
        return [msgspec.json.decode(text)]
    except msgspec.DecodeError:
        pass
    decoder, found, position = json.JSONDecoder(), [], 0
    while position < len(text):
        document, position = decoder.raw_decode(text, position)
        found.append(document)
        while position < len(text) and text[position].isspace():
            position += 1
    return found


def _yaml(text: str, name: str) -> Iterator[tuple[int, Any]]:
    number = 1
    loader = _Loader(text)
    try:
        while loader.check_data():
            document = loader.get_data()
            if document is not None:
                yield number, document
            number += 1
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = error.problem or error.context or "unreadable"
        raise ManifestError(Source(name, number), f"broken YAML: {problem}", field=place) from error
    except yaml.YAMLError as error:
        raise ManifestError(Source(name, number), f"broken YAML: {' '.join(str(error).split())}") from error
    finally:
        loader.dispose()


_PLAIN = "tag:kubesched,2026:plain"
_MERGE = "tag:yaml.org,2002:merge"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain scalars get a meaning here; quoted and block ones are strings; explicit tags are as PyYAML has them."""

    yaml_implicit_resolvers: ClassVar[dict[Any, Any]] = {}

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._merging: set[int] = set()

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise _error("a mapping is expected", node)
        return {key: self.construct_object(value, deep=deep) for key, value in self._pairs(node).items()}

    def _pairs(self, node: yaml.MappingNode) -> dict[str, yaml.Node]:
        """What a mapping holds, with what its merge keys (<<) bring in. Its own keys win over those, and of several
        mappings brought in the first. (PyYAML's own merging loses what a merged mapping has overridden itself.)"""
        own: dict[str, yaml.Node] = {}
        merged: dict[str, yaml.Node] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                merged = self._merged(node, value_node) | merged
                continue
            key = self._key(key_node)
            if key in own:
                raise _error(f"key {key!r} stands twice", key_node)
            own[key] = value_node
        return merged | own

    def _merged(self, into: yaml.MappingNode, value: yaml.Node) -> dict[str, yaml.Node]:
        if id(into) in self._merging:
            raise _error("a mapping cannot be merged into itself", into)
        self._merging.add(id(into))
        found: dict[str, yaml.Node] = {}
        for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
            if not isinstance(source, yaml.MappingNode):
                raise _error("only mappings can be merged", source)
            found = self._pairs(source) | found
        self._merging.remove(id(into))
        return found

    def _key(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _error("a key must be a plain value", node)
        key = self.construct_object(node, deep=True)
        if isinstance(key, bool):
            return "true" if key else "false"
        if isinstance(key, str | int | float):
            return str(key)
        raise _error("a key must not be empty", node)

    def construct_plain(self, node: yaml.ScalarNode) -> Any:
        try:
            return plain(node.value)
        except ValueError as error:
            raise _error(str(error), node) from error


def _error(problem: str, node: yaml.Node) -> yaml.MarkedYAMLError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


_Loader.add_implicit_resolver(_MERGE, re.compile("<<$"), ["<"])
_Loader.add_implicit_resolver(_PLAIN, re.compile(r"(?s).*"), None)
_Loader.add_constructor(_PLAIN, _Loader.construct_plain)


_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain(text: str) -> bool | int | float | str | None:
    """What an unquoted YAML scalar stands for. ValueError for numbers that JSON does not have."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    digits = text.replace("_", "")
    if integer := _INTEGER.fullmatch(digits):
        sign, hexadecimal, binary, octal, decimal = integer.groups()
        for digits, base in ((hexadecimal, 16), (binary, 2), (octal, 8), (decimal, 10)):
            if digits is not None:
                return -int(digits, base) if sign == "-" else int(digits, base)
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            raise ValueError(f"{text} is out of range for a number; quote it to make it a string")
        # 1e21 and above keep an exponent in JSON, so they are no integers to anyone who reads it.
        return int(number) if number.is_integer() and abs(number) < 1e21 else number
    if _NOT_FINITE.fullmatch(text):
        raise ValueError(f"{text} has no place in a manifest; quote it to make it a string")
    return text
