"""Random calls of `windowkit.spark.scan`, by paths and by names, beside the same over Spark's DataFrames."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow.compute as pc
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.parquet_tables import table_of
from support.spark import assert_equal, rows_of

FILTERS: list[tuple[Any, str]] = [
    *((None, "true"),) * 3,
    ([("k", ">", 1)], "k > 1"),
    ([("K", "in", [0, 2]), ("money", "<", 1)], "k in (0, 2) and money < 1"),
    ([[("money", ">=", 2)], [("row", "<", 60)]], "money >= 2 or row < 60"),
    ([("row", ">=", "20")], "row >= 20"),
    (pc.field("row") < 70, "row < 70"),
    ([("FLAG", "=", True), ("k", "<", 2)], "flag and k < 2"),
    ([[("flag", "in", [False])], [("flag", "=", True), ("row", "<", 50)]], "not flag or (flag and row < 50)"),
]
KEYS = ("k", "money", "flag", None)
AGGS = (wk.count(), wk.max("money"), wk.sum("row"))


def named(spark: SparkSession, chance: Random, path: str, name: str) -> str:
    """Return a path, or the name of a table or view of its files."""
    how = chance.choice(["path", "table", "table", "partitioned", "view"])
    if how == "path":
        return path
    spark.sql(f"create table {name} using parquet options (path '{path}')")
    if how == "view":
        spark.sql(f"create temporary view {name}_view as select *, k as again from {name} where row < 90")
        return f"{name}_view"
    if how == "partitioned":
        try:
            spark.sql(
                f"create table {name}_own using parquet partitioned by (flag) location '{path}_own' as "
                f"select * from {name}"
            )
        except (PySparkException, Py4JError):
            # Spark cannot read all of its files.
            return name
        return f"{name}_own"
    return chance.choice([name, f"spark_catalog.default.{name}"])


def dropped(spark: SparkSession, name: str) -> None:
    """Drop what `named` has made."""
    spark.sql(f"drop view if exists {name}_view")
    spark.sql(f"drop table if exists {name}_own")
    spark.sql(f"drop table if exists {name}")


def frame_of(spark: SparkSession, where: str, condition: str) -> DataFrame:
    frame = spark.read.parquet(where) if "/" in where else spark.table(where)
    return frame.where(condition)


def checked(spark: SparkSession, chance: Random, folder: Path, name: str) -> int:
    """Assert that a random scan has the rows of Spark's DataFrames; return how many tables tasks read."""
    names = [f"{name}_{number}" for number in range(2)]
    try:
        given, filters, frames = [], [], []
        for each in names:
            table_of(chance, folder / each)
            given.append(named(spark, chance, str(folder / each), each))
            filters.append(chance.choice(FILTERS))
            frames.append(frame_of(spark, given[-1], filters[-1][1]))
        return compared(spark, chance, given, filters, frames)
    finally:
        for each in names:
            dropped(spark, each)


def compared(
    spark: SparkSession,
    chance: Random,
    given: list[str],
    filters: list[tuple[Any, str]],
    frames: list[DataFrame],
) -> int:
    one, two = {"filter": filters[0][0]}, {"filter": filters[0][0], "other_filter": filters[1][0]}
    how = chance.choice(["query", "rolling", "join", "join", "labels", "distinct"])
    by = chance.choice(KEYS)
    keys = [] if by is None else by
    more: dict[str, Any] = {}
    asked: Any
    oracle: Callable[[], DataFrame]
    if how == "query":
        where = chance.choice([None, "window_start > '1970-01-01 01:00:20'", "`max(money)` > 1"])
        if by == "flag":
            where = "flag or window_start > '1970-01-01 01:00:20'"
        more = {"where": where}
        asked = wk.query(by=keys, time="t", windows=wk.sliding("20 seconds", "5 seconds"), aggs=AGGS)
        oracle = lambda: asked.run(frames[0], where=where, route="rows")  # noqa: E731
    elif how == "join":
        kind = chance.choice(["inner", "left", "right", "full", "semi", "anti"])
        chosen = chance.choice([{}, {"left_columns": ["money"]}])
        asked = wk.join(by=keys, left_time="t", right_time="t", within="4 seconds", how=kind, **chosen)
        more = {"split": "11 seconds"} if kind != "full" and chance.random() < 0.3 else {}
        oracle = lambda: asked.run(*frames, route="packed", **more)  # noqa: E731
    elif how == "distinct":
        asked = wk.distinct(by or "k", time="t", within="2 seconds")
        # Any one of the rows of a key and time is left.
        oracle = lambda: asked.run(frames[0], route="packed").select(by or "k", "t")  # noqa: E731
    else:
        asked = wk.rolling(by=keys, time="t", aggs=[each.over("9 seconds") for each in AGGS])
        oracle = lambda: asked.run(frames[0], route="packed")  # noqa: E731
        if how == "labels":
            oracle = lambda: asked.at(*frames, route="packed")  # noqa: E731
    is_pair = how in ("join", "labels")
    arguments = (spark, given[0], asked, *given[1:] * is_pair)
    options = {**(two if is_pair else one), **more}

    def found() -> DataFrame:
        made = windowkit.spark.scan(*arguments, **options)
        return made.select(by or "k", "t") if how == "distinct" else made

    try:
        wanted = oracle()
        schema, rows = wanted.schema, collected(wanted, asked)
    except (PySparkException, Py4JError, wk.WindowKitError) as error:
        try:
            collected(found(), asked)
        except (PySparkException, Py4JError, wk.WindowKitError):
            return 0
        raise AssertionError(f"the same over DataFrames fails, a scan of {given} does not") from error
    text = windowkit.spark.explain_scan(*arguments, **options)
    result = found()
    assert result.schema == schema, (given, text)
    if isinstance(asked, wk.Query):
        assert_equal(collected(result, asked), rows, 1e-9, text)
    else:
        assert collected(result, asked) == rows, (given, options, text)
    return text.count(" tasks read ") + text.count(" task read ")


def collected(frame: DataFrame, asked: object) -> Any:
    if isinstance(asked, wk.Query):
        return rows_of(frame, asked)
    # As bytes, since texts may not be UTF-8, which Connect does not collect; names may be twice.
    numbered = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
    columns = [sf.col(name).cast("binary" if kind == "string" else kind) for name, kind in numbered.dtypes]
    return Counter(map(str, numbered.select(*columns).collect()))
