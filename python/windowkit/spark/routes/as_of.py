"""Aggregates as of moments in Spark: events and labels cross the shuffle packed, then one `mapInArrow`.

Both are packed by bucket of keys as `rolling` packs rows, events with only the columns that are read. Their
keys have the same types, and so they are in the same buckets. Stage 2 answers the labels of one bucket after
the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.durations import Duration, Length
from windowkit.language.foreign import is_spark
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling, labels_of
from windowkit.local import rolling as local_rolling
from windowkit.spark.jobs import Job, check_batch, computed, job, keyed
from windowkit.spark.routes import buckets, packed, pieces, stages
from windowkit.spark.routes.blocks import PackBlocks, blocks
from windowkit.spark.routes.rolling import (
    STREAMS,
    checked_expressions,
    in_one_line,
    query_of,
    refuse_clashes,
    widened,
)
from windowkit.spark.shipping import Metrics, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["as_of"]


def as_of(
    labels: DataFrame,
    events: DataFrame,
    rolling: Rolling,
    *,
    by: str | Sequence[str] | None = None,
    time: str | None = None,
    split: Length | None = None,
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
    metrics : Metrics, optional
        Counts rows and packed bytes while the result is computed.

    Returns
    -------
    DataFrame
        Every row of `labels`, in no order, with all its columns and then those of the aggregates.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `windowkit.Rolling.at`, or a DataFrame is streaming, or keys cannot be cut by `split`. No Spark job
        has started then.

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
    checked_expressions(rolling)
    keys, moment = labels_of(rolling, by, time)
    for argument, given in (("labels", labels), ("events", events)):
        if not is_spark(given):
            raise InvalidType(
                f"{argument}: {a_type(given)} is given; labels and events both are Spark DataFrames, or "
                "neither is"
            )
        check_batch(given, argument, STREAMS)
    rolling = rolling.resolved(events.columns)
    events = computed(events, rolling.expressions)
    rolling, keys, moment = rolling.plain, tuple(map(str, keys)), str(moment)
    wanted = query_of(rolling)
    own = job(events, wanted)
    rows, asking = keyed(labels, keys, moment, "labels", metrics=metrics)
    local_rolling.bound(rolling, own.schema, local_rolling.Labels(asking.schema, keys, moment))
    refuse_clashes(rolling, labels)
    what = in_one_line(rolling)
    packs: list[stages.Pack | PackBlocks] = [packed.pack(asking, never=True), packed.pack(own, never=True)]
    of_block = rolling
    if split is not None:
        cut = blocks(split, (0, reach(rolling, own)), [asking, own])
        packs = [cut.pack(asking, is_guest=False), cut.pack(own, is_guest=True)]
        of_block = replace(rolling, by=(*rolling.by, cut.name))
    labels_pack, events_pack = packs
    task = AsOf(
        of_block,
        events_pack.query,
        events_pack.schema,
        labels_pack.query,
        labels_pack.schema,
        len(asking.schema),
    )
    sides = [(rows, labels_pack), (own.rows, events_pack)]
    in_turn = buckets.united(sides, what, metrics, spread=bool(of_block.by))
    result = in_turn.mapInArrow(shipped(task, what), widened(labels, own))
    answers = (each.name for each in rolling.aggs)
    return observed_count(metrics, "rows out", result.toDF(*labels.columns, *answers))


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
