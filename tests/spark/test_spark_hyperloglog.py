"""Sketches go to Spark's `hll_` functions and come from them, and estimate the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import windowkit as wk

SIZES = [0, 1, 7, 8, 30, 383, 385, 5_000, 100_000]
LONGS = np.random.default_rng(11).integers(-(2**63), 2**63 - 1, 100_000)
COLUMNS = {
    "bigint": pa.array(LONGS),
    "int": pa.array(LONGS.astype(np.int32)),
    "string": pa.array(
        [None if row % 17 == 0 else f"ä{value % 20_000}" * (row % 4) for row, value in enumerate(LONGS)]
    ),
    "binary": pa.array([value.tobytes()[: row % 9] for row, value in enumerate(LONGS)], pa.binary()),
}


def sketch_of(frame: DataFrame, column: str, precision: int = 12) -> bytes:
    return bytes(frame.agg(sf.hll_sketch_agg(column, sf.lit(precision))).first()[0])


def registers(sketch: wk.HyperLogLog) -> Any:
    """The registers of a sketch, or its set of coupons."""
    image = sketch.to_bytes()
    if image[7] & 3 == 2:
        return image[40:]
    return {image[start : start + 4] for start in range(12, len(image), 4)}


def estimated(spark: SparkSession, image: bytes) -> int:
    return sketches(spark, image).select(sf.hll_sketch_estimate("sketch")).first()[0]


def sketches(spark: SparkSession, *images: bytes) -> DataFrame:
    return spark.createDataFrame(pa.table({"sketch": pa.array(images, pa.binary())}))


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("precision", [4, 12, 21])
def test_spark_hashes_alike(spark: SparkSession, kind: str, precision: int) -> None:
    """In one partition Spark makes the very same registers."""
    column = COLUMNS[kind]
    frame = spark.createDataFrame(pa.table({"v": column})).coalesce(1)
    theirs = wk.HyperLogLog.from_bytes(sketch_of(frame, "v", precision))
    ours = wk.HyperLogLog(precision).update(column)
    assert theirs.precision == ours.precision == precision
    assert registers(theirs) == registers(ours)
    assert theirs.estimate() == pytest.approx(ours.estimate(), rel=4 / 2 ** (precision / 2))


@pytest.mark.parametrize("size", SIZES)
def test_sketches_go_both_ways(spark: SparkSession, size: int) -> None:
    column = COLUMNS["bigint"].slice(0, size)
    frame = spark.createDataFrame(pa.table({"v": column}))
    theirs = sketch_of(frame.repartition(3), "v")
    assert round(wk.HyperLogLog.from_bytes(theirs).estimate()) == estimated(spark, theirs)
    ours = wk.HyperLogLog().update(column)
    for bits in (4, 6, 8):
        assert estimated(spark, ours.to_bytes(bits)) == round(ours.estimate())
    # Together they are no more than each.
    both = sketches(spark, theirs, ours.to_bytes()).agg(sf.hll_union_agg("sketch")).first()[0]
    merged = wk.HyperLogLog.from_bytes(theirs).merge(ours)
    assert round(wk.HyperLogLog.from_bytes(bytes(both)).estimate()) == estimated(spark, bytes(both))
    assert wk.HyperLogLog.from_bytes(bytes(both)).estimate() == pytest.approx(merged.estimate(), rel=0.02)
    assert merged.estimate() == pytest.approx(size, rel=0.06, abs=0.1)


@pytest.mark.parametrize(("left", "right"), [(12, 12), (12, 10), (10, 12), (4, 21)])
def test_unions_equal_sparks(spark: SparkSession, left: int, right: int) -> None:
    def half(precision: int, start: int) -> wk.HyperLogLog:
        return wk.HyperLogLog(precision).update(COLUMNS["bigint"].slice(start, 60_000))

    a, b = half(left, 0), half(right, 40_000)
    frame = spark.createDataFrame(
        pa.table({"a": pa.array([a.to_bytes()], pa.binary()), "b": pa.array([b.to_bytes(4)], pa.binary())})
    )
    theirs = bytes(frame.select(sf.hll_union("a", "b", True)).first()[0])
    merged = a.merge(b)
    read = wk.HyperLogLog.from_bytes(theirs)
    assert read.precision == merged.precision == min(left, right)
    assert registers(read) == registers(merged)
    assert read.estimate() == pytest.approx(merged.estimate(), rel=1e-12)
    assert estimated(spark, theirs) == round(merged.estimate())


def test_estimates_are_as_accurate_as_sparks(spark: SparkSession) -> None:
    """Over many groups, whose true numbers are known, both err alike."""
    groups = 40
    values = pa.array(np.arange(groups * 5_000))
    group = pa.array(np.arange(groups * 5_000) % groups)
    frame = spark.createDataFrame(pa.table({"g": group, "v": values})).repartition(4)
    rows: list[Any] = frame.groupBy("g").agg(sf.hll_sketch_agg("v").alias("s")).collect()
    theirs = np.array([wk.HyperLogLog.from_bytes(bytes(row.s)).estimate() for row in rows])
    ours = np.array(
        [wk.HyperLogLog().update(np.arange(row.g, groups * 5_000, groups)).estimate() for row in rows]
    )
    errors = np.sqrt(np.mean((np.stack([ours, theirs]) / 5_000 - 1) ** 2, axis=1))
    # The mean square of 40 errors stays within 1.4 of the standard errors 0.83 / 64 and 1.04 / 64.
    assert errors[0] < 1.4 * 0.83 / 64
    assert errors[1] < 1.4 * 1.04 / 64


def test_damaged_bytes_of_spark_are_refused(spark: SparkSession) -> None:
    image = bytearray(sketch_of(spark.createDataFrame(pa.table({"v": COLUMNS["bigint"]})), "v"))
    for position in range(40, len(image), 101):
        image[position] ^= 2
        with pytest.raises(wk.InvalidValue, match="damaged"):
            wk.HyperLogLog.from_bytes(bytes(image))
        image[position] ^= 2
    assert wk.HyperLogLog.from_bytes(bytes(image)).estimate() > 0
