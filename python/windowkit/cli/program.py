"""The command ``windowkit``: queries over files, in this process or in Spark.

Exit status is 0, 2 for arguments that are refused, or 1 for a job that fails, either with one line on stderr.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import and_
from pathlib import Path
from typing import IO, Any, Final, NoReturn, TypeVar

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet

import windowkit
from windowkit.cli.outputs import refuse_output, replacing
from windowkit.cli.paths import (
    ArgumentsError,
    JobError,
    for_csv,
    format_of,
    format_of_inputs,
    matched,
)
from windowkit.cli.signals import cleaning_up
from windowkit.errors import WindowKitError
from windowkit.files import listing
from windowkit.files.comparisons import compared, parse
from windowkit.language import aggregates, windows
from windowkit.language.aggregation import FORMS as FUNCTION_NAMES
from windowkit.language.checks import suggested
from windowkit.language.query import MAX_WINDOWS, WINDOW_COLUMNS, Query, query
from windowkit.language.windows import split, unquoted
from windowkit.language.windows.text import FORMS as WINDOW_NAMES
from windowkit.local import query as local

__all__ = ["ArgumentsError", "JobError", "main"]

Read = TypeVar("Read")

REFUSED: Final = 2
FAILED: Final = 1
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""As shells have it of a process whose output nobody reads any more."""
MOMENT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d(?P<fraction>\.\d+)?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?$"
)
INPUTS: Final = {
    # Without the unit nanoseconds wrap, which hold no time after 2262.
    "parquet": pyarrow.dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us"),
    "csv": pyarrow.dataset.CsvFileFormat(),
    "arrow": pyarrow.dataset.IpcFileFormat(),
}
OPTIONS: Final = {
    "by": "--by",
    "time": "--time",
    **dict.fromkeys(("window", "windows"), "--window"),
    **dict.fromkeys(("aggregate", "aggs"), "--agg"),
    "where": "--agg: where",
    "filter": "--filter",
    "route": "--route",
    "threads": "--threads",
    "max_windows": "--max-windows",
    "window_columns": "--window-columns",
    "weight": "--weight",
    "fill": "--fill",
}
"""What the command line calls the arguments that errors name."""
INSTEAD: Final = {
    "query(..., max_windows=...), any number by None": "--max-windows N, any number by 'any'",
    "see .alias()": "as by 'as name'",
    "with .alias()": "by 'as name'",
}
"""What errors advise in Python, and what the command line has in its place."""
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
    with cleaning_up():
        return status_of(arguments)


def status_of(arguments: argparse.Namespace) -> int:
    """Run the command with parsed arguments; return its exit status."""
    status = REFUSED
    try:
        run: Callable[[], None] = arguments.prepare(arguments)
        status = FAILED
        run()
    except BrokenPipeError:
        # Nothing is left to write to, not even what Python would flush as it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except (ArgumentsError, JobError, WindowKitError, OSError, pa.ArrowException) as error:
        return complain(error, status)
    except KeyboardInterrupt:
        return complain("interrupted", INTERRUPTED)
    return 0


def complain(error: object, status: int) -> int:
    print(f"windowkit: error: {' '.join(as_typed(str(error)).split())}", file=sys.stderr)
    return status


def as_typed(message: str) -> str:
    """Return an error of the language with the option of the command line for the argument that it names.

    Examples
    --------
    >>> as_typed("aggs: sum is not defined for column 'device'")
    "--agg: sum is not defined for column 'device'"
    >>> as_typed("windows: window 'w' occurs twice; windows must have different names, see .alias()")
    "--window: window 'w' occurs twice; windows must have different names, as by 'as name'"
    """
    argument, colon, said = message.partition(": ")
    typed = f"{OPTIONS.get(argument, argument)}{colon}{said}"
    for advice, here in INSTEAD.items():
        typed = typed.replace(advice, here)
    return typed


def read(option: str, parse: Callable[[str], Read], given: str) -> Read:
    """Return what `parse` makes of an option; errors begin with the option."""
    try:
        return parse(given)
    except WindowKitError as error:
        said = as_typed(str(error))
        raise ArgumentsError(said if said.startswith(f"{option}: ") else f"{option}: {said}") from None


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message.removeprefix('argument ')}; see {self.prog} --help", REFUSED))


def parser() -> Parser:
    """Return the parser of the command line."""
    top = Parser(
        prog="windowkit",
        description="Window aggregation over Arrow data, in this process or in Spark.",
        epilog=names(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"windowkit {windowkit.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "aggregate",
        help="aggregate the rows of a file or directory in windows",
        description="Aggregate the rows of Parquet, CSV or Arrow files in windows.",
        epilog=forms(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    one.set_defaults(prepare=prepare)
    add = one.add_argument
    add(
        "--input",
        required=True,
        nargs="+",
        metavar="PATH",
        help="files (.parquet, .csv, .arrow), directories of such files, or patterns such as '2024-*.csv'",
    )
    add(
        "--output",
        metavar="PATH",
        help="a file to write, or - for stdout, the default (with --engine spark a directory)",
    )
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
        help="rows to read, such as 'ts >= 2024-05-01' or 'device in (a, b)'; of several, all must hold",
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
    add(
        "--weight",
        metavar="COLUMN",
        help="a column of 1, and of -1 for rows that retract others",
    )
    add(
        "--fill",
        action="append",
        default=[],
        metavar="FILL",
        help="what aggregates are in windows without rows between those of a key: null, zero or previous; "
        "or, repeatable, of one aggregate, as in 'peak=previous'",
    )
    add(
        "--format",
        choices=["parquet", "csv", "arrow"],
        help="of paths whose extension does not determine it, and of stdout (default: csv)",
    )
    add(
        "--window-columns",
        choices=WINDOW_COLUMNS,
        default="struct",
        help="a window as one column, or as window_start and window_end, as always in CSV (default: struct)",
    )
    add("--overwrite", action="store_true", help="replace an existing output")
    add("--explain", action="store_true", help="print how the query would be evaluated, and do nothing else")
    add("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    return top


def names() -> str:
    """Return the windows and functions there are, for those who only look around."""
    lines = [
        f"{title}: {', '.join(each)}"
        for title, each in (("windows", WINDOW_NAMES), ("functions", FUNCTION_NAMES))
    ]
    told = [textwrap.fill(line, 78, subsequent_indent="  ") for line in lines]
    return "\n".join([*told, "", "windowkit aggregate --help says what each of them does."])


def forms() -> str:
    """Return what --help lists: windows and functions, each with the first line of what is said of it."""

    def listed(title: str, names: Iterable[str], module: object) -> list[str]:
        lines = [f"{title}:"]
        for name in names:
            lines += textwrap.wrap(
                said.get(name) or summary(getattr(module, name)),
                78,
                initial_indent=f"  {name:<22} ",
                subsequent_indent=" " * 25,
            )
        return lines

    said = {"quantile_disc": "Exact quantile that is one of the values: quantile with discrete=True."}
    return "\n".join(
        [
            *listed("windows", WINDOW_NAMES, windows),
            "",
            *textwrap.wrap(f"{windows.WINDOW_FORMS}.", 78),
            "",
            *listed("functions", FUNCTION_NAMES, aggregates),
            "",
            *textwrap.wrap(f"{aggregates.AGGREGATE_FORMS}.", 78),
        ]
    )


def summary(function: object) -> str:
    """Return the first line of what is said of a function, as plain text."""
    return (function.__doc__ or "-").splitlines()[0].replace("`", "")


def most_windows(given: str) -> int | None:
    """Return the number that is given, or None for any number."""
    if given == "any":
        return None
    try:
        return int(given)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{given!r} is not a number; it is an int of at least 1, or 'any'"
        ) from None


def fill_of(given: Sequence[str]) -> str | dict[str, str] | None:
    """Return what ``--fill`` says of all aggregates, or of some by name."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [each.rpartition("=") for each in given]
    for name, _, _ in pairs:
        if not name or [other for other, _, _ in pairs].count(name) > 1:
            raise ArgumentsError(
                f"--fill: {', '.join(map(repr, given))} is given; it is one of null, zero and previous, or "
                "one of these for each of several aggregates, as in --fill n=zero --fill peak=previous"
            )
    return {name: how for name, _, how in pairs}


def prepare(arguments: argparse.Namespace) -> Callable[[], None]:
    """Check the arguments as far as is possible without reading rows; return what runs the job."""
    made = query(
        by=[unquoted("by", name.strip()) for listed in arguments.by for name in split(listed, ",")],
        time=arguments.time,
        windows=[read("--window", windows.parse, each) for each in arguments.window],
        aggs=[read("--agg", aggregates.parse, each) for each in arguments.agg],
        max_windows=arguments.max_windows,
        window_columns=arguments.window_columns,
        weight=arguments.weight,
        fill=fill_of(arguments.fill),
    )
    if arguments.engine == "spark":
        try:
            from windowkit.cli.spark import prepare_spark
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
    for name in ("route", "metrics"):
        given = getattr(arguments, name)
        if given:
            value = "" if given is True else f"{given!r} "
            raise ArgumentsError(f"--{name}: {value}is given without --engine spark; it is for Spark")
    return prepare_local(made, arguments)


# The local engine.


def prepare_local(made: Query, arguments: argparse.Namespace) -> Callable[[], None]:
    sources = matched(arguments.input)
    data = dataset(sources, format_of_inputs(sources, arguments.format))
    chosen = chosen_of(arguments.filter, data.schema)
    read = inputs(data, made)
    made.schema(read)
    if arguments.explain:
        return lambda: print(made.explain(read))
    threads = local.checked_threads(arguments.threads)
    output = None if arguments.output in (None, "-") else Path(arguments.output)
    if output is None:
        kind = arguments.format or "csv"
    else:
        kind = format_of("--output", output, arguments.format)
        refuse_output(output, arguments.overwrite, sources, directory=False)
    shaped = for_csv(made) if kind == "csv" else made

    def run() -> None:
        columns = pa.schema([read.field(name) for name in made.resolved(read.names).inputs])
        with progress(data, columns, chosen, arguments.progress) as reader:
            batches = counted(shaped.batches(reader, threads=threads), arguments.progress)
            if output is None:
                sys.stdout.flush()
                write(batches, pa.PythonFile(Forward(sys.stdout.buffer), mode="w"), kind, is_stream=True)
                sys.stdout.buffer.flush()
                return
            with replacing(output, arguments.overwrite, directory=False) as temporary:
                write(batches, temporary, kind)

    return run


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
