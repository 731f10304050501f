"""Say how a query is evaluated in this process: classes of windows, slices, and what they store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from windowkit.aggregation import bare
from windowkit.durations import NANOSECONDS, Duration
from windowkit.local import plan, schema_of
from windowkit.query import Query
from windowkit.windows import Session, Sliding, Tumbling, Window, quoted, units

__all__ = ["explain"]

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
    stored = [partial(*each) for each in planned.partials]
    unit = nanoseconds_per_unit(schema.field(query.time).type)
    begin = [cut(period, offset, unit) for period, offset in planned.edges]
    gaps = [window.gap for window in query.windows if isinstance(window, Session)]
    if gaps:
        begin.append(f"after {min(gaps, key=units)} without rows")
    lines = [
        f"query by {', '.join(query.by) or 'nothing'} over {query.time}",
        "windows",
        *(f"  {window}: {character(window)}" for window in query.windows),
        f"slices, of {'each key' if query.by else 'all rows'}",
        f"  begin {', and '.join(begin)}",
        f"  store {', '.join(stored)}",
        "windows from slices",
        *answers(query),
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


def assumed(query: Query) -> pa.Schema:
    """Return a schema that the query fits: what slices store does not depend on which."""
    fields = dict.fromkeys(query.inputs, pa.float64())
    fields |= {aggregate.filter: pa.bool_() for aggregate in query.aggs if aggregate.filter is not None}
    fields[query.time] = pa.int64()
    if query.windows[0].is_time:
        lengths = [length for window in query.windows for length in window.specification()[2:5]]
        fields[query.time] = pa.timestamp("ns" if any(length % 1_000 for length in lengths) else "us")
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
    every, shift = (str(length if unit is None else Duration(length * unit)) for length in (period, offset))
    return f"every {every}" + (f" shifted by {shift}" if offset else "")


def character(window: Window) -> str:
    """Say the class of a window (Traub et al. 2019, §4.4) and what follows (Fig. 4)."""
    if isinstance(window, Session):
        return "context aware, but its fragments merge, so that no rows are kept"
    if isinstance(window, Sliding):
        count, rest = divmod(units(window.size), units(window.slide))
        return f"context free; a row is in {count} {f'or {count + 1} ' if rest else ''}of them"
    return "context free; a row is in one of them"


def answers(query: Query) -> Iterator[str]:
    """Say how each type of window is computed from slices."""
    types = {type(window) for window in query.windows}
    if Tumbling in types:
        yield f"  tumbling: a window {'is a slice' if len(query.windows) == 1 else 'joins its own slices'}"
    if Sliding in types:
        yield "  sliding: O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks"
    if Session in types:
        yield "  session: slices no further apart than the gap are joined"


def said(associative: bool, commutative: bool, invertible: bool, kind: str) -> str:
    """Say what holds of a function (Traub et al. 2019, §4.2)."""
    holds = {"associative": associative, "commutative": commutative, "invertible": invertible}
    return ", ".join([kind, *(name for name, is_so in holds.items() if is_so)])


def partial(kind: str, columns: Sequence[str], where: str | None) -> str:
    """Return the text form of a partial aggregate."""
    filtered = "" if where is None else f" where {bare(where)}"
    if not columns:
        return f"count(*){filtered}"
    kind = kind.removeprefix("user:")
    function = kind.removesuffix("_valid")
    option = "" if function == kind else ", ignore_nulls"
    return f"{function}({', '.join(map(quoted, columns))}{option}){filtered}"
