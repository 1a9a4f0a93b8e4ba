"""Label selectors, in the two forms that Kubernetes has: a struct inside objects, a text in query strings.

Both compile to a `LabelMatcher`, which is hashable, so that equal selectors can share what is counted for them. An
absent selector matches nothing, an empty one everything. `NotIn` and `DoesNotExist` match objects without the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from kubesched.api.errors import SelectorError
from kubesched.api.meta import Struct
from kubesched.api.selectors import syntax


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    """All of `match_labels` and `match_expressions` must hold. Empty matches everything, an absent one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
DOUBLE_EQUALS: Final = "=="
NOT_EQUALS: Final = "!="
EXISTS: Final = "exists"
DOES_NOT_EXIST: Final = "!"
GREATER_THAN: Final = "gt"
LESS_THAN: Final = "lt"

OPERATORS = (IN, NOT_IN, EQUALS, DOUBLE_EQUALS, NOT_EQUALS, GREATER_THAN, LESS_THAN, EXISTS, DOES_NOT_EXIST)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `values` are sorted and each is there once."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in" | "=" | "==":
                return value in self.values
            case "notin" | "!=":
                return value not in self.values
            case "exists":
                return value is not None
            case "!":
                return value is None
            case _:
                return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        """Gt and Lt: both sides must be integers; a label that is none does not match."""
        bound = syntax.parse_int64(self.values[0])
        number = None if value is None else syntax.parse_int64(value)
        if number is None or bound is None:
            return False
        return number > bound if self.operator == GREATER_THAN else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
            case "gt":
                return f"{self.key}>{self.values[0]}"
            case "lt":
                return f"{self.key}<{self.values[0]}"
            case _:
                return f"{self.key}{self.operator}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class LabelMatcher:
    """Requirements that must all hold, sorted by key. None of them: everything matches; `None`: nothing does."""

    requirements: tuple[Requirement, ...] | None
    _equal: tuple[tuple[str, str], ...] = field(init=False, repr=False, compare=False)
    _others: tuple[Requirement, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Most requirements are plain equality, for which a look into the labels is enough.
        equal, others = [], []
        for requirement in self.requirements or ():
            if requirement.operator in (EQUALS, DOUBLE_EQUALS, IN) and len(requirement.values) == 1:
                equal.append((requirement.key, requirement.values[0]))
            else:
                others.append(requirement)
        object.__setattr__(self, "_equal", tuple(equal))
        object.__setattr__(self, "_others", tuple(others))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.requirements is None:
            return False
        for key, value in self._equal:
            if labels.get(key) != value:
                return False
        for requirement in self._others:  # noqa: SIM110 - a generator costs more than the work
            if not requirement.matches(labels):
                return False
        return True

    @property
    def is_everything(self) -> bool:
        return self.requirements == ()

    @property
    def is_nothing(self) -> bool:
        return self.requirements is None

    def __and__(self, other: LabelMatcher) -> LabelMatcher:
        """Matches what both match."""
        if self.requirements is None or other.requirements is None:
            return NOTHING
        return _matcher([*self.requirements, *other.requirements])

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements or ()))


EVERYTHING = LabelMatcher(())
NOTHING = LabelMatcher(None)


def compile_label_selector(selector: LabelSelector | None) -> LabelMatcher:
    """The selector of an object, checked as the original checks it before use. SelectorError."""
    if selector is None:
        return NOTHING
    requirements = [require(key, EQUALS, (value,)) for key, value in selector.match_labels.items()]
    for expression in selector.match_expressions:
        operator = _SELECTOR_OPERATORS.get(expression.operator)
        if operator is None:
            raise SelectorError(f'"{expression.operator}" is not a valid label selector operator')
        requirements.append(require(expression.key, operator, expression.values))
    return _matcher(requirements)


def match_labels(labels: Mapping[str, str]) -> LabelMatcher:
    """Labels that must all be there, unchecked: the selectors of services and replication controllers, and pods'
    `nodeSelector`. Empty matches everything."""
    return _matcher([Requirement(key, EQUALS, (value,)) for key, value in labels.items()])


def parse_label_selector(text: str) -> LabelMatcher:
    """The `labelSelector` of a list or watch, such as `app=web,tier in (a, b),!canary`. SelectorError."""
    return _matcher(_Parser(text).requirements())


def require(key: str, operator: str, values: tuple[str, ...], path: str = "") -> Requirement:
    """A requirement, if it is a legal one; `path` is its place in the object. SelectorError."""
    problems = requirement_problems(key, operator, values, path)
    if problems:
        raise SelectorError(syntax.joined(problems))
    return Requirement(key, operator, _sorted(values))


def requirement_problems(key: str, operator: str, values: tuple[str, ...], path: str = "") -> list[str]:
    key_path, values_path = (f"{path}.key", f"{path}.values") if path else ("key", "values")
    problems = []
    if key_problems := syntax.label_key_problems(key):
        problems.append(syntax.invalid(key_path, key, "; ".join(key_problems)))
    match operator:
        case "in" | "notin":
            if not values:
                problem = "for 'in', 'notin' operators, values set can't be empty"
                problems.append(syntax.invalid(values_path, _listed(values), problem))
        case "=" | "==" | "!=":
            if len(values) != 1:
                problem = "exact-match compatibility requires one single value"
                problems.append(syntax.invalid(values_path, _listed(values), problem))
        case "exists" | "!":
            if values:
                problem = "values set must be empty for exists and does not exist"
                problems.append(syntax.invalid(values_path, _listed(values), problem))
        case "gt" | "lt":
            if len(values) != 1:
                problem = "for 'Gt', 'Lt' operators, exactly one value is required"
                problems.append(syntax.invalid(values_path, _listed(values), problem))
            for index, value in enumerate(values):
                if syntax.parse_int64(value) is None:
                    problem = "for 'Gt', 'Lt' operators, the value must be an integer"
                    problems.append(syntax.invalid(f"{values_path}[{index}]", value, problem))
        case _:
            problems.append(syntax.not_supported(f"{path}.operator" if path else "operator", operator, OPERATORS))
    for index, value in enumerate(values):
        if value_problems := syntax.label_value_problems(value):
            # The original names the key between the place and the value.
            problems.append(syntax.invalid(f"{values_path}[{index}][{key}]", value, "; ".join(value_problems)))
    return problems


def _listed(values: tuple[str, ...]) -> list[str] | None:
    """As the original prints them: no values are null."""
    return list(values) or None


_SELECTOR_OPERATORS = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": DOES_NOT_EXIST}


def _matcher(requirements: list[Requirement]) -> LabelMatcher:
    if not requirements:
        return EVERYTHING
    return LabelMatcher(tuple(sorted(dict.fromkeys(requirements), key=_order)))


def _order(requirement: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return (requirement.key, requirement.operator, requirement.values)


def _sorted(values: tuple[str, ...]) -> tuple[str, ...]:
    return values if len(values) < 2 else tuple(sorted(set(values)))


class _Parser:
    """Reads the query-string form. Error texts are those of the original, down to which token they complain about."""

    _BINARY_OPERATORS = {
        "in": IN,
        "notin": NOT_IN,
        "=": EQUALS,
        "==": DOUBLE_EQUALS,
        "!=": NOT_EQUALS,
        ">": GREATER_THAN,
        "<": LESS_THAN,
    }

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            kind, text = self._peek()
            if kind == _END:
                return found
            if kind not in (_WORD, "!"):
                raise SelectorError(f"found '{text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            kind, text = self._next()
            if kind == _END:
                return found
            if kind != ",":
                raise SelectorError(f"found '{text}', expected: ',' or 'end of string'")
            kind, text = self._peek()
            if kind not in (_WORD, "!"):
                raise SelectorError(f"found '{text}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        kind, key = self._next()
        negated = kind == "!"
        if negated:
            kind, key = self._next()
        if kind != _WORD:
            raise SelectorError(f"found '{key}', expected: identifier")
        if problems := syntax.label_key_problems(key):
            raise SelectorError(syntax.invalid("", key, "; ".join(problems)))
        if negated:
            return Requirement(key, DOES_NOT_EXIST)
        if self._peek()[0] in (_END, ","):
            return Requirement(key, EXISTS)
        operator = self._operator()
        values = self._values() if operator in (IN, NOT_IN) else self._value()
        return require(key, operator, _sorted(tuple(values)))

    def _operator(self) -> str:
        _, text = self._next()
        operator = self._BINARY_OPERATORS.get(text)
        if operator is None:
            raise SelectorError(f"found '{text}', expected: in, notin, =, ==, !=, gt, lt")
        return operator

    def _value(self) -> list[str]:
        if self._peek()[0] in (_END, ","):
            return [""]
        kind, text = self._next()
        if kind != _WORD:
            raise SelectorError(f"found '{text}', expected: identifier")
        return [text]

    def _values(self) -> list[str]:
        """`(a, b)`. An empty place between commas or at an end is the empty value."""
        kind, text = self._next()
        if kind != "(":
            raise SelectorError(f"found '{text}' expected: '('")
        kind, text = self._peek()
        if kind not in (_WORD, ",", ")"):
            raise SelectorError(f"found '{text}', expected: ',', ')' or identifier")
        values = []
        while True:
            kind, text = self._peek()
            if kind == _WORD:
                values.append(text)
                self._next()
                kind, text = self._next()
                if kind not in (",", ")"):
                    raise SelectorError(f"found '{text}', expected: ',' or ')'")
            elif kind in (",", ")"):
                values.append("")
                self._next()
            else:
                raise SelectorError(f"found '{text}', expected: ',', or identifier")
            if kind == ")":
                return values

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._position]

    def _next(self) -> tuple[str, str]:
        token = self._tokens[self._position]
        if token[0] != _END:
            self._position += 1
        return token


_WORD = "word"
_END = "end"
_SPECIAL = "=!(),><"
_SYMBOLS = ("==", "!=", *_SPECIAL)


def _tokens(text: str) -> list[tuple[str, str]]:
    """(kind, text) of each token; the kind of a symbol is the symbol itself. `in` and `notin` are words that only
    `_operator` takes for more."""
    found = []
    position = 0
    while position < len(text):
        if text[position] in " \t\r\n":
            position += 1
            continue
        symbol = next((symbol for symbol in _SYMBOLS if text.startswith(symbol, position)), None)
        if symbol is not None:
            found.append((symbol, symbol))
            position += len(symbol)
            continue
        start = position
        while position < len(text) and text[position] not in _SPECIAL and text[position] not in " \t\r\n":
            position += 1
        found.append((_WORD, text[start:position]))
    return [*found, (_END, "")]
