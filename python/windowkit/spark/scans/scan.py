"""Queries over Parquet files by their paths: tasks read them by route "scan", or Spark's reader does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.conditions import renamed
from windowkit.language.expressions import Expression, refuse_expressions
from windowkit.language.pushdown import Split
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.local import rolling as local_rolling
from windowkit.spark.jobs import check_metrics, filtered, job, shaped, split_of
from windowkit.spark.parquet import Reader, pruning, survey, tables
from windowkit.spark.parquet.filters import Filter, chosen_of, columns_of, kind_of, with_rows
from windowkit.spark.routes import Expected, Scan, described, expected, packed, rolling, stages
from windowkit.spark.scans.fallback import Left, chosen_rows
from windowkit.spark.shipping import Metrics, observed_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Scanned", "checked", "explain_scan", "scan"]


@dataclass(frozen=True)
class Scanned:
    """A query, or rolling aggregates, over files that tasks read.

    Parameters
    ----------
    scan : Scan
    expects : Expected
    roll : Rolling, optional
        With which rows are returned with aggregates over their frames; the job is that of all columns then.
    split : Split, optional
        The condition on results, of which the reader knows what it says of rows.
    """

    scan: Scan
    expects: Expected
    roll: Rolling | None = None
    split: Split | None = None

    def result(self, metrics: Metrics | None) -> DataFrame:
        """Return the windows, or rows, lazily; the job's own query has windows as structs."""
        made, roll = replace(self.scan, metrics=metrics), self.roll
        if roll is not None:
            chunks = made.chunks(rolling.in_one_line(roll))
            return rolling.answered(chunks, made, roll, rolling.Roll(roll, made.query, made.schema))
        return observed_count(metrics, "windows out", packed.windows(made, made.chunks()))

    def explained(self) -> str:
        """Describe what is read, what is expected of it, and what runs where."""
        made, roll = self.scan, self.roll
        head = described(made.query, made.schema.field(made.query.time).type)
        if roll is not None:
            head = local_rolling.described(roll, local_rolling.bound(roll, made.schema).plan)
        if self.split is not None:
            head += self.split.described()
        head.append("route: scan, as rows are in Parquet files")
        if roll is not None:
            moved = ["  rows are packed with all their columns", *rolling.moved(made)]
            return "\n".join([*head, *made.described(), *moved])
        expected_of = f"  expected: {self.expects}"
        return "\n".join([*head, expected_of, *made.described(), *made.held(), *packed.moved(made)])


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
    if not isinstance(made, Scanned) or not isinstance(query, Query):
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


def few(expects: Expected) -> bool:
    """Whether slices are expected to save nothing."""
    return expects.rows_per_slice * stages.LIMITS.share < 1


def checked(
    session: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling,
    filter: Filter | None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None,
    merge_schema: bool | None,
    rows_per_slice: float | None,
    where: str | Expression | None,
) -> Scanned | Left:
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
    reason = survey.by_settings(session, frame.schema, read.names) if table.is_sparks else None
    reason = reason or survey.by_footers(source, read, survey.Settings.of(session))
    if reason is not None and not table.is_sparks:
        raise survey.unread(reason)
    if reason is not None:
        return Left(chosen_rows(frame, query, read, by_filter), query, reason, rows_per_slice, where)
    made_scan = Scan(
        *(made.query, made.frame, made.positions, made.schema, made.plan, source, names),
        Reader(source.filesystem, read, source.partitioned, chosen),
        len(table.source.files),
        never=roll is not None or few(expects),
        keeps_all=roll is not None,
    )
    return Scanned(made_scan, expects, roll, parts)


def is_session(given: object) -> bool:
    """Whether something is a SparkSession, classic or Connect: two classes, of which one may not import."""
    return any(
        kind.__name__ == "SparkSession" and kind.__module__.split(".")[:2] == ["pyspark", "sql"]
        for kind in type(given).__mro__
    )
