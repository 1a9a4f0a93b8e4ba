"""A YAML or JSON text becomes plain data plus the line that each field stands on.

The rules are those of the original's reader (YAML 1.1 without its dates and base-60 numbers, first document only), with
duplicate keys refused. Built from the parser's events rather than with a ready loader, because a loader would keep the
last of two equal keys, turn dates into objects, recurse as deep as the text goes and expand aliases without bound.
"""

from __future__ import annotations

import base64
import binascii
import logging
import math
import re
from typing import Any, NamedTuple

import yaml

from kubesched.config.errors import ConfigError, FieldError, strict, whole

log = logging.getLogger(__name__)

MAX_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 100
_MAX_NODES = 200_000

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"})
_INT = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|[1-9][0-9_]*|0)")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)
_PREFIX = "tag:yaml.org,2002:"


class Document(NamedTuple):
    """`data` is what the text says, `lines` maps a field's path (`profiles[0].schedulerName`) to its line."""

    data: Any
    lines: dict[str, int]


def read(text: bytes | str, source: str = "") -> Document:
    """The first document of `text`. Raises ConfigError with the line for anything that is no such document."""
    try:
        return _Builder(_decoded(text)).build()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # The original counts a parser's line from 0, which names the last line that there is and not the one after it.
        first = 0 if isinstance(error, yaml.parser.ParserError) else 1
        line = max(1, mark.line + first) if mark is not None else 0
        raise ConfigError([whole(f"yaml: line {line}: {error.problem or error.context}", line)], source) from error
    except yaml.YAMLError as error:
        raise ConfigError([whole(f"yaml: {' '.join(str(error).split())}")], source) from error
    except UnicodeError as error:
        raise ConfigError(
            [whole(f"not a text in UTF-8: {error.reason if hasattr(error, 'reason') else error}")], source
        ) from None
    except _Refused as error:
        raise ConfigError(error.errors, source) from None


class _Refused(Exception):
    def __init__(self, *errors: FieldError) -> None:
        self.errors = errors


class _Node(NamedTuple):
    value: Any
    size: int


class _Open:
    """A mapping or a sequence whose end has not been seen yet."""

    __slots__ = ("anchor", "key", "merged", "path", "seen", "size", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: str, anchor: str | None) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.key: str | None = None
        self.seen: set[str] = set()
        self.merged: dict[str, Any] = {}
        self.size = 1


class _Builder:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines: dict[str, int] = {}
        self._anchors: dict[str, _Node] = {}
        self._stack: list[_Open] = []
        self._duplicates: list[FieldError] = []
        self._nodes = 0
        self._result: Any = None

    def build(self) -> Document:
        documents = 0
        for event in yaml.parse(self._text, Loader=_Loader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    log.warning("only the first document of the configuration is read")
                    break
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                self._begin(event)
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                self._end(_line(event))
            elif isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
        if self._duplicates:
            raise _Refused(*self._duplicates)
        return Document(self._result, self._lines)

    def _begin(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        line = _line(event)
        if len(self._stack) >= _MAX_DEPTH:
            raise _Refused(whole(f"yaml: line {line}: nested more than {_MAX_DEPTH} levels deep", line))
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise _Refused(whole(f"yaml: line {line}: a key must be a text", line))
        empty: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Open(empty, self._path_of_next(line), event.anchor))
        self._anchors.pop(event.anchor or "", None)

    def _end(self, line: int) -> None:
        done = self._stack.pop()
        if isinstance(done.value, dict):
            for key, value in done.merged.items():
                done.value.setdefault(key, value)
        self._put(_Node(done.value, done.size), done.anchor, line)

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        line = _line(event)
        top = self._stack[-1] if self._stack else None
        if top is not None and isinstance(top.value, dict) and top.key is None:
            top.key = self._new_key(top, event.value, line)
            return
        self._path_of_next(line)
        self._put(_Node(_resolved(event, line), 1), event.anchor, line)

    def _alias(self, event: yaml.AliasEvent) -> None:
        line = _line(event)
        node = self._anchors.get(event.anchor or "")
        if node is None:
            inside = any(open_.anchor == event.anchor for open_ in self._stack)
            problem = "value contains itself" if inside else "is not defined"
            raise _Refused(whole(f"yaml: line {line}: anchor '{event.anchor}' {problem}", line))
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            if not isinstance(node.value, str):
                raise _Refused(whole(f"yaml: line {line}: a key must be a text", line))
            self._stack[-1].key = self._new_key(self._stack[-1], node.value, line)
            return
        self._path_of_next(line)
        self._put(node, None, line)

    def _new_key(self, top: _Open, key: str, line: int) -> str:
        if key in top.seen:
            path = f"{top.path}.{key}" if top.path else key
            self._duplicates.append(_at(strict(path, "duplicate field"), line))
        top.seen.add(key)
        return key

    def _path_of_next(self, line: int) -> str:
        if not self._stack:
            return ""
        top = self._stack[-1]
        if isinstance(top.value, list):
            path = f"{top.path}[{len(top.value)}]"
        else:
            path = f"{top.path}.{top.key}" if top.path else str(top.key)
        self._lines.setdefault(path, line)
        return path

    def _put(self, node: _Node, anchor: str | None, line: int) -> None:
        self._nodes += node.size
        if self._nodes > _MAX_NODES:
            raise _Refused(whole(f"yaml: line {line}: document contains excessive aliasing", line))
        if anchor:
            self._anchors[anchor] = node
        if not self._stack:
            self._result = node.value
            return
        top = self._stack[-1]
        top.size += node.size
        if isinstance(top.value, list):
            top.value.append(node.value)
            return
        key, top.key = top.key, None
        assert key is not None
        if key == "<<":
            sources = node.value if isinstance(node.value, list) else [node.value]
            if not all(isinstance(item, dict) for item in sources):
                raise _Refused(
                    whole(f"yaml: line {line}: map merge requires map or sequence of maps as the value", line)
                )
            for item in sources:
                top.merged = {**item, **top.merged}
        else:
            top.value[key] = node.value


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark is not None else 0


def _at(error: FieldError, line: int) -> FieldError:
    return FieldError(error.path, error.value, error.reason, error.message, line)


def _decoded(text: bytes | str) -> str:
    if len(text) > MAX_BYTES:
        raise _Refused(whole(f"larger than {MAX_BYTES // 1024 // 1024} MiB: this is no scheduler configuration"))
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refused(whole(f"not a text in UTF-8: byte {error.start} is 0x{text[error.start]:02x}")) from None


def _resolved(event: yaml.ScalarEvent, line: int) -> Any:
    text: str = event.value
    tag = event.tag
    if tag in (None, "!") or tag == _PREFIX + "str":
        if tag is not None or event.style:
            return text
        return _finite(_implicit(text), line)
    kind = tag.removeprefix(_PREFIX)
    if kind == "binary":
        try:
            return base64.b64decode(text, validate=False).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            raise _Refused(whole(f"yaml: line {line}: !!binary value contains invalid base64 data", line)) from None
    value = _finite(_implicit(text), line)
    fits = {
        "null": value is None,
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "float": isinstance(value, int | float) and not isinstance(value, bool),
    }
    if kind not in fits:
        raise _Refused(whole(f"yaml: line {line}: unknown tag {tag}", line))
    if not fits[kind]:
        raise _Refused(whole(f"yaml: line {line}: cannot decode {text!r} as a !!{kind}", line))
    return value


def _finite(value: Any, line: int) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused(whole(f"yaml: line {line}: {value} is no number that JSON can hold", line))
    return value


def _implicit(text: str) -> Any:
    """A plain scalar's value. What is neither null, a boolean nor a number is a text, dates and `1:30` included."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if len(text) > 400:
        return text
    if _INT.fullmatch(text):
        digits = text.replace("_", "")
        sign = -1 if digits.startswith("-") else 1
        digits = digits.lstrip("+-")
        base = {"0b": 2, "0x": 16, "0o": 8}.get(digits[:2], 8 if digits.startswith("0") and len(digits) > 1 else 10)
        try:
            return sign * int(digits, base)
        except ValueError:  # `0x_`, `0b_`: only underscores after the prefix
            return text
    if _FLOAT.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text
