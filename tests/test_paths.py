"""Paths and their files without Spark's help: no network, no Spark.

What patterns and URIs mean to Spark is for Spark to say, and tested there; paths here are names.
"""

from __future__ import annotations

import datetime as dt
import glob
import os
import random
import subprocess
import warnings
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import fs

import windowkit as wk
from support.programs import program
from windowkit.cli import main
from windowkit.cli.paths import ArgumentsError, format_of_inputs, matched
from windowkit.files.listing import NULL, found, opened, walked

HERE = fs.LocalFileSystem()
NO_MATTER = pytest.mark.filterwarnings("ignore:paths. .* is a link to a directory that it is in:UserWarning")


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"n": [1]}), root / name)


@pytest.mark.parametrize("name", ["v[1].f", "a?*", "{a,b}", "x\\y", "q]r}", "[!a]", "plain", "x y", "%41"])
def test_a_path_is_a_name(tmp_path: Path, name: str) -> None:
    write(tmp_path, "v1.f", "abc", "a", "b", "xy", name)
    assert [file.path for file in found(str(tmp_path / name)).files] == [str(tmp_path / name)]


def test_paths_of_file_systems(tmp_path: Path) -> None:
    write(tmp_path, "a/x", "b/x", "b/deep/y", "b/_hidden", "b/.hidden", "_temporary/z", "c")
    system = fs.SubTreeFileSystem(str(tmp_path), HERE)
    for paths, names in (("a", ["a/x"]), (["b", "c", "b/x"], ["b/deep/y", "b/x", "c"])):
        assert [file.path for file in found(paths, system, deep=True).files] == names
    with pytest.raises(wk.InvalidValue, match=r"'b/deep/y' is in a directory that is not named name=value"):
        found("b", system)
    with pytest.raises(wk.InvalidValue, match=r"paths: 'b/\*' does not exist"):
        found("b/*", system)
    with pytest.raises(wk.InvalidValue, match="has a URI, and filesystem= is given"):
        found(f"file://{tmp_path}", system)
    (tmp_path / "empty").mkdir()
    with pytest.raises(wk.InvalidValue, match="there are no files with data in"):
        found("empty", system)


WEST = "region=eu-west-1"


def test_uris_are_those_of_pyarrow(tmp_path: Path) -> None:
    assert opened("file:///x%20y") == (HERE, "/x y")
    for scheme in ("s3", "s3a", "s3n"):
        system, path = opened(f"{scheme}://b/x%20y?{WEST}")
        assert path == "b/x y"
        assert system.equals(fs.S3FileSystem(region="eu-west-1"))
    with pytest.raises(wk.InvalidValue, match=r"'s3://b/d\?y=1' cannot be opened \(Unexpected query"):
        opened("s3://b/d?y=1")
    with pytest.raises(wk.InvalidValue, match=r"'nowhere://b/d' cannot be opened \(Unrecognized"):
        opened("nowhere://b/d")


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["7", "-2", NULL], pa.int32(), [-2, 7, None]),
        (["99999999999"], pa.int64(), [99999999999]),
        (["9" * 30], pa.decimal128(38, 0), [Decimal("9" * 30)]),
        (["1.5", "2"], pa.float64(), [1.5, 2.0]),
        (["2024-05-01"], pa.date32(), [dt.date(2024, 5, 1)]),
        (["1970-01-01 00:00:01"], pa.timestamp("us"), [1_000_000]),
        (["1970-01-01 00%3A00%3A01"], pa.timestamp("us"), [1_000_000]),
        (["7", "a%2Fb"], pa.string(), ["7", "a/b"]),
    ],
    ids=str,
)
def test_directories_have_types(
    tmp_path: Path, texts: list[str], kind: pa.DataType, values: list[object]
) -> None:
    write(tmp_path, *(f"p={text}/f" for text in texts))
    source = found(str(tmp_path))
    assert source.partitioned == pa.schema({"p": kind})
    assert (
        sorted((file.values[0] for file in source.files), key=lambda value: (value is None, value)) == values
    )


def test_directories_that_do_not_agree(tmp_path: Path) -> None:
    write(tmp_path, "p=1/f", "q=1/f")
    with pytest.raises(
        wk.InvalidValue, match=r"name columns \['q'\], those of .* \['p'\]; all files must have"
    ):
        found(str(tmp_path))


def test_directories_whose_names_are_no_text_are_told_apart(tmp_path: Path) -> None:
    write(tmp_path, "p=%FE/f", "p=%FF/f")
    with pytest.raises(
        wk.InvalidValue, match=r"a column has '%F[EF]' in its name, whose bytes are not UTF-8"
    ):
        found(str(tmp_path))


def test_what_structured_streaming_wrote_is_refused(tmp_path: Path) -> None:
    """Its log says which files count; others may be of a batch that failed."""
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "_spark_metadata" / "0").write_text("v1")
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    with pytest.raises(wk.InvalidValue, match="has a _spark_metadata, in which Structured Streaming lists"):
        found(str(tmp_path))
    assert len(found(str(tmp_path / "part-0.parquet")).files) == 1


@pytest.mark.parametrize("system", [None, "subtree"])
def test_links_to_directories_above_are_named_and_not_followed(tmp_path: Path, system: str | None) -> None:
    """Two of them would double the paths with each level."""
    write(tmp_path, "top/d/a", "top/d/e/b")
    links = {"up": "..", "self": ".", "other": "../../top", "e/round": "../e", "e/loop": "loop"}
    for link, target in links.items():
        (tmp_path / "top" / "d" / link).symlink_to(target)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        given = found("top", fs.SubTreeFileSystem(str(tmp_path), HERE), deep=True) if system else None
        source = given or found(str(tmp_path / "top"), deep=True)
        assert sum(map(len, (entries for _, entries in walked(str(tmp_path))))) == 2
    root = "" if given else f"{tmp_path}/"
    assert [file.path for file in source.files] == [f"{root}top/d/a", f"{root}top/d/e/b"]
    told = "is a link to a directory that it is in; it is not followed"
    loops = [f"paths: {str(tmp_path / 'top' / 'd' / link)!r} {told}" for link in links if "loop" not in link]
    assert sorted(str(each.message) for each in warned) == sorted(loops)


def test_the_command_says_once_which_links_it_does_not_follow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "top/d").mkdir(parents=True)
    pq.write_table(pa.table({"t": [1]}), tmp_path / "top/d/a.parquet")
    (tmp_path / "top/d/up").symlink_to("..")
    command = ["aggregate", "--time", "t", "--window", "tumbling(10)", "--agg", "count(*) as n"]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        assert main([*command, "--input", str(tmp_path / "top"), "--format", "csv"]) == 0
    out, err = capsys.readouterr()
    assert out == '"window_start","window_end","n"\n0,10,1\n'
    told = f"'{tmp_path}/top/d/up' is a link to a directory that it is in; it is not followed"
    assert err == f"windowkit: warning: paths: {told}\n"


def test_the_format_of_a_directory_is_found_however_deep_it_is(tmp_path: Path) -> None:
    top = tmp_path / "top"
    (top / ".hidden").mkdir(parents=True)
    (top / ".hidden" / "a.csv").touch()
    (top / "linked").symlink_to("../deep")
    # Deeper than Python's stack, and moved there in parts, as paths are not as long as that.
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "b.PARQUET").touch()
    for _ in range(12):
        inner = tmp_path / "inner"
        deep.rename(inner)
        deep.joinpath(*["d"] * 99).mkdir(parents=True)
        inner.rename(deep.joinpath(*["d"] * 100))
    try:
        assert format_of_inputs([top], None) == "parquet"
    finally:
        # Python removes directories by calls within each other.
        subprocess.run(["rm", "-r", deep], check=True)


def test_a_file_of_several_names_is_found_once(tmp_path: Path) -> None:
    write(tmp_path, "t/a", "t/.hidden/h", "elsewhere/c")
    (tmp_path / "t/b").symlink_to("a")
    (tmp_path / "t/hard").hardlink_to(tmp_path / "t/a")
    (tmp_path / "t/.cache").symlink_to("../elsewhere")
    (tmp_path / "t/far").symlink_to("../elsewhere")
    (tmp_path / "t/further").symlink_to("far")
    paths = [f"{tmp_path}/{name}" for name in ("t/b", "t", "elsewhere", "t/../t/hard")]
    wanted = {(tmp_path / "t/a").stat().st_ino, (tmp_path / "elsewhere/c").stat().st_ino}
    for given in (paths[:2], paths[1:], paths):
        files = found(given, deep=True).files
        assert len(files) == 2
        assert {Path(file.path).stat().st_ino for file in files} == wanted


@NO_MATTER
def test_files_without_numbers_are_told_apart_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems do not number them."""
    write(tmp_path, "top/d/a", "top/d/b")
    (tmp_path / "top/d/up").symlink_to("..")
    (tmp_path / "top/c").symlink_to("d/a")
    asked = os.stat

    def unnumbered(path: str, **options: bool) -> os.stat_result:
        state = asked(path, **options)
        return os.stat_result((state.st_mode, 0, *state[2:]))

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", unnumbered)
        files = found(str(tmp_path / "top"), deep=True).files
    assert [Path(file.path).name for file in files] == ["c", "b"]


def test_what_cannot_be_reached_is_not_left_out(tmp_path: Path) -> None:
    """Of a longer path than the system takes, functions of `os.path` say that nothing is there."""
    write(tmp_path, "t/a", "t/.hidden/h")
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "b").touch()
    for _ in range(12):
        inner = tmp_path / "inner"
        deep.rename(inner)
        deep.joinpath(*["d" * 200] * 2).mkdir(parents=True)
        inner.rename(deep.joinpath("d" * 200, "d" * 200, "d"))
    deep.rename(tmp_path / "t" / "deep")
    with pytest.raises(wk.InvalidValue, match=r"t' cannot be listed \(.*File name too long"):
        found(str(tmp_path / "t"), deep=True)
    for pattern in ("t/**/*", "t/**"):
        with pytest.raises(OSError, match="File name too long"):
            matched([f"{tmp_path}/{pattern}"])
    # What is hidden is not asked for.
    (tmp_path / "t" / "deep").rename(tmp_path / "t" / ".hidden" / "deep")
    assert [file.path for file in found(str(tmp_path / "t"), deep=True).files] == [f"{tmp_path}/t/a"]
    assert matched([f"{tmp_path}/t/**/*"]) == [tmp_path / "t" / "a"]
    assert format_of_inputs([tmp_path / "t"], "parquet") == "parquet"


CLOSED = """
    import os, sys

    from windowkit.cli.paths import matched
    from windowkit.errors import InvalidValue
    from windowkit.files.listing import found

    def refused(call, *given):
        try:
            call(*given)
        except (OSError, InvalidValue) as error:
            assert "Permission denied" in str(error) or os.geteuid() == 0, error
            return True
        return False

    top = sys.argv[1]
    patterns = [f"{top}/{each}" for each in sys.argv[2:]]
    # Modules that are imported when they are needed may be where nobody else is let in.
    refused(lambda: found(top, deep=True)), refused(matched, patterns), refused(found, f"{top}/nothing")
    # What one who owns a file may do is not told apart from what all may.
    if os.geteuid() == 0:
        os.setegid(65534), os.seteuid(65534)
    print(refused(lambda: found(top, deep=True)), *(refused(matched, [each]) for each in patterns))
"""


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such permissions")
@pytest.mark.parametrize("mode", [0o000, 0o111, 0o444])
def test_directories_that_may_not_be_read_are_not_left_out(tmp_path: Path, mode: int) -> None:
    write(tmp_path, "t/a", "t/closed/b")
    # The other user has to get there.
    shut = {
        each: each.stat().st_mode for each in (tmp_path, *tmp_path.parents) if not each.stat().st_mode & 1
    }
    for each, own in shut.items():
        each.chmod(own | 0o011)
    (tmp_path / "t/closed").chmod(mode)
    try:
        told = program(CLOSED, tmp_path / "t", "**/*", "*/*", "*/b", "c*/[b]")
        # A directory that may be entered but not listed still answers for a name that is known.
        assert told.split() == ["True", "True", "True", str(mode != 0o111), "True"]
        (tmp_path / "t/closed").rename(tmp_path / "t/.closed")
        assert program(CLOSED, tmp_path / "t", "**/*", "*").split() == ["False"] * 3
    finally:
        for each in (tmp_path / "t").glob("*closed"):
            each.chmod(0o755)
        for each, own in shut.items():
            each.chmod(own)


PATTERNS = ["*", "?", "[ab]", "[!a]*", ".*", "a*", "**", "b", ".h", "..", "[", "*a"]


@pytest.mark.parametrize("seed", range(20))
def test_patterns_match_what_those_of_glob_do(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = random.Random(seed)
    folders = [tmp_path / "t"]
    for _ in range(8):
        folders.append(draw.choice(folders) / draw.choice(["a", "b", "ab", ".h", "[", "*"]))
    for folder in folders:
        folder.mkdir(exist_ok=True)
        for name in draw.sample(["a.x", "b.x", ".x", "ba"], draw.randrange(4)):
            (folder / name).touch()
    (tmp_path / "t" / "circle").symlink_to("circle")
    (tmp_path / "t" / "nowhere").symlink_to("gone")
    monkeypatch.chdir(tmp_path / "t")
    for _ in range(40):
        pattern = os.path.join(*draw.choices(PATTERNS, k=draw.randrange(1, 4)))
        if Path(pattern).exists() or not glob.has_magic(pattern):
            continue
        # Of the directories that ``**`` is, what is in them is meant.
        inner = f"{pattern}/*" if pattern.endswith("**") else pattern
        wanted = {os.path.normpath(path) for path in glob.glob(inner, recursive=True)}
        try:
            got = {os.path.normpath(path) for path in matched([pattern])}
        except ArgumentsError:
            got = set()
        assert got == wanted, pattern


@NO_MATTER
def test_a_file_in_two_partitions_is_refused(tmp_path: Path) -> None:
    """Which of both values its rows have cannot be known."""
    write(tmp_path, "t/k=1/f", "t/k=1/j=2/f")
    (tmp_path / "t/k=1/again").symlink_to("../k=1")
    (tmp_path / "t/k=1/f").unlink()
    assert len(found(str(tmp_path / "t"), deep=True).files) == 1
    (tmp_path / "t/k=3").symlink_to("k=1")
    with pytest.raises(
        wk.InvalidValue, match=r"'.*k=3/j=2/f' is the same file as .* name {'k': '1', 'j': '2'}"
    ):
        found(str(tmp_path / "t"), deep=True)


def files_below(top: Path) -> set[tuple[int, int]]:
    """Return the identities of all files that one can get to, without paths: the definition."""
    seen: dict[tuple[int, int], Path] = {}
    ahead = [top]
    while ahead:
        path = ahead.pop()
        if not path.exists():
            continue
        state = path.stat()
        if seen.setdefault((state.st_dev, state.st_ino), path) is path and path.is_dir():
            ahead += path.iterdir()
    return {each for each, path in seen.items() if path.is_file()}


@NO_MATTER
@pytest.mark.parametrize("seed", range(20))
def test_directories_of_random_links(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    folders = [tmp_path / "t"]
    for at in range(draw.randrange(1, 9)):
        folders.append(draw.choice(folders) / f"d{at}")
    for folder in folders:
        folder.mkdir()
    there = list(folders)
    for at in range(draw.randrange(1, 25)):
        new = draw.choice(folders) / f"n{at}"
        if draw.random() < 0.4:
            pq.write_table(pa.table({"n": [1]}), new)
        else:
            new.symlink_to(draw.choice([*there, tmp_path / "nowhere", new]))
        there.append(new)
    wanted = files_below(tmp_path / "t")
    if not wanted:
        with pytest.raises(wk.InvalidValue, match="there are no files with data"):
            found(str(tmp_path / "t"), deep=True)
        return
    files = [Path(file.path).stat() for file in found(str(tmp_path / "t"), deep=True).files]
    assert sorted((state.st_dev, state.st_ino) for state in files) == sorted(wanted)
    alike = [path.stat() for path in matched([f"{tmp_path}/t/**/n*"]) if path.exists()]
    assert wanted <= {(state.st_dev, state.st_ino) for state in alike}
