"""Joins of two inputs by keys and times; bound to no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language import engines, written
from windowkit.language.arguments import hinted
from windowkit.language.checks import as_given, checked_name, distinct_names, names, one_of, text, wrong_type
from windowkit.language.display import Lines, facts
from windowkit.language.durations import Duration, Length, Rows, length
from windowkit.language.emission import Emission
from windowkit.language.options import CutByTimePlan
from windowkit.language.query import LATE_LIMIT
from windowkit.language.running import by_sides, join_options
from windowkit.language.windows import Window, quoted
from windowkit.language.windows.base import units
from windowkit.language.windows.user import ContextAware, ContextFree

if TYPE_CHECKING:
    import pyarrow
    from typing_extensions import Unpack

    from windowkit.language.processing import Clock
    from windowkit.language.progress import Delay
    from windowkit.language.shedding import Shed
    from windowkit.streams.join import JoinOperator

__all__ = ["Join", "join"]

KINDS: Final = ("inner", "left", "right", "full", "semi", "anti")
ENDS: Final = ("both", "left", "right", "neither")
KEYS: Final = "a str, a sequence of str, or a dict from columns of the left side to those of the right"

Reach = Duration | int


@dataclass(frozen=True)
class Join:
    """A join of two inputs by keys and times, to be run on any data; made by `join`.

    A plain value: frozen, hashable, picklable, and bound to no data and no engine.

    Parameters
    ----------
    left_by, right_by : tuple of str
        Key columns of the two sides, as many of each; () for one group of all rows.
    left_time, right_time : str
        Their time columns.
    within : tuple of Duration or int, or None
        How far the time of a right row may be before that of a left row, and after it.
    windows : Window or None
        The windows that partners share; given if `within` is not.
    how : {"inner", "left", "right", "full", "semi", "anti"}
        Which rows are returned, pairs of partners or those of one side.
    closed : {"both", "left", "right", "neither"}
        Which ends `within` includes.
    suffix : str
        What is appended to names of columns of the right side that the left side has, too.
    left_columns, right_columns : tuple of str, or None
        The columns of a side that the result has.
    left_weight, right_weight : str or None
        The column of weights of a side, if its rows may retract others.
    """

    left_by: tuple[str, ...]
    right_by: tuple[str, ...]
    left_time: str
    right_time: str
    within: tuple[Reach, Reach] | None
    windows: Window | None
    how: str = "inner"
    closed: str = "both"
    suffix: str = "_right"
    left_columns: tuple[str, ...] | None = None
    right_columns: tuple[str, ...] | None = None
    left_weight: str | None = None
    right_weight: str | None = None

    def __str__(self) -> str:
        """Return keys, times, condition and kind on a line.

        Examples
        --------
        >>> import windowkit as wk
        >>> print(wk.join(by={"src": "dst"}, left_time="t", right_time="u", within=(5, 0), how="left"))
        by src = dst over t and u: within (5, 0), left
        """
        weights = [quoted(each) for each in (self.left_weight, self.right_weight) if each is not None]
        weighed = f", weighed by {' and '.join(weights)}" if weights else ""
        return f"{self.subject}{weighed}: {self.condition}, {self.how}"

    def _repr_html_(self) -> str:
        chosen = [("columns of the left side", self.left_columns), ("of the right side", self.right_columns)]
        weights = [each for each in (self.left_weight, self.right_weight) if each is not None]
        return facts(
            "windowkit join",
            [
                ("by", self.keys),
                ("times", [self.left_time, self.right_time]),
                ("partners", [self.condition]),
                ("kind", [self.how]),
                *([("weights", weights)] if weights else []),
                *((name, each) for name, each in chosen if each is not None),
            ],
        )

    @property
    def keys(self) -> list[str]:
        """The pairs of key columns as text: ``src = dst``, or ``ip`` where both have one name."""
        pairs = zip(self.left_by, self.right_by, strict=True)
        return [quoted(own) if own == other else f"{quoted(own)} = {quoted(other)}" for own, other in pairs]

    @property
    def has_weight(self) -> bool:
        """Whether rows of the result have weights."""
        return self.left_weight is not None or self.right_weight is not None

    @property
    def subject(self) -> str:
        """Keys and times as text."""
        times = f"{quoted(self.left_time)} and {quoted(self.right_time)}"
        return f"by {', '.join(self.keys) or 'nothing'} over {times}"

    @property
    def condition(self) -> str:
        """Which rows are partners as text, in the form of the arguments."""
        if self.within is None:
            return f"in one of the windows {self.windows}"
        before, after = self.within
        lengths = str(before) if before == after else f"({before}, {after})"
        return f"within {lengths}" + ("" if self.closed == "both" else f", closed {self.closed}")

    @by_sides(join_options)
    def run(self, left: Any, right: Any, threads: int | None = None, **options: Any) -> Any:
        """Join two tables.

        Parameters
        ----------
        left, right : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            As for `windowkit.Query.run`. Rows may come in any order. Or both Spark DataFrames.
        threads : int, optional
            Threads to use, at least 1; all usable cores if None. Not for Spark.
        validate : bool, optional
            Look at every value that is read, as for `windowkit.Query.run`. Not for Spark.
        split : str, datetime.timedelta or int, optional
            Cut keys into stretches of that length: see `windowkit.spark.join`. Only for Spark.
        route : "scan" or "packed", optional
            Whether tasks read Parquet files themselves: see `windowkit.spark.join`. Only for Spark.
        metrics : windowkit.spark.Metrics, optional
            As for `windowkit.spark.join`. Only for Spark.
        result : "pyarrow", "pandas", "polars", "polars-lazy", "duckdb" or "ibis", optional
            The library whose table is returned; by default that of `left`. Not for Spark.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame, polars.DataFrame or pyspark.sql.DataFrame
            The columns of the left side, then those of the right, then ``window_start`` and ``window_end`` if
            rows are joined by windows. Key columns come once, with the names that they have on the left. The
            order of rows is that of the left rows, and where one has several partners, that of their times
            and then of the right rows (with windows, first that of the windows). A left row without a partner
            is in its place; right rows without one come last, in their order. Rows of Spark have no order.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The data is not Arrow data, or malformed, or of one side alone a Spark DataFrame; both sides are
            one reader; or the join does not fit them: see `schema`.
            Or a definition of windows raises, or has one window within another.
        Overflow
            A time is so far away that its windows do not fit 64 bits.

        Notes
        -----
        O(n log n) to sort n rows of a key by time, none where they are in order; then O(1) amortised a row,
        and O(1) a row of the result. Memory: both tables, some 40 bytes a row, and the result. `batches`
        holds only some batches of the result.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> join = wk.join(by="ip", left_time="t", right_time="t", within=(5, 2), right_columns=["flag"])
        >>> sent = pa.table({"ip": ["a", "a", "b"], "t": [10, 20, 30]})
        >>> answered = pa.table({"ip": ["a", "a", "b"], "t": [12, 15, 40], "flag": ["x", "y", "z"]})
        >>> join.run(sent, answered).to_pylist()
        [{'ip': 'a', 't': 10, 'flag': 'x'}, {'ip': 'a', 't': 20, 'flag': 'y'}]
        """
        return engines.run(self, left, right, threads=threads, **options)

    @hinted
    def batches(
        self, left: Any, right: Any, threads: int | None = None, *, validate: bool | None = None
    ) -> pyarrow.RecordBatchReader:
        """Join two tables, and compute the result batch by batch, as it is read.

        Parameters
        ----------
        left, right, threads, validate
            As for `run`.

        Returns
        -------
        pyarrow.RecordBatchReader
            The rows of `run`. Some batches are computed ahead, one for each thread.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue, Overflow
            As `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> join = wk.join(by=[], left_time="t", right_time="u", within=1)
        >>> batches = join.batches(pa.table({"t": range(9)}), pa.table({"u": range(9)}))
        >>> sum(batch.num_rows for batch in batches)
        25
        """
        with engines.process(left) as here:
            return here.batches(self, left, right, threads=threads, validate=validate)

    @hinted
    def operator(
        self,
        left: Any,
        right: Any,
        *,
        late_limit: int | None = LATE_LIMIT,
        emit: Emission | None = None,
        left_progress: Delay | None = None,
        right_progress: Delay | None = None,
        clock: Clock | None = None,
        shed: Shed | None = None,
    ) -> JoinOperator:
        """Join two streams, whose rows come in any order.

        Parameters
        ----------
        left, right : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            The schemas of the two sides; data is not read.
        late_limit : int, optional
            How many late rows of each side are held until they are taken; any number if None.
        emit : Emission, optional
            ``windowkit.emit(windowkit.rows(1), refinement="retracting")`` returns rows without a partner at
            once, and retracts each by a row of weight -1 when its first partner comes. Results then have the
            column ``weight``. By default, a row is returned once it can have no partner. For left, right,
            full and anti joins. With `at_most` and `later`, alone or beside that, results wait as those of a
            query do: a call returns so many rows at most, and those that have waited until the watermark of
            the side that is less far has advanced by `later`.
        left_progress, right_progress : Delay, optional
            How the watermark of a side follows its rows: what `windowkit.delay` returns. A push to the side
            then moves its watermark after it has found the partners of its rows. By default, only
            ``advance_left`` and ``advance_right`` move it.
        clock : callable, optional
            Returns the time in microseconds since 1970-01-01 UTC, for sources that are silent
            (`windowkit.delay` with `idle` or `heartbeat`); by default that of the machine.
        shed : Shed, optional
            How much memory the state may take, and that a share of the keys is kept beyond that: what
            `windowkit.shed` returns, with ``keep="keys"``. Results then end with the column ``shed_share``.
            Any amount by default.

        Returns
        -------
        JoinOperator
            One that no row was pushed to yet.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `schema`; `emit` is another policy, a side does not fit its progress, `clock` is given where it
            does not matter; or `shed` is given for a join without keys, or whose results have weights.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> side = pa.schema({"k": pa.string(), "t": pa.int64()})
        >>> op = wk.join(by="k", left_time="t", right_time="t", within=5).operator(side, side)
        >>> op.push_right(pa.table({"k": ["a"], "t": [4]})).num_rows
        0
        >>> op.push_left(pa.table({"k": ["a"], "t": [1]})).to_pylist()
        [{'k': 'a', 't': 1, 't_right': 4}]
        """
        with engines.process(left) as here:
            operator: JoinOperator = here.operator(
                self,
                left,
                right,
                late_limit=late_limit,
                emit=emit,
                left_progress=left_progress,
                right_progress=right_progress,
                clock=clock,
                shed=shed,
            )
        return operator

    @hinted
    def schema(self, left: Any, right: Any) -> pyarrow.Schema:
        """Return the schema of the result, without joining anything.

        Parameters
        ----------
        left, right : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            Columns of a DataFrame that are not read, and that Arrow does not hold, are of type null.

        Raises
        ------
        UnknownColumn
            A side does not have a column.
        InvalidType
            Keys of the two sides have different types, or times have different types, units or zones;
            strings may be of any of Arrow's kinds of strings, and so may binaries. A length is a duration
            and times are integers, or vice versa. The windows are not known before rows.
        InvalidValue
            A length is finer than the unit of the times, `within` has no time in it without its ends, or the
            result would have two columns of one name.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> join = wk.join(by="k", left_time="t", right_time="t", windows=wk.tumbling("1 hour"), how="left")
        >>> side = pa.schema({"k": pa.string(), "t": pa.timestamp("s"), "v": pa.int8()})
        >>> join.schema(side, side).names
        ['k', 't', 'v', 't_right', 'v_right', 'window_start', 'window_end']
        """
        with engines.process(left) as here:
            return here.schema(self, left, right)

    def explain(self, left: Any = None, right: Any = None, **options: Unpack[CutByTimePlan]) -> str:
        """Describe how it is evaluated.

        Parameters
        ----------
        left, right : schema or data, optional
            As for `schema`, or Spark DataFrames; both or neither. With them the text has the columns of the
            result and, for Spark, what runs where.
        split, route : optional
            As for `run`. Only for Spark.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            One of the two is given alone, or as `schema`.

        Examples
        --------
        >>> import windowkit as wk
        >>> join = wk.join(by="ip", left_time="t", right_time="t", within="2 minutes", how="anti")
        >>> print(join.explain().splitlines()[0])
        join by ip over t and t: within 2 minutes, anti
        """
        if (left is None) != (right is None):
            given, other = ("left", "right") if right is None else ("right", "left")
            raise InvalidValue(f"{other}: {given} is given alone; explain takes both sides, or neither")
        return Lines(engines.explain(self, left, right, **options))

    def to_dict(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds, for `from_dict`, here or in another process.

        Raises
        ------
        InvalidType
            The windows are user-defined.

        Examples
        --------
        >>> import windowkit as wk
        >>> join = wk.join(by={"src": "dst"}, left_time="t", right_time="u", within=(5, 0), how="left")
        >>> form = join.to_dict()
        >>> form["by"], form["within"], form["how"]
        ({'src': 'dst'}, [5, 0], 'left')
        >>> wk.Join.from_dict(form) == join
        True
        """
        return written.write_join(self)

    @staticmethod
    def from_dict(form: Mapping[str, Any]) -> Join:
        """Return the `Join` that a dict describes, made by `to_dict` or by another program.

        Raises
        ------
        InvalidType, InvalidValue
            It is of another version, lacks a key, has others, or a value is not what `join` takes.

        Examples
        --------
        >>> import windowkit as wk
        >>> join = wk.join(by="ip", left_time="t", right_time="u", windows=wk.tumbling("1 hour"))
        >>> wk.Join.from_dict(join.to_dict()).windows
        <windowkit.Window tumbling(1 hour)>
        """
        return join(**written.read_join(form))


@hinted
def join(
    *,
    by: str | Sequence[str] | Mapping[str, str],
    left_time: str,
    right_time: str,
    within: Length | tuple[Length, Length] | None = None,
    windows: Window | None = None,
    how: str = "inner",
    closed: str | None = None,
    suffix: str = "_right",
    left_columns: str | Sequence[str] | None = None,
    right_columns: str | Sequence[str] | None = None,
    left_weight: str | None = None,
    right_weight: str | None = None,
) -> Join:
    """Describe a join of two inputs: pairs of rows with equal keys whose times are close, or in one window.

    Parameters
    ----------
    by : str, sequence of str, or dict
        Key columns; ``[]`` for none, where any two rows may be partners. A dict gives the columns of the left
        side those of the right: ``{"src": "dst"}``. Keys are equal as in SQL's joins: a null key equals
        nothing; NaN equals NaN, and 0.0 equals -0.0.
    left_time, right_time : str
        The time columns: timestamps, dates, durations or integers. Where units of timestamps or durations
        differ, both are compared, and returned, in the finer. Timestamps with zones are compared as moments,
        whatever their zones, and those without a zone only with each other. A row without a time has no
        partners.
    within : length or tuple of two lengths, optional
        ``(before, after)``: a right row is a partner of a left row if ``left_time - before <= right_time <=
        left_time + after``. A single length is both. Lengths are durations such as ``"2 minutes"``, or
        integers if times are; they are 0 or more, and below 2^61 units of the times.
    windows : Window, optional
        Instead of `within`: rows are partners if they are in one window, once for each window that they
        share. The windows are tumbling, sliding, landmark or bands over time, or those of a
        `windowkit.ContextFree`: those that are known before any row. The result is that of a join of the keys
        and windows of a table with a row for each window of each row; it has the windows in the columns
        ``window_start`` and ``window_end``.
    how : {"inner", "left", "right", "full", "semi", "anti"}
        ``"inner"``: pairs of partners. ``"left"``, ``"right"``, ``"full"``: also the rows of that side, or of
        both, that have no partner, with nulls for the other side. ``"semi"``: the left rows that have a
        partner, once each. ``"anti"``: those that have none.
    closed : "both", "left", "right" or "neither", optional
        Which ends of `within` are in it, by default both.
    suffix : str
        What is appended to the name of a column of the right side if the left side has one of that name.
    left_columns, right_columns : str or sequence of str, optional
        The columns of a side that the result has; by default all, but for the keys of the right side, which
        are those of the left.
    left_weight, right_weight : str, optional
        A column of a side, of signed integers: 1, or -1 for a row that retracts one of weight 1 with the same
        time and the same values in all columns that the join reads, which came before or comes in the same
        call. What retracting operators return in ``weight`` is such a column. The result then has the column
        ``weight``, the product of both: in a table, where only the rows that remain are joined, it is 1; a
        stream retracts by -1 what it has returned. The other side may have none. Not for Spark.

    Returns
    -------
    Join
        A value, to be run on any two tables or streams.

    Raises
    ------
    InvalidType, InvalidValue
        An argument has the wrong type, a name is given twice, a length is negative, a number of rows or of
        months, neither or both of `within` and `windows` are given, or weights are keys or times.

    Examples
    --------
    >>> import windowkit as wk
    >>> join = wk.join(
    ...     by={"src": "dst"},
    ...     left_time="sent",
    ...     right_time="answered",
    ...     within=("2 minutes", "3 minutes"),
    ...     how="left",
    ... )
    >>> join.within
    (Duration('2 minutes'), Duration('3 minutes'))
    """
    left_by, right_by = keys_of(by)
    how = one_of("how", how, KINDS)
    if (within is None) == (windows is None):
        given = "neither of them is" if within is None else "both are"
        raise InvalidValue(
            f"within: {given} given of within and windows; partners are either within a time, as in "
            "within='2 minutes', or in one window, as in windows=windowkit.tumbling('1 hour')"
        )
    if windows is not None:
        check_windows(windows)
        if closed is not None:
            raise InvalidValue(f"closed: {closed!r} is given with windows; it is for the ends of within")
    if how in ("semi", "anti") and right_columns is not None:
        raise InvalidValue(
            f"right_columns: they are given with how={how!r}, whose result has the columns of the left side "
            "only"
        )
    times = checked_name("left_time", left_time), checked_name("right_time", right_time)
    return Join(
        left_by,
        right_by,
        *times,
        None if within is None else reaches(within),
        windows,
        how,
        "both" if closed is None else one_of("closed", closed, ENDS),
        checked_name("suffix", suffix) if text("suffix", suffix) else "",
        None if left_columns is None else distinct_names("left_columns", left_columns),
        None if right_columns is None else distinct_names("right_columns", right_columns),
        weight_of("left_weight", left_weight, (*left_by, times[0])),
        weight_of("right_weight", right_weight, (*right_by, times[1])),
    )


def weight_of(argument: str, weight: str | None, by_and_time: Sequence[str]) -> str | None:
    """Return a column of weights, which is neither a key nor the time."""
    if weight is None:
        return None
    if checked_name(argument, weight) in by_and_time:
        raise InvalidValue(
            f"{argument}: {weight!r} is a key or the time, which a row and the one that retracts it share, "
            "so allowed are other columns"
        )
    return weight


def keys_of(by: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the key columns of both sides."""
    if isinstance(by, Mapping):
        return names("by", list(by), KEYS), names("by", list(by.values()), KEYS)
    both = distinct_names("by", by, KEYS)
    return both, both


def reaches(within: Any) -> tuple[Reach, Reach]:
    """Return how far `within` reaches back and ahead."""
    if not isinstance(within, tuple):
        both = reach(within)
        return both, both
    if len(within) != 2:
        raise InvalidValue(
            f"within: {as_given(within)} has {len(within)} lengths; it is one length, or two: (before, after)"
        )
    before, after = map(reach, within)
    if units(before) and units(after) and isinstance(before, int) != isinstance(after, int):
        raise InvalidType(
            f"within: one of {before} and {after} is a duration, and the other an integer; both are "
            "durations, or integers for integer times"
        )
    return before, after


def reach(value: Any) -> Reach:
    """Return one of the lengths of `within`."""
    found = length("within", value)
    if isinstance(found, Rows):
        raise InvalidType(f"within: {found} is a number of rows; it is a time such as '2 minutes'")
    if units(found) < 0:
        raise InvalidValue(f"within: {found} is negative; partners are within 0 or more before and after")
    return found


def check_windows(windows: Any) -> None:
    """Refuse what is not a window, or one of which nobody knows yet, or too many, that two rows share."""
    if not isinstance(windows, Window):
        own = isinstance(windows, ContextFree | ContextAware)
        such = "windowkit.custom(...) of that" if own else "windowkit.tumbling('1 hour')"
        raise wrong_type("windows", windows, f"it is one window such as {such}")
    if not windows.is_fixed or windows.ends_with_stream:
        raise InvalidType(
            f"windows: which rows share a window of {windows} is not known before all rows are; allowed are "
            "bands, tumbling, sliding and landmark windows over time or integers, or those of a "
            "windowkit.ContextFree"
        )
    if windows.is_endless:
        raise InvalidValue(
            f"windows: {windows} has no last window, so that two rows share infinitely many; give it a "
            "period, or use tumbling or sliding windows"
        )
