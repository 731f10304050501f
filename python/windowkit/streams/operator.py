"""Evaluate queries over a stream in this process: rows and watermarks in, windows out once they are final."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.alignment import are_alike
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.given import schema_of
from windowkit.arrow.reading import Expected, read_types
from windowkit.arrow.source import Source
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, checked_name, items, limit, one_of
from windowkit.language.display import Lines, facts
from windowkit.language.durations import Duration, Length
from windowkit.language.emission import Emission
from windowkit.language.expressions import Expression, expressions_of
from windowkit.language.fills import refuse_stream
from windowkit.language.foreign import is_spark
from windowkit.language.processing import Clock, ProcessingTime, Stamps
from windowkit.language.progress import Delay, of_measure
from windowkit.language.query import LATE_LIMIT, Query
from windowkit.language.shedding import Shed
from windowkit.language.windows import units
from windowkit.local.query import check_mark, plan, shaped, shaped_schema, slices_schema
from windowkit.streams.calls import (
    Called,
    Calls,
    State,
    last_rows,
    released,
    snapshot_bytes,
    table,
)
from windowkit.streams.decisions import decisions_of, described, summary
from windowkit.streams.sampled import refuse
from windowkit.streams.stats import Stats, reported
from windowkit.streams.watermarks import in_time, one_key, scalar

__all__ = ["Operator", "Stats"]

T = TypeVar("T")

ORDERS: Final = ("in-order", "out-of-order")
STORES: Final = ("auto", "lazy", "eager")
PROCESSING: Final = "windowkit.PROCESSING_TIME, whose time is that of the clock"
MAY_BE_LEFT_OUT: Final = {
    "watermark": "a watermark may be left out if it follows the rows, with progress=windowkit.delay(...), or "
    f"for queries over {PROCESSING}",
    "time": f"the time of a punctuation may be left out only for queries over {PROCESSING}",
}
"""Arguments that are times, and when they are not needed."""


@dataclass(frozen=True)
class Known(State[_native.Operator]):
    """What an operator of queries knows of itself."""

    queries: Mapping[str, Query] = field(default_factory=lambda: MappingProxyType({}))
    """By name, in the order they were added."""
    lateness: Mapping[str, Duration | int | None] = field(default_factory=lambda: MappingProxyType({}))
    """Of the same queries, where it is not the operator's."""
    added: int = 0
    """How many were, including those removed."""
    schema: pa.Schema | None = None
    """That of rows, known from the first batch on."""
    expressions: tuple[Expression, ...] = ()
    """The columns that are computed of each batch, also of queries that were removed."""

    @cached_property
    def has_clock(self) -> bool:
        """Whether an emission policy depends on the clock."""
        return any(has_clock(query) for query in self.queries.values())

    @cached_property
    def expected(self) -> tuple[_native.Operator, Expected] | None:
        """The core, and what is expected of rows; None where there is no core, or columns are computed."""
        if self.core is None or self.schema is None or self.expressions:
            return None
        return self.core, Expected(self.schema)

    def without(self, name: str) -> Known:
        """Return what is known without this query."""
        left = {other: query for other, query in self.queries.items() if other != name}
        lateness = {other: own for other, own in self.lateness.items() if other != name}
        return replace(self, queries=MappingProxyType(left), lateness=MappingProxyType(lateness))


@dataclass(frozen=True)
class Entry:
    """A query of an operator, as the core takes it, and an allowed lateness of its own, if it has one."""

    name: str
    plan: _native.Plan
    allowed_lateness: Duration | int | None = None


class Operator(Called[Known]):
    """A stream of rows, aggregated by windows; made by `windowkit.Query.operator`.

    Rows go in by `push`, batch by batch. `advance` says how far the stream is complete (its *watermark*), and
    `close` that it has ended. Each returns a table of the windows that it made final, one row per query,
    key and window. Its columns are those of `windowkit.Query.run`, with ``query_name`` before the window once
    there has been more than one query, and ``update`` at the end. ``update`` is true where late rows changed
    a final window; such a row replaces the earlier rows of the same query and key whose windows it covers.

    Where state may be dropped for want of memory (`windowkit.shed`), results have columns that say so.

    Once a query has an emission policy (`windowkit.emit`), calls also return windows that are not final, and
    results have the column ``emission`` after ``update``: ``early``, ``final``, ``late`` (of rows with
    ``update``) or ``retraction``. Once a policy retracts, they have ``weight``, an int8: -1 for a
    retraction, which has the values that it withdraws, else 1. Within a call, final and late results come
    before early ones.

    A call that raises leaves the operator as it was.

    ``with query.operator() as op:`` releases what the operator holds when the block ends, however it ends. It
    does not end the stream, as there would be no one to take the windows that are left: call `close` for
    these. After the block the operator can no longer be used.

    Notes
    -----
    General stream slicing (Traub et al., EDBT 2019): all queries share slices, non-overlapping chunks of a
    key's timeline between window edges, with partial aggregates and no rows. Memory is O(slices that some
    window still needs), whatever the number of rows; of functions whose partial aggregates are as large as
    their rows make them (exact quantiles, mode, distinct values, lists) it is O(values in these). Late rows
    are held until `take_late`, up to ``late_limit`` of them.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    >>> op = query.operator(order="out-of-order")
    >>> op.push(pa.table({"k": ["a", "a", "a"], "t": [1, 12, 4], "v": [1.0, 2.0, 4.0]})).num_rows
    0
    >>> op.advance(10).to_pylist()
    [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'sum(v)': 5.0, 'update': False}]
    >>> op.close().to_pylist()
    [{'k': 'a', 'window': {'start': 10, 'end': 20}, 'sum(v)': 2.0, 'update': False}]
    """

    def __init__(
        self,
        query: Query,
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
    ) -> None:
        one_of("order", order, ORDERS)
        one_of("store", store, STORES)
        self._order: str = order
        self._store = store
        self._late_limit = limit("late_limit", late_limit, 0)
        self._lateness = self._given_lateness(allowed_lateness)
        if progress is not None and not isinstance(progress, Delay):
            raise InvalidType(
                f"progress: {progress!r} is {a_type(progress)}; it is what windowkit.delay(...) returns"
            )
        self._progress, self._shed = progress, shed
        if order == "in-order" and progress is not None:
            raise InvalidValue(
                "progress: it is given for order='in-order', where each row is a watermark; it requires "
                "order='out-of-order'"
            )
        query = with_policy(query, emit)
        self._is_idle = progress is not None and progress.idle is not None
        self._stamps = stamps_of([query], clock, is_idle=self._is_idle)
        self._clock = Stamps(clock)
        if self._stamps is not None and order != "in-order":
            raise InvalidValue(
                f"order: {order!r} is given over PROCESSING_TIME, where rows are in the order in which "
                "they come; allowed is 'in-order'"
            )
        self._calls = Calls(self._entered(Known(), query, name, None)[0])
        if schema is not None:
            refuse_spark("schema", schema)
            given = read_types(schema_of(schema, "schema"))
            compute = computing("schema", self._state.expressions)
            if compute is not None:
                given = read_types(compute.added_to(given))
            schema = given if self._stamps is None else self._stamps.schema(given)
            self._calls = Calls(self._bound(self._state, schema))

    _nothing: tuple[object, pa.Table] = (None, pa.table({}))
    """Queries, and the table of their results without rows."""
    _sliced: tuple[object, pa.Schema] = (None, pa.schema([]))
    """Queries, and the schema of slices of rows, for which the query is planned."""

    @property
    def _state(self) -> Known:
        return self._calls.state

    def __enter__(self) -> Operator:
        return self

    def __repr__(self) -> str:
        # Of what Python knows alone, as another thread may be in a call.
        state, leader = self._state, self._leader
        queries = "; ".join(f"{name}: {summary(query)}" for name, query in state.queries.items())
        keys = ", ".join(leader.by) or "nothing"
        return f"<windowkit.Operator {self._order} by {keys} over {leader.time}; {queries}{self._ended}>"

    def _repr_html_(self) -> str:
        state, leader = self._state, self._leader
        ended = "released" if state.released else "closed" if state.closed else "open"
        rows: list[tuple[str, Iterable[object]]] = [
            ("by", leader.by),
            ("time", [leader.time]),
            ("order", [self._order]),
            *((name, [summary(query)]) for name, query in state.queries.items()),
            ("stream", [ended]),
        ]
        return facts("windowkit operator", rows)

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries by name, in the order in which they were added.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(name="counts")
        >>> op.queries["counts"] == query
        True
        """
        return self._calls.make("queries", lambda state: state.queries, closed=True)

    @property
    def schema(self) -> pa.Schema:
        """The schema of results, known once a batch was pushed, or from the start if `schema` was given.

        Raises
        ------
        InvalidValue
            The schema is not known yet.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> query.operator(schema=pa.schema({"t": pa.int64()})).schema.names
        ['window', 'n', 'update']
        """

        def schema(core: _native.Operator, _: pa.Schema) -> pa.Schema:
            return shaped_schema(pa.schema(core.schema), self._leader)

        return self._ask("schema", schema, closed=True)

    @property
    def watermark(self) -> Any:
        """The watermark, up to which the stream is complete: a scalar of the time column's type, or None.

        In order it is the time of the latest row. It is None before any row or watermark, and after `close`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows, op.watermark.as_py()
        (0, 5)
        """
        return self._reached("watermark", lambda core: core.watermark)

    @property
    def watermark_out(self) -> Any:
        """The watermark of the results returned so far: `watermark`, unless some are held back.

        If an emission policy holds results back (``at_most``, ``later``), it is the watermark before the call
        that made the first of them. Hand on this one to whoever reads the results.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(emit=wk.emit(later=100))
        >>> op.push(pa.table({"t": [5]})).num_rows, op.push(pa.table({"t": [25]})).num_rows
        (0, 0)
        >>> op.watermark.as_py(), op.watermark_out.as_py()
        (25, 5)
        """
        return self._reached("watermark_out", lambda core: core.watermark_out)

    def _reached(self, name: str, ask: Callable[[_native.Operator], int | None]) -> Any:
        """Return a time that the operator reports, unless it has ended."""
        if not self._is_bound(name):
            return None

        def read(core: _native.Operator, schema: pa.Schema) -> Any:
            reached = ask(core)
            return None if reached is None or core.is_closed else scalar(reached, self._time_type(schema))

        return self._ask(name, read, closed=True)

    @property
    def late(self) -> int:
        """The number of rows that came too late or without a time, once for each query; see `take_late`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, None]})).num_rows, op.late
        (0, 1)
        """
        return self.stats().late

    def push(self, batch: Any, *, validate: bool | None = None) -> pa.Table:
        """Add a batch of rows.

        Parameters
        ----------
        batch : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            Rows, as for `windowkit.Query.run`. The schema of the first one that is taken, with all its
            columns, is that of the stream, unless `schema` was given. Later ones have these columns, in any
            order: they are found by name, and others are ignored. A type may be another one if the cast loses
            no information: strings and binary of any layout, dictionaries, columns of nulls, other units of
            time, integers and floats of other widths if their values fit, and times of another zone.
        validate : bool, optional
            Look at every value, and refuse malformed data, as `windowkit.Query.run` does.

        Returns
        -------
        pyarrow.Table
            Windows that are final now: in order those that end at or before the latest row's time (a session
            once it is past), out of order only with ``progress``; plus updates of final, unexpired windows
            changed by late rows.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The queries do not fit the schema, a column of the stream is missing or has another type with
            other values, a row is before the one before it (in order), the data is malformed, or the operator
            is closed.
        Overflow
            A result does not fit its type, or a time is too near the end of its type's range.

        Notes
        -----
        O(rows + slices combined for the emitted windows), and O(keys with slices) where the watermark passes
        an end of windows, or they expire. A row is too late for a query, and goes to `take_late`, if every
        window of the query that it would open by itself has expired: ended at or before the watermark less
        the allowed lateness. Other queries of the operator do not matter.

        A stream of many batches is one call, too: if it raises, no row of any batch is taken in. But a reader
        does not yield again what was read: begin again with a new reader of all rows, or push batch by batch.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows
        0
        >>> op.push(pa.table({"t": [8, 12]})).to_pylist()
        [{'window': {'start': 0, 'end': 10}, 'n': 3, 'update': False}]
        """

        def push(state: Known) -> pa.Table:
            stamps, known = self._stamps, state.schema
            if stamps is None and state.expected is not None:
                core, expected = state.expected
                rows = expected.rows(batch, validate)
                if rows is not None:
                    self._look_at_clock(core)
                    return self._emitted(core, core.push, rows)
            refuse_spark("batch", batch)
            if known is not None and stamps is not None:
                known = known.remove(len(known) - 1)
            compute = computing("batch", state.expressions)
            if known is not None and compute is not None:
                known = compute.removed_from(known)
            source = Source("batch", batch, validate=validate, schema=known, aggregated=True, compute=compute)
            if state.core is None:
                if compute is not None:
                    compute.check_names(source.names)
                schema = source.schema if stamps is None else stamps.schema(source.schema)
                state = self._calls.prepare(self._bound(state, schema))
            return self._taken(state, source)

        return self._calls.make("push", push)

    def push_slices(self, slices: Any, *, validate: bool | None = None) -> pa.Table:
        """Add rows that were aggregated to slices before, as by another process: `windowkit.Query.slices`.

        Parameters
        ----------
        slices : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            What ``query.slices`` returned for the only query of this operator, in the same version; also
            after a way through Polars.
        validate : bool, optional
            As for `push`.

        Returns
        -------
        pyarrow.Table
            What `push` returns for the rows.

        Raises
        ------
        InvalidType, InvalidValue
            They are not slices of this query, as the metadata of their schema says; the schema of rows is not
            known yet; the operator is closed; or its results would not be those of the rows: on a stream in
            order, with ``progress``, where there are several queries or keys that are ahead, where windows or
            functions need rows in order or begin at a landmark, and where an emission policy counts rows or
            looks at them. A slice of a session of which some rows are late, and others are not, is refused
            too. Push rows then.
        Overflow
            As for `push`.

        Notes
        -----
        O(slices). `late` and `stats` count the rows of slices if the query has ``count()``, and otherwise
        each slice as one row. Late ones are not held for `take_late`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> rows = pa.table({"k": ["a", "a", "b"], "t": [1, 5, 12]})
        >>> op = query.operator(order="out-of-order", schema=rows)
        >>> op.push_slices(query.slices(rows)).num_rows
        0
        >>> op.advance(10).to_pylist()
        [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'n': 2, 'update': False}]
        """

        def push_slices(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            source = Source("slices", slices, validate=validate)
            if core.refuses_slices() is None:
                check_mark(self._leader, source.schema)
                queries, (known, own) = self._state.queries, self._sliced
                if known is not queries:
                    own = slices_schema(self._leader, schema)
                    self._sliced = (queries, own)
                if are_alike(source.schema, own):
                    # As Polars returns them.
                    source = Source("slices", source, validate=validate, schema=own)
            with source:
                return self._emitted(core, core.push_slices, source.shortest)

        refuse_spark("slices", slices)
        return self._ask("push_slices", push_slices)

    @property
    def takes_slices(self) -> bool:
        """Whether `push_slices` is allowed, as far as the queries and options of the operator matter.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(rows=3), aggs=wk.count())
        >>> query.operator(order="out-of-order", schema=pa.schema({"t": pa.int64()})).takes_slices
        False
        """
        return self._ask("takes_slices", lambda core, _: core.refuses_slices() is None)

    def advance(self, watermark: Any = None, key: Any = None) -> pa.Table:
        """Declare the stream, or one of its keys, complete up to a time: rows before it are late.

        Parameters
        ----------
        watermark : datetime, date, timedelta, str, int or pyarrow.Scalar
            A time that the time column's type can hold exactly. For timestamp columns, a datetime or a string
            such as ``"2026-01-01T12:00:00"``, with a zone or an offset if and only if the column has a zone;
            for dates, a date; for durations, a timedelta or a string such as ``"3 hours"``. An int is in the
            units of the time column, whatever its type: microseconds since 1970 for ``timestamp("us")``. For
            `windowkit.PROCESSING_TIME`, omit it; the clock is used. With ``progress``, omit it to move on to
            the watermark of the sources that are not idle by now.
        key : object or mapping of str to object, optional
            The only key that is complete up to then; a mapping by column if there are several. It need not
            have had rows. From then on it is ahead of the others, until the watermark of the stream gets
            there: see `keys_ahead`. All keys by default.

        Returns
        -------
        pyarrow.Table
            Windows that end at or before it, and sessions whose end it has passed (a row exactly on the end
            of a session still joins it).

        Raises
        ------
        InvalidType, InvalidValue
            It is not a time of the column's type, or before the last one, of the key if one is given; the key
            does not fit the query's, or the query has none; the schema is not known yet; or the operator is
            closed.
        Overflow
            A result does not fit its type.

        Notes
        -----
        With a key, O(windows of the key that are emitted, and window types). This is the group-wise
        punctuation of Li (2008, §2.1).

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order")
        >>> op.push(pa.table({"k": ["a", "b"], "t": [1, 2]})).num_rows
        0
        >>> op.advance(10, key="a").to_pylist()
        [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'n': 1, 'update': False}]
        >>> op.advance(10).to_pylist()
        [{'k': 'b', 'window': {'start': 0, 'end': 10}, 'n': 1, 'update': False}]
        """

        def advance(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            if key is not None:
                return self._advanced(core, schema, watermark, key)
            self._look_at_clock(core)
            if watermark is None and core.follows:
                return self._emitted(core, core.follow)
            return self._emitted(core, core.advance, self._moment(core, schema, "watermark", watermark))

        return self._ask("advance", advance)

    def _moment(self, core: _native.Operator, schema: pa.Schema, argument: str, given: Any) -> int:
        """Return a time as the core takes it: over processing time that of the clock, and no other."""
        if self._stamps is None:
            if given is None:
                raise InvalidValue(f"{argument}: none is given; {MAY_BE_LEFT_OUT[argument]}")
            return in_time(argument, given, self._time_type(schema))
        if given is not None:
            raise InvalidValue(
                f"{argument}: {given!r} is given over PROCESSING_TIME, where it is the time of the clock; no "
                "argument is allowed"
            )
        return self._stamps.now(core.watermark)

    def _advanced(self, core: _native.Operator, schema: pa.Schema, watermark: Any, key: Any) -> pa.Table:
        """Return what becomes ready as one key is complete up to a time."""
        if self._stamps is not None:
            raise InvalidValue(
                f"key: {key!r} is given over PROCESSING_TIME, where rows get the time of the clock, whatever "
                "their key; allowed are watermarks of keys over a column of times"
            )
        if not self._leader.by:
            raise InvalidValue(
                f"key: {key!r} is given, but the queries group by nothing (by=[]); advance(watermark) "
                "without a key moves the watermark of the stream"
            )
        if watermark is None:
            raise InvalidValue(
                f"watermark: none is given for the key {key!r}; a key is complete up to a time, as in "
                "advance(time, key=...)"
            )
        at = in_time("watermark", watermark, self._time_type(schema))
        self._look_at_clock(core)
        return self._emitted(
            core, core.advance_key, at, one_key(key, tuple(map(str, self._leader.by)), schema)
        )

    def keys_ahead(self) -> pa.Table:
        """Return the keys whose own watermark, by ``advance(..., key=...)``, is ahead of the stream's.

        Returns
        -------
        pyarrow.Table
            The key columns, and ``watermark``: up to when the key is complete. A key that the watermark of
            the stream has reached is no longer among them.

        Raises
        ------
        InvalidValue
            The schema is not known yet.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> schema = pa.schema({"k": pa.string(), "t": pa.int64()})
        >>> op = query.operator(order="out-of-order", schema=schema)
        >>> op.advance(10, key="a").num_rows
        0
        >>> op.keys_ahead().to_pylist()
        [{'k': 'a', 'watermark': 10}]
        >>> op.advance(10).num_rows, op.keys_ahead().num_rows
        (0, 0)
        """

        def keys_ahead(core: _native.Operator, _: pa.Schema) -> pa.Table:
            return pa.Table.from_batches([pa.record_batch(core.keys_ahead())])

        return self._ask("keys_ahead", keys_ahead, closed=True)

    def progress(self) -> pa.Table:
        """Return the progress of each source of the stream, if ``progress`` was given.

        Returns
        -------
        pyarrow.Table
            A row for each source: ``source`` (if a column names it), ``latest`` (the time of its latest row),
            ``watermark``, ``rows``, and ``idle``: whether it is left out at present.

        Raises
        ------
        InvalidValue
            No watermark follows the rows of this operator, or the schema is not known yet.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order", progress=wk.delay(5, source="shard"))
        >>> op.push(pa.table({"t": [3, 8], "shard": ["a", "b"]})).num_rows
        0
        >>> op.progress().select(["source", "latest", "watermark"]).to_pylist()
        [{'source': 'a', 'latest': 3, 'watermark': -2}, {'source': 'b', 'latest': 8, 'watermark': 3}]
        """

        def progress(core: _native.Operator, _: pa.Schema) -> pa.Table:
            if core.follows:
                self._look_at_clock(core)
            return pa.Table.from_batches([pa.record_batch(core.progress())])

        return self._ask("progress", progress, closed=True)

    def close(self) -> pa.Table:
        """End the stream, and return all windows that are left.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows
        0
        >>> op.close().to_pylist()
        [{'window': {'start': 0, 'end': 10}, 'n': 2, 'update': False}]
        """

        def close(state: Known) -> pa.Table:
            if state.core is None:
                self._calls.replace(replace(state, closed=True, made=state.made + 1))
                return pa.table({})
            self._calls.prepare(replace(state, closed=True))
            return self._emitted(state.core, state.core.close)

        return self._calls.make("close", close)

    def peek(self, key: Any = None) -> pa.Table:
        """Return all open windows with their results so far, without changing anything.

        Parameters
        ----------
        key : object or mapping of str to object, optional
            The key whose windows are meant; a mapping by column if there are several. All keys by default.

        Returns
        -------
        pyarrow.Table
            What `close` would return now: windows that are not final, each with the rows so far. With
            emission policies each is ``early``; earlier results are not retracted.

        Raises
        ------
        InvalidType, InvalidValue
            The key does not fit the query's, the schema is not known yet, or the operator is closed.
        Overflow
            A result does not fit its type.

        Notes
        -----
        O(open windows of all keys), as for `close`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"k": ["a", "b", "a"], "t": [1, 2, 3]})).num_rows
        0
        >>> op.peek("a").to_pylist()
        [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'n': 2, 'update': False}]
        """

        def peek(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            return self._emitted(core, core.peek, self._one_key(key, schema))

        return self._ask("peek", peek)

    def fire(self, key: Any = None) -> pa.Table:
        """Return early results now, as emission policies do when a key fires.

        Parameters
        ----------
        key : object or mapping of str to object, optional
            The key that fires; a mapping by column if there are several. All keys by default. Those fire
            that have rows since they last fired, for each query with an emission policy.

        Returns
        -------
        pyarrow.Table
            All open windows of these keys that have rows since the key last fired, as the refinement of each
            policy says. Their triggers start afresh.

        Raises
        ------
        InvalidType, InvalidValue
            No query of the operator has an emission policy, the key does not fit the query's, the schema is
            not known yet, or the operator is closed.
        Overflow
            A result does not fit its type.

        Notes
        -----
        O(keys + windows returned). See `windowkit.emit`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(emit=wk.emit())
        >>> op.push(pa.table({"k": ["a", "b", "a"], "t": [1, 2, 3]})).num_rows
        0
        >>> op.fire("a").to_pylist()
        [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'n': 2, 'update': False, 'emission': 'early'}]
        >>> op.fire("a").num_rows
        0
        """

        def fire(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            self._look_at_clock(core)
            return self._emitted(core, core.fire, self._one_key(key, schema))

        return self._ask("fire", fire)

    def punctuate(self, time: Any = None, key: Any = None) -> pa.Table:
        """End the windows of `windowkit.punctuation` here, as a marked row would.

        Parameters
        ----------
        time : datetime, date, timedelta, str, int or pyarrow.Scalar
            A time as for `advance`. Rows up to this time that have come lie before the punctuation, all
            others after it. For `windowkit.PROCESSING_TIME`, omit it; the clock is used.
        key : object or mapping of str to object, optional
            The key whose windows are meant; a mapping by column if there are several. All keys by default.

        Returns
        -------
        pyarrow.Table
            In order, the windows that it ends, since a punctuation is a watermark, as a row is. Out of order,
            only updates: final windows that it cuts in two.

        Raises
        ------
        InvalidType, InvalidValue
            No window of the queries is bounded by punctuation; the time is not of the column's type, or lies
            before any row that may still come; the key does not fit the query's; or the operator is closed.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.punctuation("done"), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"k": ["a", "b", "a"], "t": [1, 2, 3], "done": [False, False, True]})).num_rows
        1
        >>> op.punctuate(4, key="b").to_pylist()
        [{'k': 'b', 'window': {'start': 2, 'end': 2}, 'window_number': 0, 'n': 1, 'update': False}]
        """

        def punctuate(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            self._look_at_clock(core)
            at = self._moment(core, schema, "time", time)
            return self._emitted(core, core.punctuate, at, self._one_key(key, schema))

        return self._ask("punctuate", punctuate)

    def take_late(self) -> pa.Table:
        """Return the rows that came too late, or without a time, and release them.

        Returns
        -------
        pyarrow.Table
            The rows since the last call, with all their columns, ``query_name`` once there has been more than
            one query, and ``late_reason``: ``too late``, ``null time``, ``no gap`` where sessions take theirs
            from a column, ``from the future`` (see `windowkit.delay`), or ``before the query``: a query that
            was added later does not read such rows. A row that is late for several queries is returned
            once for each. They are held until this call; `Stats.late_bytes` is the memory they take. Once
            ``late_limit`` of `windowkit.Query.operator` are held, further rows are dropped until the next
            call, and counted by `Stats.late` and `Stats.late_dropped`.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order", schema=pa.schema({"t": pa.int64()}))
        >>> op.advance(20).num_rows, op.push(pa.table({"t": [4, 25]})).num_rows
        (0, 0)
        >>> op.take_late().to_pylist()
        [{'t': 4, 'late_reason': 'too late'}]
        """
        if not self._is_bound("take_late"):
            return pa.table({})
        return self._ask("take_late", lambda core, _: self._late(table(core.take_late())), closed=True)

    def _late(self, rows: pa.Table) -> pa.Table:
        """Return late rows without the computed columns: pushing them again computes these again."""
        expressions = set(map(str, self._state.expressions))
        return rows.select([name for name in rows.column_names if name not in expressions])

    def last(self) -> pa.Table:
        """Return the result of the last call once more: if an interrupt came before you had it.

        A call has either taken effect or left the operator as it was; `calls` tells which, wherever a signal
        handler raises. It is the result of the last call that returned a table and counts: not one of `peek`
        or of `last` itself, which change nothing.

        Raises
        ------
        InvalidValue
            No call has returned a table yet, also since the operator was restored.

        Notes
        -----
        The operator keeps the result until the next call that returns one has taken effect. Tables share
        their memory, so this costs as much as the result takes, and no time.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> before = op.calls
        >>> try:
        ...     windows = op.push(pa.table({"t": [1, 5, 12]}))
        ... except KeyboardInterrupt:
        ...     if op.calls == before:
        ...         raise
        ...     windows = op.last()
        >>> windows.equals(op.last()), op.calls
        (True, 1)
        """

        def last(state: Known) -> pa.Table:
            if state.core is None and state.closed:
                return pa.table({})
            rows, are_late = last_rows(state.core)
            return self._late(rows) if are_late else shaped(rows, self._leader)

        return self._calls.make("last", last, closed=True)

    def add(
        self,
        query: Query,
        *,
        name: str | None = None,
        allowed_lateness: Length | None = None,
        emit: Emission | None = None,
    ) -> str:
        """Add a query while the stream runs; it shares slices with the others.

        Parameters
        ----------
        query : Query
            One with the same keys and time column.
        name : str, optional
            The value of ``query_name`` in its results.
        allowed_lateness : str, datetime.timedelta or int, optional
            For how long after their end its windows are updated; that of the operator by default.
        emit : Emission, optional
            An emission policy in place of the query's own: `windowkit.emit`.

        Returns
        -------
        str
            The name: ``q2`` for the second query, and so on.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The query does not fit the stream, or the name is taken.

        Notes
        -----
        It reads the rows whose times are after all rows and watermarks so far, and has the windows that begin
        there: of earlier windows it has not seen all rows.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1]})).num_rows
        0
        >>> op.add(wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count().alias("n")), name="fine")
        'fine'
        >>> op.push(pa.table({"t": [6, 10]})).select(["query_name", "window", "n"]).to_pylist()[0]
        {'query_name': 'q1', 'window': {'start': 0, 'end': 10}, 'n': 2}
        """
        lateness = None if allowed_lateness is None else self._given_lateness(allowed_lateness)

        def add(state: Known) -> str:
            following, given = self._entered(state, with_policy(query, emit), name, lateness)
            if state.core is None or following.schema is None:
                self._calls.replace(replace(following, made=state.made + 1))
                return given
            of_stream = planned(following.queries[given], following.schema, following.expressions)
            self._calls.prepare(following)
            state.core.add(given, of_stream, lateness)
            return given

        return self._calls.make("add", add)

    def remove(self, query: Query | str) -> None:
        """Remove a query, and drop what only it needed.

        Parameters
        ----------
        query : str or Query
            Its name, or the query itself.

        Raises
        ------
        InvalidValue
            There is no such query, or it is the only one.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.add(wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count().alias("n")))
        'q2'
        >>> op.remove("q1")
        >>> list(op.queries)
        ['q2']
        """

        def remove(state: Known) -> None:
            alike = [name for name, other in state.queries.items() if query in (name, other)]
            if not alike:
                raise InvalidValue(
                    f"query: {query!r} is not one of this operator; its queries are "
                    f"{', '.join(map(repr, state.queries))}"
                )
            name = alike[0]
            if len(state.queries) == 1:
                raise InvalidValue(f"query: {name!r} is the only one; an operator has at least one query")
            following = state.without(name)
            if state.core is None:
                self._calls.replace(replace(following, made=state.made + 1))
            else:
                self._calls.prepare(following)
                state.core.remove(name)

        self._calls.make("remove", remove)

    def stats(self) -> Stats:
        """Return what the operator holds and has done.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5, 12]})).num_rows
        1
        >>> op.stats().slices, op.stats().windows
        (1, 1)
        """
        if not self._is_bound("stats"):
            return Stats(*[0] * len(fields(Stats)))
        return reported(Stats, self._ask("stats", lambda core, _: core.stats(), closed=True))

    def slices(self) -> pa.Table:
        """Return the slices: keys, ``t_start``, ``t_end``, and ``t_first`` and ``t_last`` of their rows.

        There are no more than the windows' edges require: every start and end is an edge of a window (Traub
        et al. 2019, §5.2).

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows
        0
        >>> op.slices().to_pylist()
        [{'t_start': 0, 't_end': 10, 't_first': 1, 't_last': 5}]
        """
        batch = self._ask("slices", lambda core, _: pa.record_batch(core.slices()), closed=True)
        return pa.Table.from_batches([batch])

    def explain(self) -> str:
        """Describe what is stored and why, by the decisions of general stream slicing.

        Notebooks show its lines as they are.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.session(5), aggs=wk.max("v"))
        >>> schema = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.float64()})
        >>> print(query.operator(order="out-of-order", schema=schema).explain())
        stream operator, rows out of order, by k over t
        queries
          q1: session(5); max(v)
        decisions (Traub et al. 2019)
          store rows: no (§5.1, Fig. 4)
            every function is commutative, every window context free or a session, and none counts rows
          split slices: no (§5.2, Fig. 5)
            no window gets an edge within a slice that exists
          take rows out: never (§5.2, Fig. 6)
            rows move only if they are counted and come out of order
        store: lazy (§5.2)
          few window types: windows that are ready are combined from slices in one go
        """
        is_bound, queries = self._is_bound("explain"), self.queries
        if not is_bound:
            return Lines(described(self._order, queries, None, self._shed))
        decisions = self._ask("explain", lambda core, _: decisions_of(core), closed=True)
        return Lines(described(self._order, queries, decisions, self._shed))

    def snapshot(self) -> bytes:
        """Return the whole state of the operator as bytes, for `Operator.restore`.

        They are versioned and checksummed, and bound to the queries and the schema.

        Raises
        ------
        InvalidValue
            The schema of the stream is not known yet.
        Overflow
            The sum of a slice does not fit its type.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
        >>> op = query.operator()
        >>> op.push(pa.table({"k": ["a"], "t": [4], "v": [1.0]})).num_rows
        0
        >>> again = Operator.restore(op.snapshot(), query)
        >>> again.push(pa.table({"k": ["a", "a"], "t": [7, 11], "v": [2.0, 4.0]})).to_pylist()
        [{'k': 'a', 'window': {'start': 0, 'end': 10}, 'sum(v)': 3.0, 'update': False}]
        """
        return self._ask("snapshot", lambda core, _: core.snapshot(), closed=True)

    @classmethod
    def restore(
        cls,
        snapshot: bytes,
        queries: Query | Sequence[Query] | Mapping[str, Query],
        *,
        clock: Clock | None = None,
    ) -> Operator:
        """Return an operator that continues from a snapshot.

        Parameters
        ----------
        snapshot : bytes
            What `Operator.snapshot` returned.
        queries : Query, or sequence of Query, or mapping of str to Query
            The operator's queries, in the order of `Operator.queries`, or by name: a snapshot has no code of
            aggregate functions. User-defined functions must have the same names and properties; a function
            that has these, and states of the same types, but another body, is not detected.
        clock : callable, optional
            As for `windowkit.Query.operator`.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are not a snapshot, are truncated or damaged, are of a version that this windowkit does
            not read (it reads its own and some older ones), or are of other queries.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows
        0
        >>> Operator.restore(op.snapshot(), query).close().to_pylist()
        [{'window': {'start': 0, 'end': 10}, 'n': 2, 'update': False}]
        """
        given = snapshot_bytes(snapshot)
        contents = _native.Operator.contents(given)
        schema, names = pa.schema(contents.schema), contents.names
        if isinstance(queries, Mapping):
            if sorted(queries) != sorted(names):
                raise InvalidValue(
                    f"queries: {sorted(queries)} are named; the snapshot is of {sorted(names)}"
                )
            given_queries = [queries[name] for name in names]
        else:
            given_queries = list(items("queries", queries, Query, "a windowkit.Query, or a sequence of them"))
        if len(given_queries) != len(names):
            raise InvalidValue(
                f"queries: {len(given_queries)} given; the snapshot is of {len(names)}: {names}"
            )
        forms = {query.window_columns for query in given_queries}
        if len(forms) > 1:
            raise InvalidValue(
                "queries: window_columns is 'flat' for some and 'struct' for others; queries of one operator "
                "have the same"
            )
        this = cls.__new__(cls)
        this._order = contents.order
        named = dict(zip(names, given_queries, strict=True))
        expressions = of_queries(given_queries)
        plans = [(name, planned(query, schema, expressions)) for name, query in named.items()]
        core = _native.Operator.restore(given, plans)
        this._is_idle = core.has_clock
        limit = core.shed
        this._shed = None if limit is None else Shed(limit.bytes, limit.keep, limit.seed)
        this._stamps = stamps_of(given_queries, clock, is_idle=this._is_idle)
        this._clock = Stamps(clock)
        state = Known(
            core=core,
            closed=core.is_closed,
            queries=MappingProxyType(named),
            added=len(named),
            schema=schema,
            expressions=expressions,
        )
        this._calls = Calls(state)
        return this

    def _given_lateness(self, given: Length) -> Duration | int:
        lateness = of_measure("allowed_lateness", given)
        if self._order == "in-order" and units(lateness):
            raise InvalidValue(
                f"allowed_lateness: {given!r} is given for order='in-order', where no row is late; it "
                "requires order='out-of-order'"
            )
        return lateness

    def _entered(
        self, state: Known, query: Query, name: str | None, lateness: Duration | int | None
    ) -> tuple[Known, str]:
        """Return the state with one more query, and its name."""
        if not isinstance(query, Query):
            raise InvalidType(f"query: {query!r} is {a_type(query)}; query is a windowkit.Query")
        refuse_stream(query.fill)
        refuse(self._shed, query)
        added = state.added + 1
        while name is None and f"q{added}" in state.queries:
            added += 1
        given = f"q{added}" if name is None else checked_name("name", name)
        if given in state.queries:
            raise InvalidValue(f"name: {given!r} is taken; queries of one operator must have different names")
        for other in state.queries.values():
            if (other.by, other.time) != (query.by, query.time):
                raise InvalidValue(
                    f"query: it is by {list(query.by)} over {query.time!r}, but the operator's queries by "
                    f"{list(other.by)} over {other.time!r}; queries of one operator share keys and time"
                )
            if other.window_columns != query.window_columns:
                raise InvalidValue(
                    f"query: its window_columns is {query.window_columns!r}, but that of the operator's "
                    f"queries is {other.window_columns!r}; queries of one operator have the same"
                )
        if "update" in query.columns:
            raise InvalidValue(
                "query: results would have two columns 'update'; a stream adds it, so give the other one "
                "another name"
            )
        # Where there is a core, it knows the operator's, also of a snapshot, and does the same.
        if query.emit is not None and state.core is None:
            query.emit.check_lateness(units(self._lateness if lateness is None else lateness), given)
        queries = MappingProxyType({**state.queries, given: query})
        expressions = of_queries(queries.values())
        if state.core is not None and state.schema is not None:
            if not set(expressions) <= set(state.expressions):
                raise InvalidValue(
                    f"query: it has the expressions {', '.join(map(repr, map(str, query.expressions)))}; the "
                    "columns of a stream that has begun are known, so that a query that is added has only "
                    "expressions that the operator's queries have"
                )
            expressions = state.expressions
        of_each = MappingProxyType({**state.lateness, given: lateness})
        return replace(state, queries=queries, lateness=of_each, added=added, expressions=expressions), given

    def _bound(self, state: Known, schema: pa.Schema) -> Known:
        """Return the state with a core for rows of this schema."""
        plans = [
            Entry(name, planned(query, schema, state.expressions), state.lateness.get(name))
            for name, query in state.queries.items()
        ]
        core = _native.Operator(
            plans,
            self._order,
            self._lateness,
            self._progress,
            self._store,
            self._late_limit,
            self._shed,
        )
        return replace(state, schema=schema, core=core)

    def _look_at_clock(self, core: _native.Operator) -> None:
        if self._is_idle or self._state.has_clock:
            core.set_clock(self._clock.now(None))

    def _taken(self, state: Known, source: Source) -> pa.Table:
        """Return what the core makes of rows."""
        core = state.core
        assert core is not None, "bound before"
        with source:
            self._look_at_clock(core)
            if self._stamps is None:
                return self._emitted(core, core.push, source.shortest)
            now = self._stamps.now(core.watermark)
            stamped = self._stamps.stamped(pa.RecordBatchReader.from_stream(source), now)
            return self._emitted(core, core.push, stamped)

    def _is_bound(self, call: str) -> bool:
        """Whether the schema of rows is known, so that there is a core."""
        if self._state.released:
            raise released(call)
        return self._state.core is not None

    def _ask(self, call: str, work: Callable[[_native.Operator, pa.Schema], T], *, closed: bool = False) -> T:
        """Make a call of the core, which has to be there; `closed` as in `Calls.make`."""

        def bound(state: Known) -> T:
            if state.core is None or state.schema is None:
                raise unbound(call)
            return work(state.core, state.schema)

        return self._calls.make(call, bound, closed=closed)

    @property
    def _leader(self) -> Query:
        """A query, which has the keys, the time column and the form of windows that all of them have."""
        return next(iter(self._state.queries.values()))

    def _emitted(self, core: _native.Operator, step: Callable[..., Any], *arguments: Any) -> pa.Table:
        """Return the windows that a step of the core emits, in the columns that the queries ask for."""
        queries, (known, nothing) = self._state.queries, self._nothing
        if known is not queries:
            nothing = pa.Table.from_batches([], shaped_schema(pa.schema(core.schema), self._leader))
            self._nothing = (queries, nothing)
        stream = step(*arguments)
        # Most small pushes emit nothing, and take less time than making a table does.
        return nothing if stream is None else shaped(table(stream), self._leader)

    def _one_key(self, key: Any, schema: pa.Schema) -> pa.RecordBatch | None:
        return None if key is None else one_key(key, tuple(map(str, self._leader.by)), schema)

    def _time_type(self, schema: pa.Schema) -> pa.DataType:
        kind = schema.field(self._leader.time).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        return pa.int64() if pa.types.is_integer(kind) else kind


def refuse_spark(argument: str, data: Any) -> None:
    if is_spark(data):
        raise InvalidType(
            f"{argument}: a Spark DataFrame is given to an operator; operators take Arrow data, and "
            "query.run takes streams of Spark"
        )


def has_clock(query: Query) -> bool:
    """Whether a query's emission policy depends on the clock."""
    return query.emit is not None and query.emit.has_clock


def stamps_of(queries: Sequence[object], clock: Clock | None, *, is_idle: bool) -> Stamps | None:
    """Return what assigns times to rows, if queries are over processing time."""
    given = [query for query in queries if isinstance(query, Query)]
    if any(isinstance(query.time, ProcessingTime) for query in given):
        return Stamps(clock)
    if clock is not None and not is_idle and not any(map(has_clock, given)):
        raise InvalidValue(
            "clock: it is given for a query over a column of times; it requires one over "
            "windowkit.PROCESSING_TIME, progress=windowkit.delay(..., idle=...), or an emission policy with "
            "windowkit.every(..., of='processing time')"
        )
    return None


def of_queries(queries: Iterable[Query]) -> tuple[Expression, ...]:
    """Return the expressions of queries, whose values a row has by itself.

    Raises
    ------
    InvalidType, InvalidValue
        One looks at other rows, or is not evaluated in this process; or queries call different ones the same.
    """
    expressions = expressions_of(name for query in queries for name in query.named)
    Computing("query", expressions).check_rows()
    return expressions


def planned(query: Query, schema: pa.Schema, expressions: Sequence[Expression]) -> _native.Plan:
    """Return the plan of a query over a stream, whose rows have the columns of expressions."""
    names = [name for name in schema.names if name not in map(str, expressions)]
    return plan(query.resolved(names).plain, schema, of_stream=True)


def with_policy(query: Query, emit: Emission | None) -> Query:
    """Return the query with this emission policy in place of its own, if one is given."""
    # Anything that is not a query is refused where it is used.
    return query if emit is None or not isinstance(query, Query) else replace(query, emit=emit)


def unbound(call: str) -> InvalidValue:
    return InvalidValue(
        f"{call}: the schema of the stream is not known yet; push a batch before, or give schema=... to "
        "query.operator()"
    )
