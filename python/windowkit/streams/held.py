"""An operator without queries, of a join or of distinct rows: it has its core from the start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from windowkit.streams.calls import Called, Calls, Core, State, released, table

__all__ = ["Held"]

T = TypeVar("T")
C = TypeVar("C", bound=Core)


class Held(Called[State[C]]):
    """An operator without queries."""

    def _hold(self, core: C) -> None:
        self._calls = Calls(State(core, closed=core.is_closed))

    def last(self) -> pa.Table:
        """Return the result of the last call that took effect once more; see `windowkit.Operator.last`."""
        return self._last()

    def _step(self, call: str, step: Callable[[C], Any], *, are_late: bool = False) -> pa.Table:
        """Return the rows that a step of the core returns; late ones also once the stream has ended."""

        def made(state: State[C]) -> pa.Table:
            return self._shown(state, table(step(there(call, state))), are_late)

        return self._calls.make(call, made, closed=are_late)

    def _close(self) -> pa.Table:
        def close(state: State[C]) -> pa.Table:
            self._calls.prepare(replace(state, closed=True))
            return self._shown(state, table(there("close", state).close()), False)

        return self._calls.make("close", close)

    def _ask(self, call: str, work: Callable[[C], T]) -> T:
        """Return what the core says, also once the stream has ended."""
        return self._calls.make(call, lambda state: work(there(call, state)), closed=True)


def there(call: str, state: State[C]) -> C:
    """Return the core, unless the operator was released."""
    if state.core is None:
        raise released(call)
    return state.core
