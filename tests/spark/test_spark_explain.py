"""`explain` says which route a query takes, why, and what runs where."""

import windowkit as wk
import windowkit.spark


def test_slices_in_catalyst_and_windows_in_rust(readings):
    query = wk.query(
        by="device",
        time="ts",
        windows=[wk.sliding("10 minutes", "1 minute"), wk.session("45 seconds").alias("visit")],
        aggs=[wk.sum("n"), wk.first("v", ignore_nulls=True).alias("opening")],
    )
    lines = query.explain(readings).splitlines()
    # Why nothing is known depends on whether another test has the rows in the cache already.
    assert lines.pop(6).startswith("  expected: 8 rows per slice, the default, as ")
    assert lines == [
        "query by device over ts",
        "  window: sliding(10 minutes, 1 minute)",
        "  window: session(45 seconds) as visit",
        "  answer: sum(n)",
        "  answer: first(v, ignore_nulls) as opening",
        "route: catalyst-panes, as Catalyst holds the partial aggregates, and slices of at least 4 rows are "
        "expected",
        "  scan: refused, as spark.windowkit.tables is false",
        "  catalyst: refused, as there are several windows, and Spark would read the rows once for each",
        "  packed: possible, with slices made in Python workers",
        "  rows: possible, with all rows over the shuffle and into Python",
        "stage 1, in Catalyst: a slice per key and pane; no row enters Python",
        "  group by: device, greatest("
        "window(ts, '45000000 microseconds', '45000000 microseconds', '0 microseconds').start, "
        "window(ts, '60000000 microseconds', '60000000 microseconds', '0 microseconds').start)",
        "  partial: min(ts)",
        "  partial: max(ts)",
        "  partial: sum(shiftright(n, 32))",
        "  partial: sum(n & 4294967295)",
        "  partial: min_by(v, if(v is null, null, ts))",
        "  partial: min(if(v is null, null, ts))",
        "shuffle: slices, by device",
        "stage 2, in Rust inside one mapInArrow: slices into windows, all keys of a partition at once",
    ]


def test_tumbling_stays_in_spark(readings):
    query = wk.query(
        by=[], time="ts", windows=wk.tumbling("1 hour", start_time="1 minute"), aggs=wk.mean("v")
    )
    text = windowkit.spark.explain(readings, query)
    assert "query by nothing over ts" in text
    assert "route: catalyst, as Spark answers one tumbling window itself" in text
    assert "no row enters Python" in text
    assert "window(ts, '3600000000 microseconds', '3600000000 microseconds', '60000000 microseconds')" in text
    assert "  avg(v): avg(v)" in text


def test_a_route_that_was_asked_for(readings):
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.mean("v"))
    text = query.explain(readings, route="rows")
    assert "route: rows, as requested" in text
    assert "shuffle: rows of device, ts, v, by device" in text
    assert "catalyst: possible" in text


def test_what_catalyst_cannot_hold_is_named(readings):
    wide = readings.selectExpr("device", "ts", "cast(v as decimal(30, 2)) as `the price`")
    query = wk.query(by="device", time="ts", windows=wk.session("1 hour"), aggs=wk.mean("the price"))
    text = query.explain(wide)
    reason = "a part of a sum of `the price`, a decimal(30,2), may not fit where the sum does"
    assert f"route: packed, as {reason}" in text
    assert f"catalyst-panes: refused, as {reason}" in text


def test_integers_and_dates(readings):
    query = wk.query(by="device", time="n", windows=wk.sliding(10, 4, start_time=-1), aggs=wk.count())
    assert "coalesce(try_subtract(bigint(n), pmod(pmod(bigint(n), 4) - 3, 4))" in query.explain(readings)
    dated = readings.selectExpr("device", "date(ts) as day")
    query = wk.query(by="device", time="day", windows=wk.session("2 days"), aggs=wk.count())
    assert "date_from_unix_date(int(" in query.explain(dated)


def test_the_plan_is_as_explained(spark, capsys):
    rows = spark.range(9).selectExpr("id % 2 as device", "timestamp_seconds(id) as ts", "id as v")
    query = wk.query(by="device", time="ts", windows=wk.sliding("1 hour", "1 minute"), aggs=wk.sum("v"))
    query.run(rows).explain()
    plan = capsys.readouterr().out
    assert plan.count("MapInArrow Slices(") == 1
    assert plan.count("Exchange") == 2
    tumbling = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("v"))
    tumbling.run(rows).explain()
    plan = capsys.readouterr().out
    assert "MapInArrow" not in plan
    assert plan.count("Exchange") == 1
