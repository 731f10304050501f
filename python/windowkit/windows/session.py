"""Windows of activity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from windowkit.durations import Duration, Length, Measure, length
from windowkit.windows.base import Assembly, Window, require_no_rows, require_positive, units
from windowkit.windows.tumbling import Specification


@dataclass(frozen=True)
class Session(Window):
    """Windows that end once no row has come for `gap`; see `session`."""

    kind: ClassVar[str] = "session"
    gap: Measure

    def __post_init__(self) -> None:
        require_no_rows("gap", self.gap)
        require_positive("gap", self.gap)

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        return [str(self.gap)]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return "context aware, but its fragments merge, so that no rows are kept"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "fragments"

    def lengths(self) -> Mapping[str, Measure | None]:
        """Return the gap."""
        return {"gap": self.gap}

    @property
    def is_time(self) -> bool:
        """Whether the gap is a duration; else it is units of an integer time column."""
        return isinstance(self.gap, Duration)

    def specification(self) -> Specification:
        """Return ``(kind, name, gap, 0, 0, is_time)``, the gap in nanoseconds or in units."""
        return self.kind, self.name, units(self.gap), 0, 0, self.is_time


def session(gap: Length) -> Session:
    """Windows of activity: rows of one key with no pause longer than `gap`.

    Parameters
    ----------
    gap : str, datetime.timedelta or int
        Greater than zero: a duration, or an ``int`` in the units of an integer column. A row exactly `gap`
        after the last one still joins its session, as in Spark.

    Returns
    -------
    Session
        The windows ``[first row, last row + gap)``. Context aware, but out-of-order rows only ever join
        fragments, so partial aggregates suffice and no rows are kept (Traub et al. 2019, §5.1): O(log n)
        work and O(1) memory per fragment.

    Raises
    ------
    InvalidType, InvalidValue
        `gap` is not a length, or is not positive.

    Examples
    --------
    >>> print(session("30 seconds").alias("visit"))
    session(30 seconds) as visit
    """
    return Session(length("gap", gap))
