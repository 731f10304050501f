"""Joins, compared with the definition evaluated naively, and with DuckDB."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support.joins import (
    KINDS,
    Case,
    cases,
    extents_of,
    joined,
    joined_by_windows,
    numbers,
    of_windows,
    plain,
    windowed,
)


@given(case=cases(), threads=st.integers(1, 3))
def test_a_join_is_its_definition_in_the_documented_order(case: Case, threads: int) -> None:
    result = case.join.run(case.left, case.right, threads=threads)
    expected = joined(*case.rows, case.how, case.band)
    assert numbers(result) == [(own, other) for own, other, _ in expected]
    assert result.schema == case.join.schema(case.left.schema, case.right.schema)
    result.validate(full=True)


@given(case=windowed(), threads=st.integers(1, 2))
def test_a_join_by_windows_is_its_definition_in_the_documented_order(case: tuple, threads: int) -> None:
    left, right, window, extents, how = case
    join = of_windows(window, how)
    result = join.run(left, right, threads=threads)
    sides = plain(left, "k", "t", 1), plain(right, "q", "u", 1)
    expected = joined_by_windows(*sides, how, extents)
    found = [(*pair, extent) for pair, extent in zip(numbers(result), extents_of(result), strict=True)]
    assert found == by_window(expected, sides[1])
    assert result.schema == join.schema(left, right)
    result.validate(full=True)


def by_window(expected: list, right: list) -> list:
    """Return the rows of the oracle in the documented order: left rows, windows, times on the right."""
    rest = [row for row in expected if row[0] is None]
    pairs = [row for row in expected if row[0] is not None]

    def place(row: tuple) -> tuple:
        own, other, extent = row
        return own, extent or (0, 0), (0, 0) if other is None else (right[other][1], other)

    return sorted(pairs, key=place) + sorted(rest, key=lambda row: (row[1], row[2] or (0, 0)))


@pytest.mark.parametrize(
    "windows",
    [
        wk.landmark(every="10 minutes", period="1 hour"),
        wk.band("1970-01-01", "1970-01-02"),
        wk.tumbling("1 month"),
        wk.sliding("2 days", "1 day", zone="Europe/Berlin"),
    ],
    ids=str,
)
def test_windows_of_other_types(windows: wk.Window) -> None:
    rng = np.random.default_rng(5)

    kind = pa.timestamp("s", "UTC" if "zone" in str(windows) else None)

    def side(name: str) -> pa.Table:
        return pa.table({"t": pa.array(rng.integers(-9000, 9000, 60), kind), name: range(60)})

    left, right = side("left"), side("right")
    join = wk.join(by=[], left_time="t", right_time="t", windows=windows, right_columns="right")
    ids = [windows.wids(table["t"]).to_pylist() for table in (left, right)]
    ranges = [
        [() if each is None else range(each["first"], each["last"] + 1) for each in side] for side in ids
    ]
    expected = Counter(
        (own, other)
        for own, wids in enumerate(ranges[0])
        for other, others in enumerate(ranges[1])
        for wid in wids
        if wid in others
    )
    result = join.run(left, right)
    assert Counter(numbers(result)) == expected
    for row in result.to_pylist():
        assert row["window_start"] <= row["t"] < row["window_end"]


class Nights(wk.ContextFree):
    """From ten in the evening to six, in the zone of the column."""

    longest = "9 hours"

    def next_edge(self, t: datetime) -> datetime:
        """Return the next evening or morning."""
        return min(edge for night in self.around(t, t) for edge in night if edge > t)

    def windows(self, since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
        """Return the nights that end in a stretch."""
        return [night for night in self.around(since, until) if since < night[1] <= until]

    def around(self, since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
        """Return the nights from a day before a stretch to a day after it."""
        days = range(since.toordinal() - 2, until.toordinal() + 3)
        first = [datetime.fromordinal(day).replace(hour=22, tzinfo=since.tzinfo) for day in days]
        return [(evening, (evening + timedelta(days=1)).replace(hour=6)) for evening in first]


def test_windows_of_a_definition_are_those_of_the_zone() -> None:
    kind = pa.timestamp("s", "Europe/Berlin")
    hours = [
        datetime(2026, 3, 28, 12, tzinfo=timezone.utc) + timedelta(minutes=30 * step) for step in range(96)
    ]
    side = pa.table({"t": pa.array(hours, kind), "row": range(96)})
    join = wk.join(by=[], left_time="t", right_time="t", windows=wk.custom(Nights()), right_columns="row")
    result = join.run(side, side, result="pyarrow")

    def night(time: datetime) -> date | None:
        local = time.astimezone(ZoneInfo("Europe/Berlin"))
        return None if 6 <= local.hour < 22 else (local - timedelta(hours=7)).date()

    nights = [night(time) for time in hours]
    pairs = {(a, b) for a in range(96) for b in range(96) if nights[a] is not None and nights[a] == nights[b]}
    assert sorted(zip(result["row"].to_pylist(), result["row_right"].to_pylist(), strict=True)) == sorted(
        pairs
    )
    lengths = {row["window_end"].timestamp() - row["window_start"].timestamp() for row in result.to_pylist()}
    assert lengths == {7 * 3600, 8 * 3600}, "on the second night clocks go forward"


@dataclass(frozen=True)
class Given(wk.ContextFree):
    """Some windows."""

    all: tuple[tuple[int, int], ...]
    longest = 100

    def next_edge(self, t: int) -> int:
        """Return the next of their edges."""
        return min((edge for window in self.all for edge in window if edge > t), default=t + 10**6)

    def windows(self, since: int, until: int) -> list[tuple[int, int]]:
        """Return those that end in a stretch."""
        return [window for window in self.all if since < window[1] <= until]


def test_windows_of_a_definition_that_cannot_be_joined_are_refused() -> None:
    side = pa.table({"t": [0, 5, 12, 30]})

    def joined(*windows: tuple[int, int], how: str = "inner") -> pa.Table:
        of = wk.custom(Given(windows))
        return wk.join(by=[], left_time="t", right_time="t", windows=of, how=how).run(side, side)

    for pair in (((0, 20), (10, 15)), ((0, 20), (10, 20))):
        with pytest.raises(
            wk.InvalidValue, match=r"windows: custom\(Given\) has \[.* one contains the other"
        ):
            joined(*pair)
    # Those that grow from one start are in order.
    counts = Counter(row["t"] for row in joined((0, 6), (0, 13)).to_pylist())
    assert counts == {0: 2 + 3, 5: 2 + 3, 12: 3}
    assert [row["t"] for row in joined(how="anti").to_pylist()] == [0, 5, 12, 30]
    with pytest.raises(wk.InvalidValue, match=r"custom\(Given\): windows\(.* has \[0, 200\)"):
        joined((0, 200))
    with pytest.raises(wk.InvalidType, match=r"it is one window such as windowkit\.custom\(\.\.\.\) of that"):
        wk.join(by=[], left_time="t", right_time="t", windows=Given(()))  # type: ignore[arg-type]
    days = pa.table({"t": pa.array([datetime(2026, 5, 1)], pa.timestamp("us"))})
    with pytest.raises(wk.InvalidValue, match=r"is 2000-01-01T00:00:00; the next edge must be after"):
        wk.join(by=[], left_time="t", right_time="t", windows=wk.custom(Standing())).run(days, days)


class Standing(wk.ContextFree):
    """No edge follows another."""

    longest = "1 day"

    def next_edge(self, t: datetime) -> datetime:
        """Return a time that is not after another."""
        return datetime(2000, 1, 1)

    def windows(self, since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
        """Return none."""
        return []


def tables(seed: int, rows: int) -> tuple[pa.Table, pa.Table]:
    rng = np.random.default_rng(seed)

    def side(number: str) -> pa.Table:
        keys = pa.array(rng.integers(0, 40, rows).astype(float), mask=rng.random(rows) < 0.02)
        keys = pa.compute.if_else(pa.compute.equal(keys, 7), float("nan"), keys)
        times = pa.array(rng.integers(0, 3000, rows), mask=rng.random(rows) < 0.02)
        return pa.table({"k": keys, "t": times.cast(pa.timestamp("ms")), number: range(rows)})

    return side("left"), side("right")


SQL = {
    "inner": "SELECT l.left, r.right FROM l JOIN r ON {}",
    "left": "SELECT l.left, r.right FROM l LEFT JOIN r ON {}",
    "right": "SELECT l.left, r.right FROM l RIGHT JOIN r ON {}",
    "full": "SELECT l.left, r.right FROM l FULL JOIN r ON {}",
    "semi": "SELECT l.left, NULL FROM l SEMI JOIN r ON {}",
    "anti": "SELECT l.left, NULL FROM l ANTI JOIN r ON {}",
}


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_band_join_is_that_of_duckdb(how: str, threads: int) -> None:
    left, right = tables(1, 4000)
    join = wk.join(
        by="k",
        left_time="t",
        right_time="t",
        within=("20 milliseconds", "35 milliseconds"),
        closed="left",
        how=how,
    )
    result = join.run(left, right, threads=threads)
    near = "l.k = r.k AND r.t >= l.t - INTERVAL 20 MILLISECOND AND r.t < l.t + INTERVAL 35 MILLISECOND"
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        expected = connection.execute(SQL[how].format(near)).fetchall()
    assert Counter(numbers(result)) == Counter(expected)
    assert len(expected) > 50


@pytest.mark.parametrize("how", KINDS)
def test_a_join_by_windows_is_that_of_duckdb(how: str) -> None:
    left, right = tables(2, 1500)
    join = wk.join(
        by="k",
        left_time="t",
        right_time="t",
        windows=wk.sliding("40 milliseconds", "10 milliseconds"),
        how=how,
    )
    result = join.run(left, right)
    exploded = (
        "SELECT *, unnest(range((ms // 10 - 3) * 10, (ms // 10) * 10 + 1, 10)) AS w FROM {0} "
        "WHERE ms IS NOT NULL UNION ALL SELECT *, NULL FROM {0} WHERE ms IS NULL"
    )
    select = SQL[how].format("l.k = r.k AND l.w = r.w")
    window = "l.w" if how in ("semi", "anti") else "coalesce(l.w, r.w)"
    select = select.replace(" FROM", f", {window} FROM", 1)
    with duckdb.connect() as connection:
        # Times as numbers: epoch_ms of DuckDB 2.0.1 fails on timestamps of milliseconds.
        for name, side in (("left_side", left), ("right_side", right)):
            connection.register(name, side.append_column("ms", side["t"].cast(pa.int64())))
        expected = connection.execute(
            f"WITH l AS ({exploded.format('left_side')}), r AS ({exploded.format('right_side')}) {select}"
        ).fetchall()
    starts = result["window_start"].cast(pa.int64()).to_pylist()
    found = Counter((*pair, start) for pair, start in zip(numbers(result), starts, strict=True))
    assert found == Counter(expected)
