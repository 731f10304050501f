"""The command ``windowkit``: queries, rolling aggregates and joins over files, in this process or in Spark.

Exit status is 0, 2 for arguments that are refused, or 1 for a job that fails, either with what was given and
what is allowed on stderr.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pyarrow as pa

from windowkit.cli.arguments import REFUSED, complain, parser
from windowkit.cli.inputs import Scratch, refuse_stdin
from windowkit.cli.jobs import Job, aggregation_of, join_of, rolling_of
from windowkit.cli.outputs import naming, refuse_output, refuse_stdout, replacing
from windowkit.cli.paths import ArgumentsError, JobError, format_of_output
from windowkit.cli.rows import Times, counted, progress, write
from windowkit.cli.signals import cleaning_up, held, released
from windowkit.cli.tables import checked
from windowkit.cli.terminal import leave, occupy, saying_warnings, show
from windowkit.errors import WindowKitError
from windowkit.local import query as local

__all__ = ["ArgumentsError", "JobError", "main"]

JOBS: Final = {"aggregate": aggregation_of, "rolling": rolling_of, "join": join_of}
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
    occupy()
    with cleaning_up():
        try:
            return status_of(argv)
        except KeyboardInterrupt:
            return complain("interrupted", INTERRUPTED)
        finally:
            leave(sys.stdout)
            leave(sys.stderr)


def status_of(argv: Sequence[str] | None) -> int:
    """Run the command with these arguments; return its exit status."""
    status = FAILED
    try:
        arguments = parser(JOBS).parse_args(argv)
        # It is None where it was closed before Python began.
        if sys.stdout is None and (arguments.explain or arguments.output in (None, "-")):
            raise JobError("--output: stdout is closed; the result goes to a file by --output PATH")
        status = REFUSED
        with saying_warnings(), held(), Scratch() as scratch, released():
            run = prepare(arguments, scratch)
            status = FAILED
            run()
    except BrokenPipeError:
        return UNREAD
    except (ArgumentsError, JobError, WindowKitError, OSError, pa.ArrowException) as error:
        return complain(error, status)
    return 0


def prepare(arguments: argparse.Namespace, scratch: Scratch) -> Callable[[], None]:
    """Check the arguments as far as is possible without reading rows; return what runs the job."""
    if arguments.output == "":
        # As of a variable that is not set: as a path it would be the directory that one is in.
        raise ArgumentsError("--output: '' is given; a path is not empty")
    job: Job = arguments.job(arguments)
    in_spark = arguments.engine == "spark"
    refuse_stdin(job.inputs, arguments.master if in_spark else None)
    if in_spark:
        try:
            from windowkit.cli.spark import prepare_spark
        except ImportError as error:
            raise ArgumentsError(
                f"--engine: spark needs pyspark, which cannot be imported ({error}); "
                'pip install "windowkit[spark]"'
            ) from None
        return prepare_spark(job, arguments, scratch)
    if arguments.master is not None:
        raise ArgumentsError(
            f"--master: {arguments.master!r} is given without --engine spark; only Spark has a master"
        )
    for name in ("route", "metrics"):
        given = getattr(arguments, name)
        if given:
            value = "" if given is True else f"{given!r} "
            raise ArgumentsError(f"--{name}: {value}is given without --engine spark; it is for Spark")
    return prepare_local(job, arguments, scratch)


def prepare_local(job: Job, arguments: argparse.Namespace, scratch: Scratch) -> Callable[[], None]:
    """Check the arguments of a job in this process; return what runs it."""
    found = [each.found(arguments.format, scratch) for each in job.inputs]
    tables = job.alike([each.table() for each in found])
    schemas = [table.schema for table in tables]
    checked(tables, lambda: job.schema(*schemas))
    times = [Times(table, each) for table, each in zip(tables, job.inputs, strict=True)]
    if arguments.explain:
        return lambda: show(
            job.explain(*schemas),
            *(line for table in tables for line in table.explain()),
            *(each.explain() for each in times),
        )
    threads = local.checked_threads(arguments.threads)
    output = None if arguments.output in (None, "-") else Path(arguments.output)
    kind = format_of_output(output, arguments.format)
    if output is None:
        refuse_stdout(found)
    elif os.path.basename(arguments.output) in ("", os.curdir):
        raise ArgumentsError(
            f"--output: {arguments.output!r} ends as the name of a directory does; the local engine writes "
            "a file"
        )
    else:
        refuse_output(output, arguments.overwrite, found, directory=False)
    shaped = job.for_csv(schemas) if kind == "csv" else job

    def run() -> None:
        with ExitStack() as readers, warnings.catch_warnings():
            # Of rows without times, `Times.warn` says it as the command line has it.
            warnings.simplefilter("ignore", UserWarning)
            batches = shaped.batches(
                *(readers.enter_context(progress(each, arguments.progress)) for each in times),
                threads=threads,
            )
            batches = counted(batches, job.counted, arguments.progress)
            if output is None:
                with naming("stdout"):
                    sys.stdout.flush()
                    write(batches, sys.stdout.buffer, kind, is_stream=True)
                    sys.stdout.buffer.flush()
            else:
                with replacing(output, arguments.overwrite) as file:
                    write(batches, file, kind)
        for each in times:
            each.warn()

    return run
