"""Emission policies: when a stream emits windows that are not final, and how their results relate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Final, Literal, TypeAlias

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import checked_name, integer, number, one_of, wrong_type
from windowkit.language.durations import Duration, Length, Rows, plain
from windowkit.language.durations import length as length_of
from windowkit.language.progress import of_clock, of_measure
from windowkit.language.triggers import AllOf, AnyOf, Chain, Read, Term, Trigger, trigger
from windowkit.language.windows import Window, units

__all__ = ["TRIGGERS", "At", "Emission", "Every", "On", "at", "emit", "every", "on", "read"]

EVENT: Final = "event time"
PROCESSING: Final = "processing time"
Refinement: TypeAlias = Literal["accumulating", "discarding", "retracting"]
REFINEMENTS: Final[tuple[Refinement, ...]] = ("accumulating", "discarding", "retracting")


@dataclass(frozen=True, slots=True)
class Every(Trigger):
    """A trigger that time sets; made by `windowkit.every`."""

    keys: ClassVar[tuple[str, ...]] = ("every", "of")
    length: Duration | int
    of: str = EVENT

    @property
    def has_clock(self) -> bool:
        """Whether it is of processing time."""
        return self.of == PROCESSING

    @property
    def lengths(self) -> tuple[Duration | int, ...]:
        """Its length, if it is of event time."""
        return (self.length,) if self.of == EVENT else ()

    def terms(self) -> list[Term]:
        """Return it in postfix order."""
        return [Term("ticks" if self.has_clock else "every", length=self.length)]

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        return {"every": plain(self.length), "of": self.of}

    @classmethod
    def from_form(cls, form: Mapping[str, Any], read: Read) -> Every:
        """Return the trigger of a form."""
        return every(form["every"], form.get("of", EVENT))

    def __repr__(self) -> str:
        shown = plain(self.length)
        return f"every({shown!r})" if self.of == EVENT else f"every({shown!r}, of={self.of!r})"


@dataclass(frozen=True, slots=True)
class On(Trigger):
    """A trigger that marked rows set; made by `windowkit.on`."""

    keys: ClassVar[tuple[str, ...]] = ("on",)
    column: str

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of marks."""
        return (self.column,)

    def terms(self) -> list[Term]:
        """Return it in postfix order."""
        return [Term("on", columns=self.columns)]

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        return {"on": self.column}

    @classmethod
    def from_form(cls, form: Mapping[str, Any], read: Read) -> On:
        """Return the trigger of a form."""
        return on(form["on"])

    def __repr__(self) -> str:
        return f"on({self.column!r})"


@dataclass(frozen=True, slots=True)
class At(Trigger):
    """A trigger of single windows; made by `windowkit.at`."""

    keys: ClassVar[tuple[str, ...]] = ("at",)
    share: float

    @property
    def shares(self) -> tuple[float, ...]:
        """Its share."""
        return (self.share,)

    def terms(self) -> list[Term]:
        """Return it in postfix order."""
        return [Term("at", share=self.share)]

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        return {"at": self.share}

    @classmethod
    def from_form(cls, form: Mapping[str, Any], read: Read) -> At:
        """Return the trigger of a form."""
        return at(form["at"])

    def __repr__(self) -> str:
        return f"at({self.share!r})"


def every(length: Length, of: str = EVENT) -> Every:
    """Return a trigger that fires keys with new rows whenever time passes a multiple of a length.

    Parameters
    ----------
    length : str, datetime.timedelta or int
        A duration above zero, or for an integer time column an int. Boundaries are its multiples: counted
        from 1970-01-01 00:00:00 UTC, from 0 in an integer column.
    of : {"event time", "processing time"}
        Whether the watermark passes the boundaries (rows in order are watermarks), or the clock of the
        operator, which each of its calls reads once.

    Returns
    -------
    Every
        A call that passes a boundary fires all keys that have rows since they last fired, those of the call
        included; it fires them once, however many boundaries it passes. Where there was no watermark before,
        none is passed. O(keys) for such a call, O(1) for any other.

    Raises
    ------
    InvalidType, InvalidValue
        The length is malformed, not above zero, a number of rows, or has a calendar unit such as the
        month; or, of processing time, it is not a duration of whole microseconds. `windowkit.Query.operator`
        raises if it does not fit the time column.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> wk.every("5 seconds"), wk.every(100), wk.every("1 minute", of="processing time")
    (every('5 seconds'), every(100), every('1 minute', of='processing time'))
    """
    one_of("of", of, (EVENT, PROCESSING))
    measure = length_of("length", length)
    if isinstance(measure, Rows):
        raise InvalidType(
            f"length: {measure} is a number of rows; a length of time is a duration, or an int in the "
            "units of an integer column; windowkit.rows(n) is a trigger by itself"
        )
    if units(measure) <= 0:
        raise InvalidValue(f"length: {length!r} is given; allowed are lengths above zero")
    if of == PROCESSING:
        of_clock("length", length)
    return Every(measure, of)


def on(column: str) -> On:
    """Return a trigger that fires a key in each call that brings it a marked row.

    Parameters
    ----------
    column : str
        A boolean column: a row is marked if it is true there. A null is not true.

    Raises
    ------
    InvalidType, InvalidValue
        `column` is not a name. `windowkit.Query.operator` raises if there is no such column of booleans.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.on("urgent") | wk.rows(1000)
    on('urgent') | rows(1000)
    """
    return On(checked_name("column", column))


def at(share: float) -> At:
    """Return a trigger that emits each window once, when the watermark has passed this share of it.

    Parameters
    ----------
    share : float
        Above 0 and below 1. A window ``[start, end)`` is emitted by the call that moves the watermark from
        before ``start + share * (end - start)``, rounded up to the unit of the time column, to there or
        after it, unless the same call makes it final. If it has no rows then, it is not emitted early.

    Returns
    -------
    At
        It concerns single windows, not keys, so it can only be combined by ``|``. Only windows whose extent
        is known before their rows can have it: tumbling and sliding windows by time, and users' own
        calendars. O(open windows) for a call that moves the watermark.

    Raises
    ------
    InvalidType, InvalidValue
        `share` is not a number between 0 and 1.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.at(0.5) | wk.at(0.9) | wk.rows(1000)
    at(0.5) | at(0.9) | rows(1000)
    """
    allowed = "a share is a number above 0 and below 1"
    given = number("share", share, allowed, 0, 1)
    if not 0 < given < 1:
        raise InvalidValue(f"share: {share!r} is out of range; {allowed}")
    return At(given)


TRIGGERS: Final[tuple[type[Trigger], ...]] = (Rows, Every, On, At, AnyOf, AllOf, Chain)
"""All triggers, by which forms are read."""


def read(form: object) -> Trigger:
    """Return the trigger of a form: a mapping from its kind to what it has.

    Raises
    ------
    InvalidType, InvalidValue
        It is not one, or whatever the function that makes such a trigger raises.
    """
    if not isinstance(form, Mapping):
        raise wrong_type("early", form, "in a form, a trigger is a mapping of one name")
    if list(form) == ["repeat"]:
        return read(form["repeat"]).repeat()
    for each in TRIGGERS:
        if each.keys[0] in form and form.keys() <= set(each.keys):
            return each.from_form(form, read)
    kinds = ", ".join([*(each.keys[0] for each in TRIGGERS), "repeat"])
    optional = [
        f"{kind} also takes {', '.join(more)}" for kind, *more in (each.keys for each in TRIGGERS) if more
    ]
    raise InvalidValue(
        f"early: {form!r:.60} is not a trigger; it has one of the keys {kinds} ({'; '.join(optional)})"
    )


@dataclass(frozen=True)
class Emission:
    """When a stream emits windows before they are final, and how results relate; made by `windowkit.emit`."""

    early: Trigger | None = None
    refinement: Refinement = "accumulating"
    at_most: int | None = None
    later: Duration | int | None = None

    def __post_init__(self) -> None:
        if self.early is not None:
            trigger("early", self.early)
        one_of("refinement", self.refinement, REFINEMENTS)
        if self.at_most is not None:
            integer("at_most", self.at_most, "it is a number of rows of at least 1, or None", 1, 2**62)
        if self.later is not None:
            of_measure("later", self.later)
        if self.discards and self.shares:
            raise InvalidValue(
                f"refinement: 'discarding' is given with early={self.early!r}; at(...) emits whole windows, "
                "so allowed with it are 'accumulating' and 'retracting'"
            )

    @property
    def discards(self) -> bool:
        """Whether results are of the rows since the one before."""
        return self.refinement == "discarding"

    @property
    def has_clock(self) -> bool:
        """Whether it depends on the clock of the operator."""
        return self.early is not None and self.early.has_clock

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return () if self.early is None else self.early.columns

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of windows after which these are emitted."""
        return () if self.early is None else self.early.shares

    @property
    def waits(self) -> dict[str, int | str]:
        """How many rows a call returns and how long they may wait, as far as they are given."""
        later = None if self.later is None else plain(self.later)
        return {
            name: value for name, value in (("at_most", self.at_most), ("later", later)) if value is not None
        }

    @property
    def terms(self) -> list[Term]:
        """The trigger in postfix order."""
        return [] if self.early is None else self.early.terms()

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse results without room for what it adds.

        Raises
        ------
        InvalidValue
            A column has the name of one that it adds.
        """
        added = ["emission", *(["weight"] if self.refinement == "retracting" else [])]
        for column in columns:
            if column in added:
                raise InvalidValue(
                    f"emit: results would have two columns {column!r}; an emission policy adds it, so give "
                    "the other one another name"
                )

    def check(self, windows: Iterable[Window]) -> None:
        """Refuse windows that cannot be emitted in this way.

        Raises
        ------
        InvalidType, InvalidValue
            It discards, and a row may move to other windows: to a session that merges with another, to the
            next window of a landmark, to windows by rows; or it has `windowkit.at`, and the extent of a
            window is not known before its rows, or it would never fire; or it counts time otherwise.
        """
        for window in windows:
            self.check_kind(window)
            if self.discards and window.rows_may_move:
                raise InvalidValue(
                    f"emit: {self!r} is given for {window}, whose rows may move to other windows, so "
                    "results would not add up; 'discarding' is allowed for tumbling and sliding windows by "
                    "time, calendars, bands and the global window"
                )
            if self.shares and not window.known_before_rows:
                raise InvalidValue(
                    f"emit: {self!r} is given for {window}; at(...) is allowed for windows whose start and "
                    "end are known before their rows: tumbling and sliding windows by time, and calendars"
                )
            size = window.lengths().get("size")
            if isinstance(size, int | Duration):
                for share in self.shares:
                    # The decimal number that is written, as the core has it. Times are whole numbers.
                    if units(size) * (1 - Fraction(repr(share))) < 1:
                        raise InvalidValue(
                            f"emit: at({share!r}) is given for {window}, but this share of a window, rounded "
                            "up to the unit of the time column, is all of it, so that it would never fire; "
                            "allowed are smaller shares, and longer windows"
                        )

    def check_kind(self, window: Window) -> None:
        """Refuse durations where a window ranges over integers, and integers where it ranges over times.

        Raises
        ------
        InvalidType
            It does so.
        """
        lengths = [
            each for each in window.lengths().values() if each is not None and not isinstance(each, Rows)
        ]
        own = [] if self.early is None else [*self.early.lengths]
        if self.later is not None:
            own.append(self.later)
        for given in own if lengths else []:
            if isinstance(given, int) != isinstance(lengths[0], int):
                kind = "an integer" if isinstance(given, int) else "a duration"
                raise InvalidType(
                    f"emit: {self!r} is given for {window}, but {kind} does not match its lengths; "
                    "allowed are durations for windows over times, and integers for windows over integers"
                )

    def check_lateness(self, lateness: int, name: str) -> None:
        """Refuse late rows of a query of this name where results of a window add up.

        Raises
        ------
        InvalidValue
            It discards, and there is an allowed lateness.
        """
        if self.discards and lateness > 0:
            raise InvalidValue(
                f"refinement: it is 'discarding' for {name!r}, which has an allowed_lateness; an update "
                "covers all rows of a window, so allowed are 'accumulating' and 'retracting', or an "
                "allowed_lateness of 0"
            )

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        return {
            "early": None if self.early is None else self.early.form(),
            "refinement": self.refinement,
            **self.waits,
        }

    def __repr__(self) -> str:
        early = [] if self.early is None else [repr(self.early)]
        refinement = [] if self.refinement == "accumulating" else [f"refinement={self.refinement!r}"]
        given = [f"{name}={value!r}" for name, value in self.waits.items()]
        return f"emit({', '.join([*early, *refinement, *given])})"


def emit(
    early: Trigger | None = None,
    refinement: Refinement = "accumulating",
    *,
    at_most: int | None = None,
    later: Length | None = None,
) -> Emission:
    """Return a policy: when a stream emits windows that are not final, and how their results relate.

    Parameters
    ----------
    early : Trigger, optional
        When: `windowkit.rows`, `windowkit.every`, `windowkit.on`, `windowkit.at`, or combinations of them.
        When a key fires, the stream emits all its open windows that have rows since it last fired. Without
        triggers, only `windowkit.Operator.fire` emits early results.
    refinement : {"accumulating", "discarding", "retracting"}
        How results of one window relate to each other. Accumulating: each covers all its rows so far, and
        replaces the one before. Discarding: each covers the rows since the key last fired; their sums and
        counts add up. Retracting: each covers all rows so far, and before it comes a row that retracts the
        previous result: the same values with weight -1.
    at_most : int, optional
        A call returns at most this many rows of the query; the rest wait, in order, for later calls.
        `close` returns everything.
    later : str, datetime.timedelta or int, optional
        Results wait until the watermark has advanced by this much, in event time, since the call that made
        them: few calls then return many rows. With `at_most`, a call returns that many rows, and all those
        that have waited this long. `windowkit.Operator.watermark_out` is held back with them.

    Returns
    -------
    Emission
        For `windowkit.query`, `windowkit.Query.operator` or `windowkit.Operator.add`. Results of an operator
        with such a policy have the column ``emission``: ``early``, ``final``, ``late`` (an update of a final
        window) or ``retraction``; and if a policy retracts, ``weight``, an int8 of 1 or -1.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is not as described above. `windowkit.query` raises where a policy does not fit the
        windows: discarding sessions, landmark windows and windows determined by rows; `windowkit.at` with
        windows whose extent depends on their rows, or so short that it would never fire; durations for
        windows over integers; and where a column of the results has the name of one that it adds.
        `windowkit.Query.operator` raises for discarding with an allowed lateness.

    Notes
    -----
    Accumulating stores the times of rows that no result contains yet, at most a few per slice; retracting
    adds a copy of each result until its window has expired; discarding needs less memory than no policy, as
    rows are dropped once a result contains them.
    Triggers keep a few words per key. Triggers and refinement: Akidau et al., *The Dataflow Model*, VLDB
    2015, §2.3. Results that wait: slow flush and lazy flush, Li 2008, §8.3.3.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> query = wk.query(
    ...     by=[],
    ...     time="t",
    ...     windows=wk.tumbling(10),
    ...     aggs=wk.count().alias("n"),
    ...     emit=wk.emit(wk.rows(2), refinement="retracting"),
    ... )
    >>> op = query.operator()
    >>> for times in ([1, 2], [3, 4], [10]):
    ...     results = op.push(pa.table({"t": times})).to_pylist()
    ...     print([(row["n"], row["emission"], row["weight"]) for row in results])
    [(2, 'early', 1)]
    [(2, 'retraction', -1), (4, 'early', 1)]
    [(4, 'retraction', -1), (4, 'final', 1)]
    """
    return Emission(early, refinement, at_most, None if later is None else of_measure("later", later))
