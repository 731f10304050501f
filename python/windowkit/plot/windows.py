"""Pictures of the windows of a query over the rows of one key, and of its result; they need matplotlib."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.arrow.computing import without_views
from windowkit.arrow.given import reader_of
from windowkit.arrow.source import opened
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given
from windowkit.language.foreign import is_spark
from windowkit.language.query import Query
from windowkit.local.query import plan, shaped
from windowkit.streams.watermarks import in_time, one_key

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot"]

MOST: Final = 500
"""Windows in a picture: more cannot be told apart."""
COLORS: Final = ("#2f6fb7", "#e0a526", "#3d8f5f", "#a5518c", "#7a7a7a")
LANE: Final = 0.16
"""Inches that a window is high."""
PANEL: Final = 1.3
"""Inches that the panel of rows, and of each aggregate, is high."""


def plot(
    query: Query,
    data: Any,
    *,
    key: Any = None,
    start: Any = None,
    end: Any = None,
    figure: Figure | None = None,
) -> Figure:
    """Draw the windows of `query` over some rows; see `windowkit.Query.plot`."""
    from windowkit.plot.library import matplotlib_pyplot

    pyplot = matplotlib_pyplot()
    if is_spark(data):
        raise InvalidType(
            "data: a Spark DataFrame is given; a picture is of rows in this process, as those of "
            "df.where(...).toArrow() are"
        )
    own, source = opened(query, data, None)
    # What does not fit is refused before rows are read.
    plan(own, source.schema)
    with source:
        table = without_views(pa.Table.from_batches(reader_of(source), source.schema))
    table, named = of_one_key(table, own, key)
    batches = pa.RecordBatchReader.from_stream(plan(own, table.schema).run(table, 1))
    windows = shaped(batches.read_all(), replace(own, window_columns="flat"))
    kind = table.schema.field(own.time).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    given = {"start": start, "end": end}
    stretch = [None if each is None else in_time(name, each, kind) for name, each in given.items()]
    first, last = stretch
    if first is not None and last is not None and first >= last:
        raise InvalidValue(
            f"end: {as_given(end)} is not after start, {as_given(start)}; rows from start on, before end, "
            "are drawn"
        )
    rows, windows = within(table, windows, own, first, last)
    if windows.num_rows > MOST:
        raise InvalidValue(
            f"data: {windows.num_rows:,} windows would be drawn; a picture has at most {MOST}: give a start "
            "and an end with fewer between them"
        )
    lanes = stacked(own, windows)
    values = [each.name for each in own.aggs if is_number(windows.schema.field(each.name).type)]
    high = sum(map(len, lanes.values())) * LANE + 0.4
    heights = [PANEL, high, *(PANEL for _ in values)]
    if figure is None:
        figure = pyplot.figure(figsize=(9, sum(heights) + 0.8), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)[:, 0]
    panels[0].set_title(named, loc="left", fontsize="medium")
    draw_rows(panels[0], own, rows)
    draw_windows(panels[1], windows, lanes)
    for panel, name in zip(panels[2:], values, strict=True):
        draw_values(panel, windows, name, lanes)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        dates: Any = import_module("matplotlib.dates")
        locator = dates.AutoDateLocator()
        panels[-1].xaxis.set_major_locator(locator)
        panels[-1].xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    is_zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    unit = " (UTC)" if is_zoned else f" ({kind.unit})" if pa.types.is_duration(kind) else ""
    panels[-1].set_xlabel(f"{own.time}{unit}")
    return figure


def of_one_key(table: pa.Table, query: Query, key: Any) -> tuple[pa.Table, str]:
    """Return the rows of a key, and what it is called."""
    if not query.by:
        if key is not None:
            raise InvalidValue(
                f"key: {as_given(key)} is given for a query without keys; only all rows can be drawn"
            )
        return table, "all rows"
    keys = table.select(query.by).group_by(list(query.by)).aggregate([])
    if key is not None:
        wanted = one_key(key, query.by, table.schema)
    elif keys.num_rows == 1:
        wanted = keys.to_batches()[0]
    else:
        first = keys.slice(0, 1).to_pylist()
        example = "" if not first else f", for instance key={shown(first[0])!r}"
        raise InvalidValue(
            f"key: None is given, and data has {keys.num_rows:,} keys; a picture is of one of them{example}"
        )
    chosen = None
    for name in query.by:
        value, column = wanted[name][0], table[name]
        if not value.is_valid:
            same = column.is_null()
        elif pa.types.is_floating(column.type) and value.as_py() != value.as_py():
            same = pc.is_nan(column)
        else:
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            same = pc.equal(plain, value.as_py() if pa.types.is_dictionary(column.type) else value)
        same = pc.fill_null(same, False)
        chosen = same if chosen is None else pc.and_(chosen, same)
    rows = table.filter(chosen)
    named = ", ".join(f"{name} {value!r}" for name, value in wanted.to_pylist()[0].items())
    if not rows.num_rows:
        raise InvalidValue(f"key: data has no rows of {named}")
    return rows, named


def shown(key: dict[str, Any]) -> Any:
    """Return a key as it is given: alone if it is one value."""
    return next(iter(key.values())) if len(key) == 1 else key


def units(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times as integers."""
    if pa.types.is_dictionary(times.type):
        times = times.cast(times.type.value_type)
    return (times.cast(pa.int32()) if pa.types.is_date32(times.type) else times).cast(pa.int64())


def within(
    rows: pa.Table, windows: pa.Table, query: Query, start: int | None, end: int | None
) -> tuple[pa.Table, pa.Table]:
    """Return the rows with a time, and the windows, that reach into a stretch of time."""
    rows = rows.filter(rows[query.time].is_valid())
    if start is not None:
        rows = rows.filter(pc.greater_equal(units(rows[query.time]), start))
        windows = windows.filter(pc.greater(units(windows["window_end"]), start))
    if end is not None:
        rows = rows.filter(pc.less(units(rows[query.time]), end))
        windows = windows.filter(pc.less(units(windows["window_start"]), end))
    return rows, windows


def stacked(query: Query, windows: pa.Table) -> dict[str, list[list[int]]]:
    """Return the windows of each type in lanes, in each of which they follow each other."""
    starts, ends = units(windows["window_start"]).to_pylist(), units(windows["window_end"]).to_pylist()
    names = [query.windows[0].name] * len(starts)
    if len(query.windows) > 1:
        names = windows["window_name"].to_pylist()
    lanes: dict[str, list[list[int]]] = {each.name: [] for each in query.windows}
    for at in sorted(range(len(starts)), key=lambda at: (starts[at], ends[at])):
        own = lanes[names[at]]
        lane = next((lane for lane in own if ends[lane[-1]] <= starts[at] and lane[-1] != at), None)
        if lane is None:
            own.append([at])
        else:
            lane.append(at)
    return lanes


def is_number(kind: pa.DataType) -> bool:
    """Whether values of a type have a place on an axis."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def places(column: pa.ChunkedArray) -> Any:
    """Return times or numbers as matplotlib draws them."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return places(column.cast(kind.value_type))
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp(kind.unit)).to_numpy()
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("s" if pa.types.is_date32(kind) else "ms")).to_numpy()
    return column.cast(pa.int64() if pa.types.is_duration(kind) else pa.float64()).to_numpy()


def draw_rows(panel: Axes, query: Query, rows: pa.Table) -> None:
    """Draw rows by their times, and by the values of the first column of numbers that is aggregated."""
    read = [column for each in query.aggs for column in each.columns]
    values = next((name for name in read if is_number(rows.schema.field(name).type)), None)
    heights = [0] * rows.num_rows if values is None else places(rows[values])
    panel.plot(places(rows[query.time]), heights, marker="o", markersize=3, linestyle="none", color="0.35")
    panel.set_ylabel("rows" if values is None else values)
    if values is None:
        panel.set_yticks([])


def draw_windows(panel: Axes, windows: pa.Table, lanes: dict[str, list[list[int]]]) -> None:
    """Draw windows as bars, those of a type below each other where they overlap."""
    starts, ends = places(windows["window_start"]), places(windows["window_end"])
    lines = [(name, lane) for name, own in lanes.items() for lane in own]
    middles: dict[str, list[int]] = {}
    for y, (name, lane) in enumerate(lines):
        color = color_of(name, lanes)
        # Neighbours differ, so that one is seen to end where the next begins.
        shades = [(color, 1.0 if number % 2 else 0.55) for number in range(len(lane))]
        panel.hlines([y] * len(lane), starts[lane], ends[lane], colors=shades, linewidth=LANE * 72 * 0.7)
        middles.setdefault(name, []).append(y)
    panel.set_ylim(len(lines) - 0.4, -0.6)
    panel.set_yticks([sum(own) / len(own) for own in middles.values()], list(middles))


def draw_values(panel: Axes, windows: pa.Table, name: str, lanes: dict[str, list[list[int]]]) -> None:
    """Draw an aggregate: the value of each window, from its start to its end."""
    values = places(windows[name])
    starts, ends = places(windows["window_start"]), places(windows["window_end"])
    # The first type is drawn last, and so above the others.
    for window, own in reversed(lanes.items()):
        each = [at for lane in own for at in lane if values[at] == values[at]]
        panel.hlines(values[each], starts[each], ends[each], colors=color_of(window, lanes), linewidth=1.5)
    panel.set_ylabel(name)


def color_of(name: str, lanes: dict[str, list[list[int]]]) -> str:
    """Return the colour of a type of windows."""
    return COLORS[list(lanes).index(name) % len(COLORS)]
