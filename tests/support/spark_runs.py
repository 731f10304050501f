"""Streams that Spark runs to their end over files of rows, each a batch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from support.spark import plain

SECOND = 1_000_000
ROWS = "k string, ts timestamp, v double, mark boolean"
Rows = list[tuple[str | None, float | None, float | None]]


def add_files(folder: Path, *batches: Rows) -> None:
    """Write a file for each batch; Spark reads files in the order of their times."""
    folder.mkdir(exist_ok=True)
    for rows in batches:
        number = len(list(folder.iterdir()))
        path = folder / f"{number}.parquet"
        pq.write_table(table(rows), path)
        os.utime(path, (10**9 + number, 10**9 + number))


def table(rows: Rows) -> pa.Table:
    times = [None if at is None else int(at * SECOND) for _, at, _ in rows]
    return pa.table(
        {
            "k": pa.array([key for key, _, _ in rows], pa.string()),
            "ts": pa.array(times, pa.timestamp("us", "UTC")),
            "v": pa.array([value for _, _, value in rows], pa.float64()),
            "mark": pa.array([at is not None and at % 7 == 0 for _, at, _ in rows], pa.bool_()),
        }
    )


def run_stream(
    result: DataFrame, checkpoint: Path, mode: str = "append"
) -> tuple[dict[int, list[Any]], StreamingQuery]:
    """Run a stream over all there is; return the rows by batch."""
    found: dict[int, list[Any]] = {}

    def take(batch: DataFrame, number: int) -> None:
        found[number] = list(zip(*map(plain, batch.toArrow().columns), strict=True))

    writer = result.writeStream.foreachBatch(take).outputMode(mode).trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(checkpoint)).start()
    query.awaitTermination()
    return found, query


def everything(batches: dict[int, list[Any]]) -> list[str]:
    return sorted(repr(row) for rows in batches.values() for row in rows)


def mixed(batches: int) -> list[Rows]:
    """Return rows out of order, some of them late, without a time, before 1970; and a batch without rows."""
    made: list[Rows] = []
    for number in range(batches):
        rows: Rows = [
            (["a", "b", None][at % 3], number * 60 + at * 7 % 80 - 15, at % 5 / 2 if at % 6 else None)
            for at in range(24)
        ]
        made.append([*rows, ("b", None, 1.0), ("c", 3 + number * 40, 2.0), ("c", 1.0, 4.0)])
        # The only row of its bucket.
        made[-1] += [("late", 2.0, 1.0)] if number == 2 else []
    return [*made[:2], [], *made[2:]]


def shifted(batches: list[Rows], seconds: float) -> list[Rows]:
    """Return batches whose rows are so much later."""
    return [
        [(key, None if at is None else at + seconds, value) for key, at, value in rows] for rows in batches
    ]
