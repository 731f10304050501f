"""Where rows go, as one Catalyst expression: hash buckets by a table, heavy keys by shares.

The expression is a pure function of a row: no counter, no random number, no partition of the input. A task
that Spark runs again sends the same rows to the same partitions, in whatever order it reads them; with
counters or ``rand()`` some rows could be lost and others doubled when only some tasks run again (SPARK-23207,
SPARK-38160).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import element_at, lit, shiftright, shiftrightunsigned, when

from windowkit.partition import plan
from windowkit.spark.partition.exchange import integers
from windowkit.spark.partition.histogram import Histogram
from windowkit.spark.partition.lookup import found, index, low, within

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["POINTS", "Placed", "Placement", "Shares", "astray", "place", "points"]

BITS: Final = 31
POINTS: Final = 1 << BITS
"""Points on the circle of which each share of a heavy key takes some."""
WIDTH_BITS: Final = 17
"""Bits of a key's number of cells; there are at most 2^16 partitions."""


@dataclass(frozen=True)
class Shares:
    """A heavy key, and which partitions take which part of its rows.

    Parameters
    ----------
    code : int
        The hash of the key.
    parts : tuple of (int, Fraction)
        Partitions, each once, and shares that add up to 1.
    """

    code: int
    parts: tuple[tuple[int, Fraction], ...]


@dataclass(frozen=True)
class Placement:
    """Which partition takes which rows.

    Parameters
    ----------
    buckets : tuple of int
        The partition of each bucket of key hashes, window after window; a window has a power of two of them.
    heavy : tuple of Shares
        Keys that do not go where their bucket does.
    windows : tuple of int
        The hashes of the windows, if each has buckets of its own.
    """

    buckets: tuple[int, ...]
    heavy: tuple[Shares, ...]
    windows: tuple[int, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether a key is in several partitions."""
        return any(len(shares.parts) > 1 for shares in self.heavy)

    def at(self, code: Column, point: Column, window: Column | None = None) -> Column:
        """Return the partition of a row, an int.

        Parameters
        ----------
        code : Column
            The hash of the row's key, a bigint.
        point : Column
            A bigint from 0 to `POINTS`: which share the row belongs to, should its key be split.
        window : Column, optional
            The hash of the row's window, a bigint; needed if there are several.

        Notes
        -----
        O(1) for each row, whatever the numbers of partitions and heavy keys: heavy keys are found by a
        perfect hash table, shares by an alias table (Walker 1977).
        """
        size = len(self.buckets) // max(len(self.windows), 1)
        bucket = within(code, size)
        if len(self.windows) > 1:
            bucket = index(self.windows, window) * lit(size) + bucket
        cold = element_at(integers(self.buckets), bucket)
        if not self.heavy:
            return cold.cast("int")
        cells: list[tuple[int, int, int]] = []
        ranges = []
        for shares in self.heavy:
            own = alias(shares.parts)
            ranges.append(len(cells) << WIDTH_BITS | len(own))
            cells += own
        is_heavy, cells_of = found([shares.code for shares in self.heavy], ranges, code)
        stretched = point * low(cells_of, 1 << WIDTH_BITS)
        cell = (shiftright(cells_of, WIDTH_BITS) + shiftright(stretched, BITS) + lit(1)).cast("int")
        threshold, below, above = (
            element_at(integers([entry[i] for entry in cells]), cell) for i in range(3)
        )
        split = when(low(stretched, POINTS) < threshold, below).otherwise(above)
        return when(is_heavy, split).otherwise(cold).cast("int")


@dataclass(frozen=True)
class Placed:
    """A placement, and what is expected of it.

    Parameters
    ----------
    placement : Placement
    loads : tuple of int
        Rows of each partition.
    fullest : tuple of float
        Of each window, or of all rows if there are none: rows of its fullest partition over the mean.
    """

    placement: Placement
    loads: tuple[int, ...]
    fullest: tuple[float, ...]


def place(counted: Histogram, partitions: int) -> Placed:
    """Decide which partition takes which bucket, and which parts of heavy keys: for each window by itself.

    Which partition is which is open in the plan of a window: what is fullest goes where the windows before
    left the fewest rows, so that all rows together are level too, however few a window has.
    """
    size = counted.buckets
    loads = [0] * partitions
    buckets: list[int] = []
    heavy: list[Shares] = []
    fullest = []
    for window in range(len(counted.loads) // size):
        own = [each for each in counted.heavy if each.window == window]
        homes = [each.code % size for each in own]
        rows = counted.loads[window * size : (window + 1) * size]
        made = plan(rows, [each.rows for each in own], homes, partitions)
        of_window = made.loads.to_pylist()
        names = renamed(of_window, loads)
        placed = [names[partition] for partition in made.buckets.to_pylist()]
        buckets += placed
        for each, home, parts in zip(own, homes, made.heavy.to_pylist(), strict=True):
            taken = [(names[part["worker"]], Fraction(part["rows"], each.rows)) for part in parts]
            if [partition for partition, _ in taken] != [placed[home]]:
                heavy.append(Shares(each.code, tuple(taken)))
        for partition, more in enumerate(of_window):
            loads[names[partition]] += more
        fullest.append(made.load_ratio)
    return Placed(Placement(tuple(buckets), tuple(heavy), counted.windows), tuple(loads), tuple(fullest))


def renamed(more: Sequence[int], loads: Sequence[int]) -> list[int]:
    """Return for each of a window's partitions which one it is: the fullest the one with the least load."""
    names = [0] * len(loads)
    fullest = sorted(range(len(more)), key=lambda partition: -more[partition])
    emptiest = sorted(range(len(loads)), key=loads.__getitem__)
    for partition, name in zip(fullest, emptiest, strict=True):
        names[partition] = name
    return names


def astray(placed: Placement, counted: Histogram, partitions: int, *, at_best: bool = False) -> float:
    """Return how far, as a part of a mean load, content may send the rows of split keys from their shares.

    A share s of a key whose equal rows come in lumps of c has the variance s (1 - s) times the sum of c^2,
    were the hashes of lumps random. The figure is the standard deviation of the worst partition; of several
    windows, its sum over the sum of their mean loads. With `at_best` it is what it would be if no two rows
    were equal: chance alone.
    """
    of_code = {each.code: each for each in counted.heavy}
    variance: dict[tuple[int, int], float] = {}
    for shares in placed.heavy:
        key = of_code[shares.code]
        lumps = key.rows if at_best else key.lumps or 0.0
        for partition, share in shares.parts:
            own = lumps * float(share * (1 - share))
            variance[key.window, partition] = variance.get((key.window, partition), 0.0) + own
    worst: dict[int, float] = {}
    for (window, _), own in variance.items():
        worst[window] = max(worst.get(window, 0.0), own)
    return sum(map(math.sqrt, worst.values())) * partitions / counted.rows if worst else 0.0


def points(code: Column) -> Column:
    """Return where on the circle a 64-bit hash lies."""
    return shiftrightunsigned(code, 64 - BITS)


def alias(parts: Sequence[tuple[int, Fraction]]) -> list[tuple[int, int, int]]:
    """Make an alias table (Walker 1977, in the form of Vose 1991): a cell for each part.

    Returns
    -------
    list of (threshold, partition, partition)
        A point of a cell goes to the first partition below the threshold, to the second from there on.
    """
    rest = [(partition, share * len(parts)) for partition, share in parts]
    small = [part for part in rest if part[1] < 1]
    large = [part for part in rest if part[1] >= 1]
    cells = []
    while small and large:
        (partition, share), (other, fill) = small.pop(), large.pop()
        cells.append((round(share * POINTS), partition, other))
        fill -= 1 - share
        (small if fill < 1 else large).append((other, fill))
    # Shares are exact, so that whatever is left fills its cell.
    return cells + [(POINTS, partition, partition) for partition, _ in small + large]
