"""What Spark says of Parquet files: which ones count, what columns they have, and what directories add.

Listing, patterns, hidden files, types of directories, merged schemas and settings are Spark's own: two
DataFrames of the same paths, of which no row is read, answer by the public interface. One has the schema; the
other is read with a schema of no columns, so that its columns are those of the directories.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import StringType, StructField, StructType

from windowkit.errors import InvalidValue
from windowkit.files import listing
from windowkit.files.deleted import Deleted
from windowkit.files.listing import File, Source
from windowkit.spark.jobs import arrow_type
from windowkit.spark.parquet import footers

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Listed", "Table", "cached", "of_pyarrow", "of_spark", "refused", "source_listed", "source_of"]

NOTHING: Final = StructType([])
TYPING: Final = {
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "false",
    "spark.sql.parquet.fieldId.read.enabled": "false",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
}
"""Settings by which Spark finds and types columns, and what they are by default."""


@dataclass(frozen=True)
class Table:
    """A table that is scanned.

    Parameters
    ----------
    frame : DataFrame
        With its columns.
    source : Source or str, optional
        Its files, or why Spark's reader has to read it. None of a table by its name.
    is_sparks : bool
        Whether `frame` has its rows, too, so that it may be left to Spark's reader.
    has_nanos : bool, default True
        Whether timestamps of nanoseconds are read, which Spark does not.
    """

    frame: DataFrame
    source: Source | str | None
    is_sparks: bool
    has_nanos: bool = True


@dataclass(frozen=True)
class Listed:
    """What is said of a file by whoever lists it for Spark.

    Parameters
    ----------
    size : int
        Bytes.
    values : tuple
        Of directories.
    written : int, optional
        When, in milliseconds; None if files of its kind are never written anew.
    deleted : Deleted, optional
        Its rows that are no longer part of the table.
    """

    size: int
    values: tuple[Any, ...] = ()
    written: int | None = None
    deleted: Deleted | None = None


def of_spark(session: SparkSession, paths: str | Sequence[str], merge_schema: bool | None) -> Table:
    """Return Spark's own DataFrame of some paths, and the files that it reads.

    Raises
    ------
    InvalidType, InvalidValue
        Spark does not read the paths, or this process cannot see its files.
    """
    given = listing.listed(paths)
    at = time.time_ns()
    reader = session.read
    if merge_schema is not None:
        reader = reader.option("mergeSchema", merge_schema)
    with refused(paths):
        nothing = session.read.schema(NOTHING).parquet(*given)
        source = source_of(session, nothing.inputFiles(), nothing.schema, at)
        if not source.files:
            raise listing.no_files(given)
        try:
            frame = reader.parquet(*given)
            assert frame.schema.fields is not None  # Only now Spark Connect reads it.
            return Table(frame, cached(frame) or repeated(session, given, source) or source, True)
        except AnalysisException as error:
            if "NANOS" not in str(error):
                raise
            check_settings(session, "paths: columns are timestamps of nanoseconds")
            # Spark reads no nanoseconds. Given as microseconds, which is how tasks read them, it does.
            frame = session.read.schema(footers.schema_of(source, bool(merge_schema))).parquet(*given)
            return Table(frame, repeated(session, given, source) or source, False)


def cached(frame: DataFrame) -> str | None:
    """Return that rows of a table are cached, if they are: Spark reads those, whatever is in files by now."""
    level = frame.storageLevel
    return "rows are cached" if level.useMemory or level.useDisk else None


def repeated(session: SparkSession, given: list[str], source: Source) -> str | None:
    """Return that paths lead to a file more than once, if Spark reads it as often.

    It does without columns of directories. A Spark job lists files for this, without opening them.
    """
    if source.partitioned.names or (len(given) == 1 and "{" not in given[0]):
        return None
    every = session.read.format("binaryFile").load(given)
    is_repeated = every.selectExpr("count(path) > count(distinct path)").collect()[0][0]
    return "Spark reads a file as often as paths lead to it" if is_repeated else None


def of_pyarrow(
    session: SparkSession, paths: str | Sequence[str], filesystem: fs.FileSystem, merge_schema: bool | None
) -> Table:
    """Return an empty DataFrame of the columns of files, and these, where only pyarrow sees them.

    Raises
    ------
    InvalidType, InvalidValue
        There are no such files, or Spark may type them in another way.
    """
    check_settings(session, "filesystem: it has files")
    source = listing.found(paths, filesystem)
    footers.check_directories(source)
    return Table(session.createDataFrame([], footers.schema_of(source, bool(merge_schema))), source, False)


@contextmanager
def refused(paths: str | Sequence[str]) -> Iterator[None]:
    """Raise our own error for what Spark refuses."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        given = listing.listed(paths)
        said = re.sub(r"^An error occurred while calling .*\n: ", "", str(error))
        # What follows is a plan, or of the JVM.
        whole = " ".join(re.split(r";\n|\n\s*at |\n+JVM stacktrace:", said)[0].split())
        advice = "give filesystem= for what only pyarrow can open"
        if "NOT_FOUND]" in said:
            advice = "there is no such file"
            if isinstance(paths, str) and "/" not in paths:
                advice = "there is no table, view or file of that name"
            elif any("/" not in path for path in given):
                advice += "; the name of a table or view is given as a str by itself"
        raise InvalidValue(f"paths: Spark does not read {', '.join(given)} ({whole}); {advice}") from None


def check_settings(session: SparkSession, what: str) -> None:
    """Refuse settings by which Spark would type columns in another way than files do."""
    for setting, default in TYPING.items():
        found = str(session.conf.get(setting, default)).lower()
        if found != default:
            raise InvalidValue(
                f"{what}, whose types do not come from Spark, but {setting} is {found}; unset it"
            )


def source_of(session: SparkSession, uris: Sequence[str], columns: StructType, at: int) -> Source:
    """Return the files of Spark's URIs that have rows of the table, whose directories have `columns`."""
    system, paths = opened(uris)
    infos = [info for info in stated(system, paths) if info.size and not listing.is_hidden(info.base_name)]
    infos.sort(key=lambda info: info.path)
    rows = [(info, *values_of(info.path, columns.names)) for info in infos]
    # Files beside directories of the form name=value are not part of the table.
    around = {"/".join(steps[:end]) for _, _, steps in rows for end in range(len(steps))}
    rows = [row for row in rows if len(row[1]) == len(columns) and "/".join(row[2]) not in around]
    kept = [typed(session, field, [row[1][place] for row in rows]) for place, field in enumerate(columns)]
    every = (
        File(info.path, info.size, tuple(values[number] for values in kept), info.mtime_ns, at)
        for number, (info, _, _) in enumerate(rows)
    )
    kinds = [(field.name, arrow_type(field.name, field.dataType, "paths", "UTC")) for field in columns]
    return Source(system, tuple(every), pa.schema(kinds))


def source_listed(listed: Mapping[str, Listed], partitioned: pa.Schema) -> Source | None:
    """Return files that Spark has listed, or None if one has changed since.

    Parameters
    ----------
    listed : mapping of str to Listed
        By their URIs.
    partitioned : pyarrow.Schema
        Of values of directories.

    Raises
    ------
    InvalidValue
        This process cannot see them.
    """
    at = time.time_ns()
    system, paths = opened(list(listed))
    infos = {info.path: info for info in stated(system, paths)}
    # Stores of objects report one time in whole seconds here and in parts of them there.
    unit = 10**6 if isinstance(system, fs.LocalFileSystem) else 10**9
    files = []
    for path, said in zip(paths, listed.values(), strict=True):
        info = infos[path]
        is_rewritten = said.written is not None and info.mtime_ns // unit != said.written * 10**6 // unit
        if info.size != said.size or is_rewritten:
            return None
        files.append(File(path, said.size, said.values, info.mtime_ns, at, said.deleted))
    return Source(system, tuple(sorted(files, key=lambda file: file.path)), partitioned)


def opened(uris: Sequence[str]) -> tuple[fs.FileSystem, list[str]]:
    """Return the file system of URIs, and the paths there."""
    if not uris:
        return fs.LocalFileSystem(), []
    parts = [urlsplit(uri) for uri in dict.fromkeys(uris)]
    roots = {f"{part.scheme}://{part.netloc}" for part in parts}
    if len(roots) > 1:
        raise InvalidValue(f"paths: {', '.join(sorted(roots))} are on several file systems; a scan reads one")
    system, root = listing.opened(f"{roots.pop()}/")
    return system, [root.rstrip("/") + unquote(part.path) for part in parts]


def stated(system: fs.FileSystem, paths: list[str]) -> list[fs.FileInfo]:
    """Return sizes and times of files, by one request for all of a directory where there are several."""
    folders: dict[str, list[str]] = {}
    for path in paths:
        folders.setdefault(path.rpartition("/")[0], []).append(path)
    found: list[fs.FileInfo] = []
    for folder, inner in folders.items():
        selected = fs.FileSelector(folder, allow_not_found=True) if len(inner) > 1 else inner
        wanted = set(inner)
        try:
            infos = system.get_file_info(selected)
        except (pa.ArrowException, OSError) as error:
            raise InvalidValue(
                f"paths: Spark finds files in {folder!r}, and this process cannot see them ({error}); "
                "pyarrow needs credentials of its own"
            ) from None
        there = [info for info in infos if info.path in wanted and info.is_file]
        if len(there) < len(wanted):
            raise InvalidValue(
                f"paths: Spark finds files in {folder!r} that are gone, or that this process cannot see; "
                "a scan reads files that this process and all workers see"
            )
        found += there
    return found


def values_of(path: str, names: list[str]) -> tuple[list[str], list[str]]:
    """Return what directories of a file say of columns, and the steps to the first that does.

    What is nearest to the file counts.
    """
    steps = path.split("/")[:-1]
    pairs: dict[str, tuple[str, int]] = {}
    for end, (name, _, value) in enumerate((step.partition("=") for step in steps), 1):
        pairs[unescaped(name)] = pairs[unescaped(name).lower()] = (value, end)
    there = [
        pairs[key] for key in (name if name in pairs else name.lower() for name in names) if key in pairs
    ]
    return [value for value, _ in there], steps[: min((end for _, end in there), default=0)]


def unescaped(text: str) -> str:
    """Return a name or value of a directory as Spark reads it: %41 is a character, not a byte of UTF-8."""
    return re.sub("%([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), text)


def typed(session: SparkSession, field: StructField, texts: list[str]) -> list[Any]:
    """Return what directories say of a column, by Spark's own cast to the type that it gives the column."""
    distinct = sorted({text for text in texts if text != listing.NULL})
    values: list[Any] = [unescaped(text) for text in distinct]
    if distinct and not isinstance(field.dataType, StringType):
        cast = f"try_cast(text as {field.dataType.simpleString()})"
        statement = f"select transform(from_json(:texts, 'array<string>'), text -> {cast})"
        (column,) = session.sql(statement, {"texts": json.dumps(values)}).toArrow().columns
        values = listing.plain(column.combine_chunks().flatten()).to_pylist()
    by_text = dict(zip(distinct, values, strict=True))
    unread = [text for text, value in by_text.items() if value is None]
    if unread:
        raise InvalidValue(
            f"paths: a directory says {field.name}={unread[0]}, which Spark cannot cast to "
            f"{field.dataType.simpleString()}; use query.run(spark.read.parquet(path))"
        )
    return [by_text.get(text) for text in texts]
