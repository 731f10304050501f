"""Order statistics, arg-extrema, M4, lists, filters and users' own functions, in Spark."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk

WINDOWS = [wk.sliding("20 seconds", "7 seconds"), wk.tumbling("20 seconds"), wk.session("2 seconds")]
ROWS = 90
HELD = [
    wk.geometric_mean("p"),
    wk.arg_min("s", by="d"),
    wk.arg_max("n", by="d"),
    wk.arg_max("ts", by="d"),
    wk.m4("d"),
    wk.m4("d", times=True).alias("line"),
    wk.first("n"),
    wk.last("s", ignore_nulls=True),
]
UNHELD = [
    wk.median("d"),
    wk.median("n").alias("median of integers"),
    wk.quantile("d", 0.9),
    wk.quantile("dec", 0.25),
    wk.quantile("s", 0.3, discrete=True),
    wk.count_distinct("few"),
    wk.count_distinct("s"),
    wk.mode("few"),
    wk.top_k("few", 2),
    wk.top_k("s", 1),
    wk.top_k("d", 100),
    wk.frequent("few", 0.25),
    wk.frequent("s", 0.01),
    wk.frequent("n", 1),
    wk.min_count("few"),
    wk.max_count("few"),
    wk.collect_list("n"),
    wk.collect_set("few"),
    wk.collect_rows("n", "s"),
]


@pytest.fixture(scope="module")
def frame(spark):
    """Readings whose every double is another, at times that are all apart."""
    columns = {
        "k": pa.array([row % 2 for row in range(ROWS)], pa.int32()),
        "ts": pa.array([row * 1_130_000 - 30_000_000 for row in range(ROWS)], pa.timestamp("us", tz="UTC")),
        "d": pa.array([None if r % 9 == 5 else (r * 7919 % 1009) / 7 - 60 for r in range(ROWS)]),
        "p": pa.array([None if r % 9 == 2 else 0.25 + r % 11 for r in range(ROWS)]),
        "n": pa.array([None if r % 8 == 3 else (r * 31 % 97 - 40) * 2**40 for r in range(ROWS)], pa.int64()),
        "dec": pa.array(
            [None if r % 7 == 3 else Decimal(r * 37 % 101) for r in range(ROWS)], pa.decimal128(9, 2)
        ),
        "s": pa.array([None if r % 9 == 1 else "éz"[r % 2] * (r % 4) + str(r) for r in range(ROWS)]),
        "few": pa.array([None if r % 10 == 4 else r * r % 4 for r in range(ROWS)], pa.int32()),
        "f": pa.array([None if r % 6 == 1 else r % 3 == 0 for r in range(ROWS)]),
    }
    return spark.createDataFrame(pa.table(columns)).repartition(3).cache()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_what_catalyst_holds(frame, check, window):
    filtered = [each.where("f").alias(f"{at} filtered") for at, each in enumerate(HELD)]
    counts = [
        wk.count().where("f"),
        wk.count("d").where("f"),
        wk.mean("d").where("f"),
        wk.sum("n").where("f"),
    ]
    spread = [wk.stddev("d").where("f"), wk.max("s").where("f")]
    aggs = HELD + filtered + counts + spread
    check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs))


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_what_it_does_not(frame, check, window):
    filtered = [each.where("f").alias(f"{at} filtered") for at, each in enumerate(UNHELD)]
    query = wk.query(by="k", time="ts", windows=window, aggs=UNHELD + filtered)
    check(frame, query, routes=("catalyst", "packed", "rows"))
    with pytest.raises(wk.InvalidValue, match="Catalyst cannot hold all values of d in columns"):
        query.run(frame, route="catalyst-panes")


def test_the_most_frequent_are_never_null_and_exact(spark):
    nothing = "select 0 as k, timestamp_seconds(0) as ts, cast(null as double) as v"
    doubles = "values double('NaN'), 0.0D, -0.0D, double('NaN'), 1.5D, 1.5D, -1D, double('infinity'), null"
    frame = spark.sql(f"{nothing} union all select 1, timestamp_seconds(1), v from ({doubles}) as t(v)")
    aggs = [wk.top_k("v", 3).alias("top"), wk.frequent("v", 0.25).alias("often")]
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=aggs)
    often = "[Row(value=0.0, count=2), Row(value=1.5, count=2), Row(value=nan, count=2)]"
    results = [query.run(frame, route=route) for route in ("catalyst", "packed", "rows")]
    for result in (*results, wk.spark.reference(frame, query)):
        found = {row.k: (row.top, row.often) for row in result.collect()}
        assert found[0] == ([], [])
        assert [repr(each).replace("-0.0", "0.0") for each in found[1]] == [often, often]
    for result in results:
        assert [(field.name, field.nullable) for field in result.schema[-2:]] == [
            ("top", False),
            ("often", False),
        ]


@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
def test_medians_of_intervals_are_intervals(spark, window):
    frame = spark.sql(
        "select id % 2 as k, timestamp_seconds(id) as ts, "
        "if(id % 3 = 0, null, make_dt_interval(0, 0, 0, id * id - 500)) as d from range(60)"
    )
    query = wk.query(by="k", time="ts", windows=window, aggs=[wk.median("d"), wk.quantile("d", 0.3)])
    ours, theirs = query.run(frame, route="rows"), wk.spark.reference(frame, query)
    assert ours.schema == theirs.schema
    assert sorted(map(str, ours.collect())) == sorted(map(str, theirs.collect()))


def test_default_names_are_those_that_spark_gives(frame):
    named_alike = [
        wk.median("d"),
        wk.quantile("d", 0.9),
        wk.count_distinct("d"),
        wk.collect_list("d"),
        wk.arg_max("s", by="d"),
        wk.arg_min("s", by="d").where("f"),
        wk.count().where("f"),
        wk.median("d").where("f"),
    ]
    plain = (
        "median(d)|percentile(d, 0.9D)|count(distinct d)|collect_list(d)|max_by(s, d)|"
        "min_by(s, d) filter (where f)|count(1) filter (where f)|median(d) filter (where f)"
    )
    theirs = frame.groupBy("k").agg(*(pc_expr(text) for text in plain.split("|")))
    assert [each.name for each in named_alike] == theirs.columns[1:]


def pc_expr(text):
    from pyspark.sql.functions import expr

    return expr(text)


def square(values):
    return pc.multiply(values, values)


def itself(values):
    return values


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_users_own_functions_run_in_workers(frame, window):
    # Functions of this module: workers are sent them by value.
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(__import__(__name__, fromlist=["square"]))
    squares = wk.aggregate("squares", lift=square, combine=pc.add, lower=pc.sqrt, commutative=True)
    query = wk.query(by="k", time="ts", windows=window, aggs=[squares("p"), wk.count()])
    assert query.explain(frame).splitlines()[2] == "  answer: squares(p)"
    assert query.run(frame).schema["squares(p)"].dataType.simpleString() == "double"
    ours = {(row["k"], row["window_start"]): row["squares(p)"] for row in query.run(frame).collect()}
    local = query.run(frame.toArrow().combine_chunks())
    assert sorted(map(str, ours.values())) == sorted(map(str, local["squares(p)"].to_pylist()))
    with pytest.raises(
        wk.InvalidValue, match=r"squares\(p\) is a user's own function, which Spark does not offer"
    ):
        wk.spark.reference(frame, query)


def test_sketches_are_near(frame):
    query = wk.query(
        by="k",
        time="ts",
        windows=wk.tumbling("2 minutes"),
        aggs=[wk.approx_quantile("d", 0.5), wk.quantile("d", 0.5, discrete=True)],
    )
    assert "route: packed, as Catalyst cannot hold a sketch of d in columns" in query.explain(frame)
    # So few values are kept as they are.
    for row in query.run(frame).collect():
        assert row["approx_quantile(d, 0.5)"] == row["quantile_disc(d, 0.5)"]


def test_explain_says_what_catalyst_holds(frame):
    query = wk.query(
        by="k",
        time="ts",
        windows=WINDOWS[0],
        aggs=[wk.first("d").where("f"), wk.arg_max("s", by="d"), wk.geometric_mean("p")],
    )
    partials = [line for line in query.explain(frame).splitlines() if line.startswith("  partial: ")]
    assert partials == [
        "  partial: min_by(d, ts) filter (where f)",
        "  partial: min(ts) filter (where f)",
        "  partial: max_by(s, d)",
        "  partial: max(d)",
        "  partial: min(ts)",
        "  partial: sum(case when p > 0 then ln(double(p)) when p = 0 then double('-infinity') "
        "when p is not null then double('NaN') end)",
        "  partial: count(p)",
    ]


@pytest.mark.parametrize("windows", WINDOWS[:2], ids=str)
def test_quantiles_of_times(spark, windows):
    # Spark has none: the definition, of times as microseconds and half-way between the two in the middle.
    frame = spark.sql(
        "select id % 2 as k, timestamp_seconds(id) as ts, timestamp_micros(id * id * 1000003) as seen, "
        "cast(timestamp_micros(id * 10) as timestamp_ntz) as there from range(0, 60, 1, 3)"
    )
    aggs = [wk.median("seen"), wk.quantile("seen", 1.0).alias("most"), wk.median("there").alias("there")]
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs)
    micros = "k, window_start as start, unix_micros(`median(seen)`), unix_micros(most), there"
    windowed = wk.query(by="k", time="ts", windows=windows, aggs=wk.collect_list("seen"))
    lists = windowed.run(frame).selectExpr(
        "k", "window_start as start", "transform(`collect_list(seen)`, x -> unix_micros(x)) as seen"
    )
    wanted = {}
    for key, start, seen in lists.collect():
        low, high = seen[(len(seen) - 1) // 2], seen[len(seen) // 2]
        wanted[key, start] = low + (high - low) // 2, seen[-1]
    for route in (None, "packed", "rows"):
        result = query.run(frame, route=route)
        assert result.schema["there"].dataType.simpleString() == "timestamp_ntz"
        found = result.selectExpr(*micros.split(", ")).collect()
        assert len(found) == len(wanted)
        for key, start, median, most, _ in found:
            between, last = wanted[key, start]
            # A half is rounded to even.
            assert 0 <= median - between <= 1
            assert most == last
    with pytest.raises(wk.InvalidType, match="Spark's quantiles are of numbers and intervals"):
        wk.spark.reference(frame, query)


def test_lists_of_what_has_no_order(spark):
    """Of maps, which Spark does not compare: in order of time, by Spark's own functions, too."""
    frame = spark.range(40).selectExpr(
        "id % 2 as k", "timestamp_seconds(40 - id) as ts", "if(id % 5 = 0, null, map(id, -id)) as m"
    )
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.collect_list("m").alias("l"))
    wanted = {k: [{n: -n} for n in reversed(range(40)) if n % 2 == k and n % 5] for k in (0, 1)}
    results = [query.run(frame, route=route) for route in ("packed", "rows")]
    for result in (*results, wk.spark.reference(frame, query)):
        assert {row.k: row.l for row in result.collect()} == wanted


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_structs_and_lists_have_sparks_order(spark, check, window):
    """Of parts that are null, NaN, or missing in the shorter of two lists."""
    doubles = [None, -1.5, float("nan"), 2.0]
    structs = [None if r % 11 == 3 else {"x": doubles[r * 7 % 4], "y": "zyx"[r * 5 % 3]} for r in range(ROWS)]
    lists = [None if r % 7 == 2 else [doubles[r * 3 % 4], 1.0][: r % 3] for r in range(ROWS)]
    nested = pa.struct([("x", pa.float64()), ("y", pa.string())])
    columns = {
        "k": pa.array([row % 2 for row in range(ROWS)], pa.int32()),
        "ts": pa.array([row * 1_130_000 for row in range(ROWS)], pa.timestamp("us", tz="UTC")),
        "n": pa.array(range(ROWS), pa.int64()),
        "row": pa.array(structs, nested),
        "list": pa.array(lists, pa.list_(pa.float64())),
    }
    frame = spark.createDataFrame(pa.table(columns)).repartition(3).cache()
    functions = [wk.min, wk.max, wk.mode, wk.count_distinct, wk.max_count]
    aggs = [make(name).alias(f"{make.__name__} {name}") for name in ("row", "list") for make in functions]
    check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs))


@pytest.mark.parametrize("route", ["catalyst", "catalyst-panes", "packed", "rows"])
def test_a_column_of_nulls_without_a_type_is_as_in_spark(spark, check, route):
    frame = spark.sql("select id % 2 as k, timestamp_seconds(id) as ts, null as v, id as w from range(20)")
    aggs = [wk.sum("v"), wk.mean("v"), wk.min("v"), wk.max("v"), wk.count("v"), wk.stddev("v")]
    more = [wk.median("v"), wk.count_distinct("v"), wk.collect_list("v")]
    wide = wk.sliding("10 seconds", "5 seconds")
    windows = wk.tumbling("10 seconds") if route == "catalyst" else wide
    query = wk.query(by="k", time="ts", windows=windows, aggs=aggs if "catalyst" in route else aggs + more)
    check(frame, query, routes=(route,))
