"""Route "catalyst": one tumbling window over timestamps, or a session by a column, is Spark's own.

Each row is in one window, so there is nothing to share between windows, and no stage 2. Rows are grouped by
the start of their tumbling window alone: of Spark's two hash maps the fast one takes no structs. For sessions
with a gap per row all rows must be sorted, here or there, and there none enters Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import col, expr, lit, raise_error, shiftleft, shiftright, when

from windowkit import _native
from windowkit.aggregates import Aggregate
from windowkit.durations import Duration
from windowkit.spark.jobs import Job, identifier, named, output_schema, own, sql, uncounted, unranked
from windowkit.spark.routes.route import Route
from windowkit.spark.shipping import in_one_line, observed_count
from windowkit.windows import Session, Sliding, Tumbling, Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["HELD_DIGITS", "ROUTE"]

HELD_DIGITS: Final = 28
"""Most digits of a decimal whose sum Spark holds for any number of rows: it adds 10 of the 38 there are."""


def refusal(job: Job) -> str | None:
    if len(job.query.windows) > 1:
        return "there are several windows, and Spark would read the rows once for each"
    window = job.query.windows[0]
    if isinstance(window, Session) and window.at_most is not None:
        return f"Spark's sessions have no greatest length, as {window} has"
    if isinstance(window, Session) and window.column is None:
        return f"{window} depends on rows, and panes of it merge sooner than Spark sorts rows"
    if not isinstance(window, Tumbling | Sliding | Session) or window.counts_rows:
        return f"Spark does not offer {window}"
    if isinstance(window, Sliding) and window.size != window.slide:
        return f"a row may be in several windows of {window}"
    if window.is_local and (reason := irregular(job, window)) is not None:
        return reason
    for aggregate in job.query.aggs:
        reason = unlike(job, aggregate)
        if reason is not None:
            return reason
    if not job.is_timestamp:
        return f"Spark's window() takes timestamps, and {identifier(job.query.time)} is not a timestamp"
    return None


def irregular(job: Job, window: Window) -> str | None:
    """Return why Spark's functions do not find the periods of a calendar, or None."""
    if not isinstance(job.type_of(job.query.time), spark.TimestampType):
        return (
            f"Spark's functions of time zones take timestamps with one, unlike {identifier(job.query.time)}"
        )
    if isinstance(window.lengths().get("start_time"), Duration):
        return f"periods of {window} begin after midnight, and Spark's functions begin some elsewhere"
    if window.local_zone is not None and _native.crosses_midnight(window.local_zone):
        return f"the clocks of {window.local_zone} were once set past midnight, forwards or backwards"
    return None


def unlike(job: Job, aggregate: Aggregate) -> str | None:
    """Return why Spark's own functions do not compute an aggregate, or None."""
    if aggregate.user is not None:
        return f"{aggregate} is a user's own function"
    if aggregate.function in sql.UNLIKE:
        return sql.UNLIKE[aggregate.function].format(aggregate=aggregate)
    if uncounted(job, aggregate):
        kind = job.type_of(aggregate.columns[0]).simpleString()
        return f"Spark's sketches do not take the {kind} of {aggregate}"
    if unranked(job, aggregate):
        return f"Spark has no quantiles between times, as of {aggregate}"
    if aggregate.function in (*sql.SUMS, "mean"):
        return overflowing(job, aggregate.columns[0])
    return None


def overflowing(job: Job, column: str) -> str | None:
    """Return why Spark may overflow where a sum fits, or None; see `stages.rows_instead`."""
    if isinstance(job.type_of(column), spark.DayTimeIntervalType):
        return f"a part of a sum of {identifier(column)}, of intervals, may not fit where the sum does"
    return None


def only_window(job: Job) -> Tumbling | Sliding | Session:
    """Return the window of a job that is not refused."""
    (window,) = job.query.windows
    assert isinstance(window, Tumbling | Sliding | Session)
    return window


def run(job: Job) -> DataFrame:
    rows = observed_count(job.metrics, "rows in", job.bounded_rows)
    window = only_window(job)
    answers = {f"a{at}": checked(job, aggregate) for at, aggregate in enumerate(job.query.aggs)}
    named_answers = [answer.alias(name) for name, answer in answers.items()]
    if not isinstance(window, Session) and window.is_local:
        # Zones are asked for each row only what its clock shows, and for each period where it is.
        rows = rows.selectExpr("*", f"{sql.period(window, job.time)} as p")
        grouped = rows.groupBy(*job.keys, expr("p")).agg(*named_answers)
        start, end = sql.period_edges(window, "p")
        shown = expr(f"struct({start} as start, {end} as end)")
    elif isinstance(window, Session):
        text = sql.window(window, job.time, job.internal)
        grouped, shown = rows.groupBy(*job.keys, expr(text)).agg(*named_answers), col("session_window")
    else:
        rows = rows.selectExpr("*", f"{sql.window(window, job.time)} as w")
        # Rows of one start have one end.
        grouped = rows.groupBy(*job.keys, expr("w.start as s")).agg(expr("max(w.end) as e"), *named_answers)
        shown = expr("struct(s as start, e as end)")
    schema = output_schema(job)
    edges = shown.cast(schema[len(job.keys)].dataType)
    return named(grouped, schema, [*map(col, job.keys), edges, *map(col, answers)])


def checked(job: Job, aggregate: Aggregate) -> Column:
    """Return Spark's aggregate, except that a sum or mean that overflows is an error in every mode.

    Without ANSI mode Spark wraps a bigint sum that overflows, and makes a decimal one null. The expression
    does not look at the mode: that may change until an action runs the query.
    """
    text = own(job, aggregate)
    if aggregate.column is None:
        return expr(text)
    column, kind = job.internal(aggregate.column), job.type_of(aggregate.column)
    where = None if aggregate.filter is None else job.internal(aggregate.filter)
    overflow = raise_error(
        lit(
            f"windowkit.errors.Overflow: {aggregate.name}: the {aggregate.function} of a window does not fit "
            f"its type; in the {in_one_line(job.query)}"
        )
    )
    if aggregate.function in sql.SUMS and isinstance(kind, spark.LongType):
        high, low = (expr(text) for text in sql.partial("sum", [kind], [column], job.time, where))
        high, low = high + shiftright(low, 32), low.bitwiseAND(lit(sql.LOW))
        fits = high.isNull() | high.between(lit(-(2**31)), lit(2**31 - 1))
        return when(fits, shiftleft(high, 32).bitwiseOR(low)).otherwise(overflow)
    if aggregate.function in (*sql.SUMS, "mean") and is_wide(kind):
        counted = expr(sql.aggregate("count", [column], job.time, where))
        # In ANSI mode Spark's own would fail first, and name a column of ours.
        tried = expr(f"try_{text}")
        return when(tried.isNull() & (counted > 0), overflow).otherwise(tried)
    return expr(text)


def is_wide(kind: spark.DataType) -> bool:
    return isinstance(kind, spark.DecimalType) and kind.precision > HELD_DIGITS


def explain(job: Job) -> list[str]:
    query = job.query
    window, time = only_window(job), identifier(query.time)
    if isinstance(window, Session):
        group = sql.window(window, time, identifier)
    else:
        group = sql.period(window, time) if window.is_local else f"{sql.window(window, time)}.start"
    lines = [
        "everything runs in Catalyst; no row enters Python",
        f"  group by: {', '.join([*map(identifier, query.by), group])}",
    ]
    for aggregate in query.aggs:
        values = [identifier(column) for column in aggregate.columns]
        where = None if aggregate.filter is None else identifier(aggregate.filter)
        given = aggregate.parameters, aggregate.columns
        text = sql.aggregate(aggregate.function, values, time, where, *given)
        lines.append(f"  {aggregate.name}: {text}")
    lines.append("  a sum that overflows is an error, with and without spark.sql.ansi.enabled")
    return lines


MERIT: Final = "possible, and all in Spark"
ROUTE: Final = Route("catalyst", MERIT, refusal, run, explain)
