"""Scenarios that the embedded server answers as the recorded one did."""

from __future__ import annotations

import pytest

from tests.recordings.replay import replay
from tests.recordings.scenario import known_differences, scenarios

GREEN = (
    "b03-schedule",
    "b07-gates",
    "c01-discovery",
    "c02-auth",
    "c02b-no-anonymous",
    "c03-create-defaults",
    "c04-list",
    "c05-watch",
    "c05b-watch-bookmark-interval",
    "c06-wire",
    "c07-binding",
    "c08-delete",
    "c09-update-status",
    "c10-patch-lists",
    "c11-eviction",
    "c12-lease",
    "c13-events",
    "c14-apply",
    "c15-expired",
    "c15b-expired-after-restart",
    "c16-misc",
)


@pytest.mark.parametrize("name", GREEN)
async def test_answers_as_recorded(name: str) -> None:
    outcomes = await replay(scenarios()[name])
    reasons = known_differences().get(name, {})
    unexpected = [
        f"{outcome.exchange.title}: {'; '.join(map(str, outcome.differences)) or 'is equal now'}"
        for outcome in outcomes
        if outcome.equal == (outcome.exchange.index in reasons)
    ]
    assert not unexpected, "\n".join(unexpected)
