"""A Spark session, and comparison of what windowkit answers with what Spark does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

import windowkit as wk
import windowkit.spark
from support.programs import ROOT
from support.spark import assert_equal, readings_table, rows_of
from support.spark_runs import ROWS, Rows, add_files
from windowkit.spark.routes import scan
from windowkit.spark.streams import rule

# Workers run the interpreter, and import the windowkit, of these tests.
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
# JVMs here run each query once or twice: the second compiler and G1's threads cost a third of all the time.
# Thousands of queries fill the 48 MiB that are reserved for compiled code without that compiler.
OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=256m"]
# Hadoop starts a program to set the permissions of each file; this way no helper program is started for that.
OPTIONS.append("-Djdk.lang.Process.launchMechanism=VFORK")
# `make test` has kept Spark's classes, so that a JVM need not read and verify them; another JVM ignores them.
if (CLASSES := Path(sys.prefix) / ".stamps" / "spark.jsa").exists():
    OPTIONS += [f"-XX:SharedArchiveFile={CLASSES}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
os.environ["JDK_JAVA_OPTIONS"] = " ".join([os.environ.get("JDK_JAVA_OPTIONS", ""), *OPTIONS])

# Most queries here run once, and to compile Java code for each takes a fourth of all the time: Spark
# evaluates them without, but for those of tests that use `compiled`.
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}

# To see whether a file of a checkpoint is a link, Hadoop starts a program, some forty of them in a batch;
# this class, which renames files, too, does not ask. Streams whose driver is killed keep to Spark's default.
FEWER_PROCESSES = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
# For the sessions of programs that tests start, and of executors.
os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(
    [*(f"--conf {name}={value}" for name, value in INTERPRETED.items()), "pyspark-shell"]
)


SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"

Check = Callable[..., None]
Settings = Callable[[dict[str, str]], AbstractContextManager[None]]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session in a zone with daylight saving time, which no window may notice."""
    builder = SparkSession.builder.master("local[2]").appName("windowkit")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "Europe/Berlin",
        **INTERPRETED,
        # Rows of Parquet files are what tests of scans, and of routes, compare with: as Spark reads them.
        "spark.windowkit.tables": "false",
        # The server of Spark Connect, in the same JVM, for the tests that are its clients.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def compiled(spark: SparkSession) -> Iterator[None]:
    """Compile code for the queries of a module, as Spark does for its users."""
    for name, value in COMPILED.items():
        spark.conf.set(name, value)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


@pytest.fixture(scope="session")
def remote(spark: SparkSession) -> str:
    """The address at which the session's JVM serves Spark Connect."""
    package = spark.sparkContext._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    return f"sc://127.0.0.1:{service.localPort()}"


@pytest.fixture
def settings(spark: SparkSession) -> Settings:
    """Run a block under other Spark settings."""

    @contextmanager
    def apply(changed: dict[str, str]) -> Iterator[None]:
        before = {name: spark.conf.get(name, None) for name in changed}
        for name, value in changed.items():
            spark.conf.set(name, value)
        try:
            yield
        finally:
            for name, previous in before.items():
                if previous is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, previous)

    return apply


@pytest.fixture
def files_are_read(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Have tasks read Parquet files of DataFrames, as they do by default, but of small tables, too."""
    monkeypatch.setattr(scan, "FROM", 0)
    monkeypatch.setattr(scan, "FROM_OF_SPARKS", 0)
    with settings({"spark.windowkit.tables": "true"}):
        spark.conf.unset("spark.windowkit.tables")
        yield


@pytest.fixture
def nan_is_read(settings: Settings) -> Iterator[None]:
    """Have Spark's reader leave no rows with NaN out, as it does by statistics, which know nothing of NaN."""
    with settings({"spark.sql.parquet.filterPushdown": "false"}):
        yield


@pytest.fixture
def check() -> Check:
    """Assert that routes (all that can, by default) answer a query as an oracle does."""

    def assert_same(
        frame: DataFrame,
        query: wk.Query,
        *,
        oracle: DataFrame | None = None,
        routes: tuple[str | None, ...] = ("catalyst", "catalyst-panes", "packed", "rows"),
        tolerance: float = 1e-9,
    ) -> None:
        if oracle is None:
            oracle = windowkit.spark.reference(frame, query)
        wanted = rows_of(oracle, query)
        checked = 0
        for route in routes:
            try:
                result = windowkit.spark.aggregate(frame, query, route=route)
            except wk.InvalidValue as error:
                if "cannot evaluate the query" in str(error):
                    continue
                raise
            assert result.columns == query.columns
            assert [f.dataType for f in result.schema] == [f.dataType for f in oracle.schema]
            assert_equal(rows_of(result, query), wanted, tolerance, f"{query} by route {route}")
            checked += 1
        assert checked > 0, f"no route of {routes} evaluates {query}"

    return assert_same


@pytest.fixture
def same_rows() -> Callable[..., int]:
    """Assert that a result has the rows of another DataFrame; return how many they are."""

    def assert_same(result: DataFrame, oracle: DataFrame, query: wk.Query, tolerance: float = 1e-9) -> int:
        wanted = rows_of(oracle, query)
        assert_equal(rows_of(result, query), wanted, tolerance, str(query))
        return len(wanted)

    return assert_same


@pytest.fixture
def from_arrow(spark: SparkSession) -> Callable[..., DataFrame]:
    """Make a DataFrame of Arrow columns, over several partitions."""

    def make(columns: dict[str, pa.Array], partitions: int = 3) -> DataFrame:
        return spark.createDataFrame(pa.table(columns)).repartition(partitions)

    return make


@pytest.fixture(scope="session")
def readings(spark: SparkSession) -> DataFrame:
    """Rows of four devices in disorder: ties, negative times, gaps, the change to summer time."""
    return spark.createDataFrame(readings_table()).repartition(3).cache()


@pytest.fixture
def rocksdb(settings: Settings) -> Iterator[None]:
    """The state store that streams need, two shuffle partitions, and a cheaper writer of checkpoints."""
    store = "spark.sql.streaming.stateStore.providerClass"
    changed = {store: rule.PROVIDER, "spark.sql.shuffle.partitions": "2", **FEWER_PROCESSES}
    with settings(changed):
        yield


@pytest.fixture
def source(spark: SparkSession, rocksdb: None, tmp_path: Path) -> Callable[..., DataFrame]:
    """Return a stream with a batch for each of the files that there are."""

    def make(*batches: Rows, delay: str | None = "10 seconds", folder: str = "in") -> DataFrame:
        add_files(tmp_path / folder, *batches)
        reader = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1)
        frame = reader.parquet(str(tmp_path / folder))
        return frame if delay is None else frame.withWatermark("ts", delay)

    return make


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a cluster with two workers, of one core each, that count as hosts."""
    folder = tmp_path_factory.mktemp("cluster")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    url = f"spark://127.0.0.1:{port}"
    environment = {**os.environ, "PYTHONPATH": ROOT, "PYSPARK_PYTHON": sys.executable}
    started = []

    def start(name: str, *arguments: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("w") as out:
            command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
            started.append(subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder))
        return log

    try:
        start("master.Master", "--host", "127.0.0.1", "--port", port)
        own = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder))
        workers = [
            # A log each.
            start("worker.Worker", "--host", f"127.0.0.{host}", *own, url).rename(folder / f"worker {host}")
            for host in (1, 2)
        ]
        for _ in range(600):
            if all("Successfully registered with master" in log.read_text() for log in workers):
                break
            time.sleep(0.2)
        else:
            pytest.fail(
                "no cluster: " + "".join(log.read_text() for log in folder.iterdir() if log.is_file())
            )
        yield url
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(60)
