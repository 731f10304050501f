"""Look up 64-bit hashes in Catalyst: a perfect hash table in array literals, O(1) a row whatever its size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql.functions import element_at, lit, pmod, shiftrightunsigned, when

from windowkit.errors import InternalError, InvalidValue
from windowkit.spark.partition.exchange import integers

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["found", "index", "low", "perfect", "slot", "within"]

FIRST = 1 << 31
"""So many values has the part of a code that picks a key's first slot."""

SHIFTS = (33, 41, 49, 57)
"""What picks a key's stride is a code shifted by all of these, so that high bits show in the lowest eight."""

LARGEST = 1 << 20
"""A table of hashes never needs so many slots: codes that do are not hashes."""


def found(codes: Sequence[int], values: Sequence[int], code: Column) -> tuple[Column, Column]:
    """Look up a hash among `codes`: whether it is there, and its value, a bigint.

    Parameters
    ----------
    codes, values : sequence of int
        At least one; codes differ.
    code : Column
        A bigint.

    Returns
    -------
    (Column, Column)
        The value is arbitrary where the code is not found.
    """
    displacements, slots = perfect(codes)
    held = [0 if key is None else codes[key] for key in slots]
    of_slot = [0 if key is None else values[key] for key in slots]
    is_held = [int(key is not None) for key in slots]
    displacement = element_at(integers(displacements), within(code, len(displacements)))
    first, second = shiftrightunsigned(code, 8), shiftrightunsigned(code, SHIFTS[0])
    for shift in SHIFTS[1:]:
        second = second.bitwiseXOR(shiftrightunsigned(code, shift))
    at = low(low(first, FIRST) + displacement * (second.bitwiseOR(lit(1))), len(slots)) + lit(1)
    at = at.cast("int")
    is_there = element_at(integers(held), at) == code
    # An empty slot holds 0, which a code may be.
    if 0 in held:
        is_there = is_there & ((code != lit(0)) | (element_at(integers(is_held), at) == lit(1)))
    return is_there, element_at(integers(of_slot), at)


def within(code: Column, size: int) -> Column:
    """Return a position, from 1, in an array of `size`."""
    return (pmod(code, lit(size)) + lit(1)).cast("int")


def index(windows: Sequence[int], window: Column | None) -> Column:
    """Return which of `windows` a row is in; one that is not among them takes the place of one that is."""
    if window is None:
        raise InvalidValue("window: None is given; where there are several windows, a row needs its own")
    is_known, at = found(windows, range(len(windows)), window)
    return when(is_known, at).otherwise(pmod(window, lit(len(windows)))).cast("int")


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
        Of a power of two; which of `codes` is at each. Key `code` is at ``(code >> 8) % 2**31 + d * (fold |
        1)`` modulo that power, with the unsigned code, d the displacement of its group, and fold the
        exclusive or of the code shifted by each of `SHIFTS`.

    Raises
    ------
    InternalError
        If `codes` are so alike that hashes never are.
    """
    size = 1 << max((2 * len(codes) - 1).bit_length(), 2)
    while True:
        groups: list[list[int]] = [[] for _ in range(size // 4)]
        for key, code in enumerate(codes):
            groups[code % len(groups)].append(key)
        displacements = [0] * len(groups)
        slots: list[int | None] = [None] * size
        for group in sorted(range(len(groups)), key=lambda at: -len(groups[at])):
            for displacement in range(min(4 * size, 1 << 14)):
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
        if size > max(LARGEST, 8 * len(codes)):
            raise InternalError(f"{len(codes)} codes agree in nearly all of their bits; hashes never do")


def slot(code: int, displacement: int, size: int) -> int:
    """Return the slot of a key whose group has this displacement, in a table of this size."""
    unsigned = code % (1 << 64)
    fold = 0
    for shift in SHIFTS:
        fold ^= unsigned >> shift
    return ((unsigned >> 8) % FIRST + displacement * (fold | 1)) % size
