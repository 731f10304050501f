"""The command ``windowkit``: queries over files, in this process or in Spark.

Exit status is 0, 2 for arguments that are refused, or 1 for a job that fails, either with one line on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from windowkit.cli.arguments import REFUSED, complain, fill_of, parser, read, show
from windowkit.cli.outputs import refuse_output, replacing
from windowkit.cli.paths import (
    ArgumentsError,
    JobError,
    check_csv,
    format_of,
    format_of_inputs,
    matched,
)
from windowkit.cli.rows import Forward, counted, progress, write
from windowkit.cli.signals import cleaning_up
from windowkit.cli.stdin import STDIN, with_stdin
from windowkit.cli.tables import chosen_of, dataset, parsed_types, table_of
from windowkit.errors import WindowKitError
from windowkit.language import aggregates, windows
from windowkit.language.query import Query, query
from windowkit.language.windows import split, unquoted
from windowkit.local import query as local

__all__ = ["ArgumentsError", "JobError", "main"]

FAILED: Final = 1
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""As shells have it of a process whose output nobody reads any more."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (those of the process by default); return its exit status.

    Examples
    --------
    >>> main(["--version"])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    SystemExit: 0
    """
    arguments = parser(prepare).parse_args(argv)
    # It is None where it was closed before Python began.
    if sys.stdout is None and (arguments.explain or arguments.output in (None, "-")):
        return complain("--output: stdout is closed; the result goes to a file by --output PATH", FAILED)
    with cleaning_up():
        return status_of(arguments)


def status_of(arguments: argparse.Namespace) -> int:
    """Run the command with parsed arguments; return its exit status."""
    status = REFUSED
    try:
        is_elsewhere = arguments.engine == "spark" and not (arguments.master or "local").startswith("local")
        if STDIN in arguments.input and is_elsewhere:
            raise ArgumentsError(f"--input: '-' is given, and {arguments.master} does not read this machine")
        with with_stdin(arguments.input, arguments.format or "csv") as arguments.input:
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


def prepare_local(made: Query, arguments: argparse.Namespace) -> Callable[[], None]:
    """Check the arguments of a job in this process; return what runs it."""
    sources = matched(arguments.input)
    files = dataset(sources, format_of_inputs(sources, arguments.format), made, arguments.filter)
    types = parsed_types(arguments.types)
    table = table_of(files, made, arguments.filter, types, arguments.time_format)
    chosen_of(arguments.filter, table)
    table.check(made.schema)
    if arguments.explain:
        return lambda: show(made.explain(table.schema), *table.explain())
    threads = local.checked_threads(arguments.threads)
    output = None if arguments.output in (None, "-") else Path(arguments.output)
    if output is None:
        kind = arguments.format or "csv"
    else:
        kind = format_of("--output", output, arguments.format)
        refuse_output(output, arguments.overwrite, sources, directory=False)
    if kind == "csv":
        check_csv(made)

    def run() -> None:
        names = made.resolved(table.schema.names).inputs
        with progress(table, names, arguments.filter, arguments.progress) as reader:
            batches = counted(made.batches(reader, threads=threads), arguments.progress)
            if output is None:
                sys.stdout.flush()
                write(batches, pa.PythonFile(Forward(sys.stdout.buffer), mode="w"), kind, is_stream=True)
                sys.stdout.buffer.flush()
                return
            with replacing(output, arguments.overwrite, directory=False) as temporary:
                write(batches, temporary, kind)

    return run
