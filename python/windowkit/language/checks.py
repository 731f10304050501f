"""Checks of arguments, the same everywhere: messages name the argument, what was given, what is allowed."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final, TypeGuard, TypeVar

from windowkit.errors import InvalidType, InvalidValue

__all__ = [
    *(
        "Computed",
        "a_type",
        "allowed_options",
        "article",
        "boolean",
        "checked_name",
        "computed",
        "distinct_names",
        "integer",
        "items",
        "limit",
        "names",
        "no_option",
    ),
    *(
        "as_given",
        "number",
        "one_of",
        "refuse_duplicates",
        "refuse_nul",
        "repeated",
        "snapshot_bytes",
        "suggested",
        "text",
        "whole",
        "wrong_type",
    ),
]

Item = TypeVar("Item")
Word = TypeVar("Word", bound=str)
NAMES: Final = "a str or a sequence of str"
EXPRESSIONS: Final = {
    ("polars", "Expr"): "df.with_columns(expression.alias('x'))",
    ("pyspark", "Column"): "df.withColumn('x', expression)",
    ("pyarrow", "Expression"): "table.append_column('x', pyarrow.compute.multiply(...)) or another function",
}
"""How the libraries whose expressions are no names make columns of them."""


def article(noun: str) -> str:
    """Return a noun with its indefinite article."""
    # Names of types with u, such as UUID and uint8, begin with a consonant when spoken.
    return f"{'an' if noun[:1] in 'aeioAEIO' else 'a'} {noun}"


def a_type(value: object) -> str:
    """Return the name of a value's type with its indefinite article, as in ``an int``."""
    return article(type(value).__name__)


def wrong_type(argument: str, value: object, allowed: str) -> InvalidType:
    """Return what is raised for a value of a type that is not allowed."""
    # Tables and columns of libraries take many lines.
    shown = " ".join(as_given(value).splitlines())
    return InvalidType(f"{argument}: {shown:.60} is {a_type(value)}; {allowed}")


def as_given(value: object) -> str:
    """Return what a message shows of a value: its repr, if Python can make one.

    Examples
    --------
    >>> as_given(12), as_given("12"), as_given(10**5000), as_given([10**5000])
    ('12', "'12'", 'an int of 16,610 bits', 'a list whose text is too long')
    """
    try:
        return repr(value)
    except (ValueError, RecursionError):
        # An int of more digits than Python writes, or more containers within each other than it reads.
        if isinstance(value, int):
            return f"an int of {value.bit_length():,} bits"
        return f"{a_type(value)} whose text is too long"
    except TypeError:
        # What it returns is no str.
        return f"{a_type(value)} without a text"


def suggested(name: str, names: Iterable[str], given: str | None = None) -> str:
    """Return what a message adds that does not know `name`: the name that is probably meant, if there is one.

    That is never what was given: `name`, unless `given` says otherwise.

    Examples
    --------
    >>> suggested("devise", ["ts", "device"])
    "; did you mean 'device'?"
    >>> suggested("V", ["ts", "v"]), suggested("k", ["ts", "v"]), suggested("v", ["v"])
    ("; did you mean 'v'?", '', '')
    """
    known = list(names)
    alike = [other for other in known if other.casefold() == name.casefold()]
    close = alike or difflib.get_close_matches(name, known, n=1)
    is_other = bool(close) and close[0] != (name if given is None else given)
    return f"; did you mean {close[0]!r}?" if is_other else ""


def no_option(name: str, known: Collection[str], own: Collection[str] | None = None) -> InvalidType:
    """Return what is raised for an option that is not a known one, of which `own` are allowed here."""
    hint = suggested(name, known) or allowed_options(known if own is None else own)
    return InvalidType(f"{name}: there is no such option{hint}")


def allowed_options(options: Collection[str]) -> str:
    """Return what a message adds: the options that are allowed, if there are any.

    Examples
    --------
    >>> allowed_options(["n", "route"]), allowed_options(["n"]), allowed_options([])
    ('; allowed are n and route', '; allowed is n', '')
    """
    *others, last = options or [""]
    names = f"{', '.join(others)} and {last}" if others else last
    return f"; allowed {'are' if others else 'is'} {names}" if names else ""


def whole(value: Any) -> int | None:
    """Return a whole number as an int, and None of anything else; arrays of numpy have ``__index__``, too.

    Examples
    --------
    >>> whole(3), whole(True), whole(3.0)
    (3, None, None)
    """
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def integer(
    argument: str, value: Any, allowed: str, least: int | None = None, most: int | None = None
) -> int:
    """Return an int within bounds, of anything that is a whole number."""
    found = whole(value)
    if found is None:
        raise wrong_type(argument, value, allowed)
    if (least is not None and found < least) or (most is not None and found > most):
        raise InvalidValue(f"{argument}: {as_given(found)} is out of range; {allowed}")
    return found


def number(argument: str, value: Any, allowed: str, least: float, most: float) -> float:
    """Return a float within bounds, which NaN never is."""
    is_number = hasattr(value, "__float__") or hasattr(value, "__index__")
    if isinstance(value, bool | str) or not is_number:
        raise wrong_type(argument, value, allowed)
    try:
        found = float(value)
    except (TypeError, ValueError):
        # An array of numpy, or a signalling NaN.
        raise wrong_type(argument, value, allowed) from None
    except OverflowError:
        # An int that no float is near.
        found = math.nan
    if not least <= found <= most:
        raise InvalidValue(f"{argument}: {as_given(value)} is out of range; {allowed}")
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


def snapshot_bytes(snapshot: Any) -> bytes:
    """Return a snapshot as bytes."""
    if not isinstance(snapshot, bytes | bytearray | memoryview):
        raise InvalidType(f"snapshot: it is {a_type(snapshot)}; a snapshot is bytes")
    return bytes(snapshot)


def one_of(argument: str, value: Any, allowed: Sequence[Word]) -> Word:
    """Return one of some names."""
    names = f"allowed are {', '.join(map(repr, allowed))}"
    if text(argument, value, names) not in allowed:
        raise InvalidValue(f"{argument}: {as_given(value)} is unknown; {names}")
    return allowed[allowed.index(value)]


def limit(argument: str, value: int | None, least: int = 1) -> int | None:
    """Return the most of something that may be, or None for any number."""
    if value is None:
        return None
    # More than the core can count is as good as any.
    return min(integer(argument, value, f"it is an int of at least {least}, or None", least), 2**63)


def items(argument: str, given: Item | Iterable[Item], kind: type[Item], allowed: str) -> tuple[Item, ...]:
    """Return one item, or all of a sequence of them, as a tuple."""
    if isinstance(given, kind):
        return (given,)
    if not is_sequence(given):
        raise InvalidType(
            f"{argument}: {as_given(given)} is {a_type(given)}; {argument} is {allowed}{computed(given)}"
        )
    members = tuple(given)
    for member in members:
        if not isinstance(member, kind):
            raise InvalidType(
                f"{argument}: {as_given(member)} is {a_type(member)}; {argument} is "
                f"{allowed}{computed(member)}"
            )
    return members


def is_sequence(given: object) -> TypeGuard[Iterable[Any]]:
    """Whether something may be looked through: columns of Spark and of Ibis say so, and then may not."""
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        return False
    try:
        iter(given)
    except (TypeError, ValueError):
        # The latter of a file that is closed.
        return False
    return True


class Computed(str):
    """The name of a column that is computed from others, which not all that take names can do."""

    __slots__ = ()


def checked_name(argument: str, name: str) -> str:
    """Return `name` if it can name a column that is there."""
    if not isinstance(name, str):
        raise wrong_type(argument, name, f"a name is a str{computed(name)}")
    if isinstance(name, Computed):
        raise InvalidType(
            f"{argument}: {str(name)!r} is an expression; here a column is given by its name, so compute it "
            "first"
        )
    if not name:
        raise InvalidValue(f"{argument}: '' is empty; a name has at least one character")
    if re.search("[\0\ud800-\udfff]", name):
        raise InvalidValue(
            f"{argument}: {name!r} has a NUL or a lone surrogate; a name is what Arrow can hold, UTF-8 "
            "without NUL"
        )
    return name


def refuse_nul(argument: str, names: Iterable[str]) -> None:
    """Refuse columns of data in whose names there is a NUL, at which Arrow's interface cuts them."""
    for name in names:
        if "\0" in name:
            raise InvalidValue(
                f"{argument}: column {name!r} has a NUL in its name, where Arrow cuts it; rename it"
            )


def computed(given: object) -> str:
    """Return what a message adds where an expression of a library is given for the name of a column."""
    libraries = {each.__module__.split(".")[0] for each in type(given).__mro__}
    for (library, kind), how in EXPRESSIONS.items():
        if library in libraries and kind == type(given).__name__:
            return f"; give the name of a column, or compute the column first, by {how}, and name it"
    return ""


def names(argument: str, given: str | Iterable[str], allowed: str = NAMES) -> tuple[str, ...]:
    """Return the names of columns."""
    return tuple(checked_name(argument, name) for name in items(argument, given, str, allowed))


def distinct_names(argument: str, given: str | Iterable[str], allowed: str = NAMES) -> tuple[str, ...]:
    """Return the names of columns, each of which is given once."""
    columns = names(argument, given, allowed)
    twice = repeated(columns)
    if twice is not None:
        raise InvalidValue(f"{argument}: {twice!r} is given twice; each column is given once")
    return columns


def refuse_duplicates(
    argument: str, what: str, names: Iterable[str], keys: Sequence[str] = (), why: str = ""
) -> None:
    """Refuse things that an alias tells apart, if two of them have one name; `keys` have no alias."""
    twice = repeated(names)
    if twice is not None:
        or_key = ", or rename the key's column" if twice in keys else ""
        raise InvalidValue(
            f"{argument}: {what} {twice!r} occurs twice; {what}s must have different names, see .alias()"
            f"{or_key}{why}"
        )


def repeated(names: Iterable[str]) -> str | None:
    """Return the first name that was there before, or None."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None
