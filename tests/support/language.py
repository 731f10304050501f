"""Any windows and aggregates of the language, and any names of columns."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import numpy as np
from hypothesis import strategies as st

import windowkit as wk
from support.streams import PARTIALS
from windowkit.language.durations import Months
from windowkit.language.functions import FORMS

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12
) | st.sampled_from(
    ["v", "window_name", "a b", "a,b", "f(x)", "`", "``", " v", "as", "x as y", "*", "1", "ignore_nulls", "é"]
)
DURATIONS = st.integers(1, 2**62).map(wk.Duration) | st.sampled_from(
    ["10 minutes", "90 seconds", "1.5 seconds", "1 week", timedelta(hours=1)]
)
# Of a discrete quantile the text form has a name of its own, and Python a keyword.
COLUMN_FUNCTIONS = [getattr(wk, spelling) for spelling in FORMS if spelling != "quantile_disc"]
SHARES = st.floats(0, 1) | st.integers(0, 1) | st.sampled_from([np.float32(0.25), np.int64(1), 1e-300])


@st.composite
def any_window(draw: st.DrawFn) -> wk.Window:
    integers = draw(st.booleans())

    def scaled(units: int) -> wk.Duration | int:
        return units if integers else wk.Duration(units * draw(st.just(unit)))

    unit = draw(st.sampled_from([1, 1_000, 10**9, 60 * 10**9]))
    size = draw(st.integers(1, 10**6))
    kind = draw(
        st.sampled_from(
            ["tumbling", "sliding", "session", "rows", "mixed", "band", "landmark", "local", "other"]
        )
    )
    slide = size if kind == "tumbling" else draw(st.integers(1, size))
    offset = draw(st.none() | st.integers(-slide + 1, slide - 1))
    start_time = None if offset is None else scaled(offset)
    window: wk.Window
    if kind == "session":
        window = wk.session(scaled(size))
    elif kind == "tumbling":
        window = wk.tumbling(scaled(size), start_time=start_time)
    elif kind == "sliding":
        window = wk.sliding(scaled(size), scaled(slide), start_time=start_time)
    elif kind == "rows":
        partial = draw(st.sampled_from(PARTIALS))
        sliding = wk.sliding(wk.rows(size), f"{slide} rows", partial=partial)
        window = draw(st.sampled_from([sliding, wk.tumbling(rows=size, partial=partial)]))
    elif kind == "mixed":
        by_rows = wk.sliding(wk.rows(size), scaled(slide), start_time=start_time)
        order = draw(st.sampled_from(["time", "arrival"]))
        window = draw(st.sampled_from([by_rows, wk.sliding(scaled(size), wk.rows(slide), order=order)]))
    elif kind == "local":
        window = local_window(draw)
    elif kind == "band":
        start = draw(st.datetimes()) if not integers else draw(st.integers(-(10**6), 10**6))
        window = wk.band(start, start + size if integers else datetime.max)
    elif kind == "landmark":
        period = scaled(size * draw(st.integers(1, 9)))
        every = wk.landmark(scaled(size), period=period, start_time=start_time)
        start = draw(st.integers(-9, 9)) if integers else draw(st.datetimes(timezones=st.just(timezone.utc)))
        window = draw(st.sampled_from([every, wk.landmark(scaled(size), start=start)]))
    else:
        at = draw(st.sampled_from(["start", "end"]))
        between = wk.between(draw(NAMES), draw(NAMES), exclusive=draw(st.booleans()))
        own = wk.session(column=draw(NAMES), at_most=draw(st.none() | st.just(scaled(size))))
        marks = wk.punctuation(draw(NAMES), at=at)
        long = wk.session(scaled(slide), at_most=scaled(size))
        window = draw(st.sampled_from([wk.global_window(), marks, between, own, long]))
    name = draw(st.none() | NAMES)
    return window if name is None else window.alias(name)


def local_window(draw: st.DrawFn) -> wk.Window:
    zone = draw(st.none() | st.sampled_from(["UTC", "+05:45", "America/Port-au-Prince", "Etc/GMT+5"]))
    few, more = draw(st.integers(1, 500)), draw(st.integers(1, 9))
    start = draw(
        st.none() | st.just(Months(few - 1)) | st.just(wk.Duration(draw(st.integers(-(10**15), 10**15))))
    )
    week_start = draw(st.sampled_from(["monday", "sunday"]))
    return draw(
        st.sampled_from(
            [
                wk.tumbling(Months(few), zone=zone, start_time=start),
                wk.sliding(Months(few * more), Months(few), zone=zone, start_time=start),
                wk.tumbling(f"{few} weeks", zone=zone, week_start=week_start),
                wk.landmark(Months(few), period=Months(few * more), zone=zone, start_time=start),
                wk.landmark("1 hour", period=Months(few), zone=zone, start_time=start),
            ]
        )
    )


@st.composite
def any_aggregate(draw: st.DrawFn) -> wk.Aggregate:
    function = draw(st.sampled_from(COLUMN_FUNCTIONS))
    column = draw(NAMES)
    if function in (wk.first, wk.last):
        aggregate = function(column, ignore_nulls=draw(st.booleans()))
    elif function in (wk.arg_min, wk.arg_max):
        aggregate = function(column, by=draw(NAMES))
    elif function is wk.m4:
        aggregate = function(column, times=draw(st.booleans()))
    elif function is wk.quantile:
        aggregate = function(column, draw(SHARES), discrete=draw(st.booleans()))
    elif function is wk.approx_quantile:
        aggregate = function(column, draw(SHARES))
    elif function in (wk.approx_count_distinct, wk.hll_sketch):
        aggregate = function(column, log2_k=draw(st.integers(4, 21)))
    elif function is wk.collect_rows:
        aggregate = function(*draw(st.lists(NAMES, max_size=3, unique=True)))
    elif function is wk.top_k:
        aggregate = function(column, draw(st.integers(1, 2**31 - 1)))
    elif function is wk.frequent:
        aggregate = function(column, draw(SHARES.filter(bool)))
    else:
        aggregate = function(column)
    if draw(st.booleans()):
        aggregate = aggregate.where(draw(NAMES))
    name = draw(st.none() | NAMES)
    return aggregate if name is None else aggregate.alias(name)
