"""What a scan of an Iceberg table reads, by the tasks that Iceberg has planned for Spark's own reader.

These name the files of the snapshot that a plan is of, without those that Iceberg rules out, and the files
in which deleted rows are. Iceberg's own reader finds these rows here, in the driver, whatever form they are
in, but for rows that are deleted by their values. Columns are known by numbers, which files have to have.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from windowkit.files.deleted import Deleted
from windowkit.spark.parquet.jvm import Unread, class_of, fields_of, items, longs, named_class, short, uri_of
from windowkit.spark.parquet.naming import ByNumber, Naming
from windowkit.spark.parquet.tables import Listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["IcebergScan"]

PACKAGE: Final = "org.apache.iceberg."
SCAN: Final = f"{PACKAGE}spark.source.SparkBatchQueryScan"
TASKS: Final = (f"{PACKAGE}BaseFileScanTask", f"{PACKAGE}BaseFileScanTask$SplitScanTask")
KNOWN: Final = ("boolean", "int", "long", "float", "double", "date", "string", "binary", "timestamp")
"""Types whose values are in files as Spark has them, besides decimals and `fixed`."""

RESERVED: Final = 2**31 - 1 - 200
"""From which number on columns are Iceberg's own, such as `_file`, and in no file."""


class IcebergScan:
    """What a scan of an Iceberg table reads.

    Parameters
    ----------
    frame : DataFrame
    plan : BatchScanExec
    leaf : DataSourceV2Relation
        What it scans, as the plan stated it.

    Raises
    ------
    Unread
        It is not one of Iceberg's, or not of data files.
    """

    filters: tuple[Any, ...] = ()
    about_files: frozenset[int] = frozenset()
    mark: str | None = None
    partitioned: Final = pa.schema([])

    def __init__(self, frame: DataFrame, plan: Any, leaf: Any) -> None:
        self.frame = frame
        self.leaf = leaf
        self.plan = plan
        if class_of(plan.scan()) != SCAN:
            raise Unread(f"rows are read by {short(plan.scan())}")
        if plan.runtimeFilters().size():
            raise Unread("files are ruled out while the query runs")

    @cached_property
    def table(self) -> dict[str, dict[str, Any]]:
        """The columns of the table, in JSON."""
        return fields_of(self.leaf.schema())

    @property
    def required(self) -> dict[str, dict[str, Any]]:
        """What is read of them."""
        return fields_of(self.plan.scan().readSchema())

    @property
    def described(self) -> str:
        """What it is, by Iceberg's own description, with the snapshot and the filters."""
        return str(self.plan.scan().description())

    def check(self) -> None:
        """Refuse what is known only while Spark runs the plan: nothing, as a scan is made only then."""

    @cached_property
    def partitions(self) -> list[Any]:
        """What Spark's own tasks would be given."""
        return items(self.plan.inputPartitions())

    @cached_property
    def tasks(self) -> list[Any]:
        """What Iceberg has planned, by files, or parts of them."""
        found = [task for each in self.partitions for task in each.taskGroup().tasks().toArray()]
        for task in found:
            if class_of(task) not in TASKS:
                raise Unread(f"rows are those of {short(task)}, and not of data files")
        return found

    def naming(self, names: list[str]) -> Naming:
        """Return how these columns are found in files."""
        if not self.tasks:
            return ByNumber({})
        schemas = named_class(self.frame.sparkSession._jvm, f"{PACKAGE}SchemaParser")
        # What Iceberg's own reader is given; the schema of a task may be of another time, with other names.
        said = json.loads(schemas.toJson(self.partitions[0].projection()))
        fields = {field["name"]: field for field in said["fields"]}
        numbers = {}
        for name in names:
            if name not in fields or fields[name]["id"] >= RESERVED:
                raise Unread(f"column {name!r} is not one of the files")
            if "initial-default" in json.dumps(fields[name]):
                raise Unread(f"column {name!r} has a default in files without it")
            numbers[name] = numbers_of(name, fields[name]["id"], fields[name]["type"])
        specs = self.leaf.table().table().specs().values()
        sources = {number for spec in specs for number in spec.identitySourceIds()}
        return ByNumber(numbers, tuple(name for name in names if fields[name]["id"] in sources))

    def files(self) -> Iterator[tuple[str, Listed]]:
        """Yield the files of the tasks, and their URIs."""
        seen = set()
        for task in self.tasks:
            file = task.file()
            where = str(file.location())
            if where in seen:
                continue
            seen.add(where)
            if str(file.format().toString()) != "PARQUET":
                raise Unread(f"a file is in the format {file.format().toString()}")
            if file.keyMetadata() is not None:
                raise Unread("files are encrypted")
            yield self.uri_of(where), Listed(file.fileSizeInBytes(), deleted=self.deleted(task))

    def uri_of(self, where: str) -> str:
        """Return the place of a file as a URI; Iceberg has it as Hadoop's paths are written."""
        known = uri_of(where)
        if known is not None:
            return known
        path = named_class(self.frame.sparkSession._jvm, "org.apache.hadoop.fs.Path")(where)
        conf = self.frame.sparkSession._jsparkSession.sessionState().newHadoopConf()
        return str(path.getFileSystem(conf).makeQualified(path).toUri().toString())

    def deleted(self, task: Any) -> Deleted | None:
        """Return which rows of a task's file are deleted; None if there are none."""
        if not task.deletes().size():
            return None
        jvm: Any = self.frame.sparkSession._jvm
        schema = task.schema()
        rows = named_class(jvm, f"{PACKAGE}data.GenericDeleteFilter")(
            self.leaf.table().table().io(), task, schema, schema
        )
        if rows.hasEqDeletes():
            raise Unread("rows are deleted by their values")
        index = rows.deletedRowPositions()
        if index is None:
            return None
        numbers = jvm.java.util.stream.LongStream.builder()
        index.forEach(numbers)
        return Deleted.of(longs(jvm, numbers.build().sorted().toArray()))


def numbers_of(column: str, number: int, kind: Any, path: str = "") -> dict[str, int]:
    """Return the numbers of a column and of what is in it, by path.

    Raises
    ------
    Unread
        It has values of a type that Spark has in another way than files.
    """
    found = {path: number}
    if isinstance(kind, str):
        name = kind.partition("(")[0].partition("[")[0]
        if name not in KNOWN and name not in ("timestamptz", "decimal", "fixed"):
            raise Unread(f"column {column!r} has values of the type {kind}")
        return found
    inner: list[tuple[str, int, Any]] = []
    if kind["type"] == "struct":
        inner = [(field["name"], field["id"], field["type"]) for field in kind["fields"]]
    elif kind["type"] == "list":
        inner = [("element", kind["element-id"], kind["element"])]
    elif kind["type"] == "map":
        inner = [(each, kind[f"{each}-id"], kind[each]) for each in ("key", "value")]
    else:
        raise Unread(f"column {column!r} has values of the type {kind['type']}")
    for name, own, of_type in inner:
        found |= numbers_of(column, own, of_type, f"{path}.{name}")
    return found
