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
from pyspark.sql import types as spark_types
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.functions import sum as total

from windowkit.errors import InvalidType, InvalidValue
from windowkit.files import listing
from windowkit.language.checks import a_type
from windowkit.language.conditions import renamed
from windowkit.language.expressions import Expression, refuse_expressions
from windowkit.language.pushdown import Split
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.local import rolling as local_rolling
from windowkit.spark.jobs import Job, check_metrics, filtered, identifier, job, shaped, split_of
from windowkit.spark.parquet import pruning, survey, tables
from windowkit.spark.parquet.fallback import Left, chosen_rows
from windowkit.spark.parquet.filters import Filter, chosen_of, columns_of, kind_of, with_rows
from windowkit.spark.parquet.reading import Reader, fragment
from windowkit.spark.routes import Expected, described, expected, packed, rolling, stages
from windowkit.spark.shipping import WITHOUT_TIME, Metrics, observed_chunks, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Scan", "explain_scan", "scan"]

DEFAULT_PARALLELISM: Final = 16
"""Tasks to make where the session does not say how many run at once: through Spark Connect."""
COUNTED: Final = spark_types.StructType(
    [*packed.CHUNKS.fields, spark_types.StructField("dropped", spark_types.LongType())]
)
"""Chunks, and how many rows without a time were left out."""
SAMPLE: Final = 8
"""Files whose footers `explain_scan` reads, spread over all."""


@dataclass(frozen=True)
class ReadAndPack:
    """Reads parts of files, and makes packed slices of their rows.

    Parameters
    ----------
    pack : Pack
    reader : Reader
        Of `names`, and the columns that its filter needs.
    tasks : tuple of tuple of Part
        Of every task; a task gets its number.
    names : tuple of str
        How files call the columns of ``pack.schema``.
    keeps_all : bool
        Whether rows without time are packed too.
    """

    pack: stages.Pack
    reader: Reader
    tasks: tuple[tuple[listing.Part, ...], ...]
    names: tuple[str, ...]
    keeps_all: bool = False

    @property
    def query(self) -> Query:
        """The query it is part of."""
        return self.pack.query

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed slices of the parts of the tasks whose numbers come, and how many rows had no time."""
        dropped = Dropped()
        for chunks in self.pack(self.rows(numbers, dropped)):
            yield with_dropped(chunks, dropped.taken())
        if rest := dropped.taken():
            # Of no chunk.
            nothing = [pa.nulls(1, kind) for kind in stages.CHUNKS.types]
            yield with_dropped(pa.RecordBatch.from_arrays(nothing, schema=stages.CHUNKS), rest)

    def rows(self, numbers: Iterator[pa.RecordBatch], dropped: Dropped) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these tasks, with the columns of the query: those with a time, or all."""
        at = self.pack.schema.names.index(self.query.time)
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                for part in self.tasks[number]:
                    for rows in self.reader.batches(part):
                        own = rows.select(self.names)
                        kept = own if self.keeps_all else timed(own, at)
                        dropped.rows += own.num_rows - kept.num_rows
                        yield kept


@dataclass
class Dropped:
    """How many rows without a time were left out so far, and not yet reported."""

    rows: int = 0

    def taken(self) -> int:
        """Return how many, to report them."""
        rows, self.rows = self.rows, 0
        return rows


def with_dropped(chunks: pa.RecordBatch, rows: int) -> pa.RecordBatch:
    """Return chunks with a column that has a number of rows, in the first of them."""
    counts = [rows, *[0] * (chunks.num_rows - 1)] if chunks.num_rows else []
    return chunks.append_column("dropped", pa.array(counts, pa.int64()))


@dataclass(frozen=True)
class Scan(Job):
    """A job whose rows are in Parquet files; its `frame` has their columns.

    `source` has the files that are read, of as many as `listed` says: not those that directories rule out.
    `split` is the condition on results, of which the reader knows what it says of rows. With `roll`, rows are
    returned with aggregates over their frames, and the job is that of all columns.
    """

    source: listing.Source
    names: tuple[str, ...]
    reader: Reader
    expects: Expected
    listed: int
    roll: Rolling | None = None
    split: Split | None = None

    @cached_property
    def tasks(self) -> tuple[tuple[listing.Part, ...], ...]:
        """Which parts of which files each task reads."""
        return tuple(listing.parts(self.source, parallelism(self.frame.sparkSession)))

    @property
    def never(self) -> bool:
        """Whether rows are packed as they are from the first one on."""
        return self.roll is not None or few(self.expects)

    def stage_1(self) -> ReadAndPack:
        """Return what reads the files."""
        pack, keeps_all = packed.pack(self, never=self.never), self.roll is not None
        return ReadAndPack(pack, self.reader, self.tasks, self.names, keeps_all)

    def result(self, metrics: Metrics | None) -> DataFrame:
        """Return the windows, or rows, lazily; the job's own query has windows as structs."""
        return replace(self, metrics=metrics).run()

    def run(self) -> DataFrame:
        """Return the windows, in the form in which they are computed, or rows."""
        session = self.frame.sparkSession
        # Also of no file at all there is one task, of nothing.
        numbers = session.range(0, len(self.tasks), 1, max(len(self.tasks), 1))
        what = None if self.roll is None else rolling.in_one_line(self.roll)
        read = numbers.mapInArrow(shipped(self.stage_1(), what), COUNTED)
        if self.metrics is not None and self.roll is None:
            read = self.metrics.observed(read, {WITHOUT_TIME: coalesce(total("dropped"), lit(0))})
        chunks = read.where("chunk is not null").drop("dropped")
        chunks = observed_chunks(self.metrics, chunks)
        if self.roll is not None:
            task = rolling.Roll(self.roll, self.query, self.schema)
            return rolling.answered(chunks, self, self.roll, task)
        return observed_count(self.metrics, "windows out", packed.windows(self, chunks))

    def explained(self) -> str:
        """Describe what is read, what is expected of it, and what runs where."""
        source = self.source
        head, roll = described(self.query, self.schema.field(self.query.time).type), self.roll
        if roll is not None:
            head = local_rolling.described(roll, local_rolling.bound(roll, self.schema).plan)
        if self.split is not None:
            head += self.split.described()
        lines = [
            *head,
            "route: scan, as rows are in Parquet files",
            *([f"  expected: {self.expects}"] if roll is None else []),
            f"stage 1, in Rust inside one mapInArrow: {counted(len(self.tasks), 'task')} read "
            f"{counted(len(source.files), 'file')} of {source.bytes:,} bytes, no row enters the JVM",
            f"  columns: {', '.join(map(identifier, self.reader.schema.names))}",
        ]
        if source.partitioned.names:
            lines.append(f"  of directories: {', '.join(map(identifier, source.partitioned.names))}")
        if self.reader.chosen is not None:
            lines.append(f"  filter: {self.reader.chosen.rows}")
            if str(self.reader.chosen.groups) != str(self.reader.chosen.rows):
                lines.append(
                    f"  statistics, which leave NaN out, are tested for: {self.reader.chosen.groups}"
                )
            if source.partitioned.names:
                ruled_out = self.listed - len(source.files)
                lines.append(f"  directories rule out {ruled_out:,} of {counted(self.listed, 'file')}")
        lines.append(f"  {groups(self)}")
        if roll is not None:
            return "\n".join([*lines, "  rows are packed with all their columns", *rolling.moved(self)])
        if packed.rows_instead(self) is None and few(self.expects):
            lines.append("  rows are packed as they are, as slices would be hardly fewer")
        else:
            lines += [f"  {line}" for line in packed.held(self)]
        return "\n".join([*lines, *packed.moved(self)])


def scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    rows_per_slice: float | None = None,
    metrics: Metrics | None = None,
    where: str | Expression | None = None,
) -> DataFrame:
    """Evaluate a query, or rolling aggregates, over Parquet files that Spark's tasks read themselves.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    paths : str or sequence of str
        What ``spark.read.parquet(*paths)`` takes: Spark says which files these are, which columns they have
        and what their directories add. This process and all workers read them by Spark's names. A file
        is read once, however many of the paths lead to it.
    query : Query or Rolling
        Its columns are those that ``spark.read.parquet(paths)`` has, by name, type and values. For rolling
        aggregates all columns are read.
    filter : pyarrow.dataset.Expression, list of tuple, or list of list of tuple, optional
        Which rows are read, also by columns that the query does not read. Tuples ``(column, operator,
        value)``, in the form that `pyarrow.parquet.read_table` takes, all hold; of several lists of them any
        does. Operators are ``=``, ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and ``not in``, and
        mean what Spark's mean: a null is no match, NaN is the greatest value, numbers of several types are
        compared as numbers, and dates are times in the session's zone. A string is read as the type of its
        column, or as any number. Columns are found as those of the query. An expression means what pyarrow
        says of a table: names are exact, NaN is neither more nor less than a value, and ``~`` of a test such
        as ``isin`` takes nulls in. Row groups whose statistics say that they have no such row are left out,
        as far as these can say so: they leave NaN out. Files whose directories say so are not opened.
    filesystem : pyarrow.fs.FileSystem, optional
        The file system of files that Spark does not open, which must be picklable; `paths` are then names of
        files or directories, and values of directories ``name=value`` are integers, dates or strings.
    merge_schema : bool, optional
        Take the columns of all files; by default as ``spark.sql.parquet.mergeSchema`` has it.
    rows_per_slice : float, optional
        A hint, as of `windowkit.spark.aggregate`; by default tasks sample their first rows. Not for rolling
        aggregates.
    metrics : Metrics, optional
        Counts rows, slices, packed bytes and windows while the result is computed.
    where : str or Expression, optional
        Which windows are returned: a condition in SQL on the columns of the result, as of
        `windowkit.Query.run`. What it says of rows rules out files and row groups as `filter` does. Not for
        rolling aggregates.

    Returns
    -------
    DataFrame
        What ``query.run(spark.read.parquet(*paths))`` returns.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query or the filter does not fit the files, or these cannot be read. Times of INT96 before 4713 BC
        or after the year 294246 fail the action, with the file's name; so do files that change meanwhile.

    Notes
    -----
    The footers of all files are read first. Where tasks would not read a file as Spark's reader does, that
    reader is used for all of them, and `explain_scan` says why: for columns that a file has in another type
    or case, files of Spark 2's calendar, and settings by which Spark passes over damaged files, finds columns
    by number or moves times of INT96. Files that Spark's reader does not read are then refused: those of
    `filesystem`, and those with timestamps of nanoseconds, which are floored to microseconds otherwise.
    O(bytes of the columns read).

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> import windowkit as wk
    >>> path = tempfile.mkdtemp() + "/readings.parquet"
    >>> pq.write_table(pa.table({"k": [1, 1], "t": [5, 17], "v": [2.0, 3.0]}), path)
    >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    >>> wk.spark.scan(df.sparkSession, path, query)
    DataFrame[k: bigint, window_start: bigint, window_end: bigint, sum(v): double]
    """
    check_metrics(metrics)
    made = checked(spark, paths, query, filter, filesystem, merge_schema, rows_per_slice, where)
    result = made.result(metrics)
    # What is left to Spark's reader has the columns of the query already, of its windows.
    if not isinstance(made, Scan) or not isinstance(query, Query):
        return result
    result = shaped(result, query)
    return result if made.split is None else filtered(result, made.split.condition)


def explain_scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    rows_per_slice: float | None = None,
    where: str | Expression | None = None,
) -> str:
    """Describe how `scan` evaluates a query: what is read, what is expected of it, and what runs where.

    Parameters
    ----------
    spark, paths, query, filter, filesystem, merge_schema, rows_per_slice, where
        As for `scan`, which raises the same errors.

    Returns
    -------
    str
        Lines of text.
    """
    made = checked(spark, paths, query, filter, filesystem, merge_schema, rows_per_slice, where)
    return made.explained()


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


def groups(made: Scan) -> str:
    """Describe how many row groups a sample of the files has, and how many their statistics rule out."""
    every = made.source.files
    sampled = every[:: max(len(every) // SAMPLE, 1)][:SAMPLE]
    number, left = 0, 0
    silent: set[str] = set()
    for file in sampled:
        opened = fragment(made.source.filesystem, file, made.source.partitioned)
        number += opened.num_row_groups
        if made.reader.chosen is not None and opened.num_row_groups:
            left += pruning.pruned(opened, made.reader.schema, made.reader.chosen).num_row_groups
            silent |= pruning.silent(opened, made.reader.schema, made.reader.chosen)
    where = counted(len(sampled), "file") if sampled == every else f"{len(sampled):,} of {len(every):,} files"
    text = f"row groups: {number:,} in {where}"
    if made.reader.chosen is not None:
        text += f", of which statistics rule out {number - left:,}"
    if silent:
        text += f"; they do not say between which values {', '.join(map(identifier, sorted(silent)))} lies"
    return text


def checked(
    session: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling,
    filter: Filter | None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None,
    merge_schema: bool | None,
    rows_per_slice: float | None,
    where: str | Expression | None,
) -> Scan | Left:
    """Check a query against files, without reading rows."""
    if not is_session(session):
        raise InvalidType(f"spark: {a_type(session)} is given; spark is a SparkSession")
    if not isinstance(query, Query | Rolling):
        raise InvalidType(
            f"query: {a_type(query)} is given; query is a windowkit.Query or a windowkit.Rolling"
        )
    named = query.named
    refuse_expressions(named, "query", "which the tasks that read files do not evaluate; use query.run(df)")
    roll = query if isinstance(query, Rolling) else None
    if roll is not None and rows_per_slice is not None:
        raise InvalidValue(
            f"rows_per_slice: {rows_per_slice!r} is given with rolling aggregates, which make no slices"
        )
    if roll is not None and where is not None:
        raise InvalidValue(
            f"where: {where!r} is given with rolling aggregates, of which each row needs others; call "
            ".where(...) of the result, or give filter=..."
        )
    if not isinstance(merge_schema, bool | None):
        raise InvalidType(f"merge_schema: {merge_schema!r} is given; it is True, False or None")
    if filesystem is None:
        table = tables.of_spark(session, paths, merge_schema)
    else:
        table = tables.of_pyarrow(session, paths, filesystem, merge_schema)
    frame = table.frame
    made = job(frame, query) if isinstance(query, Query) else rolling.checked_rows(frame, query)[1]
    columns = columns_of(frame.schema)
    any_case = str(session.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"
    zone = session.conf.get("spark.sql.session.timeZone")
    chosen, needed = chosen_of(filter, columns, any_case=any_case, zone=zone)
    by_filter = chosen
    parts = None if where is None or not isinstance(query, Query) else split_of(where, query, made)
    if parts is not None and parts.rows is not None:
        of_files = {column: frame.columns[at] for column, at in made.positions.items()}
        kinds = {name: kind_of(name, columns) for name in of_files.values()}
        rows = renamed(parts.rows, of_files)
        chosen, needed = with_rows(chosen, needed, rows, kinds, zone)
    names = tuple(frame.columns)
    if roll is None:
        names = tuple(frame.columns[made.positions[column]] for column in made.query.inputs)
    # A column that both read is read once.
    read = pa.schema([(name, columns[name]) for name in dict.fromkeys([*names, *needed])])
    expects = expected(rows_per_slice, "tasks sample their first rows")
    source = pruning.left_over(table.source, chosen, read)
    reason = survey.by_settings(frame, read.names) if table.is_sparks else None
    reason = reason or survey.by_footers(source, read, survey.Settings.of(session))
    if reason is not None and not table.is_sparks:
        raise survey.unread(reason)
    if reason is not None:
        return Left(chosen_rows(frame, query, read, by_filter), query, reason, rows_per_slice, where)
    return Scan(
        made.query,
        made.frame,
        made.positions,
        made.schema,
        made.plan,
        source,
        names,
        Reader(source.filesystem, read, source.partitioned, chosen),
        expects,
        len(table.source.files),
        roll,
        parts,
    )


def is_session(given: object) -> bool:
    """Whether something is a SparkSession, classic or Connect: two classes, of which one may not import."""
    return any(
        kind.__name__ == "SparkSession" and kind.__module__.split(".")[:2] == ["pyspark", "sql"]
        for kind in type(given).__mro__
    )


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once, as far as the session says."""
    said = session.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if said is not None:
        return int(said)
    if hasattr(session, "_jsparkSession"):
        return session.sparkContext.defaultParallelism
    return DEFAULT_PARALLELISM
