"""What results say of windows without rows, between a key's first window and its last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from windowkit.errors import InvalidValue
from windowkit.language.checks import one_of, suggested, wrong_type
from windowkit.language.windows import Window

__all__ = ["FILLS", "Fill", "check_windows", "checked", "described", "form_of", "of_each", "refuse_stream"]

FILLS: Final = ("null", "zero", "previous")
ALLOWED: Final = (
    f"it is one of {', '.join(map(repr, FILLS))}, or a mapping to these from the names of aggregates in the "
    "result; aggregates that are not in the mapping are null"
)

Fill: TypeAlias = str | tuple[tuple[str, str], ...]
"""One of `FILLS`, or pairs of these with the names of aggregates."""


def checked(fill: object, names: Sequence[str]) -> Fill | None:
    """Return how the aggregates of these names are filled, as a value that can be hashed.

    Raises
    ------
    InvalidType, InvalidValue
        It is not what `windowkit.query` takes.
    """
    if fill is None:
        return None
    if isinstance(fill, str):
        return one_of("fill", fill, FILLS)
    # What a query holds of a mapping.
    if isinstance(fill, tuple) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in fill):
        fill = dict(fill)
    if not isinstance(fill, Mapping):
        raise wrong_type("fill", fill, ALLOWED)
    for name, how in fill.items():
        if name not in names:
            meant = suggested(name, names) if isinstance(name, str) else ""
            raise InvalidValue(
                f"fill: {name!r} is not an aggregate of the query; its aggregates are "
                f"{', '.join(map(repr, names))}{meant}"
            )
        one_of("fill", how, FILLS)
    # In the order of the aggregates, so that equal queries are equal.
    return tuple((name, fill[name]) for name in names if name in fill)


def check_windows(windows: Sequence[Window]) -> None:
    """Refuse windows of which none are known to be missing."""
    for window in windows:
        if not window.follows_in_time:
            raise InvalidValue(
                f"fill: {window} is among the windows, and without rows nothing says which of its windows "
                "are missing; allowed are tumbling and sliding windows over time or integers, and those of a "
                "calendar. Leave fill out, or make a query of its own for the other windows"
            )


def of_each(fill: Fill | None, names: Sequence[str]) -> list[str] | None:
    """Return how each aggregate is filled, as the native core takes it."""
    if fill is None or isinstance(fill, str):
        return None if fill is None else [fill] * len(names)
    given = dict(fill)
    return [given.get(name, "null") for name in names]


def form_of(fill: Fill) -> str | dict[str, str]:
    """Return what `windowkit.query` takes for it."""
    return fill if isinstance(fill, str) else dict(fill)


def described(fill: Fill | None) -> list[str]:
    """Return what `explain` says of windows without rows: a line, if they are filled."""
    if fill is None:
        return []
    ways = fill if isinstance(fill, str) else ", ".join(f"{name} {how}" for name, how in fill)
    rest = "" if isinstance(fill, str) else "; other aggregates null"
    return [f"  without rows, between a key's first and last: {ways}{rest}"]


def refuse_stream(fill: Fill | None) -> None:
    """Refuse to fill the results of a stream."""
    if fill is not None:
        raise InvalidValue(
            f"fill: {form_of(fill)!r} is given for a stream, where windows without rows are not emitted: a "
            "key may never have another row, its last window would have to be held for ever, and late rows "
            "may fall into windows that were filled. Leave fill out; query.run over the stored rows fills "
            "them"
        )
