"""Which rows of files are read: filters as pyarrow's expressions, checked against columns."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import reduce
from operator import and_, or_
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql.types import StructField, StructType

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn, WindowKitError
from windowkit.files.comparisons import OPERATORS, compared, operands
from windowkit.language.checks import a_type
from windowkit.language.conditions import Nested, Tree, names_of, nested
from windowkit.local.where import MOST, held, tests_in
from windowkit.spark.jobs import arrow_type, identifier, literal
from windowkit.spark.parquet.footers import in_spark
from windowkit.spark.parquet.pruning import Chosen

__all__ = [
    "ALL",
    "Filter",
    "Filtered",
    "chosen_of",
    "columns_of",
    "joined",
    "kind_of",
    "of_tree",
    "with_rows",
]

# Of pyarrow.dataset.Expression, which pyarrow does not type, or of tuples.
Filter: TypeAlias = Any
Comparison: TypeAlias = tuple[str, str, Any]
Columns: TypeAlias = Mapping[str, pa.DataType | InvalidType]

ALLOWED: Final = (
    "filter is a pyarrow.dataset.Expression, or a list of tuples (column, operator, value), or a list of "
    "such lists of which any holds; None takes all rows"
)

MOST_VALUES: Final = 1024
"""Of a list that Spark is given as SQL."""
YEAR: Final = re.compile(r"\d{4}-")
"""Of four digits, as Spark reads them in text."""
MISSING: Final = re.compile(r"No match for (?:FieldRef\.Nested\()?FieldRef\.Name\((.*?)\)[ )].*in ")


def columns_of(schema: StructType) -> dict[str, pa.DataType | InvalidType]:
    """Return the types in which tasks read columns, or why they do not."""

    def read(field: StructField) -> pa.DataType | InvalidType:
        try:
            return arrow_type(field.name, field.dataType, "filter")
        except InvalidType as error:
            return error

    return {field.name: read(field) for field in schema.fields}


class Filtered(NamedTuple):
    """Which rows are read, or None for all, and the columns that this reads, in Spark's types.

    `lists` say the same as far as SQL does: of any, all hold, each of some columns.
    """

    chosen: Chosen | None
    kinds: Mapping[str, pa.DataType]
    lists: Sequence[Sequence[tuple[Collection[str], str | None]]] = ()

    @property
    def is_sql(self) -> bool:
        """Whether `condition` is true of no other rows."""
        return bool(self.lists) and all(text is not None for terms in self.lists for _, text in terms)

    def condition(self, columns: Collection[str] | None = None) -> str | None:
        """Return what is true of all these rows in SQL, by some columns or all; None if nothing is known."""
        known = [
            [
                text
                for names, text in terms
                if text is not None and (columns is None or set(names) <= {*columns})
            ]
            for terms in self.lists
        ]
        if not known or not all(known):
            return None
        return joined("or", [joined("and", terms) for terms in known])

    def also(self, other: Chosen, kinds: Mapping[str, pa.DataType]) -> Filtered:
        """Return the rows that another filter chooses of these, which reads some columns of these types."""
        read = {**self.kinds, **{name: kinds[name] for name in other.columns}}
        own = self.chosen
        if own is None:
            return Filtered(other, read)
        columns = tuple(dict.fromkeys([*own.columns, *other.columns]))
        floats = own.floats and other.floats
        return Filtered(Chosen(own.rows & other.rows, own.groups & other.groups, columns, floats), read)


ALL: Final = Filtered(None, {})


def joined(word: str, texts: list[str]) -> str:
    """Return conditions in SQL as one."""
    return texts[0] if len(texts) == 1 else f" {word} ".join(f"({text})" for text in texts)


def chosen_of(
    given: Filter | None, columns: Columns, *, any_case: bool = True, zone: str | None = None
) -> Filtered:
    """Return the filter as expressions, and the columns it reads in Spark's types.

    Parameters
    ----------
    given : Filter or None
    columns : mapping of str to pyarrow.DataType or InvalidType
        The columns of the table as Spark has them, or why one is not read.
    any_case : bool, default True
        Whether tuples name columns in any case, as Spark has it by default. An expression names them as
        they are.
    zone : str, optional
        The session's, of times that are given without one.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It is not a filter, or does not fit the columns.
    """
    if given is None:
        return ALL
    if isinstance(given, ds.Expression):
        return of_expression(given, columns)
    lists = [[resolved(each, columns, any_case) for each in terms] for terms in lists_of(given)]
    kinds = {column: kind_of(column, columns) for terms in lists for column, _, _ in terms}

    def made(groups: bool) -> ds.Expression:
        of = [[compared(*each, kinds[each[0]], zone, groups=groups) for each in terms] for terms in lists]
        return reduce(or_, [reduce(and_, terms) for terms in of])

    said = [[((each[0],), in_sql(*each, kinds[each[0]], zone)) for each in terms] for terms in lists]
    return Filtered(Chosen(made(False), made(True), tuple(kinds), True), kinds, said)


def in_sql(column: str, operator: str, given: Any, kind: pa.DataType, zone: str | None) -> str | None:
    """Return a comparison as SQL; None if it is not of the column's own type, too long, or of fractions.

    By statistics, which leave NaN out, Spark's reader leaves out rows with it that match.
    """
    typed = operands(column, operator, given, kind, zone)
    if isinstance(typed, bool):
        return str(typed).lower()
    wide, values = typed
    if wide != kind or pa.types.is_floating(kind) or len(values) > MOST_VALUES:
        return None
    if pa.types.is_binary(kind):
        literals = [f"X'{value.hex()}'" for value in values.to_pylist()]
    else:
        texts = values.cast(pa.string()).to_pylist()
        if pa.types.is_temporal(kind) and not all(map(YEAR.match, texts)):
            return None
        of = in_spark(kind).simpleString()
        literals = [literal(text) if of == "string" else f"cast('{text}' as {of})" for text in texts]
    value = f"({', '.join(literals)})" if operator.endswith("in") else literals[0]
    return f"{identifier(column)} {operator} {value}"


def with_rows(
    chosen: Filtered, rows: Tree | None, kinds: Mapping[str, pa.DataType], zone: str | None
) -> Filtered:
    """Return a filter with what a condition on results says of rows.

    Parameters
    ----------
    chosen : Filtered
    rows : Nested, Test or None
        By the names of columns of the table.
    kinds : mapping of str to pyarrow.DataType
        Of these columns.
    zone : str or None
        The session's.
    """
    # pyarrow ends the process over a much larger one, and Spark's own filter follows.
    known = None if rows is None or tests_in(rows) > MOST else said(rows, kinds, zone)
    return chosen if known is None else chosen.also(of_tree(known, kinds, zone), kinds)


def of_tree(rows: Tree, kinds: Mapping[str, pa.DataType], zone: str | None) -> Chosen:
    """Return a condition as a filter, with all that it says.

    Raises
    ------
    WindowKitError
        Tasks do not test all of it.
    """
    if tests_in(rows) > MOST:
        raise InvalidValue(f"filter: it has {tests_in(rows):,} tests, and tasks evaluate {MOST:,} at most")
    schema = pa.schema(list(kinds.items()))
    own, groups = (held(rows, schema, zone, groups=groups) for groups in (False, True))
    return Chosen(own, groups, tuple(dict.fromkeys(names_of(rows))), True)


def said(rows: Tree, kinds: Mapping[str, pa.DataType], zone: str | None) -> Tree | None:
    """Return what tasks can test of it: Spark compares more, and its own filter follows."""
    if isinstance(rows, Nested):
        parts = [said(each, kinds, zone) for each in rows.members]
        known = [part for part in parts if part is not None]
        is_open = not known or (rows.word == "or" and len(known) < len(parts))
        return None if is_open else nested(rows.word, known)
    try:
        held(rows, pa.schema(list(kinds.items())), zone)
    except WindowKitError:
        return None
    return rows


def lists_of(given: Any) -> list[list[Comparison]]:
    """Return tuples as lists of which any holds, each a list of comparisons that all hold.

    Raises
    ------
    InvalidType, InvalidValue
        They are none.
    """
    if not isinstance(given, list | tuple):
        raise InvalidType(f"filter: {a_type(given)} is given; {ALLOWED}")
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


def resolved(given: Comparison, columns: Columns, any_case: bool) -> Comparison:
    """Return a comparison whose column has the name that it has in files."""
    column, operator, value = given
    alike = [name for name in columns if any_case and name.lower() == column.lower()]
    if column not in columns and len(alike) != 1:
        what = f"is ambiguous among {', '.join(map(repr, alike))}" if alike else "is unknown"
        raise UnknownColumn(f"filter: column {column!r} {what}; {there(columns)}")
    return (column if column in columns else alike[0]), operator, value


def there(columns: Columns) -> str:
    return f"columns are {', '.join(map(repr, columns))}"


def kind_of(column: str, columns: Columns) -> pa.DataType:
    """Return the type in which tasks read a column, or raise why they do not."""
    kind = columns[column]
    if isinstance(kind, InvalidType):
        raise kind
    return kind


def of_expression(given: ds.Expression, columns: Columns) -> Filtered:
    """Return an expression of pyarrow as a filter, and the columns it reads in Spark's types."""
    if re.search(r"FieldPath\(\d", str(given)):
        raise InvalidValue(
            f"filter: {given} names a column by its position, which differs between files; columns are named"
        )
    kinds = {name: kind for name, kind in columns.items() if isinstance(kind, pa.DataType)}
    # Of a row of nulls: with none at all pyarrow does not find out what cannot be compared.
    table = pa.table([pa.nulls(1, kind) for kind in kinds.values()], schema=pa.schema(list(kinds.items())))
    try:
        table.filter(given)
    except pa.ArrowException as error:
        missing = MISSING.search(str(error))
        if missing is None:
            raise InvalidValue(
                f"filter: {given} does not fit the columns ({error}); an expression is true or false of a "
                "row, and compares what is of one type"
            ) from None
        name = missing[1]
        if name in columns:
            kind_of(name, columns)
        alike = [each for each in columns if each.lower() == name.lower()]
        advice = f"; an expression names columns as they are, as {alike[0]!r}" if alike else ""
        raise UnknownColumn(f"filter: {given} names {name!r}{advice}; {there(columns)}") from None
    needed = {name: kind for name, kind in kinds.items() if is_read(table.drop_columns([name]), given)}
    # What it says of fractions may hold of NaN, of which statistics say nothing.
    return Filtered(Chosen(given, given, tuple(needed), False), needed)


def is_read(without: pa.Table, chosen: ds.Expression) -> bool:
    """Whether an expression that fits a table does not fit it without one of its columns."""
    try:
        without.filter(chosen)
    except pa.ArrowInvalid:
        return True
    return False
