"""What papers say of their figures, what is seen here, and why both differ: beside each figure of a page.

The papers' part is as they have it; ours is computed from the records of the page, so that a verdict is never
older than its figures.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pages import Record

RATE = "rows/s"


@dataclass(frozen=True)
class Cells:
    """What was measured of a figure."""

    records: Sequence[Record]
    figure: str

    def of(self, x: object, side: str, unit: str = RATE, figure: str | None = None) -> float:
        """Return what a side has at a place of the x axis, of this figure or of another of the page."""
        wanted = (figure or self.figure, str(x), side, unit)
        found = (r["median"] for r in self.records if (r["figure"], r["x"], r["side"], r["unit"]) == wanted)
        return float(next(found))

    def ratio(self, side: str, x: object, to: object, unit: str = RATE) -> float:
        """Return what a side has at one place, in times of what it has at another."""
        return self.of(x, side, unit) / self.of(to, side, unit)

    def ahead(self, x: object, side: str, other: str, unit: str = RATE) -> float:
        """Return what a side has, in times of what another has at the same place."""
        return self.of(x, side, unit) / self.of(x, other, unit)


@dataclass(frozen=True)
class Verdict:
    """A figure of a paper beside ours."""

    paper: str
    """What the paper says."""
    here: Callable[[Cells], str]
    """What is seen."""
    why: str
    """Why both differ, or what makes them alike."""

    def text(self, records: Sequence[Record], figure: str) -> str:
        """Return the lines of a page, of records that have all cells of the figure."""
        here = self.here(Cells(records, figure))
        return f"- *The paper*: {self.paper}\n- *Here*: {here}\n- *Why*: {self.why}"


LAZY, EAGER = "slicing lazy", "slicing eager"
BUFFER, TREE, BUCKETS = "tuple_buffer", "aggregate_tree", "aggregate_buckets"
OWN = "bytes, own count"
OF_WID = "of wid's time"


def in_order(c: Cells) -> str:
    """Fig. 8."""
    left = ", ".join(f"{side} {c.ratio(side, 1000, 1):.0%}" for side in (LAZY, EAGER, "pairs", "cutty"))
    ahead = ", ".join(f"{c.ahead(1000, EAGER, side):,.0f} times {side}" for side in (TREE, BUCKETS, BUFFER))
    return f"with 1,000 windows these have left, of their rate with one: {left}. Eager slicing is {ahead}."


def out_of_order(c: Cells) -> str:
    """Figs. 9a and 9b."""
    best = max((TREE, BUCKETS, BUFFER), key=lambda side: c.of(20, side))
    return (
        f"lazy slicing has {c.ratio(LAZY, 1000, 1):.0%} of its rate with one window left with 1,000; with 20 "
        f"it is {c.ahead(20, LAZY, best):.0f} times {best}, the best other side. Eager slicing is "
        f"{c.ahead(20, EAGER, LAZY):.2f} times lazy with 20 windows, {c.ahead(1000, EAGER, LAZY):.2f} times "
        "with 1,000."
    )


def grows(c: Cells, few: int, many: int, sides: Sequence[str]) -> str:
    """Figs. 10."""
    each = (f"{side} {c.ratio(side, many, few, OWN):,.1f} times" for side in sides)
    return f"from {few:,} to {many:,}, bytes by each side's own count grow: {', '.join(each)}."


def latencies(c: Cells) -> str:
    """Figs. 11."""
    sides = (LAZY, BUFFER, EAGER, *([TREE] if c.figure == "11a" else []), BUCKETS)
    each = (f"{side} {c.of(100000, side, 'ns') / 1000:,.1f} µs" for side in sides)
    return f"for 100,000 entries: {', '.join(each)}."


def shares(c: Cells) -> str:
    """Fig. 12a."""
    left = (f"{side} {c.ratio(side, 20, 0):.0%} and {c.ratio(side, 100, 0):.0%}" for side in (LAZY, BUCKETS))
    best = max((TREE, BUCKETS, BUFFER), key=lambda side: c.of(20, side))
    return (
        f"of the rate in order, with 20 % and with all rows out of order: {', '.join(left)}. With 20 % lazy "
        f"slicing is {c.ahead(20, LAZY, best):.0f} times {best}, the best other side."
    )


def functions(c: Cells) -> str:
    """Fig. 13a."""
    return (
        f"of the rate of a sum, lazy slicing has {c.of('m4', LAZY) / c.of('sum', LAZY):.0%} for M4 and "
        f"{c.of('median', LAZY) / c.of('sum', LAZY):.1%} for medians, eager slicing "
        f"{c.of('median', EAGER) / c.of('sum', EAGER):.0%}. For medians lazy slicing is "
        f"{c.ahead('median', LAZY, BUFFER):.2f} times the tuple buffer, eager "
        f"{c.ahead('median', EAGER, BUFFER):.1f} times."
    )


def functions_by_rows(c: Cells) -> str:
    """Fig. 13b."""
    over_time = c.of("sum", LAZY, figure="13a")
    return (
        f"a sum by rows has {c.of('sum', LAZY) / over_time:.0%} of the rate of one over time. Of the rate of "
        f"this sum, one without an inverse has {c.of('sum_without_invert', LAZY) / c.of('sum', LAZY):.0%}, a "
        f"maximum {c.of('max', LAZY) / c.of('sum', LAZY):.0%}. For medians slicing is "
        f"{c.ahead('median', LAZY, BUFFER):.2f} times the tuple buffer."
    )


def medians(c: Cells) -> str:
    """Fig. 14."""
    each = (
        f"{values}: {c.ahead(f'{values}: 1', EAGER, BUFFER):.1f} and "
        f"{c.ahead(f'{values}: 100', EAGER, BUFFER):.0f}"
        for values in ("football", "machine")
    )
    few = c.of("machine: 20", EAGER) / c.of("football: 20", EAGER)
    return (
        f"eager slicing, in times of the tuple buffer, with one and with 100 windows: {', '.join(each)}; "
        f"lazy slicing with 100: {c.ahead('football: 100', LAZY, BUFFER):.2f} and "
        f"{c.ahead('machine: 100', LAZY, BUFFER):.1f}. Few distinct values make eager {few:.1f} times as "
        "fast."
    )


def anew(c: Cells) -> str:
    """Fig. 15."""
    each = (f"{what} {c.ratio(what, 1000000, 1000, 'ns'):,.0f} times" for what in ("sum", "median"))
    return f"from 1,000 to 1,000,000 rows: {', '.join(each)}."


def by_rows(c: Cells) -> str:
    """Fig. 16b."""
    return (
        f"of its rate with one window, slicing has {c.ratio(LAZY, 20, 1):.0%} with 20 and "
        f"{c.ratio(LAZY, 1000, 1):.0%} with 1,000, where it is {c.ahead(1000, LAZY, BUFFER):.0f} times the "
        f"tuple buffer and {c.ahead(1000, LAZY, TREE):.2f} times the tree (with 20: "
        f"{c.ahead(20, LAZY, TREE):.1f})."
    )


def in_parallel(c: Cells) -> str:
    """Fig. 17."""
    return (
        f"two instances are {c.ratio(LAZY, 2, 1):.1f} times one, four {c.ratio(LAZY, 4, 1):.1f} times; one "
        f"is {c.ahead(1, LAZY, BUCKETS):.0f} times buckets."
    )


ENDS = (
    "Of 1,000 windows of 1 to 20 seconds, some 158 end each second: one result for every 13 rows. A row is "
    "folded here in about a nanosecond, and not in the half a microsecond of the paper, so that what results "
    "cost shows beside it."
)

SLICING = {
    "8": Verdict(
        "slicing, Pairs and Cutty are flat up to 1,000 windows, and orders of magnitude ahead of all others.",
        in_order,
        f"The order is the paper's, but no side is flat. {ENDS}",
    ),
    "9a": Verdict(
        "slicing is nearly constant and an order of magnitude ahead; lazy is ahead of eager.",
        out_of_order,
        f"{ENDS} A batch's rows out of order are put in together, and what is above the slices is mended "
        "once a batch: that costs eager slicing little, and trees of rows are not as far behind as the "
        "paper's, which mend themselves row by row.",
    ),
    "9b": Verdict(
        "as with the values of the football data.",
        out_of_order,
        "As in 9a: sums do not depend on values.",
    ),
    "10a": Verdict(
        "slicing and buckets grow with the slices, the others do not.",
        lambda c: grows(c, 10, 10000, (LAZY, EAGER, BUCKETS, BUFFER, TREE)),
        "The same: slices hold a partial each, and no rows.",
    ),
    "10b": Verdict(
        "slicing and buckets do not depend on the rows; the tuple buffer and the tree grow with them.",
        lambda c: grows(c, 500, 500000, (LAZY, EAGER, BUCKETS, BUFFER, TREE)),
        "The same. What slicing grows by is room for the rows of a call.",
    ),
    "10c": Verdict(
        "stored rows outweigh what slices take, in all techniques.",
        lambda c: grows(c, 10, 10000, (LAZY, BUFFER, TREE)),
        "The same: 50,000 rows are most of it.",
    ),
    "10d": Verdict(
        "all grow with the rows, in parallel from 1,000 rows on.",
        lambda c: grows(c, 500, 500000, (LAZY, BUFFER, TREE)),
        "The same: rows out of order move others from slice to slice, so that all are kept.",
    ),
    "11a": Verdict(
        "lazy slicing and the tuple buffer take up to 1 ms for 100,000 entries, eager slicing and the tree "
        "less than 5 µs, buckets less than 30 ns.",
        latencies,
        "The same order. A bucket's answer is a look-up in the paper, and a call that returns columns here.",
    ),
    "11c": Verdict(
        "as for sums; slicing takes longer, as partials are costly to combine, and buckets do not.",
        latencies,
        "Slices of one row each are as many sorted runs of one value: to merge them is to sort, where the "
        "tuple buffer selects within one array. The median of a bucket is found when it is asked for.",
    ),
    "12a": Verdict(
        "slicing and buckets take rows out of order as fast as others; the tuple buffer and the tree do not.",
        shares,
        "In order, neighbours are of one slice, and are folded together by vector instructions; a row out of "
        "order is looked up, and folded with the few of its slice and batch. That a row costs half a "
        "microsecond in the paper hides both. Buckets fold row by row here, too, and hardly change.",
    ),
    "12b": Verdict(
        "all but the tuple buffer are robust against longer delays.",
        lambda c: (
            ", ".join(f"{side} {c.ratio(side, 8, 0.5):.0%}" for side in (LAZY, EAGER, BUCKETS, BUFFER, TREE))
            + " of the rate with delays of half a second is left with those of eight."
        ),
        "Slicing and buckets as in the paper. The tree is built anew from where a batch's earliest row "
        "belongs, which is further back the longer rows are delayed.",
    ),
    "13a": Verdict(
        "algebraic and distributive functions are about alike, holistic ones much slower.",
        functions,
        "The same. Lazy slicing merges the sorted runs of a window's slices for each window anew; eager "
        "slicing keeps merged runs, and is ahead of all others for medians, too.",
    ),
    "13b": Verdict(
        "slower than over time: a row out of order moves others from slice to slice. Functions with an "
        "inverse lose least, maxima little, a sum without an inverse much.",
        functions_by_rows,
        "A slice that lost and got rows is mended once a batch, and not once a row, so that a function "
        "without an inverse hardly loses more. For medians a slice's runs are made anew and merged for each "
        "window, where a tuple buffer selects within one array of numbers; merged runs above slices, as over "
        "time, would be made anew from the earliest row on.",
    ),
    "14": Verdict(
        "slicing is ahead of all others; few distinct values make it faster.",
        medians,
        "Eager slicing as in the paper. Lazy slicing merges runs for each window, where selection within an "
        "array is faster as soon as windows are many and values distinct.",
    ),
    "15": Verdict(
        "linear in the rows.",
        anew,
        "The same; a median takes more than linear time once its values outgrow the caches.",
    ),
    "16a": Verdict(
        "independent of the number of windows.",
        lambda c: (
            f"lazy slicing has {c.ratio(LAZY, 1000, 1):.0%} of its rate with one window left with 1,000."
        ),
        ENDS,
    ),
    "16b": Verdict(
        "almost constant up to 40 windows, then less with each; an order of magnitude ahead of the tuple "
        "buffer, the best other side, with 1,000.",
        by_rows,
        "As in the paper but for the tree, which takes in the rows of a batch together here: it mends each "
        "of its nodes once, and answers in logarithmic time. Slicing moves rows across as many slices as lie "
        "behind the earliest of the batch, and with many windows slices have few rows each.",
    ),
    "17": Verdict(
        "linear up to four instances on eight cores; an order of magnitude ahead of buckets.",
        in_parallel,
        "Linear as far as there are cores.",
    ),
}
"""Traub et al., EDBT 2019."""


def maxima(c: Cells) -> str:
    """Fig. 6-10."""
    wid, slices = (
        [c.ahead(x, side, "rows kept", "ns a row") for x in (4000, 1)] for side in ("wid", "slices")
    )
    return (
        f"window ids take {wid[0]:.1f} times as long as keeping rows where windows do not overlap, and "
        f"{wid[1]:.0f} times with a slide of one row; slices {slices[0]:.2f} and {slices[1]:.3f} times."
    )


def adapted(c: Cells) -> str:
    """Figs. 6-19."""
    sides = ("wid", "rows, by group", "wid or buffered rows, per group", "slices")
    each = (f"{side} {c.of('DS5, sum', side, 'bytes a row'):.1f}" for side in sides)
    return f"with most groups sparse (DS5), sums take these bytes a row: {', '.join(each)}."


def smoothing(c: Cells) -> str:
    """Fig. 8-7."""
    few, many = "66000", "520000"
    rates = (f"{c.ahead(x, 'slices', 'buffering'):.1f}" for x in (few, many))
    ids = (f"{c.ahead(x, 'slices', 'wid'):.2f}" for x in (few, many))
    call = "ms, longest call"
    longest = (f"{side} {c.of(many, side, call):.0f} ms" for side in ("slices", "slices, slow flush", "wid"))
    return (
        f"slices are {' and '.join(rates)} times as fast as buffering with {int(few):,} and {int(many):,} "
        f"groups, and {' and '.join(ids)} times as fast as window ids. The longest call with {int(many):,}: "
        f"{', '.join(longest)}, buffering {c.of(many, 'buffering', call):.0f} ms."
    )


def behind(c: Cells, most: int) -> str:
    """Figs. 8-8 and 8-11."""
    each = (f"{side} {c.ratio(side, most, 0, 'MB'):.1f} times" for side in ("slices", "wid", "buffering"))
    return f"with a link {most} seconds behind, in times of what none behind takes: {', '.join(each)}."


DISORDER = {
    "6-10": Verdict(
        "window ids take less time than keeping rows, the more so the more windows overlap.",
        maxima,
        "The reverse for window ids, and for slices as the paper has it. Both do one step for each window of "
        "a row, which is what slices avoid: a comparison within an array of kept rows takes a nanosecond or "
        "two, an update of a hash table some thirty. The paper's system hands on each row as a tuple of its "
        "own, beside which the two may well cost the same.",
    ),
    "6-15": Verdict(
        "about 0.3 of the time at 20 rows a pane and 5 panes a window; panes pay in most cases.",
        lambda c: f"{c.of(20, 'paned, 5 panes a window', OF_WID):.2f} there.",
        "The same.",
    ),
    "6-19a": Verdict(
        "AdaptWID takes less memory than window ids, the more so the more groups are small.",
        adapted,
        "The same for a choice by group that knows how dense each will be. Slices have a timeline for each "
        "key, which is most of what a group with few rows takes; where most are sparse, their rows wait in "
        "one buffer instead (`benchmarks/keys.py` measures that).",
    ),
    "6-19b": Verdict(
        "AdaptWID takes less memory than either, the more so the more groups are small.",
        adapted,
        "The same; slices have one partial of a row instead of ten.",
    ),
    "8-7": Verdict(
        "with few groups both are alike; with 260,000 and more, aggregating rows as they come supports up to "
        "twice the rate of in-order processing, whose flush at the end of a window is a surge of work.",
        smoothing,
        "As in the paper against buffering. In-order processing is without a flush of this kind here: its "
        "cost is the sorting. A window id is one look-up and one addition, and such groups have four to "
        "thirty rows a window: too few for a slice to pay for itself, and too many to wait as rows.",
    ),
    "8-8": Verdict(
        "aggregating rows as they come stays flat, in-order processing grows with the distance.",
        lambda c: behind(c, 40),
        "The same. Slices are the larger part with none behind: a key takes more than an entry of a hash "
        "table.",
    ),
    "8-11": Verdict(
        "aggregating rows as they come is stable, in-order processing grows.",
        lambda c: behind(c, 10),
        "The same.",
    ),
}
"""Li, 2008, chapters 6 and 8."""
