"""Faults that need several executors: one lost or decommissioned, and tasks that run twice at once.

In mode ``local-cluster``, of Spark's own tests, executors are processes of their own. A task has a twin only
on another host than its own: for that there is a cluster of a master and two workers with names of their own.
"""

from __future__ import annotations

from support.programs import ROOT, program

CLUSTER = """
import os, signal, sys, time
from pathlib import Path
from pyspark.sql import SparkSession, functions as sf
import windowkit as wk
import windowkit.spark
from windowkit.spark.shipping import metrics
from windowkit.spark.routes import packed, stages
from windowkit.spark.jobs.job import job
from windowkit.spark.jobs.reference import output_schema
from windowkit.spark.shipping import shipped

FOLDER = Path({folder!r})
ROWS, PARTITIONS = 6000, 4

def cluster(master="local-cluster[2,1,1024]", **settings):
    builder = SparkSession.builder.master(master).appName("cluster")
    fixed = {{
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executorEnv.PYTHONPATH": {root!r},
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.enabled": "false",
    }}
    for name, value in {{**fixed, **settings}}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark

def mark(name):
    # Whether this process is the first to make the mark.
    try:
        (FOLDER / name).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True

class Watched:
    # A task that notes each of its runs, after doing its work.
    def __init__(self, task, name, first):
        self.task, self.name, self.first, self.query = task, name, first, task.query

    def __call__(self, batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        mark(f"{{self.name}} {{context.partitionId()}} run {{context.taskAttemptId()}}")
        self.first(context)
        yield from self.task(batches)

def rows(frame):
    return sorted(map(repr, frame.collect()))

def runs(name):
    return len(list(FOLDER.glob(name + " * run *")))

def readings(spark):
    return spark.range(0, ROWS, 1, PARTITIONS).selectExpr("id % 29 as k", "id as t", "hash(id) as v")

# Structs, as stages have them.
AGGS = [wk.median("v"), wk.sum("v")]
QUERY = wk.query(by="k", time="t", windows=wk.sliding(200, 80), aggs=AGGS, window_columns="struct")
"""


def test_shuffle_files_of_a_lost_executor_are_made_again(tmp_path):
    printed = program(
        CLUSTER.format(folder=str(tmp_path), root=ROOT)
        + """
def lose(context):
    # The parent of a worker is Python's daemon, and its parent the executor.
    if mark("lost"):
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        executor = int(daemon.rpartition(")")[2].split()[1])
        assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
        os.kill(executor, signal.SIGKILL)
        time.sleep(60)

spark = cluster()
frame = readings(spark)
wanted = rows(QUERY.run(frame, route="rows"))
checked = job(frame, QUERY, wk.spark.Metrics())
pack = Watched(stages.Pack(QUERY, checked.schema, *packed.buckets(checked)), "pack", lambda context: None)
unpack = Watched(stages.Unpack(QUERY, checked.schema), "unpack", lose)
chunks = metrics.observed_chunks(checked.metrics, checked.rows.mapInArrow(shipped(pack), packed.CHUNKS))
placed = chunks.repartition(sf.col("bucket")).sortWithinPartitions("bucket").select("bucket", "chunk")
result = placed.mapInArrow(shipped(unpack), output_schema(checked))
assert rows(result) == wanted
assert (FOLDER / "lost").exists()
counted = checked.metrics.values()["rows in"]
print("made again", runs("pack") - PARTITIONS, "counted", counted, flush=True)
spark.stop()
"""
    )
    words = printed.split()
    again, counted = int(words[words.index("again") + 1]), int(words[words.index("counted") + 1])
    assert again > 0, "stage 1 ran again for what was lost"
    # As the docstring of Metrics says: a stage that runs again counts again.
    assert 6000 <= counted <= 12000


def test_executors_that_are_decommissioned_take_nothing_with_them(tmp_path):
    printed = program(
        CLUSTER.format(folder=str(tmp_path), root=ROOT)
        + """
def decommission(stage):
    # What a cluster manager sends to an executor whose host is to be taken away.
    def send(context):
        if context.partitionId() == 1 and mark(stage + " leaves"):
            daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
            executor = int(daemon.rpartition(")")[2].split()[1])
            assert "CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_text()
            (FOLDER / (stage + " executor")).write_text(str(executor))
            os.kill(executor, signal.SIGPWR)
            # It has begun to leave before this task goes on there.
            time.sleep(2)
    return send

def until(what, true):
    for _ in range(600):
        if true():
            return
        time.sleep(0.1)
    raise AssertionError(what)

spark = cluster(**{
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.storage.decommission.replicationReattemptInterval": "1s",
})
spark.conf.set("spark.sql.session.timeZone", "UTC")
# The driver counts, too.
executors = lambda: spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
frame = readings(spark).selectExpr("k", "timestamp_seconds(t) as t", "v")
windows = wk.sliding("200 seconds", "80 seconds")
query = wk.query(by="k", time="t", windows=windows, aggs=AGGS, window_columns="struct")
wanted = rows(wk.spark.reference(frame, query))
for stage in ("pack", "unpack"):
    until("two executors", lambda: executors() == 2)
    checked = job(frame, query)
    pack = stages.Pack(query, checked.schema, *packed.buckets(checked))
    unpack = stages.Unpack(query, checked.schema)
    if stage == "pack":
        pack = Watched(pack, stage, decommission(stage))
    else:
        unpack = Watched(unpack, stage, decommission(stage))
    chunks = checked.rows.mapInArrow(shipped(pack), packed.CHUNKS)
    placed = chunks.repartition(sf.col("bucket")).sortWithinPartitions("bucket").select("bucket", "chunk")
    assert rows(placed.mapInArrow(shipped(unpack), output_schema(checked))) == wanted
    left = int((FOLDER / (stage + " executor")).read_text())
    until("the executor leaves", lambda: not Path(f"/proc/{left}/cmdline").exists())
    print("equal after one left in", stage, flush=True)
spark.stop()
"""
    )
    assert printed.count("equal after one left") == 2


def test_a_straggler_has_a_twin_and_nothing_is_doubled(tmp_path, master):
    printed = program(
        CLUSTER.format(folder=str(tmp_path), root=ROOT)
        + f"MASTER = {master!r}\n"
        + """
def dawdle(stage):
    def wait(context):
        if context.partitionId() == 1 and mark(stage + " dawdles"):
            time.sleep(120)
            mark(stage + " woke")
    return wait

spark = cluster(MASTER, **{
    "spark.speculation": "true",
    "spark.executor.memory": "512m",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.3",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "100ms",
})
frame = readings(spark)
wanted = rows(QUERY.run(frame, route="rows"))
for stage in ("pack", "unpack"):
    checked = job(frame, QUERY, wk.spark.Metrics())
    pack = stages.Pack(QUERY, checked.schema, *packed.buckets(checked))
    unpack = stages.Unpack(QUERY, checked.schema)
    if stage == "pack":
        pack = Watched(pack, stage, dawdle(stage))
    else:
        unpack = Watched(unpack, stage, dawdle(stage))
    chunks = metrics.observed_chunks(checked.metrics, checked.rows.mapInArrow(shipped(pack), packed.CHUNKS))
    placed = chunks.repartition(sf.col("bucket")).sortWithinPartitions("bucket").select("bucket", "chunk")
    windows = placed.mapInArrow(shipped(unpack), output_schema(checked))
    assert rows(metrics.observed_count(checked.metrics, "windows out", windows)) == wanted
    assert not (FOLDER / (stage + " woke")).exists(), "the twin was waited for, not the straggler"
    assert len(list(FOLDER.glob(f"{stage} 1 run *"))) == 2
    counts = checked.metrics.values()
    assert counts["rows in"] == ROWS and counts["windows out"] == len(wanted), counts
    print("equal beside a straggler in", stage, flush=True)
spark.stop()
"""
    )
    assert printed.count("equal beside a straggler") == 2


def test_the_command_line_takes_masters_that_have_executors(tmp_path, master):
    printed = program(
        f"""
        import pyarrow as pa, pyarrow.parquet as pq
        from pyspark.sql import SparkSession
        from windowkit.cli.program import main

        folder = {str(tmp_path)!r}
        numbers = list(range(900))
        rows = {{"k": [n % 7 for n in numbers], "t": numbers, "v": [n % 31 for n in numbers]}}
        pq.write_table(pa.table(rows), folder + "/rows.parquet", row_group_size=100)
        command = ["aggregate", "--by", "k", "--time", "t", "--window", "sliding(50, 20)"]
        command += ["--agg", "median(v)", "--agg", "approx_count_distinct(v, 8)"]

        def run(at, name, *engine):
            paths = ["--input", at + folder + "/rows.parquet", "--output", at + folder + "/" + name]
            assert main([*command, *paths, *engine]) == 0
            return sorted(map(repr, pq.read_table(folder + "/" + name).to_pylist()))

        wanted = run("", "here.parquet")
        assert len(wanted) > 300
        # On a cluster paths are Spark's own affair.
        for at, master in [("", "local-cluster[2,1,1024]"), ("file://", {master!r})]:
            assert run(at, master[:5] + ".parquet", "--engine", "spark", "--master", master) == wanted
            SparkSession.getActiveSession().stop()
            print("the same")
        """
    )
    assert printed.count("the same") == 2
