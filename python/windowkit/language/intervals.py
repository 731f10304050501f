"""The text of lengths of time: Spark's interval strings, and what errors make of those of other libraries."""

from __future__ import annotations

import re
from difflib import get_close_matches
from fractions import Fraction
from typing import Final

from windowkit.errors import InvalidValue

__all__ = ["ALLOWED", "NANOSECONDS", "meant", "months_of", "nanoseconds_of", "single_spaced", "written"]

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
CALENDAR: Final = {"year": 12, "quarter": 3, "month": 1}
MOST_MONTHS: Final = 120_000

ALLOWED: Final = (
    "a duration is '<number> <unit>' once or more, as in '10 minutes' or '1 hour 30 minutes', "
    f"with units {', '.join(NANOSECONDS)}"
)
OR_CALENDAR: Final = ", or of whole months, quarters and years"
"""What is allowed besides, where windows may follow a calendar."""
# Units as pandas, Polars and others abbreviate them: only errors understand these.
ABBREVIATIONS: Final = {
    **dict.fromkeys(("w", "W", "wk", "wks"), "week"),
    **dict.fromkeys(("d", "D"), "day"),
    **dict.fromkeys(("h", "H", "hr", "hrs"), "hour"),
    **dict.fromkeys(("m", "min", "mins", "T"), "minute"),
    **dict.fromkeys(("s", "S", "sec", "secs"), "second"),
    **dict.fromkeys(("ms", "milli", "millis", "msec", "msecs", "L"), "millisecond"),
    **dict.fromkeys(("us", "µs", "μs", "micro", "micros", "usec", "usecs", "U"), "microsecond"),
    **dict.fromkeys(("ns", "nano", "nanos", "nsec", "nsecs", "N"), "nanosecond"),
}
CALENDAR_ABBREVIATIONS: Final = {
    **dict.fromkeys(("mo", "mon", "mons", "ME", "MS"), "month"),
    **dict.fromkeys(("q", "Q", "qtr", "qtrs", "QE", "QS"), "quarter"),
    **dict.fromkeys(("y", "Y", "yr", "yrs", "YE", "YS"), "year"),
}
WRITTEN_ELSEWHERE: Final = re.compile(r"\s*(?:([+-])\s*)?([0-9]{1,19})(\.[0-9]{0,9})?\s*([a-zA-Zµμ]+)")
PAIR: Final = re.compile(
    r"(?P<sign>[+-]?) ?(?P<whole>[0-9]*)(?P<fraction>\.[0-9]*)? (?P<unit>[a-z]+)(?: |$)", re.ASCII
)
SPACES: Final = re.compile(r"\s+", re.ASCII)


def written(nanoseconds: int) -> str:
    """Return the canonical text form of a length: days to nanoseconds, largest unit first."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(nanoseconds)
    parts = []
    for unit in WRITTEN:
        count, rest = divmod(rest, NANOSECONDS[unit])
        if count:
            parts.append(f"{sign}{count} {unit}{'s' if count != 1 else ''}")
    return " ".join(parts) or "0 seconds"


def single_spaced(text: str) -> str:
    """Return the string with single spaces, so that patterns take linear time."""
    return SPACES.sub(" ", text.strip())


def nanoseconds_of(argument: str, text: str, calendar: bool) -> int:
    """Return the length that a string states, in nanoseconds; `calendar` as for `duration`."""

    def refuse(what: str) -> InvalidValue:
        allowed = ALLOWED + OR_CALENDAR if calendar else ALLOWED
        return InvalidValue(f"{argument}: {text!r} {what}; {allowed}{meant(text, calendar)}")

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
        whole = whole.lstrip("0")
        if len(whole) > 19:
            whole = str(10**19)
        nanoseconds = int(whole or 0) * NANOSECONDS[unit]
        if fraction is not None:
            nanoseconds += int(fraction[1:].ljust(9, "0"))
        total += -nanoseconds if pair["sign"] == "-" else nanoseconds
    return total


def months_of(argument: str, text: str) -> int | None:
    """Return the number of months that a string states, or None if it is something else."""
    rest = single_spaced(text).lower().removeprefix("interval ")
    pairs, at = [], 0
    while at < len(rest):
        # Nothing is searched for, which would begin anew at each digit.
        pair = PAIR.match(rest, at)
        if pair is None:
            return None
        pairs.append(pair)
        at = pair.end()
    units = [pair["unit"].removesuffix("s") for pair in pairs]
    if not any(unit in CALENDAR for unit in units):
        return None
    if not all(unit in CALENDAR for unit in units):
        raise InvalidValue(
            f"{argument}: {text!r} mixes months with units of a fixed length; a length is of months, "
            "quarters and years, or of units from week to nanosecond"
        )
    total = 0
    for pair, unit in zip(pairs, units, strict=True):
        if not pair["whole"] or pair["fraction"] is not None:
            raise InvalidValue(
                f"{argument}: {text!r} is not a whole number of {unit}s; allowed are whole ones"
            )
        # A number of twenty digits is out of range, whichever they are.
        count = int(pair["whole"].lstrip("0")[:20] or 0) * CALENDAR[unit]
        total += -count if pair["sign"] == "-" else count
    if abs(total) > MOST_MONTHS:
        raise InvalidValue(f"{argument}: {text!r} is out of range; a length is at most 10,000 years")
    return total


def meant(text: str, calendar: bool = False) -> str:
    """Return what an error adds to `text` of another library: how the same length is written here.

    Units of a calendar are meant only where they are allowed.

    Examples
    --------
    >>> meant("10min"), meant("1h30m"), meant("2 minits"), meant("soon")
    ("; did you mean '10 minutes'?", "; did you mean '1 hour 30 minutes'?", "; did you mean '2 minutes'?", '')
    >>> meant("1mo", calendar=True), meant("2 quater", calendar=True), meant("1mo")
    ("; did you mean '1 month'?", "; did you mean '2 quarters'?", '')
    """
    at, parts = 0, list[str]()
    text = text.strip()
    # Some dozen pairs are more than anyone writes.
    while at < len(text) and len(parts) < 12:
        pair = WRITTEN_ELSEWHERE.match(text, at)
        if pair is None:
            return ""
        at = pair.end()
        sign, whole, fraction, given = pair.groups()
        sign = sign or ""
        # "M" is a month to pandas.
        unit = ABBREVIATIONS.get(given) or ABBREVIATIONS.get(given.lower() if len(given) > 1 else "")
        if calendar and unit is None:
            unit = CALENDAR_ABBREVIATIONS.get(given)
        if unit is None:
            known = [*NANOSECONDS, *CALENDAR] if calendar else list(NANOSECONDS)
            close = get_close_matches(given.lower().removesuffix("s"), known, n=1)
            if not close:
                return ""
            unit = close[0]
        if fraction is not None and fraction.strip(".0"):
            if unit in CALENDAR:
                return ""
            if unit != "second":
                nanoseconds = Fraction(whole + fraction) * NANOSECONDS[unit]
                if nanoseconds.denominator != 1:
                    return ""
                parts.append(f"{sign}{written(int(nanoseconds))}")
                continue
            whole += fraction
        parts.append(f"{sign}{whole} {unit}{'' if whole == '1' else 's'}")
    form = " ".join(parts)
    return f"; did you mean {form!r}?" if form not in ("", text) and at == len(text) else ""
