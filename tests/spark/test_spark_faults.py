"""What goes wrong ends in the same answer or in a clear error: tasks that die, damage, other versions."""

from __future__ import annotations

import re
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.programs import ROOT, program
from windowkit.spark.jobs.job import job
from windowkit.spark.routes import packed
from windowkit.spark.routes.worker import Rows
from windowkit.spark.scans import datasource
from windowkit.spark.shipping import shipped

SLIDING = wk.sliding("10 minutes", "4 minutes")
QUERY = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.median("v"), wk.sum("n")])


@pytest.mark.parametrize("place", ["0", "17", "length(chunk) - 3"])
def test_a_damaged_chunk_fails_the_job(readings, place):
    checked = job(readings, QUERY)
    chunks = packed.chunks(checked)
    hurt = sf.expr(
        f"concat(substring(chunk, 1, {place}), x'2a2a', substring(chunk, {place} + 3, length(chunk)))"
    )
    with pytest.raises(
        PySparkException, match=r"windowkit\.errors\.InvalidValue: packed slices: a chunk"
    ) as caught:
        packed.windows(checked, chunks.withColumn("chunk", hurt)).collect()
    assert "in the query by device over ts" in str(caught.value)


def test_a_chunk_that_is_lost_in_part_fails_the_job(readings):
    checked = job(readings, QUERY)
    short = sf.expr("substring(chunk, 1, length(chunk) - 1)")
    with pytest.raises(PySparkException, match="its header says"):
        packed.windows(checked, packed.chunks(checked).withColumn("chunk", short)).collect()


def test_chunks_of_another_query_fail_the_job(readings):
    other = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.median("v"), wk.max("n")])
    chunks = packed.chunks(job(readings, other))
    with pytest.raises(PySparkException, match="packed slices: a chunk is of plan"):
        packed.windows(job(readings, QUERY), chunks).collect()


@pytest.mark.parametrize("route", ["packed", "rows", "catalyst-panes"])
def test_a_failure_names_the_query_and_the_column(spark, route):
    frame = spark.sql(
        "select 'a' as device, timestamp_seconds(id) as ts, bigint('9223372036854775807') as big "
        "from range(2)"
    )
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.count(), wk.sum("big")])
    said = (
        r"windowkit\.errors\.Overflow: sum\(big\): the sum of a window is 18446744073709551614, which does "
        r"not fit bigint; in the query by device over ts, windows sliding\(10 minutes, 4 minutes\), answers "
        r"count\(\*\), sum\(big\)"
    )
    with pytest.raises(PySparkException, match=said):
        query.run(frame, route=route).collect()


@pytest.mark.parametrize("route", ["packed", "rows", "catalyst-panes"])
def test_a_task_of_too_many_windows_fails_before_it_computes_them(spark, route):
    frame = spark.sql("select 'a' as device, timestamp_seconds(id) as ts, 1 as n from range(2)")
    often = wk.sliding("365 days", "1 microsecond")
    query = wk.query(by="device", time="ts", windows=often, aggs=wk.sum("n"))
    with pytest.raises(
        PySparkException, match=r"InvalidValue: max_windows: .* 31536001000000 windows.*by device over ts"
    ):
        query.run(frame, route=route).collect()
    enough = wk.query(
        by="device", time="ts", windows=wk.tumbling("1 second"), aggs=wk.sum("n"), max_windows=2
    )
    assert enough.run(frame, route=route).count() == 2


def test_a_failure_of_a_users_function_names_the_query(readings):
    def lift(values):
        if len(values):
            raise ArithmeticError("no such number")
        return values

    own = wk.aggregate(
        "own", lift=lift, combine=lambda a, b: a, lower=lambda states: states, commutative=True
    )
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=own("v"))
    with pytest.raises(PySparkException) as caught:
        query.run(readings).collect()
    assert "own: lift failed with ArithmeticError('no such number'); in the query by device over ts" in str(
        caught.value
    )


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_users_function_that_would_end_the_worker_fails_the_job(raised):
    def lift(values):
        if len(values):
            raise raised
        return values

    own = wk.aggregate("own", lift=lift, combine=lambda a, b: a, lower=lambda s: s, commutative=True)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=own("v"))
    table = pa.table({"k": [1], "t": [5], "v": [2.0]})
    with pytest.raises(
        wk.InvalidValue, match=r"was raised; in the query by k over t, windows tumbling\(10\)"
    ):
        list(shipped(Rows(query))(iter(table.to_batches())))


def test_where_memory_is_short_the_error_says_so(tmp_path):
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    (tmp_path / "task").write_bytes(cloudpickle.dumps(shipped(Rows(query))))
    (tmp_path / "windowkit").mkdir()
    text = "_native.so: failed to map segment from shared object"
    (tmp_path / "windowkit" / "__init__.py").write_text(f"raise ImportError({text!r})\n")
    printed = program(
        """
        import pickle
        run = pickle.load(open("TASK", "rb"))
        try:
            list(run(iter([])))
        except RuntimeError as error:
            print(error)
        """.replace("TASK", str(tmp_path / "task")),
        path=str(tmp_path),
    )
    assert "memory may be short there: spark.executor.pyspark.memory" in printed
    assert "install windowkit" not in printed


def test_memory_that_is_refused_names_the_query_and_the_setting(readings):
    def needy(batches):
        raise MemoryError("an allocation of 134217728 bytes failed")

    emitted = "query by device over ts"
    with pytest.raises(
        PySparkException, match=r"134217728 bytes failed\); spark.executor.pyspark.memory.*" + emitted
    ):
        readings.mapInArrow(shipped(needy, emitted), readings.schema).collect()


# A program in which windowkit cannot be imported; the environment that tests run in may have it.
LACKING = """
        import pickle, sys

        class Lacking:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "windowkit":
                    raise ModuleNotFoundError("No module named 'windowkit'", name="windowkit")

        sys.meta_path.insert(0, Lacking())
"""


def test_where_windowkit_is_missing_the_error_says_so(tmp_path):
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    (tmp_path / "task").write_bytes(cloudpickle.dumps(shipped(Rows(query))))
    # As Spark's workers do: load what the driver pickled, and call it.
    printed = program(
        LACKING
        + """
        run = pickle.load(open("TASK", "rb"))
        try:
            list(run(iter([])))
        except RuntimeError as error:
            print(error)
        """.replace("TASK", str(tmp_path / "task")),
        path=str(tmp_path / "nothing"),
    )
    assert "cannot import windowkit (No module named 'windowkit')" in printed
    assert f"that runs {sys.executable}" in printed
    assert f"install windowkit {wk.__version__} there" in printed


def test_where_pyarrow_is_missing_the_error_says_so(tmp_path):
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    (tmp_path / "task").write_bytes(cloudpickle.dumps(shipped(Rows(query))))
    # Spark's workers load what the driver pickled before they import pyarrow themselves.
    printed = program(
        LACKING.replace("windowkit", "pyarrow")
        + """
        try:
            pickle.load(open("TASK", "rb"))
        except RuntimeError as error:
            print(error)
        """.replace("TASK", str(tmp_path / "task")),
        path=str(tmp_path / "nothing"),
    )
    assert f"that runs {sys.executable} cannot import pyarrow (No module named 'pyarrow')" in printed
    assert "install windowkit there, which brings pyarrow, or have PYSPARK_PYTHON name an" in printed


def test_where_windowkit_is_missing_a_data_source_says_so(tmp_path):
    pq.write_table(pa.table({"k": [1], "t": [5], "v": [2.0]}), tmp_path / "rows.parquet")
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    source = datasource.shipped_source()({**wk.spark.options(query), "path": str(tmp_path / "rows.parquet")})
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    (batch,) = reader.read(partition)
    assert batch.to_pylist()[0]["sum(v)"] == 2
    (tmp_path / "source").write_bytes(cloudpickle.dumps((source, reader, partition)))
    printed = program(
        LACKING
        + """
        source, reader, partition = pickle.load(open("SOURCE", "rb"))
        for run in (source.schema, lambda: list(reader.read(partition))):
            try:
                run()
            except RuntimeError as error:
                print(error)
        """.replace("SOURCE", str(tmp_path / "source")),
        path=str(tmp_path / "nothing"),
    )
    said = "cannot import windowkit (No module named 'windowkit')"
    assert printed.count(said) == printed.count(f"install windowkit {wk.__version__} there") == 2


def test_a_failure_of_a_data_source_names_the_query(spark, tmp_path):
    big = pa.table({"k": [1, 1], "t": [5, 6], "v": [2**63 - 1, 1]})
    pq.write_table(big, tmp_path / "rows.parquet")
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    wk.spark.register(spark)
    read = spark.read.format("windowkit").options(**wk.spark.options(query))
    with pytest.raises(
        PySparkException, match=r"does not fit bigint; in the query by k over t, windows tumb"
    ):
        read.load(str(tmp_path / "rows.parquet")).collect()


def test_a_worker_of_another_version_fails_at_once(tmp_path):
    (tmp_path / "windowkit").mkdir()
    (tmp_path / "windowkit" / "__init__.py").write_text("__version__ = '0.0.9'\n")
    printed = program(
        f"""
        import sys
        sys.path.insert(0, {ROOT!r})
        from pyspark.sql import SparkSession
        import windowkit as wk

        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        query = wk.query(by="id", time="id", windows=wk.tumbling(10), aggs=wk.median("id"))
        for route in ("packed", "rows"):
            try:
                query.run(spark.range(9), route=route).collect()
            except Exception as error:
                print(str(error))
        try:
            wk.spark.repartition(spark.range(9), 2, "id", "cam").collect()
        except Exception as error:
            print(str(error))
        wk.spark.register(spark)
        try:
            spark.read.format("windowkit").options(**wk.spark.options(query)).load("nothing")
        except Exception as error:
            print(str(error))
        """,
        path=str(tmp_path),
    )
    runs = re.escape(sys.executable)
    said = f"RuntimeError: windowkit: the worker on host .* that runs {runs} has windowkit 0.0.9, the driver"
    assert len(re.findall(said + f" has {re.escape(wk.__version__)}; install", printed)) >= 4


def test_a_task_that_is_killed_is_run_again(tmp_path):
    rows = pa.table(
        {"k": [r % 7 for r in range(900)], "t": list(range(900)), "v": [float(r % 31) for r in range(900)]}
    )
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=100)
    printed = program(
        f"""
        import os, signal
        import pyarrow.compute as pc
        from pathlib import Path
        from pyspark.sql import SparkSession
        import windowkit as wk

        # Each task may fail twice.
        builder = SparkSession.builder.master("local[2, 3]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")

        def dying(once):
            def combine(a, b):
                mark = Path({str(tmp_path)!r}) / once
                try:
                    mark.touch(exist_ok=False)
                except FileExistsError:
                    return pc.add(a, b)
                if len(a):
                    os.kill(os.getpid(), signal.SIGKILL)
                mark.unlink()
                return pc.add(a, b)
            return wk.aggregate("own", lift=lambda v: v, combine=combine, lower=lambda s: s, commutative=True)

        def rows(df):
            return sorted(map(repr, df.collect()))

        path = {str(tmp_path / "rows.parquet")!r}
        frame = spark.read.parquet(path)
        windows = wk.sliding(50, 20)
        plain = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v").alias("own(v)"))
        wanted = rows(plain.run(frame))
        for once in ("packed", "scan", "rows"):
            query = wk.query(by="k", time="t", windows=windows, aggs=dying(once)("v"))
            if once == "scan":
                result = wk.spark.scan(spark, path, query)
            else:
                result = query.run(frame.repartition(3), route=once)
            assert not (Path({str(tmp_path)!r}) / once).exists()
            assert rows(result) == wanted, once
            assert (Path({str(tmp_path)!r}) / once).exists()
            print("equal after a kill", once)
        """
    )
    assert printed.count("equal after a kill") == 3


def test_a_worker_that_is_killed_while_it_reads_a_file_reads_it_again(tmp_path):
    """By SIGKILL, in the midst of a row group; and what the scan answers is what Spark's own functions do."""
    printed = program(
        f"""
        import os, signal
        from pathlib import Path
        import pyarrow as pa, pyarrow.parquet as pq
        from pyarrow import fs
        from pyspark.sql import SparkSession
        import windowkit as wk

        folder = Path({str(tmp_path)!r})
        rows, second = range(40_000), 1_000_000
        table = {{
            "k": [f"key {{n % 13}}" for n in rows],
            "t": pa.array([n * 7919 % 40_000 * second for n in rows], pa.timestamp("us", "UTC")),
            "v": [float(n % 1009) for n in rows],
        }}
        (folder / "rows").mkdir()
        for file in range(3):
            pq.write_table(pa.table(table).slice(file * 14_000, 14_000), folder / f"rows/{{file}}.parquet")

        def once(name):
            try:
                (folder / name).touch(exist_ok=False)
            except FileExistsError:
                return False
            return True

        class Opened:
            # A file whose reader is killed when it has read some of its rows.
            def __init__(self, path):
                self.file, self.path, self.taken = open(path, "rb"), path, 0

            def __getattr__(self, name):
                return getattr(self.file, name)

            def read(self, size=-1):
                data = self.file.read(size)
                self.taken += len(data)
                from pyspark import TaskContext
                if self.path.endswith("1.parquet") and TaskContext.get() and self.taken > 100_000:
                    if once("killed " + what):
                        os.kill(os.getpid(), signal.SIGKILL)
                return data

        local = fs.LocalFileSystem()
        names = [name for name in fs.FileSystemHandler.__abstractmethods__]
        def passed_on(name):
            return lambda self, *arguments: getattr(local, name)(*arguments)
        own = {{name: passed_on(name) for name in names}}
        own["get_type_name"] = lambda self: "deadly"
        own["get_file_info_selector"] = lambda self, selector: local.get_file_info(selector)
        own["open_input_file"] = lambda self, path: pa.PythonFile(Opened(path), mode="r")
        own["__eq__"] = lambda self, other: type(self) is type(other)
        own["__ne__"] = lambda self, other: type(self) is not type(other)
        Deadly = type("Deadly", (fs.FileSystemHandler,), own)

        # Each task may fail once.
        builder = SparkSession.builder.master("local[2, 2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.session.timeZone", "UTC")
        spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        frame = spark.read.parquet(str(folder / "rows"))
        assert frame.count() == 40_000
        windows = wk.sliding("10 minutes", "3 minutes")
        for what, aggs in [("slices", [wk.sum("v"), wk.count()]), ("rows", [wk.median("v")])]:
            query = wk.query(by="k", time="t", windows=windows, aggs=aggs)
            wanted = sorted(map(repr, wk.spark.reference(frame, query).collect()))
            scan = wk.spark.scan(spark, str(folder / "rows"), query, filesystem=fs.PyFileSystem(Deadly()))
            assert sorted(map(repr, scan.collect())) == wanted
            assert (folder / ("killed " + what)).exists()
            print("equal after a kill", what)
        """
    )
    assert printed.count("equal after a kill") == 2


def test_a_task_that_fails_twice_is_run_a_third_time(tmp_path):
    """Killed at first, then with an error; of both stages, and half-way, after they yielded something."""
    printed = program(
        f"""
        import os, signal
        from itertools import islice
        from pathlib import Path
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk
        from windowkit.spark.routes import packed, stages
        from windowkit.spark.jobs.job import job
        from windowkit.spark.jobs.reference import output_schema
        from windowkit.spark.shipping import shipped

        folder = Path({str(tmp_path)!r})

        class Failing:
            def __init__(self, task, stage, most):
                self.task, self.stage, self.most = task, stage, most
                self.query = task.query

            def __call__(self, batches):
                from pyspark import TaskContext
                context = TaskContext.get()
                if context.partitionId() != 1 or context.attemptNumber() >= self.most:
                    yield from self.task(batches)
                    return
                (folder / f"{{self.stage}} {{context.attemptNumber()}}").touch()
                yield from islice(self.task(batches), 1)
                if context.attemptNumber() == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                raise wk.InvalidValue("data: spoilt")

        builder = SparkSession.builder.master("local[2, 3]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.sql.adaptive.enabled", "false")
        spark = builder.config("spark.sql.shuffle.partitions", "3").getOrCreate()
        spark.sparkContext.setLogLevel("OFF")
        frame = spark.range(0, 4000, 1, 3).selectExpr("id % 29 as k", "id as t", "hash(id) as v")
        aggs = [wk.median("v"), wk.sum("v")]
        # Structs, as stages have them.
        query = wk.query(by="k", time="t", windows=wk.sliding(200, 80), aggs=aggs, window_columns="struct")
        checked = job(frame, query)

        def run(failing, most):
            limits = stages.Limits(slots=50, rows=200, trial=100, share=9.0, yielded=1, joined=1)
            pack = stages.Pack(query, checked.schema, *packed.buckets(checked), limits=limits)
            unpack = stages.Unpack(query, checked.schema, limits=limits)
            if failing == "pack":
                pack = Failing(pack, failing, most)
            else:
                unpack = Failing(unpack, failing, most)
            chunks = checked.rows.mapInArrow(shipped(pack), packed.CHUNKS)
            placed = chunks.repartition(sf.col("bucket")).sortWithinPartitions("bucket")
            windows = placed.select("bucket", "chunk").mapInArrow(shipped(unpack), output_schema(checked))
            return sorted(map(repr, windows.collect()))

        wanted = sorted(map(repr, query.run(frame, route="rows").collect()))
        for stage in ("pack", "unpack"):
            assert run(stage, 2) == wanted
            assert sorted(path.name for path in folder.glob(stage + " *")) == [stage + " 0", stage + " 1"]
            print("equal after two failures of", stage)
            try:
                run(stage, 3)
            except Exception as error:
                assert "windowkit.errors.InvalidValue: data: spoilt; in the query by k over t" in str(error)
                print("failed after three")
        """
    )
    assert printed.count("equal after two failures") == 2
    assert printed.count("failed after three") == 2
