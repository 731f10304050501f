"""Evaluate queries over a stream in this process: rows and watermarks in, windows out once they are final."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.computing import computing
from windowkit.arrow.given import refuse_spark, schema_of
from windowkit.arrow.reading import read_types
from windowkit.errors import InvalidValue
from windowkit.language.checks import items, snapshot_bytes, wrong_type
from windowkit.language.display import facts
from windowkit.language.durations import Length
from windowkit.language.emission import Emission
from windowkit.language.processing import Clock, Stamps
from windowkit.language.progress import Delay
from windowkit.language.query import LATE_LIMIT, Query
from windowkit.language.shedding import Shed
from windowkit.local.query import stream_plan
from windowkit.streams.calls import Calls, Returned
from windowkit.streams.decisions import summary
from windowkit.streams.known import NO_SPARK, Known, of_queries, refuse_unlike
from windowkit.streams.options import Options
from windowkit.streams.reports import Reports
from windowkit.streams.results import Results
from windowkit.streams.rows import Rows
from windowkit.streams.times import Times

__all__ = ["Operator"]


class Operator(Rows, Times, Results, Reports):
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
    [{'k': 'a', 'window_start': 0, 'window_end': 10, 'sum(v)': 5.0, 'update': False}]
    >>> op.close().to_pylist()
    [{'k': 'a', 'window_start': 10, 'window_end': 20, 'sum(v)': 2.0, 'update': False}]
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
        updates: bool = True,
    ) -> None:
        options = Options(order, store, late_limit, allowed_lateness, progress, shed, updates)
        state = Known(options=options).with_query(with_policy(query, emit), name)[0]
        if state.is_stamped and order != "in-order":
            raise InvalidValue(
                f"order: {order!r} is given over PROCESSING_TIME, where rows are in the order in which "
                "they come; allowed is 'in-order'"
            )
        self._clock = clock_of(state, clock)
        if schema is not None:
            refuse_spark("schema", schema, NO_SPARK)
            given, compute = read_types(schema_of(schema, "schema")), computing("schema", state.expressions)
            state = state.begun(given if compute is None else read_types(compute.added_to(given)))
        self._calls = Calls(state)

    def __enter__(self) -> Operator:
        return self

    def __repr__(self) -> str:
        # Of what Python knows alone, as another thread may be in a call.
        state, leader = self._state, self._state.leader
        queries = "; ".join(f"{name}: {summary(query)}" for name, query in state.queries.items())
        keys = ", ".join(leader.by) or "nothing"
        return (
            f"<windowkit.Operator {state.options.order} by {keys} over {leader.time}; {queries}{self._ended}>"
        )

    def _repr_html_(self) -> str:
        state, leader = self._state, self._state.leader
        ended = "released" if state.released else "closed" if state.closed else "open"
        rows: list[tuple[str, Iterable[object]]] = [
            ("by", leader.by),
            ("time", [leader.time]),
            ("order", [state.options.order]),
            *((name, [summary(query)]) for name, query in state.queries.items()),
            ("stream", [ended]),
        ]
        return facts("windowkit operator", rows)

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
        >>> op.push(pa.table({"t": [6, 10]})).select(["query_name", "window_start", "n"]).to_pylist()[0]
        {'query_name': 'q1', 'window_start': 0, 'n': 2}
        """
        own = self._state.options
        lateness = None if allowed_lateness is None else own.lateness(allowed_lateness)

        def add(state: Known) -> str:
            following, given = state.with_query(with_policy(query, emit), name, lateness)
            following = replace(following, returned=Returned(given, state.calls + 1))
            if state.core is None or following.schema is None:
                self._calls.replace(replace(following, made=state.made + 1))
                return given
            of_stream = stream_plan(following.queries[given], following.schema, following.expressions)
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
        InvalidType, InvalidValue
            It is neither, there is no such query, or it is the only one.

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
        if not isinstance(query, str | Query):
            raise wrong_type("query", query, "query is a name, or a windowkit.Query")

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
            following = replace(state.without(name), returned=Returned(None, state.calls + 1))
            if state.core is None:
                self._calls.replace(replace(following, made=state.made + 1))
            else:
                self._calls.prepare(following)
                state.core.remove(name)

        self._calls.make("remove", remove)

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
        [{'k': 'a', 'window_start': 0, 'window_end': 10, 'sum(v)': 3.0, 'update': False}]
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
            not read, or are of other queries.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, 5]})).num_rows
        0
        >>> Operator.restore(op.snapshot(), query).close().to_pylist()
        [{'window_start': 0, 'window_end': 10, 'n': 2, 'update': False}]
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
        refuse_unlike("queries", given_queries)
        named = dict(zip(names, given_queries, strict=True))
        expressions = of_queries(given_queries)
        plans = [(name, stream_plan(query, schema, expressions)) for name, query in named.items()]
        core = _native.Operator.restore(given, plans)
        limit = core.shed
        shed = None if limit is None else Shed(limit.bytes, limit.keep, limit.seed)
        state = Known(
            core=core,
            closed=core.is_closed,
            options=Options(order=contents.order, shed=shed),
            queries=MappingProxyType(named),
            added=len(named),
            schema=schema,
            expressions=expressions,
        )
        this = cls.__new__(cls)
        this._clock = clock_of(state, clock)
        this._calls = Calls(state)
        return this


def with_policy(query: Query, emit: Emission | None) -> Query:
    """Return the query with this emission policy in place of its own, if one is given."""
    # Anything that is not a query is refused where it is used.
    return query if emit is None or not isinstance(query, Query) else replace(query, emit=emit)


def clock_of(state: Known, clock: Clock | None) -> Stamps:
    """Return the clock of an operator."""
    if clock is not None and not state.has_clock:
        raise InvalidValue(
            "clock: it is given for a query over a column of times; it requires one over "
            "windowkit.PROCESSING_TIME, progress=windowkit.delay(...) with idle= or heartbeat=, or an "
            "emission policy with windowkit.every(..., of='processing time')"
        )
    return Stamps(clock)
