#!/usr/bin/env python3
"""windowkit, DuckDB and Polars over one grid of windows and numbers of keys, in one process.

    python benchmarks/local_grid.py                                     # the whole grid: about ten minutes
    python benchmarks/local_grid.py --sides duckdb,polars --keys 16     # some of it

Rows lie 10 ms apart in order of time, with random int64 keys and random float64 values; asked are sum and
max. All sides read the same columns in memory, have the same number of threads and give the same columns as
Arrow. Before any clock runs, every cell is checked on fewer rows: the sides must agree on each. They are then
timed in turns.

Written are a page, and beside it every time measured (``.jsonl.gz``) and a picture of the ratios (``.png``).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

import numpy as np
import pages
import pyarrow as pa
import pyarrow.compute as pc
from local_sides import SIDES, Cell, Side
from pages import Record
from plots import plot

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


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        measured(options)
    pages.write(options.output, page)


def measured(options: argparse.Namespace) -> None:
    """Check and measure all cells, and keep the records."""
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

    results: list[Record] = []
    for keys in options.keys:
        sides = build(options, options.rows, keys)
        for cell in cells:
            if cell.keys == keys:
                results += measure(cell, sides, options)
                print(line(results[-len(sides) :]), flush=True)
    facts = pages.machine(["duckdb", "polars", "pyarrow"])
    numbers = {name: getattr(options, name) for name in ("rows", "threads", "seed", "repeats", "slow")}
    pages.keep(options.output, facts | numbers, results)


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
    pages.add_arguments(parser, "local")
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
    """Return the columns by name, sorted."""
    table = table.rename_columns([name.removeprefix("window_") for name in table.column_names])
    table = table.select(["key", "start", "end", "sum", "max"])
    return table.sort_by([("key", "ascending"), ("start", "ascending")]).combine_chunks()


def difference(expected: pa.Table, got: pa.Table) -> str | None:
    """Describe how two canonical tables differ, if they do."""
    if expected.num_rows != got.num_rows:
        return f"{got.num_rows:,} rows instead of {expected.num_rows:,}"
    for name in ("key", "start", "end", "max"):
        if not expected[name].cast(got[name].type).equals(got[name]):
            return f"column {name} differs"
    errors = pc.abs(pc.subtract(expected["sum"], got["sum"]))
    worst = pc.max(pc.divide(errors, expected["sum"])).as_py()
    return f"sums differ by up to {worst:g} of themselves" if worst > 1e-9 else None


def measure(cell: Cell, sides: Sequence[Side], options: argparse.Namespace) -> list[Record]:
    """Time the sides in turns, of which the first does not count; return a record of each."""
    seconds: list[list[float]] = [[] for _ in sides]
    counts = [0] * len(sides)
    streamed = expected_rows(cell, options) > options.max_output_rows
    for turn in range(options.repeats + 1):
        for at, side in enumerate(sides):
            if turn > 3 and max(seconds[at]) >= options.slow:
                continue
            gc.collect()
            begin = time.perf_counter()
            if streamed:
                counts[at] = sum(batch.num_rows for batch in side.batches(cell))
            else:
                answer = side.table(cell)
                counts[at] = answer.num_rows
            took = time.perf_counter() - begin
            answer = None
            if turn > 0:
                seconds[at].append(round(took, 5))
    if len(set(counts)) > 1:
        sys.exit(f"{cell.name} at {cell.keys:,} keys: the sides gave {counts} rows")
    return [
        {**asdict(cell), "windows": counts[at], "streamed": streamed, "side": side.name}
        | {"how": side.how(cell), "median": round(median(seconds[at]), 5), "seconds": seconds[at]}
        for at, side in enumerate(sides)
    ]


def expected_rows(cell: Cell, options: argparse.Namespace) -> int:
    """Return an upper bound on the number of windows: of rows' or of the timeline's."""
    if cell.by_rows:
        return options.rows // cell.slide
    span = options.rows // 100 // cell.slide + cell.overlap
    return min(options.rows * cell.overlap, cell.keys * span)


# The page.


def cell_of(record: Record) -> Cell:
    """Return the cell that a record is of."""
    return Cell(*(record[name] for name in ("window", "size", "slide", "keys")))


def ratios(own: Sequence[Record]) -> dict[str, float]:
    """Return how many times as long as windowkit each peer takes in a cell, if windowkit takes part."""
    times = {record["side"]: record["median"] for record in own}
    ours = times.pop("windowkit", None)
    return {} if ours is None else {side: seconds / ours for side, seconds in times.items()}


def line(own: Sequence[Record]) -> str:
    """Return a cell for a terminal."""
    cell, of = cell_of(own[0]), ratios(own)
    times = "  ".join(
        f"{record['side']} {record['median']:.3f} s"
        + (f" ({of[record['side']]:.1f}x)" if record["side"] in of else "")
        for record in own
    )
    return f"{cell.name:24} {cell.keys:>9,} keys {own[0]['windows']:>12,} windows  {times}"


def page(output: Path, facts: Record, records: Sequence[Record]) -> str:
    """Return the page, and draw its picture."""
    cells: dict[Cell, list[Record]] = {}
    for record in records:
        cells.setdefault(cell_of(record), []).append(record)
    sides = list(dict.fromkeys(record["side"] for record in records))
    peers = [side for side in sides if side != "windowkit"]
    if peers != sides and peers:
        drawn = {peer: [ratios(own)[peer] for own in cells.values()] for peer in peers}
        names = [f"{cell.name}, {cell.keys:,} keys" for cell in cells]
        plot(names, drawn, f"One process, {facts['rows']:,} rows, sum and max", output.with_suffix(".png"))
    heads = ["window", "keys", "windows out"]
    for side in sides:
        heads += [f"{side}, s"] + ([f"{side} / windowkit"] if side in peers else [])
    slow = f", or of 3 from {facts['slow']:g} s on" if facts["repeats"] > 3 else ""
    lines = [
        "# One process: windowkit, DuckDB and Polars",
        "",
        f"Written by `benchmarks/local_grid.py`. {facts['rows']:,} rows 10 ms apart, in order of time: a "
        "random int64 key, a timestamp[us], a random float64 v; asked are sum(v) and max(v) per key and "
        f"window. One process, {facts['threads']} threads on every side.",
        "",
        *pages.listed(facts),
        "",
        "All sides read the same columns in memory and give the same columns as Arrow. They are timed in "
        f"turns, after one turn that does not count; a time is the median of {facts['repeats']}{slow}. "
        "Before, the sides were compared row by row on fewer rows. Every time is in "
        f"`{pages.path_of(output).name}`.",
        "",
        pages.header(*heads),
    ]
    for cell, own in cells.items():
        mark = " \\*" if own[0]["streamed"] else ""
        row = [cell.name + mark, f"{cell.keys:,}", f"{own[0]['windows']:,}"]
        of = ratios(own)
        for record in own:
            row.append(f"{record['median']:.3f}")
            if record["side"] in peers:
                row.append(f"{of[record['side']]:.1f}" if of else "")
        lines.append(pages.row(*row))
    if any(record["streamed"] for record in records):
        lines += ["", "\\* read batch by batch on all sides, and not kept: whole, it would take about 10 GB."]
    lines += ["", "How the others were asked, the fastest way found; see `benchmarks/local_sides.py`:", ""]
    ways: dict[tuple[str, str], dict[str, None]] = {}
    for record in records:
        if record["side"] in peers:
            where = f"{record['window']} windows at {record['keys']:,} keys"
            ways.setdefault((record["side"], record["how"]), {})[where] = None
    lines += [f"- {side}, {how}: {', '.join(where)}" for (side, how), where in ways.items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
