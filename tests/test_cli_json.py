"""Lines of JSON that the command `windowkit` reads: as it reads the same rows of CSV or Parquet."""

from __future__ import annotations

import gzip
import io
import json
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.commands import refused, run
from windowkit.cli.program import main
from windowkit.files import json_lines

ALL = ["--time", "t", "--window", "global_window()", "--agg", "collect_rows(*) as rows"]
COUNT = ["--time", "t", "--window", "tumbling(10)", "--agg", "count(*) as n"]


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def collected(path: Path, options: list[str] | None = None) -> pa.Table:
    """Return all rows that a job reads of a file, with all columns."""
    output = path.with_name("rows.arrow")
    command = ["aggregate", "--input", str(path), "--output", str(output), "--overwrite", *ALL]
    assert main([*command, *(options or [])]) == 0
    table = pa.ipc.open_file(output).read_all()
    return pa.Table.from_batches(
        [pa.RecordBatch.from_struct_array(chunk.values) for chunk in table["rows"].chunks]
    )


class TestTypes:
    """Which types columns have."""

    @pytest.mark.parametrize(
        ("values", "kind", "wanted"),
        [
            ("1 2", pa.int64(), [1, 2]),
            (f"{2**63 - 1} {-(2**63)}", pa.int64(), [2**63 - 1, -(2**63)]),
            # As CSV decides: text where a number would lose a digit.
            ("12345678901234567890 1", pa.string(), ["12345678901234567890", "1"]),
            ("1.5 2", pa.float64(), [1.5, 2.0]),
            ("1e3 -0.0", pa.float64(), [1000.0, -0.0]),
            ("0.1234567890123456789 1", pa.string(), ["0.1234567890123456789", "1"]),
            ("true null false", pa.bool_(), [True, None, False]),
            ('"00123" "123"', pa.string(), ["00123", "123"]),
            ('"1" "2"', pa.string(), ["1", "2"]),
            ('"NA" "null" ""', pa.string(), ["NA", "null", ""]),
            ("NaN 1", pa.int64(), [None, 1]),
            ("null null", pa.null(), [None, None]),
            ("[1] [] null", pa.list_(pa.int64()), [[1], [], None]),
            ("[1] [2.5]", pa.list_(pa.float64()), [[1.0], [2.5]]),
            ("[[null]]", pa.list_(pa.list_(pa.null())), [[[None]]]),
            (
                '{"a":1} {"b":"x"}',
                pa.struct({"a": pa.int64(), "b": pa.string()}),
                [{"a": 1, "b": None}, {"a": None, "b": "x"}],
            ),
            (
                '[{"a":12345678901234567890,"é":"\\u00e9"}]',
                pa.list_(pa.struct({"a": pa.string(), "é": pa.string()})),
                [[{"a": "12345678901234567890", "é": "é"}]],
            ),
        ],
    )
    def test_of_all_values(self, values: str, kind: pa.DataType, wanted: list[Any], tmp_path: Path) -> None:
        path = tmp_path / "in.jsonl"
        path.write_text("".join(f'{{"t": {at}, "v": {v}}}\n' for at, v in enumerate(values.split(" "))))
        found = collected(path)
        assert found.schema.field("v").type == kind
        assert found["v"].to_pylist() == wanted

    def test_a_type_that_is_given_holds_for_values_of_any_kind(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = lines(
            tmp_path / "in.jsonl", [{"t": 1, "v": 3}, {"t": 2, "v": "3.50"}, {"t": 3, "v": [1, "a"]}]
        )
        message = refused(capsys, ["--input", path, *ALL])
        assert message == (
            f"--input: column 'v' is a number in line 1 of {str(path)!r} and a string in line 2 of "
            f"{str(path)!r}; values of a column are of one kind, or --types v=string reads each as text"
        )
        as_text = collected(path, ["--types", "v=string"])
        assert as_text["v"].to_pylist() == ["3", "3.50", '[1,"a"]']
        lines(path, [{"t": 1, "v": 3}, {"t": 2, "v": "3.50"}])
        assert collected(path, ["--types", "v=decimal(9, 2)"])["v"].cast(pa.float64()).to_pylist() == [
            3.0,
            3.5,
        ]

    def test_kinds_differ_in_a_later_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
        lines(one, [{"t": 1, "v": 3, "other": 1}, {"t": 1, "v": None}])
        lines(two, [{"t": 1}, {"t": 1, "v": True, "other": "x"}])
        command = ["--input", tmp_path, "--time", "t", "--window", "tumbling(10)"]
        message = refused(capsys, [*command, "--agg", "max(v)"])
        assert message.startswith(
            f"--input: column 'v' is a number in line 1 of {str(one)!r} and a boolean in"
        )
        assert f"line 2 of {str(two)!r}" in message
        # Columns that nobody asks for may be anything.
        assert run(capsys, [*command, "--agg", "count(*)"])[0] == 0

    def test_one_place_of_nested_values_has_one_kind(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = lines(tmp_path / "in.jsonl", [{"t": 1, "v": {"a": [1]}}, {"t": 1, "v": {"a": ["x"]}}])
        message = refused(capsys, ["--input", path, *ALL])
        assert message.startswith("--input: column 'v.a' has a number and a string at one place of its lists")

    def test_explain_says_the_types(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = lines(tmp_path / "in.jsonl", [{"t": "2024-01-01T00:00:00Z", "v": 1, "k": "1", "big": 10**20}])
        command = ["--input", path, "--explain", "--by", "k", "--time", "t", "--window", "tumbling(1 day)"]
        status, out, _ = run(capsys, [*command, "--agg", "sum(v)", "--agg", "max(big)"])
        assert status == 0
        assert out.splitlines()[-4:-1] == [
            "column 'v': text read as int64",
            "column 'big': text read as string, because of '100000000000000000000'",
            "column 't': text read as timestamp[us, tz=UTC]",
        ]


VALUES = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "fraction": st.floats(allow_nan=False, allow_infinity=False),
    "truth": st.booleans(),
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "many": st.lists(st.none() | st.integers(-5, 5), max_size=3),
    "parts": st.fixed_dictionaries({"a": st.none() | st.text("xyz", max_size=2)}),
}
SCHEMA = pa.schema(
    {
        "t": pa.int64(),
        "whole": pa.int64(),
        "fraction": pa.float64(),
        "truth": pa.bool_(),
        "text": pa.string(),
        "many": pa.list_(pa.int64()),
        "parts": pa.struct({"a": pa.string()}),
    }
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"t": st.integers(0, 100)}, optional={name: st.none() | values for name, values in VALUES.items()}
    ),
    min_size=1,
    max_size=12,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, most=st.sampled_from([1, 2, 5, 2**15]), cut=st.integers(0, 12))
def test_rows_are_those_of_parquet(
    rows: list[dict[str, Any]], most: int, cut: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "ROWS", most)
    folder = tmp_path / "in"
    folder.mkdir(exist_ok=True)
    for name, part in (("1.jsonl", rows[:cut]), ("2.jsonl", rows[cut:])):
        lines(folder / name, part)
    pa.parquet.write_table(pa.Table.from_pylist(rows, SCHEMA), tmp_path / "in.parquet")
    found, wanted = collected(folder), collected(tmp_path / "in.parquet")
    for name in found.column_names:
        kind = found.schema.field(name).type
        values = wanted[name].to_pylist()
        if kind != SCHEMA.field(name).type:
            # Nothing is known of a place that has no values; whole numbers alone may be of both types.
            text = str(kind)
            assert "null" in text or kind == pa.int64(), name
        assert found[name].to_pylist() == values
    for name in set(wanted.column_names) - set(found.column_names):
        assert wanted[name].null_count == len(rows)


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(
        st.none()
        | st.sampled_from(["0", "-1", "1.10", "1.1", "1e5", "12345678901234567890", "0.12345678901234567890"])
        | st.integers().map(str)
        | st.floats(allow_nan=False, allow_infinity=False).map(repr)
        | st.booleans().map(lambda value: str(value).lower()),
        min_size=1,
        max_size=4,
    ).filter(lambda values: len({value in ("true", "false") for value in values if value is not None}) < 2),
    name=st.sampled_from(["k", "v"]),
)
def test_numbers_are_those_of_csv(values: list[str | None], name: str, tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text(f"t,{name}\n" + "".join(f"1,{each or ''}\n" for each in values))
    (tmp_path / "in.jsonl").write_text(
        "".join(f'{{"t":1,"{name}":{"null" if each is None else each}}}\n' for each in values)
    )
    command = [*("--time", "t", "--window", "tumbling(10)", "--overwrite", "--output")]
    command += [
        str(tmp_path / "out.arrow"),
        "--agg",
        f"collect_list({name}) as all",
        "--by",
        "k" if name == "k" else "",
    ]
    command = command if name == "k" else command[:-2]
    found = []
    for source in ("in.csv", "in.jsonl"):
        assert main(["aggregate", "--input", str(tmp_path / source), *command]) == 0
        found.append(pa.ipc.open_file(tmp_path / "out.arrow").read_all())
    csv, text = found
    assert text.schema == csv.schema
    assert str(text.to_pylist()) == str(csv.to_pylist())


class TestFiles:
    """Which files are read, and which lines of them."""

    @pytest.mark.parametrize("name", ["in.jsonl", "in.ndjson", "in.json", "in.jsonl.gz", "in.ndjson.bz2"])
    def test_endings(self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        codec = {".gz": "gzip", ".bz2": "bz2"}.get(Path(name).suffix)
        with pa.output_stream(str(tmp_path / name), compression=codec) as file:
            file.write(b'{"t": 1}\n{"t": 12}\n')
        status, out, _ = run(capsys, ["--input", tmp_path / name, *COUNT])
        assert (status, out.splitlines()[1:]) == (0, ["0,10,1", "10,20,1"])
        assert run(capsys, ["--input", tmp_path, *COUNT])[1] == out

    @pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
    @pytest.mark.parametrize(
        ("form", "text"), [("jsonl", b'{"t": 1}\n{"t": 12}'), ("csv", b"t\n1\n12\n")], ids=["jsonl", "csv"]
    )
    def test_stdin_has_the_format_that_is_named(
        self,
        form: str,
        text: bytes,
        pack: Any,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(pack(text))))
        status, out, err = run(capsys, ["--input", "-", "--format", form, *COUNT])
        assert (status, err) == (0, "")
        assert out.splitlines()[1:] == ["0,10,1", "10,20,1"]

    def test_blank_lines_a_byte_order_mark_and_no_last_end(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "in.jsonl"
        path.write_bytes('\ufeff{"t": 1}\r\n\r\n  \n {"t": 12} \n{"t": 13}'.encode())
        status, out, _ = run(capsys, ["--input", path, *COUNT])
        assert (status, out.splitlines()[1:]) == (0, ["0,10,1", "10,20,2"])

    def test_empty_files_beside_others(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "1.jsonl").touch()
        (tmp_path / "2.jsonl").write_text("\n")
        (tmp_path / "3.jsonl.gz").write_bytes(gzip.compress(b""))
        message = refused(capsys, ["--input", tmp_path, *COUNT])
        assert message.startswith("--time: no column 't'")
        lines(tmp_path / "4.jsonl", [{"t": 1}])
        assert run(capsys, ["--input", tmp_path, *COUNT])[1].splitlines()[1:] == ["0,10,1"]

    def test_hidden_files_say_nothing_of_the_format(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "_delta_log").mkdir()
        (tmp_path / "_delta_log" / "0.json").write_text('{"commitInfo": {}}\n')
        pa.parquet.write_table(pa.table({"t": [1]}), tmp_path / "part.parquet")
        assert run(capsys, ["--input", tmp_path, *COUNT])[1].splitlines()[1:] == ["0,10,1"]

    def test_directories_are_columns(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        for zip_code in ("00123", "123"):
            (tmp_path / f"zip={zip_code}").mkdir()
            lines(tmp_path / f"zip={zip_code}" / "a.jsonl", [{"t": 1, "zip": "own"}, {"t": 2, "later": 1}])
        status, out, _ = run(capsys, ["--input", tmp_path, "--by", "zip", *COUNT, "--filter", "zip != 123"])
        assert (status, out.splitlines()[1:]) == (0, ['"00123",0,10,2'])

    def test_a_column_that_is_not_there(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = lines(tmp_path / "in.jsonl", [{"t": 1, "value": 1}, {"t": 1, "later": 1}])
        command = ["--input", path, "--time", "t", "--window", "tumbling(10)", "--agg", "sum(valu)"]
        message = refused(capsys, command)
        assert message == "--agg: no column 'valu'; did you mean 'value'? there are t, value, later"

    @pytest.mark.parametrize(
        ("line", "says"),
        [
            (b'{"t": 1', "is no JSON (Expecting ',' delimiter); each line is an object"),
            (b"t,v", "is no JSON (Expecting value); each line is an object"),
            (b'{"t": 1} {"t": 2}', "is no JSON (' {\"t\": 2}' follows the object); each line is"),
            (
                b'[{"t": 1}]',
                'is a list; each line is an object, as in {"k": "a", "v": 1}; jq -c \'.[]\' makes',
            ),
            (b"7", "is a number; each line is an object"),
            (b"null", "is null; each line is an object"),
            (b'{"t": "\xff"}', "is no JSON ('utf-8' codec can't decode byte 0xff"),
            (b'{"t": ' + b"[" * 200_000, "is no JSON (maximum recursion depth exceeded"),
            (b'{"t": ' + b"[" * 600 + b"]" * 600 + b"}", "has too many lists and objects within each other"),
            (b'{"t": ' + b"1" * 5000 + b"}", "is no JSON (Exceeds the limit"),
            (b'{"t": "\\ud800"}', "has half of a character in 't'; text is Unicode"),
            (b'{"\\ud800": 1}', "has half of a character in a name; text is Unicode"),
        ],
        ids=lambda given: str(given)[:30],
    )
    def test_a_bad_line_is_named_by_its_number(
        self, line: bytes, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        path = tmp_path / "in.jsonl"
        path.write_bytes(b'{"t": 1}\n\n' + line + b'\n{"t": 2}\n')
        assert refused(capsys, ["--input", path, *COUNT]).startswith(
            f"--input: line 3 of {str(path)!r} {says}"
        )

    def test_stdin_of_a_program_may_be_text(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO("t\n1\n"))
        message = refused(capsys, ["--input", "-", *COUNT])
        assert message == "--input: '-' is given, and stdin is a StringIO, which has no bytes"

    def test_stdin_is_called_so(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"t": 1}\noops\n')))
        message = refused(capsys, ["--input", "-", "--format", "jsonl", *COUNT])
        assert message.startswith("--input: line 2 of stdin is no JSON (")

    def test_a_damaged_file_is_refused(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "in.jsonl.gz"
        path.write_bytes(gzip.compress(b'{"t": 1}\n' * 1000)[:-12])
        assert "Truncated" in refused(capsys, ["--input", path, *COUNT])

    def test_they_are_not_written(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = lines(tmp_path / "in.jsonl", [{"t": 1}])
        message = refused(capsys, ["--input", path, "--output", tmp_path / "out.jsonl", *COUNT])
        assert message.endswith(
            "would be of JSON lines, which are only read; written are Parquet, CSV and Arrow"
        )
        # The format of inputs is not that of stdout.
        assert run(capsys, ["--input", path, "--format", "jsonl", *COUNT])[1].splitlines()[1:] == ["0,10,1"]

    def test_temporary_files_are_removed(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(scratch))
        path = lines(tmp_path / "in.jsonl", [{"t": 1, "v": [1]}])
        assert run(capsys, ["--input", path, *COUNT])[0] == 0
        refused(capsys, ["--input", path, *COUNT, "--agg", "sum(v)"])
        assert list(scratch.iterdir()) == []


def test_times_of_text_are_read_as_those_of_parquet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start = datetime(2024, 1, 1)
    rows = [{"t": (start + timedelta(hours=7 * at)).isoformat(), "v": at} for at in range(9)]
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "in.parquet")
    lines(tmp_path / "in.jsonl", rows)
    command = ["--time", "t", "--window", "tumbling(1 day)", "--agg", "sum(v)"]
    wanted = run(capsys, ["--input", tmp_path / "in.parquet", *command])
    assert wanted[0] == 0
    assert run(capsys, ["--input", tmp_path / "in.jsonl", *command]) == wanted


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_whole_numbers_count_from_1970(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"in.{form}"
    counts = [1_714_564_800_000, None, -1, 1_714_564_800_123]
    if form == "jsonl":
        lines(path, [{"t": count} for count in counts])
    elif form == "csv":
        path.write_text("t,v\n" + "".join(f"{'' if count is None else count},1\n" for count in counts))
    else:
        pa.parquet.write_table(pa.table({"t": counts}), path)
    command = ["--input", path, "--time", "t", "--types", "t=timestamp[ms, UTC]"]
    status, out, err = run(capsys, [*command, "--window", "tumbling(1 day)", "--agg", "count(*)"])
    assert (status, err) == (0, "")
    assert sorted(out.splitlines()[1:]) == [
        "1969-12-31 00:00:00.000Z,1970-01-01 00:00:00.000Z,1",
        "2024-05-01 00:00:00.000Z,2024-05-02 00:00:00.000Z,2",
    ]
