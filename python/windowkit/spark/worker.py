"""What runs in Spark's Python workers: an engine of the core between two streams of batches.

Spark pickles these objects with their classes by name, so what is shipped is a query and a schema; workers
import windowkit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from windowkit._native import Engine
from windowkit.local import plan
from windowkit.query import Query

__all__ = ["Rows", "Slices", "finished"]


@dataclass(frozen=True)
class Rows:
    """Aggregates rows, all those of some keys; their columns are ``query.inputs``."""

    query: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition of rows."""
        first = next(batches, None)
        if first is not None:
            named = first.rename_columns(self.query.inputs)
            yield from results(plan(self.query, named.schema).engine(), named, batches)


@dataclass(frozen=True)
class Slices:
    """Combines slices, all those of some keys, into windows.

    Parameters
    ----------
    query : Query
    schema : pyarrow.Schema
        Of the rows that the slices are made of.
    """

    query: Query
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition of slices."""
        first = next(batches, None)
        if first is not None:
            yield from results(plan(self.query, self.schema).slices_engine(first.schema), first, batches)


def results(
    engine: Engine, first: pa.RecordBatch, rest: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Push all batches, which the engine reads by position, and yield those of the result."""
    engine.push(first)
    for batch in rest:
        engine.push(batch)
    yield from finished(engine)


def finished(engine: Engine) -> Iterator[pa.RecordBatch]:
    """Yield the windows of what was pushed."""
    # As an iterator the core raises its own exceptions, of which an Arrow stream would keep only the text.
    yield from map(pa.record_batch, engine.finish())
