"""Streams whose tasks fail, die or run twice, or whose driver is killed: every result is there once.

What is wanted is what buckets in this process answer, with Spark's part played there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import windowkit as wk
from support.programs import ROOT, program
from support.spark_runs import ROWS, Rows, add_files, mixed, shifted, table
from support.spark_streams import Run
from windowkit.spark.streams import bucket, rule

PROGRAM = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession
import windowkit as wk

FOLDER = Path({folder!r})

def session(master, **settings):
    builder = SparkSession.builder.master(master)
    fixed = {{
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.streaming.stateStore.providerClass": {provider!r},
    }}
    for name, value in {{**fixed, **settings}}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

def first(name):
    # Whether this call, of those in all processes, is the first one of this name.
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def is_batch(number):
    context = TaskContext.get()
    return context is not None and context.getLocalProperty("streaming.sql.batchId") == str(number)

def run(spark, trouble, files=1, after=lambda number: None):
    # Its rows pass through a function of the user's, and its values are computed by another one.
    def through(batches):
        trouble("source")
        yield from batches
    def lower(states):
        # Plans, which tasks of the source make as well, lower nothing to learn a type.
        if len(states):
            trouble("state")
        return states
    def write(frame, number):
        pq.write_table(frame.toArrow(), FOLDER / "out" / f"{{number}}.parquet")
        after(number)
    reader = spark.readStream.schema({schema!r}).option("maxFilesPerTrigger", files)
    rows = reader.parquet(str(FOLDER / "in"))
    rows = rows.mapInArrow(through, rows.schema).withWatermark("ts", "10 seconds")
    total = wk.aggregate("total", lift=lambda values: values, combine=pc.add, lower=lower)
    windows = [wk.sliding("1 minute", "20 seconds"), wk.session("4500 milliseconds")]
    aggs = [wk.median("v").alias("m"), total("v").alias("total")]
    result = wk.query(by="k", time="ts", windows=windows, aggs=aggs).run(rows)
    writer = result.writeStream.foreachBatch(write).trigger(availableNow=True)
    writer.option("checkpointLocation", str(FOLDER / "checkpoint")).start().awaitTermination()
"""


def begun(folder: Path, batches: list[Rows]) -> str:
    """Return the beginning of a program, for which there are these files."""
    add_files(folder / "in", *batches)
    (folder / "out").mkdir()
    return PROGRAM.format(folder=str(folder), provider=rule.PROVIDER, schema=ROWS)


def compare(folder: Path, batches: list[Rows], files: int = 1) -> None:
    """Assert that a program has written what a stream of these files answers, batch by batch."""
    total = wk.aggregate("total", lift=lambda values: values, combine=pc.add, lower=lambda states: states)
    windows = [wk.sliding("1 minute", "20 seconds"), wk.session("4500 milliseconds")]
    aggs = [wk.median("v").alias("m"), total("v").alias("total")]
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs)
    stream = Run(query, table([]).schema, 10_000)
    tables = list(map(table, batches))
    tasks = [*(tables[at : at + files] for at in range(0, len(tables), files)), []]
    wanted = [plainly(stream.batch(*each)) for each in tasks]
    found = [pq.read_table(folder / "out" / f"{at}.parquet").to_pylist() for at in range(len(tasks))]
    assert [plainly(rows) for rows in found] == wanted
    assert sum(map(len, wanted)) > 30
    assert len(list((folder / "out").iterdir())) == len(tasks)


def plainly(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows in order, with the ends of windows as seconds."""
    edges = ("window_start", "window_end")
    return sorted(repr({**row, **{edge: row[edge].timestamp() for edge in edges}}) for row in rows)


def marks(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if " " in path.name)


@pytest.mark.slow
@pytest.mark.parametrize("reuse", ["true", "false"], ids=["workers are reused", "workers are not reused"])
def test_tasks_that_fail_once(tmp_path: Path, reuse: str) -> None:
    """An error and a dead worker, before the shuffle and while state is read and written."""
    batches = mixed(3)
    program(
        begun(tmp_path, batches)
        + f"""
def trouble(where):
    if is_batch(1) and first(where + " fails"):
        raise RuntimeError("the first time")
    if is_batch(3) and first(where + " dies"):
        os.kill(os.getpid(), signal.SIGKILL)

spark = session("local[2,4]", **{{"spark.python.worker.reuse": {reuse!r}}})
run(spark, trouble)
spark.stop()
"""
    )
    assert marks(tmp_path) == ["source dies", "source fails", "state dies", "state fails"]
    compare(tmp_path, batches)


@pytest.mark.slow
def test_a_straggler_has_a_twin(tmp_path: Path, master: str) -> None:
    """With speculation, a batch has the rows and the state of one of the two."""
    batches = mixed(3)
    program(
        begun(tmp_path, batches)
        + f"""
def trouble(where):
    if is_batch(1) and first(where + " dawdles"):
        # Until the stream has ended without it.
        for _ in range(2000):
            if (FOLDER / "ended").exists():
                return
            time.sleep(0.1)
        first(where + " was waited for")

spark = session({master!r}, **{{
    "spark.speculation": "true",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
}})
run(spark, trouble, files=2)
first("ended")
spark.stop()
"""
    )
    assert marks(tmp_path) == ["source dawdles", "state dawdles"]
    compare(tmp_path, batches, files=2)


@pytest.mark.slow
def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    """Killed with its JVM while buckets are at work, and after the sink has a batch with a snapshot."""
    # Keys have rows in each batch, so their buckets write a snapshot in the eleventh.
    batches = [rows for number in range(4) for rows in shifted(mixed(3), 240 * number) if rows]
    assert bucket.EVERY == 10
    text = (
        begun(tmp_path, batches)
        + """
DRIVER = os.getpid()

def trouble(where):
    # A bucket before this one may have written its state.
    if where == "state" and is_batch(3) and first("killed at work"):
        os.killpg(DRIVER, signal.SIGKILL)
        time.sleep(60)

def after(number):
    # The state of the batch is stored; the log of commits does not have the batch yet.
    if number == 10 and first("killed after the commit"):
        os.killpg(DRIVER, signal.SIGKILL)

spark = session("local[2]")
run(spark, trouble, after=after)
spark.stop()
"""
    )
    environment = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": ROOT}
    ends = []
    for _ in range(3):
        with (tmp_path / "log").open("w") as log:
            driver = subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(text)],
                env={**os.environ, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            ends.append(driver.wait(300))
    assert ends == [-signal.SIGKILL, -signal.SIGKILL, 0], (tmp_path / "log").read_text()[-3000:]
    assert marks(tmp_path) == ["killed after the commit", "killed at work"]
    compare(tmp_path, batches)
