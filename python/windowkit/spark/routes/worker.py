"""What runs in Spark's Python workers: an engine of the core between two streams of batches.

Spark pickles these objects with their classes by name, so what is shipped is a query and a schema; workers
import windowkit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from windowkit._native import Engine
from windowkit.language.query import Query
from windowkit.local.query import plan, shaped

__all__ = ["BUCKET", "Rows", "Slices", "finished"]


@dataclass(frozen=True)
class Rows:
    """Aggregates rows, all those of some keys; their columns are ``query.inputs``."""

    query: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition of rows."""
        first = next(batches, None)
        if first is not None:
            named = first.rename_columns(self.query.inputs)
            engine = plan(self.query, named.schema).engine()
            for batch in chain([named], batches):
                # The engine reads by position.
                engine.push(batch)
            yield from finished(engine, self.query)


BUCKET: Final = "bucket"
"""Name of the last column of slices that come in the order of their buckets of keys."""
JOINED: Final = 32 << 20
"""Bytes of slices from which a bucket that ends is finished, rather than joined to the next."""


@dataclass(frozen=True)
class Slices:
    """Combines slices, all those of some keys, into windows: bucket after bucket, where they come in buckets.

    Parameters
    ----------
    query : Query
    schema : pyarrow.Schema
        Of the rows that the slices are made of.
    lost : tuple of int
        Where slices have what the additions of a float sum lost: Catalyst does not report it, so these
        columns are zeros, and added here.
    """

    query: Query
    schema: pa.Schema
    lost: tuple[int, ...] = ()

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition of slices; memory is that of a bucket, or of `JOINED`."""
        planned = plan(self.query, self.schema)
        engine, size, last = None, 0, None
        for bucket, slices in chain.from_iterable(map(buckets, batches)):
            if engine is not None and bucket != last and size >= JOINED:
                yield from finished(engine, self.query)
                engine, size = None, 0
            slices = self.whole(slices)
            if engine is None:
                engine = planned.slices_engine(slices.schema)
            engine.push(slices)
            size, last = size + slices.nbytes, bucket
        if engine is not None:
            yield from finished(engine, self.query)

    def whole(self, slices: pa.RecordBatch) -> pa.RecordBatch:
        """Return slices of Catalyst with all columns that those of the core have."""
        if not self.lost:
            return slices
        arrays, names = slices.columns, slices.schema.names
        for at in self.lost:
            arrays.insert(at, pa.repeat(0.0, slices.num_rows))
            names.insert(at, f"lost{at}")
        return pa.RecordBatch.from_arrays(arrays, names=names)


def buckets(batch: pa.RecordBatch) -> Iterator[tuple[int | None, pa.RecordBatch]]:
    """Yield the parts of a batch by bucket, without that column; a batch without it is one part."""
    if batch.schema.names[-1] != BUCKET:
        yield None, batch
        return
    slices = batch.select(batch.schema.names[:-1])
    runs = pc.run_end_encode(batch.column(batch.num_columns - 1))
    first = 0
    for end, bucket in zip(runs.run_ends.to_pylist(), runs.values.to_pylist(), strict=True):
        yield bucket, slices.slice(first, end - first)
        first = end


def finished(engine: Engine, query: Query) -> Iterator[pa.RecordBatch]:
    """Yield the windows of what was pushed, in the columns that the query asks for."""
    # As an iterator the core raises its own exceptions, of which an Arrow stream would keep only the text.
    yield from (shaped(pa.record_batch(each), query) for each in engine.finish())
