"""Remove the duplicates of a stream in this process: rows and watermarks in, rows that are none out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.given import refuse_spark, schema_of
from windowkit.arrow.incoming import Incoming
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, limit, snapshot_bytes
from windowkit.language.distinct import Distinct
from windowkit.language.expressions import hinting
from windowkit.language.identity import identity
from windowkit.language.processing import Clock
from windowkit.language.progress import Delay, checked_delay
from windowkit.language.query import LATE_LIMIT
from windowkit.language.shedding import Shed, checked_shed
from windowkit.language.written import write_distinct
from windowkit.local.distinct import bound
from windowkit.streams.held import Held
from windowkit.streams.progress import announce, clock_for, look_at_clock, progress_of, source_row
from windowkit.streams.stats import DistinctStats, reported
from windowkit.streams.watermarks import in_time, one_key, refuse_key, refuse_timeless, scalar, time_type

__all__ = ["DistinctOperator"]

NO_SPARK: Final = "; an operator takes rows of one process; distinct.run(data) takes a DataFrame"


class DistinctOperator(Held[_native.DistinctOperator]):
    """A stream from which duplicates are removed; made by `windowkit.Distinct.operator`.

    Rows go in by `push`, in any order. `advance` says how far the stream is complete (its *watermark*), and
    `close` that it has ended; with ``progress``, the watermark follows the rows. Each returns the rows that
    are now known not to be duplicates: those up to the watermark, as an earlier row may come before that. The
    results of all calls are those of `windowkit.Distinct.run` over all rows that are not late, in another
    order; dictionaries have codes of 32 bits. Of equal rows of one time, the first to come is kept.

    A call that raises leaves the operator as it was.

    Notes
    -----
    DupElim (Li 2008, §8.2). A row is held until the watermark reaches it, and then a time for its key, until
    the watermark is more than `within` after it. O(1) amortised for a row in order of time, and O(log n)
    among n held rows of its key.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> op = wk.distinct("id", time="t", within=10).operator(pa.schema({"id": pa.string(), "t": pa.int64()}))
    >>> op.push(pa.table({"id": ["a", "b"], "t": [8, 9]})).num_rows
    0
    >>> op.push(pa.table({"id": ["a"], "t": [3]})).num_rows
    0
    >>> op.advance(20).to_pylist()
    [{'id': 'a', 't': 3}, {'id': 'b', 't': 9}]
    """

    def __init__(
        self,
        distinct: Distinct,
        schema: Any,
        *,
        progress: Delay | None = None,
        late_limit: int | None = LATE_LIMIT,
        clock: Clock | None = None,
        shed: Shed | None = None,
    ) -> None:
        refuse_spark("schema", schema, NO_SPARK)
        own = schema_of(schema, "schema")
        self._bind(distinct, own)
        followed = checked_delay("progress", progress)
        with hinting(own):
            core = _native.DistinctOperator(
                self._planned, followed, limit("late_limit", late_limit, 0), checked_shed(shed)
            )
        self._clock = clock_for(core, clock)
        announce(core, own, followed)
        self._schema = pa.schema(core.schema)
        self._hold(core)

    def _bind(self, distinct: Distinct, schema: pa.Schema) -> None:
        self._distinct, self._input = distinct, schema
        self._incoming = Incoming(schema, NO_SPARK)
        self._planned = bound(distinct, schema)
        self._time = time_type(schema, distinct.time)

    def __enter__(self) -> DistinctOperator:
        return self

    def __repr__(self) -> str:
        return f"<windowkit.DistinctOperator of {self._distinct}{self._ended}>"

    @property
    def schema(self) -> pa.Schema:
        """The schema of results."""
        return self._schema

    @property
    def watermark(self) -> pa.Scalar | None:
        """Up to when the stream is complete; no result that is still to come has an earlier time."""
        units = self._ask("watermark", lambda core: core.watermark)
        return None if units is None else scalar(units, self._time)

    def push(self, batch: Any, *, validate: bool | None = None) -> pa.Table:
        """Add rows.

        Parameters
        ----------
        batch, validate
            As for `windowkit.Operator.push`.

        Returns
        -------
        pyarrow.Table
            Rows of which it is now known that they are no duplicates: those without time, at the watermark,
            and with ``progress`` all up to the watermark, which the rows of the batch may have moved.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            A column is missing or has another type with other values, the data is malformed, or the operator
            is closed.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> op = wk.distinct([], time="t", within=10).operator(pa.schema({"t": pa.int64()}))
        >>> op.advance(5).num_rows, op.push(pa.table({"t": [5, 7, 5]})).to_pylist()
        (0, [{'t': 5}])
        """

        def push(core: _native.DistinctOperator) -> Any:
            look_at_clock(core, self._clock)
            return self._incoming.push(core.push, batch, validate)

        return self._step("push", push)

    def advance(self, watermark: Any = None, key: Any = None) -> pa.Table:
        """Declare the stream, or one of its keys, complete up to a time: rows before it are late.

        Parameters
        ----------
        watermark : datetime, date, timedelta, str, int or pyarrow.Scalar
            As for `windowkit.Operator.advance`; not before the last one. With ``progress``, omit it to move
            on to the watermark of the sources that are not idle by now.
        key : object or mapping of str to object, optional
            The only key that is complete up to then; a mapping by column if there are several. It need not
            have had rows. From then on it is ahead of the others, until the watermark of the stream gets
            there: see `keys_ahead`. All keys by default.

        Returns
        -------
        pyarrow.Table
            The rows up to it that are no duplicates and were not returned before, by their times.

        Raises
        ------
        InvalidType, InvalidValue
            It is not a time of the column's type, or before the last one, of the key if one is given; the key
            does not fit, or there is none (``by=[]``); or the operator is closed.

        Notes
        -----
        O(log n) for each row that is decided on. With a key, this is the group-wise punctuation of Li (2008,
        §2.1).

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> op = wk.distinct("id", time="t", within=10).operator(schema)
        >>> op.push(pa.table({"id": ["a", "b", "a"], "t": [3, 4, 8]})).num_rows
        0
        >>> op.advance(9, key="a").to_pylist()
        [{'id': 'a', 't': 3}]
        >>> op.advance(9).to_pylist()
        [{'id': 'b', 't': 4}]
        """

        def advance(core: _native.DistinctOperator) -> Any:
            if key is not None:
                step = self._of_key(watermark, key)
                look_at_clock(core, self._clock)
                return core.advance_key(*step)
            if watermark is None and not core.follows:
                raise InvalidValue(
                    "watermark: none is given; it may be left out if it follows the rows, with "
                    "progress=windowkit.delay(...)"
                )
            at = None if watermark is None else in_time("watermark", watermark, self._time)
            look_at_clock(core, self._clock, has_waited=at is None)
            return core.follow() if at is None else core.advance(at)

        return self._step("advance", advance)

    def _of_key(self, watermark: Any, key: Any) -> tuple[int, pa.RecordBatch]:
        """Return up to when a key is complete, and the key."""
        instead = "advance(watermark) without a key moves the watermark of the stream"
        refuse_key(key, self._distinct.by, "duplicates are equal in nothing", instead)
        refuse_timeless(key, watermark)
        at = in_time("watermark", watermark, self._time)
        return at, one_key(key, self._distinct.by, self._input, "duplicates are")

    def keys_ahead(self) -> pa.Table:
        """Return the keys whose own watermark, by ``advance(..., key=...)``, is ahead of the stream's.

        Returns
        -------
        pyarrow.Table
            As of `windowkit.Operator.keys_ahead`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> op = wk.distinct("id", time="t", within=10).operator(schema)
        >>> op.advance(9, key="a").num_rows, op.keys_ahead().to_pylist()
        (0, [{'id': 'a', 'watermark': 9}])
        >>> op.advance(9).num_rows, op.keys_ahead().num_rows
        (0, 0)
        """
        return self._ask(
            "keys_ahead", lambda core: pa.Table.from_batches([pa.record_batch(core.keys_ahead())])
        )

    def progress(self) -> pa.Table:
        """Return the progress of each source of the stream, if ``progress`` was given.

        Returns
        -------
        pyarrow.Table
            As of `windowkit.Operator.progress`.

        Raises
        ------
        InvalidValue
            No watermark follows the rows of this operator.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> op = wk.distinct("id", time="t", within=10).operator(schema, progress=wk.delay(5))
        >>> op.push(pa.table({"id": ["a", "b", "a"], "t": [3, 4, 8]})).to_pylist()
        [{'id': 'a', 't': 3}]
        >>> op.progress().to_pylist()
        [{'latest': 8, 'watermark': 3, 'rows': 3, 'idle': False}]
        """
        return self._ask("progress", progress_of)

    def add_source(self, source: Any) -> pa.Table:
        """Announce a source of the stream: from now on the watermark waits for its rows.

        Parameters, errors and what is returned are those of `windowkit.Operator.add_source`.
        """
        return self._of_source("add_source", lambda core: core.add_source, source)

    def end_source(self, source: Any) -> pa.Table:
        """Declare that no more rows of a source come: the watermark no longer waits for them.

        Parameters and errors are those of `windowkit.Operator.end_source`; rows are returned that are known
        to be no duplicates as the watermark moves on.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"t": pa.int64(), "shard": pa.string()})
        >>> follow = wk.delay(0, source="shard", sources=["a", "b"])
        >>> op = wk.distinct([], time="t", within=10).operator(schema, progress=follow)
        >>> op.push(pa.table({"t": [5, 25], "shard": ["a", "a"]})).num_rows
        0
        >>> op.end_source("b").to_pylist()
        [{'t': 5, 'shard': 'a'}, {'t': 25, 'shard': 'a'}]
        """
        return self._of_source("end_source", lambda core: core.end_source, source)

    def _of_source(
        self, call: str, step: Callable[[_native.DistinctOperator], Callable[..., Any]], source: Any
    ) -> pa.Table:
        def change(core: _native.DistinctOperator) -> Any:
            look_at_clock(core, self._clock)
            return step(core)(source_row(core, self._input, source))

        return self._step(call, change)

    def close(self) -> pa.Table:
        """End the stream, and return the remaining rows that are not duplicates."""
        return self._close()

    def take_late(self) -> pa.Table:
        """Return the rows that came before the watermark, and release them.

        They have all their columns and ``late_reason``, which is ``too late``, or ``from the future`` (see
        `windowkit.delay`). Once ``late_limit`` of `windowkit.Distinct.operator` are held, further rows are
        dropped until the next call, and counted by `DistinctStats.late_dropped`.
        """
        return self._step("take_late", lambda core: core.take_late(), are_late=True)

    def stats(self) -> DistinctStats:
        """Return what the operator holds and has done."""
        return reported(DistinctStats, self._ask("stats", lambda core: core.stats()))

    def snapshot(self) -> bytes:
        """Return the whole state of the operator as bytes, for `DistinctOperator.restore`.

        They are versioned and checksummed, and bound to the schema and to what it was made of.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> distinct = wk.distinct([], time="t", within=10)
        >>> op = distinct.operator(pa.schema({"t": pa.int64()}))
        >>> op.push(pa.table({"t": [5, 7]})).num_rows
        0
        >>> DistinctOperator.restore(op.snapshot(), distinct).close().to_pylist()
        [{'t': 5}]
        """
        return self._ask("snapshot", lambda core: core.snapshot(name_of(self._distinct)))

    @classmethod
    def restore(cls, snapshot: bytes, distinct: Distinct, *, clock: Clock | None = None) -> DistinctOperator:
        """Return an operator that continues from a snapshot.

        Parameters
        ----------
        snapshot : bytes
            What `DistinctOperator.snapshot` returned.
        distinct : Distinct
            What the operator was made of.
        clock : callable, optional
            As for `windowkit.Distinct.operator`.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are not a snapshot of such an operator, are truncated or damaged, are of a version that
            this windowkit does not read, or the operator was made of another value.
        """
        given = snapshot_bytes(snapshot)
        if not isinstance(distinct, Distinct):
            raise InvalidType(f"distinct: it is {a_type(distinct)}; it is what windowkit.distinct returns")
        name = name_of(distinct)
        this = cls.__new__(cls)
        this._bind(distinct, pa.schema(_native.DistinctOperator.contents(given, name)))
        core = _native.DistinctOperator.restore(given, name, this._planned)
        this._clock, this._schema = clock_for(core, clock), pa.schema(core.schema)
        this._hold(core)
        return this


def name_of(distinct: Distinct) -> str:
    """Return the text by which a snapshot knows what it is of."""
    return identity(write_distinct(distinct))
