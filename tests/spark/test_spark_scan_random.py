"""`scan` of random files: Spark's own rows, whether tasks or Spark's reader read them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from math import inf, nan
from operator import eq, ge, lt, ne
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.spark import assert_equal, rows_of

DAY = 86_400 * 10**6
FIRST, LAST = -718_000, 2_932_896
"""Days of the years 4 and 9999: Python has no dates beyond, by either calendar."""
SEEDS = range(4)
HOLDS = {"<": lt, ">=": ge, "=": eq, "!=": ne}


def days(chance):
    """Return a day: of this century, from before 1582, around 1900, or any."""
    return chance.choice(
        [
            chance.randrange(10**4),
            chance.randrange(-200_000, -141_428),
            -25_567,
            chance.randrange(FIRST, LAST),
        ]
    )


def decimals(digits):
    return lambda chance: Decimal(chance.randrange(-(10**digits) + 1, 10**digits)).scaleb(-2)


def texts(chance):
    return "".join(chance.choices("aé😀z", k=chance.choice([0, 1, 3, 70])))


# How values of a type are made, the types in which files of one table have it, and a value to compare with.
KINDS = {
    "integer": (lambda chance: chance.randrange(-99, 99), [pa.int32(), pa.int16(), pa.int64()], 3),
    "byte": (lambda chance: chance.randrange(256), [pa.uint8(), pa.int32()], 200),
    "float": (
        lambda chance: chance.choice([nan, inf, -inf, -0.0, 0.0, 1.5, chance.random()]),
        [pa.float64(), pa.float32()],
        0.5,
    ),
    "decimal": (decimals(9), [pa.decimal128(9, 2), pa.decimal128(18, 2)], Decimal("12.25")),
    "wide": (decimals(38), [pa.decimal128(38, 2)], Decimal(10) ** 35),
    "text": (texts, [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], "é"),
    "date": (days, [pa.date32()], dt.date(1900, 1, 1)),
    "instant": (
        lambda chance: days(chance) * DAY + chance.randrange(DAY),
        [pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC"), pa.timestamp("us")],
        # In the session's zone, or of times without zone, as the column has them.
        "1900-01-01 00:00:00",
    ),
}


def column(chance, kind, stored, rows):
    """Return random values, some of them null; a narrow type has values that fit."""
    made = [None if chance.random() < 0.2 else KINDS[kind][0](chance) for _ in range(rows)]
    if chance.random() < 0.1:
        made = [None] * rows
    if pa.types.is_timestamp(stored):
        per_unit = {"us": 1, "ms": 1000}[stored.unit]
        made = [None if value is None else value // per_unit for value in made]
    return pa.array(made, stored)


def written(chance, path, kind, first):
    """Write a file whose column is stored in one of the types of its kind, by one of many writers."""
    rows = chance.randrange(1, 30)
    stored = chance.choice(KINDS[kind][1]) if chance.random() < 0.3 else first
    table = pa.table(
        {
            "t": pa.array([chance.randrange(60) * 10**6 for _ in range(rows)], pa.timestamp("us", "UTC")),
            chance.choice(["x"] * 9 + ["X"]): column(chance, kind, stored, rows),
            "row": range(rows),
        }
    )
    marks = chance.choice(
        [
            {},
            {},
            {"org.apache.spark.version": "4.0.0"},
            {"org.apache.spark.version": "2.4.0"},
            {"org.apache.spark.version": "3.0.1"},
            {
                "org.apache.spark.version": "3.5.0",
                "org.apache.spark.legacyDateTime": "",
                "org.apache.spark.legacyINT96": "",
            },
        ]
    )
    pq.write_table(
        table.replace_schema_metadata(marks),
        path,
        row_group_size=chance.choice([3, 100]),
        write_statistics=chance.choice([True, True, False, ["t"]]),
        use_deprecated_int96_timestamps=chance.random() < 0.4,
        store_decimal_as_integer=chance.random() < 0.5,
        store_schema=chance.random() < 0.5,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", SEEDS)
def test_random_files(spark, tmp_path, settings, kind, seed):
    """What Spark refuses, such as long integers as short ones, `scan` refuses, too."""
    chance = Random(f"{kind} {seed}")
    first = chance.choice(KINDS[kind][1])
    for file in range(chance.randrange(1, 4)):
        written(chance, tmp_path / f"{file}.parquet", kind, first)
    frame = spark.read.parquet(str(tmp_path))
    query = wk.query(by="x", time="t", windows=wk.tumbling("10 seconds"), aggs=[wk.count(), wk.sum("row")])
    operator = chance.choice(list(HOLDS))
    chosen = [("x", operator, KINDS[kind][2])] if chance.random() < 0.6 else None
    # Spark's reader leaves row groups with NaN out by statistics, which know of none.
    with settings({"spark.sql.parquet.filterPushdown": "false"}):
        where = sf.lit(True) if chosen is None else HOLDS[operator](sf.col("x"), sf.lit(KINDS[kind][2]))
        try:
            oracle = rows_of(windowkit.spark.reference(frame.where(where), query), query)
        except (PySparkException, Py4JError):
            with pytest.raises((PySparkException, Py4JError, wk.WindowKitError)):
                windowkit.spark.scan(spark, str(tmp_path), query, filter=chosen).collect()
        else:
            found = windowkit.spark.scan(spark, str(tmp_path), query, filter=chosen)
            assert_equal(
                rows_of(found, query),
                oracle,
                0,
                windowkit.spark.explain_scan(spark, str(tmp_path), query, filter=chosen),
            )


def test_texts_that_statistics_cut_short(spark, tmp_path, same_rows):
    """Parquet's library for Java may cut the ends of statistics, also within a character."""
    rows = spark.createDataFrame(
        [(f"{'é😀' * (at % 5)}{at}", at, dt.datetime(2024, 5, 1, 12, 0, at)) for at in range(50)],
        ["x", "row", "t"],
    )
    path = str(tmp_path / "cut")
    writer = rows.coalesce(1).write.option("parquet.statistics.truncate.length", "5")
    writer.option("parquet.block.size", "1").option("parquet.page.size.row.check.min", "1").parquet(path)
    query = wk.query(by="x", time="t", windows=wk.tumbling("10 seconds"), aggs=[wk.count(), wk.sum("row")])
    for operator, value in (("<", "é😀"), ("=", "é😀é😀17"), (">=", "é😀é😀é"), ("<", "2"), (">", "3")):
        where = f"x {operator} '{value}'"
        found = windowkit.spark.scan(spark, path, query, filter=[("x", operator, value)])
        oracle = windowkit.spark.reference(rows.where(where), query)
        assert same_rows(found, oracle, query) > 0, where
