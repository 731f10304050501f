"""Senseless windows are refused as soon as they are made, or meet a schema: what, given, allowed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import windowkit as wk
from support import samples
from windowkit.language.moments import Moment, place
from windowkit.language.windows import Assembly


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (lambda: wk.tumbling("0 rows"), wk.InvalidValue, "size: 0 rows is not positive"),
        (lambda: wk.tumbling(rows=-1), wk.InvalidValue, "size: -1 rows is not positive"),
        (lambda: wk.tumbling(rows=2**32), wk.InvalidValue, "rows: 4294967296 is out of range"),
        (lambda: wk.rows(1.5), wk.InvalidType, "rows: 1.5 is a float"),  # type: ignore[arg-type]
        (lambda: wk.tumbling(rows="1 hour"), wk.InvalidType, "rows: '1 hour' is a duration"),  # type: ignore[arg-type]
        (lambda: wk.tumbling(), wk.InvalidType, "size: None is given, and no rows; give a size"),
        (lambda: wk.tumbling("1 hour", rows=5), wk.InvalidValue, "'1 hour' is given together with rows=5"),
        (
            lambda: wk.tumbling("5 rows", start_time="1 row"),
            wk.InvalidType,
            "start_time: 1 row is a number of rows",
        ),
        (
            lambda: wk.tumbling("5 rows", start_time="1 second"),
            wk.InvalidValue,
            "start_time: '1 second' is given where size is 5 rows",
        ),
        (
            lambda: wk.sliding("10 seconds", "5 rows", start_time="1 second"),
            wk.InvalidValue,
            "start_time: '1 second' is given where slide is 5 rows",
        ),
        (
            lambda: wk.sliding("5 rows", "6 rows"),
            wk.InvalidValue,
            "slide: 6 rows is greater than size 5 rows",
        ),
        (lambda: wk.sliding("5 rows", "1 second", partial="end"), wk.InvalidValue, "partial: 'end' is given"),
        (
            lambda: wk.sliding("5 seconds", "2 rows", order="late"),  # type: ignore[arg-type]
            wk.InvalidValue,
            "order: 'late' is unknown; allowed are 'time', 'arrival'",
        ),
        (lambda: wk.sliding(5, "2 rows", order=1), wk.InvalidType, "order: 1 is an int"),  # type: ignore[arg-type]
        (
            lambda: wk.sliding("5 seconds", "1 second", order="arrival"),
            wk.InvalidValue,
            "order: 'arrival' is given for windows of '5 seconds' every '1 second'; rows are counted as they",
        ),
        (
            lambda: wk.sliding("5 rows", "1 row", order="arrival"),
            wk.InvalidValue,
            "order: 'arrival' is given for windows of 5 rows every 1 row; ",
        ),
        (
            lambda: wk.sliding("5 rows", "1 second", order="arrival"),
            wk.InvalidValue,
            "order: 'arrival' is given for windows of 5 rows every '1 second'; ",
        ),
        (lambda: wk.tumbling("1 second", partial="end"), wk.InvalidValue, "partial: 'end' is given"),
        (lambda: wk.tumbling("1 row", partial=1), wk.InvalidType, "partial: 1 is an int"),  # type: ignore[arg-type]
        (
            lambda: wk.tumbling("1 row", partial=True),  # type: ignore[arg-type]
            wk.InvalidType,
            "partial: True is a bool; allowed are 'none', 'start', 'end', 'both'",
        ),
        (lambda: wk.session("5 rows"), wk.InvalidType, "gap: 5 rows is a number of rows"),
        (lambda: wk.punctuation(""), wk.InvalidValue, "column: '' is empty"),
        (lambda: wk.punctuation("v", at="middle"), wk.InvalidValue, "at: 'middle' is unknown"),  # type: ignore[arg-type]
        (lambda: wk.punctuation("v", at=1), wk.InvalidType, "at: 1 is an int"),  # type: ignore[arg-type]
        (lambda: wk.band(5, 5), wk.InvalidValue, "end: 5 is not after start 5"),
        (
            lambda: wk.band(5, "1 hour"),
            wk.InvalidType,
            "end: 1 hour is a duration where start 5 is an integer",
        ),
        (
            lambda: wk.band("2024-01-31", "2024-02-01Z"),
            wk.InvalidType,
            "end: 2024-02-01 00:00:00Z is a time with a zone where start .* is a time without zone",
        ),
        (lambda: wk.band("5 rows", "6 rows"), wk.InvalidType, "start: 5 rows is a number of rows"),
        (lambda: wk.band("yesterday", "today"), wk.InvalidValue, "start: 'yesterday' is not a place"),
        (lambda: wk.band("2024-02-30", "2024-03-01"), wk.InvalidValue, "start: '2024-02-30' is not a time"),
        (lambda: wk.band("2024-1-1", "2024-03-01"), wk.InvalidValue, "start: '2024-1-1' is not a place"),
        (
            lambda: wk.landmark(5, start=2**63),
            wk.InvalidValue,
            f"start: {2**63} is out of range; .* is an int64",
        ),
        (lambda: wk.band(True, 3), wk.InvalidType, "start: True is not a place"),
        (
            lambda: wk.band("200000 days", "3 days"),
            wk.InvalidValue,
            r"start: '200000 days' is out of range; a duration is below 2\*\*63 nanoseconds",
        ),
        (lambda: wk.band(1.5, 3), wk.InvalidType, "start: 1.5 is not a place"),  # type: ignore[arg-type]
        (
            lambda: wk.band("0001-01-01 00:00+01:00", "2024-01-01Z"),
            wk.InvalidValue,
            "outside the years 1 to 9999",
        ),
        (
            lambda: wk.tumbling("1.5 rows"),
            wk.InvalidValue,
            "size: '1.5 rows' is not a whole number; a number of rows must be an integer",
        ),
        (lambda: wk.landmark("1 hour"), wk.InvalidValue, "start: neither start nor period is given"),
        (lambda: wk.landmark(1, start=0, period=2), wk.InvalidValue, "start: 0 and period 2 are given"),
        (
            lambda: wk.landmark(1, start=0, start_time=0),
            wk.InvalidValue,
            "start_time: 0 is given without a period",
        ),
        (lambda: wk.landmark(2, period=3), wk.InvalidValue, "period: 3 is not a multiple of every 2"),
        (lambda: wk.landmark("2 rows", start=3), wk.InvalidValue, "start: 3 is given where every is 2 rows"),
        (lambda: wk.landmark("2 rows", period="4 rows"), wk.InvalidValue, "period: 4 rows is given where"),
        (lambda: wk.landmark("2 rows", zone="UTC"), wk.InvalidValue, "zone: UTC is given where every is"),
        (lambda: wk.landmark(2, period=4, partial="end"), wk.InvalidValue, "partial: 'end' is given; only"),
        (
            lambda: wk.landmark("2 hours", start=3),
            wk.InvalidType,
            "start: 3 is an integer where every '2 hours' is a duration",
        ),
        (
            lambda: wk.landmark("2 hours", period=4),
            wk.InvalidType,
            "period: 4 is an integer where every '2 hours' is a duration",
        ),
        (lambda: wk.landmark(2, period=4, start_time=4), wk.InvalidValue, "start_time: 4 is not less than"),
        (lambda: wk.custom(len), wk.InvalidType, "definition: <built-in function len>"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused_early(
    make: Callable[[], object], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        make()


ZONED = pa.timestamp("us", "Europe/Berlin")
NAIVE = pa.timestamp("s")


@pytest.mark.parametrize(
    ("window", "time_type", "error", "what"),
    [
        (
            wk.sliding("5 rows", "1 second"),
            pa.int64(),
            wk.InvalidType,
            "the slide of .* is a duration, but",
        ),
        (wk.sliding("5 rows", 1), NAIVE, wk.InvalidType, "the slide of .* is an integer, but column"),
        (wk.sliding("5 rows", "1 millisecond"), NAIVE, wk.InvalidValue, "is finer than column 't'"),
        (wk.band(0, 1), NAIVE, wk.InvalidType, "the start of .* is an integer, but column 't' is"),
        (
            wk.band("2024-01-01", "2024-01-02"),
            pa.int64(),
            wk.InvalidType,
            "is a time, but column 't' is int64",
        ),
        (wk.band("1 hour", "2 hours"), pa.int64(), wk.InvalidType, "is a time, but column 't' is int64"),
        (wk.band("1 hour", "2 hours"), NAIVE, wk.InvalidType, "is a duration, but column 't' is"),
        (wk.band("2024-01-01", "2024-01-02"), pa.duration("s"), wk.InvalidType, "allowed are durations"),
        (wk.band("2024-01-01", "2024-01-02"), ZONED, wk.InvalidType, "allowed are times with a zone"),
        (wk.band("2024-01-01Z", "2024-01-02Z"), NAIVE, wk.InvalidType, "allowed are times without zone"),
        (wk.band("2024-01-01Z", "2024-01-02Z"), pa.date32(), wk.InvalidType, "allowed are dates"),
        (wk.band("2024-01-01", "2024-01-02 01:00"), pa.date32(), wk.InvalidValue, "the end of .* is finer"),
        (wk.band("2024-01-01", "2024-01-01 00:00:00.5"), NAIVE, wk.InvalidValue, "the end of .* is finer"),
        (wk.band(0, 2**62), pa.int64(), wk.InvalidValue, "the end of .* is too far from 0"),
        (wk.landmark("1 hour", start="2024-01-01"), ZONED, wk.InvalidType, "allowed are times with a zone"),
        (
            wk.punctuation("v"),
            NAIVE,
            wk.InvalidType,
            "reads column 'v', which is int32; allowed are booleans",
        ),
        (wk.punctuation("w"), NAIVE, wk.UnknownColumn, "windows: no column 'w'"),
    ],
)
def test_what_does_not_fit_a_schema_is_refused(
    window: wk.Window, time_type: pa.DataType, error: type[Exception], what: str
) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    with pytest.raises(error, match=what):
        query.schema(pa.schema({"t": time_type, "v": pa.int32()}))


@pytest.mark.parametrize(
    ("form", "extents"),
    [
        ("flat", ["window_start", "window_end", "window_rows_start", "window_rows_end"]),
        ("struct", ["window", "window_rows"]),
    ],
)
def test_ranks_are_columns_of_the_result(form: Literal["flat", "struct"], extents: list[str]) -> None:
    rows = wk.tumbling(rows=2)
    query = wk.query(by="k", time="t", windows=[rows, wk.session(5)], aggs=wk.count(), window_columns=form)
    assert query.columns == ["k", "window_name", *extents, "count(1)"]
    assert query.inputs == ["k", "t"]
    data = pa.schema({"k": pa.string(), "t": pa.int64()})
    assert query.schema(data).names == query.columns
    assert query.schema(data).field(extents[-1]).nullable
    alone = wk.query(by="k", time="t", windows=rows, aggs=wk.count(), window_columns=form)
    assert not alone.schema(data).field(extents[-1]).nullable
    with pytest.raises(wk.InvalidValue, match="output column 'window_rows' occurs twice"):
        wk.query(by=[], time="t", windows=wk.tumbling(rows=2), aggs=wk.count().alias("window_rows"))


def test_inputs_are_what_windows_read_too() -> None:
    query = wk.query(by="k", time="t", windows=wk.punctuation("done"), aggs=wk.sum("v").where("done"))
    assert query.inputs == ["k", "t", "done", "v"]


@pytest.mark.parametrize(
    ("given", "nanoseconds", "zoned"),
    [
        ("1970-01-01", 0, False),
        ("1970-01-01 00:00:00.5", 500_000_000, False),
        ("1970-01-01T00:00:01Z", 10**9, True),
        ("1970-01-01 00:00+01:00", -3600 * 10**9, True),
        ("1970-01-01 00:00-0130", 5400 * 10**9, True),
        (date(1970, 1, 2), 86_400 * 10**9, False),
        (datetime(1970, 1, 1, 0, 0, 0, 1), 1_000, False),
        (datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), 0, True),
        (np.datetime64("1970-01-01T00:00:00.000000007"), 7, False),
        (np.datetime64(3, "D"), 3 * 86_400 * 10**9, False),
        (pd.Timestamp(9), 9, False),
        (pd.Timestamp(9, tz="Europe/Berlin"), 9, True),
    ],
)
def test_times_are_read_exactly(given: Any, nanoseconds: int, zoned: bool) -> None:
    assert place("start", given) == Moment(nanoseconds, zoned)
    assert place("start", str(Moment(nanoseconds, zoned))) == Moment(nanoseconds, zoned)


def test_a_query_of_every_window_pickles() -> None:
    windows = [window for window in samples.windows().values() if not window.is_user_defined]
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count())
    assert pickle.loads(pickle.dumps(query)) == query


EXPLAINED = {
    "tumbling(100 rows)": (
        "context free; a row is in one of them, by its rank; rows are stored (Li 2008, Eq. 5.4-5.6)"
    ),
    "sliding(10 rows, 2 rows)": (
        "context free; a row is in 5 of them, by its rank; rows are stored (Li 2008, Eq. 5.4-5.6)"
    ),
    "sliding(10 rows, 5 seconds)": (
        "forward context aware: a time ends it, and determines the rank that begins it; rows are stored "
        "(Traub et al. 2019, §4.4)"
    ),
    "sliding(10 seconds, 100 rows)": (
        "forward context aware: a row ends it, and determines the time that begins it; rows are stored "
        "(Li 2008, Eq. 5.16-5.18)"
    ),
    "punctuation(done)": (
        "forward context free; a marked row is an edge; rows are stored (Traub et al. 2019, §4.4)"
    ),
    "band(2024-01-01 00:00:00, 2024-01-02 00:00:00)": "context free; there is one, for rows in it",
    "landmark(1 hour, period=1 day)": (
        "context free; a row is in all that end after it, those of its landmark"
    ),
    "global_window()": "context free; all rows are in it",
}


@pytest.mark.parametrize(("text", "said"), EXPLAINED.items())
def test_explain_says_class_and_what_is_kept(text: str, said: str) -> None:
    from windowkit.language import windows

    query = wk.query(by="k", time="t", windows=windows.parse(text), aggs=wk.sum("v"))
    lines = query.explain().splitlines()
    assert lines[2] == f"  {text}: {said}"
    kept = "rows are stored" in said
    assert ("rows, of each key" in lines) == kept
    assert ("  begin and end where a window does, and nowhere else" in lines) == kept


def test_explain_says_where_slices_of_bands_and_landmarks_begin() -> None:
    windows = [wk.band("2024-01-01", "2024-01-02"), wk.landmark("1 hour", start="2024-01-01 00:30")]
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v"))
    begin = (
        "  begin every 1 hour from 2024-01-01 00:30:00 on, and at 2024-01-01 00:00:00 and 2024-01-02 00:00:00"
    )
    assert begin in query.explain().splitlines()
    everything = wk.query(by="k", time="t", windows=wk.global_window(), aggs=wk.sum("v"))
    assert "  begin with the first row" in everything.explain().splitlines()


class Unheard(wk.Window):
    """A window type that says no more than it must."""

    kind = "unheard"

    def arguments(self) -> list[str]:
        return []

    def character(self, context: str) -> str:
        return context

    @property
    def assembly(self) -> Assembly:
        return "range"


def test_a_new_window_type_is_taken_for_no_other() -> None:
    window = Unheard()
    refused = [wk.emit(wk.at(0.5)), wk.emit(wk.rows(1), "discarding")]
    for policy in refused:
        with pytest.raises(wk.InvalidValue, match=r"is given for unheard\(\)"):
            policy.check([window])
    assert (window.is_session, window.overlaps, window.is_user_defined) == (False, False, False)
    assert wk.query(by=[], time="t", windows=window, aggs=wk.count()).columns[0] == "window_start"
    with pytest.raises(wk.InvalidType, match=r"window: unheard\(\) has windows that overlap, or that end"):
        wk.partition.Partitioner(2, window=window)  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("year", [1850, 2050, 2110])
def test_places_of_windows_may_be_a_lifetime_from_1970(year: int, unit: str) -> None:
    """Also in nanoseconds: rows before, at and after them, and at the ends of the range."""
    start = np.datetime64(f"{year}-01-01", unit).astype(np.int64).item()
    day = np.timedelta64(1, "D").astype(f"timedelta64[{unit}]").astype(np.int64).item()
    far = 2**63 - 10 * day
    times = pa.array([-far, start - 1, start, start + day - 1, start + day, far], pa.timestamp(unit))
    table = pa.table({"t": times})
    begin, end = f"{year}-01-01", f"{year}-01-02"
    count = wk.count().alias("n")
    band = wk.query(by=[], time="t", windows=wk.band(begin, end), aggs=count)
    assert band.run(table)["n"].to_pylist() == [2]
    grown = wk.query(by=[], time="t", windows=wk.landmark("12 hours", start=begin), aggs=count)
    assert grown.run(table.slice(0, 5))["n"].to_pylist() == [1, 2, 3]
    far_apart = [wk.band("1850-01-01", "1850-01-02"), wk.band("2110-01-01", "2110-01-02")]
    both = wk.query(by=[], time="t", windows=[*far_apart, wk.session("1 day")], aggs=count)
    names = both.run(table.slice(1, 4))["window_name"].to_pylist()
    assert [each in str(names) for each in ("1850", "2110")] == [year == 1850, year == 2110]
    operator = both.operator(order="out-of-order")
    operator.push(table.slice(1, 4))
    assert operator.close().num_rows == len(names)
