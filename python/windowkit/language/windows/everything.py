"""One window of all rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from windowkit.language.windows.base import Assembly, Window


@dataclass(frozen=True, repr=False)
class Global(Window):
    """All rows of a key; see `global_window`."""

    kind: ClassVar[str] = "global_window"

    def arguments(self) -> Iterable[str]:
        """Return no arguments."""
        return []

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; all rows are in it"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "all"

    @property
    def rows_may_move(self) -> bool:
        """Whether a row that comes later may move others to other windows: there is only one."""
        return False

    @property
    def includes_end(self) -> bool:
        """Whether the window's end is the time of its last row: so it is."""
        return True

    @property
    def ends_with_stream(self) -> bool:
        """Whether only the end of the stream makes the window final: so it does."""
        return True


def global_window() -> Global:
    """One window of all rows of a key.

    Returns
    -------
    Global
        Its start and end are the times of the key's first and last row. Context free, of one slice: O(1) work
        per row, O(1) memory per key.

    Examples
    --------
    >>> print(global_window().alias("all"))
    global_window() as all
    """
    return Global()
