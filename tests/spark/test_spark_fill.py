"""Windows without rows in Spark: each route fills them as this process does."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import windowkit as wk
import windowkit.spark
from support.spark import readings_table


def plain(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def test_every_route_fills_windows(spark: SparkSession) -> None:
    table = readings_table(60).select(["device", "ts", "n"])
    query = wk.query(
        by="device",
        time="ts",
        windows=[wk.tumbling("30 days"), wk.sliding("300 days", "100 days").alias("long")],
        aggs=[wk.count().alias("rows"), wk.sum("n").alias("sum"), wk.max("n").alias("most")],
        fill={"rows": "zero", "most": "previous"},
    )
    frame = spark.createDataFrame(table)
    # As Spark has them: in its session's zone.
    rows = frame.toArrow()
    wanted = query.run(rows)
    assert wanted.num_rows > replace(query, fill=None).run(rows).num_rows
    for route in ("catalyst-panes", "packed", "rows"):
        got = query.run(frame, route=route)
        assert plain(got.toArrow().cast(wanted.schema)) == plain(wanted), route
    three = query.run(frame, partitioner="waterfill", n=3)
    assert plain(three.toArrow().cast(wanted.schema)) == plain(wanted)


def test_what_spark_itself_does_not_fill(spark: SparkSession) -> None:
    frame = spark.createDataFrame(readings_table(5))
    query = wk.query(
        by="device", time="ts", windows=wk.tumbling("30 days"), aggs=wk.count().alias("n"), fill="null"
    )
    assert query.run(frame).schema["n"].nullable
    assert not replace(query, fill="zero").run(frame).schema["n"].nullable
    assert "route: catalyst-panes" in query.explain(frame)
    with pytest.raises(wk.InvalidValue, match="Spark's functions do not fill windows without rows"):
        query.run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="Spark's own functions do not make windows"):
        windowkit.spark.reference(frame, query)
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    streamed = replace(query, by=(), time="timestamp")
    with pytest.raises(wk.InvalidValue, match="is given for a stream"):
        streamed.run(stream)
