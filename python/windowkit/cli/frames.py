"""The table that input files are, as a DataFrame of Spark: read by its tasks as this process reads it.

Tasks read with the schema and the parsing that the local engine has, so that both engines see the same rows.
Times without a zone are ``timestamp_ntz``; nanoseconds are floored to microseconds, the unit of Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql.pandas.types import from_arrow_schema

from windowkit.cli.tables import Table
from windowkit.files.text import Text
from windowkit.spark.shipping import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["frame_of", "typed_frame"]

WAVES: Final = 4
"""Tasks for each that runs at a time, of many files: some take longer than others."""


@dataclass(frozen=True)
class Reading:
    """A task that reads the files of a table whose numbers it is given."""

    table: Table
    names: tuple[str, ...]
    filters: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these files."""
        data = self.table.data
        fragments = list(data.get_fragments())
        for batch in batches:
            for number in batch.column(0).to_pylist():
                one = ds.FileSystemDataset([fragments[number]], data.schema, data.format, data.filesystem)
                yield from map(in_microseconds, self.table.batches(self.names, self.filters, one))


@dataclass(frozen=True)
class Typing:
    """A task that reads columns of text as their types."""

    texts: Mapping[str, Text]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same rows, typed."""
        for batch in batches:
            columns = {
                name: self.texts[name].read(ds.field(name)) if name in self.texts else ds.field(name)
                for name in batch.schema.names
            }
            typed = ds.dataset(pa.Table.from_batches([batch])).to_table(columns=columns)
            yield from map(in_microseconds, typed.to_batches())


def frame_of(session: SparkSession, table: Table, names: Sequence[str], filters: Sequence[str]) -> DataFrame:
    """Return some columns of the rows of a table that all filters hold of."""
    files = sum(1 for _ in table.data.get_fragments())
    tasks = min(files, WAVES * session.sparkContext.defaultParallelism)
    task = shipped(Reading(table, tuple(names), tuple(filters)), "reading files")
    schema = pa.schema([table.schema.field(name) for name in names])
    return session.range(0, files, 1, tasks).mapInArrow(task, sparks(schema))


def typed_frame(frame: DataFrame, texts: Mapping[str, Text]) -> DataFrame:
    """Return a DataFrame of text with the types that are given for some of its columns."""
    schema = pa.schema([(name, texts[name].type if name in texts else pa.string()) for name in frame.columns])
    return frame.mapInArrow(shipped(Typing(texts), "reading text"), sparks(schema))


def sparks(schema: pa.Schema) -> StructType:
    """Return a schema as Spark has it."""
    return from_arrow_schema(in_microseconds(schema.empty_table().combine_chunks()).schema, True)


def in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with times in microseconds, to which nanoseconds are floored."""
    for at, each in enumerate(batch.schema):
        if pa.types.is_timestamp(each.type) and each.type.unit != "us":
            times = batch.column(at)
            if each.type.unit == "ns":
                times = pc.floor_temporal(times, unit="microsecond")
            micros = pa.timestamp("us", each.type.tz)
            batch = batch.set_column(at, pa.field(each.name, micros), times.cast(micros))
    return batch
