"""Memory of Spark jobs: workers held to a limit, and what the JVM and the workers take by each route.

Each measure is a process of its own, which prints a line of JSON.

many slices
    ``--slices`` rows over 10^6 keys, each a slice of its own, all of which meet in one partition of stage 2.
hot key
    ``--rows`` rows of one key, in slices of 10 s, in one partition.
many keys
    ``--rows`` rows over 10^6 keys, 10 minutes by 1 minute, in 4 partitions.
rows of 1 MiB, rows of 2 kB
    4,000 and 10^6 rows over 1,024 keys with a string so long, 10 minutes tumbling, the last string, the
    greatest and a list of all, in 4 partitions. Strings repeat 64 characters, so that little is shuffled;
    what workers hold is not compressed.

    In all of these Spark limits the address space of each worker (``spark.executor.pyspark.memory``) to
    ``--limit`` MiB beyond what Python has once it has imported pyspark and pyarrow, what allocators reserve
    included: beyond that any allocation fails, and the job with it.
routes
    Each of ``--scale`` rows over 1,024 keys, 10 minutes by 10 s, by each way there is to compute them: peak
    of resident memory of a worker, peak of the heap, and of the JVM's resident memory. The heap grows to
    what it may have before it is collected, so that its peak is no need. Spark's own takes some 20 s a
    million rows, and only as many as ``--own``.

    python benchmarks/spark_memory.py --slices 64000000 --rows 16000000 --limit 1024 --scale 4000000 64000000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pages
import pyarrow as pa
from plots import groups
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from spark_grid import BY_MINUTE, BY_TEN, machine
from spark_session import session
from spark_stages import write

import windowkit as wk
from windowkit.spark.jobs.job import job
from windowkit.spark.jobs.reference import reference, result_schema
from windowkit.spark.routes import packed, stages
from windowkit.spark.shipping import shipped

WIDE = {"rows of 1 MiB": (4_000, 1 << 20), "rows of 2 kB": (1_000_000, 2_000)}
LIMITED = ("many slices", "hot key", "many keys", *WIDE)
ROUTES = ("Spark's own", "catalyst-panes", "packed", "rows", "scan")
AGGS = [wk.sum("v"), wk.max("v")]
HEAP = {"driver_memory": "3g"}


@dataclass(frozen=True)
class Watched:
    """A task that writes down what its worker took; each worker has but one."""

    task: stages.Pack | stages.Unpack
    folder: str

    @property
    def query(self) -> wk.Query:
        """The query it is part of."""
        return self.task.query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield what the task does."""
        before = status(os.getpid())
        yield from self.task(batches)
        after = status(os.getpid())
        record = {
            "stage": type(self.task).__name__,
            "space": after["VmPeak"] // 1024,
            "resident before": before["VmRSS"] // 1024,
            "resident": after["VmHWM"] // 1024,
        }
        (Path(self.folder) / uuid.uuid4().hex).write_text(json.dumps(record))


def status(process: int) -> dict[str, int]:
    """Return what Linux knows of the memory of a process, in KiB."""
    lines = (line.split() for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in lines if words[0].startswith("Vm")}


def readings(spark: SparkSession, rows: int, keys: int) -> DataFrame:
    return spark.range(0, rows, 1, 8).select(
        (sf.col("id") % keys).alias("k"),
        sf.timestamp_micros(sf.col("id") * 10_000).alias("ts"),
        sf.rand(7).alias("v"),
    )


def texts(spark: SparkSession, rows: int, size: int) -> DataFrame:
    return readings(spark, rows, 1024).select(
        "k", "ts", sf.repeat(sf.sha2(sf.col("ts").cast("string"), 256), size // 64).alias("v")
    )


def limited(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a job whose workers are held to a limit."""
    keys, rows, window, share = (
        1_000_000,
        options.slices,
        wk.sliding("20 milliseconds", "10 milliseconds"),
        1e9,
    )
    if name != "many slices":
        keys, rows, share = 1 if name == "hot key" else keys, options.rows, stages.LIMITS.share
        window = (BY_TEN if name == "hot key" else BY_MINUTE)[1]
    partitions = 4 if name in ("many keys", *WIDE) else 1
    most = options.limit + start() if options.limit else 0
    settings = {"executor_pyspark_memory": f"{most}m"} if most else {}
    spark = session(**HEAP, sql_shuffle_partitions=partitions, python_worker_reuse=False, **settings)
    if name in WIDE:
        (rows, size), keys, window = WIDE[name], 1024, wk.tumbling("10 minutes")
        frame, aggs = texts(spark, rows, size), [wk.last("v"), wk.max("v"), wk.collect_list("v")]
    else:
        frame, aggs = readings(spark, rows, keys), AGGS
    query = wk.query(by="k", time="ts", windows=window, aggs=aggs)
    checked = job(frame, query)
    # Of many slices the question is what holding them takes, though they save nothing.
    pack = stages.Pack(query, checked.schema, *packed.buckets(checked), limits=stages.Limits(share=share))
    unpack = stages.Unpack(query, checked.schema)
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        first, second = (shipped(Watched(task, folder)) for task in (pack, unpack))
        chunks = checked.rows.mapInArrow(first, packed.CHUNKS)
        placed = chunks.repartition(partitions, "bucket").sortWithinPartitions("bucket")
        result = placed.select("bucket", "chunk").mapInArrow(second, result_schema(checked))
        windows = result.count()
        took = time.perf_counter() - began
        records = [json.loads(each.read_text()) for each in Path(folder).iterdir()]
    spark.stop()
    facts: dict[str, Any] = {"measure": name, "rows": rows, "keys": keys, "windows": windows}
    facts |= {"limit": most, "seconds": round(took, 1)}
    for stage in ("Pack", "Unpack"):
        own = [each for each in records if each["stage"] == stage]
        facts[stage] = {"tasks": len(own)}
        facts[stage] |= {what: max(each[what] for each in own) for what in own[0] if what != "stage"}
    return facts


def start() -> int:
    """Return the MiB of address space that a worker begins with."""
    program = "import pyspark.worker, pyarrow; print(open('/proc/self/status').read())"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    (size,) = (line.split()[1] for line in said.splitlines() if line.startswith("VmSize"))
    return int(size) // 1024


def routed(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Run a job by one route, twice, and return the peaks of both."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows.parquet"
        write(path, options.rows, 1024)
        spark = session(**HEAP)
        jvm = spark._jvm
        assert jvm is not None
        query = wk.query(by="k", time="ts", windows=BY_TEN[1], aggs=AGGS)
        frame = spark.read.parquet(path)
        pools = list(jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans())
        heap = [pool for pool in pools if pool.getType().toString() == "Heap memory"]
        jvm.java.lang.System.gc()
        for pool in heap:
            pool.resetPeakUsage()
        times = []
        for _ in range(2):
            began = time.perf_counter()
            if name == "Spark's own":
                result = reference(frame, query)
            elif name == "scan":
                result = wk.spark.scan(spark, path, query)
            else:
                result = query.run(frame, route=name)
            result.write.format("noop").mode("overwrite").save()
            times.append(round(time.perf_counter() - began, 2))
        own = jvm.java.lang.ProcessHandle.current().pid()
        peaks = [status(process).get("VmHWM", 0) // 1024 for process in descendants(own)]
        workers = [peak for peak in peaks if peak]  # A process that has ended has no memory.
        facts = {
            "route": name,
            "rows": options.rows,
            "seconds": times,
            "heap": sum(pool.getPeakUsage().getUsed() for pool in heap) // 2**20,
            "resident of the JVM": status(own)["VmHWM"] // 1024,
            "workers": len(workers),
            "resident of a worker": max(workers, default=0),
        }
        spark.stop()
    return facts


def descendants(process: int) -> Iterator[int]:
    """Yield the workers below a process: those of its descendants that have no children."""
    parents: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # It has ended since.
        parents[int(path.parent.name)] = int(text.rpartition(")")[2].split()[1])
    below = {process}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    yield from sorted(below - {process} - set(parents.values()))


def main() -> None:
    """Run the measures, each in a process of its own; write JSON lines and a page."""
    parser = argparse.ArgumentParser(description="Memory of Spark jobs.")
    parser.add_argument("--slices", type=int, default=64_000_000)
    parser.add_argument("--rows", type=int, default=16_000_000)
    parser.add_argument(
        "--limit", type=int, default=1024, help="MiB beyond what a worker begins with; 0 is no limit"
    )
    parser.add_argument("--scale", type=int, nargs="+", default=[4_000_000, 16_000_000, 64_000_000])
    parser.add_argument("--own", type=int, default=16_000_000, help="most rows of Spark's own")
    parser.add_argument("--measures", nargs="+", default=[*LIMITED, *ROUTES], choices=[*LIMITED, *ROUTES])
    parser.add_argument("--one", choices=[*LIMITED, *ROUTES], help="run one, here, and print it")
    pages.add_arguments(parser, "spark-memory")
    options = parser.parse_args()
    if options.one is not None:
        measure = limited if options.one in LIMITED else routed
        print(json.dumps(measure(options.one, options)))
        return
    if not options.page:
        measured(options)
    pages.write(options.output, page)


def measured(options: argparse.Namespace) -> None:
    """Run the measures asked for, and keep the records."""
    results = []
    jobs = [(name, options.rows) for name in options.measures if name in LIMITED]
    jobs += [
        (name, rows)
        for rows in options.scale
        for name in options.measures
        if name in ROUTES and (name != ROUTES[0] or rows <= options.own)
    ]
    for name, rows in jobs:
        numbers = {"slices": options.slices, "rows": rows, "limit": options.limit}
        asked = [text for name, number in numbers.items() for text in (f"--{name}", str(number))]
        command = [sys.executable, __file__, "--one", name, *asked]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(json.dumps(results[-1]), flush=True)
    spark = session(**HEAP)
    facts = machine(spark, "local[2], 3 GB heap, adaptive execution on")
    spark.stop()
    pages.keep(options.output, facts, results)


def draw(results: list[dict[str, Any]], output: Path) -> None:
    """Draw what workers and the JVM take by each route."""
    routes = [each for each in results if "route" in each]
    if routes:
        sides = {
            f"{rows:,} rows, {name}": {each["route"]: each[of] for each in routes if each["rows"] == rows}
            for rows in dict.fromkeys(each["rows"] for each in routes)
            for name, of in (("JVM", "resident of the JVM"), ("a worker", "resident of a worker"))
        }
        names = list(dict.fromkeys(each["route"] for each in routes))
        title = "Resident memory at its peak, by route"
        groups(names, sides, title, "MiB; the JVM's heap may have 3,072", output.with_suffix(".png"))


def page(output: Path, facts: pages.Record, results: list[pages.Record]) -> str:
    """Return the page, and draw its picture."""
    draw(results, output)
    lines = [
        "# Spark: memory",
        "",
        "Written by `benchmarks/spark_memory.py`, whose head says what is measured. MiB; each measure in a "
        "process of its own.",
        "",
        *pages.listed(facts),
        "",
        "## Workers held to a limit",
        "",
        "The limit is on address space, by `spark.executor.pyspark.memory`. Peaks are of the worker that "
        "took most; begun with is what Python, pyspark, pyarrow and windowkit take before the first row. "
        "Of *many slices* stages 1 and 2 are run by hand, with slices made even where they save nothing "
        "(`share=1e9`): a job would pack rows there. The question is what it takes to hold slices.",
        "",
        "| | rows | windows out | seconds | limit | stage | tasks | address space, peak "
        "| resident, begun with | resident, peak |",
        "|---|--:|--:|--:|--:|---|--:|--:|--:|--:|",
    ]
    for result in (each for each in results if "measure" in each):
        for stage, name in (("Pack", "1"), ("Unpack", "2")):
            own = result[stage]
            cells = [result["measure"], f"{result['rows']:,}", f"{result['windows']:,}", result["seconds"]]
            cells += [result["limit"] or "none", name, own["tasks"], own["space"]]
            cells += [own["resident before"], own["resident"]]
            lines.append(pages.row(*cells))
    routes = [each for each in results if "route" in each]
    if routes:
        lines += [
            "",
            "## By route",
            "",
            "Rows of a Parquet file, 1,024 keys, 10 minutes by 10 s; seconds are of the second of two runs, "
            "peaks of both.",
            "",
            f"![By route]({output.with_suffix('.png').name})",
            "",
            "| rows | | seconds | peak of the heap | JVM, resident | workers | resident of a worker |",
            "|--:|---|--:|--:|--:|--:|--:|",
        ]
        for each in routes:
            cells = [
                f"{each['rows']:,}",
                each["route"],
                each["seconds"][-1],
                each["heap"],
                each["resident of the JVM"],
            ]
            cells += [each["workers"], each["resident of a worker"] or ""]
            lines.append(pages.row(*cells))
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
