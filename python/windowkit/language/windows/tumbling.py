"""Windows side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from windowkit.errors import InvalidType
from windowkit.language.arguments import hinted
from windowkit.language.durations import Length, Partial, Period, Rows, period
from windowkit.language.windows.base import (
    Assembly,
    optional_period,
    partial_argument,
    refuse_both,
    require_partial,
    require_positive,
    require_start_time,
    row_count,
)
from windowkit.language.windows.local import Localised, Weekday, ZoneLike, checked_week_start, checked_zone


@dataclass(frozen=True, repr=False)
class Tumbling(Localised):
    """Windows ``[start_time + k * size, start_time + (k + 1) * size)``; see `tumbling`."""

    kind: ClassVar[str] = "tumbling"
    size: Period
    start_time: Period | None = None
    partial: Partial = "none"

    def check(self) -> None:
        """Refuse lengths that are no windows."""
        require_positive("size", self.size)
        if self.is_local:
            self.require_periods("size", self.size)
            self.require_local_start(self.start_time, "size", self.size)
            self.require_week_start("size", self.size)
        else:
            require_start_time(self.start_time, "size", self.size)
        require_partial(self.partial, isinstance(self.size, Rows))

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        return [str(self.size), *trailing(self, self.start_time, self.partial)]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        ranked = ", by its rank" if self.counts_rows else ""
        return f"{context}; a row is in one of them{ranked}{self.calendar()}"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "own"

    def lengths(self) -> Mapping[str, Period | None]:
        """Return size and start_time."""
        return {"size": self.size, "start_time": self.start_time}

    @property
    def follows_in_time(self) -> bool:
        """Whether its windows follow each other in time: unless rows are counted."""
        return not self.counts_rows

    @property
    def known_length(self) -> int | None:
        """How long a window is at most: unless rows are counted."""
        return None if self.counts_rows else self.longest_period(self.size)

    @property
    def day_shift(self) -> int | None:
        """How long after midnight its windows begin, if size is a number of days or months."""
        return self.shift_of_days(self.size, self.start_time)

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows: if it is by time."""
        return not self.counts_rows


def trailing(window: Localised, start_time: Period | None, partial: Partial) -> list[str]:
    """Return the last arguments of a text form."""
    started = [] if start_time is None else [f"start_time={start_time}"]
    return [*started, *window.calendar_arguments(), *partial_argument(partial)]


@hinted
def tumbling(
    size: Length | None = None,
    *,
    rows: int | None = None,
    start_time: Length | None = None,
    partial: Partial = "none",
    zone: ZoneLike | None = None,
    week_start: Weekday | None = None,
) -> Tumbling:
    """Windows one after the other; each row is in exactly one.

    Parameters
    ----------
    size : str, datetime.timedelta, int or Rows
        Length of a window, greater than zero: a duration, an ``int`` in the units of an integer column, a
        number of rows as in ``"100 rows"``, or a number of months, quarters or years of a calendar.
    rows : int, optional
        The same as a `size` of that many rows.
    start_time : str, datetime.timedelta or int, optional
        Distance of a window's start from 1970-01-01 00:00:00 UTC (from 0 for an integer column); less than
        `size` either way. Not for rows. With a calendar it is a distance on the clock, from midnight.
    partial : {"none", "start", "end", "both"}
        For windows by rows: with ``"end"`` or ``"both"``, the last window of a key is included if it has
        fewer rows.
    zone : str or datetime.tzinfo, optional
        The time zone whose days, weeks, months, quarters and years the lengths are: a name such as
        ``"America/New_York"``, or an offset such as ``"+02:00"``. For columns of timestamps with a zone,
        whichever that is; without `zone`, their days are those of UTC.
    week_start : str, optional
        The day with which weeks begin, such as ``"sunday"``; Monday by default where there is a `zone`.
        Without both, weeks are seven days from a Thursday, as Spark's are.

    Returns
    -------
    Tumbling
        The windows ``[start_time + k * size, start_time + (k + 1) * size)`` for all integers k. Context
        free: O(1) work per row, O(1) memory per window (Li 2008, §5.1.2; Traub et al. 2019, §4.4). By rows:
        ranks ``[k * rows, (k + 1) * rows)`` of a key's rows in the order of time, then of arrival (Li 2008,
        Eq. 5.4-5.6), for which rows are stored until all have arrived. With a calendar: its periods, which
        begin with the first instant of a day by the clock, so that days have 23 or 25 hours where clocks are
        set; as Spark's ``date_trunc`` in a session of that zone.

    Raises
    ------
    InvalidType, InvalidValue
        A length is malformed or not positive, or `start_time` is too large; or a zone is given for lengths
        that are not whole numbers of days or months.

    Examples
    --------
    >>> print(tumbling("1 day", zone="America/New_York"))
    tumbling(1 day, zone=America/New_York)
    >>> print(tumbling("1 week", week_start="sunday"), tumbling("1 quarter"))
    tumbling(7 days, week_start=sunday) tumbling(3 months)
    >>> print(tumbling("1 hour", start_time="15 minutes"))
    tumbling(1 hour, start_time=15 minutes)
    >>> print(tumbling(rows=100))
    tumbling(100 rows)
    """
    refuse_both("size", size, rows)
    if rows is not None:
        measure: Period = row_count("rows", rows)
    elif size is not None:
        measure = period("size", size)
    else:
        raise InvalidType("size: None is given, and no rows; give a size such as '10 minutes', or rows=100")
    start = optional_period("start_time", start_time)
    zone, first = checked_zone(zone), checked_week_start(week_start)
    return Tumbling(measure, start, partial, zone=zone, week_start=first)
