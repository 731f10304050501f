"""Some rows of a table, of columns of any types: pyarrow does not filter all types of its own."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from windowkit import _native

__all__ = ["kept"]

ANY: Final = _native.Distinct(pa.schema([("t", pa.int64())]), (), "t", 1, "first")
"""What has the core's filter, which is that of any table."""


def kept(table: pa.Table, rows: pa.ChunkedArray) -> pa.Table:
    """Return the rows of a table for which booleans are true."""
    return pa.RecordBatchReader.from_stream(ANY.filter(table, rows.combine_chunks())).read_all()
