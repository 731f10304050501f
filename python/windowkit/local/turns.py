"""Calls of an operator, or of a reader, take turns: one at a time, in whichever threads, also after a fork.

A call waits until that of another thread has ended. It is refused where it would wait for ever: within a call
of the same operator or reader, for a call that itself waits for one of this thread, and for one of a thread
that a fork has left behind. A thread that helps with a call is within it, too, as it may run its functions.
So what counts is not the thread but the work: each helper does a part of the work of the call.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Final, TypeVar

from windowkit import _native
from windowkit.errors import InvalidValue

__all__ = ["Turns"]

T = TypeVar("T")


class Turns:
    """Let the calls of one operator or reader take turns.

    Parameters
    ----------
    what : str
        What is called, for errors.
    again : str
        What to do where a fork has lost it, for errors.
    """

    live: Final[weakref.WeakSet[Turns]] = weakref.WeakSet()
    entered: Final[dict[int, tuple[Turns, tuple[int, ...]]]] = {}
    """By its number, whom a work called last, and waits for or is in; and of what it is a part."""

    def __init__(self, what: str, again: str) -> None:
        self._what = what
        self._again = again
        self._queue = threading.Lock()
        # Whose call is under way.
        self._caller = 0
        # Whether this process was forked from one that was within a call.
        self._lost = False
        Turns.live.add(self)

    def take(self, call: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, during which no other call is made.

        Raises
        ------
        InvalidValue
            A function that the call runs, or a signal handler, makes this call; or another thread is within a
            call that waits for one of this thread; or this process was forked while another thread made one.
        """
        with _native.Call():
            return self._take(call, work)

    def _take(self, call: str, work: Callable[[], T]) -> T:
        """Return the result of `work`, within a call."""
        works = _native.work()
        this = works[0]
        try:
            # Before it looks at others: of threads that wait for each other, the last one sees the rest.
            Turns.entered[this] = (self, works)
            if self._caller:
                self._refuse_deadlock(call, works)
            if self._lost:
                raise InvalidValue(
                    f"{call}: another thread was calling the {self._what} when this process was forked from "
                    f"its own; {self._again}, or fork while no call is running"
                )
            with self._queue:
                try:
                    self._caller = this
                    return work()
                finally:
                    self._caller = 0
        finally:
            Turns.entered.pop(this, None)

    def _refuse_deadlock(self, call: str, works: tuple[int, ...]) -> None:
        """Refuse to wait for a call that is waiting, itself or by others, for one of these works."""
        # A call that was interrupted at its end may have left its number behind.
        if self._queue.locked() and self._caller in works:
            raise InvalidValue(
                f"{call}: the {self._what} was called by a function that it was itself calling; it runs one "
                "call at a time, so user-defined functions and windows must not use it"
            )
        # A thread that waits stays where it is, so what is read of those that wait for each other is true,
        # again, too. What is read of others, which go on meanwhile, need not hold at one time.
        if self._waits_for(works) and self._waits_for(works):
            raise InvalidValue(
                f"{call}: the {self._what} is within a call of another thread, which waits for a call of "
                "this thread to end, so neither would ever end; user-defined functions and windows must not "
                "use operators and readers that use theirs"
            )

    def _waits_for(self, works: tuple[int, ...]) -> bool:
        """Tell whether the call that is under way waits for one of these works."""
        waited = [self]
        for turns in waited:
            caller = turns._caller
            if not turns._queue.locked():
                continue
            if caller in works:
                return True
            # What the caller waits for, or a part of its work; one that is within its last call does not.
            for after, others in [*Turns.entered.values()]:
                if caller in others and after._caller != others[0] and after not in waited:
                    waited.append(after)
        return False

    def forked(self, works: tuple[int, ...]) -> None:
        """Note that this is another process now, in which only the thread that forked goes on."""
        self._queue = threading.Lock()
        self._lost = self._caller != 0 and self._caller not in works


def forked() -> None:
    works = _native.work()
    for work in [*Turns.entered]:
        if work not in works:
            del Turns.entered[work]
    for turns in Turns.live:
        turns.forked(works)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)
