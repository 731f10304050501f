"""Whether Arrow data is what it says: checked here, by pyarrow, before the native core imports it.

Arrays of pyarrow know how long their buffers are, so those and the last offsets tell, whatever the
number of rows, whether their lengths are true. The C data interface, by which the core imports them,
has no lengths of buffers. The core in turn checks each offset, view and dictionary code that it reads.
Text that is not UTF-8, wrong counts of nulls and decimals with too many digits are found only by reading
every value: a full validation, for data whose producer is not trusted.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

import pyarrow as pa

from windowkit._columns import is_a
from windowkit.checks import boolean
from windowkit.errors import InvalidValue

__all__ = ["TABLES", "checked", "foreign_column", "from_elsewhere"]

TABLES: Final = (pa.Table, pa.RecordBatch)
"""Classes of data that is there as a whole."""

Data = TypeVar("Data", pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)


def checked(argument: str, data: Data, full: bool) -> Data:
    r"""Return Arrow data whose buffers are as long as they need to be; if `full`, all values are valid.

    Parameters
    ----------
    argument : str
        What errors call it.
    data : pyarrow.Table, RecordBatch, Array or ChunkedArray
    full : bool
        Look at every value.

    Raises
    ------
    InvalidValue
        It is malformed; with the column, and how.

    Examples
    --------
    >>> text = pa.array(["a", "é"])
    >>> checked("array", text, full=True) is text
    True
    >>> checked("array", pa.array([b"a", b"\xff"]).view(pa.string()), full=True)
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidValue: array: malformed Arrow data: Invalid UTF8 sequence at string index 1
    """
    try:
        data.validate(full=full)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as error:
        if not isinstance(data, pa.Table | pa.RecordBatch):
            raise InvalidValue(f"{argument}: malformed Arrow data: {error}") from None
        for name, column in zip(data.schema.names, data.columns, strict=True):
            checked(f"{argument}: column {name!r}", column, full)
        raise InvalidValue(f"{argument}: malformed Arrow data: {error}") from None
    return data


def from_elsewhere(data: Any, validate: bool | None) -> bool:
    """Return `validate`; if it is None, whether the bytes of `data` may come from a file or from the network.

    Those of a reader may: the readers of datasets, of IPC files, of Flight and of a generator are all of one
    class, which does not say where batches come from. A table or a batch was made in this process.

    Examples
    --------
    >>> table = pa.table({"v": ["a"]})
    >>> from_elsewhere(table.to_reader(), None), from_elsewhere(table, None), from_elsewhere(table, True)
    (True, False, True)
    """
    if validate is not None:
        return boolean("validate", validate)
    # Looking through an object's classes takes longer than small pushes should.
    return not isinstance(data, TABLES) and (
        isinstance(data, pa.RecordBatchReader) or is_a(data, "pyarrow", "MetadataRecordBatchReader")
    )


def foreign_column(argument: str, data: Any, validate: bool) -> pa.Array | pa.ChunkedArray:
    """Return a column as pyarrow's, which checks lengths that the core trusts; `validate` checks it all."""
    full = boolean("validate", validate)
    if not isinstance(data, pa.Array | pa.ChunkedArray):
        try:
            data = pa.array(data) if hasattr(data, "__arrow_c_array__") else pa.chunked_array(data)
        except pa.ArrowInvalid as error:
            raise InvalidValue(f"{argument}: malformed Arrow data: {error}") from error
    return checked(argument, data, full)
