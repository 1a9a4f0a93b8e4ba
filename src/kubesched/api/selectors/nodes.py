"""Node selectors: terms of which one must match a node's labels and name.

A term without requirements matches no node, and so does a selector without terms. A term that cannot be parsed matches
no node either, but says why in `errors`: the original (component-helpers nodeaffinity, v1.36) lets the other terms
match, and what a caller makes of the errors is its own business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubesched.api.meta import Struct
from kubesched.api.selectors import labels as label_selectors
from kubesched.api.selectors import syntax
from kubesched.api.selectors.fields import FieldRequirement
from kubesched.api.selectors.labels import Requirement


class NodeSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    """All requirements must hold. A term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.match_expressions and not self.match_fields


class NodeSelector(Struct):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTermMatcher:
    """One term that is not empty. `errors` are its parse errors; with any, it matches nothing."""

    labels: tuple[Requirement, ...]
    fields: tuple[FieldRequirement, ...]
    errors: tuple[str, ...] = ()

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        """`name` and `labels` are the node's."""
        if self.errors:
            return False
        return all(r.matches(labels) for r in self.labels) and self.matches_name(name)

    def matches_name(self, name: str) -> bool:
        """`metadata.name` is the only field that nodes have; others count as empty."""
        return all(((name if r.field == "metadata.name" else "") == r.value) == r.equal for r in self.fields)


@dataclass(frozen=True, slots=True)
class NodeMatcher:
    """Terms that are not empty; one of them must match."""

    terms: tuple[NodeTermMatcher, ...]

    def matches(self, name: str, labels: Mapping[str, str]) -> bool:
        return any(term.matches(name, labels) for term in self.terms)

    @property
    def errors(self) -> tuple[str, ...]:
        """What could not be parsed, over all terms. It matters only to nodes that no term matches."""
        return tuple(error for term in self.terms for error in term.errors)


@dataclass(frozen=True, slots=True)
class PreferredTerms:
    """Terms with weights. The caller must look at `errors` first: a pod with any is not scored at all."""

    terms: tuple[tuple[int, NodeTermMatcher], ...]
    errors: tuple[str, ...]

    def score(self, name: str, labels: Mapping[str, str]) -> int:
        """The sum of the weights of the terms that match."""
        return sum(weight for weight, term in self.terms if term.matches(name, labels))


def compile_node_selector(selector: NodeSelector, path: str = "") -> NodeMatcher:
    """`path` is the selector's place in its object, for error texts."""
    terms_path = f"{path}.nodeSelectorTerms" if path else "nodeSelectorTerms"
    return NodeMatcher(
        tuple(
            _compile_term(term, f"{terms_path}[{index}]")
            for index, term in enumerate(selector.node_selector_terms)
            if not term.is_empty
        )
    )


def compile_preferred_terms(weighted: Iterable[tuple[int, NodeSelectorTerm]], path: str = "") -> PreferredTerms:
    """(weight, preference) pairs; those of weight 0 and empty ones are not even parsed."""
    terms = tuple(
        (weight, _compile_term(term, f"{path}[{index}]"))
        for index, (weight, term) in enumerate(weighted)
        if weight != 0 and not term.is_empty
    )
    return PreferredTerms(terms, tuple(error for _, term in terms for error in term.errors))


_LABEL_OPERATORS = {
    "In": label_selectors.IN,
    "NotIn": label_selectors.NOT_IN,
    "Exists": label_selectors.EXISTS,
    "DoesNotExist": label_selectors.DOES_NOT_EXIST,
    "Gt": label_selectors.GREATER_THAN,
    "Lt": label_selectors.LESS_THAN,
}


def _compile_term(term: NodeSelectorTerm, path: str) -> NodeTermMatcher:
    errors: list[str] = []
    labels = []
    for index, expression in enumerate(term.match_expressions):
        at = f"{path}.matchExpressions[{index}]"
        operator = _LABEL_OPERATORS.get(expression.operator)
        if operator is None:
            errors.append(syntax.not_supported(f"{at}.operator", expression.operator, tuple(_LABEL_OPERATORS)))
        elif problems := label_selectors.requirement_problems(expression.key, operator, expression.values, at):
            errors.append(syntax.joined(problems))
        else:
            labels.append(Requirement(expression.key, operator, expression.values))
    fields = []
    for index, expression in enumerate(term.match_fields):
        at = f"{path}.matchFields[{index}]"
        if expression.operator not in ("In", "NotIn"):
            errors.append(syntax.not_supported(f"{at}.operator", expression.operator, ("In", "NotIn")))
        elif len(expression.values) != 1:
            errors.append(syntax.invalid(f"{at}.values", list(expression.values) or None, "must have one element"))
        else:
            fields.append(FieldRequirement(expression.key, expression.operator == "In", expression.values[0]))
    return NodeTermMatcher(tuple(labels), tuple(fields), tuple(errors))
