"""Say how a query is evaluated in this process: classes of windows, slices, and what they store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.durations import NANOSECONDS, Duration, Rows
from windowkit.engines import Engine, register
from windowkit.local import OTHERWISE, plan, schema_of
from windowkit.moments import Moment
from windowkit.query import Query
from windowkit.windows import (
    Band,
    Custom,
    Global,
    Landmark,
    Punctuation,
    Session,
    Sliding,
    Tumbling,
    Window,
    bare,
    quoted,
    units,
)

__all__ = ["explain", "sizes"]

SLIDING: Final = "O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks"
OVERLAPPING: Final[dict[type[Window], str]] = {Sliding: "sliding", Landmark: "landmark"}
UNITS: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}


def explain(query: Query, data: Any = None) -> str:
    """Say how `query` is evaluated; see `windowkit.Query.explain`.

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
            f"  {window}: {character(window, *traits)}"
            for window, traits in zip(query.windows, planned.windows, strict=True)
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
    """Say where slices begin, and whether rows are kept for that (Traub et al. 2019, Fig. 4)."""
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
    gaps = [window.gap for window in query.windows if isinstance(window, Session)]
    if gaps:
        begin.append(f"after {min(gaps, key=units)} without rows")
    yield f"slices, of {whose}"
    yield f"  begin {', and '.join(begin or ['with the first row'])}"


def assumed(query: Query) -> pa.Schema:
    """Return a schema that the query fits: what slices store does not depend on which."""
    fields = dict.fromkeys(query.inputs, pa.float64())
    fields |= {aggregate.filter: pa.bool_() for aggregate in query.aggs if aggregate.filter is not None}
    fields |= {window.column: pa.bool_() for window in query.windows if isinstance(window, Punctuation)}
    lengths = [each for window in query.windows for each in window.lengths().values() if each is not None]
    moments = [each for each in lengths if isinstance(each, Moment)]
    timed = [each for each in lengths if isinstance(each, Duration | Moment)]
    if any(isinstance(each, int) for each in lengths) or not lengths:
        fields[query.time] = pa.int64()
    else:
        unit = "ns" if any(each.nanoseconds % 1_000 for each in timed) else "us"
        zone = "UTC" if any(moment.zoned for moment in moments) else None
        elapsed = any(
            isinstance(window, Band) and isinstance(window.start, Duration) for window in query.windows
        )
        elapsed |= any(isinstance(w, Landmark) and isinstance(w.start, Duration) for w in query.windows)
        fields[query.time] = pa.duration(unit) if elapsed else pa.timestamp(unit, zone)
    return pa.schema(fields)


def nanoseconds_per_unit(time_type: pa.DataType) -> int | None:
    """Return what one unit of the column means; None for integers."""
    if pa.types.is_date32(time_type):
        return NANOSECONDS["day"]
    if pa.types.is_date64(time_type):
        return NANOSECONDS["millisecond"]
    return None if pa.types.is_integer(time_type) else NANOSECONDS[UNITS[time_type.unit]]


def cut(period: int, offset: int, unit: int | None) -> str:
    """Say where a family of edges ``{offset + k * period}`` lies."""
    return f"every {amount(period, unit)}" + (f" shifted by {amount(offset, unit)}" if offset else "")


def amount(length: int, unit: int | None) -> str:
    """Return a length for the reader."""
    return str(length if unit is None else Duration(length * unit))


def at(place: int, unit: int | None) -> str:
    """Return a place on the measure for the reader."""
    return str(place if unit is None else Moment(place * unit, False))


def character(window: Window, kind: str, counts: bool, needs_rows: bool, source: str) -> str:
    """Say the class of a window (Traub et al. 2019, §4.4) and what follows (Fig. 4)."""
    if isinstance(window, Session):
        return "context aware, but its fragments merge, so that no rows are kept"
    if isinstance(window, Tumbling | Sliding) and not (
        isinstance(window, Sliding) and window.is_multi_measure
    ):
        slide = window.slide if isinstance(window, Sliding) else window.size
        count, rest = divmod(units(window.size), units(slide))
        of_them = f"a row is in {count} {f'or {count + 1} ' if rest else ''}of them"
        of_them = "a row is in one of them" if isinstance(window, Tumbling) else of_them
        return f"{kind}; {of_them}" + (f", by its rank; {kept(source)}" if counts else "")
    if isinstance(window, Sliding):
        end, begin = ("a time", "rank") if isinstance(window.size, Rows) else ("a row", "time")
        return f"{kind}: {end} ends it, and determines the {begin} that begins it; {kept(source)}"
    words = {
        Band: "there is one, for rows in it",
        Landmark: "a row is in all that end after it, those of its landmark",
        Global: "all rows are in it",
        Punctuation: "a marked row is an edge",
        Custom: "defined by code of your own",
    }
    return f"{kind}; {words[type(window)]}" + (f"; {kept(source)}" if needs_rows else "")


def kept(source: str) -> str:
    """Say that a window needs rows, and where that is from."""
    return f"rows are kept ({source})"


def answers(query: Query, needs_rows: bool) -> Iterator[str]:
    """Say how each type of window is computed from slices."""
    if needs_rows:
        yield f"  ranges of slices: {SLIDING}"
        return
    types = {type(window) for window in query.windows}
    if Tumbling in types:
        yield f"  tumbling: a window {'is a slice' if len(query.windows) == 1 else 'joins its own slices'}"
    if Sliding in types or Landmark in types:
        names = " and ".join(name for kind, name in OVERLAPPING.items() if kind in types)
        yield f"  {names}: {SLIDING}"
    if Session in types:
        yield "  session: slices no further apart than the gap are joined"
    if Band in types or Global in types:
        yield "  one window per key: all slices in it are joined"


def said(associative: bool, commutative: bool, invertible: bool, kind: str) -> str:
    """Say what holds of a function (Traub et al. 2019, §4.2)."""
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
