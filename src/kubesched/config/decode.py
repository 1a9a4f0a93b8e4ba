"""Plain data is held against the type it must have, strictly, and every mismatch is reported with its path.

What comes out is data that `msgspec.convert` takes without further questions: unknown fields gone (and reported), nulls
gone (they mean absent), durations and base64 decoded, whole floats turned into integers. It knows types only through
their msgspec description, so args of plugins from outside get the same strictness.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import math
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kubesched.config.durations import Duration, DurationError, parse_duration
from kubesched.config.errors import FieldError, shown, strict

_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_FLOAT32_MAX = 3.4028234663852886e38


def checked(data: Any, kind: type, path: str, errors: list[FieldError]) -> dict[str, Any]:
    """`data` as the struct `kind` wants it. Problems go to `errors`; what they concern is left out of the result."""
    result = _struct(data, _description(kind), path, errors)
    return {} if result is _BAD else result


_BAD: Any = object()


@lru_cache(maxsize=256)
def _description(kind: type) -> inspect.StructType:
    described = inspect.type_info(kind)
    assert isinstance(described, inspect.StructType)
    return described


def _value(data: Any, kind: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    """`data` checked against `kind`, or _BAD after reporting why it does not fit. `data` is not null."""
    if isinstance(kind, inspect.UnionType):
        return _value(data, next(t for t in kind.types if not isinstance(t, inspect.NoneType)), path, errors)
    if isinstance(kind, inspect.StructType):
        return _struct(data, kind, path, errors)
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return _list(data, kind.item_type, path, errors)
    if isinstance(kind, inspect.DictType):
        return _dict(data, kind.value_type, path, errors)
    if isinstance(kind, inspect.AnyType):
        return data
    if isinstance(kind, inspect.BoolType):
        return data if isinstance(data, bool) else _wrong(data, "bool", path, errors)
    if isinstance(kind, inspect.StrType):
        return data if isinstance(data, str) else _wrong(data, "string", path, errors)
    if isinstance(kind, inspect.IntType):
        return _integer(data, kind, path, errors)
    if isinstance(kind, inspect.FloatType):
        number = isinstance(data, int | float) and not isinstance(data, bool) and abs(data) <= _FLOAT32_MAX
        return float(data) if number else _wrong(data, "float32", path, errors)
    if isinstance(kind, inspect.BytesType):
        return _bytes(data, path, errors)
    if isinstance(kind, inspect.DataclassType) and kind.cls is Duration:
        return _duration(data, path, errors)
    return _other(data, kind, path, errors)


def _struct(data: Any, kind: inspect.StructType, path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, dict):
        return _wrong(data, "object", path, errors)
    known = {field.encode_name: field for field in kind.fields}
    result = {}
    for key, value in data.items():
        name = str(key)  # plain data may have other keys than a file can have
        where = f"{path}.{name}" if path else name
        field = known.get(name)
        if field is None:
            errors.append(strict(where, "unknown field", _did_you_mean(name, known)))
        elif value is not None:
            inner = _value(value, field.type, where, errors)
            if inner is not _BAD:
                result[name] = inner
    for name, field in known.items():
        if field.required and name not in result and not any(e.path.startswith(f"{path}.{name}") for e in errors):
            where = f"{path}.{name}" if path else name
            errors.append(FieldError(where, None, "must be given", f"{where}: Required value"))
    return result


def _list(data: Any, item: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, list | tuple):
        return _wrong(data, "array", path, errors)
    result = []
    for index, value in enumerate(data):
        inner = _value(_zero(item) if value is None else value, item, f"{path}[{index}]", errors)
        if inner is not _BAD:
            result.append(inner)
    return result


def _dict(data: Any, item: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, dict):
        return _wrong(data, "object", path, errors)
    result = {}
    for key, value in data.items():
        inner = _value(_zero(item) if value is None else value, item, f"{path}.{key}", errors)
        if inner is not _BAD:
            result[str(key)] = inner
    return result


def _integer(data: Any, kind: inspect.IntType, path: str, errors: list[FieldError]) -> Any:
    highest = kind.le if kind.le is not None else _INT64_MAX
    lowest = kind.ge if kind.ge is not None else -_INT64_MAX - 1
    name = "int32" if highest == _INT32_MAX else "int64"
    if isinstance(data, bool) or not isinstance(data, int | float) or not _is_finite(data) or data != int(data):
        return _wrong(data, name, path, errors)
    if not lowest <= data <= highest:
        return _wrong(data, name, path, errors)
    return int(data)


def _bytes(data: Any, path: str, errors: list[FieldError]) -> Any:
    if not isinstance(data, str):
        return _wrong(data, "string", path, errors)
    try:
        return base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        reason = "must be base64"
        errors.append(FieldError(path, None, reason, f"{path}: illegal base64 data"))
        return _BAD


def _duration(data: Any, path: str, errors: list[FieldError]) -> Any:
    if isinstance(data, Duration):
        return data
    if not isinstance(data, str):
        return _wrong(data, "string", path, errors, ' (a duration such as "15s")')
    try:
        return parse_duration(data)
    except DurationError as error:
        errors.append(FieldError(path, data, str(error), f"{path}: {error}"))
        return _BAD


def _other(data: Any, kind: inspect.Type, path: str, errors: list[FieldError]) -> Any:
    """A type that only args of plugins from outside use: msgspec's own answer and message."""
    cls = getattr(kind, "cls", None)
    if cls is None:
        return data
    try:
        msgspec.convert(data, cls, strict=True)
    except (msgspec.ValidationError, TypeError) as error:
        reason = str(error)
        errors.append(FieldError(path, data, reason, f"{path}: {reason}"))
        return _BAD
    return data


def _wrong(data: Any, wanted: str, path: str, errors: list[FieldError], hint: str = "") -> Any:
    what = f"{_json_type(data)} {_short(data)}".rstrip()
    message = f"cannot unmarshal {what} into a field of type {wanted}{hint}"
    errors.append(FieldError(path, data, f"must be of type {wanted}", f"{path}: {message}" if path else message))
    return _BAD


def _zero(kind: inspect.Type) -> Any:
    """What a null inside a list stands for: the type's zero."""
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return {}
    if isinstance(kind, inspect.VarTupleType | inspect.ListType):
        return []
    if isinstance(kind, inspect.StrType | inspect.BytesType):
        return ""
    if isinstance(kind, inspect.BoolType):
        return False
    return 0


def _json_type(data: Any) -> str:
    if isinstance(data, bool):
        return "bool"
    if isinstance(data, int | float):
        return "number"
    if isinstance(data, str):
        return "string"
    return "array" if isinstance(data, list | tuple) else "object" if isinstance(data, dict) else "null"


def _short(data: Any) -> str:
    if data is None or isinstance(data, list | tuple | dict):
        return ""
    text = shown(data)
    return text if len(text) <= 60 else text[:57] + "..."


def _is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)


def _did_you_mean(name: str, known: dict[str, Any]) -> str:
    by_lower = {field.lower(): field for field in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.8)
    return f' (did you mean "{by_lower[close[0]]}"?)' if close else ""
