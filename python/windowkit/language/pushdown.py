"""What a condition on results says of rows, so that an engine can leave rows out before anything else.

The whole condition is applied to windows; of rows only what follows from it is. A row is left out if every
window that it is in fails the condition, whatever the aggregates are, so that no window that passes has lost
a row, and no window that has lost one passes:

- What is said of a key holds of each row of the key.
- What is said of a window's start or end limits the times of its rows, where windows lie where they do
  whatever rows there are, and have a greatest length.
- AND says what any side says, and OR what both say; what nothing is known of says nothing.

Engines evaluate what is said of rows by the rules by which they evaluate conditions on results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from windowkit.errors import InvalidValue
from windowkit.language.conditions import Condition, Nested, Opaque, Test, Tree, Value, nested, quoted_path
from windowkit.language.durations import Duration
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.query import Query

__all__ = ["Split", "refuse_changing", "split"]

DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
TIME: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?P<zone>Z|[+-]\d\d:\d\d)?)?", re.ASCII
)
"""Of the many forms that engines read as times, those that all of them read alike."""
FARTHEST: Final = 2**71
"""Nanoseconds (75,000 years): around any year of four digits, windows so long are within Spark's times."""
EDGES: Final = ("start", "end")
DAY: Final = NANOSECONDS["day"]


@dataclass(frozen=True)
class Split:
    """A condition on results, and what it says of rows.

    Parameters
    ----------
    condition : Condition
        On the columns of results. All of it is applied to these.
    rows : Nested, Test or None
        What holds of each row that is needed, by the columns of the input; None if it is nothing.
    notes : tuple of str
        What says nothing of rows, and why.
    """

    condition: Condition
    rows: Tree | None
    notes: tuple[str, ...]

    def described(self) -> list[str]:
        """Return the lines of `explain`."""
        rows = "nothing" if self.rows is None else shown(self.rows)
        return [
            f"where {self.condition.text}",
            f"  of rows, before anything else: {rows}",
            *(f"    not of rows: {note}" for note in self.notes),
            "  of windows, in the end: all of it",
        ]


def split(
    condition: Condition, query: Query, schema: pa.Schema, *, any_case: bool = False, by_time: bool = True
) -> Split:
    """Split a condition on the results of a query.

    Parameters
    ----------
    condition : Condition
    query : Query
        Over columns that are there (`Query.plain`).
    schema : pyarrow.Schema
        Has the types of its keys and of its time.
    any_case : bool
        Whether the condition names columns in any case.
    by_time : bool
        Whether rows may be left out by their times. In streams they move the watermark.

    Returns
    -------
    Split
    """
    made = Splitting(query, schema, any_case, by_time)
    rows = made.of_rows(condition.tree)
    return Split(condition, rows, tuple(dict.fromkeys(made.notes)))


def refuse_changing(condition: Condition, query: Query, *, any_case: bool, how: str) -> None:
    """Refuse a condition that may hold of a window's first result in a stream, and not of the next.

    Parameters
    ----------
    condition, query, any_case
        As for `split`.
    how : str
        By what a window is returned more than once, with nothing that withdraws the earlier result.

    Raises
    ------
    InvalidValue
        It is not of keys alone, and of starts and ends that no row changes.
    """
    made = Splitting(query, pa.schema([]), any_case, by_time=False)
    are_fixed = all(window.known_length is not None for window in query.windows)

    def check(tree: Tree) -> None:
        if isinstance(tree, Nested):
            for each in tree.members:
                check(each)
            return
        is_fixed = isinstance(tree, Test) and (
            made.key_of(tree) is not None or (are_fixed and made.edge_of(tree) is not None)
        )
        if not is_fixed:
            raise InvalidValue(
                f"where: {tree} may hold of a window's first result and not of the next, which would be "
                f"missed, as {how}; allowed are conditions on keys, and on starts and ends of windows that "
                "no row changes, or a policy that is 'retracting'. Or filter what is written"
            )

    check(condition.tree)


@dataclass
class Splitting:
    """What is said of rows so far."""

    query: Query
    schema: pa.Schema
    any_case: bool
    by_time: bool

    def __post_init__(self) -> None:
        self.notes: list[str] = []

    def of_rows(self, tree: Tree) -> Tree | None:
        """Return what a condition says of rows; None if it is nothing."""
        if isinstance(tree, Opaque):
            return self.nothing(tree, "as it is no comparison of a column with literals")
        if isinstance(tree, Test):
            return self.of_test(tree)
        if not tree.members:
            # Of rows, that all may be needed is not said.
            return tree if tree.word == "or" else None
        said = [self.of_rows(each) for each in tree.members]
        known = [each for each in said if each is not None]
        if tree.word == "or" and len(known) < len(said):
            return self.nothing(tree, "as one side of OR says nothing of rows") if known else None
        return nested(tree.word, known) if known else None

    def nothing(self, tree: Tree, why: str) -> Tree | None:
        """Return what says nothing of rows, and note why."""
        self.notes.append(f"{tree}, {why}")
        return None

    def of_test(self, test: Test) -> Tree | None:
        """Return what one test says of rows."""
        key, edge = self.key_of(test), self.edge_of(test)
        if key is not None:
            return self.of_key(replace(test, path=(key,)))
        if edge is not None:
            return self.of_edge(test, edge)
        if any(self.are_same(test.path[:1], (name,)) for name in map(str, self.query.by)):
            return self.nothing(test, "as it is of a field within a key")
        is_aggregate = any(self.are_same(test.path, (each.name,)) for each in self.query.aggs)
        what = "of an aggregate" if is_aggregate else "neither of a key nor of a window's start, end or date"
        return self.nothing(test, f"as it is {what}")

    def key_of(self, test: Test) -> str | None:
        """Return the key that a test is of."""
        return next((name for name in map(str, self.query.by) if self.are_same(test.path, (name,))), None)

    def edge_of(self, test: Test) -> str | None:
        """Return whether a test is of windows' start or end, or of their date."""
        edges = ("date",) if self.query.window_columns == "date" else EDGES
        return next((edge for edge in edges if self.are_same(test.path, self.path_of(edge))), None)

    def are_same(self, path: tuple[str, ...], other: tuple[str, ...]) -> bool:
        """Return whether a path of a condition is that of a column."""
        if self.any_case:
            return [name.lower() for name in path] == [name.lower() for name in other]
        return path == other

    def path_of(self, edge: str) -> tuple[str, ...]:
        """Return the column that holds starts or ends of windows."""
        is_struct = self.query.window_columns == "struct"
        return (self.query.window_column, edge) if is_struct else (f"window_{edge}",)

    def of_key(self, test: Test) -> Tree | None:
        """Return what a test of a key says of rows: the same."""
        kind = self.schema.field(test.path[0]).type
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if not pa.types.is_floating(kind) or test.operator in ("is null", "is not null"):
            return test
        # Statistics of files leave NaN out, the greatest value; and know 0.0 and -0.0, one key, as two.
        if test.operator not in ("=", "<", "<=", "in"):
            return self.nothing(test, "as readers that skip parts of files by their statistics may miss NaN")
        if not all(value.kind == "number" and float(value.given) for value in test.values):
            return self.nothing(test, "as 0.0 and -0.0 are one key, but not to all readers of files")
        return test

    def of_edge(self, test: Test, edge: str) -> Tree | None:
        """Return what a test of windows' starts or ends says of the times of rows."""
        if not self.by_time:
            return self.nothing(test, "as rows of a stream move its watermark")
        if self.query.time in self.query.by:
            return self.nothing(test, "as it would be read as a test of the key of that name")
        if self.query.fill is not None:
            return self.nothing(test, "as windows are filled between a key's first row and its last")
        lengths = {window: window.known_length for window in self.query.windows}
        unknown = next((window for window, length in lengths.items() if length is None), None)
        if unknown is not None:
            return self.nothing(test, f"as not the time of a row alone says in which {unknown} it is")
        length = max(length for length in lengths.values() if length is not None)
        if not pa.types.is_integer(self.kind) and length > FARTHEST:
            return self.nothing(test, "as windows are longer than times reach")
        made = list(self.bounds(test, edge, length))
        if not made:
            return self.nothing(test, "as it leaves the times of rows open")
        if not all(self.is_date(value) if edge == "date" else self.is_plain(value) for value in test.values):
            values = ", ".join(value.text for value in test.values)
            return self.nothing(test, f"as {values} is not written as a time of {self.kind}")
        return nested("or", made)

    @property
    def kind(self) -> pa.DataType:
        """The type of times."""
        return self.schema.field(self.query.time).type

    def bounds(self, test: Test, edge: str, length: int) -> Iterator[Tree]:
        """Yield between which times rows are: any of these."""
        path = (str(self.query.time),)
        if test.operator not in ("=", "in", "<", "<=", ">", ">="):
            return
        # Rows of a window that begins at X are in [X, X + length), of one that ends there in [X - length, X).
        low, high = (-length, 0) if edge == "end" else (0, length)
        if edge == "date":
            # Engines read a date as midnight in some zone, at most a day from that of the windows.
            low, high = low - 2 * DAY, high + 3 * DAY
        for value in test.values:
            least = Test(path, ">" if test.operator == ">" and edge != "date" else ">=", (value,), low)
            most = Test(path, "<", (value,), high)
            if test.operator in ("=", "in"):
                yield Nested("and", (least, most))
            else:
                yield least if test.operator[0] == ">" else most

    def is_date(self, value: Value) -> bool:
        """Return whether a literal is a day, and read as such by every engine."""
        return value.kind in ("string", "date") and DATE.fullmatch(value.string) is not None

    def is_plain(self, value: Value) -> bool:
        """Return whether a literal is a time of the column's type, and read as such by every engine."""
        if pa.types.is_integer(self.kind):
            return value.kind == "number" and isinstance(value.given, int)
        if value.kind not in ("string", "date", "timestamp", "timestamp_ltz", "timestamp_ntz"):
            return False
        if "\\" in value.text:
            return False
        if pa.types.is_date(self.kind) or value.kind == "date":
            return self.is_date(value)
        if not pa.types.is_timestamp(self.kind):
            return False
        found, has_zone = TIME.fullmatch(value.string), self.kind.tz is not None
        typed = ("string", "timestamp", "timestamp_ltz") if has_zone else ("string", "timestamp_ntz")
        return value.kind in typed and found is not None and (has_zone or found["zone"] is None)


def shown(rows: Tree) -> str:
    """Return what is said of rows for the reader, with the distances from times."""
    if isinstance(rows, Nested) and rows.members:
        return f" {rows.word} ".join(
            f"({shown(each)})" if isinstance(each, Nested) and each.members else shown(each)
            for each in rows.members
        )
    if isinstance(rows, Test) and rows.shift:
        sign = "+" if rows.shift > 0 else "-"
        (value,) = rows.values
        return f"{quoted_path(rows.path)} {rows.operator} {value.text} {sign} {distance(rows, value)}"
    return str(rows)


def distance(test: Test, value: Value) -> str:
    """Return how far from a literal rows may be, for the reader."""
    length = abs(test.shift)
    return str(length) if value.kind == "number" else str(Duration(length))
