"""Aggregates as of the times of labels over DataFrames, against Spark's own join and aggregates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import windowkit as wk
from support.plain import same

CHANCE = np.random.default_rng(8)


def nulls(share: float, rows: int) -> Any:
    return CHANCE.random(rows) < share


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    rows = 4_000
    table = pa.table(
        {
            "user": pa.array(CHANCE.integers(0, 7, rows), mask=nulls(0.05, rows)),
            "Group": pa.array(CHANCE.choice([0.0, -0.0, float("nan")], rows)),
            "ts": pa.array(
                CHANCE.integers(0, 900, rows) * 1_000_000, pa.timestamp("us", "UTC"), mask=nulls(0.02, rows)
            ),
            "v": pa.array(CHANCE.integers(-1_000, 1_000, rows), mask=nulls(0.1, rows)),
            "ok": pa.array(CHANCE.random(rows) < 0.5, mask=nulls(0.1, rows)),
            "more": pa.array([{"n": 1, "s": "x"}] * rows),
        }
    )
    return spark.createDataFrame(table).repartition(3).cache()


@pytest.fixture(scope="module")
def labels(spark: SparkSession) -> DataFrame:
    rows = 700
    table = pa.table(
        {
            "id": np.arange(rows),
            "asked": pa.array(
                CHANCE.integers(-60, 960, rows) * 1_000_000, pa.timestamp("us", "UTC"), mask=nulls(0.02, rows)
            ),
            "v": pa.array(["a label's"] * rows),
            "who": pa.array(CHANCE.integers(-1, 9, rows), mask=nulls(0.05, rows)),
            "group of it": pa.array(CHANCE.choice([0.0, float("nan"), 1.0], rows)),
        }
    )
    return spark.createDataFrame(table).repartition(2).cache()


FRAMES: list[tuple[dict[str, Any], str]] = [
    ({"size": "1 minute"}, "e >= l - 60000000 and e <= l"),
    ({"size": "1 minute", "closed": "left"}, "e >= l - 60000000 and e < l"),
    ({"size": "unbounded"}, "e <= l"),
    (
        {"size": "5 minutes", "tail": "45 seconds", "closed": "right"},
        "e > l - 300000000 - pmod(l - 300000000, 45000000) and e <= l",
    ),
]
AGGREGATES: list[tuple[wk.Aggregate, str]] = [
    (wk.count(), "count(e)"),
    (wk.sum("v"), "sum(x)"),
    (wk.min("v").where("ok"), "min(x) filter (where ok)"),
    (wk.count_distinct("v"), "count(distinct x)"),
    (wk.stddev("v"), "stddev(x)"),
]


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_results_equal_sparks_join_and_aggregates(
    labels: DataFrame, events: DataFrame, settings: Any, adaptive: str
) -> None:
    aggs, wanted = [], labels
    own = events.selectExpr("user u", "Group g", "unix_micros(ts) e", "v x", "ok")
    asked = labels.selectExpr("id", "who", "`group of it` h", "unix_micros(asked) l")
    for number, (over, condition) in enumerate(FRAMES):
        names = [f"a{number}_{at}" for at in range(len(AGGREGATES))]
        aggs += [each.over(**over).alias(name) for name, (each, _) in zip(names, AGGREGATES, strict=True)]
        joined = asked.join(own, sf.expr(f"who <=> u and h <=> g and {condition}"), "left")
        each = (sf.expr(sql).alias(name) for name, (_, sql) in zip(names, AGGREGATES, strict=True))
        wanted = wanted.join(joined.groupBy("id").agg(*each), "id")
    features = wk.rolling(by=["user", "group"], time="TS", aggs=aggs)
    changed = {"spark.sql.adaptive.enabled": adaptive, "spark.sql.execution.arrow.maxRecordsPerBatch": "99"}
    with settings(changed):
        result = features.at(labels, events, by=["WHO", "group of it"], time="asked")
        assert result.columns == [*labels.columns, *(each.name for each in aggs)]
        got = {row["id"]: row.asDict() for row in result.collect()}
        some = [agg for number in (0, 1, 3) for agg in aggs[number * len(AGGREGATES) :][: len(AGGREGATES)]]
        bounded = wk.rolling(by=["user", "group"], time="TS", aggs=some)
        cut = bounded.at(labels, events, by=["WHO", "group of it"], time="asked", split="6 minutes")
        for row in cut.collect():
            for name, value in row.asDict().items():
                known = got[row["id"]][name]
                assert same(value, known) or repr(value) == repr(known), (row, name)
    rows = wanted.select(*result.columns).collect()
    assert len(got) == len(rows) == labels.count()
    for row in rows:
        for name, value in row.asDict().items():
            assert same(value, got[row["id"]][name]) or repr(value) == repr(got[row["id"]][name]), (row, name)


def test_results_equal_those_in_one_process(labels: DataFrame, events: DataFrame) -> None:
    features = wk.rolling(
        by=["user", "Group"],
        time="ts",
        aggs=[
            wk.sum("v").over("9 rows").alias("s"),
            wk.quantile("v", 0.3).over("9 rows", closed="left").alias("q"),
            wk.count().over(before="5 rows", closed="both").alias("n"),
            wk.count().over("unbounded rows", closed="neither").alias("all"),
        ],
    )
    # One event at a time: Spark has no order of others.
    some = events.dropDuplicates(["user", "Group", "ts"]).cache()
    asking = {"by": ["who", "group of it"], "time": "asked"}
    got = features.at(labels, some, **asking).toArrow().sort_by("id")
    wanted = features.at(labels.toArrow(), some.toArrow(), **asking).sort_by("id")
    for name in ("s", "q", "n", "all"):
        assert got[name].to_pylist() == wanted[name].to_pylist()


def test_no_labels_no_events_no_keys_and_metrics(spark: SparkSession) -> None:
    events = spark.sql("select timestamp_seconds(id) ts, id v from range(10)")
    labels = spark.sql("select timestamp_seconds(id * 4) ts, id from range(3)")
    features = wk.rolling(by=[], time="ts", aggs=wk.sum("v").over("2 seconds").alias("s"))
    metrics = wk.spark.Metrics()
    result = features.at(labels, events, metrics=metrics)
    assert {row["id"]: row["s"] for row in result.collect()} == {0: 0, 1: 2 + 3 + 4, 2: 6 + 7 + 8}
    assert metrics.values()["rows in"] == 13
    assert metrics.values()["rows out"] == 3
    none = features.at(labels, events.limit(0))
    assert {row["id"]: row["s"] for row in none.collect()} == {0: None, 1: None, 2: None}
    assert features.at(labels.limit(0), events).collect() == []
    rows = wk.rolling(by=[], time="ts", aggs=wk.collect_rows().over("1 second", closed="left").alias("r"))
    assert {row["id"]: [each.asDict() for each in row["r"]] for row in rows.at(labels, events).collect()}[
        1
    ] == [{"ts": row["ts"], "v": 3} for row in events.where("v = 3").collect()]


def test_what_does_not_fit_is_refused_before_any_job(
    spark: SparkSession, labels: DataFrame, events: DataFrame
) -> None:
    features = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("1 hour").alias("s"))
    with pytest.raises(wk.UnknownColumn, match="by: no column 'user'; there are"):
        features.at(labels, events)
    with pytest.raises(wk.UnknownColumn, match="by: no column 'user'"):
        features.at(labels, labels.drop("v"), by="who", time="asked")
    with pytest.raises(wk.InvalidType, match="by: column 'id' of the labels is int, and key 'user' of the"):
        features.at(labels.selectExpr("int(id) id", "asked"), events, by="id", time="asked")
    with pytest.raises(wk.InvalidType, match="time: column 'asked' of the labels is timestamp_ntz"):
        features.at(
            labels.selectExpr("who", "cast(asked as timestamp_ntz) asked"), events, by="who", time="asked"
        )
    with pytest.raises(wk.InvalidValue, match="two columns 's'"):
        features.at(labels.withColumnRenamed("v", "s"), events, by="who", time="asked")
    with pytest.raises(wk.InvalidType, match="events: a Table is given; labels and events both are Spark"):
        features.at(labels, pa.table({"user": [1]}), by="who", time="asked")
    with pytest.raises(wk.InvalidType, match="events: "):
        features.at(pa.table({"user": [1]}), events)
    with pytest.raises(
        wk.InvalidValue, match="threads: 2 is given with a batch DataFrame of Spark; only tables have it"
    ):
        features.at(labels, events, by="who", time="asked", threads=2)
    with pytest.raises(wk.InvalidValue, match="reaches beyond its row"):
        wk.spark.as_of(labels, events, wk.rolling(by=[], time="ts", aggs=wk.count().over(after="1 hour")))
    with pytest.raises(wk.InvalidType, match="rolling: a str is given"):
        wk.spark.as_of(labels, events, "sum(v)")  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load()
    live = wk.rolling(by=[], time="timestamp", aggs=wk.sum("value").over("1 hour"))
    with pytest.raises(wk.InvalidValue, match="labels: a streaming DataFrame is given; labels is a batch"):
        live.at(stream, stream)
    with pytest.raises(wk.InvalidValue, match=r"events: a streaming .* windowkit\.sliding"):
        live.at(spark.sql("select timestamp '2024-01-01' timestamp"), stream)
    with pytest.raises(wk.InvalidType, match="events: a NoneType is given"):
        features.at(labels, None, by="who", time="asked")
