"""The page and the pictures of disorder.py, made of its records alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pages
from pages import Record
from slicing_page import Figure, section

FIGURES = {
    "6-10": Figure(
        "Maxima over the last 4,000 rows",
        "slide, rows",
        "Rows are in order, so that none is buffered to be sorted. *Rows kept* is Li's buffering "
        "implementation: each window is computed from its rows when it ends. Window ids update one "
        "aggregate for each window that a row is in; slices, one for each row.",
    ),
    "6-15": Figure(
        "Panes: time as a share of the time without them",
        "rows of a pane",
        "*Paned* is two operators of window ids, one for panes and one for windows of panes, as in Fig. "
        "6-14. Slices are these panes here, where the slide divides the size. Li measured about 0.3 at 20 "
        "rows a pane and 5 panes a window.",
    ),
    "6-19a": Figure(
        "Bytes a row with skewed groups, tumbling windows",
        "data set and function",
        "Data sets are those of Table 6-2: groups of 1, of 15 and of 300 rows, of 100,000 in one window. "
        "*Wid* has a partial per group and open window (eager); *rows, by group* is a tuple buffer (lazy); "
        "one buffer for all groups, as AdaptWID has it, would take a time, a value and a group's number. "
        "*Per group* is the smaller of two for each kind of group, as if its density were known in "
        "advance: what a choice by condition 6.9 can reach at best, without what it needs to monitor "
        "groups and to switch.",
    ),
    "6-19b": Figure(
        "Bytes a row with skewed groups, ten windows open",
        "data set and function",
        "As in 6-19a, with windows of 10 seconds every second. A row is in ten windows, and thus in ten "
        "partials of window ids; but in one slice.",
    ),
    "8-7": Figure(
        "Throughput and output smoothing, by groups",
        "groups",
        "Counts of a minute, 2 M rows a minute, up to a second late. Gigascope drops packets while a hash "
        "table is flushed; here, rows wait as long as the longest call takes. *Slow flush* is "
        "`emit=wk.emit(at_most=16_384)`: a call, of which there are four a second of stream, returns no "
        "more windows.",
    ),
    "8-8": Figure(
        "Counts over two links, one of which is behind",
        "seconds behind",
        "A tenth of Li's rates: 11,000 rows a second of each link, 65,536 groups, a window a minute. The "
        "watermark is that of the link that is behind. MB are the most that the allocator counted.",
    ),
    "8-11": Figure(
        "Sliding count over three links, one of which is behind",
        "seconds behind",
        "5 minutes every minute; 8,000 rows a second of two links, and one of the third, which is behind.",
    ),
}
MEASURED = ("6-10", "6-15", "6-19", "8-7", "8-8", "8-11")
"""The figures of the thesis that are measured again."""
DRAWN = ("6-10", "8-8", "8-11")


def page(output: Path, facts: Record, records: Sequence[Record]) -> str:
    """Return the page, and draw its pictures."""
    parts = [head(facts, records, output)]
    for name, figure in FIGURES.items():
        own = [record for record in records if record["figure"] == name]
        if own:
            parts.append(section(name, figure, own, output, name in DRAWN))
    return "\n\n".join(parts) + "\n"


def head(facts: Record, records: Sequence[Record], output: Path) -> str:
    quick = " This was a quick run: few cells, and short." if facts["quick"] else ""
    return (
        "# Rows out of order: slices, window ids and in-order processing\n\n"
        f"Written by `benchmarks/disorder.py`.{quick}\n\n" + "\n".join(pages.listed(facts)) + "\n\n"
        "The experiments are those of Li, *Window Queries over Data Streams* (2008), in shape. Sides: "
        "*slices*, windowkit's operator with Arrow batches in and out; *wid*, window ids in a hash table "
        "(§6.1); *buffering*, in-order processing: rows wait in a buffer until none can come before them, "
        "and are then aggregated in order (§8.2). The last two are in `baselines`. Each side runs in turns "
        f"with the others, on one thread, {facts['repeats']} times where times are measured; the median "
        f"counts. Every run is in `{pages.path_of(output).name}`.\n\n{findings(records)}\n\nNot measured: "
        "Figs. 8-9 and 8-10 are of window joins, which windowkit does not have."
    )


def findings(records: Sequence[Record]) -> str:
    """Return what the figures show, in numbers of these records."""

    def of(figure: str, x: str, side: str, unit: str) -> float | None:
        own = (r for r in records if (r["figure"], r["x"], r["side"], r["unit"]) == (figure, x, side, unit))
        return next((record["median"] for record in own), None)

    said = []
    ratios = [of("6-10", x, "wid", "ns a row") for x in ("4000", "1")]
    slices = [of("6-10", x, "slices", "ns a row") for x in ("4000", "1")]
    if None not in (*ratios, *slices):
        said.append(
            f"- Window ids cost {ratios[1] / ratios[0]:,.0f} times as much per row with 4,000 windows open "
            f"as with one, slices {slices[1] / slices[0]:.1f} times (6-10)."
        )
    memory = {
        side: [of("8-8", x, side, "MB") for x in ("0", "40")] for side in ("slices", "wid", "buffering")
    }
    if all(None not in own for own in memory.values()):
        each = ", ".join(f"{side} from {a:.1f} to {b:.1f} MB" for side, (a, b) in memory.items())
        said.append(f"- With one of two links 40 seconds behind instead of none, memory goes: {each} (8-8).")
    return "\n".join(said)
