"""The documents of the project, and the examples in them.

Each block of Python is run: in a page that starts a `SparkSession`, or where a block names a DataFrame
`df`, in Spark. A block of `text` right after one of Python is what it prints, and is compared. Rows of
tables with code in both of the first two cells, as in `docs/how-to/from-pandas.md`, are run, too, and
must give the same values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))


class Example(NamedTuple):
    """A block of Python, and what the page says that it prints."""

    code: str
    output: str | None
    needs_spark: bool
    """It names a DataFrame `df` that the reader has, a session, or what only such blocks before it make."""


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)


def examples(document: Path) -> list[Example]:
    """Return the blocks of Python of a page; what one prints is a block of text right after it."""
    pattern = r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    found: list[Example] = []
    known = {False: set[str](), True: {"df", "spark", "SparkSession"}}
    for code, output in re.findall(pattern, document.read_text(), re.DOTALL | re.MULTILINE):
        needs_spark = bool((known[True] - known[False]) & names(code))
        known[needs_spark] |= set(re.findall(r"^(\w+) = ", code, re.MULTILINE))
        found.append(Example(code, output or None, needs_spark))
    return found


def names(block: str) -> set[str]:
    return set(re.findall(r"\w+", block))


def makes_session(document: Path) -> bool:
    """Whether a page is of Spark as a whole: it starts a session, and what follows goes on with it."""
    return any("SparkSession" in names(example.code) for example in examples(document))


def pairs(document: Path) -> list[tuple[str, str]]:
    """Return the rows of tables in which each of the first two cells is one piece of code."""
    return re.findall(r"^\| `([^`]+)` \| `([^`]+)` \|", document.read_text(), re.MULTILINE)


def answer(cell: str, namespace: dict[str, Any]) -> Any:
    """Return what a cell of such a table stands for, over the page's `readings`."""
    if cell.startswith("windows="):
        cell = f"wk.query(by='device', time='ts', {cell}).run(readings)"
    elif re.match(r"wk\.(?!rolling)\w+\(.*\.over\(", cell):
        cell = f"wk.rolling(by='device', time='ts', aggs={cell}).run(readings)"
    return eval(cell, namespace)


def lines(printed: str) -> list[str]:
    """Return the lines of what was printed, without the blanks at their ends."""
    return [line.rstrip() for line in printed.strip().splitlines()]


DOCUMENTS = [document for document in [ROOT / "README.md", *PAGES] if examples(document)]


def title(document: Path) -> str:
    return document.relative_to(ROOT).as_posix()
