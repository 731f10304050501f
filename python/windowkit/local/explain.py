"""Describe how a query is evaluated in this process: classes of windows, slices, and what they store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.frames import outlined
from windowkit.arrow.validation import TABLES
from windowkit.errors import InvalidValue
from windowkit.language import fills
from windowkit.language.aggregation import Aggregate
from windowkit.language.checks import as_given
from windowkit.language.durations import Duration
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.lines import text_of
from windowkit.language.moments import Moment
from windowkit.language.query import Query
from windowkit.language.windows import WEEKDAYS, Assembly, bare, days_of_utc, quoted, time_type, units
from windowkit.local.query import fitted, plan, shaped_schema
from windowkit.panes import pane_costs

__all__ = ["explain", "sizes"]

SLIDING: Final = "O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks"
EPOCH: Final = date(1970, 1, 1)
WEEKDAY_OF_1970: Final = EPOCH.weekday()
UNITS: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def explain(query: Query, data: Any = None, *, where: Any = None) -> str:
    """Describe how `query` is evaluated; see `windowkit.Query.explain`.

    Examples
    --------
    >>> import windowkit as wk
    >>> query = wk.query(
    ...     by="device",
    ...     time="ts",
    ...     windows=[wk.sliding("10 minutes", "1 minute"), wk.session("30 seconds")],
    ...     aggs=[wk.sum("v"), wk.mean("v"), wk.stddev("v")],
    ... )
    >>> print(query.explain())
    query by device over ts
    windows
      sliding(10 minutes, 1 minute): context free; a row is in 10 of them
      session(30 seconds): context aware, but its fragments merge, so that no rows are stored
    slices, of each key
      begin every 1 minute, and after 30 seconds without rows
      store sum(v), count(v), moments(v)
    panes, to compare (Li 2008, Eq. 6.1, 6.3)
      sliding(10 minutes, 1 minute): 1 minute long, 10 per window; 1 pane per slide, or 1 slice; they pay from
      13 rows of a key per window on
    windows from slices
      sliding: O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks
      session: slices no further apart than the gap are joined
    aggregates from what slices store
      sum(v): sum(v); distributive, associative, commutative
      avg(v): sum(v) and count(v); algebraic, associative, commutative
      stddev(v): moments(v); algebraic, associative, commutative
    """
    bound = data is not None
    if where is not None and not bound:
        raise InvalidValue(
            f"where: {as_given(where)} is given without data; what it says of rows depends on types, so give "
            "data, or a schema"
        )
    if bound:
        query, schema = fitted(query, data)
    else:
        query = query.plain
        schema = assumed(query)
    planned = plan(query, schema)
    # Which columns there are is not known without data.
    every = schema.names if query.reads_all else None
    stored = [
        partial(each.kind, () if each.columns == every else each.columns, each.condition, size)
        for each, size in zip(planned.partials, sizes(query.aggs, planned), strict=True)
    ]
    kind = schema.field(query.time).type
    unit = nanoseconds_per_unit(kind)
    lines = [
        f"query by {', '.join(query.by) or 'nothing'} over {query.time}",
        "windows",
        *(
            f"  {window}: {window.character(traits.context)}{days_of_utc(window, kind) if bound else ''}"
            f"{f'; rows are stored ({traits.source})' if traits.needs_rows else ''}"
            for window, traits in zip(query.windows, planned.windows, strict=True)
        ),
        *fills.described(query.fill),
        *emission(query),
        *slices(query, planned, unit),
        f"  store {', '.join(stored)}{twice(query)}",
        *panes(query, planned),
        "windows from slices",
        *answers(query, planned.needs_rows),
        "aggregates from what slices store",
        *(
            f"  {each.name}: {' and '.join(stored[at] for at in sources)}; {properties_of(properties)}"
            for each, sources, properties in zip(query.aggs, planned.sources, planned.properties, strict=True)
        ),
    ]
    if bound:
        counted = f"counts {planned.unit}" if unit else "is an integer"
        lines[0] += f", which {counted}"
        lines[1:1] = times(query, data)
        output = shaped_schema(pa.schema(planned.output_schema), query)
        lines += ["output", *(f"  {field.name}: {field.type}" for field in output)]
        if where is not None:
            # It imports pyarrow.dataset, which imports pandas.
            from windowkit.local.where import Where

            lines[1:1] = Where(where, query, schema, output).split.described()
    return text_of(lines)


def times(query: Query, data: Any) -> list[str]:
    """Say how many rows have no time, where all of them are here and that takes no reading."""
    name = str(query.time)
    rows = outlined("data", data, [name])
    if not isinstance(rows, TABLES) or rows.schema.get_field_index(name) < 0:
        return []
    missing = rows.column(name).null_count
    return [f"  {missing} of {rows.num_rows} rows have no time, and are in no window"] if missing else []


def twice(query: Query) -> str:
    """Return what is said of slices where rows retract others."""
    return (
        "" if query.weight is None else f", each of rows with {quoted(query.weight)} 1 and of those with -1"
    )


def emission(query: Query) -> Iterator[str]:
    """Say when streams emit windows, where that is not only once they are final."""
    if query.emit is not None:
        yield "results of streams"
        yield f"  {query.emit!r}; run and batches, to which all rows are given, emit each window once"


def slices(query: Query, planned: _native.Plan, unit: int | None) -> Iterator[str]:
    """Describe where slices begin, and whether rows are stored for that (Traub et al. 2019, Fig. 4)."""
    whose = "each key" if query.by else "all rows"
    if planned.needs_rows:
        yield f"rows, of {whose}"
        yield "  stored until all have arrived, and sorted by time, then by arrival"
        yield f"slices, of {whose}"
        yield "  begin and end where a window does, and nowhere else"
        return
    begin = [cut(period, offset, unit) for period, offset in planned.edges]
    begin += [calendar_cut(timetable, unit) for timetable in planned.timetables]
    begin += [f"every {amount(period, unit)} from {at(first, unit)} on" for period, first in planned.rays]
    if planned.points:
        begin.append(f"at {' and '.join(at(point, unit) for point in planned.points)}")
    gaps = [gap for window in query.windows if (gap := window.lengths().get("gap")) is not None]
    if gaps:
        begin.append(f"after {min(gaps, key=units)} without rows")
    yield f"slices, of {whose}"
    yield f"  begin {', and '.join(begin or ['with the first row'])}"


def panes(query: Query, planned: _native.Plan) -> Iterator[str]:
    """Compare slices with panes, and say from which number of rows on these pay (Li 2008, Eq. 6.1-6.4)."""
    overlapping = [
        window
        for window in query.windows
        if window.overlaps and not window.counts_rows and not window.is_local
    ]
    if planned.needs_rows or not overlapping:
        return
    differential = all(each.invertible for each in planned.properties)
    eqs = "6.2, 6.4" if differential else "6.1, 6.3"
    yield f"panes, to compare (Li 2008, Eq. {eqs})"
    for window in overlapping:
        lengths = window.lengths()
        size, slide = units(lengths["size"]), units(lengths["slide"])
        # Both costs are linear in the number of rows.
        fixed, one = (pane_costs(size, slide, rows, differential=differential) for rows in (0, 1))
        gained = (one.direct - fixed.direct) - (one.paned - fixed.paned)
        length = amount(fixed.pane, 1 if isinstance(lengths["size"], Duration) else None)
        slices = counted("slice", 1 if size % slide == 0 else 2)
        least = fixed.paned // gained + 1
        yield (
            f"  {window}: {length} long, {fixed.per_window} per window; "
            f"{counted('pane', fixed.per_slide)} per slide, or {slices}; they pay from {least} rows of a key "
            "per window on"
        )


def counted(what: str, count: int) -> str:
    """Return a number of things."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def assumed(query: Query) -> pa.Schema:
    """Return a schema that the query fits: what slices store does not depend on which."""
    fields = dict.fromkeys(query.named, pa.float64())
    fields |= {aggregate.condition: pa.bool_() for aggregate in query.aggs if aggregate.condition is not None}
    fields |= {} if query.weight is None else {query.weight: pa.int8()}
    fields[query.time] = time_type(query.windows)
    for window in query.windows:
        fields |= window.column_types(fields[query.time])
    return pa.schema(fields)


def nanoseconds_per_unit(time_type: pa.DataType) -> int | None:
    """Return what one unit of the column means; None for integers."""
    if pa.types.is_date32(time_type):
        return NANOSECONDS["day"]
    if pa.types.is_date64(time_type):
        return NANOSECONDS["millisecond"]
    return None if pa.types.is_integer(time_type) else NANOSECONDS[UNITS[time_type.unit]]


def cut(period: int, offset: int, unit: int | None) -> str:
    """Describe where a family of edges ``{offset + k * period}`` lies."""
    return f"every {amount(period, unit)}" + (f" shifted by {amount(offset, unit)}" if offset else "")


def calendar_cut(timetable: _native.Timetable, unit: int | None) -> str:
    """Describe where the edges of a calendar lie."""
    what, count, first = timetable.unit, timetable.count, timetable.first
    nth = f"every {count} {what}s" if count > 1 else f"each {what}"
    if what == "day" and count % 7 == 0:
        weekday = WEEKDAYS[(first + WEEKDAY_OF_1970) % 7].capitalize()
        nth = f"{'each week' if count == 7 else f'every {count // 7} weeks'} from {weekday} on"
    elif count > 1:
        nth += f" from {EPOCH + timedelta(days=first)}" if what == "day" else f" from {month(first)}"
    late = f", {amount(timetable.shift, unit)} after midnight" if timetable.shift else ""
    inner = None if timetable.days is None else counted("day", timetable.days)
    inner = inner if timetable.time is None else amount(timetable.time, unit)
    within = "" if inner is None else f", and {inner} apart from there on"
    return f"{nth}{late}, by the calendar of {timetable.zone or 'the times as they are'}{within}"


def month(number: int) -> str:
    """Return a month of the year 1970, or later, by its number."""
    return f"{1970 + number // 12}-{number % 12 + 1:02}"


def amount(length: int, unit: int | None) -> str:
    """Return a length for the reader."""
    return str(length if unit is None else Duration(length * unit))


def at(place: int, unit: int | None) -> str:
    """Return a place on the measure for the reader."""
    return str(place if unit is None else Moment(place * unit, False))


def answers(query: Query, needs_rows: bool) -> Iterator[str]:
    """Describe how windows of each type are computed from slices."""
    if needs_rows:
        yield f"  ranges of slices: {SLIDING}"
        return
    alone = len(query.windows) == 1
    how: dict[Assembly, str] = {
        "own": f"a window {'is a slice' if alone else 'joins its own slices'}",
        "range": SLIDING,
        "fragments": "slices no further apart than the gap are joined",
        "all": "all slices of a key in its one window are joined",
    }
    for assembly, text in how.items():
        types = dict.fromkeys(window.kind for window in query.windows if window.assembly == assembly)
        if types:
            yield f"  {' and '.join(types)}: {text}"


def properties_of(properties: _native.Properties) -> str:
    """Describe the properties of a function (Traub et al. 2019, §4.2)."""
    names = ("associative", "commutative", "invertible")
    return ", ".join([properties.kind, *(name for name in names if getattr(properties, name))])


def sizes(aggs: Sequence[Aggregate], planned: _native.Plan) -> list[str]:
    """Return what distinguishes sketches of one column, as ``", 14"``, of each partial; mostly nothing."""
    partials = planned.partials
    parameters = [""] * len(partials)
    for aggregate, sources in zip(aggs, planned.sources, strict=True):
        for at in sources:
            if partials[at].kind == "hyperloglog":
                parameters[at] = f", {aggregate.parameters[0]:g}"
    return parameters


def partial(kind: str, columns: Sequence[str], where: str | None, size: str = "") -> str:
    """Return the text form of a partial aggregate."""
    filtered = "" if where is None else f" where {bare(where)}"
    kind = kind.removeprefix("user:")
    function = kind.removesuffix("_valid")
    if not columns:
        return f"{'count' if kind == 'count_all' else function}(*){filtered}"
    option = "" if function == kind else ", ignore_nulls"
    return f"{function}({', '.join(map(quoted, columns))}{option}{size}){filtered}"
