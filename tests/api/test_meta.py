from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.errors import ApiError
from kubesched.api.meta import format_micro_time, format_time, parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2026-01-15T08:00:00Z", 1768464000.0),
        ("2026-01-15T08:00:00.25Z", 1768464000.25),
        ("2026-01-15T08:00:00.250000Z", 1768464000.25),
        ("2026-01-15T08:00:00.250000000Z", 1768464000.25),
        ("2026-01-15T10:00:00+02:00", 1768464000.0),
    ],
)
def test_parse_time(text: str, seconds: float):
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "2026-01-15", "2026-01-15T08:00:00", "2026-13-01T00:00:00Z"])
def test_what_is_no_time(text: str):
    with pytest.raises(ValueError, match="is not an RFC 3339 time"):
        parse_time(text)


def test_formats():
    assert format_time(1768464000.99) == "2026-01-15T08:00:00Z"
    assert format_micro_time(1768464000.25) == "2026-01-15T08:00:00.250000Z"
    assert format_micro_time(1768464000) == "2026-01-15T08:00:00.000000Z"


@given(st.integers(0, 2**33))
def test_times_survive_the_way_there_and_back(seconds: int):
    assert parse_time(format_time(seconds)) == seconds
    assert parse_time(format_micro_time(seconds)) == seconds


@pytest.mark.parametrize(("details", "wait_s"), [(None, 0), ({}, 0), ({"retryAfterSeconds": 5}, 5)])
def test_an_answer_may_ask_to_wait(details: dict[str, int] | None, wait_s: int):
    error = ApiError(429, "TooManyRequests", "slow down", details)
    assert error.retry_after_s == wait_s
    assert str(error) == "slow down"
