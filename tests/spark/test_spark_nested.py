"""Queries of the results of queries: roll-ups of roll-ups, whose plans grow as their number does."""

import pyarrow as pa
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


def windows(kind, **options):
    query = wk.query(by="k", time="t", windows=kind, aggs=wk.sum("v").alias("s"), **options)
    return query, ["k", "window_start", "s"]


FRAME = wk.sum("v").over("40 seconds").alias("s")
STEPS = {
    "tumbling": windows(wk.tumbling("1 minute")),
    "sliding": windows(wk.sliding("2 minutes", "1 minute")),
    "session": windows(wk.session("15 seconds")),
    "calendar": windows(wk.tumbling("1 day", zone="Europe/Berlin")),
    "fill": windows(wk.tumbling("1 minute"), fill="zero"),
    "rolling": (wk.rolling(by="k", time="t", aggs=FRAME), ["k", "t", "s"]),
    "distinct": (wk.distinct("k", time="t", within="0 seconds"), ["k", "t", "v"]),
    "at": (wk.rolling(by="k", time="t", aggs=FRAME), ["k", "t", "s"]),
    "join": (
        wk.join(by="k", left_time="t", right_time="t", within="5 seconds"),
        ["k", "t", "v_right"],
    ),
}
OF_VIEW = """
    with w as (table rolled_up) select k, window_start, s from windowkit(
        table(w), by => 'k', time => 't', windows => 'tumbling(1 minute)', aggs => 'sum(v) as s')
    where k <= 'y'
"""


def after(name, frame, base):
    """Return the rows k, t and v after a step; windows by SQL are those of the step that has none."""
    if name == "sql" and not isinstance(frame, pa.Table):
        frame.createOrReplaceTempView("rolled_up")
        result, columns = wk.spark.sql(frame.sparkSession, OF_VIEW), STEPS["tumbling"][1]
    else:
        operation, columns = STEPS["tumbling" if name == "sql" else name]
        if name == "at":
            result = operation.at(frame.select(["k", "t"]), base)
        else:
            result = operation.run(frame, base) if name == "join" else operation.run(frame)
    if isinstance(result, pa.Table):
        return result.select(columns).rename_columns(["k", "t", "v"])
    return result.select(*columns).toDF("k", "t", "v")


@pytest.mark.parametrize(
    "steps",
    [
        ("join", "distinct", "at", "sliding", "sql", "rolling", "fill", "sql", "session", "calendar"),
        ("sql", "rolling", "session", "tumbling", "at", "distinct", "join", "sliding", "fill", "calendar"),
        *((name,) * DEPTH for name in ("rolling", "at", "join")),
    ],
    ids=lambda steps: steps[0] if len({*steps}) == 1 else "mixed",
)
def test_results_of_results_of_every_kind(spark, steps):
    """The engine of this process, which has no plans, says what they are."""
    times = pa.array([at * 10_000_000 for at in range(40)], pa.timestamp("us", "UTC"))
    rows = pa.table({"k": ["x", "y"] * 20, "t": times, "v": pa.array(range(40), pa.int64())})
    frame = base = spark.createDataFrame(rows)
    table, nodes = rows, []
    for name in steps:
        frame, table = after(name, frame, base), after(name, table, rows)
        nodes.append(len(plan(frame.where("t >= timestamp'1970-01-01'")).splitlines()))
    assert nodes[-1] < 3 * nodes[DEPTH // 2 - 1]
    assert max(map(len, plan(frame).splitlines())) < 20_000
    found = frame.toArrow()
    assert sorted(map(repr, found.cast(table.schema).to_pylist())) == sorted(map(repr, table.to_pylist()))
    assert table.num_rows


def test_conditions_on_keys_still_reach_the_rows(readings):
    """Those on columns that are not windows: what is read is what they leave."""
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.count())
    lines = plan(query.run(readings, route="catalyst").where("device = 'a'")).splitlines()
    filters = [at for at, line in enumerate(lines) if "Filter" in line and "= a" in line]
    grouped = [at for at, line in enumerate(lines) if "Aggregate" in line]
    assert filters
    assert min(filters) > max(grouped)
