"""Expressions of the command line that are wrong: refused in two lines, without a traceback."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.commands import message
from windowkit.cli.program import main

TABLE = pa.table({"k": ["a"], "t": pa.array([1], pa.timestamp("us")), "v": [1], "text": ["2024-01-01"]})
RIGHT = {
    "aggregate": {
        "--by": "k",
        "--time": "t",
        "--window": "sliding(10 minutes, 1 minute, start_time=5 seconds) as w",
        "--agg": "quantile(v, 0.5) where v as x",
        "--filter": "k not in (a, 'b')",
        "--types": "v=decimal(9, 2),k=string",
        "--time-format": "%d/%m/%Y",
        "--fill": "x=previous",
        "--max-windows": "5",
        "--weight": "v",
        "--threads": "2",
    },
    "rolling": {
        "--by": "k",
        "--time": "t",
        "--agg": "sum(v) where v over (5 minutes before, 1 minute after, closed left) as x",
        "--labels-by": "k",
        "--labels-time": "t",
        "--labels-types": "k=string",
        "--labels-filter": "v > 1",
    },
    "join": {
        "--by": "k = k",
        "--left-time": "t",
        "--right-time": "t",
        "--within": "5 minutes, 1 minute",
        "--window": "tumbling(1 hour)",
        "--how": "left",
        "--closed": "left",
        "--left-columns": "k, t",
        "--right-columns": "`v`",
        "--suffix": "_r",
        "--left-weight": "w",
        "--left-types": "v=bigint",
        "--right-filter": "t >= 2024-01-01",
        "--left-time-format": "%Y",
    },
}
EACH = [(command, option) for command, options in RIGHT.items() for option in options]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("in") / "in.parquet"
    pa.parquet.write_table(TABLE, path)
    return path


@st.composite
def mistaken(draw: st.DrawFn) -> tuple[str, str, str]:
    """Draw a command, an option and a text for it: one with letters changed, left out or put in."""
    command, option = draw(st.sampled_from(EACH))
    text = RIGHT[command][option]
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        more = draw(
            st.text("abv019 ,;.()[]'\"`=<>%\\-é\x1b", max_size=3) | st.sampled_from(["; ", " over ", "1e9"])
        )
        text = text[:at] + more + text[at + draw(st.integers(0, 4)) :]
    return command, option, text


@settings(deadline=None, max_examples=400)
@given(mistake=mistaken())
def test_mistakes_are_refused_in_two_lines(mistake: tuple[str, str, str], source: Path) -> None:
    command, option, text = mistake
    inputs = {
        "aggregate": ["--input"],
        "rolling": ["--input", "--labels"],
        "join": ["--left", "--right"],
    }[command]
    needed = {
        "aggregate": {"--time": "t", "--window": "tumbling(1 hour)", "--agg": "count(*)"},
        "rolling": {"--time": "t", "--agg": "count(*) over (1 hour)"},
        "join": {"--left-time": "t", "--right-time": "t", "--within": "1 hour"},
    }[command]
    arguments = [part for each in inputs for part in (each, str(source))]
    arguments += [f"{name}={value}" for name, value in (needed | {option: text}).items()]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main([command, *arguments, "--explain"])
        except SystemExit as ended:
            status = ended.code
    assert status in (0, 2), err.getvalue()
    if status == 2:
        assert out.getvalue() == ""
        assert message(err.getvalue()).isprintable()
        assert err.getvalue().count("\n") <= 2


@pytest.mark.parametrize(
    ("command", "option", "text", "lines"),
    [
        (
            "aggregate",
            "--agg",
            "foo(v)",
            ["--agg: 'foo(v)' is not an aggregate", "functions are count, sum, min, "],
        ),
        (
            "aggregate",
            "--agg",
            "nunique(v)",
            ["--agg: 'nunique(v)' is not an aggregate", "did you mean 'count_distinct'? functions are count"],
        ),
        (
            "aggregate",
            "--window",
            "hop(1 day)",
            ["--window: 'hop(1 day)' is not a window", "did you mean 'sliding'? windows are tumbling("],
        ),
        ("aggregate", "--filter", "v; v", ["--filter: 'v; v' is not a comparison", "filters are 'day >= "]),
        ("aggregate", "--types", "v=wide", ["--types: 'wide' is not a type", "types are tinyint, byte, "]),
        (
            "rolling",
            "--agg",
            "foo(v)",
            ["--agg: 'foo(v)' is not an aggregate", "functions are count, sum, min, "],
        ),
        (
            "rolling",
            "--agg",
            "sum(v)",
            ["--agg: 'sum(v)' has no frame", "write sum(v) over (10 minutes), or "],
        ),
        (
            "join",
            "--within",
            "1 dya",
            [
                "--within: '1 dya' has the unknown unit 'dya'",
                "did you mean '1 day'? a duration is '<number> ",
            ],
        ),
    ],
)
def test_the_second_line_says_what_is_allowed(
    command: str,
    option: str,
    text: str,
    lines: list[str],
    source: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ["--left", str(source), "--right", str(source), "--left-time", "t", "--right-time", "t"]
    if command != "join":
        arguments = ["--input", str(source), "--time", "t"]
    if command == "aggregate":
        arguments += ["--window", "tumbling(1 day)", "--agg", "count(*)"]
    assert main([command, *arguments, option, text]) == 2
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"windowkit: error: {lines[0]}"
    assert second.startswith(f"  {lines[1]}")
