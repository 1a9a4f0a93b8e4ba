"""Lines that no API server sends: a watch gets over each of them, and tells of what comes after."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client.test_reflector import INITIAL, Sink, added, bookmark, modified, pod, reflecting, streaming

DEEP = b"[" * 50_000


def line(type_: Any, obj: Any) -> bytes:
    return json.dumps({"type": type_, "object": obj}).encode() + b"\n"


def with_spec(spec: Any) -> dict[str, Any]:
    return {**pod("odd", 6), "spec": spec}


def error(**fields: Any) -> bytes:
    return line("ERROR", {"kind": "Status", "message": "m", **fields})


#: One line each, in the middle of a watch.
ODD = {
    "no JSON": b"<html>\n",
    "no event": b"[]\n",
    "half an object": b'{"type":"ADDED","object":{"kind":"Pod"\n',
    "a type that is not known": line("RENAMED", pod("odd", 6)),
    "no type": b'{"object":{}}\n',
    "null for a type": line(None, pod("odd", 6)),
    "null for an object": line("ADDED", None),
    "a list for an object": line("ADDED", []),
    "nested without end": b'{"type":"ADDED","object":' + DEEP + b"\n",
    "nested without end, in a field that nobody reads": b'{"type":"ADDED","object":{"x":' + DEEP + b"\n",
    "a field of another sort": line("ADDED", with_spec({"containers": 5})),
    "a number that does not fit": line("MODIFIED", with_spec({"priority": 2**40})),
    "gone, and unreadable": line("DELETED", with_spec({"priority": "x"})),
    "gone, and never heard of": line("DELETED", pod("unheard", 6)),
    "changed before it came": line("MODIFIED", pod("early", 6)),
    "an older version": line("MODIFIED", pod("a", 0)),
    "no version": line("MODIFIED", {**pod("odd", 6), "metadata": {"name": "odd", "namespace": "ns"}}),
    "a version that is no number": line("MODIFIED", pod("odd", "x")),
    "no metadata": line("ADDED", {"kind": "Pod"}),
    "another kind": line("ADDED", {**pod("odd", 6), "kind": "ConfigMap"}),
    "a bookmark without version": line("BOOKMARK", {"kind": "Pod", "metadata": {}}),
    "a bookmark from the past": line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "1"}}),
    "an error without code": error(),
    "an error of code 0": error(code=0),
    "an error of code 200": error(code=200),
    "an error of code 418": error(code=418),
    "an error of code 410": error(code=410, reason="Expired"),
    "an error with a code in words": error(code="teapot"),
    "an error that is null": line("ERROR", None),
    "an error that is an object": line("ERROR", pod("odd", 6)),
    "an error that is nothing": b'{"type":"ERROR"}\n',
}


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
async def test_a_watch_gets_over_any_line(odd: bytes) -> None:
    again = streaming([added("a", 1), added("z", 9), bookmark(10, end=True)], [modified("z", 11)])
    # Before the odd line a good one and after it another: where the stream can be read on, nothing is lost.
    async with reflecting(streaming(INITIAL, [added("c", 5)], odd, [added("z", 9)], then="end"), again, again) as (
        _,
        reflector,
        sink,
        _,
    ):
        seen: list[str] = []
        while not {"+z@9", "+z@11"} & set(seen):
            seen += await sink.brief()
        assert seen[:2] == ["=a,b@5", "+c@5"]
        assert int(reflector.resource_version) >= 9


async def test_things_of_another_kind_are_left_out_of_the_first_set_too() -> None:
    foreign = {"type": "ADDED", "object": {**pod("odd", 2), "kind": "ConfigMap"}}
    async with reflecting(streaming([added("a", 1), foreign, bookmark(5, end=True)])) as (_, _, sink, _):
        assert await sink.brief() == ["=a?odd@5"]


async def test_the_same_object_many_times_is_told_as_often() -> None:
    many = [added("a", 6)] * 2_000
    async with reflecting(streaming(INITIAL, many)) as (_, _, sink, _):
        await sink.next()
        count = 0
        while count < len(many):
            count += len(await sink.next())
        assert count == len(many)


async def test_an_object_without_version_does_not_make_the_watch_forget_where_it_was() -> None:
    unversioned = {"type": "MODIFIED", "object": {**pod("a", 0), "metadata": {"name": "a", "namespace": "ns"}}}
    async with reflecting(streaming(INITIAL, [unversioned], then="end"), streaming()) as (server, _, sink, _):
        await sink.next()
        await sink.next()
        await server.next_request()
        assert (await server.next_request()).query["resourceVersion"] == "5"


async def test_a_bug_in_the_receiver_does_not_end_the_watch(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    takes, failures = Sink.__call__, iter([ZeroDivisionError()])

    def fails_first(sink: Sink, changes: Any) -> None:
        for failure in failures:
            raise failure
        takes(sink, changes)

    monkeypatch.setattr(Sink, "__call__", fails_first)
    async with reflecting(streaming(INITIAL), streaming(INITIAL), streaming(INITIAL)) as (_, _, sink, _):
        assert await sink.brief() == ["=a,b@5"]
    assert "the watch met a bug, listing anew kind=pods" in caplog.text
