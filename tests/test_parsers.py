"""Text forms: parsers take linear time. Any that did not would take hours over these texts."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from windowkit.files import comparisons
from windowkit.language import aggregates, moments, windows
from windowkit.language.windows.grammar import read_call

LONG = 200_000
SPACES = " " * LONG
REFUSED = [
    SPACES,
    f"- {SPACES}minutes",
    f"10{SPACES}rows{SPACES}x",
    f"1 second{SPACES}x",
    "," * LONG,
    "`" * LONG,
    "'" * LONG,
    "(" * LONG,
    "a" * LONG,
    f"2024-01-31{SPACES}x",
    f"2024-01-31T{SPACES}12",
    f"tumbling({',' * LONG}",
    f"tumbling({',' * LONG})",
    f"tumbling({SPACES},{SPACES}x",
    f"sum(v){SPACES}as{SPACES}",
    f"v in ({SPACES}x",
    f"v in ({SPACES})",
    f"v{SPACES}not{SPACES}x",
]


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: " ".join(text[:12].split()) or "spaces")
def test_refusals_take_linear_time(text: str) -> None:
    for parse in (wk.tumbling, windows.parse, aggregates.parse, comparisons.parse):
        with pytest.raises(wk.InvalidValue):
            parse(text)
    with pytest.raises(wk.InvalidValue):
        moments.place("start_time", text)


def test_what_is_accepted_takes_linear_time() -> None:
    assert wk.tumbling(f"{SPACES}10{SPACES}minutes{SPACES}1{SPACES}hour{SPACES}") == wk.tumbling("70 minutes")
    assert wk.tumbling(f"{SPACES}10{SPACES}rows{SPACES}") == wk.tumbling("10 rows")
    assert windows.parse(f"{SPACES}tumbling{SPACES}({SPACES}10{SPACES}){SPACES}") == wk.tumbling(10)
    spread = aggregates.parse(f"sum{SPACES}({SPACES}v{SPACES}){SPACES}where{SPACES}x{SPACES}as{SPACES}y")
    assert spread == wk.sum("v").where("x").alias("y")
    assert aggregates.parse(f"sum(v) as a{SPACES}b").name == f"a{SPACES}b"
    assert comparisons.parse(f"{SPACES}v{SPACES}in{SPACES}({'x,' * LONG}y{SPACES})") == (
        "v",
        "in",
        ["x"] * LONG + ["y"],
    )
    assert comparisons.parse(f"v = x{SPACES}y{SPACES}") == ("v", "=", f"x{SPACES}y")


def test_long_numbers_are_read_digit_by_digit_once() -> None:
    for text in ("1" * LONG, "1." + "0" * LONG, "0" * LONG + "1", "1" * LONG + " minutes"):
        with pytest.raises(wk.InvalidValue):
            wk.tumbling(text)
    assert wk.tumbling("0" * LONG + "1 minutes") == wk.tumbling("1 minute")
    assert wk.tumbling("0" * LONG + "1 months") == wk.tumbling("1 month")


@given(st.text("a,` "))
def test_texts_are_split_where_an_even_number_of_backticks_is_behind(text: str) -> None:
    at = [place for place, letter in enumerate(text) if letter == "," and text[place:].count("`") % 2 == 0]
    expected = [text[i:j] for i, j in zip([0, *(place + 1 for place in at)], [*at, len(text)], strict=True)]
    assert windows.split(text, ",") == expected


@given(st.text(max_size=60) | st.text("0123456789.,()[]'\"`<>=!+-* \tabcdefghijklmnoprstuwy", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in (wk.tumbling, windows.parse, aggregates.parse, comparisons.parse):
        with contextlib.suppress(wk.WindowKitError):
            parse(text)


@pytest.mark.parametrize("text", ["sum(v) as s, count(*) as n", "count(*) as s where v", "sum(v) as s (EUR)"])
def test_nothing_but_a_name_follows_as(text: str) -> None:
    with pytest.raises(wk.InvalidValue, match="has more than a name after 'as'"):
        read_call("agg", text, "", filters=True)
    assert read_call("agg", f"sum(v) as `{text}`", "", filters=True).name == text
