"""The Spark engine of the command ``windowkit``: the same files, read and written by Spark.

Imported only where ``--engine spark`` is given.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
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

from windowkit.cli.arguments import show
from windowkit.cli.frames import frame_of, typed_frame
from windowkit.cli.outputs import refuse_output, replacing
from windowkit.cli.paths import (
    ArgumentsError,
    JobError,
    check_csv,
    format_of,
    format_of_inputs,
    matched,
)
from windowkit.cli.signals import Ended
from windowkit.cli.tables import Files, Table, chosen_of, dataset, parsed_types, table_of
from windowkit.files.comparisons import NUMBER, parse
from windowkit.files.text import Text, is_text
from windowkit.language.checks import suggested
from windowkit.language.query import Query
from windowkit.spark import Metrics, explain_scan, scan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["prepare_spark"]

METRICS_SECONDS: Final = 60.0
MOST_DIGITS: Final = 38
"""Of Spark's decimals."""


def prepare_spark(made: Query, arguments: argparse.Namespace) -> Callable[[], None]:
    """Check the arguments of a job in Spark; return what runs it."""
    if arguments.threads is not None:
        raise ArgumentsError(
            f"--threads: {arguments.threads} is given with --engine spark; Spark has its own tasks"
        )
    master = arguments.master or "local[*]"
    # Elsewhere than in local mode a path is of the cluster's file system, and Spark's own affair.
    here = master.startswith("local")
    given = arguments.format
    types = parsed_types(arguments.types)
    if arguments.output in (None, "-") and not arguments.explain:
        raise ArgumentsError("--output: none is given; Spark writes a directory")
    table = None
    if here:
        sources = matched(arguments.input)
        source_kind = format_of_inputs(sources, given)
    else:
        source_kind = format_of("--input", Path(arguments.input[0]), given)
    route = arguments.route
    if route == "scan" and not (here and source_kind == "parquet"):
        raise ArgumentsError(
            "--route: 'scan' is given, but it reads Parquet files of this machine; the input is "
            + (f"{source_kind}" if here else f"on {master}")
        )
    if source_kind == "arrow":
        raise ArgumentsError(
            "--input: it is of format 'arrow', which Spark does not read; Parquet and CSV it does"
        )
    if here:
        files = dataset(sources, source_kind, made, arguments.filter)
        if source_kind == "csv" or types or arguments.time_format or is_typed_here(files, made):
            if route == "scan":
                raise ArgumentsError(
                    "--route: 'scan' is given, but types of columns are not those of the files"
                )
            table = table_of(files, made, arguments.filter, types, arguments.time_format)
            chosen_of(arguments.filter, table)
            table.check(made.schema)
    elif arguments.time_format is not None:
        raise ArgumentsError(
            f"--time-format: is given with files on {master}; it is for those of this machine"
        )
    elif types and source_kind != "csv":
        raise ArgumentsError(
            f"--types: are given with files on {master}, of which only those of CSV have any"
        )
    if arguments.output is not None:
        output = Path(arguments.output).absolute()
        kind = format_of("--output", output, given)
        if kind == "arrow":
            raise ArgumentsError("--output: Spark does not write the format 'arrow'; Parquet and CSV it does")
        if here:
            refuse_output(output, arguments.overwrite, sources, directory=True)
        if kind == "csv":
            check_csv(made)

    if here:
        # Workers import windowkit, which another python3 of the PATH may not have.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.master(master).appName("windowkit").getOrCreate().newSession()
    # As in this process, times without a zone that are compared with instants are in UTC.
    session.conf.set("spark.sql.session.timeZone", "UTC")
    metrics = Metrics() if arguments.metrics else None
    with spark_errors(ArgumentsError):
        there = list(arguments.input)
        if here:
            # A path on this machine is not a pattern any more.
            paths = [str(source.absolute()) for source in sources]
            there = ["file://" + re.sub(r"([*?\[\]{}\\])", r"\\\1", path) for path in paths]
        if here and table is None and route in (None, "scan"):
            # Tasks read the files themselves: no row enters the JVM.
            chosen = [parse(each) for each in arguments.filter] or None
            if arguments.explain:
                text = explain_scan(session, there, made, filter=chosen)
                return lambda: show(text)
            result = scan(session, there, made, filter=chosen, metrics=metrics)
        else:
            frame = rows_of(session, there, source_kind, table, made, arguments.filter, types)
            if arguments.explain:
                text = made.explain(frame, route=route)
                return lambda: show(text, *(table.explain() if table else ()))
            result = made.run(frame, route=route, metrics=metrics)

    def run() -> None:
        writer = result.write.format(kind).option("header", True)
        with spark_errors(JobError):
            if here:
                with replacing(output, arguments.overwrite, directory=True) as temporary:
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
            print(metrics, file=sys.stderr)

    return run


def rows_of(
    session: SparkSession,
    paths: list[str],
    kind: str,
    table: Table | None,
    made: Query,
    filters: list[str],
    types: dict[str, pa.DataType],
) -> DataFrame:
    """Return the rows that a job reads: those of a table of this machine, or those that Spark finds."""
    if table is not None:
        return frame_of(session, table, made.resolved(table.schema.names).inputs, filters)
    frame = session.read.load(paths, kind, header=True, escape='"', mode="FAILFAST")
    if kind == "csv":
        # Nothing is known of text that only the cluster reads, so that it is text where no type is given.
        for name in types:
            if name not in frame.columns:
                raise ArgumentsError(
                    f"--types: there is no column {name!r}; columns are "
                    f"{', '.join(map(repr, frame.columns))}{suggested(name, frame.columns)}"
                )
        frame = typed_frame(frame, {name: Text(each) for name, each in types.items()})
    chosen = [parse(each) for each in filters]
    return frame.where(reduce(and_, [holds(frame, *each) for each in chosen])) if chosen else frame


def is_typed_here(files: Files, made: Query) -> bool:
    """Whether types are not those of the files: times as text, directories zip=00123, files that differ."""
    time = files.data.schema.field(made.time).type if made.time in files.data.schema.names else pa.null()
    return (
        files.is_mixed
        or is_text(time)
        or any(
            is_text(files.partitioned.field(name).type) and is_numeric(texts)
            for name, texts in files.directories.items()
        )
    )


def is_numeric(texts: Sequence[str | None]) -> bool:
    """Whether Spark would take the values of directories for numbers."""
    present = [text for text in texts if text is not None]
    return all(map(NUMBER.fullmatch, present))


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
    number = Decimal(text).normalize()
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    # A column has no numbers that no decimal of Spark holds, but its numbers are less or greater than these.
    is_held = exponent >= -MOST_DIGITS and len(digits) + max(exponent, 0) <= MOST_DIGITS
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
