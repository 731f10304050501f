"""Route "catalyst": one tumbling window over timestamps, or a session by a column, is Spark's own.

Each row is in one window, so there is nothing to share between windows, and no stage 2. Rows are grouped by
the start of their tumbling window alone: of Spark's two hash maps the fast one takes no structs. For sessions
with a gap per row all rows must be sorted, here or there, and there none enters Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import expr

from windowkit import _native
from windowkit.language.aggregates import Aggregate
from windowkit.language.durations import Duration
from windowkit.language.identity import fingerprint
from windowkit.language.windows import Session, Sliding, Tumbling, Window
from windowkit.spark.groups import aggregated
from windowkit.spark.jobs import Job, identifier, in_shape, literal, own, sql, uncounted, unranked
from windowkit.spark.routes.route import Route
from windowkit.spark.shipping import in_one_line, observed_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

__all__ = ["DELAY", "ROUTE", "stream", "stream_refusal"]

ENCODING: Final = "spark.sql.streaming.stateStore.encodingFormat"
DELAY: Final = "spark.watermarkDelayMs"
"""Spark's metadata of a column that a watermark follows."""
MARKS: Final = 3
MARKING: Final = [f"decimal({digits},{scale})" for digits in range(1, 19) for scale in range(digits + 1)]
"""Types of which Spark keeps a null in eight bytes."""
HELD_DIGITS: Final = 28
"""Most digits of a decimal of which Spark holds sums of 10 billion rows: it adds 10 of the 38 there are."""


def refusal(job: Job) -> str | None:
    if job.query.weight is not None:
        return "Spark's functions do not support rows that retract others"
    if job.query.fill is not None:
        return "Spark's functions do not fill windows without rows"
    if len(job.query.windows) > 1:
        return "there are several windows, and Spark would read the rows once for each"
    window = job.query.windows[0]
    if isinstance(window, Session) and window.at_most is not None:
        return f"Spark's sessions have no maximum length, as {window} has"
    if isinstance(window, Session) and window.column is None and not job.frame.isStreaming:
        return f"{window} depends on rows, and panes of it merge sooner than Spark sorts rows"
    if not isinstance(window, Tumbling | Sliding | Session) or window.counts_rows:
        return f"Spark does not offer {window}"
    if window.overlaps:
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


def stream_refusal(job: Job, mode: str) -> str | None:
    """Return why Spark's own aggregation of a stream does not answer as ours, or None.

    Parameters
    ----------
    job : Job
        Of a streaming DataFrame.
    mode : {"append", "update"}
    """
    if job.query.emit is not None:
        return "Spark's aggregation has no emission policies"
    if (job.frame.sparkSession.conf.get(ENCODING, None) or "").lower() == "avro":
        return f"Spark's aggregation keeps no state in Avro, which {ENCODING} asks for"
    reason = refusal(job)
    if reason is not None:
        return reason
    timed = [name for name in job.query.by if DELAY in (job.frame.schema[job.positions[name]].metadata or {})]
    if timed:
        return f"Spark takes one column with a watermark, and the key {identifier(timed[0])} has one, too"
    window = only_window(job)
    if isinstance(window, Session) and mode == "update":
        return f"Spark has no update mode of sessions, as of {window}"
    if isinstance(window, Session) and not job.keys:
        return f"Spark has no sessions over a stream without keys, as of {window}"
    if window.is_local:
        return f"Spark knows no watermark of the periods of {window}"
    for aggregate in job.query.aggs:
        if aggregate.function == "count_distinct":
            return f"Spark counts no distinct values over a stream, as {aggregate} does"
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
    if aggregate.function in ("sum", "mean"):
        return overflowing(job, aggregate.columns[0])
    return None


def overflowing(job: Job, column: str) -> str | None:
    """Return why Spark may overflow where a sum fits, or None."""
    kind = job.type_of(column)
    if isinstance(kind, spark.DayTimeIntervalType):
        what = "of intervals"
    elif isinstance(kind, spark.DecimalType) and kind.precision > HELD_DIGITS:
        what = f"a {kind.simpleString()}"
    else:
        return None
    return f"a part of a sum of {identifier(column)}, {what}, may not fit where the sum does"


def only_window(job: Job) -> Tumbling | Sliding | Session:
    """Return the window of a job that is not refused."""
    (window,) = job.query.windows
    assert isinstance(window, Tumbling | Sliding | Session)
    return window


def stream(job: Job, identity: str) -> DataFrame:
    """Return the result over a stream, which does not go on with the state of another `identity`."""
    return run(job, identity)


def run(job: Job, identity: str | None = None) -> DataFrame:
    rows = observed_count(job.metrics, "rows in", job.read(bounded=True))
    window = only_window(job)
    shown = "s"
    if isinstance(window, Session):
        group = sql.window(window, job.time, job.internal)
    elif window.is_local:
        # Zones are asked for each row only what its clock shows, and for each period where it is.
        group = sql.period(window, job.time)
        start, end = sql.period_edges(window, "s")
        shown = f"struct({start} as start, {end} as `end`)"
    elif job.frame.isStreaming:
        # Only the window itself has a watermark.
        group = sql.window(window, job.time)
    else:
        # The window of its start is that window.
        group, shown = f"{sql.window(window, job.time)}.start", sql.window(window, "s")
    fields = [f"a{at}" for at in range(len(job.query.aggs))]
    marking = [] if identity is None else marks(identity)
    result = aggregated(rows, [*job.keys, expr(group)], [*answers(job), *marking])
    marked = [f"m{at}" for at in range(len(marking))]
    result = result.toDF(*job.keys, "s", *fields, *marked)
    if marked:
        # What nobody reads would not be stored.
        result = result.where(" and ".join(f"{mark} is null" for mark in marked))
    values = [*job.keys, "w", *fields]
    result = opaque(job, result, shown, fields)
    return result.selectExpr(*in_shape(values, job.asked, job.type_of(job.query.time)))


def answers(job: Job) -> Iterator[Column]:
    """Return the aggregates.

    Those without a name of the user's have no alias: Spark marks their metadata, which renaming keeps.
    """
    for each in job.query.aggs:
        yield expr(checked(job, each) + ("" if each.name in each.default_names else " as a"))


def marks(identity: str) -> list[Column]:
    """Return aggregates of nothing, whose types say of which query a state is.

    Spark compares types before it goes on with a checkpoint. Those of two queries are the same with a
    probability of one in seven million.
    """
    number = int.from_bytes(fingerprint(identity)[:8], "little")
    kinds = (MARKING[number // len(MARKING) ** at % len(MARKING)] for at in range(MARKS))
    return [expr(f"max(cast(null as {kind}))") for kind in kinds]


def opaque(job: Job, result: DataFrame, shown: str, fields: list[str]) -> DataFrame:
    """Return a result and its window as a column that Spark does not take for its expression.

    The time of a row is in that expression several times. Where a query of the result asks for times that are
    not null, Spark would put one such expression into the other, and so on with each query of a query: plans
    would grow exponentially. It does not look for a filter's columns in what a generator makes.

    Nor does it see the keys of a stream: it would put a filter on them below the watermark, which rows of all
    keys move.
    """
    seen, hidden = ([], [*job.keys, "w"]) if job.frame.isStreaming else (job.keys, ["w"])
    windows = result.selectExpr(*job.keys, f"{shown} as w", *fields)
    return windows.selectExpr(*seen, *fields, f"inline(array(struct({', '.join(hidden)})))")


def checked(job: Job, aggregate: Aggregate) -> str:
    """Return Spark's aggregate, except that a sum that overflows is an error in every mode.

    Without ANSI mode Spark wraps a bigint sum that overflows. The expression does not look at the mode:
    that may change until an action runs the query.
    """
    is_sum = aggregate.function == "sum"
    if not is_sum or not isinstance(job.type_of(aggregate.columns[0]), spark.LongType):
        return own(job, aggregate)
    column = job.internal(aggregate.columns[0])
    where = None if aggregate.condition is None else job.internal(aggregate.condition)
    message = (
        f"windowkit.errors.Overflow: {aggregate.name}: the sum of a window does not fit its type; in the "
        f"{in_one_line(job.query)}"
    )
    high, low = sql.partial("sum", [spark.LongType()], [column], job.time, where)
    high = f"({high} + shiftright({low}, 32))"
    fits = f"{high} is null or {high} between {-(2**31)} and {2**31 - 1}"
    return f"if({fits}, shiftleft({high}, 32) | ({low} & {sql.LOW}), raise_error({literal(message)}))"


def explain(job: Job) -> list[str]:
    query = job.query
    window, time = only_window(job), identifier(query.time)
    if isinstance(window, Session):
        group = sql.window(window, time, identifier)
    else:
        start = "" if job.frame.isStreaming else ".start"
        group = sql.period(window, time) if window.is_local else f"{sql.window(window, time)}{start}"
    lines = [
        "everything runs in Catalyst; no row enters Python",
        f"  group by: {', '.join([*map(identifier, query.by), group])}",
    ]
    for aggregate in query.aggs:
        values = [
            sql.summed(aggregate.function, job.type_of(column), identifier(column))
            for column in aggregate.columns
        ]
        where = None if aggregate.condition is None else identifier(aggregate.condition)
        given = aggregate.parameters, aggregate.columns
        text = sql.aggregate(aggregate.function, values, time, where, *given)
        lines.append(f"  {aggregate.name}: {text}")
    lines.append("  a sum that overflows is an error, with and without spark.sql.ansi.enabled")
    return lines


MERIT: Final = "possible, and all in Spark"
ROUTE: Final = Route("catalyst", MERIT, refusal, run, explain)
