"""What a DataFrame reads, by Spark's plan: Parquet files, under nothing but filters and renamed columns.

What only orders rows or deals them out to tasks is passed over: no result depends on that.

The files are those that Spark lists, or Delta or Iceberg for it. Plans are no public interface. So all that
is known here is stated, and whatever else is in a plan, of a version of Spark to come, say, is a reason to
leave the DataFrame to Spark. The same holds of what changes which rows Spark's reader returns, and of which
footers say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from windowkit.errors import InvalidType, InvalidValue, WindowKitError
from windowkit.files.listing import Source
from windowkit.language.checks import one_of
from windowkit.language.conditions import Nested, Tree, names_of, nested
from windowkit.spark.parquet import tables
from windowkit.spark.parquet.conditions import Columns, Conditions, named, projected
from windowkit.spark.parquet.iceberg import IcebergScan
from windowkit.spark.parquet.jvm import Unread, attributes, class_of, items, kind_of, short
from windowkit.spark.parquet.naming import BY_NAME, Naming
from windowkit.spark.parquet.relations import Relation
from windowkit.spark.parquet.tables import Listed

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    *("MOST_FILES", "Planned", "changed", "check_file", "planned", "reach", "reason_of"),
    "source_read",
]

SETTING: Final = "spark.windowkit.tables"
"""Of a session: ``false`` leaves all DataFrames to Spark's reader; ``true`` says that workers can open by
pyarrow what Spark opens, which is assumed of local files alone by default."""
LOCAL: Final = "file:/"
PACKAGE: Final = "org.apache.spark.sql.execution."
USE: Final = "CTERelationRef"
CACHED: Final = f"{PACKAGE}columnar.InMemoryTableScanExec"
OTHER: Final = f"{PACKAGE}RowDataSourceScanExec"
RELATION: Final = (f"{PACKAGE}datasources.LogicalRelation", f"{PACKAGE}FileSourceScanExec")
TABLE: Final = (f"{PACKAGE}datasources.v2.DataSourceV2Relation", f"{PACKAGE}datasources.v2.BatchScanExec")
"""What a plan reads as it was stated, and what becomes of that: files that Spark reads, another's table."""
PLACING: Final = ("Sort", "Exchange", "Coalesce")
"""Nodes of a plan that return the rows they are given."""
ORDERS: Final = ("SortOrder", "HashPartitioning", "RangePartitioning")
CHANGED: Final = {
    "EXISTS_DEFAULT": "has a default in files without it",
    "__CHAR_VARCHAR_TYPE_STRING": "is of a type with a length",
}
"""Metadata of columns of which Spark's reader makes more than is in files."""
MOST_FILES: Final = 10_000
"""Whose footers are read before a job: some seconds, of an object store some minutes."""
MOST_DELETED: Final = 1 << 24
"""Rows that are deleted in all files. Every task is sent their numbers, of one to four bytes each."""
Scan: TypeAlias = Relation | IcebergScan


@dataclass(frozen=True)
class Planned:
    """What a DataFrame reads.

    Parameters
    ----------
    source : Source
        The files that Spark would read, without those that it rules out by directories.
    names : tuple of str
        What the table calls the columns of the DataFrame.
    table : pyspark.sql.types.StructType
        These columns, and those that `rows` reads.
    rows : Nested or Test, optional
        Which rows, by these columns; None if all.
    partition_filters : tuple of str
        By what Spark rules out files.
    naming : Naming
        How these columns are found in files.
    described : str, optional
        The table, in the words of its own format, if it is more than files.
    is_sparks : bool, default True
        Whether Spark can read them, too, by the settings of its session.
    has_nanos : bool, default False
        Whether timestamps of nanoseconds are read, which Spark does not.
    """

    source: Source
    names: tuple[str, ...]
    table: spark.StructType
    rows: Tree | None
    partition_filters: tuple[str, ...] = ()
    naming: Naming = BY_NAME
    described: str | None = None
    is_sparks: bool = True
    has_nanos: bool = False


def planned(frame: DataFrame) -> Planned | str:
    """Return what a DataFrame reads, or why that is left to Spark. O(files), and deleted rows.

    Starts no Spark job, but for those by which Delta and Iceberg find files.
    """
    plain = getattr(frame, "_jdf", None)
    if plain is None:
        return "plans are not to be seen through Spark Connect; wk.spark.scan takes paths and names of tables"
    everywhere = reach(frame.sparkSession)
    if isinstance(everywhere, str):
        return everywhere
    try:
        return of_plan(frame, plain.queryExecution(), everywhere=everywhere)
    except Unread as reason:
        return str(reason)
    except (InvalidValue, InvalidType) as error:
        # Of paths: this process cannot see the files.
        return reason_of(error)
    except (Py4JError, PySparkException) as error:
        # It is another version of Spark, or rows cannot be read, of which an action is to say so.
        return f"Spark's plan cannot be read ({str(error).strip().splitlines()[0]})"


def reach(session: SparkSession) -> bool | str:
    """Return whether tasks also read files that are not on this machine; or why they read none."""
    said = session.conf.get(SETTING, None)
    if said is not None and one_of(SETTING, said.lower(), ("true", "false")) == "false":
        return f"{SETTING} is false"
    return said is not None


def check_file(uri: str, number: int, everywhere: bool) -> None:
    """Raise `Unread` for a file where tasks read none, or one too many."""
    if not everywhere and not uri.startswith(LOCAL):
        scheme = uri.partition(":")[0]
        raise Unread(f"files are on {scheme}, which tasks read by pyarrow only if {SETTING} is true")
    if number > MOST_FILES:
        raise Unread(f"there are more than {MOST_FILES:,} files, whose footers would be read first")


def changed(name: str, metadata: Mapping[str, Any]) -> str | None:
    """Return why a column of this metadata is not as it is in files; None if it is."""
    return next((f"column {name!r} {what}" for key, what in CHANGED.items() if key in metadata), None)


def reason_of(error: WindowKitError) -> str:
    """Return what an error says, without which argument it is of, and without advice."""
    return str(error).partition(": ")[2].partition(";")[0]


def of_plan(frame: DataFrame, execution: Any, *, everywhere: bool) -> Planned:
    """Return what a plan of Spark reads; `everywhere`, or on this machine alone."""
    # Of the plan as it was stated, so that others are not optimised to no purpose.
    leaves = items(execution.analyzed().collectLeaves())
    if len(leaves) > 1:
        # What WITH defines is one leaf, and each use of it another.
        leaves = [leaf for leaf in leaves if kind_of(leaf) != USE]
    read = class_of(leaves[0]) if len(leaves) == 1 else None
    if read not in (RELATION[0], TABLE[0]):
        raise Unread("rows are not read from one table of files")
    plan, above = execution.sparkPlan(), []
    while (kind := kind_of(plan)) in ("Project", "Filter") or places(plan, kind):
        if kind in ("Project", "Filter"):
            above.append((kind, plan))
        plan = plan.child()
    scan = scan_of(frame, leaves[0], read, plan)
    read_by_scan = attributes(plan.output())
    columns = columns_of(read_by_scan, scan)
    marks = {number for name, number in read_by_scan if name == scan.mark}
    tests: list[Tree] = []
    for kind, node in reversed(above):
        if kind == "Project":
            columns = dict(projected(items(node.projectList()), columns))
        else:
            tests.append(Conditions(columns, marks).tree(node.condition()))
    top = attributes(above[0][1].output()) if above else read_by_scan
    names = tuple(named(*column, columns) for column in top)
    rows = nested("and", tests)
    is_all = rows == Nested("and", ())
    needed = list(dict.fromkeys([*names, *names_of(rows)]))
    for name in needed:
        if (reason := changed(name, scan.table[name]["metadata"])) is not None:
            raise Unread(reason)
    scan.check()
    naming = scan.naming([name for name in needed if name not in scan.partitioned.names])
    source = source_read(scan.files(), scan.partitioned, everywhere)
    # Others may be of types that pyspark does not know.
    table = spark.StructType([spark.StructField.fromJson(scan.table[name]) for name in needed])
    filters = tuple(each.sql() for each in scan.filters)
    return Planned(source, names, table, None if is_all else rows, filters, naming, scan.described)


def places(node: Any, kind: str) -> bool:
    """Whether a node of a plan only orders rows or deals them out to tasks, by columns, which cannot fail."""
    return kind in PLACING and all(map(is_order, items(node.expressions())))


def is_order(node: Any) -> bool:
    """Whether an expression says by which columns rows are ordered or dealt out, and computes nothing."""
    kind = kind_of(node)
    return kind == "AttributeReference" or (kind in ORDERS and all(map(is_order, items(node.children()))))


def scan_of(frame: DataFrame, leaf: Any, read: str, plan: Any) -> Scan:
    """Return what a plan of Spark ends in, below filters and projections; `read` is the class of `leaf`."""
    kinds = (read, class_of(plan))
    if kinds == RELATION:
        return Relation(frame, plan)
    if kinds == TABLE:
        return IcebergScan(frame, plan, leaf)
    if kinds[1] == CACHED:
        raise Unread("rows are cached")
    if kind_of(plan) == "LocalTableScan":
        raise Unread("Spark knows from the filters that there are no rows")
    if kinds[1] == OTHER:
        raise Unread(f"rows are read by {short(plan.relation())}")
    raise Unread(f"Spark's plan has {kind_of(plan).strip()} above the files")


def columns_of(output: list[tuple[str, int]], scan: Scan) -> Columns:
    """Return what the table calls the columns of a scan."""
    table, required, about_files = scan.table, scan.required, scan.about_files
    columns: Columns = {}
    for name, number in output:
        if number in about_files:
            columns[number] = Unread("columns of files' metadata are read")
        # What is read of a struct may be a part of it.
        elif name in table and required.get(name, table[name])["type"] == table[name]["type"]:
            columns[number] = name
    return columns


def source_read(files: Iterable[tuple[str, Listed]], partitioned: pa.Schema, everywhere: bool) -> Source:
    """Return the files that Spark would read.

    Raises
    ------
    Unread
        Tasks would not read them, or they are no longer as Spark listed them, of which its reader is to make
        what it does.
    """
    found: dict[str, Listed] = {}
    deleted = 0
    for uri, file in files:
        if uri in found:
            raise Unread(f"{uri} is read twice")
        found[uri] = file
        check_file(uri, len(found), everywhere)
        deleted += 0 if file.deleted is None else len(file.deleted)
        if deleted > MOST_DELETED:
            raise Unread(f"more than {MOST_DELETED:,} rows are deleted, of which every task would be told")
    listed = tables.source_listed(found, partitioned)
    if listed is None:
        raise Unread("files have changed since Spark listed them")
    return listed
