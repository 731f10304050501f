"""Which rows of files are read: filters as pyarrow's expressions, checked against columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import reduce
from operator import and_, or_
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.spark import parquet
from windowkit.spark.comparisons import OPERATORS, compared
from windowkit.spark.kinds import Kind, refusal
from windowkit.spark.pruning import Chosen
from windowkit.windows.grammar import QUOTED, unquoted

__all__ = ["Filter", "chosen_of", "parse"]

# Of pyarrow.dataset.Expression, of which pyarrow tells no type, or of tuples.
Filter: TypeAlias = Any
Comparison: TypeAlias = tuple[str, str, Any]

ALLOWED: Final = (
    "filter is a pyarrow.dataset.Expression, or a list of tuples (column, operator, value), or a list of "
    "such lists of which any holds; None takes all rows"
)

COMPARISON: Final = re.compile(
    rf"\s*(?P<column>{QUOTED}|[^\s`<>=!]+)\s*(?P<operator>==|!=|<=|>=|=|<|>|\bnot\s+in\b|\bin\b)"
    r"\s*(?P<value>\S.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)
MISSING: Final = re.compile(r"No match for (?:FieldRef\.Nested\()?FieldRef\.Name\((.*?)\)[ )].*in ")
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
    given: Filter | None,
    columns: dict[str, Kind],
    where: str,
    *,
    any_case: bool = True,
    zone: str | None = None,
) -> tuple[Chosen | None, dict[str, pa.DataType]]:
    """Return the filter as expressions, and the columns it reads in Spark's types.

    Parameters
    ----------
    given : Filter or None
    columns : dict of str to pyarrow.DataType
        The columns of the table, as files have them.
    where : str
        A file, to name in errors.
    any_case : bool, default True
        Whether tuples name columns in any case, as Spark has it by default. An expression names them as
        they are.
    zone : str, optional
        The session's, of times that are given without one.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It is no filter, or does not fit the columns.
    """
    if given is None:
        return None, {}
    if isinstance(given, ds.Expression):
        return of_expression(given, columns, where)
    lists = [[resolved(each, columns, where, any_case) for each in terms] for terms in lists_of(given)]
    kinds = {column: kind_of(column, columns, where) for terms in lists for column, _, _ in terms}

    def made(groups: bool) -> ds.Expression:
        return reduce(
            or_,
            [
                reduce(and_, [compared(*each, kinds[each[0]], zone, groups=groups) for each in terms])
                for terms in lists
            ],
        )

    return Chosen(made(False), made(True), tuple(kinds), True), kinds


def lists_of(given: Any) -> list[list[Comparison]]:
    """Return tuples as lists of which any holds, each a list of comparisons that all hold.

    Raises
    ------
    InvalidType, InvalidValue
        They are none.
    """
    if not isinstance(given, list | tuple):
        raise InvalidType(f"filter: a {type(given).__name__} is given; {ALLOWED}")
    if isinstance(given, tuple) and given and isinstance(given[0], str):
        raise InvalidType(f"filter: {given!r} is a tuple by itself; {ALLOWED}")
    alternatives = bool(given) and all(isinstance(each, list) for each in given)
    lists = list(given) if alternatives else [given]
    for terms in lists:
        if not terms:
            raise InvalidValue(f"filter: {given!r} has an empty list; {ALLOWED}")
        for each in terms:
            is_one = isinstance(each, tuple) and len(each) == 3
            if not is_one or not all(isinstance(part, str) for part in each[:2]):
                raise InvalidValue(f"filter: {each!r} is given as a comparison; {ALLOWED}")
            if each[1] not in OPERATORS:
                raise InvalidValue(
                    f"filter: operator {each[1]!r} of {each!r} is unknown; operators are "
                    f"{', '.join(OPERATORS)}"
                )
    # Values that can be gone through only once are kept: expressions are made twice.
    return [
        [
            (column, operator, list(value) if isinstance(value, Iterator) else value)
            for column, operator, value in terms
        ]
        for terms in lists
    ]


def resolved(given: Comparison, columns: dict[str, Kind], where: str, any_case: bool) -> Comparison:
    """Return a comparison whose column has the name that it has in files."""
    column, operator, value = given
    alike = [name for name in columns if any_case and name.lower() == column.lower()]
    if column not in columns and len(alike) != 1:
        what = f"is ambiguous among {', '.join(map(repr, alike))}" if alike else "is unknown"
        raise UnknownColumn(f"filter: column {column!r} {what}; {there(columns, where)}")
    return (column if column in columns else alike[0]), operator, value


def there(columns: dict[str, Kind], where: str) -> str:
    return f"columns of {where} are {', '.join(map(repr, columns))}"


def kind_of(column: str, columns: dict[str, Kind], where: str) -> pa.DataType:
    kind = parquet.kind_in_spark(columns[column])
    if kind is None:
        raise InvalidType(
            f"filter: column {column!r} is {columns[column]} in {where}, {refusal(columns[column])}; other "
            "columns may be asked for"
        )
    return kind


def of_expression(
    given: ds.Expression, columns: dict[str, Kind], where: str
) -> tuple[Chosen, dict[str, pa.DataType]]:
    """Return an expression of pyarrow as a filter, and the columns it reads in Spark's types."""
    if re.search(r"FieldPath\(\d", str(given)):
        raise InvalidValue(
            f"filter: {given} names a column by its position, which differs between files; columns are named"
        )
    read = {name: parquet.kind_in_spark(kind) for name, kind in columns.items()}
    kinds = {name: kind for name, kind in read.items() if kind is not None}
    # Of a row of nulls: with none at all pyarrow does not find out what cannot be compared.
    table = pa.table([pa.nulls(1, kind) for kind in kinds.values()], schema=pa.schema(list(kinds.items())))
    try:
        table.filter(given)
    except pa.ArrowException as error:
        missing = MISSING.search(str(error))
        if missing is None:
            raise InvalidValue(
                f"filter: {given} does not fit the columns ({error}); {advice_on(str(error))}"
            ) from None
        name = missing[1]
        if name in columns and name not in kinds:
            kind_of(name, columns, where)
        alike = [each for each in columns if each.lower() == name.lower()]
        advice = f"; an expression names columns as they are, as {alike[0]!r}" if alike else ""
        raise UnknownColumn(f"filter: {given} names {name!r}{advice}; {there(columns, where)}") from None
    needed = {name: kind for name, kind in kinds.items() if is_read(table.drop_columns([name]), given)}
    # What it says of fractions may hold of NaN, of which statistics say nothing.
    return Chosen(given, given, tuple(needed), False), needed


def advice_on(error: str) -> str:
    """Return what is allowed instead of what pyarrow refused."""
    if "must evaluate to bool" in error:
        return "an expression is true or false of a row"
    if "timestamp" in error and "compare" in error:
        return "times with zone are compared with times with zone, and times without with such"
    if "has no kernel matching" in error:
        return "functions take columns of the types that pyarrow has them for, and compare alike ones"
    return "an expression is one that pyarrow evaluates on these columns"


def is_read(without: pa.Table, chosen: ds.Expression) -> bool:
    """Whether an expression that fits a table does not fit it without one of its columns."""
    try:
        without.filter(chosen)
    except pa.ArrowInvalid:
        return True
    return False
