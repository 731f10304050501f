"""Names, types, nullability and metadata of results are Spark's own, whatever columns are called."""

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk

ODD = ["a.b", "a b", "`", "a`b`", "ключ", "c0", "p0", "pane", "a0", "i0", "o0", "{k}", "Window", "it's \\ "]
ODD += ["null", "current_date", "select", "sum(v)"]

WINDOW = wk.sliding("10 minutes", "4 minutes")


@pytest.mark.parametrize("name", ODD, ids=repr)
def test_odd_names_of_keys_times_and_values(from_arrow, check, name):
    times = pa.array([row * 9_000_000 for row in range(40)], pa.timestamp("us", tz="UTC"))
    key, time, value = name, f"{name}{name}", f"{name} {name}"
    frame = from_arrow(
        {key: pa.array([row % 3 for row in range(40)]), time: times, value: pa.array(range(40))}
    )
    window = wk.sliding("1 minute", "25 seconds")
    query = wk.query(by=key, time=time, windows=window, aggs=[wk.max(value), wk.sum(value).alias("s`.x")])
    check(frame, query)
    assert "route: catalyst-panes" in query.explain(frame)


def test_joined_columns_of_odd_names(from_arrow):
    frame = from_arrow({"null": pa.array([1, 2]), "true": pa.array([5, 6]), "a.b": pa.array([7, 8])})
    for names in (["true"], ["true", "a.b"]):
        join = wk.join(by="null", left_time="true", right_time="true", within=0, left_columns=names)
        found = join.run(frame, frame, route="packed").select(*(f"`{name}`" for name in names))
        assert sorted(map(tuple, found.collect())) == sorted(
            map(tuple, frame.select(*(f"`{name}`" for name in names)).collect())
        )


def test_names_of_another_case(spark, readings, settings):
    windows = wk.sliding("1 hour", "20 minutes")
    query = wk.query(by="DEVICE", time="Ts", windows=windows, aggs=wk.sum("V"), window_columns="struct")
    spark_s = readings.groupBy("DEVICE", sf.window("Ts", "1 hour", "20 minutes")).agg(sf.sum("V"))
    assert query.run(readings).schema == spark_s.schema
    assert query.run(readings).count() == spark_s.count()
    with settings({"spark.sql.caseSensitive": "true"}), pytest.raises(wk.UnknownColumn, match="DEVICE"):
        query.run(readings)


def test_a_column_that_is_named_in_two_cases(readings, check):
    """As key and as value, as time and as value, and twice as value."""
    for query in (
        wk.query(by="device", time="ts", windows=WINDOW, aggs=[wk.count("DEVICE"), wk.max("TS")]),
        wk.query(by=[], time="Ts", windows=WINDOW, aggs=[wk.sum("v"), wk.median("V"), wk.last("ts")]),
    ):
        check(readings, query)
        assert query.run(readings).columns == query.columns


def test_names_that_differ_by_case_only(spark, check):
    frame = spark.range(20).selectExpr("id % 2 as k", "id % 3 as K", "timestamp_seconds(id) as ts", "id as v")
    query = wk.query(by=["k", "K"], time="ts", windows=wk.session("2 seconds"), aggs=wk.sum("v"))
    check(frame, query)
    with pytest.raises(wk.InvalidValue, match="'V' is ambiguous"):
        wk.query(by=[], time="ts", windows=wk.session("2 seconds"), aggs=wk.sum("V")).run(
            frame.selectExpr("ts", "v as v", "v as v")
        )


def test_columns_that_are_not_read_may_be_anything(spark):
    frame = spark.range(20).selectExpr(
        "timestamp_seconds(id) as ts",
        "id as twice",
        "id as twice",
        "parse_json('{}') as variant",
        "interval 1 month m",
    )
    query = wk.query(by=[], time="ts", windows=wk.sliding("2 seconds", "1 second"), aggs=wk.count())
    assert query.run(frame).count() == 21


SPARK_S = {
    "tumbling": (wk.tumbling("10 minutes"), lambda time: sf.window(time, "10 minutes")),
    "sliding": (
        wk.sliding("10 minutes", "5 minutes"),
        lambda time: sf.window(time, "10 minutes", "5 minutes"),
    ),
    "session": (wk.session("5 minutes"), lambda time: sf.session_window(time, "5 minutes")),
}


@pytest.mark.parametrize("time", ["ts", "ntz"])
@pytest.mark.parametrize("kind", SPARK_S)
def test_schema_equals_spark_s_to_the_last_flag(readings, kind, time):
    ours, theirs = SPARK_S[kind]
    aggs = [
        wk.count(),
        wk.count("v"),
        wk.sum("n"),
        wk.avg("n"),
        wk.min("device"),
        wk.variance("v"),
        wk.stddev_pop("v"),
        wk.max("v").alias("peak"),
    ]
    query = wk.query(
        by=["device", "key", "not null"], time=time, windows=ours, aggs=aggs, window_columns="struct"
    )
    frame = readings.withColumn("not null", sf.lit(1)).withColumn(
        "key", sf.struct(sf.col("n"), sf.lit(1).alias("one")).alias("key", metadata={"of": "the user"})
    )
    wanted = frame.groupBy("device", "key", "not null", theirs(time)).agg(
        sf.count("*"),
        sf.count("v"),
        sf.sum("n"),
        sf.avg("n"),
        sf.min("device"),
        sf.variance("v"),
        sf.stddev_pop("v"),
        sf.max("v").alias("peak"),
    )
    for route in ("catalyst", "catalyst-panes", "packed", "rows"):
        if route == "catalyst" and kind != "tumbling":
            continue
        result = wk.spark.aggregate(frame, query, route=route)
        assert result.schema == wanted.schema
        assert result.count() == wanted.count()


def test_planning_does_not_depend_on_how_far_windows_overlap(readings):
    # Spark's own analysis would make an expression per window of a row, here 864 million.
    query = wk.query(by="device", time="ts", windows=wk.sliding("10 days", "1 millisecond"), aggs=wk.count())
    assert query.run(readings).columns == ["device", "window_start", "window_end", "count(1)"]
