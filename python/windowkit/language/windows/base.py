"""What all window types have: a kind, a name, a text form, and how the native core takes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar, Literal, TypeVar, final, get_args

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import article, as_given, checked_name, one_of
from windowkit.language.durations import (
    Duration,
    Length,
    Measure,
    Months,
    Partial,
    Period,
    Rows,
    length,
    period,
)
from windowkit.language.durations import rows as number_of_rows
from windowkit.language.engines import process
from windowkit.language.moments import Moment
from windowkit.language.windows.grammar import quoted

__all__ = ["Assembly", "Window"]

Assembly = Literal["own", "range", "fragments", "all"]
"""Of which slices a window is made: of its own, of a range that other windows share, of fragments that lie
close together, or of all there are."""

AnyWindow = TypeVar("AnyWindow", bound="Window")


@dataclass(frozen=True, repr=False)
class Window(ABC):
    """Base of all window types; made by `tumbling`, `sliding`, `session` and the other functions.

    A window is a set of intervals of the time column, or of a key's rows. A result has those of them, key by
    key, that contain a row. ``str(window)`` is a text form, and `parse` reads it back.
    """

    kind: ClassVar[str]
    """The name of the function that makes it, such as ``tumbling``."""

    label: str | None = field(default=None, kw_only=True)
    """The alias, if one was given."""

    def alias(self: AnyWindow, name: str) -> AnyWindow:
        """Return the same window under another name.

        The name is what the column ``window_name`` of a result says where a query has several windows.

        Raises
        ------
        InvalidType, InvalidValue
            `name` is not a string, or is empty.

        Examples
        --------
        >>> from windowkit import tumbling
        >>> tumbling("1 day").alias("daily").name
        'daily'
        """
        return replace(self, label=checked_name("alias", name))

    @property
    def name(self) -> str:
        """The alias, or else the text form."""
        return self.text if self.label is None else self.label

    def __repr__(self) -> str:
        return f"<windowkit.Window {self}>"

    def _repr_html_(self) -> str:
        return f"<code>{escape(str(self))}</code>"

    def __str__(self) -> str:
        """Return the text form, followed by `` as <alias>`` where there is one."""
        return self.text if self.label is None else f"{self.text} as {quoted(self.label)}"

    @property
    def text(self) -> str:
        """The text form without alias, as in ``sliding(10 minutes, 1 minute)``."""
        return f"{self.kind}({', '.join(self.arguments())})"

    @abstractmethod
    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""

    @abstractmethod
    def character(self, context: str) -> str:
        """Describe what kind of windows these are, for `windowkit.Query.explain`.

        `context` is the class that the core reports for the type, such as ``context free`` (Traub et al.
        2019, §4.4).
        """

    @property
    @abstractmethod
    def assembly(self) -> Assembly:
        """Of which slices a window is made where no rows are stored."""

    def lengths(self) -> Mapping[str, Period | Moment | None]:
        """Return the lengths and moments by argument; None for those not given."""
        return {}

    @property
    def longest(self) -> Measure | None:
        """The greatest length of a window, where only a user's definition says it."""
        return None

    @property
    def is_local(self) -> bool:
        """Whether its lengths are periods of a calendar, such as days of a time zone, or months."""
        return False

    @property
    def local_zone(self) -> str | None:
        """The time zone whose periods its lengths are, where one is given."""
        return None

    @property
    def plain(self) -> Window:
        """The window over columns that are there by name, those that are computed included."""
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the window reads besides the time."""
        return ()

    def column_types(self, time: pa.DataType) -> Mapping[str, pa.DataType]:
        """Return a type for each of its columns that is not a number, if the time column has this type."""
        return {}

    @property
    def counts_rows(self) -> bool:
        """Whether one of its lengths is a number of rows: results then have the column ``window_rows``."""
        return any(isinstance(each, Rows) for each in self.lengths().values())

    @property
    def includes_end(self) -> bool:
        """Whether a window's end is the time of its last row, and included: that of windows by rows is."""
        measures = [each for each in self.lengths().values() if each is not None]
        return bool(measures) and all(isinstance(each, Rows) for each in measures)

    @property
    def counts_arrivals(self) -> bool:
        """Whether the order in which rows arrive determines its windows, even where their times differ."""
        return False

    @property
    def is_session(self) -> bool:
        """Whether it is a session, for which Spark's result has a column of its own name."""
        return False

    @property
    def overlaps(self) -> bool:
        """Whether a row may be in several windows of one size, each a slide after the one before."""
        return False

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows, so that `windowkit.at` can be of it."""
        return False

    @property
    def follows_in_time(self) -> bool:
        """Whether its windows follow each other in time, so that those without rows are known, too."""
        return False

    @property
    def rows_may_move(self) -> bool:
        """Whether a row that comes later may move others to other windows, so that results do not add up."""
        return not self.known_before_rows

    @property
    def known_length(self) -> int | None:
        """How long a window is at most, where the time of a row alone says which windows it is in.

        In nanoseconds, or in units of an integer column. None where other rows decide, or nothing limits it.
        """
        return None

    @property
    def day_shift(self) -> int | None:
        """How long after midnight its windows begin, in nanoseconds, if each begins on a day of its own."""
        return None

    @property
    def is_fixed(self) -> bool:
        """Whether no row changes where its windows begin and end, so that a row can be taken out of one."""
        return not self.rows_may_move

    @property
    def ends_with_stream(self) -> bool:
        """Whether no watermark makes a window final, but only the end of the stream."""
        return False

    @property
    def is_endless(self) -> bool:
        """Whether a row is in infinitely many windows, those without new rows included."""
        return False

    @property
    def is_user_defined(self) -> bool:
        """Whether a user's code defines it."""
        return False

    @property
    def revises_itself(self) -> bool:
        """Whether a window that was emitted may change though no row was late, as a user's code says so."""
        return False

    @final
    def wids(self, times: Any, *, validate: bool = False) -> pa.StructArray:
        """Return the ids of the windows that each time is in: a range.

        Windows are numbered in their order, whatever rows there are. ``tumbling`` and ``sliding``: window k
        is ``[start_time + k * slide, start_time + k * slide + size)``, so ids may be negative. ``landmark``:
        window k ends at ``start_time + (k + 1) * every``, or at ``start + (k + 1) * every`` for k >= 0. A
        ``band`` is window 0.

        Parameters
        ----------
        times : Arrow array
            Timestamps, dates, durations or integers: a pyarrow Array or ChunkedArray, a Polars or pandas
            Series, or anything with the interface of an Arrow array or stream.
        validate : bool, default False
            Look at every value, as for `windowkit.kernels.sliding`.

        Returns
        -------
        pyarrow.StructArray
            For each time ``first`` and ``last``, int64: it is in the windows from the first to the last, both
            included. Null for a null, and for a time that is in no window. For a landmark with a single
            `start`, a time is in all windows from the first on, and `last` is 2**63 - 1. O(1) per time (Li
            2008, Eq. 5.3 and 5.9; `wids` of his Bucket operator, §6.1.3.1).

        Raises
        ------
        InvalidType
            The windows have no ids, since rows determine where they are: sessions, windows by rows or over
            two measures, by punctuation, between predicates, the global window, and user-defined ones. Or
            `times` does not have a type that they range over.
        InvalidValue
            A length is finer than the unit of `times`.
        Overflow
            An id, or an edge of a window, does not fit 64 bits.

        See Also
        --------
        extent : the inverse.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> wk.sliding(10, 5).wids(pa.array([0, 12, None])).to_pylist()
        [{'first': -1, 'last': 0}, {'first': 1, 'last': 2}, None]
        >>> wk.landmark(6, period=24).wids(pa.array([7, 25])).to_pylist()
        [{'first': 1, 'last': 3}, {'first': 4, 'last': 7}]
        """
        with process(times) as here:
            return here.wids(self, times, validate)

    @final
    def extent(self, ids: Any, time_type: Any = None, *, validate: bool = False) -> pa.StructArray:
        """Return start and end of windows, by their ids.

        ``start <= t < end`` if and only if the window's id is in the range that `wids` returns for t.

        Parameters
        ----------
        ids : Arrow array
            Integers, as `wids` takes times.
        time_type : pyarrow.DataType, optional
            The type of the time column. By default int64 for windows over integers; else microseconds (or
            nanoseconds, if a length is finer) without a zone, unless the edges of a band or a landmark have
            one, or are durations.
        validate : bool, default False
            Look at every value, as for `windowkit.kernels.sliding`.

        Returns
        -------
        pyarrow.StructArray
            For each id ``start`` and ``end``, of that type, or int64 for any integers. Null for a null, and
            for an id of no window: any but 0 of a band, and a negative one of a landmark with a single
            `start`. O(1) per id (Li 2008, Eq. 5.2 and 5.8).

        Raises
        ------
        InvalidType, InvalidValue
            As `wids`; or `ids` are not integers, or `time_type` is not an Arrow type.
        Overflow
            The type cannot hold an edge.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> wk.sliding(10, 5).extent(pa.array([-1, 2])).to_pylist()
        [{'start': -5, 'end': 5}, {'start': 10, 'end': 20}]
        >>> days = wk.tumbling("1 day").extent(pa.array([19_000]), pa.date32())
        >>> print(days[0].as_py()["start"])
        2022-01-08
        """
        with process(ids) as here:
            return here.extent(self, ids, time_type, validate)


def time_type(windows: Collection[Window], schema: pa.Schema | None = None) -> pa.DataType:
    """Return a type of time columns that these windows, over columns of `schema`, can range over."""
    if schema is not None:
        read = (
            schema.field(name).type for window in windows for name in window.columns if name in schema.names
        )
        if any(map(pa.types.is_duration, read)):
            # Gaps of sessions.
            return pa.timestamp("us")
    every = (each for window in windows for each in (*window.lengths().values(), window.longest))
    lengths = [each for each in every if each is not None]
    if not lengths or any(isinstance(each, int) for each in lengths):
        return pa.int64()
    timed = [each for each in lengths if isinstance(each, Duration | Moment)]
    unit = "ns" if any(each.nanoseconds % 1_000 for each in timed) else "us"
    if any(isinstance(window.lengths().get("start"), Duration) for window in windows):
        return pa.duration(unit)
    zoned = any(isinstance(each, Moment) and each.zoned for each in timed)
    zoned |= any(window.local_zone is not None for window in windows)
    return pa.timestamp(unit, "UTC" if zoned else None)


def units(measure: Period | Moment | None) -> int:
    """Return nanoseconds, units of an integer column, rows, or months; 0 for none."""
    if isinstance(measure, Duration | Moment):
        return measure.nanoseconds
    if isinstance(measure, Rows):
        return measure.count
    return measure.months if isinstance(measure, Months) else measure or 0


def shown(measure: Period) -> str:
    """Return `measure` for a message, as the user wrote it."""
    if isinstance(measure, Duration):
        return repr(measure.text)
    return as_given(measure) if isinstance(measure, int) else str(measure)


def optional_length(argument: str, value: Length | None) -> Measure | None:
    return None if value is None else length(argument, value)


def optional_period(argument: str, value: Length | None) -> Period | None:
    return None if value is None else period(argument, value)


def require_positive(argument: str, measure: Period) -> None:
    if units(measure) <= 0:
        raise InvalidValue(
            f"{argument}: {shown(measure)} is not positive; {article(argument)} must be greater than zero"
        )


def require_no_rows(argument: str, measure: Period | None) -> None:
    """Refuse a number of rows where a stretch of the time column is meant."""
    if isinstance(measure, Rows):
        raise InvalidType(
            f"{argument}: {measure} is a number of rows; {argument} is a duration, or an int in the units of "
            "an integer column"
        )


def require_same_kind(argument: str, measure: Period, other: str, reference: Period) -> None:
    if kind_of(measure) != kind_of(reference):
        raise InvalidType(
            f"{argument}: {shown(measure)} is {kind_of(measure)} where {other} {shown(reference)} is "
            f"{kind_of(reference)}; the lengths of a window are all of one kind"
        )


def kind_of(measure: Period) -> str:
    if isinstance(measure, Rows):
        return "a number of rows"
    if isinstance(measure, Months):
        return "a number of months"
    return "a duration" if isinstance(measure, Duration) else "an integer"


def require_start_time(start_time: Period | None, other: str, period: Period) -> None:
    if start_time is None:
        return
    require_no_rows("start_time", start_time)
    if isinstance(period, Rows):
        raise InvalidValue(
            f"start_time: {shown(start_time)} is given where {other} is {period}; windows that rows begin or "
            "end have no start_time"
        )
    require_same_kind("start_time", start_time, other, period)
    if abs(units(start_time)) >= units(period):
        raise InvalidValue(
            f"start_time: {shown(start_time)} is not less than {other} {shown(period)}; a start_time is "
            f"less than the {other}, forwards or backwards; to begin a window at a moment, give what is left "
            f"of its distance from 1970-01-01 after whole multiples of the {other}"
        )


def require_partial(partial: Partial, by_rows: bool) -> None:
    """Refuse `partial` where no window has fewer rows than another."""
    one_of("partial", partial, get_args(Partial))
    if partial != "none" and not by_rows:
        raise InvalidValue(
            f"partial: '{partial}' is given; only windows whose size and slide are numbers of rows can have "
            "fewer rows than others"
        )


def partial_argument(partial: Partial) -> list[str]:
    """Return the last argument of a text form, if there is one."""
    return [] if partial == "none" else [f"partial={partial}"]


def refuse_both(argument: str, value: object, rows: object) -> None:
    """Refuse a length that is given in rows and otherwise."""
    if value is not None and rows is not None:
        raise InvalidValue(
            f"{argument}: {as_given(value)} is given together with rows={as_given(rows)}; give one of the two"
        )


def row_count(argument: str, rows: int) -> Rows:
    """Return a number of rows given as an int."""
    given = length(argument, rows)
    if isinstance(given, Rows):
        return given
    if isinstance(given, Duration):
        raise InvalidType(f"{argument}: {given.text!r} is a duration; {argument} is a number of rows")
    return number_of_rows(given)
