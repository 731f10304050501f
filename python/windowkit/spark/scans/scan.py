"""What is asked of tables by path or by name: tasks read their files, or Spark's reader does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue, WindowKitError
from windowkit.language.checks import a_type
from windowkit.language.conditions import Nested, names_of, renamed
from windowkit.language.distinct import Distinct
from windowkit.language.durations import Length
from windowkit.language.expressions import Expression, refuse_expressions
from windowkit.language.join import Join
from windowkit.language.lines import text_of
from windowkit.language.pushdown import Split
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.spark.jobs import check_metrics, filtered, identifier, job, narrowed, split_of, sql_of
from windowkit.spark.parquet.filters import ALL, Filter, columns_of, kind_of, with_rows
from windowkit.spark.routes import (
    Expected,
    Operation,
    Scan,
    Side,
    asking,
    described,
    expected,
    joining,
    leaving,
    packed,
    rolling_over,
    stages,
)
from windowkit.spark.scans.fallback import Left, chosen_rows
from windowkit.spark.scans.given import Given, given
from windowkit.spark.shipping import Metrics, observed_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["checked", "explain_scan", "scan"]


@dataclass(frozen=True)
class Scanned:
    """A query over files that tasks read.

    Parameters
    ----------
    scan : Scan
    expects : Expected
    split : Split, optional
        The condition on results, of which the reader knows what it says of rows.
    """

    scan: Scan
    expects: Expected
    split: Split | None = None

    def result(self, metrics: Metrics | None) -> DataFrame:
        """Return the windows, lazily."""
        made = replace(self.scan, metrics=metrics)
        result = observed_count(metrics, "windows out", packed.windows(made, made.chunks()))
        return result if self.split is None else filtered(result, self.split.condition)

    def explained(self) -> str:
        """Describe what is read, what is expected of it, and what runs where."""
        made = self.scan
        head = described(made.query, made.schema.field(made.query.time).type)
        if self.split is not None:
            head += self.split.described()
        head += ["route: scan, as rows are in Parquet files", f"  expected: {self.expects}"]
        return text_of([*head, *made.described(), *made.held(), *packed.moved(made)])


@dataclass(frozen=True)
class Sides:
    """Rolling aggregates, a join, labels or duplicates, over tables of which tasks read what they can."""

    operation: Operation
    read: Sequence[Side]

    def result(self, metrics: Metrics | None) -> DataFrame:
        """Return the rows, lazily."""
        return self.operation.run(self.read, metrics)

    def explained(self) -> str:
        """Describe what is read, by whom, and what runs where."""
        return text_of(self.operation.explain(self.read))


def scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling | Join | Distinct,
    other: str | Sequence[str] | None = None,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    other_filter: Filter | None = None,
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    split: Length | None = None,
    rows_per_slice: float | None = None,
    metrics: Metrics | None = None,
    where: str | Expression | None = None,
) -> DataFrame:
    """Evaluate a query, or what else takes DataFrames, over tables whose files Spark's tasks read themselves.

    Parameters
    ----------
    spark : SparkSession
        Classic or Connect.
    paths : str or sequence of str
        What ``spark.read.parquet(*paths)`` takes: Spark says which files these are, which columns they have
        and what their directories add. This process and all workers read them by Spark's names. Or what
        ``spark.table(name)`` takes: one string, not in a list, that has no slash outside backticks, if there
        is a table or view of that name.
    query : Query, Rolling, Join or Distinct
        Its columns are those of that DataFrame, by name, type and values. For rolling aggregates and
        duplicates all columns are read.
    other : str or sequence of str, optional
        For a join, which needs it, the right side. For rolling aggregates, the events: `paths` are labels
        then, and the result is that of `windowkit.Rolling.at`.
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
    other_filter : optional
        The same for `other`.
    filesystem : pyarrow.fs.FileSystem, optional
        The file system of files that Spark does not open, which must be picklable; `paths` are then names of
        files or directories, and values of directories ``name=value`` are integers, dates or strings.
    merge_schema : bool, optional
        Take the columns of all files; by default as ``spark.sql.parquet.mergeSchema`` has it. Not for tables
        by name, which have their columns.
    by, time : optional
        The keys and the time of labels, as of `windowkit.Rolling.at`.
    split : str, datetime.timedelta or int, optional
        As of `windowkit.spark.join` and `windowkit.spark.as_of`, for two tables.
    rows_per_slice : float, optional
        A hint, as of `windowkit.spark.aggregate`; by default tasks sample their first rows. For queries only.
    metrics : Metrics, optional
        Counts rows, slices, packed bytes and windows while the result is computed.
    where : str or Expression, optional
        Which windows are returned: a condition in SQL on the columns of the result, as of
        `windowkit.Query.run`. What it says of rows rules out files and row groups as `filter` does. For
        queries only.

    Returns
    -------
    DataFrame
        What ``query.run(spark.read.parquet(*paths))`` returns, or ``query.run(spark.table(name))``.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The query or the filter does not fit the files, or these cannot be read. Times of INT96 before 4713 BC
        or after the year 294246 fail the action, with the file's name; so do files that change meanwhile.

    Notes
    -----
    The footers of all files are read first. Where tasks would not read a file as Spark's reader does, that
    reader is used for the whole table, and `explain_scan` says why: for columns that a file has in another
    type or case, rows that are cached, a file to which several of the paths lead, which Spark reads for
    each of them, files of Spark 2's calendar, and settings by which Spark passes over damaged files, finds
    columns by number or moves times of INT96. Files that Spark's reader does not read are then refused:
    those of `filesystem`, and those with timestamps of nanoseconds, which are floored to microseconds
    otherwise.

    Of a table by name, Spark's plan says which files are read, as for ``query.run(spark.table(name))``: it
    may be one of Delta or Iceberg. Through Spark Connect, where no plan is to be seen, tasks read tables of
    Parquet files, and Spark's reader all others; a Spark job lists those that are partitioned, also for
    `explain_scan`, in the partitions that `filter` and `where` leave. The setting ``spark.windowkit.tables``
    applies to names, and not to paths.

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
    return checked(
        *(spark, paths, query, other, filter, other_filter, filesystem, merge_schema),
        *(by, time, split, rows_per_slice, where),
    ).result(metrics)


def explain_scan(
    spark: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling | Join | Distinct,
    other: str | Sequence[str] | None = None,
    *,
    filter: Filter | None = None,  # noqa: A002  # Called as pyarrow calls it.
    other_filter: Filter | None = None,
    filesystem: fs.FileSystem | None = None,
    merge_schema: bool | None = None,
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    split: Length | None = None,
    rows_per_slice: float | None = None,
    where: str | Expression | None = None,
) -> str:
    """Describe how `scan` evaluates a query: what is read, what is expected of it, and what runs where.

    Parameters
    ----------
    spark, paths, query, other, filter, other_filter, filesystem, merge_schema
        As for `scan`, which raises the same errors.
    by, time, split, rows_per_slice, where
        As for `scan`.

    Returns
    -------
    str
        Lines of text.
    """
    return checked(
        *(spark, paths, query, other, filter, other_filter, filesystem, merge_schema),
        *(by, time, split, rows_per_slice, where),
    ).explained()


def few(expects: Expected) -> bool:
    """Whether slices are expected to save nothing."""
    return expects.rows_per_slice * stages.LIMITS.share < 1


def checked(
    session: SparkSession,
    paths: str | Sequence[str],
    query: Query | Rolling | Join | Distinct,
    other: str | Sequence[str] | None,
    filter: Filter | None,  # noqa: A002  # Called as pyarrow calls it.
    other_filter: Filter | None,
    filesystem: fs.FileSystem | None,
    merge_schema: bool | None,
    by: str | Sequence[str] | None,
    time: str | None,
    split: Length | None,
    rows_per_slice: float | None,
    where: str | Expression | None,
) -> Scanned | Left | Sides:
    """Check what is asked of tables against them, without reading rows."""
    if not is_session(session):
        raise InvalidType(f"spark: {a_type(session)} is given; spark is a SparkSession")
    if not isinstance(query, Query | Rolling | Join | Distinct):
        raise InvalidType(
            f"query: {a_type(query)} is given; query is a windowkit.Query, Rolling, Join or Distinct"
        )
    if isinstance(query, Query | Rolling):
        of_rows = "which the tasks that read files do not evaluate; use query.run(df)"
        refuse_expressions(query.named, "query", of_rows)
    if not isinstance(merge_schema, bool | None):
        raise InvalidType(f"merge_schema: {merge_schema!r} is given; it is True, False or None")
    refuse_arguments(
        query,
        {
            "other": other,
            "other_filter": other_filter,
            "by": by,
            "time": time,
            "split": split,
            "rows_per_slice": rows_per_slice,
            "where": where,
        },
    )
    one = given(session, paths, filter, filesystem, merge_schema)
    if isinstance(query, Query):
        return of_query(one, query, rows_per_slice, where)
    every = [one]
    if other is not None:
        with of_other():
            every.append(given(session, other, other_filter, filesystem, merge_schema))
    return of_operation(every, partial(operation, query=query, by=by, time=time, split=split))


@contextmanager
def of_other() -> Iterator[None]:
    """Call arguments as those of the second table are called in what is raised."""
    try:
        yield
    except WindowKitError as error:
        called = {"paths": "other", "filter": "other_filter"}
        said = re.sub(r"(^|; )(paths|filter)(?=:| is )", lambda each: each[1] + called[each[2]], str(error))
        raise type(error)(said) from None


def refuse_arguments(query: Query | Rolling | Join | Distinct, optional: dict[str, Any]) -> None:
    """Refuse arguments that are not for what is asked, by their names; None are not given."""
    is_given = {name for name, value in optional.items() if value is not None}
    if isinstance(query, Join) and "other" not in is_given:
        raise InvalidValue("other: None is given with a join; other is the table of its right side")
    of_two = {"other", "other_filter", "split"}
    what, allowed = "a query", {"rows_per_slice", "where"}
    if isinstance(query, Join):
        what, allowed = "a join", of_two
    elif isinstance(query, Distinct):
        what, allowed = "duplicates", set()
    elif isinstance(query, Rolling) and "other" in is_given:
        what, allowed = "labels", of_two | {"by", "time"}
    elif isinstance(query, Rolling):
        what, allowed = "rolling aggregates", {"other"}
    for name in optional:
        if name in is_given - allowed:
            known = f"; beside filter, {' and '.join(sorted(allowed))} may be" if allowed else ""
            raise InvalidValue(f"{name}: {optional[name]!r} is given with {what}{known}")


def operation(
    frames: Sequence[DataFrame],
    query: Rolling | Join | Distinct,
    by: str | Sequence[str] | None,
    time: str | None,
    split: Length | None,
) -> Operation:
    """Return what is asked of one table, or two."""
    if isinstance(query, Join):
        left, right = frames
        return joining(left, right, query, split)
    if isinstance(query, Distinct):
        return leaving(frames[0], query)
    if len(frames) == 1:
        return rolling_over(frames[0], query)
    labels, events = frames
    return asking(labels, events, query, by, time, split)


def of_operation(every: Sequence[Given], operation: Callable[[Sequence[DataFrame]], Operation]) -> Sides:
    """Return what is asked of tables, of which tasks read what they can."""
    made = operation([each.frame for each in every])
    columns = [rows.own(rows.job.schema.names) for rows in made.rows]
    files: list[Scan | str] = []
    for each, rows, own in zip(every, made.rows, columns, strict=True):
        with of_other() if files else nullcontext():
            files.append(each.scanned(rows.job, rows.frame, own, rows.own(rows.needed), is_whole=True))
    if any(
        isinstance(found, str) and each.chosen.chosen is not None
        for each, found in zip(every, files, strict=True)
    ):
        # Spark's reader has the rows, of which filters choose some.
        made = operation(
            [
                chosen_rows(each.frame, each.chosen, own, str(rows.job.query))
                if isinstance(found, str)
                else each.frame
                for each, rows, own, found in zip(every, made.rows, columns, files, strict=True)
            ]
        )
    return Sides(made, [Side(rows, found) for rows, found in zip(made.rows, files, strict=True)])


def of_query(
    one: Given, query: Query, rows_per_slice: float | None, where: str | Expression | None
) -> Scanned | Left:
    """Return a query over a table whose files tasks read, or that is left to Spark's reader."""
    frame = one.frame
    made = job(frame, query)
    parts = None if where is None else split_of(where, query, made)
    of_files = {column: frame.columns[at] for column, at in made.positions.items()}
    also = ALL
    if parts is not None and parts.rows is not None and not one.has_plan:
        columns = columns_of(frame.schema)
        kinds = {name: kind_of(name, columns) for name in of_files.values()}
        zone = frame.sparkSession.conf.get("spark.sql.session.timeZone")
        rows = renamed(parts.rows, of_files)
        members = rows.members if isinstance(rows, Nested) and rows.word == "and" else (rows,)
        said = [(tuple(names_of(each)), sql_of(each, identifier, kinds)) for each in members]
        also = with_rows(ALL, rows, kinds, zone)._replace(lists=[said])
    of_rows = narrowed(made, parts.rows) if parts is not None and one.has_plan else made
    names = [of_files[column] for column in made.query.inputs]
    expects = expected(rows_per_slice, "tasks sample their first rows")
    never = expects.rows_per_slice * stages.LIMITS.share < 1
    found = one.scanned(made, of_rows.columns, names, also=also, is_whole=False, never=never)
    if isinstance(found, str):
        left = chosen_rows(frame, one.chosen, names, str(query))
        return Left(left, query, found, rows_per_slice, where, one.chosen)
    return Scanned(found, expects, parts)


def is_session(given: object) -> bool:
    """Whether something is a SparkSession, classic or Connect: two classes, of which one may not import."""
    return any(
        kind.__name__ == "SparkSession" and kind.__module__.split(".")[:2] == ["pyspark", "sql"]
        for kind in type(given).__mro__
    )
