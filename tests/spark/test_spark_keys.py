"""Keys of every type, several at once, and nulls, NaN and zeros of both signs in them."""

import math
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

import windowkit as wk

ROWS = 48


def cycle(values, kind):
    return pa.array([values[row % len(values)] for row in range(ROWS)], kind)


KEYS = {
    "string": cycle(["", "a", None, "ä", "a "], pa.string()),
    "binary": cycle([b"", b"\x00", None], pa.binary()),
    "bool": cycle([True, None, False], pa.bool_()),
    "byte": cycle([-128, None, 127], pa.int8()),
    "long": cycle([-(2**63), 2**63 - 1, None, 0], pa.int64()),
    "double": cycle([0.0, -0.0, math.nan, None, -math.nan, math.inf], pa.float64()),
    "float": cycle([0.0, -0.0, math.nan, None], pa.float32()),
    "decimal": cycle([Decimal("1.10"), None, Decimal("-99999999999999.99")], pa.decimal128(16, 2)),
    "date": cycle([date(1969, 12, 31), date(2024, 2, 29), None], pa.date32()),
    "instant": cycle([-1, 0, None], pa.timestamp("us", tz="UTC")),
    "local": cycle([-1, 0, None], pa.timestamp("us")),
    "interval": cycle([-1, 0, None], pa.duration("us")),
    "struct": cycle(
        [{"x": 1, "y": "a"}, None, {"x": None, "y": "a"}, {"x": None, "y": None}],
        pa.struct([("x", pa.int32()), ("y", pa.string())]),
    ),
    "floats within": cycle(
        [{"x": 0.0}, {"x": -0.0}, {"x": math.nan}, {"x": -math.nan}, {"x": None}],
        pa.struct([("x", pa.float64())]),
    ),
    "array": cycle([[1, 2], [], None, [None], [2, 1]], pa.list_(pa.int32())),
    "null": pa.nulls(ROWS),
}
SETS = [
    *([name] for name in KEYS),
    ["string", "long", "date"],
    ["double", "struct", "decimal", "bool"],
]


@pytest.mark.parametrize("keys", SETS, ids=" ".join)
def test_keys_group_as_spark_groups(from_arrow, check, keys):
    columns = {name: KEYS[name] for name in keys}
    times = pa.array([row * 1_000_000 for row in range(ROWS)], pa.timestamp("us", tz="UTC"))
    frame = from_arrow({**columns, "ts": times, "v": pa.array(range(ROWS))})
    window = wk.sliding("10 seconds", "4 seconds")
    check(frame, wk.query(by=keys, time="ts", windows=window, aggs=[wk.count(), wk.sum("v")]))


def test_times_of_day(spark, check, settings):
    with settings({"spark.sql.timeType.enabled": "true"}):
        columns = ["time'10:00:00.000001'", "time'00:00:00'", "null"]
        frame = spark.range(60).selectExpr(
            f"element_at(array({', '.join(columns)}), int(id % 3) + 1) as k", "timestamp_seconds(id) as ts"
        )
        aggs = [wk.count(), wk.max("k"), wk.first("k", ignore_nulls=True)]
        for window in (wk.sliding("10 seconds", "4 seconds"), wk.tumbling("10 seconds")):
            check(frame, wk.query(by="k", time="ts", windows=window, aggs=aggs[:1]))
            check(frame, wk.query(by=[], time="ts", windows=window, aggs=aggs))


def test_a_column_may_be_key_time_and_value_at_once(from_arrow, check):
    times = pa.array([row // 3 * 1_000_000 for row in range(ROWS)], pa.timestamp("us", tz="UTC"))
    frame = from_arrow({"ts": times, "v": pa.array(range(ROWS))})
    for window in (wk.sliding("10 seconds", "4 seconds"), wk.session("1 second"), wk.tumbling("5 seconds")):
        query = wk.query(
            by=["ts", "v"], time="ts", windows=window, aggs=[wk.max("ts"), wk.sum("v").alias("s")]
        )
        check(frame, query)
