"""Text forms: parsers take linear time. Any that did not would take hours over these texts."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.rolling import frames as frames_of
from windowkit.files import comparisons
from windowkit.language import aggregates, frames, moments, windows
from windowkit.language.aggregation import parse_framed
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
    f"sum(v){SPACES}over{SPACES}({SPACES}x",
    f"sum(v){SPACES}over{SPACES}(x{SPACES})",
    f"sum(v) over (5){SPACES}as{SPACES}",
    "over " * LONG,
    f"sum(v) over (closed{SPACES}5{SPACES}before)",
    f"sum(v) over ({',' * LONG})",
]
PARSERS = (wk.tumbling, windows.parse, aggregates.parse, parse_framed, frames.parse, comparisons.parse)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: " ".join(text[:12].split()) or "spaces")
def test_refusals_take_linear_time(text: str) -> None:
    for parse in PARSERS:
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


KINDS = st.sampled_from([pa.int64(), pa.timestamp("us"), pa.timestamp("ns")])


@given(
    KINDS.flatmap(frames_of),
    st.sampled_from([wk.count(), wk.sum("v"), wk.max("a over (5) as x"), wk.quantile("over", 0.5)]),
    st.none() | st.sampled_from(["ok", "x over (5)", "`"]),
    st.none() | st.sampled_from(["recent", "over", "sum(v) over (5)", "a as b", "`x` over (1)"]),
)
def test_text_of_frames_is_read_back(
    frame: dict[str, Any], aggregate: wk.Aggregate, where: str | None, name: str | None
) -> None:
    framed = (aggregate if where is None else aggregate.where(where)).over(**frame)
    framed = framed if name is None else framed.alias(name)
    read = parse_framed(str(framed))
    assert str(read) == str(framed)
    assert read.name == framed.name
    assert (read.frame, read.aggregate.columns) == (framed.frame, framed.aggregate.columns)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sum(v)", r"has no frame; write sum\(v\) over \(10 minutes\)"),
        ("foo(v)", "is not an aggregate; "),
        ("foo(v) over (5)", "is not an aggregate; "),
        ("sum(v) over 5", "is not an aggregate over a frame; aggregates are over frames, as in"),
        ("sum(v) over ()", "over: '' is not a frame; frames are"),
        ("sum(v) over (5, 6)", "over: '5, 6' is not a frame; frames are"),
        ("sum(v) over (tail 5 before)", "is not a frame; frames are"),
        ("sum(v) over (5 minits)", "size: '5 minits' has the unknown unit 'minits'"),
        ("sum(v) over (5, closed above)", "closed: 'above' is unknown; allowed are 'both'"),
        ("sum(v) over (5, 1 minute before)", "before: it is given beside a size"),
        ("sum(v) over (5) as x (y)", "has more than a name after 'as'"),
    ],
)
def test_what_is_no_aggregate_over_a_frame(text: str, says: str) -> None:
    with pytest.raises(wk.WindowKitError, match=says):
        parse_framed(text)


@given(st.text("a,` "))
def test_texts_are_split_where_an_even_number_of_backticks_is_behind(text: str) -> None:
    at = [place for place, letter in enumerate(text) if letter == "," and text[place:].count("`") % 2 == 0]
    expected = [text[i:j] for i, j in zip([0, *(place + 1 for place in at)], [*at, len(text)], strict=True)]
    assert windows.split(text, ",") == expected


@given(st.text(max_size=60) | st.text("0123456789.,()[]'\"`<>=!+-* \tabcdefghijklmnoprstuwy", max_size=60))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for parse in PARSERS:
        with contextlib.suppress(wk.WindowKitError):
            parse(text)


@pytest.mark.parametrize("text", ["sum(v) as s, count(*) as n", "count(*) as s where v", "sum(v) as s (EUR)"])
def test_nothing_but_a_name_follows_as(text: str) -> None:
    with pytest.raises(wk.InvalidValue, match="has more than a name after 'as'"):
        read_call("agg", text, "", filters=True)
    assert read_call("agg", f"sum(v) as `{text}`", "", filters=True).name == text
