"""`wk.spark.wids`, `explode` and `groupBy` against Spark's own `window`."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.programs import program

SECOND = 1_000_000


@pytest.fixture(scope="module")
def df(spark):
    """Rows of two keys within an hour that begins before 1970, some without a time."""
    drawn = random.Random(5)
    times = [drawn.choice([None, drawn.randrange(-1800 * SECOND, 1800 * SECOND)]) for _ in range(300)]
    times += [60 * SECOND * minute for minute in range(-5, 5)]
    table = pa.table(
        {
            "k": [row % 2 for row in range(len(times))],
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "ntz": pa.array(times, pa.timestamp("us")),
            "v": range(len(times)),
        }
    )
    return spark.createDataFrame(table).repartition(3)


def by_ids(df, window, time, kind):
    """Return the sums of each window, by ids, their extents looked up last."""
    ids = sf.explode(sf.sequence("w.first", "w.last"))
    tagged = df.select("k", "v", wk.spark.wids(window, time).alias("w")).select("k", "v", ids.alias("id"))
    found = tagged.groupBy("k", "id").agg(sf.sum("v").alias("v"), sf.count("*").alias("n")).toArrow()
    extents = window.extent(found["id"], kind)
    columns = (found["k"], extents.field("start"), extents.field("end"), found["v"], found["n"])
    return sorted(zip(*(each.cast(pa.int64()).to_pylist() for each in columns), strict=True))


@pytest.mark.parametrize("time", ["ts", "ntz"])
@pytest.mark.parametrize(
    "lengths",
    [
        ("5 minutes", "5 minutes", "0 seconds"),
        ("5 minutes", "1 minute", "0 seconds"),
        ("7 minutes", "3 minutes", "10 seconds"),
        ("1 minute", "40 seconds", "-15 seconds"),
    ],
    ids=str,
)
def test_windows_are_those_of_spark(df, time, lengths):
    size, slide, start_time = lengths
    window = wk.sliding(size, slide, start_time=start_time)
    own = df.groupBy("k", sf.window(time, *lengths).alias("w"))
    wanted = own.agg(sf.sum("v").alias("v"), sf.count("*").alias("n")).select(
        "k", "w.start", "w.end", "v", "n"
    )
    wanted = wanted.toArrow()
    columns = [each.cast(pa.int64()).to_pylist() for each in wanted.columns]
    kind = pa.timestamp("us", "UTC") if time == "ts" else pa.timestamp("us")
    found = by_ids(df, window, sf.col(time), kind)
    assert found == sorted(zip(*columns, strict=True))
    assert len(found) > 20


def test_tumbling_windows_of_days_and_integers(spark):
    days = spark.sql("select date'1969-12-31' as day, -1l as t union all select date'2022-01-09', 25l")
    columns = [
        wk.spark.wids(wk.tumbling("2 days"), "day").alias("d"),
        wk.spark.wids(wk.tumbling(10), "t").alias("i"),
    ]
    rows = days.select(*columns).collect()
    assert {(row.d.first, row.d.last, row.i.first, row.i.last) for row in rows} == {
        (-1, -1, -1, -1),
        (9500, 9500, 2, 2),
    }


def test_a_row_in_no_window_is_dropped(spark):
    rows = spark.range(20).select("id", wk.spark.wids(wk.band(3, 6), "id").alias("w"))
    assert rows.where("w is not null").orderBy("id").select("id").toArrow()["id"].to_pylist() == [3, 4, 5]
    assert rows.select(sf.explode(sf.sequence("w.first", "w.last"))).count() == 3


def test_cumulative_windows(spark):
    """Of the hours so far, by ids, as `run` has them, which leaves out those without a new row."""
    window = wk.landmark(5, period=20)
    rows = spark.range(0, 40, 3).withColumnRenamed("id", "t")
    tagged = rows.select("t", wk.spark.wids(window, "t").alias("w"))
    counts = (
        tagged.select(sf.explode(sf.sequence("w.first", "w.last")).alias("id"))
        .groupBy("id")
        .count()
        .toArrow()
    )
    naive = {
        (start, end): sum(start <= t < end for t in range(0, 40, 3))
        for start in (0, 20)
        for end in range(start + 5, start + 21, 5)
    }
    extents = window.extent(counts["id"]).to_pylist()
    found = {
        (each["start"], each["end"]): n for each, n in zip(extents, counts["count"].to_pylist(), strict=True)
    }
    assert found == {extent: n for extent, n in naive.items() if n}


def test_what_has_no_finite_range_is_refused(df):
    with pytest.raises(wk.InvalidType, match=r"session.* has no window ids"):
        wk.spark.wids(wk.session("1 minute"), "ts")
    with pytest.raises(wk.InvalidValue, match="infinitely many"):
        wk.spark.wids(wk.landmark(5, start=0), "v")
    with pytest.raises(wk.InvalidType, match="window: '1 minute' is a str"):
        wk.spark.wids("1 minute", "ts")
    with pytest.raises(
        Exception, match=r"size of tumbling.* is a duration, but column 'times' is an integer"
    ):
        df.select(wk.spark.wids(wk.tumbling("1 minute"), "v")).collect()


def test_an_older_pyspark_is_refused(monkeypatch):
    monkeypatch.delattr(sf, "arrow_udf")
    with pytest.raises(wk.InvalidValue, match=r"has no arrow_udf; .* need pyspark 4\.1"):
        wk.spark.wids(wk.tumbling("1 minute"), "ts")


def test_connect(remote):
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk

        builder = SparkSession.builder.remote(sys.argv[1])
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        assert "connect" in type(spark).__module__
        frame = spark.range(-90, 90).select(sf.timestamp_seconds("id").alias("ts"))
        ranges = frame.select(wk.spark.wids(wk.sliding("1 minute", "20 seconds"), "ts").alias("w"))
        tagged = ranges.select(sf.explode(sf.sequence("w.first", "w.last")).alias("id"))
        print([tuple(row) for row in tagged.groupBy("id").count().orderBy("id").collect()])
        spark.stop()
        """,
        remote,
    )
    counts = [(k, sum(20 * k <= t < 20 * k + 60 for t in range(-90, 90))) for k in range(-10, 10)]
    assert printed == f"{[(k, n) for k, n in counts if n]}\n"
