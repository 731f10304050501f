"""What people reported of streams in Spark and elsewhere, as streams of windowkit in Spark, as
`test_reports.py` has them in one process."""

from __future__ import annotations

import random
from statistics import median

import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.spark_runs import SECOND, run_stream

pytestmark = pytest.mark.usefixtures("rocksdb")


def test_sessions_that_are_tagged_as_they_go_on(source, tmp_path):
    """https://github.com/apache/spark/pull/33548: someone tags sessions while they are open, and Spark
    returns them only once they have ended, as it has no sessions in update mode. Each batch has the sessions
    of its rows so far."""
    batches = [
        [("ann", 1.0, 1.0), ("bob", 3.0, 1.0)],
        [("ann", 6.0, 1.0), ("ann", 9.0, 1.0)],
        [("bob", 14.0, 1.0), ("ann", 17.0, 1.0)],
        [("ann", 31.0, 1.0), ("eve", 32.0, 1.0)],
    ]
    query = wk.query(by="k", time="ts", windows=wk.session("10 seconds"), aggs=wk.count().alias("n"))
    tagged = query.run(source(*batches), output_mode="update")
    found, _ = run_stream(tagged, tmp_path / "checkpoint", "update")
    in_seconds = [
        sorted((key, start // SECOND, end // SECOND, n) for key, start, end, n in rows)
        for _, rows in sorted(found.items())
        if rows
    ]
    assert in_seconds == [
        [("ann", 1, 11, 1), ("bob", 3, 13, 1)],
        [("ann", 1, 19, 3)],
        [("ann", 1, 27, 4), ("bob", 14, 24, 1)],
        [("ann", 31, 41, 1), ("eve", 32, 42, 1)],
    ]


def test_changes_of_a_table_are_aggregated(source, tmp_path):
    """https://github.com/apache/flink-cdc/issues/904: windows over a table's changes were refused. Here
    `mark` is true in the rows that an update or a delete takes back, which have the values of the row
    before."""
    draw = random.Random(904)
    table: dict[int, tuple[str, float, float]] = {}
    batches = []
    for _ in range(6):
        changes = []
        for _ in range(8):
            key = draw.randrange(10)
            if key in table:
                changes.append((*table.pop(key), -1))
            if draw.random() < 0.8:
                table[key] = draw.choice("ab"), float(draw.randrange(1, 60)), float(key)
                changes.append((*table[key], 1))
        batches.append(changes)
    # Of the value, the sign of a weight, as the source of these tests has no column for it.
    files = [
        [(k, at, value if weight == 1 else -value - 1) for k, at, value, weight in each] for each in batches
    ]
    frame = source(*files, [("z", 500.0, 0.0)], delay="5 minutes")
    rows = frame.withColumn("w", sf.when(sf.col("v") < 0, -1).otherwise(1)).withColumn(
        "v", sf.when(sf.col("v") < 0, -sf.col("v") - 1).otherwise(sf.col("v"))
    )
    aggs = [wk.count().alias("n"), wk.median("v").alias("middle")]
    query = wk.query(by="k", time="ts", windows=wk.tumbling("20 seconds"), aggs=aggs, weight="w")
    found, _ = run_stream(query.run(rows), tmp_path / "checkpoint")
    windows: dict[tuple[str, int], list[float]] = {}
    for key, at, value in table.values():
        windows.setdefault((key, int(at) // 20 * 20), []).append(value)
    assert sorted(
        (key, start // SECOND, n, middle) for each in found.values() for key, start, _, n, middle in each
    ) == [(*window, len(values), median(values)) for window, values in sorted(windows.items())]


def test_each_row_beside_the_mean_of_the_rows_before_it(source, tmp_path):
    """https://github.com/hazelcast/hazelcast-jet/issues/1427: each reading beside the mean of a time before
    it, in a stream: a window for each row, however the rows of a batch are ordered."""
    draw = random.Random(1427)
    # No two rows are at one time, where Spark has no order of rows.
    given = [(draw.choice("ab"), at + 0.5, float(draw.randrange(9))) for at in draw.sample(range(80), 40)]
    given.sort(key=lambda row: row[1] + draw.randrange(8))
    batches = [given[begin : begin + 10] for begin in range(0, 40, 10)]
    frame = source(*batches, [("a", 900.0, 0.0), ("b", 900.0, 0.0)], [("z", 2000.0, 0.0)])
    aggs = [wk.last("v").alias("now"), wk.mean("v").alias("mean")]
    query = wk.query(by="k", time="ts", windows=wk.sliding("30 seconds", "1 row"), aggs=aggs)
    found, _ = run_stream(query.run(frame), tmp_path / "checkpoint")
    columns = query.columns
    results = [dict(zip(columns, row, strict=True)) for rows in found.values() for row in rows]
    expected = []
    for k, at, v in given:
        frame_of = [value for key, time, value in given if key == k and at - 30 < time <= at]
        expected.append((k, int(at * SECOND), v, pytest.approx(sum(frame_of) / len(frame_of))))
    assert sorted(
        (row["k"], row["window_end"], row["now"], row["mean"])
        for row in results
        if row["window_end"] < 800 * SECOND
    ) == sorted(expected, key=lambda row: row[:2])
