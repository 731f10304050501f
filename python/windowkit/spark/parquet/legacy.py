"""Times in Parquet files of which readers disagree: INT96, and those of the calendar of old Java.

What `scan` would read otherwise than Spark does is refused here, with the column and the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from windowkit.errors import InvalidValue
from windowkit.files.listing import File

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "READING",
    "UNIT",
    "Reading",
    "check_calendar",
    "check_int96",
    "check_setting",
    "has_days",
    "is_near",
    "of_old_calendar",
    "of_session",
]

UNIT: Final = "us"
"""In which INT96 is read."""
IN_SECONDS: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit="s")
NEAR: Final = (-2_208_988_800_000_000, 7_258_118_400_000_000)
"""From 1900 to 2200, in microseconds: INT96 times there are not looked at twice."""
FARTHEST_SECONDS: Final = (2**63 - 1) // 10**6


@dataclass(frozen=True)
class Reading:
    """What settings of a session say of times in files.

    Parameters
    ----------
    old_times, old_int96 : bool
        Whether dates and times, and times of INT96, of files that do not say which Spark wrote them may be of
        the calendar of Spark 2.
    moved : bool
        Whether Spark takes INT96 that other writers than Java's left for times of its own zone.
    """

    old_times: bool = False
    old_int96: bool = False
    moved: bool = False


READING: Final = Reading()


def of_session(session: SparkSession) -> Reading:
    """Return what settings of a session say of times in files."""

    def of(setting: str, default: str) -> str:
        return str(session.conf.get(f"spark.sql.parquet.{setting}", default)).upper()

    return Reading(
        of("datetimeRebaseModeInRead", "CORRECTED") != "CORRECTED",
        of("int96RebaseModeInRead", "CORRECTED") != "CORRECTED",
        of("int96TimestampConversion", "FALSE") == "TRUE",
    )


def check_setting(opened: ds.ParquetFileFragment, columns: list[str], file: File, reading: Reading) -> None:
    """Refuse columns of INT96 that a setting moves to other instants."""
    # What Java wrote is in UTC, to all.
    if reading.moved and not (opened.metadata.created_by or "").startswith("parquet-mr"):
        raise InvalidValue(
            f"query: spark.sql.parquet.int96TimestampConversion is set, and column {columns[0]!r} has times "
            f"of INT96 in {file.path!r}; scan takes INT96 for instants"
        )


def leaves(column: pa.Array) -> Iterator[pa.Array]:
    """Yield what a column is made of within structs, lists and maps; itself, if it is none of these."""
    kind = column.type
    if pa.types.is_struct(kind):
        for inner in column.flatten():
            yield from leaves(inner)
    elif pa.types.is_map(kind):
        yield from leaves(column.keys)
        yield from leaves(column.items)
    elif pa.types.is_nested(kind):
        yield from leaves(column.flatten())
    else:
        yield column


def is_near(column: pa.Array) -> bool:
    """Whether times, also within structs, lists and maps, are all of two centuries around ours."""
    for leaf in leaves(column):
        if pa.types.is_timestamp(leaf.type):
            ends = pc.min_max(leaf.cast(pa.int64()))
            low, high = ends["min"].as_py(), ends["max"].as_py()
            if low is not None and not (NEAR[0] <= low and high < NEAR[1]):
                return False
    return True


def check_int96(
    filesystem: fs.FileSystem, file: File, opened: ds.ParquetFileFragment, columns: list[str]
) -> None:
    """Refuse times of INT96 that do not fit microseconds of 64 bits: look at all again, in seconds.

    INT96 has a day of 32 bits, and a time of day. pyarrow takes the day, counted from 4713 BC, for one
    without a sign, and lets microseconds wrap; seconds hold every day. A second look is as dear as the first,
    so that it is taken only where a time is found that few tables have. What comes out between 1900 and 2200
    and is wrong was written for a time around 66,000 BC.
    """
    groups = [group.id for group in opened.row_groups]
    seconds = IN_SECONDS.make_fragment(file.path, filesystem, row_groups=groups)
    for batch in seconds.scanner(columns=columns, use_threads=False).to_batches():
        for name, column in zip(columns, batch.columns, strict=True):
            if has_far(column):
                raise InvalidValue(
                    f"query: column {name!r} has a time of INT96 in {file.path!r} that is before 4713 BC or "
                    "after the year 294246; scan reads those between"
                )


def has_far(column: pa.Array) -> bool:
    """Whether one of the times of a column read in seconds is beyond microseconds of 64 bits."""
    for leaf in leaves(column):
        if pa.types.is_timestamp(leaf.type) and leaf.type.unit == "s":
            most = pc.max(leaf.cast(pa.int64())).as_py()
            if most is not None and most > FARTHEST_SECONDS:
                return True
    return False


def of_old_calendar(
    opened: ds.ParquetFileFragment, columns: list[str], int96: list[str], reading: Reading
) -> list[str]:
    """Return which of these columns of a file, some of INT96, are or may be of the calendar of old Java."""
    metadata = opened.metadata.metadata or {}
    times = is_legacy(metadata, b"org.apache.spark.legacyDateTime", (3, 0), reading.old_times)
    old = is_legacy(metadata, b"org.apache.spark.legacyINT96", (3, 1), reading.old_int96)
    return [name for name in columns if (old if name in int96 else times)]


def is_legacy(metadata: dict[bytes, bytes], mark: bytes, since: tuple[int, int], unsaid: bool) -> bool:
    """Whether Spark takes a file for one of old Java's calendar, whose days before 1582 are others.

    Parameters
    ----------
    metadata : dict of bytes to bytes
        Of the footer.
    mark : bytes
        What newer versions that write the old calendar leave there.
    since : tuple of int
        The first version that says so.
    unsaid : bool
        What the session says of files that name no version.
    """
    version = re.match(rb"(\d+)\.(\d+)", metadata.get(b"org.apache.spark.version", b""))
    if mark in metadata or version is None:
        return mark in metadata or unsaid
    return (int(version[1]), int(version[2])) < since


def check_calendar(rows: pa.RecordBatch, file: File) -> None:
    """Refuse times of a file of the old calendar from before 1900, when all zones have the new one."""
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        for least in map(pc.min, filter(is_days, leaves(column))):
            if least.is_valid and pc.year(least).as_py() < 1900:
                raise InvalidValue(
                    f"query: column {name!r} has {least} in {file.path!r}, which was written by the "
                    "calendar of Spark 2 (datetimeRebaseModeInWrite=LEGACY), or may be, as this session's "
                    "datetimeRebaseModeInRead or int96RebaseModeInRead is not CORRECTED; scan reads times "
                    "from 1900 on of such files, and query.run(spark.read.parquet(path)) all"
                )


def is_days(column: pa.Array) -> bool:
    """Whether a column has dates or instants; times without zone are newer than the new calendar."""
    kind = column.type
    return bool(pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is not None))


def has_days(kind: pa.DataType) -> bool:
    """Whether columns of a type have dates or instants, also within structs, lists and maps."""
    return any(map(is_days, leaves(pa.array([], kind))))
