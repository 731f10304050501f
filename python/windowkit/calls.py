"""Calls of an operator, one at a time, each of which takes effect if, and only if, its result is delivered.

A signal such as Ctrl-C may raise an exception after the core has taken rows in, and before the windows that
it computed reach the caller. So the core only attempts what a call asks for. The next call says whether the
result was delivered, and the core then commits the attempt, or rolls it back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.query import Query

__all__ = ["Calls", "State"]

T = TypeVar("T")


@dataclass(frozen=True)
class State:
    """What an operator knows of itself; a call replaces it as a whole."""

    queries: Mapping[str, Query]
    """By name, in the order they were added."""
    added: int = 0
    """How many were, including those removed."""
    schema: pa.Schema | None = None
    """That of rows, known from the first batch on."""
    core: _native.Operator | None = None
    closed: bool = False

    def only(self, names: set[str]) -> State:
        """Return the state with these queries."""
        left = {name: query for name, query in self.queries.items() if name in names}
        return replace(self, queries=MappingProxyType(left))


class Calls:
    """Make the calls of an operator."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._queue = threading.Lock()
        # The thread of the call that is under way.
        self._caller = 0
        self._delivered = True

    def make(self, call: str, work: Callable[[State], tuple[State, T]], *, closed: bool = False) -> T:
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
            The operator is closed, or a function that it calls, or a signal handler, calls it.
        """
        this = threading.get_ident()
        if self._caller == this:
            raise InvalidValue(
                f"{call}: the operator was called by a function that it was itself calling; an operator runs "
                "one call at a time, so user-defined functions and windows must not use it"
            )
        try:
            with self._queue:
                while self._caller:
                    # The call before is about to return.
                    time.sleep(0)
                self._caller = this
                self._settle()
                self._delivered = False
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

    def _settle(self) -> None:
        """Commit or roll back what the call before attempted."""
        core = self.state.core
        if core is None:
            return
        core.settle(self._delivered)
        if not self._delivered:
            # Queries come and go at once: a call that was interrupted then is ahead of the state.
            names = core.names()
            for name in set(names) - set(self.state.queries):
                core.remove(name)
            self.state = self.state.only(set(names))
