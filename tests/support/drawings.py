"""The drawings of windows in the docs: `python -m support.drawings`, run in `tests`, writes them again.

Which windows are drawn where is what windowkit answers for the rows in the picture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import pyarrow as pa

import windowkit as wk
from support.documents import ROOT

FOLDER = ROOT / "docs" / "pictures" / "windows"

TIMES = [1, 3, 4, 9, 10, 11, 17, 19, 20, 27]
MARKS: Mapping[str, list[str]] = {
    "done": ["", "", "done", "", "", "done", "", "", "", ""],
    "hot": ["", "hot", "", "", "cold", "", "hot", "", "cold", ""],
    "gap": ["2", "5", "9", "2", "2", "2", "2", "2", "2", "2"],
}
WINDOWS: Mapping[str, tuple[wk.Window, str | None]] = {
    "tumbling": (wk.tumbling(10), None),
    "sliding": (wk.sliding(10, 5), None),
    "session": (wk.session(4), None),
    "band": (wk.band(5, 15), None),
    "landmark": (wk.landmark(5, period=15), None),
    "global": (wk.global_window(), None),
    "tumbling-rows": (wk.tumbling(rows=3), None),
    "sliding-rows": (wk.sliding("4 rows", "2 rows"), None),
    "rows-by-time": (wk.sliding("4 rows", 10), None),
    "time-by-rows": (wk.sliding(10, "3 rows"), None),
    "punctuation": (wk.punctuation("done"), "done"),
    "between": (wk.between("hot", "cold"), "hot"),
    "session-at-most": (wk.session(6, at_most=8), None),
    "session-patience": (wk.session("gap"), "gap"),
}
"""By name of the file: the windows, and what is written above the rows."""
SHARED = wk.sliding(10, 5)
"""The windows whose slices are drawn, too, in ``slices.svg``."""

LEFT, STEP, LANE, TOP = 24, 17, 26, 58
FIRST, LAST = -6, 36
"""The times at which the picture begins and ends."""
# Legible on white and on black, since a picture does not know what it lies on.
INK, BLUE, AMBER = "#808080", "#4a8fd9", "#d08a1d"


def rows() -> pa.Table:
    """Return the rows that are drawn, all of one key."""
    return pa.table(
        {
            "t": TIMES,
            "done": [mark == "done" for mark in MARKS["done"]],
            "hot": [mark == "hot" for mark in MARKS["hot"]],
            "cold": [mark == "cold" for mark in MARKS["hot"]],
            "gap": [int(gap) for gap in MARKS["gap"]],
        }
    )


def bars(window: wk.Window) -> list[tuple[int, int, list[int]]]:
    """Return where each window starts and ends, and the times of its rows."""
    query = wk.query(by=[], time="t", windows=window, aggs=wk.collect_list("t").alias("times"))
    found = [(row["window_start"], row["window_end"], row["times"]) for row in query.run(rows()).to_pylist()]
    return sorted(found)


def slices(window: wk.Window) -> list[tuple[int, int]]:
    """Return where each slice starts and ends that a stream of the rows has."""
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    with query.operator(order="out-of-order") as op:
        op.push(rows())
        return [(row["t_start"], row["t_end"]) for row in op.slices().to_pylist()]


def lanes(found: list[tuple[int, int, list[int]]]) -> list[list[tuple[int, int, list[int]]]]:
    """Return the windows in rows of the picture, in each of which none overlap."""
    drawn: list[list[tuple[int, int, list[int]]]] = []
    for bar in found:
        lane = next((lane for lane in drawn if lane[-1][1] <= bar[0] and lane[-1] != bar), None)
        if lane is None:
            lane = []
            drawn.append(lane)
        lane.append(bar)
    return drawn


def across(time: float) -> float:
    """Return the horizontal place of a time."""
    return LEFT + (time - FIRST) * STEP


def picture(window: wk.Window, marks: str | None, cut: Sequence[tuple[int, int]] = ()) -> str:
    """Return the time line as SVG: the rows above, each window a bar below with the number of its rows.

    Slices, if they are to be drawn, stand in between.
    """
    below = lanes(bars(window))
    under = TOP + (LANE + 10) * bool(cut)
    width, height = across(LAST) + LEFT, under + LANE * len(below) + 6
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="sans-serif" font-size="12" text-anchor="middle">',
        f"<title>{escape(str(window))}: rows on a line of time, and its windows</title>",
        f'<path d="M{LEFT} 38H{width - LEFT:g}" stroke="{INK}"/>',
        f'<text x="{LEFT}" y="14" fill="{INK}" text-anchor="start">{escape(str(window))}</text>',
    ]
    for time in range(-5, LAST + 1, 5):
        parts.append(f'<path d="M{across(time):g} 34V42" stroke="{INK}"/>')
        parts.append(f'<text x="{across(time):g}" y="54" fill="{INK}">{time}</text>')
    for time, mark in zip(TIMES, MARKS[marks] if marks else [""] * len(TIMES), strict=True):
        colour = AMBER if mark and marks != "gap" else BLUE
        parts.append(f'<circle cx="{across(time):g}" cy="38" r="5" fill="{colour}"/>')
        if mark:
            parts.append(f'<text x="{across(time):g}" y="24" fill="{AMBER}">{mark}</text>')
    for start, end in cut:
        held = sum(start <= time < end for time in TIMES)
        parts += bar(start, end, TOP, AMBER, f"slice: {held}")
    for level, lane in enumerate(below):
        for start, end, times in lane:
            # Windows that rows determine may begin and end with one row: they get the room of a dot.
            room = 0.0 if end not in times else 0.3
            text = f"{len(times)} row{'s' * (len(times) > 1)}" if end - start > 2 else str(len(times))
            parts += bar(start - room, end + room, under + LANE * level, BLUE, text)
    return "\n".join([*parts, "</svg>", ""])


def bar(start: float, end: float, top: int, colour: str, text: str) -> list[str]:
    """Return a window or a slice from `start` to `end`."""
    x, wide = across(start), (end - start) * STEP
    return [
        f'<rect x="{x + 1:g}" y="{top + 4}" width="{wide - 2:g}" height="{LANE - 6}" rx="4" '
        f'fill="{colour}" fill-opacity="0.2" stroke="{colour}"/>',
        f'<text x="{x + wide / 2:g}" y="{top + 18}" fill="{INK}">{text}</text>',
    ]


def pictures() -> dict[str, str]:
    """Return all pictures, by name of the file."""
    drawn = {name: picture(window, marks) for name, (window, marks) in WINDOWS.items()}
    return {**drawn, "slices": picture(SHARED, None, slices(SHARED))}


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, drawn in pictures().items():
        (FOLDER / f"{name}.svg").write_text(drawn)


if __name__ == "__main__":
    main()
