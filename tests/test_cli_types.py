"""Types of columns of text that the command `windowkit` reads: keys that differ remain different."""

from __future__ import annotations

import gzip
import json
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.commands import refused, run
from windowkit.files.listing import typed

DAYS: list[str | Path] = ["--time", "t", "--window", "tumbling(1 day)", "--agg", "sum(v) as total"]


def groups(path: Path, capsys: pytest.CaptureFixture[str], *options: str, by: str = "k") -> dict[Any, Any]:
    """Return the total of each key."""
    output = path.with_name("groups.arrow")
    requested = ["--input", path, "--by", by, *DAYS, "--output", output, "--overwrite", *options]
    status, _, error = run(capsys, requested)
    assert status == 0, error
    table = pa.ipc.open_file(output).read_all()
    keys = table[by].to_pylist()
    assert len(set(keys)) == len(keys)
    return dict(zip(keys, table["total"].to_pylist(), strict=True))


def written(folder: Path, keys: list[str], values: list[str] | None = None) -> Path:
    """Return a CSV file of keys, on one day, with values that are powers of two by default."""
    path = folder / "in.csv"
    texts = values or [str(2**at) for at in range(len(keys))]
    path.write_text("k,t,v\n" + "".join(f"{k},2024-01-01,{v}\n" for k, v in zip(keys, texts, strict=True)))
    return path


@pytest.mark.parametrize(
    ("keys", "wanted"),
    [
        (["00123", "0123", "123"], ["00123", "0123", "123"]),
        (['"00123"', '"123"'], ["00123", "123"]),
        (["12345678901234567890", "12345678901234567891"], ["12345678901234567890", "12345678901234567891"]),
        (["+1", "1"], ["+1", "1"]),
        (["-0", "0"], ["-0", "0"]),
        (["1.10", "1.1"], ["1.10", "1.1"]),
        (["1e1", "10"], ["1e1", "10"]),
        (["NA", "US"], ["NA", "US"]),
        (["TRUE", "true"], ["TRUE", "true"]),
        (['""', ""], ["", None]),
        (["9223372036854775807", "-9223372036854775808", ""], [2**63 - 1, -(2**63), None]),
        (["2024-01-01", "2024-02-30"], ["2024-01-01", "2024-02-30"]),
    ],
    ids=str,
)
def test_keys_that_differ_remain_different(
    keys: list[str], wanted: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert groups(written(tmp_path, keys), capsys) == {key: 2**at for at, key in enumerate(wanted)}


@pytest.mark.parametrize("write", [pa.csv.write_csv, pa.parquet.write_table], ids=["csv", "parquet"])
@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["00123", "123"], ["00123", "123"]),
        (["0", "-0"], ["0", "-0"]),
        (["-0", "0.5"], ["-0", "0.5"]),
        (["1.0"], ["1.0"]),
        (["1e3"], ["1e3"]),
        (["1e400"], ["1e400"]),
        (["inf"], ["inf"]),
        (["nan", "1.5"], ["nan", "1.5"]),
        (["9223372036854775807", "1.5"], ["9223372036854775807", "1.5"]),
        (["2024-01-01T10:00:00"], ["2024-01-01T10:00:00"]),
        (["2024-01-01", "2024-01-01 10:00:00"], ["2024-01-01", "2024-01-01 10:00:00"]),
        (["1", "-1"], [1, -1]),
        (["0.5", "2"], [0.5, 2.0]),
        (["12345678901234567890", "1"], [Decimal(12345678901234567890), Decimal(1)]),
    ],
    ids=str,
)
def test_directories_keep_each_character(
    values: list[str], wanted: list[Any], write: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, value in enumerate(values):
        folder = tmp_path / "in" / f"k={value}"
        folder.mkdir(parents=True)
        table = pa.table({"t": pa.array([1], pa.timestamp("s")), "v": [at]})
        write(table, folder / f"part.{write.__name__.removeprefix('write_').replace('table', 'parquet')}")
    assert groups(tmp_path / "in", capsys) == {key: at for at, key in enumerate(wanted)}
    assert groups(tmp_path / "in", capsys, "--types", "k=string") == {
        key: at for at, key in enumerate(values)
    }


@given(
    st.lists(
        st.text("01.-+eE", min_size=1, max_size=4)
        | st.integers(-(2**70), 2**70).map(str)
        | st.floats().map(str)
        | st.datetimes().map(str)
        | st.dates().map(str),
        min_size=1,
        max_size=4,
    )
)
def test_what_directories_say_is_written_back(texts: list[str]) -> None:
    column, because = typed(texts)
    present = [text for text in column.to_pylist() if text is not None]
    assert len(set(present)) == len(set(texts))
    if pa.types.is_string(column.type):
        assert present == texts
        assert because in texts
    elif pa.types.is_floating(column.type):
        # Python writes some doubles in another way than Arrow, but reads each of them as the same number.
        assert [Decimal(text) for text in texts] == [Decimal(repr(value)) for value in present]
    else:
        assert list(map(str, present)) == texts


def test_explain_says_what_directories_are_read_as(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("k=1/n=7", "k=1.0/n=8"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / "in" / folder / "part.csv").write_text("t,v\n2024-01-01,1\n")
    status, out, _ = run(capsys, ["--input", tmp_path / "in", "--by", "k,n", *DAYS, "--explain"])
    assert status == 0
    assert "column 'k': directories read as string, because of '1.0'\n" in out
    assert "column 'n': directories read as int32\n" in out


@pytest.mark.parametrize("seed", range(12))
def test_text_keys_group_as_those_of_parquet(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random keys, many of which look like numbers, days or null; Parquet knows that they are text."""
    chance = random.Random(seed)
    alphabet = chance.choice(["01", "0123.", "+-01", "eE0.1-", "aN0 ", "012-:T", "\",'0"])
    drawn = ["".join(chance.choices(alphabet, k=chance.randint(0, 5))) for _ in range(40)]
    drawn += chance.sample(
        ["NA", "null", "nan", "NaN", "true", "TRUE", "inf", "007", "7", "2024-01-01", "1" * 20], 4
    )
    keys = pa.array([key if chance.random() < 0.95 else None for key in drawn], pa.string())
    table = pa.table(
        {
            "k": keys,
            "t": pa.array([1] * len(keys), pa.timestamp("s")),
            "v": [chance.randint(-9, 9) for _ in keys],
        }
    )
    pa.csv.write_csv(table, tmp_path / "in.csv")
    pa.parquet.write_table(table, tmp_path / "in.parquet")

    def text(found: dict[Any, Any]) -> dict[str | None, Any]:
        # Whole numbers and days may be read as such where that keeps each as it was.
        return {None if key is None else str(key): value for key, value in found.items()}

    wanted = groups(tmp_path / "in.parquet", capsys)
    assert text(groups(tmp_path / "in.csv", capsys)) == wanted
    assert groups(tmp_path / "in.csv", capsys, "--types", "k=string") == wanted


class TestTypes:
    def test_types_are_given_by_names_of_spark_and_arrow(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = written(tmp_path, ["1", "2"], ["10", "20"])
        for types, key, value in (
            ("k=string,v=double", "1", 10.0),
            ("k=bigint,v=float64", 1, 10.0),
            ("k=utf8,v=int64", "1", 10),
        ):
            found = groups(path, capsys, "--types", types)
            assert found == {key: value, type(key)(2): 2 * value}
            assert type(found[key]) is type(value)
        found = groups(path, capsys, "--types", "k=string", "--types", "v=decimal(9, 2),t=timestamp[us]")
        assert [str(value) for value in found.values()] == ["10.00", "20.00"]

    @pytest.mark.parametrize(
        ("types", "message"),
        [
            ("k", "--types: 'k' is given; types are given by column, as in --types k=string,v=double"),
            ("kk=string", "--types: there is no column 'kk'; did you mean 'k'? columns are 'k', 't', 'v'"),
            ("k=text", "--types: 'text' is not a type; types are tinyint, byte, "),
            ("k=decimal(99, 2)", "--types: 'decimal(99, 2)' is not a type: "),
            ("k=decimal(99999999999)", "--types: 'decimal(99999999999)' is not a type: "),
        ],
    )
    def test_what_is_no_type_is_refused(
        self, types: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = written(tmp_path, ["1"])
        assert refused(capsys, ["--input", path, "--by", "k", *DAYS, "--types", types]).startswith(message)

    def test_no_block_decides_alone(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The value that makes a column another type comes after several blocks of the reader."""
        rows = 300_000
        path = written(tmp_path, ["1"] * rows + ["01"], ["1"] * rows + ["0.5"])
        assert groups(path, capsys) == {"1": float(rows), "01": 0.5}

    @pytest.mark.parametrize("row", ["", "a,,1\n", "a,2024-01-01,\n"], ids=["no row", "no time", "no value"])
    def test_columns_may_be_empty(self, row: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "in.csv"
        path.write_text(f"k,t,v\n{row}")
        assert groups(path, capsys) == ({"a": None} if row.startswith("a,2") else {})
        assert groups(path, capsys, "--filter", "v != 3") == {}

    def test_explain_says_what_was_inferred(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = written(tmp_path, ["1", "01"])
        status, out, _ = run(capsys, ["--input", path, "--by", "k", *DAYS, "--explain"])
        assert status == 0
        assert out.splitlines()[-4:-1] == [
            "column 'k': text read as string, because of '01'",
            "column 't': text read as date32[day]",
            "column 'v': text read as int64",
        ]

    def test_numbers_that_lose_digits_are_no_measures(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = written(tmp_path, ["a", "a"], ["1.5", "12345678901234567890"])
        message = refused(capsys, ["--input", path, "--by", "k", *DAYS])
        assert message.endswith(f"because of '12345678901234567890' in {str(path)!r}; see --types")
        total = groups(path, capsys, "--types", "v=decimal(38, 1)")["a"]
        assert str(total) == "12345678901234567891.5"


class TestTimeFormat:
    def test_times_have_a_format(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path, output = tmp_path / "in.csv", tmp_path / "out.csv"
        path.write_text("t,v\n31/1/2024 09:05,1\n01/02/2024 23:59,2\n,4\n")
        requested = ["--input", path, *DAYS, "--time-format", "%d/%m/%Y %H:%M", "--output", output]
        assert run(capsys, requested) == (0, "", "")
        assert sorted(output.read_text().splitlines()) == [
            '"window_start","window_end","total"',
            "2024-01-31 00:00:00,2024-02-01 00:00:00,1",
            "2024-02-01 00:00:00,2024-02-02 00:00:00,2",
        ]

    @pytest.mark.parametrize("text", ["30/02/2024 10:00", "soon", "01/02/2024"])
    def test_what_is_no_time_is_refused(
        self, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "in.csv"
        path.write_text(f"t,v\n31/01/2024 09:05,1\n{text},2\n")
        requested = ["--input", path, *DAYS, "--time-format", "%d/%m/%Y %H:%M"]
        assert (
            refused(capsys, requested) == f"--time-format: {text!r} is no time of the format '%d/%m/%Y %H:%M'"
        )

    def test_only_text_has_a_format(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "in.parquet"
        pa.parquet.write_table(pa.table({"t": [1], "v": [1]}), path)
        message = refused(capsys, ["--input", path, *DAYS, "--time-format", "%d"])
        assert message == "--time-format: 't' is no column of text; only text has a format"


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_value_of_another_type_is_named_with_its_column_row_and_file(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It lies beyond the first block of its file, and the first file has none."""
    folder, rows = tmp_path / "in", 200_000
    folder.mkdir()
    for at, values in enumerate((["1", "2"], ["1"] * rows + ["x", "y"])):
        table = pa.table({"k": ["a"] * len(values), "t": ["2024-01-01 10:00:00"] * len(values), "v": values})
        path = folder / f"{at}.{kind}"
        if kind == "csv":
            pa.csv.write_csv(table, path)
        elif kind == "parquet":
            pa.parquet.write_table(table, path, row_group_size=1000)
        else:
            path.write_text("".join(f"{json.dumps(row)}\n" for row in table.to_pylist()))
    command = ["--by", "k", *DAYS, "--types", "v=double"]
    error = refused(capsys, ["--input", folder, *command], status=1)
    named = f"'x' in column 'v', in row {rows + 1} of '{folder / f'1.{kind}'}', is not read as double; "
    assert error.startswith(f"--types: {named}")
    assert "pyarrow" not in error
    sides = [
        "--left",
        folder / f"0.{kind}",
        "--right",
        folder / f"1.{kind}",
        "--by",
        "k",
        "--within",
        "1 hour",
    ]
    times = ["--left-time", "t", "--right-time", "t", "--right-types", "v=double"]
    assert f"--right-types: {named}" in refused(capsys, [*sides, *times], status=1, command="join")


def test_a_number_that_the_united_type_does_not_hold_is_named_with_its_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    for at, values in enumerate(([2**53 + 1], [0.5])):
        table = pa.table({"k": ["a"], "t": pa.array([1], pa.timestamp("s")), "v": values})
        pa.parquet.write_table(table, tmp_path / "in" / f"{at}.parquet")
    error = refused(capsys, ["--input", tmp_path / "in", "--by", "k", *DAYS], status=1)
    path = str(tmp_path / "in" / "0.parquet")
    assert f"--input: column 'v' of {path!r} is not read as double (Integer value 9007199254740993" in error


COUNT = "reads whole numbers as seconds from 1970"


@pytest.mark.parametrize(
    ("time", "advice"),
    [
        (
            "01/02/2024 10:00",
            f"--time-format '%d/%m/%Y %H:%M' reads text of that form; --types 't=<>' {COUNT}",
        ),
        ("1700000000.5", f"; --types 't=<>' {COUNT}"),
        ("1700000000", f"expected an integer length; --types 't=<>' {COUNT}"),
    ],
)
def test_advice_about_times_is_of_the_command_line(
    time: str, advice: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.csv"
    path.write_text(f"k,t,v\na,{time},1\n")
    kind = "timestamp[s, UTC]"
    error = refused(capsys, ["--input", path, "--by", "k", *DAYS])
    assert error.endswith(advice.replace("<>", kind))
    assert "pandas" not in error
    rolled = ["--input", path, "--by", "k", "--time", "t", "--agg", "sum(v) over (1 day)"]
    assert advice.replace("<>", kind) in refused(capsys, rolled, command="rolling")
    joined = ["--left", path, "--right", path, "--left-time", "t", "--right-time", "t", "--within", "1 day"]
    assert "--left-types 't=" in refused(capsys, joined, command="join")
    if time.isdigit():
        assert groups(path, capsys, "--types", f"t={kind}") == {"a": 1}
    else:
        plain = tmp_path / "plain.csv"
        plain.write_text("k,t,v\na,2024-01-01,1\n")
        labelled = ["--labels", path, "--input", plain, *rolled[2:]]
        assert "--labels-types 't=" in refused(capsys, labelled, command="rolling")


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_files_of_which_one_has_zones(
    order: tuple[int, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    times = ["2024-01-01T10:00:00", "2024-01-01T12:00:00Z"]
    (tmp_path / "in").mkdir()
    for at, which in enumerate(order):
        (tmp_path / "in" / f"{at}.csv").write_text(f"k,t,v\na,{times[which]},1\n")
    error = refused(capsys, ["--input", tmp_path / "in", "--by", "k", *DAYS])
    other = str(tmp_path / "in" / "1.csv")
    assert error.endswith(
        f"'t' is text because of '{times[order[1]]}' in {other!r}, where some times have a zone and some "
        "have none; all times have a zone, or none has"
    )


@pytest.mark.parametrize(
    "header",
    [
        "Ger\xe4t,k,t\n".encode("latin1"),
        gzip.compress(b"k,t\na,2024-01-01\n", mtime=0),
        b"\x1f\x8b\x08\x00\x14 \x0bk\x02\xff",
    ],
)
def test_headers_that_are_not_utf_8(
    header: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "in.csv"
    path.write_bytes(header)
    error = refused(capsys, ["--input", path, "--by", "k", *DAYS])
    assert error.startswith(f"--input: the header of {str(path)!r} is not text in UTF-8; ")
