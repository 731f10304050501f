"""Windows that need rows in order, against SQL's row frames, and where rows come in many parts."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk
from support import samples
from support.oracle import assert_equal, evaluate, rows_of


def many_rows(count: int, keys: int, span: int, seed: int = 3) -> pa.Table:
    """Rows in disorder, with ties in time, nulls and marks."""
    chance = np.random.default_rng(seed)
    return pa.table(
        {
            "k": pa.array(chance.integers(0, keys, count), mask=chance.random(count) < 0.01),
            "t": chance.integers(0, span, count),
            "v": pa.array(chance.integers(-1_000, 1_000, count), mask=chance.random(count) < 0.1),
            "m": pa.array(chance.random(count) < 0.1, mask=chance.random(count) < 0.1),
            "row": np.arange(count),
        }
    )


def sql(table: pa.Table, query: str) -> dict[tuple[object, ...], list[object]]:
    connection = duckdb.connect()
    connection.register("data", table)
    found = connection.sql(query).fetchall()
    rows = {row[:4]: list(row[4:]) for row in found}
    assert len(rows) == len(found)
    return rows


AGGS = [wk.count().alias("n"), wk.sum("v").alias("s"), wk.max("v").alias("m"), wk.first("row").alias("f")]
ORDER = 'PARTITION BY k ORDER BY t, "row"'


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("size", "slide"), [(7, 7), (50, 1), (50, 20), (1, 1), (400, 3)])
def test_windows_of_rows_equal_row_frames(size: int, slide: int, threads: int) -> None:
    # Enough rows that several threads take part.
    table = many_rows(70_000, keys=40, span=9_000)
    query = wk.query(by="k", time="t", windows=wk.sliding(wk.rows(size), wk.rows(slide)), aggs=AGGS)
    wanted = sql(
        table,
        f"""
        SELECT k, first, last, rank - {size - 1}, n, s, m, f FROM (
            SELECT k, row_number() OVER w - 1 AS rank, first_value(t) OVER f AS first, t AS last,
                   count(*) OVER f AS n, sum(v) OVER f AS s, max(v) OVER f AS m,
                   first_value("row") OVER f AS f
            FROM data
            WINDOW w AS ({ORDER}), f AS ({ORDER} ROWS BETWEEN {size - 1} PRECEDING AND CURRENT ROW)
        ) WHERE rank >= {size - 1} AND (rank - {size - 1}) % {slide} = 0
        """,
    )
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=9_000)))
    got = {
        (*at[:3], at[3][0]): values
        for at, values in rows_of(query, query.run(reader, threads=threads)).items()
    }
    assert_equal(wanted, got)


def test_the_last_time_every_row_equals_a_range_frame() -> None:
    # A frame of SQL has all rows of its last time, ours those up to the one that ends it: times without ties.
    table = many_rows(20_000, keys=20, span=10)
    times = np.random.default_rng(5).permutation(40_000)[: len(table)]
    table = table.set_column(1, "t", pa.array(times))
    query = wk.query(by="k", time="t", windows=wk.sliding(100, "1 row"), aggs=AGGS)
    wanted = sql(
        table,
        f"""
        SELECT k, t - 100, t, row_number() OVER w, count(*) OVER f, sum(v) OVER f, max(v) OVER f,
               first_value("row") OVER f
        FROM data
        WINDOW w AS ({ORDER}), f AS (PARTITION BY k ORDER BY t RANGE BETWEEN 99 PRECEDING AND CURRENT ROW)
        """,
    )
    got = {(*at[:3], at[3][1]): values for at, values in rows_of(query, query.run(table)).items()}
    assert_equal(wanted, got)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("slide", [1, 7])
def test_the_last_time_every_few_arrivals_equals_a_range_frame(slide: int, threads: int) -> None:
    # Enough rows that several threads take part, and times without ties, as above.
    table = many_rows(40_000, keys=20, span=10)
    table = table.set_column(1, "t", pa.array(np.random.default_rng(6).permutation(60_000)[: len(table)]))
    window = wk.sliding(2_000, wk.rows(slide), order="arrival")
    query = wk.query(by="k", time="t", windows=window, aggs=AGGS)
    wanted = sql(
        table,
        f"""
        SELECT k, t - 2000, t, rank, n, s, m, f FROM (
            SELECT k, t, row_number() OVER w AS rank,
                   row_number() OVER (PARTITION BY k ORDER BY "row") AS arrived,
                   count(*) OVER f AS n, sum(v) OVER f AS s, max(v) OVER f AS m,
                   first_value("row") OVER f AS f
            FROM data
            WINDOW w AS ({ORDER}),
                   f AS (PARTITION BY k ORDER BY t RANGE BETWEEN 1999 PRECEDING AND CURRENT ROW)
        ) WHERE arrived % {slide} = 0
        """,
    )
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=9_000)))
    result = query.run(reader, threads=threads)
    got = {(*at[:3], at[3][1]): values for at, values in rows_of(query, result).items()}
    assert_equal(wanted, got)


def test_rows_in_order_end_the_same_windows_in_either_order() -> None:
    """Also where times are equal: rows of one time are in the order of arrival."""
    table = many_rows(5_000, keys=7, span=900)
    table = table.take(pa.array(np.argsort(table["t"].to_numpy(), kind="stable")))
    in_time, arrived = (
        wk.query(by="k", time="t", windows=wk.sliding(40, "5 rows", order=order), aggs=AGGS)  # type: ignore[arg-type]
        for order in ("time", "arrival")
    )
    assert in_time.run(table) == arrived.run(table)


@pytest.mark.parametrize("at", ["end", "start"])
def test_punctuation_equals_groups_by_counted_marks(at: str) -> None:
    table = many_rows(30_000, keys=30, span=100_000)
    query = wk.query(by="k", time="t", windows=wk.punctuation("m", at=at), aggs=AGGS)  # type: ignore[arg-type]
    frame = "1 PRECEDING" if at == "end" else "CURRENT ROW"
    wanted = sql(
        table,
        f"""
        SELECT k, min(t), max(t), arg_min("row", (t, "row")),
               count(*), sum(v), max(v), arg_min("row", (t, "row"))
        FROM (
            SELECT *, coalesce(sum(coalesce(m, false)::INT)
                OVER ({ORDER} ROWS BETWEEN UNBOUNDED PRECEDING AND {frame}), 0) AS run
            FROM data
        ) GROUP BY k, run
        """,
    )
    got = {(*at[:3], values[3]): values for at, values in rows_of(query, query.run(table)).items()}
    assert_equal(wanted, got)


ALL_WINDOWS = [
    *samples.together(),
    wk.tumbling(rows=7),
    wk.sliding("20 rows", "3 rows", partial="end"),
    wk.sliding(40, "6 rows"),
    wk.landmark(10, period=100, start_time=7),
]


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch", [1, 64, 5_000])
@pytest.mark.parametrize(
    "windows",
    [ALL_WINDOWS, [w for w in ALL_WINDOWS if isinstance(w, wk.Band | wk.Landmark | wk.Global)]],
    ids=len,
)
def test_many_windows_at_once_equal_the_oracle(windows: list[wk.Window], batch: int, threads: int) -> None:
    table = many_rows(1_500, keys=6, span=400)
    aggs = [
        *AGGS,
        wk.median("v"),
        wk.last("v", ignore_nulls=True),
        wk.collect_list("row"),
        wk.count("v").where("m"),
    ]
    query = wk.query(by="k", time="t", windows=windows, aggs=aggs)
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=batch)))
    assert_equal(evaluate(query, table), rows_of(query, query.run(reader, threads=threads)))
    assert_equal(evaluate(query, table), rows_of(query, query.batches(table, threads=threads).read_all()))


def test_batches_with_dictionaries_of_their_own_equal_the_oracle() -> None:
    # More values in all than the codes of one batch can tell apart.
    chance = random.Random(11)
    batches = []
    for number in range(20):
        words = [f"{number}-{chance.randrange(30)}" for _ in range(90)]
        batches.append(
            pa.record_batch(
                {
                    "k": pa.array([chance.choice("ab") for _ in words]).dictionary_encode().cast(KEYS),
                    "t": pa.array([chance.randrange(500) for _ in words]),
                    "v": pa.array(words).dictionary_encode().cast(KEYS),
                }
            )
        )
    table = pa.Table.from_batches(batches)
    aggs = [wk.first("v"), wk.max("v"), wk.count_distinct("v"), wk.collect_list("v"), wk.mode("v")]
    query = wk.query(by="k", time="t", windows=[wk.tumbling(rows=13), wk.sliding("9 rows", 20)], aggs=aggs)
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


KEYS = pa.dictionary(pa.int8(), pa.string())


@pytest.mark.parametrize("batches", [0, 1, 3])
def test_no_rows_have_no_windows(batches: int) -> None:
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "m": pa.bool_()})
    empty = pa.Table.from_batches([pa.record_batch([[], [], []], schema)] * batches, schema)
    query = wk.query(by="k", time="t", windows=[wk.tumbling(rows=3), wk.punctuation("m")], aggs=wk.count())
    assert query.run(empty).num_rows == 0
    nulls = pa.table({"k": ["a", "b"], "t": pa.array([None, None], pa.int64()), "m": [True, None]})
    assert query.run(nulls).num_rows == 0


def test_users_functions_work_with_windows_of_rows() -> None:
    table = pa.table({"t": [3, 1, 2, 5, 4], "v": ["c", "a", "b", "e", "d"]})
    joined = wk.aggregate("joined", lift=lambda v: v, combine=concatenated, lower=lambda states: states)
    query = wk.query(by=[], time="t", windows=wk.sliding("3 rows", "1 row"), aggs=joined("v").alias("word"))
    assert query.run(table).sort_by([("word", "ascending")])["word"].to_pylist() == ["abc", "bcd", "cde"]


def concatenated(a: pa.Array, b: pa.Array) -> pa.Array:
    return pa.array([x + y for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True)], pa.string())


def test_times_at_the_end_of_their_range_are_refused() -> None:
    table = pa.table({"t": [2**63 - 1]})
    for window in (wk.tumbling(rows=1), wk.sliding("1 row", 5), wk.global_window()):
        with pytest.raises(wk.Overflow, match="column 't' holds 9223372036854775807"):
            wk.query(by=[], time="t", windows=window, aggs=wk.count()).run(table)
    far = pa.table({"t": [-(2**62) - 5, 2**62 + 5]})
    query = wk.query(by=[], time="t", windows=wk.global_window(), aggs=wk.count().alias("n"))
    assert query.run(far).to_pylist() == [{"window_start": -(2**62) - 5, "window_end": 2**62 + 5, "n": 2}]
