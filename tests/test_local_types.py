"""Every type as time, key and value, and every form data comes in."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk
from support.oracle import assert_equal, assert_types, evaluate, rows_of
from support.oracle_types import functions_of
from support.plain import column, plain
from support.values import NESTED, VALUES, name_of


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=name_of)
def test_every_aggregate_that_means_something_for_a_type(kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"t": [0, 1, 2, 12, 13, 33], "v": pa.chunked_array([column(values, kind)])})
    aggs = [function("v").alias(f"a{at}") for at, function in enumerate(functions_of(kind))]
    query = wk.query(by=[], time="t", windows=[wk.sliding(10, 2), wk.session(5)], aggs=aggs)
    result = query.run(table)
    assert_types(query, table.schema, result.schema)
    assert_equal(evaluate(query, table), rows_of(query, result))


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=name_of)
def test_every_type_is_a_key_alone_and_beside_another(kind: pa.DataType, values: list[Any]) -> None:
    order = [0, 1, 2, 3, 4, 5, 4, 2, 0]
    keys = column([values[at] for at in order], kind)
    table = pa.table({"k": keys, "other": [1, None, 1] * 3, "t": range(9), "v": range(9)})
    for by in (["k"], ["k", "other"], ["other", "k"]):
        query = wk.query(by=by, time="t", windows=wk.tumbling(4), aggs=[wk.count(), wk.sum("v")])
        assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


@pytest.mark.parametrize(("kind", "values"), NESTED, ids=name_of)
def test_nested_types_are_keys_and_counted_and_first_and_last(kind: pa.DataType, values: list[Any]) -> None:
    table = pa.table({"k": pa.array(values, kind), "t": range(6)})
    query = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.count().alias("n"))
    values = table["k"].to_pylist()
    counted = {str(row["k"]): row["n"] for row in query.run(table).to_pylist()}
    assert counted == {str(value): values.count(value) for value in values}
    aggs = [wk.first("k"), wk.last("k", ignore_nulls=True), wk.count("k")]
    (row,) = wk.query(by=[], time="t", windows=wk.tumbling(100), aggs=aggs).run(table).to_pylist()
    valid = [value for value in values if value is not None]
    assert row["first(k)"] == values[0]
    assert row["last(k)"] == (valid[-1] if valid else None)
    assert row["count(k)"] == len(valid)


@pytest.mark.parametrize(
    "kind",
    [
        *(
            pa.timestamp(unit, zone)
            for unit in ("s", "ms", "us", "ns")
            for zone in (None, "America/New_York")
        ),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
        pa.date32(),
        pa.date64(),
    ],
    ids=str,
)
def test_windows_have_the_time_columns_own_type(kind: pa.DataType) -> None:
    days = [-400, -1, 0, 0, 1, 20_000, None]
    units = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
    per_day = {pa.date32(): 1, pa.date64(): 86_400_000}.get(kind) or units[kind.unit]
    times = column([None if day is None else day * per_day for day in days], kind)
    table = pa.table({"t": times})
    query = wk.query(
        by=[],
        time="t",
        windows=[
            wk.sliding("7 days", "2 days", start_time="-1 day"),
            wk.tumbling("1 week"),
            wk.session("1 day"),
        ],
        aggs=[wk.count(), wk.min("t"), wk.last("t")],
    )
    result = query.run(table)
    assert_types(query, table.schema, result.schema)
    assert_equal(evaluate(query, table), rows_of(query, result))


def test_sums_of_unsigned_integers_reach_the_top_of_uint64() -> None:
    table = pa.table({"t": [0, 1], "v": pa.array([2**64 - 2, 1], pa.uint64())})
    query = wk.query(by=[], time="t", windows=wk.tumbling(2), aggs=[wk.sum("v"), wk.mean("v")])
    assert query.run(table)["sum(v)"].to_pylist() == [2**64 - 1]
    assert query.run(table)["avg(v)"].to_pylist() == [(2**64 - 1) / 2]


def test_a_sum_overflows_only_if_a_windows_true_sum_does() -> None:
    table = pa.table({"t": [0, 1, 2, 3], "v": [2**63 - 1, 1, -1, -(2**63)]})
    fits = wk.query(by=[], time="t", windows=wk.sliding(4, 4), aggs=wk.sum("v"))
    assert fits.run(table)["sum(v)"].to_pylist() == [-1]
    alone = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.sum("v"))
    assert sorted(alone.run(table)["sum(v)"].to_pylist()) == [-(2**63), -1, 1, 2**63 - 1]
    pairs = wk.query(by=[], time="t", windows=wk.tumbling(2), aggs=wk.sum("v"))
    with pytest.raises(wk.Overflow):
        pairs.run(table)


def test_decimal_means_are_rounded_half_up() -> None:
    values = [Decimal(1)] + [Decimal(0)] * 31
    expected = {"0.0313": values, "-0.0313": [-value for value in values]}
    for text, column_values in expected.items():
        table = pa.table({"t": [0] * 32, "v": pa.array(column_values, pa.decimal128(5, 0))})
        query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.mean("v"))
        assert query.run(table)["avg(v)"].to_pylist() == [Decimal(text)]


FLOATS = pa.array([0.0, -0.0, float("nan"), -float("nan")])
PLACES = pa.array(range(4), pa.int32())
CODES = pa.DictionaryArray.from_arrays(PLACES, FLOATS)
SINGLE = pa.ListViewArray.from_arrays(PLACES, pa.array([1] * 4, pa.int32()), FLOATS)


@pytest.mark.parametrize(
    "keys",
    [
        FLOATS,
        CODES,
        SINGLE,
        pa.UnionArray.from_sparse(pa.array([0] * 4, pa.int8()), [FLOATS]),
        pa.UnionArray.from_dense(pa.array([0] * 4, pa.int8()), PLACES, [FLOATS]),
        pa.RunEndEncodedArray.from_arrays(pa.array(range(1, 5), pa.int32()), FLOATS),
        pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), CODES),
        pa.ListArray.from_arrays(pa.array(range(5), pa.int32()), SINGLE),
        pa.StructArray.from_arrays([CODES], ["x"]),
    ],
    ids=lambda keys: str(keys.type),
)
def test_there_is_one_zero_and_one_nan_in_keys_of_every_type(keys: pa.Array) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    for part, counts in ((keys, [2, 2]), (keys.slice(1), [1, 2])):
        assert query.run(pa.table({"k": part, "t": PLACES[: len(part)]}))["n"].to_pylist() == counts


def test_keys_at_the_far_ends_of_a_type_are_apart() -> None:
    for kind, ends in [(pa.int64(), [-(2**63), 2**63 - 1]), (pa.uint64(), [2**63, 2**63 - 1, 0, 2**64 - 1])]:
        batches = [pa.record_batch({"k": pa.array([end], kind), "t": [0]}) for end in ends]
        table = pa.Table.from_batches(batches * 2)
        query = wk.query(by="k", time="t", windows=wk.tumbling(1), aggs=wk.count())
        assert rows_of(query, query.run(table, threads=1)) == {(end, 0, 1): [2] for end in ends}


def test_a_dictionary_may_have_more_values_over_all_batches_than_its_codes_can_tell() -> None:
    kind = pa.dictionary(pa.int8(), pa.string())
    texts = [[f"{batch}-{value}" for value in range(100)] for batch in range(4)]
    table = pa.table({"k": pa.chunked_array([column(each, kind) for each in texts], kind), "t": range(400)})
    query = wk.query(by="k", time="t", windows=wk.tumbling(1_000), aggs=wk.max("k"))
    assert rows_of(query, query.run(table)) == {(k, 0, 1_000): [k] for each in texts for k in each}
    ends = wk.query(
        by="t", time="t", windows=wk.tumbling(1_000), aggs=[wk.first("k"), wk.last("k"), wk.min("k")]
    )
    flat = [text for each in texts for text in each]
    assert rows_of(ends, ends.run(table)) == {(t, 0, 1_000): [k, k, k] for t, k in enumerate(flat)}


def test_one_column_may_be_time_key_and_value_at_once() -> None:
    table = pa.table({"t": [5, 5, 7, None]})
    query = wk.query(
        by="t", time="t", windows=wk.tumbling(10), aggs=[wk.sum("t"), wk.count("t"), wk.max("t")]
    )
    assert rows_of(query, query.run(table)) == {(5, 0, 10): [10, 2, 5], (7, 0, 10): [7, 1, 7]}


class TestNothing:
    SCHEMA = pa.schema({"k": pa.string(), "t": pa.timestamp("us"), "v": pa.float64()})
    QUERY = wk.query(
        by="k",
        time="t",
        windows=[wk.sliding("10 minutes", "1 minute"), wk.session("1 minute")],
        aggs=[wk.count(), wk.sum("v"), wk.last("v")],
    )

    def test_a_table_without_rows_has_a_result_without_rows(self) -> None:
        result = self.QUERY.run(self.SCHEMA.empty_table())
        assert result.num_rows == 0
        assert result.schema == self.QUERY.schema(self.SCHEMA)

    @pytest.mark.parametrize("batches", [0, 1, 3])
    def test_a_stream_of_no_or_empty_batches_has_a_result_without_rows(self, batches: int) -> None:
        empty = pa.RecordBatch.from_pylist([], schema=self.SCHEMA)
        reader = pa.RecordBatchReader.from_batches(self.SCHEMA, iter([empty] * batches))
        result = self.QUERY.run(reader)
        assert result.num_rows == 0
        assert result.schema == self.QUERY.schema(self.SCHEMA)

    def test_rows_without_time_are_dropped_with_their_keys(self) -> None:
        table = pa.table({"k": ["a", "b"], "t": pa.array([None, 60], pa.timestamp("us")), "v": [1.0, 2.0]})
        result = self.QUERY.run(table)
        assert set(result["k"].to_pylist()) == {"b"}
        assert self.QUERY.run(table.slice(0, 1)).num_rows == 0

    def test_rows_are_counted_of_nothing_but_a_time_column(self) -> None:
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
        assert query.run(pa.table({"t": [1, 2, 12]}))["count(1)"].to_pylist() == [2, 1]

    def test_windows_of_only_nulls_have_null_aggregates_counts_of_zero_and_empty_lists(self) -> None:
        table = pa.table({"t": [0, 1], "v": pa.array([None, None], pa.int32())})
        aggs = [function("v").alias(f"a{at}") for at, function in enumerate(functions_of(pa.int32()))]
        (row,) = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(table).to_pylist()
        never_null = {
            "count": 0,
            "count_distinct": 0,
            "approx_count_distinct": 0,
            # What Apache's library and Spark have for a sketch of nothing, at log2_k = 12.
            "hll_sketch": bytes.fromhex("0201070c030c0008"),
            "top_k": [],
            "frequent": [],
            "collect_list": [],
            # The rows are there.
            "collect_rows": [{"v": None}, {"v": None}],
            "collect_set": [],
        }
        assert [row[each.name] for each in aggs] == [never_null.get(each.function) for each in aggs]


def rows(table: pa.Table) -> tuple[tuple[Any, ...], ...]:
    others = [table[name].to_pylist() for name in ("window_start", "window_end", "n", "s")]
    return tuple(sorted(zip(plain(table["k"]), *others, strict=True)))


class OnlyArray:
    """An object that has nothing but `__arrow_c_array__`."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        arrays: tuple[object, object] = self.batch.__arrow_c_array__(requested_schema)
        return arrays


class OnlyStream:
    """An object that has nothing but `__arrow_c_stream__`."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class TestData:
    TABLE = pa.table({"k": ["a", "b", "a", "a"], "t": [1, 2, 12, 15], "v": [1.0, 2.0, 4.0, 8.0]})
    QUERY = wk.query(
        by="k", time="t", windows=wk.tumbling(10), aggs=[wk.count().alias("n"), wk.sum("v").alias("s")]
    )
    WANTED = (("a", 0, 10, 1, 1.0), ("a", 10, 20, 2, 12.0), ("b", 0, 10, 1, 2.0))

    @pytest.mark.parametrize(
        "data",
        [
            TABLE,
            TABLE.to_batches()[0],
            TABLE.to_batches()[0].to_struct_array(),
            OnlyArray(TABLE.to_batches()[0]),
            OnlyStream(TABLE),
            pl.from_arrow(TABLE),
            TABLE.to_pandas(),
            pd.DataFrame(TABLE.to_pydict(), index=[3, 1, 4, 1]),
        ],
        ids=lambda data: type(data).__module__.split(".")[0] + "." + type(data).__name__,
    )
    def test_anything_with_an_arrow_interface_is_data(self, data: Any) -> None:
        assert rows(self.QUERY.run(data, result="pyarrow")) == self.WANTED
        assert rows(self.QUERY.batches(data).read_all()) == self.WANTED
        assert self.QUERY.schema(data).names == self.QUERY.columns

    def test_a_duckdb_relation_is_data(self) -> None:
        connection = duckdb.connect()
        connection.register("readings", self.TABLE)
        relation = connection.sql("SELECT * FROM readings")
        assert rows(self.QUERY.run(relation, result="pyarrow")) == self.WANTED

    def test_the_result_goes_back_into_any_of_them(self) -> None:
        frame = pl.from_arrow(self.QUERY.run(self.TABLE))
        assert isinstance(frame, pl.DataFrame)
        assert frame.sort("k", "s")["s"].to_list() == [1.0, 12.0, 2.0]

    def test_a_reader_is_read_batch_by_batch_and_once(self) -> None:
        taken = []

        def batches() -> Iterator[pa.RecordBatch]:
            for at, batch in enumerate(self.TABLE.to_batches(max_chunksize=1)):
                taken.append(at)
                yield batch

        reader = pa.RecordBatchReader.from_batches(self.TABLE.schema, batches())
        assert self.QUERY.schema(reader).names == self.QUERY.columns
        assert taken == []
        assert rows(self.QUERY.run(reader)) == self.WANTED
        assert taken == [0, 1, 2, 3]

    @pytest.mark.parametrize("failure", [KeyError("boom"), KeyboardInterrupt(), OSError(5, "disk")])
    def test_a_failing_reader_fails_the_query_with_its_own_exception(self, failure: BaseException) -> None:
        def batches() -> Iterator[pa.RecordBatch]:
            yield self.TABLE.to_batches()[0]
            raise failure

        reader = pa.RecordBatchReader.from_batches(self.TABLE.schema, batches())
        with pytest.raises(type(failure)) as raised:
            self.QUERY.run(reader)
        assert raised.value is failure

    def test_numpy_integers_are_lengths_and_threads(self) -> None:
        query = wk.query(by=[], time="t", windows=wk.tumbling(np.int32(10)), aggs=wk.count())
        assert query.run(self.TABLE, threads=np.int64(2))["count(1)"].to_pylist() == [2, 2]

    def test_columns_a_query_does_not_name_may_be_of_any_type_and_name(self) -> None:
        odd = pa.array([{"x": 1}] * 4)
        table = self.TABLE.append_column("odd", odd).append_column("odd", odd).append_column("", odd)
        assert rows(self.QUERY.run(table)) == self.WANTED


def test_large_results_come_in_batches_of_at_most_65536_rows() -> None:
    query = wk.query(by=[], time="t", windows=wk.sliding(200_000, 1), aggs=wk.count())
    table = pa.table({"t": [0, 100_000]})
    for threads in (1, 2):
        sizes = [batch.num_rows for batch in query.batches(table, threads=threads)]
        assert sum(sizes) == 300_000
        assert max(sizes) <= 65_536


def test_ties_keep_the_order_of_rows_over_more_rows_than_are_taken_in_at_once() -> None:
    # Rows up to 4 * batch tie for last. Threads share out 2**22 rows at a time, and remembered values are
    # tidied up every 2**20 rows: neither may decide which row came last.
    batch = 2**20
    times = np.zeros(7 * batch, dtype=np.int64)
    times[4 * batch + 1 :] = -1
    table = pa.table({"t": times, "v": np.arange(len(times))})
    made = wk.query(
        by=[], time="t", windows=wk.sliding(10, 10, start_time=-5), aggs=[wk.first("v"), wk.last("v")]
    )
    for threads in (1, 2):
        reader = pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=batch)))
        got = rows_of(made, made.run(reader, threads=threads))
        assert got == {(-5, 5): [4 * batch + 1, 4 * batch]}, threads


def test_dictionaries_of_numbers_and_times_are_read_as_what_they_hold() -> None:
    times = pa.array([1, 2, None, 12], pa.timestamp("s")).dictionary_encode()
    values = pa.array([1.5, None, 4.0, 2.5]).dictionary_encode()
    query = wk.query(
        by=[], time="t", windows=wk.tumbling("10 seconds"), aggs=[wk.sum("v"), wk.avg("v"), wk.var_pop("v")]
    )
    result = query.run(pa.table({"t": times, "v": values}))
    assert result.schema.field("window_start").type == pa.timestamp("s")
    assert result.drop_columns(["window_start", "window_end"]).to_pylist() == [
        {"sum(v)": 1.5, "avg(v)": 1.5, "var_pop(v)": 0.0},
        {"sum(v)": 2.5, "avg(v)": 2.5, "var_pop(v)": 0.0},
    ]


def test_only_the_columns_of_the_query_are_converted() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
    columns = {"k": ["a", "a"], "t": [1, 2]}
    # Arrow has no type for the column that nobody asked for.
    frame = pd.DataFrame({**columns, "mixed": [1, "a"]})
    relation = duckdb.sql("select 'a' as k, unnest([1, 2]) as t, 'x' as \"the rest\"")
    for data in (frame, relation, pl.DataFrame(columns)):
        assert query.run(data, result="pyarrow").column("count(1)").to_pylist() == [2]
    with pytest.raises(wk.UnknownColumn, match=r"'t'.*there are k, x"):
        query.run(pl.DataFrame({"k": ["a"], "x": [1]}))


@pytest.mark.parametrize("where", ["key of the schema", "value of the schema", "field"])
def test_metadata_that_is_not_text_is_left_out(where: str) -> None:
    """Any library may store bytes there."""
    rows = pa.table({"k": ["a", "b"], "t": [1, 2], "v": [1, 2]})
    if where == "field":
        first, *others = rows.schema
        odd = rows.cast(pa.schema([first.with_metadata({b"own": b"\xfe\xff"}), *others]))
    else:
        odd = rows.replace_schema_metadata(
            {b"\xff": b"own"} if where.startswith("key") else {b"own": b"\xff"}
        )
    query = wk.query(by="k", time="t", windows=wk.tumbling(3), aggs=wk.sum("v"))
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(3))
    join = wk.join(by="k", left_time="t", right_time="t", within=3)
    distinct = wk.distinct("k", time="t", within=3)

    def pushed(table: pa.Table) -> pa.Table:
        op = query.operator(schema=table.schema)
        return pa.concat_tables([op.push(table), op.close()])

    for call in (
        query.run,
        lambda table: query.run(table.to_reader()),
        lambda table: query.run(table.to_batches()[0]),
        pushed,
        rolling.run,
        lambda table: rolling.at(table.select(["k", "t"]), table),
        lambda table: join.run(table, table),
        lambda table: join.operator(table, table).push_left(table),
        distinct.run,
        lambda table: distinct.operator(table).push(table),
    ):
        assert call(odd).to_pylist() == call(rows).to_pylist()
    assert query.explain(odd) == query.explain(rows)
