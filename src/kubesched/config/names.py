"""Names of labels and resources as the API validates them, with its messages."""

from __future__ import annotations

import re

_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_QUALIFIED_RULE = f"{_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_QUALIFIED}')"
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    f" '{_LABEL_VALUE}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    f" end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def qualified_name_faults(name: str) -> list[str]:
    """What keeps `name` from being a label key or a resource name: empty for `kubernetes.io/arch`, `pool`."""
    faults = []
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        optional = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a qualified name {_QUALIFIED_RULE} {optional}"]
    if slash and not prefix:
        faults.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            faults.append("prefix part must be no more than 253 bytes")
        if not re.fullmatch(_SUBDOMAIN, prefix):
            faults.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not rest:
        faults.append("name part must be non-empty")
    elif len(rest) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not re.fullmatch(_QUALIFIED, rest):
        faults.append(f"name part {_QUALIFIED_RULE}")
    return faults


def label_value_faults(value: str) -> list[str]:
    faults = []
    if len(value) > 63:
        faults.append("must be no more than 63 bytes")
    if not re.fullmatch(_LABEL_VALUE, value):
        faults.append(_VALUE_RULE)
    return faults


def is_extended_resource(name: str) -> bool:
    """True for a resource outside `kubernetes.io` that a quota could name, such as `example.com/gpu`."""
    native = "/" not in name or "kubernetes.io/" in name
    return not native and not name.startswith("requests.") and not qualified_name_faults(f"requests.{name}")
