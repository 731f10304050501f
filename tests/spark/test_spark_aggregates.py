"""Every aggregate of every type it has a meaning for, with the values that are easily got wrong."""

import math
from datetime import date, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk

pytestmark = pytest.mark.usefixtures("compiled")

ROWS = 60
TIMES = pa.array([row * 1_700_000 - 30_000_000 for row in range(ROWS)], pa.timestamp("us", tz="UTC"))
KEYS = pa.array([row % 2 for row in range(ROWS)], pa.int32())
NUMERIC = {
    "byte": pa.array([None if r % 9 == 0 else r * 7 % 256 - 128 for r in range(ROWS)], pa.int8()),
    "short": pa.array([None if r % 9 == 1 else r * 1103 % 65_536 - 32_768 for r in range(ROWS)], pa.int16()),
    "int": pa.array(
        [None if r % 9 == 2 else r * 715_827_883 % 2**32 - 2**31 for r in range(ROWS)], pa.int32()
    ),
    "long": pa.array([None if r % 9 == 3 else (r - 30) * 2**52 + r for r in range(ROWS)], pa.int64()),
    "float": pa.array([None if r % 9 == 4 else (r - 20) / 4 for r in range(ROWS)], pa.float32()),
    "double": pa.array([None if r % 9 == 5 else (r - 20) / 7 for r in range(ROWS)], pa.float64()),
    "decimal": pa.array(
        [None if r % 9 == 6 else Decimal(r * 7919 % 20_001 - 10_000).scaleb(-2) for r in range(ROWS)],
        pa.decimal128(10, 2),
    ),
    "widest held": pa.array([Decimal(r - 25).scaleb(20) + r for r in range(ROWS)], pa.decimal128(28, 3)),
    "too wide": pa.array([Decimal(r - 25).scaleb(23) + r for r in range(ROWS)], pa.decimal128(38, 8)),
}
OTHERS = {
    "bool": pa.array([None if r % 9 == 0 else r % 3 == 0 for r in range(ROWS)]),
    "string": pa.array([None if r % 9 == 1 else "éz"[r % 2] * (r % 4) + str(r) for r in range(ROWS)]),
    "binary": pa.array([None if r % 9 == 2 else bytes([r * 5 % 256, r]) for r in range(ROWS)], pa.binary()),
    "date": pa.array(
        [None if r % 9 == 3 else date(1969, 12, 1) + timedelta(r * 5 % 60) for r in range(ROWS)]
    ),
    "instant": pa.array([r * 77_777_777 % 10**9 - 10**8 for r in range(ROWS)], pa.timestamp("us", tz="UTC")),
    "local": pa.array([r * 77_777_777 % 10**9 - 10**8 for r in range(ROWS)], pa.timestamp("us")),
    "length": pa.array([r * 77_777_777 % 10**9 - 10**8 for r in range(ROWS)], pa.duration("us")),
    "nothing": pa.array([None] * ROWS, pa.float64()),
}
ARITHMETIC = [wk.sum, wk.mean, wk.var_samp, wk.var_pop, wk.stddev_samp, wk.stddev_pop, wk.variance, wk.stddev]
ORDERED = [wk.count, wk.min, wk.max, wk.first, wk.last]
WINDOWS = [wk.sliding("20 seconds", "7 seconds"), wk.tumbling("20 seconds"), wk.session("2 seconds")]


def valid(column):
    yield wk.first(column, ignore_nulls=True).alias(f"first valid {column}")
    yield wk.last(column, ignore_nulls=True).alias(f"last valid {column}")


@pytest.mark.parametrize("route", ["catalyst-panes", "packed", "rows"])
def test_sums_and_means_of_booleans_are_sparks_of_ones_and_zeros(from_arrow, route):
    frame = from_arrow({"k": KEYS, "ts": TIMES, "ok": OTHERS["bool"], "none": pa.nulls(ROWS, pa.bool_())})
    query = wk.query(
        by="k",
        time="ts",
        windows=wk.sliding("20 seconds", "7 seconds"),
        aggs=[wk.sum("ok"), wk.mean("ok"), wk.sum("none"), wk.sum("ok").where("ok")],
        window_columns="struct",
    )
    one = sf.col("ok").cast("bigint")
    own = frame.groupBy("k", sf.window("ts", "20 seconds", "7 seconds")).agg(
        sf.sum(one).alias("sum(ok)"),
        sf.avg(one).alias("avg(ok)"),
        sf.sum(sf.col("none").cast("bigint")).alias("sum(none)"),
        sf.sum(sf.when(sf.col("ok"), one)).alias("sum(ok) FILTER (WHERE ok)"),
    )
    found = query.run(frame, route=route)
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in own.schema
    ]
    assert sorted(map(repr, found.collect())) == sorted(map(repr, own.collect())) != []


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_numbers(from_arrow, check, window):
    held = [name for name in NUMERIC if name != "too wide"]
    frame = from_arrow({"k": KEYS, "ts": TIMES, **{name: NUMERIC[name] for name in held}})
    aggs = [function(name) for name in held for function in ARITHMETIC + ORDERED]
    aggs += [aggregate for name in held for aggregate in valid(name)]
    check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_other_types(from_arrow, check, window):
    frame = from_arrow({"k": KEYS, "ts": TIMES, **OTHERS})
    aggs = [function(name) for name in OTHERS for function in ORDERED]
    aggs += [aggregate for name in OTHERS for aggregate in valid(name)]
    aggs += [function("nothing") for function in ARITHMETIC]
    check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs))


@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
def test_decimals_whose_sums_catalyst_cannot_hold(from_arrow, check, window):
    frame = from_arrow({"k": KEYS, "ts": TIMES, "too wide": NUMERIC["too wide"]})
    aggs = [function("too wide") for function in ARITHMETIC + ORDERED]
    query = wk.query(by="k", time="ts", windows=window, aggs=aggs)
    check(frame, query, routes=("packed", "rows"))
    alone = ["catalyst"] if isinstance(window, wk.Tumbling) else []
    for route in (*alone, "catalyst-panes"):
        with pytest.raises(wk.InvalidValue, match=r"a sum of `too wide`, a decimal\(38,8\), may not fit"):
            query.run(frame, route=route)
    held = wk.query(by="k", time="ts", windows=window, aggs=[wk.max("too wide"), wk.stddev("too wide")])
    check(frame, held, routes=("catalyst-panes",))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_nan_infinities_and_negative_zero(from_arrow, check, window):
    nan, inf = math.nan, math.inf
    patterns = [
        [nan, 1.0],
        [inf, 2.0],
        [-inf, inf],
        [-0.0, 0.0],
        [None, nan],
        [inf, inf],
        [-0.0, None],
        [1e300, nan],
    ]
    values = [patterns[row // 7 % 8][row % 2] for row in range(ROWS)]
    columns = {"double": pa.array(values, pa.float64()), "float": pa.array(values, pa.float32())}
    frame = from_arrow({"k": pa.array([0] * ROWS), "ts": TIMES, **columns})
    aggs = [function(name) for name in columns for function in ARITHMETIC + ORDERED]
    check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs))


def test_first_and_last_are_by_time_and_not_by_row_order(spark):
    frame = spark.createDataFrame(
        [("k", 3_000_000, "late"), ("k", 1_000_000, "early"), ("k", 2_000_000, None)],
        "k string, us long, v string",
    ).selectExpr("k", "timestamp_micros(us) as ts", "v")
    aggs = [wk.first("v"), wk.last("v")]
    for windows in (wk.tumbling("1 minute"), wk.sliding("1 minute", "30 seconds"), wk.session("1 minute")):
        rows = wk.query(by="k", time="ts", windows=windows, aggs=aggs).run(
            frame.orderBy("us", ascending=False)
        )
        assert {(row["first(v)"], row["last(v)"]) for row in rows.collect()} == {("early", "late")}


def test_partials_are_shared_between_aggregates(readings):
    many = [wk.sum("v"), wk.mean("v"), wk.count("v"), wk.stddev("v"), wk.var_pop("v"), wk.var_samp("v")]
    query = wk.query(by="device", time="ts", windows=wk.sliding("1 hour", "1 minute"), aggs=many)
    partials = [line for line in query.explain(readings).splitlines() if line.startswith("  partial: ")]
    assert partials == [
        "  partial: sum(v)",
        "  partial: count(v)",
        "  partial: count(v)",
        "  partial: avg(v)",
        "  partial: var_pop(v) * count(v)",
    ]


@pytest.mark.parametrize("window", [wk.tumbling("4 seconds"), wk.sliding("4 seconds", "2 seconds")])
@pytest.mark.parametrize("route", [None, "packed", "rows"])
def test_intervals(spark, window, route):
    frame = spark.sql(
        "select id % 2 as k, timestamp_seconds(id) as ts, "
        "if(id % 3 = 0, null, make_dt_interval(0, 0, 0, id - 5)) as d from range(12)"
    )
    aggregates = [wk.sum("d"), wk.mean("d"), wk.min("d"), wk.max("d"), wk.count("d")]
    query = wk.query(by="k", time="ts", windows=window, aggs=aggregates)
    ours, theirs = query.run(frame, route=route), wk.spark.reference(frame, query)
    assert ours.schema == theirs.schema
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))
