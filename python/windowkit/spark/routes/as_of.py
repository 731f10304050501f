"""Aggregates as of moments in Spark: events and labels cross the shuffle packed, then one `mapInArrow`.

Both are packed by bucket of keys as `rolling` packs rows, from files or from Spark, events with only the
columns that are read. Their keys have the same types, and so they are in the same buckets. Stage 2 answers
the labels of one bucket after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.durations import Duration, Length
from windowkit.language.foreign import is_spark
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling, labels_of
from windowkit.local import rolling as local_rolling
from windowkit.spark.jobs import Job, check_batch, check_metrics, computed, job, keyed
from windowkit.spark.routes import buckets, packed, pieces, stages
from windowkit.spark.routes.blocks import PackBlocks, blocks, described
from windowkit.spark.routes.rolling import (
    STREAMS,
    checked_expressions,
    in_one_line,
    query_of,
    refuse_clashes,
    widened,
)
from windowkit.spark.routes.sides import Operation, Rows, Side
from windowkit.spark.shipping import Metrics, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["as_of", "asking", "explain_as_of"]

SIDES: Final = ("labels", "events")


def as_of(
    labels: DataFrame,
    events: DataFrame,
    rolling: Rolling,
    *,
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    split: Length | None = None,
    route: str | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    """Evaluate rolling aggregates as of the times of labels, lazily: ``rolling.at(labels, events)`` calls it.

    Parameters
    ----------
    labels, events : DataFrame
        Batch DataFrames of one session, classic or Connect. Columns are found by name as by
        `windowkit.spark.aggregate`.
    rolling : Rolling
        The aggregates, over frames that do not look ahead.
    by, time : optional
        The keys and the time of `labels`, as for `windowkit.Rolling.at`.
    split : str, datetime.timedelta or int, optional
        The length of the stretches of time into which each key is cut, so that a key with too many rows is
        shared by several tasks. It is as long as the longest frame, and best many times that: events are read
        twice where they are so close to the end of a stretch. Not for frames by rows or without a bound.
    route : str, optional
        ``"scan"`` if tasks are to read the Parquet files of both DataFrames themselves, ``"packed"`` if Spark
        is to hand over the rows of both. By default tasks read each that is a read of Parquet files, and has
        many rows.
    metrics : Metrics, optional
        Counts rows and packed bytes while the result is computed.

    Returns
    -------
    DataFrame
        Every row of `labels`, in no order, with all its columns and then those of the aggregates.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `windowkit.Rolling.at`, or a DataFrame is streaming, or keys cannot be cut by `split`, or `route`
        is unknown or not possible. No Spark job has started then.

    Notes
    -----
    Without `split`, all events of a key are in one task, and in its memory.

    Examples
    --------
    >>> import windowkit as wk
    >>> features = wk.rolling(by="device", time="ts", aggs=wk.sum("v").over("10 minutes").alias("recent"))
    >>> wk.spark.as_of(df.select("device", "ts"), df, features)
    DataFrame[device: string, ts: timestamp, recent: double]
    """
    check_metrics(metrics)
    made = asking(labels, events, rolling, by, time, split)
    return made.run(made.sides(route), metrics)


def asking(
    labels: DataFrame,
    events: DataFrame,
    rolling: Rolling,
    by: str | Sequence[str] | None,
    time: str | None,
    split: Length | None,
) -> Operation:
    """Check rolling aggregates against labels and events; starts no Spark job.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `as_of`.
    """
    asked = prepared(labels, events, rolling, by, time, split)
    return Operation(
        asked.rows, partial(answered, labels, asked), lambda read: described_as_of(asked, read, split)
    )


def answered(labels: DataFrame, asked: Asked, read: Sequence[Side], metrics: Metrics | None) -> DataFrame:
    """Return labels with the aggregates of events, of both sides."""
    what = in_one_line(asked.rolling)
    chunks = [each.chunks(pack, what) for each, pack in zip(read, asked.packs, strict=True)]
    in_turn = buckets.united(chunks, metrics, spread=bool(asked.task.rolling.by))
    schema = widened(labels, asked.rows[1].job, asked.rolling)
    return observed_count(metrics, "rows out", in_turn.mapInArrow(shipped(asked.task, what), schema))


@dataclass(frozen=True)
class Asked:
    """Rolling aggregates that fit two DataFrames.

    Parameters
    ----------
    rolling : Rolling
        Of columns alone.
    rows : tuple of Rows
        Labels and events, with the columns that are read: c0, c1, ...
    packs : list of Pack or PackBlocks
        What packs the rows of each.
    task : AsOf
        What answers packed labels.
    """

    rolling: Rolling
    rows: tuple[Rows, ...]
    packs: list[stages.Pack | PackBlocks]
    task: AsOf


def prepared(
    labels: DataFrame,
    events: DataFrame,
    rolling: Rolling,
    by: str | Sequence[str] | None,
    time: str | None,
    split: Length | None,
) -> Asked:
    """Check rolling aggregates against labels and events; starts no Spark job."""
    checked_expressions(rolling)
    keys, moment = labels_of(rolling, by, time)
    for argument, frame in zip(SIDES, (labels, events), strict=True):
        if not is_spark(frame):
            raise InvalidType(
                f"{argument}: {a_type(frame)} is given; labels and events both are Spark DataFrames, or "
                "neither is"
            )
        check_batch(frame, argument, STREAMS)
    rolling = rolling.resolved(events.columns)
    events = computed(events, rolling.expressions)
    rolling, keys, moment = rolling.plain, tuple(map(str, keys)), str(moment)
    own = job(events, query_of(rolling))
    rows, given = keyed(labels, keys, moment, "labels")
    local_rolling.bound(rolling, own.schema, local_rolling.Labels(given.schema, keys, moment))
    refuse_clashes(rolling, labels)
    packs: list[stages.Pack | PackBlocks] = [packed.pack(given, never=True), packed.pack(own, never=True)]
    of_block = rolling
    if split is not None:
        cut = blocks(split, (0, reach(rolling, own)), [given, own])
        packs = [cut.pack(given, is_guest=False), cut.pack(own, is_guest=True)]
        of_block = replace(rolling, by=(*rolling.by, cut.name))
    of_labels, of_events = packs
    task = AsOf(
        of_block,
        of_events.query,
        of_events.schema,
        of_labels.query,
        of_labels.schema,
        len(given.schema),
    )
    both = (Rows(SIDES[0], rows, given), Rows(SIDES[1], own.rows, own, (own.query.time,)))
    return Asked(rolling, both, packs, task)


def explain_as_of(
    labels: DataFrame,
    events: DataFrame,
    rolling: Rolling,
    *,
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    split: Length | None = None,
    route: str | None = None,
) -> str:
    """Describe how `as_of` answers labels in Spark: what is stored, and what runs where.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `windowkit.spark.as_of`.
    """
    made = asking(labels, events, rolling, by, time, split)
    return text_of(made.explain(made.sides(route)))


def described_as_of(asked: Asked, read: Sequence[Side], split: Length | None) -> list[str]:
    """Describe how labels are answered, of both sides."""
    of_labels, of_events = read
    labels_job, events_job = (each.rows.job for each in read)
    bound = local_rolling.bound(asked.rolling, events_job.schema)
    lines = [
        *local_rolling.described(asked.rolling, bound.plan),
        *of_labels.described(" of labels"),
        *of_events.described(" of events", ", but for those without a time"),
        *packed.moved(labels_job, "events in order of time, and the frames of each label"),
    ]
    if split is not None:
        lines.append(described(split))
    elif asked.rolling.by:
        lines.append("  all events of a key are in one task, unless split= cuts keys by time")
    return lines


def reach(rolling: Rolling, events: Job) -> Duration | int:
    """Return how far before a label there may be events in its frames."""
    kind = events.schema.field(rolling.time).type
    farthest = pieces.reach(rolling, kind)
    if farthest is None or farthest.rows_before or farthest.rows_after:
        what = "has no bound" if farthest is None else "is by rows, which may have any times"
        raise InvalidValue(f"split: it is given, and a frame {what}; it is for frames of bounded time")
    if pa.types.is_integer(kind):
        return farthest.before
    return Duration(farthest.before * pieces.NANOSECONDS.get(kind, 1000))


@dataclass(frozen=True)
class AsOf:
    """Answers packed labels of packed events, one bucket after the other.

    Parameters
    ----------
    rolling : Rolling
    events, labels : Query
        By which `stages.Pack` packed the two.
    event_schema, label_schema : pyarrow.Schema
    width : int
        How many of the columns of packed labels, the first ones, are in the result.
    """

    rolling: Rolling
    events: Query
    event_schema: pa.Schema
    labels: Query
    label_schema: pa.Schema
    width: int
    limits: stages.Limits = stages.LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the labels of a partition of chunks, whose buckets come one after the other, with results."""
        # Labels come first: the events of a bucket without labels are not read.
        sides = [(self.labels, self.label_schema), (self.events, self.event_schema)]
        for labels, events in buckets.gathered(batches, sides, self.limits, is_led=True):
            yield from self.answered(labels, events)

    def answered(self, labels: pa.Table, events: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield labels, all those of some keys, with their results."""
        asking = local_rolling.Labels(self.label_schema, self.labels.by, self.labels.time)
        planned = local_rolling.bound(self.rolling, self.event_schema, asking)
        result = local_rolling.results(planned, events, 1, labels)
        kept = [*range(self.width), *range(len(self.label_schema), result.num_columns)]
        yield from result.select(kept).to_batches()
