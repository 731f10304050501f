"""Rolling aggregates over random tables against the definition, and over many rows against DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle_aggregates import same
from support.oracle_types import decoded, output_type
from support.plain import plain
from support.rolling import Case, cases, evaluate
from support.tables import INTEGERS, NUMBERS, OTHERS


def assert_rows(table: pa.Table, result: pa.Table) -> None:
    """Check that the first columns are those of the input: rows, order, types."""
    assert result.column_names[: table.num_columns] == table.column_names
    for own, got in zip(table.columns, result.columns, strict=False):
        assert own.type == got.type
        assert repr(plain(own)) == repr(plain(got))


def check(case: Case, threads: int) -> None:
    table, rolling = case
    try:
        expected = evaluate(case)
    except OverflowError:
        with pytest.raises(wk.Overflow):
            rolling.run(table, threads=threads)
        return
    result = rolling.run(table, threads=threads)
    assert_rows(table, result)
    assert result.schema == rolling.schema(table)
    for each in rolling.aggs:
        name = each.aggregate.column
        kind = None if name is None else table.schema.field(name).type
        if each.aggregate.function == "collect_rows":
            kind = pa.struct([(name, kind)])
        wanted = output_type(each.aggregate.function, kind, table.schema.field(rolling.time).type)
        assert decoded(result.schema.field(each.name).type) == decoded(wanted)
    got = [plain(result[each.name]) for each in rolling.aggs]
    for row, values in enumerate(expected):
        for wanted, column, each in zip(values, got, rolling.aggs, strict=True):
            assert same(wanted, column[row]), f"row {row}, {each}: wanted {wanted}, got {column[row]}"


@settings(max_examples=200)
@given(cases(NUMBERS), st.integers(1, 3))
def test_numbers_equal_the_definition(case: Case, threads: int) -> None:
    check(case, threads)


@settings(max_examples=60)
@given(cases(INTEGERS), st.integers(1, 2))
def test_integers_equal_the_definition_or_overflow_with_it(case: Case, threads: int) -> None:
    check(case, threads)


@settings(max_examples=120)
@given(cases(OTHERS), st.integers(1, 3))
def test_types_without_arithmetic_equal_the_definition(case: Case, threads: int) -> None:
    check(case, threads)


ROWS = 30_000
CHANCE = np.random.default_rng(3)
TABLE = pa.table(
    {
        "row": np.arange(ROWS),
        "k": pa.array(CHANCE.integers(0, 9, ROWS), mask=CHANCE.random(ROWS) < 0.02),
        "t": pa.array(
            np.sort(CHANCE.integers(0, 4_000, ROWS)) - CHANCE.integers(0, 90, ROWS),
            mask=CHANCE.random(ROWS) < 0.01,
        ),
        "v": pa.array(CHANCE.integers(-(10**6), 10**6, ROWS), mask=CHANCE.random(ROWS) < 0.1),
        "x": pa.array(np.where(CHANCE.random(ROWS) < 0.01, np.nan, CHANCE.normal(size=ROWS))),
        "shop": pa.array([f"shop {number}" for number in CHANCE.geometric(0.05, ROWS)]),
        "ok": pa.array(CHANCE.random(ROWS) < 0.5, mask=CHANCE.random(ROWS) < 0.1),
    }
)
FRAMES: list[tuple[dict[str, Any], str]] = [
    ({"size": 100}, "RANGE BETWEEN 100 PRECEDING AND CURRENT ROW"),
    ({"size": 100, "closed": "right"}, "RANGE BETWEEN 99 PRECEDING AND CURRENT ROW"),
    ({"before": 20, "after": 50}, "RANGE BETWEEN 20 PRECEDING AND 50 FOLLOWING"),
    ({"after": 300}, "RANGE BETWEEN CURRENT ROW AND 300 FOLLOWING"),
    ({"size": "unbounded"}, "RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    ({"before": 30, "after": "unbounded"}, "RANGE BETWEEN 30 PRECEDING AND UNBOUNDED FOLLOWING"),
    ({"size": "100 rows"}, "ROWS BETWEEN 99 PRECEDING AND CURRENT ROW"),
    ({"size": "100 rows", "closed": "left"}, "ROWS BETWEEN 100 PRECEDING AND 1 PRECEDING"),
    ({"before": "7 rows", "after": "9 rows"}, "ROWS BETWEEN 7 PRECEDING AND 9 FOLLOWING"),
    ({"after": "5 rows", "closed": "right"}, "ROWS BETWEEN 1 FOLLOWING AND 5 FOLLOWING"),
    ({"size": "unbounded rows"}, "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"),
    (
        {"before": "unbounded rows", "after": "unbounded rows"},
        "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    ),
]
FUNCTIONS: list[tuple[wk.Aggregate, str]] = [
    (wk.count(), "count(*) OVER w"),
    (wk.count("v"), "count(v) OVER w"),
    (wk.sum("v"), "(sum(v) OVER w)::BIGINT"),
    (wk.min("v"), "min(v) OVER w"),
    (wk.max("x"), "max(x) OVER w"),
    (wk.sum("v").where("ok"), "(sum(v) FILTER (WHERE ok) OVER w)::BIGINT"),
    (wk.count_distinct("shop"), "count(DISTINCT shop) OVER w"),
    (wk.quantile("v", 0.4, discrete=True), "quantile_disc(v, 0.4) OVER w"),
    (wk.max("shop"), "max(shop) OVER w"),
    (wk.first("row"), 'first_value("row") OVER w'),
    (wk.last("row"), 'last_value("row") OVER w'),
]


@pytest.mark.parametrize(("over", "sql"), FRAMES, ids=[sql for _, sql in FRAMES])
def test_many_rows_equal_duckdb(over: dict[str, Any], sql: str) -> None:
    # DuckDB orders by one column where a frame is by RANGE, so that of peers any may be first and last.
    by_rows = sql.startswith("ROWS")
    functions = FUNCTIONS if by_rows else FUNCTIONS[:-2]
    order = 't NULLS FIRST, "row"' if by_rows else "t NULLS FIRST"
    connection = duckdb.connect()
    connection.register("data", TABLE)
    each = ", ".join(f"{expression} AS a{at}" for at, (_, expression) in enumerate(functions))
    wanted = connection.sql(
        f'SELECT {each} FROM data WINDOW w AS (PARTITION BY k ORDER BY {order} {sql}) ORDER BY "row"'
    ).to_arrow_table()
    rolling = wk.rolling(
        by="k",
        time="t",
        aggs=[function.over(**over).alias(f"a{at}") for at, (function, _) in enumerate(functions)],
    )
    batches = pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=4_999)))
    result = rolling.run(batches, threads=2)
    assert_rows(TABLE, result)
    for at, (function, _) in enumerate(functions):
        mine, theirs = result[f"a{at}"].to_pylist(), wanted[f"a{at}"].to_pylist()
        assert [repr(value) for value in mine] == [repr(value) for value in theirs], function


@pytest.mark.slow
def test_several_frames_and_many_rows_are_independent_of_threads_and_batches() -> None:
    aggs = [
        function.over(**over).alias(f"{at} {number}")
        for at, (over, _) in enumerate(FRAMES[::3])
        for number, (function, _) in enumerate([*FUNCTIONS, (wk.mean("x"), ""), (wk.top_k("shop", 2), "")])
    ]
    rolling = wk.rolling(by="k", time="t", aggs=aggs)
    one = rolling.run(TABLE, threads=1)
    batches = pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=777)))
    other = rolling.run(batches, threads=3).combine_chunks()
    for name in one.column_names:
        assert repr(one[name].to_pylist()) == repr(other[name].to_pylist()), name


def test_large_results_come_in_several_arrays() -> None:
    count = 400
    table = pa.table({"t": np.arange(count)[::-1], "v": pa.array(["x" * 2_000] * count)})
    result = wk.rolling(by=[], time="t", aggs=wk.collect_list("v").over("unbounded").alias("all")).run(table)
    lengths = pc.list_value_length(result["all"])
    assert lengths.to_pylist() == list(range(count, 0, -1))
    assert 2 <= result["all"].num_chunks <= 10


def test_a_users_own_function_is_evaluated_over_frames() -> None:
    joined = wk.aggregate(
        "joined",
        lift=lambda v: pc.cast(v, pa.string()),
        combine=lambda a, b: pc.binary_join_element_wise(a, b, ","),
        lower=lambda states: states,
    )
    total = wk.aggregate(
        "total",
        lift=lambda v: v,
        combine=pc.add,
        lower=lambda states: states,
        invert=pc.subtract,
        identity=0,
        commutative=True,
    )
    table = pa.table({"k": [1, 2, 1, 1, 2], "t": [5, 1, 2, 5, 3], "v": [10, 20, 30, None, 50]})
    rolling = wk.rolling(
        by="k",
        time="t",
        aggs=[
            joined("v").over(3).alias("now"),
            joined("v").over(3, closed="left").alias("before"),
            total("v").over(2, closed="left").alias("total"),
        ],
    )
    result = rolling.run(table).to_pydict()
    assert result["now"] == ["30,10", "20", "30", "30,10", "20,50"]
    assert result["before"] == ["30", None, None, "30", "20"]
    assert result["total"] == [0, 0, 0, 0, 20]
