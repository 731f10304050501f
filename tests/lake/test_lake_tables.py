"""DataFrames of Delta and Iceberg tables: tasks read the files of the snapshot, or `explain` says why not."""

from __future__ import annotations

from shutil import copyfile

import pytest
from pyspark.sql import functions as sf

import windowkit as wk
from support.lake import EVERY, READ, TABLES, by_spark, counted

BOTH = pytest.mark.parametrize("kind", ["delta", "iceberg"])
COLUMNS = "k bigint, t timestamp, v double, p string, s int"
OPTIONS = {
    "delta": {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"},
    "iceberg": {
        "format-version": "2",
        **dict.fromkeys((f"write.{what}.mode" for what in ("delete", "update", "merge")), "merge-on-read"),
    },
}
QUERY = wk.query(by="k", time="t", windows=wk.sliding("10 seconds", "5 seconds"), aggs=wk.sum("v"))


def rows(first, last):
    """Return a query of rows, of which each p has one file."""
    return (
        "select /*+ coalesce(1) */ id % 5 k, timestamp_seconds(id) t, id / 4.0D v, concat('p', id % 3) p, "
        f"int(id) s from range({first}, {last})"
    )


@pytest.fixture
def made(spark, table):
    """Return the name of a table of 120 rows in two commits."""

    def make(kind, *, by="p", options=None, columns=COLUMNS):
        name = table(kind)
        given = ", ".join(
            f"'{key}' = '{value}'" for key, value in (OPTIONS[kind] if options is None else options).items()
        )
        partitioned = f"partitioned by ({by})" if by else ""
        properties = f"tblproperties ({given})" if given else ""
        spark.sql(f"create table {name} ({columns}) using {kind} {partitioned} {properties}")
        spark.sql(f"insert into {name} {rows(0, 60)}")
        spark.sql(f"insert into {name} {rows(60, 120)}")
        return name

    return make


@BOTH
@pytest.mark.parametrize("options", [None, {}])
def test_appended_files(spark, kind, made, read, answers, options):
    name = made(kind, options=options)
    text = read(spark.table(name), 120)
    assert "read 6 files of" in text
    assert ("table: Delta[version=2, " if kind == "delta" else "table: IcebergScan(table=ice.") in text
    chosen = spark.table(name).where("p = 'p1' and v > 3").select("k", "t", sf.col("v").alias("w"))
    assert "read 2 files of" in read(chosen, 36)
    assert answers(spark.table(name), QUERY) == 125
    assert answers(spark.table(name).where("k in (1, 2) and p is not null and s is not null"), QUERY) == 50


@BOTH
def test_statistics_rule_files_and_row_groups_out(spark, kind, made, read):
    name = made(kind, by=None)
    text = read(spark.table(name).where("t < '1970-01-01 01:00:30'"), 30)
    assert "read 1 file of" in text
    assert "filter: " in text


@BOTH
def test_deleted_rows(spark, kind, made, read, answers):
    name = made(kind)
    spark.sql(f"delete from {name} where k = 3 and v > 5")
    text = read(spark.table(name), 100)
    assert "20 rows of 6 files are deleted, and left out" in text
    assert answers(spark.table(name).where("v > 8"), QUERY) > 0
    spark.sql(f"update {name} set v = v + 1000, p = 'p1' where k = 2")
    spark.sql(f"delete from {name} where v between 1004 and 1007")
    spark.sql(
        f"merge into {name} a using (select 4L k, 1.0D less) b on a.k = b.k "
        "when matched and a.v < 9 then delete when matched then update set v = a.v - less"
    )
    assert "are deleted, and left out" in read(spark.table(name))
    read(spark.table(name).where("p = 'p1' and v > 1000"))
    assert answers(spark.table(name), QUERY) > 0


@pytest.mark.parametrize("where", ["true", "v > 8 and p != 'p1'"])
def test_planning_starts_the_jobs_by_which_delta_finds_files_and_no_more(spark, made, where):
    name = made("delta")
    spark.sql(f"delete from {name} where k = 3")

    def jobs():
        context = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        return context.statusStore().jobsList(None).size()

    def started(call):
        before = jobs()
        call(spark.table(name).where(where))
        return jobs() - before

    def plan(df):
        df._jdf.queryExecution().sparkPlan()

    started(plan)  # Delta reads the log first.
    own = started(plan)
    assert started(lambda df: QUERY.run(df, route="scan")) == own > 0


@BOTH
def test_deleted_rows_of_many_row_groups(spark, kind, made, read, answers):
    options = {"iceberg": {"write.parquet.row-group-size-bytes": "100000"}, "delta": {}}
    name = made(kind, by=None, options=OPTIONS[kind] | options[kind])
    spark.sparkContext._jsc.hadoopConfiguration().set("parquet.block.size", "100000")
    try:
        spark.sql(f"insert into {name} {rows(120, 30_000)}")
    finally:
        spark.sparkContext._jsc.hadoopConfiguration().unset("parquet.block.size")
    spark.sql(f"delete from {name} where (int(v * 4) % 7 = 0 and v > 1) or s between 8000 and 9000")
    minutes = wk.query(by="k", time="t", windows=wk.tumbling("1 minute"), aggs=[wk.sum("v"), wk.count()])
    text = str(minutes.explain(spark.table(name)))
    assert "rows of 3 files are deleted, and left out" in text
    (groups,) = [line for line in text.splitlines() if "row groups: " in line]
    assert int(groups.split()[2]) > 6
    assert answers(spark.table(name), minutes) > 1_000
    late = spark.table(name).where("t > timestamp_seconds(20000) and k != 2")
    assert "statistics rule out" in minutes.explain(late)
    assert answers(late, minutes) > 500
    counts = spark.table(name).groupBy().count().collect()[0][0]
    assert minutes.run(spark.table(name)).agg(sf.sum("count(1)")).collect()[0][0] == counts


@BOTH
def test_renamed_added_and_dropped_columns(spark, kind, made, read, answers):
    name = made(kind)
    spark.sql(f"alter table {name} add column (w double, n int)")
    spark.sql(f"insert into {name} select k, t, v, p, s, -v, 7 from {name} where k = 1")
    for old, new in (("v", "x"), ("w", "v"), ("x", "w"), ("p", "q")):
        spark.sql(f"alter table {name} rename column {old} to {new}")
    read(spark.table(name), 144)
    read(spark.table(name).where("w > 3 and v is null"))
    read(spark.table(name).where("v < 0 and q = 'p1' or n = 7"))
    assert answers(spark.table(name), QUERY) > 0
    spark.sql(f"alter table {name} drop column w")
    spark.sql(f"alter table {name} add column w double")
    spark.sql(f"insert into {name} select /*+ coalesce(1) */ k, t, q, s, v, n, 1.5D from {name} where k = 4")
    read(spark.table(name), 168)
    assert sum(row["w"] == 1.5 for row in EVERY.run(spark.table(name)).collect()) == 24


@BOTH
def test_columns_within_columns(spark, kind, table, read, left):
    name = table(kind)
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS[kind].items())
    columns = "k bigint, t timestamp, s struct<x: int, y: array<string>>, m map<string, int>"
    spark.sql(f"create table {name} ({columns}) using {kind} tblproperties ({properties})")
    values = "id % 5, timestamp_seconds(id), named_struct('x', int(id), 'y', array('a', null)), map('b', 1)"
    spark.sql(f"insert into {name} select {values} from range(60)")
    if kind == "iceberg":
        assert "columns: k, t, s, m" in read(spark.table(name), 60)
    else:
        left(spark.table(name), "column 's' has fields that may be renamed")
    spark.sql(f"alter table {name} rename column s.x to z")
    left(spark.table(name), "column 's' has ")
    read(spark.table(name).drop("s"), 60)
    left(spark.table(name).selectExpr("k", "t", "s.y"), "a column is computed, ")


@BOTH
def test_earlier_snapshots(spark, kind, made, read, answers):
    name = made(kind)
    log = f"describe history {name}" if kind == "delta" else f"select * from {name}.snapshots"
    versions = [row["version" if kind == "delta" else "snapshot_id"] for row in spark.sql(log).collect()]
    second = max(versions) if kind == "delta" else versions[-1]
    spark.sql(f"alter table {name} rename column v to w")
    spark.sql(f"delete from {name} where k = 1")
    spark.sql(f"alter table {name} rename column p to v")
    assert "20 rows" not in read(spark.table(name), 96)
    assert "are deleted" not in read(spark.sql(f"select * from {name} version as of {second}"), 120)
    first = 1 if kind == "delta" else versions[0]
    text = read(spark.sql(f"select k, t, v from {name} version as of {first}"), 60)
    assert ("version=1" if kind == "delta" else f"snapshotId={first}") in text
    assert answers(spark.sql(f"select * from {name} version as of {first}").where("v > 3"), QUERY) > 0
    if kind == "delta":
        path = spark.sql(f"describe detail {name}").collect()[0]["location"]
        read(spark.read.format("delta").option("versionAsOf", first).load(path), 60)
        read(spark.sql(f"select * from delta.`{path}`"), 96)
    else:
        spark.sql(f"alter table {name} create branch own as of version {first}")
        read(spark.sql(f"select * from {name} version as of 'own'"), 60)


@BOTH
def test_a_result_has_the_snapshot_of_its_plan(spark, kind, made):
    name = made(kind)
    result = EVERY.run(spark.table(name))
    spark.sql(f"delete from {name} where k = 1")
    assert result.count() == 120
    assert EVERY.run(spark.table(name)).count() == 96


@BOTH
def test_views_and_sql(spark, kind, made, read):
    name = made(kind)
    spark.table(name).where("k < 3").createOrReplaceTempView("some_rows")
    read(spark.sql("select p as q, t, k, v from some_rows where v > 2 and v is not null"))


@BOTH
def test_what_is_left_to_spark(spark, kind, made, left, monkeypatch):
    name = made(kind)
    plain = spark.table(name)
    left(plain.where("k % 2 = 0"), "% 2L) = 0L)")
    left(plain.orderBy(*plain.columns).limit(7), "above the files")
    left(plain.union(plain), "rows are not read from one table of files")
    spark.conf.set(TABLES, "false")
    try:
        assert "as spark.windowkit.tables is false" in EVERY.explain(plain)
    finally:
        spark.conf.unset(TABLES)
    from windowkit.spark.parquet import planned

    spark.sql(f"delete from {name} where k = 1")
    monkeypatch.setattr(planned, "MOST_DELETED", 3)
    left(plain, "more than 3 rows are deleted")


def test_changes_of_delta_tables(spark, made, left):
    name = made("delta", options={"delta.enableChangeDataFeed": "true"})
    changes = spark.sql(f"select k, t, v, _change_type from table_changes('{name}', 1)")
    left(changes, "rows are read by CDCReader$DeltaCDFRelation")
    left(spark.table(name).select("k", "t", sf.col("_metadata.file_path")), "_metadata.`file_path`")


def test_delta_columns_by_numbers(spark, made, read):
    name = made("delta", options={"delta.columnMapping.mode": "id"})
    spark.sql(f"alter table {name} rename column v to w")
    read(spark.table(name).where("w > 1"))


def test_delta_types_that_are_widened(spark, made, read, left):
    name = made(
        "delta", columns=COLUMNS.replace("k bigint", "k int"), options={"delta.enableTypeWidening": "true"}
    )
    spark.sql(f"alter table {name} alter column k type bigint")
    spark.sql(f"insert into {name} {rows(200, 230)}")
    read(spark.table(name), 150)


def test_columns_of_iceberg_that_are_read_otherwise(spark, made, read, left):
    name = made("iceberg", options=OPTIONS["iceberg"] | {"format-version": "3"})
    spark.sql(f"delete from {name} where k = 3")
    assert "24 rows of 6 files are deleted" in read(spark.table(name), 96)
    left(spark.sql(f"select k, t, _file from {name}"), "column '_file' is not one of the files")
    parts = spark.sql(f"select spec_id k, cast(null as timestamp) t, record_count from {name}.files")
    left(parts, "a column is computed")


@pytest.mark.parametrize("form", ["orc", "avro"])
def test_iceberg_files_of_other_formats(spark, made, left, form):
    name = made("iceberg", options={"write.format.default": form})
    left(spark.table(name), f"a file is in the format {form.upper()}")


def test_iceberg_files_without_numbers(spark, made, left, tmp_path):
    name = made("iceberg", by=None)
    spark.sql(rows(120, 150)).write.parquet(str(tmp_path / "own"))
    spark.sql(f"call ice.system.add_files('{name.removeprefix('ice.')}', '`parquet`.`{tmp_path / 'own'}`')")
    left(spark.table(name), "column 'k' is known by a number, and columns have none in")


def test_iceberg_files_of_others_without_the_column_of_partitions(spark, table, left, tmp_path):
    """Such as those of another table of Iceberg, which have numbers; the table knows the values."""
    columns = "k bigint, t timestamp, v double"
    own, name = table("iceberg"), table("iceberg")
    spark.sql(f"create table {own} ({columns}) using iceberg")
    spark.sql(
        f"insert into {own} select /*+ coalesce(1) */ id % 5, timestamp_seconds(id), id / 4D from range(60)"
    )
    (file,) = [row.file_path for row in spark.sql(f"select file_path from {own}.files").collect()]
    for value in "xy":
        (tmp_path / f"p={value}").mkdir()
        copyfile(file.removeprefix("file:"), tmp_path / f"p={value}" / f"{value}.parquet")
    spark.sql(f"create table {name} ({columns}, p string) using iceberg partitioned by (p)")
    spark.sql(f"call ice.system.add_files('{name.removeprefix('ice.')}', '`parquet`.`{tmp_path}`')")
    left(spark.table(name), "column 'p' is that of partitions, and missing in")
    left(spark.table(name).where("p = 'x' or v > 10"), "column 'p' is that of partitions, and missing in")


def test_iceberg_types_and_partitions_that_evolve(spark, made, read):
    name = made("iceberg", columns=COLUMNS.replace("k bigint", "k int"), by="bucket(4, k), hours(t)")
    spark.sql(f"alter table {name} alter column k type bigint")
    spark.sql(f"alter table {name} add partition field p")
    spark.sql(f"insert into {name} {rows(200, 230)}")
    read(spark.table(name), 150)
    read(spark.table(name).where("k = 3 and p = 'p1'"))


def test_rows_that_iceberg_deletes_by_their_values(spark, made, read, left):
    name = made("iceberg", by=None, columns=COLUMNS.replace("k bigint", "k int"))
    jvm = spark._jvm
    ice = jvm.org.apache.iceberg
    table = ice.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, name)
    where = table.schema().select([("k")])
    numbers = spark.sparkContext._gateway.new_array(jvm.int, 1)
    numbers[0] = table.schema().findField("k").fieldId()
    files = ice.io.OutputFileFactory.builderFor(table, 1, 1).build()
    by_values = getattr(ice.data, "GenericFileWriterFactory$Builder")(table)
    makes = by_values.equalityFieldIds(numbers).equalityDeleteRowSchema(where).build()
    writer = makes.newEqualityDeleteWriter(files.newOutputFile(), table.spec(), None)
    row = ice.data.GenericRecord.create(where)
    row.setField("k", 3)
    writer.write(row)
    writer.close()
    table.newRowDelta().addDeletes(writer.toDeleteFile()).commit()
    spark.sql(f"refresh table {name}")
    left(spark.table(name), "rows are deleted by their values")
    assert EVERY.run(spark.table(name)).count() == 96


@BOTH
def test_tables_are_scanned_by_their_names_and_paths(spark, kind, made):
    name = made(kind)
    spark.sql(f"delete from {name} where k = 1")
    names = [name]
    if kind == "delta":
        location = spark.sql(f"describe detail {name}").collect()[0]["location"]
        names += [name.upper(), f"delta.`{location}`", f"DELTA.`{location.removeprefix('file:')}`"]
    else:
        names.append(f"{name}.branch_main")
    spark.table(name).createOrReplaceTempView("some_rows")
    for given in [*names, "some_rows"]:
        frame = spark.table(given)
        assert f"stage 1, {READ}" in wk.spark.explain_scan(spark, given, EVERY)
        wanted = by_spark(spark, lambda: EVERY.run(frame))  # noqa: B023  # Called here.
        assert counted(wk.spark.scan(spark, given, EVERY)) == wanted
        assert "\nroute: scan" in wk.spark.explain_scan(spark, given, QUERY)
        filters = {"filter": [("k", ">", 1)], "where": "`sum(v)` > 3"}
        chosen = frame.where("k > 1")
        wanted = by_spark(spark, lambda: QUERY.run(chosen, where="`sum(v)` > 3"))  # noqa: B023
        assert len(wanted) > 0
        assert counted(wk.spark.scan(spark, given, QUERY, **filters)) == wanted


def test_joins_labels_duplicates_and_rolling_aggregates(spark, made):
    names = [made(kind) for kind in ("delta", "iceberg")]
    for name in names:
        spark.sql(f"delete from {name} where k = 1")
    one, other = (spark.table(name) for name in names)
    join = wk.join(by="k", left_time="t", right_time="t", within="7 seconds")
    features = wk.rolling(by="k", time="t", aggs=[wk.sum("v").over("9 seconds").alias("recent")])
    firsts = wk.distinct("k", time="t", within="12 seconds")
    text = str(join.explain(one, other))
    assert f"stage 1 of the left side, {READ}" in text
    assert f"stage 1 of the right side, {READ}" in text
    assert str(wk.spark.explain_as_of(one.select("k", "t", "p"), other, features)).count(READ) >= 2
    assert f"stage 1, {READ}" in firsts.explain(one)
    for made_by in (
        lambda: join.run(one, other),
        lambda: features.at(one.select("k", "t", "p"), other),
        lambda: firsts.run(one),
        lambda: features.run(other),
    ):
        found = counted(made_by())
        assert sum(found.values()) > 0
        assert found == by_spark(spark, made_by)
