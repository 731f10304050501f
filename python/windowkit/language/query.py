"""A query: keys, a time column, windows and aggregates, independent of any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from windowkit.errors import InvalidValue
from windowkit.language import engines, fills, written
from windowkit.language.aggregates import Aggregate
from windowkit.language.arguments import hinted
from windowkit.language.checks import items, limit, one_of, refuse_duplicates
from windowkit.language.display import Lines, facts
from windowkit.language.emission import Emission, no_emission
from windowkit.language.expressions import Column, Expression, column, columns, expressions_of
from windowkit.language.options import QueryPlan
from windowkit.language.processing import ProcessingTime
from windowkit.language.running import by_data, query_options
from windowkit.language.weights import check_weights
from windowkit.language.window_columns import WINDOW_COLUMNS, WindowColumns, day_of
from windowkit.language.windows import Window, quoted

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from windowkit.language.durations import Length
    from windowkit.language.processing import Clock
    from windowkit.language.progress import Delay
    from windowkit.language.shedding import Shed
    from windowkit.streams.operator import Operator

__all__ = ["Query", "query"]

MAX_WINDOWS: Final = 10**9
"""The greatest number of windows by default: many times what memory usually holds."""
AGGREGATES: Final = (
    "an aggregate like windowkit.sum('v'), or a sequence of them; those over frames are for windowkit.rolling"
)
"""What errors say of aggregates."""
LATE_LIMIT: Final = 10**6
"""Late rows that an operator holds for `take_late`, unless it says otherwise."""


@dataclass(frozen=True, repr=False)
class Query:
    """Window aggregation, to be run on any data; made by `query`.

    A query is a plain value: frozen, hashable, picklable, and bound to no data and no engine.

    Parameters
    ----------
    by : tuple of str
        Key columns; () for one group of all rows.
    time : str
        The time column.
    windows : tuple of Window
        At least one.
    aggs : tuple of Aggregate
        At least one.
    max_windows : int or None
        The greatest number of windows that a run, a task of Spark or a call of an operator may make; None
        for any number.
    emit : Emission or None
        When streams emit windows that are not final, and how results of a window relate.
    window_columns : {"flat", "struct", "date"}
        Whether a window is two columns of results, or one: a struct, or the day on which it begins.
    weight : str or None
        The column of weights, if rows may retract others.
    fill : str, tuple of pairs of str, or None
        How results fill windows without rows: one way for all aggregates, or names with theirs.
    """

    by: tuple[str, ...]
    time: str
    windows: tuple[Window, ...]
    aggs: tuple[Aggregate, ...]
    max_windows: int | None = MAX_WINDOWS
    emit: Emission | None = None
    window_columns: WindowColumns = "flat"
    weight: str | None = None
    fill: fills.Fill | None = None

    def __post_init__(self) -> None:
        if not self.windows:
            raise InvalidValue("windows: () is empty; a query has at least one window")
        if not self.aggs:
            raise InvalidValue("aggs: () is empty; a query has at least one aggregate")
        refuse_duplicates("windows", "window", [window.name for window in self.windows])
        if one_of("window_columns", self.window_columns, WINDOW_COLUMNS) == "date":
            day_of(self.windows)
        refuse_duplicates("query", "output column", self.columns, self.by)
        why = "; windows are structs of this name before they are two columns"
        refuse_duplicates("query", "output column", self._columns("struct"), self.by, why)
        expressions_of(self.named)
        if self.fill is not None:
            fills.check_windows(self.windows)
            object.__setattr__(self, "fill", fills.checked(self.fill, [each.name for each in self.aggs]))
        if self.weight is not None:
            check_weights(self.weight, (*self.by, self.time), self.windows, self.aggs)
        if self.emit is not None:
            if not isinstance(self.emit, Emission):
                raise no_emission(self.emit)
            self.emit.check(self.windows)
            self.emit.check_columns(self.columns)
            if self.weight is not None and self.emit.refinement != "retracting":
                raise InvalidValue(
                    f"emit: {self.emit!r} is given for a query with weight={self.weight!r}, whose windows "
                    "may lose all their rows; only refinement='retracting' can withdraw a window that was "
                    "emitted"
                )

    def __str__(self) -> str:
        """Return keys, time, windows and aggregates on a line.

        Examples
        --------
        >>> import windowkit as wk
        >>> print(wk.query(by="k", time="ts", windows=wk.tumbling("1 day"), aggs=[wk.count(), wk.sum("v")]))
        by k over ts: tumbling(1 day); count(*), sum(v)
        """
        keys = ", ".join(map(quoted, self.by)) or "nothing"
        time = self.time if isinstance(self.time, ProcessingTime) else quoted(self.time)
        windows, aggs = (", ".join(map(str, several)) for several in (self.windows, self.aggs))
        weight = "" if self.weight is None else f", weighed by {quoted(self.weight)}"
        fill = "" if self.fill is None else f"; fill {fills.form_of(self.fill)!r}"
        return f"by {keys} over {time}{weight}: {windows}; {aggs}{fill}"

    def __repr__(self) -> str:
        return f"<windowkit.Query {self}>"

    def _repr_html_(self) -> str:
        rows = [("by", self.by), ("time", [self.time]), ("windows", self.windows), ("aggregates", self.aggs)]
        emit = [] if self.emit is None else [("emit", [self.emit])]
        weight = [] if self.weight is None else [("weight", [self.weight])]
        fill = [] if self.fill is None else [("fill", [fills.form_of(self.fill)])]
        return facts(
            "windowkit query", [*rows, *weight, *emit, *fill, ("columns of the result", self.columns)]
        )

    @property
    def nested(self) -> Query:
        """The query with a window in one column: a struct."""
        return self if self.window_columns == "struct" else replace(self, window_columns="struct")

    @property
    def window_column(self) -> str:
        """Name of the output column that holds windows as structs: Spark's, ``window`` or ``session_window``.

        Flat columns (see `query`) are ``window_start`` and ``window_end``, and the day is ``window_date``,
        whichever windows these are.
        """
        return "session_window" if all(each.is_session for each in self.windows) else "window"

    @property
    def columns(self) -> list[str]:
        """Names of the output columns.

        Examples
        --------
        >>> from windowkit import query, sliding, sum
        >>> query(by="k", time="ts", windows=sliding("10 minutes", "1 minute"), aggs=sum("v")).columns
        ['k', 'window_start', 'window_end', 'sum(v)']
        """
        return self._columns(self.window_columns)

    def _columns(self, window_columns: WindowColumns) -> list[str]:
        """Return the names of the output columns, with windows held so."""
        window_name = ["window_name"] if len(self.windows) > 1 else []
        extents = [self.window_column, *(["window_rows"] if self.has_ranks else [])]
        if window_columns == "flat":
            prefixes = ("window", *extents[1:])
            extents = [f"{prefix}_{edge}" for prefix in prefixes for edge in ("start", "end")]
        elif window_columns == "date":
            extents = ["window_date"]
        aggregates = (aggregate.name for aggregate in self.aggs)
        return [*map(str, self.by), *window_name, *extents, *aggregates]

    @property
    def has_ranks(self) -> bool:
        """Whether a window is measured by rows, so that the result has the column ``window_rows``."""
        return any(window.counts_rows for window in self.windows)

    @property
    def reads_all(self) -> bool:
        """Whether the query reads all columns of its input, as `windowkit.collect_rows` may ask for."""
        return any(aggregate.reads_all for aggregate in self.aggs)

    @property
    def named(self) -> list[str]:
        """Names of the input columns that the query names, each once, in order of first use."""
        windowed = (column for window in self.windows for column in window.columns)
        aggregated = (column for aggregate in self.aggs for column in aggregate.inputs)
        weight = [] if self.weight is None else [self.weight]
        return list(dict.fromkeys([*self.by, self.time, *windowed, *aggregated, *weight]))

    @property
    def placing(self) -> list[str]:
        """Names of the columns that say in which windows rows are, rather than being keys or aggregated."""
        windowed = (column for window in self.windows for column in window.columns)
        filters = (each.condition for each in self.aggs if each.condition is not None)
        weight = [] if self.weight is None else [self.weight]
        return [
            name for name in (self.time, *windowed, *filters, *weight) if not isinstance(name, Expression)
        ]

    @property
    def inputs(self) -> list[str]:
        """Names of the input columns the query reads, each once, in order of first use.

        Those that its emission policy reads in a stream (`windowkit.on`) are not among them.

        Raises
        ------
        InvalidValue
            The query reads all columns, whichever they are: see `reads_all` and `resolved`; or it has
            `expressions`, which may read any.
        """
        if self.expressions:
            raise InvalidValue(
                "inputs: the query has expressions, which may read any column of its input; read all of them"
            )
        if self.reads_all:
            raise InvalidValue(
                "inputs: the query reads all columns of its input, by collect_rows(); read all of them, or "
                "name them, as query.resolved(names) does"
            )
        return self.named

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """The columns that are computed before the query looks at them; see `windowkit.expr`."""
        return expressions_of(self.named)

    @property
    def plain(self) -> Query:
        """The query over columns that are there by name, those of `expressions` included."""
        if not self.expressions:
            return self
        return replace(
            self,
            by=tuple(map(str, self.by)),
            time=str(self.time) if isinstance(self.time, Expression) else self.time,
            windows=tuple(each.plain for each in self.windows),
            aggs=tuple(each.plain for each in self.aggs),
            weight=None if self.weight is None else str(self.weight),
        )

    def resolved(self, names: Sequence[str]) -> Query:
        """Return the same query over an input of these columns: what reads all of them names them.

        Parameters
        ----------
        names : sequence of str
            The columns of the input, in its order.

        Raises
        ------
        InvalidValue
            The query reads all columns, and two of them have one name.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.collect_rows())
        >>> query.resolved(["t", "ip"]).inputs
        ['t', 'ip']
        """
        if not self.reads_all:
            return self
        return replace(self, aggs=tuple(aggregate.resolved(names) for aggregate in self.aggs))

    def to_dict(self) -> dict[str, Any]:
        """Return the query as a dict that JSON holds, for `from_dict`, here or in another process.

        Returns
        -------
        dict
            ``version`` (1), ``by`` (a list of names), ``time`` (a name; None for
            `windowkit.PROCESSING_TIME`), ``windows`` and ``aggs`` (lists of text forms, as on the command
            line), ``max_windows`` (an int or None); and ``emit`` if it has an emission policy: ``early``
            (None, or a mapping such as ``{"rows": 10}`` or ``{"or": [...]}``) and ``refinement``;
            ``window_columns`` if these are ``"struct"``; ``weight`` if rows have weights; and ``fill`` if
            windows without rows are filled.

        Raises
        ------
        InvalidType
            A window or function is user-defined, or a column is computed by an expression.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="ts", windows=wk.tumbling("1 day"), aggs=wk.sum("v").where("ok"))
        >>> query.to_dict()["windows"], query.to_dict()["aggs"]
        (['tumbling(1 day)'], ['sum(v) where ok'])
        >>> wk.Query.from_dict(query.to_dict()) == query
        True
        """
        return written.write(self)

    @staticmethod
    def from_dict(form: Mapping[str, Any]) -> Query:
        """Return the query in a dict that was made by `to_dict` or another program.

        Raises
        ------
        InvalidType, InvalidValue
            It is of another version, lacks a key, has others, or a value is not what `query` takes.

        Examples
        --------
        >>> import windowkit as wk
        >>> form = {"version": 1, "by": ["k"], "time": "ts", "max_windows": None}
        >>> print(wk.Query.from_dict({**form, "windows": ["tumbling(1 day)"], "aggs": ["sum(v)"]}))
        by k over ts: tumbling(1 day); sum(v)
        """
        return query(**written.read(form))

    @by_data(query_options)
    def run(self, data: Any, threads: int | None = None, **options: Any) -> Any:
        """Evaluate the query.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``, or a Spark DataFrame
            For instance a pyarrow Table, RecordBatch, RecordBatchReader or Dataset, or a Polars, pandas,
            DuckDB or Ibis table. A stream is read once, batch by batch. So is a LazyFrame of Polars, whenever
            the result, a LazyFrame, is collected.
        threads : int, optional
            Threads to use, at least 1; all usable cores if None. Not for Spark.
        route : str, optional
            Which plan to use in Spark, rather than the one the planner chooses; ``"scan"`` has tasks read the
            files of a table themselves: see `windowkit.spark.aggregate`. Only for Spark.
        validate : bool, optional
            Look at every value, and refuse malformed data: strings that are not UTF-8, wrong counts of nulls.
            By default only where bytes may come from elsewhere: of a reader, such as those of datasets, of
            streams of Arrow IPC and of Flight. Lengths, offsets, views and codes of dictionaries are always
            checked; see "What is trusted" in the document "Semantics". Not for Spark.
        rows_per_slice : float, optional
            A hint for that planner; see `windowkit.spark.aggregate`. Only for Spark.
        metrics : windowkit.spark.Metrics, optional
            Counts rows, slices and windows while the result is computed. Only for Spark, not for streams.
        partitioner : str or windowkit.spark.Partitioning, optional
            Partition the rows first, by a method such as ``"waterfill"``, so that no task waits for a hot
            key; see `windowkit.spark.aggregate`. Only for Spark.
        n : int, optional
            Partitions, where `partitioner` names a method.
        result : "pyarrow", "pandas", "polars", "polars-lazy", "duckdb" or "ibis", optional
            What is returned. By default it is what `data` is: a DataFrame of pandas or Polars, a LazyFrame of
            Polars, a relation of DuckDB, a table of Ibis, or a frame of narwhals; and a pyarrow Table for all
            else. Not for Spark.
        where : str or Expression, optional
            Which windows are returned: a condition in SQL on the columns of the result, as text or by
            `windowkit.expr`. The result is that of filtering all windows by it. But what it says of keys and
            of windows' times is applied to the rows of `data` before anything else, so that Spark prunes
            partitions and skips files by it; `explain` says what that is. See "Conditions on results" in the
            document "Semantics".
        output_mode, allowed_lateness, buckets, metrics_name, late_rows : optional
            Only for streaming Spark DataFrames; see `windowkit.spark.stream`.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame, pyspark.sql.DataFrame, or another (see `result`)
            One row per key and window that has rows. For a Spark DataFrame it is a DataFrame, evaluated when
            an action runs; for a streaming DataFrame, a streaming one. Columns: `by`, ``window_name`` (only
            of several windows), ``window_start`` and ``window_end`` in the time column's own type,
            ``window_rows_start`` and ``window_rows_end`` if a window is measured by rows, the ranks
            ``[start, end)`` of its rows among those of the key (null for other windows), and the aggregates.
            With ``window_columns="struct"`` (see `query`) one column is in place of each two. The order of
            rows is not specified.

            In pandas, keys keep their types, categories and their order included; integers and booleans of
            which some are null have pandas' nullable types (``Int64``); all columns are ``ArrowDtype`` if one
            that the query reads is. pandas has no structs: a window in one column is an interval, closed on
            the left (``frame["window"].array.left``). Polars takes the result without a copy.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The data is not Arrow data, or malformed, or the query does not fit its schema, or makes more
            windows than its `max_windows`; `result` is not one of those above, or the library that it
            names is not installed; or `where` is no condition on the columns of the result.
        Overflow
            The sum or mean of integers, decimals or durations in a window does not fit its type, or a time is
            too close to the limit of its type for its windows.

        Notes
        -----
        O(rows + windows) work for sliding and tumbling windows whatever their overlap, and memory for one
        slice per key between neighbouring window edges (Traub et al. 2019, §5.3); rows are not kept, unless a
        window needs them in order: windows by rows, over two measures, by punctuation, between predicates and
        user-defined ones, and sessions of a maximum length or with a column of gaps.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"k": ["a", "a", "b"], "t": [1, 12, 7], "v": [1.0, 2.0, 4.0]})
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
        >>> for row in query.run(table).sort_by([("k", "ascending")]).to_pylist():
        ...     print(row)
        {'k': 'a', 'window_start': 0, 'window_end': 10, 'sum(v)': 1.0}
        {'k': 'a', 'window_start': 10, 'window_end': 20, 'sum(v)': 2.0}
        {'k': 'b', 'window_start': 0, 'window_end': 10, 'sum(v)': 4.0}
        >>> query.run(table, where="k = 'a' and window_start >= 10").to_pylist()
        [{'k': 'a', 'window_start': 10, 'window_end': 20, 'sum(v)': 2.0}]
        """
        refuse_processing_time(self.time, "run")
        return engines.run(self, data, threads=threads, **options)

    @hinted
    def batches(
        self,
        data: Any,
        threads: int | None = None,
        *,
        validate: bool | None = None,
        where: str | Expression | None = None,
    ) -> pyarrow.RecordBatchReader:
        """Evaluate the query, and return the result batch by batch.

        Parameters
        ----------
        data, threads, validate, where
            As for `run`, but not a Spark DataFrame.

        Returns
        -------
        pyarrow.RecordBatchReader
            The rows of `run`, in batches of at most 65,536 rows, made when they are read. All of `data` is
            read before the first. Results take the memory of one batch, or of up to four for each of several
            threads, however many windows a key has. After an interrupt, such as ``KeyboardInterrupt``, begin
            again: the batch that was being handed over may be lost. Several threads may read one reader: each
            batch goes to one of them.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue, Overflow
            As `run`; an overflow possibly when the reader is read.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"t": [1, 12, 7]})
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> sum(batch.num_rows for batch in query.batches(table))
        2
        """
        refuse_processing_time(self.time, "batches")
        with engines.process(data) as here:
            return here.batches(self, data, threads=threads, validate=validate, where=where)

    @hinted
    def operator(
        self,
        *,
        order: Literal["in-order", "out-of-order"] = "in-order",
        allowed_lateness: Length = 0,
        progress: Delay | None = None,
        store: str = "auto",
        late_limit: int | None = LATE_LIMIT,
        name: str | None = None,
        schema: Any = None,
        clock: Clock | None = None,
        emit: Emission | None = None,
        shed: Shed | None = None,
        updates: bool = True,
    ) -> Operator:
        """Evaluate the query over a stream, returning each window once it is final.

        Parameters
        ----------
        order : {"in-order", "out-of-order"}
            In order each row is a watermark: a window is final once a row at or after its end arrives, and a
            row that is earlier than the previous one is refused. Out of order only `Operator.advance` (or
            `progress`) moves the watermark.
        allowed_lateness : str, datetime.timedelta or int, optional
            For how long after its end, in event time, a window is emitted again when late rows change it.
            Queries that are added may have another: see `Operator.add`.
        progress : Delay, optional
            How the watermark follows rows out of order: `windowkit.delay`.
        store : {"auto", "lazy", "eager"}
            How slices are held: in order of time, so that a window combines its slices when it is emitted, or
            with a tree above them, so that it combines O(log n) nodes (in order, and where the function has
            an inverse, with running totals: O(1)). "auto" chooses trees for 16 and more window types, and
            totals also where sliding windows overlap. Slices whose rows are stored are always held in order
            of time.
        late_limit : int, optional
            How many rows that are too late, or have no time or gap, are held for `Operator.take_late`.
            Further ones are dropped, and counted by `Operator.stats`. None for any number.
        name : str, optional
            Name of the query in ``query_name``, a column of results once there are several queries; ``q1`` by
            default.
        schema : pyarrow.Schema, or data, optional
            The schema of the stream; that of the first batch by default.
        clock : callable, optional
            For `windowkit.PROCESSING_TIME`, sources that may be idle, and `windowkit.every` of processing
            time: returns the time, in microseconds since 1970-01-01 00:00:00 UTC. The system's clock by
            default.
        emit : Emission, optional
            An emission policy in place of the query's own: `windowkit.emit`.
        shed : Shed, optional
            How much memory the state may take, and what is dropped where it would take more:
            `windowkit.shed`. Any amount by default.
        updates : bool, default True
            Whether late rows may change a session that was emitted, which is then emitted again with
            ``update`` true. False for consumers that cannot replace a result: then a late row that would have
            joined such a session begins another one, as in Spark's append mode, and each row is in one
            session. Neither `allowed_lateness` nor an emission policy goes with it.

        Returns
        -------
        Operator
            One that no row was pushed to yet.

        Raises
        ------
        InvalidType, InvalidValue
            An argument is not allowed.
        UnknownColumn, InvalidType, InvalidValue
            The query does not fit `schema`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5, 9, 11]})).to_pylist()
        [{'window_start': 0, 'window_end': 10, 'n': 3, 'update': False}]
        >>> op.close().to_pylist()
        [{'window_start': 10, 'window_end': 20, 'n': 1, 'update': False}]
        """
        with engines.process(schema) as here:
            operator: Operator = here.operator(
                self,
                order=order,
                allowed_lateness=allowed_lateness,
                progress=progress,
                store=store,
                late_limit=late_limit,
                name=name,
                schema=schema,
                clock=clock,
                emit=emit,
                shed=shed,
                updates=updates,
            )
        return operator

    @hinted
    def slices(self, data: Any, *, validate: bool | None = None) -> pyarrow.Table:
        """Aggregate rows to slices, for the operator of the same query: see `Operator.push_slices`.

        Parameters
        ----------
        data, validate
            As for `run`, but no Spark DataFrame.

        Returns
        -------
        pyarrow.Table
            A row for each key and slice: the key columns, the start of the slice (of sessions, its first and
            last time), and the state of each partial aggregate. What the columns are called and hold may
            change from version to version. Rows without a time are not in it.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As for `run`; and ``InvalidValue`` if a window needs the rows of a key in order.
        Overflow
            A part of a sum does not fit its type.

        Notes
        -----
        O(rows), and O(slices) for the result.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.sliding(20, 10), aggs=wk.count().alias("n"))
        >>> slices = query.slices(pa.table({"k": ["a"] * 4, "t": [1, 5, 9, 11]}))
        >>> slices["start"].to_pylist()
        [0, 10]
        """
        refuse_processing_time(self.time, "slices")
        with engines.process(data) as here:
            return here.slices(self, data, validate=validate)

    @hinted
    def schema(self, data: Any) -> pyarrow.Schema:
        """Return the schema of the result, without evaluating anything.

        Parameters
        ----------
        data : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            Data is not read, but a stream of another library than pyarrow may not be usable afterwards.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The query does not fit the schema.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="ts", windows=wk.session("5 minutes"), aggs=wk.mean("v"))
        >>> print(query.schema(pa.schema({"ts": pa.timestamp("ms"), "v": pa.int32()})))
        window_start: timestamp[ms] not null
        window_end: timestamp[ms] not null
        avg(v): double
        """
        with engines.process(data) as here:
            return here.schema(self, data)

    def explain(self, data: Any = None, **options: Unpack[QueryPlan]) -> str:
        """Describe how the query is evaluated, and why.

        Parameters
        ----------
        data : schema or data, optional
            As for `schema`, or a Spark DataFrame. With it the text has units, output types and, for Spark,
            who reads the rows, which stage runs where, and the rule that decided.
        where : str or Expression, optional
            As for `run`; the text then says what of it is applied to rows, and what is not, and why. It
            requires `data`.
        route, rows_per_slice, partitioner, n, output_mode, allowed_lateness, buckets, metrics_name, late_rows
            As for `run`. Only for Spark.

        Returns
        -------
        str
            Classes of the windows, what a slice stores, where slices begin, how windows are answered; of
            sliding windows, how many panes they have and when these pay (`windowkit.panes.pane_costs`).
            Notebooks show its lines as they are.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="ts", windows=wk.session("30 seconds"), aggs=wk.sum("v"))
        >>> print(query.explain().splitlines()[0])
        query by k over ts
        """
        return Lines(engines.explain(self, data, **options))

    @hinted
    def plot(
        self,
        data: Any,
        *,
        key: Any = None,
        start: Any = None,
        end: Any = None,
        figure: Figure | None = None,
    ) -> Figure:
        """Draw the rows of a key, the windows that they are in, and the result, one below the other.

        It needs matplotlib, the extra ``plot``.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            As for `run`, but not a Spark DataFrame.
        key : object, tuple or mapping of str to object, optional
            The key whose rows are drawn; a mapping by column, or a tuple in the order of ``by``, if there are
            several columns. May be omitted if `data`
            has rows of one key only, or the query has no keys.
        start, end : datetime, date, timedelta, str or int, optional
            The stretch of time that is drawn, as times of the time column are given to `Operator.advance`:
            the rows in ``[start, end)``, and all windows that reach into it. Results are those of all rows.
        figure : matplotlib.figure.Figure or SubFigure, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib.figure.Figure
            With panels for the rows (by the first numeric column that is aggregated), the windows, and each
            aggregate whose values are numbers: a line for each window, from its start to its end. Times
            with a zone are in UTC.

        Raises
        ------
        MissingMatplotlibError
            matplotlib cannot be imported (`windowkit.plot.MissingMatplotlibError`).
        UnknownColumn, InvalidType, InvalidValue
            As `run`; or there is no such key, there are several and none is given, or more than 500 windows
            would be drawn.

        Notes
        -----
        O(rows) to find those of the key, and then as `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"k": ["a", "b", "a"], "t": [1, 5, 12], "v": [2.0, 3.0, 5.0]})
        >>> query = wk.query(by="k", time="t", windows=wk.sliding(10, 5), aggs=wk.sum("v"))
        >>> figure = query.plot(table, key="a")
        >>> [axes.get_ylabel() for axes in figure.axes]
        ['v', '', 'sum(v)']
        """
        refuse_processing_time(self.time, "plot")
        with engines.process(data) as here:
            drawn: Figure = here.plot(self, data, key=key, start=start, end=end, figure=figure)
        return drawn


@hinted
def query(
    *,
    by: Column | Sequence[Column],
    time: Column,
    windows: Window | Sequence[Window],
    aggs: Aggregate | Sequence[Aggregate],
    max_windows: int | None = MAX_WINDOWS,
    emit: Emission | None = None,
    window_columns: WindowColumns = "flat",
    weight: Column | None = None,
    fill: str | Mapping[str, str] | None = None,
) -> Query:
    """Describe a window aggregation.

    Parameters
    ----------
    by : str or sequence of str
        Key columns; ``[]`` for one group of all rows. A null key is a group of its own, NaN keys are one
        group, and so are 0.0 and -0.0.
    time : str
        The time column: timestamps of any unit and zone, dates, durations or integers. Rows without time are
        dropped; rows may come in any order. Or `windowkit.PROCESSING_TIME`, for `Query.operator` only.
    windows : Window or sequence of Window
        At least one; their names must differ.
    aggs : Aggregate or sequence of Aggregate
        At least one; their output names must differ.
    max_windows : int, optional
        The greatest number of windows that the query may make in `Query.run` and `Query.batches`, in each
        task of Spark, and in each call of a stream operator. To exceed it is an error, which is raised before
        any window is computed: a slide of a nanosecond rather than a second makes a billion windows
        of each. Only windows that the rows determine (windows by rows, of which there are no more than
        rows, and user-defined ones) are counted as they are listed. None for any number.
    emit : Emission, optional
        When a stream emits windows that are not final, and how their results relate:
        `windowkit.emit`. `Query.run` and `Query.batches`, here and in Spark, ignore it, as all rows are
        there and every window is final.
    window_columns : {"flat", "struct", "date"}
        How results hold windows, in every engine. By default in two columns, ``window_start`` and
        ``window_end``, to sort, join and group by, or to write as CSV. ``"struct"`` is one column as Spark's
        own ``window(...)`` makes it, ``window`` (``session_window`` if all windows are sessions), a struct of
        ``start`` and ``end``; ``window_rows_start`` and ``window_rows_end`` become ``window_rows``.
        ``"date"`` is one column ``window_date``, the day on which the window begins, in the zone of the
        windows: for tumbling and sliding windows that begin every so many days, weeks, months, quarters or
        years, all of one ``zone`` (without one, days are those of UTC) and equally long after midnight.
    weight : str, optional
        A column of signed integers: 1, or -1 where a row retracts an earlier one with the same key, time and
        values, as in the results of a retracting query. Results cover the rows that remain; a window in which
        none remains is omitted. Allowed are windows whose extent no row changes, and functions from which a
        row can be removed; see "Rows that retract others" in the document "Semantics".
    fill : "null", "zero", "previous" or mapping of str to these, optional
        Results have the windows without rows, too, between a key's first and its last window of a type, as
        pandas' ``resample`` does; without it they are not there. Aggregates are null in them (a count, too),
        zero, or what they are in the previous window with rows; a mapping from their names in the result
        says which for each, and those that it leaves out are null. Only for tumbling and sliding windows over
        time or integers, local ones included, and not for streams. `max_windows` counts these windows, too.

    Returns
    -------
    Query
        A value, to be run on any data.

    Notes
    -----
    In place of the name of a column, `by`, `time`, `weight`, and the inputs and filters of aggregates may be
    expressions that compute it: of Polars or pyarrow for tables of this process, Spark's Columns or SQL
    (`windowkit.expr`) for Spark DataFrames; see "Expressions" in the document "Semantics".

    Raises
    ------
    InvalidType, InvalidValue
        An argument has the wrong type or is empty, two windows or two output columns share a name, the
        windows cannot be emitted as `emit` says, or do not allow `weight`, or a function does not.

    Examples
    --------
    >>> import windowkit as wk
    >>> query = wk.query(
    ...     by=["device"],
    ...     time="ts",
    ...     windows=[wk.sliding("10 minutes", "1 minute"), wk.session("30 seconds")],
    ...     aggs=[wk.sum("v"), wk.max("v").alias("peak")],
    ... )
    >>> query.columns
    ['device', 'window_name', 'window_start', 'window_end', 'sum(v)', 'peak']
    >>> windows = wk.session("30 seconds")
    >>> wk.query(by="device", time="ts", windows=windows, aggs=wk.count(), window_columns="struct").columns
    ['device', 'session_window', 'count(1)']
    """
    return Query(
        by=columns("by", by),
        time=time if isinstance(time, ProcessingTime) else column("time", time),
        windows=items(
            "windows",
            windows,
            Window,  # type: ignore[type-abstract]  # only used by isinstance
            "tumbling(...), sliding(...), session(...) or another window, or a sequence of them",
        ),
        aggs=items("aggs", aggs, Aggregate, AGGREGATES),
        max_windows=limit("max_windows", max_windows),
        emit=emit,
        window_columns=window_columns,
        weight=None if weight is None else column("weight", weight),
        # The names of aggregates that a mapping has are known once these are.
        fill=fill,  # type: ignore[arg-type]  # `Query` makes pairs of a mapping.
    )


def refuse_processing_time(time: str, call: str) -> None:
    if isinstance(time, ProcessingTime):
        raise InvalidValue(
            f"time: PROCESSING_TIME is given for {call}, which does not see when rows arrive; it is for "
            "query.operator()"
        )
