"""Rolling aggregates over DataFrames, against Spark's own window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

import windowkit as wk
from support.plain import same

ROWS = 3_000
MINUTE = 60_000_000


def table_of(*, ties: bool) -> pa.Table:
    """Return rows of some keys, with nulls, NaN, equal times if requested, and columns that nothing reads."""
    chance = np.random.default_rng(5)
    times = chance.integers(0, 400, ROWS) if ties else chance.permutation(ROWS)
    return pa.table(
        {
            "row": np.arange(ROWS),
            "user": pa.array(chance.integers(0, 7, ROWS), mask=chance.random(ROWS) < 0.05),
            "Group": pa.array(chance.choice([0.0, -0.0, float("nan")], ROWS)),
            "ts": pa.array(
                times * 1_000_000, pa.timestamp("us", "UTC"), mask=chance.random(ROWS) < 0.02 * ties
            ),
            "v": pa.array(chance.integers(-1_000, 1_000, ROWS), mask=chance.random(ROWS) < 0.1),
            "x": pa.array(np.where(chance.random(ROWS) < 0.02, np.nan, chance.normal(size=ROWS))),
            "ok": pa.array(chance.random(ROWS) < 0.5, mask=chance.random(ROWS) < 0.1),
            "tags": pa.array([["a", None]] * ROWS, pa.list_(pa.string())),
            "more": pa.array([{"n": 1, "s": "x"}] * ROWS),
        }
    )


@pytest.fixture(scope="module")
def tied(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table_of(ties=True)).repartition(3).cache()


@pytest.fixture(scope="module")
def untied(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(table_of(ties=False)).repartition(3).cache()


AGGREGATES: list[tuple[wk.Aggregate, Callable[[], Column]]] = [
    (wk.count(), lambda: sf.count("*")),
    (wk.sum("v"), lambda: sf.sum("v")),
    (wk.mean("x"), lambda: sf.avg("x")),
    (wk.min("x"), lambda: sf.min("x")),
    (wk.max("x"), lambda: sf.max("x")),
    (wk.stddev("v"), lambda: sf.stddev("v")),
    (wk.sum("v").where("ok"), lambda: sf.sum(sf.when(sf.col("ok"), sf.col("v")))),
    (wk.count("v"), lambda: sf.count("v")),
    (wk.collect_set("v"), lambda: sf.sort_array(sf.collect_set("v"))),
]


def compared(frame: DataFrame, by: list[str], over: list[tuple[dict[str, Any], Any]]) -> None:
    """Compare with the same frames of Spark's, row by row."""
    order = sf.unix_micros("ts")
    partition = Window.partitionBy(*by).orderBy(order)
    aggs, theirs = [], []
    for number, (arguments, bounds) in enumerate(over):
        for at, (each, expression) in enumerate(AGGREGATES):
            name = f"a{number}_{at}"
            aggs.append(each.over(**arguments).alias(name))
            window = bounds(partition)
            column = expression()
            if each.function == "collect_set":
                column = sf.sort_array(sf.collect_set("v").over(window))
            else:
                column = column.over(window)
            theirs.append(column.alias(name))
    rolling = wk.rolling(by=by, time="ts", aggs=aggs)
    got = rolling.run(frame)
    assert got.columns == [*frame.columns, *(each.name for each in aggs)]
    wanted = frame.select("*", *theirs)
    mine = [(field.name, field.dataType.simpleString()) for field in got.schema.fields]
    assert mine == [(field.name, field.dataType.simpleString()) for field in wanted.schema.fields]
    own = {row["row"]: row.asDict(recursive=True) for row in got.collect()}
    rows = wanted.collect()
    assert len(own) == len(rows)
    for row in rows:
        expected, found = row.asDict(recursive=True), own[row["row"]]
        for name, value in expected.items():
            assert same(value, found[name]) or repr(value) == repr(found[name]), (row["row"], name)


def test_frames_by_time_equal_sparks(tied: DataFrame) -> None:
    first, last = Window.unboundedPreceding, Window.unboundedFollowing
    frames = [
        ({"size": "1 minute"}, lambda window: window.rangeBetween(-MINUTE, 0)),
        ({"size": "1 minute", "closed": "right"}, lambda window: window.rangeBetween(-MINUTE + 1, 0)),
        (
            {"before": "10 seconds", "after": "1 minute"},
            lambda window: window.rangeBetween(-10_000_000, MINUTE),
        ),
        ({"size": "unbounded"}, lambda window: window.rangeBetween(first, 0)),
        ({"after": "unbounded"}, lambda window: window.rangeBetween(0, last)),
    ]
    compared(tied, ["user", "Group"], frames)


def test_frames_by_rows_equal_sparks(untied: DataFrame) -> None:
    frames = [
        ({"size": "10 rows"}, lambda window: window.rowsBetween(-9, 0)),
        ({"size": "10 rows", "closed": "left"}, lambda window: window.rowsBetween(-10, -1)),
        ({"before": "3 rows", "after": "2 rows"}, lambda window: window.rowsBetween(-3, 2)),
    ]
    compared(untied, [], frames)


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_small_buckets_one_after_the_other(tied: DataFrame, settings: Any, adaptive: str) -> None:
    changed = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
    with settings(changed):
        compared(tied, ["user"], [({"size": "1 minute"}, lambda window: window.rangeBetween(-MINUTE, 0))])


def test_dates_and_integers_are_times_too(spark: SparkSession) -> None:
    frame = spark.sql("select date'2024-01-01' + cast(id as int) day, int(id % 5) n, id v from range(20)")
    rolling = wk.rolling(by=[], time="day", aggs=wk.sum("v").over("2 days").alias("s"))
    got = {row["v"]: row["s"] for row in rolling.run(frame).collect()}
    assert got == {v: sum(range(max(0, v - 2), v + 1)) for v in range(20)}
    rolling = wk.rolling(by=[], time="n", aggs=wk.count().over(1, closed="left").alias("c"))
    assert {(row["n"], row["c"]) for row in rolling.run(frame).collect()} == {
        (0, 0),
        *((n, 4) for n in range(1, 5)),
    }


def test_a_frame_without_rows_has_no_result(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "k int, ts timestamp, v double")
    rolling = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("1 hour"))
    result = rolling.run(frame)
    assert result.columns == ["k", "ts", "v", "sum(v) OVER (1 hour)"]
    assert result.collect() == []


def test_columns_are_found_in_any_case_and_metrics_count(spark: SparkSession) -> None:
    frame = spark.sql("select id % 2 K, timestamp_seconds(id) TS, id `a.b` from range(10)")
    metrics = wk.spark.Metrics()
    rolling = wk.rolling(by="k", time="ts", aggs=wk.max("a.b").over("4 seconds").alias("m"))
    result = rolling.run(frame, metrics=metrics)
    assert {row["a.b"]: row["m"] for row in result.collect()} == {number: number for number in range(10)}
    assert metrics.values()["rows in"] == metrics.values()["rows out"] == 10


def test_explain_says_what_crosses(tied: DataFrame) -> None:
    text = wk.rolling(by="user", time="ts", aggs=wk.median("v").over("9 rows")).explain(tied)
    assert "rolling by user over ts" in text
    assert "stage 2, in Rust inside one mapInArrow: rows in order of time" in text
    assert "buckets of user" in text


def test_what_does_not_fit_is_refused_before_any_job(spark: SparkSession, tied: DataFrame) -> None:
    one = wk.sum("v").over("1 hour")
    with pytest.raises(wk.UnknownColumn, match="no column 'nosuch'"):
        wk.rolling(by="nosuch", time="ts", aggs=one).run(tied)
    with pytest.raises(wk.InvalidValue, match="two columns 'more'"):
        wk.rolling(by="user", time="ts", aggs=one.alias("more")).run(tied)
    with pytest.raises(wk.InvalidType, match="it is an integer, but column 'ts' counts microseconds"):
        wk.rolling(by="user", time="ts", aggs=wk.sum("v").over(5)).run(tied)
    with pytest.raises(wk.InvalidValue, match="finer than column 'ts'"):
        wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("1 nanosecond")).run(tied)
    with pytest.raises(wk.InvalidValue, match="threads: 2 is given with a Spark DataFrame"):
        wk.rolling(by="user", time="ts", aggs=one).run(tied, threads=2)
    interval = spark.sql("select id v, timestamp_seconds(id) ts, interval 1 month m from range(1)")
    with pytest.raises(wk.InvalidType, match="column 'm' has type interval month"):
        wk.rolling(by=[], time="ts", aggs=one).run(interval)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(wk.InvalidValue, match="streaming DataFrame"):
        wk.rolling(by=[], time="timestamp", aggs=wk.sum("value").over("1 hour")).run(stream)
    with pytest.raises(wk.InvalidType, match="rolling: a str is given"):
        wk.spark.roll(tied, "sum(v)")  # type: ignore[arg-type]
