"""Structs, lists and wide decimals compare as SQL compares them: by parts, nulls first, NaN greatest."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

FLOATS = st.none() | st.sampled_from([-1.5, 0.0, 2.0, math.inf, math.nan])
TEXTS = st.none() | st.sampled_from(["", "a", "ab", "b"])
STRUCTS = st.fixed_dictionaries({"x": FLOATS, "y": TEXTS})
KINDS = {
    "struct": (pa.struct([("x", pa.float64()), ("y", pa.string())]), STRUCTS),
    "struct of dictionary": (
        pa.struct([("x", pa.float64()), ("y", pa.dictionary(pa.int8(), pa.string()))]),
        STRUCTS,
    ),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(-2, 2), max_size=3)),
    "large list of structs": (
        pa.large_list(pa.struct([("x", pa.float32()), ("y", pa.string())])),
        st.lists(STRUCTS, max_size=2),
    ),
    "fixed-size list": (pa.list_(pa.string(), 2), st.lists(TEXTS, min_size=2, max_size=2)),
    "decimal256": (pa.decimal256(50, 2), st.integers(-(10**49), 10**49).map(lambda n: Decimal(n).scaleb(-2))),
}


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return an array; of null structs pyarrow itself makes codes that their dictionary does not have."""
    if kind != KINDS["struct of dictionary"][0]:
        return pa.array(values, kind)
    plain = pa.array(values, KINDS["struct"][0])
    children = [plain.field("x"), plain.field("y").dictionary_encode().cast(kind.field("y").type)]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=plain.is_null())


def order(value: Any) -> tuple[Any, ...]:
    """Return what compares as the value does in SQL."""
    if value is None:
        return (0,)
    if isinstance(value, dict):
        return (1, *map(order, value.values()))
    if isinstance(value, list):
        return (1, *map(order, value))
    if isinstance(value, float):
        return (1, 1, 0.0) if math.isnan(value) else (1, 0, value)
    return (1, value)


def naive(rows: list[tuple[Any, int]]) -> dict[str, Any]:
    """Return what the functions make of values and numbers in their order."""
    values = [value for value, _ in rows if value is not None]
    counts = Counter(order(value) for value in values)
    ascending = sorted({order(value): value for value in values}.items())
    frequent = sorted(ascending, key=lambda item: -counts[item[0]])
    by = [row for row in rows if row[0] is not None]
    return {
        "min": ascending[0][1] if values else None,
        "max": ascending[-1][1] if values else None,
        "ties": counts[ascending[-1][0]] if values else None,
        "mode": frequent[0][1] if values else None,
        "distinct": len(ascending),
        "set": [value for _, value in ascending],
        "top": [{"value": value, "count": counts[key]} for key, value in frequent[:2]],
        "at": max(by, key=lambda row: order(row[0]))[1] if by else None,
        "middle": sorted(values, key=order)[(len(values) + 1) // 2 - 1] if values else None,
    }


AGGS = [
    wk.min("v").alias("min"),
    wk.max("v").alias("max"),
    wk.max_count("v").alias("ties"),
    wk.mode("v").alias("mode"),
    wk.count_distinct("v").alias("distinct"),
    wk.collect_set("v").alias("set"),
    wk.top_k("v", 2).alias("top"),
    wk.arg_max("n", "v").alias("at"),
    wk.quantile("v", 0.5, discrete=True).alias("middle"),
]


def plain(row: dict[str, Any]) -> str:
    """Return a row in a form in which NaN equals NaN."""
    return repr({agg.name: row[agg.name] for agg in AGGS})


@pytest.mark.parametrize(("kind", "strategy"), KINDS.values(), ids=KINDS)
@given(data=st.data())
def test_values_with_parts_have_an_order(kind: pa.DataType, strategy: Any, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | strategy, min_size=1, max_size=30))
    table = pa.table(
        {
            "t": pa.array(range(len(values)), pa.int64()),
            "v": array(values, kind),
            "n": pa.array(range(len(values)), pa.int64()),
        }
    )
    query = wk.query(by=[], time="t", windows=wk.sliding(8, 4), aggs=AGGS)
    rows = [(value, number) for number, value in enumerate(table["v"].to_pylist())]
    wanted = {
        start: plain(naive([row for row in rows if start <= row[1] < start + 8]))
        for start in range(-4, len(rows), 4)
    }
    op = query.operator(order="out-of-order")
    pushed = pa.concat_tables([op.push(table[at : at + 7]) for at in range(0, len(rows), 7)] + [op.close()])
    restored = query.operator(order="out-of-order")
    restored.push(table)
    restored = wk.Operator.restore(restored.snapshot(), query)
    for result in (query.run(table), pushed, restored.close()):
        result.validate(full=True)
        assert {row["window_start"]: plain(row) for row in result.to_pylist()} == wanted
    rolling = wk.rolling(by=[], time="t", aggs=[agg.over("4 rows").alias(agg.name) for agg in AGGS])
    for at, row in enumerate(rolling.run(table).to_pylist()):
        assert plain(row) == plain(naive(rows[max(at - 3, 0) : at + 1]))


@pytest.mark.parametrize(
    "kind",
    [
        pa.map_(pa.string(), pa.int64()),
        pa.struct([("m", pa.map_(pa.string(), pa.int64()))]),
        pa.list_(pa.month_day_nano_interval()),
        pa.struct([("b", pa.binary(0))]),
    ],
    ids=str,
)
def test_what_has_no_order_is_refused(kind: pa.DataType) -> None:
    table = pa.table({"t": pa.array([1], pa.int64()), "v": pa.nulls(1, kind)})
    with pytest.raises(wk.InvalidType, match="max is not defined for column 'v' of type"):
        wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.max("v")).run(table)


DEEP = {
    "struct in struct": lambda at: {"x": {"a": at}},
    "struct in fixed-size list": lambda at: [{"a": at}],
    "struct of a list of structs in structs": lambda at: {"x": [{"y": {"a": at}}]},
}
DEEP_TYPES = {
    "struct in struct": pa.struct({"x": pa.struct({"a": pa.int64()})}),
    "struct in fixed-size list": pa.list_(pa.struct({"a": pa.int64()}), 1),
    "struct of a list of structs in structs": pa.struct(
        {"x": pa.list_(pa.struct({"y": pa.struct({"a": pa.int64()})}))}
    ),
}


@pytest.mark.parametrize("case", DEEP)
def test_slices_of_structs_within_structs(case):
    """The core's Arrow slices such structs twice, and the second slice may begin beyond the first."""
    rows = [{"t": at, "k": at % 2, "v": None if at == 3 else DEEP[case](at)} for at in range(8)]
    table = pa.Table.from_pylist(
        rows, schema=pa.schema({"t": pa.int64(), "k": pa.int64(), "v": DEEP_TYPES[case]})
    )
    values = wk.query(by="k", time="t", windows=wk.tumbling(100), aggs=wk.collect_list("v").alias("all"))
    wanted = {
        key: [row["v"] for row in rows[2:7] if row["k"] == key and row["v"] is not None] for key in (0, 1)
    }

    def found(result):
        return {row["k"]: row["all"] for row in result.to_pylist()}

    part = table.slice(2, 5)
    reader = pa.RecordBatchReader.from_batches(part.schema, part.to_batches(max_chunksize=2))
    for data in (part, part.to_batches()[0], reader, pa.concat_tables([part.slice(0, 2), part.slice(2)])):
        assert found(values.run(data)) == wanted
    op = values.operator()
    for batch in part.to_batches(max_chunksize=2):
        op.push(batch)
    op.push(part.slice(5))
    assert found(op.close()) == wanted
    distinct = wk.distinct("v", time="t", within=10).operator(table.schema)
    come = [distinct.push(batch) for batch in part.to_batches(max_chunksize=2)] + [distinct.close()]
    assert [row["v"] for result in come for row in result.to_pylist()] == [row["v"] for row in rows[2:7]]
    join = wk.join(by="v", left_time="t", right_time="t", within=0)
    assert join.run(part, table.slice(1)).num_rows == 4
    ops = join.operator(table.schema, table.schema)
    pairs = ops.push_left(part).num_rows + ops.push_right(table.slice(1)).num_rows + ops.close().num_rows
    assert pairs == 4
