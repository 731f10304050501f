"""Streams of sparse keys, whose rows wait for the end of their window, against DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk

ROWS = 150_000
SIZE = 10_000


def table(seed: int, kind: str, disorder: int) -> pa.Table:
    """Return rows of some 50,000 keys, with a column that no query reads, up to so much behind others."""
    random = np.random.default_rng(seed)
    numbers = random.integers(0, 50_000, ROWS)
    keys: dict[str, Any] = {
        "int64": numbers,
        "text": [f"u{number}" for number in numbers],
        "two": [f"u{number // 7}" for number in numbers],
    }
    times = np.sort(random.integers(2 * SIZE, 7 * SIZE, ROWS)) - random.integers(0, disorder + 1, ROWS)
    columns = {
        "k": pa.array(keys[kind], mask=random.random(ROWS) < 0.001),
        "of": numbers % 7,
        "unread": ["any"] * ROWS,
        "t": pa.array(times).cast(pa.timestamp("us")),
        "v": pa.array(random.integers(0, 100, ROWS), mask=random.random(ROWS) < 0.1),
        "n": np.arange(ROWS),
    }
    return pa.table(columns)


def query(kind: str) -> wk.Query:
    return wk.query(
        by=["k", "of"] if kind == "two" else "k",
        time="t",
        windows=wk.tumbling("10 milliseconds"),
        aggs=[
            wk.count().alias("c"),
            wk.sum("v").alias("s"),
            wk.median("v").alias("m"),
            wk.min("n").alias("f"),
        ],
    )


def windows_of(rows: pa.Table, kind: str) -> pa.Table:
    keys = '"k", "of"' if kind == "two" else '"k"'
    bucket = f"epoch_us(t) // {SIZE}"
    return (
        duckdb.from_arrow(rows)
        .query(
            "rows",
            f"select {keys}, {bucket} * {SIZE} as start, count(*) as c, sum(v)::bigint as s, median(v) as m, "
            f"min(n) as f from rows group by {keys}, {bucket} order by f",
        )
        .to_arrow_table()
    )


def plain(results: list[pa.Table], kind: str) -> pa.Table:
    """Return results in the order of their first rows, each window once, as DuckDB has them."""
    found = pa.concat_tables(results)
    assert not any(found["update"].to_pylist())
    starts = found["window_start"].cast(pa.int64())
    keys = ["k", "of"] if kind == "two" else ["k"]
    found = found.append_column("start", starts).select([*keys, "start", "c", "s", "m", "f"]).sort_by("f")
    return found.cast(pa.schema([field.with_nullable(True) for field in found.schema]))


@pytest.mark.parametrize("kind", ["int64", "text", "two"])
@pytest.mark.parametrize("pushed", [777, 20_000, ROWS])
def test_windows_in_order(kind: str, pushed: int) -> None:
    rows = table(1, kind, 0)
    op = query(kind).operator(schema=rows.schema)
    results, most = [], 0
    for at in range(0, ROWS, pushed):
        results.append(op.push(rows.slice(at, pushed)))
        most = max(most, op.stats().rows_kept)
    assert (most > 0) == (pushed < ROWS)
    results.append(op.close())
    assert plain(results, kind).equals(windows_of(rows, kind))
    stats = op.stats()
    assert (stats.rows, stats.rows_kept, stats.windows) == (ROWS, 0, sum(map(len, results)))


@pytest.mark.parametrize("seed", range(6))
def test_calls_that_ask_for_keys_change_no_window(seed: int) -> None:
    """Late rows, snapshots, looks and punctuation of keys, at random."""
    random = np.random.default_rng(seed)
    kind = ["int64", "text", "two"][seed % 3]
    rows = table(seed, kind, SIZE)
    times = rows["t"].cast(pa.int64()).to_numpy()
    op = query(kind).operator(order="out-of-order", schema=rows.schema)
    results, taken, at, watermark, most = [], np.ones(ROWS, bool), 0, -1 << 60, 0
    while at < ROWS:
        size = int(random.choice([50, 3_000, 25_000]))
        own = slice(at, at + size)
        taken[own] = (times[own] // SIZE + 1) * SIZE > watermark
        results.append(op.push(rows.slice(at, size)))
        most, at = max(most, op.stats().rows_kept), at + size
        if random.random() < 0.8:
            watermark = max(watermark, int(times[:at].max()) - SIZE // 2)
            results.append(op.advance(watermark))
        if random.random() < 0.2:
            op = wk.Operator.restore(op.snapshot(), query(kind))
        if at > ROWS * 2 // 3:
            # From now on nothing waits.
            call = random.integers(0, 3)
            before = op.stats().rows_kept
            if call == 0:
                assert len(op.peek()) == len(op.peek())
            elif call == 1:
                assert len(op.slices()) >= before // 4
            elif kind != "two":
                results.append(op.advance(watermark, key="no such key" if kind == "text" else -1))
            else:
                results.append(op.advance(watermark, key=("no such key", 8)))
            assert op.stats().rows_kept == 0
    results.append(op.close())
    assert most > 0
    assert not taken.all()
    assert plain(results, kind).equals(windows_of(rows.filter(pa.array(taken)), kind))
    assert sorted(op.take_late()["n"].to_pylist()) == np.flatnonzero(~taken).tolist()


def test_rows_of_dense_windows_wait_no_longer() -> None:
    rows = table(2, "int64", 0)
    few = rows.set_column(0, "k", pa.array(np.arange(ROWS) % 1_000))
    later = pa.array(rows["t"].cast(pa.int64()).to_numpy() + 5 * SIZE).cast(pa.timestamp("us"))
    both = pa.concat_tables([rows, few.set_column(3, "t", later)])
    both = both.set_column(5, "n", pa.array(np.arange(2 * ROWS)))
    op = query("int64").operator(schema=both.schema)
    results, kept = [], []
    for at in range(0, 2 * ROWS, 10_000):
        results.append(op.push(both.slice(at, 10_000)))
        kept.append(op.stats().rows_kept)
    assert max(kept) > 0
    assert kept[-1] == 0
    results.append(op.close())
    assert plain(results, "int64").equals(windows_of(both, "int64"))


def test_memory_of_rows_that_wait_is_theirs() -> None:
    """Not that of columns that are not read, nor that of a table of which they are a slice."""
    rows = table(3, "int64", 0)
    op = query("int64").operator(schema=rows.schema)
    for at in range(0, ROWS, 5_000):
        op.push(rows.slice(at, 5_000))
    stats = op.stats()
    assert stats.rows_kept > 0
    # A key, a time, a value, a number, and bits of which are null.
    assert stats.bytes < 2_000_000 + 40 * stats.rows_kept
