"""Describe how a query is evaluated in this process: classes of windows, slices, and what they store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.durations import NANOSECONDS, Duration
from windowkit.engines import Engine, register
from windowkit.local import OTHERWISE, plan, schema_of
from windowkit.moments import Moment
from windowkit.query import Query
from windowkit.windows import Assembly, Between, Punctuation, Session, bare, quoted, units

__all__ = ["explain", "sizes"]

SLIDING: Final = "O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks"
UNITS: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def explain(query: Query, data: Any = None) -> str:
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
      session(30 seconds): context aware, but its fragments merge, so that no rows are kept
    slices, of each key
      begin every 1 minute, and after 30 seconds without rows
      store sum(v), count(v), moments(v)
    windows from slices
      sliding: O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks
      session: slices no further apart than the gap are joined
    aggregates from what slices store
      sum(v): sum(v); distributive, associative, commutative
      avg(v): sum(v) and count(v); algebraic, associative, commutative
      stddev(v): moments(v); algebraic, associative, commutative
    """
    bound = data is not None
    schema = schema_of(data) if bound else assumed(query)
    planned = plan(query, schema)
    stored = [
        partial(*each, size) for each, size in zip(planned.partials, sizes(query, planned), strict=True)
    ]
    unit = nanoseconds_per_unit(schema.field(query.time).type)
    lines = [
        f"query by {', '.join(query.by) or 'nothing'} over {query.time}",
        "windows",
        *(
            f"  {window}: {window.character(context)}{f'; rows are kept ({source})' if needs_rows else ''}"
            for window, (context, _, needs_rows, source) in zip(query.windows, planned.windows, strict=True)
        ),
        *slices(query, planned, unit),
        f"  store {', '.join(stored)}",
        "windows from slices",
        *answers(query, planned.needs_rows),
        "aggregates from what slices store",
        *(
            f"  {each.name}: {' and '.join(stored[at] for at in sources)}; {said(*properties)}"
            for each, sources, properties in zip(query.aggs, planned.sources, planned.properties, strict=True)
        ),
    ]
    if bound:
        counted = f"counts {planned.unit}" if unit else "is an integer"
        lines[0] += f", which {counted}"
        output = pa.schema(planned.output_schema)
        lines += ["output", *(f"  {field.name}: {field.type}" for field in output)]
    return "\n".join(lines)


def slices(query: Query, planned: _native.Plan, unit: int | None) -> Iterator[str]:
    """Describe where slices begin, and whether rows are kept for that (Traub et al. 2019, Fig. 4)."""
    whose = "each key" if query.by else "all rows"
    if planned.needs_rows:
        yield f"rows, of {whose}"
        yield "  kept until all have arrived, and sorted by time, then by arrival"
        yield f"slices, of {whose}"
        yield "  begin and end where a window does, and nowhere else"
        return
    begin = [cut(period, offset, unit) for period, offset in planned.edges]
    begin += [f"every {amount(period, unit)} from {at(first, unit)} on" for period, first in planned.rays]
    if planned.points:
        begin.append(f"at {' and '.join(at(point, unit) for point in planned.points)}")
    gaps = [gap for window in query.windows if (gap := window.lengths().get("gap")) is not None]
    if gaps:
        begin.append(f"after {min(gaps, key=units)} without rows")
    yield f"slices, of {whose}"
    yield f"  begin {', and '.join(begin or ['with the first row'])}"


def assumed(query: Query) -> pa.Schema:
    """Return a schema that the query fits: what slices store does not depend on which."""
    fields = dict.fromkeys(query.inputs, pa.float64())
    fields |= {aggregate.filter: pa.bool_() for aggregate in query.aggs if aggregate.filter is not None}
    marks = [window.columns for window in query.windows if isinstance(window, Punctuation | Between)]
    fields |= {column: pa.bool_() for columns in marks for column in columns}
    lengths = [each for window in query.windows for each in window.lengths().values() if each is not None]
    moments = [each for each in lengths if isinstance(each, Moment)]
    timed = [each for each in lengths if isinstance(each, Duration | Moment)]
    if any(isinstance(each, int) for each in lengths) or not lengths:
        fields[query.time] = pa.int64()
    else:
        unit = "ns" if any(each.nanoseconds % 1_000 for each in timed) else "us"
        zone = "UTC" if any(moment.zoned for moment in moments) else None
        elapsed = any(isinstance(window.lengths().get("start"), Duration) for window in query.windows)
        fields[query.time] = pa.duration(unit) if elapsed else pa.timestamp(unit, zone)
    gap = pa.int64() if fields[query.time] == pa.int64() else pa.duration("us")
    sessions = [window for window in query.windows if isinstance(window, Session)]
    fields |= {column: gap for window in sessions for column in window.columns}
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


def said(associative: bool, commutative: bool, invertible: bool, kind: str) -> str:
    """Describe the properties of a function (Traub et al. 2019, §4.2)."""
    holds = {"associative": associative, "commutative": commutative, "invertible": invertible}
    return ", ".join([kind, *(name for name, is_so in holds.items() if is_so)])


def sizes(query: Query, planned: _native.Plan) -> list[str]:
    """Return what distinguishes sketches of one column, as ``", 14"``, of each partial; mostly nothing."""
    parameters = [""] * len(planned.partials)
    for aggregate, sources in zip(query.aggs, planned.sources, strict=True):
        for at in sources:
            if planned.partials[at][0] == "hyperloglog":
                parameters[at] = f", {aggregate.parameters[0]:g}"
    return parameters


def partial(kind: str, columns: Sequence[str], where: str | None, size: str = "") -> str:
    """Return the text form of a partial aggregate."""
    filtered = "" if where is None else f" where {bare(where)}"
    if not columns:
        return f"count(*){filtered}"
    kind = kind.removeprefix("user:")
    function = kind.removesuffix("_valid")
    option = "" if function == kind else ", ignore_nulls"
    return f"{function}({', '.join(map(quoted, columns))}{option}{size}){filtered}"


register(Engine(takes=lambda _: True, calls={"explain": explain}, otherwise=OTHERWISE))
