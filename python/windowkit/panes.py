"""What panes cost, and windows without them: the formulas of Li 2008, Eq. 6.1-6.4."""

from __future__ import annotations

import sys
from decimal import Decimal
from fractions import Fraction
from math import gcd
from typing import Any, Final, NamedTuple

from windowkit.language.checks import boolean, integer, number, whole

__all__ = ["PaneCosts", "pane_costs"]

MOST: Final = sys.float_info.max


class PaneCosts(NamedTuple):
    """What `pane_costs` returns."""

    pane: int
    """Length of a pane, in the unit of `size`."""
    per_window: int
    """Panes in a window: P."""
    per_slide: int
    """Panes from one window's start to the next."""
    paned: Fraction
    """Cost of a window by panes: Eq. 6.1 or 6.2."""
    direct: Fraction
    """Cost of a window without them: Eq. 6.3 or 6.4."""


def pane_costs(
    size: int,
    slide: int,
    rows: float | Fraction = 0,
    groups: float | Fraction = 1,
    *,
    differential: bool = False,
    read: float | Fraction = 1,
    emit: float | Fraction = 1,
    merge: float | Fraction = 1,
    insert: float | Fraction = 1,
) -> PaneCosts:
    """Return what a sliding window costs with panes and without.

    Panes are as long as the greatest common divisor of `size` and `slide`; each row is aggregated into its
    pane, and panes into windows. Without them, each row is aggregated into all windows that it is in or, with
    a `differential` function, added to a window and removed again.

    Parameters
    ----------
    size, slide : int
        RANGE and SLIDE, in one unit, with 0 < `slide` <= `size`.
    rows : float or Fraction, default 0
        T, rows in a window, of all groups.
    groups : float or Fraction, default 1
        G, groups in a pane.
    differential : bool, default False
        Whether rows can be removed from an aggregate, as from a count, but not from a maximum.
    read, emit, merge, insert : float or Fraction, default 1
        a, b, c and a': to aggregate a row into a pane, to output a group of a pane, to add it to a window or
        remove it, and to add a row to a window or remove it.

    Returns
    -------
    PaneCosts
        The panes, and the costs of a window, in the unit of the costs given (Li 2008, §6.2.3). O(log size).

    Raises
    ------
    InvalidType, InvalidValue
        Not 0 < `slide` <= `size`, or another argument is not a number of at least 0.

    Notes
    -----
    Eq. 6.1 and 6.2 count the rows and outputs of one pane per window, as they are where `slide` divides
    `size`; else there are `per_slide` times as many.

    Examples
    --------
    The maximum of 5 panes of 20 rows each, for which Li measured about 30 % of the time (Fig. 6-15):

    >>> costs = pane_costs(5, 1, rows=100)
    >>> costs.per_window, costs.paned, costs.direct
    (5, Fraction(26, 1), Fraction(100, 1))
    """
    size = integer("size", size, "a size is an int of at least 1", 1)
    slide = integer("slide", slide, "a slide is an int of at least 1 and at most size", 1, size)
    a, b = exact("read", read), exact("emit", emit)
    c, a_direct = exact("merge", merge), exact("insert", insert)
    in_window, in_pane = exact("rows", rows), exact("groups", groups)
    pane = gcd(size, slide)
    per_window, per_slide = size // pane, slide // pane
    of_pane = a * in_window / per_window + b * in_pane
    if boolean("differential", differential):
        paned = of_pane + 2 * c * in_pane * per_slide
        direct = 2 * a_direct * slide * in_window / size
    else:
        paned = of_pane + c * per_window * in_pane
        direct = a_direct * in_window
    return PaneCosts(pane, per_window, per_slide, paned, direct)


def exact(name: str, value: Any) -> Fraction:
    """Return a number of at least 0 as it is, so that costs can be compared."""
    rounded = number(name, value, "it is a number of at least 0", 0, MOST)
    found = whole(value)
    if found is not None:
        return Fraction(found)
    # Numbers of other libraries, such as float32 of numpy, become floats.
    return Fraction(value if isinstance(value, Fraction | Decimal) else rounded)
