"""Frames: the rows around a row, by time or by number, that an aggregate of `windowkit.rolling` is over.

An option of a frame has these places: `Aggregate.over`, `frame` and `Frame` here, whose text is a part of the
result's name and whose `meaning` is for ``explain``; its key in `written.py`, absent by default; `PyFrame` in
``src/python/rolling.rs`` and `FrameSpec` in ``src/operator/rolling.rs``. Labels (`Rolling::bind` there) and
`spark/routes/pieces.py`, which cuts keys by how far frames reach, depend on frames, too. Spark's workers get
frames as they are. ``tests/README.md`` has the places in tests.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import as_given, one_of
from windowkit.language.durations import Length, Measure, Rows, length
from windowkit.language.windows.base import units
from windowkit.language.windows.grammar import number_or_text

__all__ = ["FRAME_FORMS", "Frame", "frame", "parse"]

ENDS: Final = {
    "both": "with both ends",
    "left": "without the end",
    "right": "without the start",
    "neither": "without its ends",
}
"""What `closed` may be, and what it means."""
UNBOUNDED: Final = "unbounded"
UNBOUNDED_ROWS: Final = "unbounded rows"
WRITE: Final = (
    "write .over('10 minutes'), .over('100 rows'), .over('unbounded') or .over(before='5 minutes', "
    "after='5 minutes')"
)
FRAME_FORMS: Final = (
    "frames are (10 minutes), (100 rows), (unbounded) or (5 minutes before, 1 minute after), with lengths in "
    "units of integer times as whole numbers, and optionally 'closed left' (or right, both, neither) or "
    "'tail 5 minutes' last"
)
WORD: Final = re.compile(
    r"(?:(?P<first>closed|tail)\s+)?(?P<value>.*?)(?:(?<!\s)\s+(?P<last>before|after))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True)
class Frame:
    """The rows around a row; made by ``over`` of an aggregate.

    Parameters
    ----------
    before, after : Duration, int, Rows or None
        How far it reaches back from a row, and ahead of it: a time, a number in the units of an integer time
        column, or a number of rows. None for all there are.
    closed : "both", "left", "right" or "neither"
        Which of its two ends are in it.
    by_rows : bool
        Whether it counts rows rather than time.
    tail : Duration, int or None
        It begins where `before` says, or earlier: at a multiple of so much time.
    """

    before: Measure | None
    after: Measure | None
    closed: str
    by_rows: bool
    tail: Measure | None = None

    def __str__(self) -> str:
        """Return it as names of results show it, as in ``10 minutes, closed left``."""
        if zero(self.after) and not (self.by_rows and self.closed == "both"):
            named, usual = shown(self.before, self.by_rows), "right" if self.by_rows else "both"
        else:
            sides = ((self.before, "before"), (self.after, "after"))
            each = (f"{shown(reach, self.by_rows)} {side}" for reach, side in sides if not zero(reach))
            named, usual = ", ".join(each), "both"
        if self.tail is not None:
            named += f", tail {self.tail}"
        return named if self.closed == usual else f"{named}, closed {self.closed}"

    @property
    def meaning(self) -> str:
        """Which rows are in it, in words."""
        here = "the row itself" if self.by_rows else "its time"
        start = (
            here if zero(self.before) else "the first row" if self.before is None else f"{self.before} before"
        )
        if self.tail is not None:
            start = f"the last multiple of {self.tail} at or before {start}"
        end = here if zero(self.after) else "the last row" if self.after is None else f"{self.after} after"
        shared = "" if self.by_rows else "; rows at one time have the same"
        return f"from {start} to {end}, {ENDS[self.closed]}{shared}"

    @property
    def looks_ahead(self) -> bool:
        """Whether it reaches beyond the time of its row."""
        return not zero(self.after)


def frame(
    size: Length | None,
    before: Length | None = None,
    after: Length | None = None,
    closed: str | None = None,
    tail: Length | None = None,
) -> Frame:
    """Return a frame of what ``over`` of an aggregate takes: see `windowkit.Aggregate.over`."""
    if size is None and before is None and after is None:
        raise InvalidValue(f"over: no length is given; {WRITE}")
    if size is not None and (before is not None or after is not None):
        side = "before" if before is not None else "after"
        raise InvalidValue(
            f"{side}: it is given beside a size, {as_given(size)}, which reaches back from a row; give a "
            "size, or before and after"
        )
    given = {"size": size} if size is not None else {"before": before, "after": after}
    lengths = {side: read(side, value) for side, value in given.items() if value is not None}
    by_rows = any(isinstance(each, Rows) or each == UNBOUNDED_ROWS for each in lengths.values())
    for side, each in lengths.items():
        if by_rows and not (isinstance(each, Rows) or each in (UNBOUNDED, UNBOUNDED_ROWS)):
            raise InvalidType(
                f"{side}: {each} is not a number of rows, but the other end of the frame is; a frame is "
                "either by rows or by time"
            )
    if all(zero(each) for each in lengths.values()):
        first = next(iter(lengths))
        raise InvalidValue(
            f"{first}: {lengths[first]} is given; a frame reaches back or ahead by more than 0"
        )
    none: Measure = Rows(0) if by_rows else 0
    ends = {side: None if isinstance(each, str) else each for side, each in lengths.items()}
    usual = "right" if by_rows and size is not None else "both"
    start = ends.get("size", ends.get("before", none))
    return Frame(
        start,
        ends.get("after", none),
        usual if closed is None else one_of("closed", closed, tuple(ENDS)),
        by_rows,
        None if tail is None else hop(tail, start, by_rows),
    )


def parse(text: str) -> Frame:
    """Read a frame from its text form, what stands in the brackets of ``over (...)``.

    Raises
    ------
    InvalidType, InvalidValue
        `text` is not a frame; or what ``over`` of an aggregate raises.

    Examples
    --------
    >>> parse("5 minutes before, 1 minute after, closed left") == frame(
    ...     None, before="5 minutes", after="1 minute", closed="left"
    ... )
    True
    >>> str(parse("100 rows"))
    '100 rows'
    """
    given: dict[str, Any] = {}
    for part in text.split(","):
        found = WORD.fullmatch(part.strip())
        assert found is not None, "it matches anything"
        word = (found["first"] or found["last"] or "size").lower()
        if (found["first"] and found["last"]) or word in given or not found["value"]:
            raise InvalidValue(f"over: {text!r} is not a frame; {FRAME_FORMS}")
        given[word] = found["value"].lower() if word == "closed" else number_or_text(found["value"])
    return frame(given.pop("size", None), **given)


def hop(tail: Length, start: Measure | None, by_rows: bool) -> Measure:
    """Return the time at whose multiples a frame begins that reaches back by `start`."""
    found = length("tail", tail)
    if isinstance(found, Rows) or by_rows:
        raise InvalidType(
            f"tail: {found} is given for a frame by {'rows' if by_rows else 'time'}; only a frame by "
            "time has a tail, which is cut at multiples of a length of time"
        )
    if units(found) <= 0:
        raise InvalidValue(f"tail: {found} is not above 0; a tail is cut at multiples of a positive length")
    if start is None or zero(start):
        reaches = "has no start" if start is None else "does not reach back"
        raise InvalidValue(
            f"tail: {found} is given for a frame that {reaches}; only a frame of a given length has a tail"
        )
    return found


def read(argument: str, value: Length) -> Measure | str:
    """Return a length from 0 on, or one of the words for none."""
    if isinstance(value, str) and (word := " ".join(value.lower().split())) in (UNBOUNDED, UNBOUNDED_ROWS):
        return word
    found = length(argument, value)
    if units(found) < 0:
        raise InvalidValue(f"{argument}: {found} is negative; a frame reaches back and ahead by 0 or more")
    return found


def zero(measure: Any) -> bool:
    """Return whether a length is none; without a bound it is not."""
    return not (measure is None or isinstance(measure, str)) and units(measure) == 0


def shown(measure: Measure | None, by_rows: bool) -> str:
    """Return a length for names."""
    if measure is None:
        return UNBOUNDED_ROWS if by_rows else UNBOUNDED
    return str(measure)
