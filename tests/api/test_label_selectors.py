from __future__ import annotations

import pytest

from kubesched.api.errors import SelectorError
from kubesched.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelSelector,
    LabelSelectorRequirement,
    compile_label_selector,
    match_labels,
    parse_label_selector,
)

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def selector(labels: dict[str, str] | None = None, *expressions: tuple[str, str, list[str]]) -> LabelSelector:
    return LabelSelector(
        labels or {}, tuple(LabelSelectorRequirement(key, op, tuple(values)) for key, op, values in expressions)
    )


MATCHING = [
    pytest.param(None, {"a": "1"}, False, id="absent matches nothing"),
    pytest.param(None, {}, False, id="absent does not match the unlabelled either"),
    pytest.param(selector(), {}, True, id="empty matches everything"),
    pytest.param(selector({"a": "1"}), {"a": "1", "b": "2"}, True, id="label equal"),
    pytest.param(selector({"a": "1"}), {"a": "2"}, False, id="label differs"),
    pytest.param(selector({"a": "1"}), {}, False, id="label missing"),
    pytest.param(selector({"a": ""}), {}, False, id="empty value is not absence"),
    pytest.param(selector({"a": ""}), {"a": ""}, True, id="empty value"),
    pytest.param(selector({"a": "1", "b": "2"}), {"a": "1", "b": "3"}, False, id="all labels must match"),
    pytest.param(selector(None, ("a", "In", ["1", "2"])), {"a": "2"}, True, id="In"),
    pytest.param(selector(None, ("a", "In", ["1", "2"])), {"a": "3"}, False, id="In, another value"),
    pytest.param(selector(None, ("a", "In", ["1", "2"])), {}, False, id="In, missing"),
    pytest.param(selector(None, ("a", "NotIn", ["1"])), {"a": "2"}, True, id="NotIn"),
    pytest.param(selector(None, ("a", "NotIn", ["1"])), {"a": "1"}, False, id="NotIn, that value"),
    pytest.param(selector(None, ("a", "NotIn", ["1"])), {}, True, id="NotIn matches without the label"),
    pytest.param(selector(None, ("a", "Exists", [])), {"a": ""}, True, id="Exists"),
    pytest.param(selector(None, ("a", "Exists", [])), {"b": ""}, False, id="Exists, missing"),
    pytest.param(selector(None, ("a", "DoesNotExist", [])), {"b": ""}, True, id="DoesNotExist"),
    pytest.param(selector(None, ("a", "DoesNotExist", [])), {"a": ""}, False, id="DoesNotExist, there"),
    pytest.param(selector({"a": "1"}, ("a", "NotIn", ["1"])), {"a": "1"}, False, id="contradiction"),
]


@pytest.mark.parametrize(("compiled", "labels", "matches"), MATCHING)
def test_compiled_selectors(compiled: LabelSelector | None, labels: dict[str, str], matches: bool):
    assert compile_label_selector(compiled).matches(labels) is matches


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        pytest.param(
            selector(None, ("a", "Gt", ["1"])),
            '"Gt" is not a valid label selector operator',
            id="operator of nodes only",
        ),
        pytest.param(
            selector(None, ("a", "In", [])),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
            id="In without values",
        ),
        pytest.param(
            selector(None, ("a", "Exists", ["1"])),
            'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
            id="Exists with values",
        ),
        pytest.param(selector({"a b": "1"}), f'key: Invalid value: "a b": {NAME_RULE}', id="bad key"),
        pytest.param(selector({"a": "x y"}), f'values[0][a]: Invalid value: "x y": {VALUE_RULE}', id="bad value"),
        pytest.param(
            selector(None, ("", "In", [])),
            f'[key: Invalid value: "": name part must be non-empty; {NAME_RULE}, '
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty]",
            id="two mistakes",
        ),
    ],
)
def test_bad_selectors_are_refused_in_the_words_of_the_api(bad: LabelSelector, message: str):
    with pytest.raises(SelectorError) as failure:
        compile_label_selector(bad)
    assert str(failure.value) == message


def test_equal_selectors_are_equal_matchers_however_they_are_written():
    one = compile_label_selector(selector({"b": "2", "a": "1"}, ("c", "In", ["y", "x", "y"])))
    other = compile_label_selector(selector({"a": "1", "b": "2"}, ("c", "In", ["x", "y"])))
    assert one == other
    assert hash(one) == hash(other)
    assert str(one) == "a=1,b=2,c in (x,y)"


def test_matchers_know_the_two_extremes():
    assert compile_label_selector(None) is NOTHING
    assert NOTHING.is_nothing
    assert not NOTHING.is_everything
    assert compile_label_selector(selector()) is EVERYTHING
    assert EVERYTHING.is_everything
    assert not EVERYTHING.is_nothing
    assert match_labels({}) is EVERYTHING


def test_and_matches_what_both_match():
    both = match_labels({"a": "1"}) & parse_label_selector("b!=2")
    assert both.matches({"a": "1", "b": "3"})
    assert not both.matches({"a": "1", "b": "2"})
    assert not both.matches({"b": "3"})
    assert (both & NOTHING).is_nothing
    assert (both & EVERYTHING) == both


@pytest.mark.parametrize(
    ("text", "canonical", "matching", "other"),
    [
        pytest.param("", "", [{}, {"a": "1"}], [], id="empty"),
        pytest.param("a=1", "a=1", [{"a": "1"}], [{"a": "2"}, {}], id="equal"),
        pytest.param("a==1", "a==1", [{"a": "1"}], [{"a": "2"}, {}], id="double equal"),
        pytest.param("a!=1", "a!=1", [{"a": "2"}, {}], [{"a": "1"}], id="not equal"),
        pytest.param("a=", "a=", [{"a": ""}], [{}, {"a": "1"}], id="equal to nothing"),
        pytest.param("a in (1, 2)", "a in (1,2)", [{"a": "1"}, {"a": "2"}], [{"a": "3"}, {}], id="in"),
        pytest.param("a notin(1,2)", "a notin (1,2)", [{"a": "3"}, {}], [{"a": "1"}], id="notin"),
        pytest.param("a in ()", "a in ()", [{"a": ""}], [{"a": "1"}, {}], id="in nothing"),
        pytest.param("a in (1,,2,)", "a in (,1,2)", [{"a": ""}, {"a": "1"}], [{"a": "3"}], id="empty places"),
        pytest.param("a in (,1)", "a in (,1)", [{"a": ""}, {"a": "1"}], [{"a": "2"}], id="empty first place"),
        pytest.param("a", "a", [{"a": ""}], [{}], id="exists"),
        pytest.param("!a", "!a", [{}], [{"a": "1"}], id="does not exist"),
        pytest.param("! a , b", "!a,b", [{"b": ""}], [{"a": "1", "b": ""}], id="spaces"),
        pytest.param("a>5", "a>5", [{"a": "6"}], [{"a": "5"}, {"a": "x"}, {}], id="greater"),
        pytest.param("a<5", "a<5", [{"a": "-6"}], [{"a": "5"}, {"a": " 4"}, {}], id="less"),
        pytest.param("b=1,a=2", "a=2,b=1", [{"a": "2", "b": "1"}], [{"a": "2"}], id="several, sorted by key"),
        pytest.param("in in (in,notin)", "in in (in,notin)", [{"in": "notin"}], [{"in": "x"}], id="words as values"),
        pytest.param("x.io/a=1", "x.io/a=1", [{"x.io/a": "1"}], [{"a": "1"}], id="prefix"),
    ],
)
def test_query_strings(text: str, canonical: str, matching: list[dict[str, str]], other: list[dict[str, str]]):
    matcher = parse_label_selector(text)
    assert str(matcher) == canonical
    assert [labels for labels in [*matching, *other] if matcher.matches(labels)] == matching


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # recorded
        pytest.param(
            "a b",
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt",
            id="no operator",
        ),
        pytest.param("=x", "found '=', expected: !, identifier, or 'end of string'", id="no key"),
        # from the parser's rules
        pytest.param("a,", "found '', expected: identifier after ','", id="comma at the end"),
        pytest.param("a,=", "found '=', expected: identifier after ','", id="comma before an operator"),
        pytest.param("a=1 b", "found 'b', expected: ',' or 'end of string'", id="two words"),
        pytest.param("!a=1", "found '=', expected: ',' or 'end of string'", id="negated with a value"),
        pytest.param("!", "unable to parse requirement: found '', expected: identifier", id="negated nothing"),
        pytest.param("a in 1", "unable to parse requirement: found '1' expected: '('", id="no parenthesis"),
        pytest.param(
            "a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier", id="left open"
        ),
        pytest.param("a in (1", "unable to parse requirement: found '', expected: ',' or ')'", id="left open later"),
        pytest.param(
            "a in (1,", "unable to parse requirement: found '', expected: ',', or identifier", id="after comma"
        ),
        pytest.param("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier", id="sign"),
        pytest.param("a=(", "unable to parse requirement: found '(', expected: identifier", id="sign as value"),
        pytest.param(
            "a>x",
            "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be "
            "an integer",
            id="greater than a word",
        ),
        pytest.param(
            "a/b/c",
            'unable to parse requirement: <nil>: Invalid value: "a/b/c": a valid label key must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
            "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
            "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. "
            "'example.com/MyName')",
            id="two slashes",
        ),
        pytest.param(
            "-a", f'unable to parse requirement: <nil>: Invalid value: "-a": {NAME_RULE}', id="key begins with a dash"
        ),
        pytest.param(
            f"{'a' * 64}",
            f'unable to parse requirement: <nil>: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes',
            id="long key",
        ),
        pytest.param(
            "/a",
            'unable to parse requirement: <nil>: Invalid value: "/a": prefix part must be non-empty',
            id="empty prefix",
        ),
        pytest.param(
            f"a={'v' * 64}",
            f'unable to parse requirement: values[0][a]: Invalid value: "{"v" * 64}": must be no more than 63 bytes',
            id="long value",
        ),
    ],
)
def test_bad_query_strings_say_what_the_api_server_says(text: str, message: str):
    with pytest.raises(SelectorError) as failure:
        parse_label_selector(text)
    assert str(failure.value) == message
