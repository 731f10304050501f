"""One fixed window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.moments import Moment, Place, PlaceLike, kind_of_place, place
from windowkit.language.windows.base import Assembly, Window, units


@dataclass(frozen=True, repr=False)
class Band(Window):
    """The window ``[start, end)``; see `band`."""

    kind: ClassVar[str] = "band"
    start: Place
    end: Place

    def __post_init__(self) -> None:
        if kind_of_place(self.start) != kind_of_place(self.end):
            raise InvalidType(
                f"end: {self.end} is {kind_of_place(self.end)} where start {self.start} is "
                f"{kind_of_place(self.start)}; both are of one kind"
            )
        if units(self.start) >= units(self.end):
            raise InvalidValue(
                f"end: {self.end} is not after start {self.start}; a window ends after its start"
            )

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        return [str(self.start), str(self.end)]

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        return f"{context}; there is one, for rows in it"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "all"

    @property
    def known_before_rows(self) -> bool:
        """Whether streams know where a window is before its rows, so that `windowkit.at` can be of it."""
        return True

    @property
    def rows_may_move(self) -> bool:
        """Whether a row that comes later may move others to other windows: there is only one."""
        return False

    @property
    def known_length(self) -> int:
        """How long the window is."""
        return units(self.end) - units(self.start)

    def lengths(self) -> Mapping[str, Place | Moment | None]:
        """Return start and end."""
        return {"start": self.start, "end": self.end}


@hinted
def band(start: PlaceLike, end: PlaceLike) -> Band:
    """One fixed window.

    Parameters
    ----------
    start, end : datetime.datetime, datetime.date, datetime.timedelta, str or int
        Of the kind of the time column: times (or strings like ``"2024-01-31 12:00:00"``), with a zone if and
        only if the column has one; dates; durations; integers. `end` is after `start`.

    Returns
    -------
    Band
        The window ``[start, end)``. Context free: O(1) work per row (Traub et al. 2019, §4.4).

    Raises
    ------
    InvalidType, InvalidValue
        `start` and `end` are of different kinds, or of no such kind, or `end` is not after `start`.

    Examples
    --------
    >>> print(band("2024-01-31", "2024-02-01 12:00"))
    band(2024-01-31 00:00:00, 2024-02-01 12:00:00)
    >>> print(band(0, 100))
    band(0, 100)
    """
    return Band(place("start", start), place("end", end))
