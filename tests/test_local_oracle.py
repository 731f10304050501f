"""Random queries over random tables against the oracle."""

from __future__ import annotations

import random

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.cases import Case, cases
from support.oracle import assert_equal, assert_types, evaluate, rows_of
from support.tables import INTEGERS, NUMBERS, OTHERS


def check(case: Case, threads: int) -> None:
    table, query = case
    try:
        expected = evaluate(query, table)
    except OverflowError:
        with pytest.raises(wk.Overflow):
            query.run(table, threads=threads)
        return
    result = query.run(table, threads=threads)
    assert result.schema == query.schema(table)
    assert_types(query, table.schema, result.schema)
    assert_equal(expected, rows_of(query, result))


@settings(max_examples=250)
@given(cases(NUMBERS), st.integers(1, 3))
def test_numbers_equal_the_oracle(case: Case, threads: int) -> None:
    check(case, threads)


@settings(max_examples=150)
@given(cases(INTEGERS), st.integers(1, 3))
def test_integers_equal_the_oracle_or_overflow_with_it(case: Case, threads: int) -> None:
    check(case, threads)


@settings(max_examples=120)
@given(cases(OTHERS), st.integers(1, 3))
def test_types_without_arithmetic_equal_the_oracle(case: Case, threads: int) -> None:
    check(case, threads)


def big_table(seed: int, rows: int, keys: int, span: int, disorder: int) -> pa.Table:
    """Many rows in order of time but for a random delay, a third of them of one hot key."""
    chance = random.Random(seed)
    times = sorted(chance.randrange(-span, span) for _ in range(rows))
    times = [time - chance.choice([0, 0, 0, chance.randrange(disorder + 1)]) for time in times]
    return pa.table(
        {
            "k": pa.array(
                [chance.choice([0, chance.randrange(keys), chance.randrange(keys)]) for _ in times]
            ),
            "t": pa.array([None if chance.random() < 0.01 else time for time in times], pa.int64()),
            "v": pa.array([None if chance.random() < 0.1 else chance.gauss(0, 100) for _ in times]),
            "n": pa.array([chance.randrange(-(2**60), 2**60) for _ in times]),
        }
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize(
    ("keys", "span", "disorder", "batch"),
    [(1, 500, 0, 64), (7, 2_000, 300, 1), (400, 2_000, 20, 1_000), (3_000, 100_000, 100_000, 333)],
)
def test_many_rows_in_many_batches_equal_the_oracle(
    keys: int, span: int, disorder: int, batch: int, threads: int
) -> None:
    table = big_table(seed=keys, rows=3_000, keys=keys, span=span, disorder=disorder)
    query = wk.query(
        by="k",
        time="t",
        windows=[
            wk.sliding(37, 10, start_time=3),
            wk.tumbling(25),
            wk.session(11),
            wk.session(60),
            wk.sliding(20, 20, start_time=-7),
        ],
        aggs=[
            wk.count(),
            wk.sum("v"),
            wk.max("v"),
            wk.first("n"),
            wk.last("n"),
            wk.stddev("v"),
            wk.mean("n"),
        ],
    )
    reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=batch)))
    assert_equal(evaluate(query, table), rows_of(query, query.run(reader, threads=threads)))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_row_in_hundreds_of_windows_equals_the_oracle(threads: int) -> None:
    table = big_table(seed=5, rows=400, keys=3, span=300, disorder=30)
    query = wk.query(
        by="k", time="t", windows=wk.sliding(600, 1), aggs=[wk.sum("v"), wk.min("v"), wk.mean("n")]
    )
    assert_equal(evaluate(query, table), rows_of(query, query.run(table, threads=threads)))


@pytest.mark.slow
@pytest.mark.parametrize("by", [["k"], ["word", "k"], []], ids=str)
def test_enough_rows_for_many_threads_equal_sql(by: list[str]) -> None:
    # A thread takes on some ten thousand rows at least, too many for the oracle of this file.
    count = 70_000
    chance = np.random.default_rng(7)
    times = np.sort(chance.integers(-20_000, 20_000, count)) - chance.integers(0, 200, count)
    table = pa.table(
        {
            "k": pa.array(chance.integers(0, 300, count), mask=chance.random(count) < 0.01),
            "word": pa.array(
                [f"word {number}" for number in chance.integers(0, 5, count)]
            ).dictionary_encode(),
            "t": times,
            "v": pa.array(chance.integers(-1_000, 1_000, count), mask=chance.random(count) < 0.1),
            "row": np.arange(count),
        }
    )
    query = wk.query(
        by=by,
        time="t",
        windows=[wk.sliding(50, 20, start_time=-3).alias("sliding"), wk.session(25).alias("session")],
        aggs=[
            wk.count().alias("n"),
            wk.sum("v").alias("s"),
            wk.max("v").alias("m"),
            wk.first("row").alias("f"),
            wk.last("row").alias("l"),
        ],
    )
    connection = duckdb.connect()
    connection.register("data", table)
    keys = ", ".join([*by, ""])
    partition = f"OVER (PARTITION BY {keys} 0 ORDER BY t ROWS UNBOUNDED PRECEDING)"
    wanted = connection.sql(
        f"""
        WITH slid AS (
            SELECT *, 'sliding' AS name, t - (t + 3 + 20_000_000) % 20 - 20 * back AS start
            FROM data, range(3) AS windows(back)
        ), paused AS (
            SELECT *, t - lag(t) OVER (PARTITION BY {keys} 0 ORDER BY t) AS pause FROM data
        ), counted AS (
            SELECT *, sum((pause IS NULL OR pause > 25)::INT) {partition} AS number FROM paused
        ), in_session AS (
            SELECT *, min(t) OVER (PARTITION BY {keys} number) AS start,
                   max(t) OVER (PARTITION BY {keys} number) + 25 AS "end"
            FROM counted
        ), all_rows AS (
            SELECT {keys} name, start, start + 50 AS "end", t, v, "row" FROM slid WHERE t < start + 50
            UNION ALL
            SELECT {keys} 'session', start, "end", t, v, "row" FROM in_session
        )
        SELECT {keys} name, start, "end", count(*), sum(v)::BIGINT, max(v),
               arg_min("row", (t, "row")), arg_max("row", (t, "row"))
        FROM all_rows
        GROUP BY {keys} name, start, "end"
        """
    ).fetchall()
    key_count = len(by) + 3
    expected = {row[:key_count]: list(row[key_count:]) for row in wanted}
    assert len(expected) == len(wanted)
    batches = table.to_batches(max_chunksize=7_000)
    for threads in (1, 2, 3):
        reader = pa.RecordBatchReader.from_batches(table.schema, iter(batches))
        assert_equal(expected, rows_of(query, query.run(reader, threads=threads)))


def test_threads_do_not_change_which_of_tied_rows_is_first_or_last() -> None:
    rows = 200_000
    table = pa.table({"t": pa.array([0] * rows), "v": pa.array(range(rows))})
    query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=[wk.first("v"), wk.last("v")])
    for threads in (1, 2, 3):
        reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=9_999)))
        assert rows_of(query, query.run(reader, threads=threads)) == {(0, 1): [0, rows - 1]}


def test_rows_far_apart_make_no_windows_between_them() -> None:
    far = 10**18
    table = pa.table({"t": pa.array([-far, 0, far])})
    query = wk.query(by=[], time="t", windows=[wk.sliding(3, 1), wk.session(2)], aggs=wk.count())
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))
