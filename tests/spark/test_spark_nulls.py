"""Columns of type void: as nulls of the type that they have to have."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
@pytest.mark.parametrize("key", ["'a'", "nullif('a', 'b')"])
def test_keys_of_joins(spark: SparkSession, key: str, how: Any) -> None:
    """As Spark's own join has them; its void key is cast, as the result's is."""
    side = spark.sql(f"select {key} as k, 1L as ts")
    of_nulls = spark.sql("select null as k, 1L as ts")
    join = wk.join(by="k", left_time="ts", right_time="ts", within=1, how=how)
    typed = of_nulls.selectExpr("cast(k as string) as k", "ts")
    for left, right in [(of_nulls, side), (side, of_nulls)]:
        own = [typed if each is of_nulls else each for each in (left, right)]
        assert sorted(map(str, join.run(left, right).collect())) == sorted(map(str, join.run(*own).collect()))
    spark_own = typed.join(side, "k", how).select("k").collect()
    assert sorted(map(str, join.run(of_nulls, side).select("k").collect())) == sorted(map(str, spark_own))
