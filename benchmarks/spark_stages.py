"""Where the time of a packed job goes, and how it grows with its rows.

The job is a scan of a Parquet file (a key of ``--keys``, a timestamp 10 ms after the last, a double), 10
minutes by 10 seconds, sum and max, to Spark's ``noop`` sink. Three views of it:

steps
    Timers in the tasks. A step's time is its own, without that of the steps within it, so that all steps of a
    task add up to the task; the table adds up tasks, of which two run at a time.
cut short
    The job ended after each of its stages, what was made so far dropped. A difference of neighbours is what
    a stage adds to the whole, less where it overlaps with others.
floor
    What no way of computing windows could leave out: a job that only reads the columns, one that only moves
    as many packed bytes in as many chunks, and one that only writes as many rows; each less what a job of its
    shape takes that does nothing, which is counted once. What is left of the whole job above their sum is
    computation, and what it does not overlap with.

Scale is the same job for more rows, as a scan and over ``spark.read.parquet``.

    python benchmarks/spark_stages.py --rows 4000000 --scale 4000000 16000000 64000000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pages
import pyarrow as pa
import pyarrow.parquet as pq
from plots import stacks
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col
from spark_grid import BY_TEN, ROW_GROUP, START, machine, ones
from spark_session import seconds, session

import windowkit as wk
from windowkit.local.query import shaped_schema
from windowkit.spark.jobs.reference import result_schema
from windowkit.spark.parquet import reading
from windowkit.spark.routes import ReadAndPack, packed, stages
from windowkit.spark.routes.scan import Dropped as WithoutTime
from windowkit.spark.scans import checked
from windowkit.spark.scans.fallback import Left
from windowkit.spark.shipping import packing, shipped

QUERY = wk.query(by="k", time="ts", windows=BY_TEN[1], aggs=[wk.sum("v"), wk.max("v")])
STEPS = {
    "read": "Parquet to Arrow",
    "slice": "rows to slices",
    "group": "slices by bucket of keys",
    "pack": "Arrow IPC, LZ4, checksum",
    "hand over": "chunks to the JVM",
    "receive": "waiting for stage 1's chunks and for the JVM",
    "unpack": "checksum, LZ4, Arrow IPC",
    "combine": "slices into the engine",
    "windows": "windows of slices",
    "out": "windows to the JVM",
    "other": "Python between these",
}

WHOLE = "+ rows to the JVM: the whole job"


class Clock:
    """Time by step; a step within a step is not counted twice."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.stack = ["other"]
        self.last = time.perf_counter()

    def switch(self) -> None:
        """Charge what passed to the step that is on."""
        now = time.perf_counter()
        step = self.stack[-1]
        self.spent[step] = self.spent.get(step, 0.0) + now - self.last
        self.last = now

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Charge a block to a step."""
        self.switch()
        self.stack.append(name)
        try:
            yield
        finally:
            self.switch()
            self.stack.pop()

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose calls are a step."""

        def run(*arguments: Any, **named: Any) -> Any:
            with self.step(name):
                return function(*arguments, **named)

        return run

    def each(self, name: str, items: Any) -> Iterator[Any]:
        """Yield items; to get each is a step."""
        items = iter(items)
        while True:
            with self.step(name):
                try:
                    item = next(items)
                except StopIteration:
                    return
            yield item


class TimedPlan:
    """A plan of the core whose engines are timed."""

    def __init__(self, plan: Any, clock: Clock) -> None:
        self.plan, self.clock = plan, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plan, name)

    def split(self, *arguments: Any) -> Any:
        """Deal rows out to buckets."""
        return self.clock.timed("group", self.plan.split)(*arguments)

    def engine(self) -> Any:
        """Return an engine."""
        return TimedEngine(self.plan.engine(), self.clock)


class TimedEngine:
    """An engine of the core, timed."""

    def __init__(self, engine: Any, clock: Clock) -> None:
        self.engine, self.clock = engine, clock
        self.push = clock.timed("slice", engine.push)
        self.slices = clock.timed("group", engine.slices)
        self.push_slices = clock.timed("combine", engine.push_slices)

    @property
    def slots(self) -> int:
        """As the engine has them."""
        return int(self.engine.slots)

    def finish(self) -> Iterator[Any]:
        """Yield the windows."""
        with self.clock.step("windows"):
            batches = self.engine.finish()
        return self.clock.each("windows", batches)


@contextmanager
def patched(clock: Clock) -> Iterator[None]:
    """Have the steps of this worker's tasks timed."""
    plan, unpack, batches = stages.plan, packing.unpack, reading.batches
    body_of, header = packing.body_of, packing.header
    stages.plan = lambda *arguments: TimedPlan(plan(*arguments), clock)  # type: ignore[assignment]
    packing.body_of = clock.timed("pack", body_of)
    packing.header = clock.timed("pack", header)
    packing.unpack = clock.timed("unpack", unpack)
    reading.batches = lambda *arguments: clock.each("read", batches(*arguments))
    try:
        yield
    finally:
        stages.plan, packing.unpack, reading.batches = plan, unpack, batches
        packing.body_of, packing.header = body_of, header


@dataclass(frozen=True)
class Timed:
    """A task that writes down how long its steps took."""

    task: Any
    stage: str
    folder: str

    @property
    def query(self) -> wk.Query:
        """The query it is part of."""
        return QUERY

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task does."""
        clock = Clock()
        out = "hand over" if self.stage == "stage 1" else "out"
        with patched(clock):
            for batch in self.task(clock.each("receive", batches)):
                with clock.step(out):
                    yield batch
        clock.switch()
        record = Path(self.folder) / f"{self.stage} {uuid.uuid4().hex}"
        record.write_text(json.dumps(clock.spent))


@dataclass(frozen=True)
class Dropped:
    """Runs a task, or nothing, and yields none of what it makes."""

    task: Any = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        for _ in batches if self.task is None else self.task(batches):
            pass
        return
        yield


@dataclass(frozen=True)
class Reading:
    """Reads what a scan's task reads, and no more."""

    task: ReadAndPack

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield nothing."""
        for _ in self.task.rows(batches, WithoutTime()):
            pass
        return
        yield


@dataclass(frozen=True)
class Chunks:
    """Yields chunks of bytes that nobody made: so many, of so many bytes in all, over the buckets."""

    buckets: tuple[int, ...]
    count: int
    bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield them, some MiB at a time."""
        chunk = os.urandom(max(self.bytes // max(self.count, 1), 1))
        most = max(stages.LIMITS.yielded // len(chunk), 1)
        for _ in batches:
            for first in range(0, self.count, most):
                those = range(first, min(first + most, self.count))
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([self.buckets[at % len(self.buckets)] for at in those], pa.int32()),
                        pa.array([chunk] * len(those), pa.binary()),
                        pa.array([0] * len(those), pa.int64()),
                        pa.array([0] * len(those), pa.int64()),
                    ],
                    schema=stages.CHUNKS,
                )


@dataclass(frozen=True)
class Rows:
    """Yields so many rows, all of one batch."""

    whole: pa.RecordBatch
    count: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield them."""
        for _ in batches:
            for first in range(0, self.count, self.whole.num_rows):
                yield self.whole.slice(0, min(self.whole.num_rows, self.count - first))


def main() -> None:
    """Measure; write JSON lines and a page."""
    parser = argparse.ArgumentParser(description="Where the time of a packed job goes.")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--keys", type=int, default=1024)
    parser.add_argument("--scale", type=int, nargs="*", default=[4_000_000, 16_000_000, 64_000_000])
    parser.add_argument("--repeats", type=int, default=5)
    pages.add_arguments(parser, "spark-stages")
    options = parser.parse_args()
    if not options.page:
        measure(options)
    pages.write(options.output, page)


def measure(options: argparse.Namespace) -> None:
    """Measure one job and the same with more rows, and keep the records."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        write(path, options.rows, options.keys)
        result = measured(spark, path, options)
        print(json.dumps(result), flush=True)
        os.remove(path)
        scale = []
        for rows in options.scale:
            write(path, rows, options.keys)
            scale.append(scaled(spark, path, rows, options))
            print(json.dumps(scale[-1]), flush=True)
            os.remove(path)
    facts = machine(spark) | {"repeats": options.repeats}
    spark.stop()
    pages.keep(options.output, facts, [{"keys": options.keys, **result}, *scale])


def floor_of(of: dict[str, float]) -> dict[str, float]:
    """Return the parts of the floor, of medians of all jobs."""
    one = of["floor: nothing, in one stage"]
    return {
        "a job of two stages that does nothing": of["nothing"],
        "reading the columns": of["read"] - one,
        "moving the bytes": of["floor: moving the bytes"] - of["nothing"],
        "writing the rows": of["floor: writing the rows"] - one,
    }


def write(path: str, rows: int, keys: int) -> None:
    """Write a file of rows in order of time, in row groups as Spark's own writer makes them."""
    chance = np.random.default_rng(7)
    schema = pa.schema({"k": pa.int32(), "ts": pa.timestamp("us", "UTC"), "v": pa.float64()})
    with pq.ParquetWriter(path, schema) as target:
        for first in range(0, rows, ROW_GROUP):
            count = min(ROW_GROUP, rows - first)
            times = START + np.arange(first, first + count) * 10_000
            columns = [
                pa.array(chance.integers(0, keys, count, np.int32)),
                pa.array(times).cast(schema.field("ts").type),
                pa.array(chance.random(count)),
            ]
            target.write_table(pa.table(columns, schema=schema))


def measured(spark: SparkSession, path: str, options: argparse.Namespace) -> dict[str, Any]:
    """Return the three views of the job."""
    scanned = checked(spark, path, QUERY, None, None, False, None, None)
    assert not isinstance(scanned, Left), scanned.reason
    scan = scanned.scan
    task = scan.stage_1()
    unpack = stages.Unpack(QUERY, scan.schema)
    schema = result_schema(scan)
    tasks = len(scan.tasks)
    partitions, _ = packed.buckets(scan)
    numbers = spark.range(0, tasks, 1, tasks)

    def made(stage: Any, *, of_chunks: str = packed.CHUNKS) -> DataFrame:
        return numbers.mapInArrow(shipped(stage, "benchmark"), of_chunks)

    def moved(chunks: DataFrame) -> DataFrame:
        placed = chunks.repartition(col("bucket")).sortWithinPartitions("bucket")
        return placed.select("bucket", "chunk")

    def windows(chunks: DataFrame, stage: Any) -> DataFrame:
        return moved(chunks).mapInArrow(shipped(stage, "benchmark"), schema)

    counted = made(task).selectExpr(
        "count(1)", "sum(length(chunk))", "sum(slices)", "count(if(slices = 0, 1, null))"
    )
    count, size, slices, of_rows = counted.first() or (0, 0, 0, 0)
    out = windows(made(task), unpack).count()
    names = tuple(stages.names(*packed.buckets(scan)))
    planned = shaped_schema(pa.schema(scan.plan.output_schema), QUERY)
    any_rows = pa.RecordBatch.from_arrays([ones(kind) for kind in planned.types], schema=planned)
    jobs: dict[str, Callable[[], DataFrame]] = {
        "nothing": lambda: windows(made(Dropped()), Dropped()),
        "read": lambda: made(Reading(task)),
        "+ slice, pack": lambda: made(Dropped(task)),
        "+ chunks to the JVM": lambda: made(task),
        "+ shuffle, sort": lambda: moved(made(task)),
        "+ chunks to Python": lambda: windows(made(task), Dropped()),
        "+ unpack, windows": lambda: windows(made(task), Dropped(unpack)),
        WHOLE: lambda: windows(made(task), unpack),
        "floor: nothing, in one stage": lambda: made(Dropped()),
        "floor: moving the bytes": lambda: windows(
            made(Chunks(names, -(-count // tasks), -(-size // tasks))), Dropped()
        ),
        "floor: writing the rows": lambda: spark.range(0, partitions, 1, partitions).mapInArrow(
            shipped(Rows(any_rows, -(-out // partitions)), "benchmark"), schema
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(options.repeats + 1):
        for name, make in jobs.items():
            took = seconds(make)
            if turn:
                times[name].append(round(took, 3))
    with tempfile.TemporaryDirectory() as folder:
        windows(made(Timed(task, "stage 1", folder)), Timed(unpack, "stage 2", folder)).count()
        for each in Path(folder).iterdir():
            each.unlink()
        seconds(lambda: windows(made(Timed(task, "stage 1", folder)), Timed(unpack, "stage 2", folder)))
        steps = [(each.name[:7], json.loads(each.read_text())) for each in sorted(Path(folder).iterdir())]
    return {
        "rows": options.rows,
        "chunks": count,
        "packed bytes": size,
        "slices": slices,
        "chunks of rows": of_rows,
        "windows": out,
        "tasks": [tasks, sum(stage == "stage 2" for stage, _ in steps)],
        "steps": {
            stage: {
                step: round(sum(spent.get(step, 0.0) for at, spent in steps if at == stage), 3)
                for step in STEPS
            }
            for stage in ("stage 1", "stage 2")
        },
        "seconds": times,
    }


def scaled(spark: SparkSession, path: str, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """Return the times of the job for so many rows, as a scan and over a DataFrame."""
    sides: dict[str, Callable[[], DataFrame]] = {
        "scan": lambda: wk.spark.scan(spark, path, QUERY),
        "DataFrame": lambda: QUERY.run(spark.read.parquet(path)),
    }
    times: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(min(options.repeats, 3) + 1):
        for name, side in sides.items():
            took = seconds(side)
            if turn:
                times[name].append(round(took, 3))
    return {"rows": rows, "seconds": times}


def page(output: Path, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page, and draw its picture."""
    result, *scale = records
    picture = output.with_name(f"{output.stem}_steps.png")
    stacks(result["steps"], "Steps of all tasks, two at a time", "seconds", picture, 0.03)
    of = {name: statistics.median(times) for name, times in result["seconds"].items()}
    whole = of[WHOLE]
    lines = [
        "# Spark: where the time goes",
        "",
        "Written by `benchmarks/spark_stages.py`, whose head says what is measured: a scan of "
        f"{result['rows']:,} rows, {result['keys']:,} keys, 10 minutes by 10 s. Medians of "
        f"{facts['repeats']} runs, sides in turn, after one to warm up; planning included.",
        "",
        *pages.listed(facts),
        f"- made: {result['slices']:,} slices in {result['chunks']:,} chunks ({result['chunks of rows']:,} "
        f"of them of rows), {result['packed bytes']:,} bytes; {result['windows']:,} windows",
        "",
        "## Steps in the tasks",
        "",
        "Seconds of all tasks together, of which two run at a time.",
        "",
        f"![Steps]({picture.name})",
        "",
        f"| step | | stage 1, {result['tasks'][0]} tasks | stage 2, {result['tasks'][1]} tasks |",
        "|---|---|--:|--:|",
    ]
    for step, what in STEPS.items():
        first, second = (result["steps"][stage][step] for stage in ("stage 1", "stage 2"))
        if max(first, second) >= 0.0005:
            lines.append(f"| {step} | {what} | {blank(first)} | {blank(second)} |")
    sums = [sum(result["steps"][stage].values()) for stage in ("stage 1", "stage 2")]
    lines += [f"| sum | | {sums[0]:.2f} | {sums[1]:.2f} |", "", "## The job cut short", ""]
    lines += ["| job | seconds | more than before |", "|---|--:|--:|"]
    before = None
    for name, took in of.items():
        if not name.startswith("floor"):
            lines.append(f"| {name} | {took:.2f} | {'' if before is None else f'{took - before:+.2f}'} |")
            before = took
    floor = floor_of(of)
    left = whole - sum(floor.values())
    lines += [
        "",
        "## Above the floor",
        "",
        "| | seconds |",
        "|---|--:|",
        *(f"| {name} | {took:.2f} |" for name, took in floor.items()),
        f"| their sum | {sum(floor.values()):.2f} |",
        f"| the whole job | {whole:.2f} |",
        f"| left above the sum | {left:.2f} ({left / whole:.0%}) |",
    ]
    if scale:
        lines += ["", "## Scale", "", "Microseconds per row, and times that of the fewest rows.", ""]
        lines += ["| rows | scan | | DataFrame | |", "|--:|--:|--:|--:|--:|"]
        per_row = [
            {name: statistics.median(times) / each["rows"] * 1e6 for name, times in each["seconds"].items()}
            for each in scale
        ]
        for each, cost in zip(scale, per_row, strict=True):
            ratios = {name: took / per_row[0][name] for name, took in cost.items()}
            cells = [f"{cost[name]:.3f} | {ratios[name]:.2f}" for name in ("scan", "DataFrame")]
            lines.append(f"| {each['rows']:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def blank(number: float) -> str:
    return "" if number < 0.0005 else f"{number:.2f}"


if __name__ == "__main__":
    main()
