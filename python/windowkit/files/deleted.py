"""Rows of a file that are no longer part of its table, by their numbers from the first row of the file on."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Deleted"]

WIDTHS: Final = (pa.int8(), pa.int16(), pa.int32(), pa.int64())


@dataclass(frozen=True, eq=False)
class Deleted:
    """Numbers of rows, as the gaps between them, which take a byte or two each on the way to a task.

    Parameters
    ----------
    gaps : pyarrow.Array
        Of integers without nulls: the first number, and by how much each other is above the one before.
    """

    gaps: pa.Array

    @classmethod
    def of(cls, numbers: pa.Array) -> Deleted:
        """Keep some numbers of type int64, which ascend. O(numbers).

        Examples
        --------
        >>> len(Deleted.of(pa.array([3, 4, 900])))
        3
        """
        gaps = pc.pairwise_diff(numbers).fill_null(numbers[0] if len(numbers) else 0)
        most = pc.max(gaps).as_py() or 0
        return cls(gaps.cast(next(kind for kind in WIDTHS if most < 1 << kind.bit_width - 1)))

    def __len__(self) -> int:
        return len(self.gaps)

    @cached_property
    def numbers(self) -> pa.Array:
        """The numbers, as they were given."""
        return pc.cumulative_sum(self.gaps.cast(pa.int64()))

    def left(self, rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return the rows of a batch that are not deleted; its first row is number `first` of the file."""
        ascending = memoryview(self.numbers.buffers()[1] or b"").cast("q")
        start, end = (bisect_left(ascending, number) for number in (first, first + rows.num_rows))
        if start == end:
            return rows
        there = pc.subtract(self.numbers.slice(start, end - start), first)
        every = counted(rows.num_rows.bit_length()).slice(0, rows.num_rows)
        return rows.filter(pc.invert(pc.is_in(every, value_set=there)))


@lru_cache(maxsize=1)
def counted(bits: int) -> pa.Array:
    """Return the numbers of so many bits. Batches hardly differ in their rows."""
    return pa.array(range(1 << bits), pa.int64())
