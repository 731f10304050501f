"""The goals of the sliding kernels, and what records say of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from goals import Cells, Goal
from kernels_records import Records, auto_cells, cells_of


def cells_at_slide_1(dtype: str, *functions: str) -> Callable[[Records], Iterable[dict[str, Any]]]:
    def cells(records: Records) -> Iterable[dict[str, Any]]:
        for function in functions:
            for size in records.values("windows", "size", function=function, dtype=dtype):
                yield {"function": function, "dtype": dtype, "size": size}

    return cells


def over(
    cells: Callable[[Records], Iterable[dict[str, Any]]],
    figure: Callable[[Records, dict[str, Any]], float | None],
) -> Callable[[Records], Cells]:
    def measured(records: Records) -> Cells:
        for cell in cells(records):
            yield f"{cell['function']}, window {cell['size']:,}", figure(records, cell)

    return measured


def against(peer: str) -> Callable[[Records, dict[str, Any]], float | None]:
    return lambda records, cell: records.ratio("windows", peer, **cell)


def share_of(copy: str) -> Callable[[Records, dict[str, Any]], float | None]:
    return lambda records, cell: records.of_memcpy("windows", copy, **cell)


def null_speed(records: Records) -> Cells:
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


def against_reduction(records: Records) -> Cells:
    for function, dtype, size in cells_of(records, "tumbling"):
        if size < 1024:
            # Windows of a few rows write as much as they read, which a reduction does not.
            continue
        cell = {"function": function, "dtype": dtype, "size": size}
        ratio = records.ratio("tumbling", "reduction", **cell)
        yield f"{function} {dtype}, window {size:,}", 1 / ratio if ratio else None


def error_over_kahan(records: Records) -> Cells:
    for function in records.values("errors", "function"):
        for column in records.values("errors", "column"):
            cell = {"function": function, "column": column}
            ours = records.one("errors", side="windowkit", **cell)
            kahans = records.one("errors", side="Kahan, each window", **cell)
            if ours and kahans:
                # No error at all is no more than any.
                ratio = ours["error"] / (kahans["error"] or 1e-9) if ours["error"] else 0.0
                yield f"{function}, {column}", ratio


def worst_over_median(records: Records) -> Cells:
    for record in records.of("latency"):
        if record["side"].startswith("daba"):
            yield f"{record['side']}, window {record['size']:,}", record["p99.99"] / max(1, record["p50"])


def behind_best(records: Records) -> Cells:
    for cell, behind, _ in auto_cells(records):
        yield cell, behind


MIN_MAX = cells_at_slide_1("int32", "min", "max")
SUM_MEAN = cells_at_slide_1("float64", "sum", "mean")
STD = cells_at_slide_1("float64", "std")
NEW, USED = "memcpy, new memory", "memcpy"
GOALS = (
    Goal(
        "slide-1 min/max of int32, share of copying to new memory", "≥", 0.4, over(MIN_MAX, share_of(NEW)), ""
    ),
    Goal("the same, of copying to memory in use", "≥", 0.4, over(MIN_MAX, share_of(USED)), ""),
    Goal("slide-1 min/max of int32, times as fast as Polars", "≥", 20, over(MIN_MAX, against("Polars"))),
    Goal(
        "slide-1 sum/mean of float64, share of copying to new memory",
        "≥",
        0.35,
        over(SUM_MEAN, share_of(NEW)),
        "",
    ),
    Goal("the same, of copying to memory in use", "≥", 0.35, over(SUM_MEAN, share_of(USED)), ""),
    Goal("slide-1 sum/mean of float64, times as fast as Polars", "≥", 3, over(SUM_MEAN, against("Polars"))),
    Goal("sum and mean of float64, error as a multiple of Kahan's", "≤", 1, error_over_kahan, ""),
    Goal("slide-1 std of float64, times as fast as Polars", "≥", 5, over(STD, against("Polars"))),
    Goal("10 % nulls, share of the speed without", "≥", 0.5, null_speed, ""),
    Goal("tumbling sum/min, time as a multiple of one reduction", "≤", 1.15, against_reduction),
    Goal("DABA, 99.99th percentile of a row's time over its median", "≤", 5, worst_over_median),
    Goal("`auto`, time as a multiple of the best algorithm's", "≤", 1.1, behind_best),
)
