"""What Catalyst computes, as Spark SQL: windows, aggregates, panes and partials.

Each function takes column names, and so writes the expression that runs (over a job's internal names) as well
as the one that `explain` shows (over the user's).

A new aggregate needs an expression in `aggregate`, of functions that Spark's SQL has, whichever route
computes it: Spark derives the type of the result from it. If its results differ from ours, `UNLIKE` says
why. In `partial` are the columns in which Catalyst holds a new partial; if it cannot, `UNHELD` says what
it is. The route is `catalyst` for one tumbling window, unless the function is in `UNLIKE`, and else
`catalyst-panes`, or `packed` for partials in `UNHELD`. A partial that grows with its rows belongs in
`HOLDING` of `windowkit.spark.routes.stages`.

A new window needs nothing here. If its edges are families (``offset + k * period``), it takes
`catalyst-panes`; if not, slices are packed where each has a start (`slices_have_starts`), and else rows.
Python asks which type a window is only for those that Spark itself has (`reference`,
`windowkit.spark.routes.catalyst`), and for the tumbling windows of partitioners.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from pyspark.sql import types as spark

from windowkit.language.durations import Months
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.windows import WEEKDAYS, Session, Sliding, Tumbling, units
from windowkit.spark.jobs.job import identifier

__all__ = [
    "LOST",
    "LOW",
    "SKETCHES",
    "UNHELD",
    "UNLIKE",
    "aggregate",
    "counted",
    "pane",
    "partial",
    "struct",
    "period",
    "period_edges",
    "window",
]

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
    "median": "median",
}
BY_TIME: Final = ("first", "last", "first_valid", "last_valid")
UNHELD: Final = {
    "min_count": "the least value and its count",
    "max_count": "the greatest value and its count",
    "values": "all values",
    "list": "all values",
    "rows": "all rows",
    "sketch": "a sketch",
    "hyperloglog": "a sketch",
}
"""What Catalyst cannot hold in columns, by partial, for messages; `partial` has all others."""
UNLIKE: Final = {
    "approx_quantile": (
        "Spark has no function that keeps less than all values within the error of {aggregate}"
    ),
    "hll_sketch": "the bytes of Spark's own sketches depend on the order of rows",
}
"""Functions whose expression in `aggregate` gives other results than ours, and why."""
SKETCHES: Final = ("approx_count_distinct", "hll_sketch")
"""Functions that Spark has for numbers and bytes only; see `counted`."""
LEAST: Final = f"bigint('{-(2**63)}')"
LOW: Final = 0xFFFF_FFFF
DAY: Final = 86_400_000_000
"""Microseconds."""
LOST: Final = "0D"
"""What the additions of a float sum lost, which Spark does not report: a constant, added in stage 2."""


def window(window: Tumbling | Sliding | Session, time: str, name: Callable[[str], str] = str) -> str:
    """Return Spark's own window over the timestamps `time`; `name` names the other columns it reads."""
    if window.columns:
        # Spark takes no interval of days and time here, but the string of one; its microseconds are exact.
        gap = f"unix_micros(timestamp_seconds(0) + {name(window.columns[0])})"
        return f"session_window({time}, concat({gap}, ' microseconds'))"
    given = window.lengths()
    lengths = ["gap"] if window.is_session else ["size", "slide" if window.overlaps else "size", "start_time"]
    quoted = ", ".join(f"'{units(given[each]) // 1000} microseconds'" for each in lengths)
    return f"{'session_window' if window.is_session else 'window'}({time}, {quoted})"


def period(window: Tumbling | Sliding, time: str) -> str:
    """Return the number of the period of a calendar that the timestamp with zone `time` is in.

    Whatever the session's zone: what the clock shows is put into a timestamp as if it were UTC, so that its
    days are whole, and months are those of dates. It is the day, or month, with which the period begins.
    """
    shown = f"unix_micros(from_utc_timestamp({time}, {zone_of(window)}))"
    count, first = units(window.size), 0
    number = f"int(({shown} - pmod({shown}, {DAY})) div {DAY})"
    if isinstance(window.size, Months):
        date = f"date_from_unix_date({number})"
        number, first = f"12 * year({date}) + month({date}) - {12 * 1970 + 1}", units(window.start_time)
    else:
        count //= NANOSECONDS["day"]
        if count % 7 == 0:
            # The week that 1970-01-01, a Thursday, is in.
            first = -((WEEKDAYS.index("thursday") - WEEKDAYS.index(window.week_start or "monday")) % 7)
    return number if count == 1 else f"{number} - pmod({number} - ({first}), {count})"


def period_edges(window: Tumbling | Sliding, number: str) -> tuple[str, str]:
    """Return start and end of a period that `period` numbered, as timestamps."""
    count = units(window.size)
    day = "unix_date(add_months(date'1970-01-01', {}))"
    if not isinstance(window.size, Months):
        count, day = count // NANOSECONDS["day"], "({})"
    days = day.format(number), day.format(f"{number} + {count}")
    start, end = (f"to_utc_timestamp(timestamp_micros({each} * {DAY}L), {zone_of(window)})" for each in days)
    return start, end


def zone_of(window: Tumbling | Sliding) -> str:
    """Return the zone of a calendar as SQL writes it."""
    return f"'{window.zone or 'UTC'}'"


def aggregate(
    function: str,
    values: list[str],
    time: str,
    where: str | None = None,
    parameters: Sequence[float] = (),
    names: Sequence[str] = (),
) -> str:
    """Return Spark's own aggregate of the columns `values`; first and last are by `time`.

    The fields of collected rows have the `names`, by default those of the values.
    Where Spark has no such function it is an expression of functions that Spark's SQL has. Every function
    needs one, if only for its type: `output_schema` lets Spark analyse it, whichever route a job takes.
    """
    taken = "" if where is None else f" filter (where {where})"
    if function == "count_all":
        return f"count(1){taken}"
    value = values[0]
    number = f"{parameters[0]!r}D" if parameters else ""
    match function:
        case "first" | "last" | "first_valid" | "last_valid":
            return by_time(function, value, time) + taken
        case "arg_min" | "arg_max":
            return f"{'min_by' if function == 'arg_min' else 'max_by'}({value}, {values[1]}){taken}"
        case "count_distinct":
            return f"count(distinct {value}){taken}"
        case "approx_count_distinct":
            sketch = f"hll_sketch_agg({value}, {int(parameters[0])}){taken}"
            # Of a union, whose estimate does not depend on how rows came and were parted.
            return f"hll_sketch_estimate(hll_union({sketch}, {sketch}))"
        case "hll_sketch":
            return f"hll_sketch_agg({value}, {int(parameters[0])}){taken}"
        case "quantile":
            return f"percentile({value}, {number}){taken}"
        case "quantile_disc" | "approx_quantile":
            place = f"int(greatest(ceil({number} * (count({value}){taken})), 1)) - 1"
            return f"get(array_sort(collect_list({value}){taken}), {place})"
        case "mode":
            return f"mode({value}, true){taken}"
        case "geometric_mean":
            return f"exp(avg({logarithm(value)}){taken})"
        case "min_count" | "max_count":
            extreme = f"array_{function[:3]}(collect_list({value}){taken})"
            return (
                f"nullif(bigint(size(filter(collect_list({value}){taken}, x -> x <=> {extreme}))), bigint(0))"
            )
        case "collect_list":
            return in_time(f"if({value} is null, null, struct({time} as t, {value} as v))", taken)
        case "collect_rows":
            fields = zip(values, map(identifier, names or values), strict=True)
            row = ", ".join(f"{field} as {name}" for field, name in fields)
            return in_time(f"struct({time} as t, struct({row}) as v)", taken)
        case "collect_set":
            return f"array_sort(collect_set({value}){taken})"
        case "top_k":
            return f"slice({by_frequency(value, taken)}, 1, {int(parameters[0])})"
        case "frequent":
            return f"filter({by_frequency(value, taken)}, x -> x.count / (count({value}){taken}) >= {number})"
        case "m4" | "m4_times":
            return m4(value, time, taken, times=function == "m4_times")
    return f"{NAMES[function]}({value}){taken}"


def summed(function: str, kind: spark.DataType, value: str) -> str:
    """Return what Spark's sums and means take of a value: it has none of booleans."""
    is_summed = function in ("sum", "mean") and isinstance(kind, spark.BooleanType)
    return f"int({value})" if is_summed else value


def counted(kind: spark.DataType, value: str) -> str | None:
    """Return what Spark's sketches take of a value, hashed alike; None if there is nothing like it."""
    if isinstance(kind, spark.StringType | spark.BinaryType):
        return value
    if isinstance(kind, spark.IntegralType | spark.BooleanType):
        return f"bigint({value})"
    if isinstance(kind, spark.DateType):
        return f"bigint(unix_date({value}))"
    if isinstance(kind, spark.TimestampType):
        return f"unix_micros({value})"
    return None


def in_time(pair: str, taken: str) -> str:
    """Return the list of the values of pairs of a time `t` and a value `v`, in order of time."""
    # By time alone: values need not have an order, as maps have none.
    order = "if(a.t < b.t, -1, int(a.t > b.t))"
    return f"transform(array_sort(collect_list({pair}){taken}, (a, b) -> {order}), x -> x.v)"


def by_frequency(value: str, taken: str) -> str:
    """Return the distinct values with their counts, the most frequent first and then the least.

    Another value begins in the sorted values, `s`, at each of the places `f`: comparing each value with all
    others would take squared time. The lists of one element give names to what would else be computed again
    wherever it is used.
    """
    begins = "filter(transform(s, (x, i) -> if(get(s, i - 1) <=> x, null, i)), i -> i is not null)"
    pair = "struct(i - coalesce(get(f, n + 1), size(s)) as less, get(s, i) as v)"
    pairs = f"flatten(transform(array({begins}), f -> transform(f, (i, n) -> {pair})))"
    counted = f"flatten(transform(array(array_sort(collect_list({value}){taken})), s -> {pairs}))"
    return f"transform(array_sort({counted}), x -> struct(x.v as value, bigint(-x.less) as count))"


def by_time(function: str, value: str, time: str) -> str:
    chosen = "min_by" if function.startswith("first") else "max_by"
    return f"{chosen}({value}, {time_of(function, value, time)})"


def time_of(function: str, value: str, time: str) -> str:
    """Return the time by which a row may be first or last; null if it may not."""
    return f"if({value} is null, null, {time})" if function.endswith("_valid") else time


def m4(value: str, time: str, taken: str, *, times: bool) -> str:
    parts = {
        "min": (f"min({value})", f"min_by({time}, {value})"),
        "max": (f"max({value})", f"max_by({time}, {value})"),
        "first": (by_time("first_valid", value, time), f"min({time_of('first_valid', value, time)})"),
        "last": (by_time("last_valid", value, time), f"max({time_of('last_valid', value, time)})"),
    }
    fields = []
    for name, (value_of, time_at) in parts.items():
        fields.append(f"'{name}', {value_of}{taken}")
        if times:
            fields.append(f"'{name}_time', {time_at}{taken}")
    return f"if((count({value}){taken}) = 0, null, named_struct({', '.join(fields)}))"


def logarithm(value: str) -> str:
    """Return the natural logarithm as Rust has it: Spark's own is null of what is not positive."""
    return (
        f"case when {value} > 0 then ln(double({value})) when {value} = 0 then double('-infinity') "
        f"when {value} is not null then double('NaN') end"
    )


def struct(texts: Iterable[str]) -> str:
    """Return expressions as one struct of fields ``a0``, ``a1``, ..., which Spark's optimiser takes apart."""
    return f"struct({', '.join(f'{text} as a{at}' for at, text in enumerate(texts))})"


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


def partial(
    kind: str, types: Sequence[spark.DataType], values: list[str], time: str, where: str | None
) -> list[str]:
    """Return the columns in which Catalyst holds a partial of `Plan.partials`, as stage 2 expects them.

    Sums of bigints are two, of the upper and of the lower 32 bits: neither overflows below 2^31 rows of a
    slice, whatever the ANSI mode, and stage 2 puts them together in 128 bits. Sums of floats come with what
    their additions lost, which Spark does not report. Moments are (n, mean, what the mean lost, m2); a first
    or last value comes with its time; an arg-extremum with the other column's extremum and a time.
    """
    taken = "" if where is None else f" filter (where {where})"
    if kind == "count_all":
        return [f"count(1){taken}"]
    value = summed(kind, types[0], values[0])
    if kind == "sum" and isinstance(types[0], spark.LongType):
        return [f"sum(shiftright({value}, 32)){taken}", f"sum({value} & {LOW}){taken}"]
    if kind == "sum" and isinstance(types[0], spark.FloatType | spark.DoubleType | spark.NullType):
        return [f"sum({value}){taken}", LOST]
    if kind == "log_sum":
        return [f"sum({logarithm(value)}){taken}", LOST]
    if kind == "moments":
        number = value if isinstance(types[0], spark.DoubleType) else f"double({value})"
        n = f"count({value}){taken}"
        return [n, f"avg({number}){taken}", LOST, f"var_pop({number}){taken} * {n}"]
    if kind in BY_TIME:
        extreme = "min" if kind.startswith("first") else "max"
        return [
            f"{by_time(kind, value, time)}{taken}",
            f"{extreme}({time_of(kind, value, time)}){taken}",
        ]
    if kind in ("arg_min", "arg_max"):
        extreme = kind.removeprefix("arg_")
        return [
            f"{extreme}_by({value}, {values[1]}){taken}",
            f"{extreme}({values[1]}){taken}",
            f"min({time}){taken}",
        ]
    return [f"{NAMES[kind]}({value}){taken}"]
