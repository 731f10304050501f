"""Route "packed": Rust makes slices where the rows are, and slices cross the shuffle packed.

Stage 1 is a `mapInArrow` without a shuffle before it: an engine of the core makes slices of a partition's
rows and hands them out by bucket of keys, as Arrow IPC in one binary value per bucket and chunk. A shuffle
moves these few, large rows; Spark sorts them by bucket, spilling as it does, and stage 2 combines one bucket
after the other, so that its memory is a bucket and not a partition. Where slices would be hardly smaller than
their rows, stage 1 packs the rows instead, and stage 2 takes both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark

from windowkit.local.explain import sizes
from windowkit.spark.jobs import Job, identifier, result_schema
from windowkit.spark.routes import shuffles, stages
from windowkit.spark.routes.route import Route
from windowkit.spark.shipping import observed_chunks, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["CHUNKS", "ROUTE", "buckets", "chunks", "in_turn", "pack", "rows_instead", "spread", "windows"]

CHUNKS: Final = spark.StructType(
    [
        spark.StructField("bucket", spark.IntegerType()),
        spark.StructField("chunk", spark.BinaryType()),
        spark.StructField("rows", spark.LongType()),
        spark.StructField("slices", spark.LongType()),
    ]
)
MOST_BUCKETS: Final = 1024
LEAST_EACH: Final = 1
MOST_EACH: Final = 64


def refusal(_: Job) -> str | None:
    return None


def rows_instead(job: Job) -> str | None:
    """Return why rows are packed rather than slices, whatever slices would save; None if they are not."""
    return stages.rows_instead(job.query, job.plan)


def buckets(job: Job) -> tuple[int, int]:
    """Return the partitions of stage 2, and the buckets that each of them has."""
    return spread(job.frame.sparkSession) if job.query.by else (1, 1)


def spread(session: SparkSession) -> tuple[int, int]:
    """Return the partitions of a shuffle, and the buckets that each of them has."""
    partitions = shuffles.partitions(session)
    return partitions, min(max(MOST_BUCKETS // partitions, LEAST_EACH), MOST_EACH)


def run(job: Job) -> DataFrame:
    return windows(job, chunks(job))


def chunks(job: Job) -> DataFrame:
    """Return what stage 1 makes of the rows of a job: its columns are `CHUNKS`."""
    return observed_chunks(job.metrics, job.read().mapInArrow(shipped(pack(job)), CHUNKS))


def pack(job: Job, *, never: bool = False) -> stages.Pack:
    """Return stage 1 of a job; with `never` it makes no slices."""
    return stages.Pack(job.query, job.schema, *buckets(job), never)


def windows(job: Job, packed: DataFrame) -> DataFrame:
    """Return what stage 2 makes of chunks."""
    task = shipped(stages.Unpack(job.asked, job.schema))
    return in_turn(packed, job.query.by).mapInArrow(task, result_schema(job))


def in_turn(packed: DataFrame, by: Sequence[object], partitions: int | None = None) -> DataFrame:
    """Return chunks where stage 2 takes them: each bucket in one partition, one after the other.

    Adaptive execution joins small partitions, unless their number is given.
    """
    bucket = packed["bucket"]
    if not by:
        placed = packed.repartition(1)
    elif partitions is None:
        placed = packed.repartition(bucket)
    else:
        placed = packed.repartition(partitions, bucket)
    return placed.sortWithinPartitions(placed["bucket"]).selectExpr("bucket", "chunk")


def explain(job: Job) -> list[str]:
    return [
        "stage 1, in Rust inside one mapInArrow: slices of the rows of each task",
        *(f"  {line}" for line in held(job)),
        *moved(job),
    ]


def held(job: Job) -> list[str]:
    """Describe what slices hold."""
    columns = ", ".join(map(identifier, job.query.inputs))
    reason = rows_instead(job)
    if reason is not None:
        return [f"none: rows of {columns} are packed as they are, as {reason}"]
    partials = [
        f"partial: {each.kind}({', '.join(map(identifier, each.columns))}{size})"
        + ("" if each.condition is None else f" where {identifier(each.condition)}")
        for each, size in zip(job.plan.partials, sizes(job.query.aggs, job.plan), strict=True)
    ]
    share = f"{stages.LIMITS.share:.0%}"
    return [
        *partials,
        f"where slices have more than {share} of the bytes of their rows, a task packs rows from then on",
    ]


def moved(job: Job, made: str = "windows") -> list[str]:
    """Describe what crosses the shuffle, and what becomes of it."""
    partitions, each = buckets(job)
    keys = ", ".join(map(identifier, job.query.by))
    of = f"{partitions * each:,} buckets of {keys}" if keys else "one bucket"
    return [
        f"shuffle: packed Arrow, a row per chunk and bucket, {of} in {partitions:,} partitions",
        f"stage 2, in Rust inside one mapInArrow: {made}, one bucket after the other",
    ]


MERIT: Final = "possible, with slices made in Python workers"
ROUTE: Final = Route("packed", MERIT, refusal, run, explain)
