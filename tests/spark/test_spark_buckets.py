"""Stage 2 of Catalyst's slices goes through the keys of a large partition bucket by bucket."""

from __future__ import annotations

from math import nan

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
from windowkit.spark import reference
from windowkit.spark.jobs.job import job
from windowkit.spark.routes import panes, worker

SLIDING = wk.sliding("10 minutes", "1 minute")
AGGS = [wk.count(), wk.sum("v"), wk.max("v"), wk.first("v")]
KEYS = {
    "longs": [None, 0, -5, 7, 2**62, 11],
    "doubles": [None, 0.0, -0.0, nan, 1.5, -3.0],
    "strings": [None, "", "a", "b", "é", "longer than a word"],
}


@pytest.fixture
def large(monkeypatch):
    """Have every partition taken for a large one."""
    monkeypatch.setattr(panes, "HELD", 0)


def readings(spark, values):
    rows = [(values[at % len(values)], at, at * 7 % 31) for at in range(600)]
    kind = {int: "long", float: "double", str: "string"}[type(values[1])]
    frame = spark.createDataFrame(rows, f"k {kind}, at long, v long")
    return frame.select("k", sf.timestamp_seconds(sf.col("at") * 9).alias("ts"), "v")


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("window", [SLIDING, wk.session("40 seconds")], ids=str)
def test_the_answer_is_that_of_spark(spark, large, same_rows, kind, window):
    frame = readings(spark, KEYS[kind])
    query = wk.query(by="k", time="ts", windows=window, aggs=AGGS)
    found = query.run(frame, route="catalyst-panes")
    assert "one bucket of keys after the other" in query.explain(frame, route="catalyst-panes")
    assert same_rows(found, reference(frame, query), query)


def test_several_windows_come_once_per_key(spark, large):
    frame = readings(spark, list(range(1, 40)))
    query = wk.query(by="k", time="ts", windows=[SLIDING, wk.tumbling("1 hour")], aggs=AGGS)
    found = query.run(frame, route="catalyst-panes").collect()
    expected = query.run(frame.toArrow())
    assert len(found) == expected.num_rows
    by_key = {tuple(row)[:3] for row in found}
    assert len(by_key) == len(found)


def test_without_keys_nothing_is_sorted(spark, large):
    frame = readings(spark, KEYS["longs"])
    query = wk.query(by=[], time="ts", windows=SLIDING, aggs=AGGS)
    assert "all keys of a partition at once" in query.explain(frame, route="catalyst-panes")


def test_small_partitions_are_not_sorted(spark):
    frame = spark.range(1000).selectExpr("id % 7 as k", "timestamp_seconds(id) as ts", "id as v")
    query = wk.query(by="k", time="ts", windows=SLIDING, aggs=AGGS)
    assert "all keys of a partition at once" in query.explain(frame, route="catalyst-panes")


def test_a_worker_hands_out_a_bucket_before_it_takes_the_next_but_one(spark, large, monkeypatch):
    monkeypatch.setattr(worker, "JOINED", 1)
    frame = readings(spark, list(range(1, 300)))
    checked = job(frame, wk.query(by="k", time="ts", windows=SLIDING, aggs=AGGS))
    slices = panes.in_turn(checked, panes.slices(checked).coalesce(1)).toArrow().combine_chunks()
    taken = 0

    def batches():
        nonlocal taken
        for batch in slices.to_batches(max_chunksize=10):
            taken += batch.num_rows
            yield batch

    made = panes.stage_2(checked)(batches())
    first = next(made)
    assert first.num_rows > 0
    assert taken < slices.num_rows / 8
    whole = pa.Table.from_batches([first, *made])
    assert whole.num_rows == checked.query.run(frame.toArrow()).num_rows
