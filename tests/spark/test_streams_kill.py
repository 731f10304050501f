"""A stream whose driver and JVM are killed in the middle writes every window once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import windowkit as wk
from support.programs import ROOT
from windowkit.spark.streams import rule

QUERY = wk.query(
    by="k",
    time="ts",
    windows=[wk.sliding("1 minute", "20 seconds"), wk.session("4 seconds")],
    aggs=[wk.sum("v").alias("s"), wk.median("v").alias("m")],
)
PROGRAM = """
    import sys
    import windowkit as wk
    from pyspark.sql import SparkSession

    folder = sys.argv[1]
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "Europe/Berlin")
        .config("spark.sql.streaming.stateStore.providerClass", sys.argv[2])
        .getOrCreate()
    )
    query = wk.Query.from_dict(eval(sys.argv[3]))
    reader = spark.readStream.schema("k string, ts timestamp, v double").option("maxFilesPerTrigger", 1)
    result = query.run(reader.parquet(folder + "/in").withWatermark("ts", "10 seconds"))
    writer = result.writeStream.format("parquet").option("path", folder + "/out")
    started = writer.option("checkpointLocation", folder + "/checkpoint").trigger(availableNow=True).start()
    started.awaitTermination()
"""


@pytest.mark.slow
def test_every_window_is_written_once(spark, settings, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    parts = []
    for number in range(9):
        times = [(number * 30 + at * 7 % 40) * 1_000_000 for at in range(30)]
        rows = pa.table(
            {
                "k": ["a", "b", "c"] * 10,
                "ts": pa.array(times, pa.timestamp("us", "UTC")),
                "v": [at / 2 for at in range(30)],
            }
        )
        parts.append(rows)
        path = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(rows, path)
        os.utime(path, (10**9 + number, 10**9 + number))
    given = [str(tmp_path), rule.PROVIDER, repr(QUERY.to_dict())]
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": ROOT,
    }
    log = tmp_path / "out" / "_spark_metadata"
    with (tmp_path / "log").open("w") as output:
        driver = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(PROGRAM), *given],
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        until = time.monotonic() + 300
        # The sink has committed some batches, and the stream is in the middle of another one.
        while not (log / "2").exists() and driver.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        os.killpg(driver.pid, signal.SIGKILL)
        assert driver.wait() == -signal.SIGKILL, (tmp_path / "log").read_text()[-3000:]
    assert not (log / "8").exists()
    with settings(
        {
            "spark.sql.streaming.stateStore.providerClass": rule.PROVIDER,
            "spark.sql.shuffle.partitions": "2",
        }
    ):
        reader = spark.readStream.schema("k string, ts timestamp, v double").option("maxFilesPerTrigger", 1)
        result = QUERY.run(reader.parquet(str(tmp_path / "in")).withWatermark("ts", "10 seconds"))
        writer = result.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        again = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True)
        again.start().awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).toArrow().to_pylist()
    end = max(row["window_end"] for row in found)
    wanted = [row for row in QUERY.run(pa.concat_tables(parts)).to_pylist() if row["window_end"] <= end]
    assert sorted(map(identity_of, found)) == sorted(map(identity_of, wanted))
    assert len(found) > 50


def identity_of(row: dict[str, Any]) -> str:
    edges = (row["window_start"].timestamp(), row["window_end"].timestamp())
    return repr((row["k"], row["window_name"], *edges, row["s"], row["m"]))
