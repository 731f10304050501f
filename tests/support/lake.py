"""Rows of tables of Delta and Iceberg: those that tasks read, and those that Spark's own readers read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import windowkit as wk

READ = "in Rust inside one mapInArrow"
"""What `explain` says after "stage 1" where tasks read files."""
TABLES = "spark.windowkit.tables"
EVERY = wk.rolling(by="k", time="t", aggs=wk.count().over("5 seconds"))
"""Returns all rows, with all their columns."""


def by_spark(spark: SparkSession, made: Callable[[], DataFrame]) -> Counter[str]:
    """Return the rows that are made where Spark's own readers read all tables."""
    spark.conf.set(TABLES, "false")
    try:
        return counted(made())
    finally:
        spark.conf.unset(TABLES)


def counted(frame: DataFrame) -> Counter[str]:
    return Counter(map(str, frame.collect()))
