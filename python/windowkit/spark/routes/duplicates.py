"""Duplicates in Spark: rows cross the shuffle packed, by bucket of keys, and the first ones come back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from windowkit.errors import InvalidType
from windowkit.language.checks import a_type
from windowkit.language.distinct import Distinct
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.local import distinct as local_distinct
from windowkit.local.selecting import kept
from windowkit.spark.jobs import check_metrics, keyed
from windowkit.spark.routes import buckets, packed, stages
from windowkit.spark.routes.sides import Operation, Rows, Side
from windowkit.spark.shipping import Metrics, observed_chunks, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["distinct", "explain_distinct", "leaving"]

STREAMS: Final = (
    "df.dropDuplicatesWithinWatermark leaves one of the duplicates of a stream, and, in one process, "
    "distinct.operator(schema) the first"
)


def distinct(
    df: DataFrame, distinct: Distinct, *, route: str | None = None, metrics: Metrics | None = None
) -> DataFrame:
    """Leave the first of equal rows that are close in time, lazily: ``distinct.run(df)`` calls it.

    Parameters
    ----------
    df : DataFrame
        A batch DataFrame, classic or Connect. Columns are found by name as by `windowkit.spark.aggregate`.
    distinct : Distinct
        Of timestamps, with or without zone, dates, integers or intervals of days and time.
    route : str, optional
        ``"scan"`` if tasks are to read the Parquet files of `df` themselves, ``"packed"`` if Spark is to hand
        over rows. By default tasks read them where `df` is a read of Parquet files, and has many rows.
    metrics : Metrics, optional
        Counts rows and packed bytes while the result is computed.

    Returns
    -------
    DataFrame
        The rows of `df` that are no duplicates, in no order, with all their columns. Rows at one time have no
        order in Spark either: any one of equal rows of one time is left.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        `distinct` does not fit `df`, `df` is streaming, or it has a column of a type that Spark does not
        exchange with Arrow; or `route` is unknown or not possible. No Spark job has started then.

    Notes
    -----
    All rows of a key are in one task, and those of a bucket of keys in its memory. A row crosses from Spark
    to Python once, unless tasks read it from a file, and those that are left cross back.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.spark.distinct(df, wk.distinct("device", time="ts", within="1 minute"))
    DataFrame[device: string, ts: timestamp, v: double]
    """
    check_metrics(metrics)
    made = leaving(df, distinct)
    return made.run(made.sides(route), metrics)


def leaving(df: DataFrame, distinct: Distinct) -> Operation:
    """Check `distinct` against a DataFrame; starts no Spark job.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `distinct`.
    """
    if not isinstance(distinct, Distinct):
        raise InvalidType(
            f"distinct: {a_type(distinct)} is given; it is what windowkit.distinct(...) returns"
        )
    rows, checked = keyed(df, distinct.by, distinct.time, streams=STREAMS)
    local_distinct.bound(distinct, checked.schema)
    return Operation(
        (Rows("", rows, checked),),
        lambda read, metrics: left(df, distinct, read[0], metrics),
        lambda read: described(distinct, read[0]),
    )


def left(df: DataFrame, distinct: Distinct, read: Side, metrics: Metrics | None) -> DataFrame:
    """Return the rows that are left of those of a DataFrame."""
    what, checked = f"distinct {distinct}", read.rows.job
    chunks = read.chunks(packed.pack(checked, never=True), what)
    in_turn = packed.in_turn(observed_chunks(metrics, chunks), distinct.by)
    task = Firsts(distinct, checked.query, checked.schema)
    return observed_count(metrics, "rows out", in_turn.mapInArrow(shipped(task, what), df.schema))


@dataclass(frozen=True)
class Firsts:
    """Leaves the rows of packed ones that are no duplicates, one bucket after the other.

    Parameters
    ----------
    distinct : Distinct
    query : Query
        By which `stages.Pack` packed the rows.
    schema : pyarrow.Schema
        Of the rows.
    """

    distinct: Distinct
    query: Query
    schema: pa.Schema
    limits: stages.Limits = stages.LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what is left of a partition of chunks, whose buckets come one after the other."""
        for (table,) in buckets.gathered(batches, [(self.query, self.schema)], self.limits):
            rows = local_distinct.is_first(self.distinct, table, 1)
            yield from kept(table, rows).to_batches()


def explain_distinct(df: DataFrame, distinct: Distinct, *, route: str | None = None) -> str:
    """Describe how `distinct` is evaluated in Spark: what is stored, and what runs where.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `windowkit.spark.distinct`.
    """
    made = leaving(df, distinct)
    return text_of(made.explain(made.sides(route)))


def described(distinct: Distinct, read: Side) -> list[str]:
    """Describe how duplicates are left out of rows."""
    return [
        *local_distinct.described(distinct),
        *read.described(),
        *packed.moved(read.rows.job, "rows in order of time, of which duplicates are dropped"),
        *(["  all rows of a key are in one task"] if distinct.by else []),
    ]
