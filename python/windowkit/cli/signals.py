"""Signals that end the command ``windowkit``: what it has begun to write is removed first."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

__all__ = ["Ended", "cleaning_up"]

ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(BaseException):
    """A signal has come that ends the process."""


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Raise `Ended` where a signal would end the process, which it does after this block.

    A signal that is ignored, as by nohup, remains so.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    received: list[int] = []

    def stop(number: int, _: FrameType | None) -> NoReturn:
        received.append(number)
        # A second one must not cut short what follows.
        for each in taken:
            signal.signal(each, signal.SIG_IGN)
        raise Ended

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
        # Also where what was raised has become another exception on its way through Arrow.
        for number in received:
            # By the signal itself, so that whoever waits for the process sees which it was.
            os.kill(os.getpid(), number)
