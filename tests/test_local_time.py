"""Windows in local time: days, weeks, months and years of time zones, against zoneinfo, Polars and DuckDB."""

from __future__ import annotations

import dataclasses
import json
import pickle
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support import local_oracle
from support.local_oracle import DAY, SECOND, Calendar, numbered, offset_at, zone_of
from support.oracle import assert_equal, evaluate, rows_of
from windowkit.language.durations import Months
from windowkit.language.windows import parse

ZONES = [
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "America/Havana",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Europe/Lisbon",
    "Europe/Dublin",
    "Pacific/Apia",
    "Pacific/Chatham",
    "+05:45",
    "UTC",
]
# Zones change their rules, which databases of unlike age do not both know: none of these days is after 2024.
# Days of which something is unlike others in one of the zones, and some others.
PLACES = [
    date(2024, 3, 10),
    date(2024, 11, 3),
    date(2018, 11, 4),
    date(2018, 2, 18),
    date(2024, 3, 31),
    date(2011, 12, 30),
    date(2010, 11, 7),
    date(2024, 4, 7),
    date(2012, 7, 20),
    date(1970, 1, 1),
    date(1999, 12, 31),
    date(1880, 2, 29),
]
WEEKDAYS = st.none() | st.sampled_from(["monday", "thursday", "sunday"])


@st.composite
def local_windows(draw: st.DrawFn, *, zoned: bool = True, ids: bool = False) -> wk.Window:
    """Draw a window of calendar periods."""
    zone = draw(st.sampled_from(ZONES)) if zoned else None
    kind = draw(st.sampled_from(["days", "weeks", "months", "days", "landmark"]))
    few, more = draw(st.integers(1, 4)), draw(st.integers(0, 5))
    hours = draw(st.sampled_from([0, 0, 0, 2, 6, -3]))
    start = f"{hours} hours 30 minutes" if hours else None
    if kind == "landmark" and not ids:
        period = draw(st.sampled_from(["1 day", "1 week", "1 month", "1 year"]))
        everies = {
            "1 day": ["1 hour", "7 hours", "90 minutes", "1 day"],
            "1 week": ["1 day", "36 hours", "1 week"],
            "1 month": ["1 day", "10 days", "1 month", "100 hours"],
            "1 year": ["1 month", "1 quarter", "50 days"],
        }
        # Without a zone, days by hours are windows of fixed lengths.
        period = period if zone or "month" in period or "year" in period else "1 month"
        every = draw(st.sampled_from(everies[period]))
        return wk.landmark(every, period=period, zone=zone, start_time=start)
    if kind == "weeks":
        week_start = draw(WEEKDAYS)
        window = wk.sliding(f"{few + more} weeks", f"{few} weeks", zone=zone, week_start=week_start)
        return window if zone or week_start else wk.tumbling("1 month")
    if kind == "months" or zone is None:
        started = draw(st.none() | st.integers(1 - few, few - 1).map(Months)) or start
        unit = draw(st.sampled_from(["month", "quarter", "year"]))
        return wk.sliding(f"{few + more} {unit}s", f"{few} {unit}s", zone=zone, start_time=started)
    if more == 0:
        return wk.tumbling(f"{few} days", zone=zone, start_time=start)
    return wk.sliding(f"{few + more} days", f"{few} days", zone=zone, start_time=start)


def near(place: date, seconds: int) -> int:
    return ((place - date(1970, 1, 1)).days * 86_400 + seconds) * SECOND


TIMES = st.builds(near, st.sampled_from(PLACES), st.integers(-3 * 86_400, 3 * 86_400))
# Seconds around midnight and two o'clock in the zones above.
EDGES = st.builds(
    lambda place, quarter, second: near(place, quarter * 900 + second),
    st.sampled_from(PLACES),
    st.integers(-120, 120),
    st.sampled_from([-1, 0, 0, 1, 59, 60]),
)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    unit = draw(st.sampled_from(["s", "ms", "us"]))
    times = draw(st.lists(st.none() | TIMES | EDGES, max_size=25))
    per = {"s": SECOND, "ms": 10**6, "us": 10**3}[unit]
    column = pa.array([None if t is None else t // per for t in times], pa.int64())
    zone = draw(st.sampled_from(["UTC", "Asia/Tokyo", "-05:00"]))
    return pa.table(
        {
            "k": [row % 2 for row in range(len(times))],
            "t": column.cast(pa.timestamp(unit, zone)),
            "v": pa.array(range(len(times)), pa.int64()),
        }
    )


# Zones whose rules have long been the same, and days on which clocks will be set by these.
RULED = ["America/New_York", "Europe/Dublin", "Australia/Lord_Howe"]
FAR = st.builds(
    near,
    st.sampled_from([date(2093, 11, 1), date(3456, 3, 12), date(2399, 3, 25), date(9990, 10, 1)]),
    st.integers(-9 * 86_400, 9 * 86_400),
)


AGGS = [wk.count(), wk.sum("v"), wk.last("v"), wk.collect_list("v"), wk.median("v")]


def query_of(*windows: wk.Window) -> wk.Query:
    named = [window.alias(f"w{number}") for number, window in enumerate(windows)]
    return wk.query(by="k", time="t", windows=named, aggs=AGGS)


@settings(max_examples=200, deadline=None)
@given(st.lists(local_windows(), min_size=1, max_size=3), tables())
def test_batches_are_the_definition(windows: list[wk.Window], table: pa.Table) -> None:
    query = query_of(*windows)
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


@settings(max_examples=100, deadline=None)
@given(local_windows(), st.sampled_from(RULED), st.lists(FAR, min_size=1, max_size=10))
def test_rules_go_on_for_ever(window: wk.Window, zone: str, times: list[int]) -> None:
    ruled = dataclasses.replace(window, zone=zone)
    column = pa.array([t // SECOND for t in times], pa.int64()).cast(pa.timestamp("s", "UTC"))
    table = pa.table({"k": pa.nulls(len(times), pa.int64()), "t": column, "v": pa.array(range(len(times)))})
    query = query_of(ruled)
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


@settings(max_examples=100, deadline=None)
@given(
    local_windows(),
    tables(),
    st.sampled_from([wk.session("1 day"), wk.tumbling("1 hour"), wk.tumbling(rows=3)]),
)
def test_they_share_slices_with_windows_of_any_other_type(
    window: wk.Window, table: pa.Table, other: wk.Window
) -> None:
    query = query_of(window, other)
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(local_windows(zoned=False), min_size=1, max_size=2),
    st.lists(TIMES, max_size=20),
    st.sampled_from([pa.timestamp("us"), pa.timestamp("s", "Asia/Tokyo"), pa.date32(), pa.date64()]),
)
def test_without_a_zone_times_are_as_they_are(
    windows: list[wk.Window], times: list[int], kind: pa.DataType
) -> None:
    if pa.types.is_date(kind):
        dates = [(date(1970, 1, 1) + timedelta(days=t // DAY)) for t in times]
        column = pa.array(dates, kind)
        fits = [each for each in windows if all(whole(length) for length in each.lengths().values())]
        windows = fits or [wk.tumbling("1 month")]
    else:
        column = pa.array([t // 10**3 for t in times], pa.timestamp("us")).cast(kind)
        if kind.tz is not None:
            column = pa.array([t // SECOND for t in times], pa.int64()).cast(kind)
    values = pa.array(range(len(times)), pa.int64())
    table = pa.table({"k": pa.nulls(len(times), pa.int64()), "t": column, "v": values})
    query = query_of(*windows)
    assert_equal(evaluate(query, table), rows_of(query, query.run(table)))


def whole(length: Any) -> bool:
    return not isinstance(length, wk.Duration) or length.nanoseconds % DAY == 0


@settings(max_examples=60, deadline=None)
@given(st.lists(local_windows(), min_size=1, max_size=3), tables(), st.data())
def test_streams_end_with_what_a_batch_says(
    windows: list[wk.Window], table: pa.Table, data: st.DataObject
) -> None:
    """Out of order, with updates, over restarts: the last word on each window is a batch's."""
    query = query_of(*windows)
    # A lateness is at most 292 years.
    far = pa.scalar(datetime(2099, 1, 1, tzinfo=timezone.utc), table.schema.field("t").type)
    table = table.filter(pc.fill_null(pc.less(table["t"], far), True))
    op = query.operator(order="out-of-order", allowed_lateness="100000 days")
    last: dict[Any, Any] = {}
    pieces = data.draw(st.integers(1, 4))
    for at in range(pieces):
        piece = table.slice(
            at * len(table) // pieces, (at + 1) * len(table) // pieces - at * len(table) // pieces
        )
        learn(last, op.push(piece))
        known = [t for t in piece["t"].to_pylist() if t is not None]
        if known and (op.watermark is None or max(known) > op.watermark.as_py()):
            learn(last, op.advance(max(known)))
        if data.draw(st.booleans()):
            op = wk.Operator.restore(op.snapshot(), query)
    learn(last, op.close())
    assert op.late == sum(t is None for t in table["t"].to_pylist())
    wanted: dict[Any, Any] = {}
    learn(wanted, query.run(table))
    assert last == wanted


def learn(last: dict[Any, Any], result: pa.Table) -> None:
    for row in result.to_pylist():
        at = (row["k"], row.get("window_name"), row["window_start"], row["window_end"])
        last[at] = [row[each.name] for each in AGGS]


@settings(max_examples=200, deadline=None)
@given(local_windows(ids=True), st.lists(TIMES | EDGES, min_size=1, max_size=10))
def test_ids_are_numbers_of_periods(window: wk.Window, times: list[int]) -> None:
    kind = pa.timestamp("s", "UTC")
    column = pa.array([t // SECOND for t in times], pa.int64()).cast(kind)
    for t, found in zip(times, window.wids(column).to_pylist(), strict=True):
        wanted = numbered(window, t // SECOND * SECOND)
        assert list(range(found["first"], found["last"] + 1)) == [number for number, _ in wanted]
        extents = window.extent(pa.array([number for number, _ in wanted], pa.int64()), kind)
        edges = [(start // SECOND, end // SECOND) for _, (start, end) in wanted]
        starts, ends = (extents.field(name).cast(pa.int64()).to_pylist() for name in ("start", "end"))
        assert list(zip(starts, ends, strict=True)) == edges


def test_ids_count_from_1970() -> None:
    times = pa.array(
        [datetime(1970, 1, 1, tzinfo=timezone.utc), datetime(2024, 3, 10, 5, tzinfo=timezone.utc)]
    )
    for window, wanted in [
        (wk.tumbling("1 day", zone="America/New_York"), [-1, 19_792]),
        (wk.tumbling("1 month", zone="America/New_York"), [-1, 54 * 12 + 2]),
        (wk.tumbling("1 year"), [0, 54]),
        (wk.tumbling("1 week", zone="UTC"), [0, 2827]),
        (wk.landmark("1 day", period="1 month", zone="UTC"), [0, 19_792]),
    ]:
        assert [each["first"] for each in window.wids(times).to_pylist()] == wanted
    with pytest.raises(wk.InvalidType, match="has no window ids"):
        wk.landmark("1 hour", period="1 day", zone="UTC").wids(times)


UNITS = [("1 day", "1d", "day"), ("1 week", "1w", "week"), ("1 month", "1mo", "month")]
UNITS += [("1 quarter", "1q", "quarter"), ("1 year", "1y", "year")]


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"])
@pytest.mark.parametrize(("length", "every", "unit"), UNITS, ids=[unit for *_, unit in UNITS])
def test_polars_and_duckdb_agree(zone: str, length: str, every: str, unit: str) -> None:
    """Every 5 hours and some seconds of three years."""
    seconds = range(1_640_000_000, 1_740_000_000, 18_061)
    times = pa.array(seconds, pa.int64()).cast(pa.timestamp("s", "UTC")).cast(pa.timestamp("us", zone))
    table = pa.table({"t": times, "v": range(len(seconds))})
    query = wk.query(by=[], time="t", windows=wk.tumbling(length, zone=zone), aggs=wk.sum("v").alias("v"))
    found = query.run(table)
    starts = found["window_start"].cast(pa.int64()).to_pylist()
    ours = dict(zip(starts, found["v"].to_pylist(), strict=True))
    own = pl.from_arrow(table).sort("t").group_by_dynamic("t", every=every).agg(pl.col("v").sum())
    by_polars = dict(zip(own["t"].dt.epoch("us").to_list(), own["v"].to_list(), strict=True))
    assert ours == by_polars
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = '{zone}'")
    connection.register("given", table)
    rows = connection.execute(
        f"SELECT epoch_us(date_trunc('{unit}', t)), sum(v) FROM given GROUP BY 1"
    ).fetchall()
    assert ours == dict(rows)


def test_days_of_23_and_25_hours() -> None:
    zone = ZoneInfo("America/New_York")
    days = wk.tumbling("1 day", zone=zone)
    noon = [datetime(2024, month, day, 12, tzinfo=zone) for month, day in [(3, 9), (3, 10), (11, 3), (11, 4)]]
    table = pa.table({"t": pa.array(noon, pa.timestamp("s", "America/New_York"))})
    found = wk.query(by=[], time="t", windows=days, aggs=wk.count()).run(table).to_pylist()
    lengths = [each["window_end"].timestamp() - each["window_start"].timestamp() for each in found]
    assert sorted(length / 3600 for length in lengths) == [23, 24, 24, 25]
    assert {each["window_start"].hour for each in found} == {0}


@pytest.mark.parametrize(
    ("zone", "noon", "begins"),
    [
        ("America/Sao_Paulo", datetime(2018, 11, 4, 12), datetime(2018, 11, 4, 1)),
        ("Asia/Beirut", datetime(2024, 3, 31, 12), datetime(2024, 3, 31, 1)),
        ("America/Havana", datetime(2024, 11, 3, 12), datetime(2024, 11, 3, 0)),
        # Until 00:01 it was this day already, and then for 59 minutes the day before again.
        ("America/St_Johns", datetime(2010, 11, 6, 23, 30, fold=1), datetime(2010, 11, 7, 0)),
        ("America/Toronto", datetime(1919, 3, 31, 12), datetime(1919, 3, 31, 0, 30)),
    ],
)
def test_days_begin_with_the_first_time_of_the_clock(zone: str, noon: datetime, begins: datetime) -> None:
    known = ZoneInfo(zone)
    table = pa.table({"t": pa.array([noon.replace(tzinfo=known)], pa.timestamp("s", "UTC"))})
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day", zone=zone), aggs=wk.count())
    (start,) = query.run(table)["window_start"].to_pylist()
    # As instants: times that a clock shows twice are equal to none of another zone.
    assert start.astimezone(timezone.utc) == begins.replace(tzinfo=known).astimezone(timezone.utc)


def test_the_end_of_time() -> None:
    """Rules of zones go on beyond the years of Python, up to where a window would not fit."""
    zone = "America/New_York"
    days = wk.tumbling("1 day", zone=zone)
    query = wk.query(by=[], time="t", windows=days, aggs=wk.count().alias("n"))
    cycle = 146_097 * 86_400
    # Days in July and in January of 2027, and of many years later, have the same clocks.
    for second in (1_815_300_000, 1_799_500_000):
        wanted = query.run(pa.table({"t": pa.array([second]).cast(pa.timestamp("s", "UTC"))}))
        start = wanted["window_start"].cast(pa.int64())[0].as_py()
        for cycles in (1, 3, 1_000_000, -5):
            later = pa.array([second + cycles * cycle]).cast(pa.timestamp("s", "UTC"))
            found = query.run(pa.table({"t": later}))["window_start"]
            if cycles > 0:
                assert found.cast(pa.int64()).to_pylist() == [start + cycles * cycle]
            else:
                # Local mean time, as before 1883.
                assert (found.cast(pa.int64())[0].as_py() - 17_762) % 86_400 == 0
    with pytest.raises(wk.Overflow):
        query.run(pa.table({"t": pa.array([2**63 - 10]).cast(pa.timestamp("s", "UTC"))}))
    with pytest.raises(wk.Overflow):
        days.wids(pa.array([2**63 - 10]).cast(pa.timestamp("us", "UTC")))
    with pytest.raises(wk.Overflow):
        days.extent(pa.array([2**62]), pa.timestamp("us", "UTC"))


FORMS = [
    (wk.tumbling("1 day", zone="America/New_York"), "tumbling(1 day, zone=America/New_York)"),
    (
        wk.tumbling("1 week", zone="+0530", week_start="Sunday"),
        "tumbling(7 days, zone=+05:30, week_start=sunday)",
    ),
    (wk.tumbling("1 quarter"), "tumbling(3 months)"),
    (wk.tumbling("24 months", start_time="3 months"), "tumbling(2 years, start_time=3 months)"),
    (wk.tumbling("1 month", start_time="-5 days"), "tumbling(1 month, start_time=-5 days)"),
    (wk.sliding("1 week", "1 day", zone=timezone.utc), "sliding(7 days, 1 day, zone=UTC)"),
    (wk.landmark("1 hour", period="1 day", zone="UTC"), "landmark(1 hour, period=1 day, zone=UTC)"),
    (
        wk.sliding("1 year 6 months", "1 month", zone=ZoneInfo("Etc/GMT+5")).alias("of late"),
        "sliding(18 months, 1 month, zone=Etc/GMT+5) as of late",
    ),
    (wk.tumbling("1 day", zone=timezone(-timedelta(hours=3))), "tumbling(1 day, zone=-03:00)"),
]


@pytest.mark.parametrize(("window", "text"), FORMS, ids=[text for _, text in FORMS])
def test_text_forms(window: wk.Window, text: str) -> None:
    assert str(window) == text
    assert parse(text) == window
    query = wk.query(by=[], time="t", windows=parse(text), aggs=wk.count())
    assert list(query.windows) == [window]
    assert wk.Query.from_dict(json.loads(json.dumps(query.to_dict()))) == query
    assert pickle.loads(pickle.dumps(window)) == window


REFUSED = [
    (lambda: wk.tumbling("1 hour", zone="UTC"), "not a whole number of days"),
    (lambda: wk.tumbling(5, zone="UTC"), "size: 5 is an integer where zone 'UTC' is given"),
    (lambda: wk.tumbling(rows=5, zone="UTC"), "is a number of rows where zone"),
    (lambda: wk.tumbling("1 month 2 days"), "mixes months"),
    (lambda: wk.tumbling("1.5 months"), "not a whole number of months"),
    (lambda: wk.tumbling("0 months"), "not positive"),
    (lambda: wk.tumbling("99999999 years"), "at most 10,000 years"),
    (lambda: wk.tumbling("1 day", zone="New York"), "is not a time zone"),
    (lambda: wk.tumbling("1 day", zone="Mars/Olympus"), "zone: .Mars/Olympus. is not a time zone"),
    (lambda: wk.landmark("1 day", period="1 week", zone="Europe/Pariss"), "is not a time zone"),
    (lambda: wk.tumbling("1 day", zone="+19:00"), "at most 18 hours"),
    (lambda: wk.tumbling("1 day", zone=5), "zone: 5 is an int"),
    (
        lambda: wk.tumbling("1 day", week_start="monday"),
        "week_start: 'monday' is given where size is '1 day'",
    ),
    (lambda: wk.tumbling("1 week", week_start="someday"), "week_start"),
    (lambda: wk.tumbling("1 month", week_start="monday"), "week_start"),
    (lambda: wk.tumbling("1 day", zone="UTC", start_time="1 day"), "not less than size"),
    (lambda: wk.tumbling("1 month", start_time="28 days"), "months of 28 days"),
    (lambda: wk.tumbling("1 month", start_time="1 month"), "not less than size"),
    (lambda: wk.tumbling("1 month", start_time=3), "is an integer"),
    (lambda: wk.tumbling("1 day", start_time="1 month"), "start_time"),
    (lambda: wk.sliding("1 month", "1 day"), "slide: '1 day' is a duration where size 1 month"),
    (lambda: wk.sliding("1 day", "1 month", zone="UTC"), "slide"),
    (lambda: wk.sliding("1 month", "2 months"), "greater than size"),
    (lambda: wk.sliding("1 month", "5 rows"), "slide: 5 rows is a number of rows"),
    (lambda: wk.landmark("1 month", start="2024-01-01"), "begin with a period"),
    (lambda: wk.landmark("5 months", period="1 year"), "not a multiple"),
    (lambda: wk.landmark("1 month", period="1 day", zone="UTC"), "every"),
    (lambda: wk.landmark("2 days", period="1 day", zone="UTC"), "every"),
    (lambda: wk.landmark("29 days", period="1 month"), "longer than period"),
    (lambda: wk.session("1 month"), "calendar unit 'month'"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_what_has_no_meaning_is_refused(make: Any, message: str) -> None:
    with pytest.raises((wk.InvalidValue, wk.InvalidType), match=message.replace("(", r"\(")):
        make()


@pytest.mark.parametrize(
    ("window", "kind", "message"),
    [
        (wk.tumbling("1 day", zone="UTC"), pa.timestamp("s"), "taken as local time"),
        (wk.tumbling("1 day", zone="UTC"), pa.date32(), "the same in every zone"),
        (wk.tumbling("1 month"), pa.int64(), "allowed are timestamps"),
        (wk.tumbling("1 month"), pa.duration("s"), "allowed are timestamps"),
        (wk.tumbling("1 month", start_time="1 hour"), pa.date32(), "finer than"),
        (wk.tumbling("300 years"), pa.timestamp("ns"), "too long"),
        (wk.landmark("1 hour", period="1 month"), pa.date32(), "finer than"),
    ],
)
def test_columns_without_such_a_calendar_are_refused(
    window: wk.Window, kind: pa.DataType, message: str
) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    table = pa.table({"t": pa.array([1], pa.int32() if kind == pa.date32() else pa.int64()).cast(kind)})
    with pytest.raises((wk.InvalidType, wk.InvalidValue), match=message):
        query.run(table)


def test_zones_are_found_in_any_case_and_have_one_name() -> None:
    window = wk.tumbling("1 day", zone="america/NEW_york")
    assert window.zone == "America/New_York"
    assert window == wk.tumbling("1 day", zone="America/New_York")


def test_explain_names_the_calendar() -> None:
    windows = [
        wk.tumbling("1 day", zone="Asia/Tokyo", start_time="6 hours"),
        wk.tumbling("2 weeks", zone="Asia/Tokyo"),
        wk.tumbling("1 quarter"),
        wk.landmark("1 hour", period="1 day", zone="Asia/Tokyo"),
        wk.landmark("5 days", period="1 month", zone="Asia/Tokyo"),
    ]
    text = wk.query(by=[], time="t", windows=windows, aggs=wk.count()).explain()
    assert "a row is in one of them; by the calendar of Asia/Tokyo" in text
    assert "begin each day, 6 hours after midnight, by the calendar of Asia/Tokyo" in text
    assert "every 2 weeks from Monday on, by the calendar of Asia/Tokyo" in text
    assert "every 3 months from 1970-01, by the calendar of the times as they are" in text
    assert "each day, by the calendar of Asia/Tokyo, and 1 hour apart from there on" in text
    assert "each month, by the calendar of Asia/Tokyo, and 5 days apart from there on" in text


def test_explain_says_whose_days_days_are() -> None:
    query = wk.query(by=[], time="t", windows=[wk.tumbling("1 day"), wk.tumbling("1 hour")], aggs=wk.count())
    told = "days are those of UTC, not of Asia/Tokyo, unless zone='Asia/Tokyo' is given"
    schema = pa.schema([("t", pa.timestamp("us", "Asia/Tokyo"))])
    assert query.explain(schema.empty_table()).count(told) == 1
    assert "days are those" not in query.explain(pa.table({"t": pa.array([], pa.timestamp("us", "UTC"))}))
    assert "days are those" not in query.explain()


def test_snapshots_know_the_zone() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day", zone="Asia/Tokyo"), aggs=wk.count())
    other = wk.query(by=[], time="t", windows=wk.tumbling("1 day", zone="Asia/Seoul"), aggs=wk.count())
    op = query.operator()
    op.push(pa.table({"t": pa.array([1], pa.timestamp("s", "UTC"))}))
    with pytest.raises(wk.InvalidValue):
        wk.Operator.restore(op.snapshot(), other)


def test_late_rows_of_local_days() -> None:
    """A row of a day is too late once its day has expired by the clock, and not before."""
    zone = ZoneInfo("America/New_York")
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day", zone=zone), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", allowed_lateness="1 hour")

    def push(*times: datetime) -> list[int]:
        return op.push(pa.table({"t": pa.array(times, pa.timestamp("s", "UTC"))}))["n"].to_pylist()

    midnight = datetime(2024, 3, 11, tzinfo=zone)
    assert push(datetime(2024, 3, 10, 12, tzinfo=zone)) == []
    assert op.advance(midnight - timedelta(seconds=1)).num_rows == 0
    assert op.advance(midnight)["n"].to_pylist() == [1]
    op.advance(midnight + timedelta(minutes=59))
    assert push(datetime(2024, 3, 10, 0, tzinfo=zone)) == [2]
    op.advance(midnight + timedelta(minutes=60))
    assert push(datetime(2024, 3, 10, 0, tzinfo=zone)) == []
    assert op.late == 1


def test_early_results_at_shares_of_a_local_day() -> None:
    zone = ZoneInfo("America/New_York")
    query = wk.query(
        by=[],
        time="t",
        windows=wk.tumbling("1 day", zone=zone),
        aggs=wk.count().alias("n"),
        emit=wk.emit(wk.at(0.5)),
    )
    op = query.operator(order="out-of-order")
    start = datetime(2024, 3, 10, tzinfo=zone).timestamp()
    op.push(pa.table({"t": pa.array([int(start) + 60], pa.int64()).cast(pa.timestamp("s", "UTC"))}))
    half = datetime.fromtimestamp(start + 11.5 * 3600, timezone.utc)
    assert op.advance(half - timedelta(seconds=1)).num_rows == 0
    assert op.advance(half)["n"].to_pylist() == [1]


def test_the_oracle_knows_its_zones() -> None:
    assert offset_at(zone_of("America/New_York"), 1_710_054_000 - 1) == -18_000
    assert offset_at(zone_of("America/New_York"), 1_710_054_000) == -14_400
    window = wk.tumbling("1 day", zone="America/New_York")
    assert (
        Calendar(window, window.size).unit(19_793) - Calendar(window, window.size).unit(19_792)
        == 23 * 3600 * SECOND
    )
    assert local_oracle.instant("Asia/Beirut", near(date(2024, 3, 31), 0)) == near(date(2024, 3, 31), -7_200)


@pytest.mark.parametrize(
    ("zones", "shown"),
    [
        (["Europe/Paris"], "Europe/Paris"),
        (["europe/paris", "Europe/Paris"], "Europe/Paris"),
        (["+02:00"], "+02:00"),
        (["Europe/Paris", "Asia/Tokyo"], "UTC"),
        ([None], "UTC"),
        (["Europe/Paris", None], "Europe/Paris"),
    ],
    ids=str,
)
def test_windows_are_in_their_zone(zones: list[str | None], shown: str) -> None:
    """In one zone if all that have one have the same, and else in that of the column."""
    windows = [wk.tumbling("1 day", zone=zone).alias(f"w{at}") for at, zone in enumerate(zones)]
    times = pa.array([datetime(2026, 7, 1, 10, tzinfo=timezone.utc)], pa.timestamp("us", "UTC"))
    table = pa.table({"k": ["a"], "t": times})
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count())
    kind = pa.timestamp("us", shown)
    operator = query.operator(order="out-of-order")
    operator.push(table)
    for result in (query.run(table), operator.close(), query.schema(table).empty_table()):
        assert {result.schema.field(f"window_{edge}").type for edge in ("start", "end")} == {kind}
    if len(windows) == 1:
        join = wk.join(by="k", left_time="t", right_time="t", windows=windows[0])
        pair = join.run(table, table)
        assert pair.schema.field("window_start").type == kind
        midnight = datetime(2026, 7, 1, tzinfo=ZoneInfo(zones[0])) if shown == "Europe/Paris" else None
        assert midnight is None or pair["window_start"][0].as_py() == midnight
