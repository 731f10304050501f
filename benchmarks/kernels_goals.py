"""The goals of the sliding kernels, and what records say of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

from kernels_records import Records, auto_cells, cells_of


@dataclass(frozen=True)
class Goal:
    """Something to reach in all of some cells."""

    text: str
    unit: str
    least: bool
    bound: float
    measured: Callable[[Records], Iterable[tuple[str, float | None]]]


def cells_at_slide_1(dtype: str, *functions: str) -> Callable[[Records], Iterable[dict[str, Any]]]:
    def cells(records: Records) -> Iterable[dict[str, Any]]:
        for function in functions:
            for size in records.values("windows", "size", function=function, dtype=dtype):
                yield {"function": function, "dtype": dtype, "size": size}

    return cells


def over(
    cells: Callable[[Records], Iterable[dict[str, Any]]],
    figure: Callable[[Records, dict[str, Any]], float | None],
) -> Callable[[Records], Iterable[tuple[str, float | None]]]:
    def measured(records: Records) -> Iterable[tuple[str, float | None]]:
        for cell in cells(records):
            yield f"{cell['function']}, window {cell['size']:,}", figure(records, cell)

    return measured


def against(peer: str) -> Callable[[Records, dict[str, Any]], float | None]:
    return lambda records, cell: records.ratio("windows", peer, **cell)


def share_of(copy: str) -> Callable[[Records, dict[str, Any]], float | None]:
    return lambda records, cell: records.of_memcpy("windows", copy, **cell)


def null_speed(records: Records) -> Iterable[tuple[str, float | None]]:
    for function, dtype, size in cells_of(records, "nulls"):
        for partial in ("none", "start"):
            cell = {"function": function, "dtype": dtype, "size": size, "partial": partial}
            none = records.one("nulls", side="windowkit", column="no nulls", **cell)
            some = records.one("nulls", side="windowkit", column="10 % nulls", **cell)
            if none and some:
                yield (
                    f"{function} {dtype}, window {size:,}, partial={partial!r}",
                    none["median"] / some["median"],
                )


def against_reduction(records: Records) -> Iterable[tuple[str, float | None]]:
    for function, dtype, size in cells_of(records, "tumbling"):
        if size < 1024:
            # Windows of a few rows write as much as they read, which a reduction does not.
            continue
        cell = {"function": function, "dtype": dtype, "size": size}
        ratio = records.ratio("tumbling", "reduction", **cell)
        yield f"{function} {dtype}, window {size:,}", 1 / ratio if ratio else None


def error_over_kahan(records: Records) -> Iterable[tuple[str, float | None]]:
    for function in records.values("errors", "function"):
        for column in records.values("errors", "column"):
            cell = {"function": function, "column": column}
            ours = records.one("errors", side="windowkit", **cell)
            kahans = records.one("errors", side="Kahan, each window", **cell)
            if ours and kahans:
                # No error at all is no more than any.
                ratio = ours["error"] / (kahans["error"] or 1e-9) if ours["error"] else 0.0
                yield f"{function}, {column}", ratio


def worst_over_median(records: Records) -> Iterable[tuple[str, float | None]]:
    for record in records.of("latency"):
        if record["side"].startswith("daba"):
            yield f"{record['side']}, window {record['size']:,}", record["p99.99"] / max(1, record["p50"])


def behind_best(records: Records) -> Iterable[tuple[str, float | None]]:
    for cell, behind, _ in auto_cells(records):
        yield cell, behind


GOALS = [
    Goal(
        "slide-1 min/max of int32, share of copying to new memory",
        "",
        True,
        0.4,
        over(cells_at_slide_1("int32", "min", "max"), share_of("memcpy, new memory")),
    ),
    Goal(
        "the same, of copying to memory in use",
        "",
        True,
        0.4,
        over(cells_at_slide_1("int32", "min", "max"), share_of("memcpy")),
    ),
    Goal(
        "slide-1 min/max of int32, times as fast as Polars",
        "×",
        True,
        20,
        over(cells_at_slide_1("int32", "min", "max"), against("Polars")),
    ),
    Goal(
        "slide-1 sum/mean of float64, share of copying to new memory",
        "",
        True,
        0.35,
        over(cells_at_slide_1("float64", "sum", "mean"), share_of("memcpy, new memory")),
    ),
    Goal(
        "the same, of copying to memory in use",
        "",
        True,
        0.35,
        over(cells_at_slide_1("float64", "sum", "mean"), share_of("memcpy")),
    ),
    Goal(
        "slide-1 sum/mean of float64, times as fast as Polars",
        "×",
        True,
        3,
        over(cells_at_slide_1("float64", "sum", "mean"), against("Polars")),
    ),
    Goal("sum and mean of float64, error as a multiple of Kahan's", "", False, 1.0, error_over_kahan),
    Goal(
        "slide-1 std of float64, times as fast as Polars",
        "×",
        True,
        5,
        over(cells_at_slide_1("float64", "std"), against("Polars")),
    ),
    Goal("10 % nulls, share of the speed without", "", True, 0.5, null_speed),
    Goal("tumbling sum/min, time as a multiple of one reduction", "×", False, 1.15, against_reduction),
    Goal("DABA, 99.99th percentile of a row's time over its median", "×", False, 5, worst_over_median),
    Goal("`auto`, time as a multiple of the best algorithm's", "×", False, 1.1, behind_best),
]


def goals(records: Records) -> str:
    lines = [
        "## Goals",
        "",
        "The worst cell counts; the median of all cells stands beside it.",
        "",
        "| goal | asked | worst | where | median | |",
        "|---|---:|---:|---|---:|---|",
    ]
    for goal in GOALS:
        found = [(value, cell) for cell, value in goal.measured(records) if value is not None]
        if not found:
            continue
        worst, cell = min(found) if goal.least else max(found)
        met = worst >= goal.bound if goal.least else worst <= goal.bound
        failed = sum((value < goal.bound) if goal.least else (value > goal.bound) for value, _ in found)
        verdict = "met" if met else f"missed in {failed} of {len(found)}"
        asked = ("≥ " if goal.least else "≤ ") + f"{goal.bound:g}{goal.unit}"
        middle = f"{median(value for value, _ in found):.2f}{goal.unit}"
        lines.append(f"| {goal.text} | {asked} | {worst:.2f}{goal.unit} | {cell} | {middle} | {verdict} |")
    return "\n".join(lines) if len(lines) > 6 else ""
