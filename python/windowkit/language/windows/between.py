"""Windows between predicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from windowkit.language.arguments import hinted
from windowkit.language.checks import boolean, checked_name
from windowkit.language.windows.base import Assembly, Window
from windowkit.language.windows.grammar import bare


@dataclass(frozen=True, repr=False)
class Between(Window):
    """Runs of rows from one that enters to the next that leaves; see `between`."""

    kind: ClassVar[str] = "between"
    enter: str
    leave: str
    exclusive: bool = False

    def __post_init__(self) -> None:
        checked_name("enter", self.enter)
        checked_name("leave", self.leave)
        boolean("exclusive", self.exclusive)

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        return [bare(self.enter), bare(self.leave), *(["exclusive"] if self.exclusive else [])]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; a row is in one window, or in none"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "range"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that begin and end windows."""
        return (self.enter, self.leave)

    def column_types(self, time: pa.DataType) -> Mapping[str, pa.DataType]:
        """Return the type of predicates: booleans."""
        return dict.fromkeys(self.columns, pa.bool_())


@hinted
def between(enter: str, leave: str, *, exclusive: bool = False) -> Between:
    """Windows between predicates: from a row in which one holds to the next in which the other does.

    Parameters
    ----------
    enter : str
        A boolean column: a row in which it is true begins a window, unless one is open. A null is false.
    leave : str
        A boolean column: the first row in which it is true, from the window's first row on, is the window's
        last. It may be the first row itself.
    exclusive : bool, default False
        The row that leaves a window is not in it; it may begin the next. A window then has a row before that
        one: its first row does not leave it.

    Returns
    -------
    Between
        Runs of a key's rows in the order of time, and then of arrival. Rows outside are in no window. A
        window that is open when there are no more rows ends with the last of them. Start and end of a window
        are the times of its first and last row. Forward context free (Traub et al. 2019, §4.4; Onyx's design
        notes ask for such predicates): O(1) work per row; rows are stored until all have arrived.

    Raises
    ------
    InvalidType, InvalidValue
        `enter` or `leave` is not a name, or `exclusive` not a bool.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> v = [20, 31, 28, 33, 19, 20, 35]
    >>> table = pa.table({"t": range(7), "v": v, "hot": [x > 30 for x in v], "cold": [x < 20 for x in v]})
    >>> query = wk.query(by=[], time="t", windows=wk.between("hot", "cold"), aggs=wk.collect_list("v"))
    >>> for row in query.run(table).to_pylist():
    ...     print(row)
    {'window_start': 1, 'window_end': 4, 'collect_list(v)': [31, 28, 33, 19]}
    {'window_start': 6, 'window_end': 6, 'collect_list(v)': [35]}
    """
    return Between(enter, leave, exclusive)
