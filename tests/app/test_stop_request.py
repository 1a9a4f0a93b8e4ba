"""Asked to stop once, twice at once, and once more."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.app import run
from kubesched.clock import ManualClock

TIMES = {
    "once": ([0.0], False),
    "twice at once, as `timeout` does": ([0.0, 0.001], False),
    "again, by somebody who means it": ([0.0, 2.0], True),
}


@pytest.mark.parametrize(("times", "ends_at_once"), TIMES.values(), ids=TIMES)
def test_signals(times, ends_at_once, monkeypatch):
    ended: list[int] = []
    monkeypatch.setattr("os._exit", ended.append)
    stop, clock = asyncio.Event(), ManualClock()
    request = run._StopRequest(stop, clock)
    for at_s in times:
        clock.advance(at_s - clock.monotonic())
        request()
    assert stop.is_set()
    assert bool(ended) == ends_at_once
