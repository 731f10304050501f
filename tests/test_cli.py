"""The command `windowkit`, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import windowkit as wk
from support.commands import ARGUMENTS, QUERY, TABLE, refused, rows, run
from windowkit.cli import main
from windowkit.language.aggregation import parse_framed
from windowkit.language.windows import parse as parse_window


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    pa.parquet.write_table(TABLE, path)
    return path


class TestJobs:
    def test_parquet_to_parquet(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = tmp_path / "out.parquet"
        assert run(capsys, ["--input", source, "--output", output, *ARGUMENTS]) == (0, "", "")
        result = pa.parquet.read_table(output)
        wanted = QUERY.run(TABLE)
        assert result.column_names == wanted.column_names
        assert rows(result) == rows(wanted.cast(result.schema))

    def test_csv_to_csv_with_the_window_in_two_columns(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text(
            "k,ts,n\na,2024-01-01 00:00:01,1\na,2024-01-01 00:00:59,2\nb,2024-01-01 00:01:00,4\n"
        )
        requested = ["--by", "k", "--time", "ts", "--window", "tumbling(1 minute)", "--agg", "sum(n)"]
        assert run(capsys, ["--input", source, "--output", output, *requested]) == (0, "", "")
        assert sorted(output.read_text().splitlines()) == [
            '"a",2024-01-01 00:00:00,2024-01-01 00:01:00,3',
            '"b",2024-01-01 00:01:00,2024-01-01 00:02:00,4',
            '"k","window_start","window_end","sum(n)"',
        ]

    def test_a_directory_is_one_table(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        directory = tmp_path / "readings"
        (directory / "deep").mkdir(parents=True)
        pa.parquet.write_table(TABLE.slice(0, 2), directory / "one.parquet")
        pa.parquet.write_table(TABLE.slice(2), directory / "deep" / "two.parquet")
        (directory / "_SUCCESS").touch()
        output = tmp_path / "out.parquet"
        assert run(capsys, ["--input", directory, "--output", output, *ARGUMENTS]) == (0, "", "")
        assert rows(pa.parquet.read_table(output)) == rows(QUERY.run(TABLE))

    def test_inputs_given_one_by_one_are_one_table(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
        pa.parquet.write_table(TABLE.slice(0, 2), one)
        pa.parquet.write_table(TABLE.slice(2), two)
        output = tmp_path / "out.parquet"
        assert run(capsys, ["--input", one, "--input", two, "--output", output, *ARGUMENTS]) == (0, "", "")
        assert rows(pa.parquet.read_table(output)) == rows(QUERY.run(TABLE))

    def test_paths_without_an_ending_take_the_format_given(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        bare, output = source.rename(tmp_path / "readings"), tmp_path / "out"
        assert run(capsys, ["--input", bare, "--output", output, "--format", "parquet", *ARGUMENTS])[0] == 0
        assert rows(pa.parquet.read_table(output)) == rows(QUERY.run(TABLE))

    @pytest.mark.parametrize("name", ["in[1].parquet", "in?%41.parquet", "{in,1}.parquet", "file:in.parquet"])
    def test_names_are_no_patterns(
        self,
        name: str,
        source: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        source.rename(tmp_path / name)
        for other in ("in1.parquet", "in.parquet", "1.parquet"):
            (tmp_path / other).write_text("no Parquet")
        assert run(capsys, ["--input", name, "--output", "out.parquet", *ARGUMENTS]) == (0, "", "")
        assert rows(pa.parquet.read_table("out.parquet")) == rows(QUERY.run(TABLE))

    def test_several_windows_threads_and_quoted_names(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        table = pa.table({"a,b": ["x", "y"], "t": [1, 2], "v(1)": [1, 2]})
        pa.parquet.write_table(table, source)
        requested = ["--by", "`a,b`", "--time", "t", "--threads", "2", "--agg", "max(`v(1)`) as `top, max`"]
        requested += ["--window", "tumbling(10) as ten", "--window", "session(3)"]
        assert run(capsys, ["--input", source, "--output", output, *requested]) == (0, "", "")
        query = wk.query(
            by="a,b",
            time="t",
            windows=[wk.tumbling(10).alias("ten"), wk.session(3)],
            aggs=wk.max("v(1)").alias("top, max"),
        )
        assert rows(pa.parquet.read_table(output)) == rows(query.run(table))

    def test_rows_take_back_others(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, output = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_text("t,v,w\n1,5,1\n2,7,1\n1,5,-1\n14,3,1\n14,3,-1\n")
        requested = ["--time", "t", "--window", "tumbling(10)", "--agg", "sum(v)", "--weight", "w"]
        assert run(capsys, ["--input", source, "--output", output, *requested]) == (0, "", "")
        assert output.read_text().splitlines()[1:] == ["0,10,7"]

    def test_nothing_in_nothing_out(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = tmp_path / "in.parquet"
        pa.parquet.write_table(TABLE.slice(0, 0), source)
        for output in (tmp_path / "out.parquet", tmp_path / "out.csv"):
            assert run(capsys, ["--input", source, "--output", output, *ARGUMENTS]) == (0, "", "")
        assert pa.parquet.read_table(tmp_path / "out.parquet").num_rows == 0
        assert (tmp_path / "out.csv").read_text().count("\n") == 1

    def test_progress_is_shown_where_asked_for(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        requested = ["--input", source, "--output", tmp_path / "out.parquet", "--progress", *ARGUMENTS]
        status, out, err = run(capsys, requested)
        assert (status, out) == (0, "")
        assert "100%" in err
        assert "5.00/5.00" in err

    def test_explain_prints_and_writes_nothing(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        status, out, err = run(capsys, ["--input", source, "--explain", *ARGUMENTS])
        assert (status, err) == (0, "")
        counted = "rows without a time in column 'ts' of --input: 0 of 5\n"
        assert out == QUERY.explain(pa.parquet.read_schema(source)) + "\n" + counted
        assert [path.name for path in tmp_path.iterdir()] == ["readings.parquet"]

    def test_more_rows_than_a_row_group_holds(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        pa.parquet.write_table(pa.table({"t": [0, 600_000]}), source)
        requested = ["--time", "t", "--window", "sliding(1000000, 1)", "--agg", "count(*) as n"]
        assert run(capsys, ["--input", source, "--output", output, *requested]) == (0, "", "")
        written = pa.parquet.ParquetFile(output)
        assert written.metadata.num_rows == 1_600_000
        assert written.metadata.num_row_groups == 2


class TestOutputs:
    def test_an_existing_output_is_kept_unless_it_may_be_replaced(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = tmp_path / "out.parquet"
        output.write_text("precious")
        requested = ["--input", source, "--output", output, *ARGUMENTS]
        assert refused(capsys, requested) == f"--output: {str(output)!r} exists; --overwrite replaces it"
        assert output.read_text() == "precious"
        assert run(capsys, [*requested, "--overwrite"]) == (0, "", "")
        assert rows(pa.parquet.read_table(output)) == rows(QUERY.run(TABLE))

    def test_the_input_may_be_replaced(self, source: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(capsys, ["--input", source, "--output", source, "--overwrite", *ARGUMENTS]) == (0, "", "")
        assert rows(pa.parquet.read_table(source)) == rows(QUERY.run(TABLE))

    @pytest.mark.parametrize("ending", ["parquet", "csv"])
    def test_a_job_that_fails_leaves_no_file_and_keeps_the_old_one(
        self, ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.parquet", tmp_path / f"out.{ending}"
        table = pa.table({"t": range(100_000), "v": [1] * 99_998 + [2**63 - 1, 1]})
        pa.parquet.write_table(table, source)
        requested = [
            "--time",
            "t",
            "--window",
            "tumbling(2)",
            "--agg",
            "sum(v)",
            "--input",
            source,
            "--output",
            output,
        ]
        assert "does not fit" in refused(capsys, requested, status=1)
        assert [path.name for path in tmp_path.iterdir()] == ["in.parquet"]
        output.write_text("precious")
        assert "does not fit" in refused(capsys, [*requested, "--overwrite"], status=1)
        assert output.read_text() == "precious"
        assert len(list(tmp_path.iterdir())) == 2

    def test_a_broken_input_is_a_failed_job(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source = tmp_path / "in.csv"
        source.write_text("t,v\n" + "1,2\n" * 600_000 + "1,oops\n")
        requested = ["--time", "t", "--window", "tumbling(2)", "--agg", "sum(v)", "--input", source]
        # All values decide the type of a column, so that the last one is found before the job begins.
        message = refused(capsys, [*requested, "--output", tmp_path / "out.parquet"])
        assert message.endswith(f"; 'v' is text because of 'oops' in {str(source)!r}; see --types")
        forced = [*requested, "--types", "v=bigint", "--output", tmp_path / "out.parquet"]
        assert "oops" in refused(capsys, forced, status=1)
        assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]

    def test_a_type_that_csv_cannot_hold_is_refused_before_any_row_is_read(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        requested = [
            "--time",
            "ts",
            "--window",
            "tumbling(1 minute)",
            "--agg",
            "first(unused)",
            "--input",
            source,
        ]
        said = refused(capsys, [*requested, "--output", tmp_path / "out.csv"])
        assert said.startswith("--format: csv cannot hold column 'first(unused)', which is ")
        assert [path.name for path in tmp_path.iterdir()] == ["readings.parquet"]


class TestFill:
    @pytest.mark.parametrize(
        ("given", "wanted"), [(["zero"], [1, 0, 2]), (["n=previous"], [1, 1, 2]), (["null"], [1, None, 2])]
    )
    def test_windows_without_rows_are_filled(
        self, given: list[str], wanted: list[int | None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
        pa.parquet.write_table(pa.table({"t": [1, 25, 26]}), source)
        asked = ["--time", "t", "--window", "tumbling(10)", "--agg", "count(*) as n"]
        filled = [word for each in given for word in ("--fill", each)]
        assert run(capsys, ["--input", source, "--output", output, *asked, *filled]) == (0, "", "")
        assert pa.parquet.read_table(output)["n"].to_pylist() == wanted


def test_help_names_windows_and_functions(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    told = capsys.readouterr().out
    assert "windows: tumbling, sliding, session" in told
    assert "count_distinct" in told


class TestRefusals:
    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            (
                {"--input": "nowhere.parquet"},
                "--input: 'nowhere.parquet' does not exist; it is a file, or a dir",
            ),
            (
                {"--output": "nowhere/out.parquet"},
                "--output: 'nowhere' is not a directory; the directory of an output must exist",
            ),
            (
                {"--output": "out.txt"},
                "--output: 'out.txt' does not say its format; paths end in .parquet, .pq, ",
            ),
            ({"--time": "when"}, "--time: no column 'when'; "),
            ({"--time": "device"}, "--time: column 'device' is "),
            ({"--by": "device,nope"}, "--by: no column 'nope'; "),
            ({"--by": "device,,site"}, "--by: '' is empty; a name has at least one character"),
            (
                {"--window": "sliding(10 seconds)"},
                "--window: 'sliding(10 seconds)' is not a window; windows are tumbling(",
            ),
            ({"--window": "session(1 month)"}, "--window: gap: '1 month' has the calendar unit 'month'"),
            (
                {"--window": "tumbling(1 day, zone=UTC)"},
                '--window: tumbling(1 day, zone=UTC) has the zone "UTC", but column',
            ),
            (
                {"--window": "sliding(1 second, 2 seconds)"},
                "--window: slide: '2 seconds' is greater than size '1 second'; ",
            ),
            (
                {"--agg": "middle(v)"},
                "--agg: 'middle(v)' is not an aggregate; did you mean 'mode'? functions are count, sum, min",
            ),
            ({"--agg": "sum(device)"}, "--agg: sum is not defined for column 'device'"),
            (
                {"--agg": "sum(v) as ts2", "--by": "ts2"},
                "query: output column 'ts2' occurs twice; output columns must have different names, as by ",
            ),
            (
                {"--agg": "m4(v)", "--output": "out.csv"},
                "--format: csv cannot hold the lists, structs or bytes of m4(v); Parquet can",
            ),
            (
                {"--agg": "top_k(v, 3)", "--output": "out.csv"},
                "--format: csv cannot hold the lists, structs or bytes of top_k(v, 3); Parquet can",
            ),
            ({"--agg": "top_k(v, 2.5)"}, "--agg: k: 2.5 is out of range; k is a whole number from 1 to"),
            ({"--agg": "frequent(v, 0)"}, "--agg: share: 0.0 is out of range; share is a number above 0"),
            ({"--agg": "sum(v) where device"}, "--agg: where: column 'device' is "),
            ({"--agg": "quantile(v, half)"}, "--agg: 'half' in 'quantile(v, half)' is not a number; "),
            ({"--threads": "0"}, "--threads: 0 is out of range; threads is an int of at least 1"),
            (
                {"--threads": "many"},
                "--threads: invalid int value: 'many'; see windowkit aggregate --help",
            ),
            (
                {"--max-windows": "many"},
                "--max-windows: 'many' is not a number; it is an int of at least 1, or",
            ),
            ({"--max-windows": "0"}, "--max-windows: 0 is out of range; it is an int of at least 1"),
            ({"--weight": "w"}, "--weight: no column 'w'; there are device"),
            ({"--weight": "v"}, "--weight: column 'v' is double; allowed are columns of signed integers"),
            ({"--weight": ""}, "--weight: '' is empty"),
            ({"--fill": "zeros"}, "--fill: 'zeros' is unknown; allowed are 'null', 'zero', 'previous'"),
            ({"--fill": "n=zero"}, "--fill: 'n' is not an aggregate of the query; its aggregates are "),
            (
                {"--fill": "=zero"},
                "--fill: '=zero' is given; it is one of null, zero and previous, or one of",
            ),
            ({"--engine": "dask"}, "--engine: invalid choice: 'dask' "),
            (
                {"--master": "local[2]"},
                "--master: 'local[2]' is given without --engine spark; only Spark has a m",
            ),
            ({"--nope": "1"}, "unrecognized arguments: --nope 1; see windowkit --help"),
            (
                {"--window": None},
                "the following arguments are required: --window; see windowkit aggregate --help",
            ),
        ],
        ids=str,
    )
    def test_bad_arguments_are_two_lines_and_status_2(
        self,
        changed: dict[str, str | None],
        message: str,
        source: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(source.parent)
        given: dict[str, str | None] = {
            "--input": "readings.parquet",
            "--output": "out.parquet",
            "--by": "device",
            "--time": "ts",
            "--window": "tumbling(1 minute)",
            "--agg": "sum(v)",
        }
        options = (given | changed).items()
        arguments = [part for name, value in options if value is not None for part in (name, value)]
        assert refused(capsys, arguments).startswith(message)
        assert [path.name for path in source.parent.iterdir()] == ["readings.parquet"]

    @pytest.mark.parametrize(
        ("option", "one", "other"),
        [
            ("--time", "ts", "v"),
            ("--engine", "local", "spark"),
            ("--output", "a.csv", "b.csv"),
            ("--threads", "1", "2"),
        ],
    )
    def test_an_option_that_has_one_value_is_given_once(
        self, option: str, one: str, other: str, source: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        given = [each for each in ARGUMENTS if option != "--time" or each not in ("--time", "ts")]
        status, _, said = run(capsys, ["--input", source, *given, option, one, option, other])
        assert status == 2
        assert said.startswith(f"windowkit: error: {option}: it is given twice, as ")
        assert one in said
        assert other in said

    @pytest.mark.parametrize("option", ["--input", "--by", "--agg", "--output", "--threads", "--types"])
    def test_two_hyphens_are_no_value(
        self, option: str, source: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        told = refused(capsys, ["--input", source, *ARGUMENTS, f"{option}=--"])
        assert told.startswith(f"{option}: '--' is given, which is no value; a path of that name is './--'")

    @pytest.mark.parametrize(
        ("extra", "message"),
        [
            (
                ["--window-columns", "struct"],
                "--window-columns: 'struct' is given, and csv cannot hold structs; ",
            ),
            (["--agg", "max(v) as window_end"], "query: output column 'window_end' occurs twice; "),
        ],
    )
    def test_windows_of_csv_output_are_two_columns_of_their_own(
        self, extra: list[str], message: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        requested = ["--input", source, "--output", tmp_path / "out.csv", *ARGUMENTS, *extra]
        assert refused(capsys, requested).startswith(message)

    def test_a_directory_is_not_replaced_by_a_file(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "out.parquet").mkdir()
        requested = ["--input", source, "--output", tmp_path / "out.parquet", "--overwrite", *ARGUMENTS]
        assert "is a directory; the local engine writes a file" in refused(capsys, requested)


class TestProcess:
    """The command as a process of its own."""

    def spawn(self, *arguments: str | Path, python: Sequence[str] = ("-m", "windowkit")) -> Any:
        command = [sys.executable, *python, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def test_status_and_output_of_a_job(self, source: Path, tmp_path: Path) -> None:
        output = tmp_path / "out.parquet"
        done = self.spawn("aggregate", "--input", source, "--output", output, *ARGUMENTS)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        again = self.spawn("aggregate", "--input", source, "--output", output, *ARGUMENTS)
        assert (again.returncode, again.stdout) == (2, "")
        given = f"windowkit: error: --output: {str(output)!r} exists"
        assert again.stderr == f"{given}\n  --overwrite replaces it\n"

    def test_variables_that_tqdm_refuses(
        self, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TQDM_MININTERVAL", "often")
        output = tmp_path / "out.parquet"
        done = self.spawn("aggregate", "--input", source, "--output", output, *ARGUMENTS)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("windowkit: error: TQDM_...: a variable of the environment")
        assert "'often'" in done.stderr
        assert not output.exists()

    def test_help_names_the_forms_of_windows_and_aggregates(self) -> None:
        done = self.spawn("aggregate", "--help")
        assert done.returncode == 0
        words = " ".join(done.stdout.split())
        assert "sliding(10 minutes, 1 minute)" in words
        assert "count(*)" in words
        assert self.spawn("--version").stdout == f"windowkit {wk.__version__}\n"

    def test_without_pyspark_the_spark_engine_says_how_to_install_it(
        self, source: Path, tmp_path: Path
    ) -> None:
        program = (
            "import sys; sys.modules['pyspark'] = None; from windowkit.cli import main; sys.exit(main())"
        )
        requested = ["--input", source, "--output", tmp_path / "out.parquet", "--engine", "spark", *ARGUMENTS]
        done = self.spawn("aggregate", *requested, python=("-c", program))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(
            "windowkit: error: --engine: spark needs pyspark, which cannot be imported"
        )
        assert done.stderr.endswith('pip install "windowkit[spark]"\n')


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        (["1", "__HIVE_DEFAULT_PARTITION__"], pa.int32(), ["1", "None"]),
        (["1", "2.5"], pa.float64(), ["1.0", "2.5"]),
        (["2024-05-01", "2024-05-02"], pa.date32(), ["2024-05-01", "2024-05-02"]),
        (["99999999999999999999"], pa.decimal128(38, 0), ["99999999999999999999"]),
        (["2024-05-01 10:00:00"], pa.timestamp("us"), ["2024-05-01 10:00:00"]),
        (["a%2Fb", "1"], pa.string(), ["1", "a/b"]),
    ],
    ids=str,
)
def test_directories_have_types(
    values: list[str],
    kind: pa.DataType,
    wanted: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without Spark decimals are of one width, and times are without a zone, as no session has one."""
    for value in values:
        (tmp_path / "in" / f"key={value}").mkdir(parents=True)
        table = pa.table({"ts": pa.array([1, 2], pa.timestamp("s")), "key": ["own", "own"]})
        pyarrow.parquet.write_table(table, tmp_path / "in" / f"key={value}" / "part.parquet")
    output = tmp_path / "out.parquet"
    arguments = ["--input", tmp_path / "in", "--output", output, "--by", "key", "--time", "ts"]
    status, _, error = run(capsys, [*arguments, "--window", "tumbling(1 hour)", "--agg", "count(*)"])
    assert status == 0, error
    found = pyarrow.parquet.read_table(output, partitioning=None)
    assert found.schema.field("key").type == kind
    assert sorted(map(str, found["key"].to_pylist())) == wanted
    assert found["count(1)"].to_pylist() == [2] * len(values)


def test_times_of_int96_are_no_nanoseconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    last = datetime(9999, 12, 31)
    table = pa.table({"ts": pa.array([last], pa.timestamp("us"))})
    pyarrow.parquet.write_table(table, source, use_deprecated_int96_timestamps=True)
    requested = ["--time", "ts", "--window", "tumbling(1 hour)", "--agg", "max(ts) as last"]
    assert run(capsys, ["--input", source, "--output", output, *requested])[0] == 0
    assert pyarrow.parquet.read_table(output)["last"].to_pylist() == [last]


def test_directories_as_spark_partitions_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for key in ("x", "y"):
        (tmp_path / "in" / f"key={key}").mkdir(parents=True)
        table = pa.table({"ts": pa.array([1, 2], pa.timestamp("s"))})
        pyarrow.parquet.write_table(table, tmp_path / "in" / f"key={key}" / "part.parquet")
    output = tmp_path / "out.parquet"
    arguments = ["--input", tmp_path / "in", "--output", output, "--by", "key", "--time", "ts"]
    status, _, _ = run(capsys, [*arguments, "--window", "tumbling(1 hour)", "--agg", "count(*)"])
    assert status == 0
    assert sorted(pyarrow.parquet.read_table(output, partitioning=None)["key"].to_pylist()) == ["x", "y"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "expanding(v)",
            "did you mean sum(v) over (unbounded) of rolling, or for windows landmark(10 minutes, ",
        ),
        ("lag(v)", "did you mean last(v) over (1 row, closed left) of rolling? functions "),
        ("covar_pop(v, w)", "did you mean wk.aggregate of Python, for a function of your own? functions "),
        ("nunique(v)", "did you mean 'count_distinct'? functions "),
        ("sum(v) over (1 day)", "rows have aggregates over frames by 'windowkit rolling'"),
        ("sum(v) over (1 day) as s", "rows have aggregates over frames by 'windowkit rolling'"),
    ],
)
def test_what_is_meant_by_functions_elsewhere(
    text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--input", "in.csv", "--time", "t", "--window", "tumbling(1 day)", "--agg", text]
    assert refused(capsys, command).partition("; ")[2].startswith(said)
    if "over" not in text:
        rolled = ["--input", "in.csv", "--time", "t", "--agg", f"{text} over (1 day)"]
        assert refused(capsys, rolled, command="rolling").partition("; ")[2].startswith(said)


def test_the_meant_text_forms_are_read() -> None:
    for text in ("sum(v) over (unbounded)", "last(v) over (1 row, closed left)"):
        assert parse_framed(text).aggregate.function == text[: text.index("(")]
    text = "landmark(10 minutes, period=1 day)"
    assert str(parse_window(text)) == text


def test_dates_of_windows_are_a_column_of_csv(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--input", source, "--time", "ts", "--window", "tumbling(1 day)", "--agg", "count(*) as n"]
    assert run(capsys, [*command, "--window-columns", "date"])[1] == '"window_date","n"\n1970-01-01,5\n'
    assert "window_date" in run(capsys, ["--help"])[1]
