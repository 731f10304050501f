"""`windowkit rolling` and `windowkit join`: what SQL has of the same files, by DuckDB."""

from __future__ import annotations

import itertools
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from test_cli_json import lines

from support.commands import refused, rows, run

START = datetime(2024, 1, 1)


def table_of(seed: int, size: int, prefix: str = "") -> pa.Table:
    """Return rows of some keys, at times that are all different."""
    drawn = random.Random(seed)
    times = drawn.sample(range(4 * size + 4), size)
    return pa.table(
        {
            f"{prefix}k": pa.array([drawn.choice(["a", "b", "007", None]) for _ in range(size)], pa.string()),
            f"{prefix}t": pa.array([START + timedelta(minutes=at) for at in times], pa.timestamp("us")),
            f"{prefix}v": pa.array([drawn.choice([None, *range(-9, 9)]) for _ in range(size)], pa.int64()),
            f"{prefix}id": pa.array(range(size), pa.int64()),
        }
    )


def written(table: pa.Table, folder: Path, name: str, form: str) -> Path:
    path = folder / f"{name}.{form}"
    if form == "jsonl":
        values = table.to_pylist()
        names = [name for name in table.column_names if pa.types.is_timestamp(table.schema.field(name).type)]
        return lines(path, [row | {name: row[name].isoformat() for name in names} for row in values])
    if form == "csv":
        pa.csv.write_csv(table, path)
    else:
        pa.parquet.write_table(table, path)
    return path


def result(command: str, arguments: list[Any], folder: Path, capsys: pytest.CaptureFixture[str]) -> pa.Table:
    output = folder / "out.arrow"
    got = run(capsys, [*arguments, "--output", output, "--overwrite"], command)
    assert got == (0, "", "")
    return pa.ipc.open_file(output).read_all()


FORMS = ["parquet", "csv", "jsonl"]
FRAMES = {
    "sum(v) over (10 minutes) as a": "sum(v) OVER (w RANGE INTERVAL 10 MINUTES PRECEDING)",
    "count(*) over (5 rows) as b": "count(*) OVER (w ROWS 4 PRECEDING)",
    "max(v) over (unbounded) as c": "max(v) OVER (w RANGE UNBOUNDED PRECEDING)",
    "min(v) over (5 minutes before, 20 minutes after) as d": "min(v) OVER (w RANGE BETWEEN INTERVAL 5 MINUTES"
    " PRECEDING AND INTERVAL 20 MINUTES FOLLOWING)",
    "count(v) over (2 rows before, 1 row after) as e": "count(v) OVER "
    "(w ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)",
    "last(v) over (1 row, closed left) as f": "lag(v) OVER (w)",
}


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", FORMS)
def test_rolling_is_that_of_sql(
    form: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = table_of(seed, [1, 7, 40][seed % 3])
    source = written(table, tmp_path, "in", form)
    asked = [word for each in FRAMES for word in ("--agg", each)]
    found = result("rolling", ["--input", source, "--by", "k", "--time", "t", *asked], tmp_path, capsys)
    sql = ", ".join(f"{over} AS {text[-1]}" for text, over in FRAMES.items())
    wanted = duckdb.sql(
        f'SELECT *, {sql} FROM "table" WINDOW w AS (PARTITION BY k ORDER BY t) ORDER BY id'
    ).to_arrow_table()
    assert found.column_names == ["k", "t", "v", "id", *"abcdef"]
    # In the order of the file.
    assert found.cast(wanted.schema).to_pylist() == wanted.to_pylist()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("form", FORMS)
def test_labels_have_the_events_before_them(
    form: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = table_of(seed, 30)
    labels = table_of(seed + 100, [1, 8, 20][seed % 3], "l").drop_columns(["lv"])
    arguments = [
        "--labels",
        written(labels, tmp_path, "labels", form),
        "--labels-by",
        "lk",
        "--labels-time",
        "lt",
    ]
    arguments += ["--input", written(events, tmp_path, "events", "parquet"), "--by", "k", "--time", "t"]
    arguments += ["--agg", "sum(v) over (1 hour) as s", "--agg", "count(*) over (1 hour, closed left) as n"]
    found = result("rolling", arguments, tmp_path, capsys)
    wanted = duckdb.sql(
        """
        SELECT l.*,
            (SELECT sum(v) FROM events WHERE k IS NOT DISTINCT FROM lk
                AND t BETWEEN lt - INTERVAL 1 HOUR AND lt) AS s,
            (SELECT count(*) FROM events WHERE k IS NOT DISTINCT FROM lk
                AND t >= lt - INTERVAL 1 HOUR AND t < lt) AS n
        FROM labels AS l ORDER BY lid
        """
    ).to_arrow_table()
    assert found.column_names == ["lk", "lt", "lid", "s", "n"]
    assert rows(found.cast(wanted.schema)) == rows(wanted)


KINDS = {"inner": "JOIN", "left": "LEFT JOIN", "right": "RIGHT JOIN", "full": "FULL JOIN"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", [*KINDS, "semi", "anti"])
def test_joins_are_those_of_sql(
    how: str, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left, right = table_of(seed, 25), table_of(seed + 50, 25, "r")
    drawn = random.Random(seed)
    paths = [written(each, tmp_path, name, drawn.choice(FORMS)) for name, each in (("l", left), ("r", right))]
    arguments = ["--left", paths[0], "--right", paths[1], "--by", "k = rk", "--left-time", "t"]
    arguments += ["--right-time", "rt", "--within", "20 minutes, 1 hour", "--how", how]
    if how not in ("semi", "anti"):
        # Of a right row without a partner a full join has the key.
        arguments += ["--left-columns", "t,v,id", "--right-columns", "rv,rid"]
    found = result("join", arguments, tmp_path, capsys)
    near = "k = rk AND rt BETWEEN t - INTERVAL 20 MINUTES AND t + INTERVAL 1 HOUR"
    if how in KINDS:
        sql = f'SELECT t, v, id, rv, rid FROM "left" {KINDS[how]} "right" ON {near}'
    else:
        has = "NOT EXISTS" if how == "anti" else "EXISTS"
        sql = f'SELECT * FROM "left" WHERE {has} (SELECT 1 FROM "right" WHERE {near})'
    wanted = duckdb.sql(sql).to_arrow_table()
    assert found.column_names == wanted.column_names
    assert rows(found.cast(wanted.schema)) == rows(wanted)


def test_both_sides_may_be_lines_of_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left = lines(tmp_path / "left.jsonl", [{"t": 1, "a": "x"}, {"t": 9, "a": "y", "more": [1]}])
    right = lines(tmp_path / "right.jsonl", [{"t": 2, "b": 1.5}, {"t": 30, "b": 2}])
    arguments = ["--left", left, "--right", right, "--left-time", "t", "--right-time", "t", "--within", "5"]
    found = result("join", arguments, tmp_path, capsys)
    assert found.to_pylist() == [{"t": 1, "a": "x", "more": None, "t_right": 2, "b": 1.5}]


def test_joins_by_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = table_of(1, 25), table_of(2, 25, "r")
    arguments = ["--left", written(left, tmp_path, "l", "csv"), "--left-time", "t", "--left-columns", "id"]
    arguments += [
        "--right",
        written(right, tmp_path, "r", "jsonl"),
        "--right-time",
        "rt",
        "--right-columns",
        "rid",
    ]
    found = result("join", [*arguments, "--window", "tumbling(30 minutes)"], tmp_path, capsys)
    bucket = "time_bucket(INTERVAL 30 MINUTES, {})"
    wanted = duckdb.sql(
        f'SELECT id, rid FROM "left" JOIN "right" ON {bucket.format("t")} = {bucket.format("rt")}'
    ).to_arrow_table()
    assert rows(found.select(["id", "rid"])) == rows(wanted)


class TestInputs:
    """Each input has options of its own."""

    def test_filters_types_and_formats_of_times(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "l.csv").write_text(
            "k,t,v\n1,01/02/2024 10:00,5\n1,01/02/2024 10:01,6\n2,01/02/2024 10:00,7\n"
        )
        (tmp_path / "r.csv").write_text("k,t,v\n01,2024-02-01 10:00:30,1\n1,2024-02-01 10:00:30,2\n")
        arguments = [
            "--left",
            tmp_path / "l.csv",
            "--right",
            tmp_path / "r.csv",
            "--by",
            "k",
            "--within",
            "2 minutes",
        ]
        arguments += ["--left-time", "t", "--right-time", "t"]
        message = refused(capsys, arguments, command="join")
        assert message.startswith("--left-time: column 't' is string; ") or "is text because of" in message
        arguments += ["--left-time-format", "%d/%m/%Y %H:%M"]
        message = refused(capsys, [*arguments, "--left-types", "k=int64"], command="join")
        assert message.startswith(
            "--by: column 'k' of the left side is int64, and 'k' of the right side is string; "
        )
        assert "see --left-types and --right-types" in message
        arguments += ["--left-filter", "v < 6", "--right-filter", "v > 1"]
        assert run(capsys, [*arguments, "--left-columns", "k,v", "--right-columns", "v"], "join")[1] == (
            '"k","v","v_right"\n"1",5,2\n'
        )

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            (["--left-filter", "w > 1"], "--left-filter: there is no column 'w'; columns are 'k', 't', 'v'"),
            (["--right-types", "w=int"], "--right-types: there is no column 'w'; columns are"),
            (
                ["--right-types", "w"],
                "--right-types: 'w' is given; types are given by column, as in --right-types",
            ),
            (
                ["--left-time-format", "%d"],
                "--left-time-format: 't' is no column of text; only text has a format",
            ),
            (["--left", "nowhere.csv"], "--left: 'nowhere.csv' does not exist; it is a file, or"),
            (["--left", "-", "--right", "-"], "--right: '-' is given twice; stdin is read once"),
            (["--left-time", "w"], "--left-time: no column 'w'; there are k, t, v"),
            (["--right-columns", "w"], "--right-columns: no column 'w'; there are k, t, v"),
            (["--by", "w"], "--by: no column 'w'; there are k, t, v"),
            (["--by", "k = v = t"], "--by: 'k = v = t' is given; keys are columns of both sides, each once"),
            (["--by", "v, v = k"], "--by: 'v = k' is given; keys are columns of both sides, each once"),
            (
                ["--within", "5 minits"],
                "--within: '5 minits' has the unknown unit 'minits'; did you mean '5 minutes'? a duration is",
            ),
            (["--within", "1, 2, 3"], "--within: (1, 2, 3) has 3 lengths; it is one length, or two"),
            (["--window", "tumbling(5)"], "--within: both are given of --within and --window; partners are"),
            (["--how", "outer"], "--how: invalid choice: 'outer' (choose from"),
            (
                ["--suffix", ""],
                "--suffix: the result would have two columns 'k'; give another suffix, or choose",
            ),
            (
                ["--route", "rows"],
                "--route: invalid choice: 'rows' (choose from 'scan', 'packed'); see windowkit",
            ),
        ],
        ids=str,
    )
    def test_what_is_refused_names_the_option(
        self, given: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        pa.parquet.write_table(table_of(1, 3).select(["k", "t", "v"]), tmp_path / "in.parquet")
        path = tmp_path / "in.parquet"
        arguments = ["--left", path, "--right", path]
        for option, value in {"--left-time": "t", "--right-time": "t", "--within": "5 minutes"}.items():
            arguments += [] if option in given else [option, value]
        assert refused(capsys, [*arguments, *given], command="join").startswith(says)

    @pytest.mark.parametrize(
        ("given", "says"),
        [
            (["--labels-filter", "v > 1"], "--labels-filter: is given without --labels; it is for the files"),
            (["--labels", "in.parquet", "--labels-by", "w"], "--labels-by: no column 'w'; there are k, t, v"),
            (["--labels", "in.parquet", "--labels-time", "w"], "--labels-time: no column 'w'; there are"),
            (
                ["--labels", "in.parquet", "--labels-by", "v"],
                "--labels-by: column 'v' of the labels is int64",
            ),
            (["--labels", "in.parquet", "--agg", "sum(v) over (1 day before, 1 day after)"], "--agg: "),
            (["--by", "w"], "--by: no column 'w'; there are k, t, v"),
            (["--agg", "sum(w) over (1 day)"], "--agg: no column 'w'; there are k, t, v"),
            (["--agg", "sum(v)"], "--agg: 'sum(v)' has no frame; write sum(v) over (10 minutes), or"),
            (["--agg", "foo(v) over (1 day)"], "--agg: 'foo(v)' is not an aggregate; functions are count, "),
            (
                ["--agg", "sum(v) over (1 dya)"],
                "--agg: size: '1 dya' has the unknown unit 'dya'; did you mean '1 day'? a duration",
            ),
            (["--agg", "sum(v) over (1)"], "--agg: "),
            (["--agg", "max(v) over (1 day) as v"], "--agg: the result would have two columns 'v'; give one"),
            (
                ["--agg", "collect_list(v) over (1 day) as l"],
                "--format: csv cannot hold column 'l', which is",
            ),
        ],
        ids=str,
    )
    def test_what_rolling_refuses_names_the_option(
        self,
        given: list[str],
        says: str,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        pa.parquet.write_table(table_of(1, 3).select(["k", "t", "v"]), "in.parquet")
        arguments = [
            "--input",
            "in.parquet",
            "--by",
            "k",
            "--time",
            "t",
            "--agg",
            "count(*) over (1 day) as n",
        ]
        assert refused(capsys, [*arguments, *given], command="rolling").startswith(says)


def test_explain_and_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = written(table_of(1, 9), tmp_path, "in", "csv")
    arguments: list[Any] = ["--input", source, "--by", "k", "--time", "t", "--agg", "sum(v) over (1 hour)"]
    status, out, _ = run(capsys, [*arguments, "--explain"], "rolling")
    assert status == 0
    assert out.startswith("rolling by k over t\n")
    assert "column 'v': text read as int64" in out
    labelled = [*arguments, "--labels", source, "--explain"]
    assert "labels, by k over t, have frames in place of the rows" in run(capsys, labelled, "rolling")[1]
    joined: list[Any] = [
        "--left",
        source,
        "--right",
        source,
        "--left-time",
        "t",
        "--right-time",
        "t",
        "--within",
        "1 hour",
    ]
    status, out, _ = run(capsys, [*joined, "--explain"], "join")
    assert status == 0
    assert out.startswith("join by nothing over t and t: within 1 hour, inner\n")
    assert out.count("column 'v': text read as int64") == 2
    output = tmp_path / "out.parquet"
    output.write_text("precious")
    for command, given in (("rolling", arguments), ("join", joined)):
        assert refused(capsys, [*given, "--output", output], command=command).endswith(
            "--overwrite replaces it"
        )
        assert output.read_text() == "precious"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["in.csv", "out.parquet"]


KEYS = [["123", "7"], ["00123", "123"], ["7.5", "7"], ["a", "7"], ["12345678901234567890123", "7"], []]
TIMES = ["2024-01-01", "2024-01-01T00:00:00", "2024-01-01 00:00:00.500", "2024-01-01T00:00:00.000001"]
BOTH = ["--by", "k", "--left-time", "t", "--right-time", "t", "--within", "1 day"]
PAIRS = [("csv", "csv"), ("csv", "parquet"), ("parquet", "csv"), ("csv", "jsonl")]


@pytest.mark.parametrize("forms", PAIRS, ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_columns_that_are_compared_are_read_alike(
    seed: int, forms: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever values each side happens to have: keys are equal where their text is."""
    drawn = random.Random(seed)
    for own, others in itertools.product(KEYS, KEYS):
        sides = []
        for keys, form, name in zip((own, others), forms, ("left", "right"), strict=True):
            # Of Parquet, text is text; of the others, numbers may be read.
            column = pa.array(keys or [None], pa.string())
            texts = [drawn.choice(TIMES)] * len(column)
            times = pa.array(map(datetime.fromisoformat, texts)) if form == "parquet" else texts
            sides.append(written(pa.table({"k": column, "t": times}), tmp_path, name, form))
        found = result("join", ["--left", sides[0], "--right", sides[1], *BOTH], tmp_path, capsys)
        assert sorted(map(str, found["k"].to_pylist())) == sorted(set(own) & set(others))


def test_types_that_are_given_stay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    left, right = tmp_path / "left.csv", tmp_path / "right.csv"
    left.write_text("k,t\n1,2024-01-01\n")
    right.write_text("k,t\n01,2024-01-01\n")
    asked = ["--left", left, "--right", right, *BOTH, "--left-types", "k=int64"]
    assert "'k' of the right side is string" in refused(capsys, asked, command="join")
    found = result("join", [*asked, "--right-types", "k=int64"], tmp_path, capsys)
    assert found["k"].to_pylist() == [1]
    labelled = ["--labels", left, "--input", right, "--by", "k", "--time", "t"]
    found = result("rolling", [*labelled, "--agg", "count(*) over (1 day)"], tmp_path, capsys)
    assert found["k"].to_pylist() == ["1"]
