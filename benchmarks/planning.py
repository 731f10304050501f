"""How long Spark takes to plan a call of windowkit, and a query of its own, which take turns.

A query is planned up to its physical plan, and no row is read. A call is what the goals are of; the rest is
Spark's own planning of what it returns. Then how many requests of the JVM the call makes, which does not
depend on the machine. Over files, of which there are four, tasks read them; otherwise Spark does.

    python benchmarks/planning.py                 # a minute
    python benchmarks/planning.py --record        # keep the records, and write the page
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import goals
import pages
from goals import Cells, Goal
from pages import Record
from py4j.clientserver import JavaClient
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

WARM = 30
OWN = "Spark, tumbling"


def planned(make: Callable[[], DataFrame]) -> tuple[float, float]:
    """Return the milliseconds of a call, and of the rest of planning."""
    began = time.perf_counter()
    result = make()
    called = time.perf_counter()
    result._jdf.queryExecution().executedPlan()
    return 1e3 * (called - began), 1e3 * (time.perf_counter() - called)


def requests(make: Callable[[], DataFrame]) -> int:
    """Return how many requests of the JVM a call makes, but for those that let go of what was returned."""
    made, send = 0, JavaClient.send_command

    def counted(self: JavaClient, command: str, *more: Any, **options: Any) -> Any:
        nonlocal made
        made += not command.startswith("m\n")
        return send(self, command, *more, **options)

    JavaClient.send_command = counted
    try:
        make()
    finally:
        JavaClient.send_command = send
    return made


def sides_of(spark: SparkSession, path: str) -> dict[str, tuple[int, Callable[[], DataFrame]]]:
    """Write a table; return calls over it, and of how many tables each is."""
    rows = spark.range(1000).selectExpr("id % 16 as k", "timestamp_seconds(id) as ts", "rand() as v")
    rows.repartition(4).write.parquet(path)
    df = spark.read.parquet(path)
    aggs = [wk.sum("v"), wk.max("v")]
    tumbling = wk.query(by="k", time="ts", windows=wk.tumbling("10 minutes"), aggs=aggs)
    sliding = wk.query(by="k", time="ts", windows=wk.sliding("10 minutes", "1 minute"), aggs=aggs)
    own = [sf.sum("v"), sf.max("v")]
    near = wk.join(by="k", left_time="ts", right_time="ts", within="1 minute", right_columns="v")
    features = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("10 minutes"))
    return {
        OWN: (1, lambda: df.groupBy("k", sf.window("ts", "10 minutes")).agg(*own)),
        "tumbling": (1, lambda: tumbling.run(df)),
        "sliding": (1, lambda: sliding.run(df)),
        "sliding, packed": (1, lambda: sliding.run(df, route="packed")),
        "sliding, over files": (1, lambda: sliding.run(df, route="scan")),
        "rolling, over files": (1, lambda: features.run(df, route="scan")),
        "labels, over files": (2, lambda: features.at(df, df, route="scan")),
        "a join": (2, lambda: near.run(df, df, route="packed")),
        "a join, over files": (2, lambda: near.run(df, df, route="scan")),
    }


def measured(options: argparse.Namespace) -> list[Record]:
    """Return the milliseconds of each turn of each side."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        sides = sides_of(spark, f"{folder}/rows")
        for _, make in sides.values():
            for _ in range(WARM):
                planned(make)
        turns: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(options.repeats):
            for name, (_, make) in sides.items():
                turns[name].append(planned(make))
        records = []
        for name, (tables, make) in sides.items():
            calls, rest = ([round(each, 2) for each in times] for times in zip(*turns[name], strict=True))
            record = {
                "side": name,
                "tables": tables,
                "calls": calls,
                "rest": rest,
                "requests": requests(make),
            }
            records.append(record)
            print(f"{name}: {median(calls):.1f} and {median(rest):.1f} ms, {record['requests']} requests")
    spark.stop()
    return records


def calls_of(tables: int) -> Callable[[list[Record]], Cells]:
    """Return the milliseconds of windowkit's calls of so many tables."""
    return lambda records: [
        (record["side"], median(record["calls"]))
        for record in records
        if record["side"] != OWN and record["tables"] == tables
    ]


GOALS = (
    Goal("a call of one table", "≤", 25, calls_of(1), " ms"),
    Goal("a call of two, a join or labels", "≤", 50, calls_of(2), " ms"),
)


def page(_: object, facts: Record, records: list[Record]) -> str:
    """Return the page."""
    lines = [
        "# Planning in Spark",
        "",
        "Written by `benchmarks/planning.py --record`. The call is what windowkit does before `run` or `at` "
        "returns a DataFrame, the rest what Spark does before that can run. Tables have four Parquet files, "
        f"which tasks read where it says *over files*. Medians of {facts['repeats']} turns, after {WARM} to "
        "warm up.",
        "",
        *pages.listed(facts),
        "",
        *goals.table(GOALS, records),
        "",
        pages.header("side", "the call, ms", "the rest, ms", "requests of the JVM"),
    ]
    for record in records:
        times = (f"{median(record[each]):.1f}" for each in ("calls", "rest"))
        lines.append(pages.row(record["side"], *times, record["requests"]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=40, help="turns; default: %(default)s")
    parser.add_argument("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, "planning")
    options = parser.parse_args()
    if not options.page:
        records = measured(options)
        if not options.record:
            return
        pages.keep(options.output, pages.machine(["pyspark"]) | {"repeats": options.repeats}, records)
    pages.write(options.output, page)


if __name__ == "__main__":
    main()
