"""The documents' examples run: Python as it stands, the command line over a file with their columns."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from support.documents import DOCUMENTS, ROOT, blocks, names
from windowkit import cli


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_python_examples_run(document: Path) -> None:
    # Blocks on Spark name a DataFrame `df` that the reader has: tests/spark runs them.
    examples = [block for block in blocks(document, "python") if "df" not in names(block)]
    namespace: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(document), "exec"), namespace)


@pytest.mark.parametrize("document", ["README.md", "docs/cli.md"])
def test_command_line_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ts = pa.array([0, 90, 600], pa.timestamp("s", "UTC"))
    table = pa.table({"device": ["a", "a", "b"], "ts": ts, "v": [20.5, None, 19.0]})
    pyarrow.parquet.write_table(table, tmp_path / "readings.parquet")
    monkeypatch.chdir(tmp_path)
    commands = [
        line
        for block in blocks(ROOT / document, "sh")
        for line in block.replace("\\\n", "").splitlines()
        if line.startswith("windowkit ")
    ]
    assert commands
    for command in commands:
        assert cli.main(shlex.split(command)[1:]) == 0
        assert pyarrow.parquet.read_metadata("windows.parquet").num_rows > 0
