"""Where periods of a calendar begin, found by asking Python's zoneinfo what the clock shows: slow, and plain.

Nothing here knows how windowkit looks up changes of a clock; the database is Python's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa

import windowkit as wk
from support.plain import nanoseconds_per_unit
from windowkit.language.durations import Months

EPOCH = date(1970, 1, 1)
UTC_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
SECOND = 10**9
DAY = 86_400 * SECOND
WEEKDAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]

LocalWindow = wk.Tumbling | wk.Sliding | wk.Landmark
Extent = tuple[int, int]


def zone_of(name: str | None) -> tzinfo:
    if name is None:
        return timezone.utc
    if name[0] in "+-":
        hours, minutes = name[1:].split(":")
        offset = timedelta(hours=int(hours), minutes=int(minutes))
        return timezone(-offset if name[0] == "-" else offset)
    return ZoneInfo(name)


def offset_at(zone: tzinfo, second: int) -> int:
    """Return how many seconds the clock is ahead of UTC at an instant."""
    offset = (UTC_EPOCH + timedelta(seconds=second)).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())


@lru_cache(maxsize=100_000)
def segments(name: str | None, day: int) -> tuple[tuple[int, int, int], ...]:
    """Return the stretches without a change of the clock from three days before a day to three after it.

    Each is its start, its end and the offset.
    """
    zone = zone_of(name)
    low, high = (day - 3) * 86_400, (day + 4) * 86_400
    found, at = [], low
    while at < high:
        offset, until = offset_at(zone, at), at
        while until < high and offset_at(zone, until + 3600) == offset:
            until += 3600
        if until < high:
            # The change is within the hour after `until`: to the second.
            before, after = until, until + 3600
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if offset_at(zone, middle) == offset else (before, middle)
            until = after
        found.append((at, until, offset))
        at = until
    return tuple(found)


@lru_cache(maxsize=100_000)
def instant(name: str | None, local: int) -> int:
    """Return the first instant at which the clock shows a local time or a later one, both in nanoseconds."""
    for start, end, offset in segments(name, local // DAY):
        first = max(start * SECOND, local - offset * SECOND)
        if first < end * SECOND:
            return first
    raise AssertionError("the clock never shows it")


class Calendar:
    """The periods of a window."""

    def __init__(self, window: LocalWindow, length: wk.Duration | Months) -> None:
        self.zone, self.months = window.zone, isinstance(length, Months)
        self.count = length.months if isinstance(length, Months) else length.nanoseconds // DAY
        self.first, self.late = 0, 0
        if not self.months and self.count % 7 == 0:
            # The week that 1970-01-01, a Thursday, is in.
            begins = WEEKDAYS.index(window.week_start or "monday")
            self.first = -((EPOCH.weekday() - begins) % 7)
        if isinstance(window.start_time, Months):
            self.first = window.start_time.months
        elif isinstance(window.start_time, wk.Duration):
            self.late = window.start_time.nanoseconds

    def unit(self, number: int) -> int:
        """Return where a day or month begins."""
        day = EPOCH + timedelta(days=number)
        if self.months:
            day = date(1970 + number // 12, number % 12 + 1, 1)
        return instant(self.zone, (day - EPOCH).days * DAY + self.late)

    def near(self, time: int) -> int:
        """Return the number of a unit near a time."""
        day = EPOCH + timedelta(days=time // DAY)
        return (day.year - 1970) * 12 + day.month - 1 if self.months else (day - EPOCH).days

    def containing(self, time: int, size: int) -> Iterator[tuple[int, Extent]]:
        """Yield windows of so many units, by number, that contain a time."""
        near = (self.near(time) - self.first) // self.count
        reach = size // self.count + abs(self.late) // DAY + 3
        for number in range(near - reach, near + reach):
            unit = self.first + number * self.count
            start, end = self.unit(unit), self.unit(unit + size)
            if start <= time < end:
                yield number, (start, end)


def units(length: wk.Duration | Months) -> int:
    return length.months if isinstance(length, Months) else length.nanoseconds // DAY


@lru_cache(maxsize=100_000)
def numbered(window: wk.Tumbling | wk.Sliding, time: int) -> tuple[tuple[int, Extent], ...]:
    """Return ids and extents, in nanoseconds, of the windows that contain a time."""
    slide = window.slide if isinstance(window, wk.Sliding) else window.size
    return tuple(Calendar(window, slide).containing(time, units(window.size)))


@lru_cache(maxsize=100_000)
def landmark(window: wk.Landmark, time: int) -> Extent:
    """Return the first window to end after a time."""
    calendar = Calendar(window, window.period)
    ((_, (start, last)),) = calendar.containing(time, calendar.count)
    ends: Iterable[int]
    if isinstance(window.every, Months) or (not calendar.months and window.every.nanoseconds % DAY == 0):
        inner = Calendar(window, window.every)
        near = calendar.near(start)
        reach = calendar.count + abs(calendar.late) // DAY + 3
        aligned = (
            unit for unit in range(near - 3, near + reach) if (unit - calendar.first) % inner.count == 0
        )
        ends = map(calendar.unit, aligned)
    elif window.every.nanoseconds % DAY == 0:
        days = Calendar(window, wk.Duration(DAY))
        days.late, offset = calendar.late % DAY, window.every.nanoseconds // DAY
        first = next(number for number, (begin, _) in days.containing(start, 1) if begin == start)
        ends = [days.unit(day) for day in range(first + offset, first + 40 * calendar.count, offset)]
    else:
        every = window.every.nanoseconds
        ends = [start + ((time - start) // every + 1) * every]
    return start, min([end for end in ends if end > time] + [last])


def last_end(window: wk.Landmark, time: int, kind: pa.DataType) -> int:
    """Return where the last window of a landmark ends, in units of the column."""
    per, calendar = nanoseconds_per_unit(kind), Calendar(window, window.period)
    ((_, (_, last)),) = calendar.containing(time * per, calendar.count)
    return last // per


def extents(window: LocalWindow, times: Iterable[int], kind: pa.DataType) -> set[Extent]:
    """Return the windows that contain one of some times, in units of the column."""
    per = nanoseconds_per_unit(kind)
    found: set[Extent] = set()
    for time in times:
        if isinstance(window, wk.Landmark):
            found.add(landmark(window, time * per))
        else:
            found.update(extent for _, extent in numbered(window, time * per))
    return {(start // per, end // per) for start, end in found}


def edges(window: LocalWindow, times: Iterable[int], kind: pa.DataType) -> set[int]:
    """Return starts and ends of the windows near some times, in units of the column."""
    per, found = nanoseconds_per_unit(kind), set[int]()
    for time in times:
        if isinstance(window, wk.Landmark):
            start, end = landmark(window, time * per)
            last = last_end(window, time, kind) * per
            found |= {start, end, last, landmark(window, last)[1]}
            # The edge before the row.
            low, high = start, time * per
            if isinstance(window.every, wk.Duration) and window.every.nanoseconds % DAY:
                low = high = high - (high - start) % window.every.nanoseconds
            while low < high:
                # Whatever lies after that edge has the same next one.
                middle = (low + high) // 2
                low, high = (low, middle) if landmark(window, middle)[1] == end else (middle + 1, high)
            found.add(low)
            continue
        slide = window.slide if isinstance(window, wk.Sliding) else window.size
        calendar, size = Calendar(window, slide), units(window.size)
        near = (calendar.near(time * per) - calendar.first) // calendar.count
        reach = size // calendar.count + 3
        for number in range(near - reach, near + reach):
            unit = calendar.first + number * calendar.count
            found |= {calendar.unit(unit), calendar.unit(unit + size)}
    return {edge // per for edge in found}
