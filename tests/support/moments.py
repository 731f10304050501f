"""Every moment of a call at which Python may raise what a signal handler raises."""

from __future__ import annotations

import dis
import gc
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import windowkit as wk

__all__ = ["Moment", "at_each_moment"]

PACKAGE = str(Path(wk.__file__).parent)


class Moment(BaseException):
    """What is raised at a moment."""


@cache
def moments_of(code: CodeType) -> frozenset[int]:
    """Return where CPython looks at signals: as a function begins, after calls, and as loops go back."""
    found, before = set(), "RESUME"
    for instruction in dis.get_instructions(code):
        if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")):
            found.add(instruction.offset)
        before = instruction.opname
    return frozenset(found)


class Raiser:
    """Raises at one moment of windowkit's own functions, or of the function that assigns a result."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        code = frame.f_code
        if event == "call":
            if code is not assigned.__code__ and not code.co_filename.startswith(PACKAGE):
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
        elif event == "opcode" and frame.f_lasti in moments_of(code):
            self.left -= 1
            if self.left == 0:
                sys.settrace(None)
                raise Moment
        return self


def assigned(call: Callable[[], Any]) -> Any:
    """Assign what a call returns: between the two there is a moment, too."""
    result = call()
    return result  # noqa: RET504


def at_each_moment(
    subject: Callable[[], Any], call: Callable[[Any], Any]
) -> Iterator[tuple[Any, int, tuple[Any] | None]]:
    """Call new subjects, each interrupted a moment later than the one before.

    Yields
    ------
    tuple
        The subject, how many calls of it had taken effect before, and a tuple with the result of the call,
        unless that was interrupted. At last there is none left to interrupt.
    """
    at, is_over = 0, False
    while not is_over:
        at += 1
        each = subject()
        before, raiser, result = each.calls, Raiser(at), None
        # What is raised within a callback of the garbage collector is not raised by the call.
        gc.disable()
        sys.settrace(raiser)
        try:
            result = (assigned(lambda: call(each)),)  # noqa: B023
        except Moment:
            pass
        finally:
            sys.settrace(None)
            gc.enable()
        is_over = raiser.left > 0
        yield each, before, result
