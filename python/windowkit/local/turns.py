"""Calls of an operator take turns: one at a time, whichever threads make them, also after a fork.

A call waits until that of another thread has ended. It is refused where it would wait for ever: within a call
of the same operator, for a call that itself waits for one of this thread, and for one of a thread that a fork
has left behind.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final, TypeVar

from windowkit.errors import InvalidValue

__all__ = ["Turns"]

RECURSIVE: Final = (
    "the operator was called by a function that it was itself calling; an operator runs one call at a time, "
    "so user-defined functions and windows must not use it"
)
DEADLOCK: Final = (
    "the operator is within a call of another thread, which waits for a call of this thread to end, so "
    "neither would ever end; user-defined functions and windows must not use operators that use theirs"
)
FORKED: Final = (
    "another thread was calling the operator when this process was forked from its own; restore it from a "
    "snapshot, or fork while no call is running"
)

T = TypeVar("T")


class Turns:
    """Let the calls of one operator take turns."""

    live: Final[weakref.WeakSet[Turns]] = weakref.WeakSet()
    entered: Final[dict[int, Turns]] = {}
    """By thread, those of the operator that it called last: it waits for that call, or is within it."""

    def __init__(self) -> None:
        self._queue = threading.Lock()
        # The thread of the call that is under way.
        self._caller = 0
        # Whether this process was forked from one that was within a call.
        self._lost = False
        Turns.live.add(self)

    def take(self, call: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, during which no other call is made.

        Raises
        ------
        InvalidValue
            A function that the operator calls, or a signal handler, makes this call; or another thread is
            within a call that waits for one of this thread; or this process was forked while another thread
            made one.
        """
        this = threading.get_ident()
        try:
            # Before it looks at others: of threads that wait for each other, the last one sees the rest.
            Turns.entered[this] = self
            if self._caller:
                self._refuse_deadlock(call, this)
            if self._lost:
                raise InvalidValue(f"{call}: {FORKED}")
            with self._queue:
                try:
                    self._caller = this
                    return work()
                finally:
                    self._caller = 0
        finally:
            Turns.entered.pop(this, None)

    def _refuse_deadlock(self, call: str, this: int) -> None:
        """Refuse to wait for a call that is waiting, itself or by others, for one of this thread.

        A thread that waits stays where it is, so what is read of those that wait for each other is true.
        """
        waited: Turns | None = self
        while waited is not None and waited._queue.locked():
            caller = waited._caller
            if caller == this:
                raise InvalidValue(f"{call}: {RECURSIVE if waited is self else DEADLOCK}")
            after = Turns.entered.get(caller)
            # It runs in the last operator that it called, or waits for it.
            waited = None if after is None or after._caller == caller else after

    def forked(self) -> None:
        """Note that this is another process now, in which only the thread that forked goes on."""
        self._queue = threading.Lock()
        self._lost = self._caller not in (0, threading.get_ident())


def forked() -> None:
    this = threading.get_ident()
    for thread in [*Turns.entered]:
        if thread != this:
            del Turns.entered[thread]
    for turns in Turns.live:
        turns.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
