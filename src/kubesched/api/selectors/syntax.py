"""What a label key, a label value and an integer may look like, and how the API words its complaints.

Each check answers with a list of problems, empty if there is none, in the words of Kubernetes v1.36. A problem in a
field becomes `<path>: Invalid value: "<value>": <problem>` by `invalid`.
"""

from __future__ import annotations

import json
import re

_NAME = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"

_KEY_NAME = re.compile(_NAME)
_KEY_PREFIX = re.compile(_SUBDOMAIN)
_VALUE = re.compile(f"({_NAME})?")
_INTEGER = re.compile(r"[-+]?[0-9]+")

_ALPHANUMERIC = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_BAD_NAME = f"{_ALPHANUMERIC} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
_BAD_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
    f"regex used for validation is '({_NAME})?')"
)
_BAD_PREFIX = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def label_key_problems(key: str) -> list[str]:
    """A key is a name, or `prefix/name` with a DNS subdomain as prefix."""
    parts = key.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_BAD_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    problems = []
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            problems.append("prefix part must be non-empty")
        else:
            if len(prefix.encode()) > 253:
                problems.append("prefix part must be no more than 253 bytes")
            if not _KEY_PREFIX.fullmatch(prefix):
                problems.append(f"prefix part {_BAD_PREFIX}")
    name = parts[-1]
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _KEY_NAME.fullmatch(name):
        problems.append(f"name part {_BAD_NAME}")
    return problems


def label_value_problems(value: str) -> list[str]:
    problems = []
    if len(value.encode()) > 63:
        problems.append("must be no more than 63 bytes")
    if not _VALUE.fullmatch(value):
        problems.append(_BAD_VALUE)
    return problems


def parse_int64(text: str) -> int | None:
    """The integer that `text` spells in full, as Go's ParseInt reads it: no spaces, no underscores, 64 bits."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text) if len(text) <= 20 else 2**63
    return number if -(2**63) <= number < 2**63 else None


def invalid(path: str, value: object, problem: str) -> str:
    """The API's wording for a bad value of the field at `path`; a value without a place has no path."""
    return f"{path or '<nil>'}: Invalid value: {_json(value)}: {problem}"


def not_supported(path: str, value: str, supported: tuple[str, ...]) -> str:
    listed = ", ".join(_json(choice) for choice in supported)
    return f"{path or '<nil>'}: Unsupported value: {_json(value)}: supported values: {listed}"


def joined(problems: list[str]) -> str:
    """Several errors as one text, each once."""
    unique = list(dict.fromkeys(problems))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
