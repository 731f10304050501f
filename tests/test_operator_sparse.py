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


def sparse(count: int, low: int, high: int) -> pa.Table:
    """Return rows of a key each, with integer times from `low` to below `high`."""
    random = np.random.default_rng(4)
    return pa.table({"k": np.arange(count), "t": random.integers(low, high, count)})


COUNTS = wk.query(by="k", time="t", windows=wk.tumbling(1000), aggs=wk.count().alias("c"))


def test_the_last_window_before_the_limit_of_times_ends() -> None:
    """Times end some windows before int64 does, and watermarks do not."""
    greatest = 2**63 - 1 - 4 * 1000
    edge = greatest // 1000 * 1000
    op = COUNTS.operator(order="out-of-order", schema=sparse(1, 0, 1).schema)
    op.push(sparse(20_000, edge - 1000, edge))
    op.push(sparse(500, edge, greatest + 1))
    assert op.stats().rows_kept == 500
    assert len(op.advance(edge + 999)) == 20_000
    assert len(op.advance(edge + 1000)) == 500
    assert len(op.close()) == 0


@pytest.mark.parametrize(("most", "fits"), [(20_499, False), (20_500, True)])
def test_a_call_counts_the_windows_of_slices_and_of_rows_that_wait(most: int, fits: bool) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(1000), aggs=wk.count(), max_windows=most)
    op = query.operator(order="out-of-order", schema=sparse(1, 0, 1).schema)
    op.push(sparse(20_000, 0, 1000))
    op.push(sparse(500, 1000, 2000))
    assert op.stats().rows_kept == 500
    if fits:
        assert len(op.advance(2000)) == 20_500
    else:
        with pytest.raises(wk.InvalidValue, match="this call makes at least 20500 windows"):
            op.advance(2000)
        assert len(op.advance(1000)) == 20_000
        assert len(op.close()) == 500


@pytest.mark.parametrize("nested", [False, True])
def test_dictionaries_that_do_not_fit_together(nested: bool) -> None:
    """Each batch has a dictionary of its own, and together they have more values than 8 bits can number."""

    def coded(number: int, count: int, low: int, high: int) -> pa.Table:
        codes = pa.array(np.arange(count) % 100, pa.int8())
        names: pa.Array = pa.DictionaryArray.from_arrays(codes, [f"{number}-{code}" for code in range(100)])
        if nested:
            names = pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), names)
        return sparse(count, low, high).append_column("s", names)

    query = wk.query(by="k", time="t", windows=wk.tumbling(1000), aggs=wk.collect_list("s").alias("s"))
    first = coded(0, 20_000, 0, 1000)
    op = query.operator(order="out-of-order", schema=first.schema)
    op.push(first)
    for number in range(1, 10):
        op.push(coded(number, 300, 1000, 2000))
    assert op.stats().rows_kept == (0 if nested else 2_700)
    op = wk.Operator.restore(op.snapshot(), query)
    assert len(op.advance(1000)) == 20_000
    found = dict(zip(*op.close().select(["k", "s"]).to_pydict().values(), strict=True))
    for key in range(300):
        wanted = [f"{number}-{key % 100}" for number in range(1, 10)]
        assert sorted(value[0] if nested else value for value in found[key]) == wanted


def test_memory_of_times_is_counted_where_no_column_holds_them() -> None:
    """Times of 32 bits are held once more, as integers of 64."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int32()})
    op = COUNTS.operator(order="out-of-order", schema=schema)
    op.push(sparse(20_000, 0, 1000).cast(schema))
    op.advance(1000)
    before = op.stats().bytes
    op.push(sparse(5_000, 1000, 2000).cast(schema))
    assert op.stats().rows_kept == 5_000
    assert op.stats().bytes - before >= 5_000 * (8 + 4 + 8)
