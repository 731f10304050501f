"""What an operator knows of itself, how many of its calls have taken effect, and what the last one returned.

The core commits a call, or rolls it back, before it hands the result over. A signal such as Ctrl-C may raise
an exception between that and the assignment of the result by the caller. So the core counts the calls that
have taken effect, and keeps the last result. What Python knows of an operator follows that count: it is
prepared before the core is called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.local.turns import Turns

__all__ = ["Called", "Calls", "Core", "Returned", "State", "released", "table"]

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
class Returned:
    """What a call returned that has taken effect."""

    result: Any
    calls: int
    """How many calls had taken effect then, with that one."""


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
    returned: Returned | None = None
    """The result of the last call whose result the core does not keep."""

    @property
    def calls(self) -> int:
        """How many calls have taken effect."""
        return self.made + (0 if self.core is None else self.core.calls)


S = TypeVar("S", bound=State[Any])


class Calls(Generic[S]):
    """Make the calls of an operator."""

    def __init__(self, state: S) -> None:
        self._turns = Turns("operator", "restore it from a snapshot")
        self._state = state
        # What is known once the core has counted more calls than these.
        self._prepared: tuple[S, int] | None = None

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

    def make(
        self, call: str, work: Callable[[S], T], *, closed: bool = False, is_released: bool = False
    ) -> T:
        """Return the result of `work`, which gets the state.

        Parameters
        ----------
        call : str
            Its name, for errors.
        work : callable
        closed, is_released : bool
            Whether it may be made once the operator is closed, and once it is released.

        Raises
        ------
        InvalidValue
            The operator is closed or released, or as `Turns.take`.
        """

        def made() -> T:
            self._state = state = self.state
            self._prepared = None
            if state.released and not is_released:
                raise released(call)
            if state.closed and not closed:
                raise InvalidValue(f"{call}: the operator is closed; no call may follow close()")
            return work(state)

        return self._turns.take(call, made)


class Called(Generic[S]):
    """An operator, whose calls are made one at a time."""

    _calls: Calls[S]

    def __exit__(self, *raised: object) -> None:
        """Let go of all that the operator holds but the last result; no call may follow.

        This does not end the stream: `close` does, and returns what is left.
        """

        def release(state: S) -> None:
            last = self._returned(state)
            self._calls.replace(
                replace(state, core=None, closed=True, released=True, made=state.calls, returned=last)
            )

        self._calls.make("with", release, closed=True, is_released=True)

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

    def _last(self) -> Any:
        """Return the result of the last call that has taken effect."""

        def last(state: S) -> Any:
            returned = self._returned(state)
            if returned is None:
                raise InvalidValue("last: no call of this operator has returned rows yet")
            return returned.result

        return self._calls.make("last", last, closed=True, is_released=True)

    def _returned(self, state: S) -> Returned | None:
        """Return what the last call returned, unless none was made since the operator was restored."""
        own, core = state.returned, state.core
        if core is None or (own is not None and own.calls == state.calls):
            return own
        last = core.last()
        if last is None:
            return None
        rows, are_late = last
        return Returned(self._shown(state, table(rows), are_late), state.calls)

    def _shown(self, state: S, rows: pa.Table, are_late: bool) -> pa.Table:
        """Return rows of the core as calls return them."""
        return rows


def released(call: str) -> InvalidValue:
    """Return what is raised for a call after the block of `with`."""
    return InvalidValue(
        f"{call}: the operator was released where its with block ended; call it within the block"
    )


def table(stream: Any) -> pa.Table:
    """Return the rows of the core as a table."""
    return pa.RecordBatchReader.from_stream(stream).read_all()
