"""Spark streams that are killed at random moments, and go on: `python -m support.killed_streams`, in `tests`.

A seed determines the query, the rows, and what is killed after which batch: the driver with its JVM, or a
Python worker, whose task Spark tries again. Then the sink has each window once, and all that are final.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import windowkit as wk
from support.oracle import assert_equal, evaluate, rows_of
from support.programs import ROOT
from windowkit.spark.streams import rule

__all__ = ["hunt", "killed"]

PROGRAM: Final = """
    import sys
    import windowkit as wk
    from pyspark.sql import SparkSession

    folder = sys.argv[1]
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", sys.argv[2])
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.sql.streaming.stateStore.providerClass", sys.argv[3])
        .getOrCreate()
    )
    query = wk.Query.from_dict(eval(sys.argv[4]))
    reader = spark.readStream.schema("k string, ts timestamp, v long").option("maxFilesPerTrigger", 1)
    result = query.run(reader.parquet(folder + "/in").withWatermark("ts", "10 seconds"))
    writer = result.writeStream.format("parquet").option("path", folder + "/out")
    started = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    started.awaitTermination()
"""
DELAY: Final = 10
WINDOWS: Final = [
    wk.tumbling("30 seconds"),
    wk.sliding("1 minute", "20 seconds"),
    wk.session("4 seconds"),
]
# Where rows are kept, where slices are, and where Spark's own aggregation could do it.
AGGREGATES: Final = [
    wk.count().alias("n"),
    wk.sum("v").alias("s"),
    wk.median("v").alias("m"),
    wk.max("v").alias("x"),
]
BATCHES: Final = 8
TRIES: Final = 3
LONGEST: Final = 600
"""Seconds that no run of a stream needs."""


class Stream:
    """A stream over files, and what it has written, in a folder."""

    def __init__(self, draw: random.Random, folder: Path) -> None:
        self.draw, self.folder = draw, folder
        windows = draw.sample(WINDOWS, draw.randrange(1, 3))
        aggs = draw.sample(AGGREGATES, draw.randrange(1, 4))
        self.query = wk.query(by="k", time="ts", windows=windows, aggs=aggs)
        self.partitions = draw.randrange(1, 4)
        self.rows: list[pa.Table] = []
        # Spark's watermark begins at 1970.
        self.last = DELAY
        (folder / "in").mkdir()

    def add(self) -> None:
        """Add a file, none of whose rows is late."""
        first = self.last - DELAY + 1
        times = [self.draw.randrange(first, self.last + 40) for _ in range(self.draw.choice((0, 1, 30, 60)))]
        self.last = max([self.last, *times])
        rows = pa.table(
            {
                "k": pa.array([self.draw.choice(("a", "b", "c", None)) for _ in times], pa.string()),
                "ts": pa.array([at * 1_000_000 for at in times], pa.timestamp("us", "UTC")),
                "v": pa.array([self.draw.choice((*range(9), None)) for _ in times], pa.int64()),
            }
        )
        path = self.folder / "in" / f"{len(self.rows)}.parquet"
        pq.write_table(rows, path)
        # Spark takes files in the order of their times.
        os.utime(path, (10**9 + len(self.rows), 10**9 + len(self.rows)))
        self.rows.append(rows)

    def started(self) -> subprocess.Popen[bytes]:
        """Start the stream, or start it again."""
        given = [str(self.folder), str(self.partitions), rule.PROVIDER, repr(self.query.to_dict())]
        settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": ROOT}
        with (self.folder / "log").open("a") as log:
            return subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(PROGRAM), *given],
                env={**os.environ, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def run(self) -> None:
        """Run the stream to its end; on a busy machine, Spark at times gives up waiting for a worker."""
        for _ in range(TRIES):
            if self.started().wait(LONGEST) == 0:
                return
        raise AssertionError((self.folder / "log").read_text()[-3000:])

    def committed(self) -> int:
        """Return how many batches the sink has."""
        return len(list((self.folder / "out" / "_spark_metadata").glob("[0-9]*")))

    def written(self) -> pa.Table:
        """Return what the sink has: files that its log lists, and no others that are there."""
        logs = (self.folder / "out" / "_spark_metadata").glob("[0-9]*")
        lines = {line for log in logs for line in log.read_text().splitlines()[1:]}
        paths = sorted(json.loads(line)["path"].removeprefix("file://") for line in lines)
        return pa.concat_tables(
            pq.read_table(path, partitioning=None, coerce_int96_timestamp_unit="us") for path in paths
        )

    def check(self) -> None:
        """Compare with the definition, as far as windows are final."""
        rows = pa.concat_tables(self.rows)
        final = pc.subtract(pc.max(rows["ts"]), pa.scalar(DELAY * 1_000_000, pa.duration("us"))).as_py()
        end = int(final.timestamp()) * 1_000_000
        wanted = {at: values for at, values in evaluate(self.query, rows).items() if at[-1] <= end}
        assert wanted, "no window is final"
        assert_equal(wanted, rows_of(self.query, self.written()))


def workers(driver: int) -> list[int]:
    """Return the processes that run Python for tasks of a driver: children of the one that forks them."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            is_daemon = b"pyspark.daemon" in (entry / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if is_daemon and int(fields[3]) == driver:
            parents[int(entry.name)] = int(fields[1])
    return [process for process, parent in parents.items() if parent in parents]


def killed(seed: int, folder: Path, kills: int | None = None, say: Callable[[str], None] = print) -> None:
    """Run the stream of a seed, which is killed so many times, and check what it has written."""
    draw = random.Random(seed)
    stream = Stream(draw, folder)
    for _ in range(BATCHES):
        stream.add()
    say(f"{stream.query!r:.200}, {stream.partitions} partitions")
    driver: subprocess.Popen[bytes] | None = None
    for _ in range(draw.randrange(1, 5) if kills is None else kills):
        of_worker, batches, seconds = (
            kills is None and draw.random() < 0.4,
            draw.randrange(3),
            draw.random() * 3,
        )
        driver = driver or stream.started()
        least, until = stream.committed() + batches, time.monotonic() + LONGEST
        while stream.committed() < least and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(seconds)
        if driver.poll() is not None:
            say("it had ended" if driver.returncode == 0 else "it had failed")
            driver = None
        elif of_worker:
            for process in workers(driver.pid)[:1]:
                os.kill(process, signal.SIGKILL)
                say(f"killed a worker after {stream.committed()} batches")
        else:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
            driver = None
            say(f"killed the driver after {stream.committed()} batches")
    if driver is not None:
        driver.wait(LONGEST)
    # With a batch to come, the last run knows how far time is.
    stream.add()
    while not stream.rows[-1].num_rows:
        stream.add()
    stream.run()
    stream.check()


def hunt(seconds: float, first: int) -> int:
    """Run new seeds for some time; return how many failed."""
    end, seed, failed = time.monotonic() + seconds, first, 0
    while time.monotonic() < end:
        print(f"seed {seed}", flush=True)
        with tempfile.TemporaryDirectory() as folder:
            try:
                killed(seed, Path(folder))
            except Exception:  # printed with its traceback; the hunt goes on with the next seed
                traceback.print_exc()
                print(f"seed {seed} fails", flush=True)
                failed += 1
        seed += 1
    print(f"{seed - first} seeds, of which {failed} failed", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m support.killed_streams", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--seconds", type=float, default=600, help="how long to run new seeds")
    parser.add_argument("--first", type=int, help="the first of the new seeds; any by default")
    given = parser.parse_args()
    first = SystemRandom().randrange(2**32) if given.first is None else given.first
    sys.exit(hunt(given.seconds, first) > 0)


if __name__ == "__main__":
    main()
