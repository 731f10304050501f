"""Spark as an engine: DataFrames are recognised by class, and `windowkit.spark` is imported for them."""

from __future__ import annotations

from typing import Any

from windowkit._columns import is_spark
from windowkit.engines import Engine, register
from windowkit.query import Query

__all__ = ["explain", "run"]


def run(query: Query, data: Any, **options: Any) -> Any:
    """Evaluate `query` in Spark; see `windowkit.spark.aggregate`."""
    from windowkit import spark

    return spark.aggregate(data, query, **options)


def explain(query: Query, data: Any, **options: Any) -> str:
    """Describe how Spark evaluates `query`; see `windowkit.spark.explain`."""
    from windowkit import spark

    return spark.explain(data, query, **options)


register(
    Engine(
        takes=is_spark,
        calls={"run": run, "explain": explain},
        options=("route", "rows_per_slice", "metrics", "partitioner", "n"),
        otherwise="with a Spark DataFrame; Spark has its own tasks",
    )
)
