"""What a scan of a Delta table says beyond other scans of Parquet files.

Delta lists the files of the snapshot that a plan is of, of which its own statistics rule some out. It also
says what files call columns that may be renamed, and which rows of files are deleted: that is in vectors of
bits, which Delta's own reader decodes here, in the driver, so that tasks need to know neither their form nor
where they are.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from windowkit.files.deleted import Deleted
from windowkit.spark.parquet.jvm import Unread, items, longs, named_class
from windowkit.spark.parquet.naming import BY_NAME, ByName, ByNumber, Naming

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["FORMAT", "INDEXES", "MARK", "VECTOR", "Vectors", "columns_of", "naming", "without_mark"]

PACKAGE: Final = "org.apache.spark.sql.delta."
FORMAT: Final = f"{PACKAGE}DeltaParquetFileFormat"
INDEXES: Final = (f"{PACKAGE}stats.PreparedDeltaFileIndex", f"{PACKAGE}files.TahoeLogFileIndex")
"""What lists the files of one version of a table, as rows were written: not changes, say, or part of them."""
MARK: Final = "__delta_internal_is_row_deleted"
MODE: Final = "delta.columnMapping.mode"
NAME: Final = "delta.columnMapping.physicalName"
NUMBER: Final = "delta.columnMapping.id"
VECTOR: Final = "row_index_filter_id_encoded"
TAKES_AWAY: Final = "IF_CONTAINED"
"""What is said of a vector whose rows are deleted, and not those that are left."""


def columns_of(location: Any, read: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the columns of a table, in JSON, with what its log says of them.

    `read` are those of a scan, some of which are not the table's.
    """
    return {
        field["name"]: read[field["name"]] | {"metadata": field["metadata"]}
        for field in fields_of(location)
        if field["name"] in read
    }


def fields_of(location: Any) -> list[dict[str, Any]]:
    """Return the columns of a table as its log has them, in that version."""
    found: list[dict[str, Any]] = json.loads(location.metadata().schemaString())["fields"]
    return found


def naming(location: Any, names: list[str]) -> Naming:
    """Return how some columns of a table are found in files."""
    said = location.metadata().configuration().get(MODE)
    mode = str(said.get()) if said.isDefined() else "none"
    if mode == "none":
        return BY_NAME
    fields = {field["name"]: field for field in fields_of(location)}
    for name in names:
        if NAME in json.dumps(fields[name]["type"]):
            raise Unread(f"column {name!r} has fields that may be renamed")
    if mode == "name":
        return ByName({name: fields[name]["metadata"][NAME] for name in names})
    if mode == "id":
        return ByNumber({name: {"": fields[name]["metadata"][NUMBER]} for name in names})
    raise Unread(f"{MODE} is {mode}")


def without_mark(filters: Any) -> Any:
    """Return the filters of a scan as they were when Delta listed its files, without that of deleted rows.

    With it, Delta takes them for other filters, and lists the files again, in a Spark job.
    """
    for at, each in enumerate(items(filters)):
        if MARK in str(each.toString()):
            return filters.diff(filters.slice(at, at + 1))
    return filters


class Vectors:
    """Reads the vectors of a table: which rows of a file are deleted."""

    def __init__(self, frame: DataFrame, location: Any) -> None:
        self._jvm = frame.sparkSession._jvm
        self._session = frame.sparkSession._jsparkSession
        self._location = location

    @cached_property
    def _store(self) -> Any:
        store = named_class(self._jvm, f"{PACKAGE}storage.dv.DeletionVectorStore$")
        return store.createInstance(self._session.sessionState().newHadoopConf())

    def of(self, status: Any) -> Deleted | None:
        """Return the rows of a file that are deleted; None if there are none."""
        said = status.metadata()
        vector = said.get(VECTOR)
        if not vector.isDefined():
            return None
        does = said.get("row_index_filter_type")
        if not does.isDefined() or str(does.get()) != TAKES_AWAY:
            raise Unread("vectors say which rows are left, and not which are deleted")
        described = named_class(self._jvm, f"{PACKAGE}actions.DeletionVectorDescriptor")
        found = described.deserializeFromBase64(vector.get())
        stored = named_class(self._jvm, f"{PACKAGE}deletionvectors.StoredBitmap$")
        bits = stored.create(found, self._location.path()).load(self._store)
        return Deleted.of(longs(self._jvm, bits.values()))
