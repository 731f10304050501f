"""Join two streams in this process: rows and watermarks of both sides in, rows of the result out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.given import schema_of
from windowkit.arrow.incoming import Incoming
from windowkit.arrow.moments import in_one_unit
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, limit, snapshot_bytes
from windowkit.language.durations import Rows
from windowkit.language.emission import Emission, no_emission
from windowkit.language.expressions import hinting
from windowkit.language.identity import identity
from windowkit.language.join import Join
from windowkit.language.processing import Clock
from windowkit.language.progress import Delay, checked_delay
from windowkit.language.query import LATE_LIMIT
from windowkit.language.shedding import Shed
from windowkit.language.written import form_of_join
from windowkit.local.join import bound, refuse_sparks, schema_of_result, shaped, time_of
from windowkit.streams.calls import State
from windowkit.streams.held import Held
from windowkit.streams.progress import announce, clock_for, look_at_clock, progress_of, source_row
from windowkit.streams.stats import JoinStats, reported
from windowkit.streams.watermarks import in_time, one_key, refuse_key, scalar, time_type

__all__ = ["JoinOperator", "Watermarks"]

EARLY: Final = (
    "allowed is windowkit.emit(windowkit.rows(1), refinement='retracting'), which returns each row without a "
    "partner at once, and at_most and later, with it or alone"
)
NO_SPARK: Final = "; an operator joins streams in one process; join.run(left, right) joins two DataFrames"


@dataclass(frozen=True)
class Watermarks:
    """Up to which times the results of a join of two streams are complete; see `JoinOperator.watermarks`.

    Parameters
    ----------
    left, right : pyarrow.Scalar or None
        No result that is still to come has an earlier time of that side; None if that is not known.
    joint : tuple of two pyarrow.Scalar, or None
        No pair that is still to come has an earlier time of both sides. None if that is not known, or if rows
        at these times are no partners: `left` and `right` then say as much.
    """

    left: pa.Scalar | None
    right: pa.Scalar | None
    joint: tuple[pa.Scalar, pa.Scalar] | None


class JoinOperator(Held[_native.JoinOperator]):
    """A join of two streams; made by `windowkit.Join.operator`.

    Rows of the sides go in by `push_left` and `push_right`, in any order. `advance_left` and `advance_right`
    say up to which time a side is complete (its *watermark*), and `close` that both have ended. Each returns
    a table of the rows of the result that it has found, in the columns of `windowkit.Join.run`: a pair as
    soon as its second row is there, and a row without a partner once the other side, or the row's key of it,
    is complete beyond all partners that it could have. The results of all calls are those of
    `windowkit.Join.run` over all rows that are not late, in another order. If rows have weights, or are
    returned before it is known that they have no partner, so do results, and those of one row add up.

    A call that raises leaves the operator as it was.

    ``with join.operator(...) as op:`` releases what the operator holds when the block ends, as for
    `windowkit.Operator`.

    Notes
    -----
    OA-Join (Li 2008, ch. 7). A row is stored until the other side is complete beyond its last possible
    partner, and not at all if that is so when it comes; by windows, once for each of its windows. So the
    progress of the left side bounds the rows of the right side that are held, and vice versa. O(1) amortised
    for a row in order of time and for a row of the result, and O(log n) to find the first partner among n
    stored rows of the key.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> join = wk.join(by="ip", left_time="t", right_time="u", within=(0, 5), how="left")
    >>> left = pa.schema({"ip": pa.string(), "t": pa.int64()})
    >>> op = join.operator(left, pa.schema({"ip": pa.string(), "u": pa.int64()}))
    >>> op.push_left(pa.table({"ip": ["a", "b"], "t": [10, 12]})).num_rows
    0
    >>> op.push_right(pa.table({"ip": ["a"], "u": [13]})).to_pylist()
    [{'ip': 'a', 't': 10, 'u': 13}]
    >>> op.advance_right(18).to_pylist()
    [{'ip': 'b', 't': 12, 'u': None}]
    """

    def __init__(
        self,
        join: Join,
        left: Any,
        right: Any,
        *,
        late_limit: int | None = LATE_LIMIT,
        emit: Emission | None = None,
        left_progress: Delay | None = None,
        right_progress: Delay | None = None,
        clock: Clock | None = None,
        shed: Shed | None = None,
    ) -> None:
        refuse_sparks(left, right, NO_SPARK)
        schemas = schema_of(left, "left"), schema_of(right, "right")
        self._bind(join, *schemas, early=is_early(emit), sheds=sheds_keys(shed))
        followed = (
            checked_delay("left_progress", left_progress),
            checked_delay("right_progress", right_progress),
        )
        with hinting(*schemas):
            waits = (None, None) if emit is None else (emit.at_most, emit.later)
            late = limit("late_limit", late_limit, 0)
            core = _native.JoinOperator(self._planned, *followed, late, waits, shed)
        for side, delay in zip(self._follow(core, clock), followed, strict=True):
            announce(side, self._schemas[side.is_left], delay)
        self._hold(core)

    def _follow(self, core: _native.JoinOperator, clock: Clock | None) -> tuple[Side, Side]:
        """Return both sides, whose watermarks may follow their rows by a clock."""
        left, right = Side(core, is_left=True), Side(core, is_left=False)
        self._follows, self._has_clock = (right.follows, left.follows), left.has_clock or right.has_clock
        self._clock = clock_for(left if left.has_clock else right, clock)
        return left, right

    def _bind(self, join: Join, left: pa.Schema, right: pa.Schema, *, early: bool, sheds: bool) -> None:
        self._join = join
        left, right = in_one_unit(left, join.left_time, right, join.right_time, time_of(join))
        self._schemas = (right, left)
        self._incoming = (Incoming(right, NO_SPARK), Incoming(left, NO_SPARK))
        self._planned = bound(join, left, right, early=early, sheds=sheds)
        self._time = time_type(left, join.left_time)

    def __enter__(self) -> JoinOperator:
        return self

    def __repr__(self) -> str:
        return f"<windowkit.JoinOperator of {self._join}{self._ended}>"

    @property
    def join(self) -> Join:
        """The join that it evaluates."""
        return self._join

    @property
    def schema(self) -> pa.Schema:
        """The schema of results."""
        return schema_of_result(self._planned, self._join)

    @property
    def watermarks(self) -> Watermarks:
        """Up to which times the results returned so far are complete, for whatever reads these.

        With the left side complete up to l and the right side up to r, and partners within ``(before,
        after)``, it is ``left = min(l, r - after)`` and ``right = min(r, l - before)`` (individual
        punctuation; Li 2008, Fig. 7-1), and ``joint = (l, r)`` (Fig. 7-3): a pair that is still to come
        has a row that is still to come. By windows, rows of the left side are stored as long as their last
        window is open on the right, so ``left`` is the start of the first window that is open there, or l
        if that is earlier (Figs. 7-2 and 7-4). The watermarks of a side apply to its rows without partners,
        too, unless they have no time; the joint one applies to pairs. Where results are held back
        (``at_most``, ``later``), these are the watermarks before the call that found the first of them.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=2).operator(side, side)
        >>> op.advance_left(2).num_rows, op.advance_right(1).num_rows
        (0, 0)
        >>> op.watermarks.left.as_py(), op.watermarks.right.as_py()
        (-1, 0)
        >>> [time.as_py() for time in op.watermarks.joint]
        [2, 1]
        """
        found = self._ask("watermarks", lambda core: core.watermarks())
        joint = found.joint and (scalar(found.joint[0], self._time), scalar(found.joint[1], self._time))
        return Watermarks(self._moment(found.left), self._moment(found.right), joint)

    def _moment(self, units: int | None) -> pa.Scalar | None:
        """Return a time of the columns' type, unless it is before all that the type can hold."""
        is_beyond = units is not None and pa.types.is_date32(self._time) and units < -(2**31)
        return None if units is None or is_beyond else scalar(units, self._time)

    def push_left(self, batch: Any, *, validate: bool | None = None) -> pa.Table:
        """Add rows of the left side.

        Parameters
        ----------
        batch : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            Rows with the columns of the left side's schema, in any order; others are ignored. A type may be
            another one if the cast loses no information, as for `windowkit.Operator.push`.
        validate : bool, optional
            Look at every value, and refuse malformed data, as `windowkit.Query.run` does.

        Returns
        -------
        pyarrow.Table
            The pairs with stored rows, in the order of the rows, then of their partners' times; and the rows
            that can have no partner. Of a semi join, the left rows that have their first partner now.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            A column is missing or has another type with other values, the data is malformed, or the operator
            is closed.
        Overflow
            A time is too far away for its windows.

        Notes
        -----
        Rows before the watermark of their own side are late: see `take_late_left`. A row with a null key or
        without a time has no partner, and is a result at once of kinds that have such rows. If the call
        raises, a reader that is given has moved on nevertheless: see `windowkit.Operator.push`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=1).operator(side, side)
        >>> op.push_left(pa.table({"t": [1, 2]})).num_rows, op.push_right(pa.table({"t": [2, 9]})).num_rows
        (0, 2)
        """
        return self._push("push_left", True, batch, validate)

    def push_right(self, batch: Any, *, validate: bool | None = None) -> pa.Table:
        """Add rows of the right side; see `push_left`."""
        return self._push("push_right", False, batch, validate)

    def advance_left(self, watermark: Any = None, key: Any = None) -> pa.Table:
        """Declare the left side, or one of its keys, complete up to a time: rows before it are late.

        Parameters
        ----------
        watermark : datetime, date, timedelta, str, int or pyarrow.Scalar
            As for `windowkit.Operator.advance`; not before the last one of this side. With ``left_progress``,
            omit it to move on to the watermark of the sources that are not idle by now.
        key : object or mapping of str to object, optional
            The only key whose rows of this side are complete up to then; a mapping by this side's key columns
            if there are several. It need not have had rows. From then on it is ahead of the others, until the
            watermark of the side gets there: see `keys_ahead_left`. All keys by default.

        Returns
        -------
        pyarrow.Table
            The rows of the right side that can have no partner any more, of kinds that have such rows; by
            their times. All that can have none are no longer stored.

        Raises
        ------
        InvalidType, InvalidValue
            It is not a time of the column's type, or before the last one, of the key if one is given; the key
            does not fit the join's, has a null, or the join has none; or the operator is closed.

        Notes
        -----
        With a key, O(rows of the key that are forgotten). This is the group-wise punctuation of Li (2008,
        §2.1).

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=1, how="right").operator(side, side)
        >>> op.push_right(pa.table({"t": [1, 2]})).num_rows
        0
        >>> op.advance_left(3).to_pylist()
        [{'t': None, 't_right': 1}]

        Nothing more is to be waited for of one key:

        >>> keyed = pa.schema({"k": pa.string(), "t": pa.int64()})
        >>> op = wk.join(by="k", left_time="t", right_time="t", within=1, how="left").operator(keyed, keyed)
        >>> op.push_left(pa.table({"k": ["a", "b"], "t": [1, 1]})).num_rows
        0
        >>> op.advance_right(3, key="a").to_pylist()
        [{'k': 'a', 't': 1, 't_right': None}]
        """
        return self._advance("advance_left", True, watermark, key)

    def advance_right(self, watermark: Any = None, key: Any = None) -> pa.Table:
        """Declare the right side, or one of its keys, complete up to a time; see `advance_left`."""
        return self._advance("advance_right", False, watermark, key)

    def keys_ahead_left(self) -> pa.Table:
        """Return the keys that, by ``advance_left(..., key=...)``, are complete further than the left side.

        Returns
        -------
        pyarrow.Table
            The key columns of the left side, and ``watermark``: up to when its rows of the key are complete.
            A key that the watermark of the side has reached is no longer among them.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"k": pa.string(), "t": pa.int64()})
        >>> op = wk.join(by="k", left_time="t", right_time="t", within=1).operator(side, side)
        >>> op.advance_left(10, key="a").num_rows, op.keys_ahead_left().to_pylist()
        (0, [{'k': 'a', 'watermark': 10}])
        >>> op.advance_left(10).num_rows, op.keys_ahead_left().num_rows
        (0, 0)
        """
        return self._keys_ahead("keys_ahead_left", True)

    def keys_ahead_right(self) -> pa.Table:
        """Return the keys that are complete further than the right side; see `keys_ahead_left`."""
        return self._keys_ahead("keys_ahead_right", False)

    def progress_left(self) -> pa.Table:
        """Return the progress of each source of the left side, if ``left_progress`` was given.

        Returns
        -------
        pyarrow.Table
            As of `windowkit.Operator.progress`.

        Raises
        ------
        InvalidValue
            No watermark follows the rows of this side.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> join = wk.join(by=[], left_time="t", right_time="t", within=1, how="right")
        >>> op = join.operator(side, side, left_progress=wk.delay(2))
        >>> op.push_right(pa.table({"t": [1, 9]})).num_rows
        0
        >>> op.push_left(pa.table({"t": [8, 5]})).to_pylist()
        [{'t': 8, 't_right': 9}, {'t': None, 't_right': 1}]
        >>> op.progress_left().to_pylist()
        [{'latest': 8, 'watermark': 6, 'rows': 2, 'idle': False}]
        """
        return self._ask("progress_left", lambda core: progress_of(Side(core, is_left=True)))

    def progress_right(self) -> pa.Table:
        """Return the progress of each source of the right side; see `progress_left`."""
        return self._ask("progress_right", lambda core: progress_of(Side(core, is_left=False)))

    def add_source_left(self, source: Any) -> pa.Table:
        """Announce a source of the left side: from now on its watermark waits for rows of it.

        Parameters, errors and what is returned are those of `windowkit.Operator.add_source`.
        """
        return self._of_source("add_source_left", True, lambda side: side.add_source, source)

    def add_source_right(self, source: Any) -> pa.Table:
        """Announce a source of the right side; see `add_source_left`."""
        return self._of_source("add_source_right", False, lambda side: side.add_source, source)

    def end_source_left(self, source: Any) -> pa.Table:
        """Declare that no more rows of a source of the left side come: its watermark waits for others.

        Parameters and errors are those of `windowkit.Operator.end_source`; rows of the right side are
        returned that can have no partner any more as the watermark moves on.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64(), "shard": pa.string()})
        >>> join = wk.join(by=[], left_time="t", right_time="t", within=1, how="right", right_columns="t")
        >>> follow = wk.delay(0, source="shard", sources=["a", "b"])
        >>> op = join.operator(side, side, left_progress=follow)
        >>> op.push_right(pa.table({"t": [1], "shard": ["x"]})).num_rows
        0
        >>> op.push_left(pa.table({"t": [8], "shard": ["a"]})).num_rows
        0
        >>> op.end_source_left("b")["t_right"].to_pylist()
        [1]
        """
        return self._of_source("end_source_left", True, lambda side: side.end_source, source)

    def end_source_right(self, source: Any) -> pa.Table:
        """Declare that no more rows of a source of the right side come; see `end_source_left`."""
        return self._of_source("end_source_right", False, lambda side: side.end_source, source)

    def close(self) -> pa.Table:
        """End both sides, and return the rows that are left without a partner.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=1, how="anti").operator(side, side)
        >>> op.push_left(pa.table({"t": [1, 5]})).num_rows, op.push_right(pa.table({"t": [2]})).num_rows
        (0, 0)
        >>> op.close().to_pylist()
        [{'t': 5}]
        """
        return self._close()

    def take_late_left(self) -> pa.Table:
        """Return the rows of the left side that came before its watermark, and release them.

        Returns
        -------
        pyarrow.Table
            The rows since the last call, with all their columns and ``late_reason``: ``too late``, or ``from
            the future`` (see `windowkit.delay`). Once ``late_limit`` of `windowkit.Join.operator` are held,
            further rows are dropped until the next call, and counted by `JoinStats.left_dropped`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=1).operator(side, side)
        >>> op.advance_left(3).num_rows, op.push_left(pa.table({"t": [2, 3]})).num_rows
        (0, 0)
        >>> op.take_late_left().to_pylist()
        [{'t': 2, 'late_reason': 'too late'}]
        """
        return self._step("take_late_left", lambda core: core.take_late(True), are_late=True)

    def take_late_right(self) -> pa.Table:
        """Return the rows of the right side that came before its watermark; see `take_late_left`."""
        return self._step("take_late_right", lambda core: core.take_late(False), are_late=True)

    def stats(self) -> JoinStats:
        """Return what the operator holds and has done.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> op = wk.join(by=[], left_time="t", right_time="t", within=1).operator(side, side)
        >>> op.push_left(pa.table({"t": [1, 2]})).num_rows, op.advance_right(3).num_rows
        (0, 0)
        >>> op.stats().left_kept, op.stats().left_rows
        (1, 2)
        """
        return reported(JoinStats, self._ask("stats", lambda core: core.stats()))

    def snapshot(self) -> bytes:
        """Return the whole state of the operator as bytes, for `JoinOperator.restore`.

        They are versioned and checksummed, and bound to the join and the schemas. Windows of a
        `windowkit.ContextFree` are identified by the name of its class.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"t": pa.int64()})
        >>> join = wk.join(by=[], left_time="t", right_time="t", within=1)
        >>> op = join.operator(side, side)
        >>> op.push_left(pa.table({"t": [1, 2]})).num_rows
        0
        >>> JoinOperator.restore(op.snapshot(), join).push_right(pa.table({"t": [2]})).num_rows
        2
        """
        return self._ask("snapshot", lambda core: core.snapshot(name_of(self._join)))

    @classmethod
    def restore(cls, snapshot: bytes, join: Join, *, clock: Clock | None = None) -> JoinOperator:
        """Return an operator that continues from a snapshot.

        Parameters
        ----------
        snapshot : bytes
            What `JoinOperator.snapshot` returned.
        join : Join
            The join that the operator was made of.
        clock : callable, optional
            As for `windowkit.Join.operator`.

        Raises
        ------
        InvalidType, InvalidValue
            The bytes are not a snapshot of a join, are truncated or damaged, are of a version that this
            windowkit does not read, or are of another join.
        """
        given = snapshot_bytes(snapshot)
        if not isinstance(join, Join):
            raise InvalidType(f"join: it is {a_type(join)}; it is what windowkit.join returns")
        name = name_of(join)
        this = cls.__new__(cls)
        contents = _native.JoinOperator.contents(given, name)
        sides = map(pa.schema, contents.sides)
        this._bind(join, *sides, early=contents.early, sheds=contents.sheds)
        core = _native.JoinOperator.restore(given, name, this._planned)
        this._follow(core, clock)
        this._hold(core)
        return this

    def _shown(self, state: State[_native.JoinOperator], rows: pa.Table, are_late: bool) -> pa.Table:
        return rows if are_late else shaped(rows, self._join)

    def _push(self, call: str, is_left: bool, batch: Any, validate: bool | None) -> pa.Table:
        def push(core: _native.JoinOperator) -> Any:
            self._look_at_clock(core, is_left)
            return self._incoming[is_left].push(partial(core.push, is_left), batch, validate)

        return self._step(call, push)

    def _look_at_clock(self, core: _native.JoinOperator, is_left: bool, *, has_waited: bool = False) -> None:
        """Tell a side the time. Calls of the other side say nothing of how long this one was waited for."""
        if self._has_clock:
            look_at_clock(Side(core, is_left=is_left), self._clock, has_waited=has_waited)

    def _of_source(
        self, call: str, is_left: bool, step: Callable[[Side], Callable[..., Any]], source: Any
    ) -> pa.Table:
        def change(core: _native.JoinOperator) -> Any:
            self._look_at_clock(core, is_left)
            side = Side(core, is_left=is_left)
            return step(side)(source_row(side, self._schemas[is_left], source))

        return self._step(call, change)

    def _keys_ahead(self, call: str, is_left: bool) -> pa.Table:
        return self._ask(
            call, lambda core: pa.Table.from_batches([pa.record_batch(core.keys_ahead(is_left))])
        )

    def _advance(self, call: str, is_left: bool, watermark: Any, key: Any) -> pa.Table:
        def advance(core: _native.JoinOperator) -> Any:
            if watermark is None and (key is not None or not self._follows[is_left]):
                raise InvalidValue(
                    "watermark: none is given; it may be left out if that of the side follows the rows, with "
                    f"{'left' if is_left else 'right'}_progress=windowkit.delay(...)"
                )
            at = None if watermark is None else in_time("watermark", watermark, self._time)
            if key is None:
                self._look_at_clock(core, is_left, has_waited=at is None)
                return core.follow(is_left) if at is None else core.advance(is_left, at)
            by = self._join.left_by if is_left else self._join.right_by
            instead = f"{call}(watermark) without a key moves the watermark of the side"
            refuse_key(key, by, "the join has no keys", instead)
            one = one_key(key, by, self._schemas[is_left], "the join is")
            self._look_at_clock(core, is_left)
            assert at is not None, "a key is complete up to a time"
            return core.advance_key(is_left, at, one)

        return self._step(call, advance)


class Side:
    """A side of a join as the core has it, whose watermark may follow its rows."""

    def __init__(self, core: _native.JoinOperator, *, is_left: bool) -> None:
        self._core, self.is_left = core, is_left
        followed = core.followed(is_left)
        self.source, self.follows = followed.source, followed.follows
        self.has_clock = followed.has_clock

    def set_clock(self, now: int, has_waited: bool) -> None:
        """Set the clock, until which the caller has waited for rows, or has done something else."""
        self._core.set_clock(self.is_left, now, has_waited)

    def add_source(self, source: pa.RecordBatch) -> Any:
        """Wait for rows of the source in a batch of one row."""
        return self._core.add_source(self.is_left, source)

    def end_source(self, source: pa.RecordBatch) -> Any:
        """Wait no longer for rows of the source in a batch of one row."""
        return self._core.end_source(self.is_left, source)

    def progress(self) -> Any:
        """Return what is known of the sources."""
        return self._core.progress(self.is_left)


def sheds_keys(shed: Any) -> bool:
    """Whether keys may be dropped for want of memory."""
    if shed is None:
        return False
    if not isinstance(shed, Shed):
        raise InvalidType(f"shed: {as_given(shed)} is {a_type(shed)}; it is what windowkit.shed(...) returns")
    if shed.keep != "keys":
        raise InvalidValue(
            f"shed: keep={shed.keep!r} is given for a join, of which some rows would lose their partners; "
            "allowed is keep='keys'"
        )
    return True


def is_early(emission: Any) -> bool:
    """Whether rows without a partner are returned at once, and retracted once they have one."""
    if emission is None:
        return False
    if not isinstance(emission, Emission):
        raise no_emission(emission)
    if emission.complete:
        raise InvalidValue(
            f"complete: {emission!r} is given for a join, which does not measure how late rows are; {EARLY}"
        )
    if emission.early is None and emission.refinement == "accumulating" and emission.waits:
        return False
    if emission.early != Rows(1):
        raise InvalidValue(f"early: {emission!r} is given for a join; {EARLY}")
    if emission.refinement != "retracting":
        raise InvalidValue(
            f"refinement: {emission!r} is given for a join; a row without a partner is withdrawn once it has "
            f"one; {EARLY}"
        )
    return True


def name_of(join: Join) -> str:
    """Return the text by which a snapshot knows what it is of, whatever its windows are called."""
    own = None if join.windows is None else join.windows.text
    return identity({**form_of_join(join), "windows": own})
