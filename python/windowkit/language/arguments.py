"""Arguments that a function does not have: what is meant by those that other libraries have."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

from windowkit.errors import InvalidType
from windowkit.language.checks import suggested

__all__ = ["hinted"]

Function = TypeVar("Function", bound=Callable[..., Any])

UNEXPECTED: Final = re.compile(r"(.+)\(\) got an unexpected keyword argument '(\w+)'(\. Did you mean .*)?")
"""What Python says; from 3.13 on with a guess of its own."""
CLOSED: Final = (
    "windows include their start and not their end; frames have it, as "
    "wk.sum('v').over('10 minutes', closed='right')"
)
FEW: Final = "frames with few rows have results, too; filter by a wk.count('v').over(...) of the same frame"
CALLED: Final = {
    **dict.fromkeys(("closed", "inclusive", "include_boundaries"), CLOSED),
    **dict.fromkeys(("label", "labels"), "a result has both window_start and window_end"),
    **dict.fromkeys(("min_periods", "min_samples"), FEW),
    "center": "write before= and after=, as in .over(before='5 minutes', after='5 minutes')",
    **dict.fromkeys(("offset", "origin", "base", "align_to"), "where windows begin is start_time="),
    **dict.fromkeys(("freq", "every", "rule", "windowDuration"), "the length of a window is size="),
    **dict.fromkeys(("slideDuration", "step", "hop"), "how often a window begins is slide="),
    "period": "the length of a window is size=",
    **dict.fromkeys(("gapDuration", "timeout"), "the time without rows that ends a session is gap="),
    **dict.fromkeys(
        ("on", "index_column", "timeColumn", "time_column"), "the time column of a query is time="
    ),
    **dict.fromkeys(("group_by", "groupby", "partition_by", "keys"), "the key columns of a query are by="),
    **dict.fromkeys(("tz", "timezone", "time_zone"), "days of a time zone are those of zone="),
    **dict.fromkeys(("agg", "aggregates", "aggregations"), "what is computed is aggs="),
    **dict.fromkeys(("tolerance", "allowance"), "how far the times of partners may be apart is within="),
    **dict.fromkeys(("left_on", "right_on"), "times are left_time= and right_time=, and keys by="),
}
"""By the name elsewhere, what it is here."""
PROGRESS: Final = "how far the watermark stays behind the rows is progress=windowkit.delay(...)"
OF: Final = {
    ("join", "on"): "keys are by=, and times left_time= and right_time=",
    ("join", "time"): "times are left_time= and right_time=",
    ("sliding", "every"): CALLED["hop"],
    ("rolling", "period"): "an aggregate has its frame, as wk.sum('v').over('10 minutes')",
    ("session", "max_duration"): "the greatest length of a session is at_most=",
    **{("Query.operator", name): PROGRESS for name in ("watermark", "delay", "grace")},
    ("Query.operator", "trigger"): "when windows are emitted early is emit=windowkit.emit(...)",
}
"""The same of one function, by its name and that elsewhere."""


def hinted(function: Function) -> Function:
    """Return a function that says what is meant by an argument that it does not have.

    Examples
    --------
    >>> @hinted
    ... def tumbling(size, start_time=None):
    ...     return size
    >>> tumbling("1 day", offset="6 hours")
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidType: offset: tumbling has no such argument; where windows begin is start_time=
    """
    names = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        try:
            return function(*given, **named)
        except TypeError as error:
            found = UNEXPECTED.fullmatch(str(error))
            if found is None or found[1] != function.__qualname__ or found[2] in names:
                raise
            argument = found[2]
            meant = OF.get((function.__qualname__, argument), CALLED.get(argument))
            hint = suggested(argument, names) if meant is None else f"; {meant}"
            raise InvalidType(f"{argument}: {function.__name__} has no such argument{hint}") from None

    return cast("Function", call)
