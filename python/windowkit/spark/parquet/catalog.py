"""Tables of the catalog by their names, also where no plan is to be seen: through Spark Connect.

There, statements that Spark runs say what a table is, and which files and values of partitions it has. That
is known of tables of Parquet alone; of any other, such as a view, or one of Delta or Iceberg, it is not, and
so Spark's reader has the rows.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.types import StructField, StructType

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files import listing
from windowkit.files.listing import Source
from windowkit.spark.jobs import arrow_type, identifier
from windowkit.spark.parquet.survey import is_settled
from windowkit.spark.parquet.tables import Listed, Table, refused, source_listed, source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["is_table", "of_name"]

KINDS: Final = ("MANAGED", "EXTERNAL")
FILE: Final = "_metadata"
"""What Spark calls the column that says of which file a row is."""


def is_table(session: SparkSession, name: str) -> bool:
    """Whether there is a table or a view of this name, and not of a path: it has no slash or newline."""
    if "/" in name or not name.isprintable():
        return False
    try:
        return session.catalog.tableExists(name)
    except (AnalysisException, ParseException):
        # It is no name, but a pattern of files, say.
        return False


def of_name(session: SparkSession, name: str) -> Table:
    """Return a table by its name; where plans are to be seen, they say which files it has."""
    with refused([name]):
        frame = session.table(name)
        # Connect resolves names when it is asked for the schema.
        _ = frame.schema
    source = None if hasattr(frame, "_jdf") else files_of(session, name, frame)
    return Table(frame, source, is_sparks=True, has_nanos=False)


def files_of(session: SparkSession, name: str, frame: DataFrame) -> Source | str:
    """Return the files of a table, or why they are not known.

    If the table is partitioned, a Spark job goes through its rows, but not their columns: a partition may be
    in any directory. O(files), or O(rows) then.
    `frame` has its columns.
    """
    try:
        (said,) = session.sql(f"describe table extended {name}\n as json").collect()[0]
    except PySparkException:
        return "Spark does not say what it is"
    table = json.loads(said)
    if (reason := unlisted(table, frame, session.catalog.isCached(name))) is not None:
        return reason
    by = [frame.schema[column] for column in table.get("partition_columns", [])]
    try:
        return listed_by(session, frame, by)
    except (PySparkException, InvalidType, InvalidValue) as error:
        return f"its files cannot be listed ({str(error).splitlines()[0]})"


def listed_by(session: SparkSession, frame: DataFrame, by: list[StructField]) -> Source | str:
    """Return the files of a table that is partitioned by some columns, or why they are not known."""
    if not by:
        uris = frame.inputFiles()
        # Spark finds columns in directories, whether the table was declared to have them or not.
        if any("=" in step for uri in uris for step in uri.split("/")[:-1]):
            return "its directories may have columns of which it does not say that it is partitioned by them"
        return source_of(session, uris, StructType([]), time.time_ns())
    of_file = [f"{FILE}.{what}" for what in ("file_path", "file_size", "file_modification_time")]
    every = frame.selectExpr(*(identifier(each.name) for each in by), *of_file).distinct().toArrow()
    columns = [listing.plain(column.combine_chunks()).to_pylist() for column in every.columns]
    rows = list(zip(*columns, strict=True))
    found = {path: Listed(size, tuple(own), written // 1000) for *own, path, size, written in rows}
    if len(found) < len(rows):
        return "a file is in two partitions"
    source = source_listed(found, pa.schema([kind_of(each) for each in by]))
    return "files have changed since Spark listed them" if source is None else source


def unlisted(table: dict[str, Any], frame: DataFrame, is_cached: bool) -> str | None:
    """Return why files of a table are not known, or not all of what they mean; None if they are."""
    if table.get("type") not in KINDS or table.get("provider", "").lower() != "parquet":
        what = table.get("provider") or table.get("type", "unknown")
        return f"it is not a table of Parquet files ({what.lower()}), and plans are not to be seen here"
    if is_cached:
        return "rows are cached"
    if "num_buckets" in table:
        return "the table is bucketed"
    others = sorted(name for name in table.get("storage_properties", {}) if not is_settled(name))
    if others:
        return f"the option {others[0]} is given to Spark's reader"
    if any(column.lower() == FILE for column in frame.columns):
        return f"a column is called {FILE}"
    return None


def kind_of(column: StructField) -> tuple[str, pa.DataType]:
    """Return a column of partitions, and its type."""
    return column.name, arrow_type(column.name, column.dataType, "paths", "UTC")
