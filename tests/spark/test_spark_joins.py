"""Joins and duplicates of DataFrames: refused, with a way that works."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import windowkit as wk

TIMES = pa.timestamp("us", "UTC")


def side(seed: int, name: str) -> pa.Table:
    rng = np.random.default_rng(seed)
    times = pa.array(rng.integers(0, 10**9, 500), TIMES)
    return pa.table({"k": rng.choice(["a", "b", "c"], 500), "t": times, name: rng.integers(0, 99, 500)})


def rows_of(table: pa.Table) -> Counter[tuple[object, ...]]:
    """Return the rows of a table, with times in UTC."""
    utc = [column.cast(TIMES) if pa.types.is_timestamp(column.type) else column for column in table.columns]
    return Counter(zip(*(column.to_pylist() for column in utc), strict=True))


def test_a_join_is_refused_and_runs_in_cogroups(spark: SparkSession) -> None:
    left, right = side(1, "v"), side(2, "w")
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second", how="full")
    frames = [spark.createDataFrame(table) for table in (left, right)]
    says = r"left: a Spark DataFrame is given; a join runs in one process.*left.groupBy\(keys\).cogroup"
    with pytest.raises(wk.InvalidType, match=says):
        join.run(*frames)
    with pytest.raises(wk.InvalidType, match="right: a Spark DataFrame is given"):
        join.run(left, frames[1])
    with pytest.raises(wk.InvalidType, match="right: a Spark DataFrame is given"):
        join.schema(left, frames[1])
    with pytest.raises(wk.InvalidType, match="left: a Spark DataFrame is given"):
        join.operator(*frames)
    groups = [frame.groupBy("k") for frame in frames]
    result = (
        groups[0]
        .cogroup(groups[1])
        .applyInPandas(
            lambda a, b: join.run(a, b), "k string, t timestamp, v long, t_right timestamp, w long"
        )
    )
    assert rows_of(result.toArrow()) == rows_of(join.run(left, right))


def test_duplicates_are_refused_and_removed_in_groups(spark: SparkSession) -> None:
    table = side(3, "v")
    distinct = wk.distinct("k", time="t", within="1 second")
    frame = spark.createDataFrame(table)
    with pytest.raises(wk.InvalidType, match=r"data: a Spark DataFrame is given.*data.groupBy\(keys\)"):
        distinct.run(frame)
    with pytest.raises(wk.InvalidType, match="schema: a Spark DataFrame is given"):
        distinct.operator(frame)
    result = frame.groupBy("k").applyInPandas(lambda a: distinct.run(a), frame.schema)
    assert rows_of(result.toArrow()) == rows_of(distinct.run(table))
