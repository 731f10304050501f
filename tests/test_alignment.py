"""Batches of a stream: columns by name, types that hold the same values, and where an operator is let go."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

QUERY = wk.query(
    by="k", time="t", windows=wk.tumbling("1 minute"), aggs=[wk.sum("v"), wk.last("note").alias("note")]
)
SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "t": pa.timestamp("us", "UTC"),
        "v": pa.int64(),
        "note": pa.dictionary(pa.int8(), pa.string()),
    }
)
UTC = datetime.timezone.utc


def rows(**changed: pa.Array) -> pa.Table:
    table = pa.table(
        {"k": ["a"], "t": pa.array([1_000_000], SCHEMA.field("t").type), "v": [7], "note": ["n"]}
    )
    table = table.cast(SCHEMA)
    for name, column in changed.items():
        table = table.set_column(SCHEMA.get_field_index(name), name, column)
    return table


def emitted(*batches: Any) -> list[dict[str, Any]]:
    """What a stream of this schema says of batches, with the rows that were too late."""
    op = QUERY.operator(order="out-of-order", schema=SCHEMA)
    for batch in batches:
        op.push(batch)
    assert op.take_late().schema.names == [*SCHEMA.names, "late_reason"]
    return op.close().to_pylist()


WANTED = emitted(rows())

CASTS = {
    "a large string": rows(k=pa.array(["a"], pa.large_string())),
    "a view of a string": rows(k=pa.array(["a"], pa.string_view())),
    "a dictionary": rows(k=pa.array(["a"]).dictionary_encode()),
    "no dictionary": rows(note=pa.array(["n"])),
    "another dictionary": rows(note=pa.array(["n"], pa.large_string()).dictionary_encode()),
    "seconds": rows(t=pa.array([1], pa.timestamp("s", "UTC"))),
    "nanoseconds": rows(t=pa.array([10**9], pa.timestamp("ns", "UTC"))),
    "another zone": rows(t=pa.array([10**6], pa.timestamp("us", "Asia/Tokyo"))),
    "a narrow integer": rows(v=pa.array([7], pa.int8())),
    "an unsigned integer": rows(v=pa.array([7], pa.uint64())),
    "a float": rows(v=pa.array([7.0])),
    "a narrow float": rows(v=pa.array([7.0], pa.float32())),
    "another order": rows().select(["note", "v", "t", "k"]),
    "another column": rows().append_column("x", pa.array([None])),
    "several changes": rows(v=pa.array([7.0]))
    .append_column("x", pa.array([1]))
    .select(["x", "v", "t", "note", "k"]),
}


@pytest.mark.parametrize("batch", CASTS.values(), ids=CASTS)
def test_columns_are_found_by_name_and_keep_their_values(batch: pa.Table) -> None:
    assert emitted(batch) == WANTED
    # And whatever was before and comes next.
    assert emitted(rows(), batch, rows())[0]["sum(v)"] == 21


@pytest.mark.parametrize("own", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_dictionaries_of_views(own: pa.DataType) -> None:
    """As Polars hands over categories."""
    codes, texts = pa.array([1, None, 0, 1], pa.uint32()), pa.array(["b", "a"], pa.string_view())
    batch = pa.table({"k": pa.DictionaryArray.from_arrays(codes, texts), "t": pa.array([1, 2, 3, 4])})
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(schema=pa.schema({"k": own, "t": pa.int64()}))
    op.push(batch)
    found = op.close()
    assert found.schema.field("k").type == own
    assert sorted(zip(found["k"].to_pylist(), found["n"].to_pylist(), strict=True), key=str) == [
        ("a", 2),
        ("b", 1),
        (None, 1),
    ]


def test_a_first_batch_of_nulls_leads_to_a_schema() -> None:
    op = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count("v")).operator()
    op.push(pa.table({"t": [1], "v": pa.nulls(1)}))
    with pytest.raises(wk.InvalidType, match=r"has null; .*; give the operator a schema where a first"):
        op.push(pa.table({"t": [2], "v": [1.5]}))


@pytest.mark.parametrize("column", ["k", "v", "note"])
def test_a_column_of_nulls_has_any_type(column: str) -> None:
    nulls = emitted(rows(**{column: pa.nulls(1)}))
    typed = emitted(rows(**{column: pa.nulls(1, SCHEMA.field(column).type)}))
    assert nulls == typed


def test_times_of_nulls_are_rows_without_time() -> None:
    op = QUERY.operator(schema=SCHEMA)
    op.push(rows(t=pa.nulls(1)))
    assert op.take_late()["late_reason"].to_pylist() == ["null time"]


OTHER_TYPES: dict[str, tuple[pa.DataType, pa.DataType, list[Any], list[Any]]] = {
    "decimals": (pa.decimal128(10, 2), pa.decimal128(5, 1), [Decimal("1.5")], [Decimal("1.50")]),
    "durations": (pa.duration("us"), pa.duration("s"), [1], [datetime.timedelta(seconds=1)]),
    "dates": (pa.date32(), pa.date64(), [datetime.date(2026, 1, 2)], [datetime.date(2026, 1, 2)]),
    "times": (pa.time64("us"), pa.time32("s"), [datetime.time(1)], [datetime.time(1)]),
    "bytes": (pa.binary(), pa.binary_view(), [b"x"], [b"x"]),
    "lists": (pa.list_(pa.int64()), pa.large_list(pa.int32()), [[1, None], None], [[1, None], None]),
    "floats": (pa.float64(), pa.float32(), [0.5, float("inf")], [0.5, float("inf")]),
    "integers as floats": (pa.float64(), pa.int64(), [2**53], [2.0**53]),
    "texts of dictionaries": (pa.large_string(), pa.dictionary(pa.int8(), pa.string()), ["x"], ["x"]),
}


@pytest.mark.parametrize(("own", "other", "values", "wanted"), OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_other_types(own: pa.DataType, other: pa.DataType, values: list[Any], wanted: list[Any]) -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.collect_list("v").alias("v"))
    op = query.operator(schema=pa.schema({"t": pa.int64(), "v": own}))
    op.push(pa.table({"t": list(range(len(values))), "v": pa.array(values, other)}))
    typed = query.operator(schema=pa.schema({"t": pa.int64(), "v": own}))
    typed.push(pa.table({"t": list(range(len(values))), "v": pa.array(wanted, own)}))
    assert op.close() == typed.close()


REFUSED = {
    "a fraction": (
        rows(v=pa.array([1.5])),
        wk.InvalidValue,
        "column 'v' has a value that int64 does not hold",
    ),
    "not a number": (rows(v=pa.array([float("nan")])), wk.InvalidValue, "column 'v' has a value that int64"),
    "a large integer": (rows(v=pa.array([2**63], pa.uint64())), wk.InvalidValue, "column 'v' has a value"),
    "finer times": (
        rows(t=pa.array([1], pa.timestamp("ns", "UTC"))),
        wk.InvalidValue,
        "column 't' has a value",
    ),
    "too many categories": (
        rows(note=pa.array(["n"]))
        .take([0] * 200)
        .set_column(3, "note", pa.array([str(i) for i in range(200)])),
        wk.InvalidValue,
        "column 'note' has a value",
    ),
    "a local time": (
        rows(t=pa.array([1], pa.timestamp("us"))),
        wk.InvalidType,
        r"column 't' has type timestamp\[us\], ",
    ),
    "a number for a time": (
        rows(t=pa.array([1])),
        wk.InvalidType,
        "column 't' has type int64, but that of the",
    ),
    "a text for a number": (
        rows(v=pa.array(["7"])),
        wk.InvalidType,
        "column 'v' has type string, but that of",
    ),
    "bytes for a text": (rows(k=pa.array([b"a"])), wk.InvalidType, "column 'k' has type binary"),
    "a column is missing": (
        rows().drop_columns("note").append_column("Note", pa.array(["n"])),
        wk.UnknownColumn,
        "batch: no column 'note', which the stream has; there are k, t, v, Note; did you mean 'Note'",
    ),
    "a column is there twice": (
        rows().append_column("v", pa.array([1])),
        wk.InvalidValue,
        "batch: it has 2 columns 'v'",
    ),
}


@pytest.mark.parametrize(("batch", "kind", "message"), REFUSED.values(), ids=REFUSED)
def test_what_would_change_is_refused_and_has_no_effect(batch: pa.Table, kind: type, message: str) -> None:
    op = QUERY.operator(order="out-of-order", schema=SCHEMA)
    op.push(rows())
    # Also where the first batches of a push fit.
    for data in (batch, pa.RecordBatchReader.from_batches(batch.schema, batch.to_batches())):
        with pytest.raises(kind, match=message):
            op.push(data)
    assert op.stats().rows == 1
    assert op.close().to_pylist() == WANTED


def test_batches_come_from_any_library_in_turn() -> None:
    """The first batch is of pandas, whose types are others than those of the rest."""
    moments = [datetime.datetime.fromtimestamp(second, UTC) for second in range(4)]
    op = QUERY.operator(order="out-of-order")
    op.push(pd.DataFrame({"k": ["a"], "t": moments[:1], "v": [1], "note": pd.Categorical(["n"])}))
    op.push(pl.DataFrame({"note": ["n"], "t": moments[1:2], "v": [2], "k": ["a"], "x": [None]}))
    op.push(
        pd.DataFrame(
            {"v": [3.0, None], "k": ["a", "a"], "t": moments[2:4], "note": [None, "n"], "y": [{1}, 2]}
        )
    )
    op.push(
        duckdb.sql("select 'a' as k, timestamptz '1970-01-01 00:00:05+00' as t, 4::tinyint as v, 'm' as note")
    )
    (row,) = op.close().to_pylist()
    assert (row["sum(v)"], row["note"]) == (10, "m")


def test_processing_time_has_columns_by_name_too() -> None:
    query = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 minute"), aggs=wk.sum("v"))
    op = query.operator(clock=lambda: 0)
    op.push(pa.table({"k": ["a"], "v": [1]}))
    op.push(pa.table({"x": [None], "v": pa.array([2.0]), "k": pa.array(["a"], pa.large_string())}))
    assert op.close()["sum(v)"].to_pylist() == [3]


@given(st.lists(st.floats(width=64) | st.integers(-(2**60), 2**60).map(float), min_size=1, max_size=4))
def test_floats_become_integers_only_if_they_are(values: list[float]) -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.collect_list("v").alias("v"))
    op = query.operator(schema=pa.schema({"t": pa.int64(), "v": pa.int64()}))
    batch = pa.table({"t": list(range(len(values))), "v": pa.array(values, pa.float64())})
    if all(value.is_integer() and -(2**63) <= value < 2**63 for value in values):
        op.push(batch)
        assert op.close()["v"].to_pylist() == [[int(value) for value in values]]
    else:
        with pytest.raises(wk.InvalidValue, match="column 'v' has a value"):
            op.push(batch)


class TestWith:
    def test_a_block_lets_go(self) -> None:
        with QUERY.operator(schema=SCHEMA) as op:
            op.push(rows())
            assert op.close().num_rows == 1
        for call in (
            op.close,
            op.peek,
            op.take_late,
            op.stats,
            op.explain,
            op.snapshot,
            lambda: op.push(rows()),
        ):
            with pytest.raises(wk.InvalidValue, match="the operator was released where its with block ended"):
                call()
        for name in ("watermark", "watermark_out", "queries", "late", "schema"):
            with pytest.raises(wk.InvalidValue, match=rf"(stats|{name}): the operator was released"):
                getattr(op, name)

    def test_nothing_is_returned_that_would_be_lost(self) -> None:
        with QUERY.operator() as op:
            snapshot = None
            op.push(rows())
            snapshot = op.snapshot()
        assert wk.Operator.restore(snapshot, QUERY).close().to_pylist() == WANTED

    def test_an_error_within_passes(self) -> None:
        with pytest.raises(RuntimeError, match="own"), QUERY.operator() as op:
            raise RuntimeError("own")
        with pytest.raises(wk.InvalidValue, match="released"):
            op.push(rows())


def test_an_operator_shows_itself() -> None:
    op = QUERY.operator(order="out-of-order", emit=wk.emit(wk.rows(5)))
    said = "by k over t; q1: tumbling(1 minute); sum(v), last(note) as note; emit(rows(5))"
    assert repr(op) == f"<windowkit.Operator out-of-order {said}>"
    op.add(wk.query(by="k", time="t", windows=wk.session(5), aggs=wk.count()), name="visits")
    assert repr(op) == f"<windowkit.Operator out-of-order {said}; visits: session(5); count(*)>"
    assert "<th>visits</th><td><code>session(5); count(*)</code>" in op._repr_html_()
    assert op.explain()._repr_html_().startswith("<pre>stream operator")  # type: ignore[attr-defined]
    op.close()
    assert repr(op).endswith(", closed>")
    with op:
        pass
    assert repr(op).endswith(", released>")
    assert "<code>released</code>" in op._repr_html_()
