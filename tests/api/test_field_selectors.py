from __future__ import annotations

import pytest

from kubesched.api.errors import SelectorError
from kubesched.api.selectors import FieldRequirement, parse_field_selector


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("spec.nodeName=", [("spec.nodeName", True, "")], id="equal to nothing"),
        pytest.param("a=1,b!=2,c==3", [("a", True, "1"), ("b", False, "2"), ("c", True, "3")], id="operators"),
        pytest.param("a=1,,", [("a", True, "1")], id="empty terms"),
        pytest.param(r"a=x\,y\=z\\", [("a", True, r"x,y=z\ ".strip())], id="escapes"),
        pytest.param(
            "status.phase!=Succeeded,status.phase!=Failed",
            [("status.phase", False, "Succeeded"), ("status.phase", False, "Failed")],
            id="the same field twice",
        ),
    ],
)
def test_parsing(text: str, requirements: list[tuple[str, bool, str]]):
    selector = parse_field_selector(text)
    assert list(selector.requirements) == [FieldRequirement(*each) for each in requirements]
    assert parse_field_selector(str(selector)) == selector


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # recorded
        pytest.param("bad", "invalid selector: 'bad'; can't understand 'bad'", id="no operator"),
        pytest.param(
            "metadata.name in (l1)",
            "invalid selector: 'metadata.name in (l1)'; can't understand 'metadata.name in (l1)'",
            id="label syntax",
        ),
        # from the parser's rules
        pytest.param("a=1,bad", "invalid selector: 'a=1,bad'; can't understand 'bad'", id="second term"),
        pytest.param("a=1=2", "invalid field selector: unescaped character in value: 61", id="second equals sign"),
        pytest.param(r"a=\x", r"invalid field selector: invalid escape sequence: \x", id="unknown escape"),
        pytest.param("a=1\\", "invalid field selector: invalid escape sequence: \\", id="escape at the end"),
    ],
)
def test_bad_ones_say_what_the_api_server_says(text: str, message: str):
    with pytest.raises(SelectorError) as failure:
        parse_field_selector(text)
    assert str(failure.value) == message


@pytest.mark.parametrize(
    ("text", "fields", "matches"),
    [
        pytest.param("", {}, True, id="empty matches everything"),
        pytest.param("a=1", {"a": "1"}, True, id="equal"),
        pytest.param("a=1", {"a": "2"}, False, id="differs"),
        pytest.param("a=", {}, True, id="absent counts as empty"),
        pytest.param("a!=", {}, False, id="not empty"),
        pytest.param("a!=1", {}, True, id="absent differs from a value"),
        pytest.param("a=1,b!=2", {"a": "1", "b": "2"}, False, id="all must hold"),
    ],
)
def test_matching(text: str, fields: dict[str, str], matches: bool):
    assert parse_field_selector(text).matches(fields) is matches
