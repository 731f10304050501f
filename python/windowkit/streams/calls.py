"""Calls of an operator, one at a time, each of which takes effect if, and only if, its result is delivered.

A signal such as Ctrl-C may raise an exception after the core has taken rows in, and before the windows that
it computed reach the caller. So the core only attempts what a call asks for. The next call commits the
attempt or, if its result was not delivered, rolls it back.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.reading import Expected
from windowkit.errors import InvalidValue
from windowkit.language.durations import Duration
from windowkit.language.expressions import Expression
from windowkit.language.query import Query

__all__ = ["Calls", "Core", "Known", "State", "has_clock", "released"]

T = TypeVar("T")


class Core(Protocol):
    """What makes the calls of an operator: each attempts a step, which the next one commits."""

    def begin(self) -> None:
        """Begin a call."""

    def roll_back(self) -> None:
        """Roll back what the call before attempted."""


class Known(Protocol):
    """What an operator knows of itself; a call replaces it as a whole."""

    @property
    def core(self) -> Core | None:
        """What makes calls, if that is there yet, or still."""

    @property
    def closed(self) -> bool:
        """Whether the streams have ended."""

    @property
    def released(self) -> bool:
        """Whether the block of its `with` has ended."""

    def rolled_back(self: S) -> S:
        """Roll back what the call before attempted, and return what is known then."""


S = TypeVar("S", bound=Known)


@dataclass(frozen=True)
class State:
    """What an operator knows of itself; a call replaces it as a whole."""

    queries: Mapping[str, Query]
    """By name, in the order they were added."""
    lateness: Mapping[str, Duration | int | None] = field(default_factory=lambda: MappingProxyType({}))
    """Of the same queries, where it is not the operator's."""
    added: int = 0
    """How many were, including those removed."""
    schema: pa.Schema | None = None
    """That of rows, known from the first batch on."""
    core: _native.Operator | None = None
    closed: bool = False
    released: bool = False
    """Whether the block of its `with` has ended; the core is gone then."""
    expressions: tuple[Expression, ...] = ()
    """The columns that are computed of each batch, also of queries that were removed."""

    @cached_property
    def has_clock(self) -> bool:
        """Whether an emission policy depends on the clock."""
        return any(has_clock(query) for query in self.queries.values())

    @cached_property
    def expected(self) -> tuple[_native.Operator, Expected] | None:
        """The core, and what is expected of rows; None where there is no core, or columns are computed."""
        if self.core is None or self.schema is None or self.expressions:
            return None
        return self.core, Expected(self.schema)

    def rolled_back(self) -> State:
        """Roll back what the call before attempted."""
        core = self.core
        if core is None:
            return self
        core.roll_back()
        # Queries come and go at once: a call that was interrupted then is ahead of the state.
        names = core.names()
        for name in set(names) - set(self.queries):
            core.remove(name)
        return self.only(set(names))

    def only(self, names: set[str]) -> State:
        """Return the state with these queries."""
        left = {name: query for name, query in self.queries.items() if name in names}
        lateness = {name: own for name, own in self.lateness.items() if name in names}
        return replace(self, queries=MappingProxyType(left), lateness=MappingProxyType(lateness))


def released(call: str) -> InvalidValue:
    """Return what is raised for a call after the block of `with`."""
    return InvalidValue(
        f"{call}: the operator was released where its with block ended; call it within the block"
    )


def has_clock(query: Query) -> bool:
    """Whether a query's emission policy depends on the clock."""
    return query.emit is not None and query.emit.has_clock


class Calls(Generic[S]):
    """Make the calls of an operator."""

    live: Final[weakref.WeakSet[Calls[Any]]] = weakref.WeakSet()

    def __init__(self, state: S) -> None:
        self.state = state
        self._queue = threading.Lock()
        # The thread of the call that is under way.
        self._caller = 0
        self._delivered = True
        # Whether this process was forked from one that was within a call.
        self._lost = False
        Calls.live.add(self)

    def make(self, call: str, work: Callable[[S], tuple[S, T]], *, closed: bool = False) -> T:
        """Return the result of `work`, which gets the state and returns the one that follows.

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
            The operator is closed or released, or a function that it calls, or a signal handler, calls it; or
            this process was forked while another thread called it.
        """
        this = threading.get_ident()
        if self._caller == this:
            raise InvalidValue(
                f"{call}: the operator was called by a function that it was itself calling; an operator runs "
                "one call at a time, so user-defined functions and windows must not use it"
            )
        if self._lost:
            raise InvalidValue(
                f"{call}: another thread was calling the operator when this process was forked from its own; "
                "restore it from a snapshot, or fork while no call is running"
            )
        try:
            with self._queue:
                while self._caller:
                    # The call before is about to return.
                    time.sleep(0)
                self._caller = this
                self._settle()
                self._delivered = False
                if self.state.released:
                    raise released(call)
                if self.state.closed and not closed:
                    raise InvalidValue(f"{call}: the operator is closed; no call may follow close()")
                following, result = work(self.state)
        except BaseException:
            if self._caller == this:
                self._caller = 0
            raise
        # From here on nothing is called, so that Python neither handles signals nor switches threads before
        # the caller has the result.
        self.state = following
        self._delivered = True
        self._caller = 0
        return result

    def forked(self) -> None:
        """Note that this is another process now, in which only the thread that forked goes on."""
        self._queue = threading.Lock()
        self._lost = self._caller not in (0, threading.get_ident())

    def _settle(self) -> None:
        """Roll back what the call before attempted, unless it was delivered: the core commits it then."""
        core = self.state.core
        if core is None:
            return
        if not self._delivered:
            self.state = self.state.rolled_back()
        core.begin()


def forked() -> None:
    for calls in Calls.live:
        calls.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
