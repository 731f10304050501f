"""Whether tasks would read a table as Spark's reader does, by settings and footers, before any task runs.

Readers disagree on some files, such as those of old Java's calendar. What Spark makes of these is not
imitated: the first such file or setting is a reason to leave the whole table to Spark's own reader.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.errors import InvalidValue
from windowkit.files.listing import File, Source
from windowkit.spark.parquet.naming import BY_NAME, Naming
from windowkit.spark.parquet.reading import fragment, int96_in
from windowkit.spark.parquet.types import has_instants, has_nanos, is_readable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["Settings", "by_footers", "by_settings", "is_settled", "unread"]

FOOTERS_AT_ONCE: Final = 32
"""Footers that are read at the same time, as most of the time is spent on waiting for a file system."""
FIELD_ID: Final = "parquet.field.id"
TOLERANT: Final = ("ignoreCorruptFiles", "ignoreMissingFiles")
SETTLED: Final = re.compile(
    r"path|serialization\.format|compression|partitionoverwritemode|maxrecordsperfile"
    r"|parquet\.(compression|block\.size|page\.size|dictionary\.page\.size|enable\.dictionary)"
    r"|parquet\.(bloom\.filter|writer|page\.row\.count|page\.write-checksum)\..*",
    re.IGNORECASE,
)
"""Options that tables keep, and that say where files are, or how they were written."""


@dataclass(frozen=True)
class Settings:
    """Settings of a session on which it depends how times in files are read; by default Spark's defaults.

    Parameters
    ----------
    times_mode, int96_mode : str
        ``CORRECTED``, or how Spark reads files that do not say by which calendar they were written: dates
        and times, and times of INT96.
    converts_int96 : bool
        Whether Spark takes INT96 that other writers than Java's left for times of its own zone.
    has_nanos : bool
        Whether timestamps of nanoseconds are read, which Spark refuses.
    """

    times_mode: str = "CORRECTED"
    int96_mode: str = "CORRECTED"
    converts_int96: bool = False
    has_nanos: bool = True

    @classmethod
    def of(cls, session: SparkSession, *, has_nanos: bool = True) -> Settings:
        """Return the settings of a session."""

        def value(setting: str, default: str) -> str:
            return str(session.conf.get(f"spark.sql.parquet.{setting}", default)).upper()

        return cls(
            value("datetimeRebaseModeInRead", "CORRECTED"),
            value("int96RebaseModeInRead", "CORRECTED"),
            value("int96TimestampConversion", "FALSE") == "TRUE",
            has_nanos,
        )


def by_settings(session: SparkSession, table: StructType, names: list[str]) -> str | None:
    """Return why settings of the session leave a table to Spark's reader, if they do.

    Parameters
    ----------
    session : SparkSession
    table : pyspark.sql.types.StructType
        The columns of the table as Spark has them.
    names : list of str
        Those that are read.
    """
    conf = session.conf

    def is_set(setting: str) -> bool:
        return str(conf.get(setting, "false")).lower() == "true"

    for name in TOLERANT:
        if is_set(f"spark.sql.files.{name}"):
            return f"spark.sql.files.{name} is true"
    numbered = [field.name for field in table if field.name in names and FIELD_ID in field.json()]
    by_number = "spark.sql.parquet.fieldId.read.enabled"
    if numbered and is_set(by_number):
        return f"{by_number} is true, and column {numbered[0]!r} has a field id"
    return None


def by_footers(source: Source, schema: pa.Schema, settings: Settings, naming: Naming = BY_NAME) -> str | None:
    """Return why the footers of files leave a table to Spark's reader, if they do. O(files).

    Parameters
    ----------
    source : Source
    schema : pyarrow.Schema
        The columns that are read, in Spark's types.
    settings : Settings
    naming : Naming
        How columns are found in files.

    Raises
    ------
    InvalidValue
        A file cannot be read, or has duplicate column names.
    """
    of_files = pa.schema([field for field in schema if field.name not in source.partitioned.names])

    def of_file(file: File) -> str | None:
        return next(reasons(fragment(source.filesystem, file), of_files, settings, naming), None)

    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        return next(filter(None, pool.map(of_file, source.files)), None)


def is_settled(option: str) -> bool:
    """Whether an option of a table says nothing of how its files are read."""
    return SETTLED.fullmatch(option.partition("#")[0]) is not None


def unread(reason: str) -> InvalidValue:
    """Return what is raised where Spark's reader cannot be given the table."""
    return InvalidValue(
        f"paths: {reason}; that is left to Spark's reader, so where that finds the files, use "
        "query.run(spark.read.parquet(path))"
    )


def reasons(
    opened: ds.ParquetFileFragment, schema: pa.Schema, settings: Settings, naming: Naming
) -> Iterator[str]:
    """Yield in what a task would not read columns of a file as Spark's reader does."""
    own, path = opened.physical_schema, opened.path
    called = naming.there(own)
    of_int96 = int96_in(opened)
    int96 = {name for name, stored in called.items() if stored in of_int96}
    there = [field for field in schema if field.name in called]
    for field in schema:
        if differs := naming.differs(own, field.name):
            yield f"column {field.name!r} {differs} in {path!r}"
    for field in there:
        stored = own.field(called[field.name]).type
        if not is_readable(stored, field.type):
            yield f"column {field.name!r} is {stored} in {path!r} and {field.type} in the table"
        if not settings.has_nanos and field.name not in int96 and has_nanos(stored):
            yield f"column {field.name!r} has nanoseconds in {path!r}"
    metadata = opened.metadata.metadata or {}
    times = calendar(metadata, b"org.apache.spark.legacyDateTime", (3, 0), settings.times_mode)
    instants = calendar(metadata, b"org.apache.spark.legacyINT96", (3, 1), settings.int96_mode)
    for field in there:
        is_int96 = field.name in int96
        old = instants if is_int96 else times
        if old is not None and has_instants(field.type):
            mode = "int96RebaseModeInRead" if is_int96 else "datetimeRebaseModeInRead"
            yield f"column {field.name!r} of {path!r} {old.format(mode=mode)}"
        # What Java wrote is in UTC, to all.
        if is_int96 and settings.converts_int96 and not is_javas(opened):
            yield f"int96TimestampConversion is true, and column {field.name!r} of {path!r} is of INT96"


def is_javas(opened: ds.ParquetFileFragment) -> bool:
    """Whether Parquet's library for Java wrote a file."""
    return (opened.metadata.created_by or "").startswith("parquet-mr")


def calendar(metadata: dict[bytes, bytes], mark: bytes, since: tuple[int, int], mode: str) -> str | None:
    """Return in which way times of a file are not, or may not be, of the calendar of today.

    Parameters
    ----------
    metadata : dict of bytes to bytes
        Of the footer.
    mark : bytes
        What newer versions of Spark that write by the old calendar leave there.
    since : tuple of int
        The first version of Spark that leaves it.
    mode : str
        How the session reads files that name no version.
    """
    version = re.match(rb"(\d+)\.(\d+)", metadata.get(b"org.apache.spark.version", b""))
    is_old = version is not None and (int(version[1]), int(version[2])) < since
    if mark in metadata or is_old:
        return "was written by the calendar of Spark 2"
    if version is None and mode != "CORRECTED":
        return f"may have been written by the calendar of Spark 2, as {{mode}} is {mode}"
    return None
