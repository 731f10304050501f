"""Columns that nobody reads, of which Arrow holds nothing: schemas, explanations and streams of frames."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk

PLAIN = {"k": ["a", "a", "b"], "t": [1, 2, 13], "v": [1, 2, 4]}
ODD: dict[str, list[Any]] = {"z": [1j, 2j, 3j], "mixed": [1, "x", {2}]}


def pandas_frame() -> pd.DataFrame:
    made = pd.DataFrame({**ODD, **PLAIN, "s": list("xyz")})
    twice = pd.DataFrame([[1, 2]] * 3, columns=["twice", "twice"])
    return pd.concat([made, twice], axis=1)


def polars_frame() -> pl.DataFrame:
    odd = pl.Series("odd", [1, 2, 3], pl.Int128)
    return pl.DataFrame([odd, *(pl.Series(name, values) for name, values in PLAIN.items())])


FRAMES = [pandas_frame, polars_frame]
ROLLING = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s5"))
JOIN = wk.join(by="k", left_time="t", right_time="t", within=5)
DISTINCT = wk.distinct(by="k", time="t", within=5)


@pytest.mark.parametrize("make", FRAMES)
def test_a_schema_has_null_for_what_arrow_does_not_hold(make: Callable[[], Any]) -> None:
    frame = make()
    names = list(frame.columns)
    for schema in (ROLLING.schema(frame), DISTINCT.schema(frame)):
        assert schema.names[: len(names)] == names
        odd = {field.name for field in schema if pa.types.is_null(field.type)}
        assert odd == set(names) - {"k", "t", "v", "s"}
        assert schema.field("v").type == pa.int64()
    other = pa.table({"k": ["a"], "t": [1], "w": [0.5]})
    chosen = wk.join(by="k", left_time="t", right_time="t", within=5, left_columns=["k", "v"])
    assert chosen.schema(frame, other).names == ["k", "v", "t", "w"]
    assert chosen.run(frame, other).shape == (2, 4)
    right = wk.join(by="k", left_time="t", right_time="t", within=5, right_columns="v")
    assert right.schema(other, frame).names == ["k", "t", "w", "v"]


@pytest.mark.parametrize("make", FRAMES)
def test_explain_takes_what_run_takes(make: Callable[[], Any]) -> None:
    frame = make()
    assert "  v: int64" in DISTINCT.explain(frame).splitlines()
    assert "s5: int64" in ROLLING.explain(frame)
    other = pa.table({"k": ["a"], "t": [1]})
    chosen = wk.join(by="k", left_time="t", right_time="t", within=5, left_columns=["k", "v"])
    assert "  v: int64" in chosen.explain(frame, other)


@pytest.mark.parametrize("make", FRAMES)
@pytest.mark.parametrize("known", [False, True])
def test_a_stream_leaves_out_what_arrow_does_not_hold(make: Callable[[], Any], known: bool) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("n"))
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()}) if known else None
    op = query.operator(schema=schema)
    made = op.push(make()).to_pylist() + op.push(make().tail(1)).to_pylist()
    made += op.advance(100).to_pylist()
    assert sorted((row["k"], row["n"]) for row in made) == [("a", 3), ("b", 8)]


def test_what_is_read_is_refused_by_its_name() -> None:
    frame = pandas_frame()
    for call in (
        lambda: wk.rolling(by="mixed", time="t", aggs=wk.count().over(5)).schema(frame),
        lambda: wk.distinct(by="mixed", time="t", within=5).schema(frame),
        lambda: wk.join(by="mixed", left_time="t", right_time="t", within=5).schema(frame, frame),
        lambda: (
            wk.query(by="mixed", time="t", windows=wk.tumbling(5), aggs=wk.count()).operator().push(frame)
        ),
    ):
        with pytest.raises(
            wk.WindowKitError, match="column 'mixed': it is of pandas, and Arrow does not hold it"
        ):
            call()
    # The rows of these streams are results as they are: nothing is left out of them.
    with pytest.raises(wk.WindowKitError, match="schema: it has 2 columns 'twice', and Arrow finds"):
        DISTINCT.operator(frame)
    frame = frame.drop(columns="twice")
    with pytest.raises(wk.WindowKitError, match="Arrow does not hold it"):
        DISTINCT.operator(frame)
    with pytest.raises(wk.WindowKitError, match="Arrow does not hold it"):
        JOIN.operator(frame, frame)


def test_a_policy_reads_its_columns() -> None:
    frame = pd.DataFrame({"z": [1j, 2j], "t": [1, 2], "fires": [False, True]})
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(emit=wk.emit(wk.on("fires")))
    assert op.push(frame)["n"].to_pylist() == [2]


ASKED: dict[str, Callable[[pa.Table], Any]] = {
    "rolling": ROLLING.run,
    "distinct": DISTINCT.run,
    "join": lambda table: JOIN.run(table, table),
    "query": wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.sum("v")).run,
    "stream": lambda table: DISTINCT.operator(table.schema).push(table),
    "stream of a join": lambda table: JOIN.operator(table.schema, table.schema).push_left(table),
    "stream of a query": (
        lambda table: (
            wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.sum("v"))
            .operator(schema=table.schema)
            .push(table)
        )
    ),
}


@pytest.mark.parametrize("asked", ASKED)
def test_a_name_with_a_nul_is_refused(asked: str) -> None:
    """Arrow's interface between libraries cuts it there, where it may be the name of another column."""
    for name in ("v\0x", "x\0y"):
        told = re.escape(f"column {name!r} has a NUL in its name, where Arrow cuts it; rename it")
        with pytest.raises(wk.InvalidValue, match=told):
            ASKED[asked](pa.table({**PLAIN, name: [8, 8, 8]}))
