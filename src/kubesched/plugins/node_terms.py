"""Which nodes meet requirements on their labels: masks over a set of rows.

Each requirement is one look at a label column: values are coded, so a requirement becomes a set of accepted codes.
"""

from __future__ import annotations

import numpy as np

from kubesched.api.selectors import FieldRequirement, NodeMatcher, NodeTermMatcher, Requirement
from kubesched.state.node_table import Bools, Codes, LabelColumn, NodeSet

#: The one field that nodes have.
NAME_FIELD = "metadata.name"


def matching_any(selector: NodeMatcher, nodes: NodeSet) -> Bools:
    """One of the terms matches."""
    matched = np.zeros(len(nodes), dtype=np.bool_)
    for term in selector.terms:
        matched |= matching(term, nodes)
    return matched


def matching(term: NodeTermMatcher, nodes: NodeSet) -> Bools:
    """A term that cannot be parsed matches nothing."""
    if term.errors:
        return np.zeros(len(nodes), dtype=np.bool_)
    matched = all_hold(term.labels, nodes)
    for requirement in term.fields:
        matched &= _name_holds(requirement, nodes)
    return matched


def all_hold(requirements: tuple[Requirement, ...], nodes: NodeSet) -> Bools:
    matched = np.ones(len(nodes), dtype=np.bool_)
    for requirement in requirements:
        matched &= holds(requirement, nodes)
    return matched


def holds(requirement: Requirement, nodes: NodeSet) -> Bools:
    column = nodes.table.label_column(requirement.key)
    codes = column.codes[nodes.index]
    match requirement.operator:
        case "in" | "=" | "==":
            return _is_one_of(requirement.values, column, codes)
        case "notin" | "!=":
            return ~_is_one_of(requirement.values, column, codes)
        case "exists":
            return codes >= 0
        case "!":
            return codes < 0
        case _:
            accepted = column.holds(lambda value: requirement.matches({requirement.key: value}), absent=False)
            return accepted.take(codes)


def _is_one_of(values: tuple[str, ...], column: LabelColumn, codes: Codes) -> Bools:
    wanted = [code for value in values if (code := column.values.find(value)) >= 0]
    if len(wanted) == 1:
        return np.equal(codes, wanted[0])
    # Code -1, of nodes without the label, looks up the last entry.
    accepted = np.zeros(len(column.values) + 1, dtype=np.bool_)
    accepted[wanted] = True
    return accepted.take(codes)


def _name_holds(requirement: FieldRequirement, nodes: NodeSet) -> Bools:
    """Any field but the name counts as empty."""
    if requirement.field != NAME_FIELD:
        return np.full(len(nodes), (requirement.value == "") == requirement.equal)
    named = np.equal(nodes.rows(), nodes.table.row_of(requirement.value))
    return named if requirement.equal else ~named
