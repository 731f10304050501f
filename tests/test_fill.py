"""Windows without rows, which `fill` puts between a key's first and last window."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support import samples
from windowkit import InvalidType, InvalidValue

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["a", "b", None]),
        st.integers(-60, 60) | st.integers(-3, 3),
        st.none() | st.integers(-9, 9),
    ),
    max_size=30,
)
WINDOWS = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(-4, 4)).map(
    lambda drawn: (max(drawn[:2]), min(drawn[:2]), drawn[2] % min(drawn[:2]))
)
AGGS = [
    wk.count().alias("n"),
    wk.sum("v").alias("sum"),
    wk.mean("v").alias("mean"),
    wk.first("s").alias("first"),
    wk.collect_list("v").alias("list"),
]
FILLS = {"n": "zero", "sum": "previous", "first": "previous", "list": "previous"}
ABSENT = {"null": None, "zero": 0}


def filled(rows: list[dict[str, Any]], slide: int, fills: dict[str, str]) -> list[dict[str, Any]]:
    """Return results with the windows that are missing, by definition."""
    of = defaultdict(dict)
    for row in rows:
        of[row["k"], row.get("window_name")][row["window_start"]] = row
    every = []
    for windows in of.values():
        size = next(row["window_end"] - row["window_start"] for row in windows.values())
        for start in range(min(windows), max(windows) + 1, slide):
            if start in windows:
                last = windows[start]
                every.append(last)
                continue
            values = {name: last[name] if how == "previous" else ABSENT[how] for name, how in fills.items()}
            every.append({**last, "window_start": start, "window_end": start + size, **values})
    return every


def in_order(rows: list[dict[str, Any]]) -> list[Any]:
    return sorted(map(repr, rows))


@given(ROWS, WINDOWS, st.sampled_from([1, 3]), st.sampled_from(["null", "previous", FILLS]))
def test_windows_without_rows_are_there(
    rows: list[Any], lengths: tuple[int, int, int], threads: int, fill: str | dict[str, str]
) -> None:
    size, slide, start_time = lengths
    keys, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    table = pa.table(
        {
            "k": pa.array(keys, pa.string()),
            "t": pa.array(times, pa.int64()),
            "v": pa.array(values, pa.int64()),
            "s": pa.array([str(value) for value in values], pa.string_view()),
        }
    )
    window = wk.sliding(size, slide, start_time=start_time)
    query = wk.query(by="k", time="t", windows=window, aggs=AGGS)
    with_gaps = wk.query(by="k", time="t", windows=window, aggs=AGGS, fill=fill)
    names = [each.name for each in AGGS]
    fills = dict.fromkeys(names, fill) if isinstance(fill, str) else dict.fromkeys(names, "null") | fill
    wanted = filled(query.run(table).to_pylist(), slide, fills)
    got = with_gaps.run(table, threads)
    assert in_order(got.to_pylist()) == in_order(wanted)
    assert got.schema == with_gaps.schema(table)
    for batch in with_gaps.batches(table):
        batch.validate(full=True)


def test_a_key_has_its_windows_in_order() -> None:
    table = pa.table({"k": ["b", "a", "b"], "t": [55, 3, 12]})
    windows = [wk.tumbling(10), wk.sliding(20, 10).alias("long")]
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count().alias("n"), fill="zero")
    found = [
        (row["k"], row["window_name"], row["window_start"], row["n"]) for row in query.run(table).to_pylist()
    ]
    assert [each for each in found if each[0] == "b" and each[1] == "long"] == [
        ("b", "long", start, n) for start, n in zip(range(0, 60, 10), [1, 1, 0, 0, 1, 1], strict=True)
    ]
    assert [each[2:] for each in found if each[:2] == ("a", "tumbling(10)")] == [(0, 1)]
    assert len(found) == 5 + 6 + 1 + 2


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_as_resample_and_upsample(library: str) -> None:
    """Hours of a day on which a clock is set, and days of its zone."""
    zone = ZoneInfo("America/New_York")
    start = datetime(2026, 3, 7, 22, 15, tzinfo=zone)
    hours = [0, 0.2, 3, 9, 10, 31, 32, 75, 76.9]
    frame = pd.DataFrame(
        {"ts": [pd.Timestamp(start) + timedelta(hours=hour) for hour in hours], "v": range(len(hours))}
    ).astype({"v": "float64"})
    for length, rule, every in (("1 hour", "1h", "1h"), ("1 day", "1D", "1d")):
        window = wk.tumbling(length, zone=zone) if length == "1 day" else wk.tumbling(length)
        for fill in ("null", "previous"):
            query = wk.query(
                by=[],
                time="ts",
                windows=window,
                aggs=wk.mean("v").alias("v"),
                fill=fill,
            )
            got = query.run(pa.Table.from_pandas(frame), result="polars").sort("window_start")
            if library == "pandas":
                means = frame.resample(rule, on="ts")["v"].mean()
                own = means if fill == "null" else means.ffill()
                starts, values = own.index.to_list(), [None if pd.isna(v) else v for v in own]
            else:
                means = (
                    pl.from_pandas(frame)
                    .group_by_dynamic("ts", every=every)
                    .agg(pl.col("v").mean())
                    .upsample("ts", every=every)
                )
                own = means if fill == "null" else means.fill_null(strategy="forward")
                starts, values = own["ts"].to_list(), own["v"].to_list()
            assert got["window_start"].to_list() == starts
            assert got["v"].to_list() == values
            assert got["window_end"].to_list()[:-1] == starts[1:]


def test_months_and_a_day_that_a_zone_skipped() -> None:
    """Samoa went from the 29th to the 31st of December 2011: without a day there is no window."""
    zone = ZoneInfo("Pacific/Apia")
    times = [datetime(2011, 12, 28, 5, tzinfo=zone), datetime(2012, 1, 2, 5, tzinfo=zone)]
    table = pa.table({"ts": pa.array(times, pa.timestamp("us", "Pacific/Apia"))})

    def starts(window: Any) -> list[str]:
        query = wk.query(by=[], time="ts", windows=window, aggs=wk.count(), fill="zero")
        return [f"{start:%m-%d}" for start in query.run(table)["window_start"].to_pylist()]

    assert starts(wk.tumbling("1 day", zone=zone)) == ["12-28", "12-29", "12-31", "01-01", "01-02"]
    assert starts(wk.tumbling("1 month", zone=zone)) == ["12-01", "01-01"]
    three = starts(wk.sliding("3 days", "1 day", zone=zone))
    assert three == ["12-26", "12-27", "12-28", "12-29", "12-31", "12-31", "01-01", "01-02"]


def test_gaps_reach_over_batches() -> None:
    """A gap longer than a batch, after a batch that ends with what is repeated."""
    categories = pd.Categorical(["low", "high", "low"], ["low", "high"], ordered=True)
    frame = pd.DataFrame({"k": ["x", "x", "x"], "t": [0, 200_000, 200_001], "c": categories, "v": [1, 2, 3]})
    query = wk.query(
        by="k",
        time="t",
        windows=wk.tumbling(1),
        aggs=[wk.last("c").alias("c"), wk.sum("v").alias("v")],
        fill={"c": "previous", "v": "zero"},
    )
    sizes = [batch.num_rows for batch in query.batches(frame)]
    assert sum(sizes) == 200_002
    assert max(sizes) <= 65_536
    result = query.run(frame)
    assert result["c"].dtype == categories.dtype
    assert result["c"].value_counts().to_dict() == {"low": 200_001, "high": 1}
    assert result["v"].sum() == 6
    assert result["window_start"].tolist() == list(range(200_002))


def test_large_values_are_repeated_batch_by_batch() -> None:
    table = pa.table({"t": [0, 999], "s": ["x" * 1_000_000, "y"]})
    query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.first("s").alias("s"), fill="previous")
    sizes = [batch.num_rows for batch in query.batches(table)]
    assert sum(sizes) == 1000
    assert max(sizes) < 100


def test_windows_that_lost_their_rows_are_filled() -> None:
    table = pa.table({"t": [1, 11, 11, 21], "v": [5, 6, 6, 7], "w": pa.array([1, 1, -1, 1], pa.int8())})
    query = wk.query(
        by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("v"), weight="w", fill="previous"
    )
    assert query.run(table)["v"].to_pylist() == [5, 5, 7]


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.uint64(), pa.float32(), pa.decimal128(5, 2), pa.duration("ms")],
    ids=str,
)
def test_zeros_of_every_type(kind: pa.DataType) -> None:
    table = pa.table(
        {"t": [0, 2], "v": pa.array([Decimal(1), Decimal(2)] if pa.types.is_decimal(kind) else [1, 2], kind)}
    )
    for agg in (wk.max("v"), wk.sum("v"), wk.mean("v")):
        query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=agg.alias("v"), fill="zero")
        found = query.run(table)
        assert found["v"].type == query.schema(table).field("v").type
        assert found["v"][1].as_py() in (0, timedelta(0))


def test_years_of_seconds_are_refused_before_they_are_made() -> None:
    table = pa.table({"ts": [datetime(1990, 1, 1), datetime(2026, 1, 1)]})
    args = {"by": [], "time": "ts", "windows": wk.tumbling("1 second"), "aggs": wk.count(), "fill": "zero"}
    with pytest.raises(InvalidValue, match="those that fill adds, makes at least 1136073601 windows"):
        wk.query(**args).run(table)
    with pytest.raises(InvalidValue, match="makes at least 1136073601 windows"):
        wk.query(**args).batches(table)
    with pytest.raises(InvalidValue, match="makes at least 3 windows"):
        wk.query(**args, max_windows=2).run(pa.table({"ts": [datetime(1990, 1, 1, 0, 0, s) for s in (0, 2)]}))
    first = wk.query(**args, max_windows=None).batches(table).read_next_batch()
    assert first.num_rows == 65_536


def test_what_is_refused() -> None:
    args = {"by": "k", "time": "t", "windows": wk.tumbling(10), "aggs": [wk.count().alias("n"), wk.max("s")]}
    table = pa.table({"k": [1], "t": [1], "s": ["x"]})
    cases: list[tuple[Any, type[Exception], str]] = [
        ("nulls", InvalidValue, "allowed are 'null', 'zero', 'previous'"),
        ({"N": "zero"}, InvalidValue, "'N' is not an aggregate of the query.*did you mean 'n'"),
        ({"n": 0}, InvalidType, "fill: 0 is an int"),
        ({1: "zero"}, InvalidValue, "1 is not an aggregate"),
        (True, InvalidType, "True is a bool"),
    ]
    for fill, error, message in cases:
        with pytest.raises(error, match=message):
            wk.query(**args, fill=fill)
    with pytest.raises(InvalidType, match=r"'zero' is given for 'max\(s\)', which is string"):
        wk.query(**args, fill="zero").run(table)
    for name, window in samples.windows().items():
        if name in ("tumbling", "sliding"):
            continue
        with pytest.raises(InvalidValue, match=r"fill: .* is among the windows"):
            wk.query(**args | {"windows": [wk.tumbling(10), window]}, fill="null")
    query = wk.query(**args, fill={"n": "zero"})
    with pytest.raises(InvalidValue, match="is given for a stream"):
        query.operator()
    plain = wk.query(**args).operator()
    with pytest.raises(InvalidValue, match="is given for a stream"):
        plain.add(query)


def test_a_query_with_fill_is_a_value() -> None:
    args = {"by": "k", "time": "t", "windows": wk.tumbling(10), "aggs": [wk.count().alias("n"), wk.sum("v")]}
    one = wk.query(**args, fill={"sum(v)": "previous", "n": "zero"})
    other = wk.query(**args, fill={"n": "zero", "sum(v)": "previous"})
    assert one == other
    assert hash(one) == hash(other)
    assert wk.Query.from_dict(one.to_dict()) == one
    assert one.to_dict()["fill"] == {"n": "zero", "sum(v)": "previous"}
    assert "fill" not in wk.query(**args).to_dict()
    assert str(wk.query(**args, fill="zero")).endswith("; fill 'zero'")
    assert "fill" in one._repr_html_()
    assert "  without rows, between a key's first and last: n zero, sum(v) previous" in one.explain()
    assert "without rows" not in wk.query(**args).explain()
