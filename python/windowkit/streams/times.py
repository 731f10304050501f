"""Progress of an operator of queries: watermarks, of the stream and of keys and sources, and punctuations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.language.checks import as_given
from windowkit.streams.completeness import Completeness
from windowkit.streams.known import Known
from windowkit.streams.progress import progress_of
from windowkit.streams.queried import Queried
from windowkit.streams.watermarks import in_time, refuse_key, refuse_timeless, scalar

__all__ = ["Times"]

PROCESSING: Final = "windowkit.PROCESSING_TIME, whose time is that of the clock"
MAY_BE_LEFT_OUT: Final = {
    "watermark": "a watermark may be left out if it follows the rows, with progress=windowkit.delay(...), if "
    f"a query is emitted by the clock, or for queries over {PROCESSING}",
    "time": f"the time of a punctuation may be left out only for queries over {PROCESSING}",
}
"""Arguments that are times, and when they are not needed."""


class Times(Queried):
    """The part of an operator that says how far its stream has come; see `windowkit.Operator`."""

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

        def read(core: _native.Operator, state: Known) -> Any:
            reached = ask(core)
            return None if reached is None or core.is_closed else scalar(reached, state.time_type)

        return self._ask(name, read, closed=True)

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
            the watermark of the sources that are not idle by now; where a query is emitted by the clock
            (``every(..., of="processing time")``), to have what is due by now.
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
        [{'k': 'a', 'window_start': 0, 'window_end': 10, 'n': 1, 'update': False}]
        >>> op.advance(10).to_pylist()
        [{'k': 'b', 'window_start': 0, 'window_end': 10, 'n': 1, 'update': False}]
        """

        def advance(core: _native.Operator, state: Known) -> pa.Table:
            if key is not None:
                return self._advanced(core, state, watermark, key)
            self._look_at_clock(core, state, has_waited=watermark is None)
            if watermark is None and (core.follows or (core.has_clock and not state.is_stamped)):
                return self._emitted(state, core.follow)
            return self._emitted(state, core.advance, self._moment(core, state, "watermark", watermark))

        return self._ask("advance", advance)

    def _moment(self, core: _native.Operator, state: Known, argument: str, given: Any) -> int:
        """Return a time as the core takes it: over processing time that of the clock, and no other."""
        if not state.is_stamped:
            if given is None:
                raise InvalidValue(f"{argument}: none is given; {MAY_BE_LEFT_OUT[argument]}")
            return in_time(argument, given, state.time_type)
        if given is not None:
            raise InvalidValue(
                f"{argument}: {as_given(given)} is given over PROCESSING_TIME, where it is the time of the "
                "clock; no argument is allowed"
            )
        return self._clock.now(core.watermark)

    def _advanced(self, core: _native.Operator, state: Known, watermark: Any, key: Any) -> pa.Table:
        """Return what becomes ready as one key is complete up to a time."""
        check_key(state, key, "advance(watermark) without a key moves the watermark of the stream")
        refuse_timeless(key, watermark)
        at = in_time("watermark", watermark, state.time_type)
        self._look_at_clock(core, state)
        return self._emitted(state, core.advance_key, at, state.key(key))

    def end_key(self, key: Any) -> pa.Table:
        """Declare that no more rows of a key come: its windows end, and the key is forgotten.

        Parameters
        ----------
        key : object or mapping of str to object
            The key; a mapping by column if there are several.

        Returns
        -------
        pyarrow.Table
            All windows of the key, as `close` returns those of all keys: complete ones and those that would
            have gone on. None if nothing is held of it.

        Raises
        ------
        InvalidType, InvalidValue
            The key does not fit the query's, or the query has none; it is over `windowkit.PROCESSING_TIME`;
            the schema is not known yet; or the operator is closed.
        Overflow
            A result does not fit its type.

        Notes
        -----
        The key is complete up to the end of the last window that is returned, or to where it was complete if
        that is later, and `allowed_lateness` beyond it, as by ``advance(end, key=...)``, until the watermark
        of the stream gets there. A row that comes nevertheless is late for windows that end before that, so
        that none is returned twice. With windows after it the key begins anew, and these are numbered from
        the first again. Of rows that are in no window, such as those after the last full window by rows,
        nothing is left. O(windows of the key). This is punctuation on the key alone (Li 2008, §2.1).

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by="k", time="t", windows=wk.session(30), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order")
        >>> op.push(pa.table({"k": ["a", "b", "a"], "t": [1, 2, 8]})).num_rows
        0
        >>> op.end_key("a").to_pylist()
        [{'k': 'a', 'window_start': 1, 'window_end': 38, 'n': 2, 'update': False}]
        >>> op.stats().keys, op.keys_ahead().to_pylist()
        (1, [{'k': 'a', 'watermark': 39}])
        """

        def end_key(core: _native.Operator, state: Known) -> pa.Table:
            check_key(state, key, "close() ends the stream")
            if key is None:
                raise InvalidValue("key: None is given; a null key is given as a mapping, {column: None}")
            self._look_at_clock(core, state)
            return self._emitted(state, core.end_key, state.key(key))

        return self._ask("end_key", end_key)

    def keys_ahead(self) -> pa.Table:
        """Return the keys that are complete further than the stream, by ``advance`` or `end_key`.

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

        def keys_ahead(core: _native.Operator, _: Known) -> pa.Table:
            return pa.Table.from_batches([pa.record_batch(core.keys_ahead())])

        return self._ask("keys_ahead", keys_ahead, closed=True)

    def progress(self) -> pa.Table:
        """Return the progress of each source of the stream, if ``progress`` was given.

        Returns
        -------
        pyarrow.Table
            A row for each source: ``source`` (if a column names it), ``latest`` (the time of its latest row),
            ``watermark``, ``rows``, and ``idle``: whether it was left out by the last call that could bring
            rows. (Looking at them is no such call, however often.)

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

        def progress(core: _native.Operator, _: Known) -> pa.Table:
            return progress_of(core)

        return self._ask("progress", progress, closed=True)

    def completeness(self, start: Any, end: Any) -> Completeness | None:
        """Return which share of the rows of a window can be expected to have arrived by now.

        Parameters
        ----------
        start, end : datetime, date, timedelta, str, int or pyarrow.Scalar
            Of the window ``[start, end)``: times as for `advance`.

        Returns
        -------
        Completeness or None
            The ``share``, and the ``error`` that it has at most in nineteen of twenty streams; None before
            any row. `windowkit.emit(..., complete=True)` adds both to results.

        Raises
        ------
        InvalidType, InvalidValue
            They are no times of the column's type; no ``progress=windowkit.delay(share=...)`` was given; or
            the schema is not known yet.

        Notes
        -----
        A row of time t is expected to be there with the probability that rows are no further behind the
        latest row than t is, by the sketch of the delays so far; the share is the mean of that over the
        window, and over sources by their rows. So it takes rows to come evenly over the window, and no later
        than they did: a stream has to last for many times its delays before they are all known. The error is
        that of the sketch (1.33 %, once there are some hundred rows), and of a sample of n rows (1.36/√n;
        Massart 1990). O(256) for each source.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order", progress=wk.delay(share=0.99))
        >>> op.push(pa.table({"t": [0, 1, 2, 3, 4]})).num_rows
        0
        >>> op.completeness(0, 10).share
        0.5
        """

        def completeness(core: _native.Operator, state: Known) -> Completeness | None:
            kind = state.time_type
            edges = in_time("start", start, kind), in_time("end", end, kind)
            if edges[0] > edges[1]:
                raise InvalidValue(
                    f"end: {as_given(end)} is before start={as_given(start)}; a window ends where it starts, "
                    "or later"
                )
            arrays = [pa.array([scalar(edge, kind)], kind) for edge in edges]
            found = pa.record_batch(core.completeness(pa.record_batch(arrays, ["start", "end"]))).to_pylist()[
                0
            ]
            return (
                None
                if found["complete"] is None
                else Completeness(found["complete"], found["complete_error"])
            )

        return self._ask("completeness", completeness, closed=True)

    def add_source(self, source: Any) -> pa.Table:
        """Announce a source of the stream: from now on the watermark waits for its rows.

        Parameters
        ----------
        source : object
            A value of the column that names sources. `windowkit.delay` takes those that are known from the
            beginning.

        Returns
        -------
        pyarrow.Table
            What is due by the clock, as of other calls; in most streams nothing.

        Raises
        ------
        InvalidType, InvalidValue
            It is no value of that column, or no column names sources; the schema is not known yet; or the
            operator is closed.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order", progress=wk.delay(0, source="shard"))
        >>> op.push(pa.table({"t": [5], "shard": ["a"]})).num_rows, op.add_source("b").num_rows
        (0, 0)
        >>> op.push(pa.table({"t": [25], "shard": ["a"]})).num_rows
        0
        >>> op.end_source("b").to_pylist()
        [{'window_start': 0, 'window_end': 10, 'n': 1, 'update': False}]
        """
        return self._of_source("add_source", lambda core: core.add_source, source)

    def end_source(self, source: Any) -> pa.Table:
        """Declare that no more rows of a source come: the watermark no longer waits for them.

        Rows of it that come after all are of a new source of this name.

        Parameters
        ----------
        source : object
            A value of the column that names sources, which had rows, or was announced by `add_source` or
            `windowkit.delay`.

        Returns
        -------
        pyarrow.Table
            Windows that end as the watermark moves on. Where all sources have ended, it is the greatest of
            theirs, whichever ended last.

        Raises
        ------
        InvalidType, InvalidValue
            It is no source of this stream, or no column names sources; the schema is not known yet; or the
            operator is closed.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator(order="out-of-order", progress=wk.delay(0, source="shard"))
        >>> op.push(pa.table({"t": [5, 25], "shard": ["a", "b"]})).num_rows
        0
        >>> op.end_source("a").num_rows, op.progress()["source"].to_pylist()
        (1, ['b'])
        """
        return self._of_source("end_source", lambda core: core.end_source, source)

    def _of_source(
        self, call: str, step: Callable[[_native.Operator], Callable[..., Any]], source: Any
    ) -> pa.Table:
        def change(core: _native.Operator, state: Known) -> pa.Table:
            self._look_at_clock(core, state)
            return self._emitted(state, step(core), state.source(source))

        return self._ask(call, change)

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
        [{'k': 'b', 'window_start': 2, 'window_end': 2, 'window_number': 0, 'n': 1, 'update': False}]
        """

        def punctuate(core: _native.Operator, state: Known) -> pa.Table:
            self._look_at_clock(core, state)
            at = self._moment(core, state, "time", time)
            return self._emitted(state, core.punctuate, at, state.key(key))

        return self._ask("punctuate", punctuate)


def check_key(state: Known, key: Any, instead: str) -> None:
    """Refuse a key where the time of its rows is the clock's, or where there are no keys."""
    if state.is_stamped:
        raise InvalidValue(
            f"key: {as_given(key)} is given over PROCESSING_TIME, where rows get the time of the clock, "
            "whatever their key; allowed are keys over a column of times"
        )
    refuse_key(key, state.leader.by, "the queries group by nothing", instead)
