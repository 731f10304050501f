"""Queries of the results of queries: roll-ups of roll-ups, whose plans grow as their number does."""

import pytest
from pyspark.sql import functions

import windowkit as wk

DEPTH = 10
MINUTES = [2**level for level in range(DEPTH)]
ROUTES = ("catalyst", "catalyst-panes", "packed", "rows")


def rolled(frame, length, route, window):
    query = wk.query(by="device", time="ts", windows=window(length), aggs=wk.sum("v"))
    result = query.run(frame, route=route)
    return result.select(
        "device", functions.col("window_start").alias("ts"), functions.col("sum(v)").alias("v")
    )


def utc_months(_):
    """Periods of a calendar, which have expressions of their own."""
    return wk.tumbling("1 month", zone="UTC")


def tumbling(minutes):
    return wk.tumbling(f"{minutes} minutes")


def plan(frame):
    return frame._jdf.queryExecution().optimizedPlan().toString()


def rows(frame):
    return sorted(map(tuple, frame.collect()))


@pytest.mark.parametrize("routes", [*((route,) for route in ROUTES), (None,), ROUTES], ids=str)
def test_plans_of_rollups_are_linear_in_their_depth(spark, readings, routes):
    frame = readings.selectExpr("device", "ts", "v")
    lengths = []
    for level, minutes in enumerate(MINUTES):
        frame = rolled(frame, minutes, routes[level % len(routes)], tumbling)
        # What asks for times is not put into the expressions of all levels, either.
        lengths.append(len(plan(frame.where("ts >= timestamp'1970-01-01 00:00:00'"))))
    assert lengths[-1] < 3 * lengths[DEPTH // 2 - 1]
    own = functions.window("ts", f"{MINUTES[-1]} minutes").alias("window")
    expected = readings.groupBy("device", own).agg(functions.sum("v").alias("v"))
    assert rows(frame) == rows(expected.selectExpr("device", "window.start as ts", "v")) != []


def test_plans_of_rollups_by_the_calendar(spark, readings):
    frame, lengths = readings.selectExpr("device", "ts", "v"), []
    for _ in range(DEPTH):
        frame = rolled(frame, None, "catalyst", utc_months)
        lengths.append(len(plan(frame)))
    assert lengths[-1] < 3 * lengths[DEPTH // 2 - 1]
    clock = functions.expr("convert_timezone(current_timezone(), 'UTC', cast(ts as timestamp_ntz))")
    expected = (
        readings.where("ts is not null")
        .groupBy("device", functions.date_trunc("month", clock))
        .agg(functions.sum("v").alias("v"))
    )
    assert {row["v"] for row in frame.collect()} == {row["v"] for row in expected.collect()}


def test_conditions_on_keys_still_reach_the_rows(readings):
    """Those on columns that are not windows: what is read is what they leave."""
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.count())
    lines = plan(query.run(readings, route="catalyst").where("device = 'a'")).splitlines()
    filters = [at for at, line in enumerate(lines) if "Filter" in line and "= a" in line]
    grouped = [at for at, line in enumerate(lines) if "Aggregate" in line]
    assert filters
    assert min(filters) > max(grouped)
