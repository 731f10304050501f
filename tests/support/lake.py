"""Rows of tables of Delta and Iceberg: those that tasks read, and those that Spark's own readers read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

import windowkit as wk

JARS = (
    "io.delta:delta-spark_4.1_2.13:4.4.0",
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
)
"""For Spark 4.1, as pyproject.toml has it in the group `lake`."""
FORMATS = {
    "spark.jars.packages": ",".join(JARS),
    "spark.sql.extensions": (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    ),
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.ice.type": "hadoop",
}
"""Settings of a session that reads and writes tables of both."""
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
