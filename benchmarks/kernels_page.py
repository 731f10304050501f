"""The page and the pictures of kernels.py, made of its records alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pages
from goals import table as goals_table
from kernels_goals import GOALS
from kernels_records import PEERS, Records, auto_cells, cells_of, figure, rate
from pages import Record, header, listed, path_of
from plots import curves

DRAWN = ("windows_min_int32", "windows_sum_float64", "slides_min_int32", "evictions", "time")
"""The pictures: of windows and slides one for each kind of function, extrema and sums."""


def page(output: Path, facts: Record, found: Sequence[Record]) -> str:
    """Return the page, and draw its pictures."""
    records = Records(facts, found)
    pictures = Pictures(output)
    parts = [
        head(records, output),
        goals(records),
        others_ahead(records),
        *(part(records, pictures) for part in (windows, slides, evictions, timed)),
        row_ending(records),
        nulls(records),
        tumbling(records),
        errors(records),
        latency(records),
        auto(records),
        ways(records),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


class Pictures:
    """Pictures named after the page."""

    def __init__(self, page: Path) -> None:
        self.page = page

    def draw(
        self, name: str, title: str, x: str, lines: dict[str, list[tuple[float, float]]], caption: str
    ) -> str:
        """Draw rates over `x`, if they are among those drawn, and return the Markdown that shows them."""
        if name not in DRAWN:
            return ""
        path = self.page.with_name(f"{self.page.stem}_{name}.png")
        curves(lines, title, x, "million rows per second", path)
        return f"![{caption}]({path.name})"


# The parts of the page.


def head(records: Records, output: Path) -> str:
    facts = records.facts
    quick = " This was a quick run, with fewer rows, windows and repeats." if facts["quick"] else ""
    return (
        "# Sliding kernels: windowkit, other libraries and copying memory\n\n"
        f"Written by `benchmarks/kernels.py`: {facts['rows']:,} rows unless said otherwise, one thread on "
        f"every side.{quick}\n\n" + "\n".join(listed(facts)) + "\n\n"
        "All sides read the same column in memory; before the clocks run, their answers are compared. "
        "They are "
        f"timed in turns, and a time is the median of {facts['repeats']} (3 of what takes long). Answers go "
        "to new "
        "memory, as a caller sees it, with its page faults; copying is measured both ways, to new memory "
        "(`ndarray.copy`) and to memory in use (`numpy.copyto`). A share of copying is by bytes, those "
        "read and "
        "those written, since answers can be wider than values. Where a library has several ways to be "
        "asked, the "
        f"fastest counts; they are at the end. Every time is in `{path_of(output).name}`. The "
        "figures "
        "are those of Theodorakis et al., *Hammer Slide*, ADMS 2018, in shape: their machine is another."
    )


def goals(records: Records) -> str:
    lines = ["## Goals", "", "The worst cell counts; the median of all cells stands beside it.", ""]
    return "\n".join([*lines, *goals_table(GOALS, records)])


def others_ahead(records: Records) -> str:
    """Describe where another library is faster than windowkit, or that none is."""
    ahead = []
    compared = [record for record in records.all if record["side"] in PEERS and "median" in record]
    fixed = ("section", "function", "dtype", "size", "slide", "column", "partial")
    for record in compared:
        cell = {key: record[key] for key in fixed[1:] if key in record}
        ours = records.one(record["section"], side="windowkit", **cell)
        if ours and record["median"] < ours["median"]:
            name = f"{record['section']}: " + ", ".join(
                f"{key} {value}" for key, value in cell.items() if value not in ("random", "none")
            )
            ahead.append((ours["median"] / record["median"], record["side"], name, record["how"]))
    if not compared:
        return ""
    lines = ["## Where others are faster", ""]
    if not ahead:
        return "\n".join([*lines, f"In none of {len(compared)} comparisons with another library."])
    lines += [
        f"In {len(ahead)} of {len(compared)} comparisons with another library:",
        "",
        "| side | cell | asked | windowkit's time / its |",
        "|---|---|---|---:|",
    ]
    ahead.sort(reverse=True)
    lines += [f"| {side} | {cell} | {how} | {ratio:.2f} |" for ratio, side, cell, how in ahead]
    return "\n".join(lines)


def row_ending(records: Records) -> str:
    """Return the table of windows of time that end with a row."""
    if not records.of("row_ending"):
        return ""
    rows = records.of("row_ending")[0]["rows"]
    parts = [
        "## Windows of time that end with a row",
        f"Million rows per second over {rows:,} rows, of which 4 are in a second: the rows of the seconds "
        "before each.",
    ]
    for function in records.values("row_ending", "function"):
        lines = rates(records, "row_ending", "size", function=function)
        parts += [f"### {function} of float64", table("window, s", lines)]
    return "\n\n".join(part for part in parts if part)


def windows(records: Records, pictures: Pictures) -> str:
    if not records.of("windows"):
        return ""
    parts = [
        "## Any window at slide 1 (Figs. 9 and 10)",
        'Million rows per second. The plain Two-Stacks is ours, scalar, in Rust (`algorithm="two_stacks"`); '
        "`recalculate` is the paper's non-incremental baseline, left out where it would take minutes.",
    ]
    for dtype in records.values("windows", "dtype"):
        for function in records.values("windows", "function", dtype=dtype):
            lines = rates(records, "windows", "size", function=function, dtype=dtype)
            parts += [f"### {function} of {dtype}", table("window", lines)]
            title = f"{function} of {dtype}, slide 1"
            caption = f"Rates of {title}, by window"
            name = f"windows_{function}_{dtype}"
            parts.append(pictures.draw(name, title, "window, rows", lines, caption))
    return "\n\n".join(part for part in parts if part)


def slides(records: Records, pictures: Pictures) -> str:
    if not records.of("slides"):
        return ""
    parts = [
        "## Windows of 1,024 rows at any slide (Figs. 4a, 6 and 7)",
        "Million rows of the column per second. A slide of 1,024 is tumbling. Polars answers every row, "
        "of which "
        "those wanted are gathered; pandas has a `step`.",
    ]
    for dtype in records.values("slides", "dtype"):
        for function in records.values("slides", "function", dtype=dtype):
            lines = rates(records, "slides", "slide", function=function, dtype=dtype)
            title = f"{function} of {dtype}, window 1,024"
            parts += [f"### {function} of {dtype}", table("slide", lines)]
            caption = f"Rates of {title}, by slide"
            parts.append(pictures.draw(f"slides_{function}_{dtype}", title, "slide, rows", lines, caption))
    return "\n\n".join(part for part in parts if part)


def evictions(records: Records, pictures: Pictures) -> str:
    if not records.of("evictions"):
        return ""
    lines: dict[str, list[tuple[float, float]]] = {}
    kinds: dict[float, str] = {}
    for record in records.of("evictions"):
        share = 100 * record["rescans"]
        kinds[share] = record["column"]
        lines.setdefault(record["side"], []).append((share, record["rows"] / record["median"] / 1e6))
    lines = {side: sorted(points) for side, points in lines.items()}
    caption = "Rates of a minimum by the share of evictions that hit it"
    picture = pictures.draw(
        "evictions",
        "min of int32, window 1,024, slide 1",
        "evictions that hit the minimum, %",
        lines,
        caption,
    )
    data = "; ".join(f"{share:.1f} %: {kind}" for share, kind in sorted(kinds.items()))
    return "\n\n".join(
        [
            "## Evictions that hit the minimum (Fig. 8)",
            "Million rows per second, min of int32, windows of 1,024 rows at slide 1. Subtract-on-Evict "
            "must scan "
            f"the window when its minimum leaves. The columns, by share of such evictions: {data}.",
            table("hit, %", lines, lambda share: f"{share:.1f}"),
            picture,
        ]
    )


def timed(records: Records, pictures: Pictures) -> str:
    if not records.of("time"):
        return ""
    lines = rates(records, "time", "slide")
    rows = records.of("time")[0]["rows"]
    caption = "Rates of the time-based query by slide"
    picture = pictures.draw("time", "mean CPU requested in 64 s", "slide, s", lines, caption)
    return "\n\n".join(
        [
            "## The time-based query (Fig. 11)",
            "Million rows per second: the mean CPU requested in the last 64 seconds, over the sample of "
            "the cluster "
            f"trace, from its first event on, repeated with its own gaps up to {rows:,} rows.",
            table("slide, s", lines),
            picture,
        ]
    )


def nulls(records: Records) -> str:
    if not records.of("nulls"):
        return ""
    sides = [side for side in records.values("nulls", "side") if not side.startswith("memcpy")]
    lines = [
        "## Nulls",
        "",
        "Million rows per second without nulls / with 10 % nulls; full windows (`none`), and a window per "
        "row (`start`). With nulls, and for a window per row, one value in a window is enough for a result, "
        "on every side; full windows without nulls must have all their values.",
        "",
        header("function", "window", "partial", *sides),
    ]
    for function, dtype, size in cells_of(records, "nulls"):
        for partial in ("none", "start"):
            row = [f"{function} {dtype}", f"{size:,}", partial]
            cell = {"function": function, "dtype": dtype, "size": size, "partial": partial}
            for side in sides:
                pair = [
                    records.one("nulls", side=side, column=column, **cell)
                    for column in ("no nulls", "10 % nulls")
                ]
                row.append(" / ".join(rate(record) for record in pair))
            lines.append(pages.row(*row))
    return "\n".join(lines)


def tumbling(records: Records) -> str:
    if not records.of("tumbling"):
        return ""
    lines = [
        "## Tumbling windows",
        "",
        "Million rows per second, beside the fastest reduction of the whole column to one value.",
        "",
        header("function", "window", "windowkit", "one reduction", "time / reduction's", "by"),
    ]
    for function, dtype, size in cells_of(records, "tumbling"):
        cell = {"function": function, "dtype": dtype, "size": size}
        ours = records.one("tumbling", side="windowkit", **cell)
        whole = records.one("tumbling", side="reduction", **cell)
        if ours and whole:
            ratio = f"{ours['median'] / whole['median']:.2f}"
            row = [f"{function} {dtype}", f"{size:,}", rate(ours), rate(whole), ratio, whole["how"]]
            lines.append(pages.row(*row))
    return "\n".join(lines)


def errors(records: Records) -> str:
    if not records.of("errors"):
        return ""
    kinds, sides = records.values("errors", "column"), records.values("errors", "side")
    lines = [
        "## Errors of sums and means",
        "",
        "The largest error against the exact sum (`math.fsum`) of 400 windows of 1,024 float64, in units of "
        "2⁻⁵³·Σ|x|, of which Kahan's algorithm promises 2; of means in units of that by the size. The last "
        "column has values of 1e16 before the windows that are looked at: what drifts keeps a trace of them.",
    ]
    for function in records.values("errors", "function"):
        lines += ["", header(function, *kinds)]
        for side in sides:
            found = [records.one("errors", column=kind, side=side, function=function) for kind in kinds]
            row = [f"{record['error']:.3g}" if record else "" for record in found]
            lines.append(pages.row(side, *row))
    return "\n".join(lines)


def latency(records: Records) -> str:
    found = records.of("latency")
    if not found:
        return ""
    percentiles = ("p50", "p99", "p99.9", "p99.99", "max")
    lines = [
        "## Latency of a row in a window over a stream",
        "",
        f"Nanoseconds for one row in, one out and a query, of {found[0]['rows']:,} rows, each timed by "
        "itself (`benches/daba.rs`); what reading the clock takes, the median of `clock`, is taken off "
        "the others. Each row counts with the least of seven runs over the same rows, as an interrupt does "
        "not come at the same row again. A flip of Two-Stacks happens once a window, so that it shows in "
        "the percentiles of small windows and in the maximum of large ones.",
        "",
        header("what", "window", *percentiles),
    ]
    for record in found:
        figures = [f"{record[name]:,}" for name in percentiles]
        lines.append(pages.row(record["side"], f"{record['size']:,}", *figures))
    return "\n".join(lines)


def auto(records: Records) -> str:
    found = sorted(auto_cells(records), key=lambda cell: -cell[1])
    if not found:
        return ""
    rows = records.of("auto")[0]["rows"]
    behind = sum(ratio > 1.1 for _, ratio, _ in found)
    lines = [
        "## What `auto` chooses",
        "",
        f"{len(found)} cells of functions, types, windows, slides, nulls and groups over {rows:,} rows, each "
        "answered by `auto` and "
        "by every algorithm that can; the medians of each. `auto` is one of them by another name, so "
        "that a "
        f"ratio below 1.1 is noise. It is more than 10 % behind the best in {behind} cells; the worst:",
        "",
        header("cell", "time / best's", "best"),
    ]
    lines += [f"| {cell} | {ratio:.2f} | {best} |" for cell, ratio, best in found[:8]]
    return "\n".join(lines)


def ways(records: Records) -> str:
    asked: dict[str, dict[str, int]] = {}
    for record in records.all:
        if record["side"] in PEERS and record["how"]:
            counts = asked.setdefault(record["side"], {})
            counts[record["how"]] = counts.get(record["how"], 0) + 1
    if not asked:
        return ""
    lines = [
        "## How the others were asked",
        "",
        "In so many cells each way was the fastest; see `benchmarks/kernel_sides.py`.",
        "",
    ]
    for side, counts in asked.items():
        lines.append(f"- {side}: " + ", ".join(f"{how} ({count})" for how, count in counts.items()))
    return "\n".join(lines)


# Tables.


def rates(records: Records, section: str, x: str, **wanted: Any) -> dict[str, list[tuple[float, float]]]:
    """Return for each side its rates by `x`, in million rows per second."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for record in records.of(section, **wanted):
        lines.setdefault(record["side"], []).append((record[x], record["rows"] / record["median"] / 1e6))
    return lines


def table(
    x: str, lines: dict[str, list[tuple[float, float]]], spoken: Callable[[float], str] = "{:,}".format
) -> str:
    """Return rates as a table with a row per value of `x`."""
    rows = [header(x, *lines)]
    for at in dict.fromkeys(point[0] for points in lines.values() for point in points):
        cells = [dict(points).get(at) for points in lines.values()]
        rows.append(pages.row(spoken(at), *(figure(cell) for cell in cells)))
    return "\n".join(rows)
