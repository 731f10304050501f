"""Evaluate queries over a stream in this process: rows and watermarks in, windows out once they are final."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit._columns import is_spark
from windowkit.calls import Calls, State
from windowkit.checks import a_type, one_of
from windowkit.durations import Length
from windowkit.engines import Engine, register
from windowkit.errors import InvalidType, InvalidValue
from windowkit.local import Source, plan, schema_of
from windowkit.processing import Clock, ProcessingTime, Stamps
from windowkit.progress import Delay, of_measure
from windowkit.query import LATE_LIMIT, Query, items, limit
from windowkit.watermarks import in_time, scalar
from windowkit.windows import checked_name, quoted

__all__ = ["Operator", "Stats"]

T = TypeVar("T")

ORDERS: Final = ("in-order", "out-of-order")
STORES: Final = ("auto", "lazy", "eager")
LAZILY: Final = "their slices are combined when a window is ready, whatever store= says"
KEPT: Final = {
    "in-order": (
        "as long as a window that is not final may need them, in the order of time and arrival",
        "in order slices would do for windows of a number of rows, and between marks",
        LAZILY,
    ),
    "out-of-order": (
        "as long as a row or a window to come may need them, in the order of time and arrival",
        LAZILY,
    ),
}


@dataclass(frozen=True)
class Stats:
    """What an operator holds, and what it has done since it was created.

    Parameters
    ----------
    keys, slices, rows_kept, bytes : int
        The current state: keys with slices, slices, rows stored besides slices (none where partial aggregates
        suffice), and the memory of slices, their partial aggregates and what these point to. A buffer that
        partial aggregates point into is held as a whole, so it counts as a whole, once.
    rows, late, windows, updates : int
        Rows pushed, rows that came too late or without a time or gap, windows emitted, and how many of
        these were updates.
    splits, merges, shifts, recomputations : int
        Slices that were split or merged, rows that were moved to the next slice because a row came before
        them, and slices recomputed from rows (Traub et al. 2019, §5.2). Merges of slices whose edges no
        window needs any more are not counted, since their time is an implementation detail.
    late_dropped, late_bytes : int
        Late rows that were dropped because ``late_limit`` of them were held, and the memory of those that
        are, until `Operator.take_late` returns them.
    """

    keys: int
    slices: int
    rows_kept: int
    bytes: int
    rows: int
    splits: int
    merges: int
    shifts: int
    recomputations: int
    late: int
    windows: int
    updates: int
    late_dropped: int
    late_bytes: int


class Operator:
    """A stream of rows, aggregated by windows; made by `windowkit.Query.operator`.

    Rows go in by `push`, batch by batch. `advance` says how far the stream is complete (its *watermark*), and
    `close` that it has ended. Each returns a table of the windows that became final by it, one row per query,
    key and window. Its columns are those of `windowkit.Query.run`, with ``query_name`` before the window once
    there has been more than one query, and ``update`` at the end. ``update`` is true where late rows changed
    a window that was emitted before, or extended a session; such a row replaces the earlier rows of the same
    query and key whose windows it covers.

    A call that raises leaves the operator as it was.

    Notes
    -----
    General stream slicing (Traub et al., EDBT 2019): all queries share slices, non-overlapping chunks of a
    key's time line between window edges, with partial aggregates and no rows. Memory is O(slices that some
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
        order: str = "in-order",
        allowed_lateness: Length = 0,
        progress: Delay | None = None,
        store: str = "auto",
        late_limit: int | None = LATE_LIMIT,
        name: str | None = None,
        schema: Any = None,
        clock: Clock | None = None,
    ) -> None:
        one_of("order", order, ORDERS)
        one_of("store", store, STORES)
        self._order, self._store = order, store
        self._late_limit = limit("late_limit", late_limit, 0)
        self._lateness = self._given_lateness(allowed_lateness)
        if progress is not None and not isinstance(progress, Delay):
            raise InvalidType(
                f"progress: {progress!r} is {a_type(progress)}; it is what windowkit.delay(...) returns"
            )
        self._progress = progress
        if order == "in-order" and progress is not None:
            raise InvalidValue(
                "progress: it is given for order='in-order', where each row is a watermark; it is for "
                "order='out-of-order'"
            )
        is_idle = progress is not None and progress.idle is not None
        self._stamps = stamps_of(query, clock, is_idle=is_idle)
        self._clock = Stamps(clock) if is_idle else None
        if self._stamps is not None and order != "in-order":
            raise InvalidValue(
                f"order: {order!r} is given over PROCESSING_TIME, where rows are in the order in which "
                "they come; allowed is 'in-order'"
            )
        self._calls = Calls(self._entered(State(MappingProxyType({})), query, name, None)[0])
        if schema is not None:
            refuse_spark(schema)
            given = schema_of(schema)
            schema = given if self._stamps is None else self._stamps.schema(given)
            self._calls = Calls(self._bound(self._state, schema))

    @property
    def _state(self) -> State:
        return self._calls.state

    @property
    def queries(self) -> Mapping[str, Query]:
        """The queries by name, in the order they were added."""
        # A call, as one that was interrupted may have removed a query.
        return self._calls.make("queries", lambda state: (state, state.queries), closed=True)

    @property
    def schema(self) -> pa.Schema:
        """The schema of results, known once a batch was pushed, or from the start if `schema` was given.

        Raises
        ------
        InvalidValue
            The schema is not known yet.
        """
        return self._ask("schema", lambda core, _: pa.schema(core.schema), closed=True)

    @property
    def watermark(self) -> Any:
        """How far the stream is complete: a scalar of the time column's type, or None.

        In order it is the time of the latest row. It is None before any row or watermark, and after `close`.
        """
        if self._state.core is None:
            return None

        def read(core: _native.Operator, schema: pa.Schema) -> Any:
            reached = core.watermark
            return None if reached is None or core.is_closed else scalar(reached, self._time_type(schema))

        return self._ask("watermark", read, closed=True)

    @property
    def late(self) -> int:
        """How many rows queries lack, each once for every query that lacks it; see `take_late`."""
        return self.stats().late

    def push(self, batch: Any, *, validate: bool | None = None) -> pa.Table:
        """Add a batch of rows.

        Parameters
        ----------
        batch : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            Rows, as for `windowkit.Query.run`. The schema of the first one that is taken, with all its
            columns, is that of the stream.
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
            The queries do not fit the schema, the schema is another than before, a row is before the one
            before it (in order), the data is malformed, or the operator is closed.
        Overflow
            A result does not fit its type, or a time is too near the end of its type's range.

        Notes
        -----
        O(rows + slices combined for the emitted windows), and O(keys with slices) where the watermark
        moves. A row is too late for a query, and goes to `take_late`, if every window of the query that it
        would open by itself has expired: ended at or before the watermark less the allowed lateness. Other
        queries of the operator do not matter.
        """

        def push(state: State) -> tuple[State, pa.Table]:
            refuse_spark(batch)
            source = Source("batch", batch, validate=validate)
            if state.core is None:
                stamps = self._stamps
                state = self._bound(state, source.schema if stamps is None else stamps.schema(source.schema))
            return state, self._taken(state, source)

        return self._calls.make("push", push)

    def advance(self, watermark: Any = None) -> pa.Table:
        """Declare the stream complete up to a time: rows before it are late.

        Parameters
        ----------
        watermark : datetime, date, timedelta, str, int or pyarrow.Scalar
            A time that the time column's type can hold exactly. For timestamp columns, a datetime or a string
            such as ``"2026-01-01T12:00:00"``, with a zone or an offset if and only if the column has a zone;
            for dates, a date; for durations, a timedelta or a string such as ``"3 hours"``. An int is in the
            units of the time column, whatever its type: microseconds since 1970 for ``timestamp("us")``. For
            `windowkit.PROCESSING_TIME`, omit it; the clock is used. With ``progress``, omit it to move on to
            the watermark of the sources that are not idle by now.

        Returns
        -------
        pyarrow.Table
            Windows that end at or before it, and sessions whose end it has passed (a row exactly on the end
            of a session still joins it).

        Raises
        ------
        InvalidType, InvalidValue
            It is not a time of the column's type, or before the last one; the schema is not known yet; or
            the operator is closed.
        Overflow
            A result does not fit its type.
        """

        def advance(core: _native.Operator, schema: pa.Schema) -> pa.Table:
            if watermark is None and core.follows:
                self._look_at_clock(core)
                return table(core.follow())
            if self._stamps is None:
                return table(core.advance(in_time("watermark", watermark, self._time_type(schema))))
            if watermark is not None:
                raise InvalidValue(
                    f"watermark: {watermark!r} is given over PROCESSING_TIME, where it is the time of the "
                    "clock; no argument is allowed"
                )
            return table(core.advance(self._stamps.now(core.watermark)))

        return self._ask("advance", advance)

    def progress(self) -> pa.Table:
        """Return what is known of each source of the stream, if ``progress`` was given.

        Returns
        -------
        pyarrow.Table
            A row for each source: ``source`` (if a column says it), ``latest`` (the time of its latest row),
            ``watermark``, ``rows``, and ``idle``: whether it is left out at present.

        Raises
        ------
        InvalidValue
            No watermark follows the rows of this operator, or the schema is not known yet.
        """

        def progress(core: _native.Operator, _: pa.Schema) -> pa.Table:
            if core.follows:
                self._look_at_clock(core)
            return pa.Table.from_batches([pa.record_batch(core.progress())])

        return self._ask("progress", progress, closed=True)

    def close(self) -> pa.Table:
        """End the stream, and return all windows that are left."""

        def close(state: State) -> tuple[State, pa.Table]:
            rest = pa.table({}) if state.core is None else table(state.core.close())
            return replace(state, closed=True), rest

        return self._calls.make("close", close)

    def peek(self, key: Any = None) -> pa.Table:
        """Return all open windows as they stand; nothing is changed.

        Parameters
        ----------
        key : object or mapping of str to object, optional
            The key whose windows are meant; a mapping by column if there are several. All keys by default.

        Returns
        -------
        pyarrow.Table
            What `close` would return now: windows that are not final, each with the rows so far.

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
            return table(core.peek(None if key is None else self._key(key, schema)))

        return self._ask("peek", peek)

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
            Windows that are final now. In order those that it ends, since a punctuation is a watermark as a
            row is; else none but, as updates, final windows that it cuts in two.

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
            stamps = self._stamps
            if stamps is not None and time is not None:
                raise InvalidValue(
                    f"time: {time!r} is given over PROCESSING_TIME, where it is that of the clock; "
                    "no argument is allowed"
                )
            kind = self._time_type(schema)
            at = in_time("time", time, kind) if stamps is None else stamps.now(core.watermark)
            return table(core.punctuate(at, None if key is None else self._key(key, schema)))

        return self._ask("punctuate", punctuate)

    def take_late(self) -> pa.Table:
        """Return the rows that queries lack, as they came too late or without a time, and stop holding them.

        Returns
        -------
        pyarrow.Table
            The rows since the last call, with all their columns, ``query_name`` once there has been more than
            one query, and ``late_reason``: ``too late``, ``null time``, ``no gap`` where sessions take theirs
            from a column, ``from the future`` (see `windowkit.delay`), or ``before the query``: a query that
            was added later does not read such rows. A row that several queries lack comes once for
            each. They are held until this call; `Stats.late_bytes` is the memory they take. Once
            ``late_limit`` of `windowkit.Query.operator` are held, further rows are dropped until the next
            call, and counted by `Stats.late` and `Stats.late_dropped`.
        """
        if self._state.core is None:
            return pa.table({})
        return self._ask("take_late", lambda core, _: table(core.take_late()), closed=True)

    def add(self, query: Query, *, name: str | None = None, allowed_lateness: Length | None = None) -> str:
        """Add a query while the stream runs; it shares slices with the others.

        Parameters
        ----------
        query : Query
            Of the same keys and time column.
        name : str, optional
            What ``query_name`` says of its results.
        allowed_lateness : str, datetime.timedelta or int, optional
            For how long after their end its windows are updated; that of the operator by default.

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
        """
        lateness = None if allowed_lateness is None else self._given_lateness(allowed_lateness)
        return self._calls.make("add", lambda state: self._entered(state, query, name, lateness))

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
        """

        def remove(state: State) -> tuple[State, None]:
            alike = [name for name, other in state.queries.items() if query in (name, other)]
            if not alike:
                raise InvalidValue(
                    f"query: {query!r} is not one of this operator; its queries are "
                    f"{', '.join(map(repr, state.queries))}"
                )
            name = alike[0]
            if len(state.queries) == 1:
                raise InvalidValue(f"query: {name!r} is the only one; an operator has at least one query")
            if state.core is not None:
                state.core.remove(name)
            return state.only(set(state.queries) - {name}), None

        self._calls.make("remove", remove)

    def stats(self) -> Stats:
        """Return what the operator holds and has done."""
        if self._state.core is None:
            return Stats(*[0] * 14)
        return Stats(*self._ask("stats", lambda core, _: core.stats(), closed=True))

    def slices(self) -> pa.Table:
        """Return the slices: keys, ``t_start``, ``t_end``, and ``t_first`` and ``t_last`` of their rows.

        There are no more than the windows' edges require: every start and end is an edge of a window (Traub
        et al. 2019, §5.2).
        """
        batch = self._ask("slices", lambda core, _: pa.record_batch(core.slices()), closed=True)
        return pa.Table.from_batches([batch])

    def explain(self) -> str:
        """Describe what is stored and why, by the decisions of general stream slicing.

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
          keep rows: no (§5.1, Fig. 4)
            every function is commutative, every window context free or a session, and none counts rows
          split slices: no (§5.2, Fig. 5)
            no window gets an edge within a slice that exists
          take rows out: never (§5.2, Fig. 6)
            rows move only if they are counted and come out of order
        store: lazy (§5.2)
          few window types: windows that are ready are combined from slices in one go
        """
        first = next(iter(self.queries.values()))
        orders = "in order" if self._order == "in-order" else "out of order"
        lines = [f"stream operator, rows {orders}, by {', '.join(first.by) or 'nothing'} over {first.time}"]
        lines += ["queries"]
        for name, query in self.queries.items():
            windows, aggs = (", ".join(map(str, each)) for each in (query.windows, query.aggs))
            lines.append(f"  {quoted(name)}: {windows}; {aggs}")
        if self._state.core is None:
            return "\n".join([*lines, "decisions", "  none before the schema is known"])

        def read(core: _native.Operator, _: pa.Schema) -> Any:
            return core.strategy(), core.keeping_rows(), core.stores()

        decisions, keeping, stores = self._ask("explain", read, closed=True)
        lines.append("decisions (Traub et al. 2019)")
        for what, answer, why, source in decisions:
            lines += [f"  {what}: {answer} ({source})", f"    {why}"]
        if keeping:
            lines.append(f"rows are kept for {', '.join(map(quoted, keeping))} (§5.1)")
            lines += [f"  {line}" for line in KEPT[self._order]]
        for form, why in stores:
            lines += [f"store: {form} (§5.2)", f"  {why}"]
        return "\n".join(lines)

    def snapshot(self) -> bytes:
        """Return all that the operator holds, for `Operator.restore`.

        The bytes are versioned and checksummed, and bound to the queries and the schema.

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
            As of `windowkit.Query.operator`.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are not a snapshot, are truncated or damaged, or are of another version or query.
        """
        if not isinstance(snapshot, bytes | bytearray | memoryview):
            raise InvalidType(f"snapshot: it is {a_type(snapshot)}; a snapshot is bytes")
        given = bytes(snapshot)
        found, names, order = _native.Operator.contents(given)
        schema = pa.schema(found)
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
        this = cls.__new__(cls)
        this._order = order
        named = dict(zip(names, given_queries, strict=True))
        plans = [(name, plan(query, schema)) for name, query in named.items()]
        core = _native.Operator.restore(given, plans)
        this._stamps = stamps_of(given_queries[0], clock, is_idle=core.has_clock)
        this._clock = Stamps(clock) if core.has_clock else None
        state = State(
            MappingProxyType(named), added=len(named), schema=schema, core=core, closed=core.is_closed
        )
        this._calls = Calls(state)
        return this

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidType(
            "operator: it can be neither copied nor pickled; its snapshot() can, and Operator.restore makes "
            "another operator of it"
        )

    def _given_lateness(self, given: Length) -> tuple[int, bool]:
        lateness = of_measure("allowed_lateness", given)
        if self._order == "in-order" and lateness[0]:
            raise InvalidValue(
                f"allowed_lateness: {given!r} is given for order='in-order', where no row is late; it is for "
                "order='out-of-order'"
            )
        return lateness

    def _entered(
        self, state: State, query: Query, name: str | None, lateness: tuple[int, bool] | None
    ) -> tuple[State, str]:
        """Return the state with one more query, and its name."""
        if not isinstance(query, Query):
            raise InvalidType(f"query: {query!r} is {a_type(query)}; query is a windowkit.Query")
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
        if state.core is not None and state.schema is not None:
            state.core.add(given, plan(query, state.schema), lateness)
        queries = MappingProxyType({**state.queries, given: query})
        of_each = MappingProxyType({**state.lateness, given: lateness})
        return replace(state, queries=queries, lateness=of_each, added=added), given

    def _bound(self, state: State, schema: pa.Schema) -> State:
        """Return the state with a core for rows of this schema."""
        plans = [
            (name, plan(query, schema), state.lateness.get(name)) for name, query in state.queries.items()
        ]
        core = _native.Operator(
            plans,
            self._order,
            self._lateness,
            None if self._progress is None else self._progress.given(),
            self._store,
            self._late_limit,
        )
        return replace(state, schema=schema, core=core)

    def _look_at_clock(self, core: _native.Operator) -> None:
        if self._clock is not None:
            core.set_clock(self._clock.now(None))

    def _taken(self, state: State, source: Source) -> pa.Table:
        """Return what the core makes of rows."""
        core = state.core
        assert core is not None, "bound before"
        with source:
            self._look_at_clock(core)
            if self._stamps is None:
                return table(core.push(source))
            now = self._stamps.now(core.watermark)
            return table(core.push(self._stamps.stamped(pa.RecordBatchReader.from_stream(source), now)))

    def _ask(self, call: str, work: Callable[[_native.Operator, pa.Schema], T], *, closed: bool = False) -> T:
        """Make a call of the core, which has to be there; `closed` as in `windowkit.calls.Calls.make`."""

        def bound(state: State) -> tuple[State, T]:
            if state.core is None or state.schema is None:
                raise unbound(call)
            return state, work(state.core, state.schema)

        return self._calls.make(call, bound, closed=closed)

    def _time_type(self, schema: pa.Schema) -> pa.DataType:
        kind = schema.field(next(iter(self._state.queries.values())).time).type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        return pa.int64() if pa.types.is_integer(kind) else kind

    def _key(self, key: Any, schema: pa.Schema) -> pa.RecordBatch:
        """Return a key as a batch of one row of the key columns."""
        by = next(iter(self._state.queries.values())).by
        if isinstance(key, Mapping):
            if sorted(key) != sorted(by):
                raise InvalidValue(f"key: it has {sorted(key)}; the queries are by {sorted(by)}")
            values = [key[name] for name in by]
        elif len(by) == 1:
            values = [key]
        else:
            raise InvalidValue(
                f"key: {key!r} is given; the queries are by {list(by)}, so that a key is a mapping of these"
            )
        fields = [schema.field(name) for name in by]
        columns = []
        for value, field in zip(values, fields, strict=True):
            kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            try:
                columns.append(pa.array([value], kind).cast(field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError) as error:
                raise InvalidType(
                    f"key: {value!r} is not a value of column {field.name!r} of {field.type} ({error})"
                ) from None
        return pa.record_batch(columns, schema=pa.schema(fields))


def refuse_spark(data: Any) -> None:
    if is_spark(data):
        raise InvalidType(
            "data: a Spark DataFrame is given to an operator; operators take Arrow data, and Spark streams "
            "can use query.run in foreachBatch"
        )


def stamps_of(query: object, clock: Clock | None, *, is_idle: bool) -> Stamps | None:
    """Return what assigns times to rows, if a query is over processing time."""
    if isinstance(query, Query) and isinstance(query.time, ProcessingTime):
        return Stamps(clock)
    if clock is not None and not is_idle:
        raise InvalidValue(
            "clock: it is given for a query over a column of times; it is for one over "
            "windowkit.PROCESSING_TIME, and for progress=windowkit.delay(..., idle=...)"
        )
    return None


def unbound(call: str) -> InvalidValue:
    return InvalidValue(
        f"{call}: the schema of the stream is not known yet; push a batch before, or give schema=... to "
        "query.operator()"
    )


def table(stream: Any) -> pa.Table:
    return pa.RecordBatchReader.from_stream(stream).read_all()


register(Engine(takes=lambda _: True, calls={"operator": Operator}))
