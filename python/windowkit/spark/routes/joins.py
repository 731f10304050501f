"""Joins in Spark: rows of both sides cross the shuffle packed, by bucket of keys, then one `mapInArrow`.

Each side is packed as `rolling` packs rows, from files or from Spark, with the columns that the result has.
Keys of both sides have the same types, and so they are in the same buckets; stage 2 joins one bucket after
the other. With `split`, each block of time of a key is joined by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as spark
from pyspark.sql.functions import col

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.language.checks import a_type, suggested
from windowkit.language.durations import Duration, Length, Measure
from windowkit.language.foreign import is_spark
from windowkit.language.join import Join
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.language.windows.user import Custom
from windowkit.local import join as local_join
from windowkit.spark.jobs import Job, arrow_type, check_batch, check_metrics, columns_at, keyed, position_of
from windowkit.spark.routes import buckets, packed, stages
from windowkit.spark.routes.blocks import PackBlocks, blocks, described
from windowkit.spark.routes.sides import Operation, Rows, Side
from windowkit.spark.shipping import Metrics, observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["explain_join", "join", "joining"]

SIDES: Final = ("left", "right")
KEPT: Final = {"left": ("left",), "right": ("right",), "full": ("left", "right"), "anti": ("left",)}
"""The sides of which rows without a partner are in the result."""
STREAMS: Final = "join.operator(left, right) joins streams in one process"


def join(
    left: DataFrame,
    right: DataFrame,
    join: Join,
    *,
    split: Length | None = None,
    route: str | None = None,
    metrics: Metrics | None = None,
) -> DataFrame:
    """Join two DataFrames by keys and times, lazily: ``join.run(left, right)`` calls it.

    Parameters
    ----------
    left, right : DataFrame
        Batch DataFrames of one session, classic or Connect. Columns are found by name as by
        `windowkit.spark.aggregate`.
    join : Join
        Of timestamps, with or without zone, dates, integers or intervals of days and time.
    split : str, datetime.timedelta or int, optional
        The length of the stretches of time into which each key is cut, so that a key with too many rows is
        shared by several tasks. It is as long as the band, or a window, and best many times that: rows of one
        side, the left one of right joins and else the right one, are read twice where they are so close to an
        end. Not for full joins.
    route : str, optional
        ``"scan"`` if tasks are to read the Parquet files of both sides themselves, ``"packed"`` if Spark is
        to hand over the rows of both. By default tasks read each side that is a read of Parquet files, and
        has many rows.
    metrics : Metrics, optional
        Counts rows and packed bytes while the result is computed.

    Returns
    -------
    DataFrame
        The rows of `windowkit.Join.run`, in no order, with its columns. A column of the right side gets the
        suffix also if its name differs from one of the left in case alone, unless Spark minds case.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The join does not fit the DataFrames: see `windowkit.Join.schema`. Or one is streaming, or has a
        column of a type that Spark does not exchange with Arrow. Or keys cannot be cut by `split`, or `route`
        is unknown or not possible. No Spark job has started then.

    Notes
    -----
    Without `split` all rows of a key are in one task; those of a bucket of keys are in its memory. A row
    crosses from Spark to Python once; one that has no key or no time, and is not in the result, does not, nor
    does one that tasks read from a file.

    Examples
    --------
    >>> import windowkit as wk
    >>> nearby = wk.join(by="device", left_time="ts", right_time="ts", within="1 minute", how="left")
    >>> wk.spark.join(df, df, nearby)
    DataFrame[device: string, ts: timestamp, v: double, ts_right: timestamp, v_right: double]
    """
    check_metrics(metrics)
    made = joining(left, right, join, split)
    return made.run(made.sides(route), metrics)


def joining(left: DataFrame, right: DataFrame, join: Join, split: Length | None) -> Operation:
    """Check a join against two DataFrames; starts no Spark job.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `join`.
    """
    pair = prepared(left, right, join)
    packs = packs_of(pair, split)
    return Operation(pair.rows, partial(joined, pair, packs), lambda read: described_join(pair, read, split))


def joined(
    pair: Sides,
    packs_of_block: tuple[list[stages.Pack | PackBlocks], Join],
    read: Sequence[Side],
    metrics: Metrics | None,
) -> DataFrame:
    """Return the rows of a join, of both sides."""
    what = in_one_line(pair.join)
    packs, of_block = packs_of_block
    packed_by = tuple((each.query, each.schema) for each in packs)
    task = Joined(of_block, packed_by, pair.leads)
    chunks = [each.chunks(pack, what) for each, pack in zip(read, packs, strict=True)]
    ordered = chunks[pair.leads :] + chunks[: pair.leads]
    in_turn = buckets.united(ordered, metrics, spread=bool(of_block.left_by))
    result = in_turn.mapInArrow(shipped(task, what), spark.StructType(pair.fields))
    return observed_count(metrics, "rows out", result)


@dataclass(frozen=True)
class Sides:
    """A join that fits two DataFrames.

    Parameters
    ----------
    join : Join
        With the names that columns have in the DataFrames.
    rows : tuple of Rows
        Left and right, with the columns that are read: c0, c1, ...
    fields : list of StructField
        Of the result.
    """

    join: Join
    rows: tuple[Rows, ...]
    fields: list[spark.StructField]

    @property
    def jobs(self) -> list[Job]:
        """The jobs over the rows, left and right."""
        return [each.job for each in self.rows]

    @property
    def leads(self) -> int:
        """Which side a bucket must have for its rows to be read, 0 for the left one; it comes first."""
        return int(self.join.how == "right")


def packs_of(pair: Sides, split: Length | None) -> tuple[list[stages.Pack | PackBlocks], Join]:
    """Return what packs the rows of each side, and the join of rows as they are packed then.

    Raises
    ------
    InvalidType, InvalidValue
        Keys cannot be cut by `split`.
    """
    join = pair.join
    if split is None:
        return [packed.pack(each, never=True) for each in pair.jobs], join
    if join.how == "full":
        raise InvalidValue(
            "split: it is given for a full join, and only of one side is it known in a block which rows have "
            "no partner; use a left join and an anti join of the sides exchanged, or leave split out"
        )
    before, after = reaches(join)
    # What is at most so far after a left row is that much after it.
    cut = blocks(split, (before, after) if pair.leads else (after, before), pair.jobs)
    packs = [cut.pack(each, is_guest=at != pair.leads) for at, each in enumerate(pair.jobs)]
    own = tuple(pair.jobs[0].schema.names) if join.left_columns is None else join.left_columns
    return list(packs), replace(
        join, left_by=(*join.left_by, cut.name), right_by=(*join.right_by, cut.name), left_columns=own
    )


def reaches(join: Join) -> tuple[Measure, Measure]:
    """Return how far partners of a left row are before and after it at most."""
    if join.within is not None:
        return join.within
    window = join.windows
    size: object = None
    if isinstance(window, Custom):
        size = window.longest
    elif window is not None and not window.is_local:
        size = window.lengths().get("size")
    if not isinstance(size, Duration | int):
        raise InvalidValue(
            f"split: it is given, and windows are {window}; it is for joins within a time, and for tumbling "
            "and sliding windows of a fixed length, and those of a windowkit.ContextFree"
        )
    return size, size


def prepared(left: DataFrame, right: DataFrame, join: Join) -> Sides:
    """Check a join against two DataFrames; starts no Spark job."""
    if not isinstance(join, Join):
        raise InvalidType(f"join: {a_type(join)} is given; it is what windowkit.join(...) returns")
    for name, frame in zip(SIDES, (left, right), strict=True):
        if not is_spark(frame):
            raise InvalidType(
                f"{name}: {a_type(frame)} is given; left and right both are Spark DataFrames, or neither is"
            )
        check_batch(frame, name, STREAMS)
        weight = getattr(join, f"{name}_weight")
        if weight is not None:
            raise InvalidValue(
                f"{name}_weight: {weight!r} is given for DataFrames of Spark, which are joined without "
                "weights; allowed are tables and streams of one process"
            )
    join = found(join, left, right)
    read = [(left, join.left_by, join.left_time, join.left_columns)]
    read += [(right, join.right_by, join.right_time, () if lacks_right(join) else join.right_columns)]
    chosen = alike([columns(*each) for each in read], join)
    rows = []
    for name, frame, (_, by, time, _) in zip(SIDES, chosen, read, strict=True):
        these, checked = keyed(frame, by, time, name, of_side=name)
        needed: tuple[str, ...] = ()
        if name not in KEPT.get(join.how, ()):
            # They have no partners.
            needed = tuple(dict.fromkeys([*by, time]))
            these = these.where(" and ".join(f"c{checked.positions[key]} is not null" for key in needed))
        rows.append(Rows(name, these, checked, needed))
    return Sides(join, tuple(rows), fields(join, [each.job for each in rows]))


def found(join: Join, left: DataFrame, right: DataFrame) -> Join:
    """Return a join with the names of columns that DataFrames have, which Spark finds in any case."""

    def own(argument: str, frame: DataFrame, names: Sequence[str]) -> tuple[str, ...]:
        there, result = frame.columns, []
        for name in names:
            at = position_of(name, there, frame, argument)
            if at is None:
                raise UnknownColumn(
                    f"{argument}: no column {name!r}; there are {', '.join(there)}{suggested(name, there)}"
                )
            result.append(there[at])
        return tuple(result)

    of_left, of_right = join.left_columns, join.right_columns
    return replace(
        join,
        left_by=own("by, of the left side", left, join.left_by),
        right_by=own("by, of the right side", right, join.right_by),
        left_time=own("left_time", left, [join.left_time])[0],
        right_time=own("right_time", right, [join.right_time])[0],
        left_columns=None if of_left is None else own("left_columns", left, of_left),
        right_columns=None if of_right is None else own("right_columns", right, of_right),
    )


def lacks_right(join: Join) -> bool:
    """Whether the result has no columns of the right side."""
    return join.how in ("semi", "anti")


def columns(frame: DataFrame, by: Sequence[str], time: str, read: Sequence[str] | None) -> DataFrame:
    """Return the columns of a side that are read."""
    if read is None:
        return frame
    names = list(dict.fromkeys([*by, time, *read]))
    return columns_at(frame, list(map(frame.columns.index, names)), names)


def alike(frames: list[DataFrame], join: Join) -> list[DataFrame]:
    """Return the sides, with key columns of one type where they differ in what may be null within them."""
    kinds = [{field.name: field.dataType for field in frame.schema.fields} for frame in frames]
    casts: list[dict[str, spark.DataType]] = [{}, {}]
    for pair in zip(join.left_by, join.right_by, strict=True):
        own, other = (of.get(name) for of, name in zip(kinds, pair, strict=True))
        if own is None or other is None or own == other or nullable(own) != nullable(other):
            continue
        for cast, name in zip(casts, pair, strict=True):
            cast[name] = nullable(own)
    result = []
    for frame, cast in zip(frames, casts, strict=True):
        if cast:
            names = frame.columns
            numbered = frame.toDF(*(f"i{at}" for at in range(len(names))))
            values = [(name, col(f"i{at}")) for at, name in enumerate(names)]
            typed = [value.cast(cast[name]) if name in cast else value for name, value in values]
            frame = numbered.select(*typed).toDF(*names)
        result.append(frame)
    return result


def nullable(kind: spark.DataType) -> spark.DataType:
    """Return a type whose parts may be null."""
    if isinstance(kind, spark.ArrayType):
        return spark.ArrayType(nullable(kind.elementType), True)
    if isinstance(kind, spark.StructType):
        return spark.StructType(
            [spark.StructField(field.name, nullable(field.dataType), True) for field in kind.fields]
        )
    return kind


def fields(join: Join, jobs: Sequence[Job]) -> list[spark.StructField]:
    """Return the columns of the result, whose types and nulls are those of Spark's own joins.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The join does not fit its sides.
    """
    schemas = []
    for each in jobs:
        of_frame = each.frame.schema.fields
        kinds = zip(each.schema, of_frame, strict=True)
        schemas.append(pa.schema([own.with_nullable(field.nullable) for own, field in kinds]))
    planned = local_join.bound(join, *schemas)
    result: list[spark.StructField] = []
    minds_case = jobs[0].frame.sparkSession.conf.get("spark.sql.caseSensitive") != "false"
    schema, origins = local_join.schema_of_result(planned, join), local_join.origins_of(planned, join)
    for field, origin in zip(schema, origins, strict=True):
        name = field.name
        if origin is None:
            result.append(spark.StructField(name, edge(field.type, jobs[0]), field.nullable))
            continue
        is_left, source = origin
        checked = jobs[0] if is_left else jobs[1]
        own = checked.frame.schema.fields[checked.schema.names.index(source)]
        if is_left and isinstance(own.dataType, spark.NullType) and source in join.left_by:
            # Rows of the right side alone have its keys.
            of = join.right_by[join.left_by.index(source)]
            own = (
                jobs[1].frame.schema.fields[jobs[1].schema.names.index(of)]
                if join.how in ("right", "full")
                else own
            )
        taken = {each.name.lower() for each in result}
        if not minds_case and not is_left and name.lower() in taken:
            if name == source:
                name += join.suffix
            if name.lower() in taken:
                raise InvalidValue(
                    f"suffix: the result would have two columns {name!r}, as Spark does not mind case; give "
                    "another suffix, or choose columns by left_columns and right_columns"
                )
        result.append(spark.StructField(name, own.dataType, field.nullable, own.metadata))
    return result


def edge(kind: pa.DataType, checked: Job) -> spark.DataType:
    """Return the type of a column of starts or ends of windows: that of times, or of all integers."""
    time = checked.type_of(checked.query.time)
    zone = checked.frame.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    return time if arrow_type("window", time, zone=zone) == kind else spark.LongType()


def in_one_line(join: Join) -> str:
    """Return it in one line, for errors of tasks."""
    return f"join {join}"


@dataclass(frozen=True)
class Joined:
    """Joins packed rows, one bucket after the other.

    Parameters
    ----------
    join : Join
    sides : tuple of (Query, Schema)
        Left and right, by which `stages.Pack` packed them.
    leads : int
        Which of them comes first, 0 for the left one; but for full joins, buckets without rows of it are not
        read.
    """

    join: Join
    sides: tuple[tuple[Query, pa.Schema], ...]
    leads: int
    limits: stages.Limits = stages.LIMITS

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the result for a partition of chunks, whose buckets come one after the other."""
        planned = local_join.bound(self.join, *(schema for _, schema in self.sides))
        ordered = self.sides[self.leads :] + self.sides[: self.leads]
        is_led = self.join.how != "full"
        for tables in buckets.gathered(batches, ordered, self.limits, is_led=is_led):
            left, right = tables[self.leads :] + tables[: self.leads]
            made = map(pa.record_batch, planned.run(left, right, 1))
            yield from map(partial(local_join.shaped, join=self.join), made)


def explain_join(
    left: DataFrame, right: DataFrame, join: Join, *, split: Length | None = None, route: str | None = None
) -> str:
    """Describe how `join` is evaluated in Spark: what is stored, and what runs where.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        As `windowkit.spark.join`.
    """
    made = joining(left, right, join, split)
    return text_of(made.explain(made.sides(route)))


def described_join(pair: Sides, read: Sequence[Side], split: Length | None) -> list[str]:
    """Describe how rows are joined, of both sides."""
    lines = local_join.described(pair.join)
    for name, each in zip(SIDES, read, strict=True):
        less = "" if name in KEPT.get(pair.join.how, ()) else ", but for those without a key or a time"
        lines += each.described(f" of the {name} side", less)
    lines += packed.moved(pair.jobs[0], "rows of both sides in order of time, and their partners")
    if split is not None:
        lines.append(described(split))
    elif pair.join.left_by:
        lines.append("  all rows of a key are in one task, unless split= cuts keys by time")
    lines.append("output")
    return [*lines, *(f"  {field.name}: {field.dataType.simpleString()}" for field in pair.fields)]
