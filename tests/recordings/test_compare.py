"""The comparison notices what is different: recorded answers are changed one by one, and each change must be found."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.recordings.compare import Comparison, Correspondence, ignored_paths
from tests.recordings.replay import compare_streams
from tests.recordings.scenario import Exchange, scenarios

FAMILIES = tuple(name for name in scenarios() if name[0] in "acd")
EXCHANGES, PER_EXCHANGE = 10, 40


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        if {"_cut", "_cut_items", "_protobuf_bytes"} & value.keys():
            return
        for name, part in value.items():
            if name not in ("managedFields", "description", "fieldsV1") and not str(name).startswith("git"):
                yield from _leaves(part, (*path, name))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _leaves(part, (*path, index))
    elif not _compared_loosely(value, path):
        yield path


def _compared_loosely(value: Any, path: tuple[Any, ...]) -> bool:
    placeholder = isinstance(value, str) and value.startswith("<")
    return placeholder or path[-1] in ("resourceVersion", "buildDate", "goVersion", "compiler", "serverAddress")


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        document = document[part]
    return document


def _mutations(document: Any, chance: random.Random) -> Iterator[str]:
    """Changes one thing in the document: a field dropped, a value changed, a field added. Undone when it goes on."""
    leaves = list(_leaves(document))
    for path in chance.sample(leaves, min(len(leaves), PER_EXCHANGE)):
        parent, last = _at(document, path[:-1]), path[-1]
        kind = chance.choice(("drop", "change", "add"))
        before = copy.copy(parent)
        if kind == "drop":
            del parent[last]
        elif kind == "add" and isinstance(parent, dict):
            parent["unheardOf"] = "x"
        else:
            parent[last] = _other(parent[last])
        yield f"{kind} {path}"
        parent.clear()
        parent.extend(before) if isinstance(parent, list) else parent.update(before)


def _other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return "x"


def _recorded(exchange: Exchange) -> Any:
    return exchange.answer if isinstance(exchange.answer, dict) else None


@pytest.mark.parametrize("name", FAMILIES)
def test_changed_answers_are_found(name: str) -> None:
    chance = random.Random(name)
    missed, tried = [], 0
    exchanges = [e for e in scenarios()[name].exchanges if _recorded(e) is not None]
    for exchange in chance.sample(exchanges, min(len(exchanges), EXCHANGES)):
        known, changed = Correspondence(), copy.deepcopy(exchange.answer)
        assert Comparison(known).equal(exchange.answer, changed)
        for what in _mutations(changed, chance):
            tried += 1
            if Comparison(_copy(known)).equal(exchange.answer, changed):
                missed.append(f"{exchange.title}: {what}")
    assert len(missed) <= tried * 0.01, missed


def _copy(known: Correspondence) -> Correspondence:
    return Correspondence(dict(known.uids), dict(known.revisions), dict(known.names))


@pytest.mark.parametrize("name", [n for n in FAMILIES if any(e.stream for e in scenarios()[n].exchanges)])
def test_changed_streams_are_found(name: str) -> None:
    streams = [e for e in scenarios()[name].exchanges if e.stream and len(e.stream) > 1 and "type" in e.stream[0]]
    for exchange in streams:
        events = exchange.stream
        assert events is not None
        real = [i for i, event in enumerate(events) if event["type"] != "BOOKMARK"]
        if len(real) < 2:
            continue
        swapped, dropped = copy.deepcopy(events), copy.deepcopy(events)
        first, second = real[0], real[1]
        swapped[first], swapped[second] = swapped[second], swapped[first]
        del dropped[real[-1]]
        for changed in (swapped, dropped):
            comparison = Comparison(Correspondence())
            compare_streams(comparison, exchange, changed)
            assert comparison.differences, exchange.title


def test_relations_are_held() -> None:
    known = Correspondence()
    comparison = Comparison(known)
    one, other = ({"metadata": {"uid": uid, "resourceVersion": rv}} for uid, rv in ((_UID_A, "5"), (_UID_B, "9")))
    assert comparison.equal(one, other)
    assert comparison.equal(one, other)
    assert not comparison.equal(one, {"metadata": {"uid": _UID_A, "resourceVersion": "9"}})
    assert not comparison.equal({"metadata": {"resourceVersion": "6"}}, {"metadata": {"resourceVersion": "8"}})


_UID_A, _UID_B = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def test_ignored_paths_stay_few() -> None:
    assert len(ignored_paths()) <= 12
