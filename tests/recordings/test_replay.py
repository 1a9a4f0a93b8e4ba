"""Scenarios that the embedded server answers as the recorded one did."""

from __future__ import annotations

import pytest

from tests.recordings.replay import Outcome, live_scenarios, replay, replay_live
from tests.recordings.scenario import known_differences, scenarios

#: What kubectl and clients of the API did; of the scheduler's own traffic, what needs no scheduler to be answered.
OWN_SERVER = [name for name in scenarios() if name[0] == "c" or name in ("b03-schedule", "b07-gates")]
WANTED_SHARE = 0.95


def unexpected(name: str, outcomes: list[Outcome]) -> list[str]:
    reasons = known_differences().get(name, {})
    return [
        f"{name} {outcome.exchange.title}: {'; '.join(map(str, outcome.differences)) or 'is equal now'}"
        for outcome in outcomes
        if outcome.equal == (outcome.exchange.index in reasons)
    ]


@pytest.mark.parametrize("name", OWN_SERVER)
async def test_answers_as_recorded(name: str) -> None:
    found = unexpected(name, await replay(scenarios()[name]))
    assert not found, "\n".join(found)


async def test_answers_as_recorded_on_the_live_cluster() -> None:
    outcomes = await replay_live(live_scenarios(scenarios()))
    assert sorted(outcomes) == sorted(name for name in scenarios() if name[0] in "ad")
    found = [line for name, of_one in outcomes.items() for line in unexpected(name, of_one)]
    assert not found, "\n".join(found)


def test_known_differences_are_few_and_told() -> None:
    compared = sum(len(s.exchanges) for name, s in scenarios().items() if name[0] in "acd")
    known = sum(map(len, known_differences().values()))
    assert known <= (1 - WANTED_SHARE) * compared
    assert all(len(reason) > 20 for reasons in known_differences().values() for reason in reasons.values())
    for name, reasons in known_differences().items():
        for index in reasons:
            exchange = scenarios()[name].exchanges[index]
            assert exchange.stream is None, exchange.title
            kind = exchange.answer.get("kind", "") if isinstance(exchange.answer, dict) else ""
            assert not kind.endswith("List"), exchange.title
            assert not exchange.path.endswith(("/binding", "/status", "/eviction")), exchange.title
            assert "/leases" not in exchange.path and "/events" not in exchange.path, exchange.title
