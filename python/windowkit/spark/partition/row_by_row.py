"""Partitions decided row by row in Spark's Python workers: the paper's methods, as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.partition import Partitioner

__all__ = ["Decide"]


@dataclass(frozen=True)
class Decide:
    """Appends to batches the partition of each row, an int32 column ``partition``.

    A task has a partitioner of its own, which starts without rows. All have the same seed, so that what
    hashes alone decide is the same in all tasks.

    Parameters
    ----------
    partitioner : callable
        Returns a partitioner that has seen no rows.
    keys : tuple of int
        Where in a batch the key columns are.
    time : int or None
        Where the time is, if the partitioner has a window.
    """

    partitioner: Callable[[], Partitioner]
    keys: tuple[int, ...]
    time: int | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches of a task with one more column."""
        partitioner = self.partitioner()
        latest = None
        for batch in batches:
            if batch.num_rows == 0:
                continue
            keys = pa.RecordBatch.from_arrays(
                [batch.column(at) for at in self.keys], names=[f"k{i}" for i in range(len(self.keys))]
            )
            times = None
            if self.time is not None:
                times, latest = advancing(batch.column(self.time), latest)
            partition = partitioner.assign(keys, times)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, partition], schema=batch.schema.append(pa.field("partition", pa.int32()))
            )


def advancing(times: pa.Array, latest: int | None) -> tuple[pa.Array, int | None]:
    """Return for each row the latest time so far, and the last of them as a number.

    A row that is late, or has no time, is decided on in the window that is open: a decision is about the load
    of now.

    Examples
    --------
    >>> times, latest = advancing(pa.array([None, 7, 3, None]), 5)
    >>> times.to_pylist(), latest
    ([5, 7, 7, 7], 7)
    """
    physical = pa.int32() if pa.types.is_date32(times.type) else pa.int64()
    numbers = times.cast(physical).cast(pa.int64())
    known = pc.fill_null_forward(pc.cumulative_max(numbers, start=latest, skip_nulls=True))
    # What is still null comes before all times of the batch.
    known = pc.fill_null_backward(known) if latest is None else known.fill_null(latest)
    last = known[-1].as_py() if len(known) else latest
    # Without any time so far there is no window to leave, and any time will do.
    return known.fill_null(0).cast(physical).cast(times.type), last
