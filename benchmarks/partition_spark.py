"""Partitioners in Spark: the skewed job, and the queries of Katsipoulakis et al. 2017, with measured stages.

A job has three stages (Fig. 3): rows are partitioned; each partition makes partial results of its rows, in a
Python worker, by pyarrow's ``group_by`` (sum, count and maximum), as work that Spark cannot do before its
shuffle; Catalyst joins partial results of one key. Jobs differ only in how rows are partitioned:

hash
    ``df.repartition(n, key)``
rebalance
    the same left to adaptive execution, which cuts partitions that are too large: ``rebalance(key)``
salted
    ``df.repartition(n, key, salt)`` with a random salt of n values
salted hot key
    the same, with a salt for the one key that is known to be hot, which the others must find
planned, streaming
    ``windowkit.spark.repartition(df, n, key)`` in both ways; the histogram counts as time
streaming, ordered
    the same with ``ordered=True``, a promise that a task which runs again reads its rows in the same order:
    the others sort them first, as Spark does before its own round robin

The skewed job runs twice: over rows that Spark has cached, and over Parquet files, which the planned way
reads once more for its histogram.

Times are of Spark's status store: how long the tasks of the second stage ran. The wall time is that of the
whole job, planning included. The median of the repeats counts, sides in turn.

    python benchmarks/partition_spark.py --rows 1000000 --jobs skewed --output target/bench/partition-spark.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pages
import pyarrow as pa
import pyspark
from partition_data import STREAMS
from plots import canvas
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk
import windowkit.spark
from windowkit.language.windows import units

SKEWED = "skewed"
SKEWED_FILES = "skewed, from Parquet"
PAPER = ("TPC-H Q1", "TPC-H Q3", "DEBS Q1", "DEBS Q2", "GCM Q1", "GCM Q2")
METHODS = ("shuffle", "hash", "partial-key", "cm", "am", "cam", "lm", "waterfill")
JOBS = (SKEWED, SKEWED_FILES, *PAPER)
Side = Callable[[DataFrame], DataFrame]


def main() -> None:
    """Measure the jobs asked for; write JSON lines, a page and a picture."""
    options = arguments()
    if not options.page:
        measure(options)
    pages.write(options.output, page)


def measure(options: argparse.Namespace) -> None:
    """Measure the jobs asked for, and keep the records."""
    most = max(options.partitions)
    # As many partitions for adaptive execution to aim at as the other sides have: about 16 bytes a row.
    size = 16 * options.rows // most
    spark = session("OFF", sql_shuffle_partitions=most, sql_adaptive_advisoryPartitionSizeInBytes=size)
    results: list[dict[str, Any]] = []
    for name in options.jobs:
        is_skewed = name in (SKEWED, SKEWED_FILES)
        frame, keys = skewed(spark, options) if is_skewed else paper(spark, name, options)
        with TemporaryDirectory() as folder:
            if name == SKEWED_FILES:
                frame.write.parquet(f"{folder}/rows")
                frame = spark.read.parquet(f"{folder}/rows")
            else:
                frame = frame.cache()
            rows = frame.count()
            for partitions in options.partitions if not is_skewed else options.partitions[-1:]:
                sides = skewed_sides(partitions) if is_skewed else paper_sides(partitions, keys)
                for result in measured(frame, keys, sides, options):
                    result = {"job": name, "rows": rows, "partitions": partitions} | result
                    results.append(result)
                    print(json.dumps(result), flush=True)
            frame.unpersist()
    spark.stop()
    facts = pages.machine(["pyarrow"], Spark=pyspark.__version__)
    facts["settings"] = f"local[2], 4 GB heap, adaptive execution on, {options.tasks} input partitions"
    pages.keep(options.output, facts | {"repeats": options.repeats}, results)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Partitioners in Spark.")
    parser.add_argument("--rows", type=int, default=10_000_000, help="of the skewed job")
    parser.add_argument("--replayed", type=int, default=1_000_000, help="rows of the replayed samples")
    parser.add_argument("--keys", type=int, default=100_000, help="of the skewed job")
    parser.add_argument(
        "--partitions",
        type=int,
        nargs="+",
        default=[8, 32],
        help="the skewed job has the last of them",
    )
    parser.add_argument("--tasks", type=int, default=8, help="input partitions")
    parser.add_argument("--jobs", nargs="+", default=JOBS, choices=JOBS)
    parser.add_argument("--repeats", type=int, default=3)
    pages.add_arguments(parser, "partition-spark")
    return parser.parse_args()


def skewed(spark: SparkSession, options: argparse.Namespace) -> tuple[DataFrame, list[str]]:
    """Return rows of which one key has three in ten, and the others the rest."""
    cold = sf.pmod(sf.xxhash64("id"), sf.lit(options.keys - 1)) + 1
    hot = sf.pmod(sf.hash("id"), sf.lit(10)) < 3
    key = sf.when(hot, sf.lit(0)).otherwise(cold).cast("bigint").alias("k0")
    return spark.range(0, options.rows, 1, options.tasks).select(key, sf.rand(7).alias("v")), ["k0"]


def paper(spark: SparkSession, name: str, options: argparse.Namespace) -> tuple[DataFrame, list[str]]:
    """Return a query's rows; each window's key is another one."""
    stream = STREAMS[name](options.replayed)
    frame = spark.createDataFrame(stream.table).repartition(options.tasks)
    if stream.window is None:
        return frame, stream.keys
    size = f"{units(stream.window.size) // 1000} microseconds"
    return frame.withColumn("kw", sf.window("ts", size).start).drop("ts"), [*stream.keys, "kw"]


def skewed_sides(n: int) -> dict[str, Side]:
    salt = (sf.rand(11) * n).cast("int")
    hot = sf.when(sf.col("k0") == 0, salt).otherwise(0)
    return {
        "hash": lambda df: df.repartition(n, "k0"),
        "rebalance": lambda df: df.hint("rebalance", "k0"),
        "salted": lambda df: df.withColumn("salt", salt).repartition(n, "k0", "salt").drop("salt"),
        "salted hot key": lambda df: df.withColumn("salt", hot).repartition(n, "k0", "salt").drop("salt"),
        "planned": lambda df: wk.spark.repartition(df, n, "k0"),
        "streaming": lambda df: wk.spark.repartition(df, n, "k0", way="streaming"),
        "streaming, ordered": lambda df: wk.spark.repartition(df, n, "k0", way="streaming", ordered=True),
    }


def paper_sides(n: int, keys: list[str]) -> dict[str, Side]:
    def ours(method: str, way: str) -> Side:
        return lambda df: wk.spark.repartition(df, n, keys, method, way=way)

    sides = {method: ours(method, "auto") for method in METHODS}
    return sides | {"waterfill, streaming": ours("waterfill", "streaming")}


class Partial:
    """The second stage: partial results of a partition's rows."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield a row for each key."""
        parts = [self.grouped(pa.table(batch), ["sum", "count", "max"]) for batch in batches]
        if parts:
            names = {"v_sum_sum": "s", "v_count_sum": "n", "v_max_max": "m"}
            joined = pa.concat_tables(parts).group_by(self.keys)
            result = joined.aggregate([("v_sum", "sum"), ("v_count", "sum"), ("v_max", "max")])
            result = result.rename_columns([names.get(name, name) for name in result.column_names])
            yield from result.select([*self.keys, "s", "n", "m"]).combine_chunks().to_batches()

    def grouped(self, table: pa.Table, functions: list[str]) -> pa.Table:
        """Return one batch's partial results, so that no more than those are held."""
        return table.group_by(self.keys).aggregate([("v", function) for function in functions])


def staged(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return the result of the second and third stage."""
    kinds = [f"`{name}` {rows.schema[name].dataType.simpleString()}" for name in keys]
    schema = ", ".join([*kinds, "s double", "n bigint", "m double"])
    partial = rows.select(*keys, "v").mapInArrow(Partial(keys), schema)
    return partial.groupBy(*keys).agg(sf.sum("s"), sf.sum("n"), sf.max("m"))


def measured(
    frame: DataFrame, keys: list[str], sides: dict[str, Side], options: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Run all sides in turn, and yield what each took."""
    context = frame.sparkSession.sparkContext
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for repeat in range(options.repeats + 1):
        for name, side in sides.items():
            group = f"{name} {repeat} {time.time()}"
            context.setJobGroup(group, name)
            began = time.perf_counter()
            staged(side(frame), keys).write.format("noop").mode("overwrite").save()
            seconds = time.perf_counter() - began
            if repeat > 0:  # The first warms up.
                tasks, partials = stage_of_rows(context, group)
                runs[name].append({"seconds": seconds, "tasks": tasks, "partials": partials})
    for name, own in runs.items():
        yield {
            "side": name,
            "seconds": [round(run["seconds"], 3) for run in own],
            "longest": [max(run["tasks"]) for run in own],
            "median": [statistics.median(run["tasks"]) for run in own],
            "tasks": len(own[-1]["tasks"]),
            "partials": own[-1]["partials"],
        }


def stage_of_rows(context: Any, group: str) -> tuple[list[int], int]:
    """Return the milliseconds of the tasks that read the shuffled rows, and the number of partial results."""
    context._jsc.sc().listenerBus().waitUntilEmpty()
    store = context._jsc.sc().statusStore()
    tracker = context.statusTracker()
    numbers = {
        stage for job in tracker.getJobIdsForGroup(group) for stage in tracker.getJobInfo(job).stageIds
    }
    stages = [store.lastStageAttempt(number) for number in numbers]
    stages = [stage for stage in stages if stage.status().toString() == "COMPLETE"]
    stage = max(stages, key=lambda data: (data.shuffleReadRecords(), data.stageId()))
    tasks = store.taskList(stage.stageId(), stage.attemptId(), 1 << 20)
    times = [tasks.apply(at).taskMetrics().get().executorRunTime() for at in range(tasks.size())]
    return times, int(stage.shuffleWriteRecords())


def page(output: Path, facts: pages.Record, results: list[pages.Record]) -> str:
    """Return the page, a table for each job; and draw its picture."""
    draw(results, output.with_suffix(".png"))
    lines = [
        "# Partitioners in Spark",
        "",
        "Written by `benchmarks/partition_spark.py`, whose head says what each side is. Medians of "
        f"{facts['repeats']} runs, sides in turn, after one run to warm up; tasks are those of the second "
        "stage, times in milliseconds.",
        "",
        *pages.listed(facts),
    ]
    for job, n in dict.fromkeys((result["job"], result["partitions"]) for result in results):
        own = [result for result in results if (result["job"], result["partitions"]) == (job, n)]
        lines += ["", f"## {job}, {own[0]['rows']:,} rows, {n} partitions", ""]
        lines.append(
            "| side | tasks | longest | median | longest / median | partial results | job, s |"
            "\n|---|--:|--:|--:|--:|--:|--:|"
        )
        for result in own:
            longest, median = statistics.median(result["longest"]), statistics.median(result["median"])
            cells = [result["side"], f"{result['tasks']:,}", f"{longest:,.0f}", f"{median:,.0f}"]
            cells += [f"{ratio(result):.2f}", f"{result['partials']:,}"]
            cells.append(f"{statistics.median(result['seconds']):.2f}")
            lines.append(pages.row(*cells))
    return "\n".join(lines) + "\n"


def ratio(result: dict[str, Any]) -> float:
    """Return the longest task's time over the median task's, the median of all runs."""
    runs = zip(result["longest"], result["median"], strict=True)
    return statistics.median(longest / max(median, 1) for longest, median in runs)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the skewed job: longest against median task, and wall time, for each side."""
    own = [result for result in results if result["job"] == SKEWED]
    if not own:
        return
    own = [result for result in own if result["partitions"] == own[0]["partitions"]]
    names = [result["side"] for result in own]
    colors = ["#2f6fb7" if name.startswith(("planned", "streaming")) else "#e0a526" for name in names]
    with canvas(path, (9, 0.4 * len(names) + 1.4), 1, 2) as (figure, ((left, right),)):
        for axes, values, label, form in (
            (left, [ratio(result) for result in own], "longest task / median task", "{:.2f}"),
            (right, [statistics.median(result["seconds"]) for result in own], "whole job, s", "{:.1f}"),
        ):
            bars = axes.barh(range(len(names)), values, color=colors)
            axes.bar_label(bars, [form.format(value) for value in values], padding=3, fontsize=8)
            axes.set_yticks(range(len(names)), names)
            axes.invert_yaxis()
            axes.set_xlim(0, max(values) * 1.15)
            axes.set_xlabel(label)
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.tick_params(axis="y", length=0)
        left.axvline(1, color="0.4", linewidth=0.8)
        title = f"{own[0]['rows']:,} rows, one key with 30 % of them, {own[0]['partitions']} partitions"
        figure.suptitle(title, x=0.01, ha="left", fontsize=11)


if __name__ == "__main__":
    main()
