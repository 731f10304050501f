"""The goals of the benchmark grid of Spark, and whether they are met: a table made of its records."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["ROUTES", "behind", "stage_2", "table"]

Record = dict[str, Any]
Typical = Callable[[list[float]], float]
"""What is taken of several runs."""
ROUTES = ("catalyst", "catalyst-panes", "packed", "rows")
MANY = "1000000 keys"
GRID = ("16 keys", "1024 keys", MANY)
BY_MINUTE, BY_TEN, BY_SECOND = "10 min by 1 min", "10 min by 10 s", "10 min by 1 s"
TUMBLING, SESSION = "tumbling 10 min", "session 30 s"


@dataclass(frozen=True)
class Goal:
    """What is asked of the worst of some cells: at least so much, or at most."""

    what: str
    least: float | None
    most: float | None
    cells: tuple[str, ...]
    """Names of cells; all there are if none is named."""
    measure: Callable[[Record], float | None]


def middle(record: Record, side: str) -> float | None:
    """Return the median of a side's seconds."""
    runs = record["seconds"].get(side)
    return statistics.median(runs) if runs else None


def faster(record: Record) -> float | None:
    """Return Spark's time as a multiple of windowkit's, over a DataFrame."""
    theirs, ours = middle(record, "spark"), middle(record, "windowkit")
    return None if theirs is None or ours is None else theirs / ours


def faster_from_files(record: Record) -> float | None:
    """Return Spark's time as a multiple of the scan's; that over cached rows where there is no other."""
    theirs, ours = middle(record, "spark parquet") or middle(record, "spark"), middle(record, "scan")
    return None if theirs is None or ours is None else theirs / ours


def stage_2(record: Record, of: Typical = min) -> float | None:
    """Return the time of Catalyst's panes, forced, as a multiple of that with windows made before."""
    runs = record["seconds"]
    # Only where the planner takes this route: elsewhere another is faster.
    if record["route"] != "catalyst-panes" or "premade" not in runs or "catalyst-panes" not in runs:
        return None
    return of(runs["catalyst-panes"]) / of(runs["premade"])


def behind(record: Record, side: str, of: Typical = min) -> float | None:
    """Return how a side compares with the fastest of the routes, as a multiple.

    By the quickest run of each, unless asked otherwise: what disturbs a run, as collecting the heap does,
    mostly adds to it, and routes are often nearer to each other than runs are.
    """
    runs = record["seconds"]
    routes = [of(runs[route]) for route in ROUTES if route in runs]
    return of(runs[side]) / min(routes) if routes and side in runs else None


def both_ways(what: str, measure: Callable[[Record, Typical], float | None]) -> list[Goal]:
    """Return a goal of at most 1.15 by the quickest runs, and the same by medians."""
    ways: dict[str, Typical] = {"quickest runs": min, "medians": statistics.median}
    return [Goal(f"{what}; by {way}", None, 1.15, (), partial(measure, of=of)) for way, of in ways.items()]


def named(keys: Iterable[str], *windows: str, answers: str = "") -> tuple[str, ...]:
    """Return names of cells."""
    return tuple(f"{key}, {window}{answers}" for key in keys for window in windows)


def twice(what: str, asked: float, from_files: float, cells: tuple[str, ...]) -> list[Goal]:
    """Return goals of a DataFrame and of files."""
    return [
        Goal(f"{what}, times as fast as Spark's own", asked, None, cells, faster),
        Goal(f"{what}, from Parquet", from_files, None, cells, faster_from_files),
    ]


def of_answers(what: str, asked: float, *windows: str) -> Goal:
    """Return the goal of one function at 16 keys."""
    cells = named(GRID[:1], *windows, answers=f", {what}")
    return Goal(f"{what}, {' and '.join(windows)}, times as fast", asked, None, cells, faster)


GOALS = (
    Goal("600 windows per row, times as fast as Spark's own", 400, None, named(GRID[:1], BY_SECOND), faster),
    *twice("60 windows per row, 16 keys", 8, 12, named(GRID[:1], BY_TEN)),
    *twice("60 windows per row, 1,024 keys", 10, 25, named(GRID[1:2], BY_TEN)),
    *twice("60 windows per row, 1,000,000 keys", 10, 12, named(GRID[2:], BY_TEN)),
    of_answers("median", 20, BY_MINUTE),
    of_answers("median", 60, BY_TEN),
    of_answers("M4", 10, BY_MINUTE, BY_TEN),
    of_answers("HyperLogLog", 10, BY_MINUTE, BY_TEN),
    *twice("sessions, 16 keys", 4, 5, named(GRID[:1], SESSION)),
    *twice("sessions, 1,024 keys", 1.3, 3, named(GRID[1:2], SESSION)),
    *twice("tumbling", 1, 1, named(GRID, TUMBLING)),
    *both_ways("stage 2, Catalyst's panes forced, as a multiple of the job with premade windows", stage_2),
    *both_ways(
        "the route chosen without a hint, forced, as a multiple of the best",
        lambda record, of: behind(record, record["route"], of),
    ),
    *both_ways(
        "the same not forced, but with the look at rows that it takes",
        lambda record, of: behind(record, "windowkit", of),
    ),
    *both_ways(
        "the route chosen with a hint, forced, as a multiple of the best",
        lambda record, of: behind(record, record.get("hinted", ""), of),
    ),
)


def table(records: list[Record]) -> list[str]:
    """Return the lines of a table; cells that were not run are not there.

    A goal is met if its worst cell meets it.
    """
    lines = ["| goal | asked | worst | where | |", "|---|--:|--:|---|---|"]
    for goal in GOALS:
        measured = {
            record["cell"]: value
            for record in records
            if (not goal.cells or record["cell"] in goal.cells)
            and (value := goal.measure(record)) is not None
        }
        asked = f"≥ {goal.least:g}×" if goal.least is not None else f"≤ {goal.most:g}×"
        if not measured:
            lines.append(f"| {goal.what} | {asked} | | | not measured |")
            continue
        missed = [cell for cell, value in measured.items() if not meets(goal, value)]
        worst = (min if goal.least is not None else max)(measured, key=measured.__getitem__)
        verdict = f"missed in {len(missed)} of {len(measured)}" if missed else "met"
        lines.append(f"| {goal.what} | {asked} | {measured[worst]:.2f}× | {worst} | {verdict} |")
    return lines


def meets(goal: Goal, value: float) -> bool:
    """Whether a value is as good as asked."""
    if goal.least is not None:
        return value >= goal.least
    return goal.most is not None and value <= goal.most
