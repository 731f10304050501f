"""A query over files that tasks would not read as Spark's reader does: that reader has the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.language.expressions import Expression
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.spark.jobs import identifier
from windowkit.spark.parquet.filters import ALL, Filtered, columns_of, kind_of
from windowkit.spark.routes import aggregate, explain, in_line
from windowkit.spark.shipping import Metrics, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Left", "chosen_rows"]


@dataclass(frozen=True)
class Left:
    """A query that is left to Spark's reader.

    Parameters
    ----------
    rows : DataFrame
        Those that are chosen, as Spark's reader has them.
    query : Query
    reason : str
        Why tasks do not read the files themselves.
    rows_per_slice : float, optional
    where : str or Expression, optional
        The condition on results.
    chosen : Filtered
        What has chosen `rows`.
    """

    rows: DataFrame
    query: Query
    reason: str
    rows_per_slice: float | None
    where: str | Expression | None = None
    chosen: Filtered = ALL

    def result(self, metrics: Metrics | None) -> DataFrame:
        """Return what `query.run` returns of the rows."""
        return aggregate(
            self.rows, self.query, rows_per_slice=self.rows_per_slice, metrics=metrics, where=self.where
        )

    def explained(self) -> str:
        """Describe why tasks do not read the files, and what `query.run` does instead."""
        text = explain(self.rows, self.query, rows_per_slice=self.rows_per_slice, where=self.where)
        head = [f"scan: left to Spark's reader, as {self.reason}"]
        if (condition := self.chosen.condition()) is not None:
            head.append(f"filter, in Catalyst: {condition}")
        if self.chosen.chosen is not None and not self.chosen.is_sql:
            rows = in_line(self.chosen.chosen.rows)
            head.append(f"filter, inside one mapInArrow, which all rows enter before the query: {rows}")
        # The first line says of the route "scan" what is true here.
        return text_of([*head, *(line for line in text.split("\n") if not line.startswith("  scan: "))])


def chosen_rows(frame: DataFrame, filtered: Filtered, names: Iterable[str], what: str) -> DataFrame:
    """Return the rows of a table that a filter chooses, with some columns, or those that it reads; or all.

    Spark evaluates what SQL says of it. Tasks evaluate the rest, as where they read files: Spark does not
    take pyarrow's expressions, and its reader loses rows with NaN where statistics leave NaN out. Errors call
    what it is a part of `what`.
    """
    if filtered.chosen is None:
        return frame
    if (condition := filtered.condition()) is not None:
        frame = frame.where(condition)
    if filtered.is_sql:
        return frame
    columns = columns_of(frame.schema)
    # A column that both read is read once.
    read = pa.schema([(name, kind_of(name, columns)) for name in dict.fromkeys([*names, *filtered.kinds])])
    # Names that mapInArrow does not take for paths into structs.
    numbered = [f"c{at}" for at in range(len(read))]
    rows = frame.select(*map(identifier, read.names)).toDF(*numbered)
    task = shipped(Choose(read, filtered.chosen.rows), f"filter of {what}")
    return rows.mapInArrow(task, rows.schema).toDF(*read.names)


@dataclass(frozen=True)
class Choose:
    """Yields the rows of batches for which an expression holds, which names columns as `schema` does."""

    schema: pa.Schema
    rows: ds.Expression

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the chosen rows in the types in which they come, as times have the zone of the session."""
        for batch in batches:
            table = pa.Table.from_batches([batch]).rename_columns(self.schema.names)
            chosen = table.cast(self.schema).filter(self.rows)
            yield from chosen.rename_columns(batch.schema.names).cast(batch.schema).to_batches()
