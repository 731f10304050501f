#!/usr/bin/env python3
"""General stream slicing and the techniques it is compared with: Traub et al., EDBT 2019, Figs. 8 to 17.

    python benchmarks/slicing.py                  # everything: some twenty minutes
    python benchmarks/slicing.py --quick          # fewer cells and shorter runs: a minute
    python benchmarks/slicing.py --figures 8 9    # some figures; the others stay as they were
    python benchmarks/slicing.py --page           # the page again, from its records

What is measured runs in Rust (``baselines/benches/slicing``), so that Python is in no clock. Sides are timed
in turns, on one thread but for Fig. 17; a side that refuses a workload is left out of its figure.

Written are a page, and beside it every measurement (``.jsonl.gz``) and pictures (``.png``).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pages
import pyarrow.compute as pc
import pyarrow.parquet as pq
import slicing_page

MACHINE = "pc13"
"""The column of the manufacturing sample: one of few distinct values (30; the paper's has 37)."""
FIGURES = tuple(dict.fromkeys(name.rstrip("abcd") for name in slicing_page.FIGURES))


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        measure(options)
    pages.write(options.output, slicing_page.page)


def measure(options: argparse.Namespace) -> None:
    """Measure the figures asked for, and keep the records; those of the others stay."""
    _, before = pages.read(options.output)
    records = [record for record in before if figure_of(record) not in options.figures]
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    facts = pages.machine([], rustc=rustc.strip().removeprefix("rustc "))
    facts |= {name: getattr(options, name) for name in ("seconds", "repeats", "batch", "quick")}
    with tempfile.TemporaryDirectory() as folder:
        machine = None
        if not pages.lacks(options.machine, options.quick):
            machine = Path(folder) / "machine.txt"
            machine.write_text("\n".join(map(str, machine_values(options.machine))) + "\n")
        for figure in options.figures:
            print(f"-- Fig. {figure}", flush=True)
            records += measured(figure, machine, options)
            # After each figure, so that what was measured outlives an interrupt.
            pages.keep(options.output, facts, records)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--figures", nargs="+", choices=FIGURES, default=FIGURES, metavar="FIGURE", help=", ".join(FIGURES))
    add("--seconds", type=float, default=None, help="a side runs, each time; default: 0.3, with --quick 0.05")
    add("--repeats", type=int, default=None, help="times each side runs; default: 3, with --quick 1")
    add("--batch", type=int, default=4096, help="rows pushed at a time; default: %(default)s")
    add("--quick", action="store_true", help="fewer cells, shorter runs")
    add(
        "--machine",
        type=Path,
        default=Path("debs2012_manufacturing.parquet"),
        help="the manufacturing sample; default: %(default)s",
    )
    pages.add_arguments(parser, "slicing")
    options = parser.parse_args()
    options.seconds = options.seconds or (0.05 if options.quick else 0.3)
    options.repeats = options.repeats or (1 if options.quick else 3)
    return options


def machine_values(path: Path) -> list[int]:
    """Return the values of the sample's column, nulls left out."""
    column = pq.read_table(path, columns=[MACHINE])[MACHINE].drop_null()
    print(f"{path.name}: column {MACHINE}, {pc.count_distinct(column).as_py()} values in {len(column)} rows")
    return [int(value) for value in column.to_pylist()]


def measured(figure: str, machine: Path | None, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Run one figure and return its records."""
    more = ["--batch", str(options.batch), *(["--machine", str(machine)] if machine else [])]
    return run("slicing", figure, options, more)


def run(bench: str, figure: str, options: argparse.Namespace, more: Sequence[str]) -> list[dict[str, Any]]:
    """Run one figure of a benchmark in Rust, and return its records."""
    command = ["cargo", "bench", "--locked", "--package", "windowkit-baselines", "--bench", bench]
    command += ["--", "--json", "--figures", figure]
    command += ["--seconds", str(options.seconds), "--repeats", str(options.repeats), *more]
    command += ["--quick"] if options.quick else []
    records = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if line.startswith("{"):
                record = json.loads(line)
                records.append(record)
                print(
                    f"{record['figure']:5}{record['x']:>22}  {record['side']:24}"
                    f"{record['median']:>14.4g} {record['unit']}",
                    flush=True,
                )
        errors = process.stderr.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{errors}")
    return records


def figure_of(record: dict[str, Any]) -> str:
    """Return the number of a record's figure."""
    return str(record["figure"]).rstrip("abcd")


if __name__ == "__main__":
    main()
