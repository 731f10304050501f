"""A look at some rows estimates how many rows a slice has, or says why there was none.

The cases of files, filters and private plans went with the code that walked Spark's plans for them.
"""

from __future__ import annotations

import random
from math import inf
from types import SimpleNamespace

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from windowkit.spark.jobs.job import job
from windowkit.spark.routes import sample
from windowkit.spark.routes.rule import Expected
from windowkit.spark.routes.sample import estimate, looked

SLIDING = wk.sliding("10 minutes", "10 seconds")
QUERY = wk.query(by="k", time="ts", windows=SLIDING, aggs=wk.sum("v"))


def seen(rows):
    """Return what a look at rows (key, time, pane) shows."""
    return sample.seen(table([(hash((key, pane)), time) for key, time, pane in rows]))


def table(rows):
    slices, times = zip(*rows, strict=True)
    return pa.table({"slice": pa.array(slices, pa.int64()), "time": pa.array(times, pa.int64())})


def in_order(rows, keys, per_pane, chance):
    """Return rows in order of time, of random keys: 1,000 units are a pane."""
    times = [number * 1000 // per_pane for number in range(rows)]
    return [(chance.randrange(keys), time, time // 1000) for time in times]


@pytest.mark.parametrize("keys", [1, 16, 1000, 50_000])
@pytest.mark.parametrize("per_pane", [10, 300, 5_000, 40_000])
@pytest.mark.parametrize("order", ["time", "back", "keys", "none"])
def test_a_look_at_few_rows_tells_of_many(keys, per_pane, order):
    chance = random.Random(keys + per_pane)
    rows = in_order(120_000, keys, per_pane, chance)
    truth = len(rows) / len({(key, pane) for key, _, pane in rows})
    if order == "none":
        chance.shuffle(rows)
    elif order == "keys":
        rows.sort(key=lambda row: row[0])
    elif order == "back":
        rows.reverse()
    first = len(rows) // 2
    few = seen(rows[first : first + sample.FEW])
    emitted = few if few.suffices else seen(rows[first : first + sample.ROWS])
    got = estimate(emitted, 1 / 1000, len(rows))
    assert got >= 0.99
    # What counts is on which side of four rows it is, and that it is right where it is near.
    if truth >= 5:
        assert got >= 4, (got, truth)
    elif truth <= 3:
        assert got < 4, (got, truth)
    if 1.2 <= truth <= 10:
        assert truth / 2 <= got <= 2 * truth


def test_few_rows_tell_nothing():
    assert sample.seen(table([(1, 5)] * (sample.ENOUGH - 1))) is None
    assert sample.seen(table([(1, 5)] * (sample.ENOUGH - 1) + [(1, None)])) is None
    assert sample.seen(table([(1, 5)] * sample.ENOUGH)) is not None


@pytest.fixture(scope="module")
def many(spark):
    """Rows in order of time, cached: 100 a second, of 50 keys."""
    rows = spark.range(0, 60_000, 1, 3)
    made = rows.select(
        sf.pmod(sf.hash("id"), sf.lit(50)).alias("k"),
        sf.timestamp_micros(sf.col("id") * 10_000).alias("ts"),
        sf.col("id").cast("double").alias("v"),
    ).cache()
    made.count()
    yield made
    made.unpersist()


@pytest.fixture(autouse=True)
def any_number(monkeypatch):
    """Look at small data, too."""
    monkeypatch.setattr(sample, "LEAST", 1)


def route(frame, query=QUERY, **options):
    lines = query.explain(frame, **options).splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith("route: "))
    return lines[at].removeprefix("route: ").partition(",")[0], lines[at + 1].removeprefix("  expected: ")


@pytest.mark.parametrize(
    ("slide", "truth", "taken"), [("10 seconds", 20, "catalyst-panes"), ("1 second", 2.3, "packed")]
)
def test_cached_rows_are_looked_at(many, slide, truth, taken, same_rows):
    query = wk.query(by="k", time="ts", windows=wk.sliding("1 minute", slide), aggs=wk.sum("v"))
    found = looked(job(many, query))
    assert isinstance(found, Expected)
    assert truth * 0.7 < found.rows_per_slice < truth * 1.3
    name, said = route(many, query)
    assert name == taken
    assert "estimated from 16,384 rows, in" in said or "estimated from 2,048 rows, in" in said
    assert same_rows(query.run(many), windowkit.spark.reference(many, query), query)


def test_dates_integers_and_sessions_are_looked_at(many):
    for time in ("cast(id as int)", "id", "date_add(date'2024-01-01', cast(id as int))"):
        frame = many.selectExpr("k", "bigint(v) as id").selectExpr("k", f"{time} as ts", "id as v").cache()
        unit = " days" if "date" in time else ""
        window = wk.sliding(f"1000{unit}", f"200{unit}") if unit else wk.sliding(1000, 200)
        query = wk.query(by="k", time="ts", windows=window, aggs=wk.sum("v"))
        found = looked(job(frame, query))
        assert isinstance(found, Expected)
        assert 3.5 < found.rows_per_slice < 4.6
        frame.unpersist()
    query = wk.query(by=[], time="ts", windows=wk.session("2 seconds"), aggs=wk.sum("v"))
    assert route(many, query)[0] == "catalyst-panes"


def test_why_there_was_no_look(many):
    why = "rows are read beforehand only of a DataFrame that is cached itself"
    for frame in (many.where("v < 3"), many.select("k", "ts", "v").distinct(), many.repartition(5)):
        assert looked(job(frame, QUERY)) == why
        assert route(frame) == ("catalyst-panes", f"8 rows per slice, the default, as {why}")


def test_a_look_that_fails_fails_nothing(many):
    fails = many.withColumn("k", sf.expr("if(v >= 0, raise_error('no such key'), k)")).cache()
    said = looked(job(fails, QUERY))
    assert isinstance(said, str)
    assert said.startswith("sampling rows failed: ")
    result = QUERY.run(fails)
    with pytest.raises(PySparkException, match="no such key"):
        result.collect()
    fails.unpersist()


def test_a_spark_of_other_plans_fails_nothing(many):
    def unknown():
        raise Py4JError("Method withCachedData([]) does not exist")

    checked = job(many, QUERY)
    vars(checked)["columns"] = SimpleNamespace(_jdf=SimpleNamespace(queryExecution=unknown))
    assert checked.most_rows == inf


def test_rows_without_a_time_end_a_look(many):
    """A limit after they are dropped would read on and on."""
    rows = many.withColumn("ts", sf.expr("if(v < 25000, null, ts)")).cache()
    assert looked(job(rows, QUERY)) == "few of the rows that were read have a time"
    rows.unpersist()


def test_there_is_no_look_where_nothing_depends_on_it(many, monkeypatch):
    def fail(_):
        raise AssertionError("there was a look")

    monkeypatch.setattr("windowkit.spark.routes.planner.looked", fail)
    for query in (
        wk.query(by="k", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("v")),
        wk.query(by="k", time="ts", windows=SLIDING, aggs=wk.median("v")),
    ):
        query.run(many)
    QUERY.run(many, rows_per_slice=3)
    QUERY.run(many, route="packed")
    with pytest.raises(AssertionError, match="there was a look"):
        QUERY.run(many)


def test_more_rows_are_looked_at_where_a_few_do_not_tell(many):
    few = wk.query(by=[], time="ts", windows=SLIDING, aggs=wk.sum("v"))
    assert "estimated from 2,048 rows, in" in route(many, few)[1]
    every = wk.query(by="v", time="ts", windows=SLIDING, aggs=wk.count())
    assert route(many, every)[1].endswith("estimated from 16,384 rows, in 16,384 slices")


def test_few_rows_are_not_worth_a_look(many, monkeypatch):
    monkeypatch.setattr(sample, "LEAST", 10**9)
    assert looked(job(many, QUERY)) == "there are few rows"
