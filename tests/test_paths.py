"""Paths and URIs, by what pyarrow makes of them: no network, no Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import windowkit as wk
from windowkit.files import found
from windowkit.paths import as_pattern, located, matching

HERE = fs.LocalFileSystem()


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("file:/p", "/p"),
        ("file:///p", "/p"),
        ("file://localhost/p", "/p"),
        ("file:////p/./q/../r/", "/p/r"),
        ("file:///x%20y?a=b#c", "/x%20y?a=b#c"),
        ("/x y#", "/x y#"),
    ],
)
def test_paths_of_this_machine_are_taken_as_they_are(given, path):
    system, there = located(given, None)
    assert system.equals(HERE)
    assert there == path


@pytest.mark.parametrize("given", ["file:p", "file://", "file://host/p", "file://localhost", "file:"])
def test_uris_of_files_elsewhere_are_refused(given):
    with pytest.raises(wk.InvalidValue, match="URIs of files are file:///path or file:/path"):
        located(given, None)


WEST = "region=eu-west-1"


@pytest.mark.parametrize(
    ("given", "path", "options"),
    [
        (f"s3://b/x%20y/?{WEST}", "b/x%20y", {"region": "eu-west-1"}),
        (f"s3a://b/x y/é#[12]/{{a,b}}\\*?{WEST}", "b/x y/é#[12]/{a,b}\\*", {"region": "eu-west-1"}),
        (f"s3n://b/?1.parquet?{WEST}", "b/?1.parquet", {"region": "eu-west-1"}),
        (f"s3://b/d?y=1/?=2?{WEST}", "b/d?y=1/?=2", {"region": "eu-west-1"}),
        (f"s3://b?{WEST}", "b", {"region": "eu-west-1"}),
        (
            f"s3://b/x?{WEST}&scheme=http&endpoint_override=localhost:9000",
            "b/x",
            {"region": "eu-west-1", "scheme": "http", "endpoint_override": "localhost:9000"},
        ),
        (
            f"s3://b/x?endpoint_override=http://localhost:9000&{WEST}",
            "b/x",
            {"region": "eu-west-1", "endpoint_override": "http://localhost:9000"},
        ),
    ],
)
def test_uris_of_stores_keep_their_path_and_their_options(given, path, options):
    system, there = located(given, None)
    assert there == path
    assert system.equals(fs.S3FileSystem(**options))


def test_options_that_pyarrow_does_not_know_are_refused():
    with pytest.raises(wk.InvalidValue, match=r"'s3://b/d\?y=1' cannot be opened \(Unexpected query"):
        located("s3://b/d?y=1", None)
    with pytest.raises(wk.InvalidValue, match=r"'nowhere://b/d' cannot be opened \(Unrecognized"):
        located("nowhere://b/d", None)


def test_paths_of_file_systems_may_begin_with_a_pattern(tmp_path):
    for name in ("a/x", "b/x", "b/y", "c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), tmp_path / name)
    system = fs.SubTreeFileSystem(str(tmp_path), HERE)
    for path, names in (("*/x", ["a/x", "b/x"]), ("b/*", ["b/x", "b/y"]), ("{a,b}/[xz]", ["a/x", "b/x"])):
        assert [file.path for file in found(path, system).files] == names
    with pytest.raises(wk.InvalidValue, match=r"paths: nothing matches 'c/\*'"):
        found("c/*", system)


@pytest.mark.parametrize("name", ["v[1].f", "a?*", "{a,b}", "x\\y", "q]r}", "[!a]", "plain"])
def test_a_literal_path_matches_itself_only(tmp_path, name):
    for each in ("v1.f", "abc", "a", "b", "xy", name):
        (tmp_path / each).touch()
    assert matching(HERE, f"{tmp_path}/{as_pattern(name)}") == [str(tmp_path / name)]


def test_what_structured_streaming_wrote_is_refused(tmp_path):
    """Its log says which files count; others may be of a batch that failed."""
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(wk.InvalidValue, match="has a _spark_metadata, by which Structured Streaming says"):
        found(str(tmp_path), None)
    assert len(found(str(tmp_path / "part-0.parquet"), None).files) == 1
