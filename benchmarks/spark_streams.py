"""Streams in Spark: windowkit against Spark's own streaming aggregation, with either of its state stores.

Rows are Parquet files, one a batch, read once to the end (``availableNow``); results are counted and dropped.
A measure is the time from start to end of the stream, the median of ``--repeats`` in which the sides take
turns, and the bytes of its checkpoint. The windows and the sum of their values must be the same on all sides.

    python benchmarks/spark_streams.py --scale 0.1 --repeats 1 --output target/bench/spark-streams.md
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

STATE = "org.apache.spark.sql.execution.streaming.state"
STORE = "spark.sql.streaming.stateStore.providerClass"
SIDES = {
    "windowkit": "RocksDBStateStoreProvider",
    "Spark, RocksDB": "RocksDBStateStoreProvider",
    "Spark, HDFS": "HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True)
class Cell:
    """A query over a stream.

    Parameters
    ----------
    rows, batches, keys : int
    step : float
        Seconds between two rows of a key.
    window : wk.Window
    own : callable
        Returns Spark's own window; None where Spark has no such aggregate of a stream.
    agg : wk.Aggregate
    """

    rows: int
    batches: int
    keys: int
    step: float
    window: wk.Window
    own: Callable[[], Column] | None
    agg: wk.Aggregate


def sliding(size: str, slide: str) -> tuple[wk.Window, Callable[[], Column]]:
    return wk.sliding(size, slide), lambda: sf.window("ts", size, slide)


CELLS = {
    "600 s by 10 s, 16 rows a slice": Cell(
        2_000_000, 10, 1024, 10 / 16, *sliding("600 seconds", "10 seconds"), wk.sum("v")
    ),
    "60 s by 1 s, one row a slice": Cell(
        1_000_000, 20, 1024, 1.0, *sliding("60 seconds", "1 second"), wk.sum("v")
    ),
    "the same, medians": Cell(
        200_000, 20, 1024, 1.0, wk.sliding("60 seconds", "1 second"), None, wk.median("v")
    ),
    "sessions": Cell(
        1_000_000,
        10,
        1024,
        1.0,
        wk.session("2 seconds"),
        lambda: sf.session_window("ts", "2 seconds"),
        wk.sum("v"),
    ),
    "batches of 1,000 rows, tumbling": Cell(
        40_000, 40, 64, 1.0, wk.tumbling("10 seconds"), lambda: sf.window("ts", "10 seconds"), wk.sum("v")
    ),
}


def write(cell: Cell, folder: Path) -> None:
    """Write the rows of a cell: keys in turn, disorder of up to two steps, pauses of a tenth of all steps."""
    draw = np.random.default_rng(7)
    numbers = np.arange(cell.rows)
    steps = numbers // cell.keys
    seconds = (steps + steps // 9) * cell.step + draw.integers(0, 2, cell.rows) * cell.step / 2
    table = pa.table(
        {
            "k": numbers % cell.keys,
            "ts": pa.array((seconds * 1e6).astype("int64"), pa.timestamp("us", "UTC")),
            "v": draw.integers(0, 1000, cell.rows).astype("float64"),
        }
    )
    each = -(-cell.rows // cell.batches)
    for number in range(cell.batches):
        # Spark reads files in the order of their times.
        pq.write_table(table.slice(number * each, each), folder / f"{number:04}.parquet")
        time.sleep(0.005)


def result(cell: Cell, side: str, frame: DataFrame) -> DataFrame | None:
    """Return the windows of a cell; None if the side cannot compute them."""
    if side == "windowkit":
        return wk.query(by="k", time="ts", windows=cell.window, aggs=cell.agg.alias("s")).run(frame)
    if cell.own is None:
        return None
    return frame.groupBy("k", cell.own()).agg(sf.sum("v").alias("s"))


def measure(spark: SparkSession, cell: Cell, side: str, folder: Path) -> dict[str, Any] | None:
    """Run a stream from a new checkpoint to its end."""
    spark.conf.set(STORE, f"{STATE}.{SIDES[side]}")
    reader = spark.readStream.schema("k bigint, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    windows = result(cell, side, reader.parquet(str(folder)).withWatermark("ts", f"{2 * cell.step} seconds"))
    if windows is None:
        return None
    watched = windows.observe("all", sf.count("s").alias("windows"), sf.sum("s").alias("sum"))
    checkpoint = tempfile.mkdtemp()
    try:
        writer = watched.writeStream.format("noop").option("checkpointLocation", checkpoint)
        start = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - start
        progress = query.recentProgress
        counts = [each.observedMetrics["all"] for each in progress]
        return {
            "seconds": seconds,
            "batch": statistics.median(each.durationMs["triggerExecution"] for each in progress[1:]),
            "bytes": sum(each.stat().st_size for each in Path(checkpoint).rglob("*") if each.is_file()),
            "state rows": max(sum(state.numRowsTotal for state in each.stateOperators) for each in progress),
            "windows": sum(each["windows"] for each in counts),
            "sum": sum(each["sum"] or 0 for each in counts),
        }
    finally:
        shutil.rmtree(checkpoint)


def measured(options: argparse.Namespace) -> None:
    """Run the cells asked for, and keep the records."""
    spark = session()
    records = []
    for name in options.cells:
        cell = CELLS[name]
        rows = max(int(cell.rows * options.scale), cell.batches)
        cell = Cell(**{**vars(cell), "rows": rows})
        with tempfile.TemporaryDirectory() as folder:
            write(cell, Path(folder))
            runs: dict[str, list[dict[str, Any]]] = {side: [] for side in options.sides}
            for _ in range(options.repeats + 1):
                for side in options.sides:
                    found = measure(spark, cell, side, Path(folder))
                    if found is not None:
                        runs[side].append(found)
                        print(name, side, found, flush=True)
        answers = {(run["windows"], run["sum"]) for those in runs.values() for run in those}
        assert len(answers) == 1, f"{name}: sides differ: {answers}"
        # The first run of each side is for Spark to compile.
        records.append(
            {"cell": name, "rows": rows, "runs": {side: those[1:] for side, those in runs.items()}}
        )
    settings = f"local[2], 4 shuffle partitions, {options.repeats} runs, scale {options.scale:g}"
    facts = pages.machine(("pyarrow",), pyspark=pyspark.__version__) | {"settings": settings}
    spark.stop()
    pages.keep(options.output, facts, records)


def page(_: Path, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    lines = [
        "# Spark: streams",
        "",
        "Written by `benchmarks/spark_streams.py`, whose head says what is measured. Medians.",
        "",
        *pages.listed(facts),
        "",
        "| | | rows | seconds | rows/s | ms a batch | checkpoint, MB | rows of state |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for record in records:
        for side, runs in record["runs"].items():
            if not runs:
                lines.append(pages.row(record["cell"], side, "cannot", *[""] * 5))
                continue
            middle = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
            lines.append(
                pages.row(
                    record["cell"],
                    side,
                    f"{record['rows']:,}",
                    f"{middle['seconds']:.1f}",
                    f"{record['rows'] / middle['seconds']:,.0f}",
                    f"{middle['batch']:,.0f}",
                    f"{middle['bytes'] / 1e6:.1f}",
                    f"{middle['state rows']:,.0f}",
                )
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the cells, and write the page."""
    parser = argparse.ArgumentParser(description="Streams in Spark.")
    parser.add_argument("--cells", nargs="+", default=[*CELLS], choices=CELLS, metavar="CELL")
    parser.add_argument("--sides", nargs="+", default=[*SIDES], choices=SIDES, metavar="SIDE")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows of each cell")
    parser.add_argument("--repeats", type=int, default=5)
    pages.add_arguments(parser, "spark-streams")
    options = parser.parse_args()
    if not options.page:
        measured(options)
    pages.write(options.output, page)


if __name__ == "__main__":
    main()
