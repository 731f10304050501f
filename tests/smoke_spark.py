"""What an installed wheel must do in Spark, whichever version; run away from the sources, as smoke.py is.

python -m venv empty && empty/bin/pip install "windowkit-*.whl[spark]" && empty/bin/python smoke_spark.py
"""

import os
import sys
import tempfile

import pyarrow
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

import windowkit as wk

WINDOW = wk.sliding("10 minutes", "1 minute")


def session() -> SparkSession:
    """Start a small, quiet session whose workers run this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def rows(result: DataFrame) -> list[tuple[object, ...]]:
    """Return rows in one order."""
    return sorted(tuple(row) for row in result.collect())


def check_windows(df: DataFrame, path: str, *aggregates: tuple[wk.Aggregate, Column]) -> None:
    """Sliding windows by each route that there is, beside Spark's own."""
    ours, sparks = zip(*aggregates, strict=True)
    query = wk.query(by="device", time="ts", windows=WINDOW, aggs=ours, window_columns="struct")
    expected = rows(df.groupBy("device", F.window("ts", "10 minutes", "1 minute")).agg(*sparks))
    assert len(expected) > 1_000
    for result in (
        query.run(df),
        query.run(df, route="packed"),
        query.run(df, route="rows"),
        wk.spark.scan(df.sparkSession, path, query),
    ):
        assert rows(result) == expected, query.explain(df)


def check_rolling(df: DataFrame) -> None:
    """An aggregate for every row, beside Spark's own."""
    rolling = wk.rolling(by="device", time="ts", aggs=wk.sum("v").over("10 minutes").alias("recent"))
    before = Window.partitionBy("device").orderBy(F.unix_micros("ts")).rangeBetween(-600_000_000, 0)
    expected = rows(df.select("*", F.sum("v").over(before)))
    assert rows(rolling.run(df)) == expected


def check_stream(df: DataFrame, path: str) -> None:
    """A stream, beside Spark's own."""
    spark = df.sparkSession
    store = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", store)
    stream = spark.readStream.schema(df.schema).parquet(path).withWatermark("ts", "1 minute")
    query = wk.query(by="device", time="ts", windows=WINDOW, aggs=wk.sum("v"), window_columns="struct")
    found = []
    for name, result in {
        "ours": query.run(stream),
        "sparks": stream.groupBy("device", F.window("ts", "10 minutes", "1 minute")).agg(F.sum("v")),
    }.items():
        started = result.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
        started.awaitTermination()
        found.append(rows(spark.table(name)))
    assert found[0] == found[1]
    assert len(found[0]) > 1_000


def main() -> None:
    """Run all checks."""
    spark = session()
    # Values of halves, whose sums are exact.
    df = spark.sql("""
        select cast(id % 7 as string) as device, timestamp_seconds(id * 13) as ts, id * 0.5d as v
        from range(5000)
    """)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/readings"
        df.write.parquet(path)
        check_windows(df, path, (wk.count(), F.count("*")), (wk.sum("v"), F.sum("v")))
        check_windows(df, path, (wk.median("v"), F.percentile("v", 0.5)), (wk.max("v"), F.max("v")))
        check_rolling(df)
        check_stream(df, path)
    spark.stop()
    versions = f"Spark {pyspark.__version__}, pyarrow {pyarrow.__version__}"
    print(f"smoke: windowkit {wk.__version__} works in {versions}")


if __name__ == "__main__":
    main()
