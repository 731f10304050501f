"""The Spark engine of the command ``windowkit``: the same files, read and written by Spark.

Imported only where ``--engine spark`` is given.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import MAX_EMAX, MIN_EMIN, Context
from functools import reduce
from operator import and_
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import DataType, DecimalType, IntegralType

from windowkit.cli.frames import frame_of, typed_frame
from windowkit.cli.inputs import Found, Input, Scratch
from windowkit.cli.jobs import Aggregation, Job
from windowkit.cli.outputs import refuse_output, replacing_directory
from windowkit.cli.paths import ArgumentsError, JobError, format_of, format_of_output, unpacked
from windowkit.cli.signals import Ended
from windowkit.cli.tables import Table, checked
from windowkit.cli.terminal import say, show
from windowkit.files.comparisons import NUMBER, parse
from windowkit.files.listing import is_like_others
from windowkit.files.text import Text, is_text
from windowkit.language.checks import suggested
from windowkit.spark import Metrics, explain_scan, scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["prepare_spark"]

METRICS_SECONDS: Final = 60.0
MOST_DIGITS: Final = 38
"""Of Spark's decimals."""


def prepare_spark(job: Job, arguments: argparse.Namespace, scratch: Scratch) -> Callable[[], None]:
    """Check the arguments of a job in Spark; return what runs it."""
    if arguments.threads is not None:
        raise ArgumentsError(
            f"--threads: {arguments.threads} is given with --engine spark; Spark has its own tasks"
        )
    master = arguments.master or "local[*]"
    # Elsewhere than in local mode a path is of the cluster's file system, and Spark's own affair.
    here = master.startswith("local")
    if arguments.output in (None, "-") and not arguments.explain:
        raise ArgumentsError("--output: none is given; Spark writes a directory")
    sides = [
        side_here(each, arguments, scratch) if here else side_there(each, arguments, master)
        for each in job.inputs
    ]
    # Tasks read the files of a query themselves, if these are Parquet files: no row enters the JVM.
    route = arguments.route
    (scanned,) = sides if isinstance(job, Aggregation) else (None,)
    if scanned is not None:
        refuse_scan(scanned, route, master if not here else None)
        if not here or scanned.table is not None or route not in (None, "scan"):
            scanned = None
    tables = [side.table for side in sides if side.table is not None]
    if len(tables) == len(sides):
        tables = job.alike(tables)
        sides = [replace(side, table=table) for side, table in zip(sides, tables, strict=True)]
        schemas = [table.schema for table in tables]
        checked(tables, lambda: job.schema(*schemas))
    else:
        schemas = []
    if not arguments.explain:
        output = Path(arguments.output)
        kind = format_of_output(output, arguments.format)
        if kind == "arrow":
            raise ArgumentsError("--output: Spark does not write the format 'arrow'; Parquet and CSV it does")
        if here:
            refuse_output(
                output,
                arguments.overwrite,
                [side.found for side in sides if side.found is not None],
                directory=True,
            )
        if kind == "csv" and (schemas or isinstance(job, Aggregation)):
            job = job.for_csv(schemas)

    if here:
        # Workers import windowkit, which another python3 of the PATH may not have.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master(master).appName("windowkit").getOrCreate().newSession()
    # As in this process, times without a zone that are compared with instants are in UTC.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    metrics = Metrics() if arguments.metrics else None
    with spark_errors(ArgumentsError):
        if scanned is not None:
            assert isinstance(job, Aggregation)
            chosen = [parse(each) for each in scanned.input.filters] or None
            if arguments.explain:
                text = explain_scan(session, scanned.paths, job.asked, filter=chosen)
                return lambda: show(text)
            result = scan(session, scanned.paths, job.asked, filter=chosen, metrics=metrics)
        else:
            frames = [rows_of(session, side) for side in sides]
            routed = {"route": route} if route is not None else {}
            if arguments.explain:
                text = job.explain(*frames, **routed)
                return lambda: show(text, *(line for table in tables for line in table.explain()))
            result = job.frame(*frames, metrics=metrics, **routed)

    def run() -> None:
        writer = result.write.format(kind).option("header", True)
        with spark_errors(JobError):
            if here:
                with replacing_directory(output, arguments.overwrite) as temporary:
                    try:
                        writer.save(f"file://{temporary}")
                    except (Ended, KeyboardInterrupt):
                        # Its tasks would go on writing what is removed now. A thread of its own, as this
                        # one's connection to the JVM still waits for the job.
                        stopping = Thread(target=session.interruptAll)
                        stopping.start()
                        stopping.join()
                        raise
            else:
                writer.mode("overwrite" if arguments.overwrite else "error").save(arguments.output)
        if metrics is not None:
            # Spark reports them shortly after the job; once they are there, they are printed as they are.
            metrics.values(METRICS_SECONDS)
            for line in str(metrics).splitlines():
                say(line)

    return run


@dataclass(frozen=True)
class Side:
    """An input of a job in Spark.

    Parameters
    ----------
    input : Input
    kind : str
        The format of its files.
    paths : list of str
        As Spark takes them.
    found : Found, optional
        Its files on this machine, if they are there.
    table : Table, optional
        The table that this machine reads in Spark's tasks; None where Spark itself reads the files.
    """

    input: Input
    kind: str
    paths: list[str]
    found: Found | None
    table: Table | None


def side_here(given: Input, arguments: argparse.Namespace, scratch: Scratch) -> Side:
    """Return an input on this machine."""
    found = given.found(arguments.format, scratch)
    kind = found.files.kind
    if kind == "arrow":
        raise ArgumentsError(
            f"{given.option}: it is of format 'arrow', which Spark does not read; Parquet and CSV it does"
        )
    # Where types are those of the files, Spark reads these by itself, as scans do.
    is_typed = kind != "parquet" or given.given_types or given.time_format or is_typed_here(found)
    # A path on this machine is not a pattern any more.
    paths = [str(source.absolute()) for source in found.sources]
    there = ["file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path) for path in paths]
    return Side(given, kind, there, found, found.table() if is_typed else None)


def side_there(given: Input, arguments: argparse.Namespace, master: str) -> Side:
    """Return an input on a cluster, of which nothing is known here."""
    kind = format_of_there(given, arguments.format, master)
    if given.time_format is not None:
        raise ArgumentsError(
            f"{given.own('--time-format')}: is given with files on {master}; it is for those of this machine"
        )
    if given.given_types and kind != "csv":
        raise ArgumentsError(
            f"{given.own('--types')}: are given with files on {master}, of which only those of CSV have any"
        )
    return Side(given, kind, list(given.paths), None, None)


def format_of_there(given: Input, form: str | None, master: str) -> str:
    """Return the format of files on a cluster, which Spark reads."""
    with given.naming():
        kind = format_of("--input", unpacked(Path(given.paths[0])), form)
    if kind not in ("parquet", "csv"):
        raise ArgumentsError(
            f"{given.option}: it is of format {kind!r}, which is not read on {master}; Parquet and CSV are"
        )
    return kind


def refuse_scan(side: Side, route: str | None, master: str | None) -> None:
    """Refuse the route `scan` where tasks cannot take it; `master` is given for files on a cluster."""
    if route != "scan":
        return
    if master is not None or side.kind != "parquet":
        raise ArgumentsError(
            "--route: 'scan' is given, but it reads Parquet files of this machine; the input is "
            + (side.kind if master is None else f"on {master}")
        )
    if side.table is not None:
        raise ArgumentsError("--route: 'scan' is given, but types of columns are not those of the files")


def rows_of(session: SparkSession, side: Side) -> DataFrame:
    """Return the rows of an input that a job reads: those of a table here, or those that Spark finds."""
    given = side.input
    if side.table is not None:
        return frame_of(session, side.table, given.reads.of(side.table.schema.names), given.filters)
    with given.naming():
        # Where Spark's reader of Parquet files has options, tasks leave the files to it.
        reader = session.read
        if side.kind == "csv":
            reader = reader.options(header=True, escape='"', mode="FAILFAST")
        frame = reader.load(side.paths, side.kind)
        if side.kind == "csv":
            # Nothing is known of text that only the cluster reads, so that it is text where no type is given.
            for name in given.given_types:
                if name not in frame.columns:
                    raise ArgumentsError(
                        f"--types: there is no column {name!r}; columns are "
                        f"{', '.join(map(repr, frame.columns))}{suggested(name, frame.columns)}"
                    )
            frame = typed_frame(
                frame, {name: Text(each, is_given=True) for name, each in given.given_types.items()}
            )
        chosen = [holds(frame, *parse(each)) for each in given.filters]
    return frame.where(reduce(and_, chosen)) if chosen else frame


def is_typed_here(found: Found) -> bool:
    """Whether types are not those of the files: times as text, directories k=1.0, files that differ."""
    files, reads = found.files, found.input.reads
    time = files.data.schema.field(reads.time).type if reads.time in files.data.schema.names else pa.null()
    return (
        files.is_mixed
        or is_text(time)
        or any(
            is_like_others(files.partitioned.field(name), texts) for name, texts in files.directories.items()
        )
    )


def holds(frame: DataFrame, name: str, operator: str, value: str | list[str]) -> Column:
    """Return a comparison of a column with values that are read as its type."""
    if name.lower() not in map(str.lower, frame.columns):
        raise ArgumentsError(
            f"--filter: there is no column {name!r}; columns are {', '.join(map(repr, frame.columns))}"
            f"{suggested(name, frame.columns)}"
        )
    column = functions.col(quoted(name))
    kind = frame.select(column).schema.fields[0].dataType
    values = [literal(name, each, kind) for each in ([value] if isinstance(value, str) else value)]
    made: dict[str, Callable[[], Column]] = {
        "in": lambda: column.isin(values),
        "not in": lambda: ~column.isin(values),
        "!=": lambda: column != values[0],
        "<": lambda: column < values[0],
        "<=": lambda: column <= values[0],
        ">": lambda: column > values[0],
        ">=": lambda: column >= values[0],
    }
    return made.get(operator, lambda: column == values[0])()


def literal(name: str, text: str, kind: DataType) -> Column:
    """Return a string as a value of the type of its column, or as any number if that is one of integers."""
    if not isinstance(kind, IntegralType | DecimalType):
        return functions.lit(text).cast(kind)
    if not NUMBER.fullmatch(text):
        raise ArgumentsError(
            f"--filter: {text!r} is compared with {name!r}, a column of {kind.simpleString()}; such a column "
            "is compared with numbers"
        )
    # With all digits, of which Python would keep 28, and infinite beyond its exponents.
    exact = Context(prec=len(text), Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
    number = exact.create_decimal(text).normalize(exact)
    _, digits, exponent = number.as_tuple()
    # A column has no numbers that no decimal of Spark holds, but its numbers are less or greater than these.
    is_held = (
        isinstance(exponent, int)
        and exponent >= -MOST_DIGITS
        and len(digits) + max(exponent, 0) <= MOST_DIGITS
    )
    return functions.lit(number if is_held else float(number))


@contextmanager
def spark_errors(kind: type[Exception]) -> Iterator[None]:
    """Raise `kind`, with one line, for what Spark raises."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        # Our own errors come out of a worker within the message of Spark's.
        ours = re.search(r"(?:windowkit\.errors\.\w+: |RuntimeError: (?=windowkit: ))(.*)", str(error))
        first, *_ = str(error).splitlines() or [type(error).__name__]
        raise kind(ours[1] if ours else first) from None


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
