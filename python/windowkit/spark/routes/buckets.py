"""Packed rows of one DataFrame, or of several, as stage 2 takes them: those of whole buckets at a time.

Several DataFrames, the sides, become one stream of chunks, which say of which side they are. Where their keys
have the same types, rows with equal keys are in one bucket, and a bucket's sides follow each other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import repeat
from typing import TYPE_CHECKING

import pyarrow as pa

from windowkit.language.query import Query
from windowkit.spark.routes import stages
from windowkit.spark.shipping import Metrics, observed_chunks, packing

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["gathered", "united"]


def united(sides: Iterable[DataFrame], metrics: Metrics | None, *, spread: bool) -> DataFrame:
    """Return the chunks of several sides, each bucket in one partition and in it one side after the other.

    Parameters
    ----------
    sides : iterable of DataFrame
        Chunks of each.
    metrics : Metrics or None
    spread : bool
        Whether there is more than one bucket.
    """
    every = (chunks.selectExpr("*", f"{number} as side") for number, chunks in enumerate(sides))
    chunks = observed_chunks(metrics, reduce(lambda some, others: some.unionAll(others), every))
    placed = chunks.repartition(chunks["bucket"]) if spread else chunks.repartition(1)
    in_turn = placed.sortWithinPartitions(placed["bucket"], placed["side"])
    return in_turn.selectExpr("bucket", "chunk", "side")


def gathered(
    batches: Iterator[pa.RecordBatch],
    sides: Sequence[tuple[Query, pa.Schema]],
    limits: stages.Limits,
    *,
    is_led: bool = False,
) -> Iterator[list[pa.Table]]:
    """Yield the rows of one bucket, or of a few small ones, by side.

    Parameters
    ----------
    batches : iterator of RecordBatch
        Of a partition of chunks, ordered by bucket and side: ``bucket``, ``chunk`` and, of several sides,
        ``side``.
    sides : sequence of (Query, Schema)
        By which the rows of each side were packed.
    limits : Limits
    is_led : bool
        Where a bucket has no rows of the first side, those of the others are not read.
    """
    plans = [packing.fingerprint(*side) for side in sides]
    rows: list[list[pa.RecordBatch]] = [[] for _ in sides]
    last, size, is_read = None, 0, False

    def tables() -> list[pa.Table]:
        return [pa.Table.from_batches(own, schema) for own, (_, schema) in zip(rows, sides, strict=True)]

    for batch in batches:
        which = batch.column(2).to_pylist() if len(sides) > 1 else repeat(0, batch.num_rows)
        for (bucket, chunk), side in zip(stages.chunks(batch.select([0, 1])), which, strict=True):
            if bucket != last:
                is_read = not is_led
                if size >= limits.joined:
                    yield tables()
                    rows, size = [[] for _ in sides], 0
            last = bucket
            is_read = is_read or side == 0
            if is_read:
                _, part = packing.unpack(chunk, plans[side], bucket)
                rows[side].append(part)
                size += part.nbytes
    yield tables()
