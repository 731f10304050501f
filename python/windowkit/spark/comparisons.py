"""A column of files compared with a value, as Spark compares them, as an expression of pyarrow.

pyarrow has rules of its own for operands of two types: it narrows a literal to the smallest type that holds
it and casts the column to that, refuses integers beyond 64 bits, and takes dates for midnight in UTC. So a
value is brought to its column's type here, and pyarrow compares what is of one type; then it can also ask
the statistics of row groups.

Integers, decimals, dates and times are all integers of some unit. What a value is to them is which of them
equal it: none, one, or, where Spark compares fractions of 64 bits, all that round to it. The least and the
greatest of these say how every operator turns out.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import reduce
from math import ceil, floor, inf, isnan, nextafter
from operator import or_
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.directories import NUMBER, instant, zone_named
from windowkit.errors import InvalidType, InvalidValue

__all__ = ["OPERATORS", "compared"]

OPERATORS: Final = ("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
DAY: Final = 86_400_000_000
"""Microseconds."""
MOST_DIGITS: Final = 100
"""Of a number: there are none that long in columns, so that all beyond compare alike."""
MICROS: Final = {"s": Fraction(10**6), "ms": Fraction(1000), "us": Fraction(1), "ns": Fraction(1, 1000)}


@dataclass(frozen=True)
class Time:
    """A date or time, in microseconds from 1970: an instant if it has a zone."""

    micros: Fraction
    zoned: bool
    is_date: bool = False


Value = bool | int | float | Decimal | str | bytes | Time


@dataclass(frozen=True)
class Place:
    """Where a value lies among integers: those from `low` to `high` equal it; none if `low` is greater.

    Lesser integers are below it, greater ones above.
    """

    low: int | float
    high: int | float


ABOVE: Final = Place(inf, inf)
"""Of what is greater than all numbers: infinity, and NaN."""
BELOW: Final = Place(-inf, -inf)


def compared(
    column: str, operator: str, given: Any, kind: pa.DataType, zone: str | None, *, groups: bool = False
) -> ds.Expression:
    """Return a comparison of a column as an expression that holds where Spark's does.

    Parameters
    ----------
    column : str
    operator : str
        One of `OPERATORS`.
    given : object
        A value, or several of ``in`` and ``not in``. Text is read as the type of the column, or as any number
        if that is one of numbers.
    kind : pyarrow.DataType
        Of the column, as Spark has it.
    zone : str or None
        The session's, in which dates, and times that are told as text without a zone, are instants.
    groups : bool, default False
        Whether to return what statistics of row groups can be asked, which holds where the comparison does:
        they know nothing of NaN, so that nothing is said of fractions if NaN is among those that match.

    Raises
    ------
    InvalidType, InvalidValue
        The column is not compared with such a value.

    Examples
    --------
    >>> print(compared("n", "<", 2.5, pa.int32(), None), compared("n", "<", 10**20, pa.int32(), None))
    (n < 3) is_valid(n)
    """
    field = ds.field(column)
    several = operator in ("in", "not in")
    values = [known(column, each, kind) for each in (listed(column, given) if several else [given])]
    for each in values:
        if each is not None:
            check(column, each, kind)
    if groups and pa.types.is_floating(kind) and (several or values[0] is not None):
        numbers = [float_of(column, each, kind, values) for each in values if each is not None]
        if operator not in ("=", "==", "<", "<=", "in") or any(map(isnan, numbers)):
            return ds.scalar(True) if operator == "not in" else field.is_valid()
    if not several:
        (value,) = values
        return ds.scalar(False) if value is None else single(field, column, operator, value, kind, zone)
    there = [each for each in values if each is not None]
    if operator == "not in":
        # Whether a value is among some of which one is null is not known, unless it is another.
        if len(there) < len(values):
            return ds.scalar(False)
        return ~among(field, column, there, kind, zone) & field.is_valid() if there else ds.scalar(True)
    return among(field, column, there, kind, zone)


def listed(column: str, given: Any) -> list[Any]:
    """Return the values of ``in``."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidType(
            f"filter: {given!r} is a {type(given).__name__}, given to 'in' or 'not in' of {column!r}; these "
            "take a list of values"
        )
    return list(given)


def known(column: str, given: Any, kind: pa.DataType) -> Value | None:
    """Return a value as one of the few that are told apart here; None if it is null."""
    # pyarrow has no integers or decimals so large, and cannot be asked for their type.
    if given is None or isinstance(given, bool | int | float | Decimal | str | bytes):
        return given
    try:
        scalar = given if isinstance(given, pa.Scalar) else pa.scalar(given)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidType(f"{comparison(column, given, kind)} ({error}); {allowed(kind)}") from None
    if not scalar.is_valid:
        return None
    is_a, own = pa.types, scalar.type
    if is_a.is_timestamp(own):
        return Time(scalar.value * MICROS[own.unit], own.tz is not None)
    if is_a.is_date(own):
        return Time(Fraction(scalar.value * (DAY if is_a.is_date32(own) else 1000)), False, True)
    value = scalar.as_py()
    if isinstance(value, bool | int | float | Decimal | str | bytes):
        return value
    raise InvalidType(f"{comparison(column, given, kind)}; {allowed(kind)}")


def check(column: str, value: Value, kind: pa.DataType) -> None:
    """Refuse a value that a column of this type is not compared with."""
    fitting = FITTING.get(family(kind), ())
    # A truth is an int to Python, and no number to Spark.
    if not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting):
        raise InvalidType(f"{comparison(column, value, kind)}; {allowed(kind)}")


def family(kind: pa.DataType) -> str:
    """Return what a type has in common with others, as far as comparisons go."""
    is_a = pa.types
    tests: dict[str, Sequence[Callable[[pa.DataType], bool]]] = {
        "number": (is_a.is_integer, is_a.is_decimal, is_a.is_floating),
        "date": (is_a.is_date32,),
        "time": (is_a.is_timestamp,),
        "truth": (is_a.is_boolean,),
        "text": (is_a.is_string,),
        "bytes": (is_a.is_binary,),
        "null": (is_a.is_null,),
    }
    return next((name for name, asked in tests.items() if any(each(kind) for each in asked)), "nested")


FITTING: Final[dict[str, tuple[type, ...]]] = {
    "number": (int, float, Decimal, str),
    "date": (Time, str),
    "time": (Time, str),
    "truth": (bool, str),
    "text": (str,),
    "bytes": (str, bytes),
    "null": (bool, int, float, Decimal, str, bytes, Time),
}
WORDS: Final = {
    "number": "numbers",
    "date": "dates and times without zone",
    "time": "times, as it with or without a zone, and dates",
    "truth": "True and False",
    "text": "strings",
    "bytes": "bytes",
}


def allowed(kind: pa.DataType) -> str:
    words = WORDS.get(family(kind))
    if words is None:
        return f"columns of {kind} are compared by a pyarrow.dataset.Expression, if at all"
    or_text = "" if words == WORDS["text"] else ", or with text that says one"
    return f"such a column is compared with {words}{or_text}"


def comparison(column: str, given: Any, kind: pa.DataType) -> str:
    """Return the beginning of errors: what was given."""
    told = str(timestamp_text(given)) if isinstance(given, Time) else repr(given)
    return f"filter: {told} is compared with {column!r}, a column of {kind}"


def timestamp_text(value: Time) -> str:
    kind = pa.timestamp("us", "UTC" if value.zoned else None)
    moment = pa.scalar(floor(value.micros), pa.int64()).cast(kind)
    return str(moment.cast(pa.date32())) if value.is_date else str(moment)


def single(
    field: ds.Expression, column: str, operator: str, value: Value, kind: pa.DataType, zone: str | None
) -> ds.Expression:
    """Return a comparison with one value that is not null."""
    if pa.types.is_null(kind):
        return ds.scalar(False)
    if pa.types.is_floating(kind):
        return fraction(field, operator, float_of(column, value, kind, [value]))
    if is_integral(kind):
        return integral(field, operator, place_of(column, value, kind, zone), kind)
    return plain(field, operator, literal(column, value, kind))


def among(
    field: ds.Expression, column: str, values: list[Value], kind: pa.DataType, zone: str | None
) -> ds.Expression:
    """Return whether a column has one of several values, which are not null; false of nulls."""
    if not values or pa.types.is_null(kind):
        return ds.scalar(False)
    if pa.types.is_floating(kind):
        numbers = [float_of(column, each, kind, values) for each in values]
        # Both zeros are equal, but not for `is_in`.
        zeros = [0.0, -0.0] if 0 in numbers else []
        # `is_in` rounds to the column's type what is none of its values.
        is_single = pa.types.is_float32(kind)
        held = [each for each in numbers if not is_single or single_precision(each) == each]
        chosen = field.isin(pa.array([each for each in held if not isnan(each)] + zeros, kind))
        return chosen | field.is_nan() if any(map(isnan, numbers)) else chosen
    if not is_integral(kind):
        return field.isin(pa.array([literal(column, each, kind).as_py() for each in values], kind))
    if family(kind) == "number" and any(isinstance(each, float) for each in values):
        # Beside one fraction of 64 bits Spark makes such of the column and of all values.
        values = [fraction_of(column, each, kind) for each in values]
    places = [place_of(column, each, kind, zone) for each in values]
    least, most = ends(kind)
    exact = [int(each.low) for each in places if each.low == each.high and least <= each.low <= most]
    several = [integral(field, "=", each, kind) for each in places if each.low < each.high]
    if exact:
        several.append(field.isin(stored(exact, kind)))
    return reduce(or_, several) if several else ds.scalar(False)


def plain(field: ds.Expression, operator: str, value: pa.Scalar) -> ds.Expression:
    """Return a comparison of what pyarrow orders as Spark does."""
    made = {
        "!=": lambda: field != value,
        "<": lambda: field < value,
        "<=": lambda: field <= value,
        ">": lambda: field > value,
        ">=": lambda: field >= value,
    }
    return made.get(operator, lambda: field == value)()


def fraction(field: ds.Expression, operator: str, value: float) -> ds.Expression:
    """Return a comparison of floats, of which NaN is the greatest."""
    is_nan = field.is_nan()
    if isnan(value):
        told = {"<": ~is_nan, "!=": ~is_nan, "<=": field.is_valid(), ">": ds.scalar(False)}
        return told.get(operator, is_nan)
    made = plain(field, operator, pa.scalar(value, pa.float64()))
    return made | is_nan if operator in (">", ">=") else made


def integral(field: ds.Expression, operator: str, place: Place, kind: pa.DataType) -> ds.Expression:
    """Return a comparison of integers, or of what is stored as such, with what lies at a place."""
    least, most = ends(kind)

    def at_least(bound: int | float) -> ds.Expression:
        if bound > most:
            return ds.scalar(False)
        return field.is_valid() if bound <= least else field >= stored([int(bound)], kind)[0]

    def below(bound: int | float) -> ds.Expression:
        if bound > most:
            return field.is_valid()
        return ds.scalar(False) if bound <= least else field < stored([int(bound)], kind)[0]

    if operator in ("<", ">="):
        return (below if operator == "<" else at_least)(place.low)
    if operator in ("<=", ">"):
        return (below if operator == "<=" else at_least)(place.high + 1)
    differs = operator == "!="
    if place.low > place.high or place.high < least or place.low > most:
        return field.is_valid() if differs else ds.scalar(False)
    if place.low == place.high:
        value = stored([int(place.low)], kind)[0]
        return field != value if differs else field == value
    if differs:
        return below(place.low) | at_least(place.high + 1)
    return at_least(place.low) & below(place.high + 1)


def is_integral(kind: pa.DataType) -> bool:
    """Whether values of a type are integers of some unit."""
    return family(kind) in ("number", "date", "time") and not pa.types.is_floating(kind)


def ends(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    if pa.types.is_decimal(kind):
        return 1 - 10**kind.precision, 10**kind.precision - 1
    return -(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1) - 1


def stored(values: list[int], kind: pa.DataType) -> pa.Array:
    """Return integers as the values of a type that they stand for."""
    if pa.types.is_decimal(kind):
        # Exactly, where arithmetic of decimals would round to 28 digits.
        digits = [(int(each < 0), tuple(map(int, str(abs(each)))), -kind.scale) for each in values]
        return pa.array(map(Decimal, digits), kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def read(column: str, text: str | bytes, kind: pa.DataType) -> pa.Scalar:
    """Return what a text says as a value of a type."""
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowException as error:
        raise InvalidValue(f"{comparison(column, text, kind)} ({error}); {allowed(kind)}") from None


def literal(column: str, value: Value, kind: pa.DataType) -> pa.Scalar:
    """Return a truth, text or bytes as a value of its column's type."""
    return read(column, value, kind) if isinstance(value, str) else pa.scalar(value, kind)


def fraction_of(column: str, value: Value, kind: pa.DataType) -> float:
    """Return what a number is as a fraction of 64 bits."""
    if isinstance(value, str):
        value = Decimal(value) if NUMBER.fullmatch(value) else read(column, value, kind).as_py()
    assert isinstance(value, int | float | Decimal)
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def single_precision(value: float) -> float:
    """Return the fraction of 32 bits that is nearest."""
    try:
        (number,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:
        return inf if value > 0 else -inf
    return float(number)


def float_of(column: str, value: Value, kind: pa.DataType, beside: Sequence[Value | None]) -> float:
    """Return the fraction that Spark compares a column of fractions with, beside others that it is among."""
    if isinstance(value, str):
        found = read(column, value, kind).as_py()
        assert isinstance(found, float)
        return found
    assert isinstance(value, int | float | Decimal)
    try:
        number = float(value)
    except OverflowError:
        raise InvalidValue(
            f"{comparison(column, value, kind)}; numbers beyond 1.8e308 are no such value"
        ) from None
    if isinstance(value, int) and pa.types.is_float32(kind) and all(map(makes_single, beside)):
        return single_precision(number)
    return number


def makes_single(value: Value | None) -> bool:
    """Whether Spark makes float of a value and float: of a long it does, of a decimal it makes double."""
    return value is None or isinstance(value, str) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def place_of(column: str, value: Value, kind: pa.DataType, zone: str | None) -> Place:
    """Return where a value lies among those of a type that are integers of some unit."""
    if isinstance(value, Time):
        return exactly(time_of(column, value, kind, zone))
    if isinstance(value, str):
        if pa.types.is_timestamp(kind):
            return exactly(Fraction(time_said(column, value, kind, zone)))
        if pa.types.is_date32(kind):
            day = read(column, value, kind).value
            return Place(day, day)
        # A number, also one that the column cannot have.
        value = Decimal(value) if NUMBER.fullmatch(value) else read(column, value, kind).as_py()
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    if isinstance(value, float):
        return rounded(value, scale)
    if isinstance(value, Decimal):
        if value.is_nan() or value.is_infinite() or value.adjusted() > MOST_DIGITS:
            return BELOW if value.is_signed() and not value.is_nan() else ABOVE
        if value and value.adjusted() < -MOST_DIGITS:
            return exactly(Fraction(-1 if value.is_signed() else 1, 10**MOST_DIGITS))
    assert isinstance(value, int | Decimal)
    return exactly(Fraction(value) * 10**scale)


def exactly(value: Fraction) -> Place:
    """Return the place of a value that only itself equals."""
    return Place(ceil(value), floor(value))


def rounded(value: float, scale: int) -> Place:
    """Return the place of a fraction of 64 bits among decimals, all of which Spark rounds to such first."""
    if isnan(value) or abs(value) > 1e100:
        return BELOW if value < 0 else ABOVE
    unit = 10**scale
    exact = Fraction(value)
    low, high = ((exact + Fraction(nextafter(value, end))) / 2 * unit for end in (-inf, inf))
    # What lies right between two fractions becomes the even one.
    if struct.pack(">d", value)[-1] % 2 == 0:
        return Place(ceil(low), floor(high))
    return Place(floor(low) + 1, ceil(high) - 1)


def time_of(column: str, value: Time, kind: pa.DataType, zone: str | None) -> Fraction:
    """Return a time in the unit of a column of dates or times."""
    if pa.types.is_date32(kind):
        if not value.zoned:
            return value.micros / DAY
    elif value.zoned == (kind.tz is not None):
        return value.micros
    elif not value.zoned and value.is_date:
        return Fraction(localized(column, value, floor(value.micros), kind, zone))
    raise InvalidValue(
        f"{comparison(column, value, kind)}; times with zone are compared with times with zone, and times "
        "without with dates and times without"
    )


def time_said(column: str, text: str, kind: pa.DataType, zone: str | None) -> int:
    """Return the microseconds of a time that is told as text, with or without a zone."""
    try:
        bare = pa.scalar(text).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        bare = None
    if kind.tz is None or bare is None:
        # It has a zone, or is no time.
        micros: int = read(column, text, kind).value
        return micros
    return localized(column, text, bare.value, kind, zone)


def localized(column: str, value: Time | str, micros: int, kind: pa.DataType, zone: str | None) -> int:
    """Return the instant at which clocks of the session show a time."""
    there = zone_named(zone, comparison(column, value, kind))
    try:
        return instant(datetime(1970, 1, 1) + timedelta(microseconds=micros), there)
    except OverflowError:
        raise InvalidValue(
            f"{comparison(column, value, kind)}; years of times in the session's zone are 1 to 9999"
        ) from None
