"""Rolling aggregates by their definition, and random tables and frames for them."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import taken
from support.oracle_aggregates import aggregate
from support.plain import in_units, key, nanoseconds_per_unit, plain
from support.tables import drawn_rows

NEVER = -(2**200)
"""The moment of rows without time, before all others and infinitely far from them."""


class Case(NamedTuple):
    table: pa.Table
    rolling: wk.Rolling


@st.composite
def frames(draw: st.DrawFn, time_type: pa.DataType, *, ahead: bool = True) -> dict[str, Any]:
    """Draw the arguments of `over`; those that reach ahead if requested."""
    integer = pa.types.is_integer(time_type)
    by_rows = draw(st.booleans())
    most = 7 if by_rows else 30

    def units(number: int) -> Any:
        return number if integer else wk.Duration(number * nanoseconds_per_unit(time_type))

    def length(least: int) -> st.SearchStrategy[Any]:
        unbounded = st.just("unbounded rows" if by_rows else "unbounded")
        return unbounded | st.integers(least, most).map(wk.rows if by_rows else units)

    closed = draw(st.sampled_from([None, None, "both", "left", "right", "neither"]))
    tail: Any = None
    match draw(st.sampled_from(["size", "size", "before", *(["after", "around"] if ahead else [])])):
        case "around":
            given = {"before": draw(length(1)), "after": draw(length(0))}
        case side:
            given = {side: draw(length(1))}
    start = given.get("size", given.get("before"))
    if not by_rows and start not in (None, "unbounded"):
        tail = draw(st.none() | st.integers(1, 12).map(units))
    return {**given, "closed": closed, "tail": tail}


@st.composite
def cases(
    draw: st.DrawFn, values: list[tuple[pa.DataType, st.SearchStrategy[Any]]], *, ahead: bool = True
) -> Case:
    """Draw a table and aggregates over frames, of values of one of these types; some reach `ahead`."""
    rows = drawn_rows(draw, values, [0, 1, 1, 2], [0])
    aggs = rows.filtered(rows.asked())
    some = draw(st.lists(frames(rows.time_type, ahead=ahead), min_size=1, max_size=3))
    framed = [
        each.over(**draw(st.sampled_from(some))).alias(f"a{number}") for number, each in enumerate(aggs)
    ]
    return Case(rows.table(), wk.rolling(by=rows.by, time="t", aggs=framed))


def inside(
    frame: wk.Frame, row: int, ranked: list[int], times: list[int], time_type: pa.DataType
) -> list[int]:
    """Return the rows of the frame of one row of a key, whose rows are given in order."""
    at = ranked.index(row)
    place = range(len(ranked)) if frame.by_rows else [times[each] for each in ranked]

    def units(measure: Any) -> float:
        if measure is None:
            return float("inf")
        return measure.count if frame.by_rows else in_units(measure, time_type)

    before, after = units(frame.before), units(frame.after)
    if frame.tail is not None:
        hop = units(frame.tail)
        before = place[at] - (place[at] - before) // hop * hop
    found = []
    for other, distance in enumerate(each - place[at] for each in place):
        start = distance >= -before if frame.closed in ("both", "left") else distance > -before
        end = distance <= after if frame.closed in ("both", "right") else distance < after
        if (start or before == float("inf")) and (end or after == float("inf")):
            found.append(ranked[other])
    return found


def evaluate(case: Case) -> list[list[Any]]:
    """Return the aggregates of each row, by the definition."""
    table, rolling = case
    kind = table.schema.field(rolling.time).type
    times = [NEVER if time is None else time for time in plain(table[rolling.time])]
    keys = [[key(value) for value in plain(table[name])] for name in rolling.by]
    groups: dict[Any, list[int]] = defaultdict(list)
    for row in sorted(range(table.num_rows), key=lambda row: (times[row], row)):
        groups[tuple(column[row] for column in keys)].append(row)
    columns = {name: plain(table[name]) for name in rolling.inputs}
    result = []
    for row in range(table.num_rows):
        ranked = groups[tuple(column[row] for column in keys)]
        values = []
        for each in rolling.aggs:
            rows = taken(each.aggregate, inside(each.frame, row, ranked, times, kind), columns)
            value = aggregate(each.aggregate, rows, times, columns, table.schema)
            if each.aggregate.function == "m4_times" and value is not None:
                value = {name: None if part == NEVER else part for name, part in value.items()}
            values.append(value)
        result.append(values)
    return result
