"""Values of width 0, binary or lists: as legal as others, and selected, stored and returned like them.

The oracle is the same call with integers in their place, null in the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from windowkit.spark.shipping.packing import SLICES, pack, unpack

Values = dict[str, pa.Array]

BINARY, LIST = pa.binary(0), pa.list_(pa.int64(), 0)
ROWS = 8
NO_NULL = [True] * ROWS
SOME_NULL = [row % 3 != 1 for row in range(ROWS)]


def values(kind: pa.DataType, valid: list[bool]) -> Values:
    """Return values of width 0, alone and within others, beside integers that are null where they are."""
    empty: Any = b"" if pa.types.is_fixed_size_binary(kind) else []
    alone = pa.array([empty if each else None for each in valid], kind)
    number = pa.array([0 if each else None for each in valid], pa.int8())
    return {
        "alone": alone,
        "alone, number": number,
        "struct": pa.StructArray.from_arrays([alone, pa.array(range(ROWS))], ["e", "n"]),
        "struct, number": pa.StructArray.from_arrays([number, pa.array(range(ROWS))], ["e", "n"]),
        "list": pa.ListArray.from_arrays(list(range(ROWS + 1)), alone),
        "list, number": pa.ListArray.from_arrays(list(range(ROWS + 1)), number),
    }


@pytest.fixture(params=["binary", "list"])
def kind(request: pytest.FixtureRequest) -> pa.DataType:
    """Return a type of width 0."""
    return BINARY if request.param == "binary" else LIST


@pytest.fixture(params=[NO_NULL, SOME_NULL], ids=["no null", "nulls"])
def columns(kind: pa.DataType, request: pytest.FixtureRequest) -> Values:
    """Return columns of values of a type of width 0."""
    return values(kind, request.param)


def table_of(column: pa.Array) -> pa.Table:
    """Return a table in two chunks, the second of which begins at an offset."""
    rows = {"k": list("abababab"), "t": [0, 1, 2, 3, 11, 12, 13, 14], "v": [3, 1, 4, 1, 5, 9, 2, 6]}
    whole = pa.table({**rows, "p": column})
    return pa.concat_tables([whole.slice(0, 5), whole.slice(5)])


def as_numbers(value: Any) -> Any:
    """Return a value with 0 for what has width 0."""
    if isinstance(value, dict):
        return {name: as_numbers(each) for name, each in value.items()}
    if isinstance(value, list) and value:
        return [as_numbers(each) for each in value]
    return 0 if value in (b"", []) else value


def same(columns: Values, call: Callable[[pa.Table], list[pa.Table]], *forms: str) -> None:
    """Check that a call treats values of width 0 as integers."""
    for form in forms or ("alone", "struct", "list"):
        given, twin = (call(table_of(columns[name])) for name in (form, f"{form}, number"))
        assert [each.column_names for each in given] == [each.column_names for each in twin]
        assert [as_numbers(each.to_pylist()) for each in given] == [
            as_numbers(each.to_pylist()) for each in twin
        ]
        assert sum(map(len, given)) > 0
        for each in given:
            each.validate(full=True)


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_joins(columns: Values, how: Any) -> None:
    join = wk.join(by="k", left_time="t", right_time="t", within=2, how=how)

    def joined(table: pa.Table) -> list[pa.Table]:
        result = join.run(table, table.slice(4, 2))
        assert result.schema.field("p").type == table.schema.field("p").type
        return [result, join.run(table.slice(0, 0), table), join.batches(table, table).read_all()]

    same(columns, joined)


@pytest.mark.parametrize("how", ["inner", "full"])
def test_joins_of_streams(columns: Values, how: Any) -> None:
    join = wk.join(by="k", left_time="t", right_time="t", within=2, how=how)

    def joined(table: pa.Table) -> list[pa.Table]:
        op = join.operator(table.schema, table.schema)
        first = [op.push_left(table), op.push_right(table.slice(2, 3)), op.advance_right(4)]
        again = wk.JoinOperator.restore(op.snapshot(), join)
        late = [again.push_right(table), again.take_late_right()]
        return [*first, op.push_right(table.slice(5)), op.close(), *late, again.close()]

    same(columns, joined)


def test_rows_without_duplicates(columns: Values) -> None:
    distinct = wk.distinct(by="k", time="t", within=5)

    def unique(table: pa.Table) -> list[pa.Table]:
        op = distinct.operator(table.schema)
        first = [op.push(table), op.advance(12)]
        again = wk.DistinctOperator.restore(op.snapshot(), distinct)
        late = [again.push(table.slice(0, 2)), again.take_late()]
        return [distinct.run(table), *first, op.close(), *late, again.close()]

    same(columns, unique)


PICKING = ("first", "last", "collect_list", "count")
ORDERING = ("min", "max", "mode", "count_distinct", "collect_set")


def aggregates(functions: tuple[str, ...]) -> list[wk.Aggregate]:
    own = [getattr(wk, function)("p").alias(function) for function in functions]
    if functions is PICKING:
        own += [wk.arg_max("p", "v").alias("arg_max"), wk.collect_rows("p", "v").alias("rows")]
        own.append(wk.first("p").where("is").alias("filtered"))
    return own


def answers(query: wk.Query, table: pa.Table) -> list[pa.Table]:
    """Return what each engine of this process makes of a table."""
    op = query.operator(order="out-of-order", allowed_lateness=2)
    first = [op.push(table.slice(0, 6)), op.push(table.slice(3)), op.advance(9)]
    again = wk.Operator.restore(op.snapshot(), query)
    return [query.run(table), *first, op.close(), again.take_late(), again.close()]


@pytest.mark.parametrize("windows", [wk.sliding(10, 5), wk.tumbling("3 rows")], ids=str)
def test_queries(columns: Values, windows: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=aggregates(PICKING))
    same(columns, lambda table: answers(query, with_filter(table)))
    if columns["alone"].type == BINARY:
        ordered = wk.query(by="k", time="t", windows=windows, aggs=aggregates(ORDERING))
        same(columns, lambda table: answers(ordered, table), "alone")


def with_filter(table: pa.Table) -> pa.Table:
    return table.append_column("is", [[row % 4 != 2 for row in range(len(table))]])


def test_frames(columns: Values) -> None:
    def framed(functions: tuple[str, ...]) -> wk.Rolling:
        return wk.rolling(by="k", time="t", aggs=[each.over(5) for each in aggregates(functions)])

    def rolled(rolling: wk.Rolling, table: pa.Table) -> list[pa.Table]:
        labels = table.select(["k", "t", "p"]).slice(2, 4).rename_columns(["k", "t", "q"])
        return [rolling.run(table), rolling.at(labels, table)]

    same(columns, lambda table: rolled(framed(PICKING), with_filter(table)))
    if columns["alone"].type == BINARY:
        same(columns, lambda table: rolled(framed(ORDERING), table), "alone")


def test_early_results(columns: Values) -> None:
    emission = wk.emit(wk.rows(2), "retracting")
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggregates(PICKING), emit=emission)

    def emitted(table: pa.Table) -> list[pa.Table]:
        op = query.operator(order="out-of-order")
        return [op.push(with_filter(table)), op.close()]

    same(columns, emitted)


def test_slices(columns: Values) -> None:
    query = wk.query(by="k", time="t", windows=wk.sliding(10, 5), aggs=aggregates(PICKING))

    def sliced(table: pa.Table) -> list[pa.Table]:
        op = query.operator(order="out-of-order", schema=with_filter(table).schema)
        for batch in query.slices(with_filter(table)).to_batches():
            kind, again = unpack(pack(SLICES, batch, bytes(8), 3), bytes(8), 3)
            assert kind == SLICES
            op.push_slices(again)
        return [op.close()]

    same(columns, sliced)


def test_sketches_skip_them_like_other_empty_values() -> None:
    column = values(BINARY, SOME_NULL)["alone"]
    sketch = wk.HyperLogLog()
    sketch.update(column)
    assert sketch.to_bytes() == wk.HyperLogLog().to_bytes()
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.approx_count_distinct("p").alias("n"))
    assert query.run(table_of(column))["n"].to_pylist() == [0] * 4


def test_they_are_no_keys(columns: Values) -> None:
    query = wk.query(by="p", time="t", windows=wk.tumbling(10), aggs=wk.count())
    with pytest.raises(wk.InvalidType, match=r"by: a column of type .* cannot be a key; .*width 0"):
        query.run(table_of(columns["alone"]))
