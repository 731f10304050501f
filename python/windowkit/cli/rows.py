"""Rows of files that the command reads and writes in this process, with its progress."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

from windowkit.cli.inputs import Input
from windowkit.cli.paths import JobError
from windowkit.cli.tables import Table
from windowkit.cli.terminal import STDERR, say

if TYPE_CHECKING:
    from tqdm import tqdm

__all__ = ["Times", "counted", "progress", "write"]

# Rows in a row group of Parquet output, at most: what readers skip and share out by.
ROW_GROUP_ROWS: Final = 2**20


class Forward(io.RawIOBase):
    """A file that is only written to, and says how much of it there is, even if it is a pipe.

    What is given stays open.
    """

    def __init__(self, file: IO[bytes] | io.FileIO) -> None:
        self._file, self._written = file, 0

    def writable(self) -> bool:
        """Return that it is written to."""
        return True

    def write(self, data: Any) -> int:
        """Write all of the bytes."""
        left = memoryview(data)
        while left:
            left = left[self._file.write(left) :]
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._written


@dataclass
class Times:
    """How many rows of an input were read, and how many of these have no time.

    Parameters
    ----------
    table : Table
    input : Input
    rows, without : int
    """

    table: Table
    input: Input
    rows: int = 0
    without: int = 0

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read some columns, among them that of times, of the rows that all filters of the input hold of."""
        for batch in self.table.batches(names, self.input.filters):
            self.rows += batch.num_rows
            self.without += batch.column(self.input.reads.time).null_count
            yield batch

    def explain(self) -> str:
        """Read the times alone, and say how many rows have none."""
        with self.input.naming():
            for _ in self.batches([self.input.reads.time]):
                pass
        return (
            f"rows without a time in column {self.input.reads.time!r} of {self.input.option}: "
            f"{self.without:,} of {self.rows:,}"
        )

    def warn(self) -> None:
        """Write to stderr that no row has a time, if so, as where text was parsed in another format."""
        if self.rows and self.without == self.rows:
            warned = (
                f"{self.input.option}: none of its {self.rows:,} rows has a time in column "
                f"{self.input.reads.time!r}; a row without a time is in no window, and has no partner"
            )
            say(f"windowkit: warning: {warned}")


@contextmanager
def progress(times: Times, always: bool) -> Iterator[pa.RecordBatchReader]:
    """Read the rows of an input that a job reads, and show on stderr how far it has got."""
    table, given = times.table, times.input
    names = given.reads.of(table.schema.names)
    shown = always or STDERR.isatty()
    # Parquet says in its footers how many rows it has; to count those of CSV would be to read it again.
    parquet = isinstance(table.data.format, pyarrow.dataset.ParquetFileFormat)
    total = table.data.count_rows() if shown and parquet and not given.filters else None
    with bar_of("rows", shown, total) as bar:

        def batches() -> Iterator[pa.RecordBatch]:
            with given.naming():
                for batch in times.batches(names):
                    yield batch
                    bar.update(batch.num_rows)

        schema = pa.schema([table.schema.field(name) for name in names])
        yield pa.RecordBatchReader.from_batches(schema, batches())


def counted(batches: pa.RecordBatchReader, what: str, always: bool) -> pa.RecordBatchReader:
    """Pass batches on, and show on stderr how many windows, or rows, have been written."""

    def passed_on() -> Iterator[pa.RecordBatch]:
        with bar_of(what, always or STDERR.isatty()) as bar:
            for batch in batches:
                yield batch
                bar.update(batch.num_rows)

    return pa.RecordBatchReader.from_batches(batches.schema, passed_on())


def bar_of(what: str, shown: bool, total: int | None = None) -> tqdm:
    """Return what shows on stderr how many of something there have been, of so many in all."""
    try:
        from tqdm import tqdm
    except ValueError as error:
        # It reads its variables as it is imported.
        raise JobError(
            f"TQDM_...: a variable of the environment has a value that tqdm refuses ({error})"
        ) from None
    return tqdm(total=total, unit=f" {what}", unit_scale=True, disable=not shown, file=STDERR)


def write(
    batches: pa.RecordBatchReader, file: IO[bytes] | io.FileIO, kind: str, *, is_stream: bool = False
) -> None:
    """Write batches to a new file, a row group at a time, or to a stream."""
    target = pa.PythonFile(Forward(file), mode="w")
    if kind == "arrow":
        new = pa.ipc.new_stream if is_stream else pa.ipc.new_file
        writer = new(target, batches.schema)
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
