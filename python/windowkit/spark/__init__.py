"""Window queries over Spark DataFrames, classic and Connect.

``query.run(df)`` and ``df.transform(windowkit.spark.aggregate, query)`` are the same call. The result has the
columns, types and nullability of Spark's own ``df.groupBy(keys, window(...)).agg(...)``, and its rows. It is
lazy, as every DataFrame is, and built with the public DataFrame interface only. Over a streaming DataFrame
``query.run(df)`` is `stream`. This package needs pyspark; ``import windowkit`` does not.
"""

from typing import TYPE_CHECKING

from windowkit.language.hints import unknown
from windowkit.spark.available import MissingPySparkError
from windowkit.spark.ids import wids
from windowkit.spark.jobs import reference
from windowkit.spark.partition import Partitioning, partition_id, partitioning, repartition
from windowkit.spark.routes import (
    aggregate,
    as_of,
    distinct,
    explain,
    explain_as_of,
    explain_distinct,
    explain_join,
    explain_roll,
    join,
    roll,
)
from windowkit.spark.scans import explain_scan, options, register, scan
from windowkit.spark.shipping import Metrics
from windowkit.spark.statements import sql
from windowkit.spark.streams import explain as explain_stream
from windowkit.spark.streams import stream

__all__ = [
    "Metrics",
    "MissingPySparkError",
    "Partitioning",
    "aggregate",
    "as_of",
    "distinct",
    "explain",
    "explain_as_of",
    "explain_distinct",
    "explain_join",
    "explain_roll",
    "explain_scan",
    "explain_stream",
    "join",
    "options",
    "partition_id",
    "partitioning",
    "reference",
    "register",
    "repartition",
    "roll",
    "scan",
    "sql",
    "stream",
    "wids",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # To which any name would be one of the module.

    def __getattr__(name: str) -> object:
        raise unknown(__name__, name, __all__)
