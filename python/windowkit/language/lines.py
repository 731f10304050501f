"""What `explain` returns: a line for each thing that is said, whatever names are in it."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["text_of"]


def text_of(lines: Iterable[str]) -> str:
    r"""Return lines as one text. A name that has a newline begins no line of its own.

    Examples
    --------
    >>> print(text_of(["query by k", "  sum(v\nwindows): int64"]))
    query by k
      sum(v\nwindows): int64
    """
    return "\n".join(line.replace("\n", r"\n") for line in lines)
