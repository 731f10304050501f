"""Types of columns of text: which type all values of a column are of, and how text is read as that type.

Text is read as numbers only if no character is lost: leading zeros, a plus sign, and more digits than the
type holds keep a column text. A column of keys is read as another type only if each value can be written
back as it was, so that keys that differ remain different: ``1.10`` and ``1.1`` are two keys.

The rule looks at all values, so that a type never depends on which block or file is read first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from windowkit.errors import InvalidValue

__all__ = [
    "FRACTION",
    "INTEGER",
    "NULLS",
    "Inferred",
    "Text",
    "culprit",
    "is_text",
    "rewritten",
    "type_named",
]

NULLS: Final = (
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"),
)
"""What stands for no value among values that are not text, as pyarrow's CSV reader has it."""
INTEGER: Final = r"0|-?[1-9][0-9]{0,18}"
FRACTION: Final = r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|-?inf|-?Infinity"
COUNT: Final = "^-?[0-9]+$"
"""Of units since 1970, where a column is to be of timestamps."""
DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
MOMENT: Final = rf"{DAY}[ T][0-9]{{2}}:[0-9]{{2}}(?::[0-9]{{2}}(?:\.[0-9]{{1,9}})?)?"
ZONE: Final = "(?:Z|[+-][0-9]{2}(?::?[0-9]{2})?)"
WHOLE_DIGITS: Final = 15
"""Of whole numbers that doubles distinguish."""
DOUBLE_DIGITS: Final = 17
"""Of doubles, as programs write them."""


@dataclass(frozen=True)
class Kind:
    """A type that text may be of, what its values look like, and whether keys may be of it."""

    pattern: str
    of_keys: bool
    type: pa.DataType


KINDS: Final = {
    "integer": Kind(INTEGER, True, pa.int64()),
    "fraction": Kind(FRACTION, False, pa.float64()),
    "boolean": Kind("true|True|TRUE|false|False|FALSE", True, pa.bool_()),
    "day": Kind(DAY, True, pa.date32()),
    "moment": Kind(rf"{DAY}|{MOMENT}", True, pa.timestamp("s")),
    "instant": Kind(MOMENT + ZONE, False, pa.timestamp("s", "UTC")),
}
"""In the order in which they are preferred."""


@dataclass(frozen=True)
class Text:
    """How a column of text is read: as values of a type, perhaps times in a format of `strptime`.

    Where the type is given, and one of timestamps, whole numbers count its units from 1970.
    """

    type: pa.DataType
    time_format: str | None = None
    is_given: bool = False

    def read(self, column: ds.Expression) -> ds.Expression:
        """Return the values of a column of strings."""
        if pa.types.is_null(self.type):
            return ds.scalar(None)
        if is_text(self.type):
            return column.cast(self.type)
        present = pc.if_else(column.isin(NULLS), pa.scalar(None, pa.string()), column)
        if self.is_given and self.time_format is None and pa.types.is_timestamp(self.type):
            # Both are read, and of each only what is such.
            is_count = pc.match_substring_regex(present, COUNT)
            none = pa.scalar(None, pa.string())
            count = pc.if_else(is_count, present, none).cast(pa.int64()).cast(self.type)
            return pc.coalesce(count, pc.if_else(is_count, none, present).cast(self.type))
        if self.time_format is None:
            return present.cast(self.type)
        return pc.strptime(present, format=self.time_format, unit="s").cast(self.type)


class Inferred:
    """The type of a column of text, as more and more of its values are seen.

    Examples
    --------
    >>> column = Inferred()
    >>> column.see(pa.array(["1", "2"])), column.see(pa.array(["2.5", None])), column.type
    (None, None, DataType(double))
    >>> column.see(pa.array(["007"])), column.type, column.because
    (None, DataType(string), '007')
    """

    def __init__(self, *, is_key: bool = False) -> None:
        self._kinds = [name for name, kind in KINDS.items() if kind.of_keys or not is_key]
        self._is_key = is_key
        self._digits = 0
        self._is_empty = True
        self.because: str | None = None
        """The value that made it text."""
        self.is_of_zones = False
        """Whether it is text only as some times have a zone and some have none."""

    def see(self, values: pa.Array) -> None:
        """Consider more values."""
        values = pc.unique(values).cast(pa.string()).drop_null()
        if not self._is_key:
            values = values.filter(pc.invert(pc.is_in(values, pa.array(NULLS))))
        if not len(values):
            return
        self._is_empty = False
        others = {
            name: rewritten(values, KINDS[name].type) if self._is_key else refuted(values, name)
            for name in self._kinds
        }
        before, self._kinds = self._kinds, [name for name, other in others.items() if other is None]
        if before and not self._kinds:
            self.because = culprit(values, others.values())
            self.is_of_zones = any(
                one in before and re.fullmatch(KINDS[other].pattern, self.because)
                for one, other in (("moment", "instant"), ("instant", "moment"))
            )
        if "moment" in self._kinds or "instant" in self._kinds:
            fractions = pc.extract_regex(values, r"\.(?P<digits>[0-9]+)").field("digits")
            self._digits = max(self._digits, pc.max(pc.utf8_length(fractions)).as_py() or 0)

    @property
    def type(self) -> pa.DataType:
        """The type of the values so far: null without any."""
        if self._is_empty:
            return pa.null()
        found = next((KINDS[name].type for name in self._kinds), pa.string())
        if not pa.types.is_timestamp(found) or not self._digits:
            return found
        return pa.timestamp("us" if self._digits <= 6 else "ns", found.tz)


def culprit(values: pa.Array, others: Iterable[str | None]) -> str:
    """Return the value because of which values are text, of those that each kind fails at."""
    # Some kinds may already fail at the first value, which is of the kind that fails at another.
    first = str(values[0])
    return next((each for each in others if each is not None and each != first), first)


def rewritten(values: pa.Array, kind: pa.DataType) -> str | None:
    """Return a value that a type does not write as it is, None if it writes each of them so.

    Then values that differ are different values of the type.

    Examples
    --------
    >>> rewritten(pa.array(["10", "1e1"]), pa.int64()), rewritten(pa.array(["10", "0.5"]), pa.float64())
    ('1e1', None)
    """
    try:
        again = values.cast(kind).cast(pa.string())
    except pa.ArrowInvalid:
        return next(str(each) for each in values if not is_of(each, kind))
    # These are written as they were, but the one equals 0, and the others are no numbers.
    odd = pc.is_in(values, pa.array(["-0", "inf", "-inf", "nan", "-nan"]))
    others = values.filter(pc.or_(pc.not_equal(again, values), odd))
    return str(others[0]) if len(others) else None


def refuted(values: pa.Array, name: str) -> str | None:
    """Return a value that is not of a kind, None if all are."""
    matching = pc.match_substring_regex(values, f"^(?:{KINDS[name].pattern})$")
    if name == "fraction":
        mantissa = pc.replace_substring_regex(values, "[eE].*$", "")
        digits = pc.replace_substring_regex(pc.replace_substring(mantissa, ".", ""), "^-?0*", "")
        whole = pc.match_substring_regex(values, "^-?[0-9]+$")
        most = pc.if_else(whole, WHOLE_DIGITS, DOUBLE_DIGITS)
        matching = pc.and_(matching, pc.less_equal(pc.utf8_length(digits), most))
    others = values.filter(pc.invert(matching))
    if len(others):
        return str(others[0])
    kind = KINDS[name].type
    if pa.types.is_timestamp(kind):
        # Whether there is such a day; that parts of seconds are of finer units is another question.
        values = pc.replace_substring_regex(values, r"\.[0-9]+", "")
    try:
        values.cast(kind)
    except pa.ArrowInvalid:
        # One of them is beyond the type, or no day of the calendar.
        return next(str(each) for each in values if not is_of(each, kind))
    return None


def is_of(value: pa.Scalar, kind: pa.DataType) -> bool:
    """Whether a string is of a type."""
    try:
        value.cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is one of strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


NAMED: Final[Mapping[str, pa.DataType]] = {
    **dict.fromkeys(("tinyint", "byte", "int8"), pa.int8()),
    **dict.fromkeys(("smallint", "short", "int16"), pa.int16()),
    **dict.fromkeys(("int", "integer", "int32"), pa.int32()),
    **dict.fromkeys(("bigint", "long", "int64"), pa.int64()),
    **{name: getattr(pa, name)() for name in ("uint8", "uint16", "uint32", "uint64")},
    **dict.fromkeys(("float", "real", "float32"), pa.float32()),
    **dict.fromkeys(("double", "float64"), pa.float64()),
    **dict.fromkeys(("boolean", "bool"), pa.bool_()),
    **dict.fromkeys(("string", "utf8"), pa.string()),
    "large_string": pa.large_string(),
    **dict.fromkeys(("date", "date32"), pa.date32()),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Types by the names that Spark and Arrow have for them."""
DECIMAL: Final = re.compile(r"(?:decimal|decimal128|numeric)\((\d+)(?:,\s*(-?\d+))?\)")
TIMESTAMP: Final = re.compile(r"timestamp\[(s|ms|us|ns)(?:,\s*(?:tz=)?([\w/+:-]+))?\]")


def type_named(name: str) -> pa.DataType:
    """Return the type of a name of Spark's or Arrow's.

    Raises
    ------
    InvalidValue
        There is none.

    Examples
    --------
    >>> type_named("bigint"), type_named("decimal(9, 2)"), type_named("timestamp[ms, UTC]")
    (DataType(int64), Decimal128Type(decimal128(9, 2)), TimestampType(timestamp[ms, tz=UTC]))
    """
    if (found := NAMED.get(name.lower())) is not None:
        return found
    try:
        if decimal := DECIMAL.fullmatch(name.lower()):
            return pa.decimal128(int(decimal[1]), int(decimal[2] or 0))
    except (ValueError, OverflowError) as error:
        raise InvalidValue(f"types: {name!r} is not a type: {error}") from None
    if timestamp := TIMESTAMP.fullmatch(name):
        return pa.timestamp(timestamp[1], timestamp[2])
    raise InvalidValue(
        f"types: {name!r} is not a type; types are {', '.join(NAMED)}, decimal(p, s), or timestamp[us, UTC] "
        "with a unit and perhaps a zone"
    )
