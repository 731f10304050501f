"""A Spark session, and comparison of what windowkit answers with what Spark does."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import windowkit as wk
import windowkit.spark

# Workers run the interpreter, and import the windowkit, of these tests.
os.environ["PYSPARK_PYTHON"] = sys.executable
ROOT = str(Path(wk.__file__).parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
# JVMs here run each query once or twice: the second compiler and G1's threads cost a third of all the time.
os.environ["JDK_JAVA_OPTIONS"] = (
    f"{os.environ.get('JDK_JAVA_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
)

Row = tuple[Any, ...]
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
    }
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


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


def rows_of(frame: DataFrame, query: wk.Query) -> dict[Row, Row]:
    """Return the rows of a result: what identifies each, and its aggregates."""
    identifying = len(query.columns) - len(query.aggs)
    # Arrow tells apart the two instants that one local time may be at the end of summer.
    columns = [plain(column) for column in frame.toArrow().columns]
    rows: dict[Row, Row] = {}
    for row in zip(*columns, strict=True):
        identity = tuple(map(hashable, row[:identifying]))
        assert identity not in rows, f"{identity} occurs twice"
        rows[identity] = row[identifying:]
    return rows


def plain(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column, with times as numbers."""
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_struct(kind):
        fields = list(zip(*map(plain, column.flatten()), strict=True))
        valid = column.is_valid().to_pylist()
        return [field if there else None for field, there in zip(fields, valid, strict=True)]
    return list(column.to_pylist())


def hashable(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(map(hashable, value))
    return value


def assert_equal(got: dict[Row, Row], wanted: dict[Row, Row], tolerance: float, where: str) -> None:
    missing, surplus = wanted.keys() - got.keys(), got.keys() - wanted.keys()
    assert not missing, f"{where}: {len(missing)} rows are missing, like {min(missing, key=repr)}"
    assert not surplus, f"{where}: {len(surplus)} rows too many, like {min(surplus, key=repr)}"
    for identity, values in wanted.items():
        for position, (mine, theirs) in enumerate(zip(got[identity], values, strict=True)):
            assert same(mine, theirs, tolerance), (
                f"{where}: {identity}, {position}: {mine!r} is not {theirs!r}"
            )


def same(mine: Any, theirs: Any, tolerance: float) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        return math.isclose(mine, theirs, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(mine, Decimal):
        # Equal numbers of different scales would be equal.
        return isinstance(theirs, Decimal) and mine.as_tuple() == theirs.as_tuple()
    return bool(mine == theirs)


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


def readings_table(rows: int = 400) -> pa.Table:
    at, times = 0, []
    for row in range(rows):
        # From 0 to 4 minutes, every 40th time most of a day; a fifth of the rows tie with the one before.
        at += 0 if row % 5 == 4 else (row * 7919 % 240) * 1_000_000 + row % 3
        if row % 40 == 39:
            at += 70_000_000_000
        times.append(at)
    change = 1_711_843_200_000_000  # 2024-03-31 00:00 UTC; in Berlin clocks skip an hour at 01:00 UTC.
    times = [time - 3_600_000_000 if row < rows // 2 else time + change for row, time in enumerate(times)]
    order = sorted(range(rows), key=lambda row: row * 7907 % 401)
    keys = ["a", "b", None, "c"]
    columns = {
        "device": pa.array([keys[row * row % 4] if row % 11 else "a" for row in order], pa.string()),
        "ts": pa.array(
            [None if row % 29 == 28 else times[row] for row in order], pa.timestamp("us", tz="UTC")
        ),
        "v": pa.array([None if row % 7 == 3 else (row * 37 % 101) / 8 - 3 for row in order], pa.float64()),
        "n": pa.array([None if row % 13 == 5 else row * 31 % 97 - 40 for row in order], pa.int64()),
        # Rows that tie have equal values, so that which is first is all the same.
        "at": pa.array([times[row] % 1_000_003 for row in order], pa.int32()),
        "maybe": pa.array([None if times[row] % 3 == 0 else times[row] % 1009 for row in order], pa.int32()),
    }
    return pa.table(columns).append_column("ntz", columns["ts"].cast(pa.timestamp("us")))
