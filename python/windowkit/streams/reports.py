"""What an operator of queries says of itself: its queries, the schema of results, what it holds and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields

import pyarrow as pa

from windowkit.language.display import Lines
from windowkit.language.query import Query
from windowkit.streams.decisions import decisions_of, described
from windowkit.streams.queried import Queried
from windowkit.streams.stats import Stats, reported

__all__ = ["Reports"]


class Reports(Queried):
    """An operator that reports what it does; see `windowkit.Operator`."""

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
        ['window_start', 'window_end', 'n', 'update']
        """
        return self._ask("schema", lambda _, state: state.results, closed=True)

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

    @property
    def late(self) -> int:
        """The number of rows that came too late or without a time, once for each query: `take_late` has them.

        Examples
        --------
        >>> import windowkit as wk
        >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        >>> op = query.operator()
        >>> op.push(pa.table({"t": [1, None]})).num_rows, op.late
        (0, 1)
        """
        return self.stats().late

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
            return Lines(described(self._state.options.order, queries, None, self._state.options.shed))
        decisions = self._ask("explain", lambda core, _: decisions_of(core), closed=True)
        return Lines(described(self._state.options.order, queries, decisions, self._state.options.shed))
