"""The page and the pictures of disorder.py, made of its records alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pages
import verdicts
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
    "6-19c": Figure(
        "Bytes of a group with a single row",
        "function",
        "With each function, of 65,536 groups. A count's partial is 8 bytes: what is more than a count's "
        "is the partial's, and the rest is the key's and the timeline's.",
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
DRAWN = ("6-10",)
ROW = 20
"""Bytes of a row in a buffer of all groups: a time, a value and a group's number."""


def page(output: Path, facts: Record, records: Sequence[Record]) -> str:
    """Return the page, and draw its pictures."""
    parts = [head(facts, records, output)]
    for name, figure in FIGURES.items():
        own = [record for record in records if record["figure"] == name]
        if own:
            verdict = None if facts["quick"] else verdicts.DISORDER.get(name)
            said = verdict.text(records, name) if verdict else ""
            parts.append(section(name, figure, said, own, output, name in DRAWN))
    return "\n\n".join(parts) + "\n"


def head(facts: Record, records: Sequence[Record], output: Path) -> str:
    quick = " This was a quick run: few cells, and short." if facts["quick"] else ""
    return (
        "# Rows out of order: slices, window ids and in-order processing\n\n"
        f"Written by `benchmarks/disorder.py`.{quick}\n\n" + "\n".join(pages.listed(facts)) + "\n\n"
        "The experiments are those of Li, *Window Queries over Data Streams* (2008), in shape. Sides: "
        "*slices*, windowkit's operator with Arrow batches in and out; *wid*, window ids in a hash table "
        "(§6.1); *buffering*, in-order processing: rows wait in a buffer until none can come before them, "
        "and are then aggregated in order (§8.2). The last two are in `baselines`. Sides take turns, on one "
        f"thread; of several runs ({facts['repeats']}) the median counts. Every run is in "
        f"`{pages.path_of(output).name}`.\n\n{findings(records)}\n\n{missing(records)}"
        "Figs. 7-6, 8-9 and 8-10 are of joins, which have [a page of their own](join_streams.md)."
    )


def missing(records: Sequence[Record]) -> str:
    """Return which figures were not measured."""
    there = {record["figure"].rstrip("abc") for record in records}
    lacking = [name for name in MEASURED if name not in there]
    untimed = "Bytes hardly depend on the machine; those of Fig. 6-19 are of an earlier run, on another. "
    return untimed + (f"Not measured yet: Figs. {', '.join(lacking)}. " if lacking else "")


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
    said += groups(of)
    return "\n".join(said)


def groups(of: Callable[[str, str, str, str], float | None]) -> list[str]:
    """Return what Fig. 6-19 says about AdaptWID."""
    row, group = "bytes a row", "bytes a group"
    sums = [of("6-19b", "DS5, sum", side, row) for side in ("wid", "slices")]
    tumbling = [of("6-19a", "DS5, sum", side, row) for side in ("wid", "slices")]
    single = [of("6-19c", "count_all", side, group) for side in ("wid", "slices")]
    medians = [of("6-19b", "DS5, median", side, row) for side in ("wid", "slices")]
    named = ("count_all", "median", "collect_list", "m4", "approx_count_distinct", "approx_quantile")
    each = {name: of("6-19c", name, "slices", group) for name in named}
    count = each.pop("count_all")
    if count is None or None in (*sums, *medians, *tumbling, *single, *each.values()):
        return []
    # A count's partial is 8 bytes.
    partials = {name: (size or 0) - count + 8 for name, size in each.items()}
    listed = ", ".join(f"{name} {size:,.0f}" for name, size in partials.items())
    gains = {name: (size - ROW) / (each[name] or 1) for name, size in partials.items()}
    gained = " and ".join(f"{gain:.0%} ({name})" for name, gain in gains.items() if gain > 0)
    return [
        f"- With windows that do not overlap and most groups sparse (DS5), sums take {tumbling[0]:.1f} "
        f"bytes a row as window ids and {tumbling[1]:.0f} in slices (6-19a): a count of a group with a "
        f"single row takes {single[0]:.0f} bytes in a hash table, and {single[1]:.0f} with a timeline "
        "(6-19c).",
        f"- With ten windows open and most groups sparse (DS5), slices take {sums[1]:.0f} bytes a row for "
        f"sums and {medians[1]:.0f} for medians, where window ids take {sums[0]:.0f} and {medians[0]:.0f} "
        "(6-19b): a row is in one slice.",
        "- AdaptWID keeps the rows of sparse groups instead of partials. Of a group with a single row, a "
        f"partial takes, in bytes: {listed}. A row takes {ROW}, with its group's number. So the most that a "
        f"choice by group can save of a group with a single row is {gained}: the other {count - 8:,.0f} "
        "bytes are the key and its timeline (6-19c), which rows of a group need, too. Rows of all groups in "
        "one buffer do not: where keys are many and sparse, and windows lie side by side, they wait there "
        "for the end of their window. These data sets have fewer slices in a window than that begins with; "
        "`benchmarks/keys.py` measures what such a key takes.",
    ]
