"""What is wrong with a configuration, field by field.

A `ConfigError` carries every problem that was found, not the first one only; printed it gives one line a problem, each
beginning with the file's name and, where known, the line. Texts are the original's wherever they do not speak of Go.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from kubesched.api.errors import KubeschedError
from kubesched.config.durations import Duration

_LINE_BREAKS: Final = {ord(each): ascii(each)[1:-1] for each in "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"}


class FieldError(msgspec.Struct, frozen=True):
    """One problem. `path` is the field's place in the file, empty for the file as a whole; `line` is 0 if unknown."""

    path: str
    value: object
    reason: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        return self.message


class ConfigError(KubeschedError):
    """A configuration that cannot be used. `errors` is never empty."""

    def __init__(self, errors: Iterable[FieldError], source: str = "") -> None:
        self.errors = tuple(errors)
        self.source = source
        super().__init__(source, self.errors)

    def __str__(self) -> str:
        return "\n".join(self._line(error) for error in self.errors)

    def _line(self, error: FieldError) -> str:
        where = f"{self.source}:{error.line}" if error.line and self.source else self.source
        message = error.message.translate(_LINE_BREAKS)  # of a value that it quotes
        return f"{where}: {message}" if where else message


def invalid(path: str, value: object, reason: str) -> FieldError:
    return FieldError(path, value, reason, f"{path}: Invalid value: {shown(value)}: {reason}")


def required(path: str, reason: str = "") -> FieldError:
    return FieldError(
        path, None, reason or "Required value", f"{path}: Required value" + (f": {reason}" if reason else "")
    )


def duplicate(path: str, value: object) -> FieldError:
    return FieldError(path, value, "Duplicate value", f"{path}: Duplicate value: {shown(value)}")


def forbidden(path: str, reason: str) -> FieldError:
    return FieldError(path, None, reason, f"{path}: Forbidden: {reason}")


def unsupported(path: str, value: object, supported: Iterable[str]) -> FieldError:
    reason = "supported values: " + ", ".join(json.dumps(item) for item in supported)
    return FieldError(path, value, reason, f"{path}: Unsupported value: {shown(value)}: {reason}")


def strict(path: str, problem: str, hint: str = "") -> FieldError:
    """A field that must not be there; `problem` says why (`unknown field`, `duplicate field`)."""
    return FieldError(path, None, problem, f'strict decoding error: {problem} "{path}"{hint}')


def whole(message: str, line: int = 0) -> FieldError:
    """A problem that no single field has."""
    return FieldError("", None, message, message, line)


def shown(value: object) -> str:
    """A value as the original shows it in its messages: JSON, durations as their text."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), default=str)


def _plain(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
