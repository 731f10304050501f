"""Every kind of window, over timestamps with and without zone, on every route, against Spark's own."""

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

import windowkit as wk

pytestmark = pytest.mark.usefixtures("compiled")

AGGS = [
    wk.count(),
    wk.count("v"),
    wk.sum("v"),
    wk.sum("n"),
    wk.mean("n"),
    wk.max("v"),
    wk.min("n"),
    wk.stddev("v"),
    wk.first("at"),
    wk.last("at"),
    wk.first("maybe", ignore_nulls=True).alias("first maybe"),
    wk.last("maybe", ignore_nulls=True).alias("last maybe"),
]

WINDOWS = {
    "tumbling": wk.tumbling("10 minutes"),
    "tumbling, as long as a slide": wk.sliding("10 minutes", "10 minutes"),
    "tumbling with start time": wk.tumbling("1 day", start_time="-90 minutes"),
    "sliding, a multiple": wk.sliding("10 minutes", "1 minute"),
    "sliding, no multiple": wk.sliding("10 minutes", "4 minutes", start_time="15 seconds"),
    "sliding, microseconds": wk.sliding("5 microseconds", "3 microseconds", start_time="-1 microsecond"),
    "session": wk.session("2 minutes"),
    "several, sliding and tumbling": [
        wk.tumbling("7 minutes"),
        wk.sliding("1 hour", "25 minutes").alias("hourly"),
        wk.tumbling("1 day"),
    ],
    "several, with sessions": [
        wk.session("2 minutes"),
        wk.sliding("10 minutes", "3 minutes"),
        wk.session("1 hour"),
    ],
    "several sessions": [wk.session("30 seconds"), wk.session("5 minutes")],
}


@pytest.mark.parametrize("time", ["ts", "ntz"])
@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS.keys())
def test_windows_are_spark_s(readings, check, windows, time):
    check(readings, wk.query(by="device", time=time, windows=windows, aggs=AGGS))


def test_no_key_is_one_group(readings, check):
    windows = [wk.sliding("10 minutes", "4 minutes"), wk.session("1 minute")]
    check(readings, wk.query(by=[], time="ts", windows=windows, aggs=AGGS))
    check(readings, wk.query(by=[], time="ts", windows=wk.tumbling("1 hour"), aggs=AGGS))


def test_an_event_on_the_end_of_a_session_joins_it(spark, check):
    frame = spark.range(6).select(
        (sf.col("id") % 2).alias("k"), sf.timestamp_seconds(sf.col("id") * 10 - 30).alias("ts")
    )
    for gap in ("20 seconds", "19999999 microseconds"):
        check(frame, wk.query(by="k", time="ts", windows=wk.session(gap), aggs=wk.count()))
    touching = wk.query(by="k", time="ts", windows=wk.session("20 seconds"), aggs=wk.count())
    assert touching.run(frame).count() == 2


def test_result_of_run_and_of_transform_is_a_lazy_dataframe(readings):
    query = wk.query(by="device", time="ts", windows=wk.session("1 minute"), aggs=wk.count())
    assert isinstance(query.run(readings), DataFrame)
    transformed = readings.transform(wk.spark.aggregate, query)
    assert transformed.schema == query.run(readings).schema
    assert transformed.count() == query.run(readings, route="rows").count()
