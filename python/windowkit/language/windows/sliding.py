"""Windows that overlap, over one measure or over two."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from windowkit.errors import InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.checks import one_of
from windowkit.language.durations import Length, Partial, Period, Rows, period
from windowkit.language.windows.base import (
    Assembly,
    optional_period,
    require_partial,
    require_positive,
    require_same_kind,
    require_start_time,
    shown,
    units,
)
from windowkit.language.windows.local import Localised, Weekday, ZoneLike, checked_week_start, checked_zone
from windowkit.language.windows.tumbling import trailing


@dataclass(frozen=True, repr=False)
class Sliding(Localised):
    """Windows ``[start_time + k * slide, start_time + k * slide + size)``; see `sliding`."""

    kind: ClassVar[str] = "sliding"
    size: Period
    slide: Period
    start_time: Period | None = None
    partial: Partial = "none"
    order: Literal["time", "arrival"] = "time"

    def check(self) -> None:
        """Refuse lengths that are no windows."""
        require_positive("size", self.size)
        require_positive("slide", self.slide)
        one_of("order", self.order, ("time", "arrival"))
        if self.counts_arrivals and not self.slides_by_rows:
            raise InvalidValue(
                f"order: 'arrival' is given for windows of {shown(self.size)} every {shown(self.slide)}; "
                "rows are counted as they arrive only by windows whose size is a length of time or "
                "integers and whose slide is a number of rows"
            )
        if self.is_local:
            self.require_periods("size", self.size)
            self.require_periods("slide", self.slide)
            self.require_same_unit("slide", self.slide, "size", self.size)
        if not self.is_multi_measure:
            require_same_kind("slide", self.slide, "size", self.size)
            if units(self.slide) > units(self.size):
                raise InvalidValue(
                    f"slide: {shown(self.slide)} is greater than size {shown(self.size)}; a sliding window's "
                    "slide is at most its size"
                )
        if self.is_local:
            self.require_local_start(self.start_time, "slide", self.slide)
            self.require_week_start("slide", self.slide)
        else:
            require_start_time(self.start_time, "slide", self.slide)
        require_partial(self.partial, isinstance(self.size, Rows) and isinstance(self.slide, Rows))

    @property
    def is_multi_measure(self) -> bool:
        """Whether one of size and slide is a number of rows and the other is not."""
        return isinstance(self.size, Rows) != isinstance(self.slide, Rows)

    @property
    def slides_by_rows(self) -> bool:
        """Whether a window ends every so many rows, and begins at a time."""
        return isinstance(self.slide, Rows) and not isinstance(self.size, Rows)

    @property
    def counts_arrivals(self) -> bool:
        """Whether a key's rows are counted as they arrive."""
        return self.order == "arrival"

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        order = ["order=arrival"] if self.counts_arrivals else []
        return [str(self.size), str(self.slide), *trailing(self, self.start_time, self.partial), *order]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        if self.is_multi_measure:
            end, begin = ("a time", "rank") if isinstance(self.size, Rows) else ("a row", "time")
            counted = ", counted in the order of arrival," if self.counts_arrivals else ""
            return f"{context}: {end}{counted} ends it, and determines the {begin} that begins it"
        count, rest = divmod(units(self.size), units(self.slide))
        several = f"{count} or {count + 1}" if rest else str(count)
        ranked = ", by its rank" if self.counts_rows else ""
        return f"{context}; a row is in {several} of them{ranked}{self.calendar()}"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "range"

    def lengths(self) -> Mapping[str, Period | None]:
        """Return size, slide and start_time."""
        return {"size": self.size, "slide": self.slide, "start_time": self.start_time}

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
        """How long after midnight its windows begin, if slide is a number of days or months."""
        return None if self.is_multi_measure else self.shift_of_days(self.slide, self.start_time)

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows: if it is by time."""
        return not self.counts_rows

    @property
    def overlaps(self) -> bool:
        """Whether a row may be in several windows of one size, each a slide after the one before."""
        return not self.is_multi_measure and self.slide != self.size


@hinted
def sliding(
    size: Length,
    slide: Length,
    *,
    start_time: Length | None = None,
    partial: Partial = "none",
    order: Literal["time", "arrival"] = "time",
    zone: ZoneLike | None = None,
    week_start: Weekday | None = None,
) -> Sliding:
    """Windows of one size that start every `slide`; each row is in about size / slide of them.

    Parameters
    ----------
    size : str, datetime.timedelta, int or Rows
        Length of a window, greater than zero: a duration, an ``int`` in the units of an integer column, a
        number of rows as in ``"100 rows"``, or a number of months, quarters or years of a calendar.
    slide : str, datetime.timedelta, int or Rows
        Distance from one start to the next: greater than zero, at most `size`, which it need not divide. If
        its measure differs from that of `size`, it is the distance from one end to the next.
    start_time : str, datetime.timedelta or int, optional
        Distance of a window's start from 1970-01-01 00:00:00 UTC (from 0 for an integer column); less than
        `slide` either way. Only with a slide of the time column.
    partial : {"none", "start", "end", "both"}
        For windows whose size and slide are numbers of rows: whether those with fewer rows are included that
        would begin before the first row of a key, or end after its last one. With ``"start"`` and ``"both"``
        a window ends every `slide` rows, otherwise one begins.
    order : str, default "time"
        For windows of a length of time every so many rows: whether a key's rows are counted in the order of
        ``"time"``, or of their ``"arrival"``, the order in which the data has them. Spark does not preserve
        the latter.
    zone : str or datetime.tzinfo, optional
        The time zone whose days, weeks, months, quarters and years the lengths are: a name such as
        ``"America/New_York"``, or an offset such as ``"+02:00"``. For columns of timestamps with a zone,
        whichever that is; without `zone`, their days are those of UTC.
    week_start : str, optional
        The day with which weeks begin, such as ``"sunday"``; Monday by default where there is a `zone`.
        Without both, weeks are seven days from a Thursday, as Spark's are.

    Returns
    -------
    Sliding
        The windows ``[start_time + k * slide, start_time + k * slide + size)`` for all integers k. Context
        free: O(1) work per row and per window, whatever size / slide is, because rows are aggregated into
        slices between window edges and windows are combined from slices (Li 2008, §5.1.2; Traub et al.
        2019, §4.4 and §5.3).

        With lengths in rows: of a key's rows, in the order of time and then of arrival, ranks
        ``[k * slide, k * slide + size)``; with ``partial="start"``, those of ``[(k + 1) * slide - size,
        (k + 1) * slide)`` that there are (Li 2008, Eq. 5.4-5.6).

        ``sliding("10 rows", "5 seconds")``: at each edge ``start_time + k * slide`` the last 10 rows of a key
        before it, or fewer while a key has fewer rows, if one of them came since the previous edge (Traub et
        al. 2019, §4.4). ``sliding("10 seconds", "100 rows")``: after each 100th row of a key, at a time t,
        the rows up to it with times in ``(t - 10 seconds, t]`` (Li 2008, Eq. 5.16-5.18). With
        ``order="arrival"`` it is the 100th, 200th, ... row of the key to arrive that ends a window (Eq.
        5.13-5.15): a row that comes late moves no window's end.

        All but the first store rows until all have arrived.

        With a calendar: a number of its periods by a number of them, of one unit, as in
        ``sliding("1 week", "1 day", zone="Europe/Paris")``; see `tumbling`.

    Raises
    ------
    InvalidType, InvalidValue
        A length is invalid or not positive, `slide` is greater than `size`, or `start_time` is too large; or
        `order` is not one of these, or is ``"arrival"`` for other windows.

    Examples
    --------
    >>> print(sliding("10 minutes", "1 minute"))
    sliding(10 minutes, 1 minute)
    >>> print(sliding(600, 60))
    sliding(600, 60)
    >>> print(sliding("10 rows", "5 seconds"))
    sliding(10 rows, 5 seconds)
    >>> print(sliding("10 seconds", "100 rows", order="arrival"))
    sliding(10 seconds, 100 rows, order=arrival)
    """
    start, zone = optional_period("start_time", start_time), checked_zone(zone)
    size, slide = period("size", size), period("slide", slide)
    return Sliding(size, slide, start, partial, order, zone=zone, week_start=checked_week_start(week_start))
