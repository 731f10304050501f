"""Windows from their text forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from windowkit.errors import InvalidValue
from windowkit.language.checks import suggested
from windowkit.language.hints import here
from windowkit.language.windows.band import band
from windowkit.language.windows.base import Window
from windowkit.language.windows.between import between
from windowkit.language.windows.everything import global_window
from windowkit.language.windows.grammar import number_or_text, read_call, unquoted
from windowkit.language.windows.landmark import landmark
from windowkit.language.windows.punctuation import punctuation
from windowkit.language.windows.session import session
from windowkit.language.windows.sliding import sliding
from windowkit.language.windows.tumbling import tumbling

__all__ = ["WINDOW_FORMS", "parse"]

WINDOW_FORMS: Final = (
    "windows are tumbling(10 minutes), sliding(10 minutes, 1 minute), session(30 seconds), with lengths like "
    "'10 minutes', '100 rows' or whole numbers, start_time=..., zone=America/New_York "
    "or week_start=monday last, or partial=start, end or both for rows, or order=arrival for "
    "sliding(10 seconds, 100 rows); "
    "session(column), and either session with an optional at_most=4 hours; "
    "band(2024-01-31 12:00:00, 2024-02-01 12:00:00), landmark(1 hour, period=1 day) or landmark(1 hour, "
    "start=...), punctuation(column) with an optional at=start, between(column, column) with an optional "
    "exclusive, and global_window(); and optionally 'as name'"
)

CALENDAR: Final = ("zone", "week_start")
"""Arguments that are never lengths."""

# How many arguments, which named ones, and which words.
FORMS: Final[dict[str, tuple[int, tuple[str, ...], tuple[str, ...], Callable[..., Window]]]] = {
    "tumbling": (1, ("start_time", "partial", *CALENDAR), (), tumbling),
    "sliding": (2, ("start_time", "partial", "order", *CALENDAR), (), sliding),
    "session": (1, ("at_most",), (), session),
    "band": (2, (), (), band),
    "landmark": (1, ("start", "period", "start_time", "partial", *CALENDAR), (), landmark),
    "punctuation": (1, ("at",), (), punctuation),
    "between": (2, (), ("exclusive",), between),
    "global_window": (0, (), (), global_window),
}

NAMING: Final = ("punctuation", "between")
"""Those whose arguments are all names; where only some are, the function in `FORMS` tells them apart."""


def parse(text: str) -> Window:
    """Read a window from its text form.

    Parameters
    ----------
    text : str
        A call of the function that makes it, such as ``tumbling(size)``, ``sliding(size, slide)`` or
        ``session(gap)``, with its optional arguments last, as in ``start_time=...``, and an optional ``as
        name``. Lengths are durations, numbers of rows or whole numbers, and times are ISO 8601, all unquoted;
        a column or name that is more than words stands in backticks.

    Returns
    -------
    Window
        ``parse(str(window)) == window`` holds for every window but `custom` ones.

    Raises
    ------
    InvalidValue
        `text` is not a window; or whatever the function raises.

    Examples
    --------
    >>> parse("sliding(10 minutes, 1 minute, start_time=15 seconds) as recent").name
    'recent'
    >>> parse("session(30)") == session(30)
    True
    >>> parse("tumbling(100 rows, partial=end)") == tumbling(rows=100, partial="end")
    True
    """
    call = read_call("window", text, WINDOW_FORMS)
    refused = InvalidValue(f"window: {text!r} is not a window; {WINDOW_FORMS}")
    if call.function not in FORMS:
        raise InvalidValue(f"{refused}{suggested(here(call.function), FORMS, call.function)}")
    count, names, words, make = FORMS[call.function]
    arguments: list[str | int] = [read(call.function, argument) for argument in call.arguments[:count]]
    given: dict[str, str | int | bool] = {}
    for option in call.arguments[count:]:
        name, equals, value = (part.strip() for part in option.partition("="))
        if name in given or not (name in names if equals else name in words):
            raise refused
        given[name] = True
        if equals:
            given[name] = value if name in CALENDAR else read(call.function, value)
    if len(arguments) != count or any(
        "=" in argument for argument in call.arguments[:count] if "`" not in argument
    ):
        raise refused
    window = make(*arguments, **given)
    return window if call.name is None else window.alias(call.name)


def read(function: str, argument: str) -> str | int:
    """Return an argument as the function takes it."""
    return unquoted("window", argument) if function in NAMING else number_or_text(argument)
