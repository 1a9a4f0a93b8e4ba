from __future__ import annotations

from typing import Any

import pytest

from kubesched.manifests import ManifestError
from kubesched.manifests.texts import documents, plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE")),
        *((text, False) for text in ("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE")),
        *((text, None) for text in ("", "~", "null", "Null", "NULL")),
        ("yEs", "yEs"),
        ("0", 0),
        ("1", 1),
        ("-3", -3),
        ("+3", 3),
        ("1_000", 1000),
        ("0644", 0o644),
        ("0o644", 0o644),
        ("0x1F", 31),
        ("-0b101", -5),
        ("08", 8),
        ("1e3", 1000),
        ("1.0", 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5),
        ("1e21", 1e21),
        ("100000000000000000000", 10**20),
        ("100m", "100m"),
        ("1Gi", "1Gi"),
        ("1.10.3", "1.10.3"),
        ("10.0.0.1", "10.0.0.1"),
        ("12:30", "12:30"),
        ("2026-01-15", "2026-01-15"),
        ("2026-01-15T08:00:00Z", "2026-01-15T08:00:00Z"),
        ("-", "-"),
        ("_1", "_1"),
        ("v1", "v1"),
    ],
)
def test_plain_scalars_are_what_kubernetes_makes_of_them(text: str, value: object):
    found = plain(text)
    assert found == value
    assert type(found) is type(value)


def read(text: str, name: str = "text") -> list[tuple[int, Any]]:
    return list(documents(text, name))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("# just a comment\n", [], id="comment"),
        pytest.param(
            "a: 1\n---\n---\n# nothing\n---\nb: 2\n", [(1, {"a": 1}), (4, {"b": 2})], id="empty documents count"
        ),
        pytest.param("a: '1'\nb: \"yes\"\nc: |\n  5\n", [(1, {"a": "1", "b": "yes", "c": "5\n"})], id="quoted is text"),
        pytest.param("a: !!str 5\n", [(1, {"a": "5"})], id="explicit tag"),
        pytest.param("1: a\nyes: b\n1.5: c\n", [(1, {"1": "a", "true": "b", "1.5": "c"})], id="keys are text"),
        pytest.param(
            "base: &b {u: 1, v: 2}\nother: {<<: *b, v: 3}\n",
            [(1, {"base": {"u": 1, "v": 2}, "other": {"u": 1, "v": 3}})],
            id="merge keys",
        ),
        pytest.param(
            "a: &a {k: 1}\ndeep: {er: {b: &b {<<: *a, k: 2}}}\nlast: {<<: *b}\n",
            [(1, {"a": {"k": 1}, "deep": {"er": {"b": {"k": 2}}}, "last": {"k": 2}})],
            id="merge keys over merged mappings",
        ),
        pytest.param(
            "a: &a {k: 1, v: 1}\nb: &b {k: 2, w: 2}\nlast: {w: 3, <<: [*a, *b]}\n",
            [(1, {"a": {"k": 1, "v": 1}, "b": {"k": 2, "w": 2}, "last": {"k": 1, "v": 1, "w": 3}})],
            id="the first of several merged mappings wins, and own keys over all",
        ),
        pytest.param('{"a": 1e3, "b": "yes"}', [(1, {"a": 1000, "b": "yes"})], id="JSON"),
        pytest.param('{"a": 1}\n{"b": 2} ', [(1, {"a": 1}), (2, {"b": 2})], id="JSON one after another"),
        pytest.param("{a: 1}\n", [(1, {"a": 1})], id="a YAML mapping that looks like JSON"),
        pytest.param("\ufeffa: 1\n", [(1, {"a": 1})], id="byte order mark"),
    ],
)
def test_documents(text: str, found: list[tuple[int, Any]]):
    assert read(text) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "a: 1\n---\nb: [\n",
            "text, document 2: line 4, column 1: broken YAML: did not find expected node content",
            id="YAML",
        ),
        pytest.param(
            "a: 1\na: 2\n", "text, document 1: line 2, column 1: broken YAML: key 'a' stands twice", id="double key"
        ),
        pytest.param(
            "x:\n  1: a\n  '1': b\n",
            "text, document 1: line 3, column 3: broken YAML: key '1' stands twice",
            id="double key, spelled differently",
        ),
        pytest.param(
            "a: {{ .Values.x }}\n",
            "text, document 1: line 1, column 5: broken YAML: a key must be a plain value",
            id="template",
        ),
        pytest.param(
            "a: !Ref x\n",
            "text, document 1: line 1, column 4: broken YAML: could not determine a constructor for the tag '!Ref'",
            id="unknown tag",
        ),
        pytest.param(
            "a: .inf\n",
            "text, document 1: line 1, column 4: broken YAML: .inf has no place in a manifest; "
            "quote it to make it a string",
            id="infinity",
        ),
        pytest.param(
            "a: 1e999\n",
            "text, document 1: line 1, column 4: broken YAML: 1e999 is out of range for a number; "
            "quote it to make it a string",
            id="number out of range",
        ),
        pytest.param(
            "~: 1\n", "text, document 1: line 1, column 1: broken YAML: a key must not be empty", id="empty key"
        ),
    ],
)
def test_broken_texts_name_the_place(text: str, message: str):
    with pytest.raises(ManifestError) as failure:
        read(text)
    assert str(failure.value) == message


def test_characters_that_yaml_forbids():
    with pytest.raises(ManifestError, match=r"^text, document 1: broken YAML: .*control characters are not allowed"):
        read("a: \x01\n")


def test_a_broken_json_file_is_not_blamed_on_yaml():
    with pytest.raises(ManifestError, match=r"^pod\.json: broken JSON: "):
        read('{"a": }', "pod.json")


def test_what_came_before_the_mistake_is_given_out():
    found = documents("a: 1\n---\nb: [\n", "text")
    assert next(found) == (1, {"a": 1})
    with pytest.raises(ManifestError):
        next(found)
