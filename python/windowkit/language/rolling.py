"""Rolling aggregation: every row of the input, with aggregates of the rows around it; bound to no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language import engines, written
from windowkit.language.aggregation import Framed
from windowkit.language.arguments import hinted
from windowkit.language.checks import a_type, as_given, checked_name, items, names, refuse_duplicates
from windowkit.language.display import facts
from windowkit.language.expressions import Column, Expression, column, columns, expressions_of
from windowkit.language.options import CutPlan
from windowkit.language.running import by_data, by_labels, label_options, rolling_options
from windowkit.language.windows import quoted

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Unpack

__all__ = ["Rolling", "labels_of", "rolling"]


@dataclass(frozen=True, repr=False)
class Rolling:
    """Aggregates over a frame of each row, to be run on any data; made by `rolling`.

    A plain value: frozen, hashable, picklable, and bound to no data and no engine.

    Parameters
    ----------
    by : tuple of str
        Key columns; () for one group of all rows.
    time : str
        The time column.
    aggs : tuple of Framed
        What is computed for each row, with the frame of each.
    """

    by: tuple[str, ...]
    time: str
    aggs: tuple[Framed, ...]

    def __post_init__(self) -> None:
        if not self.aggs:
            raise InvalidValue("aggs: () is empty; there is at least one aggregate")
        refuse_duplicates("aggs", "output column", [each.name for each in self.aggs])
        expressions_of(self.named)

    def __str__(self) -> str:
        """Return keys, time and aggregates on a line.

        Examples
        --------
        >>> from windowkit import rolling, sum
        >>> print(rolling(by="k", time="ts", aggs=[sum("v").over("10 minutes")]))
        by k over ts: sum(v) over (10 minutes)
        """
        keys = ", ".join(map(quoted, self.by)) or "nothing"
        return f"by {keys} over {quoted(self.time)}: {'; '.join(map(str, self.aggs))}"

    def __repr__(self) -> str:
        return f"<windowkit.Rolling {self}>"

    def _repr_html_(self) -> str:
        return facts("windowkit rolling", [("by", self.by), ("time", [self.time]), ("aggregates", self.aggs)])

    @property
    def inputs(self) -> list[str]:
        """Names of the columns that are read, `expressions` included, each once, in order of first use."""
        return self.named

    @property
    def named(self) -> list[str]:
        """Names of the columns that are read, as `named` of a query has them."""
        aggregated = (column for each in self.aggs for column in each.inputs)
        return list(dict.fromkeys([*self.by, self.time, *aggregated]))

    @property
    def placing(self) -> list[str]:
        """Names of the columns that say in which frames rows are, as `placing` of a query has them."""
        filters = (each.aggregate.condition for each in self.aggs if each.aggregate.condition is not None)
        return [name for name in (self.time, *filters) if not isinstance(name, Expression)]

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The columns that are computed before they are read; see `windowkit.expr`."""
        return expressions_of(self.named)

    @property
    def plain(self) -> Rolling:
        """The rolling aggregation over columns that are there by name, those of `expressions` included."""
        aggs = tuple(replace(each, aggregate=each.aggregate.plain) for each in self.aggs)
        return replace(self, by=tuple(map(str, self.by)), time=str(self.time), aggs=aggs)

    @property
    def reads_all(self) -> bool:
        """Whether it reads all columns of its input, as `windowkit.collect_rows` may ask for."""
        return any(each.aggregate.reads_all for each in self.aggs)

    def resolved(self, names: Sequence[str]) -> Rolling:
        """Return the same where what reads all columns names these."""
        aggs = (replace(each, aggregate=each.aggregate.resolved(names)) for each in self.aggs)
        return replace(self, aggs=tuple(aggs))

    @by_data(rolling_options)
    def run(self, data: Any, threads: int | None = None, **options: Any) -> Any:
        """Evaluate the aggregates over a table or a Spark DataFrame.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or a Spark DataFrame
            As for `windowkit.Query.run`. Rows may come in any order.
        threads : int, optional
            Threads to use, at least 1; all usable cores if None. Not for Spark.
        validate : bool, optional
            Look at every value that is read, as for `windowkit.Query.run`. Not for Spark.
        split : bool, optional
            Cut keys with too many rows for one task by time: see `windowkit.spark.roll`. Only for Spark.
        route : "scan" or "packed", optional
            Whether tasks read Parquet files themselves: see `windowkit.spark.roll`. Only for Spark.
        metrics : windowkit.spark.Metrics, optional
            Counts rows while the result is computed. Only for Spark.
        result : "pyarrow", "pandas", "polars", "polars-lazy", "duckdb" or "ibis", optional
            The library whose table is returned; by default that of `data`, as for `windowkit.Query.run`. Not
            for Spark.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            Every row of the input, with all its columns, in its order, and a column per aggregate after
            them. Columns of pandas and Polars stay as they are, and so does the index. Of a Spark DataFrame a
            DataFrame, evaluated when an action runs, with its rows in any order.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The data is not Arrow data, or malformed, or it does not have the columns, or a length is finer
            than the unit of its time column, or it has a column of the name of an aggregate.
        Overflow
            A sum or mean of integers, decimals or durations does not fit its type.

        Notes
        -----
        One sort by key and time, none where a key's rows are in order; then, of each frame, O(1) amortised a
        row, or O(log n) for what holds all values (quantiles, distinct and frequent values), however many
        rows a frame has. Memory: the data, twice the results, and what the rows of some keys hold.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(10).alias("recent"))
        >>> table = pa.table({"t": [12, 1, 5], "k": ["a", "a", "b"], "v": [1, 2, 4]})
        >>> rolling.run(table).to_pydict()
        {'t': [12, 1, 5], 'k': ['a', 'a', 'b'], 'v': [1, 2, 4], 'recent': [1, 2, 4]}
        """
        return engines.run(self, data, threads=threads, **options)

    @by_labels(label_options)
    def at(
        self,
        labels: Any,
        events: Any,
        *,
        by: str | Sequence[str] | None = None,
        time: str | None = None,
        **options: Any,
    ) -> Any:
        """Return the aggregates as of each label's time, over the events before it: for training sets.

        Parameters
        ----------
        labels : as the data of `run`
            Rows with a key and a time. They are not events and are never part of a frame.
        events : as the data of `run`
            What is aggregated; a Spark DataFrame if `labels` is one.
        by : str or sequence of str, optional
            The key columns of `labels`, in the order of those of the events; by default those of the same
            names. They have the same types.
        time : str, optional
            The time column of `labels`, by default that of the name that it has in the events. It has a zone
            if that has one, not necessarily the same; if its unit is another, both are compared in the finer.
        threads, validate, metrics, result
            As for `run`. A result is of the library of `labels`.
        split : str, datetime.timedelta or int, optional
            Cut keys into stretches of that length: see `windowkit.spark.as_of`. Only for Spark.
        route : "scan" or "packed", optional
            Whether tasks read Parquet files themselves: see `windowkit.spark.as_of`. Only for Spark.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            Every label, with all its columns, in its order (of a Spark DataFrame in any), and a column per
            aggregate after them. By time, a label at t has the frame of an event at t. By rows, it has that
            of the last event that is not after it: ``"100 rows"`` are the last hundred events at or before
            t. Where `closed` leaves out the end, events at t are not in the frame, and ``"100 rows"`` are the
            last hundred before t.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `run`; or keys or times of the labels have other types than those of the events, a label has a
            column with the name of an aggregate, or a frame reaches beyond its row.
        Overflow
            As `run`.

        Notes
        -----
        A label whose key has no events gets the aggregates of no rows: 0 if they count, else null. Keys are
        equal as in `run`: null keys are a group of their own. An event without a time is in no frame, since
        its time is unknown, and the frames of a label without a time are empty.

        Time and memory as of `run`, with labels in place of the rows that have results.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> features = wk.rolling(by="user", time="t", aggs=wk.sum("paid").over(10).alias("recent"))
        >>> paid = pa.table({"user": ["a", "a", "b"], "t": [1, 5, 7], "paid": [10, 20, 40]})
        >>> loans = pa.table({"who": ["a", "b", "c"], "asked": [13, 6, 9], "repaid": [True, False, True]})
        >>> features.at(loans, paid, by="who", time="asked")["recent"].to_pylist()
        [20, None, None]
        """
        return engines.at(self, labels, events, *labels_of(self, by, time), **options)

    @hinted
    def schema(self, data: Any) -> pyarrow.Schema:
        """Return the schema of the result, without evaluating anything.

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
        >>> rolling = wk.rolling(by=[], time="t", aggs=wk.mean("v").over("1 hour"))
        >>> rolling.schema(pa.schema({"t": pa.timestamp("s"), "v": pa.int8()})).names
        ['t', 'v', 'avg(v) OVER (1 hour)']
        """
        with engines.process(data) as here:
            return here.schema(self, data)

    def explain(self, data: Any = None, **options: Unpack[CutPlan]) -> str:
        """Describe how the aggregates are evaluated.

        Parameters
        ----------
        data : schema or data, optional
            As for `schema`, or a Spark DataFrame: with it the text says what runs where.
        split, route : optional
            As for `run`. Only for Spark.

        Examples
        --------
        >>> import windowkit as wk
        >>> print(wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("1 hour")).explain().splitlines()[0])
        rolling by k over ts
        """
        return engines.explain(self, data, **options)

    def to_dict(self) -> dict[str, Any]:
        """Return the definition as a dict that JSON holds, for `from_dict`, here or in another process.

        Raises
        ------
        InvalidType
            A function is user-defined.

        Examples
        --------
        >>> import windowkit as wk
        >>> rolling = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("1 hour", closed="left"))
        >>> rolling.to_dict()["rolling"]
        [{'agg': 'sum(v)', 'before': '1 hour', 'after': 0, 'closed': 'left', 'tail': None, 'alias': None}]
        >>> wk.Rolling.from_dict(rolling.to_dict()) == rolling
        True
        """
        return written.write_rolling(self.by, self.time, self.aggs)

    @staticmethod
    def from_dict(form: Mapping[str, Any]) -> Rolling:
        """Return the definition in a dict that was made by `to_dict` or another program.

        Raises
        ------
        InvalidType, InvalidValue
            It is of another version, lacks a key, has others, or a value is not what `rolling` takes.

        Examples
        --------
        >>> import windowkit as wk
        >>> rolling = wk.rolling(by="k", time="ts", aggs=wk.sum("v").over("9 rows"))
        >>> wk.Rolling.from_dict(rolling.to_dict()).aggs[0].name
        'sum(v) OVER (9 rows)'
        """
        return rolling(**written.read_rolling(form))


@hinted
def rolling(*, by: Column | Sequence[Column], time: Column, aggs: Framed | Sequence[Framed]) -> Rolling:
    """Describe a rolling aggregation: for each row, aggregates of the rows around it.

    Parameters
    ----------
    by : str or sequence of str
        Key columns; ``[]`` for one group of all rows. A null key is a group of its own, NaN keys are one
        group, and so are 0.0 and -0.0.
    time : str
        The time column: timestamps of any unit and zone, dates, durations or integers. Rows without time are
        at one moment before all others, infinitely far from them: they are in each other's frames, and in
        frames that are unbounded.
    aggs : Framed or sequence of Framed
        Aggregates with frames, as ``windowkit.sum("v").over("10 minutes")``: see `windowkit.Aggregate.over`.

    Returns
    -------
    Rolling
        A value, to be run on any data.

    Raises
    ------
    InvalidType, InvalidValue
        An argument has the wrong type or is empty, an aggregate has no frame, or two have the same name.

    Examples
    --------
    >>> import windowkit as wk
    >>> rolling = wk.rolling(
    ...     by="user",
    ...     time="ts",
    ...     aggs=[
    ...         wk.sum("amount").over("10 minutes"),
    ...         wk.median("amount").over("100 rows"),
    ...         wk.count_distinct("shop").over("1 day", closed="left"),
    ...         wk.max("amount").over(before="5 minutes", after="5 minutes").alias("peak"),
    ...     ],
    ... )
    >>> [each.name for each in rolling.aggs][2:]
    ['count(DISTINCT shop) OVER (1 day, closed left)', 'peak']
    """
    return Rolling(
        by=columns("by", by),
        time=column("time", time),
        aggs=items(
            "aggs",
            aggs,
            Framed,
            "an aggregate over a frame like windowkit.sum('v').over('10 minutes'), or a sequence of them",
        ),
    )


def labels_of(
    rolling: Rolling, by: str | Sequence[str] | None, time: str | None
) -> tuple[tuple[str, ...], str]:
    """Return the keys and the time of labels; see `Rolling.at`.

    Raises
    ------
    InvalidType, InvalidValue
        A name is invalid, there are more or fewer names of keys than keys, or a frame reaches beyond its row.
    """
    for each in rolling.aggs:
        if each.frame.looks_ahead:
            raise InvalidValue(
                f"aggs: {each} reaches beyond its row; what happens after a label is not known at its time, "
                "so that frames of at have no after"
            )
    if isinstance(by, Mapping):
        raise InvalidType(
            f"by: {as_given(by):.60} is {a_type(by)}; it is the keys of the labels, in the order of those "
            f"of the events, {', '.join(rolling.by)}"
        )
    keys = rolling.by if by is None else names("by", by)
    if len(keys) != len(rolling.by):
        raise InvalidValue(
            f"by: {', '.join(keys) or '()'} is given; labels have as many keys as events, whose keys are "
            f"{', '.join(rolling.by) or '()'}"
        )
    return keys, rolling.time if time is None else checked_name("time", time)
