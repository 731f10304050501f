"""The grammar that the text forms of windows and of aggregates share: ``call(argument, ...) as name``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given

__all__ = [
    "QUOTED",
    "Call",
    "bare",
    "name_after",
    "number_or_text",
    "quoted",
    "read_call",
    "split",
    "unquoted",
]


class Call(NamedTuple):
    """A parsed ``function(argument, ...) where filter as name``; arguments are stripped, but still quoted."""

    function: str
    arguments: Sequence[str]
    name: str | None
    filter: str | None = None


QUOTED: Final = r"`(?:[^`]|``)*`(?!`)"
# `(?<!\s)`: words are looked for once behind each run of spaces, and not behind each space.
CALL: Final = re.compile(
    rf"(?P<function>\w+)\s*\((?P<arguments>(?:{QUOTED}|[^`()])*)\)"
    rf"(?:\s+where\s+(?P<filter>{QUOTED}|\S.*?))?(?:(?<!\s)\s+as\s+(?P<name>\S.*))?",
    re.IGNORECASE | re.DOTALL,
)
AFTER_NAME: Final = re.compile(r"^[^`]*(?:[,()]|\swhere\s)", re.IGNORECASE)
"""What a name without backticks does not have: another call, or a filter, was meant."""
PLAIN: Final = re.compile(r"[^\W\d]\w*(?:[ .-]\w+)*")


def read_call(argument: str, text: str, allowed: str, *, filters: bool = False) -> Call:
    """Split ``function(argument, ...) where filter as name``; `argument` and `allowed` are for the message.

    Only with `filters` may there be a filter.
    """
    if not isinstance(text, str):
        raise InvalidType(f"{argument}: {as_given(text)} is {a_type(text)}; the text form is a str")
    match = CALL.fullmatch(text.strip())
    if match is None or (match["filter"] is not None and not filters):
        raise InvalidValue(f"{argument}: {text!r} is not a valid {argument}; {allowed}")
    inside = match["arguments"].strip()
    arguments = [piece.strip() for piece in split(inside, ",")] if inside else []
    name = None if match["name"] is None else name_after(argument, text, match["name"])
    where = None if match["filter"] is None else unquoted(argument, match["filter"])
    return Call(match["function"].lower(), arguments, name, where)


def name_after(argument: str, text: str, name: str) -> str:
    """Return the name after ``as`` in the text form of an argument."""
    if AFTER_NAME.search(name):
        raise InvalidValue(
            f"{argument}: {text!r} has more than a name after 'as'; give each {argument} by itself, a filter "
            "before 'as', and a name with such characters in backticks"
        )
    return unquoted(argument, name)


def split(text: str, separator: str) -> list[str]:
    """Split a string at a character outside of backticks, where an even number of these is behind it.

    Examples
    --------
    >>> split("a, `b, c`", ",")
    ['a', ' `b, c`']
    """
    parts = text.split("`")
    pieces = [""]
    for number, part in enumerate(parts):
        if number > 0:
            pieces[-1] += "`"
        is_outside = (len(parts) - 1 - number) % 2 == 0
        first, *others = part.split(separator) if is_outside else [part]
        pieces[-1] += first
        pieces += others
    return pieces


def quoted(name: str) -> str:
    """Return `name` as the text forms write it: in backticks unless it is only words."""
    return name if PLAIN.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def unquoted(argument: str, text: str) -> str:
    """Return the name that `quoted` made `text` of; any string without backticks is itself a name."""
    if "`" not in text:
        return text
    if not re.fullmatch(QUOTED, text, re.DOTALL):
        raise InvalidValue(
            f"{argument}: {text!r} is not a name; a name with backticks doubles them and stands in backticks"
        )
    return text[1:-1].replace("``", "`")


def number_or_text(text: str) -> str | int:
    """Return the whole number `text` is, if it is one."""
    # Twenty digits are out of any length's range, whichever they are; `length` says so.
    text = text.strip()
    return int(text[:21]) if re.fullmatch(r"[+-]?[0-9]+", text) else text


def bare(name: str) -> str:
    """Return `name` in backticks unless it is one word, as where something else may follow it."""
    return name if re.fullmatch(r"[^\W\d]\w*", name) else "`" + name.replace("`", "``") + "`"
