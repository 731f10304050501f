"""Streams in Spark: windowkit against Spark's own streaming aggregation, with either of its state stores.

windowkit takes the route that its rule chooses; where that is Spark's own aggregation, it runs in either
store, and its operators are measured beside it. Rows are Parquet files, one a batch, read once to the end
(``availableNow``); results are counted and dropped. A measure is the time from start to end of the stream,
the median of ``--repeats`` in which the sides take turns, every other time in reverse, and the bytes of its
checkpoint when it has ended. Each side runs three times before, for Spark to compile; if the first takes
longer than ``--once`` seconds, it alone counts. There are as many shuffle partitions as cores, and RocksDB
writes changelogs: both are faster for all. The windows and the sum of their values must be the same on all
sides. In update mode a window counts each time that it is returned. The rows of state are Spark's, the most
and those at the end, which are the same for any number of keys that have fallen silent.

    python benchmarks/spark_streams.py --scale 0.1 --repeats 1 --record --output target/bench/spark-streams.md
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import turns
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk
from windowkit.language.windows import Session, Tumbling

STATE = "org.apache.spark.sql.execution.streaming.state"
STORE = "spark.sql.streaming.stateStore.providerClass"
OPERATOR = "windowkit, route operator"
IN_MEMORY = "windowkit, HDFS"
WARM = 3
"""Turns that do not count, as Spark compiles what it runs often."""
SIDES = {
    "windowkit": "RocksDBStateStoreProvider",
    OPERATOR: "RocksDBStateStoreProvider",
    IN_MEMORY: "HDFSBackedStateStoreProvider",
    "Spark, RocksDB": "RocksDBStateStoreProvider",
    "Spark, HDFS": "HDFSBackedStateStoreProvider",
}


@dataclass(frozen=True)
class Cell:
    """A query over a stream.

    Parameters
    ----------
    rows, batches, keys : int
        Keys take turns; with 0 of them, each two rows have a key of their own, and no later row has it.
    step : float
        Seconds between two rows of a key; with keys of their own, between the keys.
    window : wk.Window
    own : callable
        Returns Spark's own window.
    agg : wk.Aggregate
    value : callable
        Returns Spark's own aggregate; None where it refuses to compute the like over a stream.
    mode : {"append", "update"}
    """

    rows: int
    batches: int
    keys: int
    step: float
    window: wk.Window
    own: Callable[[], Column]
    agg: wk.Aggregate = field(default_factory=lambda: wk.sum("v"))
    value: Callable[[], Column] | None = lambda: sf.sum("v")
    mode: str = "append"

    @property
    def delay(self) -> str:
        """Of the watermark: more than the disorder of the rows."""
        return f"{2 * self.step if self.keys else 1} seconds"

    @property
    def is_sparks(self) -> bool:
        """Whether the rule takes Spark's own aggregation; elsewhere there are operators alone, in RocksDB."""
        is_session = isinstance(self.window, Session) and self.mode == "append"
        return is_session or isinstance(self.window, Tumbling)


def sliding(size: str, slide: str) -> tuple[wk.Window, Callable[[], Column]]:
    return wk.sliding(size, slide), lambda: sf.window("ts", size, slide)


def tumbling() -> tuple[wk.Window, Callable[[], Column]]:
    return wk.tumbling("10 seconds"), lambda: sf.window("ts", "10 seconds")


def sessions() -> tuple[wk.Window, Callable[[], Column]]:
    return wk.session("2 seconds"), lambda: sf.session_window("ts", "2 seconds")


def m4() -> Column:
    """Return what `wk.m4` does, of Spark's functions."""
    ends = [sf.min_by("v", "ts").alias("first"), sf.max_by("v", "ts").alias("last")]
    return sf.struct(*ends, sf.min("v").alias("min"), sf.max("v").alias("max"))


SMALL = (200_000, 20, 1024, 1.0, *sliding("60 seconds", "1 second"))
CELLS = {
    "600 s by 10 s, 16 rows a slice": Cell(
        2_000_000, 10, 1024, 10 / 16, *sliding("600 seconds", "10 seconds")
    ),
    "60 s by 1 s, one row a slice": Cell(1_000_000, 20, 1024, 1.0, *sliding("60 seconds", "1 second")),
    "60 s by 1 s, update mode": Cell(*SMALL, mode="update"),
    "60 s by 1 s, medians": Cell(*SMALL, wk.median("v"), lambda: sf.median("v")),
    "60 s by 1 s, distinct values": Cell(*SMALL, wk.count_distinct("v"), None),
    "60 s by 1 s, M4": Cell(*SMALL, wk.m4("v"), m4),
    "sessions": Cell(1_000_000, 10, 1024, 1.0, *sessions()),
    "sessions, update mode": Cell(1_000_000, 10, 1024, 1.0, *sessions(), value=None, mode="update"),
    "batches of 1,000 rows, tumbling": Cell(40_000, 40, 64, 1.0, *tumbling()),
    "batches of 200,000 rows, tumbling": Cell(2_000_000, 10, 1024, 1.0, *tumbling()),
    "batches of 1,000,000 rows, tumbling": Cell(6_000_000, 6, 1024, 1.0, *tumbling()),
    "batches of 1,000,000 rows, sessions": Cell(6_000_000, 6, 1024, 1.0, *sessions()),
    "a million keys that fall silent, tumbling": Cell(2_000_000, 20, 0, 1e-3, *tumbling()),
}


GOALS = {
    "600 s by 10 s, 16 rows a slice": 5,
    "60 s by 1 s, one row a slice": 3.5,
    "60 s by 1 s, medians": 20,
    "60 s by 1 s, M4": 20,
    "sessions": 0.97,
    "batches of 1,000 rows, tumbling": 0.97,
    "batches of 200,000 rows, tumbling": 0.97,
    "batches of 1,000,000 rows, tumbling": 0.97,
    "batches of 1,000,000 rows, sessions": 0.97,
    "a million keys that fall silent, tumbling": 0.97,
}
"""How many times as many rows a second as Spark, each in the better of its stores."""
BYTES = 8
"""How many times as many bytes the smaller of Spark's checkpoints is to have, where windows overlap."""


def write(cell: Cell, folder: Path) -> None:
    """Write the rows of a cell: disorder of up to two steps, pauses of a tenth of all steps, and an end.

    The end is a row that makes all windows before it final, and one that does so with its own.
    """
    draw = np.random.default_rng(7)
    numbers = np.arange(cell.rows)
    keys = numbers % cell.keys if cell.keys else numbers // 2
    steps = numbers // (cell.keys or 2)
    seconds = (steps + steps // 9) * cell.step + draw.integers(0, 2, cell.rows) * cell.step / 2
    table = pa.table(
        {
            "k": keys,
            "ts": pa.array((seconds * 1e6).astype("int64"), pa.timestamp("us", "UTC")),
            "v": draw.integers(0, 1000, cell.rows).astype("float64"),
        }
    )
    each = -(-cell.rows // cell.batches)
    for number in range(cell.batches):
        part = table.slice(number * each, each)
        if number == cell.batches - 1:
            ends = [int((seconds.max() + more) * 1e6) for more in (10_000, 20_000)]
            end = {"k": [0, 0], "ts": pa.array(ends, table["ts"].type), "v": [0.0, 0.0]}
            part = pa.concat_tables([part, pa.table(end)])
        # Spark reads files in the order of their times.
        pq.write_table(part, folder / f"{number:04}.parquet")
        time.sleep(0.005)


def result(cell: Cell, side: str, frame: DataFrame) -> DataFrame | None:
    """Return the windows of a cell; None if the side cannot compute them."""
    if side.startswith("windowkit"):
        # The columns of Spark's own window(...), so that all sides return the same.
        query = wk.query(
            by="k", time="ts", windows=cell.window, aggs=cell.agg.alias("s"), window_columns="struct"
        )
        if side != "windowkit" and not cell.is_sparks:
            return None
        return query.run(frame, output_mode=cell.mode, route="operator" if side == OPERATOR else None)
    if cell.value is None:
        return None
    return frame.groupBy("k", cell.own()).agg(cell.value().alias("s"))


def measure(spark: SparkSession, cell: Cell, side: str, folder: Path) -> dict[str, Any] | None:
    """Run a stream from a new checkpoint to its end."""
    spark.conf.set(STORE, f"{STATE}.{SIDES[side]}")
    reader = spark.readStream.schema("k bigint, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    windows = result(cell, side, reader.parquet(str(folder)).withWatermark("ts", cell.delay))
    if windows is None:
        return None
    of = "s.max" if "max" in getattr(windows.schema["s"].dataType, "names", ()) else "s"
    watched = windows.observe("all", sf.count("s").alias("windows"), sf.sum(of).alias("sum"))
    checkpoint = tempfile.mkdtemp()
    try:
        writer = watched.writeStream.format("noop").outputMode(cell.mode)
        writer = writer.option("checkpointLocation", checkpoint)
        start = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        seconds = time.perf_counter() - start
        progress = query.recentProgress
        counts = [each.observedMetrics["all"] for each in progress]
        state = [sum(each.numRowsTotal for each in batch.stateOperators) for batch in progress]
        return {
            "seconds": seconds,
            "batch": statistics.median(each.durationMs["triggerExecution"] for each in progress[1:]),
            "bytes": sum(each.stat().st_size for each in Path(checkpoint).rglob("*") if each.is_file()),
            "state rows": max(state),
            "left": state[-1],
            "windows": sum(each["windows"] for each in counts),
            "sum": sum(each["sum"] or 0 for each in counts),
        }
    finally:
        shutil.rmtree(checkpoint)


def measured(options: argparse.Namespace) -> Iterator[pages.Record]:
    """Run the cells asked for."""
    changelogs = {"sql_streaming_stateStore_rocksdb_changelogCheckpointing_enabled": True}
    spark = session(sql_shuffle_partitions=2, **changelogs)
    for name in options.cells:
        cell = CELLS[name]
        rows = max(int(cell.rows * options.scale), cell.batches)
        cell = replace(cell, rows=rows)
        with tempfile.TemporaryDirectory() as folder:
            write(cell, Path(folder))
            runs: dict[str, list[dict[str, Any]]] = {side: [] for side in options.sides}
            for turn in range(options.repeats + WARM):
                for side, those in [*runs.items()][:: -1 if turn % 2 else 1]:
                    if turn and (not those or those[0]["seconds"] > options.once):
                        continue
                    found = measure(spark, cell, side, Path(folder))
                    if found is not None:
                        those.append(found)
                        print(name, side, found, flush=True)
        answers = {(run["windows"], run["sum"]) for those in runs.values() for run in those}
        assert len(answers) == 1, f"{name}: sides differ: {answers}"
        counted = {side: those[WARM:] or those for side, those in runs.items()}
        yield {"cell": name, "rows": rows, "runs": counted}
    spark.stop()


def page(_: Path, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    lines = [
        "# Spark: streams",
        "",
        "Written by `benchmarks/spark_streams.py --record`, whose head says what is measured. Medians.",
        "",
        *pages.listed(facts),
        "",
        *reached(records),
        "",
        "| | | rows | seconds | rows/s | ms a batch | checkpoint, MB | rows of state | at the end |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for record in records:
        for side, runs in record["runs"].items():
            if not runs and side in (OPERATOR, IN_MEMORY):
                continue  # They are for what Spark's own aggregation computes.
            if not runs:
                lines.append(pages.row(record["cell"], side, "refuses", *[""] * 6))
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
                    f"{middle['left']:,.0f}",
                )
            )
    return "\n".join(lines) + "\n"


def reached(records: list[pages.Record]) -> list[str]:
    """Return the lines that compare both in the better of their stores, and goals."""
    lines = [
        f"| | times as fast as Spark | goal | times as many bytes in Spark's checkpoint (goal: {BYTES}) |",
        "|---|--:|--:|--:|",
    ]
    for record in records:
        runs = record["runs"]

        def best(name: str, runs: dict[str, list[pages.Record]] = runs) -> float:
            stores = [each for side, each in runs.items() if side.startswith("Spark") and each]
            ours = [runs[side] for side in ("windowkit", IN_MEMORY) if runs.get(side)]
            theirs, own = (
                min(statistics.median(run[name] for run in each) for each in those)
                for those in (stores, ours)
            )
            return theirs / own

        if not any(runs[side] for side in runs if side.startswith("Spark")):
            lines.append(pages.row(record["cell"], "Spark refuses", "", ""))
            continue
        goal = GOALS.get(record["cell"])
        overlaps = " by " in record["cell"]
        lines.append(
            pages.row(
                record["cell"],
                f"{best('seconds'):.2f}",
                "" if goal is None else f"{goal:.3g}",
                f"{best('bytes'):.1f}" if overlaps else "",
            )
        )
    return lines


def main() -> None:
    """Run the cells, and write the page."""
    parser = argparse.ArgumentParser(description="Streams in Spark.")
    parser.add_argument("--cells", nargs="+", default=[*CELLS], choices=CELLS, metavar="CELL")
    parser.add_argument("--sides", nargs="+", default=[*SIDES], choices=SIDES, metavar="SIDE")
    parser.add_argument("--scale", type=float, default=1.0, help="of the rows of each cell")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--once", type=float, default=100, help="seconds; what takes longer runs once")
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "spark-streams")
    options = parser.parse_args()
    if not options.page:
        settings = (
            f"local[2], 2 shuffle partitions, RocksDB with changelog checkpointing, {options.repeats} runs, "
            f"scale {options.scale:g}"
        )
        facts = pages.machine(("pyarrow",), pyspark=pyspark.__version__) | {"settings": settings}
        turns.keep(options, facts, measured(options))
    if options.page or options.record:
        pages.write(options.output, page)


if __name__ == "__main__":
    main()
