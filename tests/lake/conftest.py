"""A Spark session with the jars of Delta and Iceberg, for a pyspark that both support: see `make lake`.

`make test` leaves these tests out: its pyspark is newer, and a process has one session. Spark fetches the
jars from Maven Central, once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import windowkit as wk
import windowkit.spark
from support.lake import EVERY, FORMATS, READ, by_spark, counted
from support.programs import ROOT
from support.spark import assert_equal, rows_of
from windowkit.spark.routes import scan

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
# As in tests/spark: most queries run once, and are hardly worth compiling.
os.environ["JDK_JAVA_OPTIONS"] = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=256m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)

SESSION = {
    **FORMATS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "Europe/Berlin",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Delta's log in one partition instead of 50.
    "spark.databricks.delta.snapshotPartitions": "1",
    # Spark's reader leaves rows with NaN out by statistics, which know nothing of NaN.
    "spark.sql.parquet.filterPushdown": "false",
}


def pytest_configure(config: pytest.Config) -> None:
    # This pyspark leaves sockets to the garbage collector.
    config.addinivalue_line("filterwarnings", "ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("warehouse")
    builder = SparkSession.builder.master("local[2]").appName("windowkit")
    for name, value in SESSION.items():
        builder = builder.config(name, value)
    builder = builder.config("spark.sql.warehouse.dir", str(folder / "own"))
    builder = builder.config("spark.sql.catalog.ice.warehouse", str(folder / "ice"))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have tasks read small tables, too."""
    monkeypatch.setattr(scan, "FROM", 0)
    monkeypatch.setattr(scan, "FROM_OF_SPARKS", 0)


@pytest.fixture
def table(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """Return the name of a table of a format; it is dropped after the test."""
    names = []

    def name_of(kind: str, name: str = "t") -> str:
        catalog = {"delta": "spark_catalog", "iceberg": "ice"}[kind]
        names.append(f"{catalog}.default.{name}_{len(names)}")
        spark.sql(f"drop table if exists {names[-1]}")
        return names[-1]

    yield name_of
    for name in names:
        spark.sql(f"drop table if exists {name}")


@pytest.fixture
def read(spark: SparkSession) -> Callable[..., str]:
    """Assert that tasks read the files, and the rows that Spark's reader does; return what `explain` says."""

    def check(frame: DataFrame, rows: int | None = None) -> str:
        text = str(EVERY.explain(frame))
        assert f"stage 1, {READ}" in text, text
        wanted = by_spark(spark, lambda: EVERY.run(frame))
        found = counted(EVERY.run(frame))
        assert found == wanted, (found - wanted, wanted - found)
        if rows is not None:
            assert sum(found.values()) == rows
        return text

    return check


@pytest.fixture
def left(spark: SparkSession) -> Callable[[DataFrame, str], None]:
    """Assert that files are left to Spark's reader for a reason, and that rows are those of Spark."""

    def check(frame: DataFrame, reason: str) -> None:
        text = str(EVERY.explain(frame))
        (why,) = [line for line in text.splitlines() if "not read from files by tasks, as" in line]
        assert reason in why, why
        assert counted(EVERY.run(frame)) == by_spark(spark, lambda: EVERY.run(frame))

    return check


@pytest.fixture
def answers(spark: SparkSession) -> Callable[[DataFrame, wk.Query], int]:
    """Assert that tasks read the files for a query, which has Spark's own windows; return how many."""

    def check(frame: DataFrame, query: wk.Query) -> int:
        assert "\nroute: scan" in str(query.explain(frame)), query.explain(frame)
        wanted = rows_of(windowkit.spark.reference(frame, query), query)
        assert_equal(rows_of(query.run(frame), query), wanted, 1e-9, str(query))
        return len(wanted)

    return check
