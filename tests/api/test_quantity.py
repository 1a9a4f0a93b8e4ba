from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.errors import KubeschedError, QuantityError
from kubesched.api.quantity import Quantity, canonical, milli_value, nano_value, value

WRONG_FORM = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
WRONG_SUFFIX = "unable to parse quantity's suffix"
WRONG_NUMBER = "unable to parse numeric part of quantity"

MAX_INT64 = 2**63 - 1


@pytest.mark.parametrize(
    ("quantity", "units"),
    [
        # BR-04: spellings from the field, always rounded up
        pytest.param("1.2Gi", 1288490189, id="fractional binary size"),
        pytest.param("0.001Mi", 1049, id="small binary fraction"),
        pytest.param("100m", 1, id="milli-bytes are a byte"),
        pytest.param("1M", 1_000_000, id="mega"),
        pytest.param("1Mi", 1048576, id="mebi"),
        pytest.param("1k", 1000, id="kilo"),
        pytest.param("1Ki", 1024, id="kibi"),
        pytest.param("1e3", 1000, id="exponent"),
        pytest.param("1E3", 1000, id="large exponent letter"),
        pytest.param("1E", 10**18, id="exa is no exponent"),
        pytest.param("1e+3", 1000, id="signed exponent"),
        pytest.param("1e-3", 1, id="negative exponent"),
        pytest.param("+5", 5, id="plus sign"),
        pytest.param("-5", -5, id="minus sign"),
        pytest.param("-1.5", -2, id="negative values round away from zero"),
        pytest.param("1.", 1, id="nothing after the dot"),
        pytest.param(".5", 1, id="nothing before the dot"),
        pytest.param("007", 7, id="leading zeros"),
        pytest.param("0", 0, id="zero"),
        pytest.param("0Ki", 0, id="zero with suffix"),
        pytest.param(3, 3, id="JSON integer"),
        pytest.param(0.25, 1, id="JSON fraction"),
        pytest.param(1.5e3, 1500, id="JSON float"),
        pytest.param(1e22, 10**22, id="JSON float that prints with an exponent"),
        # suffixes
        *(pytest.param(f"2{s}", 2 * 10**e, id=f"2{s}") for s, e in zip("kMGTPE", range(3, 19, 3), strict=True)),
        *(pytest.param(f"2{s}i", 2 << b, id=f"2{s}i") for s, b in zip("KMGTP", range(10, 51, 10), strict=True)),
        # BR-01: decimal values never wrap, binary ones stop at the largest 64-bit value
        pytest.param("50E", 50 * 10**18, id="beyond 64 bits"),
        pytest.param("100E", 10**20, id="well beyond 64 bits"),
        pytest.param("9223372036854775807", MAX_INT64, id="largest 64-bit value"),
        pytest.param("9223372036854775808", MAX_INT64 + 1, id="one more"),
        pytest.param("8Ei", MAX_INT64, id="binary values are capped"),
        pytest.param("-8Ei", -MAX_INT64, id="negative binary values are capped"),
        pytest.param("7Ei", 7 << 60, id="below the cap"),
        pytest.param("1e2000", 10**1000, id="an absurd exponent is brought down to one that is still too much"),
    ],
)
def test_value(quantity: Quantity, units: int):
    assert value(quantity) == units


@pytest.mark.parametrize(
    ("quantity", "milli"),
    [
        # BR-04
        pytest.param("0.0001", 1, id="finer than a thousandth"),
        pytest.param("0.1", 100, id="tenth"),
        pytest.param("100m", 100, id="milli"),
        pytest.param("1.0005", 1001, id="rounded up"),
        pytest.param("1n", 1, id="nano"),
        pytest.param("1u", 1, id="micro"),
        pytest.param("-0.0001", -1, id="negative"),
        # BR-02: cores times a thousand do not fit in 64 bits
        pytest.param("9223372036854775807", MAX_INT64 * 1000, id="huge cpu"),
        pytest.param("10E", 10**22, id="huge cpu with suffix"),
        pytest.param("8Ei", MAX_INT64 * 1000, id="capped, then exact"),
    ],
)
def test_milli_value(quantity: Quantity, milli: int):
    assert milli_value(quantity) == milli


def test_what_is_finer_than_a_billionth_becomes_one():
    assert nano_value("0.0000000001") == 1
    assert nano_value("1e-300") == 1
    assert nano_value("1.0000000001") == 1_000_000_001
    assert nano_value("-1e-300") == -1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(" 5", WRONG_FORM, id="space before"),
        pytest.param("5 ", WRONG_FORM, id="space behind"),
        pytest.param("5\n", WRONG_FORM, id="newline behind"),
        pytest.param("", WRONG_FORM, id="empty"),
        pytest.param(".", WRONG_FORM, id="dot"),
        pytest.param("-.", WRONG_FORM, id="signed dot"),
        pytest.param("+", WRONG_FORM, id="sign alone"),
        pytest.param("1..2", WRONG_FORM, id="two dots"),
        pytest.param("1.1.M", WRONG_FORM, id="two dots apart"),
        pytest.param("abc", WRONG_FORM, id="word"),
        pytest.param("Ki", WRONG_FORM, id="suffix alone"),
        pytest.param("1e3Ki", WRONG_FORM, id="exponent and suffix"),
        pytest.param("1_000", WRONG_FORM, id="underscore"),
        pytest.param("１", WRONG_FORM, id="digit of another script"),
        pytest.param("inf", WRONG_FORM, id="infinity"),
        pytest.param("1K", WRONG_SUFFIX, id="large k without i"),
        pytest.param("1ki", WRONG_SUFFIX, id="small k with i"),
        pytest.param("1i", WRONG_SUFFIX, id="i alone"),
        pytest.param("1e", WRONG_SUFFIX, id="exponent letter alone"),
        pytest.param("1Ee3", WRONG_SUFFIX, id="two exponent letters"),
        pytest.param("1Ki5", WRONG_SUFFIX, id="digits behind the suffix"),
        pytest.param("-3.01e-", WRONG_SUFFIX, id="exponent without digits"),
        pytest.param("1e99999999999999999999", WRONG_SUFFIX, id="exponent beyond all numbers"),
        pytest.param("1" * 1001, WRONG_NUMBER, id="more digits than anyone needs"),
    ],
)
def test_what_is_no_quantity_says_so_in_the_words_of_the_api(text: str, message: str):
    for read in (value, milli_value, nano_value, canonical):
        with pytest.raises(QuantityError) as failure:
            read(text)
        assert str(failure.value) == message
        assert isinstance(failure.value, KubeschedError)


@pytest.mark.parametrize("number", [float("inf"), float("nan")])
def test_numbers_that_json_does_not_have_are_no_quantities(number: float):
    with pytest.raises(QuantityError):
        value(number)


_POWERS = {
    **{
        s: Fraction(10) ** e
        for s, e in zip(["n", "u", "m", "", "k", "M", "G", "T", "P", "E"], range(-9, 19, 3), strict=True)
    },
    **{s: Fraction(2) ** b for s, b in zip(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], range(10, 61, 10), strict=True)},
    **{f"e{e}": Fraction(10) ** e for e in range(-12, 25)},
}


@given(
    sign=st.sampled_from(["", "+", "-"]),
    digits=st.from_regex(r"[0-9]{1,25}(\.[0-9]{0,15})?", fullmatch=True),
    suffix=st.sampled_from(list(_POWERS)),
)
def test_values_are_those_of_exact_fractions(sign: str, digits: str, suffix: str):
    exact = Fraction(digits.rstrip(".")) * _POWERS[suffix]
    nanos = math.ceil(exact * 10**9)
    if suffix.endswith("i"):
        nanos = min(nanos, MAX_INT64 * 10**9)
    expected = Fraction(nanos, 10**9)

    factor = -1 if sign == "-" else 1
    text = f"{sign}{digits}{suffix}"
    assert nano_value(text) == factor * nanos
    assert value(text) == factor * math.ceil(expected)
    assert milli_value(text) == factor * math.ceil(expected * 1000)


@given(
    digits=st.from_regex(r"-?[0-9]{1,12}(\.[0-9]{1,4})?", fullmatch=True),
    suffix=st.sampled_from(list(_POWERS)),
)
def test_the_canonical_spelling_means_the_same_and_is_its_own(digits: str, suffix: str):
    text = canonical(f"{digits}{suffix}")
    assert nano_value(text) == nano_value(f"{digits}{suffix}")
    assert canonical(text) == text


@pytest.mark.parametrize(
    ("quantity", "spelling"),
    [
        ("0.1", "100m"),
        (0.5, "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1024Mi", "1Gi"),
        ("1536Mi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1.2Gi", "1288490188800m"),
        ("1.5G", "1500M"),
        ("1000000", "1M"),
        ("12e6", "12e6"),
        ("1E3", "1e3"),
        ("1e4", "10e3"),
        ("0Ki", "0"),
        ("-0.5", "-500m"),
        ("1000E", "1000E"),
        (4, "4"),
    ],
)
def test_canonical(quantity: Quantity, spelling: str):
    assert canonical(quantity) == spelling
