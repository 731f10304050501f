"""Joins and duplicates of DataFrames, against Spark's own joins and frames."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import windowkit as wk
from support.programs import program

UTC = pa.timestamp("us", "UTC")
KINDS = {
    "inner": "inner",
    "left": "left",
    "right": "right",
    "full": "full",
    "semi": "left_semi",
    "anti": "left_anti",
}


def side(seed: int, name: str) -> pa.Table:
    """Return rows with two keys, times and values of several types, with nulls, NaN and equal times."""
    chance = np.random.default_rng(seed)
    rows = 300
    seconds = chance.integers(-300, 700, rows) * 1_000_000
    return pa.table(
        {
            "k": pa.array(
                chance.choice(["a", "b", "c", f"only {name}"], rows), mask=chance.random(rows) < 0.1
            ),
            "x": pa.array(chance.choice([0.0, -0.0, float("nan")], rows)),
            "t": pa.array(seconds, UTC, mask=chance.random(rows) < 0.05),
            name: pa.array(np.arange(rows)),
            "v": pa.array(chance.normal(size=rows), mask=chance.random(rows) < 0.1),
        }
    )


@pytest.fixture(scope="module", autouse=True)
def few_tasks(spark: SparkSession) -> Iterator[None]:
    """Have as many tasks as there are cores."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    yield
    spark.conf.set("spark.sql.shuffle.partitions", before or "4")


@pytest.fixture(scope="module")
def left(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(side(1, "own")).repartition(2)
    nested = "named_struct('l', array(own, null), 'm', map('a', v)) as nested"
    return frame.selectExpr("*", nested, "cast(own as decimal(20, 3)) d", "null as nothing").cache()


@pytest.fixture(scope="module")
def right(spark: SparkSession) -> DataFrame:
    frame = spark.createDataFrame(side(2, "other")).coalesce(1)
    # Its keys have other names, and one of them is a column of the left side.
    return frame.selectExpr("x as y", "k as d", "t", "other", "v", "timestamp_ntz'2024-01-01' as n").cache()


def counted(frames: dict[str, DataFrame]) -> dict[str, Counter[str]]:
    """Return the rows of several DataFrames, with how often each is there; one Spark job."""
    alike = [
        frame.select(
            sf.lit(name).alias("kind"),
            sf.struct(*(sf.col(f"`{each}`") for each in frame.columns)).cast("string"),
        )
        for name, frame in frames.items()
    ]
    table = reduce(lambda some, others: some.unionAll(others), alike).toArrow()
    result: dict[str, Counter[str]] = {name: Counter() for name in frames}
    for kind, row in zip(*(column.to_pylist() for column in table.columns), strict=True):
        result[kind][row] += 1
    return result


def compared(mine: dict[str, DataFrame], theirs: dict[str, DataFrame]) -> dict[str, Counter[str]]:
    """Compare the results of all kinds with those of Spark's joins, and what is known before any job."""
    for how, result in mine.items():
        assert result.schema == theirs[how].schema, how
    wanted = counted(theirs)
    assert counted(mine) == wanted
    assert min(sum(rows.values()) for rows in wanted.values()) > 20
    return wanted


def chosen(joined: DataFrame, how: str, *, windows: bool = False) -> DataFrame:
    """Return the columns that a join has of one of Spark with sides l and r, by k, x = d, y."""
    keys = ["l.k", "l.x"]
    if how in ("right", "full"):
        keys = ["coalesce(l.k, r.d) as k", "coalesce(l.x, r.y) as x"]
    others = ["l.t", "l.own", "l.v", "l.nested", "l.d", "l.nothing"]
    if how not in ("semi", "anti"):
        others += ["r.t as t_right", "r.other", "r.v as v_right", "r.n"]
    window = {"right": "r.window", "full": "coalesce(l.window, r.window)"}.get(how, "l.window")
    edges = [f"{window}.{edge} as window_{edge}" for edge in ("start", "end")]
    return joined.selectExpr(*keys, *others, *(edges if windows else []))


def test_all_kinds_equal_sparks_own_joins(left: DataFrame, right: DataFrame, settings: Any) -> None:
    condition = sf.expr(
        "l.k = r.d and l.x = r.y and unix_micros(r.t) >= unix_micros(l.t) - 20000000 "
        "and unix_micros(r.t) < unix_micros(l.t) + 45000000"
    )
    mine, cut, theirs = {}, {}, {}
    changed = {"spark.sql.adaptive.enabled": "false", "spark.sql.execution.arrow.maxRecordsPerBatch": "50"}
    with settings(changed):
        for how, kind in KINDS.items():
            join = wk.join(
                by={"k": "d", "x": "y"},
                left_time="t",
                right_time="t",
                within=("20 seconds", "45 seconds"),
                closed="left",
                how=how,
            )
            mine[how] = join.run(left, right)
            theirs[how] = chosen(left.alias("l").join(right.alias("r"), condition, kind), how)
            if how != "full":
                # As short as can be, so that most rows are near an end.
                cut[how] = join.run(left, right, split="45 seconds")
                assert cut[how].schema == mine[how].schema
        wanted = compared(mine, theirs)
        assert counted(cut) == {how: rows for how, rows in wanted.items() if how != "full"}


def test_joins_by_windows_equal_sparks_joins_of_windows(left: DataFrame, right: DataFrame) -> None:
    def tagged(frame: DataFrame) -> DataFrame:
        """Return a row for each window of each row, and those without time."""
        timeless = frame.where("t is null").withColumn(
            "window", sf.lit(None).cast("struct<start:timestamp,end:timestamp>")
        )
        return frame.withColumn("window", sf.window("t", "40 seconds", "20 seconds")).unionAll(timeless)

    own, other = tagged(left).alias("l"), tagged(right).alias("r")
    mine, cut, theirs = {}, {}, {}
    for how, kind in KINDS.items():
        join = wk.join(
            by={"k": "d", "x": "y"},
            left_time="t",
            right_time="t",
            windows=wk.sliding("40 seconds", "20 seconds"),
            how=how,
        )
        mine[how] = join.run(left, right)
        joined = own.join(other, sf.expr("l.k = r.d and l.x = r.y and l.window = r.window"), kind)
        theirs[how] = chosen(joined, how, windows=True)
        if how in ("right", "anti"):
            cut[how] = join.run(left, right, split="50 seconds")
        # Windows of inner and semi joins are never null, which Spark cannot know of this oracle.
        fields = mine[how].schema.fields
        assert {field.nullable for field in fields[-2:]} == {how not in ("inner", "semi")}
        assert [field.simpleString() for field in fields] == [
            field.simpleString() for field in theirs[how].schema
        ]
    wanted = counted(theirs)
    # Rows in no window have none, in Arrow, too.
    assert mine["left"].toArrow()["window_start"].null_count > 0
    assert counted(mine) == wanted
    assert min(sum(rows.values()) for rows in wanted.values()) > 20
    assert counted(cut) == {how: wanted[how] for how in cut}


def test_one_key_is_shared_by_all_tasks(spark: SparkSession, settings: Any) -> None:
    left, right = spark.range(20_000).toDF("t"), spark.sql("select id t, -id w from range(20000)")
    with settings({"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "false"}):
        result = wk.join(by=[], left_time="t", right_time="t", within=(2, 0)).run(left, right, split=10)
        features = wk.rolling(by=[], time="t", aggs=wk.sum("w").over(3).alias("s"))
        labelled = features.at(left, right, split=10)
        tasks = [frame.groupBy(sf.spark_partition_id()).count().collect() for frame in (result, labelled)]
    pairs = {(n, n - back) for n in range(20_000) for back in range(3) if n >= back}
    assert sorted((row["t"], row["t_right"]) for row in result.collect()) == sorted(pairs)
    sums = {row["t"]: row["s"] for row in labelled.collect()}
    assert sums == {n: -sum(range(max(n - 3, 0), n + 1)) for n in range(20_000)}
    for rows in (sorted(row["count"] for row in each) for each in tasks):
        assert len(rows) == 4
        assert rows[-1] <= 1.3 * rows[0]


def test_keys_that_cannot_be_cut(spark: SparkSession, left: DataFrame) -> None:
    right = left.select("k", "t", "v")
    join = wk.join(by="k", left_time="t", right_time="t", within="1 minute")
    assert "all rows of a key within 1 day are in one task" in join.explain(left, right, split="1 day")
    with pytest.raises(wk.InvalidValue, match=r"split: .* is given without a Spark DataFrame"):
        join.explain(split="1 day")
    with pytest.raises(wk.InvalidValue, match="split: 1 second is shorter than 1 minute, as far as rows"):
        join.run(left, right, split="1 second")
    with pytest.raises(wk.InvalidValue, match="split: -1 day is given; times are at least 1 microsecond"):
        join.run(left, right, split="-1 day")
    with pytest.raises(wk.InvalidType, match="split: 60 is given; it is a time such as '1 day'"):
        join.run(left, right, split=60)
    with pytest.raises(wk.InvalidType, match="split: '9 rows' is given; it is a time"):
        join.run(left, right, split="9 rows")
    with pytest.raises(wk.InvalidValue, match="split: it is given for a full join"):
        dataclasses.replace(join, how="full").run(left, right, split="1 hour")
    with pytest.raises(wk.InvalidValue, match=r"split: .* is given without a Spark DataFrame"):
        join.run(pa.table({"t": [1]}), pa.table({"t": [1]}), split="1 hour")
    of_days = wk.join(by="k", left_time="t", right_time="t", windows=wk.tumbling("1 month", zone="UTC"))
    with pytest.raises(wk.InvalidValue, match="split: it is given, and windows are tumbling"):
        of_days.run(left, right, split="60 days")
    for frame, why in (
        (wk.sum("v").over("5 rows"), "is by rows"),
        (wk.sum("v").over("unbounded"), "has no bound"),
    ):
        with pytest.raises(wk.InvalidValue, match=f"split: it is given, and a frame {why}"):
            wk.rolling(by="k", time="t", aggs=frame).at(left.select("k", "t"), right, split="1 day")
    days = spark.sql("select 'a' k, date'2024-01-01' t, 1 v")
    with pytest.raises(wk.InvalidValue, match="split: 1 hour is given; times are at least 1 day apart"):
        wk.join(by="k", left_time="t", right_time="t", within="0 days").run(days, days, split="1 hour")


def test_columns_are_found_in_any_case_and_named_apart(spark: SparkSession, settings: Any) -> None:
    left = spark.sql("select id % 2 K, timestamp_seconds(id) TS, id v, id `a.b` from range(4)")
    right = spark.sql("select id % 2 k, timestamp_seconds(id) ts, id V, id w from range(4)")
    join = wk.join(by="k", left_time="ts", right_time="TS", within="0 seconds", left_columns=["V", "A.B"])
    metrics = wk.spark.Metrics()
    result = join.run(left, right, metrics=metrics)
    assert result.columns == ["v", "a.b", "ts", "V_right", "w"]
    assert {tuple(row) for row in result.drop("ts").collect()} == {(n, n, n, n) for n in range(4)}
    assert metrics.values()["rows in"] == 8
    assert metrics.values()["rows out"] == 4
    assert join.run(left, right.drop("V")).columns == ["v", "a.b", "ts", "w"]
    with pytest.raises(wk.InvalidValue, match="suffix: the result would have two columns 'V_right'"):
        wk.join(by="k", left_time="ts", right_time="ts", within="0 seconds").run(
            left.withColumnRenamed("a.b", "v_RIGHT"), right
        )
    with settings({"spark.sql.caseSensitive": "true"}):
        minding = wk.join(by={"K": "k"}, left_time="TS", right_time="ts", within="0 seconds")
        assert minding.run(left, right).columns == ["K", "TS", "v", "a.b", "ts", "V", "w"]
        with pytest.raises(wk.UnknownColumn, match="no column 'k'"):
            join.run(left, right)
    twice = left.select("*", sf.lit(1).alias("k"))
    with pytest.raises(wk.InvalidValue, match="by, of the left side: column 'k' is ambiguous"):
        join.run(twice.toDF("k", "ts", "v", "w", "k"), right)


def test_keys_that_differ_in_what_may_be_null_within_them(spark: SparkSession) -> None:
    left = spark.sql("select array(id & 3) k, named_struct('n', id & 1) s, id t from range(12)")
    right = spark.sql(
        "select array(if(id < 0, null, id & 3)) k, named_struct('n', if(id < 0, null, id & 1)) s, id t, id w "
        "from range(20)"
    )
    assert left.schema["k"].dataType != right.schema["k"].dataType
    joined = wk.join(by=["k", "s"], left_time="t", right_time="t", within=(0, 7), how="full").run(left, right)
    rows = joined.collect()
    pairs = {(n, n + more) for n in range(12) for more in (0, 4)}
    assert {(row["t"], row["w"]) for row in rows} == pairs | {(None, n) for n in range(16, 20)}
    assert all(row["k"] == [row["w"] % 4] and row["s"]["n"] == row["w"] % 2 for row in rows)


def test_sides_without_rows_or_keys_and_times_of_other_types(spark: SparkSession) -> None:
    left = spark.sql(
        "select cast(null as string) k, id % 4 t, date_add(date'2024-01-01', int(id)) d from range(3)"
    )
    right = spark.sql(
        "select string(id) k, int(id) t, date_add(date'2024-01-01', int(id)) d, id w from range(3)"
    )
    results = {}
    for how in KINDS:
        no_partners = wk.join(by="k", left_time="d", right_time="d", within="9 days", how=how)
        results[how] = no_partners.run(left, right)
    every = wk.join(by=[], left_time="d", right_time="d", within="9 days", how="full")
    results["nothing on the right"] = every.run(left, right.limit(0))
    results["nothing on the left"] = every.run(left.limit(0), right)
    sizes = {name: sum(rows.values()) for name, rows in counted(results).items()}
    assert sizes == {
        "inner": 0,
        "left": 3,
        "right": 3,
        "full": 6,
        "semi": 0,
        "anti": 3,
        "nothing on the right": 3,
        "nothing on the left": 3,
    }
    of_days = wk.join(by=[], left_time="d", right_time="d", within=("0 days", "1 day"), right_columns="w")
    assert sorted(row["w"] for row in of_days.run(left, right).collect()) == [0, 1, 1, 2, 2]
    of_integers = wk.join(by=[], left_time="t", right_time="w", windows=wk.tumbling(2), how="semi")
    windows = of_integers.run(left, right).select("t", "window_start", "window_end")
    assert windows.schema["window_start"].dataType.simpleString() == "bigint"
    assert sorted(map(tuple, windows.collect())) == [
        (0, 0, 2),
        (1, 0, 2),
        (2, 2, 4),
    ]


def test_what_does_not_fit_is_refused_before_any_job(spark: SparkSession, left: DataFrame) -> None:
    right = left.select("k", "t")
    table = pa.table({"k": ["a"], "t": pa.array([1], UTC)})
    join = wk.join(by="k", left_time="t", right_time="t", within="1 second")
    with pytest.raises(wk.InvalidType, match="right: a Table is given; left and right both are Spark"):
        join.run(left, table)
    with pytest.raises(wk.InvalidType, match="right: a Spark DataFrame is given; left and right both are"):
        join.run(table, right)
    with pytest.raises(wk.InvalidType, match=r"left: a Spark DataFrame is given; it has no schema.*join.run"):
        join.schema(left, right)
    with pytest.raises(wk.InvalidType, match="left: a Spark DataFrame is given; batches are of one process"):
        join.batches(left, right)
    with pytest.raises(wk.InvalidType, match="left: a Spark DataFrame is given; an operator joins streams"):
        join.operator(left, right)
    with pytest.raises(
        wk.InvalidValue, match="threads: 2 is given with a batch DataFrame of Spark; only tables have it"
    ):
        join.run(left, right, threads=2)
    with pytest.raises(wk.InvalidValue, match=r"metrics: .* is given without a Spark DataFrame"):
        join.run(table, table, metrics=wk.spark.Metrics())
    with pytest.raises(wk.UnknownColumn, match="by, of the right side: no column 'k'; there are t"):
        join.run(left, right.select("t"))
    weighed = wk.join(by="k", left_time="t", right_time="t", within="1 second", right_weight="v")
    with pytest.raises(wk.InvalidValue, match="right_weight: 'v' is given for DataFrames of Spark"):
        weighed.run(left, left)
    with pytest.raises(
        wk.InvalidType, match="by: column 'k' of the left side is string, and 'k' of the right"
    ):
        join.run(left, right.selectExpr("1 as k", "t"))
    with pytest.raises(
        wk.InvalidType, match="left_time and right_time: column 't' of the left side is timestamp"
    ):
        join.run(left, right.selectExpr("k", "cast(t as timestamp_ntz) as t"))
    with pytest.raises(wk.InvalidType, match="right: column 'c' has type interval year to month, which"):
        join.run(left, right.selectExpr("k", "t", "make_ym_interval(1, 2) as c"))
    with pytest.raises(wk.InvalidType, match="by, of the left side: column 'k' has type interval year to"):
        join.run(left.selectExpr("make_ym_interval(1, 2) as k", "t"), right)
    with pytest.raises(wk.InvalidType, match="right_time: column 't' has type interval year to month"):
        join.run(left, right.selectExpr("k", "make_ym_interval(1, 2) as t"))
    with pytest.raises(wk.InvalidType, match="right: a NoneType is given; left and right both are Spark"):
        join.run(left, None)
    with pytest.raises(wk.InvalidType, match="join: a str is given"):
        wk.spark.join(left, right, "inner")  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load()
    live = wk.join(by=[], left_time="timestamp", right_time="timestamp", within="1 second")
    with pytest.raises(wk.InvalidValue, match=r"right: a streaming .* foreachBatch, and join\.operator"):
        live.run(left.withColumnRenamed("t", "timestamp"), stream)
    distinct = wk.distinct([], time="timestamp", within="1 second")
    for call in (distinct.run, distinct.explain):
        with pytest.raises(wk.InvalidValue, match=r"df: a streaming .*, and df\.dropDuplicatesWithin"):
            call(stream)


def test_explain_says_what_crosses(left: DataFrame, right: DataFrame) -> None:
    join = wk.join(
        by={"k": "d"}, left_time="t", right_time="t", within="1 minute", how="left", right_columns="other"
    )
    text = join.explain(left, right)
    assert text.startswith("join by k = d over t and t: within 1 minute, left\n")
    assert "stage 1 of the right side, inside one mapInArrow: rows of d, t, other are packed, but for" in text
    assert "buckets of k in" in text
    assert "  other: bigint" in text
    with pytest.raises(wk.InvalidValue, match="right: left is given alone"):
        join.explain(left)


def test_duplicates_are_those_that_sparks_frames_find(left: DataFrame, settings: Any) -> None:
    """A row is left if none of its key is in the 30 seconds before it, and the first of those at its time."""
    frame = left.drop("nested", "nothing")
    asked = wk.distinct(["K", "x"], time="t", within="30 seconds")
    metrics = wk.spark.Metrics()
    with settings({"spark.sql.execution.arrow.maxRecordsPerBatch": "50"}):
        result = asked.run(frame, metrics=metrics)
        assert result.schema == frame.schema
        got = result.collect()
    own = frame.withColumn("at", sf.unix_micros("t"))
    near = "count(*) over (partition by k, x order by at range between 30000000 preceding and 1 preceding)"
    wanted = own.selectExpr(
        "*", f"{near} as near", "row_number() over (partition by k, x, at order by own) as place"
    )
    firsts = wanted.where("t is null or (near = 0 and place = 1)").drop("near", "place", "at").collect()

    def times(rows: Any) -> Counter[Any]:
        # NaN keys are one, and so are 0.0 and -0.0.
        return Counter((row["k"], repr(row["x"] + 0.0), row["t"]) for row in rows)

    assert 0 < len(firsts) < frame.count()
    assert times(got) == times(firsts)
    assert {tuple(map(str, row)) for row in got} <= {tuple(map(str, row)) for row in frame.collect()}
    assert metrics.values()["rows in"] == frame.count()
    assert metrics.values()["rows out"] == len(got)
    assert "of which duplicates are dropped" in asked.explain(frame)


def test_one_row_per_interval_is_that_of_one_process(left: DataFrame, settings: Any) -> None:
    frame = left.select("k", "x", "t", "own").where("x is null or not isnan(x)")
    asked = wk.distinct(["k", "x"], time="t", within="30 seconds", per="interval")
    with settings({"spark.sql.execution.arrow.maxRecordsPerBatch": "50"}):
        got = asked.run(frame).toArrow()
    rows = frame.toArrow()

    def times(table: pa.Table) -> Counter[Any]:
        # Rows of one time have no order in Spark.
        return Counter(zip(*(table[name].to_pylist() for name in ("k", "x", "t")), strict=True))

    assert times(got) == times(asked.run(rows))
    firsts = wk.distinct(["k", "x"], time="t", within="30 seconds").run(rows)
    assert firsts.num_rows < got.num_rows < rows.num_rows
    assert "30 seconds after a row that is left with their k, x" in asked.explain(frame)


def test_duplicates_that_are_refused_or_none(spark: SparkSession) -> None:
    frame = spark.sql("select id % 4 t, id from range(8)")
    asked = wk.distinct([], time="t", within=0)
    assert sorted(row["t"] for row in asked.run(frame).collect()) == [0, 1, 2, 3]
    assert asked.run(frame.limit(0)).collect() == []
    with pytest.raises(wk.InvalidType, match="data: a Spark DataFrame is given; it has no schema"):
        asked.schema(frame)
    with pytest.raises(wk.InvalidType, match="data: a Spark DataFrame is given; batches are of one process"):
        asked.batches(frame)
    with pytest.raises(wk.InvalidType, match="schema: a Spark DataFrame is given; an operator takes rows"):
        asked.operator(frame)
    with pytest.raises(wk.InvalidValue, match="threads: 2 is given with a batch DataFrame of Spark"):
        asked.run(frame, threads=2)
    with pytest.raises(wk.UnknownColumn, match="no column 'ts'"):
        wk.distinct("id", time="ts", within=1).run(frame)
    with pytest.raises(wk.InvalidType, match="distinct: a str is given"):
        wk.spark.distinct(frame, "id")  # type: ignore[arg-type]


def test_connect(remote: str) -> None:
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk
        import windowkit.spark

        builder = SparkSession.builder.remote(sys.argv[1]).config("spark.sql.shuffle.partitions", "2")
        spark = builder.getOrCreate()
        assert "connect" in type(spark).__module__
        left = spark.sql("select id % 3 k, timestamp_seconds(id) t, id v from range(30)")
        right = spark.sql("select id % 3 k, timestamp_seconds(id) t, id w from range(40)")
        join = wk.join(by="k", left_time="t", right_time="t", within=("0 seconds", "3 seconds"), how="right")
        metrics = wk.spark.Metrics()
        rows = join.run(left, right, metrics=metrics).collect()
        pairs = {(n, n + more) for n in range(30) for more in (0, 3)} | {(None, n) for n in range(33, 40)}
        assert {(row["v"], row["w"]) for row in rows} == pairs, rows
        assert metrics.values()["rows in"] == 70
        assert "stage 2" in join.explain(left, right)
        firsts = wk.distinct("k", time="t", within="3 seconds").run(left).collect()
        assert sorted(row["v"] for row in firsts) == [0, 1, 2]
        print("equal")
        """,
        remote,
    )
    assert printed.split() == ["equal"]
