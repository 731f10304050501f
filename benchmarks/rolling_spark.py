#!/usr/bin/env python3
"""One key of all rows in Spark: rolling aggregates with and without `split`, and Spark's own frame, by task.

    python benchmarks/rolling_spark.py                 # about five minutes
    python benchmarks/rolling_spark.py --sides split   # some of it

Rows lie 10 ms apart, shuffled; asked are the sum and the maximum of the second up to each row. Spark reports
how long each task of the last stage ran. Before any clock runs, all sides must agree on fewer rows. On
`local[2]` two tasks run at once.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import pages
from pages import Record
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

SECONDS = 1
CHECKED = 100_000
"""Rows of which all sides must give the same; enough for the key to be cut."""


def rolled(frame: DataFrame, split: bool) -> DataFrame:
    """Answer by windowkit."""
    over = f"{SECONDS} second"
    aggs = [wk.sum("v").over(over).alias("a"), wk.max("v").over(over).alias("b")]
    return wk.rolling(by="key", time="ts", aggs=aggs).run(frame, split=split)


def framed(frame: DataFrame) -> DataFrame:
    """Answer by Spark's own frame."""
    by_time = Window.partitionBy("key").orderBy(sf.unix_micros("ts"))
    window = by_time.rangeBetween(-SECONDS * 1_000_000, 0)
    return frame.select("*", sf.sum("v").over(window).alias("a"), sf.max("v").over(window).alias("b"))


SIDES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "split": lambda frame: rolled(frame, split=True),
    "whole": lambda frame: rolled(frame, split=False),
    "spark": framed,
}
NAMES = {"split": "windowkit, split=True", "whole": "windowkit, split=False", "spark": "Spark's frame"}


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        records = measured(options)
        numbers = {name: getattr(options, name) for name in ("rows", "repeats", "profile")}
        pages.keep(options.output, pages.machine(["pyspark", "pyarrow"]) | numbers, records)
    pages.write(options.output, page)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=2_000_000, help="default: %(default)s")
    add("--sides", type=lambda text: text.split(","), default=list(SIDES), help="comma-separated")
    add("--repeats", type=int, default=3, help="times each side is timed; default: %(default)s")
    add("--profile", default="release", help="how the core was built, for the page; default: %(default)s")
    pages.add_arguments(parser, "rolling-spark")
    return parser.parse_args()


def measured(options: argparse.Namespace) -> list[Record]:
    """Check and measure all sides."""
    folder = Path(tempfile.mkdtemp())
    # Small partitions stay apart, as large ones would.
    spark = session(
        eventLog_enabled=True,
        eventLog_dir=folder.as_uri(),
        eventLog_compress=False,
        sql_adaptive_coalescePartitions_enabled=False,
    )
    try:
        frame = rows_of(spark, options.rows)
        few = frame.limit(CHECKED).cache()
        wanted = None
        for name in options.sides:
            # Whole values, whose sums are exact in any order.
            got = {tuple(row) for row in SIDES[name](few).collect()}
            wanted = wanted or got
            if got != wanted or len(got) != CHECKED:
                sys.exit(f"{name} is not {options.sides[0]}")
        print("the sides agree", flush=True)
        groups: dict[str, list[Record]] = {name: [] for name in options.sides}
        for turn in range(options.repeats + 1):
            for name in options.sides:
                begin = time.perf_counter()
                result = SIDES[name](frame)
                spark.sparkContext.setJobGroup(f"{name} {turn}", name)
                result.write.format("noop").mode("overwrite").save()
                seconds = round(time.perf_counter() - begin, 3)
                # The first turn does not count.
                if turn > 0:
                    groups[name].append({"turn": turn, "seconds": seconds})
                print(f"{name}: {seconds:.2f} s", flush=True)
    finally:
        spark.stop()
    tasks = tasks_of(folder)
    return [
        {"side": name, **own, "tasks": tasks[f"{name} {own['turn']}"]}
        for name, turns in groups.items()
        for own in turns
    ]


def rows_of(spark: SparkSession, rows: int) -> DataFrame:
    """Return ``key``, of which there is one, ``ts`` and ``v``, cached."""
    frame = spark.range(0, rows, 1, 4).selectExpr(
        "0 key", "timestamp_micros(1704067200000000 + id * 10000) ts", "double(pmod(hash(id), 1000)) v"
    )
    frame = frame.repartition(4, sf.xxhash64("ts")).cache()
    frame.count()
    return frame


def tasks_of(folder: Path) -> dict[str, list[float]]:
    """Return, of the last stage of each job group, how many seconds its tasks ran that had work."""
    groups: dict[str, int] = {}
    seconds: dict[int, list[float]] = {}
    lines = (line for path in folder.rglob("*") if path.is_file() for line in path.read_text().splitlines())
    for line in lines:
        if not line.startswith("{"):
            continue
        event = json.loads(line)
        if event["Event"] == "SparkListenerJobStart":
            group = event["Properties"].get("spark.jobGroup.id")
            if group is not None:
                groups[group] = max(*event["Stage IDs"], groups.get(group, 0))
        elif event["Event"] == "SparkListenerTaskEnd":
            took = event["Task Metrics"]["Executor Run Time"] / 1000
            seconds.setdefault(event["Stage ID"], []).append(took)
    return {group: seconds.get(stage, []) for group, stage in groups.items()}


def page(output: object, facts: Record, records: Sequence[Record]) -> str:
    """Return the page."""
    lines = [
        "# Rolling aggregates of one key in Spark",
        "",
        f"Written by `benchmarks/rolling_spark.py`. {facts['rows']:,} rows of one key, 10 ms apart "
        f"and shuffled, cached; asked are the sum and the maximum of the second up to each row, "
        "written to Spark's `noop`. "
        "`local[2]`, four shuffle partitions, which adaptive execution does not join; the core is of the "
        f"{facts['profile']} profile. With `split=True` the time includes the jobs that look for the key and "
        "its times.",
        "",
        *pages.listed(facts),
        "",
        f"Times are medians of {facts['repeats']} turns. Tasks are those of the last stage; the last column "
        "is the longest of them, divided by the shortest.",
        "",
        pages.header("side", "job, s", "tasks, s", "longest / shortest"),
    ]
    for name in dict.fromkeys(record["side"] for record in records):
        own = [record for record in records if record["side"] == name]
        job = median(record["seconds"] for record in own)
        each = [sorted(record["tasks"]) for record in own]
        ranked = [median(times) for times in zip(*each, strict=True)]
        spread = median(times[-1] / max(times[0], 0.001) for times in each)
        lines.append(
            pages.row(
                NAMES[name], f"{job:.2f}", ", ".join(f"{took:.2f}" for took in ranked), f"{spread:,.2f}"
            )
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
