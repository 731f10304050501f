"""Places on a time column: times with or without zone, dates, durations, and plain integers.

As for lengths all arithmetic is on integers, exact to the nanosecond.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given, integer
from windowkit.language.durations import LARGEST, Duration, Measure, Rows, length
from windowkit.language.foreign import is_a

if TYPE_CHECKING:
    import numpy as np

__all__ = ["Clock", "Moment", "Place", "PlaceLike", "kind_of_place", "place"]

EPOCH: Final = datetime(1970, 1, 1)
DAY: Final = 86_400 * 10**9
TEXT: Final = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)"
    r"(?:[T ]\s*(?P<hour>\d\d):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?)?)?"
    r"(?:\s*(?P<zone>[Zz]|[+-]\d\d:?\d\d))?",
    re.ASCII,
)
NAMES: Final = {"integer": "ints", "duration": "timedeltas", "date": "dates"}
ALLOWED: Final = (
    "a place on the time column is a datetime, a date, a duration, an int, or a string like '2024-01-31' or "
    "'2024-01-31 12:00:00.5', with a zone as in '2024-01-31 12:00:00Z' or '...+01:00' if the column has one"
)
RANGE: Final = "a place on a column of integers is an int64, greater than -2**63 and less than 2**63"


@dataclass(frozen=True)
class Moment:
    """A time, exact to the nanosecond.

    Parameters
    ----------
    nanoseconds : int
        Since 1970-01-01 00:00:00, of UTC if it is `zoned`.
    zoned : bool
        Whether it is an instant; else it is what a clock on the wall shows.
    """

    nanoseconds: int
    zoned: bool

    def __str__(self) -> str:
        """Return the time as ISO 8601 has it, in UTC."""
        seconds, fraction = divmod(self.nanoseconds, 10**9)
        text = str(EPOCH + timedelta(seconds=seconds))
        if fraction:
            text += f".{fraction:09}".rstrip("0")
        return text + ("Z" if self.zoned else "")


Place: TypeAlias = Moment | Duration | int
"""A place on the time column: what a window keeps of it."""

PlaceLike: TypeAlias = Union[datetime, date, timedelta, str, int, Moment, Duration, "np.datetime64"]
"""What a user may give for a place on the time column."""


def place(argument: str, value: PlaceLike) -> Place:
    """Read a place on the time column.

    Raises
    ------
    InvalidType, InvalidValue
        `value` is not a place on a time column; the message names `argument`.

    Examples
    --------
    >>> print(place("start", "2024-01-31 12:00"))
    2024-01-31 12:00:00
    >>> place("start", 5)
    5
    """
    try:
        read = _read(argument, value)
        # Years outside Python's have no text form either.
        str(read)
    except OverflowError:
        raise InvalidValue(
            f"{argument}: {as_given(value)} lies outside the years 1 to 9999; {ALLOWED}"
        ) from None
    return read


def _read(argument: str, value: PlaceLike) -> Place:
    if isinstance(value, Moment):
        return value
    if isinstance(value, datetime):
        try:
            return _from_datetime(value)
        except (TypeError, ValueError) as error:
            # Of its zone, which may be anybody's, or of pandas' NaT, which is none.
            raise InvalidValue(f"{argument}: {as_given(value)} is not a time ({error}); {ALLOWED}") from None
    if isinstance(value, date):
        return Moment((value - EPOCH.date()).days * DAY, False)
    if is_a(value, "numpy", "datetime64"):
        return _from_text(argument, str(value))
    if isinstance(value, str):
        return _from_text(argument, value) if re.match(r"\s*\d{4}-", value) else _length(argument, value)
    return _length(argument, value)


def _length(argument: str, value: Any) -> Place:
    is_number = hasattr(value, "__index__") and not is_a(value, "numpy", "timedelta64")
    if is_number and not isinstance(value, bool):
        return integer(argument, value, RANGE, -LARGEST, LARGEST)
    try:
        read = length(argument, value)
    except (InvalidType, InvalidValue) as error:
        if " is out of range; " in str(error):
            raise
        raise type(error)(
            f"{argument}: {as_given(value)} is not a place on a time column; {ALLOWED}"
        ) from None
    if isinstance(read, Rows):
        raise InvalidType(f"{argument}: {read} is a number of rows; {ALLOWED}")
    return read


def _from_datetime(value: datetime) -> Moment:
    zoned = value.utcoffset() is not None
    wall = value.astimezone(timezone.utc).replace(tzinfo=None) if zoned else value.replace(tzinfo=None)
    since = wall.replace(fold=0) - EPOCH
    microseconds = (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds
    # pandas.Timestamp is a datetime that carries the digits below the microsecond as well.
    return Moment(microseconds * 1_000 + getattr(value, "nanosecond", 0), zoned)


def _from_text(argument: str, text: str) -> Moment:
    match = TEXT.fullmatch(text.strip())
    if match is None:
        raise InvalidValue(f"{argument}: {text!r} is not a place on a time column; {ALLOWED}")
    clock = f"{match['hour'] or '00'}:{match['minute'] or '00'}:{match['second'] or '00'}"
    try:
        wall = datetime.fromisoformat(f"{match['date']} {clock}")
    except ValueError as error:
        raise InvalidValue(f"{argument}: {text!r} is not a time ({error}); {ALLOWED}") from None
    nanoseconds = _from_datetime(wall).nanoseconds + int((match["fraction"] or "").ljust(9, "0"))
    zone = match["zone"]
    if zone is not None and zone not in "Zz":
        sign = -1 if zone[0] == "-" else 1
        nanoseconds -= sign * (int(zone[1:3]) * 60 + int(zone[-2:])) * 60 * 10**9
    return Moment(nanoseconds, zone is not None)


def kind_of_place(given: Place) -> str:
    """Return what messages call it."""
    if isinstance(given, Moment):
        return "a time with a zone" if given.zoned else "a time without zone"
    return "a duration" if isinstance(given, Duration) else "an integer"


class Clock:
    """Values of a time column as Python's own, and back.

    Parameters
    ----------
    kind : str
        ``timestamp``, ``date``, ``duration`` or ``integer``.
    unit : int, optional
        Nanoseconds in a unit of the column; None for integers.
    zone : str, optional
        The column's.
    """

    def __init__(self, kind: str, unit: int | None, zone: str | None) -> None:
        self.kind, self.unit = kind, unit
        self.zone: tzinfo | None = None
        if zone is not None:
            self.zone = _zone(zone)

    def value(self, units: int) -> Any:
        """Return a value of the column, to the microsecond and within the years 1 to 9999."""
        if self.unit is None:
            return units
        microseconds = units * self.unit // 1_000
        if self.kind == "duration":
            return timedelta(microseconds=microseconds)
        # A requested stretch may reach beyond what Python has names for.
        span = datetime.max - EPOCH
        most = (span.days * 86_400 + span.seconds) * 10**6
        least = -(EPOCH - datetime.min).days * 86_400 * 10**6
        wall = EPOCH + timedelta(
            microseconds=max(least + DAY // 1_000, min(microseconds, most - DAY // 1_000))
        )
        if self.kind == "date":
            return wall.date()
        return wall if self.zone is None else wall.replace(tzinfo=timezone.utc).astimezone(self.zone)

    def read(self, what: str, value: Any) -> int:
        """Return a value that user's code returned in units of the column.

        Raises
        ------
        InvalidType, InvalidValue
            It is of another kind than the column, or finer than its unit.
        """
        try:
            given = place(what, value)
        except (InvalidType, InvalidValue):
            raise InvalidType(f"{what}: it returned {as_given(value)}; {self.allowed}") from None
        fits = {
            "integer": not isinstance(given, Moment | Duration),
            "duration": isinstance(given, Duration),
            "date": isinstance(given, Moment) and not given.zoned,
            "timestamp": isinstance(given, Moment) and given.zoned == (self.zone is not None),
        }[self.kind]
        if not fits:
            raise InvalidType(f"{what}: it returned {as_given(value)}; {self.allowed}")
        return self._in_units(what, given)

    @property
    def allowed(self) -> str:
        """What a value of the column is, for messages."""
        if self.kind == "timestamp":
            return f"edges are datetimes with{'' if self.zone else 'out'} a zone, as the column is"
        return f"edges are {NAMES[self.kind]}"

    def length(self, argument: str, given: Measure) -> int:
        """Return a length in units of the column."""
        if isinstance(given, Rows) or isinstance(given, Duration) != (self.unit is not None):
            raise InvalidType(
                f"{argument}: {given} is given for a column of {self.kind}s; it is "
                f"{'an int' if self.unit is None else 'a duration'}"
            )
        if self._in_units(argument, given) <= 0:
            raise InvalidValue(f"{argument}: {given} is not positive; it must be greater than zero")
        return self._in_units(argument, given)

    def _in_units(self, what: str, given: Place) -> int:
        if isinstance(given, int):
            return given
        units, rest = divmod(given.nanoseconds, self.unit or 1)
        if rest:
            raise InvalidValue(
                f"{what}: {given} is finer than the time column; edges are multiples of its unit"
            )
        return units


def _zone(name: str) -> tzinfo:
    """Return the zone of an Arrow type: a name, or an offset like +01:00."""
    match = re.fullmatch(r"([+-])(\d\d):?(\d\d)", name)
    if match is None:
        try:
            return timezone.utc if name == "UTC" else ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            raise InvalidValue(
                f"time: the zone {name!r} of the column is not known on this machine"
            ) from None
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(-offset if match[1] == "-" else offset)
