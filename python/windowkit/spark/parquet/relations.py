"""A scan of files at the end of a plan of Spark: of Parquet files that Spark or Delta lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cached_property
from math import isnan
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as spark

from windowkit.spark.jobs import arrow_type
from windowkit.spark.parquet import delta
from windowkit.spark.parquet.jvm import Unread, attributes, class_of, fields_of, items, short, statuses
from windowkit.spark.parquet.naming import BY_NAME, Naming
from windowkit.spark.parquet.survey import is_settled
from windowkit.spark.parquet.tables import Listed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Relation"]

PACKAGE: Final = "org.apache.spark.sql.execution."
FORMAT: Final = f"{PACKAGE}datasources.parquet.ParquetFileFormat"
RELATION: Final = f"{PACKAGE}datasources.HadoopFsRelation"
LISTING: Final = frozenset(
    (
        *("paths", "basepath", "mergeschema", "inferschema"),
        *("pathglobfilter", "recursivefilelookup", "modifiedbefore", "modifiedafter"),
    )
)
"""Options of which nothing is left once Spark has listed the files and found their columns."""
ENCRYPTED: Final = "parquet.crypto.factory.class"
SUBQUERIES: Final = "org.apache.spark.sql.catalyst.expressions.SubqueryExpression"


class Relation:
    """What a scan of files reads.

    Parameters
    ----------
    frame : DataFrame
    scan : FileSourceScanExec
        Of its plan.

    Raises
    ------
    Unread
        Its rows are not those of the files alone.
    """

    def __init__(self, frame: DataFrame, scan: Any) -> None:
        self.frame = frame
        self.scan = scan
        self.relation = relation = scan.relation()
        form = class_of(relation.fileFormat())
        if class_of(relation) != RELATION or form not in (FORMAT, delta.FORMAT):
            raise Unread(f"files are read as {form.rpartition('.')[2]}, not as Parquet")
        self.location = relation.location()
        lists = class_of(self.location)
        self.is_delta = form == delta.FORMAT
        if not (lists in delta.INDEXES if self.is_delta else lists.startswith(PACKAGE)):
            raise Unread(f"files are listed by {short(self.location)}")
        if relation.bucketSpec().isDefined():
            raise Unread("the table is bucketed")
        options = str(relation.options().keySet().mkString("\n")).splitlines()
        others = sorted(name for name in options if name.lower() not in LISTING and not is_settled(name))
        if others:
            raise Unread(f"the option {others[0]} is given to Spark's reader")
        session = frame.sparkSession._jsparkSession
        if session.sessionState().newHadoopConf().get(ENCRYPTED) is not None:
            raise Unread(f"{ENCRYPTED} is set, and files may be encrypted")
        self.filters: list[Any] = items(scan.partitionFilters())

    @cached_property
    def table(self) -> dict[str, dict[str, Any]]:
        """The columns of the table, in JSON."""
        columns = fields_of(self.relation.schema())
        return delta.columns_of(self.location, columns) if self.is_delta else columns

    @property
    def required(self) -> dict[str, dict[str, Any]]:
        """What is read of them."""
        return fields_of(self.scan.requiredSchema())

    @property
    def about_files(self) -> frozenset[int]:
        """The columns of the plan that say something of files."""
        return frozenset(number for _, number in attributes(self.scan.fileConstantMetadataColumns()))

    @property
    def mark(self) -> str | None:
        """The column that is 0 where a row is not deleted, if there is one."""
        return delta.MARK if self.is_delta else None

    @property
    def described(self) -> str | None:
        """What it is, where that is more than files."""
        return str(self.location.toString()) if self.is_delta else None

    def naming(self, names: list[str]) -> Naming:
        """Return how these columns are found in files."""
        return delta.naming(self.location, names) if self.is_delta else BY_NAME

    def check(self) -> None:
        """Refuse what is known only while Spark runs the plan."""
        jvm = self.frame.sparkSession._jvm
        for each in self.filters:
            if getattr(jvm, SUBQUERIES).hasSubquery(each):
                raise Unread(f"files are ruled out by a subquery, {each.sql()}")

    @cached_property
    def partitioned(self) -> pa.Schema:
        """The columns of which directories have values."""
        return pa.schema(
            [
                (each.name, arrow_type(each.name, each.dataType, "paths", "UTC"))
                for each in self.of_directories
            ]
        )

    @cached_property
    def of_directories(self) -> list[spark.StructField]:
        """The same, as Spark has them."""
        fields = fields_of(self.relation.partitionSchema()).values()
        return list(map(spark.StructField.fromJson, fields))

    def files(self) -> Iterator[tuple[str, Listed]]:
        """Yield the files that Spark would read, and their URIs: those that it has listed, or lists now."""
        read = [value_reader(field) for field in self.of_directories]
        types = [each.dataType() for each in self.relation.partitionSchema().fields()] if read else []
        filters, vectors = self.scan.dataFilters(), None
        if self.is_delta:
            filters, vectors = delta.without_mark(filters), delta.Vectors(self.frame, self.location)
        for directory in items(self.location.listFiles(self.scan.partitionFilters(), filters)):
            row = directory.values()
            values = tuple(
                None if row.isNullAt(at) else to(row.get(at, of_type))
                for at, (to, of_type) in enumerate(zip(read, types, strict=True))
            )
            files = directory.files()
            for at, (uri, size, written, more) in enumerate(statuses(files)):
                if vectors is None:
                    yield uri, Listed(size, values, written)
                    continue
                deleted = vectors.of(files.apply(at)) if more is None or delta.VECTOR in more else None
                # Such files are never written again, but tables are copied, which leaves other times.
                yield uri, Listed(size, values, None, deleted)


def decimal_of(value: Any, name: str, kind: spark.DecimalType) -> Decimal:
    """Return a value of a directory; of another scale than its type, it is another one to Spark's reader."""
    found: Decimal = value.toJavaBigDecimal()
    if -int(found.as_tuple().exponent) != kind.scale:
        raise Unread(f"a directory says {name}={found}, of another scale than {kind.simpleString()}")
    return found


def value_reader(field: spark.StructField) -> Callable[[Any], Any]:
    """Return how a value of a directory is read, of a row of Spark's own form."""

    def number(value: Any) -> Any:
        if isinstance(value, float) and isnan(value):
            raise Unread(f"a directory says {field.name}=NaN")
        return value

    if isinstance(field.dataType, spark.StringType):
        return lambda value: str(value.toString())
    kind = field.dataType
    if isinstance(kind, spark.DecimalType):
        return lambda value: decimal_of(value, field.name, kind)
    known = (
        spark.NumericType,
        spark.BooleanType,
        spark.DateType,
        spark.TimestampType,
        spark.TimestampNTZType,
    )
    if isinstance(field.dataType, known):
        return number
    raise Unread(f"directories have values of {field.dataType.simpleString()}")
