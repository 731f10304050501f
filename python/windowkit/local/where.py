"""Conditions in this process: those of results, and what they say of rows, as expressions of pyarrow."""

from __future__ import annotations

import re
from functools import reduce
from operator import and_, or_
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from windowkit.arrow.computing import pyarrow_values
from windowkit.errors import InvalidType, InvalidValue, UnknownColumn, WindowKitError
from windowkit.files.comparisons import compared, family, time_of
from windowkit.language.checks import suggested
from windowkit.language.conditions import (
    TYPED,
    Nested,
    Opaque,
    Test,
    Tree,
    Value,
    condition,
    names_of,
    nested,
    quoted_path,
    shortened,
)
from windowkit.language.expressions import Expression
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.pushdown import Split, split
from windowkit.language.query import Query
from windowkit.local.selecting import kept

__all__ = ["MOST", "Where", "held", "tests_in"]

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

MOST: Final = 256
"""Of the tests of a condition that pyarrow evaluates as one expression."""
UNITS: Final = {"s": "second", "ms": "millisecond", "us": "microsecond", "ns": "nanosecond"}
SIGNS: Final = re.compile("[%_]")
"""What stands for other text in a pattern."""
LAST: Final = "\ud7ff"
"""The last character before numbers that no character has."""
READ: Final = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.float16(): pa.float32(),
}
"""Types that are compared as another one of the same values."""


class Where:
    """A condition on the results of a query over rows of a schema.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It does not fit the result, or is not evaluated in this process.
    """

    def __init__(self, where: Any, query: Query, rows: pa.Schema, result: pa.Schema) -> None:
        given = condition(where)
        self._windows = Mask(given.tree, result)
        # What no result could be tested for is noticed before any row is read.
        self._windows(pa.Table.from_batches([], result))
        self.split: Split = split(given, query, rows)
        self.rows = None if self.split.rows is None else Mask(self.split.rows, shown(query, rows, result))
        """What takes the rows that may be in windows for which it holds; None if these are all."""

    def windows(self, result: Rows) -> Rows:
        """Return the windows for which it holds."""
        return self._windows(result)


def shown(query: Query, rows: pa.Schema, result: pa.Schema) -> pa.Schema:
    """Return a schema of rows whose times are in the zone of windows: in it, text is a time of both."""
    edge = windows_of(query, result)
    at = rows.get_field_index(str(query.time))
    is_zoned = pa.types.is_timestamp(edge) and edge.tz is not None
    return rows.set(at, rows.field(at).with_type(edge)) if is_zoned else rows


def windows_of(query: Query, result: pa.Schema) -> pa.DataType:
    """Return the type of starts and ends of windows in a result."""
    kind = result.field(len(query.by) + (len(query.windows) > 1)).type
    return kind.field("start").type if pa.types.is_struct(kind) else kind


class Mask:
    """Takes the rows for which a condition on their columns holds.

    pyarrow puts the members of AND and OR within each other, and calls itself for each: thousands take long,
    and more end the process. So a large condition is evaluated in parts.
    """

    def __init__(self, tree: Tree, schema: pa.Schema) -> None:
        self._names = list(dict.fromkeys(names_of(tree)))
        self._parts: list[Mask] = []
        self._join = pc.or_
        if isinstance(tree, Nested) and tests_in(tree) > MOST:
            middle = len(tree.members) // 2
            halves = (tree.members[:middle], tree.members[middle:])
            self._parts = [Mask(nested(tree.word, list(half)), schema) for half in halves]
            self._join = pc.and_ if tree.word == "and" else pc.or_
        else:
            self._expression = Expression(str(tree), "pyarrow", held(tree, schema))
        self._is_true = not self._names and is_true(tree)

    def chosen(self, rows: Rows) -> pa.ChunkedArray:
        """Return whether it holds of each row."""
        if self._parts:
            return self._join(*(part.chosen(rows) for part in self._parts))
        if not self._names:
            return pa.chunked_array([pa.repeat(self._is_true, len(rows))])
        # Of the parts of a condition nothing is asked but whether they are true.
        return pc.fill_null(pyarrow_values("where", self._expression, rows.select(self._names)), False)

    def __call__(self, rows: Rows) -> Rows:
        """Return the rows for which it holds."""
        mask = self.chosen(rows)
        if isinstance(rows, pa.Table):
            return kept(rows, mask)
        batches = kept(pa.Table.from_batches([rows]), mask).combine_chunks().to_batches()
        return batches[0] if batches else rows.slice(0, 0)


def tests_in(tree: Tree) -> int:
    """Return how many tests a condition has."""
    return sum(map(tests_in, tree.members)) if isinstance(tree, Nested) else 1


def is_true(tree: Tree) -> bool:
    """Return what a condition is that reads no column: all of it is true and false, with AND and OR."""
    assert isinstance(tree, Nested), "tests read columns, and nothing else is read here"
    return (all if tree.word == "and" else any)(map(is_true, tree.members))


def held(tree: Tree, schema: pa.Schema, zone: str | None = None, *, groups: bool = False) -> ds.Expression:
    """Return a condition on columns as an expression that is true where it holds.

    Parameters
    ----------
    tree : Nested or Test
    schema : pyarrow.Schema
    zone : str, optional
        In which text is a time, where a column has times with a zone; by default that of the column.
    groups : bool, default False
        Whether it is tested against statistics: see `compared`.
    """
    if isinstance(tree, Nested):
        parts = [held(each, schema, zone, groups=groups) for each in tree.members]
        return reduce(and_ if tree.word == "and" else or_, parts or [ds.scalar(tree.word == "and")])
    if isinstance(tree, Opaque):
        raise InvalidValue(
            f"where: {shortened(str(tree))} is not compared in this process, where conditions are "
            "comparisons of a column with literals by =, !=, <, <=, >, >=, [not] in (...), [not] between ... "
            "and ..., [not] like '...' or is [not] null, and of these with and, or, not; filter the result "
            "instead"
        )
    return test_of(tree, schema, zone, groups)


def test_of(test: Test, schema: pa.Schema, zone: str | None, groups: bool) -> ds.Expression:
    """Return a test of a column as an expression."""
    kind, field = column_of(test, schema)
    if test.operator in ("is null", "is not null"):
        return field.is_null() if test.operator == "is null" else field.is_valid()
    if pa.types.is_null(kind):
        # Of null, nothing is true.
        return ds.scalar(False)
    own = kind.value_type if pa.types.is_dictionary(kind) else kind
    own = READ.get(own, own)
    if own != kind:
        # In one step, as dictionaries are not cast to views.
        kind, field = own, field.cast(own)
    name = quoted_path(test.path)
    try:
        if test.operator.endswith("like"):
            return alike(test, name, kind, field, groups=groups)
        if test.shift:
            return shifted(test, name, kind, field, zone_of(kind, zone))
        values = [given_of(value, name, kind) for value in test.values]
        given: Any = values if test.operator.endswith("in") else values[0]
        if not family(kind):
            raise InvalidType(
                f"where: {name} is a column of {kind}, which no literal is compared with; ask whether it is "
                "null, or filter the result instead"
            )
        return compared(name, test.operator, given, kind, zone_of(kind, zone), groups=groups, of=field)
    except WindowKitError as error:
        # Comparisons of files are filters.
        raise type(error)(re.sub("^filter:", "where:", str(error))) from None


def column_of(test: Test, schema: pa.Schema) -> tuple[pa.DataType, ds.Expression]:
    """Return the type of a column or a field of one, and what reads it."""
    name, *fields = test.path
    if len(schema.get_all_field_indices(name)) != 1:
        raise UnknownColumn(unknown(test, schema))
    kind = schema.field(name).type
    for each in fields:
        if not pa.types.is_struct(kind) or kind.get_field_index(each) < 0:
            raise UnknownColumn(unknown(test, schema))
        kind = kind.field(each).type
    return kind, pc.field(*test.path)


def unknown(test: Test, schema: pa.Schema) -> str:
    """Return what is said of a column that is not there."""
    names = []
    for field in schema:
        inner = [each.name for each in field.type] if pa.types.is_struct(field.type) else []
        names += [f"{field.name}.{each}" for each in inner] or [field.name]
    given = ".".join(test.path)
    return (
        f"where: the result has no column {given!r}; it has {', '.join(map(repr, names))}"
        f"{suggested(given, names)}"
    )


def zone_of(kind: pa.DataType, zone: str | None) -> str | None:
    """Return the zone in which text without one is a time: that in which the column shows its times."""
    return getattr(kind, "tz", None) if zone is None else zone


def given_of(value: Value, name: str, kind: pa.DataType) -> Any:
    """Return a literal as it is compared with a column of some type."""
    if value.kind not in TYPED:
        return value.given
    is_date = value.kind == "date"
    if not (pa.types.is_timestamp(kind) or (is_date and pa.types.is_date(kind))):
        raise InvalidType(f"where: {value.text} is compared with {name}, a column of {kind}; write a string")
    if not is_date:
        return value.string
    try:
        return pa.scalar(value.string).cast(pa.date32())
    except pa.ArrowInvalid:
        raise InvalidValue(f"where: {value.text} is no date; dates are such as date '2024-05-01'") from None


def alike(test: Test, name: str, kind: pa.DataType, field: ds.Expression, *, groups: bool) -> ds.Expression:
    """Return whether text is like a pattern; of `groups`, whether some text between two may be."""
    if not pa.types.is_string(kind):
        raise InvalidType(f"where: like is asked of {name}, a column of {kind}; it is for text")
    pattern = test.values[0].string
    if groups:
        start = SIGNS.split(pattern)[0]
        return between(field, start) if test.operator == "like" else field.is_valid()
    found = pc.match_like(field, pattern)
    return found if test.operator == "like" else ~found


def between(field: ds.Expression, start: str) -> ds.Expression:
    """Return what holds of all texts that begin so, and of few others: they are in order of code points."""
    if not start:
        return field.is_valid()
    least = field >= start
    # What comes after that is no character.
    return least & (field < start[:-1] + chr(ord(start[-1]) + 1)) if start[-1] < LAST else least


def shifted(
    test: Test, name: str, kind: pa.DataType, field: ds.Expression, zone: str | None
) -> ds.Expression:
    """Return a comparison of times with one that is some distance from a literal."""
    (value,) = test.values
    if pa.types.is_integer(kind):
        bound, scale = value.given + test.shift, 1
        least, most = limits(kind)
    else:
        scale = NANOSECONDS["day"] if pa.types.is_date(kind) else NANOSECONDS[UNITS[kind.unit]]
        stated = time_of(name, value.string, kind, zone)
        bound = nanoseconds_of(stated) + test.shift
        least, most = limits(pa.int32() if pa.types.is_date(kind) else pa.int64())
    # In whole units: the first that is not before the bound; of >, the last that is not after it.
    whole = bound // scale if test.operator == ">" else -(-bound // scale)
    if whole > most:
        return field.is_valid() if test.operator == "<" else ds.scalar(False)
    if whole < least:
        return field.is_valid() if test.operator != "<" else ds.scalar(False)
    integers = pa.int32() if pa.types.is_date(kind) else pa.int64()
    place = pa.scalar(whole, kind if pa.types.is_integer(kind) else integers).cast(kind)
    return {"<": field < place, ">": field > place, ">=": field >= place}[test.operator]


def nanoseconds_of(stated: pa.Scalar) -> int:
    """Return a time as nanoseconds since 1970, of any size."""
    scale = NANOSECONDS["day"] if pa.types.is_date(stated.type) else NANOSECONDS[UNITS[stated.type.unit]]
    return int(stated.value) * scale


def limits(kind: pa.DataType) -> tuple[int, int]:
    """Return the least and the greatest integer of a type."""
    bits = kind.bit_width
    is_signed = pa.types.is_signed_integer(kind)
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else (0, 2**bits - 1)
