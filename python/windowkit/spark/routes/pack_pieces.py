"""Rows of keys that are cut, as tasks take them: packed by piece, and verified to have their halos."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from windowkit.errors import InvalidValue
from windowkit.local.query import plan
from windowkit.spark.routes import stages
from windowkit.spark.routes.pieces import HEAVY, Piece, moments, places
from windowkit.spark.shipping import packing

__all__ = ["PackPieces", "verify"]


@dataclass(frozen=True)
class PackPieces:
    """Packs rows: those of heavy keys by piece, in each piece that reads them, and others by bucket of keys.

    Parameters
    ----------
    pack : Pack
        For rows of which the last two columns are the number of their piece, null for other keys, and whether
        they are answered there.
    keys : tuple of tuple of Piece
        Of each heavy key. The rows that come have its number in the last column in place of those two.
    time : int
        Position of the time column.
    """

    pack: stages.Pack
    keys: tuple[tuple[Piece, ...], ...]
    time: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed rows of a partition of rows."""
        schema = pa.schema([*list(self.pack.schema)[:-2], pa.field(HEAVY, pa.int32())])
        own = list(range(len(schema) - 1))
        out = stages.Packed(self.pack, plan(self.pack.query, self.pack.schema))
        light, heavy = stages.Round(), [stages.Round() for _ in self.keys]
        for batch in batches:
            rows = stages.conformed(batch, schema)
            which, rows = rows.column(len(own)), rows.select(own)
            if which.null_count:
                some = rows.filter(which.is_null())
                none = pa.nulls(some.num_rows, pa.int32())
                light.add(self.beside(some, none, pa.repeat(True, some.num_rows)), keep=True)
            for key in which.unique().drop_null().to_pylist():
                heavy[key].add(rows.filter(pc.equal(which, key)), keep=True)
            if light.bytes + sum(each.bytes for each in heavy) >= self.pack.limits.bytes:
                yield from self.packed(out, light, heavy)
                light, heavy = stages.Round(), [stages.Round() for _ in self.keys]
        yield from self.packed(out, light, heavy)
        yield from out.rest()

    def beside(self, rows: pa.RecordBatch, piece: pa.Array, is_own: pa.Array) -> pa.RecordBatch:
        """Return rows with their piece, and whether they are answered there."""
        return pa.RecordBatch.from_arrays([*rows.columns, piece, is_own], schema=self.pack.schema)

    def packed(
        self, out: stages.Packed, light: stages.Round, heavy: list[stages.Round]
    ) -> Iterator[pa.RecordBatch]:
        """Pack what gathered."""
        yield from out.rows(light)
        number = 0
        for pieces, own in zip(self.keys, heavy, strict=True):
            if own.count:
                for rows in pa.Table.from_batches(own.batches).combine_chunks().to_batches():
                    yield from self.cut(out, rows, pieces, number)
            number += len(pieces)

    def cut(
        self, out: stages.Packed, rows: pa.RecordBatch, pieces: tuple[Piece, ...], number: int
    ) -> Iterator[pa.RecordBatch]:
        """Pack rows of one heavy key, whose pieces are numbered from `number` on."""
        times = moments(rows.column(self.time))
        order = pc.sort_indices(times)
        rows, times = rows.take(order), times.take(order)
        for at, piece in enumerate(pieces, number):
            bounds = (piece.first, piece.start, piece.end, piece.past)
            known = iter(places(times, [bound for bound in bounds if bound is not None]))
            first, start, end, past = (
                next(known) if bound is not None else none
                for bound, none in zip(bounds, (0, 0, len(times), len(times)), strict=True)
            )
            if first == past:
                continue
            answered = pa.concat_arrays(
                [pa.repeat(False, start - first), pa.repeat(True, end - start), pa.repeat(False, past - end)]
            )
            whole = self.beside(
                rows.slice(first, past - first), pa.repeat(pa.scalar(at, pa.int32()), past - first), answered
            )
            for part in packing.pieces(whole, self.pack.limits.chunk):
                own = pc.sum(part.column(part.num_columns - 1)).as_py()
                yield from out.put(piece.bucket, packing.ROWS, part, own, 0)


def verify(rows: pa.Table, pieces: Sequence[Piece], piece: int, time: int) -> None:
    """Refuse rows of pieces that lack some of their halo, since the rows are not those that were counted.

    Parameters
    ----------
    rows : pyarrow.Table
    pieces : sequence of Piece
    piece, time : int
        Positions of the columns that have the number of a row's piece, and its time.
    """
    if not any(each.before or each.after for each in pieces):
        return
    for number in rows.column(piece).unique().drop_null().to_pylist():
        own, wanted = pieces[number], rows.column(time).filter(pc.equal(rows.column(piece), number))
        times = moments(wanted.combine_chunks())
        before = 0 if own.start is None else pc.sum(pc.less(times, own.start)).as_py()
        after = 0 if own.end is None else pc.sum(pc.greater_equal(times, own.end)).as_py()
        if before < own.before or after < own.after:
            raise InvalidValue(
                f"df: a key has {before:,} rows before a cut and {after:,} after one where {own.before:,} "
                f"and {own.after:,} were counted; a DataFrame whose keys are cut has the same rows each time "
                "it is computed: write or cache it first, or use split=False"
            )
