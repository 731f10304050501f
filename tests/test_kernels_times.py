"""`wk.kernels.sliding_by`: windows over times, against the definition, SQL, Polars and pandas."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import pairwise
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support import kernels_oracle as oracle
from support.plain import same
from windowkit import kernels

AGGS = kernels.FUNCTIONS


def algorithms(agg: str, kind: pa.DataType, disjoint: bool) -> list[str]:
    names = ["auto", "recalculate", "two_stacks"]
    if agg not in ("count", "first", "last"):
        names.append("two_stacks_simd")
    exact = agg in ("sum", "mean") and not pa.types.is_floating(kind)
    if exact or agg in ("count", "min", "max", "argmin", "argmax"):
        names.append("subtract_on_evict")
    return [*names, "tumbling"] if disjoint else names


@st.composite
def columns(draw: st.DrawFn) -> tuple[list[int], list[int], pa.Array]:
    """Draw times that are sorted within groups, offsets of the groups, and values."""
    groups = draw(st.lists(st.lists(st.integers(-60, 60), max_size=40).map(sorted), min_size=1, max_size=3))
    times = [time for group in groups for time in group]
    offsets = [sum(map(len, groups[:at])) for at in range(len(groups) + 1)]
    value, kind = draw(
        st.sampled_from(
            [
                (st.integers(-9, 9), pa.int16()),
                (st.sampled_from([0.5, -2.25, 3.0, float("nan")]), pa.float64()),
            ]
        )
    )
    values = draw(st.lists(st.none() | value, min_size=len(times), max_size=len(times)))
    return times, offsets, pa.array(values, kind)


@given(
    columns(),
    st.integers(1, 50),
    st.sampled_from(["both", "right", "left", "neither"]),
    st.sampled_from(AGGS),
)
def test_row_ending_windows(
    drawn: tuple[list[int], list[int], pa.Array], size: int, closed: str, agg: str
) -> None:
    times, offsets, values = drawn
    windows = list(oracle.row_ending(times, size, closed, offsets))
    for least in (None, 2):
        wanted = [oracle.evaluate(agg, values.to_pylist(), rows, values.type, least) for rows in windows]
        for algorithm in algorithms(agg, values.type, False):
            got = kernels.sliding_by(
                values,
                pa.array(times, pa.int32()),
                size,
                agg=agg,
                closed=closed,
                segments=offsets,
                min_periods=least,
                algorithm=algorithm,
            )
            for mine, theirs in zip(got.to_pylist(), wanted, strict=True):
                assert same(mine, theirs, 1e-9), (algorithm, mine, theirs)


@given(
    columns(), st.integers(1, 50), st.integers(1, 50), st.none() | st.integers(-70, 70), st.sampled_from(AGGS)
)
def test_windows_at_fixed_distances(
    drawn: tuple[list[int], list[int], pa.Array], size: int, slide: int, start_time: int | None, agg: str
) -> None:
    times, offsets, values = drawn
    wanted = []
    for group, (begin, end) in enumerate(pairwise(offsets)):
        for start in range(-200, 200):
            rows = [row for row in range(begin, end) if start <= times[row] < start + size]
            if rows and (start - (start_time or 0)) % slide == 0:
                value = oracle.evaluate(agg, values.to_pylist(), rows, values.type, None)
                wanted.append((group, start, start + size, value))
    for algorithm in algorithms(agg, values.type, slide >= size):
        got = kernels.sliding_by(
            values,
            pa.array(times, pa.int64()),
            size,
            slide,
            agg=agg,
            start_time=start_time,
            segments=offsets,
            algorithm=algorithm,
        )
        assert got.schema.names == ["segment", "start", "end", "value"]
        for mine, theirs in zip(got.to_pylist(), wanted, strict=True):
            assert tuple(mine.values())[:3] == theirs[:3]
            assert same(mine["value"], theirs[3], 1e-9), (algorithm, mine, theirs)


def readings(rows: int = 5_000) -> pa.Table:
    """Rows at uneven times, some of them the same, with bursts and quiet hours."""
    chosen = random.Random(7)
    at, times = 0, []
    for _ in range(rows):
        at += chosen.choice([0, 0, 1, 1, 2, 5, 40]) if chosen.random() < 0.98 else 9_000
        times.append(at)
    values = [None if chosen.random() < 0.1 else chosen.randrange(-500, 500) / 8 for _ in times]
    return pa.table(
        {"ts": pa.array(times, pa.int64()).cast(pa.timestamp("s")), "v": pa.array(values, pa.float64())}
    )


@pytest.mark.parametrize("agg", ["sum", "min", "max", "count", "avg", "var_samp", "stddev_samp"])
def test_sql_has_the_same_ranges(agg: str) -> None:
    table_of_readings = readings()
    over = "OVER (ORDER BY ts RANGE BETWEEN INTERVAL 60 SECONDS PRECEDING AND CURRENT ROW)"
    wanted = [row[0] for row in duckdb.sql(f"SELECT {agg}(v) {over} FROM table_of_readings").fetchall()]
    name = {"avg": "mean", "var_samp": "var", "stddev_samp": "std"}.get(agg, agg)
    got = kernels.sliding_by(table_of_readings["v"], table_of_readings["ts"], "60 seconds", agg=name)
    for mine, theirs in zip(got.to_pylist(), wanted, strict=True):
        assert same(mine, None if theirs is None else type(mine)(theirs), 1e-9)


@pytest.mark.parametrize("closed", ["both", "right", "left", "neither"])
@pytest.mark.parametrize("agg", ["sum", "min", "max", "mean", "std"])
def test_polars_has_the_same_ranges(agg: str, closed: Any) -> None:
    table = readings()
    frame = pl.DataFrame(table)
    polars_closed = "none" if closed == "neither" else closed
    rolled = getattr(pl.col("v"), f"rolling_{agg}_by")("ts", "60s", closed=polars_closed, min_samples=2)
    wanted = frame.select(rolled)["v"].to_list()
    got = kernels.sliding_by(frame["v"], frame["ts"], "1 minute", agg=agg, closed=closed, min_periods=2)
    for mine, theirs in zip(got.to_pylist(), wanted, strict=True):
        assert same(mine, theirs, 1e-6), (mine, theirs)


def test_pandas_has_the_same_ranges_where_times_differ() -> None:
    # pandas gives rows at one time different windows: there it counts rows, not times.
    table = readings().to_pandas().drop_duplicates("ts")
    wanted = table.set_index("ts")["v"].rolling("60s", min_periods=1).sum()
    got = kernels.sliding_by(table["v"], table["ts"], timedelta(seconds=60), agg="sum", closed="right")
    for mine, theirs in zip(got.to_pylist(), wanted, strict=True):
        assert same(mine, None if pd.isna(theirs) else theirs, 1e-6), (mine, theirs)


@pytest.mark.parametrize(
    ("size", "slide"), [("10 minutes", "1 minute"), ("90 seconds", "40 seconds"), ("1 hour",) * 2]
)
def test_queries_have_the_same_windows(size: str, slide: str) -> None:
    table = readings()
    query = wk.query(by=[], time="ts", windows=wk.sliding(size, slide), aggs=[wk.max("v"), wk.count("v")])
    wanted = {row["window_start"]: row for row in query.run(table).to_pylist()}
    for agg, name in (("max", "max(v)"), ("count", "count(v)")):
        got = kernels.sliding_by(table["v"], table["ts"], size, slide, agg=agg).to_pylist()
        assert [(row["start"], row["end"], row["value"]) for row in got] == [
            (start, wanted[start]["window_end"], wanted[start][name]) for start in sorted(wanted)
        ]


@pytest.mark.parametrize(
    ("kind", "size", "slide"),
    [
        (pa.timestamp("ns", "America/New_York"), "3 nanoseconds", "1 nanosecond"),
        (pa.timestamp("ms"), "3 milliseconds", "1 millisecond"),
        (pa.duration("us"), timedelta(microseconds=3), timedelta(microseconds=1)),
        (pa.date32(), "3 days", "1 day"),
        (pa.uint64(), 3, 1),
        (pa.int8(), 3, 1),
    ],
    ids=str,
)
def test_times_of_any_type(kind: pa.DataType, size: wk.Length, slide: wk.Length) -> None:
    times = pa.array([5, 6, 6, 9], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    values = pa.array([1, 2, 4, 8])
    assert kernels.sliding_by(values, times, size, agg="sum").to_pylist() == [1, 7, 7, 14]
    fixed = kernels.sliding_by(values, times, size, slide, agg="sum")
    start = pa.int64() if pa.types.is_integer(kind) else kind
    assert fixed.schema.field("start").type == fixed.schema.field("end").type == start
    assert fixed["value"].to_pylist() == [1, 7, 7, 6, 8, 8, 8]
    assert fixed["start"].cast(pa.int32() if kind == pa.date32() else pa.int64()).to_pylist() == [
        3,
        4,
        5,
        6,
        7,
        8,
        9,
    ]


def test_no_rows_have_no_windows() -> None:
    empty, times = pa.array([], pa.float64()), pa.array([], pa.timestamp("s"))
    for agg in AGGS:
        assert len(kernels.sliding_by(empty, times, "1 second", agg=agg)) == 0
        assert kernels.sliding_by(empty, times, "1 second", "1 second", agg=agg).num_rows == 0


def test_panes_are_made_where_rows_are_many() -> None:
    # Eight rows and more per window: rows are reduced to panes, two per slide where it leaves a rest.
    rows = 4_000
    values = pa.array([None if at % 11 == 0 else at * 7919 % 1000 - 500 for at in range(rows)], pa.int32())
    times = pa.array([at // 3 for at in range(rows)])
    for size, slide in [(100, 30), (100, 100), (37, 40), (200, 50)]:
        for agg in AGGS:
            got = kernels.sliding_by(values, times, size, slide, agg=agg)
            plain = kernels.sliding_by(values, times, size, slide, agg=agg, algorithm="recalculate")
            for row, beside in zip(got.to_pylist(), plain.to_pylist(), strict=True):
                inside = [at for at in range(rows) if row["start"] <= at // 3 < row["end"]]
                wanted = oracle.evaluate(agg, values.to_pylist(), inside, values.type, None)
                assert same(row["value"], wanted, 1e-9)
                assert same(beside["value"], wanted, 1e-9)
