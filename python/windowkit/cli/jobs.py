"""The jobs of the command line: what is asked of which inputs, evaluated here or in Spark."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa

from windowkit.cli.alike import alike
from windowkit.cli.arguments import fill_of, read
from windowkit.cli.inputs import Input, input_of
from windowkit.cli.paths import ArgumentsError
from windowkit.cli.tables import Reads, Table
from windowkit.errors import WindowKitError
from windowkit.language import aggregates, aggregation, windows
from windowkit.language.foreign import is_spark
from windowkit.language.join import Join, join
from windowkit.language.lines import text_of
from windowkit.language.query import query
from windowkit.language.rolling import rolling
from windowkit.language.windows import quoted, split, unquoted
from windowkit.language.windows.grammar import number_or_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Aggregation", "Job", "aggregation_of", "join_of", "rolling_of"]

NESTED: Final = (
    *("m4", "m4_times", "collect_list", "collect_rows", "collect_set", "hll_sketch", "top_k", "frequent"),
)
"""Functions whose results are lists, structs or bytes."""
WITHOUT_CSV: Final = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary)


@dataclass(frozen=True)
class Job:
    """What a command computes.

    Parameters
    ----------
    asked : Query, Rolling or Join
    inputs : tuple of Input
        What it reads, in the order in which it takes them.
    """

    asked: Any
    inputs: tuple[Input, ...]
    counted: ClassVar[str] = "rows"
    """What its rows are called."""

    def for_csv(self, schemas: Sequence[pa.Schema]) -> Job:
        """Return the job with results that CSV can hold, or refuse it."""
        refuse_nested(self.schema(*schemas))
        return self

    def schema(self, *schemas: pa.Schema) -> pa.Schema:
        """Return the schema of the result, of inputs of these schemas."""
        return self.asked.schema(*schemas)

    def explain(self, *data: Any, **options: Any) -> str:
        """Describe how it is evaluated over schemas, or DataFrames of Spark."""
        text: str = self.asked.explain(*data, **options)
        return text

    def alike(self, tables: Sequence[Table]) -> list[Table]:
        """Return the tables of its inputs, of which those of a join are compared."""
        if not isinstance(self.asked, Join):
            return [*tables]
        join, (left, right) = self.asked, tables
        keys = [*zip(join.left_by, join.right_by, strict=True)]
        return [*alike(left, right, keys, (join.left_time, join.right_time))]

    def batches(self, *readers: pa.RecordBatchReader, threads: int | None) -> pa.RecordBatchReader:
        """Evaluate it in this process."""
        return self.asked.batches(*readers, threads=threads)

    def frame(self, *frames: DataFrame, **options: Any) -> DataFrame:
        """Evaluate it in Spark."""
        made: DataFrame = self.asked.run(*frames, **options)
        return made


@dataclass(frozen=True)
class Aggregation(Job):
    """A query over one input."""

    counted: ClassVar[str] = "windows"

    def for_csv(self, schemas: Sequence[pa.Schema]) -> Aggregation:
        """Return the job, or refuse lists, structs and bytes in its results."""
        for aggregate in self.asked.aggs:
            if aggregate.function in NESTED:
                raise ArgumentsError(
                    f"--format: csv cannot hold the lists, structs or bytes of {aggregate}; Parquet can"
                )
        if self.asked.window_columns == "struct":
            raise ArgumentsError(
                "--window-columns: 'struct' is given, and csv cannot hold structs; Parquet can, or use 'flat'"
            )
        if schemas:
            super().for_csv(schemas)
        return self


@dataclass(frozen=True)
class Rows(Job):
    """Rolling aggregates of the rows of an input."""

    def batches(self, *readers: pa.RecordBatchReader, threads: int | None) -> pa.RecordBatchReader:
        """Evaluate it in this process."""
        made: pa.Table = self.asked.run(*readers, threads=threads)
        return made.to_reader()


@dataclass(frozen=True)
class AsOf(Job):
    """Rolling aggregates as of the labels of one input, over the events of another.

    Parameters
    ----------
    by, time
        The keys and the time of the labels.
    """

    by: tuple[str, ...]
    time: str

    def alike(self, tables: Sequence[Table]) -> list[Table]:
        """Return the tables of labels and events, which are compared."""
        labels, events = tables
        keys = [*zip(self.by, map(str, self.asked.by), strict=False)]
        return [*alike(labels, events, keys, (self.time, str(self.asked.time)))]

    def schema(self, *schemas: pa.Schema) -> pa.Schema:
        """Return the schema of the result."""
        labels, events = schemas
        self.asked.schema(events)
        try:
            # Without rows it has a schema, and refuses what does not fit.
            made: pa.Table = self.at(labels.empty_table(), events.empty_table())
        except WindowKitError as error:
            name, colon, said = str(error).partition(": ")
            option = {"by": "--labels-by", "time": "--labels-time"}.get(name, name)
            raise ArgumentsError(f"{option}{colon}{said}") from None
        return made.schema

    def at(self, labels: Any, events: Any, **options: Any) -> Any:
        """Return the result over data of any kind."""
        return self.asked.at(labels, events, by=self.by, time=self.time, **options)

    def explain(self, *data: Any, **options: Any) -> str:
        """Describe how it is evaluated."""
        labels, events = data
        if is_spark(events):
            from windowkit.spark import explain_as_of

            return explain_as_of(labels, events, self.asked, by=self.by, time=self.time, **options)
        keys = ", ".join(map(quoted, self.by)) or "nothing"
        text: str = self.asked.explain(events, **options)
        line = f"labels, by {keys} over {quoted(self.time)}, have frames in place of the rows"
        return f"{text}\n{text_of([line])}"

    def batches(self, *readers: pa.RecordBatchReader, threads: int | None) -> pa.RecordBatchReader:
        """Evaluate it in this process."""
        made: pa.Table = self.at(*readers, threads=threads)
        return made.to_reader()

    def frame(self, *frames: DataFrame, **options: Any) -> DataFrame:
        """Evaluate it in Spark."""
        made: DataFrame = self.at(*frames, **options)
        return made


def refuse_nested(schema: pa.Schema) -> None:
    """Refuse a result that CSV cannot hold."""
    for each in schema:
        if any(is_such(each.type) for is_such in WITHOUT_CSV):
            raise ArgumentsError(
                f"--format: csv cannot hold column {each.name!r}, which is {each.type}; Parquet can"
            )


def columns_of(option: str, given: Sequence[str]) -> list[str]:
    """Return the names of comma-separated columns, of an option that may be repeated."""
    return [
        read(option, lambda text: unquoted("name", text), name.strip())
        for listed in given
        for name in split(listed, ",")
    ]


def aggregation_of(arguments: argparse.Namespace) -> Aggregation:
    """Return the job of ``windowkit aggregate``."""
    made = query(
        by=columns_of("--by", arguments.by),
        time=arguments.time,
        windows=[read("--window", windows.parse, each) for each in arguments.window],
        aggs=[read("--agg", aggregates.parse, each) for each in arguments.agg],
        max_windows=arguments.max_windows,
        window_columns=arguments.window_columns,
        weight=arguments.weight,
        fill=fill_of(arguments.fill),
    )
    columns = None if made.reads_all else tuple(made.inputs)
    return Aggregation(made, (input_of(arguments, "input", Reads(made.by, made.time, columns)),))


def rolling_of(arguments: argparse.Namespace) -> Job:
    """Return the job of ``windowkit rolling``."""
    made = rolling(
        by=columns_of("--by", arguments.by),
        time=arguments.time,
        aggs=[read("--agg", aggregation.parse_framed, each) for each in arguments.agg],
    )
    if arguments.labels is None:
        for name in ("by", "time", "filter", "types", "time_format"):
            if getattr(arguments, f"labels_{name}"):
                option = f"--labels-{name.replace('_', '-')}"
                raise ArgumentsError(f"{option}: is given without --labels; it is for the files of labels")
        # Every column of the rows is in the result.
        return Rows(made, (input_of(arguments, "input", Reads(made.by, made.time)),))
    by = tuple(columns_of("--labels-by", arguments.labels_by)) or made.by
    time = arguments.labels_time or made.time
    columns = None if made.reads_all else tuple(made.inputs)
    return AsOf(
        made,
        (
            input_of(arguments, "labels", Reads(by, time)),
            input_of(arguments, "input", Reads(made.by, made.time, columns)),
        ),
        by,
        time,
    )


def join_of(arguments: argparse.Namespace) -> Job:
    """Return the job of ``windowkit join``."""
    chosen = {
        side: tuple(columns_of(f"--{side}-columns", given))
        if (given := getattr(arguments, f"{side}_columns"))
        else None
        for side in ("left", "right")
    }
    made = join(
        by=pairs_of(arguments.by),
        left_time=arguments.left_time,
        right_time=arguments.right_time,
        within=None if arguments.within is None else within_of(arguments.within),
        windows=None if arguments.window is None else read("--window", windows.parse, arguments.window),
        how=arguments.how,
        closed=arguments.closed,
        suffix=arguments.suffix,
        left_columns=chosen["left"],
        right_columns=chosen["right"],
        left_weight=arguments.left_weight,
        right_weight=arguments.right_weight,
    )
    reads = []
    of_right = () if made.how in ("semi", "anti") else made.right_columns
    for by, time, columns, weight in (
        (made.left_by, made.left_time, made.left_columns, made.left_weight),
        (made.right_by, made.right_time, of_right, made.right_weight),
    ):
        others = filter(None, [weight])
        reads.append(Reads(by, time, None if columns is None else (*by, time, *columns, *others)))
    left, right = reads
    return Job(made, (input_of(arguments, "left", left), input_of(arguments, "right", right)))


def pairs_of(given: Sequence[str]) -> dict[str, str]:
    """Return which column of the left side equals which of the right: ``ip, src = dst``."""
    pairs: dict[str, str] = {}
    for each in (part for listed in given for part in split(listed, ",")):
        sides = [read("--by", lambda text: unquoted("name", text), side.strip()) for side in split(each, "=")]
        if len(sides) > 2 or sides[0] in pairs:
            raise ArgumentsError(
                f"--by: {each.strip()!r} is given; keys are columns of both sides, each once, as in --by "
                "'ip, src = dst', where a name with such characters stands in backticks"
            )
        pairs[sides[0]] = sides[-1]
    return pairs


def within_of(given: str) -> Any:
    """Return how far partners are apart: a length, or two of them, before and after."""
    lengths = [number_or_text(each.strip()) for each in given.split(",")]
    return lengths[0] if len(lengths) == 1 else tuple(lengths)
