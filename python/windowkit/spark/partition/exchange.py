"""Send rows to partitions by number, by whichever way the pyspark at hand has."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, element_at, lit, split

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["by_hashing", "by_id", "integers", "preimages", "several_preimages", "way"]

SEED: Final = 42
"""Of the hash by which Spark partitions."""
WORD: Final = 0xFFFF_FFFF


def way() -> str:
    """Describe how `by_id` does it: from 4.1 on pyspark takes the partition of a row."""
    if hasattr(DataFrame, "repartitionById"):
        return "repartitionById"
    return "repartition, by numbers that Spark's hash partitioning sends there"


def by_id(frame: DataFrame, partitions: int, column: str) -> DataFrame:
    """Return `frame` in exactly `partitions` partitions, each row in the one that the int `column` names."""
    if hasattr(frame, "repartitionById"):
        return frame.repartitionById(partitions, col(column))
    return by_hashing(frame, partitions, column)


def by_hashing(frame: DataFrame, partitions: int, column: str) -> DataFrame:
    """Do as `by_id` with ``repartition`` alone, as pyspark 4.0 has it.

    Spark sends a row to the partition ``pmod(hash(key), partitions)``; so each partition is named by a key
    that hashes there. The keys stay in `column`.
    """
    keys = element_at(integers(preimages(partitions)), col(column) + lit(1)).cast("int")
    return frame.withColumn(column, keys).repartition(partitions, col(column))


def preimages(partitions: int) -> tuple[int, ...]:
    """Return, for each partition, the least natural number that Spark's hash partitioning sends there.

    O(n log n) hashes are tried for n partitions, as coupons are collected: a second or two for 2^16.

    Examples
    --------
    >>> preimages(4)
    (12, 6, 2, 0)
    """
    return tuple(least for (least,) in several_preimages(partitions, 1))


@lru_cache(maxsize=8)
def several_preimages(partitions: int, each: int) -> tuple[tuple[int, ...], ...]:
    """Return, for each partition, the least natural numbers that Spark's hash partitioning sends there.

    Examples
    --------
    >>> several_preimages(2, 3)
    ((2, 4, 5), (0, 1, 3))
    """
    found: list[list[int]] = [[] for _ in range(partitions)]
    missing, candidate = partitions * each, 0
    while missing:
        those = found[hashed(candidate) % partitions]
        if len(those) < each:
            those.append(candidate)
            missing -= 1
        candidate += 1
    return tuple(map(tuple, found))


def hashed(number: int) -> int:
    """Return Spark's ``hash`` of an int: MurmurHash3 (x86, 32 bits; Appleby 2011) of its four bytes.

    Examples
    --------
    >>> hashed(1)
    -559580957
    """
    block = number * 0xCC9E2D51 & WORD
    block = ((block << 15 | block >> 17) * 0x1B873593) & WORD
    state = SEED ^ block
    state = ((state << 13 | (state & WORD) >> 19) * 5 + 0xE6546B64) & WORD
    state ^= 4  # The length in bytes.
    state = ((state ^ state >> 16) * 0x85EBCA6B) & WORD
    state = ((state ^ state >> 13) * 0xC2B2AE35) & WORD
    state ^= state >> 16
    return state - (state >> 31 << 32)


def integers(numbers: tuple[int, ...] | list[int]) -> Column:
    """Return an array literal of bigints.

    One string that the optimizer folds into an array: a literal an element would make an expression each,
    and analysis that takes seconds.
    """
    return split(lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
