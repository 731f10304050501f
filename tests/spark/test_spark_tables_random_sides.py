"""Random joins, labels, duplicates and rolling aggregates over random tables, read by tasks and by Spark."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import windowkit as wk
import windowkit.spark
from support.parquet_tables import condition_of, read, table_of

pytestmark = pytest.mark.usefixtures("files_are_read", "nan_is_read")
SEEDS = range(48)
HOWS = ("inner", "left", "right", "full", "semi", "anti")
KEYS = ("k", "k", "k", "text", "day", "flag", "money")
TAKEN: list[int] = []
"""How many DataFrames were read by tasks, by seed."""


def side_of(spark, chance, folder, name):
    """Return a DataFrame of a random table: filtered, with fewer columns, or with computed ones."""
    columns, may_merge = table_of(chance, folder)
    frame = read(spark, chance, str(folder), columns, may_merge, name)
    there = frame.columns
    for _ in range(chance.choice([0, 0, 1])):
        frame = frame.where(condition_of(chance, there, columns))
    if chance.random() < 0.1:
        frame = frame.withColumn("computed", frame["k"] + 1)
    if chance.random() < 0.5:
        more = [each for each in frame.columns if each not in ("k", "t") and chance.random() < 0.6]
        frame = frame.select("T", *more, "k").withColumnRenamed("T", "t")
    return frame


def key_of(chance, *frames):
    """Return a column that all have, of one type."""
    kinds = [{field.name: field.dataType for field in frame.schema.fields} for frame in frames]
    alike = [name for name in KEYS if len({str(kind.get(name)) for kind in kinds}) == 1 and name in kinds[0]]
    return chance.choice(alike or [None])


def a_join(chance, left, right):
    """Return a call of a join, and one that explains it."""
    key = key_of(chance, left, right)
    how = chance.choice(HOWS)
    span = chance.choice(
        [
            {"within": "3 seconds"},
            {"within": ("0 seconds", "9 seconds"), "closed": chance.choice(["left", "right", "both"])},
            {"windows": wk.tumbling("10 seconds")},
            {"windows": wk.sliding("10 seconds", "5 seconds")},
        ]
    )
    chosen = {}
    for side, frame in (("left_columns", left), ("right_columns", right)):
        if chance.random() < 0.5 and (side == "left_columns" or how not in ("semi", "anti")):
            chosen[side] = chance.sample(frame.columns, chance.randrange(1, 3))
    join = wk.join(by=[] if key is None else key, left_time="t", right_time="t", how=how, **span, **chosen)
    split = {"split": "11 seconds"} if how != "full" and chance.random() < 0.4 else {}
    return (
        lambda **route: join.run(left, right, **split, **route),
        lambda: join.explain(left, right, **split),
    )


def aggregates(chance, frame):
    value = chance.choice([name for name in ("v", "money", "row", "k") if name in frame.columns])
    frame_of = chance.choice(["4 seconds", "15 seconds"])
    made = [wk.sum(value), wk.max(value), wk.count(), wk.median(value)]
    return [each.over(frame_of).alias(f"a{at}") for at, each in enumerate(made)]


def labels_of(chance, labels, events):
    """Return a call for labels, and one that explains it."""
    key = key_of(chance, labels, events)
    features = wk.rolling(by=[] if key is None else key, time="t", aggs=aggregates(chance, events))
    split = {"split": "16 seconds"} if chance.random() < 0.4 else {}
    return (
        lambda **route: features.at(labels, events, **split, **route),
        lambda: windowkit.spark.explain_as_of(labels, events, features, **split),
    )


def a_rolling(chance, frame, _):
    features = wk.rolling(by=key_of(chance, frame), time="t", aggs=aggregates(chance, frame))
    return (lambda **route: features.run(frame, **route), lambda: features.explain(frame))


def duplicates_of(chance, frame, _):
    key = key_of(chance, frame)
    firsts = wk.distinct(key, time="t", within=chance.choice(["0 seconds", "2 seconds"]))
    # Any one of the rows of a key and time is left.
    return (lambda **route: firsts.run(frame, **route).select(key, "t"), lambda: firsts.explain(frame))


def counted(frame):
    return Counter(map(str, frame.collect()))


@pytest.mark.parametrize("seed", SEEDS)
def test_random_tables(spark, tmp_path, seed):
    chance = Random(f"sides of tables {seed}")
    names = [f"random_side_{seed}_{number}" for number in range(2)]
    try:
        sides = [side_of(spark, chance, tmp_path / name, name) for name in names]
        job = chance.choice([a_join, a_join, a_join, labels_of, duplicates_of, a_rolling])
        run, explained = job(chance, *sides)
        found, text = run(), explained()
        TAKEN.append(text.count(" tasks read ") + text.count(" task read "))
        oracle = run(route="packed")
        assert found.schema == oracle.schema
        try:
            wanted = counted(oracle)
        except (PySparkException, Py4JError):
            with pytest.raises((PySparkException, Py4JError)):
                found.collect()
        else:
            assert counted(found) == wanted, text
    finally:
        for name in names:
            spark.sql(f"drop view if exists {name}_view")
            spark.sql(f"drop table if exists {name}")


def test_most_of_them_are_read_by_tasks():
    if len(TAKEN) == len(SEEDS):
        assert sum(taken > 0 for taken in TAKEN) > len(SEEDS) / 2
        assert {0, 1, 2} == set(TAKEN)
