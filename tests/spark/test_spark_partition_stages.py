"""Aggregation in three stages, and streams: results are those of Spark's own aggregation."""

import re

import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark


@pytest.fixture(scope="module")
def skewed(spark):
    other = sf.pmod(sf.hash("id"), sf.lit(40)).cast("string")
    columns = [
        sf.when(sf.col("id") % 10 < 3, sf.lit("hot")).when(sf.col("id") % 10 > 3, other).alias("k"),
        sf.when(sf.col("id") % 11 > 0, sf.timestamp_millis(sf.col("id") * 700)).alias("ts"),
        sf.when(sf.col("id") % 7 > 0, sf.col("id") * 3.25 - 1000).alias("v"),
        (sf.col("id") * (1 << 40)).alias("n"),
    ]
    return spark.range(0, 6000, 1, 3).select(*columns).cache()


WINDOWS = {
    "tumbling": wk.tumbling("10 minutes"),
    "sliding": wk.sliding("10 minutes", "4 minutes"),
    "session": wk.session("3 seconds"),
    "several": [wk.session("3 seconds"), wk.sliding("1 hour", "10 minutes")],
}
AGGS = [
    wk.count(),
    wk.count("v"),
    wk.sum("v"),
    wk.sum("n").alias("exact"),
    wk.avg("v"),
    wk.stddev("v"),
    wk.min("v"),
    wk.max("n"),
]


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("partitioner", ["waterfill", "shuffle"])
def test_windows_in_three_stages_are_those_of_spark(skewed, check, monkeypatch, windows, partitioner):
    query = wk.query(by="k", time="ts", windows=WINDOWS[windows], aggs=AGGS)
    staged = query.run(skewed, partitioner=partitioner, n=5)
    # The fixture compares what `aggregate` returns for a route.
    monkeypatch.setattr(windowkit.spark, "aggregate", lambda *_, **__: staged)
    check(skewed, query, routes=(None,))


HOLISTIC = [
    wk.median("v"),
    wk.quantile("n", 0.3),
    wk.count_distinct("n"),
    wk.mode("v"),
    wk.collect_list("n"),
    wk.collect_rows("n", "v"),
    wk.approx_count_distinct("n", 6),
    wk.first("v"),
    wk.last("n", ignore_nulls=True),
    wk.arg_max("n", by="v"),
]


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("partitioner", ["waterfill", "shuffle", "cam"])
def test_what_catalyst_cannot_hold_is_joined_of_packed_slices(
    skewed, check, monkeypatch, windows, partitioner
):
    query = wk.query(by="k", time="ts", windows=WINDOWS[windows], aggs=HOLISTIC)
    staged = query.run(skewed, partitioner=partitioner, n=5)
    monkeypatch.setattr(windowkit.spark, "aggregate", lambda *_, **__: staged)
    check(skewed, query, routes=(None,))
    text = query.explain(skewed, partitioner=partitioner, n=5)
    assert "stage 2, partial evaluation, in Rust, as Catalyst cannot hold all values of v in columns" in text


@pytest.mark.parametrize("windows", WINDOWS)
def test_first_and_last_of_a_split_key_are_by_time(skewed, check, monkeypatch, windows):
    aggs = [wk.first("v"), wk.last("v"), wk.first("n", ignore_nulls=True), wk.m4("v", times=True)]
    query = wk.query(by="k", time="ts", windows=WINDOWS[windows], aggs=aggs)
    staged = query.run(skewed, partitioner="shuffle", n=5)
    assert "in Catalyst: each" in query.explain(skewed, partitioner="shuffle", n=5)
    monkeypatch.setattr(windowkit.spark, "aggregate", lambda *_, **__: staged)
    check(skewed, query, routes=(None,))


def test_medians_without_windows(skewed):
    aggs = [wk.median("v"), wk.count_distinct("v"), wk.sum("n")]
    result = windowkit.spark.aggregate(skewed, keys="k", aggs=aggs, partitioner="waterfill", n=4)
    texts = ["median(v)", "count(distinct v)", "sum(n)"]
    own = skewed.groupBy("k").agg(*map(sf.expr, texts))
    assert sorted(map(repr, result.collect())) == sorted(map(repr, own.collect()))


def test_a_split_key_is_joined(skewed):
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count().alias("n"))
    text = query.explain(skewed, partitioner="waterfill", n=5)
    assert re.search("keys that are split: [1-9]", text)
    assert text.index("stage 1") < text.index("stage 2") < text.index("stage 3")
    made = windowkit.spark.partitioning(skewed, 5, "k")
    result = windowkit.spark.aggregate(skewed, query, partitioner=made)
    assert result.groupBy("k", "window_start").count().where("count > 1").count() == 0
    assert result.agg(sf.sum("n")).first()[0] == skewed.where("ts is not null").count()


def test_a_group_by_without_windows(skewed):
    frame = skewed.withColumnRenamed("k", "window").withColumn("odd.name", sf.col("n") % 3)
    aggs = [wk.count(), wk.sum("n"), wk.max("v"), wk.sum("v").alias("total"), wk.variance("v")]
    result = windowkit.spark.aggregate(
        frame, keys=["window", "odd.name"], aggs=aggs, partitioner="waterfill", n=4
    )
    names = ["count(1)", "sum(n)", "max(v)", "total", "variance(v)"]
    texts = ["count(1)", "sum(n)", "max(v)", "sum(v)", "variance(v)"]
    own = frame.groupBy("window", "`odd.name`").agg(
        *(sf.expr(t).alias(n) for t, n in zip(texts, names, strict=True))
    )
    assert [(f.name, f.dataType) for f in result.schema] == [(f.name, f.dataType) for f in own.schema]
    rounded = [
        df.select(
            "window",
            "`odd.name`",
            "`count(1)`",
            "`sum(n)`",
            "`max(v)`",
            sf.round("total", 6),
            sf.round(sf.log("`variance(v)`"), 6),
        )
        for df in (result, own)
    ]
    assert sorted(map(repr, rounded[0].collect())) == sorted(map(repr, rounded[1].collect()))


def test_a_sum_that_overflows_fails_as_in_other_routes(spark):
    frame = spark.range(4).selectExpr("'k' as k", f"bigint('{2**62}') as n")
    result = windowkit.spark.aggregate(frame, keys="k", aggs=wk.sum("n"), partitioner="shuffle", n=2)
    with pytest.raises(Exception, match=r"Overflow|does not fit"):
        result.collect()


QUERY = wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("n"))
REFUSED = {
    "no partitions": ({"query": QUERY, "partitioner": "hash"}, wk.InvalidValue, "n: None is given with"),
    "no partitioner": ({"query": QUERY, "n": 3}, wk.InvalidValue, "n: 3 is given without a partitioner"),
    "a route": (
        {"query": QUERY, "partitioner": "hash", "n": 3, "route": "rows"},
        wk.InvalidValue,
        "route: 'rows'",
    ),
    "no query": ({"partitioner": "hash", "n": 3}, wk.InvalidValue, "query: None is given"),
    "both": (
        {"query": QUERY, "keys": "k", "partitioner": "hash", "n": 3},
        wk.InvalidValue,
        "keys: given with a query",
    ),
    "neither": ({"keys": "k", "aggs": wk.count()}, wk.InvalidValue, "query: None is given"),
    "a number": ({"query": QUERY, "partitioner": 3, "n": 3}, wk.InvalidType, "partitioner: 3 is an int"),
    "unknown": ({"query": QUERY, "partitioner": "best", "n": 3}, wk.InvalidValue, "method: 'best'"),
    "no key": (
        {
            "query": wk.query(by=[], time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count()),
            "partitioner": "hash",
            "n": 3,
        },
        wk.InvalidValue,
        "no keys",
    ),
    "no such key": (
        {"keys": "q", "aggs": wk.count(), "partitioner": "hash", "n": 3},
        wk.UnknownColumn,
        "'q'",
    ),
    "a key twice": (
        {"keys": ["k", "k"], "aggs": wk.count(), "partitioner": "hash", "n": 3},
        wk.InvalidValue,
        "twice",
    ),
    "by rows": (
        {
            "query": wk.query(by="k", time="ts", windows=wk.tumbling(rows=9), aggs=wk.median("v")),
            "partitioner": "hash",
            "n": 3,
        },
        wk.InvalidValue,
        r"partitioner: there are no partial aggregates to make, as tumbling\(9 rows\) needs the rows",
    ),
    "by time": (
        {"keys": "k", "aggs": wk.first("v"), "partitioner": "hash", "n": 3},
        wk.InvalidValue,
        "by time",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused(skewed, case):
    options, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message):
        windowkit.spark.aggregate(skewed, **options)


def test_a_partitioning_of_other_keys_is_refused(skewed):
    made = windowkit.spark.partitioning(skewed, 3, "n", "hash")
    with pytest.raises(wk.InvalidValue, match="it is by n, the query by k"):
        windowkit.spark.aggregate(skewed, QUERY, partitioner=made)
    made = windowkit.spark.partitioning(skewed, 3, "k", "hash")
    with pytest.raises(wk.InvalidValue, match="n: 3 is given with a Partitioning"):
        windowkit.spark.aggregate(skewed, QUERY, partitioner=made, n=3)


@pytest.fixture
def stream(spark, skewed, tmp_path):
    """The rows of `skewed`, a file at a time."""
    skewed.repartition(3).write.parquet(str(tmp_path / "rows"))
    return (
        spark.readStream.schema(skewed.schema).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "rows"))
    )


def drained(stream, name):
    """Return the rows of a stream, after its last micro-batch."""
    running = stream.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    running.awaitTermination()
    assert len(running.recentProgress) >= 3
    return stream.sparkSession.table(name)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("waterfill", {}),
        ("hash", {}),
        ("shuffle", {}),
        ("cam", {"window": wk.tumbling("10 minutes"), "time": "ts"}),
    ],
)
def test_a_stream_is_repartitioned_batch_by_batch(skewed, stream, method, options):
    assert stream.isStreaming
    result = wk.spark.repartition(stream, 4, "k", method, **options).withColumn("p", sf.spark_partition_id())
    rows = drained(result, f"stream_{method}")
    assert rows.drop("p").exceptAll(skewed).count() == 0
    assert rows.count() == 6000
    assert {p for (p,) in rows.select("p").distinct().collect()} == set(range(4))
    homes = rows.groupBy("k").agg(sf.count_distinct("p").alias("n"))
    if method == "hash":
        assert homes.where("n > 1").count() == 0


def test_the_plan_of_a_batch_serves_a_stream(skewed, stream):
    made = wk.spark.partitioning(skewed, 4, "k", spread=["n"], sample=1)
    rows = drained(made.repartition(stream).withColumn("p", sf.spark_partition_id()), "stream_planned")
    homes = rows.groupBy("k").agg(sf.count_distinct("p").alias("n"))
    assert [k for (k,) in homes.where("n > 1").select("k").collect()] == ["hot"]
    assert rows.groupBy("p").count().agg(sf.max("count")).first()[0] < 1.15 * 6000 / 4


def test_foreach_batch_plans_each_batch(skewed, stream):
    said, sizes = [], []

    def each(batch, _):
        made = wk.spark.partitioning(batch, 4, "k")
        said.append(made.explain())
        sizes.append(made.repartition(batch).rdd.glom().map(len).collect())

    running = stream.writeStream.foreachBatch(each).trigger(availableNow=True).start()
    running.awaitTermination()
    assert running.exception() is None
    assert len(said) == 3
    assert all("way: planned" in text for text in said)
    assert sum(map(sum, sizes)) == 6000
    assert all(max(size) < 1.2 * sum(size) / 4 for size in sizes)


def test_what_a_stream_cannot_do_is_refused(skewed, stream):
    with pytest.raises(wk.InvalidValue, match="rows of a stream cannot be counted"):
        wk.spark.repartition(stream, 4, "k", way="planned")
    made = wk.spark.partitioning(skewed, 4, "k", spread="position")
    with pytest.raises(wk.InvalidValue, match="a stream is not sorted"):
        made.repartition(stream)
    with pytest.raises(wk.InvalidValue, match="df: a streaming DataFrame"):
        wk.spark.aggregate(stream, QUERY, partitioner="hash", n=3)
