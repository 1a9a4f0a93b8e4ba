"""Label and field selectors of list, watch and deletecollection requests.

A selection is compiled once per request and then asked about stored versions by their labels and selectable fields;
documents are never decoded for it. Parse errors carry the words of the API server, which kubectl prints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kubesched.apiserver.resources import Resource
from kubesched.apiserver.status import bad_request

LabelTest = Callable[[Mapping[str, str]], bool]
FieldTest = Callable[["Selectable"], bool]

_TOKEN = re.compile(r"\s*(?:(==|!=|=|!|,|\(|\)|>|<)|([^\s=!,()<>]+))")
_OPERATORS = ("=", "==", "!=", "in", "notin", ">", "<")
# The fields of an Event by their name in events.k8s.io, where the core group has another.
_EVENT_VIEW = {
    "regarding.kind": "involvedObject.kind",
    "regarding.namespace": "involvedObject.namespace",
    "regarding.name": "involvedObject.name",
    "regarding.uid": "involvedObject.uid",
    "regarding.apiVersion": "involvedObject.apiVersion",
    "regarding.resourceVersion": "involvedObject.resourceVersion",
    "regarding.fieldPath": "involvedObject.fieldPath",
    "reason": "reason",
    "reportingController": "reportingComponent",
    "type": "type",
}


class Selectable(Protocol):
    """What selectors ask for: a stored version, or something that is not stored but listed like one."""

    @property
    def namespace(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> Mapping[str, str]: ...
    @property
    def fields(self) -> tuple[str, ...]:
        """The values of the resource's `field_labels`."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a request selects: a namespace ("" for all), labels and fields. `name` is set when one name is asked for."""

    namespace: str = ""
    labels: LabelTest | None = None
    fields: FieldTest | None = None
    name: str | None = None
    node: str | None = None

    @property
    def filters(self) -> bool:
        """True when objects of the namespace can be left out."""
        return self.labels is not None or self.fields is not None

    def matches(self, stored: Selectable) -> bool:
        if self.namespace and stored.namespace != self.namespace:
            return False
        if self.labels is not None and not self.labels(stored.labels):
            return False
        return self.fields is None or self.fields(stored)


def select(resource: Resource, namespace: str, label_selector: str, field_selector: str) -> Selection:
    labels = parse_labels(label_selector) if label_selector.strip() else None
    if not field_selector.strip():
        return Selection(namespace, labels)
    terms = parse_fields(field_selector)
    tests = [_field_test(resource, name, negated, value) for name, negated, value in terms]
    exact = {name: value for name, negated, value in terms if not negated}
    return Selection(
        namespace,
        labels,
        tests[0] if len(tests) == 1 else lambda stored: all(test(stored) for test in tests),
        exact.get("metadata.name"),
        exact.get("spec.nodeName") if resource.kind == "Pod" else None,
    )


def parse_fields(text: str) -> list[tuple[str, bool, str]]:
    """`a=b,c!=d` as (field, negated, value); a backslash escapes comma, equals sign and itself in values."""
    terms = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        found = re.search(r"(?<!\\)(!=|==|=)", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        value = re.sub(r"\\([\\,=])", r"\1", part[found.end() :])
        terms.append((part[: found.start()], found.group() == "!=", value))
    return terms


def _field_test(resource: Resource, name: str, negated: bool, value: str) -> FieldTest:
    if name == "metadata.name":
        return lambda stored: (stored.name == value) is not negated
    if name == "metadata.namespace" and resource.namespaced:
        return lambda stored: (stored.namespace == value) is not negated
    if resource.group == "events.k8s.io":
        name = _EVENT_VIEW.get(name, "?" + name)
    if name not in resource.field_labels:
        raise bad_request(f"field label not supported: {name.removeprefix('?')}")
    index = resource.field_labels.index(name)
    if negated:
        return lambda stored: stored.fields[index] != value
    return lambda stored: stored.fields[index] == value


def parse_labels(text: str) -> LabelTest:
    """A label selector in its text form: `a=b, c!=d, e in (f, g), !h, i>3`."""
    tokens = _Tokens(text)
    tests = []
    while True:
        tests.append(_requirement(tokens))
        token = tokens.take()
        if token == "":
            break
        if token != ",":
            raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
        if tokens.peek() == "":
            raise bad_request("found '', expected: identifier after ','")
    return tests[0] if len(tests) == 1 else lambda labels: all(test(labels) for test in tests)


class _Tokens:
    def __init__(self, text: str) -> None:
        self.items: list[str] = []
        position = 0
        while position < len(text.rstrip()):
            found = _TOKEN.match(text, position)
            assert found is not None, text
            self.items.append(found.group(1) or found.group(2))
            position = found.end()
        self.position = 0

    def peek(self) -> str:
        return self.items[self.position] if self.position < len(self.items) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token


def _requirement(tokens: _Tokens) -> LabelTest:
    key = tokens.take()
    if key == "!":
        absent = _key(tokens.take())
        return lambda labels: absent not in labels
    if key in ("", ",", "(", ")", "=", "==", "!=", ">", "<"):
        raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
    key = _key(key)
    if tokens.peek() in ("", ","):
        return lambda labels: key in labels
    operator = tokens.take()
    if operator not in _OPERATORS:
        raise bad_request(f"unable to parse requirement: found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    if operator in ("in", "notin"):
        values = _values(tokens)
        if operator == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    value = "" if tokens.peek() in ("", ",") else tokens.take()
    if operator in (">", "<"):
        return _comparison(key, operator, value)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _values(tokens: _Tokens) -> frozenset[str]:
    token = tokens.take()
    if token != "(":
        raise bad_request(f"unable to parse requirement: found '{token}' expected: '('")
    values, value = set(), ""
    while True:
        token = tokens.take()
        if token == "":
            raise bad_request("unable to parse requirement: found '', expected: ',', ')' or identifier")
        if token in (",", ")"):
            values.add(value)
            value = ""
            if token == ")":
                return frozenset(values)
        else:
            value = token


def _comparison(key: str, operator: str, bound: str) -> LabelTest:
    try:
        limit = int(bound)
    except ValueError:
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{bound}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        ) from None

    def test(labels: Mapping[str, str]) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > limit if operator == ">" else value < limit

    return test


_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def _key(key: str) -> str:
    name = key.rsplit("/", 1)[-1]
    if not _NAME.fullmatch(name) or len(name) > 63:
        raise bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must consist of alphanumeric '
            "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
            "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )
    return key
