"""Calls of an operator, one at a time; how many of them have taken effect, and what the last one returned.

The core commits a call, or rolls it back, before it hands the result over. A signal such as Ctrl-C may raise
an exception between that and the assignment of the result by the caller. So the core counts the calls that
have taken effect, and keeps the last result. What Python knows of an operator follows that count: it is
prepared before the core is called.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NoReturn, Protocol, TypeVar

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type

__all__ = [
    "Called",
    "Calls",
    "Held",
    "State",
    "last_rows",
    "released",
    "snapshot_bytes",
    "table",
    "time_type",
]

RECURSIVE: Final = (
    "the operator was called by a function that it was itself calling; an operator runs one call at a time, "
    "so user-defined functions and windows must not use it"
)
DEADLOCK: Final = (
    "the operator is within a call of another thread, which waits for a call of this thread to end, so "
    "neither would ever end; user-defined functions and windows must not use operators that use theirs"
)

T = TypeVar("T")


class Core(Protocol):
    """What makes the calls of an operator."""

    @property
    def calls(self) -> int:
        """How many calls have taken effect."""

    @property
    def is_closed(self) -> bool:
        """Whether the streams have ended."""

    def close(self) -> Any:
        """End the streams."""

    def last(self) -> tuple[Any, bool] | None:
        """Return the rows of the last call that returned some, and whether they are late ones."""


C = TypeVar("C", bound=Core)


@dataclass(frozen=True)
class State(Generic[C]):
    """What an operator knows of itself; a call replaces it as a whole."""

    core: C | None = None
    """What makes calls, if that is there yet, or still."""
    closed: bool = False
    """Whether the streams have ended."""
    released: bool = False
    """Whether the block of its `with` has ended; the core is gone then."""
    made: int = 0
    """How many calls took effect without this core."""

    @property
    def calls(self) -> int:
        """How many calls have taken effect."""
        return self.made + (0 if self.core is None else self.core.calls)


S = TypeVar("S", bound=State[Any])


class Calls(Generic[S]):
    """Make the calls of an operator."""

    live: Final[weakref.WeakSet[Calls[Any]]] = weakref.WeakSet()
    entered: Final[dict[int, Calls[Any]]] = {}
    """The operator that each thread has called last, until the call ends: it waits for it, or runs in it."""

    def __init__(self, state: S) -> None:
        self._state = state
        # What is known once the core has counted more calls than these.
        self._prepared: tuple[S, int] | None = None
        self._queue = threading.Lock()
        # The thread of the call that is under way.
        self._caller = 0
        # Whether this process was forked from one that was within a call.
        self._lost = False
        Calls.live.add(self)

    @property
    def state(self) -> S:
        """What is known of the operator."""
        prepared = self._prepared
        if prepared is None:
            return self._state
        state, before = prepared
        return state if state.calls > before else self._state

    def prepare(self, state: S) -> S:
        """Have this state follow once the core, which is about to be called, has made another call."""
        self._prepared = (state, state.calls)
        return state

    def replace(self, state: S) -> None:
        """Have this state follow at once: by this, a call that needs no core takes effect."""
        self._state = state

    def release(self) -> None:
        """Let go of the core; no call may follow."""

        def release(state: S) -> None:
            self.replace(replace(state, core=None, closed=True, released=True, made=state.calls))

        self.make("with", release, closed=True)

    def make(self, call: str, work: Callable[[S], T], *, closed: bool = False) -> T:
        """Return the result of `work`, which gets the state.

        Parameters
        ----------
        call : str
            Its name, for errors.
        work : callable
        closed : bool
            Whether it may be made once the operator is closed.

        Raises
        ------
        InvalidValue
            The operator is closed or released, or a function that it calls, or a signal handler, calls it;
            or another thread is within a call that waits for one of this thread; or this process was forked
            while another thread called it.
        """
        this = threading.get_ident()
        try:
            # Before it looks at others: of threads that wait for each other, the last one sees the rest.
            Calls.entered[this] = self
            if self._caller:
                self._refuse_deadlock(call, this)
            if self._lost:
                raise InvalidValue(
                    f"{call}: another thread was calling the operator when this process was forked from its "
                    "own; restore it from a snapshot, or fork while no call is running"
                )
            with self._queue:
                try:
                    self._caller = this
                    self._state = state = self.state
                    self._prepared = None
                    if state.released and call != "with":
                        raise released(call)
                    if state.closed and not closed:
                        raise InvalidValue(f"{call}: the operator is closed; no call may follow close()")
                    return work(state)
                finally:
                    self._caller = 0
        finally:
            Calls.entered.pop(this, None)

    def _refuse_deadlock(self, call: str, this: int) -> None:
        """Refuse to wait for a call that is waiting, itself or by others, for one of this thread.

        A thread that waits stays where it is, so what is read of those that wait for each other is true.
        """
        waited: Calls[Any] | None = self
        while waited is not None and waited._queue.locked():
            caller = waited._caller
            if caller == this:
                raise InvalidValue(f"{call}: {RECURSIVE if waited is self else DEADLOCK}")
            after = Calls.entered.get(caller)
            # It runs in the last operator that it called, or waits for it.
            waited = None if after is None or after._caller == caller else after

    def forked(self) -> None:
        """Note that this is another process now, in which only the thread that forked goes on."""
        self._queue = threading.Lock()
        self._lost = self._caller not in (0, threading.get_ident())


def forked() -> None:
    this = threading.get_ident()
    for thread in [*Calls.entered]:
        if thread != this:
            del Calls.entered[thread]
    for calls in Calls.live:
        calls.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)


class Called(Generic[S]):
    """An operator, whose calls are made one at a time."""

    _calls: Calls[S]

    def __exit__(self, *raised: object) -> None:
        """Let go of all that the operator holds; no call may follow.

        This does not end the stream: `close` does, and returns what is left.
        """
        self._calls.release()

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidType(
            "operator: it can be neither copied nor pickled; its snapshot() can, and "
            f"{type(self).__name__}.restore makes another operator of it"
        )

    @property
    def calls(self) -> int:
        """The number of calls that have taken effect, also of those whose result was lost to an interrupt.

        Calls that change nothing, such as `stats`, do not count. See `last`.
        """
        return self._calls.state.calls

    @property
    def _ended(self) -> str:
        """How the operator has ended, for its representation."""
        state = self._calls.state
        return ", released" if state.released else ", closed" if state.closed else ""


class Held(Called[State[C]]):
    """An operator without queries, which has its core from the start."""

    def _hold(self, core: C) -> None:
        self._calls = Calls(State(core, closed=core.is_closed))

    def last(self) -> pa.Table:
        """Return the result of the last call that took effect once more; see `windowkit.Operator.last`."""
        return self._ask("last", lambda core: last_rows(core)[0])

    def _step(self, call: str, step: Callable[[C], Any], *, closed: bool = False) -> pa.Table:
        """Return the rows that a step of the core returns."""
        return self._calls.make(call, lambda state: table(step(there(call, state))), closed=closed)

    def _close(self) -> pa.Table:
        def close(state: State[C]) -> pa.Table:
            self._calls.prepare(replace(state, closed=True))
            return table(there("close", state).close())

        return self._calls.make("close", close)

    def _ask(self, call: str, work: Callable[[C], T]) -> T:
        """Return what the core says, also once the stream has ended."""
        return self._calls.make(call, lambda state: work(there(call, state)), closed=True)


def released(call: str) -> InvalidValue:
    """Return what is raised for a call after the block of `with`."""
    return InvalidValue(
        f"{call}: the operator was released where its with block ended; call it within the block"
    )


def there(call: str, state: State[C]) -> C:
    """Return the core, unless the operator was released."""
    if state.core is None:
        raise released(call)
    return state.core


def last_rows(core: Core | None) -> tuple[pa.Table, bool]:
    """Return the rows that the core returned last, and whether they are late ones."""
    last = None if core is None else core.last()
    if last is None:
        raise InvalidValue("last: no call of this operator has returned rows yet")
    return table(last[0]), last[1]


def table(stream: Any) -> pa.Table:
    """Return the rows of the core as a table."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


def snapshot_bytes(snapshot: Any) -> bytes:
    """Return a snapshot as bytes."""
    if not isinstance(snapshot, bytes | bytearray | memoryview):
        raise InvalidType(f"snapshot: it is {a_type(snapshot)}; a snapshot is bytes")
    return bytes(snapshot)


def time_type(schema: pa.Schema, name: str) -> pa.DataType:
    """Return the type of the times of a column, as watermarks have it."""
    kind = schema.field(name).type
    while pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        kind = kind.value_type
    return pa.int64() if pa.types.is_integer(kind) else kind
