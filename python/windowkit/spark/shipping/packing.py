"""Packed chunks: slices, or rows, of one bucket of keys as one binary value that crosses Spark's shuffle.

A chunk is a header, the version of windowkit that wrote it, and an Arrow IPC stream of one batch. The header
(little-endian) has a magic number, the version of this format, what the batch holds, the length of the text
that is windowkit's version, the fingerprint of the plan, the bucket, the length of the stream, and a CRC-32
of all of it. So a damaged chunk, or one that another job or another version wrote, is refused before any byte
of it is decoded. That every chunk arrives once is up to Spark: it keeps account of the blocks of a shuffle,
and makes a lost block again or fails the job.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.validation import checked, refusing
from windowkit.errors import InvalidValue
from windowkit.language.identity import fingerprint as fingerprint_of
from windowkit.language.identity import identity
from windowkit.language.query import Query
from windowkit.language.written import form_of_query

__all__ = [
    "CHUNK_BYTES",
    "ROWS",
    "SLICES",
    "body_of",
    "fingerprint",
    "header",
    "pack",
    "pieces",
    "unpack",
]

MAGIC: Final = b"wkPK"
FORMAT: Final = 4
BEGINNING: Final = struct.Struct("<4sH")
"""Magic number and format: the same in all formats."""
HEADER: Final = struct.Struct("<4sHBB8siQI")
SLICES: Final = 0
ROWS: Final = 1
CHUNK_BYTES: Final = 4 << 20
"""About how much a chunk holds, before compression: little enough for many to be under way, much enough that
its header and schema do not matter."""

OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
READING: Final = pa.ipc.IpcReadOptions(use_threads=False)
"""A task has one core, and to hand the buffers of a chunk to threads takes longer than to decompress them."""


def fingerprint(query: Query, schema: pa.Schema) -> bytes:
    """Return what distinguishes the slices of one query over one schema from those of others.

    Users' own functions and windows are distinguished by their names only.
    """
    form = form_of_query(query)
    text = identity({part: form[part] for part in ("by", "time", "windows", "aggs")})
    return fingerprint_of(text, schema.serialize().to_pybytes())


def body_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Return a batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with refusing("packed slices", "they cannot be packed"):
        with pa.ipc.new_stream(sink, batch.schema, options=OPTIONS) as stream:
            stream.write_batch(batch)
        return sink.getvalue()


def pack(kind: int, batch: pa.RecordBatch, plan: bytes, bucket: int) -> bytes:
    """Return a batch of slices or rows as a chunk.

    Parameters
    ----------
    kind : int
        `SLICES` or `ROWS`.
    batch : pyarrow.RecordBatch
    plan : bytes
        Its `fingerprint`.
    bucket : int

    Examples
    --------
    >>> batch = pa.record_batch({"key0": ["a"], "start": [10]})
    >>> kind, again = unpack(pack(SLICES, batch, bytes(8), 3), bytes(8), 3)
    >>> kind == SLICES and again.equals(batch)
    True
    """
    body = body_of(batch)
    return b"".join([header(kind, body, plan, bucket), body])


def header(kind: int, body: pa.Buffer, plan: bytes, bucket: int) -> bytes:
    """Return what precedes the Arrow IPC stream of one batch in a chunk."""
    version = _native.__version__.encode()
    fields = (MAGIC, FORMAT, kind, len(version), plan, bucket, len(body))
    checksum = zlib.crc32(body, zlib.crc32(HEADER.pack(*fields, 0) + version))
    return HEADER.pack(*fields, checksum) + version


def unpack(
    chunk: bytes | memoryview, plan: bytes, bucket: int | None, *, is_kept: bool = False
) -> tuple[int, pa.RecordBatch]:
    """Return what a chunk holds, `SLICES` or `ROWS`, and the batch.

    Parameters
    ----------
    chunk : bytes or memoryview
        The batch refers to its memory.
    plan : bytes
        The fingerprint that it must have.
    bucket : int or None
        The bucket of its row, None where that was lost.
    is_kept : bool
        Another version of windowkit, or of Arrow, whose schemas have other bytes, may have written it: what
        a stream keeps outlives releases. Whoever keeps it knows which query it belongs to.

    Raises
    ------
    InvalidValue
        The chunk is not as it was written, is not a chunk, or is in another bucket; or another version of
        windowkit, or another query, wrote it; or its batch is malformed.
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
    *fields, checksum = HEADER.unpack_from(chunk)
    _, _, kind, writer, fingerprinted, own, length = fields
    body = HEADER.size + writer
    if len(chunk) != body + length:
        raise InvalidValue(
            f"packed slices: a chunk of {len(chunk)} bytes is given; its header says {body + length}"
        )
    found = zlib.crc32(chunk[HEADER.size :], zlib.crc32(HEADER.pack(*fields, 0)))
    if found != checksum:
        raise InvalidValue(
            f"packed slices: a chunk of {len(chunk)} bytes has checksum {found:08x}; {checksum:08x} was "
            "written, so it was damaged on its way"
        )
    wrote = bytes(chunk[HEADER.size : body]).decode(errors="replace")
    if wrote != _native.__version__ and not is_kept:
        raise InvalidValue(
            f"packed slices: windowkit {wrote} wrote a chunk, and {_native.__version__} reads it; all "
            "workers of a job have one version"
        )
    if fingerprinted != plan and not is_kept:
        raise InvalidValue(
            f"packed slices: a chunk is of plan {fingerprinted.hex()}; the query's is {plan.hex()}"
        )
    if own != bucket:
        raise InvalidValue(
            f"packed slices: a chunk of bucket {own} came with bucket {bucket}, so its row was damaged"
        )
    try:
        with (
            refusing("packed slices", "a chunk cannot be read"),
            pa.ipc.open_stream(pa.py_buffer(chunk[body:]), options=READING) as stream,
        ):
            # Strings need not be UTF-8, as in Spark; offsets are checked where the batch is pushed.
            return kind, checked("packed slices", stream.read_next_batch(), full=False)
    except (OSError, StopIteration, UnicodeDecodeError) as error:
        raise InvalidValue(
            f"packed slices: a chunk cannot be read ({error}); a chunk holds an Arrow IPC stream"
        ) from error


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
