"""Columns of nulls without a type, as an empty day has them: as good as nulls of any type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from support.streams import AGGREGATES
from windowkit import kernels

TIMES = {"k": ["a", "a", "b", None], "t": [1, 2, 7, 8]}
COLUMNS = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_()}
"""The columns of the aggregates, and their types."""


def of(typed: bool, *besides: str) -> pa.Table:
    """Return rows of nulls, of the aggregates' types or of none but for those of columns that are named."""
    kinds = {name: kind if typed or name in besides else pa.null() for name, kind in COLUMNS.items()}
    return pa.table({**TIMES, **{name: pa.nulls(4, kind) for name, kind in kinds.items()}})


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def run(query: wk.Query, table: pa.Table) -> pa.Table:
    return query.run(table)


def stream(query: wk.Query, table: pa.Table) -> pa.Table:
    op = query.operator(order="out-of-order", progress=wk.delay(100), schema=table.schema)
    op.push(table.slice(0, 2))
    op = wk.Operator.restore(op.snapshot(), query)
    op.push(table.slice(2))
    return op.close()


@pytest.mark.parametrize("way", [run, stream])
@pytest.mark.parametrize("windows", [wk.sliding(10, 5), wk.tumbling(rows=2)], ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_aggregates(
    aggregate: wk.Aggregate, windows: wk.Window, way: Callable[[wk.Query, pa.Table], pa.Table]
) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=aggregate.alias("x"))
    # Filters are conditions, and so booleans.
    found, wanted = way(query, of(False, "b")), way(query, of(True))
    assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())


@pytest.mark.parametrize("aggregate", [each for each in AGGREGATES if each.condition is None], ids=str)
def test_rolling_aggregates(aggregate: wk.Aggregate) -> None:
    rolling = wk.rolling(by="k", time="t", aggs=aggregate.over("2 rows").alias("x"))
    assert rolling.run(of(False)).to_pylist() == rolling.run(of(True)).to_pylist()


def test_types_are_those_that_spark_has() -> None:
    """Of ``select sum(null), avg(null), max(null), count(null)``: double, double, void, bigint."""
    aggs = [wk.sum("f"), wk.mean("f"), wk.max("f"), wk.count("f")]
    result = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(of(False))
    assert result.schema.types[1:] == [pa.float64(), pa.float64(), pa.null(), pa.int64()]
    assert result.select(range(1, 5)).to_pylist() == [
        {"sum(f)": None, "avg(f)": None, "max(f)": None, "count(f)": 0}
    ]


def test_kernels() -> None:
    names = ("sum", "mean", "min", "max", "std", "var", "argmin", "argmax", "first", "last", "count")
    for name in names:
        function = getattr(kernels, f"sliding_{name}")
        wanted = function(pa.nulls(5, pa.float64()), 3)
        assert function(pa.nulls(5), 3).to_pylist() == wanted.to_pylist(), name


KEYS = {
    "int64": pa.array([3, None]),
    "string": pa.array(["x", None]),
    "large_string": pa.array(["x", None], pa.large_string()),
    "dictionary": pa.array(["x", None]).dictionary_encode(),
    "struct": pa.array([{"a": 1}, None]),
    "null": pa.nulls(2),
}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_left", [True, False])
def test_keys_of_a_join(how: Any, kind: str, is_left: bool) -> None:
    keys = KEYS[kind]
    typed = pa.table({"k": keys, "t": [1, 2], "b": [5, 6]})

    def joined(nulls: pa.Array) -> pa.Table:
        other = pa.table({"k": nulls, "t": [1, 2], "a": [1, 2]})
        sides = (other, typed) if is_left else (typed, other)
        return wk.join(by="k", left_time="t", right_time="t", within=5, how=how).run(*sides)

    found, wanted = joined(pa.nulls(2)), joined(pa.nulls(2, keys.type))
    assert sorted(found.to_pylist(), key=repr) == sorted(wanted.to_pylist(), key=repr)
    # Where the result has keys of the other side, it has their type.
    assert found.schema.field("k").type in (pa.null(), wanted.schema.field("k").type)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("of_labels", [True, False])
def test_keys_of_labels_and_events(kind: str, of_labels: bool) -> None:
    features = wk.rolling(by="k", time="t", aggs=wk.sum("b").over("unbounded"))
    keys = KEYS[kind]

    def found(nulls: pa.Array) -> list[dict[str, Any]]:
        own, its = (nulls, keys) if of_labels else (keys, nulls)
        labels, events = pa.table({"k": own, "t": [3, 4]}), pa.table({"k": its, "t": [1, 2], "b": [5, 6]})
        return features.at(labels, events).to_pylist()

    rows = found(pa.nulls(2))
    assert rows == found(pa.nulls(2, keys.type))
    # A null key is a group, as in all queries.
    assert rows[1]["sum(b) OVER (unbounded)"] is not None


def test_keys_of_queries_and_of_distinct() -> None:
    table = pa.table({"k": pa.nulls(3), "t": [1, 2, 30]})
    (first, second) = (
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count()).run(table).to_pylist()
    )
    assert (first["k"], first["count(1)"], second["count(1)"]) == (None, 2, 1)
    assert wk.distinct("k", time="t", within=5).run(table)["t"].to_pylist() == [1, 30]
