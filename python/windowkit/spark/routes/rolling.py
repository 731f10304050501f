"""Rolling aggregates in Spark: rows cross the shuffle once, packed by bucket of keys, then one `mapInArrow`.

Stage 1 packs the rows of a task, with all their columns, as route "packed" does where slices would save
nothing; stage 2 sorts and answers one bucket of keys after the other, so that its memory is a bucket and not
a partition. All rows of a key are in one bucket, and so in one task.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark

from windowkit import local_rolling
from windowkit.checks import a_type
from windowkit.errors import InvalidType
from windowkit.query import Query
from windowkit.rolling import Rolling
from windowkit.spark.jobs import Job, arrow_type, identifier, job, output_schema
from windowkit.spark.routes import packed, stages
from windowkit.spark.shipping import Metrics, observed_chunks, observed_count, packing, shipped
from windowkit.windows import global_window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["explain_roll", "roll"]


def roll(df: DataFrame, rolling: Rolling, *, metrics: Metrics | None = None) -> DataFrame:
    """Evaluate rolling aggregates in Spark, lazily.

    Parameters
    ----------
    df : DataFrame
        A batch DataFrame, classic or Connect. Columns are found by name as by `windowkit.spark.aggregate`.
    rolling : Rolling
        Of timestamps, with or without zone, dates or integers.
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
        exchange with Arrow. No Spark job has started then.

    Notes
    -----
    All rows of a key are in one task. A row crosses from Spark to Python once, and back once.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.spark.roll(df, wk.rolling(by="device", time="ts", aggs=wk.sum("v").over("10 minutes")))
    DataFrame[device: string, ts: timestamp, v: double, sum(v) OVER (10 minutes): double]
    """
    rows, checked = checked_rows(df, rolling, metrics)
    packs = shipped(packed.pack(checked, never=True), in_one_line(rolling))
    chunks = observed_chunks(metrics, rows.mapInArrow(packs, packed.CHUNKS))
    answers = output_schema(checked).fields[-len(rolling.aggs) :]
    own = enumerate(df.schema.fields)
    schema = spark.StructType(
        [
            *(
                spark.StructField(f"c{at}", field.dataType, field.nullable, field.metadata)
                for at, field in own
            ),
            *(spark.StructField(field.name, field.dataType, field.nullable) for field in answers),
        ]
    )
    task = Roll(rolling, checked.query, checked.schema)
    result = packed.in_turn(chunks, rolling.by).mapInArrow(shipped(task, in_one_line(rolling)), schema)
    names = [*df.columns, *(each.name for each in rolling.aggs)]
    return observed_count(metrics, "rows out", result.toDF(*names))


def checked_rows(df: DataFrame, rolling: Rolling, metrics: Metrics | None = None) -> tuple[DataFrame, Job]:
    """Return the rows with all columns under internal names, and a job over them.

    Its query has the keys, the time and the aggregates of `rolling`: what is known of a query's results, of
    buckets and of chunks is known by it.
    """
    if not isinstance(rolling, Rolling):
        raise InvalidType(f"rolling: {a_type(rolling)} is given; it is what windowkit.rolling(...) returns")
    aggs = tuple(each.aggregate.alias(f"r{at}") for at, each in enumerate(rolling.aggs))
    query = Query(rolling.by, rolling.time, (global_window(),), aggs)
    checked = job(df, query, metrics)
    # Under the names that `rolling` uses: Spark may find columns in any case.
    read = {position: name for name, position in checked.positions.items()}
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    fields = [
        (read.get(at, field.name), arrow_type(field.name, field.dataType, "rolling", zone))
        for at, field in enumerate(df.schema.fields)
    ]
    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
    local_rolling.bound(rolling, schema)
    return df.toDF(*(f"c{at}" for at in range(len(fields)))), replace(checked, schema=schema)


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
        Of the rows.
    """

    rolling: Rolling
    query: Query
    schema: pa.Schema
    limits: stages.Limits = stages.LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition of chunks, whose buckets come one after the other, with results."""
        expected = packing.fingerprint(self.query, self.schema)
        rows: list[pa.RecordBatch] = []
        last, size = None, 0
        for bucket, chunk in chain.from_iterable(map(stages.chunks, batches)):
            if bucket != last and size >= self.limits.joined:
                yield from self.answered(rows)
                rows, size = [], 0
            last = bucket
            _, batch = packing.unpack(chunk, expected, bucket)
            rows.append(batch)
            size += batch.nbytes
        yield from self.answered(rows)

    def answered(self, rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield these rows, all those of some keys, with their results."""
        table = pa.Table.from_batches(rows, self.schema)
        planned = local_rolling.bound(self.rolling, self.schema)
        yield from local_rolling.results(planned, table, 1).to_batches()


def explain_roll(df: DataFrame, rolling: Rolling) -> str:
    """Describe how `roll` evaluates rolling aggregates: what is stored, and what runs where.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `roll`.
    """
    _, checked = checked_rows(df, rolling)
    bound = local_rolling.bound(rolling, checked.schema)
    columns = ", ".join(map(identifier, df.columns))
    return "\n".join(
        [
            *local_rolling.described(rolling, bound.plan),
            f"stage 1, inside one mapInArrow: rows of {columns} are packed",
            *packed.moved(checked, "rows in order of time, and the frames of each of them"),
        ]
    )
