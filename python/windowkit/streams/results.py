"""Results that an operator of queries is asked for: of open windows, at the end, and of the last call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit.streams.calls import Returned
from windowkit.streams.known import Known
from windowkit.streams.queried import Queried

__all__ = ["Results"]


class Results(Queried):
    """An operator that is asked for results; see `windowkit.Operator`."""

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
        [{'k': 'a', 'window_start': 0, 'window_end': 10, 'n': 2, 'update': False}]
        """
        return self._ask("peek", lambda core, state: self._emitted(state, core.peek, state.key(key)))

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
        [{'k': 'a', 'window_start': 0, 'window_end': 10, 'n': 2, 'update': False, 'emission': 'early'}]
        >>> op.fire("a").num_rows
        0
        """

        def fire(core: _native.Operator, state: Known) -> pa.Table:
            self._look_at_clock(core, state)
            return self._emitted(state, core.fire, state.key(key))

        return self._ask("fire", fire)

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
        [{'window_start': 0, 'window_end': 10, 'n': 2, 'update': False}]
        """

        def close(state: Known) -> pa.Table:
            if state.core is None:
                nothing = Returned(pa.table({}), state.calls + 1)
                self._calls.replace(replace(state, closed=True, made=nothing.calls, returned=nothing))
                return nothing.result
            self._calls.prepare(replace(state, closed=True))
            return self._emitted(state, state.core.close)

        return self._calls.make("close", close)

    def last(self) -> Any:
        """Return the result of the last call once more: if an interrupt came before you had it.

        A call has either taken effect or left the operator as it was; `calls` tells which, wherever a signal
        handler raises. It may also be asked for after the block of ``with``.

        Returns
        -------
        pyarrow.Table, str or None
            What the last call returned that counts: a table, the name that `add` returned, or None after
            `remove`. Calls that change nothing (`peek`, `stats`, `last` itself) do not count, and neither do
            calls that failed.

        Raises
        ------
        InvalidValue
            No call has taken effect yet, also since the operator was restored.

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
        return self._last()
