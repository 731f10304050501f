"""Queries of the literature on real data, against SQL that was written for DuckDB from the definitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import pytest

import windowkit as wk
from support.flights import flights

TRACE = Path(__file__).parent / "data" / "google_cluster_task_events.parquet"


def sql(query: str, data: pa.Table) -> pa.Table:
    """Run SQL over the table ``data``."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("data", data)
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


def named(result: pa.Table) -> pa.Table:
    """Return a result with starts and ends called as the queries of DuckDB call them."""
    return result.rename_columns([name.removeprefix("window_") for name in result.column_names])


@pytest.mark.parametrize("threads", [1, 2])
def test_cpu_requested_per_scheduling_class_of_a_cluster(threads: int) -> None:
    events = pa.parquet.read_table(TRACE)
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
        events,
    )
    got = named(query.run(events, threads=threads))
    assert_same_rows(got, wanted, ["scheduling_class", "start"])


def test_extremes_and_means_of_rows_in_order() -> None:
    departures = flights(days=21)
    times = departures["scheduled"]
    assert pc.all(pc.less_equal(times[:-1], times[1:])).as_py()
    measures = ["dep_delay", "arr_delay", "air_time", "distance"]
    query = wk.query(
        by=[],
        time="scheduled",
        windows=wk.sliding("30 hours", "3 hours"),
        aggs=[
            function(name).alias(f"{function.__name__}_{name}")
            for name in measures
            for function in (wk.min, wk.max, wk.mean, wk.stddev_pop)
        ],
    )
    columns = ", ".join(
        f"min({name}) AS min_{name}, max({name}) AS max_{name}, avg({name}) AS mean_{name}, "
        f"stddev_pop({name}) AS stddev_pop_{name}"
        for name in measures
    )
    # An inequality join, straight from the definition: all windows that could have a row, with their rows.
    wanted = sql(
        f"""
        WITH windows AS (
            SELECT unnest(generate_series(
                date_trunc('day', (SELECT min(scheduled) FROM data)) - INTERVAL 30 HOUR,
                (SELECT max(scheduled) FROM data),
                INTERVAL 3 HOUR
            )) AS start
        )
        SELECT start, start + INTERVAL 30 HOUR AS "end", {columns}
        FROM windows JOIN data ON scheduled >= start AND scheduled < start + INTERVAL 30 HOUR
        GROUP BY start
        """,
        departures,
    )
    got = named(query.run(departures))
    assert_same_rows(got, wanted, ["start"])


@pytest.mark.parametrize("threads", [1, 2])
def test_busy_times_of_places_from_landings_out_of_order(threads: int) -> None:
    landings = flights(days=14)
    times = landings["landed"].drop_null().cast(pa.int64()).to_numpy()
    assert (times < np.maximum.accumulate(times)).mean() > 0.95
    query = wk.query(
        by=["to_x", "to_y"],
        time="landed",
        windows=wk.session("40 minutes"),
        aggs=[
            wk.count().alias("landings"),
            wk.sum("air_time").alias("flown"),
            wk.max("arr_delay").alias("delay"),
        ],
    )
    wanted = sql(
        """
        WITH marked AS (
            SELECT *, epoch_ns(landed) - lag(epoch_ns(landed)) OVER place AS pause
            FROM data
            WHERE landed IS NOT NULL
            WINDOW place AS (PARTITION BY to_x, to_y ORDER BY landed)
        ), numbered AS (
            SELECT *, sum((pause IS NULL OR pause > 2_400_000_000_000)::INT) OVER (
                PARTITION BY to_x, to_y ORDER BY landed ROWS UNBOUNDED PRECEDING
            ) AS number
            FROM marked
        )
        SELECT to_x, to_y, min(landed) AS start,
               make_timestamp_ns(max(epoch_ns(landed)) + 2_400_000_000_000) AS "end",
               count(*) AS landings, sum(air_time) AS flown, max(arr_delay) AS delay
        FROM numbered
        GROUP BY to_x, to_y, number
        """,
        landings,
    )
    assert 1_000 < wanted.num_rows < 10_000
    got = named(query.run(landings, threads=threads))
    assert_same_rows(got, wanted, ["to_x", "to_y", "start"])


def test_flights_of_a_route_in_the_last_five_hours() -> None:
    landings = flights(days=14)
    route = ["from_x", "from_y", "to_x", "to_y"]
    query = wk.query(
        by=route,
        time="landed",
        windows=wk.sliding("5 hours", "70 minutes", start_time="20 minutes"),
        aggs=[
            wk.count().alias("flights"),
            wk.mean("arr_delay").alias("delay"),
            wk.min("tailnum").alias("aircraft"),
        ],
    )
    keys = ", ".join(route)
    wanted = sql(
        f"""
        WITH windows AS (
            SELECT unnest(range(
                (SELECT min(epoch_ns(landed)) // 60_000_000_000 // 70 * 70 - 350 + 20 FROM data),
                (SELECT max(epoch_ns(landed)) // 60_000_000_000 + 1 FROM data),
                70
            )) * 60_000_000_000 AS s
        )
        SELECT {keys}, make_timestamp_ns(s) AS start, make_timestamp_ns(s + 18_000_000_000_000) AS "end",
               count(*) AS flights, avg(arr_delay) AS delay, min(tailnum) AS aircraft
        FROM windows JOIN data
          ON epoch_ns(landed) >= s AND epoch_ns(landed) < s + 18_000_000_000_000
        GROUP BY {keys}, s
        """,
        landings,
    )
    assert_same_rows(named(query.run(landings)), wanted, [*route, "start"])
