"""Triggers that combine no others: time, marked rows and shares of windows; and the forms of all triggers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any, ClassVar, Final, cast

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given, checked_name, number, one_of, wrong_type
from windowkit.language.durations import Duration, Length, Rows, plain, rows
from windowkit.language.durations import length as length_of
from windowkit.language.progress import of_clock
from windowkit.language.triggers import DEEPEST, AllOf, AnyOf, Chain, Combined, Term, Trigger
from windowkit.language.windows import units

__all__ = ["TRIGGERS", "At", "Every", "On", "at", "every", "on", "read"]

EVENT: Final = "event time"
PROCESSING: Final = "processing time"
FIRST_ROW: Final = "first row"


@dataclass(frozen=True, slots=True)
class Every(Trigger):
    """A trigger that time sets; made by `windowkit.every`."""

    keys: ClassVar[tuple[str, ...]] = ("every", "of", "since")
    length: Duration | int
    of: str = EVENT
    since: str | None = None

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
        by_clock = "ticks" if self.since is None else "waits"
        return [Term(by_clock if self.has_clock else "every", length=self.length)]

    def __repr__(self) -> str:
        shown = plain(self.length)
        of = "" if self.of == EVENT else f", of={self.of!r}"
        return f"every({shown!r}{of}{'' if self.since is None else f', since={self.since!r}'})"


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

    def __repr__(self) -> str:
        return f"at({self.share!r})"


def every(length: Length, of: str = EVENT, since: str | None = None) -> Every:
    """Return a trigger that fires keys with new rows whenever time passes a multiple of a length.

    Parameters
    ----------
    length : str, datetime.timedelta or int
        A duration above zero, or for an integer time column an int. Boundaries are its multiples: counted
        from 1970-01-01 00:00:00 UTC, from 0 in an integer column.
    of : {"event time", "processing time"}
        Whether the watermark passes the boundaries (rows in order are watermarks), or the clock of the
        operator, which each of its calls reads once.
    since : "first row", optional
        Of processing time: a key fires so long after the first row that came since it last fired, a timeout,
        rather than at multiples.

    Returns
    -------
    Every
        A call that passes a boundary fires all keys that have rows since they last fired, those of the call
        included; it fires them once, however many boundaries it passes. Where there was no watermark before,
        none is passed. O(keys) for such a call, and for one in which a timeout may be over; O(1) for any
        other.

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
    >>> wk.rows(100) | wk.every("10 seconds", of="processing time", since="first row")
    rows(100) | every('10 seconds', of='processing time', since='first row')
    """
    one_of("of", of, (EVENT, PROCESSING))
    if since is not None:
        one_of("since", since, (FIRST_ROW,))
        if of == EVENT:
            raise InvalidValue(
                f"since: {since!r} is given for event time; it is a timeout by the clock, of={PROCESSING!r}"
            )
    measure = length_of("length", length)
    if isinstance(measure, Rows):
        raise InvalidType(
            f"length: {measure} is a number of rows; a length of time is a duration, or an int in the "
            "units of an integer column; windowkit.rows(n) is a trigger by itself"
        )
    if units(measure) <= 0:
        raise InvalidValue(f"length: {as_given(length)} is given; allowed are lengths above zero")
    if of == PROCESSING:
        of_clock("length", length)
    return Every(measure, of, since)


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
        after it, unless the same call makes it final. If it has no rows then, it is not emitted early. Of a
        landmark window, the share is that of the stretch that the window before does not have.

    Returns
    -------
    At
        It concerns single windows, not keys, so it can only be combined by ``|``. Only windows whose extent
        is known before their rows can have it: tumbling, sliding and landmark windows by time, bands, and
        users' own calendars. O(open windows) for a call that moves the watermark.

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
        raise InvalidValue(f"share: {as_given(share)} is out of range; {allowed}")
    return At(given)


TRIGGERS: Final[Mapping[type[Trigger], Callable[..., Trigger]]] = {
    Rows: rows,
    Every: every,
    On: on,
    At: at,
    AnyOf: AnyOf,
    AllOf: AllOf,
    Chain: Chain,
}
"""All triggers, by which forms are read, and what makes each of the values of its form."""


def read(form: object, depth: int = 0) -> Trigger:
    """Return the trigger of a form: a mapping from its kind to what it has.

    Raises
    ------
    InvalidType, InvalidValue
        It is not one, or whatever the function that makes such a trigger raises.
    """
    if not isinstance(form, Mapping):
        raise wrong_type("early", form, "in a form, a trigger is a mapping of one name")
    # Each may be repeated, which is a mapping around it.
    if depth > 2 * DEEPEST:
        raise InvalidValue(f"early: triggers are within each other; allowed are {DEEPEST} times")
    if list(form) == ["repeat"]:
        return read(form["repeat"], depth + 1).repeat()
    for each, make in TRIGGERS.items():
        if needed(each) <= form.keys() <= set(each.keys):
            if issubclass(each, Combined):
                return make(operands(each.keys[0], form[each.keys[0]], depth + 1))
            return make(*(form[key] for key in each.keys if key in form))
    kinds = ", ".join([*(each.keys[0] for each in TRIGGERS), "repeat"])
    others = [
        f"{kind} also takes {', '.join(more)}" for kind, *more in (each.keys for each in TRIGGERS) if more
    ]
    raise InvalidValue(
        f"early: {as_given(form):.60} is not a trigger; it has one of the keys {kinds} ({'; '.join(others)})"
    )


def needed(kind: type[Trigger]) -> set[str]:
    """Return the keys of a form that must be there: those of fields without a default."""
    stated = zip(kind.keys, fields(cast(Any, kind)), strict=False)
    return {key for key, field in stated if field.default is MISSING}


def operands(kind: str, given: object, depth: int) -> tuple[Trigger, ...]:
    """Return the triggers that a form combines."""
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise wrong_type("early", given, f"in a form, {kind!r} has a list of triggers")
    if len(given) < 2:
        raise InvalidValue(
            f"early: {as_given(given):.60} is given for {kind!r}; it has at least two triggers"
        )
    return tuple(read(each, depth) for each in given)
