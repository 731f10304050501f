"""`windowkit.spark.scan` of tables by name, and of two tables: as the same over Spark's DataFrames."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import windowkit as wk
import windowkit.spark
from support.programs import ROOT, program
from support.scan_calls import checked

pytestmark = pytest.mark.usefixtures("files_are_read", "nan_is_read")
SEEDS = range(24)
TAKEN: list[int] = []
QUERY = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"))
ROLLING = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("5 seconds"))
JOIN = wk.join(by="k", left_time="t", right_time="t", within="1 second")
DISTINCT = wk.distinct("k", time="t", within="1 second")


@pytest.mark.parametrize("seed", SEEDS)
def test_random_scans(spark, tmp_path, seed):
    TAKEN.append(checked(spark, Random(f"scans {seed}"), tmp_path, f"scanned_{seed}"))


def test_most_tables_are_read_by_tasks():
    if len(TAKEN) == len(SEEDS):
        assert sum(taken > 0 for taken in TAKEN) > len(SEEDS) / 2
        assert {0, 1, 2} == set(TAKEN)


@pytest.fixture
def path(tmp_path):
    times = pa.array([second * 10**6 for second in range(40)], pa.timestamp("us", "UTC"))
    rows = pa.table({"k": [row % 3 for row in range(40)], "t": times, "v": [row / 4 for row in range(40)]})
    (tmp_path / "readings").mkdir()
    pq.write_table(rows, tmp_path / "readings" / "f.parquet", row_group_size=10)
    return str(tmp_path / "readings")


@pytest.fixture
def table(spark, path):
    spark.sql("drop table if exists readings")
    spark.sql(f"create table readings using parquet options (path '{path}')")
    yield "readings"
    spark.sql("drop table if exists readings")


def test_who_reads_each_side(spark, table, path):
    text = wk.spark.explain_scan(spark, table, JOIN, path, filter=[("v", "<", 2)])
    assert "stage 1 of the left side, in Rust inside one mapInArrow: 1 task read 1 file" in text
    assert "row groups: 4 in 1 file, of which statistics rule out 3" in text
    assert "stage 1 of the right side, in Rust inside one mapInArrow" in text
    spark.sql("create temporary view some as select k, t, v + 1 as v from readings")
    try:
        text = wk.spark.explain_scan(spark, path, ROLLING, "some")
        assert "stage 1 of labels, in Rust" in text
        assert "not read from files by tasks, as a column is computed" in text
        filtered = wk.spark.scan(spark, "some", DISTINCT, filter=[("v", "<=", 1.5)])
        assert sorted(row.v for row in filtered.collect()) == [1.0, 1.25, 1.5]
        # What SQL says exactly is Spark's to evaluate; of fractions, statistics would hide NaN from it.
        for chosen, spark_says, tasks_say in (
            ([("k", "in", [0, 1.0])], "k in (cast('0' as bigint), cast('1' as bigint))", None),
            ([("k", "=", 1), ("v", "<", 3)], "k = cast('1' as bigint)", "((k == 1) and (v < 3))"),
            ([[("k", "=", 1)], [("v", "<", 3)]], None, "((k == 1) or (v < 3))"),
            (pc.field("k") == 1, None, "(k == 1)"),
        ):
            text = wk.spark.explain_scan(spark, "some", QUERY, filter=chosen)
            assert (f"\nfilter, in Catalyst: {spark_says}\n" in text) is (spark_says is not None), text
            by_tasks = "\nfilter, inside one mapInArrow, which all rows enter before the query: "
            assert (f"{by_tasks}{tasks_say}\n" in text) is (tasks_say is not None), text
            assert (by_tasks in text) is (tasks_say is not None)
    finally:
        spark.sql("drop view some")


def test_a_view_that_renames_what_a_filter_reads(spark, table):
    spark.sql("create temporary view called as select k, t, v as v2, k as v from readings")
    try:
        query = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v2"))
        for chosen, where, said in (
            ([("v", "=", 2)], "v = 2", "route: scan"),
            (pc.field("v") == 2, "v = 2", "as the filter is of columns that the view renames"),
            ([("v2", ">", 2)], "v2 > 2", "as the filter is of columns that the view renames"),
        ):
            text = wk.spark.explain_scan(spark, "called", query, filter=chosen)
            assert said in text
            found = wk.spark.scan(spark, "called", query, filter=chosen)
            wanted = query.run(spark.table("called").where(where), route="rows")
            assert sorted(found.collect()) == sorted(wanted.collect()) != []
    finally:
        spark.sql("drop view called")


def test_a_name_in_backticks_may_have_a_slash(spark, table):
    spark.sql("create temporary view `a/b` as select * from readings")
    try:
        assert wk.spark.scan(spark, "`a/b`", DISTINCT).count() == 40
    finally:
        spark.sql("drop view `a/b`")


def test_a_path_may_have_a_format(spark, path):
    found = wk.spark.scan(spark, f"parquet.`{path}`", QUERY)
    assert sorted(found.collect()) == sorted(QUERY.run(spark.read.parquet(path)).collect()) != []
    assert "route: scan" in wk.spark.explain_scan(spark, f"parquet.`{path}`", QUERY)
    with pytest.raises(
        wk.InvalidValue, match=r"paths: Spark does not read parquet.`/no/where`.*no such file"
    ):
        wk.spark.scan(spark, "parquet.`/no/where`", QUERY)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"other": "/no/where"}, wk.InvalidValue, "other: Spark does not read /no/where"),
        ({"other": 3}, wk.InvalidType, "other: 3 is an int; other is a str, or several in a list"),
        ({"other_filter": [("x", "=", 1)]}, wk.UnknownColumn, "other_filter: column 'x' is unknown"),
        ({"other_filter": 3}, wk.InvalidType, "other_filter: an int is given; other_filter is a pyarrow"),
    ],
)
def test_errors_name_the_argument_of_the_second_table(spark, path, options, error, message):
    with pytest.raises(error, match=f"^{message}"):
        wk.spark.scan(spark, path, JOIN, **{"other": path, **options})


def test_a_name_is_not_a_path(spark, table):
    with pytest.raises(wk.InvalidValue, match="merge_schema: True is given, and 'readings' is a table"):
        wk.spark.scan(spark, table, QUERY, merge_schema=True)
    spark.sql("create table gone as select * from readings")
    spark.sql("create temporary view lost as select * from gone")
    spark.sql("drop table gone")
    try:
        none = "there is no table, view or file of that name"
        for missing in ("nowhere", "no.such.name", "*.parquet", "a b", "lost"):
            with pytest.raises(wk.InvalidValue, match=f"paths: Spark does not read .*; {none}$"):
                wk.spark.scan(spark, missing, QUERY)
        with pytest.raises(wk.InvalidValue, match=r"there is no such file$"):
            wk.spark.scan(spark, "/no/where", QUERY)
        with pytest.raises(wk.InvalidValue, match=r"a table or view is given as a str by itself$"):
            wk.spark.scan(spark, ["readings"], QUERY)
    finally:
        spark.sql("drop view lost")
    with pytest.raises(wk.InvalidValue, match="no NUL or lone surrogate"):
        wk.spark.scan(spark, "a\ud800", QUERY)


@pytest.mark.parametrize(
    ("asked", "options", "message"),
    [
        (JOIN, {}, "other: None is given with a join; other is the table of its right side"),
        (JOIN, {"other": "x", "where": "k = 1"}, "where: 'k = 1' is given with a join"),
        (JOIN, {"other": "x", "by": "k"}, "by: 'k' is given with a join"),
        (QUERY, {"other": "x"}, "other: 'x' is given with a query"),
        (QUERY, {"split": "1 minute"}, "split: '1 minute' is given with a query"),
        (DISTINCT, {"other": "x"}, "other: 'x' is given with duplicates"),
        (DISTINCT, {"rows_per_slice": 2}, "rows_per_slice: 2 is given with duplicates"),
        (ROLLING, {"split": "1 minute"}, "split: '1 minute' is given with rolling aggregates"),
        (ROLLING, {"other": "x", "rows_per_slice": 2}, "rows_per_slice: 2 is given with labels"),
    ],
)
def test_arguments_that_do_not_go_together(spark, path, asked, options, message):
    with pytest.raises(wk.InvalidValue, match=message):
        wk.spark.scan(spark, path, asked, **options)


def test_connect(spark, remote, tmp_path):
    """Statements say there what plans say here."""
    printed = program(
        """
        import sys
        from pathlib import Path
        from random import Random

        from pyspark.sql import SparkSession
        import windowkit as wk
        import windowkit.spark
        from support.scan_calls import checked
        from windowkit.spark.parquet import planned

        spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
        spark.conf.unset("spark.windowkit.tables")
        for name, value in {
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "Europe/Berlin",
            "spark.sql.parquet.filterPushdown": "false",
        }.items():
            spark.conf.set(name, value)
        root = Path(sys.argv[2])
        taken = [checked(spark, Random(f"connect {seed}"), root, f"remote_{seed}") for seed in range(12)]
        print("taken", sum(each > 0 for each in taken), sorted(set(taken)))

        query = wk.query(by="p", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"))
        columns = "timestamp_seconds(id) t, id v"

        def same(name, *said, chosen="true", **options):
            frame = spark.table(name).where(chosen)
            text = wk.spark.explain_scan(spark, name, query, **options)
            assert all(each in text for each in said), text
            found = wk.spark.scan(spark, name, query, **options)
            wanted = query.run(frame, where=options.get("where"))
            rows = [sorted(map(str, each.collect())) for each in (found, wanted)]
            assert rows[0] == rows[1] != []

        spark.sql(
            "create table placed (t timestamp, v long, p string) using parquet partitioned by (p) "
            f"location '{root / 'placed'}'"
        )
        for value, rows in (("'a b%/c'", 20), ("'other'", 30), ("cast(null as string)", 7)):
            inserted = f"select /*+ coalesce(1) */ {columns}, {value} p from range({rows})"
            spark.sql(f"insert into placed {inserted}")
        same("placed", "route: scan", "read 3 files", "of directories: p", "whose files a Spark job listed")
        few = [("P", "=", "other"), ("v", ">", 2)]
        own = ("read 1 file", "those in which p = 'other'")
        same("default.placed", *own, chosen="p = 'other' and v > 2", filter=few)
        for value, said in (("true", "route: scan"), ("false", "as spark.windowkit.tables is false")):
            spark.conf.set("spark.windowkit.tables", value)
            same("placed", said)
        spark.conf.unset("spark.windowkit.tables")
        planned.MOST_FILES = 2
        same("placed", "left to Spark's reader, as there are more than 2 files")
        same("placed", "read 2 files", where="p in ('other', 'x') or p like 'a%'")
        planned.MOST_FILES = 10_000
        spark.sql("create view seen as select * from placed where v > 3")
        same("seen", "left to Spark's reader, as it is not a table of Parquet files")
        assert "scan: refused" not in wk.spark.explain_scan(spark, "seen", query)
        same(f"parquet.`{root / 'placed'}`", "left to Spark's reader, as ")
        spark.sql("drop view seen")
        spark.sql("cache table placed")
        same("placed", "left to Spark's reader, as rows are cached")
        spark.sql("uncache table placed")
        spark.sql("drop table placed")
        for name, made, reason in (
            ("bucketed", "clustered by (p) into 2 buckets", "the table is bucketed"),
            ("lengths", "", "is of a type with a length"),
            ("given", "options (datetimeRebaseMode 'LEGACY')", "the option datetimeRebaseMode is given"),
            ("in_orc", None, "it is not a table of Parquet files (orc)"),
        ):
            form, options = ("orc", "") if made is None else ("parquet", made)
            of = "varchar(9)" if name == "lengths" else "string"
            options += f" location '{root / name}'"
            spark.sql(f"create table {name} (t timestamp, v long, p {of}) using {form} {options}")
            spark.sql(f"insert into {name} select {columns}, 'x' p from range(9)")
            same(name, "left to Spark's reader, as", reason)
            spark.sql(f"drop table {name}")
        # Spark finds such columns, though the table is not declared to be partitioned by them.
        for value in (0, 1):
            rows = spark.range(9).selectExpr(*columns.split(", "))
            rows.write.parquet(str(root / "loose" / f"p={value}"))
        columns_of = "(t timestamp, v long, p int"
        spark.sql(f"create table loose {columns_of}) using parquet location '{root / 'loose'}'")
        same("loose", "left to Spark's reader, as its directories may have columns")
        spark.sql("drop table loose")
        made = f"using parquet location '{root / 'spans'}' partitioned by (x)"
        spark.sql(f"create table spans {columns_of}, x interval hour) {made}")
        spark.sql(f"insert into spans select {columns}, 1 p, interval '1' hour from range(9)")
        same("spans", "left to Spark's reader, as its files cannot be listed (paths: column 'x' has type")
        spark.sql("drop table spans")
        print("equal")
        spark.stop()
        """,
        remote,
        tmp_path,
        path=f"{ROOT}:{Path(__file__).parents[1]}",
    )
    assert "equal" in printed
    assert "[0, 1, 2]" in printed
    assert int(printed.split()[1]) > 6
