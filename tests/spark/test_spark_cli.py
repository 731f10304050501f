"""The command `windowkit` with Spark as its engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

from support.commands import ARGUMENTS, NEWLINES, QUERY, TABLE, check_newlines, refused, rows, run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "readings.parquet"
    pa.parquet.write_table(TABLE, path)
    return path


class TestSpark:
    """A command with ``--engine spark``: the same rows."""

    OPTIONS = ("--engine", "spark", "--master", "local[1]")

    @pytest.fixture(autouse=True)
    def no_session_is_left(self) -> Iterator[None]:
        before = SparkSession.getActiveSession()
        yield
        started = SparkSession.getActiveSession()
        if before is None and started is not None:
            started.stop()

    def test_names_with_newlines_begin_no_line_of_what_is_explained(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for command in NEWLINES:
            for route in ([], ["--route", "packed"]):
                check_newlines(capsys, command, *self.OPTIONS, *route)

    def test_jobs_and_their_failures(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table = TABLE.drop_columns("unused").set_column(2, "ts", TABLE["ts"].cast(pa.timestamp("us", "UTC")))
        # Not a pattern, of which the other would be: names are those of files.
        source, other = source.rename(tmp_path / "in[1] %41.parquet"), tmp_path / "in1 %41.parquet"
        other.write_text("no Parquet")
        pa.parquet.write_table(table, source)
        command = ["--input", source, *ARGUMENTS, *self.OPTIONS]
        wanted = QUERY.run(table)
        types = pa.schema([(field.name, field.type) for field in wanted.schema])

        output = tmp_path / "out.parquet"
        assert run(capsys, [*command, "--output", output])[:2] == (0, "")
        assert rows(pa.dataset.dataset(output).to_table().cast(types)) == rows(wanted)

        text = tmp_path / "out.csv"
        text.mkdir()
        (text / "precious").touch()
        assert refused(capsys, [*command, "--output", text]).endswith("exists; --overwrite replaces it")
        assert (text / "precious").exists()
        replaced = [*command, "--output", source.parent, "--format", "parquet", "--overwrite"]
        assert refused(capsys, replaced).endswith("which would be replaced, too; a result belongs elsewhere")
        assert source.exists()
        assert run(capsys, [*command, "--output", text, "--overwrite"])[:2] == (0, "")
        assert not (text / "precious").exists()
        written = pa.dataset.dataset(text, format="csv").to_table()
        assert written.column_names == ["device", "site", "window_start", "window_end", "total", "count(1)"]
        assert written.num_rows == wanted.num_rows

        status, out, _ = run(capsys, [*command, "--explain"])
        assert status == 0
        assert out.startswith("query by device, site over ts\n")

        unknown = ["--input", source, "--output", tmp_path / "no", "--format", "csv", *self.OPTIONS]
        unknown += ["--time", "ts", "--window", "tumbling(1 day)", "--agg", "sum(nope)"]
        assert "no column 'nope'" in refused(capsys, unknown)

        pa.parquet.write_table(pa.table({"t": [1, 1], "v": [2**63 - 1, 1]}), source)
        overflow = ["--input", source, "--output", tmp_path / "no.parquet", *self.OPTIONS]
        overflow += ["--time", "t", "--window", "sliding(10, 3)", "--agg", "sum(v)"]
        assert "does not fit" in refused(capsys, overflow, status=1)
        there = sorted(path.name for path in tmp_path.iterdir())
        assert there == [other.name, source.name, "out.csv", "out.parquet"]

    def test_all_columns_are_collected(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table = TABLE.set_column(2, "ts", TABLE["ts"].cast(pa.timestamp("us", "UTC")))
        pa.parquet.write_table(table, source)
        output = tmp_path / "out.parquet"
        command = ["--input", source, "--output", output, *self.OPTIONS, "--time", "ts"]
        command += ["--window", "tumbling(1 hour)", "--agg", "collect_rows(*) as rows"]
        assert run(capsys, command)[:2] == (0, "")
        (collected,) = pa.dataset.dataset(output).to_table()["rows"].to_pylist()
        # In Spark's files times are of another type.
        timeless = [[row | {"ts": None} for row in rows] for rows in (collected, table.to_pylist())]
        assert timeless[0] == timeless[1]

    def test_filters_routes_and_metrics(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        table = TABLE.drop_columns("unused").set_column(2, "ts", TABLE["ts"].cast(pa.timestamp("us", "UTC")))
        pa.parquet.write_table(table, source)
        taken = table.filter((pc.field("device") == "a") & (pc.field("v") > 0.5))
        wanted = QUERY.run(taken)
        types = pa.schema([(field.name, field.type) for field in wanted.schema])
        text = tmp_path / "in[1].csv"
        pa.csv.write_csv(table.set_column(2, "ts", table["ts"].cast(pa.timestamp("s"))), text)
        chosen = ["--filter", "device in ('a', c)", "--filter", "v > 0.5", "--metrics"]
        output = tmp_path / "out.parquet"
        for number, route in (
            (source, None),
            (source, "scan"),
            (source, "packed"),
            (source, "rows"),
            (text, None),
        ):
            command = [
                "--input",
                number,
                *ARGUMENTS,
                *self.OPTIONS,
                *chosen,
                "--output",
                output,
                "--overwrite",
            ]
            status, out, err = run(capsys, command + ([] if route is None else ["--route", route]))
            assert (status, out) == (0, ""), err
            found = pa.dataset.dataset(output).to_table()
            # The values of text are whole numbers, and Spark takes them for such.
            assert sorted(found["total"].cast(pa.float64()).to_pylist()) == sorted(
                wanted["total"].to_pylist()
            )
            if number == source:
                assert rows(found.cast(types)) == rows(wanted)
            emitted = err.splitlines()[-1]
            assert "rows in: 3" in emitted
            assert f"windows out: {wanted.num_rows}" in emitted
        explained = ["--input", source, *ARGUMENTS, *self.OPTIONS, "--explain", "--filter", "v >= 3"]
        # Spark writes nothing to stdout, and nothing is written here.
        explained += ["--output", "-"]
        assert "(v >= 3)" in run(capsys, explained)[1]
        assert "route: rows, as requested" in run(capsys, [*explained, "--route", "rows"])[1]

    def test_filters_and_routes_that_are_refused(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = ["--input", source, *ARGUMENTS, "--output", tmp_path / "out.parquet"]
        for given, said in (
            (["--route", "rows"], "--route: 'rows' is given without --engine spark; it is for Spark"),
            (["--metrics"], "--metrics: is given without --engine spark; it is for Spark"),
        ):
            assert refused(capsys, [*command, *given]) == said
        for given, said in (
            (
                ["--filter", "v like 0"],
                "--filter: 'v like 0' is not a comparison; filters are 'day >= 2024-05-01'",
            ),
            (["--filter", "v in 0"], "--filter: 'v in 0' is not a comparison"),
            (["--filter", "v > soon"], "--filter: 'soon' is compared with 'v', a column of double"),
            (["--filter", "w > 1"], "--filter: "),
            (
                ["--filter", "w > 1", "--route", "rows"],
                "--filter: there is no column 'w'; columns are",
            ),
            (["--route", "catalyst"], "--route: 'catalyst' cannot evaluate the query"),
        ):
            assert refused(capsys, [*command, *self.OPTIONS, *given]).startswith(said)
        text = tmp_path / "in.csv"
        pa.csv.write_csv(TABLE.drop_columns("unused"), text)
        scanned = ["--input", text, *ARGUMENTS, *self.OPTIONS, "--output", tmp_path / "out.parquet"]
        assert refused(capsys, [*scanned, "--route", "scan"]) == (
            "--route: 'scan' is given, but it reads Parquet files of this machine; the input is csv"
        )

    def test_threads_are_not_for_spark(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        command = [
            "--input",
            source,
            "--output",
            tmp_path / "out.parquet",
            *ARGUMENTS,
            *self.OPTIONS,
            "--threads",
            "2",
        ]
        assert (
            refused(capsys, command) == "--threads: 2 is given with --engine spark; Spark has its own tasks"
        )

    def test_text_is_what_it_is_in_this_process(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Keys with leading zeros, times without a zone where the machine has one, nulls, and directories."""
        monkeypatch.setenv("TZ", "America/New_York")
        times = ["2024-03-09 23:30:00", "2024-03-10 02:30:00", "2024-03-10 23:30:00"]
        for ending, write in (("csv", pa.csv.write_csv), ("parquet", pa.parquet.write_table)):
            source = tmp_path / ending
            for at, folder in enumerate(
                ("zip=00123/r=1.0/at=2024-01-01T10:00:00", "zip=123/r=2.5/at=2024-01-02")
            ):
                (source / folder).mkdir(parents=True)
                table = pa.table({"k": ["007", "7", None], "t": times, "v": [at, 2, 4]})
                write(table, source / folder / f"part.{ending}")
            command = ["--input", source, "--by", "k,zip,r,at", "--time", "t", "--filter", "v > 0"]
            command += ["--window", "tumbling(1 day)", "--agg", "sum(v) as total", "--agg", "max(v)"]
            here, there = tmp_path / f"here-{ending}.parquet", tmp_path / f"there-{ending}.parquet"
            assert run(capsys, [*command, "--output", here])[0] == 0
            assert run(capsys, [*command, *self.OPTIONS, "--output", there])[:2] == (0, "")
            wanted = pa.parquet.read_table(here)
            assert set(wanted["k"].to_pylist()) == {"007", "7", None}
            assert set(wanted["zip"].to_pylist()) == {"00123", "123"}
            assert set(wanted["r"].to_pylist()) == {"1.0", "2.5"}
            assert set(wanted["at"].to_pylist()) == {"2024-01-01T10:00:00", "2024-01-02"}
            found = pa.dataset.dataset(there).to_table()
            assert rows(found.cast(pa.schema([(each.name, each.type) for each in wanted.schema]))) == rows(
                wanted
            )

    def test_files_that_differ_are_united(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        source, output = tmp_path / "in", tmp_path / "out.parquet"
        source.mkdir()
        for at, v in enumerate((pa.array([3]), pa.array([2.5]), None)):
            times = pa.array([1], pa.timestamp("us" if at else "ns"))
            table = pa.table({"ts": times} if v is None else {"ts": times, "v": v})
            pa.parquet.write_table(table, source / f"{at}.parquet")
        command = ["--input", source, "--time", "ts", "--window", "tumbling(1 day)", *self.OPTIONS]
        command += ["--agg", "sum(v) as total", "--agg", "count(*) as n", "--output", output]
        assert run(capsys, command)[:2] == (0, "")
        (row,) = pa.dataset.dataset(output).to_table(["total", "n"]).to_pylist()
        assert row == {"total": 5.5, "n": 3}

    def test_rows_of_json_rolling_aggregates_and_joins_are_those_of_this_process(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        table = pa.table(
            {
                "k": ["a", "00a", "a", None, "a"],
                "t": [f"2024-01-01T00:{minute:02}:00" for minute in (3, 1, 7, 9, 12)],
                "v": [1.5, None, 2.0, 4.0, 8.25],
                "many": [[1], [], None, [2, 3], [4]],
                "ok": [True, None, False, True, True],
            }
        )
        text, typed = tmp_path / "in.jsonl", tmp_path / "in.parquet"
        text.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
        pa.parquet.write_table(table.set_column(1, "t", table["t"].cast(pa.timestamp("us"))), typed)
        keyed = ["--by", "k", "--time", "t"]
        rolled = [*keyed, "--agg", "sum(v) over (5 minutes) as s", "--agg", "count(*) over (2 rows) as n"]
        times = ["--left-time", "t", "--right-time", "t", "--right-columns", "v", "--within", "6 minutes"]
        collected = "collect_rows(k, v, many, ok) as all"
        jobs: dict[str, list[list[str | Path]]] = {
            "aggregate": [["--input", text, *keyed, "--window", "tumbling(1 day)", "--agg", collected]],
            "rolling": [
                ["--input", text, *rolled, "--filter", "v > 1.5"],
                ["--input", typed, *rolled],
                ["--labels", typed, "--labels-filter", "k = a", "--input", text, *rolled],
            ],
            "join": [["--left", text, "--right", typed, "--by", "k", *times, "--how", "left"]],
        }
        for command, each in jobs.items():
            for arguments in each:
                here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
                given = [*arguments, "--overwrite", "--output"]
                assert run(capsys, [*given, here], command) == (0, "", "")
                status, out, err = run(capsys, [*given, there, "--metrics", *self.OPTIONS], command)
                assert (status, out) == (0, ""), err
                assert "rows in: " in err
                wanted = pa.parquet.read_table(here)
                found = pa.dataset.dataset(there).to_table()
                assert found.column_names == wanted.column_names
                assert rows(found.cast(wanted.schema)) == rows(wanted)
        assert pa.dataset.dataset(tmp_path / "there.parquet").to_table().num_rows == 9
        explained = ["--left", text, "--right", typed, "--by", "k", *times, "--explain", *self.OPTIONS]
        status, out, _ = run(capsys, explained, "join")
        assert status == 0
        assert out.startswith("join by k over t and t: within 6 minutes, inner\n")
        assert "column 'v': text read as double" in out
        # Other tests share a session in which Spark reads all files.
        monkeypatch.setattr("windowkit.spark.parquet.planned.SETTING", "spark.windowkit.unset")
        tasks = "in Rust inside one mapInArrow: 1 task read 1 file"
        explained = [
            ("rolling", ["--input", typed, *rolled], 1),
            ("rolling", ["--labels", typed, "--input", typed, *rolled], 2),
            ("join", ["--left", typed, "--right", typed, "--by", "k", *times], 2),
        ]
        for command, arguments, sides in explained:
            for route, many in (("scan", sides), ("packed", 0)):
                given = [*arguments, *self.OPTIONS, "--explain", "--route", route]
                status, out, err = run(capsys, given, command)
                assert status == 0, err
                assert out.count(tasks) == many, out
        scanned = ["--left", text, "--right", typed, "--by", "k", *times, *self.OPTIONS, "--route", "scan"]
        assert "--route: 'scan' is given, and tasks cannot read the files of left themselves" in refused(
            capsys, [*scanned, "--output", tmp_path / "no.parquet"], command="join"
        )
        for command, arguments, _ in explained:
            there, here = tmp_path / "scanned.parquet", tmp_path / "here.parquet"
            given = [*arguments, "--overwrite", "--output"]
            assert run(capsys, [*given, here], command) == (0, "", "")
            assert run(capsys, [*given, there, *self.OPTIONS, "--route", "scan"], command)[:2] == (0, "")
            wanted = pa.parquet.read_table(here)
            assert rows(pa.dataset.dataset(there).to_table().cast(wanted.schema)) == rows(wanted)
        refusal = refused(
            capsys,
            [
                "--input",
                "in.jsonl",
                *rolled,
                "--output",
                "x",
                "--format",
                "csv",
                "--engine",
                "spark",
                "--master",
                "spark://host:1",
            ],
            command="rolling",
        )
        assert refusal.startswith("--input: it is of format 'jsonl', which is not read on spark://host:1; ")
