"""What crosses between the driver and Spark's Python workers: tasks, packed chunks, counts.

This is the lowest room of `windowkit.spark`; it knows queries, but neither jobs nor routes.
"""

from windowkit.spark.shipping import packing
from windowkit.spark.shipping.metrics import (
    WITHOUT_TIME,
    Metrics,
    observed_chunks,
    observed_count,
    observed_nulls,
)
from windowkit.spark.shipping.tasks import (
    importing,
    in_one_line,
    keep_loaded,
    loaded,
    named,
    packed_task,
    running,
    shipped,
)

__all__ = [
    "WITHOUT_TIME",
    "Metrics",
    "in_one_line",
    "importing",
    "keep_loaded",
    "loaded",
    "named",
    "observed_chunks",
    "observed_count",
    "observed_nulls",
    "packed_task",
    "packing",
    "running",
    "shipped",
]
