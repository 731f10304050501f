"""Days, weeks, months and years of time zones against Spark's `date_trunc` in a session of that zone."""

from __future__ import annotations

import random
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

SECOND = 1_000_000
ZONES = [
    "America/New_York",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Europe/Lisbon",
]
UNITS = ["day", "week", "month", "quarter", "year"]
# Days on which clocks are set, or a calendar turns.
PLACES = [
    (2024, 3, 10),
    (2018, 11, 4),
    (2024, 3, 31),
    (2024, 11, 3),
    (2011, 12, 30),
    (2024, 4, 7),
    (1969, 12, 31),
]


def table() -> pa.Table:
    drawn = random.Random(11)
    times = []
    for place in PLACES:
        midnight = (date(*place) - date(1970, 1, 1)).days * 86_400
        times += [midnight + drawn.randrange(-36 * 3600, 36 * 3600) for _ in range(60)]
        times += [midnight + quarter * 900 for quarter in range(-60, 60)]
    # Not from before 1970 (newer releases of the database moved a change of 1966 in Sao Paulo), nor from the
    # future: the JVM may have another release.
    times += [drawn.randrange(1_750_000_000) for _ in range(200)]
    stamps = [SECOND * t + drawn.choice([0, 0, 1, -1]) for t in times]
    return pa.table(
        {
            "k": [row % 3 for row in range(len(times))],
            "ts": pa.array(stamps, pa.timestamp("us", "UTC")),
            "v": range(len(times)),
        }
    )


@pytest.fixture(scope="module")
def df(spark):
    return spark.createDataFrame(table()).repartition(3)


def sums(frame, start):
    """Return sums by key and start, in microseconds."""
    found = frame.select("k", sf.unix_micros(start), "v").toArrow()
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize("zone", ZONES)
def test_tumbling_windows_are_those_of_date_trunc(df, settings, zone):
    """Whatever the session's zone is, and by either route."""
    for unit in UNITS:
        with settings({"spark.sql.session.timeZone": zone}):
            truncated = df.groupBy("k", sf.date_trunc(unit, "ts").alias("s")).agg(sf.sum("v").alias("v"))
            wanted = sums(truncated, sf.col("s"))
        query = wk.query(
            by="k", time="ts", windows=wk.tumbling(f"1 {unit}", zone=zone), aggs=wk.sum("v").alias("v")
        )
        for session in (zone, "Asia/Tokyo"):
            with settings({"spark.sql.session.timeZone": session}):
                assert sums(query.run(df), sf.col("window_start")) == wanted
        assert sums(query.run(df, route="packed"), sf.col("window_start")) == wanted


def test_dates_are_those_of_spark_where_midnight_comes_twice(df, settings):
    """`date_trunc` makes two days of one there; its date is one."""
    for unit in UNITS:
        query = wk.query(
            by="k",
            time="ts",
            windows=wk.tumbling(f"1 {unit}", zone="America/Havana"),
            aggs=wk.sum("v").alias("v"),
        )
        with settings({"spark.sql.session.timeZone": "America/Havana"}):
            begun = sf.to_date("ts") if unit == "day" else sf.trunc(sf.to_date("ts"), unit)
            wanted = df.groupBy("k", begun.alias("d")).agg(sf.sum("v").alias("v")).collect()
            found = query.run(df).select("k", sf.to_date("window_start").alias("d"), "v").collect()
        assert sorted(map(tuple, found)) == sorted(map(tuple, wanted))


LENGTHS = ["1 week", "2 weeks", "1 month", "5 months", "1 year"]
CASES = [(zone, length) for zone in [*ZONES, "America/Havana", "+05:45", None] for length in LENGTHS]
CASES += [(zone, length) for zone, _ in CASES[:-1:5] for length in ("1 day", "3 days") if zone]


@pytest.mark.parametrize(("zone", "length"), CASES)
def test_catalyst_finds_the_windows_of_the_core(df, zone, length):
    """Starts and ends."""
    weekly = "sunday" if "week" in length else None
    start_time = "4 months" if length == "5 months" else None
    window = wk.tumbling(length, zone=zone, week_start=weekly, start_time=start_time)
    query = wk.query(by="k", time="ts", windows=window, aggs=[wk.count(), wk.sum("v")])
    assert "route: catalyst, as" in query.explain(df)
    ours, wanted = query.run(df, route="catalyst"), query.run(table())
    assert rows(ours.toArrow()) == rows(wanted)


def rows(found):
    edges = ("window_start", "window_end")
    columns = [found[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()) for name in edges]
    columns += [found[name] for name in found.column_names if name not in (*edges, "window_name")]
    columns += [found["window_name"]] if "window_name" in found.column_names else []
    return sorted(zip(*(column.to_pylist() for column in columns), strict=True))


def test_other_windows_pack_slices(df):
    windows = [
        wk.sliding("1 week", "1 day", zone="America/New_York"),
        wk.landmark("1 hour", period="1 day", zone="Asia/Beirut"),
        wk.tumbling("1 day", zone="Asia/Kolkata", start_time="6 hours"),
        wk.tumbling("1 hour"),
    ]
    query = wk.query(by="k", time="ts", windows=windows, aggs=[wk.count(), wk.median("v"), wk.last("v")])
    assert rows(query.run(df).toArrow()) == rows(query.run(table()))
    for window, reason in [
        (windows[0], "several windows"),
        (windows[1], "does not offer"),
        (windows[2], "begin after midnight"),
        (wk.tumbling("1 day", zone="America/St_Johns"), "set past midnight"),
    ]:
        alone = wk.query(by="k", time="ts", windows=window, aggs=[wk.count()])
        told = alone.explain(df)
        assert "route: packed, as" in told
        assert reason in told
        assert "slices" in told
        assert rows(alone.run(df).toArrow()) == rows(alone.run(table()))


def test_times_without_zone_and_dates(df, settings):
    with settings({"spark.sql.session.timeZone": "UTC"}):
        local = df.select(sf.col("ts").cast("timestamp_ntz").alias("ts"), sf.to_date("ts").alias("day"), "v")
        local = local.cache()
        assert local.count() == len(table())
    for time in ("ts", "day"):
        query = wk.query(by=[], time=time, windows=wk.tumbling("1 month"), aggs=wk.sum("v").alias("v"))
        found = query.run(local).select(sf.col("window_start").cast("date").alias("d"), "v").toArrow()
        own = local.groupBy(sf.trunc(sf.col(time).cast("date"), "month").alias("d")).agg(
            sf.sum("v").alias("v")
        )
        wanted = own.toArrow()
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(
            zip(*wanted.to_pydict().values(), strict=True)
        )
    with pytest.raises(wk.InvalidType, match="taken as local time"):
        wk.query(by=[], time="ts", windows=wk.tumbling("1 day", zone="UTC"), aggs=wk.count()).run(local)


def test_spark_does_not_offer_them(df):
    query = wk.query(by="k", time="ts", windows=wk.tumbling("1 day", zone="UTC"), aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match="Spark does not offer"):
        wk.spark.reference(df, query)
    with pytest.raises(wk.InvalidType, match="of a calendar"):
        wk.spark.repartition(df, 4, "k", window=wk.tumbling("1 month"), time="ts")


def test_window_ids_are_a_column(df):
    window = wk.tumbling("1 month", zone="America/New_York")
    found = df.select(wk.spark.wids(window, "ts").first.alias("id"), "ts").toArrow()
    wanted = pc.struct_field(window.wids(found["ts"]), "first")
    assert found["id"].to_pylist() == wanted.to_pylist()


def test_explain_says_where_days_are_those_of_utc(spark, df):
    day = wk.query(by="k", time="ts", windows=wk.tumbling("1 day"), aggs=wk.count())
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        told = day.explain(df)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert "days are those of UTC, not of America/New_York, unless zone='America/New_York' is given" in told
    hour = wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count())
    assert "days are those of UTC" not in hour.explain(df)


def test_zones_are_found_in_any_case(df):
    wanted = wk.query(by="k", time="ts", windows=wk.tumbling("1 day", zone="Europe/Lisbon"), aggs=wk.count())
    other = wk.query(by="k", time="ts", windows=wk.tumbling("1 day", zone="europe/lisbon"), aggs=wk.count())
    assert rows(other.run(df).toArrow()) == rows(wanted.run(df).toArrow()) != []
