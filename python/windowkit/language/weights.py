"""Which queries can take rows back: those of weight -1, which retract others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from windowkit.errors import InvalidValue
from windowkit.language.aggregation import Aggregate
from windowkit.language.windows import Window

__all__ = ["check_weights"]

INVERTIBLE: Final = frozenset(
    {
        "count_all",
        "count",
        "sum",
        "mean",
        "geometric_mean",
        "var_samp",
        "var_pop",
        "stddev_samp",
        "stddev_pop",
        "median",
        "quantile",
        "quantile_disc",
        "mode",
        "top_k",
        "frequent",
        "count_distinct",
        "collect_set",
    }
)
"""What the core calls the functions from whose partial aggregates those of some rows can be subtracted."""


def check_weights(
    weight: str, by_and_time: Iterable[str], windows: Iterable[Window], aggs: Iterable[Aggregate]
) -> None:
    """Refuse windows and functions that cannot do without a row again.

    Raises
    ------
    InvalidValue
        Rows determine where a window is, or what is left of a function's values without some is not known; or
        weights are keys or times, by which a row and the one that retracts it would differ.
    """
    if weight in by_and_time:
        raise InvalidValue(
            f"weight: {weight!r} is a key or the time, which a row and the one that retracts it share, "
            "so allowed are other columns"
        )
    for window in windows:
        if not window.is_fixed:
            raise InvalidValue(
                f"windows: a row of weight -1 would change where {window} begins or ends; with "
                f"weight={weight!r}, allowed are tumbling and sliding windows by time, bands, landmark "
                "windows, the global window, and those of a windowkit.ContextFree"
            )
    for agg in aggs:
        if not is_invertible(agg):
            raise InvalidValue(
                f"aggs: {agg.name} does not support rows of weight -1, which retract others; with "
                f"weight={weight!r}, allowed are count, sum, mean, geometric_mean, variances, standard "
                "deviations, median, quantile, mode, top_k, frequent, count_distinct, collect_set, and "
                "windowkit.aggregate(..., invert=..., commutative=True) of one column"
            )


def is_invertible(agg: Aggregate) -> bool:
    """Whether rows can be subtracted from it."""
    if agg.user is None:
        return agg.function in INVERTIBLE
    # An inverse takes a value off the beginning, unless the order of values makes no difference.
    return agg.user.invert is not None and agg.user.commutative and len(agg.columns) == 1
