"""Files of every making: `scan` reads them as Spark does, or says why not."""

from __future__ import annotations

import datetime as dt
from math import inf, nan

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

SECONDS = wk.sliding("10 seconds", "5 seconds")
QUERY = wk.query(by="k", time="t", windows=SECONDS, aggs=[wk.count(), wk.sum("v")])


def table(values=(1.0, 2.0, 3.0), **columns):
    rows = range(len(values))
    own = {
        "k": [row % 2 for row in rows],
        "t": pa.array([row * 10**6 for row in rows], pa.timestamp("us", "UTC")),
        "v": pa.array(values, pa.float64()),
    }
    return pa.table(own | columns)


@pytest.fixture
def same(spark, same_rows):
    """Compare a scan with Spark's own reading."""

    def compare(path, query=QUERY, where="true", **options):
        found = windowkit.spark.scan(spark, path, query, **options)
        oracle = windowkit.spark.reference(spark.read.parquet(path).where(where), query)
        assert oracle.count() > 0
        assert same_rows(found, oracle, query)

    return compare


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("chosen", "where"),
    [
        (("v", ">", 0), "v > 0"),
        (("v", ">=", 3.0), "v >= 3"),
        (("v", ">=", nan), "v >= double('NaN')"),
        (("v", "==", nan), "v = double('NaN')"),
        (("v", "!=", nan), "v != double('NaN')"),
        (("v", "<", nan), "v < double('NaN')"),
        (("v", "<=", nan), "v <= double('NaN')"),
        (("v", "not in", [1.5]), "v not in (1.5)"),
        (("v", "<", 2.0), "v < 2"),
        (("v", "in", [0.0, 3.0]), "v in (0.0, 3.0)"),
        (("v", "in", ["0", 3]), "v in (0.0, 3.0)"),
        (("v", "not in", [-0.0]), "v not in (0.0)"),
        (("v", "in", [3.0, None]), "v in (3.0, null)"),
        (("v", "in", [None]), "v in (null)"),
        (("v", "not in", [0.0, None]), "v not in (0.0, null)"),
        (("v", "in", [nan, 0]), "v in (double('NaN'), 0.0)"),
    ],
    ids=str,
)
def test_nan_and_null_in_filters_are_sparks(spark, tmp_path, same_rows, chosen, where, statistics):
    rows = table([2.0, None, 1.5, nan, -1.0, inf, 3.0, 0.0, -0.0])
    pq.write_table(rows, tmp_path / "f.parquet", write_statistics=statistics, row_group_size=2)
    # Statistics, which leave NaN out, make Spark itself leave out row groups that have it.
    pq.write_table(rows, tmp_path / "plain.parquet", write_statistics=False)
    found = windowkit.spark.scan(spark, str(tmp_path / "f.parquet"), QUERY, filter=[chosen])
    oracle = spark.read.parquet(str(tmp_path / "plain.parquet")).where(where)
    # Nothing is known to be, or not to be, a null.
    nothing = where in ("v in (null)", "v not in (0.0, null)")
    assert (same_rows(found, windowkit.spark.reference(oracle, QUERY), QUERY) == 0) == nothing


def test_directories_that_are_no_partitions_are_not_read(spark, tmp_path, same):
    (tmp_path / "backup").mkdir()
    pq.write_table(table(), tmp_path / "backup" / "b.parquet")
    with pytest.raises(wk.InvalidValue, match="paths: there are no files with data in"):
        windowkit.spark.scan(spark, str(tmp_path), QUERY)
    pq.write_table(table(), tmp_path / "a.parquet")
    same(str(tmp_path))


def test_patterns(tmp_path, spark, same):
    for day in ("2024-05-01", "2024-05-02", "2025-01-01"):
        (tmp_path / f"d={day}").mkdir()
        pq.write_table(table(), tmp_path / f"d={day}" / "a.parquet")
        pq.write_table(table(), tmp_path / f"d={day}" / "b.parquet")
    same(str(tmp_path / "d=2024*"))
    same(str(tmp_path / "d=202[45]-*" / "?.parquet"))
    same(str(tmp_path / "d={2024-05-0[1-2],2025*}" / "{a,b}.parquet"))
    same(str(tmp_path / "d=202[^4]-*"))
    (tmp_path / "d=2024-05-01" / "c.parquet").touch()
    same(str(tmp_path / "d=2024-05-01" / "*.parquet"))
    for nothing in ("d=2026*", "d={2026,2027}"):
        with pytest.raises(wk.InvalidValue, match=r"PATH_NOT_FOUND"):
            windowkit.spark.scan(spark, str(tmp_path / nothing), QUERY)


def test_a_column_of_directories_and_files_in_two_cases(tmp_path, same):
    """They are one to Spark, whose answer counts."""
    (tmp_path / "K=7").mkdir()
    pq.write_table(table(), tmp_path / "K=7" / "f.parquet")
    same(str(tmp_path))


@pytest.mark.parametrize("kind", ["timestamp", "date", "int96"])
def test_times_of_the_old_calendar(spark, tmp_path, settings, same_rows, kind):
    written = {
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
        "spark.sql.parquet.outputTimestampType": "INT96" if kind == "int96" else "TIMESTAMP_MICROS",
    }
    typed = "date" if kind == "date" else "timestamp"
    query = wk.query(by=[], time="t", windows=wk.tumbling("10 days"), aggs=wk.count())
    for name, first in (("old", "1500-01-01"), ("new", "1900-01-02")):
        days = sf.expr(f"cast(timestamp '{first}' + make_interval(0, 0, 0, int(id)) as {typed}) as t")
        with settings(written):
            spark.range(3).select(days).coalesce(1).write.parquet(str(tmp_path / name))
    early = "1500-01-05" if kind == "date" else "1500-01-05 00:00:00"
    for name, chosen, where in (
        ("new", None, "true"),
        ("old", None, "true"),
        # Statistics say of no row that it is so early: they are of the other calendar.
        ("old", [("t", "<", early)], f"t < '{early}'"),
    ):
        path = str(tmp_path / name)
        found = windowkit.spark.scan(spark, path, query, filter=chosen)
        assert same_rows(found, query.run(spark.read.parquet(path).where(where), route="rows"), query)
        emitted = windowkit.spark.explain_scan(spark, path, query, filter=chosen)
        assert "scan: left to Spark's reader, as column 't' of " in emitted
        assert "was written by the calendar of Spark 2" in emitted
    nested = spark.read.parquet(str(tmp_path / "old")).selectExpr(
        "timestamp'2024-05-01 00:00:00' as t", "struct(t as inner) as s"
    )
    with settings(written):
        nested.coalesce(1).write.parquet(str(tmp_path / "nested"))
    frame = spark.read.parquet(str(tmp_path / "nested"))
    query = wk.query(by="s", time="t", windows=wk.tumbling("10 days"), aggs=wk.count())
    found = windowkit.spark.scan(spark, str(tmp_path / "nested"), query)
    assert same_rows(found, windowkit.spark.reference(frame, query), query) == 3
    # Neither pyarrow's file systems nor data sources have Spark's reader to leave them to.
    with pytest.raises(wk.InvalidValue, match=r"calendar of Spark 2; that is left to Spark's reader, so"):
        windowkit.spark.scan(spark, str(tmp_path / "old"), ALL, filesystem=fs.LocalFileSystem())
    windowkit.spark.register(spark)
    with pytest.raises(PySparkException, match=r"calendar of Spark 2; that is left to Spark's reader, so"):
        spark.read.format("windowkit").options(**windowkit.spark.options(ALL)).load(str(tmp_path / "old"))


ALL = wk.query(by=[], time="t", windows=wk.tumbling("10 days"), aggs=wk.count())


def test_filters_and_rolling_aggregates_of_what_is_left_to_sparks_reader(
    spark, tmp_path, settings, same_rows
):
    """A filter means what it means elsewhere: of NaN, of nested values, of times in the session's zone."""
    rows = table(
        [1.0, nan, None, 5.0],
        day=pa.array([0, 1, 2, 3], pa.date32()),
        pair=pa.array([{"x": 1}, {"x": 2}, None, {"x": 4}]),
        **{"a.b": ["p", "q", None, "p"]},
    )
    path = str(tmp_path / "f.parquet")
    pq.write_table(rows, path, row_group_size=1)
    frame = spark.read.parquet(path)
    query = wk.query(by=["k", "a.b"], time="t", windows=SECONDS, aggs=[wk.count(), wk.count_distinct("v")])
    with settings({"spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY"}):
        for chosen, where in (
            ([("v", ">", 1)], "v > 1"),
            ([[("a.b", "=", "q")], [("T", ">=", "1970-01-01 01:00:02")]], "`a.b` = 'q' or second(t) >= 2"),
            (ds.field("pair", "x") >= 2, "pair.x >= 2"),
            ((ds.field("day") >= dt.date(1970, 1, 3)) | ds.field("v").is_nan(), "second(t) >= 1"),
        ):
            assert "left to Spark's" in windowkit.spark.explain_scan(spark, path, query, filter=chosen)
            found = windowkit.spark.scan(spark, path, query, filter=chosen)
            # Spark's own reader may leave row groups with NaN out.
            oracle = windowkit.spark.reference(spark.createDataFrame(frame.toArrow()).where(where), query)
            assert same_rows(found, oracle, query) > 0, where
        rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("10 seconds"))
        found = windowkit.spark.scan(spark, path, rolling, filter=[("k", "=", 0)])
        oracle = rolling.run(frame.where("k = 0"))
        assert found.schema == oracle.schema
        assert sorted(map(str, found.collect())) == sorted(map(str, oracle.collect())) != []
        emitted = windowkit.spark.explain_scan(spark, path, rolling)
        assert "not read from files by tasks, as column 't' of " in emitted


def test_files_that_spark_passes_over(spark, tmp_path, settings, same):
    pq.write_table(table(), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 is no Parquet")
    with pytest.raises(wk.InvalidValue, match=r"b\.parquet' cannot be read as Parquet"):
        windowkit.spark.scan(spark, str(tmp_path), QUERY)
    with settings({"spark.sql.files.ignoreCorruptFiles": "true"}):
        same(str(tmp_path))
        emitted = windowkit.spark.explain_scan(spark, str(tmp_path), QUERY)
        assert "scan: left to Spark's reader, as spark.sql.files.ignoreCorruptFiles is true" in emitted


YEAR = 31_556_952
COUNTED = wk.query(by="k", time="n", windows=wk.tumbling(10), aggs=wk.count())


def int96(folder, seconds, nested=False):
    times = pa.array([None, seconds, seconds + 10], pa.timestamp("s", "UTC"))
    key = pa.StructArray.from_arrays([times, pa.array([1, 2, 3])], ["at", "x"]) if nested else times
    rows = pa.table({"k": key, "n": [1, 2, 3]})
    pq.write_table(rows, folder / "f.parquet", use_deprecated_int96_timestamps=True)
    return str(folder)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("year", [-4712, 1, 1600, 9999, 290_000, 294_246])
def test_times_of_int96_far_away(spark, tmp_path, same_rows, year, nested):
    path = int96(tmp_path, (year - 1970) * YEAR, nested)
    found = windowkit.spark.scan(spark, path, COUNTED)
    oracle = COUNTED.run(spark.read.parquet(path), route="catalyst-panes")
    assert found.schema == oracle.schema
    assert same_rows(found, oracle, COUNTED) == 3


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("year", [-5_000_000, -290_000, -4800, 294_248, 1_000_000])
def test_times_of_int96_that_wrap_fail_with_the_files_name(spark, tmp_path, year, nested):
    result = windowkit.spark.scan(spark, int96(tmp_path, (year - 1970) * YEAR, nested), COUNTED)
    with pytest.raises(
        PySparkException, match=r"column 'k' has a time of INT96 in '.*f\.parquet' that is before 4713"
    ):
        result.collect()


def test_arguments_of_scan_that_are_none(spark, tmp_path):
    pq.write_table(table(), tmp_path / "f.parquet")
    path = str(tmp_path)
    scan = windowkit.spark.scan
    for given, error, message in (
        ((spark, None, QUERY), wk.InvalidType, "paths: None is a NoneType; paths is a str, or several"),
        ((spark, b"x", QUERY), wk.InvalidType, "paths: b'x' is a bytes"),
        ((spark, 3, QUERY), wk.InvalidType, "paths: 3 is an int"),
        ((spark, {path: 1}, QUERY), wk.InvalidType, "is a dict; paths is a str"),
        ((spark, [3], QUERY), wk.InvalidType, "paths: 3 is an int; paths are strings"),
        ((spark, "", QUERY), wk.InvalidValue, "paths: '' is given; a path is not empty"),
        ((spark, "a\0b", QUERY), wk.InvalidValue, "no NUL"),
        ((3, path, QUERY), wk.InvalidType, "spark: an int is given; spark is a SparkSession"),
    ):
        with pytest.raises(error, match=message):
            scan(*given)
    with pytest.raises(wk.InvalidType, match="metrics: an int is given; it is wk"):
        scan(spark, path, QUERY, metrics=1)


def test_settings_of_the_session_count(spark, tmp_path, settings, same):
    (tmp_path / "d=01").mkdir()
    pq.write_table(table(more=pa.array([b"x", b"y", b"z"])), tmp_path / "d=01" / "b.parquet")
    pq.write_table(table(), tmp_path / "d=01" / "a.parquet")
    by_directory = wk.query(by="d", time="t", windows=SECONDS, aggs=wk.count())
    with settings({"spark.sql.sources.partitionColumnTypeInference.enabled": "false"}):
        same(str(tmp_path), by_directory)
    more = wk.query(by="more", time="t", windows=SECONDS, aggs=wk.count())
    with pytest.raises(wk.UnknownColumn):
        windowkit.spark.scan(spark, str(tmp_path), more)
    with settings({"spark.sql.parquet.mergeSchema": "true"}):
        same(str(tmp_path), more)
        with settings({"spark.sql.parquet.binaryAsString": "true"}):
            same(str(tmp_path), more)


@pytest.mark.parametrize("year", [0, 10_000])
def test_times_that_python_has_none_of(spark, tmp_path, same, year):
    first = (year - 1970) * 31_556_952 * 10**6
    times = pa.array([first + row * 10**6 for row in range(20)]).cast(pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"k": [1] * 20, "t": times}), tmp_path / "f.parquet")
    query = wk.query(by="k", time="t", windows=wk.sliding("10 seconds", "5 seconds"), aggs=wk.count())
    found = windowkit.spark.scan(spark, str(tmp_path), query)
    oracle = windowkit.spark.reference(spark.read.parquet(str(tmp_path)), query)
    counts = [frame.groupBy("count(1)").count().orderBy("count(1)").collect() for frame in (found, oracle)]
    assert counts[0] == counts[1] != []


def in_directories(folder, *names):
    for name in names:
        (folder / name).mkdir()
        pq.write_table(table(), folder / name / "f.parquet")
    return str(folder)


@pytest.mark.parametrize(
    "changed",
    [
        {"spark.sql.timestampType": "TIMESTAMP_NTZ"},
        {"spark.sql.session.timeZone": "UTC"},
        {"spark.sql.session.timeZone": "Z"},
        {"spark.sql.session.timeZone": "GMT-03:30"},
        {"spark.sql.session.timeZone": "+5"},
        {"spark.sql.session.timeZone": "America/New_York"},
        {"spark.sql.sources.partitionColumnTypeInference.enabled": "false"},
    ],
    ids=str,
)
def test_times_of_directories_are_of_the_sessions_zone(spark, tmp_path, settings, same, changed):
    path = in_directories(tmp_path, "at=2024-03-10 02:30:00", "at=2024-11-03 01%3A30%3A00.5", "at=1969-12-31")
    with settings(changed):
        same(path, wk.query(by="at", time="t", windows=SECONDS, aggs=wk.count()))
        same(path, wk.query(by="k", time="t", windows=SECONDS, aggs=[wk.max("at"), wk.min("at")]))


def test_times_of_directories_are_filtered_and_windowed(spark, tmp_path, same_rows):
    path = in_directories(tmp_path, "at=2024-05-01 10:00:00", "at=2024-05-02", "at=2024-05-03 00:00:00.1")
    query = wk.query(by="k", time="at", windows=wk.tumbling("1 day"), aggs=wk.count())
    after = dt.datetime(2024, 5, 1, 23, tzinfo=dt.timezone.utc)
    found = windowkit.spark.scan(spark, path, query, filter=[("at", ">=", after)])
    frame = spark.read.parquet(path).where("at >= timestamp'2024-05-01 23:00:00Z'")
    assert same_rows(found, query.run(frame), query) == 2
    text = windowkit.spark.scan(spark, path, query, filter=[("at", ">=", "2024-05-01 23:00:00Z")])
    assert same_rows(text, found, query) == 2


@pytest.mark.parametrize("text", ["2024-05-01 10:00:00", "1.5", "1e3", "12f", " 1", "9" * 30])
def test_a_data_source_cannot_ask_spark_for_types(spark, tmp_path, text):
    path = in_directories(tmp_path, f"at={text}")
    windowkit.spark.register(spark)
    with pytest.raises(
        PySparkException, match=r"directories say at=.*, which Spark may type in several ways"
    ):
        spark.read.format("windowkit").options(**windowkit.spark.options(QUERY)).load(path)


def test_decimals_of_directories(spark, tmp_path, same):
    path = in_directories(tmp_path, "p=99999999999999999999", "p=7", "p=1e4")
    same(path, wk.query(by="p", time="t", windows=SECONDS, aggs=wk.count()))
    same(path, wk.query(by="k", time="t", windows=SECONDS, aggs=[wk.max("p"), wk.sum("p")]))


def test_files_of_several_types_fail_with_their_names(spark, tmp_path):
    pq.write_table(table(), tmp_path / "a.parquet")
    strings = table().set_column(0, "k", pa.array(["x", "y", "z"]))
    pq.write_table(strings, tmp_path / "b.parquet")
    emitted = windowkit.spark.explain_scan(spark, str(tmp_path), QUERY)
    assert "left to Spark's reader, as column 'k' is string in" in emitted
    # Spark has no way to read it, either.
    with pytest.raises((PySparkException, Py4JError), match=r"DATA_TYPE_MISMATCH.*b\.parquet"):
        windowkit.spark.scan(spark, str(tmp_path), QUERY).collect()


def test_a_file_that_is_gone(spark, tmp_path):
    for name in "ab":
        pq.write_table(table(), tmp_path / f"{name}.parquet")
    result = windowkit.spark.scan(spark, str(tmp_path), QUERY)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(PySparkException, match="no longer exists; files must stay in place"):
        result.collect()


def test_maps(spark, tmp_path, same_rows):
    maps = pa.array([[("a", 1)], [], None], pa.map_(pa.string(), pa.int32()))
    pq.write_table(table(m=maps), tmp_path / "f.parquet")
    query = wk.query(by="k", time="t", windows=SECONDS, aggs=wk.first("m"))
    found = windowkit.spark.scan(spark, str(tmp_path), query)
    assert same_rows(found, query.run(spark.read.parquet(str(tmp_path))), query)


@pytest.mark.parametrize(
    "window",
    [
        wk.tumbling(rows=3),
        wk.sliding("5 rows", 4),
        wk.band(3, 9),
        wk.landmark(10, start=2),
        wk.global_window(),
    ],
    ids=str,
)
@pytest.mark.parametrize("files", [1, 3])
def test_windows_whose_rows_are_packed(spark, tmp_path, same_rows, window, files):
    for file in range(files):
        rows = range(30 * file, 30 * file + 30)
        numbers = pa.table({"k": [row % 2 for row in rows], "t": rows, "v": [row / 8 for row in rows]})
        pq.write_table(numbers, tmp_path / f"{file}.parquet")
    query = wk.query(by="k", time="t", windows=window, aggs=[wk.count(), wk.sum("v"), wk.first("v")])
    frame = spark.read.parquet(str(tmp_path))
    oracle = query.run(frame, route="rows")
    assert same_rows(windowkit.spark.scan(spark, str(tmp_path), query), oracle, query)
    assert same_rows(query.run(frame, route="packed"), oracle, query)
    emitted = windowkit.spark.explain_scan(spark, str(tmp_path), query)
    assert "rows of k, t, v are packed as they are" in emitted


def test_the_data_source_filters_and_finds_columns_in_any_case(spark, tmp_path, same_rows):
    windowkit.spark.register(spark)
    path = str(tmp_path / "f.parquet")
    day = pa.array([dt.date(2024, 5, 1 + row) for row in range(3)])
    pq.write_table(table(day=day), path)
    query = wk.query(by="K", time="t", windows=SECONDS, aggs=wk.sum("V").alias("a; `b`"))
    emitted = windowkit.spark.options(query)
    for text, where in (
        ('[["v", ">", 1]]', "v > 1"),
        ('[["day", ">=", "2024-05-02"], ["k", "in", [0]]]', "day >= '2024-05-02' and k in (0)"),
    ):
        found = spark.read.format("windowkit").options(**emitted, filter=text).load(path)
        oracle = query.run(spark.read.parquet(path).where(where))
        assert found.columns == oracle.columns
        assert same_rows(found, oracle, query)
    for changed, message in (
        ({"partition": "3"}, "partition: there is no such option"),
        ({"filter": "v > 0"}, "filter: 'v > 0' is given"),
        ({"filter": '{"v": 0}'}, "filter: .* is given; filter is JSON such as"),
        ({"filter": '[[["v", ">", 1]], ["v", ">"]]'}, "'v' is given as a comparison"),
        ({"mergeSchema": "maybe"}, "mergeSchema: 'maybe' is given; it is true or false"),
        ({"timeZone": "Nowhere/Land"}, "timeZone: 'Nowhere/Land' is given"),
        ({"partitions": "1000000"}, "at most 65,536"),
        ({"filter": '[["day", ">", "soon"]]'}, "filter: 'soon' is compared with 'day', a column of date32"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("windowkit").options(**emitted | changed).load(path)
    for paths, message in (("here", "paths: 'here' is given"), ("[1]", "paths is JSON, a list of strings")):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("windowkit").options(**emitted, paths=paths).load()


def test_the_data_source_has_what_parquet_has(spark, tmp_path, same_rows):
    windowkit.spark.register(spark)
    # Only Spark knows the types of times of directories, and a data source cannot ask it.
    for number, at in enumerate(("at=2024-05-01", "at=2024-05-02")):
        (tmp_path / at).mkdir()
        more = {} if number == 0 else {"more": [7, 8, 9]}
        pq.write_table(table(**more), tmp_path / at / "f.parquet")
    query = wk.query(by="at", time="t", windows=SECONDS, aggs=[wk.sum("more"), wk.count()])
    read = spark.read.format("windowkit").options(**windowkit.spark.options(query))
    frame = spark.read.option("MERGEschema", "true").parquet(str(tmp_path))
    for text, where in (
        (
            '[[["at", ">", "2024-05-01"]], [["v", ">", 1], ["V", "<", 3]]]',
            "at > '2024-05-01' or v = 2",
        ),
        ('[["at", ">", "2024-05-01"]]', "at > '2024-05-01'"),
        ('[["t", ">", "1970-01-01 01:00:00.5"]]', "t > '1970-01-01 01:00:00.5'"),
    ):
        emitted = {"mergeschema": "TRUE", "timezone": "Europe/Berlin", "filter": text}
        found = read.options(**emitted).load(str(tmp_path))
        assert same_rows(found, query.run(frame.where(where)), query)
