"""The documents' examples run, print what they say, and say what is so; the site has all pages and names.

Those of Spark are run by tests/spark/test_spark_docs.py.
"""

from __future__ import annotations

import inspect
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from support import drawings
from support.documents import (
    DOCUMENTS,
    PAGES,
    ROOT,
    answer,
    blocks,
    examples,
    lines,
    makes_session,
    pairs,
    title,
)
from support.plain import assert_near
from support.programs import ROOT as PACKAGES
from windowkit.cli import program as cli


@pytest.mark.parametrize("document", [each for each in DOCUMENTS if not makes_session(each)], ids=title)
def test_python_examples_run(
    document: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # Where its blocks may write.
    monkeypatch.chdir(tmp_path)
    namespace_of(document, capsys)


def namespace_of(document: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run a page's examples, and return the names that they leave behind."""
    namespace: dict[str, Any] = {}
    for code, output in (each[:2] for each in examples(document) if not each.needs_spark):
        capsys.readouterr()
        exec(compile(code, str(document), "exec"), namespace)
        if output is not None:
            assert lines(capsys.readouterr().out) == lines(output)
    return namespace


@pytest.mark.parametrize("name", ["from-pandas", "from-polars"])
def test_what_others_write_gives_the_same(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    document = ROOT / "docs" / "how-to" / f"{name}.md"
    namespace = namespace_of(document, capsys)
    found = pairs(document)
    assert len(found) > 8
    for theirs, ours in found:
        expected, got = (values(answer(cell, namespace)) for cell in (theirs, ours))
        assert len(got) > 1
        assert len(got) == len(expected), (theirs, ours, expected, got)
        for one, other in zip(expected, got, strict=True):
            assert_near(one, other)


def values(result: Any) -> list[Any]:
    """Return the values of an array, or of the last column of a frame, ascending, without missing ones."""
    if isinstance(result, pd.DataFrame):
        result = result.iloc[:, -1]
    if isinstance(result, pd.Series):
        return sorted(result.dropna().tolist())
    column = result.to_series(-1).to_arrow() if isinstance(result, pl.DataFrame) else result
    return sorted(value for value in column.to_pylist() if value is not None)


def test_what_flink_has_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    document = ROOT / "docs" / "how-to" / "from-flink.md"
    namespace = namespace_of(document, capsys)
    found = pairs(document)
    assert len(found) > 15
    for _, ours in found:
        answer(ours, namespace)


@pytest.mark.parametrize("document", ["README.md", "docs/reference/cli.md"])
def test_command_line_examples_run(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ts = pa.array([0, 90, 600], pa.timestamp("s", "UTC"))
    table = pa.table({"device": ["a", "a", "b"], "ts": ts, "v": [20.5, None, 19.0]})
    pyarrow.parquet.write_table(table, tmp_path / "readings.parquet")
    with pa.CompressedOutputStream(str(tmp_path / "readings.csv.gz"), "gzip") as file:
        pyarrow.csv.write_csv(table, file)
    monkeypatch.chdir(tmp_path)
    commands = [
        line
        for block in blocks(ROOT / document, "sh")
        for line in block.replace("\\\n", "").splitlines()
        if re.search(r"(^|\| )windowkit ", line)
    ]
    assert commands
    for command in commands:
        if command.startswith("windowkit "):
            assert cli.main(shlex.split(command)[1:]) == 0
        else:
            piped = command.replace("windowkit ", f"{shlex.quote(sys.executable)} -m windowkit ")
            subprocess.run(piped, shell=True, check=True, env={**os.environ, "PYTHONPATH": PACKAGES})
        assert pyarrow.parquet.read_metadata("windows.parquet").num_rows > 0


@pytest.mark.parametrize("name", drawings.pictures())
def test_drawings_are_of_this_windowkit(name: str) -> None:
    assert (drawings.FOLDER / f"{name}.svg").read_text() == drawings.pictures()[name]


def test_the_first_page_has_the_speeds_of_the_readme() -> None:
    [speeds] = re.findall(r"<!-- speed:begin -->\n(.*?)\n\n", (ROOT / "README.md").read_text(), re.DOTALL)
    assert speeds in (ROOT / "docs" / "index.md").read_text()


@pytest.mark.parametrize(
    ("name", "word"),
    [("polars", "group_by_dynamic"), ("pandas", "resample"), ("spark", "session_window")],
)
def test_a_search_for_what_others_call_it_finds_their_page(name: str, word: str) -> None:
    """The search of the site ranks by titles first: one of that page has the word, and no other page's."""
    titled = {page.stem for page in PAGES if re.search(rf"^#.*\b{word}\b", page.read_text(), re.MULTILINE)}
    assert titled == {f"from-{name}"}


def test_the_site_has_every_page() -> None:
    """`make docs` fails if a link is broken, but not if a menu lacks a page, or has one too many."""
    listed = re.findall(r'"([^"]+\.md)"', (ROOT / "zensical.toml").read_text())
    assert sorted(listed) == [page.relative_to(ROOT / "docs").as_posix() for page in PAGES]


CODE_WIDTH = 88
"""Characters in a line of code that fit into the column of a page on a screen of 1,280 pixels."""

TABLE_WIDTH = 116
"""Characters in a row of a table that do, with some 6 of padding for each column."""


@pytest.mark.parametrize("document", PAGES, ids=title)
def test_no_line_of_code_is_cut_off(document: Path) -> None:
    written = re.findall(r"^ *```\w+\n(.*?)^ *```$", document.read_text(), re.DOTALL | re.MULTILINE)
    assert [line for block in written for line in block.splitlines() if len(line) > CODE_WIDTH] == []


@pytest.mark.parametrize("document", [each for each in PAGES if "benchmarks" not in each.parts], ids=title)
def test_no_table_is_cut_off(document: Path) -> None:
    """A column is as wide as its longest word, but those of `pairs` have half of the room and break words."""
    text = re.sub(r'<div class="pairs".*?</div>', "", document.read_text(), flags=re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        rows = [re.split(r"(?<!\\)\|", row)[1:-1] for row in table.splitlines() if not row.startswith("|--")]
        words = [[max(map(len, shown(cell).split()), default=0) for cell in row] for row in rows]
        assert sum(max(column) + 6 for column in zip(*words, strict=True)) <= TABLE_WIDTH, table


def shown(cell: str) -> str:
    """Return what a reader sees of a cell, without where its links lead."""
    return re.sub(r"\]\([^)]*\)", "", cell).replace("`", "")


MAPS = [
    *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "tests/README.md", "fuzz/README.md")),
    *(page for page in PAGES if "internals" in page.parts),
]

APART = (".git", ".venv", "target", "site")
"""What is made, and has too many files to look through."""


@pytest.fixture(scope="module")
def places() -> set[str]:
    """Every end of a path of the project: that of `a/b.py` is `/b.py`, too."""
    folders = [path for path in ROOT.iterdir() if path.name not in APART]
    paths = [path.relative_to(ROOT).parts for top in folders for path in (top, *top.rglob("*"))]
    return {"/".join(parts[at:]) for parts in paths for at in range(len(parts))}


@pytest.mark.parametrize("document", MAPS, ids=title)
def test_files_that_a_map_names_are_there(document: Path, places: set[str]) -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:rs|py|md|toml))`", document.read_text())
    assert {name for name in named if name.rstrip("/") not in places} == set(), (
        "it moved: say where it is now"
    )


@pytest.mark.parametrize(
    "package", ["windowkit", "windowkit.kernels", "windowkit.partition", "windowkit.spark"]
)
def test_the_site_has_every_public_name(package: str) -> None:
    pages = (ROOT / "docs" / "reference" / "api").glob("*.md")
    described = {
        name for page in pages for name in re.findall(r"^::: (\S+)$", page.read_text(), re.MULTILINE)
    }
    for name in import_module(package).__all__:
        value = getattr(import_module(package), name)
        home = getattr(value, "__module__", package)
        assert {f"{package}.{name}", f"{home}.{name}"} & described, f"{package}.{name} is on no page"


API = sorted((ROOT / "docs" / "reference" / "api").glob("*.md"))


def on_page(page: Path) -> Iterator[tuple[str, Any]]:
    """Yield what a page of the API describes, with the members that it shows."""
    shown = r"^::: (\S+)$(?:\n    options:(?:\n      (?:members: (.*)|.*))*)?"
    for path, members in re.findall(shown, page.read_text(), re.MULTILINE):
        home, _, name = path.rpartition(".")
        value = getattr(import_module(home), name)
        yield path, value
        if isinstance(value, type) and members != "false":
            for member in re.findall(r"\w+", members) or [each for each in vars(value) if each[0] != "_"]:
                of = inspect.getattr_static(value, member)
                yield f"{path}.{member}", getattr(of, "fget", None) or getattr(of, "__func__", of)


def entries(value: Any) -> Iterator[tuple[str, str, str]]:
    """Yield the entries of the sections of a docstring, as section, head and description."""
    sections = re.compile(r"^([A-Z]\w+)\n-+\n(.*?)(?=^[A-Z]\w+(?: \w+)*\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
    for section, body in sections.findall(inspect.getdoc(value) or ""):
        if section in ("Parameters", "Attributes", "Returns", "Yields", "Raises"):
            for head, text in re.findall(r"^(\S.*)\n?((?:(?: .*)?\n)*(?: .*)?)", body, re.MULTILINE):
                yield section, head, text.strip()


@pytest.mark.parametrize("page", API, ids=title)
def test_what_the_api_lists_it_describes(page: Path) -> None:
    """An entry without a description is a dash in the site that nothing follows."""
    found = [(path, *each) for path, value in on_page(page) for each in entries(value)]
    assert len(found) > 10 or page.stem == "errors"
    assert [(path, head) for path, _, head, text in found if not text] == []


@pytest.mark.parametrize("page", API, ids=title)
def test_choices_in_braces_begin_with_the_default(page: Path) -> None:
    """The site shows the first as the default; without braces, that of the signature, if it has one."""
    wrong = []
    for path, value in on_page(page):
        for section, head, _ in entries(value):
            choices = re.match(r"(\w+) : \{\"?([^\",}]+)", head)
            if choices and section == "Parameters":
                default = inspect.signature(value).parameters[choices[1]].default
                if str(default) != choices[2]:
                    wrong.append((path, head, default))
    assert wrong == []
