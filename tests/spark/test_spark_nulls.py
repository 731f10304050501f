"""Columns of type void: as nulls of the type that they have to have."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

import windowkit as wk
import windowkit.spark

TIME = "timestamp '2026-01-01 00:00:00' + make_dt_interval(0, id)"
QUERIES = {
    "filter": (wk.tumbling("1 hour"), wk.count().where("b").alias("n"), "boolean"),
    "gaps": (wk.session("b"), wk.count().alias("n"), "interval day to second"),
    "marks": (wk.punctuation("b"), wk.count().alias("n"), "boolean"),
    "between": (wk.between("b", "b"), wk.count().alias("n"), "boolean"),
    "values": (wk.tumbling("1 hour"), wk.count_distinct("b").alias("n"), "bigint"),
}


def rows(spark: SparkSession, kind: str, time: str = TIME) -> DataFrame:
    return spark.range(3).selectExpr("id % 2 as `k.k`", f"{time} as ts", f"cast(null as {kind}) as b")


@pytest.mark.parametrize("name", QUERIES)
def test_columns(spark: SparkSession, name: str) -> None:
    windows, aggregate, kind = QUERIES[name]
    query = wk.query(by="k.k", time="ts", windows=windows, aggs=aggregate)
    found, wanted = (query.run(rows(spark, of)) for of in ("void", kind))
    assert found.schema == wanted.schema
    assert sorted(found.collect()) == sorted(wanted.collect())


@pytest.mark.parametrize(
    "windows", [wk.tumbling("1 day", zone="Europe/Paris"), wk.session("1 hour"), wk.tumbling(5)], ids=str
)
def test_times(spark: SparkSession, windows: wk.Window) -> None:
    query = wk.query(by="k.k", time="ts", windows=windows, aggs=wk.count())
    kind = "bigint" if windows == wk.tumbling(5) else "timestamp"
    found, wanted = (query.run(rows(spark, "void", f"cast(null as {of})")) for of in ("void", kind))
    assert found.schema == wanted.schema
    assert found.collect() == wanted.collect() == []
