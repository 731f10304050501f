"""Rows of an operator of queries: those that go in, as such or as slices, and those that come too late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.alignment import are_alike
from windowkit.arrow.given import refuse_spark
from windowkit.arrow.source import Source
from windowkit.local.query import check_mark
from windowkit.streams.calls import table
from windowkit.streams.known import NO_SPARK, Known
from windowkit.streams.queried import Queried

__all__ = ["Rows"]


class Rows(Queried):
    """An operator that rows are pushed to; see `windowkit.Operator`."""

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
        [{'window_start': 0, 'window_end': 10, 'n': 3, 'update': False}]
        """

        def push(state: Known) -> pa.Table:
            if state.core is not None:
                return self._emitted(state, state.incoming.push, self._adding(state), batch, validate)
            rows = state.incoming.opened(batch, validate)
            state = self._calls.prepare(state.begun(rows.schema))
            return self._emitted(state, rows.fed, self._adding(state))

        return self._calls.make("push", push)

    def _adding(self, state: Known) -> Callable[[Any], Any]:
        """Return what adds rows to the core, at the time of the clock where that matters."""
        core = state.core
        assert core is not None, "bound before"

        def stamped(rows: Any) -> Any:
            self._look_at_clock(core, state)
            now = self._clock.now(core.watermark)
            return core.push(self._clock.stamped(pa.RecordBatchReader.from_stream(rows), now))

        def at_clock(rows: Any) -> Any:
            core.set_clock(self._clock.now(None), has_waited=False)
            return core.push(rows)

        return stamped if state.is_stamped else at_clock if state.has_clock else core.push

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
        [{'k': 'a', 'window_start': 0, 'window_end': 10, 'n': 2, 'update': False}]
        """

        def push_slices(core: _native.Operator, state: Known) -> pa.Table:
            source = Source("slices", slices, validate=validate)
            if core.refuses_slices() is None:
                check_mark(state.leader, source.schema)
                if are_alike(source.schema, state.sliced):
                    # As Polars returns them.
                    source = Source("slices", source, validate=validate, schema=state.sliced)
            return self._emitted(state, source.fed, core.push_slices)

        refuse_spark("slices", slices, NO_SPARK)
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
