"""`where=` in Spark: the rows of `.where(...)` on the result, and fewer that are read."""

from __future__ import annotations

import datetime as dt
import random
import re
from itertools import cycle

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
from support.extents import FORMS
from support.programs import program
from windowkit.language.conditions import condition
from windowkit.spark.parquet.filters import ALL, with_rows

HOURS = {
    "catalyst": wk.tumbling("1 hour"),
    "catalyst-panes": wk.sliding("1 hour", "20 minutes"),
    "packed": wk.sliding("1 hour", "20 minutes"),
    "rows": wk.sliding("1 hour", "20 minutes"),
}
EDGE = "2026-01-03 05:00:00"
CONDITIONS = [
    "k = 'a'",
    "not (k in ('a', 'b') and n > 2)",
    "k is null or K like 'b%'",
    f"window_start >= '{EDGE}' and window_end < timestamp '2026-01-03 09:00:00'",
    f"window_start = '{EDGE}' or window_end = '{EDGE}'",
    f"window_start <= timestamp_ntz '{EDGE}' and `sum(v)` between 3 and 40",
    "window_end <= date '2026-01-03' or (k = 'b' and window_start > date '2026-01-04')",
    "upper(k) = 'A' and window_start < '2026-01-03 12:00'",
    "case when n > 3 then k = 'a' else k <> 'a' end and k is not null",
    "case when struct(n as end).end > 3 and k = 'a' then false else true end",
    "window_start in ('2026-01-03 01:00', '2026-01-04 00:00') and hour(window_start) < 3",
    "k = 1 or k = 'a'",
    "true",
    "false",
    "not (k = 'a' and true) or (false and n > 3)",
    "k = 'a' and not false",
]


@pytest.fixture(scope="module")
def rows(spark):
    """Three days of readings, with null keys and fractions as keys, in the session's zone."""
    chance = random.Random(5)
    begin = dt.datetime(2026, 1, 2, 20)
    made = [
        (
            chance.choice(["a", "b", "ba", None]),
            chance.choice([0.0, -0.0, 1.5, float("nan"), None]),
            begin + dt.timedelta(minutes=chance.randint(0, 3_000)),
            chance.randint(0, 9),
        )
        for _ in range(400)
    ]
    return spark.createDataFrame(made, "k string, f double, ts timestamp, v bigint").cache()


def same(one, other):
    assert one.schema == other.schema
    assert sorted(map(repr, one.collect())) == sorted(map(repr, other.collect()))


def query_of(windows, *others, by="k", **options):
    aggs = [wk.count().alias("n"), wk.sum("v"), *others]
    return wk.query(by=by, time="ts", windows=windows, aggs=aggs, **options)


@pytest.mark.parametrize("where", CONDITIONS)
def test_it_is_where_of_the_result(rows, settings, where):
    """Also where text is no number, which is null then."""
    with settings({"spark.sql.ansi.enabled": "false"}):
        for (route, windows), form in zip(HOURS.items(), cycle(FORMS), strict=False):
            own = where if form == "flat" else where.replace("window_", "window.")
            query = query_of(windows, window_columns=form)
            same(query.run(rows, route=route, where=own), query.run(rows, route=route).where(own))


@pytest.mark.parametrize(
    ("form", "where"),
    [
        ("struct", f"session_window.start > '{EDGE}' and k = 'a'"),
        ("struct", "session_window.end < '2026-01-03'"),
        ("flat", f"window_start > '{EDGE}' and k = 'a'"),
    ],
)
def test_sessions(rows, form, where):
    query = query_of(wk.session("25 minutes"), window_columns=form)
    same(query.run(rows, where=where), query.run(rows).where(where))


def test_other_windows_and_columns(rows):
    for query, where in [
        (query_of([wk.tumbling("1 hour"), wk.tumbling("2 hours")]), f"window_start < '{EDGE}'"),
        (query_of(wk.tumbling(rows=3)), "k = 'a' and window_rows_start > 3"),
        (query_of(wk.tumbling("1 hour"), fill="zero"), f"window_start > '{EDGE}' and n = 0"),
        (
            query_of(wk.tumbling("1 day", zone="America/New_York")),
            "window_end = '2026-01-03 06:00:00'",
        ),
        (query_of(wk.tumbling("1 month")), "window_start < '2026-01-02'"),
        (query_of(wk.tumbling("1 hour"), wk.median("v")), "`median(v)` > 3 and k <> 'a'"),
    ]:
        every = query.run(rows).where(where)
        assert every.count() > 0, where
        same(query.run(rows, where=where), every)


@pytest.mark.parametrize("where", ["f < 1", "f = 0", "f >= 1.5", "f in (0, 1.5)", "f is null", "f <> 1.5"])
def test_keys_of_fractions(rows, where):
    query = query_of(wk.tumbling("1 hour"), by="f")
    same(query.run(rows, where=where), query.run(rows).where(where))
    same(query.run(rows, route="packed", where=where), query.run(rows, route="packed").where(where))


def test_times_that_are_dates_and_integers_and_have_no_zone(rows):
    frame = rows.selectExpr(
        "k", "to_date(ts) d", "cast(unix_seconds(ts) as int) i", "cast(ts as timestamp_ntz) z", "v"
    )
    for time, windows, where in [
        (
            "d",
            wk.sliding("2 days", "1 day"),
            "window_start <= '2026-01-02' or window_end > '2026-01-05'",
        ),
        ("i", wk.sliding(7200, 3600), "window_start < 1767400000 and window_end >= 1767396800"),
        (
            "z",
            wk.sliding("2 hours", "1 hour"),
            f"window_start <= '{EDGE}' and window_end > '2026-01-03 02:00'",
        ),
    ]:
        query = wk.query(by="k", time=time, windows=windows, aggs=wk.count().alias("n"))
        assert "before anything else: nothing" not in query.explain(frame, where=where)
        every = query.run(frame).where(where)
        assert every.count() > 0
        same(query.run(frame, where=where), every)


def scanned(frame):
    """Return the filters with which files are read."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return re.findall(r"PartitionFilters: \[(.*?)\], PushedFilters: \[(.*?)\]", plan)


@pytest.fixture(scope="module")
def path(spark, rows, tmp_path_factory):
    made = str(tmp_path_factory.mktemp("where") / "table")
    # INT96, Spark's default, has no statistics.
    spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
    rows.withColumn("day", sf.to_date("ts")).repartition(1).write.partitionBy("day").parquet(made)
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return made


WHERE = f"day = '2026-01-03' and k = 'a' and window_start >= '{EDGE}' and n > 1"


@pytest.mark.parametrize("agg", [wk.sum("v"), wk.median("v")], ids=str)
def test_partitions_are_pruned_and_files_filtered(spark, path, agg):
    frame = spark.read.parquet(path)
    query = wk.query(
        by=["day", "k"],
        time="ts",
        windows=wk.sliding("1 hour", "20 minutes"),
        aggs=[agg, wk.count().alias("n")],
    )
    ((partitions, files),) = scanned(query.run(frame, where=WHERE))
    assert "= 2026-01-03" in partitions
    assert "EqualTo(k,a)" in files
    assert "GreaterThanOrEqual(ts," in files
    # Without, nothing of it gets through mapInArrow.
    ((partitions, files),) = scanned(query.run(frame).where(WHERE))
    assert (partitions, "EqualTo(k,a)" in files) == ("", False)
    same(query.run(frame, where=WHERE), query.run(frame).where(WHERE))
    same(query.run(frame, where=WHERE, partitioner="hash", n=2), query.run(frame).where(WHERE))


def test_a_scan_leaves_files_and_row_groups_out(spark, path, settings):
    query = query_of(wk.sliding("1 hour", "20 minutes"), by=["day", "k"])
    every = query.run(spark.read.parquet(path))
    said = wk.spark.explain_scan(spark, path, query, where=WHERE)
    assert "directories rule out 2 of 3 files" in said
    assert f"where {WHERE}" in said
    same(wk.spark.scan(spark, path, query, where=WHERE), every.where(WHERE))
    late = "window_start > '2026-01-04 12:00:00'"
    assert "of which statistics rule out 2" in wk.spark.explain_scan(spark, path, query, where=late)
    for where in [late, "k is null", "k like 'b%' or n > 5", "day = '2026-1-3' or upper(k) = 'A'", "K = 'a'"]:
        same(wk.spark.scan(spark, path, query, where=where), every.where(where))
    filtered = wk.spark.scan(spark, path, query, filter=[("v", ">", 3)], where=WHERE)
    same(filtered, query.run(spark.read.parquet(path).where("v > 3")).where(WHERE))
    with settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        assert "left to Spark's reader" in wk.spark.explain_scan(spark, path, query, where=WHERE)
        same(wk.spark.scan(spark, path, query, where=WHERE), every.where(WHERE))


def test_nan_and_zeros_of_files(spark, path):
    """Which statistics and dictionaries do not know as Spark compares them."""
    frame = spark.read.parquet(path)
    query = query_of(wk.tumbling("1 hour"), by="f")
    for where in ["f = 0", "f > 1", "f < 1", "f = 1.5", "f in (0, 1.5)", "f > 100"]:
        every = query.run(frame).where(where)
        same(query.run(frame, where=where), every)
        same(wk.spark.scan(spark, path, query, where=where), every)


CALL = """windowkit(table(in_days), by => 'day, k', time => 'ts', windows => 'sliding(1 hour, 20 minutes)',
    aggs => 'median(v); count(*) as n')"""


@pytest.mark.parametrize(
    ("text", "pruned"),
    [
        (f"select * from {CALL} where day = '2026-01-03' and n > 1", True),
        (
            f"select w.k from {CALL} as w where w.day = '2026-01-03' and window_start > '{EDGE}' order by n",
            True,
        ),
        (f"select k, max(n) m from {CALL} where day = :day group by k having m > 1 limit 9", True),
        (
            f"with x as (select * from {CALL} where day = '2026-01-03') select k from x where n = 1",
            True,
        ),
        (f"select * from {CALL} a join (select 1 as one) where day = '2026-01-03'", False),
        (f"select * from {CALL} where day = '2026-01-03' or n > 3", False),
        (f"select * from {CALL} where day = '2026-01-' || '03' and k = 'a'", False),
        (f"select * from (select * from {CALL}) where day = '2026-01-03'", False),
    ],
)
def test_sql_takes_it_from_its_own_where(spark, path, text, pruned):
    spark.read.parquet(path).createOrReplaceTempView("in_days")
    found = wk.spark.sql(spark, text, args={"day": "2026-01-03"})
    ((partitions, _),) = scanned(found)
    assert ("= 2026-01-03" in partitions) is pruned
    query = wk.query(
        by=["day", "k"],
        time="ts",
        windows=wk.sliding("1 hour", "20 minutes"),
        aggs=[wk.median("v"), wk.count().alias("n")],
    )
    query.run(spark.read.parquet(path)).createOrReplaceTempView("made")
    same(found, spark.sql(text.replace(CALL, "made"), args={"day": "2026-01-03"}))


@pytest.mark.parametrize(
    ("where", "error", "match"),
    [
        (
            "nosuch = 1",
            wk.UnknownColumn,
            "where: 'nosuch = 1' names 'nosuch', which the result does not",
        ),
        ("n + 1", wk.InvalidValue, r"where: Spark does not evaluate 'n \+ 1'"),
        ("n > and k = 'a'", wk.InvalidValue, "where: Spark does not evaluate"),
        ("*", wk.InvalidValue, "where: Spark does not evaluate"),
        ("count(*) > 3", wk.InvalidValue, "where: Spark does not evaluate"),
        ("explode(array(true))", wk.InvalidValue, "where: Spark does not evaluate"),
        (3, wk.InvalidType, "where: an int is given"),
    ],
)
def test_what_is_no_condition(rows, where, error, match):
    with pytest.raises(error, match=match):
        query_of(wk.tumbling("1 hour")).run(rows, where=where)


@pytest.mark.parametrize(("many", "is_read"), [(100, True), (10_000, False)])
def test_tasks_do_not_test_rows_by_thousands_of_tests(many, is_read):
    """pyarrow would end their process; Spark filters after them."""
    rows = condition(" or ".join(f"k = '{number}'" for number in range(many))).tree
    chosen, needed, _ = with_rows(ALL, rows, {"k": pa.string()}, "UTC")
    assert (chosen is not None) is is_read
    assert list(needed) == (["k"] if is_read else [])


def test_it_is_of_queries(spark, rows, path):
    with pytest.raises(wk.InvalidValue, match=r"where: .* is given without a query"):
        wk.spark.aggregate(rows, keys="k", aggs=wk.sum("v"), partitioner="hash", n=2, where="k = 'a'")
    rolling = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("1 hour"))
    with pytest.raises(wk.InvalidValue, match=r"where: .* is given with rolling aggregates"):
        wk.spark.scan(spark, path, rolling, where="k = 'a'")


def test_names_that_spark_would_take_for_others(spark):
    frame = spark.createDataFrame(
        [(1, 2, dt.datetime(2026, 1, 3), 5)], "`a.b` int, `A.B.c` int, `t s` timestamp, v int"
    )
    query = wk.query(by="a.b", time="t s", windows=wk.tumbling("1 hour"), aggs=wk.sum("v"))
    where = "`a.b` = 1 and window_start >= '2026-01-03'"
    assert "`a.b` = 1 and `t s` >= '2026-01-03'" in query.explain(frame, where=where)
    same(query.run(frame, where=where), query.run(frame).where(where))


def test_connect(remote):
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession
        import windowkit as wk

        spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
        frame = spark.range(40).selectExpr("id % 3 as k", "timestamp_seconds(id) as ts", "id as v")
        query = wk.query(by="k", time="ts", windows=wk.sliding("10 seconds", "5 seconds"), aggs=wk.sum("v"))
        where = "K = 1 and window_start >= '1970-01-01 00:00:10+00:00' and `sum(v)` > 40"
        found = sorted(map(repr, query.run(frame, where=where).collect()))
        assert found == sorted(map(repr, query.run(frame).where(where).collect())) != []
        for where in ("nosuch = 1", "sum(k) > 1"):
            try:
                query.run(frame, where=where)
            except wk.WindowKitError as error:
                print(type(error).__name__, error)
        """,
        remote,
    )
    assert "UnknownColumn where: 'nosuch = 1' names 'nosuch'" in printed
    assert "InvalidValue where: Spark does not evaluate 'sum(k) > 1': [INVALID_WHERE_CONDITION]" in printed
