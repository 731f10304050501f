"""Sessions with a gap per row are Spark's own; long sessions and windows between predicates, its SQL's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk

AGGS = [wk.count(), wk.sum("v"), wk.max("v"), wk.min("n")]
OWN = ["count(1)", "sum(v)", "max(v)", "min(n)"]
ROUTES = ["catalyst", "packed", "rows"]


def collected(frame):
    return sorted(map(tuple, frame.collect()), key=repr)


@pytest.fixture(scope="module", params=["timestamp", "timestamp_ntz"])
def frame(spark, request):
    """Rows in disorder over several partitions, with gaps of all sorts: a third of them is none."""
    return (
        spark.range(3_000)
        .select(
            (sf.col("id") * 7919 % 5).alias("k"),
            sf.timestamp_micros(sf.col("id") * 15_485_863 % 3_000_017 * 1_000)
            .cast(request.param)
            .alias("ts"),
            # As Spark takes it.
            sf.expr(
                """case when id % 6 = 0 then null when id % 6 = 1 then concat(-(id % 900), ' milliseconds')
                        when id % 600 = 2 then '1 minute' when id % 60 = 3 then '0 seconds'
                        else concat(id % 2500, ' milliseconds') end"""
            ).alias("said"),
            sf.expr("if(id % 7 = 3, null, double(id * 31 % 97))").alias("v"),
            sf.expr("if(id % 9 = 3, null, id % 1009)").alias("n"),
            sf.expr("if(id % 11 = 4, null, id % 5 = 0)").alias("hot"),
            sf.expr("if(id % 13 = 4, null, id % 4 = 0)").alias("cold"),
        )
        .withColumn(
            "gap",
            sf.expr(
                """case when said is null then null when said like '%minute' then interval '1' minute
                        when said like '0 s%' then interval '0' second
                        else interval '0.001' second * bigint(substring_index(said, ' ', 1)) end"""
            ).cast("interval day to second"),
        )
        .repartition(5)
        .cache()
    )


@pytest.mark.parametrize("route", [None, *ROUTES])
@pytest.mark.parametrize("by", [[], ["k"]])
def test_gaps_of_rows_are_those_of_spark(frame, route, by):
    query = wk.query(by=by, time="ts", windows=wk.session("gap"), aggs=AGGS, window_columns="struct")
    wanted = frame.groupBy(*by, sf.session_window("ts", sf.col("said"))).agg(*map(sf.expr, OWN))
    result = query.run(frame, route=route)
    assert result.columns == wanted.columns
    assert result.schema == wanted.schema
    assert collected(result) == collected(wanted)
    assert collected(wk.spark.reference(frame, query)) == collected(wanted)
    assert wanted.count() > 20


@pytest.mark.parametrize("route", [None, *ROUTES])
@pytest.mark.parametrize(
    "of", [lambda text: wk.expr(text, name="waits"), lambda text: sf.expr(text).alias("w")]
)
def test_gaps_that_are_computed_of_text_are_those_of_spark(frame, route, of):
    gap = of("timestamp_seconds(0) + cast(said as interval) - timestamp_seconds(0)")
    query = wk.query(by=["k"], time="ts", windows=wk.session(gap), aggs=AGGS, window_columns="struct")
    wanted = frame.groupBy("k", sf.session_window("ts", sf.col("said"))).agg(*map(sf.expr, OWN))
    result = query.run(frame, route=route)
    assert result.schema == wanted.schema
    assert collected(result) == collected(wanted)


def test_gaps_that_are_numbers_of_seconds_are_those_of_spark(frame):
    seconds = frame.withColumn("seconds", sf.expr("int(n % 4)"))
    gap = wk.expr("make_dt_interval(0, 0, 0, seconds)", name="gap of seconds")
    query = wk.query(by=["k"], time="ts", windows=wk.session(gap), aggs=AGGS, window_columns="struct")
    said = sf.expr("concat(seconds, ' seconds')")
    wanted = seconds.groupBy("k", sf.session_window("ts", said)).agg(*map(sf.expr, OWN))
    assert collected(query.run(seconds)) == collected(wanted)
    plain = wk.query(by=["k"], time="ts", windows=wk.session("seconds"), aggs=AGGS)
    with pytest.raises(wk.InvalidType, match=r"windowkit\.expr\('make_dt_interval\(0, 0, 0, \.\.\.\)'\)"):
        plain.run(seconds)
    text = wk.query(by=["k"], time="ts", windows=wk.session("said"), aggs=AGGS)
    with pytest.raises(
        wk.InvalidType, match=r"text like '5 minutes' is one by .* cast\(\.\.\. as interval\)"
    ):
        text.run(seconds)


def test_explain_says_what_spark_does(frame):
    query = wk.query(by="k", time="ts", windows=wk.session("gap"), aggs=wk.sum("v"))
    text = query.explain(frame)
    assert "route: catalyst, as Spark answers sessions with a column of gaps itself" in text
    gap = "concat(unix_micros(timestamp_seconds(0) + gap), ' microseconds')"
    assert f"group by: k, session_window(ts, {gap})" in text
    with pytest.raises(wk.InvalidValue, match="session\\(gap\\) need rows in order"):
        query.run(frame, route="catalyst-panes")


def test_gaps_over_integers_are_for_the_core(spark):
    table = pa.table({"t": [0, 5, 11, 12], "gap": [5, 6, None, 1]})
    frame = spark.createDataFrame(table)
    query = wk.query(by=[], time="t", windows=wk.session("gap", at_most=9), aggs=wk.count().alias("n"))
    for route in (None, "packed", "rows"):
        assert collected(query.run(frame, route=route)) == [(0, 9, 2), (12, 13, 1)]
    longer = wk.query(by=[], time="t", windows=wk.session("gap"), aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match="t is not a timestamp"):
        longer.run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="Spark's sessions have no maximum length"):
        query.run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="Spark does not offer session\\(gap, at_most=9\\)"):
        wk.spark.reference(frame, query)


@pytest.mark.parametrize("route", ["packed", "rows"])
def test_long_sessions_are_a_fold_over_sorted_rows(frame, route):
    """Spark's `aggregate` folds a key's sorted times."""
    query = wk.query(
        by="k",
        time="ts",
        windows=wk.session("12 seconds", at_most="1 minute"),
        aggs=wk.count().alias("n"),
    )
    sorted_times = frame.groupBy("k").agg(
        sf.expr("array_sort(collect_list(unix_micros(timestamp(ts))))").alias("times")
    )
    last = "found[size(found) - 1]"
    joins = f"{last}.n > 0 and t <= {last}.l + 12000000 and t < {last}.s + 60000000"
    longer = f"struct({last}.s as s, t as l, {last}.n + 1 as n)"
    step = f"""if({joins}, concat(slice(found, 1, size(found) - 1), array({longer})),
                  concat(found, array(struct(t as s, t as l, bigint(1) as n))))"""
    nothing = "array(struct(bigint(0) as s, bigint(0) as l, bigint(0) as n))"
    folded = sorted_times.select(
        "k", sf.expr(f"explode(aggregate(times, {nothing}, (found, t) -> {step}))").alias("w")
    )
    wanted = folded.where("w.n > 0").selectExpr("k", "w.s", "least(w.l + 12000000, w.s + 60000000)", "w.n")
    edges = [f"unix_micros(timestamp(window_{edge})) as {edge}" for edge in ("start", "end")]
    got = query.run(frame, route=route).selectExpr("k", *edges, "n")
    assert collected(got) == collected(wanted)
    assert got.where("end - start = 60000000").count() > 0


@pytest.mark.parametrize("route", ["packed", "rows"])
def test_windows_between_predicates_are_islands(frame, route):
    """Runs of rows up to each that leaves, from the first of them that enters."""
    before = "over (partition by k order by ts rows between unbounded preceding and 1 preceding)"
    so_far = "over (partition by k, run order by ts rows between unbounded preceding and current row)"
    frame.createOrReplaceTempView("rows")
    wanted = frame.sparkSession.sql(f"""
        select k, min(ts), max(ts), count(1), sum(v) from (
            select *, max(if(coalesce(hot, false), ts, null)) {so_far} is not null as inside
            from (select *, coalesce(sum(int(coalesce(cold, false))) {before}, 0) as run
                  from rows)
        ) where inside group by k, run
    """)
    query = wk.query(by="k", time="ts", windows=wk.between("hot", "cold"), aggs=[wk.count(), wk.sum("v")])
    got = query.run(frame, route=route).select("k", "window_start", "window_end", "count(1)", "sum(v)")
    assert collected(got) == collected(wanted)
    with pytest.raises(wk.InvalidValue, match="Spark does not offer between\\(hot, cold\\)"):
        query.run(frame, route="catalyst")
