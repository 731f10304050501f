"""Rows that never enter the JVM: tasks read Parquet files themselves, and make slices of what they read.

All after stage 1 is that of route "packed".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import fs
from pyspark.sql import types as spark
from pyspark.sql.pandas.types import from_arrow_type

from windowkit import files
from windowkit.errors import InvalidType, InvalidValue
from windowkit.query import Query
from windowkit.spark import parquet, statistics
from windowkit.spark.filters import Filter, chosen_of
from windowkit.spark.instants import Reading
from windowkit.spark.jobs import Job, identifier, job, position_of
from windowkit.spark.kinds import Kind, as_instants
from windowkit.spark.pruning import Chosen
from windowkit.spark.routes import Expected, described, expected, packed, stages
from windowkit.spark.settings import check_settings, inference, is_set, reading
from windowkit.spark.shipping import Metrics, observed_chunks, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Scan", "explain_scan", "scan"]

DEFAULT_PARALLELISM: Final = 16
"""Tasks to make where the session does not say how many run at once: through Spark Connect."""


@dataclass(frozen=True)
class ReadAndPack:
    """Reads parts of files, and makes packed slices of their rows.

    Parameters
    ----------
    pack : Pack
    filesystem : pyarrow.fs.FileSystem
    tasks : tuple of tuple of Part
        Of every task; a task is told its number.
    names : tuple of str
        How files call the columns of ``pack.schema``.
    read : pyarrow.Schema
        Columns to read: `names`, and those that `chosen` needs.
    partitioned : pyarrow.Schema
        Columns of directories.
    chosen : Chosen or None
    reading : Reading
    """

    pack: stages.Pack
    filesystem: fs.FileSystem
    tasks: tuple[tuple[files.Part, ...], ...]
    names: tuple[str, ...]
    read: pa.Schema
    partitioned: pa.Schema
    chosen: Chosen | None
    reading: Reading

    @property
    def query(self) -> Query:
        """The query it is part of."""
        return self.pack.query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed slices of the parts of the tasks whose numbers come."""
        yield from self.pack(self.rows(batches))

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these tasks that have a time, with the columns of the query."""
        at = self.query.inputs.index(self.query.time)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in self.tasks[number]:
                    found = parquet.batches(
                        self.filesystem, part, self.read, self.chosen, self.partitioned, self.reading
                    )
                    for rows in found:
                        yield timed(rows.select(self.names), at)


@dataclass(frozen=True)
class Scan(Job):
    """A job whose rows are in Parquet files; its `frame` has their columns, and no rows.

    `source` has the files that are read, of as many as `listed` says: not those that directories rule out.
    """

    source: files.Source
    names: tuple[str, ...]
    read: pa.Schema
    chosen: Chosen | None
    expects: Expected
    listed: int
    reading: Reading

    @cached_property
    def tasks(self) -> tuple[tuple[files.Part, ...], ...]:
        """Which parts of which files each task reads."""
        return tuple(files.parts(self.source, parallelism(self.frame.sparkSession)))

    @property
    def never(self) -> bool:
        """Whether rows are packed as they are from the first one on."""
        return few(self.expects)

    def stage_1(self) -> ReadAndPack:
        """Return what reads the files."""
        return ReadAndPack(
            packed.pack(self, never=self.never),
            self.source.filesystem,
            self.tasks,
            self.names,
            self.read,
            self.source.partitioned,
            self.chosen,
            self.reading,
        )

    def run(self) -> DataFrame:
        """Return the windows, lazily."""
        session = self.frame.sparkSession
        # Also of no file at all there is one task, of nothing.
        numbers = session.range(0, len(self.tasks), 1, max(len(self.tasks), 1))
        chunks = observed_chunks(self.metrics, numbers.mapInArrow(shipped(self.stage_1()), packed.CHUNKS))
        return observed_count(self.metrics, "windows out", packed.windows(self, chunks))


def scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    rows_per_slice: float | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    """Evaluate a query over Parquet files that Spark's tasks read themselves.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    paths : str or sequence of str
        Files, or directories of files, also partitioned as Hive does it (``day=2024-05-01``); ``*``, ``?``,
        ``[...]`` and ``{...}`` stand for several, unless after a backslash. Without `filesystem`, URIs that
        pyarrow opens, such as ``s3://...``, or paths of this machine. A URI's path is taken as it is written,
        but for options ``?name=value&...`` at its end, which are pyarrow's. All workers read them by the same
        names. A file is read once, however many of the paths lead to it.
    query : Query
        Its columns are those that ``spark.read.parquet(paths)`` has, by name, type and values.
    filter : pyarrow.dataset.Expression, list of tuple, or list of list of tuple, optional
        Which rows are read, also by columns that the query does not read. Tuples ``(column, operator,
        value)``, in the form that `pyarrow.parquet.read_table` takes, all hold; of several lists of them any
        does. Operators are ``=``, ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and ``not in``, and
        mean what Spark's mean: a null is no match, NaN is the greatest value, numbers of several types are
        compared as numbers, and dates are times in the session's zone. Text is read as the type of its
        column, or as any number. Columns are found as those of the query. An expression means what pyarrow
        says of a table: names are exact, NaN is neither more nor less than a value, and ``~`` of a test such
        as ``isin`` takes nulls in. Row groups whose statistics say that they have no such row are left out,
        as far as these can say so: they leave NaN out. Files whose directories say so are not opened.
    filesystem : pyarrow.fs.FileSystem, optional
        Any, if it can be pickled.
    merge_schema : bool, optional
        Take the columns of all files, read first, rather than of a ``_common_metadata``, a ``_metadata`` or
        the file whose path sorts first; by default as ``spark.sql.parquet.mergeSchema`` has it.
    rows_per_slice : float, optional
        A hint, as of `windowkit.spark.aggregate`; by default an estimate from the statistics of some files.
    metrics : Metrics, optional
        Counts rows, slices, packed bytes and windows while the result is computed.

    Returns
    -------
    DataFrame
        What ``query.run(spark.read.parquet(*paths))`` returns.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query or the filter does not fit the files, or there are none. Columns that a file has in another
        type or case, times before 1900 in files of Spark 2's calendar, and times of INT96 before 4713 BC or
        after the year 294246 fail the action, with the file's name; so do files that change meanwhile.

    Notes
    -----
    Timestamps of nanoseconds, which Spark refuses, are floored to microseconds. O(bytes of the columns read).

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> import windowkit as wk
    >>> path = tempfile.mkdtemp() + "/readings.parquet"
    >>> pq.write_table(pa.table({"k": [1, 1], "t": [5, 17], "v": [2.0, 3.0]}), path)
    >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    >>> wk.spark.scan(df.sparkSession, path, query)
    DataFrame[k: bigint, window: struct<start:bigint,end:bigint>, sum(v): double]
    """
    made = checked(spark, paths, query, filter, filesystem, merge_schema, rows_per_slice, metrics)
    return replace(made, metrics=metrics).run()


def explain_scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    rows_per_slice: float | None = None,
) -> str:
    """Say how `scan` evaluates a query: what is read, what is expected of it, and what runs where.

    Parameters
    ----------
    spark, paths, query, filter, filesystem, merge_schema, rows_per_slice
        As for `scan`, which raises the same errors.

    Returns
    -------
    str
        Lines of text.
    """
    made = checked(spark, paths, query, filter, filesystem, merge_schema, rows_per_slice)
    source = made.source
    lines = [
        *described(query),
        "route: scan, as rows are in Parquet files",
        f"  expected: {made.expects}",
        f"stage 1, in Rust inside one mapInArrow: {counted(len(made.tasks), 'task')} read "
        f"{counted(len(source.files), 'file')} of {source.bytes:,} bytes, no row enters the JVM",
        f"  columns: {', '.join(map(identifier, made.read.names))}",
    ]
    if source.partitioned.names:
        lines.append(f"  of directories: {', '.join(map(identifier, source.partitioned.names))}")
    if made.chosen is not None:
        lines.append(f"  filter: {made.chosen.rows}")
        if str(made.chosen.groups) != str(made.chosen.rows):
            lines.append(f"  statistics, which leave NaN out, are asked for: {made.chosen.groups}")
        if source.partitioned.names:
            ruled_out = made.listed - len(source.files)
            lines.append(f"  directories rule out {ruled_out:,} of {counted(made.listed, 'file')}")
    lines.append(f"  {statistics.groups(source, made.read, made.chosen)}")
    if packed.rows_instead(made) is None and few(made.expects):
        lines.append("  rows are packed as they are, as slices would be hardly fewer")
    else:
        lines += [f"  {line}" for line in packed.held(made)]
    return "\n".join([*lines, *packed.moved(made)])


def timed(rows: pa.RecordBatch, at: int) -> pa.RecordBatch:
    """Return the rows that have a time, which is column `at`: the others are in no window, nor counted."""
    column = rows.column(at)
    return rows.filter(column.is_valid()) if column.null_count else rows


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def few(expects: Expected) -> bool:
    """Whether slices are expected to save nothing."""
    return expects.rows_per_slice * stages.LIMITS.share < 1


def checked(
    session: SparkSession,
    paths: str | Sequence[str],
    query: Query,
    chosen: Filter | None,
    filesystem: fs.FileSystem | None,
    merge_schema: bool | None,
    rows_per_slice: float | None,
    metrics: Metrics | None = None,
) -> Scan:
    """Check a query against files, without reading rows."""
    if not is_session(session):
        raise InvalidType(f"spark: a {type(session).__name__} is given; spark is a SparkSession")
    if not isinstance(query, Query):
        raise InvalidType(f"query: a {type(query).__name__} is given; query is a windowkit.Query")
    if metrics is not None and not isinstance(metrics, Metrics):
        raise InvalidType(f"metrics: a {type(metrics).__name__} is given; it is wk.spark.Metrics(), or None")
    if merge_schema is None:
        merge_schema = is_set(session, "spark.sql.parquet.mergeSchema", "false")
    if not isinstance(merge_schema, bool):
        raise InvalidType(f"merge_schema: {merge_schema!r} is given; it is True, False or None")
    how = inference(session)
    source = files.found(paths, filesystem, how=how)
    columns = table_schema(source, merge_schema)
    if not is_set(session, "spark.sql.parquet.inferTimestampNTZ.enabled", "true"):
        own = set(columns) - set(source.partitioned.names)
        columns |= {name: as_instants(columns[name]) for name in own}
    names = list(columns)
    frame = session.createDataFrame([], spark.StructType([spark.StructField(name, void()) for name in names]))
    # Types are found out only for the columns that are read: Spark need not know the others.
    positions = {position_of(column, names, frame) for column in query.inputs} - {None}
    describing = source.describing(merge_schema)
    where = repr(describing[0].path)
    found = {
        name: parquet.readable(name, columns[name], where) for at, name in enumerate(names) if at in positions
    }
    any_case = not is_set(session, "spark.sql.caseSensitive", "false")
    expression, needed = chosen_of(chosen, columns, where, any_case=any_case, zone=how.zone)
    every = {**found, **needed}
    numbered = (parquet.has_numbers(source.filesystem, file) for file in describing)
    check_settings(session, every, columns, numbered)
    fields = [spark.StructField(name, in_spark(found[name]) if name in found else void()) for name in names]
    made = job(session.createDataFrame([], spark.StructType(fields)), query)
    read = tuple(names[made.positions[column]] for column in query.inputs)
    # A column that both read is read once.
    both = pa.schema([(name, every[name]) for name in dict.fromkeys([*read, *needed])])
    left = parquet.left_over(source, expression, both)
    known = statistics.expected(left, made, read) if rows_per_slice is None else None
    return Scan(
        made.query,
        made.frame,
        made.positions,
        made.schema,
        made.plan,
        left,
        read,
        both,
        expression,
        expected(rows_per_slice, known),
        len(source.files),
        reading(session),
    )


def is_session(given: object) -> bool:
    """Whether something is a SparkSession, classic or Connect: two classes, of which one may not import."""
    return any(
        kind.__name__ == "SparkSession" and kind.__module__.split(".")[:2] == ["pyspark", "sql"]
        for kind in type(given).__mro__
    )


def void() -> spark.DataType:
    return spark.NullType()


def in_spark(kind: pa.DataType) -> spark.DataType:
    """Return the Spark type of one of those that `parquet.kind_in_spark` returns."""
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def table_schema(source: files.Source, merge_schema: bool) -> dict[str, Kind]:
    """Return the columns of the table as files have them: of one file or of all, then of directories.

    Raises
    ------
    InvalidType
        Files that are to be merged have a column in several types.
    """
    columns: dict[str, tuple[Kind, str]] = {}
    for file in source.describing(merge_schema):
        for field in parquet.footer(source.filesystem, file):
            kind, first = columns.setdefault(field.name, (field.type, file.path))
            read, had = parquet.kind_in_spark(field.type), parquet.kind_in_spark(kind)
            if read == had:
                continue
            if (had, read) in parquet.WIDENED:
                columns[field.name] = (field.type, file.path)
            elif (read, had) not in parquet.WIDENED:
                raise InvalidType(
                    f"merge_schema: column {field.name!r} is {kind} in {first!r} and {field.type} in "
                    f"{file.path!r}; files of one scan have the same types, or narrower integers and floats"
                )
    for field in source.partitioned:
        others = [name for name in columns if name != field.name and name.lower() == field.name.lower()]
        if others:
            raise InvalidValue(
                f"paths: directories have a column {field.name!r}, and files {others[0]!r}; columns of one "
                "scan differ in more than their case"
            )
    return {
        **{name: kind for name, (kind, _) in columns.items()},
        **{field.name: field.type for field in source.partitioned},
    }


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once, as far as the session tells."""
    said = session.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if said is not None:
        return int(said)
    if hasattr(session, "_jsparkSession"):
        return session.sparkContext.defaultParallelism
    return DEFAULT_PARALLELISM
