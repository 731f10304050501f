"""Windows that all begin at a landmark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.durations import Duration, Length, Months, Partial, Period, Rows
from windowkit.language.durations import period as period_of
from windowkit.language.moments import Moment, Place, PlaceLike, kind_of_place, place
from windowkit.language.windows.base import (
    Assembly,
    kind_of,
    optional_period,
    partial_argument,
    require_no_rows,
    require_partial,
    require_positive,
    require_same_kind,
    require_start_time,
    shown,
    units,
)
from windowkit.language.windows.local import (
    DAY,
    SHORTEST_MONTH,
    Localised,
    Weekday,
    ZoneLike,
    checked_week_start,
    checked_zone,
)


@dataclass(frozen=True, repr=False)
class Landmark(Localised):
    """Windows ``[s, s + every)``, ``[s, s + 2 * every)``, ... of landmarks s; see `landmark`."""

    kind: ClassVar[str] = "landmark"
    every: Period
    start: Place | None = None
    period: Period | None = None
    start_time: Period | None = None
    partial: Partial = "none"

    def check(self) -> None:
        """Refuse lengths that are no windows."""
        require_positive("every", self.every)
        require_partial(self.partial, self.counts_rows)
        if isinstance(self.every, Rows):
            for name in ("start", "period", "start_time", "zone", "week_start"):
                if getattr(self, name) is not None:
                    raise InvalidValue(
                        f"{name}: {getattr(self, name)} is given where every is {self.every}; windows of a "
                        "number of rows begin with the first row of a key"
                    )
            return
        if (self.start is None) == (self.period is None):
            given = "neither start nor period is"
            if self.start is not None:
                given = f"{self.start} and period {self.period} are"
            raise InvalidValue(f"start: {given} given; give start or period")
        if self.start is not None:
            if self.is_local:
                what = self.given() if not isinstance(self.every, Months) else f"every is {self.every}"
                raise InvalidValue(
                    f"start: {self.start} is given where {what}; windows of a calendar begin with a period"
                )
            if self.start_time is not None:
                raise InvalidValue(
                    f"start_time: {shown(self.start_time)} is given without a period; start is the only "
                    "landmark"
                )
            is_time = isinstance(self.every, Duration)
            if isinstance(self.start, Moment | Duration) != is_time:
                raise InvalidType(
                    f"start: {self.start} is {kind_of_place(self.start)} where every {shown(self.every)} is "
                    f"{kind_of(self.every)}; both are of one kind"
                )
        if self.period is not None:
            require_no_rows("period", self.period)
            require_positive("period", self.period)
            if self.is_local:
                self.require_local(self.period)
                return
            require_same_kind("period", self.period, "every", self.every)
            if units(self.period) % units(self.every):
                raise InvalidValue(
                    f"period: {shown(self.period)} is not a multiple of every {shown(self.every)}; a period "
                    "must be, so that a window ends with its period"
                )
            require_start_time(self.start_time, "period", self.period)

    def require_local(self, period: Period) -> None:
        """Refuse lengths that do not fit a calendar."""
        self.require_periods("period", period)
        if not isinstance(self.every, Duration | Months):
            self.require_periods("every", self.every)
        is_mixed = isinstance(self.every, Months) != isinstance(period, Months)
        if isinstance(self.every, Months) and is_mixed:
            self.require_same_unit("every", self.every, "period", period)
        is_fixed = isinstance(self.every, Duration) and self.every.nanoseconds % DAY != 0
        if not is_mixed and not is_fixed and units(period) % units(self.every):
            raise InvalidValue(
                f"period: {shown(period)} is not a multiple of every {shown(self.every)}; a period must be, "
                "so that a window ends with its period"
            )
        if units(self.every) > units(period) * (SHORTEST_MONTH if is_mixed else 1):
            raise InvalidValue(
                f"every: {shown(self.every)} is longer than period {shown(period)}; it is at most "
                "the shortest"
            )
        self.require_local_start(self.start_time, "period", period)
        self.require_week_start("period", period)

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows, so that `windowkit.at` can be of it."""
        return not self.counts_rows

    @property
    def rows_may_move(self) -> bool:
        """Whether a row that comes later may move others to other windows: late ones count for the next."""
        return True

    @property
    def is_fixed(self) -> bool:
        """Whether no row changes where its windows begin and end: rows move on, to windows that are there."""
        return not self.counts_rows

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        named = {"start": self.start, "period": self.period, "start_time": self.start_time}
        given = [f"{name}={each}" for name, each in named.items() if each is not None]
        return [str(self.every), *given, *self.calendar_arguments(), *partial_argument(self.partial)]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; a row is in all that end after it, those of its landmark{self.calendar()}"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "range"

    @property
    def is_endless(self) -> bool:
        """Whether a row is in infinitely many windows: all that end after it, of a single landmark."""
        return self.period is None and not self.counts_rows

    def lengths(self) -> Mapping[str, Period | Moment | None]:
        """Return every, start, period and start_time."""
        return {
            "every": self.every,
            "start": self.start,
            "period": self.period,
            "start_time": self.start_time,
        }


@hinted
def landmark(
    every: Length,
    *,
    start: PlaceLike | None = None,
    period: Length | None = None,
    start_time: Length | None = None,
    zone: ZoneLike | None = None,
    week_start: Weekday | None = None,
    partial: Partial = "none",
) -> Landmark:
    """Windows that begin at a landmark and grow: the results so far, once per `every`.

    Parameters
    ----------
    every : str, datetime.timedelta, int or Rows
        Distance from one window's end to the next, greater than zero. The landmark of a number of rows, as in
        ``"100 rows"``, is the first row of a key: it takes neither `start` nor `period`.
    start : datetime.datetime, datetime.date, datetime.timedelta, str or int, optional
        The only landmark, as `band` takes a start.
    period : str, datetime.timedelta or int, optional
        Instead of `start`: distance from one landmark to the next, a multiple of `every`. Windows end with
        their period.
    start_time : str, datetime.timedelta or int, optional
        With a period: distance of a landmark from 1970-01-01 00:00:00 UTC (from 0 for an integer column).
    zone : str or datetime.tzinfo, optional
        The time zone whose days, weeks, months, quarters and years the lengths are: a name such as
        ``"America/New_York"``, or an offset such as ``"+02:00"``. For columns of timestamps with a zone,
        whichever that is; without `zone`, their days are those of UTC.
    week_start : str, optional
        The day with which weeks begin, such as ``"sunday"``; Monday by default where there is a `zone`.
        Without both, weeks are seven days from a Thursday, as Spark's are.
    partial : {"none", "start", "end", "both"}
        For a number of rows: with ``"end"`` or ``"both"``, the last window of a key is included if it has
        fewer new rows.

    Returns
    -------
    Landmark
        The windows ``[s, s + j * every)`` for j = 1, 2, ... and each landmark s, except windows with no new
        row since the previous one. Context free: O(1) work per row and per window (Li 2008, Eq. 5.7-5.9). By
        rows: ranks ``[0, j * every)`` of a key's rows, which a stream stores all.
        With a calendar, landmarks are the beginnings of its periods; see `tumbling`. `every` is a number of
        these, of days if they are months, or a time that has passed since the landmark, in hours for
        instance; the last window of a period ends with it, sooner than `every` after the one before if need
        be.

    Raises
    ------
    InvalidType, InvalidValue
        A length is malformed, `period` is not a multiple of `every`, or both or neither of `start` and
        `period` are given.

    Examples
    --------
    >>> print(landmark("1 hour", period="1 day"))
    landmark(1 hour, period=1 day)
    >>> print(landmark("1 hour", period="1 day", zone="Europe/Paris"))
    landmark(1 hour, period=1 day, zone=Europe/Paris)
    >>> print(landmark("1 minute", start="2024-01-31 12:00:00Z"))
    landmark(1 minute, start=2024-01-31 12:00:00Z)
    >>> print(landmark("100 rows", partial="end"))
    landmark(100 rows, partial=end)
    """
    return Landmark(
        period_of("every", every),
        None if start is None else place("start", start),
        optional_period("period", period),
        optional_period("start_time", start_time),
        zone=checked_zone(zone),
        week_start=checked_week_start(week_start),
        partial=partial,
    )
