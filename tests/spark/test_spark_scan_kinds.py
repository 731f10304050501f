"""`scan` has the types that Spark has: by its own schema in the footer, and by settings of the session."""

from __future__ import annotations

import datetime as dt
import json
import shutil

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException

import windowkit as wk
import windowkit.spark

SLIDING = wk.sliding("10 seconds", "4 seconds")
SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
WRITTEN = {
    "ts": "timestamp_seconds(id)",
    "iv": "if(id % 5 = 3, null, make_dt_interval(0, 0, 0, id - 4))",
    "k": "(case when id % 2 = 0 then 'a' else 'A' end) collate UTF8_LCASE",
    "ntz": "timestamp_ntz'2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id)",
    "ym": "make_ym_interval(0, int(id))",
    "hm": "cast(make_dt_interval(0, 0, id) as interval hour to minute)",
    "texts": "array('x' collate UTF8_LCASE)",
    "map": "map('y', 'x' collate UNICODE)",
    "pair": "named_struct('q', 'b' collate UTF8_LCASE, 'i', id)",
    "nested": "named_struct('i', make_dt_interval(0, 0, 0, id % 3), 'l', array(timestamp_ntz'2024-01-01'))",
    "v": "parse_json('1')",
    "c": "cast('x' as char(3))",
    "n": "id % 3",
}


@pytest.fixture(scope="module")
def written(spark, tmp_path_factory):
    """A file of Spark's, of types of which Parquet itself does not know."""
    made = tmp_path_factory.mktemp("kinds") / "written"
    spark.range(20).selectExpr(*(f"{sql} as {name}" for name, sql in WRITTEN.items())).coalesce(
        1
    ).write.parquet(str(made))
    return made


@pytest.fixture
def check(spark, same_rows):
    """Assert that a scan has the schema and rows of `query.run`, and the rows of Spark's own functions."""

    def scanned(path, query, *, chosen=None, where="true"):
        frame = spark.read.parquet(str(path)).where(where)
        result = windowkit.spark.scan(spark, str(path), query, filter=chosen)
        run = query.run(frame)
        assert result.schema == run.schema
        assert same_rows(result, run, query)
        return same_rows(result, windowkit.spark.reference(frame, query), query)

    return scanned


def query(**changed):
    return wk.query(**{"by": [], "time": "ts", "windows": SLIDING, "aggs": wk.count(), **changed})


def only(folder):
    (found,) = folder.glob("*.parquet")
    return found


def test_intervals(spark, written, check):
    aggs = [wk.max("iv"), wk.min("iv"), wk.count("iv"), wk.count_distinct("iv")]
    check(written, query(by="n", aggs=aggs))
    check(written, query(by="iv"))
    check(written, query(by="nested", aggs=wk.count()))
    chosen = ds.field("iv") >= pa.scalar(dt.timedelta(seconds=3))
    check(written, query(aggs=wk.max("iv")), chosen=chosen, where="iv >= interval '3' second")
    found = windowkit.spark.scan(spark, str(written), query(aggs=wk.sum("iv")))
    assert found.schema == query(aggs=wk.sum("iv")).run(spark.read.parquet(str(written))).schema


def test_durations_of_others_stay_integers(tmp_path, check):
    for unit in ("ns", "us", "s"):
        times = pa.array([1, 2, None], pa.timestamp("us", "UTC"))
        rows = pa.table({"ts": times, "d": pa.array([3, None, -4], pa.duration(unit))})
        pq.write_table(rows, tmp_path / f"{unit}.parquet")
        check(tmp_path / f"{unit}.parquet", query(by="d", aggs=wk.sum("d")))


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("k", "string collate UTF8_LCASE"),
        ("texts", "string collate UTF8_LCASE"),
        ("map", "string collate UNICODE"),
        ("pair", "string collate UTF8_LCASE"),
        ("ym", "interval year to month"),
        ("hm", "interval hour to minute"),
        ("v", "variant"),
    ],
)
def test_types_that_are_refused(spark, written, column, text):
    """`query.run` refuses them in the same words, as both go by the type that Spark says."""
    path = str(written)
    requested = query(aggs=wk.count(column))
    said = rf"column '{column}' has type {text}, which Spark does not exchange with Arrow .* cast it first"
    with pytest.raises(wk.InvalidType, match=said):
        requested.run(spark.read.parquet(path))
    with pytest.raises(wk.InvalidType, match=said):
        windowkit.spark.scan(spark, path, requested)
    for chosen in ([(column, "=", "a")], ds.field(column).is_valid()):
        with pytest.raises(wk.InvalidType, match=f"filter: {said}"):
            windowkit.spark.scan(spark, path, query(), filter=chosen)


def test_other_columns_of_such_files_are_read(written, check):
    check(
        written,
        query(by=["c", "n"], aggs=[wk.max("ntz"), wk.last("c")]),
        chosen=[("n", "<", 2)],
        where="n < 2",
    )
    check(written, query(by="n", time="ntz", aggs=wk.count("ntz")))


def with_schema(path, table, fields):
    """Write a table with what Spark would take for its schema."""
    said = fields if isinstance(fields, bytes) else json.dumps({"type": "struct", "fields": fields}).encode()
    pq.write_table(table.replace_schema_metadata({SCHEMA: said}), path)


def field(name, kind, **metadata):
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def test_the_schema_of_the_footer_is_the_tables(spark, tmp_path, check):
    """Files that pyarrow read and wrote keep it, with whatever was changed meanwhile."""
    rows = pa.table(
        {
            "ts": pa.array([10**6, 2 * 10**6, 7 * 10**6], pa.timestamp("us", "UTC")),
            "n": pa.array([1, 2, None], pa.int32()),
            "more": [1, 2, 3],
            "s": ["a", "b", "c"],
            "bytes": [b"a", b"b", b"c"],
        }
    )
    path = tmp_path / "f.parquet"
    with_schema(
        path,
        rows,
        [
            field("ts", "timestamp"),
            field("n", "long"),
            field("gone", "interval day to second"),
            field("s", "string"),
            field("bytes", "date"),
        ],
    )
    check(path, query(by="n", aggs=[wk.sum("n"), wk.max("gone")]))
    with pytest.raises(wk.UnknownColumn, match="there are ts, n, gone, s, bytes"):
        windowkit.spark.scan(spark, str(path), query(by="more"))
    # What is binary by the file and a date by its schema is left to Spark, which refuses it when it reads.
    emitted = windowkit.spark.explain_scan(spark, str(path), query(by="bytes"))
    assert "left to Spark's reader, as column 'bytes' is binary in" in emitted
    assert "and date32[day] in the table" in emitted
    with pytest.raises((PySparkException, Py4JError), match=r"DATA_TYPE_MISMATCH"):
        windowkit.spark.scan(spark, str(path), query(by="bytes")).collect()


def test_user_defined_types_are_refused(spark, tmp_path):
    """pyspark, which reports the columns, imports the class; with `filesystem=` none is loaded."""
    rows = pa.table({"ts": pa.array([1], pa.timestamp("us", "UTC")), "s": ["a"]})
    person = {"type": "udt", "pyClass": "example.Person", "serializedClass": "", "sqlType": "string"}
    with_schema(tmp_path / "f.parquet", rows, [field("ts", "timestamp"), field("s", person)])
    with pytest.raises(wk.InvalidValue, match=r"Spark does not read .* No module named 'example'"):
        windowkit.spark.scan(spark, str(tmp_path), query(by="s"))
    with pytest.raises(
        wk.InvalidType, match=r"f.parquet' has a user-defined type; cast such columns in Spark"
    ):
        windowkit.spark.scan(spark, str(tmp_path), query(), filesystem=fs.LocalFileSystem())


@pytest.mark.parametrize("said", [b"no JSON", b"StructType(List(", b'["struct"]', b'{"fields": 3}'])
def test_a_schema_that_is_none_of_sparks_is_left_alone(tmp_path, check, said):
    rows = pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "n": [1, 2]})
    with_schema(tmp_path / "f.parquet", rows, said)
    check(tmp_path / "f.parquet", query(by="n"))


def test_files_that_differ(spark, tmp_path, written, check):
    others = {"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "iv": [1, 2], "k": ["x", "y"]}
    for order in ("1", "9"):
        folder = tmp_path / order
        folder.mkdir()
        shutil.copy(only(written), folder / "5.parquet")
        pq.write_table(pa.table(others), folder / f"{order}.parquet")
    # Spark takes its schema of one file, and reads the others by their columns.
    check(tmp_path / "1", query(by="iv"))
    check(tmp_path / "1", query(by="k"))
    check(tmp_path / "9", query(by="iv"))
    # Spark merges schemas, or says that it cannot.
    with pytest.raises(wk.InvalidValue, match="CANNOT_MERGE_SCHEMAS"):
        windowkit.spark.scan(spark, str(tmp_path / "1"), query(by="iv"), merge_schema=True)
    check(tmp_path / "1", query())


def test_a_schema_of_sparks_that_is_no_longer_true(spark, tmp_path, check):
    """Whoever rewrites a file may keep what Spark wrote into its footer."""
    spark.range(3).selectExpr("id as n", "timestamp_seconds(id) as ts").coalesce(1).write.parquet(
        str(tmp_path / "by")
    )
    rows = pq.read_table(only(tmp_path / "by"), coerce_int96_timestamp_unit="us")
    folder = tmp_path / "both"
    folder.mkdir()
    pq.write_table(pa.table({"n": ["a", "b"], "ts": rows["ts"][:2]}), folder / "1.parquet")
    pq.write_table(rows.set_column(0, "n", rows["n"].cast(pa.string())), folder / "2.parquet")
    assert b"row.metadata" in b"".join(pq.read_schema(folder / "2.parquet").metadata)
    check(folder, query(by="n"))


def test_int96_behind_a_type_of_arrow_s_own(tmp_path, check):
    """Which leaf of a file is INT96 is counted through what extension types are stored as."""
    pair = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], ["left", "right"])
    kind = Pair(pair.type)
    pa.register_extension_type(kind)
    try:
        columns = {
            "pair": pa.ExtensionArray.from_storage(kind, pair),
            "ts": pa.array([10**6, 9 * 10**6], pa.timestamp("us")),
            "n": pa.array([5, 6]),
        }
        pq.write_table(pa.table(columns), tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
        check(tmp_path, query(by="n", aggs=wk.sum("n")))
    finally:
        pa.unregister_extension_type(kind.extension_name)


class Pair(pa.ExtensionType):
    def __init__(self, storage):
        super().__init__(storage, "windowkit.test.pair")

    def __arrow_ext_serialize__(self):
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


@pytest.mark.parametrize("first", ["UTC", None])
def test_times_with_and_without_zone_in_files_of_one_table(tmp_path, check, first):
    for name, zone in (("1", first), ("2", None if first else "UTC")):
        rows = pa.table({"ts": pa.array([10**6, 9 * 10**6], pa.timestamp("ms", zone)), "n": [1, 2]})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    check(tmp_path, query(by="n", aggs=wk.max("ts")))


def test_settings_are_about_types_and_not_about_names(spark, tmp_path, check, settings):
    struct = pa.array([{"binary": 1, "time64": 2}, None])
    pq.write_table(
        pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "s": struct}), tmp_path / "f.parquet"
    )
    with settings({"spark.sql.parquet.binaryAsString": "true", "spark.sql.timeType.enabled": "false"}):
        check(tmp_path, query(by="s"))
    inner = pa.array([{"b": b"x"}, None])
    pq.write_table(
        pa.table({"ts": pa.array([1, 2], pa.timestamp("us", "UTC")), "s": inner}), tmp_path / "f.parquet"
    )
    with settings({"spark.sql.parquet.binaryAsString": "true"}):
        check(tmp_path / "f.parquet", query(by="s"))


def test_times_without_zone_as_a_setting_has_them(spark, tmp_path, written, check, settings):
    times = pa.array([1, 3_600_000_000, None], pa.timestamp("us"))
    nested = pa.StructArray.from_arrays([times, pa.array([[1], [], None], pa.list_(times.type))], ["t", "l"])
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"ts": times, "pair": nested, "map": [[(1, 2)]] * 3}), path)
    requested = query(by="pair", aggs=[wk.max("ts"), wk.count()])
    with settings({"spark.sql.parquet.inferTimestampNTZ.enabled": "false"}):
        found = windowkit.spark.scan(spark, str(path), requested)
        assert found.schema["max(ts)"].dataType.simpleString() == "timestamp"
        check(path, requested)
        check(
            path, requested, chosen=[("ts", ">=", "1970-01-01 02:00:00")], where="ts >= '1970-01-01 02:00:00'"
        )
        # Of files of its own Spark knows.
        check(written, query(by="n", aggs=wk.max("ntz")))
        check(written, query(by="n", time="ntz"))
    check(path, requested)


def test_settings_of_which_a_read_would_depend(spark, tmp_path, settings, check):
    times = pa.array([0, 10**6], pa.timestamp("us", "UTC"))
    rows = pa.table({"ts": times, "n": [1, 2], "b": [b"1", b"2"]})
    path = str(tmp_path / "f.parquet")
    pq.write_table(rows, path)
    fine = str(tmp_path / "fine.parquet")
    pq.write_table(rows.append_column("fine", pa.array([1, 2], pa.timestamp("ns"))), fine)
    renamed = pa.table(
        [rows["ts"], rows["n"]],
        schema=pa.schema(
            [("ts", times.type), pa.field("old", pa.int64(), metadata={"PARQUET:field_id": "1"})]
        ),
    )
    numbers = str(tmp_path / "numbers.parquet")
    with_schema(numbers, renamed, [field("ts", "timestamp"), field("n", "long", **{"parquet.field.id": 1})])
    by_number = "spark.sql.parquet.fieldId.read.enabled"
    check(numbers, query(by="n"))
    with settings({by_number: "true"}):
        # By its number column "n" is the file's column "old", as only Spark's reader has it.
        check(numbers, query(by="n"))
        assert {row.n for row in windowkit.spark.scan(spark, numbers, query(by="n")).collect()} == {1, 2}
        emitted = windowkit.spark.explain_scan(spark, numbers, query(by="n"))
        assert f"left to Spark's reader, as {by_number} is true, and column 'n' has a field id" in emitted
        assert "route: scan" in windowkit.spark.explain_scan(spark, numbers, query())
    # What columns are by settings Spark says.
    with settings({"spark.sql.parquet.binaryAsString": "true"}):
        check(path, query(by="b"))
        check(path, query(), chosen=[("b", "=", "1")], where="b = '1'")
        # But without a setting it does not read nanoseconds, and then types do not come from it.
        with pytest.raises(wk.InvalidValue, match=r"of nanoseconds, .*binaryAsString is true; unset"):
            windowkit.spark.scan(spark, fine, query())
    with settings({"spark.sql.legacy.parquet.nanosAsLong": "true"}):
        assert spark.read.parquet(fine).schema["fine"].dataType.simpleString() == "bigint"
        check(fine, query(by="b", aggs=wk.max("fine")))


def test_settings_of_int96(spark, tmp_path, settings, check):
    rows = pa.table({"ts": pa.array([0, 10**6], pa.timestamp("us", "UTC")), "n": [1, 2]})
    pq.write_table(rows, tmp_path / "96.parquet", use_deprecated_int96_timestamps=True)
    pq.write_table(rows, tmp_path / "64.parquet")
    spark.createDataFrame(rows).coalesce(1).write.parquet(str(tmp_path / "spark"))
    (leaf, _) = pq.ParquetFile(only(tmp_path / "spark")).schema
    assert leaf.physical_type == "INT96"
    with settings({"spark.sql.parquet.int96AsTimestamp": "false"}):
        check(tmp_path / "64.parquet", query(by="n"))
        # Spark refuses it itself.
        with pytest.raises(wk.InvalidValue, match=r"INT96.*int96AsTimestamp"):
            windowkit.spark.scan(spark, str(tmp_path / "96.parquet"), query())
    with settings({"spark.sql.parquet.int96TimestampConversion": "true"}):
        said = "left to Spark's reader, as int96TimestampConversion is true, and column 'ts' of "
        for name, is_left in (("64.parquet", False), ("96.parquet", True), ("spark", False)):
            # What Java wrote the setting leaves alone.
            check(tmp_path / name, query(by="n"))
            emitted = windowkit.spark.explain_scan(spark, str(tmp_path / name), query(by="n"))
            assert (said in emitted) == is_left


@pytest.mark.parametrize("mode", ["LEGACY", "EXCEPTION"])
def test_settings_of_the_calendar(spark, tmp_path, settings, check, mode):
    days = [-400_000, -200_000, -30_000]
    times = pa.array([day * 86400 * 10**6 for day in days], pa.timestamp("us", "UTC"))
    columns = {"day": pa.array(days, pa.date32()), "ts": times, "ntz": times.cast(pa.timestamp("us"))}
    new = [
        pa.array([day + 500_000 for day in days], pa.int32()).cast(pa.date32()),
        *list(columns.values())[1:],
    ]
    pq.write_table(pa.table(columns), tmp_path / "f.parquet")
    pq.write_table(pa.table(columns), tmp_path / "96.parquet", use_deprecated_int96_timestamps=True)
    modern = pa.table(new, names=list(columns)).set_column(
        1, "ts", pa.array([10**6] * 3, pa.timestamp("us", "UTC"))
    )
    pq.write_table(modern, tmp_path / "modern.parquet")
    check(tmp_path / "f.parquet", query(by="day"))

    def left(name, requested, setting):
        said = f"may have been written by the calendar of Spark 2, as {setting} is {mode}"
        assert said in windowkit.spark.explain_scan(spark, str(tmp_path / name), requested)
        if mode == "LEGACY":
            check(tmp_path / name, requested)
        else:
            # Spark refuses times of which it does not know the calendar.
            with pytest.raises((PySparkException, Py4JError), match="INCONSISTENT_BEHAVIOR_CROSS_VERSION"):
                windowkit.spark.scan(spark, str(tmp_path / name), requested).collect()

    with settings({"spark.sql.parquet.datetimeRebaseModeInRead": mode}):
        for requested in (query(), query(by="day", time="ntz")):
            left("f.parquet", requested, "datetimeRebaseModeInRead")
        for name, requested in (("f.parquet", query(time="ntz")), ("96.parquet", query())):
            check(tmp_path / name, requested)
            assert "route: scan" in windowkit.spark.explain_scan(spark, str(tmp_path / name), requested)
        check(tmp_path / "modern.parquet", query(by="day"))
    with settings({"spark.sql.parquet.int96RebaseModeInRead": mode}):
        left("96.parquet", query(), "int96RebaseModeInRead")
        check(tmp_path / "f.parquet", query(by="day"))


def test_times_of_day(spark, tmp_path, settings, check):
    times = pa.array([1, 2], pa.timestamp("us", "UTC"))
    for unit, kind in (("us", pa.time64("us")), ("ns", pa.time64("ns")), ("ms", pa.time32("ms"))):
        at = pa.array([5, 86_399_999], kind)
        pq.write_table(pa.table({"ts": times, "at": at}), tmp_path / f"{unit}.parquet")
    requested = query(by="at", aggs=wk.max("at"))
    path = tmp_path / "us.parquet"
    with settings({"spark.sql.timeType.enabled": "true"}):
        check(path, requested)
        chosen = ds.field("at") > pa.scalar(dt.time(0, 0, 1))
        check(path, requested, chosen=chosen, where="at > time'00:00:01'")
        spark.range(9).selectExpr(
            "timestamp_seconds(id) ts",
            "make_time(1, 2, id % 3) at",
            "cast(make_time(1, 2, id) as time(3)) ms",
        ).write.parquet(str(tmp_path / "spark"))
        check(tmp_path / "spark", requested)
        with pytest.raises(wk.InvalidType):
            query(by="ms").run(spark.read.parquet(str(tmp_path / "spark")))
        with pytest.raises(wk.InvalidType, match=r"'ms' has type time\(3\), which Spark does not"):
            windowkit.spark.scan(spark, str(tmp_path / "spark"), query(by="ms"))
        with pytest.raises(wk.InvalidType, match=r"has type time\(9\), which Spark does not"):
            windowkit.spark.scan(spark, str(tmp_path / "ns.parquet"), requested)
        with pytest.raises(wk.InvalidValue, match="PARQUET_TYPE_ILLEGAL"):
            windowkit.spark.scan(spark, str(tmp_path / "ms.parquet"), requested)
    with (
        settings({"spark.sql.timeType.enabled": "false"}),
        pytest.raises(wk.InvalidValue, match="UNSUPPORTED_TIME_TYPE"),
    ):
        windowkit.spark.scan(spark, str(path), requested)


def test_columns_of_nulls_only_are_integers(tmp_path, check):
    times = pa.array([1, 2], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times, "n": pa.nulls(2)}), tmp_path / "5.parquet")
    check(tmp_path, query(by="n", aggs=[wk.max("n"), wk.count("n")]))
    check(
        tmp_path,
        query(by="n"),
        chosen=[[("n", "=", 3)], [("ts", ">", "1970-01-01")]],
        where="n = 3 or n is null",
    )
    pq.write_table(pa.table({"ts": times, "n": [3, None]}), tmp_path / "1.parquet")
    check(tmp_path, query(by="n", aggs=wk.sum("n")))


def test_columns_in_two_cases(tmp_path, check):
    rows = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "k": [1, 2, 2]})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1)
    both = query(by="k", aggs=[wk.sum("K"), wk.max("TS"), wk.count("ts")])
    check(tmp_path, both)
    check(tmp_path, both, chosen=[("K", "=", 2)], where="K = 2")
    check(tmp_path, query(by=["k", "K"]))


def test_a_name_that_is_there_twice(spark, tmp_path):
    times = pa.array([1, 2], pa.timestamp("us", "UTC"))
    twice = pa.Table.from_arrays([times, pa.array([1, 2]), pa.array([3, 4])], ["ts", "k", "k"])
    once = pa.table({"ts": times, "k": [1, 2]})
    pq.write_table(twice, tmp_path / "5.parquet")
    with pytest.raises(PySparkException, match="COLUMN_ALREADY_EXISTS"):
        spark.read.parquet(str(tmp_path))
    with pytest.raises(wk.InvalidValue, match="COLUMN_ALREADY_EXISTS"):
        windowkit.spark.scan(spark, str(tmp_path), query(by="k"))
    pq.write_table(once, tmp_path / "1.parquet")
    with pytest.raises(wk.InvalidValue, match=r"5\.parquet' has 2 columns 'k'"):
        windowkit.spark.scan(spark, str(tmp_path), query(by="k"))


def test_columns_in_two_cases_from_the_data_source(spark, tmp_path):
    rows = pa.table({"ts": pa.array([1, 2, 3], pa.timestamp("us", "UTC")), "k": [1, 2, 2]})
    pq.write_table(rows, tmp_path / "f.parquet")
    both = query(by="k", windows=wk.tumbling("1 hour"), aggs=[wk.sum("K"), wk.max("TS"), wk.count("ts")])
    windowkit.spark.register(spark)
    found = spark.read.format("windowkit").options(**windowkit.spark.options(both)).load(str(tmp_path))
    assert sorted((row.k, row["sum(K)"], row["count(ts)"]) for row in found.collect()) == [
        (1, 1, 1),
        (2, 4, 2),
    ]
