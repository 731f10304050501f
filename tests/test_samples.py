"""Queries of the literature on real data, against SQL that was written for DuckDB from the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import windowkit as wk


def sql(query: str, path: Path) -> pa.Table:
    """Run SQL over the table ``data``, the rows of a file."""
    connection = duckdb.connect()
    connection.execute(f"SET TimeZone = 'UTC'; CREATE VIEW data AS SELECT * FROM read_parquet('{path}')")
    return connection.sql(query).to_arrow_table()


def assert_same_rows(got: pa.Table, wanted: pa.Table, keys: Sequence[str]) -> None:
    """Compare tables whose windows are flattened to ``start`` and ``end``, floats to nine digits."""
    assert got.num_rows == wanted.num_rows
    order = [(name, "ascending") for name in keys]
    got, wanted = got.sort_by(order), wanted.sort_by(order)
    for name in wanted.column_names:
        ours = got[name].to_numpy()
        theirs = wanted[name].cast(got[name].type).to_numpy()
        if ours.dtype.kind == "f":
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9, err_msg=name)
        else:
            np.testing.assert_array_equal(ours, theirs, err_msg=name)


def flat(result: pa.Table, window_column: str) -> pa.Table:
    start, end = result[window_column].flatten()
    return result.drop_columns(window_column).append_column("start", start).append_column("end", end)


@pytest.mark.parametrize("threads", [1, 2])
def test_cpu_requested_per_scheduling_class_of_a_cluster(samples: Path, threads: int) -> None:
    path = samples / "google_cluster_task_events.parquet"
    query = wk.query(
        by="scheduling_class",
        time="ts",
        windows=wk.sliding("60 seconds", "1 second"),
        aggs=[
            wk.sum("cpu_request").alias("cpu"),
            wk.count("cpu_request").alias("n"),
            wk.count().alias("rows"),
        ],
    )
    wanted = sql(
        """
        SELECT scheduling_class, make_timestamp_ns((second - back) * 1_000_000_000) AS start,
               make_timestamp_ns((second - back + 60) * 1_000_000_000) AS "end",
               sum(cpu_request) AS cpu, count(cpu_request) AS n, count(*) AS "rows"
        FROM (SELECT scheduling_class, cpu_request, epoch_ns(ts) // 1_000_000_000 AS second FROM data),
             range(60) AS w(back)
        GROUP BY ALL
        """,
        path,
    )
    got = flat(query.run(pa.parquet.read_table(path), threads=threads), "window")
    assert_same_rows(got, wanted, ["scheduling_class", "start"])


def test_extremes_and_means_of_a_machines_sensors(samples: Path) -> None:
    path = samples / "debs2012_manufacturing.parquet"
    sensors = ["mf01", "mf02", "mf03", "pc13"]
    query = wk.query(
        by=[],
        time="ts",
        windows=wk.sliding("10 seconds", "1 second"),
        aggs=[
            function(name).alias(f"{function.__name__}_{name}")
            for name in sensors
            for function in (wk.min, wk.max, wk.mean, wk.stddev_pop)
        ],
    )
    columns = ", ".join(
        f"min({name}) AS min_{name}, max({name}) AS max_{name}, avg({name}) AS mean_{name}, "
        f"stddev_pop({name}) AS stddev_pop_{name}"
        for name in sensors
    )
    # An inequality join, straight from the definition: all windows that could have a row, with their rows.
    wanted = sql(
        f"""
        WITH windows AS (
            SELECT unnest(generate_series(
                date_trunc('second', (SELECT min(ts) FROM data)) - INTERVAL 10 SECOND,
                (SELECT max(ts) FROM data),
                INTERVAL 1 SECOND
            )) AS start
        )
        SELECT start, start + INTERVAL 10 SECOND AS "end", {columns}
        FROM windows JOIN data ON ts >= start AND ts < start + INTERVAL 10 SECOND
        GROUP BY start
        """,
        path,
    )
    got = flat(query.run(pa.parquet.read_table(path)), "window")
    assert_same_rows(got, wanted, ["start"])


@pytest.mark.parametrize("threads", [1, 2])
def test_busy_times_of_taxi_cells_from_rides_out_of_order(samples: Path, threads: int) -> None:
    path = samples / "debs2015_rides_profitable_cell.parquet"
    query = wk.query(
        by=["pickup_cell_x", "pickup_cell_y"],
        time="dropoff_ts",
        windows=wk.session("90 seconds"),
        aggs=[
            wk.count().alias("rides"),
            wk.sum("fare_amount").alias("fares"),
            wk.max("tip_amount").alias("tip"),
        ],
    )
    wanted = sql(
        """
        WITH marked AS (
            SELECT *, epoch_ns(dropoff_ts) - lag(epoch_ns(dropoff_ts)) OVER cell AS pause
            FROM data
            WINDOW cell AS (PARTITION BY pickup_cell_x, pickup_cell_y ORDER BY dropoff_ts)
        ), numbered AS (
            SELECT *, sum((pause IS NULL OR pause > 90_000_000_000)::INT) OVER (
                PARTITION BY pickup_cell_x, pickup_cell_y ORDER BY dropoff_ts ROWS UNBOUNDED PRECEDING
            ) AS number
            FROM marked
        )
        SELECT pickup_cell_x, pickup_cell_y, min(dropoff_ts) AS start,
               make_timestamp_ns(max(epoch_ns(dropoff_ts)) + 90_000_000_000) AS "end",
               count(*) AS rides, sum(fare_amount) AS fares, max(tip_amount) AS tip
        FROM numbered
        GROUP BY pickup_cell_x, pickup_cell_y, number
        """,
        path,
    )
    assert 1_000 < wanted.num_rows < 10_000
    got = flat(query.run(pa.parquet.read_table(path), threads=threads), "session_window")
    assert_same_rows(got, wanted, ["pickup_cell_x", "pickup_cell_y", "start"])


def test_rides_of_a_route_in_the_last_half_hour(samples: Path) -> None:
    path = samples / "debs2015_rides_frequent_route.parquet"
    route = ["pickup_cell_x", "pickup_cell_y", "dropoff_cell_x", "dropoff_cell_y"]
    query = wk.query(
        by=route,
        time="dropoff_ts",
        windows=wk.sliding("30 minutes", "7 minutes", start_time="2 minutes"),
        aggs=[
            wk.count().alias("rides"),
            wk.mean("trip_distance").alias("distance"),
            wk.min("medallion").alias("medallion"),
        ],
    )
    keys = ", ".join(route)
    wanted = sql(
        f"""
        WITH windows AS (
            SELECT unnest(range(
                (SELECT min(epoch_ns(dropoff_ts)) // 60_000_000_000 // 7 * 7 - 35 + 2 FROM data),
                (SELECT max(epoch_ns(dropoff_ts)) // 60_000_000_000 + 1 FROM data),
                7
            )) * 60_000_000_000 AS s
        )
        SELECT {keys}, make_timestamp_ns(s) AS start, make_timestamp_ns(s + 1_800_000_000_000) AS "end",
               count(*) AS rides, avg(trip_distance) AS distance, min(medallion) AS medallion
        FROM windows JOIN data
          ON epoch_ns(dropoff_ts) >= s AND epoch_ns(dropoff_ts) < s + 1_800_000_000_000
        GROUP BY {keys}, s
        """,
        path,
    )
    assert_same_rows(flat(query.run(pa.parquet.read_table(path)), "window"), wanted, [*route, "start"])
