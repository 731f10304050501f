"""What paths of a scan stand for: the files and columns that Spark's own reading of them has."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from windowkit.spark.parquet import tables

HOURS = wk.tumbling(3600)


def write(root, *names, **columns):
    """Write files of one row each, which has the file's name."""
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"name": [name], "t": [7], **columns}), root / name)


def summary(root, name, *columns):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    fields = [("name", pa.string()), ("t", pa.int64()), *((column, pa.int64()) for column in columns)]
    pq.write_metadata(pa.schema(fields), root / name)


@pytest.fixture
def same(spark):
    """Compare the files that a scan reads, and what is in columns, with Spark's; return their names."""

    def compare(paths, *columns, merge=False):
        given = [str(path) for path in (paths if isinstance(paths, list) else [paths])]
        query = wk.query(by=["name", *columns], time="t", windows=HOURS, aggs=wk.count().alias("n"))
        found = windowkit.spark.scan(spark, given, query, merge_schema=merge).drop(
            "window_start", "window_end"
        )
        frame = spark.read.option("mergeSchema", merge).parquet(*given)
        oracle = frame.groupBy("name", *columns).agg(sf.count("*").alias("n"))
        assert [field.dataType for field in found.schema] == [field.dataType for field in oracle.schema]
        rows = sorted(map(tuple, oracle.collect()), key=repr)
        assert sorted(map(tuple, found.collect()), key=repr) == rows
        return [row[0] for row in rows]

    return compare


def unknown(spark, path, column):
    """Whether neither Spark nor a scan knows of a column."""
    query = wk.query(by=column, time="t", windows=HOURS, aggs=wk.count())
    with pytest.raises(wk.UnknownColumn):
        windowkit.spark.scan(spark, str(path), query)
    return column not in spark.read.parquet(str(path)).columns


def test_uris_of_files_are_read_as_they_are_written(tmp_path, same):
    write(tmp_path, "m/a1", "m/a2", "m/b1", "x y/c", "x%20y/c", "é#/?c", "o/p?region=x")
    for path, names in (
        ("m/?1", ["m/a1", "m/b1"]),
        ("m/{a1,a2}", ["m/a1", "m/a2"]),
        ("m/a[12]", ["m/a1", "m/a2"]),
        ("x y", ["x y/c"]),
        ("x%20y", ["x%20y/c"]),
        ("é#/*", ["é#/?c"]),
        ("o/p?region=x", ["o/p?region=x"]),
    ):
        for before in ("file://", "file:", "file://///", ""):
            assert same(f"{before}{tmp_path}/{path}") == names


@pytest.mark.parametrize("path", ["file://localhost/tmp", "s3://bucket/key", "nosuch://there"])
def test_uris_are_sparks(spark, path):
    """What it does not open, pyarrow may, if it is given as a file system."""
    query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
    with pytest.raises(
        wk.InvalidValue,
        match=r"paths: Spark does not read .*; give filesystem= for what only pyarrow can open",
    ):
        windowkit.spark.scan(spark, path, query)


def test_patterns_pass_over_files_and_find_what_is_hidden(tmp_path, same):
    write(tmp_path, "plain", "a/y", "_h/y", ".h/y", "b/z", "a/deep/y", "a/_no", "b/.no")
    assert same(tmp_path / "*/y") == [".h/y", "_h/y", "a/y"]
    assert same(tmp_path / "*/*/y") == ["a/deep/y"]
    assert same(tmp_path / "?h/*") == [".h/y", "_h/y"]
    assert same(tmp_path / "*") == [".h/y", "_h/y", "a/y", "b/z", "plain"]
    assert same([tmp_path / "a/_no", tmp_path / "b/z"]) == ["b/z"]
    assert same(tmp_path / "{a/deep,b}/[yz]") == ["a/deep/y", "b/z"]


@pytest.mark.parametrize("tolerant", ["false", "true"])
def test_a_file_is_read_as_often_as_spark_reads_it(spark, tmp_path, same, settings, tolerant):
    """By tasks, or by Spark's reader; where directories have columns, Spark reads it once."""
    write(tmp_path, "a/f", "b/g", "t/p=1/f", "t/p=2/f")
    with settings({"spark.sql.files.ignoreMissingFiles": tolerant}):
        for paths, names in (
            (["a", "a"], ["a/f"]),
            (["a", "a/"], ["a/f"]),
            (["a", "a/f"], ["a/f"]),
            (["a/*", "a/f*"], ["a/f"]),
            (["{a,a/f}"], ["a/f"]),
            (["a", "b"], ["a/f", "b/g"]),
            (["t", "t"], ["t/p=1/f", "t/p=2/f"]),
        ):
            assert same([f"{tmp_path}/{path}" for path in paths]) == names
        query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
        text = windowkit.spark.explain_scan(spark, [str(tmp_path / "a")] * 2, query)
        assert "as Spark reads a file as often as paths lead to it" in text
    write(tmp_path, "n/f", x=pa.array([1], pa.timestamp("ns")))
    with pytest.raises(
        wk.InvalidValue, match="paths: Spark reads a file as often as paths lead to it; that is"
    ):
        windowkit.spark.scan(spark, [str(tmp_path / "n")] * 2, query)


def test_rows_that_are_cached_are_read_whatever_is_in_files(spark, tmp_path, same):
    write(tmp_path, "f")
    cached = spark.read.option("mergeSchema", False).parquet(str(tmp_path)).cache()
    assert cached.count() == 1
    write(tmp_path, "g")
    assert same(tmp_path) == ["f"]
    cached.unpersist()
    assert same(tmp_path) == ["f", "g"]


class Denying(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_error(403)

    def do_GET(self):
        self.do_HEAD()

    def log_message(self, *_):
        """Print nothing."""


def test_a_store_of_objects_may_know_spark_and_not_pyarrow():
    server = HTTPServer(("127.0.0.1", 0), Denying)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        keys = {"access_key": "a", "secret_key": "b", "region": "eu"}
        store = fs.S3FileSystem(endpoint_override=f"http://127.0.0.1:{server.server_port}", **keys)
        for paths in (["bucket/t/f"], ["bucket/t/f", "bucket/t/g"]):
            with pytest.raises(wk.InvalidValue, match="Spark finds files in 'bucket/t', and this process"):
                tables.stated(store, paths)
    finally:
        server.shutdown()
        server.server_close()


def test_columns_that_no_schema_holds_are_named(spark, tmp_path):
    write(tmp_path, "f", x=[1])
    write(tmp_path, "g", x=["a"])
    query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match=r"CANNOT_MERGE_SCHEMAS.*x: BIGINT.*x: STRING"):
        windowkit.spark.scan(spark, str(tmp_path), query, merge_schema=True)


def test_a_backslash_makes_characters_plain(tmp_path, same):
    write(tmp_path, "b[1].f", "b1.f", "b2.f", "b{2}.f", "sl\\ash", "q?", "qq", "a-c", "b-c")
    for path, names in (
        ("b[1].f", ["b1.f"]),
        (r"b\[1\].f", ["b[1].f"]),
        (r"b\[*", ["b[1].f"]),
        (r"b\{2\}.f", ["b{2}.f"]),
        (r"{b\[1\],b[1-2]}.f", ["b1.f", "b2.f", "b[1].f"]),
        (r"b{1,{2,\{2\}}}.f", ["b1.f", "b2.f", "b{2}.f"]),
        (r"b[\[1]*", ["b1.f", "b[1].f"]),
        (r"sl\\ash", ["sl\\ash"]),
        (r"q\?", ["q?"]),
        (r"[a\-]-c", ["a-c"]),
    ):
        assert same(tmp_path / path) == names


def test_a_pattern_is_never_a_name(spark, tmp_path):
    """As in Spark: a backslash makes a name of it."""
    write(tmp_path, "v[7].f")
    query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
    path = str(tmp_path / "v[7].f")
    with pytest.raises(PySparkException, match="PATH_NOT_FOUND"):
        spark.read.parquet(path)
    with pytest.raises(wk.InvalidValue, match="PATH_NOT_FOUND"):
        windowkit.spark.scan(spark, path, query)
    assert windowkit.spark.scan(spark, str(tmp_path / r"v\[7].f"), query).count() == 1


def test_summaries_say_what_columns_there_are(spark, tmp_path, same):
    write(tmp_path, "s/a", x=[1])
    write(tmp_path, "s/b", y=[2])
    path = tmp_path / "s"
    same(path, "x")
    assert unknown(spark, path, "y")
    summary(path, "_metadata", "y")
    same(path, "y")
    assert unknown(spark, path, "x")
    same(path, "x", "y", merge=True)
    summary(path, "_common_metadata", "z", "x")
    assert same(path, "x", "z") == ["s/a", "s/b"]
    assert unknown(spark, path, "y")
    same(path, "x", "y", "z", merge=True)
    same(path / "*", "z")
    same(path / "?", "x")
    assert unknown(spark, path / "?", "z")
    assert same([path / "a", path / "_metadata"], "y") == ["s/a"]


def test_rows_of_summaries_are_never_read(tmp_path, same):
    write(tmp_path, "a", x=[1])
    write(tmp_path, "_common_metadata", "_metadata", z=[3])
    assert same(tmp_path, "z") == ["a"]


def test_summaries_of_partitioned_tables(spark, tmp_path, same):
    write(tmp_path, "p=1/a", x=[1])
    write(tmp_path, "p=2/a", y=[2])
    summary(tmp_path, "_hidden/_common_metadata", "h")
    same(tmp_path, "x", "p")
    summary(tmp_path, "p=2/_metadata", "y")
    same(tmp_path, "y", "p")
    assert unknown(spark, tmp_path, "x")
    same(tmp_path / "p=1", "x")
    summary(tmp_path, "p=1/_common_metadata", "w")
    same(tmp_path, "w", "p")
    summary(tmp_path, "_common_metadata", "z", "x")
    same(tmp_path, "x", "z", "p")
    assert unknown(spark, tmp_path, "w")
    same(tmp_path, "x", "y", "z", "w", "p", merge=True)


@pytest.mark.parametrize("inner", ["k", "p=1"])
def test_summaries_of_directories_that_are_not_read(spark, tmp_path, same, inner):
    write(tmp_path, "a", x=[1])
    summary(tmp_path, f"{inner}/_common_metadata", "z")
    same(tmp_path, "x")
    assert unknown(spark, tmp_path, "z")


def test_files_beside_directories_of_partitions_only_tell_of_columns(spark, tmp_path, same):
    write(tmp_path, "p=1/f", "p=2/f", x=[1])
    write(tmp_path, "root", y=[1])
    assert same(tmp_path, "x", "p") == ["p=1/f", "p=2/f"]
    assert unknown(spark, tmp_path, "y")
    same(tmp_path, "x", "y", "p", merge=True)
    write(tmp_path, "another", z=[1])
    same(tmp_path, "z", "p")
    assert same(tmp_path / "*") == ["another", "p=1/f", "p=2/f", "root"]
    # What is nearest says what directories are of the table.
    assert same([tmp_path, tmp_path / "p=1", tmp_path / "p=2"]) == ["another", "p=1/f", "p=2/f", "root"]
    assert same([tmp_path / "p=1/f", tmp_path / "root", tmp_path / "p=2"]) == ["p=1/f", "p=2/f", "root"]
    assert unknown(spark, tmp_path / "p=1", "p")


def test_directories_within_and_around_partitions(tmp_path, same):
    write(tmp_path, "in/a=1/x/f", "in/a=2/f", "around/x/a=1/f", "around/x/a=2/f", "apart/a=1/x/b=2/f")
    same(tmp_path / "in", "a")
    same(tmp_path / "around", "a")
    same(tmp_path / "apart", "b")


def test_directories_above_a_path_say_nothing(tmp_path, same):
    write(tmp_path, "p=0/t/p=1/f", "p=0/t/p=2/f", "p=0/t/beside")
    assert same(tmp_path / "p=0" / "t", "p") == ["p=0/t/p=1/f", "p=0/t/p=2/f"]
    assert same(tmp_path / "p=0" / "t" / "p=1") == ["p=0/t/p=1/f"]


def test_columns_of_files_and_of_directories(tmp_path, same):
    write(tmp_path, "p=1/f", "p=2/f", p=["own"])
    assert same(tmp_path, "p") == ["p=1/f", "p=2/f"]
    assert same(tmp_path / "p=1", "p") == ["p=1/f"]


def test_directories_in_several_cases(spark, tmp_path, same, settings):
    write(tmp_path, "Q=1/p=1/f", "q=2/P=x/f")
    same(tmp_path, "q", "p")
    with settings({"spark.sql.caseSensitive": "true"}):
        query = wk.query(by="q", time="t", windows=HOURS, aggs=wk.count())
        with pytest.raises(wk.InvalidValue, match="CONFLICTING_PARTITION_COLUMN_NAMES"):
            windowkit.spark.scan(spark, str(tmp_path), query)
        with pytest.raises(PySparkException, match="CONFLICTING_PARTITION_COLUMN_NAMES"):
            spark.read.parquet(str(tmp_path))


@pytest.mark.parametrize(
    "names",
    [("x/f", "p=1/f"), ("x/p=1/f", "f"), ("p=1/f", "p=1/q=2/f"), ("p=1/q=1/f", "q=1/p=1/f")],
    ids=str,
)
def test_directories_that_spark_refuses_are_refused(spark, tmp_path, names):
    write(tmp_path, *names)
    query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
    with pytest.raises(PySparkException, match="CONFLICTING_"):
        spark.read.parquet(str(tmp_path))
    with pytest.raises(wk.InvalidValue, match="CONFLICTING_"):
        windowkit.spark.scan(spark, str(tmp_path), query)


def test_a_uri_goes_without_a_file_system(spark, tmp_path):
    write(tmp_path, "a")
    query = wk.query(by="name", time="t", windows=HOURS, aggs=wk.count())
    for uri in (f"file://{tmp_path}", f"file:{tmp_path}", f"mock://{tmp_path}"):
        with pytest.raises(
            wk.InvalidValue, match=r"has a URI, and filesystem= is given; .* leave filesystem= out"
        ):
            windowkit.spark.scan(spark, uri, query, filesystem=fs.LocalFileSystem())
    found = windowkit.spark.scan(spark, str(tmp_path), query, filesystem=fs.LocalFileSystem())
    assert found.count() == 1
