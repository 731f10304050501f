"""Rolling aggregates in Spark: rows cross the shuffle once, packed by bucket of keys, then one `mapInArrow`.

Stage 1 packs the rows of a task, with all their columns, as route "packed" does where slices would save
nothing; stage 2 sorts and answers one bucket of keys after the other, so that its memory is a bucket and not
a partition. All rows of a key are in one bucket, and so in one task, unless the key is cut into `pieces`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given
from windowkit.language.expressions import Expression
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.language.windows import global_window
from windowkit.local import rolling as local_rolling
from windowkit.spark.jobs import (
    Job,
    check_frame,
    computed,
    job,
    output_schema,
    position_of,
    whole,
)
from windowkit.spark.routes import buckets, packed, pieces, stages
from windowkit.spark.routes.pack_pieces import PackPieces, verify
from windowkit.spark.routes.sides import Operation, Rows, Side, side
from windowkit.spark.shipping import Metrics, observed_chunks, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["STREAMS", "Roll", "explain_roll", "in_one_line", "query_of", "refuse_clashes", "roll"]
__all__ += ["rolling_over", "widened"]

STREAMS: Final = "a query over windowkit.sliding(size, slide) aggregates streams"


def roll(
    df: DataFrame,
    rolling: Rolling,
    *,
    split: bool | None = None,
    route: str | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    """Evaluate rolling aggregates in Spark, lazily.

    Parameters
    ----------
    df : DataFrame
        A batch DataFrame, classic or Connect. Columns are found by name as by `windowkit.spark.aggregate`.
    rolling : Rolling
        Of timestamps, with or without zone, dates or integers.
    split : bool, optional
        Whether keys with more rows than one task should have are cut by time, into pieces for several tasks.
        To find them, Spark jobs read keys and times as soon as this is called. By default they do if `df` is
        cached itself and may have 16 million rows or more. Keys are not cut where frames are so long that
        tasks would read many rows twice; where a frame has no bound they are not, and True is refused.
    route : str, optional
        ``"scan"`` if tasks are to read the Parquet files of `df` themselves, ``"packed"`` if Spark is to hand
        over rows. By default tasks read them where `df` is a read of Parquet files, and has many rows.
    metrics : Metrics, optional
        Counts rows and packed bytes while the result is computed.

    Returns
    -------
    DataFrame
        Every row of `df`, in no order, with all its columns and then those of the aggregates: for frames of
        SQL the values of Spark's own ``over(Window.partitionBy(...).orderBy(...).rangeBetween(...))``. Rows
        at one time have no order in Spark, so neither have they in frames by rows.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        `rolling` does not fit `df`, `df` is streaming, or it has a column of a type that Spark does not
        exchange with Arrow; or `route` is unknown or not possible. No Spark job has started then. With
        `split` and a frame by rows, the action fails if `df` does not have the same rows each time it is
        computed.

    Notes
    -----
    All rows of a key are in one task, unless it is cut. A row crosses from Spark to Python once, and back
    once, or twice where it is near a cut.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.spark.roll(df, wk.rolling(by="device", time="ts", aggs=wk.sum("v").over("10 minutes")))
    DataFrame[device: string, ts: timestamp, v: double, sum(v) OVER (10 minutes): double]
    """
    check_frame(df)
    expressions = checked_expressions(rolling)
    if expressions:
        wide, of_names = computed(df, expressions, replaces=False), rolling.resolved(df.columns).plain
        return roll(wide, of_names, split=split, route=route, metrics=metrics).drop(*map(str, expressions))
    rows, checked = checked_rows(df, rolling, metrics)
    check_split(split, rolling, checked)
    read = given(rows, checked, split, route)
    partitions, each = packed.spread(df.sparkSession)
    cut = None
    if is_worthwhile(checked) if split is None else split:
        try:
            cut = pieces.cut(rows, checked, rolling, partitions, each)
        except PySparkException:
            # The rows fail, and then so does the action.
            if split:
                raise
    if cut is None:
        return rolled(rolling, read, metrics)
    own = unused(checked.schema.names)
    schema = pa.schema([*checked.schema, (own[0], pa.int32()), (own[1], pa.bool_())])
    of_pieces = stages.Pack(checked.query, schema, partitions, each, never=True)
    pack = PackPieces(of_pieces, cut.keys, checked.positions[rolling.time])
    of_key = replace(rolling.resolved(checked.schema.names), by=(*rolling.by, own[0]))
    task = Roll(of_key, checked.query, schema, tuple(chain.from_iterable(cut.keys)))
    chunks = cut.rows.mapInArrow(shipped(pack, in_one_line(rolling)), packed.CHUNKS)
    # The pieces of a key were placed in partitions of their own, which are to remain so.
    return answered(observed_chunks(metrics, chunks), checked, rolling, task, metrics, partitions=partitions)


def rolling_over(df: DataFrame, rolling: Rolling) -> Operation:
    """Check rolling aggregates of columns against a DataFrame, whose keys are not cut; starts no Spark job.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `roll`.
    """
    rows, checked = checked_rows(df, rolling)
    return Operation(
        (Rows("", rows, checked),),
        lambda read, metrics: rolled(rolling, read[0], metrics),
        lambda read: described(rolling, read[0], split=False),
    )


def rolled(rolling: Rolling, read: Side, metrics: Metrics | None) -> DataFrame:
    """Return rows with their aggregates, where each key is in one task."""
    checked = read.rows.job
    chunks = read.chunks(packed.pack(checked, never=True), in_one_line(rolling))
    task = Roll(rolling, checked.query, checked.schema)
    return answered(observed_chunks(metrics, chunks), checked, rolling, task, metrics)


def given(rows: DataFrame, checked: Job, split: bool | None, route: str | None) -> Side:
    """Return who reads the rows."""
    return side(Rows("", rows, checked), route, instead="keys are to be cut" if split else None)


def answered(
    chunks: DataFrame,
    checked: Job,
    rolling: Rolling,
    task: Roll,
    metrics: Metrics | None,
    *,
    partitions: int | None = None,
) -> DataFrame:
    """Return what stage 2 makes of chunks of the rows of `checked`, in so many partitions if given."""
    in_turn = packed.in_turn(chunks, rolling.by or task.cut, partitions)
    schema = widened(checked.frame, checked, rolling)
    result = in_turn.mapInArrow(shipped(task, in_one_line(rolling)), schema)
    return observed_count(metrics, "rows out", result)


def checked_rows(df: DataFrame, rolling: Rolling, metrics: Metrics | None = None) -> tuple[DataFrame, Job]:
    """Return the rows with all columns under internal names, and a job over them.

    Its query has the keys, the time and the aggregates of `rolling`: what is known of a query's results, of
    buckets and of chunks is known by it.
    """
    rows, checked = whole(job(df, query_of(rolling), metrics, streams=STREAMS))
    local_rolling.bound(rolling, checked.schema)
    refuse_clashes(rolling, df)
    return rows, checked


def refuse_clashes(rolling: Rolling, df: DataFrame) -> None:
    """Refuse aggregates whose names differ in case alone from each other or from columns of the result."""
    names = list(df.columns)
    for each in rolling.aggs:
        at = position_of(each.name, names, df, "aggs")
        if at is not None:
            raise InvalidValue(
                f"aggs: {each.name!r} would be a column of the result beside {names[at]!r}, which Spark does "
                "not tell apart; give it another name by .alias()"
            )
        names.append(each.name)


def checked_expressions(rolling: Rolling) -> tuple[Expression, ...]:
    """Return the expressions of what has to be a rolling aggregation."""
    if not isinstance(rolling, Rolling):
        raise InvalidType(f"rolling: {a_type(rolling)} is given; it is what windowkit.rolling(...) returns")
    return rolling.expressions


def query_of(rolling: Rolling) -> Query:
    """Return a query with the keys, the time and the aggregates of `rolling`, under other names."""
    checked_expressions(rolling)
    aggs = tuple(each.aggregate.alias(f"r{at}") for at, each in enumerate(rolling.aggs))
    return Query(rolling.by, rolling.time, (global_window(),), aggs)


def widened(df: DataFrame, checked: Job, rolling: Rolling) -> spark.StructType:
    """Return the schema of the rows of `df` with the answers of a job."""
    made = spark.StructType(df.schema.fields[:])
    answers = output_schema(checked).fields[-len(rolling.aggs) :]
    for each, field in zip(rolling.aggs, answers, strict=True):
        made.add(each.name, field.dataType, field.nullable)
    return made


def is_worthwhile(checked: Job) -> bool:
    """Whether keys with too many rows are sought unasked: rows are at hand, and there may be many."""
    stored = checked.frame.storageLevel
    return (stored.useMemory or stored.useDisk) and checked.most_rows >= pieces.LEAST


def unused(names: Sequence[str]) -> list[str]:
    """Return two names that are not among these."""
    free = (f"{name} {number}" if number else name for number in count() for name in ("piece", "own"))
    return list(islice((name for name in free if name not in names), 2))


def in_one_line(rolling: Rolling) -> str:
    """Return it in one line, for errors of tasks."""
    keys = ", ".join(rolling.by) or "nothing"
    return f"rolling by {keys} over {rolling.time}, answers {', '.join(map(str, rolling.aggs))}"


@dataclass(frozen=True)
class Roll:
    """Answers packed rows, one bucket after the other.

    Parameters
    ----------
    rolling : Rolling
    query : Query
        By which `stages.Pack` packed the rows.
    schema : pyarrow.Schema
        Of the rows. If keys are cut, the last two columns are a row's piece, which is a key of `rolling`, and
        whether it is answered there.
    cut : tuple of Piece
        The pieces of keys that are cut.
    """

    rolling: Rolling
    query: Query
    schema: pa.Schema
    cut: tuple[pieces.Piece, ...] = ()
    limits: stages.Limits = stages.LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition of chunks, whose buckets come one after the other, with results."""
        for (table,) in buckets.gathered(batches, [(self.query, self.schema)], self.limits):
            yield from self.answered(table)

    def answered(self, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield these rows, all those of some keys, with their results."""
        planned = local_rolling.bound(self.rolling, self.schema)
        result = local_rolling.results(planned, table, 1)
        if self.cut:
            own = len(self.schema) - 1
            verify(table, self.cut, own - 1, self.schema.names.index(self.rolling.time))
            kept = [*range(own - 1), *range(own + 1, result.num_columns)]
            result = result.filter(result.column(own)).select(kept)
        yield from result.to_batches()


def check_split(split: bool | None, rolling: Rolling, checked: Job) -> None:
    """Refuse to cut keys where a frame has no bound."""
    if not isinstance(split, bool | None):
        raise InvalidType(f"split: {as_given(split)} is {a_type(split)}; it is True, False or None")
    if split and pieces.reach(rolling, checked.schema.field(rolling.time).type) is None:
        raise InvalidValue(
            "split: it is given, and a frame has no bound; keys are cut where each frame begins and ends "
            "within some time, or some rows, of its row"
        )


def whole_keys(rolling: Rolling, checked: Job, split: bool | None) -> list[str]:
    """Say in how many tasks a key can be."""
    if pieces.reach(rolling, checked.schema.field(rolling.time).type) is None:
        return ["  all rows of a key are in one task, as a frame has no bound"]
    if split is False:
        return ["  all rows of a key are in one task"]
    looks = "Spark jobs look for keys with too many rows first, which are cut by time"
    if split or is_worthwhile(checked):
        return [f"  all rows of a key are in one task, or some tasks: {looks}"]
    return [f"  all rows of a key are in one task; with split=True, {looks}"]


def explain_roll(
    df: DataFrame, rolling: Rolling, *, split: bool | None = None, route: str | None = None
) -> str:
    """Describe how `roll` evaluates rolling aggregates: what is stored, and what runs where.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `roll`.
    """
    check_frame(df)
    expressions = checked_expressions(rolling)
    if expressions:
        wide = computed(df, expressions, replaces=False)
        return explain_roll(wide, rolling.resolved(df.columns).plain, split=split, route=route)
    rows, checked = checked_rows(df, rolling)
    check_split(split, rolling, checked)
    return text_of(described(rolling, given(rows, checked, split, route), split=split))


def described(rolling: Rolling, read: Side, *, split: bool | None) -> list[str]:
    """Describe how rolling aggregates of rows are evaluated."""
    checked = read.rows.job
    bound = local_rolling.bound(rolling, checked.schema)
    return [
        *local_rolling.described(rolling, bound.plan),
        *read.described(),
        *packed.moved(checked, "rows in order of time, and the frames of each of them"),
        *whole_keys(rolling, checked, split),
    ]
