"""The days on which windows begin, against their numbers as Python's zoneinfo counts them."""

from __future__ import annotations

from collections import Counter
from datetime import date, datetime, timedelta, timezone
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.local_oracle import DAY, EPOCH, SECOND, Calendar, numbered
from windowkit.language.durations import Months

# Clocks were set from one side of midnight to the other, a day was skipped, and there are half hours.
ZONES = [
    None,
    "America/Havana",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Europe/Paris",
    "Pacific/Apia",
    "+05:45",
]
PLACES = [
    date(2024, 3, 10),
    date(2024, 3, 31),
    date(2018, 11, 4),
    date(2018, 2, 18),
    date(2011, 12, 30),
    date(2010, 11, 7),
    date(1970, 1, 1),
    date(1880, 2, 29),
]


@st.composite
def daily_windows(draw: st.DrawFn) -> wk.Tumbling | wk.Sliding:
    """Draw windows of days, weeks, months or years, that begin at any time of the day."""
    zone = draw(st.sampled_from(ZONES))
    hours = draw(st.sampled_from([0, 0, 0, 6, 12, 23, -3]))
    unit = draw(st.sampled_from(["day", "day", "week", "month", "quarter", "year"]))
    slide, more = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    start = f"{hours} hours 30 minutes" if hours else None
    if more:
        return wk.sliding(f"{slide + more} {unit}s", f"{slide} {unit}s", zone=zone, start_time=start)
    return wk.tumbling(f"{slide} {unit}s", zone=zone, start_time=start)


@st.composite
def rows(draw: st.DrawFn) -> pa.Table:
    seconds = st.integers(-400_000, 400_000)
    places = st.sampled_from(PLACES).map(lambda place: (place - EPOCH).days * 86_400)
    times = draw(st.lists(st.builds(lambda place, second: place + second, places, seconds), max_size=12))
    unit = draw(st.sampled_from(["s", "ms", "us"]))
    zone = draw(st.sampled_from(["UTC", "Asia/Tokyo", "America/New_York"]))
    column = pa.array(times, pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    return pa.table({"k": [at % 2 for at in range(len(times))], "t": column})


def days_of(window: wk.Tumbling | wk.Sliding, second: int) -> list[date]:
    """Return the days on which the windows of a time begin; the next day, where one was skipped."""
    slide = window.slide if isinstance(window, wk.Sliding) else window.size
    calendar, found = Calendar(localised(window), slide), []
    for number, _ in numbered(localised(window), second * SECOND):
        unit = calendar.first + number * calendar.count
        day = unit
        if isinstance(slide, Months):
            day = (date(1970 + unit // 12, unit % 12 + 1, 1) - EPOCH).days
        day += calendar.late // DAY
        skipped = window.zone == "Pacific/Apia" and EPOCH + timedelta(days=day) == date(2011, 12, 30)
        found.append(EPOCH + timedelta(days=day + skipped))
    return found


def localised(window: wk.Tumbling | wk.Sliding) -> Any:
    """Return the windows as periods of a calendar; without a zone, weeks of UTC begin on Thursdays."""
    if window.zone is not None or window.is_local:
        return window
    given = {"zone": "UTC", "start_time": window.start_time and str(window.start_time)}
    lengths = [window.size, window.slide] if isinstance(window, wk.Sliding) else [window.size]
    weekly = all(isinstance(each, wk.Duration) and each.nanoseconds % (7 * DAY) == 0 for each in lengths[-1:])
    make = wk.sliding if isinstance(window, wk.Sliding) else wk.tumbling
    return make(*map(str, lengths), **given, **({"week_start": "thursday"} if weekly else {}))


@given(daily_windows(), rows())
@settings(deadline=None, max_examples=150)
def test_a_window_has_the_day_on_which_it_begins(window: wk.Tumbling | wk.Sliding, table: pa.Table) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=wk.count().alias("n"), window_columns="date")
    seconds = table["t"].cast(pa.timestamp("s", table.schema.field("t").type.tz)).cast(pa.int64()).to_pylist()
    expected = Counter(
        (key, day)
        for key, second in zip(table["k"].to_pylist(), seconds, strict=True)
        for day in days_of(window, second)
    )
    result = query.run(table)
    assert result.schema == query.schema(table)
    assert result.schema.field("window_date").type == pa.date32()
    operator = query.operator(order="out-of-order", schema=table.schema)
    operator.push(table)
    batches = pa.Table.from_batches(query.batches(table), query.schema(table))
    for made in (result, batches, operator.close()):
        found: Counter[Any] = Counter()
        for row in made.to_pylist():
            found[row["k"], row["window_date"]] += row["n"]
        assert found == expected


CONDITIONS = [
    "window_date = '2024-03-10'",
    "window_date >= date '2024-03-10' and k = 0",
    "window_date < '2018-11-04'",
    "window_date between '2011-12-29' and date '2018-03-01'",
    "window_date in ('2010-11-07', '1970-01-01') or n > 2",
    "not window_date <= '2011-12-31'",
]


@given(daily_windows(), rows(), st.sampled_from(CONDITIONS))
@settings(deadline=None, max_examples=150)
def test_conditions_on_days(window: wk.Tumbling | wk.Sliding, table: pa.Table, where: str) -> None:
    """Rows that are left out change nothing; DuckDB evaluates the condition of the whole result."""
    query = wk.query(by="k", time="t", windows=window, aggs=wk.count().alias("n"), window_columns="date")
    made = query.run(table)
    expected = duckdb.from_arrow(made).filter(where).fetchall()
    found = query.run(table, where=where)
    assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(expected)


def test_conditions_on_days_leave_rows_out() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.count(), window_columns="date")
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC")})
    explained = query.explain(schema, where="window_date >= '2026-07-01' and window_date < '2026-08-01'")
    assert (
        "of rows, before anything else: t >= '2026-07-01' - 2 days and t < '2026-08-01' + 4 days" in explained
    )


@pytest.mark.parametrize("kind", [pa.timestamp("ns"), pa.timestamp("s"), pa.date32(), pa.date64()], ids=str)
def test_times_without_a_zone(kind: pa.DataType) -> None:
    """Days are those of their clocks, also before 1970."""
    days = [date(1969, 12, 31), date(1970, 1, 1), date(2026, 7, 1)]
    table = pa.table({"t": pa.array(days).cast(kind)})
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count(), window_columns="date")
    assert query.run(table)["window_date"].to_pylist() == days


def test_frames_of_pandas_and_polars() -> None:
    times = [datetime(2026, 7, 1, 22, 30, tzinfo=timezone.utc), datetime(2026, 7, 3, tzinfo=timezone.utc)]
    frame = polars.DataFrame({"t": times})
    windows = wk.tumbling("1 day", zone="Europe/Paris")
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count(), window_columns="date")
    expected = [date(2026, 7, 2), date(2026, 7, 3)]
    assert query.run(frame)["window_date"].to_list() == expected
    assert query.run(frame).schema["window_date"] == polars.Date
    assert query.run(frame.to_pandas())["window_date"].tolist() == expected


def test_windows_without_rows_have_their_days() -> None:
    table = pa.table(
        {"t": pa.array([datetime(2026, 3, 28), datetime(2026, 3, 31)], pa.timestamp("us", "UTC"))}
    )
    windows = wk.tumbling("1 day", zone="Europe/Paris")
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count(), fill="zero", window_columns="date")
    assert query.run(table)["window_date"].to_pylist() == [date(2026, 3, day) for day in range(28, 32)]


def test_withdrawn_windows_have_no_day() -> None:
    """A column that may be null says so."""
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count(), window_columns="date")
    schema = pa.schema({"t": pa.timestamp("us")})
    early = query.operator(schema=schema, emit=wk.emit(early=wk.rows(1), refinement="retracting"))
    first = early.push(pa.table({"t": pa.array([datetime(2026, 7, 1)], pa.timestamp("us"))}))
    second = early.push(pa.table({"t": pa.array([datetime(2026, 7, 1)], pa.timestamp("us"))}))
    assert first["window_date"].to_pylist() == [date(2026, 7, 1)]
    assert pc.sum(second["weight"]).as_py() == 0
    assert set(second["window_date"].to_pylist()) == {date(2026, 7, 1)}


@pytest.mark.parametrize(
    "windows",
    [
        wk.tumbling("36 hours"),
        wk.tumbling("1 hour"),
        wk.tumbling(10),
        wk.tumbling(rows=3),
        wk.sliding("1 day", "1 hour"),
        wk.sliding("3 rows", "1 day"),
        wk.sliding("1 day", "2 rows"),
        wk.session("1 day"),
        wk.landmark("1 day", period="1 month", zone="Europe/Paris"),
        [wk.tumbling("1 day"), wk.session("1 day")],
    ],
    ids=str,
)
def test_windows_that_do_not_begin_on_days_of_their_own(windows: Any) -> None:
    with pytest.raises(wk.InvalidValue, match=r"window_columns: 'date' is given, and .* do not each"):
        wk.query(by=[], time="t", windows=windows, aggs=wk.count(), window_columns="date")


@pytest.mark.parametrize(
    "other",
    [
        wk.tumbling("1 week"),
        wk.tumbling("1 day", zone="Asia/Tokyo"),
        wk.tumbling("1 month", zone="Europe/Paris", start_time="6 hours"),
    ],
    ids=str,
)
def test_days_of_unlike_clocks(other: wk.Tumbling) -> None:
    paris = wk.tumbling("1 day", zone="Europe/Paris")
    with pytest.raises(wk.InvalidValue, match=r"window_columns: 'date' is given for .* of Europe/Paris, and"):
        wk.query(by=[], time="t", windows=[paris, other], aggs=wk.count(), window_columns="date")
    of_days, of_others = (
        wk.query(by=[], time="t", windows=each, aggs=wk.count(), window_columns="date")
        for each in (paris, other)
    )
    with pytest.raises(wk.InvalidValue, match="query: 'date' is given for"):
        of_days.operator().add(of_others)


def test_days_of_one_zone_and_several_lengths() -> None:
    windows = [wk.tumbling("1 day", zone="Europe/Paris"), wk.tumbling("1 month", zone="Europe/Paris")]
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count().alias("n"), window_columns="date")
    table = pa.table({"t": pa.array([datetime(2026, 6, 30, 22, 30)], pa.timestamp("us", "UTC"))})
    assert query.columns == ["window_name", "window_date", "n"]
    assert query.run(table)["window_date"].to_pylist() == [date(2026, 7, 1)] * 2
