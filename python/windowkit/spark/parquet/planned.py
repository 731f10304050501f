"""What a DataFrame reads, by Spark's plan: Parquet files, under nothing but filters and renamed columns.

Plans are no public interface. So all that is known here is stated, and whatever else is in a plan, of a
version of Spark to come, say, is a reason to leave the DataFrame to Spark. The same holds of what changes
which rows Spark's reader returns, and of which footers say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from windowkit.errors import InvalidType, InvalidValue, WindowKitError
from windowkit.files.listing import Source
from windowkit.language.checks import one_of
from windowkit.language.conditions import Nested, Test, Tree, Value, nested
from windowkit.spark.jobs import arrow_type
from windowkit.spark.parquet import tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Planned", "planned", "reason_of", "tested"]

SETTING: Final = "spark.windowkit.tables"
"""Of a session: ``false`` leaves all DataFrames to Spark's reader; ``true`` says that workers can open by
pyarrow what Spark opens, which is assumed of local files alone by default."""
DAY: Final = 86_400_000_000
YEARS: Final = (-719_162 * DAY, 2_932_897 * DAY)
"""Microseconds from 1970 to the beginning of the year 1, and to the end of the year 9999."""
LOCAL: Final = "file:/"
PACKAGE: Final = "org.apache.spark.sql.execution."
FORMAT: Final = f"{PACKAGE}datasources.parquet.ParquetFileFormat"
RELATION: Final = f"{PACKAGE}datasources.HadoopFsRelation"
SCAN: Final = f"{PACKAGE}FileSourceScanExec"
CACHED: Final = f"{PACKAGE}columnar.InMemoryTableScanExec"
LEAF: Final = f"{PACKAGE}datasources.LogicalRelation"
SETTLED: Final = frozenset(
    (
        *("path", "paths", "basepath", "serialization.format", "mergeschema", "inferschema"),
        *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
    )
)
"""Options of which nothing is left once Spark has listed the files and found their columns."""
CHANGED: Final = {
    "EXISTS_DEFAULT": "has a default in files without it",
    "__CHAR_VARCHAR_TYPE_STRING": "is of a type with a length",
}
"""Metadata of columns of which Spark's reader makes more than is in files."""
ENCRYPTED: Final = "parquet.crypto.factory.class"
MOST_FILES: Final = 10_000
"""Whose footers are read before a job: some seconds, of an object store some minutes."""
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
WORDS: Final[dict[str, Literal["and", "or"]]] = {"And": "and", "Or": "or"}
SUBQUERIES: Final = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"


class Unread(Exception):  # noqa: N818  # It is caught here, and is a reason.
    """Raised where a plan has what is not known here."""


@dataclass(frozen=True)
class Planned:
    """What a DataFrame reads.

    Parameters
    ----------
    source : Source
        The files that Spark would read, without those that it rules out by directories.
    names : tuple of str
        What files, or directories, call the columns of the DataFrame.
    table : pyspark.sql.types.StructType
        These columns, and those that `rows` reads.
    rows : Nested or Test, optional
        Which rows, by these columns; None if all.
    partition_filters : tuple of str
        By what Spark rules out files.
    """

    source: Source
    names: tuple[str, ...]
    table: spark.StructType
    rows: Tree | None
    partition_filters: tuple[str, ...]


def planned(frame: DataFrame) -> Planned | str:
    """Return what a DataFrame reads, or why that is left to Spark. Starts no Spark job; O(files)."""
    plain = getattr(frame, "_jdf", None)
    if plain is None:
        return "plans are not to be seen through Spark Connect; wk.spark.scan takes paths of queries"
    said = frame.sparkSession.conf.get(SETTING, None)
    if said is not None and one_of(SETTING, said.lower(), ("true", "false")) == "false":
        return f"{SETTING} is false"
    try:
        return of_plan(frame, plain.queryExecution(), everywhere=said is not None)
    except Unread as reason:
        return str(reason)
    except (InvalidValue, InvalidType) as error:
        # Of paths: this process cannot see the files.
        return reason_of(error)
    except (Py4JError, PySparkException) as error:
        # It is another version of Spark, or rows cannot be read, of which an action is to say so.
        return f"Spark's plan cannot be read ({str(error).strip().splitlines()[0]})"


def reason_of(error: WindowKitError) -> str:
    """Return what an error says, without which argument it is of, and without advice."""
    return str(error).partition(": ")[2].partition(";")[0]


def of_plan(frame: DataFrame, execution: Any, *, everywhere: bool) -> Planned:
    """Return what a plan of Spark reads; `everywhere`, or on this machine alone."""
    # Of the plan as it was stated, so that others are not optimised to no purpose.
    leaves = items(execution.analyzed().collectLeaves())
    if len(leaves) != 1 or class_of(leaves[0]) != LEAF:
        raise Unread("rows are not read from one table of files")
    plan, above = execution.sparkPlan(), []
    while (kind := kind_of(plan)) in ("Project", "Filter"):
        above.append((kind, plan))
        plan = plan.child()
    if class_of(plan) == CACHED:
        raise Unread("rows are cached")
    if class_of(plan) != SCAN:
        raise Unread(f"Spark's plan has {kind.strip()} above the files")
    check_scan(frame, plan)
    relation = plan.relation()
    table, required = fields_of(relation.schema()), fields_of(plan.requiredSchema())
    columns: Columns = {}
    for column in items(plan.output()):
        name = column.name()
        # What is read of a struct may be a part of it.
        if name in table and required.get(name, table[name])["type"] == table[name]["type"]:
            columns[identity(column)] = name
    tests: list[Tree] = []
    for kind, node in reversed(above):
        if kind == "Project":
            columns = dict(projected(items(node.projectList()), columns))
        else:
            tests.append(Conditions(columns).tree(node.condition()))
    top = above[0][1] if above else plan
    names = tuple(named(column, columns) for column in items(top.output()))
    rows = nested("and", tests) if tests else None
    needed = list(dict.fromkeys([*names, *tested(rows)]))
    for name in needed:
        for key, what in CHANGED.items():
            if key in table[name]["metadata"]:
                raise Unread(f"column {name!r} {what}")
    filters = items(plan.partitionFilters())
    jvm = frame.sparkSession._jvm
    for each in filters:
        if getattr(jvm, SUBQUERIES).hasSubquery(each):
            raise Unread(f"files are ruled out by a subquery, {each.sql()}")
    source = source_of(relation, plan, everywhere)
    # Others may be of types that pyspark does not know.
    read = spark.StructType([spark.StructField.fromJson(table[name]) for name in needed])
    return Planned(source, names, read, rows, tuple(each.sql() for each in filters))


def check_scan(frame: DataFrame, scan: Any) -> None:
    """Refuse reads of files whose rows are not those of the files alone."""
    relation = scan.relation()
    if class_of(relation) != RELATION or class_of(relation.fileFormat()) != FORMAT:
        raise Unread(f"files are read as {short(relation.fileFormat())}, not as Parquet")
    if not class_of(relation.location()).startswith(PACKAGE):
        raise Unread(f"files are listed by {short(relation.location())}")
    if relation.bucketSpec().isDefined():
        raise Unread("the table is bucketed")
    if scan.fileConstantMetadataColumns().size():
        raise Unread("columns of files' metadata are read")
    options = str(relation.options().keySet().mkString("\n")).splitlines()
    others = sorted(name for name in options if name.lower() not in SETTLED)
    if others:
        raise Unread(f"the option {others[0]} is given to Spark's reader")
    if frame.sparkSession._jsparkSession.sessionState().newHadoopConf().get(ENCRYPTED) is not None:
        raise Unread(f"{ENCRYPTED} is set, and files may be encrypted")


def fields_of(struct: Any) -> dict[str, dict[str, Any]]:
    """Return the columns of a schema by their names, in its JSON form."""
    return {field["name"]: field for field in json.loads(struct.json())["fields"]}


def items(sequence: Any) -> list[Any]:
    """Return what is in a sequence of Scala."""
    return [sequence.apply(at) for at in range(sequence.size())]


def class_of(thing: Any) -> str:
    """Return the name of the class of something in the JVM."""
    return str(thing.getClass().getName())


def short(thing: Any) -> str:
    """Return that name without its package."""
    return class_of(thing).rpartition(".")[2]


def kind_of(node: Any) -> str:
    """Return what a node of a plan is, or an expression: the name of its class."""
    return str(node.nodeName())


def identity(column: Any) -> int:
    """Return the number by which a plan knows a column, whatever it is called."""
    return int(column.exprId().id())


Columns = dict[int, str]


def named(column: Any, columns: Columns) -> str:
    """Return what files call a column of a plan."""
    if identity(column) not in columns:
        raise Unread(f"column {column.name()} is not one of the files, or is read in part")
    return columns[identity(column)]


def projected(expressions: list[Any], columns: Columns) -> Iterator[tuple[int, str]]:
    """Yield the columns that are left, renamed or not; what is computed is none."""
    for each in expressions:
        inner = each.child() if kind_of(each) == "Alias" else each
        if kind_of(inner) != "AttributeReference":
            raise Unread(f"a column is computed, {inner.sql()}")
        yield identity(each), named(inner, columns)


def tested(tree: Tree | None) -> Iterator[str]:
    """Yield the names of the columns of a condition."""
    if isinstance(tree, Test):
        yield tree.path[0]
    elif isinstance(tree, Nested):
        for each in tree.members:
            yield from tested(each)


class Conditions:
    """Reads conditions of a plan: as what is true of a row, where SQL may also say that it does not know.

    Spark has compared types, and cast what it had to: here a column and literals are of one type.
    """

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.parts = 0

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
        found = self.test(node, kind)
        if found is None:
            raise Unread(f"a filter is evaluated by Spark alone, {node.sql()}")
        return found.negated() if is_negated else found

    def null_safe(self, node: Any, is_negated: bool) -> Tree:
        """Return what holds where <=> is true, or false: it is never unknown."""
        sides = self.sides(node)
        if sides is None:
            raise Unread(f"a filter is evaluated by Spark alone, {node.sql()}")
        column, value, _ = sides
        if value.kind == "null":
            return Test((column,), "is not null" if is_negated else "is null")
        if not is_negated:
            return Test((column,), "=", (value,))
        return nested("or", [Test((column,), "is null"), Test((column,), "!=", (value,))])

    def test(self, node: Any, kind: str) -> Test | Nested | None:
        """Return a test of a column, or one literal; None if it is another."""
        if kind == "Literal" and node.dataType().typeName() == "boolean":
            # One that is not known is not true, and its negation neither.
            return None if node.value() is None else Nested("and" if node.value() else "or", ())
        if kind == "AttributeReference":
            return Test((named(node, self.columns),), "=", (Value("boolean", "true"),))
        if kind in ("IsNull", "IsNotNull") and kind_of(node.child()) == "AttributeReference":
            operator = "is null" if kind == "IsNull" else "is not null"
            return Test((named(node.child(), self.columns),), operator)
        if kind in COMPARED:
            sides = self.sides(node)
            if sides is None:
                return None
            column, value, is_turned = sides
            return Test((column,), TURNED[COMPARED[kind]] if is_turned else COMPARED[kind], (value,))
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
        return Test((named(column, self.columns),), "in", tuple(value_of(each, of_type) for each in given))

    def sides(self, node: Any) -> tuple[str, Value, bool] | None:
        """Return the column and the literal that are compared, and whether the literal is on the left."""
        left, right = node.left(), node.right()
        is_turned = kind_of(left) == "Literal"
        column, literal = (right, left) if is_turned else (left, right)
        if kind_of(column) != "AttributeReference" or kind_of(literal) != "Literal":
            return None
        return named(column, self.columns), value_of(literal.value(), column.dataType()), is_turned


def quoted(text: str) -> str:
    """Return a string as a condition has it."""
    return "'" + text.replace("'", "''") + "'"


def moment_of(micros: int) -> str:
    """Return a time as text, which has years of four digits alone."""
    if not YEARS[0] <= micros < YEARS[1]:
        raise Unread("a filter compares with a time before the year 1 or after the year 9999")
    return str(pa.scalar(micros, pa.timestamp("us")).cast(pa.string()).as_py())


LITERALS: Final[dict[str, tuple[str, Callable[[Any], str]]]] = {
    **dict.fromkeys(("byte", "short", "integer", "long", "float", "double"), ("number", repr)),
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


def source_of(relation: Any, scan: Any, everywhere: bool) -> Source:
    """Return the files that Spark would read: those that it has listed, or lists now, for its own reader.

    Raises
    ------
    Unread
        They are no longer as Spark listed them, of which its reader is to make what it does.
    """
    columns = list(map(spark.StructField.fromJson, fields_of(relation.partitionSchema()).values()))
    kinds = pa.schema([(each.name, arrow_type(each.name, each.dataType, "paths", "UTC")) for each in columns])
    read = [value_reader(field) for field in columns]
    types = [field.dataType() for field in relation.partitionSchema().fields()] if read else []
    found: dict[str, tuple[int, int, tuple[Any, ...]]] = {}
    for directory in items(relation.location().listFiles(scan.partitionFilters(), scan.dataFilters())):
        row = directory.values()
        values = tuple(
            None if row.isNullAt(at) else to(row.get(at, of_type))
            for at, (to, of_type) in enumerate(zip(read, types, strict=True))
        )
        for status in items(directory.files()):
            uri = status.getPath().toUri().toString()
            if uri in found:
                raise Unread(f"{uri} is read twice")
            found[uri] = status.getLen(), status.getModificationTime(), values
        if len(found) > MOST_FILES:
            raise Unread(f"there are more than {MOST_FILES:,} files, whose footers would be read first")
    elsewhere = [] if everywhere else [uri for uri in found if not uri.startswith(LOCAL)]
    if elsewhere:
        scheme = elsewhere[0].partition(":")[0]
        raise Unread(f"files are on {scheme}, which tasks read by pyarrow only if {SETTING} is true")
    listed = tables.source_listed(found, kinds)
    if listed is None:
        raise Unread("files have changed since Spark listed them")
    return listed


def value_reader(field: spark.StructField) -> Callable[[Any], Any]:
    """Return how a value of a directory is read, of a row of Spark's own form."""

    def number(value: Any) -> Any:
        if isinstance(value, float) and isnan(value):
            raise Unread(f"a directory says {field.name}=NaN")
        return value

    if isinstance(field.dataType, spark.StringType):
        return lambda value: str(value.toString())
    if isinstance(field.dataType, spark.DecimalType):
        return lambda value: value.toJavaBigDecimal()
    known = (
        spark.NumericType,
        spark.BooleanType,
        spark.DateType,
        spark.TimestampType,
        spark.TimestampNTZType,
    )
    if isinstance(field.dataType, known):
        return number
    raise Unread(f"directories have values of {field.dataType.simpleString()}")
