"""Which rows of files are read: filters as pyarrow's expressions, checked against columns."""

from __future__ import annotations

import re
from functools import reduce
from math import isnan
from operator import and_, or_
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.spark import parquet
from windowkit.spark.parquet import Chosen
from windowkit.windows.grammar import QUOTED, unquoted

__all__ = ["Filter", "chosen_of", "parse"]

# Of pyarrow.dataset.Expression, of which pyarrow tells no type, or of tuples.
Filter: TypeAlias = Any

COMPARISON: Final = re.compile(
    rf"\s*(?P<column>{QUOTED}|[^\s`<>=!]+)\s*(?P<operator>==|!=|<=|>=|=|<|>|\bnot\s+in\b|\bin\b)"
    r"\s*(?P<value>\S.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)
LISTED: Final = re.compile(r"\(\s*(.*\S)\s*\)", re.DOTALL)
VALUE: Final = re.compile(r"\s*('(?:[^']|'')*'|[^,]*?)\s*(?:,|$)", re.DOTALL)


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
        `text` is no comparison.
    """
    found = COMPARISON.fullmatch(text)
    operator = "" if found is None else " ".join(found["operator"].lower().split())
    several = None if found is None or not operator.endswith("in") else LISTED.fullmatch(found["value"])
    if found is None or (operator.endswith("in") and several is None):
        raise InvalidValue(
            f"filter: {text!r} is no comparison; filters are 'day >= 2024-05-01' with =, !=, <, <=, > or >=, "
            "or 'device in (a, b)', or not in"
        )
    column = unquoted("filter", found["column"])
    if several is None:
        return column, operator, plain(found["value"])
    # Of the empty match at the end there is no value.
    return column, operator, [plain(each[1]) for each in VALUE.finditer(several[1]) if each[0]]


def plain(value: str) -> str:
    """Return a value without its quotes, if it has some."""
    return value[1:-1].replace("''", "'") if re.fullmatch("'(?:[^']|'')*'", value, re.DOTALL) else value


def chosen_of(
    given: Filter | None, columns: dict[str, pa.DataType], where: str
) -> tuple[Chosen | None, dict[str, pa.DataType]]:
    """Return the filter as expressions, and the columns it reads in Spark's types.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It is no filter, or does not fit the columns.
    """
    if given is None:
        return None, {}
    read = {name: parquet.kind_in_spark(kind) for name, kind in columns.items()}
    kinds = {name: kind for name, kind in read.items() if kind is not None}
    if isinstance(given, ds.Expression):
        chosen = groups = given
    else:
        chosen, groups = expression(given, kinds), expression(given, kinds, floats=False)
    # Of a row of nulls: with none at all pyarrow does not find out what cannot be compared.
    table = pa.table([pa.nulls(1, kind) for kind in kinds.values()], schema=pa.schema(list(kinds.items())))
    try:
        table.filter(chosen)
    except pa.ArrowException as error:
        if "FieldRef" in str(error):
            raise UnknownColumn(f"filter: {chosen} names no column of {where} ({error})") from None
        raise InvalidValue(
            f"filter: {chosen} does not fit the columns ({error}); times with zone are compared with times "
            "with zone, and strings with strings"
        ) from None
    needed = {name: kind for name, kind in kinds.items() if is_read(table.drop_columns([name]), chosen)}
    return Chosen(chosen, groups), needed


def expression(given: Any, kinds: dict[str, pa.DataType], *, floats: bool = True) -> ds.Expression:
    """Return tuples as an expression: of all of a list, or of any of several lists.

    Without `floats`, comparisons of floats are left out, as though they held.

    Raises
    ------
    InvalidType, InvalidValue
        They are none.
    """
    allowed = (
        "filter is a pyarrow.dataset.Expression, or a list of tuples (column, operator, value), or a list of "
        "such lists of which any holds"
    )
    if not isinstance(given, list | tuple):
        raise InvalidType(f"filter: a {type(given).__name__} is given; {allowed}")
    lists = [given] if given and isinstance(given[0], tuple) else given
    try:
        return reduce(or_, [reduce(and_, [term(each, kinds, floats) for each in terms]) for terms in lists])
    except InvalidValue:
        raise
    except (ValueError, TypeError) as error:
        raise InvalidValue(f"filter: {given!r} is given ({error}); {allowed}") from None


def term(given: tuple[str, str, Any], kinds: dict[str, pa.DataType], floats: bool) -> ds.Expression:
    """Return one comparison, with Spark's view of nulls and NaN."""
    column, operator, value = given
    value = typed(column, value, kinds)
    is_float = column in kinds and pa.types.is_floating(kinds[column])
    if operator in ("in", "not in") and isinstance(value, list):
        known = [each for each in value if each is not None]
        if len(known) < len(value) and (operator == "not in" or not known):
            # Whether a value is among some of which one is null is not known, unless it is another.
            return ds.scalar(False)
        value = with_zeros(known) if is_float else known
    made = pa.parquet.filters_to_expression([(column, operator, value)])
    field = ds.field(column)
    if is_float and not floats:
        return ds.scalar(True)
    if operator == "not in":
        return made & field.is_valid()
    if not is_float:
        return made
    is_nan = field.is_nan()
    if isinstance(value, float) and isnan(value):
        told = {"<": ~is_nan, "!=": ~is_nan, "<=": field.is_valid(), ">": is_nan & ~is_nan}
        return told.get(operator, is_nan)
    return made | is_nan if operator in (">", ">=") else made


def with_zeros(values: list[Any]) -> list[Any]:
    """Return floats with both zeros if there is one: they are equal, but not for `is_in`."""
    numbers = [each.as_py() if isinstance(each, pa.Scalar) else each for each in values]
    return [*numbers, 0.0, -0.0] if 0 in numbers else numbers


def typed(column: str, value: Any, kinds: dict[str, pa.DataType]) -> Any:
    """Return a value as one that a column is compared with: text is read as the column's type."""
    if isinstance(value, list | tuple | set):
        return [typed(column, each, kinds) for each in value]
    kind = kinds.get(column)
    if kind is None or not isinstance(value, str) or pa.types.is_string(kind):
        return value
    try:
        return pa.scalar(value).cast(kind)
    except pa.ArrowException as error:
        raise InvalidValue(
            f"filter: {value!r} is compared with {column!r}, a column of {kind} ({error})"
        ) from None


def is_read(without: pa.Table, chosen: ds.Expression) -> bool:
    """Whether an expression that fits a table does not fit it without one of its columns."""
    try:
        without.filter(chosen)
    except pa.ArrowInvalid:
        return True
    return False
