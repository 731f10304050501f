"""Packed chunks: slices, or rows, of one bucket of keys as one binary value that crosses Spark's shuffle.

A chunk is a header, the version of windowkit that wrote it, and an Arrow IPC stream of one batch. The header
(little-endian) has a magic number, the version of this format, what the batch holds, the length of the text
that is windowkit's version, the fingerprint of the plan, its `Place`, the length of the stream, and a CRC-32
of all of it. So a chunk that was damaged, or that another job or another version wrote, is told from a good
one before any byte of it is believed; and, by its place, one that came to another bucket's, twice or not at
all. Of a task that has no chunk in a partition left, nothing tells that it had some: that is a whole block of
Spark's shuffle, and Spark keeps account of blocks.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final, NamedTuple

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.query import Query

__all__ = [
    "CHUNK_BYTES",
    "END",
    "ROWS",
    "SLICES",
    "Arrived",
    "Place",
    "body_of",
    "fingerprint",
    "header",
    "pack",
    "pieces",
    "unpack",
]

MAGIC: Final = b"wkPK"
FORMAT: Final = 3
BEGINNING: Final = struct.Struct("<4sH")
"""Magic number and format: the same in all formats."""
HEADER: Final = struct.Struct("<4sHBB8siqIIiIQI")
SLICES: Final = 0
ROWS: Final = 1
END: Final = 2
"""A chunk without a batch, whose place says how many there were before it."""
CHUNK_BYTES: Final = 4 << 20
"""About how much a chunk holds, before compression: little enough for many to be under way, much enough that
its header and schema do not matter."""

OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
READING: Final = pa.ipc.IpcReadOptions(use_threads=False)
"""A task has one core, and to hand the buffers of a chunk to threads takes longer than to decompress them."""


class Place(NamedTuple):
    """Which chunk of a job one is; the same whichever attempt of a task made it.

    Parameters
    ----------
    bucket : int
    task : int
        Partition of the rows that it is made of.
    number : int
        Of the chunks of this task and bucket, from 0.
    all : int
        How many these are: told by the last one, 0 in the others.
    partition : int
        Of stage 2, which the bucket belongs to.
    buckets : int
        In how many buckets of this partition the task has chunks: told beside `all`, 0 in the others, and
        where the task cannot be sure which buckets are in one partition.
    """

    bucket: int
    task: int
    number: int
    all: int
    partition: int
    buckets: int


class Arrived:
    """The chunks that came to a task of stage 2, bucket after bucket: each once, and of every task all.

    O(chunks) time; memory O(chunks of a bucket + tasks) for each partition.
    """

    def __init__(self) -> None:
        self.numbers: dict[int, set[int]] = {}
        self.counts: dict[int, int] = {}
        self.partition = 0
        self.buckets: dict[tuple[int, int], int] = {}
        """Of partition and task: how many buckets came."""
        self.told: dict[tuple[int, int], int] = {}
        """And how many there are."""

    def add(self, place: Place) -> None:
        """Note a chunk of the bucket that is on.

        Raises
        ------
        InvalidValue
            It came before, or contradicts others.
        """
        numbers = self.numbers.setdefault(place.task, set())
        if place.number in numbers:
            raise InvalidValue(
                f"packed slices: chunk {place.number} of task {place.task} came twice to bucket "
                f"{place.bucket}"
            )
        numbers.add(place.number)
        self.partition = place.partition
        if place.all:
            self.counts[place.task] = place.all
            self.told[place.partition, place.task] = place.buckets

    def end_bucket(self, bucket: int | None) -> None:
        """Make sure that nothing is missing of what came in part to a bucket, and go on to the next.

        Raises
        ------
        InvalidValue
            Chunks of a task were lost.
        """
        for task, numbers in self.numbers.items():
            count = self.counts.get(task)
            if count != len(numbers):
                of = "more" if count is None else count
                raise InvalidValue(
                    f"packed slices: bucket {bucket} has {len(numbers)} chunks of task {task}, of {of} that "
                    "were written; some were lost on their way"
                )
            there = self.partition, task
            self.buckets[there] = self.buckets.get(there, 0) + 1
        self.numbers, self.counts = {}, {}

    def end(self) -> None:
        """Make sure that of every task that came to a partition all its buckets did.

        Raises
        ------
        InvalidValue
            All chunks of a task in some bucket were lost.
        """
        for (partition, task), count in self.buckets.items():
            told = self.told[partition, task]
            if told and count != told:
                raise InvalidValue(
                    f"packed slices: partition {partition} has chunks of task {task} in {count} buckets, of "
                    f"{told} that were written; some were lost on their way"
                )


def fingerprint(query: Query, schema: pa.Schema) -> bytes:
    """Return what tells the slices of one query over one schema from those of others.

    Users' own functions and windows are told apart by their names only.
    """
    aggregates = [
        (each.function, each.columns, each.name, each.filter, each.parameters, each.user and each.user.name)
        for each in query.aggs
    ]
    windows = [(each.name, str(each)) for each in query.windows]
    text = repr((query.by, query.time, windows, aggregates))
    return blake2b(text.encode() + schema.serialize().to_pybytes(), digest_size=8).digest()


def body_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=OPTIONS) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def pack(kind: int, batch: pa.RecordBatch | None, plan: bytes, place: Place) -> bytes:
    """Return a batch of slices or rows as a chunk.

    Parameters
    ----------
    kind : int
        `SLICES`, `ROWS` or `END`.
    batch : pyarrow.RecordBatch or None
        None at the end.
    plan : bytes
        Its `fingerprint`.
    place : Place

    Examples
    --------
    >>> batch = pa.record_batch({"key0": ["a"], "start": [10]})
    >>> here = Place(bucket=3, task=7, number=0, all=1, partition=0, buckets=1)
    >>> chunk = pack(SLICES, batch, bytes(8), here)
    >>> kind, there, place = unpack(chunk, bytes(8), 3)
    >>> kind == SLICES and there.equals(batch) and place == here
    True
    """
    body = b"" if batch is None else body_of(batch)
    return b"".join([header(kind, body, plan, place), body])


def header(kind: int, body: bytes | pa.Buffer, plan: bytes, place: Place) -> bytes:
    """Return what comes before an Arrow IPC stream of one batch in a chunk."""
    version = _native.__version__.encode()
    unsigned = HEADER.pack(MAGIC, FORMAT, kind, len(version), plan, *place, len(body), 0)
    checksum = zlib.crc32(body, zlib.crc32(unsigned + version))
    return HEADER.pack(MAGIC, FORMAT, kind, len(version), plan, *place, len(body), checksum) + version


def unpack(
    chunk: bytes | memoryview, plan: bytes, bucket: int | None
) -> tuple[int, pa.RecordBatch | None, Place]:
    """Return what a chunk holds (`SLICES`, `ROWS` or `END`), the batch if there is one, and its place.

    Parameters
    ----------
    chunk : bytes or memoryview
        The batch refers to its memory.
    plan : bytes
        The fingerprint that it must have.
    bucket : int or None
        The bucket that it came to, None where that was lost.

    Raises
    ------
    InvalidValue
        The chunk is not as it was written, or no chunk at all, or in another bucket; or another version of
        windowkit, or another query, wrote it.
    """
    chunk = memoryview(chunk)
    if len(chunk) >= BEGINNING.size:
        magic, version = BEGINNING.unpack_from(chunk)
        if magic != MAGIC:
            raise InvalidValue(f"packed slices: a chunk begins with {magic!r}; a chunk begins with {MAGIC!r}")
        if version != FORMAT:
            raise InvalidValue(
                f"packed slices: a chunk has format {version}; windowkit {_native.__version__} reads format "
                f"{FORMAT}"
            )
    if len(chunk) < HEADER.size:
        raise InvalidValue(
            f"packed slices: a chunk of {len(chunk)} bytes is given; a chunk has a header of {HEADER.size}"
        )
    magic, version, kind, writer, fingerprinted, *placed, length, checksum = HEADER.unpack_from(chunk)
    body = HEADER.size + writer
    if len(chunk) != body + length:
        raise InvalidValue(
            f"packed slices: a chunk of {len(chunk)} bytes is given; its header says {body + length}"
        )
    unsigned = HEADER.pack(magic, version, kind, writer, fingerprinted, *placed, length, 0)
    found = zlib.crc32(chunk[HEADER.size :], zlib.crc32(unsigned))
    if found != checksum:
        raise InvalidValue(
            f"packed slices: a chunk of {len(chunk)} bytes has checksum {found:08x}; {checksum:08x} was "
            "written, so it was damaged on its way"
        )
    wrote = bytes(chunk[HEADER.size : body]).decode()
    if wrote != _native.__version__:
        raise InvalidValue(
            f"packed slices: windowkit {wrote} wrote a chunk, and {_native.__version__} reads it; all "
            "workers of a job have one version"
        )
    if fingerprinted != plan:
        raise InvalidValue(
            f"packed slices: a chunk is of plan {fingerprinted.hex()}; the query's is {plan.hex()}"
        )
    place = Place(*placed)
    if place.bucket != bucket:
        raise InvalidValue(
            f"packed slices: a chunk of bucket {place.bucket} came with bucket {bucket}, so its row was "
            "damaged"
        )
    if kind == END:
        return kind, None, place
    if kind not in (SLICES, ROWS):
        raise InvalidValue(f"packed slices: a chunk holds kind {kind}; kinds are {SLICES}, {ROWS} and {END}")
    with pa.ipc.open_stream(pa.py_buffer(chunk[body:]), options=READING) as stream:
        return kind, stream.read_next_batch(), place


def pieces(batch: pa.RecordBatch, size: int = CHUNK_BYTES) -> Iterator[pa.RecordBatch]:
    """Cut a batch into parts of about `size` bytes, less than twice that but for wider rows.

    Examples
    --------
    >>> [piece.num_rows for piece in pieces(pa.record_batch({"v": [1, 2, 3, 4, 5]}), 16)]
    [2, 2, 1]
    >>> [piece.num_rows for piece in pieces(pa.record_batch({"v": ["a"] * 99 + ["b" * 900]}), 500)]
    [35, 35, 14, 14, 2]
    """
    rows = max(size * batch.num_rows // max(batch.nbytes, 1), 1)
    for first in range(0, batch.num_rows, rows):
        piece = batch.slice(first, rows)
        if piece.num_rows > 1 and piece.nbytes >= 2 * size:
            # Some of its rows are much wider than most.
            yield from pieces(piece, size)
        else:
            yield piece
