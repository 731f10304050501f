"""DataFrames of Parquet files: tasks read the files, or `explain` says why Spark's reader does."""

from __future__ import annotations

import datetime as dt
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Window
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

QUERY = wk.query(by="k", time="t", windows=wk.sliding("10 seconds", "5 seconds"), aggs=wk.sum("v"))


pytestmark = pytest.mark.usefixtures("files_are_read")


def rows(count=30, first=0, **columns):
    numbers = range(first, first + count)
    own = {
        "k": [number % 3 for number in numbers],
        "t": pa.array([number * 10**6 for number in numbers], pa.timestamp("us", "UTC")),
        "v": [number / 4 for number in numbers],
        "pair": [{"x": number} for number in numbers],
    }
    return pa.table(own | columns)


@pytest.fixture
def folder(tmp_path):
    """A table of two files."""
    for file in range(2):
        pq.write_table(rows(first=30 * file), tmp_path / f"{file}.parquet", row_group_size=10)
    return tmp_path


@pytest.fixture
def frame(spark, folder):
    return spark.read.parquet(str(folder))


def route_of(query, frame, **options):
    """Return the route that `explain` names, and why it is not "scan"."""
    lines = str(query.explain(frame, **options)).splitlines()
    (route,) = [line.removeprefix("route: ").partition(",")[0] for line in lines if line.startswith("route:")]
    why = [line.removeprefix("  scan: refused, as ") for line in lines if line.startswith("  scan: refused")]
    return route, *why


@pytest.fixture
def left(same_rows):
    """Assert that a query is left to Spark's reader for a reason, and has Spark's rows."""

    def check(frame, reason, query=QUERY, oracle=None):
        route, why = route_of(query, frame)
        assert route != "scan"
        assert reason in why, why
        wanted = windowkit.spark.reference(frame if oracle is None else oracle, query)
        assert same_rows(query.run(frame), wanted, query) > 0

    return check


@pytest.fixture
def read(same_rows):
    """Assert that tasks read the files, and that a query has Spark's rows; return how many."""

    def check(frame, query=QUERY):
        assert route_of(query, frame) == ("scan",), query.explain(frame)
        return same_rows(query.run(frame), windowkit.spark.reference(frame, query), query)

    return check


def test_renamed_columns_and_filters(frame, read):
    assert read(frame) > 0
    above = frame.where("v > 2 and K in (0, 1)").select(sf.col("K").alias("k"), "T", sf.col("V").alias("x.y"))
    query = wk.query(by="k", time="T", windows=wk.session("3 seconds"), aggs=[wk.sum("x.y"), wk.count()])
    assert read(above.where("`x.y` < 10"), query) > 0
    text = query.explain(above)
    assert "  columns: k, t, v" in text
    assert "  filter: " in text
    assert "row groups: 6 in 2 files, of which statistics rule out 0" in text
    # What the query does not read may be anything.
    beside = above.withColumn("more", sf.col("`x.y`") + 1)
    assert read(beside, query) > 0
    same_column = frame.select("k", sf.col("k").alias("again"), "t", "v")
    twice = wk.query(by=["k", "again"], time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
    assert read(same_column, twice) > 0


def test_statistics_rule_row_groups_out(frame, read):
    above = frame.where("t >= '1970-01-01 01:00:45'")
    assert read(above) > 0
    assert "row groups: 6 in 2 files, of which statistics rule out 4" in QUERY.explain(above)


@pytest.mark.parametrize(
    "above",
    [
        lambda df: df.repartition(2),
        lambda df: df.repartition(2, "k", "v"),
        lambda df: df.repartitionByRange(2, "t"),
        lambda df: df.where("v > 1").orderBy("t", sf.desc("v")).select("k", "t", "v").coalesce(1),
        lambda df: df.sortWithinPartitions("v").hint("rebalance"),
    ],
)
def test_the_order_and_place_of_rows_do_not_matter(frame, read, above):
    assert read(above(frame)) > 0


@pytest.mark.parametrize(
    ("pattern", "ruled_out"),
    # A row group for each text, of which one is null.
    [("a%", 8), ("%a%", 1), ("%b", 1), ("é%", 10), ("\x7f%", 10), ("\U0010ffff%", 11), ("", 11)],
)
def test_texts_that_are_like_a_pattern(spark, tmp_path, read, pattern, ruled_out):
    texts = ["", "a", "a\nb", "ab", "a%b", "b", "é", "éa", "\x7f", "\x7fb", "\U0010ffff", None]
    table = rows(3 * len(texts)).append_column("text", pa.array([text for text in texts for _ in range(3)]))
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=3)
    frame = spark.read.parquet(str(tmp_path))
    query = wk.query(by="text", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
    chosen = frame.where(f"text like '{pattern}'")
    assert read(chosen, query) > 0
    assert f"of which statistics rule out {ruled_out}" in query.explain(chosen)
    assert read(frame.where(f"text not like '{pattern}'"), query) > 0


def test_columns_whose_paths_are_one(spark, tmp_path, read):
    """A column a.b, and the field b of a column a: statistics of one say nothing of the other."""
    table = rows(**{"a.b": list(range(30)), "a": [{"b": 1000 - number} for number in range(30)]})
    for at, columns in enumerate((table.column_names, table.column_names[::-1])):
        pq.write_table(table.select(columns), tmp_path / f"{at}.parquet", row_group_size=10)
    frame = spark.read.parquet(str(tmp_path))
    # Spark's own reader mistakes them, too.
    spark.conf.set("spark.sql.parquet.filterPushdown", "false")
    try:
        for where in ("`a.b` < 3", "`a.b` = 17 or v > 7", "`a.b` is not null"):
            assert read(frame.where(where)) > 0
    finally:
        spark.conf.unset("spark.sql.parquet.filterPushdown")


ODD = pa.array([b"a\xc3", b"\xffok", b"ok", b"", None] * 6, pa.binary())


@pytest.mark.parametrize(
    "text",
    [ODD, ODD.view(pa.string()), ODD.cast(pa.large_binary()), ODD.dictionary_encode()],
    ids=lambda text: str(text.type),
)
def test_texts_that_are_not_utf8(spark, tmp_path, read, text):
    pq.write_table(rows(text=text), tmp_path / "f.parquet", row_group_size=7)
    frame = spark.read.schema("k bigint, t timestamp, v double, text string").parquet(str(tmp_path))
    query = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count("text"))
    assert read(frame, query) > 0
    for where in ("text = 'ok'", "text > 'b'", "text like '%k' or text like 'a%'", "text not in ('ok', '')"):
        assert read(frame.where(where), query) > 0


def test_texts_of_a_fixed_length_and_patterns_of_characters(spark, tmp_path, left):
    table = rows(text=pa.array([b"abc"] * 30, pa.binary(3)), s=ODD.view(pa.string()))
    pq.write_table(table, tmp_path / "f.parquet")
    schema = "k bigint, t timestamp, v double, text {}, s string"
    as_text = spark.read.schema(schema.format("string")).parquet(str(tmp_path))
    texts = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.max("text"))
    assert route_of(texts, as_text)[1].startswith("column 'text' is fixed_size_binary[3] in ")
    frame = spark.read.schema(schema.format("binary")).parquet(str(tmp_path))
    for pattern in ("a_", "%o_", "a%_"):
        left(frame.where(f"s like '{pattern}'"), "a filter is evaluated by Spark alone, s LIKE")


@pytest.mark.parametrize(
    ("stored", "wider"),
    [(pa.int8(), "short"), (pa.int16(), "bigint"), (pa.int32(), "bigint"), (pa.float32(), "double")],
    ids=str,
)
def test_numbers_in_wider_types(spark, tmp_path, read, left, stored, wider):
    """As the keys of a join have to have them."""
    values = pa.array([None, *range(-10, 19)], stored)
    pq.write_table(rows(v=values), tmp_path / "f.parquet", row_group_size=5)
    cast = spark.read.parquet(str(tmp_path)).selectExpr("k", "t", f"cast(v as {wider}) v", "v as w")
    both = wk.query(
        by=["v", "w"], time="t", windows=wk.tumbling("10 seconds"), aggs=[wk.sum("v"), wk.max("w")]
    )
    assert read(cast, both) == 30
    assert read(cast.where("v > 5.5 and v != 7 and v < 100000"), both) == 12
    text = wk.query(by="v", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
    left(cast.selectExpr("t", "cast(w as string) v"), "a column is computed, CAST(v AS STRING)", text)


def test_fractions_of_32_bits(spark, tmp_path, read):
    pq.write_table(rows(30, v=pa.array([0.1, 1.1, None] * 10, pa.float32())), tmp_path / "f.parquet")
    frame = spark.read.parquet(str(tmp_path))
    counted = wk.query(by="v", time="t", windows=wk.tumbling("1 second"), aggs=wk.count())
    tests = {
        "v = 0.1F": 10,
        "v in (0.1F, 2F)": 10,
        "v > 0.1F": 10,
        "v <= 1.1F": 20,
        "v != 1.1F": 10,
        "v > 0.1D": 20,
    }
    for test, left in tests.items():
        assert read(frame.where(test), counted) == left, test
    assert (
        read(frame.selectExpr("k", "t", "cast(v as double) v").where("v = cast(0.1F as double)"), counted)
        == 10
    )


def test_rows_that_lack_values(spark, tmp_path, read):
    pq.write_table(
        rows(4, v=[1.0, float("nan"), None, None], w=pa.array([None, 1, 1, None])), tmp_path / "f.parquet"
    )
    frame = spark.read.parquet(str(tmp_path))
    counted = wk.query(by=["k", "v"], time="t", windows=wk.tumbling("1 second"), aggs=wk.count())
    assert read(frame.dropna(subset=["v", "w"]), counted) == 0
    assert read(frame.dropna(subset=["v"]), counted) == 1
    assert read(frame.dropna("all", subset=["v", "w"]), counted) == 3
    assert read(frame.where("not isnan(v)"), counted) == 3


def test_directories_are_ruled_out_by_spark(spark, tmp_path, read, left):
    for day in range(1, 5):
        (tmp_path / f"day=2024-05-0{day}").mkdir()
        pq.write_table(rows(first=30 * day), tmp_path / f"day=2024-05-0{day}" / "f.parquet")
    table = spark.read.parquet(str(tmp_path))
    by_day = wk.query(by="day", time="t", windows=wk.tumbling("20 seconds"), aggs=wk.sum("v"))
    assert read(table, by_day) > 0
    chosen = table.where("day > '2024-05-02' and k = 1")
    assert read(chosen, by_day) > 0
    text = by_day.explain(chosen)
    assert "read 2 files of" in text
    assert "directories: those in which (day IS NOT NULL) and (day > DATE '2024-05-02')" in text
    assert read(table.where("year(day) = 2024 and (k = 1 or day = '2024-05-03')"), by_day) > 0
    table.createOrReplaceTempView("days")
    newest = spark.sql("select * from days where day = (select max(day) from days)")
    left(newest, "files are ruled out by a subquery", by_day)


@pytest.mark.parametrize(
    ("above", "reason"),
    [
        (lambda df: df.where("cast(k as string) like '1%'"), "a filter is evaluated by Spark alone, "),
        (lambda df: df.limit(20), "Spark's plan has CollectLimit above the files"),
        (lambda df: df.sample(1.0, 3), "Spark's plan has Sample above the files"),
        (lambda df: df.union(df), "rows are not read from one table of files"),
        (lambda df: df.join(df.select("v"), "v"), "rows are not read from one table of files"),
        (lambda df: df.repartition(2, df.k + 1), "Spark's plan has Exchange above the files"),
        (lambda df: df.orderBy(-df.k), "Spark's plan has Sort above the files"),
        (lambda df: df.withColumn("k", df.k + 1), "a column is computed, (k + 1L)"),
        (lambda df: df.withColumn("k", df.pair.x), "a column is computed, pair.`x`"),
        (lambda df: df.withColumn("k", sf.col("_metadata.file_size")), "a column is computed, _metadata."),
        (lambda df: df.where("k % 2 = 1"), "a filter is evaluated by Spark alone, ((k % 2L) = 1L)"),
        (lambda df: df.where("pair.x > 3"), "a filter is evaluated by Spark alone, (pair.`x` IS NOT NULL)"),
        (lambda df: df.where("k < v"), "a filter is evaluated by Spark alone, (CAST(k AS DOUBLE) < v)"),
        (lambda df: df.where("rand(1) < 0.7"), "a filter is evaluated by Spark alone, (rand(1)"),
        (
            lambda df: df.where(" or ".join(f"(k < {at} and v > {at})" for at in range(200))),
            "a filter has more than 256 parts",
        ),
        (
            lambda df: df.where("v >= (select min(id) from range(3))"),
            "a filter is evaluated by Spark alone, ",
        ),
        (
            lambda df: df.where(f"v in ({', '.join(map(str, range(5000)))})"),
            "a filter has more than 256 parts",
        ),
        (lambda df: df.where(" and ".join(f"v != {at}" for at in range(100, 500))), "more than 256 parts"),
        (
            lambda df: df.where("t < timestamp_micros(9000000000000000000)"),
            "compares with a time before the year 1",
        ),
        (lambda df: df.where("cast(t as string) > ''"), "a filter is evaluated by Spark alone, "),
        (lambda df: df.distinct(), "Spark's plan has HashAggregate above the files"),
    ],
)
def test_what_spark_does_above_the_files(frame, above, reason):
    route, why = route_of(QUERY, above(frame))
    assert route != "scan"
    assert reason in why


def test_cached_rows(frame, left):
    cached = frame.where("v > 1").cache()
    try:
        left(cached, "rows are cached")
        left(cached.where("k = 1"), "rows are cached")
    finally:
        cached.unpersist()


def test_other_sources(spark, folder, frame, left, tmp_path):
    left(spark.createDataFrame(rows()), "rows are not read from one table of files")
    frame.drop("pair").write.orc(str(tmp_path / "orc"))
    left(spark.read.orc(str(tmp_path / "orc")), "files are read as OrcFileFormat, not as Parquet")


def test_sources_of_version_2(spark, folder, left, settings):
    with settings({"spark.sql.sources.useV1SourceList": ""}):
        left(spark.read.parquet(str(folder)), "rows are read by ParquetScan")


def test_bucketed_tables(spark, frame, left):
    try:
        frame.write.bucketBy(2, "k").saveAsTable("bucketed_rows")
        left(spark.table("bucketed_rows"), "the table is bucketed")
    finally:
        spark.sql("drop table if exists bucketed_rows")


def test_partitions_that_the_catalog_knows(spark, frame, read):
    by_text = wk.query(by=["v", "k"], time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
    try:
        frame.withColumn("k", sf.when(sf.col("k") > 0, sf.concat(sf.lit("a b/"), "k"))).write.partitionBy(
            "k"
        ).saveAsTable("partitioned_rows")
        table = spark.table("partitioned_rows")
        assert read(table, by_text) == 60
        assert read(table.where("k = 'a b/1' or (k is null and v > 3)"), by_text) == 35
        assert "read 2 files of" in by_text.explain(table.where("k = 'a b/1'"))
    finally:
        spark.sql("drop table if exists partitioned_rows")


def test_columns_with_defaults_and_lengths(spark, folder, left, read, tmp_path):
    try:
        spark.sql(
            f"create table with_defaults (k bigint, t timestamp, v double) using parquet options "
            f"(path '{folder}')"
        )
        assert read(spark.table("with_defaults")) > 0
        spark.sql("alter table with_defaults add column (more int default 7)")
        assert read(spark.table("with_defaults")) > 0
        by_more = wk.query(by="more", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
        left(spark.table("with_defaults"), "column 'more' has a default in files without it", by_more)
        spark.sql("create table with_lengths (k varchar(3), t timestamp, v double) using parquet")
        spark.sql("insert into with_lengths values ('a', timestamp'2024-05-01', 1.5)")
        left(spark.table("with_lengths"), "column 'k' is of a type with a length")
    finally:
        spark.sql("drop table if exists with_defaults")
        spark.sql("drop table if exists with_lengths")


@pytest.mark.parametrize(
    ("option", "value"),
    [("datetimeRebaseMode", "CORRECTED"), ("ignoreCorruptFiles", "true"), ("parquet.x", "1")],
)
def test_options_of_the_reader(spark, folder, left, option, value):
    left(spark.read.option(option, value).parquet(str(folder)), f"the option {option.lower()} is given")


def test_options_of_writers_are_kept_by_tables_and_change_nothing(spark, frame, read):
    options = {
        "compression": "zstd",
        "partitionOverwriteMode": "dynamic",
        "parquet.bloom.filter.enabled#k": "true",
        "maxRecordsPerFile": 20,
    }
    frame.select("k", "t", "v").write.options(**options).saveAsTable("with_options_of_writers")
    try:
        assert read(spark.table("with_options_of_writers")) > 0
    finally:
        spark.sql("drop table with_options_of_writers")


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_intervals_are_what_is_stored_of_durations(spark, tmp_path, read, left, unit):
    spans = pa.array([number * 1000 for number in range(30)], pa.duration(unit))
    table = rows(span=spans, spans=pa.array([[span] for span in spans], pa.list_(spans.type)))
    pq.write_table(table, tmp_path / "f.parquet")
    schema = "k bigint, t timestamp, span interval day to second, spans array<interval day to second>"
    frame = spark.read.schema(schema).parquet(str(tmp_path))
    window = wk.tumbling("10 seconds")
    assert read(frame, wk.query(by="k", time="t", windows=window, aggs=wk.max("span"))) > 0
    left(
        frame,
        "column 'spans' is list<",
        wk.query(by=["k", "spans"], time="t", windows=window, aggs=wk.count()),
    )


def test_decimals_of_directories_that_spark_takes_for_others(spark, tmp_path, read, left):
    for value in ("1", "2.50"):
        (tmp_path / f"p={value}").mkdir()
        pq.write_table(rows(), tmp_path / f"p={value}" / "f.parquet")
    query = wk.query(by="p", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.count())
    frame = spark.read.schema("k bigint, t timestamp, p decimal(5,2)").parquet(str(tmp_path))
    assert read(frame.where("p > 2"), query) > 0
    left(frame, "a directory says p=1, of another scale than decimal(5,2)", query)


def test_estimates_that_are_beyond_floats(spark):
    """Of rows of Python Spark estimates 2^63 bytes, and of a join the product."""
    frame = spark.createDataFrame([("a", dt.datetime(2024, 1, 1), 1.5)], "k string, t timestamp, v double")
    for number in range(17):
        frame = frame.join(spark.createDataFrame([("a", number)], f"k string, d{number} int"), "k")
    assert route_of(QUERY, frame)[0] == "catalyst-panes"


def test_filters_that_are_never_true(frame):
    never = frame.where("k = null")
    assert "Spark knows from the filters that there are no rows" in route_of(QUERY, never)
    assert QUERY.run(never).collect() == []


def test_options_that_only_list_files(spark, folder, read):
    reader = spark.read.option("pathGlobFilter", "0*").option("recursiveFileLookup", True)
    assert read(reader.option("modifiedAfter", "2000-01-01T00:00:00").parquet(str(folder))) > 0
    assert "read 1 file of" in QUERY.explain(reader.parquet(str(folder)))


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [
        ("spark.windowkit.tables", "False", "spark.windowkit.tables is false"),
        ("spark.sql.files.ignoreMissingFiles", "true", "spark.sql.files.ignoreMissingFiles is true"),
        ("spark.sql.parquet.datetimeRebaseModeInRead", "LEGACY", "datetimeRebaseModeInRead is LEGACY"),
        ("parquet.crypto.factory.class", "x.Y", "parquet.crypto.factory.class is set"),
    ],
)
def test_settings_of_the_session(frame, settings, setting, value, reason):
    with settings({setting: value}):
        route, why = route_of(QUERY, frame)
    assert route != "scan"
    assert reason in why


def test_a_setting_that_is_none(frame, settings):
    with (
        settings({"spark.windowkit.tables": "no"}),
        pytest.raises(wk.InvalidValue, match=r"spark\.windowkit\.tables: 'no'"),
    ):
        QUERY.run(frame)


def test_columns_of_other_cases_types_and_units(spark, folder, left, read):
    schema = "K bigint, t timestamp, v double"
    left(spark.read.schema(schema).parquet(str(folder)), "column 'K' is 'k' in", QUERY)
    assert read(spark.read.schema("k bigint, t timestamp, v double, more int").parquet(str(folder))) > 0
    pq.write_table(rows(v=pa.array(range(30), pa.float32())), folder / "2.parquet")
    assert read(spark.read.parquet(str(folder))) > 0
    pq.write_table(rows(V=pa.array(range(30))), folder / "2.parquet")
    route, why = route_of(QUERY, spark.read.schema("k bigint, t timestamp, v double").parquet(str(folder)))
    assert route == "catalyst-panes"
    assert "column 'v' is 'V', too, in" in why
    (folder / "2.parquet").unlink()
    nanos = rows().set_column(1, "t", rows().column("t").cast(pa.timestamp("ns", "UTC")))
    pq.write_table(nanos, folder / "3.parquet")
    route, why = route_of(QUERY, spark.read.schema("k bigint, t timestamp, v double").parquet(str(folder)))
    assert (route, "column 't' has nanoseconds in" in why) == ("catalyst-panes", True)


def test_texts_that_are_compared_in_another_way(spark, tmp_path, left):
    pq.write_table(rows(text=["a", "B", "b"] * 10), tmp_path / "f.parquet")
    table = spark.read.schema("k bigint, t timestamp, v double, text string collate utf8_lcase")
    left(table.parquet(str(tmp_path)).where("text = 'b'"), "of a column of string collate UTF8_LCASE")


def test_a_damaged_file_is_for_spark_to_report(spark, folder):
    (folder / "2.parquet").write_bytes(b"PAR1 is no Parquet")
    table = spark.read.schema("k bigint, t timestamp, v double").parquet(str(folder))
    _, why = route_of(QUERY, table)
    assert "2.parquet' cannot be read as Parquet" in why
    with pytest.raises((PySparkException, Py4JError), match=r"2\.parquet"):
        QUERY.run(table).collect()


def test_files_that_come_later_are_not_read(frame, folder, same_rows):
    """A DataFrame has the files that there were when it was made."""
    oracle = {tuple(row) for row in windowkit.spark.reference(frame, QUERY).collect()}
    pq.write_table(rows(first=900), folder / "later.parquet")
    result = QUERY.run(frame)
    assert "read 2 files of" in QUERY.explain(frame)
    assert result.count() == len(oracle)


def test_files_that_are_gone_before_planning_and_after(frame, folder):
    result = QUERY.run(frame)
    (folder / "1.parquet").unlink()
    with pytest.raises(PySparkException, match="no longer exists"):
        result.collect()
    route, why = route_of(QUERY, frame)
    assert route == "catalyst-panes"
    assert "that this process cannot see" in why
    with pytest.raises((PySparkException, Py4JError), match="FILE_NOT_EXIST"):
        QUERY.run(frame).collect()


def test_files_that_are_written_anew(frame, folder, left):
    result = QUERY.run(frame)
    pq.write_table(rows(40), folder / "1.parquet")
    with pytest.raises(PySparkException, match="has changed since the scan was created"):
        result.collect()
    assert route_of(QUERY, frame)[1] == "files have changed since Spark listed them"
    # Written before it is planned, but after Spark listed it, of the same size.
    os.utime(folder / "0.parquet", ns=(0, 10**18))
    assert route_of(QUERY, frame)[1] == "files have changed since Spark listed them"


def test_small_tables_are_left_to_catalyst(frame, monkeypatch):
    monkeypatch.undo()
    assert route_of(QUERY, frame) == ("catalyst-panes",)
    told = "with files read by tasks, which pays from about 262,144 rows on; there are about "
    assert f"  scan: possible, {told}" in QUERY.explain(frame)
    assert route_of(QUERY, frame, route="scan") == ("scan",)
    tumbling = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"))
    assert route_of(tumbling, frame) == ("catalyst",)
    with pytest.raises(wk.InvalidValue, match="route: 'scan' cannot evaluate the query, as Spark's plan has"):
        QUERY.run(frame.limit(3), route="scan")


def test_conditions_metrics_expressions_and_partitioners(frame, folder, same_rows):
    where = "k = 1 and window_start >= '1970-01-01 01:00:20'"
    metrics = windowkit.spark.Metrics()
    result = QUERY.run(frame, where=where, metrics=metrics)
    plain = windowkit.spark.aggregate(frame.where("true"), QUERY, "rows").where(where)
    assert same_rows(result, plain, QUERY) > 0
    assert metrics.values() == {
        "rows without a time": 0,
        "rows in": 13,
        "slices": 8,
        "bytes packed": metrics.values()["bytes packed"],
        "windows out": 9,
    }
    text = QUERY.explain(frame, where=where)
    assert "\nroute: scan" in text
    assert "statistics rule out 2" in text
    computed = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum(wk.expr("v * 2")))
    assert "a column is computed" in route_of(computed, frame)[1]
    staged = QUERY.run(frame, partitioner="waterfill", n=2)
    assert same_rows(staged, QUERY.run(frame), QUERY) > 0
    struct = wk.query(
        by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=wk.sum("v"), window_columns="struct"
    )
    assert QUERY.run(frame).schema == QUERY.run(frame, route="rows").schema
    assert struct.run(frame).schema == windowkit.spark.reference(frame, struct).schema


def test_rows_without_a_time_are_counted(spark, tmp_path):
    times = pa.array([None, *range(29)], pa.timestamp("us", "UTC"))
    pq.write_table(rows().set_column(1, "t", times), tmp_path / "f.parquet")
    metrics = windowkit.spark.Metrics()
    QUERY.run(spark.read.parquet(str(tmp_path)), metrics=metrics).collect()
    assert metrics.values()["rows without a time"] == 1


def test_files_on_other_systems_are_read_if_a_setting_says_so(spark, folder, frame, settings, monkeypatch):
    from windowkit.spark.parquet import planned

    monkeypatch.setattr(planned, "LOCAL", "elsewhere:/")
    reason = "files are on file, which tasks read by pyarrow only if spark.windowkit.tables is true"
    assert route_of(QUERY, frame)[1] == reason
    with settings({"spark.windowkit.tables": "true"}):
        assert route_of(QUERY, frame) == ("scan",)


def test_many_files_are_left_to_spark(frame, monkeypatch, left):
    from windowkit.spark.parquet import planned

    monkeypatch.setattr(planned, "MOST_FILES", 1)
    left(frame, "there are more than 1 files, whose footers would be read first")


def test_rolling_aggregates(spark, frame, folder, tmp_path):
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("10 seconds"))
    above = frame.where("v > 1").select(sf.col("K").alias("k"), "t", "v", sf.col("k").alias("again"), "pair")
    assert "2 tasks read 2 files of" in rolling.explain(above)
    frames = Window.partitionBy("k").orderBy(sf.unix_micros("t")).rangeBetween(-10_000_000, 0)
    metrics = windowkit.spark.Metrics()
    found = rolling.run(above, metrics=metrics)
    oracle = above.withColumn("sum(v) OVER (10 seconds)", sf.sum("v").over(frames))
    assert found.schema == oracle.schema
    assert sorted(map(str, found.collect())) == sorted(map(str, oracle.collect()))
    assert metrics.values()["rows in"] == metrics.values()["rows out"] == 55
    for other, reason in (
        (frame.limit(3), "Spark's plan has CollectLimit above the files"),
        (frame.withColumn("more", sf.col("v") + 1), "a column is computed, (v + 1.0D)"),
    ):
        assert f"  not read from files by tasks, as {reason}" in rolling.explain(other)
    assert "  not read from files by tasks, as keys are to be cut" in rolling.explain(frame, split=True)


def test_nested_columns_that_are_not_null(frame, read):
    assert read(frame.where("pair is not null and (v > 3 or pair is null)")) > 0


def test_no_files(spark, tmp_path):
    nothing = spark.read.schema("k bigint, t timestamp, v double").parquet(str(tmp_path))
    assert QUERY.run(nothing, route="scan").count() == 0
    assert "0 tasks read 0 files of 0 bytes" in QUERY.explain(nothing, route="scan")


def test_what_fails_in_the_plan_fails_in_the_action(frame):
    """`run` is lazy: it raises no error of Spark's that an action is to raise."""
    failing = frame.where("v > 1 / cast('0' as int)")
    assert "Spark's plan cannot be read ([DIVIDE_BY_ZERO]" in route_of(QUERY, failing)[1]
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        QUERY.run(failing).collect()


def test_columns_beside_of_types_that_are_not_exchanged(spark, folder, read):
    schema = "k bigint, t timestamp, v double, odd interval year to month, text string collate utf8_lcase"
    assert read(spark.read.schema(schema).parquet(str(folder))) > 0


def test_sql_and_views(spark, folder, frame, read, left):
    frame.createOrReplaceTempView("file_rows")
    assert read(spark.sql("select k, t, v from file_rows where k < 2 and t is not null")) > 0
    assert read(spark.sql(f"select * from parquet.`{folder}` where v between 1 and 3")) > 0
    named = "with a as (select k, t, v from file_rows), b as (select * from a where v > 1)"
    assert read(spark.sql(f"{named} select * from b where k < 2")) > 0
    twice = spark.sql(f"{named} select a.* from a join b on a.k = b.k and a.t = b.t")
    left(twice, "Spark's plan has BroadcastHashJoin above the files")


def test_dates_and_integers_as_times(spark, tmp_path, same_rows):
    days = pa.array([dt.date(2024, 5, 1 + row % 20) for row in range(30)])
    pq.write_table(rows(day=days, n=range(30)), tmp_path / "f.parquet")
    frame = spark.read.parquet(str(tmp_path)).where("day < '2024-05-15'")
    for time, window in (("day", wk.sliding("4 days", "2 days")), ("n", wk.sliding(6, 3))):
        query = wk.query(by="k", time=time, windows=window, aggs=[wk.sum("v"), wk.median("v")])
        assert route_of(query, frame) == ("scan",)
        assert same_rows(query.run(frame), query.run(frame, route="rows"), query) > 0
