"""Window types of the language: tumbling, sliding and session windows over an advancing measure.

A window is a plain value: frozen, hashable, picklable, and equal to what `parse` makes of its text.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final, NamedTuple, TypeVar

from windowkit.durations import Duration, Length, Measure, length
from windowkit.errors import InvalidType, InvalidValue

__all__ = ["Session", "Sliding", "Tumbling", "Window", "parse", "session", "sliding", "tumbling"]

Specification = tuple[str, str, int, int, int, bool]
"""``(kind, name, size, slide, offset, is_time)``, as the native core takes a window."""

Lengths = tuple[Measure, Measure | None, Measure | None]

AnyWindow = TypeVar("AnyWindow", bound="Window")


@dataclass(frozen=True)
class Window(ABC):
    """Base of `Tumbling`, `Sliding` and `Session`; made by `tumbling`, `sliding` and `session`.

    A window is a set of intervals ``[start, end)`` of the time column. A result has those of them, key by
    key, that contain a row. ``str(window)`` is a text form, and `parse` reads it back.
    """

    kind: ClassVar[str]
    """``tumbling``, ``sliding`` or ``session``."""

    label: str | None = field(default=None, kw_only=True)
    """The alias, if one was given."""

    def alias(self: AnyWindow, name: str) -> AnyWindow:
        """Return the same window under another name.

        The name is what the column ``window_name`` of a result says where a query has several windows.

        Raises
        ------
        InvalidType, InvalidValue
            `name` is no string, or empty.

        Examples
        --------
        >>> tumbling("1 day").alias("daily").name
        'daily'
        """
        return replace(self, label=checked_name("alias", name))

    @property
    def name(self) -> str:
        """The alias, or else the text form."""
        return self.text if self.label is None else self.label

    def __str__(self) -> str:
        """Return the text form, followed by `` as <alias>`` where there is one."""
        return self.text if self.label is None else f"{self.text} as {quoted(self.label)}"

    @property
    def text(self) -> str:
        """The text form without alias, as in ``sliding(10 minutes, 1 minute)``."""
        size, slide, start_time = self._lengths()
        written = str(size) if slide is None else f"{size}, {slide}"
        return f"{self.kind}({written}{'' if start_time is None else f', start_time={start_time}'})"

    @property
    def is_time(self) -> bool:
        """Whether lengths are durations; else they are units of an integer time column."""
        return isinstance(self._lengths()[0], Duration)

    def specification(self) -> Specification:
        """Return ``(kind, name, size, slide, offset, is_time)``, lengths in nanoseconds or in units.

        What there is not is 0: only a sliding window has a slide, and a session's size is its gap.
        """
        size, slide, start_time = map(units, self._lengths())
        return self.kind, self.name, size, slide, start_time, self.is_time

    @abstractmethod
    def _lengths(self) -> Lengths:
        """Return size (or gap), slide and start_time; None for what the type does not have."""


@dataclass(frozen=True)
class Tumbling(Window):
    """Windows ``[start_time + k * size, start_time + (k + 1) * size)``; see `tumbling`."""

    kind: ClassVar[str] = "tumbling"
    size: Measure
    start_time: Measure | None = None

    def __post_init__(self) -> None:
        require_positive("size", self.size)
        require_start_time(self.start_time, "size", self.size)

    def _lengths(self) -> Lengths:
        return self.size, None, self.start_time


@dataclass(frozen=True)
class Sliding(Window):
    """Windows ``[start_time + k * slide, start_time + k * slide + size)``; see `sliding`."""

    kind: ClassVar[str] = "sliding"
    size: Measure
    slide: Measure
    start_time: Measure | None = None

    def __post_init__(self) -> None:
        require_positive("size", self.size)
        require_positive("slide", self.slide)
        require_same_kind("slide", self.slide, "size", self.size)
        if units(self.slide) > units(self.size):
            raise InvalidValue(
                f"slide: {shown(self.slide)} is greater than size {shown(self.size)}; a sliding window's "
                "slide is at most its size"
            )
        require_start_time(self.start_time, "slide", self.slide)

    def _lengths(self) -> Lengths:
        return self.size, self.slide, self.start_time


@dataclass(frozen=True)
class Session(Window):
    """Windows that end once no row has come for `gap`; see `session`."""

    kind: ClassVar[str] = "session"
    gap: Measure

    def __post_init__(self) -> None:
        require_positive("gap", self.gap)

    def _lengths(self) -> Lengths:
        return self.gap, None, None


def tumbling(size: Length, *, start_time: Length | None = None) -> Tumbling:
    """Windows one after the other, each row in exactly one.

    Parameters
    ----------
    size : str, datetime.timedelta or int
        Length of a window, greater than zero: a duration, or an ``int`` in the units of an integer column.
    start_time : str, datetime.timedelta or int, optional
        Distance of a window's start from 1970-01-01 00:00:00 UTC (from 0 for an integer column); less than
        `size` either way.

    Returns
    -------
    Tumbling
        The windows ``[start_time + k * size, start_time + (k + 1) * size)`` for all integers k. Context
        free: O(1) work per row, O(1) memory per window (Li 2008, §5.1.2; Traub et al. 2019, §4.4).

    Raises
    ------
    InvalidType, InvalidValue
        A length is not one, is not positive, or `start_time` is too large.

    Examples
    --------
    >>> print(tumbling("1 hour", start_time="15 minutes"))
    tumbling(1 hour, start_time=15 minutes)
    """
    return Tumbling(length("size", size), optional_length("start_time", start_time))


def sliding(size: Length, slide: Length, *, start_time: Length | None = None) -> Sliding:
    """Windows of one size that start every `slide`, each row in about size / slide of them.

    Parameters
    ----------
    size : str, datetime.timedelta or int
        Length of a window, greater than zero: a duration, or an ``int`` in the units of an integer column.
    slide : str, datetime.timedelta or int
        Distance of one start to the next, greater than zero, at most `size`; need not divide it.
    start_time : str, datetime.timedelta or int, optional
        Distance of a window's start from 1970-01-01 00:00:00 UTC (from 0 for an integer column); less than
        `slide` either way.

    Returns
    -------
    Sliding
        The windows ``[start_time + k * slide, start_time + k * slide + size)`` for all integers k. Context
        free: O(1) work per row and per window, whatever size / slide is, because rows are aggregated into
        slices between window edges and windows are combined from slices (Li 2008, §5.1.2; Traub et al.
        2019, §4.4 and §5.3).

    Raises
    ------
    InvalidType, InvalidValue
        A length is not one, is not positive, `slide` is greater than `size`, or `start_time` is too large.

    Examples
    --------
    >>> print(sliding("10 minutes", "1 minute"))
    sliding(10 minutes, 1 minute)
    >>> print(sliding(600, 60))
    sliding(600, 60)
    """
    return Sliding(length("size", size), length("slide", slide), optional_length("start_time", start_time))


def session(gap: Length) -> Session:
    """Windows of activity: rows of one key with no pause longer than `gap`.

    Parameters
    ----------
    gap : str, datetime.timedelta or int
        Greater than zero: a duration, or an ``int`` in the units of an integer column. A row exactly `gap`
        after the last one still joins its session, as in Spark.

    Returns
    -------
    Session
        The windows ``[first row, last row + gap)``. Context aware, but out-of-order rows only ever join
        fragments, so partial aggregates suffice and no rows are kept (Traub et al. 2019, §5.1): O(log n)
        work and O(1) memory per fragment.

    Raises
    ------
    InvalidType, InvalidValue
        `gap` is no length, or not positive.

    Examples
    --------
    >>> print(session("30 seconds").alias("visit"))
    session(30 seconds) as visit
    """
    return Session(length("gap", gap))


def parse(text: str) -> Window:
    """Read a window from its text form.

    Parameters
    ----------
    text : str
        ``tumbling(size)``, ``sliding(size, slide)`` or ``session(gap)``, the first two with an optional
        ``start_time=...`` as last argument, each with an optional ``as name``. Lengths are durations or whole
        numbers, unquoted; a name that is more than words stands in backticks.

    Returns
    -------
    Window
        ``parse(str(window)) == window`` holds for every window.

    Raises
    ------
    InvalidValue
        `text` is no window; or whatever `tumbling`, `sliding` and `session` raise.

    Examples
    --------
    >>> parse("sliding(10 minutes, 1 minute, start_time=15 seconds) as recent").name
    'recent'
    >>> parse("session(30)") == session(30)
    True
    """
    call = read_call("window", text, WINDOW_FORMS)
    lengths = [argument for argument in call.arguments if not argument.startswith("start_time")]
    expected = {"tumbling": 1, "sliding": 2, "session": 1}.get(call.function)
    options = call.arguments[len(lengths) :]
    if expected != len(lengths) or len(options) > (call.function != "session"):
        raise InvalidValue(f"window: {text!r} is no window; {WINDOW_FORMS}")
    start_time = None
    if options:
        option, equals, value = options[0].partition("=")
        if option.strip() != "start_time" or not equals:
            raise InvalidValue(f"window: {text!r} is no window; {WINDOW_FORMS}")
        start_time = number_or_text(value)
    measures = [number_or_text(piece) for piece in lengths]
    window: Window
    if call.function == "tumbling":
        window = tumbling(*measures, start_time=start_time)
    elif call.function == "sliding":
        window = sliding(*measures, start_time=start_time)
    else:
        window = session(*measures)
    return window if call.name is None else window.alias(call.name)


WINDOW_FORMS: Final = (
    "windows are tumbling(10 minutes), sliding(10 minutes, 1 minute) and session(30 seconds), with lengths "
    "like '10 minutes' or whole numbers, start_time=... last, and optionally 'as name'"
)


def number_or_text(text: str) -> str | int:
    """Return the whole number `text` is, if it is one."""
    # Twenty digits are out of any length's range, whichever they are; `length` says so.
    text = text.strip()
    return int(text[:21]) if re.fullmatch(r"[+-]?[0-9]+", text) else text


def units(measure: Measure | None) -> int:
    """Return nanoseconds, or units of an integer column; 0 for none."""
    if measure is None:
        return 0
    return measure.nanoseconds if isinstance(measure, Duration) else measure


def shown(measure: Measure) -> str:
    """Return `measure` for a message, as the user wrote it."""
    return repr(measure.text) if isinstance(measure, Duration) else str(measure)


def optional_length(argument: str, value: Length | None) -> Measure | None:
    return None if value is None else length(argument, value)


def require_positive(argument: str, measure: Measure) -> None:
    if units(measure) <= 0:
        raise InvalidValue(f"{argument}: {shown(measure)} is not positive; a {argument} is greater than zero")


def require_same_kind(argument: str, measure: Measure, other: str, reference: Measure) -> None:
    if isinstance(measure, Duration) != isinstance(reference, Duration):
        raise InvalidType(
            f"{argument}: {shown(measure)} is {kind_of(measure)} where {other} {shown(reference)} is "
            f"{kind_of(reference)}; the lengths of a window are all durations or all integers"
        )


def kind_of(measure: Measure) -> str:
    return "a duration" if isinstance(measure, Duration) else "an integer"


def require_start_time(start_time: Measure | None, other: str, period: Measure) -> None:
    if start_time is None:
        return
    require_same_kind("start_time", start_time, other, period)
    if abs(units(start_time)) >= units(period):
        raise InvalidValue(
            f"start_time: {shown(start_time)} is not less than {other} {shown(period)}; a start_time is "
            f"less than the {other}, forwards or backwards"
        )


# The text forms of windows and of aggregates share one grammar: call(argument, ...) as name.


class Call(NamedTuple):
    """A parsed ``function(argument, ...) where filter as name``; arguments are stripped, but still quoted."""

    function: str
    arguments: Sequence[str]
    name: str | None
    filter: str | None = None


QUOTED: Final = r"`(?:[^`]|``)*`(?!`)"
CALL: Final = re.compile(
    rf"\s*(?P<function>\w+)\s*\((?P<arguments>(?:{QUOTED}|[^`()])*)\)"
    rf"(?:\s+where\s+(?P<filter>{QUOTED}|\S.*?))?(?:\s+as\s+(?P<name>\S.*?))?\s*",
    re.IGNORECASE | re.DOTALL,
)
# A comma with an even number of backticks behind it stands outside quotes.
COMMA: Final = re.compile(r",(?=(?:[^`]*`[^`]*`)*[^`]*$)", re.DOTALL)
PLAIN: Final = re.compile(r"[^\W\d]\w*(?:[ .-]\w+)*")


def read_call(argument: str, text: str, allowed: str, *, filters: bool = False) -> Call:
    """Split ``function(argument, ...) where filter as name``; `argument` and `allowed` are for the message.

    Only with `filters` may there be a filter.
    """
    if not isinstance(text, str):
        raise InvalidType(f"{argument}: {text!r} is a {type(text).__name__}; the text form is a str")
    match = CALL.fullmatch(text)
    if match is None or (match["filter"] is not None and not filters):
        raise InvalidValue(f"{argument}: {text!r} is no {argument}; {allowed}")
    inside = match["arguments"].strip()
    arguments = [piece.strip() for piece in COMMA.split(inside)] if inside else []
    name = None if match["name"] is None else unquoted(argument, match["name"])
    where = None if match["filter"] is None else unquoted(argument, match["filter"])
    return Call(match["function"].lower(), arguments, name, where)


def quoted(name: str) -> str:
    """Return `name` as the text forms write it: in backticks unless it is only words."""
    return name if PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def unquoted(argument: str, text: str) -> str:
    """Return the name that `quoted` made `text` of; any text without backticks is itself a name."""
    if "`" not in text:
        return text
    if not re.fullmatch(QUOTED, text, re.DOTALL):
        raise InvalidValue(
            f"{argument}: {text!r} is no name; a name with backticks doubles them and stands in backticks"
        )
    return text[1:-1].replace("``", "`")


def checked_name(argument: str, name: str) -> str:
    """Return `name` if it can name a column."""
    if not isinstance(name, str):
        raise InvalidType(f"{argument}: {name!r} is a {type(name).__name__}; a name is a str")
    if not name:
        raise InvalidValue(f"{argument}: '' is empty; a name has at least one character")
    if re.search("[\0\ud800-\udfff]", name):
        raise InvalidValue(
            f"{argument}: {name!r} has a NUL or half a surrogate pair; a name is what Arrow can hold, UTF-8 "
            "without NUL"
        )
    return name
