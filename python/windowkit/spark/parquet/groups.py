"""Row groups by their footer: which lie in a part of a file, and how many rows of one are a batch."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from windowkit.errors import InvalidValue
from windowkit.files.listing import Part

__all__ = ["DAMAGED", "check", "leaves", "rows_of_batch", "size", "unreadable", "within"]

DAMAGED: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What pyarrow raises of a file that it cannot read; the last where a name in it is not UTF-8."""
BATCH_ROWS: Final = 1 << 16
BATCH_BYTES: Final = 16 << 20
"""Rows of a batch, and about their bytes at most."""
REPEATED_BYTES: Final = 64 << 20
"""Bytes of a batch in which each string is as long as the longest that is stored once for many rows."""
TEXTS: Final = ("STRING", "JSON", "BSON", "ENUM", "NONE")
"""Logical types of strings and binary, which may be as long as they like."""


def unreadable(path: str, error: BaseException) -> InvalidValue | MemoryError:
    """Return what is raised for a file of which pyarrow raises one of `DAMAGED`."""
    # Memory may be short, or a damaged file may ask for too much of it: the text says how much it was.
    kind = MemoryError if isinstance(error, MemoryError) else InvalidValue
    return kind(f"paths: {path!r} cannot be read as Parquet: {error}")


def within(opened: ds.ParquetFileFragment, part: Part) -> list[int]:
    """Return the row groups whose middle lies in the part, so that each is in exactly one.

    Each group is taken for as large a share of the file as its values are of all values: where its bytes are
    is said of each of its columns, of which there may be many.
    """
    metadata = opened.metadata
    sizes = [max(metadata.row_group(at).total_byte_size, 0) + 1 for at in range(metadata.num_row_groups)]
    groups, before = [], 0
    for group, size in enumerate(sizes):
        if part.start <= part.file.size * (2 * before + size) // (2 * sum(sizes)) < part.end:
            groups.append(group)
        before += size
    return groups


def leaves(metadata: pq.FileMetaData, names: Iterable[str]) -> list[int]:
    """Return the numbers of what is stored of columns; several of a struct, say."""
    starts = tuple(f"{name}." for name in names)
    paths = [f"{metadata.schema.column(at).path}." for at in range(metadata.num_columns)]
    return [at for at, path in enumerate(paths) if path.startswith(starts)]


class Nothing(io.RawIOBase):
    """A file in which any byte seems to be, and none is."""

    def __init__(self) -> None:
        super().__init__()
        self._at = 0

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go anywhere; the end is far away."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: 1 << 62}[whence]
        return self._at

    def tell(self) -> int:
        """Return where that is."""
        return self._at

    def seekable(self) -> bool:
        """As any file is."""
        return True

    def readable(self) -> bool:
        """As any file is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return nothing."""
        return b""


def check(opened: ds.ParquetFileFragment, names: Iterable[str]) -> None:
    """Refuse a file whose footer says of columns what cannot be.

    Asking pyarrow for such a column of a row group ends the process: its constructor throws, which only its
    own reader handles. That reader makes the same objects before it reads, so it is given nothing to read.

    Raises
    ------
    InvalidValue
        There is such a column.
    """
    groups, columns = [group.id for group in opened.row_groups], list(names)
    if not groups or not columns:
        return
    # A buffered stream reads when it is asked for bytes; else all of a column is read at once.
    file = pq.ParquetFile(
        pa.PythonFile(Nothing(), "r"), metadata=opened.metadata, pre_buffer=False, buffer_size=1 << 12
    )
    try:
        file.read_row_groups(groups, columns=columns, use_threads=False)
    except DAMAGED as error:
        raise unreadable(opened.path, error) from error
    metadata = opened.metadata
    for column in leaves(metadata, columns):
        stored = metadata.schema.column(column)
        for group in groups:
            # Statistics of another type are the other thing that ends the process.
            given = metadata.row_group(group).column(column).physical_type
            if given != stored.physical_type:
                raise InvalidValue(
                    f"paths: {opened.path!r} cannot be read: column {stored.path!r} is "
                    f"{stored.physical_type}, but {given} in row group {group}"
                )


def size(metadata: pq.FileMetaData, group: int, columns: list[int]) -> int:
    """Return the bytes of what is stored of columns in a row group, decompressed, as the footer has it."""
    chunks = map(metadata.row_group(group).column, columns)
    # What is decompressed is hardly less, whatever a footer says.
    return sum(int(max(chunk.total_uncompressed_size, chunk.total_compressed_size, 0)) for chunk in chunks)


def rows_of_batch(source: pa.NativeFile, metadata: pq.FileMetaData, group: int, columns: list[int]) -> int:
    """Return how many rows of a group make a batch whose bytes are bounded.

    By the sizes in the footer, where a string that many rows share counts once: so the strings of
    dictionaries are looked at.
    """
    total: int = metadata.row_group(group).num_rows
    rows = min(max(BATCH_BYTES * total // max(size(metadata, group, columns), 1), 1), BATCH_ROWS)
    longest = sum(repeated(source, metadata, group, column, rows) for column in columns)
    return max(min(rows, REPEATED_BYTES // max(longest, 1)), 1)


def repeated(source: pa.NativeFile, metadata: pq.FileMetaData, group: int, column: int, rows: int) -> int:
    """Return the bytes of one row at most, as far as a dictionary has them; 0 if so many rows are few."""
    stored, chunk = metadata.schema.column(column), metadata.row_group(group).column(column)
    coded = any(encoding.endswith("DICTIONARY") for encoding in chunk.encodings)
    if not coded or stored.physical_type not in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        return 0
    # Values of a row: several in a list.
    each: int = -(-chunk.num_values // max(metadata.row_group(group).num_rows, 1))
    if stored.physical_type == "FIXED_LEN_BYTE_ARRAY":
        return each * int(stored.length)
    most = max(chunk.total_uncompressed_size, chunk.total_compressed_size)
    if stored.logical_type.type not in TEXTS or rows * each * most <= REPEATED_BYTES:
        return 0
    # The first row comes with the whole dictionary.
    file = pq.ParquetFile(
        source, metadata=metadata, read_dictionary=[stored.path], pre_buffer=False, buffer_size=1 << 16
    )
    first = next(file.iter_batches(1, row_groups=[group], columns=[stored.path], use_threads=False), None)
    found = [] if first is None else [longest(texts) for texts in dictionaries(first.column(0))]
    return each * max(found, default=0)


def dictionaries(column: Any) -> Iterator[pa.Array]:
    """Yield the dictionaries of a column, also within lists and structs."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        yield column.dictionary
    elif pa.types.is_struct(kind):
        for at in range(kind.num_fields):
            yield from dictionaries(column.field(at))
    elif pa.types.is_nested(kind):
        yield from dictionaries(column.values)


def longest(texts: pa.Array) -> int:
    """Return the bytes of the longest of them."""
    return int(pc.max(pc.binary_length(texts)).as_py() or 0)
