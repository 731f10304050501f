"""Window ids: `wids` and `extent` against the definitions in naive Python, over every type of time column."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import windowkit as wk
from support import samples

Extent = Callable[[int], tuple[int, int] | None]
"""The definition: ``[start, end)`` of a window."""

LARGEST = 2**63 - 1


def sliding(size: int, slide: int, start_time: int) -> Extent:
    return lambda k: (start_time + k * slide, start_time + k * slide + size)


def landmarks(every: int, times: int, start_time: int) -> Extent:
    """Return the windows of each period, all from its landmark on, one after the other."""
    return lambda k: (
        start_time + k // times * every * times,
        start_time + k // times * every * times + (k % times + 1) * every,
    )


@st.composite
def windows(draw: st.DrawFn) -> tuple[wk.Window, Extent]:
    """Draw a window over integers, and its definition."""
    length, place = st.integers(1, 12), st.integers(-40, 40)
    kind = draw(st.sampled_from(["tumbling", "sliding", "period", "start", "band"]))
    if kind == "tumbling":
        size = draw(length)
        start_time = draw(st.integers(1 - size, size - 1))
        return wk.tumbling(size, start_time=start_time), sliding(size, size, start_time)
    if kind == "sliding":
        slide = draw(length)
        size, start_time = slide + draw(st.integers(0, 30)), draw(st.integers(1 - slide, slide - 1))
        return wk.sliding(size, slide, start_time=start_time), sliding(size, slide, start_time)
    if kind == "period":
        every, times = draw(length), draw(st.integers(1, 5))
        start_time = draw(st.integers(1 - every * times, every * times - 1))
        window = wk.landmark(every, period=every * times, start_time=start_time)
        return window, landmarks(every, times, start_time)
    if kind == "start":
        every, start = draw(length), draw(place)
        return wk.landmark(every, start=start), lambda k: None if k < 0 else (start, start + (k + 1) * every)
    start, size = draw(place), draw(length)
    return wk.band(start, start + size), lambda k: (start, start + size) if k == 0 else None


def covers(extent: tuple[int, int] | None, t: int) -> bool:
    return extent is not None and extent[0] <= t < extent[1]


@given(windows(), st.lists(st.none() | st.integers(-100, 100)))
@example((wk.tumbling(3, start_time=-1), sliding(3, 3, -1)), [-2, -1, 0, 1, 2])
def test_a_time_is_in_the_windows_whose_extents_cover_it(drawn, times):
    window, definition = drawn
    ids = range(-160, 161)
    ranges = window.wids(pa.array(times, pa.int64()))
    assert ranges.type == pa.struct([("first", pa.int64()), ("last", pa.int64())])
    for t, found in zip(times, ranges.to_pylist(), strict=True):
        wanted = [] if t is None else [k for k in ids if covers(definition(k), t)]
        listed = [] if found is None else [k for k in ids if found["first"] <= k <= found["last"]]
        assert listed == wanted
    assert ranges.null_count == sum(
        t is None or not any(covers(definition(k), t) for k in ids) for t in times
    )


@given(windows(), st.lists(st.none() | st.integers(-500, 500)))
def test_extents_are_the_definition(drawn, ids):
    window, definition = drawn
    found = window.extent(pa.array(ids, pa.int64()))
    wanted = [None if k is None else definition(k) for k in ids]
    assert found.to_pylist() == [
        None if each is None else {"start": each[0], "end": each[1]} for each in wanted
    ]


@given(
    windows(),
    st.integers(-(2**63), LARGEST)
    | st.integers(0, 60).map(lambda d: d - 2**63)
    | st.integers(0, 60).map(lambda d: LARGEST - d),
)
def test_what_does_not_fit_is_an_error(drawn, value):
    """Ints of Python do not overflow: what is returned is right, and what is not is at the ends."""
    window, definition = drawn
    try:
        found = window.wids(pa.array([value])).to_pylist()[0]
    except wk.Overflow:
        # Windows of these lengths that are further from the ends than this have edges that fit.
        assert abs(value) > 2**63 - 400
        found = None
    if found is not None:
        first, last = found["first"], found["last"]
        assert covers(definition(first), value)
        assert not covers(definition(first - 1), value)
        assert last == LARGEST or covers(definition(last), value)
        assert last == LARGEST or not covers(definition(last + 1), value)
    wanted = definition(value)
    try:
        (extent,) = window.extent(pa.array([value])).to_pylist()
    except wk.Overflow:
        assert any(abs(edge) >= LARGEST - 400 for edge in wanted)
    else:
        assert extent == (None if wanted is None else {"start": wanted[0], "end": wanted[1]})


EPOCH = datetime(1970, 1, 1)
MOMENTS = [
    EPOCH + timedelta(days=d, hours=h) for d, h in [(0, 0), (0, 23), (1, 0), (19_000, 7), (-1, 1), (-3, 0)]
]
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


DAYS = [(moment - EPOCH).days for moment in MOMENTS]


def per_day(kind: pa.DataType) -> int:
    """Return how many units of a type are a day."""
    if pa.types.is_date(kind):
        return 1 if kind == pa.date32() else 86_400_000
    return 86_400 * UNITS[kind.unit]


@pytest.mark.parametrize(
    "times",
    [
        *(pa.array(MOMENTS, pa.timestamp(unit)) for unit in UNITS),
        *(pa.array(MOMENTS, pa.timestamp("us")).cast(pa.timestamp(unit, "UTC")) for unit in UNITS),
        pa.array(MOMENTS, pa.timestamp("us")).cast(pa.timestamp("us", "America/New_York")),
        pa.array([moment.date() for moment in MOMENTS], pa.date32()),
        pa.array([moment.date() for moment in MOMENTS], pa.date64()),
        *(pa.array([moment - EPOCH for moment in MOMENTS], pa.duration(unit)) for unit in UNITS),
        pa.array(MOMENTS, pa.timestamp("us")).dictionary_encode(),
    ],
    ids=lambda times: str(times.type).replace(" ", ""),
)
def test_days_are_numbered_from_1970_on(times):
    """In every type; a zone changes how an instant is shown, and not when it is."""
    kind = times.type.value_type if pa.types.is_dictionary(times.type) else times.type
    for window, back in [(wk.tumbling("1 day"), 0), (wk.sliding("3 days", "1 day"), 2)]:
        assert window.wids(times).to_pylist() == [{"first": day - back, "last": day} for day in DAYS]
        extents = window.extent(pa.array(DAYS), kind)
        assert extents.type == pa.struct([("start", kind), ("end", kind)])
        for field, days in [("start", 0), ("end", back + 1)]:
            edges = extents.field(field).view(pa.int32() if kind == pa.date32() else pa.int64()).to_pylist()
            assert edges == [(day + days) * per_day(kind) for day in DAYS]


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
)
def test_integers_of_any_width(kind):
    assert wk.tumbling(10).wids(pa.array([9, 10, None], kind)).to_pylist() == [
        {"first": 0, "last": 0},
        {"first": 1, "last": 1},
        None,
    ]
    extent = wk.tumbling(10).extent(pa.array([1, None], kind), kind)
    assert extent.type.field("start").type == pa.int64()
    assert extent.to_pylist() == [{"start": 10, "end": 20}, None]


def test_whatever_has_an_arrow_interface():
    values = [12, None, -3]
    wanted = [{"first": 1, "last": 2}, None, {"first": -2, "last": -1}]
    series = pl.Series("t", values)
    chunks = pa.chunked_array(
        [pa.array([12], pa.int64()), pa.array([], pa.int64()), pa.array([None, -3], pa.int64())]
    )
    sliced = pa.array([0, *values, 0])[1:-1]
    for given_ in (pa.array(values), sliced, chunks, series, pd.Series(values, dtype="Int64")):
        assert wk.sliding(10, 5).wids(given_).to_pylist() == wanted
        assert wk.tumbling(10).extent(given_).field("start").to_pylist() == [120, None, -30]
    assert wk.sliding(10, 5).wids(pa.chunked_array([], pa.int64())).to_pylist() == []
    assert pl.Series(wk.sliding(10, 5).wids(series)).struct.field("first").to_list() == [1, None, -2]


def test_columns_of_the_struct_are_null_too():
    found = wk.band(0, 10).wids(pa.array([3, 10, None]))
    assert found.field("first").to_pylist() == [0, None, None]
    assert wk.band(0, 10).extent(pa.array([0, 1])).field("end").to_pylist() == [10, None]


@pytest.mark.parametrize(
    ("window", "kind"),
    [
        (wk.tumbling(5), pa.int64()),
        (wk.tumbling("1 hour"), pa.timestamp("us")),
        (wk.tumbling("100 nanoseconds"), pa.timestamp("ns")),
        (wk.band("2024-01-31", "2024-02-01"), pa.timestamp("us")),
        (wk.band("2024-01-31Z", "2024-02-01Z"), pa.timestamp("us", "UTC")),
        (wk.band(timedelta(0), timedelta(1)), pa.duration("us")),
        (wk.landmark("1 hour", start=timedelta(0)), pa.duration("us")),
    ],
    ids=str,
)
def test_extents_have_a_type_that_fits(window, kind):
    found = window.extent(pa.array([0]))
    assert found.type == pa.struct([("start", kind), ("end", kind)])
    assert window.wids(found.field("start")).to_pylist()[0]["first"] == 0


class Any(wk.ContextFree):
    longest = 1

    def next_edge(self, t):
        return t + 1

    def windows(self, since, until):
        return []


@pytest.mark.parametrize(
    "window",
    [samples.by_time()["session"], wk.global_window(), wk.custom(Any()), *samples.by_rows().values()],
    ids=str,
)
def test_windows_that_rows_determine_have_no_ids(window):
    for call in (lambda: window.wids(pa.array([0, 5])), lambda: window.extent(pa.array([0]))):
        with pytest.raises(wk.InvalidType, match="has no window ids") as caught:
            call()
        assert window.name in str(caught.value)


def test_errors_say_what_is_allowed():
    hours = wk.tumbling("1 hour")
    cases = [
        (lambda: hours.wids(pa.array([1.5])), wk.InvalidType, "times: their type is double; times are"),
        (lambda: hours.wids(pa.array([1])), wk.InvalidType, "size of tumbling.* is a duration"),
        (lambda: hours.wids(pa.array([date(2024, 1, 1)])), wk.InvalidValue, "finer than column 'times'"),
        (lambda: wk.tumbling(5).wids(pa.array(MOMENTS)), wk.InvalidType, "is an integer, but"),
        (lambda: hours.wids([1, 2]), wk.InvalidType, "times: a list has no Arrow interface"),
        (lambda: hours.wids(pa.table({"t": [1]})), wk.InvalidType, "times: a pyarrow Table is a table"),
        (lambda: wk.tumbling(5).wids(pa.array([2**63], pa.uint64())), wk.InvalidValue, "9223372036854775808"),
        (
            lambda: hours.extent(pa.array(["a"])),
            wk.InvalidType,
            "ids: an array of string was given; ids are integers",
        ),
        (
            lambda: hours.extent(pa.array([1]), "us"),
            wk.InvalidType,
            "time_type: 'us' is a str; it is an Arrow type",
        ),
        (lambda: hours.extent(pa.array([1]), pa.string()), wk.InvalidType, "times: their type is string"),
        (lambda: hours.extent(pa.array([2**63], pa.uint64())), wk.InvalidValue, "ids: .*9223372036854775808"),
        (lambda: wk.tumbling("1 day").extent(pa.array([2**31]), pa.date32()), wk.Overflow, "days of 32 bits"),
        (
            lambda: wk.tumbling(5).wids(pa.array([2**63 - 2])),
            wk.Overflow,
            "times: 9223372036854775806 is too far",
        ),
        (lambda: hours.extent(pa.array([2**60])), wk.Overflow, "window 1152921504606846976 of tumbling"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()


def test_ids_and_a_group_by_are_windowing():
    """As the Bucket and the Aggregate operator of Li 2008, §6.1, in Polars, against `run`."""
    table = pa.table({"k": [1, 1, 2, 1, 2], "t": [3, 17, 17, -4, 29], "v": [1, 2, 3, 4, 5]})
    for window in (wk.tumbling(10), wk.sliding(10, 3, start_time=-1), wk.band(0, 18)):
        query = wk.query(by="k", time="t", windows=window, aggs=wk.sum("v").alias("v"))
        ranges = window.wids(table["t"])
        tagged = pl.DataFrame(table).with_columns(
            id=pl.int_ranges(pl.Series(ranges.field("first")), pl.Series(ranges.field("last")) + 1)
        )
        grouped = tagged.explode("id").drop_nulls("id").group_by("k", "id").agg(pl.col("v").sum())
        starts = window.extent(grouped["id"]).to_pylist()
        found = sorted(zip(grouped["k"], (each["start"] for each in starts), grouped["v"], strict=True))
        rows = query.run(table).to_pylist()
        assert found == sorted((row["k"], row["window_start"], row["v"]) for row in rows)
