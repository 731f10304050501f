"""Rolling aggregates over DataFrames, against Spark's own window functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf

import windowkit as wk
from support.plain import same
from windowkit.spark.routes import pieces, rolling
from windowkit.spark.routes.pack_pieces import verify

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


def compared(frame: DataFrame, by: list[str], over: list[tuple[dict[str, Any], Any]], **options: Any) -> None:
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
    got = wk.rolling(by=by, time="ts", aggs=aggs).run(frame, **options)
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
    asked = wk.rolling(by=[], time="day", aggs=wk.sum("v").over("2 days").alias("s"))
    got = {row["v"]: row["s"] for row in asked.run(frame).collect()}
    assert got == {v: sum(range(max(0, v - 2), v + 1)) for v in range(20)}
    asked = wk.rolling(by=[], time="n", aggs=wk.count().over(1, closed="left").alias("c"))
    assert {(row["n"], row["c"]) for row in asked.run(frame).collect()} == {
        (0, 0),
        *((n, 4) for n in range(1, 5)),
    }


def test_frames_of_rows_without_a_time_are_not_sparks_where_they_leave_out_the_row(
    spark: SparkSession,
) -> None:
    # As docs/reference/rolling.md says: Spark excludes an end by moving it, which does not move a null.
    frame = spark.sql("select v, if(v < 3, null, timestamp_seconds(v)) ts from values (1), (2), (3) as t(v)")
    within = "interval 5 seconds preceding and interval 0.000001 seconds preceding"
    theirs = frame.select("v", sf.expr(f"count(v) over (order by ts range between {within})").alias("c"))
    ours = wk.rolling(by=[], time="ts", aggs=wk.count().over("5 seconds", closed="left").alias("c")).run(
        frame
    )
    assert {row["v"]: row["c"] for row in theirs.collect()} == {1: 2, 2: 2, 3: 0}
    assert {row["v"]: row["c"] for row in ours.collect()} == {1: 0, 2: 0, 3: 0}


def test_a_frame_without_rows_has_no_result(spark: SparkSession) -> None:
    frame = spark.createDataFrame([], "k int, ts timestamp, v double")
    asked = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("1 hour"))
    result = asked.run(frame)
    assert result.columns == ["k", "ts", "v", "sum(v) OVER (1 hour)"]
    assert result.collect() == []


def test_columns_are_found_in_any_case_and_metrics_count(spark: SparkSession) -> None:
    frame = spark.sql("select id % 2 K, timestamp_seconds(id) TS, id `a.b` from range(10)")
    metrics = wk.spark.Metrics()
    asked = wk.rolling(by="k", time="ts", aggs=wk.max("a.b").over("4 seconds").alias("m"))
    result = asked.run(frame, metrics=metrics)
    assert {row["a.b"]: row["m"] for row in result.collect()} == {number: number for number in range(10)}
    assert metrics.values()["rows in"] == metrics.values()["rows out"] == 10


def test_explain_says_what_crosses(tied: DataFrame) -> None:
    text = wk.rolling(by="user", time="ts", aggs=wk.median("v").over("9 rows")).explain(tied)
    assert "rolling by user over ts" in text
    assert "stage 2, in Rust inside one mapInArrow: rows in order of time" in text
    assert "buckets of user" in text


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pieces have few rows."""
    monkeypatch.setattr(pieces, "FEWEST", 1)


def skewed(*, ties: bool) -> pa.Table:
    """Return rows of which one key has nearly all, so that it is cut."""
    table, chance = table_of(ties=ties), np.random.default_rng(6)
    users = pa.array(np.where(chance.random(ROWS) < 0.9, 1, chance.integers(0, 7, ROWS)), pa.int64())
    return table.set_column(1, "user", users).set_column(2, "Group", pa.array([0.0] * ROWS))


@pytest.mark.usefixtures("small")
def test_a_key_that_is_cut_has_sparks_frames_by_time(spark: SparkSession) -> None:
    frame = spark.createDataFrame(skewed(ties=True)).repartition(3).cache()
    frames = [
        ({"size": "9 seconds"}, lambda window: window.rangeBetween(-9_000_000, 0)),
        ({"size": "9 seconds", "closed": "right"}, lambda window: window.rangeBetween(-8_999_999, 0)),
        (
            {"before": "2 seconds", "after": "3 seconds"},
            lambda window: window.rangeBetween(-2_000_000, 3_000_000),
        ),
    ]
    assert len(pieces_of(frame, ["user", "Group"], frames)) >= 8
    compared(frame, ["user", "Group"], frames, split=True)
    compared(frame, [], frames, split=True)


@pytest.mark.usefixtures("small")
def test_a_key_that_is_cut_has_sparks_frames_by_rows(spark: SparkSession, settings: Any) -> None:
    frame = spark.createDataFrame(skewed(ties=False)).repartition(3).cache()
    frames = [
        ({"size": "10 rows"}, lambda window: window.rowsBetween(-9, 0)),
        ({"size": "10 rows", "closed": "left"}, lambda window: window.rowsBetween(-10, -1)),
        ({"before": "3 rows", "after": "20 rows"}, lambda window: window.rowsBetween(-3, 20)),
        ({"size": "9 seconds"}, lambda window: window.rangeBetween(-9_000_000, 0)),
    ]
    assert len(pieces_of(frame, ["user"], frames)) >= 8
    changed = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50",
        "spark.sql.retainGroupColumns": "false",
    }
    with settings(changed):
        compared(frame, ["user"], frames, split=True)


def pieces_of(frame: DataFrame, by: list[str], over: list[tuple[dict[str, Any], Any]]) -> list[pieces.Piece]:
    """Return the pieces into which heavy keys are cut."""
    asked = wk.rolling(
        by=by, time="ts", aggs=[wk.count().over(**each).alias(str(at)) for at, (each, _) in enumerate(over)]
    )
    found = pieces.cut(*rolling.checked_rows(frame, asked), asked, 4, 8)
    return [] if found is None else [piece for key in found.keys for piece in key]


@pytest.mark.usefixtures("small")
def test_pieces_follow_each_other_and_are_dealt_out_evenly(spark: SparkSession) -> None:
    frame = spark.createDataFrame(skewed(ties=False)).cache()
    own = pieces_of(frame, ["user"], [({"size": "30 seconds"}, None), ({"after": "5 rows"}, None)])
    assert [piece.start for piece in own[1:]] == [piece.end for piece in own[:-1]]
    assert own[0].start is None
    assert own[-1].end is None
    held = [sum(piece.bucket // 8 == partition for piece in own) for partition in range(4)]
    assert max(held) - min(held) <= 1
    for piece in own[1:]:
        assert piece.first is not None
        assert piece.start is not None
        assert piece.first <= piece.start - 30_000_000
    for piece in own[:-1]:
        assert piece.after == 5


@pytest.mark.parametrize("by", ["k", []], ids=["a key", "no key"])
def test_one_key_of_all_rows_is_answered_by_all_tasks_alike(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, by: Any
) -> None:
    """Also where the least number of rows of a piece allows of no multiple of the tasks."""
    monkeypatch.setattr(pieces, "FEWEST", 1000)
    frame = spark.sql("select id, 0 k, timestamp_seconds(id) ts from range(0, 9000, 1, 3)")
    asked = wk.rolling(by=by, time="ts", aggs=wk.count().over("1 minute").alias("n"))
    tasks = asked.run(frame, split=True).groupBy(sf.spark_partition_id()).count().collect()
    rows = [task["count"] for task in tasks]
    assert len(rows) == 4
    assert sum(rows) == 9000
    assert max(rows) <= 1.3 * min(rows)


@pytest.mark.usefixtures("small")
def test_adaptive_execution_does_not_join_pieces(spark: SparkSession, settings: Any) -> None:
    frame = spark.createDataFrame(skewed(ties=False)).cache()
    asked = wk.rolling(by="user", time="ts", aggs=wk.count().over("30 seconds").alias("n"))
    with settings(
        {"spark.sql.adaptive.enabled": "true", "spark.sql.adaptive.coalescePartitions.enabled": "true"}
    ):
        result = asked.run(frame, split=True)
        assert result.select(sf.spark_partition_id()).distinct().count() == 4


@pytest.mark.usefixtures("small")
def test_what_cannot_be_cut_is_not(spark: SparkSession) -> None:
    frame = spark.createDataFrame(skewed(ties=True)).cache()
    assert pieces_of(frame, ["row"], [({"size": "9 seconds"}, None)]) == []
    assert pieces_of(frame, ["user"], [({"size": "unbounded"}, None)]) == []
    assert pieces_of(frame, ["user"], [({"after": "unbounded rows"}, None)]) == []
    # Halos would have more rows than pieces.
    assert pieces_of(frame, ["user"], [({"size": "1 day"}, None)]) == []
    assert pieces_of(frame, ["user"], [({"size": "3000 rows"}, None)]) == []
    at_once = frame.withColumn("ts", sf.lit("2024-05-01 12:00:00").cast("timestamp"))
    assert pieces_of(at_once, ["user"], [({"size": "9 seconds"}, None)]) == []
    never = frame.withColumn("ts", sf.lit(None).cast("timestamp"))
    assert pieces_of(never, ["user"], [({"size": "9 seconds"}, None)]) == []
    # Spark reads all of a key's rows for each.
    some = frame.where("row % 8 = 0")
    compared(some, ["user"], [({"size": "1 day"}, lambda w: w.rangeBetween(-86_400_000_000, 0))], split=True)


@pytest.mark.usefixtures("small")
def test_keys_and_times_of_all_types_are_cut(spark: SparkSession) -> None:
    frame = spark.sql(
        "select array(if(id % 50 = 0, 'b', null)) k, struct(cast(0 as double) x) s, "
        "date'2024-01-01' + int(id % 400) day, "
        "timestamp_ntz'2024-01-01' + make_dt_interval(int(id % 400)) ntz, "
        "smallint(id % 400) n, id v from range(4000)"
    ).cache()
    for time, over in (("day", "3 days"), ("ntz", "3 days"), ("n", 3)):
        asked = wk.rolling(by=["k", "s"], time=time, aggs=wk.sum("v").over(over, tail=over).alias("sum"))
        assert pieces.cut(*rolling.checked_rows(frame, asked), asked, 4, 8) is not None
        whole = {row["v"]: row["sum"] for row in asked.run(frame, split=False).collect()}
        local = asked.run(frame.toArrow(), threads=1)
        assert whole == dict(zip(local["v"].to_pylist(), local["sum"].to_pylist(), strict=True))
        assert {row["v"]: row["sum"] for row in asked.run(frame, split=True).collect()} == whole


def test_few_rows_are_not_cut(spark: SparkSession) -> None:
    frame = spark.createDataFrame(skewed(ties=False)).cache()
    assert pieces_of(frame, ["user"], [({"size": "9 seconds"}, None)]) == []


@pytest.mark.usefixtures("small")
def test_rows_that_change_are_found_out(spark: SparkSession) -> None:
    frame = spark.createDataFrame(skewed(ties=False)).cache()
    asked = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("10 rows"))
    rows, checked = rolling.checked_rows(frame, asked)
    found = pieces.cut(rows, checked, asked, 4, 8)
    assert found is not None
    each = [piece for key in found.keys for piece in key]
    table = pa.table({"t": pa.array([5, 6], pa.timestamp("us")), "p": pa.array([1, 1], pa.int32())})
    with pytest.raises(
        wk.InvalidValue, match=r"df: a key has 2 rows before a cut .* where 10 and 0 were counted"
    ):
        verify(table, each, 1, 0)


def test_keys_are_cut_unasked_where_rows_are_cached(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "LEAST", 1)
    sought = []
    monkeypatch.setattr(pieces, "cut", lambda *given: sought.append(given))
    frame = spark.range(777).selectExpr("1 user", "timestamp_seconds(id) ts", "id v")
    asked = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("10 rows"))
    asked.run(frame)
    assert sought == []
    cached = frame.cache()
    asked.run(cached)
    assert len(sought) == 1
    asked.run(cached, split=False)
    assert len(sought) == 1
    monkeypatch.undo()
    monkeypatch.setattr(pieces, "LEAST", 1)
    columns = ("int(raise_error('no')) user", "timestamp_seconds(id) ts", "id v")
    failing = spark.range(9).selectExpr(*columns).cache()
    # It fails when an action runs, as any DataFrame does.
    result = asked.run(failing)
    with pytest.raises(PySparkException, match="no"):
        result.collect()
    with pytest.raises(PySparkException, match="no"):
        asked.run(failing, split=True)
    with pytest.raises(wk.InvalidType, match="split: 'all' is a str; it is True, False or None"):
        asked.run(frame, split="all")
    unbounded = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("unbounded"))
    for refused in (unbounded.run, unbounded.explain):
        with pytest.raises(wk.InvalidValue, match="split: it is given, and a frame has no bound"):
            refused(frame, split=True)
    fresh = spark.range(778).selectExpr("1 user", "timestamp_seconds(id) ts", "id v")
    assert "in one task; with split=True, Spark jobs look" in asked.explain(fresh)
    assert "in one task, or some tasks: Spark jobs look" in asked.explain(frame, split=True)
    assert asked.explain(cached, split=False).endswith("all rows of a key are in one task")
    with pytest.raises(wk.InvalidValue, match="split: True is given without a Spark DataFrame"):
        asked.run(skewed(ties=False), split=True)


def test_parquet_files_are_scanned(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(ties=True)
    for part in range(3):
        pq.write_table(table.slice(part * 1_000, 1_000), tmp_path / f"{part}.parquet", row_group_size=300)
    asked = wk.rolling(
        by="user",
        time="ts",
        aggs=[
            wk.sum("v").over("1 minute").alias("s"),
            wk.median("x").over("1 hour", tail="7 minutes").alias("m"),
        ],
    )
    metrics = wk.spark.Metrics()
    result = wk.spark.scan(spark, str(tmp_path), asked, metrics=metrics)
    wanted = asked.run(spark.read.parquet(str(tmp_path)))
    assert result.schema == wanted.schema
    by_row = {row["row"]: repr(row) for row in wanted.collect()}
    assert {row["row"]: repr(row) for row in result.collect()} == by_row
    assert metrics.values()["rows in"] == metrics.values()["rows out"] == ROWS
    some = wk.spark.scan(spark, str(tmp_path), asked, filter=[("row", "<", 500)])
    assert some.count() == 500
    text = wk.spark.explain_scan(spark, str(tmp_path), asked)
    assert "rolling by user over ts" in text
    assert "no row enters the JVM" in text
    assert "stage 2, in Rust inside one mapInArrow: rows in order of time" in text
    with pytest.raises(wk.InvalidValue, match="rows_per_slice: 5 is given with rolling aggregates"):
        wk.spark.scan(spark, str(tmp_path), asked, rows_per_slice=5)
    with pytest.raises(wk.UnknownColumn, match="no column 'nosuch'"):
        wk.spark.scan(
            spark, str(tmp_path), wk.rolling(by="nosuch", time="ts", aggs=wk.count().over("1 hour"))
        )
    with pytest.raises(
        wk.InvalidType,
        match="query: a str is given; query is a windowkit\\.Query, Rolling, Join or Distinct",
    ):
        wk.spark.scan(spark, str(tmp_path), "sum(v)")  # type: ignore[arg-type]


def test_names_that_differ_in_case_alone_are_refused(spark: SparkSession, settings: Any) -> None:
    frame = spark.sql("select id k, id t, id m from range(3)")
    beside = wk.rolling(by="k", time="t", aggs=wk.sum("m").over(5).alias("M"))
    twice = wk.rolling(by="k", time="t", aggs=[wk.sum("m").over(5).alias(name) for name in ("s", "S")])
    for asked, name in (
        (beside, "'M' would be a column of the result beside 'm'"),
        (twice, "'S' would be"),
    ):
        with pytest.raises(wk.InvalidValue, match=f"aggs: {name}"):
            asked.run(frame)
        with pytest.raises(wk.InvalidValue, match=f"aggs: {name}"):
            asked.at(frame, frame)
        with settings({"spark.sql.caseSensitive": "true"}):
            assert asked.run(frame).columns[-1] == asked.aggs[-1].name


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
    with pytest.raises(wk.InvalidValue, match="threads: 2 is given with a batch DataFrame of Spark"):
        wk.rolling(by="user", time="ts", aggs=one).run(tied, threads=2)
    interval = spark.sql("select id v, timestamp_seconds(id) ts, interval 1 month m from range(1)")
    with pytest.raises(wk.InvalidType, match="column 'm' has type interval month"):
        wk.rolling(by=[], time="ts", aggs=one).run(interval)
    stream = spark.readStream.format("rate").load()
    with pytest.raises(wk.InvalidValue, match=r"df: a streaming .*, and a query over windowkit\.sl"):
        wk.rolling(by=[], time="timestamp", aggs=wk.sum("value").over("1 hour")).run(stream)
    with pytest.raises(wk.InvalidType, match="rolling: a str is given"):
        wk.spark.roll(tied, "sum(v)")  # type: ignore[arg-type]
