"""How tests run the command `windowkit`, and a table and a query to run it with."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet
import pytest

import windowkit as wk
from windowkit.cli.program import main

TABLE = pa.table(
    {
        "device": ["a", "b", "a", None, "a"],
        "site": [1, 1, 2, 2, 2],
        "ts": pa.array([0, 1, 2, 11, 13], pa.timestamp("s")),
        "v": [1.0, None, 3.0, 4.0, 5.0],
        "unused": [[1], [2], [3], [4], [5]],
    }
)
QUERY = wk.query(
    by=["device", "site"],
    time="ts",
    windows=wk.sliding("10 seconds", "5 seconds"),
    aggs=[wk.sum("v").alias("total"), wk.count()],
)
ARGUMENTS = [
    *("--by", "device,site", "--time", "ts", "--window", "sliding(10 seconds, 5 seconds)"),
    *("--agg", "sum(v) as total", "--agg", "count(*)"),
]

KEYED = ["--by", "`k\nforged`", "--time", "t\nforged"]
FRAMED = [*KEYED, "--input", "a\nb.parquet", "--agg", "max(`v\nforged`) over (3 rows) as `m\nforged`"]
NEWLINES = {
    "aggregate": [
        *("aggregate", "--input", "a\nb.parquet", *KEYED, "--window", "tumbling(10) as `w\nforged`"),
        *("--agg", "max(`v\nforged`) as `m\nforged`"),
    ],
    "rolling": ["rolling", *FRAMED],
    "labels": ["rolling", *FRAMED, "--labels", "a\nb.parquet"],
    "join": [
        *("join", "--left", "a\nb.parquet", "--right", "a\nb.parquet", "--by", "`k\nforged`"),
        *("--within", "1", "--left-time", "t\nforged", "--right-time", "t\nforged"),
    ],
}
"""Commands over columns whose names have newlines."""


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(map(str, row.values())) for row in table.to_pylist())


def run(
    capsys: pytest.CaptureFixture[str], arguments: Sequence[str | Path], command: str = "aggregate"
) -> tuple[int, str, str]:
    """Run the command; return its status and what it printed to stdout and stderr."""
    try:
        status = main([command, *map(str, arguments)])
    except SystemExit as ended:
        status = int(ended.code or 0)
    out, err = capsys.readouterr()
    return status, out, err


def check_newlines(capsys: pytest.CaptureFixture[str], command: str, *options: str) -> None:
    """Explain one of `NEWLINES` over a file in the directory that one is in."""
    columns = {"k\nforged": ["a"], "t\nforged": [1], "v\nforged": [1.0]}
    pa.parquet.write_table(pa.table(columns), "a\nb.parquet")
    name, *arguments = NEWLINES[command]
    status, out, err = run(capsys, [*arguments, "--explain", *options], name)
    assert (status, err) == (0, "")
    assert "\\nforged" in out
    assert not [line for line in out.split("\n") if line.startswith("forged")]


def refused(
    capsys: pytest.CaptureFixture[str],
    arguments: Sequence[str | Path],
    status: int = 2,
    command: str = "aggregate",
) -> str:
    """Run the command, which fails with at most two lines on stderr; return these as one message."""
    got, out, err = run(capsys, arguments, command)
    assert (got, out) == (status, "")
    return message(err)


def message(err: str) -> str:
    """Return what stderr says: what was given, and in a second line what is allowed."""
    assert err.startswith("windowkit: error: ")
    given, *allowed = err.removeprefix("windowkit: error: ").removesuffix("\n").split("\n")
    assert len(allowed) <= 1
    assert all(line.startswith("  ") for line in allowed)
    return "; ".join([given, *map(str.strip, allowed)])
