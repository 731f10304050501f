"""Spark as an engine: DataFrames are recognised by class, and `windowkit.spark` is imported for them."""

from __future__ import annotations

from typing import Any

from windowkit.errors import InvalidValue
from windowkit.language.distinct import Distinct
from windowkit.language.engines import Engine, register
from windowkit.language.foreign import is_spark
from windowkit.language.join import Join
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling

__all__ = ["at", "distinct", "explain", "explain_distinct", "explain_join", "explain_roll", "explain_stream"]
__all__ += ["join", "roll", "run", "stream"]


def run(query: Query, data: Any, **options: Any) -> Any:
    """Evaluate `query` in Spark; see `windowkit.spark.aggregate`."""
    from windowkit import spark

    if "result" in options:
        raise InvalidValue(
            f"result: {options['result']!r} is given with a Spark DataFrame, whose result is one, too; call "
            ".toPandas() or .toArrow() on that"
        )

    return spark.aggregate(data, query, **options)


def explain(query: Query, data: Any, **options: Any) -> str:
    """Describe how Spark evaluates `query`; see `windowkit.spark.explain`."""
    from windowkit import spark

    return spark.explain(data, query, **options)


def roll(rolling: Rolling, data: Any, **options: Any) -> Any:
    """Evaluate `rolling` in Spark; see `windowkit.spark.roll`."""
    from windowkit import spark

    return spark.roll(data, rolling, **options)


def at(rolling: Rolling, data: Any, *, events: Any = None, **options: Any) -> Any:
    """Evaluate `rolling` for labels in Spark; see `windowkit.spark.as_of`."""
    from windowkit import spark

    return spark.as_of(data, events, rolling, **options)


def explain_roll(rolling: Rolling, data: Any, **options: Any) -> str:
    """Describe how Spark evaluates `rolling`; see `windowkit.spark.explain_roll`."""
    from windowkit import spark

    return spark.explain_roll(data, rolling, **options)


def join(join: Join, data: Any, *, right: Any = None, **options: Any) -> Any:
    """Evaluate `join` in Spark; see `windowkit.spark.join`."""
    from windowkit import spark

    return spark.join(data, right, join, **options)


def explain_join(join: Join, data: Any, *, right: Any, **options: Any) -> str:
    """Describe how Spark evaluates `join`; see `windowkit.spark.explain_join`."""
    from windowkit import spark

    return spark.explain_join(data, right, join, **options)


def distinct(distinct: Distinct, data: Any, **options: Any) -> Any:
    """Evaluate `distinct` in Spark; see `windowkit.spark.distinct`."""
    from windowkit import spark

    return spark.distinct(data, distinct, **options)


def explain_distinct(distinct: Distinct, data: Any) -> str:
    """Describe how Spark evaluates `distinct`; see `windowkit.spark.explain_distinct`."""
    from windowkit import spark

    return spark.explain_distinct(data, distinct)


def stream(query: Query, data: Any, **options: Any) -> Any:
    """Evaluate `query` over a stream in Spark; see `windowkit.spark.stream`."""
    from windowkit import spark

    return spark.stream(data, query, **options)


def explain_stream(query: Query, data: Any, **options: Any) -> str:
    """Describe how Spark evaluates `query` over a stream; see `windowkit.spark.explain_stream`."""
    from windowkit import spark

    return spark.explain_stream(data, query, **options)


register(
    Engine(
        takes=is_spark,
        calls={"roll": roll, "explain_rolling": explain_roll},
        options=("split", "metrics"),
        otherwise="with a Spark DataFrame; Spark has its own tasks",
    )
)
register(
    Engine(
        takes=is_spark,
        calls={"distinct": distinct, "explain_distinct": explain_distinct},
        options=("metrics",),
        otherwise="with a Spark DataFrame; Spark has its own tasks",
    )
)
register(
    Engine(
        takes=is_spark,
        calls={"join": join, "explain_join": explain_join},
        options=("right", "split", "metrics"),
        otherwise="with Spark DataFrames; Spark has its own tasks",
    )
)
register(
    Engine(
        takes=is_spark,
        calls={"at": at},
        options=("events", "by", "time", "split", "metrics"),
        otherwise="with labels in a Spark DataFrame; Spark has its own tasks",
    )
)
register(
    Engine(
        takes=is_spark,
        calls={"run": run, "explain": explain},
        options=("route", "rows_per_slice", "metrics", "partitioner", "n", "result"),
        otherwise="with a Spark DataFrame; allowed are route, rows_per_slice, metrics, partitioner and n",
    )
)
register(
    Engine(
        takes=lambda data: is_spark(data) and getattr(data, "isStreaming", False),
        calls={"run": stream, "explain": explain_stream},
        options=("output_mode", "allowed_lateness", "buckets", "metrics_name", "late_rows", "route"),
        otherwise="with a streaming DataFrame; allowed are output_mode, allowed_lateness, buckets, "
        "metrics_name, late_rows and route",
    )
)
