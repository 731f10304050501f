"""What Catalyst computes, as Spark SQL: windows, aggregates, panes and partials.

Each function takes column names, and so writes the expression that runs (over a job's internal names) as well
as the one that `explain` shows (over the user's).
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import types as spark

from windowkit.windows import Window

__all__ = ["LOW", "aggregate", "pane", "partial", "window"]

NAMES: Final = {
    "count": "count",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "mean": "avg",
    "var_samp": "var_samp",
    "var_pop": "var_pop",
    "stddev_samp": "stddev_samp",
    "stddev_pop": "stddev_pop",
}
LEAST: Final = f"bigint('{-(2**63)}')"
LOW: Final = 0xFFFF_FFFF


def window(window: Window, time: str) -> str:
    """Return Spark's own window over the timestamps `time`."""
    kind, _, size, slide, start_time, _ = window.specification()
    lengths = [size] if kind == "session" else [size, slide or size, start_time]
    quoted = ", ".join(f"'{nanoseconds // 1000} microseconds'" for nanoseconds in lengths)
    return f"{'session_window' if kind == 'session' else 'window'}({time}, {quoted})"


def aggregate(function: str, value: str, time: str) -> str:
    """Return Spark's own aggregate; first and last are by `time`."""
    if function == "count_all":
        return "count(1)"
    if function in ("first", "last", "first_valid", "last_valid"):
        return by_time(function, value, time)
    return f"{NAMES[function]}({value})"


def by_time(function: str, value: str, time: str) -> str:
    order = f"if({value} is null, null, {time})" if function.endswith("_valid") else time
    return f"{'min_by' if function.startswith('first') else 'max_by'}({value}, {order})"


def pane(period: int, offset: int, kind: spark.DataType, time: str) -> str:
    """Return the last edge ``offset + k * period`` at or before `time`, in the type of slices' starts.

    Parameters
    ----------
    period, offset : int
        In microseconds of timestamps, days of dates, units of integers.
    kind : DataType
        Of the column `time`. Timestamps take Spark's own ``window()``: for those without zone there is no
        other way, and for those with one arithmetic on ``unix_micros`` was measured to be no faster.
    """
    if isinstance(kind, spark.TimestampType | spark.TimestampNTZType):
        return (
            f"window({time}, '{period} microseconds', '{period} microseconds', '{offset} microseconds').start"
        )
    number = f"bigint({f'unix_date({time})' if isinstance(kind, spark.DateType) else time})"
    # Both remainders are within the period, so nothing overflows but a start below the least bigint. The
    # least bigint then stands for that start: it is still after all earlier edges.
    above = f"pmod(pmod({number}, {period}) - {offset % period}, {period})"
    start = f"coalesce(try_subtract({number}, {above}), {LEAST})"
    return f"date_from_unix_date(int({start}))" if isinstance(kind, spark.DateType) else start


def partial(kind: str, type_of: spark.DataType | None, value: str, time: str) -> list[str]:
    """Return the columns in which Catalyst holds a partial of `Plan.partials`, as stage 2 expects them.

    Sums of bigints are two, of the upper and of the lower 32 bits: neither overflows below 2^31 rows of a
    slice, whatever the ANSI mode, and stage 2 puts them together in 128 bits. Moments are (n, mean, m2).
    """
    if kind == "sum" and isinstance(type_of, spark.LongType):
        return [f"sum(shiftright({value}, 32))", f"sum({value} & {LOW})"]
    if kind == "moments":
        number = value if isinstance(type_of, spark.DoubleType) else f"double({value})"
        return [f"count({value})", f"avg({number})", f"var_pop({number}) * count({value})"]
    return [aggregate(kind, value, time)]
