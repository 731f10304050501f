"""Conditions, and columns, of a plan of Spark: as what is true of a row, by the names that a table has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, Literal

import pyarrow as pa

from windowkit.language.conditions import Nested, Test, Tree, Value, nested
from windowkit.spark.parquet.jvm import Unread, attribute, items, kind_of

__all__ = ["Columns", "Conditions", "named", "projected"]

DAY: Final = 86_400_000_000
YEARS: Final = (-719_162 * DAY, 2_932_897 * DAY)
"""Microseconds from 1970 to the beginning of the year 1, and to the end of the year 9999."""
MOST_PARTS: Final = 256
"""Of a filter: each takes some calls of the JVM, and may be within all others."""
EACH: Final = 16
"""Values of a list that count as a part."""
COMPARED: Final = {
    "EqualTo": "=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}
TURNED: Final = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
WIDER: Final = {
    "byte": ("short", "integer", "long"),
    "short": ("integer", "long"),
    "integer": ("long",),
    "float": ("double",),
}
"""Types of numbers, and those that hold all of these."""
LIKE: Final = {"StartsWith": "{}%", "EndsWith": "%{}", "Contains": "%{}%"}
"""What LIKE is in plans, and the pattern that it is of.

Others, such as ``a_``, are of characters, which Spark and pyarrow see in other places where strings are not
UTF-8.
"""
NAN: Final = Value("number", "nan")
WORDS: Final[dict[str, Literal["and", "or"]]] = {"And": "and", "Or": "or"}

Columns = dict[int, str | Unread]
"""What a table calls the columns of a plan, by their numbers; or why one is left to Spark."""


def named(name: str, number: int, columns: Columns) -> str:
    """Return what a table calls a column of a plan."""
    found = columns.get(number)
    if isinstance(found, str):
        return found
    raise found or Unread(f"column {name} is not one of the files, or is read in part")


def projected(expressions: list[Any], columns: Columns) -> Iterator[tuple[int, str | Unread]]:
    """Yield the columns that are left, renamed or not; what is computed is none of the table's.

    Some may be of a wider type than the table's: tasks pack rows in the types of the job.
    """
    for each in expressions:
        inner = each.child() if kind_of(each) == "Alias" else each
        kind = kind_of(inner)
        if kind == "Cast" and widens(inner):
            inner = inner.child()
            kind = kind_of(inner)
        if kind == "AttributeReference":
            found = columns.get(attribute(inner)[1])
            if found is not None:
                yield attribute(each)[1], found
        else:
            yield attribute(each)[1], Unread(f"a column is computed, {inner.sql()}")


def widens(cast: Any) -> bool:
    """Whether a cast leaves every number as it is."""
    return cast.dataType().typeName() in WIDER.get(cast.child().dataType().typeName(), ())


class Conditions:
    """Reads conditions of a plan: as what is true of a row, where SQL may also say that it does not know.

    Spark has compared types, and cast what it had to: here a column and literals are of one type.

    Parameters
    ----------
    columns : Columns
    marks : collection of int
        The columns that are 0 in all rows which tasks read, as they leave out those that are deleted.
    """

    def __init__(self, columns: Columns, marks: Collection[int] = ()) -> None:
        self.columns = columns
        self.marks = marks
        self.parts = 0

    def named(self, column: Any) -> str:
        """Return what the table calls a column of a condition."""
        return named(*attribute(column), self.columns)

    def count(self, parts: int = 1) -> None:
        """Count parts of a filter, of which there may be too many."""
        self.parts += parts
        if self.parts > MOST_PARTS:
            raise Unread(f"a filter has more than {MOST_PARTS} parts")

    def tree(self, node: Any, is_negated: bool = False) -> Tree:
        """Return what holds where a condition is true, or false."""
        self.count()
        kind = kind_of(node)
        if kind == "Not":
            return self.tree(node.child(), not is_negated)
        if kind in WORDS:
            word = WORDS[kind] if not is_negated else ("or" if kind == "And" else "and")
            return nested(word, [self.tree(node.left(), is_negated), self.tree(node.right(), is_negated)])
        if kind == "EqualNullSafe":
            return self.null_safe(node, is_negated)
        if kind == "IsNaN" and kind_of(node.child()) == "AttributeReference":
            # Of null it is false.
            column = (self.named(node.child()),)
            others: list[Tree] = [Test(column, "is null"), Test(column, "<", (NAN,))]
            return nested("or", others) if is_negated else Test(column, "=", (NAN,))
        if kind == "AtLeastNNonNulls":
            several = self.at_least(node)
            return several.negated() if is_negated else several
        if kind == "EqualTo" and self.is_mark(node):
            return Nested("or" if is_negated else "and", ())
        found = self.test(node, kind)
        if found is None:
            raise Unread(f"a filter is evaluated by Spark alone, {node.sql()}")
        return found.negated() if is_negated else found

    def is_mark(self, node: Any) -> bool:
        """Whether a comparison is with a mark, for 0."""
        column, literal = node.left(), node.right()
        return bool(
            self.marks
            and kind_of(column) == "AttributeReference"
            and attribute(column)[1] in self.marks
            and kind_of(literal) == "Literal"
            and literal.value() == 0
        )

    def null_safe(self, node: Any, is_negated: bool) -> Tree:
        """Return what holds where <=> is true, or false: it is never unknown."""
        literal = node.right()
        if not is_negated and kind_of(literal) == "Literal" and isinstance(literal.value(), bool):
            # Of a column, too: that a condition is false is more than that it is not true.
            return self.tree(node.left(), not literal.value())
        sides = self.sides(node)
        if sides is None:
            raise Unread(f"a filter is evaluated by Spark alone, {node.sql()}")
        column, value, _ = sides
        if value.kind == "null":
            return Test((column,), "is not null" if is_negated else "is null")
        if not is_negated:
            return Test((column,), "=", (value,))
        return nested("or", [Test((column,), "is null"), Test((column,), "!=", (value,))])

    def at_least(self, node: Any) -> Nested:
        """Return that all columns have a value, or any, as `dropna` asks; NaN is none."""
        columns, least = items(node.children()), node.n()
        self.count(len(columns))
        if least not in (1, len(columns)) or any(kind_of(each) != "AttributeReference" for each in columns):
            raise Unread(f"a filter is evaluated by Spark alone, {node.sql()}")
        known: list[Tree] = []
        for each in columns:
            is_float = each.dataType().typeName() in ("float", "double")
            there = Test((self.named(each),), "is not null")
            known.append(nested("and", [there, Test(there.path, "<", (NAN,))]) if is_float else there)
        return Nested("or" if least == 1 < len(columns) else "and", tuple(known))

    def like(self, node: Any, kind: str) -> Test | None:
        """Return what LIKE says of a column, where a pattern is the same here as in Spark."""
        column, literal = node.left(), node.right()
        if kind_of(column) != "AttributeReference" or kind_of(literal) != "Literal":
            return None
        text = str(literal.value().toString())
        if any(sign in text for sign in ("\\", "%", "_")):
            return None
        return Test((self.named(column),), "like", (Value("string", quoted(LIKE[kind].format(text))),))

    def test(self, node: Any, kind: str) -> Test | Nested | None:
        """Return a test of a column, or one literal; None if it is another."""
        if kind == "Literal" and node.dataType().typeName() == "boolean":
            # One that is not known is not true, and its negation neither.
            return None if node.value() is None else Nested("and" if node.value() else "or", ())
        if kind == "AttributeReference":
            return Test((self.named(node),), "=", (Value("boolean", "true"),))
        if kind in ("IsNull", "IsNotNull") and kind_of(node.child()) == "AttributeReference":
            operator = "is null" if kind == "IsNull" else "is not null"
            return Test((self.named(node.child()),), operator)
        if kind in COMPARED:
            sides = self.sides(node)
            if sides is None:
                return None
            column, value, is_turned = sides
            return Test((column,), TURNED[COMPARED[kind]] if is_turned else COMPARED[kind], (value,))
        if kind in LIKE:
            return self.like(node, kind)
        if kind not in ("In", "InSet"):
            return None
        column = node.value() if kind == "In" else node.child()
        if kind_of(column) != "AttributeReference":
            return None
        several = node.list() if kind == "In" else node.hset().toSeq()
        self.count(several.size() // EACH)
        given = items(several)
        if kind == "In":
            if any(kind_of(each) != "Literal" for each in given):
                return None
            given = [each.value() for each in given]
        of_type = column.dataType()
        return Test((self.named(column),), "in", tuple(value_of(each, of_type) for each in given))

    def sides(self, node: Any) -> tuple[str, Value, bool] | None:
        """Return the column and the literal that are compared, and whether the literal is on the left."""
        left, right = node.left(), node.right()
        is_turned = kind_of(left) == "Literal"
        column, literal = (right, left) if is_turned else (left, right)
        if kind_of(column) != "AttributeReference" or kind_of(literal) != "Literal":
            return None
        return self.named(column), value_of(literal.value(), column.dataType()), is_turned


def quoted(text: str) -> str:
    """Return a string as a condition has it."""
    return "'" + text.replace("'", "''") + "'"


def moment_of(micros: int) -> str:
    """Return a time as text, which has years of four digits alone."""
    if not YEARS[0] <= micros < YEARS[1]:
        raise Unread("a filter compares with a time before the year 1 or after the year 9999")
    return str(pa.scalar(micros, pa.timestamp("us")).cast(pa.string()).as_py())


LITERALS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long", "double"), ("number", repr)),
    # It comes as the shortest text that stands for it, which as a double is another number.
    "float": ("number", lambda value: repr(pa.scalar(value, pa.float32()).as_py())),
    "boolean": ("boolean", lambda value: "true" if value else "false"),
    "string": ("string", lambda value: quoted(value.toString())),
    "date": ("date", lambda days: f"date {quoted(moment_of(days * DAY)[:10])}"),
    "timestamp": ("timestamp", lambda micros: f"timestamp {quoted(moment_of(micros) + 'Z')}"),
    "timestamp_ntz": ("timestamp_ntz", lambda micros: f"timestamp_ntz {quoted(moment_of(micros))}"),
}
"""By the names of types, what kind of literal their values are, and how that is written."""


def value_of(value: Any, of_type: Any) -> Value:
    """Return a value of the JVM, of some type, as a literal."""
    if value is None:
        return Value("null", "null")
    name = of_type.typeName()
    if name.startswith("decimal"):
        return Value("number", f"{value.toJavaBigDecimal():f}")
    if name not in LITERALS:
        raise Unread(f"a filter is evaluated by Spark alone, of a column of {of_type.simpleString()}")
    kind, written = LITERALS[name]
    return Value(kind, written(value))
