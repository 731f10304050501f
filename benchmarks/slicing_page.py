"""The page and the pictures of slicing.py, made of its records alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import goals
import pages
import verdicts
from goals import Cells, Goal
from pages import Record
from plots import curves, dots


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, as it is here."""

    title: str
    x: str
    differs: str
    """What differs from the paper, and why."""


FIGURES = {
    "8": Figure(
        "In order, windows over time",
        "concurrent windows",
        "Rows come in batches here, and not one by one through Flink, so that a batch's rows share the "
        "cost of a "
        "call and all sides are faster; the tree is brought up to date once a batch and not once a row.",
    ),
    "9a": Figure(
        "20 % out of order and a session, values of the football data",
        "concurrent windows",
        "The positions of the football data are synthetic: as many rows a second, as many distinct values "
        "and as many gaps. The watermark follows the rows so closely that none comes late; Pairs and Cutty "
        "refuse rows out of order.",
    ),
    "9b": Figure(
        "20 % out of order and a session, values of the machine data",
        "concurrent windows",
        "Times are those of the football data; only values are those of the machine data, whose "
        "sample has no gaps.",
    ),
    "10a": Figure(
        "Bytes for 50,000 rows, by slices within the allowed lateness",
        "slices",
        "Bytes are those of Rust's columns and not of Java's objects, counted by each side itself and by "
        "the allocator.",
    ),
    "10b": Figure(
        "Bytes for 500 slices, by rows within the allowed lateness",
        "rows",
        "As in 10a; a tuple buffer here keeps the arrays that rows came in, and 16 bytes a row to find them.",
    ),
    "10c": Figure(
        "Bytes for 50,000 rows, by slices of a number of rows within the allowed lateness",
        "slices",
        "As in 10a; slicing stores rows beside slices here, as a late row shifts all that follow it. Our "
        "aggregate buckets refuse this; those of the paper store tuples for it.",
    ),
    "10d": Figure(
        "Bytes for 500 slices of a number of rows, by rows within the allowed lateness",
        "rows",
        "As in 10c; windows do not overlap, so that a bucket's tuples are no one else's.",
    ),
    "11a": Figure(
        "Latency of one window: sum",
        "entries",
        "What is timed is one call in Rust that moves the watermark over the end of two windows, that of all "
        "entries and that of the last, and returns them as columns. Slicing also spends time on the Arrow "
        "batch around two numbers; the paper's look-up in a map makes none.",
    ),
    "11c": Figure(
        "Latency of one window: median",
        "entries",
        "As in 11a; a bucket's median is found in its values when it is asked for, and not kept ready.",
    ),
    "12a": Figure(
        "Share of rows out of order",
        "out of order, %",
        "Rows of a batch are put in order at a time, so that a tree begins anew where the earliest of "
        "them belongs.",
    ),
    "12b": Figure(
        "Delay of rows out of order",
        "delay up to, seconds",
        "The delay is that of single rows as in the paper, from zero to the bound at random.",
    ),
    "13a": Figure(
        "Aggregate functions, windows over time",
        "function",
        "The functions are the crate's, of which a multiset serves median, quantile and distinct count; all "
        "sides are shown, where the paper has slicing. `sum_without_invert` is the benchmark's own, a "
        "user-defined aggregate in Rust: the sum of integers, whose inverse is never used.",
    ),
    "13b": Figure(
        "Aggregate functions, windows of a number of rows",
        "function",
        "As many rows as come in 1 to 20 seconds, without a session; a batch's rows out of order are put "
        "between the others together, so that a slice that lost a row and got another is mended once a "
        "batch, and not once a row. Aggregate buckets refuse: a late row moves others from bucket to bucket.",
    ),
    "14": Figure(
        "Median",
        "values and concurrent windows",
        "As many distinct values as the column of the football data has, 80,000, and those of the "
        "manufacturing sample.",
    ),
    "15": Figure(
        "Computing a slice's aggregate anew",
        "rows of the slice",
        "Both are measured: the computation by itself, as in the paper, and the call that splits a slice of "
        "so many rows in the middle, in the operator with all that it does around it.",
    ),
    "16a": Figure(
        "Windows over time",
        "concurrent windows",
        "An advancing integer is handled exactly as a time, bit for bit, so one line stands for both "
        "measures.",
    ),
    "16b": Figure(
        "Windows of a number of rows",
        "concurrent windows",
        "As many rows as come in 1 to 20 seconds; rows out of order are put between the others once a batch, "
        "and not one by one, so that what they shift is paid for together.",
    ),
    "17": Figure(
        "M4 in parallel, 80 concurrent windows an instance",
        "instances",
        "Instances are threads of one process, and rows are made in the same clock; this machine has "
        "fewer cores.",
    ),
}


DRAWN = ("8", "9a", "10a", "11a", "12a", "13a", "14", "15", "16a", "17")
"""Figures with a picture: of those with several parts the first."""


def page(output: Path, facts: Record, records: Sequence[Record]) -> str:
    """Return the page, and draw its pictures."""
    parts = [head(facts, records, output)]
    for name, figure in FIGURES.items():
        own = [record for record in records if record["figure"] == name]
        if own:
            said = "" if facts["quick"] else verdicts.SLICING[name].text(records, name)
            parts.append(section(name, figure, said, own, output, name in DRAWN))
    return "\n\n".join(parts) + "\n"


def head(facts: Record, records: Sequence[Record], output: Path) -> str:
    runs = sorted(
        {len(record["runs"]) for record in records if record["unit"] == "rows/s"} or {facts["repeats"]}
    )
    often = {1: "once"}.get(
        runs[-1], f"{runs[0]} to {runs[-1]} times" if runs[0] < runs[-1] else f"{runs[-1]} times"
    )
    quick = " This was a quick run: few cells, and short." if facts["quick"] else ""
    return (
        "# Stream slicing and the techniques it is compared with\n\n"
        f"Written by `benchmarks/slicing.py`.{quick}\n\n" + "\n".join(pages.listed(facts)) + "\n\n"
        "The experiments are those of Traub et al., *Efficient Window Aggregation with General Stream "
        "Slicing*, EDBT "
        "2019, §6, in shape: 2,000 rows a second of stream, five gaps a minute, tumbling windows of 1 to "
        "20 seconds, "
        f"sums unless said otherwise. Each side runs {often} for {facts['seconds']} s, in turns with "
        f"the others, on one thread, and is given {facts['batch']:,} rows at a time with a watermark "
        "after each; the "
        "median counts. Rows of the twenty seconds before are taken in before the clock runs. Slicing is the "
        "operator that Python has, with Arrow batches of rows and of windows inside the clock; the "
        "techniques get columns and give partial aggregates. A side that refuses a workload is not in its "
        "figure. Slicing eager has running totals, trees or (for median and the like) sorted runs above its "
        "slices; it is not where partials point to values, or rows are stored. Every run is in "
        f"`{pages.path_of(output).name}`.\n\n" + "\n".join(goals.table(GOALS, records))
    )


def many_windows(windows: int) -> Callable[[Sequence[Record]], Cells]:
    """Return what slicing has of its rate with one window."""

    def measured(records: Sequence[Record]) -> Cells:
        for side in (verdicts.LAZY, verdicts.EAGER):
            yield side, of_rate(records, ("8", windows, side), ("8", 1, side))

    return measured


def many_windows_late(records: Sequence[Record]) -> Cells:
    """Yield what slicing has of its rate in order if a fifth of the rows is late."""
    for side in (verdicts.LAZY, verdicts.EAGER):
        yield side, of_rate(records, ("16a", 1000, side), ("8", 1000, side))


def of_rate(
    records: Sequence[Record], one: tuple[str, int, str], other: tuple[str, int, str]
) -> float | None:
    """Return the rate of a cell in times of that of another; None if it was not measured."""
    rates = {(r["figure"], r["x"], r["side"]): r["median"] for r in records if r["unit"] == verdicts.RATE}
    own, others = (rates.get((figure, str(x), side)) for figure, x, side in (one, other))
    return own / others if own and others else None


GOALS = [
    Goal("200 windows in order, of the rate of one", "≥", 0.5, many_windows(200)),
    Goal("1,000 windows in order, of the rate of one", "≥", 0.2, many_windows(1000)),
    Goal("1,000 windows and 20 % late, of 1,000 in order", "≥", 0.25, many_windows_late),
]


def section(
    name: str, figure: Figure, verdict: str, records: Sequence[Record], output: Path, is_drawn: bool
) -> str:
    """Return the tables of a figure, and its picture if it has one: of what is in the first table."""
    units = list(dict.fromkeys(record["unit"] for record in records))
    parts = [f"## Fig. {name}: {figure.title}", figure.differs, *filter(None, [verdict])]
    for unit in units:
        own = [record for record in records if record["unit"] == unit]
        values = {(record["x"], record["side"]): record["median"] for record in own}
        xs = list(dict.fromkeys(record["x"] for record in own))
        sides = list(dict.fromkeys(record["side"] for record in own))
        rate = unit == "rows/s"
        shown = "million rows per second" if rate else unit
        scale = 1e-6 if rate else 1.0
        scaled = {cell: value * scale for cell, value in values.items()}
        lines = [pages.header(f"{figure.x} ({shown})", *sides)]
        lines += [pages.row(x, *(number(scaled.get((x, side))) for side in sides)) for x in xs]
        parts.append("\n".join(lines))
        if is_drawn and unit == units[0]:
            path = output.with_name(f"{output.stem}_{name}.png")
            draw(xs, sides, scaled, figure, shown, path)
            parts.append(f"![Fig. {name}: {figure.title}]({path.name})")
    return "\n\n".join(parts)


def number(value: float | None) -> str:
    """Return a number with three digits, or nothing."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def draw(
    xs: Sequence[str],
    sides: Sequence[str],
    values: Mapping[tuple[str, str], float],
    figure: Figure,
    y: str,
    path: Path,
) -> None:
    """Draw a line per side, or dots where what is compared are no numbers."""
    try:
        places = {x: float(x) for x in xs}
    except ValueError:
        by_side = {side: {x: values[x, side] for x in xs if (x, side) in values} for side in sides}
        dots(xs, by_side, figure.title, y, path)
        return
    lines = {
        side: [(place, values[x, side]) for x, place in places.items() if (x, side) in values]
        for side in sides
    }
    drawn = {side: points for side, points in lines.items() if points}
    curves(drawn, figure.title, figure.x, y, path, linear_x=min(places.values()) <= 0)
