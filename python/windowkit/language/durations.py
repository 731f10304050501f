"""Lengths of windows: Spark interval strings, ``timedelta``s, integers, numbers of rows and of months.

All arithmetic is on integers; a duration is an exact number of nanoseconds, and nothing here rounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar, Final, Literal, TypeAlias, Union, cast

from windowkit.errors import InvalidValue
from windowkit.language.checks import as_given, integer
from windowkit.language.foreign import is_a
from windowkit.language.intervals import (
    ALLOWED,
    NANOSECONDS,
    months_of,
    nanoseconds_of,
    single_spaced,
    written,
)
from windowkit.language.triggers import Term, Trigger

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "Duration",
    "Length",
    "Measure",
    "Months",
    "Partial",
    "Period",
    "Rows",
    "duration",
    "length",
    "period",
    "plain",
    "rows",
]

LARGEST: Final = 2**63 - 1
MOST_ROWS: Final = 2**32 - 1

Partial: TypeAlias = Literal["none", "start", "end", "both"]
"""Beyond which ends windows of a number of rows may reach, so that they have fewer rows."""

ROWS: Final = re.compile(r"(?P<count>[+-]? ?[0-9]+) rows?", re.ASCII | re.IGNORECASE)
FRACTION_OF_ROWS: Final = re.compile(r"[+-]? ?[0-9]*\.[0-9]* rows?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Duration:
    """An exact length of time.

    Two durations are equal if they are equally long, however they were written.

    Parameters
    ----------
    nanoseconds : int
        The length; negative only where a ``start_time`` is.
    text : str, optional
        What the user wrote, kept for messages; by default the canonical text form.

    Examples
    --------
    >>> duration("size", "90 minutes")
    Duration('1 hour 30 minutes')
    >>> duration("size", "90 minutes") == duration("size", "1 hour 30 minutes")
    True
    """

    nanoseconds: int
    text: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        if not self.text:
            object.__setattr__(self, "text", str(self))

    def __str__(self) -> str:
        """Return the canonical text form, a Spark interval: days to nanoseconds, largest unit first."""
        return written(self.nanoseconds)

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Rows(Trigger):
    """A number of rows, as a length or a trigger; made by `rows`, or from a string such as ``"100 rows"``."""

    keys: ClassVar[tuple[str, ...]] = ("rows",)
    count: int

    def __str__(self) -> str:
        """Return the text form of a length."""
        return f"{self.count} row{'' if self.count == 1 else 's'}"

    def __repr__(self) -> str:
        return f"rows({self.count})"

    def terms(self) -> list[Term]:
        """Return the trigger in postfix order."""
        return [Term("rows", self.count)]

    def check(self, argument: str) -> None:
        """Refuse a number that cannot be a trigger's."""
        if self.count < 1:
            raise InvalidValue(f"{argument}: {self!r} is given; as a trigger, allowed are numbers from 1")


@dataclass(frozen=True, slots=True)
class Months:
    """A number of months of a calendar, of which a quarter has three and a year twelve; made by `period`."""

    months: int

    def __str__(self) -> str:
        """Return the text form, in years where they are whole."""
        years, months = divmod(self.months, 12)
        count, unit = (self.months, "month") if months or not self.months else (years, "year")
        return f"{count} {unit}{'' if count == 1 else 's'}"

    def __repr__(self) -> str:
        return f"Months({str(self)!r})"


Length: TypeAlias = Union[str, timedelta, int, Duration, Rows, Months, "np.timedelta64"]
"""What a user may give for a length: a duration, an integer in the units of an integer time column, a number
of rows, or for some windows a number of months."""

Measure: TypeAlias = Duration | int | Rows
"""A length that is fixed."""

Period: TypeAlias = Duration | int | Rows | Months
"""What a window keeps of a length."""


def plain(measure: Measure) -> str | int:
    """Return a length as JSON can hold it and users can give it: an int, or else its text form."""
    return measure if isinstance(measure, int) else str(measure)


def rows(count: int) -> Rows:
    """Return a length of so many rows, as ``"100 rows"`` is one, or the trigger of an emission policy.

    As a trigger it fires a key once that many rows of it have come since it last fired, or at all if it
    never did: at the end of the call that brings the last of them. See `windowkit.emit`.

    Raises
    ------
    InvalidType, InvalidValue
        `count` is not an int, or out of range.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.tumbling(wk.rows(100)) == wk.tumbling("100 rows") == wk.tumbling(rows=100)
    True
    >>> wk.emit(wk.rows(100) | wk.every("1 minute"))
    emit(rows(100) | every('1 minute'))
    """
    return Rows(integer("rows", count, "rows is an int below 2**32", -MOST_ROWS, MOST_ROWS))


def duration(
    argument: str, value: str | timedelta | np.timedelta64 | Duration, *, calendar: bool = False
) -> Duration:
    """Read a duration.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : str, datetime.timedelta, numpy.timedelta64 or Duration
        A string follows Spark's interval grammar: optionally ``interval``, then any number of pairs of a
        signed whole number and a unit from nanosecond to week, singular or plural, in any case. Seconds,
        and only they, take a fraction of up to nine digits.
    calendar : bool
        Whether months are allowed where this is read: errors say so.

    Returns
    -------
    Duration
        Exact to the nanosecond, of any sign.

    Raises
    ------
    InvalidValue
        The string is not such an interval, the unit is a calendar's (a month has no fixed length), missing or
        finer than a nanosecond, or the length is not below 2**63 nanoseconds (292 years).

    Examples
    --------
    >>> duration("size", "interval 1.5 seconds").nanoseconds
    1500000000
    >>> duration("size", timedelta(hours=1, minutes=30))
    Duration('1 hour 30 minutes')
    >>> duration("size", "1 month")
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidValue: size: '1 month' has the calendar unit 'month', which has no fixed length; \
a duration is '<number> <unit>' once or more, as in '10 minutes' or '1 hour 30 minutes', with units week, \
day, hour, minute, second, millisecond, microsecond, nanosecond
    """
    if isinstance(value, Duration):
        read = value
    elif isinstance(value, timedelta):
        read = _from_timedelta(value)
    elif not isinstance(value, str):
        read = _from_timedelta64(argument, value)
    else:
        read = Duration(nanoseconds_of(argument, value, calendar), value)
    if abs(read.nanoseconds) > LARGEST:
        raise InvalidValue(
            f"{argument}: {read.text!r} is out of range; a duration is below 2**63 nanoseconds (292 years)"
        )
    return read


def length(argument: str, value: Length, *, calendar: bool = False) -> Measure:
    """Read the length of a window: a `Duration`, an ``int`` for an integer time column, or `Rows`.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : str, datetime.timedelta, numpy.timedelta64, Duration, int or Rows
        See `duration`. A string may be a number of rows too, as in ``"100 rows"``. Anything that is an
        integer by ``__index__`` (a numpy integer) counts as one; ``bool`` does not.
    calendar : bool
        As for `duration`.

    Raises
    ------
    InvalidType
        `value` is none of these.
    InvalidValue
        See `duration`; an ``int`` is within the signed 64-bit range.

    Examples
    --------
    >>> length("size", 600), length("size", "10 minutes")
    (600, Duration('10 minutes'))
    >>> print(length("size", "1 row"))
    1 row
    """
    if isinstance(value, Rows):
        return rows(value.count)
    if isinstance(value, str) and (counted := ROWS.fullmatch(single_spaced(value))) is not None:
        # Twenty digits are out of range, whichever they are.
        return rows(int(counted["count"].replace(" ", "")[:20]))
    if isinstance(value, str) and FRACTION_OF_ROWS.fullmatch(single_spaced(value)) is not None:
        raise InvalidValue(
            f"{argument}: {as_given(value)} is not a whole number; a number of rows must be an integer"
        )
    if isinstance(value, str | timedelta | Duration):
        return duration(argument, value, calendar=calendar)
    if is_a(value, "numpy", "timedelta64"):
        return duration(argument, cast("np.timedelta64", value))
    if isinstance(value, Months):
        raise InvalidValue(f"{argument}: {value} has no fixed length; {ALLOWED}")
    allowed = (
        "a length is a string like '10 minutes' or a datetime.timedelta, or an int below 2**63 if the time "
        "column holds integers"
    )
    return integer(argument, value, allowed, -LARGEST, LARGEST)


def period(argument: str, value: Length) -> Period:
    """Read a length that may be a number of months, as those of windows over a calendar.

    Raises
    ------
    InvalidType, InvalidValue
        See `length`; months, quarters and years come in whole numbers, without other units beside them, and
        are at most 10,000 years.

    Examples
    --------
    >>> period("size", "1 quarter"), period("size", "1 year 6 months"), period("size", "1 day")
    (Months('3 months'), Months('18 months'), Duration('1 day'))
    >>> period("size", "1 month 2 days")
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidValue: size: '1 month 2 days' mixes months with units of a fixed length; a \
length is of months, quarters and years, or of units from week to nanosecond
    """
    if isinstance(value, Months):
        return value
    months = months_of(argument, value) if isinstance(value, str) else None
    return length(argument, value, calendar=True) if months is None else Months(months)


def _from_timedelta(value: timedelta) -> Duration:
    microseconds = (value.days * 86_400 + value.seconds) * 10**6 + value.microseconds
    # pandas.Timedelta is a timedelta that carries the digits below the microsecond as well.
    below = getattr(value, "nanoseconds", 0)
    return Duration(microseconds * 1_000 + below)


def _from_timedelta64(argument: str, value: np.timedelta64) -> Duration:
    # As numpy writes it: "3600 seconds", "90 generic time units", "NaT".
    count, _, unit = str(value).partition(" ")
    nanoseconds = NANOSECONDS.get(unit.removesuffix("s"))
    if nanoseconds is None:
        raise InvalidValue(
            f"{argument}: {as_given(value)} has no fixed length in nanoseconds; allowed are the units W, D, "
            "h, m, s, ms, us and ns"
        )
    return Duration(int(count) * nanoseconds)
