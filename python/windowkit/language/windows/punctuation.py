"""Windows between marked rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pyarrow as pa

from windowkit.language.arguments import hinted
from windowkit.language.checks import checked_name, one_of
from windowkit.language.windows.base import Assembly, Window
from windowkit.language.windows.grammar import bare


@dataclass(frozen=True, repr=False)
class Punctuation(Window):
    """Runs of rows that end, or begin, with a marked row; see `punctuation`."""

    kind: ClassVar[str] = "punctuation"
    column: str
    at: Literal["end", "start"] = "end"

    def __post_init__(self) -> None:
        checked_name("column", self.column)
        one_of("at", self.at, ("end", "start"))

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        return [bare(self.column), *(["at=start"] if self.at == "start" else [])]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; a marked row is an edge"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "range"

    @property
    def columns(self) -> tuple[str, ...]:
        """The column that marks rows."""
        return (self.column,)

    def column_types(self, time: pa.DataType) -> Mapping[str, pa.DataType]:
        """Return the type of marks: booleans."""
        return dict.fromkeys(self.columns, pa.bool_())


@hinted
def punctuation(column: str, *, at: Literal["end", "start"] = "end") -> Punctuation:
    """Windows delimited by marked rows, each of which ends, or begins, a window.

    Parameters
    ----------
    column : str
        A boolean column; a null marks no row.
    at : str, default "end"
        ``"end"``: a marked row is the last of its window; ``"start"``: it is the first.

    Returns
    -------
    Punctuation
        The longest runs of a key's rows, in the order of time and then of arrival, that end (or begin) with a
        marked row and have no other. Rows after the last mark (before the first, with "start") are a window,
        too.
        Start and end of a window are the times of its first and last row. Forward context free: O(1) work per
        row (Traub et al. 2019, §4.4); rows are stored until all have arrived.

    Raises
    ------
    InvalidType, InvalidValue
        `column` is not a name, or `at` something else.

    Examples
    --------
    >>> print(punctuation("lap done"))
    punctuation(`lap done`)
    >>> print(punctuation("started", at="start"))
    punctuation(started, at=start)
    """
    return Punctuation(column, at)
