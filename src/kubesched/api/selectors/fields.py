"""Field selectors of lists and watches: `spec.nodeName=,status.phase!=Failed`.

Which fields a kind can be selected by is the server's business; here they are just names and values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesched.api.errors import SelectorError


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    field: str
    equal: bool
    value: str


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """All requirements must hold. A field that is not there counts as empty."""

    requirements: tuple[FieldRequirement, ...]

    def matches(self, fields: Mapping[str, str]) -> bool:
        return all((fields.get(r.field, "") == r.value) == r.equal for r in self.requirements)

    def __str__(self) -> str:
        return ",".join(f"{r.field}{'=' if r.equal else '!='}{escape(r.value)}" for r in self.requirements)


def parse_field_selector(text: str) -> FieldSelector:
    """SelectorError."""
    requirements = []
    for term in _terms(text):
        if term:
            field, equal, value = _split(term, text)
            requirements.append(FieldRequirement(field, equal, _unescape(value)))
    return FieldSelector(tuple(requirements))


def escape(value: str) -> str:
    """A value as it must be written in a field selector."""
    return value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")


def _terms(text: str) -> list[str]:
    """Split at commas, except those behind a backslash."""
    terms, start, escaped = [], 0, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == ",":
            terms.append(text[start:position])
            start = position + 1
    return [*terms, text[start:]]


def _split(term: str, text: str) -> tuple[str, bool, str]:
    for position in range(len(term)):
        for operator in ("!=", "==", "="):
            if term.startswith(operator, position):
                return term[:position], operator != "!=", term[position + len(operator) :]
    raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")


def _unescape(value: str) -> str:
    plain, escaped = [], False
    for character in value:
        if escaped:
            if character not in "\\,=":
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{character}")
            plain.append(character)
            escaped = False
        elif character == "\\":
            escaped = True
        elif character in ",=":
            # The original prints the character's number.
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(character)}")
        else:
            plain.append(character)
    if escaped:
        raise SelectorError("invalid field selector: invalid escape sequence: \\")
    return "".join(plain)
