"""What operators without queries have in common: calls that take effect if their results are delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import pyarrow as pa

from windowkit.errors import InvalidType
from windowkit.language.checks import a_type
from windowkit.streams.calls import Calls, Core, released

__all__ = ["State", "Stepped", "snapshot_bytes", "time_type"]


class Stepping(Core, Protocol):
    """What attempts the steps of such an operator."""

    @property
    def is_closed(self) -> bool:
        """Whether the stream has ended."""

    def close(self) -> Any:
        """End the stream."""


T = TypeVar("T")
C = TypeVar("C", bound=Stepping)


@dataclass(frozen=True)
class State(Generic[C]):
    """What an operator knows of itself."""

    core: C | None
    closed: bool = False
    released: bool = False

    def rolled_back(self) -> State[C]:
        """Roll back what the call before attempted."""
        if self.core is not None:
            self.core.roll_back()
        return self


class Stepped(Generic[C]):
    """An operator that makes one call at a time, which is attempted, and committed by the next one."""

    def _hold(self, core: C) -> None:
        self._calls = Calls(State(core, closed=core.is_closed))

    def __exit__(self, *raised: object) -> None:
        """Let go of all that the operator holds; no call may follow."""

        def release(state: State[C]) -> tuple[State[C], None]:
            return replace(state, core=None, closed=True, released=True), None

        self._calls.make("with", release, closed=True)

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise InvalidType(
            "operator: it can be neither copied nor pickled; its snapshot() can, and "
            f"{type(self).__name__}.restore makes another operator of it"
        )

    @property
    def _ended(self) -> str:
        """How the operator has ended, for its representation."""
        state = self._calls.state
        return ", released" if state.released else ", closed" if state.closed else ""

    def _step(self, call: str, step: Callable[[C], Any], *, closed: bool = False) -> pa.Table:
        """Return the rows that a step of the core returns."""
        return self._calls.make(call, lambda state: (state, table(step(there(call, state)))), closed=closed)

    def _close(self) -> pa.Table:
        def close(state: State[C]) -> tuple[State[C], pa.Table]:
            rest = table(there("close", state).close())
            return replace(state, closed=True), rest

        return self._calls.make("close", close)

    def _ask(self, call: str, work: Callable[[C], T]) -> T:
        """Return what the core says, also once the stream has ended."""
        return self._calls.make(call, lambda state: (state, work(there(call, state))), closed=True)


def there(call: str, state: State[C]) -> C:
    """Return the core, unless the operator was released."""
    if state.core is None:
        raise released(call)
    return state.core


def table(stream: Any) -> pa.Table:
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
