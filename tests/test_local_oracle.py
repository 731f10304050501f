"""Random queries over random tables against the oracle."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import assert_equal, assert_types, evaluate, rows_of
from support.oracle_types import functions_of
from support.plain import nanoseconds_per_unit
from support.streams import local_window
from support.tables import INTEGERS, KEYS, NUMBERS, OTHERS, TIMES, columns_of
from windowkit.moments import Moment

# Windows that are cut in advance come twice as often as the others: both kinds of operator get their share.
BY_MEASURE = ["tumbling", "sliding", "session", "band", "landmark", "landmarks", "local", "global"]
BY_ROWS = [
    *("tumbling rows", "sliding rows", "last rows", "last time", "arrivals", "punctuation", "between", "long")
]
KINDS = [*BY_MEASURE, *BY_MEASURE, *BY_ROWS]


class Case(NamedTuple):
    table: pa.Table
    query: wk.Query


@st.composite
def window_lists(draw: st.DrawFn, time_type: pa.DataType, base: int) -> list[wk.Window]:
    integer = pa.types.is_integer(time_type)

    def scaled(units: int) -> wk.Duration | int:
        return units if integer else wk.Duration(units * nanoseconds_per_unit(time_type))

    def placed(units: int) -> wk.Duration | int | Moment:
        if integer or pa.types.is_duration(time_type):
            return scaled(units)
        zoned = pa.types.is_timestamp(time_type) and time_type.tz is not None
        return Moment(units * nanoseconds_per_unit(time_type), zoned)

    drawn: list[wk.Window] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3]))):
        kind = draw(st.sampled_from(KINDS))
        size, rows = draw(st.integers(1, 25)), draw(st.integers(1, 7))
        slide = size if kind == "tumbling" else draw(st.integers(1, size))
        start_time = scaled(draw(st.integers(-slide + 1, slide - 1)))
        # Windows know no durations and years as far as those that a column may hold.
        far = not integer and abs(base) * nanoseconds_per_unit(time_type) > 50 * 10**18
        place = draw(st.integers(-45, 65)) + (0 if far or pa.types.is_duration(time_type) else base)
        window: wk.Window
        match kind:
            case "session":
                window = wk.session(scaled(size))
            case "tumbling":
                window = wk.tumbling(scaled(size), start_time=start_time)
            case "sliding":
                window = wk.sliding(scaled(size), scaled(slide), start_time=start_time)
            case "tumbling rows":
                window = wk.tumbling(rows=rows, partial=draw(st.booleans()))
            case "sliding rows":
                rows_slide = wk.rows(draw(st.integers(1, rows)))
                window = wk.sliding(wk.rows(rows), rows_slide, partial=draw(st.booleans()))
            case "last rows":
                window = wk.sliding(wk.rows(rows), scaled(slide), start_time=start_time)
            case "last time":
                window = wk.sliding(scaled(size), wk.rows(rows))
            case "arrivals":
                window = wk.sliding(scaled(size), wk.rows(rows), order="arrival")
            case "punctuation":
                window = wk.punctuation("m", at=draw(st.sampled_from(["end", "start"])))
            case "between":
                columns = st.sampled_from(["m", "f"])
                window = wk.between(draw(columns), draw(columns), exclusive=draw(st.booleans()))
            case "long":
                window = wk.session(scaled(slide), at_most=scaled(size))
            case "band":
                window = wk.band(placed(place), placed(place + size))
            case "landmark":
                window = wk.landmark(scaled(size), start=placed(place))
            case "landmarks":
                period = scaled(size * draw(st.integers(1, 4)))
                window = wk.landmark(scaled(size), period=period, start_time=start_time)
            case "local" if base == 0:
                window = local_window(draw, time_type)
            case _:
                window = wk.global_window()
        drawn.append(window.alias(f"w{number}"))
    return drawn


@st.composite
def cases(draw: st.DrawFn, values: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> Case:
    rows = draw(st.integers(0, 25))
    time_type = draw(st.sampled_from(TIMES))
    base = 0
    if not pa.types.is_integer(time_type) and time_type.bit_width == 64:
        base = draw(st.sampled_from([0, 0, -(10**14), 10**14 + 7]))
    low = 0 if pa.types.is_unsigned_integer(time_type) else -40
    times = st.integers(base + low, base + 60) | st.sampled_from([base + 5, base + 10])
    columns = {"t": columns_of(draw, time_type, times, rows)}
    by = [f"k{number}" for number in range(draw(st.sampled_from([0, 1, 1, 2, 3])))]
    for name in by:
        kind, strategy = draw(st.sampled_from(KEYS))
        columns[name] = columns_of(draw, kind, strategy, rows)
    kind, strategy = draw(st.sampled_from(values))
    columns["v"] = columns_of(draw, kind, strategy, rows)
    functions = draw(st.lists(st.sampled_from(functions_of(kind)), min_size=1, max_size=5))
    aggs = [function("v") for function in functions]
    if draw(st.booleans()):
        aggs.append(wk.count())
    if draw(st.booleans()):
        other, strategy = draw(st.sampled_from(KEYS))
        columns["by"] = columns_of(draw, other, strategy, rows)
        aggs += [wk.arg_min("v", by="by"), wk.arg_max("v", by="by")]
    columns["f"] = columns_of(draw, pa.bool_(), st.booleans(), rows)
    columns["m"] = columns_of(draw, pa.bool_(), st.booleans(), rows)
    aggs = [draw(st.sampled_from([each, each, each.where("f")])) for each in aggs]
    aggs = [each.alias(f"a{number}") for number, each in enumerate(aggs)]
    query = wk.query(by=by, time="t", windows=draw(window_lists(time_type, base)), aggs=aggs)
    order = draw(st.permutations(sorted(columns)))
    return Case(pa.table({name: columns[name] for name in order}), query)


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
