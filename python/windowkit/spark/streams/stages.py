"""What runs in Spark's Python workers for a stream: rows into packed chunks, buckets, results into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from windowkit.query import Query
from windowkit.spark.routes import stages
from windowkit.spark.shipping import named, packing
from windowkit.spark.streams.bucket import ENTRY, GUARD, HEAD, SEQUENCE, Bucket, guard
from windowkit.spark.streams.work import Work
from windowkit.validation import checked

__all__ = ["RESULTS", "Buckets", "Guarded", "Results"]

RESULTS: Final = "results binary, windows bigint, late bigint"
"""What `Buckets` yields: results as Arrow IPC, how many they are, and how many rows were late."""

BATCH: Final = "streaming.sql.batchId"
"""Spark's local property of tasks."""


@dataclass(frozen=True)
class Guarded:
    """Packs rows by bucket, and calls the guard of the checkpoint; in the first batch all buckets."""

    pack: stages.Pack

    @property
    def query(self) -> Query:
        """What is evaluated, for errors."""
        return self.pack.query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows of a partition of rows."""
        called = [GUARD]
        if self.is_first():
            called += stages.names(self.pack.partitions, self.pack.each)
        columns = {"bucket": called, "chunk": [b""] * len(called), "rows": [0] * len(called)}
        yield pa.RecordBatch.from_pydict({**columns, "slices": columns["rows"]}, schema=stages.CHUNKS)
        yield from self.pack(batches)

    def is_first(self) -> bool:
        """Whether this is a task of a stream's first batch."""
        context = TaskContext.get()
        return context is not None and context.getLocalProperty(BATCH) == "0"


class Buckets(StatefulProcessor):
    """Evaluates the buckets of a partition, one after the other.

    Parameters
    ----------
    work : Work
    """

    def __init__(self, work: Work) -> None:
        self._work = work

    def init(self, handle: Any) -> None:
        """Declare the state of a bucket; Spark calls this on the driver, too."""
        self._timers = handle
        self._head = handle.getValueState("head", HEAD)
        self._log = handle.getMapState("log", SEQUENCE, ENTRY)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Yield the results of a batch's rows."""
        with named(self._work.what):
            if key[0] == GUARD:
                guard(self._work, self._head, self._log)
            else:
                chunks = [bytes(row["chunk"]) for row in rows if row["chunk"]]
                yield from self._step(key[0], chunks, timerValues, by_timer=False)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Yield the results of a bucket without rows, of which the watermark has made some ready."""
        with named(self._work.what):
            yield from self._step(key[0], [], timerValues, by_timer=True)

    def close(self) -> None:
        """End the task: all that is stored is in Spark's state."""

    def _step(self, number: int, chunks: list[bytes], times: Any, *, by_timer: bool) -> Iterator[Row]:
        bucket = Bucket(self._work, number, self._head, self._log, self._timers)
        for results in bucket.step(chunks, times.getCurrentWatermarkInMs(), by_timer=by_timer):
            for piece in packing.pieces(results):
                yield Row(results=packing.body_of(piece).to_pybytes(), windows=piece.num_rows, late=0)
        if bucket.late:
            yield Row(results=b"", windows=0, late=bucket.late)


@dataclass(frozen=True)
class Results:
    """Unpacks results."""

    query: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of a partition."""
        for batch in batches:
            for packed in batch.column(0):
                body = packed.as_buffer()
                if body.size:
                    with pa.ipc.open_stream(body) as stream:
                        yield from (checked("results", each, full=False) for each in stream)
