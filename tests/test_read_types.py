"""Types that are read as others: small and wide decimals, run-end encoded columns; sums of booleans."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from windowkit import InvalidType

VALUES = [Decimal("1.25"), Decimal("2.50"), None, Decimal("-3.75"), Decimal("2.50")]
AGGS = [
    wk.sum("v").alias("sum"),
    wk.mean("v").alias("mean"),
    wk.max("v").alias("max"),
    wk.min("v").alias("min"),
    wk.count_distinct("v").alias("distinct"),
    wk.collect_list("v").alias("list"),
]
QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=AGGS)


def table_of(values: pa.Array) -> pa.Table:
    return pa.table({"k": ["a", "a", "a", "b", "b"], "t": [1, 2, 3, 4, 15], "v": values})


def results(table: pa.Table) -> dict[str, Any]:
    """Return what each engine of this process makes of a table."""
    operator = QUERY.operator()
    final = pa.concat_tables([operator.push(table), operator.close()]).drop_columns(["update"])
    given = QUERY.operator(schema=table.schema)
    again = pa.concat_tables([given.push(table.slice(0, 2)), given.push(table.slice(2)), given.close()])
    batches = QUERY.batches(table.to_reader()).read_all()
    by = [("k", "ascending"), ("sum", "ascending")]
    found = [QUERY.run(table), batches, final, again.drop_columns(["update"])]
    lists = [each.sort_by(by).to_pylist() for each in found]
    assert all(each == lists[0] for each in lists)
    assert all(each.schema.types == QUERY.schema(table).types for each in found)
    return {"rows": lists[0], "types": found[0].schema.types}


# Narrow ones came with pyarrow 19.
WIDTHS = [kind for kind in ("decimal32", "decimal64", "decimal256") if hasattr(pa, kind)]


@pytest.mark.parametrize("kind", WIDTHS)
def test_decimals_of_other_widths_are_as_decimal128(kind: str) -> None:
    wanted = results(table_of(pa.array(VALUES, pa.decimal128(7, 2))))
    values = pa.array(VALUES, getattr(pa, kind)(7, 2))
    assert results(table_of(values)) == wanted
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(10).alias("recent"))
    rolled = rolling.run(table_of(values))
    assert rolled.schema.field("v").type == values.type
    assert rolled.schema.equals(rolling.schema(table_of(values)))
    assert rolled["recent"].to_pylist() == [
        Decimal(each) for each in ("1.25", "3.75", "3.75", "-3.75", "2.50")
    ]


@pytest.mark.parametrize("values", [[1.5, 1.5, None, None, 2.0], [7, 7, 7, None, 9]])
def test_runs_are_as_their_values(values: list[Any]) -> None:
    plain = pa.array(values)
    wanted = results(table_of(plain))
    ends = pa.RunEndEncodedArray.from_arrays(
        pa.array([2, 3, 4, 5], pa.int32()), plain.take(pa.array([0, 2, 3, 4]))
    )
    table = table_of(ends)
    assert results(table) == wanted
    assert results(pa.concat_tables([table.slice(0, 1), table.slice(1)])) == wanted
    assert "max: " in QUERY.explain(table)
    keyed = pa.table({"k": ends, "t": [1, 2, 3, 4, 5]})
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    assert query.run(keyed).schema.field("k").type == plain.type


@pytest.mark.parametrize("kind", [pa.int64(), pa.date32(), pa.timestamp("us", "Europe/Paris")])
def test_times_in_runs_are_times_wherever_rows_are_compared(kind: pa.DataType) -> None:
    """As their values: of whole tables, of batches that are cut from them, and of streams."""
    times = pa.array([3, 3, None, 5, 5, 90], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)
    plain = pa.table({"k": [1, 1, 1, 2, 1, 1], "t": times, "v": range(6)})
    runs = plain.set_column(1, "t", pc.run_end_encode(times))
    within = 4 if kind == pa.int64() else "4 days"
    for table in (runs, pa.concat_tables([runs.slice(0, 1), runs.slice(1, 3), runs.slice(4)])):
        for how in ("inner", "full", "semi"):
            join = wk.join(by="k", left_time="t", right_time="t", within=within, how=how)
            wanted = join.run(plain, plain).to_pylist()
            assert join.run(table, table).to_pylist() == join.run(plain, table).to_pylist() == wanted
            with join.operator(table.schema, table.schema) as op:
                made = [op.push_left(table), op.push_right(table), op.advance_left(times[4]), op.close()]
                rows = [row for each in made for row in each.to_pylist()]
            assert sorted(map(repr, rows)) == sorted(map(repr, wanted))
        distinct = wk.distinct("k", time="t", within=within)
        assert distinct.run(table).to_pylist() == distinct.run(plain).to_pylist()
        with distinct.operator(table.schema) as op:
            made = [op.push(table), op.advance(times[4]), op.close()]
            rows = [row for each in made for row in each.to_pylist()]
        assert sorted(map(repr, rows)) == sorted(map(repr, distinct.run(plain).to_pylist()))
        rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(within))
        assert rolling.run(table).to_pylist() == rolling.run(plain).to_pylist()
        labels = table.select(["k", "t"])
        assert rolling.at(labels, table).to_pylist() == rolling.at(labels, plain).to_pylist()


def test_wider_decimals_are_refused_by_name() -> None:
    table = table_of(pa.array(VALUES, pa.decimal256(50, 2)))
    with pytest.raises(
        InvalidType, match=r"sum is not defined for column 'v' of type decimal256.*cast to decimal128"
    ):
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v")).run(table)
    query = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.first("v").alias("v"))
    assert query.run(table).sort_by("k")["v"].to_pylist() == [Decimal("1.25"), Decimal("-3.75")]


def test_booleans_are_counted() -> None:
    """DuckDB's sum of booleans is how many are true."""
    table = table_of(pa.array([True, False, None, None, True]))
    aggs = [wk.sum("v").alias("sum"), wk.mean("v").alias("mean")]
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggs)
    by = [("k", "ascending"), ("window_start", "ascending")]
    got = query.run(table).sort_by(by)
    with duckdb.connect() as connection:
        connection.register("data", table)
        wanted = connection.sql(
            "select k, t // 10 * 10 as start, sum(v)::bigint as sum, avg(v::int) as mean from data "
            "group by all order by k, start"
        ).to_arrow_table()
    assert got["sum"].to_pylist() == wanted["sum"].to_pylist() == [1, None, 1]
    assert got["mean"].to_pylist() == wanted["mean"].to_pylist() == [0.5, None, 1.0]
    operator = query.operator()
    final = pa.concat_tables([operator.push(table), operator.close()]).sort_by(by)
    assert final.select(got.column_names) == got
    rolled = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("2 rows").alias("s")).run(table)
    assert rolled["s"].to_pylist() == [1, 1, 0, None, 1]
