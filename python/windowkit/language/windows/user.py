"""User-defined windows: by a calendar of edges, or by the contents of rows."""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol
from weakref import ref

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, checked_name
from windowkit.language.durations import Length, Measure, length
from windowkit.language.moments import Clock
from windowkit.language.windows.base import Assembly, Window

__all__ = ["Add", "ContextAware", "ContextFree", "Custom", "Definition", "Remove", "Shift", "custom"]

PIECE = 65_536
"""Rows that a context-aware window is notified of at a time, at most."""

LEAST, MOST = 1_000_000, 50_000_000
"""Windows that a call of a definition may return, whatever limit its query has: more than a few, as windows
without rows are among them, and no more than memory holds."""


class ContextFree(ABC):
    """Base of windows whose edges depend on the time alone, as those of business days do.

    A subclass says how long a window can be, what the next edge after a time is, and which windows end within
    a stretch of time. It is called once per stretch of time that has rows, not once per row or key. Times are
    ``datetime.datetime`` for columns of timestamps (in the column's zone, if it has one), ``datetime.date``
    for dates, ``datetime.timedelta`` for durations, ``int`` for integers. It must be picklable for Spark.

    Attributes
    ----------
    longest : str, datetime.timedelta or int
        No window is longer.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> class Powers(wk.ContextFree):
    ...     '''Windows from one power of two to the next.'''
    ...
    ...     longest = 2**20
    ...
    ...     def next_edge(self, t):
    ...         return 1 if t < 1 else 1 << t.bit_length()
    ...
    ...     def windows(self, since, until):
    ...         edges = [1 << n for n in range(20)]
    ...         return [(a, b) for a, b in zip(edges, edges[1:]) if since < b <= until]
    >>> query = wk.query(by=[], time="t", windows=wk.custom(Powers()), aggs=wk.count().alias("n"))
    >>> for row in query.run(pa.table({"t": [1, 4, 5, 9]})).sort_by("n").to_pylist():
    ...     print(row)
    {'window_start': 1, 'window_end': 2, 'n': 1}
    {'window_start': 8, 'window_end': 16, 'n': 1}
    {'window_start': 4, 'window_end': 8, 'n': 2}
    """

    longest: Length

    @abstractmethod
    def next_edge(self, t: Any) -> Any:
        """Return the first start or end of a window that is after `t`."""

    @abstractmethod
    def windows(self, since: Any, until: Any) -> Iterable[tuple[Any, Any]]:
        """Return ``(start, end)`` of the windows with ``since < end <= until``.

        They may be as many as the query's `max_windows`, but a million at least, as windows without rows are
        among them, and 50 million at most; or any number if that is None. So a generator that does not end is
        refused then, or as soon as it comes to a window outside this stretch.
        """


class ContextAware(ABC):
    """Base of windows whose edges depend on rows.

    `open` creates one object per key, which is notified of the key's rows in the order of time, and then of
    arrival, many at a time. It returns the changes to the windows that it has reported so far. It must be
    picklable for Spark.

    Attributes
    ----------
    columns : tuple of str
        The columns it reads besides the time.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> class Threshold(wk.ContextAware):
    ...     '''Windows from the first row with v > 10 to the next with v < 5.'''
    ...
    ...     columns = ("v",)
    ...
    ...     def open(self):
    ...         return Opened()
    >>> class Opened:
    ...     began = None
    ...
    ...     def notify(self, first, times, v):
    ...         for row, value in enumerate(v.to_pylist(), first):
    ...             if self.began is None and value > 10:
    ...                 self.began = row
    ...             elif self.began is not None and value < 5:
    ...                 yield wk.Add(self.began, row + 1)
    ...                 self.began = None
    ...
    ...     def finish(self, rows):
    ...         return [] if self.began is None else [wk.Add(self.began, rows)]
    >>> table = pa.table({"t": [1, 2, 3, 4, 5, 6], "v": [1, 11, 7, 4, 3, 12]})
    >>> query = wk.query(by=[], time="t", windows=wk.custom(Threshold()), aggs=wk.sum("v"))
    >>> query.run(table).sort_by("sum(v)").to_pylist()
    [{'window_start': 6, 'window_end': 6, 'sum(v)': 12}, {'window_start': 2, 'window_end': 4, 'sum(v)': 22}]
    """

    columns: tuple[str, ...] = ()

    @abstractmethod
    def open(self) -> Any:
        """Return an object for one key, not shared with others, with two methods.

        ``notify(first, times, *columns)`` gets the rank of the first of some rows, their times and the
        columns in `columns`, as pyarrow arrays, and returns an iterable of `Add`, `Remove` and `Shift`.
        ``finish(rows)`` gets the number of rows of the key, once there are no more, and returns the last such
        changes. A call may return as many changes as `ContextFree.windows` may return windows.

        In a stream the object is shown each row once, while rows come in order. When a row comes late, an
        earlier pickled copy of the object is shown the rows from there on; without a copy, a new object is
        shown all rows.
        """


Definition = ContextFree | ContextAware


@dataclass(frozen=True)
class Add:
    """A new window of rows: ranks ``[start, end)``."""

    start: int
    end: int


@dataclass(frozen=True)
class Remove:
    """A window that was reported before and is withdrawn: ranks ``[start, end)``."""

    start: int
    end: int


@dataclass(frozen=True)
class Shift:
    """A window that was reported before, with other edges.

    Parameters
    ----------
    start, end : int
        The ranks it had.
    to : tuple of int
        The ranks ``(start, end)`` it has.
    """

    start: int
    end: int
    to: tuple[int, int]


@dataclass(frozen=True, repr=False)
class Custom(Window):
    """User-defined windows; see `custom`."""

    kind: ClassVar[str] = "custom"
    implementation: Definition

    def __post_init__(self) -> None:
        if not isinstance(self.implementation, ContextFree | ContextAware):
            raise InvalidType(
                f"definition: {as_given(self.implementation)} is {a_type(self.implementation)}; it is "
                "an object of a subclass of windowkit.ContextFree or windowkit.ContextAware"
            )
        for column in self.columns:
            checked_name("columns", column)

    def arguments(self) -> Iterable[str]:
        """Return the name of the definition's class."""
        return [type(self.implementation).__name__]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; defined by code of your own"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "range"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the definition reads."""
        if isinstance(self.implementation, ContextFree):
            return ()
        columns: Any = self.implementation.columns
        if isinstance(columns, str) or not isinstance(columns, Sequence):
            raise InvalidType(f"columns: {as_given(columns)} is {a_type(columns)}; columns is a tuple of str")
        return tuple(columns)

    @property
    def longest(self) -> Measure | None:
        """The greatest length of a window, where only a user's definition says it."""
        given = getattr(self.implementation, "longest", None)
        return None if given is None else length("longest", given)

    @property
    def is_user_defined(self) -> bool:
        """Whether a user's code defines it."""
        return True

    @property
    def revises_itself(self) -> bool:
        """Whether a window that was emitted may change though no row was late."""
        return isinstance(self.implementation, ContextAware)

    def bound(self, times: TimeColumn, max_windows: int | None) -> Edges | Aware:
        """Return what the core calls, for a time column of this kind."""
        most = None if max_windows is None else min(max(max_windows, LEAST), MOST)
        if isinstance(self.implementation, ContextAware):
            return Aware(self.implementation, most)
        try:
            return Edges(self.implementation, Clock(times.kind, times.unit, times.zone), most)
        except (InvalidType, InvalidValue) as error:
            raise type(error)(f"{self.name}: {error}") from None

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows: if its edges depend on the time alone."""
        return isinstance(self.implementation, ContextFree)


def custom(definition: Definition) -> Custom:
    """User-defined windows.

    Parameters
    ----------
    definition : ContextFree or ContextAware
        An object of your subclass of one of these.

    Returns
    -------
    Custom
        Its default name is ``custom(<class>)``; it has no text form that `parse` could read. In a batch, rows
        are stored until all have arrived (Traub et al. 2019, §5.4.2). In a stream, they are for a
        `ContextAware`; a `ContextFree` is asked for the windows near a row when the row comes, and slices
        are cut there. What your code raises when a query runs, or what it returns that is not a window,
        raises `windowkit.InvalidValue` with the window's name, the exception as its cause.

    Raises
    ------
    InvalidType
        `definition` is something else.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> class FirstOfTen(wk.ContextFree):
    ...     '''The first three units of every ten.'''
    ...
    ...     longest = 3
    ...
    ...     def next_edge(self, t):
    ...         return t - t % 10 + (3 if t % 10 < 3 else 10)
    ...
    ...     def windows(self, since, until):
    ...         return [(end - 3, end) for end in range(since + 1, until + 1) if end % 10 == 3]
    >>> query = wk.query(by=[], time="t", windows=wk.custom(FirstOfTen()), aggs=wk.count().alias("n"))
    >>> query.run(pa.table({"t": [0, 2, 5, 12]})).sort_by([("n", "descending")]).to_pylist()
    [{'window_start': 0, 'window_end': 3, 'n': 2}, {'window_start': 10, 'window_end': 13, 'n': 1}]
    """
    return Custom(definition)


class TimeColumn(Protocol):
    """A time column, as the core describes it to `Custom.bound`: what `Clock` takes."""

    @property
    def kind(self) -> str: ...
    @property
    def unit(self) -> int | None: ...
    @property
    def zone(self) -> str | None: ...


class Edges:
    """A `ContextFree` in units of the time column."""

    def __init__(self, implementation: ContextFree, clock: Clock, most: int | None) -> None:
        self.implementation, self.clock, self.most = implementation, clock, most
        longest = length("longest", getattr(implementation, "longest", None))  # type: ignore[arg-type]
        self.longest = clock.length("longest", longest)

    def next_edge(self, t: int) -> int:
        """Return the next edge."""
        return self.clock.read("next_edge", self.implementation.next_edge(self.clock.value(t)))

    def windows(self, since: int, until: int) -> bytes:
        """Return the windows that end in a stretch: start and end, start and end, and so on."""
        clock = self.clock
        found = array("q")
        given = self.implementation.windows(clock.value(since), clock.value(until))
        for window in at_most(self.most, given, "windows"):
            try:
                start, end = window
            except (TypeError, ValueError):
                raise InvalidValue(
                    f"windows: {as_given(window)} is not a window; a window is (start, end)"
                ) from None
            first, after = clock.read("windows", start), clock.read("windows", end)
            found.extend((first, after))
            if not since < after <= until:
                # The core refuses it, however many others there would be.
                break
        return found.tobytes()


class Aware:
    """A `ContextAware` whose answers become ranges of rows."""

    longest = None

    def __init__(self, implementation: ContextAware, most: int | None) -> None:
        self.implementation, self.most = implementation, most
        # Here rather than in the core, as it may refer to what calls the core. By identity, as Python clears
        # weak references before it calls a `__del__` that may still close the operator.
        self.opened: dict[int, tuple[Any, ref[Key]]] = {}

    def windows_of(self, times: pa.Array, columns: list[pa.Array], ended: bool) -> tuple[pa.Array, pa.Array]:
        """Return first ranks, and ranks after the last, of a key's windows."""
        opened = self.implementation.open()
        reported: dict[tuple[int, int], None] = {}
        rows = len(times)
        for first in range(0, rows, PIECE):
            piece = [each.slice(first, PIECE) for each in (times, *columns)]
            reached = first + len(piece[0])
            apply(reported, iterated(opened.notify(first, *piece), "notify", self.most), reached, "notify")
        if ended:
            apply(reported, iterated(opened.finish(rows), "finish", self.most), rows, "finish")
        lo, hi = zip(*reported, strict=True) if reported else ((), ())
        return pa.array(lo, pa.int64()), pa.array(hi, pa.int64())

    def open(self) -> Key | None:
        """Open what a stream shows a key's rows to, once each; None if keys share what is opened."""
        opened = self.implementation.open()
        return None if opened is self.implementation else self.kept(opened)

    def restored(self, saved: bytes) -> Key:
        """Open what `saved` returned."""
        return self.kept(pickle.loads(saved))

    def kept(self, opened: Any) -> Key:
        """Keep what was opened as long as the core has the key that is returned."""
        key = Key()
        # It is dropped by C alone: Python code would be where signal handlers may raise, and be ignored.
        self.opened[id(key)] = opened, ref(key, partial(self.opened.pop, id(key)))
        return key

    def of_key(self, key: Key) -> Any:
        """Return what is kept for a key."""
        return self.opened[id(key)][0]

    def notify(self, key: Key, first: int, times: pa.Array, columns: list[pa.Array]) -> list[Edit]:
        """Show the rows after those shown so far."""
        changes = iterated(self.of_key(key).notify(first, times, *columns), "notify", self.most)
        return [edit(change, first + len(times), "notify") for change in changes]

    def finish(self, key: Key, rows: int) -> list[Edit]:
        """Signal that there are no more rows."""
        changes = iterated(self.of_key(key).finish(rows), "finish", self.most)
        return [edit(change, rows, "finish") for change in changes]

    def saved(self, key: Key) -> bytes | None:
        """Return the state of what was opened, unless it cannot be pickled."""
        try:
            return pickle.dumps(self.of_key(key), pickle.HIGHEST_PROTOCOL)
        except (pickle.PicklingError, TypeError, AttributeError, NotImplementedError):
            return None


class Key:
    """By which the core finds what a definition opened, until it drops this."""

    __slots__ = ("__weakref__",)


Edit = tuple[tuple[int, int] | None, tuple[int, int] | None]
"""A change: the window that was removed, and the one that was added."""


def at_most(most: int | None, returned: Iterable[Any], what: str) -> Iterator[Any]:
    """Yield what a definition returned; more than so many are refused, since there may be no end to them."""
    for number, each in enumerate(returned):
        if number == most:
            raise InvalidValue(
                f"max_windows: {what} returned {most:,} windows or changes and goes on, perhaps without end; "
                f"allowed in a call are the query's max_windows, but {LEAST:,} at least, as windows without "
                f"rows are among them, and {MOST:,} at most; with max_windows=None any number"
            )
        yield each


def iterated(changes: Any, what: str, most: int | None) -> Iterable[Any]:
    if not isinstance(changes, Iterable):
        raise InvalidType(
            f"{what}: it returned {as_given(changes)}; it returns an iterable of Add, Remove and Shift"
        )
    return at_most(most, changes, what)


def edit(change: Any, rows: int, what: str) -> Edit:
    """Return a change as ranks; no window ends after the `rows` rows that were shown."""
    if isinstance(change, Add):
        return None, checked_range(change.start, change.end, rows, what)
    if isinstance(change, Remove):
        return checked_range(change.start, change.end, rows, what), None
    if isinstance(change, Shift):
        gone = checked_range(change.start, change.end, rows, what)
        return gone, checked_range(*change.to, rows, what)
    raise InvalidType(
        f"{what}: it returned {as_given(change)}; it returns an iterable of Add, Remove and Shift"
    )


def apply(reported: dict[tuple[int, int], None], changes: Iterable[Any], rows: int, what: str) -> None:
    """Change the windows reported so far; none ends after the `rows` rows that were shown."""
    for change in changes:
        gone, new = edit(change, rows, what)
        if gone is not None:
            if gone not in reported:
                raise InvalidValue(
                    f"{what}: {as_given(change)} refers to a window that was not reported before"
                )
            del reported[gone]
        if new is not None:
            reported[new] = None


def checked_range(start: int, end: int, rows: int, what: str) -> tuple[int, int]:
    for rank in (start, end):
        if isinstance(rank, bool) or not hasattr(rank, "__index__"):
            raise InvalidType(f"{what}: rank {as_given(rank)} is {a_type(rank)}; a rank is an int")
    if not 0 <= start < end <= rows:
        raise InvalidValue(
            f"{what}: [{as_given(start)}, {as_given(end)}) is not a range of the {rows} rows shown so far; a "
            "window has at least one row"
        )
    return int(start), int(end)
