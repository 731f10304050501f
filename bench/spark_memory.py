"""Memory of route "packed": many slices in one partition, with stage 2's worker held to a limit.

Every row is a slice of its own (``--slices`` of them, over ``--keys`` keys), and all of them meet in one
partition of stage 2. Before its first chunk, stage 2's worker limits its address space to what it has then
and ``--limit`` MiB more. Printed are the windows that came out, the seconds, and the worker's peak of
resident memory.

    python bench/spark_memory.py --slices 64000000 --limit 1024
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import windowkit as wk
from windowkit.spark import packed, stages
from windowkit.spark.job import job
from windowkit.spark.reference import output_schema
from windowkit.spark.shipping import shipped


@dataclass(frozen=True)
class Limited:
    """A task in a worker whose address space is limited, and which says what it took."""

    task: stages.Unpack
    megabytes: int
    told: str

    @property
    def query(self) -> wk.Query:
        """The query it is part of."""
        return self.task.query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task does."""
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * resource.getpagesize() + self.megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        yield from self.task(batches)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        Path(self.told).write_text(json.dumps({"before": before // 1024, "peak": after // 1024}))


def main() -> None:
    """Run the job once."""
    parser = argparse.ArgumentParser(description="Many slices in one partition, and a worker with a limit.")
    parser.add_argument("--slices", type=int, default=64_000_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--limit", type=int, default=1024, help="MiB beyond what the worker starts with")
    parser.add_argument("--told", type=Path, default=Path("target/memory.json"))
    options = parser.parse_args()
    options.told.parent.mkdir(parents=True, exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("windowkit memory")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "3g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "1",
        # The worker that the limit is set in does nothing else afterwards.
        "spark.python.worker.reuse": "false",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    frame = spark.range(0, options.slices, 1, 8).select(
        (sf.col("id") % options.keys).alias("k"),
        sf.timestamp_micros(sf.col("id") * 10_000).alias("ts"),
        sf.rand(7).alias("v"),
    )
    query = wk.query(by="k", time="ts", windows=wk.sliding("20 ms", "10 ms"), aggs=[wk.sum("v"), wk.max("v")])
    checked = job(frame, query)
    began = time.perf_counter()
    # Slices even though they save nothing: the question is what holding them takes.
    pack = stages.Pack(query, checked.schema, *packed.buckets(checked), limits=stages.Limits(share=1e9))
    chunks = checked.rows.mapInArrow(shipped(pack), packed.CHUNKS)
    placed = chunks.repartition(1).sortWithinPartitions("bucket").select("bucket", "chunk")
    unpack = Limited(stages.Unpack(query, checked.schema), options.limit, str(options.told.absolute()))
    result = placed.mapInArrow(shipped(unpack), output_schema(checked))
    windows = result.count()
    seconds = time.perf_counter() - began
    facts = {"slices": options.slices, "keys": options.keys, "limit": options.limit, "windows": windows}
    print(json.dumps({**facts, "seconds": round(seconds, 1), **json.loads(options.told.read_text())}))
    spark.stop()


if __name__ == "__main__":
    main()
