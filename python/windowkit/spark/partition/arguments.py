"""What the arguments of partitioning may be; no DataFrame is needed to check them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nextafter
from typing import Any, Final, TypedDict

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import checked_name, distinct_names, no_option, number, one_of
from windowkit.language.durations import Length
from windowkit.language.windows import Tumbling
from windowkit.partition.arguments import tumbling_window

__all__ = ["METHODS", "PLANNED", "ROW_BY_ROW", "WAYS", "Asked", "ByColumns", "Options"]

PLANNED: Final = ("waterfill", "hash", "shuffle")
ROW_BY_ROW: Final = ("waterfill", "partial-key", "cm", "am", "cam", "lm")
METHODS: Final = tuple(dict.fromkeys(PLANNED + ROW_BY_ROW))
ABBREVIATIONS: Final = {"wf": "waterfill", "sh": "shuffle", "fld": "hash", "pk": "partial-key"}
"""Of the paper, where a method has another name here."""
WAYS: Final = ("auto", "planned", "streaming")
MOST_PARTITIONS: Final = 1 << 16

Spread = str | Sequence[str]


def method(given: str) -> str:
    """Return the name of a method that is given by its name or the paper's abbreviation, in any case."""
    if isinstance(given, str):
        plain = given.lower().replace("_", "-")
        given = ABBREVIATIONS.get(plain, plain if plain in METHODS else given)
    return one_of("method", given, METHODS)


class ByColumns(TypedDict, total=False):
    """Options where a row's partition is a function of its columns; see `windowkit.spark.repartition`."""

    window: Tumbling | Length | None
    time: str | None
    sample: float | None
    spread: Spread


class Options(ByColumns, total=False):
    """All options of a partitioning."""

    way: str
    ordered: bool
    candidates: int | None
    cardinality: str
    bias: float
    seed: int


@dataclass(frozen=True)
class Asked:
    """Options of a partitioning, with their defaults."""

    way: str = "auto"
    window: Tumbling | Length | None = None
    time: str | None = None
    sample: float | None = None
    spread: Spread = "auto"
    ordered: bool = False
    candidates: int | None = None
    cardinality: str = "hll"
    bias: float = 0.5
    seed: int = 0

    @classmethod
    def of(cls, kind: type[ByColumns], given: Mapping[str, Any]) -> Asked:
        """Return options that are given, all of which `kind` has."""
        for name in given:
            if name not in kind.__annotations__:
                raise no_option(name, kind.__annotations__)
        return cls(**given)

    def checked(self) -> tuple[Tumbling | None, tuple[str, ...] | None]:
        """Return the window and the columns that distinguish rows, once each option is checked by itself."""
        one_of("way", self.way, WAYS)
        window = checked_window(self.window, self.time)
        if self.sample is not None:
            number(
                "sample", self.sample, "sample is a number above 0, at most 1, or None", nextafter(0, 1), 1
            )
        return window, checked_spread(self.spread)

    def refuse_unread(self, method: str, way: str) -> None:
        """Refuse what is given and would have no effect."""
        counts = method == "waterfill" and way == "planned"
        what = f"method {method!r} in the {way} way"
        if self.sample is not None and not counts:
            raise InvalidValue(f"sample: {self.sample} is given, and {what} counts no rows; leave it out")
        if self.spread != "auto" and not counts:
            raise InvalidValue(
                f"spread: {self.spread!r} is given, and {what} splits no keys by content; leave it out"
            )
        if self.candidates is not None and method in PLANNED:
            raise InvalidValue(
                f"candidates: {self.candidates} is given, and {what} has no candidates; leave it out"
            )
        if self.window is not None and method == "shuffle":
            raise InvalidValue(
                f"window: {tumbling_window(self.window)} is given, and {what} balances the rows of every "
                "window anyway; leave it out"
            )


def checked_window(window: Tumbling | Length | None, time: str | None) -> Tumbling | None:
    """Return the window to balance, of what `windowkit.tumbling` takes."""
    if window is None:
        if time is not None:
            raise InvalidValue(f"time: {time!r} is given without a window; time is the time column of window")
        return None
    window = tumbling_window(window)
    if window.counts_rows:
        raise InvalidType(
            f"window: {window} counts rows, which have no order in Spark; window is a tumbling window over "
            "time"
        )
    if time is None:
        raise InvalidValue("time: None is given with a window; time is the name of the time column")
    checked_name("time", time)
    return window


def checked_spread(spread: Spread) -> tuple[str, ...] | None:
    """Return the columns that the caller names; None if it is to be found out, or is the position."""
    allowed = "'auto', 'position', or a sequence of names of columns"
    if isinstance(spread, str):
        if spread not in ("auto", "position"):
            raise InvalidValue(f"spread: {spread!r} is unknown; spread is {allowed}")
        return None
    names = distinct_names("spread", spread, allowed)
    if not names:
        raise InvalidValue(f"spread: () is empty; spread is {allowed}")
    return names
