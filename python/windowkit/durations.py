"""Lengths of windows: Spark interval strings, ``timedelta`` of Python and numpy, integers, numbers of rows.

All arithmetic is on integers; a duration is an exact number of nanoseconds, and nothing here rounds.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypeAlias, Union, cast

from windowkit._columns import is_a
from windowkit.checks import integer
from windowkit.errors import InvalidValue

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Duration", "Length", "Measure", "Rows", "duration", "length", "rows"]

NANOSECONDS: Final = {
    "week": 7 * 86_400 * 10**9,
    "day": 86_400 * 10**9,
    "hour": 3_600 * 10**9,
    "minute": 60 * 10**9,
    "second": 10**9,
    "millisecond": 10**6,
    "microsecond": 10**3,
    "nanosecond": 1,
}
# Weeks are understood but not written: "10 days", not "1 week 3 days".
WRITTEN: Final = [unit for unit in NANOSECONDS if unit != "week"]
CALENDAR: Final = frozenset({"year", "quarter", "month"})
LARGEST: Final = 2**63 - 1
MOST_ROWS: Final = 2**32 - 1

ALLOWED: Final = (
    "a duration is '<number> <unit>' once or more, as in '10 minutes' or '1 hour 30 minutes', "
    f"with units {', '.join(NANOSECONDS)}"
)
PAIR: Final = re.compile(
    r"(?P<sign>[+-]?) ?(?P<whole>[0-9]*)(?P<fraction>\.[0-9]*)? (?P<unit>[a-z]+)(?: |$)", re.ASCII
)
ROWS: Final = re.compile(r"(?P<count>[+-]? ?[0-9]+) rows?", re.ASCII | re.IGNORECASE)
FRACTION_OF_ROWS: Final = re.compile(r"[+-]? ?[0-9]*\.[0-9]* rows?", re.ASCII | re.IGNORECASE)
SPACES: Final = re.compile(r"\s+", re.ASCII)


@dataclass(frozen=True, slots=True)
class Duration:
    """An exact length of time.

    Two durations are equal if they are equally long, however they were written.

    Parameters
    ----------
    nanoseconds : int
        The length; negative only where a ``start_time`` is.
    text : str, optional
        What the user wrote, kept for messages. The canonical text where absent.

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
        """Return the canonical text, a Spark interval: days to nanoseconds, largest unit first."""
        sign = "-" if self.nanoseconds < 0 else ""
        rest = abs(self.nanoseconds)
        parts = []
        for unit in WRITTEN:
            count, rest = divmod(rest, NANOSECONDS[unit])
            if count:
                parts.append(f"{sign}{count} {unit}{'s' if count != 1 else ''}")
        return " ".join(parts) or "0 seconds"

    def __repr__(self) -> str:
        return f"Duration({str(self)!r})"


@dataclass(frozen=True, slots=True)
class Rows:
    """A number of rows, as a length; made by `rows`, or of a text like ``"100 rows"``."""

    count: int

    def __str__(self) -> str:
        """Return the text form."""
        return f"{self.count} row{'' if self.count == 1 else 's'}"


Length: TypeAlias = Union[str, timedelta, int, Duration, Rows, "np.timedelta64"]
"""What a user may give for a length: a duration, an integer in the units of an integer time column, or a
number of rows."""

Measure: TypeAlias = Duration | int | Rows
"""What a window keeps of it."""


def rows(count: int) -> Rows:
    """Return a length of so many rows, as ``"100 rows"`` is one.

    Raises
    ------
    InvalidType, InvalidValue
        `count` is not an int, or out of range.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.tumbling(wk.rows(100)) == wk.tumbling("100 rows") == wk.tumbling(rows=100)
    True
    """
    return Rows(integer("rows", count, "rows is an int below 2**32", -MOST_ROWS, MOST_ROWS))


def duration(argument: str, value: str | timedelta | np.timedelta64 | Duration) -> Duration:
    """Read a duration.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : str, datetime.timedelta, numpy.timedelta64 or Duration
        A string follows Spark's interval grammar: optionally ``interval``, then any number of pairs of a
        signed whole number and a unit from nanosecond to week, singular or plural, in any case. Seconds,
        and only they, take a fraction of up to nine digits.

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
        read = _from_text(argument, value)
    if abs(read.nanoseconds) > LARGEST:
        raise InvalidValue(
            f"{argument}: {read.text!r} is out of range; a duration is below 2**63 nanoseconds (292 years)"
        )
    return read


def length(argument: str, value: Length) -> Measure:
    """Read the length of a window: a `Duration`, an ``int`` for an integer time column, or `Rows`.

    Parameters
    ----------
    argument : str
        Name of the argument, for the message.
    value : str, datetime.timedelta, numpy.timedelta64, Duration, int or Rows
        See `duration`. A string may be a number of rows too, as in ``"100 rows"``. Anything that is an
        integer by ``__index__`` (a numpy integer) counts as one; ``bool`` does not.

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
            f"{argument}: {value!r} is not a whole number; a number of rows must be an integer"
        )
    if isinstance(value, str | timedelta | Duration):
        return duration(argument, value)
    if is_a(value, "numpy", "timedelta64"):
        return duration(argument, cast("np.timedelta64", value))
    allowed = (
        "a length is a string like '10 minutes' or a datetime.timedelta, or an int below 2**63 if the time "
        "column holds integers"
    )
    return integer(argument, value, allowed, -LARGEST, LARGEST)


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
            f"{argument}: {value!r} has no fixed length in nanoseconds; allowed are the units W, D, h, m, s, "
            "ms, us and ns"
        )
    return Duration(int(count) * nanoseconds)


def single_spaced(text: str) -> str:
    """Return the text with single spaces, so that patterns take linear time."""
    return SPACES.sub(" ", text.strip())


def _from_text(argument: str, text: str) -> Duration:
    def refuse(what: str) -> InvalidValue:
        return InvalidValue(f"{argument}: {text!r} {what}; {ALLOWED}")

    rest = single_spaced(text).lower().removeprefix("interval ")
    if not rest:
        raise refuse("is not a duration")

    total, at = 0, 0
    while at < len(rest):
        pair = PAIR.match(rest, at)
        if pair is None:
            raise refuse("is not a duration")
        at = pair.end()
        unit = pair["unit"].removesuffix("s")
        if unit in CALENDAR:
            raise refuse(f"has the calendar unit {unit!r}, which has no fixed length")
        if unit not in NANOSECONDS:
            raise refuse(f"has the unknown unit {pair['unit']!r}")
        whole, fraction = pair["whole"], pair["fraction"]
        if not whole and fraction in (None, "."):
            raise refuse("lacks a number")
        if fraction is not None and unit != "second":
            raise refuse(f"has a fraction of a {unit}, where only seconds take one")
        if fraction is not None and len(fraction) > 10:
            raise refuse("has more than nine digits below the second")
        # A number of twenty digits is out of range in any unit, and `int` need not read a longer one.
        if len(whole.lstrip("0")) > 19:
            whole = str(10**19)
        nanoseconds = int(whole or 0) * NANOSECONDS[unit]
        if fraction is not None:
            nanoseconds += int(fraction[1:].ljust(9, "0"))
        total += -nanoseconds if pair["sign"] == "-" else nanoseconds
    return Duration(total, text)
