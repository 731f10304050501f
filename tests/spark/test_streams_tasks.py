"""Tasks of a stream that fail, die or run twice: Spark runs them again from the state before the batch."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from support.programs import program
from support.spark_runs import mixed, table
from windowkit.spark.streams import streaming

STREAM = """
import os, signal, sys, time
from pathlib import Path
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import SparkSession
import windowkit as wk

FOLDER = Path({folder!r})
ROWS = "k string, ts timestamp, v double, mark boolean"

def started(master, **settings):
    builder = SparkSession.builder.master(master)
    fixed = {{
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.stateStore.providerClass": {provider!r},
    }}
    for name, value in {{**fixed, **settings}}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

def first(name):
    # Whether this call, of all processes', is the first one of this name.
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

def is_batch(number):
    context = TaskContext.get()
    return context is not None and context.getLocalProperty("streaming.sql.batchId") == str(number)

def watched(rows, trouble):
    # Rows that pass through a function of the user's, before windowkit.
    def through(batches):
        for batch in batches:
            yield batch
            trouble("source")
    return rows.mapInArrow(through, rows.schema)

def query_of(trouble):
    # An aggregate of the user's, whose values are computed in the tasks that have the state.
    def lower(states):
        trouble("state")
        return states
    total = wk.aggregate("total", lift=lambda values: values, combine=pc.add, lower=lower)
    windows = [wk.sliding("1 minute", "20 seconds"), wk.session("4500 milliseconds")]
    aggs = [wk.median("v"), total("v").alias("total")]
    return wk.query(by="k", time="ts", windows=windows, aggs=aggs)

def compared(spark, trouble, checkpoint="checkpoint"):
    # Run the stream, and compare it with a run in which there is no trouble.
    found = {{}}
    for name, happens in (("without", lambda where: None), ("with", trouble)):
        rows = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(FOLDER / "in"))
        result = query_of(happens).run(watched(rows, happens).withWatermark("ts", "10 seconds"))
        batches = {{}}
        def take(frame, number):
            batches[number] = sorted(map(repr, frame.collect()))
        writer = result.writeStream.foreachBatch(take).trigger(availableNow=True)
        writer = writer.option("checkpointLocation", str(FOLDER / checkpoint / name))
        writer.start().awaitTermination()
        found[name] = batches
    assert found["with"] == found["without"]
    assert sum(map(len, found["with"].values())) > 50
"""


@pytest.fixture
def stream(tmp_path: Path) -> str:
    """The beginning of a program, which has the files of a stream in its folder."""
    (tmp_path / "in").mkdir()
    for number, rows in enumerate(mixed(4)):
        pq.write_table(table(rows), tmp_path / "in" / f"{number}.parquet")
    return STREAM.format(folder=str(tmp_path), provider=streaming.PROVIDER)


@pytest.mark.slow
@pytest.mark.parametrize("reuse", ["true", "false"], ids=["workers are reused", "workers are not reused"])
def test_tasks_that_fail_once(stream: str, reuse: str) -> None:
    """An error or a dead worker, before the shuffle and while state is read and written."""
    printed = program(
        stream
        + """
def trouble(where):
    for number, kind in ((1, "error"), (3, "death")):
        if is_batch(number) and first(f"{where} {kind}"):
            if kind == "error":
                raise RuntimeError("the first time")
            os.kill(os.getpid(), signal.SIGKILL)

spark = started("local[2,4]", **{"spark.python.worker.reuse": REUSE})
compared(spark, trouble)
print(sorted(path.name for path in FOLDER.iterdir() if " " in path.name))
spark.stop()
""".replace("REUSE", repr(reuse))
    )
    assert printed.strip() == "['source death', 'source error', 'state death', 'state error']"


@pytest.mark.slow
def test_a_straggler_has_a_twin(stream: str, master: str) -> None:
    """With speculation, a batch takes in rows and state of one of the two."""
    printed = program(
        stream
        + """
def trouble(where):
    if is_batch(2) and first(where + " dawdles"):
        time.sleep(120)
        first(where + " woke")

spark = started(MASTER, **{
    "spark.speculation": "true",
    "spark.executor.memory": "512m",
    "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
})
# Only tasks of a stage that has others, which have ended, are slow.
compared(spark, trouble)
print(sorted(path.name for path in FOLDER.iterdir() if " " in path.name))
spark.stop()
""".replace("MASTER", repr(master))
    )
    assert printed.strip() == "['source dawdles', 'state dawdles']"
