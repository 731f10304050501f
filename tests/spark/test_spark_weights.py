"""Rows of weight -1, which retract others, in Spark."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import windowkit as wk
import windowkit.spark
from support.spark import readings_table
from support.spark_streams import Run

WINDOWS = {
    "tumbling": [wk.tumbling("10 minutes")],
    "several": [wk.tumbling("1 hour"), wk.sliding("1 hour", "10 minutes")],
}
AGGS = [
    wk.count().alias("rows"),
    wk.count("n").alias("some"),
    wk.sum("n"),
    wk.mean("v"),
    wk.median("n"),
    wk.count_distinct("maybe"),
]


def weighed(rows: int) -> tuple[pa.Table, pa.Table]:
    """Return rows of which some are taken back, and those that remain."""
    table = readings_table(rows)
    gone = [row for row in range(rows) if row % 5 in (1, 2)]
    kept = [row for row in range(rows) if row % 5 not in (1, 2)]

    def weights(weight: int, of: pa.Table) -> pa.Table:
        return of.append_column("w", pa.array([weight] * of.num_rows, pa.int8()))

    both = pa.concat_tables([weights(1, table), weights(-1, table.take(gone))])
    order = sorted(range(both.num_rows), key=lambda row: row * 7919 % 1009)
    return both.take(order), table.take(kept)


@pytest.mark.parametrize("windows", WINDOWS)
def test_results_are_of_the_rows_that_remain(spark: SparkSession, check: Any, windows: str) -> None:
    """What remains, by Spark's own functions."""
    both, remaining = weighed(400)
    query = wk.query(by="device", time="ts", windows=WINDOWS[windows], aggs=AGGS, weight="w")
    left = spark.createDataFrame(remaining)
    oracle = windowkit.spark.reference(left, replace(query, weight=None))
    check(spark.createDataFrame(both), query, oracle=oracle, routes=(None, "packed", "rows"))


def test_routes_that_cannot_say_so(spark: SparkSession) -> None:
    both, _ = weighed(40)
    frame = spark.createDataFrame(both)
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("n"), weight="w")
    with pytest.raises(wk.InvalidValue, match="Spark's functions do not support rows that retract others"):
        query.run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="slices hold rows by their weight in w, and"):
        query.run(frame, route="catalyst-panes")
    assert "route: packed, as slices hold rows by their weight" in query.explain(frame)
    with pytest.raises(wk.InvalidValue, match="query: it has weight='w'"):
        windowkit.spark.reference(frame, query)


def test_other_weights_fail_the_action(spark: SparkSession) -> None:
    both, _ = weighed(40)
    weights = pa.array([7] * both.num_rows, pa.int8())
    frame = spark.createDataFrame(both.drop_columns(["w"]).append_column("w", weights))
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("n"), weight="w")
    for route in ("packed", "rows"):
        with pytest.raises(Exception, match=r"weight: row [0-9]+ has 7 in column 'w'"):
            query.run(frame, route=route).collect()


def test_a_stream_is_of_the_rows_that_remain() -> None:
    """What the buckets of a stream return, in this process, and what a batch of the remaining rows has."""
    aggs = [wk.count().alias("rows"), wk.sum("n"), wk.median("n")]
    query = wk.query(by="device", time="ts", windows=wk.tumbling("10 minutes"), aggs=aggs, weight="w")
    both, remaining = weighed(300)
    # Spark's watermark begins in 1970.
    epoch = pa.scalar(0, both["ts"].type)
    remaining = remaining.filter(pc.greater_equal(remaining["ts"], epoch))
    timed = both.filter(pc.greater_equal(both["ts"], epoch)).sort_by(
        [("ts", "ascending"), ("w", "descending")]
    )
    timed = timed.select(query.inputs)
    end = pa.Table.from_pylist([timed.slice(timed.num_rows - 1).to_pylist()[0] | {"w": 1}], timed.schema)
    end = end.set_column(1, "ts", pc.add(end["ts"], pa.scalar(10**12, pa.duration("us"))))
    third = timed.num_rows // 3
    batches = [timed.slice(0, third), timed.slice(third, third), timed.slice(2 * third), end]
    # What comes late for a window stays out of it: a delay longer than any tie.
    run = Run(query, timed.schema, delay=1000)
    found = run.all([[batch] for batch in batches])
    wanted = replace(query, weight=None).run(remaining).to_pylist()
    assert run.late == 0
    assert sorted(map(repr, found)) == sorted(map(repr, wanted))


def test_update_mode_cannot_say_that_a_window_is_gone(spark: SparkSession) -> None:
    frame = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "1 as w")
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count(), weight="w")
    with pytest.raises(wk.InvalidValue, match=r"output_mode: 'update' is given for .*weight='w'"):
        query.run(frame, output_mode="update")
