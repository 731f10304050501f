"""Random tables of Parquet files, read through random DataFrames: tasks read the rows that Spark reads."""

from __future__ import annotations

from random import Random

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import windowkit as wk
import windowkit.spark
from support.parquet_tables import condition_of, read, table_of
from support.spark import assert_equal, rows_of

pytestmark = pytest.mark.usefixtures("files_are_read", "nan_is_read")
SEEDS = range(32)


def narrowed(chance, frame, columns):
    """Return a DataFrame on top of the table, and what it calls the key, the time and the value."""
    there = frame.columns
    for _ in range(chance.choice([0, 1, 1, 2])):
        frame = frame.where(condition_of(chance, there, columns))
    key = chance.choice(["k", "k", "text", *columns])
    value = chance.choice([name for name in ("v", "money", "row") if name in there])
    key = key if key in there else "k"
    if chance.random() < 0.3:
        frame = frame.withColumn("computed", frame["k"] + 1)
    if chance.random() < 0.5:
        frame = frame.select(frame[key].alias("key"), "T", frame[value.upper()].alias("a.b"))
        if chance.random() < 0.3:
            frame = frame.where(chance.choice(["`a.b` > 1", "key is not null"]))
        return frame.withColumnRenamed("T", "at"), "key", "at", "a.b"
    return frame, key, "t", value


def windows_of(chance):
    size = f"{chance.choice([10, 20])} seconds"
    return chance.choice([wk.tumbling(size), wk.sliding("20 seconds", "5 seconds"), wk.session("4 seconds")])


TAKEN: list[bool] = []


@pytest.mark.parametrize("seed", SEEDS)
def test_random_tables(spark, tmp_path, seed):
    chance = Random(f"tables {seed}")
    columns, may_merge = table_of(chance, tmp_path / "table")
    name = f"random_table_{seed}"
    try:
        frame = read(spark, chance, str(tmp_path / "table"), columns, may_merge, name)
        frame, key, time, value = narrowed(chance, frame, columns)
        query = wk.query(
            by=key,
            time=time,
            windows=windows_of(chance),
            aggs=[wk.count(), wk.sum(value), wk.max(value), wk.min(value)],
        )
        found, explained = query.run(frame), query.explain(frame)
        TAKEN.append("\nroute: scan" in explained)
        assert found.schema == query.run(frame, route="rows").schema
        try:
            oracle = rows_of(windowkit.spark.reference(frame, query), query)
        except (PySparkException, Py4JError):
            with pytest.raises((PySparkException, Py4JError)):
                found.collect()
        else:
            assert_equal(rows_of(found, query), oracle, 1e-9, explained)
    finally:
        spark.sql(f"drop view if exists {name}_view")
        spark.sql(f"drop table if exists {name}")


def test_most_of_them_are_read_by_tasks():
    assert len(TAKEN) < len(SEEDS) or 0.5 < sum(TAKEN) / len(TAKEN) < 1
