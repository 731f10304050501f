"""Files of one table whose columns differ, read by the command `windowkit`: in any order, the same result."""

from __future__ import annotations

import itertools
import random
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from support.commands import refused, run
from windowkit.arrow.schemas import common

ARGUMENTS = ["--by", "k", "--time", "t", "--window", "tumbling(1 day)"]
TOTAL = [*ARGUMENTS, "--agg", "sum(v) as total"]


MICROS = pa.timestamp("us")


def table(value: Any, kind: pa.DataType, time: pa.DataType = MICROS, key: Any = "a") -> pa.Table:
    return pa.table({"k": [key], "t": pa.array([0], pa.int64()).cast(time), "v": pa.array([value], kind)})


def total(folder: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[Any]:
    output = folder.with_name("out.arrow")
    status, _, error = run(capsys, ["--input", folder, *TOTAL, "--output", output, "--overwrite", *options])
    assert status == 0, error
    return list(pa.ipc.open_file(output).read_all()["total"].to_pylist())


def files(folder: Path, tables: list[pa.Table]) -> Path:
    folder.mkdir()
    for at, each in enumerate(tables):
        pa.parquet.write_table(each, folder / f"{at}.parquet")
    return folder


@pytest.mark.parametrize(
    ("tables", "wanted"),
    [
        ([table(3, pa.int64()), table(2.5, pa.float64())], 5.5),
        ([table(3, pa.int32()), table(2**40, pa.int64())], 2**40 + 3),
        ([table(3, pa.int8()), table(200, pa.uint8()), table(1 << 20, pa.int32())], (1 << 20) + 203),
        ([table(3, pa.int64()), table(None, pa.null()), table(4, pa.int64())], 7),
        ([table(3, pa.int64()).drop(["v"]), table(4, pa.int64())], 4),
        ([table(3, pa.int64(), pa.timestamp("s")), table(4, pa.int64(), pa.timestamp("ns"))], 7),
        (
            [
                table(3, pa.int64(), pa.timestamp("us", "UTC")),
                table(4, pa.int64(), pa.timestamp("ns", "Asia/Tokyo")),
            ],
            7,
        ),
        (
            [table(0.1, pa.float32()), table(Decimal("0.10"), pa.decimal128(10, 2))],
            float(np.float32(0.1)) + 0.1,
        ),
        ([table(0.5, pa.float16()), table(Decimal("70000.1"), pa.decimal128(10, 2))], 70000.6),
        (
            [table(2**53, pa.int64()), table(Decimal("0.25"), pa.decimal128(10, 2))],
            Decimal(2**53) + Decimal("0.25"),
        ),
        (
            [table(2**64 - 1, pa.uint64()), table(Decimal("0.25"), pa.decimal128(10, 2))],
            Decimal(2**64 - 1) + Decimal("0.25"),
        ),
        (
            [table(3, pa.int64()), table(Decimal("0.5"), pa.decimal128(38, 20)), table(2.0, pa.float64())],
            5.5,
        ),
        ([table(3, pa.int64()), table(4, pa.int64()).append_column("other", [["x"]])], 7),
    ],
    ids=lambda value: (
        "-".join(str(each.schema.types[-1]) for each in value) if isinstance(value, list) else ""
    ),
)
def test_order_of_files_does_not_matter(
    tables: list[pa.Table], wanted: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, order in enumerate(itertools.permutations(tables)):
        assert total(files(tmp_path / str(at), list(order)), capsys) == [wanted]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (pa.int64(), pa.decimal128(10, 2), pa.decimal128(21, 2)),
        (pa.uint64(), pa.decimal128(10, 2), pa.decimal128(22, 2)),
        (pa.int8(), pa.decimal128(10, 2), pa.decimal128(10, 2)),
        (pa.decimal128(10, 2), pa.decimal128(5, 4), pa.decimal128(12, 4)),
        (pa.float16(), pa.decimal128(10, 2), pa.float64()),
        (pa.float32(), pa.decimal128(10, 2), pa.float64()),
        (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "Europe/Paris"), pa.timestamp("us", "UTC")),
        (
            pa.timestamp("ms", "Asia/Tokyo"),
            pa.timestamp("us", "Asia/Tokyo"),
            pa.timestamp("us", "Asia/Tokyo"),
        ),
    ],
    ids=str,
)
def test_one_type_holds_the_values_of_both(one: pa.DataType, other: pa.DataType, wanted: pa.DataType) -> None:
    assert common(one, other) == common(other, one) == wanted


def test_decimals_of_too_many_digits_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [table(3, pa.int64()), table(Decimal("0.5"), pa.decimal128(38, 20))]
    for at, order in enumerate((both, both[::-1])):
        error = refused(capsys, ["--input", files(tmp_path / str(at), order), *TOTAL])
        for said in (
            "column 'v' is",
            "int64 in",
            "0.parquet",
            "decimal128(38, 20) in",
            "1.parquet",
            "more than 38 digits",
        ):
            assert said in error


def test_unlike_zones_are_read_as_utc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [table(1, pa.int64(), pa.timestamp("us", zone)) for zone in ("Asia/Tokyo", "Europe/Paris")]
    for at, order in enumerate((both, both[::-1])):
        output = tmp_path / f"{at}.arrow"
        command = ["--input", files(tmp_path / str(at), order), *ARGUMENTS, "--agg", "max(t) as last"]
        assert run(capsys, [*command, "--output", output]) == (0, "", "")
        assert pa.ipc.open_file(output).schema.field("last").type == pa.timestamp("us", "UTC")


def test_filters_compare_the_united_type(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = files(tmp_path / "in", [table(3, pa.int64()), table(2.5, pa.float64()), table(1, pa.int8())])
    assert total(folder, capsys, "--filter", "v > 2.4") == [5.5]
    assert total(folder, capsys, "--filter", "v in (1, 2.5)") == [3.5]


@pytest.mark.parametrize("seed", range(8))
def test_random_files_are_the_table_that_they_were(
    seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table cut into files, each with the narrowest types that a writer might have chosen for it."""
    chance = random.Random(seed)
    numbers = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()]
    times = [pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")]
    parts, wanted = [], 0
    for _ in range(chance.randint(2, 5)):
        values = [chance.randint(-100, 100) for _ in range(chance.randint(0, 5))]
        columns = {
            "k": pa.array(["a"] * len(values)),
            "t": pa.array([0] * len(values), chance.choice(times)),
            "v": pa.array(values, chance.choice(numbers)),
        }
        names = [name for name in columns if name != "v" or chance.random() < 0.8]
        chance.shuffle(names)
        wanted += sum(values) if "v" in names else 0
        parts.append(pa.table({name: columns[name] for name in names}))
    parts.append(table(1, chance.choice(numbers)))
    chance.shuffle(parts)
    assert total(files(tmp_path / "in", parts), capsys) == [wanted + 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (table(1, pa.int64(), pa.timestamp("us", "UTC")), table(1, pa.int64(), pa.timestamp("us"))),
        (table(1, pa.int64()), table(1, pa.int64(), key=7)),
        (table(1, pa.int64()), table(b"x", pa.binary())),
    ],
    ids=["zone", "key", "value"],
)
def test_what_cannot_be_united_names_both_files(
    one: pa.Table, other: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (name,) = (field.name for field in one.schema if other.schema.field(field.name) != field)
    kinds = [each.schema.field(name).type for each in (one, other)]
    folder = files(tmp_path / "in", [one, one, other])
    assert refused(capsys, ["--input", folder, *TOTAL]).startswith(
        f"--input: column {name!r} is {kinds[0]} in {str(folder / '0.parquet')!r} and {kinds[1]} in "
        f"{str(folder / '2.parquet')!r}; types of a column are united if "
    )


def test_columns_that_nobody_asks_for_may_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tables = [table(at, pa.int64()).append_column("x", [[value]]) for at, value in enumerate((1, "text"))]
    assert total(files(tmp_path / "in", tables), capsys) == [1]


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        (pa.string(), pa.large_string(), pa.large_string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string(), pa.string()),
        (pa.date32(), pa.timestamp("ms"), pa.timestamp("ms")),
        (pa.decimal128(5, 2), pa.decimal128(7, 3), pa.decimal128(7, 3)),
        (pa.string(), pa.binary(), None),
        (pa.bool_(), pa.int64(), None),
        (pa.date32(), pa.timestamp("ms", "UTC"), None),
    ],
    ids=str,
)
def test_the_type_of_two_is_the_same_in_either_order(
    one: pa.DataType, other: pa.DataType, wanted: pa.DataType | None
) -> None:
    assert common(one, other) == wanted
    assert common(other, one) == wanted


def test_days_and_moments_are_moments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    days = pa.table({"k": ["a"], "t": pa.array([0], pa.int32()).cast(pa.date32()), "v": [1]})
    noon = pa.table({"k": ["a"], "t": pa.array([datetime(1970, 1, 1, 12)], pa.timestamp("ms")), "v": [2]})
    for at, order in enumerate(([days, noon], [noon, days])):
        assert total(files(tmp_path / str(at), order), capsys) == [3]
