"""Whether Arrow data is what it says: checked here, by pyarrow, before the native core imports it.

Arrays of pyarrow know how long their buffers are, so those and the last offsets tell, whatever the
number of rows, whether their lengths are true. The C data interface, by which the core imports them,
has no lengths of buffers. The core in turn checks each offset, view and dictionary code that it reads.
Text that is not UTF-8, wrong counts of nulls and decimals with too many digits are found only by reading
every value: a full validation, for data whose producer is not trusted.

Here, too, what pyarrow raises as it reads a user's data becomes what windowkit raises: `refusing`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Final, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.columns import is_null, names_of, part, refuse_mixed_times, values_at
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, boolean
from windowkit.language.foreign import is_a

__all__ = ["TABLES", "checked", "foreign_column", "from_elsewhere", "imported", "is_held", "refusing"]

TABLES: Final = (pa.Table, pa.RecordBatch)
"""Classes of data that is there as a whole."""

Data = TypeVar("Data", pa.Table, pa.RecordBatch, pa.Array, pa.ChunkedArray)
Made = TypeVar("Made")

FLAT: Final = frozenset(
    type(pa.nulls(0, kind))
    for kind in (
        *(pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(
            pa.uint8(),
            pa.uint16(),
            pa.uint32(),
            pa.uint64(),
            pa.timestamp("us"),
            pa.date32(),
            pa.duration("us"),
        ),
        *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.decimal128(1)),
    )
)
"""Classes of arrays without others within them, for those that small batches mostly have."""
MOST: Final = 1 << 60
"""No array has more values: not even bits, in all memory that there are addresses for."""

DEEPEST: Final = 64
"""How many types are within each other at most, as in streams of Arrow's C interface."""

MALFORMED: Final = "malformed Arrow data"
CONVERSIONS: Final = (TypeError, ValueError, OverflowError, NotImplementedError)
"""What is raised where values are not converted to Arrow's, by pyarrow, too."""
UNKNOWN: Final = re.compile("unsupported format string")
"""What pyarrow says of types of Arrow that it does not have, such as integers of 128 bits."""
CONVERTED: Final = re.compile(r"conversion error|truncated converting|Failed to parse|Unsupported cast")
"""What pyarrow says of values that are not of the type that a column has in the first file."""
INTERRUPT: Final = re.compile(r"Python exception: .*^KeyboardInterrupt\b", re.DOTALL | re.MULTILINE)
"""What is left of Ctrl-C where a Python generator is behind a C stream, as these carry errors as text."""


class refusing:  # noqa: N801 (it is used as a function is)
    """What pyarrow raises in this block is raised as what windowkit raises, with pyarrow's as its cause.

    Whatever is not pyarrow's is raised as it is: what the user's own objects and signal handlers raise, and
    ``OSError``, which pyarrow raises as Python does.

    Parameters
    ----------
    argument : str
        What errors call the data.
    what : str
        What is wrong with it.
    converts : str
        What is advised if a value was not converted to its type.

    Raises
    ------
    InvalidValue
        pyarrow refuses the data.
    MemoryError
        pyarrow has no memory for it.

    Examples
    --------
    >>> with refusing("data"):  # doctest: +ELLIPSIS
    ...     pa.array(["x"]).cast(pa.int64())
    Traceback (most recent call last):
    ...
    windowkit.errors.InvalidValue: data: malformed Arrow data: Failed to parse string: 'x' as a scalar of ...
    """

    def __init__(self, argument: str, what: str = MALFORMED, converts: str = "") -> None:
        self.argument, self.what, self.converts = argument, what, converts

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, pa.ArrowException | OSError) or isinstance(error, pa.ArrowCancelled):
            return
        if INTERRUPT.search(str(error)):
            raise KeyboardInterrupt from error
        if isinstance(error, MemoryError):
            raise MemoryError(f"{self.argument}: {error}") from error
        if isinstance(error, pa.ArrowException):
            hint = f"; {self.converts}" if self.converts and CONVERTED.search(str(error)) else ""
            raise InvalidValue(f"{self.argument}: {self.what}: {error}{hint}") from error


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
    with refusing(argument):
        check_offsets(argument, data)
        try:
            data.validate(full=full)
        except (pa.ArrowInvalid, pa.ArrowIndexError):
            if isinstance(data, TABLES):
                # One of the columns says more.
                for name, column in zip(data.schema.names, data.columns, strict=True):
                    checked(f"{argument}: column {name!r}", column, full)
            raise
    return data


def check_offsets(argument: str, data: Data) -> None:
    """Refuse offsets that cannot be: pyarrow and the core, which trust them, would read beyond the array."""
    columns = data.columns if isinstance(data, TABLES) else [data]
    for at, column in enumerate(columns):
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            for array, depth in ((chunk, 0),) if type(chunk) in FLAT else nested(chunk):
                if depth <= DEEPEST and 0 <= array.offset <= MOST:
                    continue
                of = f": column {data.schema.names[at]!r}" if isinstance(data, TABLES) else ""
                if depth > DEEPEST:
                    raise InvalidType(
                        f"{argument}{of}: its types are within each other; allowed are {DEEPEST}"
                    )
                raise InvalidValue(f"{argument}{of}: {MALFORMED}: an array has the offset {array.offset}")


def nested(array: pa.Array) -> Iterator[tuple[pa.Array, int]]:
    """Yield an array and those within it, with their depth, as long as their own offsets can be."""
    waiting = [(array, 0)]
    while waiting:
        array, depth = waiting.pop()
        yield array, depth
        if 0 <= array.offset <= MOST:
            waiting += ((each, depth + 1) for each in within(array))


def within(array: pa.Array) -> list[pa.Array]:
    """Return the arrays that an array consists of."""
    kind = array.type
    inner: list[pa.Array] = []
    if isinstance(array, pa.ExtensionArray):
        inner = [array.storage]
    elif pa.types.is_dictionary(kind):
        inner = [array.dictionary]
    elif pa.types.is_run_end_encoded(kind):
        inner = [array.run_ends, array.values]
    elif pa.types.is_map(kind):
        inner = [array.keys, array.items]
    elif pa.types.is_struct(kind) or pa.types.is_union(kind):
        inner = [array.field(at) for at in range(kind.num_fields)]
    elif pa.types.is_nested(kind):
        inner = [array.values]
    return inner


def unheld(argument: str, data: Any, method: str, error: Exception) -> InvalidType | InvalidValue:
    """Return what is raised where Arrow, or pyarrow, has none of what a DataFrame or Series holds."""
    is_table = is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame")
    names = list(map(str, names_of(data))) if is_table else []
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return InvalidValue(
            f"{argument}: it has {names.count(twice)} columns {twice!r}, and Arrow finds columns by name; "
            "rename or drop others than one"
        )
    at = next((at for at in range(len(names)) if not is_held(part(data, [at]), method)), None)
    of = "" if at is None else f": column {names[at]!r}"
    library = "pandas" if is_a(data, "pandas", "DataFrame", "Series") else "Polars"
    kind = InvalidType if isinstance(error, TypeError | NotImplementedError) else InvalidValue
    # Of text, the first argument is an encoding.
    why = error.reason if isinstance(error, UnicodeEncodeError) else error.args[0]
    way = way_out(values_at(data, at)) if at is not None and library == "pandas" else ""
    return kind(f"{argument}{of}: it is of {library}, and Arrow does not hold it: {why}{way}")


def way_out(values: Any) -> str:
    """Return what a message adds of a column of pandas: how it becomes one that Arrow holds, if it may."""
    held = [(row, values[row]) for row, is_missing in enumerate(is_null(values)) if not is_missing]
    other = next((row for row, each in held if type(each) is not type(held[0][1])), None)
    if other is None:
        return next((way for row, each in held if (way := of_value(row, each))), "")
    first, second = (f"row {row} has {a_type(values[row])}" for row in (held[0][0], other))
    return f"; {first}, and {second}: make all of one type, as by .astype(str)"


def of_value(row: int, value: Any) -> str:
    """Return what a message says of a value that Arrow does not hold, and nothing of others."""
    if isinstance(value, complex):
        return f"; row {row} has {value}: take a number of each, as by numpy.abs(...) or numpy.real(...)"
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return (
            f"; row {row} has an int of more than 64 bits: make all decimals, as by .map(decimal.Decimal), "
            "or text, as by .astype(str)"
        )
    if isinstance(value, str) and any("\ud800" <= each <= "\udfff" for each in value):
        return (
            f"; row {row} has {value!r}, which is half of a character: replace it, as by "
            ".str.encode('utf-8', 'replace').str.decode('utf-8')"
        )
    return ""


def refuse_objects(argument: str, data: Any) -> None:
    """Refuse objects of Python that a DataFrame or Series of Polars holds.

    In Arrow data, Polars has the addresses of the objects in their place. They are in no other type.
    """
    if not is_a(data, "polars", "DataFrame", "Series"):
        return
    kinds = data.schema if hasattr(data, "schema") else {data.name: data.dtype}
    for name, kind in kinds.items():
        if kind.is_object():
            raise InvalidType(
                f"{argument}: column {name!r}: it is of Polars, and Arrow does not hold it: its values are "
                f"objects of Python; make it text, as by polars.Series({name!r}, [*map(str, series)]), or a "
                "column of the type that all of them have"
            )


def is_held(frame: Any, method: str) -> bool:
    """Whether pyarrow has what a DataFrame holds."""
    try:
        refuse_objects("frame", frame)
        reader = pa.RecordBatchReader.from_stream(Handed(method, getattr(frame, method)()))
        if is_a(frame, "pandas", "DataFrame"):
            refuse_mixed_times("frame", frame, reader)
    except (*CONVERSIONS, pa.ArrowException):
        return False
    return True


class Handed:
    """The capsules that an object handed over by one of the methods of Arrow's interface."""

    def __init__(self, method: str, capsules: Any) -> None:
        setattr(self, method, lambda requested=None: capsules)


def imported(argument: str, data: Any, method: str, take: Callable[[Any], Made]) -> Made:
    """Return what a function of pyarrow makes of what an object hands over by a method of Arrow's interface.

    What the object itself raises meanwhile is raised as it is, unless that is pyarrow's.

    Raises
    ------
    InvalidValue
        It does not hand over what the method should return, or what is malformed; or Arrow has none of what a
        DataFrame holds.
    """
    with refusing(argument):
        is_frame = any(is_a(data, each, "DataFrame", "Series") for each in ("pandas", "polars"))
        refuse_objects(argument, data)
        try:
            capsules = getattr(data, method)()
        except CONVERSIONS as error:
            if not is_frame:
                raise
            # Of pyarrow, which pandas calls: mixed objects, names given twice, sparse columns.
            raise unheld(argument, data, method, error) from error
        # Where numbers of fields cannot be, pyarrow ends the process.
        _native.check_schema(argument, capsules)
        try:
            made = take(Handed(method, capsules))
        except pa.ArrowInvalid as error:
            if not is_frame or not UNKNOWN.search(str(error)):
                raise
            raise unheld(argument, data, method, error) from error
        except pa.ArrowException:
            raise
        except (TypeError, ValueError) as error:
            # As the object is no longer asked, this is pyarrow's.
            raise InvalidValue(f"{argument}: {MALFORMED}: {error}") from error
    if is_a(data, "pandas", "DataFrame"):
        refuse_mixed_times(argument, data, made)
    return made


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
        isinstance(data, pa.RecordBatchReader)
        or is_a(data, "pyarrow", "MetadataRecordBatchReader", "Dataset")
    )


def foreign_column(argument: str, data: Any, validate: bool) -> pa.Array | pa.ChunkedArray:
    """Return a column as pyarrow's, which checks lengths that the core trusts; `validate` checks it all."""
    full = boolean("validate", validate)
    if not isinstance(data, pa.Array | pa.ChunkedArray):
        if hasattr(data, "__arrow_c_array__"):
            data = imported(argument, data, "__arrow_c_array__", pa.array)
        else:
            data = imported(argument, data, "__arrow_c_stream__", pa.chunked_array)
    return checked(argument, data, full)
