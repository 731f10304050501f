"""Calls of an operator that fail between others that do not; and batches with dictionaries of their own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from support import samples

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.table(list(zip(*given, strict=True)) or [[], [], []], schema=SCHEMA)


def test_calls_that_are_wrong_are_refused() -> None:
    op = QUERY.operator(schema=SCHEMA)
    assert op.push(rows(("a", 3, 1), ("b", 4, 2))).num_rows == 0
    with pytest.raises(wk.InvalidValue, match="batch: row 1 has time 4 in column 't', which is before 5"):
        op.push(rows(("a", 5, 1), ("a", 4, 1)))
    with pytest.raises(wk.UnknownColumn, match="batch: no column 'v', which the stream has; there are k, t"):
        op.push(pa.table({"k": ["a"], "t": [5]}))
    with pytest.raises(wk.InvalidValue, match="watermark: 1 is before the last one, 4"):
        op.advance(1)
    with pytest.raises(wk.Overflow, match="too close to the limit of int64"):
        op.push(rows(("a", 2**63 - 1, 1)))
    ready = op.push(rows(("a", 9, 5), ("b", None, 7), ("a", 10, 1)))
    assert sorted((row["k"], row["sum(v)"]) for row in ready.to_pylist()) == [("a", 6), ("b", 2)]
    assert op.take_late()["late_reason"].to_pylist() == ["null time"]
    assert op.close()["sum(v)"].to_pylist() == [1]
    with pytest.raises(wk.InvalidValue, match="closed"):
        op.push(rows(("a", 11, 1)))


def test_a_call_that_fails_changes_nothing() -> None:
    op = QUERY.operator(schema=SCHEMA)
    assert op.push(rows(("a", 1, 2**63 - 1), ("a", 2, 1))).num_rows == 0
    before = replace(op.stats(), bytes=0)
    for call in (lambda: op.push(rows(("a", 3, 5), ("a", 10, 1))), lambda: op.advance(10), op.close):
        with pytest.raises(wk.Overflow, match="does not fit"):
            call()
        assert replace(op.stats(), bytes=0) == before
        assert op.watermark.as_py() == 2
    assert op.push(rows(("a", 3, -2))).num_rows == 0
    assert op.push(rows(("a", 10, 7)))["sum(v)"].to_pylist() == [2**63 - 2]
    assert op.close()["sum(v)"].to_pylist() == [7]


def total(raises: list[int]) -> Any:
    """Return a user-defined sum that raises if it sees one of these values."""

    def lift(v: pa.Array) -> pa.Array:
        if any(value in raises for value in v.to_pylist()):
            raise RuntimeError("not this one")
        return v

    return wk.aggregate("total", lift=lift, combine=pc.add, lower=lambda state: state, commutative=True)


def test_a_function_that_raises_changes_nothing_however_long_the_stream() -> None:
    """Calls fail between others that push many rows, in and out of order, some of them late."""
    windows = [wk.tumbling(100).alias("time"), wk.sliding(wk.rows(70), wk.rows(30)).alias("rows")]
    raises: list[int] = []
    aggs = [total(raises)("v").alias("total"), wk.sum("v").alias("sum"), wk.count().alias("n")]
    query = wk.query(by="k", time="t", windows=windows, aggs=aggs)
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
    op = query.operator(order="out-of-order", allowed_lateness=10**6, progress=wk.delay(300), schema=schema)
    random, tables = np.random.default_rng(5), []
    last: dict[Any, list[Any]] = {}
    for number in range(9):
        times = np.sort(random.integers(number * 1500, (number + 1) * 1500, 1500))
        times = np.maximum(0, times - random.choice([0, 0, 0, 900], 1500))
        columns = {"k": random.integers(0, 2, 1500), "t": times, "v": random.integers(-50, 50, 1500)}
        table = pa.table(columns, schema=schema)
        bad = table.set_column(2, "v", pa.array(np.where(np.arange(1500) == 700, 13_000, columns["v"])))
        before = replace(op.stats(), bytes=0, keys=0)
        raises[:] = [13_000]
        with pytest.raises(wk.InvalidValue, match="not this one"):
            op.push(bad)
        assert replace(op.stats(), bytes=0, keys=0) == before
        raises[:] = []
        tables.append(table)
        note(last, op.push(table))
    note(last, op.close())
    expected: dict[Any, list[Any]] = {}
    note(expected, query.run(pa.concat_tables(tables)))
    assert last == expected


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_function_that_raised_is_called_again(error: type[BaseException]) -> None:
    """What it raised, even for no rows, is not what later calls raise."""
    raises: list[type[BaseException]] = []

    def lift(v: pa.Array) -> pa.Array:
        for each in raises:
            raise each
        return v

    peak = wk.aggregate("peak", lift=lift, combine=pc.max_element_wise, lower=lambda s: s, commutative=True)
    op = wk.query(by=[], time="t", windows=wk.tumbling(rows=9), aggs=wk.count()).operator(schema=SCHEMA)
    op.push(rows(("a", 1, 1)))
    windows = wk.sliding("6 rows", "1 row", partial="end")
    op.add(wk.query(by=[], time="t", windows=windows, aggs=peak("v").alias("peak")))
    op.push(rows(("a", 2, 1), ("a", 2, 4), ("a", 3, 7), ("a", 3, 5), ("a", 4, 6), ("a", 4, 2)))
    raises.append(error)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else wk.InvalidValue):
        op.close()
    raises.clear()
    assert op.close()["peak"].to_pylist() == [7, 7, 6, 6, 2]


def note(last: dict[Any, list[Any]], windows: pa.Table) -> None:
    """Keep the latest result of each window."""
    for row in windows.to_pylist():
        of_rows = row.get("window_name") == "rows"
        at = row["window_rows_start"] if of_rows else row["window_start"]
        last[row["k"], of_rows, at] = [row["total"], row["sum"], row["n"]]


def test_a_dictionary_has_as_many_values_as_all_batches() -> None:
    """Eight-bit codes have room for the 128 values of one batch, but not for those of all batches."""
    kind = pa.dictionary(pa.int8(), pa.string())
    aggs = [wk.max("d").alias("max"), wk.last("d").alias("last"), wk.count("d").where("b").alias("some")]
    windows = [wk.tumbling(1000).alias("time"), wk.sliding(wk.rows(250), wk.rows(100)).alias("rows")]
    query = wk.query(by="d", time="t", windows=windows[:1], aggs=wk.count().alias("n"))
    schema = pa.schema({"d": kind, "t": pa.int64(), "b": pa.bool_()})

    def batch(first: int, size: int) -> pa.Table:
        texts = pa.array([f"v{at:04}" for at in range(first, first + size)])
        codes = pa.DictionaryArray.from_arrays(pa.array(range(size), pa.int8()), texts)
        return pa.table(
            {"d": codes, "t": list(range(first, first + size)), "b": [True] * size}, schema=schema
        )

    by_value = query.operator(schema=schema)
    by_value.push(pa.concat_tables([batch(0, 100), batch(100, 100), batch(200, 100)]))
    by_value.push(batch(300, 100))
    assert by_value.close().num_rows == 400
    op = wk.query(by=[], time="t", windows=windows, aggs=aggs).operator(schema=schema)
    seen = op.push(pa.concat_tables([batch(0, 100), batch(100, 100), batch(200, 100)])).to_pylist()
    seen += op.push(batch(300, 100)).to_pylist() + op.close().to_pylist()
    expected = [("rows", 249, 250), ("rows", 349, 250), ("time", 399, 400)]
    got = sorted((row["window_name"], row["max"], row["last"], row["some"]) for row in seen)
    assert got == [(name, f"v{last:04}", f"v{last:04}", n) for name, last, n in expected]


def shown(result: pa.Table) -> list[str]:
    """Return rows as text, in which NaN equals NaN."""
    return list(map(repr, result.to_pylist()))


PEEKED = [*samples.windows("done", "gap").values(), wk.tumbling(wk.rows(3), partial="end")]


@pytest.mark.parametrize("window", PEEKED, ids=str)
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_a_look_at_open_windows_shows_what_close_would_return_and_changes_nothing(
    window: wk.Window, order: str
) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=[wk.sum("v"), wk.median("v"), wk.last("v")])
    op, other = (query.operator(order=order) for _ in range(2))
    for start in range(0, 60, 6):
        times = list(range(start, start + 6))
        batch = pa.table(
            {
                "k": [None if t % 4 == 0 else float("nan") if t % 4 == 1 else 0.5 for t in times],
                "t": times,
                "v": [t * 7 % 11 for t in times],
                "done": [t % 9 == 0 for t in times],
                "gap": [1 + t % 9 for t in times],
            }
        )
        assert shown(op.push(batch)) == shown(other.push(batch))
        if order == "out-of-order":
            assert shown(op.advance(start)) == shown(other.advance(start))
        before, rest = op.snapshot(), wk.Operator.restore(op.snapshot(), query).close()
        assert shown(op.peek()) == shown(rest)
        assert op.snapshot() == before
        for key in (0.5, float("nan")):
            assert shown(op.peek(key)) == [row for row in shown(rest) if f"'k': {key!r}" in row]
        assert op.peek(7.0).num_rows == 0
    assert shown(op.close()) == shown(other.close())
    with pytest.raises(wk.InvalidValue, match="peek: the operator is closed"):
        op.peek()
