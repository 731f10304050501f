"""The two stages of route "packed", as they run in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Final, NamedTuple

import pyarrow as pa

from windowkit._native import Engine, Plan
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.query import Query
from windowkit.local.query import plan
from windowkit.spark.partition import several_preimages
from windowkit.spark.routes.worker import finished
from windowkit.spark.shipping import packing

__all__ = ["CHUNKS", "LIMITS", "Limits", "Pack", "Unpack", "names", "rows_instead"]

CHUNKS: Final = pa.schema(
    {"bucket": pa.int32(), "chunk": pa.binary(), "rows": pa.int64(), "slices": pa.int64()}
)
"""What `Pack` yields: chunks with their bucket, and how many rows were read, and slices made, for them."""

LOOKS: Final = 16
"""How often the bytes that slices hold are counted while as many bytes of rows come as they may be."""

HOLDING: Final = ("values", "list", "rows", "sketch", "hyperloglog")
"""Partials that grow with their rows, as do those of users' own functions: `Pack` tries them sooner."""


@dataclass(frozen=True)
class Limits:
    """When stages hand on what gathered in them: what bounds their memory, whatever a partition holds.

    Parameters
    ----------
    slots : int
        Slots of a round of slicing.
    held : int
        Bytes that keys and slices of a round hold: few slots are many bytes where values are wide.
    rows : int
        Rows of a round, where slices hold all values of their rows.
    trial : int
        Rows after which a task checks for the first time whether slices save anything.
    share : float
        Slices are made only while they have at most this share of their rows' bytes.
    again : int
        Rows passed on after which slices are tried once more; the next time after twice as many, and so on.
    bytes : int
        Of rows that gather before they are passed on, and of those that are sliced at once.
    chunk, yielded : int
        Bytes of a chunk, about, and of the chunks that are handed to Spark at once.
    joined : int
        Buckets with fewer bytes than this in all are unpacked together.
    """

    slots: int = 1 << 21
    held: int = 128 << 20
    rows: int = 1 << 21
    trial: int = 1 << 18
    share: float = 0.7
    again: int = 1 << 20
    bytes: int = 32 << 20
    chunk: int = packing.CHUNK_BYTES
    yielded: int = 8 << 20
    joined: int = 4 << 20


LIMITS: Final = Limits()


def rows_instead(query: Query, planned: Plan) -> str | None:
    """Return why rows are packed rather than slices, whatever slices would save; None if they are not."""
    for window, traits in zip(query.windows, planned.windows, strict=True):
        if traits.needs_rows:
            return f"{window} needs the rows of a key in one place"
    if not planned.slices_have_starts:
        return "not every slice has a start, as around a band, before a landmark or in the global window"
    for aggregate in query.aggs:
        if aggregate.user is not None and not aggregate.user.commutative:
            return f"{aggregate} does not commute, and tasks share the rows of a slice in any order"
    return None


@dataclass(frozen=True)
class Pack:
    """Makes slices of rows and packs them, or packs the rows where slices would be no fewer.

    A round of rows ends when many slots, or many bytes, have gathered. If its slices have more than a share
    of the bytes of its rows, later rows are passed on as they are (Larson 2002): to slice them would save
    little. Now and then some are sliced nevertheless, as rows may change.

    Parameters
    ----------
    query : Query
    schema : pyarrow.Schema
        Of the rows, whose columns are ``query.inputs``.
    partitions, each : int
        Partitions, and how many buckets each has.
    never : bool
        Pass all rows on; so they are, too, where `rows_instead` says why.
    limits : Limits
    """

    query: Query
    schema: pa.Schema
    partitions: int
    each: int
    never: bool = False
    limits: Limits = LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield packed slices, and packed rows, of a partition of rows."""
        planned = plan(self.query, self.schema)
        grows = any(each.kind in HOLDING or each.kind.startswith("user:") for each in planned.partials)
        out = Packed(self, planned)
        may = not self.never and rows_instead(self.query, planned) is None
        slicing = may
        engine = planned.engine()
        limits = self.limits
        current, trial, weighed = Round(), limits.trial, 0
        passed, again = 0, limits.again
        # Batches have a number of rows, however wide these are.
        parts = (packing.pieces(conformed(batch, self.schema), limits.bytes) for batch in batches)
        for rows in chain.from_iterable(parts):
            current.add(rows, keep=not slicing)
            if not slicing:
                passed += rows.num_rows
                slicing = may and passed >= again
                if slicing or current.bytes >= limits.bytes:
                    yield from out.rows(current)
                    current = Round()
                if slicing:
                    passed, again, trial = 0, 2 * again, limits.trial
                continue
            engine.push(rows)
            full = engine.slots >= limits.slots or (grows and current.count >= limits.rows)
            if not full and current.bytes >= weighed + limits.held // LOOKS:
                full, weighed = engine.bytes >= limits.held, current.bytes
            # Few slots are worthwhile without a closer look; slots may be more than slices, never fewer.
            if full or (current.count >= trial and (grows or 4 * engine.slots > current.count)):
                made = out.made(engine)
                size = sum(slices.nbytes for _, slices in made)
                slicing, trial = size <= limits.share * current.bytes, limits.rows
                yield from out.slices(made, current)
                current, weighed = Round(), 0
        yield from out.slices(out.made(engine), current) if slicing else out.rows(current)
        yield from out.rest()


class Round:
    """Rows since slices, or rows, were last handed out: how many, and themselves where they are passed on."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.batches: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch, *, keep: bool) -> None:
        """Count rows, and keep them if requested."""
        self.count += rows.num_rows
        self.bytes += rows.nbytes
        if keep:
            self.batches.append(rows)


class Packed:
    """Chunks on their way to Spark."""

    def __init__(self, pack: Pack, planned: Plan) -> None:
        self.planned = planned
        self.limits = pack.limits
        self.fingerprint = packing.fingerprint(pack.query, pack.schema)
        self.names = names(pack.partitions, pack.each)
        self.pending: list[Pending] = []
        self.bytes = 0

    def made(self, engine: Engine) -> list[tuple[int, pa.RecordBatch]]:
        """Return the slices that gathered in `engine`, by bucket."""
        return [(bucket, pa.record_batch(slices)) for bucket, slices in engine.slices(len(self.names))]

    def slices(self, parts: list[tuple[int, pa.RecordBatch]], of: Round) -> Iterator[pa.RecordBatch]:
        """Pack slices of a round, which are dropped as they are packed."""
        rows = of.count
        parts.reverse()
        while parts:
            bucket, batch = parts.pop()
            for piece in packing.pieces(batch, self.limits.chunk):
                yield from self.put(bucket, packing.SLICES, piece, rows, piece.num_rows)
                # The first chunk counts all rows: it does not matter which of them are in which slices.
                rows = 0

    def rows(self, of: Round) -> Iterator[pa.RecordBatch]:
        """Pack the rows of a round."""
        if of.count:
            for batch in pa.Table.from_batches(of.batches).combine_chunks().to_batches():
                for bucket, part in self.planned.split(batch, len(self.names)):
                    for piece in packing.pieces(pa.record_batch(part), self.limits.chunk):
                        yield from self.put(bucket, packing.ROWS, piece, piece.num_rows, 0)

    def put(
        self, bucket: int, kind: int, batch: pa.RecordBatch, rows: int, slices: int
    ) -> Iterator[pa.RecordBatch]:
        """Pack one batch; yield chunks if enough are pending."""
        name = self.names[bucket]
        body = packing.body_of(batch)
        header = packing.header(kind, body, self.fingerprint, name)
        self.pending.append(Pending(name, header, body, rows, slices))
        self.bytes += len(header) + len(body)
        if self.bytes >= self.limits.yielded:
            yield from self.rest()

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield what is pending."""
        if not self.pending:
            return
        pending, self.pending, self.bytes = self.pending, [], 0
        names, headers, bodies, rows, slices = zip(*pending, strict=True)
        sizes = (len(header) + len(body) for header, body in zip(headers, bodies, strict=True))
        bounds = pa.array([0, *accumulate(sizes)], pa.int32())
        # One buffer, written once: from a list of bytes Arrow would make another copy.
        data = pa.py_buffer(b"".join(chain.from_iterable(zip(headers, bodies, strict=True))))
        arrays = [
            pa.array(names, pa.int32()),
            pa.Array.from_buffers(pa.binary(), len(pending), [None, bounds.buffers()[1], data]),
            pa.array(rows, pa.int64()),
            pa.array(slices, pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=CHUNKS)


class Pending(NamedTuple):
    """A chunk that was not handed to Spark yet."""

    bucket: int
    header: bytes
    body: pa.Buffer
    rows: int
    slices: int


@dataclass(frozen=True)
class Unpack:
    """Combines packed slices and packed rows into windows, one bucket after the other.

    Parameters
    ----------
    query : Query
    schema : pyarrow.Schema
        As that of `Pack`.
    """

    query: Query
    schema: pa.Schema
    limits: Limits = LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the windows of a partition of chunks, whose buckets come one after the other."""
        planned = plan(self.query, self.schema)
        expected = packing.fingerprint(self.query, self.schema)
        engine, last, size = planned.engine(), None, 0
        for bucket, chunk in chain.from_iterable(map(chunks, batches)):
            if bucket != last and size >= self.limits.joined:
                yield from finished(engine, self.query)
                engine, size = planned.engine(), 0
            last = bucket
            kind, batch = packing.unpack(chunk, expected, bucket)
            size += batch.nbytes
            if kind == packing.SLICES:
                engine.push_slices(batch)
            else:
                engine.push(batch)
        yield from finished(engine, self.query)


def chunks(batch: pa.RecordBatch) -> Iterator[tuple[int | None, memoryview]]:
    """Yield the chunks of a batch with their buckets, without copying them.

    Raises
    ------
    InvalidValue
        There is a null instead of a chunk.
    """
    buckets, packed = batch.columns
    if packed.null_count:
        raise InvalidValue("packed slices: a chunk is null; every chunk has at least a header")
    pairs = zip(buckets, packed, strict=True)
    return ((bucket.as_py(), memoryview(chunk.as_buffer())) for bucket, chunk in pairs)


def names(partitions: int, each: int) -> list[int]:
    """Return the number of every bucket: those of one partition are numbers that Spark sends there.

    So Spark's own partitioning by hash deals buckets out evenly, and adaptive execution may still join small
    partitions, which it does not do where partitions are named.
    """
    return list(chain.from_iterable(several_preimages(partitions, each)))


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows as `schema` has them: Spark's settings decide about zones and about large strings.

    Raises
    ------
    InvalidType
        A column comes as another type than was planned for.
    """
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        if column.type != field.type:
            try:
                column = column.cast(field.type)
            except pa.ArrowException as error:
                raise InvalidType(
                    f"query: column {field.name!r} comes as {column.type}; {field.type} was planned for "
                    f"({error})"
                ) from error
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
