"""Spark's part in a stream, in this process: batches, watermarks, state by key, and timers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk
from windowkit.spark.routes.stages import Pack
from windowkit.spark.streams.bucket import GUARD, Bucket, guard
from windowkit.spark.streams.stages import Guarded
from windowkit.spark.streams.streaming import own_work
from windowkit.spark.streams.work import Work


class Log:
    def __init__(self) -> None:
        self.entries: dict[tuple[Any, ...], tuple[Any, ...]] = {}

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:  # noqa: N802
        return self.entries.get(key)

    def iterator(self) -> Iterator[tuple[Any, Any]]:
        # In no order, as in Spark.
        yield from reversed(list(self.entries.items()))

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:  # noqa: N802
        self.entries[key] = value

    def clear(self) -> None:
        self.entries.clear()


class Timers:
    def __init__(self) -> None:
        self.expiries: set[int] = set()

    def registerTimer(self, expiry: int) -> None:  # noqa: N802
        self.expiries.add(expiry)

    def deleteTimer(self, expiry: int) -> None:  # noqa: N802
        self.expiries.remove(expiry)


class Kept:
    """What Spark keeps for one bucket."""

    def __init__(self) -> None:
        self.log, self.timers = Log(), Timers()


class Checkpoint:
    """What outlives a run of a stream."""

    def __init__(self) -> None:
        self.kept: dict[int, Kept] = {}
        self.watermark = 0
        self.latest = 0


class Run:
    """A stream from a checkpoint on.

    Parameters
    ----------
    query : windowkit.Query
    schema : pyarrow.Schema
        Of rows; times are microseconds.
    delay : int
        Of the watermark, in ms.
    """

    def __init__(
        self,
        query: wk.Query,
        schema: pa.Schema,
        delay: int = 0,
        checkpoint: Checkpoint | None = None,
        *,
        mode: str = "append",
        lateness: Any = 0,
        partitions: int = 2,
        each: int = 2,
    ) -> None:
        self.work: Work = own_work(query, schema, mode, lateness, partitions, each)
        self.query, self.schema, self.delay = query, schema, delay
        self.checkpoint = Checkpoint() if checkpoint is None else checkpoint
        self.pack = Guarded(
            Pack(self.work.query, schema, partitions, each, self.work.rows_instead is not None)
        )
        self.late = 0

    def batch(self, *tasks: pa.Table) -> list[dict[str, Any]]:
        """Take in a batch, whose rows are in several tasks; return the results."""
        there = self.checkpoint
        chunks: dict[int, list[bytes]] = {}
        for rows in tasks:
            timed = rows.filter(pc.is_valid(rows[self.query.time]))
            for packed in self.pack(iter(timed.to_batches())):
                for bucket, chunk in zip(packed["bucket"], packed["chunk"], strict=True):
                    there_are = chunks.setdefault(bucket.as_py(), [])
                    there_are += [chunk.as_py()] if len(chunk.as_py()) else []
            if timed.num_rows:
                latest = pc.max(timed[self.query.time].cast(pa.int64())).as_py() // 1000
                there.latest = max(there.latest, latest - self.delay)
        returned: list[dict[str, Any]] = []
        for number, given in chunks.items():
            kept = there.kept.setdefault(number, Kept())
            if number == GUARD:
                guard(self.work, kept.log)
            else:
                returned += self.step(number, kept, given, by_timer=False)
        for number, kept in there.kept.items():
            for expired in sorted(at for at in kept.timers.expiries if at <= there.watermark):
                returned += self.step(number, kept, [], by_timer=True)
                kept.timers.deleteTimer(expired)
            assert len(kept.timers.expiries) == (number != GUARD)
        there.watermark = there.latest
        return returned

    def step(self, number: int, kept: Kept, chunks: list[bytes], *, by_timer: bool) -> list[dict[str, Any]]:
        bucket = Bucket(self.work, number, kept.log, kept.timers)
        results = bucket.step(chunks, self.checkpoint.watermark, by_timer=by_timer)
        returned = [row for batch in results for row in batch.to_pylist()]
        self.late += bucket.late
        return returned

    def all(self, batches: Iterable[Sequence[pa.Table]]) -> list[dict[str, Any]]:
        """Return the results of these batches, and of the one without rows after them."""
        return [row for tasks in [*batches, ()] for row in self.batch(*tasks)]
