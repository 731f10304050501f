"""Rows of two sides in blocks of time: what one task takes of a key that has too many rows for it.

Each row of one side, which is at home, is in the block of its own time. A row of the other side, a guest, is
copied to every block in which rows at home may need it: three at most, as a block is as long as they reach.
Keys and the number of the block together are then what keys are elsewhere: they give a row's bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.durations import Duration, Length, Measure, Rows, length
from windowkit.language.query import Query
from windowkit.spark.jobs import Job
from windowkit.spark.routes import packed, pieces, stages

__all__ = ["Blocks", "PackBlocks", "blocks", "described"]


@dataclass(frozen=True)
class Blocks:
    """How two sides are cut.

    Parameters
    ----------
    name : str
        A column that neither side has.
    length : int
        Of a block, in units of the times.
    before, after : int
        How far back and ahead of a guest's time there may be rows at home that need it.
    """

    name: str
    length: int
    before: int
    after: int

    def pack(self, side: Job, *, is_guest: bool) -> PackBlocks:
        """Return what packs the rows of a side, all columns of which are in the schema of its job."""
        query = replace(side.query, by=(*side.query.by, self.name))
        schema = pa.schema([*side.schema, (self.name, pa.int64())])
        pack = stages.Pack(query, schema, *packed.spread(side.frame.sparkSession), never=True)
        around = (self.before, self.after) if is_guest else (0, 0)
        return PackBlocks(pack, side.schema.names.index(side.query.time), self.length, *around)


def blocks(given: Length, reaches: tuple[Measure, Measure], sides: Sequence[Job]) -> Blocks:
    """Return the blocks of a length that the caller gives.

    Parameters
    ----------
    given : Length
    reaches : tuple of two lengths
        How far before and after a guest's time there may be rows at home that need it.
    sides : sequence of Job
        Their schemas have all columns.

    Raises
    ------
    InvalidType, InvalidValue
        It is no length of time, too short, or the times of the two sides are of different types.
    """
    kinds = [side.schema.field(side.query.time).type for side in sides]
    first, other = (pa.timestamp("us") if pa.types.is_timestamp(kind) else kind for kind in kinds)
    if first != other:
        raise InvalidType(
            f"split: it is given, and times are {kinds[0]} and {kinds[1]}; cast one of them, so "
            "that they have one type"
        )
    measure = length("split", given)
    wants = "an integer, as times are integers" if pa.types.is_integer(first) else "a time such as '1 day'"
    if isinstance(measure, Rows) or isinstance(measure, int) != pa.types.is_integer(first):
        raise InvalidType(f"split: {given!r} is given; it is {wants}")
    size, (before, after) = pieces.units(measure, first), (pieces.units(each, first) for each in reaches)
    if size < 1:
        unit = "1 day" if pa.types.is_date(first) else "1" if pa.types.is_integer(first) else "1 microsecond"
        raise InvalidValue(
            f"split: {measure} is given; times are at least {unit} apart, and so is its length"
        )
    if size < max(before, after):
        least = max(reaches, key=lambda each: pieces.units(each, first))
        raise InvalidValue(
            f"split: {measure} is shorter than {least}, as far as rows reach; many times that is best, as "
            "rows near the ends of a stretch are read twice"
        )
    taken = {name for side in sides for name in side.schema.names}
    return Blocks(
        next(name for name in map("block {}".format, count()) if name not in taken), size, before, after
    )


def described(given: Length) -> str:
    """Return the line of `explain`."""
    shown = length("split", given)
    unit = "" if isinstance(shown, Duration) else " units of time"
    return f"  all rows of a key within {shown}{unit} are in one task; those near an end are read twice"


@dataclass(frozen=True)
class PackBlocks:
    """Packs rows with the number of a block, a guest's in each block where it may be needed.

    Parameters
    ----------
    pack : Pack
        For rows of which the last column is the number.
    time : int
        Position of the time column.
    length, before, after : int
        As those of `Blocks`; nothing before and after for rows at home.
    """

    pack: stages.Pack
    time: int
    length: int
    before: int
    after: int

    @property
    def query(self) -> Query:
        """By which rows are packed."""
        return self.pack.query

    @property
    def schema(self) -> pa.Schema:
        """The columns that are packed."""
        return self.pack.schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows of a partition of rows."""
        yield from self.pack(map(self.placed, batches))

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch with their blocks; those without time are in none, and need none."""
        rows = stages.conformed(batch, pa.schema(list(self.pack.schema)[:-1]))
        times = pieces.integers(rows.column(self.time))
        is_null = pc.is_null(times).to_numpy(zero_copy_only=False)
        own, within = np.divmod(times.fill_null(0).to_numpy(zero_copy_only=False), self.length)
        back = within < self.before
        ahead = within >= self.length - self.after
        copies = [(own, None), (own - 1, back), (own + 1, ahead)]
        found = [
            np.arange(len(own)) if where is None else np.flatnonzero(where & ~is_null) for _, where in copies
        ]
        numbers = [block[at] for (block, _), at in zip(copies, found, strict=True)]
        at = np.concatenate(found)
        number = pa.array(np.concatenate(numbers), pa.int64(), mask=is_null[at])
        taken = rows if len(at) == len(own) else rows.take(pa.array(at))
        return pa.RecordBatch.from_arrays([*taken.columns, number], schema=self.pack.schema)
