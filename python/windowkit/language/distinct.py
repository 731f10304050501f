"""Rows without their duplicates; bound to no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from windowkit.language import engines, written
from windowkit.language.arguments import hinted
from windowkit.language.checks import checked_name, distinct_names, one_of
from windowkit.language.display import Lines, facts
from windowkit.language.durations import Duration, Length
from windowkit.language.join import reach
from windowkit.language.options import Routed
from windowkit.language.processing import Clock
from windowkit.language.progress import Delay
from windowkit.language.query import LATE_LIMIT
from windowkit.language.running import by_data, distinct_options
from windowkit.language.shedding import Shed
from windowkit.language.windows import quoted

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Unpack

    from windowkit.streams.distinct import DistinctOperator

__all__ = ["Distinct", "distinct"]

Per = Literal["first", "interval"]
PER: Final = ("first", "interval")


@dataclass(frozen=True)
class Distinct:
    """A removal of duplicates, to be run on any data; made by `distinct`.

    A plain value: frozen, hashable, picklable, and bound to no data and no engine.

    Parameters
    ----------
    by : tuple of str
        The columns in which duplicates are equal.
    time : str
        The time column.
    within : Duration or int
        How long after a row another one is its duplicate.
    per : {"first", "interval"}
        Whether that is after any row, or after one that is left.
    """

    by: tuple[str, ...]
    time: str
    within: Duration | int
    per: Per = "first"

    def __str__(self) -> str:
        """Return columns, time and length on a line.

        Examples
        --------
        >>> import windowkit as wk
        >>> print(wk.distinct(["id", "kind"], time="ts", within="10 minutes"))
        by id, kind over ts: within 10 minutes
        """
        keys = ", ".join(map(quoted, self.by)) or "nothing"
        per = "" if self.per == "first" else ", one per interval"
        return f"by {keys} over {quoted(self.time)}: within {self.within}{per}"

    def _repr_html_(self) -> str:
        return facts(
            "windowkit distinct",
            [("by", self.by), ("time", [self.time]), ("within", [self.within]), ("per", [self.per])],
        )

    @by_data(distinct_options)
    def run(self, data: Any, threads: int | None = None, **options: Any) -> Any:
        """Return the rows of a table that are not duplicates.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            As for `windowkit.Query.run`. Rows may come in any order. Or a Spark DataFrame.
        threads, validate, metrics, result
            As for `windowkit.Rolling.run`.
        route : "scan" or "packed", optional
            Whether tasks read Parquet files themselves: see `windowkit.spark.distinct`. Only for Spark.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            The rows that are no duplicates, with all their columns, in the order of the data. Columns of
            pandas and Polars stay as they are, and so does the index. Rows of Spark have no order, so any one
            of equal rows of one time is left.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The data is not Arrow data, or malformed, or it does not have the columns, or `within` does not
            fit the time column.

        Notes
        -----
        One sort by key and time, none where a key's rows are in order; with ``per="interval"``, by time, none
        where rows are in order, and one thread.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"id": ["a", "b", "a", "a"], "t": [8, 9, 3, 30]})
        >>> wk.distinct("id", time="t", within=10).run(table).to_pylist()
        [{'id': 'b', 't': 9}, {'id': 'a', 't': 3}, {'id': 'a', 't': 30}]
        """
        return engines.run(self, data, threads=threads, **options)

    @hinted
    def batches(
        self, data: Any, threads: int | None = None, *, validate: bool | None = None
    ) -> pyarrow.RecordBatchReader:
        """Return the rows of a table that are no duplicates, batch by batch.

        Parameters
        ----------
        data, threads, validate
            As for `run`.

        Returns
        -------
        pyarrow.RecordBatchReader
            The rows of `run`; those of the data are held until all are read.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"id": ["a", "b", "a"], "t": [8, 9, 3]})
        >>> [batch.num_rows for batch in wk.distinct("id", time="t", within=10).batches(table)]
        [2]
        """
        with engines.process(data) as here:
            return here.batches(self, data, threads=threads, validate=validate)

    @hinted
    def schema(self, data: Any) -> pyarrow.Schema:
        """Return the schema of the result, without evaluating anything: that of the data.

        Parameters
        ----------
        data : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            Columns of a DataFrame that are not read, and that Arrow does not hold, are of type null.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> wk.distinct("id", time="t", within=10).schema(schema).names
        ['id', 't']
        """
        with engines.process(data) as here:
            return here.schema(self, data)

    def explain(self, data: Any = None, **options: Unpack[Routed]) -> str:
        """Describe how it is evaluated.

        Parameters
        ----------
        data : schema or data, optional
            As for `schema`, or a Spark DataFrame: with it the text says what runs where.
        route : "scan" or "packed", optional
            As for `run`. Only for Spark.

        Examples
        --------
        >>> import windowkit as wk
        >>> print(wk.distinct("id", time="ts", within="10 minutes").explain().splitlines()[0])
        distinct by id over ts: within 10 minutes
        """
        return Lines(engines.explain(self, data, **options))

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds, for `from_dict`, here or in another process.

        Examples
        --------
        >>> import windowkit as wk
        >>> wk.distinct("id", time="ts", within="10 minutes").to_dict()
        {'version': 1, 'by': ['id'], 'time': 'ts', 'within': '10 minutes'}
        """
        return written.write_distinct(self)

    @staticmethod
    def from_dict(form: Mapping[str, Any]) -> Distinct:
        """Return the `Distinct` that a dict describes, made by `to_dict` or by another program.

        Raises
        ------
        InvalidType, InvalidValue
            It is of another version, lacks a key, has others, or a value is not what `distinct` takes.

        Examples
        --------
        >>> import windowkit as wk
        >>> distinct = wk.distinct("id", time="t", within=10)
        >>> wk.Distinct.from_dict(distinct.to_dict()) == distinct
        True
        """
        return distinct(**written.read_distinct(form))

    @hinted
    def operator(
        self,
        schema: Any,
        *,
        progress: Delay | None = None,
        late_limit: int | None = LATE_LIMIT,
        clock: Clock | None = None,
        shed: Shed | None = None,
    ) -> DistinctOperator:
        """Remove the duplicates of a stream, whose rows come in any order.

        Parameters
        ----------
        schema : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            The schema of rows; data is not read.
        progress : Delay, optional
            How the watermark follows rows: `windowkit.delay`. By default, only `DistinctOperator.advance`
            moves it.
        late_limit : int, optional
            How many late rows are held until they are taken; any number if None.
        clock : callable, optional
            For sources that may be idle, and heartbeats: as for `windowkit.Query.operator`.
        shed : Shed, optional
            How much memory the state may take: `windowkit.shed`, with ``keep="keys"``. Where it would take
            more, keys are dropped with all of their rows, and results have the column ``shed_share``. Any
            amount by default.

        Returns
        -------
        DistinctOperator
            One that no row was pushed to yet.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> op = wk.distinct("id", time="t", within=10).operator(schema)
        >>> op.push(pa.table({"id": ["a", "a"], "t": [8, 3]})).num_rows
        0
        >>> op.advance(9).to_pylist()
        [{'id': 'a', 't': 3}]
        """
        with engines.process(schema) as here:
            operator: DistinctOperator = here.operator(
                self, schema, progress=progress, late_limit=late_limit, clock=clock, shed=shed
            )
        return operator


@hinted
def distinct(by: str | Sequence[str], *, time: str, within: Length, per: Per = "first") -> Distinct:
    """Describe a removal of duplicates: of equal rows that are close in time, the first is kept.

    A row is a duplicate if another row that is equal in `by` is at most `within` before it in time; of equal
    rows of one time, all but the first to come are duplicates. A row may be the duplicate of a duplicate,
    too: of rows that follow each other at distances of up to `within`, only the first is left, however many
    there are. With ``per="interval"``, only rows that are left have duplicates: the first row is left, then
    the first that is more than `within` after that, and so on, so that one row is left per interval. Which
    times these have does not depend on the order in which rows come.

    Parameters
    ----------
    by : str or sequence of str
        The columns in which duplicates are equal, as keys of queries are: nulls are equal, NaN equals NaN,
        and 0.0 equals -0.0. ``[]`` for all rows.
    time : str
        The time column: timestamps of any unit and zone, dates, durations or integers. A row without time
        is not a duplicate.
    within : length
        A duration such as ``"10 minutes"``, or an integer if times are; 0 or more, and below 2^61 units of
        the times.
    per : {"first", "interval"}
        Whether one row is left of all that follow each other closely, however long they go on (as an alarm
        that is repeated while it lasts), or one per interval (*throttling*: a reading now and then).

    Returns
    -------
    Distinct
        A value, to be run on any table or stream.

    Raises
    ------
    InvalidType, InvalidValue
        An argument has the wrong type, a name is given twice, or the length is negative, a number of rows or
        of months.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.distinct("id", time="ts", within="10 minutes")
    Distinct(by=('id',), time='ts', within=Duration('10 minutes'), per='first')
    >>> import pyarrow as pa
    >>> table = pa.table({"t": [0, 6, 12, 18, 40]})
    >>> wk.distinct([], time="t", within=10).run(table)["t"].to_pylist()
    [0, 40]
    >>> wk.distinct([], time="t", within=10, per="interval").run(table)["t"].to_pylist()
    [0, 12, 40]
    """
    one_of("per", per, PER)
    return Distinct(distinct_names("by", by), checked_name("time", time), reach(within), per)
