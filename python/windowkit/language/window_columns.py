"""How results hold windows: in two columns, as one struct, or as the day on which each begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple, TypeAlias

from windowkit.errors import InvalidValue
from windowkit.language.durations import Duration
from windowkit.language.intervals import NANOSECONDS
from windowkit.language.windows import Window

__all__ = ["HALF_A_DAY", "WINDOW_COLUMNS", "Day", "WindowColumns", "day_of", "refuse_other_days"]

WindowColumns: TypeAlias = Literal["flat", "struct", "date"]
WINDOW_COLUMNS: Final[tuple[WindowColumns, ...]] = ("flat", "struct", "date")
"""How results hold windows; the first is the default, for every engine."""
HALF_A_DAY: Final = NANOSECONDS["day"] // 2


class Day(NamedTuple):
    """How the day on which a window begins is found.

    Where clocks skip the time at which it should begin, it begins a little later, which may be on the next
    day by the clock. So the day is that of the start, less `shift`, at the nearest midnight.

    Parameters
    ----------
    zone : str or None
        By whose clocks; None for UTC, or for the clocks of times without a zone.
    shift : int
        How long after midnight windows begin, in nanoseconds.
    """

    zone: str | None
    shift: int

    def __str__(self) -> str:
        begin = f", which begin {Duration(self.shift)} after midnight" if self.shift else ""
        return f"days {'without a zone' if self.zone is None else f'of {self.zone}'}{begin}"


def day_of(windows: Sequence[Window]) -> Day:
    """Return how the days on which windows begin are found.

    Raises
    ------
    InvalidValue
        They do not each begin on a day of its own, or not all of them on days of the same clocks.
    """
    found: dict[Window, Day] = {}
    for window in windows:
        shift = window.day_shift
        if shift is None:
            raise InvalidValue(
                f"window_columns: 'date' is given, and windows of {window} do not each begin on another day; "
                "allowed are tumbling and sliding windows that begin every so many days, weeks, months, "
                "quarters or years, or else 'flat' or 'struct'"
            )
        found[window] = Day(window.local_zone, shift)
    refuse_other_days("window_columns", {str(window): day for window, day in found.items()})
    return found[windows[0]]


def refuse_other_days(argument: str, days: Mapping[str, Day]) -> None:
    """Refuse days of unlike clocks, by what has them.

    Raises
    ------
    InvalidValue
    """
    (first, own), *others = days.items()
    for name, day in others:
        if day != own:
            raise InvalidValue(
                f"{argument}: 'date' is given for {first}, of {own}, and for {name}, of {day}; allowed are "
                "windows of one zone and one start_time, or else 'flat' or 'struct'"
            )
