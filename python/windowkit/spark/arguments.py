"""What the arguments of partitioning may be; no DataFrame is needed to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.query import items
from windowkit.windows import Tumbling, checked_name

__all__ = ["METHODS", "PLANNED", "ROW_BY_ROW", "WAYS", "Spread"]

PLANNED: Final = ("waterfill", "hash", "shuffle")
ROW_BY_ROW: Final = ("waterfill", "partial-key", "cm", "am", "cam", "lm")
METHODS: Final = tuple(dict.fromkeys(PLANNED + ROW_BY_ROW))
WAYS: Final = ("auto", "planned", "streaming")
MOST_PARTITIONS: Final = 1 << 16

Spread = str | Sequence[str]


def check_partitions(n: int) -> None:
    if isinstance(n, bool) or not isinstance(n, int):
        raise InvalidType(f"n: {n!r} is a {type(n).__name__}; n is an int from 1 to {MOST_PARTITIONS:,}")
    if not 1 <= n <= MOST_PARTITIONS:
        raise InvalidValue(f"n: {n} partitions are asked for; n is an int from 1 to {MOST_PARTITIONS:,}")


def chosen(argument: str, given: str, allowed: Sequence[str]) -> None:
    names = ", ".join(map(repr, allowed))
    if not isinstance(given, str):
        raise InvalidType(f"{argument}: {given!r} is a {type(given).__name__}; {argument} is one of {names}")
    if given not in allowed:
        raise InvalidValue(f"{argument}: {given!r} is unknown; {argument} is one of {names}")


def check_window(window: Tumbling | None, time: str | None) -> None:
    if window is None:
        if time is not None:
            raise InvalidValue(f"time: {time!r} is given without a window; time is the time column of window")
        return
    if not isinstance(window, Tumbling):
        raise InvalidType(
            f"window: {window!r} is a {type(window).__name__}; window is a tumbling window, as loads are "
            "counted anew where it ends, or None"
        )
    if time is None:
        raise InvalidValue("time: None is given with a window; time is the name of the time column")
    checked_name("time", time)


def check_sample(sample: float | None) -> None:
    if sample is None:
        return
    if isinstance(sample, bool) or not isinstance(sample, int | float):
        raise InvalidType(
            f"sample: {sample!r} is a {type(sample).__name__}; sample is a number above 0, at most 1, or None"
        )
    if not 0 < sample <= 1:
        raise InvalidValue(
            f"sample: {sample} is out of range; sample is a number above 0, at most 1, or None"
        )


def checked_spread(spread: Spread) -> tuple[str, ...] | None:
    """Return the columns that the caller names; None if it is to be found out, or is the position."""
    allowed = "'auto', 'position', or a sequence of names of columns"
    if isinstance(spread, str):
        if spread not in ("auto", "position"):
            raise InvalidValue(f"spread: {spread!r} is unknown; spread is {allowed}")
        return None
    names = tuple(checked_name("spread", name) for name in items("spread", spread, str, allowed))
    if not names:
        raise InvalidValue(f"spread: () is empty; spread is {allowed}")
    refuse_repeated("spread", names)
    return names


def refuse_repeated(argument: str, names: Sequence[str]) -> None:
    """Refuse a column that is named twice."""
    seen = set()
    for name in names:
        if name in seen:
            raise InvalidValue(f"{argument}: {name!r} is given twice; each column is given once")
        seen.add(name)
