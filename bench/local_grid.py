#!/usr/bin/env python3
"""windowkit, DuckDB and Polars over one grid of windows and numbers of keys, in one process.

    python bench/local_grid.py                                     # the whole grid: about ten minutes
    python bench/local_grid.py --sides duckdb,polars --keys 16     # some of it

Rows lie 10 ms apart in order of time, with random int64 keys and random float64 values; asked are sum and
max. All sides read the same columns in memory, have the same number of threads and give the same columns as
Arrow. Before any clock runs, every cell is checked on fewer rows: the sides must agree on each. They are then
timed in turns.

Written are a page, and beside it every time measured (``.jsonl``) and a picture of the ratios (``.png``).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import version
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from local_sides import SIDES, Cell, Side
from plots import plot

import windowkit as wk

MINUTE = 60
WINDOWS = {
    "tumbling": [("tumbling", 10 * MINUTE, 10 * MINUTE)],
    "sliding": [("sliding", 10 * MINUTE, slide) for slide in (MINUTE, 10, 1)],
    "session": [("session", 30, 30)],
    "rows": [("tumbling rows", 100, 100), ("sliding rows", 100, 10), ("sliding rows", 100, 1)],
}
# Windows by rows are of keys that have as many.
MOST_KEYS_BY_ROWS = 4_096
# 600 windows a row are as many output rows as one wants to see at 16 keys.
MOST_OVERLAP, MOST_KEYS_AT_MOST_OVERLAP = 600, 16
CHECKED_ROWS = 100_000


@dataclass
class Measured:
    """All times of one side in one cell."""

    side: str
    how: str
    rows: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The time that counts."""
        return median(self.seconds)


@dataclass
class Result:
    """What all sides did in one cell."""

    cell: Cell
    streamed: bool
    sides: list[Measured]

    def ratio(self, peer: Measured) -> float | None:
        """Return how many times as long as windowkit a peer takes, if windowkit takes part."""
        for side in self.sides:
            if side.side == "windowkit":
                return peer.median / side.median
        return None


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    pa.set_cpu_count(options.threads)
    cells = [cell for cell in grid(options.keys) if options.only in cell.name]
    if not cells:
        sys.exit(f"--only: {options.only!r} is in no cell's name")

    for keys in options.keys:
        chosen = [cell for cell in cells if cell.keys == keys]
        rows = min(options.rows, CHECKED_ROWS)
        sides = build(options, rows, max(1, keys * rows // options.rows))
        for cell in chosen:
            check(cell, sides)
    print(f"the sides agree on all {len(cells)} cells, checked on {rows:,} rows", flush=True)

    results = []
    for keys in options.keys:
        sides = build(options, options.rows, keys)
        for cell in cells:
            if cell.keys == keys:
                results.append(measure(cell, sides, options))
                print(line(results[-1]), flush=True)

    write(options, results)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=4_000_000, help="default: %(default)s")
    add("--keys", type=numbers, default="16,1024,1000000", help="comma-separated; default: %(default)s")
    add("--only", default="", metavar="TEXT", help="only windows whose name has this in it, like 'by 10 s'")
    add(
        "--sides",
        type=names,
        default="windowkit,duckdb,polars",
        help="comma-separated, of " + ", ".join(SIDES),
    )
    add("--threads", type=int, default=2, help="of every side; default: %(default)s")
    add("--repeats", type=int, default=5, help="times each side is timed; default: %(default)s")
    add(
        "--slow",
        type=float,
        default=10.0,
        metavar="S",
        help="from so many seconds on 3 are enough; default: 10",
    )
    add(
        "--max-output-rows",
        type=int,
        default=50_000_000,
        help="larger results are read batch by batch, and not kept, on all sides; default: %(default)s",
    )
    add("--seed", type=int, default=0)
    add("--output", type=Path, default=Path("docs/benchmarks/local.md"), help="default: %(default)s")
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def names(text: str) -> list[str]:
    chosen = text.split(",")
    for name in chosen:
        if name not in SIDES:
            raise argparse.ArgumentTypeError(f"{name!r} is no side; sides are {', '.join(SIDES)}")
    return chosen


def grid(keys: Sequence[int]) -> list[Cell]:
    """Return all cells, few keys first."""
    return [
        cell
        for count in keys
        for kinds in WINDOWS.values()
        for kind, size, slide in kinds
        if (cell := Cell(kind, size, slide, count)).overlap < MOST_OVERLAP
        or count <= MOST_KEYS_AT_MOST_OVERLAP
        if not cell.by_rows or count <= MOST_KEYS_BY_ROWS
    ]


def rows_of(rows: int, keys: int, seed: int) -> pa.Table:
    """Return ``key``, ``ts`` and ``v``."""
    random = np.random.default_rng(seed)
    begin = np.datetime64("2024-01-01", "us").astype(np.int64)
    return pa.table(
        {
            "key": random.integers(0, keys, rows),
            "ts": pa.array(begin + 10_000 * np.arange(rows, dtype=np.int64)).cast(pa.timestamp("us")),
            "v": random.random(rows),
        }
    )


def build(options: argparse.Namespace, rows: int, keys: int) -> list[Side]:
    table = rows_of(rows, keys, options.seed)
    return [SIDES[name](table, options.threads) for name in options.sides]


def check(cell: Cell, sides: Sequence[Side]) -> None:
    """Stop unless all sides give the same rows, sums to nine digits."""
    expected, *others = (canonical(side.table(cell)) for side in sides)
    for side, table in zip(sides[1:], others, strict=True):
        problem = difference(expected, table)
        if problem:
            sys.exit(f"{side.name} is not {sides[0].name} in {cell.name} at {cell.keys:,} keys: {problem}")


def canonical(table: pa.Table) -> pa.Table:
    """Return the columns by name, windows as two columns, sorted."""
    for name in ("window", "session_window"):
        if name in table.column_names:
            start, end = table[name].flatten()
            table = table.append_column("start", start).append_column("end", end)
    table = table.select(["key", "start", "end", "sum", "max"])
    return table.sort_by([("key", "ascending"), ("start", "ascending")]).combine_chunks()


def difference(expected: pa.Table, got: pa.Table) -> str | None:
    """Say how two canonical tables differ, if they do."""
    if expected.num_rows != got.num_rows:
        return f"{got.num_rows:,} rows instead of {expected.num_rows:,}"
    for name in ("key", "start", "end", "max"):
        if not expected[name].cast(got[name].type).equals(got[name]):
            return f"column {name} differs"
    errors = pc.abs(pc.subtract(expected["sum"], got["sum"]))
    worst = pc.max(pc.divide(errors, expected["sum"])).as_py()
    return f"sums differ by up to {worst:g} of themselves" if worst > 1e-9 else None


def measure(cell: Cell, sides: Sequence[Side], options: argparse.Namespace) -> Result:
    """Time the sides in turns, of which the first does not count."""
    results = [Measured(side.name, side.how(cell)) for side in sides]
    streamed = expected_rows(cell, options) > options.max_output_rows
    for turn in range(options.repeats + 1):
        for side, result in zip(sides, results, strict=True):
            if turn > 3 and max(result.seconds) >= options.slow:
                continue
            gc.collect()
            begin = time.perf_counter()
            if streamed:
                rows = sum(batch.num_rows for batch in side.batches(cell))
            else:
                answer = side.table(cell)
                rows = answer.num_rows
            seconds = time.perf_counter() - begin
            answer = None
            if turn > 0:
                result.seconds.append(seconds)
            result.rows = rows
    if len({result.rows for result in results}) > 1:
        sys.exit(
            f"{cell.name} at {cell.keys:,} keys: the sides gave {[result.rows for result in results]} rows"
        )
    return Result(cell, streamed, results)


def expected_rows(cell: Cell, options: argparse.Namespace) -> int:
    """Return an upper bound on the number of windows: of rows' or of the time line's."""
    if cell.by_rows:
        return options.rows // cell.slide
    span = options.rows // 100 // cell.slide + cell.overlap
    return min(options.rows * cell.overlap, cell.keys * span)


# Records.


def line(result: Result) -> str:
    """Return a cell for a terminal."""
    times = "  ".join(
        f"{side.side} {side.median:.3f} s"
        + (f" ({ratio:.1f}x)" if side.side != "windowkit" and ratio else "")
        for side in result.sides
        for ratio in [result.ratio(side)]
    )
    return f"{result.cell.name:24} {result.cell.keys:>9,} keys {result.sides[0].rows:>12,} windows  {times}"


def write(options: argparse.Namespace, results: Sequence[Result]) -> None:
    """Write the records and the picture."""
    path = options.output
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{"date": str(date.today()), **environment(options)}]
    records += [
        {
            **asdict(result.cell),
            "windows": side.rows,
            "streamed": result.streamed,
            "side": side.side,
            "how": side.how,
        }
        | {"median": round(side.median, 5), "seconds": [round(each, 5) for each in side.seconds]}
        for result in results
        for side in result.sides
    ]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    path.write_text(page(options, results))
    if "windowkit" in options.sides and len(options.sides) > 1:
        cells = [f"{result.cell.name}, {result.cell.keys:,} keys" for result in results]
        ratios: dict[str, list[float]] = {}
        for result in results:
            for side in result.sides:
                if side.side != "windowkit":
                    ratios.setdefault(side.side, []).append(result.ratio(side) or 1.0)
        plot(cells, ratios, f"One process, {options.rows:,} rows, sum and max", path.with_suffix(".png"))
    print(f"written: {path} and its .jsonl and .png")


def environment(options: argparse.Namespace) -> dict[str, object]:
    packages = ["duckdb", "polars", "pyarrow"]
    return {
        "rows": options.rows,
        "threads": options.threads,
        "seed": options.seed,
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "versions": {"windowkit": wk.__version__} | {name: version(name) for name in packages},
    }


def page(options: argparse.Namespace, results: Sequence[Result]) -> str:
    """Return the record as a page."""
    facts = environment(options)
    versions = ", ".join(f"{name} {number}" for name, number in dict(facts["versions"]).items())
    heads = ["window", "keys", "windows out"]
    for name in options.sides:
        heads += [f"{SIDES[name].name}, s"] + (
            [f"{SIDES[name].name} / windowkit"] if name != "windowkit" else []
        )
    lines = [
        "# One process: windowkit, DuckDB and Polars",
        "",
        f"Written by `bench/local_grid.py` on {date.today()}. {options.rows:,} rows 10 ms apart, in order of "
        "time: a random int64 key, a timestamp[us], a random float64 v; asked are sum(v) and max(v) per key "
        f"and window. One process, {options.threads} threads on every side, {facts['cpus']} cores "
        f"({facts['machine']}), Python {facts['python']}; {versions}.",
        "",
        "All sides read the same columns in memory and give the same columns as Arrow. They are timed in "
        f"turns, after one turn that does not count; a time is the median of {options.repeats}"
        + (f", or of 3 from {options.slow:g} s on" if options.repeats > 3 else "")
        + ". Before, the sides were compared row by row on fewer rows. Every time is in "
        "`local.jsonl`.",
        "",
        "| " + " | ".join(heads) + " |",
        "|---|" + "---:|" * (len(heads) - 1),
    ]
    for result in results:
        mark = " \\*" if result.streamed else ""
        row = [result.cell.name + mark, f"{result.cell.keys:,}", f"{result.sides[0].rows:,}"]
        for side in result.sides:
            row.append(f"{side.median:.3f}")
            if side.side != "windowkit":
                ratio = result.ratio(side)
                row.append("" if ratio is None else f"{ratio:.1f}")
        lines.append("| " + " | ".join(row) + " |")
    if any(result.streamed for result in results):
        lines += ["", "\\* read batch by batch on all sides, and not kept: whole, it would take about 10 GB."]
    lines += ["", "How the others were asked, the fastest way found; see `bench/local_sides.py`:", ""]
    ways: dict[tuple[str, str], dict[str, None]] = {}
    for result in results:
        for side in (side for side in result.sides if side.side != "windowkit"):
            where = f"{result.cell.window} windows at {result.cell.keys:,} keys"
            ways.setdefault((side.side, side.how), {})[where] = None
    lines += [f"- {side}, {how}: {', '.join(where)}" for (side, how), where in ways.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
