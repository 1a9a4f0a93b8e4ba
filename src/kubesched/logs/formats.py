"""The two shapes of a log line, `text` for people and `json` for collectors.

A record's fields come from its %-template (`"pod scheduled pod=%s node=%s"`) or from `extra=fields(...)`; both formats
show the same fields. Lines are one line each: control characters in values are escaped, so that nothing taken from a
cluster can forge a line. A traceback follows its line, indented, in text; it is a field in JSON.
"""

import json
import logging
import re
import time
from functools import lru_cache
from typing import Any, NamedTuple

from kubesched.logs.redact import redact

_LEVEL_NAMES = {logging.WARNING: "WARN", logging.ERROR: "ERROR", logging.CRITICAL: "FATAL"}
_CONVERSION = r"%[-+ #0]*\d*(?:\.\d+)?[sdrfgxa]"
_FIELD_TAIL = re.compile(rf"(?:(?:^|\s)[A-Za-z_][\w.]*={_CONVERSION})+$")
_FIELD = re.compile(rf"([A-Za-z_][\w.]*)=({_CONVERSION})")
_PLACEHOLDER = re.compile(rf"%%|{_CONVERSION}")
_AS_GIVEN = frozenset({"%s", "%d"})
_BARE = r"[^\s\"'\\=\x00-\x1f\x7f-\x9f]+"
_BARE_VALUE = re.compile(_BARE)
_BARE_VALUES = re.compile(rf"{_BARE}(?:\n{_BARE})*")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def fields(**values: object) -> dict[str, dict[str, object]]:
    """The `extra=` of a logging call whose fields are not known when the template is written."""
    return {"fields": values}


def took(seconds: float) -> str:
    """A duration as a person reads it: `850us`, `1.2ms`, `3.4s`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f}us"
    if seconds < 1:
        return f"{seconds * 1e3:.1f}ms"
    return f"{seconds:.1f}s"


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.678Z INFO pod scheduled pod=default/web-1 node=n3 took=1.2ms`."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_timestamp(record.created)} {_level_name(record.levelno)} {_plain_text(record) or _text(record)}"
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text or record.stack_info:
            for block in filter(None, (record.exc_text, record.stack_info)):
                line += "\n" + "\n".join("    " + part for part in block.splitlines())
        return redact(line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line with the original's keys: `ts` (ms), `caller`, `msg`, `v` or `err`, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        sentence, values = split(record)
        entry: dict[str, Any] = {
            "ts": round(record.created * 1000, 3),
            "caller": f"{record.filename}:{record.lineno}",
            "level": _level_name(record.levelno),
            "logger": record.name,
            "msg": redact(sentence),
        }
        if record.levelno <= logging.INFO:
            entry["v"] = _verbosity(record.levelno)
        for key, value in values:
            entry[key if key not in entry else f"field.{key}"] = _as_json(key, value)
        if record.exc_info:
            entry["err"] = redact(str(record.exc_info[1]))
            entry["stacktrace"] = redact(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False, default=str)


def _text(record: logging.LogRecord) -> str:
    sentence, values = split(record)
    return " ".join([_one_line(sentence), *[f"{key}={_shown(value)}" for key, value in values]])


def _plain_text(record: logging.LogRecord) -> str:
    """The same for a record all of whose values are shown as they are, and "" for others: decisions are told by the
    thousand, and this costs a third."""
    args = record.args
    if not isinstance(args, tuple) or not args or "fields" in record.__dict__ or not isinstance(record.msg, str):
        return ""
    template = _template(record.msg)
    if template is None or template.as_given is None or len(template.keys) != len(args):
        return ""
    texts: list[str] = []
    for value in args:
        if type(value) is str:
            texts.append(value)
        elif type(value) is not int:
            return ""
    together = "\n".join(texts)
    if texts and (together.count("\n") != len(texts) - 1 or _BARE_VALUES.fullmatch(together) is None):
        return ""
    return template.as_given % args


def split(record: logging.LogRecord) -> tuple[str, list[tuple[str, object]]]:
    """The sentence of a record and its fields in order, each still the value that was given."""
    values: list[tuple[str, object]] = []
    extra = getattr(record, "fields", None)
    args = record.args if isinstance(record.args, tuple) else ()
    template = _template(record.msg) if isinstance(record.msg, str) and args else None
    if template is not None and template.placeholders == len(args):
        first = len(args) - len(template.keys)
        sentence = template.sentence % args[:first] if first else template.plain_sentence
        if template.conversions is None:
            values = list(zip(template.keys, args[first:], strict=True))
        else:
            for key, conversion, value in zip(template.keys, template.conversions, args[first:], strict=True):
                plain = conversion in _AS_GIVEN
                values.append((key, value if plain else conversion % (value,)))
    else:
        sentence = record.getMessage()
    if isinstance(extra, dict):
        values.extend(extra.items())
    return sentence, values


class _Template(NamedTuple):
    """`conversions` is None where all values are shown as they are given; `as_given` is then the whole as a template of
    such values, provided that there are no others."""

    sentence: str
    plain_sentence: str
    keys: tuple[str, ...]
    conversions: tuple[str, ...] | None
    placeholders: int
    as_given: str | None


@lru_cache(maxsize=1024)
def _template(message: str) -> _Template | None:
    tail = _FIELD_TAIL.search(message)
    if tail is None:
        return None
    pairs = _FIELD.findall(tail.group())
    sentence = message[: tail.start()].rstrip()
    conversions = tuple(conversion for _, conversion in pairs)
    placeholders = sum(1 for found in _PLACEHOLDER.findall(message) if found != "%%")
    is_as_given = _AS_GIVEN.issuperset(conversions)
    is_plain = is_as_given and placeholders == len(pairs) and sentence.isprintable()
    return _Template(
        sentence=sentence,
        plain_sentence=sentence.replace("%%", "%"),
        keys=tuple(key for key, _ in pairs),
        conversions=None if is_as_given else conversions,
        placeholders=placeholders,
        as_given=" ".join([sentence, *[f"{key}=%s" for key, _ in pairs]]) if is_plain else None,
    )


def _timestamp(seconds: float) -> str:
    whole, millis = divmod(round(seconds * 1000), 1000)
    return f"{_second(whole)}.{millis:03d}Z"


@lru_cache(maxsize=4)
def _second(whole: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))


def _level_name(level: int) -> str:
    if level < logging.INFO:
        return "DEBUG" if level <= logging.DEBUG else "INFO"
    return _LEVEL_NAMES.get(level, "INFO" if level < logging.WARNING else f"LEVEL{level}")


def _verbosity(level: int) -> int:
    """The `-v` at which a line of this level begins to show; the inverse of `level_of`."""
    if level >= logging.INFO:
        return 0
    return logging.INFO - level if level > logging.DEBUG else logging.DEBUG + 4 - level


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "-"
    text = str(value)
    if _BARE_VALUE.fullmatch(text):
        return text
    return json.dumps(redact(text), ensure_ascii=False)  # before quoting, whose escapes would hide what is inside


def _as_json(key: str, value: object) -> object:
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    shown = redact(f"{key}={text}")
    return text if shown == f"{key}={text}" else shown.removeprefix(f"{key}=")


def _one_line(text: str) -> str:
    if text.isprintable():
        return text
    return _CONTROL.sub(lambda match: json.dumps(match.group())[1:-1], text)
