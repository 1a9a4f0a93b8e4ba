"""Durations as Go reads and prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.config import Duration, DurationError, format_duration, parse_duration

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds", "printed"),
    [
        ("15s", 15 * SECOND, "15s"),
        ("1m30s", 90 * SECOND, "1m30s"),
        ("90s", 90 * SECOND, "1m30s"),
        ("10m", 600 * SECOND, "10m0s"),
        ("1h", 3600 * SECOND, "1h0m0s"),
        ("1.5h", 5400 * SECOND, "1h30m0s"),
        ("100ms", SECOND // 10, "100ms"),
        ("1.5s", 3 * SECOND // 2, "1.5s"),
        ("250us", 250_000, "250µs"),
        ("250µs", 250_000, "250µs"),
        ("7ns", 7, "7ns"),
        ("0", 0, "0s"),
        ("0s", 0, "0s"),
        ("-5s", -5 * SECOND, "-5s"),
        ("+5s", 5 * SECOND, "5s"),
        (".5s", SECOND // 2, "500ms"),
        ("1.s", SECOND, "1s"),
        ("1h1ms", 3600 * SECOND + 1_000_000, "1h0m0.001s"),
    ],
)
def test_read_and_printed(text, nanoseconds, printed):
    duration = parse_duration(text)
    assert duration == Duration(nanoseconds)
    assert str(duration) == printed
    assert duration.seconds == nanoseconds / SECOND


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("abc", 'time: invalid duration "abc"'),
        ("15", 'time: missing unit in duration "15"'),
        ("15x", 'time: unknown unit "x" in duration "15x"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("15 s", 'time: unknown unit " s" in duration "15 s"'),
        (".s", 'time: invalid duration ".s"'),
        ("--5s", 'time: invalid duration "--5s"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
        ("1" * 30 + "s", f'time: invalid duration "{"1" * 30}s"'),
    ],
)
def test_refused_as_go_refuses(text, message):
    with pytest.raises(DurationError) as error:
        parse_duration(text)
    assert str(error.value) == message


@given(st.integers(-(2**62), 2**62))
def test_what_is_printed_reads_back_the_same(nanoseconds):
    assert parse_duration(format_duration(nanoseconds)).nanoseconds == nanoseconds


@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_duration_error(text):
    try:
        parse_duration(text)
    except DurationError as error:
        assert text in str(error)
