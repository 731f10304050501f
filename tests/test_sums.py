"""Sums and means of numbers near the limits of their types: only the true sum of a window may overflow."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk

LIMITS = {
    pa.int64(): 2**63 - 1,
    pa.duration("us"): 2**63 - 1,
    pa.decimal128(38, 0): 10**38 - 1,
    pa.decimal128(38, 7): 10**38 - 1,
    pa.decimal128(29, 2): 10**38 - 1,
    pa.decimal128(28, 2): 10**38 - 1,
}
"""The greatest sum of a type's values, in its least units."""
SLIDE, SIZE = 5, 15
AGGS = [wk.sum("v").alias("sum"), wk.mean("v").alias("mean")]
EXACT = Context(prec=200)


def greatest(kind: pa.DataType) -> int:
    return 10**kind.precision - 1 if pa.types.is_decimal(kind) else LIMITS[kind]


def column(values: list[int | None], kind: pa.DataType) -> pa.Array:
    """Return a column of values that are given in least units."""
    if not pa.types.is_decimal(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array([None if v is None else Decimal(v).scaleb(-kind.scale, EXACT) for v in values], kind)


def units(values: pa.ChunkedArray) -> list[int | None]:
    """Return values of a result in their least units."""
    if not pa.types.is_decimal(values.type):
        return [None if v is None else int(v) for v in values.cast(pa.int64()).to_pylist()]
    return [None if v is None else int(v.scaleb(values.type.scale, EXACT)) for v in values.to_pylist()]


Rows = list[tuple[int, int | None]]


def windows(rows: Rows) -> dict[int, list[int]]:
    """Return the values of each window that has rows, by its start."""
    starts = range(-SIZE, 60, SLIDE)
    inside = {start: [v for t, v in rows if start <= t < start + SIZE] for start in starts}
    return {start: [v for v in vs if v is not None] for start, vs in inside.items() if vs}


def fits(rows: Rows, kind: pa.DataType) -> bool:
    """Whether all sums, and all means of decimals with their four more digits, fit."""
    limit, lists = LIMITS[kind], windows(rows).values()
    fitting = all(-limit - (kind == pa.int64()) <= sum(vs) <= limit for vs in lists)
    if pa.types.is_decimal(kind):
        most = 10 ** min(38, kind.precision + 4)
        fitting &= all(-most < mean(vs, kind) < most for vs in lists if vs)
    return fitting


def mean(values: list[int], kind: pa.DataType) -> int:
    """Return the mean in the least units of a mean of decimals: rounded half up, with four more digits."""
    more = min(38, kind.scale + 4) - kind.scale
    exact = EXACT.divide(Decimal(sum(values) * 10**more), Decimal(len(values)))
    return int(exact.to_integral_value(ROUND_HALF_UP, EXACT))


@st.composite
def cases(draw: st.DrawFn) -> tuple[pa.DataType, Rows, list[int]]:
    kind = draw(st.sampled_from(list(LIMITS)))
    top = greatest(kind)
    near = [top, -top, top - 1, 1 - top, top // 2, -(top // 2), top // 10**5, 1, -1, 0, None]
    rows = draw(st.lists(st.tuples(st.integers(0, 40), st.sampled_from(near)), min_size=1, max_size=12))
    if draw(st.booleans()):
        # What is added is taken away again, in another order.
        undone = [(t, None if v is None else -v) for t, v in rows]
        rows += draw(st.permutations(undone))
    return kind, rows, sorted(draw(st.lists(st.integers(0, len(rows)), max_size=3)))


def tables(kind: pa.DataType, rows: Rows, cuts: list[int]) -> list[pa.Table]:
    table = pa.table({"t": [t for t, _ in rows], "v": column([v for _, v in rows], kind)})
    ends = [0, *cuts, len(rows)]
    return [table.slice(lo, hi - lo) for lo, hi in pairwise(ends)]


def answers(result: pa.Table) -> list[tuple[Any, ...]]:
    rows = result.to_pylist()
    starts = [row["window_start"] for row in rows]
    return sorted(zip(starts, units(result["sum"]), result["mean"].to_pylist(), strict=True))


@settings(max_examples=400)
@given(cases(), st.sampled_from([1, 3]), st.booleans())
def test_a_sum_is_that_of_its_window_in_any_order_and_split(
    case: tuple[pa.DataType, Rows, list[int]], threads: int, sliced: bool
) -> None:
    kind, rows, cuts = case
    query = wk.query(by=[], time="t", windows=wk.sliding(SIZE, SLIDE), aggs=AGGS)
    parts = tables(kind, rows, cuts)

    def streamed() -> list[tuple[Any, ...]]:
        op = query.operator(order="out-of-order", progress=wk.delay(10**6), schema=parts[0].schema)
        for part in parts:
            if sliced and op.takes_slices:
                op.push_slices(query.slices(part))
            else:
                op.push(part)
            op = wk.Operator.restore(op.snapshot(), query)
        return answers(op.close())

    ways = [lambda: answers(query.run(pa.concat_tables(parts), threads=threads)), streamed]
    for way in ways:
        if not fits(rows, kind):
            with pytest.raises(wk.Overflow, match="does not fit"):
                way()
            continue
        found = way()
        assert [(start, total) for start, total, _ in found] == [
            (start, sum(vs) if vs else None) for start, vs in sorted(windows(rows).items())
        ]
        if pa.types.is_decimal(kind):
            scale = min(38, kind.scale + 4)
            assert [each and int(each.scaleb(scale, EXACT)) for _, _, each in found] == [
                mean(vs, kind) if vs else None for _, vs in sorted(windows(rows).items())
            ]


@settings(max_examples=100)
@given(cases())
def test_a_rolling_sum_is_that_of_its_frame(case: tuple[pa.DataType, Rows, list[int]]) -> None:
    kind, rows, _ = case
    rows = sorted(rows, key=lambda row: row[0])
    (table,) = tables(kind, rows, [])
    rolling = wk.rolling(by=[], time="t", aggs=wk.sum("v").over("4 rows").alias("sum"))
    frames = [[v for _, v in rows[max(0, at - 3) : at + 1] if v is not None] for at in range(len(rows))]
    limit = LIMITS[kind]
    if any(not -limit - (kind == pa.int64()) <= sum(frame) <= limit for frame in frames):
        with pytest.raises(wk.Overflow, match="does not fit"):
            rolling.run(table)
        return
    assert units(rolling.run(table)["sum"]) == [sum(frame) if frame else None for frame in frames]
