"""The command ``windowkit``: queries over files, in this process or in Spark.

Exit status is 0, 2 for arguments that are refused, or 1 for a job that fails, either with one line on stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

import windowkit
from windowkit import aggregates, files, local, windows
from windowkit.cli_paths import (
    ArgumentsError,
    JobError,
    format_of,
    format_of_input,
    refuse_csv,
    refuse_output,
    replacing,
    structs,
)
from windowkit.errors import WindowKitError
from windowkit.query import MAX_WINDOWS, Query, query
from windowkit.windows import split, unquoted

__all__ = ["ArgumentsError", "JobError", "main"]

REFUSED: Final = 2
FAILED: Final = 1
INTERRUPTED: Final = 130
INPUTS: Final = {
    # Without the unit nanoseconds wrap, which hold no time after 2262.
    "parquet": pyarrow.dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    "csv": pyarrow.dataset.CsvFileFormat(),
}
# Rows in a row group of Parquet output, at most: what readers skip and share out by.
ROW_GROUP_ROWS: Final = 2**20


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); return its exit status.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    arguments = parser().parse_args(argv)
    status = REFUSED
    try:
        run: Callable[[], None] = arguments.prepare(arguments)
        status = FAILED
        run()
    except (ArgumentsError, JobError, WindowKitError, OSError, pa.ArrowException) as error:
        return complain(error, status)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    return 0


def complain(error: object, status: int) -> int:
    print(f"windowkit: error: {' '.join(str(error).split())}", file=sys.stderr)
    return status


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message}; see {self.prog} --help", REFUSED))


def parser() -> Parser:
    """Return the parser of the command line."""
    top = Parser(
        prog="windowkit", description="Window aggregation over Arrow data, in this process or in Spark."
    )
    top.add_argument("--version", action="version", version=f"windowkit {windowkit.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "aggregate",
        help="aggregate the rows of a file or directory in windows",
        description="Aggregate the rows of a Parquet or CSV file, or of a directory of them, in windows.",
        epilog=f"{windows.WINDOW_FORMS}. {aggregates.AGGREGATE_FORMS}. In CSV output the window is two "
        "columns, window_start and window_end.",
        allow_abbrev=False,
    )
    one.set_defaults(prepare=prepare)
    add = one.add_argument
    add(
        "--input", required=True, metavar="PATH", help="a .parquet or .csv file, or a directory of such files"
    )
    add("--output", metavar="PATH", help="a file to write (with --engine spark a directory)")
    add(
        "--by",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="key columns, comma-separated; repeatable",
    )
    add(
        "--time",
        required=True,
        metavar="COLUMN",
        help="the column of timestamps, dates, durations or integers",
    )
    add("--window", action="append", required=True, metavar="WINDOW", help="repeatable; see below")
    add("--agg", action="append", required=True, metavar="AGGREGATE", help="repeatable; see below")
    add("--engine", choices=["local", "spark"], default="local", help="where to run (default: local)")
    add("--master", metavar="URL", help="Spark's master (default: local[*])")
    add(
        "--filter",
        action="append",
        default=[],
        metavar="COMPARISON",
        help="rows to read, such as 'day >= 2024-05-01' or 'device in (a, b)'; of several, all must hold",
    )
    add(
        "--route",
        choices=["scan", "catalyst", "catalyst-panes", "packed", "rows"],
        help="how Spark evaluates the query (default: scan of Parquet files on this machine, else by rule)",
    )
    add(
        "--metrics",
        action="store_true",
        help="print how many rows, slices and windows there were (Spark only)",
    )
    add("--threads", type=int, metavar="N", help="threads of the local engine (default: all usable cores)")
    add(
        "--max-windows",
        type=most_windows,
        default=MAX_WINDOWS,
        metavar="N",
        help=f"most windows that the query, or a task of Spark, may make (default: {MAX_WINDOWS}; or 'any')",
    )
    add("--format", choices=["parquet", "csv"], help="of paths that do not end in .parquet, .pq or .csv")
    add("--overwrite", action="store_true", help="replace an existing output")
    add("--explain", action="store_true", help="print how the query would be evaluated, and do nothing else")
    add("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    return top


def most_windows(text: str) -> int | None:
    """Return the number that a text says, or None for any number."""
    return None if text == "any" else int(text)


def prepare(arguments: argparse.Namespace) -> Callable[[], None]:
    """Check the arguments as far as is possible without reading rows; return what runs the job."""
    made = query(
        by=[unquoted("by", name.strip()) for listed in arguments.by for name in split(listed, ",")],
        time=arguments.time,
        windows=[windows.parse(text) for text in arguments.window],
        aggs=[aggregates.parse(text) for text in arguments.agg],
        max_windows=arguments.max_windows,
    )
    if arguments.output is None and not arguments.explain:
        raise ArgumentsError("--output: none is given; a job writes to a path, unless --explain is given")
    if arguments.engine == "spark":
        try:
            from windowkit.cli_spark import prepare_spark
        except ImportError as error:
            raise ArgumentsError(
                f"--engine: spark needs pyspark, which cannot be imported ({error}); "
                'pip install "windowkit[spark]"'
            ) from None
        return prepare_spark(made, arguments)
    if arguments.master is not None:
        raise ArgumentsError(
            f"--master: {arguments.master!r} is given without --engine spark; only Spark has a master"
        )
    for name in ("filter", "route", "metrics"):
        given = getattr(arguments, name)
        if given:
            value = "" if given is True else f"{given!r} "
            raise ArgumentsError(f"--{name}: {value}is given without --engine spark; it is for Spark")
    return prepare_local(made, arguments)


# The local engine.


def prepare_local(made: Query, arguments: argparse.Namespace) -> Callable[[], None]:
    source = Path(arguments.input)
    data = dataset(source, format_of_input(source, arguments.format))
    made.schema(data.schema)
    if arguments.explain:
        return lambda: print(made.explain(data.schema))
    threads = local.checked_threads(arguments.threads)
    output = Path(arguments.output)
    kind = format_of("--output", output, arguments.format)
    refuse_output(output, arguments.overwrite)
    if output.is_dir():
        raise ArgumentsError(f"--output: {str(output)!r} is a directory; the local engine writes a file")
    if kind == "csv":
        refuse_csv(made)

    def run() -> None:
        with progress(data, made.inputs, arguments.progress) as reader, replacing(output) as temporary:
            batches = made.batches(reader, threads=threads)
            write(counted(batches, arguments.progress), temporary, kind, structs(made))

    return run


def dataset(path: Path, kind: str) -> pyarrow.dataset.Dataset:
    """Return the files of a path as one table, with columns of its directories."""
    source = files.found(str(path.absolute()), deep=True)
    own = INPUTS[kind]
    fragments = [
        own.make_fragment(
            file.path, source.filesystem, partition_expression=files.said(file, source.partitioned)
        )
        for file in source.files
    ]
    # What directories say goes before a column of that name in files.
    columns = {field.name: field for field in [*fragments[0].physical_schema, *source.partitioned]}
    schema = pa.schema(list(columns.values()))
    return pyarrow.dataset.FileSystemDataset(fragments, schema, own, source.filesystem)


@contextmanager
def progress(
    data: pyarrow.dataset.Dataset, columns: Sequence[str], always: bool
) -> Iterator[pa.RecordBatchReader]:
    """Read columns of a data set, and show on stderr how far it has got."""
    from tqdm import tqdm

    scanner = data.scanner(columns={name: pyarrow.dataset.field(name) for name in columns})
    shown = always or sys.stderr.isatty()
    # Parquet says in its footers how many rows it has; to count those of CSV would be to read it twice.
    parquet = isinstance(data.format, pyarrow.dataset.ParquetFileFormat)
    total = data.count_rows() if shown and parquet else None
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


def write(batches: pa.RecordBatchReader, path: Path, kind: str, structs: Sequence[tuple[str, str]]) -> None:
    """Write batches to a new file, a row group at a time."""
    if kind == "parquet":
        with pyarrow.parquet.ParquetWriter(path, batches.schema) as parquet:
            for table in gathered(batches):
                parquet.write_table(table)
        return
    schema = flat(batches.schema.empty_table(), structs).schema
    with pyarrow.csv.CSVWriter(path, schema) as csv:
        for table in gathered(batches):
            csv.write_table(flat(table, structs))


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


def flat(table: pa.Table, structs: Sequence[tuple[str, str]]) -> pa.Table:
    """Replace each column of starts and ends by two, as CSV has no structs."""
    for name, prefix in structs:
        at = table.schema.get_field_index(name)
        start, end = table[name].flatten()
        table = table.remove_column(at).add_column(at, f"{prefix}_start", start)
        table = table.add_column(at + 1, f"{prefix}_end", end)
    return table
