"""The words of Go's JSON decoder: clients and people know them from the API server's answers."""

from __future__ import annotations

from typing import Any


def type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    if isinstance(value, list):
        return "array"
    if isinstance(value, dict):
        return "object"
    return "null"


def fault(body: bytes) -> str:
    """What Go's decoder says about a body that is not JSON."""
    scanner = _Scanner(body.decode("utf-8", "replace"))
    try:
        scanner.document()
    except _Fault as found:
        return str(found)
    return "unexpected end of JSON input"


class _Fault(Exception):
    pass


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> None:
        self.value("looking for beginning of value")
        if self.next():
            raise self.invalid("after top-level value")

    def next(self) -> str:
        while self.at < len(self.text) and self.text[self.at] in " \t\r\n":
            self.at += 1
        return self.text[self.at] if self.at < len(self.text) else ""

    def invalid(self, where: str) -> _Fault:
        if self.at >= len(self.text):
            return _Fault("unexpected end of JSON input")
        character = self.text[self.at]
        shown = {"'": "\\'", '"': "'\"'"}.get(character, character)
        quoted = shown if shown.startswith("'") else f"'{shown}'"
        return _Fault(f"invalid character {quoted} {where}")

    def value(self, where: str) -> None:
        character = self.next()
        if character == "{":
            self.members()
        elif character == "[":
            self.elements()
        elif character == '"':
            self.string()
        elif character in "-0123456789" and character:
            self.number()
        elif character in "tfn" and character:
            self.literal({"t": "true", "f": "false", "n": "null"}[character])
        else:
            raise self.invalid(where)

    def members(self) -> None:
        self.at += 1
        if self.next() == "}":
            self.at += 1
            return
        while True:
            if self.next() != '"':
                raise self.invalid("looking for beginning of object key string")
            self.string()
            if self.next() != ":":
                raise self.invalid("after object key")
            self.at += 1
            self.value("looking for beginning of value")
            character = self.next()
            if character == "}":
                self.at += 1
                return
            if character != ",":
                raise self.invalid("after object key:value pair")
            self.at += 1

    def elements(self) -> None:
        self.at += 1
        if self.next() == "]":
            self.at += 1
            return
        while True:
            self.value("looking for beginning of value")
            character = self.next()
            if character == "]":
                self.at += 1
                return
            if character != ",":
                raise self.invalid("after array element")
            self.at += 1

    def string(self) -> None:
        self.at += 1
        while self.at < len(self.text):
            character = self.text[self.at]
            if character == '"':
                self.at += 1
                return
            if character < " ":
                raise self.invalid("in string literal")
            self.at += 2 if character == "\\" else 1
        self.at = len(self.text)
        raise self.invalid("")

    def number(self) -> None:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] in "+-.eE0123456789":
            self.at += 1
        digits = self.text[start : self.at].lstrip("-")
        if not digits or not digits[0].isdigit():
            raise self.invalid("in numeric literal")
        if digits[0] == "0" and len(digits) > 1 and digits[1].isdigit():
            self.at = start + 1
            raise self.invalid("after top-level value")

    def literal(self, word: str) -> None:
        for offset, expected in enumerate(word):
            if self.at >= len(self.text) or self.text[self.at] != expected:
                raise self.invalid(f"in literal {word} (expecting '{expected}')") if offset else self.invalid("")
            self.at += 1
