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

from pyspark.sql.functions import element_at, lit, pmod, shiftright, shiftrightunsigned, when

from windowkit.partition import plan
from windowkit.spark.exchange import integers
from windowkit.spark.histogram import Histogram

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["POINTS", "Placed", "Placement", "Shares", "astray", "perfect", "place", "points"]

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
        The partition of each bucket of key hashes; their number is a power of two.
    heavy : tuple of Shares
        Keys that do not go where their bucket does.
    """

    buckets: tuple[int, ...]
    heavy: tuple[Shares, ...]

    @property
    def is_split(self) -> bool:
        """Whether a key is in several partitions."""
        return any(len(shares.parts) > 1 for shares in self.heavy)

    def at(self, code: Column, point: Column) -> Column:
        """Return the partition of a row, an int.

        Parameters
        ----------
        code : Column
            The hash of the row's key, a bigint.
        point : Column
            A bigint from 0 to `POINTS`: which share the row belongs to, should its key be split.

        Notes
        -----
        O(1) for each row, whatever the numbers of partitions and heavy keys: heavy keys are found by a
        perfect hash table, shares by an alias table (Walker 1977).
        """
        cold = element_at(integers(self.buckets), within(code, len(self.buckets)))
        if not self.heavy:
            return cold.cast("int")
        displacements, slots = perfect([shares.code for shares in self.heavy])
        cells: list[tuple[int, int, int]] = []
        codes, ranges = [0] * len(slots), [0] * len(slots)
        for slot, key in enumerate(slots):
            if key is not None:
                own = alias(self.heavy[key].parts)
                codes[slot] = self.heavy[key].code
                ranges[slot] = len(cells) << WIDTH_BITS | len(own)
                cells += own
        displacement = element_at(integers(displacements), within(code, len(displacements)))
        first, second = shiftrightunsigned(code, 8), shiftrightunsigned(code, 33)
        position = low(low(first, POINTS) + displacement * (second.bitwiseOR(lit(1))), len(slots)) + lit(1)
        position = position.cast("int")
        found = element_at(integers(ranges), position)
        stretched = point * low(found, 1 << WIDTH_BITS)
        cell = (shiftright(found, WIDTH_BITS) + shiftright(stretched, BITS) + lit(1)).cast("int")
        threshold, below, above = (
            element_at(integers([entry[i] for entry in cells]), cell) for i in range(3)
        )
        split = when(low(stretched, POINTS) < threshold, below).otherwise(above)
        is_heavy = (element_at(integers(codes), position) == code) & (found > lit(0))
        return when(is_heavy, split).otherwise(cold).cast("int")


@dataclass(frozen=True)
class Placed:
    """A placement, and the rows each partition is expected to get."""

    placement: Placement
    loads: tuple[int, ...]


def place(counted: Histogram, partitions: int) -> Placed:
    """Decide which partition takes which bucket, and which parts of heavy keys."""
    homes = [each.code % len(counted.loads) for each in counted.heavy]
    made = plan(counted.loads, [each.rows for each in counted.heavy], homes, partitions)
    buckets = made.buckets.to_pylist()
    heavy = []
    for each, home, parts in zip(counted.heavy, homes, made.heavy.to_pylist(), strict=True):
        if [part["worker"] for part in parts] != [buckets[home]]:
            shares = ((part["worker"], Fraction(part["rows"], each.rows)) for part in parts)
            heavy.append(Shares(each.code, tuple(shares)))
    return Placed(Placement(tuple(buckets), tuple(heavy)), tuple(made.loads.to_pylist()))


def astray(placed: Placement, counted: Histogram, partitions: int) -> float:
    """Return how far, as a part of a mean load, content may send the rows of split keys from their shares.

    A share s of a key whose equal rows come in lumps of c has the variance s (1 - s) times the sum of c^2,
    were the hashes of lumps random. The figure is the standard deviation of the worst partition.
    """
    lumps = {each.code: each.lumps or 0.0 for each in counted.heavy}
    variance: dict[int, float] = {}
    for shares in placed.heavy:
        for partition, share in shares.parts:
            own = lumps[shares.code] * float(share * (1 - share))
            variance[partition] = variance.get(partition, 0.0) + own
    worst = max(variance.values(), default=0.0)
    return math.sqrt(worst) * partitions / counted.rows if worst else 0.0


def points(code: Column) -> Column:
    """Return where on the circle a 64-bit hash lies."""
    return shiftrightunsigned(code, 64 - BITS)


def within(code: Column, size: int) -> Column:
    """Return a position, from 1, in an array of `size`."""
    return (pmod(code, lit(size)) + lit(1)).cast("int")


def low(number: Column, size: int) -> Column:
    """Return the number modulo a power of two."""
    return number.bitwiseAND(lit(size - 1))


def perfect(codes: Sequence[int]) -> tuple[list[int], list[int | None]]:
    """Make a perfect hash table by hash and displace (Pagh 1999; Belazzougui et al. 2009).

    Returns
    -------
    displacements : list of int
        Of each group of keys, ``code % len(displacements)``.
    slots : list of (int or None)
        Of a power of two; which of `codes` is at each. Key `code` is at ``(code >> 8) % 2**31 + d * (code >>
        33 | 1)`` modulo that power, with shifts of the unsigned code and d the displacement of its group.
    """
    size = 1 << max((2 * len(codes) - 1).bit_length(), 2)
    while True:
        groups: list[list[int]] = [[] for _ in range(size // 4)]
        for key, code in enumerate(codes):
            groups[code % len(groups)].append(key)
        displacements = [0] * len(groups)
        slots: list[int | None] = [None] * size
        for group in sorted(range(len(groups)), key=lambda at: -len(groups[at])):
            for displacement in range(4 * size):
                wanted = [slot(codes[key], displacement, size) for key in groups[group]]
                if len(set(wanted)) == len(wanted) and all(slots[at] is None for at in wanted):
                    break
            else:
                break  # Two codes that agree in too many bits; they part in a larger table.
            displacements[group] = displacement
            for at, key in zip(wanted, groups[group], strict=True):
                slots[at] = key
        else:
            return displacements, slots
        size *= 2


def slot(code: int, displacement: int, size: int) -> int:
    unsigned = code % (1 << 64)
    return ((unsigned >> 8) % POINTS + displacement * (unsigned >> 33 | 1)) % size


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
