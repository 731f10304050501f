"""Remove the duplicates of a stream in this process: rows and watermarks in, rows that are none out."""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.given import refuse_spark, schema_of
from windowkit.arrow.incoming import Incoming
from windowkit.errors import InvalidType
from windowkit.language.checks import a_type, limit, snapshot_bytes
from windowkit.language.distinct import Distinct
from windowkit.language.identity import identity
from windowkit.language.query import LATE_LIMIT
from windowkit.language.written import write_distinct
from windowkit.local.distinct import bound
from windowkit.streams.held import Held
from windowkit.streams.stats import DistinctStats, reported
from windowkit.streams.watermarks import in_time, scalar, time_type

__all__ = ["DistinctOperator"]

NO_SPARK: Final = "; an operator takes rows of one process; distinct.run(data) takes a DataFrame"


class DistinctOperator(Held[_native.DistinctOperator]):
    """A stream from which duplicates are removed; made by `windowkit.Distinct.operator`.

    Rows go in by `push`, in any order. `advance` says how far the stream is complete (its *watermark*), and
    `close` that it has ended. Each returns the rows that are now known not to be duplicates: those up to the
    watermark, as an earlier row may come before that. The results of all calls are those of
    `windowkit.Distinct.run` over all rows that are not late, in another order; dictionaries have codes of 32
    bits. Of equal rows of one time, the first to come is kept.

    A call that raises leaves the operator as it was.

    Notes
    -----
    DupElim (Li 2008, §8.2). A row is held until the watermark is more than `within` after it. O(1) amortised
    for a row in order of time, and O(log n) among n held rows of its key.

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

    def __init__(self, distinct: Distinct, schema: Any, *, late_limit: int | None = LATE_LIMIT) -> None:
        refuse_spark("schema", schema, NO_SPARK)
        self._bind(distinct, schema_of(schema, "schema"))
        self._hold(_native.DistinctOperator(self._planned, limit("late_limit", late_limit, 0)))

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
        return pa.schema(self._planned.output_schema)

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
            Rows of the batch at the watermark, and rows without time: that they are no duplicates is known.

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
            return self._incoming.push(core.push, batch, validate)

        return self._step("push", push)

    def advance(self, watermark: Any) -> pa.Table:
        """Declare the stream complete up to a time: rows that come before that are late.

        Parameters
        ----------
        watermark : datetime, date, timedelta, str, int or pyarrow.Scalar
            As for `windowkit.Operator.advance`; not before the last one.

        Returns
        -------
        pyarrow.Table
            The rows up to it that are no duplicates and were not returned before, by their times.

        Raises
        ------
        InvalidType, InvalidValue
            It is not a time of the column's type, or before the last one, or the operator is closed.
        """

        def advance(core: _native.DistinctOperator) -> Any:
            return core.advance(in_time("watermark", watermark, self._time))

        return self._step("advance", advance)

    def close(self) -> pa.Table:
        """End the stream, and return the remaining rows that are not duplicates."""
        return self._close()

    def take_late(self) -> pa.Table:
        """Return the rows that came before the watermark, and release them.

        They have all their columns and ``late_reason``, which is ``too late``. Once ``late_limit`` of
        `windowkit.Distinct.operator` are held, further rows are dropped until the next call, and counted by
        `DistinctStats.late_dropped`.
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
    def restore(cls, snapshot: bytes, distinct: Distinct) -> DistinctOperator:
        """Return an operator that continues from a snapshot.

        Parameters
        ----------
        snapshot : bytes
            What `DistinctOperator.snapshot` returned.
        distinct : Distinct
            What the operator was made of.

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
        this._hold(_native.DistinctOperator.restore(given, name, this._planned))
        return this


def name_of(distinct: Distinct) -> str:
    """Return the text by which a snapshot knows what it is of."""
    return identity(write_distinct(distinct))
