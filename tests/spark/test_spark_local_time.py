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
    "America/Havana",
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
    # Before zones were introduced, and long after their last known change.
    times += [drawn.randrange(-4_000_000_000, 20_000_000_000) for _ in range(200)]
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
                assert sums(query.run(df), sf.col("window.start")) == wanted
        assert sums(query.run(df, route="packed"), sf.col("window.start")) == wanted


@pytest.mark.parametrize("zone", [*ZONES, "America/St_Johns", "+05:45", None])
@pytest.mark.parametrize(
    "length",
    ["1 day", "3 days", "1 week", "2 weeks", "1 month", "5 months", "1 year"],
)
def test_catalyst_finds_the_windows_of_the_core(df, zone, length):
    """Starts and ends, also where clocks were set back over midnight."""
    weekly = "sunday" if "week" in length else None
    if zone is None and "day" in length:
        pytest.skip("days without a zone are fixed lengths")
    start_time = "4 months" if length == "5 months" else None
    window = wk.tumbling(length, zone=zone, week_start=weekly, start_time=start_time)
    query = wk.query(by="k", time="ts", windows=window, aggs=[wk.count(), wk.sum("v")])
    assert "route: catalyst\n" in query.explain(df) or "catalyst" in query.explain(df).splitlines()[0]
    ours, wanted = query.run(df, route="catalyst"), query.run(table())
    assert rows(ours.toArrow()) == rows(wanted)


def rows(found):
    edges = found["window"].combine_chunks()
    columns = [
        edges.field(name).cast(pa.timestamp("us", "UTC")).cast(pa.int64()) for name in ("start", "end")
    ]
    columns += [found[name] for name in found.column_names if name not in ("window", "window_name")]
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
        (wk.tumbling("1 day", zone="America/Toronto"), "set forward past midnight"),
    ]:
        alone = wk.query(by="k", time="ts", windows=window, aggs=[wk.count()])
        told = alone.explain(df)
        assert "packed" in told.splitlines()[0] or "route: packed" in told
        assert reason in told
        assert "slices" in told
        assert rows(alone.run(df).toArrow()) == rows(alone.run(table()))


def test_times_without_zone_and_dates(df, spark):
    local = spark.createDataFrame(
        pa.table(
            {
                "ts": table()["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).cast(pa.timestamp("us")),
                "day": pc.floor_temporal(table()["ts"], unit="day").cast(pa.date32()),
                "v": table()["v"],
            }
        )
    )
    for time in ("ts", "day"):
        query = wk.query(by=[], time=time, windows=wk.tumbling("1 month"), aggs=wk.sum("v").alias("v"))
        found = query.run(local).select(sf.col("window.start").cast("date").alias("d"), "v").toArrow()
        own = local.groupBy(sf.trunc(sf.col(time).cast("date"), "month").alias("d")).agg(
            sf.sum("v").alias("v")
        )
        wanted = own.toArrow()
        assert sorted(zip(*found.to_pydict().values(), strict=True)) == sorted(
            zip(*wanted.to_pydict().values(), strict=True)
        )
    with pytest.raises(wk.InvalidType, match="local as they are"):
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
