"""Window queries over Spark DataFrames, classic and Connect.

``query.run(df)`` and ``df.transform(windowkit.spark.aggregate, query)`` are the same call. The result has the
columns, types and nullability of Spark's own ``df.groupBy(keys, window(...)).agg(...)``, and its rows. It is
lazy, as every DataFrame is, and built with the public DataFrame interface only. This package needs pyspark;
``import windowkit`` does not.
"""

from windowkit.spark.available import MissingPySparkError
from windowkit.spark.jobs import reference
from windowkit.spark.parquet import explain_scan, options, register, scan
from windowkit.spark.partition import Partitioning, partition_id, partitioning, repartition
from windowkit.spark.routes import aggregate, explain
from windowkit.spark.shipping import Metrics

__all__ = [
    "Metrics",
    "MissingPySparkError",
    "Partitioning",
    "aggregate",
    "explain",
    "explain_scan",
    "options",
    "partition_id",
    "partitioning",
    "reference",
    "register",
    "repartition",
    "scan",
]
