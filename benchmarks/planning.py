"""How long Spark takes to plan a window query: windowkit's and its own, which take turns.

A query is planned up to its physical plan, and no row is read. The first figure is the call, the second the
rest; then how many requests of the JVM the call makes, which does not depend on the machine. Over files, of
which there are four, tasks read them; otherwise Spark does.

    python benchmarks/planning.py
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from py4j.clientserver import JavaClient
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from spark_session import session

import windowkit as wk

WARM, TURNS = 30, 40


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


def main() -> None:
    """Measure, and print."""
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        rows = spark.range(1000).selectExpr("id % 16 as k", "timestamp_seconds(id) as ts", "rand() as v")
        rows.repartition(4).write.parquet(f"{folder}/rows")
        df = spark.read.parquet(f"{folder}/rows")
        aggs = [wk.sum("v"), wk.max("v")]
        tumbling = wk.query(by="k", time="ts", windows=wk.tumbling("10 minutes"), aggs=aggs)
        sliding = wk.query(by="k", time="ts", windows=wk.sliding("10 minutes", "1 minute"), aggs=aggs)
        own = [sf.sum("v"), sf.max("v")]
        near = wk.join(by="k", left_time="ts", right_time="ts", within="1 minute", right_columns="v")
        features = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("10 minutes"))
        sides: dict[str, Callable[[], DataFrame]] = {
            "windowkit, tumbling": lambda: tumbling.run(df),
            "Spark, tumbling": lambda: df.groupBy("k", sf.window("ts", "10 minutes")).agg(*own),
            "windowkit, sliding": lambda: sliding.run(df),
            "windowkit, sliding, packed": lambda: sliding.run(df, route="packed"),
            "windowkit, sliding, over files": lambda: sliding.run(df, route="scan"),
            "windowkit, a join": lambda: near.run(df, df, route="packed"),
            "windowkit, a join over files": lambda: near.run(df, df, route="scan"),
            "windowkit, rolling over files": lambda: features.run(df, route="scan"),
        }
        for make in sides.values():
            for _ in range(WARM):
                planned(make)
        turns: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
        for _ in range(TURNS):
            for name, make in sides.items():
                turns[name].append(planned(make))
        asked = {name: requests(make) for name, make in sides.items()}
    for name, found in turns.items():
        call, rest = (median(each) for each in zip(*found, strict=True))
        print(f"{name}: {call:.1f} and {rest:.1f} ms, {asked[name]} requests")
    spark.stop()


if __name__ == "__main__":
    main()
