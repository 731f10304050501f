"""Route "catalyst": one tumbling window over timestamps is Spark's own aggregation.

Each row is in one window, so there is nothing to share between windows, and no stage 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import col, count, expr, lit, raise_error, shiftleft, shiftright, when

from windowkit.aggregates import Aggregate
from windowkit.spark import sql
from windowkit.spark.job import Job, identifier
from windowkit.spark.reference import described, named
from windowkit.spark.route import Route
from windowkit.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["HELD_DIGITS", "ROUTE"]

HELD_DIGITS: Final = 28
"""Most digits of a decimal whose sum Spark holds for any number of rows: it adds 10 of the 38 there are."""


def refusal(job: Job) -> str | None:
    if len(job.query.windows) > 1:
        return "there are several windows, and Spark would read the rows once for each"
    if not tumbles(job.query.windows[0]):
        window = job.query.windows[0]
        if window.specification()[0] == "session":
            return f"{window} depends on rows, and panes of it merge sooner than Spark sorts rows"
        return f"a row may be in several windows of {window}"
    if not job.is_timestamp:
        return f"Spark's window() takes timestamps, and {identifier(job.query.time)} is no timestamp"
    return None


def tumbles(window: Window) -> bool:
    kind, _, size, slide, _, _ = window.specification()
    return kind != "session" and (slide or size) == size


def run(job: Job) -> DataFrame:
    window = expr(sql.window(job.query.windows[0], job.time))
    result = job.bounded_rows.groupBy(*(col(key) for key in job.keys), window).agg(
        *(checked(job, aggregate) for aggregate in job.query.aggs)
    )
    return named(result, described(job, result.schema))


def checked(job: Job, aggregate: Aggregate) -> Column:
    """Return Spark's aggregate, except that a sum or mean that overflows is an error in every mode.

    Without ANSI mode Spark wraps a bigint sum that overflows, and makes a decimal one null. The expression
    does not look at the mode: that may change until an action runs the query.
    """
    if aggregate.column is None:
        return expr(sql.aggregate(aggregate.function, "", job.time))
    column, kind = job.internal(aggregate.column), job.type_of(aggregate.column)
    plain = expr(sql.aggregate(aggregate.function, column, job.time))
    overflow = raise_error(
        lit(f"{aggregate.name}: the {aggregate.function} of a window does not fit its type")
    )
    if aggregate.function == "sum" and isinstance(kind, spark.LongType):
        high, low = (expr(text) for text in sql.partial("sum", kind, column, job.time))
        high, low = high + shiftright(low, 32), low.bitwiseAND(lit(sql.LOW))
        fits = high.isNull() | high.between(lit(-(2**31)), lit(2**31 - 1))
        return when(fits, shiftleft(high, 32).bitwiseOR(low)).otherwise(overflow)
    if aggregate.function in ("sum", "mean") and is_wide(kind):
        return when(plain.isNull() & (count(col(column)) > 0), overflow).otherwise(plain)
    return plain


def is_wide(kind: spark.DataType) -> bool:
    return isinstance(kind, spark.DecimalType) and kind.precision > HELD_DIGITS


def explain(job: Job) -> list[str]:
    query = job.query
    window = sql.window(query.windows[0], identifier(query.time))
    lines = [
        "everything runs in Catalyst; no row enters Python",
        f"  group by: {', '.join([*map(identifier, query.by), window])}",
    ]
    for aggregate in query.aggs:
        value = "" if aggregate.column is None else identifier(aggregate.column)
        text = sql.aggregate(aggregate.function, value, identifier(query.time))
        lines.append(f"  {aggregate.name}: {text}")
    lines.append("  a sum that overflows is an error, with and without spark.sql.ansi.enabled")
    return lines


MERIT: Final = "possible, and all in Spark"
ROUTE: Final = Route("catalyst", MERIT, refusal, run, explain)
