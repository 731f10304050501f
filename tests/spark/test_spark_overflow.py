"""A sum that does not fit is an error on every route and in both ANSI modes; one that fits never is."""

from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import windowkit as wk

LEAST, GREATEST = -(2**63), 2**63 - 1
TUMBLING = wk.tumbling("1 minute")
SLIDING = wk.sliding("1 minute", "20 seconds")
SESSION = wk.session("30 seconds")
ROUTES = [
    ("catalyst", TUMBLING),
    ("catalyst-panes", TUMBLING),
    ("catalyst-panes", SLIDING),
    ("catalyst-panes", SESSION),
    ("rows", SLIDING),
]


def seconds(count):
    return pa.array([row * 1_000_000 for row in range(count)], pa.timestamp("us", tz="UTC"))


FITTING = {
    # Some orders of these overflow on the way, if added one by one in 64 bits.
    "back again": ([GREATEST, 1, -1, GREATEST, LEAST, -5], GREATEST - 6),
    "least": ([LEAST], LEAST),
    "greatest": ([GREATEST], GREATEST),
    "negative": ([-1] * 9, -9),
    "nothing": ([None, None], None),
}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(("route", "windows"), ROUTES, ids=lambda part: str(part))
def test_bigints(from_arrow, settings, route, windows, ansi):
    query = wk.query(by="k", time="ts", windows=windows, aggs=wk.sum("v"))

    def summed(lists):
        rows = [(key, second, value) for key, values in lists.items() for second, value in enumerate(values)]
        keys, times, values = zip(*rows, strict=True)
        columns = {
            "k": pa.array(keys),
            "ts": seconds(9).take(pa.array(times)),
            "v": pa.array(values, pa.int64()),
        }
        result = query.run(from_arrow(columns, partitions=2), route=route).collect()
        return {(row["k"], row["sum(v)"]) for row in result}

    with settings({"spark.sql.ansi.enabled": ansi}):
        for values in ([GREATEST, 1], [LEAST] * 5):
            with pytest.raises(PySparkException, match=r"sum of a window .*does not fit"):
                summed({"k": values})
        fitting = summed({key: values for key, (values, _) in FITTING.items()})
        assert fitting == {(key, total) for key, (_, total) in FITTING.items()}


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(("route", "windows"), [("packed", TUMBLING), ("rows", SLIDING)], ids=str)
def test_decimals_that_are_too_wide(from_arrow, settings, route, windows, ansi):
    query = wk.query(by=[], time="ts", windows=windows, aggs=[wk.sum("v"), wk.count()])
    nines = Decimal("9" * 38)

    def summed(values):
        columns = {"ts": seconds(len(values)), "v": pa.array(values, pa.decimal128(38, 0))}
        return {row["sum(v)"] for row in query.run(from_arrow(columns), route=route).collect()}

    with settings({"spark.sql.ansi.enabled": ansi}):
        with pytest.raises(PySparkException, match=r"does not fit|ARITHMETIC_OVERFLOW"):
            summed([nines, nines])
        assert summed([nines, nines, nines.copy_negate(), nines.copy_negate()]) == {0}
        assert summed([nines]) == {nines}
        assert summed([None, None]) == {None}


def test_a_failure_in_a_worker_says_what_it_is(from_arrow):
    frame = from_arrow({"ts": seconds(2), "v": pa.array([GREATEST, 1])})
    query = wk.query(by=[], time="ts", windows=SLIDING, aggs=wk.sum("v").alias("total"))
    with pytest.raises(PySparkException, match=r"windowkit\.errors\.Overflow: .*does not fit"):
        query.run(frame).collect()


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize(
    "window", [wk.tumbling("10 minutes"), wk.sliding("2 hours", "1 hour"), wk.session("1 hour")]
)
@pytest.mark.parametrize("kind", ["timestamp", "timestamp_ntz"])
def test_timestamps_at_the_ends_of_int64_fail_by_name(spark, settings, ansi, window, kind):
    query = wk.query(by=[], time="my time", windows=window, aggs=wk.count())
    for end in (-(2**63) + 10**12, 2**63 - 1 - 10**12):
        text = f"select cast(timestamp_micros({end}) as {kind}) as `my time`"
        far = pytest.raises(
            PySparkException, match="column `my time` holds a time too close to the limit of int64"
        )
        with settings({"spark.sql.ansi.enabled": ansi}), far:
            query.run(spark.sql(text)).collect()


@pytest.mark.parametrize("windows", [TUMBLING, SLIDING, SESSION], ids=str)
def test_sums_of_intervals_whose_parts_do_not_fit(spark, windows):
    # Two and two of these are beyond what an interval holds; all of them are nothing.
    frame = spark.sql(
        "select 1 as k, timestamp_seconds(id) as ts, "
        "make_dt_interval(if(id < 2, 100000000, -100000000)) as d from range(0, 4, 1, 1)"
    )
    query = wk.query(by="k", time="ts", windows=windows, aggs=[wk.sum("d"), wk.mean("d").alias("mean")])
    for row in query.run(frame).collect():
        assert row["sum(d)"].total_seconds() == row["mean"].total_seconds() == 0
    for route in ("catalyst", "catalyst-panes"):
        if route == "catalyst" and windows is not TUMBLING:
            continue
        with pytest.raises(wk.InvalidValue, match="a part of a sum of d, of intervals, may not fit"):
            query.run(frame, route=route)


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_an_overflow_in_catalyst_names_the_query_and_the_column(spark, settings, ansi):
    frame = spark.sql(
        f"select 1 as k, timestamp_seconds(id) as ts, bigint('{GREATEST}') as n from range(0, 20, 1, 2)"
    )
    query = wk.query(by="k", time="ts", windows=TUMBLING, aggs=wk.sum("n"))
    said = r"\(n\): the sum of a window does not fit its type; in the query by k over"
    with settings({"spark.sql.ansi.enabled": ansi}), pytest.raises(PySparkException, match=said):
        query.run(frame, route="catalyst").collect()
