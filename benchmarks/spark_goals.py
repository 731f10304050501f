"""The goals of the benchmark grid of Spark."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from functools import partial

from goals import Cells, Goal
from pages import Record

__all__ = ["GOALS", "ROUTES", "behind", "stage_2"]

Typical = Callable[[list[float]], float]
"""What is taken of several runs."""
ROUTES = ("catalyst", "catalyst-panes", "packed", "rows")
MANY = "1000000 keys"
GRID = ("16 keys", "1024 keys", MANY)
BY_MINUTE, BY_TEN, BY_SECOND = "10 min by 1 min", "10 min by 10 s", "10 min by 1 s"
TUMBLING, SESSION = "tumbling 10 min", "session 30 s"


def middle(record: Record, side: str) -> float | None:
    """Return the median of a side's seconds."""
    runs = record["seconds"].get(side)
    return statistics.median(runs) if runs else None


def faster(record: Record, source: str = "") -> float | None:
    """Return Spark's time as a multiple of windowkit's, both over cached rows, or over another source."""
    theirs, ours = middle(record, "spark" + source), middle(record, "windowkit" + source)
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


def each(
    measure: Callable[[Record], float | None], cells: tuple[str, ...] = ()
) -> Callable[[list[Record]], Cells]:
    """Return a measure of cells of these names, of all there are if none is named."""
    return lambda records: [
        (record["cell"], measure(record)) for record in records if not cells or record["cell"] in cells
    ]


def both_ways(what: str, measure: Callable[[Record, Typical], float | None]) -> list[Goal]:
    """Return a goal of at most 1.15 by the quickest runs, and the same by medians."""
    ways: dict[str, Typical] = {"quickest runs": min, "medians": statistics.median}
    return [
        Goal(f"{what}; by {way}", "≤", 1.15, each(partial(measure, of=typical)))
        for way, typical in ways.items()
    ]


def named(keys: Iterable[str], *windows: str, answers: str = "") -> tuple[str, ...]:
    """Return names of cells."""
    return tuple(f"{key}, {window}{answers}" for key in keys for window in windows)


def twice(what: str, asked: float, from_files: float, cells: tuple[str, ...]) -> list[Goal]:
    """Return goals over cached rows, and over a file."""
    return [
        Goal(f"{what}, times as fast as Spark's own", "≥", asked, each(faster, cells)),
        Goal(f"{what}, from Parquet", "≥", from_files, each(partial(faster, source=" parquet"), cells)),
    ]


def of_answers(what: str, asked: float, *windows: str) -> Goal:
    """Return the goal of one function at 16 keys."""
    cells = named(GRID[:1], *windows, answers=f", {what}")
    return Goal(f"{what}, {' and '.join(windows)}, times as fast", "≥", asked, each(faster, cells))


GOALS = (
    Goal(
        "600 windows per row, times as fast as Spark's own",
        "≥",
        400,
        each(faster, named(GRID[:1], BY_SECOND)),
    ),
    *twice("60 windows per row, 16 keys", 8, 12, named(GRID[:1], BY_TEN)),
    *twice("60 windows per row, 1,024 keys", 10, 33, named(GRID[1:2], BY_TEN)),
    *twice("60 windows per row, 1,000,000 keys", 10, 12, named(GRID[2:], BY_TEN)),
    of_answers("median", 20, BY_MINUTE),
    *twice(f"median, {BY_TEN}", 60, 220, named(GRID[:1], BY_TEN, answers=", median")),
    of_answers("M4", 10, BY_MINUTE, BY_TEN),
    of_answers("HyperLogLog", 10, BY_MINUTE, BY_TEN),
    *twice("sessions, 16 keys", 4, 5, named(GRID[:1], SESSION)),
    *twice("sessions, 1,024 keys", 1.3, 7, named(GRID[1:2], SESSION)),
    *twice("tumbling", 1, 1.2, named(GRID, TUMBLING)),
    *both_ways("stage 2, Catalyst's panes forced, as a multiple of the job with premade windows", stage_2),
    *both_ways(
        "the route chosen without a hint, forced, as a multiple of the best",
        lambda record, of: behind(record, record["route"], of),
    ),
    *both_ways(
        "the same not forced, but with the sample of rows that it takes",
        lambda record, of: behind(record, "windowkit", of),
    ),
    *both_ways(
        "the route chosen with a hint, forced, as a multiple of the best",
        lambda record, of: behind(record, record.get("hinted", ""), of),
    ),
)
