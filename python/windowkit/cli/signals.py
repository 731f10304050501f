"""Signals that end the command ``windowkit``: what it has begun to write is removed first."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

__all__ = ["Ended", "cleaning_up", "held", "released"]

CRASHES: Final = ("SIGABRT", "SIGBUS", "SIGEMT", "SIGFPE", "SIGILL", "SIGSEGV", "SIGSYS", "SIGTRAP")
LIVED_THROUGH: Final = (
    *("SIGCHLD", "SIGCONT", "SIGINFO", "SIGSTOP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGWINCH"),
    *(() if sys.platform == "linux" else ("SIGIO",)),
)
"""Those that a process without handlers ignores, or that stop it until it is continued."""
ENDING: Final[tuple[int, ...]] = tuple(
    sorted(
        signal.valid_signals()
        - {getattr(signal, name, None) for name in (*CRASHES, *LIVED_THROUGH, "SIGINT", "SIGKILL")}
    )
)
"""Those that end a process, also by their numbers alone; not Ctrl-C, and not a crash, after which nothing can
be relied on."""


class Ended(BaseException):
    """A signal has come that ends the process."""


class Signals:
    """Those that have come, and whether one that comes now raises: the first does, once that is allowed."""

    def __init__(self) -> None:
        self.received: list[int] = []
        self.raises = False

    def come(self, number: int, _: FrameType | None) -> None:
        """Handle a signal."""
        self.received.append(number)
        self.look()

    def look(self) -> None:
        """Raise what the first signal raises, if one has come and that is allowed."""
        if self.received and self.raises:
            # Further ones must not cut short what follows.
            self.raises = False
            raise KeyboardInterrupt if self.received[0] == signal.SIGINT else Ended

    def allow(self, raises: bool) -> bool:
        """Set whether signals raise, which they do in the main thread alone; return whether they did."""
        before = self.raises
        if threading.current_thread() is threading.main_thread():
            self.raises = raises
            self.look()
        return before


SIGNALS: Final = Signals()


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Raise `Ended` where a signal would end the process, which it does after this block.

    Ctrl-C raises ``KeyboardInterrupt``, as elsewhere. Only the first signal raises, so that what is done
    because of it is done. A signal that is ignored, as by nohup, remains so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    others = {**dict.fromkeys(ENDING, signal.SIG_DFL), signal.SIGINT: signal.default_int_handler}
    taken = {number: other for number, other in others.items() if signal.getsignal(number) is other}
    SIGNALS.allow(True)
    for number in taken:
        signal.signal(number, SIGNALS.come)
    try:
        yield
    finally:
        SIGNALS.allow(False)
        for number, other in taken.items():
            signal.signal(number, other)
        received, SIGNALS.received = SIGNALS.received, []
        # Also where what was raised has become another exception on its way through Arrow.
        for number in received:
            if number in ENDING:
                # By the signal itself, so that whoever waits for the process sees which it was.
                os.kill(os.getpid(), number)
                # The first process of a container lives on: what it sends itself is ignored.
                sys.exit(128 + number)


@contextmanager
def held() -> Iterator[None]:
    """Let signals wait until the end of this block, but for what of it is `released`.

    What is made at its beginning is removed at its end, whenever they come.
    """
    before = SIGNALS.allow(False)
    yield
    # Not after an exception, as the command is about to end.
    SIGNALS.allow(before)


@contextmanager
def released() -> Iterator[None]:
    """Let signals raise within a block in which they wait."""
    SIGNALS.allow(True)
    try:
        yield
    finally:
        SIGNALS.allow(False)
