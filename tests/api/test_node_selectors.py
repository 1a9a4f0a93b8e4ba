from __future__ import annotations

import pytest

from kubesched.api.selectors import NodeSelector, NodeSelectorTerm, compile_node_selector, compile_preferred_terms
from tests.build import make_pod


def required(
    *terms: list[tuple[str, str, list[str]]], fields: list[tuple[str, str, list[str]]] | None = None
) -> NodeSelector:
    """One term for each list of requirements; `fields` belong to the last one."""
    pod = make_pod()
    for term in terms[:-1]:
        pod.node_affinity_term(*term)
    pod.node_affinity_term(*terms[-1], fields=fields or ())
    affinity = pod.obj().spec.affinity
    assert affinity is not None and affinity.node_affinity is not None
    selector = affinity.node_affinity.required_during_scheduling_ignored_during_execution
    assert selector is not None
    return selector


NODES = {
    "n1": {"zone": "a", "gpu": "no", "cpu": "8"},
    "n2": {"zone": "b", "gpu": "yes", "cpu": "x"},
    "n3": {},
}


@pytest.mark.parametrize(
    ("selector", "matching"),
    [
        # BR-25: empty terms match nothing
        pytest.param(NodeSelector(), [], id="no terms"),
        pytest.param(required([]), [], id="one empty term"),
        pytest.param(required([], [("zone", "In", ["a"])]), ["n1"], id="an empty term beside another"),
        # BR-26: a term that cannot be parsed leaves the others alone
        pytest.param(required([("cpu", "Gt", ["1.5"])], [("zone", "In", ["a"])]), ["n1"], id="parse error in one term"),
        # BR-28: labels that are missing
        pytest.param(required([("gpu", "NotIn", ["yes"])]), ["n1", "n3"], id="NotIn matches the unlabelled"),
        pytest.param(required([("gpu", "DoesNotExist", [])]), ["n3"], id="DoesNotExist"),
        pytest.param(required([("gpu", "Exists", [])]), ["n1", "n2"], id="Exists"),
        pytest.param(required([("cpu", "Gt", ["7"])]), ["n1"], id="Gt, and a label that is no number"),
        pytest.param(required([("cpu", "Gt", ["8"])]), [], id="Gt is not or equal"),
        pytest.param(required([("cpu", "Lt", ["9"])]), ["n1"], id="Lt"),
        pytest.param(required([("zone", "In", ["a"]), ("gpu", "In", ["yes"])]), [], id="requirements are ANDed"),
        pytest.param(required([("zone", "In", ["a"])], [("gpu", "In", ["yes"])]), ["n1", "n2"], id="terms are ORed"),
        pytest.param(required([], fields=[("metadata.name", "In", ["n3"])]), ["n3"], id="field"),
        pytest.param(required([], fields=[("metadata.name", "NotIn", ["n3"])]), ["n1", "n2"], id="field, negated"),
        pytest.param(
            required([("zone", "Exists", [])], fields=[("metadata.name", "In", ["n3"])]), [], id="field and label"
        ),
        pytest.param(required([], fields=[("metadata.uid", "In", ["x"])]), [], id="field that nodes do not have"),
    ],
)
def test_which_nodes_match(selector: NodeSelector, matching: list[str]):
    matcher = compile_node_selector(selector)
    assert [name for name, labels in NODES.items() if matcher.matches(name, labels)] == matching


@pytest.mark.parametrize(
    ("selector", "errors"),
    [
        pytest.param(required([("zone", "In", ["a"])]), [], id="none"),
        pytest.param(
            required([("cpu", "Gt", ["1.5"])]),
            [
                "nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: \"1.5\": for 'Gt', 'Lt' operators, "
                "the value must be an integer"
            ],
            id="no integer",
        ),
        pytest.param(
            required([], [("zone", "Near", ["a"]), ("zone", "In", [])]),
            [
                'nodeSelectorTerms[1].matchExpressions[0].operator: Unsupported value: "Near": supported values: "In", '
                '"NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
                "nodeSelectorTerms[1].matchExpressions[1].values: Invalid value: null: for 'in', 'notin' operators, "
                "values set can't be empty",
            ],
            id="two in the second term, places counted with empty terms",
        ),
        pytest.param(
            required([], fields=[("metadata.name", "Exists", [])]),
            [
                'nodeSelectorTerms[0].matchFields[0].operator: Unsupported value: "Exists": supported values: "In", '
                '"NotIn"'
            ],
            id="field operator",
        ),
        pytest.param(
            required([], fields=[("metadata.name", "In", ["a", "b"])]),
            ['nodeSelectorTerms[0].matchFields[0].values: Invalid value: ["a","b"]: must have one element'],
            id="two names",
        ),
    ],
)
def test_parse_errors_are_values(selector: NodeSelector, errors: list[str]):
    matcher = compile_node_selector(selector)
    assert list(matcher.errors) == errors


def preferred(*weighted: tuple[int, list[tuple[str, str, list[str]]]]) -> list[tuple[int, NodeSelectorTerm]]:
    pod = make_pod()
    for weight, expressions in weighted:
        pod.preferred_node_affinity(weight, *expressions)
    affinity = pod.obj().spec.affinity
    assert affinity is not None and affinity.node_affinity is not None
    terms = affinity.node_affinity.preferred_during_scheduling_ignored_during_execution
    return [(term.weight, term.preference) for term in terms]


def test_preferred_terms_add_up():
    terms = compile_preferred_terms(preferred((5, [("zone", "In", ["a"])]), (3, [("cpu", "Exists", [])]), (7, [])))
    assert not terms.errors
    assert [terms.score(name, labels) for name, labels in NODES.items()] == [8, 3, 0]


def test_preferred_terms_of_weight_zero_are_not_even_parsed():
    terms = compile_preferred_terms(preferred((0, [("cpu", "Gt", ["1.5"])]), (1, [("zone", "In", ["a"])])))
    assert not terms.errors
    assert terms.score("n1", NODES["n1"]) == 1


def test_a_parse_error_in_a_preferred_term_is_told():
    terms = compile_preferred_terms(preferred((1, [("zone", "In", ["a"])]), (2, [("cpu", "Gt", ["1.5"])])))
    assert list(terms.errors) == [
        "[1].matchExpressions[0].values[0]: Invalid value: \"1.5\": for 'Gt', 'Lt' operators, "
        "the value must be an integer"
    ]
