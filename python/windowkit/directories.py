"""What directories named ``name=value`` say, typed as Spark types it.

Spark tries integers, decimals, fractions, timestamps and dates, in this order, and takes for text what is
none of them; values of one column that differ in kind get the wider one, or are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa

from windowkit.errors import InvalidValue

__all__ = [
    *("HERE", "MOST_DIGITS", "NULL", "NUMBER", "Inference", "Value"),
    *("instant", "typed", "unescaped", "zone_named"),
]

Value = int | float | date | Decimal | str | None

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
HERE: Final = ""
"""The name of the zone that clocks of this machine are in, which Spark takes for a session's by default."""
MOST_DIGITS: Final = 38
DIGITS_OF: Final = {"int": 10, "long": 20}
"""Of the decimals that Spark makes of integers beside decimals."""
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
DOUBLE: Final = re.compile(r"\s*[+-]?(NaN|Infinity|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?)\s*", re.ASCII)
"""What Java reads as a fraction, but for the hexadecimal form."""
HEXADECIMAL: Final = re.compile(
    r"\s*[+-]?0[xX]([0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?\d+[fFdD]?\s*", re.ASCII
)
DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
TIME: Final = re.compile(r"(?P<seconds>(\d{4}|\+\d{5,})-\d\d-\d\d \d\d:\d\d:\d\d)(\.\d)?", re.ASCII)
OFFSET: Final = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d)(?::?(?P<seconds>\d\d))?)?", re.ASCII
)


@dataclass(frozen=True)
class Inference:
    """How Spark would type the values of directories.

    Parameters
    ----------
    types : bool, default True
        Whether it looks for types at all, rather than take all for text.
    zone : str, optional
        The session's, in which times of day are, or `HERE`. Without, there is none to tell: timestamps are
        refused.
    zoned : bool, default True
        Whether timestamps are instants, as ``spark.sql.timestampType`` has it by default.
    any_case : bool, default True
        Whether names that differ in case name one column: not with ``spark.sql.caseSensitive``.
    """

    types: bool = True
    zone: str | None = None
    zoned: bool = True
    any_case: bool = True


def unescaped(text: str) -> str:
    """Return a part of a path as Spark reads it: %41 is a character, not a byte of UTF-8."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), text)


def typed(name: str, texts: list[str], how: Inference) -> tuple[pa.DataType, list[Value]]:
    """Return the type of a column of directories as Spark infers it, and its values.

    Times are microseconds from 1970.

    Raises
    ------
    InvalidValue
        A time is of a year that Python has none of, or the session's zone is unknown here.

    Examples
    --------
    >>> typed("day", ["2024-05-01", NULL], Inference())
    (DataType(date32[day]), [datetime.date(2024, 5, 1), None])
    >>> typed("id", ["7", "1e10"], Inference())
    (Decimal128Type(decimal128(11, 0)), [Decimal('7'), Decimal('10000000000')])
    """
    kinds = {kind_of(text) if how.types else "string" for text in texts if text != NULL}
    kind, convert = column_of(name, kinds, texts, how)
    return kind, [None if text == NULL else convert(text) for text in texts]


def column_of(
    name: str, kinds: set[str], texts: list[str], how: Inference
) -> tuple[pa.DataType, Callable[[str], Value]]:
    """Return the type that is wide enough for values of several kinds, and what makes values of text."""
    if kinds <= {"int"}:
        return (pa.int32() if kinds else pa.null()), int
    if kinds <= {"int", "long"}:
        return pa.int64(), int
    if kinds <= {"int", "long", "decimal"}:
        digits = [digits_of(text) or 0 for text in texts if text != NULL and kind_of(text) == "decimal"]
        digits += [DIGITS_OF[kind] for kind in kinds - {"decimal"}]
        return pa.decimal128(max(digits), 0), lambda text: Decimal(int(Decimal(text)))
    if kinds <= {"int", "double"}:
        return pa.float64(), number
    if kinds == {"date"}:
        return pa.date32(), date.fromisoformat
    if kinds <= {"date", "timestamp"}:
        zone = zone_of(name, how)
        return pa.timestamp("us", "UTC" if how.zoned else None), lambda text: micros(name, text, zone)
    return pa.string(), unescaped


def kind_of(text: str) -> str:
    """Return what Spark takes a value of a directory for, in the order in which it tries."""
    if re.fullmatch(r"[+-]?\d+", text):
        value = int(text)
        if -(2**63) <= value < 2**63:
            return "int" if -(2**31) <= value < 2**31 else "long"
    if digits_of(text) is not None:
        return "decimal"
    if DOUBLE.fullmatch(text) or HEXADECIMAL.fullmatch(text):
        return "double"
    if is_time(unescaped(text)):
        return "timestamp"
    return "date" if is_date(text) else "string"


def digits_of(text: str) -> int | None:
    """Return the digits of the decimal that Spark takes a number for; None if it has a fraction, or more."""
    if not NUMBER.fullmatch(text):
        return None
    _, digits, exponent = Decimal(text).as_tuple()
    if not isinstance(exponent, int) or exponent < 0:
        return None
    count = len(digits) + exponent
    return count if count <= MOST_DIGITS else None


def is_date(text: str) -> bool:
    if not DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Whether Spark takes a text for a time: to the second, or to its tenth."""
    found = TIME.fullmatch(text)
    if found is None:
        return False
    # Of any leap-year or other year alike, Python's or not: the calendar repeats every 400 years.
    year, rest = found["seconds"].lstrip("+").split("-", 1)
    try:
        datetime.fromisoformat(f"{int(year) % 400 + 2000:04d}-{rest}")
    except ValueError:
        return False
    return True


def number(text: str) -> float:
    """Return a fraction as Java reads it: spaces around it, and an f or a d after it, say nothing."""
    bare = text.strip()
    if HEXADECIMAL.fullmatch(bare):
        try:
            return float.fromhex(bare.rstrip("fFdD"))
        except OverflowError:
            return float("-inf" if bare.startswith("-") else "inf")
    return float(bare if bare[-1] in "yN" else bare.rstrip("fFdD"))


def zone_of(name: str, how: Inference) -> tzinfo:
    """Return the zone in which times of directories are."""
    return zone_named(how.zone, f"paths: directories say times of {name}") if how.zoned else timezone.utc


def zone_named(zone: str | None, what: str) -> tzinfo:
    """Return a zone by the name that Spark has for it.

    Raises
    ------
    InvalidValue
        There is none, or it is unknown here. `what` says which times are in it.
    """
    if zone is None:
        raise InvalidValue(
            f"{what}, in a zone that a data source is not told; its option timeZone names one, and "
            "wk.spark.scan is told the session's"
        )
    if zone == HERE:
        return Here()
    if zone in ("Z", "UT"):
        return timezone.utc
    offset = OFFSET.fullmatch(zone)
    if offset is not None:
        parts = {unit: int(offset[unit] or 0) for unit in ("hours", "minutes", "seconds")}
        apart = timedelta(**parts)
        return timezone(-apart if offset["sign"] == "-" else apart)
    try:
        return ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError):
        raise InvalidValue(
            f"{what}, in the session's zone {zone!r}, which Python does not know here; "
            "spark.sql.session.timeZone is a name such as Europe/Berlin, or an offset"
        ) from None


class Here(tzinfo):
    """The zone of this machine."""

    def utcoffset(self, at: datetime | None) -> timedelta | None:
        """Return how far clocks here are ahead at a time that they show."""
        if at is None:
            return None
        # Next to its first and its last year Python cannot tell.
        return at.replace(year=min(max(at.year, 2), 9998), tzinfo=None).astimezone().utcoffset()

    def dst(self, at: datetime | None) -> timedelta | None:
        """Return nothing: what of the offset is summer time is not asked."""
        return None

    def tzname(self, at: datetime | None) -> str | None:
        """Return the name of the zone at a time."""
        return None if at is None else at.replace(tzinfo=None).astimezone().tzname()


def instant(local: datetime, zone: tzinfo) -> int:
    """Return when clocks of a zone show a time, in microseconds from 1970.

    One that clocks skip is as much later, and of one that they show twice it is the first.
    """
    since = local.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return since // timedelta(microseconds=1)


def micros(name: str, text: str, zone: tzinfo) -> int:
    """Return a time, or the first of a day, in microseconds from 1970."""
    plain = unescaped(text)
    try:
        return instant(datetime.fromisoformat(plain if len(plain) < 21 else plain + "00"), zone)
    except (ValueError, OverflowError):
        raise InvalidValue(
            f"paths: a directory says {name}={text}, a time of a year that Python has none of; years are 1 "
            "to 9999"
        ) from None
