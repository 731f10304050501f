"""Lengths that are periods of a calendar: days and weeks of a time zone, months, quarters and years."""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass, field
from datetime import timedelta, timezone, tzinfo
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, one_of
from windowkit.language.durations import Duration, Months, Period
from windowkit.language.engines import process
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.windows.base import Window, kind_of, shown, units

__all__ = ["WEEKDAYS", "Localised", "ZoneLike", "checked_week_start", "checked_zone", "days_of_utc"]

DAY: Final = NANOSECONDS["day"]
WEEK: Final = NANOSECONDS["week"]
SHORTEST_MONTH: Final = 28 * DAY
LONGEST_MONTH: Final = 31 * DAY
Weekday: TypeAlias = Literal["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
"""The day with which weeks begin."""

WEEKDAYS: Final[tuple[Weekday, ...]] = (
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
)
OFFSET: Final = re.compile(r"(?P<sign>[+-])(?P<hours>\d\d)(?::?(?P<minutes>\d\d))?", re.ASCII)
NAME: Final = re.compile(r"[A-Za-z][\w+/-]*", re.ASCII)
ALLOWED: Final = (
    "a zone is a name of the tz database like 'America/New_York', an offset like '+02:00', or a tzinfo of "
    "zoneinfo or datetime"
)

ZoneLike: TypeAlias = str | tzinfo
"""What a user may give for a time zone."""


@dataclass(frozen=True, repr=False)
class Localised(Window):
    """Base of windows whose lengths may be periods of a calendar."""

    zone: str | None = field(default=None, kw_only=True)
    week_start: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self.check()
        if not units(self.lengths()["start_time"]):
            # As by default: what is equal has one text, which checkpoints and snapshots are known by.
            object.__setattr__(self, "start_time", None)

    @abstractmethod
    def check(self) -> None:
        """Refuse lengths that are no windows."""

    @property
    def is_local(self) -> bool:
        """Whether its lengths are periods of a calendar, such as days of a time zone, or months."""
        months = any(isinstance(each, Months) for each in self.lengths().values())
        return months or self.zone is not None or self.week_start is not None

    @property
    def local_zone(self) -> str | None:
        """The time zone whose periods its lengths are, where one is given."""
        return self.zone

    def longest_period(self, period: Period) -> int:
        """Return how long a period is at most; clocks are never set by two days, whatever zones did."""
        most = units(period) * (LONGEST_MONTH if isinstance(period, Months) else 1)
        return most + 2 * DAY if self.is_local else most

    def shift_of_days(self, distance: Period, start_time: Period | None) -> int | None:
        """Return how long after midnight windows at this distance begin; None if not each on another day."""
        is_daily = isinstance(distance, Duration) and distance.nanoseconds % DAY == 0
        if not is_daily and not isinstance(distance, Months):
            return None
        return start_time.nanoseconds % DAY if isinstance(start_time, Duration) else 0

    def calendar_arguments(self) -> list[str]:
        """Return the last arguments of a text form."""
        named = {"zone": self.zone, "week_start": self.week_start}
        return [f"{name}={value}" for name, value in named.items() if value is not None]

    def require_periods(self, argument: str, measure: Period) -> None:
        """Refuse what is not a number of days or months where periods are meant."""
        given = self.given()
        if not isinstance(measure, Duration | Months):
            raise InvalidType(
                f"{argument}: {shown(measure)} is {kind_of(measure)} where {given}; {argument} is a number "
                "of days, weeks, months, quarters or years"
            )
        if isinstance(measure, Duration) and measure.nanoseconds % DAY:
            raise InvalidValue(
                f"{argument}: {shown(measure)} is not a whole number of days where {given}; hours and "
                "shorter lengths have no zone, which would only shift where they begin; start_time does that"
            )

    def require_same_unit(self, argument: str, measure: Period, other: str, reference: Period) -> None:
        """Refuse days by months."""
        if isinstance(measure, Months) != isinstance(reference, Months):
            raise InvalidValue(
                f"{argument}: {shown(measure)} is {kind_of(measure)} where {other} {shown(reference)} is "
                f"{kind_of(reference)}; both are numbers of days or weeks, or both of months, quarters or "
                "years"
            )

    def require_local_start(self, start_time: Period | None, other: str, period: Period) -> None:
        """Refuse an offset that is not less than the distance of windows."""
        if start_time is None:
            return
        if isinstance(start_time, Months):
            self.require_same_unit("start_time", start_time, other, period)
        elif not isinstance(start_time, Duration):
            raise InvalidType(
                f"start_time: {shown(start_time)} is {kind_of(start_time)} where {other} {shown(period)} is "
                f"{kind_of(period)}; it is a duration"
                + (", or a number of months" if isinstance(period, Months) else "")
            )
        is_fixed = isinstance(period, Months) and isinstance(start_time, Duration)
        if abs(units(start_time)) >= units(period) * (SHORTEST_MONTH if is_fixed else 1):
            raise InvalidValue(
                f"start_time: {shown(start_time)} is not less than {other} {shown(period)}"
                f"{' of months of 28 days' if is_fixed else ''}; a start_time is less than the {other}, "
                "forwards or backwards"
            )

    def require_week_start(self, other: str, period: Period) -> None:
        """Refuse the day with which weeks begin where windows do not begin every week."""
        if self.week_start is not None and (isinstance(period, Months) or units(period) % WEEK):
            raise InvalidValue(
                f"week_start: {self.week_start!r} is given where {other} is {shown(period)}; it requires "
                "windows that begin every week, or every few weeks"
            )

    def given(self) -> str:
        """Return what makes the lengths periods, for messages."""
        if self.zone is not None:
            return f"zone {self.zone!r} is given"
        if self.week_start is not None:
            return f"week_start {self.week_start!r} is given"
        return "another length is a number of months"

    def calendar(self) -> str:
        """Return what the periods are of, for `windowkit.Query.explain`."""
        if not self.is_local:
            return ""
        return f"; by the calendar of {self.zone or 'UTC, or of local times where those have no zone'}"


def checked_zone(zone: ZoneLike | None) -> str | None:
    """Return the name of a zone as the tz database writes it, which Spark requires; it is found in any case.

    Raises
    ------
    InvalidType, InvalidValue
        `zone` is not a str or a tzinfo, or neither an offset nor the name of a zone of the tz database.

    Examples
    --------
    >>> checked_zone("+0530"), checked_zone(timezone.utc), checked_zone("asia/kolkata")
    ('+05:30', 'UTC', 'Asia/Kolkata')
    """
    if zone is None:
        return None
    if isinstance(zone, tzinfo):
        name = getattr(zone, "key", None) or getattr(zone, "zone", None)
        if isinstance(zone, timezone):
            name = "UTC" if zone == timezone.utc else _offset(zone.utcoffset(None))
        if not isinstance(name, str):
            raise InvalidType(f"zone: {zone!r} has no name; {ALLOWED}")
        zone = name
    if not isinstance(zone, str):
        raise InvalidType(f"zone: {as_given(zone)} is {a_type(zone)}; {ALLOWED}")
    offset = OFFSET.fullmatch(zone)
    if offset is not None:
        minutes = offset["minutes"] or "00"
        if int(minutes) > 59 or int(offset["hours"]) * 60 + int(minutes) > 18 * 60:
            raise InvalidValue(f"zone: {zone!r} is out of range; an offset is at most 18 hours")
        return f"{offset['sign']}{offset['hours']}:{minutes}"
    if NAME.fullmatch(zone) is None:
        raise InvalidValue(f"zone: {zone!r} is not a time zone; {ALLOWED}")
    with process() as here:
        return here.zone_name(zone)


def _offset(offset: timedelta) -> str:
    sign = "-" if offset < timedelta(0) else "+"
    minutes, rest = divmod(abs(offset), timedelta(minutes=1))
    if rest:
        raise InvalidValue(f"zone: {offset} is not a whole number of minutes; {ALLOWED}")
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}"


def days_of_utc(window: Window, kind: pa.DataType) -> str:
    """Say that days without a zone are those of UTC, where times of this type have another zone."""
    lengths = [each for each in window.lengths().values() if isinstance(each, Duration)]
    is_daily = any(each.nanoseconds and each.nanoseconds % DAY == 0 for each in lengths)
    has_zone = isinstance(window, Localised) and not window.is_local
    if not has_zone or not is_daily or getattr(kind, "tz", None) in (None, "UTC"):
        return ""
    return f"; days are those of UTC, not of {kind.tz}, unless zone={kind.tz!r} is given"


def checked_week_start(week_start: str | None) -> Weekday | None:
    """Return the name of a weekday in lower case.

    Raises
    ------
    InvalidType, InvalidValue
        `week_start` is not a day of the week.
    """
    if isinstance(week_start, str):
        week_start = week_start.lower()
    return None if week_start is None else one_of("week_start", week_start, WEEKDAYS)
