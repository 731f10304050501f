"""`wk.kernels` in Spark's Arrow functions, against Spark's own window functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from support.plain import same
from windowkit import kernels


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> DataFrame:
    """Rows of 40 devices, some of them with one row, at times of their own and with nulls."""
    keys, times, values = [], [], []
    for device in range(40):
        for at in range(1 + device * 3):
            keys.append(f"device {device}")
            # Two rows at a time, every fifth time; a gap after every eleventh.
            times.append(at - at % 5 // 4 + at // 11 * 50)
            values.append(None if (at + device) % 6 == 0 else (at * 37 + device) % 101 / 8)
    ids = pa.array(range(len(keys)))
    table = pa.table({"id": ids, "device": keys, "t": times, "v": pa.array(values, pa.float64())})
    return spark.createDataFrame(table).repartition(3).cache()


def compare(got: DataFrame, wanted: DataFrame) -> None:
    mine, theirs = ({row["id"]: row["x"] for row in frame.collect()} for frame in (got, wanted))
    assert mine.keys() == theirs.keys()
    for row, value in theirs.items():
        assert same(mine[row], value, 1e-9), row


ROLLING = {"mean": F.mean, "sum": F.sum, "min": F.min, "max": F.max, "count": F.count, "std": F.stddev_samp}


@pytest.mark.parametrize("agg", ROLLING)
def test_map_in_arrow_answers_all_groups_of_a_partition(rows: DataFrame, agg: str) -> None:
    def rolled(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        held = list(batches)
        if held:
            table = pa.Table.from_batches(held).combine_chunks()
            groups = pc.run_end_encode(table["device"].combine_chunks())
            x = kernels.sliding(table["v"], 4, agg=agg, partial="start", segments=groups)
            yield from pa.table({"id": table["id"], "x": x}).to_batches()

    by_device = rows.repartition(4, "device").sortWithinPartitions("device", "id")
    got = by_device.mapInArrow(rolled, f"id bigint, x {'bigint' if agg == 'count' else 'double'}")
    frame = Window.partitionBy("device").orderBy("id").rowsBetween(-3, Window.currentRow)
    compare(got, rows.select("id", ROLLING[agg]("v").over(frame).alias("x")))


@pytest.mark.parametrize("agg", ["sum", "max", "count"])
def test_apply_in_arrow_answers_a_group(rows: DataFrame, agg: str) -> None:
    def ranged(table: pa.Table) -> pa.Table:
        table = table.sort_by([("t", "ascending"), ("id", "ascending")])
        return pa.table({"id": table["id"], "x": kernels.sliding_by(table["v"], table["t"], 7, agg=agg)})

    kind = "bigint" if agg == "count" else "double"
    got = rows.groupBy("device").applyInArrow(ranged, f"id bigint, x {kind}")
    frame = Window.partitionBy("device").orderBy("t").rangeBetween(-7, Window.currentRow)
    compare(got, rows.select("id", ROLLING[agg]("v").over(frame).alias("x")))


def test_arrow_udf_answers_lists_in_rows(rows: DataFrame) -> None:
    if not hasattr(F, "arrow_udf"):
        assert "arrow_udf" not in dir(F)  # pyspark 4.0 has none
        return

    @F.arrow_udf("array<double>")
    def smoothed(lists: pa.Array) -> pa.Array:
        offsets = pc.subtract(lists.offsets, lists.offsets[0])
        return pa.ListArray.from_arrays(
            offsets, kernels.sliding_mean(lists.flatten(), 3, partial="start", segments=offsets)
        )

    valid = rows.where("v is not null")
    lists = valid.groupBy("device").agg(F.sort_array(F.collect_list(F.struct("id", "v"))).alias("pairs"))
    answers = lists.select(F.arrays_zip("pairs.id", smoothed("pairs.v").alias("x")).alias("z"))
    got: Any = answers.select(F.explode("z").alias("z")).select("z.id", "z.x")
    frame = Window.partitionBy("device").orderBy("id").rowsBetween(-2, Window.currentRow)
    compare(got, valid.select("id", F.mean("v").over(frame).alias("x")))
