"""What users' own windows and functions see of times with a zone: the zone of the session, on every route."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, time, timedelta, timezone

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import windowkit as wk
import windowkit.spark

UTC = timezone.utc
ZONE = "America/New_York"
FIRST = 1_700_000_000
ROUTES = ["packed", "rows", None, "scan"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Half-hours of eight days, of two keys."""
    times = pa.array([(FIRST + 1800 * row) * 1_000_000 for row in range(400)], pa.timestamp("us", ZONE))
    return pa.table({"k": [row % 2 for row in range(400)], "ts": times, "seen": times})


@pytest.fixture
def answer(spark, settings, table, tmp_path):
    """Evaluate a query by a route, in a session of `ZONE`."""

    def run(query: wk.Query, route: str | None) -> list[tuple]:
        with settings({"spark.sql.session.timeZone": ZONE}):
            if route == "scan":
                pq.write_table(table, tmp_path / "rows.parquet")
                found = wk.spark.scan(spark, str(tmp_path / "rows.parquet"), query)
            else:
                found = query.run(spark.createDataFrame(table).repartition(3), route=route)
            rows = found.toArrow().to_pylist()
        return [(row["k"], row["window_start"].astimezone(UTC), row[query.columns[-1]]) for row in rows]

    return run


def local(seconds: int) -> datetime:
    """Return a time in New York, five hours behind UTC in this November."""
    return datetime.fromtimestamp(seconds, UTC) - timedelta(hours=5)


@pytest.mark.parametrize("route", ROUTES)
def test_windows_of_users_see_the_zone(answer, route):
    class OfficeHours(wk.ContextFree):
        longest = "8 hours"

        def next_edge(self, t: datetime) -> datetime:
            return min(edge for day in self.days(t, t + timedelta(days=2)) for edge in day if edge > t)

        def windows(self, since: datetime, until: datetime) -> list[tuple[datetime, datetime]]:
            return [day for day in self.days(since, until) if since < day[1] <= until]

        def days(self, since: datetime, until: datetime) -> Iterator[tuple[datetime, datetime]]:
            day = since.date() - timedelta(days=1)
            while day <= until.date() + timedelta(days=1):
                opens = datetime.combine(day, time(9), since.tzinfo)
                yield opens, opens + timedelta(hours=8)
                day += timedelta(days=1)

    query = wk.query(by="k", time="ts", windows=wk.custom(OfficeHours()), aggs=wk.count())
    wanted: dict[tuple, int] = {}
    for row in range(400):
        there = local(FIRST + 1800 * row)
        if time(9) <= there.time() < time(17):
            opens = datetime.combine(there.date(), time(14), UTC)
            wanted[row % 2, opens] = wanted.get((row % 2, opens), 0) + 1
    assert {(k, start): count for k, start, count in answer(query, route)} == wanted


@pytest.mark.parametrize("route", ROUTES)
def test_functions_of_users_see_the_zone(answer, route):
    latest = wk.aggregate(
        "latest hour",
        lift=lambda times: pc.hour(times),
        combine=lambda a, b: pc.max_element_wise(a, b),
        lower=lambda states: states,
        commutative=True,
    )
    query = wk.query(by="k", time="ts", windows=wk.tumbling("6 hours"), aggs=latest("seen"))
    wanted: dict[tuple, int] = {}
    for row in range(400):
        seconds = FIRST + 1800 * row
        place = row % 2, datetime.fromtimestamp(seconds - seconds % 21600, UTC)
        wanted[place] = max(wanted.get(place, 0), local(seconds).hour)
    assert {(k, start): hour for k, start, hour in answer(query, route)} == wanted
