"""The days on which windows begin, in Spark: those that one process finds, whatever the session's zone is."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import windowkit as wk
import windowkit.spark

# Hours around changes of clocks, of which some go from one side of midnight to the other.
PLACES = [datetime(2018, 11, 4), datetime(2018, 2, 18), datetime(2011, 12, 30), datetime(2024, 3, 31)]
TABLE = pa.table(
    {
        "k": [hour % 2 for _ in PLACES for hour in range(-30, 54)],
        "ts": pa.array(
            [
                (place + timedelta(hours=hour)).replace(tzinfo=timezone.utc)
                for place in PLACES
                for hour in range(-30, 54)
            ],
            pa.timestamp("us", "UTC"),
        ),
    }
)
ZONES = ["Europe/Paris", "America/Havana", "America/Sao_Paulo", "Pacific/Apia", "+05:45", None]


def query_of(zone: str | None, windows: wk.Window | None = None) -> wk.Query:
    windows = windows or wk.tumbling("1 day", zone=zone)
    return wk.query(by="k", time="ts", windows=windows, aggs=wk.count().alias("n"), window_columns="date")


@pytest.mark.parametrize("session", ["UTC", "America/Sao_Paulo", "Asia/Tokyo"])
def test_days_are_those_of_one_process(spark: SparkSession, settings, session: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(TABLE, tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    with settings({"spark.sql.session.timeZone": session}):
        frame = spark.read.parquet(path)
        for zone in ZONES:
            late = wk.sliding("3 days", "1 day", zone=zone, start_time="23 hours 30 minutes")
            for query in (query_of(zone), query_of(zone, late)):
                wanted = sorted(map(tuple, zip(*query.run(TABLE).to_pydict().values(), strict=True)))
                result = query.run(frame)
                assert result.dtypes[1] == ("window_date", "date")
                assert sorted(map(tuple, result.collect())) == wanted, (zone, session)


def test_every_route_scans_and_the_data_source(spark: SparkSession, tmp_path: Path) -> None:
    query = query_of("Europe/Paris")
    wanted = sorted(zip(*query.run(TABLE).to_pydict().values(), strict=True))
    pyarrow.parquet.write_table(TABLE, tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    frame = spark.read.parquet(path)
    wk.spark.register(spark)
    options = wk.spark.options(query)
    assert options["windowColumns"] == "date"
    scanned = wk.spark.scan(spark, path, query)
    assert scanned.schema == query.run(frame).schema
    results = [
        scanned,
        spark.read.format("windowkit").options(**options).load(path),
        query.run(frame, partitioner="hash", n=2),
        *(query.run(frame, route=route) for route in ("catalyst", "packed", "rows")),
    ]
    for result in results:
        assert sorted(map(tuple, result.collect())) == wanted


def test_conditions_on_days(spark: SparkSession) -> None:
    query, frame = query_of("Europe/Paris"), spark.createDataFrame(TABLE)
    for where in ("window_date = '2024-03-31'", "window_date >= date '2018-11-04' and n > 1"):
        expected = query.run(frame).where(where)
        assert expected.count() > 0
        assert sorted(query.run(frame, where=where).collect()) == sorted(expected.collect())


def test_times_without_a_zone(spark: SparkSession, tmp_path: Path) -> None:
    query, table = query_of(None), TABLE.set_column(1, "ts", TABLE["ts"].cast(pa.timestamp("us")))
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    assert frame.dtypes[1] == ("ts", "timestamp_ntz")
    wanted = sorted(zip(*query.run(table).to_pydict().values(), strict=True))
    assert sorted(map(tuple, query.run(frame).collect())) == wanted
