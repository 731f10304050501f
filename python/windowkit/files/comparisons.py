"""A column of files compared with a value, as Spark compares them, as an expression of pyarrow.

pyarrow has rules of its own for operands of two types: it narrows a literal to the smallest type that holds
it and casts the column to that, refuses integers beyond 64 bits, and takes dates for midnight in UTC. So a
value is brought to its column's type here where that holds it, and then pyarrow can also ask the statistics
of row groups. Other numbers are compared as Spark does it: fractions as doubles, all others as decimals.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import inf, isfinite, isnan
from operator import contains, eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given
from windowkit.language.windows.grammar import QUOTED, unquoted

__all__ = ["NUMBER", "OPERATORS", "compared", "family", "operands", "parse", "time_of"]

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": eq,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "in": contains,
    "not in": contains,
}
NUMBER: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
COMPARISON: Final = re.compile(
    rf"(?P<column>{QUOTED}|[^\s`<>=!]+)\s*(?P<operator>==|!=|<=|>=|=|<|>|\bnot\s+in\b|\bin\b)"
    r"\s*(?P<value>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
VALUE: Final = re.compile(r"\s*((?:'(?:[^']|'')*'\s*(?=,|$))|[^,]*)(?:,|$)", re.DOTALL)
MOST_DIGITS: Final = 76
"""Of the widest decimals; there are no columns in which numbers beyond differ from doubles."""
MOST_OF_LONG: Final = 19
SINGLE: Final = 2**24
"""Up to which all integers are fractions of 32 bits."""
DOUBLE_DIGITS: Final = 15
"""Of decimals that doubles distinguish."""
MICROS: Final = pa.timestamp("us")
NANOS: Final = pa.timestamp("ns")
INSTANT: Final = pa.timestamp("us", "UTC")

Value: TypeAlias = bool | int | float | Decimal | str | bytes | pa.Scalar
Tests: TypeAlias = Sequence[Callable[[pa.DataType], bool]]
FAMILIES: Final[dict[str, tuple[Tests, tuple[type, ...], str]]] = {
    "number": (
        (pa.types.is_integer, pa.types.is_decimal, pa.types.is_floating),
        (int, float, Decimal, str),
        "numbers, or with numeric strings",
    ),
    "date": (
        (pa.types.is_date32,),
        (pa.Scalar, str),
        "dates and times without zone, or with strings of either",
    ),
    "time": (
        (pa.types.is_timestamp,),
        (pa.Scalar, str),
        "dates, times with a zone if and only if the column has one, or with strings of either",
    ),
    "truth": ((pa.types.is_boolean,), (bool, str), "True and False, or with strings of either"),
    "string": ((pa.types.is_string,), (str,), "strings"),
    "bytes": ((pa.types.is_binary,), (str, bytes), "bytes, or with strings"),
}
"""Types that are compared alike, the values they are compared with, and these in words."""


def parse(text: str) -> tuple[str, str, str | list[str]]:
    """Read a comparison from its text form: a column, an operator, and a value or, of ``in``, several.

    Values may stand in single quotes, as in SQL, and have to where they have a comma.

    Examples
    --------
    >>> parse("day >= 2024-05-01")
    ('day', '>=', '2024-05-01')
    >>> parse("`net price` not in (1.5, 'a, b')")
    ('net price', 'not in', ['1.5', 'a, b'])

    Raises
    ------
    InvalidValue
        `text` is not a comparison.
    """
    found = COMPARISON.fullmatch(text.strip())
    operator = "" if found is None else " ".join(found["operator"].lower().split())
    value = "" if found is None else found["value"]
    is_several = operator.endswith("in")
    several = value[1:-1].strip() if value[:1] + value[-1:] == "()" else ""
    if found is None or (is_several and not several):
        raise InvalidValue(
            f"filter: {text!r} is not a comparison; filters are 'day >= 2024-05-01' with =, !=, <, <=, > or "
            ">=, or 'device in (a, b)', or not in"
        )
    column = unquoted("filter", found["column"])
    if not is_several:
        return column, operator, plain(value)
    # Of the empty match at the end there is no value.
    return column, operator, [plain(each[1].strip()) for each in VALUE.finditer(several) if each[0]]


def plain(value: str) -> str:
    """Return a value without its quotes, if it has some."""
    return value[1:-1].replace("''", "'") if re.fullmatch("'(?:[^']|'')*'", value, re.DOTALL) else value


def compared(
    column: str,
    operator: str,
    given: Any,
    kind: pa.DataType,
    zone: str | None,
    *,
    groups: bool = False,
    of: ds.Expression | None = None,
) -> ds.Expression:
    """Return a comparison of a column as an expression that holds where Spark's does.

    Parameters
    ----------
    column : str
    operator : str
        One of `OPERATORS`.
    given : object
        A value, or several of ``in`` and ``not in``. A string is read as the type of the column, or as any
        number if the column is numeric.
    kind : pyarrow.DataType
        Of the column, as Spark has it.
    zone : str or None
        The session's, in which dates, and times given as strings without a zone, are instants.
    groups : bool, default False
        Whether to return a condition for statistics of row groups, which holds where the comparison does:
        they know nothing of NaN, so that nothing is said of fractions if NaN is among those that match.
    of : pyarrow.dataset.Expression, optional
        What has the values of the column, and `kind`; by default the column of that name.

    Raises
    ------
    InvalidType, InvalidValue
        The column is not compared with such a value.

    Examples
    --------
    >>> print(compared("n", "<", 2.0, pa.int32(), None), compared("n", "in", [1, None], pa.int32(), None))
    (n < 2) is_in(n, {value_set=int32:[
      1
    ], null_matching_behavior=MATCH})
    """
    field = ds.field(column) if of is None else of
    several = operator in ("in", "not in")
    typed = operands(column, operator, given, kind, zone)
    if isinstance(typed, bool):
        return ds.scalar(typed)
    wide, array = typed
    is_float = pa.types.is_floating(kind)
    has_nan = is_float and any(map(isnan, array.to_pylist()))
    leaves_nan_out = operator in ("=", "==", "<", "<=", "in") and not has_nan
    if groups and (not leaves_nan_out if is_float else wide != kind):
        # pyarrow simplifies comparisons of casts, and fails at some.
        return field.is_valid()
    operand = field if wide == kind else field.cast(wide, safe=False)
    if operator == "not in":
        return ~among(operand, array) & field.is_valid()
    return among(operand, array) if several else single(operand, operator, array[0])


def operands(
    column: str, operator: str, given: Any, kind: pa.DataType, zone: str | None
) -> tuple[pa.DataType, pa.Array] | bool:
    """Return the type in which a column is compared, and the values in it; or what is true of all rows."""
    several = operator in ("in", "not in")
    every = [known(column, each, kind) for each in (listed(column, given) if several else [given])]
    values = [each for each in every if each is not None]
    # Nothing is known to be, or not to be, a null.
    if not values or (operator == "not in" and len(values) < len(every)):
        return operator == "not in" and not every
    return common(column, values, kind, zone)


def listed(column: str, given: Any) -> list[Any]:
    """Return the values of ``in``."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InvalidType(
            f"filter: {as_given(given)} is {a_type(given)}, given to 'in' or 'not in' of {column!r}; these "
            "take a list of values"
        )
    return list(given)


def known(column: str, given: Any, kind: pa.DataType) -> Value | None:
    """Return a value, times as scalars of pyarrow; None if it is null.

    Raises
    ------
    InvalidType
        A column of this type is not compared with it.
    """
    value = given
    # pyarrow has no integers or decimals so large, and no type for them.
    if not (given is None or isinstance(given, bool | int | float | Decimal | str | bytes)):
        try:
            scalar = given if isinstance(given, pa.Scalar) else pa.scalar(given)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InvalidType(f"{comparison(column, given, kind)} ({error}); {allowed(kind)}") from None
        is_time = pa.types.is_timestamp(scalar.type) or pa.types.is_date(scalar.type)
        value = scalar if is_time and scalar.is_valid else scalar.as_py()
    fitting = FAMILIES[family(kind)][1] if family(kind) else ()
    # A truth is an int to Python, and no number to Spark.
    if value is not None and (
        not isinstance(value, fitting) or (isinstance(value, bool) and bool not in fitting)
    ):
        raise InvalidType(f"{comparison(column, value, kind)}; {allowed(kind)}")
    return value


@lru_cache(256)
def family(kind: pa.DataType) -> str:
    """Return the name in `FAMILIES` of a type, or nothing."""
    return next((name for name, (tests, _, _) in FAMILIES.items() if any(each(kind) for each in tests)), "")


def allowed(kind: pa.DataType) -> str:
    if not family(kind):
        return f"columns of {kind} are compared by a pyarrow.dataset.Expression, if at all"
    return f"such a column is compared with {FAMILIES[family(kind)][2]}"


def comparison(column: str, given: Any, kind: pa.DataType) -> str:
    """Return the beginning of errors: what was given."""
    what = str(given) if isinstance(given, pa.Scalar) else as_given(given)
    return f"filter: {what} is compared with {column!r}, a column of {kind}"


def single(operand: ds.Expression, operator: str, value: pa.Scalar) -> ds.Expression:
    """Return a comparison with one value, of which NaN is the greatest."""
    is_float = pa.types.is_floating(value.type)
    if is_float and isnan(value.as_py()):
        is_nan = operand.is_nan()
        made = {"<": ~is_nan, "!=": ~is_nan, "<=": operand.is_valid(), ">": ds.scalar(False)}
        return made.get(operator, is_nan)
    found = OPERATORS[operator](operand, value)
    return found | operand.is_nan() if is_float and operator in (">", ">=") else found


def among(operand: ds.Expression, values: pa.Array) -> ds.Expression:
    """Return whether a column has one of several values; false of nulls."""
    if not pa.types.is_floating(values.type):
        return operand.isin(values)
    numbers = values.to_pylist()
    # Both zeros are equal, but not for `is_in`.
    zeros = [0.0, -0.0] if 0 in numbers else []
    chosen = operand.isin(pa.array([each for each in numbers if not isnan(each)] + zeros, values.type))
    return chosen | operand.is_nan() if any(map(isnan, numbers)) else chosen


def common(
    column: str, values: list[Value], kind: pa.DataType, zone: str | None
) -> tuple[pa.DataType, pa.Array]:
    """Return the type in which a column is compared with values, and these in that type."""
    if family(kind) == "number":
        return common_number(column, values, kind)
    if family(kind) in ("date", "time"):
        scalars = [time_of(column, each, kind, zone) for each in values]
        wide = MICROS if any(each.type != kind for each in scalars) else kind
        if wide == MICROS and getattr(kind, "unit", "us") == "ns":
            # Of which microseconds would lose digits.
            near = [each for each in (cast_to(scalar, NANOS) for scalar in scalars) if each is not None]
            if near:
                # Of several, none of the column's is equal to the others.
                return NANOS, pa.array(near, NANOS)
            # One so far from any of the column's that their digits do not matter.
        return wide, pa.array([each.cast(wide) for each in scalars], wide)
    if pa.types.is_string(kind):
        return kind, pa.array(values, kind)
    return kind, pa.array([read(column, each, kind).as_py() for each in values], kind)


def common_number(column: str, values: list[Value], kind: pa.DataType) -> tuple[pa.DataType, pa.Array]:
    """Return the type in which Spark compares numbers, and values in that type."""
    if pa.types.is_floating(kind):
        return pa.float64(), pa.array([float_of(column, each, kind) for each in values], pa.float64())
    numbers = [number_of(column, each, kind) for each in values]
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    whole = all(not isinstance(each, float) or each.is_integer() for each in numbers)
    if any(isinstance(each, float) for each in numbers):
        doubles = list(map(double, numbers))
        if not all(map(isfinite, doubles)) or (not scale and not (whole and max(map(abs, doubles)) < 2**53)):
            return pa.float64(), pa.array(doubles, pa.float64())
        if scale and kind.precision > DOUBLE_DIGITS:
            raise InvalidValue(
                f"{comparison(column, values, kind)}, which Spark rounds to doubles; give a decimal.Decimal, "
                "or write the number without an exponent, as 10.0"
            )
        # Of so few digits those are equal as doubles that are equal as the shortest decimals.
        numbers = [Decimal(repr(each)) for each in doubles]
    exact = [Decimal(each) for each in numbers]
    # How many digits there are before the point and after it, in the column or in values.
    before = kind.precision - scale if pa.types.is_decimal(kind) else MOST_OF_LONG
    before = max(before, *(each.adjusted() + 1 for each in exact))
    after = max(scale, *(-int(each.as_tuple().exponent) for each in exact))
    if before + after > MOST_DIGITS:
        return pa.float64(), pa.array(map(double, exact), pa.float64())
    try:
        if pa.types.is_decimal(kind):
            return kind, pa.array(exact, kind)
        if all(each == each.to_integral_value() for each in exact):
            return kind, pa.array(map(int, exact), kind)
    except (pa.ArrowInvalid, OverflowError):
        pass  # The column has no such numbers.
    wide = pa.decimal256(MOST_DIGITS, after)
    return wide, pa.array(exact, wide)


def number_of(column: str, value: Value, kind: pa.DataType) -> int | float | Decimal:
    """Return a number, also of a string."""
    if isinstance(value, str):
        if not NUMBER.fullmatch(value):
            number: int | float | Decimal = read(column, value, kind).as_py()
            return number
        try:
            return Decimal(value)
        except InvalidOperation:
            # Decimals have no such exponents.
            return float(value)
    assert isinstance(value, int | float | Decimal)
    if isinstance(value, Decimal) and not value.is_finite():
        return float(value)
    return value


def double(value: float | Decimal) -> float:
    """Return the fraction of 64 bits that is nearest."""
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


def float_of(column: str, value: Value, kind: pa.DataType) -> float:
    """Return the fraction that Spark compares a column of fractions with."""
    if isinstance(value, str):
        return float(read(column, value, kind).as_py())
    assert isinstance(value, int | float | Decimal)
    number = double(value)
    if isinstance(value, int) and (not isfinite(number) or (kind == pa.float32() and abs(value) > SINGLE)):
        raise InvalidValue(
            f"{comparison(column, value, kind)}, which Spark rounds to float first; give a float"
        )
    return number


def read(column: str, value: Value, kind: pa.DataType) -> pa.Scalar:
    """Return a value, or what a string states, as one of a type."""
    try:
        return pa.scalar(value).cast(kind)
    except pa.ArrowException as error:
        raise InvalidValue(f"{comparison(column, value, kind)} ({error}); {allowed(kind)}") from None


def time_of(column: str, value: Any, kind: pa.DataType, zone: str | None) -> pa.Scalar:
    """Return a date or time, or one that a string states, in the type in which Spark compares it."""
    has_zone = getattr(kind, "tz", None) is not None
    unit = getattr(kind, "unit", None)
    if isinstance(value, str):
        # Without a zone; otherwise it has one, or is no time.
        bare = cast_to(value, MICROS, *([NANOS] if unit == "ns" else [])) if has_zone else None
        if bare is not None:
            return localized(column, bare, kind, zone)
        # A moment that the column does not hold is compared as one; what has no times is compared with days.
        own = cast_to(value, kind, *([] if unit is None else [INSTANT if has_zone else MICROS]))
        if own is None and unit is not None and cast_to(value, NANOS) is not None:
            raise InvalidValue(f"{comparison(column, value, kind)}; give at most six digits of a second")
        return read(column, value, kind) if own is None else own
    if pa.types.is_date(value.type):
        if has_zone:
            return localized(column, value.cast(MICROS), kind, zone)
        own = cast_to(value, kind, MICROS)
        return read(column, value, kind) if own is None else own
    if has_zone == (value.type.tz is not None):
        return read(column, value, kind if has_zone else MICROS)
    raise InvalidValue(
        f"{comparison(column, value, kind)}; times with zone are compared with times with zone, and times "
        "without with dates and times without"
    )


def cast_to(value: Any, *kinds: pa.DataType) -> pa.Scalar | None:
    """Return a value in the first of some types that holds it, or None."""
    if not kinds:
        return None
    try:
        return pa.scalar(value).cast(kinds[0])
    except pa.ArrowInvalid:
        return cast_to(value, *kinds[1:])


def localized(column: str, value: pa.Scalar, kind: pa.DataType, zone: str | None) -> pa.Scalar:
    """Return the instant at which clocks of the session show a time: the first of two."""
    if zone is None:
        raise InvalidValue(
            f"{comparison(column, value, kind)}, in a zone that a data source does not know; its option "
            "timeZone names one, and wk.spark.scan takes the session's"
        )
    try:
        return pc.assume_timezone(value, zone, ambiguous="earliest").cast(
            pa.timestamp(value.type.unit, "UTC")
        )
    except pa.ArrowInvalid as error:
        raise InvalidValue(
            f"{comparison(column, value, kind)}, in zone {zone!r} ({str(error).splitlines()[0]}); "
            "give the time with a zone, as 2024-05-01 10:00:00Z"
        ) from None
