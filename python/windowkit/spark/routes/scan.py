"""Route "scan": tasks read Parquet files themselves, and make slices of what they read.

No row enters the JVM. All after stage 1 is that of route "packed". `windowkit.spark.scan` is given the paths
of files; of a DataFrame, Spark's plan says which files it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import types as spark_types
from pyspark.sql.functions import coalesce, lit
from pyspark.sql.functions import sum as total

from windowkit.errors import WindowKitError
from windowkit.files import listing
from windowkit.language.conditions import names_of
from windowkit.language.query import Query
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.parquet import Reader, filters, planned, pruning, reading, survey
from windowkit.spark.routes import packed, stages
from windowkit.spark.routes.blocks import PackBlocks
from windowkit.spark.routes.route import Route
from windowkit.spark.shipping import WITHOUT_TIME, observed_chunks, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["ROUTE", "ReadAndPack", "Scan", "counted", "in_line", "reading_files"]

DEFAULT_PARALLELISM: Final = 16
"""Tasks to make where the session does not say how many run at once: through Spark Connect."""
COUNTED: Final = spark_types.StructType(
    [*packed.CHUNKS.fields, spark_types.StructField("dropped", spark_types.LongType())]
)
"""Chunks, and how many rows without a time were left out."""
FROM: Final = 1 << 18
"""Rows, as Spark estimates their number, from which tasks had better read the files: of fewer, one more stage
in Python costs what that saves."""
FROM_OF_SPARKS: Final = 1 << 19
"""The same where Spark answers itself: without Python, and with a shuffle of its windows alone."""
SAMPLE: Final = 8
"""Files whose footers are read to explain a scan, spread over all."""


@dataclass(frozen=True)
class ReadAndPack:
    """Reads parts of files, and makes packed slices of their rows.

    Parameters
    ----------
    pack : Pack or PackBlocks
    reader : Reader
        Of `names`, and the columns that its filter needs.
    tasks : tuple of tuple of Part
        Of every task; a task gets its number.
    names : tuple of str
        How files call the columns of ``pack.schema``, but for that of a block.
    keeps_all : bool
        Whether rows without time are packed too.
    counts : bool
        Whether to say how many of these were left out.
    """

    pack: stages.Pack | PackBlocks
    reader: Reader
    tasks: tuple[tuple[listing.Part, ...], ...]
    names: tuple[str, ...]
    keeps_all: bool = False
    counts: bool = False

    @property
    def query(self) -> Query:
        """The query it is part of."""
        return self.pack.query

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed slices of the parts of the tasks whose numbers come, perhaps with counts of rows."""
        dropped = Dropped()
        made = self.pack(self.rows(numbers, dropped))
        if not self.counts:
            yield from made
            return
        for chunks in made:
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


def timed(rows: pa.RecordBatch, at: int) -> pa.RecordBatch:
    """Return the rows that have a time, which is column `at`: the others are in no window, nor counted."""
    column = rows.column(at)
    return rows.filter(column.is_valid()) if column.null_count else rows


@dataclass(frozen=True)
class Scan(Job):
    """A job whose rows are in Parquet files; its `frame` has their columns.

    `source` has the files that are read, of as many as `listed` says: not those that directories rule out.
    Of a DataFrame, Spark has done that by the filters `guided`, and `table` describes what it reads, if that
    is more than files. `names` is what the table calls the columns of the query. With `never` rows are packed
    as they are, from the first one on; with `keeps_all` those without a time, too.
    """

    source: listing.Source
    names: tuple[str, ...]
    reader: Reader
    listed: int
    guided: tuple[str, ...] = ()
    never: bool = False
    keeps_all: bool = False
    table: str | None = None

    @cached_property
    def tasks(self) -> tuple[tuple[listing.Part, ...], ...]:
        """Which parts of which files each task reads."""
        return tuple(listing.parts(self.source, parallelism(self.frame.sparkSession)))

    def stage_1(self, pack: stages.Pack | PackBlocks | None = None) -> ReadAndPack:
        """Return what reads the files, and packs rows by `pack`, or as the job does."""
        pack = packed.pack(self, never=self.never) if pack is None else pack
        return ReadAndPack(pack, self.reader, self.tasks, self.names, self.keeps_all, self.counts)

    @property
    def counts(self) -> bool:
        """Whether rows without a time are counted."""
        return self.metrics is not None and not self.keeps_all

    def uncounted(self, what: str | None = None, pack: stages.Pack | PackBlocks | None = None) -> DataFrame:
        """Return what stage 1 makes of the rows; errors call what it is part of `what`, or the query."""
        session = self.frame.sparkSession
        # Also of no file at all there is one task, of nothing.
        numbers = session.range(0, len(self.tasks), 1, max(len(self.tasks), 1))
        task = shipped(self.stage_1(pack), what)
        return numbers.mapInArrow(task, COUNTED if self.counts else packed.CHUNKS)

    def chunks(self, what: str | None = None) -> DataFrame:
        """Return the same, with what the job's metrics count."""
        read = self.uncounted(what)
        if self.metrics is not None and self.counts:
            read = self.metrics.observed(read, {WITHOUT_TIME: coalesce(total("dropped"), lit(0))})
            read = read.where("chunk is not null").drop("dropped")
        return observed_chunks(self.metrics, read)

    def described(self, of: str = "") -> list[str]:
        """Describe what stage 1 reads; `of` says of which side it is."""
        source, chosen = self.source, self.reader.chosen
        lines = [
            f"stage 1{of}, in Rust inside one mapInArrow: {counted(len(self.tasks), 'task')} read "
            f"{counted(len(source.files), 'file')} of {source.bytes:,} bytes, no row enters the JVM",
            f"  columns: {', '.join(map(identifier, self.reader.schema.names))}",
        ]
        if source.partitioned.names:
            lines.append(f"  of directories: {', '.join(map(identifier, source.partitioned.names))}")
        if self.table is not None:
            lines.append(f"  table: {self.table}")
        without = [file.deleted for file in source.files if file.deleted is not None]
        if without:
            rows = sum(map(len, without))
            lines.append(
                f"  {counted(rows, 'row')} of {counted(len(without), 'file')} are deleted, and left out"
            )
        if chosen is not None:
            lines.append(f"  filter: {in_line(chosen.rows)}")
            if str(chosen.groups) != str(chosen.rows):
                lines.append(f"  statistics, which leave NaN out, are tested for: {in_line(chosen.groups)}")
        if self.guided:
            lines.append(f"  directories: those in which {' and '.join(self.guided)}")
        elif chosen is not None and source.partitioned.names:
            ruled_out = self.listed - len(source.files)
            lines.append(f"  directories rule out {ruled_out:,} of {counted(self.listed, 'file')}")
        return [*lines, f"  {groups(self)}"]

    def held(self) -> list[str]:
        """Describe what it makes of it."""
        if packed.rows_instead(self) is None and self.never:
            return ["  rows are packed as they are, as slices would be hardly fewer"]
        return [f"  {line}" for line in packed.held(self)]


def in_line(expression: ds.Expression) -> str:
    """Return an expression in one line, whatever lists it has."""
    return " ".join(str(expression).split())


def counted(number: int, what: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def groups(made: Scan) -> str:
    """Describe how many row groups a sample of the files has, and how many their statistics rule out."""
    every = made.source.files
    sampled = every[:: max(len(every) // SAMPLE, 1)][:SAMPLE]
    number, left = 0, 0
    silent: set[str] = set()
    for file in sampled:
        opened = reading.fragment(made.source.filesystem, file, made.source.partitioned)
        number += opened.num_row_groups
        if made.reader.chosen is not None and opened.num_row_groups:
            tested = made.reader.schema, made.reader.chosen, made.reader.naming
            left += pruning.pruned(opened, *tested).num_row_groups
            silent |= pruning.silent(opened, *tested)
    where = counted(len(sampled), "file") if sampled == every else f"{len(sampled):,} of {len(every):,} files"
    text = f"row groups: {number:,} in {where}"
    if made.reader.chosen is not None:
        text += f", of which statistics rule out {number - left:,}"
    if silent:
        text += f"; they do not say between which values {', '.join(map(identifier, sorted(silent)))} lies"
    return text


def parallelism(session: SparkSession) -> int:
    """Return how many tasks run at once, as far as the session says."""
    said = session.conf.get("spark.sql.leafNodeDefaultParallelism", None)
    if said is not None:
        return int(said)
    if hasattr(session, "_jsparkSession"):
        return session.sparkContext.defaultParallelism
    return DEFAULT_PARALLELISM


def of_files(job: Job, whole: DataFrame | None = None) -> Scan | str:
    """Return a job over a DataFrame as one whose tasks read the files that it reads; or why they do not.

    Parameters
    ----------
    job : Job
    whole : DataFrame, optional
        With all columns, of which the job is; all rows are packed then, with these.
    """
    found = planned.planned(job.columns if whole is None else whole)
    if isinstance(found, str):
        return found
    try:
        return reading_files(job, found, is_whole=whole is not None)
    except WindowKitError as error:
        # What Spark makes of a filter or of a damaged file is for its own reader to say.
        return planned.reason_of(error)


def reading_files(
    job: Job,
    found: planned.Planned,
    chosen: filters.Filtered = filters.ALL,
    *,
    is_whole: bool,
    never: bool = False,
) -> Scan | str:
    """Return a job as one whose tasks read files; or why they would not as Spark's reader does.

    Parameters
    ----------
    job : Job
    found : Planned
        The files, and the columns and rows of them that the job has.
    chosen : Filtered
        Which of these rows are read.
    is_whole : bool
        Whether all rows are packed, also those without a time.
    never : bool
        Whether no slices are made.

    Raises
    ------
    WindowKitError
        Tasks do not read such columns, or do not test such rows; or a file cannot be read.
    """
    session = job.frame.sparkSession
    columns = filters.columns_of(found.table)
    needed = list(dict.fromkeys([*found.names, *names_of(found.rows)]))
    kinds = {name: filters.kind_of(name, columns) for name in needed}
    if found.rows is not None:
        zone = session.conf.get("spark.sql.session.timeZone")
        chosen = chosen.also(filters.of_tree(found.rows, kinds, zone), kinds)
    # A column that is read for both is read once.
    read = pa.schema(list({**kinds, **chosen.kinds}.items()))
    source = pruning.left_over(found.source, chosen.chosen, read)
    reason = survey.by_settings(session, found.table, read.names) if found.is_sparks else None
    own = survey.Settings.of(session, has_nanos=found.has_nanos)
    reason = reason or survey.by_footers(source, read, own, found.naming)
    if reason is not None:
        return reason
    reader = Reader(source.filesystem, read, source.partitioned, chosen.chosen, found.naming)
    return Scan(
        *(job.query, job.frame, job.positions, job.schema, job.plan),
        *(source, found.names, reader, len(found.source.files), found.partition_filters),
        never=is_whole or never,
        keeps_all=is_whole,
        table=found.described,
        metrics=job.metrics,
        window_columns=job.window_columns,
    )


class FromFiles(Route):
    """The route whose job is another one: it knows the files."""

    def fitted(self, job: Job) -> Job | str:
        """Return the job as it is run, or why it cannot be."""
        return of_files(job)


def refusal(job: Job) -> str | None:
    found = of_files(job)
    return found if isinstance(found, str) else None


def run(job: Job) -> DataFrame:
    assert isinstance(job, Scan), "fitted"
    return packed.windows(job, job.chunks())


def explain(job: Job) -> list[str]:
    assert isinstance(job, Scan), "fitted"
    return [*job.described(), *job.held(), *packed.moved(job)]


MERIT: Final = "possible, with files read by tasks"
ROUTE: Final = FromFiles("scan", MERIT, refusal, run, explain)
