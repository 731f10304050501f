"""Queries over streaming DataFrames: equal to Spark's own streams, and to what a batch answers."""

from __future__ import annotations

import datetime
import random
import re
import sys
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

import windowkit as wk
import windowkit.spark
from support.programs import program
from support.samples import Halves
from support.spark import plain
from support.spark_runs import SECOND, Rows, everything, mixed, run_stream, table
from windowkit.spark.streams.streaming import streaming

pytestmark = pytest.mark.usefixtures("rocksdb")

OWN = wk.aggregate(
    "own", lift=lambda values: values, combine=pc.add, lower=lambda states: pc.divide(states, 2.0)
)
LATEST = wk.aggregate(
    "latest",
    lift=lambda times: times,
    combine=lambda one, other: pc.if_else(pc.greater(one, other), one, other),
    lower=lambda states: states,
)


class Spans(Halves):
    longest = "10 seconds"


@pytest.mark.parametrize("api", ["rows", "pandas"])
def test_windows_are_those_of_sparks_append(source, tmp_path, monkeypatch, api):
    if api == "pandas":
        # As pyspark 4.0 has it.
        monkeypatch.delattr("pyspark.sql.pandas.group_ops.PandasGroupedOpsMixin.transformWithState")
    frame = source(*mixed(3))
    # Some sessions end exactly at a watermark.
    gap = "4 seconds"
    windows = [wk.tumbling("30 seconds"), wk.sliding("1 minute", "20 seconds"), wk.session(gap)]
    aggs = [wk.sum("v"), wk.count(), wk.count("v"), wk.min("v"), wk.max("v"), wk.mean("v")]
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs, window_columns="struct")
    ours = query.run(frame, metrics_name="counted")
    own = [
        sf.window("ts", "30 seconds"),
        sf.window("ts", "1 minute", "20 seconds"),
        sf.session_window("ts", gap),
    ]
    sparks = None
    for window, each in zip(windows, own, strict=True):
        grouped = frame.groupBy("k", each.alias("window"))
        values = grouped.agg(sf.sum("v"), sf.count("*"), sf.count("v"), sf.min("v"), sf.max("v"), sf.avg("v"))
        named = values.withColumn("window_name", sf.lit(window.name)).select(
            "k", "window_name", "window", *values.columns[2:]
        )
        sparks = named if sparks is None else sparks.union(named)
    assert ours.columns == sparks.columns
    assert not any("spark.watermarkDelayMs" in field.metadata for field in ours.schema)
    assert [field.dataType for field in ours.schema] == [field.dataType for field in sparks.schema]
    found, query = run_stream(ours, tmp_path / "ours")
    wanted, _ = run_stream(sparks, tmp_path / "sparks")
    assert everything(found) == everything(wanted)
    assert len(everything(found)) > 50
    counts = [progress.observedMetrics for progress in query.recentProgress]
    given = sum(len([row for row in rows if row[1] is not None]) for rows in mixed(3))
    assert sum(each["counted, in"]["rows in"] for each in counts) == given
    # Of sessions no slices are made, nor of what is beside them.
    assert {each["counted, in"]["slices"] for each in counts} == {0}
    assert sum(each["counted, out"]["windows out"] for each in counts) == len(everything(found))
    assert sum(each["counted, out"]["late"] for each in counts) > 0


@pytest.mark.parametrize("route", ["catalyst", "operator"])
@pytest.mark.parametrize("seed", range(2))
def test_sessions_are_sparks_however_late_rows_come(source, tmp_path, seed, route):
    """Rows behind the watermark, whose sessions were returned or are open, or end where the watermark is."""
    draw = random.Random(seed)
    batches = [
        [
            (draw.choice("abcd"), 20.0 + 4 * number - draw.choice([0, 1, 2, 2, 3, 5, 8]), 1.0)
            for _ in range(draw.randrange(1, 12))
        ]
        for number in range(12)
    ]
    frame = source(*batches, [("z", 200.0, 1.0)], delay="0 seconds")
    aggs = wk.count().alias("n")
    query = wk.query(by="k", time="ts", windows=wk.session("4 seconds"), aggs=aggs, window_columns="struct")
    grouped = frame.groupBy("k", sf.session_window("ts", "4 seconds")).agg(sf.count("*").alias("n"))
    found, _ = run_stream(query.run(frame, route=route), tmp_path / "ours")
    wanted, _ = run_stream(grouped.select("k", "session_window", "n"), tmp_path / "sparks")
    assert everything(found) == everything(wanted)
    if route == "catalyst":
        return
    limited = replace(query, windows=(wk.session("4 seconds", at_most="9 seconds"),))
    found, _ = run_stream(limited.run(frame), tmp_path / "limited")
    results = [row for rows in found.values() for row in rows]
    assert all(window is not None for _, window, _ in results)
    assert sum(n for *_, n in results) == sum(n for rows in wanted.values() for *_, n in rows)


class Arriving(DataSource):
    """A source that begins with what comes: its first batch has no partitions."""

    BATCHES = ((), (("a", 5),), (("a", 1000),), (("a", 1001),), tuple((f"b{n}", 3) for n in range(8)))
    ENDS = ((("a", 5000),), (("a", 5001),))

    @classmethod
    def name(cls):
        return "arriving"

    def schema(self):
        return "k string, ts timestamp, v double"

    def streamReader(self, schema):  # noqa: N802
        return ArrivingReader((*self.BATCHES, *self.ENDS))


class ArrivingReader(DataSourceStreamReader):
    def __init__(self, batches):
        self.batches, self.reached = batches, -1

    def initialOffset(self):  # noqa: N802
        return {"batch": 0}

    def latestOffset(self):  # noqa: N802
        self.reached = min(self.reached + 1, len(self.batches) - 1)
        return {"batch": self.reached}

    def partitions(self, start, end):
        return [InputPartition(batch) for batch in range(start["batch"] + 1, end["batch"] + 1)]

    def read(self, partition):
        for key, at in self.batches[partition.value]:
            yield key, datetime.datetime.fromtimestamp(at, datetime.timezone.utc), 1.0


def test_rows_are_late_although_the_first_batch_has_no_partitions(spark, tmp_path):
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    try:
        spark.dataSource.register(Arriving)
        rows = spark.readStream.format("arriving").load().withWatermark("ts", "10 seconds")
        aggs = wk.count().alias("n")
        query = wk.query(
            by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=aggs, window_columns="struct"
        )
        found = []
        for name, result in {
            "ours": query.run(rows, metrics_name="counted"),
            "own": rows.groupBy("k", sf.window("ts", "1 minute")).agg(sf.count("*").alias("n")),
        }.items():
            written = result.writeStream.format("memory").queryName(name)
            started = written.option("checkpointLocation", str(tmp_path / name)).start()
            started.processAllAvailable()
            started.stop()
            assert started.recentProgress[0].numInputRows == 0
            found.append(sorted(tuple(row) for row in spark.table(name).collect()))
            if name == "ours":
                counts = [each.observedMetrics.get("counted, out") for each in started.recentProgress]
                assert sum(each["late"] or 0 for each in counts if each is not None) == 8
    finally:
        cloudpickle.unregister_pickle_by_value(module)
    assert found[0] == found[1]
    assert {row[0] for row in found[0]} == {"a"}


def test_late_rows_are_returned_with_all_their_columns(source, tmp_path):
    """A row is late if its window ended at or before the watermark of the batch before."""
    batches = mixed(4)
    frame = source(*batches)
    aggs = wk.sum("v").alias("s")
    query = wk.query(by="k", time="ts", windows=wk.tumbling("30 seconds"), aggs=aggs, window_columns="struct")
    result = query.run(frame, late_rows=True, metrics_name="counted")
    assert result.columns == ["k", "window", "s", "late_row"]
    reasons = result.schema["late_row"].dataType
    assert reasons.names == ["k", "ts", "v", "mark", "late_reason"]
    found, progress = run_stream(result, tmp_path / "late")
    plainly, _ = run_stream(query.run(frame), tmp_path / "plain")
    assert everything(
        {0: [row[:3] for rows in found.values() for row in rows if row[3] is None]}
    ) == everything(plainly)
    wanted, before, reached = [], 0.0, 0.0
    for rows in batches:
        timed = [row for row in rows if row[1] is not None]
        wanted += [
            (key, int(at * SECOND), value, at % 7 == 0, "too late")
            for key, at, value in timed
            if (at // 30 + 1) * 30 <= before
        ]
        # What a batch reaches is the watermark of the next one.
        before, reached = reached, max([reached, *(at - 10 for _, at, _ in timed)])
    late = [row for rows in found.values() for row in rows if row[3] is not None]
    assert all(row[:3] == (None, None, None) for row in late)
    assert sorted(repr(tuple(row[3])) for row in late) == sorted(map(repr, wanted))
    assert len(wanted) > 5
    counts = [each.observedMetrics["counted, out"]["late"] for each in progress.recentProgress]
    assert sum(counts) == len(wanted)
    windows = [each.observedMetrics["counted, out"]["windows out"] for each in progress.recentProgress]
    assert sum(windows) == len(everything(plainly))
    text = query.explain(frame, late_rows=True)
    assert "columns: k, window, s, late_row" in text
    # Columns that are never null elsewhere are so for late rows; those of expressions are none of the rows'.
    flat = wk.query(
        by=sf.upper("k").alias("key"),
        time="ts",
        windows=wk.tumbling("30 seconds"),
        aggs=wk.sum(sf.col("v") * 2).alias("s"),
    )
    updated = flat.run(frame, late_rows=True, allowed_lateness="1 second")
    assert updated.columns == ["key", "window_start", "window_end", "s", "update", "late_row"]
    assert updated.schema["late_row"].dataType.names == reasons.names
    found, _ = run_stream(updated, tmp_path / "flat")
    again = [row[-1] for rows in found.values() for row in rows if row[-1] is not None]
    assert 0 < len(again) <= len(wanted)
    assert set(map(repr, map(tuple, again))) <= set(map(repr, wanted))
    assert "no slices, as late rows are returned" in text
    # One more batch: without any the checkpoint is not read.
    with pytest.raises(PySparkException, match="late rows 'returned', and the query has None"):
        run_stream(query.run(source([("a", 400.0, 1.0)]), route="operator"), tmp_path / "late")
    with pytest.raises(wk.InvalidType, match="late_rows: 1 is an int"):
        query.run(frame, late_rows=1)
    named = wk.query(by="k", time="ts", windows=wk.tumbling("30 seconds"), aggs=wk.sum("v").alias("late_row"))
    with pytest.raises(wk.InvalidValue, match="late_rows: the query has a column 'late_row' of its own"):
        named.run(frame, late_rows=True)
    with pytest.raises(wk.InvalidValue, match=r"late_rows: .* the name 'late_reason' twice"):
        query.run(frame.withColumnRenamed("mark", "late_reason"), late_rows=True)


def test_local_time_is_that_of_a_batch(source, settings, tmp_path):
    """Windows are final once their period is over by the clock of their zone, whatever the session's.

    Their columns are computed, by Spark in the stream and by pyarrow in the batch.
    """
    day = 86_400
    start = 19_790 * day  # Two days before clocks are set forward in New York.
    batches = [
        [(["a", "b"][at % 2], start + number * day + at * 7_001 % day, float(at)) for at in range(24)]
        for number in range(6)
    ]
    windows = [
        wk.tumbling("1 day", zone="America/New_York"),
        wk.sliding("3 days", "1 day", zone="Asia/Kolkata"),
        wk.landmark("6 hours", period="1 day", zone="America/New_York"),
    ]

    def query(upper: Any, double: Any) -> wk.Query:
        return wk.query(by=upper, time="ts", windows=windows, aggs=[wk.sum(double), wk.count()])

    streamed = query(sf.upper("k").alias("u"), (sf.col("v") * 2).alias("w"))
    frame = source(*batches, delay="1 day")
    assert streamed.run(frame).columns == streamed.columns
    with settings({"spark.sql.session.timeZone": "Asia/Tokyo"}):
        found, _ = run_stream(streamed.run(frame), tmp_path / "ours")
    local = query(wk.expr(pc.utf8_upper(pc.field("k")), "u"), wk.expr(pc.field("v") * 2, "w"))
    result = local.run(pa.concat_tables([table(batch) for batch in batches]))
    watermark = (max(at for batch in batches for _, at, _ in batch) - day) * SECOND
    ends = result["window_end"].cast(pa.int64())
    final = result.filter(pc.less_equal(ends, watermark))
    assert everything(found) == sorted(repr(row) for row in zip(*map(plain, final.columns), strict=True))
    assert len(everything(found)) > 30


def test_update_mode_is_sparks(source, tmp_path):
    """Batch by batch: the windows that its rows changed, as they stand after it."""
    frame = source(*mixed(3))
    windows = wk.sliding("1 minute", "20 seconds")
    query = wk.query(by="k", time="ts", windows=windows, aggs=wk.sum("v"), window_columns="struct")
    ours = query.run(frame, output_mode="update")
    sparks = frame.groupBy("k", sf.window("ts", "1 minute", "20 seconds")).agg(sf.sum("v"))
    found, _ = run_stream(ours, tmp_path / "ours", "update")
    wanted, _ = run_stream(sparks, tmp_path / "sparks", "update")
    by_batch = [[sorted(map(repr, rows)) for _, rows in sorted(each.items())] for each in (found, wanted)]
    assert by_batch[0] == by_batch[1]
    assert len(by_batch[0]) == 5


def test_a_stream_goes_on_from_its_checkpoint(source, settings, tmp_path):
    """Windows and functions that Spark does not have, stopped in the middle, are those of a batch."""
    windows = [wk.tumbling(rows=3), wk.sliding("30 seconds", "2 rows"), wk.punctuation("mark")]
    aggs = [
        wk.median("v"),
        wk.collect_list("v"),
        wk.count().where("mark").alias("marks"),
        OWN("v").alias("own"),
    ]
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs)
    batches: list[Rows] = [
        [(key, number * 30 + at * 5 % 30, at / 2) for at in range(6) for key in ("a", "b", None)]
        for number in range(4)
    ]
    frame = source(*batches[:2])
    before, _ = run_stream(query.run(frame), tmp_path / "checkpoint")
    end = [(key, 1000.0, 0.0) for key in ("a", "b", None)]
    source(*batches[2:], end, [("z", 2000.0, 0.0)])
    # It moves no instant, and no function of the query's own looks at one.
    with settings({"spark.sql.session.timeZone": "Asia/Kolkata"}):
        after, _ = run_stream(query.run(frame), tmp_path / "checkpoint")
    assert not before.keys() & after.keys()
    names = query.columns
    rows = pa.concat_tables(map(table, [*batches, end, [("z", 2000.0, 0.0)]]))
    wanted = list(zip(*map(plain, query.run(rows).columns), strict=True))

    def settled(rows: list[Any]) -> list[str]:
        at = names.index("window_end")
        return sorted(repr(row) for row in rows if row[at] < 900 * SECOND)

    found = [row for each in (before, after) for rows in each.values() for row in rows]
    assert settled(found) == settled(wanted)
    assert len(settled(found)) > 40
    other = wk.query(by="k", time="ts", windows=windows[0], aggs=aggs)
    source([("a", 3000.0, 1.0)])
    with pytest.raises(PySparkException, match="InvalidValue: checkpointLocation: its state has windows "):
        run_stream(other.run(frame), tmp_path / "checkpoint")
    # Spark itself goes on with the partitions of the checkpoint, whatever the session says.
    message = r"shuffle\.partitions 2, and the query has 3, buckets 4, and the query has 8"
    with settings({"spark.sql.shuffle.partitions": "3"}), pytest.raises(PySparkException, match=message):
        run_stream(query.run(frame, buckets=8), tmp_path / "checkpoint")


def test_results_that_are_taken_back_add_up(source, tmp_path):
    """Early results, late updates and retractions, of all rows as one group."""
    policy = wk.emit(wk.rows(4) | wk.on("mark"), refinement="retracting")
    query = wk.query(
        by=[], time="ts", windows=wk.session("3 seconds"), aggs=wk.sum("v").alias("s"), emit=policy
    )
    batches: list[Rows] = [
        [("a", 20.0, 1.0), ("b", 14.0, 2.0)],
        [("a", 40.0, 4.0), ("b", 26.0, 8.0)],
        [("a", 17.0, 16.0), ("a", 60.0, 32.0)],
        [("a", 23.0, 64.0)],
    ]
    result = query.run(source(*batches, delay="5 seconds"), allowed_lateness="1 hour")
    assert result.columns == ["window_start", "window_end", "s", "update", "emission", "weight"]
    found, _ = run_stream(result, tmp_path / "checkpoint")
    weights: dict[Any, int] = {}
    for rows in found.values():
        for start, end, value, _, _, weight in rows:
            at = start, end, value
            weights[at] = weights.get(at, 0) + weight
            assert weights[at] in (0, 1)
    rows = pa.concat_tables(map(table, batches))
    wanted = list(zip(*map(plain, query.run(rows).columns), strict=True))
    final = {row for row, weight in weights.items() if weight}
    # The last session ends after the last watermark; whatever else there is was updated by late rows.
    assert {row for row in final if row[1] < 60 * SECOND} == {row for row in wanted if row[1] < 60 * SECOND}
    assert {row[4] for rows in found.values() for row in rows} == {"early", "final", "late", "retraction"}


QUERY = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.sum("v"))


def with_policy(policy: wk.Emission) -> wk.Query:
    return wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.sum("v"), emit=policy)


class TestRefusals:
    def refused(self, message: str, frame: DataFrame, query: wk.Query = QUERY, **options: Any) -> None:
        with pytest.raises(wk.WindowKitError, match=re.escape(message)):
            query.run(frame, **options)

    def test_a_stream_without_a_watermark(self, source):
        frame = source(delay=None)
        self.refused("its column 'ts' has no watermark, so that no window would become final", frame)
        self.refused("write df.withWatermark('ts', '10 minutes')", frame)
        moved = source().withColumn("at", sf.col("ts")).withColumn("ts", sf.expr("ts + interval 1 hour"))
        self.refused("its column 'ts' has no watermark, as 'at' has", moved)
        for column in (sf.col("ts"), sf.expr("ts + interval 1 hour").alias("ts")):
            query = wk.query(by="k", time=column, windows=wk.tumbling("1 minute"), aggs=wk.sum("v"))
            self.refused("give the name of a column that has one", source(), query)

    @pytest.mark.parametrize("is_set", [True, False], ids=["set", "the default"])
    def test_another_state_store(self, spark, source, settings, is_set):
        name = "spark.sql.streaming.stateStore.providerClass"
        store = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        with settings({name: store}):
            if not is_set:
                spark.conf.unset(name)
            self.refused(
                "call spark.conf.set('spark.sql.streaming.stateStore.providerClass', "
                "'org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider')",
                source(),
                route="operator",
            )
            sliding = replace(QUERY, windows=(wk.sliding("2 minutes", "1 minute"),))
            self.refused("route 'operator', taken as a row may be in several windows", source(), sliding)

    def test_options(self, source):
        frame = source()
        self.refused(
            "output_mode: 'complete' is unknown; allowed are 'append', 'update'",
            frame,
            output_mode="complete",
        )
        self.refused("buckets: 0 is out of range", frame, buckets=0)
        self.refused("allowed_lateness: '-1 second' is below zero", frame, allowed_lateness="-1 second")
        self.refused("metrics: ", frame, metrics=wk.spark.Metrics())
        self.refused("metrics_name: 3 is an int; it is a name", frame, metrics_name=3)
        self.refused("metrics_name: '' is given; it is a name", frame, metrics_name="")
        self.refused("route: 'rows' is unknown; allowed are 'catalyst', 'operator'", frame, route="rows")
        self.refused("threads: 2 is given with a streaming DataFrame", frame, threads=2)

    def test_options_of_streams_elsewhere(self, spark):
        self.refused("output_mode: 'append' is given with a batch", spark.range(1), output_mode="append")
        self.refused("buckets: 3 is given without a Spark DataFrame", table([]), buckets=3)
        with pytest.raises(wk.InvalidValue, match="df: a batch DataFrame is given"):
            wk.spark.stream(spark.range(1), QUERY)

    def test_windows_that_would_never_be_returned(self, source):
        query = wk.query(by="k", time=wk.PROCESSING_TIME, windows=wk.tumbling("1 minute"), aggs=wk.count())
        self.refused("run, which does not see when rows arrive", source(), query)
        query = wk.query(by="k", time="ts", windows=wk.global_window(), aggs=wk.sum("v"))
        self.refused("but streams in Spark do not end", source(), query)
        assert query.run(source(), output_mode="update").isStreaming

    def test_windows_by_the_order_of_arrival(self, source):
        window = wk.sliding("10 seconds", "2 rows", order="arrival")
        query = wk.query(by="k", time="ts", windows=window, aggs=wk.count())
        self.refused("counts rows in the order of arrival", source(), query)

    def test_policies(self, source):
        self.refused(
            "depends on the clock", source(), with_policy(wk.emit(wk.every("1 second", of="processing time")))
        )
        self.refused("at_most limits the calls", source(), with_policy(wk.emit(at_most=3)))
        self.refused("emit: no column 'nowhere'", source(), with_policy(wk.emit(wk.on("nowhere"))))

    def test_aggregate_takes_batches(self, source):
        with pytest.raises(wk.InvalidValue, match=r"query\.run\(df\) and windowkit\.spark\.stream"):
            wk.spark.aggregate(source(), QUERY)
        with pytest.raises(
            wk.InvalidValue, match=r"query\.explain\(df\) and windowkit\.spark\.explain_stream"
        ):
            wk.spark.explain(source(), QUERY)

    def test_statements_take_batches(self, spark, source):
        source().createOrReplaceTempView("arriving_rows")
        options = "time => 'ts', windows => 'tumbling(1 minute)', aggs => 'sum(v)'"
        with pytest.raises(wk.InvalidValue, match=r"text: what is in table\(\.\.\.\) is a stream"):
            wk.spark.sql(spark, f"select * from windowkit(table(arriving_rows), {options})")


@pytest.mark.parametrize(
    ("query", "sees_it"),
    [
        (QUERY, False),
        (replace(QUERY, aggs=(wk.first("ts"), LATEST("v"))), False),
        (replace(QUERY, aggs=(LATEST("ts"),)), True),
        (replace(QUERY, windows=(wk.custom(Spans()),)), True),
    ],
)
def test_a_checkpoint_has_the_zone_of_the_session_where_own_code_sees_it(source, settings, query, sees_it):
    kept = set()
    for zone in ("UTC", "Etc/UTC"):
        with settings({"spark.sql.session.timeZone": zone}):
            kept.add(streaming(source(), query, route="operator").work.identity)
    assert len(kept) == 1 + sees_it


@pytest.mark.parametrize("mode", ["append", "update"])
def test_an_overflow_names_the_query_as_it_was_given(source, tmp_path, mode):
    """Operators count rows, too, which the query does not."""
    rows = source([("a", 10.0, 1.0), ("a", 11.0, 1.0)], [("z", 900.0, 1.0)], [("z", 901.0, 1.0)])
    query = wk.query(by="k", time="ts", windows=wk.sliding("2 minutes", "1 minute"), aggs=wk.sum("n"))
    result = query.run(rows.selectExpr("k", "ts", "bigint(9e18) as n"), output_mode=mode)
    said = r"Overflow: sum\(n\): .*; in the query by k over ts, windows [^,]*, [^,]*, answers sum\(n\)\n"
    with pytest.raises(PySparkException, match=said):
        run_stream(result, tmp_path / "checkpoint", mode)


def test_explain(source):
    text = QUERY.explain(source(), output_mode="update", route="operator")
    assert "route: operator, as it is requested" in text
    assert "stream in update mode, each row counted exactly once" in text
    assert "8 buckets of k in 2 partitions" in text
    assert "a snapshot every 10 batches" in text
    query = wk.query(by=[], time="ts", windows=wk.tumbling(rows=3), aggs=wk.sum("v"))
    assert "one bucket in 1 partitions" in query.explain(source())


def test_connect(remote, tmp_path):
    """A client of Spark Connect runs a stream, and goes on from its checkpoint with rows that came since."""
    for number, rows in enumerate(mixed(3)):
        (tmp_path / "in").mkdir(exist_ok=True)
        pq.write_table(table(rows), tmp_path / "in" / f"{number}.parquet")
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession
        import windowkit as wk

        address, folder = sys.argv[1:]
        spark = SparkSession.builder.remote(address).config("spark.sql.shuffle.partitions", "2").getOrCreate()
        assert "connect" in type(spark).__module__
        spark.conf.set(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        query = wk.query(by="k", time="ts", windows=wk.sliding("1 minute", "20 seconds"), aggs=wk.median("v"))
        batch = spark.read.parquet(f"{folder}/in")
        rows = spark.readStream.schema(batch.schema).option("maxFilesPerTrigger", 1).parquet(f"{folder}/in")
        result = query.run(rows.withWatermark("ts", "1 hour"), output_mode="append")
        assert result.isStreaming
        assert "inside transformWithState" in query.explain(rows.withWatermark("ts", "1 hour"))
        for number in range(2):
            written = result.writeStream.format("parquet").option("path", f"{folder}/out")
            written = written.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
            assert written.start().awaitTermination(120)
            if number == 0:
                # It moves the watermark on, so that all windows before it are final.
                last = spark.sql("select 'a' k, timestamp'2000-01-01' ts, 1D v, true mark").coalesce(1)
                last.write.mode("append").parquet(f"{folder}/in")
        # Spark's watermark begins at 1970.
        wanted = query.run(batch.where("ts < '1999-01-01'")).where("unix_micros(window_end) > 0")
        got = spark.read.schema(wanted.schema).parquet(f"{folder}/out")
        assert got.count() == wanted.count() > 10, (got.count(), wanted.count())
        assert got.exceptAll(wanted).count() == 0
        print("equal")
        """,
        remote,
        str(tmp_path),
    )
    assert printed.split() == ["equal"]
