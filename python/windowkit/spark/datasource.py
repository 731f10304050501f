"""``spark.read.format("windowkit")``: windows over Parquet files as a Python data source.

A data source has no shuffle. So each of its partitions reads the columns of all files, and keeps the rows of
its share of the keys: the more partitions, the less work each has after reading, and the more is read in all.
`windowkit.spark.scan` reads every row once, and is the one to take from Python; this one is for SQL, where
a table is all there is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from windowkit import aggregates, windows
from windowkit.errors import InvalidValue
from windowkit.local import plan
from windowkit.query import Query, query
from windowkit.spark import files, parquet
from windowkit.spark.scan import in_spark, table_schema
from windowkit.spark.worker import finished
from windowkit.windows import COMMA, quoted, unquoted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windowkit._native import Plan

__all__ = ["Source", "options", "register"]

OPTIONS = ("path", "paths", "by", "time", "windows", "aggs", "partitions")


def register(session: SparkSession) -> None:
    """Make the format ``windowkit`` known to a session.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet as pq, tempfile
    >>> import windowkit as wk
    >>> path = tempfile.mkdtemp() + "/readings.parquet"
    >>> pq.write_table(pa.table({"k": [1, 1], "t": [5, 17], "v": [2.0, 3.0]}), path)
    >>> wk.spark.register(df.sparkSession)
    >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    >>> df.sparkSession.read.format("windowkit").options(**wk.spark.options(query)).load(path)
    DataFrame[k: bigint, window: struct<start:bigint,end:bigint>, sum(v): double]
    """
    session.dataSource.register(Source)


def options(wanted: Query) -> dict[str, str]:
    """Return a query as options of the format ``windowkit``.

    Examples
    --------
    >>> import windowkit as wk
    >>> options(wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count()]))
    {'by': 'k', 'time': 't', 'windows': 'tumbling(10)', 'aggs': 'sum(v); count(*)'}

    Raises
    ------
    InvalidValue
        The query has no text form, as users' own functions have none.
    """
    told = {
        "by": ", ".join(map(quoted, wanted.by)),
        "time": wanted.time,
        "windows": "; ".join(map(str, wanted.windows)),
        "aggs": "; ".join(map(str, wanted.aggs)),
    }
    if any(each.user is not None for each in wanted.aggs) or asked(told) != wanted:
        raise InvalidValue(
            "query: it has no text form, as functions of one's own have none; use wk.spark.scan"
        )
    return told


def asked(told: dict[str, str]) -> Query:
    """Return the query of options."""
    for name in ("time", "windows", "aggs"):
        if name not in told:
            raise InvalidValue(f"{name}: the option is not given; options are {', '.join(OPTIONS)}")
    keys = told.get("by", "")
    return query(
        by=[unquoted("by", name.strip()) for name in COMMA.split(keys)] if keys else [],
        time=told["time"],
        windows=[windows.parse(text.strip()) for text in told["windows"].split(";")],
        aggs=[aggregates.parse(text.strip()) for text in told["aggs"].split(";")],
    )


class Source(DataSource):
    """The format ``windowkit``; see `register`.

    Options are ``by`` (names, comma-separated), ``time``, ``windows`` and ``aggs`` (in the text forms of the
    command line, separated by semicolons), and ``partitions`` (1 by default).
    """

    @classmethod
    def name(cls) -> str:
        """Return what ``format`` is told."""
        return "windowkit"

    def schema(self) -> spark.StructType:
        """Return the schema of the windows."""
        output = pa.schema(self.job().planned().output_schema)
        return spark.StructType(
            [spark.StructField(field.name, in_spark(field.type), field.nullable) for field in output]
        )

    def reader(self, schema: spark.StructType) -> DataSourceReader:
        """Return what reads the files."""
        return Reader(self.job())

    def job(self) -> Whole:
        """Check the options against the files."""
        told = {name: value for name, value in self.options.items() if name in OPTIONS}
        paths = json.loads(told["paths"]) if "paths" in told else told.get("path")
        if paths is None:
            raise InvalidValue("path: none is given; load(path) is told a file or directory")
        number = told.get("partitions", "1")
        if not number.isdecimal() or int(number) < 1:
            raise InvalidValue(f"partitions: {number!r} is given; it is a number of at least 1")
        wanted = asked(told)
        source = files.found(paths, None)
        columns = table_schema(source, False)
        where = repr(source.files[0].path)
        # A column that is not there is for the plan to refuse, which tells of those that are.
        read = {
            name: parquet.readable(name, kind, where) if name in wanted.inputs else pa.null()
            for name, kind in columns.items()
        }
        plan(wanted, pa.schema(list(read.items())))
        schema = pa.schema([(name, read[name]) for name in wanted.inputs])
        return Whole(wanted, schema, source, int(number))


@dataclass(frozen=True)
class Whole:
    """A query over all files."""

    query: Query
    schema: pa.Schema
    source: files.Source
    partitions: int

    def planned(self) -> Plan:
        """Return the core's plan."""
        return plan(self.query, self.schema)


class Reader(DataSourceReader):
    """Reads all files in every partition, for its share of the keys."""

    def __init__(self, job: Whole) -> None:
        self.job = job

    def partitions(self) -> list[InputPartition]:
        """Return a partition per share of the keys."""
        return [InputPartition(number) for number in range(self.job.partitions)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the windows of the keys of a partition."""
        source = self.job.source
        planned = self.job.planned()
        engine = planned.engine()
        for file in source.files:
            whole = files.Part(file, 0, file.size)
            for rows in parquet.batches(source.filesystem, whole, self.job.schema, None, source.partitioned):
                if self.job.partitions == 1:
                    engine.push(rows)
                    continue
                for bucket, own in planned.split(rows, self.job.partitions):
                    if bucket == partition.value:
                        engine.push(own)
        yield from finished(engine)
