"""What the command `windowkit` reads and writes in this process: patterns, filters, text times, stdout."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import windowkit as wk
from support.commands import ARGUMENTS, NEWLINES, QUERY, TABLE, check_newlines, message, refused, rows, run
from support.programs import ROOT
from windowkit.cli import main

COUNT = ["--time", "ts", "--window", "tumbling(1 day)", "--agg", "count(*) as n"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    pa.parquet.write_table(TABLE, path)
    return path


def spawned(arguments: Sequence[str | Path], **options: Any) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "windowkit", "aggregate", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, timeout=120, check=False, env={"PYTHONPATH": ROOT}, **options
    )


class TestStdout:
    def test_each_format_is_what_a_file_would_be(self, source: Path) -> None:
        wanted = rows(QUERY.run(TABLE))
        for form, read in (
            ("arrow", lambda out: pa.ipc.open_stream(out).read_all()),
            ("parquet", lambda out: pa.parquet.read_table(io.BytesIO(out))),
        ):
            done = spawned(["--input", source, "--output", "-", "--format", form, *ARGUMENTS])
            assert (done.returncode, done.stderr) == (0, b"")
            table = read(done.stdout)
            assert rows(table.cast(QUERY.schema(TABLE))) == wanted
            if form == "arrow":
                stream = source.with_name("stream.arrow")
                stream.write_bytes(done.stdout)
                again = spawned(["--input", stream, *ARGUMENTS])
                assert again.returncode == 2
                assert b"files of Arrow's file format are read, as --output writes them" in again.stderr
        done = spawned(["--input", source, *ARGUMENTS])
        assert (done.returncode, done.stderr) == (0, b"")
        nulls = pa.csv.ConvertOptions(strings_can_be_null=True)
        table = pa.csv.read_csv(io.BytesIO(done.stdout), convert_options=nulls)
        assert table.column_names == QUERY.columns
        assert rows(table.cast(QUERY.schema(TABLE))) == wanted

    def test_a_reader_that_leaves_is_no_error(self, tmp_path: Path) -> None:
        path = tmp_path / "in.parquet"
        pa.parquet.write_table(pa.table({"ts": list(range(400_000))}), path)
        requested = ["--input", path, "--time", "ts", "--window", "tumbling(1)", "--agg", "count(*)"]
        command = [sys.executable, "-m", "windowkit", "aggregate", *map(str, requested)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={"PYTHONPATH": ROOT}
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == b'"window_start","window_end","count(1)"\n'
            process.stdout.close()
            assert process.stderr.read() == b""
            assert process.wait(60) == 141

    def test_a_job_that_fails_says_so(self, tmp_path: Path) -> None:
        path = tmp_path / "in.parquet"
        pa.parquet.write_table(pa.table({"ts": [1, 1], "v": [2**63 - 1, 1]}), path)
        requested = ["--time", "ts", "--window", "tumbling(2)", "--agg", "sum(v)", "--input", path]
        done = spawned(requested)
        assert done.returncode == 1
        assert b"does not fit" in done.stderr


class TestFormats:
    def test_arrow_files_are_read_and_written(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.feather", tmp_path / "out.arrow"
        pa.feather.write_feather(TABLE, source)
        assert run(capsys, ["--input", source, "--output", output, *ARGUMENTS]) == (0, "", "")
        assert rows(pa.ipc.open_file(output).read_all()) == rows(QUERY.run(TABLE))

    @pytest.mark.parametrize("form", [None, "flat", "struct"])
    def test_windows_are_two_columns_or_one(
        self,
        form: Literal["flat", "struct"] | None,
        source: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        output = tmp_path / "out.parquet"
        option = [] if form is None else ["--window-columns", form]
        assert run(capsys, ["--input", source, "--output", output, *option, *ARGUMENTS]) == (0, "", "")
        wanted = replace(QUERY, window_columns=form or "flat").run(TABLE)
        found = pa.parquet.read_table(output)
        assert found.column_names == wanted.column_names
        assert rows(found.cast(wanted.schema)) == rows(wanted)


class TestInputs:
    def parts(self, folder: Path) -> None:
        for at, name in enumerate(("2024-1.csv", "2024-2.csv", "2023-1.csv")):
            (folder / name).write_text(f"ts,v\n2024-01-01 00:00:0{at},{at}\n")

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            (["2024-*.csv"], 2),
            (["*.csv"], 3),
            (["202[34]-1.csv"], 2),
            (["2024-1.csv", "2023-1.csv"], 2),
            (["**/*.csv"], 3),
        ],
        ids=str,
    )
    def test_patterns_and_several_files(
        self,
        given: list[str],
        wanted: int,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        self.parts(tmp_path)
        assert run(capsys, ["--input", *given, "--output", "out.arrow", *COUNT]) == (0, "", "")
        assert pa.ipc.open_file("out.arrow").read_all()["n"].to_pylist() == [wanted]

    def test_what_matches_nothing_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.parts(tmp_path)
        message = refused(capsys, ["--input", tmp_path / "2025-*.csv", *COUNT])
        assert message.startswith(f"--input: {str(tmp_path / '2025-*.csv')!r} matches no file; it is a file")

    def test_files_of_two_formats_are_refused(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.parts(tmp_path)
        message = refused(capsys, ["--input", source, tmp_path / "2024-1.csv", *COUNT])
        assert "is parquet and " in message
        assert message.endswith("is csv; all files of a job have one format")


UTC = timezone.utc
COLUMNS = pa.table(
    {
        "ts": pa.array([datetime(2024, 1, day, 12) for day in (1, 2, 3)], pa.timestamp("ms")),
        "zoned": pa.array(
            [datetime(2024, 1, day, 12, tzinfo=UTC) for day in (1, 2, 3)], pa.timestamp("ns", "Asia/Tokyo")
        ),
        "day": pa.array([19723, 19724, 19725], pa.int32()).cast(pa.date32()),
        "d64": pa.array([datetime(2024, 1, day) for day in (1, 2, 3)], pa.date64()),
        "n": pa.array([1, 2, None], pa.int8()),
        "x": [0.5, float("nan"), -0.0],
        "k": pa.array(["a", "b", "it's"], pa.large_string()),
        "c": pa.array(["a", "b", "a"]).dictionary_encode(),
        "ok": [True, False, None],
        "price": pa.array([150, 200, 250], pa.int64()).cast(pa.decimal128(21, 2)),
    }
)


class TestFilters:
    @pytest.mark.parametrize(
        ("filters", "wanted"),
        [
            (["ts >= 2024-01-02"], [2, 3]),
            (["ts > '2024-01-01 12:00:00.000'"], [2, 3]),
            (["ts < 2024-01-01T12:00:00.001"], [1]),
            (["zoned >= 2024-01-02 12:00"], [2, 3]),
            (["zoned > 2024-01-02T12:00:00+02:00"], [2, 3]),
            (["day = 2024-01-02"], [2]),
            (["d64 in (2024-01-02, 2024-01-03)"], [2, 3]),
            (["n != 1"], [2]),
            (["n > 1.5"], [2]),
            (["n < 1000"], [1, 2]),
            (["x > 0"], [1, 2]),
            (["x = 0"], [3]),
            (["k in (a, 'it''s')"], [1, 3]),
            (["k not in (a)"], [2, 3]),
            (["c = a"], [1, 3]),
            (["ok = true"], [1]),
            (["price >= 200"], [2, 3]),
            (["ts >= 2024-01-02", "c = a"], [3]),
            (["k = nobody"], []),
        ],
        ids=str,
    )
    def test_rows_are_those_that_all_comparisons_hold_of(
        self, filters: list[str], wanted: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.arrow", tmp_path / "out.arrow"
        pa.feather.write_feather(COLUMNS, source)
        options = [part for text in filters for part in ("--filter", text)]
        requested = ["--input", source, "--output", output, *options]
        requested += ["--time", "ts", "--window", "tumbling(1 day)", "--agg", "count(*) as n"]
        assert run(capsys, requested) == (0, "", "")
        found = pa.ipc.open_file(output).read_all()
        assert sorted(start.day for start in found["window_start"].to_pylist()) == wanted

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "nn > 1",
                "--filter: there is no column 'nn'; did you mean 'n'? columns are 'ts', 'zoned', 'day',",
            ),
            ("days > 1", "did you mean 'day'?"),
            ("n like 1", "--filter: 'n like 1' is not a comparison; filters are"),
            ("n > soon", "--filter: 'soon' is compared with 'n', a column of int8"),
            ("ts > soon", "--filter: 'soon' is compared with 'ts', a column of timestamp"),
        ],
    )
    def test_what_is_no_filter_is_refused(
        self, text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pa.feather.write_feather(COLUMNS, tmp_path / "in.arrow")
        assert message in refused(capsys, ["--input", tmp_path / "in.arrow", "--filter", text, *COUNT])

    def test_directories_are_columns_too(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for day in (1, 2):
            (tmp_path / "in" / f"day={day}").mkdir(parents=True)
            pa.parquet.write_table(TABLE, tmp_path / "in" / f"day={day}" / "part.parquet")
        output = tmp_path / "out.arrow"
        requested = ["--input", tmp_path / "in", "--output", output, "--filter", "day > 1", *COUNT]
        assert run(capsys, requested) == (0, "", "")
        assert pa.ipc.open_file(output).read_all()["n"].to_pylist() == [TABLE.num_rows]


class TestTimesOfText:
    @pytest.mark.parametrize(
        ("texts", "kind"),
        [
            ([None, "2024-01-01T00:00:01", "2024-01-02 00:00:00.5"], pa.timestamp("us")),
            (["2024-01-01T00:00:01Z", "2024-01-02T02:00:00+02:00", None], pa.timestamp("us", "UTC")),
            (["2024-01-01T00:00:00.123456789Z"], pa.timestamp("ns", "UTC")),
            (["2024-01-01", "2024-01-02"], pa.timestamp("us")),
        ],
        ids=str,
    )
    def test_times_are_read(
        self, texts: list[str | None], kind: pa.DataType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = tmp_path / "out.parquet"
        for text in (pa.string(), pa.large_string()):
            table = pa.table({"ts": pa.array(texts, text)})
            pa.parquet.write_table(table, tmp_path / "in.parquet")
            requested = ["--input", tmp_path / "in.parquet", "--output", output, "--overwrite", *COUNT]
            assert run(capsys, requested) == (0, "", "")
            query = wk.query(by=[], time="ts", windows=wk.tumbling("1 day"), aggs=wk.count().alias("n"))
            wanted = query.run(pa.table({"ts": pc.cast(pa.array(texts), kind)}))
            assert rows(pa.parquet.read_table(output)) == rows(wanted)

    def test_text_that_is_no_time_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "in.parquet"
        pa.parquet.write_table(pa.table({"ts": ["soon"]}), path)
        assert "time: column 'ts'" in refused(capsys, ["--input", path, *COUNT])
        pa.parquet.write_table(pa.table({"ts": ["2024-01-01", "soon"]}), path)
        requested = ["--input", path, "--output", tmp_path / "out.parquet", *COUNT]
        # All values are looked at before the job begins.
        assert "'ts' is text because of 'soon'" in refused(capsys, requested)


def test_help_lists_windows_and_functions(capsys: pytest.CaptureFixture[str]) -> None:
    from windowkit.language.functions import FORMS as FUNCTIONS
    from windowkit.language.windows.text import FORMS as WINDOWS

    status, out, _ = run(capsys, ["--help"])
    assert status == 0
    for name in (*FUNCTIONS, *WINDOWS):
        assert f"\n  {name} " in out, name
    assert max(map(len, out.splitlines())) <= 100


def test_names_of_columns_do_not_reach_the_terminal_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes("t,\x1b[31mred,\x9b2J,\u202ebidi,é\n1,2,3,4,5\n".encode())
    message = refused(capsys, ["--input", path, *COUNT])
    assert message.isprintable()
    assert "\\x1b[31mred" in message
    assert "é" in message
    shown = ["--by", "\x1b[31mred,\x9b2J,\u202ebidi,é", "--time", "t", "--window", "tumbling(10)"]
    status, out, _ = run(capsys, ["--input", path, *shown, "--agg", "max(\x1b[31mred)", "--explain"])
    assert status == 0
    assert all(line.isprintable() for line in out.split("\n"))
    assert out.startswith("query by \\x1b[31mred, ")
    assert "é" in out


@pytest.mark.parametrize("command", NEWLINES)
def test_names_with_newlines_begin_no_line_of_what_is_explained(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check_newlines(capsys, command)


@pytest.mark.parametrize(
    "asked", [[], ["--format", "parquet"], ["--explain"]], ids=["rows", "parquet", "explain"]
)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has such a device")
def test_a_full_stdout_is_a_failed_job(asked: list[str], source: Path) -> None:
    command = [sys.executable, "-m", "windowkit", "aggregate", "--input", str(source), *ARGUMENTS, *asked]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
            env={"PYTHONPATH": ROOT},
        )
    assert done.returncode == 1
    assert message(done.stderr.decode()) in (
        "--output: stdout cannot be written (No space left on device)",
        "[Errno 28] No space left on device",
    )


@pytest.mark.parametrize("asked", ["--version", "--help"])
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has such a device")
def test_help_that_cannot_be_written_is_no_success(asked: str) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "windowkit", asked],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=120,
            check=False,
            env={"PYTHONPATH": ROOT},
        )
    assert (done.returncode, message(done.stderr.decode())) == (1, "[Errno 28] No space left on device")


@pytest.mark.parametrize("how", ["closed", "full", "unread"])
def test_a_job_does_not_fail_as_nobody_reads_its_stderr(how: str, source: Path, tmp_path: Path) -> None:
    ends = {"closed": "2>&-", "full": "2>/dev/full", "unread": "2> >(exec 0<&-)"}
    command = [sys.executable, "-m", "windowkit", "aggregate", "--input", str(source), *ARGUMENTS]
    # The reader has gone by then.
    shell = ["bash", "-c", f'exec {ends[how]}; sleep 0.2; exec "$@"', "bash", *command, "--progress"]

    def done(*arguments: str) -> tuple[int, bytes]:
        run = subprocess.run(
            [*shell, *arguments], stdout=subprocess.PIPE, timeout=120, check=False, env={"PYTHONPATH": ROOT}
        )
        return run.returncode, run.stdout

    output = tmp_path / "out.csv"
    assert done("--output", str(output)) == (0, b"")
    assert output.exists()
    # Nor does an error become a part of the result.
    assert done("--output", str(output)) == (2, b"")


def test_names_are_explained_in_the_encoding_of_stdout(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("ts,é日\n1970-01-01,2\n", encoding="utf-8")
    command = [sys.executable, "-m", "windowkit", "aggregate", "--input", str(path), *COUNT, "--by", "é日"]
    done = subprocess.run(
        [*command, "--explain"],
        capture_output=True,
        timeout=120,
        check=False,
        env={"PYTHONPATH": ROOT, "PYTHONIOENCODING": "latin-1"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"query by \xe9\\u65e5 over ts")


def test_a_closed_stdout_is_a_failed_job(source: Path) -> None:
    command = [sys.executable, "-m", "windowkit", "aggregate", "--input", str(source), *ARGUMENTS]
    shell = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    done = subprocess.run(shell, stderr=subprocess.PIPE, timeout=120, check=False, env={"PYTHONPATH": ROOT})
    assert done.returncode == 1
    assert message(done.stderr.decode()).startswith("--output: stdout is closed; ")


def test_no_file_takes_the_place_of_a_closed_stream(source: Path, tmp_path: Path) -> None:
    """What is written to stdout and stderr beside Python, also by a child, would be in it."""
    code = """
        import os, subprocess, sys
        from windowkit.cli import main
        assert main(sys.argv[1:]) == 0
        null = os.stat(os.devnull).st_rdev
        assert [os.fstat(number).st_rdev for number in range(3)] == [null] * 3
        subprocess.run(["sh", "-c", "echo 1; echo 2 >&2"], check=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(code), "aggregate", "--input", str(source), *COUNT]
    shell = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command, "--output", str(tmp_path / "out.csv")]
    assert subprocess.run(shell, timeout=120, check=False, env={"PYTHONPATH": ROOT}).returncode == 0


@pytest.mark.parametrize("name", ["in.csv.gz", "in.jsonl.gz"])
def test_a_file_that_is_cut_off_is_named(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b'{"ts": 1}\n' if "json" in name else b"ts\n1\n")[:-3])
    told = refused(capsys, ["--input", path, *COUNT])
    assert told.startswith("--input: ")
    assert f"'{path}'" in told
    assert "Truncated compressed stream" in told


@pytest.mark.parametrize(
    "option", [["--filter", "v = \udcff"], ["--filter", "\udcff > 1"], ["--time-format", "%Y\udcff"]]
)
def test_options_that_are_no_text_are_refused(
    option: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("ts,v\n2024-01-01,a\n")
    told = refused(capsys, ["--input", tmp_path / "in.csv", *COUNT, *option])
    assert "udcff" in told


def test_what_is_neither_file_nor_directory_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "in.csv")
    told = refused(capsys, ["--input", tmp_path / "in.csv", *COUNT])
    assert "in.csv' is neither a file nor a directory; inputs are files, directories of files" in told
    assert "- for stdin" in told


def test_paths_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty one, as of a variable that is not set, is not the directory that one is in."""
    (tmp_path / "in.csv").write_text("ts\n2024-01-01\n")
    assert "--input: '' is given; a path is not empty" in refused(capsys, ["--input", "", *COUNT])
    for engine in ("local", "spark"):
        asked = ["--input", tmp_path / "in.csv", *COUNT, "--output", "", "--overwrite", "--engine", engine]
        told = refused(capsys, [*asked, "--format", "csv"])
        assert told == "--output: '' is given; a path is not empty"
    given = ["--input", tmp_path / "in.csv", *COUNT, "--output", tmp_path / "a\0b.csv"]
    assert "has a NUL" in refused(capsys, given)


def test_an_error_is_said_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.BytesIO()
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(said, "ascii"))
    assert main(["aggregate", "--input", "é.csv", *COUNT]) == 2
    assert said.getvalue().startswith(rb"windowkit: error: --input: '\xe9.csv' does not exist")


class TestStdin:
    """`--input -`, as a pipe has it."""

    def test_it_has_the_rows_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "readings.csv"
        pa.csv.write_csv(TABLE.drop_columns(["unused"]), path)
        wanted = spawned(["--input", path, *ARGUMENTS])
        assert wanted.returncode == 0
        got = spawned(["--input", "-", *ARGUMENTS], input=path.read_bytes())
        assert (got.returncode, got.stdout) == (0, wanted.stdout)

    @pytest.mark.parametrize("write", [pa.ipc.new_stream, pa.ipc.new_file])
    def test_it_may_be_a_stream_or_a_file_of_arrow(self, write: Any, tmp_path: Path) -> None:
        sink = io.BytesIO()
        with write(sink, TABLE.schema) as file:
            file.write_table(TABLE)
        output = tmp_path / "windows.parquet"
        done = spawned(
            ["--input", "-", "--format", "arrow", "--output", output, *ARGUMENTS], input=sink.getvalue()
        )
        assert (done.returncode, done.stderr) == (0, b"")
        assert rows(pa.parquet.read_table(output)) == rows(QUERY.run(TABLE))

    @pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
    @pytest.mark.parametrize("write", [pa.ipc.new_stream, pa.ipc.new_file, pa.parquet.ParquetWriter])
    @pytest.mark.parametrize("table", [TABLE, TABLE.slice(0, 0)], ids=["rows", "no rows"])
    def test_another_format_than_the_one_that_is_read_is_named(
        self,
        table: pa.Table,
        write: Any,
        form: str,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        sink = io.BytesIO()
        with write(sink, table.schema) as file:
            file.write_table(table)
        sink.seek(0)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(sink))
        own = "parquet" if write is pa.parquet.ParquetWriter else "arrow"
        # By default, rows are in CSV.
        arguments = ["--input", "-", *COUNT, *(["--format", form] if form != "csv" else []), "--explain"]
        if form == own:
            assert run(capsys, arguments)[0] == 0
        else:
            said = f"--input: stdin is of the format {own!r}, not {form!r}; --format {own} reads it"
            assert refused(capsys, arguments) == said

    def test_a_header_of_text_may_begin_as_other_formats_do(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        text = b"PAR1,ts\n1,2024-05-01\n"
        for name in (b"PAR1", b"ARROW1"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.replace(b"PAR1", name))))
            assert run(capsys, ["--input", "-", *COUNT])[0] == 0

    @pytest.mark.parametrize(
        ("given", "arguments", "says"),
        [
            (b"", ["-"], "--input: stdin is empty; it has rows of the format 'csv', see --format"),
            (b"", ["-", "-"], "--input: '-' is given twice; stdin is read once"),
            (b"ts,v", ["-", "--format", "arrow"], "--input: stdin is no stream or file of Arrow ("),
            (
                b"ts\n1",
                ["-", "--engine", "spark", "--master", "spark://host:1"],
                "spark://host:1 does not read",
            ),
        ],
    )
    def test_what_it_cannot_be_is_refused(self, given: bytes, arguments: list[str], says: str) -> None:
        done = spawned(["--input", *arguments, *COUNT], input=given)
        assert (done.returncode, done.stdout) == (2, b"")
        assert says in message(done.stderr.decode())


@pytest.mark.parametrize(("ending", "codec"), [("gz", "gzip"), ("bz2", "bz2")])
def test_compressed_csv_files_are_read_as_they_are_unpacked(
    ending: str, codec: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, packed = tmp_path / "plain", tmp_path / "packed"
    for folder in (plain, packed):
        folder.mkdir()
    for part in ("one", "two"):
        pa.csv.write_csv(TABLE.drop_columns(["unused"]), plain / f"{part}.csv")
        with pa.CompressedOutputStream(str(packed / f"{part}.csv.{ending}"), codec) as file:
            file.write((plain / f"{part}.csv").read_bytes())
    wanted = run(capsys, ["--input", plain, *COUNT])
    assert wanted[0] == 0
    names = [packed / f"{part}.csv.{ending}" for part in ("one", "two")]
    for given in (names, [packed], [packed / f"*.csv.{ending}"], [names[0], plain / "two.csv"]):
        assert run(capsys, ["--input", *given, *COUNT]) == wanted


class TestRowsWithoutTimes:
    @pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
    def test_explain_counts_them(self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = self.written(tmp_path, kind, ["2024-01-01T00:00:00", None, None])
        requested = ["--input", source, "--time", "t", "--agg", "count(*)", "--window", "tumbling(1 day)"]
        _, out, _ = run(capsys, [*requested, "--explain"])
        assert out.endswith("rows without a time in column 't' of --input: 2 of 3\n")
        _, out, _ = run(capsys, [*requested, "--filter", "v > 1", "--explain"])
        assert out.endswith("rows without a time in column 't' of --input: 1 of 1\n")
        joined = ["--left", source, "--right", source, "--left-time", "t", "--right-time", "t"]
        joined += ["--within", "1 hour", "--right-filter", "v < 2", "--explain"]
        _, out, _ = run(capsys, joined, "join")
        assert out.endswith(" of --left: 2 of 3\nrows without a time in column 't' of --right: 1 of 2\n")

    @pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
    def test_where_none_has_a_time_it_is_said(
        self, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        requested = ["--time", "t", "--agg", "count(*) as n", "--window", "tumbling(1 day)"]
        for texts, warned in (
            (
                [None, None],
                "none of its 2 rows has a time in column 't'; a row without a time is in no window",
            ),
            ([None, "2024-01-01T00:00:00"], ""),
        ):
            source = self.written(tmp_path, kind, texts)
            for output in ([], ["--output", tmp_path / "out.parquet", "--overwrite"]):
                status, _, error = run(capsys, ["--input", source, *requested, *output])
                assert status == 0, error
                assert error.startswith(f"windowkit: warning: --input: {warned}" if warned else "")
                assert bool(error) == bool(warned)

    def test_it_is_said_once(self, tmp_path: Path) -> None:
        """Python would add its own warning, with a line of the program."""
        (tmp_path / "in.csv").write_text("ts,v\n,1\n")
        done = spawned(["--input", tmp_path / "in.csv", *COUNT])
        assert done.returncode == 0
        said = done.stderr.decode()
        assert said.startswith("windowkit: warning: --input: none of its 1 rows has a time")
        assert said.count("\n") == 1

    def written(self, folder: Path, kind: str, texts: list[str | None]) -> Path:
        path = folder / f"in.{kind}"
        table = pa.table({"t": pa.array(texts, pa.string()), "v": pa.array(range(len(texts)), pa.int64())})
        if kind == "csv":
            pa.csv.write_csv(table, path)
        elif kind == "parquet":
            pa.parquet.write_table(table.set_column(0, "t", table["t"].cast(pa.timestamp("us"))), path)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        return path
