"""What goes wrong in calls: signals, and user-defined functions and readers of rows that raise."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from random import Random
from typing import Any, TypeVar

import windowkit as wk
from support.failing import FAILURE, InjectedError

T = TypeVar("T")

INTERRUPTED = "  interrupted"
FAILED = "  failed"
"""What lines about disturbances begin with; a seed does not determine them, as signals take their time."""

INTERRUPTS = sys.version_info >= (3, 11)
"""CPython 3.10 handles signals between any two steps, also while it leaves the lock of calls."""
UNLIKE = ("bytes", "keys", "late_bytes", "slices", "merges")
"""What a call that failed, or a restart, may change of the statistics: what memory is held for.

A query that was added and removed may leave slices cut in two, and rows of a call that failed may have
divided an engine: windows that shared slices then have slices of their own, some of which were merged for it.
"""


def assert_like(stats: Any, before: Any) -> None:
    """Assert that an operator is as it was."""
    unlike = {field.name: 0 for field in fields(before) if field.name in UNLIKE}
    assert replace(stats, **unlike) == replace(before, **unlike)


class Alarm:
    """Interrupts within calls, and nowhere else."""

    armed = False

    def __call__(self, number: int, frame: object) -> None:
        if self.armed:
            raise KeyboardInterrupt

    def interrupt(self, call: Callable[[], T], after: float) -> T:
        """Return the result of a call, unless it is interrupted after some seconds."""
        # What is raised within a callback of the garbage collector is not raised by the call.
        gc.disable()
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            self.armed = True
            result = call()
            # The call has returned, and what follows may be interrupted, too.
            result = [result][0]
            self.armed = False
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.enable()
        return result

    @contextmanager
    def handling(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)


class Disturbances:
    """What goes wrong in a step: seeded for each, as nothing determines how often a call is interrupted."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.random, self.alarm, self.log = Random(), Alarm(), log

    def surely(
        self, op: Any, noted: Callable[[], Callable[[], None]], call: Callable[[], T], last: Callable[[], T]
    ) -> T:
        """Make a call until it has taken effect, and return its result, by `last` if an interrupt took it.

        Whenever it has not, the operator is as it was noted.
        """
        for _ in range(100):
            how = self.random.random()
            assert_same, before = noted(), op.calls
            try:
                if how < 0.1:
                    FAILURE.left = self.random.choice([0, 1, 2, 3, 5, 8, 13, 30])
                    return call()
                if how < 0.2 and INTERRUPTS:
                    return self.alarm.interrupt(
                        call, self.random.choice([1e-6, self.random.uniform(1e-6, 2e-3)])
                    )
                return call()
            except KeyboardInterrupt:
                taken = op.calls > before
                self.log(f"{INTERRUPTED}, {'after' if taken else 'before'} it had taken effect")
                if taken:
                    assert op.calls == before + 1
                    return last()
            except InjectedError:
                self.log(FAILED)
            except wk.InvalidValue as error:
                if not isinstance(error.__cause__, InjectedError):
                    raise
                self.log(FAILED)
            finally:
                FAILURE.left = None
            assert op.calls == before
            assert_same()
        raise AssertionError("what failed once fails for ever")
