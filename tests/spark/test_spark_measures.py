"""Windows over integers and dates, which Spark does not have: against rows copied into windows by SQL."""

from datetime import date, timedelta

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

import windowkit as wk
from windowkit.language.windows import units

DAY = 86_400 * 10**9
POSITIONS = [(row * row * 7 % 61) * (-1 if row % 3 else 1) + row % 2 * 300 for row in range(90)]
VALUES = [None if row % 8 == 7 else row for row in range(90)]
KEYS = ["a", None, "b"]
AGGS = [wk.count(), wk.sum("v"), wk.max("v"), wk.min("v"), wk.first("p"), wk.last("p"), wk.var_pop("v")]


def measured(from_arrow, position, kind):
    positions = [None if row % 17 == 16 else position(POSITIONS[row]) for row in range(90)]
    return from_arrow(
        {
            "k": pa.array([KEYS[row % 3] for row in range(90)]),
            "t": pa.array(positions, kind),
            "p": pa.array(POSITIONS),
            "v": pa.array(VALUES, pa.int64()),
        }
    )


def in_windows(frame: DataFrame, query: wk.Query) -> DataFrame:
    """Copy each row into its windows, over bigints, and aggregate."""
    is_date = isinstance(frame.schema["t"].dataType, st.DateType)
    rows = frame.where("t is not null").withColumn(
        "x", sf.expr("bigint(unix_date(t))" if is_date else "bigint(t)")
    )
    unit = DAY if is_date else 1
    copies = []
    for window in query.windows:
        lengths = {
            argument: units(each) // unit for argument, each in window.lengths().items() if each is not None
        }
        size = lengths.get("size", lengths.get("gap"))
        slide, offset = lengths.get("slide", size), lengths.get("start_time", 0)
        if isinstance(window, wk.Session):
            breaks = f"x - lag(x) over (partition by k order by x) > {size}"
            copied = rows.withColumn("breaks", sf.expr(f"if({breaks}, 1, 0)"))
            number = "sum(breaks) over (partition by k order by x range unbounded preceding)"
            copied = copied.withColumn("number", sf.expr(number))
            copied = copied.withColumn("start", sf.expr("min(x) over (partition by k, number)"))
            copied = copied.withColumn("end", sf.expr(f"max(x) over (partition by k, number) + {size}"))
        else:
            last = f"x - pmod(x - {offset}, {slide})"
            starts = f"transform(sequence(0, {size // slide}), i -> {last} - i * {slide})"
            starts = f"filter({starts}, s -> s + {size} > x)"
            copied = rows.withColumn("start", sf.expr(f"explode({starts})"))
            copied = copied.withColumn("end", sf.expr(f"start + {size}"))
        edge = "date_from_unix_date(int({0})) as {0}" if is_date else "{0}"
        struct = sf.expr(f"struct({edge.format('start')}, {edge.format('end')})")
        aggregates = [
            sf.expr("count(1)"),
            *(sf.expr(f"{function}(v)") for function in ("sum", "max", "min")),
            *(sf.expr(f"{function}(p, t)") for function in ("min_by", "max_by")),
            sf.expr("var_pop(v)"),
        ]
        answered = copied.groupBy("k", struct.alias("window")).agg(*aggregates)
        copies.append(answered.withColumn("name", sf.lit(window.name)))
    union = copies[0]
    for copy in copies[1:]:
        union = union.union(copy)
    names = ["k", *(["name"] if len(copies) > 1 else []), *union.columns[1:-1]]
    return union.select(*(f"`{name}`" for name in names)).toDF(*query.columns)


INTEGER_WINDOWS = [
    wk.tumbling(10),
    wk.sliding(10, 4, start_time=-3),
    wk.session(2),
    [wk.sliding(7, 7), wk.session(3), wk.sliding(100, 30)],
]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int16(), pa.int32(), pa.int64()], ids=str)
@pytest.mark.parametrize("windows", INTEGER_WINDOWS, ids=str)
def test_integers(from_arrow, check, windows, kind):
    frame = measured(from_arrow, lambda p: p if abs(p) < 100 or kind != pa.int8() else None, kind)
    query = wk.query(by="k", time="t", windows=windows, aggs=AGGS, window_columns="struct")
    check(frame, query, oracle=in_windows(frame, query))
    start = query.run(frame).schema[query.window_column].dataType["start"]
    assert start.dataType == st.LongType()


@pytest.mark.parametrize(
    "windows",
    [
        wk.tumbling("7 days", start_time="4 days"),
        wk.sliding("10 days", "4 days", start_time="-1 day"),
        wk.session("2 days"),
        [wk.tumbling("1 day"), wk.sliding("30 days", "7 days"), wk.session("5 days")],
    ],
    ids=str,
)
def test_dates_stay_dates(from_arrow, check, windows):
    # From 1968 to 1970 and, by way of the odd rows, in 2024.
    def day(position):
        return date(1970, 1, 1) + timedelta(position + (19_700 if position > 200 else 0))

    frame = measured(from_arrow, day, pa.date32())
    query = wk.query(by="k", time="t", windows=windows, aggs=AGGS, window_columns="struct")
    check(frame, query, oracle=in_windows(frame, query))
    start = query.run(frame).schema[query.window_column].dataType["start"]
    assert start.dataType == st.DateType()


def test_intervals_take_rows(from_arrow, check):
    frame = measured(from_arrow, lambda p: p * 1000, pa.duration("us"))
    query = wk.query(by="k", time="t", windows=wk.sliding("10 milliseconds", "4 milliseconds"), aggs=AGGS)
    result = query.run(frame)
    assert result.schema["window_start"].dataType == st.DayTimeIntervalType()
    same = wk.query(by="k", time="p", windows=wk.sliding(10, 4), aggs=AGGS)
    timed = frame.where("t is not null")
    wanted = sorted((repr(row.k), row.window_start, *row[3:]) for row in same.run(timed).collect())
    got = sorted(
        (repr(row.k), round(row.window_start / timedelta(milliseconds=1)), *row[3:])
        for row in result.collect()
    )
    assert got == wanted
    with pytest.raises(wk.InvalidValue, match="cannot round the intervals"):
        query.run(frame, route="catalyst-panes")


def test_both_ends_of_bigint(spark, check):
    least, greatest = -(2**63), 2**63 - 1
    frame = spark.createDataFrame([(least + 100,), (0,), (greatest - 100,)], "t bigint")
    query = wk.query(by=[], time="t", windows=wk.sliding(10, 4, start_time=3), aggs=wk.count())
    in_process = query.run(frame.toArrow())
    edges = [in_process[name].to_pylist() for name in ("window_start", "window_end")]
    wanted = sorted(zip(*edges, strict=True))
    for route in ("catalyst-panes", "packed", "rows"):
        rows = query.run(frame, route=route).collect()
        assert sorted((row.window_start, row.window_end) for row in rows) == wanted
