"""``spark.read.format("windowkit")``: windows over Parquet files as a Python data source.

A data source has no shuffle. So each of its partitions reads the columns of all files, and keeps the rows of
its share of the keys: the more partitions, the less work each has after reading, and the more is read in all.
`windowkit.spark.scan` reads every row once, and is the one to take from Python; this one is for SQL, where
a table is all there is. Spark asks a Python data source for no metrics and for no notes in its plans:
`windowkit.spark.explain_scan` says which files, row groups and columns the same query reads.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema

from windowkit.errors import InvalidValue
from windowkit.files import listing
from windowkit.language import aggregates, windows
from windowkit.language.checks import one_of
from windowkit.language.engines import naming
from windowkit.language.expressions import refuse_expressions
from windowkit.language.query import Query, query
from windowkit.language.window_columns import WINDOW_COLUMNS
from windowkit.language.windows import quoted, split, unquoted
from windowkit.local.query import plan
from windowkit.spark.jobs import shaped_schema
from windowkit.spark.parquet import footers
from windowkit.spark.parquet.filters import Filter, chosen_of, columns_of, kind_of
from windowkit.spark.parquet.pruning import left_over
from windowkit.spark.parquet.reading import Reader
from windowkit.spark.parquet.survey import Settings, by_footers, unread
from windowkit.spark.routes import finished
from windowkit.spark.shipping import importing, in_one_line, packed_task

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from windowkit._native import Plan

__all__ = ["whole_of", "options", "query_of", "register", "shipped_source"]

OPTIONS: Final = (
    *("path", "paths", "by", "time", "windows", "aggs", "windowColumns", "filter", "partitions"),
    *("mergeSchema", "timeZone"),
)
MOST_PARTITIONS: Final = 1 << 16
WITHOUT_NULLS: Final = ("collect_rows", "collect_set", "frequent", "top_k")
"""Functions in whose lists Spark's analysis has no nulls."""


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
    DataFrame[k: bigint, window_start: bigint, window_end: bigint, sum(v): double]
    """
    session.dataSource.register(shipped_source())


def options(wanted: Query) -> dict[str, str]:
    """Return a query as options of the format ``windowkit``.

    Examples
    --------
    >>> import windowkit as wk
    >>> options(wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count()]))
    {'by': 'k', 'time': 't', 'windows': 'tumbling(10)', 'aggs': 'sum(v); count(*)'}

    Raises
    ------
    InvalidType, InvalidValue
        Options do not hold it: user-defined functions, expressions, `weight` and `fill` have none.
    """
    refuse_expressions(wanted.named, "query", "which options do not hold; use query.run(df)")
    given = {
        "by": ", ".join(map(quoted, wanted.by)),
        "time": quoted(wanted.time),
        "windows": "; ".join(map(str, wanted.windows)),
        "aggs": "; ".join(map(str, wanted.aggs)),
        **({} if wanted.window_columns == WINDOW_COLUMNS[0] else {"windowColumns": wanted.window_columns}),
    }
    options = {name.lower(): value for name, value in given.items()}
    if any(each.user is not None for each in wanted.aggs) or query_of(options) != wanted:
        raise InvalidValue(
            "query: options do not hold it, as user-defined functions, weight and fill have no option; use "
            "wk.spark.scan, or for fill query.run(df)"
        )
    return given


def query_of(given: dict[str, str]) -> Query:
    """Return the query of options, whose names are in lower case."""
    for name in ("time", "windows", "aggs"):
        if name not in given:
            raise InvalidValue(f"{name}: the option is not given; options are {', '.join(OPTIONS)}")
    keys = given.get("by", "")
    return query(
        by=[unquoted("by", name.strip()) for name in split(keys, ",")] if keys else [],
        time=unquoted("time", given["time"].strip()),
        windows=[windows.parse(text.strip()) for text in split(given["windows"], ";")],
        aggs=[aggregates.parse(text.strip()) for text in split(given["aggs"], ";")],
        window_columns=one_of("windowColumns", given.get("windowcolumns", WINDOW_COLUMNS[0]), WINDOW_COLUMNS),
        weight=unquoted("weight", given["weight"].strip()) if "weight" in given else None,
        fill=given.get("fill"),
    )


def shipped_source() -> type[DataSource]:
    """Return the format ``windowkit`` as a class for Spark, which pickles by value.

    Spark makes, plans and reads a data source in Python workers, which unpickle it and its reader; where they
    lack windowkit, or have another version, both say so.
    """
    there = importing()

    # Nothing in these classes may refer to what windowkit has: that would be pickled too, and import it.
    class ShippedReader(DataSourceReader):
        def __init__(self, payload: bytes, number: int) -> None:
            self.payload, self.number = payload, number

        def partitions(self) -> list[InputPartition]:
            return [InputPartition(number) for number in range(self.number)]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            there()
            from windowkit.spark.shipping import running

            yield from running(self.payload, partition.value)

    class Shipped(DataSource):
        @classmethod
        def name(cls) -> str:
            return "windowkit"

        def schema(self) -> spark.StructType:
            there()
            from windowkit.spark.scans.datasource import whole_of

            return whole_of(self.options).output()

        def reader(self, schema: spark.StructType) -> DataSourceReader:
            there()
            from windowkit.spark.scans.datasource import whole_of

            whole = whole_of(self.options)
            return ShippedReader(whole.payload(), whole.partitions)

    return Shipped


def whole_of(given: Mapping[str, str]) -> Whole:
    """Check options against the files that they name.

    Options, in any case, are ``by`` (names, comma-separated), ``time``, ``windows`` and ``aggs`` (in the text
    forms of the command line, separated by semicolons), ``windowColumns`` (``struct`` for one column in
    place of two), ``filter`` (JSON: a list of ``[column, operator, value]`` that all hold, or a list of such
    lists of which any does; strings are read as the column's type), ``mergeSchema`` (false by default) and
    ``timeZone`` (of times in directories and in the filter) as Spark's own formats have them, ``paths``
    (JSON: a list) and ``partitions`` (1 by default). Columns are found in any case. A partition holds the
    slices of its keys in memory.
    """
    options = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(options) - set(map(str.lower, OPTIONS)))
    if unknown:
        raise InvalidValue(f"{unknown[0]}: there is no such option; options are {', '.join(OPTIONS)}")
    number = options.get("partitions", "1")
    if not re.fullmatch("[0-9]{1,9}", number) or not 1 <= int(number) <= MOST_PARTITIONS:
        raise InvalidValue(
            f"partitions: {number!r} is given; it is a number of at least 1, at most {MOST_PARTITIONS:,}"
        )
    merge = options.get("mergeschema", "false").lower()
    if merge not in ("true", "false"):
        raise InvalidValue(f"mergeSchema: {options['mergeschema']!r} is given; it is true or false")
    wanted = query_of(options)
    zone = options.get("timezone")
    try:
        pc.assume_timezone(pa.scalar(0, pa.timestamp("us")), zone or "UTC")
    except pa.ArrowInvalid as error:
        raise InvalidValue(
            f"timeZone: {zone!r} is given ({error}); it is a name such as Europe/Berlin"
        ) from None
    source = listing.found(paths_of(options))
    footers.check_directories(source)
    columns = columns_of(footers.schema_of(source, merge == "true"))
    wanted = wanted.resolved(list(columns))
    names = {column: in_file(column, columns) for column in wanted.inputs}
    # A column that is not there is for the plan to refuse, which says which there are.
    own = {column: name for column, name in names.items() if name is not None}
    others = [(name, pa.null()) for name in columns if name not in names.values()]
    kinds = {name: kind_of(name, columns) for name in own.values()}
    with naming("spark"):
        plan(wanted, pa.schema([*((column, kinds[name]) for column, name in own.items()), *others]))
    chosen, needed, _ = chosen_of(filter_of(options.get("filter")), columns, zone=zone)
    schema = pa.schema([(name, kinds[name]) for name in own.values()])
    # A column that both read is read once.
    both = pa.schema(list({**kinds, **needed}.items()))
    read = left_over(source, chosen, both)
    reason = by_footers(read, both, Settings())
    if reason is not None:
        raise unread(reason)
    reader = Reader(source.filesystem, both, source.partitioned, chosen)
    return Whole(wanted, schema, reader, read.files, int(number))


def paths_of(options: Mapping[str, str]) -> str | list[str]:
    """Return what `load` is to read: a path, or several as JSON."""
    if "path" in options and "paths" in options:
        raise InvalidValue("paths: they are given together with path; give one of the two")
    if "path" in options:
        return options["path"]
    if "paths" not in options:
        raise InvalidValue("path: none is given; load(path) takes a file or directory")
    listed = read_json("paths", options["paths"], 'paths is JSON such as ["a.parquet", "b.parquet"]')
    if not isinstance(listed, list) or not all(isinstance(path, str) for path in listed):
        raise InvalidValue(f"paths: {options['paths']!r} is given; paths is JSON, a list of strings")
    return listed


def read_json(option: str, text: str, allowed: str) -> Any:
    """Return what an option says as JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        # No JSON, an int of too many digits, or too many brackets within each other.
        raise InvalidValue(f"{option}: {text!r} is given ({error}); {allowed}") from None


def in_file(column: str, columns: Mapping[str, object]) -> str | None:
    """Return what files call a column of a query: in any case, as Spark has it by default."""
    alike = [name for name in columns if name.lower() == column.lower()]
    return column if column in columns else alike[0] if len(alike) == 1 else None


def filter_of(text: str | None) -> Filter | None:
    """Return the option ``filter`` as tuples."""
    if text is None:
        return None
    allowed = 'filter is JSON such as [["v", ">", 0]], or a list of such lists of which any holds'
    listed = read_json("filter", text, allowed)
    if not isinstance(listed, list) or not all(isinstance(each, list) for each in listed):
        raise InvalidValue(f"filter: {text!r} is given; {allowed}")

    def comparisons(terms: list[Any]) -> list[Any]:
        return [tuple(each) if isinstance(each, list) else each for each in terms]

    # A comparison begins with the name of a column, and a list of comparisons with a list.
    if any(each and isinstance(each[0], list) for each in listed):
        return [comparisons(each) for each in listed]
    return comparisons(listed)


@dataclass(frozen=True)
class Whole:
    """A query over all files.

    `schema` has its columns as files call them, `reader` reads also those of the filter.
    """

    query: Query
    schema: pa.Schema
    reader: Reader
    listed: tuple[listing.File, ...]
    partitions: int

    def planned(self) -> Plan:
        """Return the core's plan."""
        return plan(self.query, pa.schema(list(zip(self.query.inputs, self.schema.types, strict=True))))

    def output(self) -> spark.StructType:
        """Return the schema of the windows."""
        output = pa.schema(self.planned().output_schema)
        fields = [
            spark.StructField(field.name, footers.in_spark(field.type), field.nullable) for field in output
        ]
        by_name = {field.name: field for field in fields}
        # As Spark's own analysis says it of `query.run`.
        for name in [self.query.window_column, *(["window_rows"] if self.query.has_ranks else [])]:
            edges = by_name[name].dataType
            assert isinstance(edges, spark.StructType)
            edges = spark.StructType([spark.StructField(edge.name, edge.dataType) for edge in edges.fields])
            by_name[name].dataType = edges
        window = by_name[self.query.window_column]
        window.nullable = any(each.overlaps for each in self.query.windows)
        mark = "sessionWindow" if self.query.windows[0].is_session else "timeWindow"
        window.metadata = {f"spark.{mark}": True}
        if self.query.has_ranks:
            by_name["window_rows"].nullable = True
        for aggregate in self.query.aggs:
            if aggregate.function in WITHOUT_NULLS:
                kind = by_name[aggregate.name].dataType
                assert isinstance(kind, spark.ArrayType)
                by_name[aggregate.name].dataType = spark.ArrayType(kind.elementType, False)
        return shaped_schema(spark.StructType(fields), self.query)

    def payload(self) -> bytes:
        """Return what reads a partition, for workers."""
        return packed_task(self.read_share, in_one_line(self.query))

    def read_share(self, number: int) -> Iterator[pa.RecordBatch]:
        """Read all files, and yield the windows of the keys of partition `number`."""
        planned = self.planned()
        engine = planned.engine()
        for file in self.listed:
            for each in self.reader.batches(listing.Part(file, 0, file.size)):
                rows = each.select(self.schema.names).rename_columns(self.query.inputs)
                if self.partitions == 1:
                    engine.push(rows)
                    continue
                for bucket, own in planned.split(rows, self.partitions):
                    if bucket == number:
                        engine.push(own)
        # Spark refuses batches whose fields may be null where its own may not, and the other way round.
        shown = to_arrow_schema(self.output(), timezone="UTC")
        for batch in finished(engine, self.query):
            columns = [column.cast(kind) for column, kind in zip(batch.columns, shown.types, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=shown)
