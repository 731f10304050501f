"""Checks of arguments, the same everywhere: messages name the argument, what was given, what is allowed."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Sequence
from typing import Any

from windowkit.errors import InvalidType, InvalidValue

__all__ = [
    *("a_type", "article", "boolean", "integer", "number", "one_of", "suggested", "text", "wrong_type"),
]


def article(noun: str) -> str:
    """Return a noun with its indefinite article."""
    # Names of types with u, such as UUID and uint8, begin with a consonant when spoken.
    return f"{'an' if noun[0] in 'aeioAEIO' else 'a'} {noun}"


def a_type(value: object) -> str:
    """Return the name of a value's type with its indefinite article, as in ``an int``."""
    return article(type(value).__name__)


def wrong_type(argument: str, value: object, allowed: str) -> InvalidType:
    """Return what is raised for a value of a type that is not allowed."""
    return InvalidType(f"{argument}: {value!r:.60} is {a_type(value)}; {allowed}")


def suggested(name: str, names: Iterable[str]) -> str:
    """Return what a message adds that does not know `name`: the name that is probably meant, if there is one.

    Examples
    --------
    >>> suggested("devise", ["ts", "device"])
    "; did you mean 'device'?"
    >>> suggested("V", ["ts", "v"]), suggested("k", ["ts", "v"])
    ("; did you mean 'v'?", '')
    """
    known = list(names)
    alike = [other for other in known if other.casefold() == name.casefold()]
    close = alike or difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def integer(
    argument: str, value: Any, allowed: str, least: int | None = None, most: int | None = None
) -> int:
    """Return an int within bounds, of anything that is a whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise wrong_type(argument, value, allowed)
    found = operator.index(value)
    if (least is not None and found < least) or (most is not None and found > most):
        raise InvalidValue(f"{argument}: {found} is out of range; {allowed}")
    return found


def number(argument: str, value: Any, allowed: str, least: float, most: float) -> float:
    """Return a float within bounds, which NaN never is."""
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if isinstance(value, bool | str) or not is_number:
        raise wrong_type(argument, value, allowed)
    found = float(value)
    if not least <= found <= most:
        raise InvalidValue(f"{argument}: {value!r} is out of range; {allowed}")
    return found


def boolean(argument: str, value: Any) -> bool:
    """Return a bool."""
    if not isinstance(value, bool):
        raise wrong_type(argument, value, "it is True or False")
    return value


def text(argument: str, value: Any, allowed: str = "it is a str") -> str:
    """Return a str."""
    if not isinstance(value, str):
        raise wrong_type(argument, value, allowed)
    return value


def one_of(argument: str, value: Any, allowed: Sequence[str]) -> str:
    """Return one of some names."""
    names = f"allowed are {', '.join(map(repr, allowed))}"
    if text(argument, value, names) not in allowed:
        raise InvalidValue(f"{argument}: {value!r} is unknown; {names}")
    return str(value)
