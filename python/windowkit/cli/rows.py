"""Rows of files that the command reads and writes in this process, with its progress."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from windowkit.cli.paths import ArgumentsError
from windowkit.files import listing
from windowkit.files.comparisons import compared, parse
from windowkit.language.checks import suggested
from windowkit.language.query import Query

__all__ = ["Forward", "chosen_of", "counted", "dataset", "inputs", "progress", "write"]

MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(?P<fraction>\.\d+)?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?$"
)
INPUTS: Final = {
    # Without the unit nanoseconds wrap, which hold no time after 2262.
    "parquet": pyarrow.dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    "csv": pyarrow.dataset.CsvFileFormat(),
    "arrow": pyarrow.dataset.IpcFileFormat(),
}
# Rows in a row group of Parquet output, at most: what readers skip and share out by.
ROW_GROUP_ROWS: Final = 2**20


def chosen_of(filters: Sequence[str], schema: pa.Schema) -> pyarrow.dataset.Expression | None:
    """Return comparisons, all of which must hold, as an expression; None if there are none."""
    made = []
    for each in filters:
        name, operator, value = parse(each)
        if name not in schema.names:
            raise ArgumentsError(
                f"--filter: there is no column {name!r}; columns are {', '.join(map(repr, schema.names))}"
                f"{suggested(name, schema.names)}"
            )
        # Times without a zone are those of UTC, as those of windows are.
        made.append(compared(name, operator, value, compared_as(schema.field(name).type), "UTC"))
    return reduce(and_, made) if made else None


def compared_as(kind: pa.DataType) -> pa.DataType:
    """Return the type in which a column is compared with strings: for times perhaps a finer one."""
    if pa.types.is_dictionary(kind):
        return compared_as(kind.value_type)
    if pa.types.is_date64(kind) or (pa.types.is_timestamp(kind) and kind.tz is None):
        return pa.timestamp("us")
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    return kind


def inputs(data: pyarrow.dataset.Dataset, made: Query) -> pa.Schema:
    """Return the columns there are, with a time column of strings as the times that these state."""
    at = data.schema.get_field_index(made.time)
    if at < 0 or not (
        pa.types.is_string(kind := data.schema.field(at).type) or pa.types.is_large_string(kind)
    ):
        return data.schema
    strings = (each for batch in data.to_batches(columns=[made.time]) for each in batch.column(0).drop_null())
    first = next(strings, None)
    # Which of both they are, the first one says; another is an error.
    found = None if first is None else MOMENT.match(first.as_py())
    if found is None:
        return data.schema
    unit = "us" if len(found["fraction"] or "") <= 7 else "ns"
    return data.schema.set(at, pa.field(made.time, pa.timestamp(unit, "UTC" if found["zone"] else None)))


class Forward(io.RawIOBase):
    """A file that is only written to, and says how much of it there is, even if it is a pipe."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._written = file, 0

    def writable(self) -> bool:
        """Return that it is written to."""
        return True

    def write(self, data: Any) -> int:
        """Write all of the bytes."""
        self._file.write(data)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written


def dataset(paths: Sequence[Path], kind: str) -> pyarrow.dataset.Dataset:
    """Return the files of paths as one table, with columns of their directories."""
    source = listing.found([str(path.absolute()) for path in paths], deep=True)
    own = INPUTS[kind]
    fragments = [
        own.make_fragment(
            file.path,
            source.filesystem,
            partition_expression=listing.partition_expression(file, source.partitioned),
        )
        for file in source.files
    ]
    try:
        own_columns = fragments[0].physical_schema
    except pa.ArrowInvalid as error:
        if kind != "arrow":
            raise
        raise ArgumentsError(
            f"--input: {error}; files of Arrow's file format are read, as --output writes them, and no "
            "streams, as they are written to stdout"
        ) from None
    # What directories say goes before a column of that name in files.
    columns = {field.name: field for field in [*own_columns, *source.partitioned]}
    schema = pa.schema(list(columns.values()))
    return pyarrow.dataset.FileSystemDataset(fragments, schema, own, source.filesystem)


@contextmanager
def progress(
    data: pyarrow.dataset.Dataset,
    read: pa.Schema,
    chosen: pyarrow.dataset.Expression | None,
    always: bool,
) -> Iterator[pa.RecordBatchReader]:
    """Read rows with the types of `read`, and show on stderr how far it has got."""
    from tqdm import tqdm

    field = pyarrow.dataset.field
    columns = {
        each.name: field(each.name)
        if each.type == data.schema.field(each.name).type
        else field(each.name).cast(each.type)
        for each in read
    }
    scanner = data.scanner(columns=columns, filter=chosen)
    shown = always or sys.stderr.isatty()
    # Parquet says in its footers how many rows it has; to count those of CSV would be to read it twice.
    parquet = isinstance(data.format, pyarrow.dataset.ParquetFileFormat)
    total = data.count_rows() if shown and parquet and chosen is None else None
    with tqdm(total=total, unit=" rows", unit_scale=True, disable=not shown, file=sys.stderr) as bar:

        def batches() -> Iterator[pa.RecordBatch]:
            for batch in scanner.to_batches():
                yield batch
                bar.update(batch.num_rows)

        yield pa.RecordBatchReader.from_batches(scanner.projected_schema, batches())


def counted(batches: pa.RecordBatchReader, always: bool) -> pa.RecordBatchReader:
    """Pass batches on, and show on stderr how many windows have been written."""
    from tqdm import tqdm

    def passed_on() -> Iterator[pa.RecordBatch]:
        shown = always or sys.stderr.isatty()
        with tqdm(unit=" windows", unit_scale=True, disable=not shown, file=sys.stderr) as bar:
            for batch in batches:
                yield batch
                bar.update(batch.num_rows)

    return pa.RecordBatchReader.from_batches(batches.schema, passed_on())


def write(
    batches: pa.RecordBatchReader, target: Path | pa.NativeFile, kind: str, *, is_stream: bool = False
) -> None:
    """Write batches to a new file, a row group at a time, or to a stream."""
    if kind == "arrow":
        new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
        writer = new(target if is_stream else str(target), batches.schema)
    elif kind == "parquet":
        writer = pyarrow.parquet.ParquetWriter(target, batches.schema)
    else:
        writer = pyarrow.csv.CSVWriter(target, batches.schema)
    with writer:
        for table in gathered(batches):
            writer.write_table(table)


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the batches as tables of about `ROW_GROUP_ROWS` rows."""
    gathering: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        gathering.append(batch)
        rows += batch.num_rows
        if rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(gathering)
            gathering, rows = [], 0
    if gathering:
        yield pa.Table.from_batches(gathering)
