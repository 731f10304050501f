"""Joins, labels, duplicates and rolling aggregates over DataFrames of Parquet files: who reads them."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

pytestmark = pytest.mark.usefixtures("files_are_read")
KINDS = {
    "inner": "inner",
    "left": "left",
    "right": "right",
    "full": "full",
    "semi": "left_semi",
    "anti": "left_anti",
}
READ = "in Rust inside one mapInArrow: 2 tasks read 2 files of"
FEATURES = wk.rolling(by="k", time="t", aggs=[wk.sum("v").over("5 seconds").alias("recent")])
FIRSTS = wk.distinct("k", time="t", within="6 seconds")


def rows(first, step, value):
    """Return rows, every tenth without a key and every eleventh without a time."""
    numbers = range(first, first + 40)
    times = [None if number % 11 == 0 else step * number * 10**6 for number in numbers]
    return pa.table(
        {
            "k": [None if number % 10 == 0 else f"key {number % 3}" for number in numbers],
            "t": pa.array(times, pa.timestamp("us", "UTC")),
            value: [number / 4 for number in numbers],
            "pair": [{"x": number} for number in numbers],
            "text": [f"{value} {number}" for number in numbers],
        }
    )


def written(folder, step, value):
    """Write a table of two files."""
    folder.mkdir()
    for file in range(2):
        pq.write_table(rows(40 * file, step, value), folder / f"{file}.parquet", row_group_size=10)
    return str(folder)


@pytest.fixture
def left(spark, tmp_path):
    return spark.read.parquet(written(tmp_path / "left", 2, "v"))


@pytest.fixture
def right(spark, tmp_path):
    return spark.read.parquet(written(tmp_path / "right", 3, "w"))


def counted(frame):
    return Counter(map(str, frame.collect()))


@pytest.mark.parametrize("how", KINDS)
def test_files_of_both_sides(left, right, how):
    join = wk.join(by="k", left_time="t", right_time="t", within=("7 seconds", "4 seconds"), how=how)
    condition = sf.expr(
        "l.k = r.k and unix_micros(r.t) between unix_micros(l.t) - 7000000 and unix_micros(l.t) + 4000000"
    )
    joined = left.alias("l").join(right.alias("r"), condition, KINDS[how])
    own = "coalesce(l.k, r.k) k" if how in ("right", "full") else "l.k"
    others = ["l.t", "v", "l.pair", "l.text"]
    if how not in ("semi", "anti"):
        others += ["r.t t_right", "w", "r.pair pair_right", "r.text text_right"]
    oracle = joined.selectExpr(own, *others)
    text = join.explain(left, right)
    for side in ("left", "right"):
        assert f"stage 1 of the {side} side, {READ}" in text
    metrics = windowkit.spark.Metrics()
    result = join.run(left, right, metrics=metrics)
    assert result.schema == oracle.schema
    wanted = counted(oracle)
    assert counted(result) == wanted
    assert sum(wanted.values()) > 5
    # Rows without a key or a time are packed where they may be in the result.
    kept = {"left": (80, 65), "right": (65, 80), "full": (80, 80), "anti": (80, 65)}.get(how, (65, 65))
    assert metrics.values()["rows in"] == sum(kept)
    if how != "full":
        assert counted(join.run(left, right, split="10 seconds")) == wanted
        assert READ in join.explain(left, right, split="10 seconds")


def test_columns_and_row_groups_that_are_read(left, right):
    join = wk.join(
        by="k", left_time="t", right_time="t", within="9 seconds", left_columns="v", right_columns="W"
    )
    above = left.where("v < 5").select(sf.col("text").alias("name"), "*")
    text = join.explain(above, right)
    assert "  columns: k, t, v\n" in text
    assert "  columns: k, t, w\n" in text
    assert "row groups: 8 in 2 files, of which statistics rule out 6" in text
    oracle = (
        left.where("v < 5")
        .alias("l")
        .join(
            right.alias("r"),
            sf.expr("l.k = r.k and abs(unix_micros(r.t) - unix_micros(l.t)) <= 9000000"),
        )
    )
    result = join.run(above, right)
    assert result.columns == ["v", "w"]
    assert counted(result) == counted(oracle.select("v", "w"))
    semi = wk.join(by="k", left_time="t", right_time="t", within="9 seconds", how="semi")
    assert "  columns: k, t\n" in semi.explain(left, right)


def test_a_side_of_files_and_one_of_rows(spark, left, right):
    join = wk.join(by="k", left_time="t", right_time="t", windows=wk.sliding("8 seconds", "4 seconds"))
    wanted = counted(join.run(left, right, route="packed"))
    assert sum(wanted.values()) > 20
    cached = right.cache()
    try:
        text = join.explain(left, cached)
        assert f"stage 1 of the left side, {READ}" in text
        assert "stage 1 of the right side, inside one mapInArrow: rows of k, t, w, pair, text are" in text
        assert "  not read from files by tasks, as rows are cached" in text
        assert counted(join.run(left, cached)) == wanted
        assert counted(join.run(cached, left.withColumnRenamed("v", "w"), split="1 minute")) == counted(
            join.run(cached, left.withColumnRenamed("v", "w"), route="packed")
        )
        with pytest.raises(
            wk.InvalidValue,
            match=r"^route: 'scan' is given, and tasks cannot read the files of right themselves, as rows "
            r"are cached; allowed is 'packed', or None",
        ):
            join.run(left, cached, route="scan")
    finally:
        right.unpersist()


def test_labels_and_events(left, right, settings):
    labels = right.select("k", "t", "w")
    oracle = (
        labels.alias("l")
        .withColumn("row", sf.monotonically_increasing_id())
        .join(
            left.alias("r"),
            sf.expr(
                "l.k <=> r.k and unix_micros(r.t) between unix_micros(l.t) - 5000000 and unix_micros(l.t)"
            ),
            "left",
        )
        .groupBy("row", "l.k", "l.t", "w")
        .agg(sf.sum("v").alias("recent"))
        .drop("row")
    )
    wanted = counted(oracle)
    text = windowkit.spark.explain_as_of(labels, left, FEATURES)
    assert f"stage 1 of labels, {READ}" in text
    assert f"stage 1 of events, {READ}" in text
    assert "  columns: k, t, v\n" in text
    metrics = windowkit.spark.Metrics()
    assert counted(FEATURES.at(labels, left, metrics=metrics)) == wanted
    assert metrics.values()["rows in"] == 80 + 72
    assert counted(FEATURES.at(labels, left, split="10 seconds")) == wanted
    named = labels.toDF("who", "when", "w")
    assert counted(FEATURES.at(named, left, by="who", time="when").toDF("k", "t", "w", "recent")) == wanted
    text = windowkit.spark.explain_as_of(named, left, FEATURES, by="who", time="when", route="packed")
    assert "rows of k, t, v are packed, but for those without a time\n  not read from files by tasks" in text
    # Expressions are for Spark to compute.
    computed = wk.rolling(by="k", time="t", aggs=wk.sum(wk.expr("v * 2")).over("5 seconds").alias("recent"))
    text = windowkit.spark.explain_as_of(labels, left, computed)
    assert f"stage 1 of labels, {READ}" in text
    assert "  not read from files by tasks, as a column is computed, (v * 2" in text
    with pytest.raises(wk.InvalidValue, match="cannot read the files of events themselves, as a column is"):
        computed.at(labels, left, route="scan")


def test_duplicates(left):
    twice = left.where("v < 17")
    assert READ in FIRSTS.explain(twice)
    metrics = windowkit.spark.Metrics()
    result = FIRSTS.run(twice, metrics=metrics)
    assert result.schema == twice.schema
    wanted = counted(FIRSTS.run(twice, route="packed"))
    assert counted(result) == wanted
    assert metrics.values()["rows in"] == twice.count() > sum(wanted.values())
    # By definition: the row before is farther away, or of no time.
    last: dict[object, int] = {}
    firsts = 0
    for row in sorted((row for row in twice.collect() if row["t"] is not None), key=lambda row: row["t"]):
        seconds = row["t"].timestamp()
        firsts += row["k"] not in last or seconds - last[row["k"]] > 6
        last[row["k"]] = seconds
    assert sum(count for row, count in wanted.items() if "t=None" not in row) == firsts


def test_routes_that_are_requested(left, right, settings):
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second")
    calls = {
        "roll": lambda **how: (FEATURES.run(left, **how), FEATURES.explain(left, **how)),
        "join": lambda **how: (join.run(left, right, **how), join.explain(left, right, **how)),
        "at": lambda **how: (
            FEATURES.at(right, left, **how),
            windowkit.spark.explain_as_of(right, left, FEATURES, **how),
        ),
        "distinct": lambda **how: (FIRSTS.run(left, **how), FIRSTS.explain(left, **how)),
    }
    for call in calls.values():
        assert READ in call(route="scan")[1]
        text = call(route="packed")[1]
        assert READ not in text
        assert "  not read from files by tasks, as the route 'packed' was requested" in text
        with pytest.raises(wk.InvalidValue, match="route: 'rows' is unknown; allowed are 'scan', 'packed'"):
            call(route="rows")
        with settings({"spark.windowkit.tables": "false"}):
            text = call()[1]
            assert "  not read from files by tasks, as spark.windowkit.tables is false" in text
            with pytest.raises(
                wk.InvalidValue, match=r"route: 'scan' is given, .* as spark.windowkit.tables"
            ):
                call(route="scan")
        with settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
            assert "as spark.sql.files.ignoreCorruptFiles is true" in call()[1]
    with pytest.raises(wk.InvalidValue, match="as keys are to be cut; allowed is 'packed'"):
        FEATURES.run(left, split=True, route="scan")


def test_columns_of_all_types(spark, tmp_path):
    columns = [
        *("array(timestamp_seconds(id), null) l", "map(string(id), timestamp_seconds(id), 'b', null) m"),
        "if(id % 2 = 0, named_struct('t', timestamp_seconds(id), 'deep', array(map(id, id))), null) s",
        *("cast(string(id) as binary) b", "cast(id / 3 as decimal(30, 7)) d", "interval '3' day * id i"),
        *(
            "float(id) / 3 f",
            "cast(id as byte) y",
            "timestamp_ntz'2024-05-01 10:00:00' n",
            "date'2024-05-01' j",
        ),
    ]
    path = str(tmp_path / "table")
    spark.range(0, 50, 1, 2).selectExpr("id % 3 k", "timestamp_seconds(id) t", *columns).write.parquet(path)
    frame = spark.read.parquet(path)
    join = wk.join(by="k", left_time="t", right_time="t", within="4 seconds", how="full")
    assert join.explain(frame, frame).count(READ) == 2
    assert counted(join.run(frame, frame)) == counted(join.run(frame, frame, route="packed"))
    by_nested = wk.join(by=["l", "i", "b"], left_time="n", right_time="n", within="1 second")
    found = by_nested.run(frame, frame)
    assert found.schema == by_nested.run(frame, frame, route="packed").schema
    assert found.count() == 50


def test_small_tables_are_left_to_spark(left, right, monkeypatch):
    monkeypatch.undo()
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second")
    text = join.explain(left, right)
    assert text.count("  not read from files by tasks, as there are few rows") == 2
    assert join.explain(left, right, route="scan").count(READ) == 2


def test_files_that_are_gone_or_written_anew(left, right, tmp_path):
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second")
    result = join.run(left, right)
    (tmp_path / "right" / "0.parquet").unlink()
    with pytest.raises(PySparkException, match="no longer exists"):
        result.collect()
    text = join.explain(left, right)
    assert f"stage 1 of the left side, {READ}" in text
    assert "that this process cannot see" in text


def test_what_is_wrong_in_a_file_names_the_job(left, right, tmp_path):
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second", how="semi")
    result = join.run(left, right)
    pq.write_table(rows(0, 2, "v").slice(3), tmp_path / "left" / "0.parquet")
    with pytest.raises(PySparkException, match=r"has changed since .* in the join by k over t and t"):
        result.collect()


def test_metrics_that_are_none(left, right):
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second")
    for call in (lambda **how: join.run(left, right, **how), lambda **how: FEATURES.at(right, left, **how)):
        with pytest.raises(wk.InvalidType, match="metrics: an int is given"):
            call(metrics=3)
