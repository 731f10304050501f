"""What all benchmarks share: records and the page made of them, the machine they are of, and tables.

A page stands beside its records, which are JSON lines, compressed: first the facts that hold for all of them,
then a record for each thing that was measured. Pages and pictures are made from records alone, so that each
benchmark writes them again with ``--page``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import windowkit

Record = dict[str, Any]
FOLDER = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
SHOWN = ("date", "processor", "system", "versions", "settings")
"""The facts that are listed at the head of a page."""


def add_arguments(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments that all benchmarks take; `name` is that of the page."""
    parser.add_argument("--page", action="store_true", help="only write the page again, from its records")
    parser.add_argument(
        "--output", type=Path, default=FOLDER / f"{name}.md", help="the page; default: docs/benchmarks"
    )


def path_of(page: Path) -> Path:
    """Return where the records of a page are."""
    return page.with_suffix(".jsonl.gz")


def read(page: Path) -> tuple[Record, list[Record]]:
    """Return the facts and the records of a page; none if it has none yet."""
    path = path_of(page)
    if not path.exists():
        return {}, []
    facts, *records = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
    return facts, records


def keep(page: Path, facts: Record, records: Iterable[Record]) -> None:
    """Write the facts and the records of a page."""
    page.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in (facts, *records))
    # Without the time, so that equal records are equal files.
    path_of(page).write_bytes(gzip.compress(lines.encode(), mtime=0))


def write(page: Path, made: Callable[[Path, Record, list[Record]], str]) -> None:
    """Write a page from its records; `made` returns its text, and draws its pictures."""
    facts, records = read(page)
    page.write_text(made(page, facts, records))
    print(f"written: {page}")


def lacks(sample: Path, quick: bool) -> bool:
    """Whether a quick run has to do without a sample of data; one that is recorded fails without it."""
    if quick and not sample.exists():
        print(f"{sample} is missing: what needs it is left out", flush=True)
        return True
    return False


def machine(packages: Sequence[str], **more: object) -> Record:
    """Return what figures depend on: the day, the machine, and versions, those in `more` as given."""
    own = {"windowkit": windowkit.__version__} | {name: version(name) for name in packages}
    versions = own | {"Python": platform.python_version()} | more
    return {
        "date": datetime.now(timezone.utc).date().isoformat(),
        "processor": f"{processor()}, {cores()} cores visible",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
    }


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processor() -> str:
    """Return the processor's name and the vector instructions that matter to the kernels."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    flags = facts.get("flags", "").split()
    sets = [name for flag, name in (("avx2", "AVX2"), ("avx512bw", "AVX-512")) if flag in flags]
    return ", ".join([facts.get("model name", platform.machine()), *sets])


def listed(facts: Record) -> list[str]:
    """Return the lines of a page that say what its figures are of."""

    def text(fact: Any) -> str:
        return fact if isinstance(fact, str) else ", ".join(f"{name} {own}" for name, own in fact.items())

    return [f"- {name}: {text(facts[name])}" for name in SHOWN if name in facts]


def row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def header(*names: str, left: int = 1) -> str:
    """Return the head of a table, whose first columns hold words and the others numbers."""
    return f"{row(*names)}\n|{'---|' * left}{'---:|' * (len(names) - left)}"
