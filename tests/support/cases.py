"""Random queries over random tables."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.extents import FORMS
from support.plain import nanoseconds_per_unit
from support.streams import PARTIALS, local_window
from support.tables import KEYS, drawn_rows
from windowkit.language.moments import Moment

# Windows that are cut in advance come twice as often as the others: both kinds of operator get their share.
BY_MEASURE = ["tumbling", "sliding", "session", "band", "landmark", "landmarks", "local", "global"]
BY_ROWS = [
    *("tumbling rows", "sliding rows", "last rows", "last time", "arrivals", "punctuation", "between", "long")
]
KINDS = [*BY_MEASURE, *BY_MEASURE, *BY_ROWS]


class Case(NamedTuple):
    table: pa.Table
    query: wk.Query


@st.composite
def window_lists(draw: st.DrawFn, time_type: pa.DataType, base: int) -> list[wk.Window]:
    integer = pa.types.is_integer(time_type)

    def scaled(units: int) -> wk.Duration | int:
        return units if integer else wk.Duration(units * nanoseconds_per_unit(time_type))

    def placed(units: int) -> wk.Duration | int | Moment:
        if integer or pa.types.is_duration(time_type):
            return scaled(units)
        zoned = pa.types.is_timestamp(time_type) and time_type.tz is not None
        return Moment(units * nanoseconds_per_unit(time_type), zoned)

    drawn: list[wk.Window] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3]))):
        kind = draw(st.sampled_from(KINDS))
        size, rows = draw(st.integers(1, 25)), draw(st.integers(1, 7))
        slide = size if kind == "tumbling" else draw(st.integers(1, size))
        start_time = scaled(draw(st.integers(-slide + 1, slide - 1)))
        # Windows know no durations and years as far as those that a column may hold.
        far = not integer and abs(base) * nanoseconds_per_unit(time_type) > 50 * 10**18
        place = draw(st.integers(-45, 65)) + (0 if far or pa.types.is_duration(time_type) else base)
        window: wk.Window
        match kind:
            case "session":
                window = wk.session(scaled(size))
            case "tumbling":
                window = wk.tumbling(scaled(size), start_time=start_time)
            case "sliding":
                window = wk.sliding(scaled(size), scaled(slide), start_time=start_time)
            case "tumbling rows":
                window = wk.tumbling(rows=rows, partial=draw(st.sampled_from(PARTIALS)))
            case "sliding rows":
                rows_slide = wk.rows(draw(st.integers(1, rows)))
                window = wk.sliding(wk.rows(rows), rows_slide, partial=draw(st.sampled_from(PARTIALS)))
            case "last rows":
                window = wk.sliding(wk.rows(rows), scaled(slide), start_time=start_time)
            case "last time":
                window = wk.sliding(scaled(size), wk.rows(rows))
            case "arrivals":
                window = wk.sliding(scaled(size), wk.rows(rows), order="arrival")
            case "punctuation":
                window = wk.punctuation("m", at=draw(st.sampled_from(["end", "start"])))
            case "between":
                columns = st.sampled_from(["m", "f"])
                window = wk.between(draw(columns), draw(columns), exclusive=draw(st.booleans()))
            case "long":
                window = wk.session(scaled(slide), at_most=scaled(size))
            case "band":
                window = wk.band(placed(place), placed(place + size))
            case "landmark":
                window = wk.landmark(scaled(size), start=placed(place))
            case "landmarks":
                period = scaled(size * draw(st.integers(1, 4)))
                window = wk.landmark(scaled(size), period=period, start_time=start_time)
            case "local" if base == 0:
                window = local_window(draw, time_type)
            case _:
                window = wk.global_window()
        drawn.append(window.alias(f"w{number}"))
    return drawn


@st.composite
def cases(draw: st.DrawFn, values: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> Case:
    rows = drawn_rows(draw, values, [0, 1, 1, 2, 3], [0, 0, -(10**14), 10**14 + 7])
    aggs = rows.asked()
    if draw(st.booleans()):
        rows.add("by", *draw(st.sampled_from(KEYS)))
        aggs += [wk.arg_min("v", by="by"), wk.arg_max("v", by="by")]
    rows.add("m", pa.bool_(), st.booleans())
    aggs = [each.alias(f"a{number}") for number, each in enumerate(rows.filtered(aggs))]
    windows = draw(window_lists(rows.time_type, rows.base))
    form = draw(st.sampled_from(FORMS))
    return Case(rows.table(), wk.query(by=rows.by, time="t", windows=windows, aggs=aggs, window_columns=form))
