"""Columns of Spark and SQL in place of the names of columns, against Spark's own functions."""

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
from support.programs import program


def test_results_are_those_of_sparks_own_functions(readings):
    double = (sf.col("v") * 2).alias("double")
    query = wk.query(
        by=[sf.upper("device"), wk.expr("v > 0", name="positive")],
        time=wk.expr("ts + interval 3 minutes", name="later"),
        windows=wk.sliding("10 minutes", "4 minutes"),
        aggs=[wk.sum(double), wk.max(double), wk.count().where(sf.col("v") > 5), wk.count("v")],
        window_columns="struct",
    )
    time = sf.expr("ts + interval 3 minutes")
    own = readings.groupBy(
        sf.upper("device").alias("upper(device)"),
        (sf.col("v") > 0).alias("positive"),
        sf.window(time, "10 minutes", "4 minutes"),
    ).agg(
        sf.sum(double).alias("sum(double)"),
        sf.max(double).alias("max(double)"),
        sf.count_if(sf.col("v") > 5).alias("count(1) FILTER (WHERE >(v, 5))"),
        sf.count("v").alias("count(v)"),
    )
    found = query.run(readings)
    assert found.columns == query.columns
    assert sorted(map(repr, found.collect())) == sorted(map(repr, own.collect())) != []
    assert wk.spark.reference(readings, query).schema == found.schema
    assert "by `upper(device)`, positive over later" in query.explain(readings)


def test_rolling_and_labels(readings):
    """The rows as they were, and their values as if the columns had been there."""
    half = (sf.col("v") / 2).alias("half")
    rolling = wk.rolling(by=sf.upper("device"), time="ts", aggs=wk.sum(half).over("5 minutes").alias("s"))
    before = readings.withColumn("half", half).withColumn("upper", sf.upper("device"))
    plain = wk.rolling(by="upper", time="ts", aggs=wk.sum("half").over("5 minutes").alias("s"))
    found = rolling.run(readings)
    assert found.columns == [*readings.columns, "s"]
    assert sorted(map(repr, found.collect())) == sorted(
        map(repr, plain.run(before).drop("half", "upper").collect())
    )
    labels = before.where("v > 5").select("upper", "ts")
    assert sorted(map(repr, rolling.at(labels, readings, by="upper").collect())) == sorted(
        map(repr, plain.at(labels, before).collect())
    )
    assert "by upper(device) over ts" in rolling.explain(readings)
    named = wk.rolling(by=[], time="ts", aggs=wk.sum((sf.col("v") / 2).alias("V")).over("5 minutes"))
    with pytest.raises(wk.InvalidValue, match="df has a column 'V', which is the name of the Spark Column"):
        named.run(readings)


def test_a_group_by_without_windows(readings):
    found = wk.spark.aggregate(
        readings, keys="device", aggs=wk.sum(wk.expr("v * 2", name="w")), partitioner="hash", n=2
    )
    own = readings.groupBy("device").agg(sf.sum(sf.expr("v * 2")).alias("sum(w)"))
    assert sorted(map(repr, found.collect())) == sorted(map(repr, own.collect()))


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (lambda: sf.sum("v"), wk.InvalidValue, "MISSING_GROUP_BY"),
        (lambda: sf.explode(sf.array("v", "v")), wk.InvalidValue, "UNSUPPORTED_GENERATOR"),
        (lambda: sf.col("vv") * 2, wk.UnknownColumn, "UNRESOLVED_COLUMN"),
        (lambda: wk.expr("v *"), wk.InvalidValue, "PARSE_SYNTAX_ERROR"),
        (lambda: pl.col("v") * 2, wk.InvalidType, "is a Polars expression, which Spark does not evaluate"),
        (lambda: pc.field("v") * 2, wk.InvalidType, "is a pyarrow expression, which Spark does not evaluate"),
        (lambda: sf.col("v").alias("TS"), wk.InvalidValue, "'ts' is read as it is"),
        (lambda: sf.udf(lambda v: v)("v"), wk.InvalidValue, r"name it by its \.alias"),
    ],
)
def test_what_spark_does_not_evaluate_is_refused(readings, expression, error, message):
    with pytest.raises(error, match=message):
        wk.query(by=[], time="ts", windows=wk.session("1 minute"), aggs=wk.max(expression())).run(readings)


def test_a_column_of_spark_is_for_spark(spark):
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum(sf.col("v") * 2))
    with pytest.raises(wk.InvalidType, match=r"'\*\(v, 2\)' is a Spark Column, which Spark evaluates"):
        query.run(pa.table({"t": [1], "v": [1]}))
    with pytest.raises(wk.InvalidType, match="which the tasks that read files do not evaluate"):
        wk.spark.scan(spark, "nowhere", query)
    with pytest.raises(wk.InvalidType, match="which options do not hold"):
        wk.spark.options(query)


def test_names(spark):
    assert wk.sum((sf.col("v") * 2).alias("my name")).name == "sum(my name)"
    assert wk.sum((sf.col("v") * 2).alias("a`b")).name == "sum(a`b)"
    assert wk.sum((sf.col("v") * 2).alias("in two (EUR)")).name == "sum(in two (EUR))"
    assert wk.max(sf.hour("ts")).name == "max(hour(ts))"
    assert wk.sum(sf.col("ok").cast("int")).name == "sum(CAST(ok AS INT))"
    assert wk.sum(wk.expr("v * 2")).name == "sum(v * 2)"
    one = wk.query(
        by=[], time="t", windows=wk.tumbling(10), aggs=[wk.sum(sf.col("v") * 2), wk.max(sf.col("v") * 2)]
    )
    assert len(one.expressions) == 1


def test_connect(remote):
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk

        spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
        frame = spark.range(40).selectExpr("id % 3 as k", "timestamp_seconds(id) as ts", "id as v")
        double = (sf.col("v") * 2).alias("my double")
        query = wk.query(
            by=(sf.col("k") + 1).alias("k"),
            time="ts",
            windows=wk.tumbling("10 seconds"),
            aggs=[wk.sum(double), wk.max(double), wk.count().where(wk.expr("v > 5"))],
            window_columns="struct",
        )
        own = frame.groupBy((sf.col("k") + 1).alias("k"), sf.window("ts", "10 seconds")).agg(
            sf.sum(sf.col("v") * 2).alias("sum(my double)"),
            sf.max(sf.col("v") * 2).alias("max(my double)"),
            sf.count_if(sf.expr("v > 5")).alias("count(1) FILTER (WHERE v > 5)"),
        )
        found = query.run(frame)
        assert found.columns == own.columns, found.columns
        assert sorted(map(repr, found.collect())) == sorted(map(repr, own.collect())) != []
        refused = {wk.UnknownColumn: sf.col("w") * 2, wk.InvalidValue: sf.explode(sf.array("v"))}
        for kind, wrong in refused.items():
            try:
                wk.query(by=[], time="ts", windows=wk.session("1 second"), aggs=wk.max(wrong)).run(frame)
            except kind:
                continue
            raise AssertionError(wrong)
        frame.createOrReplaceTempView("rows")
        options = "by => 'k', time => 'ts', windows => 'tumbling(10 seconds)', aggs => 'sum(v)'"
        text = f"select * from windowkit(table(rows), {options})"
        query = wk.query(by="k", time="ts", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"))
        found = wk.spark.sql(spark, text)
        assert sorted(map(repr, found.collect())) == sorted(map(repr, query.run(frame).collect())) != []
        print("equal")
        """,
        remote,
    )
    assert printed.endswith("equal\n")
