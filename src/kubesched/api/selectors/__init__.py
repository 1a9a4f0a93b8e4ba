"""Selectors: of labels, of nodes, of fields.

`labels` selects objects by their labels, in the form of the API and in the form of a query string; `nodes` selects
nodes by labels and name; `fields` are the field selectors of lists and watches; `syntax` knows what a label looks like.
Each selector is compiled once and then asked many times. A selector that cannot be compiled raises `SelectorError`,
except node selectors, whose parse errors are values, because a term that can be parsed may still match.
"""

from kubesched.api.selectors.fields import FieldRequirement, FieldSelector, parse_field_selector
from kubesched.api.selectors.labels import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    LabelSelector,
    LabelSelectorRequirement,
    Requirement,
    compile_label_selector,
    match_labels,
    parse_label_selector,
)
from kubesched.api.selectors.nodes import (
    NodeMatcher,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeTermMatcher,
    PreferredTerms,
    compile_node_selector,
    compile_preferred_terms,
)

__all__ = [
    "EVERYTHING",
    "NOTHING",
    "FieldRequirement",
    "FieldSelector",
    "LabelMatcher",
    "LabelSelector",
    "LabelSelectorRequirement",
    "NodeMatcher",
    "NodeSelector",
    "NodeSelectorRequirement",
    "NodeSelectorTerm",
    "NodeTermMatcher",
    "PreferredTerms",
    "Requirement",
    "compile_label_selector",
    "compile_node_selector",
    "compile_preferred_terms",
    "match_labels",
    "parse_field_selector",
    "parse_label_selector",
]
