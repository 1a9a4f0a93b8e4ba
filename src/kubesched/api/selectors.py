"""Label selectors, node selectors and field selectors: their structs, parsers and matchers."""

from __future__ import annotations

from kubesched.api.meta import Struct


class LabelSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct):
    """All of `match_labels` and `match_expressions` must hold. Empty matches everything, an absent one nothing."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class NodeSelectorRequirement(Struct):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct):
    """All requirements must hold. A term without any matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct):
    """One of the terms must match."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()
