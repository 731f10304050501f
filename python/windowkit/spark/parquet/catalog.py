"""Tables of the catalog by their names, also where no plan is to be seen: through Spark Connect.

There, statements that Spark runs say what a table is, and which files and values of partitions it has. That
is known of tables of Parquet alone; of any other, such as a view, or one of Delta or Iceberg, it is not, and
so Spark's reader has the rows.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.types import StructField, StructType

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files import listing
from windowkit.files.listing import Source
from windowkit.spark.jobs import arrow_type, identifier
from windowkit.spark.parquet import planned
from windowkit.spark.parquet.filters import Filtered, joined
from windowkit.spark.parquet.jvm import Unread
from windowkit.spark.parquet.planned import check_file, reach, source_read
from windowkit.spark.parquet.survey import is_settled
from windowkit.spark.parquet.tables import Listed, cached, refused, source_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["files_of", "frame_of", "is_table"]

KINDS: Final = ("MANAGED", "EXTERNAL")
OF_PATH: Final = re.compile(r"\w+\.`[^`]*/[^`]*`")
"""A table without a name, such as ``parquet.`/data/readings```."""
FILE: Final = "_metadata"
"""What Spark calls the column that says of which file a row is."""


class Listing(NamedTuple):
    """The files of a table: by which condition Spark left others out, and how it listed them."""

    source: Source
    condition: str | None = None
    described: str | None = None


def is_table(session: SparkSession, name: str) -> bool:
    """Whether there is a table or a view of this name, and not of a path, which has a slash or a newline.

    What says of which format a path is, is a table to Spark.
    """
    if OF_PATH.fullmatch(name):
        return True
    if "/" in re.sub("`[^`]*`", "", name) or not name.isprintable():
        return False
    try:
        return session.catalog.tableExists(name)
    except (AnalysisException, ParseException):
        # It is no name, but a pattern of files, say.
        return False


def frame_of(session: SparkSession, name: str) -> DataFrame:
    """Return a table by its name."""
    with refused(name):
        frame = session.table(name)
        # Connect resolves names when it is asked for the schema.
        _ = frame.schema
    return frame


def files_of(frame: DataFrame, name: str, filters: Sequence[Filtered]) -> Listing | str:
    """Return the files of a table, or why they are not known.

    If the table is partitioned, a Spark job goes through the rows of those partitions of which filters hold,
    but not their columns: a partition may be in any directory. O(files), or O(rows) then.

    Parameters
    ----------
    frame : DataFrame
        The table.
    name : str
    filters : sequence of Filtered
        By its columns.
    """
    session = frame.sparkSession
    everywhere = reach(session)
    if isinstance(everywhere, str):
        return everywhere
    try:
        (said,) = session.sql(f"describe table extended {name}\n as json").collect()[0]
    except PySparkException:
        return "Spark does not say what it is"
    table = json.loads(said)
    if (reason := cached(frame) or unlisted(table, frame)) is not None:
        return reason
    by = [frame.schema[column] for column in table.get("partition_columns", [])]
    known = [each.condition([column.name for column in by]) for each in filters]
    texts = [each for each in known if each is not None]
    condition = joined("and", texts) if texts else None
    try:
        source = listed_by(frame, by, condition, everywhere) if by else listed(frame, everywhere)
    except Unread as unread:
        return str(unread)
    except (PySparkException, InvalidType, InvalidValue) as error:
        return f"its files cannot be listed ({str(error).splitlines()[0]})"
    described = f"{name}, whose files a Spark job listed by its partitions" if by else None
    return Listing(source, condition, described)


def listed(frame: DataFrame, everywhere: bool) -> Source:
    """Return the files of a table without partitions; raise `Unread` if they are not known."""
    at, uris = time.time_ns(), frame.inputFiles()
    # Spark finds columns in directories, whether the table was declared to have them or not.
    if any("=" in step for uri in uris for step in uri.split("/")[:-1]):
        raise Unread(
            "its directories may have columns of which it does not say that it is partitioned by them"
        )
    for number, uri in enumerate(uris, 1):
        check_file(uri, number, everywhere)
    return source_of(frame.sparkSession, uris, StructType([]), at)


def listed_by(frame: DataFrame, by: list[StructField], condition: str | None, everywhere: bool) -> Source:
    """Return the files of partitions of which a condition holds; raise `Unread` if they are not known."""
    of_file = [f"{FILE}.{what}" for what in ("file_path", "file_size", "file_modification_time")]
    rows = frame if condition is None else frame.where(condition)
    every = rows.selectExpr(*(identifier(each.name) for each in by), *of_file).distinct()
    # One more is too many, and is refused.
    columns = [
        listing.plain(column.combine_chunks()) for column in every.limit(planned.MOST_FILES + 1).toArrow()
    ]
    found = (
        (path, Listed(size, tuple(own), written // 1000))
        for *own, path, size, written in zip(*(column.to_pylist() for column in columns), strict=True)
    )
    return source_read(found, pa.schema([kind_of(each) for each in by]), everywhere)


def unlisted(table: dict[str, Any], frame: DataFrame) -> str | None:
    """Return why files of a table are not known, or not all of what they mean; None if they are."""
    if table.get("type") not in KINDS or table.get("provider", "").lower() != "parquet":
        what = table.get("provider") or table.get("type", "unknown")
        return f"it is not a table of Parquet files ({what.lower()}), and plans are not to be seen here"
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
