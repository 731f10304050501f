"""Benchmarks of sides that answer the same in one process, by turns."""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pages
import pyarrow as pa
from pages import Record

Ask = Callable[[], pa.Table]
MEASURED = ("results", "seconds", "stream", "held", "steps", "runs")
"""The fields of a record that do not say what was asked."""


def main(
    options: argparse.Namespace,
    measured: Callable[[argparse.Namespace], Iterable[Record]],
    page: Callable[[Path, Record, list[Record]], str],
) -> None:
    """Measure, print and write."""
    if not options.page:
        pa.set_cpu_count(options.threads)
        facts = pages.machine(["duckdb", "polars", "pyarrow"])
        facts |= {name: getattr(options, name) for name in ("rows", "threads", "seed", "repeats", "profile")}
        keep(options, facts, measured(options))
    if options.page or options.record:
        pages.write(options.output, page)


def keep(options: argparse.Namespace, facts: Record, measured: Iterable[Record]) -> None:
    """Keep records as each cell ends, if they are to be kept.

    Those of other cells stay if they are of the same machine, versions and numbers.
    """
    before, records = pages.read(options.output)
    kept = {cell_of(record): record for record in records if before | {"date": facts["date"]} == facts}
    for record in measured:
        kept[cell_of(record)] = record
        if options.record:
            pages.keep(options.output, facts, kept.values())


def cell_of(record: Record) -> str:
    """Return what was asked in a record, without what was measured."""
    return json.dumps({name: value for name, value in record.items() if name not in MEASURED})


def arguments(
    about: str, name: str, sides: Iterable[str], *, rows: int, keys: list[int], of: str = ""
) -> argparse.Namespace:
    """Return the arguments of a benchmark, whose page has this name."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=rows, help=f"{of and of + '; '}default: %(default)s")
    add(
        "--keys",
        type=lambda text: [int(each) for each in text.split(",")],
        default=keys,
        help="comma-separated",
    )
    add("--only", nargs="*", default=[""], metavar="TEXT", help="only cells with one of these in their names")
    add("--sides", type=lambda text: text.split(","), default=list(sides), help="comma-separated")
    add("--threads", type=int, default=2, help="of every side; default: %(default)s")
    add("--repeats", type=int, default=3, help="times each side is timed; default: %(default)s")
    add("--profile", default="release", help="how the core was built, for the page; default: %(default)s")
    add("--seed", type=int, default=0)
    add("--record", action="store_true", help="keep the records, and write the page")
    pages.add_arguments(parser, name)
    return parser.parse_args()


def timed(cell: object, sides: Mapping[str, Ask], repeats: int) -> tuple[dict[str, list[float]], int]:
    """Return the seconds of each turn of each side, and how many rows they all return."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    rows = set()
    for turn in range(repeats + 1):
        for name, ask in sides.items():
            gc.collect()
            begin = time.perf_counter()
            answer = ask()
            took = time.perf_counter() - begin
            rows.add(answer.num_rows)
            del answer
            # The first turn does not count.
            if turn > 0:
                seconds[name].append(round(took, 4))
    (count,) = rows
    shown = ", ".join(f"{name} {median(own):.3f} s" for name, own in seconds.items())
    print(f"{cell}: {shown}", flush=True)
    return seconds, count


class Columns:
    """The columns of a page that say how long each side took, and how much longer than windowkit."""

    def __init__(self, records: list[Record]) -> None:
        self._sides = list(records[0]["seconds"])
        self._peers = [side for side in self._sides if side != "windowkit"]

    @property
    def heads(self) -> list[str]:
        """What stands above them."""
        return [*(f"{side}, s" for side in self._sides), *(f"{peer} / windowkit" for peer in self._peers)]

    def of(self, record: Record) -> list[Any]:
        """Return what stands in them."""
        times = {side: median(record["seconds"][side]) for side in self._sides}
        ratios = [f"{times[peer] / times['windowkit']:.1f}" for peer in self._peers if "windowkit" in times]
        return [*(f"{times[side]:.3f}" for side in self._sides), *ratios]
