"""Results do not depend on how Spark is set, nor on how rows are spread over partitions."""

import pytest
from pyspark.sql import functions as sf

import windowkit as wk

WINDOWS = [wk.sliding("10 minutes", "4 minutes"), wk.session("2 minutes")]
AGGS = [wk.count(), wk.sum("v"), wk.sum("n"), wk.mean("n"), wk.max("device"), wk.stddev("v"), wk.last("at")]
QUERY = wk.query(by="device", time="ts", windows=WINDOWS, aggs=AGGS)
INITIAL = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
SMALL = {
    "spark.sql.adaptive.coalescePartitions.minPartitionSize": "1b",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "1000b",
}
TUMBLING = wk.query(by="device", time="ts", windows=wk.tumbling("10 minutes"), aggs=AGGS)


@pytest.mark.parametrize(
    "changed",
    [
        {"spark.sql.adaptive.enabled": "false"},
        {
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        },
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.session.timeZone": "America/St_Johns"},
        {"spark.sql.execution.arrow.useLargeVarTypes": "true"},
        {"spark.sql.execution.arrow.maxRecordsPerBatch": "7"},
        {"spark.sql.shuffle.partitions": "1"},
        {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"},
        {"spark.sql.caseSensitive": "true"},
        {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
        {"spark.sql.retainGroupColumns": "false"},
        {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.enforceReservedKeywords": "true"},
    ],
    ids=lambda changed: ", ".join(
        f"{name.removeprefix('spark.sql.')}={value}" for name, value in changed.items()
    ),
)
def test_settings_do_not_matter(readings, check, settings, changed):
    with settings(changed):
        check(readings, QUERY)
        check(readings, TUMBLING)


@pytest.mark.parametrize(("rows", "partitions"), [("true", 1), ("true", 7), ("n % 9 = 0", 60)], ids=str)
def test_number_of_partitions(readings, check, rows, partitions):
    # With fewer rows than partitions, some are empty.
    check(readings.where(rows).repartition(partitions), QUERY)


def test_a_setting_may_change_between_planning_and_running(readings, settings):
    wanted = QUERY.run(readings).count()
    planned = QUERY.run(readings)
    with settings(
        {"spark.sql.session.timeZone": "Asia/Kathmandu", "spark.sql.execution.arrow.useLargeVarTypes": "true"}
    ):
        assert planned.count() == wanted


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        # More partitions to begin with than shuffles have otherwise, of which not all are joined.
        ({INITIAL: "8", **SMALL}, {}),
        ({}, {"spark.sql.shuffle.partitions": "7", "spark.sql.adaptive.enabled": "false"}),
        ({"spark.sql.adaptive.enabled": "false"}, {"spark.sql.shuffle.partitions": "2"}),
        ({INITIAL: "5", **SMALL}, {"spark.sql.adaptive.enabled": "false"}),
    ],
)
@pytest.mark.parametrize("kept", [False, True])
def test_shuffles_may_have_another_number_of_partitions(spark, settings, same_rows, earlier, later, kept):
    frame = spark.range(0, 4000, 1, 3).selectExpr(
        "id % 300 as k", "timestamp_seconds(id) as ts", "id % 7 as v"
    )
    query = wk.query(by="k", time="ts", windows=wk.session("3 minutes"), aggs=[wk.median("v"), wk.count()])
    oracle = wk.spark.reference(frame, query)
    with settings({"spark.sql.shuffle.partitions": "3", **earlier}):
        planned = query.run(frame)
        with settings(later):
            result = planned.cache() if kept else planned
            assert same_rows(result, oracle, query) > 100
            assert len(result.rdd.collect()) == oracle.count()
            if kept:
                result.unpersist()


def test_no_partition_has_two_rows_of_one_key(readings, check):
    check(readings.repartitionByRange(9, "ts"), QUERY)


def test_one_key_has_nearly_all_rows(spark, check):
    frame = spark.range(0, 5000, 1, 5).select(
        sf.expr("if(id % 1000 = 0, id, -1)").alias("k"),
        sf.timestamp_seconds(sf.pmod(sf.hash("id"), sf.lit(90_000))).alias("ts"),
        (sf.col("id") % 97).alias("v"),
    )
    windows = [wk.sliding("5 minutes", "1 minute"), wk.session("25 seconds")]
    check(frame, wk.query(by="k", time="ts", windows=windows, aggs=[wk.count(), wk.sum("v"), wk.stddev("v")]))


def test_no_rows(readings):
    for query in (QUERY, TUMBLING, wk.query(by=[], time="ts", windows=WINDOWS, aggs=AGGS)):
        for nothing in (readings.limit(0), readings.where("v > 1e9"), readings.where("ts is null")):
            for route in ("catalyst-panes", "packed", "rows", None):
                result = query.run(nothing, route=route)
                assert result.columns == query.columns
                assert result.collect() == []


def test_rows_without_time_are_dropped(readings, check):
    assert readings.where("ts is null").count() > 0
    query = wk.query(by="device", time="ts", windows=wk.tumbling("20000 days"), aggs=wk.count())
    total = query.run(readings).agg(sf.sum("count(1)")).first()[0]
    assert total == readings.where("ts is not null").count()
    check(readings, query)


def test_results_can_be_used_like_any_others(readings):
    windows = wk.sliding("10 minutes", "5 minutes")
    sliding = wk.query(by="device", time="ts", windows=windows, aggs=AGGS, window_columns="struct")
    result = sliding.run(readings)
    joined = result.alias("a").join(result.alias("b"), ["device", "window"]).where("a.`sum(n)` = b.`sum(n)`")
    assert joined.count() == result.where("device is not null and `sum(n)` is not null").count()
    with_time = result.select(sf.window_time("window").alias("at"), sf.col("window.end").alias("end"))
    assert with_time.where(sf.expr("end - at = interval 1 microsecond")).count() == result.count()
