"""What the command says: the lines of ``--explain`` on stdout; errors, warnings and progress on stderr.

Names and values of the data are in it, which must do nothing to a terminal.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TextIO

__all__ = ["STDERR", "leave", "occupy", "say", "saying_warnings", "show", "visible"]


class Stderr:
    """What stderr is now. A job does not fail because nobody reads what it says there."""

    def write(self, text: str) -> None:
        """Write text, if that is possible."""
        # It is None where it was closed before Python began.
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.write(encoded(sys.stderr, text))

    def flush(self) -> None:
        """Have it written."""
        if sys.stderr is not None:
            with suppress(OSError):
                sys.stderr.flush()

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return sys.stderr is not None and sys.stderr.isatty()


STDERR: Final = Stderr()


def say(line: str) -> None:
    """Write a line to stderr, as a terminal can show it."""
    STDERR.write(f"{visible(line)}\n")


@contextmanager
def saying_warnings() -> Iterator[None]:
    """Have warnings said as other messages are, without the place in the code that they come from."""

    def say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        say(f"windowkit: warning: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = say_warning
        yield


def show(*texts: str) -> None:
    """Write lines about a job to stdout, as a terminal can show them, and whatever encoding it has."""
    lines = "".join(f"{visible(line)}\n" for text in texts for line in text.split("\n"))
    sys.stdout.write(encoded(sys.stdout, lines))
    sys.stdout.flush()


def encoded(stream: TextIO, text: str) -> str:
    """Return text with escapes for what a stream has no characters for."""
    # Streams of a program that calls this one may have no encoding.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def occupy() -> None:
    """Have what is closed of stdin, stdout and stderr lead nowhere.

    The next files that are opened would have their numbers, and get what libraries and the JVM write there.
    """
    for number in range(3):
        if not is_open(number):
            # It gets the least number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


def is_open(number: int) -> bool:
    """Whether this is the number of an open file."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def leave(stream: TextIO | None) -> None:
    """Have what stdout or stderr does not take go nowhere: Python would write it again as it ends."""
    if stream is None:
        return
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def visible(message: str) -> str:
    r"""Return a message with escapes for what a terminal would obey instead of showing it.

    Examples
    --------
    >>> visible("there is no column '\x1b[31mé'")
    "there is no column '\\x1b[31mé'"
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in message)
