"""What windowkit raises: one family of exceptions, each also the fitting builtin.

Every message has the form ``argument: what was given; what is allowed``. The native core raises these
very classes, so ``except windowkit.WindowKitError`` catches whatever the package refuses, and ``except
ValueError`` (``TypeError``, ``KeyError``, ``OverflowError``) does what it says. A name says what is wrong, as
``windowkit.UnknownColumn`` does; the suffix "Error" would add nothing to it.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "InternalError",
    "InvalidType",
    "InvalidValue",
    "Overflow",
    "UnknownColumn",
    "WindowKitError",
]

LONGEST: Final = 10_000
"""Characters of a message, which repeats what was given: enough for the traceback of a worker."""


class WindowKitError(Exception):
    """Base of everything windowkit raises on purpose.

    Examples
    --------
    >>> len(str(WindowKitError("unit: '" + 10**8 * "s" + "' is unknown; allowed are 's', 'm'"))) <= 10_000
    True
    """

    def __init__(self, message: object = "") -> None:
        text = str(message)
        if len(text) > LONGEST:
            # Shorter than the longest, so that what was pickled stays as it is.
            half = LONGEST // 2 - 50
            text = f"{text[:half]} … [{len(text) - 2 * half:,} characters] … {text[-half:]}"
        super().__init__(text)


class InvalidValue(WindowKitError, ValueError):  # noqa: N818
    """An argument of the right type has a value outside what is allowed."""


class InvalidType(WindowKitError, TypeError):  # noqa: N818
    """An argument, or a column an argument names, has a type outside what is allowed."""


class UnknownColumn(WindowKitError, KeyError):  # noqa: N818
    """An argument names a column that the data does not have.

    Examples
    --------
    >>> print(UnknownColumn("time: no column 'when'; columns are 'ts', 'v'"))
    time: no column 'when'; columns are 'ts', 'v'
    """

    def __str__(self) -> str:
        # KeyError shows the repr of its argument; ours is a sentence, not a key.
        return Exception.__str__(self)


class Overflow(WindowKitError, OverflowError):  # noqa: N818
    """A result does not fit its type: the true sum or mean of a window, or a window's start or end."""


class InternalError(WindowKitError, RuntimeError):
    """A defect of windowkit itself, caught at the boundary of the native core. Please report it."""
