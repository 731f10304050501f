#!/usr/bin/env python3
"""windowkit's sliding kernels against copying memory, other libraries and the plain algorithms.

    python benchmarks/kernels.py                          # everything: about half an hour
    python benchmarks/kernels.py --quick                  # fewer rows, windows and sides: some minutes
    python benchmarks/kernels.py --only windows slides    # some sections of the page
    python benchmarks/kernels.py --page                   # the page again, from its records

The sections follow Theodorakis et al., "Hammer Slide", ADMS 2018, section 4. All sides are single-threaded,
read the same column in memory and are checked against each other on fewer rows before any clock runs. They
are timed in turns; of the ways a library has to be asked, the fastest counts.

Written are a page, and beside it every time measured (``.jsonl.gz``) and pictures (``.png``).
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import kernels_page
import numpy as np
import pages
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from kernel_sides import (
    ALGORITHMS,
    COPIES,
    PEERS,
    SIDES,
    Cell,
    Column,
    Run,
    Side,
    Windowkit,
    algorithm_side,
    row_ending_ways,
    timed_ways,
    trace,
)

import windowkit as wk

FUNCTIONS = ("min", "max", "sum", "mean", "std")
DTYPES = ("int32", "float64")
SIZES = tuple(2**power for power in (3, 6, 10, 15, 21))
"""8 to 2,097,152, the windows of Figs. 9 and 10 and further."""
SLIDES = tuple(2**power for power in range(0, 11, 2))
"""1 to 1,024, the slides of Figs. 4a, 6 and 7."""
CHECKED_ROWS = 20_000
"""How many rows are checked, and of windows beyond them how many windows."""
BEATEN: set[tuple[object, ...]] = set()
"""Ways that were five times slower than their side's best, and are not tried in the cells that follow."""
SECTIONS = (
    "windows",
    "slides",
    "evictions",
    "time",
    "row_ending",
    "nulls",
    "tumbling",
    "errors",
    "latency",
    "auto",
)


@dataclass
class Measured:
    """All times of one side in one cell."""

    section: str
    cell: dict[str, Any]
    side: str
    how: str
    rows: int
    seconds: list[float] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """Return what the records keep."""
        kept: dict[str, Any] = {"section": self.section, **self.cell, "side": self.side, "how": self.how}
        kept["rows"] = self.rows
        if self.seconds:
            kept |= {
                "median": round(median(self.seconds), 7),
                "best": round(min(self.seconds), 7),
                "seconds": [round(each, 7) for each in self.seconds],
            }
        return kept | self.extra


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        measure(options)
    pages.write(options.output, kernels_page.page)


def measure(options: argparse.Namespace) -> None:
    """Measure the sections asked for, and keep the records; those of the others stay."""
    pa.set_cpu_count(1)
    results: list[Measured] = []
    for section in options.only:
        print(f"-- {section}", flush=True)
        for result in MEASURES[section](options):
            results.append(result)
            if result.seconds:
                rate = result.rows / median(result.seconds) / 1e6
                cell = " ".join(f"{value}" for value in result.cell.values())
                print(f"{cell:40} {result.side:20} {rate:10.1f} M rows/s  {result.how}", flush=True)
            else:
                print(" ".join(f"{value}" for value in result.record().values()), flush=True)
        # After each section, so that what was measured outlives an interrupt.
        keep(options, results)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--rows", type=int, default=None, help="of a column; default: 8,388,608, with --quick 1,048,576")
    add("--only", nargs="+", choices=SECTIONS, default=SECTIONS, metavar="SECTION", help=", ".join(SECTIONS))
    add("--repeats", type=int, default=None, help="times each side is timed; default: 5, with --quick 3")
    add(
        "--slow",
        type=float,
        default=0.25,
        metavar="S",
        help="from so many seconds on 3 are enough; default: 0.25",
    )
    add("--quick", action="store_true", help="fewer rows, windows and repeats")
    add("--seed", type=int, default=0)
    add(
        "--trace",
        type=Path,
        default=Path("tests/data/google_cluster_task_events.parquet"),
        help="the cluster trace's sample; default: %(default)s",
    )
    pages.add_arguments(parser, "kernels")
    options = parser.parse_args()
    options.rows = options.rows or (2**20 if options.quick else 2**23)
    options.repeats = options.repeats or (3 if options.quick else 5)
    options.sizes = [size for size in SIZES if size <= options.rows // 4]
    if options.quick:
        options.sizes = [size for size in options.sizes if size in (8, 1024, 32_768)]
    options.slides = SLIDES[::5] if options.quick else SLIDES
    options.dtypes = DTYPES
    return options


# What is measured.


def columns(options: argparse.Namespace, dtype: str, rows: int, nulls: float = 0.0) -> Column:
    """Return random values: all int32, or floats from 0 to 1; some of them null."""
    random = np.random.default_rng(options.seed)
    if dtype == "int32":
        values = random.integers(-(2**31), 2**31, rows, dtype=np.int64).astype(np.int32)
    else:
        values = random.random(rows)
    mask = random.random(rows) < nulls if nulls else None
    return Column(pa.array(values, mask=mask))


def windows(options: argparse.Namespace) -> Iterable[Measured]:
    """Figs. 9 and 10: any window at slide 1."""
    for dtype in options.dtypes:
        column = columns(options, dtype, options.rows)
        for function in FUNCTIONS:
            cells = [Cell(function, dtype, size) for size in options.sizes]
            own = [Windowkit, algorithm_side("two_stacks"), algorithm_side("recalculate")]
            if dtype == "int32" and function in ("sum", "mean", "min"):
                own.append(algorithm_side("subtract_on_evict"))
            for cell in cells:
                checked = CHECKED_ROWS + (cell.size if cell.size >= CHECKED_ROWS else 0)
                check(cell, columns(options, dtype, checked), [*own, *PEERS])
                yield from timed("windows", options, cell, column, [*COPIES, *own, *PEERS])


def slides(options: argparse.Namespace) -> Iterable[Measured]:
    """Figs. 4a, 6 and 7: windows of 1,024 rows at any slide."""
    for function, dtype in (("mean", "int32"), ("min", "int32"), ("sum", "float64")):
        column = columns(options, dtype, options.rows)
        own = [Windowkit, *(algorithm_side(name) for name in ALGORITHMS)]
        if dtype == "float64":
            own.remove(own[1 + ALGORITHMS.index("subtract_on_evict")])
        for slide in options.slides:
            cell = Cell(function, dtype, 1024, slide)
            usable = [side for side in own if side.name != "tumbling" or slide >= cell.size]
            sides = [*usable, *(side for side in PEERS if side.name in ("Polars", "pandas"))]
            check(cell, columns(options, dtype, CHECKED_ROWS), sides)
            yield from timed("slides", options, cell, column, [*COPIES, *sides])


def evictions(options: argparse.Namespace) -> Iterable[Measured]:
    """Fig. 8: the fewer distinct values, the more evictions take the window's only copy of the minimum."""
    size = 1024
    random = np.random.default_rng(options.seed)
    kinds: dict[str, np.ndarray] = {
        f"{distinct:,} values": random.integers(0, distinct, options.rows).astype(np.int32)
        for distinct in (2**31 - 1, 4096, 1024, 256)
    }
    # A saw whose teeth rise evicts the minimum at nearly each step; so does what only grows.
    kinds["saw of 2,048"] = (np.arange(options.rows) % 2048).astype(np.int32)
    kinds["ascending"] = np.arange(options.rows, dtype=np.int32)
    names = ("two_stacks", "subtract_on_evict", "recalculate")
    sides = [Windowkit, *map(algorithm_side, names), SIDES["Polars"], SIDES["bottleneck"]]
    for name, values in kinds.items():
        cell = Cell("min", "int32", size, column=name)
        check(cell, Column(pa.array(values[:CHECKED_ROWS])), sides)
        share = share_of_rescans(values[:CHECKED_ROWS], size)
        for result in timed("evictions", options, cell, Column(pa.array(values)), [*COPIES, *sides]):
            result.extra["rescans"] = round(share, 4)
            yield result


def share_of_rescans(values: np.ndarray, size: int) -> float:
    """Return the share of evictions after which the least value is another."""
    frames = np.lib.stride_tricks.sliding_window_view(values, size)
    leaves = frames[:, 0] == frames.min(axis=1)
    return float(np.mean(leaves))


def time_based(options: argparse.Namespace) -> Iterable[Measured]:
    """Fig. 11: the mean requested CPU of the last 64 s, every 1 to 64 s, over the repeated trace."""
    if pages.lacks(options.trace, options.quick):
        return
    rows = min(options.rows, 2_000_000 if not options.quick else 500_000)
    table, few = trace(options.trace, rows), trace(options.trace, CHECKED_ROWS)
    for seconds in (1, 4, 16, 64):
        cell = {"function": "mean", "dtype": "float64", "size": 64, "slide": seconds}
        answers = {
            side: {name: timed_answers(run()) for name, run in ways.items()}
            for side, ways in timed_ways(few, seconds).items()
        }
        (expected,) = answers["windowkit"].values()
        for side, named in answers.items():
            for name, got in named.items():
                if got.keys() != expected.keys() or any(
                    abs(got[at] - expected[at]) > 1e-9 for at in expected if expected[at] is not None
                ):
                    sys.exit(f"{side}, {name}, is not windowkit in the time-based query every {seconds} s")
        yield from run_in_turns("time", options, cell, rows, timed_ways(table, seconds))


def timed_answers(result: Any) -> dict[Any, float | None]:
    """Return the mean by start of the window, for windows with a value."""
    if isinstance(result, pl.DataFrame):
        starts, values = result["ts"].to_arrow(), result.to_arrow().column(1)
    else:
        starts, values = result["start"], result["value"]
    starts = pc.cast(starts, pa.timestamp("us"))
    pairs = zip(starts.to_pylist(), values.to_pylist(), strict=True)
    return {start: value for start, value in pairs if value is not None and not math.isnan(value)}


def row_ending(options: argparse.Namespace) -> Iterable[Measured]:
    """For each row the rows of the seconds before it: random distinct times, of which 4 are in a second."""
    random = np.random.default_rng(options.seed)
    rows = min(options.rows, 2**20)
    gaps = random.integers(1, 500_000, rows).cumsum()
    times = pa.array(gaps).cast(pa.timestamp("us"))
    values = columns(options, "float64", rows).arrow
    for function in ("sum", "mean", "max"):
        for seconds in (2, 16, 256):
            few = row_ending_ways(times[:CHECKED_ROWS], values[:CHECKED_ROWS], seconds, function)
            got = {
                side: pa.array(run(), from_pandas=True).to_numpy(zero_copy_only=False)
                for side, ways in few.items()
                for run in ways.values()
            }
            for side, answers in got.items():
                if not np.allclose(answers, got["windowkit"], rtol=1e-9, atol=0):
                    sys.exit(f"{side} is not windowkit in {function} over the last {seconds} s")
            cell = {"function": function, "dtype": "float64", "size": seconds}
            yield from run_in_turns(
                "row_ending", options, cell, rows, row_ending_ways(times, values, seconds, function)
            )


def nulls(options: argparse.Namespace) -> Iterable[Measured]:
    """No nulls, and one value in ten null; full windows, and a window per row."""
    sides = [Windowkit, *PEERS]
    rows = min(options.rows, 2**21)
    for function, dtype in (
        ("min", "int32"),
        ("sum", "int32"),
        ("sum", "float64"),
        ("mean", "float64"),
        ("std", "float64"),
    ):
        for name, share in (("no nulls", 0.0), ("10 % nulls", 0.1)):
            few, column = (columns(options, dtype, many, share) for many in (2 * CHECKED_ROWS, rows))
            for size in (64, 16_384):
                for partial in ("none", "start"):
                    cell = Cell(function, dtype, size, column=name, partial=partial)
                    check(cell, few, sides)
                    yield from timed("nulls", options, cell, column, [*COPIES, *sides])


def tumbling(options: argparse.Namespace) -> Iterable[Measured]:
    """Windows that do not overlap, against one reduction of the whole column."""
    for function, dtype in (
        ("sum", "int32"),
        ("min", "int32"),
        ("sum", "float64"),
        ("min", "float64"),
    ):
        column = columns(options, dtype, options.rows)
        array, values = column.arrow, column.numpy
        whole: dict[str, Run] = {
            "pyarrow.compute": lambda function=function, array=array: getattr(pc, function)(array),
            "numpy": lambda function=function, values=values: getattr(np, function)(values),
            "windowkit, one window": lambda function=function, array=array: wk.kernels.sliding(
                array, len(array), len(array), agg=function
            ),
        }
        series = pl.from_arrow(array)
        whole["Polars"] = lambda function=function, series=series: getattr(series, function)()
        for size in (8, 64, 1024, 65_536):
            cell = Cell(function, dtype, size, size)
            sides = [Windowkit, algorithm_side("recalculate"), SIDES["Polars"]]
            check(cell, columns(options, dtype, 4 * size + CHECKED_ROWS), sides)
            ways: dict[str, Mapping[str, Run]] = {
                "windowkit": Windowkit(column).ways(cell),
                "Polars": SIDES["Polars"](column).ways(cell),
                "reduction": whole,
            }
            yield from run_in_turns("tumbling", options, asdict(cell), len(column), ways)


def errors(options: argparse.Namespace) -> Iterable[Measured]:
    """How far sums and means in windows of 1,024 rows are from the exact ones."""
    size, rows = 1024, min(options.rows, 2**20)
    random = np.random.default_rng(options.seed)
    kinds = {
        "0 to 1": random.random(rows),
        "normal": random.standard_normal(rows),
        "from 1e-12 to 1e12": random.standard_normal(rows) * 10.0 ** random.integers(-12, 13, rows),
        "1e16 first, then 0 to 1": np.concatenate([np.full(size, 1e16), random.random(rows - size)]),
    }
    ends = np.linspace(2 * size, rows - 1, 400).astype(int)
    for function in ("sum", "mean"):
        for name, values in kinds.items():
            column, cell = Column(pa.array(values)), Cell(function, "float64", size, column=name)
            frames = [values[end + 1 - size : end + 1].tolist() for end in ends]
            found = answers_of(column, cell, ends)
            found["numpy, each window"] = [float(getattr(np, function)(frame)) for frame in frames]
            # Sizes are powers of two, so that to divide by them rounds nothing.
            parts = size if function == "mean" else 1
            found["Kahan, each window"] = [kahan(frame) / parts for frame in frames]
            exact = [math.fsum(frame) / parts for frame in frames]
            units = [2.0**-53 * math.fsum(map(abs, frame)) / parts for frame in frames]
            for side, got in found.items():
                worst = max(abs(a - b) / unit for a, b, unit in zip(got, exact, units, strict=True))
                yield Measured("errors", asdict(cell), side, "", rows, extra={"error": float(f"{worst:.4g}")})


def answers_of(column: Column, cell: Cell, ends: np.ndarray) -> dict[str, Sequence[float]]:
    """Return the answers of each side for the windows that end with some rows."""
    found: dict[str, Sequence[float]] = {}
    for side in (Windowkit, algorithm_side("two_stacks"), *PEERS):
        bound = side(column)
        for how, run in bound.ways(cell).items():
            label = side.name if side.name != "two_stacks" else "windowkit, two_stacks"
            label += ", numba" if how == "engine='numba'" else ""
            found[label] = bound.answer(run(), cell)[ends + 1 - cell.size].tolist()
    window = wk.kernels.Window(cell.function, pa.float64())
    found["windowkit, daba"] = window.slide(column.arrow, cell.size).to_numpy()[ends].tolist()
    return found


def kahan(values: Sequence[float]) -> float:
    """Return a sum by Kahan's algorithm."""
    total = lost = 0.0
    for value in values:
        shifted = value - lost
        sum_ = total + shifted
        lost = (sum_ - total) - shifted
        total = sum_
    return total


def latency(options: argparse.Namespace) -> Iterable[Measured]:
    """One row in and one out, each by the clock, in Rust."""
    command = ["cargo", "bench", "--locked", "--bench", "daba", "--", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            figures = json.loads(line)
            side, size, rows = figures.pop("what"), figures.pop("window"), figures.pop("rows")
            yield Measured("latency", {"size": size}, side, "ns a row", rows, extra=figures)


def auto(options: argparse.Namespace) -> Iterable[Measured]:
    """`auto` against each algorithm over a grid of functions, types, windows, slides, nulls and groups."""
    rows = min(options.rows, 2**19)
    sizes = (8, 64, 1024, 16_384, 131_072) if not options.quick else (8, 1024)
    sizes = tuple(size for size in sizes if size <= rows // 4)
    for dtype in options.dtypes:
        whole, some = columns(options, dtype, rows), columns(options, dtype, rows, 0.1)
        for function in (*FUNCTIONS, "argmin"):
            for size in sizes:
                for slide in sorted({1, size // 2 + 1, size}):
                    yield from run_in_turns(*auto_cell(options, Cell(function, dtype, size, slide), whole))
                for partial in ("none", "start"):
                    cell = Cell(function, dtype, size, column="10 % nulls", partial=partial)
                    yield from run_in_turns(*auto_cell(options, cell, some))
                cell = Cell(function, dtype, size, partial="start")
                yield from run_in_turns(*auto_cell(options, cell, whole))
            for group, size in ((64, 64), (100, 100), (200, 150), (4096, 64)):
                for partial in ("none", "start"):
                    cell = Cell(function, dtype, size, column=f"groups of {group}", partial=partial)
                    offsets = pa.array([*range(0, rows, group), rows])
                    yield from run_in_turns(*auto_cell(options, cell, whole, offsets))


def auto_cell(
    options: argparse.Namespace, cell: Cell, column: Column, segments: pa.Array | None = None
) -> tuple[str, argparse.Namespace, dict[str, Any], int, dict[str, Mapping[str, Run]]]:
    """Return what `run_in_turns` takes: each algorithm that answers a cell."""
    sides: dict[str, Mapping[str, Run]] = {}
    for name in ("auto", *ALGORITHMS):
        # Hundreds of times the work, and never the best; subtracting is so of extrema only.
        scans = cell.function in ("min", "max", "argmin") and name == "subtract_on_evict"
        if cell.size // cell.slide > 256 and (scans or name == "recalculate"):
            continue

        def run(name: str = name) -> pa.Array:
            return wk.kernels.sliding(
                column.arrow,
                cell.size,
                cell.slide,
                agg=cell.function,
                algorithm=name,
                partial=cell.partial,
                segments=segments,
            )

        if answers({name: run}):
            sides[name] = {name: run}
    return "auto", options, asdict(cell), len(column), sides


def answers(ways: Mapping[str, Run]) -> bool:
    """Whether an algorithm does a cell at all."""
    try:
        for run in ways.values():
            run()
    except wk.InvalidValue:
        return False
    return True


MEASURES: dict[str, Callable[[argparse.Namespace], Iterable[Measured]]] = {
    "windows": windows,
    "slides": slides,
    "evictions": evictions,
    "time": time_based,
    "row_ending": row_ending,
    "nulls": nulls,
    "tumbling": tumbling,
    "errors": errors,
    "latency": latency,
    "auto": auto,
}


# How it is measured.


def check(cell: Cell, column: Column, sides: Sequence[type[Side]]) -> None:
    """Stop unless all sides, in all their ways, give the same answers.

    Extrema and sums of integers to the last digit; sums and means of floats to nine digits of the largest.
    """
    expected: np.ndarray | None = None
    is_exact = cell.function in ("min", "max") or (cell.function == "sum" and cell.dtype == "int32")
    for side in sides:
        if side.name == "recalculate" and (len(column) - cell.size) * cell.size // cell.slide > 2**31:
            continue
        bound = side(column)
        for how, run in bound.ways(cell).items():
            got = bound.answer(run(), cell)
            if expected is None:
                expected = got
            scale = 0.0 if is_exact else np.nanmax(np.abs(expected)) * 1e-9
            if got.shape != expected.shape or not np.allclose(
                got, expected, rtol=0, atol=scale, equal_nan=True
            ):
                sys.exit(f"{side.name}, {how}, is not {sides[0].name} in {cell}")


def timed(
    section: str, options: argparse.Namespace, cell: Cell, column: Column, sides: Sequence[type[Side]]
) -> Iterable[Measured]:
    """Time the sides that can answer a cell, each in the fastest of its ways."""
    ways = {side.name: side(column).ways(cell) for side in sides if not hopeless(side, cell, len(column))}
    return run_in_turns(section, options, asdict(cell), len(column), ways)


def hopeless(side: type[Side], cell: Cell, rows: int) -> bool:
    """Whether a side would take minutes, as its work grows with the window: it is left out of such cells."""
    work = rows * cell.size // cell.slide
    return (side.name == "recalculate" and work > 2**32) or (
        side.name == "subtract_on_evict" and cell.function == "min" and work > 2**32
    )


def run_in_turns(
    section: str,
    options: argparse.Namespace,
    cell: dict[str, Any],
    rows: int,
    sides: Mapping[str, Mapping[str, Run]],
) -> list[Measured]:
    """Time each side in turns, after one that compiles and warms, and one that finds the fastest way."""
    chosen: dict[str, tuple[str, Run]] = {}
    query = (section, cell.get("function"), cell.get("dtype"))
    for side, every in sides.items():
        ways = {how: run for how, run in every.items() if (*query, side, how) not in BEATEN}
        if not ways:
            continue
        if len(ways) == 1:
            chosen[side] = next(iter(ways.items()))
            stopwatch(chosen[side][1])
            continue
        seconds = {}
        for how, run in ways.items():
            first = stopwatch(run)
            # The first run compiles, or allocates memory; one that takes very long is not made of that.
            seconds[how] = min(first, stopwatch(run)) if first < 20 else first
        best = min(seconds, key=seconds.__getitem__)
        BEATEN.update((*query, side, how) for how in ways if seconds[how] > 5 * seconds[best])
        chosen[side] = (best, ways[best])
    results = [Measured(section, cell, side, how, rows) for side, (how, _) in chosen.items()]
    for turn in range(options.repeats):
        # Another one begins each turn: it finds caches and memory as others left them.
        for result in results[turn % len(results) :] + results[: turn % len(results)]:
            if turn >= 3 and max(result.seconds) >= options.slow:
                continue
            result.seconds.append(stopwatch(chosen[result.side][1]))
    return results


def stopwatch(run: Run) -> float:
    """Return how long a call takes; its answer is dropped after the clock has stopped."""
    gc.collect()
    begin = time.perf_counter()
    answer = run()
    seconds = time.perf_counter() - begin
    del answer
    return seconds


# Records.


def keep(options: argparse.Namespace, results: Sequence[Measured]) -> None:
    """Write the records; sections not asked for stay."""
    facts, before = pages.read(options.output)
    if not facts or set(options.only) == set(SECTIONS):
        packages = ["polars", "pandas", "bottleneck", "numbagg", "numba", "numpy", "pyarrow"]
        facts = pages.machine(packages)
        facts |= {name: getattr(options, name) for name in ("rows", "repeats", "seed", "quick")}
    records: list[dict[str, Any]] = []
    for section in SECTIONS:
        new = [result.record() for result in results if result.section == section]
        records += new or [record for record in before if record["section"] == section]
    pages.keep(options.output, facts, records)


if __name__ == "__main__":
    main()
