"""Durations: Spark's interval grammar, exact to the nanosecond."""

from __future__ import annotations

import pickle
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import windowkit as wk
from windowkit.language.durations import duration, length
from windowkit.language.intervals import NANOSECONDS

SIGNED_64_BIT = st.integers(-(2**63) + 1, 2**63 - 1)


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10 minutes", 600 * 10**9),
        ("1 hour 30 minutes", 5_400 * 10**9),
        ("interval 5 seconds", 5 * 10**9),
        ("INTERVAL 5 SECONDS", 5 * 10**9),
        ("1.5 seconds", 1_500_000_000),
        ("0.000000001 seconds", 1),
        ("1.123456789 second", 1_123_456_789),
        (".25 seconds", 250_000_000),
        ("1. seconds", 10**9),
        ("1 week", 604_800 * 10**9),
        ("1 day", 86_400 * 10**9),
        ("3 milliseconds 4 microseconds 5 nanoseconds", 3_004_005),
        ("1 hour -30 minutes", 1_800 * 10**9),
        ("-15 seconds", -15 * 10**9),
        ("- 15 seconds", -15 * 10**9),
        ("+15 seconds", 15 * 10**9),
        ("-1.5 seconds", -1_500_000_000),
        ("1 minute 1 minute", 120 * 10**9),
        ("  10\tminutes\n", 600 * 10**9),
        ("007 nanoseconds", 7),
        ("0 seconds", 0),
        ("9223372036854775807 nanoseconds", 2**63 - 1),
    ],
)
def test_spark_interval_strings_are_read(text: str, nanoseconds: int) -> None:
    assert duration("size", text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a duration"),
        ("   ", "is not a duration"),
        ("interval", "lacks|is not a duration"),
        ("minutes", "is not a duration"),
        ("10", "is not a duration"),
        ("10minutes", "is not a duration"),
        ("interval10 minutes", "is not a duration"),
        ("ten minutes", "is not a duration"),
        ("10 minutes,", "is not a duration"),
        ("10 minutes and", "is not a duration"),
        ("1 hour-30 minutes", "is not a duration"),
        ("--1 hour", "is not a duration"),
        ("1e3 seconds", "is not a duration"),
        ("0x10 seconds", "is not a duration"),
        ("1_000 seconds", "is not a duration"),
        ("\N{ARABIC-INDIC DIGIT THREE} seconds", "is not a duration"),
        ("nan seconds", "is not a duration"),
        (". seconds", "lacks a number"),
        ("- seconds", "lacks a number"),
        ("10 min", "unknown unit 'min'"),
        ("10 minutess", "unknown unit 'minutess'"),
        ("10 fortnights", "unknown unit 'fortnights'"),
        ("10 secondly", "unknown unit 'secondly'"),
        ("1.5 rows", "unknown unit 'rows'"),
        ("1.5 minutes", "fraction of a minute"),
        ("1.5 milliseconds", "fraction of a millisecond"),
        ("1.1234567890 seconds", "more than nine digits"),
        ("1 month", "calendar unit 'month'"),
        ("2 Months 3 days", "calendar unit 'month'"),
        ("1 year", "calendar unit 'year'"),
        ("0 years 1 day", "calendar unit 'year'"),
        ("1 quarter", "calendar unit 'quarter'"),
    ],
)
def test_other_strings_are_refused_with_argument_value_and_what_is_allowed(text: str, what: str) -> None:
    with pytest.raises(wk.InvalidValue, match=what) as refusal:
        duration("size", text)
    message = str(refusal.value)
    assert message.startswith(f"size: {text!r} ")
    assert "'10 minutes'" in message
    assert "week, day, hour, minute, second, millisecond, microsecond, nanosecond" in message


@pytest.mark.parametrize(
    "text", ["9223372036854775808 nanoseconds", "16000 weeks", f"{'9' * 10_000} seconds", "-300000 days"]
)
def test_a_duration_beyond_64_bits_of_nanoseconds_is_refused(text: str) -> None:
    with pytest.raises(wk.InvalidValue, match=r"size: .* is out of range; a duration is below 2\*\*63"):
        duration("size", text)


def test_a_sum_within_range_may_have_parts_beyond_it() -> None:
    assert duration("size", "200000 days -199999 days").nanoseconds == NANOSECONDS["day"]


@given(SIGNED_64_BIT)
@example(-(2**63) + 1)
def test_the_canonical_text_reads_back_exactly(nanoseconds: int) -> None:
    read = wk.Duration(nanoseconds)
    assert duration("size", str(read)) == read
    assert duration("size", str(read)).nanoseconds == nanoseconds


@given(st.timedeltas(timedelta(days=-100_000), timedelta(days=100_000)))
def test_a_timedelta_is_read_exactly(delta: timedelta) -> None:
    assert duration("size", delta).nanoseconds == delta // timedelta(microseconds=1) * 1_000


@given(st.lists(st.tuples(st.integers(-(10**6), 10**6), st.sampled_from(sorted(NANOSECONDS))), min_size=1))
def test_a_string_is_the_sum_of_its_pairs(pairs: list[tuple[int, str]]) -> None:
    total = sum(count * NANOSECONDS[unit] for count, unit in pairs)
    text = " ".join(f"{count} {unit}s" for count, unit in pairs)
    if abs(total) < 2**63:
        assert duration("size", text).nanoseconds == total
    else:
        with pytest.raises(wk.InvalidValue, match="out of range"):
            duration("size", text)


@given(st.text(st.sampled_from("0123456789.+- intervalsecodmuhykw\t"), max_size=40))
def test_no_string_makes_anything_but_a_duration_or_a_refusal(text: str) -> None:
    try:
        read = duration("size", text)
    except wk.InvalidValue:
        return
    assert abs(read.nanoseconds) < 2**63


@pytest.mark.parametrize(
    ("delta", "text"),
    [
        (timedelta(minutes=10), "10 minutes"),
        (timedelta(minutes=90), "1 hour 30 minutes"),
        (timedelta(seconds=1), "1 second"),
        (timedelta(days=8), "8 days"),
        (timedelta(milliseconds=1, microseconds=2), "1 millisecond 2 microseconds"),
        (timedelta(0), "0 seconds"),
        (timedelta(seconds=-90), "-1 minute -30 seconds"),
    ],
)
def test_a_timedelta_is_written_largest_unit_first(delta: timedelta, text: str) -> None:
    assert str(duration("size", delta)) == text


def test_a_pandas_timedelta_keeps_its_nanoseconds() -> None:
    assert duration("size", pd.Timedelta(1_000_001, "ns")).nanoseconds == 1_000_001
    assert duration("size", pd.Timedelta("2 days 00:00:00.123456789")).nanoseconds == 172_800_123_456_789


def test_equal_lengths_are_equal_however_they_were_written() -> None:
    assert duration("size", "90 minutes") == duration("size", timedelta(hours=1.5))
    assert hash(duration("size", "90 minutes")) == hash(duration("size", "interval 1 hour 30 minutes"))
    assert duration("size", "90 minutes").text == "90 minutes"


def test_a_duration_survives_pickling() -> None:
    read = duration("size", "90 minutes")
    assert pickle.loads(pickle.dumps(read)) == read


@pytest.mark.parametrize("value", [True, 1.5, None, b"10 minutes", ["10 minutes"], 10 + 0j])
def test_what_is_no_length_is_a_type_error(value: object) -> None:
    with pytest.raises(wk.InvalidType, match=r"size: .* is a \w+; a length is a string like '10 minutes'"):
        length("size", value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2**63, -(2**63), 10**30])
def test_an_int_beyond_64_bits_is_refused(value: int) -> None:
    with pytest.raises(wk.InvalidValue, match=rf"size: {value} is out of range; a length is .* an int below"):
        length("size", value)


@pytest.mark.parametrize("unit", ["W", "D", "h", "m", "s", "ms", "us", "ns"])
def test_numpy_durations_are_exact(unit: str) -> None:
    for count in (90, -1, 0):
        value = np.timedelta64(count, unit)
        # pandas is the outside view of how long that is.
        assert length("size", value) == wk.Duration(pd.Timedelta(value).value)
    assert length("size", np.timedelta64(2, f"25{unit}")) == length("size", np.timedelta64(50, unit))
    assert length("size", np.timedelta64(2**62, "ns")) == wk.Duration(2**62)


@pytest.mark.parametrize(
    "value",
    [
        np.timedelta64(1, "Y"),
        np.timedelta64(1, "M"),
        np.timedelta64(5),
        np.timedelta64("NaT"),
        np.timedelta64(1, "ps"),
    ],
    ids=str,
)
def test_numpy_durations_without_a_length_in_nanoseconds(value: np.timedelta64) -> None:
    with pytest.raises(
        wk.InvalidValue, match=r"size: .*timedelta64.* has no fixed length in nanoseconds; allowed"
    ):
        length("size", value)


def test_numpy_durations_out_of_range() -> None:
    with pytest.raises(wk.InvalidValue, match=r"size: .* is out of range; a duration is below 2\*\*63"):
        length("size", np.timedelta64(2**60, "s"))


@pytest.mark.parametrize(
    "text",
    [
        "10min",
        "1h",
        "5m",
        "90s",
        "100ms",
        "20us",
        "3ns",
        "1D",
        "2W",
        "-5min",
        "1.5h",
        "0.25s",
        "2h30min",
        "1h 5s",
    ],
)
def test_what_pandas_reads_is_suggested_as_written_here(text: str) -> None:
    wanted = pd.Timedelta(text).value
    with pytest.raises(wk.InvalidValue, match=r"; did you mean '[^']+'\?$") as refused:
        duration("size", text)
    suggested = str(refused.value).rpartition("did you mean ")[2].strip("'?")
    assert duration("size", suggested).nanoseconds == wanted


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("10 mins", "10 minutes"),
        ("1 hr", "1 hour"),
        ("5 secs", "5 seconds"),
        ("3 minits", "3 minutes"),
        ("1w2d", "1 week 2 days"),
        ("1.5 days", "1 day 12 hours"),
    ],
)
def test_what_is_nearly_a_duration_is_suggested_right(text: str, meant: str) -> None:
    with pytest.raises(wk.InvalidValue, match=rf"; did you mean '{meant}'\?$"):
        wk.tumbling(text)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1mo", "1 month"),
        ("3 mnths", "3 months"),
        ("2q", "2 quarters"),
        ("1y", "1 year"),
        ("1 yaer", "1 year"),
    ],
)
def test_units_of_a_calendar_are_suggested_where_they_are_allowed(text: str, meant: str) -> None:
    with pytest.raises(
        wk.InvalidValue, match=rf"whole months, quarters and years; did you mean '{meant}'\?$"
    ):
        wk.tumbling(text)
    with pytest.raises(wk.InvalidValue) as refused:
        wk.session(text)
    assert "month" not in str(refused.value)


@pytest.mark.parametrize(
    "text", ["1M", "1 month", "soon", "10", "PT5M", "", "1.00000000001ns", "٣ minutes", "1h x", "9" * 10**5]
)
def test_nothing_is_suggested_for_what_may_be_anything(text: str) -> None:
    with pytest.raises(wk.InvalidValue) as refused:
        duration("size", text)
    assert "did you mean" not in str(refused.value)
