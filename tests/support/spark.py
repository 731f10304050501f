"""Rows of DataFrames: some to aggregate, and how answers are compared."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

import windowkit as wk
from support.plain import same

Row = tuple[Any, ...]


def rows_of(frame: DataFrame, query: wk.Query) -> dict[Row, Row]:
    """Return the rows of a result: what identifies each, and its aggregates."""
    identifying = len(query.columns) - len(query.aggs)
    # Arrow tells apart the two instants that one local time may be at the end of summer.
    columns = [plain(column) for column in frame.toArrow().columns]
    rows: dict[Row, Row] = {}
    for row in zip(*columns, strict=True):
        identity = tuple(map(hashable, row[:identifying]))
        assert identity not in rows, f"{identity} occurs twice"
        rows[identity] = row[identifying:]
    return rows


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, with times as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_struct(kind):
        fields = list(zip(*map(plain, column.flatten()), strict=True))
        valid = column.is_valid().to_pylist()
        return [field if there else None for field, there in zip(fields, valid, strict=True)]
    return list(column.to_pylist())


def hashable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return value


def assert_equal(got: dict[Row, Row], wanted: dict[Row, Row], tolerance: float, where: str) -> None:
    missing, surplus = wanted.keys() - got.keys(), got.keys() - wanted.keys()
    assert not missing, f"{where}: {len(missing)} rows are missing, like {min(missing, key=repr)}"
    assert not surplus, f"{where}: {len(surplus)} rows too many, like {min(surplus, key=repr)}"
    for identity, values in wanted.items():
        for position, (mine, theirs) in enumerate(zip(got[identity], values, strict=True)):
            if isinstance(mine, Decimal) and isinstance(theirs, Decimal):
                # Equal numbers of different scales would be equal.
                mine, theirs = mine.as_tuple(), theirs.as_tuple()
            assert same(mine, theirs, tolerance), (
                f"{where}: {identity}, {position}: {mine!r} is not {theirs!r}"
            )


def readings_table(rows: int = 400) -> pa.Table:
    at, times = 0, []
    for row in range(rows):
        # From 0 to 4 minutes, every 40th time most of a day; a fifth of the rows tie with the one before.
        at += 0 if row % 5 == 4 else (row * 7919 % 240) * 1_000_000 + row % 3
        if row % 40 == 39:
            at += 70_000_000_000
        times.append(at)
    change = 1_711_843_200_000_000  # 2024-03-31 00:00 UTC; in Berlin clocks skip an hour at 01:00 UTC.
    times = [time - 3_600_000_000 if row < rows // 2 else time + change for row, time in enumerate(times)]
    order = sorted(range(rows), key=lambda row: row * 7907 % 401)
    keys = ["a", "b", None, "c"]
    columns = {
        "device": pa.array([keys[row * row % 4] if row % 11 else "a" for row in order], pa.string()),
        "ts": pa.array(
            [None if row % 29 == 28 else times[row] for row in order], pa.timestamp("us", tz="UTC")
        ),
        "v": pa.array([None if row % 7 == 3 else (row * 37 % 101) / 8 - 3 for row in order], pa.float64()),
        "n": pa.array([None if row % 13 == 5 else row * 31 % 97 - 40 for row in order], pa.int64()),
        # Rows that tie have equal values, so that which is first is all the same.
        "at": pa.array([times[row] % 1_000_003 for row in order], pa.int32()),
        "maybe": pa.array([None if times[row] % 3 == 0 else times[row] % 1009 for row in order], pa.int32()),
    }
    return pa.table(columns).append_column("ntz", columns["ts"].cast(pa.timestamp("us")))
