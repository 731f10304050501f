"""What runs in Spark's Python workers for a stream: rows into packed chunks, buckets, results into rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from windowkit.arrow.validation import checked
from windowkit.spark.routes import stages
from windowkit.spark.shipping import importing, keep_loaded, loaded, named, packed_task, packing
from windowkit.spark.streams.bucket import (
    ENTRY,
    GUARD,
    SEQUENCE,
    Bucket,
    Log,
    Timers,
    guard,
)
from windowkit.spark.streams.work import LATE, Work

__all__ = ["RESULTS", "Buckets", "Guarded", "Results", "processor", "unpacked"]

RESULTS: Final = "results binary, windows bigint, late bigint"
"""What `Buckets` yields: results as Arrow IPC, how many they are, and how many rows were late."""


@dataclass(frozen=True)
class Guarded:
    """Packs rows by bucket, and calls the guard of the checkpoint and all buckets.

    A bucket that is called for the first time when it has rows would not know by which watermark they are
    late. The first batch may have no tasks that would call it, as of a source that begins with what comes.
    """

    pack: stages.Pack

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows of a partition of rows."""
        called = [GUARD, *stages.names(self.pack.partitions, self.pack.each)]
        columns = {"bucket": called, "chunk": [b""] * len(called), "rows": [0] * len(called)}
        yield pa.RecordBatch.from_pydict({**columns, "slices": columns["rows"]}, schema=stages.CHUNKS)
        yield from self.pack(batches)


def processor(work: Work, *, in_pandas: bool = False) -> StatefulProcessor:
    """Return `Buckets` as Spark takes it, in a wrapping that needs nothing where it is unpickled.

    At a stream's start Spark asks a process of its own which states there are, and it unpickles the processor
    for each task. Only where there is something to do is windowkit imported, and `work` unpickled, once.

    It is for ``transformWithState``, or for ``transformWithStateInPandas``.
    """
    payload, there = packed_task(work, work.what), importing()
    sequence, entry = SEQUENCE, ENTRY

    # As in `shipped`: nothing in this class may refer to a name of this module.
    class OfBuckets(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.log = handle.getMapState("log", sequence, entry)
            self.timers = handle

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            yield from self.buckets().rows(key[0], rows, timerValues)

        def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:  # noqa: N802, N803
            yield from self.buckets().timer(key[0], timerValues)

        def buckets(self) -> Any:
            there()
            from windowkit.spark.streams.stages import Buckets, unpacked

            return Buckets(unpacked(payload), self.log, self.timers, in_pandas=in_pandas)

    return OfBuckets()


@lru_cache(maxsize=4)
def unpacked(payload: bytes) -> Work:
    """Return the work of a stream, one for all tasks of a worker."""
    work, _ = loaded(payload)
    assert isinstance(work, Work)
    return work


class Buckets:
    """Evaluates the buckets of a partition, one after the other.

    Parameters
    ----------
    work : Work
    log, timers
        Spark's, for the bucket of the current call.
    in_pandas : bool
        Rows come and go in DataFrames of pandas.
    """

    def __init__(self, work: Work, log: Log, timers: Timers, *, in_pandas: bool = False) -> None:
        self._work, self._log, self._timers = work, log, timers
        self._in_pandas = in_pandas

    def rows(self, number: int, rows: Iterator[Any], times: Any) -> Iterator[Any]:
        """Yield the results of a batch's rows."""
        with named(self._work.what):
            if number == GUARD:
                guard(self._work, self._log)
            else:
                given = (each["chunk"] for each in rows)
                own = chain.from_iterable(given) if self._in_pandas else given
                chunks = [bytes(chunk) for chunk in own if chunk]
                yield from self._step(number, chunks, times, by_timer=False)

    def timer(self, number: int, times: Any) -> Iterator[Any]:
        """Yield the results of a bucket without rows, of which the watermark has made some ready."""
        with named(self._work.what):
            yield from self._step(number, [], times, by_timer=True)

    def _step(self, number: int, chunks: list[bytes], times: Any, *, by_timer: bool) -> Iterator[Any]:
        bucket = Bucket(self._work, number, self._log, self._timers)
        for results in bucket.step(chunks, times.getCurrentWatermarkInMs(), by_timer=by_timer):
            for piece in packing.pieces(results):
                # Late rows are no windows.
                is_late = LATE in piece.schema.names
                windows = piece.column(LATE).null_count if is_late else piece.num_rows
                yield self._row(results=packing.body_of(piece).to_pybytes(), windows=windows, late=0)
        if bucket.late:
            yield self._row(results=b"", windows=0, late=bucket.late)
        keep_loaded()

    def _row(self, **values: Any) -> Any:
        if not self._in_pandas:
            return Row(**values)
        import pandas as pd

        return pd.DataFrame({name: [value] for name, value in values.items()})


class Results:
    """Unpacks results."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the results of a partition."""
        for batch in batches:
            for packed in batch.column(0):
                body = packed.as_buffer()
                if body.size:
                    with pa.ipc.open_stream(body) as stream:
                        yield from (checked("results", each, full=False) for each in stream)
