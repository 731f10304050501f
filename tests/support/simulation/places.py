"""Where on the line of time rows are: near its zero, or where the clocks of a zone change."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.plain import UNIT_NANOSECONDS
from support.streams import TIMES, scaled

CHANGES = [
    # An hour is left out, or comes twice, and the day begins an hour late, or twice.
    ("America/New_York", datetime(2024, 3, 10, 7)),
    ("America/New_York", datetime(2024, 11, 3, 6)),
    ("America/Sao_Paulo", datetime(2018, 11, 4, 3)),
    ("America/Sao_Paulo", datetime(2018, 2, 18, 2)),
    ("America/Havana", datetime(2024, 11, 3, 5)),
    ("Asia/Beirut", datetime(2024, 3, 30, 22)),
    ("Europe/Berlin", datetime(2024, 3, 31, 1)),
    ("Europe/Lisbon", datetime(2024, 10, 27, 1)),
    # Half an hour, and a whole day.
    ("Australia/Lord_Howe", datetime(2024, 4, 6, 15)),
    ("Pacific/Apia", datetime(2011, 12, 30, 10)),
]
"""Zones, and when in UTC their clocks change."""
EVERY = {
    "1 day": ["1 hour", "7 hours", "90 minutes", "1 day"],
    "1 week": ["1 day", "36 hours", "1 week"],
    "1 month": ["1 day", "10 days", "1 month"],
}
"""By the period of a landmark: which parts of it are counted on."""


class Place(NamedTuple):
    """A type of times, and where they are."""

    kind: pa.DataType
    begins: int = 0
    """In units of the column."""
    pace: int = 1
    """How many of these are one of the simulation's."""
    zone: str | None = None
    """Whose clocks change there."""

    def length(self, units: int) -> Any:
        """Return a length of so many units of the simulation."""
        return scaled(units * self.pace, self.kind)

    def time(self, units: int) -> int:
        """Return the time, in units of the column, so many of the simulation's after the beginning."""
        return self.begins + units * self.pace


@st.composite
def any_place(draw: st.DrawFn) -> Place:
    if draw(st.sampled_from([False] * 5 + [True])):
        zone, change = draw(st.sampled_from(CHANGES))
        unit = draw(st.sampled_from(["s", "us"]))
        second = 10**9 // UNIT_NANOSECONDS[unit]
        at = int(change.replace(tzinfo=timezone.utc).timestamp())
        kind = pa.timestamp(unit, draw(st.sampled_from(["UTC", zone])))
        return Place(kind, at * second, draw(st.sampled_from([600, 1800, 3600])) * second, zone)
    return Place(draw(st.sampled_from(TIMES)))


def clock_window(draw: st.DrawFn, place: Place) -> wk.Window:
    """Draw a window by the clock of a zone."""
    zone = place.zone
    few, more = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    start = draw(st.sampled_from([None, None, None, "30 minutes", "2 hours 30 minutes", "-3 hours"]))
    match draw(
        st.sampled_from(["days", "days", "weeks", "months", "landmark", "landmark", "hours", "session"])
    ):
        case "days":
            return wk.sliding(f"{few + more} days", f"{few} days", zone=zone, start_time=start)
        case "weeks":
            return wk.tumbling(f"{few} weeks", zone=zone, week_start=draw(st.sampled_from([None, "sunday"])))
        case "months":
            return wk.tumbling("1 month", zone=zone, start_time=start)
        case "landmark":
            period = draw(st.sampled_from(sorted(EVERY)))
            every = draw(st.sampled_from(EVERY[period]))
            return wk.landmark(every, period=period, zone=zone, start_time=start)
        case "hours":
            return wk.sliding(place.length(few * 10), place.length(few * 5))
    return wk.session(place.length(few * 4))
