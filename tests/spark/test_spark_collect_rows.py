"""Rows of windows as lists of structs in Spark: every route, names, types, and what "all columns" are."""

from __future__ import annotations

import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

ROUTES = ("catalyst", "packed", "rows")
ALL = wk.collect_rows().alias("rows")


@pytest.fixture(scope="module")
def log(spark):
    """Rows of every type at times that are all apart, some with nulls and nothing else."""
    return (
        spark.range(0, 60, 1, 3)
        .selectExpr(
            "id % 2 as k",
            "if(id % 19 = 7, null, timestamp_seconds(7 * id % 61)) as ts",
            "if(id % 5 = 0, null, id) as n",
            "if(id % 4 = 0, null, concat('text ', id)) as s",
            "cast(timestamp_seconds(id) as timestamp_ntz) as ntz",
            "date_from_unix_date(int(id)) as d",
            "decimal(id) / 7 as dec",
            "make_dt_interval(0, 0, int(id)) as gap",
            "if(id % 3 = 0, null, array(id, null)) as list",
            "map(id, named_struct('x', 'y', 'n', null)) as m",
            "binary(string(id)) as b",
        )
        .cache()
    )


@pytest.mark.parametrize(
    "window", [wk.tumbling("20 seconds"), wk.sliding("20 seconds", "7 seconds")], ids=str
)
def test_rows_of_every_type_by_every_route(log, check, window):
    aggs = [ALL, wk.collect_rows("s", "n"), wk.collect_rows("n").where("flag")]
    frame = log.withColumn("flag", sf.col("n") % 2 == 0)
    query = wk.query(by="k", time="ts", windows=window, aggs=aggs)
    check(frame, query, routes=ROUTES)
    with pytest.raises(wk.InvalidValue, match=r"Catalyst cannot hold all rows of k, ts, n, s, .* in columns"):
        query.run(frame, route="catalyst-panes")


def test_the_rows_are_those_of_the_definition(log):
    """By what reads them one by one here, and not by an expression of ours."""
    rows = [row for row in log.collect() if row.ts is not None]
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=ALL)
    wanted = {k: sorted((row for row in rows if row.k == k), key=lambda row: row.ts) for k in (0, 1)}
    for route in ROUTES:
        assert {row.k: row.rows for row in query.run(log, route=route).collect()} == wanted


def test_all_columns_are_in_the_order_of_the_frame_under_its_names(spark, check):
    names = ["t`s", "a.b", "k", "it's \\ ", "Ts", "", "c0", "TS"]
    columns = ["timestamp_seconds(id)", "id", "id % 2", "string(id)", "-id", "2 * id", "3 * id", "4 * id"]
    frame = spark.range(20).selectExpr(*columns).toDF(*names)
    query = wk.query(by="k", time="t`s", windows=wk.tumbling("10 seconds"), aggs=ALL)
    check(frame, query, routes=ROUTES)
    for route in ROUTES:
        result = query.run(frame, route=route)
        element = result.schema["rows"].dataType.elementType
        assert element.names == names
        (first, *_), *_ = (row.rows for row in result.where("k = 1").orderBy("window_start").collect())
        assert tuple(first)[1:] == (1, 1, "1", -1, 2, 3, 4)
    named = wk.query(by="K", time="t`s", windows=wk.tumbling("10 seconds"), aggs=wk.collect_rows("K", "C0"))
    check(frame, named, routes=ROUTES)
    text = query.explain(frame)
    assert "answer: collect_rows() as rows" in text
    assert "struct(`t``s` as `t``s`, `a.b` as `a.b`, k as k" in text


def test_what_spark_cannot_collect_is_refused(spark):
    frame = spark.range(20).selectExpr(
        "timestamp_seconds(id) as ts", "id as v", "id as w", "interval 1 month m"
    )
    every = wk.query(by=[], time="ts", windows=wk.tumbling("1 hour"), aggs=ALL)
    with pytest.raises(wk.InvalidType, match="column 'm' has type interval month"):
        every.run(frame)
    with pytest.raises(wk.InvalidValue, match="collect_rows reads column 'v' twice"):
        every.run(frame.select("ts", "v", sf.col("w").alias("v")))
    (row,) = every.run(frame.drop("m")).selectExpr("rows[3].v", "rows[3].w").collect()
    assert tuple(row) == (3, 3)


def test_without_windows(log):
    """By `spark.aggregate` with keys: rows of what was given, and no column of ours."""
    frame = log.select("k", "n", "s")
    aggs = [ALL, wk.collect_rows("s", "n").alias("some"), wk.count().alias("c")]
    result = windowkit.spark.aggregate(frame, keys="k", aggs=aggs, partitioner="waterfill", n=4)
    own = frame.groupBy("k").agg(
        sf.expr("collect_list(struct(k, n, s)) as rows"),
        sf.expr("collect_list(struct(s, n)) as some"),
        sf.expr("count(1) as c"),
    )
    assert [(f.name, f.dataType) for f in result.schema] == [(f.name, f.dataType) for f in own.schema]

    def contents(found):
        # Without times the order of rows is any.
        return {row.k: (sorted(map(repr, row.rows)), sorted(map(repr, row.some)), row.c) for row in found}

    assert contents(result.collect()) == contents(own.collect())


@pytest.mark.parametrize("windows", [wk.session("1 second"), wk.tumbling("20 seconds")], ids=str)
def test_in_three_stages(log, same_rows, windows):
    query = wk.query(by="k", time="ts", windows=windows, aggs=[ALL, wk.collect_rows("n", "s")])
    staged = query.run(log, partitioner="waterfill", n=5)
    assert same_rows(staged, windowkit.spark.reference(log, query), query) > 3


@pytest.fixture(scope="module")
def path(log, tmp_path_factory):
    """The log's rows in files, in directories of a column."""
    where = tmp_path_factory.mktemp("log") / "rows"
    table = log.drop("gap").toArrow()
    for part in range(3):
        (where / f"part={part}").mkdir(parents=True)
        pq.write_table(table.slice(20 * part, 20), where / f"part={part}" / "rows.parquet")
    return str(where)


def test_scans_read_all_columns_or_those_that_are_named(spark, path, same_rows):
    frame = spark.read.parquet(path)
    for aggs in ([ALL], [wk.collect_rows("n", "part")]):
        query = wk.query(by="k", time="ts", windows=wk.session("1 second"), aggs=aggs)
        oracle = windowkit.spark.reference(frame, query)
        result = wk.spark.scan(spark, path, query)
        assert result.schema == query.run(frame).schema
        assert same_rows(result, oracle, query) > 3
        text = wk.spark.explain_scan(spark, path, query)
        assert ("ntz" in text) == (aggs == [ALL])


def test_the_data_source_reads_all_columns(spark, path, same_rows):
    windowkit.spark.register(spark)
    aggs = [ALL, wk.collect_rows("n", "part"), wk.top_k("n", 2), wk.frequent("s", 0.1)]
    aggs = [each.alias(f"a{at}") for at, each in enumerate(aggs)]
    query = wk.query(by="k", time="ts", windows=wk.tumbling("20 seconds"), aggs=aggs)
    frame = spark.read.parquet(path)
    found = spark.read.format("windowkit").options(**windowkit.spark.options(query), timeZone="Europe/Berlin")
    loaded = found.load(path)
    assert loaded.schema == query.run(frame).schema
    assert same_rows(loaded, windowkit.spark.reference(frame, query), query) > 3


def test_large_types_of_arrow_and_streams_of_batches(log, settings, same_rows):
    query = wk.query(by="k", time="ts", windows=wk.session("1 second"), aggs=ALL)
    wanted = windowkit.spark.reference(log, query)
    with settings({"spark.sql.execution.arrow.useLargeVarTypes": "true"}):
        for route in ("packed", "rows"):
            assert same_rows(query.run(log, route=route), wanted, query) > 3
