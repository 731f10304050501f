"""Calls that change an object of the core, each of which counts if, and only if, its result is delivered.

A signal such as Ctrl-C may raise an exception after the core has made a change, and before the result has
reached the caller. So the core can take back a change until a later call says that its result was delivered.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

__all__ = ["delivered"]

T = TypeVar("T")

TURNS: Final = itertools.count(1)
"""Numbers of calls: a signal handler may make one within another, of the same object."""


class Changed(Protocol):
    """An object of the core that keeps or takes back what a call did, once it is set to the call's number."""

    kept: int
    undone: int


def delivered(native: Changed, work: Callable[[int], T]) -> T:
    """Return what `work` returns, which makes a change of `native` with the number that it gets.

    If anything is raised before the caller has the result, `native` is as it was.
    """
    turn = next(TURNS)
    try:
        result = work(turn)
    except BaseException:
        native.undone = turn
        raise
    # Nothing is called from here on, so that Python handles no signals before the caller has the result.
    native.kept = turn
    return result
